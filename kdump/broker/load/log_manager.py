"""LogManager's view of one log.dir at start: its partitions, their checkpoints, and what stops it loading."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING

from kdump.broker.index_interval import infer_interval
from kdump.broker.load.facts import PartitionFacts, Start, Stops
from kdump.broker.releases import rules_of
from kdump.broker.strays import Stray, stray_in
from kdump.finding import Code
from kdump.format.index.offset_and_time import INDEX_INTERVAL
from kdump.format.java_values import IO_CLASSES, RUNTIME
from kdump.format.kinds import FileKind
from kdump.format.read_limits import ReadLimits
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import BOOTSTRAP, REMOTE_CACHE, log_bases, parse_partition
from kdump.storage.open_files import open_source
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kdump.broker.config import ClusterSettings, Config
    from kdump.broker.releases import Rules
    from kdump.format.source import Source
    from kdump.storage.log_dir import LogDir
    from kdump.storage.partition_dir import PartitionDir
    from kdump.storage.state_file import StateFile

_LIMITS = ReadLimits()
_KAFKA = "org.apache.kafka.common.KafkaException"
_STORAGE = "org.apache.kafka.common.errors.KafkaStorageException"


class Cause(Value):
    """The reason why a broker does not start, or takes a log directory offline."""

    stops: Stops  # what ends
    exception: str  # class and message as Java prints them
    path: str  # of the file or directory that it dies of
    is_first: bool = False  # it ends before any partition is loaded, but for `after`
    # code, file: of the finding that says what is wrong; of a partition that cannot be read because the log directory
    # is offline, that of the partition or file that took it offline
    code: str = ""
    file: str = ""
    after: str = ""  # path of the partition that is loaded before it ends all the same; empty for none


def worst(causes: Sequence[Cause]) -> Cause:
    """Return the one that decides: a broker continues to load when it knows that a log directory goes offline."""
    return min(causes, key=lambda one: (not one.is_first, one.stops is not Stops.BROKER))


def _malformed(file: StateFile) -> Cause | None:
    """Why the log directory goes offline when a broker reads a checkpoint of offsets; None where it does not."""
    for finding in file.findings:
        exception = finding.values["exception"]
        if exception is not None:
            if exception not in IO_CLASSES:
                return None
            cause = Cause(Stops.LOG_DIR, f"{exception}: {finding.values['why']}", file.path)
            return cause.replace(code=finding.code.name, file=file.path)
    return None


class LoadSettings(Value):
    """The settings of a load, besides the files."""

    now: int  # the broker's clock, ms since the epoch
    config: Config  # of the broker and its topics
    # index.interval.bytes of all topics; None to take it from `config`, or else from the indexes
    interval: int | None = None


class LogManager:
    """LogManager's view of one log directory at start, and what stops it loading.

    Args:
        log_dir: the log directory.
        runs_kraft: its broker does, by its configuration: a meta.properties of ZooKeeper is written again at a start.
        rules: of the release of the broker.

    Source: LogManager.loadLogs.
    """

    def __init__(self, log_dir: LogDir, *, runs_kraft: bool = False, rules: Rules | None = None) -> None:
        self.path = log_dir.path
        self._log_dir = log_dir
        self._by_files: list[Cause] = [*self._of_properties(log_dir)]
        self._by_files += [] if self._by_files else self._of_bootstrap(log_dir, rules)
        self._recovery_points = self._offsets(log_dir.file(FileKind.RECOVERY_POINT))
        self._log_starts = self._offsets(log_dir.file(FileKind.LOG_START))
        self._is_kraft = runs_kraft or log_dir.is_kraft

    @cached_property
    def causes(self) -> Sequence[Cause]:
        """What keeps a broker from using the directory, by the files and the names in it."""
        if any(one.is_first for one in self._by_files):  # nothing else in it is looked at
            return self._by_files
        return [*self._by_files, *self._of_names()]

    @staticmethod
    def _of_properties(log_dir: LogDir) -> Iterator[Cause]:
        """What meta.properties ends, as a broker of Kafka 4.3 reads it: before it looks at anything else.

        Source: MetaPropertiesEnsemble.verify, KafkaRaftServer.initializeLogDirs.
        """
        file = log_dir.file(FileKind.META_PROPERTIES)
        if log_dir.lacks_properties:
            hint = "(have you run `kafka-storage.sh` to format the directory?)"
            what = f"{RUNTIME}: No `meta.properties` found in {log_dir.path} {hint}"
            yield Cause(Stops.BROKER, what, file.path, True, Code.K03.name, file.path)
        finding = next((one for one in file.findings if one.values["exception"] is not None), None)
        if finding is None:
            return
        is_caught = "caught" in finding.values and not log_dir.has_metadata_log
        what = f"{finding.values['exception']}: {finding.values['why']}"
        stops = Stops.LOG_DIR if is_caught else Stops.BROKER
        yield Cause(stops, what, file.path, True, finding.code.name, file.path)

    @staticmethod
    def _of_bootstrap(log_dir: LogDir, rules: Rules | None) -> Iterator[Cause]:
        """What bootstrap.checkpoint ends: it is read at each start, where the metadata log is.

        Source: KafkaRaftServer.initializeLogDirs.
        """
        if not (log_dir.has_metadata_log and log_dir.listing.has(BOOTSTRAP)):
            return
        from kdump.broker.load.bootstrap import bootstrap_failure  # few directories have one: it takes all schemas

        path = log_dir.listing.join(BOOTSTRAP)
        source = open_source(path)
        if isinstance(source, OpenFailure):
            return
        try:
            failure = bootstrap_failure(source, rules or rules_of(), _LIMITS)
        except OSError:
            return  # it is told where it is read
        finally:
            source.close()
        if failure is not None:
            yield Cause(Stops.BROKER, failure, path, True, Code.L20.name, path)

    def _offsets(self, file: StateFile) -> Mapping[tuple[str, int], int]:
        offline = _malformed(file)
        if offline is not None:
            self._by_files.append(offline)
        # of other exceptions it is logged that they came, and the file counts as empty
        return {} if any(one.values["exception"] is not None for one in file.findings) else file.offsets

    @cached_property
    def unserved(self) -> Cause | None:
        """Why the directory goes offline although it is loaded; None where it does not.

        A broker asks for the high watermark as soon as it makes a partition in it a leader or a follower.

        Source: LazyOffsetCheckpoints.fetch, CheckpointFileWithFailureHandler.read.
        """
        return _malformed(self._log_dir.file(FileKind.REPLICATION))

    def _of_names(self) -> Iterator[Cause]:
        """Source: LocalLog.parseTopicPartitionName."""
        listing = self._log_dir.listing
        for name in listing.followed_directories():
            if name != REMOTE_CACHE and parse_partition(name) is None:
                path = listing.join(name)
                form = "is not in the form of topic-partition or topic-partition.uniqueId-delete"
                what = f"Found directory {path}, '{name}' {form} (if marked for deletion)."
                yield Cause(Stops.BROKER, f"{_KAFKA}: {what}", path, True, Code.F11.name, path)

    def refusal(self, path: str) -> Cause | None:
        """Return why a partition cannot be read although it loads: the log directory is offline already.

        Args:
            path: of the directory of the partition.

        Source: LocalLog.maybeHandleIOException.
        """
        offline = next((one for one in self._by_files if one.stops is Stops.LOG_DIR), None)
        if offline is None:
            return None
        what = f"The log dir {self.path} is already offline due to a previous IO exception."
        return Cause(Stops.BROKER, f"{_STORAGE}: {what}", path, False, offline.code, offline.file)

    @staticmethod
    def _recovered(files: Mapping[str, Source], start: Start, recovery_point: int) -> Mapping[str, Source]:
        """The files of the segments that a start recovers where nothing is wrong with their indexes."""
        if start is Start.CLEAN:
            return {}
        bases = log_bases(files)
        point = 0 if start is Start.FULL else recovery_point
        first = f"{bases[max(0, bisect_right(bases, point) - 1)] if bases else 0:020}"
        return {name: source for name, source in files.items() if name >= first}

    def stray(self, directory: PartitionDir, cluster: ClusterSettings | None) -> Stray | None:
        """Return why a KRaft broker serves nothing of a partition that it has loaded; None where it does.

        Args:
            directory: of the partition.
            cluster: what the metadata log of the cluster says; None where none is at hand.

        Source: LogManager.isStrayReplica; the metadata log is loaded elsewhere.
        """
        return stray_in(directory, cluster) if self._is_kraft else None

    def partition(
        self, directory: PartitionDir, settings: LoadSettings, only: Start | None = None
    ) -> tuple[PartitionFacts, list[str]]:
        """Return a partition as the broker finds it, and what was assumed, in words.

        Args:
            directory: of the partition, with a name of that form.
            settings: what decides besides the files.
            only: the one start that is looked at: no segment is read that it does not recover; None for all.

        Raises:
            OSError: the directory, or a file that tells the interval, cannot be read.
        """
        name = directory.parsed
        assert name is not None
        files = directory.sources()
        config = settings.config.on(name.topic, directory.log_dir)
        topic = config.of_topic(name.topic)
        assumed: list[str] = [one for one in (config.source, config.unused) if one]
        interval = settings.interval
        if interval is None and config.is_given("index.interval.bytes"):
            interval = topic.index_interval_bytes
        key = name.topic, name.partition
        if interval is None:
            recovered = files if only is None else self._recovered(files, only, self._recovery_points.get(key, 0))
            interval = infer_interval(recovered)
            why = "by the stored indexes" if interval is not None else "the default"
            interval = INDEX_INTERVAL if interval is None else interval
            assumed.append(f"index.interval.bytes={interval} ({why})")
        if config.assumed_release:
            assumed.append(config.assumed_release)
        facts = PartitionFacts(
            directory.path,
            name.topic,
            name.partition,
            state=name.state,
            files=files,
            interval=interval,
            now=settings.now,
            log_start=self._log_starts.get(key, 0),
            recovery_point=self._recovery_points.get(key, 0),
            rules=config.rules,
            max_index_bytes=topic.segment_index_bytes,
            producer_expiration=config.broker("producer.id.expiration.ms"),
        )
        return facts, assumed
