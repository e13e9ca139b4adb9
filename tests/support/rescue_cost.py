"""What caution costs: which records of the cases of `rescue_truth` an older tree wrote, and this one no longer does.

    python -m tests.support.rescue_cost --old ../before --runs 400 --seed 0

The kernels are built in both. Only records that were there count, at their offsets. A run whose older result broke a
law is told by that: what it wrote too much was no gain. Of the others the rows of the newer result give the reason.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.rescue_truth.__main__ import MEMORY
from tests.support.rescue_truth.cases import case_of
from tests.support.rescue_truth.disks import PARTITION
from tests.support.rescue_truth.truth import Truth
from tests.support.rescue_truth.verdicts import Result, faults

if TYPE_CHECKING:
    from tests.support.rescue_truth.batches import Entry

ROOT = Path(__file__).resolve().parents[2]
LOSS_STATUS = 3
_SERVER = """
import importlib, os, pkgutil, sys
import kdump.rescue
from kdump.__main__ import main
for one in pkgutil.walk_packages(kdump.rescue.__path__, "kdump.rescue."):
    importlib.import_module(one.name)
import kdump.cli.salvage
for line in sys.stdin:
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.argv = ["kdump", *line.rstrip("\\n").split("\\t")]
        status = 1
        try:
            main()
            status = 0
        except SystemExit as ended:
            status = ended.code or 0
        finally:
            os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Tree:
    """The command line of a tree, each run in a child of one process.

    Args:
        path: of the tree.
    """

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": str(path), "PATH": ""},
        )

    def run(self, args: list[str]) -> int:
        """Run a command; return its exit status."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(args) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


def salvaged(tree: Tree, truth: Truth, sources: list[Path], root: Path) -> Result | None:
    """Salvage a case with a tree; None where nothing was written."""
    case = truth.case
    more = [] if case.prefer is None else ["--prefer", str(sources[case.prefer])]
    more += ["--below-log-start"] * case.below_log_start
    more += [] if case.policy is None else ["--set", f"cleanup.policy={case.policy}"]
    status = tree.run(["salvage", *map(str, sources), "--to", str(root), *more])
    if not (root / PARTITION).is_dir():
        return None
    return Result.read(truth, root, sources, says_lost=status == LOSS_STATUS)


def records_of(result: Result | None) -> set[Entry]:
    """The records of a result that were there, at their offsets."""
    if result is None:
        return set()
    return {one for batch in result.batches for one in batch.read.entries if one in result.truth.by_entry}


def reason(before: Result, now: Result | None, gone: set[Entry]) -> str:
    """Why records are no longer written."""
    broken = sorted({kind for kind, _ in faults(before)})
    if broken:
        return f"it was wrong: {', '.join(broken)}"
    if now is None:
        return "refused"
    offsets = {one[0] for one in gone}
    rows = [
        row
        for row in now.rows
        if row["type"] in ("loss", "divergent") and offsets & {*range(row["offset"], row["lastOffset"] + 1)}
    ]
    said = {" ".join([row.get("certainty", row["type"]), *row.get("because", ())]) for row in rows}
    return ", ".join(sorted(said)) or "without a row"


def main() -> int:
    """Make the runs; print each that brings back less, and how many do, by reason."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--old", type=Path, required=True, help="the older tree")
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    old, new = Tree(given.old.resolve()), Tree(ROOT)
    reasons: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for seed in range(given.seed, given.seed + given.runs):
        truth = Truth(case_of(seed))
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
            sources = truth.case.lay(Path(folder))
            before = salvaged(old, truth, sources, Path(folder, "old"))
            now = salvaged(new, truth, sources, Path(folder, "new"))
            there, here = records_of(before), records_of(now)
            counts.update(before=len(there), now=len(here), more=bool(here - there))
            gone = there - here
            if gone and before is not None:
                why = reason(before, now, gone)
                reasons[why] += 1
                print(f"{seed}: {len(gone)} of {len(there)} records: {why}; {truth.case.told}", flush=True)
    print(
        f"{given.runs} runs; records {counts['before']} before, {counts['now']} now; {counts['more']} bring back more"
    )
    for why, count in reasons.most_common():
        print(f"{count}: {why}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
