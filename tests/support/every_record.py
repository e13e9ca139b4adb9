"""What salvage writes and tells against what its sources have: each intact record is written, or a row says why not.

    python -m tests.support.every_record --overlaps 2000 --rolls 2000 --healing 10000 --corpora DIR... --jobs 2

A batch counts as intact where its CRC is right, wherever it lies in a log; it is looked for here without kdump, byte by
byte. It is told where the result has it, or a `divergent` row of its source has its offsets, or a `loss` row its
bytes. What is in no row is printed with the number of its run; exit status 1 then. Of one source the records that are
written, and those of all rows, are at least as many as it has; no row about a batch with a true CRC leaves their number
open; and where no header was damaged none is changed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from crc32c import crc32c

import kdump
from kdump.rescue.salvage import Wanted, salvage
from kdump.rows.salvaged import SalvageDone, SalvageRefused
from tests.support.damaged_copies import damaged_copies
from tests.support.healing import OPTIONS, PARTITION, Quick
from tests.support.partitions import checkpoint, marker, name, snapshot, write
from tests.support.segments import batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_MEMORY = Path("/dev/shm")
_TOGETHER = 50
_MAGIC_2, _HEADER = 2, 61


class Intact(NamedTuple):
    """A batch with a right CRC: its log, where it lies, its offsets as stored, and what its CRC covers."""

    log: Path
    position: int
    size: int
    first: int
    last: int
    body: bytes

    @property
    def records(self) -> int:
        """How many it has."""
        return int.from_bytes(self.body[36:40], "big", signed=True)


def intact(log: Path) -> Iterator[Intact]:
    """The batches of magic 2 of a log whose CRC is right, in order; what lies inside one is its content.

    One whose base offset is zeros, behind zeros, is none: nobody knows where it belongs, and it goes with these bytes.
    """
    data, at = log.read_bytes(), 0
    while at + _HEADER <= len(data):
        size = int.from_bytes(data[at + 8 : at + 12], "big", signed=True) + 12
        is_whole = data[at + 16] == _MAGIC_2 and _HEADER <= size <= len(data) - at
        if is_whole and crc32c(data[at + 21 : at + size]) == int.from_bytes(data[at + 17 : at + 21], "big"):
            first = int.from_bytes(data[at : at + 8], "big", signed=True)
            last = first + int.from_bytes(data[at + 23 : at + 27], "big", signed=True)
            if any(data[max(0, at - 8) : at + 8]) or not at:
                yield Intact(log, at, size, first, last, data[at + 21 : at + size])
            at += size
        else:
            at += 1


def untold(sources: Sequence[Path], out: Path, partition: str = PARTITION) -> list[str]:
    """The intact batches of sources that are neither in the result of salvage nor in a row of it.

    Args:
        sources: partition directories.
        out: the directory of the result.
        partition: its name.
    """
    written = [one for log in sorted((out / partition).glob("*.log")) for one in intact(log)]
    texts = (out / f"{partition}.salvage.jsonl").read_text().splitlines()
    rows: list[dict[str, Any]] = [json.loads(text) for text in texts]
    moved = {(row["file"], row["position"]): row["to"] for row in rows if row.get("field") == "baseOffset"}
    found = []
    for source in sources:
        have = Counter(one.body for one in written)
        twins: dict[bytes, list[Intact]] = {}
        for log in sorted(source.glob("*.log")):
            for one in intact(log):
                by = moved.get((str(log), one.position), one.first) - one.first
                twins.setdefault(one.body, []).append(one._replace(first=one.first + by, last=one.last + by))
        for body, some in twins.items():
            out_of_it = len(some) - have[body]
            told = sum(any(_tells(row, source, one) for row in rows) or _is_within(one, written) for one in some)
            if out_of_it > told:
                one = some[-1]
                found.append(f"{one.log}: offsets {one.first}..{one.last} at byte {one.position} are in no row")
        if len(sources) == 1:
            found += _uncounted(rows, [one for some in twins.values() for one in some])
    return found


def _uncounted(rows: Sequence[dict[str, Any]], own: Sequence[Intact]) -> list[str]:
    """Rows about intact batches of a source that do not tell their records, or too few of them."""
    told = sum(row["records"] or 0 for row in rows if row["type"] in ("kept", "divergent", "loss"))
    have = sum(one.records for one in own)
    found = [f"{have} records in the source, and {told} in the rows"] if told < have else []
    open_rows = [row for row in rows if row["type"] == "loss" and row["file"] and row["records"] is None]
    for row in open_rows:
        its = [one for one in own if one.position == row["position"] and one.log.name == Path(row["file"]).name]
        found += [f"offsets {row['offset']}..{row['lastOffset']}: records of {one.log} are not told" for one in its]
    return found


def _tells(row: dict[str, Any], source: Path, one: Intact) -> bool:
    """Whether a row says what became of a batch that is not in the result."""
    if row["type"] == "divergent":
        is_its = str(source).startswith(row["source"])
        return is_its and row["offset"] <= one.first and one.last <= row["lastOffset"] and row["records"] > 0
    if row["type"] != "loss" or row["file"] is None or Path(row["file"]).name != one.log.name:
        return False
    # zeros that reach into the base offset of a batch leave the rest of it behind the bytes that a row names
    return bool(row["position"] < one.position + one.size and one.position < row["position"] + row["length"])


def _is_within(one: Intact, written: Sequence[Intact]) -> bool:
    """Whether a batch of the result has all of its records at their offsets: a cleaned copy, and one that is not."""
    others = [
        other for other in written if (other.first, other.last) == (one.first, one.last) and other.body != one.body
    ]
    return any(_records(one) <= _records(other) for other in others)


def _records(one: Intact) -> set[tuple[object, ...]]:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, name(one.first))
        log.write_bytes(one.log.read_bytes()[one.position : one.position + one.size])
        return {(row.offset, row.key, row.value) for row in kdump.records(log)}


# --- runs ---------------------------------------------------------------------------------------------------
def _salvaged(sources: Sequence[Path], out: Path) -> tuple[list[str], bool]:
    """What is wrong with a rescue of sources, and whether something was written; the first decides where one must."""
    options, paths = OPTIONS, [str(path) for path in sources]
    for prefer in (None, paths[0]):
        items = list(salvage(paths, Wanted(str(out), None, ()), options.replace(prefer=prefer), Quick()))
        if any(isinstance(item, SalvageDone) for item in items):
            return untold(sources, out), True
        if not any(isinstance(item, SalvageRefused) and "--prefer" in item.why for item in items):
            break
    return [], False


def healing(root: Path, seed: int) -> tuple[list[str], bool]:
    """Three copies that are damaged at random."""
    return _salvaged(damaged_copies(root, Random(seed)).paths, root / "out")


def overlapping(root: Path, seed: int) -> list[Path]:
    """Make one or two copies of a log with overlaps, twins, and markers or batches that share offsets."""
    chance = Random(seed)
    parts, end, epoch = _log(chance)
    paths = []
    for copy in range(chance.choice((1, 1, 2))):
        own = list(parts)
        if copy and chance.random() < 0.5:
            del own[chance.randrange(len(own))]
        files = {name(0): b"".join(own)}
        if chance.random() < 0.5:
            files["leader-epoch-checkpoint"] = checkpoint(*epoch)
        if chance.random() < 0.5:
            files[name(end, "snapshot")] = snapshot()
        paths.append(write(root / f"b{copy}" / PARTITION, files))
    return paths


def overlaps(root: Path, seed: int) -> tuple[list[str], bool]:
    """Salvage what `overlapping` makes."""
    return _salvaged(overlapping(root, seed), root / "out")


def rolling(root: Path, seed: int) -> list[Path]:
    """Make a log of several segments; new leaders' batches begin below the end, at rolls too, and some are damaged."""
    chance = Random(seed)
    end, epoch = chance.choice((0, 0, 100)), 0
    begin = base = end
    epochs, files, parts = [(0, end)], dict[str, bytes](), list[bytes]()
    for number in range(chance.randrange(2, 11)):
        first, size = end, chance.randrange(1, 7)
        if chance.random() < 0.35 and end > begin:
            first = max(begin, end - chance.randrange(1, 9))
            size = max(size, end - first + chance.randrange(1, 4))
            epoch += chance.randrange(1, 4)
            epochs = [*(one for one in epochs if one[1] < first), (epoch, first)]
        parts.append(batch(first, [f"{number}-{at}".encode() for at in range(size)], epoch=epoch))
        end = first + size
        if chance.random() < 0.3:
            files[name(base)], base, parts = _damaged(chance, parts), end, []
    if parts:
        files[name(base)] = _damaged(chance, parts)
    if chance.random() < 0.6:
        files["leader-epoch-checkpoint"] = checkpoint(*epochs)
    if chance.random() < 0.5:
        files[name(end, "snapshot")] = snapshot()
    known = [("plain", 0, end)] if chance.random() < 0.6 else []
    write(root / "d", {"recovery-point-offset-checkpoint": checkpoint(*known)})
    return [write(root / "d" / PARTITION, files)]


def rolls(root: Path, seed: int) -> tuple[list[str], bool]:
    """Salvage what `rolling` makes; no header may be changed."""
    found, is_written = _salvaged(rolling(root, seed), root / "out")
    rows = (root / "out" / f"{PARTITION}.salvage.jsonl").read_text() if is_written else ""
    return found + [row for row in rows.splitlines() if '"patched"' in row], is_written


def _damaged(chance: Random, parts: Sequence[bytes]) -> bytes:
    """Batches one behind the other, now and then with a wrong bit in the records of one."""
    which = chance.randrange(len(parts)) if chance.random() < 0.2 else -1
    flipped = [one[:-1] + bytes([one[-1] ^ 1]) if k == which else one for k, one in enumerate(parts)]
    return b"".join(flipped)


def _log(chance: Random) -> tuple[list[bytes], int, list[tuple[int, int]]]:
    parts: list[bytes] = []
    end, epoch, epochs = 0, 0, [(0, 0)]
    for number in range(chance.randrange(3, 12)):
        size = chance.randrange(1, 6)
        what = chance.choice(("next", "next", "next", "overlap", "inside", "same", "twin", "marker", "hole"))
        first = end
        if what == "overlap" and end:
            first = max(0, end - chance.randrange(1, size + 1))
            if chance.random() < 0.6:
                epoch += 1
                epochs.append((epoch, first))
        elif what == "inside" and end > 2:
            first, size = chance.randrange(end - 2), 1
        elif what == "same" and end:
            first, size = end - 1, 1
        elif what == "hole":
            first += chance.randrange(1, 4)
        if what == "twin" and parts:
            body = parts[-1]
            span = int.from_bytes(body[23:27], "big")
            parts.append(end.to_bytes(8, "big") + body[8:])
            end += span + 1
            continue
        if what == "marker":
            first = max(0, first - chance.randrange(2))
            parts.append(marker(first, (7, 0), commit=chance.random() < 0.5, epoch=epoch))
            end = max(end, first + 1)
            continue
        values = [f"{seed_of(number)}-{at}".encode() for at in range(size)]
        parts.append(batch(first, values, epoch=epoch))
        end = max(end, first + size)
    return parts, end, epochs


def seed_of(number: int) -> str:
    """Content that batches of one log share now and then."""
    return "ab"[number % 2]


def many(make: Callable[[Path, int], tuple[list[str], bool]], seeds: range) -> list[tuple[int, list[str], bool]]:
    """Make runs in a directory in memory: number, what does not hold, whether something was written."""
    found = []
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        for seed in seeds:
            root = Path(folder, str(seed))
            root.mkdir()
            found.append((seed, *make(root, seed)))
            shutil.rmtree(root)
    return found


def of_corpora(paths: Sequence[Path]) -> tuple[list[str], int]:
    """Salvage each partition directory below some paths alone; what is untold, and how many were written."""
    found: list[str] = []
    count = 0
    for root in paths:
        for directory in sorted({log.parent for log in root.rglob("*.log")}):
            with tempfile.TemporaryDirectory() as folder:
                told = kdump_salvage(directory, Path(folder, "out"))
                count += told is not None
                found += told or []
    return found, count


def kdump_salvage(directory: Path, out: Path) -> list[str] | None:
    """Salvage one partition directory; what is untold, None where nothing was written."""
    items = list(salvage([str(directory)], Wanted(str(out), None, ()), OPTIONS, Quick()))
    done = [item for item in items if isinstance(item, SalvageDone)]
    return [one for item in done for one in untold([directory], out, item.salvaged.partition)] if done else None


def main() -> int:
    """Make the runs that were asked for; print what does not hold and what all came to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--overlaps", type=int, default=0, help="runs over logs with overlaps")
    parser.add_argument("--rolls", type=int, default=0, help="runs over logs with overlaps at segment rolls")
    parser.add_argument("--healing", type=int, default=0, help="runs over three damaged copies")
    parser.add_argument("--corpora", type=Path, nargs="*", default=(), help="directories with partitions")
    parser.add_argument("--seed", type=int, default=0, help="number of the first run")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    given = parser.parse_args()
    bad = 0
    with ProcessPoolExecutor(given.jobs) as pool:
        for make, runs in ((overlaps, given.overlaps), (rolls, given.rolls), (healing, given.healing)):
            seeds = range(given.seed, given.seed + runs)
            pieces = [seeds[at : at + _TOGETHER] for at in range(0, len(seeds), _TOGETHER)]
            wrong = written = 0
            for outcomes in pool.map(partial(many, make), pieces):
                for seed, faults, is_written in outcomes:
                    written += is_written
                    wrong += bool(faults)
                    if faults:
                        print(f"{make.__name__} {seed}", *faults, sep="\n    ", flush=True)
            if runs:
                print(f"{make.__name__}: {runs} runs, {written} written, {wrong} wrong")
            bad += wrong
    faults, count = of_corpora(given.corpora)
    if given.corpora:
        print(*faults, f"corpora: {count} partitions, {len(faults)} batches in no row", sep="\n")
    return int(bool(bad or faults))


if __name__ == "__main__":
    sys.exit(main())
