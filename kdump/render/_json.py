# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Kernel: JSON lines for batches and records, from columns into one reused buffer.

Compiled by Cython when a compiler is there, interpreted with the same results when not. Text from the file is measured
before it is written; so nothing is written past the end. What is written is what `json.dumps` with its compact
separators would write: ASCII only.
"""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:  # the interpreter does not need Cython
    from kdump.format import _cython as cython
if not cython.compiled:  # nor what Cython brings for the interpreter, where it is there
    from kdump.format import _cython as cython

from collections.abc import Callable

from kdump.format import layout

if cython.compiled:
    from cython.cimports.libc.string import memcpy

_POSITION = cython.declare(cython.Py_ssize_t, layout.POSITION)
_SIZE = cython.declare(cython.Py_ssize_t, layout.SIZE)
_BASE_OFFSET = cython.declare(cython.Py_ssize_t, layout.BASE_OFFSET)
_LAST_OFFSET = cython.declare(cython.Py_ssize_t, layout.LAST_OFFSET)
_MAGIC = cython.declare(cython.Py_ssize_t, layout.MAGIC)
_ATTRIBUTES = cython.declare(cython.Py_ssize_t, layout.ATTRIBUTES)
_CRC = cython.declare(cython.Py_ssize_t, layout.CRC)
_BASE_TIMESTAMP = cython.declare(cython.Py_ssize_t, layout.BASE_TIMESTAMP)
_MAX_TIMESTAMP = cython.declare(cython.Py_ssize_t, layout.MAX_TIMESTAMP)
_PRODUCER_ID = cython.declare(cython.Py_ssize_t, layout.PRODUCER_ID)
_PRODUCER_EPOCH = cython.declare(cython.Py_ssize_t, layout.PRODUCER_EPOCH)
_BASE_SEQUENCE = cython.declare(cython.Py_ssize_t, layout.BASE_SEQUENCE)
_LAST_OFFSET_DELTA = cython.declare(cython.Py_ssize_t, layout.LAST_OFFSET_DELTA)
_COUNT = cython.declare(cython.Py_ssize_t, layout.COUNT)
_LEADER_EPOCH = cython.declare(cython.Py_ssize_t, layout.LEADER_EPOCH)
_COMPUTED_CRC = cython.declare(cython.Py_ssize_t, layout.COMPUTED_CRC)
_BATCH_WIDTH = cython.declare(cython.Py_ssize_t, layout.BATCH_WIDTH)

_R_BATCH = cython.declare(cython.Py_ssize_t, layout.R_BATCH)
_R_OFFSET = cython.declare(cython.Py_ssize_t, layout.R_OFFSET)
_R_TIMESTAMP = cython.declare(cython.Py_ssize_t, layout.R_TIMESTAMP)
_R_SEQUENCE = cython.declare(cython.Py_ssize_t, layout.R_SEQUENCE)
_R_KEY_AT = cython.declare(cython.Py_ssize_t, layout.R_KEY_AT)
_R_KEY_SIZE = cython.declare(cython.Py_ssize_t, layout.R_KEY_SIZE)
_R_VALUE_AT = cython.declare(cython.Py_ssize_t, layout.R_VALUE_AT)
_R_VALUE_SIZE = cython.declare(cython.Py_ssize_t, layout.R_VALUE_SIZE)
_R_HEADERS_AT = cython.declare(cython.Py_ssize_t, layout.R_HEADERS_AT)
_R_HEADER_COUNT = cython.declare(cython.Py_ssize_t, layout.R_HEADER_COUNT)
_R_AT = cython.declare(cython.Py_ssize_t, layout.R_AT)
_R_ATTRIBUTES = cython.declare(cython.Py_ssize_t, layout.R_ATTRIBUTES)
_RECORD_WIDTH = cython.declare(cython.Py_ssize_t, layout.RECORD_WIDTH)

# Literals over 32 bits are Python ints to the compiler, even where the other side is a C variable.
_LOW_32 = cython.declare(cython.longlong, 0xFFFFFFFF)
_TWO_32 = cython.declare(cython.longlong, 0x100000000)
_TWO_63 = cython.declare(object, 1 << 63)

# "00" to "99": numbers are written two digits at a time.
_PAIRS = cython.declare(
    cython.p_char,
    b"0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
    b"5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899",
)
_HEX = cython.declare(cython.p_char, b"0123456789abcdef")
_BASE64 = cython.declare(cython.p_char, b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
# What follows the backslash of the short escapes, by character; 0 where there is none.
_SHORT = cython.declare(cython.p_char, b"\0\0\0\0\0\0\0\0btn\0fr\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0")

# Why rendering stopped.
DONE = 0
NO_ROOM = 1  # the buffer is full: write it out and go on
TOO_LONG = 2  # this one line is longer than the buffer

_LINE = cython.declare(cython.Py_ssize_t, 1024)  # more than any line without the name of its file and its text

Decode = Callable[[int, "bytes | None", "bytes | None"], bytes]
Control = Callable[["bytes | None", "bytes | None"], bytes]


def is_compiled() -> bool:
    """Tell whether this kernel runs compiled."""
    return bool(cython.compiled)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put(out: cython.p_uchar, at: cython.Py_ssize_t, text: cython.p_char, n: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Append n bytes of a literal."""
    if cython.compiled:
        memcpy(out + at, text, n)
    else:
        out[at : at + n] = text
    return at + n


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _copy(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    b: cython.p_uchar,
    start: cython.Py_ssize_t,
    n: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Append n bytes of the buffer."""
    if cython.compiled:
        memcpy(out + at, b + start, n)
    else:
        out[at : at + n] = b[start : start + n]
    return at + n


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _pair(out: cython.p_uchar, at: cython.Py_ssize_t, value: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Append a number below 100 as two digits."""
    out[at] = _PAIRS[2 * value]
    out[at + 1] = _PAIRS[2 * value + 1]
    return at + 2


@cython.cfunc
@cython.exceptval(check=False)
def _int(out: cython.p_uchar, at: cython.Py_ssize_t, value: cython.longlong) -> cython.Py_ssize_t:
    """Append a decimal number."""
    rest: cython.ulonglong
    low: cython.uint
    i: cython.Py_ssize_t
    end: cython.Py_ssize_t
    power: cython.uint
    if value < 0:
        out[at] = 45
        at += 1
        rest = -value
    else:
        rest = value
    if rest >= 100000000:
        at = _int(out, at, rest // 100000000)
        low = rest % 100000000
        at = _pair(out, at, low // 1000000)
        at = _pair(out, at, low // 10000 % 100)
        at = _pair(out, at, low // 100 % 100)
        return _pair(out, at, low % 100)
    low = rest
    end = at + 1
    power = 10
    while low >= power:
        end += 1
        power *= 10
    i = end
    while low >= 10:
        i -= 2
        _pair(out, i, low % 100)
        low //= 100
    if i > at:
        out[at] = 48 + low
    return end


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _int_if(
    out: cython.p_uchar, at: cython.Py_ssize_t, value: cython.longlong, there: cython.bint
) -> cython.Py_ssize_t:
    """Append a number, null where it is not there."""
    return _int(out, at, value) if there else _put(out, at, b"null", 4)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _bool_if(out: cython.p_uchar, at: cython.Py_ssize_t, value: cython.bint, there: cython.bint) -> cython.Py_ssize_t:
    """Append a truth value, null where it is not there."""
    if not there:
        return _put(out, at, b"null", 4)
    return _put(out, at, b"true", 4) if value else _put(out, at, b"false", 5)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _codec(out: cython.p_uchar, at: cython.Py_ssize_t, codec: cython.longlong) -> cython.Py_ssize_t:
    if codec == 0:
        return _put(out, at, b'"none"', 6)
    if codec == 1:
        return _put(out, at, b'"gzip"', 6)
    if codec == 2:
        return _put(out, at, b'"snappy"', 8)
    if codec == 3:
        return _put(out, at, b'"lz4"', 5)
    if codec == 4:
        return _put(out, at, b'"zstd"', 6)
    return _put(out, _int(out, _put(out, at, b'"unknown:', 9), codec), b'"', 1)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _int32(value: cython.longlong) -> cython.longlong:
    """A sum as Java's int has it."""
    value &= _LOW_32
    if value > 0x7FFFFFFF:
        value -= _TWO_32
    return value


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _last_sequence(base: cython.longlong, delta: cython.longlong) -> cython.longlong:
    """Source: DefaultRecordBatch.lastSequence."""
    if base == -1:
        return -1
    if base > _int32(0x7FFFFFFF - delta):
        return _int32(delta - (0x7FFFFFFF - base) - 1)
    return _int32(base + delta)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _timestamp_type(
    out: cython.p_uchar, at: cython.Py_ssize_t, magic: cython.longlong, attributes: cython.longlong
) -> cython.Py_ssize_t:
    if magic == 0:
        return _put(out, at, b',"timestampType":"NoTimestampType"', 34)
    if attributes & 8:
        return _put(out, at, b',"timestampType":"LogAppendTime"', 32)
    return _put(out, at, b',"timestampType":"CreateTime"', 29)


@cython.cfunc
@cython.exceptval(check=False)
def _batch(out: cython.p_uchar, at: cython.Py_ssize_t, q: cython.p_longlong, k: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Append the line of one batch behind the name of its file."""
    magic: cython.longlong = q[k + _MAGIC]
    attributes: cython.longlong = q[k + _ATTRIBUTES]
    new: cython.bint = magic >= 2
    at = _int(out, _put(out, at, b',"position":', 12), q[k + _POSITION])
    at = _int(out, _put(out, at, b',"size":', 8), q[k + _SIZE])
    at = _put(out, at, b',"baseOffset":', 14)
    at = _int_if(out, at, q[k + _BASE_OFFSET], new or q[k + _BASE_OFFSET] >= 0)
    at = _int(out, _put(out, at, b',"lastOffset":', 14), q[k + _LAST_OFFSET])
    at = _int_if(out, _put(out, at, b',"count":', 9), q[k + _COUNT], new)
    at = _int_if(out, _put(out, at, b',"baseSequence":', 16), q[k + _BASE_SEQUENCE], new)
    at = _put(out, at, b',"lastSequence":', 16)
    at = _int_if(out, at, _last_sequence(q[k + _BASE_SEQUENCE], q[k + _LAST_OFFSET_DELTA]), new)
    at = _int_if(out, _put(out, at, b',"producerId":', 14), q[k + _PRODUCER_ID], new)
    at = _int_if(out, _put(out, at, b',"producerEpoch":', 17), q[k + _PRODUCER_EPOCH], new)
    at = _int_if(out, _put(out, at, b',"partitionLeaderEpoch":', 24), q[k + _LEADER_EPOCH], new)
    at = _bool_if(out, _put(out, at, b',"isTransactional":', 19), attributes & 16 != 0, new)
    at = _bool_if(out, _put(out, at, b',"isControl":', 13), attributes & 32 != 0, new)
    at = _put(out, at, b',"deleteHorizonMs":', 19)
    at = _int_if(out, at, q[k + _BASE_TIMESTAMP], new and attributes & 64 != 0)
    at = _timestamp_type(out, at, magic, attributes)
    at = _int_if(out, _put(out, at, b',"baseTimestamp":', 17), q[k + _BASE_TIMESTAMP], new)
    at = _int_if(out, _put(out, at, b',"maxTimestamp":', 16), q[k + _MAX_TIMESTAMP], magic != 0)
    at = _int(out, _put(out, at, b',"magic":', 9), magic)
    at = _codec(out, _put(out, at, b',"compresscodec":', 17), attributes & 7)
    at = _int(out, _put(out, at, b',"attributes":', 14), attributes)
    at = _int(out, _put(out, at, b',"crc":', 7), q[k + _CRC])
    at = _bool_if(out, _put(out, at, b',"isvalid":', 11), q[k + _CRC] == q[k + _COMPUTED_CRC], True)
    return _put(out, at, b"}\n", 2)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _plain(b: cython.p_uchar, start: cython.Py_ssize_t, n: cython.Py_ssize_t) -> cython.bint:
    """Whether the bytes can be copied between quotes as they are."""
    i: cython.Py_ssize_t
    odd: cython.uchar = 0
    for i in range(start, start + n):
        odd |= (b[i] < 0x20) | (b[i] > 0x7E) | (b[i] == 34) | (b[i] == 92)
    return odd == 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _unit_size(byte: cython.uint) -> cython.Py_ssize_t:
    """How many characters one ASCII character needs between quotes."""
    if byte == 34 or byte == 92:
        return 2
    if byte >= 0x20:
        return 1 if byte < 0x7F else 6
    return 2 if _SHORT[byte] != 0 else 6


@cython.cfunc
@cython.exceptval(check=False)
def _escaped_size(b: cython.p_uchar, at: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """How many characters the text needs between quotes; -1 when the bytes are not UTF-8."""
    lead: cython.uint
    low: cython.uint
    high: cython.uint
    n: cython.Py_ssize_t
    size: cython.Py_ssize_t = 0
    while at < stop:
        lead = b[at]
        if lead < 0x80:
            size += _unit_size(lead)
            at += 1
            continue
        low = 0x80
        high = 0xBF
        if lead < 0xC2 or lead > 0xF4:
            return -1
        if lead < 0xE0:
            n = 1
        elif lead < 0xF0:
            n = 2
            if lead == 0xE0:
                low = 0xA0
            elif lead == 0xED:
                high = 0x9F
        else:
            n = 3
            if lead == 0xF0:
                low = 0x90
            elif lead == 0xF4:
                high = 0x8F
        if at + n >= stop:
            return -1
        if b[at + 1] < low or b[at + 1] > high:
            return -1
        if n > 1 and b[at + 2] & 0xC0 != 0x80:
            return -1
        if n > 2 and b[at + 3] & 0xC0 != 0x80:
            return -1
        size += 12 if n == 3 else 6
        at += n + 1
    return size


@cython.cfunc
@cython.exceptval(check=False)
def _unit(out: cython.p_uchar, at: cython.Py_ssize_t, unit: cython.uint) -> cython.Py_ssize_t:
    r"""Append one UTF-16 unit as \uXXXX."""
    at = _put(out, at, b"\\u", 2)
    out[at] = _HEX[unit >> 12]
    out[at + 1] = _HEX[unit >> 8 & 15]
    out[at + 2] = _HEX[unit >> 4 & 15]
    out[at + 3] = _HEX[unit & 15]
    return at + 4


@cython.cfunc
@cython.exceptval(check=False)
def _escaped(
    out: cython.p_uchar, to: cython.Py_ssize_t, b: cython.p_uchar, at: cython.Py_ssize_t, stop: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Append UTF-8 text that has been measured, escaped."""
    lead: cython.uint
    value: cython.uint
    n: cython.Py_ssize_t
    while at < stop:
        lead = b[at]
        at += 1
        if lead >= 0x80:
            n = 1 if lead < 0xE0 else 2 if lead < 0xF0 else 3
            value = lead & (0x3F >> n)
            while n > 0:
                value = value << 6 | b[at] & 0x3F
                at += 1
                n -= 1
            if value > 0xFFFF:
                value -= 0x10000
                to = _unit(out, to, 0xD800 | value >> 10)
                value = 0xDC00 | value & 0x3FF
            to = _unit(out, to, value)
        elif lead == 34 or lead == 92:
            out[to] = 92
            out[to + 1] = lead
            to += 2
        elif 0x20 <= lead < 0x7F:
            out[to] = lead
            to += 1
        elif lead < 0x20 and _SHORT[lead] != 0:
            out[to] = 92
            out[to + 1] = _SHORT[lead]
            to += 2
        else:
            to = _unit(out, to, lead)
    return to


@cython.cfunc
@cython.exceptval(check=False)
def _base64(
    out: cython.p_uchar, to: cython.Py_ssize_t, b: cython.p_uchar, at: cython.Py_ssize_t, n: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Append n bytes as an object with Base64."""
    group: cython.uint
    to = _put(out, to, b'{"base64":"', 11)
    while n > 2:
        group = cython.cast(cython.uint, b[at]) << 16 | cython.cast(cython.uint, b[at + 1]) << 8 | b[at + 2]
        out[to] = _BASE64[group >> 18]
        out[to + 1] = _BASE64[group >> 12 & 63]
        out[to + 2] = _BASE64[group >> 6 & 63]
        out[to + 3] = _BASE64[group & 63]
        to += 4
        at += 3
        n -= 3
    if n > 0:
        group = cython.cast(cython.uint, b[at]) << 16
        if n > 1:
            group |= cython.cast(cython.uint, b[at + 1]) << 8
        out[to] = _BASE64[group >> 18]
        out[to + 1] = _BASE64[group >> 12 & 63]
        out[to + 2] = _BASE64[group >> 6 & 63] if n > 1 else 61
        out[to + 3] = 61
        to += 4
    return _put(out, to, b'"}', 2)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _text(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    room: cython.Py_ssize_t,
    b: cython.p_uchar,
    start: cython.Py_ssize_t,
    n: cython.longlong,
) -> cython.Py_ssize_t:
    """Append bytes of the buffer as a string, or as Base64 where they are not UTF-8; -1 when there is no room.

    A size below 0 is null.
    """
    size: cython.Py_ssize_t
    if n < 0:
        return _put(out, at, b"null", 4)
    if at + n > room:
        return -1
    if _plain(b, start, n):
        if at + n + 2 > room:
            return -1
        out[at] = 34
        at = _copy(out, at + 1, b, start, n)
        out[at] = 34
        return at + 1
    size = _escaped_size(b, start, start + n)
    if size < 0:
        return -1 if at + (n + 2) // 3 * 4 + 13 > room else _base64(out, at, b, start, n)
    if at + size + 2 > room:
        return -1
    out[at] = 34
    at = _escaped(out, at + 1, b, start, start + n)
    out[at] = 34
    return at + 1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _varint_end(b: cython.p_uchar, at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The place after a varint that the record kernel has read."""
    while b[at] >= 0x80:
        at += 1
    return at + 1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _varint32(b: cython.p_uchar, at: cython.Py_ssize_t) -> cython.longlong:
    """A varint of 32 bits that the record kernel has read, zigzag undone."""
    value: cython.longlong = 0
    shift: cython.Py_ssize_t = 0
    while b[at] >= 0x80:
        value |= cython.cast(cython.longlong, b[at] & 0x7F) << shift
        shift += 7
        at += 1
    value |= cython.cast(cython.longlong, b[at]) << shift
    value &= _LOW_32
    return -1 - (value >> 1) if value & 1 else value >> 1


@cython.cfunc
@cython.exceptval(check=False)
def _timestamp_delta(b: cython.p_uchar, at: cython.Py_ssize_t) -> cython.longlong:
    """The timestamp delta of the record at a place: after its length and its attributes."""
    value: cython.ulonglong = 0
    shift: cython.Py_ssize_t = 0
    at = _varint_end(b, at) + 1
    while b[at] >= 0x80:
        value |= cython.cast(cython.ulonglong, b[at] & 0x7F) << shift
        shift += 7
        at += 1
    value |= cython.cast(cython.ulonglong, b[at]) << shift
    if not cython.compiled:
        value &= 2 * _TWO_63 - 1
    return -1 - cython.cast(cython.longlong, value >> 1) if value & 1 else cython.cast(cython.longlong, value >> 1)


@cython.cfunc
def _headers(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    room: cython.Py_ssize_t,
    b: cython.p_uchar,
    p: cython.Py_ssize_t,
    count: cython.longlong,
) -> cython.Py_ssize_t:
    """Append `count` headers that begin at p (the record kernel has checked all lengths); -1 when there is no room."""
    i: cython.longlong
    size: cython.longlong
    for i in range(count):
        if at + 64 > room:
            return -1
        at = _put(out, at, b',{"key":', 8) if i else _put(out, at, b'{"key":', 7)
        size = _varint32(b, p)
        p = _varint_end(b, p)
        at = _text(out, at, room, b, p, size)
        if at < 0 or at + 64 > room:
            return -1
        p += size
        size = _varint32(b, p)
        p = _varint_end(b, p)
        at = _text(out, _put(out, at, b',"value":', 9), room, b, p, size)
        if at < 0 or at + 64 > room:
            return -1
        if size > 0:
            p += size
        at = _put(out, at, b"}", 1)
    return at


@cython.cfunc
@cython.inline
def _bytes(out: cython.p_uchar, at: cython.Py_ssize_t, room: cython.Py_ssize_t, text: bytes) -> cython.Py_ssize_t:
    """Append ASCII text that others made; -1 when there is no room for it."""
    size: cython.Py_ssize_t = len(text)
    if at + size > room:
        return -1
    if cython.compiled:
        memcpy(out + at, cython.cast(cython.p_char, text), size)
    else:
        out[at : at + size] = text
    return at + size


@cython.cfunc
def _record(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    room: cython.Py_ssize_t,
    b: cython.p_uchar,
    q: cython.p_longlong,
    c: cython.Py_ssize_t,
    p: cython.p_longlong,
    i: cython.Py_ssize_t,
    contents: cython.bint,
    decode: object,
    control: object,
) -> cython.Py_ssize_t:
    """Append the line of one record behind the name of its file; -1 when there is no room for it."""
    new: cython.bint = q[c + _MAGIC] >= 2
    key_size: cython.longlong = p[i + _R_KEY_SIZE]
    value_size: cython.longlong = p[i + _R_VALUE_SIZE]
    fits: cython.Py_ssize_t = room - _LINE
    at = _int(out, _put(out, at, b',"batchPosition":', 17), q[c + _POSITION])
    at = _int(out, _put(out, at, b',"offset":', 10), p[i + _R_OFFSET])
    at = _int(out, _put(out, at, b',"timestamp":', 13), p[i + _R_TIMESTAMP])
    at = _put(out, at, b',"timestampDelta":', 18)
    at = _int(out, at, _timestamp_delta(b, p[i + _R_AT])) if new else _put(out, at, b"null", 4)
    at = _timestamp_type(out, at, q[c + _MAGIC], q[c + _ATTRIBUTES])
    at = _int(out, _put(out, at, b',"attributes":', 14), p[i + _R_ATTRIBUTES])
    at = _int(out, _put(out, at, b',"keySize":', 11), key_size if key_size >= 0 else -1)
    at = _int(out, _put(out, at, b',"valueSize":', 13), value_size if value_size >= 0 else -1)
    at = _int_if(out, _put(out, at, b',"sequence":', 12), p[i + _R_SEQUENCE], new)
    if new:
        at = _put(out, at, b',"headers":[', 12)
        at = _headers(out, at, fits, b, p[i + _R_HEADERS_AT], p[i + _R_HEADER_COUNT])
        if at < 0:
            return at
        at = _put(out, at, b"]", 1)
    else:
        at = _put(out, at, b',"headers":null', 15)
    if contents:
        at = _text(out, _put(out, at, b',"key":', 7), fits, b, p[i + _R_KEY_AT], key_size)
        if at < 0:
            return at
        at = _text(out, _put(out, at, b',"payload":', 11), fits, b, p[i + _R_VALUE_AT], value_size)
        if at < 0:
            return at
    if new and q[c + _ATTRIBUTES] & 32 != 0:
        text = control(_field(b, p[i + _R_KEY_AT], key_size), _field(b, p[i + _R_VALUE_AT], value_size))
        at = _bytes(out, _put(out, at, b',"control":', 11), fits, text)
        if at < 0:
            return at
        decode = None
    else:
        at = _put(out, at, b',"control":null', 15)
    if contents and decode is not None:
        text = decode(
            p[i + _R_OFFSET], _field(b, p[i + _R_KEY_AT], key_size), _field(b, p[i + _R_VALUE_AT], value_size)
        )
        at = _bytes(out, at, fits, text)
        if at < 0:
            return at
    elif contents:
        at = _put(out, at, b',"decodedKey":null,"decodedPayload":null', 40)
    return _put(out, at, b"}\n", 2)


def render(
    view: cython.const[cython.uchar][::1],
    batches: cython.longlong[::1],
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    begun: bool,
    records: cython.longlong[::1],
    r: cython.Py_ssize_t,
    n: cython.Py_ssize_t,
    target: cython.uchar[::1],
    at: cython.Py_ssize_t,
    batch_head: bytes,
    record_head: bytes,
    contents: bool,
    decode: Decode | None,
    control: Control,
) -> tuple[int, bool, int, int, int]:
    """Append the lines of batches and their records.

    Args:
        view: the buffer that the record rows point into.
        batches: rows of batches; those in [first, last) are printed.
        first, last: row numbers, half-open.
        begun: the line of batch `first` is printed already.
        records: record rows, in the order of their batches; those in [r, n) are printed.
        r, n: row numbers, half-open.
        target: the buffer for the text.
        at: where in it to go on.
        batch_head, record_head: how the lines begin: type and name of the file.
        contents: keys and payloads too.
        decode: from offset, key and value to ',"decodedKey":...,"decodedPayload":...'; None where records are not
            decoded.
        control: from key and value of a control record to JSON.

    Returns:
        The batch to go on with, whether its line is printed, the record to go on with, the end of the text, and why
        (DONE ...).
    """
    b: cython.p_uchar
    q: cython.p_longlong
    p: cython.p_longlong
    out: cython.p_uchar
    if cython.compiled:
        b = cython.cast(cython.p_uchar, cython.address(view[0]))
        q = cython.address(batches[0])
        p = cython.address(records[0])
        out = cython.address(target[0])
    else:
        b = view
        q = batches
        p = records
        out = target
    room: cython.Py_ssize_t = len(target)
    k: cython.Py_ssize_t = first
    printed: cython.bint = begun
    all_of_it: cython.bint = contents
    start: cython.Py_ssize_t
    need: cython.Py_ssize_t = _LINE + (len(batch_head) if len(batch_head) > len(record_head) else len(record_head))
    while k < last:
        if not printed:
            if at + need > room:
                return k, False, r, at, 1
            at = _batch(out, _bytes(out, at, room, batch_head), q, k * _BATCH_WIDTH)
            printed = True
        while r < n and p[r * _RECORD_WIDTH + _R_BATCH] == k:
            start = at
            if at + need > room:
                return k, True, r, at, 1
            at = _bytes(out, at, room, record_head)
            at = _record(out, at, room, b, q, k * _BATCH_WIDTH, p, r * _RECORD_WIDTH, all_of_it, decode, control)
            if at < 0:
                return k, True, r, start, 2 if start == 0 else 1
            r += 1
        if r < n or k + 1 < last:
            printed = False
            k += 1
        else:
            break
    return k, printed, r, at, 0


@cython.cfunc
def _field(b: cython.p_uchar, at: cython.Py_ssize_t, size: cython.longlong) -> object:
    if size < 0:
        return None
    return bytes(b[at : at + size])


def headers(
    view: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    count: cython.longlong,
    begun: bool,
    target: cython.uchar[::1],
    to: cython.Py_ssize_t,
) -> tuple[int, int, int]:
    """Append headers as far as there is room: a line may have millions of them.

    Args:
        view: the buffer that the headers lie in; the record kernel has checked their lengths.
        at: place of the first one.
        count: how many there are.
        begun: headers were written before.
        target: the buffer for the text.
        to: where in it to go on.

    Returns:
        The place of the next header, how many are left, the end of the text.
    """
    b: cython.p_uchar
    out: cython.p_uchar
    if cython.compiled:
        b = cython.cast(cython.p_uchar, cython.address(view[0]))
        out = cython.address(target[0])
    else:
        b = view
        out = target
    room: cython.Py_ssize_t = len(target)
    comma: cython.bint = begun
    end: cython.Py_ssize_t
    size: cython.longlong
    while count > 0 and to + 128 < room:
        end = to
        if comma:
            out[end] = 44
            end += 1
        end = _headers(out, end, room - 64, b, at, 1)
        if end < 0:
            break
        to = end
        size = _varint32(b, at)
        at = _varint_end(b, at) + size
        size = _varint32(b, at)
        at = _varint_end(b, at)
        if size > 0:
            at += size
        comma = True
        count -= 1
    return at, count, to
