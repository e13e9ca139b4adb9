"""What a broker removes at its next start, and no other file has: it is told before, and salvage makes it again."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.partitions import Files, below, checkpoint, meta, name, segment, write
from tests.support.runs import run_kdump
from tests.support.segments import batch
from tests.support.verify_runs import held

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
    """The findings about what awaits deletion, and the steps."""
    run = run_kdump(["verify", *(paths or ("data",)), "--format", "json"], root)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    return [row for row in rows if row.get("code") == "F16"], [row["why"] for row in rows if row["type"] == "step"]


def rescued(root: Path, finding: dict[str, Any], to: str) -> list[str]:
    """The logs that the command of a finding makes."""
    words = shlex.split(finding["remedy"].partition("then ")[2].partition(" makes ")[0].replace("DIR", to))
    assert words[:2] == ["kdump", "salvage"]
    assert run_kdump(words[1:], root).exit == 0
    return sorted(one.name for one in (root / to / "orders-0").glob("*.log"))


def test_a_directory_on_its_way_out_is_told_with_its_records(tmp_path: Path) -> None:
    log_dir(tmp_path, gone=partition(FIRST, SECOND))
    (finding,), steps = found(tmp_path)
    assert (finding["severity"], finding["offset"], finding["lastOffset"], finding["count"]) == ("note", 0, 4, 5)
    assert finding["file"] == f"data/{GONE}"
    assert [finding["remedy"] in why for why in steps] == [True]
    assert rescued(tmp_path, finding, "out") == [name(0), name(2)]


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
    assert f"new topic id into out/orders-0/partition.metadata in place of {topic_id}" in text
    assert (tmp_path / "out" / "orders-0" / name(0)).read_bytes() == FIRST[name(0)]
    again = run_kdump(["salvage", source, "--to", "out", "--topic-partition", "orders-0"], tmp_path)
    assert [one for one in text.splitlines() if "next" in one] == [
        one for one in again.stdout.decode().splitlines() if "next" in one
    ]


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
    assert findings[0]["remedy"] in steps[0]
    bases = {path.partition(".")[0] for path in files if ".log" in path}
    assert rescued(tmp_path, findings[0], "out") == sorted(f"{base}.log" for base in bases)


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
    assert f"kdump salvage data/orders-0/{name(0)}.deleted --to DIR" in told


def test_logs_below_the_log_start_are_rescued_with_the_option_for_them(tmp_path: Path) -> None:
    log_dir(tmp_path, "data", 4, orders_0=partition(deleted(FIRST), SECOND))
    (finding,), _ = found(tmp_path)
    assert finding["remedy"].endswith("--to DIR --below-log-start makes a partition of it")
    assert rescued(tmp_path, finding, "out") == [name(0), name(2)]


def test_many_logs_are_named_by_a_pattern(tmp_path: Path) -> None:
    parts = [segment(base, [batch(base, [b"v"])]) for base in range(9)]
    log_dir(tmp_path, orders_0=partition(*map(deleted, parts[:8]), parts[8]))
    findings, _ = found(tmp_path)
    assert len(findings) == 8
    assert "salvage data/orders-0 'data/orders-0/*.log.deleted' --to DIR" in findings[0]["remedy"]
    assert len(rescued(tmp_path, findings[0], "out")) == 9


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
