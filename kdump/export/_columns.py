# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Kernel: keys, values and headers of record rows into the buffers of Arrow arrays.

Compiled by Cython when a compiler is there, interpreted with the same results when not. Bits of a
validity bitmap are set for values that are not null; bitmaps come zeroed.

Contract. Trusted: record rows are those of `kdump.format.record._records` for the same buffer, and there is room for
what `field_bytes` and `header_room` have counted in them. Both walk headers within R_END by the decoder that checked
them, so they count what is then copied. Guaranteed: offsets are those of int32 where all rows together have at most
2^31-1 bytes, which `rows_within` sees to.
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
    total: cython.longlong = (
        rows[first * layout.RECORD_WIDTH + layout.R_END] - rows[first * layout.RECORD_WIDTH + layout.R_AT]
    )
    i: cython.Py_ssize_t = first + 1
    while i < n:
        total += rows[i * layout.RECORD_WIDTH + layout.R_END] - rows[i * layout.RECORD_WIDTH + layout.R_AT]
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
        if rows[i * layout.RECORD_WIDTH + size] > 0:
            total += rows[i * layout.RECORD_WIDTH + size]
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
        length = rows[i * layout.RECORD_WIDTH + size]
        if length < 0:
            nulls += 1
            continue
        bits[i >> 3] |= 1 << (i & 7)
        to = wire.copy(out, to, b, rows[i * layout.RECORD_WIDTH + place], length)
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
    after: cython.Py_ssize_t
    end: cython.Py_ssize_t
    size: cython.longlong
    for i in range(n):
        at = rows[i * layout.RECORD_WIDTH + layout.R_HEADERS_AT]
        end = rows[i * layout.RECORD_WIDTH + layout.R_END]
        for j in range(rows[i * layout.RECORD_WIDTH + layout.R_HEADER_COUNT]):
            headers += 1
            after = wire.after_varint(b, at, end)
            size = wire.size_within(b, at, after, end)
            if size > 0:
                keys += size
                after += size
            at = wire.after_varint(b, after, end)
            size = wire.size_within(b, after, at, end)
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
    after: cython.Py_ssize_t
    end: cython.Py_ssize_t
    size: cython.longlong
    for i in range(n):
        lists[i] = done
        at = rows[i * layout.RECORD_WIDTH + layout.R_HEADERS_AT]
        end = rows[i * layout.RECORD_WIDTH + layout.R_END]
        for j in range(rows[i * layout.RECORD_WIDTH + layout.R_HEADER_COUNT]):
            key_offsets[done] = key
            value_offsets[done] = value
            after = wire.after_varint(b, at, end)
            size = wire.size_within(b, at, after, end)
            if size > 0:
                key = wire.copy(to_keys, key, b, after, size)
                after += size
            at = wire.after_varint(b, after, end)
            size = wire.size_within(b, after, at, end)
            if size < 0:
                nulls += 1
            else:
                bits[done >> 3] |= 1 << (done & 7)
                value = wire.copy(to_values, value, b, at, size)
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
        target[i] = batches[rows[i * layout.RECORD_WIDTH + layout.R_BATCH] * layout.BATCH_WIDTH + column]
