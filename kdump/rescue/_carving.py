# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Kernel: where in any bytes a batch may begin, and the CRC of a range out of the CRCs of all that is before its ends.

Compiled by Cython when a compiler is there, interpreted with the same results when not.

Contract. Trusted: the arguments only; nothing is known of the bytes. Each read lies inside [0, n): a header is looked
at where all of it is there. Guaranteed: positions of a row lie inside [start, stop), in rising order, and its size is
at least that of the smallest batch of its magic and at most what is left of the image.
"""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from kdump.format.kernels import _cython as cython
if not cython.compiled:  # whether Cython is there or not: its own stand-ins are slow, and refuse some casts
    from kdump.format.kernels import _cython as cython

if cython.compiled:
    from cython.cimports.kdump.format.batch import layout
    from cython.cimports.kdump.format.kernels import wire
    from cython.cimports.libc.string import memcpy
else:
    from kdump.format.batch import layout
    from kdump.format.kernels import wire

# One row: position in the view, bytes of the whole batch, magic.
CANDIDATE_WIDTH = 3
_WIDTH = cython.declare(cython.Py_ssize_t, CANDIDATE_WIDTH)
_THREES = cython.declare(cython.ulonglong, 0x0303030303030303)
_HIGH_BITS = cython.declare(cython.ulonglong, 0x8080808080808080)
_LEGACY_HEADER = cython.declare(cython.Py_ssize_t, layout.LOG_OVERHEAD + layout.MIN_SIZE_V0)


def is_compiled() -> bool:
    """Tell whether this kernel runs compiled."""
    return bool(cython.compiled)


@cython.cfunc
@cython.exceptval(check=False)
def _legacy_size(
    b: cython.p_uchar, p: cython.Py_ssize_t, n: cython.Py_ssize_t, size: cython.longlong
) -> cython.longlong:
    """The size that key and value of a message of magic 0 or 1 make it have; `size` where the value is out of sight."""
    at: cython.Py_ssize_t = p + layout.LEGACY_TIMESTAMP_AT
    fixed: cython.longlong = layout.MIN_SIZE_V0
    key: cython.longlong
    value: cython.longlong
    if b[p + layout.MAGIC_AT] == 1:
        at += 8
        fixed = layout.MIN_SIZE_V1
    if at + 4 > n:
        return size
    key = wire.i32(b, at)
    if key < -1 or key > size:
        return -1
    if key > 0:
        fixed += key
        at += key
    if at + 8 > n:
        return size
    value = wire.i32(b, at + 4)
    if value < -1:
        return -1
    return fixed + value if value > 0 else fixed


@cython.cfunc
@cython.exceptval(check=False)
def _makes_sense(b: cython.p_uchar, p: cython.Py_ssize_t, size: cython.longlong) -> cython.bint:
    """Whether the fields of a header of magic 2 that are under the CRC are such as a broker writes."""
    codec: cython.longlong = b[p + layout.ATTRIBUTES_AT + 1] & layout.CODEC_MASK
    count: cython.longlong = wire.i32(b, p + layout.COUNT_AT)
    if codec > layout.CODEC_ZSTD or count <= 0 or count - 1 > wire.i32(b, p + layout.LAST_OFFSET_DELTA_AT):
        return False
    if codec == 0 and count * layout.SMALLEST_RECORD > size:
        return False
    return (
        wire.i64(b, p + layout.PRODUCER_ID_AT) >= -1
        and wire.i16(b, p + layout.PRODUCER_EPOCH_AT) >= -1
        and wire.i32(b, p + layout.BASE_SEQUENCE_AT) >= -1
    )


@cython.cfunc
@cython.exceptval(check=False)
def _fits(
    b: cython.p_uchar, p: cython.Py_ssize_t, n: cython.Py_ssize_t, size: cython.longlong, small: cython.longlong
) -> cython.bint:
    """Whether a batch of this size may begin at p, by its header."""
    magic: cython.uchar = b[p + layout.MAGIC_AT]
    if magic == layout.MAGIC_V2:
        if size < layout.MIN_SIZE_V2 or p + layout.RECORDS_AT > n:
            return False
        return size <= small - layout.LOG_OVERHEAD or _makes_sense(b, p, size)
    if size < (layout.MIN_SIZE_V1 if magic == 1 else layout.MIN_SIZE_V0):
        return False
    if b[p + layout.LEGACY_ATTRIBUTES_AT] & layout.ATTRIBUTES_UNUSED_LEGACY:
        return False
    return _legacy_size(b, p, n, size) == size


def candidates(
    view: cython.uchar[::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    n: cython.Py_ssize_t,
    left: cython.longlong,
    small: cython.longlong,
    rows: cython.longlong[::1],
    room: cython.Py_ssize_t,
) -> int:
    """Find where a batch may begin: a magic, and a size that fits.

    Of a message of magic 0 or 1 the sizes of its key and value must make up its size; its attributes must be some.

    Args:
        view: the bytes.
        start, stop: where the first byte of a batch may be; positions in `view`, half-open.
        n: bytes in `view` that count.
        left: bytes from the first one of `view` to the end of the image.
        small: bytes up to which of a batch of magic 2 only magic and size count; of a larger one every field must make
            sense that is under the CRC.
        rows: room for `room` rows of CANDIDATE_WIDTH; overwritten.
        room: at least 1.

    Returns:
        How many rows there are; where there is no more room, the search goes on behind the last one.
    """
    b: cython.p_uchar
    found: cython.Py_ssize_t = 0
    p: cython.Py_ssize_t = start
    q: cython.Py_ssize_t
    magic: cython.uchar
    size: cython.longlong
    word: cython.ulonglong = 0
    if n <= 0 or stop <= start:
        return 0
    b = cython.address(view[0]) if cython.compiled else view
    if stop > n - _LEGACY_HEADER + 1:
        stop = n - _LEGACY_HEADER + 1
    while p < stop and found < room:
        if cython.compiled and p + 8 <= stop:  # eight bytes at once: is any of them a magic?
            memcpy(cython.address(word), b + p + layout.MAGIC_AT, 8)
            if ((word - _THREES) & ~word & _HIGH_BITS) == 0:
                p += 8
                continue
            while b[p + layout.MAGIC_AT] > layout.MAGIC_V2:  # one is
                p += 1
        magic = b[p + layout.MAGIC_AT]
        if magic > layout.MAGIC_V2:
            p += 1
            continue
        size = wire.i32(b, p + layout.SIZE_AT)
        if size == 0 and magic == 0:  # most often zeros: the size is none up to where they end
            q = p + layout.LOG_OVERHEAD
            while q < n and b[q] == 0:
                q += 1
            p = q - layout.LOG_OVERHEAD + 1 if q > p + layout.LOG_OVERHEAD else p + 1
            continue
        if size <= left - p - layout.LOG_OVERHEAD and _fits(b, p, n, size, small):
            rows[found * _WIDTH] = p
            rows[found * _WIDTH + 1] = size + layout.LOG_OVERHEAD
            rows[found * _WIDTH + 2] = magic
            found += 1
        p += 1
    return found


@cython.cfunc
@cython.exceptval(check=False)
def _product(a: cython.ulonglong, b: cython.ulonglong, poly: cython.ulonglong) -> cython.ulonglong:
    """A times b modulo the polynomial; the highest bit is x^0."""
    product: cython.ulonglong = 0
    m: cython.ulonglong = 0x80000000
    while m:
        if a & m:
            product ^= b
        b = (b >> 1) ^ poly if b & 1 else b >> 1
        m >>= 1
    return product


def behind(crc: cython.ulonglong, n: cython.ulonglong, poly: cython.ulonglong) -> int:
    """Return what a CRC of some bytes adds to that of the same bytes with n more behind them.

    The CRC of A and B together is `behind(crc of A, bytes of B)` exclusive or the CRC of B alone.

    Args:
        crc: of the bytes before, 0 to 2^32 - 1.
        n: bytes behind them.
        poly: of the CRC, bits reversed.
    """
    power: cython.ulonglong = 0x80000000  # x^0
    square: cython.ulonglong = 0x00800000  # x^8
    while n:
        if n & 1:
            power = _product(power, square, poly)
        square = _product(square, square, poly)
        n >>= 1
    return int(_product(power, crc, poly))
