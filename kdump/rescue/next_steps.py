"""What a person does with a salvaged partition: what comes before it is used, what is cheaper, and the steps."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.format.kinds import FileKind
from kdump.rescue.destination import KEPT_BY, valued
from kdump.rescue.step_sentences import SalvageOption, SalvageStepKind, placed
from kdump.storage.log_dir import is_log_dir
from kdump.storage.misplaced import renamed
from kdump.storage.names import COORDINATED, METADATA_TOPIC, OFFSETS_TOPIC, OWN_TOPICS, SALVAGE_ROWS
from kdump.storage.paths import base_name, parent
from kdump.storage.raft_snapshots import FETCH_AGAIN
from kdump.value import TupleValue
from kdump.words.command import ShellCommand, command_line, named, renaming
from kdump.words.numbers import counted, some_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.finding import Finding
    from kdump.rescue.destination import PartitionThere
    from kdump.rescue.partition_salvage import PartitionSalvage
    from kdump.rescue.raft_files import RaftFiles
    from kdump.rescue.standing import Standing
    from kdump.rescue.step_sentences import ToldStep
    from kdump.rows.salvaged import Salvaged
    from kdump.rows.steps import Step

_TOLD = 4  # names in a sentence


_MADE_AGAIN = (SalvageStepKind.CREATE_WITH_ID, SalvageStepKind.FOR_LIVE, SalvageStepKind.FOR_TOPIC_OF_LIVE)
"""Steps behind which there are none: what is made then has its own."""


class Beside(TupleValue):
    """What is beside the segments of a result."""

    has_id: bool  # it has a partition.metadata
    log_start: int | None  # what the log-start-offset-checkpoint must say; None where it needs no entry
    latest_epoch: int  # the newest entry of its leader-epoch-checkpoint, below 0 for none
    is_lowered: bool = False  # the log-start-offset-checkpoint has a higher number in a source


def next_steps(
    work: PartitionSalvage,
    standing: Standing,
    result: Salvaged,
    path: str,
    beside: Beside,
    *,
    without: Sequence[str],
    left_out: int,
) -> tuple[Step, ...]:
    """Return what to do next; nothing where no copy is damaged, or where a part of a partition is no copy of it.

    Args:
        work: the partition.
        standing: how its copies stand beside the result.
        result: what it comes to.
        path: where it is.
        beside: what is beside its segments.
        without: what salvage went on without, each with the reason.
        left_out: intact records of the sources that are not in the result.
    """
    before = before_all(work, path, result, without)
    options = () if standing.is_sound or work.parts else _options(work, standing, result, path, beside)
    first, *others = options or (SalvageOption(()),)
    first = first.replace(steps=(*before, *first.steps))
    return tuple(placed((first, *others), result, path, left_out))


def before_all(work: PartitionSalvage, path: str, result: Salvaged, without: Sequence[str]) -> tuple[ToldStep, ...]:
    """Return what comes before all else, where the result may lack what a source has.

    Args:
        work: the partition.
        path: where the result is.
        result: what it comes to.
        without: what salvage went on without, each with the reason.
    """
    return (*_steps_of_part(work, path), *_steps_of_runs(work, path, result), *_steps_without(without))


def _options(
    work: PartitionSalvage, standing: Standing, result: Salvaged, path: str, beside: Beside
) -> Sequence[SalvageOption]:
    """What a person may do with a result, the best first; design.md has the same order for verify."""
    needs_id = False if beside.has_id else work.runs_kraft
    raft = work.raft_files(result.log_start_offset, result.log_end_offset, beside.latest_epoch)
    if work.there is not None:
        placing = tuple(_steps_there(work, work.there, result, path, beside))
        if work.is_for_another:
            return (SalvageOption(placing),)
    else:
        placing = tuple(_steps_of_deleted(work, path))
        if not any(one.kind in _MADE_AGAIN for one in placing):
            entry = beside.log_start
            within = _are_checkpoints_within(work, result)
            own = steps_for(
                result, path, entry, needs_id=needs_id, raft=raft, is_lowered=beside.is_lowered, are_within=within
            )
            placing = (*placing, *own)
    restoring, names = tuple(_steps_beside(standing, result.partition)), tuple(_steps_of_names(work))
    if restoring:
        return SalvageOption(restoring), SalvageOption(placing, "that replica cannot lead")
    others = tuple(_steps_of_others(work, standing, result))
    further = (
        SalvageOption(tuple(one for one in others if one.kind is SalvageStepKind.OTHERS), "another replica is sound"),
        SalvageOption(
            tuple(one for one in others if one.kind is SalvageStepKind.TOGETHER),
            "there are other replicas, and none is sound",
        ),
    )
    if names:
        return SalvageOption(names), SalvageOption(placing, "something is wrong with them all the same"), *further
    replicas = work.replicas if others else None
    if replicas is not None and replicas <= len(work.directories):
        return (SalvageOption(placing),)
    if not others or (len(work.directories) > 1 and replicas is None):
        return SalvageOption(placing), *further
    asked, *rest = (one for one in further if one.steps)
    return asked.replace(condition=None), SalvageOption(placing, "there is no other replica"), *rest


def _steps_of_part(work: PartitionSalvage, path: str) -> Iterator[ToldStep]:
    """Yield what comes before all else where segments beside those that were named were not read."""
    parts = [f"{len(one.bases) - one.unread} of {len(one.bases)} segments of {one.path}" for one in work.parts]
    if parts:
        command = _once_more(work)
        yield SalvageStepKind.PART.step(command, path=path, parts=" and ".join(parts[:_TOLD]))


def _once_more(work: PartitionSalvage, *others: str, name: str | None = None) -> ShellCommand:
    """The command that salvages a partition from all of its sources, and others, into another directory."""
    if name is None and not work.is_named:
        name = work.name
    named_so = () if name is None else ("--name", name)
    deleted = ("--deleted", "too") if work.reads_deleted else ()
    below = ("--below-log-start",) if work.reads_below_log_start else ()
    there = () if work.there is None else ("--for", named(work.there.asked))
    return command_line(
        "salvage", *map(named, work.whole_sources), *others, *deleted, *below, *there, "--to", "DIR", *named_so
    )


def _steps_of_runs(work: PartitionSalvage, path: str, result: Salvaged) -> Iterator[ToldStep]:
    """Yield what comes before all else where nothing tells how much of the log the result is."""
    if work.is_of_runs:
        yield SalvageStepKind.RUNS.step(
            _once_more(work, "OTHER"),
            path=path,
            partition=result.partition,
            first=result.log_start_offset,
            last=result.log_end_offset - 1,
        )


def _steps_without(without: Sequence[str]) -> Iterator[ToldStep]:
    """Yield what comes first where a source could not be read, or not all of it."""
    if without:
        more = len(without) - _TOLD
        told = f"{', '.join(without[:_TOLD])}{f' and {more} more' if more > 0 else ''}"
        they, them = ("it", "it") if len(without) == 1 else ("they", "them")
        yield SalvageStepKind.WITHOUT.step(what=told, they=they, them=them)


def _checkpoint_of_start(name: str, log_start: int, *, is_lowered: bool) -> str:
    """Say what the log-start-offset-checkpoint of a log directory must have; `is_lowered`: it has a higher one."""
    topic, _, number = name.rpartition("-")
    line = f"`{topic} {number} {log_start}`; line 2 counts the entries"
    until = f"until then verify takes the offsets below {log_start} for lost"
    if is_lowered:
        until = f"by the number that is there a broker deletes what was rescued from offset {log_start} on"
    return f"log-start-offset-checkpoint says {line}: {until}"


def note_below(name: str, records: int, start: int | None) -> Iterator[str]:
    """Yield what is said of intact records that stay out as they are below the log start offset.

    Args:
        name: of the partition.
        records: how many they are.
        start: the log start offset.
    """
    if records and start is not None:
        many = "1 intact record" if records == 1 else f"{records} intact records"
        them = "it" if records == 1 else "them"
        yield (
            f"{name}: {many} below the log start offset {start} stay out, and a broker deletes {them} from the "
            "sources: where that start is a mistake, copy the sources before a broker runs on them, and run salvage "
            "with --below-log-start"
        )


def note_there(name: str, there: PartitionThere, fitted: int) -> Iterator[str]:
    """Yield what is said of a result for the cluster of another log.dir.

    Args:
        name: of the partition.
        there: what that cluster has of it.
        fitted: batches that have another leader epoch now.
    """
    told = (
        f"{name}: made for topic id {there.topic_id} and leader epoch {there.leader_epoch}, as {there.source} has them"
    )
    if fitted:
        told += f"; {counted(fitted, 'batch', 'batches')} got another leader epoch for that (rows patched)"
    yield "; ".join((told, *there.doubts))


def notes_left(name: str, left: Sequence[Finding]) -> Iterator[str]:
    """Yield what is said of logs that are in no source, and that a broker removes though no other file has them.

    Args:
        name: of the partition.
        left: what is wrong with them (F16).
    """
    for one in left[:_TOLD]:
        yield f"{name}: {one.file} is not read; {one.message}: {one.remedy}"
    if len(left) > _TOLD:
        yield f"{name}: and {len(left) - _TOLD} more such files: kdump verify names them (F16)"


def notes_if_sound(
    standing: Standing, name: str, log_start: int | None, *, is_lowered: bool, records_below: int = 0
) -> Iterator[str]:
    """Yield what there is to know where nothing is to be put in place; nothing where something is.

    Whether a copy that ends early has lost its end nobody can tell.

    Args:
        standing: how the copies stand beside the result.
        name: of the partition.
        log_start: what the log-start-offset-checkpoint must say; None where it needs no entry.
        is_lowered: it has a higher one in a source.
        records_below: intact ones that stay out as they are below it.
    """
    if not standing.is_sound:
        return
    for path, end in standing.short:
        yield f"{path} ends at offset {end}, before another copy: it may follow that one, and must not lead before"
    if log_start is not None:
        without = "" if not records_below else f", without the {records_below} below offset {log_start}"
        entry = _checkpoint_of_start(name, log_start, is_lowered=is_lowered)
        yield f"wherever you copy it to{without}, see that {entry}"


def _steps_beside(standing: Standing, name: str) -> Iterator[ToldStep]:
    """Yield what is cheaper than all else where one copy is sound and has all: Kafka replicates it."""
    if standing.whole:
        yield SalvageStepKind.BESIDE.step(copy=standing.whole[0], how=_replicating(_named(standing.damaged), name))


def _named(paths: Sequence[str]) -> str:
    """Some directories in a sentence."""
    return some_of(paths, _TOLD)


def _replicating(damaged: str, name: str) -> str:
    """Say how a sound replica of a partition takes the place of damaged ones."""
    if name.startswith(f"{METADATA_TOPIC}-"):
        return f"stop the node of {damaged}, {FETCH_AGAIN}"
    return (
        f"while its broker runs and leads {name}, stop the brokers of {damaged}, move these out of their log.dirs, and "
        "start them: Kafka replicates it"
    )


def _steps_of_others(work: PartitionSalvage, standing: Standing, result: Salvaged) -> Iterator[ToldStep]:
    """Yield what to ask of replicas that are no sources: one that is sound is cheaper, and others may have more."""
    paths = [one.path or "." for one in work.directories]
    is_lacking = result.offsets_lost > 0 or result.offsets_unexplained > 0
    if standing.whole or not paths or not (is_lacking or len(paths) == 1):
        return
    if work.on_the_way_out and not is_lacking:
        return
    if all(one.name == work.name for one in work.directories):  # verify compares those of one name
        yield SalvageStepKind.OTHERS.step(
            command_line("verify", "--replicas", *map(named, paths), "OTHER"),
            partition=result.partition,
            copies=_named(paths),
            how=_replicating(_named(paths), result.partition),
        )
    yield SalvageStepKind.TOGETHER.step(_once_more(work, "OTHER"))


def _steps_of_names(work: PartitionSalvage) -> Iterator[ToldStep]:
    """Yield what is cheaper where a copy has logs with the names of other segments: it may need nothing else."""
    for path, some in work.misplaced.items():
        check = command_line("verify", named(path))
        yield SalvageStepKind.NAMES.step(path=path, moves=renaming(renamed(some)), check=check)


def _steps_there(
    work: PartitionSalvage, there: PartitionThere, result: Salvaged, path: str, beside: Beside
) -> Iterator[ToldStep]:
    """Yield what puts a result in place in the cluster that it is for, in order."""
    topic, name, live = result.partition.rpartition("-")[0], result.partition, there.live
    for directory in work.on_the_way_out:
        if is_log_dir(directory.log_dir.path):  # else it is a copy
            yield SalvageStepKind.DELETED.step(path=directory.path)
    if there.has_records and work.is_brought:
        if work.is_for_another:
            command = _once_more(work, name=f"OTHER-{name.rpartition('-')[2]}")
            yield SalvageStepKind.LIVE.step(command, live=live, path=path)
        else:
            assert live is not None
            yield SalvageStepKind.SAME_TOPIC.step(_once_more(work, named(live)), live=live, id=there.topic_id)
    keeps = work.is_for_another and topic not in OWN_TOPICS
    configs = "kafka-configs.sh", "--bootstrap-server", "HOST:PORT", "--alter", "--entity-type", "topics"
    of_topic = (*configs, *valued("--entity-name", topic))
    if keeps:
        all_kept = ",".join([f"{one}=-1" for one in KEPT_BY])
        yield SalvageStepKind.KEEP_RECORDS.step(ShellCommand(*of_topic, "--add-config", all_kept), topic=topic)
    yield from _steps_of_stopping(there, name)
    rows = f"{path}{SALVAGE_ROWS}" if topic in COORDINATED and result.offsets_lost else None
    yield from _steps_of_placing(there, name, path, rows)
    if beside.log_start is not None:
        entry = _checkpoint_of_start(name, beside.log_start, is_lowered=beside.is_lowered)
        yield SalvageStepKind.LOG_START.step(entry=entry)
    ends = [there.checkpoints.get(kind, 0) for kind in (FileKind.RECOVERY_POINT, FileKind.REPLICATION)]
    if live is None or there.has_records or max(ends) > result.log_end_offset:
        yield SalvageStepKind.LOWER.step(lower=_lowering(name, result.log_end_offset))
    if live is not None:
        yield SalvageStepKind.CHECK_PLACED.step(command_line("verify", named(live)))
    start = ShellCommand("kafka-server-start.sh", "-daemon", "server.properties")
    yield SalvageStepKind.START_BROKERS.step(start)
    if keeps:
        own = [f"{one}={there.retention[one]}" for one in KEPT_BY if one in there.retention]
        gone = [one for one in KEPT_BY if one not in there.retention]
        words = (
            *(("--add-config", ",".join(own)) if own else ()),
            *(("--delete-config", ",".join(gone)) if gone else ()),
        )
        yield SalvageStepKind.KEEP_AS_BEFORE.step(ShellCommand(*of_topic, *words), topic=topic)
        listing = command_line("groups", "LOGDIR...", *valued("--topic", topic), "--at", "WHEN", "--reset-csv")
        yield SalvageStepKind.COMMITS.step(listing)
    if result.open_transactions:
        yield SalvageStepKind.HANGING.step()


def _steps_of_stopping(there: PartitionThere, name: str) -> Iterator[ToldStep]:
    """Yield which brokers are stopped."""
    for one in there.replicas:
        stop = ShellCommand("kafka-server-stop.sh", f"--node-id={one}")
        told = ", ".join(map(str, there.replicas))
        yield SalvageStepKind.STOP_BROKER.step(stop, broker=_broker(there, one), partition=name, all=told)
    if not there.replicas:
        yield SalvageStepKind.STOP_BROKERS.step(partition=name)


def _steps_of_placing(there: PartitionThere, name: str, path: str, rows: str | None) -> Iterator[ToldStep]:
    """Yield what is moved and copied, on each broker; `rows` are those that are put beside the result."""
    here = None if there.live is None else there.broker
    aside, copied = f"{parent(path)}.replaced", [path, *([] if rows is None else [rows])]
    why = (
        ""
        if rows is None
        else "; a broker passes over the rows, kdump groups and transactions read in them what is lost"
    )
    if there.live is not None:
        where = f"on broker {_broker(there, here)}: " if here is not None else ""
        yield SalvageStepKind.SET_ASIDE.step(_moving(there.live, aside), where=where)
        yield SalvageStepKind.PUT.step(_putting(copied, there.log_dir), where=where, why=why)
    others: list[int | None] = [one for one in there.replicas if one != here]
    if not there.replicas:
        others = [None]
    for other in others:
        where = (
            f"on broker {_broker(there, other)}: " if other is not None else "on each other broker that has a replica: "
        )
        command = _moving(f"LOGDIR/{name}", "REPLACED").then(_putting(copied, "LOGDIR"))
        beside = "" if rows is None else f" and {rows}"
        yield SalvageStepKind.PUT_THERE.step(command, where=where, partition=name, path=path, rows=beside)


def _moving(directory: str, to: str) -> ShellCommand:
    """The commands that move a directory into another one."""
    make = ShellCommand("mkdir", "-p", named(to))
    return make.then(ShellCommand("mv", "-n", named(directory), f"{named(to)}/"))


def _putting(copied: Sequence[str], log_dir: str) -> ShellCommand:
    """The commands that copy into a log directory, and give it to whom that belongs."""
    where = named(log_dir)
    made = [os.path.join(where, base_name(one)) for one in copied]
    copy = ShellCommand("cp", "-a", *map(named, copied), f"{where}/")
    return copy.then(ShellCommand("chown", "-R", f"--reference={where}", *made))


def _broker(there: PartitionThere, number: int | None) -> str:
    """A broker in a sentence."""
    host = None if number is None else there.hosts.get(number)
    return f"{number}" if host is None else f"{number} ({host})"


def _steps_of_deleted(work: PartitionSalvage, path: str) -> Iterator[ToldStep]:
    """Yield what a partition needs whose topic was deleted: a copy of what is left of it, and a topic."""
    if not work.on_the_way_out:
        return
    topic, _, number = work.name.rpartition("-")
    for directory in work.on_the_way_out:
        yield SalvageStepKind.DELETED.step(path=directory.path)
    old = next((one.topic_id for one in work.on_the_way_out if one.topic_id is not None), None)
    has_id = old is not None and work.runs_kraft is not False
    live = work.in_use
    if live is None:
        kind, command = SalvageStepKind.CREATE, None
        if has_id:
            kind, command = SalvageStepKind.CREATE_WITH_ID, _once_more(work, "--for", "LOGDIR")
        create = f"{topic} was deleted: create it again" if work.is_named else f"create {topic}"
        many = f", with at least {int(number) + 1} partitions" if int(number) else ""
        yield kind.step(command, create=create, path=path, many=many, old=old)
    elif old is None or live.topic_id != old:  # else it is of the same topic, which a broker has in another directory
        again = _once_more(work, name=f"OTHER-{number}")
        yield SalvageStepKind.CREATED_AGAIN.step(again, topic=topic, live=live.path, path=path)
        if has_id:
            kind, where = SalvageStepKind.FOR_LIVE, named(live.log_dir.path)
            if live.topic_id is None:
                kind, where = SalvageStepKind.FOR_TOPIC_OF_LIVE, "LOGDIR"
            command = _once_more(work, "--for", where)
            yield kind.step(command, live=live.path, id=live.topic_id, path=path, old=old)


def steps_for(
    result: Salvaged,
    path: str,
    log_start: int | None,
    *,
    needs_id: bool | None,
    raft: RaftFiles | None = None,
    is_lowered: bool = False,
    are_within: bool = False,
) -> Iterator[ToldStep]:
    """Yield what a person does with a partition that was salvaged.

    Args:
        result: what it comes to.
        path: where it is.
        log_start: what the log-start-offset-checkpoint must say; None where it needs no entry.
        needs_id: it needs a partition.metadata that it does not have; None where only brokers with KRaft need it, and
            nobody knows whether these are.
        raft: what the sources have beside the metadata log; None for another partition.
        is_lowered: the log-start-offset-checkpoint has a higher number in a source.
        are_within: on no broker that has a replica a checkpoint says more than the end of the result.

    Source: LogManager.isStrayKraftReplica (a log without a topic id is a stray).
    """
    topic = result.partition.rpartition("-")[0]
    lower = _lowering(result.partition, result.log_end_offset)
    if topic == METADATA_TOPIC:
        yield SalvageStepKind.STOP_NODE.step(partition=result.partition)
        yield from _steps_of_raft(result, path, raft)
        yield SalvageStepKind.MOVE_OUT.step()
        yield SalvageStepKind.COPY_TO_NODE.step(path=path)
        if not are_within:
            yield SalvageStepKind.LOWER_ON_NODE.step(lower=lower)
        yield SalvageStepKind.CONTROLLERS.step()
        return
    yield SalvageStepKind.STOP_ALL.step(partition=result.partition)
    if needs_id is not False:
        where = "" if needs_id else "where the brokers run KRaft: "
        yield SalvageStepKind.TOPIC_ID.step(where=where, path=path, topic=topic)
    rows = f", and {path}{SALVAGE_ROWS} beside it," if topic in COORDINATED and result.offsets_lost else ""
    why = "; a broker passes over that file, kdump groups and transactions read in it what is lost" if rows else ""
    yield SalvageStepKind.COPY.step(path=path, rows=rows, why=why)
    if log_start is not None:
        entry = _checkpoint_of_start(result.partition, log_start, is_lowered=is_lowered)
        yield SalvageStepKind.LOG_START.step(entry=entry)
    if not are_within:
        yield SalvageStepKind.LOWER.step(lower=lower)
    yield SalvageStepKind.START.step(start=_start_them(result, topic, path, is_cut=not are_within))
    if result.open_transactions:
        yield SalvageStepKind.HANGING.step()


def _are_checkpoints_within(work: PartitionSalvage, result: Salvaged) -> bool:
    """Tell whether all replicas are sources, and no checkpoint of their log directories says more than the end.

    Where nobody tells how many there are, one copy is put in place only where it has no other. Of the metadata log
    that of its own node counts.
    """
    places, is_raft = work.directories, result.partition.startswith(f"{METADATA_TOPIC}-")
    if not places or not (is_raft or len(places) == (work.replicas or 1)):
        return False
    kinds = FileKind.RECOVERY_POINT, FileKind.REPLICATION
    key = result.partition.rpartition("-")[0], int(result.partition.rpartition("-")[2])
    ends = [
        one.log_dir.offset(kind, key) or 0 if one.log_dir.file(kind).is_read else None
        for one in places
        for kind in kinds
    ]
    return all(end is not None and end <= result.log_end_offset for end in ends)


def _lowering(name: str, end: int) -> str:
    """Say what the checkpoints of a log directory must not have."""
    topic, _, number = name.rpartition("-")
    return (
        f"in recovery-point-offset-checkpoint and replication-offset-checkpoint lower the number behind "
        f"`{topic} {number}` to {end} where it is above that: until then verify says K01 of it, and that offsets from "
        f"{end} on are lost; do not delete only the line: line 2 of the file counts the entries"
    )


def _steps_of_raft(result: Salvaged, path: str, raft: RaftFiles | None) -> Iterator[ToldStep]:
    """Yield what is to be copied beside a metadata log, file by file: the result has only a snapshot that fits it.

    Source: KafkaRaftLog.truncateToLatestSnapshot, FileQuorumStateStore; Kafka 4.3.1.
    """
    if raft is None:
        return
    if raft.snapshot is not None and raft.empties_log:
        command = _copying(raft.snapshot, path)
        yield SalvageStepKind.SNAPSHOT_AHEAD.step(command, offset=raft.offset, end=result.log_end_offset)
    elif raft.snapshot is None and result.log_start_offset:
        yield SalvageStepKind.NO_SNAPSHOT.step(start=result.log_start_offset, path=path)
    vote = "without it the node may vote twice in one epoch"
    if len(raft.quorum) == 1:
        yield SalvageStepKind.QUORUM.step(_copying(raft.quorum[0], path), vote=vote)
    elif raft.quorum:
        yield SalvageStepKind.QUORUMS.step(partition=result.partition, files=", ".join(raft.quorum), vote=vote)
    else:
        yield SalvageStepKind.NO_QUORUM.step(vote=vote)


def _copying(file: str, path: str) -> ShellCommand:
    """The command that puts a file of a source beside the segments of the result."""
    return ShellCommand("cp", "-p", named(file), f"{named(path)}/")


def _start_them(result: Salvaged, topic: str, path: str, *, is_cut: bool) -> str:
    """Say what is to be done about groups once the brokers run; no group consumes a topic of Kafka's own.

    Args:
        result: what it comes to.
        topic: its name.
        path: where it is.
        is_cut: readers may have been beyond its end.
    """
    if topic == OFFSETS_TOPIC and result.offsets_lost:
        command = command_line("groups", named(path))
        return f"start them; commits of groups may be lost: `{command}` lists what groups have committed there"
    if topic in OWN_TOPICS or not is_cut:
        return "start them"
    command = command_line("groups", "LOGDIR...", "--topic", topic)
    return (
        f"start them; reset groups that had committed an offset above {result.log_end_offset}: "
        f"`{command}` (those of all brokers) lists what they had committed"
    )
