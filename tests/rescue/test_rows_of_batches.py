"""What is left out has a row, and what has a row is left out: of each batch that is intact in some copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.rescue.test_rescue_cases import Rescue, rescued
from tests.support.partitions import Files, name, write
from tests.support.rescue_cases import PARTITION, Part, part, parts, replica
from tests.support.segments import TIME, Record, batch, message, wrapper

if TYPE_CHECKING:
    from pathlib import Path


def lay(root: Path, *copies: Files) -> None:
    for number, files in enumerate(copies):
        write(root / f"b{number}" / PARTITION, files)


def divergent(made: Rescue) -> list[tuple[int, int, int]]:
    """First and last offset, and records, of the rows of other branches."""
    rows = (row for row in made.rows if row["type"] == "divergent")
    return [(row["offset"], row["lastOffset"], row["records"]) for row in rows]


# --- logs of other partitions ---------------------------------------------------------------------------------
def foreign(value: str) -> Files:
    """The first log has epoch 3, where the file and the log behind it have 0 and 1: it is another partition's."""
    return replica([(0, parts(0, 6, 3, value)), (6, parts(6, 12, 1))], epochs=[(0, 0), (1, 6)], end=12)


WHOLE = replica([(0, parts(0, 6)), (6, parts(6, 12, 1))], epochs=[(0, 0), (1, 6)], end=12)


def test_batches_of_a_foreign_log_have_a_row_where_another_copy_has_their_offsets(tmp_path: Path) -> None:
    lay(tmp_path, foreign("other"), WHOLE)
    made = rescued(tmp_path)
    assert made.offsets == list(range(12))
    assert made.values[0] == b"v0"
    assert divergent(made) == [(0, 5, 6)]


def test_batches_of_a_foreign_log_that_a_loss_names_have_no_second_row(tmp_path: Path) -> None:
    lay(tmp_path, foreign("other"))
    made = rescued(tmp_path)
    assert made.offsets == list(range(6, 12))
    assert made.of("lost") == [(0, 5)]
    assert divergent(made) == []


# --- batches that reach into the next log ---------------------------------------------------------------------
def messages(first: int, *values: bytes, at: int | None = None) -> bytes:
    """A compressed message of magic 1; its header says the offset of the last one inside, or `at`."""
    data = wrapper(1, first, list(values))
    return data if at is None else at.to_bytes(8, "big") + data[8:]


def old(first: int) -> bytes:
    return message(1, first, b"v%d" % first, key=b"k%d" % first)


def test_a_moved_message_that_another_copy_has_in_its_place_has_no_row(tmp_path: Path) -> None:
    tail = {name(5): b"".join(map(old, (5, 6, 7)))}
    right = {name(0): old(0), name(2): messages(2, b"a", b"b") + old(4), **tail}
    moved = {**right, name(2): messages(2, b"a", b"b", at=67) + old(4)}
    lay(tmp_path, right, moved)
    made = rescued(tmp_path, "--set", "cleanup.policy=delete")
    assert sorted(made.values) == [0, 2, 3, 4, 5, 6, 7]
    assert divergent(made) == []


def test_a_moved_batch_behind_the_end_of_the_chosen_copy_has_a_row(tmp_path: Path) -> None:
    """Two bits of the base offset of the only batch of a log are wrong: it is taken for another partition's."""
    shared = parts(0, 8)
    moved = part(30, 2, 2)
    moved = moved.with_base(30 ^ 0x12000)
    led = replica([(0, shared), (20, parts(20, 24, 1)), (30, [moved])], epochs=[(0, 0), (1, 8), (2, 30)], end=32)
    lay(tmp_path, replica([(0, shared)], epochs=[(0, 0)], end=8), led)
    made = rescued(tmp_path, "--prefer", f"b0/{PARTITION}")
    assert made.offsets == list(range(8))
    assert divergent(made) == [(20, 23, 4), (30 ^ 0x12000, (30 ^ 0x12000) + 1, 2)]


# --- larger copies --------------------------------------------------------------------------------------------
def some_of(first: int, *kept: int) -> Part:
    """What a cleaner has left of a batch of four records."""
    records = [Record(b"v%d" % (first + at), b"k%d" % (first + at), delta=at) for at in kept]
    return Part(first, first + 3, 0, batch(first, records, last_delta=3, base_timestamp=TIME + first))


@pytest.mark.parametrize(
    "kept",
    [
        [(0, 1, 2, 3), (1, 3), (1, 3)],
        [(1, 3), (1, 3), (0, 1, 2, 3)],
        [(1, 3), (0, 1, 2, 3), (1, 3)],
        [(3,), (1, 3), (0, 1, 2, 3)],
        [(0, 1, 2, 3), (3,), (1, 3), (1, 3)],
    ],
)
def test_a_smaller_copy_of_a_batch_of_which_a_larger_one_was_taken_has_no_row(
    kept: list[tuple[int, ...]], tmp_path: Path
) -> None:
    head, tail = parts(0, 4), parts(8, 12)
    lay(tmp_path, *(replica([(0, [*head, some_of(4, *some), *tail])], epochs=[(0, 0)], end=12) for some in kept))
    made = rescued(tmp_path)
    assert sorted(made.values) == list(range(12))
    assert divergent(made) == []
    assert made.exit == 0


def test_a_smaller_copy_that_ends_inside_of_an_epoch_has_no_row(tmp_path: Path) -> None:
    """A new leader's batch begins at the last offset of the batch that a cleaner has passed over in one copy."""
    head = parts(0, 4)
    new = part(7, 3, 1, "new")
    line = [*head, some_of(4, 0, 1, 2, 3), new]
    led = replica([(0, line)], epochs=[(0, 0), (1, 7)], end=10)
    lay(tmp_path, led, replica([(0, [*head, some_of(4, 1, 3)])], epochs=[(0, 0)], end=8))
    made = rescued(tmp_path, "--prefer", f"b0/{PARTITION}")
    assert made.batches[-2:] == [(4, 7, 0), (7, 9, 1)]
    assert divergent(made) == []
