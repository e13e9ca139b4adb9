"""Rows of dump about files: that one begins, and what a log comes to."""

from __future__ import annotations

from kdump.format.kinds import FileKind
from kdump.row import Kind, Row, column
from kdump.verdict import VERDICTS


class FileRow(Row, name="file"):
    """A file begins; what follows is about it."""

    file: str = column(Kind.PATH, "as the user wrote it")
    kind: str = column(
        Kind.WORD,
        "which file of a broker it is",
        words=tuple(one.value for one in FileKind if one is not FileKind.UNKNOWN),
    )
    base_offset: int | None = column(
        Kind.OFFSET,
        "the number in its name, or what --base-offset says: of a segment its base offset, of a snapshot the offset "
        "before which it ends; null where neither says one",
    )
    size: int = column(Kind.SIZE, "bytes")


class SegmentRow(Row, name="segment"):
    """What a log comes to."""

    file: str = column(Kind.PATH, "the log")
    base_offset: int | None = column(Kind.OFFSET, "that of its name")
    next_offset: int | None = column(Kind.OFFSET, "the offset after its last batch")
    size: int | None = column(Kind.SIZE, "bytes")
    batches: int | None = column(Kind.COUNT, "that were read")
    records: int | None = column(
        Kind.COUNT,
        "that were read or, where none were asked for, the number that the headers of the batches have; null where "
        "compressed messages of magic 0 or 1 hide it",
    )
    first_timestamp: int | None = column(Kind.TIME, "of its first batch; null without one")
    max_timestamp: int | None = column(Kind.TIME, "the largest one; null without one")
    status: str = column(
        Kind.WORD,
        "the verdict: LOST where offsets are lost and no error says more; UNREAD where the disk could not read it to "
        "its end",
        words=VERDICTS,
    )


class PartitionSummary(Row, name="partitionSummary"):
    """What a partition directory comes to."""

    segments: int = column(Kind.COUNT, "segments")
    size: int = column(Kind.SIZE, "of its logs", key="bytes")
    batches: int = column(Kind.COUNT, "that were read")
    records: int = column(Kind.COUNT, "that were read, where that can be told")
    errors: int = column(Kind.COUNT, "findings of this severity, those of the checkpoints about it too")
    warnings: int = column(Kind.COUNT, "findings of this severity, those of the checkpoints about it too")
    offsets_lost: int = column(Kind.COUNT, "that readers do not get and that were there")
    records_lost: int = column(Kind.COUNT, "in these offsets, as far as they can be counted")
    unread: int = column(Kind.COUNT, "files that could not be read, or not to their end")
    status: str = column(Kind.WORD, "the verdict", words=VERDICTS)
    first_timestamp: int | None = column(Kind.TIME, "the lowest of the segments; null where none has one")
    max_timestamp: int | None = column(Kind.TIME, "the highest of the segments; null where none has one")
    read_at: int | None = column(
        Kind.TIME, "the oldest time at which bytes of its segments were read; null without --update", default=None
    )
    run: str | None = column(Kind.WORD, "id of the run that wrote the row; null without --update", default=None)


class UnreadRow(Row, name="unread"):
    """A file that could not be opened, or a path that leads nowhere."""

    file: str = column(Kind.PATH, "the file")
    phase: str = column(
        Kind.WORD,
        "plan where that was found when the work was planned, read where the work is done, perhaps on another machine",
        words=("plan", "read"),
    )
    reason: str = column(Kind.TEXT, "one sentence")
    size: int | None = column(Kind.SIZE, "of a log, as it was seen; null where it is not known", key="bytes")
    run: str | None = column(Kind.WORD, "id of the run that wrote the row; null without --update", default=None)


class PlaceRow(Row):
    """Where a row of a table is from: every table begins with these columns."""

    cluster: str | None = column(
        Kind.NAME,
        "the cluster.id in the meta.properties of the log directory, else what a manifest says; null where neither "
        "does",
    )
    broker: int | None = column(
        Kind.INT,
        "the node.id (of old releases broker.id) in the meta.properties of the log directory, else what a manifest "
        "says; null where neither does",
    )
    host: str | None = column(Kind.NAME, "what a manifest says; null where it is not known")
    log_dir: str | None = column(Kind.PATH, "the log directory; null where it is not known")
    topic: str | None = column(Kind.TOPIC, "by the name of the directory")
    partition: int | None = column(Kind.INT, "by the name of the directory")
