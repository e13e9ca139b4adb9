"""Leader epochs judged by their neighbours and the checkpoint: one wrong bit anywhere changes no right epoch."""

from __future__ import annotations

from itertools import accumulate, product
from typing import TYPE_CHECKING

import pytest

from kdump.format.batch.base_offset.header import HeaderFacts
from kdump.format.batch.epoch_order import EpochFold, EpochsAround, ascend
from kdump.format.checkpoint.checkpoint_file import EpochEntry

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.finding import Finding

pytestmark = pytest.mark.quick

FIRST = 30  # offset of the first batch; each has two


class Around(EpochsAround):
    """What the logs beside a log say, as they would be read."""

    def __init__(self, entries: Sequence[EpochEntry], before: Sequence[int], after: Sequence[int]) -> None:
        super().__init__(entries)
        self._sides = [side[0] if len(side) == 2 and side[0] == side[1] else None for side in (before, after)]

    def before(self) -> int | None:
        return self._sides[0]

    def after(self) -> int | None:
        return self._sides[1]


def judged(epochs: Sequence[int], own: range, entries: Sequence[EpochEntry]) -> list[Finding]:
    """What is said of the batches `own`, which lie in one log, between others of the logs beside it."""
    found: list[Finding] = []
    fold = EpochFold("log", found.append, Around(entries, epochs[: own.start], epochs[own.stop :]))
    for k in own:
        fold.push(HeaderFacts(k, 1, FIRST + 2 * k, FIRST + 2 * k + 1, epochs[k], True))
    fold.finish()
    return found


def entries_of(epochs: Sequence[int]) -> list[EpochEntry]:
    starts = {epoch: FIRST + 2 * k for k, epoch in reversed(list(enumerate(epochs)))}
    return [EpochEntry(epoch, starts[epoch]) for epoch in sorted(starts)]


def logs() -> Iterator[tuple[list[int], range]]:
    """Epochs of batches in three logs, and which of them are those of the one in the middle."""
    for before, count, after in product((0, 2), (1, 2, 3, 4), (0, 2)):
        for first, *steps in product((0, 1, 2), *[(0, 1)] * (before + count + after - 1)):
            if sum(steps) < 4:
                yield list(accumulate([first, *steps])), range(before, before + count)


def with_one_wrong_digit(entries: Sequence[EpochEntry]) -> Iterator[list[EpochEntry]]:
    """The entries that a file has in which one bit of a digit is wrong, as far as it is sound."""
    for k, entry in enumerate(entries):
        for field, value in enumerate(entry):
            text = str(value)
            for at, bit in product(range(len(text)), range(4)):
                digit = chr(ord(text[at]) ^ 1 << bit)
                if digit.isdecimal():
                    other = [*entry]
                    other[field] = int(text[:at] + digit + text[at + 1 :])
                    changed = [*entries[:k], EpochEntry(*other), *entries[k + 1 :]]
                    if ascend(changed):
                        yield changed


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_one_wrong_bit_in_a_batch_or_a_neighbour_makes_no_right_epoch_another_one(has_checkpoint: bool) -> None:
    restored = 0
    for epochs, own in logs():
        entries = entries_of(epochs) if has_checkpoint else []
        assert not judged(epochs, own, entries)
        for k, bit in product(range(len(epochs)), (0, 1, 5)):
            wrong = [*epochs[:k], epochs[k] ^ 1 << bit, *epochs[k + 1 :]]
            for one in judged(wrong, own, entries):
                assert one.position is not None
                assert one.expected in (None, epochs[one.position]), (epochs, own, k, bit)
                assert not has_checkpoint or (one.position, one.expected) == (k, epochs[k])
                restored += one.expected is not None
    assert restored > 1000


def test_one_wrong_bit_in_the_checkpoint_blames_no_batch() -> None:
    for epochs, own in logs():
        for entries in with_one_wrong_digit(entries_of(epochs)):
            assert not judged(epochs, own, entries), (epochs, own, entries)


def test_an_epoch_too_high_at_the_end_of_the_last_log_is_restored_unless_two_batches_have_it() -> None:
    """A broker has a new epoch in the leader-epoch-checkpoint before it appends the first batch of it."""
    entries = [EpochEntry(0, FIRST)]
    assert [one.expected for one in judged([0, 0, 1], range(3), entries)] == [0]
    assert not judged([0, 0, 1, 1], range(4), entries)
    assert [one.expected for one in judged([0, 0, 1, 0, 0], range(3), entries)] == [0]
