#!/usr/bin/env python3
"""Hold the losses that kdump tells against a brute force: where are the batches of the intact log now?

    tests/support/loss_check.py CORPUS [CASE...]

CORPUS is a folder with `index.json`, `cases` and `intact`. Every batch of the intact directory that cannot be found in
the damaged one, byte for byte, must lie in a loss; no loss that is lost or doubtful may hold one that can. What starts
predict, and what plans say, must add up with what can be read before and after.
"""

from __future__ import annotations

import json
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if __name__ == "__main__":  # a test that takes this in must find kdump where it is installed
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from kdump.broker.config import Config
from kdump.broker.load.facts import Start
from kdump.broker.load.log_manager import LoadSettings
from kdump.checks.options import VerifyOptions
from kdump.checks.run import verify
from kdump.format.batch import layout
from kdump.format.batch.walk import CheckedWalk
from kdump.format.checksum import crc32c
from kdump.format.record.reader import RecordReader
from kdump.rows.verdict import Loss, Prediction
from kdump.storage.file_source import FileSource
from tests.support.damage_cases import damage_cases
from tests.support.runs import run_kdump

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.damage_cases import Damage


class IntactBatch(NamedTuple):
    """A batch of an intact log: its offsets, its records, and its bytes."""

    first: int
    last: int
    records: int
    data: bytes


def batches_of(log: Path) -> Iterator[IntactBatch]:
    """Yield the batches of an intact log, the first offset of a legacy wrapper by the batch before it."""
    data = log.read_bytes()
    last = int(log.name.partition(".")[0]) - 1
    with FileSource(str(log)) as source:
        for window in CheckedWalk(source, lambda _finding: None, next_base=None, max_batch_bytes=1 << 26).windows():
            for k in range(window.count):
                at, size = window.cell(k, layout.POSITION), window.cell(k, layout.SIZE)
                first = window.cell(k, layout.BASE_OFFSET)
                first = last + 1 if first < 0 else first
                last = window.cell(k, layout.LAST_OFFSET)
                yield IntactBatch(first, last, window.cell(k, layout.COUNT), data[at : at + size])


def gone_and_here(case: Damage, tree: Path) -> tuple[list[IntactBatch], list[IntactBatch]]:
    """Return the batches of the partition that are gone from a damaged directory, and those that are still there."""
    gone, here = [], []
    for partition in sorted(one for one in (case.folder.parent.parent / "intact" / case.base / "logdir").iterdir()):
        if not partition.is_dir():
            continue
        logs = sorted(partition.glob("*.log"))
        there = b"".join(path.read_bytes() for path in sorted((tree / partition.name).glob("*.log")))
        for log in logs:
            for batch in batches_of(log):
                if batch.data in there:
                    here.append(batch)
                elif not same_elsewhere(batch, there):
                    gone.append(batch)
    return gone, here


def same_elsewhere(batch: IntactBatch, there: bytes) -> bool:
    """Tell whether the bytes under the CRC of a batch are there, or a batch with its offsets and a right CRC."""
    if batch.data[_BODY:] in there:
        return True
    at = -1
    while (at := there.find(batch.first.to_bytes(8, "big"), at + 1)) >= 0:
        header = there[at : at + 61]
        if len(header) < 61 or header[16] != 2:
            continue
        end = at + 12 + int.from_bytes(header[8:12], "big")
        is_right = crc32c(there[at + _BODY : end]) == int.from_bytes(header[17:21], "big")
        if is_right and batch.first + int.from_bytes(header[23:27], "big") == batch.last:
            return True
    return False


def problems_of(case: Damage, tree: Path) -> list[str]:
    """Return how the losses of one damaged directory are not those of the brute force."""
    items = list(verify([str(tree)], VerifyOptions()))
    losses = [item for item in items if isinstance(item, Loss)]
    gone, here = gone_and_here(case, tree)
    covered = sorted((one.offset, one.last_offset) for one in losses)
    pairs = pairwise(covered)
    found = [f"offset {later[0]} is in two losses" for before, later in pairs if later[0] <= before[1]]
    for batch in gone:
        ends = (batch.first, batch.last)
        if not all(any(first <= offset <= last for first, last in covered) for offset in ends):
            found.append(f"the batch {batch.first}..{batch.last} is gone, and in no loss")
    for loss in losses:
        if not loss.certainty.is_loss or {name[0] for name in loss.because} & _READABLE_BYTES:
            continue
        inside = (one for one in here if one.first <= loss.last_offset and one.last >= loss.offset)
        found += [
            f"{loss.certainty.value} {loss.offset}..{loss.last_offset} holds the intact {_named(one)}" for one in inside
        ]
    return found


def _named(batch: IntactBatch) -> str:
    return f"batch {batch.first}..{batch.last}"


def start_problems(tree: Path) -> list[str]:
    """Return how the predictions for a damaged directory do not account for all that can be read today."""
    clock = LoadSettings(1_700_000_000_000, Config({}))
    options = VerifyOptions(starts=tuple(Start), settings=clock)
    found = []
    for one in verify([str(tree)], options):
        if not isinstance(one, Prediction) or not one.loads or any(it.action in _MOVED for it in one.segments):
            continue
        assert one.log_end_offset is not None
        assert one.log_start_offset is not None
        after = {it.base_offset: it.size for it in one.segments}
        today = cut = hidden = 0
        last_today = -1
        logs = sorted(Path(one.path).glob("*.log"))
        for log in logs:
            if not log.name.removesuffix(".log").isdigit():
                continue
            base = int(log.name.removesuffix(".log"))
            for position, size, last, records in right_batches(log):
                today += records
                last_today = max(last_today, last) if log == logs[-1] else last_today
                if position + size > after.get(base, 0):
                    cut += records
                elif last >= one.log_end_offset and base == max(after):
                    hidden += records
        if (cut, hidden) != (one.records_lost, one.hidden_records):
            told = one.records_lost, one.hidden_records
            found.append(f"start {one.start}: cut and hidden are {(cut, hidden)}, told {told}")
        again = one.reused_offsets
        if again is not None and (again[0] != one.log_end_offset or again[1] < again[0]):
            found.append(f"start {one.start}: reused offsets {again}")
        if hidden and again is None and last_right(logs[-1]) >= one.log_end_offset:
            found.append(f"start {one.start}: {hidden} records are hidden, and no offset is reused")
    return found


def right_batches(log: Path) -> Iterator[tuple[int, int, int, int]]:
    """Yield position, size, last offset and records of the batches of a log whose CRC is right."""
    base = int(log.name.removesuffix(".log"))
    with FileSource(str(log)) as source:
        reader = RecordReader(1 << 28, max_batch=1 << 26)
        walk = CheckedWalk(source, lambda _finding: None, next_base=None, max_batch_bytes=1 << 26, segment=base)
        for window in walk.windows():
            for k in range(window.count):
                row = window.row(k)
                if row[layout.CRC] != row[layout.COMPUTED_CRC]:
                    continue
                records = max(0, row[layout.COUNT])
                if row[layout.MAGIC] < layout.MAGIC_V2:
                    records = sum(chunk.filled for chunk in reader.chunks(window.batch(k)))
                yield row[layout.POSITION], row[layout.SIZE], row[layout.LAST_OFFSET], records


def last_right(log: Path) -> int:
    """Return the last offset of a log, by the right base offsets, -1 for none."""
    with FileSource(str(log)) as source:
        base = int(log.name.removesuffix(".log"))
        walk = CheckedWalk(source, lambda _finding: None, next_base=None, max_batch_bytes=1 << 26, segment=base)
        for _ in walk.windows():
            pass
    return -1 if walk.checks.offsets.last is None else walk.checks.offsets.last


def plan_problems(tree: Path) -> list[str]:
    """Return how the plans of a cut at the damage do not add up."""
    found = []
    for partition in sorted(one for one in tree.iterdir() if one.is_dir() and list(one.glob("*.log"))):
        run = run_kdump(["truncate", "--at-damage", "--with-later-segments", "--format", "json", str(partition)], tree)
        for line in run.stdout.splitlines():
            plan = json.loads(line)
            if plan["type"] != "plan" or plan["logEndOffsetBefore"] is None:
                continue
            after = {one["file"]: one["to"] or 0 for one in plan["operations"] if one["file"].endswith(".log")}
            cut = 0
            for log in sorted(partition.glob("*.log")):
                if log.name in after:
                    rows = right_batches(log)
                    cut += sum(records for position, size, _, records in rows if position + size > after[log.name])
            if cut != plan["recordsLost"]:
                found.append(f"the cut takes {cut} readable records, the plan says {plan['recordsLost']}")
            if plan["offsetsLost"] != max(0, plan["logEndOffsetBefore"] - plan["logEndOffset"]):
                found.append(f"offsets do not add up: {plan}")
    return found


_BODY = 21  # where the bytes under the CRC of a batch of magic 2 begin
_READABLE_BYTES = {"B", "C", "R", "P", "O"}  # families of codes whose batches can be whole
_MOVED = ("split", "replace", "create")


def main(arguments: list[str]) -> int:
    """Check the cases of a corpus; return 1 where something is wrong."""
    corpus, names = Path(arguments[0]), set(arguments[1:])
    bad = checked = 0
    for case in damage_cases(corpus):
        if names and case.name not in names:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            tree = case.build(Path(scratch) / "logdir")
            problems = [*problems_of(case, tree), *start_problems(tree), *plan_problems(tree)]
        checked += 1
        bad += bool(problems)
        for problem in problems:
            print(f"{case.name}: {problem}")
    print(f"{checked} cases, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
