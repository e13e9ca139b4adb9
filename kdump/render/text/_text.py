# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Kernel: Kafka's lines for batches and records, from columns into one reused buffer.

Compiled by Cython when a compiler is there, interpreted with the same results when not.

Contract. Trusted: record rows are those of `kdump.format.record._records` for the same buffer, in the order of their
batches, and batch rows are those of a scan. Guaranteed: before text of any length is appended, its length is compared
with the room; what has a bounded length (numbers, names) fits into the _LINE bytes that are always left. A line that
does not fit is taken back: the result says where to continue. Headers are walked within R_END by the decoder that
checked them.
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

_YEAR_10000 = cython.declare(cython.longlong, 253402300800000)  # ms since the epoch


# How lines are made: bits of `mode`.
CONTENTS = 1  # print key and payload
SKIP_METADATA = 2  # print only key and payload
LEGACY_BRACE = 4  # up to 4.2 a "}" follows the crc of a legacy message
BARE_PAYLOAD = 8  # up to 4.2 --skip-record-metadata begins a line without key with a blank
KAFKA = 32  # a line ends where Kafka's tool dies in the middle of it
CAREFUL = 16  # on a terminal: every byte that is not printable ASCII goes to the slow path
ISO = 64  # times as ISO 8601 in UTC
KEY = 128  # print the key, where CONTENTS does not
PAYLOAD = 256  # print the payload, where CONTENTS does not
_CONTENTS = cython.declare(cython.Py_ssize_t, CONTENTS)
_SKIP_METADATA = cython.declare(cython.Py_ssize_t, SKIP_METADATA)
_LEGACY_BRACE = cython.declare(cython.Py_ssize_t, LEGACY_BRACE)
_BARE_PAYLOAD = cython.declare(cython.Py_ssize_t, BARE_PAYLOAD)
_KAFKA = cython.declare(cython.Py_ssize_t, KAFKA)
_CAREFUL = cython.declare(cython.Py_ssize_t, CAREFUL)
_ISO = cython.declare(cython.Py_ssize_t, ISO)
_KEYS = cython.declare(cython.Py_ssize_t, CONTENTS | KEY)
_PAYLOADS = cython.declare(cython.Py_ssize_t, CONTENTS | PAYLOAD)

# Why rendering stopped.
DONE = 0
NO_ROOM = 1  # the buffer is full: write it out and continue
STOPPED = 2  # a decoder said that Kafka's tool ends here, in the middle of the line
TOO_LONG = 3  # this one line is longer than the buffer

_LINE = cython.declare(cython.Py_ssize_t, 1024)  # more than any line without its key, payload and header keys

Contents = Callable[[int, "bytes | None", "bytes | None"], "bytes | tuple[bytes, str]"]


def is_compiled() -> bool:
    """Tell whether this kernel runs compiled."""
    return bool(cython.compiled)


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
        return wire.put_int(out, at, value)
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
    at = wire.put_pair(out, wire.put_pair(out, at, year // 100), year % 100)
    at = wire.put_pair(out, wire.put(out, at, b"-", 1), month)
    at = wire.put_pair(out, wire.put(out, at, b"-", 1), day)
    at = wire.put_pair(out, wire.put(out, at, b"T", 1), rest // 3600000)
    at = wire.put_pair(out, wire.put(out, at, b":", 1), rest // 60000 % 60)
    at = wire.put_pair(out, wire.put(out, at, b":", 1), rest // 1000 % 60)
    out[at] = 46
    at = wire.put_pair(out, at + 1, rest % 1000 // 10)
    out[at] = 48 + rest % 10
    return wire.put(out, at + 1, b"Z", 1)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _bool(out: cython.p_uchar, at: cython.Py_ssize_t, value: cython.bint) -> cython.Py_ssize_t:
    if value:
        return wire.put(out, at, b"true", 4)
    return wire.put(out, at, b"false", 5)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _codec(out: cython.p_uchar, at: cython.Py_ssize_t, codec: cython.longlong) -> cython.Py_ssize_t:
    if codec == 0:
        return wire.put(out, at, b"none", 4)
    if codec == 1:
        return wire.put(out, at, b"gzip", 4)
    if codec == 2:
        return wire.put(out, at, b"snappy", 6)
    if codec == 3:
        return wire.put(out, at, b"lz4", 3)
    if codec == 4:
        return wire.put(out, at, b"zstd", 4)
    # Kafka dies here; the default layout continues and says the number.
    return wire.put_int(out, wire.put(out, at, b"unknown:", 8), codec)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _timestamp_type(
    out: cython.p_uchar, at: cython.Py_ssize_t, magic: cython.longlong, attributes: cython.longlong
) -> cython.Py_ssize_t:
    if magic == 0:
        return wire.put(out, at, b" NoTimestampType: ", 18)
    if attributes & layout.TIMESTAMP_TYPE_FLAG:
        return wire.put(out, at, b" LogAppendTime: ", 16)
    return wire.put(out, at, b" CreateTime: ", 13)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _batch_head(
    out: cython.p_uchar, at: cython.Py_ssize_t, q: cython.p_longlong, k: cython.Py_ssize_t, iso: cython.bint
) -> cython.Py_ssize_t:
    """Append what the tool prints of a batch in its first call."""
    magic: cython.longlong = q[k + layout.MAGIC]
    attributes: cython.longlong = q[k + layout.ATTRIBUTES]
    if magic >= layout.MAGIC_V2:
        at = wire.put_int(out, wire.put(out, at, b"baseOffset: ", 12), q[k + layout.BASE_OFFSET])
        at = wire.put_int(out, wire.put(out, at, b" lastOffset: ", 13), q[k + layout.LAST_OFFSET])
        at = wire.put_int(out, wire.put(out, at, b" count: ", 8), q[k + layout.COUNT])
        at = wire.put_int(out, wire.put(out, at, b" baseSequence: ", 15), q[k + layout.BASE_SEQUENCE])
        at = wire.put(out, at, b" lastSequence: ", 15)
        at = wire.put_int(out, at, wire.last_sequence(q[k + layout.BASE_SEQUENCE], q[k + layout.LAST_OFFSET_DELTA]))
        at = wire.put_int(out, wire.put(out, at, b" producerId: ", 13), q[k + layout.PRODUCER_ID])
        at = wire.put_int(out, wire.put(out, at, b" producerEpoch: ", 16), q[k + layout.PRODUCER_EPOCH])
        at = wire.put_int(out, wire.put(out, at, b" partitionLeaderEpoch: ", 23), q[k + layout.LEADER_EPOCH])
        at = _bool(out, wire.put(out, at, b" isTransactional: ", 18), attributes & layout.TRANSACTIONAL_FLAG != 0)
        at = _bool(out, wire.put(out, at, b" isControl: ", 12), attributes & layout.CONTROL_FLAG != 0)
        if attributes & layout.DELETE_HORIZON_FLAG:
            at = wire.put(out, at, b" deleteHorizonMs: OptionalLong[", 31)
            at = _time(out, at, q[k + layout.BASE_TIMESTAMP], iso)
            at = wire.put(out, at, b"]", 1)
        else:
            at = wire.put(out, at, b" deleteHorizonMs: OptionalLong.empty", 36)
        return at
    return wire.put_int(out, wire.put(out, at, b"offset: ", 8), q[k + layout.LAST_OFFSET])


@cython.cfunc
@cython.exceptval(check=False)
def _batch_line(
    out: cython.p_uchar, at: cython.Py_ssize_t, q: cython.p_longlong, k: cython.Py_ssize_t, iso: cython.bint
) -> cython.Py_ssize_t:
    """Append the line of one batch. Source: DumpLogSegments.printBatchLevel."""
    magic: cython.longlong = q[k + layout.MAGIC]
    attributes: cython.longlong = q[k + layout.ATTRIBUTES]
    at = _batch_head(out, at, q, k, iso)
    at = wire.put_int(out, wire.put(out, at, b" position: ", 11), q[k + layout.POSITION])
    at = _time(out, _timestamp_type(out, at, magic, attributes), q[k + layout.MAX_TIMESTAMP], iso)
    at = wire.put_int(out, wire.put(out, at, b" size: ", 7), q[k + layout.SIZE])
    at = wire.put_int(out, wire.put(out, at, b" magic: ", 8), magic)
    at = _codec(out, wire.put(out, at, b" compresscodec: ", 16), attributes & layout.CODEC_MASK)
    at = wire.put_int(out, wire.put(out, at, b" crc: ", 6), q[k + layout.CRC])
    at = _bool(out, wire.put(out, at, b" isvalid: ", 10), q[k + layout.CRC] == q[k + layout.COMPUTED_CRC])
    return wire.put(out, at, b"\n", 1)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _shown_size(size: cython.longlong, magic: cython.longlong) -> cython.longlong:
    """A size as Kafka prints it: null is -1, but a message of magic 0 or 1 shows what is stored."""
    return size if size >= 0 or magic < layout.MAGIC_V2 else -1


def _line_stop(magic: int, attributes: int) -> str:
    """Java's words where the tool dies in the middle of a batch line."""
    if magic < 0:
        return f"java.lang.IllegalArgumentException: Invalid magic used in LegacyRecord: {magic}"
    return f"java.lang.IllegalArgumentException: Unknown compression type id: {attributes & layout.CODEC_MASK}"


@cython.cfunc
@cython.exceptval(check=False)
def _is_utf8(b: cython.p_uchar, at: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.bint:
    """Whether the bytes are UTF-8 without surrogates, overlong forms or values above U+10FFFF."""
    n: cython.Py_ssize_t
    while at < stop:
        n = wire.utf8_size(b, at, stop)
        if n == 0:
            return False
        at += n
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
    size: cython.Py_ssize_t = len(text)
    if at + size + _LINE > room:
        return -1
    return wire.put(out, at, text, size)


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
        return wire.copy(out, at, b, start, n)
    return _slow(out, at, room, b, start, n, slow_text)


@cython.cfunc
def _header_keys(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    room: cython.Py_ssize_t,
    b: cython.p_uchar,
    p: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.longlong,
    careful: cython.bint,
    slow_text: object,
) -> cython.Py_ssize_t:
    """Append the keys of `count` headers that begin at p and end before `end`; -1 when there is no room for them."""
    i: cython.longlong
    size: cython.longlong
    after: cython.Py_ssize_t
    for i in range(count):
        if at + _LINE > room:
            return -1
        if i > 0:
            out[at] = 44
            at += 1
        after = wire.after_varint(b, p, end)
        size = wire.size_within(b, p, after, end)
        p = after
        if size > 0:
            at = _text(out, at, room, b, p, size, careful, slow_text)
            if at < 0:
                return at
            p += size
        after = wire.after_varint(b, p, end)
        size = wire.size_within(b, p, after, end)
        p = after + size if size > 0 else after
    return at


@cython.cfunc
def _decoded(out: cython.p_uchar, at: cython.Py_ssize_t, room: cython.Py_ssize_t, text: bytes) -> cython.Py_ssize_t:
    """Append what a decoder made; -1 when there is no room for it."""
    size: cython.Py_ssize_t = len(text)
    if at + size + _LINE > room:
        return -1
    return wire.put(out, at, text, size)


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
    fates: Sequence[bytes] | None,
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
        at: where in it to continue.
        mode: bits (CONTENTS ...).
        slow_text: makes text of bytes that cannot be copied (invalid UTF-8; on a terminal, control characters).
        contents: makes the text of key and payload, leading blank included, from offset, key and value; None for
            UTF-8. A tuple instead of bytes: Kafka's tool ends after this text, for this reason.
        control: the same for control records.
        fates: what is written behind the metadata of each record, by its row; None for nothing.

    Returns:
        The batch to continue with, whether its line is printed, the record to continue with, the end of the text, why
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
    careful: cython.bint = (mode & _CAREFUL) != 0
    iso: cython.bint = (mode & _ISO) != 0
    is_control: cython.bint
    metadata: cython.bint = (mode & _SKIP_METADATA) == 0
    keys: cython.bint = (mode & _KEYS) != 0
    payloads: cython.bint = (mode & _PAYLOADS) != 0
    while k < last:
        c = k * layout.BATCH_WIDTH
        if not printed:
            if at + _LINE > room:
                return k, False, r, at, NO_ROOM, None
            if mode & _KAFKA and (
                q[c + layout.ATTRIBUTES] & layout.CODEC_MASK > layout.CODEC_ZSTD or q[c + layout.MAGIC] < 0
            ):
                return (
                    k,
                    True,
                    r,
                    _batch_head(out, at, q, c, iso),
                    STOPPED,
                    _line_stop(q[c + layout.MAGIC], q[c + layout.ATTRIBUTES]),
                )
            at = _batch_line(out, at, q, c, iso)
            printed = True
        is_control = q[c + layout.MAGIC] >= layout.MAGIC_V2 and q[c + layout.ATTRIBUTES] & layout.CONTROL_FLAG != 0
        while r < n and p[r * layout.RECORD_WIDTH + layout.R_BATCH] == k:
            i = r * layout.RECORD_WIDTH
            need = _LINE
            if (keys or payloads) and not is_control and p[i + layout.R_FLAGS] & layout.VALUE_OVERRUNS == 0:
                need += 3 * (p[i + layout.R_END] - p[i + layout.R_AT])
            if at + need > room:
                return k, True, r, at, TOO_LONG if at == 0 else NO_ROOM, None
            start = at
            if metadata:
                at = wire.put_int(out, wire.put(out, at, b"| offset: ", 10), p[i + layout.R_OFFSET])
                at = _timestamp_type(out, at, q[c + layout.MAGIC], q[c + layout.ATTRIBUTES])
                at = _time(out, at, p[i + layout.R_TIMESTAMP], iso)
                at = wire.put(out, at, b" keySize: ", 10)
                at = wire.put_int(out, at, _shown_size(p[i + layout.R_KEY_SIZE], q[c + layout.MAGIC]))
                at = wire.put(out, at, b" valueSize: ", 12)
                if p[i + layout.R_FLAGS] & layout.VALUE_OVERRUNS:
                    at = wire.put_int(out, at, p[i + layout.R_CLAIMED_SIZE])
                else:
                    at = wire.put_int(out, at, _shown_size(p[i + layout.R_VALUE_SIZE], q[c + layout.MAGIC]))
                if q[c + layout.MAGIC] >= layout.MAGIC_V2:
                    at = wire.put_int(out, wire.put(out, at, b" sequence: ", 11), p[i + layout.R_SEQUENCE])
                    at = wire.put(out, at, b" headerKeys: [", 14)
                    at = _header_keys(
                        out,
                        at,
                        room,
                        b,
                        p[i + layout.R_HEADERS_AT],
                        p[i + layout.R_END],
                        p[i + layout.R_HEADER_COUNT],
                        careful,
                        slow_text,
                    )
                    if at < 0:
                        return k, True, r, start, TOO_LONG if start == 0 else NO_ROOM, None
                    at = wire.put(out, at, b"]", 1)
                else:
                    at = _bool(out, wire.put(out, at, b" isValid: ", 10), p[i + layout.R_FLAGS] & layout.CRC_HOLDS != 0)
                    at = wire.put_int(out, wire.put(out, at, b" crc: ", 6), p[i + layout.R_CRC])
                    if mode & _LEGACY_BRACE:
                        at = wire.put(out, at, b"}", 1)
                if fates is not None:
                    at = _decoded(out, at, room, fates[r])
                    if at < 0:
                        return k, True, r, start, TOO_LONG if start == 0 else NO_ROOM, None
            reason = None
            if is_control:
                if metadata:
                    text = control(p[i + layout.R_OFFSET], _key(b, p, i), _value(b, p, i))
                    if type(text) is not bytes:
                        text, reason = text
                    at = _decoded(out, at, room, text)
            elif keys or payloads:
                if p[i + layout.R_FLAGS] & layout.VALUE_OVERRUNS:
                    reason = "java.lang.IllegalArgumentException: newLimit > capacity"
                elif contents is not None:
                    text = contents(p[i + layout.R_OFFSET], _key(b, p, i), _value(b, p, i))
                    if type(text) is not bytes:
                        text, reason = text
                    at = _decoded(out, at, room, text)
                else:
                    if keys and p[i + layout.R_KEY_SIZE] >= 0:
                        if not metadata:
                            at = wire.put(out, at, b"|", 1)
                        at = wire.put(out, at, b" key: ", 6)
                        at = _text(
                            out, at, room, b, p[i + layout.R_KEY_AT], p[i + layout.R_KEY_SIZE], careful, slow_text
                        )
                    elif not metadata and mode & _BARE_PAYLOAD == 0 and p[i + layout.R_VALUE_SIZE] >= 0:
                        at = wire.put(out, at, b"|", 1)
                    if payloads and at >= 0 and p[i + layout.R_VALUE_SIZE] >= 0:
                        at = wire.put(out, at, b" payload: ", 10)
                        at = _text(
                            out,
                            at,
                            room,
                            b,
                            p[i + layout.R_VALUE_AT],
                            p[i + layout.R_VALUE_SIZE],
                            careful,
                            slow_text,
                        )
            if at < 0:
                return k, True, r, start, TOO_LONG if start == 0 else NO_ROOM, None
            if reason is not None:
                return k, True, r + 1, at, STOPPED, reason
            at = wire.put(out, at, b"\n", 1)
            r += 1
        if r < n or k + 1 < last:
            printed = False
            k += 1
        else:
            break
    return k, printed, r, at, DONE, None


@cython.cfunc
def _key(b: cython.p_uchar, p: cython.p_longlong, i: cython.Py_ssize_t) -> object:
    if p[i + layout.R_KEY_SIZE] < 0:
        return None
    return bytes(b[p[i + layout.R_KEY_AT] : p[i + layout.R_KEY_AT] + p[i + layout.R_KEY_SIZE]])


@cython.cfunc
def _value(b: cython.p_uchar, p: cython.p_longlong, i: cython.Py_ssize_t) -> object:
    if p[i + layout.R_VALUE_SIZE] < 0:
        return None
    return bytes(b[p[i + layout.R_VALUE_AT] : p[i + layout.R_VALUE_AT] + p[i + layout.R_VALUE_SIZE]])


def header_keys(
    view: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    count: cython.longlong,
    begun: bool,
    target: cython.uchar[::1],
    to: cython.Py_ssize_t,
    careful: bool,
    slow_text: Callable[[bytes], bytes],
) -> tuple[int, int, int]:
    """Append the keys of headers as far as there is room: a line may have millions of them.

    Args:
        view: the buffer that the headers lie in.
        at: place of the first one.
        stop: where they end.
        count: how many there are.
        begun: keys were written before.
        target: the buffer for the text.
        to: where in it to continue.
        careful, slow_text: see `render`.

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
    escape: cython.bint = careful
    end: cython.Py_ssize_t
    after: cython.Py_ssize_t
    size: cython.longlong
    part: cython.Py_ssize_t
    while count > 0 and to + _LINE < room:
        end = to
        if comma:
            out[end] = 44
            end += 1
        end = _header_keys(out, end, room, b, at, stop, 1, escape, slow_text)
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
