"""What the metadata log says of configurations: at its end, and ever since it begins.

Strategy: the log is walked once. Only records of topics and configurations are decoded; of the others their type is
looked at. A snapshot is read only where the log does not say what was before: at its beginning, and behind damage. What
was known before damage is not known behind it, until a snapshot tells it again.

Source: TopicsDelta, ConfigurationsDelta (each `replay`), MetadataBatchLoader (transactions), ZkMigrationState.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING

from kdump.broker.config import Assigned, ClusterSettings, TopicPast, has_part, says_compact
from kdump.decode.metadata import Frames, UnframedError
from kdump.decode.schema import ReadMode
from kdump.decode.table import newest, table
from kdump.decode.wire import MalformedError, uvarint
from kdump.finding import Code, Finding, Severity
from kdump.format.batch import layout
from kdump.format.batch.walk import Border, CheckedWalk, right_windows
from kdump.format.kinds import FileKind
from kdump.format.record.chunk import KEPT
from kdump.format.record.reader import RecordReader
from kdump.storage.file_source import OpenFailure
from kdump.storage.paths import real
from kdump.storage.raft_snapshots import RaftSnapshot, raft_snapshots
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from kdump.decode.metadata import Framed
    from kdump.format.batch.window import Window
    from kdump.format.read_limits import ReadLimits
    from kdump.format.record.chunk import Chunk
    from kdump.format.source import Source
    from kdump.storage.partition_dir import PartitionDir

    Fields = dict[str, Any]

_TOPIC_CONFIG, _BROKER_CONFIG = 2, 4  # ConfigResource.Type
_POLICY, _DEFAULT_POLICY = "cleanup.policy", "log.cleanup.policy"
_TOPIC, _PARTITION, _CONFIG, _CHANGE, _REMOVE_TOPIC, _MIGRATION = 2, 3, 4, 5, 9, 21
_REGISTER, _CHANGE_BROKER = 0, 17
_BEGIN, _END, _ABORT = 23, 24, 25  # of transactions
_OF_TOPICS = _TOPIC, _PARTITION, _CONFIG, _CHANGE, _REMOVE_TOPIC, _MIGRATION
_WANTED = frozenset((_REGISTER, _CHANGE_BROKER, *_OF_TOPICS, _BEGIN, _END, _ABORT))
_PRE_MIGRATION, _IN_MIGRATION = 1, 2  # ZkMigrationState: topics of ZooKeeper are copied in between
_FOOTER = 4  # ControlRecordType of the end of a snapshot
_REPLICAS, _DIRECTORIES = 2, 8  # tags of a PartitionChangeRecord
_LISTS = 4  # of a PartitionRecord: replicas, in-sync replicas, and those that are removed or added
_AFTER_LISTS = 12  # bytes of leader, leader epoch and partition epoch
_UUID = 16
_FRAME = 3  # frame version, type, version: a byte each
_NUMBER, _ID = slice(_FRAME, _FRAME + 4), slice(_FRAME + 4, _FRAME + 20)  # begin a PartitionRecord of every version


def _assigned(value: bytes, before: Assigned | None) -> Assigned | None:
    """Return where a PartitionRecord, or a change of it, has the replicas; None where it says nothing of them.

    Args:
        value: the record.
        before: what was known.

    Source: PartitionRecord.json, PartitionChangeRecord.json (tags 2 and 8); all are compact.
    """
    at, is_change = _ID.stop, value[1] == _CHANGE
    replicas, directories = (before or Assigned((), ())) if is_change else ((), ())
    is_told = not is_change
    try:
        if not is_change:
            for number in range(_LISTS):
                found, at = _array(value, at, 4)
                replicas = tuple(int.from_bytes(one, signed=True) for one in found) if number == 0 else replicas
            at += _AFTER_LISTS
            if value[2] > 0:
                directories = _ids(value, at)
        else:
            tags, at = uvarint(value, at)
            while tags > 0 and at < len(value):
                tag, at = uvarint(value, at)
                length, at = uvarint(value, at)
                if tag == _REPLICAS:
                    replicas = tuple(int.from_bytes(one, signed=True) for one in _array(value, at, 4)[0])
                    directories = () if len(directories) != len(replicas) else directories
                elif tag == _DIRECTORIES:
                    directories = _ids(value, at)
                is_told |= tag in (_REPLICAS, _DIRECTORIES)
                tags, at = tags - 1, at + max(0, length)
    except (IndexError, MalformedError):
        pass
    return Assigned(replicas, directories) if is_told else None


def _array(value: bytes, at: int, size: int) -> tuple[list[bytes], int]:
    """The items of a compact array, and where it ends."""
    count, at = uvarint(value, at)
    count = min(max(count - 1, 0), (len(value) - at) // size)
    return [value[one : one + size] for one in range(at, at + count * size, size)], at + count * size


def _ids(value: bytes, at: int) -> tuple[str, ...]:
    return tuple(urlsafe_b64encode(one).decode().rstrip("=") for one in _array(value, at, _UUID)[0])


def cluster_history(directory: PartitionDir, limits: ReadLimits) -> ClusterSettings:
    """Return what a metadata log says; of damage less is known, and whoever reads the log itself tells it.

    Args:
        directory: of the metadata log.
        limits: what is read at most.
    """
    reader = _Reader(directory, limits)
    try:
        end = reader.read()
    finally:
        directory.close()
    state = reader.state
    state.settle()
    return ClusterSettings(
        f"{directory.path} up to offset {end - 1}{'' if state.is_known else ' (damaged)'}",
        {name: state.topics[topic].config for name, topic in state.ids.items()},
        state.brokers,
        is_known=state.is_known,
        partitions={name: len(state.topics[topic].partitions) for name, topic in state.ids.items()},
        assigned={
            (name, number): one
            for name, topic in state.ids.items()
            for number, one in state.topics[topic].partitions.items()
        },
        registered=state.registered,
        pasts={topic: one.past() for topic, one in state.topics.items()},
        ids=dict(state.ids),
        cluster_id=directory.log_dir.cluster_id,
        log_dir=real(directory.log_dir.path),
    )


class _Topic:
    """A topic, by its id; where it is deleted, as it was.

    Attributes:
        config: its configuration, the texts that have a part in the model of a broker, by name.
    """

    __slots__ = ("config", "ever_compact", "name", "partitions", "since_creation")

    def __init__(self, name: str, *, since_creation: bool) -> None:
        self.name = name  # of it
        self.config: dict[str, str] = {}
        self.partitions: dict[int, Assigned] = {}  # by their numbers, where the replicas of each are
        self.ever_compact = False  # it was compacted at some time, or may have been by a default of brokers
        self.since_creation = since_creation  # all since its creation was read

    def past(self) -> TopicPast:
        return TopicPast(self.name, ever_compact=self.ever_compact, since_creation=self.since_creation)


class _State:
    """The topics and configurations, changed record by record."""

    def __init__(self, *, of_snapshot: bool = False) -> None:
        self._of_snapshot = of_snapshot
        self._frames = Frames(table(newest(), ReadMode.OPEN), "metadata")
        self._held: list[tuple[int, bytes]] | None = None  # of a transaction that has not ended
        self._touched: set[str] = set()  # topics whose policy may be another since the last batch
        self._is_copying = False  # topics come from ZooKeeper
        self._nameless: set[str] = set()  # names of topics that are not known whose policy was compact
        self.is_known = True  # nothing before is lost
        self.known_from = 0  # where it is not, the first offset behind what is lost
        self.is_finished = False  # the footer of a snapshot was read
        self.topics: dict[str, _Topic] = {}  # by id, deleted ones too
        self.ids: dict[str, str] = {}  # of those that are there, by name
        self.brokers: dict[str, dict[str, str]] = {}  # configurations by id as text; "" for all
        self.registered: dict[int, tuple[str, ...]] = {}  # the directory ids of each broker

    def lose(self, known_from: int) -> None:
        """Something was lost.

        Args:
            known_from: the first offset behind it.
        """
        self.is_known = False
        self.known_from = max(self.known_from, known_from)
        self._held = None
        for topic in self.topics.values():
            topic.since_creation = False

    def restore(self, snapshot: _State) -> None:
        """Take a snapshot for what is lost: what was ever so stays."""
        self.settle()
        for topic, one in snapshot.topics.items():
            before = self.topics.get(topic)
            one.ever_compact |= one.name in self._nameless or (before is not None and before.ever_compact)
            one.since_creation = before is not None and before.since_creation
        self.topics.update(snapshot.topics)
        self.ids, self.brokers = snapshot.ids, snapshot.brokers
        self.registered = snapshot.registered
        self._held = None
        self.is_known = True

    def add(self, chunk: Chunk) -> None:
        """Take the records of batches with a right CRC into account."""
        rows, width = chunk.rows, layout.RECORD_WIDTH
        batch = -1
        for r in range(0, chunk.filled * width, width):
            if rows[r + layout.R_BATCH] != batch:
                batch = rows[r + layout.R_BATCH]
                self.settle()
            at, size = rows[r + layout.R_VALUE_AT], rows[r + layout.R_VALUE_SIZE]
            if chunk.window.cell(batch, layout.ATTRIBUTES) & layout.CONTROL_FLAG:
                key = rows[r + layout.R_KEY_AT]
                kind = bytes(chunk.view[key + 2 : key + 4]) if rows[r + layout.R_KEY_SIZE] >= 4 else b""
                self.is_finished |= int.from_bytes(kind) == _FOOTER
            elif size >= _FRAME and chunk.view[at] == 1 and chunk.view[at + 1] not in _WANTED:
                continue  # most are of another type
            elif size < _FRAME or (chunk.cut is not None and chunk.cut.value_size > KEPT):
                self.lose(rows[r + layout.R_OFFSET] + 1)
            else:
                self._take(rows[r + layout.R_OFFSET], bytes(chunk.view[at : at + size]))
        if chunk.problem is not None:
            self.lose(chunk.window.cell(chunk.last - 1, layout.LAST_OFFSET) + 1)

    def settle(self) -> None:
        """Note which topics are compacted now: a topic and its configuration come in one batch."""
        if not self._touched:
            return
        by_default = any(says_compact(one.get(_DEFAULT_POLICY)) for one in self.brokers.values())
        for topic in self._touched:
            one = self.topics[topic]
            one.ever_compact |= by_default if _POLICY not in one.config else says_compact(one.config[_POLICY])
        self._touched.clear()

    def _take(self, offset: int, value: bytes) -> None:
        """Apply a record, or hold it until its transaction ends."""
        number = value[1]
        if number == _BEGIN:
            self._held = []
        elif number in (_END, _ABORT):
            held, self._held = self._held, None
            for its_offset, one in held or () if number == _END else ():
                self._apply(its_offset, one)
        elif self._held is not None:
            self._held.append((offset, value))
        else:
            self._apply(offset, value)

    def _apply(self, offset: int, value: bytes) -> None:
        if value[1] in (_PARTITION, _CHANGE) and len(value) >= _ID.stop:
            self._assign(value)
            return
        try:
            record = self._frames.read(value)
        except UnframedError:
            self.lose(offset + 1)
            return
        self._apply_record(record)

    def _assign(self, value: bytes) -> None:
        """Take where a partition is."""
        topic = self.topics.get(urlsafe_b64encode(value[_ID]).decode().rstrip("="))
        number = int.from_bytes(value[_NUMBER])
        made = None if topic is None else _assigned(value, topic.partitions.get(number))
        if topic is not None and made is not None:
            topic.partitions[number] = made

    def _apply_record(self, record: Framed) -> None:
        """Apply a record about a topic, a broker, a configuration or the migration from ZooKeeper."""
        fields: Fields = record.data
        if record.number == _TOPIC:
            self._create(fields["name"], fields["topicId"])
        elif record.number == _CONFIG:
            self._configure(fields["resourceType"], fields["resourceName"], fields["name"], fields["value"])
        elif record.number == _REMOVE_TOPIC and (gone := self.topics.get(fields["topicId"])) is not None:
            if self.ids.get(gone.name) == fields["topicId"]:
                del self.ids[gone.name]
        elif record.number in (_REGISTER, _CHANGE_BROKER):
            if fields.get("logDirs"):
                self.registered[fields["brokerId"]] = tuple(fields["logDirs"])
        elif record.number == _MIGRATION:
            self._is_copying = fields["zkMigrationState"] == _PRE_MIGRATION
            if fields["zkMigrationState"] in (_PRE_MIGRATION, _IN_MIGRATION):
                for one in self.topics.values():
                    one.since_creation = False

    def _create(self, name: str, topic: str) -> None:
        one = _Topic(name, since_creation=not (self._of_snapshot or self._is_copying))
        self.topics[topic], self.ids[name] = one, topic
        self._nameless.discard(name)
        self._touched.add(topic)

    def _configure(self, kind: int, resource: str, name: str, value: str | None) -> None:
        if kind == _BROKER_CONFIG:
            config = self.brokers.setdefault(resource, {})
            if name == _DEFAULT_POLICY:
                self._touched.update(self.ids.values())
        elif kind != _TOPIC_CONFIG:
            return
        elif resource in self.ids:
            config = self.topics[self.ids[resource]].config
            self._touched.add(self.ids[resource])
        else:
            if name == _POLICY and says_compact(value):
                self._nameless.add(resource)
            return
        if value is None:
            config.pop(name, None)
        elif has_part(name):
            config[name] = value


class _Run(TupleValue):
    """Batches that follow each other: the first offset, the last, the end position; None: their CRC is wrong."""

    first: int
    last: int
    end: int
    window: Window | None


class _Reader:
    """Reads a metadata log and, where they are needed, its snapshots.

    Args:
        directory: of the metadata log.
        limits: what is read at most.
    """

    def __init__(self, directory: PartitionDir, limits: ReadLimits) -> None:
        self._directory = directory
        self._limits = limits
        self._snapshots = {one.offset: one for one in raft_snapshots(directory.listing.files)}
        self._records = RecordReader.within(limits)
        self.state = _State()  # what was read comes to

    def read(self) -> int:
        """Read all; return the offset after the last record."""
        bases = self._directory.log_bases
        end = self._directory.start_offset if bases else 0
        if not bases or end > 0:
            self.state.lose(end)
        for base in bases:
            end = self._segment(base, end)
        later = [one for offset, one in sorted(self._snapshots.items(), reverse=True) if offset >= end]
        for one in later:
            if self._restore(one):
                return one.offset
        return end

    def _segment(self, base: int, end: int) -> int:
        """Read the log of a segment.

        Args:
            base: of the segment.
            end: the offset that is expected next.

        Returns:
            the offset that is expected behind it.
        """
        following, position = self._directory.next_base(base), 0
        source = self._directory.cache.open(self._directory.path_of(base, FileKind.LOG), follow=False)
        if isinstance(source, OpenFailure):
            self.state.lose(end + 1)
            return end
        errors: list[Finding] = []
        try:
            for run in self._runs(source, base, following, errors):
                position = run.end
                if run.last < end:  # below the log start, or there twice
                    continue
                if run.first > end:
                    self.state.lose(run.first)
                if run.first in self._snapshots:
                    self._restore(self._snapshots[run.first])
                if run.window is None:
                    self.state.lose(run.last + 1)
                else:
                    for chunk in self._records.chunks(run.window):
                        self.state.add(chunk)
                end = run.last + 1
        except OSError:
            self.state.lose(end + 1)
        for one in errors:  # behind the last batch: nobody knows how many offsets are lost
            if (one.position or 0) >= position and one.code is not Code.V03:
                self.state.lose(end + 1)
        return end

    def _runs(self, source: Source, base: int, following: int | None, errors: list[Finding]) -> Iterator[_Run]:
        """Yield the batches of a log, as many as follow each other together; a snapshot ends before one of them.

        Args:
            source, base: of the log.
            following: base offset of the next segment, None for none.
            errors: takes the last one that was found.
        """
        found: list[Finding] = []
        walk = CheckedWalk(
            source,
            found.append,
            segment=base,
            next_base=following,
            max_batch_bytes=self._limits.max_batch_bytes,
            border=Border(floor=base - 1),
        )
        walk.checks.follow_producers = False
        for window, _ in right_windows(walk, found):
            firsts, lasts = window.column(layout.BASE_OFFSET), window.column(layout.LAST_OFFSET)
            stored, computed = window.column(layout.CRC), window.column(layout.COMPUTED_CRC)
            k = 0
            while k < window.count:
                begin, is_sound = k, stored[k] == computed[k]
                k += 1
                while is_sound and k < window.count and firsts[k] == lasts[k - 1] + 1 and stored[k] == computed[k]:
                    if firsts[k] in self._snapshots:
                        break
                    k += 1
                part = window.slice(begin, k)
                yield _Run(firsts[begin], lasts[k - 1], part.end(part.count), part if is_sound else None)
            _keep_error(errors, found)
        _keep_error(errors, found)

    def _restore(self, snapshot: RaftSnapshot) -> bool:
        """Take a snapshot for what is lost; tell whether it was needed, tells all that, and is sound."""
        if self.state.is_known or snapshot.offset < self.state.known_from:
            return False
        read = self._read(snapshot)
        if read is not None:
            self.state.restore(read)
        return read is not None

    def _read(self, snapshot: RaftSnapshot) -> _State | None:
        """Read a snapshot; None where it is damaged or was not finished."""
        source = self._directory.cache.open(self._directory.listing.join(snapshot.name), follow=False)
        if isinstance(source, OpenFailure):
            return None
        state, errors = _State(of_snapshot=True), list[Finding]()
        try:
            for run in self._runs(source, 0, None, errors):
                if run.window is None:
                    return None
                for chunk in self._records.chunks(run.window):
                    state.add(chunk)
        except OSError:
            return None
        state.settle()
        return state if state.is_finished and state.is_known and not errors else None


def _keep_error(errors: list[Finding], found: list[Finding]) -> None:
    """Keep the last error of what was found, and forget the rest."""
    errors[:] = [*errors, *(one for one in found if one.severity is Severity.ERROR)][-1:]
    found.clear()
