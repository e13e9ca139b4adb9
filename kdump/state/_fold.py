# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Kernel: what each batch says of a log's holes and times, and the newest value of each key that is known.

Compiled by Cython when a compiler is there, interpreted with the same results when not. Of a key that was met before
only its newest value is kept, as it lies on disk: nothing of what is superseded is ever decoded.

Contract. Trusted: batch rows are those of the scan, record rows those of `kdump.format.record._records` for the same
buffer; the numbers in `keys` are below the lengths of `columns` and `values`. Guaranteed: the offset after the last
one is added as Java adds, for a base offset lies outside the CRC.
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

# What `survey` knows of a log so far.
LOG_START = 0  # batches wholly below it do not count
DIRTY = 1  # first dirty offset of the cleaner, -1 where nobody says it
LAST = 2  # last offset of the batch before, UNKNOWN where that is not known
LARGEST = 3  # largest timestamp so far, ms, -1 for none
HOLE_END = 4  # the offset after the last hole, -1 for none
HOLE_TIME = 5  # largest timestamp below it
DIRTY_HOLE = 6  # 1: a hole begins below the first dirty offset
DIRTY_TIME = 7  # largest timestamp below the first dirty offset
END = 8  # offset after the last batch, -1 for none
SURVEY_WIDTH = 9
_LOG_START = cython.declare(cython.Py_ssize_t, LOG_START)
_DIRTY = cython.declare(cython.Py_ssize_t, DIRTY)
_LAST = cython.declare(cython.Py_ssize_t, LAST)
_LARGEST = cython.declare(cython.Py_ssize_t, LARGEST)
_HOLE_END = cython.declare(cython.Py_ssize_t, HOLE_END)
_HOLE_TIME = cython.declare(cython.Py_ssize_t, HOLE_TIME)
_DIRTY_HOLE = cython.declare(cython.Py_ssize_t, DIRTY_HOLE)
_DIRTY_TIME = cython.declare(cython.Py_ssize_t, DIRTY_TIME)
_END = cython.declare(cython.Py_ssize_t, END)

# A place up to which a log is read: the segment's number, the position and the offset after the batch.
CUT_SEGMENT = 0
CUT_POSITION = 1
CUT_OFFSET = 2
CUT_WIDTH = 3
_CUT_WIDTH = cython.declare(cython.Py_ssize_t, CUT_WIDTH)

# What is known of the newest value of a key.
LARGEST_HELD = 4096  # bytes of a value that is held as it lies on disk; a larger one is held compressed
_LARGEST_HELD = cython.declare(cython.Py_ssize_t, LARGEST_HELD)
V_OFFSET = 0  # of its record
V_TIMESTAMP = 1  # of its record, ms
V_PRODUCER = 2  # -1 for none
VALUE_WIDTH = 3
_V_OFFSET = cython.declare(cython.Py_ssize_t, V_OFFSET)
_V_TIMESTAMP = cython.declare(cython.Py_ssize_t, V_TIMESTAMP)
_V_PRODUCER = cython.declare(cython.Py_ssize_t, V_PRODUCER)
_VALUE_WIDTH = cython.declare(cython.Py_ssize_t, VALUE_WIDTH)


def is_compiled() -> bool:
    """Tell whether this kernel runs compiled."""
    return bool(cython.compiled)


def survey(
    rows: cython.longlong[::1],
    count: cython.Py_ssize_t,
    segment: cython.longlong,
    state: cython.longlong[::1],
    times: cython.longlong[::1],
    cuts: cython.longlong[::1],
) -> None:
    """Take batches into account, all of them with the right CRC.

    Args:
        rows: of batches.
        count: how many.
        segment: number of their segment.
        state: SURVEY_WIDTH numbers, changed.
        times: ms; the last batch in log order whose maxTimestamp is at most that is looked for.
        cuts: CUT_WIDTH numbers for each of them, changed.
    """
    k: cython.Py_ssize_t
    i: cython.Py_ssize_t
    c: cython.Py_ssize_t
    wanted: cython.Py_ssize_t = len(times)
    base: cython.longlong
    last: cython.longlong
    time: cython.longlong
    for k in range(count):
        c = k * layout.BATCH_WIDTH
        last = rows[c + layout.LAST_OFFSET]
        if last < state[_LOG_START]:
            continue
        base = rows[c + layout.BASE_OFFSET]
        time = rows[c + layout.MAX_TIMESTAMP]
        if base < 0:  # a wrapper: its first offset is known only after decompression
            base = wire.add(state[_LAST], 1) if state[_LAST] != layout.UNKNOWN else last
        elif state[_LAST] != layout.UNKNOWN and base - 1 > state[_LAST]:
            state[_HOLE_END] = base
            state[_HOLE_TIME] = state[_LARGEST]
            if wire.add(state[_LAST], 1) < state[_DIRTY]:
                state[_DIRTY_HOLE] = 1
        if time > state[_LARGEST]:
            state[_LARGEST] = time
        if rows[c + layout.MAGIC] >= layout.MAGIC_V2 and rows[c + layout.COUNT] - 1 < wire.subtract(last, base):
            state[_HOLE_END] = wire.add(last, 1)
            state[_HOLE_TIME] = state[_LARGEST]
            if base < state[_DIRTY]:
                state[_DIRTY_HOLE] = 1
        if base < state[_DIRTY]:
            state[_DIRTY_TIME] = state[_LARGEST]
        state[_LAST] = last
        state[_END] = wire.add(last, 1)
        for i in range(wanted):
            if time <= times[i]:
                cuts[i * _CUT_WIDTH] = segment
                cuts[i * _CUT_WIDTH + 1] = rows[c + layout.POSITION] + rows[c + layout.SIZE]
                cuts[i * _CUT_WIDTH + 2] = wire.add(last, 1)


def upsert(
    view: cython.const[cython.uchar][::1],
    batches: cython.longlong[::1],
    rows: cython.longlong[::1],
    first: cython.Py_ssize_t,
    filled: cython.Py_ssize_t,
    keys: dict[bytes, int],
    columns: cython.longlong[::1],
    values: list[bytes | None],
) -> int:
    """Keep the newest value of each known key, up to a record that somebody has to look at.

    That is one whose batch has a producer, whose value is null or larger than LARGEST_HELD, or whose key is not in
    `keys` with a number from 0 on.

    Args:
        view: the buffer of the records.
        batches: rows of their batches.
        rows: rows of records.
        first, filled: of them, half-open.
        keys: number of each key.
        columns: VALUE_WIDTH numbers for each key, changed.
        values: of each key, as it lies on disk, changed.

    Returns:
        the row of that record, else `filled`.
    """
    b: cython.p_char
    r: cython.Py_ssize_t
    c: cython.Py_ssize_t
    at: cython.Py_ssize_t
    end: cython.Py_ssize_t
    slot: cython.longlong
    if first >= filled:
        return filled
    if cython.compiled:
        b = cython.cast(cython.p_char, cython.address(view[0]))
    else:
        b = view
    for r in range(first, filled):
        c = r * layout.RECORD_WIDTH
        if rows[c + layout.R_KEY_SIZE] < 0 or rows[c + layout.R_VALUE_SIZE] < 0:
            return r
        if rows[c + layout.R_VALUE_SIZE] > _LARGEST_HELD:
            return r
        if batches[rows[c + layout.R_BATCH] * layout.BATCH_WIDTH + layout.PRODUCER_ID] >= 0:
            return r
        at = rows[c + layout.R_KEY_AT]
        end = at + rows[c + layout.R_KEY_SIZE]
        known = keys.get(b[at:end] if cython.compiled else bytes(b[at:end]))
        if known is None:
            return r
        slot = known
        if slot < 0:
            return r
        at = rows[c + layout.R_VALUE_AT]
        end = at + rows[c + layout.R_VALUE_SIZE]
        values[slot] = b[at:end] if cython.compiled else bytes(b[at:end])
        slot *= _VALUE_WIDTH
        columns[slot + _V_OFFSET] = rows[c + layout.R_OFFSET]
        columns[slot + _V_TIMESTAMP] = rows[c + layout.R_TIMESTAMP]
        columns[slot + _V_PRODUCER] = -1
    return filled
