"""The statistics of the logs of a directory, for `dump --stats`. Sizes are in bytes, times in ms."""

from __future__ import annotations

from kdump.value import Value


class CodecFigures(Value):
    """The batches of one codec.

    Args:
        codec: number of the compression type.
        batches, records: how many.
        size: of the batches as they are.
        uncompressed: size that they would have without compression.
    """

    codec: int
    batches: int
    records: int
    size: int
    uncompressed: int


class EpochFigures(Value):
    """Batches with one leader epoch, one behind the other; offsets inclusive."""

    epoch: int
    first_offset: int
    last_offset: int
    batches: int


class EndedTransactions(Value):
    """The transactions that ended in one way.

    Args:
        count: of their markers.
        batches, records, size: of their data, as far as it is there.
        timed: transactions whose first batch is there.
        shortest, longest: from the first batch to the marker; None without such a transaction.
        total: time of all of them.
    """

    count: int
    batches: int
    records: int
    size: int
    timed: int
    shortest: int | None
    longest: int | None
    total: int


class OpenTransactionFigures(Value):
    """A transaction without a marker.

    Args:
        producer_id, producer_epoch: of its first batch.
        first_offset, first_timestamp: of its first batch.
        batches, records, size: of its data.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    first_timestamp: int
    batches: int
    records: int
    size: int


class SizeFigures(Value):
    """The sizes of keys, or of values; control records do not count.

    Args:
        count: of those that are not null.
        nulls: how many are null.
        total: bytes of all of them.
        smallest, largest: None where there are none.
        histogram: upper limits (inclusive, 0 and powers of 2) and counts, ascending.
    """

    count: int
    nulls: int
    total: int
    smallest: int | None
    largest: int | None
    histogram: tuple[tuple[int, int], ...]


class Figures(Value):
    """The statistics of the logs of a directory.

    Args:
        path: of the directory, as the user wrote it; empty for the current one.
        files, size, batches, records: how much there is.
        first_offset, last_offset: inclusive; None without a batch.
        min_timestamp, max_timestamp: of records; None where none has one.
        codecs: in the order of their numbers.
        producers: how many producer ids.
        epochs: the first of the runs with one leader epoch.
        epoch_changes: how often the leader epoch changes.
        committed, aborted: transactions that ended.
        open_count: transactions that did not.
        open: the oldest of them.
        control_batches: how many.
        tombstones: records with a key and without a value.
        keys, values: their sizes.
        complete: no limit was met, and all records could be read.
    """

    path: str
    files: int
    size: int
    batches: int
    records: int
    first_offset: int | None
    last_offset: int | None
    min_timestamp: int | None
    max_timestamp: int | None
    codecs: tuple[CodecFigures, ...]
    producers: int
    epochs: tuple[EpochFigures, ...]
    epoch_changes: int
    committed: EndedTransactions
    aborted: EndedTransactions
    open_count: int
    open: tuple[OpenTransactionFigures, ...]
    control_batches: int
    tombstones: int
    keys: SizeFigures
    values: SizeFigures
    complete: bool
