"""The gate before a start (`verify --fail-on loss`): it reads what the start reads, and says what that takes away."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from kdump import verify
from kdump.broker.config import Config
from kdump.broker.load.coming_start import HELD
from kdump.broker.load.log_manager import LoadSettings
from kdump.checks.gate import foresee
from kdump.checks.options import VerifyOptions
from kdump.item import Unchecked
from kdump.rows.verdict import Prediction
from kdump.storage.file_source import FileSource
from tests.support.partitions import below, checkpoint, meta, name, offset_index, segment, snapshot, time_index, write
from tests.support.runs import run_kdump
from tests.support.segments import batch
from tests.support.unprivileged import unprivileged
from tests.support.verify_runs import held

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.partitions import Files

META = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"
GIB = 1 << 30


def intact(bases: tuple[int, ...] = (0, 10, 20), log_dir: Files | None = None) -> Files:
    """A log directory with one partition of segments of ten batches, whose last log ends at 30."""
    files: Files = {"meta.properties": meta(1)} if log_dir is None else dict(log_dir)
    for base in bases:
        files |= below("t-0", segment(base, [batch(base + n, [b"value"]) for n in range(10)], interval=0))
        files[f"t-0/{name(base + 10, 'snapshot')}"] = snapshot()
    files["t-0/partition.metadata"] = META
    files["t-0/leader-epoch-checkpoint"] = checkpoint((0, 0))
    return files


def clean(**more: bytes) -> Files:
    return {".kafka_cleanshutdown": b"", "meta.properties": meta(1), **more}


def flipped(files: Files, path: str, at: int) -> Files:
    data = bytearray(files[path])
    data[at] ^= 1
    return {**files, path: bytes(data)}


def gate(path: Path, *more: str) -> tuple[int, list[dict[str, Any]]]:
    run = run_kdump(["verify", "--start", "auto", "--fail-on", "loss", "--format", "json", *more, str(path)], path)
    return run.exit, [json.loads(line) for line in run.stdout.splitlines()]


def told(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["type"] == "prediction"]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each read of a file."""
    counts: list[int] = []
    read_at, read_into = FileSource.read_at, FileSource.read_into

    def counted_at(self: FileSource, position: int, length: int) -> bytes:
        data = read_at(self, position, length)
        counts.append(len(data))
        return data

    def counted_into(self: FileSource, position: int, target: memoryview) -> int:
        done = read_into(self, position, target)
        counts.append(done)
        return done

    monkeypatch.setattr(FileSource, "read_at", counted_at)
    monkeypatch.setattr(FileSource, "read_into", counted_into)
    return counts


def sparse_disk(root: Path, partitions: int, segments: int) -> Path:
    """A log directory after a clean shutdown whose logs have 1 GiB each, all of it holes but for the last batch."""
    write(root, {".kafka_cleanshutdown": b"", "meta.properties": meta(1)})
    for number in range(partitions):
        directory = root / f"t-{number}"
        files: Files = {"partition.metadata": META, "leader-epoch-checkpoint": checkpoint((0, 0))}
        for at in range(segments):
            base, last = at * 1000, batch(at * 1000 + 999, [b"value"])
            files[name(base)] = b""
            files[name(base, "index")] = offset_index(base, (base + 500, GIB // 2), (base + 999, GIB - len(last)))
            files[name(base, "timeindex")] = time_index(base, (1_700_000_000_000, base + 999))
            files[name(base + 1000, "snapshot")] = snapshot()
        write(directory, files)
        for at in range(segments):
            last = batch(at * 1000 + 999, [b"value"])
            with (directory / name(at * 1000)).open("r+b") as log:
                log.truncate(GIB)
                log.seek(GIB - len(last))
                log.write(last)
    return root


# --- what it reads --------------------------------------------------------------------------------------------
def test_of_a_clean_disk_of_terabytes_it_reads_some_kilobytes_a_partition(tmp_path: Path, read: list[int]) -> None:
    disk = sparse_disk(tmp_path / "logs", partitions=20, segments=50)
    size = sum(file.stat().st_size for file in disk.glob("*/*.log"))
    items = list(
        foresee(
            [str(disk)],
            VerifyOptions(is_auto=True, only_starts=True, settings=LoadSettings(1_700_000_000_000, Config({}))),
        )
    )
    rows = [item for item in items if isinstance(item, Prediction)]
    assert [(row.as_, row.log_end_offset, row.takes_intact) for row in rows] == [("clean", 50_000, False)] * 20
    left = [item for item in items if isinstance(item, Unchecked)]
    assert [one.reason for one in left] == ["50 logs (53.7 GB): the start does not read them whole"] * 20
    assert size == 1000 * GIB
    assert 0 < sum(read) < 20 * 100_000


def test_after_a_crash_it_reads_the_logs_from_the_recovery_point_on(tmp_path: Path) -> None:
    files = intact(log_dir={"meta.properties": meta(1), "recovery-point-offset-checkpoint": checkpoint(("t", 0, 15))})
    logs = write(tmp_path / "logs", flipped(files, f"t-0/{name(0)}", 70))  # the first log is not looked at
    code, rows = gate(logs)
    (row,) = told(rows)
    size = len(files[f"t-0/{name(10)}"])
    assert (code, row["as"], row["logEndOffset"], row["bytesRead"]) == (0, "unclean", 30, 2 * size)
    assert rows[-1]["unchecked"] == [{"file": str(logs / "t-0"), "reason": "1 log (760 B): the start does not read "
                                      "them whole"}]  # fmt: skip


def test_what_it_does_not_read_does_not_count(tmp_path: Path) -> None:
    logs = write(tmp_path / "logs", flipped({**intact(), **clean()}, f"t-0/{name(10)}", 200))
    assert run_kdump(["verify", str(logs)], tmp_path).exit == 3
    code, rows = gate(logs)
    assert (code, told(rows)[0]["as"]) == (0, "clean")
    assert rows[-1]["unchecked"]


# --- 0 and 3 --------------------------------------------------------------------------------------------------
def test_a_torn_tail_after_a_power_loss_takes_nothing_intact(tmp_path: Path) -> None:
    files = intact()
    files[f"t-0/{name(20)}"] = files[f"t-0/{name(20)}"][:-5]
    code, rows = gate(write(tmp_path / "logs", files))
    (row,) = told(rows)
    assert (code, row["logEndOffset"], row["recordsLost"], row["bytesLost"] > 0) == (0, 29, 0, True)


def test_intact_records_behind_a_flipped_byte_are_taken(tmp_path: Path) -> None:
    logs = write(tmp_path / "logs", flipped(intact(), f"t-0/{name(10)}", 200))
    code, rows = gate(logs)
    assert (code, told(rows)[0]["recordsLost"]) == (3, 17)
    assert run_kdump(["verify", "--fail-on", "loss", "--quiet", str(logs)], tmp_path).exit == 3


def test_records_that_a_clean_start_hides_behind_an_index_that_lies_are_taken(tmp_path: Path) -> None:
    """The last batch has a wrong offset: a broker finds nothing at the last entry of the index, and the end falls."""
    files = {**intact(), **clean()}
    log = bytearray(files[f"t-0/{name(20)}"])
    log[-76:-68] = (22).to_bytes(8, "big")
    logs = write(tmp_path / "logs", {**files, f"t-0/{name(20)}": bytes(log)})
    code, rows = gate(logs)
    (row,) = told(rows)
    assert (code, row["logEndOffset"]) == (3, 20)
    assert row["hiddenRecords"] > 0


def test_what_lies_below_the_log_start_does_not_count(tmp_path: Path) -> None:
    files = intact(log_dir={"meta.properties": meta(1), "log-start-offset-checkpoint": checkpoint(("t", 0, 30))})
    code, rows = gate(write(tmp_path / "logs", flipped(files, f"t-0/{name(10)}", 200)))
    (row,) = told(rows)
    assert (code, row["logStartOffset"], row["recordsLost"]) == (0, 30, 29)
    files["log-start-offset-checkpoint"] = checkpoint(("t", 0, 29))
    code, rows = gate(write(tmp_path / "other", flipped(files, f"t-0/{name(10)}", 200)))
    assert (code, told(rows)[0]["recordsLost"]) == (3, 29)


def test_a_log_start_above_the_end_deletes_what_is_intact(tmp_path: Path) -> None:
    files = intact(log_dir=clean(**{"log-start-offset-checkpoint": checkpoint(("t", 0, 99))}))
    code, rows = gate(write(tmp_path / "logs", files))
    assert (code, told(rows)[0]["recordsLost"]) == (3, 30)


def test_a_partition_that_does_not_load_is_taken(tmp_path: Path) -> None:
    files = {**intact(), **clean(), "t-0/leader-epoch-checkpoint": b"7\n0\n"}
    code, rows = gate(write(tmp_path / "logs", files))
    assert (code, told(rows)[0]["loads"]) == (3, False)


def test_what_a_broker_was_to_delete_does_not_count(tmp_path: Path) -> None:
    files = {**intact(), **clean()}
    gone = {path.replace("t-0/", f"t-0.{'a' * 32}-delete/"): data for path, data in files.items()}
    logs = write(tmp_path / "logs", {**gone, f"t-1/{name(0)}.deleted": files[f"t-0/{name(0)}"], **clean()})
    write(logs / "t-1", segment(10, [batch(10)]) | {"partition.metadata": META})
    code, rows = gate(logs)
    assert (code, [row["partition"] for row in told(rows)]) == (0, ["t-1"])


# --- which start ----------------------------------------------------------------------------------------------
def test_a_partition_without_its_log_directory_is_told_of_both_starts(tmp_path: Path) -> None:
    write(tmp_path / "somewhere", intact(log_dir={}))
    code, rows = gate(tmp_path / "somewhere" / "t-0")
    assert (code, [row["as"] for row in told(rows)]) == (0, ["clean", "unclean"])
    assert {row["start"] for row in told(rows)} == {"auto"}


def test_a_broker_that_runs_is_taken_to_die_now(tmp_path: Path) -> None:
    logs = write(tmp_path / "logs", {**intact(), **clean(), ".lock": b""})
    with held(logs):
        _, rows = gate(logs)
    (row,) = told(rows)
    assert row["as"] == "unclean"
    assert HELD in row["assumed"]


# --- 5, 6, 10, 2 ----------------------------------------------------------------------------------------------
def test_a_file_that_cannot_be_read_is_5(tmp_path: Path) -> None:
    logs = write(tmp_path / "logs", {**intact(), **clean()})
    (logs / "t-0" / name(20)).chmod(0)
    run = unprivileged("verify", "--fail-on", "loss", "--format", "json", str(logs), cwd=tmp_path)
    assert run.exit == 5, run.stderr
    assert b"t-0" in run.stderr


@pytest.mark.parametrize("is_there", [True, False], ids=["empty", "missing"])
def test_an_empty_or_missing_directory_is_10(tmp_path: Path, *, is_there: bool) -> None:
    if is_there:
        (tmp_path / "logs").mkdir()
    assert run_kdump(["verify", "--fail-on", "loss", "logs"], tmp_path).exit == 10


def test_a_file_is_no_place_to_start(tmp_path: Path) -> None:
    logs = write(tmp_path / "logs", {**intact(), **clean()})
    run = run_kdump(["verify", "--fail-on", "loss", str(logs / "t-0" / name(0))], tmp_path)
    assert run.exit == 5
    assert b"name a log directory" in run.stderr


@pytest.mark.parametrize(
    "more", [["--replicas"], ["--to", "out"], ["--contiguous"], ["--format", "html"]], ids=lambda more: more[0]
)
def test_what_reads_more_is_a_wrong_use(more: list[str], tmp_path: Path) -> None:
    write(tmp_path / "logs", {**intact(), **clean()})
    assert run_kdump(["verify", "--fail-on", "loss", *more, "logs"], tmp_path).exit == 2


# --- how it is shown ------------------------------------------------------------------------------------------
def whole(logs: Path, *more: str) -> Iterator[str]:
    run = run_kdump(["verify", "--fail-on", "loss", *more, logs.name], logs.parent)
    yield from run.stdout.decode().splitlines()


def test_the_page_counts_what_loses_nothing_and_claims_nothing_of_what_was_not_read(tmp_path: Path) -> None:
    files = {**intact(), **clean()}
    more = {path.replace("t-0", "t-1"): data for path, data in files.items()}
    page = "\n".join(whole(write(tmp_path / "logs", {**files, **more})))
    assert "2 partitions loaded, logs and indexes left unchanged" in page
    assert "the start takes nothing intact away" in page
    assert "nothing else was checked" in page
    assert "SOUND" not in page
    assert list(whole(tmp_path / "logs", "--quiet")) == []


def test_quiet_shows_what_would_be_lost(tmp_path: Path) -> None:
    page = "\n".join(whole(write(tmp_path / "logs", flipped(intact(), f"t-0/{name(10)}", 200)), "--quiet"))
    assert "17 records" in page
    assert "1 partition would lose what is intact" in page


# --- directories with a file too many -------------------------------------------------------------------------
def test_a_segment_file_that_was_moved_into_a_log_directory_hides_no_partition(tmp_path: Path) -> None:
    logs = write(tmp_path / "logs", {**intact(), **clean(), name(3, "snapshot"): snapshot()})
    code, rows = gate(logs)
    assert (code, [row["partition"] for row in told(rows)]) == (0, ["t-0"])
    assert b"t-0" in run_kdump(["verify", str(logs)], tmp_path).stdout


def test_the_library_and_the_html_report_know_the_start_that_is_coming(tmp_path: Path) -> None:
    logs = write(tmp_path / "logs", {**intact(), **clean()})
    (row,) = verify(logs / "t-0", start="auto").predictions
    assert (row.start, row.as_, row.bytes_read) == ("auto", "clean", 0)
    run = run_kdump(["verify", "--start", "auto", "--format", "html", str(logs)], tmp_path)
    assert run.exit == 0, run.stderr
    assert b"auto" in run.stdout
