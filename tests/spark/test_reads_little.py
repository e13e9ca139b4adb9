"""What the data source reads for what is asked, and into how many tasks it is cut; no session is needed."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from kdump.spark.by_segment import SegmentParts
from kdump.spark.source import KafkaSegments
from tests.support.segments import batch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql.datasource import DataSourceReader, InputPartition


def planned(paths: Sequence[str], table: str, **options: str) -> tuple[DataSourceReader, Sequence[InputPartition]]:
    source = KafkaSegments({"paths": json.dumps(list(paths)), "table": table, **options})
    reader = source.reader(source.schema())
    return reader, reader.partitions()


def bytes_read(path: Path, monkeypatch: pytest.MonkeyPatch, **options: str) -> tuple[int, int]:
    """The bytes that are read of files for a question, and the rows."""
    sizes: list[int] = []
    pread, preadv = os.pread, os.preadv

    def one(fd: int, length: int, position: int) -> bytes:
        found = pread(fd, length, position)
        sizes.append(len(found))
        return found

    def several(fd: int, buffers: Sequence[bytearray | memoryview], position: int) -> int:
        sizes.append(preadv(fd, buffers, position))
        return sizes[-1]

    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", one)
        patch.setattr(os, "preadv", several)
        reader, tasks = planned([str(path)], "records", **options)
        batches: list[Any] = [batch for task in tasks for batch in reader.read(task)]
    return sum(sizes), sum(batch.num_rows for batch in batches)


def test_all_of_a_log_is_read_where_all_is_asked_for(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = sum(log.stat().st_size for log in large.glob("*.log"))
    read, rows = bytes_read(large, monkeypatch)
    assert read >= size
    assert rows == 48_000


@pytest.mark.parametrize("asked", [{"fromOffset": "40000", "toOffset": "40001"}, {"toTime": "1"}])
def test_a_small_range_reads_little(asked: dict[str, str], large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, rows = bytes_read(large, monkeypatch, **asked)
    assert rows == (1 if "fromOffset" in asked else 0)
    assert read < 2 * 1024 * 1024


@pytest.mark.parametrize("table", ["findings", "segments", "losses", "partitionSummary"])
@pytest.mark.parametrize(("logs", "size", "tasks"), [(256, 1 << 30, 256), (2_000, 0, 8)])
def test_the_logs_of_a_large_partition_are_several_tasks(
    table: str, logs: int, size: int, tasks: int, tmp_path: Path
) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    for base in range(logs):
        with (folder / f"{base:020}.log").open("wb") as log:
            log.write(batch(base) if size else b"")
            log.truncate(size)  # of which a block is on the disk
    source = SegmentParts({"path": str(folder), "table": table})
    assert len(source.reader(source.schema()).partitions()) >= tasks


def test_planning_asks_a_store_for_directories_and_not_for_each_log(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import boto3
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication

    asked: list[str] = []
    plain = DomainDispatcherApplication.__call__

    def counted(self: Any, environ: dict[str, Any], start: Any) -> Any:
        asked.append(environ["REQUEST_METHOD"])
        return plain(self, environ, start)

    client = boto3.client("s3", endpoint_url=store)
    client.create_bucket(Bucket="planned")
    for topic in ("t-0", "t-1", "u-0"):
        for base in range(5):
            client.put_object(Bucket="planned", Key=f"ld/{topic}/{base:020}.log", Body=b"")
    for table in ("batches", "records", "findings", "segments", "unread"):
        asked.clear()
        with monkeypatch.context() as patch:
            patch.setattr(DomainDispatcherApplication, "__call__", counted)
            planned(["s3://planned/ld"], table)
        assert asked == ["GET"] * 4, table
