"""The verb salvage: partition by partition, what is intact in any of the sources, as a broker loads it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kdump.finding import Finding
from kdump.format.kinds import FileKind
from kdump.item import Progress
from kdump.rescue.doubtful import DoubtfulFile, doubtful_lines
from kdump.rescue.line_writer import ChangedError, LineWriter
from kdump.rescue.next_steps import Beside, before_all, next_steps, note_below, note_there, notes_if_sound, notes_left
from kdump.rescue.partition_salvage import PartitionSalvage, RefusalError, SalvageOptions
from kdump.rescue.rows import losses_of, rows_of
from kdump.rescue.sources import find_copies, is_partition_name
from kdump.rescue.standing import Standing, standing_by
from kdump.rescue.target import Staging, Target
from kdump.rows.salvaged import Diverged, OpenedTransaction, Salvaged, SalvagedCopy, SalvageDone, SalvageRefused
from kdump.rows.verdict import Certainty
from kdump.storage.file_source import OpenFailure
from kdump.storage.fsops import FileOps
from kdump.storage.json_rows import name_of
from kdump.storage.json_rules import BadValueError
from kdump.storage.log_dir import LogDir
from kdump.storage.names import log_bases
from kdump.storage.outputs import refuse_inside_sources
from kdump.storage.own_files import led_to
from kdump.storage.partition_dir import PartitionDir
from kdump.storage.paths import base_name
from kdump.storage.refusal import RefusedError
from kdump.words.command import with_paths
from kdump.workers import in_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kdump.rescue.destination import PartitionThere
    from kdump.rescue.sources import Copy

    SalvageItem = Finding | OpenFailure | Progress | SalvageDone | SalvageRefused

_SPARE = 1.02  # of what is needed, for indexes
_SMALL = 256 * 1024
_TOLD = 4  # runs that a sentence names


class Wanted:
    """Which partitions are made, and where.

    Args:
        to: the directory that they go into, as the user wrote it.
        name: of the partition whose sources do not tell it, None where none was given.
        topic_partitions: only these; empty for all.
    """

    def __init__(self, to: str, name: str | None, topic_partitions: Sequence[str]) -> None:
        self.to = to
        self.name = name
        self.topic_partitions = frozenset(topic_partitions)


def salvage(
    sources: Sequence[str], wanted: Wanted, options: SalvageOptions, ops: FileOps | None = None
) -> Iterator[SalvageItem]:
    """Yield what becomes of each partition, each after what could not be read of it.

    Args:
        sources: as the user wrote them.
        wanted: which partitions, and where to.
        options: what was asked for.
        ops: makes the calls that write.
    """
    ops = ops or FileOps()
    try:
        found = find_copies(sources, options.deleted, options.limits.max_batch_bytes)
    except RefusedError as error:
        yield SalvageRefused("", str(error), failed=False)
        return
    yield from found.problems
    try:
        groups = _named(found.copies, wanted)
        yield from _nameless(found.copies, wanted)
    except RefusalError as error:
        yield SalvageRefused("", str(error), failed=False)
        return
    works: dict[str, PartitionSalvage] = {}
    yield from _works(groups, options, works)
    if groups and not works:
        return
    target = Target(wanted.to, ops)
    try:
        if options.doubtful is not None:
            refuse_inside_sources(options.doubtful, sources, "--doubtful")
            led_to(os.path.dirname(options.doubtful) or ".")
        whole = target.check(sources, {name: work.made for name, work in works.items()})
        target.clean()
    except RefusedError as error:
        target.close()
        yield SalvageRefused("", str(error), failed=False)
        return
    except OSError as error:
        target.close()
        yield SalvageRefused("", _sentence(error), failed=True)
        return
    doubtful = None
    parts = list(works.items())
    unread = {name: _problems_of(name, found.problems, sources) for name in works}

    def make(number: int) -> Iterator[SalvageItem | bytes]:
        name, work = parts[number]
        return iter(()) if name in whole else _partition(work, target, options, ops, unread[name])

    try:
        yield from _parts_only(works.values())
        doubtful = None if options.doubtful is None else DoubtfulFile(options.doubtful, ops)
        with in_order(range(len(parts)), make, options.jobs, total=_total(works) if options.progress else None) as made:
            for (name, work), items in zip(parts, made, strict=False):
                if name in whole:
                    yield _kept(target, work, unread[name])
                yield from _named_at_last(name, items, target, doubtful)
        if doubtful is not None:
            doubtful.close()
    except OSError as error:
        yield SalvageRefused("", f"{options.doubtful}: {_sentence(error)}", failed=True)
    finally:
        target.close()


def _works(
    groups: dict[str, list[Copy]], options: SalvageOptions, works: dict[str, PartitionSalvage]
) -> Iterator[SalvageRefused]:
    """Put the partitions into a dictionary, in order; yield those that the cluster that they are for cannot take."""
    for name, copies in sorted(groups.items(), key=_order):
        try:
            works[name] = PartitionSalvage(name, copies, options, _there(name, groups, options))
        except RefusedError as error:
            yield SalvageRefused(name, str(error), failed=False)


def _there(name: str, names: Iterable[str], options: SalvageOptions) -> PartitionThere | None:
    """What the cluster that a result is for has of a partition; None where it is that of the sources.

    Raises:
        RefusedError: it has no such partition, or nothing tells.
    """
    if options.destination is None:
        return None
    topic = name.rpartition("-")[0]
    numbers = [int(one.rpartition("-")[2]) for one in names if one.rpartition("-")[0] == topic]
    return options.destination.there(name, max(numbers) + 1)


def _total(works: dict[str, PartitionSalvage]) -> int:
    """Bytes that are read, and then written, as far as the sizes of the logs tell."""
    return 2 * sum(work.size for work in works.values())


def _named_at_last(
    name: str, items: Iterable[SalvageItem | bytes], target: Target, doubtful: DoubtfulFile | None
) -> Iterator[SalvageItem]:
    """Hand on what became of a partition, and give it its final name: only this process does that, in order."""
    failed: SalvageRefused | None = None
    for item in items:
        try:
            if isinstance(item, bytes) and doubtful is not None and failed is None:
                doubtful.write(item)
            elif isinstance(item, SalvageDone) and failed is None:
                target.publish(name)
        except RefusedError as error:
            failed = SalvageRefused(name, str(error), failed=False)
        except OSError as error:
            failed = SalvageRefused(name, f"{name}: {_sentence(error)}", failed=True)
        if not isinstance(item, bytes) and (failed is None or isinstance(item, Progress)):
            yield item
    if failed is not None:
        target.forget(name)
        yield failed


def _order(pair: tuple[str, object]) -> tuple[str, int]:
    topic, _, number = pair[0].rpartition("-")
    return topic, int(number)


def _named(copies: Sequence[Copy], wanted: Wanted) -> dict[str, list[Copy]]:
    """The copies by the names of their partitions.

    Raises:
        RefusalError: a name is needed.
    """
    groups: dict[str, list[Copy]] = {}
    alone = [copy for copy in copies if not _is_of_log_dir(copy)]
    names = {copy.name for copy in alone if not copy.is_carved}
    if len(names) > 1 and wanted.name is None:
        told = ", ".join(sorted(base_name(copy.path) for copy in alone))
        raise RefusalError(f"the sources have different names ({told}): say what they are copies of, --name TOPIC-N")
    for copy in copies:
        name = copy.name
        if wanted.name is not None and (name is None or (copy in alone and not copy.is_carved)):
            name = wanted.name
        if name is None or not is_partition_name(name):
            if copy.is_carved and not _is_named_file(copy):
                continue
            why = f"{copy.source}: its directory has no name of a partition, TOPIC-N: say it with --name TOPIC-N"
            raise RefusalError(why)
        groups.setdefault(name, []).append(copy)
    if wanted.topic_partitions:
        return {name: some for name, some in groups.items() if name in wanted.topic_partitions}
    return groups


def _nameless(copies: Sequence[Copy], wanted: Wanted) -> Iterator[OpenFailure]:
    """Yield what is said of runs that belong to nothing: a partition that is whole but for them looks whole."""
    for copy in copies:
        if copy.is_carved and copy.name is None and wanted.name is None and not _is_named_file(copy):
            names = [base_name(log.path) for log in copy.logs]
            one = "1 run has no partition and stays"
            many = one if len(names) == 1 else f"{len(names)} runs have no partition and stay"
            what = f"{many} out ({', '.join(names[:_TOLD])}{' ...' if len(names) > _TOLD else ''})"
            how = "name the runs of one partition, those that have it too, as sources with --name TOPIC-N"
            yield OpenFailure(copy.path, "skipped", f"{copy.path}: {what}: look into them with kdump dump, then {how}")


def _is_of_log_dir(copy: Copy) -> bool:
    return os.path.isdir(copy.source) and os.path.realpath(copy.source) != os.path.realpath(copy.path)


def _is_named_file(copy: Copy) -> bool:
    return not os.path.isdir(copy.source)


def _partition(
    work: PartitionSalvage, target: Target, options: SalvageOptions, ops: FileOps, unread: Sequence[OpenFailure]
) -> Iterator[SalvageItem | bytes]:
    """Make a partition under temporary names; lines for the doubtful file are bytes."""
    try:
        yield from work.load()
        yield from work.findings
        yield from work.problems
        if options.doubtful is not None:
            yield from doubtful_lines(work.read, options.limits)
        if not work.has_batches:
            sources, left = ", ".join(work.sources), work.left_to_broker
            is_empty = work.is_empty and not left and not work.left_unread
            what = f"empty in {sources}, and nothing there tells of a record: not written"
            sentence = f"{work.name}: {what if is_empty else f'no batch of it was found in {sources}'}"
            yield OpenFailure(work.name, "skipped" if is_empty else "missing", sentence)
            yield from (OpenFailure(work.name, "skipped", one) for one in notes_left(work.name, left))
            yield from work.left_unread
            return
        line = work.line()
        writer = LineWriter(work, line, target, options, ops)
        writer.judge_transactions()
        yield from _written(work, writer, target, ops, _without([*unread, *work.problems]))
    except (RefusalError, RefusedError) as error:
        yield SalvageRefused(work.name, str(error), failed=False)
    except ChangedError as error:
        yield OpenFailure(work.name, "read", f"{work.name}: {error}")
    except OSError as error:
        yield SalvageRefused(work.name, f"{work.name}: {_sentence(error)}", failed=True)
    finally:
        work.close()


def _written(
    work: PartitionSalvage, writer: LineWriter, target: Target, ops: FileOps, without: tuple[str, ...]
) -> Iterator[SalvageItem]:
    target.open()
    need, free = int(writer.size * _SPARE) + _SMALL, target.free()
    if need > free:
        raise RefusalError(f"{work.name}: {target.path} has {free} bytes free, and {need} are needed")
    staging, read = Staging(target, work.name, ops), work.size
    try:
        staging.open()
        for progress in writer.write(staging, work.settings()):
            yield progress.replace(done=read + progress.done)
        if not writer.result.batches:
            why = "not written, as each of its batches stays out"
            if (below := writer.all_below) is not None:
                why += f": they lie below the log start offset {below}, and count with --below-log-start"
                raise RefusalError(f"{work.name}: {why}")
            how = with_paths("verify", work.sources)
            why += ": it was aborted, or its place is unknown"
            raise RefusalError(f"{work.name}: {why}; see what is wrong with them: {how}")
        staging.finish()
    except (OSError, ChangedError, RefusalError):
        staging.discard()
        raise
    finally:
        staging.close()
    path = os.path.join(target.path, work.name)
    has_id, is_part = work.metadata() is not None, bool(work.parts)
    start, is_lowered = work.start_entry(writer.result.log_start_offset, writer.first_base)
    standing = Standing() if before_all(work, path, writer.result, without) else writer.standing
    beside = Beside(has_id, start, writer.latest_epoch, is_lowered)
    stay = (*note_below(work.name, writer.rows.records_below, start), *notes_left(work.name, work.left_to_broker))
    fits = () if work.there is None else note_there(work.name, work.there, writer.fitted)
    yield from work.left_unread
    out = writer.rows.diverged + sum(one.records for one in writer.left_out.batches)
    steps = next_steps(work, standing, writer.result, path, beside, without=without, left_out=out)
    yield SalvageDone(
        writer.result,
        path,
        rows=target.rows_path(work.name),
        records_lost=writer.rows.records_lost,
        ranges_unknown=writer.rows.ranges_unknown,
        diverged=writer.rows.diverged,
        notes=(
            *work.notes,
            *fits,
            *stay,
            *notes_if_sound(standing, work.name, start, is_lowered=is_lowered, records_below=writer.rows.records_below),
        ),
        steps=steps,
        is_new=True,
        without=without,
        is_part=is_part,
        left_out=tuple(writer.left_out.batches),
        is_sound=standing.is_sound and not stay,
        is_of_runs=work.is_of_runs,
        among=tuple(f"{one.file}: {one.message}" for one in writer.rows.among),
        left=tuple(work.left_to_broker),
    )


def _sentence(error: OSError) -> str:
    where = f"{error.filename}: " if isinstance(error.filename, str) else ""
    return f"{where}{error.strerror or error}"


def _kept(target: Target, work: PartitionSalvage, unread: Sequence[OpenFailure]) -> SalvageDone | SalvageRefused:
    """What a run before this one has made, as far as its rows are rows of kdump."""
    try:
        return _as_before(target, work, unread)
    except (BadValueError, OSError) as error:
        rows, made = target.rows_path(work.name), os.path.join(target.path, work.name)
        why = (
            f"cannot be read ({_sentence(error)})" if isinstance(error, OSError) else f"are no rows of kdump ({error})"
        )
        return SalvageRefused(work.name, f"{rows}: {why}; remove it and {made}, or name another --to", failed=False)


def _as_before(target: Target, work: PartitionSalvage, unread: Sequence[OpenFailure]) -> SalvageDone:
    """What a run before this one has made; the sources are not read again."""
    name = work.name
    records = unknown = diverged = below = 0
    last: dict[str, Any] = {}
    among: list[str] = []
    for loss in losses_of(target.rows_path(name)):
        if loss.certainty is Certainty.ABSENT and loss.file is not None:
            below += loss.records or 0
        if loss.counts:
            records += loss.records or 0
            unknown += loss.records is None
    for row in rows_of(target.rows_path(name)):  # all of them: whoever shows them later takes them as they are
        if row["type"] == Finding.row_name:
            among.append(f"{name_of(row['file'])}: {row['message']}")
        elif row["type"] == Diverged.row_name:
            diverged += row["records"]
        elif row["type"] == Salvaged.row_name:
            last = row
    if not last:
        raise BadValueError("the last row", "is not that of a partition that is whole")
    result = _salvaged_of(last)
    path = os.path.join(target.path, name)
    has_id = os.path.exists(os.path.join(path, FileKind.PARTITION_METADATA.value))
    without = _without(unread)
    is_part = bool(work.parts)
    is_lacking = bool(before_all(work, path, result, without))
    standing = Standing() if is_lacking or among else standing_by(result.copies)
    first_base = min(log_bases(os.listdir(path)), default=result.log_start_offset)
    start, is_lowered = work.start_entry(result.log_start_offset, first_base)
    epochs = PartitionDir(path, LogDir(target.path)).epochs
    beside = Beside(has_id, start, epochs[-1].epoch if epochs else -1, is_lowered)
    steps = next_steps(work, standing, result, path, beside, without=without, left_out=diverged)
    rows = target.rows_path(name)
    changed = tuple(work.changed_since(os.stat(rows).st_mtime_ns))
    note = f"{name}: kept from a former run, its sources were not read again"
    if changed:
        note += f", and {changed[0]}{' and others' if changed[1:] else ''} changed since"
    note += f"; to make it from them as they are now, remove {path} or name another --to"
    stay = (*note_below(name, below, start), *notes_left(name, work.left_to_broker))
    notes = (note, *stay, *notes_if_sound(standing, name, start, is_lowered=is_lowered, records_below=below))
    unknown += len(among)
    done = SalvageDone(
        result,
        path,
        rows=rows,
        records_lost=records,
        ranges_unknown=unknown,
        diverged=diverged,
        notes=notes,
        steps=steps,
        is_new=False,
        changed=changed,
    )
    return done.replace(
        among=tuple(among),
        without=without,
        is_part=is_part,
        is_of_runs=work.is_of_runs,
        is_sound=standing.is_sound and not stay,
        left=tuple(work.left_to_broker),
    )


def _salvaged_of(row: dict[str, Any]) -> Salvaged:
    """The row that ends the rows of a partition, once it was held to its table."""
    return Salvaged(
        str(name_of(row["partition"])),
        tuple(str(name_of(one)) for one in row["sources"]),
        batches=row["batches"],
        records=row["records"],
        size=row["bytes"],
        segments=row["segments"],
        log_start_offset=row["logStartOffset"],
        log_end_offset=row["logEndOffset"],
        offsets_lost=row["offsetsLost"],
        offsets_unexplained=row["offsetsUnexplained"],
        open_transactions=tuple(
            OpenedTransaction(one["producerId"], one["producerEpoch"], one["firstOffset"])
            for one in row["openTransactions"]
        ),
        copies=tuple(
            SalvagedCopy(str(name_of(one["path"])), one["state"], one.get("logEndOffset"))
            for one in row.get("copies", [])
        ),
        topic_id=row.get("topicId"),
        leader_epoch=row.get("leaderEpoch"),
    )


def _problems_of(name: str, problems: Iterable[OpenFailure], sources: Sequence[str]) -> list[OpenFailure]:
    """What could not be read and may have had more of a partition: a source of the user, or a directory of its name."""
    return [one for one in problems if one.kind != "skipped" and (one.path in sources or base_name(one.path) == name)]


def _without(problems: Iterable[OpenFailure]) -> tuple[str, ...]:
    """Name what salvage went on without, each with the reason."""
    return tuple(dict.fromkeys(f"{one.path} ({_reason(one)})" for one in problems))


def _reason(problem: OpenFailure) -> str:
    if problem.missing:
        return "no log of a partition here" if os.path.isdir(problem.path) else "no such file"
    return "some bytes could not be read" if problem.kind == "read" else "could not be read"


def _parts_only(works: Iterable[PartitionSalvage]) -> Iterator[OpenFailure]:
    """Yield for each directory that not all segments of it are read, where its other segments were not named."""
    for copy in (copy for work in works for copy in work.parts):
        what = f"only {len(copy.bases) - copy.unread} of {len(copy.bases)} segments read: name the directory for all"
        if copy.is_aside:
            what = f"logs that a broker is to remove are read alone, and none of the {len(copy.bases)} that it serves"
        yield OpenFailure(copy.path, "skipped", f"{copy.path}: {what}")
