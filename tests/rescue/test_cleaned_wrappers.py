"""What cleaners have left of a compressed message of magic 0 or 1: other offsets, and no contradiction.

Source: MemoryRecords.filterTo, which gives it the offsets of the records that it keeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.rescue.test_rescue_cases import Rescue, rescued
from tests.support.partitions import name, write
from tests.support.rescue_cases import PARTITION
from tests.support.rescue_truth.batches import Legacy
from tests.support.segments import GZIP, TIME

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ALL = (5, 6, 7)


def message(magic: int, *offsets: int, value: str = "v") -> bytes:
    """A compressed message with messages inside, one without where it has one offset below 5 or above 7."""
    is_alone = offsets[0] not in ALL
    records = tuple((at, b"k%d" % at, f"{value}{at}".encode()) for at in offsets)
    return Legacy(offsets[0], offsets[-1], records, time=TIME, codec=0 if is_alone else GZIP, magic=magic).data


def copy(magic: int, *kept: int, tail: int = 12) -> bytes:
    """A log with what is left of the message of 5..7 between others; nothing of it where none is kept."""
    middle = [message(magic, *kept)] if kept else []
    return b"".join([*(message(magic, at) for at in (0, 2)), *middle, *(message(magic, at) for at in range(9, tail))])


def made(root: Path, logs: Sequence[bytes], *options: str) -> Rescue:
    for number, log in enumerate(logs):
        write(root / f"b{number}" / PARTITION, {name(0): log})
    return rescued(root, *options)


def told(one: Rescue, kind: str) -> list[tuple[int, int]]:
    return [span for span in one.of(kind) if span[1] in range(5, 9)]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize(
    "kept",
    [
        [ALL, (5, 6)],
        [(5, 6), ALL],
        [ALL, (6, 7)],
        [(6, 7), ALL],
        [(7,), ALL],
        [ALL, (6,)],
        [ALL, (5, 7), (7,)],
        [(7,), (6, 7), ALL],
        [(5,), ALL, (5, 6)],
        [ALL, ()],
        [(6,), (6, 7), (6,)],
    ],
    ids=lambda some: "+".join("".join(map(str, one)) or "none" for one in some),
)
def test_the_copy_with_the_most_records_is_taken(magic: int, kept: list[tuple[int, ...]], tmp_path: Path) -> None:
    largest = max(kept, key=len)
    one = made(tmp_path, [copy(magic, *some) for some in kept])
    assert [at for at in sorted(one.values) if 4 < at < 9] == list(largest)
    assert told(one, "divergent") == told(one, "lost") == told(one, "doubtful") == []
    assert one.exit == 0


@pytest.mark.parametrize("prefer", [0, 1])
def test_neither_of_two_copies_parts_from_the_other(prefer: int, tmp_path: Path) -> None:
    """What comes behind the message is of both, too: the one that was chosen ends before the other one."""
    logs = [copy(1, *ALL, tail=14 if prefer else 11), copy(1, 6, tail=11 if prefer else 14)]
    one = made(tmp_path, logs, "--prefer", f"b{prefer}/{PARTITION}")
    assert sorted(one.values) == [0, 2, 5, 6, 7, *range(9, 14)]
    assert one.of("divergent") == one.of("lost") == []
    assert one.exit == 0


@pytest.mark.parametrize("kept", [[(5, 6), (6, 7)], [(6, 7), (5, 6)], [(5, 7), (6, 7)], [(5, 7), (5, 6)]])
def test_where_each_lacks_what_the_other_has_one_is_taken_and_the_other_told(
    kept: list[tuple[int, ...]], tmp_path: Path
) -> None:
    one = made(tmp_path, [copy(1, *some) for some in kept])
    written = tuple(at for at in sorted(one.values) if 4 < at < 9)
    assert written in kept
    (other,) = (some for some in kept if some != written)
    assert one.of("divergent") == [(other[0], other[-1])]


def test_messages_with_other_records_at_their_offsets_contradict_each_other(tmp_path: Path) -> None:
    other = copy(1, *ALL).replace(message(1, *ALL), message(1, 5, 6, value="w"))
    for number, log in enumerate((copy(1, *ALL), other)):
        write(tmp_path / f"b{number}" / PARTITION, {name(0): log})
    with pytest.raises(FileNotFoundError):  # refused: nothing is written
        rescued(tmp_path)
    one = rescued(tmp_path, "--prefer", f"b1/{PARTITION}")
    assert [one.values[at] for at in (5, 6)] == [b"w5", b"w6"]
