# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Kernel: JSON lines for batches and records, from columns into one reused buffer.

Compiled by Cython when a compiler is there, interpreted with the same results when not. What is written is
what `json.dumps` with its compact separators would write: ASCII only.

Contract. Trusted: record rows are those of `kdump.format.record._records` for the same buffer, in the order of their
batches, and batch rows are those of a scan. Guaranteed: text of the file is measured before it is written, so nothing
goes past the end; a line that does not fit is taken back, and the result says where to continue. Headers are walked
within R_END by the decoder that checked them.
"""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from kdump.format.kernels import _cython as cython
if not cython.compiled:  # whether Cython is there or not: its own stand-ins are slow, and refuse some casts
    from kdump.format.kernels import _cython as cython

from collections.abc import Callable, Sequence

if cython.compiled:
    from cython.cimports.kdump.format.batch import layout
    from cython.cimports.kdump.format.kernels import wire
else:
    from kdump.format.batch import layout
    from kdump.format.kernels import wire


_HEX = cython.declare(cython.p_char, b"0123456789abcdef")
# What follows the backslash of the short escapes, by character; 0 where there is none.
_SHORT = cython.declare(cython.p_char, b"\0\0\0\0\0\0\0\0btn\0fr\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0")

# Why rendering stopped.
DONE = 0
NO_ROOM = 1  # the buffer is full: write it out and continue
TOO_LONG = 2  # this one line is longer than the buffer

_LINE = cython.declare(cython.Py_ssize_t, 1024)  # more than any line without the name of its file and its text

# What of its contents stands in the line of a record.
KEY = 1
PAYLOAD = 2
DECODED = 4
_KEY = cython.declare(cython.Py_ssize_t, KEY)
_PAYLOAD = cython.declare(cython.Py_ssize_t, PAYLOAD)
_DECODED = cython.declare(cython.Py_ssize_t, DECODED)

Decode = Callable[[int, "bytes | None", "bytes | None"], bytes]
Control = Callable[["bytes | None", "bytes | None"], bytes]
Hide = Callable[[bytes], bytes]


def is_compiled() -> bool:
    """Tell whether this kernel runs compiled."""
    return bool(cython.compiled)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _int_if(
    out: cython.p_uchar, at: cython.Py_ssize_t, value: cython.longlong, there: cython.bint
) -> cython.Py_ssize_t:
    """Append a number, null where it is not there."""
    return wire.put_int(out, at, value) if there else wire.put(out, at, b"null", 4)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _bool_if(out: cython.p_uchar, at: cython.Py_ssize_t, value: cython.bint, there: cython.bint) -> cython.Py_ssize_t:
    """Append a truth value, null where it is not there."""
    if not there:
        return wire.put(out, at, b"null", 4)
    return wire.put(out, at, b"true", 4) if value else wire.put(out, at, b"false", 5)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _codec(out: cython.p_uchar, at: cython.Py_ssize_t, codec: cython.longlong) -> cython.Py_ssize_t:
    if codec == 0:
        return wire.put(out, at, b'"none"', 6)
    if codec == 1:
        return wire.put(out, at, b'"gzip"', 6)
    if codec == 2:
        return wire.put(out, at, b'"snappy"', 8)
    if codec == 3:
        return wire.put(out, at, b'"lz4"', 5)
    if codec == 4:
        return wire.put(out, at, b'"zstd"', 6)
    return wire.put(out, wire.put_int(out, wire.put(out, at, b'"unknown:', 9), codec), b'"', 1)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _timestamp_type(
    out: cython.p_uchar, at: cython.Py_ssize_t, magic: cython.longlong, attributes: cython.longlong
) -> cython.Py_ssize_t:
    if magic == 0:
        return wire.put(out, at, b',"timestampType":"NoTimestampType"', 34)
    if attributes & layout.TIMESTAMP_TYPE_FLAG:
        return wire.put(out, at, b',"timestampType":"LogAppendTime"', 32)
    return wire.put(out, at, b',"timestampType":"CreateTime"', 29)


@cython.cfunc
@cython.exceptval(check=False)
def _batch(out: cython.p_uchar, at: cython.Py_ssize_t, q: cython.p_longlong, k: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Append the line of one batch behind the name of its file."""
    magic: cython.longlong = q[k + layout.MAGIC]
    attributes: cython.longlong = q[k + layout.ATTRIBUTES]
    new: cython.bint = magic >= layout.MAGIC_V2
    at = wire.put_int(out, wire.put(out, at, b',"position":', 12), q[k + layout.POSITION])
    at = wire.put_int(out, wire.put(out, at, b',"size":', 8), q[k + layout.SIZE])
    at = wire.put(out, at, b',"baseOffset":', 14)
    at = _int_if(out, at, q[k + layout.BASE_OFFSET], new or q[k + layout.BASE_OFFSET] >= 0)
    at = wire.put_int(out, wire.put(out, at, b',"lastOffset":', 14), q[k + layout.LAST_OFFSET])
    at = _int_if(out, wire.put(out, at, b',"count":', 9), q[k + layout.COUNT], new)
    at = _int_if(out, wire.put(out, at, b',"baseSequence":', 16), q[k + layout.BASE_SEQUENCE], new)
    at = wire.put(out, at, b',"lastSequence":', 16)
    at = _int_if(out, at, wire.last_sequence(q[k + layout.BASE_SEQUENCE], q[k + layout.LAST_OFFSET_DELTA]), new)
    at = _int_if(out, wire.put(out, at, b',"producerId":', 14), q[k + layout.PRODUCER_ID], new)
    at = _int_if(out, wire.put(out, at, b',"producerEpoch":', 17), q[k + layout.PRODUCER_EPOCH], new)
    at = _int_if(out, wire.put(out, at, b',"partitionLeaderEpoch":', 24), q[k + layout.LEADER_EPOCH], new)
    at = _bool_if(out, wire.put(out, at, b',"isTransactional":', 19), attributes & layout.TRANSACTIONAL_FLAG != 0, new)
    at = _bool_if(out, wire.put(out, at, b',"isControl":', 13), attributes & layout.CONTROL_FLAG != 0, new)
    at = wire.put(out, at, b',"deleteHorizonMs":', 19)
    at = _int_if(out, at, q[k + layout.BASE_TIMESTAMP], new and attributes & layout.DELETE_HORIZON_FLAG != 0)
    at = _timestamp_type(out, at, magic, attributes)
    at = _int_if(out, wire.put(out, at, b',"baseTimestamp":', 17), q[k + layout.BASE_TIMESTAMP], new)
    at = _int_if(out, wire.put(out, at, b',"maxTimestamp":', 16), q[k + layout.MAX_TIMESTAMP], magic != 0)
    at = wire.put_int(out, wire.put(out, at, b',"magic":', 9), magic)
    at = _codec(out, wire.put(out, at, b',"compresscodec":', 17), attributes & layout.CODEC_MASK)
    at = wire.put_int(out, wire.put(out, at, b',"attributes":', 14), attributes)
    at = wire.put_int(out, wire.put(out, at, b',"crc":', 7), q[k + layout.CRC])
    at = _bool_if(out, wire.put(out, at, b',"isvalid":', 11), q[k + layout.CRC] == q[k + layout.COMPUTED_CRC], True)
    return wire.put(out, at, b"}\n", 2)


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
    n: cython.Py_ssize_t
    size: cython.Py_ssize_t = 0
    while at < stop:
        n = wire.utf8_size(b, at, stop)
        if n == 0:
            return -1
        size += _unit_size(b[at]) if n == 1 else 12 if n == 4 else 6
        at += n
    return size


@cython.cfunc
@cython.exceptval(check=False)
def _unit(out: cython.p_uchar, at: cython.Py_ssize_t, unit: cython.uint) -> cython.Py_ssize_t:
    r"""Append one UTF-16 unit as \uXXXX."""
    at = wire.put(out, at, b"\\u", 2)
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
    to = wire.put(out, to, b'{"base64":"', 11)
    to = wire.put_base64(out, to, b, at, n, wire.BASE64, True)
    return wire.put(out, to, b'"}', 2)


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
    hide: object,
) -> cython.Py_ssize_t:
    """Append bytes of the buffer as a string, or as Base64 where they are not UTF-8; -1 when there is no room.

    A size below 0 is null. With `hide` it is what that makes of the bytes.
    """
    size: cython.Py_ssize_t
    if n < 0:
        return wire.put(out, at, b"null", 4)
    if hide is not None:
        return _bytes(out, at, room, hide(bytes(b[start : start + n])))
    if at + n > room:
        return -1
    if _plain(b, start, n):
        if at + n + 2 > room:
            return -1
        out[at] = 34
        at = wire.copy(out, at + 1, b, start, n)
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
def _headers(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    room: cython.Py_ssize_t,
    b: cython.p_uchar,
    p: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.longlong,
    hide: object,
) -> cython.Py_ssize_t:
    """Append `count` headers that begin at p and end before `end`; -1 when there is no room."""
    i: cython.longlong
    size: cython.longlong
    after: cython.Py_ssize_t
    for i in range(count):
        if at + 64 > room:
            return -1
        at = wire.put(out, at, b',{"key":', 8) if i else wire.put(out, at, b'{"key":', 7)
        after = wire.after_varint(b, p, end)
        size = wire.size_within(b, p, after, end)
        at = _text(out, at, room, b, after, size if size > 0 else 0, None)
        if at < 0 or at + 64 > room:
            return -1
        p = after + size if size > 0 else after
        after = wire.after_varint(b, p, end)
        size = wire.size_within(b, p, after, end)
        p = after
        at = _text(out, wire.put(out, at, b',"value":', 9), room, b, p, size, hide)
        if at < 0 or at + 64 > room:
            return -1
        if size > 0:
            p += size
        at = wire.put(out, at, b"}", 1)
    return at


@cython.cfunc
@cython.inline
def _bytes(out: cython.p_uchar, at: cython.Py_ssize_t, room: cython.Py_ssize_t, text: bytes) -> cython.Py_ssize_t:
    """Append ASCII text that others made; -1 when there is no room for it."""
    size: cython.Py_ssize_t = len(text)
    if at + size > room:
        return -1
    return wire.put(out, at, text, size)


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
    contents: cython.Py_ssize_t,
    decode: object,
    control: object,
    fate: object,
    hide: object,
) -> cython.Py_ssize_t:
    """Append the line of one record behind the name of its file; -1 when there is no room for it."""
    new: cython.bint = q[c + layout.MAGIC] >= layout.MAGIC_V2
    key_size: cython.longlong = p[i + layout.R_KEY_SIZE]
    value_size: cython.longlong = p[i + layout.R_VALUE_SIZE]
    fits: cython.Py_ssize_t = room - _LINE
    at = wire.put_int(out, wire.put(out, at, b',"batchPosition":', 17), q[c + layout.POSITION])
    at = wire.put_int(out, wire.put(out, at, b',"offset":', 10), p[i + layout.R_OFFSET])
    at = wire.put_int(out, wire.put(out, at, b',"timestamp":', 13), p[i + layout.R_TIMESTAMP])
    at = wire.put(out, at, b',"timestampDelta":', 18)
    at = wire.put_int(out, at, p[i + layout.R_TIME_DELTA]) if new else wire.put(out, at, b"null", 4)
    at = _timestamp_type(out, at, q[c + layout.MAGIC], q[c + layout.ATTRIBUTES])
    at = wire.put_int(out, wire.put(out, at, b',"attributes":', 14), p[i + layout.R_ATTRIBUTES])
    at = wire.put_int(out, wire.put(out, at, b',"keySize":', 11), key_size if key_size >= 0 else -1)
    at = wire.put_int(out, wire.put(out, at, b',"valueSize":', 13), value_size if value_size >= 0 else -1)
    at = _int_if(out, wire.put(out, at, b',"sequence":', 12), p[i + layout.R_SEQUENCE], new)
    if new:
        at = wire.put(out, at, b',"headers":[', 12)
        at = _headers(
            out, at, fits, b, p[i + layout.R_HEADERS_AT], p[i + layout.R_END], p[i + layout.R_HEADER_COUNT], hide
        )
        if at < 0:
            return at
        at = wire.put(out, at, b"]", 1)
    else:
        at = wire.put(out, at, b',"headers":null', 15)
    if contents & _KEY:
        at = _text(out, wire.put(out, at, b',"key":', 7), fits, b, p[i + layout.R_KEY_AT], key_size, hide)
        if at < 0:
            return at
    if contents & _PAYLOAD:
        at = _text(out, wire.put(out, at, b',"payload":', 11), fits, b, p[i + layout.R_VALUE_AT], value_size, hide)
        if at < 0:
            return at
    if new and q[c + layout.ATTRIBUTES] & layout.CONTROL_FLAG != 0:
        text = control(_field(b, p[i + layout.R_KEY_AT], key_size), _field(b, p[i + layout.R_VALUE_AT], value_size))
        at = _bytes(out, wire.put(out, at, b',"control":', 11), fits, text)
        if at < 0:
            return at
        decode = None
    else:
        at = wire.put(out, at, b',"control":null', 15)
    if contents & _DECODED and decode is not None:
        text = decode(
            p[i + layout.R_OFFSET],
            _field(b, p[i + layout.R_KEY_AT], key_size),
            _field(b, p[i + layout.R_VALUE_AT], value_size),
        )
        at = _bytes(out, at, fits, text)
        if at < 0:
            return at
    elif contents & _DECODED:
        at = wire.put(out, at, b',"decodedKey":null,"decodedPayload":null', 40)
    if fate is not None:
        at = _bytes(out, at, fits, fate)
        if at < 0:
            return at
    return wire.put(out, at, b"}\n", 2)


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
    contents: int,
    decode: Decode | None,
    control: Control,
    fates: Sequence[bytes] | None,
    hide: Hide | None,
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
        at: where in it to continue.
        batch_head, record_head: how the lines begin: type and name of the file.
        contents: bits: KEY, PAYLOAD, DECODED.
        decode: from offset, key and value to ',"decodedKey":...,"decodedPayload":...'; None where records are not
            decoded.
        control: from key and value of a control record to JSON.
        fates: the last member of each record's line, by its row; None for nothing.
        hide: makes the JSON of a key, value or header value that may not be seen; None where all may.

    Returns:
        The batch to continue with, whether its line is printed, the record to continue with, the end of the text, and
        why (DONE ...).
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
    shown: cython.Py_ssize_t = contents
    start: cython.Py_ssize_t
    need: cython.Py_ssize_t = _LINE + (len(batch_head) if len(batch_head) > len(record_head) else len(record_head))
    while k < last:
        if not printed:
            if at + need > room:
                return k, False, r, at, NO_ROOM
            at = _batch(out, _bytes(out, at, room, batch_head), q, k * layout.BATCH_WIDTH)
            printed = True
        while r < n and p[r * layout.RECORD_WIDTH + layout.R_BATCH] == k:
            start = at
            if at + need > room:
                return k, True, r, at, NO_ROOM
            at = _bytes(out, at, room, record_head)
            fate = None if fates is None else fates[r]
            at = _record(
                out,
                at,
                room,
                b,
                q,
                k * layout.BATCH_WIDTH,
                p,
                r * layout.RECORD_WIDTH,
                shown,
                decode,
                control,
                fate,
                hide,
            )
            if at < 0:
                return k, True, r, start, TOO_LONG if start == 0 else NO_ROOM
            r += 1
        if r < n or k + 1 < last:
            printed = False
            k += 1
        else:
            break
    return k, printed, r, at, DONE


@cython.cfunc
def _field(b: cython.p_uchar, at: cython.Py_ssize_t, size: cython.longlong) -> object:
    if size < 0:
        return None
    return bytes(b[at : at + size])


def headers(
    view: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    count: cython.longlong,
    begun: bool,
    target: cython.uchar[::1],
    to: cython.Py_ssize_t,
    hide: Hide | None,
) -> tuple[int, int, int]:
    """Append headers as far as there is room: a line may have millions of them.

    Args:
        view: the buffer that the headers lie in.
        at: place of the first one.
        stop: where they end.
        count: how many there are.
        begun: headers were written before.
        target: the buffer for the text.
        to: where in it to continue.
        hide: see `render`.

    Returns:
        The place of the next header, how many are left, the end of the text.
    """
    b: cython.p_uchar
    out: cython.p_uchar
    if at < 0 or at >= stop or stop > len(view):
        return at, count, to
    if cython.compiled:
        b = cython.cast(cython.p_uchar, cython.address(view[0]))
        out = cython.address(target[0])
    else:
        b = view
        out = target
    room: cython.Py_ssize_t = len(target)
    comma: cython.bint = begun
    end: cython.Py_ssize_t
    after: cython.Py_ssize_t
    size: cython.longlong
    part: cython.Py_ssize_t
    while count > 0 and to + 128 < room:
        end = to
        if comma:
            out[end] = 44
            end += 1
        end = _headers(out, end, room - 64, b, at, stop, 1, hide)
        if end < 0:
            break
        to = end
        for part in range(2):
            after = wire.after_varint(b, at, stop)
            size = wire.size_within(b, at, after, stop)
            at = after + size if size > 0 else after
        comma = True
        count -= 1
    return at, count, to
