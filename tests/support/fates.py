"""Salvage and dump over damaged transactions: what was aborted never comes out as committed, or the reverse.

    python -m tests.support.fates --every 1                 # all damages of the partitions of the fixtures
    python -m tests.support.fates --every 50 DIR...         # each fiftieth, of other intact partitions

Each damage is made in a copy of an intact partition: the log of a segment is removed, alone or with all files of the
segment; a marker is overwritten with zeros, alone or with what lies around it, or cut out where compaction has left no
other holes, with the transaction indexes and without; each bit of a control batch is flipped, and some in each byte of
the headers of others. What salvage writes, and what `dump` tells of the damaged partition itself, is held against the
intact log, which is read without kdump.
Exit status 1 where a fate is another one, or dump doubts one that salvage keeps.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kdump.broker.producer.transaction_fates import IN_DOUBT
from kdump.rescue.salvage import Wanted, salvage
from kdump.rows.salvaged import SalvageRefused
from tests.support.healing import OPTIONS, Quick
from tests.support.runs import FIXTURES, run_kdump

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PARTITIONS = (
    "damage/intact/txn/logdir/payments-0",
    *(f"kafka-4.3.1/clean/node1/{name}" for name in ("txnspan-0", "txn-0", "compacttxn-0")),
    *(f"releases/{release}/logs/txn-0" for release in ("0.11.0.3", "3.9.2")),
    *(f"cleanup/partitions/c-{name}/logdir/{name}-0" for name in ("txn", "txnopen", "txnidem")),
)
_HEADER = 61  # bytes before the records of a batch
_CONTROL = 0x20
_TRANSACTIONAL = 0x10
_AROUND = 300  # bytes on both sides of a marker
_TOGETHER = 40  # damages that a process makes at a time
_MEMORY = Path("/dev/shm")


class Batch(NamedTuple):
    """A batch of magic 2: where it is, its offsets, CRC, and what tells its fate."""

    log: str
    position: int
    size: int
    offset: int
    last: int
    crc: int
    flags: int
    producer: int
    is_abort: bool


class Damage(NamedTuple):
    """What is done to a copy of a partition.

    Args:
        removed: names of files.
        log: name of the one that is written to, "" for none.
        position: of the bytes.
        data: they.
        cut: how many bytes are cut out there.
    """

    removed: tuple[str, ...]
    log: str = ""
    position: int = 0
    data: bytes = b""
    cut: int = 0

    def __str__(self) -> str:
        told = [f"without {', '.join(self.removed)}"] if self.removed else []
        told += [f"{self.log} {self.position} {self.data[:8].hex()} ({len(self.data)} bytes)"] if self.data else []
        told += [f"{self.cut} bytes cut out of {self.log} at {self.position}"] if self.cut else []
        return ", ".join(told)

    def make(self, partition: Path) -> None:
        """Damage a copy."""
        for name in self.removed:
            (partition / name).unlink()
        if self.data:
            with (partition / self.log).open("r+b") as log:
                log.seek(self.position)
                log.write(self.data)
        if self.cut:
            data = (partition / self.log).read_bytes()
            (partition / self.log).write_bytes(data[: self.position] + data[self.position + self.cut :])


def batches(partition: Path) -> list[Batch]:
    """The batches of an intact partition, or of one that salvage wrote, as their lengths tell them."""
    found = []
    for log in sorted(partition.glob("*.log")):
        data, at = log.read_bytes(), 0
        while at < len(data):
            size = int.from_bytes(data[at + 8 : at + 12], "big") + 12
            one = data[at : at + size]
            crc, flags = int.from_bytes(one[17:21], "big"), int.from_bytes(one[21:23], "big")
            offset, producer = (int.from_bytes(one[k : k + 8], "big", signed=True) for k in (0, 43))
            # of a marker the second byte of the type, in the key; one whose record was cleaned away ends nothing
            is_abort = bool(flags & _CONTROL) and size > _HEADER and one[_HEADER + 8] == 0
            last = offset + int.from_bytes(one[23:27], "big")
            found.append(Batch(log.name, at, size, offset, last, crc, flags, producer, is_abort))
            at += size
    return found


def fates(batches: Sequence[Batch]) -> dict[tuple[int, int], str]:
    """The fate of each transactional batch that is no marker, by offset and CRC: the next marker of its producer."""
    found: dict[tuple[int, int], str] = {}
    running: dict[int, list[Batch]] = {}
    for one in batches:
        if one.flags & _CONTROL and one.size > _HEADER:
            for of in running.pop(one.producer, []):
                found[of.offset, of.crc] = "aborted" if one.is_abort else "committed"
        elif one.flags & (_CONTROL | _TRANSACTIONAL) == _TRANSACTIONAL:
            running.setdefault(one.producer, []).append(one)
    found.update({(one.offset, one.crc): "open" for some in running.values() for one in some})
    return found


@cache
def intact_fates(partition: Path) -> dict[tuple[int, int], str]:
    """The fates of an intact partition."""
    return fates(batches(partition))


def damages(partition: Path) -> Iterator[Damage]:
    """All damages of a partition."""
    bases = sorted(log.stem for log in partition.glob("*.log"))
    for base in bases[len(bases) == 1 :]:
        yield Damage((f"{base}.log",))
        yield Damage(tuple(sorted(path.name for path in partition.glob(f"{base}.*"))))
    indexes = tuple(sorted(path.name for path in partition.glob("*.txnindex")))
    all_batches = batches(partition)
    is_dense = all(before.last + 1 == one.offset for before, one in pairwise(all_batches))
    for one in all_batches:
        data = (partition / one.log).read_bytes()
        if not one.flags & _CONTROL or one.producer < 0:
            for at in range(one.position, one.position + _HEADER):
                yield from (Damage((), one.log, at, bytes([data[at] ^ mask])) for mask in (1 << at % 8, 0xFF))
            continue
        first, last = max(0, one.position - _AROUND), min(len(data), one.position + one.size + _AROUND)
        for removed in ((), indexes) if indexes else ((),):
            yield Damage(removed, one.log, one.position, bytes(one.size))
            yield Damage(removed, one.log, first, bytes(last - first))
            if is_dense:
                yield Damage(removed, one.log, one.position, cut=one.size)
        for at in range(one.position, one.position + one.size):
            yield from (Damage((), one.log, at, bytes([data[at] ^ 1 << bit])) for bit in range(8))
            yield Damage(indexes, one.log, at, bytes([data[at] ^ 0xFF]))


def salvaged_otherwise(partition: Path, damage: Damage, *, salvages: bool = True, dumps: bool = True) -> list[str]:
    """Salvage and dump a damaged copy; return what has another fate then, a sentence each.

    Args:
        partition: intact.
        damage: of the copy.
        salvages, dumps: do so.
    """
    truth = intact_fates(partition)
    told: dict[tuple[int, int], str] = {}
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        copy = Path(folder, partition.name)
        shutil.copytree(partition, copy)
        damage.make(copy)
        faults: list[str] = []
        if dumps:
            told = _dumped(copy, truth)
            faults += _differences("dump --fate", truth, told)
        if salvages:
            items = list(salvage([str(copy)], Wanted(f"{folder}/out", None, ()), OPTIONS, Quick()))
            faults += [f"refused: {item.why}" for item in items if isinstance(item, SalvageRefused)]
            got = fates(batches(Path(folder, "out", partition.name)))
            faults += _differences("salvage", truth, got)
            doubted = sorted(key[0] for key, fate in got.items() if fate != "open" and told.get(key) == IN_DOUBT)
            faults += [f"dump --fate doubts what salvage knows: {doubted}"] if doubted else []
    return faults


def _differences(who: str, truth: dict[tuple[int, int], str], got: dict[tuple[int, int], str]) -> Iterator[str]:
    """A transaction whose end is lost may be open; all else must be as it was."""
    wrong = Counter(
        (truth.get(key, "unknown"), fate) for key, fate in got.items() if fate not in ("open", IN_DOUBT, truth.get(key))
    )
    for (was, fate), count in wrong.items():
        offsets = sorted(key[0] for key, one in got.items() if one == fate and truth.get(key, "unknown") == was)
        yield f"{who}: {count} batches were {was}, and are {fate}: {offsets}"


def _dumped(copy: Path, truth: dict[tuple[int, int], str]) -> dict[tuple[int, int], str]:
    by_crc = {crc: (offset, crc) for offset, crc in truth}
    got: dict[tuple[int, int], str] = {}
    current = 0
    run = run_kdump(["dump", str(copy), "--fate", "--deep-iteration", "--format", "json"], copy.parent)
    for row in map(json.loads, run.stdout.splitlines()):
        if row["type"] == "batch":
            current = row["crc"] if row["isvalid"] else -1
        elif row["type"] == "record" and current in by_crc:
            got[by_crc[current]] = row["fate"]["transaction"] or IN_DOUBT
    return got


def _together(partition: Path, some: Sequence[Damage], dumps: bool) -> list[tuple[Damage, list[str]]]:
    return [(one, salvaged_otherwise(partition, one, dumps=dumps)) for one in some]


def main() -> int:
    """Make the damages that were asked for; print what does not hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only each Nth damage")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--salvage-only", action="store_true", help="pass over dump")
    parser.add_argument("partitions", nargs="*", type=Path, metavar="DIR", help="intact partitions of magic 2")
    given = parser.parse_args()
    runs = bad = 0
    with ProcessPoolExecutor(given.jobs) as pool:
        for partition in given.partitions or [FIXTURES / name for name in PARTITIONS]:
            chosen = list(damages(partition))[:: given.every]
            pieces = [chosen[at : at + _TOGETHER] for at in range(0, len(chosen), _TOGETHER)]
            more = [partition] * len(pieces), pieces, [not given.salvage_only] * len(pieces)
            for outcomes in pool.map(_together, *more):
                for damage, faults in outcomes:
                    runs += 1
                    if faults:
                        bad += 1
                        print(f"{partition}: {damage}", *faults, sep="\n    ", flush=True)
    print(f"{runs} damages, {bad} with another fate")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
