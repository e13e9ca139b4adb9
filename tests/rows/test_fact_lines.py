"""Lines of facts: one line each, and whatever stands in a name or a value is read back as it was."""

from __future__ import annotations

import json
import os
import random
from typing import TYPE_CHECKING, Any

import pytest

from kdump.rows.fact_lines import facts, status_line
from tests.support.fact_reader import differences, read
from tests.support.runs import FIXTURES, copy_tree, run_kdump

if TYPE_CHECKING:
    from pathlib import Path

_PARTS = [
    *"ab01-+.eE=\"\\' \t\n\r\0\x1b\x7f\x85\xa0[]{}:,/é漢😀", "\u2028", "\u2029", "\u200b", "\u202e", "\ufeff",
    "\udc80", "\udcff", "\x1c", "\x0b", "NaN", "true", "null", "1e5", "Infinity", "-0",
]  # fmt: skip
_RUNS = 3000


def test_whatever_a_text_is_it_is_read_back_from_one_line() -> None:
    chance = random.Random(41)

    def text() -> str:
        return "".join(chance.choices(_PARTS, k=chance.randint(0, 6)))

    for _ in range(_RUNS):
        number = chance.choice([1, -1, None, True, 1.5, 2**63])
        row: dict[str, Any] = {"file": text(), "n": number, "names": [text() for _ in range(chance.randint(0, 2))]}
        line = facts("finding", {**row, "cause": {"code": text(), "none": None}})
        assert len(line.splitlines()) == 1, line
        kind, found = read(line[:-1])
        code = found.pop("cause.code")
        assert kind == "finding"
        assert isinstance(code, str)
        assert found == {key: value for key, value in row.items() if value not in (None, [])}, line


@pytest.mark.parametrize("path", ["a\nb", "a\tb", 'a"b', '"a"', "a\\x0ab", "a=b c", "\udcff", "\u202e"])
def test_the_path_of_a_verdict_is_read_back(path: str) -> None:
    line = status_line("SOUND", path)
    assert len(line.splitlines()) == 1
    verdict, _, shown = line[:-1].partition("\t")
    assert verdict == "SOUND"
    assert (json.loads(shown) if shown.startswith('"') else shown) == path


@pytest.mark.parametrize("verb", ["verify", "du", "retention", "reindex", "groups", "transactions"])
@pytest.mark.parametrize("name", [b'a\tb=c\n"d" \'e', b"\xff\xfe", "\u2028\u202e".encode()], ids=repr)
def test_lines_have_the_rows_of_json_below_any_directory(verb: str, name: bytes, tmp_path: Path) -> None:
    log_dir = copy_tree(FIXTURES / "damage" / "intact" / "none" / "logdir", tmp_path / os.fsdecode(name))
    log = min((log_dir / "plain-0").glob("*.log"))
    log.write_bytes(log.read_bytes()[:-7])
    more = ["--now", "2026-11-28T00:00Z"] if verb in ("du", "retention") else []
    lines, rows = (
        run_kdump([verb, os.fsdecode(name), *more, "--format", layout], tmp_path).stdout.decode()
        for layout in ("lines", "json")
    )
    assert rows.count("\n") > 0
    assert differences(lines, rows) == []
