# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Kernel: proves that bytes are one Avro value of a schema, before anything makes objects of them.

Compiled by Cython when a compiler is there, interpreted with the same results when not. fastavro takes what no writer
writes: it counts back from the end of a union or an enum where an index is negative, lets an int have more than 32
bits, follows a schema that contains itself until the stack ends, and makes as many nulls as five bytes say. Here each
length, index and number is compared with what it may be, and depth and items are counted.

Contract. Trusted: the program is that of `kdump.decode.payload.avro`: each operand is the place of an operation, or a
count. Guaranteed: no byte outside [at, end) is read, and the stack has at most DEEPEST levels.
"""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from kdump.format.kernels import _cython as cython
if not cython.compiled:  # whether Cython is there or not: its own stand-ins are slow, and refuse some casts
    from kdump.format.kernels import _cython as cython

if cython.compiled:
    from cython.cimports.kdump.format.kernels import wire
else:
    from kdump.format.kernels import wire

# Operations, and what stands behind them in the program.
NULL = 0
BOOLEAN = 1
INT = 2
LONG = 3
FIXED = 4  # bytes; floats and doubles too
BYTES = 5  # strings too
ENUM = 6  # symbols
ARRAY = 7  # place of the items
MAP = 8  # place of the values
UNION = 9  # branches, place of each
RECORD = 10  # fields, place of each

# What is wrong, in the place of the end.
ENDS_INSIDE = -1
NUMBER = -2  # too many bits
NO_BOOLEAN = -3
NO_BRANCH = -4
NO_SYMBOL = -5
LENGTH = -6
BLOCK = -7  # items of a block do not fill its size
DEPTH = -8
ITEMS = -9

DEEPEST = 128  # containers in containers
MOST_EMPTY = 1_000_000  # items that have no bytes, in one value

_NULL = cython.declare(cython.longlong, NULL)
_BOOLEAN = cython.declare(cython.longlong, BOOLEAN)
_INT = cython.declare(cython.longlong, INT)
_LONG = cython.declare(cython.longlong, LONG)
_FIXED = cython.declare(cython.longlong, FIXED)
_BYTES = cython.declare(cython.longlong, BYTES)
_ENUM = cython.declare(cython.longlong, ENUM)
_ARRAY = cython.declare(cython.longlong, ARRAY)
_MAP = cython.declare(cython.longlong, MAP)
_RECORD = cython.declare(cython.longlong, RECORD)
_ENDS_INSIDE = cython.declare(cython.longlong, ENDS_INSIDE)
_NUMBER = cython.declare(cython.longlong, NUMBER)
_NO_BOOLEAN = cython.declare(cython.longlong, NO_BOOLEAN)
_NO_BRANCH = cython.declare(cython.longlong, NO_BRANCH)
_NO_SYMBOL = cython.declare(cython.longlong, NO_SYMBOL)
_LENGTH = cython.declare(cython.longlong, LENGTH)
_BLOCK = cython.declare(cython.longlong, BLOCK)
_DEPTH = cython.declare(cython.longlong, DEPTH)
_ITEMS = cython.declare(cython.longlong, ITEMS)
_DEEPEST = cython.declare(cython.longlong, DEEPEST)
_MOST_EMPTY = cython.declare(cython.longlong, MOST_EMPTY)
_LARGEST_LONG = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)
_LARGEST_INT = cython.declare(cython.longlong, 0x7FFFFFFF)
_LAST_OF_LONG = cython.declare(cython.longlong, 1)  # the tenth byte of a varint has one bit of 64


def is_compiled() -> bool:
    """Tell whether this kernel runs compiled."""
    return bool(cython.compiled)


@cython.cfunc
@cython.exceptval(check=False)
def _after_number(b: cython.p_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The place behind a number, or what is wrong with it."""
    after: cython.Py_ssize_t = wire.varint_end(b, at, end, wire.WIDEST_LONG)
    if after < 0:
        return _ENDS_INSIDE if after == wire.NO_END else _NUMBER
    return _NUMBER if after - at == wire.WIDEST_LONG and b[after - 1] > _LAST_OF_LONG else after


@cython.cfunc
@cython.exceptval(check=False)
def _after_bytes(b: cython.p_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The place behind bytes with their length, or what is wrong with them."""
    after: cython.Py_ssize_t = _after_number(b, at, end)
    size: cython.longlong
    if after < 0:
        return after
    size = wire.varlong(b, at, after)
    if size < 0:
        return _LENGTH
    return _ENDS_INSIDE if size > end - after else after + size


@cython.cfunc
@cython.exceptval(check=False)
def _after_items(
    program: cython.p_longlong,
    node: cython.longlong,
    b: cython.p_uchar,
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    depth: cython.Py_ssize_t,
    left: cython.p_longlong,
) -> cython.Py_ssize_t:
    """The place behind the blocks of an array or a map, or what is wrong with them."""
    after: cython.Py_ssize_t
    before: cython.Py_ssize_t
    until: cython.longlong
    count: cython.longlong
    while True:
        after = _after_number(b, at, end)
        if after < 0:
            return after
        count = wire.varlong(b, at, after)
        at = after
        if count == 0:
            return at
        until = -1
        if count < 0:  # then the size of the block follows
            if count == -_LARGEST_LONG - 1:
                return _LENGTH
            count = -count
            after = _after_number(b, at, end)
            if after < 0:
                return after
            until = wire.varlong(b, at, after)
            at = after
            if until < 0 or until > end - at:
                return _LENGTH
            until += at
        while count > 0:
            count -= 1
            before = at
            if program[node] == _MAP:
                at = _after_bytes(b, at, end)
                if at < 0:
                    return at
            at = _after_value(program, program[node + 1], b, at, end, depth + 1, left)
            if at < 0:
                return at
            if at == before:
                left[0] -= 1
                if left[0] < 0:
                    return _ITEMS
        if until >= 0 and at != until:
            return _BLOCK


@cython.cfunc
@cython.exceptval(check=False)
def _after_value(
    program: cython.p_longlong,
    node: cython.longlong,
    b: cython.p_uchar,
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    depth: cython.Py_ssize_t,
    left: cython.p_longlong,
) -> cython.Py_ssize_t:
    """The place behind one value, or what is wrong with it."""
    op: cython.longlong = program[node]
    after: cython.Py_ssize_t
    number: cython.longlong
    if op == _NULL:
        return at
    if op == _BOOLEAN:
        if at >= end:
            return _ENDS_INSIDE
        return at + 1 if b[at] <= 1 else _NO_BOOLEAN
    if op == _FIXED:
        return _ENDS_INSIDE if program[node + 1] > end - at else at + program[node + 1]
    if op == _BYTES:
        return _after_bytes(b, at, end)
    if op in (_ARRAY, _MAP, _RECORD):
        if depth >= _DEEPEST:
            return _DEPTH
        if op != _RECORD:
            return _after_items(program, node, b, at, end, depth, left)
        for number in range(program[node + 1]):
            at = _after_value(program, program[node + 2 + number], b, at, end, depth + 1, left)
            if at < 0:
                return at
        return at
    after = _after_number(b, at, end)
    if after < 0 or op == _LONG:
        return after
    number = wire.varlong(b, at, after)
    if op == _INT:
        return after if -_LARGEST_INT - 1 <= number <= _LARGEST_INT else _NUMBER
    if number < 0 or number >= program[node + 1]:
        return _NO_SYMBOL if op == _ENUM else _NO_BRANCH
    if op == _ENUM:
        return after
    return _after_value(program, program[node + 2 + number], b, after, end, depth, left)


def ends_of_values(
    program: cython.longlong[::1],
    view: cython.uchar[::1],
    places: cython.longlong[::1],
    n: cython.Py_ssize_t,
    ends: cython.longlong[::1],
    left: cython.longlong[::1],
) -> None:
    """Find the place behind each value, or, below 0, what is wrong with it.

    Args:
        program: of the schema; what it begins with is the value.
        view: the bytes; there is one at least.
        places: where each value begins, and at last where the last one ends: n + 1 places in order.
        n: how many values; 1 at least.
        ends: room for n places; overwritten.
        left: room for one number.
    """
    operations: cython.p_longlong
    b: cython.p_uchar
    at: cython.p_longlong
    out: cython.p_longlong
    items: cython.p_longlong
    k: cython.Py_ssize_t
    if cython.compiled:
        operations = cython.address(program[0])
        b = cython.address(view[0])
        at = cython.address(places[0])
        out = cython.address(ends[0])
        items = cython.address(left[0])
    else:
        operations, b, at, out, items = program, view, places, ends, left
    for k in range(n):
        items[0] = _MOST_EMPTY
        out[k] = _after_value(operations, 0, b, at[k], at[k + 1], 0, items)
