"""Salvage, patch-header and carve of a case, each held against its laws."""

from __future__ import annotations

import shutil
import traceback
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from kdump.broker.clusters import TopicPolicies
from kdump.broker.config import Config
from kdump.checks.options import VerifyOptions
from kdump.checks.run import verify
from kdump.finding import Finding
from kdump.repair.apply import apply
from kdump.repair.errors import RefusedError
from kdump.repair.patch_header import WrongHeaders, plan_partition_patches
from kdump.repair.resume_undo import undo
from kdump.rescue.carve import CarveOptions, carve
from kdump.rescue.salvage import Wanted, salvage
from kdump.rows.salvaged import SalvageDone, SalvageRefused
from tests.support.healing import OPTIONS, Quick
from tests.support.repair_trees import contents, means
from tests.support.rescue_truth import excuses
from tests.support.rescue_truth.cases import case_of
from tests.support.rescue_truth.disks import PARTITION
from tests.support.rescue_truth.truth import Truth
from tests.support.rescue_truth.verdicts import Fault, Result, faults

if TYPE_CHECKING:
    from collections.abc import Callable

_EPOCH_AT, _MAGIC_AT = 12, 16


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
    return _salvage(Truth(case), root, case.lay(root))


def _salvage(truth: Truth, root: Path, sources: list[Path]) -> Outcome:
    case = truth.case
    options = OPTIONS.replace(below_log_start=case.below_log_start)
    if case.prefer is not None:
        options = options.replace(prefer=str(sources[case.prefer]))
    if case.policy is not None:
        options = options.replace(policies=TopicPolicies((), OPTIONS.limits, Config({"cleanup.policy": case.policy})))
    wanted = Wanted(str(root / "out"), PARTITION if truth.runs is not None else None, ())
    items = list(salvage([str(path) for path in sources], wanted, options, Quick()))
    done = next((item for item in items if isinstance(item, SalvageDone)), None)
    if done is None:
        why = [item.why for item in items if isinstance(item, SalvageRefused)]
        return Outcome(case.seed, case.told, "refused" if why else "nothing", list(_unwritten(truth, why)))
    try:
        result = Result.read(truth, root / "out", sources, says_lost=done.has_losses)
    except ValueError as error:
        return Outcome(case.seed, case.told, "written", [("broken-result", str(error))])
    return Outcome(case.seed, case.told, "written", faults(result))


def _unwritten(truth: Truth, why: list[str]) -> list[Fault]:
    """A partition is refused only where its copies contradict each other, or where one of them was damaged so.

    And where all that is left was aborted, and the markers that say so are lost, or lies in logs of which nobody knows
    whether they are of this partition; or where all of the copy that was chosen lies below the log start.
    """
    true = truth.fates(truth.line)
    if all(true.get(one.ident) == "aborted" or excuses.is_under_a_wrong_name(truth, one) for one in truth.intact):
        return []
    if why and excuses.is_chosen_below_the_start(truth):
        return []
    if not why:
        return [("nothing-written", f"{len(truth.intact)} batches are intact")]
    is_one = truth.branch_of({one.ident for one in truth.placed}) is not None
    are_sound = all(one.has_base and one.has_epoch for one in truth.placed)
    if not is_one or not are_sound:
        return []
    style = truth.case.cluster.style
    kind = "-cleaned-legacy" if style.magic < 2 and style.is_compacted else ""
    kind = kind or "-overlap" * truth.case.cluster.has_overlaps
    return [(f"refused{kind}", why[0])]


def patched(root: Path, seed: int) -> Outcome:
    """Plan and apply what patch-header would do to the copies of a case, and take it back."""
    case = case_of(seed)
    truth = Truth(case)
    found: list[Fault] = []
    ends = set()
    for number, directory in enumerate(case.lay(root)):
        before = contents(directory)
        wrong = WrongHeaders(str(directory))
        for item in verify([str(directory)], VerifyOptions(deep=False)):
            if isinstance(item, Finding):
                wrong.see(item)
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
            wrong_at = [at for at in wrong_at if not _is_last_epoch(truth, number, path, at, after[path])]
            if wrong_at or len(after[path]) != len(before[path]):
                found.append(("patched-wrong", f"b{number} {path}: bytes {wrong_at} are not what they were"))
        undo(done.journal, means())
        if contents(directory) != before:
            found.append(("not-undone", f"b{number}"))
    return Outcome(seed, case.told, "+".join(sorted(ends)), found)


def _is_last_epoch(truth: Truth, number: int, path: str, at: int, log: bytes) -> bool:
    """Whether a byte is of the epoch of the last batch of a copy, and nothing tells whether that is wrong."""
    here = (one for one in truth.placed if (one.copy, one.path) == (number, path))
    one = next((one for one in here if one.was.position + _EPOCH_AT <= at < one.was.position + _MAGIC_AT), None)
    if one is None:
        return False
    epoch = int.from_bytes(log[one.was.position + _EPOCH_AT :][:4], "big", signed=True)
    return excuses.looks_flipped(truth, one, epoch)


def carved(root: Path, seed: int) -> Outcome:
    """Carve images of the logs of a case, and salvage the runs: one image a copy, or one that has them all."""
    case = case_of(seed)
    case.prefer, case.below_log_start = None, False
    chance = Random(seed)
    logs = [[bytes(log.data) for log in copy.logs.values()] for copy in case.copies]
    is_one = len(logs) > 1 and chance.random() < 0.3
    if is_one:
        logs = [[data for some in logs for data in some]]
    found, sources = b"", []
    for number, some in enumerate(logs):
        image, runs = root / f"image{number}", root / f"runs{number}"
        image.write_bytes(_image(chance, some))
        for _ in carve([str(image)], CarveOptions(str(runs)), lambda _run: "", Quick()):
            pass
        data = b"".join(one.read_bytes() for one in sorted(runs.glob("run-*.log")))
        sources += [runs] if data else []
        found += data
    if not sources:
        return Outcome(seed, case.told, "nothing", [])
    made = _salvage(Truth(case, found), root, sources)
    kind = "carve-one-image" if is_one else "carve"
    return Outcome(seed, case.told, made.end, [(f"{kind}-{what}", told) for what, told in made.faults])


def _image(chance: Random, logs: list[bytes]) -> bytes:
    """Logs in any order, with what is no log between them."""
    chance.shuffle(logs)
    parts = [chance.randbytes(chance.randrange(900))]
    for data in logs:
        size = chance.randrange(600)
        parts += [data, bytes(size) if chance.random() < 0.5 else chance.randbytes(size)]
    return b"".join(parts)


SORTS: dict[str, Callable[[Path, int], Outcome]] = {"salvages": salvaged, "patch-headers": patched, "carves": carved}
"""What may be run, by the name of its option."""


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
