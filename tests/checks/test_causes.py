"""One cause is told once, before all that it explains; and only where it is the truth."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

import kdump
from kdump.finding import Code, Finding, Severity
from kdump.rows.steps import Rank, Step
from kdump.rows.verdict import Loss
from tests.support.damage_cases import Damage, damage_cases
from tests.support.runs import FIXTURES, copy_tree
from tests.support.step_runs import acts
from tests.support.verify_runs import findings_of, items_of
from tests.support.whole_lines import run_kdump

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CAUSES = (Code.F13, Code.F14, Code.F15, Code.X09)
INTACT = FIXTURES / "damage" / "intact"
GOLDENS = FIXTURES / "causes"
FIRST, MIDDLE, LAST = ("00000000000000000000.log", "00000000000000000119.log", "00000000000000000240.log")


def copied(base: str, folder: Path) -> Path:
    """A copy of an intact log directory."""
    shutil.copytree(INTACT / base / "logdir", folder)
    return folder


def edited(path: Path, edit: Callable[[bytes], bytes]) -> None:
    path.write_bytes(edit(path.read_bytes()))


# --- the scenes -----------------------------------------------------------------------------------------------
def two_partitions(folder: Path) -> tuple[Path, Path]:
    copied("none", folder)
    shutil.copytree(INTACT / "epochs" / "logdir" / "epochs-0", folder / "epochs-0")
    return folder / "plain-0", folder / "epochs-0"


def exchange(one: Path, other: Path) -> None:
    data = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(data)


def swapped_logs(folder: Path) -> None:
    """The first logs of two partitions are exchanged, and their indexes stay."""
    one, other = two_partitions(folder)
    exchange(one / FIRST, other / FIRST)


def swapped_segments(folder: Path) -> None:
    """The first segments of two partitions are exchanged, with their indexes."""
    one, other = two_partitions(folder)
    for kind in ("log", "index", "timeindex"):
        exchange(one / FIRST.replace("log", kind), other / FIRST.replace("log", kind))


def lf_to_crlf(folder: Path) -> None:
    """The middle log was copied as text to a system that ends lines with CR LF."""
    edited(copied("none", folder) / "plain-0" / MIDDLE, lambda data: data.replace(b"\n", b"\r\n"))


def crlf_to_lf(folder: Path) -> None:
    """A log with CR LF in it was copied as text from such a system."""
    (log,) = [log for log in sorted(copied("zstd", folder).glob("*/*.log")) if b"\r\n" in log.read_bytes()][:1]
    edited(log, lambda data: data.replace(b"\r\n", b"\n"))


def stale_copy(folder: Path) -> None:
    """The last log is an older copy of itself: it ends where a batch did."""
    edited(copied("none", folder) / "plain-0" / LAST, lambda data: data[: boundary(data, 7)])


def malformed_recovery_checkpoint(folder: Path) -> None:
    """The recovery point has a second line that is no entry."""
    (copied("none", folder) / "recovery-point-offset-checkpoint").write_text("0\n2\nplain 0 297\nplain 0\n", "ascii")


def negative_recovery_point(folder: Path) -> None:
    """The recovery point is below zero."""
    (copied("none", folder) / "recovery-point-offset-checkpoint").write_text("0\n1\nplain 0 -7\n", "ascii")


def boundary(data: bytes, batches: int) -> int:
    """Where so many batches end."""
    at = 0
    for _ in range(batches):
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    return at


SCENES = (
    swapped_logs, swapped_segments, lf_to_crlf, crlf_to_lf, stale_copy, malformed_recovery_checkpoint,
    negative_recovery_point,
)  # fmt: skip
WANTED: dict[Callable[[Path], None], set[str]] = {
    swapped_logs: {"F15", "X09"},
    swapped_segments: {"F15"},
    lf_to_crlf: {"F13"},
    crlf_to_lf: {"F13"},
    stale_copy: {"F14"},
}


def line(one: Finding, folder: Path) -> str:
    """What a golden has of a finding."""
    place = os.path.relpath(one.file, folder) + ("" if one.position is None else f":{one.position}+{one.length}")
    because = "" if one.because is None else f" because {one.because.name}"
    message = one.message.replace(f"{folder}{os.sep}", "")
    return f"{one.severity.value} {one.code.name}{because} {place}: {message}\n"


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_a_scene_is_told_as_a_person_has_read_it(scene: Callable[[Path], None], tmp_path: Path) -> None:
    folder = tmp_path / "data"
    scene(folder)
    told = "".join(line(one, folder) for one in findings_of(folder))
    assert told == (GOLDENS / f"{scene.__name__}.txt").read_text("utf-8")


@pytest.mark.parametrize("scene", WANTED, ids=lambda scene: scene.__name__)
def test_nothing_is_left_beside_the_cause(scene: Callable[[Path], None], tmp_path: Path) -> None:
    folder = tmp_path / "data"
    scene(folder)
    found = findings_of(folder)
    alone = {one.code.name for one in found if one.because is None and one.severity is not Severity.NOTE}
    assert alone <= WANTED[scene]
    assert {one.code.name for one in found} >= WANTED[scene]
    assert causes_come_first(found)


def causes_come_first(found: list[Finding]) -> bool:
    told: set[Code] = set()
    for one in found:
        if one.because is not None and one.because not in told:
            return False
        told.add(one.code)
    return True


@pytest.mark.parametrize("scene", WANTED, ids=lambda scene: scene.__name__)
def test_processes_and_depth_change_nothing(scene: Callable[[Path], None], tmp_path: Path) -> None:
    folder = tmp_path / "data"
    scene(folder)
    whole = findings_of(folder)
    assert findings_of(folder, jobs=3) == whole
    assert [one for one in findings_of(folder, deep=False) if one.code in CAUSES] == [
        one for one in whole if one.code in CAUSES
    ]


def test_json_has_the_cause_of_each_effect_and_counts_all(tmp_path: Path) -> None:
    stale_copy(tmp_path / "data")
    run = run_kdump(["verify", "--format", "json", "data"], tmp_path)
    *rows, summary = [json.loads(row) for row in run.stdout.splitlines()]
    found = [row for row in rows if row["type"] == "finding"]
    assert {row["because"] for row in found} == {None, "F14"}
    assert [row["code"] for row in found if row["because"] is None and row["severity"] == "error"] == ["F14"]
    assert summary["errors"] == sum(row["severity"] == "error" for row in found)


# --- only the truth ---------------------------------------------------------------------------------------------
TRUE = {
    "f02-empty-last-log", "f02-empty-last-log-and-indexes", "l11-cut-at-boundary-mid",
    "l11-cut-at-boundary-last", "x07-log-cut-index-stale",
}  # fmt: skip
"""Cases whose log ends at a batch boundary below what its indexes or snapshots know."""

MISNAMED = {"o01-renamed-up", "o01-renamed-down"}
"""Cases whose log has the name of another segment; no other case has a cause."""


@pytest.mark.parametrize("case", damage_cases(FIXTURES / "damage"), ids=lambda case: case.name)
def test_no_damage_is_taken_for_a_cause_that_it_has_not(case: Damage, tmp_path: Path) -> None:
    found = findings_of(case.build(tmp_path / "data"))
    causes = {one.code for one in found if one.code in CAUSES}
    assert causes == ({Code.F14} if case.name in TRUE else {Code.F15} if case.name in MISNAMED else set())
    assert causes_come_first(found)


def test_an_index_whose_positions_are_right_is_no_foreign_one(tmp_path: Path) -> None:
    """Files under another name: each offset of the indexes is wrong, and the log is theirs."""
    folder = copied("none", tmp_path / "data") / "plain-0"
    for path in folder.glob(FIRST.replace("log", "*")):
        path.rename(folder / path.name.replace("00000000000000000000", "00000000000000000030"))
    assert {one.code for one in findings_of(folder.parent)} & set(CAUSES) == {Code.F15}


def test_what_a_broker_has_closed_at_its_end_is_no_stale_copy(tmp_path: Path) -> None:
    folder = copied("txn", tmp_path / "data")
    (snapshot,) = folder.glob("*/00000000000000000285.snapshot")
    shutil.copy(snapshot, snapshot.with_name("00000000000000000385.snapshot"))
    assert not {one.code for one in findings_of(folder)} & set(CAUSES)
    (folder / ".kafka_cleanshutdown").unlink()
    found = findings_of(folder)
    assert [(one.code.name, one.because) for one in found if one.severity is not Severity.NOTE] == [
        ("F14", None), ("S02", Code.F14),
    ]  # fmt: skip


# --- the only evidence -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("scene", [swapped_logs, stale_copy], ids=lambda scene: scene.__name__)
def test_reindex_leaves_the_only_witness_unless_it_is_forced(scene: Callable[[Path], None], tmp_path: Path) -> None:
    folder = tmp_path / "data"
    scene(folder)
    refused = run_kdump(["reindex", "data/plain-0"], tmp_path)
    assert refused.exit == 12
    assert b"only evidence" in refused.stderr
    assert run_kdump(["reindex", "--force", "data/plain-0"], tmp_path).exit in (3, 7)


# --- logs under other names, and of other partitions ----------------------------------------------------------
def exchanged(folder: Path) -> None:
    """Two logs of one partition have each other's name."""
    partition = copied("none", folder) / "plain-0"
    exchange(partition / MIDDLE, partition / LAST)


def misnamed(folder: Path) -> None:
    """A log has a name one too low, and its indexes the right one."""
    partition = copied("none", folder) / "plain-0"
    (partition / MIDDLE).rename(partition / MIDDLE.replace("119", "118"))


def foreign_below(folder: Path) -> None:
    """A log of another partition begins below the name that it has here."""
    source = INTACT / "logstart" / "logdir" / "logstart-0" / "00000000000000000116.log"
    shutil.copy(source, copied("none", folder) / "plain-0" / MIDDLE)


def foreign_above(folder: Path) -> None:
    """A log of another partition begins above the name that it has here, and ends in the next segment."""
    source = INTACT / "zstd" / "logdir" / "zstd-0" / "00000000000000000159.log"
    shutil.copy(source, copied("none", folder) / "plain-0" / MIDDLE)


@pytest.mark.parametrize("scene", [exchanged, misnamed], ids=lambda scene: scene.__name__)
def test_a_log_under_another_name_loses_nothing_and_its_step_gives_the_name_back(
    scene: Callable[[Path], None], tmp_path: Path
) -> None:
    scene(tmp_path / "data")
    items = items_of(tmp_path / "data")
    alone = [one for one in items if isinstance(one, Finding) and one.severity is not Severity.NOTE]
    assert {one.code for one in alone} == {Code.F15}
    assert all("another segment of this partition" in one.message for one in alone)
    assert not [one for one in items if isinstance(one, Loss)]
    rename, rescue = acts(one for one in items if isinstance(one, Step))
    assert (rename.rank, rescue.rank) == (Rank.RECOMMENDED, Rank.IF)
    assert rescue.command is not None
    assert rescue.command.startswith("kdump salvage ")
    subprocess.run(rename.why[rename.why.index("mv -n") :], shell=True, check=True)
    assert [one for one in findings_of(tmp_path / "data") if one.severity is not Severity.NOTE] == []
    for path in (INTACT / "none" / "logdir" / "plain-0").iterdir():
        assert (tmp_path / "data" / "plain-0" / path.name).read_bytes() == path.read_bytes()


def test_what_is_damaged_in_a_log_under_another_name_is_told_by_its_own_offsets(tmp_path: Path) -> None:
    exchanged(tmp_path / "data")
    edited(tmp_path / "data" / "plain-0" / LAST, lambda data: data[:300] + b"X" + data[301:])
    items = items_of(tmp_path / "data")
    assert [(one.offset, one.last_offset) for one in items if isinstance(one, Loss)] == [(122, 124)]
    rename = acts(one for one in items if isinstance(one, Step))[0]
    assert "kdump verify" in rename.why


@pytest.mark.parametrize("scene", [foreign_below, foreign_above], ids=lambda scene: scene.__name__)
def test_a_log_of_another_partition_costs_all_offsets_of_its_place_and_no_step_builds_on_it(
    scene: Callable[[Path], None], tmp_path: Path
) -> None:
    scene(tmp_path / "data")
    items = items_of(tmp_path / "data")
    lost = [one for one in items if isinstance(one, Loss)]
    assert [(one.offset, one.last_offset, one.because) for one in lost] == [(119, 239, ("F15",))]
    assert [(one.command or "restore").split()[:2] for one in acts(one for one in items if isinstance(one, Step))] == [
        ["kdump", "verify"],
        ["kdump", "salvage"],
        ["restore"],
    ]


@pytest.mark.parametrize(
    "scene",
    [swapped_logs, swapped_segments, foreign_below, foreign_above, exchanged, misnamed, stale_copy],
    ids=lambda scene: scene.__name__,
)
def test_salvage_leaves_out_what_verify_takes_for_another_partition_s(
    scene: Callable[[Path], None], tmp_path: Path
) -> None:
    scene(tmp_path / "data")
    judged = {
        os.path.relpath(one.file, tmp_path): one for one in findings_of(tmp_path / "data") if one.code is Code.F15
    }
    run = run_kdump(["salvage", "data", "--to", "out"], tmp_path)
    notes = [line for line in run.stdout.decode().splitlines() if ": F15: " in line]
    assert {line.split()[1].rstrip(":") for line in notes} == set(judged)
    out = {line.split()[1].rstrip(":") for line in notes if line.endswith("; it stays out")}
    assert out == {path for path, one in judged.items() if one.expected is None}


def test_a_log_of_another_partition_is_of_no_replica_in_a_comparison(tmp_path: Path) -> None:
    foreign_below(tmp_path / "one")
    copied("none", tmp_path / "two")
    items = items_of(tmp_path / "one" / "plain-0", tmp_path / "two" / "plain-0", replicas=True)
    assert not [one for one in items if isinstance(one, Finding) and one.code is Code.D01]
    [lost] = [one for one in items if isinstance(one, Loss)]
    assert lost.elsewhere == (str(tmp_path / "two" / "plain-0"),)


def test_an_index_of_another_log_is_no_witness_of_where_its_own_ends(tmp_path: Path) -> None:
    partition = copied("none", tmp_path / "data") / "plain-0"
    exchange(*(partition / name.replace(".log", ".index") for name in (MIDDLE, LAST)))
    items = items_of(tmp_path / "data")
    assert not [one for one in items if isinstance(one, Loss)]
    assert Code.O07 not in {one.code for one in items if isinstance(one, Finding)}
    [step] = acts(one for one in items if isinstance(one, Step))
    assert step.command is not None
    assert step.command.startswith("kdump repair ")


def test_a_malformed_leader_epoch_checkpoint_judges_no_batch(tmp_path: Path) -> None:
    """What is left of it says nothing: the file is damaged (K04), the logs are not."""
    whole = FIXTURES / "damage" / "intact" / "epochs" / "logdir"
    for size in (14, 9, 5):
        directory = copy_tree(whole, tmp_path / str(size))
        checkpoint = directory / "epochs-0" / "leader-epoch-checkpoint"
        checkpoint.write_bytes(checkpoint.read_bytes()[:size])
        found = kdump.verify([str(directory)]).findings
        assert [(one.code.name, one.file) for one in found if one.severity is Severity.ERROR] == [
            ("K04", str(checkpoint))
        ]
