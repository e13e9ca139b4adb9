"""One report: lines have what JSON has, text what both have, a pipe what a terminal has, and no line is too wide.

Over every fixture, of which a plain run takes a sample; `pytest --all tests/cli/test_read_back.py` takes all.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import text_facts
from tests.support.fact_reader import differences
from tests.support.runs import FIXTURES, copy_tree, run_kdump
from tests.support.terminal import run_in_terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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


READERS: list[tuple[list[str], Callable[[text_facts.Told, list[text_facts.Row]], list[str]]]] = [
    (["retention", "--now", NOW], text_facts.retention),
    (["du", "--now", NOW], text_facts.usage),
    (["groups", "--lag"], text_facts.groups),
    (["transactions"], text_facts.transactions),
    (["cluster"], text_facts.cluster),
    (["reindex"], text_facts.plans),
    (["patch-header"], text_facts.plans),
    (["truncate", "--at-damage", "--with-later-segments", "LARGEST"], text_facts.plans),
    (["find-offset", "LARGEST", "60"], text_facts.lookups),
    (["find-offset", "LARGEST", "latest", "--scan"], text_facts.lookups),
    (["find-time", "LARGEST", "max"], text_facts.lookups),
    (["find-time", "LARGEST", "2000-01-01", "--scan"], text_facts.lookups),
    (["salvage", "--to", "OUT"], text_facts.salvaged),
    (["carve", "--to", "OUT", "LOG"], text_facts.carved),
]
SCREENS = {"80": 80, "120": 120, "pipe": None}


def given(args: Sequence[str], place: Path, out: Path) -> list[str]:
    """Return a command line: the partition with the largest log, its log, and the directory that is asked about."""
    largest = max(place.rglob("*.log"), key=lambda path: (path.stat().st_size, path), default=place / "none")
    names = {"LARGEST": str(largest.parent), "LOG": str(largest), "OUT": str(out)}
    asked = [names.get(one, one) for one in args]
    return asked if {"LARGEST", "LOG"} & set(args) else [*asked, "."]


@cache
def rows_of(args: tuple[str, ...], place: Path) -> list[text_facts.Row]:
    with tempfile.TemporaryDirectory() as folder:
        run = run_kdump([*given(args, place, Path(folder) / "out"), "--format", "json"], place)
        return [json.loads(line) for line in run.stdout.splitlines()]


@pytest.mark.sampled(97)
@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize(("args", "differing"), READERS, ids=lambda one: " ".join(one) if isinstance(one, list) else "")
@pytest.mark.parametrize("place", places(), ids=lambda path: path.name)
def test_text_has_the_facts_of_json(
    place: Path, args: list[str], differing: Callable[[Any, Any], list[str]], screen: str, tmp_path: Path
) -> None:
    asked = given(args, place, tmp_path / "out")
    rows = rows_of(tuple(args), place)
    columns = SCREENS[screen]
    if columns is None:
        run = run_kdump(asked, place)
        lines = [*run.stdout.decode().splitlines(), *run.stderr.decode().splitlines()]
    else:
        lines = [line for line in run_in_terminal(asked, place, columns, {"NO_COLOR": "1"}).lines if line]
    assert not rows or differing(text_facts.Told(lines), rows) == []


@pytest.mark.sampled(41)
@pytest.mark.parametrize("args", [one for one, _ in READERS[7:]], ids=" ".join)
@pytest.mark.parametrize("place", places(), ids=lambda path: path.name)
def test_so_have_the_lines_of_what_asks_about_one_partition(place: Path, args: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    asked = given(args, place, out)
    printed = []
    for layout in ("lines", "json"):
        printed.append(run_kdump([*asked, "--format", layout], place).stdout.decode())
        shutil.rmtree(out, ignore_errors=True)
    assert differences(*printed) == []


@pytest.mark.parametrize("columns", [80, 120, None])
def test_undo_shows_each_file_of_the_repair(columns: int | None, tmp_path: Path) -> None:
    log_dir = copy_tree(FIXTURES / "index-x02-zeros", tmp_path / "some-topic-0")
    plan = run_kdump(["reindex", str(log_dir), "--apply", "--quarantine", "aside", "--format", "json"], tmp_path)
    (row,) = (one for one in map(json.loads, plan.stdout.splitlines()) if one["type"] == "plan")
    (journal,) = (tmp_path / "aside").iterdir()
    asked = ["undo", str(journal)]
    seen = run_kdump(asked, tmp_path).stdout.decode() if columns is None else ""
    lines = seen.splitlines() if columns is None else run_in_terminal(asked, tmp_path, columns).lines
    told = text_facts.Told(lines)
    assert row["operations"]
    assert told.lacks(*(f"would restore {log_dir / one['file']}" for one in row["operations"])) == []
    assert " ".join(lines).count("would restore") == len(row["operations"])


@pytest.mark.parametrize(
    "args", [["verify", "plain-0"], ["cluster", ".", "--topic", "plain"], ["groups", "--lag", "."]], ids=" ".join
)
def test_a_terminal_of_the_width_of_a_page_shows_what_a_pipe_gets(args: list[str]) -> None:
    in_pipe = run_kdump(args, NODE)
    seen = run_in_terminal(args, NODE, 100, {"NO_COLOR": "1"})
    assert [line for line in seen.lines if line.strip() and not line.startswith("kdump: ")] == [
        line for line in in_pipe.stdout.decode().splitlines() if line.strip()
    ]
