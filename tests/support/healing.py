"""Salvage over three copies damaged at random, many times: what is intact in any copy comes out, the rest is told.

    python -m tests.support.healing --runs 10000 --seed 0 --jobs 2

Each run has a number, from `--seed` on; it decides everything. What does not hold is printed with its number, so that
`--seed N --runs 1 --keep DIR` makes that case again and leaves its copies and its result in DIR. Exit status 1 then.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from kdump.format.read_limits import ReadLimits
from kdump.rescue.partition_salvage import SalvageOptions
from kdump.rescue.salvage import Wanted, salvage
from kdump.rows.salvaged import SalvageDone, SalvageRefused
from kdump.storage.fsops import FileOps
from tests.support.damaged_copies import Copies, damaged_copies

if TYPE_CHECKING:
    from collections.abc import Iterator

OPTIONS = SalvageOptions(1 << 30, None, None, False, ReadLimits(1 << 26, 1 << 26), False)
PARTITION = "plain-0"
_TOGETHER = 50  # runs that a process makes at a time
_MEMORY = Path("/dev/shm")


class Quick(FileOps):
    """Waits for no disk."""

    def sync(self, fd: int) -> None:
        """Do nothing."""


class Outcome(NamedTuple):
    """A run: how the copies were damaged, what does not hold, batches that are there and lost, whether it was asked."""

    seed: int
    what: list[str]
    faults: list[str]
    batches: int
    lost: int
    healed: bool
    asked: bool


def batches(folder: Path) -> dict[int, bytes]:
    """The batches of a partition by their offsets, as lengths tell them."""
    found = {}
    for log in sorted(folder.glob("*.log")):
        data, at = log.read_bytes(), 0
        while at < len(data):
            size = int.from_bytes(data[at + 8 : at + 12], "big") + 12
            found[int.from_bytes(data[at : at + 8], "big")] = data[at : at + size]
            at += size
    return found


def last_offset(base: int, data: bytes) -> int:
    """The last offset of a batch of magic 2."""
    return base + int.from_bytes(data[23:27], "big")


def heal(root: Path, seed: int) -> Outcome:
    """Damage copies, salvage them, and hold the result against the intact log.

    Args:
        root: an empty directory for both.
        seed: decides everything.
    """
    made = damaged_copies(root, Random(seed))
    sources = [str(path) for path in made.paths]
    wanted = Wanted(str(root / "out"), None, ())
    items = list(salvage(sources, wanted, OPTIONS, Quick()))
    refused = [item.why for item in items if isinstance(item, SalvageRefused)]
    asked = [why for why in refused if made.wrong_epochs and "--prefer" in why]
    if asked:
        # an epoch is outside the CRC: where one is wrong, and nothing tells which, a person has to say
        sound = [number for number in range(len(sources)) if number not in {made.stale, *made.wrong_epochs}]
        if not sound:
            return Outcome(seed, made.what, [], 0, 0, healed=False, asked=True)
        items = list(salvage(sources, wanted, OPTIONS.replace(prefer=sources[sound[0]]), Quick()))
        refused = [item.why for item in items if isinstance(item, SalvageRefused)]
    got = batches(root / "out" / PARTITION)
    faults = [*(f"refused: {why}" for why in refused), *_faults(root, made, items, got)]
    lost = len(made.truth.parts) - len(got)
    return Outcome(seed, made.what, faults, len(got), lost, lost == 0, asked=bool(asked))


def _faults(root: Path, made: Copies, items: list[Any], got: dict[int, bytes]) -> Iterator[str]:
    truth = made.truth.parts
    if any(isinstance(item, SalvageDone) for item in items) != bool(made.intact):
        yield "something came out of nothing, or nothing of something"
    end = max((offset for offset in got if truth.get(offset) == got[offset]), default=-1)
    # the last batch that is left, in one copy only: nobody can tell that its base offset is wrong
    alone = {offset for offset in got if offset > end and got[offset][8:] in made.wrong_offsets}
    alone = {offset for offset in alone if not any(truth[one][8:] == got[offset][8:] for one in made.intact)}
    # nor that its leader epoch is
    last = max(got, default=-1)
    if last in truth and last not in made.intact and got[last][16:] == truth[last][16:]:
        alone.add(last)
    invented = sorted(offset for offset in got if truth.get(offset) != got[offset] and offset not in alone)
    if invented:
        yield f"batches that the intact log does not have, at {invented}"
    if made.intact - set(got):
        yield f"batches that a copy has intact are missing, at {sorted(made.intact - set(got))}"
    if got and alone <= truth.keys():
        yield from _untold(root, made, got)


def _untold(root: Path, made: Copies, got: dict[int, bytes]) -> Iterator[str]:
    """The rows against the bytes: each offset of the intact log that is not in the result is lost, and no other is."""
    rows = [json.loads(text) for text in (root / "out" / f"{PARTITION}.salvage.jsonl").read_text().splitlines()]
    end = made.truth.end
    kept, lost = (
        {at for row in rows if row["type"] == kind for at in range(row["offset"], min(row["lastOffset"], end) + 1)}
        for kind in ("kept", "loss")
    )
    there = {offset for base, data in got.items() for offset in range(base, last_offset(base, data) + 1)}
    if kept != there:
        yield f"rows say kept of {sorted(kept ^ there)}, and the logs do not"
    # what was lost with the first logs or with the last batches of every copy nobody can know of
    known = max(row["lastOffset"] for row in rows if row["type"] in ("kept", "loss")) + 1
    begin = min(int(log.name[:20]) for path in made.paths for log in path.glob("*.log"))
    if known > end:
        yield f"loses offsets up to {known}, and the log ends at {end}"
    elif lost != set(range(begin, known)) - there:
        yield f"lost, or said to be lost, and not both: {sorted(lost ^ (set(range(begin, known)) - there))}"


def many(seeds: range) -> list[Outcome]:
    """Make runs in a directory in memory that is gone afterwards."""
    found = []
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        for seed in seeds:
            root = Path(folder, str(seed))
            found.append(heal(root, seed))
            shutil.rmtree(root)
    return found


def main() -> int:
    """Make the runs that were asked for; print what does not hold and what all came to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="number of the first run")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--keep", type=Path, help="a new directory for the files of one run")
    given = parser.parse_args()
    if given.keep is not None:
        outcome = heal(given.keep, given.seed)
        print(*outcome.what, *outcome.faults, sep="\n")
        return int(bool(outcome.faults))
    seeds = range(given.seed, given.seed + given.runs)
    pieces = [seeds[at : at + _TOGETHER] for at in range(0, len(seeds), _TOGETHER)]
    runs = bad = healed = asked = kept = lost = 0
    with ProcessPoolExecutor(given.jobs) as pool:
        for outcomes in pool.map(many, pieces):
            for one in outcomes:
                runs, healed, asked = runs + 1, healed + one.healed, asked + one.asked
                kept, lost = kept + one.batches, lost + one.lost
                if one.faults:
                    bad += 1
                    print(f"seed {one.seed}: {'; '.join(one.what)}", *one.faults, sep="\n    ", flush=True)
    print(f"{runs} runs: {healed} gave the whole log, {asked} asked for --prefer, {bad} were wrong")
    print(f"{kept} batches kept, {lost} lost in all copies")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
