"""Every directory of the fixtures on a terminal of 80 columns: the full run of tests/cli/test_terminal.py.

`python -m tests.bench.terminal` prints each line of a table that is wider, and how many runs there were; a number
behind it takes every so many directories.
"""

from __future__ import annotations

import sys

from rich.cells import cell_len

from tests.cli.test_terminal import is_of_a_table
from tests.support.runs import FIXTURES
from tests.support.terminal import run_in_terminal

_VERBS = (
    ["verify", "--start", "all"], ["verify", "--notes"], ["retention"], ["retention", "--pass"], ["du"],
    ["du", "--by", "partition"], ["groups", "--lag"], ["transactions"], ["cluster"],
)  # fmt: skip


def main(step: int) -> int:
    """Run all, or every so many; return how many lines are too wide."""
    places = sorted(
        {path.parent for path in FIXTURES.rglob("*.log")} | {path.parent.parent for path in FIXTURES.rglob("*.log")}
    )
    wide = runs = 0
    for place in places[::step]:
        for args in _VERBS:
            runs += 1
            for line in run_in_terminal([*args, "."], place, 80).lines:
                if cell_len(line) > 80 and is_of_a_table(line):
                    wide += 1
                    print(f"{place.relative_to(FIXTURES)}: {' '.join(args)}: {line}")
    print(f"{runs} runs, {wide} lines too wide")
    return wide


if __name__ == "__main__":
    sys.exit(1 if main(int(sys.argv[1]) if len(sys.argv) > 1 else 1) else 0)
