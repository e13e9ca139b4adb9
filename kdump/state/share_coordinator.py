"""Start offsets of share groups as the coordinator has them after loading a partition of `__share_group_state`.

Source: ShareCoordinatorShard.replay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.batch import layout
from kdump.rows.coordinators import CommitRow
from kdump.state.group_coordinator import CommitPlace
from kdump.state.messages import Unreadable, fields_of, kind_of, read_key, read_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kdump.format.record.chunk import Chunk

_RECORDS = {0: "ShareSnapshot", 1: "ShareUpdate"}
_SNAPSHOT = 0
_UNCHANGED = -1  # in an update: as it was

_Key = tuple[str, str, int]  # group, topic id, partition


class _Start:
    """A start offset, and the record that is its newest."""

    __slots__ = ("leader_epoch", "offset", "start_offset", "timestamp", "write_timestamp")

    def __init__(self) -> None:
        self.start_offset = self.leader_epoch = self.write_timestamp = self.offset = self.timestamp = -1


class ShareCoordinator:
    """Loads one partition.

    Args:
        doubt: takes a record that cannot be read, and why.
        keep_gone: remember where what is deleted was deleted.

    Attributes:
        gone: offset and timestamp of what deleted a start offset, by group and topic id with partition.
    """

    def __init__(self, doubt: Callable[[CommitPlace, str], None], *, keep_gone: bool = False) -> None:
        self._doubt = doubt
        self._keep_gone = keep_gone
        self.gone: dict[_Key, tuple[int, int]] = {}
        self._starts: dict[_Key, _Start] = {}

    def add(self, path: str, chunk: Chunk) -> None:
        """Take records into account.

        Args:
            path: of the log.
            chunk: batches with the right CRC.
        """
        batches, width, read = chunk.window.rows, layout.RECORD_WIDTH, fields_of(chunk)
        for r in range(chunk.filled):
            row = chunk.rows[r * width : (r + 1) * width]
            at = row[layout.R_BATCH] * layout.BATCH_WIDTH
            if batches[at + layout.MAGIC] >= layout.MAGIC_V2 and batches[at + layout.ATTRIBUTES] & layout.CONTROL_FLAG:
                continue
            where = batches[at + layout.POSITION], batches[at + layout.SIZE]
            place = CommitPlace(path, *where, row[layout.R_OFFSET], row[layout.R_TIMESTAMP])
            self._record(place, *read(chunk.view, row))

    def _record(self, place: CommitPlace, key: bytes | None, value: bytes | None) -> None:
        kind = None if key is None else kind_of(key)
        if key is None or kind is None:
            self._doubt(place, "the key says no type of a record")
            return
        if kind not in _RECORDS:
            return
        name = _RECORDS[kind]
        read = read_key(f"{name}Key", key)
        if isinstance(read, Unreadable):
            self._doubt(place, read.why)
            return
        identity = read["groupId"], read["topicId"], read["partition"]
        if value is None:
            if kind == _SNAPSHOT:
                self._starts.pop(identity, None)
                if self._keep_gone:
                    self.gone[identity] = place.offset, place.timestamp
            return
        message = read_value(f"{name}Value", value)
        if isinstance(message, Unreadable):
            self._doubt(place, message.why)
            return
        start = self._starts.get(identity)
        if start is None or kind == _SNAPSHOT:
            start = self._starts[identity] = _Start()
            start.start_offset = message["startOffset"]
        elif message["startOffset"] != _UNCHANGED:
            start.start_offset = message["startOffset"]
        if message["leaderEpoch"] != _UNCHANGED or kind == _SNAPSHOT:
            start.leader_epoch = message["leaderEpoch"]
        if kind == _SNAPSHOT:
            start.write_timestamp = message["writeTimestamp"]
        start.offset, start.timestamp = place.offset, place.timestamp

    def commits(self, topics: Mapping[str, str], *, exact: bool) -> Iterator[tuple[CommitRow, int, int]]:
        """Yield the start offsets by group, topic and partition, each with offset and timestamp of its record.

        Args:
            topics: names by id; a topic of which nobody knows the name has its id instead.
            exact: no newer values can have been erased or lost.
        """
        named = sorted(((group, topics.get(topic, topic), number), topic) for group, topic, number in self._starts)
        for identity, topic in named:
            start = self._starts[identity[0], topic, identity[2]]
            if start.start_offset < 0:  # nothing is read yet
                continue
            epoch = start.leader_epoch if start.leader_epoch >= 0 else None
            written = start.write_timestamp if start.write_timestamp >= 0 else None
            row = CommitRow(
                group=identity[0],
                topic=identity[1],
                partition=identity[2],
                offset=start.start_offset,
                leader_epoch=epoch,
                metadata="",
                commit_timestamp=written,
                expire_timestamp=None,
                pending=False,
                producer_id=None,
                log_end_offset=None,
                place=None,
                cut_from=None,
                removed=None,
                exact=exact,
                group_type="Share",
            )
            yield row, start.offset, start.timestamp
