"""A stream of the data source: each row once, whatever a broker does with the logs meanwhile."""

from __future__ import annotations

import json
import pickle
import re
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from kdump.export import growth
from kdump.export.growth import StreamLoss, settled
from kdump.export.origin import Origin
from kdump.export.split import WantedLogs
from kdump.spark.errors import UnreadError
from kdump.spark.readers import Reader
from kdump.spark.source import KafkaSegments
from kdump.spark.source_options import OptionError, SourceOptions
from kdump.spark.stream import SegmentStream
from tests.support.consoles import plain, sections
from tests.support.damage_cases import damage_cases
from tests.support.fleet import NODE, OLD
from tests.support.growing_logs import GrowingLog, log_dir, value
from tests.support.runs import FIXTURES
from tests.support.tables import sorted_rows, split_table

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kdump.export.log_file import LogFile
    from kdump.storage.file_source import FileSource
    from tests.support.sample import OneIn


class Run:
    """A query over a stream, as Spark drives it: offsets go through JSON, tasks through pickle.

    Args:
        paths: what is read.
        options: of the stream.
    """

    def __init__(self, *paths: Path | str, **options: object) -> None:
        given = {name.lower(): str(one) for name, one in options.items()}
        self._options = {"table": "records", "paths": json.dumps(list(map(str, paths))), **given}
        self._source = KafkaSegments(self._options)
        stream = self._source.streamReader(self._source.schema())
        assert isinstance(stream, SegmentStream)
        self.stream = stream
        self.offset: dict[str, Any] = {}
        self.batches: list[pa.Table] = []

    def batch(self, end: dict[str, Any] | None = None) -> pa.Table:
        """One micro-batch; up to an offset, where it is done again after a failure."""
        if end is None:
            end = self.stream.latestOffset(self.offset, self.stream.getDefaultReadLimit())
        end = json.loads(json.dumps(end))
        tasks = pickle.loads(pickle.dumps(list(self.stream.partitions(self.offset, end))))
        rows = [one for task in tasks for one in self.stream.read(task)]
        self.offset = end
        found = pa.Table.from_batches(rows) if rows else pa.table({"offset": [], "baseOffset": []})
        self.batches.append(found)
        return found

    def offsets(self) -> list[int]:
        """The offsets of one micro-batch, in order."""
        return sorted(self.batch().column("offset").to_pylist())

    def all(self) -> list[int]:
        """The offsets of micro-batches until nothing is new."""
        found: list[int] = []
        while True:
            before = self.offset
            found += self.batch().column("offset" if self._options["table"] == "records" else "baseOffset").to_pylist()
            if self.offset == before:
                return sorted(one for one in found if one is not None)

    def again(self, **options: object) -> Run:
        """A query that goes on from the checkpoint."""
        given = {**self._options, **{name.lower(): str(one) for name, one in options.items()}}
        paths = json.loads(given.pop("paths"))
        after = Run(*paths, **given)
        after.offset = json.loads(json.dumps(self.offset))
        return after


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    return log_dir(tmp_path / "disk")


def test_a_log_grows_and_rolls_in_the_middle_of_a_batch(disk: Path) -> None:
    log = GrowingLog(disk / "orders-0")
    run = Run(disk)
    assert run.offsets() == []
    log.append(5)
    assert run.offsets() == list(range(20))
    log.append_part(0.5)
    assert run.offsets() == []
    log.append(0)
    assert run.offsets() == [20, 21, 22, 23]
    log.append_part(0.01)
    before = run.offset
    assert run.offsets() == []
    assert run.offset == before
    log.append(2)
    log.roll()
    log.append(1)
    assert run.again().offsets() == list(range(24, 40))


_LIMITS: list[tuple[str, dict[str, object], int]] = [
    ("batches", {}, 1),
    ("records", {"splitSize": "2k"}, 1),
    ("records", {"maxFilesPerTrigger": 1}, 5),
    ("batches", {"maxBytesPerTrigger": "3k"}, 20),
]


@pytest.mark.parametrize(("table", "limits", "least"), _LIMITS, ids=str)
def test_the_rows_are_those_of_the_local_engine(table: str, limits: dict[str, object], least: int) -> None:
    """Old releases and all codecs too; each row comes once."""
    paths = [str(NODE), *map(str, sorted(OLD.glob("*/*/*-0"))[:4])]
    wanted = "plain,zstd,txn,compact*,old*,gzip*"
    run = Run(*paths, table=table, topics=wanted, **limits)
    run.all()
    found = pa.concat_tables([one for one in run.batches if one.num_rows])
    assert len(run.batches) > least
    assert found.num_rows > 50
    local = split_table(paths, table, wanted=WantedLogs(topics=tuple(wanted.split(","))))
    assert sorted_rows(found) == sorted_rows(local)


def test_what_is_damaged_comes_once_as_well(tmp_path: Path, one_in: OneIn) -> None:
    rows = 0
    for case in one_in(20, damage_cases(FIXTURES / "damage")):
        case.build(tmp_path / case.name)
        for place in sorted({one.parent.parent for one in (tmp_path / case.name).rglob("*-[0-9]/*.log")}):
            run = Run(place, table="batches", mode="permissive", maxBytesPerTrigger="700")
            run.all()
            found = [one for one in run.batches if one.num_rows]
            local = sorted_rows(split_table([str(place)], "batches"))
            assert (sorted_rows(pa.concat_tables(found)) if found else []) == local, case.name
            rows += len(local)
    assert rows > 100


def test_compaction_changes_nothing_that_was_not_read(disk: Path) -> None:
    log = GrowingLog(disk / "orders-0")
    for _ in range(4):
        log.append(10)
        log.roll()
    run = Run(disk, maxBytesPerTrigger="5k")
    found = run.offsets()
    assert 0 < len(found) < 100
    log.compact(lambda base: True)
    log.append(3)
    found += run.all()
    assert found == list(range(172))


def test_what_was_compacted_away_comes_no_more_and_the_rest_once(disk: Path) -> None:
    log = GrowingLog(disk / "orders-0")
    for _ in range(4):
        log.append(10)
        log.roll()
    run = Run(disk, maxFilesPerTrigger=1)
    found = run.offsets()
    assert found == list(range(40))
    log.compact(lambda base: base % 16 == 0)
    assert run.all() == [at for at in range(40, 160) if at % 16 < 4]


def test_a_micro_batch_that_is_done_again_has_the_same_rows_after_a_roll_and_a_compaction(disk: Path) -> None:
    log = GrowingLog(disk / "orders-0")
    log.append(30)
    run = Run(disk)
    end = run.stream.latestOffset({}, ReadAllAvailable())
    log.append(5)
    log.roll()
    log.append(5)
    log.roll()
    log.compact(lambda base: True)
    assert sorted(run.batch(end).column("offset").to_pylist()) == list(range(120))
    assert run.again().offsets() == list(range(120, 160))


def test_a_compaction_between_the_plan_and_the_tasks_changes_nothing(disk: Path) -> None:
    log = GrowingLog(disk / "orders-0")
    for _ in range(3):
        log.append(10)
        log.roll()
    run = Run(disk, splitSize="2k", minPartitions=3)
    end = run.stream.latestOffset({}, ReadAllAvailable())
    tasks = list(run.stream.partitions({}, end))
    assert len(tasks) > 2
    log.compact(lambda base: True)
    rows = pa.Table.from_batches([one for task in tasks for one in run.stream.read(task)])
    assert sorted(rows.column("offset").to_pylist()) == list(range(120))
    assert set(rows.column("payload").to_pylist()) == {value(at) for at in range(120)}


def test_a_truncation_below_the_offset_fails_and_says_which_offsets(disk: Path) -> None:
    log = GrowingLog(disk / "orders-0")
    log.append(10)
    run = Run(disk)
    assert run.offsets() == list(range(40))
    log.truncate(24)
    with pytest.raises(UnreadError, match=r"orders-0: was truncated .* offsets 24 to 39 were .* onLoss=skip"):
        run.batch()
    skips = run.again(onLoss="skip")
    assert skips.offsets() == []
    assert next(iter(skips.offset.values()))["begin"] == 24
    log.append(2)
    assert skips.offsets() == list(range(24, 32))
    assert "begin" not in next(iter(skips.offset.values()))


def test_a_truncated_log_that_has_grown_beyond_the_offset_is_seen_too(disk: Path) -> None:
    log = GrowingLog(disk / "orders-0")
    log.append(10)
    run = Run(disk)
    run.batch()
    log.truncate(32)
    log._count = 3
    log.append(8)
    with pytest.raises(UnreadError, match="was truncated"):
        run.batch()
    skips = run.again(onLoss="skip")
    assert min(skips.offsets()) in (38, 39, 40, 41)


@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_truncation_that_was_outgrown_and_rolled_is_seen_too(is_compacted: bool, disk: Path) -> None:
    log = GrowingLog(disk / "orders-0")
    log.append(10)
    log.epochs((0, 0))
    run = Run(disk)
    assert run.offsets() == list(range(40))
    assert next(iter(run.offset.values()))["mark"].endswith(":0")
    log.truncate(32)
    log.epochs((0, 0), (2, 32))
    log.append(1)
    log.roll()
    log.append(8)
    log.roll()
    log.append(1)
    if is_compacted:  # no file is the same
        log.compact(lambda base: base != 32)
    with pytest.raises(UnreadError, match=r"was truncated or made anew: offsets (0|32) to 39 were handed out"):
        run.batch()
    assert min(run.again(onLoss="skip").offsets()) == 40


def test_a_log_that_was_written_anew_and_ends_below_what_was_read_tells_all_that_changed(disk: Path) -> None:
    """The epoch tells where the new offsets begin, the end only where there are none any more."""
    log = GrowingLog(disk / "orders-0")
    log.append(10)
    log.epochs((0, 0))
    run = Run(disk)
    assert run.offsets() == list(range(40))
    log.truncate(16)
    log.epochs((0, 0), (2, 16))
    for count in (1, 2, 0):
        log.append(count)
        log.roll()
    log.compact(lambda _: True)  # no file is the same
    with pytest.raises(UnreadError, match=r"offsets 16 to 39 were handed out"):
        run.batch()


def test_zeros_of_a_preallocated_log_do_not_have_it_read_from_its_start(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = GrowingLog(disk / "orders-0")
    log.append(3)
    (file,) = (disk / "orders-0").glob("*.log")
    size = file.stat().st_size
    with file.open("ab") as more:
        more.write(bytes(4096))
    monkeypatch.setattr(growth, "_right_batches", lambda *_: pytest.fail("the log is read from its start"))
    _, (only,) = growth.logs_from(str(disk / "orders-0"), Origin(None, 1, None, None, "orders", 0), None)
    with growth._opened(only) as source:
        assert growth._last_before(source, only, size, 11) == 11


def test_another_leader_epoch_behind_what_was_read_changes_nothing(disk: Path) -> None:
    log = GrowingLog(disk / "orders-0")
    log.append(10)
    log.epochs((0, 0))
    run = Run(disk)
    assert run.offsets() == list(range(40))
    log.epochs((0, 0), (3, 40))
    log.append(1)
    log.roll()
    log.append(1)
    log.compact(lambda base: True)
    assert run.offsets() == list(range(40, 48))


@pytest.mark.parametrize("bit", [3, 8, 20, 30, 31, 40, 62])
@pytest.mark.parametrize("number", [0, 5, 8, 9])
@pytest.mark.parametrize("rolls", [False, True])
def test_a_base_offset_with_a_wrong_bit_moves_no_edge(number: int, bit: int, *, rolls: bool, disk: Path) -> None:
    """Its batch comes once, under whatever offsets, and so does all that is written later."""
    log = GrowingLog(disk / "orders-0")
    log.append(10)
    log.flip(number, bit)
    run = Run(disk)
    rows = run.batch().num_rows
    assert rows == 40 or (number == 9 and rows == 36)
    for _ in range(2):
        log.append(3)
        if rolls:
            log.roll()
            log.append(1)
        run.batch()
    found = pa.concat_tables(run.batches).column("payload").to_pylist()
    assert sorted(found) == sorted(value(at) for at in range(72 if rolls else 64))
    assert next(iter(run.offset.values()))["next"] == (72 if rolls else 64)


def test_a_truncation_of_what_was_planned_fails_or_says_what_is_gone(
    disk: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = GrowingLog(disk / "orders-0")
    log.append(10)
    run = Run(disk)
    end = run.stream.latestOffset({}, ReadAllAvailable())
    log.truncate(24)
    with pytest.raises(UnreadError, match="offsets 24 to 39 were removed before"):
        run.batch(end)
    skips = run.again(onLoss="skip")
    assert sorted(skips.batch(end).column("offset").to_pylist()) == list(range(24))
    assert "offsets 24 to 39 were removed" in capfd.readouterr().err


def test_retention_that_overtook_the_stream_fails_or_says_which_offsets(
    disk: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = GrowingLog(disk / "orders-0")
    for _ in range(4):
        log.append(10)
        log.roll()
    run = Run(disk, maxFilesPerTrigger=1)
    assert run.offsets() == list(range(40))
    log.delete_first()
    assert run.again().offsets() == list(range(40, 80)), "what was read may go"
    log.delete_first()
    with pytest.raises(UnreadError, match="orders-0: offsets 40 to 79 were removed before the stream"):
        run.batch()
    assert run.again(onLoss="skip").all() == list(range(80, 160))
    assert "offsets 40 to 79 were removed" in capfd.readouterr().err


def test_retention_between_the_plan_and_the_tasks_fails_too(disk: Path) -> None:
    log = GrowingLog(disk / "orders-0")
    for _ in range(3):
        log.append(10)
        log.roll()
    run = Run(disk)
    end = run.stream.latestOffset({}, ReadAllAvailable())
    tasks = list(run.stream.partitions({}, end))
    log.delete_first()
    with pytest.raises(UnreadError):
        [one for task in tasks for one in run.stream.read(task)]
    shutil.rmtree(log.path)
    with pytest.raises(UnreadError, match="orders-0: offsets 0 to 119 were removed"):
        run.batch(end)


@pytest.mark.parametrize("limit", [{}, {"maxBytesPerTrigger": "1k"}])
def test_a_log_that_retention_removes_while_it_is_opened_ends_nothing(
    limit: dict[str, str], disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = GrowingLog(disk / "orders-0")
    for _ in range(3):
        log.append(10)
        log.roll()
    run = Run(disk, **limit)
    plain = growth._opened
    gone: list[str] = []

    def opened(one: LogFile) -> FileSource:
        if one.base_offset == (0 if limit else 120) and not gone:
            gone.append(one.path)
            log.append(1)
            log.roll()
            while len(log.segments) > 1:
                log.delete_first()
        return plain(one)

    monkeypatch.setattr(growth, "_opened", opened)
    if limit:
        with pytest.raises(UnreadError, match="offsets 0 to 39 were removed before the stream has read them"):
            run.batch()
        assert gone
        return
    assert run.offsets() == []
    log.append(1)
    assert run.offsets() == [124, 125, 126, 127]


def test_a_topic_that_was_made_anew_is_another_one(disk: Path) -> None:
    log = GrowingLog(disk / "orders-0", topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
    log.append(10)
    run = Run(disk)
    run.batch()
    shutil.rmtree(log.path)
    assert run.offsets() == []
    log = GrowingLog(disk / "orders-0", topic_id="AAAAAAAAAAAAAAAAAAAAAg")
    log.append(12)
    with pytest.raises(UnreadError, match="was truncated or made anew"):
        run.batch()
    assert run.again(onLoss="skip").offsets() == list(range(48))


def test_a_partition_that_moves_to_another_disk_of_its_broker_goes_on(tmp_path: Path) -> None:
    disks = [log_dir(tmp_path / one, own=one * 22) for one in "ab"]
    log = GrowingLog(disks[0] / "orders-0")
    other = GrowingLog(log_dir(tmp_path / "c", node=2, own="c" * 22) / "orders-0")
    other.append(1)
    log.append(10)
    run = Run(*disks, tmp_path / "c")
    assert len(run.offsets()) == 44
    shutil.copytree(log.path, disks[1] / "orders-0")
    assert run.offsets() == [], "while it is in both places"
    shutil.rmtree(disks[1] / "orders-0")
    log.move(disks[1])
    log.append(2)
    assert run.offsets() == list(range(40, 48))
    assert len(run.offset) == 2


def test_a_disk_that_is_mounted_elsewhere_goes_on(disk: Path, tmp_path: Path) -> None:
    log = GrowingLog(disk / "orders-0")
    log.append(10)
    run = Run(disk)
    run.batch()
    disk.rename(tmp_path / "elsewhere")
    log.path = tmp_path / "elsewhere" / "orders-0"
    log.append(1)
    after = Run(tmp_path / "elsewhere")
    after.offset = run.offset
    assert after.offsets() == list(range(40, 44))


def test_a_disk_that_is_not_there_fails_and_with_permissive_waits(disk: Path, tmp_path: Path) -> None:
    GrowingLog(disk / "orders-0").append(10)
    GrowingLog(log_dir(tmp_path / "b", own="b" * 22) / "other-0").append(1)
    run = Run(disk, tmp_path / "b", mode="permissive")
    run.batch()
    disk.rename(tmp_path / "away")
    disk.mkdir()
    GrowingLog(tmp_path / "b" / "more-0").append(1)
    assert run.offsets() == [0, 1, 2, 3]
    assert len(run.offset) == 3
    with pytest.raises(UnreadError, match="no Kafka files here"):
        run.again(mode="failfast").batch()


def test_an_executor_without_the_disk_fails(disk: Path, tmp_path: Path) -> None:
    GrowingLog(disk / "orders-0").append(10)
    run = Run(disk, mode="permissive")
    end = run.stream.latestOffset({}, ReadAllAvailable())
    tasks = list(run.stream.partitions({}, end))
    disk.rename(tmp_path / "away")
    with pytest.raises(UnreadError, match="not there on"):
        [one for task in tasks for one in run.stream.read(task)]


def test_trigger_available_now_ends_where_the_logs_ended_at_its_start(disk: Path) -> None:
    log = GrowingLog(disk / "orders-0")
    log.append(10)
    run = Run(disk, maxBytesPerTrigger="1k")
    run.stream.prepareForTriggerAvailableNow()
    found = run.offsets()
    log.append(5)
    log.roll()
    log.append(5)
    GrowingLog(disk / "later-0").append(3)
    found += run.all()
    assert found == list(range(40))
    assert len(run.again().all()) == 40 + 12


def test_a_file_or_two_copies_or_another_table_are_no_stream(disk: Path, tmp_path: Path) -> None:
    log = GrowingLog(disk / "orders-0")
    log.append(1)
    with pytest.raises(OptionError, match="is no directory: a stream reads"):
        Run(disk / "orders-0" / "00000000000000000000.log").batch()
    shutil.copytree(disk, tmp_path / "copy")
    with pytest.raises(OptionError, match=r"a copy of .*orders-0: a stream reads one"):
        Run(disk, tmp_path / "copy").batch()
    with pytest.raises(OptionError, match="a stream has the tables batches, records, and not findings"):
        Run(disk, table="findings")
    with pytest.raises(OptionError, match="a stream that reads nothing never ends"):
        Run(disk, maxFilesPerTrigger=0)
    assert not issubclass(SegmentStream, Reader), "a stream has no pushFilters either"
    source = KafkaSegments({"path": str(disk), "onLoss": "skip"})
    with pytest.raises(OptionError, match="option onLoss: is for readStream, and not for read"):
        source.reader(source.schema())


def test_topics_that_are_not_there_are_a_mistake(disk: Path) -> None:
    GrowingLog(disk / "orders-0").append(1)
    stream = SegmentStream(SourceOptions({"path": str(disk), "topics": "order"}))
    with pytest.raises(OptionError, match="nothing is 'order'; here are orders"):
        stream.initialOffset()
    assert SegmentStream(SourceOptions({"path": str(disk), "topics": "o*"})).initialOffset() == {}


def test_while_the_cleaner_puts_files_in_place_nothing_is_gone(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = GrowingLog(disk / "orders-0")
    log.append(10)
    log.roll()
    live, away = log.path / "00000000000000000000.log", log.path / "00000000000000000000.log.swap"
    live.rename(away)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            away.rename(live)

    monkeypatch.setattr("time.sleep", pause)
    assert settled(str(log.path)).log_bases == [0, 40]
    assert len(pauses) >= 3


def test_a_loss_is_one_line() -> None:
    assert "\n" not in StreamLoss(1, 2, is_gone=True).sentence + StreamLoss(1, 2, is_gone=False).sentence


def test_spark_runs_what_the_manual_shows_and_goes_on_from_the_checkpoint(
    spark: SparkSession, disk: Path, tmp_path: Path
) -> None:
    assert spark is not None
    code = plain(re.findall(r"(?ms)^\.EX\n(.*?)^\.EE$", sections("kdump-spark.7")["EXAMPLE"])[0])
    code = code.replace("/var/lib/kafka/data", str(disk)).replace("/lake", str(tmp_path))
    code = code.replace('"table", "records")', '"table", "records").option("maxBytesPerTrigger", "2k")')
    log = GrowingLog(disk / "orders-0")
    log.append(10)
    log.append_part(0.5)
    names: dict[str, Any] = {}
    exec(code, names)
    assert len(names["query"].recentProgress) > 1
    log.append(2)
    log.roll()
    log.append(1)
    log.compact(lambda base: True)
    exec(code, names)
    found = spark.read.parquet(str(tmp_path / "records")).select("offset").toArrow()
    assert sorted(found.column("offset").to_pylist()) == list(range(56))
