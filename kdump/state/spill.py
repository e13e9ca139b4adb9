"""What a coordinator's newest values take beyond a bound: a file of our own without a name.

Strategy: values stay in memory until they are more than a bound; then all that are held go to the file at once, and
their places are kept. What a newer value has replaced there is left behind; when that is most of the file, what counts
is copied into a new one.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kdump.words.numbers import size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import BinaryIO

    Change = Callable[[bytes], bytes]

_MOST_HELD = 64 * 1024 * 1024  # bytes of values in memory, of one partition
_LOOKED_AT = 32 * 1024 * 1024  # bytes of records between two looks at what is held
_LEAST = 128  # bytes of a value that goes to the file: the place of a smaller one takes as much
_MOST = 64 * 1024 * 1024 * 1024  # bytes of the file
_PLACE = struct.Struct("<QI")


class SpillError(Exception):
    """What does not fit into memory cannot be written: one sentence."""


class SpilledValue(bytes):
    """The place of a value in the file."""

    __slots__ = ()


class Spill:
    """The values of one partition that do not fit into memory.

    Attributes:
        is_used: some values are in the file.
    """

    def __init__(self) -> None:
        self._file: BinaryIO | None = None
        self._end = 0  # of the file
        self._unseen = 0  # bytes of records since the last look

    def __del__(self) -> None:  # rows are made as long as somebody asks for one, and who asks knows of no file
        if self._file is not None:
            self._file.close()

    @property
    def is_used(self) -> bool:
        """Whether some values are in the file."""
        return self._file is not None

    def took(self, count: int, held: Callable[[], Iterable[bytes]], change: Callable[[Change], None]) -> None:
        """Take note that records were read, and write what is held to the file where it is too much.

        Args:
            count: bytes of the records.
            held: gives all values that are held.
            change: puts what a function makes of each value that is held in its place.

        Raises:
            SpillError: it cannot be written, or the file would be too large.
        """
        self._unseen += count
        if self._unseen < _LOOKED_AT:
            return
        self._unseen = 0
        if sum(len(one) for one in held()) > _MOST_HELD:
            self._write(held, change)

    def _write(self, held: Callable[[], Iterable[bytes]], change: Callable[[Change], None]) -> None:
        from kdump.storage.nameless_file import nameless_file  # few logs are that large

        try:
            if self._file is None:
                self._file = nameless_file()
            change(self._put)
            live = sum(_PLACE.unpack(one)[1] for one in held() if isinstance(one, SpilledValue))
            if self._end > 2 * live + _MOST_HELD:
                self._copy(nameless_file(), change)
        except OSError as error:
            why = error.strerror or str(error)
            raise SpillError(f"what does not fit into memory cannot be written to a temporary file: {why}") from None

    def _put(self, value: bytes) -> bytes:
        if len(value) < _LEAST or isinstance(value, SpilledValue):
            return value
        from kdump.state.messages import PackedValue

        assert self._file is not None
        data = (b"\1" if isinstance(value, PackedValue) else b"\0") + value
        if self._end + len(data) > _MOST:
            raise OSError(0, f"it would have more than {size(_MOST)}")
        self._file.seek(self._end)
        self._file.write(data)
        found = SpilledValue(_PLACE.pack(self._end, len(data)))
        self._end += len(data)
        return found

    def get(self, value: bytes) -> bytes:
        """Return a value that is held here or in the file.

        Args:
            value: as it is held.

        Raises:
            SpillError: it cannot be read back.
        """
        if not isinstance(value, SpilledValue):
            return value
        from kdump.state.messages import PackedValue

        assert self._file is not None
        start, count = _PLACE.unpack(value)
        try:
            self._file.seek(start)
            data = self._file.read(count)
        except OSError as error:
            raise SpillError(f"a temporary file cannot be read: {error.strerror or error}") from None
        return PackedValue(data[1:]) if data[:1] == b"\1" else data[1:]

    def _copy(self, new: BinaryIO, change: Callable[[Change], None]) -> None:
        """Keep only what counts."""
        old = Spill()
        old._file, old._end = self._file, self._end
        self._file, self._end = new, 0
        change(lambda value: self._put(old.get(value)) if isinstance(value, SpilledValue) else value)
