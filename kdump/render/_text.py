# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Kernel: Kafka's lines for batches and records, from columns into one reused buffer.

Compiled by Cython when a compiler is there, interpreted with the same results when not. Before each line the kernel
asks whether the line fits whatever its text is (a byte becomes at most three); so nothing is written past the end.
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
_R_CRC = cython.declare(cython.Py_ssize_t, layout.R_CRC)
_R_FLAGS = cython.declare(cython.Py_ssize_t, layout.R_FLAGS)
_R_CLAIMED_SIZE = cython.declare(cython.Py_ssize_t, layout.R_CLAIMED_SIZE)
_CRC_HOLDS = cython.declare(cython.longlong, layout.CRC_HOLDS)
_VALUE_OVERRUNS = cython.declare(cython.longlong, layout.VALUE_OVERRUNS)
_R_AT = cython.declare(cython.Py_ssize_t, layout.R_AT)
_R_END = cython.declare(cython.Py_ssize_t, layout.R_END)
_RECORD_WIDTH = cython.declare(cython.Py_ssize_t, layout.RECORD_WIDTH)

# Literals over 32 bits are Python ints to the compiler, even where the other side is a C variable.
_LOW_32 = cython.declare(cython.longlong, 0xFFFFFFFF)
_TWO_32 = cython.declare(cython.longlong, 0x100000000)
_YEAR_10000 = cython.declare(cython.longlong, 253402300800000)  # ms since the epoch

# "00" to "99": numbers are written two digits at a time.
_PAIRS = cython.declare(
    cython.p_char,
    b"0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
    b"5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899",
)

# How lines are made: bits of `mode`.
CONTENTS = 1  # print key and payload
SKIP_METADATA = 2  # print only key and payload
LEGACY_BRACE = 4  # up to 4.2 a "}" follows the crc of a legacy message
BARE_PAYLOAD = 8  # up to 4.2 --skip-record-metadata begins a line without key with a blank
KAFKA = 32  # a line ends where Kafka's tool dies in the middle of it
CAREFUL = 16  # on a terminal: every byte that is not printable ASCII goes to the slow path
ISO = 64  # times as ISO 8601 in UTC

# Why rendering stopped.
DONE = 0
NO_ROOM = 1  # the buffer is full: write it out and go on
STOPPED = 2  # a decoder said that Kafka's tool ends here, in the middle of the line
TOO_LONG = 3  # this one line is longer than the buffer

_LINE = cython.declare(cython.Py_ssize_t, 1024)  # more than any line without its key, payload and header keys

Contents = Callable[[int, "bytes | None", "bytes | None"], "bytes | tuple[bytes, str]"]


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
@cython.exceptval(check=False)
def _time(out: cython.p_uchar, at: cython.Py_ssize_t, value: cython.longlong, iso: cython.bint) -> cython.Py_ssize_t:
    """Append ms since the epoch, as a number or as 2023-11-14T22:13:20.100Z; what has no date stays a number.

    Source: the calendar counted in days from 0000-03-01, so that a leap day is the last of its year.
    """
    days: cython.longlong
    rest: cython.longlong
    day: cython.longlong
    year: cython.longlong
    month: cython.longlong
    if not iso or value < 0 or value >= _YEAR_10000:
        return _int(out, at, value)
    days = value // 86400000 + 719468
    rest = value % 86400000
    day = days % 146097  # of 400 years
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day -= 365 * year + year // 4 - year // 100
    year += days // 146097 * 400
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5 - 1
    month += 3
    if month > 12:
        month -= 12
        year += 1
    at = _pair(out, _pair(out, at, year // 100), year % 100)
    at = _pair(out, _put(out, at, b"-", 1), month)
    at = _pair(out, _put(out, at, b"-", 1), day)
    at = _pair(out, _put(out, at, b"T", 1), rest // 3600000)
    at = _pair(out, _put(out, at, b":", 1), rest // 60000 % 60)
    at = _pair(out, _put(out, at, b":", 1), rest // 1000 % 60)
    out[at] = 46
    at = _pair(out, at + 1, rest % 1000 // 10)
    out[at] = 48 + rest % 10
    return _put(out, at + 1, b"Z", 1)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _bool(out: cython.p_uchar, at: cython.Py_ssize_t, value: cython.bint) -> cython.Py_ssize_t:
    if value:
        return _put(out, at, b"true", 4)
    return _put(out, at, b"false", 5)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _codec(out: cython.p_uchar, at: cython.Py_ssize_t, codec: cython.longlong) -> cython.Py_ssize_t:
    if codec == 0:
        return _put(out, at, b"none", 4)
    if codec == 1:
        return _put(out, at, b"gzip", 4)
    if codec == 2:
        return _put(out, at, b"snappy", 6)
    if codec == 3:
        return _put(out, at, b"lz4", 3)
    if codec == 4:
        return _put(out, at, b"zstd", 4)
    # Kafka dies here; the default layout goes on and says the number.
    return _int(out, _put(out, at, b"unknown:", 8), codec)


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
        return _put(out, at, b" NoTimestampType: ", 18)
    if attributes & 8:
        return _put(out, at, b" LogAppendTime: ", 16)
    return _put(out, at, b" CreateTime: ", 13)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _batch_head(
    out: cython.p_uchar, at: cython.Py_ssize_t, q: cython.p_longlong, k: cython.Py_ssize_t, iso: cython.bint
) -> cython.Py_ssize_t:
    """Append what the tool prints of a batch in its first call."""
    magic: cython.longlong = q[k + _MAGIC]
    attributes: cython.longlong = q[k + _ATTRIBUTES]
    if magic >= 2:
        at = _int(out, _put(out, at, b"baseOffset: ", 12), q[k + _BASE_OFFSET])
        at = _int(out, _put(out, at, b" lastOffset: ", 13), q[k + _LAST_OFFSET])
        at = _int(out, _put(out, at, b" count: ", 8), q[k + _COUNT])
        at = _int(out, _put(out, at, b" baseSequence: ", 15), q[k + _BASE_SEQUENCE])
        at = _put(out, at, b" lastSequence: ", 15)
        at = _int(out, at, _last_sequence(q[k + _BASE_SEQUENCE], q[k + _LAST_OFFSET_DELTA]))
        at = _int(out, _put(out, at, b" producerId: ", 13), q[k + _PRODUCER_ID])
        at = _int(out, _put(out, at, b" producerEpoch: ", 16), q[k + _PRODUCER_EPOCH])
        at = _int(out, _put(out, at, b" partitionLeaderEpoch: ", 23), q[k + _LEADER_EPOCH])
        at = _bool(out, _put(out, at, b" isTransactional: ", 18), attributes & 16 != 0)
        at = _bool(out, _put(out, at, b" isControl: ", 12), attributes & 32 != 0)
        if attributes & 64:
            at = _put(out, at, b" deleteHorizonMs: OptionalLong[", 31)
            at = _time(out, at, q[k + _BASE_TIMESTAMP], iso)
            at = _put(out, at, b"]", 1)
        else:
            at = _put(out, at, b" deleteHorizonMs: OptionalLong.empty", 36)
        return at
    return _int(out, _put(out, at, b"offset: ", 8), q[k + _LAST_OFFSET])


@cython.cfunc
@cython.exceptval(check=False)
def _batch_line(
    out: cython.p_uchar, at: cython.Py_ssize_t, q: cython.p_longlong, k: cython.Py_ssize_t, iso: cython.bint
) -> cython.Py_ssize_t:
    """Append the line of one batch. Source: DumpLogSegments.printBatchLevel."""
    magic: cython.longlong = q[k + _MAGIC]
    attributes: cython.longlong = q[k + _ATTRIBUTES]
    at = _batch_head(out, at, q, k, iso)
    at = _int(out, _put(out, at, b" position: ", 11), q[k + _POSITION])
    at = _time(out, _timestamp_type(out, at, magic, attributes), q[k + _MAX_TIMESTAMP], iso)
    at = _int(out, _put(out, at, b" size: ", 7), q[k + _SIZE])
    at = _int(out, _put(out, at, b" magic: ", 8), magic)
    at = _codec(out, _put(out, at, b" compresscodec: ", 16), attributes & 7)
    at = _int(out, _put(out, at, b" crc: ", 6), q[k + _CRC])
    at = _bool(out, _put(out, at, b" isvalid: ", 10), q[k + _CRC] == q[k + _COMPUTED_CRC])
    return _put(out, at, b"\n", 1)


def _line_stop(magic: int, attributes: int) -> str:
    """Java's words where the tool dies in the middle of a batch line."""
    if magic < 0:
        return f"java.lang.IllegalArgumentException: Invalid magic used in LegacyRecord: {magic}"
    return f"java.lang.IllegalArgumentException: Unknown compression type id: {attributes & 7}"


@cython.cfunc
@cython.exceptval(check=False)
def _is_utf8(b: cython.p_uchar, at: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.bint:
    """Whether the bytes are UTF-8 without surrogates, overlong forms or values above U+10FFFF."""
    lead: cython.longlong
    low: cython.longlong
    high: cython.longlong
    n: cython.Py_ssize_t
    while at < stop:
        lead = b[at]
        if lead < 0x80:
            at += 1
            continue
        low = 0x80
        high = 0xBF
        if lead < 0xC2 or lead > 0xF4:
            return False
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
            return False
        if b[at + 1] < low or b[at + 1] > high:
            return False
        if n > 1 and b[at + 2] & 0xC0 != 0x80:
            return False
        if n > 2 and b[at + 3] & 0xC0 != 0x80:
            return False
        at += n + 1
    return True


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _plain(b: cython.p_uchar, start: cython.Py_ssize_t, n: cython.Py_ssize_t, careful: cython.bint) -> cython.bint:
    """Whether the bytes can be copied as they are."""
    i: cython.Py_ssize_t
    high: cython.uchar = 0
    if careful:
        for i in range(start, start + n):
            if b[i] < 0x20 or b[i] > 0x7E:
                return False
        return True
    if cython.compiled:
        for i in range(start, start + n):
            high |= b[i]
        if high < 0x80:
            return True
    return _is_utf8(b, start, start + n)


def text_is_plain(
    view: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, n: cython.Py_ssize_t, careful: bool
) -> bool:
    """Tell whether n bytes at `start` can be written as they are: valid UTF-8 or, when careful, printable ASCII."""
    b: cython.p_uchar
    b = cython.cast(cython.p_uchar, cython.address(view[0])) if cython.compiled else view
    return _plain(b, start, n, careful)


@cython.cfunc
def _slow(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    room: cython.Py_ssize_t,
    b: cython.p_uchar,
    start: cython.Py_ssize_t,
    n: cython.Py_ssize_t,
    slow_text: object,
) -> cython.Py_ssize_t:
    """Append text that cannot be copied; -1 when there is no room for it."""
    text: bytes = slow_text(bytes(b[start : start + n]))
    i: cython.Py_ssize_t
    size: cython.Py_ssize_t = len(text)
    if at + size + _LINE > room:
        return -1
    for i in range(size):
        out[at + i] = text[i]
    return at + size


@cython.cfunc
@cython.inline
def _text(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    room: cython.Py_ssize_t,
    b: cython.p_uchar,
    start: cython.Py_ssize_t,
    n: cython.Py_ssize_t,
    careful: cython.bint,
    slow_text: object,
) -> cython.Py_ssize_t:
    """Append n bytes of the buffer as text; -1 when there is no room for it."""
    if n <= 0:
        return at
    if at + n + _LINE > room:
        return -1
    if _plain(b, start, n, careful):
        return _copy(out, at, b, start, n)
    return _slow(out, at, room, b, start, n, slow_text)


@cython.cfunc
def _header_keys(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    room: cython.Py_ssize_t,
    b: cython.p_uchar,
    p: cython.Py_ssize_t,
    count: cython.longlong,
    careful: cython.bint,
    slow_text: object,
) -> cython.Py_ssize_t:
    """Append the keys of `count` headers that begin at p (the record kernel has checked all lengths)."""
    i: cython.longlong
    size: cython.longlong
    shift: cython.Py_ssize_t
    for i in range(count):
        if at + _LINE > room:
            return -1
        if i > 0:
            out[at] = 44
            at += 1
        size = 0
        shift = 0
        while b[p] >= 0x80:
            size |= cython.cast(cython.longlong, b[p] & 0x7F) << shift
            shift += 7
            p += 1
        size |= cython.cast(cython.longlong, b[p]) << shift
        size = (size & _LOW_32) >> 1
        p += 1
        at = _text(out, at, room, b, p, size, careful, slow_text)
        if at < 0:
            return at
        p += size
        size = 0
        shift = 0
        while b[p] >= 0x80:
            size |= cython.cast(cython.longlong, b[p] & 0x7F) << shift
            shift += 7
            p += 1
        size |= cython.cast(cython.longlong, b[p]) << shift
        size &= _LOW_32
        p += 1
        if size & 1 == 0:
            p += size >> 1
    return at


@cython.cfunc
def _decoded(out: cython.p_uchar, at: cython.Py_ssize_t, room: cython.Py_ssize_t, text: bytes) -> cython.Py_ssize_t:
    """Append what a decoder made; -1 when there is no room for it."""
    size: cython.Py_ssize_t = len(text)
    i: cython.Py_ssize_t
    if at + size + _LINE > room:
        return -1
    for i in range(size):
        out[at + i] = text[i]
    return at + size


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
    mode: cython.Py_ssize_t,
    slow_text: Callable[[bytes], bytes],
    contents: Contents | None,
    control: Contents,
) -> tuple[int, bool, int, int, int, str | None]:
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
        mode: bits (CONTENTS ...).
        slow_text: makes text of bytes that cannot be copied (invalid UTF-8; on a terminal, control characters).
        contents: makes the text of key and payload, leading blank included, from offset, key and value; None for
            UTF-8. A tuple instead of bytes: Kafka's tool ends after this text, for this reason.
        control: the same for control records.

    Returns:
        The batch to go on with, whether its line is printed, the record to go on with, the end of the text, why
        (DONE ...), and the reason when it is STOPPED.

    Source: DumpLogSegments.dumpLog, printBatchLevel, printRecordMetadata.
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
    c: cython.Py_ssize_t
    i: cython.Py_ssize_t
    start: cython.Py_ssize_t
    need: cython.Py_ssize_t
    careful: cython.bint = (mode & 16) != 0
    iso: cython.bint = (mode & 64) != 0
    is_control: cython.bint
    metadata: cython.bint = (mode & 2) == 0
    while k < last:
        c = k * _BATCH_WIDTH
        if not printed:
            if at + _LINE > room:
                return k, False, r, at, 1, None
            if mode & 32 and (q[c + _ATTRIBUTES] & 7 > 4 or q[c + _MAGIC] < 0):
                return (
                    k,
                    True,
                    r,
                    _batch_head(out, at, q, c, iso),
                    2,
                    _line_stop(q[c + _MAGIC], q[c + _ATTRIBUTES]),
                )
            at = _batch_line(out, at, q, c, iso)
            printed = True
        is_control = q[c + _MAGIC] >= 2 and q[c + _ATTRIBUTES] & 32 != 0
        while r < n and p[r * _RECORD_WIDTH + _R_BATCH] == k:
            i = r * _RECORD_WIDTH
            need = _LINE
            if mode & 1 and not is_control and p[i + _R_FLAGS] & _VALUE_OVERRUNS == 0:
                need += 3 * (p[i + _R_END] - p[i + _R_AT])
            if at + need > room:
                return k, True, r, at, 3 if at == 0 else 1, None
            start = at
            if metadata:
                at = _int(out, _put(out, at, b"| offset: ", 10), p[i + _R_OFFSET])
                at = _timestamp_type(out, at, q[c + _MAGIC], q[c + _ATTRIBUTES])
                at = _time(out, at, p[i + _R_TIMESTAMP], iso)
                at = _put(out, at, b" keySize: ", 10)
                at = _int(out, at, p[i + _R_KEY_SIZE] if p[i + _R_KEY_SIZE] >= 0 else -1)
                at = _put(out, at, b" valueSize: ", 12)
                if p[i + _R_FLAGS] & _VALUE_OVERRUNS:
                    at = _int(out, at, p[i + _R_CLAIMED_SIZE])
                else:
                    at = _int(out, at, p[i + _R_VALUE_SIZE] if p[i + _R_VALUE_SIZE] >= 0 else -1)
                if q[c + _MAGIC] >= 2:
                    at = _int(out, _put(out, at, b" sequence: ", 11), p[i + _R_SEQUENCE])
                    at = _put(out, at, b" headerKeys: [", 14)
                    at = _header_keys(
                        out,
                        at,
                        room,
                        b,
                        p[i + _R_HEADERS_AT],
                        p[i + _R_HEADER_COUNT],
                        careful,
                        slow_text,
                    )
                    if at < 0:
                        return k, True, r, start, 3 if start == 0 else 1, None
                    at = _put(out, at, b"]", 1)
                else:
                    at = _bool(out, _put(out, at, b" isValid: ", 10), p[i + _R_FLAGS] & _CRC_HOLDS != 0)
                    at = _int(out, _put(out, at, b" crc: ", 6), p[i + _R_CRC])
                    if mode & 4:
                        at = _put(out, at, b"}", 1)
            reason = None
            if is_control:
                if metadata:
                    text = control(p[i + _R_OFFSET], _key(b, p, i), _value(b, p, i))
                    if type(text) is not bytes:
                        text, reason = text
                    at = _decoded(out, at, room, text)
            elif mode & 1:
                if p[i + _R_FLAGS] & _VALUE_OVERRUNS:
                    reason = "java.lang.IllegalArgumentException: newLimit > capacity"
                elif contents is not None:
                    text = contents(p[i + _R_OFFSET], _key(b, p, i), _value(b, p, i))
                    if type(text) is not bytes:
                        text, reason = text
                    at = _decoded(out, at, room, text)
                else:
                    if p[i + _R_KEY_SIZE] >= 0:
                        if not metadata:
                            at = _put(out, at, b"|", 1)
                        at = _put(out, at, b" key: ", 6)
                        at = _text(out, at, room, b, p[i + _R_KEY_AT], p[i + _R_KEY_SIZE], careful, slow_text)
                    elif not metadata and mode & 8 == 0 and p[i + _R_VALUE_SIZE] >= 0:
                        at = _put(out, at, b"|", 1)
                    if at >= 0 and p[i + _R_VALUE_SIZE] >= 0:
                        at = _put(out, at, b" payload: ", 10)
                        at = _text(
                            out,
                            at,
                            room,
                            b,
                            p[i + _R_VALUE_AT],
                            p[i + _R_VALUE_SIZE],
                            careful,
                            slow_text,
                        )
            if at < 0:
                return k, True, r, start, 3 if start == 0 else 1, None
            if reason is not None:
                return k, True, r + 1, at, 2, reason
            at = _put(out, at, b"\n", 1)
            r += 1
        if r < n or k + 1 < last:
            printed = False
            k += 1
        else:
            break
    return k, printed, r, at, 0, None


@cython.cfunc
def _key(b: cython.p_uchar, p: cython.p_longlong, i: cython.Py_ssize_t) -> object:
    if p[i + _R_KEY_SIZE] < 0:
        return None
    return bytes(b[p[i + _R_KEY_AT] : p[i + _R_KEY_AT] + p[i + _R_KEY_SIZE]])


@cython.cfunc
def _value(b: cython.p_uchar, p: cython.p_longlong, i: cython.Py_ssize_t) -> object:
    if p[i + _R_VALUE_SIZE] < 0:
        return None
    return bytes(b[p[i + _R_VALUE_AT] : p[i + _R_VALUE_AT] + p[i + _R_VALUE_SIZE]])


def header_keys(
    view: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    count: cython.longlong,
    begun: bool,
    target: cython.uchar[::1],
    to: cython.Py_ssize_t,
    careful: bool,
    slow_text: Callable[[bytes], bytes],
) -> tuple[int, int, int]:
    """Append the keys of headers as far as there is room: a line may have millions of them.

    Args:
        view: the buffer that the headers lie in; the record kernel has checked their lengths.
        at: place of the first one.
        count: how many there are.
        begun: keys were written before.
        target: the buffer for the text.
        to: where in it to go on.
        careful, slow_text: see `render`.

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
    escape: cython.bint = careful
    end: cython.Py_ssize_t
    while count > 0 and to + _LINE < room:
        end = to
        if comma:
            out[end] = 44
            end += 1
        end = _header_keys(out, end, room, b, at, 1, escape, slow_text)
        if end < 0:
            break
        to = end
        at = _after_header(b, at)
        comma = True
        count -= 1
    return at, count, to


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _after_header(b: cython.p_uchar, p: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The place after the header at p (the record kernel has checked all lengths)."""
    part: cython.Py_ssize_t
    size: cython.longlong
    shift: cython.Py_ssize_t
    for part in range(2):
        size = 0
        shift = 0
        while b[p] >= 0x80:
            size |= cython.cast(cython.longlong, b[p] & 0x7F) << shift
            shift += 7
            p += 1
        size |= cython.cast(cython.longlong, b[p]) << shift
        size &= _LOW_32
        p += 1
        if size & 1 == 0:
            p += size >> 1
    return p
