"""Interpreted kernels are slow: where much is read that is said, once, on stderr, and nowhere else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from kdump.format.batch import _scan
from kdump.format.kernels.interpreted import SLOWER
from tests.support.runs import run_kdump
from tests.support.segments import batch

if TYPE_CHECKING:
    from pathlib import Path

LOG = f"{0:020}.log"
SAID = b"more than 64 MiB are to be read, and kdump's kernels are not compiled"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two partitions of one log each, 34 MiB; the batches are large, as what is asked is no question of speed."""
    folder = tmp_path_factory.mktemp("logs")
    for name in ("a-0", "b-0"):
        (folder / name).mkdir()
    with (folder / "a-0" / LOG).open("wb") as log:
        for at in range(34):
            log.write(batch(at, [bytes(1 << 20)]))
    (folder / "b-0" / LOG).hardlink_to(folder / "a-0" / LOG)
    return folder


@pytest.mark.parametrize("options", [[], ["-j", "2"]], ids=["one process", "two"])
def test_it_is_said_once_with_the_factor(logs: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]) -> None:
    monkeypatch.setenv("KDUMP_INTERPRETED", "1")
    run = run_kdump(["dump", *options, f"a-0/{LOG}", f"b-0/{LOG}"], logs)
    assert run.exit == 0
    said = b" ".join(run.stderr.split())
    assert said.count(SAID) == 1
    assert f"verify takes {SLOWER['verify']} times as long".encode() in said
    assert SAID not in run.stdout


def test_nothing_is_said_of_less(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDUMP_INTERPRETED", "1")
    run = run_kdump(["dump", f"a-0/{LOG}"], logs)
    assert (run.exit, run.stderr) == (0, b"")


@pytest.mark.skipif(not _scan.is_compiled(), reason="kernels are not compiled here")
def test_nothing_is_said_where_kernels_are_compiled(logs: Path) -> None:
    run = run_kdump(["dump", f"a-0/{LOG}", f"b-0/{LOG}"], logs)
    assert (run.exit, run.stderr) == (0, b"")


def test_the_factors_are_those_of_a_bench() -> None:
    assert all(re.fullmatch(r"[a-z]+( --[a-z-]+)?", verb) and factor > 1 for verb, factor in SLOWER.items())
