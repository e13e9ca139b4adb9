"""Partitions whose rescue went wrong once: which replicas lie where, byte by byte, and what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.support.partitions import Files, aborted, checkpoint, marker, meta, name, segment, snapshot, write
from tests.support.segments import TIME, TRANSACTIONAL, Record, batch, message, wrapper

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

PARTITION = "orders-0"
_METADATA = b"version: 0\ntopic_id: CCCCCCCCCCCCCCCCCCCCCA\n"


class Part(NamedTuple):
    """A batch: first and last offset, leader epoch, bytes."""

    first: int
    last: int
    epoch: int
    data: bytes

    def with_base(self, base: int) -> Part:
        """The same with another base offset in its header, which no CRC covers."""
        return self._replace(data=base.to_bytes(8, "big") + self.data[8:])

    def with_epoch(self, epoch: int) -> Part:
        """The same with another leader epoch in its header, which no CRC covers."""
        return self._replace(data=self.data[:12] + epoch.to_bytes(4, "big") + self.data[16:])

    def broken(self) -> Part:
        """The same with one wrong bit in its records."""
        return self._replace(data=self.data[:-3] + bytes([self.data[-3] ^ 4]) + self.data[-2:])


def part(first: int, count: int = 2, epoch: int = 0, value: str = "v") -> Part:
    """A batch of records with keys of their own."""
    records = [Record(f"{value}{first + at}".encode(), f"k{first + at}".encode()) for at in range(count)]
    return Part(first, first + count - 1, epoch, batch(first, records, epoch=epoch, base_timestamp=TIME + first))


def parts(first: int, stop: int, epoch: int = 0, value: str = "v") -> list[Part]:
    """Batches of two records each."""
    return [part(at, 2, epoch, value) for at in range(first, stop, 2)]


def replica(
    logs: Iterable[tuple[int, Sequence[Part]]],
    *,
    epochs: Sequence[tuple[int, int]] | None = None,
    end: int | None = None,
) -> Files:
    """The directory of a replica.

    Args:
        logs: base offset and batches of each segment.
        epochs: entries of its leader-epoch-checkpoint; None: it has none.
        end: there is a snapshot at this offset; None: there is none.
    """
    files: Files = {"partition.metadata": _METADATA}
    for base, some in logs:
        files |= segment(base, [one.data for one in some], interval=0)
    if epochs is not None:
        files["leader-epoch-checkpoint"] = checkpoint(*epochs)
    if end is not None:
        files[name(end, "snapshot")] = snapshot()
    return files


def lay(root: Path, *replicas: Files) -> None:
    """Write replicas, each into a log directory of its own: b0, b1, ..."""
    for number, files in enumerate(replicas):
        write(root / f"b{number}" / PARTITION, files)


# --- base offsets -------------------------------------------------------------------------------------------
def moved_in_an_image(root: Path) -> None:
    """An image with one whole log; of one batch bit 58 of the base offset is wrong."""
    some = parts(0, 20)
    some[5] = some[5].with_base(10 | 1 << 58)
    (root / "image").write_bytes(bytes(512) + b"".join(one.data for one in some) + bytes(4096))


def foreign_by_one_offset(root: Path) -> None:
    """Cleaned copies: in one the last batch of a segment is one bit off (9 -> 13), in the other a record is broken."""
    cleaned = [part(3, 1), part(5, 1), part(7, 1), part(9, 1)]
    moved, broken = list(cleaned), list(cleaned)
    moved[3] = moved[3].with_base(13)
    broken[1] = broken[1].broken()
    rest = (10, [part(10, 1), part(11, 1)])
    lay(root, *(replica([(0, some), rest], epochs=[(0, 0)], end=12) for some in (moved, broken)))


def renamed_hole(root: Path) -> None:
    """The second log was renamed (20 -> 1020), and the batch before it is one bit off (18 -> 26); nothing is lost."""
    some = parts(0, 30)
    some[9] = some[9].with_base(26)
    files = replica([(0, some[:10]), (20, some[10:])], epochs=[(0, 0)])
    for suffix in ("log", "index", "timeindex"):
        files[name(1020, suffix)] = files.pop(name(20, suffix))
    lay(root, files)


def overlap_at_the_end(root: Path) -> None:
    """A new leader's batch begins below the end, as the epoch file says; the end is 12 by all other files."""
    files = replica([(0, [part(0, 8, 3, "old"), part(5, 7, 4, "new")])], epochs=[(3, 0), (4, 5)], end=12)
    with_log_dir(root / "b0", files, end=12)


def lost_first_of_a_segment(root: Path) -> None:
    """The first batch of a segment is gone, and one is left in it; nothing else is damaged."""
    some = [part(0, 4), part(4, 4), part(8, 3), part(11, 1), part(12, 4)]
    lay(root, replica([(0, some[:2]), (8, some[3:4]), (12, some[4:])], epochs=[(0, 0)], end=16))


def cleaned_wrappers(root: Path) -> None:
    """Two healthy copies of magic 1: a cleaner took the last record of a compressed message in one of them."""
    head, tail = [message(1, at, b"v%d" % at, key=b"k%d" % at) for at in (0, 3)]
    whole, cleaned = wrapper(1, 1, [b"v1", b"v2"]), wrapper(1, 1, [b"v1"])
    for number, middle in enumerate((whole, cleaned)):
        write(root / f"b{number}" / PARTITION, {name(0): head + middle + tail, "partition.metadata": _METADATA})


# --- leader epochs ------------------------------------------------------------------------------------------
def first_epoch_flip(root: Path) -> None:
    """One copy begins at 20, and its first epoch is one bit off; of the other the batch 20..21 is broken."""
    some = parts(0, 24, 1) + parts(24, 40, 2)
    broken = [*some[:10], some[10].broken(), *some[11:]]
    flipped = [some[10].with_epoch(1 | 1 << 25), *some[11:]]
    lay(
        root,
        replica([(0, broken[:10]), (20, broken[10:])], end=40),
        replica([(20, flipped[:1]), (22, flipped[1:])], end=40),
    )


def newest_epoch_flip(root: Path) -> None:
    """The last batch is the first of epoch 1, and its epoch is one bit off; the file begins epoch 1 right there."""
    some = parts(0, 66) + parts(66, 68, 1)
    lay(
        root,
        replica([(0, [*some[:-1], some[-1].with_epoch(2049)])], epochs=[(0, 0), (1, 66)], end=68),
        replica([(0, some[:-1])], epochs=[(0, 0)], end=66),
    )


def older_epoch_file(root: Path) -> None:
    """Nothing is damaged: epoch 1 began with the last batch of a segment, and the epoch file is an older copy."""
    some = parts(0, 4) + parts(4, 12, 1)
    lay(root, replica([(0, some[:3]), (6, some[3:])], epochs=[(0, 0)], end=12))


def older_file_before_the_last_batch(root: Path) -> None:
    """Nothing is damaged: the last batch is the first of epoch 6, and the epoch file, an older copy, ends with 3."""
    some = parts(0, 4) + parts(4, 8, 3) + parts(8, 10, 6)
    lay(root, replica([(0, some)], epochs=[(0, 0), (3, 4)], end=10))


def epoch_flip_at_a_roll(root: Path) -> None:
    """The first batch of a segment has a wrong bit in its epoch (3 -> 2), between batches of epoch 3."""
    some = [part(0, 2, 2), part(2, 2, 3), part(4, 2, 3).with_epoch(2), part(6, 2, 3)]
    lay(root, replica([(0, some[:2]), (4, some[2:])], epochs=[(2, 0), (3, 2)], end=8))


# --- branches -----------------------------------------------------------------------------------------------
def mixed_branches(root: Path) -> None:
    """The last leader lost its first log, and its epoch file lacks the newest epoch; the other is an old leader's."""
    line = parts(0, 8, 5) + parts(8, 20, 7, "new") + parts(20, 30, 9, "new")
    led = replica([(0, line[:10]), (20, line[10:])], epochs=[(5, 0), (7, 8)], end=30)
    led[name(0)] = led[name(0)][:1]
    lay(root, led, replica([(0, line[:4] + parts(8, 20, 5, "old"))], epochs=[(5, 0)], end=20))


def stale_epoch_file(root: Path) -> None:
    """Of the last leader, epoch 9, the epoch file ends with epoch 0; the other is an old leader's, of epoch 8."""
    shared = parts(0, 8)
    lay(
        root,
        replica([(0, shared + parts(8, 14, 8, "old"))], epochs=[(0, 0), (8, 8)], end=14),
        replica([(0, shared + parts(8, 18, 9, "new"))], epochs=[(0, 0)], end=18),
    )


def cleaned_parting(root: Path) -> None:
    """An old leader goes on at 11, where the epoch files of the others begin epoch 1; a cleaner took their batches."""
    shared = parts(0, 10)
    old = [part(10, 1, 0, "old"), part(11, 5, 0, "old")]
    new = parts(20, 30, 1, "new") + parts(30, 40, 2, "new")
    branch = [(0, 0), (1, 11), (2, 30)]
    lay(
        root,
        replica([(0, shared + old)], epochs=[(0, 0)], end=16),
        replica([(0, [*shared, old[0], *new[1:5]]), (30, new[5:])], epochs=branch, end=40),
        replica([(0, [*shared, old[0], *new[:4]]), (30, new[5:])], epochs=branch, end=40),
    )


# --- transactions -------------------------------------------------------------------------------------------
def lost_commit(root: Path) -> None:
    """A cleaned log without a COMMIT marker at 13; the index says that the transaction aborted at 27 began at 21."""
    who = (22, 0)
    first = [
        part(0, 1),
        of_transaction(2, 2, (*who, 0)),
        part(7, 5),
        part(14, 6),
    ]
    second = [part(20, 1), of_transaction(21, 1, (*who, 2)), part(22, 5), _marker(27, who)]
    files = replica([(0, first), (20, second)], epochs=[(0, 0)])
    files[name(20, "txnindex")] = aborted(who[0], 21, 27, 28)
    files[name(28, "snapshot")] = snapshot((22, 0, 2, 21, 0, TIME + 21, 0, -1))
    lay(root, files)


def failed_index(root: Path) -> None:
    """The transaction index failed behind an ABORT marker at 4, and the next batch took the marker's offset."""
    who = (7, 0)
    some = [
        of_transaction(0, 2, (*who, 0)),
        of_transaction(2, 2, (*who, 2)),
        _marker(4, who),
        part(4, 1),
        part(5, 1),
    ]
    with_log_dir(root / "b0", replica([(0, some)], epochs=[(0, 0)]), end=6)


def of_transaction(first: int, count: int, producer: tuple[int, int, int]) -> Part:
    """A batch of a transaction; of its producer id, epoch and first sequence."""
    values = [f"t{first + at}".encode() for at in range(count)]
    data = batch(first, values, flags=TRANSACTIONAL, producer=producer, base_timestamp=TIME + first)
    return Part(first, first + count - 1, 0, data)


def _marker(offset: int, producer: tuple[int, int]) -> Part:
    return Part(offset, offset, 0, marker(offset, producer, commit=False))


# --- log starts ---------------------------------------------------------------------------------------------
def deleted_records(root: Path) -> None:
    """Somebody deleted all records below 25 by mistake; the segments that had them are still there."""
    logs = [(base, [part(at, 1) for at in range(base, base + 10)]) for base in (0, 10, 20)]
    with_log_dir(root / "b0", replica(logs, epochs=[(0, 25)], end=30), end=30, start=25)


def log_start_inside_a_batch(root: Path) -> None:
    """Nothing is damaged: the log start of the last leader lies in a batch; the file begins the first epoch there.

    The other is an old leader's copy. Source: LeaderEpochFileCache.truncateFromStart.
    """
    shared = parts(0, 8)
    line = shared + parts(8, 12, 2, "new") + parts(12, 20, 3, "new")
    led = replica([(0, line[:4]), (8, line[4:6]), (12, line[6:])], epochs=[(2, 11), (3, 12)], end=20)
    with_log_dir(root / "b0", led, end=20, start=11)
    with_log_dir(root / "b1", replica([(0, shared + parts(8, 12, 0, "old"))], epochs=[(0, 0)], end=12), end=12)


def log_start_of_another_branch(root: Path) -> None:
    """The log start of the last leader lies above all that an old leader has."""
    shared = parts(0, 8)
    line = shared + parts(8, 30, 2, "new")
    with_log_dir(root / "b0", replica([(0, shared + parts(8, 12, 0, "old"))], epochs=[(0, 0)], end=12), end=12)
    led = replica([(0, line[:10]), (20, line[10:])], epochs=[(2, 20)], end=30)
    with_log_dir(root / "b1", led, end=30, start=20)


def with_log_dir(path: Path, files: Files, *, end: int, start: int | None = None) -> None:
    """Write a replica, and what its broker has beside it: its end, and a log start if there is one."""
    topic, number = PARTITION.rsplit("-", 1)
    ends = checkpoint((topic, number, end))
    beside = {
        "meta.properties": meta(1),
        "recovery-point-offset-checkpoint": ends,
        "replication-offset-checkpoint": ends,
        "log-start-offset-checkpoint": checkpoint(*([] if start is None else [(topic, number, start)])),
    }
    write(path, beside)
    write(path / PARTITION, files)
