"""The contract of the command line: one name an option, one table of statuses, for every verb."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import click
import pytest

from kdump.cli.options.help import Option
from kdump.cli.so_far import SoFar
from kdump.finding import Code, Finding, Trait
from tests.support.option_table import GUIDE, commands, table
from tests.support.runs import FIXTURES, changed, copy_tree, fingerprint, run_kdump
from tests.support.terminal import COMMAND, run_in_terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
INTACT = FIXTURES / "damage" / "intact" / "none" / "logdir"
STALE = FIXTURES / "log-f14-stale-copy"
LOG = f"{119:020}.log"


def options() -> list[tuple[str, click.Option]]:
    return [
        (verb, one) for verb, command in commands().items() for one in command.params if isinstance(one, click.Option)
    ]


# --- names --------------------------------------------------------------------------------------------------
def test_the_guide_has_the_table_of_options() -> None:
    assert table() in GUIDE.read_text("utf-8"), "python -m tests.support.option_table"


def test_no_verb_shows_an_old_name() -> None:
    shown = {name for _, one in options() for name in one.opts if not (isinstance(one, Option) and name in one.old)}
    assert shown & {"--out", "--output", "--file-format", "--directory", "--partition"} == set()


def test_an_option_of_one_name_takes_the_same_everywhere() -> None:
    """But for what a verb has more of: HTML, a table, formats of files; and where one thing only can be meant."""
    kinds: dict[str, set[object]] = {}
    for _, one in options():
        if one.opts[0] in ("--to", "--topic", "--color", "--quiet", "-j", "--apply", "--known"):
            kinds.setdefault(one.opts[0], set()).add((one.is_flag, one.multiple, one.metavar))
    assert {name: found for name, found in kinds.items() if len(found) > 1} == {}


@pytest.mark.parametrize(
    ("args", "old", "made"),
    [
        (["verify", "kafka"], ["--out", "new"], "new/findings"),
        (["reindex", "kafka", "--index-interval-bytes", "4096", "--force"], ["--output", "new"], "new/plain-0"),
        (["export", "kafka"], ["--out", "new", "--file-format", "csv"], "new/topic=plain"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_old_names_work_in_this_release(args: list[str], old: list[str], made: str, tmp_path: Path) -> None:
    copy_tree(INTACT, tmp_path / "kafka")
    run = run_kdump([*args, *old], tmp_path)
    assert run.exit in (0, 7), run.stderr
    assert (tmp_path / made.partition("/")[0]).is_dir(), sorted(tmp_path.rglob("*"))


@pytest.mark.parametrize("verb", ["verify", "dump", "retention", "du", "reindex", "patch-header", "export"])
def test_partitions_are_selected_by_the_same_two_options(verb: str, tmp_path: Path) -> None:
    # ages are told to the millisecond: both runs have one clock
    clock = ["--now", "2026-11-22T00:00:00Z"] if verb == "retention" else []
    more = ["--to", str(tmp_path / "out")] if verb == "export" else clock
    by_topic, by_name = (
        run_kdump([verb, ".", *given, *more], NODE)
        for given in (["--topic", "plain"], ["--topic-partition", "plain-0"])
    )
    assert by_topic.exit == by_name.exit
    assert by_topic.exit in (0, 5), by_topic.stderr
    if verb in ("verify", "retention"):
        assert by_topic.stdout == by_name.stdout
        assert b"plain-0" in by_topic.stdout
        assert b"tombstone" not in by_topic.stdout
    assert run_kdump([verb, ".", "--topic", "nobody", *more], NODE).exit == 10


@pytest.mark.parametrize(("verb", "asked"), [("find-offset", "60"), ("find-time", "max")])
def test_a_question_goes_to_all_partitions_that_are_selected(verb: str, asked: str) -> None:
    def answers(*given: str) -> tuple[int, list[dict[str, object]]]:
        run = run_kdump([verb, *given, "--format", "json"], NODE)
        rows = [json.loads(line) for line in run.stdout.splitlines()]
        return run.exit, [row for row in rows if row["type"] == "location"]

    alone = {name: answers(name, asked) for name in ("plain-0", "txn-0", "empty-0")}
    status, together = answers(".", asked, "--topic", "plain", "--topic", "txn", "--topic-partition", "empty-0")
    assert status == 0
    assert [row["partition"] for row in together] == ["empty-0", "plain-0", "txn-0"]
    assert all("position" in row for row in together)
    for row in together:
        (other,) = alone[str(row["partition"])][1]
        assert (row["offset"], row["position"]) == (other["offset"], other["position"])
    text = run_kdump([verb, ".", asked, "--topic", "plain", "--topic", "empty"], NODE).stdout.decode().splitlines()
    assert [line.split()[0] for line in text if line[0] != " "] == ["empty-0", "plain-0"]
    assert answers(".", asked, "--topic", "empty")[0] == 10
    assert answers(".", asked, "--topic", "nobody")[0] == 10


def test_a_partition_that_cannot_be_read_silences_no_other(tmp_path: Path) -> None:
    log_dir = copy_tree(INTACT, tmp_path / "kafka")
    (log_dir / "plain-1").mkdir()
    run = run_kdump(["find-offset", "kafka", "60", "--topic", "plain"], tmp_path)
    assert run.exit == 10
    assert run.stdout.startswith(b"plain-0  offset: 60 ")
    assert b"plain-1" in run.stderr


@pytest.mark.parametrize("verb", ["verify", "export"])
def test_a_selection_is_for_manifests_too(verb: str, tmp_path: Path) -> None:
    (tmp_path / "hosts.csv").write_text(f"host,path\nfirst,{NODE}\n")
    more = ["--to", "out", "--format", "json"] if verb == "export" else []
    run = run_kdump([verb, "hosts.csv", "--topic", "plain", *more], tmp_path)
    assert run.exit == 0, run.stderr
    assert b"tombstone" not in run.stdout
    made = {path.name for path in (tmp_path / "out").glob("topic=*")}
    assert made == ({"topic=plain"} if verb == "export" else set())
    assert run_kdump([verb, "hosts.csv", "--topic", "nobody", *more], tmp_path).exit == 10


@pytest.mark.parametrize("verb", ["dump", "verify", "du", "retention", "reindex", "patch-header", "export"])
def test_a_selection_holds_for_patterns_and_files(verb: str, tmp_path: Path) -> None:
    more = ["--to", str(tmp_path / "out"), "--format", "json"] if verb == "export" else []
    for place in ("node*", "node1/tombstone-0/*.log"):
        run = run_kdump([verb, place, "--topic", "wide", *more], NODE.parent)
        assert b"tombstone" not in run.stdout + run.stderr.replace(place.encode(), b"")
        assert (run.exit == 10) == ("tombstone" in place), run.stderr


# --- statuses -----------------------------------------------------------------------------------------------
MISSING: dict[str, Sequence[str]] = {
    "dump": [], "verify": [], "find-offset": ["1"], "find-time": ["max"], "retention": [], "du": [], "serve": [],
    "repair": [], "reindex": [], "truncate": ["--at-damage"], "patch-header": [], "salvage": ["--to", "OUT"],
    "undo": [], "resume": [],
    "carve": ["--to", "OUT"], "export": ["--to", "OUT"], "groups": [], "transactions": [], "cluster": [],
    "schemas": [],
}  # fmt: skip
OF_NO_PATH = {"partition-for", "explain", "completion"}


def test_every_verb_is_asked_about_a_path_that_is_missing() -> None:
    assert set(commands()) == {*MISSING, *OF_NO_PATH}


@pytest.mark.parametrize("verb", MISSING)
@pytest.mark.parametrize("more", [[], ["--fail-on", "never"]], ids=["", "never"])
def test_a_missing_path_is_10_in_every_verb(verb: str, more: list[str], tmp_path: Path) -> None:
    if more and "--fail-on" not in {name for one in commands()[verb].params for name in one.opts}:
        pytest.skip("it judges nothing")
    given = [str(tmp_path / "out") if one == "OUT" else one for one in MISSING[verb]]
    run = run_kdump([verb, "nothing-here", *given, *more], tmp_path)
    assert run.exit == 10, run.stderr
    assert b"nothing-here" in run.stderr


WRITERS = {"repair", "reindex", "truncate", "patch-header", "undo", "resume"}


@pytest.mark.parametrize("verb", MISSING)
def test_so_is_a_directory_without_any_file_of_a_broker(verb: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    given = [str(tmp_path / "out") if one == "OUT" else one for one in MISSING[verb]]
    run = run_kdump([verb, "empty", *given], tmp_path)
    assert run.exit == (5 if verb == "carve" else 10), run.stderr  # a directory, where an image is meant
    assert run.stderr.startswith(b"kdump: empty: ")
    assert b"none goes now" not in run.stdout, "nothing was judged"


@pytest.mark.parametrize("place", ["/dev/null", "fifo"])
@pytest.mark.parametrize("verb", MISSING)
def test_what_is_no_regular_file_is_not_read(verb: str, place: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    given = [str(tmp_path / "out") if one == "OUT" else one for one in MISSING[verb]]
    run = run_kdump([verb, place, *given], tmp_path)
    assert run.exit == (12 if verb in WRITERS else 5), run.stderr  # who would write refuses
    assert place.encode() in run.stderr


@pytest.mark.parametrize(
    "args",
    [
        ["verify", "--replicas", "PLAIN", "nothing-here"],
        ["verify", "--replicas", "nothing-here", "nor-here"],
        ["cluster", "NODE", "--check", "nothing-here"],
        ["salvage", "PLAIN", "nothing-here", "--to", "out"],
        ["carve", f"PLAIN/{0:020}.log", "--like", "nothing-here", "--to", "out"],
        ["export", "nothing-here", "--table", "usage", "--to", "out"],
        ["transactions", "nothing-here", "--hanging"],
        ["dump", "--follow", "nothing-here"],
    ],
    ids=" ".join,
)
def test_so_it_is_where_it_stands_beside_others(args: list[str], tmp_path: Path) -> None:
    places = {"PLAIN": str(NODE / "plain-0"), "NODE": str(NODE)}
    given = [re.sub("PLAIN|NODE", lambda found: places[found[0]], one) for one in args]
    assert run_kdump(given, tmp_path).exit == 10


INDEX, HEADER, RECORD = (f"{119:020}.index", 7), (LOG, 3834), (LOG, 300)


def broken(folder: Path, *places: tuple[str, int]) -> Path:
    """A log directory with a wrong bit at some bytes of a file."""
    log_dir = copy_tree(INTACT, folder / "kafka")
    for name, at in places:
        data = bytearray((log_dir / "plain-0" / name).read_bytes())
        data[at] ^= 1
        (log_dir / "plain-0" / name).write_bytes(data)
    return log_dir


@pytest.mark.parametrize(
    ("place", "args"),
    [
        (INDEX, ["reindex"]),
        (INDEX, ["repair"]),
        (HEADER, ["repair"]),
        (HEADER, ["patch-header"]),
        (RECORD, ["truncate", "--at-damage", "--with-later-segments"]),
    ],
    ids=["reindex", "repair-index", "repair-header", "patch-header", "truncate"],
)
def test_a_dry_run_that_would_change_something_is_7(place: tuple[str, int], args: list[str], tmp_path: Path) -> None:
    log_dir = broken(tmp_path, place)
    run = run_kdump([args[0], str(log_dir / "plain-0"), *args[1:]], tmp_path)
    assert run.exit == 7, run.stdout.decode() + run.stderr.decode()
    assert run_kdump([args[0], str(log_dir / "plain-0"), *args[1:], "--format", "lines"], tmp_path).exit == 7


def test_an_error_that_the_plan_does_not_mend_counts(tmp_path: Path) -> None:
    log_dir = broken(tmp_path, HEADER, RECORD)
    assert run_kdump(["patch-header", str(log_dir)], tmp_path).exit == 3
    assert run_kdump(["patch-header", str(log_dir), "--fail-on", "never"], tmp_path).exit == 7


def test_undo_shows_what_it_would_restore_and_does_it_when_it_is_told_to(tmp_path: Path) -> None:
    log_dir = broken(tmp_path, HEADER)
    before = (log_dir / "plain-0" / LOG).read_bytes()
    done = run_kdump(["patch-header", "kafka", "--apply", "--quarantine", "aside"], tmp_path)
    assert done.exit in (0, 3), done.stderr
    (place,) = (tmp_path / "aside").iterdir()
    assert f"kdump undo {place} --apply" in " ".join(done.stdout.decode().split())
    seen = fingerprint(tmp_path)
    shown = run_kdump(["undo", str(place)], tmp_path)
    assert shown.exit == 7
    assert f"would restore {log_dir / 'plain-0' / LOG}" in " ".join(shown.stdout.decode().split())
    assert shown.stdout.decode().splitlines()[-1].endswith(f"kdump undo {place} --apply")
    assert changed(seen, fingerprint(tmp_path)) is None
    assert run_kdump(["undo", str(place), "--apply"], tmp_path).exit == 0
    assert (log_dir / "plain-0" / LOG).read_bytes() == before
    assert run_kdump(["undo", str(place)], tmp_path).exit == 0, "nothing is left to do"


# --- what is lost, and what was known ------------------------------------------------------------------------
def test_what_is_lost_is_3_until_it_is_known(tmp_path: Path) -> None:
    log_dir = copy_tree(INTACT, tmp_path / "kafka")
    (log_dir / "recovery-point-offset-checkpoint").write_text("0\n1\nplain 0 310\n", "ascii")
    first = run_kdump(["verify", "kafka", "--format", "json"], tmp_path)
    assert first.exit == 3
    (tmp_path / "rows").write_bytes(first.stdout)
    again = run_kdump(["verify", "kafka", "--known", "rows"], tmp_path)
    assert again.exit == 0, again.stdout.decode()
    assert "SOUND    plain-0" in again.stdout.decode()
    assert "known before: offsets 297..309" in again.stdout.decode()
    (log_dir / "recovery-point-offset-checkpoint").write_text("0\n1\nplain 0 320\n", "ascii")
    more = run_kdump(["verify", "kafka", "--known", "rows", "--format", "json"], tmp_path)
    rows = [json.loads(line) for line in more.stdout.splitlines()]
    assert more.exit == 3
    assert [(row["offset"], row["lastOffset"]) for row in rows if row["type"] == "loss"] == [(297, 309), (310, 319)]
    assert rows[-1]["offsetsLost"] == 10


def test_an_error_that_says_only_what_is_lost_is_one_of_four() -> None:
    assert {code.name for code in Code if Trait.ONLY_LOST in code.traits} == {"O04", "O07", "F08", "F14"}


ODD = (
    "\ufeff", "\n", "  \n", "{}",
    '{"type":"loss","certainty":"unexplained","partition":"plain-0","offset":297,"lastOffset":309}',
    '{"type":["loss"],"certainty":"lost"}',
    '{"type":"loss","certainty":"lost","partition":"","offset":0,"lastOffset":0}',
    '{"type":"loss","certainty":"lost","partition":"plain-1","offset":0,"lastOffset":9223372036854775807}',
)  # fmt: skip


def test_rows_that_say_nothing_of_it_know_no_loss(tmp_path: Path) -> None:
    log_dir = copy_tree(INTACT, tmp_path / "kafka")
    (log_dir / "recovery-point-offset-checkpoint").write_text("0\n1\nplain 0 310\n", "ascii")
    for one in ODD:
        (tmp_path / "rows").write_text(f"{one}\n", "utf-8", "surrogateescape")
        run = run_kdump(["verify", "kafka", "--known", "rows"], tmp_path)
        assert run.exit == 3, (one, run.stderr)


def test_known_ranges_may_overlap_repeat_and_touch(tmp_path: Path) -> None:
    log_dir = copy_tree(INTACT, tmp_path / "kafka")
    (log_dir / "recovery-point-offset-checkpoint").write_text("0\n1\nplain 0 310\n", "ascii")

    def row(first: int, last: int) -> str:
        return json.dumps(
            {"type": "loss", "certainty": "lost", "partition": "plain-0", "offset": first, "lastOffset": last}
        )

    def status(*ranges: tuple[int, int]) -> int:
        (tmp_path / "rows").write_text("".join(f"{row(*one)}\r\n\n" for one in ranges))
        return run_kdump(["verify", "kafka", "--known", "rows"], tmp_path).exit

    assert status((297, 309)) == 0
    assert status((305, 309), (297, 300), (299, 304), (297, 300)) == 0
    assert status((0, 2**63 - 1)) == 0
    assert status((297, 302), (304, 309)) == 3


def test_another_error_counts_beside_known_losses(tmp_path: Path) -> None:
    rows = run_kdump(["verify", str(STALE), "--format", "json"], tmp_path).stdout
    (tmp_path / "rows").write_bytes(rows)
    run = run_kdump(["verify", str(STALE), "--known", "rows"], tmp_path)
    assert run.exit == 3  # its index reaches too far
    assert b"X07" in run.stdout


@pytest.mark.parametrize(
    "text",
    [
        "no rows\n",
        "null",
        '["a"]\n',
        '{"type":"loss"}',
        '{"type":"loss","certainty":[]}',
        '{"type":"loss","certainty":"lost","partition":"\\ud800","offset":0,"lastOffset":1}',
        '{"type":"loss","certainty":{"a":1}}',
        '{"type":"loss","certainty":"unexplained","partition":"plain-0"}',
        '{"type":"loss","certainty":"lost","partition":1}\n',
        '{"type":"loss","certainty":"lost","partition":"plain-0","offset":5,"lastOffset":4}\n',
        '{"type":"loss","certainty":"lost","partition":"plain-0","offset":-1,"lastOffset":9223372036854775807}\n',
        '{"type":"loss","certainty":"lost","partition":"plain-0","offset":0,"lastOffset":9223372036854775808}\n',
        '{"type":"loss","certainty":"lost","partition":"plain-0","offset":0.0,"lastOffset":1e9}\n',
        '{"type":"loss","certainty":"lost","partition":"plain-0","offset":true,"lastOffset":true}\n',
        '{"type":"loss","certainty":"lost","partition":null,"offset":0,"lastOffset":1}\n',
        "[" * 100_000 + "\n",
        '{"type":' * 100_000 + "\n",
        "9" * 10_000 + "\n",
        "\0",
    ],
    ids=lambda text: text[:90].strip(),
)
def test_what_is_no_file_of_rows_is_a_wrong_use(text: str, tmp_path: Path) -> None:
    (tmp_path / "rows").write_text(text)
    assert run_kdump(["verify", str(STALE), "--known", "rows"], tmp_path).exit == 2


def test_a_gate_before_a_restart_fails_only_where_the_start_takes_something_away(tmp_path: Path) -> None:
    log_dir = broken(tmp_path, RECORD)
    (log_dir / ".kafka_cleanshutdown").write_bytes(b"")
    assert run_kdump(["verify", "kafka"], tmp_path).exit == 3
    gate = run_kdump(["verify", "kafka", "--fail-on", "loss", "--format", "json"], tmp_path)
    (row,) = (row for row in map(json.loads, gate.stdout.splitlines()) if row["type"] == "prediction")
    assert (gate.exit, row["start"], row["as"]) == (0, "auto", "clean"), "it does not look at that log"
    assert run_kdump(["verify", "kafka", "--fail-on", "loss", "--start", "full"], tmp_path).exit == 3


# --- dump for people, and Ctrl-C -----------------------------------------------------------------------------
def test_dump_has_kafkas_layout_or_a_row_a_record_but_no_lines(tmp_path: Path) -> None:
    assert run_kdump(["dump", "--format", "lines", str(NODE / "plain-0")], tmp_path).exit == 2
    run = run_kdump(["dump", "--format", "table", "plain-0"], NODE)
    rows = [line for line in run.stdout.decode().splitlines() if re.match(r" +\d+  20", line)]
    said = [
        json.loads(line)
        for line in run_kdump(["dump", "--format", "json", "--print-data-log", "plain-0"], NODE).stdout.splitlines()
    ]
    records = [row for row in said if row["type"] == "record"]
    assert [int(row.split()[0]) for row in rows] == [row["offset"] for row in records]
    assert run.exit == 0
    assert all(len(row) <= 100 for row in rows)
    for jobs in ("2", "4"):
        assert run_kdump(["dump", "--format", "table", "plain-0", "-j", jobs], NODE).stdout == run.stdout


def test_control_characters_of_records_are_seen_in_a_table() -> None:
    run = (
        run_kdump(["dump", "--format", "table", "hostile/control-0"], FIXTURES)
        if (FIXTURES / "hostile" / "control-0").is_dir()
        else None
    )
    from kdump.render.dump_table import RecordRows
    from kdump.render.report.styled import Paper

    out: list[str] = []
    row = {
        "type": "record",
        "offset": 1,
        "timestamp": -1,
        "key": "a\x00b",
        "payload": {"base64": "/wA="},
        "headers": [],
    }
    RecordRows(Paper(out.append), raw=False).write(json.dumps(row).encode() + b"\n")
    assert "a\\x00b" in out[-1]
    assert "\\xff\\x00" in out[-1]
    assert run is None or "\x00" not in run.stdout.decode()


@pytest.mark.skipif(not hasattr(signal, "SIGINT"), reason="no signals")
def test_an_interrupt_says_what_was_found_so_far() -> None:
    damaged = [str(path) for path in sorted(FIXTURES.glob("*-*-*/")) for _ in range(40)]
    process = subprocess.Popen(
        [*COMMAND, "verify", "-j", "1", *damaged], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=FIXTURES
    )
    assert process.stdout is not None
    process.stdout.read(20_000)  # it is at work
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert re.search(rb"kdump: verify was interrupted; so far: \d+ partitions?, \d+ errors?", said), said


def interrupted_at_work(args: list[str], done: Callable[[], bool], cwd: Path) -> bytes:
    """What a run says that is interrupted once it has done something; stdout is not read."""
    process = subprocess.Popen([*COMMAND, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd)
    end = time.monotonic() + 60
    while not done() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT, said
    return said


def test_an_export_that_is_interrupted_says_what_is_written(tmp_path: Path) -> None:
    logs = [shutil.copytree(NODE / "plain-0", tmp_path / f"d{k:04}" / "plain-0") for k in range(400)]
    there = tmp_path / "out"
    args = ["export", "--table", "records", "--format", "csv", "--to", str(there), *map(str, logs)]
    said = interrupted_at_work(args, lambda: len(list(there.glob("**/*.csv"))) > 3, tmp_path)
    assert re.search(rb"kdump: export was interrupted; so far: [\d,]+ rows in [\d,]+ files\n", said), said


def test_a_carve_that_is_interrupted_says_what_was_found(tmp_path: Path) -> None:
    log = b"".join(path.read_bytes() for path in sorted((NODE / "plain-0").glob("*.log")))
    for k in range(8):
        (tmp_path / f"image{k}").write_bytes((log + bytes(4096)) * 400)
    there = tmp_path / "out"
    args = ["carve", *[f"image{k}" for k in range(8)], "--to", str(there)]
    said = interrupted_at_work(args, lambda: len(list(there.glob("*.log"))) > 50, tmp_path)
    assert re.search(rb"kdump: carve was interrupted(; so far: [\d,]+ runs?.*)?\n", said), said


def test_ids_are_whole_in_a_table_of_80_columns() -> None:
    args = ["cluster", "kafka-4.3.1/clean/node1", "--diff", "0", "end"]
    changes = [json.loads(line) for line in run_kdump([*args, "--format", "json"], FIXTURES).stdout.splitlines()]
    text = json.dumps([[one.get("name"), one.get("before"), one.get("after")] for one in changes])
    ids = {one for one in re.findall(r"(?<![\w-])[A-Za-z0-9_-]{22}(?![\w-])", text) if re.search(r"[A-Z]", one)}
    seen = run_in_terminal(args, FIXTURES).raw
    assert len(ids) > 5
    assert [one for one in sorted(ids) if one not in seen] == []


def test_what_was_found_so_far_is_the_end_of_a_sentence() -> None:
    found = SoFar()
    assert found.words() == ""
    found.add("batch", 2)
    found.see(Finding(Code.B01, "x.log"))
    assert found.words() == "; so far: 2 batches, 1 error"


# --- Ctrl-C -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "args",
    [
        ["dump", "plain-0", "--follow", "--from-offset", "140"],
        ["dump", "plain-0", "--follow", "--from-offset", "140", "--format", "json"],
        ["find-offset", "plain-0", "-"],
        ["find-time", "plain-0", "-"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("ignored", [False, True], ids=["", "in the background"])
def test_a_verb_that_is_interrupted_says_so_in_one_line(args: list[str], ignored: bool) -> None:
    trap = 'trap "" INT; exec "$@"' if ignored else 'exec "$@"'
    command = ["sh", "-c", trap, "sh", *COMMAND, *args]
    process = subprocess.Popen(command, cwd=NODE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"60\n")
    process.stdin.flush()
    assert process.stdout.readline(), "it is at work"
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    if ignored:
        assert process.poll() is None, "a script's Ctrl-C is not for what it has started in the background"
        process.kill()
        process.communicate()
        return
    _, said = process.communicate(timeout=20)
    assert process.returncode == -signal.SIGINT
    reached = {"dump": r" in plain-0/\d+\.log; so far: \d+ batches", "find": "; so far: 1 answer"}
    told = reached[args[0].partition("-")[0]]
    assert re.fullmatch(rf"kdump: {args[0]} was interrupted{told}\n", said.decode()), said
