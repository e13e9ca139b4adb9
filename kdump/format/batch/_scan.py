# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Kernel: batch headers into columns, the search for headers in damage, and the checks of index entries.

Compiled by Cython when a compiler is there, interpreted with the same results when not.

Contract. Bytes are trusted in nothing: every read is preceded by a comparison with what the buffer holds, and no length
of the data is used before that. Trusted are the caller's numbers: `length`, `start` and `stop` lie in the window, and
61 bytes follow each place that `plausible`, `candidate` and `header_row` look at. Guaranteed of each row of `scan`:
SIZE is at least 26 for magic 0 and 1 and 61 from magic 2 on, [POSITION, POSITION + SIZE) lies in the window and before
`end`, and every other column is the number that the header has, sums wrapped as Java's long does. Rows of `header_row`
have the size that the caller says: kernels that read their bytes compare it with the window.
"""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from kdump.format.kernels import _cython as cython
if not cython.compiled:  # whether Cython is there or not: its own stand-ins are slow, and refuse some casts
    from kdump.format.kernels import _cython as cython

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

if cython.compiled:
    from cython.cimports.cpython.buffer import PyBUF_READ
    from cython.cimports.cpython.memoryview import PyMemoryView_FromMemory
    from cython.cimports.kdump.format.batch import layout
    from cython.cimports.kdump.format.kernels import wire
else:
    from kdump.format.batch import layout
    from kdump.format.kernels import wire


def is_compiled() -> bool:
    """Tell whether this kernel runs compiled."""
    return bool(cython.compiled)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _fill_v2(b: cython.p_uchar, at: cython.Py_ssize_t, row: cython.p_longlong, r: cython.Py_ssize_t) -> None:
    """Put the header at `at` (61 bytes are there) into the columns of one row."""
    base: cython.longlong = wire.i64(b, at)
    delta: cython.longlong = wire.i32(b, at + layout.LAST_OFFSET_DELTA_AT)
    row[r + layout.BASE_OFFSET] = base
    row[r + layout.LAST_OFFSET] = wire.add(base, delta)
    row[r + layout.LEADER_EPOCH] = wire.i32(b, at + layout.LEADER_EPOCH_AT)
    row[r + layout.CRC] = wire.u32(b, at + layout.CRC_AT)
    row[r + layout.ATTRIBUTES] = wire.u16(b, at + layout.ATTRIBUTES_AT)
    row[r + layout.LAST_OFFSET_DELTA] = delta
    row[r + layout.BASE_TIMESTAMP] = wire.i64(b, at + layout.BASE_TIMESTAMP_AT)
    row[r + layout.MAX_TIMESTAMP] = wire.i64(b, at + layout.MAX_TIMESTAMP_AT)
    row[r + layout.PRODUCER_ID] = wire.i64(b, at + layout.PRODUCER_ID_AT)
    row[r + layout.PRODUCER_EPOCH] = wire.i16(b, at + layout.PRODUCER_EPOCH_AT)
    row[r + layout.BASE_SEQUENCE] = wire.i32(b, at + layout.BASE_SEQUENCE_AT)
    row[r + layout.COUNT] = wire.i32(b, at + layout.COUNT_AT)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _fill_legacy(
    b: cython.p_uchar,
    at: cython.Py_ssize_t,
    magic: cython.longlong,
    row: cython.p_longlong,
    r: cython.Py_ssize_t,
) -> None:
    """Put the message header at `at` (26 bytes are there) into the columns of one row."""
    offset: cython.longlong = wire.i64(b, at)
    attributes: cython.longlong = b[at + layout.LEGACY_ATTRIBUTES_AT]
    row[r + layout.LAST_OFFSET] = offset
    row[r + layout.BASE_OFFSET] = offset if attributes & layout.CODEC_MASK == 0 else -1
    row[r + layout.LEADER_EPOCH] = -1
    row[r + layout.CRC] = wire.u32(b, at + layout.LEGACY_CRC_AT)
    row[r + layout.ATTRIBUTES] = attributes
    row[r + layout.LAST_OFFSET_DELTA] = -1
    row[r + layout.BASE_TIMESTAMP] = -1
    row[r + layout.MAX_TIMESTAMP] = wire.i64(b, at + layout.LEGACY_TIMESTAMP_AT) if magic == 1 else -1
    row[r + layout.PRODUCER_ID] = -1
    row[r + layout.PRODUCER_EPOCH] = -1
    row[r + layout.BASE_SEQUENCE] = -1
    row[r + layout.COUNT] = -1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _suspect_v2(
    row: cython.p_longlong,
    r: cython.Py_ssize_t,
    last_offset: cython.longlong,
    last_epoch: cython.longlong,
    segment: cython.longlong,
) -> cython.longlong:
    """The rules that a header of magic 2 breaks, as bits."""
    base: cython.longlong = row[r + layout.BASE_OFFSET]
    delta: cython.longlong = row[r + layout.LAST_OFFSET_DELTA]
    count: cython.longlong = row[r + layout.COUNT]
    attributes: cython.longlong = row[r + layout.ATTRIBUTES]
    bits: cython.longlong = 0
    if last_offset != layout.UNKNOWN:
        if base <= last_offset:
            bits |= layout.NOT_ABOVE
        elif base != last_offset + 1:
            bits |= layout.GAP
    if last_epoch != layout.UNKNOWN and row[r + layout.LEADER_EPOCH] != last_epoch:
        bits |= layout.EPOCH_CHANGES
    if row[r + layout.LEADER_EPOCH] < -1:
        bits |= layout.EPOCH_CHANGES
    if row[r + layout.MAGIC] != layout.MAGIC_V2:
        bits |= layout.ODD_MAGIC
    if attributes & layout.CODEC_MASK > layout.CODEC_ZSTD:
        bits |= layout.ODD_CODEC
    if attributes & layout.ATTRIBUTES_UNUSED_V2:
        bits |= layout.ODD_ATTRIBUTES
    if delta < 0:
        bits |= layout.ODD_DELTA
    if count < 0 or count > delta + 1 or (count == 0 and row[r + layout.SIZE] > layout.RECORDS_AT):
        bits |= layout.ODD_COUNT
    if (
        base < 0
        or row[r + layout.LAST_OFFSET] < 0
        or row[r + layout.LAST_OFFSET] > layout.LARGEST_OFFSET
        or (segment != layout.UNKNOWN and (base < segment or segment < row[r + layout.LAST_OFFSET] - layout.MAX_INT))
    ):
        bits |= layout.OUT_OF_RANGE
    if row[r + layout.PRODUCER_ID] < 0:
        if attributes & (layout.TRANSACTIONAL_FLAG | layout.CONTROL_FLAG):
            bits |= layout.ODD_FLAGS
    else:
        bits |= layout.HAS_PRODUCER
    if attributes & layout.DELETE_HORIZON_FLAG and row[r + layout.BASE_TIMESTAMP] <= row[r + layout.MAX_TIMESTAMP]:
        bits |= layout.ODD_FLAGS
    return bits


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _suspect_legacy(
    row: cython.p_longlong, r: cython.Py_ssize_t, last_offset: cython.longlong, segment: cython.longlong
) -> cython.longlong:
    """The rules that a message header of magic 0 or 1 breaks, as bits."""
    offset: cython.longlong = row[r + layout.LAST_OFFSET]
    attributes: cython.longlong = row[r + layout.ATTRIBUTES]
    bits: cython.longlong = 0
    if last_offset != layout.UNKNOWN:
        if offset <= last_offset:
            bits |= layout.NOT_ABOVE
        elif attributes & layout.CODEC_MASK == 0 and offset != last_offset + 1:
            bits |= layout.GAP
    if (
        offset < 0
        or offset > layout.LARGEST_OFFSET
        or (segment != layout.UNKNOWN and (offset < segment or segment < offset - layout.MAX_INT))
    ):
        bits |= layout.OUT_OF_RANGE
    if row[r + layout.MAGIC] < 0:
        bits |= layout.ODD_MAGIC
    if attributes & layout.CODEC_MASK >= layout.CODEC_ZSTD:
        bits |= layout.ODD_CODEC
    if attributes & layout.ATTRIBUTES_UNUSED_LEGACY:
        bits |= layout.ODD_ATTRIBUTES
    return bits


def scan(
    view: cython.const[cython.uchar][::1],
    length: cython.Py_ssize_t,
    start: cython.Py_ssize_t,
    origin: cython.longlong,
    end: cython.longlong,
    segment: cython.longlong,
    rows: cython.longlong[::1],
    capacity: cython.Py_ssize_t,
    border: cython.longlong[::1],
) -> tuple[int, int, int]:
    """Put the headers of the batches that lie whole in the window into rows, by Kafka's rules of framing.

    Args:
        view: the window; its first `length` bytes count.
        length: bytes.
        start: where in the window the first header begins.
        origin: file position of view[0].
        end: file position where the log ends (exclusive).
        segment: base offset of the file, layout.UNKNOWN when it has none.
        rows: at least capacity x BATCH_WIDTH values; overwritten.
        capacity: rows.
        border: last offset and epoch of the batch before, layout.UNKNOWN for none; updated.

    Returns:
        rows filled; where in the window the scan stopped; why (layout.END ... SHORT_V2).

    Source: FileLogInputStream.nextBatch, Kafka 4.3.
    """
    b: cython.p_uchar
    row: cython.p_longlong
    if cython.compiled:
        b = cython.cast(cython.p_uchar, cython.address(view[0]))
        row = cython.address(rows[0])
    else:
        b = view
        row = rows
    at: cython.Py_ssize_t = start
    n: cython.Py_ssize_t = 0
    r: cython.Py_ssize_t = 0
    size: cython.longlong
    magic: cython.longlong
    last_offset: cython.longlong = border[0]
    last_epoch: cython.longlong = border[1]
    status: cython.Py_ssize_t
    while True:
        if origin + at >= end - layout.HEADER_UP_TO_MAGIC:
            status = layout.END
            break
        if n >= capacity:
            status = layout.FULL
            break
        if at + layout.HEADER_UP_TO_MAGIC > length:
            status = layout.MORE
            break
        size = wire.i32(b, at + layout.SIZE_AT)
        if size < layout.MIN_SIZE_V0:
            status = layout.TOO_SMALL
            break
        if origin + at > end - layout.LOG_OVERHEAD - size:
            status = layout.PAST_END
            break
        magic = b[at + layout.MAGIC_AT]
        if magic > 127:
            magic -= 256
        if magic >= layout.MAGIC_V2 and size < layout.MIN_SIZE_V2:
            status = layout.SHORT_V2
            break
        if at + layout.LOG_OVERHEAD + size > length:
            status = layout.MORE
            break
        row[r + layout.POSITION] = origin + at
        row[r + layout.SIZE] = size + layout.LOG_OVERHEAD
        row[r + layout.MAGIC] = magic
        row[r + layout.COMPUTED_CRC] = -1
        row[r + layout.SEEN_MAX_TIMESTAMP] = layout.UNKNOWN
        row[r + layout.SEEN_DELTA] = -1
        if magic >= layout.MAGIC_V2:
            _fill_v2(b, at, row, r)
            row[r + layout.SUSPICION] = _suspect_v2(row, r, last_offset, last_epoch, segment)
            last_epoch = row[r + layout.LEADER_EPOCH]
        else:
            _fill_legacy(b, at, magic, row, r)
            row[r + layout.SUSPICION] = _suspect_legacy(row, r, last_offset, segment)
        last_offset = row[r + layout.LAST_OFFSET]
        n += 1
        r += layout.BATCH_WIDTH
        at += layout.LOG_OVERHEAD + size
    border[0] = last_offset
    border[1] = last_epoch
    return n, at, status


def header_row(
    view: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    position: cython.longlong,
    size: cython.longlong,
    magic: cython.longlong,
    rows: cython.longlong[::1],
) -> None:
    """Put one header into row 0, with a size and a magic that the caller knows better.

    Args:
        view: 61 bytes or more from `at` on.
        at: where the header begins.
        position: file position of the header.
        size: bytes of the batch.
        magic: how to read the header.
        rows: BATCH_WIDTH values; overwritten.
    """
    b: cython.p_uchar
    row: cython.p_longlong
    if cython.compiled:
        b = cython.cast(cython.p_uchar, cython.address(view[0]))
        row = cython.address(rows[0])
    else:
        b = view
        row = rows
    row[layout.POSITION] = position
    row[layout.SIZE] = size
    row[layout.MAGIC] = magic
    row[layout.COMPUTED_CRC] = -1
    row[layout.SUSPICION] = 0
    row[layout.SEEN_MAX_TIMESTAMP] = layout.UNKNOWN
    row[layout.SEEN_DELTA] = -1
    if magic >= layout.MAGIC_V2:
        _fill_v2(b, at, row, 0)
    else:
        _fill_legacy(b, at, magic, row, 0)


def suspect(
    rows: cython.longlong[::1], n: cython.Py_ssize_t, segment: cython.longlong, border: cython.longlong[::1]
) -> None:
    """Fill the suspicions of n rows that did not come from a scan.

    Args:
        rows: n rows; their SUSPICION is overwritten.
        n: rows.
        segment: base offset of the file, layout.UNKNOWN when it has none.
        border: last offset and epoch of the batch before, layout.UNKNOWN for none; updated.
    """
    row: cython.p_longlong
    row = cython.address(rows[0]) if cython.compiled else rows
    r: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    for i in range(n):
        if row[r + layout.MAGIC] >= layout.MAGIC_V2:
            row[r + layout.SUSPICION] = _suspect_v2(row, r, border[0], border[1], segment)
            border[1] = row[r + layout.LEADER_EPOCH]
        else:
            row[r + layout.SUSPICION] = _suspect_legacy(row, r, border[0], segment)
        border[0] = row[r + layout.LAST_OFFSET]
        r += layout.BATCH_WIDTH


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _plausible(
    b: cython.p_uchar,
    at: cython.Py_ssize_t,
    position: cython.longlong,
    end: cython.longlong,
    floor: cython.longlong,
) -> cython.bint:
    """Whether the bytes at `at` can be the header of a batch that ends at or before `end`."""
    magic: cython.longlong = b[at + layout.MAGIC_AT]
    size: cython.longlong
    offset: cython.longlong
    delta: cython.longlong
    count: cython.longlong
    attributes: cython.longlong
    if magic > layout.MAGIC_V2:
        return False
    size = wire.i32(b, at + layout.SIZE_AT)
    if size < layout.MIN_SIZE_V0 or position > end - layout.LOG_OVERHEAD - size:
        return False
    offset = wire.i64(b, at)
    if offset <= floor or offset < 0:
        return False
    if (
        floor != layout.UNKNOWN and floor < offset - layout.MAX_INT - 1
    ):  # a difference of the two could wrap, this cannot
        return False  # a segment has no offsets so far above another
    if magic == layout.MAGIC_V2:
        attributes = wire.u16(b, at + layout.ATTRIBUTES_AT)
        if size < layout.MIN_SIZE_V2 or attributes & layout.ATTRIBUTES_UNUSED_V2:
            return False
        if attributes & layout.CODEC_MASK > layout.CODEC_ZSTD:
            return False
        delta = wire.i32(b, at + layout.LAST_OFFSET_DELTA_AT)
        count = wire.i32(b, at + layout.COUNT_AT)
        if delta < 0 or count < 0 or count > delta + 1:
            return False
        if attributes & layout.CODEC_MASK == 0 and count * layout.SMALLEST_RECORD > size - layout.MIN_SIZE_V2:
            return False
        return wire.i32(b, at + layout.LEADER_EPOCH_AT) >= -1 and wire.i64(b, at + layout.PRODUCER_ID_AT) >= -1
    attributes = b[at + layout.LEGACY_ATTRIBUTES_AT]
    if attributes & layout.ATTRIBUTES_UNUSED_LEGACY or attributes & layout.CODEC_MASK >= layout.CODEC_ZSTD:
        return False
    return not (magic == 1 and size < layout.MIN_SIZE_V1)


def plausible(
    view: cython.const[cython.uchar][::1],
    at: cython.Py_ssize_t,
    position: cython.longlong,
    end: cython.longlong,
    floor: cython.longlong,
) -> bool:
    """Tell whether a batch can begin here: every field of its header makes sense and it ends inside the file.

    Args:
        view: 61 bytes or more from `at` on (pad with zeros at the end of a file).
        at: where the header begins.
        position: its file position.
        end: file position where the log ends.
        floor: an offset that the batch must be above, layout.UNKNOWN for none.
    """
    b: cython.p_uchar
    b = cython.cast(cython.p_uchar, cython.address(view[0])) if cython.compiled else view
    return _plausible(b, at, position, end, floor)


def candidate(
    view: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    origin: cython.longlong,
    end: cython.longlong,
    floor: cython.longlong,
) -> int:
    """Find the next place in the window where a batch can begin.

    Args:
        view: the window; 61 bytes or more follow each place that is tried.
        start, stop: places to try, half-open.
        origin: file position of view[0].
        end: file position where the log ends.
        floor: an offset that the batch must be above, layout.UNKNOWN for none.

    Returns:
        The place in the window, `stop` when there is none.
    """
    b: cython.p_uchar
    b = cython.cast(cython.p_uchar, cython.address(view[0])) if cython.compiled else view
    at: cython.Py_ssize_t
    for at in range(start, stop):
        # The size of a batch is below 2^31 and its magic at most 2: two bytes reject nearly every place.
        if (
            b[at + layout.MAGIC_AT] <= layout.MAGIC_V2
            and b[at + layout.SIZE_AT] < 0x80
            and _plausible(b, at, origin + at, end, floor)
        ):
            return at
    return stop


def zeros_until(view: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> int:
    """Return the first place in [start, stop) whose byte is not zero, `stop` when all are."""
    b: cython.p_uchar
    b = cython.cast(cython.p_uchar, cython.address(view[0])) if cython.compiled else view
    at: cython.Py_ssize_t
    for at in range(start, stop):
        if b[at] != 0:
            return at
    return stop


def suspicions(rows: cython.longlong[::1], n: cython.Py_ssize_t) -> int:
    """Return all bits that any of the first n rows carries."""
    bits: cython.longlong = 0
    i: cython.Py_ssize_t
    for i in range(n):
        bits |= rows[i * layout.BATCH_WIDTH + layout.SUSPICION]
    return bits


def extremes(rows: cython.longlong[::1], n: cython.Py_ssize_t, column: cython.Py_ssize_t) -> tuple[int, int]:
    """Return the smallest and the largest value that the first n batches have in a column; n is at least 1."""
    smallest: cython.longlong = rows[column]
    largest: cython.longlong = smallest
    value: cython.longlong
    i: cython.Py_ssize_t
    for i in range(1, n):
        value = rows[i * layout.BATCH_WIDTH + column]
        if value < smallest:
            smallest = value
        if value > largest:
            largest = value
    return smallest, largest


def lacks_records(rows: cython.longlong[::1], n: cython.Py_ssize_t) -> bool:
    """Tell whether the first n batches have fewer records than offsets."""
    lacking: cython.longlong = n
    i: cython.Py_ssize_t
    for i in range(n):
        lacking += rows[i * layout.BATCH_WIDTH + layout.LAST_OFFSET_DELTA] - rows[i * layout.BATCH_WIDTH + layout.COUNT]
    return lacking > 0


def last_trace(rows: cython.longlong[::1], n: cython.Py_ssize_t) -> int:
    """Return the row of the last of the first n batches that shows that a cleaner was at work, -1 for none.

    Such a batch has fewer records than offsets, or a delete horizon; its CRC is right, and it breaks no rule.
    """
    i: cython.Py_ssize_t
    r: cython.Py_ssize_t
    for i in range(n - 1, -1, -1):
        r = i * layout.BATCH_WIDTH
        if (
            rows[r + layout.MAGIC] >= layout.MAGIC_V2
            and rows[r + layout.CRC] == rows[r + layout.COMPUTED_CRC]
            and (
                rows[r + layout.COUNT] <= rows[r + layout.LAST_OFFSET_DELTA]
                or rows[r + layout.ATTRIBUTES] & layout.DELETE_HORIZON_FLAG
            )
            and rows[r + layout.SUSPICION] & layout.FAULTS == 0
        ):
            return i
    return -1


def are_trusted(rows: cython.longlong[::1], n: cython.Py_ssize_t) -> bool:
    """Tell whether each of the first n batches has the right CRC."""
    i: cython.Py_ssize_t
    for i in range(n):
        if rows[i * layout.BATCH_WIDTH + layout.CRC] != rows[i * layout.BATCH_WIDTH + layout.COMPUTED_CRC]:
            return False
    return True


def last_trusted_offset(rows: cython.longlong[::1], k: cython.Py_ssize_t, before: cython.longlong) -> int:
    """Return the last offset of the last batch before row k that has the right CRC; `before` where there is none."""
    r: cython.Py_ssize_t = k * layout.BATCH_WIDTH
    while r > 0:
        r -= layout.BATCH_WIDTH
        if rows[r + layout.CRC] == rows[r + layout.COMPUTED_CRC]:
            return rows[r + layout.LAST_OFFSET]
    return before


def largest_timestamp(rows: cython.longlong[::1], n: cython.Py_ssize_t, largest: cython.longlong) -> int:
    """Return the largest of a timestamp and those of the first n batches; one whose CRC is wrong has none."""
    i: cython.Py_ssize_t
    r: cython.Py_ssize_t = 0
    for i in range(n):
        if rows[r + layout.CRC] == rows[r + layout.COMPUTED_CRC] and rows[r + layout.MAX_TIMESTAMP] > largest:
            largest = rows[r + layout.MAX_TIMESTAMP]
        r += layout.BATCH_WIDTH
    return largest


# --- entries of indexes ---------------------------------------------------------------------------------------
def index_columns(
    data: cython.const[cython.uchar][::1],
    base: cython.longlong,
    is_time: cython.bint,
    first: cython.longlong[::1],
    second: cython.longlong[::1],
) -> None:
    """Put the entries of an index into columns.

    Args:
        data: whole entries: int64 and int32 of a time index, else int32 twice.
        base: base offset of the segment: it is added to the offsets, as Java adds.
        is_time: the offset is the second number.
        first, second: a value for each entry; overwritten.
    """
    b: cython.p_uchar
    b = cython.cast(cython.p_uchar, cython.address(data[0])) if cython.compiled else data
    k: cython.Py_ssize_t
    at: cython.Py_ssize_t = 0
    for k in range(len(first)):
        if is_time:
            first[k] = wire.i64(b, at)
            second[k] = wire.add(base, wire.i32(b, at + 8))
            at += 12
        else:
            first[k] = wire.add(base, wire.i32(b, at))
            second[k] = wire.i32(b, at + 4)
            at += 8


def ascends(column: cython.longlong[::1], strict: cython.bint) -> bool:
    """Tell whether values rise from one to the next, or where it is not strict do not fall."""
    k: cython.Py_ssize_t
    for k in range(1, len(column)):
        if column[k] < column[k - 1] or (strict and column[k] == column[k - 1]):
            return False
    return True


def exact_offsets(
    offsets: cython.longlong[::1], positions: cython.longlong[::1], rows: cython.longlong[::1], n: cython.Py_ssize_t
) -> int:
    """Count the entries of an offset index, from the first on, that have where a batch begins and its last offset.

    Args:
        offsets, positions: the entries; the positions ascend.
        rows: batches in the order of the log.
        n: rows.
    """
    k: cython.Py_ssize_t
    i: cython.Py_ssize_t = 0
    r: cython.Py_ssize_t = 0
    for k in range(len(offsets)):
        while i < n and rows[r + layout.POSITION] < positions[k]:
            i += 1
            r += layout.BATCH_WIDTH
        if i == n or rows[r + layout.POSITION] != positions[k] or rows[r + layout.LAST_OFFSET] != offsets[k]:
            return k
    return len(offsets)


def exact_times(
    times: cython.longlong[::1],
    offsets: cython.longlong[::1],
    rows: cython.longlong[::1],
    n: cython.Py_ssize_t,
    largest: cython.longlong,
) -> int:
    """Count the entries of a time index, from the first on, that are the end of a batch with a new largest timestamp.

    Args:
        times, offsets: the entries; the offsets ascend.
        rows: batches whose last offsets ascend.
        n: rows.
        largest: timestamp before the first batch.
    """
    k: cython.Py_ssize_t
    i: cython.Py_ssize_t = 0
    r: cython.Py_ssize_t = 0
    for k in range(len(offsets)):
        while i < n and rows[r + layout.LAST_OFFSET] < offsets[k]:
            if rows[r + layout.CRC] == rows[r + layout.COMPUTED_CRC] and rows[r + layout.MAX_TIMESTAMP] > largest:
                largest = rows[r + layout.MAX_TIMESTAMP]
            i += 1
            r += layout.BATCH_WIDTH
        if (
            i == n
            or rows[r + layout.LAST_OFFSET] != offsets[k]
            or rows[r + layout.CRC] != rows[r + layout.COMPUTED_CRC]
        ):
            return k
        if rows[r + layout.MAX_TIMESTAMP] != times[k] or times[k] <= largest:
            return k
    return len(offsets)


@cython.cfunc
@cython.inline
def _part(b: cython.p_uchar, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> memoryview:
    """Bytes of the buffer, not copied: valid as long as the buffer is."""
    if cython.compiled:
        part = PyMemoryView_FromMemory(cython.cast(cython.p_char, b + start), stop - start, PyBUF_READ)
    else:
        part = b[start:stop]
    return part


def fill_crcs(
    view: cython.const[cython.uchar][::1],
    origin: cython.longlong,
    rows: cython.longlong[::1],
    n: cython.Py_ssize_t,
    crc32: Callable[[memoryview], int],
    crc32c: Callable[[memoryview], int],
) -> None:
    """Compute the CRC of the first n batches into its column.

    Args:
        view: the window that all of them lie in.
        origin: file position of view[0].
        rows: rows of batches; their COMPUTED_CRC is overwritten.
        n: rows.
        crc32: the function for magic 0 and 1.
        crc32c: the one from magic 2 on.
    """
    b: cython.p_uchar
    b = cython.cast(cython.p_uchar, cython.address(view[0])) if cython.compiled else view
    i: cython.Py_ssize_t
    r: cython.Py_ssize_t = 0
    start: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    length: cython.Py_ssize_t = len(view)
    for i in range(n):
        start = rows[r + layout.POSITION] - origin
        stop = start + rows[r + layout.SIZE]
        if start < 0 or stop > length or stop - start < layout.LOG_OVERHEAD + layout.MIN_SIZE_V0:
            rows[r + layout.COMPUTED_CRC] = -1  # a file that shrank: what the row says is not all in the window
        elif rows[r + layout.MAGIC] >= layout.MAGIC_V2:
            rows[r + layout.COMPUTED_CRC] = crc32c(_part(b, start + layout.ATTRIBUTES_AT, stop))
        else:
            rows[r + layout.COMPUTED_CRC] = crc32(_part(b, start + layout.MAGIC_AT, stop))
        r += layout.BATCH_WIDTH


def index_entries(
    rows: cython.longlong[::1],
    n: cython.Py_ssize_t,
    interval: cython.longlong,
    state: cython.longlong[::1],
    out: cython.longlong[::1],
) -> int:
    """Find the entries that both indexes of a segment get for some batches.

    Args:
        rows: rows of batches, positions ascending.
        n: rows.
        interval: index.interval.bytes.
        state: layout.INDEX_STATE values, before and, unless -1 is returned, after these batches.
        out: layout.INDEX_ENTRY values for each entry; room for n of them.

    Returns:
        Number of entries; -1 where one does not ascend: nothing is changed then but `out`.
    """
    due: cython.longlong = state[0]
    last: cython.longlong = state[1]
    latest: cython.longlong = state[2]
    latest_at: cython.longlong = state[3]
    time: cython.longlong = state[4]
    time_at: cython.longlong = state[5]
    found: cython.Py_ssize_t = 0
    r: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    for i in range(n):
        if rows[r + layout.MAX_TIMESTAMP] > latest:
            latest = rows[r + layout.MAX_TIMESTAMP]
            latest_at = rows[r + layout.LAST_OFFSET]
        if rows[r + layout.POSITION] > due:
            if rows[r + layout.LAST_OFFSET] <= last or latest_at < time_at:
                return -1
            last = rows[r + layout.LAST_OFFSET]
            out[at] = last
            out[at + 1] = rows[r + layout.POSITION]
            out[at + 2] = latest > time
            if latest > time:
                time = latest
                time_at = latest_at
            out[at + 3] = time
            out[at + 4] = time_at
            due = rows[r + layout.POSITION] + interval
            at += layout.INDEX_ENTRY
            found += 1
        r += layout.BATCH_WIDTH
    state[0] = due
    state[1] = last
    state[2] = latest
    state[3] = latest_at
    state[4] = time
    state[5] = time_at
    return found
