"""Chance that lies: numbers at limits, varints that nobody writes, bytes that were damaged."""

from __future__ import annotations

import random
import struct
import zlib
from typing import TYPE_CHECKING, TypeVar

from crc32c import crc32c

from tests.support.segments import varint

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

LIMITS = [0, 1, -1, 2, -2, 7, 127, 128, -128, 255, 256]
LIMITS += [sign * (1 << bits) + step for bits in (15, 16, 31, 32, 62, 63) for step in (-1, 0, 1) for sign in (1, -1)]
VARINTS = [
    bytes.fromhex(text)
    for text in (
        "8680808070",  # 3 in 32 bits, 15,032,385,539 in 64
        "8000",  # 0 in two bytes
        "8180808000",  # -1 in five
        "ffffffff0f",  # -2^31
        "feffffff0f",  # 2^31 - 1
        "ffffffffff0f",  # six bytes
        "ffffffff7f",
        "80808080808080808001",  # a bit beyond 64
        "ffffffffffffffffff01",  # -2^63
        "feffffffffffffffff01",  # 2^63 - 1
        "ffffffffffffffffffff01",  # eleven bytes
        "ff",
        "80",
        "03",
        "05",
    )
]


class Chance(random.Random):
    """A random number generator that also damages.

    Attributes:
        lies: how probable it is that a number is not the true one; 0 makes sound files.
    """

    lies = 0.0

    def often(self, probability: float) -> bool:
        """Whether something happens."""
        return self.random() < probability

    def lie(self) -> bool:
        """Whether the next number is not the true one."""
        return self.lies > 0 and self.random() < self.lies

    def among(self, many: Sequence[T]) -> T:
        """One of them."""
        return many[int(self.random() * len(many))]

    def number(self, true: int, bits: int) -> int:
        """A signed number of so many bits: the true one, or one near a limit or near the true one."""
        if self.lie():
            true = self.among(LIMITS) if self.often(0.7) else true + self.among([-2, -1, 1, 2, 100])
        true &= (1 << bits) - 1
        return true - (1 << bits) if true >> (bits - 1) else true

    def varint(self, true: int) -> bytes:
        """A zigzag varint: the true number as it is written, in more bytes than needed, or another one."""
        if not self.lie():
            return varint(true)
        kind = self.randrange(4)
        if kind == 0:
            return self.among(VARINTS)
        if kind == 1:
            return varint(self.among(LIMITS))
        if kind == 2:
            return varint(true + self.among([-2, -1, 1, 2]))
        return self.longer(varint(true))

    def longer(self, data: bytes) -> bytes:
        """The same varint in more bytes than it needs."""
        more = self.randrange(1, 6)
        return data[:-1] + bytes([data[-1] | 0x80]) + b"\x80" * (more - 1) + b"\0"

    def text(self, most: int = 12) -> bytes:
        """Bytes of keys and values: text, odd text, no text."""
        size = self.randrange(most + 1)
        kind = self.randrange(5)
        if kind == 0:
            return self.randbytes(size)
        if kind == 1:
            return self.among([b"\xed\xa0\x80", b"\xff\xfe", b"\x1b[31m", b"\xf0\x9f\x92\xa9", b'"\\\n\t', b"\0"]) * (
                1 + size // 4
            )
        return bytes(self.choices(b"abcdefgh0123 ", k=size))

    def damage(self, data: bytes, most: int = 4) -> bytes:
        """The same bytes with some damage: flipped bits, lengths at limits, holes, pieces moved, cut or doubled."""
        out = bytearray(data)
        for _ in range(self.randrange(1, most + 1)):
            if not out:
                break
            at = self.randrange(len(out))
            n = min(len(out) - at, 1 << self.randrange(8))
            kind = self.randrange(9)
            if kind <= 1:
                out[at] ^= 1 << self.randrange(8)
            elif kind == 2:
                out[at] = self.among([0, 1, 0x7F, 0x80, 0xFF])
            elif kind == 3:
                width, code = self.among([(2, ">H"), (4, ">I"), (8, ">Q")])
                out[at : at + width] = struct.pack(code, self.among(LIMITS) & ((1 << 8 * width) - 1))
            elif kind == 4:
                out[at : at + n] = bytes(n)
            elif kind == 5:
                del out[at : at + n]
            elif kind == 6:
                out[at:at] = out[at : at + n]
            elif kind == 7:
                out[at:at] = self.randbytes(min(n, 16))
            else:
                del out[at:]
        return bytes(out)


def with_true_crcs(data: bytes) -> bytes:
    """The same log with the CRC of each batch put right, as far as its lengths lead."""
    out = bytearray(data)
    at = 0
    while at + 18 <= len(out):
        (size,) = struct.unpack_from(">i", out, at + 8)
        end = at + 12 + size
        if size < 14 or end > len(out):
            break
        if out[at + 16] >= 2:
            if size >= 49:
                struct.pack_into(">I", out, at + 17, crc32c(bytes(out[at + 21 : end])))
        else:
            struct.pack_into(">I", out, at + 12, zlib.crc32(out[at + 16 : end]))
        at = end
    return bytes(out)
