"""The batches in any bytes, the slow way: every byte is asked for a CRC."""

from __future__ import annotations

from crc32c import crc32c


def whole_batches(data: bytes) -> list[tuple[int, int]]:
    """Every batch of magic 2 that lies whole in some bytes; of those inside another one only the outer."""
    found: list[tuple[int, int]] = []
    at = data.find(b"\x02")
    while at >= 0:
        start = at - 16
        size = int.from_bytes(data[start + 8 : start + 12], "big", signed=True) if start >= 0 else -1
        end = start + 12 + size
        if size >= 49 and end <= len(data) and (not found or start >= sum(found[-1])):
            stored = int.from_bytes(data[start + 17 : start + 21], "big")
            if crc32c(data[start + 21 : end]) == stored:
                found.append((start, end - start))
        at = data.find(b"\x02", at + 1)
    return found
