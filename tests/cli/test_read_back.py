"""One report: lines have what JSON has, text what both have, a pipe what a terminal has, and no line is too wide.

Over every fixture, of which a plain run takes a sample; `pytest --all tests/cli/test_read_back.py` takes all.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.fact_reader import differences
from tests.support.runs import FIXTURES, run_kdump
from tests.support.terminal import run_in_terminal

if TYPE_CHECKING:
    from pathlib import Path

NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
NOW = "2026-11-28T00:00Z"
COMMANDS = [
    ["verify"],
    ["verify", "--notes", "--start", "all", "--now", NOW],
    ["retention", "--now", NOW, "--pass", "--set", "cleanup.policy=compact"],
    ["du", "--now", NOW],
    ["groups", "--lag"],
    ["transactions"],
    ["cluster"],
    ["reindex"],
    ["patch-header"],
]
_COMMAND = re.compile(r"[ |┃]*(\d+ +)?(.*: )?(kdump|mv|kafka-[a-z-]+\.sh|before Kafka 3\.0:) ")
_HEAD = re.compile(r"┃ (error|warning|note) ([A-Z]\d\d) [a-z-]+((?: {3}|\s+)bytes? (\d+)(?:\.\.(\d+))?)?")


def places() -> list[Path]:
    """A node of a cluster, and every directory of the fixtures that was damaged by one kind."""
    return [NODE, *sorted(path for path in FIXTURES.glob("*-*-*/") if path.is_dir())]


@cache
def printed(args: tuple[str, ...], place: Path) -> str:
    run = run_kdump([*args, "."], place)
    assert run.exit != 1, run.stderr.decode()
    return run.stdout.decode()


@pytest.mark.sampled(9)
@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("place", places(), ids=lambda path: path.name)
def test_lines_have_the_rows_of_json_with_their_keys_and_values(place: Path, args: list[str]) -> None:
    lines, rows = (printed((*args, "--format", layout), place) for layout in ("lines", "json"))
    assert differences(lines, rows) == []


@pytest.mark.sampled(9)
@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("place", places(), ids=lambda path: path.name)
def test_no_line_of_text_in_a_pipe_is_wider_than_a_page(place: Path, args: list[str]) -> None:
    assert [
        line for line in printed(tuple(args), place).splitlines() if len(line) > 100 and not _COMMAND.match(line)
    ] == []


@pytest.mark.sampled(23)
@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("place", places(), ids=lambda path: path.name)
def test_nor_on_a_terminal_which_shows_no_other_word(place: Path, args: list[str], columns: int) -> None:
    given = [*args, "--no-fold"] if args[0] == "verify" else args
    seen = run_in_terminal([*given, "."], place, columns)
    wide = [line for line in seen.lines if len(line) > columns and not _COMMAND.match(line)]
    assert [line for line in wide if not line.startswith("  kdump: ")] == []
    if columns == 120:  # as many columns of tables as in a pipe, or more
        words = " ".join(seen.lines).split()
        missing = [
            word for word in set(printed(tuple(args), place).split()) - set(words) if re.fullmatch(r"[\d.,]+", word)
        ]
        assert missing == []


@pytest.mark.sampled(9)
@pytest.mark.parametrize("place", places(), ids=lambda path: path.name)
def test_the_text_of_verify_can_be_read_back(place: Path) -> None:
    rows: list[dict[str, Any]] = [
        json.loads(line) for line in printed(("verify", "--format", "json"), place).splitlines()
    ]
    text = printed(("verify", "--notes"), place)
    found = {(row["severity"], row["code"], row["position"], row["length"]) for row in rows if row["type"] == "finding"}
    for head in _HEAD.finditer(text):
        first, last = head[4], head[5] or head[4]
        near = {one for one in found if one[:2] == (head[1], head[2])}
        assert near, head[0]
        if first is not None:
            spans = {(one[2], one[2] + max(one[3] or 0, 1) - 1) for one in near if one[2] is not None}
            assert (int(first), int(last)) in spans, head[0]
    summary = rows[-1]
    flat = " ".join(text.split())
    for severity in ("error", "warning", "note"):
        count = summary[f"{severity}s"]
        told = re.findall(rf"([\d,]+) {severity}s?\b(?! of)", flat.rpartition("batches: ")[2] or flat)
        assert not told or int(told[0].replace(",", "")) == count
    lost = [row for row in rows if row["type"] == "loss" and row["certainty"] in ("lost", "doubtful")]
    assert ("lost: offset" in flat) == bool(lost)
    assert f"exit {summary['exit']}" in flat or summary["exit"] == 0


@pytest.mark.parametrize(
    "args", [["verify", "plain-0"], ["cluster", ".", "--topic", "plain"], ["groups", "--lag", "."]], ids=" ".join
)
def test_a_terminal_of_the_width_of_a_page_shows_what_a_pipe_gets(args: list[str]) -> None:
    in_pipe = run_kdump(args, NODE)
    seen = run_in_terminal(args, NODE, 100, {"NO_COLOR": "1"})
    assert [line for line in seen.lines if line.strip() and not line.startswith("kdump: ")] == [
        line for line in in_pipe.stdout.decode().splitlines() if line.strip()
    ]
