"""The plan of `kdump repair`: all that can be mended under a log directory without losing a byte that anyone can read.

Each kind has its home: indexes and snapshots are planned as by reindex, header fields as by patch-header, small files
by `small_files`. What they find is held against the model of a broker before it goes into the plan: with the changes
the coming start must load the partition, or at least as before, and must cut, hide or delete nothing more than without
them. What does not pass, and what nobody can mend without a choice or a loss, is left alone and told.

The order of the changes: partition by partition the headers, the indexes, the snapshots and the small files; then the
files of the log directory, meta.properties last: a broker does not start before the rest is done.
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING

from kdump.broker.load.coming_start import coming_starts
from kdump.broker.load.disk import FilePart
from kdump.broker.load.log_loader import load
from kdump.broker.load.log_manager import LogManager
from kdump.finding import Code, Finding, Severity, Trait, ignore
from kdump.format.batch.header_fields import Overlay
from kdump.format.checkpoint.contradicted import contradicts_batches
from kdump.format.index.offset_and_time import INDEX_INTERVAL
from kdump.format.java_values import ABOVE_ALL
from kdump.format.kinds import OFFSET_KINDS, FileKind
from kdump.format.source import BytesSource
from kdump.repair import small_files
from kdump.repair.errors import RefusedError
from kdump.repair.file_state import open_directory
from kdump.repair.guard import demand_finished
from kdump.repair.patch_header import WrongHeaders, plan_partition_patches
from kdump.repair.places import Places
from kdump.repair.plan import Bytes, Change, LeftAlone, Plan, names_in, names_of
from kdump.repair.reasons import Reasons
from kdump.repair.reindex import RecoveredSegments, ReindexOptions, plan_reindex
from kdump.repair.schema import REPAIR
from kdump.rows.plan import KINDS
from kdump.storage.identity import UndeterminedError
from kdump.storage.names import METADATA_TOPIC_ID, STRAY_WITHOUT_ID, log_bases, parse_name
from kdump.storage.partition_dir import PartitionDir
from kdump.value import Value
from kdump.words.command import command_line, named
from kdump.words.numbers import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kdump.broker.load.facts import Outcome, PartitionFacts
    from kdump.broker.load.log_manager import LoadSettings
    from kdump.format.batch.header_fields import Patch
    from kdump.format.source import Source
    from kdump.item import PartitionChecked
    from kdump.repair.file_state import FileState
    from kdump.repair.small_files import ClusterFacts, NewContent
    from kdump.storage.log_dir import LogDir
    from kdump.words.command import ShellCommand

INDEX, HEADER, EPOCHS, CHECKPOINT, METADATA, PROPERTIES, SNAPSHOT, ZEROS = KINDS
_FOREIGN = "the file has other epochs than the batches, several of which have each of these"
_MOST_FINDINGS = 1000  # of a partition or log directory, that are told when nothing mends them


class RepairOptions(Value):
    """The options of repair."""

    settings: LoadSettings
    only: frozenset[str] = frozenset(KINDS)  # kinds that are mended
    # tells the index.interval.bytes that was given for a partition directory; None where none is ever given
    interval: Callable[[str], int | None] | None = None
    cluster: ClusterFacts | None = None
    given: Mapping[str, str] = {}  # cluster.id and node.id by the user
    others: Sequence[LogDir] = ()  # further log directories that the user named


class DirectoryFindings:
    """Takes the findings about one directory, and keeps what decides what becomes of its files.

    Args:
        directory: path of it.

    Attributes:
        reasons: as reindex wants them.
        wrong: as patch-header wants them.
        findings: errors and warnings, the first ones, and notes about small files.
        has_epoch_errors: the epochs of batches are not as those around them tell.
        by_checkpoint: the leader-epoch-checkpoint has other epochs than batches.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.reasons = Reasons(directory)
        self.wrong = WrongHeaders(directory)
        self.findings: list[Finding] = []
        self.has_epoch_errors = self.by_checkpoint = False
        self._torn: dict[str, bool] = {}  # by log whether all that is wrong with it is an end that was not finished

    def see(self, finding: Finding) -> None:
        """Take one finding."""
        self.reasons.see(finding)
        self.wrong.see(finding)
        name = os.path.basename(finding.file)
        self.has_epoch_errors |= Trait.EPOCH_OF_BATCH in finding.code.traits
        self.by_checkpoint |= finding.code is Code.E03  # which of the two is wrong is asked later
        if finding.severity is Severity.ERROR and name.endswith(".log") and finding.code is not Code.E03:
            is_torn = Trait.UNFINISHED in finding.code.traits
            self._torn[name] = is_torn and self._torn.get(name, True)
        if (finding.severity is not Severity.NOTE or finding.code is Code.K04) and len(self.findings) < _MOST_FINDINGS:
            self.findings.append(finding)

    def of(self, name: str) -> list[Finding]:
        """Return the findings about a file."""
        return [one for one in self.findings if os.path.basename(one.file) == name]

    def is_damaged(self, patched: Iterable[str] = (), below: int = ABOVE_ALL) -> bool:
        """Whether a log has errors, but for those that are mended, and an end that was not finished.

        Args:
            patched: names of the logs whose headers are patched, or that are cut.
            below: an offset: logs that begin there, or behind it, do not count.
        """
        damaged = (name for name, is_torn in self._torn.items() if not is_torn and name not in patched)
        return any((parse_name(name).base_offset or 0) < below for name in damaged)

    def is_torn(self, name: str) -> bool:
        """Whether all that is wrong with a log is its end."""
        return self._torn.get(name, False)


class LogDirFindings:
    """Takes what verify has found under a log directory, and keeps what the plan hangs on."""

    def __init__(self) -> None:
        self._known: dict[str, DirectoryFindings] = {}
        self.ends: dict[str, int | None] = {}  # log end offsets by the paths of partition directories, in order

    def see(self, finding: Finding) -> None:
        """Take one finding."""
        self.of(os.path.dirname(finding.file)).see(finding)

    def checked(self, one: PartitionChecked) -> None:
        """Take a partition that is judged."""
        self.ends[one.path.rstrip(os.sep)] = one.end_offset

    def of(self, directory: str) -> DirectoryFindings:
        """Return what was found in a directory."""
        path = os.path.abspath(directory)
        if path not in self._known:
            self._known[path] = DirectoryFindings(path)
        return self._known[path]


def plan_repair(log_dir: LogDir, found: LogDirFindings, options: RepairOptions, *, is_named: bool) -> Plan:
    """Return what would be done in a log directory.

    Args:
        log_dir: the directory.
        found: what verify has found there.
        options: what is asked for.
        is_named: the user named it, and not only partitions in it: its own files may change too.

    Raises:
        RefusedError: the directory cannot be opened.
        OSError: a file cannot be read.
    """
    planner = _Planner(log_dir, options, is_named=is_named)
    try:
        for path, end in found.ends.items():
            planner.partition(path, found.of(path), end)
        return planner.finish(found.of(log_dir.path), is_named=is_named)
    finally:
        planner.close()


class _Planner:
    """Makes one plan for a log directory, or for some partitions in it.

    Args:
        log_dir: the directory.
        options: what is asked for.
        is_named: the user named the directory itself: its own files may change.
    """

    def __init__(self, log_dir: LogDir, options: RepairOptions, *, is_named: bool) -> None:
        self._log_dir = log_dir
        self._root = log_dir.path
        self._options = options
        self._log_dirs = log_dir, *options.others  # of one broker
        self._manager = LogManager(log_dir)
        self._starts = coming_starts(log_dir)
        self._is_kraft = bool(log_dir.runs_kraft) or any(one.is_kraft for one in options.others)
        if is_named and PROPERTIES in options.only and self._why_properties():
            with suppress(UndeterminedError):  # what it will say counts: a partition without a topic id is a stray then
                self._is_kraft |= b"version=1\n" in self._new_properties().data
        self._changes: list[Change] = []
        self._inputs: dict[str, FileState] = {}
        self._left: list[LeftAlone] = []
        self._announces: list[str] = []
        self._told: list[Finding] = []
        self._directories: list[PartitionDir] = []
        fd = open_directory(self._root)
        self._places = Places(fd, self._root)
        self._fd = fd

    def close(self) -> None:
        """Close the directories, and what was read in them."""
        self._places.close()
        os.close(self._fd)
        for one in self._log_dirs:
            one.cache.close()

    # --- partitions -------------------------------------------------------------------------------------------
    def partition(self, path: str, found: DirectoryFindings, end_offset: int | None) -> None:
        """Plan what is done to one partition.

        Args:
            path: of the directory, as the user wrote it.
            found: what verify has found there.
            end_offset: its log end offset, None where nobody knows.

        Raises:
            OSError: a file cannot be read.
        """
        directory = PartitionDir(path, self._log_dir)
        self._told += found.findings
        name = directory.parsed
        if name is None or name.state in ("delete", "stray"):  # a broker removes it, or does not look at it
            return
        self._directories.append(directory)
        try:
            demand_finished(path, names_of(directory.listing))
            if not log_bases(directory.listing.files):
                return
            changes = list(self._of_partition(directory, found, end_offset))
        except RefusedError as error:
            self._leave("", path, error.sentence)
            return
        changes = [one for one in changes if one.kind in self._options.only]
        if changes and not self._is_safe(directory, changes):
            return
        self._changes += [self._moved(one, directory.name) for one in changes]

    def _moved(self, change: Change, partition: str) -> Change:
        """The same change as the plan of the log directory names it."""
        return change.replace(name=os.path.join(partition, change.name), like=os.path.join(partition, change.like))

    def _of_partition(
        self, directory: PartitionDir, found: DirectoryFindings, end_offset: int | None
    ) -> Iterator[Change]:
        path = directory.path
        patches: dict[str, Sequence[Patch]] = {}
        if found.wrong.logs and HEADER in self._options.only:
            plan = plan_partition_patches(path, found.wrong)
            for sentence in plan.refused:
                self._leave(HEADER, path, sentence)
            for change in plan.changes:  # a log whose headers are not determined keeps no other one from it
                patches[change.name] = change.patches
                yield change.replace(kind=HEADER)
        segments = RecoveredSegments(directory, found.reasons.distrusted, patches)
        cuts = list(self._of_zeros(directory, found, segments))
        sizes = {one.name: one.size for one in cuts}
        yield from self._of_reindex(directory, found, end_offset, patches, sizes)
        yield from cuts
        segments = RecoveredSegments(directory, found.reasons.distrusted, patches, sizes)
        last = f"{segments.bases[-1]:020}.log"
        epochs = [one.message for one in found.of(FileKind.EPOCHS.value) if _is_of_file(one)]
        if not epochs and found.by_checkpoint and not (found.has_epoch_errors or found.is_damaged({*patches, *sizes})):
            logs = map(segments.log, segments.bases)
            epochs = [_FOREIGN] if contradicts_batches(directory.epochs, directory.log_start, logs) else []
        if epochs:
            yield from self._written(
                EPOCHS,
                directory,
                FileKind.EPOCHS,
                epochs[0],
                lambda: small_files.epochs(directory, segments, is_torn=found.is_torn(last)),
            )
        # K09 is of a whole file: that of another topic, perhaps, and nobody but a person knows
        metadata = [one for one in found.of(FileKind.PARTITION_METADATA.value) if one.code is Code.K05]
        missing = self._is_kraft and not directory.listing.has(FileKind.PARTITION_METADATA.value)
        why = metadata[0].message if metadata else STRAY_WITHOUT_ID if missing else _foreign_id(directory)
        if why:
            yield from self._written(
                METADATA,
                directory,
                FileKind.PARTITION_METADATA,
                why,
                lambda: small_files.partition_metadata(directory, self._log_dirs, self._options.cluster),
            )

    def _of_reindex(
        self,
        directory: PartitionDir,
        found: DirectoryFindings,
        end_offset: int | None,
        patches: Mapping[str, Sequence[Patch]],
        sizes: Mapping[str, int],
    ) -> Iterator[Change]:
        """The indexes and the producer snapshots that reindex would build, once logs are patched and cut."""
        path = directory.path
        snapshots: frozenset[str] = frozenset()
        if found.reasons.distrusted and SNAPSHOT in self._options.only:
            known = {*directory.bases, end_offset}
            bases = {one: parse_name(one).base_offset for one in found.reasons.distrusted}
            snapshots = frozenset(
                one
                for one, base in bases.items()
                if base is not None and base in known and not found.is_damaged({*patches, *sizes}, base)
            )
        if not (found.reasons.unsound or snapshots):
            return
        given = None if self._options.interval is None else self._options.interval(path)
        options = ReindexOptions(given, snapshots=snapshots)
        plan = plan_reindex(path, found.reasons, options, end_offset, patches, sizes=sizes)
        for sentence in plan.refused:
            self._leave(INDEX, path, sentence)
        self._announces += (one for one in plan.announces if plan.changes)
        self._inputs.update(
            (os.path.join(directory.name, one), state)
            for one, state in plan.inputs.items()
            if one not in patches and one not in sizes
        )
        for change in plan.changes:
            kind = SNAPSHOT if parse_name(change.name).kind is FileKind.SNAPSHOT else INDEX
            yield change.replace(kind=kind)

    def _of_zeros(
        self, directory: PartitionDir, found: DirectoryFindings, segments: RecoveredSegments
    ) -> Iterator[Change]:
        """The logs that end with zero bytes where the next one goes on: a reader stops at them."""
        if ZEROS not in self._options.only:
            return
        for base, next_base in pairwise(segments.bases):
            name = f"{base:020}.log"
            errors = [one for one in found.of(name) if one.severity is Severity.ERROR and one.code is not Code.E03]
            if not errors or any(one.code is not Code.L03 for one in errors):
                continue
            position = min(one.position or 0 for one in errors)
            kept = segments.recovered(base, INDEX_INTERVAL, position)
            before = self._places.state(os.path.join(directory.name, name))
            is_whole = kept.failure is None and kept.valid_bytes == position and kept.end_offset == next_base
            if position and is_whole and before is not None and before.kind == "regular":
                yield Change(name, "truncate", before, position, name, why=errors[0].message, kind=ZEROS)

    def _written(
        self, kind: str, directory: PartitionDir, file: FileKind, why: str, make: Callable[[], NewContent]
    ) -> Iterator[Change]:
        """The change of a small file of a partition."""
        if kind not in self._options.only:
            return
        path = directory.listing.join(file.value)
        try:
            content = make()
        except UndeterminedError as reason:
            self._leave(kind, path, f"{path}: {why}; {reason}")
            return
        like = f"{directory.bases[0]:020}.log"
        before = self._places.state(os.path.join(directory.name, file.value))
        yield _change(file.value, before, content, kind, like, why)

    # --- the files of the log directory -----------------------------------------------------------------------
    def finish(self, found: DirectoryFindings, *, is_named: bool) -> Plan:
        """Return the plan.

        Args:
            found: what verify has found in the log directory itself.
            is_named: the user named it; else its own files are left alone.
        """
        self._told += found.findings
        if is_named:
            for kind in OFFSET_KINDS if CHECKPOINT in self._options.only else ():
                self._checkpoint(kind, found)
            if PROPERTIES in self._options.only:
                self._properties()
        places = [self._root if not inner else os.path.join(self._root, inner) for inner in self._inner()]
        cuts = [one for one in self._changes if one.is_cut]
        plan = Plan(
            REPAIR,
            self._root,
            tuple(self._changes),
            self._inputs,
            names_in(self._root, places, is_log_dir=True),
            bytes_lost=sum(one.before.size - one.size for one in cuts if one.before is not None),
            announces=tuple(dict.fromkeys(self._announces)),
        )
        return plan.replace(left=(*self._left, *self._rest(plan)))

    def _inner(self) -> list[str]:
        names = [*(one.name for one in self._changes), *self._inputs]
        return list(dict.fromkeys(os.path.dirname(one) for one in names))

    def _checkpoint(self, kind: FileKind, found: DirectoryFindings) -> None:
        """Plan what becomes of a checkpoint of offsets."""
        file = self._log_dir.file(kind)
        about = found.of(kind.value)
        if file.is_missing or not file.is_read or not about:
            return
        contradicted = [str(one.values["partition"]) for one in about if small_files.is_of_checkpoint(one)]
        malformed = [one for one in about if one.code is Code.K03]
        if not (contradicted or malformed):
            return
        content = small_files.checkpoint(file, contradicted)
        before = self._places.state(kind.value)
        change = _change(kind.value, before, content, CHECKPOINT, kind.value, (malformed or about)[0].message)
        if self._is_safe_for_all(change):
            self._changes.append(change)
            self._announces += content.announces

    def _properties(self) -> None:
        """Plan what becomes of meta.properties."""
        kind = FileKind.META_PROPERTIES
        why = self._why_properties()
        if not why:
            return
        path = self._log_dir.path_of(kind)
        try:
            content = self._new_properties()
        except UndeterminedError as reason:
            self._leave(PROPERTIES, path, f"{path}: {why}; {reason}")
            return
        like = self._like()
        before = self._places.state(kind.value)
        if before is None and like is None:
            self._leave(PROPERTIES, path, f"{path}: {why}; no other file here tells the owner that it must have")
            return
        self._changes.append(_change(kind.value, before, content, PROPERTIES, like or kind.value, why))
        self._announces += content.announces

    def _new_properties(self) -> NewContent:
        options = self._options
        return small_files.meta_properties(self._log_dir, options.others, options.cluster, options.given)

    def _why_properties(self) -> str:
        """Say why meta.properties must be written; empty where it is sound, or nothing says that it is needed."""
        file = self._log_dir.file(FileKind.META_PROPERTIES)
        if file.is_missing:
            needs = bool(self._options.given) or self._log_dir.has_metadata_log or self._has_topic_ids()
            return "the file is missing: a broker that runs with KRaft does not start without it" if needs else ""
        return file.findings[0].message if file.is_read and file.findings else ""

    def _has_topic_ids(self) -> bool:
        name = FileKind.PARTITION_METADATA.value
        return any(os.path.lexists(os.path.join(one, name)) for one in self._log_dir.listing.partitions())

    def _like(self) -> str | None:
        """A file of the log directory, whose owner and rights a new one gets."""
        kinds = (FileKind.META_PROPERTIES, *OFFSET_KINDS, FileKind.CLEAN_SHUTDOWN)
        return next((one.value for one in kinds if self._places.state(one.value) is not None), None)

    # --- what is left -----------------------------------------------------------------------------------------
    def _leave(self, kind: str, path: str, why: str, command: ShellCommand | None = None) -> None:
        self._left.append(LeftAlone(kind or None, path, why, command))

    def _rest(self, plan: Plan) -> Iterator[LeftAlone]:
        """What was found and is not mended, each code of a file once."""
        told = {(one.path, one.kind) for one in self._left}
        known: dict[tuple[str, Code], list[Finding]] = {}
        mended = {one.code for one in self._told if plan.mends(one)}
        for one in self._told:
            is_effect = one.because is not None and one.because in mended
            if one.severity is not Severity.NOTE and not plan.mends(one) and not is_effect:
                known.setdefault((one.file, one.code), []).append(one)
        for (path, code), findings in known.items():
            first = findings[0]
            if any(where == path for where, _ in told):
                continue  # the reason is told already
            more = f" (and {len(findings) - 1} more of {code.name})" if len(findings) > 1 else ""
            where = "" if first.position is None else f" at byte {first.position}"
            yield LeftAlone(None, path, f"{path}{where}: {first.message}{more}; {first.remedy}", first.repair)

    # --- the proof --------------------------------------------------------------------------------------------
    def _is_safe(self, directory: PartitionDir, changes: Sequence[Change]) -> bool:
        """Whether the coming start keeps all that it keeps without the changes; else they are left out, and told."""
        facts, _ = self._manager.partition(directory, self._options.settings)
        after = facts.replace(files=_changed(facts.files, changes))
        why = self._harm(facts, after)
        if why:
            what = ", ".join(sorted({one.kind for one in changes}))
            self._leave(what, directory.path, f"{directory.path}: {what}: {why}", _verify(directory.path))
        return not why

    def _is_safe_for_all(self, change: Change) -> bool:
        """The same for a checkpoint of the log directory: partitions whose entry changes are held against the model."""
        kind = FileKind(change.name)
        if kind not in (FileKind.RECOVERY_POINT, FileKind.LOG_START):  # a load does not read the others
            return True
        assert change.content is not None
        field = "recovery_point" if kind is FileKind.RECOVERY_POINT else "log_start"
        now = _offsets(kind, change.content.data())
        is_offline = any(one.path == self._log_dir.path_of(kind) for one in self._manager.causes)
        for directory in self._directories:
            if directory.key is None or directory.parsed is None or directory.parsed.is_raft_log:
                continue
            facts, _ = self._manager.partition(directory, self._options.settings)
            mine = [one for one in self._changes if os.path.dirname(one.name) == directory.name]
            files = _changed(facts.files, [one.replace(name=os.path.basename(one.name)) for one in mine])
            before = facts.replace(**{field: self._log_dir.offset(kind, directory.key) or 0})
            after = facts.replace(files=files, **{field: now.get(directory.key, 0)})
            why = self._harm(None if is_offline else before, after)
            if why:
                path = self._log_dir.path_of(kind)
                self._leave(CHECKPOINT, path, f"{path}: without its entry for {directory.name} {why}", _verify(path))
                return False
        return True

    def _harm(self, before: PartitionFacts | None, after: PartitionFacts) -> str:
        """Say what the coming start would do to a partition with the changes that it does not do without; else none.

        Args:
            before: None where it does not load without the changes, whatever the partition is like.
            after: with the changes.
        """
        for start in self._starts:
            now = None if before is None else load(before, start)
            then = load(after, start)
            loaded = now is not None and now.stops is None
            if then.stops is not None and loaded:
                return f"a broker would not load the partition any more ({then.exception})"
            lost, hidden = then.served_lost, then.hidden_records
            if now is not None and loaded:
                lost, hidden = lost - now.served_lost, hidden - now.hidden_records
            if max(lost, hidden) > 0:
                count = counted(max(lost, 0) + max(hidden, 0), "record")
                return f"the coming start would cut or hide {count} that can be read today"
            if now is not None and loaded and _ends_earlier(now, then):
                return f"the log would end at {then.log_end_offset}, and not at {now.log_end_offset}"
        return ""


def _ends_earlier(now: Outcome, then: Outcome) -> bool:
    """Whether a log ends earlier; one that is empty afterwards, for a log start above its end, has no end to keep."""
    start, end = now.log_start_offset, now.log_end_offset
    return start is not None and end is not None and start < end and (then.log_end_offset or 0) < end


def _verify(path: str) -> ShellCommand:
    return command_line("verify", "--start", "auto", named(path))


def _change(name: str, before: FileState | None, content: NewContent, kind: str, like: str, why: str) -> Change:
    action = "create" if before is None else "replace"
    return Change(name, action, before, len(content.data), like, Bytes(content.data), why=why, kind=kind)


def _changed(files: Mapping[str, Source], changes: Sequence[Change]) -> dict[str, Source]:
    """The files of a partition once changes are made."""
    found = dict(files)
    for one in changes:
        if one.is_cut:
            found[one.name] = FilePart(found[one.name], 0, one.size)
        elif one.patches:
            found[one.name] = Overlay(found[one.name], one.patches)
        elif one.content is not None:
            path = found[one.name].name if one.name in found else one.name
            found[one.name] = BytesSource(one.content.data(), path)
    return found


def _offsets(kind: FileKind, data: bytes) -> dict[tuple[str, int], int]:
    from kdump.format.checkpoint.checkpoint_file import offsets_of, read_checkpoint

    return offsets_of(read_checkpoint(kind, BytesSource(data, kind.value), ignore).entries)


def _foreign_id(directory: PartitionDir) -> str:
    """Say that the metadata log has another topic id than it has in every cluster; empty where it has that."""
    is_raft_log = directory.parsed is not None and directory.parsed.is_raft_log
    if not is_raft_log or directory.topic_id in (None, METADATA_TOPIC_ID):
        return ""
    return f"the topic id is {directory.topic_id}; the metadata log has {METADATA_TOPIC_ID} in every cluster"


def _is_of_file(finding: Finding) -> bool:
    """Whether the leader-epoch-checkpoint is wrong itself.

    An epoch that begins above the end of the log is the witness of that end, and a broker drops it.
    """
    return finding.code is Code.K04 and finding.offset is None
