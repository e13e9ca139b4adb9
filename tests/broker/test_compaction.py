"""What the cleaner of 4.3.1 took, and what its passes left, record for record; what a pass costs; what it fails at."""

from __future__ import annotations

import hashlib
import json
import os
import random
import struct
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kdump.retention.run
from kdump.broker.cleaner.cleaner import Cleaner
from kdump.broker.load.recover import recover
from kdump.broker.producer.replay import Producers
from kdump.compat.kafka_reader import KafkaRecordReader
from kdump.finding import Finding, Severity
from kdump.format.batch import layout
from kdump.format.codec.compress import Compressor
from kdump.format.codec.decompress import Decompressor
from kdump.format.source import BytesSource
from kdump.render.retention_rows import compacted_json
from tests.support.cleaner_cases import (
    CLEANUP,
    base_of,
    cases,
    cases_of,
    codes,
    compacted,
    recorded,
    retained,
    run,
    set_time,
    set_times,
    set_up,
    texts,
)
from tests.support.partitions import aborted, checkpoint, marker, name, segment, write
from tests.support.runs import run_kdump
from tests.support.segments import GZIP, LZ4, SNAPPY, TRANSACTIONAL, ZSTD, Record, batch, message, wrapper

if TYPE_CHECKING:
    from collections.abc import Generator

    from kdump.broker.cleaner.cleaned_segment import CleanedSegment
    from kdump.broker.retention_results import Compacted
    from kdump.item import Progress

NOW = 1_800_000_000_000
RECOMPRESSED = {"codecs-0", "tombs-0"}  # have batches of snappy or lz4, which Java makes otherwise
CHECKPOINT = "cleaner-offset-checkpoint"
SUFFIXES = ("log", "index", "timeindex", "txnindex")


class Written:
    """Stands in for the cleaner, and keeps what it writes: by base offset the bytes, and of how many segments."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: dict[int, tuple[bytes, range]] = {}
        keep = self.made

        class Keeping(Cleaner):
            def __init__(self, *args: Any, **given: Any) -> None:
                self.parts: list[bytes] = []
                super().__init__(*args, write=lambda data: self.parts.append(bytes(data)), **given)

            def clean(self, group: range) -> Generator[Progress, None, CleanedSegment]:
                self.parts = []
                target = yield from super().clean(group)
                keep[target.base_offset] = b"".join(self.parts), group
                return target

        monkeypatch.setattr(kdump.retention.run, "Cleaner", Keeping)

    def apply(self, partition: Path, kafka: dict[int, dict[str, Any]]) -> None:
        """Put the new segments in the place of the old ones, with the indexes and times of Kafka's."""
        bases = sorted(int(path.stem) for path in partition.glob("*.log"))
        for base, (data, group) in self.made.items():
            for number in group:
                for suffix in SUFFIXES:
                    (partition / name(bases[number], suffix)).unlink(missing_ok=True)
            theirs = kafka[base]
            indexes = {suffix: bytes.fromhex(theirs[suffix]) for suffix in SUFFIXES[1:] if suffix in theirs}
            if hashlib.sha256(data).hexdigest() != theirs["log_sha256"]:  # positions are others
                found = recover(BytesSource(data, name(base)), base, 512, Producers.empty())
                indexes |= {"index": found.index(), "timeindex": found.timeindex()}
            write(partition, {name(base): data, **{name(base, suffix): one for suffix, one in indexes.items()}})
            set_time(partition / name(base), theirs["mtime_ms"])


# --- as Kafka did it ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("file", recorded("compaction"))
def test_a_pass_takes_and_leaves_what_it_did_in_kafka(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = Written(monkeypatch)
    exact = checked = 0
    for case in cases("compaction", file):
        place, config = set_up(case, tmp_path / "d")
        partition = base_of(case["from"])["partition"]
        if "map_bytes" in case:
            config["log.cleaner.dedupe.buffer.size"] = str(case["map_bytes"])
        for number, (asked, expected) in enumerate(zip(case["passes"], case["result"]["passes"], strict=True)):
            where = case["id"], number
            put_checkpoint(place, partition, asked)
            given = {"high_watermark": asked.get("hw"), "log_start_offset": asked.get("delete_records_to")}
            written.made.clear()
            found = compacted(run(place, config, asked["now"], compaction=True, clean=True, **given))
            check_range(found, expected, sizes=number == 0 or partition not in RECOMPRESSED, where=where)
            if expected["chosen"]:
                theirs = {one["base"]: one for one in expected["segments"] if not one.get("active")}
                check_segments(found, expected, theirs, where)
                written.apply(place / partition, theirs)
                shas = [hashlib.sha256(data).hexdigest() for data, _ in written.made.values()]
                exact += sum(theirs[base]["log_sha256"] == sha for base, sha in zip(written.made, shas, strict=True))
                checked += len(shas)
            after_pass(place, partition, config, asked, expected)
    assert checked
    assert exact == checked or file in ("c-codecs", "c-tomb")
    assert exact > checked // 3


def put_checkpoint(place: Path, partition: str, asked: dict[str, Any]) -> None:
    if asked.get("checkpoint") is not None:
        topic, _, number = partition.rpartition("-")
        (place / CHECKPOINT).write_bytes(checkpoint((topic, number, asked["checkpoint"])))
    elif "checkpoint" in asked:
        (place / CHECKPOINT).unlink(missing_ok=True)


def check_range(found: Compacted, expected: dict[str, Any], *, sizes: bool, where: object) -> None:
    part, kafka = json.loads("".join(compacted_json(found))), expected["range"]
    assert part["firstDirtyOffset"] == kafka["first_dirty_offset"], where
    assert part["firstUncleanableOffset"] == kafka["first_uncleanable_offset"], where
    assert part["why"] == kafka["why"], where
    assert bool(found.part.reset) == kafka["checkpoint_is_reset"], where
    assert part["cleanUntilOffset"] == kafka["clean_until_offset"], where
    assert part["mustCompactNow"] == kafka["must_compact_now"], where
    assert part["chosen"] == expected["chosen"], where
    if sizes:
        assert part["cleanBytes"] == kafka["clean_bytes"], where
        assert part["cleanableBytes"] == kafka["cleanable_bytes"], where
        assert part["totalBytes"] == kafka["total_bytes"], where
        assert part["dirtyRatio"] == kafka["dirty_ratio"], where


def check_segments(
    found: Compacted, expected: dict[str, Any], theirs: dict[int, dict[str, Any]], where: object
) -> None:
    row = json.loads("".join(compacted_json(found)))
    assert found.failure == expected.get("exception", ""), where
    assert row["endOffset"] == expected.get("end_offset"), where
    assert [one["baseOffset"] for one in row["segments"]] == list(theirs), where
    for mine, kafka in zip(row["segments"], theirs.values(), strict=True):
        assert mine["batches"] == kafka["batches"], where
        assert mine["records"] == kafka["records"], where


def after_pass(
    place: Path, partition: str, config: dict[str, str], asked: dict[str, Any], expected: dict[str, Any]
) -> None:
    """What the same thread does then: the checkpoint, and with compact,delete what goes by time and size."""
    text = expected["checkpoint_file_after"]
    if text is None:
        (place / CHECKPOINT).unlink(missing_ok=True)
    else:
        (place / CHECKPOINT).write_text(text)
    start = asked.get("delete_records_to")
    if "then_deleted" in expected:
        found = retained(run(place, config, asked["now"], high_watermark=asked.get("hw"), log_start_offset=start))
        assert found.deletion is not None
        gone = len(found.deletion.reasons)
        bases = [one.base_offset for one in found.log.segments]
        assert bases[gone:] == expected["then_deleted"]["segments_after"]
        start = found.deletion.start_offset
        for base in bases[:gone]:
            for suffix in (*SUFFIXES, "snapshot"):
                (place / partition / name(base, suffix)).unlink(missing_ok=True)
    if start is not None:
        topic, _, number = partition.rpartition("-")
        (place / "log-start-offset-checkpoint").write_bytes(checkpoint((topic, number, start)))


@pytest.mark.parametrize("case", cases_of("choose.jsonl"), ids=lambda case: case["id"])
def test_the_logs_that_kafka_cleaned_are_chosen(case: dict[str, Any], tmp_path: Path) -> None:
    write(tmp_path, {".kafka_cleanshutdown": b""})
    for partition, source in case["partitions"].items():
        base = base_of(source)
        write(
            tmp_path / partition,
            {path.name: path.read_bytes() for path in (CLEANUP / source / base["partition"]).iterdir()},
        )
        set_times(tmp_path / partition, base)
    if case["checkpoint"]:
        entries = [(*one.rsplit("-", 1), offset) for one, offset in case["checkpoint"].items()]
        write(tmp_path, {CHECKPOINT: checkpoint(*entries)})
    chosen = {}
    default = base_of("partitions/c-plain/logdir")["config"]
    for partition in case["partitions"]:
        config = texts({**default, **case["config"].get(partition.rpartition("-")[0], {})})
        found = compacted(run(tmp_path / partition, config, case["clock_ms"], compaction=True))
        if found.part.chosen:
            chosen[partition] = found.part.dirty_ratio or 0.0
    order = case["result"]["chosen_in_order"]
    assert sorted(chosen) == sorted(order)
    assert [chosen[one] for one in order] == sorted(chosen.values(), reverse=True)


# --- made logs ------------------------------------------------------------------------------------------------
COMPACT = {"cleanup.policy": "compact"}


def made(tmp_path: Path, *segments: tuple[int, list[bytes]], **more: bytes) -> Path:
    """A log.dir of some segments and an empty active one."""
    files: dict[str, bytes] = {}
    for base, parts in segments:
        files |= segment(base, parts, interval=512)
    files |= segment(10**6, [])
    write(tmp_path / "t-0", files)
    write(tmp_path, {".kafka_cleanshutdown": b"", **more})
    return tmp_path


def clean(place: Path, now: int = NOW, **config: str) -> Compacted:
    settings = COMPACT | {key.replace("_", "."): value for key, value in config.items()}
    return compacted(run(place, settings, now, compaction=True, clean=True))


def runs(found: Compacted) -> list[list[tuple[int, ...]]]:
    assert found.cleaned is not None
    return [list(one.runs) for one in found.cleaned]


def records(*keys: bytes | None, value: bytes | None = b"v") -> list[Record]:
    return [Record(value, key) for key in keys]


def test_a_batch_of_many_chunks_is_cleaned_as_a_small_one(tmp_path: Path) -> None:
    """Records are read some thousand at a time, and what changes of a large batch is read twice."""
    keys = [b"%d" % (number % 3000) for number in range(5000)]
    for codec in (0, GZIP, SNAPPY, LZ4, ZSTD):
        place = made(tmp_path / str(codec), (0, [batch(0, records(*keys), codec=codec), batch(5000, records(b"x"))]))
        assert runs(clean(place)) == [[(2000, 5000)]]


def test_what_is_written_can_be_read_and_has_the_right_crc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = Written(monkeypatch)
    random.seed(5)
    for codec in (0, GZIP, SNAPPY, LZ4, ZSTD):
        parts, offset = [], 0
        for size in (1, 3, 2500, 40, 1):
            some = [Record(random.choice((b"v" * 50, None)), b"%d" % random.randrange(900)) for _ in range(size)]
            parts.append(batch(offset, some, codec=codec))
            offset += size
        found = clean(made(tmp_path / str(codec), (0, parts)))
        assert found.cleaned is not None
        data = written.made[0][0]
        assert found.cleaned[0].size == len(data)
        read = list(recover(BytesSource(data, name(0)), 0, 512, Producers.empty()).epochs)
        assert recover(BytesSource(data, name(0)), 0, 512, Producers.empty()).valid_bytes == len(data), read
        assert offsets_in(data) == [one for first, last in found.cleaned[0].runs for one in range(first, last + 1)]


def offsets_in(data: bytes) -> list[int]:
    """The offsets of the records in a log, each key kept once."""
    from kdump.compat.kafka_walk import KafkaWalk

    reader, found = KafkaRecordReader(1 << 26), []
    source = BytesSource(data)
    for window in KafkaWalk(source, "", 0, source.size, 1 << 26).windows():
        for chunk in reader.chunks(window):
            assert chunk.problem is None
            found += chunk.rows[layout.R_OFFSET : chunk.filled * layout.RECORD_WIDTH : layout.RECORD_WIDTH].tolist()
    return found


def test_the_map_holds_nine_tenths_of_its_slots_and_stops_at_the_next_key(tmp_path: Path) -> None:
    keys = [b"%d" % number for number in range(30)]
    place = made(tmp_path, (0, [batch(3 * n, records(*keys[3 * n : 3 * n + 3])) for n in range(10)]))
    found = clean(place, log_cleaner_dedupe_buffer_size=str(24 * 10))
    assert found.end_offset == 9
    assert clean(place, log_cleaner_dedupe_buffer_size=str(24 * 11)).end_offset == 9
    assert clean(place, log_cleaner_dedupe_buffer_size=str(24 * 12)).end_offset == 10


def test_a_map_that_is_full_at_a_new_segment_covers_the_gap_before_it(tmp_path: Path) -> None:
    """As in a run of the real classes: nothing of the second segment fits in, and offsets 3 to 8 are missing."""
    place = made(tmp_path, (0, [batch(0, records(b"a", b"b", b"c"))]), (9, [batch(9, records(b"d"))]))
    assert clean(place, log_cleaner_dedupe_buffer_size=str(24 * 4)).end_offset == 9


def test_an_offset_map_too_small_for_a_key_fails_as_in_the_broker(tmp_path: Path) -> None:
    place = made(tmp_path, (0, [batch(0, records(b"a"))]))
    found = clean(place, log_cleaner_dedupe_buffer_size="24")
    assert found.end_offset is None
    assert "offset map is too small" in found.failure


def test_records_without_a_key_go_and_those_beyond_the_map_stay(tmp_path: Path) -> None:
    place = made(tmp_path, (0, [batch(0, records(None, b"a", None)), batch(3, records(b"a", None))]))
    assert runs(clean(place)) == [[(3, 3)]]


def test_an_aborted_transaction_goes_at_once_and_a_committed_one_stays(tmp_path: Path) -> None:
    first, second = (5, 0), (6, 0)
    parts = [
        batch(0, records(b"a"), flags=TRANSACTIONAL, producer=(*first, 0)),
        batch(1, records(b"a"), flags=TRANSACTIONAL, producer=(*second, 0)),
        marker(2, first, commit=True),
        marker(3, second, commit=False),
        batch(4, records(b"b")),
    ]
    place = made(tmp_path, (0, parts))
    write(place / "t-0", {name(0, "txnindex"): aborted(6, 1, 3, 4)})
    assert runs(clean(place)) == [[(0, 0), (2, 4)]]
    (place / "t-0" / name(0, "txnindex")).unlink()
    assert runs(clean(place)) == [[(1, 4)]]


def test_an_open_transaction_ends_what_may_be_cleaned(tmp_path: Path) -> None:
    parts = [batch(7, records(b"a"), flags=TRANSACTIONAL, producer=(5, 0, 0))]
    place = made(tmp_path, (0, [batch(0, records(b"a"))]), (7, parts))
    write(place, {"recovery-point-offset-checkpoint": checkpoint(("t", 0, 0))})
    (place / ".kafka_cleanshutdown").unlink()
    found = clean(place)
    assert (found.part.why, found.part.clean_until_offset) == (["open transaction"], 7)


def test_a_large_log_is_read_twice_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows end inside of batches: what is left of one is not read again with the next."""
    random.seed(2)
    parts, offset = [], 0
    while offset < 60_000:
        size = random.choice((1, 7, 300))
        some = [Record(random.randbytes(60), b"%d" % random.randrange(9000)) for _ in range(size)]
        parts.append(batch(offset, some))
        offset += size
    place = made(tmp_path, (0, parts[:200]), (struct.unpack_from(">q", parts[200])[0], parts[200:]))
    read: Counter[str] = Counter()
    pread, preadv = os.pread, os.preadv

    def counted(fd: int, got: int) -> None:
        read[Path(f"/proc/self/fd/{fd}").readlink().name] += got

    def one(fd: int, length: int, at: int) -> bytes:
        data = pread(fd, length, at)
        counted(fd, len(data))
        return data

    def many(fd: int, targets: Any, at: int) -> int:
        got = preadv(fd, targets, at)
        counted(fd, got)
        return got

    monkeypatch.setattr(os, "pread", one)
    monkeypatch.setattr(os, "preadv", many)
    clean(place)
    for path in (place / "t-0").glob("*.log"):
        assert read[path.name] <= 2 * path.stat().st_size, path.name
    assert max(read.values()) > 1 << 20


# --- what a pass fails at -------------------------------------------------------------------------------------
def failing(tmp_path: Path, part: bytes) -> tuple[Compacted, list[str]]:
    place = made(tmp_path, (0, [batch(0, records(b"a"))]), (1, [part]), (50, [batch(50, records(b"a"))]))
    items = run(place, COMPACT, NOW, compaction=True, clean=True)
    return compacted(items), codes(items)


def test_a_pass_fails_at_damage_and_says_so(tmp_path: Path) -> None:
    whole = batch(1, records(b"a", b"b"), codec=GZIP)
    found, said = failing(tmp_path / "gzip", whole[:70] + bytes(8) + whole[78:])
    assert found.end_offset is None
    assert found.failure
    assert said == ["B01"]
    found, said = failing(tmp_path / "torn", whole[:-3])
    assert "CorruptRecordException" in found.failure
    assert said == ["L02"]


def test_a_wrong_crc_does_not_keep_the_cleaner_from_cleaning(tmp_path: Path) -> None:
    whole = batch(1, records(b"a", b"b"))
    found, said = failing(tmp_path, whole[:-2] + b"!" + whole[-1:])
    assert (found.failure, found.end_offset) == ("", 10**6)
    assert said == ["B01"]


def test_a_limit_of_ours_is_no_failure_of_the_broker(tmp_path: Path) -> None:
    part = batch(1, records(*[b"%d" % n for n in range(300)]), codec=ZSTD)
    place = made(tmp_path, (0, [part]))
    items = run(place, COMPACT, NOW, compaction=True, clean=True, max_uncompressed_bytes=1024)
    assert codes(items) == ["L12"]
    severities = [one.severity for one in items if isinstance(one, Finding)]
    assert severities == [Severity.WARNING]
    end = run_kdump(
        ["retention", str(place), "--set", "cleanup.policy=compact", "--pass", "--max-uncompressed-bytes", "1024"],
        tmp_path,
    )
    assert end.exit == 5


def log_of(magic: int) -> bytes:
    """A log of one magic with several codecs; behind legacy messages one batch of magic 2."""
    keys = [b"%d" % n for n in range(20)]
    if magic < layout.MAGIC_V2:
        codecs = (GZIP, LZ4, SNAPPY)
        singles = [message(magic, offset, key=key) for offset, key in enumerate(keys)]
        wrappers = [wrapper(magic, 20 + 20 * k, keys, codec=codec) for k, codec in enumerate(codecs)]
        return b"".join([*singles, *wrappers, batch(80, records(*keys))])
    parts = [
        batch(0, records(*keys)),
        batch(20, records(*keys), codec=GZIP),
        batch(40, records(*keys), codec=LZ4),
        marker(60, (3, 0), commit=True),
        batch(61, records(*keys, value=None), codec=ZSTD),
    ]
    return b"".join(parts)


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_no_bytes_make_a_pass_raise(seed: int, magic: int, tmp_path: Path) -> None:
    random.seed(seed)
    whole = log_of(magic)
    for number in range(40):
        data = bytearray(whole)
        for _ in range(random.choice((1, 1, 2, 20))):
            data[random.randrange(len(data))] = random.randrange(256)
        if number % 5 == 0:
            del data[random.randrange(len(data)) :]
        place = made(tmp_path / str(number), (0, [whole]))
        (place / "t-0" / name(0)).write_bytes(data)
        items = run(place, COMPACT, NOW, compaction=True, clean=True)
        found = compacted(items)
        assert found.cleaned is not None
        assert codes(items) or not found.failure


# --- compression ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("size", [1, 100, 32 * 1024, 70_000, 300_000])
def test_what_is_compressed_can_be_read(codec: int, size: int) -> None:
    random.seed(size)
    data = bytes(random.choices(b"abcdef", k=size))
    packer = Compressor(codec)
    packed = b"".join(packer.add(data[at : at + 5000]) for at in range(0, size, 5000)) + packer.finish()
    stream = Decompressor(codec, memoryview(packed), layout.MAGIC_V2, 1 << 26)
    target, held = memoryview(bytearray(size + 1)), 0
    while got := stream.read_into(target[held:]):
        held += got
    assert (bytes(target[:held]), stream.problem) == (data, None)
