"""Tables that are kept night by night are those of a fresh run, and what did not change keeps its files."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kdump.cli.main import kdump
from kdump.nights import known
from tests.support.nights import (
    BATCHES,
    CHANGES,
    compaction,
    damage,
    deletion,
    files_of,
    flip,
    last_run,
    listed,
    new_topic,
    node,
    on_disk,
    partition,
    rest,
    rows_of,
    truncation,
)
from tests.support.partitions import name, write

if TYPE_CHECKING:
    from tests.support.sample import OneIn

RECORDS = ("export", "--table", "records")
VERIFY = ("verify", "--quiet")
VERBS = {"verify": VERIFY, **{one: ("export", "--table", one) for one in ("records", "batches", "findings", "losses")}}


def night(verb: tuple[str, ...], data: Path, store: Path, *more: str) -> Any:
    """One run that keeps a store; none may end with a traceback."""
    run = CliRunner().invoke(kdump, [*verb, str(data), "--to", str(store), "--update", *more])
    assert run.exception is None or isinstance(run.exception, SystemExit), run.exc_info
    return run


@pytest.mark.sampled(3)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("change", CHANGES)
def test_the_second_night_has_the_tables_of_a_fresh_run(tmp_path: Path, change: str, verb: str) -> None:
    data = node(tmp_path / "data")
    night(VERBS[verb], data, tmp_path / "store")
    before = {one: (tmp_path / "store" / one).stat().st_mtime_ns for one in files_of(tmp_path / "store")}
    CHANGES[change](data)
    rest()
    second = night(VERBS[verb], data, tmp_path / "store", "--prune")
    fresh = night(VERBS[verb], data, tmp_path / "fresh")
    assert rows_of(tmp_path / "store") == rows_of(tmp_path / "fresh")
    assert (second.exit_code, second.stdout) == (fresh.exit_code, fresh.stdout)
    assert on_disk(tmp_path / "store") == files_of(tmp_path / "store")
    assert last_run(tmp_path / "store")["files"] < last_run(tmp_path / "fresh")["files"]
    after = {one: (tmp_path / "store" / one).stat().st_mtime_ns for one in files_of(tmp_path / "store")}
    assert not before or before.items() & after.items(), "a part that did not change keeps its file"


@pytest.mark.parametrize("verb", VERBS)
def test_a_night_without_a_change_reads_no_log_and_writes_no_file_of_rows(tmp_path: Path, verb: str) -> None:
    data = node(tmp_path / "data")
    damage(data)
    rest()
    first = night(VERBS[verb], data, tmp_path / "store")
    before = [(one, (tmp_path / "store" / one).stat().st_mtime_ns) for one in on_disk(tmp_path / "store")]
    second = night(VERBS[verb], data, tmp_path / "store")
    assert before == [(one, (tmp_path / "store" / one).stat().st_mtime_ns) for one in on_disk(tmp_path / "store")]
    assert last_run(tmp_path / "store")["files"] == 0
    assert (first.exit_code, first.stdout) == (second.exit_code, second.stdout)
    assert first.exit_code == 3, "what was wrong yesterday is told today"


def test_what_has_vanished_goes_with_prune_only(tmp_path: Path) -> None:
    data, store = node(tmp_path / "data"), tmp_path / "store"
    night(RECORDS, data, store)
    before = rows_of(store)["records"]
    deletion(data)
    rest()
    night(RECORDS, data, store)
    assert rows_of(store)["records"] == before
    night(RECORDS, data, store, "--prune")
    assert len(rows_of(store)["records"]) == len(before) - BATCHES - len(partition("c-0")) // 3 * BATCHES


@pytest.mark.parametrize("change", [compaction, truncation])
def test_what_another_segment_took_over_is_not_there_twice_without_prune_either(tmp_path: Path, change: Any) -> None:
    data, store = node(tmp_path / "data"), tmp_path / "store"
    night(RECORDS, data, store)
    change(data)
    rest()
    night(RECORDS, data, store)
    night(RECORDS, data, tmp_path / "fresh")
    assert rows_of(store) == rows_of(tmp_path / "fresh")


@pytest.mark.parametrize("verb", ["records", "verify"])
def test_a_disk_that_cannot_be_looked_at_loses_no_row_to_prune(tmp_path: Path, verb: str) -> None:
    node(tmp_path / "data" / "1"), node(tmp_path / "data" / "2", number=2)
    store = tmp_path / "store"
    both = (*VERBS[verb], str(tmp_path / "data" / "1"))
    night(both, tmp_path / "data" / "2", store)
    before = rows_of(store)
    (tmp_path / "data" / "2").rename(tmp_path / "away")
    told = night(both, tmp_path / "data" / "2", store, "--prune")
    assert told.exit_code in (10, 6)
    for table, rows in rows_of(store).items():
        assert set(before[table]) <= set(rows), "and a row that says what could not be looked at"
    assert "nothing was pruned" in told.stderr


@pytest.mark.parametrize("verb", ["records", "verify"])
def test_a_disk_under_another_path_is_the_same_disk(tmp_path: Path, verb: str) -> None:
    data, store = node(tmp_path / "data"), tmp_path / "store"
    night(VERBS[verb], data, store)
    data.rename(tmp_path / "moved")
    night(VERBS[verb], tmp_path / "moved", store)
    night(VERBS[verb], tmp_path / "moved", tmp_path / "fresh")
    assert rows_of(store) == rows_of(tmp_path / "fresh")


@pytest.mark.parametrize("verb", ["records", "verify"])
def test_rot_that_no_time_shows_is_found_when_bytes_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    data, store = node(tmp_path / "data"), tmp_path / "store"
    looked: dict[str, Any] = {}
    facts = known._facts
    monkeypatch.setattr(known, "_facts", lambda path, now: looked.setdefault(path, facts(path, now)))
    night(VERBS[verb], data, store)
    first = last_run(store)["startedAt"]
    flip(data / "b-0" / name(BATCHES))
    assert night(VERBS[verb], data, store).exit_code == 0
    assert night(VERBS[verb], data, store, "--reread-after", "1d").exit_code == 0
    rest()
    assert night(VERBS[verb], data, store, "--reread-after", "0.1s").exit_code == 3
    night(VERBS[verb], data, tmp_path / "fresh")
    assert rows_of(store) == rows_of(tmp_path / "fresh")
    assert all(part[5] > first for part in listed(store)["parts"] if part[0] == "records")


def test_a_summary_says_when_its_oldest_bytes_were_read(tmp_path: Path) -> None:
    import pyarrow.dataset as ds

    data, store = node(tmp_path / "data"), tmp_path / "store"
    night(VERIFY, data, store)
    first = last_run(store)
    CHANGES["append"](data)
    rest()
    night(VERIFY, data, store)
    second = last_run(store)
    rows = ds.dataset(store / "summary", partitioning="hive").to_table().to_pylist()
    assert {row["readAt"] for row in rows if row["topic"] in "abc"} == {first["startedAt"]}
    by_topic = {row["topic"]: row["run"] for row in rows}
    assert (by_topic["a"], by_topic["b"], by_topic["c"]) == (second["id"], second["id"], first["id"])


def test_a_growing_tail_alone_is_read_again(tmp_path: Path) -> None:
    data, store = node(tmp_path / "data"), tmp_path / "store"
    for verb, place in ((VERIFY, store), (RECORDS, tmp_path / "records")):
        night(verb, data, place)
    CHANGES["append"](data)
    CHANGES["checkpoint_changed"](data)
    rest()
    for verb, place in ((VERIFY, store), (RECORDS, tmp_path / "records")):
        night(verb, data, place)
        # the tails of a and b, and the new segment of b
        assert last_run(place)["files"] <= 4, verb


def test_a_run_is_a_row_also_when_it_did_not_come_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, store = node(tmp_path / "data"), tmp_path / "store"
    night(RECORDS, data, store)
    done = last_run(store)
    assert (done["exit"], done["rows"]) == (0, len(rows_of(store)["records"]))
    assert done["endedAt"] >= done["startedAt"]
    new_topic(data)
    before = listed(store)
    monkeypatch.setattr("kdump.nights.present.Store.commit", lambda *_: os._exit(9))
    if (child := os.fork()) == 0:
        night(RECORDS, data, store)
        os._exit(1)
    os.waitpid(child, 0)
    assert listed(store) == before
    assert last_run(store)["endedAt"] is None
    assert on_disk(store) != files_of(store)
    monkeypatch.undo()
    rest()
    night(RECORDS, data, store)
    assert on_disk(store) == files_of(store)


@pytest.mark.parametrize("verb", ["records", "verify"])
def test_a_run_that_is_killed_at_any_moment_leaves_a_whole_state_and_the_next_one_mends(
    tmp_path: Path, one_in: OneIn, verb: str
) -> None:
    chance = Random(47)
    data, store = node(tmp_path / "data"), tmp_path / "store"
    began = time.monotonic()
    night(VERBS[verb], data, store)
    took = time.monotonic() - began
    for at in one_in(5, range(20)):
        write(data, partition(f"more{at}-0", segments=1))
        child = os.fork()
        if not child:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            night(VERBS[verb], data, store)
            os._exit(0)
        time.sleep(chance.random() * took)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        rows_of(store)  # each file of the list is there, and has its rows
    rest()
    night(VERBS[verb], data, store)
    night(VERBS[verb], data, tmp_path / "fresh")
    assert rows_of(store) == rows_of(tmp_path / "fresh")
    assert on_disk(store) == files_of(store)
    assert not [one for one in (store / "_kdump").rglob("*") if one.name.endswith(".tmp")]


def test_a_store_is_held_by_one_run(tmp_path: Path) -> None:
    from kdump.nights.present import Store, StoreHeldError

    data, store = node(tmp_path / "data"), tmp_path / "store"
    with Store(str(store), {}, 1):
        with pytest.raises(StoreHeldError):
            Store(str(store), {}, 1)
        assert night(RECORDS, data, store).exit_code == 11


def test_a_store_of_something_else_is_refused(tmp_path: Path) -> None:
    data, store = node(tmp_path / "data"), tmp_path / "store"
    night(RECORDS, data, store)
    assert "table 'records'" in night(("export", "--table", "batches"), data, store).stderr
    assert night(VERIFY, data, store).exit_code == 2
    plain = CliRunner().invoke(kdump, ["export", str(data), "--to", str(store)])
    assert plain.exit_code == 2
    CliRunner().invoke(kdump, ["export", str(data), "--to", str(tmp_path / "plain")])
    assert "without --update" in night(RECORDS, data, tmp_path / "plain").stderr
    write(tmp_path / "full", {"a": b"b"})
    assert night(RECORDS, data, tmp_path / "full").exit_code == 2


@pytest.mark.parametrize("bad", ['["a"]', "{", '{"asked":{},"run":"x","parts":[["records","../..",0]]}'])
def test_a_list_that_cannot_be_read_is_refused_and_a_kept_segment_is_read_again(tmp_path: Path, bad: str) -> None:
    data, store = node(tmp_path / "data"), tmp_path / "store"
    night(VERIFY, data, store)
    for one in (store / "_kdump" / "segments").iterdir():
        one.write_text(bad)
    assert night(VERIFY, data, store).exit_code == 0
    (store / "_kdump" / "present.json").write_text(bad)
    assert night(VERIFY, data, store).exit_code == 2


def test_no_name_in_a_list_leads_out_of_the_store(tmp_path: Path) -> None:
    data, store = node(tmp_path / "data"), tmp_path / "store"
    night(RECORDS, data, store)
    found = listed(store)
    found["parts"][0][7] = [["topic=a/partition=0/../../../data/meta.properties", 1]]
    (store / "_kdump" / "present.json").write_text(json.dumps(found))
    assert night(RECORDS, data, store).exit_code == 2


def test_a_file_of_rows_that_was_removed_is_written_again(tmp_path: Path) -> None:
    data, store = node(tmp_path / "data"), tmp_path / "store"
    night(RECORDS, data, store)
    before = rows_of(store)
    shutil.rmtree(store / "topic=a")
    night(RECORDS, data, store)
    assert rows_of(store) == before


@pytest.mark.parametrize("verb", ["records", "verify"])
def test_a_run_over_some_paths_prunes_nothing_of_others(tmp_path: Path, verb: str) -> None:
    node(tmp_path / "1")
    node(tmp_path / "2", "de", number=2)
    store = tmp_path / "store"
    night(VERBS[verb], tmp_path / "1", store)
    before = rows_of(store)
    night(VERBS[verb], tmp_path / "2", store, "--prune")
    night(VERBS[verb], tmp_path / "1", store, "--prune", "--topic", "a")
    for table, rows in before.items():
        assert set(rows) <= set(rows_of(store)[table])
    shutil.rmtree(tmp_path / "1" / "c-0")
    night(VERBS[verb], tmp_path / "1", store, "--prune")
    assert {part[6] for part in listed(store)["parts"] if "/c-0" in part[6]} == set()


@pytest.mark.parametrize("verb", [*VERBS, "plain"])
def test_several_hosts_share_a_directory_at_once(tmp_path: Path, verb: str) -> None:
    words = ("export",) if verb == "plain" else (*VERBS[verb], "--update")
    store, hosts = tmp_path / "store", ("one", "two.example.org")
    children = []
    for number, host in enumerate(hosts, 1):
        data = node(tmp_path / host, number=number)
        damage(data)
        rest()
        if not (child := os.fork()):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            CliRunner().invoke(kdump, [*words, str(data), "--to", str(store), "--host", host])
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    assert sorted(one.name for one in store.iterdir()) == [f"host={host}" for host in hosts]
    files = sorted(store.rglob("*.parquet"))
    assert files or verb == "losses"
    assert all("host" not in pq.ParquetFile(file).schema_arrow.names for file in files)


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".a", "a" * 300])
def test_the_name_of_a_host_leads_nowhere(tmp_path: Path, name: str) -> None:
    data = node(tmp_path / "data", "a")
    run = CliRunner().invoke(kdump, ["export", str(data), "--to", str(tmp_path / "store"), "--host", name])
    assert run.exit_code == 2
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    "words",
    [["--prune"], ["--reread-after", "2d"], ["--update", "--redact"]],
)
def test_options_of_a_night_without_one_are_wrong_use(tmp_path: Path, words: list[str]) -> None:
    data = node(tmp_path / "data", "a")
    run = CliRunner().invoke(kdump, ["export", str(data), "--to", str(tmp_path / "store"), *words])
    assert run.exit_code == 2
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("verb", ["records", "verify"])
def test_a_log_directory_that_gets_an_id_has_no_row_twice(tmp_path: Path, verb: str) -> None:
    data, store = node(tmp_path / "data"), tmp_path / "store"
    properties = data / "meta.properties"
    whole = properties.read_text()
    properties.write_text("".join(line for line in whole.splitlines(keepends=True) if "directory.id" not in line))
    rest()
    night(VERBS[verb], data, store)
    properties.write_text(whole)
    rest()
    night(VERBS[verb], data, store)
    night(VERBS[verb], data, tmp_path / "fresh")
    assert rows_of(store) == rows_of(tmp_path / "fresh")


def test_schemas_that_changed_decode_what_did_not(tmp_path: Path) -> None:
    data, schema = node(tmp_path / "data"), tmp_path / "v.avsc"
    asked = (*RECORDS, "--value-schema", str(schema))
    for word in ("one", "other"):
        schema.write_text(json.dumps({"type": "record", "name": "R", "fields": [{"name": word, "type": "bytes"}]}))
        rest()
        night(asked, data, tmp_path / "store")
        assert last_run(tmp_path / "store")["files"] > 0, word
    assert last_run(tmp_path / "store")["rows"] > 0


def test_a_store_inside_another_one_keeps_its_files(tmp_path: Path) -> None:
    data, store = node(tmp_path / "data"), tmp_path / "store"
    night(RECORDS, data, store)
    night(VERBS["batches"], data, store / "segments")
    night(VERBS["batches"], data, store / "host=a")
    before = [on_disk(store / one) for one in ("segments", "host=a")]
    assert all(before)
    night(RECORDS, data, store)
    assert [on_disk(store / one) for one in ("segments", "host=a")] == before


def test_two_copies_of_one_log_directory_are_kept_beside_each_other(tmp_path: Path) -> None:
    data, store = node(tmp_path / "data"), tmp_path / "store"
    shutil.copytree(data, tmp_path / "copy")
    rest()
    both = (*VERIFY, str(tmp_path / "copy"))
    first, second = night(both, data, store), night(both, data, store)
    assert (first.exit_code, first.stdout) == (second.exit_code, second.stdout)
    assert last_run(store)["files"] == 0


def test_what_a_disk_could_not_read_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, store = node(tmp_path / "data"), tmp_path / "store"
    real = os.pread

    def failing(fd: int, size: int, at: int) -> bytes:
        path = Path(f"/proc/self/fd/{fd}").readlink()
        if path.parent.name == "a-0" and path.suffix == ".log":
            raise OSError(5, "Input/output error")
        return real(fd, size, at)

    def failing_into(fd: int, buffers: list[memoryview], at: int) -> int:
        data = failing(fd, len(buffers[0]), at)
        buffers[0][: len(data)] = data
        return len(data)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", failing)
        patch.setattr(os, "preadv", failing_into)
        assert night(VERIFY, data, store).exit_code in (5, 6)
    assert night(VERIFY, data, store).exit_code == 0


def test_what_is_kept_and_cannot_be_read_is_removed_and_said(tmp_path: Path) -> None:
    data, store = node(tmp_path / "data"), tmp_path / "store"
    night(VERIFY, data, store)
    for kept in (store / "_kdump" / "segments").iterdir():
        found = json.loads(kept.read_text())
        for one in found["segments"]:
            one[2] = [["no result"]]
        kept.write_text(json.dumps(found))
    told = night(VERIFY, data, store)
    assert told.exit_code == 12
    assert "the next run reads these segments again" in told.stderr
    while told.exit_code == 12:  # a file each
        told = night(VERIFY, data, store)
    assert told.exit_code == 0


def test_a_plain_verify_leaves_tables_that_are_kept_as_they_are(tmp_path: Path) -> None:
    data, store = node(tmp_path / "data"), tmp_path / "store"
    night(VERBS["verify"], data, store)
    before = sorted(str(one) for one in store.rglob("*"))
    done = CliRunner().invoke(kdump, ["verify", str(data), "--to", str(store)])
    assert done.exit_code == 2
    assert "holds tables that are kept by --update" in done.output
    assert sorted(str(one) for one in store.rglob("*")) == before
