# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Kernel: common messages of internal topics to Kafka's JSON, by programs made from the table.

Compiled by Cython when a compiler is there, interpreted with the same results when not. It reads what is whole, has no
byte left over and only ASCII text; for everything else it answers None, and the general reader (`kdump.decode.schema`)
says what that is. So there is one place that knows what damage looks like, and it is not this one.

Contract. Trusted: the program and its literals, made by `kdump.decode.fast_compile`. The message is trusted in nothing:
each length is compared with the bytes that are left before it is used, and room is asked for before it is written to.
Depth of recursion is that of the program.
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

# A program is rows of WIDTH numbers. A row of a struct: STRUCT, row of its first field, number of fields, row of its
# first tag, number of tags, whether a tag section follows. A row of a field or a tag: what it is, place and size of its
# quoted name with the colon (in the literals), whether it may be null, whether lengths are varints, row of the struct
# or of the items, and of a tag the place and size of its default, and its number. The value of TAGGED_STRUCT is null,
# or not usual. EMBEDDED are bytes with a message in them: the row of version 0, with the rows of the others behind it,
# and how many there are.
WIDTH = 9
STRUCT = 0
BOOL, INT8, INT16, UINT16, INT32, UINT32, INT64, UUID, STRING, BYTES, ARRAY, TAGGED_STRUCT, EMBEDDED = range(1, 14)

_WIDTH = cython.declare(cython.Py_ssize_t, WIDTH)
_STRUCT = cython.declare(cython.longlong, STRUCT)
_BOOL = cython.declare(cython.longlong, BOOL)
_INT8 = cython.declare(cython.longlong, INT8)
_INT16 = cython.declare(cython.longlong, INT16)
_UINT16 = cython.declare(cython.longlong, UINT16)
_INT32 = cython.declare(cython.longlong, INT32)
_UINT32 = cython.declare(cython.longlong, UINT32)
_INT64 = cython.declare(cython.longlong, INT64)
_UUID = cython.declare(cython.longlong, UUID)
_STRING = cython.declare(cython.longlong, STRING)
_BYTES = cython.declare(cython.longlong, BYTES)
_ARRAY = cython.declare(cython.longlong, ARRAY)
_TAGGED_STRUCT = cython.declare(cython.longlong, TAGGED_STRUCT)
_EMBEDDED = cython.declare(cython.longlong, EMBEDDED)
_LONGEST_STRING = cython.declare(cython.longlong, 0x7FFF)
_MOST_NUMBER = cython.declare(cython.Py_ssize_t, 24)  # more characters than any number or uuid has


def is_compiled() -> bool:
    """Tell whether this kernel runs compiled."""
    return bool(cython.compiled)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _null(out: cython.p_uchar, at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    out[at] = 110
    out[at + 1] = 117
    out[at + 2] = out[at + 3] = 108
    return at + 4


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _signed(b: cython.p_uchar, at: cython.Py_ssize_t, n: cython.Py_ssize_t) -> cython.longlong:
    """A big-endian number of 1, 2, 4 or 8 bytes."""
    if n == 8:
        return wire.i64(b, at)
    if n == 4:
        return wire.i32(b, at)
    if n == 2:
        return wire.i16(b, at)
    return b[at] - 0x100 if b[at] > 0x7F else b[at]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _uvarint(b: cython.p_uchar, stop: cython.Py_ssize_t, state: cython.p_longlong) -> cython.longlong:
    """The unsigned varint in hand, at most 2^31-1; -1 for others, and where there is none."""
    at: cython.Py_ssize_t = state[0]
    after: cython.Py_ssize_t = wire.varint_end(b, at, stop, wire.WIDEST_INT)
    value: cython.longlong
    if after < 0:
        return -1
    state[0] = after
    value = wire.uvarint(b, at, after)
    return value if value <= 0x7FFFFFFF else -1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _length(
    b: cython.p_uchar,
    stop: cython.Py_ssize_t,
    state: cython.p_longlong,
    flexible: cython.longlong,
    fixed: cython.Py_ssize_t,
) -> cython.longlong:
    """A length: -1 for null, -2 where there is none."""
    value: cython.longlong
    if flexible:
        value = _uvarint(b, stop, state)
        return value - 1 if value >= 0 else -2
    if state[0] + fixed > stop:
        return -2
    value = _signed(b, state[0], fixed)
    state[0] += fixed
    return value if value >= 0 else -1


@cython.cfunc
@cython.exceptval(check=False)
def _string(
    out: cython.p_uchar, at: cython.Py_ssize_t, b: cython.p_uchar, start: cython.Py_ssize_t, n: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Append n bytes of ASCII text between quotes; -1 for other text."""
    i: cython.Py_ssize_t
    odd: cython.uchar = 0
    out[at] = 34
    at += 1
    for i in range(start, start + n):
        odd |= (b[i] < 0x20) | (b[i] > 0x7E) | (b[i] == 34) | (b[i] == 92)
    if odd == 0:
        at = wire.copy(out, at, b, start, n)
    else:
        for i in range(start, start + n):
            if b[i] < 0x20 or b[i] > 0x7E:
                return -1
            if b[i] == 34 or b[i] == 92:
                out[at] = 92
                at += 1
            out[at] = b[i]
            at += 1
    out[at] = 34
    return at + 1


@cython.cfunc
@cython.exceptval(check=False)
def _base64(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    b: cython.p_uchar,
    start: cython.Py_ssize_t,
    n: cython.Py_ssize_t,
    letters: cython.p_char,
    padded: cython.bint,
) -> cython.Py_ssize_t:
    """Append n bytes as Base64 between quotes."""
    out[at] = 34
    at = wire.put_base64(out, at + 1, b, start, n, letters, padded)
    out[at] = 34
    return at + 1


@cython.cfunc
@cython.exceptval(check=False)
def _size_of(kind: cython.longlong) -> cython.Py_ssize_t:
    """Bytes of a number."""
    if kind <= _INT8:
        return 1
    if kind <= _UINT16:
        return 2
    return 4 if kind <= _UINT32 else 8


@cython.cfunc
@cython.exceptval(check=False)
def _number(
    out: cython.p_uchar, at: cython.Py_ssize_t, b: cython.p_uchar, start: cython.Py_ssize_t, kind: cython.longlong
) -> cython.Py_ssize_t:
    """Append a number or truth value."""
    value: cython.longlong
    if kind == _BOOL:
        if b[start]:
            out[at] = 116
            out[at + 1] = 114
            out[at + 2] = 117
        else:
            out[at] = 102
            out[at + 1] = 97
            out[at + 2] = 108
            out[at + 3] = 115
            at += 1
        out[at + 3] = 101
        return at + 4
    value = _signed(b, start, _size_of(kind))
    if value < 0:
        if kind == _UINT16:
            value += 0x10000
        elif kind == _UINT32:
            value = wire.u32(b, start)
    return wire.put_int(out, at, value)


@cython.cfunc
@cython.exceptval(check=False)
def _value(
    p: cython.p_longlong,
    row: cython.Py_ssize_t,
    literals: cython.p_uchar,
    b: cython.p_uchar,
    stop: cython.Py_ssize_t,
    state: cython.p_longlong,
    out: cython.p_uchar,
    room: cython.Py_ssize_t,
) -> cython.bint:
    """Append the value of a field; False where it is not usual, or there is no room."""
    c: cython.Py_ssize_t = row * _WIDTH
    kind: cython.longlong = p[c]
    n: cython.longlong
    i: cython.longlong
    end: cython.longlong
    if state[1] + _MOST_NUMBER + 2 > room:
        return False
    if kind == _STRUCT:
        if p[c + 3]:
            if state[0] >= stop:
                return False
            state[0] += 1
            if b[state[0] - 1] > 0x7F:
                state[1] = _null(out, state[1])
                return True
        return _struct(p, p[c + 5], literals, b, stop, state, out, room)
    if kind <= _INT64:
        end = state[0] + _size_of(kind)
        if end > stop:
            return False
        state[1] = _number(out, state[1], b, state[0], kind)
        state[0] = end
        return True
    if kind == _UUID:
        if state[0] + 16 > stop:
            return False
        state[1] = _base64(out, state[1], b, state[0], 16, wire.URL_SAFE, False)
        state[0] += 16
        return True
    if kind == _TAGGED_STRUCT:
        if state[0] >= stop or b[state[0]] != 0:
            return False
        state[0] += 1
        state[1] = _null(out, state[1])
        return True
    n = _length(b, stop, state, p[c + 4], 2 if kind == _STRING else 4)
    if n == -1 and p[c + 3]:
        state[1] = _null(out, state[1])
        return True
    if n < 0 or n > stop - state[0]:
        return False
    if kind == _ARRAY:
        out[state[1]] = 91
        state[1] += 1
        for i in range(n):
            if i > 0:
                out[state[1]] = 44
                state[1] += 1
            if not _value(p, p[c + 5], literals, b, stop, state, out, room):
                return False
        if state[1] + 2 > room:
            return False
        out[state[1]] = 93
        state[1] += 1
        return True
    if kind == _EMBEDDED:
        end = state[0] + n
        if n < 2 or b[state[0]] != 0 or b[state[0] + 1] >= p[c + 6]:
            return False
        i = p[c + 5] + b[state[0] + 1]
        state[0] += 2
        if not _struct(p, p[i * _WIDTH + 5], literals, b, end, state, out, room):
            return False
        state[0] = end  # bytes left over in there are nobody's business
        return True
    if state[1] + 2 * n + 8 > room:
        return False
    if kind == _STRING:
        if n > _LONGEST_STRING:
            return False
        end = _string(out, state[1], b, state[0], n)
        if end < 0:
            return False
        state[1] = end
    else:
        state[1] = _base64(out, state[1], b, state[0], n, wire.BASE64, True)
    state[0] += n
    return True


@cython.cfunc
@cython.exceptval(check=False)
def _struct(
    p: cython.p_longlong,
    row: cython.Py_ssize_t,
    literals: cython.p_uchar,
    b: cython.p_uchar,
    stop: cython.Py_ssize_t,
    state: cython.p_longlong,
    out: cython.p_uchar,
    room: cython.Py_ssize_t,
) -> cython.bint:
    """Append a struct; False where it is not usual, or there is no room."""
    c: cython.Py_ssize_t = row * _WIDTH
    first: cython.Py_ssize_t = p[c + 1]
    count: cython.Py_ssize_t = p[c + 2]
    i: cython.Py_ssize_t
    f: cython.Py_ssize_t
    opened: cython.Py_ssize_t = state[1]
    if opened + 2 > room:
        return False
    out[opened] = 123
    state[1] += 1
    for i in range(first, first + count):
        f = i * _WIDTH
        if state[1] + p[f + 2] + 4 > room:
            return False
        if i > first:
            out[state[1]] = 44
            state[1] += 1
        state[1] = wire.copy(out, state[1], literals, p[f + 1], p[f + 2])
        if not _value(p, i, literals, b, stop, state, out, room):
            return False
    if p[c + 5]:
        if state[0] >= stop:
            return False
        if b[state[0]] == 0:
            state[0] += 1
        elif not _tags(p, c, opened + 1, literals, b, stop, state, out, room):
            return False
    if state[1] + 2 > room:
        return False
    out[state[1]] = 125
    state[1] += 1
    return True


@cython.cfunc
@cython.exceptval(check=False)
def _tags(
    p: cython.p_longlong,
    c: cython.Py_ssize_t,
    empty: cython.longlong,
    literals: cython.p_uchar,
    b: cython.p_uchar,
    stop: cython.Py_ssize_t,
    state: cython.p_longlong,
    out: cython.p_uchar,
    room: cython.Py_ssize_t,
) -> cython.bint:
    """Append the tagged fields of a struct, but those that have their default."""
    i: cython.Py_ssize_t
    next_row: cython.Py_ssize_t = p[c + 3]
    last: cython.Py_ssize_t = next_row + p[c + 4]
    f: cython.Py_ssize_t
    start: cython.longlong
    text: cython.longlong
    n: cython.longlong
    tag: cython.longlong
    left: cython.longlong = _uvarint(b, stop, state)
    if left < 0:
        return False
    while left > 0:
        left -= 1
        tag = _uvarint(b, stop, state)
        if tag < 0 or _uvarint(b, stop, state) < 0:
            return False
        i = next_row  # a tag that was declared before one that we had is not usual
        while i < last and p[i * _WIDTH + 8] != tag:
            i += 1
        if i == last:
            return False
        f = i * _WIDTH
        start = state[1]
        if start + p[f + 2] + 4 > room:
            return False
        if start > empty:
            out[start] = 44
            state[1] += 1
        state[1] = text = wire.copy(out, state[1], literals, p[f + 1], p[f + 2])
        if not _value(p, i, literals, b, stop, state, out, room):
            return False
        n = state[1] - text
        if n == p[f + 7] and wire.same(out, text, literals, p[f + 6], n):
            state[1] = start
        next_row = i + 1
    return True


def read(
    program: cython.longlong[::1],
    literals: bytes,
    data: bytes,
    at: cython.Py_ssize_t,
    head: bytes,
    target: cython.uchar[::1],
    state: cython.longlong[::1],
) -> bytes | None:
    """Return the JSON of a message, as Kafka prints it, with something before it and a brace behind.

    Args:
        program: rows of WIDTH numbers; the first is the struct that is the message.
        literals: names and defaults.
        data: the bytes of the key or value.
        at: where the message begins in them.
        head: what comes before the message.
        target: room for the text.
        state: room for two numbers.

    Returns:
        the text; None where the general reader has to look: something is not usual, or there is no room.
    """
    b: cython.p_uchar
    p: cython.p_longlong
    s: cython.p_longlong
    lit: cython.p_uchar
    out: cython.p_uchar
    stop: cython.Py_ssize_t = len(data)
    size: cython.Py_ssize_t = len(head)
    room: cython.Py_ssize_t = len(target)
    if cython.compiled:
        b = cython.cast(cython.p_uchar, cython.cast(cython.p_char, data))
        lit = cython.cast(cython.p_uchar, cython.cast(cython.p_char, literals))
        p = cython.address(program[0])
        s = cython.address(state[0])
        out = cython.address(target[0])
    else:
        b = data
        lit = literals
        p = program
        s = state
        out = target
    if size + 2 > room:
        return None
    wire.put(out, 0, head, size)
    s[0] = at
    s[1] = size
    if not _struct(p, 0, lit, b, stop, s, out, room) or s[0] != stop or s[1] >= room:
        return None
    out[s[1]] = 125
    size = s[1] + 1
    if cython.compiled:
        return cython.cast(cython.p_char, out)[:size]
    return bytes(out[:size])
