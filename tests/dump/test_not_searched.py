"""What `dump` says behind its answer: the batches that could not be searched, or whose records could not be read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kdump.api.log import Log
from kdump.compat.dump_log_segments_options import DumpOptions
from kdump.dump.searched import Searched
from kdump.dump.selected import SelectedDump
from kdump.finding import Code, Finding
from kdump.format.record.selection import Selection
from kdump.item import RecordsUnread
from kdump.storage.open_files import CachedFile
from tests.support import segments
from tests.support.partitions import segment, write
from tests.support.runs import run_kdump
from tests.support.segments import RECORDS_AT, Record

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOG = f"orders-0/{0:020}.log"
EACH = 20  # records of a batch
SEARCHES = (["--key", "k30"], ["--key-regex", "^k30$"], ["--value-regex", "^v30$"], ["--header", "h=30"])


def batch(first: int, codec: int = segments.NONE) -> bytes:
    """A batch in which each record has a key, a value and a header of its own; `odd` is the last key of each."""
    numbers = range(first, first + EACH)
    keys = [b"odd" if number % EACH == EACH - 1 else b"k%d" % number for number in numbers]
    records = [Record(b"v%d" % n, key, ((b"h", b"%d" % n),)) for n, key in zip(numbers, keys, strict=True)]
    return segments.batch(first, records, codec=codec)


def with_bytes(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def no_stream(data: bytes) -> bytes:
    """The batch with other bytes where its records begin: nothing of them can be read."""
    return with_bytes(data, RECORDS_AT, b"\xff" * 16)


def broken_record(data: bytes) -> bytes:
    """The batch with the length of its sixth record wrong."""
    size = len(segments.encode(Record(b"v20", b"k20", ((b"h", b"20"),)), 0))
    return with_bytes(data, RECORDS_AT + 5 * size, b"\xff")


def no_codec(data: bytes) -> bytes:
    """The batch with a compression type that does not exist."""
    return with_bytes(data, segments.ATTRIBUTES_AT + 1, b"\x07")


def no_count(data: bytes) -> bytes:
    """The batch with a count of 0."""
    return with_bytes(data, segments.COUNT_AT, bytes(4))


def logdir(where: Path, second: bytes, codec: int = segments.NONE) -> str:
    """A log of three batches, the second one as it is given; the place of that, as messages say it."""
    parts = [batch(0, codec), second, batch(2 * EACH, codec)]
    write(where, {f"orders-0/{name}": data for name, data in segment(0, parts).items()})
    start = len(parts[0])
    return f"{LOG}: bytes {start}..{start + len(second) - 1}, offsets 20..39 (B01 crc-mismatch)"


def said(where: Path, *args: str) -> list[str]:
    """What stands on standard error besides findings; the same for any number of processes."""
    runs = [run_kdump(["dump", "orders-0", *args, "-j", jobs], where) for jobs in ("1", "2")]
    assert runs[0].stdout == runs[1].stdout
    assert runs[0].stderr == runs[1].stderr
    assert runs[0].exit == runs[1].exit == 3
    return [line for line in runs[0].stderr.decode().splitlines() if line.startswith("kdump: ")]


DAMAGE = [
    *[pytest.param(codec, no_stream, id=segments.NAMES[codec]) for codec in segments.CODECS],
    pytest.param(segments.NONE, broken_record, id="record"),
    pytest.param(segments.GZIP, no_codec, id="codec"),
    pytest.param(segments.NONE, no_count, id="count"),
    pytest.param(segments.GZIP, no_count, id="compressed count"),
]


@pytest.mark.parametrize(("codec", "damage"), DAMAGE)
def test_a_batch_with_a_wrong_crc_whose_records_cannot_be_read_is_not_searched(
    codec: int, damage: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    place = logdir(tmp_path, damage(batch(EACH, codec)), codec)
    nothing = "kdump: nothing found for --key k30"
    assert said(tmp_path, "--key", "k30") == [nothing, f"kdump: not searched: {place}"]
    assert said(tmp_path, "--key", "odd") == [f"kdump: not searched: {place}"]
    assert said(tmp_path, "--print-data-log") == [f"kdump: not all records can be read: {place}"]


@pytest.mark.parametrize("search", SEARCHES, ids=lambda one: one[0])
def test_nothing_found_names_what_was_not_searched_whatever_is_searched_for(search: list[str], tmp_path: Path) -> None:
    place = logdir(tmp_path, broken_record(batch(EACH)))
    nothing, where = said(tmp_path, *search)
    assert nothing.startswith(f"kdump: nothing found for {search[0]} ")
    assert where == f"kdump: not searched: {place}"
    assert said(tmp_path, *search, "--quiet") == []


def test_what_a_search_has_found_names_what_may_have_more(tmp_path: Path) -> None:
    place = logdir(tmp_path, broken_record(batch(EACH)))
    for form in ([], ["--format", "json"], ["--limit", "2"]):
        assert said(tmp_path, "--key", "odd", *form) == [f"kdump: not searched: {place}"]
    assert said(tmp_path, "--key", "odd", "--quiet") == []


@pytest.mark.parametrize("args", [["--print-data-log"], ["--deep-iteration", "--from-offset", "25"], ["--tail", "30"]])
def test_where_all_is_shown_or_a_range_the_batch_whose_records_cannot_be_read_is_said_once(
    args: list[str], tmp_path: Path
) -> None:
    place = logdir(tmp_path, broken_record(batch(EACH)))
    for form in ([], ["--format", "json"], ["--stats"]):
        assert said(tmp_path, *args, *form) == [f"kdump: not all records can be read: {place}"]
    assert said(tmp_path, *args, "--quiet") == []


def test_a_batch_with_a_wrong_crc_whose_records_can_all_be_read_is_searched(tmp_path: Path) -> None:
    sound = batch(EACH)
    logdir(tmp_path, with_bytes(sound, sound.index(b"v25"), b"w"))
    start = len(batch(0))
    place = f"{LOG}: bytes {start}..{start + len(sound) - 1}, offsets 20..39 (B01 crc-mismatch)"
    doubt = f"kdump: searched, but not to be trusted: {place}"
    assert said(tmp_path, "--print-data-log") == []
    assert said(tmp_path, "--key", "k30") == [doubt]
    assert said(tmp_path, "--key", "none") == ["kdump: nothing found for --key none", doubt]
    assert said(tmp_path, "--key", "k30", "--quiet") == []


def test_a_batch_outside_the_range_of_offsets_is_not_named(tmp_path: Path) -> None:
    logdir(tmp_path, broken_record(batch(EACH)))
    assert said(tmp_path, "--from-offset", "40", "--print-data-log") == []
    for offsets in (["--from-offset", "40"], ["--to-offset", "20"]):
        run = run_kdump(["dump", "orders-0", *offsets, "--key", "no such"], tmp_path)
        assert b"not searched" not in run.stderr


def test_without_records_nothing_is_said_of_them(tmp_path: Path) -> None:
    logdir(tmp_path, broken_record(batch(EACH)))
    assert said(tmp_path) == []


def test_a_batch_with_the_right_crc_whose_records_cannot_be_read_is_named_by_its_own_finding(tmp_path: Path) -> None:
    place = logdir(tmp_path, segments.with_crc(no_stream(batch(EACH, segments.GZIP))), segments.GZIP)
    (line,) = said(tmp_path, "--key", "odd")
    assert line == f"kdump: not searched: {place}".replace("B01 crc-mismatch", "C01 codec-data")
    assert said(tmp_path, "--print-data-log") == []


def test_a_legacy_message_whose_records_cannot_be_read_is_named(tmp_path: Path) -> None:
    parts = [segments.message(1, 0), segments.wrapper(1, 1, [b"v"] * 5), segments.message(1, 6)]
    start, size = len(parts[0]), len(parts[1])
    parts[1] = with_bytes(parts[1], size - 20, b"\xff" * 10)
    write(tmp_path, {LOG: b"".join(parts)})
    place = f"{LOG}: bytes {start}..{start + size - 1}, offsets 1..5 (B02 crc-mismatch-legacy)"
    assert said(tmp_path, "--key", "key") == [f"kdump: not searched: {place}"]


def test_four_batches_are_named_and_of_the_others_the_number(tmp_path: Path) -> None:
    parts = [no_stream(batch(number * EACH)) if number % 2 else batch(number * EACH) for number in range(13)]
    write(tmp_path, {f"orders-0/{name}": data for name, data in segment(0, parts).items()})
    lines = said(tmp_path, "--key", "odd")
    assert [line.split(", offsets ")[-1] for line in lines[:4]] == [
        f"{20 + 40 * number}..{39 + 40 * number} (B01 crc-mismatch)" for number in range(4)
    ]
    assert lines[4:] == ["kdump: not searched: 2 more places"]


def test_what_supersedes_a_record_may_be_in_a_batch_that_cannot_be_read(tmp_path: Path) -> None:
    logdir(tmp_path, no_stream(batch(EACH, segments.GZIP)), segments.GZIP)
    lines = said(tmp_path, "--key", "k3", "--fate")
    place = "orders-0: offsets 20..39 cannot be read: a newer record of a key may be there"
    assert [line.replace(LOG, "orders-0") for line in lines if "newer" in line] == [f"kdump: {place}"]


def test_what_cannot_be_read_ends_before_the_next_true_batch_whatever_the_damaged_one_says(tmp_path: Path) -> None:
    wrong = with_bytes(batch(EACH), 23, b"\0\x55\0\0")  # lastOffsetDelta
    logdir(tmp_path, wrong)
    lines = said(tmp_path, "--key", "k3", "--fate")
    assert [line for line in lines if "newer" in line] == [
        f"kdump: {LOG}: offsets 20..39 cannot be read: a newer record of a key may be there"
    ]


def test_a_batch_in_sectors_that_cannot_be_read_is_named_once() -> None:
    seen = Searched(Selection(keys=(b"k",)))
    values: dict[str, int | str | None] = {"why": "Input/output error", "batchStart": 391, "batchEnd": 812}
    seen.see(Finding(Code.F06, "a.log", 512, 100, offset=20, last_offset=39, values=values))
    seen.see(RecordsUnread(Finding(Code.B01, "a.log", 391, 421, offset=20, last_offset=39)))
    assert list(seen.lines()) == [
        "nothing found",
        "not searched: a.log: bytes 512..611, offsets 20..39 (F06 read-error)",
    ]


def test_the_library_reads_the_other_batches_and_has_the_finding(tmp_path: Path) -> None:
    logdir(tmp_path, no_stream(batch(EACH, segments.GZIP)), segments.GZIP)
    log = Log(tmp_path / "orders-0")
    assert [record.offset for record in log.records(key="odd")] == [19, 59]
    assert [(one.code.name, one.offset, one.last_offset) for one in log.findings] == [("B01", 20, 39)]
    assert len(list(log.records())) == 2 * EACH


def test_rows_of_json_are_those_of_the_batches_that_can_be_read(tmp_path: Path) -> None:
    logdir(tmp_path, broken_record(batch(EACH)))
    run = run_kdump(["dump", "orders-0", "--print-data-log", "--format", "json"], tmp_path)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    assert [row["offset"] for row in rows if row["type"] == "record"] == [*range(25), *range(40, 60)]
    assert [row["code"] for row in rows if row["type"] == "finding"] == ["B01"]


# --- offsets that are missing ---------------------------------------------------------------------------------
EACH_LOG = 40  # records of a segment


def logs(where: Path, *, without: tuple[int, ...] = (), short: bool = False) -> None:
    """A partition of segments of two batches each, some of their batches missing; `short`: one has lost a record."""
    files: dict[str, bytes] = {}
    for base in range(0, 4 * EACH_LOG, EACH_LOG):
        parts = [batch(first) for first in (base, base + EACH) if first not in without]
        if short and base == 3 * EACH_LOG:
            parts[-1] = segments.batch(base + EACH, [Record(b"v", b"odd")], last_delta=EACH - 1)
        files |= segment(base, parts) if parts else {}
    write(where, {f"orders-0/{name}": data for name, data in files.items()})


def searched(where: Path, *args: str) -> list[str]:
    """What `dump` says behind a search that meets no error, without what the clock of `--fate` says."""
    runs = [run_kdump(["dump", *args, "-j", jobs], where) for jobs in ("1", "2")]
    assert runs[0].stderr == runs[1].stderr
    assert [run.exit for run in runs] == [0 if run.stdout else 10 for run in runs]
    lines = runs[0].stderr.decode().splitlines()
    return [line.removeprefix("kdump: not searched: ") for line in lines if line.startswith("kdump: not searched")]


LOST_LOG = f"orders-0/{EACH_LOG:020}.log"


@pytest.mark.parametrize("fate", [[], ["--fate", "--set", "retention.ms=-1"]], ids=["", "fate"])
@pytest.mark.parametrize("key", ["odd", "k85", "nowhere"])
@pytest.mark.parametrize(
    ("without", "place"),
    [
        ((80, 100), f"{LOST_LOG}, offsets 80..119 (L19 hole-alone)"),
        ((60,), f"{LOST_LOG}, offsets 60..79 (L19 hole-alone)"),
        ((80,), f"orders-0/{80:020}.log, offsets 80..99 (L19 hole-alone)"),
    ],
)
def test_offsets_that_a_dense_log_has_lost_were_not_searched(
    without: tuple[int, ...], place: str, key: str, fate: list[str], tmp_path: Path
) -> None:
    logs(tmp_path, without=without)
    assert searched(tmp_path, "orders-0", "--key", key, *fate) == [place]
    nothing = run_kdump(["dump", "orders-0", "--key", key, *fate], tmp_path)
    assert (b"kdump: nothing found for --key " in nothing.stderr) == (nothing.stdout == b"")
    assert searched(tmp_path, "orders-0", "--key", key, "--quiet", *fate) == []


def test_a_range_in_lost_offsets_was_not_searched(tmp_path: Path) -> None:
    logs(tmp_path, without=(80, 100))
    place = [f"{LOST_LOG}, offsets 80..119 (L19 hole-alone)"]
    assert searched(tmp_path, "orders-0", "--from-offset", "90", "--to-offset", "95") == place
    assert searched(tmp_path, "orders-0", "--from-offset", "90", "--print-data-log") == []  # that is shown, not sought
    for outside in (["--to-offset", "80"], ["--from-offset", "120"]):
        assert searched(tmp_path, "orders-0", "--key", "k85", *outside) == []


def test_of_one_log_that_is_named_no_hole_behind_it_is_told(tmp_path: Path) -> None:
    logs(tmp_path, without=(80, 100))
    names = sorted(str(path.relative_to(tmp_path)) for path in (tmp_path / "orders-0").glob("*.log"))
    assert searched(tmp_path, LOST_LOG, "--key", "k85") == []
    assert searched(tmp_path, *names, "--key", "k85") == [f"{LOST_LOG}, offsets 80..119 (L19 hole-alone)"]


def test_a_hole_below_the_log_start_hides_no_loss_above_it(tmp_path: Path) -> None:
    logs(tmp_path, without=(20, 80, 100))
    assert searched(tmp_path, "orders-0", "--key", "k85") == []
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\norders 0 40\n")
    assert searched(tmp_path, "orders-0", "--key", "k85") == [f"{LOST_LOG}, offsets 80..119 (L19 hole-alone)"]


@pytest.mark.parametrize(("without", "short"), [((20, 80), False), ((80, 100), True)], ids=["holes", "records"])
def test_holes_that_compaction_explains_were_searched(without: tuple[int, ...], short: bool, tmp_path: Path) -> None:
    logs(tmp_path, without=without, short=short)
    assert searched(tmp_path, "orders-0", "--key", "k85") == []


def bytes_read(where: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many bytes of its files a search for a key reads."""
    count = 0
    read_into, read_at = CachedFile.read_into, CachedFile.read_at

    def counted_into(self: CachedFile, position: int, target: memoryview) -> int:
        nonlocal count
        count += (size := read_into(self, position, target))
        return size

    def counted_at(self: CachedFile, position: int, length: int) -> bytes:
        nonlocal count
        count += len(data := read_at(self, position, length))
        return data

    with monkeypatch.context() as patched:
        patched.setattr(CachedFile, "read_into", counted_into)
        patched.setattr(CachedFile, "read_at", counted_at)
        for _ in SelectedDump(DumpOptions(deep=True), Selection(keys=(b"nowhere",))).files([str(where / "orders-0")]):
            pass
    return count


def test_a_hole_that_stands_alone_costs_walks_and_what_compaction_made_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = {}
    for name, without in {"dense": (), "lost": (80, 100), "compacted": (20, 80)}.items():
        logs(tmp_path / name, without=without)
        sizes = [path.stat().st_size for path in (tmp_path / name / "orders-0").glob("*.log")]
        read[name] = bytes_read(tmp_path / name, monkeypatch) / sum(sizes)
    assert read["compacted"] == pytest.approx(read["dense"], rel=0.1)
    assert 1.8 * read["dense"] < read["lost"] < 3.5 * read["dense"]


def test_the_walk_ends_at_the_first_trace_of_compaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = segments.batch(0, [Record(b"v", b"k")], last_delta=EACH - 1)
    many = [segments.batch(EACH * number, [Record(bytes(2000), b"k")] * EACH) for number in range(1, 400)]
    for name, parts in {"dense": many, "compacted": [first, *many[1:]]}.items():
        files = segment(0 if name == "compacted" else EACH, parts)
        write(tmp_path / name, {f"orders-0/{file}": data for file, data in files.items()})
    read = {name: bytes_read(tmp_path / name, monkeypatch) for name in ("dense", "compacted")}
    assert read["compacted"] < 1.2 * read["dense"]
