"""Selections by size, and headers whose values are numbers in bytes."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING

import pytest

from kdump.cli.options.selection import header_values
from kdump.cli.options.sizes import size_of
from tests.support.partitions import segment, write
from tests.support.runs import run_kdump
from tests.support.segments import Record, batch

if TYPE_CHECKING:
    from pathlib import Path


def offsets(root: Path, *args: str) -> list[int]:
    run = run_kdump(["dump", "t-0", "--format", "json", *args], root)
    return [row["offset"] for row in map(json.loads, run.stdout.splitlines()) if row["type"] == "record"]


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    sizes = [(b"k", b"v" * 10), (b"k" * 5, b""), (None, None), (b"k", b"v" * 5000), (b"key", b"v" * 97)]
    files = segment(0, [batch(at, [Record(value, key)]) for at, (key, value) in enumerate(sizes)])
    return write(tmp_path, {f"t-0/{path}": data for path, data in files.items()})


@pytest.mark.parametrize(
    ("args", "found"),
    [
        (["--min-size", "100"], [3, 4]),
        (["--min-size", "4K"], [3]),
        (["--max-size", "5"], [1, 2]),
        (["--min-size", "1", "--max-size", "100"], [0, 1, 4]),
        (["--min-size", "11", "--max-size", "11"], [0]),
        (["--min-size", "1M"], []),
    ],
)
def test_records_are_selected_by_the_size_of_key_and_value(args: list[str], found: list[int], partition: Path) -> None:
    assert offsets(partition, *args) == found


def test_a_size_that_is_none_is_wrong_use(partition: Path) -> None:
    assert run_kdump(["dump", "t-0", "--min-size", "much"], partition).exit == 2
    assert size_of("--min-size", "2k") == 2048


def test_a_number_is_found_as_the_bytes_that_it_has_in_a_header() -> None:
    assert header_values("182441") == [b"182441", struct.pack(">i", 182441), struct.pack(">q", 182441)]
    assert header_values("-1") == [b"-1", b"\xff" * 2, b"\xff" * 4, b"\xff" * 8]
    assert header_values("0x00ff") == [b"0x00ff", b"\0\xff"]
    assert header_values("0xf") == [b"0xf"]
    assert header_values("orders") == [b"orders"]
    assert header_values("") == [b""]
