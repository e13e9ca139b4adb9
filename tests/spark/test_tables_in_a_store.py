"""Tables in a real S3 server: several hosts write at once, nights go on, and what is killed has changed nothing."""

from __future__ import annotations

import errno
import gc
import io
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyarrow import fs

import kdump.spark
from kdump.cli.main import kdump as command
from kdump.cli.options.store import into_store
from kdump.nights.present import parts_of, read_present
from kdump.storage import object_store, staged_tree
from kdump.storage.object_store import files_below, opened_file, put_file, read_whole, version_of
from kdump.storage.staged_tree import StagedTree, StoreChangedError
from tests.support.nights import CHANGES, node, partition, rest, rows_of
from tests.support.partitions import write

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

assert into_store is not None
VERIFY, EXPORT = ("verify", "--quiet"), ("export", "--quiet")


@pytest.fixture
def bucket(store: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a new bucket."""
    name = f"b{abs(hash(request.node.name)) % 10**12}"
    system = fs.S3FileSystem(endpoint_override=store, allow_bucket_creation=True, allow_bucket_deletion=True)
    system.create_dir(name)
    yield f"s3://{name}"
    system.delete_dir(name)


def run(*words: str) -> Any:
    done = CliRunner().invoke(command, list(words))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    return done


def rows_in(url: str) -> list[str]:
    """The rows that the list of a store has, but for what tells its run."""
    found: list[str] = []
    present = read_present(url)
    assert present is not None
    for part in parts_of(present):
        for path, rows in part.files:
            table = pq.read_table(io.BytesIO(read_whole(f"{url}/{path}")))
            assert table.num_rows == rows
            told = [name for name in table.column_names if name not in ("run", "readAt")]
            found += [f"{part.table} {path.rpartition('/')[0]} {row}" for row in table.select(told).to_pylist()]
    return sorted(found)


def test_two_hosts_write_at_once_and_one_reads_both(bucket: str, tmp_path: Path, spark: SparkSession) -> None:
    running = []
    for number, host in enumerate(("one", "two"), 1):
        data = node(tmp_path / host, number=number)
        words = [*VERIFY, str(data), "--to", f"{bucket}/fleet", "--update", "--host", host]
        running.append(subprocess.Popen([sys.executable, "-P", "-m", "kdump", *words], stderr=subprocess.PIPE))
    assert [(one.communicate()[1], one.returncode) for one in running] == [(b"", 0)] * 2
    table = kdump.spark.table(f"{bucket}/fleet", "segments", spark=spark)
    rows = table.collect()
    assert {(row.host, row.broker, row.topic, row.partition) for row in rows} == {
        (host, number, topic, 0) for number, host in enumerate(("one", "two"), 1) for topic in "abc"
    }
    assert len(rows) == 24
    assert table.columns[:6] == ["cluster", "broker", "host", "logDir", "topic", "partition"]
    assert not list(tmp_path.glob("s3*")), "no directory here has the name of a store"


@pytest.mark.parametrize("verb", [VERIFY, EXPORT])
def test_a_second_night_has_the_tables_of_a_directory_and_reads_what_is_new(
    bucket: str, tmp_path: Path, verb: tuple[str, ...]
) -> None:
    data = node(tmp_path / "data")
    assert run(*verb, str(data), "--to", bucket, "--update").exit_code == 0
    before = set(files_below(bucket))
    CHANGES["append"](data)
    CHANGES["deletion"](data)
    rest()
    second = run(*verb, str(data), "--to", bucket, "--update", "--prune")
    fresh = run(*verb, str(data), "--to", str(tmp_path / "fresh"), "--update")
    assert second.exit_code == fresh.exit_code == 0
    local = sorted(row for rows in rows_of(tmp_path / "fresh").values() for row in map(str, rows))
    assert len(rows_in(bucket)) == len(local)
    after = {one for one in files_below(bucket) if one.endswith(".parquet")}
    present = read_present(bucket)
    assert present is not None
    assert after == {path for part in parts_of(present) for path, _ in part.files}
    assert after & before, "closed parts keep their files"


def test_what_is_killed_while_it_puts_files_has_changed_nothing_that_is_read(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = node(tmp_path / "data")
    for lasts in (0, 2, 100):  # files that are put until the kill
        left = [lasts]

        def put(url: str, content: str | bytes, left: list[int] = left) -> None:
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            put_file(url, content)

        before = rows_in(bucket) if read_present(bucket) is not None else []
        write(data, partition(f"more{lasts}-0", segments=1))
        rest()
        monkeypatch.setattr(staged_tree, "put_file", put)
        run(*VERIFY, str(data), "--to", bucket, "--update")
        if lasts < 100:
            assert (rows_in(bucket) if read_present(bucket) is not None else []) == before
    run(*VERIFY, str(data), "--to", str(tmp_path / "fresh"), "--update")
    assert len(rows_in(bucket)) == sum(map(len, rows_of(tmp_path / "fresh").values()))


def test_who_comes_second_gives_way(bucket: str, tmp_path: Path) -> None:
    data = node(tmp_path / "data")
    run(*VERIFY, str(data), "--to", bucket, "--update")
    tree = StagedTree(bucket)
    try:
        write(data, partition("more-0", segments=1))
        rest()
        run(*VERIFY, str(data), "--to", bucket, "--update")

        with Path(tree.directory, "_kdump", "present.json").open("ab") as file:
            file.write(b" ")
        with pytest.raises(staged_tree.StoreChangedError, match="another run has written there meanwhile"):
            tree.put()
    finally:
        tree.close()


def test_an_export_goes_into_a_store_and_is_not_mixed_with_another(bucket: str, tmp_path: Path) -> None:
    data = node(tmp_path / "data")
    assert run(*EXPORT, str(data), "--to", f"{bucket}/records").exit_code == 0
    assert run(*EXPORT, str(data), "--to", f"{bucket}/records").exit_code == 0, "again: it is done"
    names = [one for one in files_below(f"{bucket}/records") if one.endswith(".parquet")]
    assert sum(pq.read_table(io.BytesIO(read_whole(f"{bucket}/records/{one}"))).num_rows for one in names) == 60
    other = run(*EXPORT, str(data), "--table", "batches", "--to", f"{bucket}/records")
    assert other.exit_code == 2
    assert "holds an export of something else" in other.output
    spark = run(*EXPORT, str(data), "--to", f"{bucket}/more", "--engine", "spark")
    assert "tables go to a store from this machine" in spark.output
    missing = run(*EXPORT, str(data), "--to", "s3://nothing-has-this-name/x")
    assert missing.exit_code == 5
    assert len(missing.output.splitlines()) == 1, "it is told before the work"
    nothing = run(*EXPORT, str(tmp_path / "nothing"), "--to", f"{bucket}/nothing")
    assert nothing.exit_code == 10


def test_an_object_is_known_by_its_etag_too(bucket: str) -> None:
    url = f"{bucket}/log"
    assert version_of(url) == (0, "")
    put_file(url, b"one")
    first = version_of(url)
    put_file(url, b"two")
    second = version_of(url)
    assert first is not None
    assert second is not None
    assert first[0] == second[0] == 3
    assert first != second


def test_a_name_that_leads_away_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged_tree, "files_below", lambda _url: ["_kdump/../../x"])
    monkeypatch.setattr(staged_tree, "read_whole", lambda _url: b"")
    monkeypatch.setattr(staged_tree, "put_file", lambda _url, _content: None)
    monkeypatch.setattr(staged_tree, "remove_file", lambda _url: None)
    with pytest.raises(OSError, match="leads away"):
        StagedTree("s3://bucket/tables")
    assert object_store is not None


def test_a_place_of_somebody_else_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the first run nor the next one, which would find what the first has left, writes or removes there."""
    done: list[str] = []
    monkeypatch.setattr(staged_tree, "files_below", lambda _url: ["notes.tmp", "sub/readme.txt"])
    monkeypatch.setattr(staged_tree, "put_file", lambda url, _content: done.append(url))
    monkeypatch.setattr(staged_tree, "remove_file", done.append)
    for _ in range(2):
        with pytest.raises(OSError, match="nothing says that kdump has made it"):
            StagedTree("s3://bucket/tables")
    assert done == []


def test_what_was_not_staged_is_not_removed_and_a_list_of_another_run_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    lists = {"s3://bucket/tables/_kdump/present.json": b"{}"}
    done: list[str] = []
    monkeypatch.setattr(staged_tree, "files_below", lambda _url: ["_kdump/begun.json", "_kdump/present.json", "a.tmp"])

    def read(url: str) -> bytes:
        if url not in lists:
            raise FileNotFoundError(url)
        return lists[url]

    monkeypatch.setattr(staged_tree, "read_whole", read)
    monkeypatch.setattr(staged_tree, "put_file", lambda url, _content: done.append(url))
    monkeypatch.setattr(staged_tree, "remove_file", done.append)
    tree = StagedTree("s3://bucket/tables")
    tree.put()
    assert done == []
    (Path(tree.directory) / "_kdump" / "present.json").write_bytes(b'{"run": 2}')
    lists["s3://bucket/tables/_kdump/present.json"] = b'{"run": 3}'
    with pytest.raises(StoreChangedError):
        tree.put()
    assert done == []
    tree.close()


class _Breaks(io.BytesIO):
    """A file that a disk gives up on."""

    def read(self, size: int | None = -1) -> bytes:
        if self.tell():
            raise OSError(errno.EIO, "Input/output error")
        return super().read(size)


@pytest.mark.parametrize("before", [None, b"as it was"])
def test_a_put_that_does_not_come_to_its_end_publishes_nothing(
    before: bytes | None, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, own = f"{bucket}/one", tmp_path / "one"
    if before is not None:
        put_file(url, before)
    data = bytes(14 << 20)
    own.write_bytes(data)
    with monkeypatch.context() as patch:
        patch.setattr(object_store, "_PART", 6 << 20)
        patch.setattr(Path, "open", lambda _path, _mode: _Breaks(data))
        with pytest.raises(OSError, match="Input/output error") as raised:
            put_file(url, str(own))
    assert raised.value.filename == url
    del raised
    gc.collect()
    assert files_below(bucket) == ([] if before is None else ["one"])
    assert before is None or read_whole(url) == before
    put_file(url, str(own))
    assert read_whole(url) == data


def test_what_cannot_be_opened_is_one_line(bucket: str) -> None:
    with pytest.raises(FileNotFoundError) as raised, opened_file(f"{bucket}/nothing"):
        pass
    assert raised.value.filename == f"{bucket}/nothing"
    assert "\n" not in str(raised.value)
