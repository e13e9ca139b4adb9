"""Each code has a directory in the fixtures that shows it and, but for what follows from it, nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kdump.finding import Code
from tests.support.make_fixtures import EXPECT, FIXTURES, files
from tests.support.partitions import write
from tests.support.runs import changed, fingerprint
from tests.support.scan_windows import check_words
from tests.support.verify_runs import FOLDERS, NOT_OF_VERIFY, STAGED, below, shown_by

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 200_000


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_is_committed_is_what_the_script_makes(tmp_path: Path) -> None:
    assert {folder.name for folder in FOLDERS} == set(FIXTURES)
    for folder in FOLDERS:
        made = write(tmp_path / folder.name, files(FIXTURES[folder.name]))
        assert content(folder) == content(made), folder.name


def test_they_are_small() -> None:
    assert sum(len(data) for folder in FOLDERS for data in content(folder).values()) < MAX_BYTES


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_each_shows_what_is_expected_and_nothing_else(folder: Path) -> None:
    before = fingerprint(folder)
    found, expect = shown_by(folder)
    found = below(folder, found)
    told = [(one.code.name, one.severity.value, one.file, one.position, one.length) for one in found]
    assert told == [tuple(one.values()) for one in expect["findings"]]
    for one in found:
        check_words(one)
    assert changed(before, fingerprint(folder)) is None


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_its_name_says_which_code_it_is_about(folder: Path) -> None:
    expect = json.loads((folder / EXPECT).read_text("utf-8"))
    kind, code, words = folder.name.split("-", 2)
    assert kind in KINDS
    assert words
    assert code.upper() in {one["code"] for one in expect["findings"]}


KINDS = {
    "directory", "log", "batch", "record", "index", "timeindex", "txnindex", "snapshot", "checkpoint", "replica",
}  # fmt: skip


def test_every_code_has_a_directory_or_a_reason() -> None:
    named = {Code[folder.name.split("-")[1].upper()] for folder in FOLDERS}
    assert len(named) == len(FOLDERS)
    assert named.isdisjoint([*STAGED, *NOT_OF_VERIFY])
    assert named | set(STAGED) | set(NOT_OF_VERIFY) == set(Code)


@pytest.mark.parametrize("code", STAGED)
def test_what_no_committed_file_can_show(code: Code, tmp_path: Path) -> None:
    why, stage = STAGED[code]
    found = stage(tmp_path / "topic-0")
    assert code in {one.code for one in found}, why
    for one in found:
        check_words(one)
