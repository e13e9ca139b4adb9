"""Sums of the records of each key, or group, with bounded memory: a table of which the smallest are let go.

Where there are more names than it has room for, all lose what the largest of the smaller half has, and those with
nothing left go (Misra and Gries, by weight). So no weight is wrong by more than what was lost in all, and tables of
parts of the records can be joined: the errors add up.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from kdump.format.batch import layout
from kdump.usage import _sums
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.format.record.chunk import Chunk

ROOM = 1 << 15  # names; half of them are kept
_NAMES = 4 << 20  # bytes of names


class KeyTable(Value):
    """The entries of a table as bytes, to go from one process to another."""

    # entries, names: of the table, as the kernel has them
    entries: bytes
    names: bytes
    count: int  # entries
    error: int  # bytes that a weight may miss


class KeySums:
    """A table.

    Args:
        mode: OF_KEYS or OF_GROUPS of the kernel.
        room: names that are held at most.
        names: bytes of names that are held.
    """

    def __init__(self, mode: int, room: int = ROOM, names: int = _NAMES) -> None:
        self._mode = mode
        self._index = array("q", bytes(8)) * (1 << (2 * room - 1).bit_length())
        self._entries = array("q", bytes(8)) * (_sums.ENTRY * room)
        self._names = bytearray(names)
        self._state = array("q", bytes(8 * _sums.STATE))
        self._is_fixed = False

    @property
    def error(self) -> int:
        """Bytes by which a weight may be too low, or that of a name which is missing; 0 where all are exact."""
        return self._state[_sums.ERROR]

    def add(self, chunk: Chunk, keep: bytearray | None) -> None:
        """Add the records of a chunk.

        Args:
            chunk: of records.
            keep: 0 for each that a newer one replaces; None where nobody asked.
        """
        at, mode = 0, self._mode | (_sums.KNOWN_ONLY if self._is_fixed else 0)
        rows = true_rows(chunk)
        while at < chunk.filled:
            at = _sums.by_name(
                chunk.view,
                rows,
                at,
                n=chunk.filled,
                batches=chunk.window.rows,
                keep=keep or b"",
                judged=keep is not None,
                mode=mode,
                index=self._index,
                entries=self._entries,
                names=self._names,
                state=self._state,
            )
            if at < chunk.filled:
                self._shrink()

    def join(self, other: KeyTable) -> None:
        """Add another table."""
        at = 0
        others = array("q")
        others.frombytes(other.entries)
        while at < other.count:
            at = _sums.join(
                at,
                other.count,
                others,
                other_names=other.names,
                index=self._index,
                entries=self._entries,
                names=self._names,
                state=self._state,
            )
            if at < other.count:
                self._shrink()
        self._state[_sums.ERROR] += other.error

    def _shrink(self) -> None:
        """Make room for as many names as are kept; where even one is too large for that, for its bytes."""
        count = self._state[_sums.COUNT]
        if count <= 1:
            self._names += bytes(len(self._names))
            return
        weights = sorted(self._entries[_sums.SUMS + _sums.WEIGHT : count * _sums.ENTRY : _sums.ENTRY])
        _sums.lower(weights[(count - 1) // 2], self._index, self._entries, self._names, self._state)

    def clear(self) -> None:
        """Forget all names."""
        self._state = array("q", bytes(8 * _sums.STATE))
        _sums.lower(0, self._index, self._entries, self._names, self._state)
        self._is_fixed = False

    def fix(self) -> None:
        """Begin again with the names that are there, and no others: their sums will be exact."""
        self._is_fixed = True
        for number in range(self._state[_sums.COUNT]):
            at = number * _sums.ENTRY + _sums.SUMS
            self._entries[at : at + _sums.WIDTH] = empty()

    def copy(self) -> KeySums:
        """Return another one that holds the same."""
        other = KeySums(self._mode, 0, 0)
        other._index, other._entries = self._index[:], self._entries[:]
        other._names, other._state = self._names[:], self._state[:]
        return other

    def table(self) -> KeyTable:
        """Return what it holds; without names that no record has."""
        count, used = self._state[_sums.COUNT], self._state[_sums.USED]
        first = _sums.SUMS + _sums.RECORDS
        seen = [n for n, records in enumerate(self._entries[first : count * _sums.ENTRY : _sums.ENTRY]) if records]
        if len(seen) == count:
            entries = self._entries[: count * _sums.ENTRY].tobytes()
        else:
            width = 8 * _sums.ENTRY
            held = memoryview(self._entries).cast("B")
            entries = b"".join(held[n * width : (n + 1) * width] for n in seen)
        return KeyTable(entries, bytes(self._names[:used]), len(seen), self.error)

    def largest(self, count: int | None, *, texts: bool) -> Iterator[tuple[str | bytes, array[int]]]:
        """Yield names and sums by weight, the largest first.

        Args:
            count: how many; None for all.
            texts: names are texts; what is none has no name.
        """
        held = self._state[_sums.COUNT]
        weights = self._entries[_sums.SUMS + _sums.WEIGHT : held * _sums.ENTRY : _sums.ENTRY]
        least = sorted(weights)[-count] if count is not None and count < held else 0
        found: list[tuple[int, str | bytes, int]] = []
        for number, weight in enumerate(weights):
            if weight < least:
                continue
            at, size = self._entries[number * _sums.ENTRY + _sums.AT : number * _sums.ENTRY + _sums.SUMS]
            data = bytes(self._names[at : at + size])
            name: str | bytes = data
            if texts:
                try:
                    name = data.decode()
                except UnicodeDecodeError:
                    continue
            found.append((-weight, name, number))
        found.sort(key=lambda one: (one[0], repr(one[1])))
        for _, name, number in found[:count]:
            yield name, self._entries[number * _sums.ENTRY + _sums.SUMS : (number + 1) * _sums.ENTRY]


def true_rows(chunk: Chunk) -> array[int]:
    """Return the rows of records with the sizes that they have, where a row tells of less than the whole."""
    cut = chunk.cut
    if cut is None:
        return chunk.rows
    row = chunk.rows[: layout.RECORD_WIDTH]
    row[layout.R_KEY_SIZE], row[layout.R_VALUE_SIZE] = cut.key_size, cut.value_size
    row[layout.R_END] = row[layout.R_AT] + cut.size
    return row


def empty() -> array[int]:
    """Return the sums of nothing."""
    sums = array("q", bytes(8 * _sums.WIDTH))
    sums[_sums.FIRST], sums[_sums.LAST] = _sums.NEVER, -1
    return sums
