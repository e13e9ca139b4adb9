"""On a real terminal: no line of a table is wider than it, colours where they are wanted, Ctrl-C leaves one line."""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import time
from typing import TYPE_CHECKING

import pytest

from kdump.item import Progress
from kdump.render.progress import Bar
from kdump.render.report.columns import TableColumn, fitting, shortened, write_table
from kdump.render.report.page import Page, ShownBlock, ShownOption
from kdump.render.report.sentences import fitted
from kdump.render.report.styled import Paper, Text, cell_len
from kdump.words.command import ShellCommand
from tests.support.runs import FIXTURES, copy_tree, run_kdump
from tests.support.terminal import Seen, run_in_terminal

if TYPE_CHECKING:
    from pathlib import Path

NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"


def places() -> list[Path]:
    """Every seventh of the damaged directories, and those of real brokers; tests/bench/terminal.py takes all."""
    damaged = sorted(path for path in FIXTURES.glob("*-*-*/") if path.is_dir())
    return [NODE, *damaged[::7]]


def is_of_a_table(line: str) -> bool:
    """Commands are written whole, so that they can be pasted."""
    return not re.match(r"[ ┃]*\d* +(kdump|mv) |.*kafka-[a-z]+\.sh |(error|warning|note) [A-Z]\d\d ", line)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "args", [["verify", "--start", "all"], ["verify", "--notes"], ["retention"], ["du"]], ids=" ".join
)
@pytest.mark.parametrize("place", places(), ids=lambda path: path.name)
def test_no_line_of_a_table_is_wider_than_the_terminal(place: Path, args: list[str]) -> None:
    seen = run_in_terminal([*args, "."], place, 80)
    assert seen.exit != 1
    assert [line for line in seen.lines if cell_len(line) > 80 and is_of_a_table(line)] == []


@pytest.mark.parametrize(
    "args",
    [
        ["groups", "--lag"],
        ["groups", "--group", "a-group-that-nobody-knows", "--at", "2026-11-21T00:05:30Z"],
        ["transactions"],
        ["cluster", "--check", "."],
        ["cluster", "--topic", "none"],
        ["retention", "--pass"],
        ["du"],
        ["du", "--by", "key"],
        ["du", "--full-at", "10G", "--by", "partition"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("columns", [60, 80])
def test_nor_is_any_line_about_a_node(args: list[str], columns: int) -> None:
    """Not even a finding, a sentence below a table or a note on stderr; only a command is written whole."""
    lines = run_in_terminal([*args, "."], NODE, columns).lines
    assert [
        line for line in lines if cell_len(line) > columns and not re.match(" +(kdump|kafka-[a-z]+.sh) ", line)
    ] == []


def test_a_note_is_wrapped_by_word_and_its_command_is_not() -> None:
    note = "kdump: no group billing here; list them: kdump groups '/var/lib/kafka a' /var/lib/kafka-b"
    lines = ["kdump: no group billing here; list", "  them:", "  kdump groups '/var/lib/kafka a' /var/lib/kafka-b"]
    assert fitted(note, 35).split("\n") == lines
    assert fitted(note, 100) == note
    path = "/a-very-long-path/that-cannot-be-broken/00000000000000000000.log"
    assert fitted(f"kdump: {path}: no such file", 30).split("\n") == ["kdump:", f"  {path}:", "  no such file"]
    assert fitted("  kdump undo aside/a-repair # undone already", 20).count("\n") == 0


@pytest.mark.parametrize(
    "args",
    [
        ["reindex", "t-0"],
        ["truncate", "t-0", "--to-offset", "200", "--with-later-segments"],
        ["patch-header", "t-0"],
        ["find-time", "t-0", "max"],
        ["find-offset", "t-0", "200"],
        ["explain", "X04", "K03", "F14"],
    ],
    ids=lambda args: args[0],
)
def test_sentences_on_stdout_are_wrapped_and_commands_are_whole(args: list[str], tmp_path: Path) -> None:
    partition = copy_tree(FIXTURES / "damage" / "intact" / "none" / "logdir" / "plain-0", tmp_path / "t-0")
    for name, at, bit in (("00000000000000000119.index", 7, 1), ("00000000000000000119.log", 3834, 1)):
        data = bytearray((partition / name).read_bytes())
        data[at] ^= bit
        (partition / name).write_bytes(data)
    if args[0] == "reindex":
        run_kdump(["patch-header", "t-0", "--apply", "--quarantine", "aside"], tmp_path)
    seen = run_in_terminal(args, tmp_path, 80)
    plain = run_kdump(args, tmp_path).stdout.decode()
    wide = [line for line in seen.lines if cell_len(line) > 80 and not line.startswith("kdump: ")]
    assert [line for line in wide if " " in line.strip() and "kdump " not in line] == []
    commands = re.findall("(?:^ *|: )(kdump .*)", plain, re.MULTILINE)
    assert [command for command in commands if not any(line.endswith(command) for line in seen.lines)] == []


def test_nor_a_sentence_of_salvage_or_a_run_of_carve(tmp_path: Path) -> None:
    """Commands and what stands in backquotes are pasted: they are on one line."""
    log_dir = copy_tree(FIXTURES / "damage" / "intact" / "none" / "logdir", tmp_path / "logdir")
    (log_dir / "log-start-offset-checkpoint").write_text("0\n1\nplain 0 7\n", "ascii")
    with (log_dir / "plain-0" / f"{240:020}.log").open("ab") as log:
        log.write(b"\x07" * 100)
    for args in (["salvage", "logdir", "--to", "out"], ["carve", f"logdir/plain-0/{0:020}.log", "--to", "runs"]):
        seen = run_in_terminal(args, tmp_path, 80)
        assert seen.exit == 0
        assert [line for line in seen.lines if cell_len(line) > 80 and is_of_a_table(line)] == []
        assert all(line.count("`") % 2 == 0 for line in seen.lines)
        piped = run_kdump([*args[:-1], "again"], tmp_path).stdout.decode().replace("again", args[-1])
        assert all(len(line) <= 100 for line in piped.splitlines() if is_of_a_table(line))
        words = " ".join(seen.lines).split()
        assert words[: len(piped.split())] == piped.split()  # no word is broken, and none is missing
        shutil.rmtree(tmp_path / "again")
    assert "  kdump salvage runs/RUN... --to DIR --name TOPIC-N" in seen.lines


def test_the_command_that_accepts_a_patch_stands_on_its_own_line(tmp_path: Path) -> None:
    partition = copy_tree(FIXTURES / "damage" / "intact" / "none" / "logdir" / "plain-0", tmp_path / "t-0")
    log = partition / f"{119:020}.log"
    data = bytearray(log.read_bytes())
    data[3834] ^= 1
    log.write_bytes(data)
    seen = run_in_terminal(["patch-header", "t-0", "--apply", "--quarantine", "aside"], tmp_path, 80)
    assert seen.exit == 0
    assert f"  kdump verify --scrub LEDGER --accept {log}" in seen.lines


def test_findings_of_a_dump_are_wrapped_too_and_kafkas_own_words_are_not(tmp_path: Path) -> None:
    partition = copy_tree(FIXTURES / "damage" / "intact" / "none" / "logdir" / "plain-0", tmp_path / "t-0")
    data = bytearray((partition / f"{119:020}.index").read_bytes())
    files = f"t-0/{119:020}.index"
    data[7] ^= 1  # the position of the first entry: Kafka's tool dies of it
    (tmp_path / files).write_bytes(data)
    for args in (["dump", files], ["dump", "--stats", files], ["dump", "-j", "2", "t-0"]):
        seen = run_in_terminal(args, tmp_path, 60)
        long = ("offset: ", "baseOffset: ", "Dumping ", "Mismatches in :", "  kdump ")
        assert [line for line in seen.lines if len(line) > 60 and not line.startswith(long)] == []
        assert seen.exit == 3
    data[7] ^= 1
    data[3] ^= 1  # its offset: Kafka's tool complains
    (tmp_path / files).write_bytes(data)
    as_kafka = run_in_terminal(["dump", "--compat", "4.3", "--files", str(tmp_path / files)], tmp_path, 60)
    assert f"Mismatches in :{tmp_path / files}" in as_kafka.lines


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["dump", "--follow", "--committed", "."], "--follow shows batches as they come, and"),
        (["dump", "--partition", "t-0", "."], "no option '--partition': it is"),
        (["export", ".", "--table", "records", "--to", "x", "--format", "xml"], "Invalid value for"),
        (["fix", "."], "no command 'fix':"),
    ],
)
def test_a_mistake_in_the_use_is_wrapped_and_its_command_is_not(args: list[str], said: str, tmp_path: Path) -> None:
    seen = run_in_terminal(args, tmp_path, 60)
    assert seen.exit == 2
    assert any(line.startswith(f"Error: {said}") for line in seen.lines)
    assert [line for line in seen.lines if len(line) > 60 and not line.startswith("  kdump ")] == []


def test_a_list_of_names_is_shortened_by_whole_names() -> None:
    out: list[str] = []
    columns = (TableColumn("id"), TableColumn("partitions", shrink=True, listed=True))
    lists = ("orders-0, orders-1, orders-2, payments-17", "a-name-longer-than-the-room-that-is-left, b-0", "a-0, b-0")
    rows = [[Text("x"), Text(one)] for one in lists]
    write_table(Paper(out.append, 34, is_screen=True), columns, rows)
    cells = [line[4:] for line in "".join(out).splitlines()[1:]]
    assert cells == ["orders-0, orders-1, 2 more", "a-name-longer-than-the-room-", "that-is-left, b-0", "a-0, b-0"]
    out.clear()
    write_table(Paper(out.append, 34), columns, rows[:1])  # a pipe is whole
    assert "".join(out).split()[3:] == ["orders-0,", "orders-1,", "orders-2,", "payments-17"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("  a sentence of some words", "  a sentence of some\n    words"),
        ("note: to do it: kdump verify --quiet PATH", "note: to do it:\n  kdump verify --quiet PATH"),
        ("see /a/path/longer/than/the/terminal now", "see\n  /a/path/longer/than/the/terminal\n  now"),
        ("everybody may write: chmod o-w 'a b;c'", "everybody may write:\n  chmod o-w 'a b;c'"),
        ("do it; then kdump verify 'a  b' names the steps", "do it; then\n  kdump verify 'a  b' names the steps"),
        ("finish it with kdump resume 'a b'", "finish it with\n  kdump resume 'a b'"),
        ("the file 'a b c d e' of $'x y\\012z z z' is his", "the file 'a b c d e'\n  of $'x y\\012z z z'\n  is his"),
        ("brokers' logs and Kafka's own 'x' ones", "brokers' logs and\n  Kafka's own 'x'\n  ones"),
        ("short", "short"),
    ],
)
def test_a_sentence_breaks_between_words_and_a_command_nowhere(text: str, shown: str) -> None:
    assert fitted(text, 20) == shown


@pytest.mark.parametrize("columns", [10, 40, 80])
def test_a_page_of_verify_breaks_no_command_in_a_sentence(columns: int) -> None:
    out: list[str] = []
    page = Page(Paper(out.append, columns), lambda: None, fold=True)
    command = ShellCommand("mv", "-n", "a b;c/1.log", "a b;c/0.log").then(ShellCommand("mv", "-n", "x", "y z"))
    names = f"stop the broker, and give the logs their names, which loses nothing: {command}"
    page.steps(
        "next steps", [ShownBlock("orders-0", (ShownOption("", ((None, names), (command, "for all of them"))),))]
    )
    assert "".join(out).count(f" {command}\n") == 2


def test_the_verdict_stands_first() -> None:
    rows = [line for line in run_in_terminal(["verify", "--no-fold", "."], NODE, 80).lines if " offsets " in line]
    assert rows
    assert all(line.startswith(("SOUND    ", "    ")) for line in rows)  # a long name takes a line of its own


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_the_last_line_of_verify_breaks_between_its_parts(columns: int) -> None:
    lines = run_in_terminal(["verify", "."], NODE, columns).lines
    at = next(at for at, line in enumerate(lines) if line.startswith("37 partitions, "))
    assert all(len(line) <= columns for line in lines[at:])
    assert all(line[-1] in ",:" for line in lines[at:] if line and not re.search(r"notes| s\b", line))
    assert any("102 notes (--notes lists them)" in line for line in lines[at:])


@pytest.mark.parametrize(
    ("args", "variables", "coloured"),
    [
        ([], {}, True),
        ([], {"NO_COLOR": "1"}, False),
        (["--color", "never"], {}, False),
        (["--color", "always"], {"NO_COLOR": "1"}, True),
    ],
)
@pytest.mark.parametrize("verb", ["verify", "retention"])
def test_colours_are_where_they_are_wanted(
    verb: str, args: list[str], variables: dict[str, str], coloured: bool
) -> None:
    seen = run_in_terminal([verb, "plain-0", *args], NODE, 80, variables)
    assert bool(re.search(r"\x1b\[[0-9;]*3[0-9]", seen.raw)) == coloured


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory whose internal topics, and a partition, have a wrong byte in a record each."""
    log_dir = copy_tree(NODE, tmp_path_factory.mktemp("damaged") / "kafka")
    for name in ("__consumer_offsets-1", "__transaction_state-0", "__cluster_metadata-0", "plain-0"):
        path = min((log_dir / name).glob("*.log"))
        data = bytearray(path.read_bytes())
        data[100] ^= 1
        path.write_bytes(data)
    return log_dir


@pytest.mark.parametrize(
    "args",
    [
        ["dump", "plain-0"], ["dump", "--format", "table", "plain-0"],
        ["dump", "--stats", "plain-0"], ["find-offset", "plain-0", "57"],
        ["retention", "plain-0", "--pass", "--set", "cleanup.policy=compact"], ["du", "plain-0"], ["groups", "."],
        ["transactions", "."], ["cluster", "."],
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_finding_has_the_colour_of_its_severity_in_every_verb(args: list[str], damaged: Path) -> None:
    assert "\x1b[1;31merror B01 " in run_in_terminal(args, damaged, 100).raw
    plain = run_in_terminal([*args, "--color", "never"], damaged, 100).raw
    assert "error B01 " in plain
    assert "\x1b[1;31m" not in plain
    assert b"\x1b" not in run_kdump(args, damaged).stderr


# --- tables ------------------------------------------------------------------------------------------------
COLUMNS = (
    TableColumn("name", shrink=True), TableColumn("a", drop=1), TableColumn("b", drop=2), TableColumn("c", right=True),
)  # fmt: skip


def row(*cells: str) -> list[Text]:
    return [Text(cell) for cell in cells]


def table(width: int, *rows: list[Text]) -> list[str]:
    out: list[str] = []
    write_table(Paper(out.append, width, is_screen=True), COLUMNS, rows)
    return "".join(out).splitlines()


def test_a_name_goes_on_in_the_next_line_before_a_column_is_left_out() -> None:
    one = row("n" * 40, "aaaa", "bbbb", "1")
    assert fitting(COLUMNS, [one], 60) == [40, 4, 4, 1]
    assert fitting(COLUMNS, [one], 45) == [30, 4, 4, 1]
    assert fitting(COLUMNS, [one], 31) == [22, 4, 0, 1]  # an id of 22 characters stays whole
    assert fitting(COLUMNS, [one], 30) == [27, 0, 0, 1]
    assert fitting(COLUMNS, [one], 24) == [21, 0, 0, 1]
    assert fitting(COLUMNS, [one], 15) == [12, 0, 0, 1]


def test_what_is_left_out_is_named() -> None:
    assert table(31, row("x" * 15 + "y" * 25, "aaaa", "bbbb", "1")) == [
        "name                    a     c",
        f"{'x' * 15}{'y' * 7}  aaaa  1",
        "y" * 18,
        "hidden: b (--format lines has",
        "  them)",
    ]


def test_a_column_without_any_cell_takes_no_room() -> None:
    assert table(80, row("n", "", "", "10")) == ["name   c", "n     10"]


@pytest.mark.parametrize("room", [2, 5, 8, 9, 10])
def test_a_shortened_name_takes_the_room_that_there_is(room: int) -> None:
    for text in ("abcdefghij", "日本語のトピック", "a日b本c語"):
        short = shortened(text, room)
        assert cell_len(short) <= room or short == text
        assert short == text or "…" in short


# --- progress ----------------------------------------------------------------------------------------------
class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", [40, 79, 80, 100, 200])
def test_the_bar_fits_and_has_the_time_that_is_left(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    ticks = iter([0.0, 10.0])
    stream = Tty()
    bar = Bar("verify", stream, lambda: next(ticks))
    bar.show(Progress(23_400_000_000, 38_200_000_000, "/data/a-long-topic-name-0/00000000000000088000.log"))
    line = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", stream.getvalue()).strip("\r")
    assert cell_len(line) < columns
    assert "61 %" in line
    assert ("0:00:06" in line) == (columns >= 80)


@pytest.mark.parametrize("no_color", [None, True, False])
@pytest.mark.parametrize("variable", ["", "1"])
def test_the_bar_has_the_colours_of_its_command(
    no_color: bool | None, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", variable)
    ticks = iter([0.0, 10.0])
    stream = Tty()
    Bar("verify", stream, lambda: next(ticks), no_color=no_color).show(Progress(1, 2, "a"))
    coloured = "\x1b[36m" in stream.getvalue()
    assert coloured == (not variable if no_color is None else not no_color)


def with_bar_at_once(args: list[str], tmp_path: Path) -> tuple[Seen, list[str]]:
    """Run a verb whose bar has no patience; return what a terminal got, and each drawing of the bar."""
    (tmp_path / "sitecustomize.py").write_text("import kdump.render.progress as p\np._PATIENCE = -1\n")
    seen = run_in_terminal(args, NODE, 80, {"PYTHONPATH": f"{tmp_path}:{FIXTURES.parent}"})
    return seen, [part for part in re.split(r"\r|\n", seen.raw) if " % " in part]


@pytest.mark.parametrize(
    "args",
    [
        ["groups", "."],
        ["transactions", "."],
        ["cluster", "."],
        ["find-offset", "bigbatch-0", "3", "--scan"],
        ["find-time", "bigbatch-0", "max", "--scan"],
    ],
    ids=" ".join,
)
def test_long_work_shows_a_bar_on_a_terminal_and_nothing_elsewhere(args: list[str], tmp_path: Path) -> None:
    seen, drawn = with_bar_at_once(args, tmp_path)
    assert drawn, seen.raw[:500]
    assert all(args[0] in part for part in drawn)
    assert not any("%" in line for line in seen.lines if args[0] in line), "it is gone when all is done"
    assert b"%" not in run_kdump(args, NODE).stderr


@pytest.mark.parametrize(
    "args", [["verify", "."], ["du", "."], ["groups", "."], ["export", ".", "--to", "OUT"]], ids=" ".join
)
def test_the_bar_names_no_topic_that_is_hidden(args: list[str], tmp_path: Path) -> None:
    args = [str(tmp_path / "out") if one == "OUT" else one for one in args]
    topics = {path.name.rpartition("-")[0] for path in NODE.iterdir() if path.is_dir()}
    hidden = {topic for topic in topics if not topic.startswith("__")}
    _, drawn = with_bar_at_once([*args, "--redact"], tmp_path)
    assert drawn
    assert [part for part in drawn if any(f"{topic}-" in part for topic in hidden)] == []


@pytest.mark.parametrize("layout", [["--format", "json"], ["--format", "html"], []], ids=" ".join)
def test_verify_takes_the_bar_away_before_it_writes(layout: list[str], tmp_path: Path) -> None:
    seen, drawn = with_bar_at_once(["verify", ".", *layout], tmp_path)
    assert drawn
    beside = [one for one in re.split(r"\r(?:\x1b\[2K)?|\n", seen.raw) if " % " in one and ("{" in one or "<" in one)]
    assert beside == [], "it stands in one line with the answer"


@pytest.mark.parametrize("after", ["", ": run the same command again to go on"])
def test_ctrl_c_takes_the_bar_away_and_leaves_one_line(after: str, tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:  # a process of its own: it ends by the signal
        os.close(ours)
        stream = os.fdopen(theirs, "w")
        stream.isatty = lambda: True  # type: ignore[method-assign]
        Bar("verify", stream, after=after).end_on_interrupt()
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10)
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as said:
        assert said.read() == f"kdump: verify was interrupted{after}\n"
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGINT
