"""The laws that a result of salvage keeps, each a function that yields what breaks it: its kind, and a sentence."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.support.rescue_truth import excuses
from tests.support.rescue_truth.batches import Read, read_aborted, read_log
from tests.support.rescue_truth.disks import EPOCHS, PARTITION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.rescue_truth.cluster import Ident
    from tests.support.rescue_truth.truth import Placed, Truth

LOST = ("lost", "doubtful")
Fault = tuple[str, str]
"""The kind of what does not hold, and a sentence."""


class Written(NamedTuple):
    """A batch of a result, and what it is; None where there was never such a batch at its offsets."""

    read: Read
    ident: Ident | None


@dataclass
class Result:
    """What salvage has made.

    Args:
        truth: of its sources.
        batches: that it wrote, in order.
        rows: that it wrote.
        epochs: of its leader-epoch-checkpoint.
        aborted: of its transaction indexes: producer, first and last offset.
        says_lost: its exit status says that something is lost.
        sources: the directories of the copies.
    """

    truth: Truth
    batches: list[Written]
    rows: list[dict[str, Any]]
    epochs: list[tuple[int, int]]
    aborted: list[tuple[int, int, int]]
    says_lost: bool
    sources: list[Path]

    @classmethod
    def read(cls, truth: Truth, out: Path, sources: list[Path], *, says_lost: bool) -> Result:
        """Read what lies in the directory of a result.

        Raises:
            ValueError: it has bytes that are no batch.
        """
        made = out / PARTITION
        batches = []
        for log in sorted(made.glob("*.log")):
            for read in read_log(log.read_bytes()):
                if not read.is_whole:
                    raise ValueError(f"{log.name}: the CRC at {read.position} is wrong")
                batches.append(Written(read, truth.ident_of(read)))
        rows = [json.loads(text) for text in (out / f"{PARTITION}.salvage.jsonl").read_text().splitlines()]
        path = made / EPOCHS
        lines = path.read_text().splitlines()[2:] if path.exists() else []
        epochs = [(int(epoch), int(start)) for epoch, start in (line.split() for line in lines)]
        aborted = [one for index in sorted(made.glob("*.txnindex")) for one in read_aborted(index.read_bytes())]
        return cls(truth, batches, rows, epochs, aborted, says_lost, sources)

    @property
    def is_of_runs(self) -> bool:
        """Whether the sources are runs of carve."""
        return self.truth.runs is not None

    @cached_property
    def idents(self) -> set[Ident]:
        """The batches that it has."""
        return {one.ident for one in self.batches if one.ident is not None}

    @cached_property
    def entries(self) -> set[object]:
        """The records that it has."""
        return {entry for one in self.batches for entry in one.read.entries}

    @cached_property
    def contents(self) -> set[object]:
        """The same without offsets."""
        return {entry[1:] for one in self.batches for entry in one.read.entries}

    def has(self, one: Placed) -> bool:
        """Whether all records of a batch are written, at their offsets; one that has none counts as written."""
        return self.entries.issuperset(one.was.entries)

    @cached_property
    def offsets(self) -> set[int]:
        """The offsets that its batches have."""
        return {at for one in self.batches for at in range(one.read.base, one.read.last + 1)}

    @cached_property
    def branch(self) -> frozenset[Ident] | None:
        """The branch that it is of, whole; None where it is of several."""
        truth, case = self.truth, self.truth.case
        found = truth.branch_of(self.idents)
        if found is None:
            return None
        wanted = [truth.chains[case.prefer]] if case.prefer is not None else []
        return next((one for one in (*wanted, truth.line, *truth.chains) if found <= one), found)

    def losses(self, *certainties: str) -> Iterator[dict[str, Any]]:
        """The rows of losses."""
        return (row for row in self.rows if row["type"] == "loss" and row["certainty"] in certainties)


def faults(result: Result) -> list[Fault]:
    """All that does not hold of a result."""
    laws = (content, branches, newest, epochs, fates, rows, counts, kept, told_and_written, losses, quiet)
    return [one for law in laws for one in law(result)]


# --- the laws -----------------------------------------------------------------------------------------------
def content(result: Result) -> Iterator[Fault]:
    """Each record was there, at its offset; its batch says of the producer and of transactions what it said."""
    for read, key in result.batches:
        if key is not None:
            was = result.truth.original(key)
            if read.magic == 2 and (read.is_transactional, read.producer) != (was.is_transactional, was.producer):
                yield "changed-header", f"the batch at {read.base} has another producer"
            continue
        if all(entry[1:] in result.truth.contents for entry in read.entries):
            if not excuses.base_offset(result.truth, read):
                yield _offset_kind(result.truth, read), f"the batch at {read.base} has records of other offsets"
        else:
            yield "invented", f"the batch at {read.base} has records that never were"
    for key, count in Counter(one.ident for one in result.batches).items():
        if key is not None and count > 1:
            yield "twice", f"the batch at {key[1]} is written {count} times"


def _offset_kind(truth: Truth, read: Read) -> str:
    """Whether a wrong offset was kept, or a right one was changed."""
    contents = {entry[1:] for entry in read.entries}
    same = [one for one in truth.placed if {entry[1:] for entry in one.was.entries} == contents]
    is_right = any(one.is_intact and one.has_base for one in same)
    is_kept = any(one.header[0] in (read.base, read.last) for one in same)
    kind = "right-offset-changed" if is_right and not is_kept else "wrong-offset"
    return f"{kind}{'-legacy' * (read.magic < 2)}"


def branches(result: Result) -> Iterator[Fault]:
    """All records are of one branch: of the one that was chosen, or that truly led last where anything tells."""
    truth, case = result.truth, result.truth.case
    found = truth.branch_of(result.idents)
    if found is None:
        bases = sorted(truth.original(key).base for key in result.idents - truth.line)
        if not excuses.mixed(truth, result.idents):
            yield "mixed-branches", f"batches that are not of the line, at {bases}, beside others that are"
        return
    if case.prefer is not None:
        own = {one.ident for one in truth.intact if one.copy == case.prefer and one.has_base}
        if truth.branch_of(own | result.idents) is None:
            yield "not-preferred", "batches are of another branch than the chosen copy"
        return
    off = result.idents - truth.line
    if off and excuses.tells_of_the_line(truth, off):
        bases = sorted(truth.original(key).base for key in off)
        yield "wrong-branch", f"batches at {bases} are of a branch that ended, and the disks tell"


def newest(result: Result) -> Iterator[Fault]:
    """What the last leader wrote in the newest epoch of which several batches are left is not all left out."""
    truth, case = result.truth, result.truth.case
    if case.prefer is not None or case.cluster.style.magic < 2:
        return
    start = 0 if case.below_log_start else max(copy.replica.first for copy in case.copies)
    sound = (one for one in truth.intact if one.has_base and one.has_epoch and one.was.last >= start)
    line = {one.ident: one.was for one in sound if one.ident in truth.line and not one.was.is_transactional}
    epoch = max((was.epoch for was in line.values()), default=-1)
    some = {key: was.base for key, was in line.items() if was.epoch == epoch and was.entries}
    if len(some) >= excuses.SEVERAL and not result.idents & some.keys():
        yield (
            "newest-left-out",
            f"the batches at {sorted(some.values())}, all of epoch {epoch}, are intact and stay out",
        )


def epochs(result: Result) -> Iterator[Fault]:
    """Each batch has the leader epoch in which it was appended; the leader-epoch-checkpoint says so too."""
    starts = [start for _, start in result.epochs]
    if [*result.epochs] != sorted(set(result.epochs)) or starts != sorted(set(starts)):
        yield "wrong-epoch-file", f"{result.epochs} do not ascend"
    true = dict(result.truth.epochs(result.branch or ()))
    excused = {read.base for read, key in result.batches if key is None}  # another law judges these
    starts_early = [one for one in result.epochs if one[1] not in excused]
    early = [(epoch, start) for epoch, start in starts_early if start < true.get(epoch, start)]
    if early:
        yield "wrong-epoch-file", f"{early} begin before their epochs did, of {true}"
    for read, key in result.batches:
        if key is None or read.magic < 2:
            continue
        was = result.truth.original(key).epoch
        is_excused = read.epoch != was and excuses.epoch(result.truth, key, read.epoch)
        if read.epoch != was and not is_excused:
            is_kept = any(one.ident == key and one.header[1] == read.epoch for one in result.truth.placed)
            yield (
                f"{'wrong-epoch' if is_kept else 'right-epoch-changed'}",
                f"the batch at {read.base} has epoch {read.epoch}, and had {was}",
            )
        at = bisect_right(starts, max(read.base, min(starts[0], read.last)) if starts else 0)  # below the log start
        told = result.epochs[at - 1][0] if at else None
        if told != was and read.epoch == was and not is_excused and not _is_overlapped(result, read):
            yield "wrong-epoch-file", f"{result.epochs} give {told} for the batch at {read.base}, which had {was}"


def _is_overlapped(result: Result, read: Read) -> bool:
    """Whether a later batch begins below the end of a batch: an epoch that begins there hides the older one."""
    return any(one.read.base <= read.last and one.read.base >= read.base and one.read != read for one in result.batches)


def fates(result: Result) -> Iterator[Fault]:
    """Who reads committed data gets what was committed, and nothing else; or waits at a transaction that is listed."""
    if result.branch is None:
        return
    true = result.truth.fates(result.branch)
    summary = result.rows[-1]
    listed = {one["producerId"] for one in summary.get("openTransactions", ())}
    running: dict[int, list[Written]] = {}
    for one in result.batches:
        who = one.read.producer[0]
        if one.read.commits is not None:
            fate = "committed" if one.read.commits else "aborted"
            for data in running.pop(who, ()):
                yield from _fate(result, data, fate, true)
        elif one.read.is_transactional and not one.read.is_control:
            running.setdefault(who, []).append(one)
    for who, some in running.items():
        for data in some:
            ended = data.ident is not None and true.get(data.ident, "open") != "open"
            if ended and who not in listed:
                yield "wrong-fate", f"the transaction at {data.read.base} waits for its end, and nothing says so"


def _fate(result: Result, data: Written, fate: str, true: dict[Ident, str]) -> Iterator[Fault]:
    was = None if data.ident is None else true.get(data.ident)
    assert result.branch is not None
    if (
        was is not None
        and data.ident is not None
        and was != fate
        and not excuses.fate(result.truth, data.ident, result.branch)
    ):
        yield "wrong-fate", f"the transaction at {data.read.base} was {was}, and is {fate}"
    who, base = data.read.producer[0], data.read.base
    is_listed = any(one[0] == who and one[1] <= base <= one[2] for one in result.aborted)
    if is_listed != (fate == "aborted"):
        yield "wrong-fate", f"the transaction index does not say that {base} is {fate}"


def rows(result: Result) -> Iterator[Fault]:
    """Each intact batch of each source is written, or a row says what became of it."""
    for one in result.truth.intact:
        if result.has(one) or (not one.has_base and result.contents.issuperset(e[1:] for e in one.was.entries)):
            continue  # where records are written at other offsets, another law says so
        if not any(_tells(result, row, one) for row in result.rows):
            kind = "untold" if one.has_base else "untold-moved"
            yield kind, f"b{one.copy} {one.path}: {one.was.base}..{one.was.last} is in no row"


def _as_stored(one: Placed) -> tuple[int, int]:
    by = one.header[0] - one.stored_base
    return one.was.base + by, one.was.last + by


def _tells(result: Result, row: dict[str, Any], one: Placed) -> bool:
    if row["type"] not in ("divergent", "loss"):
        return False
    covers = _covers(row, one)
    if row["type"] == "divergent":
        return covers and (result.is_of_runs or row["source"] == str(result.sources[one.copy]))
    if covers:
        return True
    if row["file"] is None or row["position"] is None or Path(row["file"]).name != one.path:
        return False
    at, size = one.was.position, one.was.size
    return bool(row["position"] < at + size and at < row["position"] + row["length"])


def counts(result: Result) -> Iterator[Fault]:
    """Something is written; the rows tell what, and the last one how much of it."""
    if not result.batches:
        yield "empty-result", "no batch is written, and the result is called one"
        return
    told = {at for row in result.rows if row["type"] == "kept" for at in range(row["offset"], row["lastOffset"] + 1)}
    if told != result.offsets:
        odd = sorted(told ^ result.offsets)
        yield "wrong-counts", f"{odd[0]}..{odd[-1]} are in rows as kept or in the logs, and not in both"
    last = result.rows[-1]
    have = len(result.batches), sum(len(one.read.entries) for one in result.batches), max(result.offsets) + 1
    said = last["batches"], last["records"], last["logEndOffset"]
    if said != have:
        yield "wrong-counts", f"batches, records and end are {have}, and said to be {said}"


def kept(result: Result) -> Iterator[Fault]:
    """An intact batch before one of its copy that is written is written too: two copies that share it share all before.

    But for transactions, whose end may be in doubt, and where somebody has chosen a copy.
    """
    truth, written = result.truth, result.offsets
    if result.branch is None or truth.case.prefer is not None:
        return
    start = 0 if truth.case.below_log_start else max(copy.replica.first for copy in truth.case.copies)
    sound = [one for one in truth.intact if one.has_base and one.has_epoch and one.was.entries]
    shared: dict[int, int] = {}
    for one in sound:
        if one.ident in result.idents:
            shared[one.copy] = max(shared.get(one.copy, -1), one.was.base)
    out = {
        one.was.base
        for one in sound
        if one.ident in result.branch and one.was.last >= start and one.was.base < shared.get(one.copy, -1)
        if not one.was.is_transactional
        and not excuses.is_cleaned(truth, one)
        and not excuses.fills_its_wrong_name(truth, one)
        and not written.intersection(range(one.was.base, one.was.last + 1))
    }
    if out:
        is_foreign = any("F15" in row["because"] for row in result.rows if row["type"] == "loss")
        yield (
            f"left-out{'-foreign' * is_foreign}",
            f"the batches at {sorted(out)} are intact, of the branch that was taken, and not written",
        )


def told_and_written(result: Result) -> Iterator[Fault]:
    """What has a row is not written: no offset of a loss, and of other branches no more records than stay out."""
    for row in result.losses(*LOST):
        both = result.offsets.intersection(range(row["offset"], min(row["lastOffset"], row["offset"] + 10_000) + 1))
        if both and not result.truth.case.cluster.has_overlaps:
            yield "told-and-written", f"{min(both)}..{max(both)} are {row['certainty']}, and written"
    if result.is_of_runs:
        return
    for row in (row for row in result.rows if row["type"] == "divergent"):
        of = next(number for number, source in enumerate(result.sources) if str(source) == row["source"])
        inside = [one for one in result.truth.placed if one.copy == of and _covers(row, one)]
        out = sum(len(one.was.entries) for one in inside if not result.has(one) or excuses.is_anew(result.truth, one))
        if any(one.is_intact for one in inside) and row["records"] > out:
            kind = f"told-and-written{'-cleaned' * result.truth.case.cluster.style.is_compacted}"
            yield kind, f"b{of}: of {row['offset']}..{row['lastOffset']} divergent records are written"


def _covers(row: dict[str, Any], one: Placed) -> bool:
    """Whether a row has all offsets of a batch, as they were or as they are stored."""
    return any(
        row["offset"] <= first and last <= row["lastOffset"]
        for first, last in ((one.was.base, one.was.last), _as_stored(one))
    )


def losses(result: Result) -> Iterator[Fault]:
    """Each offset that damage has taken from every copy has a row, and the exit status says so.

    Where nobody has said that no cleaner was at work, a hole that it may have made is `unexplained`, and no loss by the
    exit status. Source: L17 and L19 in the manual.
    """
    if result.branch is None or result.is_of_runs:
        return
    written = result.offsets.union(*(_true_offsets(result.truth, one.read) for one in result.batches if not one.ident))
    gone = excuses.lost_offsets(result.truth, result.branch, written)
    is_compacted = result.truth.case.cluster.style.is_compacted
    traced = excuses.traced_offsets(result.truth) if is_compacted else set(gone)
    certainties = LOST if result.truth.case.policy == "delete" else (*LOST, "unexplained")
    told = [(row["offset"], row["lastOffset"]) for row in result.losses(*certainties)]
    cleaned = [(row["offset"], row["lastOffset"]) for row in result.losses("absent")]
    silent = [at for at in gone if not _is_in(at, told) and (at in traced or not _is_in(at, cleaned))]
    if silent:
        yield "unsaid-loss", f"{silent[0]}..{silent[-1]} ({len(silent)} offsets) are lost, and no row says so"
        if not result.says_lost:
            yield "status-0", f"{silent[0]}..{silent[-1]} are lost, and the exit status is 0"


def _true_offsets(truth: Truth, read: Read) -> set[int]:
    """Where the records of a batch belong that is written elsewhere."""
    of = {entry[1:] for entry in read.entries}
    return {entry[0] for entry in truth.by_entry if entry[1:] in of}


def _is_in(at: int, ranges: list[tuple[int, int]]) -> bool:
    return any(first <= at <= last for first, last in ranges)


def quiet(result: Result) -> Iterator[Fault]:
    """Of copies that nothing has damaged nothing is lost."""
    copies = result.truth.case.copies
    start = max(copy.replica.first for copy in copies)
    lost = [row for row in result.losses(*LOST) if row["lastOffset"] >= start]
    if lost and not result.is_of_runs and not any(copy.damages for copy in copies):
        yield "false-loss", f"nothing is damaged, and lost are {[row['offset'] for row in lost]}"
