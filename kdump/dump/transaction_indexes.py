"""What the transaction indexes of a directory tell of the offsets that a walk over its logs has reached.

They are read when the first hole is met.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kdump.broker.producer.transaction_fates import Aborts, told_by_index
from kdump.format.batch import layout
from kdump.format.kinds import FileKind
from kdump.storage.file_source import OpenFailure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.dump.input_file import InputFile
    from kdump.format.batch.window import Window
    from kdump.format.index.transaction_index import AbortedTxn


class TransactionIndexes:
    """Follows a walk over some logs.

    Args:
        logs: in order, of one directory.
    """

    def __init__(self, logs: Sequence[InputFile]) -> None:
        self._logs = logs
        self._number = -1  # of the log that is walked through
        self._reached: list[tuple[int | None, int | None]] = []  # first offset and end of the logs before that
        self._first: int | None = None  # of the batch at its beginning
        self._end: int | None = None  # of its batches so far, None where nothing can be said of it
        self._is_odd = False  # its batches do not fit its name
        self._learnt: list[Aborts] = []
        self._asked = 0  # logs of which it is learnt

    def begin(self, number: int) -> None:
        """The walk comes to a log.

        Args:
            number: of it.
        """
        self._number, self._first, self._end, self._is_odd = number, None, self._logs[number].log_base, False

    def end(self) -> None:
        """The walk is through with it."""
        self._reached.append((None, None) if self._is_odd else (self._first, self._end))
        self._number = -1

    def met(self, window: Window) -> None:
        """Its next batches, whose offsets are right."""
        if not window.cell(0, layout.POSITION):
            self._first = window.cell(0, layout.BASE_OFFSET)
        self._end = window.cell(window.count - 1, layout.LAST_OFFSET) + 1

    def claim(self, one: Window) -> None:
        """A whole batch with a wrong CRC, which counts as far as its header goes on from what is before it.

        Where that has fewer records than offsets, the fewer count, as in `ScannedLog.end` of salvage.
        """
        first, count = one.cell(0, layout.BASE_OFFSET), one.cell(0, layout.COUNT)
        offsets = one.cell(0, layout.LAST_OFFSET) - first + 1
        if first == self._end and offsets > 0:
            self._end = first + (count if 0 < count < offsets else offsets)

    def doubt(self) -> None:
        """It has a batch that does not fit where it stands."""
        self._is_odd = True

    def entries(self) -> Iterator[AbortedTxn]:
        """Yield the entries of all indexes, also of those that the walk has not come to, and of lost logs."""
        for number in range(len(self._logs)):
            for told in (*self._lost_before(number), *self._of(number, None, None)):
                yield from told.entries
        for told in self._lost_before(len(self._logs)):
            yield from told.entries

    def learn(self) -> list[Aborts]:
        """Return what all indexes tell that the walk has come to, those of lost logs between them among them."""
        while self._asked < len(self._reached):
            number, (first, end) = self._asked, self._reached[self._asked]
            self._learnt += self._lost_before(number)
            self._learnt += self._of(number, first, end)
            self._asked += 1
        if self._number < 0:  # that was the last one
            return [*self._learnt, *self._lost_before(len(self._logs))]
        here = () if self._is_odd else self._of(self._number, self._first, layout.LARGEST_OFFSET)
        return [*self._learnt, *self._lost_before(self._number), *here]

    def _of(self, number: int, first: int | None, end: int | None) -> list[Aborts]:
        log = self._logs[number]
        base = log.log_base
        if base is None:
            return []
        following = log.directory.next_base(base) if log.name.is_live else None
        return _read(log, base, following, first, end)

    def _lost_before(self, number: int) -> list[Aborts]:
        """The indexes of the logs that are lost before one, behind the one before it."""
        if not number:
            return []
        before, found = self._logs[number - 1], []
        if before.log_base is None or not before.name.is_live:
            return []
        directory = before.directory
        stop = self._logs[number].log_base if number < len(self._logs) else None
        for base, files in sorted(directory.by_base.items()):
            if base <= before.log_base or (stop is not None and base >= stop) or FileKind.LOG in files:
                continue
            if FileKind.TXNINDEX in files:
                source = directory.cache.open(files[FileKind.TXNINDEX], follow=False)
                with suppress(OSError):
                    told = None
                    if not isinstance(source, OpenFailure):
                        told = told_by_index(source, base, directory.next_base(base), None, None)
                    found += [told] if told is not None else []
        return found


def _read(log: InputFile, base: int, following: int | None, first: int | None, end: int | None) -> list[Aborts]:
    source = log.segment.file(FileKind.TXNINDEX)
    if isinstance(source, OpenFailure):
        return []
    with suppress(OSError):
        told = told_by_index(source, base, following, first, end)
        return [] if told is None else [told]
    return []
