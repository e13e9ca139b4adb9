"""The rows of salvage, and what it says of a partition that is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.row import Kind, Row, column
from kdump.value import Value

if TYPE_CHECKING:
    from kdump.finding import Finding
    from kdump.rows.steps import Step


class Kept(Row, name="kept"):
    """Batches that salvage has kept: offsets without a gap, of one source."""

    partition: str = column(Kind.PARTITION, "its name")
    offset: int = column(Kind.OFFSET, "the first one")
    last_offset: int = column(Kind.OFFSET, "the last one")
    records: int = column(Kind.COUNT, "records")
    source: str = column(Kind.PATH, "the path that the user gave, from which they are")
    sources: int = column(Kind.COUNT, "how many sources have them")


class Diverged(Row, name="divergent"):
    """Batches of a source that belong to another branch of the log than the one that counts, and that are left out."""

    partition: str = column(Kind.PARTITION, "its name")
    offset: int = column(Kind.OFFSET, "the first one")
    last_offset: int = column(Kind.OFFSET, "the last one")
    source: str = column(Kind.PATH, "the path that the user gave")
    epoch: int | None = column(Kind.NUMBER, "leader epoch; null where there is none")
    records: int = column(Kind.COUNT, "records")


class PatchedField(Row, name="patched"):
    """A header field that is another one in what salvage has written: put right, or fitted to another cluster."""

    partition: str = column(Kind.PARTITION, "its name")
    file: str = column(Kind.PATH, "the log of the source")
    position: int = column(Kind.POSITION, "of the field in the source")
    field: str = column(Kind.WORD, "name of the field")
    before: int = column(Kind.NUMBER, "the value in the source", key="from")
    after: int = column(Kind.NUMBER, "the one in the result", key="to")


class Revived(Row, name="revived"):
    """A key that has a record again: its tombstone is not there, or another copy has cleaned it away."""

    partition: str = column(Kind.PARTITION, "its name")
    key: bytes | None = column(Kind.DATA, "the key")
    offset: int = column(Kind.OFFSET, "of the record")


class OpenedTransaction(Row):
    """A transaction that is open at the end of the result."""

    producer_id: int = column(Kind.NUMBER, "that writes it")
    producer_epoch: int = column(Kind.NUMBER, "of the producer")
    first_offset: int = column(Kind.OFFSET, "of the transaction")


class SalvagedCopy(Row):
    """How a copy stands beside a result that lacks nothing."""

    path: str = column(Kind.PATH, "of its directory")
    state: str = column(
        Kind.WORD,
        "whole: sound, and it has exactly what the result has; damaged: something in it or beside it is wrong or "
        "missing; short: sound, and it ends before the result does",
        words=("whole", "damaged", "short"),
    )
    log_end_offset: int | None = column(Kind.OFFSET, "of a short one, else null", default=None)


class Salvaged(Row, name="salvage"):
    """What a partition comes to that salvage has written."""

    partition: str = column(Kind.PARTITION, "its name")
    sources: tuple[str, ...] = column(Kind.PATH, "the paths that the user gave")
    batches: int = column(Kind.COUNT, "of the result")
    records: int = column(Kind.COUNT, "of the result")
    size: int = column(Kind.SIZE, "of the logs of the result", key="bytes")
    segments: int = column(Kind.COUNT, "of the result")
    log_start_offset: int = column(Kind.OFFSET, "of the result")
    log_end_offset: int = column(Kind.OFFSET, "of the result")
    offsets_lost: int = column(Kind.COUNT, "that are lost or doubtful")
    offsets_unexplained: int = column(
        Kind.COUNT, "that no source has, while nothing tells whether compaction or a loss took them"
    )
    open_transactions: tuple[OpenedTransaction, ...] = column(
        Kind.ROW, "without an end: it is lost, or they had none", of=OpenedTransaction
    )
    copies: tuple[SalvagedCopy, ...] = column(
        Kind.ROW,
        "the directories of the sources beside a result that lacks nothing; none where something is lost or divergent",
        of=SalvagedCopy,
        default=(),
    )
    topic_id: str | None = column(Kind.WORD, "of the result; null where no source has it", default=None)
    leader_epoch: int | None = column(
        Kind.NUMBER,
        "with --for that of the partition in that cluster, which none of the result is above; else null",
        default=None,
    )


class LeftOutBatches(Value):
    """Intact batches that stay out, as the end of their transaction is lost, or may be: neighbours are one."""

    offset: int  # the first one
    last_offset: int
    records: int
    lost_offset: int  # where the end of the transaction may be, the first offset
    last_lost_offset: int  # and the last one
    # aborted, or unknown: it has ended, and nobody can tell how, as a transaction index tells; None where nothing does
    fate: str | None = None


class SalvageDone(Value):
    """A partition is whole under its final name."""

    salvaged: Salvaged  # what it comes to
    path: str  # of the directory
    rows: str  # path of the file with what became of every offset
    records_lost: int  # of the losses that are no mere absence
    ranges_unknown: int  # of the same, those whose records nobody can count
    diverged: int  # records of branches that do not count
    notes: tuple[str, ...]  # what there is to know, a sentence each
    steps: tuple[Step, ...]  # what to do next
    is_new: bool  # it was made now; False where a run before this one had made it
    changed: tuple[str, ...] = ()  # of what was made before: the logs and directories that changed since
    without: tuple[str, ...] = ()  # what could not be read and may have had more of it, each with the reason
    is_part: bool = False  # segments beside those that were named were not read: it is not to be put in place
    left_out: tuple[LeftOutBatches, ...] = ()  # intact batches that stay out; not known of what was made before
    is_sound: bool = False  # no copy is damaged, and one has all of it: nothing is to be put in place
    is_of_runs: bool = False  # all sources are runs of carve
    among: tuple[str, ...] = ()  # of holes in one of which bytes are missing, nobody knows in which: errors, that
    # `ranges_unknown` counts too
    left: tuple[Finding, ...] = ()  # logs that are in no source, and that a broker removes though no other file has
    # them: notes name some

    @property
    def has_losses(self) -> bool:
        """Whether anything is lost."""
        return self.salvaged.offsets_lost > 0 or bool(self.among)

    @property
    def why_not_complete(self) -> tuple[Step, ...]:
        """The first of the steps: what is to be done before it is used; none where nothing is known to be amiss."""
        return self.steps[: self.is_part + self.is_of_runs + bool(self.without)]


class SalvageRefused(Value):
    """A partition was not made."""

    partition: str
    why: str  # one sentence
    failed: bool  # writing failed; else it was refused
