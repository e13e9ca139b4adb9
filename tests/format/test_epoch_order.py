"""Leader epochs judged by their neighbours and the checkpoint: one wrong bit anywhere changes no right epoch."""

from __future__ import annotations

from itertools import accumulate, product
from typing import TYPE_CHECKING

import pytest

from kdump.format.batch.base_offset.header import HeaderFacts
from kdump.format.batch.epoch_order import EpochFold, EpochsAround, ascend
from kdump.format.batch.header_judge import ONE_BIT, SEVERAL_BITS, ascending, field_cost, one_bit_from, one_bit_of_text
from kdump.format.checkpoint.checkpoint_file import EpochEntry

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.finding import Finding

pytestmark = pytest.mark.quick

FIRST = 30  # offset of the first batch; each has two


class Around(EpochsAround):
    """What the logs beside a log say, as they would be read."""

    def __init__(self, entries: Sequence[EpochEntry], before: Sequence[int], after: Sequence[int], count: int) -> None:
        super().__init__(entries)
        self._before = [facts(k, epoch) for k, epoch in enumerate(before)]
        self._behind = [facts(k, epoch) for k, epoch in enumerate(after, len(before) + count)]

    @property
    def batches_before(self) -> Sequence[HeaderFacts]:
        return self._before[-2:]

    @property
    def batches_behind(self) -> Sequence[HeaderFacts]:
        return self._behind[:2]


def facts(k: int, epoch: int) -> HeaderFacts:
    return HeaderFacts(k, 1, FIRST + 2 * k, FIRST + 2 * k + 1, epoch, True)


def judged(epochs: Sequence[int], own: range, entries: Sequence[EpochEntry]) -> list[Finding]:
    """What is said of the batches `own`, which lie in one log, between others of the logs beside it."""
    found: list[Finding] = []
    fold = EpochFold("log", found.append, Around(entries, epochs[: own.start], epochs[own.stop :], len(own)))
    for k in own:
        fold.push(facts(k, epochs[k]))
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
    assert restored > (1000 if has_checkpoint else 300)


def test_one_wrong_bit_in_the_checkpoint_blames_no_batch() -> None:
    for epochs, own in logs():
        for entries in with_one_wrong_digit(entries_of(epochs)):
            assert not judged(epochs, own, entries), (epochs, own, entries)


def test_an_epoch_too_high_at_the_end_of_the_last_log_is_restored_where_one_bit_explains_it() -> None:
    """A broker has a new epoch in the checkpoint before it appends the first batch of it; that may be an older copy."""
    entries = [EpochEntry(0, FIRST)]
    assert [one.expected for one in judged([0, 0, 1], range(3), entries)] == [0]
    assert not judged([0, 0, 1, 1], range(4), entries)
    assert not judged([0, 0, 3], range(3), entries)
    assert [one.expected for one in judged([0, 0, 1, 0, 0], range(3), entries)] == [0]


def test_an_epoch_after_many_elections_that_left_nothing_else_is_wrong() -> None:
    entries = [EpochEntry(0, FIRST)]
    assert [one.expected for one in judged([0, 0, 131], range(3), entries)] == [0]
    assert not judged([0, 0, 131, 131], range(4), entries)


def test_the_entry_that_begins_at_a_batch_has_its_epoch() -> None:
    entries = [EpochEntry(0, FIRST), EpochEntry(1, FIRST + 8)]  # no wrong bit of 38 makes it the offset behind
    assert [one.expected for one in judged([0, 0, 0, 0, 2049], range(5), entries)] == [1]
    assert [one.expected for one in judged([0, 0, 0, 0, 0, 1, 1], range(7), entries)] == [1]
    assert not judged([0, 0, 0, 0, 0, 0, 0], range(7), entries)  # two say otherwise


def test_a_checkpoint_that_ends_early_changes_no_epoch_behind_it() -> None:
    entries = [EpochEntry(0, FIRST)]
    assert not judged([0, 0, 3, 3], range(4), entries)
    assert not judged([0, 0, 1, 3, 3], range(3), entries)


def test_several_wrong_bits_are_mended_where_all_others_agree() -> None:
    assert [one.expected for one in judged([66, 0, 0], range(3), [EpochEntry(0, FIRST + 1)])] == [0]
    assert [
        one.expected for one in judged([66, 2, 2], range(1), [EpochEntry(0, FIRST + 1), EpochEntry(2, FIRST + 2)])
    ] == [0]
    assert [one.expected for one in judged([77, 2, 2], range(3), [])] == [None]


def test_many_batches_alone_with_their_epochs_are_in_order_where_these_rise() -> None:
    assert not judged(list(range(300)), range(300), [])
    assert len(judged([k * 7919 % 1000 for k in range(300)], range(300), [])) > 200


def test_of_a_log_full_of_damage_no_epoch_is_restored_any_more() -> None:
    """To weigh each one against those around it takes too long there."""
    found = judged([k * 7919 % 1000 for k in range(20_000)], range(20_000), [])
    assert len(found) > 10_000
    assert all(one.expected is None for one in found[-5_000:])


# --- prices -------------------------------------------------------------------------------------------------
def test_a_wrong_bit_costs_less_than_several() -> None:
    assert [field_cost(3, value, 32) for value in (3, 2, 0, -3)] == [0, ONE_BIT, SEVERAL_BITS, SEVERAL_BITS]
    assert field_cost(-(2**31), 0, 32) == field_cost(-(2**63), 0) == ONE_BIT
    assert all(field_cost(5, one, 32) == ONE_BIT for one in one_bit_from(5, 32))
    assert len(list(one_bit_from(5, 32))) == 31  # the sign is one bit, and no epoch is negative


def test_a_wrong_bit_in_a_digit_leaves_a_number() -> None:
    assert sorted(one_bit_of_text(9)) == [1, 8]
    assert sorted(one_bit_of_text(30)) == [10, 20, 31, 32, 34, 38, 70]


def test_the_cheapest_values_that_ascend_are_found() -> None:
    costs = [{1: 0, 5: 4}, {0: 0, 1: 4, 5: 5}, {2: 0}]
    assert ascending(costs, None, None) == [{1: 4}, {1: 4}, {2: 4}]
    assert ascending(costs, 2, None) == [{}, {}, {}]
    for low, high in ((None, None), (0, 6), (1, 5)):
        found = ascending(costs, low, high)
        best = [
            sum(one[value] for one, value in zip(costs, values, strict=True))
            for values in product(*costs)
            if list(values) == sorted(values) and values[0] >= (low or 0) and values[-1] <= (high or 9)
        ]
        assert {min(total.values()) for total in found} == {min(best)}
