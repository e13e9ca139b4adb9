"""A log directory with damage of several kinds, and a replica of it: what the tests of the HTML report look at."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdump.broker.config import Config
from kdump.broker.load.facts import Start
from kdump.broker.load.log_manager import LoadSettings
from tests.support.verify_runs import items_of

if TYPE_CHECKING:
    from kdump.item import Item

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
NOW = "2026-11-22T03:12:00Z"
_NOW = 1_795_317_120_000
_PLAIN = FIXTURES / "damage/intact/none/logdir"
_OTHERS = ("tombstone-0", "txn-0", "mixed-0", "epochs-0")


def build(folder: Path) -> tuple[Path, Path]:
    """Make the directories `broker-1`, which is damaged, and `broker-2`, which is sound.

    Args:
        folder: where; it exists.
    """
    first, second = folder / "broker-1", folder / "broker-2"
    for broker in (first, second):
        shutil.copytree(_PLAIN, broker)
        (broker / "plain-0").rename(broker / "payments-7")
        for path in broker.iterdir():
            if path.is_file() and path.name != "meta.properties":
                path.unlink()
    for name in _OTHERS:
        shutil.copytree(FIXTURES / "kafka-4.3.1/clean/node1" / name, first / name)
    payments = first / "payments-7"
    _write(payments / f"{119:020}.log", 300, b"X")  # a wrong CRC
    _write(payments / f"{119:020}.log", 2200, bytes(900))  # a hole
    _write(payments / f"{119:020}.index", 15, b"\0")  # an entry that leads nowhere
    log = payments / f"{240:020}.log"
    _write(log, log.stat().st_size - 70, b"\xff" * 70)
    time_index = payments / f"{0:020}.timeindex"
    _write(time_index, time_index.stat().st_size - 12, bytes(12))
    with (first / "txn-0" / f"{0:020}.log").open("r+b") as file:
        file.seek(500)
        file.write(b"X")
    return first, second


def items_of_scene(*paths: Path | str, **options: Any) -> list[Item]:
    """All that verify says of some directories, with what a broker does at its next start."""
    settings = LoadSettings(_NOW, Config({}), None)
    return items_of(*paths, starts=tuple(Start), settings=settings, **options)


def _write(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)
