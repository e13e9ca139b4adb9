"""The rows of du."""

from __future__ import annotations

from kdump.row import Kind, Row, column, computed
from kdump.value import Value


class Freeable(Row):
    """What retention frees of a partition, or of several."""

    size: int = column(Kind.SIZE, "of the logs that a broker deletes now", key="bytes")
    segments: int = column(Kind.COUNT, "of these logs")
    next_at: int | None = column(Kind.TIME, "when it deletes more, as all is now; null for never")
    next_bytes: int = column(Kind.SIZE, "of the logs that it deletes then")
    why: str | None = column(Kind.WORD, "the reason of what goes now; null where nothing does")


class Usage(Row, name="usage"):
    """What uses the space, for one name; the last row has what belongs to no name, or is not listed."""

    by: str = column(
        Kind.WORD,
        "what the name is one of",
        words=("topic", "partition", "kind", "codec", "producer", "day", "group", "key"),
    )
    name: str | bytes | None = column(Kind.PATH, "null for what has no name, or is not listed; a key as it is")

    @computed(Kind.SIZE, "all its files", key="bytes")
    def size(self) -> int:
        """Bytes of all its files."""
        return self.log_bytes + self.index_bytes + self.other_bytes + self.leftover_bytes

    log_bytes: int = column(Kind.SIZE, "of logs")
    index_bytes: int = column(Kind.SIZE, "of indexes")
    other_bytes: int = column(Kind.SIZE, "of snapshots, checkpoints and the rest")
    leftover_bytes: int = column(
        Kind.SIZE,
        "of what a broker has given up: .deleted, .swap and .cleaned files, -delete and -stray directories",
    )
    allocated_bytes: int = column(
        Kind.SIZE,
        "what the files take on the disk; where no file of a file system has any block, what they are long",
    )
    files: int = column(Kind.COUNT, "files")
    segments: int = column(Kind.COUNT, "segments")
    batches: int = column(Kind.COUNT, "batches")
    records: int = column(Kind.COUNT, "by the headers of the batches, markers too")
    key_bytes: int | None = column(Kind.SIZE, "of the keys; null where records were not read")
    value_bytes: int | None = column(Kind.SIZE, "of the values; null where records were not read")
    uncompressed_bytes: int | None = column(
        Kind.SIZE, "of the batches as they would be without compression; null where records were not read"
    )
    first_timestamp: int | None = column(Kind.TIME, "the lowest of the batches; null where there is none")
    max_timestamp: int | None = column(Kind.TIME, "the highest of the batches; null where there is none")
    superseded_records: int | None = column(
        Kind.COUNT, "that a newer record of the same key replaces; null without --superseded"
    )
    superseded_bytes: int | None = column(Kind.SIZE, "of these records; null without --superseded")
    exact: bool = column(Kind.FLAG, "false where there were too many names to count each")
    error_bytes: int = column(Kind.SIZE, "at most so many are missing then")
    freeable: Freeable | None = column(
        Kind.ROW,
        "what retention deletes; null for a row that is not of topics or partitions, and where the cleanup.policy is "
        "not known",
        of=Freeable,
        default=None,
    )
    compaction_waits: tuple[str, ...] = column(
        Kind.TEXT, "the reasons why the cleaner does not take it yet", default=()
    )
    assumed: tuple[str, ...] = column(Kind.TEXT, "of the broker and the configuration", default=())

    @property
    def weight(self) -> int:
        """What rows are ranked by, and what shares are of, in bytes.

        Of files it is what they take on the disk, however long they are. Of what batches say it is their bytes; of a
        key what its records have, for compressed bytes belong to no single one.
        """
        if self.by == "key":
            return (self.key_bytes or 0) + (self.value_bytes or 0)
        return self.allocated_bytes if self.by in ("topic", "partition", "kind") else self.size


class PlacedUsage(Value):
    """The row of a partition in one log directory."""

    path: str  # of its directory; of a file of the log directory for what lies in no partition
    usage: Usage


class Growth(Row, name="growth"):
    """How fast something grows, by the timestamps of its batches."""

    name: str | bytes | None = column(Kind.PATH, "as in usage; null for all")
    bytes_per_day: int | None = column(Kind.SIZE, "null where the batches tell no time")
    from_timestamp: int | None = column(Kind.TIME, "of the batches that count, the lowest")
    to_timestamp: int | None = column(Kind.TIME, "of the batches that count, the highest")
    set_aside_batches: int = column(Kind.COUNT, "with odd timestamps, which do not count")
    full_at: int | None = column(Kind.TIME, "when it has the size that was asked for; null for never")
    days_left: float | None = column(Kind.NUMBER, "until then, 0 where it is full; null for never")
