"""What is read, and held, at most."""

from __future__ import annotations

from kdump.value import Value

MAX_BATCH_BYTES = 64 * 1024 * 1024
MAX_UNCOMPRESSED_BYTES = 256 * 1024 * 1024
HELD_KEY_BYTES = 64 * 1024 * 1024
"""Bytes of keys that are held at most, where records are followed by their keys."""


class ReadLimits(Value):
    """What is read of a batch at most."""

    max_batch_bytes: int = MAX_BATCH_BYTES  # the records of a larger batch are not read
    max_uncompressed_bytes: int = MAX_UNCOMPRESSED_BYTES  # that the records of one batch may have when decompressed
