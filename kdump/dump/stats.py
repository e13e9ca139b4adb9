"""`dump --stats`: the logs of each directory folded into figures, a chunk at a time.

A transaction counts from the first batch of its producer to its marker. Nothing grows with a log but what is counted
apart: producers, open transactions and leader epochs, up to a limit.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import Counter
from heapq import nsmallest
from typing import TYPE_CHECKING

from kdump.figures import CodecFigures, EndedTransactions, EpochFigures, Figures, OpenTransactionFigures, SizeFigures
from kdump.format.batch import layout
from kdump.format.kinds import FileKind
from kdump.format.record.chunk import Chunk
from kdump.format.record.reader import key_and_value
from kdump.item import FileStart

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator

    from kdump.item import Item

MOST_PRODUCERS = 100_000  # more are not told apart
MOST_EPOCHS = 1000  # runs that are kept
_NO_TIMESTAMP = -1
_NO_PRODUCER = -1
_FLAGS = layout.TRANSACTIONAL_FLAG | layout.CONTROL_FLAG
MOST_OPEN = 100_000  # open transactions that are followed
MOST_SHOWN = 1000  # of them
_TYPE_AT = 2  # in the key of a marker
_ABORT, _COMMIT = b"\0\0", b"\0\1"


def with_figures(items: Iterator[Item]) -> Iterator[Item]:
    """Yield all items, and behind the logs of a directory what they come to.

    Args:
        items: of dump, with records.
    """
    fold: Fold | None = None
    is_log = False
    for item in items:
        if isinstance(item, FileStart):
            is_log = item.kind is FileKind.LOG
            directory = os.path.dirname(item.path)
            if is_log and (fold is None or directory != fold.path):
                if fold is not None:
                    yield fold.figures()
                fold = Fold(directory)
            if is_log and fold is not None:
                fold.file(item.size or 0)
        elif is_log and fold is not None and isinstance(item, Chunk):
            fold.add(item)
        yield item
    if fold is not None:
        yield fold.figures()


class Fold:
    """Adds up the logs of a directory.

    Args:
        path: of the directory.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._files = self._size = self._batches = self._records = 0
        self._control_batches = self._tombstones = 0
        self._first: int | None = None
        self._last: int | None = None
        self._earliest: int | None = None
        self._latest: int | None = None
        self._codecs: dict[int, list[int]] = {}
        self._producers: set[int] = set()
        self._epochs: list[list[int]] = []
        self._epoch: list[int] | None = None  # the run in hand
        self._runs = 0
        self._transactions = Transactions()
        self._keys, self._values = _Sizes(), _Sizes()
        self._complete = True

    def file(self, size: int) -> None:
        """Take a log of so many bytes into account."""
        self._files += 1
        self._size += size

    def add(self, chunk: Chunk) -> None:
        """Take the batches and records of a chunk into account; all of its batches have one codec."""
        window, first = chunk.window, chunk.first + chunk.begun
        attributes = window.column(layout.ATTRIBUTES)[chunk.first : chunk.last]
        codec = self._codecs.setdefault(attributes[0] & layout.CODEC_MASK, [0, 0, 0, 0])
        if first < chunk.last:
            self._add_batches(chunk, first, codec)
        self._add_records(chunk, codec, any(map(_FLAGS.__and__, attributes)))
        if any(map(_FLAGS.__and__, attributes)):
            self._transactions.add(chunk)
        self._complete &= chunk.problem is None

    def _add_batches(self, chunk: Chunk, first: int, codec: list[int]) -> None:
        window, rows = chunk.window, slice(first, chunk.last)
        count, size = chunk.last - first, sum(window.column(layout.SIZE)[rows])
        self._batches += count
        codec[0] += count
        codec[2] += size
        if window.cell(first, layout.ATTRIBUTES) & layout.CODEC_MASK == 0:
            codec[3] += size
        elif window.cell(first, layout.MAGIC) >= layout.MAGIC_V2:
            codec[3] += count * layout.RECORDS_AT
        bases, lasts = window.column(layout.BASE_OFFSET)[rows], window.column(layout.LAST_OFFSET)[rows]
        base = min(bases)
        if base >= 0:  # compressed messages of magic 0 and 1: their records tell
            self._first = base if self._first is None else min(self._first, base)
        self._last = max(lasts) if self._last is None else max(self._last, *lasts)
        self._control_batches += sum(1 for one in window.column(layout.ATTRIBUTES)[rows] if one & layout.CONTROL_FLAG)
        producers = set(window.column(layout.PRODUCER_ID)[rows]) - {_NO_PRODUCER}
        if len(self._producers) + len(producers) <= MOST_PRODUCERS or producers <= self._producers:
            self._producers |= producers
        else:
            self._complete = False
        epochs = window.column(layout.LEADER_EPOCH)[rows]
        if len(set(epochs)) == 1:
            self._add_epoch(epochs[0], base, max(lasts), count)
        else:
            for epoch, start, last in zip(epochs, bases, lasts, strict=True):
                self._add_epoch(epoch, start, last, 1)

    def _add_epoch(self, epoch: int, first: int, last: int, batches: int) -> None:
        if epoch == layout.NO_EPOCH:
            return
        if self._epoch is not None and self._epoch[0] == epoch:
            self._epoch[2] = max(last, self._epoch[2])
            self._epoch[3] += batches
            return
        self._epoch = [epoch, first, last, batches]
        self._runs += 1
        if len(self._epochs) < MOST_EPOCHS:
            self._epochs.append(self._epoch)

    def _add_records(self, chunk: Chunk, codec: list[int], has_flags: bool) -> None:
        rows, width = chunk.rows, layout.RECORD_WIDTH
        if not chunk.filled:
            return
        self._records += chunk.filled
        codec[1] += chunk.filled

        def column(number: int) -> array[int]:
            return rows[number : chunk.filled * width : width]

        first = column(layout.R_OFFSET)[0]
        self._first = first if self._first is None else min(self._first, first)

        if chunk.window.cell(chunk.first, layout.ATTRIBUTES) & layout.CODEC_MASK:
            cut = chunk.cut
            codec[3] += sum(column(layout.R_END)) - sum(column(layout.R_AT)) if cut is None else cut.size
        times = set(column(layout.R_TIMESTAMP)) - {_NO_TIMESTAMP}
        if times:
            self._earliest = min(times) if self._earliest is None else min(self._earliest, *times)
            self._latest = max(times) if self._latest is None else max(self._latest, *times)
        keys, values = list(column(layout.R_KEY_SIZE)), list(column(layout.R_VALUE_SIZE))
        if chunk.cut is not None:
            keys, values = [chunk.cut.key_size], [chunk.cut.value_size]
        if has_flags:  # control records have no key and no value that would be anybody's
            control = [one & layout.CONTROL_FLAG for one in chunk.window.column(layout.ATTRIBUTES)]
            data = [i for i, k in enumerate(column(layout.R_BATCH)) if not control[k]]
            keys, values = [keys[i] for i in data], [values[i] for i in data]
        self._keys.add(keys)
        self._values.add(values)
        if min(values, default=0) < 0:
            self._tombstones += sum(1 for key, value in zip(keys, values, strict=True) if value < 0 <= key)

    def figures(self) -> Figures:
        """Return what all that was added comes to."""
        transactions = self._transactions
        return Figures(
            path=self.path,
            files=self._files,
            size=self._size,
            batches=self._batches,
            records=self._records,
            first_offset=self._first,
            last_offset=self._last,
            min_timestamp=self._earliest,
            max_timestamp=self._latest,
            codecs=tuple(CodecFigures(number, *numbers) for number, numbers in sorted(self._codecs.items())),
            producers=len(self._producers),
            epochs=tuple(EpochFigures(*run) for run in self._epochs),
            epoch_changes=max(0, self._runs - 1),
            committed=transactions.committed.figures(),
            aborted=transactions.aborted.figures(),
            open_count=transactions.open_count,
            open=transactions.oldest(),
            control_batches=self._control_batches,
            tombstones=self._tombstones,
            keys=self._keys.figures(),
            values=self._values.figures(),
            complete=self._complete and transactions.complete,
        )


class _Sizes:
    """Adds up sizes of keys or of values."""

    def __init__(self) -> None:
        self._count = self._nulls = self._total = 0
        self._smallest: int | None = None
        self._largest: int | None = None
        self._counts: Counter[int] = Counter()

    def add(self, sizes: list[int]) -> None:
        """Take sizes into account, below 0 for null."""
        for size, count in Counter(sizes).items():
            if size < 0:
                self._nulls += count
                continue
            self._count += count
            self._total += size * count
            self._smallest = size if self._smallest is None else min(self._smallest, size)
            self._largest = size if self._largest is None else max(self._largest, size)
            self._counts[1 << (size - 1).bit_length() if size else 0] += count

    def figures(self) -> SizeFigures:
        """Return what all that was added comes to."""
        histogram = tuple(sorted(self._counts.items()))
        return SizeFigures(self._count, self._nulls, self._total, self._smallest, self._largest, histogram)


class Transactions:
    """Follows transactions.

    Attributes:
        committed, aborted: those that ended.
        complete: all open ones could be followed.
    """

    def __init__(self) -> None:
        self.committed, self.aborted = Ended(), Ended()
        self.complete = True
        self._open: dict[int, list[int]] = {}  # by producer: the fields of OpenTransactionFigures without its id
        self._marked: tuple[int, int] | None = None  # the control batch whose marker was read

    @property
    def open_count(self) -> int:
        """The number of open transactions."""
        return len(self._open)

    def oldest(self) -> tuple[OpenTransactionFigures, ...]:
        """Return the open ones that began first."""
        oldest = nsmallest(MOST_SHOWN, self._open.items(), key=lambda one: one[1][1])
        return tuple(OpenTransactionFigures(producer, *fields) for producer, fields in oldest)

    def add(self, chunk: Chunk) -> None:
        """Take the batches of a chunk into account."""
        width = layout.RECORD_WIDTH
        batches = chunk.rows[layout.R_BATCH : chunk.filled * width : width]
        for k in range(chunk.first, chunk.last):
            batch = chunk.window.row(k)
            attributes = batch[layout.ATTRIBUTES]
            if batch[layout.MAGIC] < layout.MAGIC_V2 or not attributes & layout.TRANSACTIONAL_FLAG:
                continue
            if not attributes & layout.CONTROL_FLAG:
                if k > chunk.first or not chunk.begun:
                    self._data(batch)
                continue
            i = bisect_left(batches, k)
            this = batch[layout.POSITION], batch[layout.BASE_OFFSET]
            if i < chunk.filled and batches[i] == k and this != self._marked:
                self._marked = this
                self._marker(batch, chunk.view, chunk.rows[i * width : (i + 1) * width])

    def _data(self, batch: array[int]) -> None:
        producer = batch[layout.PRODUCER_ID]
        fields = self._open.get(producer)
        if fields is None:
            if len(self._open) >= MOST_OPEN:
                self.complete = False
                return
            first = batch[layout.BASE_OFFSET], batch[layout.BASE_TIMESTAMP]
            self._open[producer] = fields = [batch[layout.PRODUCER_EPOCH], *first, 0, 0, 0]
        fields[3] += 1
        fields[4] += batch[layout.COUNT]
        fields[5] += batch[layout.SIZE]

    def _marker(self, batch: array[int], view: memoryview, record: array[int]) -> None:
        key, _ = key_and_value(view, record)
        kind = (key or b"")[_TYPE_AT : _TYPE_AT + 2]
        if kind not in (_ABORT, _COMMIT):
            return
        ended = self.aborted if kind == _ABORT else self.committed
        ended.add(self._open.pop(batch[layout.PRODUCER_ID], None), record[layout.R_TIMESTAMP])


class Ended:
    """Adds up transactions that ended in one way."""

    def __init__(self) -> None:
        self._count = self._batches = self._records = self._size = self._timed = self._total = 0
        self._shortest: int | None = None
        self._longest: int | None = None

    def add(self, fields: list[int] | None, timestamp: int) -> None:
        """Take a transaction into account.

        Args:
            fields: of OpenTransactionFigures without its id; None where its data is not there.
            timestamp: of its marker, ms.
        """
        self._count += 1
        if fields is None:
            return
        _, _, begun, batches, records, size = fields
        self._batches += batches
        self._records += records
        self._size += size
        took = timestamp - begun
        self._timed += 1
        self._total += took
        self._shortest = took if self._shortest is None else min(self._shortest, took)
        self._longest = took if self._longest is None else max(self._longest, took)

    def figures(self) -> EndedTransactions:
        """Return what all that was added comes to."""
        totals = self._count, self._batches, self._records, self._size, self._timed
        return EndedTransactions(*totals, self._shortest, self._longest, self._total)
