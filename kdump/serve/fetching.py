"""Fetch: ranges of files, sessions, and how long an answer waits.

Source: KafkaApis.handleFetchRequest, FetchSession, ReplicaManager.readFromLog of Kafka 4.3.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from random import randrange
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from kdump.format.batch import layout
from kdump.value import TupleValue

if TYPE_CHECKING:
    from kdump.serve.catalogue import Catalogue
    from kdump.serve.protocol import Fields
    from kdump.serve.readable import ReadablePartition

    Wanted = OrderedDict["AskedPartition", Fields]

_BY_ID = 13  # from this version on topics have ids here, and no names
_MOST_SESSIONS = 1000  # as a broker's max.incremental.fetch.session.cache.slots
_MOST_PLACES = 100_000  # partitions in all sessions
_MOST_BYTES = 64 * 1024 * 1024  # of one answer
_LONGEST_WAIT = 30.0  # seconds
_FINAL = -1  # the epoch of a request without a session
_FIRST = 0  # the epoch of one that asks for a new session
PATIENCE = 20.0  # seconds for which a client waits until a partition is read; then it asks again
COMMITTED = 1
NOT_READ_YET = ErrorCode.not_leader_or_follower
"""What a client is told that asks again then; Java's takes no other error of that kind in every answer."""


class AskedPartition(TupleValue):
    """A partition as a request names it: the topic's id, or its name, and the number."""

    topic: object
    partition: int


class _Session:
    """What a client reads, so that it need not say it again."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.epoch = 1
        self.told: dict[AskedPartition, tuple[int, int, int]] = {}  # high watermark, last stable and start offset


class Fetching:
    """ApiAnswers to Fetch.

    Args:
        catalogue: of partitions.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._sessions: OrderedDict[int, _Session] = OrderedDict()

    async def answer(self, version: int, request: Fields) -> Fields:
        """Return the fields of a response.

        Args:
            version: of the request.
            request: its fields.
        """
        session, error = self._session(request)
        if error is not None:
            return {"error_code": error, "responses": []}
        wanted = session.wanted if session is not None else _wanted(request)
        found = await self._read_all(wanted, request)
        has_news = any(one["records"] or one["error_code"] for one in found.values())
        if not has_news and request["min_bytes"] > 0:
            await asyncio.sleep(min(max(request["max_wait"], 0) / 1000, _LONGEST_WAIT))
        number = 0
        if session is not None:
            number = next((number for number, one in self._sessions.items() if one is session), 0)
            if not number:  # others have taken its place meanwhile
                return {"error_code": ErrorCode.fetch_session_id_not_found, "responses": []}
            found = self._news(session, found, is_first=request.get("session_epoch") == _FIRST)
        name = "topic_id" if version >= _BY_ID else "topic"
        topics: dict[object, list[Fields]] = {}
        for place, fields in found.items():
            topics.setdefault(place.topic, []).append(fields)
        responses = [{name: topic, "partitions": partitions} for topic, partitions in topics.items()]
        return {"session_id": number, "responses": responses}

    # --- sessions -------------------------------------------------------------------------------------------------
    def _session(self, request: Fields) -> tuple[_Session | None, ErrorCode | None]:
        """The session of a request, or what is wrong with that. Source: FetchManager.newContext."""
        number, epoch = request.get("session_id", 0), request.get("session_epoch", _FINAL)
        if epoch in (_FINAL, _FIRST):
            self._sessions.pop(number, None)
            if epoch == _FINAL:
                return None, None
            return self._new_session(_wanted(request)), None
        session = self._sessions.get(number)
        if session is None:
            return None, ErrorCode.fetch_session_id_not_found
        if epoch != session.epoch:
            return None, ErrorCode.invalid_fetch_session_epoch
        session.epoch = epoch % layout.MAX_INT + 1
        self._sessions.move_to_end(number)
        for topic in request.get("forgotten_topics_data") or ():
            for partition in topic["partitions"] or ():
                place = AskedPartition(_topic_of(topic), partition)
                session.wanted.pop(place, None)
                session.told.pop(place, None)
        session.wanted.update(_wanted(request))
        if sum(len(one.wanted) for one in self._sessions.values()) > _MOST_PLACES:
            del self._sessions[number]
            return None, ErrorCode.fetch_session_id_not_found
        return session, None

    def _new_session(self, wanted: Wanted) -> _Session | None:
        """Return one; None where there is no room: then a client says each time what it reads."""
        held = sum(len(one.wanted) for one in self._sessions.values())
        while self._sessions and (len(self._sessions) >= _MOST_SESSIONS or held + len(wanted) > _MOST_PLACES):
            held -= len(self._sessions.popitem(last=False)[1].wanted)
        if not wanted or len(wanted) > _MOST_PLACES:
            return None
        number = randrange(1, layout.MAX_INT)
        while number in self._sessions:
            number = randrange(1, layout.MAX_INT)
        self._sessions[number] = session = _Session(wanted)
        return session

    def _news(
        self, session: _Session, found: dict[AskedPartition, Fields], *, is_first: bool
    ) -> dict[AskedPartition, Fields]:
        """What a client does not know yet; what it got goes to the end, so that no partition starves."""
        news = {}
        for place, fields in found.items():
            state = fields["high_watermark"], fields["last_stable_offset"], fields["log_start_offset"]
            has_records = bool(fields["records"])
            if is_first or has_records or fields["error_code"] or session.told.get(place) != state:
                news[place] = fields
            session.told[place] = state
            if has_records:
                session.wanted.move_to_end(place)
            if fields["error_code"]:
                session.told.pop(place)
        return news

    # --- reading --------------------------------------------------------------------------------------------------
    async def _read_all(self, wanted: Wanted, request: Fields) -> dict[AskedPartition, Fields]:
        room = min(max(request.get("max_bytes", _MOST_BYTES), 0), _MOST_BYTES)
        committed = request.get("isolation_level", 0) == COMMITTED
        found: dict[AskedPartition, Fields] = {}
        is_first = True
        until = asyncio.get_running_loop().time() + PATIENCE
        for place in wanted:  # all at once: who reads many waits for the slowest only
            if self._catalogue.has(topic := self._topic(place), place.partition):
                self._catalogue.begin((topic or "", place.partition))
        for place, fields in list(wanted.items()):
            answer = await self._one(place, fields, room, until, committed=committed, is_first=is_first)
            if answer["records"]:
                room, is_first = max(0, room - len(answer["records"])), False
            found[place] = answer
        return found

    async def _one(
        self, place: AskedPartition, fields: Fields, room: int, until: float, *, committed: bool, is_first: bool
    ) -> Fields:
        topic = self._topic(place)
        if topic is None:
            by_name = isinstance(place.topic, str)
            return _failed(place, ErrorCode.unknown_topic_or_partition if by_name else ErrorCode.unknown_topic_id)
        key = topic, place.partition
        if not self._catalogue.has(*key):
            return _failed(place, ErrorCode.unknown_topic_or_partition)
        error = epoch_error(fields.get("current_leader_epoch", -1), self._catalogue.leader_epoch(key))
        if error is not None:
            return _failed(place, error)
        try:
            patience = max(0.01, until - asyncio.get_running_loop().time())
            partition = await asyncio.wait_for(self._catalogue.read(key), patience)
        except TimeoutError:
            return _failed(place, NOT_READ_YET)
        except OSError:
            return _failed(place, ErrorCode.kafka_storage_error)
        answer = _state(place, partition)
        offset = fields["fetch_offset"]
        if not partition.start_offset <= offset <= partition.end_offset:
            return {**answer, "error_code": ErrorCode.offset_out_of_range}
        if partition.is_stopped and offset == partition.end_offset:
            return {**answer, "error_code": ErrorCode.corrupt_message}
        most = min(max(fields["partition_max_bytes"], 0), room)
        if most <= 0 and not is_first:
            return answer
        try:
            read = await asyncio.to_thread(partition.read, offset, most, committed=committed, at_least_one=is_first)
        except OSError:
            return {**answer, "error_code": ErrorCode.kafka_storage_error}
        if read.records is not None:
            answer["records"] = read.records
        if committed:
            answer["aborted_transactions"] = [
                {"producer_id": one.producer, "first_offset": one.first} for one in read.aborted
            ]
        return answer

    def _topic(self, place: AskedPartition) -> str | None:
        if isinstance(place.topic, str):
            return place.topic
        found = self._catalogue.of_id(place.topic)  # type: ignore[arg-type]
        return None if found is None else found.name


def epoch_error(asked: int, known: int) -> ErrorCode | None:
    """Return what is wrong with the leader epoch that a client knows; None for nothing.

    Args:
        asked: by the request, -1 for none.
        known: of the partition, -1 for none.

    Source: Partition.checkCurrentLeaderEpoch.
    """
    if asked < 0 or known < 0 or asked == known:
        return None
    return ErrorCode.fenced_leader_epoch if asked < known else ErrorCode.unknown_leader_epoch


def _wanted(request: Fields) -> Wanted:
    found: Wanted = OrderedDict()
    for topic in request["topics"] or ():
        for one in topic["partitions"] or ():
            found[AskedPartition(_topic_of(topic), one["partition"])] = one
    return found


def _topic_of(topic: Fields) -> object:
    return topic["topic"] if "topic" in topic else topic.get("topic_id")


def _state(place: AskedPartition, partition: ReadablePartition) -> Fields:
    return {
        "partition_index": place.partition,
        "error_code": ErrorCode.none,
        "high_watermark": partition.end_offset,
        "last_stable_offset": partition.last_stable_offset,
        "log_start_offset": partition.start_offset,
        "aborted_transactions": None,
        "records": b"",
    }


def _failed(place: AskedPartition, error: ErrorCode) -> Fields:
    return {
        "partition_index": place.partition,
        "error_code": error,
        "high_watermark": -1,
        "last_stable_offset": -1,
        "log_start_offset": -1,
        "aborted_transactions": None,
        "records": b"",
    }
