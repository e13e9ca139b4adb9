"""A selection begins where the indexes say; one that lies costs time and is a finding, and never hides a record."""

from __future__ import annotations

import random
import shutil
import struct
from typing import TYPE_CHECKING

import pytest

from kdump.finding import Code
from kdump.format.batch import layout
from kdump.format.record.selection import Selection
from kdump.storage.file_source import FileSource
from tests.support import segments
from tests.support.runs import FIXTURES
from tests.support.selection import everything, expected, selected

if TYPE_CHECKING:
    from pathlib import Path

BASE = 1000
BATCHES = 400
STEP = 5  # records in a batch
INTERVAL = 300  # bytes


def make(folder: Path, *, base: int = BASE, batches: int = BATCHES, codec: int = segments.NONE, jumps: int = 0) -> Path:
    """A segment with indexes as a broker makes them; with `jumps` the time goes back after each so many batches."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{base:020}.log"
    log, index, times = bytearray(), bytearray(), bytearray()
    last_entry = 0
    largest, largest_at = -1, base
    for number in range(batches):
        offset = base + number * STEP
        time = segments.TIME + 1000 * number - (50_000 if jumps and number % jumps == 0 else 0)
        records = [segments.Record(b"%d" % (offset + i), b"key-%d" % (number % 7), (), i) for i in range(STEP)]
        data = segments.batch(offset, records, codec=codec, base_timestamp=time)
        position, last = len(log), offset + STEP - 1
        if time + STEP - 1 > largest:
            largest, largest_at = time + STEP - 1, last
        if position - last_entry > INTERVAL:
            last_entry = position
            index += struct.pack(">ii", last - base, position)
            if not times or struct.unpack_from(">q", times, len(times) - 12)[0] < largest:
                times += struct.pack(">qi", largest, largest_at - base)
        log += data
    path.write_bytes(log)
    path.with_suffix(".index").write_bytes(index)
    path.with_suffix(".timeindex").write_bytes(times)
    return path


def selections(rng: random.Random, count: int = 12) -> list[Selection]:
    """Ranges and ends."""
    end, last = BASE + BATCHES * STEP, segments.TIME + 1000 * BATCHES
    made = []
    for _ in range(count):
        start = rng.randrange(BASE, end)
        time = rng.randrange(segments.TIME, last)
        made += [
            Selection(from_offset=start, to_offset=start + rng.randrange(40)),
            Selection(from_offset=start, limit=3),
            Selection(from_time=time, limit=4),
            Selection(from_time=time, to_time=time + 5000),
            Selection(from_position=rng.randrange(40_000), limit=2),
            Selection(tail=rng.choice((1, 3, 7, 200, 5000))),
            Selection(tail=rng.choice((1, 3)), keys=(b"key-3",)),
            Selection(tail=5, to_offset=start),
        ]
    return made


def agree(path: Path, rng: random.Random, count: int = 12) -> set[Code]:
    """Whether each selection of a segment is what reading all gives; the codes of what was found on the way."""
    full = everything([path.parent])
    codes = set()
    for one in selections(rng, count):
        got = selected([path.parent], one, deep=True)
        assert [batch[1:] for batch in got.batches] == [batch[1:] for batch in expected(full, one, deep=True)], one
        codes |= {finding.code for finding in got.findings}
    return codes


@pytest.mark.parametrize("codec", [segments.NONE, segments.ZSTD])
@pytest.mark.parametrize("jumps", [0, 3])
def test_right_indexes_say_nothing(tmp_path: Path, codec: int, jumps: int) -> None:
    path = make(tmp_path / "topic-0", codec=codec, jumps=jumps)
    assert agree(path, random.Random(codec + jumps)) == set()


def test_what_lies_before_the_range_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(tmp_path / "topic-0", batches=20_000)
    read = []
    read_into = FileSource.read_into

    def counted(self: FileSource, position: int, target: memoryview) -> int:
        read.append((self.name, position))
        return read_into(self, position, target)

    monkeypatch.setattr(FileSource, "read_into", counted)
    size = path.stat().st_size
    middle = BASE + 10_000 * STEP
    for one in (
        Selection(from_offset=middle, limit=1),
        Selection(from_time=segments.TIME + 10_000_000, limit=1),
        Selection(from_position=size // 2, limit=1),
        Selection(tail=3),
    ):
        read.clear()
        selected([path], one, deep=True)
        assert read
        assert all(position > size // 3 for name, position in read if name == str(path)), one


def test_what_lies_after_the_range_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(tmp_path / "topic-0", batches=40_000)
    assert path.stat().st_size > 4 << 20
    positions = []
    read_into = FileSource.read_into

    def counted(self: FileSource, position: int, target: memoryview) -> int:
        positions.append(position)
        return read_into(self, position, target)

    monkeypatch.setattr(FileSource, "read_into", counted)
    for one in (Selection(to_offset=BASE + 20), Selection(limit=5)):
        positions.clear()
        selected([path], one, deep=True)
        assert max(positions) < 2 << 20, one


@pytest.mark.parametrize("seed", range(30))
def test_an_index_that_lies_hides_nothing(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    path = make(tmp_path / "topic-0", jumps=rng.choice((0, 2, 5)))
    for suffix, slot in ((".index", 8), (".timeindex", 12)):
        file = path.with_suffix(suffix)
        data = bytearray(file.read_bytes())
        for _ in range(rng.choice((1, 1, 3, 40))):
            at = rng.randrange(len(data))
            data[at] ^= 1 << rng.randrange(8)
        if rng.random() < 0.2:
            at = rng.randrange(len(data) // slot) * slot
            data[at : at + slot] = rng.choice((bytes(slot), data[-slot:]))
        file.write_bytes(data)
    agree(path, rng, 6)


def entry(path: Path, number: int, form: str, *values: int) -> None:
    data = bytearray(path.read_bytes())
    struct.pack_into(form, data, number * struct.calcsize(form), *values)
    path.write_bytes(data)


def test_an_entry_into_the_middle_of_a_batch_is_a_finding(tmp_path: Path) -> None:
    path = make(tmp_path / "topic-0")
    offset, position = struct.unpack_from(">ii", path.with_suffix(".index").read_bytes(), 20 * 8)
    entry(path.with_suffix(".index"), 20, ">ii", offset, position + 7)
    one = Selection(from_offset=BASE + offset, limit=1)
    got = selected([path], one, deep=True)
    assert [record.offset for batch in got.batches for record in batch.records] == [BASE + offset]
    assert [(one.code, one.offset, one.found) for one in got.findings] == [(Code.X04, BASE + offset, position + 7)]


def test_an_entry_to_a_later_batch_is_a_finding(tmp_path: Path) -> None:
    path = make(tmp_path / "topic-0")
    offset, _ = struct.unpack_from(">ii", path.with_suffix(".index").read_bytes(), 20 * 8)
    _, later = struct.unpack_from(">ii", path.with_suffix(".index").read_bytes(), 21 * 8)
    entry(path.with_suffix(".index"), 20, ">ii", offset, later)
    got = selected([path], Selection(from_offset=BASE + offset, limit=2), deep=True)
    assert [record.offset for batch in got.batches for record in batch.records] == [BASE + offset, BASE + offset + 1]
    assert [(one.code, one.offset, one.found) for one in got.findings] == [(Code.X05, BASE + offset, later)]


def test_a_time_that_names_too_late_an_offset_is_a_finding(tmp_path: Path) -> None:
    path = make(tmp_path / "topic-0", jumps=3)
    time, offset = struct.unpack_from(">qi", path.with_suffix(".timeindex").read_bytes(), 20 * 12)
    entry(path.with_suffix(".timeindex"), 20, ">qi", time, offset + 3 * STEP)
    got = selected([path], Selection(from_time=time + 1, limit=2), deep=True)
    full = everything([path])
    assert [b[1:] for b in got.batches] == [
        b[1:] for b in expected(full, Selection(from_time=time + 1, limit=2), deep=True)
    ]
    assert [(one.code, one.found) for one in got.findings] == [(Code.T04, time)]


def test_damage_where_an_entry_points_is_no_fault_of_the_index(tmp_path: Path) -> None:
    path = make(tmp_path / "topic-0")
    offset, position = struct.unpack_from(">ii", path.with_suffix(".index").read_bytes(), 20 * 8)
    data = bytearray(path.read_bytes())
    data[position + 70] ^= 1
    path.write_bytes(data)
    got = selected([path], Selection(from_offset=BASE + offset), deep=True)
    assert [one.code for one in got.findings] == [Code.B01]
    assert got.batches[0].cell(layout.POSITION) == position


def test_the_end_of_a_log_is_looked_at_for_the_last_records(tmp_path: Path) -> None:
    path = make(tmp_path / "topic-0")
    path.write_bytes(path.read_bytes() + bytes(100))
    got = selected([path], Selection(tail=2), deep=True)
    assert [one.code for one in got.findings] == [Code.L03]
    assert sum(len(batch.records) for batch in got.batches) == 2


@pytest.mark.parametrize("wanted", [1, 7, 40, 99, 150, 10_000])
def test_the_last_records_come_from_as_many_segments_as_it_takes(tmp_path: Path, wanted: int) -> None:
    folder = tmp_path / "topic-0"
    for base in (0, 50, 100, 200):
        make(folder, base=base, batches=10 if base < 200 else 2)
    records = [r.offset for b in selected([folder], Selection(tail=wanted), deep=True).batches for r in b.records]
    there = [r.offset for b in everything([folder]).batches for r in b.records]
    assert len(there) == 3 * 50 + 10
    assert records == there[-wanted:]


def test_each_partition_has_its_own_last_records(tmp_path: Path) -> None:
    for name in ("a-0", "a-1"):
        make(tmp_path / name, batches=20)
    got = selected([tmp_path], Selection(tail=3), deep=True)
    assert [len(batch.records) for batch in got.batches] == [3, 3]
    assert len({batch.file for batch in got.batches}) == 2


def test_a_limit_is_for_all_files(tmp_path: Path) -> None:
    for name in ("a-0", "a-1"):
        make(tmp_path / name, batches=1)
    got = selected([tmp_path], Selection(limit=7), deep=True)
    assert [len(batch.records) for batch in got.batches] == [5, 2]


def test_segments_out_of_the_range_are_not_opened(tmp_path: Path) -> None:
    folder = tmp_path / "topic-0"
    for base in (0, 50, 100):
        make(folder, base=base, batches=10)
    for base in (0, 100):
        path = folder / f"{base:020}.log"
        shutil.copy(FIXTURES / "README.md", path)  # any of its bytes would be a finding
    got = selected([folder], Selection(from_offset=60, to_offset=90), deep=True)
    assert [record.offset for batch in got.batches for record in batch.records] == list(range(60, 90))
    assert not got.findings
    assert not got.problems


def test_the_times_that_old_brokers_noted_for_magic_0_are_no_fault() -> None:
    folder = FIXTURES / "releases" / "0.10.2.2" / "logs" / "upg-0"
    full = everything([folder])
    for one in (Selection(from_time=time) for time in (1700086557234, 1700086559434, 1700086559436)):
        got = selected([folder], one, deep=True)
        assert not got.findings
        assert [batch[1:] for batch in got.batches] == [batch[1:] for batch in expected(full, one, deep=True)]
