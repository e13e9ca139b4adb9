"""The options of retention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.value import Value

if TYPE_CHECKING:
    from kdump.broker.config import Config


class RetentionOptions(Value):
    """The options of retention.

    Args:
        config: of the broker and its topics.
        now: the clock, ms.
        high_watermark: of each log; None for its end.
        log_start_offset: of each log; None for what the checkpoint says.
        compaction: say what the cleaner does.
        clean: simulate a pass of it.
        collect: keep lists of batches and offsets.
        progress: yield how far it is.
        jobs: processes; 0 for one on each core.
        max_batch_bytes, max_uncompressed_bytes: limits.
    """

    config: Config
    now: int
    high_watermark: int | None
    log_start_offset: int | None
    compaction: bool
    clean: bool
    collect: bool
    progress: bool
    max_batch_bytes: int
    max_uncompressed_bytes: int
    jobs: int = 1
