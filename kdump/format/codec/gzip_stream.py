"""gzip: members of RFC 1952, read with Python's zlib.

Other libraries were tried in paired runs of `dump --print-data-log` over 200 MB of gzip, CPU of the whole command: isal
is 1.4 times faster, zlib-ng 1.2 times. Neither is used: isal takes some damaged streams for sound that zlib and Java
refuse (reserved flags, incomplete sets of codes: 94 of 22,628 that were tried), and zlib-ng gains too little.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from kdump.finding import Code
from kdump.format.codec.base import CodecProblem, Pieces, StreamDamage

if TYPE_CHECKING:
    from collections.abc import Generator
    from zlib import _Decompress as Decompress

MAGIC = b"\x1f\x8b"
HEADER_ERRORS = ("incorrect header check", "unknown compression method", "header crc mismatch")
FLAGS_AT = 3
RESERVED_FLAGS = 0xE0
GZIP_WBITS = 31
# zlib hands back what it did not read as a copy: small slices keep a bomb from costing input size times
# steps.
SLICE = 65536
_PIECE = 65536  # bytes decoded at once: malloc gives larger ones back each time, and the system clears them again
CAREFUL_SLICE = 512


class GzipReader:
    """Reads sound gzip members one after the other, the trailers checked by zlib.

    Args:
        data: the whole section.
    """

    def __init__(self, data: memoryview) -> None:
        self.problem: CodecProblem | None = None
        self._data = data
        self._position = 0
        self._member = zlib.decompressobj(GZIP_WBITS)
        self._ended = False

    def read_into(self, target: memoryview) -> int:
        """Fill `target`; see FastReader."""
        filled = 0
        while filled < len(target) and not self._ended:
            if self._member.eof:
                self._next_member()
                continue
            piece = self._step(min(len(target) - filled, _PIECE))
            target[filled : filled + len(piece)] = piece
            filled += len(piece)
        return filled

    def _step(self, length: int) -> bytes:
        feed = self._member.unconsumed_tail or self._data[self._position : self._position + SLICE]
        if not self._member.unconsumed_tail:
            self._position += len(feed)
        try:
            piece = self._member.decompress(feed, length)
        except zlib.error:
            raise StreamDamage from None
        if not piece and not feed and not self._member.eof:
            self.problem = ends_early(self._data)
            self._ended = True
        return piece

    def _next_member(self) -> None:
        self._position -= len(self._member.unused_data)
        left = len(self._data) - self._position
        if self._data[self._position : self._position + 2] == MAGIC:
            self._member = zlib.decompressobj(GZIP_WBITS)
            return
        self._ended = True
        if left:
            self.problem = bytes_after(left)


def ends_early(data: memoryview) -> CodecProblem:
    """Return the problem of a section that lacks its end."""
    why = "the gzip data ends early" if data else "there is no gzip data at all"
    return CodecProblem(Code.C02, why, fatal=True)


def bytes_after(count: int) -> CodecProblem:
    """Return the problem of a section with `count` bytes after the last member."""
    return CodecProblem(Code.C02, f"{count} bytes follow the end of the gzip data", fatal=False)


def read_carefully(data: memoryview) -> Pieces:
    """Decode damaged members up to the byte where zlib fails.

    Args:
        data: the whole section.

    Yields:
        Decoded bytes, from the first one on.

    Returns:
        What is wrong.
    """
    position, odd = 0, None
    while True:
        if has_reserved_flags(data, position):
            data = without_reserved_flags(data, position)
            odd = CodecProblem(Code.C01, "reserved flags are set in the gzip header", fatal=False)
        message, end = yield from read_member(data, position)
        if message in HEADER_ERRORS and position:
            return bytes_after(len(data) - position)
        if message is not None:
            return judge(message, data)
        if data[end : end + 2] != MAGIC:
            return odd or (bytes_after(len(data) - end) if end < len(data) else None)
        position = end


def read_member(data: memoryview, position: int) -> Generator[bytes, None, tuple[str | None, int]]:
    """Decode one member in small slices, so that an error costs nothing that was decoded before it.

    Args:
        data: the whole section.
        position: where the member begins.

    Yields:
        Decoded bytes.

    Returns:
        What zlib said ("" where the data ended early, None where all is well) and the position after the
        member.
    """
    member = zlib.decompressobj(GZIP_WBITS)
    anchor, anchor_position, since = member.copy(), position, 0
    while not member.eof:
        feed = data[position : position + CAREFUL_SLICE]
        before = member.copy()
        try:
            piece = member.decompress(feed)
        except zlib.error as error:
            yield decode_until_error(anchor, data[anchor_position : position + len(feed)])[since:]
            return str(error).partition(": ")[2], position
        yield piece
        if not feed and not member.eof:
            return "", position
        anchor, anchor_position, since = before, position, len(piece)
        position += len(feed)
    return None, position - len(member.unused_data)


def has_reserved_flags(data: memoryview, position: int) -> bool:
    """Return whether the header at `position` has flags that zlib refuses; Java does not look at them."""
    return len(data) > position + FLAGS_AT and bool(data[position + FLAGS_AT] & RESERVED_FLAGS)


def without_reserved_flags(data: memoryview, position: int) -> memoryview:
    """Return a copy of the section with the reserved flags of the header at `position` cleared."""
    copy = bytearray(data)
    copy[position + FLAGS_AT] &= ~RESERVED_FLAGS
    return memoryview(copy)


def decode_until_error(member: Decompress, data: memoryview) -> bytes:
    """Return what zlib writes before it fails; `decompress` drops that, `flush` does not."""
    try:
        # the one byte makes zlib keep the rest of the input for flush
        return member.decompress(data, 1) + member.flush()
    except zlib.error:
        return b""


def judge(message: str, data: memoryview) -> CodecProblem:
    """Return the problem that a message of zlib stands for."""
    if not message:
        return ends_early(data)
    if message == "incorrect data check":
        return CodecProblem(Code.C01, "the CRC in the gzip trailer is wrong", fatal=False)
    if message == "incorrect length check":
        return CodecProblem(Code.C04, "the length in the gzip trailer is not that of the data", fatal=False)
    return CodecProblem(Code.C01, message, fatal=True)
