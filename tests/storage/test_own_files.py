"""Directories for what kdump makes: what was looked at is what is opened, and nobody else is faster."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from kdump.checks.ledger import Ledger
from kdump.repair.quarantine import Quarantine
from kdump.storage import own_files
from kdump.storage.fsops import FileOps
from kdump.storage.own_files import demand_own_place, make_own_place, open_own_place
from kdump.storage.refusal import RefusedError
from tests.support.hot_journal import give_away
from tests.support.partitions import segment, write
from tests.support.runs import run_kdump
from tests.support.segments import Record, batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A directory for all users."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    return tmp_path / "shared"


def for_all(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def of_others(path: Path) -> None:
    path.mkdir()
    give_away(path)


def link_of_others(path: Path) -> None:
    (path.parent.parent / "own").mkdir()
    path.symlink_to(path.parent.parent / "own")
    os.lchown(path, 65534, 65534)


MADE = [for_all, pytest.param(of_others, marks=AS_ROOT), pytest.param(link_of_others, marks=AS_ROOT)]


@pytest.mark.parametrize("make", MADE)
def test_a_directory_that_others_may_change_is_not_opened(make: Callable[[Path], None], shared: Path) -> None:
    make(shared / "out")
    with pytest.raises(RefusedError):
        open_own_place(str(shared / "out"))


@pytest.mark.parametrize("make", MADE)
def test_a_directory_that_others_make_first_is_not_taken_for_a_new_one(
    make: Callable[[Path], None], shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Late(FileOps):
        def make_directory(self, directory: int, name: str) -> None:
            make(shared / "out")
            super().make_directory(directory, name)

    with pytest.raises(RefusedError):
        make_own_place(str(shared / "out"), Late(), is_new=False)
    shutil.rmtree(shared / "out") if not (shared / "out").is_symlink() else (shared / "out").unlink()
    if make is not link_of_others:
        with pytest.raises(FileExistsError):
            make_own_place(str(shared / "out"), Late(), is_new=True)


def test_a_directory_in_the_place_of_the_open_one_is_told(shared: Path) -> None:
    (shared / "out").mkdir()
    fd = open_own_place(str(shared / "out"))
    (shared / "out").rename(shared / "moved")
    (shared / "out").mkdir()
    with pytest.raises(RefusedError, match="another directory has been put in its place"):
        demand_own_place(str(shared / "out"), fd)
    os.close(fd)


@pytest.mark.parametrize("make", [for_all, pytest.param(of_others, marks=AS_ROOT)])
def test_no_ledger_is_made_where_others_have_made_the_directory(
    make: Callable[[Path], None], shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = own_files.own_place

    def late(path: str, *, sticky: bool = True) -> str:
        found = look(path, sticky=sticky)
        if not (shared / "new").exists():
            make(shared / "new")
        return found

    for module in ("kdump.checks.ledger", "kdump.storage.own_files"):
        monkeypatch.setattr(f"{module}.own_place", late)
    with pytest.raises(RefusedError):
        Ledger(str(shared / "new" / "ledger"))
    assert not list((shared / "new").iterdir())


@pytest.mark.parametrize("make", MADE)
@pytest.mark.parametrize("where", ["out", "out/t-0"])
def test_indexes_are_not_written_aside_where_others_may_change_them(
    where: str, make: Callable[[Path], None], shared: Path
) -> None:
    write(shared.parent / "copy" / "t-0", segment(0, [batch(0, [Record()])]))
    (shared.parent / "copy" / "t-0" / f"{0:020}.timeindex").unlink()
    (shared / where).parent.mkdir(exist_ok=True)
    make(shared / where)
    done = run_kdump(["reindex", "copy/t-0", "--force", "--output", "shared/out"], shared.parent)
    assert done.exit == 12, done.stderr
    assert not [path for path in shared.rglob("*") if path.is_file()]


def test_a_quarantine_that_somebody_has_made_first_is_not_removed(shared: Path) -> None:
    class Late(FileOps):
        def make_directory(self, directory: int, name: str) -> None:
            (shared / "quarantine").mkdir()
            super().make_directory(directory, name)

    with pytest.raises(FileExistsError):
        Quarantine.make(str(shared / "quarantine"), "t-0", "reindex", os.geteuid(), Late())
    assert (shared / "quarantine").is_dir()
