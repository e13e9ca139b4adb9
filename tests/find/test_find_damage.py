"""find-offset and find-time where something is in the way: damage, limits, files that cannot be read, odd input."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from crc32c import crc32c

import kdump
from kdump.find.finder import Finder, open_partition
from kdump.find.query import Query, offset_query, time_query
from kdump.finding import Code, Finding, Severity
from kdump.format.read_limits import ReadLimits
from kdump.rows.lookup import LookupAnswer
from tests.support.damage_cases import damage_cases
from tests.support.partitions import name, segment, write
from tests.support.runs import FIXTURES, copy_tree, run_kdump
from tests.support.scan_windows import COMPILED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kdump.storage.file_source import OpenFailure

NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
INTACT = FIXTURES / "damage" / "intact"
CASES = {case.name: case for case in damage_cases(FIXTURES / "damage")}
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(kdump.__file__).parent.parent)}
COMMAND = [sys.executable, "-P", "-m", "kdump"]
SECONDS = 120  # a run that takes longer hangs
LOG, MIDDLE, LAST = (f"plain-0/{base:020}.log" for base in (0, 119, 240))


def ignore(_finding: Finding) -> None:
    """Checkpoints are not what is tested here."""


def finder_in(path: Path, *, scan: bool = False, limits: ReadLimits | None = None) -> Finder:
    return Finder(open_partition(str(path), ignore), limits or ReadLimits(1 << 28, 1 << 28), scan=scan, times=True)


def ask(finder: Finder, query: Query) -> tuple[list[Finding | OpenFailure], LookupAnswer]:
    *met, location = finder.answers([query])
    assert isinstance(location, LookupAnswer)
    return [one for one in met if not isinstance(one, LookupAnswer)], location


class Answer:
    """What a run said: exit status, locations, findings by code, lines of stderr."""

    def __init__(self, args: Sequence[str], cwd: Path) -> None:
        run = run_kdump([*args, "--format", "json"], cwd)
        objects = [json.loads(line) for line in run.stdout.splitlines()]
        self.exit = run.exit
        self.locations = [one for one in objects if one["type"] == "location"]
        self.findings = {one["code"]: one for one in objects if one["type"] == "finding"}
        self.stderr = run.stderr.decode().splitlines()

    @property
    def codes(self) -> set[str]:
        return set(self.findings)

    @property
    def location(self) -> dict[str, Any]:
        one: dict[str, Any]
        (one,) = self.locations
        return one


def kdump_run(*args: str, cwd: Path, stdin: bytes = b"") -> tuple[int, list[str], list[str]]:
    """Run the command in a process of its own: exit status, lines of stdout and stderr."""
    done = subprocess.run(
        [*COMMAND, *args], cwd=cwd, env=ENVIRONMENT, input=stdin, capture_output=True, timeout=SECONDS, check=False
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done.returncode, done.stdout.decode().splitlines(), done.stderr.decode().splitlines()


@pytest.fixture
def build(tmp_path: Path) -> Callable[[str], Path]:
    """Makes the log directory of a damage case."""
    return lambda name: CASES[name].build(tmp_path / "logdir")


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A log directory with an intact partition of three segments, plain-0."""
    return copy_tree(INTACT / "none" / "logdir", tmp_path / "logdir")


# --- records and headers on the way -------------------------------------------------------------------------
@pytest.mark.parametrize("scan", [[], ["--scan"]], ids=["broker", "scan"])
@pytest.mark.parametrize(
    ("name", "args", "code"),
    [
        ("r02-length-past-end", ["find-offset", "plain-0", "178"], "R02"),
        ("r02-length-past-end", ["find-time", "plain-0", "1700000081000"], "R02"),
        ("r06-offset-delta-falls", ["find-offset", "plain-0", "178"], "R06"),
        ("c01-gzip-stream-head", ["find-offset", "gzip-0", "255"], "C01"),
        ("c02-gzip-bytes-after", ["find-time", "gzip-0", "1700000114000"], "C02"),
        ("c05-zstd-marked-3", ["find-offset", "zstd-0", "235"], "C05"),
        ("c05-zstd-marked-3", ["find-time", "zstd-0", "1700000104610"], "C05"),
        ("c01-v1-wrapper-stream-bit", ["find-offset", "legacy-0", "132"], "C01"),
        ("c07-v1-wrapper-zstd", ["find-offset", "legacy-0", "132"], "C07"),
        ("b07-lastoffsetdelta-minus1", ["find-offset", "plain-0", "180"], "B07"),
        ("b05-codec-5", ["find-offset", "plain-0", "178"], "B05"),
        ("e01-epoch-minus1", ["find-offset", "epochs-0", "179"], "E01"),
    ],
)
def test_what_cannot_be_read_on_the_way_is_an_error(
    name: str, args: list[str], code: str, scan: list[str], build: Callable[[str], Path]
) -> None:
    answer = Answer([*args, *scan], build(name))
    assert answer.exit == 3
    assert code in answer.codes


UNSEEN = {"c01-lz4-stream-bit", "c01-snappy-stream-bit", "c01-zstd-stream-bit"}  # what comes out is no nonsense
INSIDE = sorted(
    name for name, case in CASES.items() if re.fullmatch("[RC]0[1-7]", case.codes[0]) and name not in UNSEEN
)


@pytest.mark.parametrize("name", [name for name in INSIDE if name not in UNSEEN and name[:3] != "r05"])
def test_damaged_records_are_told_when_they_are_asked_for(name: str, build: Callable[[str], Path]) -> None:
    (path,) = (one for one in build(name).iterdir() if one.is_dir())
    finder = finder_in(path)
    codes = set()
    for offset in range(finder._partition.bases[-1] + 40):
        codes |= {one.code.name for one in ask(finder, offset_query(str(offset)))[0] if isinstance(one, Finding)}
    assert set(CASES[name].codes) & codes


def test_records_of_other_batches_are_not_looked_into(build: Callable[[str], Path]) -> None:
    answer = Answer(["find-offset", "plain-0", "182"], build("r02-length-past-end"))
    assert (answer.exit, answer.codes) == (0, set())


@pytest.mark.parametrize("name", sorted(CASES))
def test_where_a_broker_fails_a_finding_says_why(name: str, build: Callable[[str], Path]) -> None:
    tree = build(name)
    for path in sorted(one for one in tree.iterdir() if any(one.glob("[0-9]*.log")) and one.suffix != ".log"):
        finder = finder_in(path)
        told = False
        for time in range(1700000001105, 1700000115118, 3000 if COMPILED else 30_000):
            met, location = ask(finder, time_query(str(time)))
            told |= any(isinstance(one, Finding) and one.severity is Severity.ERROR for one in met)
            assert told or "fails here" not in (location.error or ""), time


def test_a_finding_is_told_once(build: Callable[[str], Path]) -> None:
    finder = finder_in(build("r02-length-past-end") / "plain-0")
    assert [len(ask(finder, offset_query("178"))[0]) for _ in range(3)] == [1, 0, 0]


# --- limits -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("limits", [ReadLimits(300, 1 << 28), ReadLimits(1 << 28, 300)], ids=["batch", "uncompressed"])
@pytest.mark.parametrize("scan", [False, True], ids=["broker", "scan"])
@pytest.mark.parametrize("topic", ["bigbatch-0", "gzip-0", "mixed-0", "oddtime-0", "plain-0", "zstd-0"])
def test_a_limit_gives_no_false_answer(topic: str, scan: bool, limits: ReadLimits) -> None:
    """The answer is the one without limits, or it is not known and a finding says why."""
    full, limited = finder_in(NODE / topic, scan=scan), finder_in(NODE / topic, scan=scan, limits=limits)
    told = False
    times = [1_700_000_000_000 + more for more in range(0, 900, 50)] + [1_795_219_474_931, 4_000_000_000_000]
    queries = [time_query(str(time)) for time in times] + [time_query("max")]
    queries += [offset_query(str(offset)) for offset in range(0, 200, 7)] + [offset_query("latest")]
    for query in queries:
        met, answer = ask(limited, query)
        told |= any(isinstance(one, Finding) and one.code in (Code.L12, Code.C03) for one in met)
        assert not any(isinstance(one, Finding) and one.code is Code.L13 for one in met), query
        if answer.error is not None and answer.error.startswith("not known: "):
            assert told, query
            continue
        assert answer.error is None or "OutOfMemory" not in answer.error
        wanted = ask(full, query)[1]
        assert (answer.position, answer.error) == (wanted.position, wanted.error), query
        assert answer.offset == wanted.offset or (answer.offset is None and told), query


@pytest.mark.parametrize("scan", [[], ["--scan"]], ids=["broker", "scan"])
def test_a_batch_over_the_limit_ends_with_5(scan: list[str]) -> None:
    answer = Answer(["find-time", "bigbatch-0", "max", "--max-batch-bytes", "1024", *scan], NODE)
    assert (answer.exit, answer.codes) == (5, {"L12"})
    assert "byte 124461 of bigbatch-0/" in answer.location["error"]
    assert "--max-batch-bytes" in answer.location["error"]


@pytest.mark.parametrize(("command", "asked"), [("find-offset", "177"), ("find-time", "1700000081293")])
def test_over_a_damaged_batch_with_sound_indexes_the_other_answer_sends_nobody_to_reindex(
    command: str, asked: str, build: Callable[[str], Path]
) -> None:
    tree = build("b-flip-crc-low")
    answer = Answer([command, "plain-0", asked], tree)
    assert (answer.exit, answer.codes, answer.location["offset"]) == (3, {"B01", "L13"}, 177)
    remedy = answer.findings["L13"]["remedy"]
    assert remedy == (
        "no index mends a damaged batch: a consumer gets the broker's answer; --scan tells what can be read"
    )
    assert b"nothing to do in plain-0" in run_kdump(["reindex", "plain-0"], tree).stdout
    scanned = Answer([command, "plain-0", asked, "--scan"], tree)
    assert scanned.location["offset"] == 179
    assert scanned.findings["L13"]["remedy"].endswith("a consumer gets the broker's answer")


def test_a_wrong_index_beside_a_damaged_batch_has_both_remedies(build: Callable[[str], Path]) -> None:
    tree = build("b-flip-crc-low")
    index = (tree / LAST).with_suffix(".timeindex")
    entries = index.read_bytes()
    index.write_bytes(entries[:-12] + (int.from_bytes(entries[-12:-4], "big") + 1000).to_bytes(8, "big") + entries[-4:])
    finder = finder_in(tree / "plain-0")
    met = [*ask(finder, time_query("1700000081293"))[0], *ask(finder, time_query("max"))[0]]
    found = {one.code.name: one for one in met if isinstance(one, Finding)}
    assert set(found) == {"B01", "T04", "L13"}
    remedy = "rebuild the index that is wrong (kdump verify names the command); no index mends a damaged batch: "
    assert found["L13"].remedy.startswith(remedy)


@pytest.mark.parametrize("args", [["find-time", "1795219490890"], ["find-offset", "222"]])
def test_an_answer_from_a_batch_with_a_wrong_base_offset_is_told_with_that(args: list[str], tmp_path: Path) -> None:
    """Its offsets 221..223 are stored as 477..479; a broker believes that, and nothing before the batch tells it."""
    tree = copy_tree(NODE, tmp_path / "node1")
    log = tree / "txn-0" / f"{0:020}.log"
    stored = bytearray(log.read_bytes())
    stored[18003] = 1
    log.write_bytes(stored)
    answer = Answer([args[0], "txn-0", args[1]], tree)
    assert (answer.exit, answer.location["offset"], answer.findings["O03"]["expected"]) == (3, 477, 221)
    right = 222 if args[0] == "find-offset" else 221
    assert [answer.findings["L13"][key] for key in ("field", "found", "expected")] == ["offset", 477, right]
    scanned = Answer([args[0], "txn-0", args[1], "--scan"], tree)
    assert (scanned.exit, scanned.location["offset"], scanned.location["baseOffset"]) == (3, right, 221)
    shown = run_kdump([args[0], "txn-0", args[1], "--scan", "--print"], tree).stdout.decode()
    assert f"| offset: {right + 256} " in shown, "the record as it is stored"
    behind = Answer(["find-offset", "txn-0", "300", "--scan"], tree)
    assert (behind.location["offset"], "L13" in behind.codes) == (300, False)


def test_offsets_that_wrap_behind_a_wrong_base_offset_are_put_right_too(tmp_path: Path) -> None:
    """The base offset is the largest that there is: the last offset of its batch is a negative number."""
    tree = copy_tree(NODE, tmp_path / "node1")
    log, fates = tree / "txn-0" / f"{0:020}.log", ["dump", "--fate", "--set", "retention.ms=-1", "txn-0"]
    sound = run_kdump(fates, tree).stdout
    stored = bytearray(log.read_bytes())
    stored[17997:18005] = (2**63 - 1).to_bytes(8, "big")
    log.write_bytes(stored)
    scanned = Answer(["find-offset", "txn-0", "222", "--scan"], tree)
    assert (scanned.exit, scanned.location["offset"], scanned.location["baseOffset"]) == (3, 222, 221)
    told = [re.findall(rb"fate: .*?\]", text) for text in (run_kdump(fates, tree).stdout, sound)]
    assert told[0] == told[1]


# --- times of files -----------------------------------------------------------------------------------------
def test_a_segment_passed_over_by_its_file_time_is_not_forgotten(build: Callable[[str], Path]) -> None:
    """Its time index is empty and its file is old: the answer of a broker is in the next segment."""
    tree = build("t-empty-mid")
    os.utime(tree / MIDDLE, (1, 1))
    answer = Answer(["find-time", "plain-0", "1700000077328"], tree)
    assert (answer.exit, answer.location["offset"]) == (0, 240)
    assert (answer.findings["L13"]["severity"], answer.findings["L13"]["expected"]) == ("warning", 166)
    assert (
        f"the time index of {MIDDLE} is empty, and a broker goes by the time of the file"
        in (answer.findings["L13"]["message"])
    )
    assert Answer(["find-time", "plain-0", "1700000077328", "--scan"], tree).location["offset"] == 166


def test_nothing_found_by_a_file_time_is_said_so(build: Callable[[str], Path]) -> None:
    tree = build("t-empty-mid")
    os.utime(tree / MIDDLE)
    answer = Answer(["find-time", "plain-0", "1700000119777"], tree)
    assert answer.exit == 10
    assert answer.findings["L13"]["expected"] == 259
    assert answer.location["error"].startswith("a broker finds no record at or after 1700000119777: the time index of ")
    assert answer.findings["L13"]["remedy"].startswith("rebuild 00000000000000000119.timeindex (kdump reindex); a con")


def test_a_time_index_is_rebuilt_after_its_damaged_log(plain: Path) -> None:
    """reindex refuses a damaged log: it comes first."""
    log = plain / MIDDLE
    log.with_suffix(".timeindex").unlink()
    data = bytearray(log.read_bytes())
    data[300] ^= 1
    log.write_bytes(data)
    os.utime(log, (1, 1))
    finding = Answer(["find-time", "plain-0", "1700000077328"], plain).findings["L13"]
    assert f"the time index of {MIDDLE} is missing, and a broker goes by the time of the file" in finding["message"]
    after = "after its log (B01): a restore, salvage or truncate does both"
    assert finding["remedy"].startswith(f"rebuild 00000000000000000119.timeindex, {after}; ")


def test_the_largest_timestamp_may_be_where_no_index_names_it(plain: Path) -> None:
    (plain / LAST).with_suffix(".timeindex").write_bytes(b"")
    answer = Answer(["find-time", "plain-0", "max"], plain)
    assert answer.location["offset"] == 239
    assert answer.findings["L13"]["expected"] == 296
    assert f"the time index of {LAST} is empty" in answer.findings["L13"]["message"]
    for path in plain.glob("plain-0/*.timeindex"):
        path.write_bytes(b"")
    answer = Answer(["find-time", "plain-0", "max"], plain)
    assert answer.location["error"].startswith(f"a broker finds no record: the time index of {LOG} is empty")


def test_an_empty_last_segment_costs_no_scan(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for suffix in ("log", "index", "timeindex"):
        (plain / "plain-0" / f"{297:020}.{suffix}").write_bytes(b"")
    monkeypatch.setattr("kdump.find.log_scan.LogScan.runs", None)
    for question in ("1800000000000", "1700000119777"):  # its own file time, and that of the one before
        assert not ask(finder_in(plain / "plain-0"), time_query(question))[0]


# --- the largest timestamp, and whose fault another answer is --------------------------------------------------
@pytest.mark.parametrize("name", ["t-last-too-high-mid", "t-last-too-high-last"])
def test_max_judges_the_entry_that_it_believed(name: str, build: Callable[[str], Path]) -> None:
    answer = Answer(["find-time", "plain-0", "max"], build(name))
    assert (answer.exit, answer.codes) == (3, {"T04", "L13"})
    assert answer.findings["L13"]["severity"] == "error"
    named = re.escape(answer.findings["T04"]["file"])
    assert re.fullmatch(
        f"a broker finds no record with the timestamp {answer.findings['T04']['found']}, which {named} .*",
        answer.location["error"],
    )


@pytest.mark.parametrize("scan", [[], ["--scan"]], ids=["broker", "scan"])
@pytest.mark.parametrize("name", ["t-last-too-high-mid", "t-last-too-high-last"])
def test_the_newest_time_is_that_of_a_record_whatever_a_time_index_says(
    name: str, scan: list[str], build: Callable[[str], Path]
) -> None:
    answer = Answer(["find-time", "plain-0", "2099-01-01T00:00:00Z", *scan], build(name))
    assert answer.location["error"].endswith("the newest time known is 2023-11-14T22:15:36.669Z")
    assert scan or "T04" in answer.codes


def test_a_time_index_below_its_log_does_not_hide_a_record(plain: Path) -> None:
    index = (plain / LAST).with_suffix(".timeindex")
    entries = index.read_bytes()
    index.write_bytes(entries[:-12] + entries[-24:-16] + entries[-4:])
    answer = Answer(["find-time", "plain-0", "2099-01-01T00:00:00Z"], plain)
    assert answer.location["error"].endswith("the newest time known is 2023-11-14T22:15:36.669Z")
    assert "T04" in answer.codes


def test_the_newest_time_lies_above_the_log_start(plain: Path) -> None:
    (plain / "log-start-offset-checkpoint").write_text("0\n1\nplain 0 297\n")
    answer = Answer(["find-time", "plain-0", "2099-01-01T00:00:00Z", "--scan"], plain)
    assert "newest" not in answer.location["error"]


def test_max_looks_beyond_the_last_entry(plain: Path) -> None:
    index = (plain / LAST).with_suffix(".timeindex")
    index.write_bytes(index.read_bytes()[:-12])
    answer = Answer(["find-time", "plain-0", "max"], plain)
    assert answer.location["offset"] == 294
    assert (answer.exit, answer.codes) == (3, {"T05", "L13"})
    assert answer.findings["L13"]["expected"] == 296
    wanted = "rebuild the index that is wrong (kdump verify names the command); a consumer gets the broker's answer; "
    assert answer.findings["L13"]["remedy"].startswith(wanted)


def test_max_compares_the_entry_with_its_batch(plain: Path) -> None:
    """The last entry has the timestamp of the one before: a broker finds that, and the index is wrong all the same."""
    index = (plain / LAST).with_suffix(".timeindex")
    entries = index.read_bytes()
    index.write_bytes(entries[:-12] + entries[-24:-16] + entries[-4:])
    answer = Answer(["find-time", "plain-0", "max"], plain)
    assert (answer.exit, "T04" in answer.codes) == (3, True)


def test_an_unsound_index_makes_another_answer_an_error(build: Callable[[str], Path]) -> None:
    answer = Answer(["find-time", "plain-0", "1700000109105"], build("l10-drop-last"))
    assert (answer.exit, answer.codes) == (3, {"T04", "L13"})
    assert answer.findings["L13"]["severity"] == "error"


# --- the log start offset beyond the end -------------------------------------------------------------------------
@pytest.mark.parametrize("question", ["earliest", "latest", "3", "1297", "1298"])
def test_a_log_start_beyond_the_end_leaves_nothing(question: str, build: Callable[[str], Path]) -> None:
    """As the broker did that was given this directory: all segments deleted, both ends 1297, no epoch."""
    answer = Answer(["find-offset", "plain-0", question], build("k02-logstart-beyond-leo"))
    assert answer.exit == 3
    assert (answer.findings["K02"]["found"], answer.findings["K02"]["expected"]) == (1297, 297)
    assert answer.findings["K02"]["file"] == "log-start-offset-checkpoint"
    if question in ("earliest", "latest"):
        assert (answer.location["offset"], answer.location["leaderEpoch"]) == (1297, None)
    else:
        assert answer.location["error"] is not None


@pytest.mark.parametrize("question", ["max", "1700000039482"])
def test_a_log_start_beyond_the_end_leaves_no_time(question: str, build: Callable[[str], Path]) -> None:
    answer = Answer(["find-time", "plain-0", question], build("k02-logstart-beyond-leo"))
    assert (answer.exit, "K02" in answer.codes, answer.location["offset"]) == (3, True, None)


# --- files that cannot be read -----------------------------------------------------------------------------------
@pytest.mark.parametrize("how", ["fifo", "vanished", "no permission"])
def test_a_segment_that_cannot_be_read_is_the_error_of_its_questions(how: str, plain: Path) -> None:
    (plain / MIDDLE).unlink()
    if how == "fifo":
        os.mkfifo(plain / MIDDLE)
    elif how == "vanished":
        (plain / MIDDLE).symlink_to("nowhere")
    else:
        (plain / MIDDLE).mkdir()
    status, stdout, stderr = kdump_run("find-offset", "plain-0", "-", cwd=plain, stdin=b"3\n150\nx\n296\n")
    assert status == 5
    assert [line.split()[1] for line in stdout] == ["3", "150", "x", "296"]
    assert [" nothing: " in line for line in stdout] == [False, True, True, False]
    assert MIDDLE in stdout[1]
    assert [line for line in stderr if "V02" not in line] == []
    status, stdout, stderr = kdump_run("find-offset", "plain-0", "150", cwd=plain)
    assert (status, stdout) == (5, [])
    assert MIDDLE in stderr[-1]


def test_an_error_of_the_disk_names_the_file_and_is_no_write_error(plain: Path) -> None:
    script = (
        "import os, sys\n"
        "real = os.preadv\n"
        "def failing(fd, buffers, at):\n"
        f"    if os.readlink(f'/proc/self/fd/{{fd}}').endswith({MIDDLE!r}):\n"
        f"        raise OSError({errno.EIO}, os.strerror({errno.EIO}))\n"
        "    return real(fd, buffers, at)\n"
        "os.preadv = failing\n"
        "from kdump.__main__ import main\n"
        "main()\n"
    )
    for args, questions, lines in ((["150"], b"", 0), (["-"], b"150\n3\n", 2)):
        done = subprocess.run(
            [sys.executable, "-P", "-c", script, "find-offset", "plain-0", *args],
            cwd=plain,
            env=ENVIRONMENT,
            input=questions,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 5
        said = f"{MIDDLE}: cannot be read: Input/output error"
        assert said in (done.stdout if lines else done.stderr).decode()
        assert b"cannot write" not in done.stderr
        assert len(done.stdout.splitlines()) == lines


def test_a_file_that_shrank_is_said(plain: Path) -> None:
    finder = finder_in(plain / "plain-0")
    finder._partition.segment(1)
    os.truncate(plain / MIDDLE, 100)
    (finding,), location = ask(finder, offset_query("200"))
    assert isinstance(finding, Finding)
    assert finding.code is Code.V01
    assert MIDDLE in (location.error or "")
    assert ask(finder, offset_query("3"))[1].offset == 3


# --- stdin -------------------------------------------------------------------------------------------------------
def test_a_closed_stdin_is_one_line() -> None:
    script = 'exec "$@" <&-'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *COMMAND, "find-offset", "plain-0", "-"],
        cwd=NODE,
        env=ENVIRONMENT,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (5, b"")
    assert done.stderr == b"kdump: standard input is closed: no questions can be read\n"


def test_a_stdin_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as only_for_writing:
        done = subprocess.run(
            [*COMMAND, "find-offset", str(NODE / "plain-0"), "-"],
            env=ENVIRONMENT,
            stdin=only_for_writing,
            capture_output=True,
            check=False,
        )
    assert done.returncode == 5
    assert done.stderr == b"kdump: standard input cannot be read: Bad file descriptor\n"


def test_a_stdin_that_does_not_block_is_waited_for() -> None:
    questions, writer = os.pipe()
    fcntl.fcntl(questions, fcntl.F_SETFL, fcntl.fcntl(questions, fcntl.F_GETFL) | os.O_NONBLOCK)
    with subprocess.Popen(
        [*COMMAND, "find-offset", "plain-0", "-"],
        cwd=NODE,
        env=ENVIRONMENT,
        stdin=questions,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        for question in (b"45\n", b"60\n"):  # nothing is there when it first looks, and none after the first answer
            os.write(writer, question)
            assert child.stdout.readline().startswith(b"query: " + question.strip())
        os.close(writer)
        assert child.wait(SECONDS) == 0
        assert child.stderr.read() == b""
    os.close(questions)


def test_many_findings_of_a_kind_are_counted(build: Callable[[str], Path]) -> None:
    tree = build("t-empty-mid")
    os.utime(tree / MIDDLE, (1, 1))
    questions = b"".join(b"%d\n" % (1_700_000_060_000 + 100 * n) for n in range(130))
    status, stdout, stderr = kdump_run("find-time", "plain-0", "-", cwd=tree, stdin=questions)
    assert (status, len(stdout)) == (0, 130)
    assert len([line for line in stderr if line.startswith("warning L13 other-answer plain-0/")]) == 5
    assert "count=126" in stderr[-1]


# --- around an answer --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("count", [0, 1, 2, 25, 2**63 - 1, 10**30])
def test_context_takes_any_number(count: int) -> None:
    """As many batches as there are, whether the number is small, or larger than anything."""
    lines = run_kdump(["dump", LOG], NODE).stdout.splitlines()
    batches = [line for line in lines if line.startswith(b"baseOffset")]
    for at in (0, 3, len(batches) - 1):
        base = batches[at].split()[1].decode()
        run = run_kdump(["find-offset", "plain-0", base, "--context", str(count)], NODE)
        assert run.exit == 0
        shown = [line for line in run.stdout.splitlines() if line.startswith(b"baseOffset")]
        assert shown == batches[max(0, at - count) : at + count + 1]


# --- what lies around --------------------------------------------------------------------------------------------
def test_a_swap_is_said(build: Callable[[str], Path]) -> None:
    answer = Answer(["find-offset", "plain-0", "180"], build("f08-swap-log-only"))
    assert (answer.exit, answer.location["offset"]) == (0, 180)
    assert answer.findings["F08"]["file"] == "plain-0/00000000000000000000.log.swap"
    assert answer.findings["F08"]["severity"] == "warning"


def test_a_cleaned_file_is_a_note(build: Callable[[str], Path]) -> None:
    answer = Answer(["find-offset", "plain-0", "180"], build("f08-cleaned-leftover"))
    assert (answer.exit, answer.findings["F08"]["severity"]) == (0, "note")


@pytest.mark.parametrize("ask_for", ["plain-0", "plain-0/", "./plain-0", "../logdir/plain-0"])
def test_a_link_to_a_partition_lies_where_the_user_says(ask_for: str, tmp_path: Path, plain: Path) -> None:
    """Its log directory is the one that it is named in, for the marker and for the checkpoints."""
    (tmp_path / "disk").mkdir()
    (plain / "plain-0").rename(tmp_path / "disk" / "plain-0")
    (plain / "plain-0").symlink_to(tmp_path / "disk" / "plain-0")
    (plain / "log-start-offset-checkpoint").write_text("0\n1\nplain 0 7\n")
    (tmp_path / "disk" / "log-start-offset-checkpoint").write_text("0\n1\nplain 0 9\n")
    partition = open_partition(os.path.join(plain, ask_for), ignore)
    assert partition.start_offset == 7
    assert not partition.segment(2).is_open
    (plain / ".kafka_cleanshutdown").rename(tmp_path / "disk" / ".kafka_cleanshutdown")
    assert open_partition(os.path.join(plain, ask_for), ignore).segment(2).is_open


def test_a_directory_may_be_the_one_that_one_is_in(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (plain / "log-start-offset-checkpoint").write_text("0\n1\nplain 0 7\n")
    monkeypatch.chdir(plain / "plain-0")
    for path in (".", "./", "../plain-0/."):
        partition = open_partition(path, ignore)
        assert (partition.start_offset, partition.segment(2).is_open) == (7, False)


# --- what the user wrote -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2023-11-14T22:13:20.1190Z", 119), ("2023-11-14T22:13:20.1191Z", 120), ("2023-11-14T22:13:20.119000001Z", 120),
        ("2023-11-14T22:13:20.119000000Z", 119), ("2023-11-14T22:13:20,9999Z", 1000),
    ],
)  # fmt: skip
def test_a_part_of_a_ms_is_rounded_up(text: str, number: int) -> None:
    assert time_query(text).number == 1_700_000_000_000 + number


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("20240101", "20240101 is read as ms since the epoch: 1970-01-01T05:37:20.101Z; a date? write 2024-01-01"),
        ("20240101120000", "20240101120000 is read as ms since the epoch: 2611-05-21T10:18:40.000Z"),
        (
            "1700000000",
            "1700000000 is read as ms since the epoch: 1970-01-20T16:13:20.000Z; seconds? write 1700000000000",
        ),
        ("-1", "-1 is read as ms since the epoch: 1969-12-31T23:59:59.999Z"),
        (str(2**63 - 1), f"{2**63 - 1} is read as ms since the epoch"),
        ("0", ""), ("9999", ""), ("1700000000119", ""),
    ],
)  # fmt: skip
def test_a_number_that_may_mean_something_else_is_said(text: str, said: str) -> None:
    assert time_query(text).assumed == said


def test_how_a_number_is_read_goes_to_stderr() -> None:
    answer = Answer(["find-time", "plain-0", "20240101"], NODE)
    assert answer.stderr == [
        "kdump: 20240101 is read as ms since the epoch: 1970-01-01T05:37:20.101Z; a date? write 2024-01-01"
    ]


@pytest.mark.parametrize("text", ["now-" + 5000 * "9" + "d", "now+" + 5000 * "0" + "1s", 5000 * "9"])
def test_a_long_number_has_a_short_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"^'.{60}\.\.\.' is (too far away|not a valid time)") as refused:
        time_query(text)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("args", [["find-offset", "plain-0"], ["find-time", "plain-0"]])
def test_a_usage_error_drives_no_terminal(args: list[str]) -> None:
    status, _, stderr = on_terminal(*args, "1\x1b[31m\u202e\r", cwd=NODE)
    assert status == 2
    assert "1\\x1b[31m\\u{202e}" in stderr
    assert not {char for char in stderr if ord(char) < 32} - {"\n"}


def on_terminal(*args: str, cwd: Path, stdin: bytes = b"") -> tuple[int, str, str]:
    """Run kdump with stdout and stderr on terminals: exit status, and what each of them got."""
    ends = [pty.openpty() for _ in range(2)]
    with subprocess.Popen(
        [*COMMAND, *args], cwd=cwd, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=ends[0][1], stderr=ends[1][1]
    ) as child:
        assert child.stdin is not None
        child.stdin.write(stdin)
        child.stdin.close()
        texts = [_all_of(*end) for end in ends]
        return child.wait(SECONDS), texts[0], texts[1]


def _all_of(master: int, slave: int) -> str:
    os.close(slave)
    shown = b""
    with contextlib.suppress(OSError):  # Linux says that the other side is gone
        while piece := os.read(master, 65536):
            shown += piece
    os.close(master)
    return shown.decode().replace("\r\n", "\n")


def test_only_a_person_gets_thousands_separators() -> None:
    args, sentence = ["find-offset", "plain-0"], "offset {} is past the end: the log ends at 148"
    plain, grouped = sentence.format("999999"), sentence.format("999,999")
    assert on_terminal(*args, "999999", cwd=NODE) == (10, "", f"kdump: {grouped}\n")
    status, stdout, _ = on_terminal(*args, "-", cwd=NODE, stdin=b"999999\n")
    assert (status, stdout) == (10, f"query: 999999 nothing: {grouped}\n")
    assert kdump_run(*args, "999999", cwd=NODE) == (10, [], [f"kdump: {plain}"])
    assert kdump_run(*args, "-", cwd=NODE, stdin=b"999999\n")[1] == [f"query: 999999 nothing: {plain}"]
    _, stdout, _ = on_terminal(*args, "999999", "--format", "json", cwd=NODE)
    assert json.loads(stdout)["error"] == plain


def test_a_name_that_is_no_utf8_is_an_object_in_json(plain: Path) -> None:
    folder = plain / os.fsdecode(b"t\xff-0")
    (plain / "plain-0").rename(folder)
    (folder / f"{240:020}.log.swap").write_bytes(b"")
    _, stdout, _ = kdump_run("find-offset", folder.name, "45", "--context", "1", "--format", "json", cwd=plain)
    objects = [json.loads(line) for line in stdout]
    assert {one["type"] for one in objects} == {"finding", "location", "batch"}
    assert all(set(one["file"]) == {"base64"} for one in objects)


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("wide-9", "; here is wide-0"),
        ("nothing-0", "; here are bigbatch-0, compact-0, compacttxn-0 and 34 more"),
        ("plian-0", "; did you mean plain-0?"),
    ],
)
def test_a_partition_that_is_not_there_names_those_that_are(name: str, there: str) -> None:
    status, _, stderr = kdump_run("find-offset", str(NODE), "5", "--topic-partition", name, cwd=NODE)
    assert (status, len(stderr)) == (10, 1)
    assert stderr[0].startswith(f"kdump: no partition of {name} is in {NODE}{there}")


# --- a magic 2 batch as brokers write it -------------------------------------------------------------------------
def batch(offset: int, delta: int = 0, *, attributes: int = 0, epoch: int = 0) -> bytes:
    record = b"\x0e\0\0\0\x01\x02v\0"
    rest = struct.pack(">hiqqqhii", attributes, delta, 0, 0, -1, -1, -1, 1) + record
    return struct.pack(">qiibI", offset, 9 + len(rest), epoch, 2, crc32c(rest)) + rest


def test_header_marks_are_told_once_and_only_when_met(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(batch(0) + batch(1, attributes=0x100) + batch(2) + batch(3, epoch=5) + batch(4, epoch=2))
    for base in (0, 5):
        (tmp_path / f"{base:020}.log").write_bytes(path.read_bytes() if base == 0 else batch(5, epoch=5))
        (tmp_path / f"{base:020}.index").write_bytes(b"")
    finder = finder_in(tmp_path)
    codes = [
        [one.code for one in ask(finder, offset_query(str(offset)))[0] if isinstance(one, Finding)]
        for offset in (0, 1, 2, 3, 4, 1, 4)
    ]
    assert codes == [[], [Code.B06], [], [], [Code.E01, Code.E01], [], []]  # which of the two is wrong nobody knows


TIMES = f"plain-0/{119:020}.timeindex"


@pytest.mark.parametrize(
    ("position", "data", "time", "right"),
    [
        (8, b"\0\0\0\xff", 1700000062000, 134),  # offset 374, beyond the segment
        (20, b"\0\0\0\x77", 1700000068000, 147),  # offset 238, which is there
        (12, b"\x80", 1700000066000, 139),  # a negative time
    ],
)
@pytest.mark.parametrize("scan", [False, True])
def test_a_time_entry_that_leads_past_the_answer_is_an_error(
    position: int, data: bytes, time: int, right: int, scan: bool, tmp_path: Path
) -> None:
    log_dir = copy_tree(INTACT / "none" / "logdir", tmp_path / "logs")
    index = bytearray((log_dir / TIMES).read_bytes())
    index[position : position + len(data)] = data
    (log_dir / TIMES).write_bytes(index)
    answer = Answer(["find-time", "logs/plain-0", str(time), *(["--scan"] if scan else [])], tmp_path)
    assert answer.exit == 3
    assert answer.findings["T04"]["severity"] == "error"
    if "L13" in answer.codes:  # the negative one is passed over by some lookups without harm
        assert answer.findings["L13"]["severity"] == "error"
        assert answer.findings["L13"]["expected"] == right


def lacking(tmp_path: Path) -> Path:
    """A partition whose middle segment is gone, with all of its files."""
    log_dir = copy_tree(INTACT / "none" / "logdir", tmp_path / "logs")
    for path in (log_dir / "plain-0").glob(f"{119:020}.*"):
        path.unlink()
    return log_dir


@pytest.mark.parametrize(
    ("verb", "asked"), [("find-offset", "150"), ("find-time", "1700000062000"), ("find-time", "1700000109700")]
)
@pytest.mark.parametrize("scan", [[], ["--scan"]])
def test_a_hole_alone_right_before_an_answer_is_told(verb: str, asked: str, scan: list[str], tmp_path: Path) -> None:
    lacking(tmp_path)
    answer = Answer([verb, "logs/plain-0", asked, *scan], tmp_path)
    assert (answer.exit, answer.location["offset"]) == (0, 240)
    gap = answer.findings["L19"]
    assert (gap["severity"], gap["offset"], gap["lastOffset"]) == ("warning", 119, 239)
    shown = run_kdump([verb, "logs/plain-0", asked, *scan], tmp_path)
    assert b"offsets 119..239 are not here" in shown.stderr


def test_a_question_that_no_lost_offset_could_answer_is_told_nothing(tmp_path: Path) -> None:
    lacking(tmp_path)
    for verb, asked in (("find-offset", "118"), ("find-offset", "240"), ("find-time", "1700000000725")):
        assert run_kdump([verb, "logs/plain-0", asked], tmp_path).stderr == b""


def test_holes_that_compaction_explains_are_no_news() -> None:
    partition = next(path for path in (INTACT / "compacted" / "logdir").iterdir() if path.is_dir())
    finder = finder_in(partition)
    ends = [ask(finder, offset_query(asked))[1].offset for asked in ("earliest", "latest")]
    jumps = 0
    for offset in range(ends[0] or 0, ends[1] or 0):
        met, location = ask(finder, offset_query(str(offset)))
        assert met == []
        jumps += location.base_offset is not None and location.base_offset > offset
    assert jumps


def test_a_hole_that_cannot_be_judged_keeps_no_answer_back(tmp_path: Path) -> None:
    log_dir = lacking(tmp_path)
    (log_dir / LOG).unlink()
    (log_dir / LOG).symlink_to("nowhere")
    answer = Answer(["find-offset", "logs/plain-0", "245"], tmp_path)
    assert answer.location["offset"] == 245


def test_a_lost_offset_is_told_where_a_broker_takes_the_log_to_end_before_it(
    tmp_path: Path,
) -> None:
    """The indexes still have the entries of the batches that were cut out: a broker reads on from a wrong place."""
    parts = [batch(n) for n in range(20)]
    files = segment(0, parts, interval=1)
    files[name(0)] = b"".join([*parts[:10], *parts[13:]])
    write(tmp_path / "t-0", files)
    run = run_kdump(["find-offset", "t-0", "11"], tmp_path)
    assert b"O04 offset-gap" in run.stderr
    assert b"offsets 10..12 are missing before this batch, and lost" in run.stderr
    assert run.exit == 3
