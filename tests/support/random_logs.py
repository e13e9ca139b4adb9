"""Random logs of a compacted topic with transactions, as brokers could have written them: what Kafka is asked about."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.support.coordinator_records import at, ended
from tests.support.partitions import checkpoint, name
from tests.support.segments import Record

if TYPE_CHECKING:
    import random

    from tests.support.partitions import Files

PRODUCERS = 3
SECOND = 1000


class MadeLog(NamedTuple):
    """A partition, and what is known of it."""

    files: Files  # logs and the leader-epoch-checkpoint alone
    end: int  # of its last batch
    active: int  # base offset of the last segment
    open_from: int  # the first offset of the first open transaction; the end where none is open
    epochs: list[tuple[int, int]]  # leader epochs and their first offsets


def random_log(dice: random.Random, time: int, *, epochs: bool = False) -> MadeLog:
    """Return a log of plain batches and of transactions, of which some are never ended.

    Args:
        dice: decides.
        time: of the first batch, ms; each is a second later.
        epochs: the leader epoch rises now and then.
    """
    offset, epoch, opened = 0, 0, dict[int, int]()
    bounds = [(0, 0)]
    segments: list[tuple[int, list[bytes]]] = [(0, [])]
    keys = [b"k%d" % number for number in range(dice.choice((2, 4, 8)))]
    for number in range(dice.randrange(3, 40)):
        if segments[-1][1] and dice.random() < 0.15:
            segments.append((offset, []))
        if epochs and dice.random() < 0.15:
            epoch += dice.choice((1, 1, 3))
            bounds.append((epoch, offset))
        now = time + number * SECOND
        producer = dice.randrange(PRODUCERS)
        if producer in opened and dice.random() < 0.5:
            segments[-1][1].append(_with_epoch(ended(offset, now, (producer, 0), commit=dice.random() < 0.6), epoch))
            del opened[producer]
            offset += 1
            continue
        count = dice.choice((1, 1, 2, 5))
        records = [_record(dice, keys, number) for _ in range(count)]
        is_in = producer in opened or dice.random() < 0.5
        if is_in:
            opened.setdefault(producer, offset)
        segments[-1][1].append(at(offset, now, *records, producer=(producer, 0) if is_in else None, epoch=epoch))
        offset += count
    for producer in sorted(opened):
        if dice.random() < 0.7:
            segments[-1][1].append(_with_epoch(ended(offset, time, (producer, 0), commit=dice.random() < 0.6), epoch))
            del opened[producer]
            offset += 1
    files = {name(base): b"".join(parts) for base, parts in segments}
    known = [(one, first) for at_, (one, first) in enumerate(bounds) if first < offset and _is_last(bounds, at_)]
    files["leader-epoch-checkpoint"] = checkpoint(*known)
    return MadeLog(files, offset, segments[-1][0], min(opened.values(), default=offset), known)


def _is_last(bounds: list[tuple[int, int]], at_: int) -> bool:
    """Whether an epoch has a batch: no later one begins at its offset."""
    return at_ + 1 == len(bounds) or bounds[at_ + 1][1] > bounds[at_][1]


def _record(dice: random.Random, keys: list[bytes], number: int) -> Record:
    kind = dice.random()
    if kind < 0.05:
        return Record(b"no key", None)
    return Record(None if kind < 0.25 else b"v%d" % number, dice.choice(keys))


def _with_epoch(batch: bytes, epoch: int) -> bytes:
    """The same batch in another leader epoch, which no CRC covers."""
    return batch[:12] + epoch.to_bytes(4, "big") + batch[16:]
