#!/usr/bin/env python3
"""Scenes after a disk incident: how each is made from an intact directory, and all that kdump says about it.

    tests/support/scenes.py [NAME...]

writes what kdump says now into the fixtures, for a person to read.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":  # a test that takes this in must find kdump where it is installed
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.damage_cases import apply_edit
from tests.support.runs import FIXTURES, Run, copy_tree, run_kdump

SCENES = FIXTURES / "scenes"
VERIFY = ["verify", "--start", "all", "--now", "1700000200000"]
GOLDENS = {"verify.txt": VERIFY, "verify.json": [*VERIFY, "--format", "json"]}
"""What is kept of a scene: file and command; the log directory is `logdir`, and the command runs beside it."""


def build(name: str, target: Path) -> Path:
    """Make the log directory of a scene below `target`; return `target`."""
    scene = json.loads((SCENES / name / "scene.json").read_text("utf-8"))
    copy_tree(FIXTURES / "damage" / "intact" / scene["from"] / "logdir", target / "logdir")
    for edit in scene["edits"]:
        apply_edit(target / "logdir", edit)
    return target


def said(name: str, golden: str, scratch: Path) -> Run:
    """Run kdump as for a golden of a scene."""
    return run_kdump([*GOLDENS[golden], "logdir"], build(name, scratch))


if __name__ == "__main__":
    for folder in sorted(SCENES.iterdir()):
        if len(sys.argv) == 1 or folder.name in sys.argv[1:]:
            for file in GOLDENS:
                with tempfile.TemporaryDirectory() as scratch:
                    (folder / file).write_bytes(said(folder.name, file, Path(scratch)).stdout)
