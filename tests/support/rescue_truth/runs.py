"""Salvage, patch-header and carve of a case, each held against its laws."""

from __future__ import annotations

import shutil
import traceback
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from kdump.checks.options import VerifyOptions
from kdump.checks.run import verify
from kdump.finding import Finding
from kdump.item import PartitionChecked
from kdump.repair.apply import apply
from kdump.repair.errors import RefusedError
from kdump.repair.patch_header import WrongHeaders, plan_partition_patches
from kdump.repair.resume_undo import undo
from kdump.rescue.carve import CarveOptions, carve
from kdump.rescue.salvage import Wanted, salvage
from kdump.rows.salvaged import SalvageDone, SalvageRefused
from tests.support.healing import OPTIONS, Quick
from tests.support.repair_trees import contents, means
from tests.support.rescue_truth.cases import Case, case_of
from tests.support.rescue_truth.disks import PARTITION
from tests.support.rescue_truth.truth import Truth
from tests.support.rescue_truth.verdicts import Fault, Result, faults

if TYPE_CHECKING:
    from collections.abc import Callable

_HEADER_PATCHED = 17  # bytes of a header outside of the CRC


class Outcome:
    """A run.

    Args:
        seed: its number.
        told: what was damaged.
        end: how it ended.
        faults: what does not hold.
    """

    def __init__(self, seed: int, told: str, end: str, found: list[Fault]) -> None:
        self.seed, self.told, self.end, self.faults = seed, told, end, found


def salvaged(root: Path, seed: int) -> Outcome:
    """Salvage a case."""
    case = case_of(seed)
    return _salvage(case, root, case.lay(root), is_of_runs=False)


def _salvage(case: Case, root: Path, sources: list[Path], *, is_of_runs: bool) -> Outcome:
    options = OPTIONS.replace(below_log_start=case.below_log_start)
    if case.prefer is not None:
        options = options.replace(prefer=str(sources[case.prefer]))
    wanted = Wanted(str(root / "out"), PARTITION if is_of_runs else None, ())
    items = list(salvage([str(path) for path in sources], wanted, options, Quick()))
    done = next((item for item in items if isinstance(item, SalvageDone)), None)
    truth = Truth(case)
    if done is None:
        why = [item.why for item in items if isinstance(item, SalvageRefused)]
        return Outcome(case.seed, case.told, "refused" if why else "nothing", list(_unwritten(truth, why)))
    try:
        result = Result.read(truth, root / "out", sources, says_lost=done.has_losses, is_of_runs=is_of_runs)
    except ValueError as error:
        return Outcome(case.seed, case.told, "written", [("broken-result", str(error))])
    return Outcome(case.seed, case.told, "written", faults(result))


def _unwritten(truth: Truth, why: list[str]) -> list[Fault]:
    """A partition is refused only where its copies contradict each other, or where one of them was damaged so."""
    if not truth.intact:
        return []
    if not why:
        return [("nothing-written", f"{len(truth.intact)} batches are intact")]
    is_one = truth.branch_of({one.ident for one in truth.placed}) is not None
    are_sound = all(one.has_base and one.has_epoch for one in truth.placed)
    return [("refused", why[0])] if is_one and are_sound else []


def patched(root: Path, seed: int) -> Outcome:
    """Plan and apply what patch-header would do to the copies of a case, and take it back."""
    case = case_of(seed)
    found: list[Fault] = []
    ends = set()
    for number, directory in enumerate(case.lay(root)):
        before = contents(directory)
        wrong = WrongHeaders(str(directory))
        for item in verify([str(directory)], VerifyOptions(deep=False)):
            if isinstance(item, Finding):
                wrong.see(item)
            assert not isinstance(item, PartitionChecked) or item.path
        try:
            plan = plan_partition_patches(str(directory), wrong)
            if not plan.changes or plan.refused:
                ends.add("refused" if plan.refused else "nothing")
                continue
            done = apply(plan, str(root / f"q{number}"), [], means())
        except RefusedError:
            ends.add("refused")
            continue
        ends.add("patched")
        after = contents(directory)
        for path, log in case.copies[number].logs.items():
            changed = [at for at, byte in enumerate(after[path]) if byte != before[path][at]]
            wrong_at = [at for at in changed if after[path][at] != log.true[at]]
            if wrong_at or len(after[path]) != len(before[path]):
                found.append(("patched-wrong", f"b{number} {path}: bytes {wrong_at} are not what they were"))
        undo(done.journal, means())
        if contents(directory) != before:
            found.append(("not-undone", f"b{number}"))
    return Outcome(seed, case.told, "+".join(sorted(ends)), found)


def carved(root: Path, seed: int) -> Outcome:
    """Carve an image of the logs of a case, and salvage the runs."""
    case = case_of(seed)
    case.prefer, case.below_log_start = None, False
    chance = Random(seed)
    parts = [chance.randbytes(chance.randrange(900))]
    logs = [bytes(log.data) for copy in case.copies for log in copy.logs.values()]
    chance.shuffle(logs)
    for data in logs:
        parts += [data, bytes(chance.randrange(600)) if chance.random() < 0.5 else chance.randbytes(chance.randrange(600))]
    image = root / "image"
    image.write_bytes(b"".join(parts))
    for _ in carve([str(image)], CarveOptions(str(root / "runs")), lambda _run: "", Quick()):
        pass
    if not list((root / "runs").glob("run-*.log")):
        return Outcome(seed, case.told, "nothing", [])
    return _salvage(case, root, [root / "runs"], is_of_runs=True)


def run(kind: Callable[[Path, int], Outcome], root: Path, seed: int) -> Outcome:
    """Make one run in a directory that is made and removed; an exception is what does not hold."""
    root.mkdir()
    try:
        return kind(root, seed)
    except Exception as error:  # whatever it is, a number that finds it is worth more
        place = traceback.extract_tb(error.__traceback__)[-1]
        told = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
        return Outcome(seed, "", "crash", [("crash", told)])
    finally:
        shutil.rmtree(root)
