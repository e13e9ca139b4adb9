"""find-offset and find-time: a broker's answers, the data's own, and what a lookup costs."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from crc32c import crc32c

from kdump.broker.lookup import Lookup
from kdump.broker.lookup_results import FoundBatch, FoundRecord, Refused
from kdump.find.finder import Finder, open_partition
from kdump.find.query import Ask, Query, offset_query, time_query
from kdump.finding import Finding, Severity
from kdump.format.batch import layout
from kdump.format.batch.walk import CheckedWalk
from kdump.format.index.offset_and_time import PAGE_BYTES
from kdump.format.kinds import FileKind
from kdump.format.read_limits import ReadLimits
from kdump.format.record.reader import RecordReader
from kdump.render.text.reset_file import reset_line
from tests.support.damage_cases import damage_cases
from tests.support.partitions import snapshot
from tests.support.runs import FIXTURES, run_kdump
from tests.support.scan_windows import COMPILED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kdump.storage.partition_dir import PartitionDir

NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
ANSWERS = json.loads((FIXTURES / "kafka-4.3.1" / "broker-answers.json").read_text("utf-8"))
STARTS = json.loads((FIXTURES / "damage" / "lookups.json").read_text("utf-8"))
CASES = {case.name: case for case in damage_cases(FIXTURES / "damage")}
LIMITS = ReadLimits(1 << 28, 1 << 28)
MOST = 150 if COMPILED else 25  # questions of a kind to a partition


def ignore(_finding: Finding) -> None:
    """Checkpoints are not what is tested here."""


def lookup_in(path: Path) -> tuple[PartitionDir, Lookup]:
    partition = open_partition(str(path), ignore)
    return partition, Lookup(partition, 1 << 28, 1 << 28, lambda _number, _window, _k: None)


def finder_in(path: Path, *, scan: bool = False) -> Finder:
    return Finder(open_partition(str(path), ignore), LIMITS, scan=scan, times=True)


def ask(finder: Finder, query: Query) -> tuple[list[Finding], Any]:
    *findings, location = finder.answers([query])
    return [one for one in findings if isinstance(one, Finding)], location


# --- as brokers answered ------------------------------------------------------------------------------------
@pytest.mark.parametrize("topic", sorted({f"{one['topic']}-{one['partition']}" for one in ANSWERS}))
def test_answers_are_those_of_a_running_broker(topic: str) -> None:
    """Every ListOffsets answer; the epoch of an empty log is not in its files: the leader took it when it started."""
    partition, lookup = lookup_in(NODE / topic)
    words = {"earliest": lookup.earliest, "latest": lookup.latest, "max-timestamp": lookup.max_timestamp}
    for one in ANSWERS:
        if f"{one['topic']}-{one['partition']}" != topic:
            continue
        query = one["query"]
        found = words[query]() if isinstance(query, str) else lookup.time(query)
        if one["offset"] < 0:
            assert found is None
            continue
        assert isinstance(found, FoundRecord)
        assert (found.offset, found.timestamp) == (one["offset"], one["timestamp"]), query
        if "leaderEpoch" in one and lookup.end_offset() != 0:
            assert found.epoch == one["leaderEpoch"], query
    partition.close()


def scanned(partition: PartitionDir) -> dict[int, str]:
    """The batch that each offset is in when the log is read from the start."""
    found: dict[int, str] = {}
    lookup = Lookup(partition, 1 << 28, 1 << 28, lambda _number, _window, _k: None)
    for number in range(len(partition)):
        position = 0
        size = partition.segment(number).log.size
        while position < size and isinstance(batch := lookup.batch_at(number, position), FoundBatch):
            last = batch.cell(layout.LAST_OFFSET)
            for offset in range(max([*found, partition.start_offset - 1]) + 1, min(last, 5000) + 1):
                found[offset] = shown(batch)
            position = batch.cell(layout.POSITION) + batch.cell(layout.SIZE)
    return found


def shown(batch: FoundBatch) -> str:
    return f"..{batch.cell(layout.LAST_OFFSET)}"  # of a wrapper only the last offset stands in its header


def agrees(found: FoundBatch | Refused | None, wanted: str) -> bool:
    """Whether a read gave what a broker gave: a batch, nothing, or an error."""
    batch = re.match(r"batch \S+?(\.\.\S+)", wanted)
    if batch:
        return isinstance(found, FoundBatch) and shown(found) == batch[1]
    return found is None if wanted == "nothing" else isinstance(found, Refused)


@pytest.mark.parametrize("name", STARTS)
def test_answers_after_damage_are_those_of_a_broker_wrong_ones_included(name: str, tmp_path: Path) -> None:
    """All reads and times of clean starts in which a broker changed no log and no index."""
    tree = CASES[name].build(tmp_path / "logdir")
    for directory, start in STARTS[name].items():
        partition, lookup = lookup_in(tree / directory)
        assert (partition.start_offset, lookup.end_offset()) == (start["logStartOffset"], start["logEndOffset"])
        odd = {offset: what for first, last, what in start["odd"] for offset in range(first, last + 1)}
        for offset, what in odd.items():
            assert agrees(lookup.read(offset), what), (offset, what)
        words = {-1: lookup.latest, -2: lookup.earliest, -3: lookup.max_timestamp, -4: lookup.earliest}
        for timestamp, *wanted in start["times"]:
            found = words[timestamp]() if timestamp < 0 else lookup.time(timestamp)
            if isinstance(wanted[0], str):
                assert isinstance(found, Refused), timestamp
                continue
            got = [found.offset, found.timestamp, found.epoch] if isinstance(found, FoundRecord) else [found]
            assert got == wanted, timestamp
        partition.close()


@pytest.mark.parametrize("base", sorted(path.name for path in (FIXTURES / "damage" / "intact").iterdir()))
def test_intact_partitions_are_read_as_they_stand(base: str) -> None:
    (path,) = (one for one in (FIXTURES / "damage" / "intact" / base / "logdir").iterdir() if one.is_dir())
    partition, lookup = lookup_in(path)
    for offset, wanted in list(scanned(partition).items())[:: 1 if COMPILED else 7]:
        found = lookup.read(offset)
        assert isinstance(found, FoundBatch)
        assert shown(found) == wanted
    partition.close()


# --- the data -----------------------------------------------------------------------------------------------
PARTITIONS = sorted(
    path
    for root in ("damage/intact/*/logdir/*-0", "kafka-4.3.1/clean/node1/*-?", "releases/*/logs/*-0")
    for path in FIXTURES.glob(root)
    if any(path.glob("*.log"))
)


@cache
def brute(path: Path) -> tuple[list[tuple[str, int, int]], list[tuple[int, int]]]:
    """Every batch (file, position, last offset) and every record (timestamp, offset) of a partition."""
    partition, reader = open_partition(str(path), ignore), RecordReader(1 << 28)
    batches, records = [], []
    width = layout.RECORD_WIDTH
    for number in range(len(partition)):
        segment = partition.segment(number)
        for window in CheckedWalk(
            segment.log, ignore, segment=segment.base_offset, next_base=None, max_batch_bytes=1 << 28
        ).windows():
            places = zip(window.column(layout.POSITION), window.column(layout.LAST_OFFSET), strict=True)
            batches += [(segment.path, *place) for place in places]
            for chunk in reader.chunks(window):
                rows = range(0, chunk.filled * width, width)
                records += [(chunk.rows[at + layout.R_TIMESTAMP], chunk.rows[at + layout.R_OFFSET]) for at in rows]
    partition.close()
    return batches, records


def sample(values: list[int]) -> list[int]:
    return values[:: len(values) // MOST + 1]


@pytest.mark.parametrize("path", PARTITIONS, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_scan_is_brute_force(path: Path) -> None:
    batches, records = brute(path)
    finder = finder_in(path, scan=True)
    start = finder._partition.start_offset
    for offset in sample(list(range(start, batches[-1][2] + 1 if batches else start))):
        wanted = next((file, position) for file, position, last in batches if last >= offset)
        location = ask(finder, offset_query(str(offset)))[1]
        assert (location.file, location.position) == wanted, offset
    for time in sample(sorted({time + more for time, _ in records for more in (-1, 0, 1)})):
        wanted_record = next((one for one in records if one[0] >= time and one[1] >= start), None)
        location = ask(finder, time_query(str(time)))[1]
        found = None if location.error else (location.timestamp, location.offset)
        assert found == wanted_record, time


@pytest.mark.parametrize("path", PARTITIONS, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_an_intact_partition_gives_no_error(path: Path) -> None:
    """What a broker answers is what the data has, but where the time of a copied file stands in for a time index."""
    batches, records = brute(path)
    finder = finder_in(path)
    start = finder._partition.start_offset
    for offset in sample(list(range(start, batches[-1][2] + 1 if batches else start))):
        findings, location = ask(finder, offset_query(str(offset)))
        assert findings == []
        assert location.position == next(position for _, position, last in batches if last >= offset)
    for time in sample(sorted({time for time, _ in records})):
        assert [one for one in ask(finder, time_query(str(time)))[0] if one.severity is Severity.ERROR] == []


def questions(partition: PartitionDir) -> Iterator[Query]:
    for offset in range(partition.start_offset, partition.bases[-1] + 40, 3 if COMPILED else 40):
        yield offset_query(str(offset))
    yield offset_query("latest")
    yield time_query("max")
    for time in range(1700000001105, 1700000115118, 9000 if COMPILED else 60_000):
        yield time_query(str(time))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", sorted(CASES))
def test_no_other_answer_of_the_data_goes_unsaid(name: str, tmp_path: Path) -> None:
    """On any damage: where a broker answers otherwise than the data, there is a finding beside its answer."""
    tree = CASES[name].build(tmp_path / "logdir")
    for path in sorted(one for one in tree.iterdir() if one.is_dir() and any(one.glob("*.log"))):
        if not any(re.fullmatch(r"\d{20}\.log", one.name) for one in path.iterdir()):
            continue
        broker, data = finder_in(path), finder_in(path, scan=True)
        for query in questions(broker._partition):
            findings, one = ask(broker, query)
            other = ask(data, query)[1]
            if (one.offset, one.file, one.position) != (other.offset, other.file, other.position):
                assert [found.code.name for found in findings if found.code.name == "L13"], query


# --- questions ----------------------------------------------------------------------------------------------
NOW = 1_795_269_780_000


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0), ("-1", -1), (" 1700000000119 ", 1700000000119), ("now", NOW), ("now-2h", NOW - 7_200_000),
        ("now+1d", NOW + 86_400_000), ("now-90s", NOW - 90_000), ("now-5ms", NOW - 5),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000), ("2023-11-14T23:13:20.119+01:00", 1_700_000_000_119),
        ("2023-11-14", 1_699_920_000_000), ("1969-12-31T23:59:59.999Z", -1),
        ("2023-11-14 22:13", 1_699_999_980_000), ("2023-11-14 22:13+02:00", 1_699_992_780_000),
        # NOW is 2026-11-21T14:03:00Z
        ("14:02", NOW - 60_000), ("14:03", NOW - 86_400_000), ("14:04", NOW + 60_000 - 86_400_000),
        ("14:02:30", NOW - 30_000), ("9:00", NOW - 18_180_000), ("10:00+02:00", NOW - 21_780_000),
        ("14:02Z", NOW - 60_000), ("15:30-01:00", NOW + 147 * 60_000 - 86_400_000), ("00:00", NOW - 50_580_000),
        ("today", NOW - 50_580_000), ("yesterday", NOW - 50_580_000 - 86_400_000),
        ("yesterday 14:03", NOW - 86_400_000), ("today 9:00", NOW - 18_180_000), ("2023-11-14 9:00", 1_699_952_400_000),
        ("yesterday 14:03+02:00", NOW - 86_400_000 - 7_200_000), ("2026-11-21T14-00", NOW - 180_000),
    ],
)  # fmt: skip
def test_a_time_is_ms_iso_or_relative(text: str, number: int) -> None:
    query = time_query(text, NOW)
    assert (query.ask, query.number) == (Ask.TIME, number)


def test_a_time_without_a_zone_is_utc_and_that_is_said() -> None:
    assert time_query("2023-11-14").assumed == "2023-11-14 is 2023-11-14T00:00:00.000Z (UTC, no zone is given)"
    assert "UTC" in time_query("2023-11-14T22:13:20").assumed
    assert time_query("2023-11-14T22:13:20Z").assumed == ""
    moment = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert time_query("2023-11-14T22:13:20").number == int(moment.timestamp()) * 1000


@pytest.mark.parametrize(
    "text", ["now-2h", "now", "10:00", "10:00+02:00", "yesterday", "today", "yesterday 9:00", "2026-11-21T00-04"]
)
def test_the_moment_that_is_taken_for_a_relative_time_is_said(text: str) -> None:
    query = time_query(text, NOW)
    taken = datetime.fromtimestamp(query.number / 1000, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00")
    assert query.assumed == f"{text} is {taken}Z (UTC)"


@pytest.mark.parametrize(
    "text",
    [
        "", "x", "now-2", "now-2w", "2023-13-01", "9" * 20, "1.5", "now-99999999999999999999d", "25:00", "10:0",
        "Yesterday!", "10:00+99:00", "yesterday noon", "yesterday 25:00", "tomorrow",
    ],
)  # fmt: skip
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a valid time|is too far away"):
        time_query(text)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("2h", "now-2h"), ("2 hours ago", "now-2h"), ("3d ago", "now-3d"), ("90 seconds ago", "now-90s"),
        ("2026/11/21 00:04", "2026-11-21 00:04"), ("@1795219475", "1795219475000"),
    ],
)  # fmt: skip
def test_a_form_that_people_type_is_answered_with_the_one_that_works(text: str, hint: str) -> None:
    with pytest.raises(ValueError, match=f"; did you mean {re.escape(hint)}\\?$"):
        time_query(text)


def test_a_number_that_looks_like_a_date_or_seconds_says_how_to_write_it() -> None:
    assert time_query("20231114").assumed.endswith("1970-01-01T05:37:11.114Z; a date? write 2023-11-14")
    assert time_query("1700000000").assumed.endswith("; seconds? write 1700000000000")
    assert "?" not in time_query("20231399").assumed


@pytest.mark.parametrize("text", ["", "-1", "x", "1e3", "0x10", str(2**63), "max", "\uff11"])
def test_what_is_no_offset_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a valid offset"):
        offset_query(text)


# --- the command --------------------------------------------------------------------------------------------
KEYS = [
    "type", "query", "offset", "timestamp", "leaderEpoch", "file", "position", "baseOffset", "lastOffset", "what",
    "next", "nextCommitted", "error", "partition", "assumed",
]  # fmt: skip


def find(*args: str, cwd: Path = NODE) -> tuple[int, list[str], list[str]]:
    run = run_kdump(args, cwd)
    return run.exit, run.stdout.decode().splitlines(), run.stderr.decode().splitlines()


def test_a_location_has_the_keys_of_the_contract() -> None:
    status, (line,), stderr = find("find-offset", "plain-0", "45", "--format", "json")
    assert (status, stderr) == (0, [])
    location = json.loads(line)
    assert list(location) == KEYS
    assert (location["offset"], location["baseOffset"], location["lastOffset"], location["error"]) == (45, 41, 45, None)
    assert location["partition"] == "plain-0"


@pytest.mark.parametrize(
    ("args", "status", "sentence"),
    [
        (["find-offset", "plain-0", "148"], 10, "the next record gets it"),
        (["find-offset", "plain-0", "999999999"], 10, "offset 999999999 is past the end: the log ends at 148"),
        (["find-offset", "trimmed-0", "3"], 10, "is before the start: the log begins at"),
        (["find-time", "plain-0", "2099-01-01T00:00:00Z"], 10, "2099-01-01T00:00:00Z; the newest time known is 2026-"),
        (["find-time", "empty-0", "max"], 10, "no record has a timestamp"),
        (["find-offset", "nowhere-0", "3"], 10, "no such file: nowhere-0"),
        (["find-offset", ".", "3"], 5, "--topic-partition"),
        (["find-offset", "plain-0", "x"], 2, "is not a valid offset"),
        (["find-time", "plain-0", "x"], 2, "is not a valid time"),
        (["find-offset", "meta.properties", "3"], 5, "the name tells no base offset"),
        (
            ["find-offset", "plain-0/00000000000000000000.index", "3"],
            5,
            "this is not a log: name the .log of the segment",
        ),
    ],
)
def test_nothing_found_is_one_sentence_and_a_status(args: list[str], status: int, sentence: str) -> None:
    got, stdout, stderr = find(*args)
    assert (got, stdout) == (status, [])
    assert sentence in stderr[-1]


@pytest.mark.parametrize(("name", "what"), [("empty", "directory"), ("orders-0", "partition directory")])
def test_a_directory_without_a_segment_has_nothing_there(name: str, what: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "leader-epoch-checkpoint").write_text("0\n0\n")
    for args in (["find-time", name, "2026-01-01"], ["find-offset", name, "5"], ["find-offset", name, "-"]):
        run = run_kdump(args, tmp_path)
        assert (run.exit, run.stdout) == (10, b"")
        told = f"kdump: {name}: no segment in this {what}; name a partition directory, or a log.dir with --topic T"
        assert run.stderr.decode().splitlines()[-1].startswith(told)


def test_a_log_dir_without_a_partition_named_is_not_read_and_one_of_its_partitions_is_named() -> None:
    status, stdout, stderr = find("find-offset", ".", "3")
    assert (status, stdout) == (5, [])
    (named,) = re.findall(
        r"^kdump: \.: this is a log\.dir: say which .* example --topic \S+, or --topic-partition (\S+)$", stderr[-1]
    )
    assert not named.startswith("__"), "few look for a message in Kafka's own topics"
    assert find("find-offset", ".", "earliest", "--topic-partition", named)[0] in (0, 10)


def test_a_log_dir_takes_the_name_of_the_partition() -> None:
    direct = find("find-offset", "plain-0", "45", "--format", "json")
    (line,) = find("find-offset", ".", "45", "--topic-partition", "plain-0", "--format", "json")[1]
    assert json.loads(line) == {**json.loads(direct[1][0]), "file": f"./{json.loads(direct[1][0])['file']}"}


def test_the_file_of_a_reset_has_a_line_a_partition_and_the_log_end_where_no_record_is_late_enough() -> None:
    moment = "1700000077328"
    status, lines, _ = find("find-time", ".", moment, "--topic", "plain", "--topic-partition", "empty-0", "--reset-csv")
    answers = find("find-time", ".", moment, "--topic", "plain", "--format", "json")[1]
    plain = [f"plain,{row['partition'].rpartition('-')[2]},{row['offset']}" for row in map(json.loads, answers)]
    assert (status, sorted(lines)) == (0, sorted([*plain, "empty,0,0"]))
    status, lines, stderr = find("find-time", "plain-0", "2099-01-01", "--reset-csv")
    end = json.loads(find("find-offset", "plain-0", "latest", "--format", "json")[1][0])["offset"]
    assert (status, lines) == (0, [f"plain,0,{end}"])
    assert f"the file has the log end, {end}" in " ".join(stderr)


def test_a_cell_of_the_file_of_a_reset_is_quoted_where_a_reader_would_take_it_apart() -> None:
    assert reset_line("orders", 3, 17) == "orders,3,17\n"
    assert reset_line("orders", 3, 17, 'a,"b"\n') == '"a,""b""\n",orders,3,17\n'


@pytest.mark.parametrize("also", [["--print"], ["--context", "1"], ["--format", "json"], ["--raw"]])
def test_the_file_of_a_reset_has_no_room_for_more(also: list[str]) -> None:
    assert find("find-time", "plain-0", "max", "--reset-csv", *also)[0] == 2
    assert find("find-time", "plain-0", "-", "--reset-csv")[0] == 2


def test_a_partition_without_an_answer_is_left_out_of_the_file_of_a_reset(tmp_path: Path) -> None:
    shutil.copytree(NODE / "plain-0", tmp_path / "plain-0")
    (tmp_path / "empty-1").mkdir()
    asked = ("find-time", ".", "max", "--topic", "plain", "--topic", "empty", "--reset-csv")
    status, lines, stderr = find(*asked, cwd=tmp_path)
    assert (status, len(lines), "empty-1" in " ".join(stderr)) == (10, 1, True)


def test_one_log_is_asked_alone() -> None:
    log = "plain-0/00000000000000000000.log"
    assert " ".join(" ".join(find("find-offset", log, "45")[1]).split()).endswith(
        f"file: {log} position: 1132 baseOffset: 41 lastOffset: 45"
    )
    assert find("find-offset", log, "130")[0] == 10  # it is in the next one


def test_context_and_print_show_dumps_own_lines() -> None:
    lines = run_kdump(["dump", "--print-data-log", "plain-0/00000000000000000000.log"], NODE).stdout.splitlines()
    run = run_kdump(["find-offset", "plain-0", "60", "--context", "1", "--print"], NODE)
    shown_lines = [line for line in run.stdout.splitlines() if not line.startswith((b"offset: ", b"  "))]
    batches = [line for line in lines if line.startswith(b"baseOffset")]
    at = next(k for k, line in enumerate(batches) if line.startswith(b"baseOffset: 56 "))
    record = next(line for line in lines if line.startswith(b"| offset: 60 "))
    assert shown_lines == [*batches[at - 1 : at + 2], record]


def test_json_has_batches_and_records_as_objects() -> None:
    _, lines, _ = find("find-time", "plain-0", "max", "--context", "1", "--print", "--format", "json")
    objects = [json.loads(line) for line in lines]
    assert [one["type"] for one in objects] == ["location", "batch", "batch", "record"]
    assert objects[-1]["offset"] == objects[0]["offset"] == objects[2]["lastOffset"]
    assert objects[2]["isvalid"] is True


def asked(args: list[str], questions: bytes) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "kdump", *args], cwd=NODE, input=questions, capture_output=True, check=False
    )
    assert done.returncode == 10, done.stderr
    return done.stdout.decode().splitlines()


def test_stdin_has_one_question_a_line_and_each_gets_one_answer() -> None:
    lines = asked(["find-offset", "plain-0", "-", "--format", "json"], b"45\nx\n\n999\nlatest\n")
    answers = [json.loads(line) for line in lines]
    assert [one["query"] for one in answers] == ["45", "x", "", "999", "latest"]
    assert [one["offset"] for one in answers] == [45, None, None, None, 148]
    assert [one["error"] is None for one in answers] == [True, False, False, False, True]
    text = asked(["find-offset", "plain-0", "-"], b"45\n999\n")
    assert text[0].startswith("query: 45 offset: 45 ")
    assert text[1] == "query: 999 nothing: offset 999 is past the end: the log ends at 148"


# --- what it costs ------------------------------------------------------------------------------------------
class Reads:
    """Counts what is read of files."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: dict[int, list[int]] = {}
        pread, preadv = os.pread, os.preadv

        def counted(fd: int, size: int, at: int) -> bytes:
            self.sizes.setdefault(fd, []).append(size)
            return pread(fd, size, at)

        def counted_into(fd: int, buffers: list[memoryview], at: int) -> int:
            self.sizes.setdefault(fd, []).append(sum(map(len, buffers)))
            return preadv(fd, buffers, at)

        monkeypatch.setattr(os, "pread", counted)
        monkeypatch.setattr(os, "preadv", counted_into)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partition of one segment with 1 KiB batches and an entry in the indexes for every one: many index pages."""
    folder = tmp_path_factory.mktemp("large") / "large-0"
    folder.mkdir()
    body = b"\0\0\0\1" + b"\xb0\x0e" + bytes(920) + b"\0"
    record = bytes([0x80 | (2 * len(body)) & 0x7F, (2 * len(body)) >> 7]) + body
    count = 8192 if COMPILED else 2048
    with (folder / f"{0:020}.log").open("wb") as log:
        for offset in range(count):
            time = 1_700_000_000_000 + offset
            rest = struct.pack(">hiqqqhii", 0, 0, time, time, -1, -1, -1, 1) + record
            log.write(struct.pack(">qiibI", offset, 9 + len(rest), 0, 2, crc32c(rest)) + rest)
    size = 21 + len(rest)
    entries = range(1, count)
    (folder / f"{0:020}.index").write_bytes(b"".join(struct.pack(">ii", n, n * size) for n in entries))
    times = (struct.pack(">qi", 1_700_000_000_000 + n, n) for n in entries)
    (folder / f"{0:020}.timeindex").write_bytes(b"".join(times))
    (folder.parent / ".kafka_cleanshutdown").write_bytes(b"")
    (folder / f"{count:020}.snapshot").write_bytes(snapshot())
    return folder


@pytest.mark.parametrize("offset", [0, 1, 777, 1024, 1999, 2047])
def test_a_lookup_reads_few_pages_of_the_index_and_little_of_the_log(
    large: Path, offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    finder = finder_in(large)
    segment = finder._partition.segment(0)
    reads = Reads(monkeypatch)
    findings, location = ask(finder, offset_query(str(offset)))
    assert (findings, location.offset, location.base_offset) == ([], offset, offset)
    pages = -(-segment.offset_index.entries * 8 // PAGE_BYTES)
    log, index = (segment._cache.get(segment.path_of(kind), follow=True)._fd for kind in (FileKind.LOG, FileKind.INDEX))
    of_index = reads.sizes.get(index, [])
    assert len(of_index) <= (pages - 1).bit_length() + 5  # the end of the log is asked for too
    assert max(of_index) <= PAGE_BYTES
    assert sum(reads.sizes[log]) <= 64 * 1024


def test_many_questions_open_each_file_once(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    real = os.open

    def counted(path: str, flags: int) -> int:
        opened.append(str(path))
        return real(path, flags)

    monkeypatch.setattr(os, "open", counted)
    finder = finder_in(large)
    for offset in range(0, 2000, 40):
        ask(finder, offset_query(str(offset)))
        ask(finder, time_query(str(1_700_000_000_000 + offset)))
    assert len(opened) == len(set(opened)) == 4
