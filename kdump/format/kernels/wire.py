"""The one decoder of lengths and numbers for all kernels, and their appends; the interpreted half.

Compiled kernels have the same functions from `wire.pxd`, inlined. A buffer `b` is bytes, a bytearray or a memoryview
here and a pointer there; a place is an index into it.

Contract: reads of fixed size trust that their bytes lie in the buffer. Varints are never read at or beyond `stop`, and
never more than `most` bytes. What is appended trusts that there is room: the caller has measured. Integers of a file
are added with `add` and `subtract`, which wrap at 64 bits as Java's long does, or cut with `int32`, in both halves.
"""

from __future__ import annotations

from typing import Any

Bytes = Any  # what the interpreter can index and slice: a pointer has no type here

NO_END = -1  # of varint_end: the bytes end before the varint does
TOO_WIDE = -2  # of varint_end: more bytes than a varint of its kind can have
WIDEST_INT = 5  # bytes of a varint of 32 bits
WIDEST_LONG = 10  # and of 64

PAIRS = b"".join(b"%02d" % value for value in range(100))
BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
URL_SAFE = BASE64[:62] + b"-_"

_LOW_32 = 0xFFFFFFFF
_LOW_64 = 0xFFFFFFFFFFFFFFFF
_TWO_63 = 1 << 63


# --- numbers of fixed size -----------------------------------------------------------------------------------
def u16(b: Bytes, at: int) -> int:
    """Return the unsigned number in two bytes."""
    return int.from_bytes(b[at : at + 2], "big")


def u32(b: Bytes, at: int) -> int:
    """Return the unsigned number in four bytes."""
    return int.from_bytes(b[at : at + 4], "big")


def i16(b: Bytes, at: int) -> int:
    """Return the number in two bytes."""
    return int.from_bytes(b[at : at + 2], "big", signed=True)


def i32(b: Bytes, at: int) -> int:
    """Return the number in four bytes."""
    return int.from_bytes(b[at : at + 4], "big", signed=True)


def i64(b: Bytes, at: int) -> int:
    """Return the number in eight bytes."""
    return int.from_bytes(b[at : at + 8], "big", signed=True)


def put_number(out: Bytes, at: int, n: int, value: int) -> int:
    """Write the low n bytes of a number; return the place after them."""
    out[at : at + n] = (value & ((1 << 8 * n) - 1)).to_bytes(n, "big")
    return at + n


# --- sums as Java has them -----------------------------------------------------------------------------------
def add(a: int, b: int) -> int:
    """Return the sum of two longs."""
    return ((a + b + _TWO_63) & _LOW_64) - _TWO_63


def subtract(a: int, b: int) -> int:
    """Return the difference of two longs."""
    return ((a - b + _TWO_63) & _LOW_64) - _TWO_63


def int32(value: int) -> int:
    """Return a number cut to 32 bits, as Java casts to int."""
    value &= _LOW_32
    return value - 0x100000000 if value > 0x7FFFFFFF else value


def sequence(base: int, delta: int) -> int:
    """Return the sequence number `delta` after another, int32 both. Source: DefaultRecordBatch.incrementSequence."""
    if base > int32(0x7FFFFFFF - delta):
        return int32(delta - (0x7FFFFFFF - base) - 1)
    return int32(base + delta)


def last_sequence(base: int, delta: int) -> int:
    """Return the sequence number of a batch's last record; -1 is none. Source: DefaultRecordBatch.lastSequence."""
    return -1 if base == -1 else sequence(base, delta)


# --- varints -------------------------------------------------------------------------------------------------
def varint_end(b: Bytes, at: int, stop: int, most: int) -> int:
    """Return the place after the varint at `at`: NO_END when it does not end before `stop`, TOO_WIDE over `most` bytes.

    Source: ByteUtils.readVarint, readVarlong.
    """
    for place in range(at, min(stop, at + most)):
        if b[place] < 0x80:
            return place + 1
    return TOO_WIDE if stop - at >= most else NO_END


def varint(b: Bytes, at: int, after: int) -> int:
    """Return the zigzag int32 in [at, after), cut to 32 bits as Java does; bytes after the fifth do not count."""
    value: int = b[at] if at + 1 == after else _raw(b, at, min(after, at + WIDEST_INT)) & _LOW_32
    return -1 - (value >> 1) if value & 1 else value >> 1


def varlong(b: Bytes, at: int, after: int) -> int:
    """Return the zigzag int64 in [at, after), cut to 64 bits as Java does; bytes after the tenth do not count."""
    value = _raw(b, at, min(after, at + WIDEST_LONG)) & _LOW_64
    return -1 - (value >> 1) if value & 1 else value >> 1


def uvarint(b: Bytes, at: int, after: int) -> int:
    """Return the number without zigzag in [at, after), at most five bytes: up to 35 bits."""
    return _raw(b, at, min(after, at + WIDEST_INT))


def _raw(b: Bytes, at: int, after: int) -> int:
    value = shift = 0
    while at < after:
        value |= (b[at] & 0x7F) << shift
        shift += 7
        at += 1
    return value


def after_varint(b: Bytes, at: int, stop: int) -> int:
    """Return the place after a varint that `varint_end` has found before; never beyond `stop`."""
    while at < stop:
        at += 1
        if b[at - 1] < 0x80:
            break
    return at


def size_within(b: Bytes, at: int, after: int, stop: int) -> int:
    """Return the size in [at, after) of what lies behind it; never more than there is up to `stop`."""
    return min(varint(b, at, after), stop - after)


def zigzag(value: int) -> int:
    """Return a long as varints carry it."""
    return ((value << 1) ^ (value >> 63)) & _LOW_64


def varint_size(value: int) -> int:
    """Return how many bytes a number has as a varint."""
    return max(1, (zigzag(value).bit_length() + 6) // 7)


def put_varint(out: Bytes, at: int, value: int) -> int:
    """Write a number as a varint; return the place after it."""
    left = zigzag(value)
    while left > 0x7F:
        out[at] = left & 0x7F | 0x80
        left >>= 7
        at += 1
    out[at] = left
    return at + 1


# --- bytes ---------------------------------------------------------------------------------------------------
def put(out: Bytes, at: int, text: bytes, n: int) -> int:
    """Append n bytes, all that a literal has."""
    out[at : at + n] = text
    return at + n


def copy(out: Bytes, at: int, b: Bytes, start: int, n: int) -> int:
    """Append n bytes of a buffer."""
    out[at : at + n] = b[start : start + n]
    return at + n


def same(a: Bytes, at: int, b: Bytes, start: int, n: int) -> bool:
    """Tell whether n bytes of two buffers are the same."""
    return bool(a[at : at + n] == b[start : start + n])


def has(a: Bytes, at: int, last: int, b: Bytes, n: int) -> bool:
    """Tell whether n bytes of b stand somewhere in a, from `at` on and at `last` at the latest; 0 bytes always do."""
    return n == 0 or bytes(b[:n]) in bytes(a[at : last + n])


# --- text ----------------------------------------------------------------------------------------------------
def put_pair(out: Bytes, at: int, value: int) -> int:
    """Append a number below 100 as two digits."""
    out[at : at + 2] = PAIRS[2 * value : 2 * value + 2]
    return at + 2


def put_int(out: Bytes, at: int, value: int) -> int:
    """Append a decimal number: at most 20 characters."""
    return put(out, at, text := b"%d" % value, len(text))


def utf8_size(b: Bytes, at: int, stop: int) -> int:
    """Return how many bytes the character at `at` has, 0 where none in UTF-8 begins and ends before `stop`."""
    lead = b[at]
    if lead < 0x80:
        return 1
    n = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    try:
        str(bytes(b[at : min(stop, at + n)]), "utf-8")
    except UnicodeDecodeError:
        return 0
    return n


def put_base64(out: Bytes, to: int, b: Bytes, at: int, n: int, letters: bytes, padded: bool) -> int:
    """Append n bytes as Base64, in the letters of BASE64 or URL_SAFE."""
    data = bytes(b[at : at + n])
    from base64 import b64encode, urlsafe_b64encode

    text = b64encode(data) if letters == BASE64 else urlsafe_b64encode(data)
    text = text if padded else text.rstrip(b"=")
    return put(out, to, text, len(text))
