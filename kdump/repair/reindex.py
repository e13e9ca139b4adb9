"""The plan of `kdump reindex`: missing or corrupt indexes, as LogSegment.recover builds them.

The order of the writes: segment by segment the offset index, the time index and the transaction index, and with
`--snapshot` the producer snapshots behind all indexes. `apply` carries them out one at a time. With `--output` they are
written into a directory of the user, never beside the log.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from kdump.broker.index_interval import infer_interval
from kdump.broker.load.recover import recover
from kdump.broker.producer.lost_aborts import lost_aborts
from kdump.broker.producer.lost_ends import lost_ends, may_prove
from kdump.broker.producer.producer_state_manager import in_java_order
from kdump.broker.producer.replay import Producers
from kdump.finding import Code, Finding
from kdump.format.batch.header_fields import Overlay
from kdump.format.checkpoint.producer_snapshot import encode_snapshot
from kdump.format.index.offset_and_time import INDEX_INTERVAL
from kdump.format.index.transaction_index import TransactionIndex
from kdump.format.kinds import FileKind
from kdump.format.read_limits import ReadLimits
from kdump.repair.errors import FailedError, RefusedError
from kdump.repair.file_state import open_directory, sha256_of_name, state_of
from kdump.repair.guard import check_quarantine
from kdump.repair.plan import Bytes, Change, Plan, names_of
from kdump.storage.file_source import FileSource, OpenFailure
from kdump.storage.fsops import FileOps
from kdump.storage.log_dir import LogDir
from kdump.storage.names import parse_name
from kdump.storage.open_files import open_source
from kdump.storage.outputs import refuse_inside_sources
from kdump.storage.own_files import make_own_place, open_own_directory, open_own_place
from kdump.storage.partition_dir import PartitionDir
from kdump.storage.paths import above
from kdump.value import Value, pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from kdump.broker.load.recover import Recovered
    from kdump.format.batch.header_fields import Patch
    from kdump.format.checkpoint.checkpoint_file import EpochEntry
    from kdump.format.index.transaction_index import AbortedTxn
    from kdump.format.source import Source
    from kdump.repair.file_state import FileState
    from kdump.repair.plan import Content
    from kdump.repair.reasons import Reasons

_NONE: Mapping[str, Sequence[Patch]] = MappingProxyType({})
INDEX_KINDS = (FileKind.INDEX, FileKind.TIMEINDEX, FileKind.TXNINDEX)


def file_name(base: int, kind: FileKind) -> str:
    """Return the name of a file of a segment."""
    return f"{base:020}.{kind.value}"


class RecoveredSegments:
    """The segments of one partition directory.

    Args:
        distrusted: names of snapshots that are not to be used.
        patches: what the headers of logs will have, by the names of the logs.
        sizes: what logs will be cut to, bytes, by their names; None where none is.
    """

    def __init__(
        self,
        directory: PartitionDir,
        distrusted: Collection[str] = (),
        patches: Mapping[str, Sequence[Patch]] = _NONE,
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        self._directory = directory
        self._distrusted = distrusted
        self._patches = patches
        self._sizes = sizes or {}
        self.bases = directory.bases  # base offsets, ascending
        self._known: tuple[int, Producers] = (0, Producers.empty())  # at the base of the segment after the latest

    @contextmanager
    def log(self, base: int, size: int | None = None) -> Iterator[Source]:
        """Open a log.

        Args:
            base: its base offset.
            size: how much of it is there for the reader; None for all.
        """
        with FileSource(self._directory.path_of(base, FileKind.LOG), follow=False) as source:
            name = file_name(base, FileKind.LOG)
            source.size = min(source.size, self._sizes.get(name, source.size), source.size if size is None else size)
            patches = self._patches.get(name)
            yield Overlay(source, patches) if patches else source

    def recovered(self, base: int, interval: int, size: int | None = None) -> Recovered:
        """Return what a broker makes of a segment, with what is known of producers before it.

        Args:
            base: of the segment.
            interval: index.interval.bytes.
            size: bytes of the log that count; None for all.

        Raises:
            OSError: a file cannot be read.
        """
        producers = self.producers_at(base)
        with self.log(base, size) as log:
            found = recover(log, base, interval, producers, partition=self._directory.name)
        after = [one for one in self.bases if one > base]
        if after:
            self._known = after[0], found.producers
        return found

    def epochs_of(self, base: int, latest: int, *, is_torn: bool = False) -> Sequence[EpochEntry] | None:
        """Return the leader epochs that begin in a segment, None where it cannot be read to its end.

        Args:
            base: of the segment.
            latest: the newest epoch before it, -1 for none.
            is_torn: only what a broker was about to append is missing at its end, and that may be.

        Raises:
            OSError: the log cannot be read.
        """
        with self.log(base) as log:
            found = recover(log, base, log.size, Producers.empty(), latest_epoch=latest)
            is_read = found.failure is None and found.valid_bytes == log.size
            return found.epochs if is_read or is_torn else None

    def producers_at(self, base: int) -> Producers:
        """Return what a broker knows of producers at the start of a segment: none of them expires.

        By the newest sound snapshot at the start of a segment up to there, and by the segments after it.
        """
        start, known = self._known if self._known[0] <= base else (0, Producers.empty())
        for one in reversed(self.bases):
            if start < one <= base:
                entries = self._snapshot(one)
                if entries is not None:
                    start, known = one, entries
                    break
        for one in self.bases:
            if start <= one < base:
                with self.log(one) as log:
                    known = recover(log, one, log.size, known).producers
        return known

    def _snapshot(self, base: int) -> Producers | None:
        name = file_name(base, FileKind.SNAPSHOT)
        if not self._directory.listing.has(name) or name in self._distrusted:
            return None
        file = self._directory.file(name, FileKind.SNAPSHOT)
        snapshot = file.snapshot()
        if snapshot is None:
            raise OSError(f"{file.path}: cannot be read") if file.error is None else file.error
        return None if snapshot.error is not None else Producers.of_snapshot(snapshot.entries, base)


_HELD = 8 * 1024 * 1024  # bytes of new indexes that are kept until they are written; the rest is made again
_PATCH = "kdump patch-header restores it where it is determined, or --up-to-damage indexes what lies before it"

_WITNESS = "its indexes are the only evidence of that, and stay; --force rebuilds them all the same"


class ReindexOptions(Value):
    """The options of reindex."""

    interval: int | None = None  # index.interval.bytes; None to infer it from the indexes that are there
    up_to_damage: bool = False  # index what lies before damage in a log; else a damaged log is left alone
    force: bool = False  # rebuild sound indexes too
    snapshot: bool = False  # producer snapshots as well
    bases: frozenset[int] | None = None  # of the segments that are meant; None for all
    snapshots: frozenset[str] = frozenset()  # names of producer snapshots that are built again, and no others


class _Rebuilt:
    """The content of an index that is made when it is needed."""

    def __init__(self, make: Callable[[], bytes], data: bytes, *, held: bool) -> None:
        self._make = make
        self._data = data if held else None
        self.size = len(data)
        self.sha256 = hashlib.sha256(data).hexdigest()

    def data(self) -> bytes:
        """Return the bytes."""
        return self._make() if self._data is None else self._data


def plan_reindex(
    directory: str,
    reasons: Reasons,
    options: ReindexOptions,
    end_offset: int | None = None,
    patches: Mapping[str, Sequence[Patch]] = _NONE,
    *,
    sizes: Mapping[str, int] | None = None,
) -> Plan:
    """Return what would be done to the indexes of one partition directory.

    Args:
        directory: its path, as the user wrote it.
        reasons: what is wrong with its files.
        options: what is asked for.
        end_offset: the log end offset, when it is known.
        patches: what the headers of logs will have before that, by the names of the logs.
        sizes: what logs will be cut to before that, bytes, by their names; None where none is.

    Raises:
        RefusedError: the directory cannot be read.
        OSError: a file cannot be read.
    """
    partition = PartitionDir(directory, LogDir(above(directory)))
    names = names_of(partition.listing)
    fd = open_directory(directory)
    try:
        return _Planner(partition, fd, names, reasons, options, patches, sizes=sizes or {}).plan(end_offset)
    finally:
        os.close(fd)


class _Planner:
    """Makes one plan."""

    def __init__(
        self,
        partition: PartitionDir,
        fd: int,
        names: tuple[str, ...],
        reasons: Reasons,
        options: ReindexOptions,
        patches: Mapping[str, Sequence[Patch]],
        *,
        sizes: Mapping[str, int],
    ) -> None:
        self._partition = partition
        self._directory = partition.path
        self._fd = fd
        self._names = names
        self._there = frozenset(names)
        self._reasons = reasons
        self._options = options
        self._segments = RecoveredSegments(partition, reasons.distrusted, patches, sizes)
        self._patched = patches
        self._sizes = sizes
        self._changes: list[Change] = []
        self._inputs: dict[str, FileState] = {}
        self._refused: list[str] = []
        self._held = 0
        self._kept = 0

    def plan(self, end_offset: int | None) -> Plan:
        """Return the plan."""
        wanted = self._options.bases
        bases = [base for base in self._segments.bases if wanted is None or base in wanted]
        work = (
            {}
            if self._partition.is_leftover and not self._options.force
            else {base: self._unsound(base) for base in bases}
        )
        announces = []
        interval = self._options.interval or 0
        if self._options.interval is None and any(work.values()):
            interval, said = self._interval()
            announces.append(said)
        for base, kinds in work.items():
            there = sum(self._partition.has(base, kind) for kind in INDEX_KINDS)
            before = len(self._changes)
            if kinds:
                self._segment(base, kinds, interval)
            self._kept += there - sum(one.before is not None for one in self._changes[before:])
        if self._options.snapshot:
            for base in bases:
                self._snapshot(base)
        for name in sorted(self._options.snapshots):
            self._snapshot(parse_name(name).base_offset or 0)
        return Plan(
            "reindex",
            self._directory,
            tuple(self._changes),
            self._inputs,
            self._names,
            log_end_offset=end_offset,
            log_end_before=end_offset,
            announces=tuple(announces),
            kept=self._kept,
            refused=tuple(self._refused),
            alone=tuple(dict.fromkeys(one.like for one in self._changes)) if self._refused else (),
        )

    def _unsound(self, base: int) -> list[FileKind]:
        """The kinds of index that are to be built."""
        if self._options.force:
            return list(INDEX_KINDS)
        found = []
        for kind in INDEX_KINDS:
            reason = self._reasons.unsound.get(file_name(base, kind))
            is_gone = reason is not None and reason.code is Code.F09
            if reason is not None and not (is_gone and not self._size(base)):
                found.append(kind)
        return found

    def _size(self, base: int) -> int:
        state = state_of(self._fd, file_name(base, FileKind.LOG))
        return 0 if state is None else state.size

    def _interval(self) -> tuple[int, str]:
        files = self._partition.sources()
        found = infer_interval({name: one for name, one in files.items() if name not in self._reasons.unsound})
        if found is None:
            return INDEX_INTERVAL, f"index.interval.bytes {INDEX_INTERVAL} is assumed: no sound index tells it"
        return found, f"index.interval.bytes {found} is taken from the indexes that are sound"

    def _segment(self, base: int, kinds: list[FileKind], interval: int) -> None:
        """Add what is to be done to the indexes of one segment."""
        log = file_name(base, FileKind.LOG)
        state = state_of(self._fd, log)
        if state is None or state.kind != "regular":
            self._refused.append(f"{self._path(log)}: is not a regular file; only regular files are read")
            return
        cause = self._reasons.witnesses.get(base)
        if cause is not None and not self._options.force:
            self._refused.append(f"{self._path(log)}: {cause.message}; {_WITNESS}")
            return
        limit = None if log in self._patched else self._reasons.wrong_offsets.get(log)
        if limit is not None and not self._options.up_to_damage:
            why = f"the base offset of the batch at byte {limit} is wrong, and would be in the index"
            self._refused.append(f"{self._path(log)}: {why}; {_PATCH}")
            return
        done = self._segments.recovered(base, interval, limit)
        why = _damage(done, self._sizes.get(log, state.size) if limit is None else limit)
        if why and (not self._options.up_to_damage or (done.failure is not None and done.failure.escapes)):
            self._refused.append(f"{self._path(log)}: {why}")
            return
        self._inputs[log] = state
        for kind in kinds:
            data = self._made(base, limit, kind, done)
            again = partial(self._made_again, base, limit, kind, interval)
            self._index(base, kind, data, again)

    def _made_again(self, base: int, limit: int | None, kind: FileKind, interval: int) -> bytes:
        return self._made(base, limit, kind, self._segments.recovered(base, interval, limit))

    def _made(self, base: int, limit: int | None, kind: FileKind, done: Recovered) -> bytes:
        """The bytes of an index, with the entries of the old one that are the last witnesses of aborts."""
        if kind is FileKind.INDEX:
            return done.index()
        if kind is FileKind.TIMEINDEX:
            return done.timeindex()
        partition = self._partition
        opened = open_source(partition.path_of(base, kind), follow=False)
        if self._options.force or isinstance(opened, OpenFailure):
            return done.txnindex()
        with opened, self._segments.log(base, limit) as log:
            entries = TransactionIndex(opened, base).sound_entries()
            kept = lost_aborts(log, base, partition.next_base(base), entries, done.aborted, done.producers.entries)
        proven = {(one.producer_id, one.last_offset): one for one in self._proven(base, entries, done.aborted)}
        made = [proven.get((one.producer_id, one.last_offset), one) for one in done.aborted]
        return TransactionIndex.encode(sorted([*made, *kept], key=lambda one: one.last_offset))

    def _proven(self, base: int, entries: Sequence[AbortedTxn], made: Sequence[AbortedTxn]) -> Iterator[AbortedTxn]:
        """The entries of an index that are the last witnesses of the ends of the transactions before theirs."""
        if may_prove(entries, made):
            yield from (told.proof for told in lost_ends(self._logs_up_to(base), entries, ReadLimits()) if told.proof)

    def _logs_up_to(self, last: int) -> Iterator[tuple[Source, int, int | None]]:
        for base in self._segments.bases:
            if base <= last:
                with self._segments.log(base) as log:
                    yield log, base, self._partition.next_base(base)

    def _index(self, base: int, kind: FileKind, data: bytes, again: Callable[[], bytes]) -> None:
        name = file_name(base, kind)
        before = state_of(self._fd, name)
        is_wanted = kind is FileKind.INDEX or name in self._reasons.unsound or bool(data)
        if (before is None and not is_wanted) or self._is_same(name, before, data):
            return
        reason = self._reasons.unsound.get(name)
        content = self._content_of(data, again)
        self._add(name, base, before, content, reason)

    def _content_of(self, data: bytes, make: Callable[[], bytes]) -> Content:
        held = self._held + len(data) <= _HELD
        self._held += len(data) if held else 0
        return _Rebuilt(make, data, held=held)

    def _add(self, name: str, base: int, before: FileState | None, content: Content, reason: Finding | None) -> None:
        self._changes.append(
            Change(
                name,
                "create" if before is None else "rebuild-index" if _is_index(name) else "replace",
                before,
                content.size,
                file_name(max(one for one in self._segments.bases if one <= base), FileKind.LOG),
                content,
                why="" if reason is None else reason.message,
            )
        )

    def _snapshot(self, base: int) -> None:
        """Add the producer snapshot at the start of a segment, where it is wrong, or missing for the last one."""
        name = file_name(base, FileKind.SNAPSHOT)
        reason = self._reasons.distrusted.get(name)
        is_missing = base == self._segments.bases[-1] and name not in self._there and base > 0
        if reason is None and not is_missing:
            return
        known = self._segments.producers_at(base)
        before = state_of(self._fd, name)
        data = encode_snapshot(in_java_order(known.entries))
        if not self._is_same(name, before, data):
            self._add(name, base, before, Bytes(data), reason)

    def _is_same(self, name: str, before: FileState | None, data: bytes) -> bool:
        if before is None or before.size != len(data):
            return False
        return sha256_of_name(self._fd, name) == hashlib.sha256(data).hexdigest()

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)


def _is_index(name: str) -> bool:
    return not name.endswith(FileKind.SNAPSHOT.value)


_CRC = pattern(r"(?<= crc = )[0-9]+")


def _damage(done: Recovered, size: int) -> str:
    """The reason why a recovery did not reach the end of a log; empty when it did."""
    if done.failure is not None:
        why = done.failure.exception.rpartition(".")[2] if " " not in done.failure.exception else done.failure.exception
        why = _CRC.sub(lambda number: f"{int(number[0]):#010x}", why)  # as verify tells them
        where = f"a broker does not get past the batch at byte {done.failure.position} ({why})"
    elif done.valid_bytes < size:
        where = f"no whole batch begins at byte {done.valid_bytes}"
    else:
        return ""
    if done.failure is not None and done.failure.escapes:
        return f"{where}: such a segment has no index; see what kdump verify says of it"
    return (
        f"{where}: an index would hide that; see what kdump verify says, or index what lies before with --up-to-damage"
    )


def write_aside(plan: Plan, output: str, inputs: Sequence[str] = (), ops: FileOps | None = None) -> None:
    """Write what a plan would put into a partition directory below another directory.

    Args:
        plan: with the contents.
        output: the directory; a directory with the name of the partition is made in it.
        inputs: what the user named, in which nothing is made.
        ops: makes the calls.

    Raises:
        RefusedError: it lies in what is read, in a log directory, or has such files already; somebody else may write
            there.
        FailedError: a call failed.
    """
    ops = ops or FileOps()
    check_quarantine(output, [plan.directory], "--output")
    folder = os.path.join(os.path.realpath(output), plan.partition)
    if os.path.islink(folder):
        raise RefusedError(f"{folder}: is a symbolic link, and none is followed here; name another directory")
    refuse_inside_sources(folder, [plan.directory, *inputs], "--output")
    taken = [one.name for one in plan.changes if os.path.lexists(os.path.join(folder, one.name))]
    if taken:
        raise RefusedError(f"{os.path.join(folder, taken[0])}: is there already; name another directory for --output")
    if not plan.changes:
        return
    try:
        outer = _opened(output, ops)
        try:
            if state_of(outer, plan.partition) is None:
                ops.make_directory(outer, plan.partition)
            inner = open_own_directory(folder, outer, plan.partition)
        finally:
            os.close(outer)
        try:
            for change in plan.changes:
                if change.content is not None:
                    _write(inner, change.name, change.content.data(), ops)
        finally:
            os.close(inner)
    except OSError as error:
        raise FailedError(f"{folder}: {error.strerror}; the partition was not touched") from error


def _opened(output: str, ops: FileOps) -> int:
    """The descriptor of the directory of a result, made where it is not there."""
    try:
        return open_own_place(output)
    except FileNotFoundError:
        return make_own_place(output, ops, is_new=False)


def _write(directory: int, name: str, data: bytes, ops: FileOps) -> None:
    fd = ops.create(directory, name)
    try:
        ops.write(fd, data, 0)
        ops.sync(fd)
    finally:
        os.close(fd)
