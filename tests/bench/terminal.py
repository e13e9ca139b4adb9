"""Every directory of the fixtures on a terminal of 80 columns: the full run of tests/cli/test_terminal.py.

`python tests/bench/terminal.py` prints each line of a table that is wider, and how many runs there were.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rich.cells import cell_len

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.cli.test_terminal import is_of_a_table
from tests.support.runs import FIXTURES
from tests.support.terminal import run_in_terminal

_VERBS = (
    ["verify", "--start", "all"], ["verify", "--notes"], ["retention"], ["retention", "--pass"], ["du"],
    ["du", "--by", "partition"], ["groups", "--lag"], ["transactions"], ["cluster"],
)  # fmt: skip


def main() -> int:
    """Run all; return how many lines are too wide."""
    places = sorted(
        {path.parent for path in FIXTURES.rglob("*.log")} | {path.parent.parent for path in FIXTURES.rglob("*.log")}
    )
    wide = runs = 0
    for place in places:
        for args in _VERBS:
            runs += 1
            for line in run_in_terminal([*args, "."], place, 80).lines:
                if cell_len(line) > 80 and is_of_a_table(line):
                    wide += 1
                    print(f"{place.relative_to(FIXTURES)}: {' '.join(args)}: {line}")
    print(f"{runs} runs, {wide} lines too wide")
    return wide


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
