"""Logs under the name of another segment are known by their offsets, and no other one is taken for such a log."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from kdump.storage.evidence import evidence_of
from kdump.storage.log_dir import LogDir
from kdump.storage.misplaced import Misplaced, misplaced_in, renamed
from kdump.storage.partition_dir import PartitionDir
from tests.support.runs import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

INTACT = FIXTURES / "damage" / "intact"
KINDS = ("log", "index", "timeindex", "txnindex")
FOLDERS = ("damage/intact", "kafka-4.3.1", "kafka-4.4.0", "releases")
PARTITIONS = sorted({log.parent for folder in FOLDERS for log in (FIXTURES / folder).rglob("*.log")})


def copied(base: str, folder: Path) -> Path:
    """A copy of the partition of an intact log directory."""
    shutil.copytree(INTACT / base / "logdir", folder)
    return next(folder.glob("*-0"))


def found_in(partition: Path) -> dict[int, Misplaced]:
    return dict(misplaced_in(PartitionDir(str(partition), LogDir(str(partition.parent)))))


def exchange(partition: Path, one: int, other: int, kinds: tuple[str, ...] = ("log",)) -> None:
    for kind in kinds:
        paths = [partition / f"{base:020}.{kind}" for base in (one, other)]
        if paths[0].exists():
            data = [path.read_bytes() for path in paths]
            paths[0].write_bytes(data[1])
            paths[1].write_bytes(data[0])


@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda one: str(one.relative_to(FIXTURES)))
def test_no_intact_log_is_taken_for_one_under_a_wrong_name(partition: Path) -> None:
    assert found_in(partition) == {}


@pytest.mark.parametrize("kinds", [("log",), KINDS], ids=["log", "all"])
@pytest.mark.parametrize("base", sorted(path.name for path in INTACT.iterdir()))
def test_exchanged_logs_of_a_partition_are_known_whatever_is_in_them(
    base: str, kinds: tuple[str, ...], tmp_path: Path
) -> None:
    partition = copied(base, tmp_path / "data")
    one, other = sorted(int(path.stem) for path in partition.glob("*.log"))[:2]
    exchange(partition, one, other, kinds)
    found = found_in(partition)
    assert {name: place.base for name, place in found.items()} == {one: other, other: one}
    for old, right in renamed(list(found.values())):
        assert not (tmp_path / right).exists()
        (tmp_path / old).rename(right)
    assert {path.name: path.read_bytes() for path in partition.iterdir()} == {
        path.name: path.read_bytes() for path in (INTACT / base / "logdir" / partition.name).iterdir()
    }


def test_a_log_whose_indexes_lie_under_the_right_name_is_not_lost(tmp_path: Path) -> None:
    partition = copied("none", tmp_path / "data")
    (partition / f"{119:020}.log").rename(partition / f"{118:020}.log")
    assert evidence_of(PartitionDir(str(partition), LogDir(str(partition.parent)))).logs == {}
    (partition / f"{118:020}.log").unlink()
    assert evidence_of(PartitionDir(str(partition), LogDir(str(partition.parent)))).logs == {119: 239}


def test_all_files_of_a_segment_get_their_name_back(tmp_path: Path) -> None:
    partition = copied("none", tmp_path / "data")
    for path in partition.glob(f"{119:020}.*"):
        path.rename(path.with_name(path.name.replace("119", "118")))
    for old, right in renamed(list(found_in(partition).values())):
        (tmp_path / old).rename(right)
    names = {path.name for path in (INTACT / "none" / "logdir" / "plain-0").iterdir()}
    assert {path.name for path in partition.iterdir()} == names


def test_a_log_under_the_name_of_one_that_is_gone_does_not_stand_for_it(tmp_path: Path) -> None:
    partition = copied("none", tmp_path / "data")
    (partition / f"{240:020}.log").replace(partition / f"{119:020}.log")
    assert {name: (one.first, one.last) for name, one in found_in(partition).items()} == {119: (240, 296)}


@pytest.mark.parametrize(("base", "offset"), [("logstart", 116), ("zstd", 159), ("epochs", 118), ("none", 119)])
def test_a_log_whose_offsets_others_have_is_of_no_segment_here(base: str, offset: int, tmp_path: Path) -> None:
    partition = copied("none", tmp_path / "data")
    source = next((INTACT / base / "logdir").glob(f"*-0/{offset:020}.log"))
    (partition / f"{240:020}.log").write_bytes(source.read_bytes())
    assert found_in(partition) == {}


def test_epochs_that_the_checkpoint_contradicts_are_not_of_this_partition(tmp_path: Path) -> None:
    partition = copied("none", tmp_path / "data")
    (partition / f"{119:020}.log").rename(partition / f"{118:020}.log")
    (partition / "leader-epoch-checkpoint").write_text("0\n1\n7 0\n", "ascii")
    assert found_in(partition) == {}


def test_a_log_that_lies_under_the_name_of_an_empty_one_is_known(tmp_path: Path) -> None:
    partition = copied("none", tmp_path / "data")
    (partition / f"{119:020}.log").replace(partition / f"{0:020}.log")
    (partition / f"{119:020}.log").write_bytes(b"")  # a cleaner has left nothing in the first one
    found = found_in(partition)
    assert {name: (one.base, one.is_empty) for name, one in found.items()} == {0: (119, False), 119: (0, True)}
    for old, right in renamed(list(found.values())):
        (tmp_path / old).rename(right)
    assert (partition / f"{0:020}.log").read_bytes() == b""
    assert (partition / f"{119:020}.log").read_bytes()[:8] == (119).to_bytes(8, "big")
    assert "it has no batch" in found[119].finding.message


@pytest.mark.parametrize("at", [0, 7], ids=["first", "inside"])
def test_exchanged_logs_are_known_though_a_batch_of_one_is_damaged(at: int, tmp_path: Path) -> None:
    partition = copied("none", tmp_path / "data")
    exchange(partition, 119, 240)
    path = partition / f"{240:020}.log"
    data = bytearray(path.read_bytes())
    start = 0
    for _ in range(at):
        start += 12 + int.from_bytes(data[start + 8 : start + 12], "big")
    data[start : start + 40] = bytes(40)
    path.write_bytes(data)
    assert {name: place.base for name, place in found_in(partition).items()} == {119: 240, 240: 119}


def test_one_wrong_base_offset_hides_no_log_under_a_wrong_name(tmp_path: Path) -> None:
    partition = copied("none", tmp_path / "data")
    exchange(partition, 119, 240)
    path = partition / f"{240:020}.log"
    data = bytearray(path.read_bytes())
    size = 12 + int.from_bytes(data[8:12], "big")
    data[size : size + 8] = (2**40).to_bytes(8, "big")
    path.write_bytes(data)
    assert {name: place.base for name, place in found_in(partition).items()} == {119: 240, 240: 119}
