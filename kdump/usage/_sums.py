# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Kernel: sums over batches and records, and over the records of each key or group, in tables of a fixed size.

Compiled by Cython when a compiler is there, interpreted with the same results when not.

Contract. Trusted: batch rows are those of the scan, record rows those of `kdump.format.record._records` for the same
buffer; the tables are made by `kdump.usage.key_sums`. Guaranteed: a record takes a bounded number of steps, whatever
its key: where a place in the table is too far away, what its name may miss is added to the error.
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

# The sums of a name.
NEVER = 2**63 - 1  # the first timestamp where there is none; the last one is -1 then
MOST_NAME = 1024 * 1024  # bytes; a row that tells of less than its key has so many (chunk.KEPT)
WEIGHT, BYTES, RECORDS, KEY_BYTES, VALUE_BYTES, UNCOMPRESSED, FIRST, LAST = range(8)
SUPERSEDED, SUPERSEDED_BYTES, BATCHES, WIDTH = range(8, 12)
_MOST_NAME = cython.declare(cython.Py_ssize_t, MOST_NAME)
_WEIGHT = cython.declare(cython.Py_ssize_t, WEIGHT)
_BYTES = cython.declare(cython.Py_ssize_t, BYTES)
_RECORDS = cython.declare(cython.Py_ssize_t, RECORDS)
_KEY_BYTES = cython.declare(cython.Py_ssize_t, KEY_BYTES)
_VALUE_BYTES = cython.declare(cython.Py_ssize_t, VALUE_BYTES)
_UNCOMPRESSED = cython.declare(cython.Py_ssize_t, UNCOMPRESSED)
_FIRST = cython.declare(cython.Py_ssize_t, FIRST)
_LAST = cython.declare(cython.Py_ssize_t, LAST)
_SUPERSEDED = cython.declare(cython.Py_ssize_t, SUPERSEDED)
_SUPERSEDED_BYTES = cython.declare(cython.Py_ssize_t, SUPERSEDED_BYTES)
_BATCHES = cython.declare(cython.Py_ssize_t, BATCHES)
_WIDTH = cython.declare(cython.Py_ssize_t, WIDTH)

# An entry of a table: where its name is, and its sums.
HASH, AT, SIZE, SUMS = range(4)
ENTRY = SUMS + WIDTH
_HASH = cython.declare(cython.Py_ssize_t, HASH)
_AT = cython.declare(cython.Py_ssize_t, AT)
_SIZE = cython.declare(cython.Py_ssize_t, SIZE)
_SUMS = cython.declare(cython.Py_ssize_t, SUMS)
_ENTRY = cython.declare(cython.Py_ssize_t, ENTRY)

# What a table holds.
COUNT, USED, ERROR, STATE = range(4)  # entries; bytes of names; bytes that a weight may miss
_COUNT = cython.declare(cython.Py_ssize_t, COUNT)
_USED = cython.declare(cython.Py_ssize_t, USED)
_ERROR = cython.declare(cython.Py_ssize_t, ERROR)

# How names are made of keys.
OF_KEYS, OF_GROUPS, KNOWN_ONLY = 0, 1, 2
_OF_GROUPS = cython.declare(cython.longlong, OF_GROUPS)
_KNOWN_ONLY = cython.declare(cython.longlong, KNOWN_ONLY)

# How fast something grows.
T_BYTES, T_FIRST, T_LAST, T_ASIDE, T_WIDTH = range(5)
_T_BYTES = cython.declare(cython.Py_ssize_t, T_BYTES)
_T_FIRST = cython.declare(cython.Py_ssize_t, T_FIRST)
_T_LAST = cython.declare(cython.Py_ssize_t, T_LAST)
_T_ASIDE = cython.declare(cython.Py_ssize_t, T_ASIDE)

_NEVER = cython.declare(cython.longlong, NEVER)
_PROBES = cython.declare(cython.Py_ssize_t, 64)
_PRIME = cython.declare(cython.ulonglong, 1099511628211)
_SEED = cython.declare(cython.ulonglong, 14695981039346656037)
_ALL = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
_FAR = cython.declare(cython.Py_ssize_t, -2)


def is_compiled() -> bool:
    """Tell whether this kernel runs compiled."""
    return bool(cython.compiled)


def headers(
    rows: cython.longlong[::1],
    n: cython.Py_ssize_t,
    oldest: cython.longlong,
    latest: cython.longlong,
    sums: cython.longlong[::1],
    timed: cython.longlong[::1],
) -> int:
    """Add up what headers say; a batch whose CRC is wrong counts as a batch, and its times are not believed.

    Args:
        rows: of batches.
        n: how many.
        oldest, latest: timestamps that make sense, ms.
        sums: WIDTH numbers, changed.
        timed: T_WIDTH numbers, changed.

    Returns:
        the records of the batches.
    """
    k: cython.Py_ssize_t
    c: cython.Py_ssize_t
    first: cython.longlong
    last: cython.longlong
    count: cython.longlong
    records: cython.longlong = 0
    for k in range(n):
        c = k * layout.BATCH_WIDTH
        count = rows[c + layout.COUNT]
        if rows[c + layout.MAGIC] < layout.MAGIC_V2:
            count = 1  # a message; of a wrapper nobody knows more before it is decompressed
        if count > 0:
            records += count
        if rows[c + layout.CRC] != rows[c + layout.COMPUTED_CRC]:
            continue
        first = rows[c + layout.BASE_TIMESTAMP]
        last = rows[c + layout.MAX_TIMESTAMP]
        if first < 0:
            first = last
        if 0 <= first < sums[_FIRST]:
            sums[_FIRST] = first
        if last >= 0 and last > sums[_LAST]:
            sums[_LAST] = last
        if oldest <= last <= latest:
            timed[_T_BYTES] += rows[c + layout.SIZE]
            if last < timed[_T_FIRST]:
                timed[_T_FIRST] = last
            if last > timed[_T_LAST]:
                timed[_T_LAST] = last
        else:
            timed[_T_ASIDE] += 1
    sums[_BATCHES] += n
    sums[_RECORDS] += records
    return records


def records(
    rows: cython.longlong[::1],
    n: cython.Py_ssize_t,
    keep: cython.const[cython.uchar][::1],
    judged: cython.bint,
    sums: cython.longlong[::1],
) -> None:
    """Add up the sizes of keys, values and records, and of those that a newer one replaces.

    Args:
        rows: of records.
        n: how many.
        keep: 0 for each record that a newer one replaces, if that was asked.
        judged: it was asked.
        sums: WIDTH numbers, changed.
    """
    i: cython.Py_ssize_t
    r: cython.Py_ssize_t
    size: cython.longlong
    for i in range(n):
        r = i * layout.RECORD_WIDTH
        size = rows[r + layout.R_END] - rows[r + layout.R_AT]
        sums[_UNCOMPRESSED] += size
        if rows[r + layout.R_KEY_SIZE] > 0:
            sums[_KEY_BYTES] += rows[r + layout.R_KEY_SIZE]
        if rows[r + layout.R_VALUE_SIZE] > 0:
            sums[_VALUE_BYTES] += rows[r + layout.R_VALUE_SIZE]
        if judged and keep[i] == 0 and rows[r + layout.R_KEY_SIZE] >= 0:
            sums[_SUPERSEDED] += 1
            sums[_SUPERSEDED_BYTES] += size


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _hash(b: cython.p_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.longlong:
    """A number of some bytes, from 0 on. Source: FNV-1a, its halves folded."""
    h: cython.ulonglong = _SEED
    i: cython.Py_ssize_t
    for i in range(at, at + size):
        h = ((h ^ b[i]) * _PRIME) & _ALL
    h ^= h >> 32
    return cython.cast(cython.longlong, h & 0x7FFFFFFFFFFFFFFF)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _same(
    a: cython.p_uchar, at: cython.Py_ssize_t, b: cython.p_uchar, there: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> cython.bint:
    i: cython.Py_ssize_t
    for i in range(size):
        if a[at + i] != b[there + i]:
            return False
    return True


@cython.cfunc
@cython.exceptval(check=False)
def _find(
    b: cython.p_uchar,
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    h: cython.longlong,
    index: cython.p_longlong,
    mask: cython.longlong,
    entries: cython.p_longlong,
    names: cython.p_uchar,
) -> cython.Py_ssize_t:
    """The place of a name in the index: where it is, or the empty one where it belongs; -2 when that is too far."""
    place: cython.Py_ssize_t = h & mask
    e: cython.Py_ssize_t
    tries: cython.Py_ssize_t
    for tries in range(_PROBES):
        e = index[place]
        if e == 0:
            return place
        e = (e - 1) * _ENTRY
        if entries[e + _HASH] == h and entries[e + _SIZE] == size and _same(b, at, names, entries[e + _AT], size):
            return place
        place = (place + 1) & mask
    return _FAR


@cython.cfunc
@cython.exceptval(check=False)
def _enter(
    b: cython.p_uchar,
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    h: cython.longlong,
    index: cython.p_longlong,
    place: cython.Py_ssize_t,
    entries: cython.p_longlong,
    names: cython.p_uchar,
    state: cython.longlong[::1],
) -> cython.Py_ssize_t:
    """Begin the entry of a name at an empty place of the index; there is room. Its sums are the caller's business."""
    e: cython.Py_ssize_t = state[_COUNT] * _ENTRY
    i: cython.Py_ssize_t
    state[_COUNT] += 1
    index[place] = state[_COUNT]
    entries[e + _HASH] = h
    entries[e + _AT] = state[_USED]
    entries[e + _SIZE] = size
    for i in range(size):
        names[state[_USED] + i] = b[at + i]
    state[_USED] += size
    return e


def by_name(
    view: cython.const[cython.uchar][::1],
    rows: cython.longlong[::1],
    start: cython.Py_ssize_t,
    n: cython.Py_ssize_t,
    batches: cython.longlong[::1],
    keep: cython.const[cython.uchar][::1],
    judged: cython.bint,
    mode: cython.longlong,
    index: cython.longlong[::1],
    entries: cython.longlong[::1],
    names: cython.uchar[::1],
    state: cython.longlong[::1],
) -> int:
    """Add records to the sums of their keys, or of the groups of these, until the table is full.

    Args:
        view: the buffer that the rows point into.
        rows: of records.
        start, n: those of them that count, half-open.
        batches: rows of their batches.
        keep: 0 for each record that a newer one replaces, if that was asked.
        judged: it was asked.
        mode: OF_KEYS or OF_GROUPS, and KNOWN_ONLY: no name comes in that is not there.
        index: numbers of entries from 1 on, 0 for none; a power of two of them.
        entries: ENTRY numbers each.
        names: the bytes of the names.
        state: STATE numbers, changed.

    Of a key that is longer than MOST_NAME the first bytes are its name; no more of it is read.

    Returns:
        the row that the table was full at, `n` when it was not.

    Source: org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde: each key begins with version and group.
    """
    b: cython.p_uchar
    row: cython.p_longlong
    x: cython.p_longlong
    t: cython.p_longlong
    a: cython.p_uchar
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    r: cython.Py_ssize_t
    e: cython.Py_ssize_t
    at: cython.Py_ssize_t
    size: cython.Py_ssize_t
    place: cython.Py_ssize_t
    content: cython.longlong
    whole: cython.longlong
    time: cython.longlong
    attributes: cython.longlong
    h: cython.longlong
    mask: cython.longlong = len(index) - 1
    most: cython.longlong = len(entries) // _ENTRY
    room: cython.longlong = len(names)
    groups: cython.bint = (mode & _OF_GROUPS) != 0
    known: cython.bint = (mode & _KNOWN_ONLY) != 0
    if start >= n:
        return n
    if cython.compiled:
        b = cython.cast(cython.p_uchar, cython.address(view[0]))
        row = cython.address(rows[0])
        x = cython.address(index[0])
        t = cython.address(entries[0])
        a = cython.address(names[0])
    else:
        b = view
        row = rows
        x = index
        t = entries
        a = names
    for i in range(start, n):
        r = i * layout.RECORD_WIDTH
        size = min(row[r + layout.R_KEY_SIZE], _MOST_NAME)
        attributes = batches[row[r + layout.R_BATCH] * layout.BATCH_WIDTH + layout.ATTRIBUTES]
        if size < 0 or attributes & layout.CONTROL_FLAG:
            continue
        at = row[r + layout.R_KEY_AT]
        if groups:
            if size < 4 or b[at] != 0 or b[at + 2] > 127:
                continue
            j = b[at + 2] * 256 + b[at + 3]
            if size < 4 + j:
                continue
            at += 4
            size = j
        whole = row[r + layout.R_END] - row[r + layout.R_AT]
        content = row[r + layout.R_KEY_SIZE]
        if row[r + layout.R_VALUE_SIZE] > 0:
            content += row[r + layout.R_VALUE_SIZE]
        h = _hash(b, at, size)
        place = _find(b, at, size, h, x, mask, t, a)
        if place == _FAR:
            if not known:
                state[_ERROR] += content
            continue
        if x[place] == 0:
            if known:
                continue
            if state[_COUNT] >= most or state[_USED] + size > room:
                return i
            e = _enter(b, at, size, h, x, place, t, a, state)
            for j in range(_WIDTH):
                t[e + _SUMS + j] = 0
            t[e + _SUMS + _FIRST] = _NEVER
            t[e + _SUMS + _LAST] = -1
        else:
            e = (x[place] - 1) * _ENTRY
        e += _SUMS
        t[e + _WEIGHT] += content
        if attributes & layout.CODEC_MASK == 0:
            t[e + _BYTES] += whole
        t[e + _RECORDS] += 1
        t[e + _KEY_BYTES] += row[r + layout.R_KEY_SIZE]
        t[e + _VALUE_BYTES] += content - row[r + layout.R_KEY_SIZE]
        t[e + _UNCOMPRESSED] += whole
        time = row[r + layout.R_TIMESTAMP]
        if 0 <= time < t[e + _FIRST]:
            t[e + _FIRST] = time
        if time > t[e + _LAST]:
            t[e + _LAST] = time
        if judged and keep[i] == 0:
            t[e + _SUPERSEDED] += 1
            t[e + _SUPERSEDED_BYTES] += whole
    return n


def join(
    start: cython.Py_ssize_t,
    n: cython.Py_ssize_t,
    others: cython.longlong[::1],
    other_names: cython.const[cython.uchar][::1],
    index: cython.longlong[::1],
    entries: cython.longlong[::1],
    names: cython.uchar[::1],
    state: cython.longlong[::1],
) -> int:
    """Add the entries of another table to one, until that is full.

    Args:
        start, n: entries of the other table that count, half-open.
        others, other_names: of the other table.
        index, entries, names, state: of the one.

    Returns:
        the entry that the table was full at, `n` when it was not.
    """
    b: cython.p_uchar
    o: cython.p_longlong
    x: cython.p_longlong
    t: cython.p_longlong
    a: cython.p_uchar
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    c: cython.Py_ssize_t
    e: cython.Py_ssize_t
    size: cython.Py_ssize_t
    place: cython.Py_ssize_t
    mask: cython.longlong = len(index) - 1
    most: cython.longlong = len(entries) // _ENTRY
    room: cython.longlong = len(names)
    if start >= n:
        return n
    if cython.compiled:
        b = cython.cast(cython.p_uchar, cython.address(other_names[0]))
        o = cython.address(others[0])
        x = cython.address(index[0])
        t = cython.address(entries[0])
        a = cython.address(names[0])
    else:
        b = other_names
        o = others
        x = index
        t = entries
        a = names
    for i in range(start, n):
        c = i * _ENTRY
        size = o[c + _SIZE]
        place = _find(b, o[c + _AT], size, o[c + _HASH], x, mask, t, a)
        if place == _FAR:
            state[_ERROR] += o[c + _SUMS + _WEIGHT]
            continue
        if x[place] == 0:
            if state[_COUNT] >= most or state[_USED] + size > room:
                return i
            e = _enter(b, o[c + _AT], size, o[c + _HASH], x, place, t, a, state)
            for j in range(_SUMS, _ENTRY):
                t[e + j] = o[c + j]
            continue
        e = (x[place] - 1) * _ENTRY + _SUMS
        c += _SUMS
        for j in range(_WIDTH):
            if j == _FIRST:
                if o[c + j] < t[e + j]:
                    t[e + j] = o[c + j]
            elif j == _LAST:
                if o[c + j] > t[e + j]:
                    t[e + j] = o[c + j]
            else:
                t[e + j] += o[c + j]
    return n


def lower(
    lost: cython.longlong,
    index: cython.longlong[::1],
    entries: cython.longlong[::1],
    names: cython.uchar[::1],
    state: cython.longlong[::1],
) -> None:
    """Take a weight from every entry, and let go of those that have nothing left.

    Args:
        lost: bytes.
        index, entries, names, state: of the table.

    Source: Misra and Gries, Finding repeated elements (1982).
    """
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    c: cython.Py_ssize_t
    e: cython.Py_ssize_t
    count: cython.Py_ssize_t = state[_COUNT]
    kept: cython.Py_ssize_t = 0
    used: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t
    place: cython.Py_ssize_t
    tries: cython.Py_ssize_t
    mask: cython.longlong = len(index) - 1
    for i in range(len(index)):
        index[i] = 0
    for i in range(count):
        c = i * _ENTRY
        if entries[c + _SUMS + _WEIGHT] <= lost:
            continue
        entries[c + _SUMS + _WEIGHT] -= lost
        e = kept * _ENTRY
        kept += 1
        at = entries[c + _AT]
        for j in range(_ENTRY):
            entries[e + j] = entries[c + j]
        place = entries[e + _HASH] & mask
        tries = 0
        while index[place] != 0 and tries < _PROBES:
            place = (place + 1) & mask
            tries += 1
        if tries >= _PROBES:  # nobody would find it there
            state[_ERROR] += entries[e + _SUMS + _WEIGHT]
            kept -= 1
            continue
        for j in range(entries[e + _SIZE]):  # names lie in the order of their entries: what is read was not written
            names[used + j] = names[at + j]
        entries[e + _AT] = used
        used += entries[e + _SIZE]
        index[place] = kept
    state[_COUNT] = kept
    state[_USED] = used
    state[_ERROR] = wire.add(state[_ERROR], lost)
