# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Kernel: the records of a cleaner pass: its offset map, the retained records, and the rewritten batches.

Compiled by Cython when a compiler is there, interpreted with the same results when not.

Contract. Trusted: record rows are those of `kdump.format.record._records` for the same buffer, batch rows those of a
scan of the window, and R_BATCH is below the lengths of `flags` and `stats`. Guaranteed: no more is written than there
is room for, as a record grows by at most _GROWTH bytes over [R_AT, R_END); a value that overran its message is never
copied (`unreadable` finds it). Differences of offsets and times wrap as Java's int and long do.

MD5 is written out here: one key costs 330 ns in the map, and 380 ns through hashlib before anything is looked up.
"""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from kdump.format.kernels import _cython as cython
if not cython.compiled:  # whether Cython is there or not: its own stand-ins are slow, and refuse some casts
    from kdump.format.kernels import _cython as cython

import hashlib
from array import array

if cython.compiled:
    from cython.cimports.kdump.format.batch import layout
    from cython.cimports.kdump.format.kernels import wire
else:
    from kdump.format.batch import layout
    from kdump.format.kernels import wire


_GROWTH = cython.declare(cython.Py_ssize_t, 28)  # bytes by which a record grows at most: its numbers are written again
_TRIES = cython.declare(cython.Py_ssize_t, 8)
_ATTRIBUTES_KEPT = cython.declare(cython.longlong, 0x3F)  # codec, timestamp type, transactional, control
_SHIFTS = array("q", [7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21])
_SINES = array(
    "q",
    [
        0xD76AA478, 0xE8C7B756, 0x242070DB, 0xC1BDCEEE, 0xF57C0FAF, 0x4787C62A, 0xA8304613, 0xFD469501,
        0x698098D8, 0x8B44F7AF, 0xFFFF5BB1, 0x895CD7BE, 0x6B901122, 0xFD987193, 0xA679438E, 0x49B40821,
        0xF61E2562, 0xC040B340, 0x265E5A51, 0xE9B6C7AA, 0xD62F105D, 0x02441453, 0xD8A1E681, 0xE7D3FBC8,
        0x21E1CDE6, 0xC33707D6, 0xF4D50D87, 0x455A14ED, 0xA9E3E905, 0xFCEFA3F8, 0x676F02D9, 0x8D2A4C8A,
        0xFFFA3942, 0x8771F681, 0x6D9D6122, 0xFDE5380C, 0xA4BEEA44, 0x4BDECFA9, 0xF6BB4B60, 0xBEBFBC70,
        0x289B7EC6, 0xEAA127FA, 0xD4EF3085, 0x04881D05, 0xD9D4D039, 0xE6DB99E5, 0x1FA27CF8, 0xC4AC5665,
        0xF4292244, 0x432AFF97, 0xAB9423A7, 0xFC93A039, 0x655B59C3, 0x8F0CCC92, 0xFFEFF47D, 0x85845DD1,
        0x6FA87E4F, 0xFE2CE6E0, 0xA3014314, 0x4E0811A1, 0xF7537E82, 0xBD3AF235, 0x2AD7D2BB, 0xEB86D391,
    ],
)  # fmt: skip


def is_compiled() -> bool:
    """Tell whether this kernel runs compiled."""
    return bool(cython.compiled)


@cython.cfunc
@cython.exceptval(check=False)
def _md5_block(b: cython.p_uchar, at: cython.Py_ssize_t, h: cython.p_uint) -> None:
    """Take 64 bytes into the four words of a digest. Source: RFC 1321."""
    sines: cython.longlong[::1] = _SINES
    shifts: cython.longlong[::1] = _SHIFTS
    words = cython.declare(cython.uint[16])
    i: cython.Py_ssize_t
    g: cython.Py_ssize_t
    a: cython.uint = h[0]
    c: cython.uint = h[2]
    d: cython.uint = h[3]
    e: cython.uint = h[1]
    f: cython.uint
    s: cython.uint
    for i in range(16):
        f = b[at + 4 * i + 3]
        f = f << 24 | b[at + 4 * i + 2] << 16 | b[at + 4 * i + 1] << 8 | b[at + 4 * i]
        words[i] = f
    for i in range(64):
        if i < 16:
            f = (e & c) | (~e & d)
            g = i
        elif i < 32:
            f = (d & e) | (~d & c)
            g = (5 * i + 1) & 15
        elif i < 48:
            f = e ^ c ^ d
            g = (3 * i + 5) & 15
        else:
            f = c ^ (e | ~d)
            g = (7 * i) & 15
        f = f + a + cython.cast(cython.uint, sines[i]) + words[g]
        s = cython.cast(cython.uint, shifts[(i >> 4) * 4 + (i & 3)])
        a = d
        d = c
        c = e
        e = e + (f << s | f >> (32 - s))
    h[0] += a
    h[1] += e
    h[2] += c
    h[3] += d


@cython.cfunc
@cython.exceptval(check=False)
def _md5(b: cython.p_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t, digest: cython.p_longlong) -> None:
    """Put the MD5 of some bytes into two numbers."""
    h = cython.declare(cython.uint[4])
    last = cython.declare(cython.uchar[128])
    done: cython.Py_ssize_t = 0
    rest: cython.Py_ssize_t
    i: cython.Py_ssize_t
    bits: cython.ulonglong = 8 * cython.cast(cython.ulonglong, size)
    h[0] = 0x67452301
    h[1] = 0xEFCDAB89
    h[2] = 0x98BADCFE
    h[3] = 0x10325476
    while size - done >= 64:
        _md5_block(b, at + done, cython.address(h[0]))
        done += 64
    rest = size - done
    for i in range(128):
        last[i] = 0
    for i in range(rest):
        last[i] = b[at + done + i]
    last[rest] = 0x80
    size = 64 if rest < 56 else 128
    for i in range(8):
        last[size - 8 + i] = (bits >> (8 * i)) & 0xFF
    _md5_block(cython.address(last[0]), 0, cython.address(h[0]))
    if size == 128:
        _md5_block(cython.address(last[0]), 64, cython.address(h[0]))
    digest[0] = cython.cast(cython.longlong, cython.cast(cython.ulonglong, h[1]) << 32 | h[0])
    digest[1] = cython.cast(cython.longlong, cython.cast(cython.ulonglong, h[3]) << 32 | h[2])


@cython.cfunc
@cython.exceptval(check=False)
def _slot(
    b: cython.p_uchar,
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    table: cython.p_longlong,
    slots: cython.longlong,
    digest: cython.p_longlong,
) -> cython.longlong:
    """The place of a key in the table: where it is, or the empty one where it belongs; -1 when all are taken."""
    if cython.compiled:
        _md5(b, at, size, digest)
    else:
        data = hashlib.md5(bytes(b[at : at + size]), usedforsecurity=False).digest()
        digest[0] = int.from_bytes(data[:8], "little", signed=True)
        digest[1] = int.from_bytes(data[8:], "little", signed=True)
    return _slot_of(table, slots, digest)


@cython.cfunc
@cython.exceptval(check=False)
def _slot_of(table: cython.p_longlong, slots: cython.longlong, digest: cython.p_longlong) -> cython.longlong:
    """The place of the digest of a key, as `_slot` has it."""
    place: cython.longlong
    step: cython.longlong
    tries: cython.longlong = 0
    place = (digest[0] & 0x7FFFFFFF) % slots
    step = (digest[1] & 0x7FFFFFFF) % slots
    while tries < slots + _TRIES:
        if table[3 * place + 2] == 0:
            return place
        if table[3 * place] == digest[0] and table[3 * place + 1] == digest[1]:
            return place
        place += step if tries < _TRIES else 1
        if place >= slots:
            place -= slots
        tries += 1
    return -1


def put(
    view: cython.const[cython.uchar][::1],
    rows: cython.longlong[::1],
    n: cython.Py_ssize_t,
    flags: cython.longlong[::1],
    start_offset: cython.longlong,
    table: cython.longlong[::1],
    slots: cython.longlong,
    most: cython.longlong,
    state: cython.longlong[::1],
) -> int:
    """Put the keys of records into the offset map, until it is full.

    Args:
        view: the buffer that the rows point into.
        rows: record rows; the first `n` count.
        n: rows.
        flags: of each batch; the records of one with layout.DROP_RECORDS or layout.KEEP_RECORDS are passed over.
        start_offset: records below it are passed over.
        table: three numbers a slot: the digest of a key, and its offset + 1; 0 in an empty one.
        slots: how many.
        most: keys that are put in at most.
        state: keys in the table; the offset that was put in last, -1 for none. Updated.

    Returns:
        The row that the map was full at, `n` when it was not.

    Source: Cleaner.buildOffsetMapForSegment, SkimpyOffsetMap.put.
    """
    b: cython.p_uchar
    row: cython.p_longlong
    t: cython.p_longlong
    digest: cython.p_longlong
    space = cython.declare(cython.longlong[2])
    if cython.compiled:
        b = cython.cast(cython.p_uchar, cython.address(view[0]))
        row = cython.address(rows[0])
        t = cython.address(table[0])
        digest = cython.address(space[0])
    else:
        b = view
        row = rows
        t = table
        digest = [0, 0]
    i: cython.Py_ssize_t
    r: cython.Py_ssize_t = 0
    place: cython.longlong
    for i in range(n):
        r = i * layout.RECORD_WIDTH
        if (
            row[r + layout.R_KEY_SIZE] < 0
            or row[r + layout.R_OFFSET] < start_offset
            or flags[row[r + layout.R_BATCH]] & (layout.DROP_RECORDS | layout.KEEP_RECORDS)
        ):
            continue
        if state[0] >= most:
            return i
        place = _slot(b, row[r + layout.R_KEY_AT], row[r + layout.R_KEY_SIZE], t, slots, digest)
        if place < 0:
            return i
        if t[3 * place + 2] == 0:
            t[3 * place] = digest[0]
            t[3 * place + 1] = digest[1]
            state[0] += 1
        t[3 * place + 2] = wire.add(row[r + layout.R_OFFSET], 1)
        state[1] = row[r + layout.R_OFFSET]
    return n


def move(
    table: cython.longlong[::1], slots: cython.longlong, target: cython.longlong[::1], target_slots: cython.longlong
) -> None:
    """Move an offset map into a larger one.

    Args:
        table, slots: the map.
        target, target_slots: an empty one.
    """
    t: cython.p_longlong
    digest: cython.p_longlong
    space = cython.declare(cython.longlong[2])
    if cython.compiled:
        t = cython.address(target[0])
        digest = cython.address(space[0])
    else:
        t = target
        digest = [0, 0]
    i: cython.Py_ssize_t
    place: cython.longlong
    for i in range(slots):
        if table[3 * i + 2] != 0:
            digest[0] = table[3 * i]
            digest[1] = table[3 * i + 1]
            place = _slot_of(t, target_slots, digest)
            t[3 * place] = digest[0]
            t[3 * place + 1] = digest[1]
            t[3 * place + 2] = table[3 * i + 2]


def judge(
    view: cython.const[cython.uchar][::1],
    rows: cython.longlong[::1],
    n: cython.Py_ssize_t,
    flags: cython.longlong[::1],
    table: cython.longlong[::1],
    slots: cython.longlong,
    latest: cython.longlong,
    keep: cython.uchar[::1],
    stats: cython.longlong[::1],
) -> None:
    """Tell which records stay, and add up what is known of their batches.

    Args:
        view: the buffer that the rows point into.
        rows: record rows; the first `n` count.
        n: rows.
        flags: of each batch.
        table, slots: the offset map.
        latest: last offset that the map covers; every record beyond it stays.
        keep: gets 1 for each record that stays, else 0.
        stats: layout.S_WIDTH numbers for each batch, added to.

    Source: Cleaner.shouldRetainRecord, MemoryRecords.filterBatch.
    """
    b: cython.p_uchar
    row: cython.p_longlong
    t: cython.p_longlong
    digest: cython.p_longlong
    space = cython.declare(cython.longlong[2])
    if cython.compiled:
        b = cython.cast(cython.p_uchar, cython.address(view[0]))
        row = cython.address(rows[0])
        t = cython.address(table[0])
        digest = cython.address(space[0])
    else:
        b = view
        row = rows
        t = table
        digest = [0, 0]
    i: cython.Py_ssize_t
    r: cython.Py_ssize_t
    s: cython.Py_ssize_t
    flag: cython.longlong
    offset: cython.longlong
    place: cython.longlong
    stays: cython.bint
    for i in range(n):
        r = i * layout.RECORD_WIDTH
        s = row[r + layout.R_BATCH] * layout.S_WIDTH
        flag = flags[row[r + layout.R_BATCH]]
        offset = row[r + layout.R_OFFSET]
        stats[s + layout.S_SEEN] += 1
        if flag & layout.DROP_RECORDS:
            stays = False
        elif flag & layout.KEEP_RECORDS or offset > latest:
            stays = True
        elif row[r + layout.R_KEY_SIZE] < 0:
            stays = False
        else:
            place = _slot(b, row[r + layout.R_KEY_AT], row[r + layout.R_KEY_SIZE], t, slots, digest)
            stays = place < 0 or t[3 * place + 2] == 0 or offset >= wire.subtract(t[3 * place + 2], 1)
            if row[r + layout.R_VALUE_SIZE] < 0 and flag & layout.DROP_TOMBSTONES:
                stays = False
        keep[i] = stays
        if not stays:
            continue
        if stats[s + layout.S_KEPT] == 0:
            stats[s + layout.S_FIRST_OFFSET] = offset
            stats[s + layout.S_FIRST_TIME] = row[r + layout.R_TIMESTAMP]
            stats[s + layout.S_MAX_TIME] = row[r + layout.R_TIMESTAMP]
        stats[s + layout.S_KEPT] += 1
        stats[s + layout.S_LAST_OFFSET] = offset
        if row[r + layout.R_TIMESTAMP] > stats[s + layout.S_MAX_TIME]:
            stats[s + layout.S_MAX_TIME] = row[r + layout.R_TIMESTAMP]
        if row[r + layout.R_VALUE_SIZE] < 0:
            stats[s + layout.S_TOMBSTONES] += 1


def unreadable(rows: cython.longlong[::1], n: cython.Py_ssize_t, keep: cython.const[cython.uchar][::1]) -> int:
    """Return the first of n record rows that stays and whose value a broker cannot read; `n` when there is none.

    Args:
        rows: record rows.
        n: rows.
        keep: 1 for each that stays.
    """
    i: cython.Py_ssize_t
    for i in range(n):
        if keep[i] != 0 and rows[i * layout.RECORD_WIDTH + layout.R_FLAGS] & layout.VALUE_OVERRUNS:
            return i
    return n


def add_runs(
    rows: cython.longlong[::1],
    n: cython.Py_ssize_t,
    keep: cython.const[cython.uchar][::1],
    runs: cython.longlong[::1],
    filled: cython.Py_ssize_t,
) -> int:
    """Add the offsets of records that stay to runs of consecutive ones.

    Args:
        rows: record rows; the first `n` count.
        n: rows.
        keep: 1 for each that stays.
        runs: first and last offset of each; there is room for `n` more.
        filled: runs that are there.

    Returns:
        How many runs there are now.
    """
    i: cython.Py_ssize_t
    offset: cython.longlong
    for i in range(n):
        if keep[i] == 0:
            continue
        offset = rows[i * layout.RECORD_WIDTH + layout.R_OFFSET]
        if filled > 0 and runs[2 * filled - 1] < offset and runs[2 * filled - 1] + 1 == offset:
            runs[2 * filled - 1] = offset
        else:
            runs[2 * filled] = offset
            runs[2 * filled + 1] = offset
            filled += 1
    return filled


@cython.cfunc
@cython.exceptval(check=False)
def _encode_row(
    b: cython.p_uchar,
    row: cython.p_longlong,
    r: cython.Py_ssize_t,
    base_offset: cython.longlong,
    base_timestamp: cython.longlong,
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Write a record as magic 2 has it; return the place after it. Source: DefaultRecord.writeTo."""
    time: cython.longlong = wire.subtract(row[r + layout.R_TIMESTAMP], base_timestamp)
    delta: cython.longlong = wire.int32(wire.subtract(row[r + layout.R_OFFSET], base_offset))
    key: cython.longlong = row[r + layout.R_KEY_SIZE]
    value: cython.longlong = row[r + layout.R_VALUE_SIZE]
    headers: cython.longlong = row[r + layout.R_END] - row[r + layout.R_HEADERS_AT]
    size: cython.longlong
    if key < 0:
        key = -1
    if value < 0:
        value = -1
    if row[r + layout.R_HEADER_COUNT] == 0:
        headers = 0
    size = (
        1
        + wire.varint_size(time)
        + wire.varint_size(delta)
        + wire.varint_size(key)
        + wire.varint_size(value)
        + wire.varint_size(row[r + layout.R_HEADER_COUNT])
    )
    size += headers
    if key > 0:
        size += key
    if value > 0:
        size += value
    at = wire.put_varint(out, at, size)
    out[at] = 0  # attributes
    at = wire.put_varint(out, at + 1, time)
    at = wire.put_varint(out, at, delta)
    at = wire.put_varint(out, at, key)
    if key > 0:
        at = wire.copy(out, at, b, row[r + layout.R_KEY_AT], key)
    at = wire.put_varint(out, at, value)
    if value > 0:
        at = wire.copy(out, at, b, row[r + layout.R_VALUE_AT], value)
    at = wire.put_varint(out, at, row[r + layout.R_HEADER_COUNT])
    if headers > 0:
        at = wire.copy(out, at, b, row[r + layout.R_HEADERS_AT], headers)
    return at


def encode(
    view: cython.const[cython.uchar][::1],
    rows: cython.longlong[::1],
    first: cython.Py_ssize_t,
    n: cython.Py_ssize_t,
    keep: cython.const[cython.uchar][::1],
    base_offset: cython.longlong,
    base_timestamp: cython.longlong,
    target: cython.uchar[::1],
) -> tuple[int, int]:
    """Write records of one batch as magic 2 has them, as many as there is room for.

    Args:
        view: the buffer that the rows point into.
        rows: record rows; [first, n) count.
        first, n: rows, half-open.
        keep: 1 for each that is written.
        base_offset, base_timestamp: of the batch.
        target: where to.

    Returns:
        The row that was not written any more, `n` when all are; how many bytes were.
    """
    b: cython.p_uchar
    row: cython.p_longlong
    out: cython.p_uchar
    if cython.compiled:
        b = cython.cast(cython.p_uchar, cython.address(view[0]))
        row = cython.address(rows[0])
        out = cython.address(target[0])
    else:
        b = view
        row = rows
        out = target
    room: cython.Py_ssize_t = len(target)
    at: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    r: cython.Py_ssize_t
    for i in range(first, n):
        if keep[i] == 0:
            continue
        r = i * layout.RECORD_WIDTH
        if row[r + layout.R_END] - row[r + layout.R_AT] + _GROWTH > room - at:
            return i, at
        at = _encode_row(b, row, r, base_offset, base_timestamp, out, at)
    return n, at


@cython.cfunc
@cython.exceptval(check=False)
def _header(
    batch: cython.p_longlong,
    q: cython.Py_ssize_t,
    base: cython.longlong,
    last: cython.longlong,
    count: cython.longlong,
    horizon: cython.longlong,
    base_timestamp: cython.longlong,
    max_timestamp: cython.longlong,
    size: cython.longlong,
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
) -> None:
    """Write the header of a batch of magic 2, with the CRC left 0. Source: DefaultRecordBatch.writeHeader."""
    attributes: cython.longlong = batch[q + layout.ATTRIBUTES]
    new: cython.bint = batch[q + layout.MAGIC] >= layout.MAGIC_V2
    if new:
        attributes &= _ATTRIBUTES_KEPT
    elif batch[q + layout.MAGIC] == 1:
        attributes &= layout.CODEC_MASK | layout.TIMESTAMP_TYPE_FLAG
    else:
        attributes &= layout.CODEC_MASK
    if count == 0:
        attributes &= ~layout.CODEC_MASK
    if horizon >= 0:
        attributes |= layout.DELETE_HORIZON_FLAG
    at = wire.put_number(out, at, 8, base)
    at = wire.put_number(out, at, 4, size - layout.LOG_OVERHEAD)
    at = wire.put_number(out, at, 4, batch[q + layout.LEADER_EPOCH] if new else -1)
    out[at] = layout.MAGIC_V2
    at = wire.put_number(out, at + 1, 4, 0)
    at = wire.put_number(out, at, 2, attributes)
    at = wire.put_number(out, at, 4, wire.subtract(last, base))
    at = wire.put_number(out, at, 8, base_timestamp)
    at = wire.put_number(out, at, 8, max_timestamp)
    at = wire.put_number(out, at, 8, batch[q + layout.PRODUCER_ID] if new else -1)
    at = wire.put_number(out, at, 2, batch[q + layout.PRODUCER_EPOCH] if new else -1)
    at = wire.put_number(out, at, 4, batch[q + layout.BASE_SEQUENCE] if new else -1)
    wire.put_number(out, at, 4, count)


@cython.cfunc
@cython.exceptval(check=False)
def _outcome(
    batch: cython.p_longlong,
    q: cython.Py_ssize_t,
    stats: cython.p_longlong,
    s: cython.Py_ssize_t,
    flag: cython.longlong,
    horizon: cython.longlong,
    m: cython.p_longlong,
    at: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Put into `m` the batch that comes of one; return GONE, ITSELF, ANOTHER, EMPTY or IMPOSSIBLE (layout).

    Source: MemoryRecords.filterTo.
    """
    new: cython.bint = batch[q + layout.MAGIC] >= layout.MAGIC_V2
    kept: cython.longlong = stats[s + layout.S_KEPT]
    before: cython.longlong = -1
    if new and batch[q + layout.ATTRIBUTES] & layout.DELETE_HORIZON_FLAG and batch[q + layout.BASE_TIMESTAMP] >= 0:
        before = batch[q + layout.BASE_TIMESTAMP]
    if kept == 0 and not flag & layout.KEEP_EMPTY:
        return layout.GONE
    m[at + layout.M_BASE] = batch[q + layout.BASE_OFFSET] if new else stats[s + layout.S_FIRST_OFFSET]
    m[at + layout.M_LAST] = batch[q + layout.LAST_OFFSET] if new else stats[s + layout.S_LAST_OFFSET]
    m[at + layout.M_COUNT] = kept
    m[at + layout.M_HORIZON] = before
    m[at + layout.M_AT] = -1
    m[at + layout.M_CONTROL] = batch[q + layout.ATTRIBUTES] & layout.CONTROL_FLAG if new else 0
    if kept == 0:
        m[at + layout.M_HORIZON] = -1
        return layout.EMPTY if new else layout.IMPOSSIBLE
    if (batch[q + layout.ATTRIBUTES] & layout.DELETE_HORIZON_FLAG == 0 or not new) and (
        stats[s + layout.S_TOMBSTONES] > 0 or flag & layout.NEEDS_HORIZON
    ):
        m[at + layout.M_HORIZON] = horizon
    if new and kept == stats[s + layout.S_SEEN] and m[at + layout.M_HORIZON] == before:
        return layout.ITSELF
    return layout.ANOTHER


def outcome(
    batches: cython.longlong[::1],
    k: cython.Py_ssize_t,
    stats: cython.longlong[::1],
    flag: cython.longlong,
    horizon: cython.longlong,
    made: cython.longlong[::1],
) -> int:
    """Put the batch that comes of the one in row k into `made`; return what it is, see `_outcome`."""
    batch: cython.p_longlong
    s: cython.p_longlong
    m: cython.p_longlong
    if cython.compiled:
        batch = cython.address(batches[0])
        s = cython.address(stats[0])
        m = cython.address(made[0])
    else:
        batch = batches
        s = stats
        m = made
    return _outcome(batch, k * layout.BATCH_WIDTH, s, k * layout.S_WIDTH, flag, horizon, m, 0)


def write_header(
    batches: cython.longlong[::1],
    k: cython.Py_ssize_t,
    stats: cython.longlong[::1],
    made: cython.longlong[::1],
    size: cython.longlong,
    target: cython.uchar[::1],
) -> None:
    """Write the header of the batch in `made`, which comes of the one in row k and has `size` bytes; its CRC is 0."""
    batch: cython.p_longlong
    out: cython.p_uchar
    if cython.compiled:
        batch = cython.address(batches[0])
        out = cython.address(target[0])
    else:
        batch = batches
        out = target
    _made_header(batch, k * layout.BATCH_WIDTH, stats, k * layout.S_WIDTH, made, 0, size, out, 0)


@cython.cfunc
@cython.exceptval(check=False)
def _made_header(
    batch: cython.p_longlong,
    q: cython.Py_ssize_t,
    stats: cython.longlong[::1],
    s: cython.Py_ssize_t,
    made: cython.longlong[::1],
    m: cython.Py_ssize_t,
    size: cython.longlong,
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
) -> None:
    horizon: cython.longlong = made[m + layout.M_HORIZON]
    count: cython.longlong = made[m + layout.M_COUNT]
    base_timestamp: cython.longlong = horizon if horizon >= 0 else stats[s + layout.S_FIRST_TIME]
    max_timestamp: cython.longlong = stats[s + layout.S_MAX_TIME]
    if count == 0:
        base_timestamp = -1
    if count == 0 or (batch[q + layout.ATTRIBUTES] & layout.TIMESTAMP_TYPE_FLAG and batch[q + layout.MAGIC] > 0):
        max_timestamp = batch[q + layout.MAX_TIMESTAMP]
    _header(
        batch,
        q,
        made[m + layout.M_BASE],
        made[m + layout.M_LAST],
        count,
        horizon,
        base_timestamp,
        max_timestamp,
        size,
        out,
        at,
    )


def rewrite(
    view: cython.const[cython.uchar][::1],
    origin: cython.longlong,
    batches: cython.longlong[::1],
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    rows: cython.longlong[::1],
    start: cython.Py_ssize_t,
    n: cython.Py_ssize_t,
    keep: cython.const[cython.uchar][::1],
    flags: cython.longlong[::1],
    stats: cython.longlong[::1],
    horizon: cython.longlong,
    target: cython.uchar[::1],
    made: cython.longlong[::1],
) -> tuple[int, int, int, int]:
    """Write what comes of uncompressed batches, as many as there is room for.

    Args:
        view: the window.
        origin: file position of view[0].
        batches: rows of batches; those in [first, last) are written.
        first, last: rows, half-open.
        rows: record rows; those of the batches are in [start, n), in order.
        start, n: rows, half-open.
        keep, flags, stats: as `judge` has them.
        horizon: that tombstones get, ms.
        target: where to.
        made: layout.M_WIDTH numbers for each batch that is written; there is room for all.

    Returns:
        The batch that was not written any more, `last` when all are; the record row that it begins with; how many
        bytes were written; how many batches. The batch is one that cannot be when no byte and no batch was written
        although there was room.
    """
    b: cython.p_uchar
    batch: cython.p_longlong
    row: cython.p_longlong
    out: cython.p_uchar
    m: cython.p_longlong
    stat: cython.p_longlong
    if cython.compiled:
        b = cython.cast(cython.p_uchar, cython.address(view[0]))
        batch = cython.address(batches[0])
        row = cython.address(rows[0])
        out = cython.address(target[0])
        m = cython.address(made[0])
        stat = cython.address(stats[0])
    else:
        b = view
        batch = batches
        row = rows
        out = target
        m = made
        stat = stats
    room: cython.Py_ssize_t = len(target)
    at: cython.Py_ssize_t = 0
    after: cython.Py_ssize_t
    written: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t = start
    k: cython.Py_ssize_t
    q: cython.Py_ssize_t
    p: cython.Py_ssize_t
    what: cython.Py_ssize_t
    base_timestamp: cython.longlong
    for k in range(first, last):
        q = k * layout.BATCH_WIDTH
        what = _outcome(batch, q, stat, k * layout.S_WIDTH, flags[k], horizon, m, written * layout.M_WIDTH)
        if what == layout.IMPOSSIBLE:
            return k, i, at, written
        if what != layout.GONE and batch[q + layout.SIZE] + layout.RECORDS_AT + _GROWTH * (n - i + 1) > room - at:
            return k, i, at, written
        if what == layout.ITSELF:
            p = batch[q + layout.POSITION] - origin
            at = wire.copy(out, at, b, p, batch[q + layout.SIZE])
        elif what != layout.GONE:
            after = at + layout.RECORDS_AT
            base_timestamp = m[written * layout.M_WIDTH + layout.M_HORIZON]
            if base_timestamp < 0:
                base_timestamp = stat[k * layout.S_WIDTH + layout.S_FIRST_TIME]
            m[written * layout.M_WIDTH + layout.M_AT] = at
            while what == layout.ANOTHER and i < n and row[i * layout.RECORD_WIDTH + layout.R_BATCH] == k:
                if keep[i] != 0:
                    after = _encode_row(
                        b, row, i * layout.RECORD_WIDTH, m[written * layout.M_WIDTH], base_timestamp, out, after
                    )
                i += 1
            _made_header(batch, q, stats, k * layout.S_WIDTH, made, written * layout.M_WIDTH, after - at, out, at)
            at = after
        if what != layout.GONE:
            written += 1
        while i < n and row[i * layout.RECORD_WIDTH + layout.R_BATCH] == k:
            i += 1
    return last, i, at, written
