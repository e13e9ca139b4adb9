"""`dump --stats`: the logs of each directory folded into figures, a chunk at a time.

A transaction counts from the first batch of its producer to its marker. Nothing grows with a log but what is counted
apart: producers, open transactions and leader epochs, up to a limit.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left
from collections import Counter
from heapq import nsmallest
from typing import TYPE_CHECKING, Any, Protocol

from kdump.format.batch import layout
from kdump.format.codec.base import codec_name
from kdump.format.kinds import FileKind
from kdump.format.record.chunk import Chunk
from kdump.format.record.reader import key_and_value
from kdump.item import FileStart
from kdump.rows.stats import (
    CodecFigures,
    EndedTransactions,
    EpochFigures,
    Figures,
    Largest,
    OpenTransactionFigures,
    SizeCount,
    SizeFigures,
    TransactionFigures,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kdump.item import Item
    from kdump.render.turns import TurnSink

    class StatsSink(TurnSink, Protocol):
        """A sink that ends."""

        def end(self, *, dead: bool) -> None:
            """Write what is held back."""


MOST_PRODUCERS = 100_000  # more are not told apart
MOST_EPOCHS = 1000  # runs that are kept
_NO_TIMESTAMP = -1
_NO_PRODUCER = -1
_FLAGS = layout.TRANSACTIONAL_FLAG | layout.CONTROL_FLAG
MOST_OPEN = 100_000  # open transactions that are followed
MOST_SHOWN = 1000  # of them
_TYPE_AT = 2  # in the key of a marker
_ABORT, _COMMIT = b"\0\0", b"\0\1"


class FiguresSink:
    """Folds the logs of each directory on their way to a sink, and writes there what they come to.

    What several processes read is folded range by range, and joined in order (see `kdump.render.turns`).

    Args:
        sink: takes all items, and the figures behind the logs of a directory.
    """

    def __init__(self, sink: StatsSink) -> None:
        self._sink = sink
        self._fold: Fold | None = None
        self._is_log = False

    def __call__(self, item: Item) -> str | None:
        """Take one item."""
        if isinstance(item, FileStart):
            self._is_log = item.kind is FileKind.LOG
            directory = os.path.dirname(item.path)
            if self._is_log and (self._fold is None or directory != self._fold.path):
                self._tell()
                self._fold = Fold(directory)
            if self._is_log and self._fold is not None:
                self._fold.file(item.size or 0)
        elif self._is_log and self._fold is not None and isinstance(item, Chunk):
            self._fold.add(item)
        return self._sink(item)

    def _tell(self) -> None:
        if self._fold is not None:
            self._sink(self._fold.figures())

    def end(self, *, dead: bool) -> None:
        """Write the last figures, and what is held back.

        Args:
            dead: for sinks that mirror Kafka's tool.
        """
        self._tell()
        self._sink.end(dead=dead)

    def died(self, exception: str) -> None:
        """Kafka's tool has no such figures, and is not mirrored."""
        raise AssertionError(exception)

    # --- in turn --------------------------------------------------------------------------------------------
    @property
    def state(self) -> object:
        """What was shown and folded so far."""
        return self._sink.state, self._fold, self._is_log

    def resume(self, state: Any) -> None:  # noqa: ANN401 (what `state` was)
        """Go on from where another sink was."""
        shown, self._fold, self._is_log = state
        self._sink.resume(shown)

    def go_on(self, file: FileStart) -> None:
        """Fold by itself what is read of a file that another sink has begun to show."""
        self._is_log = file.kind is FileKind.LOG
        self._fold = Fold(os.path.dirname(file.path), ahead=True)
        self._sink.go_on(file)

    def is_bulk(self, item: Item) -> bool:
        """Tell whether what is written of an item hangs on nothing that was shown before."""
        return self._sink.is_bulk(item)

    def share(self) -> object:
        """Return what was counted and folded since `go_on`."""
        return self._sink.share(), self._fold

    def may_join(self, state: Any, share: Any) -> bool:  # noqa: ANN401 (what `state` and `share` were)
        """Tell whether no limit is met when a share is joined."""
        fold = state[1]
        return share is None or fold is None or fold.may_join(share[1])

    def join(self, share: Any) -> None:  # noqa: ANN401 (what `share` was)
        """Count and fold what another sink has."""
        if share is None:
            return
        self._sink.join(share[0])
        if self._is_log and self._fold is not None:
            self._fold.join(share[1])

    def flush(self) -> None:
        """Write out what is collected."""
        self._sink.flush()


class Fold:
    """Adds up the logs of a directory.

    Args:
        path: of the directory.
        ahead: what lies before is not known, and is joined later.
    """

    def __init__(self, path: str, *, ahead: bool = False) -> None:
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
        self._transactions = Transactions(ahead=ahead)
        self._keys, self._values = _Sizes(), _Sizes()
        self._largest = _LargestOnes()
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
        self._largest.add_batches(bases, lasts, window.column(layout.SIZE)[rows])
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
        offsets = column(layout.R_OFFSET)
        if has_flags:  # control records have no key and no value that would be anybody's
            control = [one & layout.CONTROL_FLAG for one in chunk.window.column(layout.ATTRIBUTES)]
            data = [i for i, k in enumerate(column(layout.R_BATCH)) if not control[k]]
            keys, values = [keys[i] for i in data], [values[i] for i in data]
            offsets = array("q", [offsets[i] for i in data])
        self._largest.add_records(offsets, keys, values)
        self._keys.add(keys)
        self._values.add(values)
        if min(values, default=0) < 0:
            self._tombstones += sum(1 for key, value in zip(keys, values, strict=True) if value < 0 <= key)

    def may_join(self, other: Fold) -> bool:
        """Tell whether no limit is met when what another one has is joined: else it hangs on the order of batches."""
        producers = len(self._producers) + len(other._producers)
        return producers <= MOST_PRODUCERS and self._transactions.may_join(other._transactions)

    def join(self, other: Fold) -> None:
        """Add what another one has of what follows, which was made with `ahead`."""
        self._batches += other._batches
        self._records += other._records
        self._control_batches += other._control_batches
        self._tombstones += other._tombstones
        self._first = _least(self._first, other._first)
        self._last = _most(self._last, other._last)
        self._earliest = _least(self._earliest, other._earliest)
        self._latest = _most(self._latest, other._latest)
        for codec, numbers in other._codecs.items():
            mine = self._codecs.setdefault(codec, [0, 0, 0, 0])
            mine[:] = map(sum, zip(mine, numbers, strict=True))
        self._producers |= other._producers
        for epoch, first, last, batches in other._epochs:
            self._add_epoch(epoch, first, last, batches)
        if other._runs > len(other._epochs):  # those behind are only counted
            self._runs += other._runs - len(other._epochs)
            self._epoch = other._epoch
        self._transactions.join(other._transactions)
        self._keys.join(other._keys)
        self._values.join(other._values)
        self._largest.join(other._largest)
        self._complete &= other._complete

    def figures(self) -> Figures:
        """Return what all that was added comes to."""
        transactions = self._transactions
        return Figures(
            path=self.path or ".",
            files=self._files,
            size=self._size,
            batches=self._batches,
            records=self._records,
            first_offset=self._first,
            last_offset=self._last,
            min_timestamp=self._earliest,
            max_timestamp=self._latest,
            codecs=tuple(
                CodecFigures(codec_name(number), *numbers) for number, numbers in sorted(self._codecs.items())
            ),
            producers=len(self._producers),
            epochs=tuple(EpochFigures(*run) for run in self._epochs),
            epoch_changes=max(0, self._runs - 1),
            transactions=transactions.figures(self._latest or 0),
            control_batches=self._control_batches,
            tombstones=self._tombstones,
            keys=self._keys.figures(),
            values=self._values.figures(),
            largest_record=self._largest.record,
            largest_batch=self._largest.batch,
            complete=self._complete and transactions.complete,
        )


class _LargestOnes:
    """The first of the largest records, and of the largest batches."""

    def __init__(self) -> None:
        self.record: Largest | None = None
        self.batch: Largest | None = None

    def add_records(self, offsets: Sequence[int], keys: list[int], values: list[int]) -> None:
        """Take records into account: sizes below 0 are those of null."""
        known = -1 if self.record is None else self.record.size
        if max(keys, default=-1) + max(values, default=-1) <= known and known >= 0:
            return  # most chunks have none that is larger
        sizes = [max(key, 0) + max(value, 0) for key, value in zip(keys, values, strict=True)]
        if sizes:
            at = sizes.index(max(sizes))
            self.record = _larger(self.record, Largest(offsets[at], sizes[at]))

    def add_batches(self, bases: Sequence[int], lasts: Sequence[int], sizes: Sequence[int]) -> None:
        """Take batches into account; compressed ones of magic 0 and 1 have no base offset, but their last one."""
        at = sizes.index(max(sizes))
        self.batch = _larger(self.batch, Largest(bases[at] if bases[at] >= 0 else lasts[at], sizes[at]))

    def join(self, other: _LargestOnes) -> None:
        """Add what another one has of what follows."""
        self.record = _larger(self.record, other.record)
        self.batch = _larger(self.batch, other.batch)


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

    def join(self, other: _Sizes) -> None:
        """Add what another one has."""
        self._count += other._count
        self._nulls += other._nulls
        self._total += other._total
        self._smallest = _least(self._smallest, other._smallest)
        self._largest = _most(self._largest, other._largest)
        self._counts.update(other._counts)

    def figures(self) -> SizeFigures:
        """Return what all that was added comes to."""
        histogram = tuple(SizeCount(up_to, count) for up_to, count in sorted(self._counts.items()))
        return SizeFigures(self._count, self._nulls, self._total, self._smallest, self._largest, histogram)


class Transactions:
    """Follows transactions.

    Args:
        ahead: what lies before is not known: what may belong to a transaction that began there is kept apart.

    Attributes:
        committed, aborted: those that ended.
    """

    def __init__(self, *, ahead: bool = False) -> None:
        self.committed, self.aborted = Ended(), Ended()
        self.complete = True  # all open ones could be followed
        # by producer, of what came first: its data, None for none, and its marker: whether it aborts, and its timestamp
        self._heads: dict[int, tuple[list[int] | None, tuple[bool, int] | None]] | None = {} if ahead else None
        self._open: dict[int, list[int]] = {}  # by producer: the fields of OpenTransactionFigures without its id
        self._marked: tuple[int, int] | None = None  # the control batch whose marker was read

    def figures(self, latest: int) -> TransactionFigures:
        """Return what all come to; of the open ones those that began first.

        Args:
            latest: timestamp in the logs, ms.
        """
        oldest = nsmallest(MOST_SHOWN, self._open.items(), key=lambda one: one[1][1])
        shown = tuple(OpenTransactionFigures(latest, producer, *fields) for producer, fields in oldest)
        return TransactionFigures(self.committed.figures(), self.aborted.figures(), len(self._open), shown)

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
            if self._heads is not None and producer not in self._heads:
                self._heads[producer] = fields, None
        fields[3] += 1
        fields[4] += batch[layout.COUNT]
        fields[5] += batch[layout.SIZE]

    def _marker(self, batch: array[int], view: memoryview, record: array[int]) -> None:
        key, _ = key_and_value(view, record)
        kind = (key or b"")[_TYPE_AT : _TYPE_AT + 2]
        if kind not in (_ABORT, _COMMIT):
            return
        producer = batch[layout.PRODUCER_ID]
        fields, end = self._open.pop(producer, None), (kind == _ABORT, record[layout.R_TIMESTAMP])
        if self._heads is not None and self._heads.get(producer, (fields, None)) == (fields, None):
            self._heads[producer] = fields, end
        else:
            self._ended(fields, *end)

    def _ended(self, fields: list[int] | None, is_abort: bool, timestamp: int) -> None:
        (self.aborted if is_abort else self.committed).add(fields, timestamp)

    def may_join(self, other: Transactions) -> bool:
        """Tell whether no limit is met when what another one has is joined."""
        return len(self._open) + len(other._open) + len(other._heads or ()) < MOST_OPEN

    def join(self, other: Transactions) -> None:
        """Add what another one has of what follows, which was made with `ahead`."""
        heads = other._heads or {}
        for producer, (fields, end) in heads.items():
            if fields is not None:
                mine = self._open.setdefault(producer, [*fields[:3], 0, 0, 0])
                for number in (3, 4, 5):
                    mine[number] += fields[number]
            if end is not None:
                self._ended(self._open.pop(producer, None), *end)
        for producer, fields in other._open.items():
            if heads[producer] != (fields, None):
                self._open[producer] = fields
        self.committed.join(other.committed)
        self.aborted.join(other.aborted)
        self.complete &= other.complete


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

    def join(self, other: Ended) -> None:
        """Add what another one has."""
        self._count += other._count
        self._batches += other._batches
        self._records += other._records
        self._size += other._size
        self._timed += other._timed
        self._total += other._total
        self._shortest = _least(self._shortest, other._shortest)
        self._longest = _most(self._longest, other._longest)

    def figures(self) -> EndedTransactions:
        """Return what all that was added comes to."""
        totals = self._count, self._batches, self._records, self._size, self._timed
        return EndedTransactions(*totals, self._shortest, self._longest, self._total)


def _larger(one: Largest | None, other: Largest | None) -> Largest | None:
    """Return the larger one; of two that are equal the first."""
    if one is None or other is None:
        return one or other
    return other if other.size > one.size else one


def _least(one: int | None, other: int | None) -> int | None:
    return min((value for value in (one, other) if value is not None), default=None)


def _most(one: int | None, other: int | None) -> int | None:
    return max((value for value in (one, other) if value is not None), default=None)
