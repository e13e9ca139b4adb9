"""`dump --stats`: the logs of each directory folded into figures, a chunk at a time.

Nothing grows with a log but what is counted apart: producers, open transactions and leader epochs, up to a limit.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

from kdump.dump.transactions import Transactions
from kdump.figures import CodecFigures, EpochRun, Figures, SizeFigures
from kdump.format.batch import layout
from kdump.format.kinds import FileKind
from kdump.format.record.chunk import Chunk
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
            epochs=tuple(EpochRun(*run) for run in self._epochs),
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
