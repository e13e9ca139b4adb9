"""What is read of a batch at most."""

from __future__ import annotations

from kdump.value import Value


class ReadLimits(Value):
    """What is read of a batch at most.

    Args:
        max_batch_bytes: the records of a larger batch are not read.
        max_uncompressed_bytes: that the records of one batch may have when decompressed.
    """

    max_batch_bytes: int
    max_uncompressed_bytes: int
