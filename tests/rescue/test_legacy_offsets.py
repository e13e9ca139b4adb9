"""The batch of magic 0 or 1 that contradicts all others is the wrong one; the same bytes in another copy settle it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.partitions import checkpoint, name, write
from tests.support.runs import run_kdump
from tests.support.segments import message, wrapper

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BIT = 1 << 26


def wrapped(magic: int, first: int, size: int = 2, by: int = 0) -> bytes:
    """A wrapper of some messages, whose offset is wrong by a number."""
    return wrapper(magic, first, [b"v%d" % k for k in range(first, first + size)], wrapper_offset=first + size - 1 + by)


def offsets(folder: Path, args: Sequence[str]) -> list[tuple[int, int]]:
    """First and last offset of what salvage has kept without a hole, and nothing may be lost."""
    run = run_kdump(["salvage", *args, "--to", "out", "--format", "json"], folder)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    assert [row for row in rows if row["type"] == "loss"] == [], run.stdout.decode()
    found: list[tuple[int, int]] = []
    for row in rows:
        if row["type"] == "kept" and found and found[-1][1] + 1 == row["offset"]:
            found[-1] = found[-1][0], row["lastOffset"]
        elif row["type"] == "kept":
            found.append((row["offset"], row["lastOffset"]))
    return found


def restored(folder: Path, part: bytes, path: str) -> None:
    """After patch-header a log ends in the batch as it was."""
    run = run_kdump(["patch-header", path, "--apply", "--quarantine", "aside"], folder)
    assert run.exit == 0, run.stdout.decode() + run.stderr.decode()
    assert (folder / path).read_bytes().count(part) == 1


@pytest.mark.parametrize("magic", [0, 1])
def test_the_only_offset_that_one_bit_explains_between_two_wrappers_is_restored(magic: int, tmp_path: Path) -> None:
    parts = [wrapped(magic, 0), wrapped(magic, 2, by=BIT), wrapped(magic, 4), wrapped(magic, 6)]
    write(tmp_path / "t-0", {name(0): b"".join(parts)})
    assert offsets(tmp_path, ["t-0"]) == [(0, 7)]
    restored(tmp_path, wrapped(magic, 2), f"t-0/{name(0)}")


@pytest.mark.parametrize("magic", [0, 1])
def test_so_is_a_last_wrapper_that_reaches_into_the_next_segment(magic: int, tmp_path: Path) -> None:
    parts = [wrapped(magic, 0), wrapped(magic, 2, by=64)]
    write(tmp_path / "t-0", {name(0): b"".join(parts), name(4): message(magic, 4)})
    assert offsets(tmp_path, ["t-0"]) == [(0, 4)]
    restored(tmp_path, wrapped(magic, 2), f"t-0/{name(0)}")


@pytest.mark.parametrize("magic", [0, 1])
def test_so_is_a_first_wrapper_that_reaches_over_those_behind_it(magic: int, tmp_path: Path) -> None:
    parts = [wrapped(magic, 0, by=2), wrapped(magic, 2, 1), wrapped(magic, 3, 1)]
    write(tmp_path / "t-0", {name(0): b"".join(parts)})
    assert offsets(tmp_path, ["t-0"]) == [(0, 3)]


@pytest.mark.parametrize("by", [BIT, 3 << 20])
def test_the_last_wrapper_of_a_log_lies_where_other_files_know_the_log_to_end(by: int, tmp_path: Path) -> None:
    parts = [wrapped(1, 0), wrapped(1, 2), wrapped(1, 4, by=by)]
    write(tmp_path, {"recovery-point-offset-checkpoint": checkpoint(("t", 0, 6))})
    write(tmp_path / "t-0", {name(0): b"".join(parts)})
    run = run_kdump(["verify", "t-0", "--format", "json"], tmp_path)
    found = [json.loads(line) for line in run.stdout.splitlines()]
    expected = [row["expected"] for row in found if row["type"] == "finding" and row["field"] == "baseOffset"]
    assert expected == ([5] if by == BIT else [])  # of several bits the other files may be older


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("by", [1, BIT])
def test_the_same_bytes_in_two_other_copies_tell_the_offset_of_a_wrapper(magic: int, by: int, tmp_path: Path) -> None:
    for copy, wrong in (("a", 0), ("b", by), ("c", 0)):
        parts = [wrapped(magic, 0), wrapped(magic, 2), wrapped(magic, 4, by=wrong)]
        write(tmp_path / copy / "t-0", {name(0): b"".join(parts)})
    assert offsets(tmp_path, ["a", "b", "c"]) == [(0, 5)]


def test_the_same_bytes_in_another_copy_tell_the_offset_of_a_message(tmp_path: Path) -> None:
    parts = [message(1, k, b"v%d" % k) for k in range(6)]
    moved = (5 + BIT).to_bytes(8, "big") + parts[5][8:]
    write(tmp_path / "a" / "t-0", {name(0): b"".join(parts)})
    write(tmp_path / "b" / "t-0", {name(0): b"".join([*parts[:5], moved])})
    assert offsets(tmp_path, ["a", "b"]) == [(0, 5)]
