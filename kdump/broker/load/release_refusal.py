"""What a node of one release cannot take of a metadata log that another release wrote: a rollback, or an upgrade.

A node reads all records of its newest snapshot and of the log behind it before it does anything else, and ends at the
first that it cannot read; then it loads them, and ends at a level of metadata.version, or of another feature, that its
release does not know. Kafka's brokers of 3.9.2, 4.2.1, 4.3.1 and 4.4.0 were started on directories of each other.

The topics of coordinators never keep a broker from starting: records of types that are not known are passed over, and
what is in them does not exist for that release; at a value of a version that is not known a coordinator ends its load
of the partition, and does not serve it.

Source: CoordinatorRecordSerde, CoordinatorLoaderImpl, GroupMetadataManager, TransactionLog,
KRaftControlRecordStateMachine, AbstractApiMessageSerde, FeaturesDelta.replay, FeatureControlManager.replay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.load.metadata_replay import REPLAYED, MetadataReplay, NotAppliedError
from kdump.compat.kafka_walk import KafkaWalk
from kdump.decode import usual
from kdump.decode.metadata import Frames, UnframedError
from kdump.decode.schema import ReadMode
from kdump.decode.table import newest, table, topics
from kdump.format.batch import layout
from kdump.format.java_values import ARGUMENT, RUNTIME
from kdump.format.kernels import wire
from kdump.format.kinds import FileKind
from kdump.format.record.reader import RecordReader
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import COORDINATED
from kdump.storage.raft_snapshots import raft_snapshots
from kdump.value import Value
from kdump.words.numbers import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.broker.releases import Rules
    from kdump.format.read_limits import ReadLimits
    from kdump.format.record.chunk import Chunk
    from kdump.format.source import Source
    from kdump.storage.partition_dir import PartitionDir

METADATA_VERSION = "metadata.version"
_PARSE = "org.apache.kafka.server.common.serialization.MetadataParseException"
_FEATURE = 12  # FeatureLevelRecord
_TOO_OLD = (
    "Unsupported metadata version - if you are currently upgrading your cluster, please ensure the metadata version is "
    "set to 3.3-IV3 (or higher) before updating the software version. The metadata version can be updated via the "
    "`kafka-features` command-line tool."
)
_HEAD = 3  # bytes of the frame of a record
_SHORT = 2  # bytes of a type, and of a version


class Refusal(Value):
    """The reason why a node of a release ends."""

    path: str  # of the log or snapshot with the record
    # position, size: of its batch
    position: int
    size: int
    offset: int  # of the record
    exception: str  # class and message as Java prints them
    what: str  # the same in a sentence
    is_of_release: bool = True  # another release may take it


class _Read(Value):
    """What a metadata log that was read has for a release."""

    refusal: Refusal | None
    level: int | None  # of metadata.version at its end; None where no record sets one, or not all of it was read


class _Reads(dict[tuple["Rules", "ReadLimits"], _Read]):
    """What was found of a directory, by what was asked."""


def refusal(directory: PartitionDir, rules: Rules, limits: ReadLimits) -> Refusal | None:
    """Return why a node of a release does not start with a metadata log; None where nothing here keeps it from that.

    The log is read once for all who ask.

    Args:
        directory: of the metadata log.
        rules: of the release.
        limits: of what is read; a batch over them is passed over.

    Raises:
        OSError: it cannot be read.
    """
    return _read(directory, rules, limits).refusal


def _read(directory: PartitionDir, rules: Rules, limits: ReadLimits) -> _Read:
    found = directory.learnt.setdefault(_Reads, _Reads())
    assert isinstance(found, _Reads)
    if (rules, limits) not in found:
        reader = _Reader(directory, rules, limits)
        refused = _refusal(reader)
        found[rules, limits] = _Read(refused, reader.level if reader.is_whole else None)
    return found[rules, limits]


def level_sentence(directory: PartitionDir, rules: Rules, limits: ReadLimits) -> str:
    """Return which releases can read a metadata log, by its metadata.version; empty where nothing tells.

    Args:
        directory, rules, limits: as `refusal` has them; the log is read once for both.

    Raises:
        OSError: it cannot be read.
    """
    level = _read(directory, rules, limits).level
    oldest = None if level is None else oldest_release(level)
    if level is None or oldest is None:
        return ""
    what = f"{METADATA_VERSION} is {level}{table_name(level)}"
    return f"{what}: Kafka {oldest} is the oldest release that reads it, a node of an older one ends when it loads it"


def _refusal(reader: _Reader) -> Refusal | None:
    later: Refusal | None = None
    replay, in_hand = MetadataReplay(), ""
    for path, offset, value, counts in reader.records():
        found = reader.unreadable(path, offset, value)
        if found is not None:
            return found
        if counts:
            reader.see_level(value)
        if later is None and counts and not reader.is_broken:
            if path != in_hand and in_hand.endswith(FileKind.CHECKPOINT.value):
                replay.apply()
            in_hand = path
            later = reader.unknown_level(path, offset, value) or reader.unapplied(path, offset, value, replay)
    reader.is_whole = not reader.is_broken
    return later


def not_for_coordinator(directory: PartitionDir, rules: Rules, limits: ReadLimits) -> list[str]:
    """Return what the coordinator of a release cannot take of its topic, a sentence each.

    Args:
        directory: of a partition.
        rules: of the release.
        limits: of what is read; a batch over them is passed over.

    Raises:
        OSError: it cannot be read.
    """
    name = directory.parsed
    decoder = None if name is None else topics().get(name.topic)
    if name is None or name.topic not in COORDINATED or decoder is None:
        return []
    known, newer = table(rules.release), table(newest()).records(decoder)
    names = known.records(decoder)
    if not names:
        return [f"Kafka {rules.release} has no coordinator of {name.topic}: what is in {directory.name} is not read"]
    highest = {number: known.schema(f"{one}Value").high for number, one in names.items()}
    unknown: dict[int, list[int]] = {}  # by type how many, and the offset of the first
    for offset, key, version in _Reader(directory, rules, limits).typed():
        if key not in names:
            unknown.setdefault(key, [0, offset])[0] += 1
        elif version > highest[key]:
            what = f"offset {offset}: version {version} of {names[key]}Value is not one of Kafka {rules.release}"
            return [f"{what}: its coordinator ends the load of {directory.name} there and does not serve it"]
    return [
        f"{counted(count, 'record')} of type {key}{f' ({newer[key]})' if key in newer else ''}, the first at offset "
        f"{first}: a coordinator of Kafka {rules.release} passes over them"
        for key, (count, first) in sorted(unknown.items())
    ]


class _Reader:
    """Reads a metadata log as one release does."""

    def __init__(self, directory: PartitionDir, rules: Rules, limits: ReadLimits) -> None:
        known = table(rules.release)
        self._directory = directory
        self._rules = rules
        self._records = RecordReader.within(limits)
        self._limits = limits
        self._usual = usual("metadata", rules.release)
        self._frames = Frames(known, "metadata")
        self.is_broken = False  # a batch before the one in hand cannot be read: what came of it is not known
        self.is_whole = False  # all was read, and nothing of it is broken
        self._place = 0, 0  # position and size of the batch in hand
        self._levels: dict[str, str] = known.feature("supported")
        low, high = known.feature("named").split("-")
        self._named = int(low), int(high)
        self.level: int | None = None  # of metadata.version, by the last record that sets it

    def records(self) -> Iterator[tuple[str, int, bytes, bool]]:
        """Yield path, offset and value of each record that a node reads, and whether it loads it too."""
        start = 0
        snapshots = raft_snapshots(self._directory.listing.files)
        if snapshots:
            newest = snapshots[-1]
            start = newest.offset
            is_first = (newest.offset, newest.epoch) == (0, 0)
            path = self._directory.listing.join(newest.name)
            for offset, value in self._values(path, 0):
                yield path, offset, value, not is_first or self._rules.loads_first_snapshot
        for base in self._directory.log_bases:
            following = self._directory.next_base(base)
            if following is None or following > start:
                path = self._directory.path_of(base, FileKind.LOG)
                for offset, value in self._values(path, start):
                    yield path, offset, value, True

    def typed(self) -> Iterator[tuple[int, int, int]]:
        """Yield offset, type and version of the value of each record of a coordinator, -1 where it has none."""
        for base in self._directory.log_bases:
            source = self._directory.cache.open(self._directory.path_of(base, FileKind.LOG), follow=False)
            if not isinstance(source, OpenFailure):
                yield from self._types_of(source)

    def _types_of(self, source: Source) -> Iterator[tuple[int, int, int]]:
        for chunk, r in self._rows(source):
            rows, view = chunk.rows, chunk.view
            at, version_at = rows[r + layout.R_KEY_AT], rows[r + layout.R_VALUE_AT]
            if rows[r + layout.R_KEY_SIZE] < _SHORT:
                continue
            version = wire.i16(view, version_at) if rows[r + layout.R_VALUE_SIZE] >= _SHORT else -1
            yield rows[r + layout.R_OFFSET], wire.i16(view, at), version

    def _values(self, path: str, start: int) -> Iterator[tuple[int, bytes]]:
        source = self._directory.cache.open(path, follow=False)
        if isinstance(source, OpenFailure):
            return
        yield from self._of_source(source, start)

    def _of_source(self, source: Source, start: int) -> Iterator[tuple[int, bytes]]:
        for chunk, r in self._rows(source):
            rows = chunk.rows
            size = rows[r + layout.R_VALUE_SIZE]
            if size >= 0 and rows[r + layout.R_OFFSET] >= start:
                k = rows[r + layout.R_BATCH]
                self._place = chunk.window.cell(k, layout.POSITION), chunk.window.cell(k, layout.SIZE)
                at = rows[r + layout.R_VALUE_AT]
                yield rows[r + layout.R_OFFSET], bytes(chunk.view[at : at + size])

    def _rows(self, source: Source) -> Iterator[tuple[Chunk, int]]:
        """Yield each record that is no marker, of batches with a right CRC: its chunk, and where its row begins."""
        width = layout.RECORD_WIDTH
        walk = KafkaWalk(source, source.name, 0, source.size, self._limits.max_batch_bytes)
        for window in walk.windows():
            for chunk in self._records.chunks(window):
                if chunk.cut is not None:
                    self.is_broken = True
                    continue
                for r in range(0, chunk.filled * width, width):
                    k = chunk.rows[r + layout.R_BATCH]
                    is_control = window.cell(k, layout.ATTRIBUTES) & layout.CONTROL_FLAG
                    is_true = window.cell(k, layout.CRC) == window.cell(k, layout.COMPUTED_CRC)
                    self.is_broken |= not is_true
                    if is_true and not is_control:
                        yield chunk, r

    def unreadable(self, path: str, offset: int, value: bytes) -> Refusal | None:
        """Return why the release cannot read a record."""
        if self._usual is not None and self._usual(None, value) is not None:
            return None
        try:
            self._frames.read(value)
        except UnframedError as problem:
            what = f"{problem}: no record that Kafka {self._rules.release} can read"
            said = f"{_PARSE}: {problem}", f"offset {offset}: {what}"
            return Refusal(path, *self._place, offset, *said, is_of_release=_is_newer(value))
        return None

    def unapplied(self, path: str, offset: int, value: bytes, replay: MetadataReplay) -> Refusal | None:
        """Return why a node cannot apply a record, which it can read.

        Args:
            path, offset, value: of the record.
            replay: of all before it; it takes the record too.
        """
        if len(value) < _HEAD or value[1] not in REPLAYED:
            return None
        record = self._frames.read(value)
        try:
            replay.take(record, of_snapshot=path.endswith(FileKind.CHECKPOINT.value))
        except NotAppliedError as problem:
            _, _, why = str(problem).partition(": ")
            what = f"offset {offset}: {record.name} cannot be applied: {why}"
            return Refusal(path, *self._place, offset, str(problem), what, is_of_release=False)
        return None

    def see_level(self, value: bytes) -> None:
        """Note the level of metadata.version that a record sets."""
        if len(value) >= _HEAD and value[1] == _FEATURE:
            data = self._frames.read(value).data
            self.level = data["featureLevel"] if data["name"] == METADATA_VERSION else self.level

    def unknown_level(self, path: str, offset: int, value: bytes) -> Refusal | None:
        """Return why the release does not take a record, which it can read, where it sets a level that it has not."""
        if len(value) < _HEAD or value[1] != _FEATURE:
            return None
        data = self._frames.read(value).data
        name, level = data["name"], data["featureLevel"]
        low, high = map(int, self._levels.get(name, "0-0").split("-"))
        if low <= level <= high:
            return None
        said = table_name(level) if name == METADATA_VERSION else ""
        what = f"{name} {level}{said} is not one of Kafka {self._rules.release}, which has {low} to {high}"
        if name == METADATA_VERSION and not self._named[0] <= level <= self._named[1]:
            java = _TOO_OLD if self._rules.explains_old_levels else f"No MetadataVersion with feature level {level}"
            return Refusal(path, *self._place, offset, f"{ARGUMENT}: {java}", what)
        shown = f"FeatureLevelRecord(name='{name}', featureLevel={level})"
        why = f"Tried to apply FeatureLevelRecord {shown}, but this controller only supports versions {low}-{high}"
        return Refusal(path, *self._place, offset, f"{RUNTIME}: {why}", what)


def _is_newer(value: bytes) -> bool:
    """Tell whether a record may be one of a newer release: all that is known of it can be read."""
    try:
        Frames(table(newest(), ReadMode.OPEN), "metadata").read(value)
    except UnframedError:
        return False
    return True


def oldest_release(level: int) -> str | None:
    """Return the oldest release that knows a level of metadata.version: that of its name; None where nobody knows."""
    name: str | None = table(newest()).feature(METADATA_VERSION).get(str(level))
    return None if name is None else name.partition("-")[0]


def table_name(level: int) -> str:
    """Return the name of a level of metadata.version in brackets; empty where nobody knows it."""
    name = table(newest()).feature(METADATA_VERSION).get(str(level))
    return "" if name is None else f" ({name})"
