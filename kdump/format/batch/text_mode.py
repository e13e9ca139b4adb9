"""Whether a log was copied in text mode, which makes CR LF of each LF, or LF of each CR LF.

Strategy: at a batch that is damaged, the change is undone, and the CRC of what comes out is the proof. CR LF back to LF
is one way; where a CR was taken away nobody knows, so LFs are tried, all and a few of them, within a budget.
"""

from __future__ import annotations

from itertools import chain, combinations
from typing import TYPE_CHECKING

from kdump.format.batch import layout
from kdump.format.checksum import crc32, crc32c

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.format.source import Source

_BUDGET = 16 * 1024 * 1024  # bytes that CRCs are computed over, for one batch
_TRIES = 4000
_MOST = 4  # carriage returns that a batch may lack, unless it lacks all


def as_text(source: Source, position: int, max_batch_bytes: int) -> str | None:
    """Return what a copy in text mode has done to the batch at a position, in words; None where it is not that.

    Args:
        source: the log.
        position: where a batch begins that is damaged, bytes.
        max_batch_bytes: no batch over this is looked at.
    """
    if _has_cr(source, position, max_batch_bytes):
        return "each LF has become CR LF"
    if _lacks_cr(source, position, max_batch_bytes):
        return "each CR LF has become LF"
    return None


def _has_cr(source: Source, position: int, limit: int) -> bool:
    head = source.read_at(position, 2 * layout.RECORDS_AT).replace(b"\r\n", b"\n")
    size = _size(head)
    if not layout.MIN_SIZE_V0 <= size - layout.LOG_OVERHEAD <= limit:
        return False
    data = source.read_at(position, 2 * size)
    undone = data.replace(b"\r\n", b"\n")[:size]
    return undone != data[:size] and _is_batch(undone)


def _lacks_cr(source: Source, position: int, limit: int) -> bool:
    data = source.read_at(position, layout.RECORDS_AT)
    size = _size(data)
    if not layout.MIN_SIZE_V0 <= size - layout.LOG_OVERHEAD <= limit:
        return False
    data = source.read_at(position, size)
    if b"\r\n" in data:
        return False
    places = [at for at, byte in enumerate(data) if byte == 10]
    texts = [at for at in places if at and 0x20 <= data[at - 1] < 0x7F]  # not those that are numbers
    choices = chain([texts], _choices(places, min(_TRIES, _BUDGET // size)))
    return any(chosen and _is_batch(_with_cr(data, chosen)[:size]) for chosen in choices)


def _choices(places: Sequence[int], most: int) -> Iterator[Sequence[int]]:
    """Which of the line ends may have lost a CR: all of them, then few; no more than so many choices."""
    if not places:
        return
    for lost in range(len(places), 0, -1):  # all line ends of a text: those that the batch still has
        if most <= 0 or len(places) - lost > _MOST:
            break
        yield places[:lost]
        most -= 1
    for count in range(1, _MOST + 1):
        for chosen in combinations(places, count):
            if most <= 0:
                return
            yield chosen
            most -= 1


def _with_cr(data: bytes, places: Sequence[int]) -> bytes:
    parts, start = [], 0
    for at in places:
        parts += [data[start:at], b"\r"]
        start = at
    return b"".join([*parts, data[start:]])


def _size(head: bytes) -> int:
    """The bytes that a batch has by its header, 0 where there is no whole header."""
    if len(head) < layout.MAGIC_AT + 1:
        return 0
    return int.from_bytes(head[layout.SIZE_AT : layout.SIZE_AT + 4], "big", signed=True) + layout.LOG_OVERHEAD


def _is_batch(data: bytes) -> bool:
    """Whether these bytes are one batch with the right CRC."""
    if _size(data) != len(data):
        return False
    if data[layout.MAGIC_AT] == layout.MAGIC_V2:
        at, body = layout.CRC_AT, data[layout.ATTRIBUTES_AT :]
        return len(data) >= layout.RECORDS_AT and crc32c(body) == int.from_bytes(data[at : at + 4], "big")
    at, body = layout.LEGACY_CRC_AT, data[layout.MAGIC_AT :]
    return data[layout.MAGIC_AT] < layout.MAGIC_V2 and crc32(body) == int.from_bytes(data[at : at + 4], "big")
