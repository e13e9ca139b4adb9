"""A partition in the model of a cluster: leaders append, followers fetch, and each batch knows the one before it.

Source: ReplicaManager, UnifiedLog, LeaderEpochFileCache, KIP-101 and KIP-279.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from tests.support.hole_logs import Batch, Log, Pass, Producers, Segment, after, clean
from tests.support.rescue_truth.batches import Legacy, moved
from tests.support.segments import GZIP, NONE, TIME

if TYPE_CHECKING:
    from random import Random

Ident = tuple[int, int]
"""What a batch is known by, whatever a cleaner leaves of it: when it was written, and its first offset."""


def ident(one: Batch) -> Ident:
    """What a batch is known by; of magic 0 and 1 a cleaner may take the first offset."""
    return one.time, 0 if isinstance(one, Legacy) else one.base


class Style(NamedTuple):
    """What a topic is like.

    Args:
        magic: of its batches.
        is_compacted: a cleaner is at work.
        transactions, idempotent: there are producers that write so.
        keys: how many there are.
        segment_bytes: size at which a segment is full.
    """

    magic: int
    is_compacted: bool
    transactions: bool
    idempotent: bool
    keys: int
    segment_bytes: int


@dataclass
class Replica(Log):
    """A replica.

    Args:
        number: of its broker.
        is_gone: its broker is down, and has not come back.
        mark: its high watermark.
    """

    number: int = 0
    is_gone: bool = False
    mark: int = 0

    def append(self, one: Batch, segment_bytes: int) -> None:
        """Append a batch; one that begins below the end takes the epochs from there on along."""
        is_overlap = one.base < self.end
        before = list(self.epochs)
        super().append(one, segment_bytes)
        if is_overlap and self.epochs != before:
            self.epochs = [entry for entry in before if entry[1] < one.base] + self.epochs[-1:]

    def lead(self, epoch: int) -> None:
        """Become the leader. Source: UnifiedLog.assignEpochStartOffset."""
        self.epochs = [entry for entry in self.epochs if entry[1] < self.end] + [(epoch, self.end)]

    def delete_below(self, offset: int, *, segments: bool) -> None:
        """Raise the log start; segments that are wholly below it go now, or wait for the next check."""
        if offset <= max(self.start, self.segments[0].base):
            return
        self.start = offset
        if segments:
            while len(self.segments) > 1 and self.segments[1].base <= offset:
                self.aborted.pop(self.segments.pop(0).base, None)
        below = [entry for entry in self.epochs if entry[1] <= offset]
        if below:  # LeaderEpochFileCache.truncateFromStart
            self.epochs = [(below[-1][0], offset), *(entry for entry in self.epochs if entry[1] > offset)]

    @property
    def first(self) -> int:
        """The first offset that readers get."""
        return max(self.start, self.segments[0].base)

    def copied(self) -> Replica:
        """A backup of it."""
        segments = [Segment(one.base, list(one.batches)) for one in self.segments]
        aborted = {base: list(some) for base, some in self.aborted.items()}
        known = after(self.appended, self.end)
        return replace(
            self,
            segments=segments,
            appended=list(self.appended),
            epochs=list(self.epochs),
            aborted=aborted,
            known=known,
        )


@dataclass
class Cluster:
    """One partition.

    Args:
        chance: decides everything.
        style: of the topic.
        replicas: all of them.
        leader: number of the one that leads, or led last.
        epoch: of that leader.
        originals: all batches that were ever appended by a leader.
        parents: the batch before each in the log of that leader.
    """

    chance: Random
    style: Style
    replicas: list[Replica]
    leader: int = 0
    epoch: int = 0
    originals: dict[Ident, Batch] = field(default_factory=dict)
    parents: dict[Ident, Ident | None] = field(default_factory=dict)
    has_overlaps: bool = False
    _time: int = TIME

    @property
    def led(self) -> Replica:
        """The log of the leader."""
        return self.replicas[self.leader]

    def chain(self, last: Ident | None) -> list[Ident]:
        """A batch and all before it, the last one first."""
        found = []
        while last is not None:
            found.append(last)
            last = self.parents[last]
        return found

    @property
    def line(self) -> list[Ident]:
        """The batches of the log that counts, the last one first."""
        return self.chain(ident(self.led.appended[-1])) if self.led.appended else []

    # --- what a leader does ---------------------------------------------------------------------------------
    def write(self, count: int) -> None:
        """Append some batches at the leader."""
        for _ in range(count):
            self._append(self._next(self.led))

    def _append(self, one: Batch) -> None:
        led = self.led
        self.originals[ident(one)] = one
        self.parents[ident(one)] = ident(led.appended[-1]) if led.appended else None
        led.append(one, self.style.segment_bytes)

    def _next(self, led: Replica) -> Batch:
        chance, style, base = self.chance, self.style, led.end
        self._time += chance.randrange(1, 2000)
        kind = chance.random()
        open_now = [who for who in (2000, 2001) if led.known.is_open(who)]
        if open_now and kind < 0.25:
            return self._marker(chance.choice(open_now), base)
        count = chance.choice((1, 1, 2, 2, 3, 5))
        if style.magic < 2:
            codec = GZIP if chance.random() < 0.4 else NONE
            count = count if codec else 1
            records = tuple((base + at, *self._record(at)) for at in range(count))
            return Legacy(base, base + count - 1, records, time=self._time, codec=codec, magic=style.magic)
        before = led.appended[-1] if led.appended else None
        if before is not None and before.producer[0] < 0 and before.epoch == self.epoch and kind > 0.97:
            return moved(before, base)  # a retry of a producer without an id
        records = tuple((base + at, *self._record(at)) for at in range(count))
        codec = GZIP if chance.random() < 0.1 else NONE
        made = Batch(base, base + count - 1, records, time=self._time, epoch=self.epoch, codec=codec)
        if style.transactions and kind < 0.6:
            who = chance.choice((2000, 2001))
        elif style.idempotent and kind < 0.8:
            who = chance.choice((1000, 1001))
        else:
            return made
        producer_epoch, sequence = _next_sequence(led, who)
        return replace(made, producer=(who, producer_epoch, sequence), is_transactional=who >= 2000)

    def _record(self, at: int) -> tuple[bytes | None, bytes | None]:
        chance, style = self.chance, self.style
        key = b"key-%d" % chance.randrange(style.keys) if style.is_compacted or chance.random() < 0.7 else None
        if key is not None and style.magic and chance.random() < 0.08:
            return key, None
        return key, b"%d-%d-" % (self._time - TIME, at) + b"v" * chance.randrange(40)

    def _marker(self, who: int, base: int) -> Batch:
        commits = self.chance.random() < 0.6
        record = (base, struct.pack(">hh", 0, int(commits)), struct.pack(">hi", 0, 0))
        producer = (who, _next_sequence(self.led, who)[0], -1)
        return Batch(base, base, (record,), producer, True, commits, time=self._time, epoch=self.epoch)

    def clean(self, log: Replica) -> None:
        """A pass of the cleaner at one replica."""
        chance, size = self.chance, self.style.segment_bytes
        active = chance.sample((1000, 1001, 2000, 2001), chance.randrange(5))
        clean(log, Pass(chance.random() < 0.4, active, chance.choice((size, 2 * size))))
        for segment in log.segments:
            segment.batches = [_tight(one) for one in segment.batches]

    def delete(self) -> None:
        """Retention takes segments of the leader, or somebody deletes records."""
        led, chance = self.led, self.chance
        if chance.random() < 0.5 and len(led.segments) > 2:
            led.delete_below(led.segments[chance.randrange(1, len(led.segments) - 1)].base, segments=True)
        elif led.end > led.first + 4:
            led.delete_below(chance.randrange(led.first, led.end - 2), segments=chance.random() < 0.5)

    # --- what followers do ----------------------------------------------------------------------------------
    def fetch(self, log: Replica, until: int) -> None:
        """Fetch from the leader up to an offset, behind what is not of its log. Source: KIP-101, KIP-279."""
        line = set(self.line)
        foreign = [one.base for one in log.appended if ident(one) not in line]
        if foreign:
            log.truncate(min(foreign))
        if log.end > self.led.end:
            log.truncate(self.led.end)
        if log.end < self.led.segments[0].base:  # out of range: it begins again where the leader begins
            start = next((one.base for one in self.led.batches if one.last >= self.led.first), self.led.end)
            log.segments, log.end, log.appended, log.epochs = [Segment(start, [])], start, [], []
            log.start, log.aborted, log.known, log.dirty = start, {}, Producers(), None
        for one in self.led.batches:
            if one.last >= log.end and one.last < until:
                log.append(one, self.style.segment_bytes)
        if self.led.first < log.end:
            log.delete_below(self.led.first, segments=self.chance.random() < 0.5)

    def elect(self, number: int, *, overlap: bool = False) -> None:
        """Make a replica the leader.

        Args:
            number: of the replica.
            overlap: its first batch begins below its end, as brokers write it that knew less.
        """
        self.leader = number
        self.epoch += self.chance.randrange(1, 4)
        led = self.led
        before = led.batches[-1] if led.batches else None
        if overlap and self.style.magic == 2 and before is not None and before.last > before.base and led.appended:
            self._time += 1
            first = before.last
            count = self.chance.choice((2, 3))
            records = tuple((first + at, *self._record(at)) for at in range(count))
            self.has_overlaps = True
            self._append(Batch(first, first + count - 1, records, time=self._time, epoch=self.epoch))
        elif self.style.magic == 2:
            led.lead(self.epoch)


def _tight(one: Batch) -> Batch:
    """A message of magic 0 or 1 after a pass: it has no offsets but those of its records."""
    if not isinstance(one, Legacy):
        return one
    return replace(one, base=one.records[0][0], last=one.records[-1][0])


def _next_sequence(log: Log, who: int) -> tuple[int, int]:
    """The epoch of a producer, and its next sequence."""
    for one in reversed(log.appended):
        if one.producer[0] == who and one.commits is None:
            return one.producer[1], one.producer[2] + one.last - one.base + 1
    return 0, 0


# --- a life -------------------------------------------------------------------------------------------------
def style_of(chance: Random) -> Style:
    """Choose what a topic is like."""
    magic = chance.choice((2, 2, 2, 2, 2, 2, 2, 1, 0))
    is_compacted = chance.random() < 0.4
    transactions = magic == 2 and chance.random() < 0.5
    idempotent = magic == 2 and chance.random() < 0.4
    return Style(
        magic, is_compacted, transactions, idempotent, chance.choice((3, 8, 30)), chance.choice((350, 700, 1500))
    )


class Life:
    """What a partition lives through.

    Args:
        chance: decides everything.

    Attributes:
        cluster: as it is in the end.
        backups: replicas as they were before, with their numbers.
    """

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        style = style_of(chance)
        start = chance.choice((0, 0, 0, 0, 1000, 2**31 + 5))
        count = chance.choice((1, 2, 2, 3, 3))
        replicas = [Replica([Segment(start, [])], start, start, number=number) for number in range(count)]
        self.cluster = Cluster(chance, style, replicas)
        self.backups: list[Replica] = []
        if style.magic == 2:
            self.cluster.led.lead(0)
        for number in range(chance.randrange(3, 8)):
            self._round(is_first=number == 0)
        self._settle()

    def _round(self, *, is_first: bool) -> None:
        chance, cluster = self._chance, self.cluster
        cluster.write(chance.randrange(2, 7))
        self._fetch(0.6)
        for log in cluster.replicas:
            if not log.is_gone and chance.random() < 0.15:
                log.roll()
            if cluster.style.is_compacted and not log.is_gone and chance.random() < 0.4:
                cluster.clean(log)
        if chance.random() < 0.07:
            cluster.delete()
        self.backups += [log.copied() for log in cluster.replicas if not log.is_gone and log.batches]
        if not is_first and chance.random() < 0.6:
            self._election()

    def _fetch(self, sure: float) -> None:
        """Let followers fetch, some of them not up to the end."""
        cluster, chance = self.cluster, self._chance
        for log in self._followers():
            until = cluster.led.end
            if chance.random() > sure:
                until -= chance.randrange(0, 6)
            cluster.fetch(log, until)
        mark = min([cluster.led.end, *(log.end for log in self._followers())])
        for log in cluster.replicas:
            if not log.is_gone:
                log.mark = min(mark, log.end)

    def _followers(self) -> list[Replica]:
        cluster = self.cluster
        return [log for log in cluster.replicas if not log.is_gone and log.number != cluster.leader]

    def _election(self) -> None:
        """Another leader, or the same one once more; the old one may go for good, with what nobody has fetched."""
        cluster, chance = self.cluster, self._chance
        old, followers = cluster.led, self._followers()
        if not followers:
            cluster.elect(cluster.leader)
            return
        new = chance.choice(followers)
        is_unclean = cluster.style.magic == 2 and chance.random() < 0.6 and bool(new.batches)
        if not is_unclean:
            cluster.fetch(new, old.end)
        elif chance.random() < 0.7:
            cluster.write(chance.randrange(1, 5))
        cluster.elect(new.number, overlap=chance.random() < 0.06)
        if chance.random() < 0.2:  # of the new epoch a segment has one batch, its last one
            cluster.write(1)
            new.roll()
        if chance.random() < 0.5:
            old.is_gone = True
        gone = [log for log in cluster.replicas if log.is_gone and log is not old]
        if gone and chance.random() < 0.3:
            chance.choice(gone).is_gone = False

    def _settle(self) -> None:
        """What happens before all brokers stop."""
        self.cluster.write(self._chance.randrange(1, 5))
        self._fetch(0.7)
