"""What is read of a batch at most."""

from __future__ import annotations

from kdump.value import Value

MAX_BATCH_BYTES = 64 * 1024 * 1024
MAX_UNCOMPRESSED_BYTES = 256 * 1024 * 1024


class ReadLimits(Value):
    """What is read of a batch at most.

    Args:
        max_batch_bytes: the records of a larger batch are not read.
        max_uncompressed_bytes: that the records of one batch may have when decompressed.
    """

    max_batch_bytes: int = MAX_BATCH_BYTES
    max_uncompressed_bytes: int = MAX_UNCOMPRESSED_BYTES
