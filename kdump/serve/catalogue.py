"""The partitions that are served: by topic and number, by topic id, each read when a client first asks for it."""

from __future__ import annotations

import asyncio
import uuid
from base64 import urlsafe_b64decode
from typing import TYPE_CHECKING

from kdump.serve.readable import PartitionReading
from kdump.state.copies import Copies
from kdump.storage.names import COORDINATED, METADATA_TOPIC
from kdump.storage.paths import real
from kdump.storage.segment import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor

    from kdump.finding import Finding
    from kdump.serve.options import ServeOptions
    from kdump.serve.readable import ReadablePartition
    from kdump.storage.file_source import OpenFailure
    from kdump.storage.partition_dir import PartitionDir

    Key = tuple[str, int]

_MOST_PARTITIONS = 100_000  # of a topic
_IDS = uuid.UUID("6a3f77f0-5ac5-4b0c-9f0b-0e1c1f6b7f3d")  # the name space of ids for topics that have none


class NoSuchReplicaError(Exception):
    """No partition is under the path whose copies are to be served."""


class Topic:
    """A topic.

    Attributes:
        name, id: of it; an old directory has no id, and gets one that depends on cluster and name alone.
        partitions: the numbers of those that are here, ascending.
    """

    def __init__(self, name: str, topic_id: uuid.UUID) -> None:
        self.name, self.id = name, topic_id
        self.partitions: list[int] = []

    @property
    def numbers(self) -> list[int]:
        """The numbers that clients are told of: a client takes those of a topic to begin at 0, without a hole.

        A partition that is not here has no leader. What a directory is named may be far beyond what a topic can have.
        """
        here = self.partitions
        return list(range(here[-1] + 1)) if here[-1] < _MOST_PARTITIONS else here

    @property
    def lacking(self) -> int:
        """How many of these are not here."""
        return len(self.numbers) - len(self.partitions)

    @property
    def is_internal(self) -> bool:
        """Whether Kafka's own coordinators write it."""
        return self.name in COORDINATED


class Catalogue:
    """The partitions under some paths.

    Args:
        paths: partition directories and log directories, as the user wrote them.
        options: what was asked for.
        report: takes what cannot be read, and what is wrong with checkpoints.
        tell: takes a sentence about what is not handed out.

    Raises:
        NoSuchReplicaError: no partition is under the path of --replica.
    """

    def __init__(
        self,
        paths: Sequence[str],
        options: ServeOptions,
        report: Callable[[Finding | OpenFailure], None],
        tell: Callable[[str], None],
    ) -> None:
        self.paths = list(paths)
        self.options = options
        self.tell = tell
        self._copies = Copies(paths, report)
        self.cluster_id = next((one.cluster_id for one in self._copies.log_dirs.values() if one.cluster_id), None)
        self.topics: dict[str, Topic] = {}
        self._by_id: dict[uuid.UUID, Topic] = {}
        self._chosen: dict[Key, PartitionDir] = {}
        self._read: dict[Key, asyncio.Future[ReadablePartition]] = {}
        self._executor: Executor | None = None
        for key in self._copies.partitions:
            if key[0] != METADATA_TOPIC and (not options.topics or key[0] in options.topics):
                self._add(key)
        if options.replica is not None and not any(map(self._of_replica, self._copies.partitions)):
            raise NoSuchReplicaError(options.replica)

    def use(self, executor: Executor) -> None:
        """Let partitions be read by an executor."""
        self._executor = executor

    def of_id(self, topic_id: uuid.UUID | None) -> Topic | None:
        """Return the topic that has an id."""
        return None if topic_id is None else self._by_id.get(topic_id)

    def leader_epoch(self, key: Key) -> int:
        """Return the newest leader epoch of a partition, -1 where none is known."""
        epochs = self.directory(key).sound_epochs
        return epochs[-1].epoch if epochs else -1

    def directory(self, key: Key) -> PartitionDir:
        """Return the copy of a partition that is served."""
        if key not in self._chosen:
            own = self._of_replica(key)
            if own is not None:
                self._chosen[key] = own
            else:
                self._chosen[key], said = self._copies.choose(key, self.options.limits.max_batch_bytes)
                if said is not None:
                    self.tell(said.sentence)
        return self._chosen[key]

    async def read(self, key: Key) -> ReadablePartition:
        """Return what of a partition can be handed out; who gives up waiting does not end the reading.

        Args:
            key: topic and number of a partition that is here.
        """
        return await asyncio.shield(self.begin(key))

    def begin(self, key: Key) -> asyncio.Future[ReadablePartition]:
        """Begin to read a partition, unless that is done."""
        if key not in self._read:
            reading = asyncio.get_running_loop().run_in_executor(self._executor, self._reading, key)
            self._read[key] = future = asyncio.ensure_future(reading)
            future.add_done_callback(lambda done: self._let_go(key, done))
        return self._read[key]

    def _let_go(self, key: Key, done: asyncio.Future[ReadablePartition]) -> None:
        """Let a reading that failed be tried again by who asks next."""
        if (done.cancelled() or done.exception() is not None) and self._read.get(key) is done:
            del self._read[key]

    def has(self, topic: str | None, partition: int) -> bool:
        """Whether a partition is here."""
        return topic in self.topics and partition in self.topics[topic].partitions

    def _reading(self, key: Key) -> ReadablePartition:
        try:
            return PartitionReading(self.directory(key), self.options, self.tell).read()
        except UnreadableError as error:
            raise OSError(None, error.problem.sentence) from None

    def _of_replica(self, key: Key) -> PartitionDir | None:
        """The copy of a partition under the path of --replica."""
        if self.options.replica is None:
            return None
        wanted = real(self.options.replica)
        copies = ((real(one.path), one) for one in self._copies.partitions[key])
        return next((one for path, one in copies if path == wanted or path.startswith(f"{wanted}/")), None)

    def _add(self, key: Key) -> None:
        name, number = key
        if name not in self.topics:
            ids = (one.topic_id for one in self._copies.partitions[key])
            topic = Topic(name, self._id(name, next((one for one in ids if one), None)))
            self.topics[name] = topic
            self._by_id[topic.id] = topic
        self.topics[name].partitions.append(number)

    def _id(self, name: str, known: str | None) -> uuid.UUID:
        try:
            found = uuid.UUID(bytes=urlsafe_b64decode(f"{known}==")) if known else None
        except ValueError:
            found = None
        if found is None or not found.int or found in self._by_id:
            return uuid.uuid5(_IDS, f"{self.cluster_id or ''}/{name}")
        return found
