"""A log that is gone while its indexes are still here: an error, for they are all that shows it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import kdump
from kdump.finding import Severity
from tests.support.partitions import name
from tests.support.runs import FIXTURES, copy_tree, run_kdump

if TYPE_CHECKING:
    from pathlib import Path

CLEAN = FIXTURES / "kafka-4.3.1" / "clean"
BASES = [0, 68, 139, 211]
END = 258


@pytest.fixture
def txnspan(tmp_path: Path) -> Path:
    """A partition of four segments, closed in order."""
    return copy_tree(CLEAN / "node1", tmp_path / "node1") / "txnspan-0"


def errors(directory: Path) -> list[tuple[str, str]]:
    found = [one for one in kdump.verify([str(directory)]).findings if one.severity is Severity.ERROR]
    return [(one.code.name, one.file.removeprefix(f"{directory}/")) for one in found]


def verified(*args: object) -> tuple[int, str]:
    """Status and stdout of verify."""
    run = run_kdump(["verify", *map(str, args)], FIXTURES)
    return run.exit, run.stdout.decode()


def lost(directory: Path) -> list[tuple[int, int, str]]:
    return [(one.offset, one.last_offset, one.certainty.value) for one in kdump.verify([str(directory)]).losses]


@pytest.mark.parametrize("number", range(3))
def test_a_log_whose_indexes_have_entries_is_lost(number: int, txnspan: Path) -> None:
    base, end = BASES[number], BASES[number + 1]
    (txnspan / name(base)).unlink()
    assert {one for one in errors(txnspan) if one[0] == "F08"} == {
        ("F08", name(base, kind)) for kind in ("index", "timeindex", "txnindex")
    }
    assert lost(txnspan) == [(base, end - 1, "lost")]
    status, text = verified(txnspan)
    assert status == 3
    assert f"its log is missing: the indexes have entries up to offset {end - 1} -> restore from another" in text
    steps = kdump.verify([str(txnspan)]).steps
    assert steps[0].why.startswith(f"restore {txnspan} from another replica")


def test_logs_that_follow_each_other_are_lost_together(txnspan: Path) -> None:
    for base in BASES[1:3]:
        (txnspan / name(base)).unlink()
    assert lost(txnspan) == [(68, 210, "lost")]


def test_without_any_log_all_are_lost(txnspan: Path) -> None:
    for base in BASES:
        (txnspan / name(base)).unlink()
    assert {code for code, _ in errors(txnspan)} == {"F08"}
    found = lost(txnspan)
    assert (found[0][0], found[-1][1]) == (0, END - 1)


def test_a_last_log_is_lost_though_no_snapshot_knows_it(txnspan: Path) -> None:
    (txnspan / name(211)).unlink()
    for path in txnspan.glob("*.snapshot"):
        path.unlink()
    for path in txnspan.parent.glob("*checkpoint"):
        path.unlink()
    (txnspan.parent / ".kafka_cleanshutdown").unlink()
    assert ("F08", name(211, "index")) in errors(txnspan)
    assert lost(txnspan) == [(211, END - 1, "lost")]


@pytest.mark.parametrize("suffix", ["deleted", "swap"])
def test_a_log_that_a_broker_renamed_is_not_lost(suffix: str, txnspan: Path) -> None:
    """A removal that was cut off: the log is renamed first."""
    (txnspan / name(0)).rename(txnspan / f"{name(0)}.{suffix}")
    assert errors(txnspan) == []


def test_a_log_below_the_log_start_offset_is_not_lost(txnspan: Path) -> None:
    (txnspan / name(0)).unlink()
    start = txnspan.parent / "log-start-offset-checkpoint"
    start.write_text("0\n1\ntxnspan 0 68\n")
    assert errors(txnspan) == []
    assert lost(txnspan) == []


def test_a_log_whose_indexes_are_empty_or_zeros_is_not_known_to_be_lost(txnspan: Path) -> None:
    (txnspan / name(0)).unlink()
    (txnspan / name(0, "index")).write_bytes(b"")
    (txnspan / name(0, "timeindex")).write_bytes(bytes(1200))
    assert "F08" not in {code for code, _ in errors(txnspan)}


def test_indexes_whose_offsets_another_log_has_are_what_a_compaction_left(txnspan: Path) -> None:
    merged = (txnspan / name(68)).read_bytes()
    (txnspan / name(68)).unlink()
    (txnspan / name(0)).write_bytes((txnspan / name(0)).read_bytes() + merged)
    assert "F08" not in {code for code, _ in errors(txnspan)}


def test_indexes_beyond_the_end_at_which_a_broker_closed_the_log_were_never_in_it(txnspan: Path) -> None:
    for kind in ("index", "timeindex"):
        shutil.copy(txnspan / name(0, kind), txnspan / name(END, kind))
    assert errors(txnspan) == []
    assert lost(txnspan) == []


def test_a_sound_replica_has_what_a_lost_log_had(txnspan: Path, tmp_path: Path) -> None:
    other = copy_tree(txnspan, tmp_path / "other" / "txnspan-0")
    (txnspan / name(0)).unlink()
    status, text = verified("--replicas", txnspan, other)
    assert status == 3
    assert text.count(" D02 ") == 1
    assert f"offsets 0..67 are not here; {other} has them" in text
    assert f"step 1: restore {txnspan} from {other}" in text


def test_what_a_log_lost_at_its_end_is_told_once_and_there(txnspan: Path, tmp_path: Path) -> None:
    other = copy_tree(txnspan, tmp_path / "other" / "txnspan-0")
    (txnspan / name(139)).unlink()
    _, text = verified("--replicas", txnspan, other)
    (told,) = [line for line in text.splitlines() if " D02 " in line]
    size = (txnspan / name(68)).stat().st_size
    assert f"{name(68)}:{size}+0 offset=139..210" in told
