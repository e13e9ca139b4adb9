"""What a broker removes at its next start, and no other file has: it is told before, and salvage makes it again."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import pytest

from kdump.broker.awaiting_deletion import awaiting_deletion
from kdump.storage.directory import DirectoryListing
from kdump.storage.file_source import OpenFailure
from kdump.storage.log_dir import LogDir
from kdump.storage.open_files import OpenFileCache
from kdump.storage.partition_dir import PartitionDir
from tests.support.partitions import Files, below, checkpoint, meta, name, segment, snapshot, write
from tests.support.segments import batch
from tests.support.verify_runs import held
from tests.support.whole_lines import run_kdump

if TYPE_CHECKING:
    from pathlib import Path

ID = {one: f"version: 0\ntopic_id: {one * 21}A".encode() for one in "BCD"}
FIRST = segment(0, [batch(0, [b"a"]), batch(1, [b"b"])])
SECOND = segment(2, [batch(2, [b"c"] * 3)])
THIRD = segment(5, [batch(5, [b"d"] * 3)])
GONE = f"orders-0.{'0' * 32}-delete"


def partition(*parts: Files, topic: str = "C") -> Files:
    return {path: data for part in parts for path, data in part.items()} | {"partition.metadata": ID[topic]}


def deleted(files: Files) -> Files:
    return {f"{path}.deleted": data for path, data in files.items()}


def log_dir(root: Path, where: str = "data", start: int | None = None, /, **partitions: Files) -> Path:
    """A log.dir with partitions; `gone` is one on its way out."""
    files = {f"{where}/meta.properties": meta(1), f"{where}/.kafka_cleanshutdown": b""}
    entries = [] if start is None else [("orders", 0, start)]
    files[f"{where}/log-start-offset-checkpoint"] = checkpoint(*entries)
    for key, logs in partitions.items():
        path = {"gone": GONE, "gone_too": GONE.replace("0.0", "0.1")}.get(key, key.replace("_", "-"))
        files |= below(f"{where}/{path}", logs)
    return write(root, files)


def found(root: Path, *paths: str) -> tuple[list[dict[str, Any]], list[str]]:
    """The findings about what awaits deletion, and the commands of the steps."""
    run = run_kdump(["verify", *(paths or ("data",)), "--format", "json"], root)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    return [row for row in rows if row.get("code") == "F16"], [
        row["command"] for row in rows if row["type"] == "step" and row["command"]
    ]


def rescued(root: Path, finding: dict[str, Any], to: str) -> list[str]:
    """The logs that the command of a finding makes."""
    words = shlex.split(finding["remedy"].partition("of it: ")[2].replace("DIR", to))
    assert words[:2] == ["kdump", "salvage"]
    assert run_kdump(words[1:], root).exit == 0
    return sorted(one.name for one in (root / to / "orders-0").glob("*.log"))


def test_a_directory_on_its_way_out_is_told_with_its_records(tmp_path: Path) -> None:
    log_dir(tmp_path, gone=partition(FIRST, SECOND))
    (finding,), steps = found(tmp_path)
    assert (finding["severity"], finding["offset"], finding["lastOffset"], finding["count"]) == ("note", 0, 4, 5)
    assert finding["file"] == f"data/{GONE}"
    assert [finding["remedy"].endswith(f": {command}") for command in steps] == [True]
    assert rescued(tmp_path, finding, "out") == [name(0), name(2)]


@pytest.mark.parametrize("suffix", ["cleaned", "deleted"])
def test_of_the_indexes_of_such_a_log_nobody_is_told_to_start_the_broker(suffix: str, tmp_path: Path) -> None:
    log_dir(tmp_path, orders_0=partition(FIRST, {f"{path}.{suffix}": data for path, data in SECOND.items()}))
    rows = [
        json.loads(line) for line in run_kdump(["verify", "data", "--format", "json"], tmp_path).stdout.splitlines()
    ]
    told = {row["file"].rpartition("/")[2]: row["remedy"] for row in rows if row.get("code") in ("F08", "F16")}
    assert set(told) == {f"{path}.{suffix}" for path in SECOND}
    assert [remedy for remedy in told.values() if "start the broker" in remedy] == []


@pytest.mark.parametrize("source", ["data", f"data/{GONE}", f"data/{GONE}/{name(0)}"])
def test_salvage_takes_its_name_without_the_suffix_and_says_which_topic_id_it_needs(
    source: str, tmp_path: Path
) -> None:
    log_dir(tmp_path, gone=partition(FIRST), other_0=partition(THIRD, topic="B"))
    run = run_kdump(["salvage", source, "--to", "out", "--topic-partition", "orders-0"], tmp_path)
    text, topic_id = run.stdout.decode(), "C" * 21 + "A"
    assert (run.exit, run.stderr) == (0, b"")
    assert "leave them in place" not in text
    assert f"copy data/{GONE} before a broker starts" in text
    assert f"that needs its new topic id in place of {topic_id}, and leader epochs that fit" in text
    assert f"kdump salvage {source} --for LOGDIR --to DIR" in text
    assert (tmp_path / "out" / "orders-0" / name(0)).read_bytes() == FIRST[name(0)]
    again = run_kdump(["salvage", source, "--to", "out", "--topic-partition", "orders-0"], tmp_path)
    assert [one for one in text.splitlines() if "next" in one] == [
        one for one in again.stdout.decode().splitlines() if "next" in one
    ]


def salvaged(root: Path, *options: str) -> str:
    """What salvage tells of a partition that is on its way out."""
    return run_kdump(["salvage", f"data/{GONE}", "--to", "out", *options], root).stdout.decode()


def test_where_the_topic_was_created_again_salvage_tells_what_its_place_would_cost(tmp_path: Path) -> None:
    log_dir(tmp_path, gone=partition(FIRST), orders_0=partition(THIRD, topic="B"))
    text = salvaged(tmp_path)
    assert "create it again" not in text
    assert "orders was created again: data/orders-0 is a partition of the new topic" in text
    old, new = (letter * 21 + "A" for letter in "CB")
    assert f"out/orders-0 needs the topic id of data/orders-0, {new}, in place of {old}, and leader epochs" in text
    (fits,) = (line.rpartition(": ")[2] for line in text.splitlines() if "needs the topic id of" in line)
    assert run_kdump(shlex.split(fits.replace("DIR", "fits"))[1:], tmp_path).exit == 0
    assert new in (tmp_path / "fits" / "orders-0" / "partition.metadata").read_text()
    (again,) = (line.partition("create that topic: ")[2] for line in text.splitlines() if "create that topic: " in line)
    words = shlex.split(again.replace("DIR", "both").replace("OTHER", "old-orders"))
    assert run_kdump(words[1:], tmp_path).exit == 0
    assert (tmp_path / "both" / "old-orders-0" / name(0)).read_bytes() == FIRST[name(0)]


def test_where_the_live_partition_does_not_tell_its_topic_id_the_cluster_does(tmp_path: Path) -> None:
    log_dir(tmp_path, gone=partition(FIRST), orders_0=partition(THIRD))
    (tmp_path / "data" / "orders-0" / "partition.metadata").unlink()
    (step,) = (line for line in salvaged(tmp_path).splitlines() if "needs the topic id of data/orders-0 in" in line)
    assert f"in place of {'C' * 21}A, " in step
    assert step.endswith(f": kdump salvage data/{GONE} --for LOGDIR --to DIR")


def test_beside_a_partition_of_the_same_topic_nobody_is_told_to_create_it(tmp_path: Path) -> None:
    log_dir(tmp_path, gone=partition(FIRST), orders_0=partition(SECOND))
    assert "creat" not in salvaged(tmp_path)


def test_a_partition_of_another_name_needs_a_topic_that_was_never_deleted(tmp_path: Path) -> None:
    log_dir(tmp_path, gone=partition(FIRST))
    text = salvaged(tmp_path, "--name", "other-0")
    assert "was deleted" not in text
    assert "next 2: create other where out/other-0 goes" in text


@pytest.mark.parametrize("others", [{"orders_0": partition(THIRD, topic="B")}, {"gone_too": partition(FIRST)}])
def test_of_several_directories_of_one_partition_none_on_its_way_out_is_taken_unasked(
    others: dict[str, Files], tmp_path: Path
) -> None:
    log_dir(tmp_path, gone=partition(FIRST), **others)
    run = run_kdump(["salvage", "data", "--to", "out"], tmp_path)
    assert f"data/{GONE}: a broker was about to delete it (-delete): name it alone".encode() in run.stderr
    assert not (tmp_path / "out" / "orders-0" / name(0)).exists()


def test_a_topic_whose_name_the_broker_has_cut_needs_a_name(tmp_path: Path) -> None:
    cut = f"{'t' * 213}-0.{'0' * 32}-delete"
    write(tmp_path, below(f"data/{cut}", partition(FIRST)))
    run = run_kdump(["salvage", f"data/{cut}", "--to", "out"], tmp_path)
    assert (run.exit, b"--name TOPIC-N" in run.stderr) == (12, True)


@pytest.mark.parametrize(("topic", "is_told"), [("C", False), ("B", True)])
@pytest.mark.parametrize("where", ["data", "other"])
def test_what_a_partition_in_use_has_too_awaits_its_deletion_in_peace(
    where: str, topic: str, *, is_told: bool, tmp_path: Path
) -> None:
    """A broker that has moved a partition to another log directory removes the old one."""
    log_dir(tmp_path, gone=partition(FIRST, SECOND))
    log_dir(tmp_path, where, orders_0=partition(FIRST, SECOND, THIRD, topic=topic))
    assert bool(found(tmp_path, *dict.fromkeys(("data", where)))[0]) is is_told


def test_a_partition_in_use_that_lacks_some_of_it_is_no_reason_for_silence(tmp_path: Path) -> None:
    log_dir(tmp_path, gone=partition(FIRST, SECOND))
    log_dir(tmp_path, "other", orders_0=partition(SECOND, THIRD))
    assert found(tmp_path, "data", "other")[0]


@pytest.mark.parametrize(
    ("files", "named"),
    [
        (partition(deleted(FIRST), SECOND), [(0, 0, 1)]),
        (partition(deleted(FIRST), deleted(SECOND), THIRD), [(0, 0, 1), (2, 2, 4)]),
        (partition(FIRST, deleted(SECOND), THIRD), [(2, 2, 4)]),
        (partition(FIRST, deleted(THIRD)), [(5, 5, 7)]),
        (partition(deleted(FIRST), deleted(SECOND)), [(0, 0, 1), (2, 2, 4)]),
    ],
    ids=["the first", "the first two", "one between", "the last", "all"],
)
def test_logs_that_nothing_has_replaced_are_told_and_the_command_brings_them_back(
    files: Files, named: list[tuple[int, int, int]], tmp_path: Path
) -> None:
    log_dir(tmp_path, orders_0=files)
    findings, steps = found(tmp_path)
    told = [(one["file"], one["offset"], one["lastOffset"]) for one in findings]
    assert told == [(f"data/orders-0/{name(base)}.deleted", first, last) for base, first, last in named]
    assert findings[0]["remedy"].endswith(f": {steps[0]}")
    bases = {path.partition(".")[0] for path in files if ".log" in path}
    assert rescued(tmp_path, findings[0], "out") == sorted(f"{base}.log" for base in bases)


def steps_of(root: Path, *args: str) -> list[dict[str, Any]]:
    run = run_kdump(["verify", *(args or ("data",)), "--format", "json"], root)
    return [row for row in map(json.loads, run.stdout.splitlines()) if row["type"] == "step"]


AT_2 = f"{name(2)}.deleted"


@pytest.mark.parametrize(
    ("logs", "is_hole"),
    [
        ((FIRST, deleted(SECOND), THIRD), True),  # nothing else tells of it
        ((FIRST, deleted(SECOND), {f"{8:020}.snapshot": snapshot()}), False),  # the log has gone on to there
    ],
    ids=["a hole", "the end"],
)
def test_where_logs_that_a_broker_removes_have_all_that_is_missing_they_are_all_that_is_told(
    logs: tuple[Files, ...], is_hole: bool, tmp_path: Path
) -> None:
    end = {} if is_hole else deleted(THIRD)
    log_dir(tmp_path, orders_0=partition(*logs, end))
    steps = steps_of(tmp_path)
    (rescue,) = (one for one in steps if one["command"])
    assert rescue["rank"] == "recommended"
    assert rescue["command"] == "kdump salvage data/orders-0 --deleted too --to DIR"
    offsets = "offsets 2..4" if is_hole else "offsets 2..7"
    files = f"data/orders-0/{AT_2}" + ("" if is_hole else f", data/orders-0/{name(5)}.deleted")
    assert rescue["why"].startswith(f"copy {files} before a broker starts, which removes ")
    assert f" {offsets}, which are missing here: this writes all that is intact" in rescue["why"]
    assert run_kdump([*rescue["command"].split()[1:-1], "out"], tmp_path).exit == 0
    (row,) = rows_of(tmp_path, "out")
    assert (row["records"], row["offsetsLost"], row["offsetsUnexplained"]) == (8, 0, 0)


def test_where_they_have_only_a_part_the_salvage_reads_them_too_and_a_restore_is_not_needless(tmp_path: Path) -> None:
    hurt = {path: data[:-1] + b"\1" if path == name(0) else data for path, data in FIRST.items()}
    log_dir(tmp_path, orders_0=partition(hurt, deleted(SECOND), THIRD))
    rescue, compare, salvage, cut = (one for one in steps_of(tmp_path) if one["command"])
    (restore,) = (one for one in steps_of(tmp_path) if one["condition"] and not one["command"])
    assert rescue["rank"] == compare["rank"] == "recommended"
    assert " it has offsets 2..4 of what is missing here: " in rescue["why"]
    assert restore["why"].startswith("restore data/orders-0 from another replica")
    assert salvage["command"] == rescue["command"] == "kdump salvage data/orders-0 --deleted too --to DIR"
    assert salvage["why"].endswith(" to a new directory, with offsets 2..4 of what is missing here")
    assert cut["command"].startswith("kdump truncate ")


def test_a_salvage_of_all_replicas_reads_what_a_broker_removes_of_one(tmp_path: Path) -> None:
    hurt = {path: data[:-1] + b"\1" if path == name(0) else data for path, data in FIRST.items()}
    log_dir(tmp_path, "data", orders_0=partition(hurt, deleted(SECOND), THIRD))
    log_dir(tmp_path, "other", orders_0=partition(hurt, THIRD))
    steps = steps_of(tmp_path, "--replicas", "data", "other")
    command = "kdump salvage data/orders-0 other/orders-0 --deleted too --to DIR"
    assert [one["command"] for one in steps].count(command) == 1


def test_what_has_other_batches_in_its_place_brings_no_missing_offset_back(tmp_path: Path) -> None:
    hurt = {path: data[:-1] + b"\1" if path == name(0) else data for path, data in FIRST.items()}
    log_dir(tmp_path, orders_0=partition(hurt, {f"{name(0)}.deleted": batch(0, [b"x"] * 2)}, SECOND))
    rescue, _, salvage, _ = (one for one in steps_of(tmp_path) if one["command"])
    assert rescue["command"] == "kdump salvage data/orders-0 --deleted alone --to DIR"
    assert rescue["why"].endswith(
        ": this makes a partition of it, and none of the logs that stay: these have others at its offsets"
    )
    assert salvage["command"] == "kdump salvage data/orders-0 --to DIR"


def test_the_step_about_a_deleted_topic_names_what_fits_it_to_a_new_one(tmp_path: Path) -> None:
    log_dir(tmp_path, gone=partition(FIRST))
    (rescue,) = (one for one in steps_of(tmp_path) if one["command"])
    assert rescue["command"] == f"kdump salvage data/{GONE} --to DIR"
    assert rescue["why"].endswith("with --for LOGDIR one that fits a topic that was made again")


def test_salvage_of_the_partition_counts_and_names_what_it_does_not_read(tmp_path: Path) -> None:
    log_dir(tmp_path, orders_0=partition(deleted(FIRST), SECOND))
    for _ in range(2):  # a second run says so as well
        text = run_kdump(["salvage", "data", "--to", "out"], tmp_path).stdout.decode()
        assert f"data/orders-0/{name(0)}.deleted is not read; 2 records that no other file has" in text
        assert "leave them in place" not in text


def test_salvage_of_a_log_dir_names_a_partition_that_has_no_other_log(tmp_path: Path) -> None:
    log_dir(tmp_path, orders_0=partition(deleted(FIRST)), other_0=partition(THIRD, topic="B"))
    told = run_kdump(["salvage", "data", "--to", "out"], tmp_path).stderr.decode()
    assert f"data/orders-0: no log of it is here; {name(0)}.deleted has 2 records that no other file has" in told
    assert "kdump salvage data/orders-0 --deleted too --to DIR" in told


def test_logs_below_the_log_start_are_rescued_with_the_option_for_them(tmp_path: Path) -> None:
    log_dir(tmp_path, "data", 4, orders_0=partition(deleted(FIRST), SECOND))
    (finding,), _ = found(tmp_path)
    assert finding["remedy"].endswith("--to DIR --below-log-start")
    assert rescued(tmp_path, finding, "out") == [name(0), name(2)]


def test_many_logs_need_no_pattern_and_none_that_a_compaction_has_replaced_comes_back(tmp_path: Path) -> None:
    parts = [segment(base, [batch(base, [b"v"])]) for base in range(6, 14)]
    cleaned = segment(0, [batch(1, [b"b"])])
    log_dir(
        tmp_path / "a[1]*",
        orders_0=partition(cleaned, deleted(FIRST), deleted(SECOND), THIRD, *map(deleted, parts[2:])),
    )
    findings, _ = found(tmp_path / "a[1]*")
    assert [one["offset"] for one in findings] == list(range(8, 14))
    assert rescued(tmp_path / "a[1]*", findings[0], "out") == [name(base) for base in (0, 5, *range(8, 14))]
    assert (tmp_path / "a[1]*/out/orders-0" / name(0)).read_bytes() == cleaned[name(0)]


NEW = segment(0, [batch(0, [b"new"], epoch=5)])
RECREATED = segment(0, [batch(one, [b"new"]) for one in range(9)])


@pytest.mark.parametrize(
    ("live", "how", "records"), [(segment(0, []), "too", 8), (NEW, "alone", 8), (RECREATED, "alone", 8)]
)
def test_a_truncation_replaces_nothing_and_its_records_are_brought_back(
    live: Files, how: str, records: int, tmp_path: Path
) -> None:
    log_dir(tmp_path, orders_0=partition(live, deleted(FIRST), deleted(SECOND), deleted(THIRD)))
    findings, _ = found(tmp_path)
    assert [one["offset"] for one in findings] == [0, 2, 5]
    assert f"--deleted {how} --to DIR" in findings[0]["remedy"]
    run = run_kdump(["salvage", "data", "--to", "out"], tmp_path)
    assert f"orders-0: data/orders-0/{name(5)}.deleted is not read; 3 records".encode() in run.stdout + run.stderr
    assert b"leave them in place" not in run.stdout
    rescued(tmp_path, findings[0], "again")
    (row,) = rows_of(tmp_path, "again")
    assert row["records"] == records


def rows_of(root: Path, to: str) -> list[dict[str, Any]]:
    lines = (root / to / "orders-0.salvage.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if row["type"] == "salvage"]


def swapping(base: int, data: bytes) -> Files:
    return {name(base, "log.swap"): data, name(base, "index.swap"): b"", name(base, "timeindex.swap"): b""}


@pytest.mark.parametrize(
    "files",
    [
        partition(swapping(0, batch(1, [b"b"])), deleted(FIRST), deleted(SECOND), THIRD),
        partition(swapping(0, batch(1, [b"b"])), deleted(FIRST), SECOND, THIRD),
        partition(swapping(0, FIRST[name(0)]), swapping(2, SECOND[name(2)]), deleted(segment(0, [batch(0, [b"a"])]))),
        partition(segment(0, [batch(0, [b"a"]), batch(1, [b"b"]), batch(2, [b"c"] * 3)]), deleted(SECOND), THIRD),
        partition(FIRST, segment(2, [batch(2, [b"c"] * 3), batch(5, [b"d"] * 3)]), deleted(THIRD)),
        partition(FIRST, SECOND, {name(0, "log.cleaned"): batch(1, [b"b"])}),
    ],
    ids=["compaction", "half renamed", "split", "appended to the one before", "fetched again", "cleaned"],
)
def test_what_the_logs_have_that_a_start_keeps_or_puts_in_place_awaits_nothing(files: Files, tmp_path: Path) -> None:
    log_dir(tmp_path, orders_0=files)
    assert found(tmp_path) == ([], [])


def test_a_start_that_was_killed_while_it_removed_what_a_compaction_had_replaced_is_known_by_its_checkpoint(
    tmp_path: Path,
) -> None:
    cleaned = segment(0, [batch(1, [b"b"]), batch(4, [b"e"])])
    last = segment(2, [batch(base, [value]) for base, value in ((2, b"x"), (3, b"y"), (4, b"e"))])
    log_dir(tmp_path, orders_0=partition(cleaned, deleted(last), THIRD))
    assert found(tmp_path)[0]
    write(tmp_path, {"data/cleaner-offset-checkpoint": checkpoint(("orders", 0, 5))})
    assert found(tmp_path) == ([], [])
    named = f"data/orders-0/{name(2)}.deleted"
    assert run_kdump(["salvage", "data/orders-0", named, "--to", "out"], tmp_path).exit == 0
    (row,) = rows_of(tmp_path, "out")
    assert (row["records"], row["offsetsLost"]) == (7, 0)


@pytest.mark.parametrize("how", ["damaged", "cut", "header"])
def test_what_took_the_place_of_others_and_is_damaged_has_not_what_it_lost(how: str, tmp_path: Path) -> None:
    """A compaction's result is no reason for silence where nobody can read it, nor a log whose length is wrong."""
    data = bytearray(batch(0, [b"a"]) + batch(1, [b"b"]) + batch(2, [b"c"] * 3))
    size = len(batch(0, [b"a"]))
    if how == "header":
        data[size + 11] ^= 1
    elif how == "cut":
        del data[size + 5 : 2 * size]
    else:
        data[size + 70] ^= 1
    live = {**segment(0, []), name(0): bytes(data)}
    log_dir(tmp_path, orders_0=partition(live, deleted(FIRST), deleted(SECOND), THIRD))
    findings, _ = found(tmp_path)
    assert [(one["offset"], one["lastOffset"], one["count"]) for one in findings] == [(1, 1, 1)]


@pytest.mark.parametrize(
    ("topics", "live", "offsets"),
    [
        ((None, None), RECREATED, (0, 4)),
        (("C", None), RECREATED, (0, 4)),
        ((None, None), {**FIRST, **SECOND}, None),
        (("C", "C"), {**FIRST, **THIRD}, (2, 4)),
        (("C", "C"), RECREATED, (0, 4)),
        (("C", "C"), {**segment(0, [batch(1, [b"b"])]), **THIRD}, (0, 4)),
    ],
    ids=[
        "no ids, other records",
        "one id",
        "no ids, same bytes",
        "a hole",
        "another history",
        "holes without a cleaner",
    ],
)
def test_a_partition_in_use_has_it_where_it_has_the_same_batches(
    topics: tuple[str | None, str | None], live: Files, offsets: tuple[int, int] | None, tmp_path: Path
) -> None:
    gone, used = (
        {path: data for path, data in partition(files, topic=topic or "C").items() if topic or ".log" in path}
        for files, topic in zip(({**FIRST, **SECOND}, live), topics, strict=True)
    )
    log_dir(tmp_path, gone=gone, orders_0=used)
    told = [(one["offset"], one["lastOffset"]) for one in found(tmp_path)[0]]
    assert told == ([] if offsets is None else [offsets])


def test_what_a_cleaner_has_taken_out_of_the_partition_in_use_was_to_go(tmp_path: Path) -> None:
    live = partition(segment(0, [batch(1, [b"b"])]), THIRD)
    log_dir(tmp_path, gone=partition(FIRST, SECOND), orders_0=live)
    write(tmp_path, {"data/cleaner-offset-checkpoint": checkpoint(("orders", 0, 5))})
    assert found(tmp_path)[0] == []


def test_a_directory_on_its_way_out_is_told_once_with_what_it_is_to_lose_before(tmp_path: Path) -> None:
    log_dir(tmp_path, gone=partition(deleted(FIRST), SECOND, {name(5, "log.swap"): THIRD[name(5)]}))
    (finding,), _ = found(tmp_path)
    assert (finding["file"], finding["offset"], finding["lastOffset"], finding["count"]) == (f"data/{GONE}", 0, 7, 8)
    assert rescued(tmp_path, finding, "out") == [name(0), name(2), name(5)]
    text = run_kdump(["salvage", "data", "--to", "half"], tmp_path).stdout.decode()
    assert f"data/{GONE}/{name(0)}.deleted is not read; 2 records" in text


def test_a_directory_on_its_way_out_that_has_only_renamed_logs_is_named_by_salvage(tmp_path: Path) -> None:
    log_dir(tmp_path, gone=partition(deleted(FIRST)), other_0=partition(THIRD, topic="B"))
    told = run_kdump(["salvage", "data", "--to", "out"], tmp_path).stderr.decode()
    assert f"kdump salvage data/{GONE} --deleted too --to DIR" in told


def test_entries_of_the_partition_in_use_say_nothing_of_the_one_on_its_way_out(tmp_path: Path) -> None:
    log_dir(tmp_path, gone=partition(FIRST), orders_0=partition(RECREATED, topic="B"))
    ends = checkpoint(("orders", 0, 9))
    write(tmp_path, {"data/recovery-point-offset-checkpoint": ends, "data/replication-offset-checkpoint": ends})
    assert b"K01" not in run_kdump(["verify", "data"], tmp_path).stdout


def test_rows_of_salvage_have_what_stays_out(tmp_path: Path) -> None:
    log_dir(tmp_path, orders_0=partition(deleted(FIRST), SECOND))
    for _ in range(2):
        run = run_kdump(["salvage", "data", "--to", "out", "--format", "json"], tmp_path)
        rows = [json.loads(line) for line in run.stdout.splitlines()]
        assert [(row["code"], row["count"]) for row in rows if row["type"] == "finding"] == [("F16", 2)]
        assert rows[-1]["notes"] == 1


def test_a_log_that_cannot_be_read_is_not_taken_for_one_without_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir(tmp_path, orders_0=partition(deleted(FIRST), SECOND))

    def refuse(self: OpenFileCache, path: str, *, follow: bool = True) -> object:
        if path.endswith(".deleted"):
            return OpenFailure(path, "permission", f"{path}: permission denied")
        return opened(self, path, follow=follow)

    opened = OpenFileCache.open
    monkeypatch.setattr(OpenFileCache, "open", refuse)
    unread: list[OpenFailure] = []
    directory = PartitionDir(str(tmp_path / "data/orders-0"), LogDir(str(tmp_path / "data")))
    assert list(awaiting_deletion(directory, 1 << 20, unread.append)) == []
    assert [one.path for one in unread] == [str(tmp_path / f"data/orders-0/{name(0)}.deleted")]


def test_directories_are_looked_for_once_however_many_logs_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = [deleted(segment(base, [batch(base, [b"v"])])) for base in range(20)]
    log_dir(tmp_path, orders_0=partition(*logs), **{f"t{number}_0": partition(FIRST) for number in range(9)})
    asked: list[str] = []

    def listed(self: DirectoryListing) -> list[str]:
        asked.append(self.path)
        return partitions(self)

    partitions = DirectoryListing.partitions
    monkeypatch.setattr(DirectoryListing, "partitions", listed)
    directory = PartitionDir(str(tmp_path / "data/orders-0"), LogDir(str(tmp_path / "data")))
    assert len(list(awaiting_deletion(directory, 1 << 20))) == 20
    assert len(asked) == 1


def test_logs_that_a_compaction_has_replaced_are_none(tmp_path: Path) -> None:
    cleaned = segment(0, [batch(1, [b"b"])])
    log_dir(tmp_path, orders_0=partition(cleaned, deleted(FIRST), deleted(SECOND), THIRD))
    assert found(tmp_path) == ([], [])


def test_while_a_broker_runs_it_has_renamed_them_on_purpose(tmp_path: Path) -> None:
    log_dir(tmp_path, orders_0=partition(deleted(FIRST), SECOND), gone=partition(FIRST))
    write(tmp_path, {"data/.lock": b""})
    with held(tmp_path / "data"):
        assert found(tmp_path)[0] == []
    assert len(found(tmp_path)[0]) == 2


def test_only_records_with_a_true_crc_count(tmp_path: Path) -> None:
    damaged = {path: data[:-1] + b"\xff" if path.endswith(".log") else data for path, data in FIRST.items()}
    log_dir(tmp_path, orders_0=partition(deleted(damaged), SECOND))
    ((finding,), _) = found(tmp_path)
    assert (finding["count"], finding["offset"], finding["lastOffset"]) == (1, 0, 0)
    log_dir(tmp_path / "b", orders_0=partition({f"{name(0)}.deleted": b"\xff" * 99}, SECOND))
    assert found(tmp_path / "b")[0] == []
