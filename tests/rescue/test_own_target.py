"""The directory that a rescue writes into is the one that was looked at, and nobody else's, also minutes later."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from kdump.rescue.carve_output import CarveOutput
from kdump.rescue.salvage import Wanted, salvage
from kdump.rescue.target import Made, Target
from kdump.rows.salvaged import SalvageRefused
from kdump.storage.fsops import FileOps
from kdump.storage.refusal import RefusedError
from tests.support.healing import OPTIONS
from tests.support.hot_journal import give_away
from tests.support.partitions import meta, segment, write
from tests.support.segments import Record, batch
from tests.support.whole_lines import run_kdump

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
NAMES = {"a-0": Made(("copy/a-0",))}
NOBODY = 65534


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A copy of a partition, an image, and a directory for all users."""
    write(tmp_path / "copy" / "a-0", segment(0, [batch(0, [Record()])]))
    shutil.copyfile(tmp_path / "copy" / "a-0" / f"{0:020}.log", tmp_path / "image")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    return tmp_path


def checked(place: Path, to: str = "shared/out") -> Target:
    target = Target(str(place / to), FileOps())
    assert target.check([str(place / "copy")], NAMES) == set()
    return target


# --- what is there from the start -----------------------------------------------------------------------------
@AS_ROOT
@pytest.mark.parametrize("verb", [("salvage", "copy/a-0"), ("carve", "image")])
@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_an_empty_directory_of_others_is_no_place_for_a_rescue(mode: int, verb: tuple[str, ...], place: Path) -> None:
    out = place / "shared" / "out"
    out.mkdir()
    give_away(out)
    out.chmod(mode)
    done = run_kdump([*verb, "--to", "shared/out"], place)
    assert (done.exit, b"belongs to user 65534" in done.stderr) == (12, True), done.stderr
    assert not list(out.iterdir())


@pytest.mark.parametrize("verb", [("salvage", "copy/a-0"), ("carve", "image")])
def test_an_empty_directory_that_others_may_write_is_no_place_for_a_rescue(verb: tuple[str, ...], place: Path) -> None:
    out = place / "out"
    out.mkdir()
    out.chmod(0o777)
    done = run_kdump([*verb, "--to", "out"], place)
    assert (done.exit, b"others may write it" in done.stderr) == (12, True), done.stderr
    assert not list(out.iterdir())
    out.chmod(0o755)
    assert run_kdump([*verb, "--to", "out"], place).exit == 0


# --- what others make meanwhile -------------------------------------------------------------------------------
def of_others(out: Path) -> None:
    out.mkdir()
    out.chmod(0o777)
    if os.geteuid() == 0:
        give_away(out)


def a_link(out: Path) -> None:
    out.symlink_to(out.parent.parent / "elsewhere")


def a_log_dir(out: Path) -> None:
    write(out, {"meta.properties": meta(1)})


@pytest.mark.parametrize("make", [of_others, a_link, a_log_dir])
def test_a_target_that_is_made_while_salvage_reads_is_judged_again(make: Callable[[Path], None], place: Path) -> None:
    (place / "elsewhere").mkdir()
    target = checked(place)
    make(place / "shared" / "out")
    before = sorted(place.rglob("*"))
    target.clean()
    if make is a_link:  # one of this user's own leads where that user wants
        target.open()
        assert os.path.samestat(os.fstat(target.fd), (place / "elsewhere").stat())
        target.close()
        if os.geteuid():
            return
        target = checked(place, "shared/other")
        make(place / "shared" / "other")
        os.lchown(place / "shared" / "other", NOBODY, NOBODY)
        before = sorted(place.rglob("*"))
    with pytest.raises(RefusedError):
        target.open()
    target.forget("a-0")
    assert (target.fd, sorted(place.rglob("*"))) == (-1, before)


def test_a_directory_that_another_process_of_this_run_has_made_is_taken(place: Path) -> None:
    first, second = checked(place), checked(place)
    first.open()
    second.open()
    assert os.path.samestat(os.fstat(first.fd), os.fstat(second.fd))
    first.close()
    second.close()


def test_what_salvage_has_looked_at_is_what_it_writes_to(place: Path) -> None:
    out = place / "shared" / "out"
    out.mkdir()
    target = checked(place)
    out.rename(place / "shared" / "moved")
    out.mkdir()
    target.open()
    assert os.path.samestat(os.fstat(target.fd), (place / "shared" / "moved").stat())
    target.close()


def test_a_refusal_to_write_is_one_of_its_partition(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are faster: salvage once wrote into their directory, with status 0."""
    monkeypatch.chdir(place)
    clean = Target.clean

    def late(target: Target) -> None:
        clean(target)
        of_others(place / "shared" / "out")

    monkeypatch.setattr(Target, "clean", late)
    items = list(salvage(["copy/a-0"], Wanted("shared/out", None, ()), OPTIONS))
    (refused,) = [one for one in items if isinstance(one, SalvageRefused)]
    assert not refused.failed
    assert not list((place / "shared" / "out").iterdir())


# --- what is removed ------------------------------------------------------------------------------------------
def appears(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """Right after a directory was listed to judge what is in it, something appears there."""
    listed, seen = os.listdir, [0]

    def listing(at: str | int = ".") -> list[str]:
        found = listed(at)
        there = os.fstat(at) if isinstance(at, int) else os.stat(at)
        seen[0] += os.path.samestat(there, path.parent.stat())
        if seen[0] == 2:  # first of all it was asked whether it is the directory of a partition
            path.write_text("late")
        return found

    monkeypatch.setattr(os, "listdir", listing)


def test_carve_removes_only_what_it_has_judged(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = place / "out"
    out.mkdir()
    (out / ".kdump-carving").touch()
    (out / ".kdump-rest").touch()
    appears(monkeypatch, out / "mine")
    with CarveOutput(str(out)):
        assert sorted(path.name for path in out.iterdir()) == [".kdump-carving", "mine"]
    assert [path.name for path in out.iterdir()] == ["mine"]


def test_salvage_removes_only_what_it_has_judged(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = place / "shared" / "out"
    out.mkdir()
    (out / "a-0.salvage.jsonl").touch()
    appears(monkeypatch, out / "b-0.salvage.jsonl")
    target = checked(place)
    target.clean()
    assert [path.name for path in out.iterdir()] == ["b-0.salvage.jsonl"]
    target.close()
