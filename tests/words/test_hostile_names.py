"""What is printed to be pasted is what was meant, whatever a directory, a topic or a group is called.

Some names for each scene here; all of them in `python -m tests.support.hostile_runs`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.support.hostile_runs import SCENES, check
from tests.support.shells import HOSTILE, bash

if TYPE_CHECKING:
    from pathlib import Path

EACH = 16  # one name in so many for a scene; the scenes take turns
CASES = [(which, name) for at, which in enumerate(SCENES) for name in (HOSTILE[0], *HOSTILE[1 + at % EACH :: EACH])]


@pytest.mark.parametrize(("which", "name"), CASES)
def test_a_shell_reads_what_was_meant_and_runs_nothing_else(which: str, name: str, tmp_path: Path) -> None:
    if bash() is None and not name.isprintable():
        pytest.skip("no shell here reads $'...'")
    found = check(which, name, tmp_path)
    assert found > 0 or (which == "other owners" and os.geteuid() != 0)
