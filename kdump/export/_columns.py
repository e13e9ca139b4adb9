# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Kernel: keys, values and headers of record rows into the buffers of Arrow arrays.

Compiled by Cython when a compiler is there, interpreted with the same results when not. The rows are those of
`kdump.format._records`, which has proven that every field lies in the buffer: nothing is checked again here. Bits of a
validity bitmap are set for what is there; bitmaps come zeroed.
"""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:  # the interpreter does not need Cython
    from kdump.format import _cython as cython
if not cython.compiled:  # nor what Cython brings for the interpreter, where it is there
    from kdump.format import _cython as cython

from kdump.format import layout

if cython.compiled:
    from cython.cimports.libc.string import memcpy

_BATCH_WIDTH = cython.declare(cython.Py_ssize_t, layout.BATCH_WIDTH)
_MAGIC = cython.declare(cython.Py_ssize_t, layout.MAGIC)
_WIDTH = cython.declare(cython.Py_ssize_t, layout.RECORD_WIDTH)
_R_BATCH = cython.declare(cython.Py_ssize_t, layout.R_BATCH)
_R_AT = cython.declare(cython.Py_ssize_t, layout.R_AT)
_R_HEADERS_AT = cython.declare(cython.Py_ssize_t, layout.R_HEADERS_AT)
_R_HEADER_COUNT = cython.declare(cython.Py_ssize_t, layout.R_HEADER_COUNT)
_R_END = cython.declare(cython.Py_ssize_t, layout.R_END)
_LOW_32 = cython.declare(cython.longlong, 0xFFFFFFFF)


def is_compiled() -> bool:
    """Tell whether this kernel runs compiled."""
    return bool(cython.compiled)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _copy(
    target: cython.p_uchar, to: cython.Py_ssize_t, b: cython.p_uchar, at: cython.Py_ssize_t, n: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Copy n bytes; return the place after them."""
    if cython.compiled:
        memcpy(target + to, b + at, n)
    else:
        target[to : to + n] = b[at : at + n]
    return to + n


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _after_varint(b: cython.p_uchar, at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    while b[at] >= 0x80:
        at += 1
    return at + 1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _varint(b: cython.p_uchar, at: cython.Py_ssize_t) -> cython.longlong:
    """The zigzag int32 at a place, cut to 32 bits as the record kernel does; it has read it before, so it ends."""
    value: cython.longlong = 0
    shift: cython.Py_ssize_t = 0
    while b[at] >= 0x80:
        value |= cython.cast(cython.longlong, b[at] & 0x7F) << shift
        shift += 7
        at += 1
    value = (value | cython.cast(cython.longlong, b[at]) << shift) & _LOW_32
    if value & 1:
        return -(value >> 1) - 1
    return value >> 1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _varlong(b: cython.p_uchar, at: cython.Py_ssize_t) -> cython.longlong:
    """The zigzag int64 at a place; one that has been read before, so it ends."""
    value: cython.ulonglong = 0
    byte: cython.ulonglong
    shift: cython.Py_ssize_t = 0
    while True:
        byte = b[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        at += 1
    if not cython.compiled:
        value &= 0xFFFFFFFFFFFFFFFF
    half: cython.longlong = value >> 1
    return half ^ -1 if value & 1 else half


def rows_within(
    rows: cython.longlong[::1], first: cython.Py_ssize_t, n: cython.Py_ssize_t, most: cython.longlong
) -> int:
    """Return the row after the last of the record rows [first, n) that fit into `most` bytes together; at least one.

    What fits needs no larger offsets than `most` in any array that is made of the rows.

    Args:
        rows: record rows.
        first, n: rows, half-open; there is at least one.
        most: bytes, at least those that one record can have.
    """
    total: cython.longlong = rows[first * _WIDTH + _R_END] - rows[first * _WIDTH + _R_AT]
    i: cython.Py_ssize_t = first + 1
    while i < n:
        total += rows[i * _WIDTH + _R_END] - rows[i * _WIDTH + _R_AT]
        if total > most:
            break
        i += 1
    return i


def field_bytes(rows: cython.longlong[::1], n: cython.Py_ssize_t, size: cython.Py_ssize_t) -> int:
    """Return how many bytes a field of n record rows has in all.

    Args:
        rows: record rows.
        n: rows.
        size: column of its size (layout.R_KEY_SIZE or R_VALUE_SIZE); below 0 is null.
    """
    total: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    for i in range(n):
        if rows[i * _WIDTH + size] > 0:
            total += rows[i * _WIDTH + size]
    return total


def copy_field(
    view: cython.const[cython.uchar][::1],
    rows: cython.longlong[::1],
    n: cython.Py_ssize_t,
    place: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    offsets: cython.int[::1],
    bits: cython.uchar[::1],
    target: cython.uchar[::1],
) -> int:
    """Copy a field of n record rows.

    Args:
        view: the buffer that the rows point into.
        rows: record rows.
        n: rows.
        place, size: columns of the field.
        offsets: takes n + 1 places in `target`.
        bits: validity bitmap of n bits.
        target: room for `field_bytes` bytes, and at least one.

    Returns:
        How many are null.
    """
    b: cython.p_uchar
    out: cython.p_uchar
    if cython.compiled:
        b = cython.cast(cython.p_uchar, cython.address(view[0]))
        out = cython.address(target[0])
    else:
        b = view
        out = target
    to: cython.Py_ssize_t = 0
    nulls: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    length: cython.longlong
    for i in range(n):
        offsets[i] = to
        length = rows[i * _WIDTH + size]
        if length < 0:
            nulls += 1
            continue
        bits[i >> 3] |= 1 << (i & 7)
        to = _copy(out, to, b, rows[i * _WIDTH + place], length)
    offsets[n] = to
    return nulls


def header_room(
    view: cython.const[cython.uchar][::1], rows: cython.longlong[::1], n: cython.Py_ssize_t
) -> tuple[int, int, int]:
    """Return how many headers n record rows have in all, the bytes of their keys, and those of their values."""
    b: cython.p_uchar
    if cython.compiled:
        b = cython.cast(cython.p_uchar, cython.address(view[0]))
    else:
        b = view
    headers: cython.Py_ssize_t = 0
    keys: cython.Py_ssize_t = 0
    values: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    at: cython.Py_ssize_t
    size: cython.longlong
    for i in range(n):
        at = rows[i * _WIDTH + _R_HEADERS_AT]
        for j in range(rows[i * _WIDTH + _R_HEADER_COUNT]):
            headers += 1
            size = _varint(b, at)
            at = _after_varint(b, at) + size
            keys += size
            size = _varint(b, at)
            at = _after_varint(b, at)
            if size > 0:
                values += size
                at += size
    return headers, keys, values


def copy_headers(
    view: cython.const[cython.uchar][::1],
    rows: cython.longlong[::1],
    n: cython.Py_ssize_t,
    lists: cython.int[::1],
    key_offsets: cython.int[::1],
    keys: cython.uchar[::1],
    value_offsets: cython.int[::1],
    bits: cython.uchar[::1],
    values: cython.uchar[::1],
) -> int:
    """Copy the headers of n record rows.

    Args:
        view: the buffer that the rows point into.
        rows: record rows.
        n: rows.
        lists: takes n + 1 numbers of headers.
        key_offsets, value_offsets: take a place for each header, and one more.
        keys, values: room for the bytes that `header_room` says, and at least one.
        bits: validity bitmap of the values.

    Returns:
        How many values are null.
    """
    b: cython.p_uchar
    to_keys: cython.p_uchar
    to_values: cython.p_uchar
    if cython.compiled:
        b = cython.cast(cython.p_uchar, cython.address(view[0]))
        to_keys = cython.address(keys[0])
        to_values = cython.address(values[0])
    else:
        b = view
        to_keys = keys
        to_values = values
    done: cython.Py_ssize_t = 0
    key: cython.Py_ssize_t = 0
    value: cython.Py_ssize_t = 0
    nulls: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    at: cython.Py_ssize_t
    size: cython.longlong
    for i in range(n):
        lists[i] = done
        at = rows[i * _WIDTH + _R_HEADERS_AT]
        for j in range(rows[i * _WIDTH + _R_HEADER_COUNT]):
            key_offsets[done] = key
            value_offsets[done] = value
            size = _varint(b, at)
            at = _after_varint(b, at)
            key = _copy(to_keys, key, b, at, size)
            at += size
            size = _varint(b, at)
            at = _after_varint(b, at)
            if size < 0:
                nulls += 1
            else:
                bits[done >> 3] |= 1 << (done & 7)
                value = _copy(to_values, value, b, at, size)
                at += size
            done += 1
    lists[n] = done
    key_offsets[done] = key
    value_offsets[done] = value
    return nulls


def of_batches(
    rows: cython.longlong[::1],
    n: cython.Py_ssize_t,
    batches: cython.longlong[::1],
    column: cython.Py_ssize_t,
    target: cython.longlong[::1],
) -> None:
    """Fill in one column of the batch of each of n record rows.

    Args:
        rows: record rows.
        n: rows.
        batches: rows of batches.
        column: layout.POSITION ...
        target: room for n values.
    """
    i: cython.Py_ssize_t
    for i in range(n):
        target[i] = batches[rows[i * _WIDTH + _R_BATCH] * _BATCH_WIDTH + column]


def timestamp_deltas(
    view: cython.const[cython.uchar][::1],
    rows: cython.longlong[::1],
    n: cython.Py_ssize_t,
    batches: cython.longlong[::1],
    target: cython.longlong[::1],
) -> None:
    """Fill in the timestamp delta (ms) that each of n record rows has stored; 0 below magic 2, which has none.

    Args:
        view: the buffer that the rows point into.
        rows: record rows.
        n: rows.
        batches: rows of batches.
        target: room for n values.
    """
    b: cython.p_uchar
    if cython.compiled:
        b = cython.cast(cython.p_uchar, cython.address(view[0]))
    else:
        b = view
    i: cython.Py_ssize_t
    for i in range(n):
        target[i] = 0
        if batches[rows[i * _WIDTH + _R_BATCH] * _BATCH_WIDTH + _MAGIC] >= 2:
            # the attributes, one byte, lie between the length of the record and the delta
            target[i] = _varlong(b, _after_varint(b, rows[i * _WIDTH + _R_AT]) + 1)
