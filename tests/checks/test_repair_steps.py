"""Where a step is `kdump repair`: its plan has a change, and what it does not mend is told in words."""

from __future__ import annotations

import json
import shlex
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import kdump
from kdump.checks.mendable import file_repair
from kdump.finding import Code, Finding
from kdump.rows.steps import Rank
from kdump.storage import identity
from tests.support.damage_cases import damage_cases
from tests.support.partitions import name
from tests.support.runs import FIXTURES, copy_tree, run_kdump

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kdump.rows.steps import Step
    from kdump.storage.log_dir import LogDir

NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
CASES = {one.name: one for one in damage_cases(FIXTURES / "damage")}
E, M = "epochs-0/leader-epoch-checkpoint", "epochs-0/partition.metadata"
POINTS, PROPERTIES = "recovery-point-offset-checkpoint", "meta.properties"
PLACEHOLDERS = {"ID": "fCSVLSkzRbWEXyTk3ICOcg", "N": "1"}


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Some sound partitions and the files of their log directory."""
    target = tmp_path / "data"
    target.mkdir()
    for partition in ("epochs-0", "plain-0", "tombstone-0", "__cluster_metadata-0"):
        copy_tree(NODE / partition, target / partition)
    for one in NODE.iterdir():
        if one.is_file():
            shutil.copy(one, target)
    return target


def repairs(path: Path, *more: Path) -> list[Step]:
    """The steps of verify that are `kdump repair`."""
    return [one for one in kdump.verify([path, *more]).steps if (one.command or "").startswith("kdump repair ")]


def kinds(step: Step, root: Path) -> list[str]:
    """What the plan of a step would mend; a dry run."""
    words = [PLACEHOLDERS.get(word, word) for word in shlex.split(step.command or "")]
    rows: list[dict[str, Any]] = [
        json.loads(line) for line in run_kdump([*words[1:], "--format", "json"], root).stdout.splitlines()
    ]
    return [row["kind"] for row in rows if row["type"] == "plan" and row["kind"] is not None]


def overwritten(file: str, data: bytes) -> Callable[[Path], object]:
    return lambda log_dir: (log_dir / file).write_bytes(data)


def foreign(log_dir: Path) -> object:
    return shutil.copy(log_dir / "tombstone-0" / "leader-epoch-checkpoint", log_dir / E)


def without_id(log_dir: Path) -> None:
    (log_dir / M).unlink()


def start_ahead(log_dir: Path) -> object:
    return (log_dir / "log-start-offset-checkpoint").write_text("0\n1\nepochs 0 999999\n")


def negative_point(log_dir: Path) -> object:
    return (log_dir / POINTS).write_text("0\n1\nepochs 0 -5\n")


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        pytest.param(overwritten(E, bytes(16)), "epochs", id="K04-zeros"),
        pytest.param(foreign, "epochs", id="E03-foreign"),
        pytest.param(overwritten(M, b""), "partition-metadata", id="K05-empty"),
        pytest.param(without_id, "partition-metadata", id="K05-gone"),
        pytest.param(overwritten(POINTS, bytes(16)), "checkpoint", id="K03-zeros"),
        pytest.param(overwritten(PROPERTIES, b""), "meta-properties", id="K03-properties"),
        pytest.param(start_ahead, "checkpoint", id="K02"),
        pytest.param(negative_point, "checkpoint", id="K07"),
    ],
)
def test_a_small_file_is_mended_by_the_step(
    damage: Callable[[Path], object], kind: str, log_dir: Path, tmp_path: Path
) -> None:
    assert repairs(log_dir) == []
    damage(log_dir)
    (step,) = repairs(log_dir)
    assert (step.rank, kinds(step, tmp_path)) == (Rank.RECOMMENDED, [kind])


@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.sampled(12)
def test_what_a_step_would_repair_has_a_plan(name: str, tmp_path: Path) -> None:
    log_dir = CASES[name].build(tmp_path / "data")
    for step in repairs(log_dir):
        assert kinds(step, tmp_path), step


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(overwritten(E, bytes(16)), id="epochs"),
        pytest.param(overwritten(POINTS, bytes(16)), id="recovery-points"),
    ],
)
def test_what_damage_of_the_log_keeps_repair_from_is_told_in_words(
    damage: Callable[[Path], object], log_dir: Path
) -> None:
    log = log_dir / "epochs-0" / name(0)
    data = bytearray(log.read_bytes())
    data[65] ^= 1  # of a record
    log.write_bytes(data)
    (log_dir / ".kafka_cleanshutdown").unlink(missing_ok=True)
    damage(log_dir)
    assert repairs(log_dir) == []


def test_a_topic_id_that_nobody_tells_is_told_in_words(log_dir: Path) -> None:
    shutil.rmtree(log_dir / "__cluster_metadata-0")
    (log_dir / M).write_bytes(b"")
    assert repairs(log_dir) == []
    (step,) = (one for one in kdump.verify(log_dir).steps if "K05" in one.why)
    assert step.command is None


def test_partitions_without_a_topic_id_ask_those_beside_them_once_for_all(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each asked all others anew: a thousand of one topic took minutes."""
    for number in range(1, 12):
        copy_tree(log_dir / "epochs-0", log_dir / f"epochs-{number}")
        (log_dir / f"epochs-{number}" / "partition.metadata").unlink()
    asked: list[str] = []
    ask = identity._sound_id

    def counted(path: str, its: LogDir) -> str | None:
        asked.append(path)
        return ask(path, its)

    monkeypatch.setattr(identity, "_sound_id", counted)
    steps = repairs(log_dir)
    assert sum(len(one.partitions) for one in steps) == 11
    assert len(asked) == len(set(asked))


def test_a_metadata_log_in_another_log_directory_is_named_along(log_dir: Path, tmp_path: Path) -> None:
    other = tmp_path / "metadata"
    other.mkdir()
    (log_dir / "__cluster_metadata-0").rename(other / "__cluster_metadata-0")
    shutil.copy(log_dir / PROPERTIES, other)
    (log_dir / M).write_bytes(b"")
    paths = [str(log_dir), str(other)]
    run = run_kdump(["verify", *paths, "--format", "json"], tmp_path)
    steps = [json.loads(line) for line in run.stdout.splitlines() if b'"step"' in line]
    commands = [one["command"] for one in steps if (one["command"] or "").startswith("kdump repair ")]
    for command in commands:
        assert shlex.split(command)[2:] == [str(log_dir / "epochs-0"), str(other / "__cluster_metadata-0")]


def test_the_other_directories_of_the_broker_tell_its_ids(log_dir: Path, tmp_path: Path) -> None:
    other = tmp_path / "second"
    other.mkdir()
    shutil.copy(log_dir / PROPERTIES, other)
    copy_tree(NODE / "plain-0", other / "mixed-0")
    (log_dir / PROPERTIES).write_bytes(b"")
    (step,) = repairs(log_dir, other)
    assert step.command == f"kdump repair {log_dir} {other} --only meta-properties"
    assert kinds(step, tmp_path) == ["meta-properties"]


def test_a_file_of_a_directory_that_nobody_named_is_left_to_a_person(log_dir: Path) -> None:
    path = str(log_dir / POINTS)
    assert file_repair(Finding(Code.K03, path, values={"why": "zeros"}), path, []) is None


def test_a_file_alone_is_not_mended_by_a_repair_of_its_partition(log_dir: Path) -> None:
    index = log_dir / "plain-0" / name(0, "index")
    index.write_bytes(bytes(8))
    assert repairs(index) == []
    (step,) = repairs(log_dir / "plain-0")
    assert step.command == f"kdump repair {log_dir / 'plain-0'}"
