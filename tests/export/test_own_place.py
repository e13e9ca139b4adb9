"""Rows and notes of an export go where nobody else can lead them, also when others are faster."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from kdump.export import state
from kdump.export.arrow import from_rows
from kdump.export.tables import columns_of
from kdump.export.write import FORMATS, RowFile
from kdump.storage import own_files, own_tree
from kdump.storage.refusal import RefusedError
from tests.support.hot_journal import give_away

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
COLUMNS = columns_of("losses", ["offset"])
FOLDER = "topic=a/partition=0"
PLAN: dict[str, Any] = {"asked": {}, "parts": [], "problems": []}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory for all users, and one that is none of theirs."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    (tmp_path / "elsewhere" / "partition=0").mkdir(parents=True)
    return tmp_path


def write(out: Path, kind: str = "json") -> None:
    with RowFile(str(out), FOLDER, f"x.{kind}", kind, "losses", COLUMNS) as file:
        file.write(from_rows([{"offset": 5}], COLUMNS))


def faster(monkeypatch: pytest.MonkeyPatch, act: Callable[[str], None]) -> None:
    """Others act between the look at a place and what is made there."""
    make = own_files.make_directories

    def late(path: str) -> None:
        act(path)
        make(path)

    monkeypatch.setattr(own_tree, "make_directories", late)


def open_to_all(path: str) -> None:
    os.mkdir(path)  # noqa: PTH102
    os.chmod(path, 0o777)  # noqa: PTH101


def of_others(path: str) -> None:
    os.mkdir(path)  # noqa: PTH102
    os.chown(path, 65534, 65534)


def above_it(path: str) -> None:
    os.mkdir(os.path.dirname(path))  # noqa: PTH102
    os.chmod(os.path.dirname(path), 0o777)  # noqa: PTH101


@pytest.mark.parametrize("act", [open_to_all, pytest.param(of_others, marks=AS_ROOT), above_it])
@pytest.mark.parametrize("writes", [lambda out: state.write_plan(str(out), PLAN), write])
def test_a_directory_that_others_make_meanwhile_is_not_written_to(
    writes: Callable[[Path], None], act: Callable[[str], None], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`export --to` once made its plan in one that somebody else may write."""
    faster(monkeypatch, act)
    with pytest.raises(RefusedError):
        writes(place / "shared" / "deep" / "out" if act is above_it else place / "shared" / "out")
    assert not [path for path in place.rglob("*") if path.is_file()]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("link", ["topic=a", FOLDER])
def test_rows_follow_no_link(link: str, kind: str, place: Path) -> None:
    out = place / "shared" / "out"
    (out / link).parent.mkdir(parents=True)
    (out / link).symlink_to(place / "elsewhere")
    with pytest.raises(RefusedError, match="is a symbolic link"):
        write(out, kind)
    assert not [path for path in place.rglob("*") if path.is_file()]


@AS_ROOT
@pytest.mark.parametrize("whose", ["topic=a", FOLDER])
def test_rows_go_into_no_directory_of_others(whose: str, place: Path) -> None:
    out = place / "shared" / "out"
    (out / FOLDER).mkdir(parents=True)
    give_away(out / whose)
    with pytest.raises(RefusedError, match="belongs to user 65534"):
        write(out)
    assert not [path for path in place.rglob("*") if path.is_file()]


def test_a_link_that_comes_while_rows_are_written_gives_no_name_elsewhere(place: Path) -> None:
    out = place / "shared" / "out"
    file = RowFile(str(out), FOLDER, "x.json", "json", "losses", COLUMNS)
    file.write(from_rows([{"offset": 5}], COLUMNS))
    (out / "topic=a").rename(place / "moved")
    (out / "topic=a").symlink_to(place / "elsewhere")
    with pytest.raises(RefusedError):
        file.__exit__(None, None, None)
    assert not [path for path in (place / "elsewhere").rglob("*") if path.is_file()]


def test_what_a_killed_run_has_left_is_not_removed_by_way_of_a_link(place: Path) -> None:
    out = place / "shared" / "out"
    state.write_plan(str(out), PLAN)
    (place / "elsewhere" / "partition=0" / ".x.0000.tmp").write_text("keep")
    (out / "topic=a").symlink_to(place / "elsewhere")
    state.remove_temporaries(str(out))
    with pytest.raises(RefusedError, match="is a symbolic link"):
        state.remove_attempt(str(out), FOLDER, "x")
    assert (place / "elsewhere" / "partition=0" / ".x.0000.tmp").exists()


def test_what_a_killed_run_has_left_goes(place: Path) -> None:
    out = place / "shared" / "out"
    write(out)
    for attempt in (".x.0000.tmp", ".y.0000.tmp"):
        (out / FOLDER / attempt).touch()
    state.remove_attempt(str(out), FOLDER, "x")
    assert sorted(path.name for path in (out / FOLDER).iterdir()) == [".y.0000.tmp", "x.json"]
    state.remove_temporaries(str(out))
    assert [path.name for path in (out / FOLDER).iterdir()] == ["x.json"]


@pytest.mark.parametrize("kind", FORMATS)
def test_rows_that_cannot_be_written_leave_nothing(kind: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write(place / "shared" / "out", kind)
    assert not list((place / "shared" / "out" / FOLDER).iterdir())
