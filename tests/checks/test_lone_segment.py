"""A segment without its neighbours is judged as a segment: nothing is said of the end of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.checks.test_field_cases import Told
from tests.support.coordinator_records import at
from tests.support.field_cases import TIME, one_by_one
from tests.support.partitions import checkpoint, name, segment, snapshot, write
from tests.support.runs import run_kdump
from tests.support.segments import Record

if TYPE_CHECKING:
    from pathlib import Path

ALONE = "this segment: a later one, which is not here, may end it"
OPEN = [at(100, TIME, Record(b"v", b"k")), at(101, TIME, Record(b"v", b"k"), producer=(7, 0))]


@pytest.mark.parametrize("around", ["nothing", "snapshot", "epochs"])
def test_what_is_open_at_the_end_of_a_lone_segment_may_be_ended_behind_it(around: str, tmp_path: Path) -> None:
    files = {name(100): segment(100, OPEN)[name(100)]}
    files |= {name(102, "snapshot"): snapshot()} if around == "snapshot" else {}
    files |= {"leader-epoch-checkpoint": checkpoint((0, 0))} if around == "epochs" else {}
    write(tmp_path / "copy", files)
    (found,) = [one["message"] for one in Told(tmp_path, "verify", "copy").of("finding") if one["code"] == "P04"]
    assert (ALONE in found) == (around == "nothing")
    shown = run_kdump(["dump", "--committed", f"copy/{name(100)}", "--notes"], tmp_path).stderr.decode()
    assert ("as far as this segment tells" in shown) == (around == "nothing")
    assert (ALONE in shown) == (around == "nothing")


@pytest.mark.parametrize("which", ["100.log", name(100)])
def test_verify_reads_a_file_by_the_name_that_dump_reads_it_by(which: str, tmp_path: Path) -> None:
    files = segment(100, one_by_one(100, 104), interval=1)
    kind = which.rpartition(".")[2]
    write(tmp_path, {which: files[name(100, kind)]})
    told = Told(tmp_path, "verify", which)
    assert (told.found("error", "warning"), told.exit) == ([], 0)
    assert run_kdump(["dump", which], tmp_path).exit == 0


def test_a_name_without_a_number_is_read_by_neither(tmp_path: Path) -> None:
    write(tmp_path, {"copy.log": segment(0, one_by_one(0, 1))[name(0)]})
    assert Told(tmp_path, "verify", "copy.log").exit == 5
    assert run_kdump(["dump", "copy.log"], tmp_path).exit == 5
