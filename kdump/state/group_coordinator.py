"""Groups and their commits as the coordinator has them after loading a partition of `__consumer_offsets`.

Strategy: of each key only the newest value is kept, as it lies on disk, a large one packed; it is decoded when rows are
asked for. The kernel takes what most records are, new values of known keys outside of transactions; everything else
comes here, a record at a time, in the order of the log.

Source: GroupCoordinatorShard.replay, OffsetMetadataManager.replay, GroupMetadataManager.replay, CoordinatorLoaderImpl.
"""

from __future__ import annotations

import struct
from array import array
from binascii import a2b_base64
from typing import TYPE_CHECKING

from kdump.format.batch import layout
from kdump.rows.coordinators import CommitRow, GroupRow, Removal
from kdump.state import _fold
from kdump.state.messages import Message, Unreadable, fields_of, kind_of, pack, read_key, read_value
from kdump.state.spill import Spill
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.format.record.chunk import Chunk
    from kdump.state.spill import Change

_COMMITS = (0, 1)
_CLASSIC, _CONSUMER, _SHARE, _STREAMS = "Classic", "Consumer", "Share", "Streams"
_CLASSIC_METADATA = 2
_FIRST_EPOCH = 1  # of a group, and of its target assignment, before any is stored
_NO_EPOCH = -1  # of a target assignment that was deleted, of a member that has left
_ABORT, _COMMIT = b"\0\0", b"\0\1"

# By type of the record: the message, and what part of which group it is.
_RECORDS = {
    2: ("GroupMetadata", _CLASSIC, "metadata"),
    3: ("ConsumerGroupMetadata", _CONSUMER, "metadata"),
    4: ("ConsumerGroupPartitionMetadata", _CONSUMER, "touch"),
    5: ("ConsumerGroupMemberMetadata", _CONSUMER, "member"),
    6: ("ConsumerGroupTargetAssignmentMetadata", _CONSUMER, "assignment"),
    7: ("ConsumerGroupTargetAssignmentMember", _CONSUMER, "touch"),
    8: ("ConsumerGroupCurrentMemberAssignment", _CONSUMER, "current"),
    10: ("ShareGroupMemberMetadata", _SHARE, "member"),
    11: ("ShareGroupMetadata", _SHARE, "metadata"),
    12: ("ShareGroupTargetAssignmentMetadata", _SHARE, "assignment"),
    13: ("ShareGroupTargetAssignmentMember", _SHARE, "touch"),
    14: ("ShareGroupCurrentMemberAssignment", _SHARE, "current"),
    15: ("ShareGroupStatePartitionMetadata", _SHARE, "topics"),
    16: ("ConsumerGroupRegularExpression", _CONSUMER, "touch"),
    17: ("StreamsGroupMetadata", _STREAMS, "metadata"),
    19: ("StreamsGroupMemberMetadata", _STREAMS, "member"),
    20: ("StreamsGroupTargetAssignmentMetadata", _STREAMS, "assignment"),
    21: ("StreamsGroupTargetAssignmentMember", _STREAMS, "touch"),
    22: ("StreamsGroupCurrentMemberAssignment", _STREAMS, "current"),
    23: ("StreamsGroupTopology", _STREAMS, "topology"),
}
_METADATA = {group_type: name for name, group_type, part in _RECORDS.values() if part == "metadata"}
_ASSIGNMENT = {group_type: name for name, group_type, part in _RECORDS.values() if part == "assignment"}
_CURRENT = {group_type: name for name, group_type, part in _RECORDS.values() if part == "current"}
_STABLE_MEMBER = {_CONSUMER: 0, _STREAMS: 1}


class CommitPlace(TupleValue):
    """A record: the log, position and size of its batch, its offset and its timestamp (ms)."""

    path: str
    position: int
    size: int
    offset: int
    timestamp: int


class _Pending(TupleValue):
    """A commit in a transaction that is not ended: offset and timestamp of the record, and its value."""

    offset: int
    timestamp: int
    value: bytes


class _Removed(TupleValue):
    """A commit that was removed: its offset, timestamp and producer, its value, and the tombstone."""

    columns: tuple[int, ...]
    value: bytes
    by: CommitPlace


class _Group:
    """A group: its newest values as they lie on disk.

    Args:
        name: its group id.
        group_type: Classic, Consumer, Share or Streams.

    Attributes:
        parts: metadata, assignment, topology: values by name, empty for one that was deleted.
        members: by id the value with the current assignment; None for none, empty for one that was taken back.
        subscriptions: by id the topics that a member names, None for a pattern; of consumer groups.
        offset, timestamp: of the newest record about it.
    """

    __slots__ = ("group_type", "members", "name", "offset", "parts", "subscriptions", "timestamp")

    def __init__(self, name: str, group_type: str) -> None:
        self.name = name
        self.group_type = group_type
        self.parts: dict[str, bytes] = {}
        self.members: dict[str, bytes | None] = {}
        self.subscriptions: dict[str, tuple[str, ...] | None] = {}
        self.offset = self.timestamp = -1


class GroupCoordinator:
    """Loads one partition.

    Args:
        doubt: takes a record that cannot be read, and why: see `Doubt`.
        partition: TOPIC-N.
        keep_gone: remember where what is deleted was deleted.
        keep_removed: tells of which groups the last values of removed commits are kept.

    Attributes:
        gone: offset and timestamp of what deleted a group or a commit, by its identity.
    """

    def __init__(
        self,
        doubt: Callable[..., None],
        partition: str,
        *,
        keep_gone: bool = False,
        keep_removed: Callable[[str], bool] = lambda _group: False,
    ) -> None:
        self._doubt = doubt
        self._keep_removed = keep_removed
        self._removed: dict[tuple[str, str, int], _Removed] = {}
        self._partition = partition
        self._keep_gone = keep_gone
        self.topics: dict[str, str] = {}  # name of each topic that a share group has, by id
        self.gone: dict[tuple[str, ...], tuple[int, int]] = {}
        self._groups: dict[str, _Group] = {}
        self._numbers: dict[bytes, int] = {}  # of a commit by its key; ~number where its group must be made first
        self._identities: list[tuple[str, str, int] | None] = []  # group, topic and partition by number
        self._keys: list[list[bytes]] = []
        self._columns = array("q")
        self._values: list[bytes | None] = []
        self._free: list[int] = []
        self._known: dict[tuple[str, str, int], int] = {}
        self._of_group: dict[str, set[int]] = {}
        self._pending: dict[int, dict[int, _Pending]] = {}
        self._spill = Spill()

    @property
    def is_large(self) -> bool:
        """Whether the values that count do not fit into memory: neither do all of their rows."""
        return self._spill.is_used

    # --- the log ----------------------------------------------------------------------------------------------
    def add(self, path: str, chunk: Chunk) -> None:
        """Take records into account.

        Args:
            path: of the log.
            chunk: batches with the right CRC.

        Raises:
            SpillError: the values do not fit into memory, nor into a temporary file.
        """
        self._add(path, chunk)
        self._spill.took(len(chunk.view), self._held, self._change)

    def _held(self) -> Iterator[bytes]:
        """All values that are held."""
        yield from (one for one in self._values if one is not None)
        for group in self._groups.values():
            yield from group.parts.values()
            yield from (one for one in group.members.values() if one is not None)
        for of_producer in self._pending.values():
            yield from (one.value for one in of_producer.values())
        yield from (one.value for one in self._removed.values())

    def _change(self, change: Change) -> None:
        """Put what a function makes of each value that is held in its place."""
        self._values[:] = [None if one is None else change(one) for one in self._values]
        for group in self._groups.values():
            group.parts = {name: change(one) for name, one in group.parts.items()}
            group.members = {name: None if one is None else change(one) for name, one in group.members.items()}
        for of_producer in self._pending.values():
            for number, one in of_producer.items():
                of_producer[number] = one._replace(value=change(one.value))
        for identity, gone in self._removed.items():
            self._removed[identity] = gone._replace(value=change(gone.value))

    def _add(self, path: str, chunk: Chunk) -> None:
        batches, rows, filled, width = chunk.window.rows, chunk.rows, chunk.filled, layout.RECORD_WIDTH
        r, read = 0, fields_of(chunk)
        while True:
            if chunk.cut is None:
                r = _fold.upsert(
                    chunk.view,
                    batches,
                    rows,
                    first=r,
                    filled=filled,
                    keys=self._numbers,
                    columns=self._columns,
                    values=self._values,
                )
            if r >= filled:
                return
            row = rows[r * width : (r + 1) * width]
            at = row[layout.R_BATCH] * layout.BATCH_WIDTH
            place = CommitPlace(
                path,
                batches[at + layout.POSITION],
                batches[at + layout.SIZE],
                row[layout.R_OFFSET],
                row[layout.R_TIMESTAMP],
            )
            key, value = read(chunk.view, row)
            producer = batches[at + layout.PRODUCER_ID]
            if batches[at + layout.MAGIC] >= layout.MAGIC_V2 and batches[at + layout.ATTRIBUTES] & layout.CONTROL_FLAG:
                self._marker(producer, place, (key or b"")[2:4])
            else:
                self._record(producer, place, key, value)
            r += 1

    def _record(self, producer: int, place: CommitPlace, key: bytes | None, value: bytes | None) -> None:
        if key is None:
            self._doubt(place, "it has no key")
            return
        kind = kind_of(key)
        if kind is None:
            self._doubt(place, f"the key has {len(key)} bytes: no type of a record")
        elif kind in _COMMITS:
            self._commit(producer, place, key, value)
        elif kind in _RECORDS:
            name, group_type, part = _RECORDS[kind]
            read = read_key(f"{name}Key", key)
            if isinstance(read, Unreadable):
                self._doubt(place, read.why)
            elif kind == _CLASSIC_METADATA:
                self._classic(read["group"], place, value)
            else:
                self._modern(group_type, part, read, place, value)

    # --- commits ----------------------------------------------------------------------------------------------
    def _commit(self, producer: int, place: CommitPlace, key: bytes, value: bytes | None) -> None:
        number = self._number(key, place)
        if number is None:
            return
        identity = self._identities[number]
        assert identity is not None
        if value is None:
            for of_producer in self._pending.values():
                of_producer.pop(number, None)
            last = self._values[number]
            if last is not None and self._keep_removed(identity[0]):
                at = number * _fold.VALUE_WIDTH
                self._removed[identity] = _Removed(tuple(self._columns[at : at + _fold.VALUE_WIDTH]), last, place)
            self._values[number] = None
            if self._keep_gone:
                self.gone["commit", identity[0], f"{identity[1]}-{identity[2]}"] = place.offset, place.timestamp
            self._drop(number)
            return
        group = self._groups.get(identity[0])
        if group is None:
            group = self._groups[identity[0]] = _Group(identity[0], _CLASSIC)
            group.offset, group.timestamp = place.offset, place.timestamp
            self._admit(identity[0])
        if producer < 0:
            self._set(number, place.offset, place.timestamp, producer, value)
        else:
            self._pending.setdefault(producer, {})[number] = _Pending(place.offset, place.timestamp, pack(value))

    def _number(self, key: bytes, place: CommitPlace) -> int | None:
        """The number of a commit by its key; None for a key that cannot be read."""
        number = self._numbers.get(key)
        if number is not None:
            return number if number >= 0 else ~number
        read = read_key("OffsetCommitKey", key)
        if isinstance(read, Unreadable):
            self._doubt(place, read.why)
            return None
        identity = read["group"], read["topic"], read["partition"]
        number = self._known.get(identity)
        if number is None:
            if self._free:
                number = self._free.pop()
                self._identities[number], self._keys[number] = identity, []
            else:
                number = len(self._values)
                self._identities.append(identity)
                self._keys.append([])
                self._values.append(None)
                self._columns.extend([-1] * _fold.VALUE_WIDTH)
            self._known[identity] = number
            self._of_group.setdefault(identity[0], set()).add(number)
        self._keys[number].append(key)
        self._numbers[key] = number if identity[0] in self._groups else ~number
        return number

    def _set(self, number: int, offset: int, timestamp: int, producer: int, value: bytes) -> None:
        self._values[number] = pack(value)
        at = number * _fold.VALUE_WIDTH
        self._columns[at + _fold.V_OFFSET] = offset
        self._columns[at + _fold.V_TIMESTAMP] = timestamp
        self._columns[at + _fold.V_PRODUCER] = producer

    def _drop(self, number: int) -> None:
        """Forget a commit without a value, unless one is pending."""
        if self._values[number] is not None or any(number in one for one in self._pending.values()):
            return
        identity = self._identities[number]
        assert identity is not None
        for key in self._keys[number]:
            del self._numbers[key]
        del self._known[identity]
        self._of_group[identity[0]].discard(number)
        if not self._of_group[identity[0]]:
            del self._of_group[identity[0]]
        self._identities[number], self._keys[number] = None, []
        self._free.append(number)

    def _marker(self, producer: int, place: CommitPlace, kind: bytes) -> None:
        if kind not in (_ABORT, _COMMIT):
            return
        for number, pending in self._pending.pop(producer, {}).items():
            at = number * _fold.VALUE_WIDTH + _fold.V_OFFSET
            if kind == _ABORT:
                self._gone_pending(number, place)
                self._drop(number)
            elif self._values[number] is None or pending.offset > self._columns[at]:
                self._set(number, pending.offset, pending.timestamp, producer, pending.value)

    def _gone_pending(self, number: int, place: CommitPlace) -> None:
        identity = self._identities[number]
        if self._keep_gone and identity is not None:
            self.gone["pending", identity[0], f"{identity[1]}-{identity[2]}"] = place.offset, place.timestamp

    # --- groups -----------------------------------------------------------------------------------------------
    def _admit(self, name: str) -> None:
        """A group is there: its commits need not be looked at."""
        for number in self._of_group.get(name, ()):
            for key in self._keys[number]:
                self._numbers[key] = number

    def _remove(self, name: str, place: CommitPlace) -> None:
        if self._keep_gone:
            self.gone["group", name] = place.offset, place.timestamp
        if self._groups.pop(name, None) is None:
            return
        for number in self._of_group.get(name, ()):  # the next commit makes a group again
            for key in self._keys[number]:
                self._numbers[key] = ~number

    def _put(self, name: str, group: _Group) -> _Group:
        self._groups[name] = group
        self._admit(name)
        return group

    def _classic(self, name: str, place: CommitPlace, value: bytes | None) -> None:
        if value is None:
            self._remove(name, place)
            return
        group = self._put(name, _Group(name, _CLASSIC))
        group.parts["metadata"] = pack(value)
        group.offset, group.timestamp = place.offset, place.timestamp

    def _modern(self, group_type: str, part: str, key: Message, place: CommitPlace, value: bytes | None) -> None:
        name = key["groupId"]
        if part == "topics" and value is not None:
            self._learn(value)
        group = self._modern_group(name, group_type, place, is_tombstone=value is None)
        if group is None:
            return
        group.offset, group.timestamp = place.offset, place.timestamp
        if part == "metadata" and value is None:
            self._remove(name, place)
        elif part in ("metadata", "assignment", "topology"):
            group.parts[part] = pack(value or b"")
        elif part in ("member", "current"):
            _member(group.members, key["memberId"], part, value)
            if part == "member" and group_type == _CONSUMER:
                self._subscribe(group, key["memberId"], value)

    def _subscribe(self, group: _Group, member: str, value: bytes | None) -> None:
        """Take what a member subscribes to."""
        if value is None:
            group.subscriptions.pop(member, None)
            return
        read = read_value("ConsumerGroupMemberMetadataValue", value)
        is_told = not isinstance(read, Unreadable) and not read.get("subscribedTopicRegex")
        names = tuple(read.get("subscribedTopicNames") or ()) if not isinstance(read, Unreadable) else ()
        group.subscriptions[member] = names if is_told else None

    def subscribes(self, name: str, topic: str) -> bool:
        """Tell whether a group with members subscribes to a topic, as far as its records tell; else True.

        Source: ClassicGroup.computeSubscribedTopics, ConsumerGroup.isSubscribedToTopic.
        """
        group = self._groups.get(name)
        if group is None or group.group_type not in (_CLASSIC, _CONSUMER):
            return True
        if group.group_type == _CONSUMER:
            told = group.subscriptions.values()
            return not told or any(names is None or topic in names for names in told)
        value = group.parts.get("metadata")
        read = read_value("GroupMetadataValue", self._spill.get(value)) if value else {}
        if isinstance(read, Unreadable) or read.get("protocolType") != "consumer" or not read.get("protocol"):
            return True
        topics = [_subscription(one["subscription"]) for one in read.get("members") or ()]
        return not topics or any(names is None or topic in names for names in topics)

    def _modern_group(self, name: str, group_type: str, place: CommitPlace, *, is_tombstone: bool) -> _Group | None:
        """The group that a record is about, made where there is none; None where it does not matter.

        Source: GroupMetadataManager.getOrMaybeCreatePersistedConsumerGroup and its like.
        """
        group = self._groups.get(name)
        if group is None:
            return None if is_tombstone else self._put(name, _Group(name, group_type))
        if group.group_type == group_type:
            return group
        if not self._is_simple(group) or group_type == _SHARE:
            if is_tombstone:
                return None
            why = f"group {name} is a {group.group_type} group: a coordinator does not load this"
            self._doubt(place, why, group=name, is_state=True)
        return self._put(name, _Group(name, group_type))

    def _is_simple(self, group: _Group) -> bool:
        """Whether only commits made a group."""
        if group.group_type != _CLASSIC:
            return False
        value = group.parts.get("metadata")
        read = {} if value is None else read_value("GroupMetadataValue", self._spill.get(value))
        return not isinstance(read, Unreadable) and not read.get("protocolType") and not read.get("members")

    def _learn(self, value: bytes) -> None:
        """Remember the names of topics."""
        read = read_value("ShareGroupStatePartitionMetadataValue", value)
        if not isinstance(read, Unreadable):
            for field in ("initializingTopics", "initializedTopics", "deletingTopics"):
                for topic in read.get(field) or ():
                    self.topics[topic["topicId"]] = topic["topicName"]

    # --- rows -------------------------------------------------------------------------------------------------
    def groups(self) -> Iterator[tuple[GroupRow, int]]:
        """Yield the groups by name, each with the offset of its newest record."""
        for name in sorted(self._groups):
            group = self._groups[name]
            make = self._classic_row if group.group_type == _CLASSIC else self._modern_row
            yield make(name, group), group.offset

    def group_type(self, name: str) -> str:
        """Return the type of a group, Classic for one that is not there."""
        group = self._groups.get(name)
        return _CLASSIC if group is None else group.group_type

    def _read(self, group: _Group, message: str, value: bytes | None) -> Message:
        """A value of a group; nothing, and somebody is told, where it cannot be read."""
        if not value:
            return {}
        read = read_value(message, self._spill.get(value))
        if isinstance(read, Unreadable):
            self._doubt(CommitPlace("", -1, 0, group.offset, group.timestamp), read.why, group=group.name)
            return {}
        return read

    def _classic_row(self, name: str, group: _Group) -> GroupRow:
        read = self._read(group, "GroupMetadataValue", group.parts.get("metadata"))
        members = len(read.get("members") or ())
        epoch, protocol = read.get("generation", 0), read.get("protocolType") or ""
        state = "Stable" if members else "Empty"
        return GroupRow(
            name,
            _CLASSIC,
            state,
            epoch=epoch,
            protocol=protocol,
            members=members,
            timestamp=group.timestamp,
            partition=self._partition,
        )

    def _modern_row(self, name: str, group: _Group) -> GroupRow:
        kind = group.group_type
        metadata = self._read(group, f"{_METADATA[kind]}Value", group.parts.get("metadata"))
        epoch = metadata.get("epoch", _FIRST_EPOCH)
        members = len(group.members)
        state = self._state(group, epoch, metadata)
        return GroupRow(
            name,
            kind,
            state,
            epoch=epoch,
            protocol=kind.lower(),
            members=members,
            timestamp=group.timestamp,
            partition=self._partition,
        )

    def _state(self, group: _Group, epoch: int, metadata: Message) -> str:
        """Source: ConsumerGroup, ShareGroup and StreamsGroup.maybeUpdateGroupState."""
        kind = group.group_type
        if not group.members:
            return "Empty"
        if kind == _SHARE:
            return "Stable"
        if kind == _STREAMS:
            topology = self._read(group, "StreamsGroupTopologyValue", group.parts.get("topology"))
            if not topology or topology["epoch"] != metadata.get("validatedTopologyEpoch", _NO_EPOCH):
                return "NotReady"
        stored = group.parts.get("assignment")
        assignment = self._read(group, f"{_ASSIGNMENT[kind]}Value", stored)
        target = assignment.get("assignmentEpoch", _FIRST_EPOCH if stored is None else _NO_EPOCH)
        if epoch > target:
            return "Assigning"
        name, stable = f"{_CURRENT[kind]}Value", _STABLE_MEMBER[kind]
        for value in group.members.values():
            current = self._read(group, name, value)
            at = current.get("memberEpoch", 0 if value is None else _NO_EPOCH)
            if current.get("state", stable) != stable or at != target:
                return "Reconciling"
        return "Stable"

    def commits(self, *, exact: bool) -> Iterator[tuple[CommitRow, int, int]]:
        """Yield the commits by group, topic and partition, each with offset and timestamp of its record.

        Pending ones follow the committed one, by producer.

        Args:
            exact: no newer values can have been erased or lost.
        """
        pending: dict[int, list[tuple[int, _Pending]]] = {}
        for producer, of_producer in self._pending.items():
            for number, one in of_producer.items():
                pending.setdefault(number, []).append((producer, one))
        for identity in sorted(self._known):
            number = self._known[identity]
            value, at = self._values[number], number * _fold.VALUE_WIDTH
            if value is not None:
                offset, timestamp, producer = self._columns[at : at + _fold.VALUE_WIDTH]
                yield from self._commit_row(identity, offset, timestamp, producer, value, exact=exact, is_pending=False)
            for producer, one in sorted(pending.get(number, ())):
                yield from self._commit_row(identity, *one[:2], producer, one.value, exact=exact, is_pending=True)

    def removed(self, *, exact: bool) -> Iterator[CommitRow]:
        """Yield the last values of removed commits of the groups that they are kept of, by group, topic and partition.

        Args:
            exact: no newer values can have been erased or lost.
        """
        for identity, gone in sorted(self._removed.items()):
            offset, timestamp, producer = gone.columns
            for row, _, _ in self._commit_row(
                identity, offset, timestamp, producer, gone.value, exact=exact, is_pending=False
            ):
                yield row.replace(removed=Removal(gone.by.offset, gone.by.timestamp))

    def _commit_row(
        self,
        identity: tuple[str, str, int],
        offset: int,
        timestamp: int,
        producer: int,
        value: bytes,
        *,
        exact: bool,
        is_pending: bool,
    ) -> Iterator[tuple[CommitRow, int, int]]:
        read = read_value("OffsetCommitValue", self._spill.get(value))
        if isinstance(read, Unreadable):
            why, group = f"commit of {identity[0]}: {read.why}", identity[0]
            self._doubt(CommitPlace("", -1, 0, offset, timestamp), why, group=group)
            return
        row = CommitRow(
            *identity,
            offset=read["offset"],
            leader_epoch=_or_none(read.get("leaderEpoch")),
            metadata=read["metadata"],
            commit_timestamp=read["commitTimestamp"],
            expire_timestamp=_or_none(read.get("expireTimestamp")),
            pending=is_pending,
            producer_id=_or_none(producer),
            log_end_offset=None,
            place=None,
            cut_from=None,
            removed=None,
            exact=exact,
            group_type=self.group_type(identity[0]),
        )
        yield row, offset, timestamp


def _member(members: dict[str, bytes | None], member: str, part: str, value: bytes | None) -> None:
    """Take a record about a member into account."""
    if part == "current":
        if value is not None or member in members:
            members[member] = pack(value or b"")
    elif value is None:
        members.pop(member, None)
    else:
        members.setdefault(member, None)


def _subscription(encoded: str | None) -> tuple[str, ...] | None:
    """The topics that a member of a classic group names; None where nobody can tell. Source: ConsumerProtocol."""
    try:
        data = a2b_base64(encoded or "")
        (count,), at, names = struct.unpack_from(">i", data, 2), 6, []
        for _ in range(max(count, 0)):
            (size,) = struct.unpack_from(">h", data, at)
            names.append(data[at + 2 : at + 2 + size].decode())
            at += 2 + size
    except (struct.error, ValueError):  # of Base64 and of UTF-8 too
        return None
    return tuple(names) if at <= len(data) else None


def _or_none(number: int | None) -> int | None:
    """A number that may be missing: Kafka writes -1 then."""
    return None if number is None or number < 0 else number
