"""The answers to all requests but Fetch and those of the group protocol, and the table of what is answered.

Source: KafkaApis of Kafka 4.3.
"""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from kdump.broker.clusters import cluster_settings
from kdump.broker.config import Config
from kdump.serve.commits import Commit, Commits, ListedGroup, TooManyCommitsError
from kdump.serve.coordinator import DEAD, EMPTY, Coordinator
from kdump.serve.fetching import COMMITTED, NOT_READ_YET, PATIENCE, Fetching, epoch_error
from kdump.serve.protocol import API_VERSIONS, Header, api, names_by_key
from kdump.serve.refusals import REFUSED, refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from kdump.broker.config import ClusterSettings
    from kdump.broker.lookup_results import FoundRecord
    from kdump.serve.catalogue import Catalogue, Topic
    from kdump.serve.options import Address
    from kdump.serve.protocol import Fields
    from kdump.serve.readable import ReadablePartition

NODE = 0
"""The id of the one broker that clients see."""

_LATEST, _EARLIEST, _MAX_TIMESTAMP, _EARLIEST_LOCAL, _LATEST_TIERED = -1, -2, -3, -4, -5
_NO_OPERATIONS = -(2**31)  # which a client may do: not said
_ANY_TOPIC, _ANY_BROKER = 2, 4  # types of resources
_GROUP = 0  # the type of a coordinator's key
_OF_TOPIC, _DEFAULT = 1, 5  # sources of a setting
_NO_ELECTION: dict[str, list[int]] = {
    "eligible_leader_replicas": [],
    "last_known_elr": [],
}  # Java's client takes no null there
_TYPES = {bool: 1, str: 2, int: 5, float: 6, frozenset: 7}  # of settings, as Kafka numbers them
_MOST_PARTITIONS = 2000  # of one DescribeTopicPartitions, as a broker's max.request.partition.size.limit
_TELLS_MISSING = 6  # the version of DescribeGroups from which a group that is not there is an error
_BROKERS_OWN = 2  # the first version of ListOffsets whose isolation level counts


class ApiAnswers:
    """Answers requests.

    Args:
        catalogue: of partitions.
        address: that clients are told.
    """

    def __init__(self, catalogue: Catalogue, address: Address) -> None:
        self._catalogue = catalogue
        self._address = address
        self._fetching = Fetching(catalogue)
        self.coordinator = Coordinator()
        self._commits = Commits(catalogue.paths, catalogue.options, catalogue.tell)
        self._files = asyncio.Lock()  # commits are read one group at a time
        made: dict[str, Callable[[Header, Fields], Awaitable[Fields]]] = {
            "metadata": self._metadata,
            "list_offsets": self._list_offsets,
            "fetch": lambda header, request: self._fetching.answer(header.version, request),
            "offset_for_leader_epoch": self._end_of_epochs,
            "describe_cluster": self._describe_cluster,
            "describe_topic_partitions": self._describe_partitions,
            "describe_configs": self._describe_configs,
            "find_coordinator": self._find_coordinator,
            "offset_fetch": self._offset_fetch,
            "offset_commit": self._offset_commit,
            "list_groups": self._list_groups,
            "describe_groups": self._describe_groups,
            "join_group": lambda header, request: self.coordinator.join(request, header),
            "sync_group": lambda _, request: self.coordinator.sync(request),
            "heartbeat": self._heartbeat,
            "leave_group": self._leave_group,
        }
        self._answers = made

    async def answer(self, header: Header, request: Fields) -> Fields | None:
        """Return the fields of a response; None where the request is not one of those that are answered.

        Args:
            header, request: what came.
        """
        name = names_by_key()[header.api_key]
        if name == API_VERSIONS:
            return self.versions()
        if name in REFUSED:
            return refusal(request)
        made = self._answers.get(name)
        return None if made is None else await made(header, request)

    def is_answered(self, header: Header) -> bool:
        """Whether a request is of a kind that is answered."""
        name = names_by_key()[header.api_key]
        return name in self._answers or name in REFUSED or name == API_VERSIONS

    def versions(self, error: ErrorCode = ErrorCode.none) -> Fields:
        """Return the answer to ApiVersions: what is answered, in all versions that there are definitions of."""
        known = [api(name) for name in (*self._answers, *REFUSED, API_VERSIONS)]
        keys = [{"api_key": one.key, "min_version": one.least, "max_version": one.most} for one in known]
        return {"error_code": error, "api_keys": sorted(keys, key=lambda one: one["api_key"])}

    # --- the cluster ----------------------------------------------------------------------------------------------
    @property
    def _brokers(self) -> list[Fields]:
        host, port = self._address.host, self._address.port
        return [{"node_id": NODE, "broker_id": NODE, "host": host, "port": port}]

    async def _metadata(self, header: Header, request: Fields) -> Fields:
        asked = request["topics"]
        if asked is None or (not header.version and not asked):
            every = list(self._catalogue.topics.values())
            topics = await asyncio.to_thread(lambda: list(map(self._topic, every)))
        else:
            once = {(one.get("name"), one.get("topic_id")): one for one in asked}.values()  # as a broker, a set
            topics = await asyncio.to_thread(lambda: list(map(self._asked_topic, once)))
        return {
            "brokers": self._brokers,
            "cluster_id": self._cluster_id,
            "controller_id": NODE,
            "topics": topics,
            "cluster_authorized_operations": _NO_OPERATIONS,
        }

    @property
    def _cluster_id(self) -> str:
        return self._catalogue.cluster_id or "kdump"

    def _asked_topic(self, asked: Fields) -> Fields:
        name = asked.get("name")
        if name is not None:
            topic = self._catalogue.topics.get(name)
            return _no_topic(name=name) if topic is None else self._topic(topic)
        topic = self._catalogue.of_id(asked.get("topic_id"))
        return _no_topic(topic_id=asked.get("topic_id")) if topic is None else self._topic(topic)

    def _topic(self, topic: Topic, numbers: Iterable[int] | None = None) -> Fields:
        here = frozenset(topic.partitions)
        partitions = [
            self._partition(topic.name, number) if number in here else _away(number)
            for number in (topic.numbers if numbers is None else numbers)
        ]
        return {
            "error_code": ErrorCode.none,
            "name": topic.name,
            "topic_id": topic.id,
            "is_internal": topic.is_internal,
            "partitions": partitions,
            "topic_authorized_operations": _NO_OPERATIONS,
        }

    def _partition(self, name: str, number: int) -> Fields:
        return {
            "error_code": ErrorCode.none,
            "partition_index": number,
            "leader_id": NODE,
            "leader_epoch": self._catalogue.leader_epoch((name, number)),
            "replica_nodes": [NODE],
            "isr_nodes": [NODE],
            **_NO_ELECTION,
        }

    async def _describe_cluster(self, _header: Header, request: Fields) -> Fields:
        return {
            "error_code": ErrorCode.none,
            "endpoint_type": request.get("endpoint_type", 1),
            "cluster_id": self._cluster_id,
            "controller_id": NODE,
            "brokers": self._brokers,
            "cluster_authorized_operations": _NO_OPERATIONS,
        }

    async def _describe_partitions(self, _header: Header, request: Fields) -> Fields:
        names = sorted({one["name"] for one in request["topics"] or ()} or self._catalogue.topics)
        cursor, room = request.get("cursor"), min(max(1, request["response_partition_limit"]), _MOST_PARTITIONS)
        topics: list[Fields] = []
        for name in names:
            topic = self._catalogue.topics.get(name)
            begin = 0
            if cursor is not None and name <= cursor["topic_name"]:
                if name < cursor["topic_name"]:
                    continue
                begin = cursor["partition_index"]
            if topic is None:
                topics.append(_no_topic(name=name))
                continue
            numbers = [number for number in topic.numbers if number >= begin]
            if not room:
                return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": begin}}
            topics.append(self._topic(topic, numbers[:room]))
            if len(numbers) > room:
                return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": numbers[room]}}
            room -= len(numbers)
        return {"topics": topics, "next_cursor": None}

    @cached_property
    def _clusters(self) -> tuple[ClusterSettings, ...]:
        return cluster_settings(self._catalogue.paths, self._catalogue.options.limits)

    async def _describe_configs(self, _header: Header, request: Fields) -> Fields:
        async with self._files:
            clusters = await asyncio.to_thread(lambda: self._clusters)
        results = []
        for one in {(one["resource_type"], one["resource_name"]): one for one in request["resources"] or ()}.values():
            kind, name = one["resource_type"], one["resource_name"]
            error, configs = ErrorCode.none, []
            if kind == _ANY_TOPIC and name in self._catalogue.topics:
                configs = list(self._settings(name, clusters, one.get("configuration_keys")))
            elif kind == _ANY_TOPIC:
                error = ErrorCode.unknown_topic_or_partition
            elif kind != _ANY_BROKER:
                error = ErrorCode.invalid_request
            what = {"resource_type": kind, "resource_name": name, "configs": configs}
            results.append({"error_code": error, "error_message": None, **what})
        return {"results": results}

    def _settings(
        self, topic: str, clusters: tuple[ClusterSettings, ...], wanted: list[str] | None
    ) -> Iterator[Fields]:
        """The settings of a topic by the metadata log; without one, Kafka's defaults, marked as such."""
        number = self._catalogue.topics[topic].partitions[0]
        log_dir = self._catalogue.directory((topic, number)).log_dir
        config = Config({}, clusters=clusters)
        cluster = config.cluster_of(log_dir)
        own = {} if cluster is None else cluster.topics.get(topic, {})
        known = config.on(topic, log_dir).of_topic(topic)
        for field, value in zip(known.__match_args__, known._values(), strict=True):
            name = field.replace("_", ".")
            if value is None or (wanted is not None and name not in wanted):
                continue
            source = _OF_TOPIC if name in own else _DEFAULT
            yield {
                "name": name,
                "value": _setting(value),
                "read_only": True,
                "config_source": source,
                "is_default": source == _DEFAULT,
                "config_type": next(number for kind, number in _TYPES.items() if isinstance(value, kind)),
                "synonyms": [],
            }

    # --- offsets --------------------------------------------------------------------------------------------------
    async def _list_offsets(self, header: Header, request: Fields) -> Fields:
        committed = header.version >= _BROKERS_OWN and request.get("isolation_level") == COMMITTED
        topics = []
        for topic in request["topics"] or ():
            name = topic["name"]
            parts = [await self._offset(name, one, committed=committed) for one in topic["partitions"] or ()]
            topics.append({"name": name, "partitions": parts})
        return {"topics": topics}

    async def _offset(self, name: str, asked: Fields, *, committed: bool) -> Fields:
        number, timestamp = asked["partition_index"], asked["timestamp"]
        answer: Fields = {"partition_index": number, "timestamp": -1, "offset": -1, "leader_epoch": -1}
        partition, error = await self._readable(name, number, asked.get("current_leader_epoch", -1))
        if partition is None:
            return {**answer, "error_code": error}
        answer["error_code"] = ErrorCode.none
        if timestamp in (_EARLIEST, _EARLIEST_LOCAL):
            start = partition.start_offset
            return {**answer, "offset": start, "leader_epoch": partition.epoch_at(start)}
        if timestamp == _LATEST:
            end = partition.last_stable_offset if committed else partition.end_offset
            return {**answer, "offset": end, "leader_epoch": self._catalogue.leader_epoch((name, number))}
        if timestamp < 0 and timestamp != _MAX_TIMESTAMP:
            return answer  # of remote storage: nothing is there
        try:
            found = await asyncio.to_thread(_search, partition, timestamp)
        except OSError:
            return {**answer, "error_code": ErrorCode.kafka_storage_error}
        bound = partition.last_stable_offset if committed else partition.end_offset
        if found is None or found.offset >= bound:
            return answer
        epoch = self._served_epoch((name, number), -1 if found.epoch is None else found.epoch)
        return {**answer, "timestamp": found.timestamp, "offset": found.offset, "leader_epoch": epoch}

    def _committed(self, number: int, commit: Commit | None, name: str) -> Fields:
        found = Commit(-1) if commit is None else commit
        return {
            "partition_index": number,
            "committed_offset": found.offset,
            "committed_leader_epoch": self._served_epoch((name, number), found.epoch),
            "metadata": found.metadata,
            "error_code": ErrorCode.none if name else ErrorCode.unknown_topic_id,
        }

    def _served_epoch(self, key: tuple[str, int], epoch: int) -> int:
        """Return a leader epoch that a client may keep: one above that of the metadata would make it wait for ever."""
        if not self._catalogue.has(*key) or epoch <= self._catalogue.leader_epoch(key):
            return epoch
        return -1

    async def _readable(self, name: str, number: int, epoch: int) -> tuple[ReadablePartition | None, ErrorCode]:
        """A partition, or why there is none."""
        if not self._catalogue.has(name, number):
            return None, ErrorCode.unknown_topic_or_partition
        error = epoch_error(epoch, self._catalogue.leader_epoch((name, number)))
        if error is not None:
            return None, error
        try:
            return await asyncio.wait_for(self._catalogue.read((name, number)), PATIENCE), ErrorCode.none
        except TimeoutError:
            return None, NOT_READ_YET
        except OSError:
            return None, ErrorCode.kafka_storage_error

    async def _end_of_epochs(self, _header: Header, request: Fields) -> Fields:
        topics = []
        for topic in request["topics"] or ():
            parts = []
            for one in topic["partitions"] or ():
                number = one["partition"]
                known = one.get("current_leader_epoch", -1)
                partition, error = await self._readable(topic["topic"], number, known)
                epoch, end = (-1, -1) if partition is None else partition.end_of_epoch(one["leader_epoch"])
                parts.append({"partition": number, "error_code": error, "leader_epoch": epoch, "end_offset": end})
            topics.append({"topic": topic["topic"], "partitions": parts})
        return {"topics": topics}

    # --- groups ---------------------------------------------------------------------------------------------------
    async def _find_coordinator(self, header: Header, request: Fields) -> Fields:
        is_group = request.get("key_type", _GROUP) == _GROUP
        error = ErrorCode.none if is_group else ErrorCode.cluster_authorization_failed
        where = {**self._brokers[0], "error_code": error, "error_message": None}
        keys = request.get("coordinator_keys") or ()
        return {**where, "coordinators": [{**where, "key": key} for key in keys]}

    async def _commits_of(self, group: str) -> dict[tuple[str, int], Commit]:
        async with self._files:
            return await asyncio.to_thread(self._commits.of, group)

    async def _offset_fetch(self, _header: Header, request: Fields) -> Fields:
        if "groups" not in request:
            return await self._fetched({**request, "group_id": request["group_id"]})
        return {"groups": [await self._fetched(one) for one in request["groups"] or ()]}

    async def _fetched(self, asked: Fields) -> Fields:
        """The commits of one group."""
        commits = await self._commits_of(asked["group_id"])
        topics = []
        if asked["topics"] is None:
            by_topic: dict[str, list[int]] = {}
            for name, number in sorted(commits):
                by_topic.setdefault(name, []).append(number)
            wanted = [({"name": name, "topic_id": self._id_of(name)}, numbers) for name, numbers in by_topic.items()]
        else:
            wanted = [(one, one["partition_indexes"] or []) for one in asked["topics"]]
        for topic, numbers in wanted:
            name = topic.get("name") or self._name_of(topic.get("topic_id"))
            parts = [self._committed(number, commits.get((name, number)), name) for number in numbers]
            topics.append({"name": name, "topic_id": topic.get("topic_id"), "partitions": parts})
        return {"group_id": asked["group_id"], "topics": topics, "error_code": ErrorCode.none}

    def _id_of(self, name: str) -> Any:  # noqa: ANN401 (a UUID, or none)
        topic = self._catalogue.topics.get(name)
        return None if topic is None else topic.id

    def _name_of(self, topic_id: Any) -> str:  # noqa: ANN401 (a UUID, or none)
        topic = self._catalogue.of_id(topic_id)
        return "" if topic is None else topic.name

    async def _offset_commit(self, _header: Header, request: Fields) -> Fields:
        error = self.coordinator.may_commit(request)
        topics = []
        for topic in request["topics"] or ():
            name = topic.get("name") or self._name_of(topic.get("topic_id"))
            parts = [self._committing(request["group_id"], name, one, error) for one in topic["partitions"] or ()]
            topics.append({"name": name, "topic_id": topic.get("topic_id"), "partitions": parts})
        return {"topics": topics}

    def _committing(self, group: str, topic: str, one: Fields, error: ErrorCode) -> Fields:
        number = one["partition_index"]
        if error is ErrorCode.none and not self._catalogue.has(topic, number):
            error = ErrorCode.unknown_topic_or_partition
        if error is ErrorCode.none:
            epoch, text = one.get("committed_leader_epoch", -1), one["committed_metadata"] or ""
            try:
                kept = self._commits.keep(group, topic, number, Commit(one["committed_offset"], epoch, text))
                error = ErrorCode.none if kept else ErrorCode.offset_metadata_too_large
            except TooManyCommitsError:
                error = ErrorCode.group_max_size_reached
        return {"partition_index": number, "error_code": error}

    async def _list_groups(self, _header: Header, request: Fields) -> Fields:
        async with self._files:
            listed = {one.name: one for one in await asyncio.to_thread(self._commits.listed)}
        for name, group in self.coordinator.groups.items():
            listed[name] = ListedGroup(name, group.protocol_type, group.state, "Classic")
        states = {one.lower() for one in request.get("states_filter") or ()}
        kinds = {one.lower() for one in request.get("types_filter") or ()}
        groups = [
            {
                "group_id": one.name,
                "protocol_type": one.protocol,
                "group_state": one.state,
                "group_type": one.kind.lower(),
            }
            for one in listed.values()
            if (not states or one.state.lower() in states) and (not kinds or one.kind.lower() in kinds)
        ]
        return {"error_code": ErrorCode.none, "groups": groups}

    async def _describe_groups(self, header: Header, request: Fields) -> Fields:
        found = []
        for name in request["groups"] or ():
            one = self.coordinator.describe(name)
            if one["group_state"] == DEAD and await self._commits_of(name):
                one = {**one, "group_state": EMPTY, "protocol_type": "consumer"}
            elif one["group_state"] == DEAD and header.version >= _TELLS_MISSING:
                one = {**one, "error_code": ErrorCode.group_id_not_found}
            found.append({**one, "authorized_operations": _NO_OPERATIONS})
        return {"groups": found}

    async def _heartbeat(self, _header: Header, request: Fields) -> Fields:
        return self.coordinator.heartbeat(request)

    async def _leave_group(self, _header: Header, request: Fields) -> Fields:
        return self.coordinator.leave(request)


def _away(number: int) -> Fields:
    """A partition that is not among the files."""
    where = {"leader_id": -1, "leader_epoch": -1, "replica_nodes": [NODE], "isr_nodes": [], "offline_replicas": [NODE]}
    return {"error_code": ErrorCode.leader_not_available, "partition_index": number, **where, **_NO_ELECTION}


def _no_topic(**what: Any) -> Fields:  # noqa: ANN401 (name or topic_id)
    by_name = "name" in what
    error = ErrorCode.unknown_topic_or_partition if by_name else ErrorCode.unknown_topic_id
    return {"error_code": error, "partitions": [], "topic_authorized_operations": _NO_OPERATIONS, **what}


def _search(partition: ReadablePartition, timestamp: int) -> FoundRecord | None:
    return partition.with_largest_time() if timestamp == _MAX_TIMESTAMP else partition.first_after(timestamp)


def _setting(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(sorted(value)) if isinstance(value, frozenset) else str(value)
