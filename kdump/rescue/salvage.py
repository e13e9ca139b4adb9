"""The verb salvage: partition by partition, what is intact in any of the sources, as a broker loads it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from kdump.format.kinds import FileKind
from kdump.item import Progress
from kdump.render.shell import command_line, named, renaming
from kdump.rescue.doubtful import DoubtfulFile, doubtful_lines
from kdump.rescue.partition import ChangedError, LineWriter, PartitionSalvage, RefusalError, SalvageOptions
from kdump.rescue.rows import lines_of, losses_of, name_of
from kdump.rescue.sources import find_copies, is_partition_name
from kdump.rescue.standing import Standing, standing_by
from kdump.rescue.target import Staging, Target, UnfitError
from kdump.salvaged import OpenedTransaction, Salvaged, SalvagedCopy, SalvageDone, SalvageRefused, SalvageStep
from kdump.storage.file_source import OpenFailure
from kdump.storage.fsops import FileOps
from kdump.storage.misplaced import renamed
from kdump.storage.names import METADATA_TOPIC, OFFSETS_TOPIC, OWN_TOPICS, log_bases
from kdump.storage.paths import base_name
from kdump.workers import in_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kdump.finding import Finding
    from kdump.rescue.sources import Copy

    SalvageItem = Finding | OpenFailure | Progress | SalvageDone | SalvageRefused

_SPARE = 1.02  # of what is needed, for indexes
_SMALL = 256 * 1024
_TOLD = 4  # runs that are named in a sentence


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
    found = find_copies(sources)
    yield from found.problems
    try:
        groups = _named(found.copies, wanted)
        yield from _nameless(found.copies, wanted)
    except RefusalError as error:
        yield SalvageRefused("", str(error), failed=False)
        return
    works = {name: PartitionSalvage(name, copies, options) for name, copies in sorted(groups.items(), key=_order)}
    target = Target(wanted.to, ops)
    try:
        whole = target.check(sources, {name: work.sources for name, work in works.items()})
        target.clean()
    except UnfitError as error:
        yield SalvageRefused("", str(error), failed=False)
        return
    except OSError as error:
        yield SalvageRefused("", _sentence(error), failed=True)
        return
    yield from _parts_only(works.values())
    doubtful = None
    parts = list(works.items())
    unread = {name: _problems_of(name, found.problems, sources) for name in works}

    def make(number: int) -> Iterator[SalvageItem | bytes]:
        name, work = parts[number]
        return iter(()) if name in whole else _partition(work, target, options, ops, unread[name])

    try:
        doubtful = None if options.doubtful is None else DoubtfulFile(options.doubtful, ops)
        with in_order(range(len(parts)), make, options.jobs, total=_total(works) if options.progress else None) as made:
            for (name, work), items in zip(parts, made, strict=False):
                if name in whole:
                    yield _as_before(target, work, unread[name])
                yield from _named_at_last(name, items, target, doubtful)
        if doubtful is not None:
            doubtful.close()
    except OSError as error:
        yield SalvageRefused("", f"{options.doubtful}: {_sentence(error)}", failed=True)
    finally:
        target.close()


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
    names = {copy.name for copy in alone if not copy.is_run}
    if len(names) > 1 and wanted.name is None:
        told = ", ".join(sorted(base_name(copy.path) for copy in alone))
        raise RefusalError(f"the sources have different names ({told}): say what they are copies of, --name TOPIC-N")
    for copy in copies:
        name = copy.name
        if wanted.name is not None and (name is None or (copy in alone and not copy.is_run)):
            name = wanted.name
        if name is None or not is_partition_name(name):
            if copy.is_run and not _is_named_file(copy):
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
        if copy.is_run and copy.name is None and wanted.name is None and not _is_named_file(copy):
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
            sources, is_empty = ", ".join(work.sources), work.is_empty
            what = f"empty in {sources}, and nothing there tells of a record: not written"
            sentence = f"{work.name}: {what if is_empty else f'no batch of it was found in {sources}'}"
            yield OpenFailure(work.name, "skipped" if is_empty else "missing", sentence)
            return
        line = work.line()
        writer = LineWriter(work, line, target, options, ops)
        writer.judge_transactions()
        yield from _written(work, writer, target, ops, _without([*unread, *work.problems]))
    except RefusalError as error:
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
        staging.finish()
    except (OSError, ChangedError):
        staging.discard()
        raise
    finally:
        staging.close()
    path = os.path.join(target.path, work.name)
    has_id, start, is_part = work.metadata() is not None, writer.start_by_checkpoint, bool(work.parts)
    before = (*_steps_of_part(work, path), *_steps_of_runs(work, path, writer.result), *_steps_before(without))
    standing = Standing() if before else writer.standing
    after = () if is_part else _steps_after(work, standing, writer.result, path, start, has_id=has_id)
    yield SalvageDone(
        writer.result,
        path,
        target.rows_path(work.name),
        writer.records_lost,
        writer.ranges_unknown,
        writer.diverged,
        (*work.notes, *(_notes_if_sound(standing, work.name, start) if standing.is_sound else ())),
        (*before, *after),
        is_new=True,
        without=without,
        is_part=is_part,
        left_out=tuple(writer.left_out),
        is_sound=standing.is_sound,
        is_of_runs=work.is_of_runs,
    )


def _sentence(error: OSError) -> str:
    where = f"{error.filename}: " if isinstance(error.filename, str) else ""
    return f"{where}{error.strerror or error}"


def _as_before(target: Target, work: PartitionSalvage, unread: Sequence[OpenFailure]) -> SalvageDone:
    """What a run before this one has made; the sources are not read again."""
    name = work.name
    records = unknown = diverged = 0
    last: dict[str, Any] = {}
    for loss in losses_of(target.rows_path(name)):
        if loss.certainty.is_loss:
            records += loss.records or 0
            unknown += loss.records is None
    for text in lines_of(target.rows_path(name)):
        if text.startswith(('{"type":"divergent"', '{"type":"salvage"')):
            last = json.loads(text)
            diverged += last["records"] if last["type"] == "divergent" else 0
    result = _salvaged_of(last)
    path = os.path.join(target.path, name)
    has_id = os.path.exists(os.path.join(path, FileKind.PARTITION_METADATA.value))
    without = _without(unread)
    is_part = bool(work.parts)
    before = (*_steps_of_part(work, path), *_steps_of_runs(work, path, result), *_steps_before(without))
    standing = Standing() if before else standing_by(result.copies)
    start = _log_start_in(path, result)
    after = () if is_part else _steps_after(work, standing, result, path, start, has_id=has_id)
    steps = (*before, *after)
    rows = target.rows_path(name)
    changed = tuple(work.changed_since(os.stat(rows).st_mtime_ns))
    note = f"{name}: kept from a former run, its sources were not read again"
    if changed:
        note += f", and {changed[0]}{' and others' if changed[1:] else ''} changed since"
    note += f"; to make it from them as they are now, remove {path} or name another --to"
    notes = (note, *(_notes_if_sound(standing, name, start) if standing.is_sound else ()))
    done = SalvageDone(result, path, rows, records, unknown, diverged, notes, steps, is_new=False, changed=changed)
    return done.replace(without=without, is_part=is_part, is_of_runs=work.is_of_runs, is_sound=standing.is_sound)


def _steps_after(
    work: PartitionSalvage, standing: Standing, result: Salvaged, path: str, log_start: int | None, *, has_id: bool
) -> tuple[SalvageStep, ...]:
    """Return what comes next where all sources were read: nothing where no copy is damaged."""
    if standing.is_sound:
        return ()
    better = (*_steps_beside(standing, result.partition), *_steps_of_names(work))
    return (*better, *steps_for(result, path, log_start, has_id=has_id))


def _log_start_in(path: str, result: Salvaged) -> int | None:
    """The log start offset that a checkpoint must have for a partition that is whole: one inside its first segment."""
    first = min(log_bases(os.listdir(path)), default=result.log_start_offset)
    return result.log_start_offset if result.log_start_offset > first else None


def _salvaged_of(row: dict[str, object]) -> Salvaged:
    def number(key: str) -> int:
        value = row[key]
        assert isinstance(value, int)
        return value

    sources, opened, copies = row["sources"], row["openTransactions"], row.get("copies", [])
    assert isinstance(sources, list)
    assert isinstance(opened, list)
    assert isinstance(copies, list)
    return Salvaged(
        str(row["partition"]),
        tuple(sources),
        number("batches"),
        number("records"),
        number("bytes"),
        number("segments"),
        number("logStartOffset"),
        number("logEndOffset"),
        number("offsetsLost"),
        tuple(OpenedTransaction(one["producerId"], one["producerEpoch"], one["firstOffset"]) for one in opened),
        tuple(SalvagedCopy(str(name_of(one["path"])), one["state"], one["logEndOffset"]) for one in copies),
    )


def _problems_of(name: str, problems: Iterable[OpenFailure], sources: Sequence[str]) -> list[OpenFailure]:
    """What could not be read and may have had more of a partition: a source of the user, or a directory of its name."""
    return [one for one in problems if one.kind != "skipped" and (one.path in sources or base_name(one.path) == name)]


def _without(problems: Iterable[OpenFailure]) -> tuple[str, ...]:
    """Name what salvage went on without, each with the reason."""
    return tuple(dict.fromkeys(f"{one.path} ({_reason(one)})" for one in problems))


def _reason(problem: OpenFailure) -> str:
    if problem.missing:
        return "no partition here" if os.path.isdir(problem.path) else "no such file"
    return "some bytes could not be read" if problem.kind == "read" else "could not be read"


def _parts_only(works: Iterable[PartitionSalvage]) -> Iterator[OpenFailure]:
    """Yield for each directory that not all segments of it are read, where its other segments were not named."""
    for copy in (copy for work in works for copy in work.parts):
        what = f"only {len(copy.bases) - copy.unread} of {len(copy.bases)} segments read: name the directory for all"
        yield OpenFailure(copy.path, "skipped", f"{copy.path}: {what}")


def _steps_of_part(work: PartitionSalvage, path: str) -> Iterator[SalvageStep]:
    """Yield what comes before all else where segments beside those that were named were not read."""
    parts = [f"{len(one.bases) - one.unread} of {len(one.bases)} segments of {one.path}" for one in work.parts]
    if parts:
        command = _once_more(work)
        told = f"it is made from only {' and '.join(parts[:_TOLD])}"
        why = f"do not put {path} in place, brokers would lose the rest: {told}; salvage them all"
        yield SalvageStep(command, why)


def _once_more(work: PartitionSalvage, *others: str) -> str:
    """The command that salvages a partition from all of its sources, and others, into another directory."""
    name = () if work.is_named else ("--name", work.name)
    return command_line("salvage", *map(named, work.whole_sources), *others, "--to", "DIR", *name)


def _steps_of_runs(work: PartitionSalvage, path: str, result: Salvaged) -> Iterator[SalvageStep]:
    """Yield what comes before all else where nothing tells how much of the log the result is."""
    if work.is_of_runs:
        offsets = f"offsets {result.log_start_offset}..{result.log_end_offset - 1}"
        why = (
            f"do not put {path} in place before you know that no replica and no backup of {result.partition} has more "
            f"than {offsets}: runs of carve tell neither where its log began nor where it ended. Where one has more, "
            f"name it beside the runs: {_once_more(work, 'OTHER')}"
        )
        yield SalvageStep(None, why)


def _steps_before(without: Sequence[str]) -> Iterator[SalvageStep]:
    """Yield what comes before all else where the result may lack what a source has."""
    if without:
        more = len(without) - _TOLD
        told = f"{', '.join(without[:_TOLD])}{f' and {more} more' if more > 0 else ''}"
        they, them = ("it", "it") if len(without) == 1 else ("they", "them")
        again = f"if {they} can be had, run salvage again with {them}, and another --to, before you use this"
        why = f"went on without {told}: {again}"
        yield SalvageStep(None, why)


def _checkpoint_of_start(name: str, log_start: int) -> str:
    """Say what the log-start-offset-checkpoint of a log directory must have."""
    topic, _, number = name.rpartition("-")
    line = f"`{topic} {number} {log_start}`; line 2 counts the entries"
    until = f"until then verify takes the offsets below {log_start} for lost"
    return f"log-start-offset-checkpoint says {line}: {until}"


def _notes_if_sound(standing: Standing, name: str, log_start: int | None) -> Iterator[str]:
    """Yield what there is to know where nothing is to be put in place.

    Whether a copy that ends early has lost its end nobody can tell.
    """
    for path, end in standing.short:
        yield f"{path} ends at offset {end}, before another copy: it may follow that one, and must not lead before"
    if log_start is not None:
        yield f"wherever you copy it to, see that {_checkpoint_of_start(name, log_start)}"


def _steps_beside(standing: Standing, name: str) -> Iterator[SalvageStep]:
    """Yield what is cheaper than all else where one copy is sound and has all: Kafka replicates it."""
    if standing.whole and not name.startswith(f"{METADATA_TOPIC}-"):
        damaged = ", ".join(standing.damaged[:_TOLD])
        more = f" and {len(standing.damaged) - _TOLD} more" if len(standing.damaged) > _TOLD else ""
        yield SalvageStep(
            None,
            f"{standing.whole[0]} is sound and has all of this: while its broker runs and leads {name}, stop the "
            f"brokers of {damaged}{more}, move these out of their log.dirs, and start them: Kafka replicates it, and "
            "nothing else is to be done; only where it cannot lead, go on here",
        )


def _steps_of_names(work: PartitionSalvage) -> Iterator[SalvageStep]:
    """Yield what is cheaper where a copy has logs with the names of other segments: it may need nothing else."""
    for path, some in work.misplaced.items():
        check = command_line("verify", named(path))
        yield SalvageStep(
            None,
            f"instead of all that follows, stop the broker of {path} and give its logs their names: "
            f"{renaming(renamed(some))}; where {check} finds nothing wrong then, it has all that it had",
        )


def steps_for(result: Salvaged, path: str, log_start: int | None, *, has_id: bool) -> Iterator[SalvageStep]:
    """Yield what a person does with a partition that was salvaged.

    Args:
        result: what it comes to.
        path: where it is.
        log_start: what the log-start-offset-checkpoint must say; None where it needs no entry.
        has_id: it has a partition.metadata.

    Source: LogManager.isStrayKraftReplica (a log without a topic id is a stray).
    """
    topic, _, number = result.partition.rpartition("-")
    end = result.log_end_offset
    lower = (
        f"in recovery-point-offset-checkpoint and replication-offset-checkpoint lower the number behind "
        f"`{topic} {number}` to {end} where it is above that: until then verify says K01 of it, and that offsets from "
        f"{end} on are lost; do not delete only the line: line 2 of the file counts the entries"
    )
    if topic == METADATA_TOPIC:
        yield SalvageStep(
            None, f"stop the broker that is to have {result.partition}; move its damaged directory out of the log.dir"
        )
        yield SalvageStep(None, f"copy {path} into its log.dir, owned by the user that the broker runs as")
        yield SalvageStep(None, lower)
        yield SalvageStep(None, "the other controllers: as after a disaster, only one log may go on; ask before you do")
        return
    # a replica that is left empty may be elected, as long as the controller has it in the ISR: all others then cut
    # what was put in place (KafkaController knows of no directory that was moved away)
    yield SalvageStep(
        None,
        f"stop every broker that has a replica of {result.partition}; on each move its directory out of the "
        "log.dir, damaged or not: there a broker looks at every directory, whatever its name",
    )
    if not has_id:
        yield SalvageStep(
            None,
            f"no source has the topic id, and a KRaft broker renames a directory without it to -stray: write "
            f"{path}/{FileKind.PARTITION_METADATA.value}, two lines, `version: 0` and `topic_id: ID`, the ID as "
            f"kdump cluster tells it of __cluster_metadata-0 (topic {topic} topicId=ID)",
        )
    yield SalvageStep(
        None,
        f"copy {path} into the log.dir of each of them, owned by the user that the broker runs as: into all, as a "
        "leader without these records would make the others cut them",
    )
    if log_start is not None:
        yield SalvageStep(None, f"on each see that {_checkpoint_of_start(result.partition, log_start)}")
    yield SalvageStep(None, f"on each, {lower}")
    yield SalvageStep(None, _start_them(result, topic, path))
    if result.open_transactions:
        yield SalvageStep(
            None,
            "once they run: `kdump transactions --hanging LOGDIR...` (those of all brokers) tells which transactions "
            "nobody ends, and the command that aborts them: before you abort one, look at what it wrote",
        )


def _start_them(result: Salvaged, topic: str, path: str) -> str:
    """Say what is to be done about groups once the brokers run; no group consumes a topic of Kafka's own."""
    if topic == OFFSETS_TOPIC and result.offsets_lost:
        command = command_line("groups", named(path))
        return f"start them; commits of groups may be lost: `{command}` lists what groups have committed there"
    if topic in OWN_TOPICS:
        return "start them"
    return (
        f"start them; reset groups that had committed an offset above {result.log_end_offset}: "
        f"`kdump groups LOGDIR... --topic {topic}` (those of all brokers) lists what they had committed"
    )
