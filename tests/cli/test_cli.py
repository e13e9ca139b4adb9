"""The door of `kdump dump`: bad input, exit codes, signals, terminals, and that nothing is ever touched.

Every test starts a process of its own, as a shell would.
"""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import tty
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kdump
from kdump.cli.main import kdump as commands
from kdump.format.checksum import crc32c
from kdump.not_searched import NotSearched
from kdump.storage.file_source import OpenFailure
from tests.support.damage_cases import damage_cases
from tests.support.runs import FIXTURES, Run, changed, copy_tree, fingerprint, run_kdump
from tests.support.segments import varint
from tests.support.unprivileged import unprivileged

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMAND = shlex.split(os.environ.get("KDUMP_COMMAND", "")) or [sys.executable, "-P", "-m", "kdump"]
# The children find the kdump that is tested, wherever they are started.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(kdump.__file__).parent.parent)}
SECONDS = 120  # a run that takes longer hangs

INTACT = FIXTURES / "damage" / "intact"
NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
LARGE = NODE / "bigbatch-0" / "00000000000000000000.log"
ZERO = "00000000000000000000.log"
ESCAPES = "\x1b[2J\x07\x7f\x9b31m\u202e\u2066\u200b\ufeff\r\b"


def kdump_run(*args: str | Path, cwd: Path, stdin: int = subprocess.DEVNULL) -> Run:
    """Run kdump to its end; the exit code is as a process has it: -N after signal N."""
    done = subprocess.run(
        [*COMMAND, *map(str, args)],
        cwd=cwd,
        env=ENVIRONMENT,
        stdin=stdin,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    return Run(done.returncode, done.stdout, done.stderr)


def dump(*args: str | Path, cwd: Path) -> Run:
    """Run `kdump dump`."""
    return kdump_run("dump", *args, cwd=cwd)


def batch(offset: int, value: bytes = b"value", *, key: bytes = b"key", header: bytes = b"h", flags: int = 0) -> bytes:
    """Make a batch of magic 2 with one record."""
    record = b"\0" + varint(0) + varint(0)
    record += b"".join(varint(len(text)) + text for text in (key, value))
    record += varint(1) + varint(len(header)) + header + varint(0)
    records = varint(len(record)) + record
    time = 1_700_000_000_000
    body = struct.pack(">hiqqqhii", flags, 0, time, time, -1, -1, -1, 1) + records
    return struct.pack(">qiibI", offset, 9 + len(body), 0, 2, crc32c(body)) + body


CLEAN = batch(0) + batch(1) + batch(2)
GAP = batch(0) + batch(5)  # a note
ODD = batch(0) + batch(1, flags=0x100)  # a warning
BROKEN = batch(0) + batch(1)[:-3] + b"!!!" + batch(2)  # an error


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A directory with one log for each severity, a FIFO, and nothing called `missing`."""
    for name, data in (("clean", CLEAN), ("note", GAP), ("warning", ODD), ("error", BROKEN)):
        (tmp_path / name).mkdir()
        (tmp_path / name / ZERO).write_bytes(data)
    (tmp_path / "fifo").mkdir()
    os.mkfifo(tmp_path / "fifo" / ZERO)
    return tmp_path


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A partition directory with three intact segments, in a directory of its own."""
    return copy_tree(INTACT / "none" / "logdir" / "plain-0", tmp_path / "plain-0")


def one_line(run: Run, *words: str) -> None:
    """Check that stderr is one line of kdump's, with all of these words."""
    lines = run.stderr.decode().splitlines()
    assert len(lines) == 1, run.stderr
    assert lines[0].startswith("kdump: ")
    for word in words:
        assert word in lines[0]


def body(run: Run) -> bytes:
    """Return stdout after the line that names the file."""
    head, _, rest = run.stdout.partition(b"\n")
    assert head.startswith(b"Dumping ") or not run.stdout
    return rest


def dumped(run: Run) -> list[str]:
    """Return the files that stdout names, in order."""
    return [line.removeprefix("Dumping ") for line in run.stdout.decode().splitlines() if line.startswith("Dumping ")]


# --- what is given ------------------------------------------------------------------------------------------
def test_help_names_every_command(tmp_path: Path) -> None:
    run = kdump_run("--help", cwd=tmp_path)
    assert (run.exit, run.stderr) == (0, b"")
    assert all(name in run.stdout.decode() for name in commands.list_commands(None))  # type: ignore[arg-type]


def test_help_of_dump_names_every_option(tmp_path: Path) -> None:
    run = dump("--help", cwd=tmp_path)
    assert (run.exit, run.stderr) == (0, b"")
    command = commands.get_command(None, "dump")  # type: ignore[arg-type]
    assert command is not None
    lines = re.findall(r"(?m)^  (?:(-[a-z])(?:, | {2,}))?(--[a-z-]+)?", run.stdout.decode())
    given = {name for names in lines for name in names if name}
    options = [name for option in command.params for name in option.opts if name.startswith("-")]
    assert given == set(options)


def test_version_tells_whether_the_kernels_are_compiled(tmp_path: Path) -> None:
    run = kdump_run("--version", cwd=tmp_path)
    assert (run.exit, run.stderr) == (0, b"")
    assert re.fullmatch(rf"kdump {re.escape(kdump.__version__)} \((compiled|interpreted)\)\n", run.stdout.decode())


@pytest.mark.parametrize(
    ("args", "nearest"),
    [
        (["dmp"], "dump"),
        (["dump", "--deep-iterations", "x.log"], "--deep-iteration"),
        (["dump", "--print-datalog", "x.log"], "--print-data-log"),
        (["dump", "--base-ofset", "1", "x.log"], "--base-offset"),
    ],
)
def test_what_is_mistyped_gets_the_nearest_name(args: list[str], nearest: str, tmp_path: Path) -> None:
    run = kdump_run(*args, cwd=tmp_path)
    assert (run.exit, run.stdout) == (2, b"")
    assert nearest in run.stderr.decode()
    assert b"Traceback" not in run.stderr


WRONG_USES = [
    ["--nope"],
    ["--print-data"],  # no abbreviations
    ["--max-bytes", "ten"],
    ["--base-offset", "-1"],
    ["--type", "parquet"],
    ["--compat", "1.0"],
    ["--compat", "4.3"],  # without --files
    ["--max-batch-bytes", "0"],
    ["--fail-on", "often"],
    ["--key-decoder-class", "com.example.Nope"],
]


@pytest.mark.parametrize("args", WRONG_USES, ids=shlex.join)
def test_a_wrong_use_ends_with_2_and_opens_nothing(args: list[str], tree: Path) -> None:
    run, seen = watched(["dump", *args, f"clean/{ZERO}"], tree)
    assert (run.exit, run.stdout) == (2, b"")
    assert run.stderr
    assert b"Traceback" not in run.stderr
    assert seen == []


@pytest.mark.parametrize("args", [[], ["--deep-iteration"]], ids=shlex.join)
def test_no_file_is_a_wrong_use(args: list[str], tmp_path: Path) -> None:
    run = dump(*args, cwd=tmp_path)
    assert (run.exit, run.stdout) == (2, b"")
    assert b"FILE" in run.stderr


def test_options_may_have_one_dash(tree: Path) -> None:
    expected = dump("--files", f"clean/{ZERO}", "--print-data-log", cwd=tree)
    assert expected.exit == 0
    assert dump("-files", f"clean/{ZERO}", "-print-data-log", cwd=tree) == expected
    assert dump(f"-files=clean/{ZERO}", "-print-data-log", cwd=tree) == expected


def test_true_after_a_flag_is_no_file(tree: Path) -> None:
    expected = dump("--print-data-log", "--files", f"clean/{ZERO}", cwd=tree)
    assert dump("--print-data-log", "true", "--files", f"clean/{ZERO}", cwd=tree) == expected
    assert dump("-print-data-log", "true", f"clean/{ZERO}", cwd=tree) == expected


def test_files_and_arguments_are_all_dumped(tree: Path) -> None:
    names = [f"{name}/{ZERO}" for name in ("clean", "note", "warning")]
    run = dump(names[2], "--files", ",".join(names[:2]), cwd=tree)
    assert run.exit == 0
    assert sorted(dumped(run)) == sorted(names)


def test_compat_takes_files_only_from_its_option(tree: Path) -> None:
    run = dump("--compat", "4.3", "--files", f"clean/{ZERO}", f"note/{ZERO}", cwd=tree)
    assert (run.exit, dumped(run)) == (0, [f"clean/{ZERO}"])


# --- what cannot be read ------------------------------------------------------------------------------------
def test_a_missing_file_is_one_line_and_10(tree: Path) -> None:
    run = dump("missing.log", cwd=tree)
    assert (run.exit, run.stdout) == (10, b"")
    one_line(run, "missing.log", "no such file")


@pytest.mark.parametrize("release", ["4.3", "4.2", "3.9"])
def test_a_missing_file_is_10_under_compat_too(release: str, tree: Path) -> None:
    run = dump("--compat", release, "--files", ZERO, cwd=tree)
    assert run.exit == 10
    assert run.stderr.startswith(b'Exception in thread "main" java.nio.file.NoSuchFileException: ')


def test_a_fifo_is_not_waited_for(tree: Path) -> None:
    run = dump(f"fifo/{ZERO}", cwd=tree)
    assert (run.exit, run.stdout) == (5, b"")
    one_line(run, f"fifo/{ZERO}", "FIFO")


def test_a_fifo_in_a_directory_is_not_waited_for(partition: Path) -> None:
    os.mkfifo(partition / "00000000000000000300.log")
    run = dump("plain-0", cwd=partition.parent)
    assert run.exit == 5
    assert "plain-0/00000000000000000240.log" in dumped(run)
    one_line(run, "00000000000000000300.log")


@pytest.mark.parametrize("args", [["verify"], ["dump"], ["reindex"], ["find-offset", "3"]], ids=lambda args: args[0])
def test_a_missing_path_names_the_one_beside_it_that_was_meant(args: list[str], tmp_path: Path) -> None:
    (tmp_path / "plain-0").mkdir()
    (tmp_path / "plain-1").mkdir()
    run = run_kdump([args[0], "plian-0", *args[1:]], tmp_path)
    assert (run.exit, run.stderr) == (10, b"kdump: no such file: plian-0; did you mean plain-0?\n")
    if args[0] in ("verify", "dump"):
        assert b"plain" not in run_kdump([args[0], "plian-0", "--redact"], tmp_path).stderr
    (tmp_path / "plains-2").mkdir()
    run = run_kdump([args[0], "plain-2", *args[1:]], tmp_path)
    there = b"; here are plain-0, plain-1" if args[0] == "find-offset" else b""
    assert (run.exit, run.stderr) == (10, b"kdump: no such file: plain-2" + there + b"\n"), "the topic is right"


@pytest.mark.parametrize("command", ["verify", "dump"])
def test_a_directory_without_kafka_files_is_said_to_have_none(command: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    run = run_kdump([command, "empty"], tmp_path)
    assert (run.exit, b"empty: no Kafka files here\n" in run.stderr) == (10, True)
    (tmp_path / "srv" / "kafka" / "data" / "t-0").mkdir(parents=True)
    run = run_kdump([command, "srv"], tmp_path)
    assert run.exit == 10
    assert b"srv: no Kafka files here; did you mean srv/kafka/data?\n" in run.stderr
    redacted = run_kdump([command, "srv", "--redact"], tmp_path).stderr
    assert b"no Kafka files here\n" in redacted
    assert b"data" not in redacted


def test_what_was_not_searched_names_no_file_that_the_user_has_not_named() -> None:
    watched = NotSearched()
    watched.see(OpenFailure("plian-0", "missing", "no such file: plian-0; did you mean plain-0?"))
    assert list(watched.lines()) == ["not searched: no such file: plian-0"]


def test_a_file_without_permission_is_one_line_and_5(tree: Path) -> None:
    (tree / "error" / ZERO).chmod(0)
    run = unprivileged("dump", f"error/{ZERO}", f"clean/{ZERO}", cwd=tree)
    assert run.exit == 5
    assert dumped(run) == [f"clean/{ZERO}"]
    one_line(run, f"error/{ZERO}", "permission denied; you own it: chmod")


def test_a_directory_without_permission_is_one_line_and_5(tree: Path) -> None:
    (tree / "error").chmod(0)
    run = unprivileged("dump", "error", f"clean/{ZERO}", cwd=tree)
    (tree / "error").chmod(0o700)
    assert run.exit == 5
    assert dumped(run) == [f"clean/{ZERO}"]
    one_line(run, "error", "ermission")


def test_of_a_partition_without_permission_nothing_is_lost_and_nothing_is_to_be_moved(tmp_path: Path) -> None:
    """Its checkpoints know offsets, but nobody knows that its logs are not there."""
    copy_tree(INTACT / "none" / "logdir", tmp_path / "d")
    (tmp_path / "d/plain-0").chmod(0)
    run = unprivileged("verify", "d", "--format", "json", cwd=tmp_path)
    (tmp_path / "d/plain-0").chmod(0o700)
    assert run.exit == 5
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    assert [row for row in rows if row["type"] in ("finding", "loss", "step")] == []
    one_line(run, "d/plain-0", "cannot be listed: permission denied; you own it: chmod")


def test_a_file_without_permission_is_5_under_compat_too(tree: Path) -> None:
    (tree / "error" / ZERO).chmod(0)
    run = unprivileged("dump", "--compat", "4.3", "--files", f"error/{ZERO}", cwd=tree)
    assert run.exit == 5
    assert run.stderr.startswith(b'Exception in thread "main" java.nio.file.AccessDeniedException: ')


@pytest.mark.parametrize("bad", ["missing.log", f"fifo/{ZERO}", "strange.bin", "copy.index"])
def test_other_files_are_dumped_after_a_bad_one(bad: str, tree: Path) -> None:
    (tree / "strange.bin").write_bytes(CLEAN)
    (tree / "copy.index").write_bytes(bytes(8))
    alone = dump(f"clean/{ZERO}", cwd=tree)
    run = dump(bad, f"clean/{ZERO}", cwd=tree)
    assert run.exit == (10 if bad == "missing.log" else 5)
    assert run.stdout.removeprefix(f"Dumping {bad}\n".encode()) == alone.stdout
    one_line(run, bad)


def test_verify_says_how_to_see_a_file_whose_name_does_not_tell_what_it_is(tree: Path) -> None:
    (tree / "odd.bin").write_bytes(CLEAN)
    run = kdump_run("verify", "odd.bin", cwd=tree)
    assert run.exit == 5
    told = b"kdump: odd.bin: the name does not tell what this is; kdump dump --type KIND shows it\n"
    assert run.stderr == told
    assert dump("--type", "log", "--base-offset", "0", "odd.bin", cwd=tree).exit == 0


def test_a_full_disk_is_no_success_and_no_traceback(tree: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, "dump", f"clean/{ZERO}"],
            cwd=tree,
            env=ENVIRONMENT,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=SECONDS,
            check=False,
        )
    assert done.returncode not in (0, 1)
    one_line(Run(done.returncode, b"", done.stderr), "space")


@pytest.mark.parametrize("arguments", ["--help", "--version", "help dump", "du -h", "explain B01", "partition-for g"])
def test_help_that_cannot_be_written_is_one_line_and_5(arguments: str) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, *arguments.split()],
            env=ENVIRONMENT,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=SECONDS,
            check=False,
        )
    assert done.returncode == 5
    one_line(Run(done.returncode, b"", done.stderr), "space")


@pytest.mark.parametrize("arguments", [["--version"], ["verify", "."], ["dump", f"error/{ZERO}"]])
@pytest.mark.parametrize("closed", ["2>&-", "2>&- <&-"])
def test_a_closed_stderr_changes_neither_the_answer_nor_the_status(
    arguments: list[str], closed: str, tree: Path
) -> None:
    said = kdump_run(*arguments, cwd=tree)
    run = subprocess.run(
        ["sh", "-c", f"{shlex.join([*COMMAND, *arguments])} {closed}"],
        cwd=tree,
        env=ENVIRONMENT,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert said.stdout
    assert (run.returncode, run.stdout, run.stderr) == (said.exit, said.stdout, b"")


def test_a_closed_stdout_is_said() -> None:
    run = subprocess.run(
        ["sh", "-c", f"{shlex.join([*COMMAND, '--version'])} >&-"],
        env=ENVIRONMENT,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert run.returncode == 5
    assert run.stderr == b"kdump: cannot write the output: stdout is closed\n"


# --- names --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["copy.log", "x.log.bak", "copy.index", "copy.timeindex"])
def test_a_name_without_base_offset_wants_it_said(name: str, partition: Path) -> None:
    kind = name.split(".")[1]
    original = partition / f"00000000000000000119.{kind}"
    expected = dump(original.name, cwd=partition)
    assert expected.exit == 0
    for path in (original, original.with_suffix(".log")):  # an index is read beside its log
        shutil.copy(path, partition / (name if path is original else "copy.log"))
    run = dump(name, cwd=partition)
    assert (run.exit, body(run)) == (5, b"")
    one_line(run, name, "--base-offset")
    told = dump(name, "--base-offset", "119", cwd=partition)
    assert (told.exit, body(told)) == (0, body(expected))


def test_a_name_of_no_kind_wants_it_said(partition: Path) -> None:
    original = partition / "00000000000000000119.log"
    shutil.copy(original, partition / "strange.bin")
    run = dump("strange.bin", cwd=partition)
    assert (run.exit, run.stdout) == (5, b"")
    one_line(run, "strange.bin", "--type")
    told = dump("strange.bin", "--type", "log", "--base-offset", "119", cwd=partition)
    assert (told.exit, body(told)) == (0, body(dump(original.name, cwd=partition)))


@pytest.mark.parametrize("suffix", [".deleted", ".swap", ".cleaned", ".bak"])
@pytest.mark.parametrize("kind", ["log", "index", "timeindex"])
def test_a_renamed_copy_is_shown_by_its_number(kind: str, suffix: str, partition: Path) -> None:
    name = f"00000000000000000119.{kind}"
    expected = dump(name, cwd=partition)
    (partition / name).rename(partition / f"{name}{suffix}")
    run = dump(f"{name}{suffix}", cwd=partition)
    assert (run.exit, run.stderr) == (0, b"")
    assert body(run) == body(expected)


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_a_tiered_index_is_shown_by_its_number(kind: str, partition: Path, tmp_path: Path) -> None:
    name = f"00000000000000000119.{kind}"
    expected = dump(name, cwd=partition)
    tiered = f"119_dnL-uvnQSW-fRt-6IIbovQ.{kind}"
    shutil.copy(partition / name, tmp_path / tiered)
    run = dump(tiered, cwd=tmp_path)
    assert (run.exit, run.stderr) == (0, b"")
    assert body(run) == body(expected)


@pytest.mark.parametrize(
    ("name", "stdout"),
    [
        (ZERO, b"Dumping 00000000000000000000.log\nLog starting offset: 0\n"),
        (
            "00000000000000000000.index",
            b"Dumping 00000000000000000000.index\n00000000000000000000.index is empty.\n",
        ),
        ("00000000000000000000.timeindex", b"Dumping 00000000000000000000.timeindex\n"),
        ("00000000000000000000.txnindex", b"Dumping 00000000000000000000.txnindex\n"),
    ],
)
def test_an_empty_file_is_dumped(name: str, stdout: bytes, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    run = dump(name, cwd=tmp_path)
    assert (run.exit, run.stdout) == (0, stdout)
    assert all(name in line for line in run.stderr.decode().splitlines())


@pytest.mark.parametrize("name", ["00000000000000000000.snapshot", "leader-epoch-checkpoint", "meta.properties"])
def test_an_empty_state_file_is_no_crash(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    run = dump(name, cwd=tmp_path)
    assert run.exit in (0, 3)
    assert dumped(run) == [name]
    assert all(name in line for line in run.stderr.decode().splitlines())


# --- directories and text files -----------------------------------------------------------------------------
def test_a_directory_is_its_segments_in_order(partition: Path) -> None:
    run = dump("plain-0", cwd=partition.parent)
    assert (run.exit, run.stderr) == (0, b"")
    suffixes = {
        0: ("log", "index", "timeindex"),
        119: ("log", "index", "timeindex", "snapshot"),
        240: ("log", "index", "timeindex", "snapshot"),
        297: ("snapshot",),
    }
    segments = [f"plain-0/{base:020}.{suffix}" for base, kinds in suffixes.items() for suffix in kinds]
    shown = dumped(run)
    assert shown[: len(segments)] == segments
    assert sorted(shown[len(segments) :]) == ["plain-0/leader-epoch-checkpoint", "plain-0/partition.metadata"]


def test_a_directory_shows_each_file_as_it_is_shown_alone(partition: Path) -> None:
    whole = dump("plain-0/", "--deep-iteration", cwd=partition.parent)
    alone = [dump(name, "--deep-iteration", cwd=partition.parent).stdout for name in dumped(whole)]
    assert whole.stdout == b"".join(alone)


def test_a_log_directory_is_its_partitions_in_order(tmp_path: Path) -> None:
    for name in ("t-10", "t-2", "a-0"):
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / ZERO).write_bytes(CLEAN)
    run = dump("data", cwd=tmp_path)
    assert (run.exit, run.stderr) == (0, b"")
    assert dumped(run) == [f"data/{name}/{ZERO}" for name in ("a-0", "t-2", "t-10")]


def entries(path: Path) -> list[list[str]]:
    """Return the words of each entry of a text file."""
    text = path.read_text("utf-8")
    if path.name in ("quorum-state", ".kafka_cleanshutdown"):
        return [[name, str(value)] for name, value in json.loads(text).items()]
    if path.name == "meta.properties":
        return [line.split("=", 1) for line in text.splitlines() if not line.startswith("#")]
    if path.name == "partition.metadata":
        return [line.split(": ") for line in text.splitlines()[1:]]
    return [line.split(" ") for line in text.splitlines()[2:]]


@pytest.mark.parametrize(
    "name",
    [
        "epochs-0/leader-epoch-checkpoint",
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
        "cleaner-offset-checkpoint",
        "plain-0/partition.metadata",
        "meta.properties",
        "__cluster_metadata-0/quorum-state",
    ],
)
def test_a_text_file_is_shown_entry_by_entry(name: str) -> None:
    run = dump(name, cwd=NODE)
    assert (run.exit, run.stderr) == (0, b"")
    lines = body(run).decode().splitlines()
    for words in entries(NODE / name):
        pattern = ".*?".join(rf"(?<![\w-]){re.escape(word)}(?![\w-])" for word in words)
        assert any(re.search(pattern, line) for line in lines), words


@pytest.mark.parametrize("name", ["epochs-0/leader-epoch-checkpoint", "recovery-point-offset-checkpoint"])
def test_a_copy_of_a_text_file_is_shown_by_its_type(name: str, tmp_path: Path) -> None:
    shutil.copy(NODE / name, tmp_path / "copy.txt")
    run = dump("copy.txt", "--type", Path(name).name, cwd=tmp_path)
    assert (run.exit, run.stderr) == (0, b"")
    assert body(run) == body(dump(name, cwd=NODE))


# --- exit codes ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("exit_code", "names"),
    [
        (0, "clean"),
        (0, "note"),
        (0, "note --fail-on warning"),
        (0, "warning"),
        (4, "warning --fail-on warning"),
        (0, "warning --fail-on never"),
        (3, "error"),
        (3, "error --fail-on warning"),
        (3, "error warning clean --fail-on warning"),
        (0, "error --fail-on never"),
        (10, "missing"),
        (10, "missing --fail-on never"),
        (10, "missing clean"),
        (10, "missing warning --fail-on warning"),
        (6, "missing error"),
        (5, "missing error --fail-on never"),
        (5, "fifo"),
        (5, "fifo --fail-on never"),
        (5, "fifo missing"),
        (5, "fifo warning --fail-on warning"),
        (6, "error fifo"),
        (5, "error fifo --fail-on never"),
        (6, "clean note warning error fifo missing"),
    ],
)
def test_the_lowest_line_of_the_exit_table_wins(exit_code: int, names: str, tree: Path) -> None:
    known = {"clean", "note", "warning", "error", "fifo", "missing"}
    args, option = names.partition(" --fail-on ")[::2]
    paths = [f"{name}/{ZERO}" for name in args.split() if name in known]
    run = dump(*paths, *(["--fail-on", option] if option else []), cwd=tree)
    assert run.exit == exit_code, run.stderr


def test_findings_do_not_reach_stdout(tree: Path) -> None:
    run = dump(f"error/{ZERO}", cwd=tree)
    assert b"B01" in run.stderr
    assert b"B01" not in run.stdout
    assert run.stdout.count(b"isvalid: true") == 2
    assert run.stdout.count(b"isvalid: false") == 1


@pytest.mark.parametrize("option", ["--max-batch-bytes", "--max-uncompressed-bytes"])
def test_what_is_over_a_limit_makes_the_run_incomplete(option: str, tmp_path: Path) -> None:
    shutil.copy(LARGE, tmp_path / ZERO)
    run = dump(ZERO, "--deep-iteration", option, "1024", cwd=tmp_path)
    assert run.exit == 5, run.stderr[-500:]
    assert option.encode() in run.stderr


# --- signals ------------------------------------------------------------------------------------------------
def talkative() -> subprocess.Popen[bytes]:
    """Start a dump with far more output than a pipe holds."""
    return subprocess.Popen(
        [*COMMAND, "dump", "--print-data-log", *([str(LARGE)] * 40)],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_a_closed_pipe_ends_it_quietly() -> None:
    with talkative() as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline().startswith(b"Dumping ")
        child.stdout.close()
        assert child.wait(SECONDS) == -signal.SIGPIPE
        assert child.stderr.read() == b""


def test_a_shell_sees_141_of_a_closed_pipe() -> None:
    command = shlex.join([*COMMAND, "dump", "--print-data-log", *([str(LARGE)] * 40)])
    done = subprocess.run(
        ["bash", "-c", f'{command} | head -n 1; echo "${{PIPESTATUS[0]}}"'],
        env=ENVIRONMENT,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.stdout.splitlines()[1:] == [b"141"]
    assert done.stderr == b""


@pytest.mark.parametrize("ends", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_at_once(ends: signal.Signals) -> None:
    with talkative() as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.read(1) == b"D"  # it runs, and soon waits for the pipe
        child.send_signal(ends)
        assert child.wait(SECONDS) == -ends
        told = child.stderr.read().decode()
        so_far = r"; so far: [\d,]+ batch(es)?, [\d,]+ records?"
        said = rf"kdump: dump was interrupted in {re.escape(str(LARGE))}({so_far})?\n"
        assert re.fullmatch(said, told) if ends == signal.SIGINT else told == ""
        child.stdout.close()


# --- terminals ----------------------------------------------------------------------------------------------
def on_terminal(*args: str, cwd: Path) -> tuple[int, str, str]:
    """Run `kdump dump` with stdout on a terminal; return exit code, what the terminal got, stderr."""
    master, slave = pty.openpty()
    tty.setraw(slave)  # as it was written: no \n becomes \r\n
    with subprocess.Popen(
        [*COMMAND, "dump", *args], cwd=cwd, env=ENVIRONMENT, stdout=slave, stderr=subprocess.PIPE
    ) as child:
        os.close(slave)
        got = bytearray()
        try:
            while piece := os.read(master, 65536):
                got += piece
        except OSError:  # Linux says that the other side is gone
            pass
        finally:
            os.close(master)
        assert child.stderr is not None
        stderr = child.stderr.read()
        return child.wait(SECONDS), got.decode(), stderr.decode()


def unsafe(text: str) -> set[str]:
    """Return the characters that could drive a terminal or turn its text around."""
    return {c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")}


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A log whose key, value and header key have escapes."""
    text = ESCAPES.encode()
    (tmp_path / ZERO).write_bytes(batch(0, b"v" + text, key=b"k" + text, header=b"h" + text))
    return tmp_path


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--skip-record-metadata"],
        ["--value-decoder-class", "org.apache.kafka.tools.api.StringDecoder"],
        ["--offsets-decoder"],
        ["--cluster-metadata-decoder"],
    ],
    ids=shlex.join,
)
def test_a_terminal_gets_no_escapes_of_a_record(options: list[str], hostile: Path) -> None:
    code, shown, stderr = on_terminal("--print-data-log", *options, ZERO, cwd=hostile)
    assert code == 0
    assert unsafe(shown + stderr) == set()
    if not options:
        assert shown.count("\\x1b[2J") == 3


def test_a_terminal_gets_no_escapes_of_a_name(tmp_path: Path) -> None:
    folder = tmp_path / f"t{ESCAPES}-0"
    folder.mkdir()
    (folder / ZERO).write_bytes(CLEAN)
    code, shown, stderr = on_terminal(f"{folder.name}/{ZERO}", cwd=tmp_path)
    assert (code, stderr) == (0, "")
    assert unsafe(shown) == set()
    assert "\\x1b[2J" in shown.splitlines()[0]


def test_raw_sends_a_terminal_what_is_there(hostile: Path) -> None:
    code, shown, _ = on_terminal("--print-data-log", "--raw", ZERO, cwd=hostile)
    assert code == 0
    assert shown.encode() == dump("--print-data-log", ZERO, cwd=hostile).stdout


def test_a_pipe_gets_what_is_there(hostile: Path) -> None:
    run = dump("--print-data-log", ZERO, cwd=hostile)
    assert run.stdout.count(ESCAPES.encode()) == 3


def test_an_error_line_never_has_escapes(tmp_path: Path) -> None:
    run = dump(f"no{ESCAPES}.log", cwd=tmp_path)
    assert run.exit == 10
    assert unsafe(run.stderr.decode()) == set()


def test_a_name_that_is_no_utf8_is_kept_in_a_pipe(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"t\xff-0")
    folder.mkdir()
    (folder / ZERO).write_bytes(CLEAN)
    run = dump(folder.relative_to(tmp_path) / ZERO, cwd=tmp_path)
    assert (run.exit, run.stderr) == (0, b"")
    assert run.stdout.startswith(b"Dumping t\xff-0/" + ZERO.encode() + b"\n")


# --- nothing is touched -------------------------------------------------------------------------------------
WATCHED = """
import json, os, sys
report, tree = sys.argv[1], sys.argv[2]
seen = []
def hook(event, args):
    if event != "open" and event.partition(".")[0] not in ("os", "fcntl", "shutil"):
        return
    path = args[0] if args and isinstance(args[0], (str, bytes, os.PathLike)) else tree
    if os.path.abspath(os.fsdecode(path)).startswith(tree):  # no path: a descriptor, of whatever file
        seen.append([event, *(one for one in args if isinstance(one, (str, int)))])
sys.addaudithook(hook)
sys.argv = ["kdump", *sys.argv[3:]]
from kdump.__main__ import main
try:
    main()
finally:
    caught, seen = seen, []
    with open(report, "w") as out:
        json.dump(caught, out)
"""
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def watched(args: Sequence[str], tree: Path) -> tuple[Run, list[list[Any]]]:
    """Run kdump in a tree; return also what it asked the system to do with files there."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        done = subprocess.run(
            [sys.executable, "-P", "-c", WATCHED, str(report), str(tree), *args],
            cwd=tree,
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        return Run(done.returncode, done.stdout, done.stderr), json.loads(report.read_text())


@pytest.fixture
def fragile(tmp_path: Path) -> Path:
    """Files that Kafka's own tool changes when it shows them, and one of every other kind."""
    copy_tree(INTACT / "txn" / "logdir", tmp_path)
    folder = tmp_path / "payments-0"
    first, second = sorted(folder.glob("*.index"))[:2]
    first.write_bytes(first.read_bytes() + b"\0\0\0")  # Kafka 4.3 cuts it
    second.unlink()  # Kafka makes an empty one to show the time index
    for extra in (".txnindex", ".log.deleted", ".index.swap"):
        (folder / f"00000000000000000900{extra}").touch()
    return copy_tree(NODE / "__cluster_metadata-0", tmp_path / "__cluster_metadata-0").parent


def test_nothing_is_created_changed_or_locked(fragile: Path) -> None:
    before = fingerprint(fragile)
    files = sorted(str(path.relative_to(fragile)) for path in fragile.rglob("*") if path.is_file())
    run, asked = watched(["dump", "--deep-iteration", *files], fragile)
    assert run.exit in (0, 3, 5), run.stderr
    assert changed(before, fingerprint(fragile)) is None
    check_only_reads(asked)


@pytest.mark.parametrize("release", ["4.3", "3.9"])
@pytest.mark.parametrize("kind", ["log", "index", "timeindex", "txnindex", "snapshot"])
def test_compat_does_not_do_what_kafka_does_to_files(kind: str, release: str, fragile: Path) -> None:
    before = fingerprint(fragile)
    for path in sorted((fragile / "payments-0").glob(f"*.{kind}")):
        _, asked = watched(["dump", "--compat", release, "--files", f"payments-0/{path.name}"], fragile)
        check_only_reads(asked)
    assert changed(before, fingerprint(fragile)) is None


def check_only_reads(asked: list[list[Any]]) -> None:
    """Check that files were opened, all of them for reading, and that nothing else was done to any."""
    assert any(event[0] == "open" for event in asked)
    assert [event for event in asked if event[0] not in ("open", "os.listdir", "os.scandir")] == []
    assert [event for event in asked if event[0] == "open" and event[-1] & WRITING] == []


def test_a_time_index_without_index_is_shown_and_none_is_made(partition: Path) -> None:
    (partition / "00000000000000000119.index").unlink()
    before = fingerprint(partition)
    run = dump("00000000000000000119.timeindex", cwd=partition)
    assert run.exit == 0
    assert body(run).startswith(b"timestamp: ")
    assert changed(before, fingerprint(partition)) is None


@pytest.mark.parametrize("case", damage_cases(FIXTURES / "damage")[::9], ids=lambda case: case.name)
def test_a_damaged_directory_is_left_as_it_is(case: Any, tmp_path: Path) -> None:
    tree = case.build(tmp_path / "logdir")
    before = fingerprint(tree)
    files = [str(path.relative_to(tree)) for path in sorted(tree.rglob("*")) if path.is_file()]
    run = dump("--print-data-log", *files, cwd=tree)
    assert run.exit in (0, 3, 5, 6), run.stderr
    assert b"Traceback" not in run.stderr
    assert changed(before, fingerprint(tree)) is None


# --- as a drop-in -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["kafka-dump-log.sh", "kafka-dump-log"])
def test_through_a_link_with_the_name_of_kafkas_tool_it_is_dump(tmp_path: Path, name: str) -> None:
    script = tmp_path / "kdump"
    script.write_text("from kdump.__main__ import main\nmain()\n")
    (tmp_path / name).symlink_to(script)
    log = NODE / "ints-0" / "00000000000000000000.log"
    path = os.pathsep.join(filter(None, [str(FIXTURES.parent), os.environ.get("PYTHONPATH")]))

    def run(*command: str | Path) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, *command], capture_output=True, check=False, env={**os.environ, "PYTHONPATH": path}
        )

    linked, plain = run(tmp_path / name, "--files", log), run("-m", "kdump", "dump", "--files", log)
    assert linked.returncode == 0
    assert linked.stdout == plain.stdout != b""
    assert run(script, "--files", log).returncode == 2


def test_without_files_the_message_under_compat_begins_with_kafkas_words(tmp_path: Path) -> None:
    run = kdump_run("dump", "--compat", "4.3", "--print-data-log", cwd=tmp_path)
    assert (run.exit, run.stdout) == (2, b"")
    assert run.stderr.startswith(b'Missing required argument "[files]"\n')
    assert b"--files" in run.stderr.partition(b"\n")[2]


@pytest.mark.parametrize(
    "kind", ["log", "index", "timeindex", "txnindex", "snapshot", "checkpoint", "partition.metadata"]
)
@pytest.mark.parametrize("names", [("index",), ("index", "timeindex"), ("log",), ("snapshot", "txnindex")])
def test_a_directory_without_a_file_of_the_type_is_read_as_it_was_said(
    kind: str, names: tuple[str, ...], tmp_path: Path
) -> None:
    for suffix in names:
        (tmp_path / f"{0:020}.{suffix}").write_bytes(b"" if suffix == "log" else bytes(36))
    run = run_kdump(["dump", "--type", kind, "."], tmp_path)
    assert run.exit in (0, 3, 5), run.stderr
