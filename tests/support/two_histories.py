"""Salvage over sources of several histories, many times: the result is of one of them, and every record is told.

    python -m tests.support.two_histories --runs 2000 --seed 0

Each run has a number, which decides everything. Two or three sources are of two or three histories that part somewhere:
with equal leader epochs or newer ones, of other lengths, with holes, now and then with one wrong bit in an epoch; the
history is chosen by epochs, by the epochs of a file, or by hand. What is right is found here without kdump, offset by
offset. What does not hold is printed with its number; exit status 1 then.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple

from kdump.format.checkpoint.checkpoint_file import EpochEntry
from kdump.rescue.salvage import Wanted, salvage
from kdump.rows.salvaged import SalvageDone, SalvageRefused
from tests.support.healing import OPTIONS, PARTITION, Quick, batches
from tests.support.partitions import checkpoint, name, write
from tests.support.segments import batch

_MEMORY = Path("/dev/shm")
_TIME = 1_700_000_000_000


class Part(NamedTuple):
    """A batch of a history: first and last offset, leader epoch, and its bytes."""

    first: int
    last: int
    epoch: int
    data: bytes

    @property
    def key(self) -> tuple[int, bytes]:
        """What it is known by: its offset, and all but its leader epoch, which no CRC covers."""
        return self.first, self.data[16:]


History = list[Part]


@dataclass
class Case:
    """Sources of several histories.

    Args:
        histories: all of them.
        sources: the batches of each source.
        of: number of the history of each source.
        files: whether each source has a leader-epoch-checkpoint.
        flipped: numbers of the sources with one wrong epoch.
        prefer: number of the source that is chosen by hand, None for none.
        known: number of the history whose epochs are given by a file, None for none.
        is_plain: all epochs are the same.
    """

    histories: list[History]
    sources: list[History]
    of: list[int]
    files: list[bool]
    prefer: int | None
    known: int | None
    is_plain: bool
    flipped: set[int] = field(default_factory=set)


def case_of(chance: Random) -> Case:
    """Make a case."""
    is_plain = chance.random() < 0.4
    epochs = iter(range(1, 1000))
    first: History = []
    _grow(first, chance.randrange(4, 14), next(epochs), chance, 0)
    histories = [first]
    for number in range(1, chance.choice((2, 2, 3))):
        stem = chance.choice(histories)
        grown = stem[: chance.randrange(1, len(stem) + 1)]
        epoch = grown[-1].epoch if is_plain or chance.random() < 0.3 else next(epochs)
        _grow(grown, chance.randrange(1, 9), epoch, chance, number)
        histories.append(grown)
    for number, history in enumerate(histories):  # a leader of its own that goes on behind
        if not is_plain and chance.random() < 0.4:
            _grow(history, chance.randrange(1, 4), next(epochs), chance, number)
    many = chance.choice((2, 3, 3))
    of = [chance.randrange(len(histories)) for _ in range(many)]
    sources = []
    for number in of:
        whole = histories[number]
        some = whole[: chance.randrange(1, len(whole) + 1)] if chance.random() < 0.4 else list(whole)
        if chance.random() < 0.5:
            begin = chance.randrange(len(some))
            del some[begin : begin + chance.randrange(1, 4)]
        sources.append(some or whole[:1])
    way = chance.choice(("prefer", "prefer", "epochs", "order")) if not is_plain else "prefer"
    made = Case(
        histories,
        sources,
        of,
        [not is_plain and chance.random() < 0.6 for _ in of],
        chance.randrange(many) if way == "prefer" else None,
        chance.choice(of) if way == "epochs" else None,
        is_plain,
    )
    if not is_plain and chance.random() < 0.25:
        number = chance.randrange(many)
        at = chance.randrange(len(sources[number]))
        old = sources[number][at]
        epoch = old.epoch ^ 1 << chance.randrange(30)
        data = old.data[:12] + epoch.to_bytes(4, "big") + old.data[16:]
        sources[number][at] = old._replace(epoch=epoch, data=data)
        made.flipped.add(number)
    return made


def _grow(history: History, count: int, epoch: int, chance: Random, mark: int) -> None:
    for _ in range(count):
        offset = history[-1].last + 1 if history else 0
        values = [b"%d-%d" % (mark, chance.randrange(1 << 30)) for _ in range(chance.randrange(1, 4))]
        data = batch(offset, values, epoch=epoch, base_timestamp=_TIME + chance.randrange(1 << 20))
        history.append(Part(offset, offset + len(values) - 1, epoch, data))


def starts(history: History) -> list[tuple[int, int]]:
    """The leader epochs of a history, each with its first offset."""
    found: list[tuple[int, int]] = []
    for one in history:
        if not found or found[-1][0] != one.epoch:
            found.append((one.epoch, one.first))
    return found


def at_offsets(history: History) -> dict[int, Part]:
    """The batch of each offset."""
    return {offset: one for one in history for offset in range(one.first, one.last + 1)}


def parts_at(one: History, other: History) -> int | None:
    """The first offset at which two sources have different batches."""
    mine, yours = at_offsets(one), at_offsets(other)
    return min((at for at in mine.keys() & yours.keys() if mine[at].key != yours[at].key), default=None)


def by_hand(made: Case) -> dict[tuple[int, bytes], Part] | None:
    """What comes out where all epochs are the same and a source is chosen by hand; None where nothing decides."""
    assert made.prefer is not None
    chosen = made.sources[made.prefer]
    cuts = [parts_at(chosen, one) for one in made.sources]
    mine = {one.key for one in chosen}
    for _ in made.sources:  # who has what one of another history has behind the place where that left is of it too
        for number, one in enumerate(made.sources):
            for other, cut in zip(made.sources, list(cuts), strict=True):
                if cut is None or any(part.last >= cut for part in one if part.key in mine):
                    continue
                shared = {part.key for part in other if part.last >= cut}
                if any(part.key in shared for part in one) and number != made.prefer:
                    before = cuts[number]
                    cuts[number] = cut if before is None else min(cut, before)
    counting = [
        [part for part in one if cut is None or part.last < cut] for one, cut in zip(made.sources, cuts, strict=True)
    ]
    if any(parts_at(one, other) is not None for one in counting for other in counting):
        return None
    return {part.key: part for one in counting for part in one}


def run(root: Path, seed: int) -> tuple[str, list[str]]:
    """Salvage a case; return how it ended, and what does not hold.

    Args:
        root: an empty directory.
        seed: decides everything.
    """
    made = case_of(Random(seed))
    paths = []
    for number, source in enumerate(made.sources):
        files = {name(0): b"".join(one.data for one in source)}
        if made.files[number]:
            history = made.histories[made.of[number]]
            files["leader-epoch-checkpoint"] = checkpoint(
                *starts([one for one in history if one.first <= source[-1].last])
            )
        paths.append(str(write(root / f"broker{number}" / PARTITION, files)))
    options = OPTIONS
    if made.prefer is not None:
        options = options.replace(prefer=paths[made.prefer])
    if made.known is not None:
        options = options.replace(epochs=tuple(EpochEntry(*one) for one in starts(made.histories[made.known])))
    items = list(salvage(paths, Wanted(str(root / "out"), None, ()), options, Quick()))
    refused = [item.why for item in items if isinstance(item, SalvageRefused)]
    done = next((item for item in items if isinstance(item, SalvageDone)), None)
    if done is None:
        wrong = []
        if made.is_plain and by_hand(made) is not None:
            wrong.append(f"refused: {refused}")
        return "refused", wrong
    got = {(offset, data[16:]) for offset, data in batches(root / "out" / PARTITION).items()}
    rows = [json.loads(text) for text in (root / "out" / f"{PARTITION}.salvage.jsonl").read_text().splitlines()]
    return "written", [*_mixed(made, got, done.notes), *_untold(made, paths, got, rows), *_other(made, got)]


def _mixed(made: Case, got: set[tuple[int, bytes]], notes: tuple[str, ...]) -> list[str]:
    """The result is of one history; only what nothing in the sources tells may be of another, and is noted."""
    found = []
    keys = [{one.key for one in history} for history in made.histories]
    is_told = any(parts_at(one, other) is not None for one in made.sources for other in made.sources)
    is_noted = any("nothing tells where" in note for note in notes)
    if is_told and not is_noted and not any(got <= some for some in keys):
        found.append("two histories are mixed, and no note says so")
    if made.prefer is not None:
        chosen = made.sources[made.prefer]
        allowed = {one.key for one in chosen}
        for source in made.sources:
            cut = parts_at(chosen, source)
            allowed |= {one.key for one in source if cut is None or one.last < cut}
        if not got <= allowed:
            found.append(f"behind a contradiction: {sorted(first for first, _ in got - allowed)}")
        if made.prefer not in made.flipped and not {one.key for one in chosen} <= got:  # else that one is doubtful
            found.append("the chosen source is not all there")
    if made.known is not None and not made.flipped:
        epochs = starts(made.histories[made.known])
        odd = [
            one.first
            for source in made.sources
            for one in source
            if one.key in got and one.epoch != max(epoch for epoch, start in epochs if start <= one.first)
        ]
        if odd:
            found.append(f"not of the epochs that were given: {odd}")
    return found


def _untold(made: Case, paths: list[str], got: set[tuple[int, bytes]], rows: list[dict[str, object]]) -> list[str]:
    """Records of each source = its records in the result + its records in rows."""
    found = []
    for number, source in enumerate(made.sources):
        out = sum(one.last - one.first + 1 for one in source if one.key not in got)
        told = sum(int(str(row["records"])) for row in rows if _tells_of(row, paths[number]))
        if out != told:
            found.append(f"source {number}: {out} records stay out, rows have {told}")
    return found


def _tells_of(row: dict[str, object], path: str) -> bool:
    """Whether a row tells of intact records of a source that stay out."""
    if row["type"] == "divergent":
        return row["source"] == path
    return row["type"] == "loss" and row["certainty"] == "doubtful" and str(row["file"]).startswith(f"{path}/")


def _other(made: Case, got: set[tuple[int, bytes]]) -> list[str]:
    """Where one epoch is all there is, the result is exactly what counts."""
    if not made.is_plain:
        return []
    wanted = by_hand(made)
    if wanted is None:
        return ["written though nothing decides"]
    if got != wanted.keys():
        return [f"not what counts: {sorted(first for first, _ in got ^ wanted.keys())}"]
    return []


def many(seeds: range) -> tuple[Counter[str], dict[int, list[str]]]:
    """Make runs in memory; return how they ended, and what does not hold by their numbers."""
    ends: Counter[str] = Counter()
    wrong = {}
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        for seed in seeds:
            root = Path(folder, str(seed))
            end, faults = run(root, seed)
            ends[end] += 1
            if faults:
                wrong[seed] = faults
            shutil.rmtree(root)
    return ends, wrong


def main() -> int:
    """Make the runs that were asked for; print what does not hold and what all came to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="number of the first run")
    parser.add_argument("--keep", type=Path, help="a new directory for the files of one run")
    given = parser.parse_args()
    if given.keep is not None:
        made = case_of(Random(given.seed))
        print(f"history of each {made.of}, prefer {made.prefer}, known {made.known}, flipped {made.flipped}")
        for history in (*made.histories, None, *made.sources):
            print(*([f"{one.first}..{one.last}/{one.epoch}/{one.data[17:21].hex()}" for one in history or ()] or ["-"]))
        print(*run(given.keep, given.seed))
        return 0
    ends, wrong = many(range(given.seed, given.seed + given.runs))
    for seed, faults in wrong.items():
        print(f"seed {seed}:", *faults, sep="\n    ")
    print(f"{dict(ends)}, {len(wrong)} wrong")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
