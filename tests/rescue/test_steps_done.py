"""Who does what salvage says has every record: a broker loads the result, and its next retention check keeps it.

A sample; all corpora: python -m tests.support.salvage_steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.damage_cases import damage_cases
from tests.support.partitions import below, checkpoint, meta, segment, write
from tests.support.runs import FIXTURES
from tests.support.salvage_steps import Broker, steps_done
from tests.support.segments import batch
from tests.support.whole_lines import run_kdump

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.damage_cases import Damage

LOGS = [segment(base, [batch(base + number, [b"v"]) for number in range(10)]) for base in (0, 10, 20)]
ENDS = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint")


def log_dir(root: Path, partition: str = "orders-0", *, start: int | None = None, end: int = 30) -> Path:
    files = {name: data for log in LOGS for name, data in log.items()}
    files |= {"leader-epoch-checkpoint": checkpoint((0, 0))}
    files |= {"partition.metadata": b"version: 0\ntopic_id: CCCCCCCCCCCCCCCCCCCCCA"}
    made = {"logdir/meta.properties": meta(1), "logdir/.kafka_cleanshutdown": b""}
    made |= {f"logdir/{one}": checkpoint(("orders", 0, end)) for one in ENDS}
    starts = [] if start is None else [("orders", 0, start)]
    made["logdir/log-start-offset-checkpoint"] = checkpoint(*starts)
    return write(root, made | below(f"logdir/{partition}", files)) / "logdir"


@pytest.mark.parametrize(
    ("start", "end", "options"),
    [
        (25, 30, ["--below-log-start"]),
        (10, 30, ["--below-log-start"]),
        (5000, 30, []),
        (25, 5000, []),
        (5000, 5000, []),
    ],
    ids=["deleted records", "deleted segments", "a start that is ahead", "an end that is ahead", "both"],
)
def test_a_number_in_a_checkpoint_takes_nothing_from_the_result(
    start: int, end: int, options: list[str], tmp_path: Path
) -> None:
    source = log_dir(tmp_path, start=start, end=end)
    if not options:
        (source / "orders-0" / f"{20:020}.log").write_bytes(LOGS[2][f"{20:020}.log"][:-1] + b"\0")
    (tmp_path / "a").mkdir()
    assert steps_done([source], tmp_path / "a", *options) == (1, [])


def test_a_deleted_topic_comes_back(tmp_path: Path) -> None:
    source = log_dir(tmp_path, f"orders-0.{'0' * 32}-delete", start=25)
    (tmp_path / "a").mkdir()
    assert steps_done([source], tmp_path / "a") == (1, [])


def test_a_result_that_a_checkpoint_would_empty_is_a_fault(tmp_path: Path) -> None:
    source = log_dir(tmp_path, start=25)
    run_kdump(["salvage", "logdir", "--to", "out", "--below-log-start"], tmp_path)
    broker = Broker(source, tmp_path / "out" / "orders-0")
    broker.do("write a letter")
    faults = list(broker.faults(30, 0))
    assert [one.partition(" start makes ")[0] for one in faults[1:3]] == ["a clean", "a unclean"]
    assert faults[0] == "a step that nobody can do: write a letter"
    assert faults[3] == "a retention check deletes [0, 10], and the log starts at 25"


@pytest.mark.parametrize("case", damage_cases(FIXTURES / "damage")[::24], ids=lambda case: case.name)
def test_the_result_of_a_damaged_partition_is_kept_whole(case: Damage, tmp_path: Path) -> None:
    case.build(tmp_path / "logdir")
    for number, options in enumerate(((), ("--below-log-start",))):
        root = tmp_path / str(number)
        root.mkdir()
        assert steps_done([tmp_path / "logdir"], root, *options)[1] == []
