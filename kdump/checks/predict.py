"""What the next start of a broker does with the partitions of a log directory: the outcomes of its model, as rows.

A partition that cannot be loaded takes the whole log directory with it, or the broker, so all of a directory are loaded
before the first row is handed out. A partition that was named alone is judged with the files and the names of its log
directory; the other partitions there are not looked at.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, TypeAlias

from kdump.broker.load.coming_start import HELD, coming_starts
from kdump.broker.load.facts import DELETE, Start, Stops
from kdump.broker.load.log_loader import Recoveries, TailRecoveries, load
from kdump.broker.load.log_manager import Cause, LogManager, worst
from kdump.broker.load.properties_ensemble import ensemble_cause, unexpected_metadata
from kdump.broker.load.raft_log import begun_at
from kdump.broker.load.raft_records import records_failure
from kdump.broker.load.release_refusal import not_for_coordinator, refusal
from kdump.checks.owners import closed_files
from kdump.checks.raft_log import level_of
from kdump.finding import Code, Trait
from kdump.format.java_values import END_OF_FILE, IO_CLASSES, NOT_JSON, RUNTIME
from kdump.format.kinds import FileKind
from kdump.format.read_limits import ReadLimits
from kdump.rows.verdict import LoadFailure, LogsRead, Prediction, SegmentFate
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import METADATA_LOG, METADATA_TOPIC, METADATA_TOPIC_ID, log_bases, parse_name
from kdump.storage.partition_dir import PartitionDir
from kdump.storage.raft_snapshots import is_ahead, raft_snapshots
from kdump.storage.same_partition import is_bare, same_partitions
from kdump.value import Value, pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kdump.broker.load.facts import Outcome, PartitionFacts
    from kdump.broker.load.log_manager import LoadSettings
    from kdump.broker.releases import Rules
    from kdump.broker.strays import Stray
    from kdump.checks.options import VerifyOptions
    from kdump.checks.owners import ClosedFile
    from kdump.storage.log_dir import LogDir
    from kdump.storage.names import PartitionName
    from kdump.storage.server_properties import NodeSettings

    Foretold: TypeAlias = "Prediction | OpenFailure | Ending"

_WORST_FIRST = (Start.FULL, Start.UNCLEAN, Start.CLEAN)  # what is recovered first serves the others
_LIMITS = ReadLimits()
_METADATA = "the metadata log is recovered from its first segment on at every start"
_NO_PROPERTIES = (
    "another log.dir of the broker has meta.properties, which is missing here: without any a broker does not start"
)
_OTHER_ID = "org.apache.kafka.common.errors.InconsistentTopicIdException"
_STATE = "java.lang.IllegalStateException"
_UNCHECKED = "java.io.UncheckedIOException"
_OF_READING = (*IO_CLASSES, END_OF_FILE, NOT_JSON)  # what the reader of quorum-state wraps in it
_KRAFT_ONLY = 4  # the first release without ZooKeeper
AUTO = "auto"
"""The name of the start that is coming, as the user asks for it."""
_NEWEST = "the cluster has changed nothing since the metadata log that is here was written"
_ALONE = "the other partitions of the log directory can be loaded"


def predict(
    log_dir: LogDir,
    partitions: Sequence[PartitionDir],
    options: VerifyOptions,
    told: Mapping[str, str],
    lost: Mapping[str, int],
    *,
    is_alone: bool,
) -> Iterator[Foretold]:
    """Yield what becomes of each partition with each start.

    Args:
        log_dir: the log directory.
        partitions: its partition directories, in the order in which they are shown.
        options: which starts, and what they hang on.
        told: the code of the first error of each file.
        lost: the last offset that readers have lost, of each partition that has lost some, by its path: indexes and
            checkpoints may tell of an end of which nothing is left in the log.
        is_alone: other partitions may be there, and are not among these.

    Yields:
        Predictions; what cannot be read; and of a node why it ends, or goes on without the directory: see `of_brokers`.
    """
    assert options.settings is not None
    runs_kraft = options.node is not None and options.node.runs_kraft
    manager = LogManager(log_dir, runs_kraft=runs_kraft, rules=options.rules)
    starts = coming_starts(log_dir) if options.is_auto else options.starts
    found: list[list[Prediction]] = []  # of each partition, start by start
    causes: dict[str, list[Cause]] = {start.value: list(manager.causes) for start in starts}
    properties = log_dir.path_of(FileKind.META_PROPERTIES)
    if properties in told and log_dir.file(FileKind.META_PROPERTIES).is_missing and _needs_properties(options.rules):
        what = f"{RUNTIME}: No readable meta.properties files found."
        lost_file = Cause(Stops.BROKER, what, properties, True, told[properties], properties)
        causes = {start: several or [lost_file] for start, several in causes.items()}
    denied = [] if is_alone else closed_files(PartitionDir(log_dir.path, log_dir, log_dir.listing, is_partition=False))
    for several in causes.values():
        several += [_denied(one, Stops.LOG_DIR) for one in denied[:1]]
    not_known = (*_assumed(log_dir, partitions, options, is_alone=is_alone), *map(_runs_as, denied[:1]))
    for directory in partitions:
        path, name = directory.path, directory.parsed
        if name is None or (name.topic == METADATA_TOPIC and name.state):  # a broker passes over those
            continue
        try:
            outcomes = list(_outcomes(manager, directory, name, options, starts, told))
        except OSError as error:
            not_known = (*not_known, f"{path} can be loaded")
            why = error.strerror or str(error)
            yield OpenFailure(path, "read", f"{path}: what a broker does with it is not known: {why}")
            continue
        for row, cause in outcomes:
            if cause is not None:
                causes[row.start].append(cause)
        if name.state != DELETE:
            rows = [row.replace(assumed=(*row.assumed, *not_known)) for row, _ in outcomes]
            found.append([_reusing(row, lost.get(path, -1)) for row in rows])
    if options.node is not None:
        yield from (Ending(start, worst(several)) for start, several in causes.items() if several)
    for rows in found:
        for one in rows:
            stopping = causes[one.start]
            row = _stopped(one, _told(worst(stopping), told)) if stopping else one
            yield row.replace(start=AUTO, is_clean=row.start == Start.CLEAN.value) if options.is_auto else row


def _assumed(
    log_dir: LogDir, partitions: Sequence[PartitionDir], options: VerifyOptions, *, is_alone: bool
) -> tuple[str, ...]:
    """What is assumed of all partitions of a log directory."""
    found: tuple[str, ...] = (_ALONE,) if is_alone else ()
    if not is_alone and _lacks_properties(log_dir, partitions):
        found = (_NO_PROPERTIES,)
    return (*found, HELD) if options.is_auto and log_dir.is_held else found


def predict_alone(directory: PartitionDir, options: VerifyOptions, lost: int) -> tuple[Prediction, ...]:
    """Return what the start that is coming does with one partition, whatever else lies in its log directory.

    Args:
        directory: the partition.
        options: what the start hangs on; its settings may be lacking.
        lost: the last offset that readers have lost; -1 for none.

    Returns:
        One prediction; both, where nobody knows whether the start is clean; none for a directory that no broker loads.

    Raises:
        OSError: a file cannot be read.
    """
    name = directory.parsed
    if name is None or (name.topic == METADATA_TOPIC and name.state):
        return ()
    if options.settings is None:
        from kdump.broker.config import Config
        from kdump.broker.load.log_manager import LoadSettings

        options = options.replace(settings=LoadSettings(time.time_ns() // 1_000_000, Config({})))
    starts = coming_starts(directory.log_dir)
    found = []
    for row, cause in _outcomes(LogManager(directory.log_dir), directory, name, options, starts, {}):
        known = _reusing(row, lost)
        known = known if cause is None else _stopped(known, cause)
        found.append(known.replace(start=AUTO, is_clean=row.start == Start.CLEAN.value))
    return tuple(found)


class Ending(Value):
    """Why a node ends, or goes on without a log directory, with one of the starts."""

    start: str  # clean, unclean or full
    cause: Cause


def of_brokers(
    rows: Iterable[Foretold],
    log_dirs: Sequence[tuple[LogDir, Sequence[PartitionDir]]],
    settings: NodeSettings | None,
    *,
    are_replicas: bool = False,
) -> Iterator[Prediction | OpenFailure]:
    """Yield the predictions of all directories: what ends a broker in one of them ends it for all of its.

    Args:
        rows: of all of them.
        log_dirs: them, and their partitions.
        settings: of the node that has them all; None where they may be of several, or of one and not all.
        are_replicas: as `same_partitions` has it.
    """
    twins = list(same_partitions(log_dirs, are_replicas=are_replicas))
    pairs = [pair for pair in twins if not (pair[0].parsed and pair[0].parsed.is_raft_log)]
    rows = list(rows) if pairs else rows
    twice = _loaded_twice(pairs, rows) if isinstance(rows, list) else {}
    if settings is not None:
        yield from _of_node(rows, [log_dir for log_dir, _ in log_dirs], settings, twice)
        return
    brokers = {one.path: _broker_of(log_dir) for log_dir, several in log_dirs for one in several}
    elsewhere = _metadata_twice(twins)
    for row in rows:
        if isinstance(row, Ending):
            continue
        if not isinstance(row, Prediction):
            yield row
            continue
        first = elsewhere.get(brokers[row.path])
        if first is not None and (not _ends_broker(row) or _is_later(row)):
            yield _stopped(row.replace(bytes_lost=0, records_lost=0), first)
            continue
        cause = twice.get((*brokers[row.path], row.start)) if twice else None
        yield _stopped(row, cause) if cause and not _ends_broker(row) else row


def _metadata_twice(
    pairs: Iterable[tuple[PartitionDir, PartitionDir]],
) -> dict[tuple[str | None, int | None], Cause]:
    """Why nodes end whose metadata log lies in two of their log directories, by cluster and node.

    Whichever of the two the settings have as metadata.log.dir: the other one is not where it should be. Without the
    settings the one with neither a log nor a quorum-state is taken for that. Source: MetaPropertiesEnsemble.verify.
    """
    found: dict[tuple[str | None, int | None], Cause] = {}
    for one, other in pairs:
        if one.parsed is None or not one.parsed.is_raft_log:
            continue
        wrong, right = (other, one) if is_bare(other) else (one, other)
        exception = unexpected_metadata(wrong.path, right.log_dir.path)
        cause = Cause(Stops.BROKER, exception, one.path, True, Code.F12.name, one.path)
        found.setdefault(_broker_of(one.log_dir), cause)
    return found


def _broker_of(log_dir: LogDir) -> tuple[str | None, int | None]:
    return log_dir.cluster_id, log_dir.node


def _ends_broker(row: Prediction) -> bool:
    return row.stops == Stops.BROKER.value


def _loaded_twice(
    pairs: Iterable[tuple[PartitionDir, PartitionDir]], rows: Iterable[Foretold]
) -> dict[tuple[str | None, int | None, str], Cause]:
    """Why brokers end over partitions that lie in two of their log directories, by cluster, node and start.

    One that cannot be loaded, or is set aside, is not found twice. Source: LogManager.loadLog.
    """
    held = {(row.path, row.start) for row in rows if isinstance(row, Prediction) and row.is_held}
    starts = dict.fromkeys(start for _, start in sorted(held))
    found: dict[tuple[str | None, int | None, str], Cause] = {}
    for one, other in pairs:
        assert one.parsed is not None
        what = f"Duplicate log directories for {one.parsed.topic}-{one.parsed.partition} are found in both"
        exception = f"{_STATE}: {what} {one.path} and {other.path}."
        cause = Cause(Stops.BROKER, exception, one.path, False, Code.F12.name, one.path)
        for start in starts:
            if (one.path, start) in held and (other.path, start) in held:
                found.setdefault((*_broker_of(one.log_dir), start), cause)
    return found


def _of_node(
    rows: Iterable[Foretold],
    log_dirs: Sequence[LogDir],
    settings: NodeSettings,
    twice: Mapping[tuple[str | None, int | None, str], Cause],
) -> Iterator[Prediction | OpenFailure]:
    """Yield the predictions of all directories of one node: what ends it in one of them ends it for all.

    Args:
        rows: of all of them.
        log_dirs: them.
        settings: of the node.
        twice: why the node ends over a partition that lies in two of them.
    """
    held = list(rows)
    first = ensemble_cause(log_dirs, settings)
    ends: dict[str, Cause] = {}
    for one in held:
        if isinstance(one, Ending) and one.cause.stops is Stops.BROKER:
            ends.setdefault(one.start, one.cause)
    for (_, _, start), found in twice.items():
        ends.setdefault(start, found)
    coming = next(iter(ends.values()), None)  # of the start that is coming, whichever it is in each directory
    for row in held:
        if isinstance(row, Ending):
            continue
        start = row.start if isinstance(row, Prediction) else AUTO
        cause = first or (coming if start == AUTO else ends.get(start))
        if isinstance(row, OpenFailure) or cause is None or (_ends_broker(row) and not (first and _is_later(row))):
            yield row
        elif cause.is_first:
            yield _stopped(row.replace(bytes_lost=0, records_lost=0), cause)
        else:
            yield _stopped(row, cause)


def _is_later(row: Prediction) -> bool:
    """Whether what a node ends of is met only when it has judged the meta.properties of all its directories."""
    return row.cause is not None and os.path.basename(row.cause.file) != FileKind.META_PROPERTIES.value


def _needs_properties(rules: Rules) -> bool:
    """Whether a broker does not start without meta.properties: one with ZooKeeper, before 4.0, makes another one."""
    return int(rules.release.partition(".")[0]) >= _KRAFT_ONLY


def _lacks_properties(log_dir: LogDir, partitions: Sequence[PartitionDir]) -> bool:
    """Whether a log directory has no meta.properties, though its broker has topic ids: older ones start without."""
    has_ids = any(one.listing.has(FileKind.PARTITION_METADATA.value) for one in partitions)
    return has_ids and not log_dir.listing.has(FileKind.META_PROPERTIES.value)


def _reusing(row: Prediction, lost: int) -> Prediction:
    """The same partition, where offsets up to one that is lost were there before."""
    first, last = row.log_end_offset, lost if row.reused_offsets is None else max(lost, row.reused_offsets[1])
    return row if first is None or last < first else row.replace(reused_offsets=(first, last))


def _told(cause: Cause, told: Mapping[str, str]) -> Cause:
    """The same cause under the code that its file has been given already; of a directory, the file in it."""
    if cause.file in told:
        return cause.replace(code=told[cause.file])
    if cause.code == Code.S04.name:  # a name in it is no offset
        for file, code in told.items():
            if Trait.ODD_NAME in Code[code].traits and os.path.dirname(file) == cause.file:
                return cause.replace(code=code, file=file)
    return cause


def _outcomes(
    manager: LogManager,
    directory: PartitionDir,
    name: PartitionName,
    options: VerifyOptions,
    starts: Sequence[Start],
    told: Mapping[str, str],
) -> Iterator[tuple[Prediction, Cause | None]]:
    """Load one partition with each start, in the order in which they were asked for."""
    settings = options.settings
    assert settings is not None
    recoveries = TailRecoveries() if options.only_starts else Recoveries()
    found: dict[Start, tuple[Prediction, Cause | None]] = {}
    outcomes: dict[Start, Outcome] = {}
    path = directory.path
    only = starts[0] if options.only_starts and len(starts) == 1 and not name.is_raft_log else None
    facts, assumed = manager.partition(directory, settings, only)
    stray = (
        None
        if name.is_raft_log
        else manager.stray(directory, options.policies_for(directory).cluster(directory.log_dir))
    )
    closed = closed_files(directory)
    refused = _refused(directory, settings) if name.is_raft_log else None
    assumed += _level(directory, name, settings)
    if not settings.config.assumed_release and not name.state:  # a release was named: a rollback, or an upgrade
        assumed += not_for_coordinator(directory, settings.config.rules, _LIMITS)
    for start in (one for one in _WORST_FIRST if one in starts):
        how = Start.FULL if name.is_raft_log or (start is Start.UNCLEAN and not facts.recovery_point) else start
        if how not in outcomes:
            outcomes[how] = load(facts, how, recoveries=recoveries)
            if only is Start.CLEAN and recoveries.recovered:  # an index is missing or unsound: now its interval counts
                facts, assumed = manager.partition(directory, settings)
                outcomes[how] = load(facts, how, recoveries=recoveries)
        outcome = outcomes[how]
        stops = Stops.BROKER if name.is_raft_log else outcome.stops
        cause = None
        if outcome.stops is not None:
            cause = Cause(stops or Stops.BROKER, outcome.exception, path, False, *_blamed(path, outcome))
        met = stray if outcome.loads else None
        is_renamed = met is not None and met.is_renamed
        if (outcome.has_unstable or is_renamed) and not name.is_raft_log:
            cause = manager.refusal(path) or cause
        cause = cause or (manager.unserved if _is_served(name, outcome, stray) else None)
        said: tuple[str, ...] = ()
        if name.is_raft_log:
            said = (_METADATA,)
            if outcome.loads:
                outcome, said, cause = _raft_log(directory, outcome, recoveries, told)
                cause = cause or refused
        if closed:
            cause = _denied(closed[0], Stops.BROKER if name.is_raft_log else Stops.LOG_DIR)
            said = (*said, _runs_as(closed[0]))
        row = _row(path, start, outcome, (*assumed, *said), settings.config.rules.release)
        row = row.replace(is_held=outcome.loads and not is_renamed)
        if met is not None:
            row = _set_aside(row, met)
        if options.only_starts:
            row = row.replace(logs=_logs_of(facts, recoveries))
        found[start] = row, cause
    directory.close()
    yield from (found[start] for start in starts)


def _is_served(name: PartitionName, outcome: Outcome, stray: Stray | None) -> bool:
    """Whether a broker makes a partition that it has loaded a leader or a follower."""
    return outcome.loads and stray is None and not (name.is_raft_log or name.state)


def _denied(closed: ClosedFile, stops: Stops) -> Cause:
    """Why a broker gets no further with a file that it may not open."""
    exception = f"java.nio.file.AccessDeniedException: {closed.path}"
    return Cause(stops, exception, closed.path, code=Code.K12.name, file=closed.path)


def _runs_as(closed: ClosedFile) -> str:
    return f"the broker runs as {closed.owner}, the owner of the log directory"


def _logs_of(facts: PartitionFacts, recoveries: Recoveries) -> LogsRead:
    logs = [facts.files[f"{base:020}.log"] for base in log_bases(facts.files)]
    read = [log.size for log in logs if log.name in recoveries.recovered]
    return LogsRead(len(logs), sum(log.size for log in logs), len(read), sum(read))


def _raft_log(
    directory: PartitionDir, outcome: Outcome, recoveries: Recoveries, told: Mapping[str, str]
) -> tuple[Outcome, tuple[str, ...], Cause | None]:
    """What a node makes of its metadata log when that is loaded: of its snapshots and of its quorum-state.

    Args:
        directory: of the metadata log.
        outcome: of the load.
        recoveries: of the same.
        told: the code of the first error of each file.

    Returns:
        the outcome afterwards, what is to be said of it, and why the node ends; None where it does not.

    Source: KafkaRaftLog.createLog, KRaftControlRecordStateMachine.updateState, FileQuorumStateStore; Kafka 4.3.1.
    """
    said = [_METADATA]
    cause: Cause | None = None
    snapshots = raft_snapshots(directory.listing.files, outcome.log_start_offset or 0)
    if snapshots:
        newest = snapshots[-1]
        if is_ahead(newest, outcome.log_end_offset or 0, outcome.latest_epoch):
            outcome = begun_at(newest, outcome, recoveries)
            said.append(
                f"the snapshot {newest.name} is ahead of the log: a broker empties the log and goes on at offset"
                f" {newest.offset}; what offsets below it had done is in the snapshot"
            )
        path = directory.listing.join(newest.name)
        source = directory.cache.open(path, follow=False)
        failure = None if isinstance(source, OpenFailure) else records_failure(source)
        if failure is not None:
            code = told.get(path, Code.B01.name)
            cause = Cause(Stops.BROKER, failure, path=path, is_first=True, code=code, file=path, after=directory.path)
        elif path in told:
            said.append(f"what is left of the snapshot {newest.name}, which is damaged, can be read")
    metadata = directory.file(FileKind.PARTITION_METADATA.value, FileKind.PARTITION_METADATA)
    topic_id = directory.topic_id or METADATA_TOPIC_ID
    if topic_id != METADATA_TOPIC_ID and cause is None:
        path = metadata.path
        what = f"Tried to assign topic ID Optional[{METADATA_TOPIC_ID}] to log for topic partition {METADATA_LOG},but"
        what = f"{_OTHER_ID}: {what} log already contained topic ID {topic_id}"
        cause = Cause(Stops.BROKER, what, path=path, is_first=True, code=Code.K05.name, file=path, after=directory.path)
    quorum = directory.file(FileKind.QUORUM_STATE.value, FileKind.QUORUM_STATE)
    finding = next((one for one in quorum.findings if one.values["exception"] is not None), None)
    if finding is not None and cause is None:
        thrown = finding.values["exception"]
        what = f"{_UNCHECKED if thrown in _OF_READING else thrown}: {finding.values['why']}"
        cause = Cause(
            Stops.BROKER,
            what,
            path=quorum.path,
            is_first=True,
            code=finding.code.name,
            file=quorum.path,
            after=directory.path,
        )
    return outcome, tuple(said), cause


def _refused(directory: PartitionDir, settings: LoadSettings) -> Cause | None:
    """Why a node of the release does not take what is in its metadata log."""
    found = refusal(directory, settings.config.rules, _LIMITS)
    if found is None:
        return None
    java_class = found.exception.partition(":")[0]
    code = "" if found.is_of_release else Code.L21.name
    return Cause(
        Stops.BROKER,
        f"{java_class}: {found.what}",
        found.path,
        is_first=True,
        code=code,
        file=found.path if code else "",
        after=directory.path,
    )


def _level(directory: PartitionDir, name: PartitionName, settings: LoadSettings) -> tuple[str, ...]:
    """Which releases read a metadata log; nothing of another partition, or where nothing tells."""
    said = level_of(directory, settings.config.rules, _LIMITS) if name.is_raft_log else ""
    return (said,) if said else ()


def _row(path: str, start: Start, outcome: Outcome, assumed: tuple[str, ...], release: str) -> Prediction:
    return Prediction(
        path=path,
        partition=os.path.basename(os.path.abspath(path)),
        start=start.value,
        broker=release,
        loads=outcome.loads,
        stops=None,
        reason=None,
        reason_class=None,
        log_start_offset=outcome.log_start_offset,
        log_end_offset=outcome.log_end_offset,
        bytes_lost=outcome.bytes_lost,
        records_lost=outcome.records_lost,
        assumed=assumed,
        segments=tuple(SegmentFate(one.base_offset, one.action.value, one.size) for one in outcome.segments),
        bytes_read=outcome.bytes_read,
        served_lost=outcome.served_lost,
        hidden_records=outcome.hidden_records,
        reused_offsets=outcome.reused_offsets,
        torn=outcome.torn,
        orphans=tuple(_orphans(outcome)),
    )


def _orphans(outcome: Outcome) -> Iterator[str]:
    """The indexes without a log, which a load removes.

    Source: LogLoader.loadSegmentFiles.
    """
    for name in sorted(outcome.disk.before):
        found = parse_name(name)
        is_index = found.is_live and found.kind in _INDEXES and found.base_offset is not None
        if is_index and f"{name[:20]}.log" not in outcome.disk.before and outcome.disk.get(name) is None:
            yield name


def _set_aside(row: Prediction, stray: Stray) -> Prediction:
    """The partition, of which the broker serves nothing although it has loaded it."""
    how = "renames the directory to -stray" if stray.is_renamed else "keeps the directory and does not serve it"
    file = os.path.join(row.path, stray.file) if stray.file else row.path
    return row.replace(
        loads=False,
        reason=f"the broker {how}: {stray.why}",
        log_start_offset=None,
        log_end_offset=None,
        segments=(),
        hidden_records=0,
        reused_offsets=None,
        torn=None,
        cause=LoadFailure(stray.code.name, file),
        is_stray=True,
        is_renamed=stray.is_renamed,
        assumed=row.assumed if stray.code is Code.K05 else (*row.assumed, _NEWEST),
    )


_INDEXES = frozenset((FileKind.INDEX, FileKind.TIMEINDEX, FileKind.TXNINDEX))
_FILE = pattern(r"\d{20,}\.(?:log|index|timeindex|txnindex|snapshot)")
_OF_FILES = {
    FileKind.EPOCHS.value: (Code.K04, FileKind.EPOCHS.value),
    FileKind.PARTITION_METADATA.value: (Code.K05, FileKind.PARTITION_METADATA.value),
    "names": (Code.S04, ""),
}
_OF_LOGS = {
    "epochs": Code.E02,
    "producers": Code.P03,
    "transaction index": Code.A03,
    "open": Code.F03,
    "offset": Code.O02,
    "split": Code.O02,
    "framing": Code.L07,
}


def _blamed(path: str, outcome: Outcome) -> tuple[str, str]:
    """The code and the file of what a partition cannot be loaded for.

    Args:
        path: of its directory.
        outcome: that does not load.
    """
    stage = outcome.stage
    if stage == "epochs" and outcome.has_bad_epochs:
        stage = FileKind.EPOCHS.value
    if stage in _OF_FILES:
        code, name = _OF_FILES[stage]
        return code.name, os.path.join(path, name) if name else path
    named = _FILE.search(outcome.exception)
    name = named.group() if named else f"{outcome.row:020}.log"
    is_there = name in outcome.disk.before
    return _OF_LOGS.get(stage, Code.O03).name, os.path.join(path, name) if is_there else path


def _stopped(row: Prediction, cause: Cause) -> Prediction:
    """The same partition, where the broker ends, or goes on without the log directory."""
    java_class, _, message = cause.exception.partition(":")
    what = "the broker ends" if cause.stops is Stops.BROKER else "the log directory goes offline"
    why = message.strip() or java_class.rpartition(".")[2]
    is_loaded = not cause.is_first or cause.after == row.path
    lost = (row.bytes_lost, row.records_lost) if is_loaded else (0, 0)
    return row.replace(
        loads=False,
        stops=cause.stops.value,
        reason=f"{what} because of {cause.file or cause.path}: {why}",
        reason_class=java_class,
        log_start_offset=None,
        log_end_offset=None,
        bytes_lost=lost[0],
        records_lost=lost[1],
        segments=(),
        hidden_records=0,
        reused_offsets=None,
        torn=None,
        cause=LoadFailure(cause.code, cause.file) if cause.code else None,
    )
