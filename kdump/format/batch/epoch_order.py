"""Leader epochs of the batches of a log: which do not follow, and what they were, where that is determined.

An epoch never falls. A batch alone with its epoch is wrong where it falls, or rises above what follows. What it was is
determined where two witnesses agree: both neighbours, or the leader-epoch-checkpoint and the order of the neighbours.
The log before has the neighbour of the first batch, the log behind that of the last one. No witness alone counts: where
the checkpoint confirms a batch, one of its neighbours is wrong; where it contradicts both, nobody knows.

A broker has the epoch in the checkpoint, and that on the disk, before it appends the first batch of it. So a last batch
alone with an epoch that the checkpoint does not know is wrong where the batch before agrees with the checkpoint.
Source: UnifiedLog.append, LeaderEpochFileCache.assign.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from kdump.finding import Code, Finding, Report
from kdump.format.batch import layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kdump.format.batch.base_offset.header import HeaderFacts
    from kdump.format.checkpoint.checkpoint_file import EpochEntry


def ascend(epochs: Sequence[EpochEntry]) -> bool:
    """Tell whether epochs and their start offsets ascend, as a broker writes them."""
    return all(one.epoch < other.epoch and one.start_offset < other.start_offset for one, other in pairwise(epochs))


class EpochsAround:
    """What lies around a log says of the leader epochs of its batches.

    Args:
        entries: of a sound leader-epoch-checkpoint, ascending; none where there is no such file.
        floor: the log start offset: of batches below it, and below the first entry, the checkpoint says nothing.
        is_other: the file is another replica's: behind its newest entry it says nothing of this one.
    """

    def __init__(self, entries: Sequence[EpochEntry] = (), floor: int = 0, *, is_other: bool = False) -> None:
        self._entries = entries
        self._starts = [one.start_offset for one in entries]
        self._epochs = [one.epoch for one in entries]
        self._floor = max([floor, *self._starts[:1]])
        self._is_other = is_other

    def alone(self) -> EpochsAround:
        """Return what the checkpoint says, of batches that may have other logs beside them than their name tells."""
        return self

    def before(self) -> int | None:
        """Return the epoch that the log before ends with; None where it does not tell, or there is none."""
        return None

    def after(self) -> int | None:
        """Return the epoch that the log behind begins with; None where it does not tell, or there is none."""
        return None

    def at(self, offset: int) -> int | None:
        """Return the epoch that the checkpoint has for an offset, None where it says nothing."""
        known = bool(self._starts) and offset >= self._floor
        if known and self._is_other and offset > self._starts[-1]:
            return None
        return self._epochs[bisect_right(self._starts, offset) - 1] if known else None

    def of(self, batch: HeaderFacts) -> int | None:
        """Return the epoch that the checkpoint has for a batch; its own where that is one of two.

        None where it says nothing of it.
        """
        if batch.first is None:
            return None
        found = self.at(batch.first)
        if found is None or self.at(batch.last) == batch.epoch:
            return None if found is None else batch.epoch
        is_of_later = batch.epoch is not None and batch.epoch < found and self.begins_behind(found, batch.position)
        return None if is_of_later else found

    def begins_behind(self, _epoch: int, _position: int) -> bool:
        """Tell whether an epoch of the checkpoint begins behind a position of the log, in file order.

        It then says nothing of what lies before: a broker that writes an epoch removes those from the file that begin
        at its start offset or above. Their batches stay where the new ones overlap them. Source:
        LeaderEpochFileCache.assign.
        """
        return False

    def begins(self, epoch: int | None, offset: int | None) -> bool:
        """Tell whether the checkpoint has an epoch that begins at an offset: a batch of both is where it belongs."""
        at = -1 if epoch is None or offset is None else bisect_right(self._starts, offset) - 1
        return at >= 0 and (self._epochs[at], self._starts[at]) == (epoch, offset)

    def may_be_missing(self, batch: HeaderFacts, known: int, after: int | None) -> bool:
        """Whether the checkpoint could have had an entry for the epoch of a batch that it contradicts.

        Args:
            known: the epoch that the checkpoint has for it.
            after: that of the batch behind it, None where there is none.
        """
        if batch.epoch is None or batch.first is None or batch.epoch in self._epochs:
            return True  # one wrong digit moves an entry
        if batch.epoch < known or batch.first < self._starts[-1]:
            return False
        return after not in (None, known)  # the file is older than the log where it lacks that one too


class EpochFold:
    """Judges the leader epochs of a log's batches in file order.

    Args:
        file: the path as the user wrote it.
        report: takes each finding.
        around: what lies around the log says; None where nobody knows.

    Reports: E01, E02.
    """

    def __init__(self, file: str, report: Report, around: EpochsAround | None = None) -> None:
        self._file = file
        self._report = report
        self._around = EpochsAround() if around is None else around
        self._good: int | None = None
        self._held: HeaderFacts | None = None
        self._first: HeaderFacts | None = None  # until a later batch bears its epoch out
        self._doubt: tuple[HeaderFacts, int] | None = None  # it is wrong, or the one behind it, which has that epoch

    @property
    def state(self) -> tuple[object, ...]:
        """What it holds."""
        return self._good, self._held, self._first, self._doubt

    def resume(self, state: tuple[Any, ...]) -> None:
        """Go on from what another one held."""
        self._good, self._held, self._first, self._doubt = state

    def is_same(self, epoch: int | None) -> bool:
        """Whether this is the epoch of the batch before, or none, and nothing waits for the next one."""
        return self._held is None and self._doubt is None and epoch in (None, self._good)

    def skip(self, one: HeaderFacts) -> None:
        """Move on in a run of batches in which the epoch does not change."""
        if one.epoch is not None:
            self._good, self._held, self._first = one.epoch, None, None

    def push(self, one: HeaderFacts) -> None:
        """Take the next batch; one whose CRC is wrong, or without an epoch, says nothing."""
        if not one.trusted or one.epoch is None:
            return
        self._decide(one.epoch)
        if self._held is not None:
            self._settle(one.epoch)
        elif one.epoch != self._good:
            self._judge_first(one.epoch)
        if self._good is None and one.epoch >= layout.NO_EPOCH:
            self._good, self._first = one.epoch, one
        elif one.epoch != self._good:
            self._held = one
        else:
            self._first = None

    def finish(self) -> None:
        """There is no next batch in this log."""
        if self._held is not None:
            last, before = self._held, self._before_held
            after = None if self._around.of(last) == last.epoch else self._around.after()
            self._settle(after if self._judge(last, before, after) is not None else None)
        elif self._first is not None and self._around.of(self._first) != self._first.epoch:
            self._judge_first(self._around.after())
        if self._doubt is not None:
            self._decide(self._around.after())

    @property
    def _before_held(self) -> int | None:
        return self._around.before() if self._good is None else self._good

    def _judge_first(self, after: int | None) -> None:
        """Judge the first batch, if it is alone with its epoch, by the log before."""
        first = self._first
        if first is None or self._around.of(first) == first.epoch:
            return
        before = self._around.before()
        expected = self._judge(first, before, after)
        if expected is None:
            return
        if self._around.of(first) is None and after is not None and after < (first.epoch or 0):
            self._doubt = first, after
        else:
            self._blame(Code.E01, first, before, after, expected)
        self._good, self._first = expected, None

    def _judge(self, one: HeaderFacts, before: int | None, after: int | None) -> int | None:
        """Return the epoch of a batch that is alone with its own, None where that is right or nothing determines it."""
        epoch, known = one.epoch, self._around.of(one)
        assert epoch is not None
        if epoch == known:
            return None
        if known is None:
            return before if before == after != epoch else None
        if (before is not None and known < before) or (after is not None and known > after):
            return None
        if (before is not None and epoch < before) or (after is not None and epoch > after):
            return known
        is_alone = epoch not in (before, after, layout.NO_EPOCH) and known in (before, after)
        return known if is_alone and not self._around.may_be_missing(one, known, after) else None

    def _settle(self, after: int | None) -> None:
        """Judge the held batch by the epoch before it and the one after it."""
        held, self._held = self._held, None
        assert held is not None
        assert held.epoch is not None
        before, known = self._before_held, self._around.of(held)
        good = layout.NO_EPOCH if before is None else before
        expected = self._judge(held, before, after)
        if held.epoch < layout.NO_EPOCH:
            if known is None and expected is None and None in (before, after):
                sides = {one for one in (before, after) if one is not None and _one_bit(held.epoch, one)}
                expected = sides.pop() if sides else None
            self._blame(Code.E02, held, before, after, expected)
        elif held.epoch == known:
            self._good = held.epoch  # if it does not follow, a neighbour is wrong
        elif self._first is not None and after is not None and held.epoch <= after < good:
            self._blame(Code.E01, self._first, self._around.before(), held.epoch, self._of_first(held.epoch))
            self._good = held.epoch
        elif expected is not None and known is not None:
            self._blame(Code.E01, held, before, after, expected)
            self._good = expected
        elif held.epoch < good:
            may_be_first = self._first is not None and _could_be(good, 0, held.epoch) and self._around.before() != good
            self._blame(Code.E01, held, before, after, None if may_be_first else expected)
            if after is not None and after < good:
                self._good = held.epoch  # epochs continue from the lower one
        elif after is not None and good <= after < held.epoch:
            if expected is not None:
                self._doubt = held, after
            else:
                self._blame(Code.E01, held, before, after, None)
        else:
            self._good = held.epoch
        self._first = None

    def _of_first(self, after: int) -> int | None:
        """The epoch of a first batch that is too high, where the one behind it is the only one that one bit leaves."""
        first, before = self._first, self._around.before()
        assert first is not None
        assert first.epoch is not None
        if self._around.of(first) is not None:
            return None
        low = 0 if before is None else before
        others = [one for one in _one_bit_from(first.epoch) if low <= one <= after]
        return after if others == [after] else None

    def _decide(self, following: int | None) -> None:
        """Report the batch that is too high; open where one wrong bit of the batch behind it explains the same.

        Args:
            following: the epoch that comes behind these two; None for none.
        """
        if self._doubt is None:
            return
        (held, after), self._doubt = self._doubt, None
        assert held.epoch is not None
        is_other = following is None or _could_be(after, held.epoch, following)
        self._blame(Code.E01, held, after, after, None if is_other else after)

    def _blame(
        self, code: Code, held: HeaderFacts, before: int | None, after: int | None, expected: int | None
    ) -> None:
        self._report(
            Finding(
                code,
                self._file,
                held.position,
                held.size,
                offset=held.first,
                last_offset=held.last,
                field="partitionLeaderEpoch",
                found=held.epoch,
                expected=expected,
                values={"before": _or_none(before), "after": _or_none(after)},
            )
        )


def _or_none(epoch: int | None) -> int | str:
    return "none" if epoch is None else epoch


def _one_bit(epoch: int, other: int) -> bool:
    return (epoch ^ other).bit_count() == 1


def _one_bit_from(epoch: int) -> list[int]:
    return [epoch ^ (1 << bit) for bit in range(31)]


def _could_be(epoch: int, low: int, high: int) -> bool:
    """Whether one wrong bit makes an epoch of one in a range."""
    return any(low <= one <= high for one in _one_bit_from(epoch))
