"""Carving finds each whole batch of any bytes, and nothing else: against a search that asks every byte for a CRC."""

from __future__ import annotations

import errno
import gzip
import json
import os
import random
import shutil
import struct
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdump.finding import Code, Finding
from kdump.format.checksum import crc32c
from kdump.format.source import BytesSource
from kdump.rescue import _carving, image_search
from kdump.rescue.carve import CarveOptions, carve
from kdump.rescue.image_search import CarvedBatch, ImageSearch
from kdump.rescue.runs import RunBuilder
from tests.support.faults import Full, fails, killed_at
from tests.support.partitions import write
from tests.support.repair_trees import Counting, Faulty, Quick
from tests.support.runs import FIXTURES, run_on_full_disk
from tests.support.segments import batch, message
from tests.support.whole_batches import whole_batches
from tests.support.whole_lines import run_kdump

if TYPE_CHECKING:
    from kdump.storage.fsops import FileOps

NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
OLD = FIXTURES / "releases"
GONE = ("txn-0", "dense-0", "zstd-0", "compact-0", "tombstone-0", "__consumer_offsets-0")


# --- the truth, the slow way ----------------------------------------------------------------------------------
def search(data: bytes) -> tuple[list[CarvedBatch], list[Finding]]:
    findings: list[Finding] = []
    return list(ImageSearch(BytesSource(data), findings.append, lambda _done: None).batches()), findings


def places(data: bytes) -> list[tuple[int, int]]:
    return [(one.position, one.size) for one in search(data)[0] if one.magic == 2]


@pytest.fixture(scope="module")
def image() -> bytes:
    return gzip.decompress((FIXTURES / "carve" / "ext4.img.gz").read_bytes())


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows so small that batches end in the next one, or are claims."""
    monkeypatch.setattr(image_search, "_WINDOW", 700)
    monkeypatch.setattr(image_search, "_AHEAD", 300)


# --- what is found ---------------------------------------------------------------------------------------------
def test_a_file_system_gives_back_every_whole_batch_of_deleted_logs(image: bytes) -> None:
    assert places(image) == whole_batches(image)
    found = {bytes(image[at : at + size]) for at, size in places(image)}
    for topic in GONE:
        for path in sorted((NODE / topic).glob("*.log")):
            data = path.read_bytes()
            assert {data[at : at + size] for at, size in whole_batches(data)} <= found, path


def test_a_batch_with_a_wrong_crc_is_not_found_and_one_inside_another_is_its_content(image: bytes) -> None:
    inner = (NODE / "plain-0" / "00000000000000000000.log").read_bytes()
    inner = inner[: 12 + int.from_bytes(inner[8:12], "big")]
    at = image.index(inner)
    holders = [one for one in search(image)[0] if one.position <= at < one.end]
    assert [one.base_offset for one in holders] == [777]
    assert all(image[one.position : one.end] != inner for one in search(image)[0])


@pytest.mark.usefixtures("small_windows")
def test_windows_do_not_decide_what_is_found(image: bytes) -> None:
    part = image[32 * 1024 : 160 * 1024]
    assert places(part) == whole_batches(part)


@pytest.mark.usefixtures("small_windows")
@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_every_batch_among_random_bytes_is_found_and_none_invented(seed: int) -> None:
    rng = random.Random(seed)
    pieces: list[bytes] = []
    for number in range(rng.randrange(1, 12)):
        one = batch(number * 7, [rng.randbytes(rng.choice((5, 40, 900, 2500)))])
        kind = rng.randrange(6)
        if kind == 0:
            one = one[: rng.randrange(len(one))]
        elif kind == 1:
            broken = bytearray(one)
            broken[rng.randrange(21, len(one))] ^= 1 << rng.randrange(8)
            one = bytes(broken)
        elif kind == 2:
            one = batch(number * 7, [one])
        elif kind == 3:  # a header that claims much
            one = one[:8] + struct.pack(">i", rng.choice((2**31 - 1, 5000, 700))) + one[12:]
        pieces += [one, rng.choice((b"", bytes(rng.randrange(900)), rng.randbytes(rng.randrange(900))))]
    data = b"".join(pieces)
    assert places(data) == whole_batches(data)


def test_messages_of_magic_0_and_1_are_found_where_a_neighbour_speaks_for_them() -> None:
    for magic in (0, 1):
        one, other = (message(magic, at) for at in (5, 6))
        found = search(b"\0" * 50 + one + other + b"#" * 40)[0]
        assert [(it.base_offset, it.magic) for it in found] == [(5, magic), (6, magic)]
        assert search(b"#" * 50 + one + b"#" * 90)[0] == []


def test_logs_of_old_releases_are_found_whole() -> None:
    for path in sorted(OLD.glob("0.*/**/*.log"))[:12]:
        data = path.read_bytes()
        got = search(b"?" * 33 + data + b"?" * 33)[0]
        assert sum(one.size for one in got) == len(data) or len(got) == 0 or got[0].magic == 2, path


# --- bounds ----------------------------------------------------------------------------------------------------
class Counted(BytesSource):
    """Counts the bytes that are read."""

    read = 0

    def read_into(self, position: int, target: memoryview) -> int:
        count = super().read_into(position, target)
        self.read += count
        return count


def test_an_image_is_read_once_whatever_its_headers_claim() -> None:
    header = batch(1, [b"x"])[:61]
    lies = b"".join(header[:8] + struct.pack(">i", 900_000 - 61 * k) + header[12:] for k in range(14_000))
    source = Counted(lies + bytes(1 << 20))
    hashed = 0

    def counted(data: memoryview, value: int = 0) -> int:
        nonlocal hashed
        hashed += len(data)
        return crc32c(data, value)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(image_search, "crc32c", counted)
        patched.setattr(image_search, "_HASHED_LEAST", 1 << 20)
        assert list(ImageSearch(source, lambda _one: None, lambda _done: None).batches()) == []
    assert source.read <= source.size
    assert hashed <= 12 * source.size


def test_too_many_claims_are_given_up_with_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_search, "_MOST_CLAIMS", 4)
    monkeypatch.setattr(image_search, "_AHEAD", 300)
    monkeypatch.setattr(image_search, "_WINDOW", 700)
    header = batch(1, [b"x" * 100])
    lie = header[:8] + struct.pack(">i", 3000) + header[12:]
    real = batch(9, [b"true" * 300])
    data = lie * 9 + real + bytes(3000)
    found, findings = search(data)
    assert [one.base_offset for one in found] == [9]
    assert {one.code for one in findings} == {Code.L12}


class Bad(BytesSource):
    """A disk with a bad block."""

    def __init__(self, data: bytes, bad: range) -> None:
        super().__init__(data)
        self.bad = bad

    def read_into(self, position: int, target: memoryview) -> int:
        if position < self.bad.stop and position + len(target) > self.bad.start:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().read_into(position, target)

    def read_at(self, position: int, length: int) -> bytes:
        target = bytearray(max(0, min(length, self.size - position)))
        self.read_into(position, memoryview(target))
        return bytes(target)


def test_a_bad_block_is_passed_over_and_told() -> None:
    one = batch(0, [b"v" * 1000])
    data = b"".join(one[:7] + bytes([k]) + one[8:] for k in range(60))
    findings: list[Finding] = []
    source = Bad(data, range(12_288, 20_480))
    found = [it.position for it in ImageSearch(source, findings.append, lambda _done: None).batches()]
    wanted = [at for at in range(0, len(data), len(one)) if at + len(one) <= 12_288 or at >= 20_480]
    assert found == wanted
    assert [(it.code, it.position, it.length) for it in findings] == [(Code.F06, 12_288, 8192)]


class Sparse(BytesSource):
    """A file with one hole."""

    def __init__(self, before: bytes, hole: int, after: bytes) -> None:
        super().__init__(b"")
        self.before, self.after, self.start = before, after, len(before) + hole
        self.size = self.start + len(after)
        self.read = 0

    def read_at(self, position: int, length: int) -> bytes:
        length = max(0, min(length, self.size - position))
        head = self.before[position : position + length]
        tail = b""
        if position + length > self.start:
            begin = max(position, self.start)
            tail = self.after[begin - self.start : position + length - self.start]
        return head + bytes(length - len(head) - len(tail)) + tail

    def read_into(self, position: int, target: memoryview) -> int:
        data = self.read_at(position, len(target))
        self.read += len(data)
        target[: len(data)] = data
        return len(data)

    def next_data(self, position: int) -> int:
        return position if position < len(self.before) or position >= self.start else self.start


@pytest.mark.parametrize("hole", [1 << 31, 1 << 42])
def test_holes_are_not_read_and_a_batch_over_one_is_found(hole: int) -> None:
    one = batch(3, [b"behind"])
    source = Sparse(one + b"#" * 4096, hole, b"#" * 4096 + one)
    found = [it.position for it in ImageSearch(source, lambda _one: None, lambda _done: None).batches()]
    assert found == [0, source.start + 4096]
    assert source.read < 64 << 20
    if hole == 1 << 31:  # a large batch of zeros: its CRC goes over the hole
        large = batch(4, [bytes(12 << 20)])
        cut = large[:4096], large[-4096:]
        over = Sparse(cut[0], len(large) - 8192, cut[1] + one)
        got = [(it.position, it.size) for it in ImageSearch(over, lambda _one: None, lambda _done: None).batches()]
        assert got == [(0, len(large)), (len(large), len(one))]
        assert over.read < len(large)


# --- the kernel --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("function", "poly"), [(crc32c, 0x82F63B78), (crc32, 0xEDB88320)])
def test_the_crc_of_two_parts_follows_from_those_of_each(function: object, poly: int) -> None:
    rng = random.Random(1)
    for _ in range(50):
        a, b = rng.randbytes(rng.randrange(300)), rng.randbytes(rng.randrange(300))
        assert _carving.behind(function(a), len(b), poly) ^ function(b) == function(a + b)  # type: ignore[operator]


# --- runs ----------------------------------------------------------------------------------------------------------
def runs_of(data: bytes, *, strict: bool = False) -> list[tuple[int, int, int]]:
    source = BytesSource(data)
    builder = RunBuilder(source, "image", 1 << 20, strict=strict)
    for one in search(data)[0]:
        builder.add(one)
    builder.finish()
    return [(run.offset, run.last_offset, len(run.extents)) for run in builder.runs]


def of(base: int, producer: tuple[int, int, int] = (-1, -1, -1)) -> bytes:
    return batch(base, [b"v"], producer=producer)


def test_batches_whose_offsets_rise_are_one_run() -> None:
    assert runs_of(of(0) + of(1) + of(5)) == [(0, 5, 1)]
    assert runs_of(of(0) + of(1) + of(5), strict=True) == [(0, 1, 1), (5, 5, 1)]
    assert runs_of(of(4) + of(4)) == [(4, 4, 1), (4, 4, 1)]


def moved(one: bytes, base: int) -> bytes:
    return base.to_bytes(8, "big", signed=True) + one[8:]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("base", [2 | 1 << 58, 2 | 1 << 5, 2 - 2**63, 0, 7], ids=str)
def test_a_batch_between_two_that_go_on_is_of_their_run_whatever_its_base_offset_is(base: int, *, strict: bool) -> None:
    assert runs_of(of(0) + of(1) + moved(of(2), base) + of(3) + of(4), strict=strict) == [(0, 4, 1)]


def test_several_batches_side_by_side_are_of_the_run_that_leaves_their_places() -> None:
    wrong = moved(of(2), 90) + moved(of(3), 40)
    assert runs_of(of(0) + of(1) + wrong + of(4) + of(5)) == [(0, 5, 1)]
    assert [run[:2] for run in runs_of(of(0) + of(1) + wrong + of(3) + of(4))] == [(0, 90), (40, 40), (3, 4)]


def test_one_bit_puts_the_first_or_the_last_batch_of_a_file_into_its_run() -> None:
    assert runs_of(b"#" * 9 + moved(of(20), 20 | 1 << 9) + of(21) + of(22)) == [(21, 22, 1)]
    assert runs_of(of(20) + of(21) + moved(of(22), 22 & ~4)) == [(20, 21, 1)]
    assert len(runs_of(of(20) + of(21) + moved(of(22), 22 ^ 20))) == 2
    assert len(runs_of(of(20) + moved(of(21), 21 & ~4))) == 2, "of two that contradict each other either is wrong"


@pytest.mark.parametrize("epoch", [1, 5, 7 | 1 << 20], ids=str)
def test_a_wrong_leader_epoch_tears_no_run(epoch: int) -> None:
    parts = [batch(at, [b"v"], epoch=epoch if at == 2 else 7) for at in range(5)]
    assert runs_of(b"".join(parts)) == [(0, 4, 1)]


def test_a_jump_that_no_segment_can_hold_begins_a_run() -> None:
    assert runs_of(of(0) + of(1) + of(1 + 2**31)) == [(0, 1, 1), (1 + 2**31, 1 + 2**31, 1)]
    assert runs_of(of(0) + of(1) + of(2**31)) == [(0, 2**31, 1)]


def test_a_file_that_begins_at_a_sector_is_no_batch_of_the_one_before_it() -> None:
    one, other = batch(0, [b"v" * 439]), batch(5, [b"v" * 439])
    assert (len(one), len(other)) == (512, 512)
    assert [run[:2] for run in runs_of(one + other + batch(3, [b"w"]))] == [(0, 0), (5, 5), (3, 3)]


def test_a_file_in_fragments_is_one_run_where_its_producer_says_so() -> None:
    parts = [of(k, (7, 0, k)) for k in range(4)]
    assert runs_of(parts[0] + parts[1] + b"#" * 99 + parts[2] + parts[3]) == [(0, 3, 2)]
    assert runs_of(of(0) + b"#" * 99 + of(1)) == [(0, 0, 1), (1, 1, 1)]


# --- the command -----------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def carved(image: bytes, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, object]], bytes]:
    folder = tmp_path_factory.mktemp("carve")
    (folder / "disk.img").write_bytes(image)
    found = run_kdump(["carve", "disk.img", "--to", "out", "--format", "json", "--like", str(NODE)], folder)
    assert found.exit == 0, found.stderr
    rows = [json.loads(line) for line in found.stdout.splitlines()]
    return folder, rows, image


def test_the_rows_say_what_the_files_hold(carved: tuple[Path, list[dict[str, object]], bytes]) -> None:
    folder, rows, image = carved
    runs = [row for row in rows if row["type"] == "run"]
    assert [json.loads(one) for one in (folder / "out" / "carve.jsonl").read_text().splitlines()] == runs
    assert sorted(os.listdir(folder / "out")) == sorted([*(Path(str(row["file"])).name for row in runs), "carve.jsonl"])
    total = 0
    for row in runs:
        data = (folder / str(row["file"])).read_bytes()
        assert data == b"".join(image[at : at + size] for at, size in row["extents"])  # type: ignore[attr-defined]
        assert sum(size for _, size in whole_batches(data)) == len(data) == row["length"]
        assert data
        assert len(whole_batches(data)) == row["batches"]
        total += len(whole_batches(data))
    assert total == len(whole_batches(image)) == rows[-1]["batches"]
    assert rows[-1]["type"] == "summary"


def test_no_run_is_given_to_a_wrong_partition(carved: tuple[Path, list[dict[str, object]], bytes]) -> None:
    folder, rows, _ = carved
    owned = 0
    for row in rows:
        if row["type"] == "run" and row["topicPartition"] is not None:
            owned += 1
            assert row["evidence"]
            logs = b"".join(path.read_bytes() for path in (NODE / str(row["topicPartition"])).glob("*.log"))
            data = (folder / str(row["file"])).read_bytes()
            assert all(data[at : at + size] in logs for at, size in whole_batches(data)), row
    assert owned > 30


def test_every_run_of_a_snapshot_is_told_apart(carved: tuple[Path, list[dict[str, object]], bytes]) -> None:
    kinds = [row["kind"] for row in carved[1] if row["type"] == "run"]
    assert kinds.count("snapshot") == len(list((NODE / "__cluster_metadata-0").glob("*.checkpoint")))


def test_the_same_batches_decide_though_the_epochs_of_two_partitions_fit(tmp_path: Path) -> None:
    parts = [batch(offset, [b"v%d" % offset], epoch=offset // 6) for offset in range(10)]
    others = [batch(offset, [b"w%d" % offset], epoch=1) for offset in range(12, 20)]  # cleaned up to there
    for topic, data in (("one-0", parts), ("two-0", others)):
        epochs = b"0\n2\n0 0\n1 6\n"
        write(tmp_path / "node" / topic, {f"{0:020}.log": b"".join(data), "leader-epoch-checkpoint": epochs})
    (tmp_path / "disk.img").write_bytes(b"".join(parts))
    found = run_kdump(["carve", "disk.img", "--to", "runs", "--like", "node"], tmp_path)
    assert b" of one-0: " in found.stdout
    assert b"next: kdump salvage runs --to DIR\n" in found.stderr


@pytest.mark.parametrize("likes", [("k1", "k2"), ("k2", "k1")], ids=" ".join)
def test_a_replica_with_other_batches_takes_no_run_from_the_one_that_has_them(
    likes: tuple[str, ...], tmp_path: Path
) -> None:
    parts = [batch(offset, [b"v%d" % offset]) for offset in range(10)]
    stale = [*parts[:3], *(batch(offset, [b"w%d" % offset]) for offset in range(3, 10))]
    for node, data in (("k1", parts), ("k2", stale)):
        write(tmp_path / node / "one-0", {f"{0:020}.log": b"".join(data)})
    (tmp_path / "disk.img").write_bytes(b"".join(parts))
    given = [word for like in likes for word in ("--like", like)]
    found = run_kdump(["carve", "disk.img", "--to", "runs", *given], tmp_path)
    assert found.exit == 0
    assert b" of one-0: " in found.stdout


def test_salvage_says_which_runs_stay_out(tmp_path: Path) -> None:
    write(tmp_path / "node" / "one-0", {f"{0:020}.log": of(0) + of(1)})
    (tmp_path / "disk.img").write_bytes(of(0) + of(1) + b"#" * 99 + of(70))
    found = run_kdump(["carve", "disk.img", "--to", "runs", "--like", "node"], tmp_path)
    assert b"kdump salvage runs/RUN... --to DIR --name TOPIC-N" in found.stderr
    done = run_kdump(["salvage", "runs", "--to", "out"], tmp_path)
    assert done.exit == 0
    assert b"runs: 1 run has no partition and stays out (run-00002-" in done.stderr
    runs = sorted(str(path) for path in (tmp_path / "runs").glob("run-*"))
    assert b"| offset: 70 " in run_kdump(["dump", "--print-data-log", runs[1]], tmp_path).stdout
    done = run_kdump(["salvage", *runs, "--to", "all", "--name", "one-0"], tmp_path)
    assert b"no partition" not in done.stderr
    assert b", 3 records, " in done.stdout


def refused(folder: Path, to: str) -> bytes:
    (folder / "image").write_bytes(of(0))
    found = run_kdump(["carve", "image", "--to", to], folder)
    assert found.exit == 12
    return found.stderr


def test_carve_writes_only_into_a_new_directory_outside_of_log_dirs(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious").write_text("x")
    assert b"full: holds precious" in refused(tmp_path, "full")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "meta.properties").write_text("")
    assert b"lies in the log directory" in refused(tmp_path, "logs/out")
    assert not (tmp_path / "logs" / "out").exists()
    assert b"does not exist" in refused(tmp_path, "no/such/place")


def test_a_carve_that_cannot_write_its_output_says_that_the_runs_are_whole(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(of(0) + of(1))
    assert run_kdump(["carve", "image", "--to", "same"], tmp_path).exit == 0
    run = run_on_full_disk(["carve", "image", "--to", "out"], tmp_path)
    assert run.exit == 5
    cannot, left = run.stderr.decode().splitlines()
    assert cannot == "kdump: cannot write the output: No space left on device"
    is_all = "carve.jsonl" in os.listdir(tmp_path / "out")
    assert left == f"kdump: {'all runs are in out, and whole' if is_all else 'nothing is left in out but whole runs'}"
    assert all(whole_batches(data) for one, data in files(tmp_path / "out").items() if one.startswith("run-"))
    if not is_all:  # what is left is made again
        assert run_kdump(["carve", "image", "--to", "out"], tmp_path).exit == 0
    assert sorted(os.listdir(tmp_path / "out")) == sorted(os.listdir(tmp_path / "same"))


def test_what_a_killed_run_has_left_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(of(0) + of(1))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".kdump-carving").touch()
    (tmp_path / "out" / ".kdump-.run-1").write_bytes(b"half")
    (tmp_path / "out" / "run-00001-00000000000000000000.log").write_bytes(b"whole, but not listed")
    assert run_kdump(["carve", "image", "--to", "out"], tmp_path).exit == 0
    assert (tmp_path / "out" / "run-00001-00000000000000000000.log").read_bytes() == of(0) + of(1)
    assert run_kdump(["carve", "image", "--to", "out"], tmp_path).exit == 12


def test_runs_whose_list_was_moved_away_are_not_taken_for_leavings(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(of(0) + of(1))
    assert run_kdump(["carve", "image", "--to", "out"], tmp_path).exit == 0
    assert sorted(os.listdir(tmp_path / "out")) == ["carve.jsonl", "run-00001-00000000000000000000.log"]
    (tmp_path / "out" / "carve.jsonl").rename(tmp_path / "elsewhere")
    assert b"holds run-00001-00000000000000000000.log" in refused(tmp_path, "out")
    assert (tmp_path / "out" / "run-00001-00000000000000000000.log").read_bytes() == of(0) + of(1)


def test_short_runs_are_left_out_on_request(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(of(0) + of(1) + b"#" * 99 + of(50))
    found = run_kdump(["carve", "image", "--to", "out", "--min-batches", "2", "--format", "json"], tmp_path)
    runs = [json.loads(line) for line in found.stdout.splitlines()]
    assert [(row["offset"], row["lastOffset"]) for row in runs if row["type"] == "run"] == [(0, 1)]
    assert sorted(os.listdir(tmp_path / "out")) == ["carve.jsonl", "run-00001-00000000000000000000.log"]


def test_nothing_found_is_no_error_and_a_missing_image_is_one(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(b"nothing here" * 100)
    assert run_kdump(["carve", "image", "--to", "out"], tmp_path).exit == 0
    assert run_kdump(["carve", "none", "--to", "other"], tmp_path).exit == 10
    assert not (tmp_path / "other").exists()


# --- faults ----------------------------------------------------------------------------------------------------
ERRORS = [errno.EIO, errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EMFILE]
RUNS = CarveOptions("out", min_batches=2)


@pytest.fixture(scope="module")
def two_images(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes], list[str]]:
    """Two images with runs to keep and one to leave out, the files that come of them, and the names of the calls."""
    root = tmp_path_factory.mktemp("faults")
    (root / "one").write_bytes(of(0) + of(1) + b"#" * 99 + of(50) + b"#" * 99 + of(7) + of(8))
    (root / "other").write_bytes(b"#" * 5 + of(20) + of(21))
    counting = Counting()
    carved_to(root, root / "out", counting)
    found = files(root / "out")
    assert len(found) == 4
    return root, found, counting.names


def carved_to(root: Path, to: Path, ops: FileOps) -> None:
    images = [str(root / "one"), str(root / "other")]
    for _ in carve(images, RUNS.replace(to=str(to)), lambda one: f"{one.offset}\n", ops):
        pass


def files(to: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in to.iterdir()}


def check_and_end(two_images: tuple[Path, dict[str, bytes], list[str]], to: Path, number: int) -> None:
    """What has its name is whole, the list is the last that gets its name, and the same command ends what is left."""
    root, wanted, calls = two_images
    found = {name: data for name, data in files(to).items() if not name.startswith(".kdump-")} if to.exists() else {}
    assert found.items() <= wanted.items(), (number, calls[number])
    if "carve.jsonl" in found:
        assert found == wanted
    if not (to.exists() and "carve.jsonl" in found and ".kdump-carving" not in os.listdir(to)):
        carved_to(root, to, Quick())
    assert files(to) == wanted, (number, calls[number])
    shutil.rmtree(to)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_carve_that_is_killed_at_any_call_starts_again(
    two_images: tuple[Path, dict[str, bytes], list[str]], after: bool, tmp_path: Path
) -> None:
    for number in range(len(two_images[2])):
        killed_at(number, lambda ops: carved_to(two_images[0], tmp_path / "out", ops), after=after)
        check_and_end(two_images, tmp_path / "out", number)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: errno.errorcode[error])
def test_a_carve_whose_call_fails_leaves_whole_runs_only_and_starts_again(
    two_images: tuple[Path, dict[str, bytes], list[str]], error: int, tmp_path: Path
) -> None:
    to = tmp_path / "out"
    for number in range(len(two_images[2])):
        with pytest.raises(OSError, match=os.strerror(error)):
            carved_to(two_images[0], to, Faulty(number, fails(error)))
        left = os.listdir(to) if to.exists() else []
        assert [name for name in left if name.startswith(".kdump-") and name != ".kdump-carving"] == []
        check_and_end(two_images, to, number)


def test_a_disk_that_is_full_from_some_call_on_leaves_whole_runs_only(
    two_images: tuple[Path, dict[str, bytes], list[str]], tmp_path: Path
) -> None:
    for number in range(len(two_images[2])):
        with suppress(OSError):
            carved_to(two_images[0], tmp_path / "out", Full(number))
        check_and_end(two_images, tmp_path / "out", number)


@pytest.mark.parametrize("gone", ["unlinked", "cut"])
def test_an_image_that_vanishes_or_shrinks_while_it_is_read_is_told(gone: str, tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(of(0) + of(1) + b"#" * 99 + of(50) + of(51))

    class Vanishing(Quick):
        """Takes the image away when the first run is made."""

        def create(self, directory: int, name: str) -> int:
            if name.endswith("run-1"):
                image.unlink() if gone == "unlinked" else os.truncate(image, 100)
            return super().create(directory, name)

    options = CarveOptions(str(tmp_path / "out"))
    if gone == "unlinked":  # what is open is read to its end, though it has no name
        list(carve([str(image)], options, lambda one: f"{one.offset}\n", Vanishing()))
        assert len(files(tmp_path / "out")) == 3
        return
    with pytest.raises(OSError, match="image"):
        list(carve([str(image)], options, lambda one: f"{one.offset}\n", Vanishing()))
    assert not (tmp_path / "out" / "carve.jsonl").exists()
    assert all(whole_batches(data) for name, data in files(tmp_path / "out").items() if name.startswith("run-"))
    image.write_bytes(of(0) + of(1))
    list(carve([str(image)], options, lambda one: f"{one.offset}\n", Quick()))
    assert sorted(os.listdir(tmp_path / "out")) == ["carve.jsonl", "run-00001-00000000000000000000.log"]
