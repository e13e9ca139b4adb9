# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Kernel: record rows as values for Python.

Compiled by Cython when a compiler is there, interpreted with the same results when not. Numbers stay numbers of C
until somebody asks for them: of most records nobody asks for all.

Contract. Trusted: record rows are those of `kdump.format.record._records` for the same buffer, batch rows those that
they name. Guaranteed: no byte outside [R_AT, R_END) of a row is read; headers are walked by the decoder that checked
them.
"""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from kdump.format.kernels import _cython as cython
if not cython.compiled:  # whether Cython is there or not: its own stand-ins are slow, and refuse some casts
    from kdump.format.kernels import _cython as cython

from typing import TYPE_CHECKING

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
    from cython.cimports.kdump.format.batch import layout
    from cython.cimports.kdump.format.kernels import wire
else:
    from kdump.format.batch import layout
    from kdump.format.kernels import wire

if TYPE_CHECKING:
    from collections.abc import Callable

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
def _headers(
    b: cython.p_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t, count: cython.longlong, text: object
) -> tuple:
    found: list = []
    i: cython.longlong
    size: cython.longlong
    after: cython.Py_ssize_t
    for i in range(count):
        after = wire.after_varint(b, at, end)
        size = wire.size_within(b, at, after, end)
        name = text(_field(b, after, size if size > 0 else 0))
        at = after + (size if size > 0 else 0)
        after = wire.after_varint(b, at, end)
        size = wire.size_within(b, at, after, end)
        found.append((name, _field(b, after, size)))
        at = after + (size if size > 0 else 0)
    return tuple(found)


def records(
    view: cython.const[cython.uchar][::1],
    rows: cython.const[cython.longlong][::1],
    n: cython.Py_ssize_t,
    batches: cython.const[cython.longlong][::1],
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
        p = cython.cast(cython.p_longlong, cython.address(rows[0]))
        q = cython.cast(cython.p_longlong, cython.address(batches[0]))
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
        r = i * layout.RECORD_WIDTH
        c = p[r + layout.R_BATCH] * layout.BATCH_WIDTH
        record = Record.__new__(Record)
        record._file = file
        record._batch_position = q[c + layout.POSITION]
        record._magic = q[c + layout.MAGIC]
        record._of_batch = q[c + layout.ATTRIBUTES]
        record._offset = p[r + layout.R_OFFSET]
        record._timestamp = p[r + layout.R_TIMESTAMP]
        record._sequence = p[r + layout.R_SEQUENCE]
        record._attributes = p[r + layout.R_ATTRIBUTES] & 0xFF
        record._key = _field(b, p[r + layout.R_KEY_AT], p[r + layout.R_KEY_SIZE])
        record._value = _field(b, p[r + layout.R_VALUE_AT], p[r + layout.R_VALUE_SIZE])
        record._delta = 0
        record._headers = _NO_HEADERS
        if record._magic >= 2:
            record._delta = p[r + layout.R_TIME_DELTA]
            if p[r + layout.R_HEADER_COUNT] > 0:
                record._headers = _headers(
                    b, p[r + layout.R_HEADERS_AT], p[r + layout.R_END], p[r + layout.R_HEADER_COUNT], text
                )
        found[i] = record
    return found


def extent(rows: cython.longlong[::1], n: cython.Py_ssize_t) -> tuple[int, int]:
    """Return where the bytes of n record rows, at least one, begin in their buffer, and where they end."""
    i: cython.Py_ssize_t
    low: cython.longlong = rows[layout.R_AT]
    high: cython.longlong = rows[layout.R_END]
    for i in range(n):
        if rows[i * layout.RECORD_WIDTH + layout.R_AT] < low:
            low = rows[i * layout.RECORD_WIDTH + layout.R_AT]
        if rows[i * layout.RECORD_WIDTH + layout.R_END] > high:
            high = rows[i * layout.RECORD_WIDTH + layout.R_END]
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
        r = i * layout.RECORD_WIDTH
        rows[r + layout.R_BATCH] -= first
        rows[r + layout.R_KEY_AT] -= by
        rows[r + layout.R_VALUE_AT] -= by
        rows[r + layout.R_HEADERS_AT] -= by
        rows[r + layout.R_AT] -= by
        rows[r + layout.R_END] -= by
