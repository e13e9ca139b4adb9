"""What `kdump verify` writes, from items made by hand: text, lines, JSON, the bar of a terminal, exit codes.

Nothing here depends on what the verb finds: it is replaced by a stream of items.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tracemalloc
import tty
import unicodedata
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import kdump
from kdump.checks.options import VerifyOptions
from kdump.cli.main import kdump as group
from kdump.finding import Code, Finding, Severity, Trait
from kdump.format.kinds import FileKind
from kdump.item import Checked, CheckedFile, PartitionChecked, Progress
from kdump.render.progress import Bar, short_path
from kdump.render.report.styled import Paper
from kdump.render.report.verify import VerifyTable
from kdump.render.row_lines import RowLines
from kdump.render.status_lines import StatusLines
from kdump.render.text.findings import remedy_text
from kdump.rows.fact_lines import row_facts
from kdump.rows.steps import NONE, Amount, Rank, Step
from kdump.rows.verdict import Certainty, Loss
from kdump.storage.file_source import OpenFailure
from kdump.tally import Tally
from kdump.verdict_status import VerdictStatus
from kdump.words.command import ShellCommand, command_line
from kdump.words.escape import escape
from kdump.words.numbers import byte_span, counted, size, span
from tests.support.runs import FIXTURES, flat, run_kdump

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from click.testing import Result

    from kdump.item import Item
    from kdump.row import Row

SECONDS = 120  # a run that takes longer hangs
ESCAPES = "\x1b[2J\x07\x7f\x9b31m\u202e\u2066\u200b\ufeff\r\b\n\t"

P = "data/orders-0"
LOG, INDEX, TIMES = (f"{P}/00000000000000000042.{kind}" for kind in ("log", "index", "timeindex"))
EPOCHS = f"{P}/leader-epoch-checkpoint"
SEGMENT = Checked((CheckedFile(LOG, FileKind.LOG, 5_000_000), CheckedFile(INDEX, FileKind.INDEX, 800)), 70, 9000)
DIRECTORY = PartitionChecked(P, 1, 42, 9042, 5_000_000)

ERROR = Finding(
    Code.B01, LOG, 1000, 500, offset=50, last_offset=59, field="crc", found=0xAB, expected=0xCD, count=10
)  # fmt: skip
FIELD = Finding(Code.L07, LOG, 3000, 90, field="batchLength", found=77, expected=78)
WARNING = Finding(Code.B06, LOG, 2000, 61, found=0x100)
NOTE = Finding(Code.F02, INDEX)
GONE = Finding(Code.F09, TIMES)
LIMIT = Finding(Code.L12, LOG, 4000, 61, values={"why": "the batch is over --max-batch-bytes"})
MISSING = OpenFailure("nothing.log", "missing", "no such file: nothing.log")
DENIED = OpenFailure(EPOCHS, "permission", f"{EPOCHS}: permission denied; run as kafka, who owns it")
SKIPPED = OpenFailure(f"{P}/x", "skipped", f"{P}/x: not read: a directory inside a partition directory")

CLEAN: list[Item] = [SEGMENT, DIRECTORY]
NOTED: list[Item] = [NOTE, SEGMENT, DIRECTORY]
WARNED: list[Item] = [WARNING, SEGMENT, DIRECTORY]
LOSS = Loss(P, "orders-0", None, None, None, 9042, 9043, None, Certainty.LOST, ("K01",))
DAMAGED: list[Item] = [ERROR, WARNING, NOTE, GONE, SEGMENT, DENIED, Checked((), 0, 0), DIRECTORY]


def alike(count: int, code: Code = Code.L09, severity: Severity | None = None) -> Iterator[Finding]:
    """Yield findings of one kind."""
    for at in range(count):
        yield Finding(code, LOG, 100 * at, 1, gap=True, severity_override=severity)


class Written:
    """What a sink wrote: stdout and stderr in one list of lines, those of stderr after "2> "."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text

    def error(self, line: str) -> None:
        self.text += f"2> {escape(line)}\n"  # as `say` does

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


def quietly(fail_on: str = "error") -> Callable[[Item], bool]:
    return VerdictStatus(fail_on, compat=False).matters


def fact(row: Row) -> str:
    """Return the line of a row."""
    return row_facts(row).rstrip("\n")


def as_lines(items: Iterable[Item], **options: Any) -> list[str]:
    """Return the lines of `--format lines`."""
    out = Written()
    sink = StatusLines(out.write, out.error, Tally(), **{"wanted": None, **options})
    for item in items:
        sink(item)
    sink.end(0)
    return out.lines


def as_json(items: Iterable[Item], *, shallow: bool = False, **options: Any) -> list[dict[str, Any]]:
    """Return the objects on stdout."""
    out = Written()
    sink = RowLines(out.write, lambda _line: None, Tally(shallow=shallow), **{"wanted": None, **options})
    for item in items:
        sink(item)
    sink.end(0)
    assert out.text.isascii()
    assert out.text.endswith("\n")
    return [json.loads(line) for line in out.lines]


def as_table(
    items: Iterable[Item],
    *paths: str,
    width: int = 100,
    height: int = 25,
    colour: bool = False,
    code: int = 0,
    shallow: bool = False,
    **options: Any,
) -> str:
    """Return the text, stderr apart."""
    out: list[str] = []
    paper = Paper(out.append, width, height, coloured=colour, is_screen=True)
    given = {"fold": True, "notes": False, "wanted": None, **options}
    sink = VerifyTable(paper, lambda _line: None, Tally(shallow=shallow), paths or ("data",), **given)
    for item in items:
        sink(item)
    sink.end(code)
    return "".join(out)


# --- lines --------------------------------------------------------------------------------------------------
def test_each_file_has_a_line_with_its_status_behind_its_findings() -> None:
    assert as_lines(DAMAGED) == [
        fact(ERROR),
        fact(WARNING),
        fact(NOTE),
        fact(GONE),
        f"DAMAGED\t{LOG}",
        f"SOUND\t{INDEX}",
        f"WARNING\t{TIMES}",
        f"UNREAD\t{EPOCHS}",
        f"2> kdump: {DENIED.sentence}",
        (
            "summary files=2 bytes=5000800 batches=70 records=9000 partitions=1 errors=1 warnings=2 notes=1 "
            "offsetsLost=0 recordsLost=0 recordsUnknown=0 "
            "offsetsElsewhere=0 recordsElsewhere=0 offsetsUnexplained=0 offsetsTwice=0 exit=0"
        ),
        f'summary.unchecked file={EPOCHS} reason="permission denied; run as kafka, who owns it"',
    ]


def test_lines_call_nothing_sound_that_is_not_there() -> None:
    absent = GONE.replace(severity_override=Severity.NOTE)
    assert [line for line in as_lines([absent, SEGMENT]) if "\t" in line] == [f"SOUND\t{LOG}", f"SOUND\t{INDEX}"]


def test_lines_call_nothing_sound_that_was_not_read_to_its_end() -> None:
    problem = OpenFailure(LOG, "read", f"{LOG}: cannot be read further: Input/output error")
    statuses = [line for line in as_lines([ERROR, problem, SEGMENT]) if "\t" in line]
    assert statuses == [f"UNREAD\t{LOG}", f"DAMAGED\t{LOG}", f"SOUND\t{INDEX}"]
    statuses = [line for line in as_lines([problem, SEGMENT]) if "\t" in line]
    assert statuses == [f"UNREAD\t{LOG}", f"SOUND\t{INDEX}"]


def test_lines_have_all_findings_and_hold_none() -> None:
    lines = as_lines([*alike(150), SEGMENT])
    assert lines[:150] == [fact(one) for one in alike(150)]
    assert lines[150:152] == [f"DAMAGED\t{LOG}", f"SOUND\t{INDEX}"]


@pytest.mark.parametrize("code", [code for code in Code if Trait.ONLY_LOST in code.traits])
def test_what_is_only_lost_is_not_called_damaged(code: Code) -> None:
    values = dict.fromkeys(("why", "what", "expected"), "x") | {"missing_first": 1, "missing_last": 2}
    gone = Finding(code, LOG, severity_override=Severity.ERROR, values=values)
    assert f"LOST\t{LOG}" in as_lines([gone, SEGMENT])
    assert f"DAMAGED\t{LOG}" in as_lines([gone, ERROR, SEGMENT])
    assert as_table([gone, SEGMENT, DIRECTORY]).startswith("LOST     orders-0 ")


def test_effects_of_a_cause_are_counted_and_never_shown_but_without_folding() -> None:
    effects = [one.replace(because=Code.L03) for one in alike(7)]
    cause = ERROR.replace(code=Code.L03)
    shown = as_table([cause, *effects, SEGMENT, DIRECTORY])
    assert "7 effects of L03 zero-tail: " in " ".join(shown.split())
    assert as_table([cause, *effects, SEGMENT, DIRECTORY], fold=False).count("error L09") == 7
    assert sum(" because=L03" in line for line in as_lines([cause, *effects, SEGMENT])) == 7
    assert len(as_json([cause, *effects, SEGMENT])) == 9


def test_steps_stand_at_the_end_with_commands_that_can_be_pasted() -> None:
    person = Step(1, 1, (), Rank.RECOMMENDED, None, None, "restore it")
    reindex = command_line("reindex", "a b")
    command = Step(2, 1, (), Rank.IF, "there is none", reindex, "builds it", Amount(2, 1), NONE, 7)
    assert as_lines([ERROR, SEGMENT, person, command])[-3:-1] == [
        'step option=1 n=1 rank=recommended why="restore it"',
        """step option=2 n=1 rank=if condition="there is none" command="kdump reindex 'a b'" why="builds it" \
keeps.offsets=2 keeps.records=1 loses.offsets=0 loses.records=0 bytes=7""",
    ]
    table = as_table([ERROR, SEGMENT, DIRECTORY, person, command.replace(command=f"kdump reindex {'x' * 200}")])
    assert f"kdump reindex {'x' * 200}\n" in table
    assert "    if there is none\n" in table
    assert "builds it (keeps the one intact record, 7 B to read or copy)" in " ".join(table.split())
    nobody_knows = {"offsets": None, "records": None}
    assert as_json([person])[0] == {
        "type": "step",
        "option": 1,
        "n": 1,
        "partitions": [],
        "rank": "recommended",
        "condition": None,
        "command": None,
        "why": "restore it",
        "keeps": nobody_knows,
        "loses": nobody_knows,
        "bytes": None,
    }


def test_findings_without_a_group_are_not_lost() -> None:
    assert as_lines([ERROR])[:2] == [fact(ERROR), f"DAMAGED\t{LOG}"]
    assert LOG in as_table([ERROR])


# --- quiet --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("items", [CLEAN, NOTED, WARNED, [SKIPPED, *CLEAN]], ids=["clean", "note", "warning", "skip"])
def test_quiet_is_silent_without_errors(items: list[Item]) -> None:
    assert as_lines(items, wanted=quietly()) == []
    assert as_table(items, wanted=quietly()) == ""
    assert [row["type"] for row in as_json(items, wanted=quietly())] == ["summary"]


def test_quiet_shows_errors_and_what_could_not_be_read() -> None:
    lines = as_lines(DAMAGED, wanted=quietly())
    assert lines[:4] == [fact(ERROR), f"DAMAGED\t{LOG}", f"UNREAD\t{EPOCHS}", f"2> kdump: {DENIED.sentence}"]
    assert lines[4].startswith("summary files=2 ")
    assert len(lines) == 6
    shown = as_table(DAMAGED, wanted=quietly())
    assert "B01" in shown
    assert "B06" not in shown
    assert [row.get("code") for row in as_json(DAMAGED, wanted=quietly())] == ["B01", None]


def test_quiet_shows_what_makes_the_exit_status() -> None:
    assert as_lines(WARNED, wanted=quietly("warning"))[:2] == [fact(WARNING), f"WARNING\t{LOG}"]
    assert as_lines([LIMIT, SEGMENT], wanted=quietly())[:2] == [fact(LIMIT), f"WARNING\t{LOG}"]


# --- JSON ---------------------------------------------------------------------------------------------------
def test_json_has_the_keys_that_are_promised() -> None:
    *rows, summary = as_json(DAMAGED)
    for row in rows:
        assert list(row) == [
            "type", "code", "name", "severity", "file", "position", "length", "gap", "offset", "lastOffset",
            "offsetsFrom", "field", "expected", "found", "message", "remedy", "repair", "count", "because", "more",
        ]  # fmt: skip
        assert row["type"] == "finding"
    assert rows[0]["code"] == "B01"
    assert (rows[0]["position"], rows[0]["length"], rows[0]["offset"], rows[0]["lastOffset"]) == (1000, 500, 50, 59)
    assert (rows[0]["found"], rows[0]["expected"], rows[0]["count"], rows[0]["gap"]) == (0xAB, 0xCD, 10, False)
    assert list(summary.items()) == [
        ("type", "summary"), ("files", 2), ("bytes", 5_000_800), ("batches", 70), ("records", 9000), ("partitions", 1),
        ("errors", 1), ("warnings", 2), ("notes", 1), ("offsetsLost", 0), ("recordsLost", 0), ("recordsUnknown", 0),
        ("offsetsElsewhere", 0), ("recordsElsewhere", 0),
        ("offsetsUnexplained", 0),
        ("offsetsTwice", 0),
        ("unchecked", [{"file": EPOCHS, "reason": "permission denied; run as kafka, who owns it"}]), ("exit", 0),
    ]  # fmt: skip


def test_json_never_folds() -> None:
    assert len(as_json([*alike(150), SEGMENT])) == 151


def test_json_names_each_file_that_was_not_all_read_once() -> None:
    summary = as_json([LIMIT, LIMIT, SEGMENT, MISSING])[-1]
    assert summary["unchecked"] == [
        {"file": LOG, "reason": LIMIT.message},
        {"file": "nothing.log", "reason": "no such file: nothing.log"},
    ]


def test_json_says_what_was_left_out_on_purpose() -> None:
    assert as_json(CLEAN, shallow=True)[-1]["unchecked"] == [
        {"file": None, "reason": "records were not read (--shallow)"}
    ]


# --- hostile names ------------------------------------------------------------------------------------------
HOSTILE = os.fsdecode(b"data/t\xff-0/") + f"{ESCAPES}.log"
HOSTILE_ITEMS: list[Item] = [
    ERROR.replace(file=HOSTILE),
    Finding(Code.K03, HOSTILE, values={"why": f"{ESCAPES}\udcfe"}),
    Finding(Code.L07, HOSTILE, field=ESCAPES, found=ESCAPES, expected=ESCAPES),
    Checked((CheckedFile(HOSTILE, FileKind.LOG, 1),), 0, 0),
    PartitionChecked(os.path.dirname(HOSTILE), 1, 0, 1, 1),
    OpenFailure(f"{HOSTILE}2", "other", f"{HOSTILE}2: cannot be opened: for some reason"),
]


def unsafe(text: str) -> set[str]:
    """Return the characters that could drive a terminal or turn its text around."""
    return {c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")}


def test_no_name_breaks_the_lines_of_text() -> None:
    lines = as_lines(HOSTILE_ITEMS)
    assert unsafe("".join(lines).replace("\t", "")) == set()
    assert len(lines) == 8  # three findings, two statuses, a sentence, the summary and its row
    assert all(line.count("\t") == ("\t" in line) for line in lines)
    assert lines[3].startswith('DAMAGED\t"data/t\\udcff-0/\\u001b[2J')


@pytest.mark.parametrize("paths", [("data",), (HOSTILE,)], ids=["partition", "file"])
def test_no_name_drives_a_terminal(paths: tuple[str, ...]) -> None:
    shown = as_table(HOSTILE_ITEMS, *paths)
    assert unsafe(shown) == set()
    assert "\\x1b[2J" in shown


def test_a_name_in_json_is_never_lost() -> None:
    rows = as_json(HOSTILE_ITEMS)
    assert rows[0]["file"]["base64"]
    assert list(rows[0]["file"]) == ["base64"]
    assert "\\xfe" in rows[1]["message"]
    for row in rows:
        json.dumps(row, ensure_ascii=False).encode("utf-8")  # no lone surrogate is left
    plain = as_json([ERROR.replace(file="t\u00e9\n-0/x.log"), SEGMENT])
    assert plain[0]["file"] == "t\u00e9\n-0/x.log"


# --- the table ----------------------------------------------------------------------------------------------
def words(text: str) -> list[str]:
    """Return the words of a table, without the bars beside them."""
    return text.replace("\u2503", " ").split()


def test_the_table_of_sound_partitions_is_one_line_each() -> None:
    items: list[Item] = [*CLEAN, *NOTED, Checked((), 0, 0), PartitionChecked("data/empty-3", 0, None, None, 0)]
    assert as_table(items).splitlines() == [
        "SOUND    orders-0                 1 segment  offsets 42..9041    5.0 MB",
        "SOUND    orders-0                 1 segment  offsets 42..9041    5.0 MB  1 note",
        "SOUND    empty-3                 0 segments                         0 B",
        "3 partitions, 2 segments, 10.0 MB, 140 batches: SOUND, 1 note (--notes lists them)",
    ]
    assert as_table(CLEAN).splitlines()[-1] == "1 partition, 1 segment, 5.0 MB, 70 batches: SOUND"


REASONS = "2 errors, 2 warnings, 1 note, 1 file not read"


def test_the_table_of_a_damaged_partition() -> None:
    assert as_table([FIELD, *DAMAGED], code=6, width=110).splitlines() == [
        f"DAMAGED  orders-0         1 segment  offsets 42..9041    5.0 MB  {REASONS}",
        "",
        "what was found",
        "  orders-0/00000000000000000042.log",
        "  \u2503 error L07 wrong-length           bytes 3000..3089   batchLength found 77 expected 78",
        "  \u2503   the batch length 77 is wrong",
        f"  \u2503   -> {Code.L07.remedy}",
        "  \u2503 error B01 crc-mismatch           bytes 1000..1499   offsets 50..59",
        "  \u2503   stored crc 0x000000ab, computed 0x000000cd; 10 records cannot be trusted",
        f"  \u2503   -> {Code.B01.remedy}",
        "  \u2503 warning B06 attributes-reserved   bytes 2000..2060",
        "  \u2503   reserved attribute bits are set (0x0100)",
        f"  \u2503   -> {Code.B06.remedy}",
        "  orders-0/00000000000000000042.timeindex",
        "  \u2503 warning F09 index-missing",
        f"  \u2503   {Code.F09.sentence.removesuffix(' used')}",
        "  \u2503     used",
        f"  \u2503   -> {Code.F09.remedy}",
        "",
        "what a code means: kdump explain L07",
        "1 partition, 1 segment, 5.0 MB, 70 batches: 2 errors, 2 warnings, 1 note (--notes lists them), 1 not checked",
        "exit 6",
    ]


def test_the_table_says_once_what_several_findings_say_alike() -> None:
    shown = as_table([*alike(3), SEGMENT, DIRECTORY])
    assert shown.count("error L09") == 3
    assert shown.count(Code.L09.sentence) == 1
    assert shown.count(Code.L09.remedy) == 1


def test_the_table_names_all_bytes_of_what_it_counts() -> None:
    found = list(alike(9))
    begin, last = found[4].position, found[-1]
    assert f"bytes {begin}..{(last.position or 0) + (last.length or 0) - 1}" in as_table([*found, SEGMENT, DIRECTORY])


@pytest.mark.parametrize("width", [20, 44, 79, 120])
def test_the_table_loses_no_word_where_it_is_narrow(width: int) -> None:
    wide, narrow = as_table(DAMAGED, width=1000), as_table(DAMAGED, width=width)
    assert "".join(words(narrow)) == "".join(words(wide))
    assert all(len(line) <= width for line in narrow.splitlines())
    if width >= 44:  # whole words, but for names that are longer than a line
        assert words(narrow) == words(wide)


def test_colour_says_only_what_words_say() -> None:
    coloured = as_table(DAMAGED, colour=True)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == as_table(DAMAGED)
    assert unsafe(re.sub(r"\x1b\[[0-9;]*m", "", coloured)) == set()


def partitions(count: int) -> Iterator[Item]:
    """Yield sound partitions."""
    for number in range(count):
        path = f"data/t-{number}"
        yield Checked((CheckedFile(f"{path}/00000000000000000000.log", FileKind.LOG, 1),), 1, 1)
        yield PartitionChecked(path, 1, 0, 1, 1)


def test_sound_partitions_are_counted_after_a_screenful() -> None:
    lines = as_table(partitions(60)).splitlines()
    assert [line.split()[1] for line in lines[:19]] == [f"t-{number}" for number in range(19)]
    assert lines[19] == "41 more partitions: sound (--no-fold lists them)"
    assert as_table(partitions(60), fold=False).count("SOUND    t-") == 60


def test_a_screen_shows_what_is_not_sound_and_counts_the_rest() -> None:
    lines = as_table([*partitions(60), *DAMAGED, *partitions(7)]).splitlines()
    assert lines[0].startswith("DAMAGED  orders-0 ")
    assert lines[1] == "67 more partitions: sound (--no-fold lists them)"
    assert as_table([*partitions(60), *DAMAGED], fold=False).count("SOUND    t-") == 60


def test_a_screen_keeps_room_for_what_is_to_be_done() -> None:
    bad = [one for number in range(30) for one in damaged_partition(number)]
    lines = as_table(bad).splitlines()
    assert [line.split()[1] for line in lines[:8]] == [f"t-{number}" for number in range(8)]
    assert lines[8] == "22 more that are not sound: below"
    assert lines.index("what was found") < next(at for at, line in enumerate(lines) if line.startswith("DAMAGED  t-8 "))
    assert "22 more" not in as_table(bad, fold=False)
    assert as_table(bad, fold=False).splitlines()[29].startswith("DAMAGED  t-29 ")


def test_sound_partitions_leave_room_for_what_is_to_be_done_all_the_same() -> None:
    step = Step(1, 1, ("data/t-3",), Rank.RECOMMENDED, None, None, "copy the file")
    lines = as_table([*partitions(9), step]).splitlines()
    assert lines[0] == "9 partitions: sound (--no-fold lists them)"
    assert as_table([*partitions(8), step]).count("SOUND    t-") == 8


def test_an_error_behind_many_warnings_stands_above_what_is_to_be_done() -> None:
    bad = [one for number in range(30) for one in damaged_partition(number, Severity.WARNING)]
    lines = as_table([*bad, *damaged_partition(30)]).splitlines()
    assert [line.split()[1] for line in lines[:5]] == ["t-0", "t-1", "t-2", "t-3", "t-30"]
    assert lines[4].startswith("DAMAGED")
    assert lines[5] == "26 more that are not sound: below"


def damaged_partition(number: int, severity: Severity = Severity.ERROR) -> Iterator[Item]:
    """Yield what is found in a partition with one damaged batch, or one that is warned of."""
    path = f"data/t-{number}"
    yield ERROR.replace(severity_override=severity, file=f"{path}/00000000000000000000.log")
    yield Checked((CheckedFile(f"{path}/00000000000000000000.log", FileKind.LOG, 1),), 1, 1)
    yield PartitionChecked(path, 1, 0, 1, 1)


def test_text_lists_notes_only_when_they_are_asked_for() -> None:
    assert "F02" not in as_table(NOTED, fold=False)
    assert "1 note (--notes lists them)" in as_table(NOTED, fold=False)
    assert "note F02 empty-log" in as_table(NOTED, notes=True)
    assert "--notes" not in as_table(NOTED, notes=True)


def test_the_table_folds_what_repeats() -> None:
    items: list[Item] = [*alike(150), *alike(150, Code.L03), SEGMENT, DIRECTORY]
    shown = as_table(items)
    assert shown.count("error L09 foreign-bytes") == 5
    assert shown.count("146 more: ") == 2
    assert as_table(items, fold=False).count("error L09 foreign-bytes") == 150


def test_what_a_later_group_says_of_a_file_is_added() -> None:
    late = Finding(Code.L03, LOG, 8000, 10, gap=True)
    epochs = Checked((CheckedFile(EPOCHS, FileKind.EPOCHS, 20),), 0, 0)
    shown = as_table([ERROR, SEGMENT, late, epochs, DIRECTORY])
    assert shown.count("00042.log") == 1
    assert shown.index("error B01") < shown.index("error L03")
    assert "2 errors" in shown
    statuses = [line for line in as_lines([SEGMENT, late, epochs]) if "\t" in line]
    assert statuses == [f"SOUND\t{LOG}", f"SOUND\t{INDEX}", f"SOUND\t{EPOCHS}", f"DAMAGED\t{LOG}"]


def test_the_table_does_not_wait_for_ever_with_what_is_found() -> None:
    shown = as_table([*alike(2500), SEGMENT, DIRECTORY], fold=False)
    lines = shown.splitlines()
    assert lines[0] == f"  {LOG}"  # a thousand are written before the partition has a line
    assert shown.count("error L09") == 2500
    at = next(number for number, line in enumerate(lines) if line.startswith("DAMAGED  orders-0"))
    assert "2,500 errors" in " ".join(lines[at : at + 2])


def test_the_table_calls_no_partition_sound_that_could_not_be_read() -> None:
    shown = as_table([SEGMENT, DENIED, Checked((), 0, 0), DIRECTORY])
    assert re.match("UNREAD   orders-0 .* 1 file not read\n", shown)
    assert "what could be read is SOUND, 1 not checked" in shown


def test_the_table_calls_no_partition_sound_that_could_not_be_listed() -> None:
    denied = OpenFailure(DIRECTORY.path, "permission", f"{DIRECTORY.path}: cannot be listed: permission denied")
    shown = as_table([denied, DIRECTORY.replace(segments=0, start_offset=None, end_offset=None, size=0)])
    assert re.match("UNREAD   orders-0 .* not listed\n", shown)


def test_files_that_were_named_have_a_line_each() -> None:
    lines = as_table([ERROR, GONE, SEGMENT], LOG, INDEX).splitlines()
    assert lines[0] == f"DAMAGED  {LOG}  5.0 MB  1 error"
    assert f"SOUND    {INDEX}  800 B" in lines
    assert f"WARNING  {TIMES}  1 warning" in lines
    assert any(line.startswith("2 files, 5.0 MB, 70 batches: 1 error, 1 warning") for line in lines)


def test_files_of_a_log_directory_have_a_line_when_something_is_wrong() -> None:
    meta = CheckedFile("data/meta.properties", FileKind.META_PROPERTIES, 80)
    wrong = Finding(Code.K03, meta.path, values={"why": "no node.id"})
    assert meta.path not in as_table([*CLEAN, Checked((meta,), 0, 0)])
    lines = as_table([*CLEAN, wrong, Checked((meta,), 0, 0)]).splitlines()
    assert lines[0] == "DAMAGED  data/meta.properties  1 error"
    assert lines[1] == "1 more partition: sound (--no-fold lists them)"
    assert lines[5] == "  \u2503 error K03 checkpoint"
    lines = as_table([wrong, Checked((meta,), 0, 0), *CLEAN]).splitlines()
    assert lines[0] == "DAMAGED  data/meta.properties  1 error"
    assert lines[1] == "1 more partition: sound (--no-fold lists them)"


def test_one_path_is_not_repeated_and_several_are() -> None:
    assert as_table(CLEAN, P).startswith("SOUND    orders-0 ")
    assert as_table(CLEAN, "data", "other").startswith("SOUND    data/orders-0 ")
    here: list[Item] = [Checked((CheckedFile("./0.log", FileKind.LOG, 1),), 0, 0), PartitionChecked(".", 1, 0, 1, 1)]
    assert as_table(here, ".").startswith("SOUND    . ")


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([], "0 files, 0 B, 0 batches: nothing was checked"),
        ([MISSING], "0 files, 0 B, 0 batches: nothing was checked, 1 not checked"),
        (CLEAN, "1 partition, 1 segment, 5.0 MB, 70 batches: SOUND"),
        (WARNED, "1 partition, 1 segment, 5.0 MB, 70 batches: 1 warning"),
        ([*WARNED, LOSS], "1 partition, 1 segment, 5.0 MB, 70 batches: 2 offsets lost, 1 warning"),
    ],
)
def test_the_last_line_is_the_verdict(items: list[Item], said: str) -> None:
    assert as_table(items, width=200).splitlines()[-1] == said


def test_the_last_line_says_what_was_left_out_on_purpose() -> None:
    assert ": SOUND; records were not read (--shallow)" in as_table(CLEAN, shallow=True, width=200)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (99_949, "99.9 kB"), (99_950, "100 kB"), (999_499, "999 kB"),
        (999_500, "1.0 MB"), (402_000_000, "402 MB"), (38_200_000_000, "38.2 GB"), (10**19, "10.0 EB"),
        (5 * 10**21, "5000 EB"),
    ],
)  # fmt: skip
def test_sizes_are_rounded(number: int, text: str) -> None:
    assert size(number) == text


def test_counts_have_separators_and_offsets_none() -> None:
    assert (counted(1, "file"), counted(1200, "file")) == ("1 file", "1,200 files")
    assert (counted(1, "batch", "batches"), counted(0, "batch", "batches")) == ("1 batch", "0 batches")
    assert (span(1000, 1000, "offset"), span(1000, 2000, "offset")) == ("offset 1000", "offsets 1000..2000")
    assert (byte_span(1000, 1), byte_span(1000, 1001)) == ("byte 1000", "bytes 1000..2000")
    assert span(7, 6, "byte") == "byte 7"  # a place between two bytes


# --- nothing grows with a file ------------------------------------------------------------------------------
@pytest.mark.parametrize("sink", ["lines", "json", "text", "text without folding"])
def test_no_sink_keeps_what_it_was_given(sink: str) -> None:
    tally, fold = Tally(), "without" not in sink
    target: StatusLines | RowLines | VerifyTable
    if sink == "json":
        target = RowLines(str, str, tally, wanted=None)
    elif sink == "lines":
        target = StatusLines(str, str, tally, wanted=None)
    else:
        target = VerifyTable(Paper(str), lambda _line: None, tally, ["data"], fold=fold, wanted=None)
    for item in alike(1500):  # what is loaded at first use does not count
        target(item)
    tracemalloc.start()
    try:
        for item in alike(3500):
            target(item)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000


# --- the command --------------------------------------------------------------------------------------------
@pytest.fixture
def verify(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs `kdump verify` over items instead of files."""

    def run(items: Iterable[Item], *args: str) -> Result:
        def verb(paths: list[str], options: VerifyOptions) -> Iterator[Item]:
            asked.append((paths, options))
            yield from items

        asked.clear()
        monkeypatch.setitem(sys.modules, "kdump.checks.run", SimpleNamespace(verify=verb))
        monkeypatch.setitem(sys.modules, "kdump.checks.replicas", SimpleNamespace(compare=verb))
        return CliRunner().invoke(group, ["verify", *(args or ["data"])])

    return run


asked: list[tuple[list[str], VerifyOptions]] = []


@pytest.mark.parametrize(
    ("items", "args", "code"),
    [
        (CLEAN, "", 0),
        (NOTED, "--fail-on warning", 0),
        ([SKIPPED, *CLEAN], "--fail-on warning", 0),
        (CLEAN, "--shallow", 0),
        (WARNED, "", 0),
        (WARNED, "--fail-on warning", 4),
        (WARNED, "--fail-on never", 0),
        ([ERROR, SEGMENT], "", 3),
        ([ERROR, WARNING, SEGMENT], "--fail-on warning", 3),
        ([ERROR, SEGMENT], "--fail-on never", 0),
        ([ERROR, SEGMENT], "--quiet", 3),
        ([ERROR, SEGMENT], "--format json --quiet", 3),
        ([LIMIT, SEGMENT], "", 5),
        ([Finding(Code.V01, LOG), SEGMENT], "", 5),
        ([Finding(Code.V02, LOG), SEGMENT], "", 5),
        ([DENIED], "", 5),
        ([DENIED, MISSING], "", 5),
        ([DENIED, WARNING, SEGMENT], "--fail-on warning", 5),
        (DAMAGED, "", 6),
        (DAMAGED, "--fail-on never", 5),
        ([MISSING], "", 10),
        ([MISSING, WARNING, SEGMENT], "--fail-on warning", 10),
        ([MISSING, ERROR, SEGMENT], "", 6),
    ],
)
def test_the_exit_status(items: list[Item], args: str, code: int, verify: Callable[..., Result]) -> None:
    done = verify(items, *args.split(), "data")
    assert done.exit_code == code, done.output
    if "json" in args:
        assert json.loads(done.stdout.splitlines()[-1])["exit"] == code


def test_the_answer_is_on_stdout_and_sentences_on_stderr(verify: Callable[..., Result]) -> None:
    done = verify(DAMAGED)
    assert done.stdout == as_table(DAMAGED, fold=False, code=6)
    assert done.stderr == f"kdump: {DENIED.sentence}\n"
    done = verify(DAMAGED, "data", "--format", "json")
    assert [json.loads(line)["type"] for line in done.stdout.splitlines()] == ["finding"] * 4 + ["summary"]
    assert done.stderr == f"kdump: {DENIED.sentence}\n"


def test_the_verb_gets_what_the_options_say(verify: Callable[..., Result]) -> None:
    verify(CLEAN)
    assert [(paths, options.replace(policies=None)) for paths, options in asked] == [(["data"], VerifyOptions())]
    verify(
        CLEAN, "a", "--shallow", "--no-resync", "--contiguous", "-j", "3", "b", "--max-batch-bytes", "2000",
        "--max-uncompressed-bytes", "3000",
    )  # fmt: skip
    assert [(paths, options.replace(policies=None)) for paths, options in asked] == [
        (["a", "b"], VerifyOptions(deep=False, resync=False, contiguous=True, jobs=3, max_batch_bytes=2000,
                                   max_uncompressed_bytes=3000)),
    ]  # fmt: skip


def test_replicas_are_compared(verify: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    assert verify([ERROR, SEGMENT], "--replicas", "a", "b").exit_code == 3
    assert asked[0][0] == ["a", "b"]


@pytest.mark.parametrize(
    "args", [[], ["data", "--jobs", "-1"], ["data", "-j", "many"], ["data", "--format", "xml"], ["data", "--deep"]]
)
def test_a_wrong_use_ends_with_2_and_opens_nothing(args: list[str], verify: Callable[..., Result]) -> None:
    verify(CLEAN)
    asked.clear()
    assert CliRunner().invoke(group, ["verify", *args]).exit_code == 2
    assert asked == []


# --- processes: pipes, disks, terminals ---------------------------------------------------------------------
FAKE = """
import pickle, sys, time, types

def verb(paths, options):
    assert options.progress == PROGRESS
    for item in pickle.load(open(paths[0], "rb")):
        if isinstance(item, float):
            time.sleep(item)
        else:
            yield item

sys.modules["kdump.checks.run"] = types.SimpleNamespace(verify=verb)
from kdump.__main__ import main
main()
"""


def child(tmp_path: Path, items: Iterable[object], *args: str, progress: bool = False) -> list[str]:
    """Return the command that runs `kdump verify` over items; a number among them is a pause in seconds."""
    (tmp_path / "items").write_bytes(pickle.dumps(list(items)))
    code = FAKE.replace("PROGRESS", str(progress))
    return [sys.executable, "-P", "-c", code, "verify", str(tmp_path / "items"), *args]


UNSET = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")  # what rich reads
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name not in UNSET},
    "PYTHONPATH": str(Path(kdump.__file__).parent.parent),
    "TERM": "xterm",
}  # fmt: skip


@pytest.mark.parametrize("options", [[], ["--format", "json"], ["--no-fold"]], ids=shlex.join)
def test_a_shell_sees_141_of_a_closed_pipe(options: list[str], tmp_path: Path) -> None:
    items = [one for _ in range(1000) for one in (ERROR, *CLEAN)]
    command = shlex.join(child(tmp_path, items, *options))
    done = subprocess.run(
        ["bash", "-c", f'{command} | head -n 1; echo "${{PIPESTATUS[0]}}"'],
        env=ENVIRONMENT,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.stdout.splitlines()[1:] == [b"141"]
    assert done.stderr == b""


def test_a_full_disk_is_no_success_and_no_traceback(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            child(tmp_path, CLEAN), env=ENVIRONMENT, stdout=full, stderr=subprocess.PIPE, timeout=SECONDS, check=False
        )
    assert done.returncode == 5
    assert done.stderr.decode() == "kdump: cannot write the output: No space left on device\n"


def on_terminal(
    command: list[str], *, out: bool = True, err: bool = False, **environment: str
) -> tuple[int, str, str, str]:
    """Run a command with stdout, stderr or both on a terminal; return exit code, the terminal's text, both pipes'."""
    master, slave = pty.openpty()
    tty.setraw(slave)  # as it was written: no \n becomes \r\n
    with subprocess.Popen(
        command,
        env={**ENVIRONMENT, **environment},
        stdout=slave if out else subprocess.PIPE,
        stderr=slave if err else subprocess.PIPE,
    ) as process:
        os.close(slave)
        got = bytearray()
        try:
            while piece := os.read(master, 65536):
                got += piece
        except OSError:  # Linux says that the other side is gone
            pass
        finally:
            os.close(master)
        pipes = [b"" if pipe is None else pipe.read() for pipe in (process.stdout, process.stderr)]
        code = process.wait(SECONDS)
        return code, got.decode("utf-8", "surrogateescape"), pipes[0].decode(), pipes[1].decode()


def test_a_terminal_gets_the_table(tmp_path: Path) -> None:
    command = child(tmp_path, DAMAGED)
    code, shown, _, stderr = on_terminal(command, COLUMNS="120")
    assert code == 6
    assert "\x1b[1;31mDAMAGED\x1b[0m" in shown
    assert stderr == f"kdump: {DENIED.sentence}\n"
    code, plain, _, _ = on_terminal(command, COLUMNS="120", NO_COLOR="1")
    assert code == 6
    assert re.sub(r"\x1b\[[0-9;]*m", "", shown) == plain


def test_a_terminal_gets_json_when_it_is_asked_for(tmp_path: Path) -> None:
    _, shown, _, _ = on_terminal(child(tmp_path, CLEAN, "--format", "json"))
    assert json.loads(shown)["type"] == "summary"


def test_raw_writes_names_as_they_are(tmp_path: Path) -> None:
    _, shown, _, _ = on_terminal(child(tmp_path, HOSTILE_ITEMS[3:5], "--raw"), NO_COLOR="1", COLUMNS="1000")
    assert "t\udcff-0" in shown
    _, shown, _, _ = on_terminal(child(tmp_path, HOSTILE_ITEMS[3:5]), NO_COLOR="1", COLUMNS="1000")
    assert "t\\xff-0" in shown


def test_a_terminal_of_few_characters_gets_those(tmp_path: Path) -> None:
    items: list[Item] = [ERROR, SEGMENT, DIRECTORY.replace(path="data/\u65e5\u672c-0", offsets_lost=1)]
    _, shown, _, stderr = on_terminal(child(tmp_path, items), PYTHONIOENCODING="ascii", NO_COLOR="1")
    assert stderr == ""
    assert "| \x1b" in shown or "  | " in shown
    assert "\\u65e5" in shown


@pytest.mark.parametrize("out", [True, False], ids=["both", "stderr"])
def test_the_bar_is_on_stderr_and_gone_when_done(out: bool, tmp_path: Path) -> None:
    steps = [Progress(100 * step, 1000, LOG) for step in range(11)]
    items: list[object] = [0.6, *steps[:5], *CLEAN, 0.2, *steps[5:], *CLEAN]
    code, shown, stdout, _ = on_terminal(child(tmp_path, items, progress=True), out=out, err=True, COLUMNS="120")
    assert code == 0
    assert re.search(r"verify .* %  [0-9.]+ k?B of 1\.0 kB  .*orders-0/\.\.\.00042\.log", shown)
    assert "\x1b[?25l" not in shown  # the cursor is never hidden: nobody could give it back after Ctrl-C
    if not out:
        assert stdout == as_table([*CLEAN, *CLEAN], str(tmp_path / "items"))
        assert shown.endswith("\r\x1b[2K")
    screen = [line.rpartition("\x1b[2K")[2] for line in shown.split("\n")]
    assert not any("verify" in line for line in screen)  # each line that stays was written after the bar was gone


@pytest.mark.parametrize(
    ("items", "args", "environment"),
    [
        ([Progress(1, 2, LOG), *CLEAN], [], {}),
        ([0.6, Progress(1, 2, LOG), *CLEAN], [], {"TERM": "dumb"}),
        ([0.6, Progress(1, 2, LOG), *CLEAN], ["--quiet"], {}),
    ],
    ids=["short", "dumb", "quiet"],
)
def test_there_is_no_bar(items: list[object], args: list[str], environment: dict[str, str], tmp_path: Path) -> None:
    command = child(tmp_path, items, *args, progress="--quiet" not in args)
    _, shown, _, _ = on_terminal(command, out=False, err=True, **environment)
    assert shown == ""


def test_the_bar_is_drawn_at_most_ten_times_a_second() -> None:
    now = [0.0]
    stream = io.StringIO()
    bar = Bar("verify", stream, lambda: now[0])
    for step in range(1000):
        now[0] = step / 100
        bar.show(Progress(step, 1000, LOG))
    assert 90 <= stream.getvalue().count("verify") <= 96
    bar.hide()
    bar.hide()
    assert "0:00:0" in stream.getvalue() or "%" in stream.getvalue()


@pytest.mark.parametrize("progress", [Progress(0, 0, ""), Progress(0, 10, ESCAPES), Progress(20, 10, "x")])
def test_the_bar_takes_all_numbers(progress: Progress) -> None:
    now = iter([0.0, 1.0])
    stream = io.StringIO()
    Bar("verify", stream, lambda: next(now)).show(progress)
    assert unsafe(stream.getvalue()) == set()


def test_a_path_in_the_bar_is_short() -> None:
    assert short_path("/data/orders-31/00000000000000088000.log") == "orders-31/...88000.log"
    assert short_path("meta.properties") == "meta.properties"


def test_ctrl_c_ends_it_at_once(tmp_path: Path) -> None:
    items: list[object] = [*CLEAN, 60.0]
    with subprocess.Popen(
        child(tmp_path, items, "--format", "json"), env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(1.5)
            process.send_signal(signal.SIGINT)
            assert process.wait(SECONDS) == -signal.SIGINT
            assert process.stderr.read() == b"kdump: verify was interrupted; so far: 1 partition\n"
        finally:
            process.kill()


def test_a_bare_name_is_judged_as_the_same_file_by_a_longer_path(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "damage" / "intact" / "none" / "logdir", tmp_path / "logs")
    folder = next((tmp_path / "logs").glob("*-0"))
    log = sorted(folder.glob("*.log"))[0]
    data = bytearray(log.read_bytes())
    data[700] ^= 0xFF
    log.write_bytes(data)
    bare, longer = (run_kdump(["verify", path], folder) for path in (log.name, f"./{log.name}"))
    assert bare.exit == longer.exit == 3
    assert b"lost: offsets" in bare.stdout
    assert flat(bare.stdout) == flat(longer.stdout.replace(b"./", b""))


@pytest.mark.parametrize(
    ("code", "repair", "shown"),
    [
        (
            Code.L02,
            "kdump truncate x --at-damage",
            "or truncate at the start of this batch: kdump truncate x --at-damage",
        ),
        (Code.L07, "kdump patch-header x", "or restore the length field: kdump patch-header x"),
        (Code.L07, "kdump truncate x --at-damage", "field; or cut the log here: kdump truncate x --at-damage"),
        (Code.F10, "kdump truncate x --at-damage", "replica; or cut the log here: kdump truncate x --at-damage"),
        (Code.X03, "kdump reindex x", "rebuild the index: kdump reindex x"),
        (Code.S01, "kdump reindex x --snapshot", "longer; or rebuild it: kdump reindex x --snapshot"),
    ],
)
def test_a_command_stands_behind_its_own_verb(code: Code, repair: str, shown: str) -> None:
    assert remedy_text(Finding(code, LOG, repair=ShellCommand(*repair.split()))).endswith(shown)


def test_every_repair_has_a_verb() -> None:
    for code in Code:
        for command in code.repairs:
            assert remedy_text(Finding(code, LOG, expected=2, repair=command_line(command, "x"))).endswith(
                f": kdump {command} x"
            )


LACKING = PartitionChecked(P, 1, 42, 9042, 5_000_000, 121)
HOLE = Loss(P, "orders-0", LOG, 900, 0, 119, 239, None, Certainty.LOST, ("O07",))


def test_a_partition_with_lost_offsets_is_never_called_sound() -> None:
    items: list[Item] = [SEGMENT, HOLE, LACKING]
    assert f"LOST\t{P}" in as_lines(items)
    assert as_lines(items, wanted=quietly())[:2] == [fact(HOLE), f"LOST\t{P}"]
    for table in (as_table(items), as_table(items, wanted=lambda _: False)):
        assert "LOST     orders-0" in table
        assert "121 offsets lost" in table
        assert "lost: offsets 119..239" in table


def test_what_is_absent_is_shown_by_no_quiet_run() -> None:
    items: list[Item] = [SEGMENT, HOLE.replace(certainty=Certainty.ABSENT), DIRECTORY]
    assert as_lines(items, wanted=quietly()) == []


def test_where_a_file_is_damaged_its_own_line_says_so() -> None:
    assert not [line for line in as_lines([ERROR, SEGMENT, HOLE, LACKING]) if line.startswith("LOST")]


def test_a_page_about_lost_offsets_does_not_call_them_sound(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "damage" / "intact" / "none" / "logdir", tmp_path / "logs")
    for path in (tmp_path / "logs" / "plain-0").glob(f"{119:020}.*"):
        path.unlink()
    run = run_kdump(["verify", "--format", "html", "--set", "cleanup.policy=delete", "logs"], tmp_path)
    page = run.stdout.decode()
    assert run.exit == 3
    assert 'class="badge LOST"' in page
    assert "offsets lost" in page
    assert 'class="badge SOUND"' not in page
