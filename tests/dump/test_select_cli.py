"""The door of `kdump dump` for what is selected, and for how keys, values and times are written."""

from __future__ import annotations

import base64
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from kdump.decode import formats
from kdump.format.batch import layout
from kdump.format.index.transaction_index import TransactionIndex
from kdump.storage.file_source import FileSource
from kdump.words.times import time_text
from tests.cli.test_cli import COMMAND, ENVIRONMENT, ESCAPES, SECONDS, on_terminal, unsafe
from tests.support import segments
from tests.support.runs import FIXTURES, run_kdump
from tests.support.selection import everything

if TYPE_CHECKING:
    from pathlib import Path

NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
PLAIN = NODE / "plain-0"
ZERO = "00000000000000000000.log"


def lines(args: list[str], cwd: Path = NODE) -> list[str]:
    """The lines of a dump that finds nothing wrong; one that shows nothing says so."""
    run = run_kdump(["dump", *args], cwd)
    assert run.exit == (0 if run.stdout else 10)
    assert run.stderr.startswith(b"kdump: nothing found") if not run.stdout else run.stderr == b""
    return run.stdout.decode("utf-8", "surrogateescape").split("\n")[:-1]


# --- what is shown -----------------------------------------------------------------------------------------
def test_a_range_is_half_open_and_has_the_lines_of_the_whole_dump() -> None:
    full = lines(["--print-data-log", f"plain-0/{ZERO}"])
    some = lines(["--print-data-log", "--from-offset", "20", "--to-offset", "40", f"plain-0/{ZERO}"])
    assert set(some) <= set(full)
    assert [int(line.split(" ")[2]) for line in some if line.startswith("| ")] == list(range(20, 40))


def test_a_range_to_zero_is_empty_and_one_from_zero_has_everything() -> None:
    whole = lines(["--print-data-log", f"plain-0/{ZERO}"])
    for option in ("--from-offset", "--from-time", "--from-position"):
        assert lines([option, "0", "--print-data-log", f"plain-0/{ZERO}"]) == whole
        assert not [line for line in lines([option, "0", "plain-0"]) if line.endswith("index")], "logs only"
    for option in ("--to-offset", "--to-time"):
        for more in ([], ["--limit", "1"], ["--tail", "1"], ["--key", "hk"], ["--print-data-log"]):
            assert lines([option, "0", *more, "plain-0"]) == []


def test_without_records_a_range_is_of_batches_that_meet_it() -> None:
    some = lines(["--from-offset", "58", "--to-offset", "63", "plain-0"])
    assert [line.split(" ")[:4] for line in some[2:]] == [["baseOffset:", "56", "lastOffset:", "62"]]


@pytest.mark.parametrize(
    "option", [["--limit", "2"], ["--tail", "2"], ["--key", "hk"], ["--key-regex", "^h"], ["--header", "a"]]
)
def test_what_chooses_records_shows_records(option: list[str]) -> None:
    shown = lines([*option, "plain-0"])
    assert any(line.startswith("| ") for line in shown)
    assert not any(" payload: " in line for line in shown)
    assert any(" payload: " in line for line in lines([*option, "--print-data-log", "plain-0"]))


def test_files_without_anything_to_show_are_not_named() -> None:
    assert lines(["--key", "no such key", "plain-0"]) == []
    assert [line for line in lines(["--tail", "1", "plain-0"]) if line.startswith("Dumping")] == [
        "Dumping plain-0/00000000000000000123.log"
    ]


def test_files_without_batches_that_are_named_are_said_to_be_left_out() -> None:
    names = [f"plain-0/{ZERO}", "plain-0/00000000000000000000.index", "plain-0/leader-epoch-checkpoint"]
    run = run_kdump(["dump", "--limit", "500", *names], NODE)
    assert run.exit == 0
    assert run.stderr.decode().splitlines() == [
        f"kdump: {names[1]}: 2 files without batches are not shown: only logs have what can be selected"
    ]


@pytest.mark.parametrize("name", ["no-such-file", "00000000000000000000.index", ZERO])
def test_a_file_that_is_not_there_is_missing(name: str, tmp_path: Path) -> None:
    run = run_kdump(["dump", "--limit", "1", name], tmp_path)
    assert (run.exit, run.stdout, run.stderr.decode()) == (10, b"", f"kdump: no such file: {name}\n")


def test_times_are_read_as_find_time_reads_them() -> None:
    by_ms = lines(["--from-time", "1700000000100", "--to-time", "1700000000105", "--deep-iteration", "plain-0"])
    run = run_kdump(
        [
            "dump",
            "--from-time",
            "2023-11-14T22:13:20.100Z",
            "--to-time",
            "2023-11-14T22:13:20.105",
            "--deep-iteration",
            "plain-0",
        ],
        NODE,
    )
    assert run.stdout.decode().splitlines() == by_ms
    assert run.stderr == (
        b"kdump: --to-time: 2023-11-14T22:13:20.105 is 2023-11-14T22:13:20.105Z (UTC, no zone is given)\n"
    )
    assert [line.split(" ")[4] for line in by_ms if line.startswith("| ")] == [str(1700000000100 + i) for i in range(5)]


def test_a_header_is_chosen_by_name_and_by_value(tmp_path: Path) -> None:
    headers = [((b"a", b"1"),), ((b"a", None),), ((b"a", b""), (b"b", b"x=y")), ((b"", b"1"),)]
    records = [segments.Record(b"%d" % i, b"k", some) for i, some in enumerate(headers)]
    (tmp_path / ZERO).write_bytes(segments.batch(0, records))

    def offsets(*wanted: str) -> list[int]:
        args = [part for one in wanted for part in ("--header", one)]
        return [int(line.split(" ")[2]) for line in lines([*args, ZERO], tmp_path) if line.startswith("| ")]

    assert offsets("a") == [0, 1, 2]
    assert offsets("a=1") == [0]
    assert offsets("a=") == [2]
    assert offsets("b=x=y") == [2]
    assert offsets("") == [3]
    assert offsets("=1") == [3]
    assert offsets("a=1", "b") == [0, 2]
    assert offsets("c") == []


def test_keys_are_bytes(tmp_path: Path) -> None:
    keys = [b"", None, b"\xff\x00", "é".encode(), (7).to_bytes(4, "big"), b"-limit", b"true"]
    (tmp_path / ZERO).write_bytes(segments.batch(0, [segments.Record(b"v", key) for key in keys]))

    def offsets(*args: str) -> list[int]:
        return [int(line.split(" ")[2]) for line in lines([*args, ZERO], tmp_path) if line.startswith("| ")]

    assert offsets("--key", "") == [0]
    assert offsets("--key", "é") == [3]
    assert offsets("--key", "ff00", "--key-format", "hex") == [2]
    assert offsets("--key", "/wA=", "--key-format", "base64") == [2]
    assert offsets("--key", "7", "--key-format", "int") == [4]
    assert offsets("--key", "-limit", "--key", "true") == [5, 6]
    assert offsets("--key-regex", "^.$") == [3]
    assert offsets("--key-regex", "^\udcff") == [2]
    assert offsets("--key-regex", "^$") == [0]


def test_the_records_of_open_transactions_are_neither_committed_nor_aborted() -> None:
    txn = FIXTURES / "releases" / "3.9.2" / "logs"
    run = run_kdump(["dump", "--committed", "--notes", "txn-0"], txn)
    assert run.exit == 0
    stands, note = run.stderr.decode().splitlines()
    assert stands.startswith("kdump: txn-0: a read_committed consumer stands at offset 75: ")
    assert note.startswith("note P04 open-transaction txn-0/00000000000000000061.log offset=75: ")


@pytest.mark.parametrize("release", ["0.11.0.3", "2.8.2", "3.3.2", "3.9.2"])
def test_what_is_aborted_is_what_the_transaction_indexes_have(release: str) -> None:
    folder = FIXTURES / "releases" / release / "logs" / "txn-0"
    ranges = [
        entry
        for path in folder.glob("*.txnindex")
        for entry in TransactionIndex(FileSource(str(path)), int(path.name[:20]))
    ]
    assert ranges
    full = everything([folder])
    wanted = [
        batch.cell(layout.BASE_OFFSET)
        for batch in full.batches
        if batch.cell(layout.ATTRIBUTES) & 0x30 == layout.TRANSACTIONAL_FLAG
        for entry in ranges
        if entry.producer_id == batch.cell(layout.PRODUCER_ID)
        if entry.first_offset <= batch.cell(layout.BASE_OFFSET) <= entry.last_offset
    ]
    shown = run_kdump(["dump", "--aborted", str(folder)], folder).stdout.decode().splitlines()
    assert [int(line.split(" ")[1]) for line in shown if line.startswith("baseOffset: ")] == wanted


def test_where_the_marker_is_lost_the_transaction_index_says_what_was_aborted(tmp_path: Path) -> None:
    source = FIXTURES / "releases" / "3.9.2" / "logs" / "txn-0"
    name = "00000000000000000034"
    for suffix in ("log", "txnindex"):
        data = (source / f"{name}.{suffix}").read_bytes()
        (tmp_path / f"{name}.{suffix}").write_bytes(data)
    log = (tmp_path / f"{name}.log").read_bytes()
    full = lines(["--aborted", f"{name}.log"], tmp_path)
    assert any(line.startswith("baseOffset: 46 ") for line in full)
    at = log.index((55).to_bytes(8, "big"))  # the marker of the transaction that begins at 46
    (tmp_path / f"{name}.log").write_bytes(log[:at])
    cut = run_kdump(["dump", "--aborted", f"{name}.log"], tmp_path).stdout.decode().splitlines()
    assert [line for line in full if line.startswith("baseOffset: 46 ")] == [
        line for line in cut if line.startswith("baseOffset: 46 ")
    ]
    (tmp_path / f"{name}.txnindex").unlink()
    run = run_kdump(["dump", "--aborted", "--notes", f"{name}.log"], tmp_path)
    assert not any(line.startswith("baseOffset: 46 ") for line in run.stdout.decode().splitlines())
    assert b"P04 open-transaction" in run.stderr


# --- wrong use ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--limit", "1", "--tail", "1"], "--limit and --tail exclude each other."),
        (["--committed", "--aborted"], "--committed and --aborted exclude each other."),
        (["--from-offset", "9", "--to-offset", "8"], "--from-offset 9 is after --to-offset 8."),
        (["--from-time", "2024-01-01T00:00Z", "--to-time", "2023-01-01T00:00Z"], "--from-time 1704067200000 is after --to-time 1672531200000."),
        (["--from-time", "soon"], "--from-time: 'soon' is not a valid time: ms since the epoch, 2026-11-21, 2026-11-21T14:03:00Z, 10:00, yesterday or now-2h"),
        (["--to-time", "max"], "--to-time: 'max' is not a valid time: ms since the epoch, 2026-11-21, 2026-11-21T14:03:00Z, 10:00, yesterday or now-2h"),
        (["--key-regex", "(a"], "--key-regex: '(a' is not a valid regular expression: missing ), unterminated subpattern at position 0"),
        (["--key", "0x0", "--key-format", "hex"], "--key: '0x0' is not hexadecimal: two digits a byte"),
        (["--key", "1_0", "--key-format", "long"], "--key: '1_0' is not an integer of 8 bytes"),
        (["--key", "2147483648", "--key-format", "int"], "--key: '2147483648' is not an integer of 4 bytes"),
        (["--key", "a", "--key-format", "base64"], "--key: 'a' is not Base64"),
        (["--decoder-command", "no-such-program x"], "--decoder-command: no program 'no-such-program' can be run."),
        (["--decoder-command", "'"], "--decoder-command: no closing quotation."),
        (["--decoder-command", " "], "--decoder-command: no command."),
        (["--value-format", "hex", "--decoder-command", "cat"], "--value-format and --decoder-command exclude each other."),
        (["--key-format", "hex", "--offsets-decoder"], "--key-format and --offsets-decoder exclude each other."),
    ],
)  # fmt: skip
def test_a_wrong_use_is_one_line(args: list[str], message: str, tmp_path: Path) -> None:
    run = run_kdump(["dump", *args, "no-such-file"], tmp_path)
    assert run.exit == 2
    assert run.stderr.decode() == (
        f"Usage: kdump dump [OPTIONS] FILE|DIR...\nTry 'kdump dump -h' for help.\n\nError: {message}\n"
    )


OWN = [
    ["--from-offset", "1"], ["--to-offset", "1"], ["--from-time", "1"], ["--to-time", "1"], ["--from-position", "1"],
    ["--limit", "1"], ["--tail", "1"], ["--key", "1"], ["--key-regex", "1"], ["--header", "1"], ["--producer-id", "1"],
    ["--leader-epoch", "1"], ["--control"], ["--transactional"], ["--tombstones"], ["--committed"], ["--aborted"],
    ["--key-format", "hex"], ["--value-format", "hex"], ["--timestamps", "iso"], ["--decoder-command", "cat"],
]  # fmt: skip


@pytest.mark.parametrize("option", OWN, ids=lambda option: option[0])
def test_kafkas_tool_has_none_of_these_options(option: list[str], tmp_path: Path) -> None:
    run = run_kdump(["dump", "--compat", "4.3", *option, "--files", "x.log"], tmp_path)
    assert run.exit == 2
    assert f"Error: {option[0]} works without --compat only" in run.stderr.decode()


# --- forms -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("form", "data", "text", "value"),
    [
        ("utf8", b"a\xff", "a\ufffd", {"base64": "Yf8="}),
        ("utf8", "é".encode(), "é", "é"),
        ("hex", b"\x00\xff", "00ff", "00ff"),
        ("base64", b"\x00\xff", "AP8=", "AP8="),
        ("int", b"\xff\xff\xff\xfe", "-2", -2),
        ("int", b"\x01", "0x01", {"base64": "AQ=="}),
        ("long", (2**63 - 1).to_bytes(8, "big"), str(2**63 - 1), 2**63 - 1),
        ("long", b"", "0x", {"base64": ""}),
        ("json", b' { "a" : [ 1.0, 1e400 , "x y\\" z" ],\n"a":12345678901234567890123 }', '{"a":[1.0,1e400,"x y\\" z"],"a":12345678901234567890123}', None),
        ("json", b"plain", "plain", {"base64": "cGxhaW4="}),
        ("json", b"NaN", "NaN", {"base64": "TmFO"}),
        ("json", b"[" * 100_000, "[" * 100_000, {"base64": base64.b64encode(b"[" * 100_000).decode()}),
    ],
)  # fmt: skip
def test_a_form_shows_bytes_and_never_takes_one_thing_for_another(
    form: str, data: bytes, text: str, value: object
) -> None:
    one = formats.Form(form)
    assert one.text(data).decode() == text
    if value is not None:
        assert one.object(data) == value
    if form in ("hex", "base64") or (form in ("int", "long") and not text.startswith("0x")):
        assert formats.parse(form, text) == data


def test_times_as_iso_are_those_of_the_calendar(tmp_path: Path) -> None:
    rng = random.Random(10)
    days = [
        datetime(year, month, day, tzinfo=UTC)
        for year in (1970, 1999, 2000, 2024, 2100, 9999)
        for month, day in ((1, 1), (2, 28), (3, 1), (12, 31))
    ]
    times = [round(day.timestamp() * 1000) for day in days] + [rng.randrange(253402300800000) for _ in range(300)]
    times += [0, 253402300799999]
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    odd = [-1, -5, 253402300800000, 2**62]
    (tmp_path / ZERO).write_bytes(
        segments.log(segments.batch(i, [b"v"], base_timestamp=moment) for i, moment in enumerate(times + odd))
    )
    shown = [
        line for line in lines(["--timestamps", "iso", "--deep-iteration", ZERO], tmp_path) if line.startswith("| ")
    ]
    for line, moment in zip(shown, times + odd, strict=True):
        iso = (
            (epoch + timedelta(milliseconds=moment)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            if moment in times
            else str(moment)
        )
        assert line.split(" ")[4] == iso == time_text(moment, as_iso=True)


def test_all_times_of_a_file_are_iso() -> None:
    for name in ("plain-0/00000000000000000000.timeindex", "plain-0", "idem-0"):
        args = ["--timestamps", "iso", "--deep-iteration", name]
        for line in lines(args):
            words = line.split(" ")
            named = [b for a, b in pairwise(words) if a in ("CreateTime:", "timestamp:", "lastTimestamp:")]
            assert all(word.endswith("Z") or word == "-1" for word in named), line


# --- a decoder command -------------------------------------------------------------------------------------
DECODER = """
import base64, json, os, sys, time
asked = 0
for line in sys.stdin.buffer:
    asked += 1
    data = base64.b64decode(line.rstrip(b"\\n"), validate=True)
    if asked == int(os.environ.get("AT", "0")):
        eval(os.environ["DO"])
    sys.stdout.write(json.dumps({"size": len(data), "asked": asked, "data": base64.b64encode(data[:8]).decode()}) + "\\n")
    sys.stdout.flush()
"""


@pytest.fixture
def decoder(tmp_path: Path) -> str:
    (tmp_path / "decode it.py").write_text(DECODER)
    return shlex.join([sys.executable, str(tmp_path / "decode it.py")])


def payloads(run_stdout: bytes) -> list[str]:
    text = run_stdout.decode("utf-8", "surrogateescape")
    return [
        line.partition(" payload: ")[2] for line in text.split("\n") if line.startswith("| ") and " payload: " in line
    ]


def test_each_payload_is_asked_about_once(decoder: str, tmp_path: Path) -> None:
    values: list[bytes | None] = [b"a", None, b"", b"x" * 300_000, b"\xff\n\x00", *(b"%d" % i for i in range(3000))]
    (tmp_path / ZERO).write_bytes(segments.batch(0, values))
    run = run_kdump(["dump", "--decoder-command", decoder, ZERO], tmp_path)
    assert (run.exit, run.stderr) == (0, b"")
    answers = [json.loads(payload) for payload in payloads(run.stdout)]
    there = [value for value in values if value is not None]
    assert answers == [
        {"size": len(value), "asked": number, "data": base64.b64encode(value[:8]).decode()}
        for number, value in enumerate(there, 1)
    ]


@pytest.mark.parametrize(
    ("what", "why", "goes_on"),
    [
        ("os._exit(7)", "it ended with status 7", False),
        ("os.kill(os.getpid(), 9)", "it was ended by signal 9", False),
        ("(os.close(1), time.sleep(100))", "it closed its output", False),
        ("print('no json')", "its answer is not JSON: no json", True),
        ("print('\\x1b[2J')", "its answer is not JSON: \\x1b[2J", True),
        ("print('NaN')", "its answer is not JSON: NaN", True),
        ("print()", "its answer is empty", True),
        ("print('{}\\n{}')", "it does not answer one line with one line", False),
    ],
)  # fmt: skip
def test_a_decoder_that_fails_is_a_finding_and_the_dump_goes_on(
    what: str, why: str, goes_on: bool, decoder: str, tmp_path: Path
) -> None:
    (tmp_path / ZERO).write_bytes(segments.batch(0, [b"zero", b"one", b"two", b"three"]))
    script = (tmp_path / "decode it.py").read_text()
    if goes_on:  # the answer is this, and nothing else
        script = script.replace(
            '        eval(os.environ["DO"])\n',
            '        eval(os.environ["DO"])\n        sys.stdout.flush()\n        continue\n',
        )
        (tmp_path / "decode it.py").write_text(script)
    done = subprocess.run(
        [*COMMAND, "dump", "--decoder-command", decoder, ZERO],
        cwd=tmp_path,
        env={**ENVIRONMENT, "AT": "3", "DO": what},
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 5
    shown = payloads(done.stdout)
    assert [one[:1] for one in shown[:2]] == ["{", "{"]
    assert shown[2] == "two"
    assert (shown[3] == "three") != goes_on
    stderr = done.stderr.decode()
    assert f"warning V04 decoder-command {ZERO} offset=2: " in stderr
    assert why in stderr


def test_a_decoder_that_is_silent_is_given_up_after_a_while() -> None:
    from kdump.decode.command import DecoderCommand

    said: list[tuple[str, int]] = []
    with DecoderCommand(
        ["sleep", "1000"], "utf8", lambda why, offset: said.append((why, offset)), patience=0.2
    ) as decode:
        assert decode(5, None, b"x").payload == b"x"
        assert decode(6, b"k", b"y").payload == b"y"
        process = decode._process
    assert process is None
    assert said == [("it did not answer within 0.2 seconds; from here on payloads are shown undecoded", 5)]
    assert not children()


def test_a_decoder_that_reads_nothing_cannot_block(tmp_path: Path) -> None:
    from kdump.decode.command import DecoderCommand

    said: list[str] = []
    with DecoderCommand(["sleep", "1000"], "utf8", lambda why, _: said.append(why), patience=0.2) as decode:
        assert decode(5, None, bytes(1_000_000)).payload is not None
    assert said[0].startswith("it did not answer within")
    assert not children()


def children() -> list[str]:
    """Programs of this process that are still there, or not waited for."""
    found = subprocess.run(
        ["ps", "-o", "stat=,args=", "--ppid", str(os.getpid())], capture_output=True, text=True, check=False
    )
    return [line for line in found.stdout.splitlines() if "sleep" in line or line.startswith("Z")]


@pytest.mark.parametrize("ends", [signal.SIGINT, signal.SIGPIPE])
def test_a_decoder_ends_with_the_dump(ends: signal.Signals, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = tmp_path / "stubborn.py"
    script.write_text(
        f"import os, signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\nwhile True:\n    time.sleep(0.05)\n    print('1', flush=True)\n"
    )
    (tmp_path / ZERO).write_bytes(segments.log(segments.batch(i * 40, [bytes(50_000)] * 40) for i in range(10)))
    command = f"{shlex.quote(sys.executable)} {shlex.quote(str(script))}"
    with subprocess.Popen(
        [*COMMAND, "dump", "--decoder-command", command, ZERO],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as child:
        assert child.stdout is not None
        for _ in range(500):
            if pid.exists() and pid.read_text():
                break
            time.sleep(0.02)
        if ends is signal.SIGPIPE:
            child.stdout.close()
        else:
            child.send_signal(ends)
        assert child.wait(SECONDS) == -ends
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_no_shell_looks_at_the_command(tmp_path: Path) -> None:
    (tmp_path / ZERO).write_bytes(segments.batch(0, [b"v"]))
    run = run_kdump(["dump", "--decoder-command", "cat; touch made $(touch made)", ZERO], tmp_path)
    assert run.exit == 2
    (tmp_path / "argv.py").write_text("import json, sys\ninput()\nprint(json.dumps(sys.argv[1:]))\n")
    command = f"{shlex.quote(sys.executable)} argv.py 'a  b' ; touch made > made \\$HOME $HOME * \"c'd\""
    run = run_kdump(["dump", "--decoder-command", command, ZERO], tmp_path)
    assert not (tmp_path / "made").exists()
    words = ["a  b", ";", "touch", "made", ">", "made", "$HOME", "$HOME", "*", "c'd"]
    assert [json.loads(payload) for payload in payloads(run.stdout)] == [words]


def test_an_answer_cannot_drive_the_terminal(tmp_path: Path) -> None:
    (tmp_path / ZERO).write_bytes(segments.batch(0, [b"v", b"w"]))
    (tmp_path / "answer").write_text(f'"{ESCAPES.replace(chr(13), "").translate(dict.fromkeys(range(32)))}"\n')
    (tmp_path / "say.py").write_text(
        "import sys\nfor _ in sys.stdin:\n    print(open('answer').read(), end='', flush=True)\n"
    )
    exit_code, text, _ = on_terminal("--decoder-command", f"{shlex.quote(sys.executable)} say.py", ZERO, cwd=tmp_path)
    assert exit_code == 0
    assert "payload: " in text
    assert not unsafe(text)
    exit_code, text, _ = on_terminal("--key-format", "json", "--value-format", "json", ZERO, cwd=tmp_path)
    assert not unsafe(text)
