# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Kernel: the records of many batches into columns.

Compiled by Cython when a compiler is there, interpreted with the same results when not.

Contract. Trusted is nothing but the room for rows: batches that do not lie in the window are not read, and every length
is compared with the bytes of the buffer before it is used, by the shared decoder (`kdump.format.kernels.wire`).
A result is always "n rows, then a status" (layout.R_DONE ...), never all or nothing. Guaranteed of each row, of magic
0, 1 or 2, whatever its status or CRC:
- [R_AT, R_END) lies in the buffer, and in it lie [R_KEY_AT, + R_KEY_SIZE), [R_VALUE_AT, + R_VALUE_SIZE) and the
  R_HEADER_COUNT headers, which begin at R_HEADERS_AT and end at R_END.
- A size below 0 is null, whatever it is; the place beside it lies in the record all the same. No place is a sentinel.
- A legacy value that claims more than there is has no bytes: it is null, with VALUE_OVERRUNS and R_CLAIMED_SIZE.
- Sizes of headers are those that `wire.varint` gives within R_END, for this kernel as for every later one.
Nothing is kept between calls but in the caller's arrays: a batch in pieces continues where `read_stream` has stopped, a
record larger than a buffer goes through `read_pieces`.
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
else:
    from kdump.format.batch import layout
    from kdump.format.kernels import wire


def is_compiled() -> bool:
    """Tell whether this kernel runs compiled."""
    return bool(cython.compiled)


@cython.cfunc
@cython.exceptval(check=False)
def _fields(
    b: cython.p_uchar,
    at: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    row: cython.p_longlong,
    r: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Read the fields of the record body [at, stop) into a row; R_OFFSET and R_TIMESTAMP are left to the caller.

    Returns R_DONE or what is wrong.
    """
    after: cython.Py_ssize_t
    size: cython.longlong
    count: cython.longlong
    i: cython.longlong
    if at >= stop:
        return layout.R_BODY
    row[r + layout.R_FLAGS] = 0
    row[r + layout.R_ATTRIBUTES] = b[at]
    at += 1
    after = wire.varint_end(b, at, stop, wire.WIDEST_LONG)
    if after < 0:
        return layout.R_FIELD_VARINT
    row[r + layout.R_TIME_DELTA] = wire.varlong(b, at, after)
    at = after
    after = wire.varint_end(b, at, stop, wire.WIDEST_INT)
    if after < 0:
        return layout.R_FIELD_VARINT
    row[r + layout.R_DELTA] = wire.varint(b, at, after)
    at = after
    after = wire.varint_end(b, at, stop, wire.WIDEST_INT)
    if after < 0:
        return layout.R_FIELD_VARINT
    size = wire.varint(b, at, after)
    at = after
    if size > stop - at:
        return layout.R_KEY_LENGTH
    row[r + layout.R_KEY_AT] = at
    row[r + layout.R_KEY_SIZE] = size
    if size > 0:
        at += size
    after = wire.varint_end(b, at, stop, wire.WIDEST_INT)
    if after < 0:
        return layout.R_FIELD_VARINT
    size = wire.varint(b, at, after)
    at = after
    if size > stop - at:
        return layout.R_VALUE_LENGTH
    row[r + layout.R_VALUE_AT] = at
    row[r + layout.R_VALUE_SIZE] = size
    if size > 0:
        at += size
    after = wire.varint_end(b, at, stop, wire.WIDEST_INT)
    if after < 0:
        return layout.R_FIELD_VARINT
    count = wire.varint(b, at, after)
    at = after
    if count < 0 or count > stop - at:
        return layout.R_HEADER_COUNT_BAD
    row[r + layout.R_HEADERS_AT] = at
    row[r + layout.R_HEADER_COUNT] = count
    for i in range(count):
        after = wire.varint_end(b, at, stop, wire.WIDEST_INT)
        if after < 0:
            return layout.R_FIELD_VARINT
        size = wire.varint(b, at, after)
        at = after
        if size < 0 or size > stop - at:
            return layout.R_HEADER_KEY
        if _has_high_byte(b, at, at + size) and not _is_utf8(b, at, at + size):
            row[r + layout.R_FLAGS] |= layout.ODD_HEADER_KEY
        at += size
        after = wire.varint_end(b, at, stop, wire.WIDEST_INT)
        if after < 0:
            return layout.R_FIELD_VARINT
        size = wire.varint(b, at, after)
        at = after
        if size > stop - at:
            return layout.R_HEADER_VALUE
        if size > 0:
            at += size
    return layout.R_DONE if at == stop else layout.R_BODY


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
    q: cython.Py_ssize_t = k * layout.BATCH_WIDTH
    count: cython.longlong = batch[q + layout.COUNT]
    base: cython.longlong = batch[q + layout.BASE_OFFSET]
    first_timestamp: cython.longlong = batch[q + layout.BASE_TIMESTAMP]
    max_timestamp: cython.longlong = batch[q + layout.MAX_TIMESTAMP]
    append_time: cython.bint = (batch[q + layout.ATTRIBUTES] & layout.TIMESTAMP_TYPE_FLAG) != 0
    base_sequence: cython.longlong = batch[q + layout.BASE_SEQUENCE]
    seen: cython.longlong = batch[q + layout.SEEN_MAX_TIMESTAMP]
    delta: cython.longlong = batch[q + layout.SEEN_DELTA]
    last_delta: cython.longlong = batch[q + layout.LAST_OFFSET_DELTA]
    bits: cython.longlong = batch[q + layout.SUSPICION]
    timestamp: cython.longlong
    after: cython.Py_ssize_t
    size: cython.longlong
    status: cython.Py_ssize_t = layout.R_DONE
    r: cython.Py_ssize_t = filled * layout.RECORD_WIDTH
    if count < 0:
        status = layout.R_COUNT_NEGATIVE
    while status == layout.R_DONE and done < count:
        if filled >= capacity:
            status = layout.R_FULL
            break
        after = wire.varint_end(b, at, stop, wire.WIDEST_INT)
        if after < 0:
            status = layout.R_MORE if after == wire.NO_END else layout.R_LENGTH_VARINT
            break
        size = wire.varint(b, at, after)
        if size < 0:
            status = layout.R_LENGTH_NEGATIVE
            break
        if size > stop - after:
            status = layout.R_MORE
            break
        status = _fields(b, after, after + size, row, r)
        if status != layout.R_DONE:
            break
        row[r + layout.R_BATCH] = k
        row[r + layout.R_AT] = at
        row[r + layout.R_OFFSET] = wire.add(base, row[r + layout.R_DELTA])
        timestamp = wire.add(first_timestamp, row[r + layout.R_TIME_DELTA])
        row[r + layout.R_TIMESTAMP] = max_timestamp if append_time else timestamp
        if timestamp != seen and seen != layout.UNKNOWN:
            bits |= layout.TIMES_VARY
        if timestamp > seen:
            seen = timestamp
        if row[r + layout.R_DELTA] <= delta or row[r + layout.R_DELTA] > last_delta:
            bits |= layout.ODD_ORDER
            row[r + layout.R_FLAGS] |= layout.DISORDERED
        delta = row[r + layout.R_DELTA]
        if row[r + layout.R_ATTRIBUTES] != 0:
            row[r + layout.R_FLAGS] |= layout.HAS_ATTRIBUTES
        if row[r + layout.R_KEY_SIZE] < -1 or row[r + layout.R_VALUE_SIZE] < -1:
            row[r + layout.R_FLAGS] |= layout.ODD_LENGTH
        if row[r + layout.R_FLAGS] & (layout.HAS_ATTRIBUTES | layout.ODD_LENGTH | layout.ODD_HEADER_KEY):
            bits |= layout.ODD_FIELDS
        row[r + layout.R_SEQUENCE] = wire.sequence(base_sequence, row[r + layout.R_DELTA]) if base_sequence >= 0 else -1
        row[r + layout.R_CRC] = -1
        at = after + size
        row[r + layout.R_END] = at
        done += 1
        filled += 1
        r += layout.RECORD_WIDTH
    if status == layout.R_DONE and at != stop and count != 0:
        status = layout.R_LEFT_OVER
    batch[q + layout.SEEN_MAX_TIMESTAMP] = seen
    batch[q + layout.SEEN_DELTA] = delta
    batch[q + layout.SUSPICION] = bits
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
    p: cython.Py_ssize_t = at + layout.LOG_OVERHEAD + (layout.MIN_SIZE_V1 if magic == 1 else layout.MIN_SIZE_V0) - 8
    q: cython.Py_ssize_t = k * layout.BATCH_WIDTH
    size: cython.longlong
    row[r + layout.R_BATCH] = k
    row[r + layout.R_AT] = at
    row[r + layout.R_END] = stop
    row[r + layout.R_OFFSET] = wire.i64(b, at)
    row[r + layout.R_DELTA] = wire.i64(b, at)
    row[r + layout.R_ATTRIBUTES] = b[at + layout.LEGACY_ATTRIBUTES_AT]
    row[r + layout.R_CRC] = wire.u32(b, at + layout.LEGACY_CRC_AT)
    row[r + layout.R_FLAGS] = 0
    row[r + layout.R_SEQUENCE] = -1
    row[r + layout.R_HEADERS_AT] = stop
    row[r + layout.R_HEADER_COUNT] = 0
    row[r + layout.R_TIMESTAMP] = -1
    row[r + layout.R_TIME_DELTA] = 0
    row[r + layout.R_KEY_AT] = stop
    row[r + layout.R_KEY_SIZE] = -1
    row[r + layout.R_VALUE_AT] = stop
    row[r + layout.R_VALUE_SIZE] = -1
    if p + 4 > stop:
        return layout.R_NO_MESSAGE
    if magic == 1:
        if batch[q + layout.MAGIC] == 1 and batch[q + layout.ATTRIBUTES] & layout.TIMESTAMP_TYPE_FLAG:
            row[r + layout.R_TIMESTAMP] = batch[q + layout.MAX_TIMESTAMP]  # stamped by the broker
        else:
            row[r + layout.R_TIMESTAMP] = wire.i64(b, at + layout.LEGACY_TIMESTAMP_AT)
    size = wire.i32(b, p)
    p += 4
    if size > stop - p - 4:
        return layout.R_NO_MESSAGE
    row[r + layout.R_KEY_AT] = p
    row[r + layout.R_KEY_SIZE] = size
    if size > 0:
        p += size
    if p + 4 > stop:
        return layout.R_NO_MESSAGE
    size = wire.i32(b, p)
    p += 4
    row[r + layout.R_VALUE_AT] = p
    if size > stop - p:
        row[r + layout.R_FLAGS] |= layout.VALUE_OVERRUNS
        row[r + layout.R_CLAIMED_SIZE] = size
        return layout.R_VALUE_LENGTH
    row[r + layout.R_VALUE_SIZE] = size
    if size > 0:
        p += size
    return layout.R_DONE if p == stop else layout.R_BODY


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
        at: where in the window to continue inside batch `first`; 0 to begin with it.
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
    length: cython.Py_ssize_t = len(view)
    smallest: cython.Py_ssize_t
    start: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    status: cython.Py_ssize_t = layout.R_DONE
    while k < last:
        start = batch[k * layout.BATCH_WIDTH + layout.POSITION] - origin
        stop = start + batch[k * layout.BATCH_WIDTH + layout.SIZE]
        smallest = layout.LOG_OVERHEAD + layout.MIN_SIZE_V0
        if batch[k * layout.BATCH_WIDTH + layout.MAGIC] >= layout.MAGIC_V2:
            smallest = layout.RECORDS_AT
        if start < 0 or stop > length or stop - start < smallest:
            return k, max(start, 0), 0, filled, layout.R_MORE  # no batch of a scan: it is not all in the window
        if batch[k * layout.BATCH_WIDTH + layout.MAGIC] < layout.MAGIC_V2:
            if filled >= capacity:
                return k, 0, 0, filled, layout.R_FULL
            status = _one_message(
                b,
                start,
                stop,
                batch[k * layout.BATCH_WIDTH + layout.MAGIC],
                batch,
                k,
                row,
                filled * layout.RECORD_WIDTH,
            )
            if status != layout.R_NO_MESSAGE:
                if (
                    batch[k * layout.BATCH_WIDTH + layout.COMPUTED_CRC]
                    == row[filled * layout.RECORD_WIDTH + layout.R_CRC]
                ):
                    row[filled * layout.RECORD_WIDTH + layout.R_FLAGS] |= layout.CRC_HOLDS
                filled += 1
            if status != layout.R_DONE:
                return k, stop, 1, filled, status
        else:
            if at == 0:
                at = start + layout.RECORDS_AT
            status = _one_batch(b, at, stop, batch, k, done, row, filled, capacity, state)
            filled = state[2]
            if status != layout.R_DONE:
                return k, state[0], state[1], filled, status
            at = 0
            done = 0
        k += 1
    return k, 0, 0, filled, layout.R_DONE


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
        view: the bytes; records begin at `start` and the bytes end at `stop`.
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
    if stop > len(view):
        stop = len(view)
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
    status: cython.Py_ssize_t = layout.R_MORE
    if stop > len(view):
        stop = len(view)
    while at + layout.LOG_OVERHEAD <= stop:
        if n >= capacity:
            status = layout.R_FULL
            break
        size = wire.i32(b, at + layout.SIZE_AT)
        if size < layout.MIN_SIZE_V0:
            status = layout.R_LENGTH_NEGATIVE
            break
        if size > stop - at - layout.LOG_OVERHEAD:
            break
        status = _one_message(
            b, at, at + layout.LOG_OVERHEAD + size, b[at + layout.MAGIC_AT], q, batch, row, n * layout.RECORD_WIDTH
        )
        if status == layout.R_NO_MESSAGE:
            break
        row[n * layout.RECORD_WIDTH + layout.R_OFFSET] = wire.add(base, row[n * layout.RECORD_WIDTH + layout.R_OFFSET])
        n += 1
        at += layout.LOG_OVERHEAD + size
        if status != layout.R_DONE:
            break
        status = layout.R_MORE
    return at, n, status


def read_pieces(
    view: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    state: cython.longlong[::1],
    pieces: cython.longlong[::1],
    capacity: cython.Py_ssize_t,
) -> tuple[int, int, int]:
    """Read one record of magic 2 that may be larger than any buffer, in pieces of its fields.

    Args:
        view: the buffer.
        at, stop: places in it, half-open: bytes of the record that are not read yet; others may follow them.
        state: layout.P_WIDTH values, zeros before the first byte of a record; updated. What the record says of itself
            stands there as soon as it is read.
        pieces: room for `capacity` rows of layout.PIECE_WIDTH values; overwritten.
        capacity: rows.

    Returns:
        The place to continue at; pieces filled; why it stopped: R_DONE at the end of the record, R_MORE when bytes are
        needed behind `stop` (those from the place on come once more, in front of them), R_FULL when the rows are
        filled and before each header, which `whole_headers` may read, or what is wrong, as `read_stream` says it of a
        record that is all in the buffer.
    """
    b: cython.p_uchar
    p: cython.p_longlong
    out: cython.p_longlong
    if cython.compiled:
        b = cython.cast(cython.p_uchar, cython.address(view[0]))
        p = cython.address(state[0])
        out = cython.address(pieces[0])
    else:
        b = view
        p = state
        out = pieces
    n: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    end: cython.Py_ssize_t
    after: cython.Py_ssize_t
    begun: cython.Py_ssize_t = at
    size: cython.longlong
    stage: cython.longlong
    whole: cython.bint
    if stop > len(view):
        stop = len(view)
    if p[layout.P_STAGE] == layout.AT_LENGTH:
        after = wire.varint_end(b, at, stop, wire.WIDEST_INT)
        if after < 0:
            return at, 0, layout.R_MORE if after == wire.NO_END else layout.R_LENGTH_VARINT
        size = wire.varint(b, at, after)
        if size < 0:
            return at, 0, layout.R_LENGTH_NEGATIVE
        p[layout.P_LEFT] = size
        p[layout.P_STAGE] = layout.AT_ATTRIBUTES
        at = after
    while True:
        stage = p[layout.P_STAGE]
        whole = p[layout.P_LEFT] <= stop - at
        end = at + p[layout.P_LEFT] if whole else stop
        if stage == layout.AT_END:
            return at, n, layout.R_DONE if p[layout.P_LEFT] == 0 else layout.R_BODY
        if stage == layout.AT_HEADER_KEY_SIZE and (n > 0 or at != begun):
            return at, n, layout.R_FULL
        if (
            stage == layout.AT_KEY
            or stage == layout.AT_VALUE
            or stage == layout.AT_HEADER_KEY
            or stage == layout.AT_HEADER_VALUE
        ):
            if n >= capacity:
                return at, n, layout.R_FULL
            size = p[layout.P_FIELD_LEFT]
            if size > end - at:
                if end == at:
                    return at, n, layout.R_MORE
                size = end - at
            i = n * layout.PIECE_WIDTH
            out[i + layout.PIECE_OF] = stage
            out[i + layout.PIECE_AT] = at
            out[i + layout.PIECE_SIZE] = size if size >= 0 else -1
            n += 1
            if size > 0:
                at += size
                p[layout.P_LEFT] -= size
                p[layout.P_FIELD_LEFT] -= size
            out[i + layout.PIECE_LEFT] = p[layout.P_FIELD_LEFT] if size > 0 else 0
            if out[i + layout.PIECE_LEFT] == 0:
                _after_field(p)
            continue
        if stage == layout.AT_ATTRIBUTES:
            if at == end:
                return at, n, layout.R_BODY if whole else layout.R_MORE
            p[layout.P_ATTRIBUTES] = b[at]
            at += 1
            p[layout.P_LEFT] -= 1
            p[layout.P_STAGE] = layout.AT_TIME_DELTA
            continue
        after = wire.varint_end(b, at, end, wire.WIDEST_LONG if stage == layout.AT_TIME_DELTA else wire.WIDEST_INT)
        if after < 0:
            return at, n, layout.R_MORE if after == wire.NO_END and not whole else layout.R_FIELD_VARINT
        p[layout.P_LEFT] -= after - at
        if stage == layout.AT_TIME_DELTA:
            p[layout.P_TIME_DELTA] = wire.varlong(b, at, after)
            p[layout.P_STAGE] = layout.AT_DELTA
        else:
            i = _number_read(p, wire.varint(b, at, after))
            if i != layout.R_DONE:
                return at, n, i
        at = after


def whole_headers(
    view: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    left: cython.longlong,
    count: cython.longlong,
) -> tuple[int, int, int, int]:
    """Pass over the headers of a record of magic 2 that lie whole in a buffer.

    Args:
        view: the buffer.
        at, stop: places in it, half-open: the headers, as far as they are there.
        left: bytes that the record has from `at` on, whether they are there or not.
        count: headers that it has from `at` on.

    Returns:
        The place after the last whole header; how many there are; why they end: R_DONE when all are passed, R_MORE when
        the next one ends behind `stop`, or what is wrong with it, as `read_stream` says; and ODD_HEADER_KEY where the
        key of one that was passed is not UTF-8, else 0.
    """
    b: cython.p_uchar
    if stop > len(view):
        stop = len(view)
    if at < 0 or at > stop or left < 0:
        return at, 0, layout.R_MORE if count > 0 else layout.R_DONE, 0
    if cython.compiled:
        if len(view) == 0:
            return at, 0, layout.R_MORE if count > 0 else layout.R_DONE, 0
        b = cython.cast(cython.p_uchar, cython.address(view[0]))
    else:
        b = view
    whole: cython.bint = left <= stop - at
    end: cython.Py_ssize_t = at + left if whole else stop
    n: cython.longlong = 0
    flags: cython.longlong = 0
    odd: cython.longlong
    begun: cython.Py_ssize_t
    after: cython.Py_ssize_t
    size: cython.longlong
    part: cython.Py_ssize_t
    while n < count:
        begun = at
        odd = 0
        for part in range(2):
            after = wire.varint_end(b, at, end, wire.WIDEST_INT)
            if after < 0:
                return begun, n, layout.R_MORE if after == wire.NO_END and not whole else layout.R_FIELD_VARINT, flags
            size = wire.varint(b, at, after)
            if size > left - (after - begun) or (part == 0 and size < 0):
                return begun, n, layout.R_HEADER_VALUE if part else layout.R_HEADER_KEY, flags
            if size > end - after:
                return begun, n, layout.R_MORE, flags
            if part == 0 and _has_high_byte(b, after, after + size) and not _is_utf8(b, after, after + size):
                odd = layout.ODD_HEADER_KEY
            at = after + size if size > 0 else after
        left -= at - begun
        flags |= odd
        n += 1
    return at, n, layout.R_DONE, flags


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _has_high_byte(b: cython.p_uchar, at: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.bint:
    """Whether a byte in [at, stop) is not ASCII."""
    high: cython.uchar = 0
    i: cython.Py_ssize_t
    for i in range(at, stop):
        high |= b[i]
    return high >= 0x80


@cython.cfunc
@cython.exceptval(check=False)
def _is_utf8(b: cython.p_uchar, at: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.bint:
    """Whether the bytes in [at, stop) are UTF-8."""
    n: cython.Py_ssize_t
    while at < stop:
        n = wire.utf8_size(b, at, stop)
        if n <= 0:
            return False
        at += n
    return True


@cython.cfunc
@cython.exceptval(check=False)
def _after_field(p: cython.p_longlong) -> None:
    """All of a field is handed out: the next stage."""
    if p[layout.P_STAGE] == layout.AT_HEADER_VALUE:
        p[layout.P_HEADERS_LEFT] -= 1
        p[layout.P_STAGE] = layout.AT_HEADER_KEY_SIZE if p[layout.P_HEADERS_LEFT] > 0 else layout.AT_END
    else:
        p[layout.P_STAGE] += 1


@cython.cfunc
@cython.exceptval(check=False)
def _number_read(p: cython.p_longlong, value: cython.longlong) -> cython.Py_ssize_t:
    """Take the number of a stage, P_LEFT bytes of the record being left behind it; R_DONE or what is wrong."""
    stage: cython.longlong = p[layout.P_STAGE]
    p[layout.P_STAGE] = stage + 1
    if stage == layout.AT_DELTA:
        p[layout.P_DELTA] = value
        return layout.R_DONE
    if stage == layout.AT_HEADER_COUNT:
        if value < 0 or value > p[layout.P_LEFT]:
            return layout.R_HEADER_COUNT_BAD
        p[layout.P_HEADER_COUNT] = value
        p[layout.P_HEADERS_LEFT] = value
        if value == 0:
            p[layout.P_STAGE] = layout.AT_END
        return layout.R_DONE
    if stage == layout.AT_HEADER_KEY_SIZE and (value < 0 or value > p[layout.P_LEFT]):
        return layout.R_HEADER_KEY
    if value > p[layout.P_LEFT]:
        if stage == layout.AT_KEY_SIZE:
            return layout.R_KEY_LENGTH
        return layout.R_VALUE_LENGTH if stage == layout.AT_VALUE_SIZE else layout.R_HEADER_VALUE
    if stage == layout.AT_KEY_SIZE:
        p[layout.P_KEY_SIZE] = value
    elif stage == layout.AT_VALUE_SIZE:
        p[layout.P_VALUE_SIZE] = value
    p[layout.P_FIELD_LEFT] = value
    return layout.R_DONE


def next_flagged(
    rows: cython.longlong[::1],
    first: cython.Py_ssize_t,
    n: cython.Py_ssize_t,
    batch: cython.longlong,
    flags: cython.longlong,
) -> int:
    """Return the first of the record rows [first, n) that is of a batch and has any of some flags, else n.

    Args:
        rows: record rows in the order of their batches.
        first, n: rows, half-open.
        batch: row number of the batch.
        flags: DISORDERED ... (layout); 0: any row of the batch.
    """
    i: cython.Py_ssize_t
    r: cython.Py_ssize_t
    for i in range(first, n):
        r = i * layout.RECORD_WIDTH
        if rows[r + layout.R_BATCH] > batch:
            break
        if rows[r + layout.R_BATCH] == batch and (flags == 0 or rows[r + layout.R_FLAGS] & flags):
            return i
    return n


def count_flagged(
    rows: cython.longlong[::1],
    first: cython.Py_ssize_t,
    n: cython.Py_ssize_t,
    batch: cython.longlong,
    flags: cython.longlong,
) -> int:
    """Return how many of the record rows [first, n) are of a batch and have any of some flags; as `next_flagged`."""
    count: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    r: cython.Py_ssize_t
    for i in range(first, n):
        r = i * layout.RECORD_WIDTH
        if rows[r + layout.R_BATCH] > batch:
            break
        if rows[r + layout.R_BATCH] == batch and (flags == 0 or rows[r + layout.R_FLAGS] & flags):
            count += 1
    return count


def run_of_plain(batches: cython.longlong[::1], first: cython.Py_ssize_t, n: cython.Py_ssize_t) -> int:
    """Return the end of the run of uncompressed batches (as their attributes say) that begins at row `first`."""
    k: cython.Py_ssize_t = first
    while k < n and batches[k * layout.BATCH_WIDTH + layout.ATTRIBUTES] & layout.CODEC_MASK == 0:
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
        q = k * layout.BATCH_WIDTH
        if batches[q + layout.CRC] != batches[q + layout.COMPUTED_CRC]:
            continue
        if batches[q + layout.SUSPICION] & (layout.ODD_ORDER | layout.ODD_FIELDS):
            return k
        if batches[q + layout.MAGIC] < layout.MAGIC_V2:
            continue
        if batches[q + layout.ATTRIBUTES] & layout.CONTROL_FLAG:
            return k
        if batches[q + layout.SEEN_MAX_TIMESTAMP] == batches[q + layout.MAX_TIMESTAMP]:
            if (
                batches[q + layout.ATTRIBUTES] & layout.TIMESTAMP_TYPE_FLAG
                and batches[q + layout.SUSPICION] & layout.TIMES_VARY
            ):
                return k
        elif batches[q + layout.ATTRIBUTES] & layout.TIMESTAMP_TYPE_FLAG == 0:
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
        offset = rows[i * layout.RECORD_WIDTH + layout.R_OFFSET]
        if offset != wire.add(last_offset, 1):  # as Java counts
            return i
        last_offset = offset
    return n
