# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Kernel: batch headers into columns, the search for a header among foreign bytes, and what an index has of batches.

Compiled by Cython when a compiler is there, interpreted with the same results when not. Every read is preceded by
a comparison with what the buffer holds; no length from the data is used before that.
"""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:  # the interpreter does not need Cython
    from kdump.format import _cython as cython
if not cython.compiled:  # nor what Cython brings for the interpreter, where it is there
    from kdump.format import _cython as cython


from typing import TYPE_CHECKING

from kdump.format import layout

if TYPE_CHECKING:
    from collections.abc import Callable

if cython.compiled:
    from cython.cimports.cpython.buffer import PyBUF_READ
    from cython.cimports.cpython.memoryview import PyMemoryView_FromMemory

# Numbers of the layout as C variables: what the interpreter sees are the same ints.
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
_SUSPICION = cython.declare(cython.Py_ssize_t, layout.SUSPICION)
_SEEN_MAX_TIMESTAMP = cython.declare(cython.Py_ssize_t, layout.SEEN_MAX_TIMESTAMP)
_SEEN_DELTA = cython.declare(cython.Py_ssize_t, layout.SEEN_DELTA)
_WIDTH = cython.declare(cython.Py_ssize_t, layout.BATCH_WIDTH)
_INDEX_ENTRY = cython.declare(cython.Py_ssize_t, layout.INDEX_ENTRY)

_NOT_ABOVE = cython.declare(cython.longlong, layout.NOT_ABOVE)
_GAP = cython.declare(cython.longlong, layout.GAP)
_EPOCH_CHANGES = cython.declare(cython.longlong, layout.EPOCH_CHANGES)
_ODD_MAGIC = cython.declare(cython.longlong, layout.ODD_MAGIC)
_ODD_CODEC = cython.declare(cython.longlong, layout.ODD_CODEC)
_ODD_ATTRIBUTES = cython.declare(cython.longlong, layout.ODD_ATTRIBUTES)
_ODD_DELTA = cython.declare(cython.longlong, layout.ODD_DELTA)
_ODD_COUNT = cython.declare(cython.longlong, layout.ODD_COUNT)
_OUT_OF_RANGE = cython.declare(cython.longlong, layout.OUT_OF_RANGE)
_ODD_FLAGS = cython.declare(cython.longlong, layout.ODD_FLAGS)
_HAS_PRODUCER = cython.declare(cython.longlong, layout.HAS_PRODUCER)

_UNKNOWN = cython.declare(cython.longlong, layout.UNKNOWN)
_MAX_INT = cython.declare(cython.longlong, layout.MAX_INT)

# Literals over 32 bits are Python ints to the compiler, even where the other side is a C variable.
_TWO_32 = cython.declare(cython.longlong, 0x100000000)


def is_compiled() -> bool:
    """Tell whether this kernel runs compiled."""
    return bool(cython.compiled)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _u16(b: cython.p_uchar, at: cython.Py_ssize_t) -> cython.longlong:
    high: cython.longlong = b[at]
    return (high << 8) | b[at + 1]


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
def _fill_v2(b: cython.p_uchar, at: cython.Py_ssize_t, row: cython.p_longlong, r: cython.Py_ssize_t) -> None:
    """Put the header at `at` (61 bytes are there) into the columns of one row."""
    base: cython.longlong = _i64(b, at)
    delta: cython.longlong = _i32(b, at + 23)
    epoch: cython.longlong = _u16(b, at + 51)
    row[r + _BASE_OFFSET] = base
    row[r + _LAST_OFFSET] = _wrap(base + delta)
    row[r + _LEADER_EPOCH] = _i32(b, at + 12)
    row[r + _CRC] = _u32(b, at + 17)
    row[r + _ATTRIBUTES] = _u16(b, at + 21)
    row[r + _LAST_OFFSET_DELTA] = delta
    row[r + _BASE_TIMESTAMP] = _i64(b, at + 27)
    row[r + _MAX_TIMESTAMP] = _i64(b, at + 35)
    row[r + _PRODUCER_ID] = _i64(b, at + 43)
    if epoch > 0x7FFF:
        epoch -= 0x10000
    row[r + _PRODUCER_EPOCH] = epoch
    row[r + _BASE_SEQUENCE] = _i32(b, at + 53)
    row[r + _COUNT] = _i32(b, at + 57)


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
    offset: cython.longlong = _i64(b, at)
    attributes: cython.longlong = b[at + 17]
    row[r + _LAST_OFFSET] = offset
    row[r + _BASE_OFFSET] = offset if attributes & 7 == 0 else -1
    row[r + _LEADER_EPOCH] = -1
    row[r + _CRC] = _u32(b, at + 12)
    row[r + _ATTRIBUTES] = attributes
    row[r + _LAST_OFFSET_DELTA] = -1
    row[r + _BASE_TIMESTAMP] = -1
    row[r + _MAX_TIMESTAMP] = _i64(b, at + 18) if magic == 1 else -1
    row[r + _PRODUCER_ID] = -1
    row[r + _PRODUCER_EPOCH] = -1
    row[r + _BASE_SEQUENCE] = -1
    row[r + _COUNT] = -1


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
    base: cython.longlong = row[r + _BASE_OFFSET]
    delta: cython.longlong = row[r + _LAST_OFFSET_DELTA]
    count: cython.longlong = row[r + _COUNT]
    attributes: cython.longlong = row[r + _ATTRIBUTES]
    bits: cython.longlong = 0
    if last_offset != _UNKNOWN:
        if base <= last_offset:
            bits |= _NOT_ABOVE
        elif base != last_offset + 1:
            bits |= _GAP
    if last_epoch != _UNKNOWN and row[r + _LEADER_EPOCH] != last_epoch:
        bits |= _EPOCH_CHANGES
    if row[r + _LEADER_EPOCH] < -1:
        bits |= _EPOCH_CHANGES
    if row[r + _MAGIC] != 2:
        bits |= _ODD_MAGIC
    if attributes & 7 > 4:
        bits |= _ODD_CODEC
    if attributes & 0xFF80:
        bits |= _ODD_ATTRIBUTES
    if delta < 0:
        bits |= _ODD_DELTA
    if count < 0 or count > delta + 1 or (count == 0 and row[r + _SIZE] > 61):
        bits |= _ODD_COUNT
    if (
        base < 0
        or row[r + _LAST_OFFSET] < 0
        or (segment != _UNKNOWN and (base < segment or segment < row[r + _LAST_OFFSET] - _MAX_INT))
    ):
        bits |= _OUT_OF_RANGE
    if row[r + _PRODUCER_ID] < 0:
        if attributes & 0x30:
            bits |= _ODD_FLAGS
    else:
        bits |= _HAS_PRODUCER
    if attributes & 0x40 and row[r + _BASE_TIMESTAMP] <= row[r + _MAX_TIMESTAMP]:
        bits |= _ODD_FLAGS
    return bits


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _suspect_legacy(
    row: cython.p_longlong, r: cython.Py_ssize_t, last_offset: cython.longlong, segment: cython.longlong
) -> cython.longlong:
    """The rules that a message header of magic 0 or 1 breaks, as bits."""
    offset: cython.longlong = row[r + _LAST_OFFSET]
    attributes: cython.longlong = row[r + _ATTRIBUTES]
    bits: cython.longlong = 0
    if last_offset != _UNKNOWN:
        if offset <= last_offset:
            bits |= _NOT_ABOVE
        elif attributes & 7 == 0 and offset != last_offset + 1:
            bits |= _GAP
    if offset < 0 or (segment != _UNKNOWN and (offset < segment or segment < offset - _MAX_INT)):
        bits |= _OUT_OF_RANGE
    if row[r + _MAGIC] < 0:
        bits |= _ODD_MAGIC
    if attributes & 7 > 3:
        bits |= _ODD_CODEC
    if attributes & 0xF0:
        bits |= _ODD_ATTRIBUTES
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
        if origin + at >= end - 17:
            status = 0  # END
            break
        if n >= capacity:
            status = 2  # FULL
            break
        if at + 17 > length:
            status = 1  # MORE
            break
        size = _i32(b, at + 8)
        if size < 14:
            status = 3  # TOO_SMALL
            break
        if origin + at > end - 12 - size:
            status = 4  # PAST_END
            break
        magic = b[at + 16]
        if magic > 127:
            magic -= 256
        if magic >= 2 and size < 49:
            status = 5  # SHORT_V2
            break
        if at + 12 + size > length:
            status = 1  # MORE
            break
        row[r + _POSITION] = origin + at
        row[r + _SIZE] = size + 12
        row[r + _MAGIC] = magic
        row[r + _COMPUTED_CRC] = -1
        row[r + _SEEN_MAX_TIMESTAMP] = _UNKNOWN
        row[r + _SEEN_DELTA] = -1
        if magic >= 2:
            _fill_v2(b, at, row, r)
            row[r + _SUSPICION] = _suspect_v2(row, r, last_offset, last_epoch, segment)
            last_epoch = row[r + _LEADER_EPOCH]
        else:
            _fill_legacy(b, at, magic, row, r)
            row[r + _SUSPICION] = _suspect_legacy(row, r, last_offset, segment)
        last_offset = row[r + _LAST_OFFSET]
        n += 1
        r += _WIDTH
        at += 12 + size
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
    row[_POSITION] = position
    row[_SIZE] = size
    row[_MAGIC] = magic
    row[_COMPUTED_CRC] = -1
    row[_SUSPICION] = 0
    row[_SEEN_MAX_TIMESTAMP] = _UNKNOWN
    row[_SEEN_DELTA] = -1
    if magic >= 2:
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
        if row[r + _MAGIC] >= 2:
            row[r + _SUSPICION] = _suspect_v2(row, r, border[0], border[1], segment)
            border[1] = row[r + _LEADER_EPOCH]
        else:
            row[r + _SUSPICION] = _suspect_legacy(row, r, border[0], segment)
        border[0] = row[r + _LAST_OFFSET]
        r += _WIDTH


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
    magic: cython.longlong = b[at + 16]
    size: cython.longlong
    offset: cython.longlong
    delta: cython.longlong
    count: cython.longlong
    if magic > 2:
        return False
    size = _i32(b, at + 8)
    if size < 14 or position + 12 + size > end:
        return False
    offset = _i64(b, at)
    if offset <= floor or offset < 0:
        return False
    if floor != _UNKNOWN and floor < offset - _MAX_INT - 1:  # a difference of the two could wrap, this cannot
        return False  # a segment has no offsets so far above another
    if magic == 2:
        if size < 49 or b[at + 21] != 0 or b[at + 22] > 0x7F or b[at + 22] & 7 > 4:
            return False
        delta = _i32(b, at + 23)
        count = _i32(b, at + 57)
        if delta < 0 or count < 0 or count > delta + 1:
            return False
        if b[at + 22] & 7 == 0 and count * 7 > size - 49:
            return False  # a record has at least 7 bytes
        return _i32(b, at + 12) >= -1 and _i64(b, at + 43) >= -1
    if b[at + 17] & 0xF0 or b[at + 17] & 7 > 3:
        return False
    return not (magic == 1 and size < 22)


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
        if b[at + 16] <= 2 and b[at + 8] < 0x80 and _plausible(b, at, origin + at, end, floor):
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
        bits |= rows[i * _WIDTH + _SUSPICION]
    return bits


def extremes(rows: cython.longlong[::1], n: cython.Py_ssize_t, column: cython.Py_ssize_t) -> tuple[int, int]:
    """Return the smallest and the largest value that the first n batches have in a column; n is at least 1."""
    smallest: cython.longlong = rows[column]
    largest: cython.longlong = smallest
    value: cython.longlong
    i: cython.Py_ssize_t
    for i in range(1, n):
        value = rows[i * _WIDTH + column]
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
        lacking += rows[i * _WIDTH + _LAST_OFFSET_DELTA] - rows[i * _WIDTH + _COUNT]
    return lacking > 0


def are_trusted(rows: cython.longlong[::1], n: cython.Py_ssize_t) -> bool:
    """Tell whether each of the first n batches has the right CRC."""
    i: cython.Py_ssize_t
    for i in range(n):
        if rows[i * _WIDTH + _CRC] != rows[i * _WIDTH + _COMPUTED_CRC]:
            return False
    return True


def largest_timestamp(rows: cython.longlong[::1], n: cython.Py_ssize_t, largest: cython.longlong) -> int:
    """Return the largest of a timestamp and those of the first n batches; one whose CRC is wrong has none."""
    i: cython.Py_ssize_t
    r: cython.Py_ssize_t = 0
    for i in range(n):
        if rows[r + _CRC] == rows[r + _COMPUTED_CRC] and rows[r + _MAX_TIMESTAMP] > largest:
            largest = rows[r + _MAX_TIMESTAMP]
        r += _WIDTH
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
            first[k] = _i64(b, at)
            second[k] = _wrap(base + _i32(b, at + 8))
            at += 12
        else:
            first[k] = _wrap(base + _i32(b, at))
            second[k] = _i32(b, at + 4)
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
        while i < n and rows[r + _POSITION] < positions[k]:
            i += 1
            r += _WIDTH
        if i == n or rows[r + _POSITION] != positions[k] or rows[r + _LAST_OFFSET] != offsets[k]:
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
        while i < n and rows[r + _LAST_OFFSET] < offsets[k]:
            if rows[r + _CRC] == rows[r + _COMPUTED_CRC] and rows[r + _MAX_TIMESTAMP] > largest:
                largest = rows[r + _MAX_TIMESTAMP]
            i += 1
            r += _WIDTH
        if i == n or rows[r + _LAST_OFFSET] != offsets[k] or rows[r + _CRC] != rows[r + _COMPUTED_CRC]:
            return k
        if rows[r + _MAX_TIMESTAMP] != times[k] or times[k] <= largest:
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
    for i in range(n):
        start = rows[r + _POSITION] - origin
        stop = start + rows[r + _SIZE]
        if rows[r + _MAGIC] >= 2:
            rows[r + _COMPUTED_CRC] = crc32c(_part(b, start + 21, stop))
        else:
            rows[r + _COMPUTED_CRC] = crc32(_part(b, start + 16, stop))
        r += _WIDTH


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
        if rows[r + _MAX_TIMESTAMP] > latest:
            latest = rows[r + _MAX_TIMESTAMP]
            latest_at = rows[r + _LAST_OFFSET]
        if rows[r + _POSITION] > due:
            if rows[r + _LAST_OFFSET] <= last or latest_at < time_at:
                return -1
            last = rows[r + _LAST_OFFSET]
            out[at] = last
            out[at + 1] = rows[r + _POSITION]
            out[at + 2] = latest > time
            if latest > time:
                time = latest
                time_at = latest_at
            out[at + 3] = time
            out[at + 4] = time_at
            due = rows[r + _POSITION] + interval
            at += _INDEX_ENTRY
            found += 1
        r += _WIDTH
    state[0] = due
    state[1] = last
    state[2] = latest
    state[3] = latest_at
    state[4] = time
    state[5] = time_at
    return found
