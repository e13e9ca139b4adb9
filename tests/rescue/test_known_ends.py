"""What the small files of a copy tell of its end, behind its last batch, is lost or doubtful: never silently gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.rescue.test_rescue_cases import rescued
from tests.support.partitions import Files, aborted, checkpoint, marker, meta, name, snapshot, write
from tests.support.rescue_cases import PARTITION, Part, part, parts, replica
from tests.support.runs import run_kdump
from tests.support.segments import TRANSACTIONAL, batch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SHARED = parts(0, 8)
NEW = parts(8, 12, 3, "new")


def lay(root: Path, number: int, files: Files, *, point: int | None = None) -> None:
    """A copy, and the recovery point of its log directory."""
    beside: Files = {"meta.properties": meta(number)}
    if point is not None:
        beside["recovery-point-offset-checkpoint"] = checkpoint(("orders", 0, point))
    write(root / f"b{number}", beside)
    write(root / f"b{number}" / PARTITION, files)


def follower(root: Path, number: int = 1) -> None:
    """A copy that has the new epoch up to 12."""
    lay(root, number, replica([(0, SHARED + NEW)], epochs=[(0, 0), (3, 8)], end=12), point=12)


def cut(files: Files, *, at: Sequence[Part]) -> Files:
    """The same with a log of these batches alone."""
    return {**files, name(0): b"".join(one.data for one in at)}


def lost(root: Path, *options: str) -> set[int]:
    """The offsets that salvage calls lost or doubtful; it says so by its exit status, and does not say the opposite."""
    made = rescued(root, *options)
    told = {at for kind in ("lost", "doubtful") for first, last in made.of(kind) for at in range(first, last + 1)}
    sources = sorted(f"{one.name}/{PARTITION}" for one in root.glob("b?"))
    said = run_kdump(["salvage", *sources, "--to", "again", *options], root).stdout
    assert made.exit == (3 if told else 0)
    assert (b"nothing is lost" in said) == (not told)
    return told


# --- of a copy that has lost all that it had of the newest epoch ----------------------------------------------
@pytest.mark.parametrize("witness", ["recovery point", "snapshot", "indexes"])
def test_what_a_copy_without_an_epoch_file_knows_of_its_end_is_doubtful(witness: str, tmp_path: Path) -> None:
    """It led last, and lost its log from 8 on; the follower has the new epoch up to 12."""
    follower(tmp_path)
    files = cut(replica([(0, SHARED + parts(8, 16, 3, "new"))]), at=SHARED)
    if witness != "indexes":
        del files[name(0, "index")], files[name(0, "timeindex")]
    if witness == "snapshot":
        files[name(16, "snapshot")] = snapshot()
    lay(tmp_path, 0, files, point=16 if witness == "recovery point" else None)
    assert lost(tmp_path) >= {12, 13}


def test_an_older_epoch_file_says_no_more_than_none(tmp_path: Path) -> None:
    follower(tmp_path)
    lay(tmp_path, 0, cut(replica([(0, SHARED)], epochs=[(0, 0)], end=16), at=SHARED), point=16)
    assert lost(tmp_path) == {12, 13, 14, 15}


def test_a_note_says_whose_files_know_of_them(tmp_path: Path) -> None:
    follower(tmp_path)
    lay(tmp_path, 0, replica([(0, SHARED)], end=16))
    said = run_kdump(["salvage", f"b0/{PARTITION}", f"b1/{PARTITION}", "--to", "out"], tmp_path).stdout.decode()
    assert f"b0/{PARTITION}: the files beside its logs know of offsets 12..15, which no source has" in said


# --- of the copy that gives the line --------------------------------------------------------------------------
def test_an_entry_of_the_epoch_file_behind_the_last_batch_tells_that_the_log_went_on(tmp_path: Path) -> None:
    """Epoch 5 began at 14: whatever was before it was there."""
    lay(tmp_path, 0, replica([(0, SHARED + NEW)], epochs=[(0, 0), (3, 8), (5, 14)]))
    assert lost(tmp_path) == {12, 13}


def test_an_entry_of_a_transaction_index_behind_the_last_batch_tells_that_the_log_went_on(tmp_path: Path) -> None:
    """The transaction of 12..13 was aborted at 14."""
    files = replica([(0, SHARED + NEW)], epochs=[(0, 0), (3, 8)])
    files[name(0, "txnindex")] = aborted(7, 12, 14, 15)
    lay(tmp_path, 0, files)
    assert lost(tmp_path) == {12, 13, 14}


def test_an_entry_with_a_wrong_bit_does_not_tell_where_the_log_ends(tmp_path: Path) -> None:
    """The marker is at 2, and the index has it at 2^40."""
    data = batch(0, [b"a", b"b"], flags=TRANSACTIONAL, producer=(7, 0, 0))
    end = Part(2, 2, 0, marker(2, (7, 0), commit=False))
    files = replica([(0, [Part(0, 1, 0, data), end, part(3, 1)])], epochs=[(0, 0)])
    files[name(0, "txnindex")] = aborted(7, 0, 2 | 1 << 40, 3)
    lay(tmp_path, 0, files)
    assert max(lost(tmp_path), default=0) < 1 << 40


# --- of other branches ----------------------------------------------------------------------------------------
def test_what_an_old_leader_knows_of_its_own_branch_is_no_loss(tmp_path: Path) -> None:
    """It went on alone to 20, in an epoch that ended at 8: all that is gone of that is of another branch."""
    follower(tmp_path)
    lay(tmp_path, 0, replica([(0, SHARED + parts(8, 14, 0, "old"))], epochs=[(0, 0)], end=20), point=20)
    assert lost(tmp_path) == set()


def test_what_a_copy_with_an_epoch_of_its_own_knows_is_no_loss(tmp_path: Path) -> None:
    """Its file begins epoch 2 at 8, where the line has 3; all its batches of that are gone."""
    follower(tmp_path)
    lay(tmp_path, 0, replica([(0, SHARED)], epochs=[(0, 0), (2, 8)], end=20), point=20)
    assert lost(tmp_path) == set()
