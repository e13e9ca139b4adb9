"""The library: what is public, that it says what `dump`, `verify` and `find-*` say, and how it fails."""

from __future__ import annotations

import base64
import json
import os
import pickle
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kdump
from tests.support.runs import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Callable

INTACT = FIXTURES / "damage" / "intact" / "none" / "logdir"
PLAIN = INTACT / "plain-0"
NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
PUBLIC = {
    "Amount",
    "Rank",
    "Batch", "BatchColumns", "Certainty", "Code", "DecodedRecord", "Error", "Finding", "Location", "Log", "Loss",
    "Prediction",
    "Record", "RecordColumns",
    "Severity", "Step", "Verdict", "__version__", "find_offset", "find_time", "records", "verify",
}  # fmt: skip
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(kdump.__file__).parent.parent)}

# Every log with another content, of all releases and all damage; of the copies in the damage cases one each.
# The bombs of hostile/ are left out: as JSON, which this compares with, their records take gigabytes.
LOGS = list(
    {
        path.read_bytes(): path
        for path in sorted(FIXTURES.rglob("*.log"), reverse=True)
        if not path.relative_to(FIXTURES).parts[1].startswith(("05-", "06-")) and "other-format" not in str(path)
    }.values()
)
DECODED = "type", "control", "decodedKey", "decodedPayload"
GROUPS = [LOGS[start::8] for start in range(8)]


def python(code: str) -> str:
    """Run code in a new interpreter."""
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    return done.stdout


def dumped(*args: str) -> list[dict[str, Any]]:
    """Return the JSON lines of a dump, whatever it finds."""
    run = [sys.executable, "-P", "-m", "kdump", "dump", "--format", "json", "--print-data-log", "--decoder", "none"]
    done = subprocess.run([*run, *args], env=ENVIRONMENT, capture_output=True, check=False)
    assert done.returncode in (0, 3, 5, 6, 10), done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def content(value: bytes | None) -> Any:
    """Return a field of bytes as JSON has it."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def as_json(record: kdump.Record) -> dict[str, Any]:
    """Return a record as JSON has it, control and names of headers aside."""
    return {
        "file": record.file,
        "batchPosition": record.batch_position,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestampDelta": record.timestamp_delta,
        "timestampType": record.timestamp_type,
        "attributes": record.attributes,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "sequence": record.sequence,
        "headers": [content(value) for _, value in record.headers],
        "key": content(record.key),
        "payload": content(record.value),
    }


def without(line: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key not in keys}


def camel(name: str) -> str:
    return re.sub("_(.)", lambda letter: letter[1].upper(), name)


# --- what is public -----------------------------------------------------------------------------------------
def test_the_public_names_are_these() -> None:
    assert set(kdump.__all__) == PUBLIC
    assert all(getattr(kdump, name) is not None for name in PUBLIC)
    assert set(dir(kdump)) >= PUBLIC


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        kdump.nothing  # noqa: B018


def test_importing_kdump_loads_nothing_else() -> None:
    loaded = python("import sys; before = set(sys.modules); import kdump; print(*set(sys.modules) - before)")
    assert loaded.split() == ["kdump"]


def test_importing_the_errors_loads_no_reader() -> None:
    loaded = python("import sys, kdump; kdump.Error; print(*sys.modules)").split()
    assert {"kdump.api.log", "kdump.format.batch.walk", "click"} & set(loaded) == set()


# --- records ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_records_and_batches_are_those_of_json_for_every_log_of_the_fixtures(group: int) -> None:
    lines = dumped(*map(str, GROUPS[group]))
    records, batches, findings = [], [], []
    for path in GROUPS[group]:
        with kdump.Log(path) as log:
            records += list(log.records())
            findings += [(finding.code.name, finding.position) for finding in log.findings]
            batches += list(log.batches())
    expected = [
        without({**line, "headers": [header["value"] for header in line["headers"] or ()]}, *DECODED)
        for line in lines
        if line["type"] == "record"
    ]
    control = {(line["file"], line["position"]): line["isControl"] for line in lines if line["type"] == "batch"}
    assert [as_json(record) for record in records] == expected
    assert [record.is_control for record in records] == [
        bool(control[record.file, record.batch_position]) for record in records
    ]
    mine = [{camel(name): value for name, value in vars(batch).items()} for batch in batches]
    assert mine == [without(line, "type") for line in lines if line["type"] == "batch"]
    said = [(line["code"], line["position"]) for line in lines if line["type"] == "finding" and "more" not in line]
    assert [one for one in findings if one in said] == said


def test_names_of_headers_are_text_as_java_reads_them() -> None:
    lines = [line for line in dumped(str(NODE / "plain-0")) if line["type"] == "record"]
    names = [[header["key"] for header in line["headers"]] for line in lines]
    records = list(kdump.records(NODE / "plain-0"))
    assert any(record.headers for record in records)
    assert [[name for name, _ in record.headers] for record in records] == names


@pytest.mark.parametrize("topic", ["plain-0", "lz4-0", "zstd-0", "__consumer_offsets-0", "compact-0"])
def test_columns_have_the_records_and_batches_that_iterating_gives(topic: str) -> None:
    log = kdump.Log(NODE / topic)
    chunks = list(log.records().columns())  # each has its own memory: a later one does not overwrite it
    rows = [chunk[row] for chunk in chunks for row in range(len(chunk))]
    assert rows == list(log.records())
    assert [offset for chunk in chunks for offset in chunk.offset] == [record.offset for record in rows]
    for chunk in chunks:
        for at, size, row in zip(chunk.value_at, chunk.value_size, range(len(chunk)), strict=True):
            assert chunk[row].value == (None if size < 0 else chunk.data[at : at + size])
            assert chunk[row].batch_position == chunk.batches.position[chunk.batch[row]]
    batches = [offset for chunk in log.batches().columns() for offset in chunk.last_offset]
    assert batches == [batch.last_offset for batch in log.batches()]


def test_columns_are_buffers_that_numpy_takes_without_a_copy() -> None:
    numpy = pytest.importorskip("numpy")
    (chunk, *_) = kdump.records(PLAIN).columns()
    offsets = numpy.asarray(chunk.offset)
    assert offsets.dtype == numpy.int64
    assert numpy.shares_memory(offsets, numpy.asarray(chunk.flat))
    assert offsets.tolist() == list(range(119))


@pytest.mark.parametrize(
    ("keywords", "options"),
    [
        ({"from_offset": 57, "to_offset": 60}, ["--from-offset", "57", "--to-offset", "60"]),
        ({"key": "hk"}, ["--key", "hk"]),
        ({"key": [b"hk", b"now-1"]}, ["--key", "hk", "--key", "now-1"]),
        ({"key_regex": "^now-1"}, ["--key-regex", "^now-1"]),
        ({"header": "a"}, ["--header", "a"]),
        ({"header": [("a", b"1"), "b"]}, ["--header", "a=1", "--header", "b"]),
        ({"limit": 3}, ["--limit", "3"]),
        ({"tail": 3}, ["--tail", "3"]),
        ({"tombstones": True}, ["--tombstones"]),
        ({"from_time": datetime(2026, 11, 21, tzinfo=UTC)}, ["--from-time", "2026-11-21T00:00:00Z"]),
        ({"to_time": "2026-11-21T00:00:00Z"}, ["--to-time", "2026-11-21T00:00:00Z"]),
        ({"leader_epoch": 0}, ["--leader-epoch", "0"]),
        ({"producer_id": [1, 2]}, ["--producer-id", "1", "--producer-id", "2"]),
    ],
    ids=str,
)
def test_keywords_select_what_the_options_of_dump_select(keywords: dict[str, Any], options: list[str]) -> None:
    expected = [line["offset"] for line in dumped(*options, str(NODE / "plain-0")) if line["type"] == "record"]
    assert [record.offset for record in kdump.records(NODE / "plain-0", **keywords)] == expected


def test_fates_of_transactions_select() -> None:
    log = kdump.Log(FIXTURES / "releases" / "3.9.2" / "logs" / "txn-0")
    fates = [[record.offset for record in rows] for rows in (log.records(committed=True), log.records(aborted=True))]
    assert all(fates)
    assert set(fates[0]) & set(fates[1]) == set()


@pytest.mark.parametrize(
    ("keywords", "error"),
    [
        ({"limit": 0}, ValueError),
        ({"limit": "3"}, TypeError),
        ({"limit": 1, "tail": 1}, ValueError),
        ({"committed": True, "aborted": True}, ValueError),
        ({"from_offset": 2, "to_offset": 1}, ValueError),
        ({"from_time": "soon"}, ValueError),
        ({"from_time": 1.5}, TypeError),
        ({"key_regex": "("}, ValueError),
        ({"keys": "a"}, TypeError),
    ],
    ids=str,
)
def test_a_selection_that_makes_no_sense_is_refused_before_anything_is_read(
    keywords: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        kdump.records(PLAIN, **keywords)


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda: kdump.Log(PLAIN, kind="index"), ValueError),
        (lambda: kdump.Log(PLAIN, base_offset=-1), ValueError),
        (lambda: kdump.Log(PLAIN, max_batch_bytes=0), ValueError),
        (lambda: kdump.Log(PLAIN, max_uncompressed_bytes="1M"), TypeError),  # type: ignore[arg-type]
        (lambda: kdump.verify(PLAIN, jobs=-1), ValueError),
        (lambda: kdump.verify(PLAIN, max_batch_bytes=0), ValueError),
        (lambda: kdump.find_offset(PLAIN, 1.5), TypeError),  # type: ignore[arg-type]
    ],
)
def test_a_keyword_that_makes_no_sense_is_refused_before_anything_is_read(
    ask: Callable[[], object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        ask()


@pytest.mark.parametrize("find", [kdump.find_offset, kdump.find_time])
def test_an_error_of_the_library_names_no_option_of_a_command(find: Callable[..., object], tmp_path: Path) -> None:
    with pytest.raises(kdump.Error, match=r"this is a log\.dir: say which partitions of it$"):
        find(INTACT, 1)
    (tmp_path / "empty").mkdir()
    with pytest.raises(kdump.Error, match=r"name a partition directory$"):
        find(tmp_path / "empty", 1)


class Whole:
    """A whole number that is no int, as those of NumPy are."""

    def __index__(self) -> int:
        return 122


def test_a_whole_number_of_another_type_is_one() -> None:
    assert kdump.find_offset(PLAIN, Whole()) == kdump.find_offset(PLAIN, 122)  # type: ignore[arg-type]
    assert [one.offset for one in kdump.records(PLAIN, from_offset=Whole(), limit=1)] == [122]  # type: ignore[arg-type]


# --- values -------------------------------------------------------------------------------------------------
def test_a_record_never_changes_and_is_a_value() -> None:
    one, other = next(iter(kdump.records(PLAIN))), next(iter(kdump.records(PLAIN)))
    with pytest.raises(AttributeError):
        one.offset = 1  # type: ignore[misc]
    batch = next(iter(kdump.Log(PLAIN).batches()))
    with pytest.raises(AttributeError):
        batch.base_offset = 1  # type: ignore[misc]
    assert one == other
    assert len({one, other}) == 1
    assert pickle.loads(pickle.dumps(one)) == one
    assert repr(one).startswith("Record(offset=0, timestamp=1700000000725, key=b'k9', value=b'n=1 papa")


def test_a_record_outlives_its_log() -> None:
    with kdump.Log(PLAIN) as log:
        first, *_, last = log.records()
    assert (first.offset, last.offset) == (0, 296)


def test_closing_a_log_ends_its_readings() -> None:
    with kdump.Log(PLAIN) as log:
        records = iter(log.records())
        next(records)
    assert len(list(records)) < 297


# --- findings and errors ------------------------------------------------------------------------------------
def damaged(tmp_path: Path) -> Path:
    """Return a copy of a log with one wrong byte in its second batch."""
    data = bytearray((PLAIN / "00000000000000000000.log").read_bytes())
    data[150] ^= 1
    copy = tmp_path / "00000000000000000000.log"
    copy.write_bytes(data)
    return copy


def test_findings_are_those_of_the_latest_reading(tmp_path: Path) -> None:
    log = kdump.Log(damaged(tmp_path))
    assert [finding.code for finding in log.findings] == [kdump.Code.B01]  # nothing was read: all is read now
    assert len(list(log.records())) == 119
    assert [finding.severity for finding in log.findings] == [kdump.Severity.ERROR]


def test_a_missing_path_is_an_error_at_once() -> None:
    for ask in (
        kdump.Log,
        kdump.records,
        lambda path: kdump.find_offset(path, 1),
        lambda path: list(kdump.verify(path)),
    ):
        with pytest.raises(kdump.Error) as raised:
            ask("nowhere")
        assert raised.value.path == "nowhere"
        assert raised.value.hint


def test_a_file_that_is_not_a_log_is_an_error() -> None:
    with pytest.raises(kdump.Error, match="not a log"):
        list(kdump.records(PLAIN / "00000000000000000000.index"))


def test_what_cannot_be_read_is_raised_when_all_else_has_been_read(tmp_path: Path) -> None:
    partition = tmp_path / "t-0"
    partition.mkdir()
    os.mkfifo(partition / "00000000000000000000.log")
    (partition / "00000000000000000119.log").write_bytes((PLAIN / "00000000000000000119.log").read_bytes())
    records = iter(kdump.records(partition))
    assert [next(records).offset for _ in range(121)] == list(range(119, 240))
    with pytest.raises(kdump.Error) as raised:
        next(records)
    assert raised.value.path == str(partition / "00000000000000000000.log")


def test_a_name_that_tells_nothing_needs_keywords(tmp_path: Path) -> None:
    copy = tmp_path / "copy.bin"
    copy.write_bytes((PLAIN / "00000000000000000119.log").read_bytes())
    with pytest.raises(kdump.Error, match="does not tell") as raised:
        list(kdump.records(copy))
    assert "kind=" in raised.value.hint
    assert [record.offset for record in kdump.Log(copy, kind="log", base_offset=119).records(limit=1)] == [119]


# --- verify and find ----------------------------------------------------------------------------------------
def lines_of(*args: str) -> list[dict[str, Any]]:
    run = [sys.executable, "-P", "-m", "kdump", *args, "--format", "json"]
    done = subprocess.run(run, env=ENVIRONMENT, capture_output=True, check=False)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_verify_says_what_the_verb_says(tmp_path: Path) -> None:
    path = str(damaged(tmp_path))
    *lines, summary = lines_of("verify", path)
    verdict = kdump.verify(path)
    assert [(finding.code.name, finding.position, finding.message) for finding in verdict] == [
        (line["code"], line["position"], line["message"]) for line in lines if line["type"] == "finding"
    ]
    steps = [line for line in lines if line["type"] == "step"]
    assert [(one.rank.value, one.command, one.why, list(one.partitions)) for one in verdict.steps] == [
        (line["rank"], line["command"], line["why"], line["partitions"]) for line in steps
    ]
    assert [one.keeps.records for one in verdict.steps] == [line["keeps"]["records"] for line in steps]
    assert verdict.steps
    assert tuple(verdict) == verdict.findings
    assert verdict.summary.items() <= summary.items()
    assert verdict.predictions == ()


def test_verify_predicts_starts() -> None:
    verdict = kdump.verify([PLAIN], start="all", now=1_800_000_000_000)
    assert [(one.start, one.log_end_offset) for one in verdict.predictions] == [
        ("clean", 297), ("unclean", 297), ("full", 297),
    ]  # fmt: skip
    with pytest.raises(ValueError, match="sometimes"):
        kdump.verify(PLAIN, start="sometimes")


@pytest.mark.parametrize("offset", ["0", "60", "296", "297", "earliest", "latest"])
def test_find_offset_finds_what_the_verb_finds(offset: str) -> None:
    (line,) = lines_of("find-offset", str(PLAIN), offset)
    found = kdump.find_offset(PLAIN, offset)
    assert line["assumed"] == ["a broker of Kafka 4.4, the newest known; --broker names another"]
    assert (found is None) == (line["error"] is not None)
    assert found is None or {camel(name): value for name, value in vars(found).items()} == without(
        line, "type", "query", "error", "partition", "assumed"
    )
    assert kdump.find_offset(PLAIN, offset, scan=True) == found


@pytest.mark.parametrize("time", ["1700000026699", "max", "2023-11-14T22:14:00Z", "2030-01-01"])
def test_find_time_finds_what_the_verb_finds(time: str) -> None:
    (line,) = lines_of("find-time", str(PLAIN), time)
    found = kdump.find_time(PLAIN, int(time) if time.isdigit() else time)
    assert (found is None) == (line["error"] is not None)
    assert found is None or found.offset == line["offset"]


def test_a_question_that_is_none_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="not a valid offset"):
        kdump.find_offset(PLAIN, -1)
    with pytest.raises(ValueError, match="not a valid time"):
        kdump.find_time(PLAIN, "noon")
