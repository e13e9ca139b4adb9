"""The plan of `kdump truncate`: a cut as changes of files, and what it costs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.broker.index_interval import infer_interval
from kdump.broker.load.disk import FilePart
from kdump.broker.load.facts import PartitionFacts
from kdump.broker.load.log_manager import LogManager
from kdump.broker.truncate import LOADED, CutPoint, cut_at_offset, log_end, name_error, truncate
from kdump.format.batch.header_fields import is_of_header
from kdump.format.index.offset_and_time import INDEX_INTERVAL
from kdump.format.kinds import FileKind
from kdump.repair.errors import RefusedError
from kdump.repair.file_state import open_directory, state_of
from kdump.repair.guard import demand_finished
from kdump.repair.plan import Bytes, Change, Plan, names_of
from kdump.repair.reasons import Here
from kdump.storage.log_dir import LogDir
from kdump.storage.names import (
    METADATA_TOPIC,
    OFFSETS_TOPIC,
    REMOTE_TOPIC,
    SHARE_TOPIC,
    TRANSACTIONS_TOPIC,
    log_bases,
    parse_name,
)
from kdump.storage.partition_dir import PartitionDir
from kdump.storage.paths import above
from kdump.storage.raft_snapshots import raft_snapshots
from kdump.value import Value
from kdump.words.command import command_line, named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kdump.broker.load.facts import Outcome
    from kdump.broker.load.log_manager import LoadSettings
    from kdump.finding import Finding
    from kdump.format.source import Source
    from kdump.repair.file_state import FileState

_CHECKPOINTS = {
    FileKind.RECOVERY_POINT: "the recovery point",
    FileKind.REPLICATION: "the high watermark",
    FileKind.CLEANER: "the cleaner's offset",
}
_INTERNAL = {
    OFFSETS_TOPIC: "committed offsets of groups go back to older ones, or are lost",
    TRANSACTIONS_TOPIC: "transactions can be lost, or stay open",
    SHARE_TOPIC: "the state of share groups goes back to an older one",
    REMOTE_TOPIC: "segments in remote storage can be forgotten",
    METADATA_TOPIC: "changes of the cluster are lost: another controller must not have them committed",
}


class CutTarget(Value):
    """The target of a cut; one of the three."""

    offset: int | None = None  # the first offset that goes
    position: int | None = None  # the first byte that goes, of the segment `base`, or of the last one
    at_damage: bool = False  # at the first damage of the partition, or of the segment `base`
    base: int | None = None  # of the segment that was named; None when the directory was
    with_later: bool = False  # later segments may go


class LogDamage:
    """Takes findings, and keeps where logs are damaged.

    Args:
        directory: of the partition.
    """

    def __init__(self, directory: str) -> None:
        self._here = Here(directory)
        self.first: dict[int, Finding] = {}  # by base offset of the segment, the first of what cannot be put right
        self.patchable: dict[int, Finding] = {}
        self._ends: dict[int, int] = {}  # where bytes end that are no batch, from the first damage on

    def see(self, finding: Finding) -> None:
        """Take one finding."""
        if not finding.is_log_damage or finding.position is None:
            return
        directory, name = os.path.split(finding.file)
        found = parse_name(name)
        if found.kind is not FileKind.LOG or found.base_offset is None or not self._here(directory):
            return
        is_determined = is_of_header(finding) and isinstance(finding.expected, int)
        kept = self.patchable if is_determined else self.first
        known = kept.get(found.base_offset)
        if known is None or known.position is None or finding.position < known.position:
            kept[found.base_offset] = finding
            if kept is self.first:
                self._ends[found.base_offset] = finding.position
        if finding.gap and self._ends.get(found.base_offset) == finding.position:
            self._ends[found.base_offset] += finding.length or 0

    def reaches_end(self, base: int, size: int) -> bool:
        """Tell whether from the first damage of a log to its end nothing is a batch.

        Args:
            base: base offset of the segment.
            size: of the log, bytes.
        """
        return self._ends.get(base) == size


def plan_truncate(directory: str, target: CutTarget, damage: LogDamage, settings: LoadSettings) -> Plan:
    """Return what would be done to one partition directory.

    Args:
        directory: its path, as the user wrote it.
        target: where to cut.
        damage: of its logs.
        settings: what a broker is configured to do.

    Raises:
        RefusedError: it cannot be cut there.
        OSError: a file cannot be read.
    """
    partition = PartitionDir(directory, LogDir(above(directory)))
    names = names_of(partition.listing)
    bases = log_bases(names)
    if not bases:
        raise RefusedError(f"{directory}: no segment is here; name a partition directory or a log")
    if not target.at_damage or damage.first or damage.patchable:
        demand_finished(directory, names)  # damage is told of what such files become
    cut = _where(directory, bases, target, damage, lambda base: partition.listing.size(f"{base:020}.log"))
    if cut is None:
        return Plan("truncate", directory, (), {}, names)
    fd = open_directory(directory)
    try:
        states = {name: state_of(fd, name) for name in names}
    finally:
        os.close(fd)
    _demand_regular(directory, states)
    facts, assumed = _facts(partition, settings)
    outcome = truncate(facts, cut)
    _demand(directory, facts, outcome, cut, damage)
    changes = _changes(outcome, states)
    partition.close()
    gone = set(outcome.disk.before) - set(outcome.disk.names())
    later = [one for one in bases if one > cut.base_offset and f"{one:020}.log" in gone]
    refused: list[str] = []
    lacks = ""
    if changes and later and not target.with_later:
        what = f"{len(later)} later segments" if len(later) > 1 else "1 later segment"
        why = "would go too, as a broker does not see a hole before them"
        lacks = "--with-later-segments"
        refused.append(f"{directory}: {what} {why}; say so: {lacks}")
    before = log_end(facts)
    announces = _announces(partition, facts, outcome, assumed, before) if changes else ()
    log = f"{cut.base_offset:020}.log"
    state = states[log]
    inputs = {} if state is None or any(one.name == log for one in changes) else {log: state}
    return Plan(
        "truncate",
        directory,
        changes,
        inputs=inputs,
        names=names,
        bytes_lost=outcome.bytes_lost,
        records_lost=outcome.records_lost,
        log_end_offset=outcome.log_end_offset,
        announces=announces,
        refused=tuple(refused),
        log_end_before=before,
        lacks=lacks,
    )


def _where(
    directory: str, bases: Sequence[int], target: CutTarget, damage: LogDamage, size_of: Callable[[int], int]
) -> CutPoint | None:
    """Return where to cut, None where there is nothing to cut."""
    if target.base is not None and target.base not in bases:
        raise RefusedError(f"{directory}: there is no segment {target.base}")
    if target.position is not None:
        return CutPoint(bases[-1] if target.base is None else target.base, position=target.position)
    if target.offset is not None:
        cut = cut_at_offset(list(bases), target.offset)
        if target.base not in (None, cut.base_offset):
            raise RefusedError(
                f"{directory}: offset {target.offset} is in segment {cut.base_offset}; name the directory"
            )
        return cut
    for base in bases if target.base is None else (target.base,):
        found, patchable = damage.first.get(base), damage.patchable.get(base)
        if patchable is not None and (found is None or (patchable.position or 0) < (found.position or 0)):
            why = f"{patchable.field} of the batch at byte {patchable.position} is wrong, and its value is determined"
            mend = command_line("patch-header", named(patchable.file))
            raise RefusedError(f"{patchable.file}: {why}; restore it without loss: {mend}")
        if found is not None:
            return CutPoint(base, position=found.position, is_loose_end=damage.reaches_end(base, size_of(base)))
    return None


def _facts(partition: PartitionDir, settings: LoadSettings) -> tuple[PartitionFacts, list[str]]:
    if partition.parsed is not None:
        return LogManager(partition.log_dir).partition(partition, settings)
    files, name = partition.sources(), os.path.basename(partition.path)
    interval = settings.interval if settings.interval is not None else infer_interval(files)
    return PartitionFacts(
        partition.path,
        name,
        0,
        state="",
        files=files,
        interval=interval or INDEX_INTERVAL,
        now=settings.now,
        rules=settings.config.rules,
    ), []


def _demand_regular(directory: str, states: dict[str, FileState | None]) -> None:
    """Refuse what a broker takes for a file of the partition, and cannot read or load."""
    for name, state in states.items():
        path = os.path.join(directory, name)
        if not name.endswith(LOADED):
            continue
        if state is not None and state.kind != "regular":
            raise RefusedError(f"{path}: is {state.kind}; only regular files are read: move it away")
        error = name_error(name)
        if error is not None:
            why = f"a broker does not load a partition with a file of that name ({error})"
            raise RefusedError(f"{path}: {why}; move it away")


def _demand(directory: str, facts: PartitionFacts, outcome: Outcome, cut: CutPoint, damage: LogDamage) -> None:
    """Refuse a cut after damage, and one that would make a broker delete all."""
    kept = next((one.size for one in outcome.segments if one.base_offset == cut.base_offset), 0)
    both = [*damage.first.items(), *damage.patchable.items()]
    for base, found in sorted(both, key=lambda one: (one[0], one[1].position or 0)):
        is_before = base < cut.base_offset or (base == cut.base_offset and (found.position or 0) < kept)
        if is_before:
            why = f"damage at byte {found.position} ({found.code.name}) would stay before the cut"
            raise RefusedError(f"{found.file}: {why}; see kdump verify, and cut --at-damage if it is to be")
    if not outcome.loads:
        raise RefusedError(f"{directory}: {outcome.notes[0]}; see kdump verify, and cut --at-damage if it is to be")
    end = outcome.log_end_offset
    assert end is not None
    if facts.log_start and end <= facts.log_start and outcome.bytes_lost:
        why = f"the log would end at offset {end}, and the log-start-offset-checkpoint has {facts.log_start}"
        raise RefusedError(f"{directory}: {why}: a broker would delete all of it")


def _changes(outcome: Outcome, states: dict[str, FileState | None]) -> tuple[Change, ...]:
    """Return the changes in the order in which they are made: indexes before the log that they belong to.

    A broker believes an index that is longer than its log, and takes the log for one that ends at its base offset.
    Later segments go first, the last one first: the partition has no hole at any time.
    """
    disk, found = outcome.disk, dict[str, Change]()
    lasting = f"{max(log_bases(disk.names())):020}.log"
    for name in sorted({*disk.before, *disk.names()}):
        before, now = disk.before.get(name), disk.get(name)
        state = states.get(name)
        if now is None:
            found[name] = Change(name, "delete", state, 0, name)
        elif isinstance(now, FilePart) and before is not None and now.size < before.size:
            action = "truncate" if now.size else "empty"
            found[name] = Change(name, action, state, now.size, name, why=f"at byte {now.size}")
        elif disk.is_changed(name):
            action = "create" if before is None else "rebuild-index" if _is_index(name) else "replace"
            found[name] = Change(name, action, state, now.size, name if state else lasting, Bytes(_all(now)))
    return tuple(sorted(found.values(), key=_order))


def _order(change: Change) -> tuple[int, int, int, str]:
    name = parse_name(change.name)
    base = name.base_offset or 0
    is_log = name.kind is FileKind.LOG
    if change.action == "delete" and name.kind is not FileKind.SNAPSHOT:
        return 0, -base, 0 if is_log else 1, change.name
    if _is_index(change.name):
        return 1, base, 0, change.name
    return (2 if is_log else 3), base, 0, change.name


def _is_index(name: str) -> bool:
    return parse_name(name).kind in (FileKind.INDEX, FileKind.TIMEINDEX, FileKind.TXNINDEX)


def _all(source: Source) -> bytes:
    return source.read_at(0, source.size)


def _announces(
    partition: PartitionDir, facts: PartitionFacts, outcome: Outcome, assumed: Iterable[str], before: int
) -> tuple[str, ...]:
    end = outcome.log_end_offset or 0
    log_dir, told, lowered = partition.log_dir, end, []
    for kind, what in _CHECKPOINTS.items():
        offset = log_dir.offset(kind, (facts.topic, facts.partition))
        if offset is not None and offset > end:
            lowered.append(f"{kind.value}: {what} is {offset}, and a broker lowers it to {end}")
            told = max(told, offset)
    if end == before and told == end:  # no batch goes, and nothing tells of one that was there
        return tuple(f"assumed: {one}" for one in assumed)
    found = ["another replica may hold these records: if one does, move this directory away and let it be replicated"]
    found += [f"assumed: {one}" for one in assumed]
    if facts.topic in _INTERNAL:
        found.append(f"{facts.topic}: {_INTERNAL[facts.topic]}")
    if partition.parsed is not None and partition.parsed.is_raft_log:
        found += _beyond(partition, outcome, end)
    found += lowered
    if told > end:
        beyond = f"by these the log had ended at {told}, not at {before}; " if told > before else ""
        what = f"offset {end}" if told == end + 1 else f"offsets {end}..{told - 1}"
        found.append(f"{beyond}until a broker has started here, verify tells {what} as lost (K01), with status 3")
    if log_dir.is_clean:
        found.append(f"{FileKind.CLEAN_SHUTDOWN.value} exists: a broker will load the files without recovery")
    found += outcome.notes
    return tuple(found)


def _beyond(partition: PartitionDir, outcome: Outcome, end: int) -> Iterator[str]:
    """What a node does with a metadata log that its newest snapshot lies beyond (S02)."""
    snapshots = raft_snapshots(partition.listing.files, outcome.log_start_offset or 0)
    if snapshots and snapshots[-1].offset > end:
        begin = snapshots[-1].offset
        what = f"the snapshot {snapshots[-1].name} has what offsets below {begin} had done: a broker empties the log"
        yield f"{what}, goes on at {begin}, and reuses only what lies from there on (S02)"
