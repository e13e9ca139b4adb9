"""What a person does with a salvaged partition: what comes before it is used, what is cheaper, and the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.kinds import FileKind
from kdump.rescue.raft_files import raft_files
from kdump.rows.salvaged import SalvageStep
from kdump.storage.misplaced import renamed
from kdump.storage.names import COORDINATED, METADATA_TOPIC, OFFSETS_TOPIC, OWN_TOPICS, SALVAGE_ROWS
from kdump.storage.raft_snapshots import FETCH_AGAIN
from kdump.value import TupleValue
from kdump.words.command import ShellCommand, command_line, named, renaming

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.finding import Finding
    from kdump.rescue.partition import PartitionSalvage
    from kdump.rescue.raft_files import RaftFiles
    from kdump.rescue.standing import Standing
    from kdump.rows.salvaged import Salvaged

_TOLD = 4  # names in a sentence


class Beside(TupleValue):
    """What is beside the segments of a result.

    Args:
        has_id: it has a partition.metadata.
        log_start: what the log-start-offset-checkpoint must say; None where it needs no entry.
        latest_epoch: the newest entry of its leader-epoch-checkpoint, below 0 for none.
        is_lowered: the log-start-offset-checkpoint has a higher number in a source.
    """

    has_id: bool
    log_start: int | None
    latest_epoch: int
    is_lowered: bool = False


def steps_before(
    work: PartitionSalvage, result: Salvaged, path: str, without: Sequence[str]
) -> tuple[SalvageStep, ...]:
    """Return what comes before all else, where the result may lack what a source has.

    Args:
        work: the partition.
        result: what it comes to.
        path: where it is.
        without: what salvage went on without, each with the reason.
    """
    return (*_steps_of_part(work, path), *_steps_of_runs(work, path, result), *_steps_without(without))


def steps_after(
    work: PartitionSalvage, standing: Standing, result: Salvaged, path: str, beside: Beside
) -> tuple[SalvageStep, ...]:
    """Return what comes next; nothing where no copy is damaged, or where a part of a partition is no copy of it.

    Args:
        work: the partition.
        standing: how its copies stand beside the result.
        result: what it comes to.
        path: where it is.
        beside: what is beside its segments.
    """
    if standing.is_sound or work.parts:
        return ()
    better = (*_steps_beside(standing, result.partition), *_steps_of_names(work), *_steps_of_deleted(work, path))
    needs_id = False if beside.has_id else work.runs_kraft
    raft = None
    if result.partition.startswith(f"{METADATA_TOPIC}-"):
        raft = raft_files(work.directories, result.log_start_offset, result.log_end_offset, beside.latest_epoch)
    steps = steps_for(result, path, beside.log_start, needs_id=needs_id, raft=raft, is_lowered=beside.is_lowered)
    return (*better, *steps)


def _steps_of_part(work: PartitionSalvage, path: str) -> Iterator[SalvageStep]:
    """Yield what comes before all else where segments beside those that were named were not read."""
    parts = [f"{len(one.bases) - one.unread} of {len(one.bases)} segments of {one.path}" for one in work.parts]
    if parts:
        command = _once_more(work)
        told = f"it is made from only {' and '.join(parts[:_TOLD])}"
        why = f"do not put {path} in place, brokers would lose the rest: {told}; salvage them all"
        yield SalvageStep(command, why)


def _once_more(work: PartitionSalvage, *others: str) -> ShellCommand:
    """The command that salvages a partition from all of its sources, and others, into another directory."""
    name = () if work.is_named else ("--name", work.name)
    deleted = ("--deleted", "too") if work.reads_deleted else ()
    return command_line("salvage", *map(named, work.whole_sources), *others, *deleted, "--to", "DIR", *name)


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


def _steps_without(without: Sequence[str]) -> Iterator[SalvageStep]:
    """Yield what comes first where a source could not be read, or not all of it."""
    if without:
        more = len(without) - _TOLD
        told = f"{', '.join(without[:_TOLD])}{f' and {more} more' if more > 0 else ''}"
        they, them = ("it", "it") if len(without) == 1 else ("they", "them")
        again = f"if {they} can be had, run salvage again with {them}, and another --to, before you use this"
        why = f"went on without {told}: {again}"
        yield SalvageStep(None, why)


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


def _steps_beside(standing: Standing, name: str) -> Iterator[SalvageStep]:
    """Yield what is cheaper than all else where one copy is sound and has all: Kafka replicates it."""
    if standing.whole:
        damaged = ", ".join(standing.damaged[:_TOLD])
        more = f" and {len(standing.damaged) - _TOLD} more" if len(standing.damaged) > _TOLD else ""
        how = (
            f"while its broker runs and leads {name}, stop the brokers of {damaged}{more}, move these out of their "
            "log.dirs, and start them: Kafka replicates it"
        )
        if name.startswith(f"{METADATA_TOPIC}-"):
            how = f"stop the node of {damaged}{more}, {FETCH_AGAIN}"
        yield SalvageStep(
            None,
            f"{standing.whole[0]} is sound and has all of this: {how}, and nothing else is to be done; only where it "
            "cannot lead, go on here",
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


def _steps_of_deleted(work: PartitionSalvage, path: str) -> Iterator[SalvageStep]:
    """Yield what a partition needs whose topic was deleted: a copy of what is left of it, and a topic."""
    if not work.on_the_way_out:
        return
    topic, _, number = work.name.rpartition("-")
    for directory in work.on_the_way_out:
        yield SalvageStep(
            None,
            f"copy {directory.path} before a broker starts on its log.dir: a broker removes it a minute after its "
            "start (file.delete.delay.ms)",
        )
    old = next((one.topic_id for one in work.on_the_way_out if one.topic_id is not None), None)
    many = f", with at least {int(number) + 1} partitions" if int(number) else ""
    new = f"{topic} was deleted: create it again where {path} goes{many}"
    if old is not None and work.runs_kraft is not False:
        new += (
            f", and write its new topic id into {path}/{FileKind.PARTITION_METADATA.value} in place of {old}: a KRaft "
            "broker renames a directory with another topic id than the cluster has to -stray; kdump cluster tells it "
            f"of __cluster_metadata-0 (topic {topic} topicId=ID)"
        )
    yield SalvageStep(None, new)


def steps_for(
    result: Salvaged,
    path: str,
    log_start: int | None,
    *,
    needs_id: bool | None,
    raft: RaftFiles | None = None,
    is_lowered: bool = False,
) -> Iterator[SalvageStep]:
    """Yield what a person does with a partition that was salvaged.

    Args:
        result: what it comes to.
        path: where it is.
        log_start: what the log-start-offset-checkpoint must say; None where it needs no entry.
        needs_id: it needs a partition.metadata that it does not have; None where only brokers with KRaft need it, and
            nobody knows whether these are.
        raft: what the sources have beside the metadata log; None for another partition.
        is_lowered: the log-start-offset-checkpoint has a higher number in a source.

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
        yield SalvageStep(None, f"stop the broker that is to have {result.partition}")
        yield from _steps_of_raft(result, path, raft)
        yield SalvageStep(None, "move its damaged directory out of the log.dir, and keep it")
        yield SalvageStep(None, f"copy {path} into its log.dir, owned by the user that the broker runs as")
        yield SalvageStep(None, lower)
        yield SalvageStep(
            None,
            "the other controllers: only one log may go on, and one of theirs may have more: before you start any, "
            "compare them with kdump verify --replicas",
        )
        return
    # a replica that is left empty may be elected, as long as the controller has it in the ISR: all others then cut
    # what was put in place (KafkaController knows of no directory that was moved away)
    yield SalvageStep(
        None,
        f"stop every broker that has a replica of {result.partition}; on each move its directory out of the "
        "log.dir, damaged or not: there a broker looks at every directory, whatever its name",
    )
    if needs_id is not False:
        where = "" if needs_id else "where the brokers run KRaft: "
        yield SalvageStep(
            None,
            f"{where}no source has the topic id, and a KRaft broker renames a directory without it to -stray: write "
            f"{path}/{FileKind.PARTITION_METADATA.value}, two lines, `version: 0` and `topic_id: ID`, the ID as "
            f"kdump cluster tells it of __cluster_metadata-0 (topic {topic} topicId=ID)",
        )
    rows = f", and {path}{SALVAGE_ROWS} beside it," if topic in COORDINATED and result.offsets_lost else ""
    why = "; a broker passes over that file, kdump groups and transactions read in it what is lost" if rows else ""
    yield SalvageStep(
        None,
        f"copy {path}{rows} into the log.dir of each of them, owned by the user that the broker runs as: into all, as "
        f"a leader without these records would make the others cut them{why}",
    )
    if log_start is not None:
        entry = _checkpoint_of_start(result.partition, log_start, is_lowered=is_lowered)
        yield SalvageStep(None, f"on each see that {entry}")
    yield SalvageStep(None, f"on each, {lower}")
    yield SalvageStep(None, _start_them(result, topic, path))
    if result.open_transactions:
        yield SalvageStep(
            None,
            "once they run: `kdump transactions --hanging LOGDIR...` (those of all brokers) tells which transactions "
            "nobody ends, and the command that aborts them: before you abort one, look at what it wrote",
        )


def _steps_of_raft(result: Salvaged, path: str, raft: RaftFiles | None) -> Iterator[SalvageStep]:
    """Yield what is to be copied beside a metadata log, file by file: the result has neither.

    Source: KafkaRaftLog.truncateToLatestSnapshot, FileQuorumStateStore; Kafka 4.3.1.
    """
    if raft is None:
        return
    if raft.snapshot is not None:
        why = (
            f"the snapshot, which is sound, is not in the result: without it the state that offsets below {raft.offset}"
            " had made is gone where they are lost"
        )
        if raft.empties_log:
            why += (
                f"; the log ends at {result.log_end_offset}, and the snapshot is ahead of it: a node of Kafka 4.3 then "
                f"empties the log and goes on from the snapshot, at offset {raft.offset}"
            )
        yield SalvageStep(_copying(raft.snapshot, path), why)
    elif result.log_start_offset:
        yield SalvageStep(
            None,
            f"no source has a sound snapshot that reaches offset {result.log_start_offset}, where the log begins: copy "
            f"one, <20 digits>-<10 digits>.checkpoint, from another controller or broker into {path}; without it the "
            "state that the offsets below had made is gone",
        )
    vote = "without it the node may vote twice in one epoch"
    if len(raft.quorum) == 1:
        yield SalvageStep(_copying(raft.quorum[0], path), f"the quorum-state is not in the result: {vote}")
    elif raft.quorum:
        files = ", ".join(raft.quorum)
        yield SalvageStep(None, f"copy to each node its own quorum-state, into its {result.partition}: {files}: {vote}")
    else:
        yield SalvageStep(None, f"no source has a sound quorum-state: {vote}; ask before you start it")


def _copying(file: str, path: str) -> ShellCommand:
    """The command that puts a file of a source beside the segments of the result."""
    return ShellCommand("cp", "-p", named(file), f"{named(path)}/")


def _start_them(result: Salvaged, topic: str, path: str) -> str:
    """Say what is to be done about groups once the brokers run; no group consumes a topic of Kafka's own."""
    if topic == OFFSETS_TOPIC and result.offsets_lost:
        command = command_line("groups", named(path))
        return f"start them; commits of groups may be lost: `{command}` lists what groups have committed there"
    if topic in OWN_TOPICS:
        return "start them"
    command = command_line("groups", "LOGDIR...", "--topic", topic)
    return (
        f"start them; reset groups that had committed an offset above {result.log_end_offset}: "
        f"`{command}` (those of all brokers) lists what they had committed"
    )
