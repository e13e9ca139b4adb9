"""The row of `dump --stats`: the totals of the logs of a directory."""

from __future__ import annotations

from kdump.row import Kind, Row, column, computed


class CodecFigures(Row):
    """The batches of one codec."""

    compresscodec: str = column(Kind.WORD, "Kafka's name of it")
    batches: int = column(Kind.COUNT, "batches")
    records: int = column(Kind.COUNT, "records")
    size: int = column(Kind.SIZE, "of the batches as they are", key="bytes")
    uncompressed_bytes: int = column(Kind.SIZE, "that they would have without compression")

    @computed(Kind.NUMBER, "uncompressed by compressed; null where there are no bytes")
    def ratio(self) -> float | None:
        """How much smaller they are."""
        return round(self.uncompressed_bytes / self.size, 2) if self.size else None


class EpochFigures(Row):
    """Batches with one leader epoch, one behind the other."""

    epoch: int = column(Kind.NUMBER, "leader epoch")
    first_offset: int = column(Kind.OFFSET, "the first one")
    last_offset: int = column(Kind.OFFSET, "the last one")
    batches: int = column(Kind.COUNT, "batches")


class EndedTransactions(Row):
    """The transactions that ended in one way."""

    count: int = column(Kind.COUNT, "of their markers")
    batches: int = column(Kind.COUNT, "of their data, as far as it is here")
    records: int = column(Kind.COUNT, "of their data, as far as it is here")
    size: int = column(Kind.SIZE, "of their data, as far as it is here", key="bytes")
    timed: int  # transactions whose first batch is here
    min_duration_ms: int | None = column(
        Kind.NUMBER, "from the first batch to the marker; null where no first batch is here"
    )
    max_duration_ms: int | None = column(Kind.NUMBER, "the longest; null where no first batch is here")

    @computed(Kind.NUMBER, "of all; null where no first batch is here")
    def average_duration_ms(self) -> float | None:
        """From the first batch to the marker."""
        return round(self.total_ms / self.timed, 1) if self.timed else None

    total_ms: int  # time of all of them


class OpenTransactionFigures(Row):
    """A transaction without a marker."""

    latest: int  # timestamp in the logs, ms; 0 for none
    producer_id: int = column(Kind.NUMBER, "of its first batch")
    producer_epoch: int = column(Kind.NUMBER, "of its first batch")
    first_offset: int = column(Kind.OFFSET, "of its first batch")
    first_timestamp: int = column(Kind.TIME, "of its first batch")

    @computed(Kind.NUMBER, "from its first batch to the latest timestamp in the logs")
    def age_ms(self) -> int:
        """How old it is."""
        return max(0, self.latest - self.first_timestamp)

    batches: int = column(Kind.COUNT, "of its data")
    records: int = column(Kind.COUNT, "of its data")
    size: int = column(Kind.SIZE, "of its data", key="bytes")


class TransactionFigures(Row):
    """The transactions of the logs of a directory."""

    committed: EndedTransactions = column(Kind.ROW, "those that ended so", of=EndedTransactions)
    aborted: EndedTransactions = column(Kind.ROW, "those that ended so", of=EndedTransactions)
    open_count: int = column(Kind.COUNT, "those that did not end")
    open: tuple[OpenTransactionFigures, ...] = column(Kind.ROW, "the oldest ones", of=OpenTransactionFigures)


class SizeCount(Row):
    """A bar of a histogram of sizes."""

    up_to: int = column(Kind.SIZE, "inclusive: 0 and powers of 2, each from above the one before")
    count: int = column(Kind.COUNT, "of these sizes")


class SizeFigures(Row):
    """The sizes of keys, or of values; control records do not count."""

    count: int = column(Kind.COUNT, "of those that are not null")
    nulls: int = column(Kind.COUNT, "how many are null")
    size: int = column(Kind.SIZE, "of all together", key="bytes")
    min_size: int | None = column(Kind.SIZE, "null where there are none")
    max_size: int | None = column(Kind.SIZE, "null where there are none")

    @computed(Kind.NUMBER, "in bytes; null where there are none")
    def average_size(self) -> float | None:
        """In bytes."""
        return round(self.size / self.count, 1) if self.count else None

    histogram: tuple[SizeCount, ...] = column(Kind.ROW, "ascending", of=SizeCount)


class Largest(Row):
    """The first of the records, or batches, of the largest size."""

    offset: int = column(Kind.OFFSET, "its offset, of a batch the base offset")
    size: int = column(Kind.SIZE, "of key and value together, of a batch as it is in the log")


class Figures(Row, name="stats"):
    """The totals of the logs of a directory."""

    path: str = column(Kind.PATH, "of the directory, as the user wrote it")
    files: int = column(Kind.COUNT, "files")
    size: int = column(Kind.SIZE, "of the files", key="bytes")
    batches: int = column(Kind.COUNT, "batches")
    records: int = column(Kind.COUNT, "records")
    first_offset: int | None = column(Kind.OFFSET, "the first one; null without a batch")
    last_offset: int | None = column(Kind.OFFSET, "the last one; null without a batch")
    min_timestamp: int | None = column(Kind.TIME, "of records; null where none has one")
    max_timestamp: int | None = column(Kind.TIME, "of records; null where none has one")
    codecs: tuple[CodecFigures, ...] = column(Kind.ROW, "in the order of their numbers", of=CodecFigures)
    producers: int = column(Kind.COUNT, "how many producer ids")
    epochs: tuple[EpochFigures, ...] = column(
        Kind.ROW, "the first thousand of the runs of batches with one leader epoch, in order", of=EpochFigures
    )
    epoch_changes: int = column(Kind.COUNT, "how often the leader epoch changes")
    transactions: TransactionFigures = column(Kind.ROW, "of all producers", of=TransactionFigures)
    control_batches: int = column(Kind.COUNT, "with markers, or records of KRaft")
    tombstones: int = column(Kind.COUNT, "records with a key and without a value")
    keys: SizeFigures = column(Kind.ROW, "their sizes", of=SizeFigures)
    values: SizeFigures = column(Kind.ROW, "their sizes", of=SizeFigures)
    largest_record: Largest | None = column(
        Kind.ROW, "by key and value; control records do not count; null where there are none", of=Largest
    )
    largest_batch: Largest | None = column(Kind.ROW, "null where there is none", of=Largest)
    complete: bool = column(
        Kind.FLAG,
        "false where a limit was met, or records could not be read: producers and open transactions are at least so "
        "many",
    )
