"""The rows of verify beside findings: what readers have lost, and what a broker does."""

from __future__ import annotations

from enum import Enum

from kdump.row import Kind, Row, column, computed
from kdump.value import Value


class Certainty(Enum):
    """What a loss is: see `Loss`."""

    LOST = "lost"
    DOUBTFUL = "doubtful"
    UNEXPLAINED = "unexplained"
    ABSENT = "absent"

    @property
    def is_loss(self) -> bool:
        """Whether a reader misses something that was there."""
        return self in (Certainty.LOST, Certainty.DOUBTFUL)


class Loss(Row, name="loss"):
    """Offsets that a reader of one replica does not get; no offset is in two losses of a partition."""

    path: str  # of the partition directory, as the user wrote it or below that
    partition: str = column(Kind.PARTITION, "the name of the directory")
    file: str | None = column(Kind.PATH, "the log where the bytes are, or were; null where no file has the place")
    position: int | None = column(Kind.POSITION, "of these bytes; null where there is no place")
    length: int | None = column(Kind.SIZE, "of these bytes, 0 for a place between two batches; null for no place")
    offset: int = column(Kind.OFFSET, "the first one")
    last_offset: int = column(Kind.OFFSET, "the last one")
    records: int | None = column(Kind.COUNT, "that are concerned; null where unknown")
    certainty: Certainty = column(
        Kind.WORD,
        "lost: no intact bytes are here; doubtful: bytes are here that no CRC vouches for, or that a consumer "
        "cannot read though their CRC is right; unexplained: no batch has them, and nothing here tells whether "
        "compaction or a loss took them; absent: never here, or compacted away",
        words=tuple(one.value for one in Certainty),
    )
    because: tuple[str, ...] = column(Kind.WORD, "codes of the findings that say why")
    replicas: tuple[str, ...] | None = None  # that have all of them intact; None where replicas were not compared

    @computed(Kind.PATH, "the replicas that have all intact; empty where replicas were not compared")
    def elsewhere(self) -> tuple[str, ...]:
        """The replicas that have all of them intact, as far as any were compared."""
        return self.replicas or ()

    is_known: bool = False  # the salvage that made the partition has told of it: it counts no more

    @property
    def offsets(self) -> int:
        """How many."""
        return self.last_offset - self.offset + 1

    @property
    def counts(self) -> bool:
        """Whether it counts in totals: a reader misses something that was there, and nobody has told of it before."""
        return self.certainty.is_loss and not self.is_known


class Place(Row):
    """Where a batch is."""

    is_list_of_values = True
    file: str = column(Kind.PATH, "its log")
    position: int = column(Kind.POSITION, "where it begins")


class Duplicate(Row, name="duplicate"):
    """Offsets that a log has more than once: a consumer may get them twice, and nothing is lost."""

    path: str  # of the partition directory, as the user wrote it or below that
    partition: str = column(Kind.PARTITION, "the name of the directory")
    offset: int = column(Kind.OFFSET, "the first one")
    last_offset: int = column(Kind.OFFSET, "the last one")
    places: tuple[Place, ...] = column(
        Kind.ROW, "file and position of each batch that has some, in the order of the log", of=Place
    )

    @property
    def offsets(self) -> int:
        """How many."""
        return self.last_offset - self.offset + 1


class ReplicaDiff(Row, name="replicaDiff"):
    """Where a replica is not the same as another one of its partition: a finding of --replicas."""

    offset: int | None = column(Kind.OFFSET, "the first one that is concerned")
    last_offset: int | None = column(Kind.OFFSET, "the last one")
    kind: str = column(
        Kind.WORD,
        "differs: both have something else there (D01); lacks: this one has nothing there (D02); short: it ends "
        "before them (D03)",
        words=("differs", "lacks", "short"),
    )
    brokers: tuple[int | None, ...] = column(
        Kind.INT, "of this replica and of the other one; null for one that is not known"
    )
    leader_epochs: tuple[int | None, ...] = column(
        Kind.NUMBER, "in which this replica and the other one have the first offset; null for one that has it not"
    )
    certainty: str = column(
        Kind.WORD,
        "intact: CRCs vouch for what is compared; doubtful: some of it has a wrong one",
        words=("intact", "doubtful"),
    )


class SegmentFate(Row):
    """What becomes of a segment when a broker starts."""

    base_offset: int = column(Kind.OFFSET, "of the segment")
    action: str = column(
        Kind.WORD,
        "of the broker",
        words=("keep", "rebuild-index", "truncate", "empty", "delete", "split", "create", "replace"),
    )
    size: int = column(Kind.SIZE, "of its log afterwards; 0 where it is deleted")


class TornBatch(Value):
    """The last batch of a log, whose end is not in the file; its header stands."""

    base_offset: int  # of its segment
    position: int  # bytes
    offset: int  # the first one of the batch
    last_offset: int


class LoadFailure(Row):
    """The finding that keeps a partition from loading."""

    code: str = column(Kind.WORD, "of the finding")
    file: str = column(Kind.PATH, "of the finding")


class LogsRead(Value):
    """How much of the logs of a partition a start reads."""

    # logs, size: all of them, bytes
    logs: int
    size: int
    # read, read_size: those that it recovers, bytes
    read: int
    read_size: int


class Prediction(Row, name="prediction"):
    """What the next start of a broker does with a partition."""

    path: str  # of the directory, as the user wrote it or below that
    partition: str = column(Kind.PARTITION, "the name of the directory")
    start: str = column(Kind.WORD, "which start", words=("clean", "unclean", "full", "auto"))

    @computed(
        Kind.WORD,
        "with auto: the start that is coming, by what lies in the log directory; else null",
        words=("clean", "unclean"),
    )
    def as_(self) -> str | None:
        """The start that is coming."""
        return None if self.is_clean is None else "clean" if self.is_clean else "unclean"

    broker: str = column(Kind.WORD, "whose start it is, the release of Kafka: 4.3; another one may do otherwise")
    loads: bool = column(Kind.FLAG, "the broker has the partition afterwards")
    stops: str | None = column(
        Kind.WORD,
        "what ends where it does not; null where it loads, or where the directory is renamed to -stray",
        words=("broker", "logdir"),
    )
    reason: str | None = column(Kind.TEXT, "why it does not, in plain words; null where it loads")
    reason_class: str | None = column(
        Kind.WORD, "the Java class of what the broker throws; null where it throws nothing"
    )
    log_start_offset: int | None = column(Kind.OFFSET, "afterwards; null where it does not load")
    log_end_offset: int | None = column(Kind.OFFSET, "afterwards; null where it does not load")
    bytes_lost: int = column(
        Kind.SIZE, "cut off or deleted from logs, before the failure where the partition does not load"
    )
    records_lost: int = column(Kind.COUNT, "those in batches whose CRC is right")
    hidden_records: int = column(
        Kind.COUNT,
        "that stay on disk, can be read today, and are outside of the log then; none is cut",
        default=0,
    )
    reused_offsets: tuple[int, int] | None = column(
        Kind.OFFSET,
        "first and last of those that were there before and are reused for new records, those of damaged batches, of a "
        "torn one and of an end that is gone too; by the right base offset where one is wrong; null for none",
        default=None,
    )
    bytes_read: int = column(
        Kind.SIZE, "of logs, that a broker reads to recover them and to learn producers", default=0
    )
    cause: LoadFailure | None = column(
        Kind.ROW, "the finding because of which it does not load; null where it loads", of=LoadFailure, default=None
    )
    assumed: tuple[str, ...] = column(Kind.TEXT, "what the answer depends on and was not given", default=())
    segments: tuple[SegmentFate, ...] = column(
        Kind.ROW, "what becomes of each; none where it does not load", of=SegmentFate, default=()
    )
    served_lost: int = 0  # of the records that are lost, those that readers get today: not below the log start offset
    logs: LogsRead | None = None  # what the start reads of them; None where all was read to check it
    torn: TornBatch | None = None  # with which the log ends before the start; None where it does not load
    is_clean: bool | None = None  # whether the start that is coming is clean; None where another one was asked for
    is_stray: bool = False  # the cluster does not have it here: a broker with KRaft serves nothing of it
    is_renamed: bool = False  # and renames the directory to -stray
    orphans: tuple[str, ...] = ()  # names of the indexes without a log, which it removes
    is_held: bool = (
        False  # the broker has its log, whatever ends the broker, or takes the directory offline, afterwards
    )

    @property
    def changes_nothing(self) -> bool:
        """Whether the broker loads the partition, leaves its logs and indexes as they are, and serves all of it."""
        is_kept = all(segment.action == "keep" for segment in self.segments)
        return self.changes_no_record and is_kept and not self.orphans

    @property
    def changes_no_record(self) -> bool:
        """Whether the broker loads the partition and serves all of it; indexes it may build again."""
        is_kept = all(one.action in ("keep", "rebuild-index") for one in self.segments)
        return self.loads and is_kept and self.torn is None and self.reused_offsets is None and not self.hidden_records

    @property
    def takes_intact(self) -> bool:
        """Whether something intact that readers get today is cut, or not served afterwards, be it for a while."""
        return not self.loads or self.served_lost > 0 or self.hidden_records > 0

    @property
    def keeps_torn(self) -> bool:
        """Whether the torn batch stays in the log, and new records come behind it."""
        torn = self.torn
        return torn is not None and any(
            one.base_offset == torn.base_offset and one.size > torn.position for one in self.segments
        )

    @property
    def harm(self) -> tuple[bool, int, int, int]:
        """What it costs, to put several in order: the least first."""
        again = self.reused_offsets
        reused = 0 if again is None else again[1] - again[0] + 1
        return not self.loads, self.records_lost + self.hidden_records, reused, self.bytes_lost
