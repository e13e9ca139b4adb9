"""A tree of log directories as a fleet leaves them: intact, damaged in many ways, and what is no log at all."""

from __future__ import annotations

import os
import random
import shutil
from typing import TYPE_CHECKING

from tests.support.damage_cases import damage_cases
from tests.support.runs import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
OLD = FIXTURES / "releases"


def fleet(root: Path, *, every: int = 12) -> list[str]:
    """Build log directories of several hosts below a directory; return their paths.

    Args:
        root: the directory.
        every: take each damaged log directory of this many.
    """
    shutil.copytree(NODE, root / "intact")
    for case in list(damage_cases(FIXTURES / "damage"))[::every]:
        case.build(root / "damaged" / case.name)
    for release in sorted(OLD.iterdir())[:2]:
        shutil.copytree(release, root / "old" / release.name)
    twice(root / "twice")
    junk = root / "junk" / "orders-0"
    junk.mkdir(parents=True)
    (junk / f"{0:020}.log").write_bytes(random.Random(11).randbytes(100_000))
    (junk / f"{1000:020}.log").write_bytes(b"")
    os.mkfifo(junk / f"{2000:020}.log")
    (junk / f"{3000:020}.log").symlink_to(junk / "nowhere")
    return log_dirs(root)


def twice(log_dir: Path) -> None:
    """Put a partition into a log directory that has some offsets twice."""
    shutil.copytree(FIXTURES / "log-o08-offsets-twice", log_dir / "twice-0")


def log_dirs(root: Path) -> list[str]:
    """The directories below a directory that hold partition directories."""
    found = {path.parent.parent for path in root.rglob("*.log")}
    return sorted(str(path) for path in found)
