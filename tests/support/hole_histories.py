"""Healthy partitions, most with holes: how brokers came to them."""

from __future__ import annotations

import zlib
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support import metadata_records as metadata
from tests.support.hole_logs import Log, Pass, Segment, Stop, Writers, clean, files, follow, follower
from tests.support.hole_truth import Known
from tests.support.partitions import Files, checkpoint, name

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

LOGS = "logs"
_TOPIC = 2  # kind of a resource of configurations
_PRODUCERS = (1000, 1001, 2000, 2001, 2002)


@dataclass
class Made:
    """A partition on the disk.

    Args:
        kind: how it came to its holes.
        topic: its name; the number of the partition is 0.
        log: its batches.
        stop: how it lies on the disk.
        known: what is known besides its files.
        log_dir: path of its log directory.
        folder: name of its directory.
        entry: what the cleaner's checkpoint file of its log directory says.
        high_watermark: what the checkpoint file says.
        recovery_point: what the checkpoint file says.
        has_log_dir: its log directory is one, with checkpoint files.
        is_alone: no other partition is judged with it.
        asked: the paths that verify gets.
        companions: other partitions that belong to it.
        beside: other files.
        settings: that the user gives.
        files: of its directory.
    """

    kind: str
    topic: str
    log: Log
    stop: Stop
    known: Known
    log_dir: str = LOGS
    folder: str = ""
    entry: int | None = None
    high_watermark: int = 0
    recovery_point: int = 0
    has_log_dir: bool = True
    is_alone: bool = False
    asked: tuple[str, ...] = (LOGS,)
    companions: tuple[Made, ...] = ()
    beside: Files = field(default_factory=dict)
    settings: tuple[str, ...] = ()
    files: Files = field(default_factory=dict)

    @property
    def path(self) -> str:
        """Path of its directory."""
        return f"{self.log_dir}/{self.folder}"

    @property
    def is_clean(self) -> bool:
        """Whether its broker was shut down."""
        return self.stop.is_clean


def lay(
    chance: Random,
    kind: str,
    topic: str,
    log: Log,
    entry: int | None,
    *,
    policy: str | None = None,
    stop: Stop | None = None,
) -> Made:
    """Lay a log down as a stopped broker leaves it.

    Args:
        chance: decides everything.
        kind: what happened.
        topic: its name.
        log: its batches.
        entry: of the cleaner's checkpoint file.
        policy: what is known of it.
        stop: how it lies on the disk.
    """
    stop = stop or Stop(chance.choice((0, 60, 150, 400)), chance.random() < 0.7, chance.choice((1, 16)))
    start = log.start if log.start > log.segments[0].base else None
    mark = log.end if chance.random() < 0.7 else max(log.start, log.segments[0].base, log.end - chance.randrange(4))
    point = log.end if stop.is_clean else log.segments[-1].base if chance.random() < 0.5 else log.segments[0].base
    made = Made(kind, topic, log, stop, Known(topic, start, entry, (mark, point), policy), folder=f"{topic}-0")
    made.entry, made.high_watermark, made.recovery_point = entry, mark, point
    made.files = files(log, stop)
    made.files["partition.metadata"] = f"version: 0\ntopic_id: {metadata.uuid(zlib.crc32(topic.encode()))}\n".encode()
    return made


def _passes(chance: Random, log: Log, writers: Writers, count: int, **how: int | None) -> None:
    size = chance.choice((300, 600, 1200))
    for _ in range(count):
        active = chance.sample(_PRODUCERS, chance.randrange(6))
        clean(log, Pass(chance.random() < 0.6, active, chance.choice((size, 3 * size)), **how))
        writers.write(log, chance.randrange(25), size)
        if chance.random() < 0.3:
            log.roll()


def _new(chance: Random, *, keys: int | None = None, keyless: bool = False) -> tuple[Log, Writers]:
    log = Log([Segment(0, [])])
    writers = Writers(chance, keys or chance.choice((2, 3, 8, 20)), plain=chance.random() < 0.4, keyless=keyless)
    writers.write(log, chance.randrange(8, 45), chance.choice((200, 300, 600, 1200)))
    return log, writers


def _cleaned(chance: Random) -> tuple[Log, Writers]:
    log, writers = _new(chance)
    if chance.random() < 0.5:
        writers.finish(log, 600)
    _passes(chance, log, writers, chance.randrange(1, 4))
    return log, writers


def leader(chance: Random, topic: str) -> Made:
    """A cleaned log of a leader."""
    log, _ = _cleaned(chance)
    return lay(chance, "leader", topic, log, log.dirty)


def reset_entry(chance: Random, topic: str) -> Made:
    """A cleaned log whose entry was reset after a power loss, or is gone."""
    log, _ = _cleaned(chance)
    return lay(chance, "leader, entry reset", topic, log, chance.choice((None, log.start, log.end + 5)))


def aborted_pass(chance: Random, topic: str) -> Made:
    """A pass that was aborted: some segments are replaced, the entry is that of the pass before."""
    log, writers = _new(chance)
    _passes(chance, log, writers, chance.randrange(2))
    _passes(chance, log, writers, 1, groups=chance.randrange(1, 3))
    return lay(chance, "aborted pass", topic, log, log.dirty)


def full_map(chance: Random, topic: str) -> Made:
    """A pass that ended where the cleaner's map was full."""
    log, writers = _new(chance)
    _passes(chance, log, writers, chance.randrange(1, 3), room=chance.randrange(5, 25))
    return lay(chance, "full map", topic, log, log.dirty)


def copied(chance: Random, topic: str) -> Made:
    """A new replica of a cleaned leader, all of it or behind; perhaps from a later offset on."""
    log, _ = _cleaned(chance)
    copy = _copy(chance, log)
    return lay(chance, "follower", topic, copy, None)


def _copy(chance: Random, log: Log) -> Log:
    bases = [one.base for one in log.batches]
    start = chance.choice((log.start, log.start, chance.choice(bases)))
    until = log.end if chance.random() < 0.5 else chance.choice([one for one in bases if one >= start]) + 1
    until = max(until, start + 10)
    return follower(log, start, until, chance.choice((300, 600, 5000)))


def cleaned_copy(chance: Random, topic: str) -> Made:
    """A replica of a cleaned leader that a cleaner has begun to clean here too, and that leads perhaps."""
    log, writers = _cleaned(chance)
    copy = _copy(chance, log)
    copy.roll()
    clean(copy, Pass(True, (), 600, room=chance.choice((None, 5, 15))))
    if copy.end == log.end:
        writers.write(copy, chance.randrange(12), 600)
    return lay(chance, "cleaned follower", topic, copy, copy.dirty)


def refetched(chance: Random, topic: str) -> Made:
    """A follower that was truncated, and fetched again from a leader whose log is cleaner."""
    log, writers = _cleaned(chance)
    copy = _copy(chance, log)
    clean(copy, Pass(True, (), 600))
    _passes(chance, log, writers, 1)
    later = [one.base for one in log.batches if copy.segments[0].base < one.base <= copy.end]
    if later:
        copy.truncate(chance.choice(later))
    follow(log, copy, log.end - chance.randrange(6), chance.choice((300, 1200)))
    return lay(chance, "truncated and refetched", topic, copy, copy.dirty)


def cut_behind_hole(chance: Random, topic: str) -> Made:
    """A truncation that ended just behind a hole: the log ends above its last batch."""
    log, _ = _cleaned(chance)
    copy = _copy(chance, log) if chance.random() < 0.5 else deepcopy(log)
    pairs = zip(copy.batches, copy.batches[1:], strict=False)
    targets = [b.base for a, b in pairs if b.base > a.last + 1 and _is_traced(copy, a.last)]
    if targets:
        copy.truncate(chance.choice(targets))
    return lay(chance, "cut behind a hole", topic, copy, copy.dirty)


def _is_traced(log: Log, last: int) -> bool:
    """Whether what is left up to an offset shows that a cleaner was there."""
    left = [one for one in log.batches if one.last <= last]
    ends = [log.segments[0].base - 1, *(one.last for one in left)]
    return any(one.is_short or one.base > end + 1 for end, one in zip(ends, left, strict=False))


def moved(chance: Random, topic: str) -> Made:
    """A directory that was moved to another log directory by hand: its entry stayed behind."""
    log, _ = _cleaned(chance)
    return lay(chance, "moved", topic, log, None)


def alone(chance: Random, topic: str) -> Made:
    """A directory of a partition, without its log directory."""
    log, _ = _cleaned(chance)
    made = lay(chance, "directory alone", topic, log, None)
    made.has_log_dir, made.is_alone = False, True
    made.known = made.known._replace(start=None, ends=())
    made.asked = (made.path,)
    return made


def inside(chance: Random, topic: str) -> Made:
    """A directory of a partition, asked for alone, in its log directory."""
    log, _ = _cleaned(chance)
    made = lay(chance, "directory in its log.dir", topic, log, chance.choice((None, log.dirty)))
    made.is_alone, made.asked = True, (made.path,)
    return made


def of_coordinators(chance: Random, topic: str) -> Made:
    """A topic of a coordinator, cleaned, often without an entry."""
    log, _ = _cleaned(chance)
    name = chance.choice(("__consumer_offsets", "__transaction_state"))
    made = lay(chance, "internal topic", name, log, chance.choice((None, None, log.dirty)))
    made.is_alone = True
    return made


def whole(chance: Random, topic: str) -> Made:
    """A topic that no cleaner has touched, whatever is known of its policy."""
    log, writers = _new(chance, keyless=True)
    writers.write(log, chance.randrange(20), 600)
    made = lay(chance, "whole", topic, log, None)
    if chance.random() < 0.5:
        never(made)
    return made


def never(made: Made) -> None:
    """Let the user say that a topic is deleted from, never compacted."""
    made.settings, made.is_alone = ("cleanup.policy=delete",), True
    if not any("__cluster_metadata" in path for path in made.beside):  # what it says of compaction stands
        made.known = made.known._replace(policy="never")


def retained(chance: Random, topic: str) -> Made:
    """A cleaned log whose first segments went with retention, or whose first records were deleted."""
    log, _ = _cleaned(chance)
    if len(log.segments) > 2 and chance.random() < 0.6:
        gone = log.segments.pop(0)
        log.aborted.pop(gone.base, None)
        log.start = log.segments[0].base
    else:
        log.start = chance.randrange(log.segments[0].base, log.segments[-1].base + 1)
    log.epochs = _from(log.epochs, log.start)
    entry = log.dirty if log.dirty is None else max(log.dirty, log.start)
    return lay(chance, "log start above 0", topic, log, chance.choice((entry, None)))


def _from(epochs: list[tuple[int, int]], start: int) -> list[tuple[int, int]]:
    """Epochs from an offset on. Source: LeaderEpochFileCache.truncateFromStart."""
    before = [one for one in epochs if one[1] <= start]
    return [(before[-1][0], start)] * bool(before) + [one for one in epochs if one[1] > start]


def future(chance: Random, topic: str) -> Made:
    """A directory that a broker was filling in another log directory: the cleaner's entry is in the first one."""
    log, _ = _cleaned(chance)
    current = lay(chance, "current of a future", topic, log, log.dirty)
    made = lay(chance, "future", topic, _copy(chance, log), None, stop=current.stop)
    made.log_dir, made.folder, made.is_alone = "logs1", f"{topic}-0.{chance.randbytes(16).hex()}-future", True
    made.asked = ("logs1",)
    if chance.random() < 0.7:
        made.asked, made.companions = (LOGS, "logs1"), (current,)
        made.known = made.known._replace(entry=current.entry)
    return made


def was_compacted(chance: Random, topic: str) -> Made:
    """A topic that is or was compacted, as the metadata log here says."""
    log, _ = _cleaned(chance)
    made = lay(chance, "metadata log: compact", topic, log, chance.choice((None, log.dirty)), policy="compact")
    _with_metadata(made, *chance.choice((("compact",), ("compact", "delete"), ("compact,delete", "delete"))))
    return made


def never_compacted(chance: Random, topic: str) -> Made:
    """A topic that was made with the policy delete, as the metadata log here says."""
    log, _ = _new(chance, keyless=True)
    made = lay(chance, "metadata log: delete", topic, log, None, policy="never")
    _with_metadata(made, "delete")
    return made


def _with_metadata(made: Made, *policies: str) -> None:
    """Put the metadata log beside a partition: its topic is made, and has these policies, one after the other."""
    number = zlib.crc32(made.topic.encode())
    records = [[metadata.topic(made.topic, number), metadata.partition(0, number, [1])]]
    records[0].append(metadata.config(_TOPIC, made.topic, "cleanup.policy", policies[0]))
    records += [[metadata.config(_TOPIC, made.topic, "cleanup.policy", one)] for one in policies[1:]]
    made.is_alone = True
    made.beside = {f"{LOGS}/__cluster_metadata-0/{name(0)}": metadata.log(*records)}
    made.beside[f"{LOGS}/__cluster_metadata-0/leader-epoch-checkpoint"] = checkpoint((1, 0))


def of_brokers(chance: Random, topic: str) -> Made:
    """An internal topic that brokers make with the policy delete."""
    log, _ = _new(chance, keyless=True)
    made = lay(
        chance, "internal topic: delete", chance.choice(("__share_group_state", "__remote_log_metadata")), log, None
    )
    made.is_alone = True
    return made


def said_compacted(chance: Random, topic: str) -> Made:
    """A cleaned topic whose policy the user gives."""
    log, _ = _cleaned(chance)
    made = lay(chance, "said to be compacted", topic, log, chance.choice((None, log.dirty)), policy="compact")
    made.settings, made.is_alone = ("cleanup.policy=compact",), True
    return made


def tiered(chance: Random, topic: str) -> Made:
    """The first segments are in remote storage only."""
    log, writers = _new(chance, keyless=True)
    writers.write(log, 20, 300)
    for gone in log.segments[: chance.randrange(1, 3)]:
        if len(log.segments) > 1:
            log.segments.remove(gone)
            log.aborted.pop(gone.base, None)
    made = lay(chance, "tiered", topic, log, None)
    made.known = made.known._replace(start=0, is_tiered=True)
    made.beside = {f"{LOGS}/remote-log-index-cache/0_{'A' * 22}.index": b""}
    return made


HISTORIES: tuple[Callable[[Random, str], Made], ...] = (
    leader,
    reset_entry,
    aborted_pass,
    full_map,
    copied,
    cleaned_copy,
    refetched,
    cut_behind_hole,
    moved,
    alone,
    inside,
    of_coordinators,
    whole,
    whole,
    retained,
    future,
    was_compacted,
    never_compacted,
    of_brokers,
    said_compacted,
    tiered,
)
