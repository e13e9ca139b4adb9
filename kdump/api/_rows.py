# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Kernel: record rows as values for Python.

Compiled by Cython when a compiler is there, interpreted with the same results when not. The rows are those of
`kdump.format._records`, which has proven that every field lies in the buffer: nothing is checked again here. Numbers
stay numbers of C until somebody asks for them: of most records nobody asks for all.
"""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:  # the interpreter does not need Cython
    from kdump.format import _cython as cython

from typing import TYPE_CHECKING

from kdump.format import layout

if TYPE_CHECKING:
    from collections.abc import Callable

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize

_BATCH_WIDTH = cython.declare(cython.Py_ssize_t, layout.BATCH_WIDTH)
_POSITION = cython.declare(cython.Py_ssize_t, layout.POSITION)
_MAGIC = cython.declare(cython.Py_ssize_t, layout.MAGIC)
_ATTRIBUTES = cython.declare(cython.Py_ssize_t, layout.ATTRIBUTES)
_WIDTH = cython.declare(cython.Py_ssize_t, layout.RECORD_WIDTH)
_R_BATCH = cython.declare(cython.Py_ssize_t, layout.R_BATCH)
_R_OFFSET = cython.declare(cython.Py_ssize_t, layout.R_OFFSET)
_R_TIMESTAMP = cython.declare(cython.Py_ssize_t, layout.R_TIMESTAMP)
_R_SEQUENCE = cython.declare(cython.Py_ssize_t, layout.R_SEQUENCE)
_R_KEY_AT = cython.declare(cython.Py_ssize_t, layout.R_KEY_AT)
_R_KEY_SIZE = cython.declare(cython.Py_ssize_t, layout.R_KEY_SIZE)
_R_VALUE_AT = cython.declare(cython.Py_ssize_t, layout.R_VALUE_AT)
_R_VALUE_SIZE = cython.declare(cython.Py_ssize_t, layout.R_VALUE_SIZE)
_R_HEADERS_AT = cython.declare(cython.Py_ssize_t, layout.R_HEADERS_AT)
_R_HEADER_COUNT = cython.declare(cython.Py_ssize_t, layout.R_HEADER_COUNT)
_R_AT = cython.declare(cython.Py_ssize_t, layout.R_AT)
_R_ATTRIBUTES = cython.declare(cython.Py_ssize_t, layout.R_ATTRIBUTES)
_R_END = cython.declare(cython.Py_ssize_t, layout.R_END)

_NO_HEADERS: tuple = ()


def is_compiled() -> bool:
    """Tell whether this kernel runs compiled."""
    return bool(cython.compiled)


@cython.final
@cython.no_gc
@cython.cclass
class Record:
    """One record of a log; it never changes. See `kdump-python`(3)."""

    _file = cython.declare(object)
    _key = cython.declare(object)
    _value = cython.declare(object)
    _headers = cython.declare(object)
    _batch_position = cython.declare(cython.longlong)
    _offset = cython.declare(cython.longlong)
    _timestamp = cython.declare(cython.longlong)
    _delta = cython.declare(cython.longlong)
    _sequence = cython.declare(cython.longlong)
    _attributes = cython.declare(cython.longlong)
    _magic = cython.declare(cython.longlong)
    _of_batch = cython.declare(cython.longlong)

    @property
    def file(self) -> str:
        """The log, as its path was given or below the directory that was given."""
        return self._file

    @property
    def batch_position(self) -> int:
        """Of its batch in the log, bytes."""
        return self._batch_position

    @property
    def offset(self) -> int:
        """Its absolute offset."""
        return self._offset

    @property
    def timestamp(self) -> int:
        """Ms since the epoch; -1 for none."""
        return self._timestamp

    @property
    def timestamp_delta(self) -> int | None:
        """As stored, ms; None below magic 2."""
        return self._delta if self._magic >= 2 else None

    @property
    def timestamp_type(self) -> str:
        """CreateTime, LogAppendTime or NoTimestampType."""
        if self._magic == 0:
            return "NoTimestampType"
        return "LogAppendTime" if self._of_batch & 8 else "CreateTime"

    @property
    def attributes(self) -> int:
        """Of the record itself."""
        return self._attributes

    @property
    def sequence(self) -> int | None:
        """Of its producer, -1 for none; None below magic 2."""
        return self._sequence if self._magic >= 2 else None

    @property
    def is_control(self) -> bool:
        """It is the mark of a transaction's end, or another one that no consumer sees."""
        return self._magic >= 2 and self._of_batch & 32 != 0

    @property
    def key(self) -> bytes | None:
        """None for null."""
        return self._key

    @property
    def value(self) -> bytes | None:
        """None for null: in a compacted topic, a tombstone."""
        return self._value

    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]:
        """Names and values, in their order."""
        return self._headers

    def _values(self) -> tuple:
        return (
            self._file,
            self._batch_position,
            self._offset,
            self._timestamp,
            self.timestamp_delta,
            self.timestamp_type,
            self._attributes,
            self.sequence,
            self.is_control,
            self._key,
            self._value,
            self._headers,
        )

    def __eq__(self, other: object) -> bool:
        return type(other) is Record and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        return (
            f"Record(offset={self._offset}, timestamp={self._timestamp}, key={self._key!r}, value={self._value!r},"
            f" headers={self._headers!r})"
        )


@cython.cfunc
@cython.inline
def _field(b: cython.p_uchar, at: cython.Py_ssize_t, size: cython.longlong) -> object:
    if size < 0:
        return None
    if cython.compiled:
        return PyBytes_FromStringAndSize(cython.cast(cython.p_char, b) + at, size)
    return bytes(b[at : at + size])


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
def _varint(b: cython.p_uchar, at: cython.Py_ssize_t, bits: cython.ulonglong) -> cython.longlong:
    """The zigzag number at a place, of so many bits as the mask has; it has been read before, so it ends."""
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
    value &= bits
    half: cython.longlong = value >> 1
    return half ^ -1 if value & 1 else half


@cython.cfunc
def _headers(b: cython.p_uchar, at: cython.Py_ssize_t, count: cython.longlong, text: object) -> tuple:
    found: list = []
    i: cython.longlong
    size: cython.longlong
    for i in range(count):
        size = _varint(b, at, 0xFFFFFFFF)
        at = _after_varint(b, at)
        name = text(_field(b, at, size))
        at += size
        size = _varint(b, at, 0xFFFFFFFF)
        at = _after_varint(b, at)
        found.append((name, _field(b, at, size)))
        if size > 0:
            at += size
    return tuple(found)


def records(
    view: cython.const[cython.uchar][::1],
    rows: cython.longlong[::1],
    n: cython.Py_ssize_t,
    batches: cython.longlong[::1],
    file: str,
    text: Callable[[bytes], str],
) -> list[Record]:
    """Return the records of n rows.

    Args:
        view: the buffer that the rows point into.
        rows: record rows.
        n: rows.
        batches: rows of batches.
        file: the name of the log.
        text: reads the name of a header.
    """
    b: cython.p_uchar
    p: cython.p_longlong
    q: cython.p_longlong
    if cython.compiled:
        b = cython.cast(cython.p_uchar, cython.address(view[0]))
        p = cython.address(rows[0])
        q = cython.address(batches[0])
    else:
        b = view
        p = rows
        q = batches
    found: list = [None] * n
    i: cython.Py_ssize_t
    r: cython.Py_ssize_t
    c: cython.Py_ssize_t
    record: Record
    for i in range(n):
        r = i * _WIDTH
        c = p[r + _R_BATCH] * _BATCH_WIDTH
        record = Record.__new__(Record)
        record._file = file
        record._batch_position = q[c + _POSITION]
        record._magic = q[c + _MAGIC]
        record._of_batch = q[c + _ATTRIBUTES]
        record._offset = p[r + _R_OFFSET]
        record._timestamp = p[r + _R_TIMESTAMP]
        record._sequence = p[r + _R_SEQUENCE]
        record._attributes = p[r + _R_ATTRIBUTES] & 0xFF
        record._key = _field(b, p[r + _R_KEY_AT], p[r + _R_KEY_SIZE])
        record._value = _field(b, p[r + _R_VALUE_AT], p[r + _R_VALUE_SIZE])
        record._delta = 0
        record._headers = _NO_HEADERS
        if record._magic >= 2:
            # the attributes, one byte, lie between the length of the record and the delta
            record._delta = _varint(b, _after_varint(b, p[r + _R_AT]) + 1, 0xFFFFFFFFFFFFFFFF)
            if p[r + _R_HEADER_COUNT] > 0:
                record._headers = _headers(b, p[r + _R_HEADERS_AT], p[r + _R_HEADER_COUNT], text)
        found[i] = record
    return found


def extent(rows: cython.longlong[::1], n: cython.Py_ssize_t) -> tuple[int, int]:
    """Return where the bytes of n record rows, at least one, begin in their buffer, and where they end."""
    i: cython.Py_ssize_t
    low: cython.longlong = rows[_R_AT]
    high: cython.longlong = rows[_R_END]
    for i in range(n):
        if rows[i * _WIDTH + _R_AT] < low:
            low = rows[i * _WIDTH + _R_AT]
        if rows[i * _WIDTH + _R_END] > high:
            high = rows[i * _WIDTH + _R_END]
    return low, high


def rebase(rows: cython.longlong[::1], n: cython.Py_ssize_t, by: cython.longlong, first: cython.longlong) -> None:
    """Move the places of n record rows in their buffer, and the numbers of their batches, towards 0.

    Args:
        rows: record rows; overwritten.
        n: rows.
        by: bytes before the first that is kept of the buffer.
        first: the first batch that is kept.
    """
    i: cython.Py_ssize_t
    r: cython.Py_ssize_t
    for i in range(n):
        r = i * _WIDTH
        rows[r + _R_BATCH] -= first
        rows[r + _R_KEY_AT] -= by
        rows[r + _R_VALUE_AT] -= by
        rows[r + _R_HEADERS_AT] -= by
        rows[r + _R_AT] -= by
        rows[r + _R_END] -= by
