"""The end of a transaction that is lost: an index entry about the next one of its producer proves that it was there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.partitions import Files, aborted, marker, name, segment, write
from tests.support.rescue_truth.batches import read_aborted, read_log
from tests.support.runs import run_kdump
from tests.support.segments import TRANSACTIONAL, batch

if TYPE_CHECKING:
    from pathlib import Path

ONE, TWO = (7, 0), (8, 0)


def data(first: int, producer: tuple[int, int], count: int = 1, sequence: int = 0) -> bytes:
    values = [b"v%d" % (first + at) for at in range(count)]
    return batch(first, values, flags=TRANSACTIONAL, producer=(*producer, sequence))


def plain(first: int, count: int = 1) -> bytes:
    return batch(first, [b"p%d" % (first + at) for at in range(count)])


def log(*parts: bytes, entries: bytes = b"") -> Files:
    """One segment, and its transaction index."""
    files = segment(0, parts)
    return {**files, name(0, "txnindex"): entries} if entries else files


def salvaged(root: Path, *copies: Files) -> tuple[list[int], list[dict[str, Any]], int]:
    """The first offsets of the batches that salvage writes, its losses, and the exit status."""
    sources = []
    for number, files in enumerate(copies):
        write(root / f"b{number}" / "plain-0", files)
        sources.append(f"b{number}/plain-0")
    run = run_kdump(["salvage", *sources, "--to", "out", "--format", "json"], root)
    rows = [row for row in map(json.loads, run.stdout.splitlines()) if row["type"] == "loss"]
    logs = sorted((root / "out" / "plain-0").glob("*.log"))
    return [one.base for path in logs for one in read_log(path.read_bytes())], rows, run.exit


def fates(root: Path, *options: str) -> dict[int, str | None]:
    """What dump says became of each record of the first copy that is no marker."""
    run = run_kdump(["dump", "b0/plain-0", "--fate", "--format", "json", *options], root)
    rows = [row for row in map(json.loads, run.stdout.splitlines()) if row["type"] == "record"]
    return {row["offset"]: row["fate"]["transaction"] for row in rows if row["control"] is None}


def codes(root: Path) -> list[tuple[str, int, int]]:
    """Code, first and last offset of what verify finds in transaction indexes."""
    run = run_kdump(["verify", "b0/plain-0", "--format", "json"], root)
    rows = [row for row in map(json.loads, run.stdout.splitlines()) if row["type"] == "finding"]
    return [(one["code"], one["offset"], one["lastOffset"]) for one in rows if one["file"].endswith(".txnindex")]


CLEANED = (plain(0), plain(2))  # a cleaner was at work here: one hole alone would be lost
NEXT = (data(10, ONE, sequence=1), marker(11, ONE, commit=False))
ENTRY = aborted(7, 10, 11, 12)


def test_what_a_lost_marker_has_ended_stays_out_and_is_unknown(tmp_path: Path) -> None:
    """The marker at 5 is lost, in a hole as a cleaner makes them."""
    kept, losses, status = salvaged(tmp_path, log(*CLEANED, data(4, ONE), plain(7), plain(9), *NEXT, entries=ENTRY))
    assert kept == [0, 2, 7, 9, 10, 11]
    assert [(one["offset"], one["records"], one["because"]) for one in losses if one["certainty"] == "doubtful"] == [
        (4, 1, ["A08"])
    ]
    assert status == 3
    assert fates(tmp_path) == {0: None, 2: None, 4: "unknown", 7: None, 9: None, 10: "aborted"}
    assert codes(tmp_path) == [("A08", 4, 4)]
    ((made,),) = ([*read_aborted(path.read_bytes())] for path in (tmp_path / "out" / "plain-0").glob("*.txnindex"))
    assert made == (7, 10, 11)


def test_the_first_batch_of_the_next_transaction_may_be_cleaned_away_too(tmp_path: Path) -> None:
    parts = (*CLEANED, data(4, ONE), plain(7), marker(11, ONE, commit=False))
    kept, _, status = salvaged(tmp_path, log(*parts, entries=ENTRY))
    assert kept == [0, 2, 7, 11]
    assert status == 3
    assert fates(tmp_path)[4] == "unknown"
    assert codes(tmp_path) == [("A08", 4, 4)]


TORN = (*CLEANED, data(4, ONE), plain(7, 3))  # a segment of its own, without an index
LATER = (NEXT[0], plain(12), data(13, ONE, sequence=2), marker(14, ONE, commit=True))


def test_where_the_next_transaction_lost_its_marker_too_a_later_commit_covers_neither(tmp_path: Path) -> None:
    """The ABORT at 11 is lost with the marker at 5; the COMMIT at 14 is that of a third transaction."""
    files = {**segment(0, TORN), **segment(10, LATER), name(10, "txnindex"): ENTRY}
    kept, losses, _ = salvaged(tmp_path, files)
    assert kept == [0, 2, 7, 12, 13, 14]
    assert [one["offset"] for one in losses if one["certainty"] == "doubtful"] == [4, 10]
    told = fates(tmp_path)
    assert {at: told[at] for at in (4, 10, 13)} == {4: "unknown", 10: "aborted", 13: "committed"}


def test_an_index_that_has_all_aborts_of_the_hole_tells_that_a_commit_is_lost(tmp_path: Path) -> None:
    """So the next COMMIT makes no difference; no abort is made of it either."""
    kept, losses, _ = salvaged(tmp_path, log(*TORN, *LATER, entries=ENTRY))
    assert kept == [0, 2, 4, 7, 12, 13, 14]
    assert [one["offset"] for one in losses if one["certainty"] == "doubtful"] == [10]
    assert fates(tmp_path)[4] == "committed"


def test_what_began_before_and_has_no_marker_behind_is_not_open(tmp_path: Path) -> None:
    kept, _, _ = salvaged(tmp_path, log(*CLEANED, data(4, ONE), plain(7, 3), NEXT[0], plain(12), entries=ENTRY))
    assert kept == [0, 2, 7, 12]


def test_each_of_several_lost_ends_is_told(tmp_path: Path) -> None:
    parts = (
        *(*CLEANED, data(4, ONE), plain(7, 3), NEXT[0], plain(12), data(14, ONE, 2), plain(18)),
        *(data(20, ONE), marker(21, ONE, commit=False)),
    )
    kept, losses, _ = salvaged(tmp_path, log(*parts, entries=ENTRY + aborted(7, 20, 21, 22)))
    assert kept == [0, 2, 7, 10, 12, 18, 20, 21]  # what began at 10 was aborted, as the marker at 21 makes it again
    told = {row["offset"]: row["because"] for row in losses if row["certainty"] == "doubtful"}
    assert told == {4: ["A08"], 14: ["A08"]}
    assert fates(tmp_path)[14] == fates(tmp_path)[4] == "unknown"
    assert [one for one in codes(tmp_path) if one[0] == "A08"] == [("A08", 4, 4), ("A08", 14, 15)]


def test_a_copy_that_has_the_marker_settles_it(tmp_path: Path) -> None:
    parts = (*CLEANED, data(4, ONE), plain(7), plain(9), *NEXT)
    whole = (*CLEANED, data(4, ONE), marker(5, ONE, commit=True), plain(7), plain(9), *NEXT)
    kept, losses, status = salvaged(tmp_path, log(*parts, entries=ENTRY), log(*whole, entries=ENTRY))
    assert kept == [0, 2, 4, 5, 7, 9, 10, 11]
    assert [one for one in losses if one["certainty"] in ("lost", "doubtful")] == []
    assert status == 0


# --- what proves nothing --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (aborted(7, 9, 11, 12), "another batch is there"),
        (aborted(8, 10, 11, 12), "of another producer"),
        (aborted(7, 4, 11, 12), "it began with these batches"),
        (aborted(7, 10, 14, 15), "the transaction has ended before"),
        (aborted(7, 10, 11, 12, version=256), "of a version that nobody knows"),
    ],
    ids=["elsewhere", "producer", "same", "later", "version"],
)
def test_an_entry_that_the_log_does_not_bear_out_proves_nothing(entry: bytes, why: str, tmp_path: Path) -> None:
    parts = (*CLEANED, data(4, ONE), plain(7), plain(9), *NEXT, plain(12, 3))
    kept, _, _ = salvaged(tmp_path, log(*parts, entries=entry))
    assert 4 in kept, why
    assert fates(tmp_path)[4] == "aborted"
    assert "A08" not in [code for code, _, _ in codes(tmp_path)]


def test_where_no_offset_is_missing_before_it_an_entry_is_wrong(tmp_path: Path) -> None:
    """One bit of the entry's first offset: 4 was 5; the batches 4 and 5 are of one transaction."""
    parts = (*CLEANED, data(4, ONE), data(5, ONE, sequence=1), plain(8), marker(11, ONE, commit=False))
    kept, _, _ = salvaged(tmp_path, log(*parts, entries=aborted(7, 5, 11, 12)))
    assert kept == [0, 2, 4, 5, 8, 11]
    assert fates(tmp_path)[4] == fates(tmp_path)[5] == "aborted"


def test_the_transaction_of_another_producer_keeps_its_fate(tmp_path: Path) -> None:
    parts = (*CLEANED, data(4, TWO), data(5, ONE), plain(8), *NEXT, marker(12, TWO, commit=True))
    kept, _, _ = salvaged(tmp_path, log(*parts, entries=ENTRY))
    assert kept == [0, 2, 4, 8, 10, 11, 12]
    assert fates(tmp_path)[4] == "committed"


# --- what is asked for ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("option", ["--committed", "--aborted"])
def test_what_is_unknown_is_neither_committed_nor_aborted(option: str, tmp_path: Path) -> None:
    write(tmp_path / "b0" / "plain-0", log(*CLEANED, data(4, ONE), plain(7), *NEXT, entries=ENTRY))
    run = run_kdump(["dump", "b0/plain-0", option, "--format", "json"], tmp_path)
    assert 4 not in [row.get("offset") for row in map(json.loads, run.stdout.splitlines())]
    assert b"b0/plain-0: 1 record is in doubt" in run.stderr


def test_in_text_it_is_said_where_its_end_is_lost(tmp_path: Path) -> None:
    write(tmp_path / "b0" / "plain-0", log(*CLEANED, data(4, ONE), plain(7), plain(9), *NEXT, entries=ENTRY))
    run = run_kdump(["dump", "b0/plain-0", "--fate"], tmp_path)
    assert b"fate: [unknown (its end is lost at offsets 5..8), " in run.stdout or (
        b"fate: [unknown (its end is lost at offsets 5..8)]" in run.stdout
    )
    told = run_kdump(["salvage", "b0/plain-0", "--to", "out"], tmp_path).stdout.decode()
    assert "  left out: offset 4 (1 record, intact): their transaction has ended" in told


def test_reindex_keeps_the_entry_that_proves_it(tmp_path: Path) -> None:
    """The index has a torn entry too, so it is built again."""
    files = log(*CLEANED, data(4, ONE), plain(7), plain(9), *NEXT, entries=ENTRY + b"\0" * 7)
    path = write(tmp_path / "b0" / "plain-0", files) / name(0, "txnindex")
    plan = run_kdump(["reindex", "b0/plain-0"], tmp_path).stdout.partition(b"--plan-id ")[2].split()[0].decode()
    run_kdump(["reindex", "b0/plain-0", "--apply", "--plan-id", plan, "--quarantine", str(tmp_path / "q")], tmp_path)
    assert path.read_bytes() == ENTRY
