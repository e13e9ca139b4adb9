"""What kdump says to do, done: repairs of findings one by one, and steps in their order.

With all cases, or some: python -m tests.support.step_runs [NAME...]
"""

from __future__ import annotations

import itertools
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import kdump
from kdump.finding import Severity
from tests.support.damage_cases import damage_cases
from tests.support.runs import FIXTURES, run_kdump

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kdump.finding import Finding
    from kdump.rows.steps import Step

WRITERS = ("patch-header", "reindex", "truncate", "repair")
ANNOUNCED = "K01"


def loud_findings(log_dir: Path) -> list[Finding]:
    """Errors, and warnings but those that a cut announces."""
    found = kdump.verify(log_dir).findings
    return [one for one in found if one.severity is not Severity.NOTE and one.code.name != ANNOUNCED]


def acts(steps: Iterable[Step]) -> list[Step]:
    """Steps without those that say whether to start the broker."""
    return [
        one for one in steps if not one.why.startswith(("do not start the broker", "start the broker all the same"))
    ]


def is_writer(command: str | None) -> bool:
    """Whether a command is one of those that mend in place."""
    return command is not None and command.split(" ")[1] in WRITERS


def carry_out(commands: Sequence[str], root: Path) -> list[int]:
    """Run commands as they are printed, with what has them done; return their exit statuses."""
    quarantine = ["--apply", "--quarantine", str(root / "aside")]
    return [run_kdump([*shlex.split(one)[1:], *quarantine], root).exit for one in commands]


def copied(log_dir: Path, target: Path) -> Path:
    """A copy of a damaged log directory in `target`, as `logs`."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(log_dir, target / "logs", symlinks=True)
    return target / "logs"


def unmended(build: Path, root: Path) -> list[str]:
    """Carry out each repair of a finding on a copy of its own; return those after which the finding is still there.

    Args:
        build: the damaged log directory.
        root: for the copy: findings name it, so it is always the same.
    """
    log_dir = copied(build, root)
    by_command: dict[str, list[Finding]] = {}
    for finding in kdump.verify(log_dir).findings:
        if finding.repair is not None:
            by_command.setdefault(finding.repair, []).append(finding)
    bad = []
    for command, findings in by_command.items():
        log_dir = copied(build, root)
        exits = carry_out([command], root)
        left = {_key(one) for one in kdump.verify(log_dir).findings}
        bad += [f"{command} (exit {exits[0]}): {_key(one)}" for one in findings if _key(one) in left]
    return bad


def _key(finding: Finding) -> tuple[object, ...]:
    return finding.code.name, finding.file, finding.position, finding.field


def after_steps(build: Path, root: Path) -> tuple[list[str], list[Finding], int]:
    """Carry out the steps; return their commands, what is left, and how many records."""
    log_dir = copied(build, root)
    commands = [str(one.command) for one in kdump.verify(log_dir).steps if is_writer(one.command)]
    carry_out(commands, root)
    return commands, loud_findings(log_dir), kdump.verify(log_dir).summary["records"]


def best_of_all_orders(build: Path, root: Path, more: Sequence[str] = ()) -> int | None:
    """The most records that any order of the three commands keeps, and ends clean; None where none ends so."""
    best = None
    partition = next(path for path in sorted(copied(build, root).iterdir()) if path.is_dir())
    general = [f"kdump patch-header {partition}", f"kdump reindex {partition}"]
    general.append(f"kdump truncate {partition} --at-damage --with-later-segments")
    for commands in {tuple(general), tuple(more)} - {()}:
        for order in itertools.permutations(commands):
            if order == tuple(more):
                continue  # that is the one that was printed
            log_dir = copied(build, root)
            carry_out(order, root)
            if not loud_findings(log_dir):
                kept = kdump.verify(log_dir).summary["records"]
                best = kept if best is None else max(best, kept)
    return best


def main(names: Sequence[str]) -> None:
    """Say what goes wrong in the cases with these names, or in all."""
    with tempfile.TemporaryDirectory() as scratch:
        for case in damage_cases(FIXTURES / "damage"):
            if names and case.name not in names:
                continue
            build = Path(scratch, "build")
            shutil.rmtree(build, ignore_errors=True)
            case.build(build)
            root = Path(scratch, "run")
            bad = unmended(build, root)
            commands, left, kept = after_steps(build, root)
            best = best_of_all_orders(build, root, commands)
            if bad or (best is not None and (left or kept < best)):
                print(case.name, bad, commands, [one.code.name for one in left], kept, best)


if __name__ == "__main__":
    main(sys.argv[1:])
