"""What became of a partition that was salvaged: plain values, one for each kind of row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.value import Value

if TYPE_CHECKING:
    from kdump.finding import Finding
    from kdump.words.command import ShellCommand


class Kept(Value):
    """Batches that are in the result: offsets without a gap, of one source.

    Args:
        partition: its name.
        offset, last_offset: inclusive.
        records: how many.
        source: the path that the user gave, from which they are.
        sources: how many sources have them.
    """

    partition: str
    offset: int
    last_offset: int
    records: int
    source: str
    sources: int


class Diverged(Value):
    """Batches of a source that do not belong to the line.

    Args:
        partition: its name.
        offset, last_offset: inclusive.
        source: the path that the user gave.
        epoch: leader epoch, None where there is none.
        records: how many.
    """

    partition: str
    offset: int
    last_offset: int
    source: str
    epoch: int | None
    records: int


class PatchedField(Value):
    """A header field that was put right: the log and the position (byte) of the field, its name, and both values."""

    partition: str
    file: str
    position: int
    field: str
    before: int
    after: int


class Revived(Value):
    """A key that lives only because its tombstone is not there, or that another copy has cleaned away: its offset."""

    partition: str
    key: bytes | None
    offset: int


class OpenedTransaction(Value):
    """A transaction that is open at the end of the result."""

    producer_id: int
    producer_epoch: int
    first_offset: int


class SalvagedCopy(Value):
    """How a copy stands beside a result that lacks nothing.

    Args:
        path: of its directory.
        state: `whole` (sound, and it has exactly what the result has), `damaged` (something in it or beside it is wrong
            or missing), or `short` (sound, and it ends before the result does).
        end: the log end offset of a short one, else None.
    """

    path: str
    state: str
    end: int | None = None


class Salvaged(Value):
    """What a partition comes to.

    Args:
        partition: its name.
        sources: the paths that the user gave.
        batches, records, size, segments: of the result; `size` is that of the logs, bytes.
        log_start_offset, log_end_offset: of the result.
        offsets_lost: of the losses that are no mere absence.
        open_transactions: at its end.
        copies: how they stand; none where something is lost or divergent.
    """

    partition: str
    sources: tuple[str, ...]
    batches: int
    records: int
    size: int
    segments: int
    log_start_offset: int
    log_end_offset: int
    offsets_lost: int
    open_transactions: tuple[OpenedTransaction, ...]
    copies: tuple[SalvagedCopy, ...] = ()


class LeftOutBatches(Value):
    """Intact batches that stay out, as the end of their transaction is lost, or may be: neighbours are one.

    Args:
        offset, last_offset: inclusive.
        records: how many.
        lost_offset, last_lost_offset: where the end of the transaction may be, inclusive.
        fate: aborted or committed, where a transaction index tells; None where nothing does.
    """

    offset: int
    last_offset: int
    records: int
    lost_offset: int
    last_lost_offset: int
    fate: str | None = None


class SalvageStep(Value):
    """What to do next: a command, None where a person acts, and why."""

    command: ShellCommand | None
    why: str


class SalvageDone(Value):
    """A partition is whole under its final name.

    Args:
        salvaged: what it comes to.
        path: of the directory.
        rows: path of the file with what became of every offset.
        records_lost, ranges_unknown: of the losses that are no mere absence: records, and ranges whose records nobody
            can count.
        diverged: records of branches that do not count.
        notes: what there is to know, a sentence each.
        steps: what to do next.
        is_new: it was made now; False where a run before this one had made it.
        changed: of what was made before: the logs and directories that changed since.
        without: what could not be read and may have had more of it, each with the reason.
        is_part: segments beside those that were named were not read: it is not to be put in place.
        left_out: intact batches that stay out; not known of what was made before.
        is_sound: no copy is damaged, and one has all of it: nothing is to be put in place.
        is_of_runs: all sources are runs of carve.
        among: what is said of holes in one of which bytes are missing, nobody knows in which: errors; `ranges_unknown`
            counts them too.
        left: logs that are in no source, and that a broker removes though no other file has them: notes name some.
    """

    salvaged: Salvaged
    path: str
    rows: str
    records_lost: int
    ranges_unknown: int
    diverged: int
    notes: tuple[str, ...]
    steps: tuple[SalvageStep, ...]
    is_new: bool
    changed: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    is_part: bool = False
    left_out: tuple[LeftOutBatches, ...] = ()
    is_sound: bool = False
    is_of_runs: bool = False
    among: tuple[str, ...] = ()
    left: tuple[Finding, ...] = ()

    @property
    def has_losses(self) -> bool:
        """Whether anything is lost."""
        return self.salvaged.offsets_lost > 0 or bool(self.among)

    @property
    def why_not_complete(self) -> tuple[SalvageStep, ...]:
        """The first of the steps: what is to be done before it is used; none where nothing is known to be amiss."""
        return self.steps[: self.is_part + self.is_of_runs + bool(self.without)]


class SalvageRefused(Value):
    """A partition was not made: why, one sentence; and whether writing failed, else it was refused."""

    partition: str
    why: str
    failed: bool
