"""What the default mode says about damage: the right code at the right place, with the right value, and no false alarm.

The damaged directories are those of `fixtures/damage`; what is wrong in each is told by the edits that made it.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from kdump.compat.dump_log_segments_options import DumpOptions
from kdump.dump.checked import CheckedDump
from kdump.finding import Finding
from kdump.render.text.findings import finding_line
from tests.support.damage_cases import Damage, damage_cases
from tests.support.runs import FIXTURES, run_kdump
from tests.support.scan_windows import Real, real

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kdump.item import Item

CASES = {case.name: case for case in damage_cases(FIXTURES / "damage")}
BASES = FIXTURES / "damage" / "intact"
# Families that a log alone shows; a dropped batch is a hole of offsets (L10 = O04), one at the end too (L11 = O07).
FAMILIES = "LBORC"
SAME = {"L10": "O04", "L11": "O07"}


def is_log(case: Damage) -> bool:
    return case.file.endswith(".log") and case.name not in GONE


# The name of the file tells no base offset: it is not shown until the user says one.
GONE = {"f01-foreign-log-name"}
LOGS = [case for case in CASES.values() if is_log(case)]


def of_family(case: Damage) -> set[str]:
    """The codes of a case that a log alone can show."""
    return {SAME.get(code, code) for code in case.codes if code[0] in FAMILIES}


# --- how it is dumped ---------------------------------------------------------------------------------------
def dumped(path: Path | str, *, deep: bool = True) -> list[Item]:
    """All items of one file; chunks among them are no longer valid."""
    return list(CheckedDump(DumpOptions(deep=deep)).files([str(path)]))


def findings(path: Path | str) -> list[Finding]:
    return [item for item in dumped(path) if isinstance(item, Finding)]


LINE = re.compile(
    rb"^(?:baseOffset|offset): .* position: (\d+) .* size: (\d+) magic: .* isvalid: (true|false)\}?$", re.M
)


def batch_lines(path: Path) -> Counter[tuple[int, int, bool]]:
    """Position, size and validity on the lines of batches that the default mode prints, how often each."""
    run = run_kdump(["dump", "--print-data-log", path.name], path.parent)
    return Counter((int(at), int(size), valid == b"true") for at, size, valid in LINE.findall(run.stdout))


def intact_part(case: Damage) -> Real:
    """The file of a case before it was damaged, under its name of then."""
    name = case.file
    for edit in reversed(case.edits):
        if edit.get("to") == name:
            name = edit["file"]
    return real(BASES / case.base / "logdir" / name)


# --- every intact batch -------------------------------------------------------------------------------------
def occurrences(data: bytes, part: bytes) -> Iterator[int]:
    at = data.find(part)
    while at >= 0:
        yield at
        at = data.find(part, at + 1)


@pytest.mark.parametrize("case", LOGS, ids=lambda case: case.name)
def test_each_intact_batch_is_printed_once(case: Damage, tmp_path: Path) -> None:
    """Wherever the bytes of a batch stand as they were before the damage, there is its line, and valid."""
    path = case.build(tmp_path / "logdir") / case.file
    data, before = path.read_bytes(), intact_part(case)
    lines = batch_lines(path)
    for position, size in before.bounds:
        for at in occurrences(data, before.data[position : position + size]):
            assert lines[at, size, True] == 1, f"the batch of {position} that stands at {at} now"
    ends = [0]
    for at, size, _ in sorted(lines):
        assert at >= ends[-1], "two lines for the same bytes"
        ends.append(at + size)


# --- the right code at the right place ----------------------------------------------------------------------
# Cases whose damage does not show as one of their codes, and what they show instead.
OTHERWISE: dict[str, tuple[set[str], str]] = {
    "c01-lz4-stream-bit": (set(), "the bit is in a literal: the stream decodes, to other text"),
    "c01-snappy-stream-bit": (set(), "the bit is in a literal: the stream decodes, to other text"),
    "c01-zstd-stream-bit": ({"R05"}, "the bit is in a literal: the stream decodes, to other text"),
    "l10-drop-last": ({"O07"}, "a dropped batch at the end is a hole before the next segment"),
    "o01-renamed-down": (set(), "the segment before it is the one that reaches too far (below)"),
}


def place(case: Damage, before: Real, size: int) -> int:
    """Where the damage begins: the batch that the first edit of the file hits, or the end that it makes."""
    edit = next(edit for edit in case.edits if case.file in (edit["file"], edit.get("to")))
    if edit["op"] in ("append", "append_zeros"):
        return len(before.data)
    at = 0 if edit["op"] == "rename" else size if edit["op"] == "truncate" else edit["position"]
    return max((position for position, _ in before.bounds if position <= at), default=0)


# Where the finding is not at the batch that was edited.
ELSEWHERE = {
    "l03-zeros-from-mid-batch": "the header still stands: a gap of its own before the zeros",
    "l04-hole-last": "the same",
    "l04-hole-mid": "the same",
    "l10-duplicate": "the second of two equal batches is the one that does not follow",
    "o04-gap-from-here": "O06 is told at the end of the file",
    "o06-overlaps-next": "told at the end of the file",
}


@pytest.mark.parametrize("case", [case for case in LOGS if of_family(case)], ids=lambda case: case.name)
def test_each_damage_is_told_at_its_place(case: Damage, tmp_path: Path) -> None:
    path = case.build(tmp_path / "logdir") / case.file
    found = findings(path)
    if case.name in OTHERWISE:
        assert {one.code.name for one in found} == OTHERWISE[case.name][0]
        return
    told = [one for one in found if one.code.name in of_family(case)]
    assert told, [finding_line(one) for one in found]
    at_end = {"O06", "O07"}
    size = path.stat().st_size
    for one in told:
        if one.code.name in at_end:
            assert (one.position, one.length) == (size, 0)
    if case.name not in ELSEWHERE and not {one.code.name for one in told} <= at_end:
        assert place(case, intact_part(case), size) in [one.position for one in told]
