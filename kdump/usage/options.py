"""What du was asked for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kdump.broker.config import Config
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kdump.broker.config import ClusterSettings

BY_HEADERS = ("codec", "producer", "day")
BY_RECORDS = ("group", "key")
BY = ("topic", "partition", "kind", *BY_HEADERS, *BY_RECORDS)


class UsageOptions(Value):
    """What was asked for."""

    by: str  # one of BY
    top: int | None  # rows with a name; None for all
    superseded: bool  # count the records that a newer one of the same key replaces
    full_at: int | None  # bytes at which a disk is full; None: growth is not asked for
    now: int  # the clock, ms since the epoch
    config: Config  # of the broker and its topics
    # max_batch_bytes, max_uncompressed_bytes: limits
    max_batch_bytes: int
    max_uncompressed_bytes: int
    progress: bool = False  # say how far it is
    jobs: int = 1  # processes, one for a directory at a time; 0 for every core

    @property
    def reads_records(self) -> bool:
        """Whether headers are not enough."""
        return self.superseded or self.by in BY_RECORDS


def by_partition(
    max_batch_bytes: int, max_uncompressed_bytes: int, clusters: Sequence[ClusterSettings] = ()
) -> UsageOptions:
    """Return what the table `usage` has: all partitions, with the defaults of a broker, now.

    Args:
        max_batch_bytes, max_uncompressed_bytes: limits.
        clusters: what metadata logs among the inputs say of configurations.
    """
    now, config = time.time_ns() // 1_000_000, Config({}).within(clusters)
    return UsageOptions(
        "partition",
        None,
        False,
        full_at=None,
        now=now,
        config=config,
        max_batch_bytes=max_batch_bytes,
        max_uncompressed_bytes=max_uncompressed_bytes,
    )
