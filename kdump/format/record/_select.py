# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Kernel: which batches and records are wanted, over columns.

Compiled by Cython when a compiler is there, interpreted with the same results when not. Batches that cannot have what
is wanted are left out before their records are read; records are marked in a mask, and what is marked is moved
together.

Contract. Trusted: record rows are those of `kdump.format.record._records` for the same buffer, in the order of their
batches; there is room for what the arguments say. Headers are walked within R_END by the decoder that checked them.
Guaranteed: rows that are moved keep all their columns but R_BATCH, so they are as safe as before.
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
    from collections.abc import Callable, Sequence

if cython.compiled:
    from cython.cimports.cpython.unicode import PyUnicode_DecodeUTF8
    from cython.cimports.kdump.format.batch import layout
    from cython.cimports.kdump.format.kernels import wire
else:
    from kdump.format.batch import layout
    from kdump.format.kernels import wire


# The bounds of a selection, in one array: ranges are half-open.
FROM_OFFSET = 0
TO_OFFSET = 1
FROM_TIME = 2
TO_TIME = 3
BY_TIME = 4  # 1: a record without a timestamp is in no range
POSITION = 5  # batches that begin at or after it
FLAGS = 6  # attributes that a batch must have
TOMBSTONES = 7  # 1: null values only
RECORDS = 8  # 1: records decide, so a batch in doubt stays
BOUNDS_WIDTH = 9
_FROM_OFFSET = cython.declare(cython.Py_ssize_t, FROM_OFFSET)
_TO_OFFSET = cython.declare(cython.Py_ssize_t, TO_OFFSET)
_FROM_TIME = cython.declare(cython.Py_ssize_t, FROM_TIME)
_TO_TIME = cython.declare(cython.Py_ssize_t, TO_TIME)
_BY_TIME = cython.declare(cython.Py_ssize_t, BY_TIME)
_POSITION = cython.declare(cython.Py_ssize_t, POSITION)
_FLAGS = cython.declare(cython.Py_ssize_t, FLAGS)
_TOMBSTONES = cython.declare(cython.Py_ssize_t, TOMBSTONES)
_RECORDS = cython.declare(cython.Py_ssize_t, RECORDS)

# Which batches without records `gather` keeps, besides those in the middle; 0: none at all.
BARE_LAST = 1
BARE_FIRST = 2
_BARE_LAST = cython.declare(cython.Py_ssize_t, BARE_LAST)
_BARE_FIRST = cython.declare(cython.Py_ssize_t, BARE_FIRST)


def is_compiled() -> bool:
    """Tell whether this kernel runs compiled."""
    return bool(cython.compiled)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _among(value: cython.longlong, some: cython.p_longlong, n: cython.Py_ssize_t) -> cython.bint:
    i: cython.Py_ssize_t
    for i in range(n):
        if some[i] == value:
            return True
    return False


@cython.cfunc
@cython.exceptval(check=False)
def _in_ranges(row: cython.p_longlong, q: cython.Py_ssize_t, bounds: cython.p_longlong) -> cython.bint:
    """Whether a batch can have a record in the ranges, by its header."""
    magic: cython.longlong = row[q + layout.MAGIC]
    attributes: cython.longlong = row[q + layout.ATTRIBUTES]
    records: cython.bint = bounds[_RECORDS] != 0
    wrapper: cython.bint = magic < layout.MAGIC_V2 and attributes & layout.CODEC_MASK != 0
    latest: cython.longlong = row[q + layout.MAX_TIMESTAMP]
    earliest: cython.longlong = latest
    if bounds[_FROM_OFFSET] >= bounds[_TO_OFFSET] or bounds[_FROM_TIME] >= bounds[_TO_TIME]:
        return False  # an empty range
    if records and row[q + layout.CRC] != row[q + layout.COMPUTED_CRC]:
        return True  # what its header says is in doubt
    if row[q + layout.LAST_OFFSET] < bounds[_FROM_OFFSET] or (
        not wrapper and row[q + layout.BASE_OFFSET] >= bounds[_TO_OFFSET]
    ):
        return False
    if bounds[_BY_TIME] == 0:
        return True
    if latest == -1 or latest < bounds[_FROM_TIME]:
        return False
    if attributes & layout.TIMESTAMP_TYPE_FLAG == 0 and magic > 0:  # CreateTime: the largest of all
        if wrapper or (magic >= layout.MAGIC_V2 and (records or attributes & layout.DELETE_HORIZON_FLAG)):
            earliest = layout.UNKNOWN
        elif magic >= layout.MAGIC_V2 and row[q + layout.BASE_TIMESTAMP] < latest:
            earliest = row[q + layout.BASE_TIMESTAMP]
    return earliest < bounds[_TO_TIME]


def batches(
    rows: cython.longlong[::1],
    n: cython.Py_ssize_t,
    bounds: cython.longlong[::1],
    producers: cython.longlong[::1],
    epochs: cython.longlong[::1],
    kept: cython.longlong[::1],
) -> int:
    """Copy the rows of the batches that can have what is wanted.

    Args:
        rows: rows of batches.
        n: how many.
        bounds: BOUNDS_WIDTH values.
        producers, epochs: how many, then the ids or leader epochs of which a batch must have one; 0 for any.
        kept: room for n rows; overwritten.

    Returns:
        How many rows are kept.
    """
    row: cython.p_longlong
    out: cython.p_longlong
    limits: cython.p_longlong
    ids: cython.p_longlong
    terms: cython.p_longlong
    if cython.compiled:
        row = cython.address(rows[0])
        out = cython.address(kept[0])
        limits = cython.address(bounds[_FROM_OFFSET])
        ids = cython.address(producers[0]) + 1
        terms = cython.address(epochs[0]) + 1
    else:
        row = rows
        out = kept
        limits = bounds
        ids = producers[1:]
        terms = epochs[1:]
    of_ids: cython.Py_ssize_t = producers[0]
    of_terms: cython.Py_ssize_t = epochs[0]
    flags: cython.longlong = limits[_FLAGS]
    k: cython.Py_ssize_t
    i: cython.Py_ssize_t
    q: cython.Py_ssize_t = 0
    to: cython.Py_ssize_t = 0
    for k in range(n):
        q = k * layout.BATCH_WIDTH
        if row[q + layout.POSITION] < limits[_POSITION]:
            continue
        if row[q + layout.MAGIC] < layout.MAGIC_V2 and (flags or of_ids or of_terms):
            continue
        if row[q + layout.ATTRIBUTES] & flags != flags:
            continue
        if of_ids and not _among(row[q + layout.PRODUCER_ID], ids, of_ids):
            continue
        if of_terms and not _among(row[q + layout.LEADER_EPOCH], terms, of_terms):
            continue
        if not _in_ranges(row, q, limits):
            continue
        for i in range(layout.BATCH_WIDTH):
            out[to + i] = row[q + i]
        to += layout.BATCH_WIDTH
    return to // layout.BATCH_WIDTH


def with_any(rows: cython.longlong[::1], n: cython.Py_ssize_t, flags: cython.longlong) -> list[int]:
    """Return the numbers of the batches of magic 2 that have any of some attributes, whatever their CRC.

    Args:
        rows: rows of batches.
        n: how many.
        flags: bits of the attributes.
    """
    k: cython.Py_ssize_t
    q: cython.Py_ssize_t
    found = []
    for k in range(n):
        q = k * layout.BATCH_WIDTH
        if rows[q + layout.ATTRIBUTES] & flags and rows[q + layout.MAGIC] >= layout.MAGIC_V2:
            found.append(k)
    return found


def in_ranges(
    records: cython.longlong[::1],
    n: cython.Py_ssize_t,
    bounds: cython.longlong[::1],
    mask: cython.uchar[::1],
) -> None:
    """Mark the records in the ranges of offset and time, with null values where only these are wanted.

    Args:
        records: record rows.
        n: how many.
        bounds: BOUNDS_WIDTH values.
        mask: n bytes; overwritten with 0 and 1.
    """
    i: cython.Py_ssize_t
    r: cython.Py_ssize_t = 0
    time: cython.longlong
    good: cython.bint
    for i in range(n):
        good = (
            bounds[_FROM_OFFSET] <= records[r + layout.R_OFFSET] and records[r + layout.R_OFFSET] < bounds[_TO_OFFSET]
        )
        if bounds[_BY_TIME]:
            time = records[r + layout.R_TIMESTAMP]
            good = good and time != -1 and bounds[_FROM_TIME] <= time and time < bounds[_TO_TIME]
        if bounds[_TOMBSTONES] and records[r + layout.R_VALUE_SIZE] >= 0:
            good = False
        mask[i] = good
        r += layout.RECORD_WIDTH


def with_keys(
    view: cython.const[cython.uchar][::1],
    records: cython.longlong[::1],
    n: cython.Py_ssize_t,
    wanted: cython.const[cython.uchar][::1],
    places: cython.longlong[::1],
    mask: cython.uchar[::1],
) -> None:
    """Unmark the records that have none of some keys.

    Args:
        view: the buffer that the record rows point into.
        records: record rows.
        n: how many.
        wanted: the keys in one buffer, a byte more at its end.
        places: start and size of each key.
        mask: n bytes.
    """
    b: cython.p_uchar
    w: cython.p_uchar
    if cython.compiled:
        b = cython.cast(cython.p_uchar, cython.address(view[0]))
        w = cython.cast(cython.p_uchar, cython.address(wanted[0]))
    else:
        b = view
        w = wanted
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    r: cython.Py_ssize_t
    count: cython.Py_ssize_t = len(places)
    size: cython.longlong
    good: cython.bint
    for i in range(n):
        if mask[i] == 0:
            continue
        r = i * layout.RECORD_WIDTH
        size = records[r + layout.R_KEY_SIZE]
        good = False
        if size >= 0:
            for j in range(0, count, 2):
                if places[j + 1] == size and wire.same(b, records[r + layout.R_KEY_AT], w, places[j], size):
                    good = True
                    break
        mask[i] = good


def in_sizes(
    records: cython.longlong[::1],
    n: cython.Py_ssize_t,
    least: cython.longlong,
    most: cython.longlong,
    mask: cython.uchar[::1],
) -> None:
    """Unmark the records of other sizes.

    Args:
        records: record rows.
        n: how many.
        least, most: bytes of key and value together, both inclusive; null has none.
        mask: n bytes.
    """
    i: cython.Py_ssize_t
    r: cython.Py_ssize_t = 0
    key: cython.longlong
    value: cython.longlong
    for i in range(n):
        key = records[r + layout.R_KEY_SIZE]
        value = records[r + layout.R_VALUE_SIZE]
        if not least <= (key if key > 0 else 0) + (value if value > 0 else 0) <= most:
            mask[i] = 0
        r += layout.RECORD_WIDTH


@cython.cfunc
@cython.inline
def _text(b: cython.p_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> str:
    """Bytes of the buffer as text, those that are not UTF-8 as surrogates."""
    if cython.compiled:
        text = PyUnicode_DecodeUTF8(cython.cast(cython.p_char, b + at), size, "surrogateescape")
    else:
        text = bytes(b[at : at + size]).decode("utf-8", "surrogateescape")
    return text


def with_pattern(
    view: cython.const[cython.uchar][::1],
    records: cython.longlong[::1],
    n: cython.Py_ssize_t,
    searches: Sequence[Callable[[str], object]],
    literal: bytes,
    mask: cython.uchar[::1],
    of_value: bool,
) -> None:
    """Unmark the records whose key, or value, no pattern is found in.

    Args:
        view: the buffer that the record rows point into.
        records: record rows.
        n: how many.
        searches: take a key as text, bytes that are not UTF-8 as surrogates; None where nothing is found.
        literal: bytes that are in every key in which something is found.
        mask: n bytes.
        of_value: look into values instead of keys.
    """
    b: cython.p_uchar
    w: cython.p_uchar
    if cython.compiled:
        b = cython.cast(cython.p_uchar, cython.address(view[0]))
        w = cython.cast(cython.p_uchar, cython.cast(cython.p_char, literal))
    else:
        b = view
        w = literal
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t
    size: cython.longlong
    length: cython.Py_ssize_t = len(literal)
    place: cython.Py_ssize_t = layout.R_VALUE_AT if of_value else layout.R_KEY_AT
    extent: cython.Py_ssize_t = layout.R_VALUE_SIZE if of_value else layout.R_KEY_SIZE
    good: cython.bint
    for i in range(n):
        if mask[i] == 0:
            continue
        at = records[i * layout.RECORD_WIDTH + place]
        size = records[i * layout.RECORD_WIDTH + extent]
        good = False
        if size >= 0 and wire.has(b, at, at + size - length, w, length):
            key = _text(b, at, size)
            for search in searches:
                if search(key) is not None:
                    good = True
                    break
        mask[i] = good


def with_headers(
    view: cython.const[cython.uchar][::1],
    records: cython.longlong[::1],
    n: cython.Py_ssize_t,
    wanted: cython.const[cython.uchar][::1],
    places: cython.longlong[::1],
    mask: cython.uchar[::1],
) -> None:
    """Unmark the records that have none of some headers.

    Args:
        view: the buffer that the record rows point into.
        records: record rows.
        n: how many.
        wanted: names and values in one buffer, a byte more at its end.
        places: start and size of the name, start and size of the value of each; size -1: any value.
        mask: n bytes.
    """
    b: cython.p_uchar
    w: cython.p_uchar
    if cython.compiled:
        b = cython.cast(cython.p_uchar, cython.address(view[0]))
        w = cython.cast(cython.p_uchar, cython.address(wanted[0]))
    else:
        b = view
        w = wanted
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    at: cython.Py_ssize_t
    after: cython.Py_ssize_t
    end: cython.Py_ssize_t
    value_at: cython.Py_ssize_t
    left: cython.longlong
    size: cython.longlong
    value_size: cython.longlong
    count: cython.Py_ssize_t = len(places)
    good: cython.bint
    for i in range(n):
        if mask[i] == 0:
            continue
        at = records[i * layout.RECORD_WIDTH + layout.R_HEADERS_AT]
        end = records[i * layout.RECORD_WIDTH + layout.R_END]
        left = records[i * layout.RECORD_WIDTH + layout.R_HEADER_COUNT]
        good = False
        while left > 0 and not good:
            after = wire.after_varint(b, at, end)
            size = wire.size_within(b, at, after, end)
            at = after
            after = at + size if size > 0 else at
            value_at = wire.after_varint(b, after, end)
            value_size = wire.size_within(b, after, value_at, end)
            for j in range(0, count, 4):
                if places[j + 1] != size or not wire.same(b, at, w, places[j], size):
                    continue
                if places[j + 3] < 0 or (
                    places[j + 3] == value_size and wire.same(b, value_at, w, places[j + 2], value_size)
                ):
                    good = True
                    break
            at = value_at
            if value_size > 0:
                at += value_size
            left -= 1
        mask[i] = good


def cut(mask: cython.uchar[::1], n: cython.Py_ssize_t, skip: cython.longlong, most: cython.longlong) -> tuple[int, int]:
    """Unmark the first marked records, and those after some more.

    Args:
        mask: n bytes.
        n: how many.
        skip: records to leave out.
        most: records to leave marked.

    Returns:
        How many were marked, how many are marked now.
    """
    i: cython.Py_ssize_t
    seen: cython.longlong = 0
    for i in range(n):
        if mask[i]:
            seen += 1
            if seen <= skip or seen - skip > most:
                mask[i] = 0
    left: cython.longlong = seen - skip if seen > skip else 0
    return seen, left if left < most else most


def gather(
    records: cython.longlong[::1],
    n: cython.Py_ssize_t,
    mask: cython.uchar[::1],
    rows: cython.longlong[::1],
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    bare: int,
    kept: cython.longlong[::1],
) -> tuple[int, int]:
    """Move the marked records together, and copy the rows of their batches.

    Args:
        records: record rows, in the order of their batches; the marked ones are moved to the front and get the
            numbers that their batches have in `kept`.
        n: how many.
        mask: n bytes.
        rows: rows of batches.
        first, last: those that the records are of, half-open.
        bare: 3: batches without any record are kept too; 1: but not the first of them; 2: but not the last.
        kept: room for last - first rows; overwritten.

    Returns:
        How many batches are kept, how many records.
    """
    k: cython.Py_ssize_t
    i: cython.Py_ssize_t = 0
    j: cython.Py_ssize_t
    of_batch: cython.Py_ssize_t
    marked: cython.Py_ssize_t
    to: cython.Py_ssize_t = 0
    batch: cython.Py_ssize_t = 0
    good: cython.bint
    for k in range(first, last):
        of_batch = marked = 0
        while i < n and records[i * layout.RECORD_WIDTH + layout.R_BATCH] == k:
            of_batch += 1
            if mask[i]:
                marked += 1
                if to != i:
                    for j in range(layout.RECORD_WIDTH):
                        records[to * layout.RECORD_WIDTH + j] = records[i * layout.RECORD_WIDTH + j]
                records[to * layout.RECORD_WIDTH + layout.R_BATCH] = batch
                to += 1
            i += 1
        good = marked > 0
        if of_batch == 0:
            good = (
                bare != 0
                and not (k == first and bare & _BARE_FIRST == 0)
                and not (k == last - 1 and bare & _BARE_LAST == 0)
            )
        if good:
            for j in range(layout.BATCH_WIDTH):
                kept[batch * layout.BATCH_WIDTH + j] = rows[k * layout.BATCH_WIDTH + j]
            batch += 1
    return batch, to
