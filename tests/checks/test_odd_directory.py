"""A directory that is none of a partition may be the only copy of one: what it holds is told before it is moved out."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.partitions import Files, below, checkpoint, meta, segment, write
from tests.support.runs import flat, run_kdump
from tests.support.segments import batch

if TYPE_CHECKING:
    from pathlib import Path

LOGS = segment(0, [batch(0, [b"a"]), batch(1, [b"b"])]) | segment(2, [batch(2, [b"c"] * 3)])


def odd(root: Path, *paths: str, checkpoints: tuple[str, ...] = ("orders-1",)) -> tuple[dict[str, Any], list[str]]:
    """The finding about the odd directory of a log.dir that has partitions at some paths, and the steps."""
    entries = [("orders", 0, 5), *((*name.rsplit("-", 1), 5) for name in checkpoints)]
    files = {"data/meta.properties": meta(1), "data/recovery-point-offset-checkpoint": checkpoint(*entries)}
    for path in ("orders-0", *paths):
        files |= below(f"data/{path}", LOGS)
    write(root, files)
    rows = [json.loads(line) for line in run_kdump(["verify", "data", "--format", "json"], root).stdout.splitlines()]
    (finding,) = (row for row in rows if row.get("code") == "F11")
    return finding, [row["why"] for row in rows if row["type"] == "step"]


@pytest.mark.parametrize("path", ["lost+found/#131077", "old orders", "a/b/c", "it's $(touch x)"])
def test_a_lone_partition_is_named_with_its_offsets_and_the_one_that_checkpoints_miss(
    path: str, tmp_path: Path
) -> None:
    finding, steps = odd(tmp_path, path)
    assert f"it holds logs: data/{path} (offsets 0..4); checkpoints name orders-1" in finding["message"]
    assert any(finding["remedy"] in step for step in steps)
    command = shlex.split(finding["remedy"].partition("(")[2].rpartition(")")[0].replace("--to DIR", "--to out"))
    assert command == ["kdump", "salvage", f"data/{path}", "--name", "orders-1", "--to", "out"]
    assert run_kdump(command[1:], tmp_path).exit == 0
    assert sorted(one.name for one in (tmp_path / "out" / "orders-1").glob("*.log")) == sorted(
        one for one in LOGS if one.endswith(".log")
    )


def test_where_several_could_be_meant_nobody_guesses_the_name(tmp_path: Path) -> None:
    finding, _ = odd(tmp_path, "lost+found/#1", "lost+found/#2", checkpoints=("orders-1", "orders-2"))
    assert "data/lost+found/#1 (offsets 0..4), data/lost+found/#2 (offsets 0..4)" in finding["message"]
    assert "orders-1, orders-2, which are not here" in finding["message"]
    assert "--name TOPIC-N" in finding["remedy"]


def test_a_directory_without_logs_is_moved_out_as_it_was(tmp_path: Path) -> None:
    write(tmp_path, {"data/notes/readme.txt": b"x", "data/meta.properties": meta(1)} | below("data/t-0", LOGS))
    run = run_kdump(["verify", "data"], tmp_path)
    said = flat(run.stdout)
    assert "error F11 odd-directory this is not a partition directory" in said
    assert "-> move it out of the log directory" in said


def other(root: Path, directories: dict[str, Files], *checkpoints: str) -> list[dict[str, Any]]:
    """The findings about odd directories beside a partition orders-0 with a topic id."""
    entries = [("orders", 0, 5), *((*name.rsplit("-", 1), 5) for name in checkpoints)]
    files = {"data/meta.properties": meta(1), "data/recovery-point-offset-checkpoint": checkpoint(*entries)}
    for path, some in ({"orders-0": LOGS | TOPIC} | directories).items():
        files |= below(f"data/{path}", some)
    write(root, files)
    rows = [json.loads(line) for line in run_kdump(["verify", "data", "--format", "json"], root).stdout.splitlines()]
    return [row for row in rows if row.get("code") == "F11"]


TOPIC = {"partition.metadata": b"version: 0\ntopic_id: CCCCCCCCCCCCCCCCCCCCCA"}
ANOTHER = {"partition.metadata": b"version: 0\ntopic_id: BBBBBBBBBBBBBBBBBBBBBA"}


@pytest.mark.parametrize("path", ["orders-0.bak", "orders-0 (copy)", "old/orders-0_2", "orders-0.bak/inner"])
def test_the_name_of_the_directory_tells_more_than_what_checkpoints_miss(path: str, tmp_path: Path) -> None:
    (finding,) = other(tmp_path, {path: LOGS}, "gone-1")
    assert "--name orders-0 --to DIR" in finding["remedy"]
    assert "gone-1" not in finding["remedy"]


@pytest.mark.parametrize(
    ("topic", "missing", "name"),
    [(TOPIC, "gone-1", "TOPIC-N"), (ANOTHER, "gone-1", "gone-1"), (TOPIC, "orders-1", "orders-1"),
     (ANOTHER, "orders-1", "TOPIC-N"), ({}, "orders-1", "orders-1")],
)  # fmt: skip
def test_a_topic_id_of_another_topic_speaks_against_the_name_that_checkpoints_miss(
    topic: Files, missing: str, name: str, tmp_path: Path
) -> None:
    (finding,) = other(tmp_path, {"lost+found/#1": LOGS | topic}, missing)
    assert f"--name {name} --to DIR" in finding["remedy"]


def test_of_several_finds_each_has_its_own_command_and_none_the_name_that_only_one_can_have(tmp_path: Path) -> None:
    found = other(
        tmp_path, {"lost+found/#1": LOGS, "lost+found/gone-2": LOGS, "x": LOGS, "notes": {"a": b""}}, "gone-1"
    )
    remedies = {one["file"]: one["remedy"] for one in found}
    assert (
        "kdump salvage 'data/lost+found/#1' --name TOPIC-N --to DIR; kdump salvage data/lost+found/gone-2 "
        in (remedies["data/lost+found"])
    )
    assert "--name gone-2 --to DIR" in remedies["data/lost+found"]
    assert "--name TOPIC-N" in remedies["data/x"]
    assert remedies["data/notes"] == "move it out of the log directory"


@pytest.mark.parametrize(("suffix", "option"), [(".swap", ""), (".deleted", " --deleted too")])
def test_logs_that_wait_to_be_put_in_place_or_removed_are_held_too(suffix: str, option: str, tmp_path: Path) -> None:
    held = {f"{path}{suffix}": data for path, data in LOGS.items() if path.endswith(".log")}
    (finding,) = other(tmp_path, {"x": held}, "gone-1")
    assert "data/x (offsets 0..4)" in finding["message"]
    assert f"kdump salvage data/x{option} --name gone-1 --to DIR" in finding["remedy"]
    assert run_kdump(["salvage", "data/x", *option.split(), "--name", "gone-1", "--to", "out"], tmp_path).exit == 0
