# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Kernel: the records of many batches into columns.

Compiled by Cython when a compiler is there, interpreted with the same results when not. A record is read only when
it is all in the buffer, and each of its fields only when it ends inside the record; so a result is always "n rows,
then a status", never all or nothing, and no length from the data is used before it is compared with what is there.
"""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:  # the interpreter does not need Cython
    from kdump.format import _cython as cython
if not cython.compiled:  # nor what Cython brings for the interpreter, where it is there
    from kdump.format import _cython as cython

from kdump.format import layout

_POSITION = cython.declare(cython.Py_ssize_t, layout.POSITION)
_SIZE = cython.declare(cython.Py_ssize_t, layout.SIZE)
_BASE_OFFSET = cython.declare(cython.Py_ssize_t, layout.BASE_OFFSET)
_LAST_OFFSET = cython.declare(cython.Py_ssize_t, layout.LAST_OFFSET)
_MAGIC = cython.declare(cython.Py_ssize_t, layout.MAGIC)
_ATTRIBUTES = cython.declare(cython.Py_ssize_t, layout.ATTRIBUTES)
_CRC = cython.declare(cython.Py_ssize_t, layout.CRC)
_COMPUTED_CRC = cython.declare(cython.Py_ssize_t, layout.COMPUTED_CRC)
_BASE_TIMESTAMP = cython.declare(cython.Py_ssize_t, layout.BASE_TIMESTAMP)
_MAX_TIMESTAMP = cython.declare(cython.Py_ssize_t, layout.MAX_TIMESTAMP)
_BASE_SEQUENCE = cython.declare(cython.Py_ssize_t, layout.BASE_SEQUENCE)
_COUNT = cython.declare(cython.Py_ssize_t, layout.COUNT)
_LAST_OFFSET_DELTA = cython.declare(cython.Py_ssize_t, layout.LAST_OFFSET_DELTA)
_SUSPICION = cython.declare(cython.Py_ssize_t, layout.SUSPICION)
_SEEN_MAX_TIMESTAMP = cython.declare(cython.Py_ssize_t, layout.SEEN_MAX_TIMESTAMP)
_SEEN_DELTA = cython.declare(cython.Py_ssize_t, layout.SEEN_DELTA)
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
_R_AT = cython.declare(cython.Py_ssize_t, layout.R_AT)
_R_DELTA = cython.declare(cython.Py_ssize_t, layout.R_DELTA)
_R_ATTRIBUTES = cython.declare(cython.Py_ssize_t, layout.R_ATTRIBUTES)
_R_END = cython.declare(cython.Py_ssize_t, layout.R_END)
_WIDTH = cython.declare(cython.Py_ssize_t, layout.RECORD_WIDTH)
_UNKNOWN = cython.declare(cython.longlong, layout.UNKNOWN)

# Literals over 32 bits are Python ints to the compiler, even where the other side is a C variable.
_LOW_32 = cython.declare(cython.longlong, 0xFFFFFFFF)
_TWO_32 = cython.declare(cython.longlong, 0x100000000)

_CRC_HOLDS = cython.declare(cython.longlong, layout.CRC_HOLDS)
_ODD_HEADER_KEY = cython.declare(cython.longlong, layout.ODD_HEADER_KEY)
_VALUE_OVERRUNS = cython.declare(cython.longlong, layout.VALUE_OVERRUNS)
_DISORDERED = cython.declare(cython.longlong, layout.DISORDERED)
_ODD_FIELD = cython.declare(cython.longlong, layout.ODD_FIELD)


def is_compiled() -> bool:
    """Tell whether this kernel runs compiled."""
    return bool(cython.compiled)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _u32(b: cython.p_uchar, at: cython.Py_ssize_t) -> cython.longlong:
    high: cython.longlong = b[at]
    return (high << 24) | (b[at + 1] << 16) | (b[at + 2] << 8) | b[at + 3]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _i32(b: cython.p_uchar, at: cython.Py_ssize_t) -> cython.longlong:
    value: cython.longlong = _u32(b, at)
    if value > 0x7FFFFFFF:
        value -= _TWO_32
    return value


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _i64(b: cython.p_uchar, at: cython.Py_ssize_t) -> cython.longlong:
    return (_i32(b, at) << 32) | _u32(b, at + 4)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _wrap(value: cython.longlong) -> cython.longlong:
    """A 64-bit sum as Java has it: C wraps by itself, the interpreter has to."""
    if not cython.compiled:
        value = ((value + 0x8000000000000000) & 0xFFFFFFFFFFFFFFFF) - 0x8000000000000000
    return value


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _varint_end(
    b: cython.p_uchar, at: cython.Py_ssize_t, stop: cython.Py_ssize_t, most: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """The place after the varint at `at`; -1 when it does not end before `stop`, -2 when it is over `most` bytes."""
    n: cython.Py_ssize_t = 0
    if at < stop and b[at] < 0x80:
        return at + 1  # nearly all have one byte
    while at < stop:
        n += 1
        if b[at] < 0x80:
            return at + 1
        if n == most:
            return -2
        at += 1
    return -1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _varint(b: cython.p_uchar, at: cython.Py_ssize_t, after: cython.Py_ssize_t) -> cython.longlong:
    """The zigzag int32 in [at, after), at most 5 bytes, cut to 32 bits as Java does."""
    value: cython.longlong = 0
    shift: cython.Py_ssize_t = 0
    byte: cython.longlong
    if at + 1 == after:
        value = b[at]
    else:
        while at < after:
            byte = b[at]
            value |= (byte & 0x7F) << shift
            shift += 7
            at += 1
        value &= _LOW_32
    if value & 1:
        return -(value >> 1) - 1
    return value >> 1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _varlong(b: cython.p_uchar, at: cython.Py_ssize_t, after: cython.Py_ssize_t) -> cython.longlong:
    """The zigzag int64 in [at, after), at most 10 bytes, cut to 64 bits as Java does."""
    value: cython.ulonglong = 0
    shift: cython.Py_ssize_t = 0
    byte: cython.ulonglong
    half: cython.longlong
    while at < after:
        byte = b[at]
        value |= (byte & 0x7F) << shift
        shift += 7
        at += 1
    if not cython.compiled:
        value &= 0xFFFFFFFFFFFFFFFF
    half = value >> 1
    if value & 1:
        return -half - 1
    return half


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
def _sequence(base: cython.longlong, delta: cython.longlong) -> cython.longlong:
    """Source: DefaultRecordBatch.incrementSequence (int32 arithmetic), -1 when the batch has none."""
    if base < 0:
        return -1
    if base > _int32(0x7FFFFFFF - delta):
        return _int32(delta - (0x7FFFFFFF - base) - 1)
    return _int32(base + delta)


@cython.cfunc
@cython.exceptval(check=False)
def _is_utf8(b: cython.p_uchar, at: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.bint:
    """Whether the bytes [at, stop) are UTF-8: shortest forms, no surrogates, nothing above U+10FFFF."""
    lead: cython.uchar
    low: cython.uchar
    high: cython.uchar
    more: cython.Py_ssize_t
    while at < stop:
        lead = b[at]
        at += 1
        if lead < 0x80:
            continue
        low = 0x80
        high = 0xBF
        if 0xC2 <= lead <= 0xDF:
            more = 1
        elif 0xE0 <= lead <= 0xEF:
            more = 2
            if lead == 0xE0:
                low = 0xA0
            elif lead == 0xED:
                high = 0x9F
        elif 0xF0 <= lead <= 0xF4:
            more = 3
            if lead == 0xF0:
                low = 0x90
            elif lead == 0xF4:
                high = 0x8F
        else:
            return False
        if more > stop - at or b[at] < low or b[at] > high:
            return False
        at += 1
        while more > 1:
            if b[at] & 0xC0 != 0x80:
                return False
            at += 1
            more -= 1
    return True


@cython.cfunc
@cython.exceptval(check=False)
def _fields(
    b: cython.p_uchar,
    at: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    row: cython.p_longlong,
    r: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Read the fields of the record body [at, stop) into a row; the timestamp delta goes to R_TIMESTAMP.

    Returns R_DONE or what is wrong.
    """
    after: cython.Py_ssize_t
    size: cython.longlong
    count: cython.longlong
    i: cython.longlong
    j: cython.Py_ssize_t
    if at >= stop:
        return 6  # R_BODY
    row[r + _R_FLAGS] = 0
    row[r + _R_ATTRIBUTES] = b[at]
    at += 1
    after = _varint_end(b, at, stop, 10)
    if after < 0:
        return 5  # R_FIELD_VARINT
    row[r + _R_TIMESTAMP] = _varlong(b, at, after)
    at = after
    after = _varint_end(b, at, stop, 5)
    if after < 0:
        return 5
    row[r + _R_DELTA] = _varint(b, at, after)
    at = after
    after = _varint_end(b, at, stop, 5)
    if after < 0:
        return 5
    size = _varint(b, at, after)
    at = after
    if size > stop - at:
        return 7  # R_KEY_LENGTH
    row[r + _R_KEY_AT] = at
    row[r + _R_KEY_SIZE] = size
    if size > 0:
        at += size
    after = _varint_end(b, at, stop, 5)
    if after < 0:
        return 5
    size = _varint(b, at, after)
    at = after
    if size > stop - at:
        return 10  # R_VALUE_LENGTH
    row[r + _R_VALUE_AT] = at
    row[r + _R_VALUE_SIZE] = size
    if size > 0:
        at += size
    after = _varint_end(b, at, stop, 5)
    if after < 0:
        return 5
    count = _varint(b, at, after)
    at = after
    if count < 0 or count > stop - at:
        return 8  # R_HEADER_COUNT_BAD
    row[r + _R_HEADERS_AT] = at
    row[r + _R_HEADER_COUNT] = count
    for i in range(count):
        after = _varint_end(b, at, stop, 5)
        if after < 0:
            return 5
        size = _varint(b, at, after)
        at = after
        if size < 0 or size > stop - at:
            return 9  # R_HEADER_KEY
        for j in range(at, at + size):
            if b[j] >= 0x80:
                if not _is_utf8(b, j, at + size):
                    row[r + _R_FLAGS] |= _ODD_HEADER_KEY
                break
        at += size
        after = _varint_end(b, at, stop, 5)
        if after < 0:
            return 5
        size = _varint(b, at, after)
        at = after
        if size > stop - at:
            return 11  # R_HEADER_VALUE
        if size > 0:
            at += size
    if at != stop:
        return 6  # R_BODY
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def _one_batch(
    b: cython.p_uchar,
    at: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    batch: cython.p_longlong,
    k: cython.Py_ssize_t,
    done: cython.longlong,
    row: cython.p_longlong,
    filled: cython.Py_ssize_t,
    capacity: cython.Py_ssize_t,
    state: cython.p_longlong,
) -> cython.Py_ssize_t:
    """Read records of the batch in row k from [at, stop), `done` of them being read already.

    state gets: place after the last record read, records read in all, rows filled in all.
    """
    q: cython.Py_ssize_t = k * _BATCH_WIDTH
    count: cython.longlong = batch[q + _COUNT]
    base: cython.longlong = batch[q + _BASE_OFFSET]
    first_timestamp: cython.longlong = batch[q + _BASE_TIMESTAMP]
    max_timestamp: cython.longlong = batch[q + _MAX_TIMESTAMP]
    append_time: cython.bint = (batch[q + _ATTRIBUTES] & 8) != 0
    base_sequence: cython.longlong = batch[q + _BASE_SEQUENCE]
    seen: cython.longlong = batch[q + _SEEN_MAX_TIMESTAMP]
    delta: cython.longlong = batch[q + _SEEN_DELTA]
    last_delta: cython.longlong = batch[q + _LAST_OFFSET_DELTA]
    bits: cython.longlong = batch[q + _SUSPICION]
    timestamp: cython.longlong
    after: cython.Py_ssize_t
    size: cython.longlong
    status: cython.Py_ssize_t = 0
    r: cython.Py_ssize_t = filled * _WIDTH
    if count < 0:
        status = 12  # R_COUNT_NEGATIVE
    while status == 0 and done < count:
        if filled >= capacity:
            status = 1  # R_FULL
            break
        after = _varint_end(b, at, stop, 5)
        if after < 0:
            status = 2 if after == -1 else 3  # R_MORE, R_LENGTH_VARINT
            break
        size = _varint(b, at, after)
        if size < 0:
            status = 4  # R_LENGTH_NEGATIVE
            break
        if size > stop - after:
            status = 2  # R_MORE
            break
        status = _fields(b, after, after + size, row, r)
        if status != 0:
            break
        row[r + _R_BATCH] = k
        row[r + _R_AT] = at
        row[r + _R_OFFSET] = _wrap(base + row[r + _R_DELTA])
        timestamp = _wrap(first_timestamp + row[r + _R_TIMESTAMP])
        row[r + _R_TIMESTAMP] = max_timestamp if append_time else timestamp
        if timestamp != seen and seen != _UNKNOWN:
            bits |= 2048  # TIMES_VARY
        if timestamp > seen:
            seen = timestamp
        if row[r + _R_DELTA] <= delta or row[r + _R_DELTA] > last_delta:
            bits |= 4096  # ODD_ORDER
            row[r + _R_FLAGS] |= _DISORDERED
        delta = row[r + _R_DELTA]
        if row[r + _R_ATTRIBUTES] != 0 or row[r + _R_KEY_SIZE] < -1 or row[r + _R_VALUE_SIZE] < -1:
            row[r + _R_FLAGS] |= _ODD_FIELD
        if row[r + _R_FLAGS] & (_ODD_FIELD | _ODD_HEADER_KEY):
            bits |= 8192  # ODD_FIELDS
        row[r + _R_SEQUENCE] = _sequence(base_sequence, row[r + _R_DELTA])
        row[r + _R_CRC] = -1
        at = after + size
        row[r + _R_END] = at
        done += 1
        filled += 1
        r += _WIDTH
    if status == 0 and at != stop and count != 0:
        status = 13  # R_LEFT_OVER
    batch[q + _SEEN_MAX_TIMESTAMP] = seen
    batch[q + _SEEN_DELTA] = delta
    batch[q + _SUSPICION] = bits
    state[0] = at
    state[1] = done
    state[2] = filled
    return status


@cython.cfunc
@cython.exceptval(check=False)
def _one_message(
    b: cython.p_uchar,
    at: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    magic: cython.longlong,
    batch: cython.p_longlong,
    k: cython.Py_ssize_t,
    row: cython.p_longlong,
    r: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Read the message of magic 0 or 1 in [at, stop), its 12 bytes of offset and size included, into a row.

    R_NO_MESSAGE: the row is not usable. R_VALUE_LENGTH: the value claims more bytes than there are; the row has none,
    VALUE_OVERRUNS and the size that it claims.
    """
    p: cython.Py_ssize_t = at + 18
    size: cython.longlong
    if magic == 1:
        p = at + 26
    row[r + _R_BATCH] = k
    row[r + _R_AT] = at
    row[r + _R_END] = stop
    row[r + _R_OFFSET] = _i64(b, at)
    row[r + _R_DELTA] = _i64(b, at)
    row[r + _R_ATTRIBUTES] = b[at + 17]
    row[r + _R_CRC] = _u32(b, at + 12)
    row[r + _R_FLAGS] = 0
    row[r + _R_SEQUENCE] = -1
    row[r + _R_HEADERS_AT] = stop
    row[r + _R_HEADER_COUNT] = 0
    row[r + _R_TIMESTAMP] = -1
    row[r + _R_KEY_AT] = stop
    row[r + _R_KEY_SIZE] = -1
    row[r + _R_VALUE_AT] = stop
    row[r + _R_VALUE_SIZE] = -1
    if p + 4 > stop:
        return 14  # R_NO_MESSAGE
    if magic == 1:
        if batch[k * _BATCH_WIDTH + _MAGIC] == 1 and batch[k * _BATCH_WIDTH + _ATTRIBUTES] & 8:
            row[r + _R_TIMESTAMP] = batch[k * _BATCH_WIDTH + _MAX_TIMESTAMP]  # stamped by the broker
        else:
            row[r + _R_TIMESTAMP] = _i64(b, at + 18)
    size = _i32(b, p)
    p += 4
    if size > stop - p - 4:
        return 14
    row[r + _R_KEY_AT] = p
    row[r + _R_KEY_SIZE] = size
    if size > 0:
        p += size
    if p + 4 > stop:
        return 14
    size = _i32(b, p)
    p += 4
    row[r + _R_VALUE_AT] = p
    if size > stop - p:
        row[r + _R_FLAGS] |= _VALUE_OVERRUNS
        row[r + _R_CLAIMED_SIZE] = size
        return 10  # R_VALUE_LENGTH
    row[r + _R_VALUE_SIZE] = size
    if size > 0:
        p += size
    return 0 if p == stop else 6  # R_BODY


def read_plain(
    view: cython.const[cython.uchar][::1],
    origin: cython.longlong,
    batches: cython.longlong[::1],
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    at: cython.Py_ssize_t,
    done: cython.longlong,
    rows: cython.longlong[::1],
    filled: cython.Py_ssize_t,
    capacity: cython.Py_ssize_t,
) -> tuple[int, int, int, int, int]:
    """Read the records of uncompressed batches that lie whole in one window.

    Args:
        view: the window.
        origin: file position of view[0].
        batches: rows of batches; those in [first, last) are read.
        first, last: row numbers, half-open.
        at: where in the window to go on inside batch `first`; 0 to begin with it.
        done: records of batch `first` that were read already.
        rows: capacity x RECORD_WIDTH values.
        filled: rows that are filled already.
        capacity: rows.

    Returns:
        The batch that the kernel stopped in (`last` when all are read), the place, the records of that batch that
        are read, the rows filled in all, and why it stopped (layout.R_DONE ...).
    """
    b: cython.p_uchar
    batch: cython.p_longlong
    row: cython.p_longlong
    state: cython.p_longlong
    space = cython.declare(cython.longlong[3])
    if cython.compiled:
        state = cython.address(space[0])
        b = cython.cast(cython.p_uchar, cython.address(view[0]))
        batch = cython.address(batches[0])
        row = cython.address(rows[0])
    else:
        state = [0, 0, 0]
        b = view
        batch = batches
        row = rows
    k: cython.Py_ssize_t = first
    start: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    status: cython.Py_ssize_t = 0
    while k < last:
        start = batch[k * _BATCH_WIDTH + _POSITION] - origin
        stop = start + batch[k * _BATCH_WIDTH + _SIZE]
        if batch[k * _BATCH_WIDTH + _MAGIC] < 2:
            if filled >= capacity:
                return k, 0, 0, filled, 1  # R_FULL
            status = _one_message(b, start, stop, batch[k * _BATCH_WIDTH + _MAGIC], batch, k, row, filled * _WIDTH)
            if status != 14:  # R_NO_MESSAGE
                if batch[k * _BATCH_WIDTH + _COMPUTED_CRC] == row[filled * _WIDTH + _R_CRC]:
                    row[filled * _WIDTH + _R_FLAGS] |= _CRC_HOLDS
                filled += 1
            if status != 0:
                return k, stop, 1, filled, status
        else:
            if at == 0:
                at = start + 61
            status = _one_batch(b, at, stop, batch, k, done, row, filled, capacity, state)
            filled = state[2]
            if status != 0:
                return k, state[0], state[1], filled, status
            at = 0
            done = 0
        k += 1
    return k, 0, 0, filled, 0


def read_stream(
    view: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    batches: cython.longlong[::1],
    batch: cython.Py_ssize_t,
    done: cython.longlong,
    rows: cython.longlong[::1],
    capacity: cython.Py_ssize_t,
) -> tuple[int, int, int, int]:
    """Read records of one batch of magic 2 from decompressed bytes.

    Args:
        view: the bytes; records begin at `start` and what is there ends at `stop`.
        start, stop: places in view, half-open.
        batches: rows of batches.
        batch: row number of the batch.
        done: records of the batch that were read already.
        rows: capacity x RECORD_WIDTH values; filled from row 0.
        capacity: rows.

    Returns:
        The place after the last record read, records of the batch read in all, rows filled, status (R_DONE ...).
    """
    b: cython.p_uchar
    q: cython.p_longlong
    row: cython.p_longlong
    state: cython.p_longlong
    space = cython.declare(cython.longlong[3])
    if cython.compiled:
        state = cython.address(space[0])
        b = cython.cast(cython.p_uchar, cython.address(view[0]))
        q = cython.address(batches[0])
        row = cython.address(rows[0])
    else:
        state = [0, 0, 0]
        b = view
        q = batches
        row = rows
    status: cython.Py_ssize_t = _one_batch(b, start, stop, q, batch, done, row, 0, capacity, state)
    return state[0], state[1], state[2], status


def read_messages(
    view: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    batches: cython.longlong[::1],
    batch: cython.Py_ssize_t,
    base: cython.longlong,
    rows: cython.longlong[::1],
    capacity: cython.Py_ssize_t,
) -> tuple[int, int, int]:
    """Read inner messages of a compressed wrapper from decompressed bytes.

    Args:
        view: the bytes.
        start, stop: places in view, half-open; the message at `stop` may be cut off.
        batches: rows of batches.
        batch: row number of the wrapper.
        base: what is added to the offsets (magic 1: relative; magic 0: 0).
        rows: capacity x RECORD_WIDTH values; filled from row 0. R_DELTA is the offset as stored.
        capacity: rows.

    Returns:
        The place after the last message read, rows filled, status: R_MORE at the end of the bytes, R_FULL,
        R_LENGTH_NEGATIVE for a size below 14, or what is wrong in the last message filled.

    Source: DataLogInputStream.nextBatch, AbstractLegacyRecordBatch.DeepRecordsIterator.
    """
    b: cython.p_uchar
    q: cython.p_longlong
    row: cython.p_longlong
    if cython.compiled:
        b = cython.cast(cython.p_uchar, cython.address(view[0]))
        q = cython.address(batches[0])
        row = cython.address(rows[0])
    else:
        b = view
        q = batches
        row = rows
    at: cython.Py_ssize_t = start
    n: cython.Py_ssize_t = 0
    size: cython.longlong
    status: cython.Py_ssize_t = 2  # R_MORE
    while at + 12 <= stop:
        if n >= capacity:
            status = 1  # R_FULL
            break
        size = _i32(b, at + 8)
        if size < 14:
            status = 4  # R_LENGTH_NEGATIVE
            break
        if size > stop - at - 12:
            break
        status = _one_message(b, at, at + 12 + size, b[at + 16], q, batch, row, n * _WIDTH)
        if status == 14:  # R_NO_MESSAGE
            break
        row[n * _WIDTH + _R_OFFSET] = _wrap(base + row[n * _WIDTH + _R_OFFSET])
        n += 1
        at += 12 + size
        if status != 0:
            break
        status = 2
    return at, n, status


def run_of_plain(batches: cython.longlong[::1], first: cython.Py_ssize_t, n: cython.Py_ssize_t) -> int:
    """Return the end of the run of uncompressed batches (as their attributes say) that begins at row `first`."""
    k: cython.Py_ssize_t = first
    while k < n and batches[k * _BATCH_WIDTH + _ATTRIBUTES] & 7 == 0:
        k += 1
    return k


def next_odd(batches: cython.longlong[::1], first: cython.Py_ssize_t, n: cython.Py_ssize_t) -> int:
    """Return the first of the batches [first, n) whose records want a second look, else n.

    Those of a batch with the right CRC do when one is out of order or has odd fields, when they are control records,
    and when their timestamps are not what the header says.
    """
    k: cython.Py_ssize_t
    q: cython.Py_ssize_t
    for k in range(first, n):
        q = k * _BATCH_WIDTH
        if batches[q + _CRC] != batches[q + _COMPUTED_CRC]:
            continue
        if batches[q + _SUSPICION] & 0x3000:  # ODD_ORDER, ODD_FIELDS
            return k
        if batches[q + _MAGIC] < 2:
            continue
        if batches[q + _ATTRIBUTES] & 32:
            return k
        if batches[q + _SEEN_MAX_TIMESTAMP] == batches[q + _MAX_TIMESTAMP]:
            if batches[q + _ATTRIBUTES] & 8 and batches[q + _SUSPICION] & 2048:  # TIMES_VARY
                return k
        elif batches[q + _ATTRIBUTES] & 8 == 0:
            return k
    return n


def first_disorder(
    rows: cython.longlong[::1], first: cython.Py_ssize_t, n: cython.Py_ssize_t, last_offset: cython.longlong
) -> int:
    """Return the first of the record rows [first, n) whose offset is not the one after the row before, else n.

    Args:
        rows: record rows.
        first: row to begin with.
        n: rows.
        last_offset: offset of the record before row `first`.
    """
    i: cython.Py_ssize_t
    offset: cython.longlong
    for i in range(first, n):
        offset = rows[i * _WIDTH + _R_OFFSET]
        if offset != _wrap(last_offset + 1):  # as Java counts
            return i
        last_offset = offset
    return n


def next_faulty(
    rows: cython.longlong[::1],
    first: cython.Py_ssize_t,
    n: cython.Py_ssize_t,
    batch: cython.longlong,
    wanted: cython.longlong,
    counts: cython.longlong[::1],
) -> int:
    """Return the first of the record rows [first, n) of a batch that has a wanted fault, else n; count the others.

    Args:
        rows: record rows.
        first: row to begin with.
        n: rows.
        batch: row number of the batch; rows of other batches are passed over.
        wanted: layout.FAULTY_ORDER, FAULTY_SIZE, FAULTY_ATTRIBUTES and FAULTY_HEADER_KEY.
        counts: layout.FAULTS values, added to for each row of the batch that is passed over: rows, and how many have
            each of the four faults.
    """
    i: cython.Py_ssize_t
    r: cython.Py_ssize_t
    faults: cython.longlong
    for i in range(first, n):
        r = i * _WIDTH
        if rows[r + _R_BATCH] != batch:
            continue
        faults = 0
        if rows[r + _R_FLAGS] != 0:
            if rows[r + _R_FLAGS] & _DISORDERED:
                faults = 1  # FAULTY_ORDER
            if rows[r + _R_KEY_SIZE] < -1 or rows[r + _R_VALUE_SIZE] < -1:
                faults |= 2  # FAULTY_SIZE
            if rows[r + _R_ATTRIBUTES] != 0:
                faults |= 4  # FAULTY_ATTRIBUTES
            if rows[r + _R_FLAGS] & _ODD_HEADER_KEY:
                faults |= 8  # FAULTY_HEADER_KEY
            if faults & wanted:
                return i
        counts[0] += 1
        counts[1] += faults & 1
        counts[2] += (faults >> 1) & 1
        counts[3] += (faults >> 2) & 1
        counts[4] += (faults >> 3) & 1
    return n
