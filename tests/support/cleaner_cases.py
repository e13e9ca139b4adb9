"""What 4.3.1 deleted, rolled and compacted: recorded cases, and how each is set up."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from typing import TYPE_CHECKING, Any

from kdump.broker.config import Config
from kdump.broker.retention_results import Compacted, Retained
from kdump.finding import Finding
from kdump.retention.run import RetentionOptions, retention
from tests.support.damage_cases import apply_edit
from tests.support.runs import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

    from kdump.broker.retention_results import RetentionItem

CLEANUP = FIXTURES / "cleanup"
LIMIT = 1 << 26
_OTHER = json.loads((CLEANUP / "other-partitions.json").read_text("utf-8"))
Case = dict[str, Any]


def recorded(kind: str) -> list[str]:
    """The names of the files of a kind of cases."""
    return sorted(path.name.removesuffix(".jsonl.gz") for path in (CLEANUP / kind).iterdir())


def cases(kind: str, name: str) -> list[Case]:
    """The cases of one file."""
    text = gzip.decompress((CLEANUP / kind / f"{name}.jsonl.gz").read_bytes())
    return [json.loads(line) for line in text.splitlines()]


def cases_of(name: str) -> list[Case]:
    """The cases of a file that is no folder."""
    return [json.loads(line) for line in (CLEANUP / name).read_text("utf-8").splitlines()]


def base_of(source: str) -> Case:
    """What is known of a log directory: partition, configuration, times of files."""
    found: Case = _OTHER.get(source) or json.loads((CLEANUP / source).with_name("base.json").read_text("utf-8"))
    return found


def set_up(case: Case, target: Path) -> tuple[Path, dict[str, str]]:
    """Make the log directory of a case; return it and the configuration."""
    shutil.rmtree(target, ignore_errors=True)
    source = case["from"]
    shutil.copytree(FIXTURES / source.removeprefix("../") if source in _OTHER else CLEANUP / source, target)
    for edit in case.get("edits", ()):
        apply_edit(target, edit)
    base = base_of(source)
    set_times(target / base["partition"], base)
    return target, texts({**base["config"], **case["config"]})


def set_times(partition: Path, base: Case) -> None:
    """Give the logs of a partition the times that they had."""
    for segment in base["segments"]:
        set_time(partition / f"{segment['base']:020}.log", segment["mtime_ms"])


def set_time(path: Path, modified: int) -> None:
    """Give a file a time, ms since the epoch."""
    os.utime(path, ns=(modified * 10**6, modified * 10**6))


def texts(config: dict[str, Any]) -> dict[str, str]:
    """A configuration as a user gives it."""
    return {name: str(value) for name, value in config.items()}


def options(config: dict[str, str], now: int, *, release: str = "4.3", **given: Any) -> RetentionOptions:
    """What is asked for."""
    asked: dict[str, Any] = {
        "high_watermark": None, "log_start_offset": None, "highest_remote_offset": None,
        "compaction": False, "clean": False, "collect": True,
        "progress": False, "max_batch_bytes": LIMIT, "max_uncompressed_bytes": LIMIT,
    }  # fmt: skip
    return RetentionOptions(Config(config, release=release), now, **(asked | given))


def run(path: Path, config: dict[str, str], now: int, **given: Any) -> list[RetentionItem]:
    """All that is said of a directory."""
    return list(retention([str(path)], options(config, now, **given)))


def retained(items: list[RetentionItem]) -> Retained:
    """The one row about what is deleted."""
    (row,) = [item for item in items if isinstance(item, Retained)]
    return row


def compacted(items: list[RetentionItem]) -> Compacted:
    """The one row about what is compacted."""
    (row,) = [item for item in items if isinstance(item, Compacted)]
    return row


def codes(items: list[RetentionItem]) -> list[str]:
    """The codes of the findings."""
    return [item.code.name for item in items if isinstance(item, Finding)]
