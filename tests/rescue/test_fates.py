"""Salvage keeps the fates of transactions: what may have had another end stays out, what has a certain one is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kdump.rescue.salvage import Wanted, salvage
from tests.support.fates import PARTITIONS, Damage, damages, salvaged_otherwise
from tests.support.healing import OPTIONS, Quick, batches
from tests.support.partitions import Files, aborted, marker, name, segment, write
from tests.support.runs import FIXTURES, copy_tree
from tests.support.segments import TRANSACTIONAL, batch
from tests.support.whole_lines import run_kdump

if TYPE_CHECKING:
    from pathlib import Path

SPAN = FIXTURES / "kafka-4.3.1/clean/node1/txnspan-0"
TXN = FIXTURES / "damage/intact/txn/logdir/payments-0"
_EVERY = 1499  # of the damages; a prime number meets all fields


def data(offset: int, producer: tuple[int, int], *values: bytes) -> bytes:
    return batch(offset, values or (b"v",), flags=TRANSACTIONAL, producer=(*producer, 0))


def salvaged(root: Path, files: Files) -> list[int]:
    """The offsets of the batches that salvage writes."""
    source = write(root / "plain-0", files)
    for _ in salvage([str(source)], Wanted(str(root / "out"), None, ()), OPTIONS, Quick()):
        pass
    return sorted(batches(root / "out" / "plain-0"))


def zeroed(part: bytes) -> bytes:
    return bytes(len(part))


def flipped(part: bytes, at: int, mask: int) -> bytes:
    return part[:at] + bytes([part[at] ^ mask]) + part[at + 1 :]


@pytest.mark.parametrize("partition", PARTITIONS)
def test_no_damage_gives_a_transaction_another_fate(partition: str) -> None:
    intact = FIXTURES / partition
    for damage in list(damages(intact))[::_EVERY]:
        assert salvaged_otherwise(intact, damage) == [], str(damage)


@pytest.mark.parametrize("log", sorted(path.name for path in SPAN.glob("*.log")))
def test_a_missing_segment_gives_no_transaction_another_fate(log: str) -> None:
    assert salvaged_otherwise(SPAN, Damage((log,))) == []


@pytest.mark.parametrize(("position", "byte"), [(690, 0x40), (664, 0), (665, 0x10)])
def test_a_header_with_a_wrong_crc_does_not_tell_whose_marker_it_was(position: int, byte: int) -> None:
    assert salvaged_otherwise(TXN, Damage((), name(224), position, bytes([byte]))) == []


@pytest.mark.parametrize(
    ("partition", "log", "position", "byte"),
    [
        ("kafka-4.3.1/clean/node1/txnspan-0", name(68), 15765, 0xFF),
        ("releases/3.9.2/logs/txn-0", name(34), 1502, 0x80),
        ("cleanup/partitions/c-txnopen/logdir/txnopen-0", name(29), 2022, 0x10),
    ],
)
def test_a_marker_with_a_wrong_base_offset_ends_nothing_behind_it(
    partition: str, log: str, position: int, byte: int
) -> None:
    """The last batch of a segment: no batch behind it tells the right offset."""
    assert salvaged_otherwise(FIXTURES / partition, Damage((), log, position, bytes([byte]))) == []


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_hole_without_a_byte_at_the_head_of_a_segment_may_have_had_a_marker(cut: int, tmp_path: Path) -> None:
    """What lies before it may have been aborted: a COMMIT behind it must not cover that."""
    tail = [data(3 + cut, ONE), marker(4 + cut, ONE, commit=True), marker(5 + cut, TWO, commit=True)]
    files = {name(0): data(0, ONE) + data(1, TWO) + batch(2, [b"v"]), name(3): b"".join(tail)}
    assert salvaged(tmp_path, files) == [2, 3 + cut, 4 + cut, 5 + cut]


# --- what tells, and what does not ----------------------------------------------------------------------------
ONE, TWO = (7, 0), (8, 0)
LARGE = b"v" * 200


def test_a_batch_too_large_for_a_marker_ends_no_transaction(tmp_path: Path) -> None:
    torn = flipped(batch(1, [LARGE]), 100, 1)
    parts = [data(0, ONE), torn, marker(2, ONE, commit=True)]
    assert salvaged(tmp_path, {name(0): b"".join(parts)}) == [0, 2]


def test_a_marker_of_another_producer_may_be_of_this_one_where_its_crc_is_wrong(tmp_path: Path) -> None:
    torn = flipped(marker(1, TWO, commit=False), 60, 1)
    parts = [data(0, ONE), torn, data(2, ONE), marker(3, ONE, commit=True)]
    assert salvaged(tmp_path, {name(0): b"".join(parts)}) == [2, 3]


def test_a_commit_with_the_next_epoch_may_be_of_a_producer_that_was_started_again(tmp_path: Path) -> None:
    """Before transaction version 2 only a start raises the epoch: the marker of the epoch before is in the hole."""
    parts = [
        data(0, (7, 0)),
        zeroed(marker(1, (7, 0), commit=False)),
        data(2, (7, 1)),
        marker(3, (7, 1), commit=True),
    ]
    assert salvaged(tmp_path, {name(0): b"".join(parts)}) == [2, 3]


def test_an_epoch_that_rises_with_each_transaction_tells_whose_end_a_marker_is(tmp_path: Path) -> None:
    seen = [data(0, (7, 0)), marker(1, (7, 1), commit=True)]
    other = zeroed(marker(3, (8, 1), commit=True))
    parts = [*seen, data(2, (7, 1)), other, marker(4, (7, 2), commit=False)]
    assert salvaged(tmp_path, {name(0): b"".join(parts)}) == [0, 1, 2, 4]


def indexed(hole: bytes, *entries: bytes, commit: bool = True) -> Files:
    """A transaction of one producer over a hole at offset 1, with a transaction index that goes on behind that."""
    parts = [
        data(0, ONE),
        hole,
        data(2, ONE),
        marker(3, ONE, commit=commit),
        data(4, TWO),
        marker(5, TWO, commit=False),
    ]
    return {name(0): b"".join(parts), name(0, "txnindex"): b"".join(entries)}


LOST = zeroed(marker(1, ONE, commit=True))
LATER = aborted(8, 4, 5, 0)


@pytest.mark.parametrize(
    ("entries", "commit", "kept"),
    [
        ([LATER], True, [0, 2, 3, 4, 5]),  # no abort is in the hole: committed there, or by the marker behind it
        ([aborted(7, 0, 1, 0), LATER], True, [2, 3, 4, 5]),
        ([aborted(7, 0, 1, 0), aborted(7, 2, 3, 0), LATER], False, [0, 2, 3, 4, 5]),  # aborted, there as behind it
        ([aborted(7, 0, 3, 0), LATER], False, [0, 2, 3, 4, 5]),
        ([aborted(7, 2, 3, 0), LATER], False, [2, 3, 4, 5]),  # committed in the hole
        ([aborted(9, 0, 1, 0), LATER], True, [2, 3, 4, 5]),  # of a producer without a transaction: the entry is wrong
        ([], True, [2, 3, 4, 5]),
    ],
)
def test_the_transaction_index_tells_what_a_hole_has_ended(
    entries: list[bytes], commit: bool, kept: list[int], tmp_path: Path
) -> None:
    assert salvaged(tmp_path, indexed(LOST, *entries, commit=commit)) == kept


def test_the_index_of_a_segment_tells_nothing_of_the_lost_one_behind_it(tmp_path: Path) -> None:
    files = {
        name(0): data(0, ONE) + data(1, TWO) + marker(2, TWO, commit=False),
        name(0, "txnindex"): aborted(8, 1, 2, 0),
        name(10): data(10, ONE) + marker(11, ONE, commit=True),
    }
    assert salvaged(tmp_path, files) == [1, 2, 10, 11]


def test_the_index_of_a_lost_segment_tells_what_was_aborted_in_it(tmp_path: Path) -> None:
    """What is not in it was not: the transaction of the second producer was committed in the hole or behind it."""
    files = {
        name(0): data(0, ONE) + data(1, TWO),
        name(2, "txnindex"): aborted(7, 0, 9, 0),
        name(10): data(10, ONE) + data(11, TWO) + marker(12, ONE, commit=True) + marker(13, TWO, commit=True),
    }
    assert salvaged(tmp_path, files) == [1, 10, 11, 12, 13]


def test_the_log_of_a_segment_that_is_lost_is_no_hole_of_compaction(tmp_path: Path) -> None:
    """The log is cleaned: of other holes nothing says that they had a marker."""
    cleaned = [batch(offset) for offset in (0, 5, 9)]
    files = {
        name(0): b"".join(cleaned) + data(10, ONE),
        **segment(20, [data(20, ONE), marker(21, ONE, commit=False)]),
        name(30): data(30, ONE) + marker(31, ONE, commit=True),
    }
    del files[name(20)]
    assert salvaged(tmp_path, files) == [0, 5, 9, 30, 31]


def test_what_was_aborted_in_a_lost_end_does_not_stay_open(tmp_path: Path) -> None:
    files = {
        name(0): data(0, ONE) + data(1, TWO),
        **segment(2, [data(2, ONE), marker(3, ONE, commit=False)]),
        name(2, "txnindex"): aborted(7, 0, 3, 0),
    }
    del files[name(2)]
    assert salvaged(tmp_path, files) == [1]


def test_batches_that_the_index_tells_as_aborted_are_said_to_be_so(tmp_path: Path) -> None:
    """Their marker is lost, so they stay out; but nothing is in doubt, as dump --fate says too."""
    source = copy_tree(FIXTURES / "damage" / "intact" / "txn" / "logdir", tmp_path / "in") / "payments-0"
    with (source / f"{224:020}.log").open("r+b") as log:
        log.truncate(1712)
    run = run_kdump(["salvage", str(source), "--to", str(tmp_path / "out")], tmp_path)
    [line] = [line for line in run.stdout.decode().splitlines() if "left out: " in line]
    assert "left out: offsets 199..200, " in line
    assert "their transaction was aborted, as the transaction index tells, and its end is lost, at offset" in line
    assert b"may be in what is lost" not in run.stdout
