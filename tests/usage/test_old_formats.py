"""Formats without a field, and messages within messages: what is counted and selected of magic 0 and 1."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.runs import FIXTURES, run_kdump

if TYPE_CHECKING:
    from pathlib import Path

OLD = [
    one
    for release in ("0.8.2.2", "0.9.0.1", "0.10.2.2")
    for one in sorted((FIXTURES / "releases" / release / "logs").glob("*-0"))
]


def rows(path: Path, *args: str) -> list[dict[str, object]]:
    run = run_kdump([*args, str(path), "--format", "json"], path)
    return [json.loads(line) for line in run.stdout.splitlines()]


def records(path: Path, *args: str) -> list[object]:
    return [one["offset"] for one in rows(path, "dump", "--deep-iteration", *args) if one["type"] == "record"]


@pytest.mark.parametrize("path", OLD, ids=lambda path: f"{path.parts[-3]}-{path.name}")
def test_records_in_compressed_messages_count_in_the_total(path: Path) -> None:
    every = len(records(path))
    for by in ("key", "codec"):
        used = [one["records"] for one in rows(path, "du", "--by", by, "--top", "2") if one["type"] == "usage"]
        assert all(isinstance(one, int) and one >= 0 for one in used), by
        if by == "key":
            assert sum(one for one in used if isinstance(one, int)) == every


@pytest.mark.parametrize("path", OLD[:3], ids=lambda path: f"{path.parts[-3]}-{path.name}")
@pytest.mark.parametrize("option", ["--producer-id", "--leader-epoch"])
def test_what_has_no_producer_and_no_epoch_has_those_of_none(path: Path, option: str) -> None:
    assert records(path, option, "-1") == records(path)
    assert records(path, option, "0") == []
    some = records(path, option, "-1", "--from-offset", "2", "--to-offset", "5")
    assert some == [one for one in records(path) if isinstance(one, int) and 2 <= one < 5]
