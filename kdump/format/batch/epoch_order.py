"""Leader epochs of the batches of a log: which are wrong, and what they were, where that is determined.

An epoch never falls. One that two batches have, one behind the other, is right: no damage makes that. A batch alone
with its epoch is judged by those around it, in the logs beside its own too, and by the leader-epoch-checkpoint: what
has to be wrong for it to have an epoch has a price, and the cheapest explanation is believed (`header_judge`).

A checkpoint knows the epochs that it has. One that is older than the log lacks the newest ones, and is true for the
others. Source: UnifiedLog.append, LeaderEpochFileCache.assign.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from kdump.finding import Code, Finding, Report
from kdump.format.batch import layout
from kdump.format.batch.header_judge import (
    DAMAGED,
    EPOCH_BITS,
    INVENTED,
    NEAR,
    OLDER,
    SELDOM,
    ascending,
    field_cost,
    one_bit_from,
    one_bit_of_text,
)
from kdump.format.java_values import MAX_LONG

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kdump.format.batch.base_offset.header import HeaderFacts
    from kdump.format.checkpoint.checkpoint_file import EpochEntry


def ascend(epochs: Sequence[EpochEntry]) -> bool:
    """Tell whether epochs and their start offsets ascend, as a broker writes them."""
    return all(one.epoch < other.epoch and one.start_offset < other.start_offset for one, other in pairwise(epochs))


def goes_on_behind(newest: EpochEntry, epoch: int, offset: int) -> bool:
    """Tell whether a batch goes on behind a leader-epoch-checkpoint, which may be older than it.

    Args:
        newest: the last entry.
        epoch: of the batch.
        offset: the first one of it.
    """
    return epoch > newest.epoch and offset >= newest.start_offset


class EpochsAround:
    """What lies around a log says of the leader epochs of its batches.

    Args:
        entries: of a sound leader-epoch-checkpoint, ascending; none where there is no such file.
        floor: the log start offset: of batches below it, and below the first entry, the checkpoint says nothing.
        own: where that file is another replica's, the entries of its own; None where it is this one's.
            Behind its newest entry that of another replica says nothing.

    Attributes:
        is_asked: somebody has asked which epoch an offset has, or what lies in other logs: an answer hangs on more than
            the entries of the log's own offsets.
    """

    is_asked = False

    def __init__(
        self, entries: Sequence[EpochEntry] = (), floor: int = 0, own: Sequence[EpochEntry] | None = None
    ) -> None:
        self._entries = entries
        self._starts = [one.start_offset for one in entries]
        self._epochs = [one.epoch for one in entries]
        self._floor = max([floor, *self._starts[:1]])
        self._is_other, self._own_entries = own is not None, own
        self._own = EpochsAround(own, floor) if own else None

    def alone(self) -> EpochsAround:
        """Return what the checkpoint says, of batches that may have other logs beside them than their name tells."""
        return self

    @property
    def batches_before(self) -> Sequence[HeaderFacts]:
        """The last two batches of the logs before, in file order; fewer where nobody knows them."""
        return ()

    @property
    def batches_behind(self) -> Sequence[HeaderFacts]:
        """The first two batches of the logs behind, in file order; fewer where nobody knows them."""
        return ()

    def leads_up_to(self, offset: int) -> bool:
        """Tell whether the logs before end right before an offset: a log of that name begins there."""
        before = self.batches_before
        return bool(before) and before[-1].last + 1 == offset

    def at(self, offset: int) -> int | None:
        """Return the epoch that the checkpoint has for an offset, None where it says nothing."""
        self.is_asked = True
        known = bool(self._starts) and offset >= self._floor
        if known and self._is_other and offset > self._starts[-1]:
            return None
        return self._epochs[bisect_right(self._starts, offset) - 1] if known else None

    def of(self, batch: HeaderFacts) -> int | None:
        """Return the epoch that the checkpoint has for a batch; its own where that is one of two.

        None where it says nothing of it.
        """
        if batch.first is None or batch.last < self._floor:
            return None
        found = self.at(max(batch.first, self._floor))
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
        self.is_asked = True
        at = -1 if epoch is None or offset is None else bisect_right(self._starts, offset) - 1
        return at >= 0 and (self._epochs[at], self._starts[at]) == (epoch, offset)

    def own_of(self, batch: HeaderFacts) -> int | None:
        """Return the epoch that the replica's own checkpoint has for a batch, where that of another one was given."""
        return None if self._own is None else self._own.of(batch)

    def has_other(self, epoch: int, first: int, last: int) -> bool:
        """Tell whether another epoch begins by the checkpoint in a range of offsets, both included."""
        at = bisect_left(self._starts, first)
        return at < len(self._starts) and self._starts[at] <= last and self._epochs[at] != epoch

    def against(self, batch: HeaderFacts, others: Sequence[HeaderFacts], newest: int) -> int:
        """Return what it costs that a batch has its epoch: what has to be wrong in the checkpoint then.

        Args:
            batch: as it would be.
            others: the batches beside it, with their epochs as they are: what the checkpoint says of them stays.
            newest: an epoch that batches bear out. A checkpoint that lacks it is known to be older.
        """
        return self._against(batch, others, newest) + (self._own.against(batch, others, newest) if self._own else 0)

    def _against(self, batch: HeaderFacts, others: Sequence[HeaderFacts], newest: int) -> int:
        known, epoch = self.of(batch), batch.epoch
        if known in (None, epoch) or epoch is None or batch.first is None:
            return 0
        at = bisect_right(self._starts, max(batch.first, self._floor)) - 1
        if at == len(self._starts) - 1 and epoch > self._epochs[at] and batch.first > self._starts[at]:
            # a broker has a new epoch in the checkpoint before it appends the first batch of it
            return 0 if newest > self._epochs[at] else OLDER
        is_explained = self._is_other or self._is_one_bit_away(at, batch, others)  # that replica may be another branch
        return DAMAGED if is_explained else INVENTED

    def _is_one_bit_away(self, at: int, batch: HeaderFacts, others: Iterable[HeaderFacts]) -> bool:
        """Whether one wrong bit of the file would explain that a batch has another epoch than one of its entries.

        Args:
            at: number of the entry.
            batch: with its epoch.
            others: the batches beside it: the entry that one of them bears out has its epoch, and not all offsets.
        """
        epoch, (known, start) = batch.epoch, self._entries[at]
        before, behind = self._epochs[at - 1] if at else layout.NO_EPOCH, [*self._entries[at + 1 : at + 2]]
        borne = [one for one in others if one.epoch == known and one.first is not None and self.at(one.first) == known]
        if epoch is None or batch.first is None:
            return False
        is_between = before < epoch and all(epoch < one.epoch for one in behind)
        if not borne and is_between and epoch in one_bit_of_text(known):
            return True
        if epoch == before and at:  # the entry begins too early
            least = min(
                [
                    *(one.first for one in borne if one.first is not None),
                    *(one.start_offset - 1 for one in behind),
                    MAX_LONG,
                ]
            )
            return any(batch.last < one <= least for one in one_bit_of_text(start))
        if behind and epoch == behind[0].epoch:  # the one behind it begins too late
            most = max([start, *(one.last for one in borne)])
            return any(most < one <= max(batch.first, self._floor) for one in one_bit_of_text(behind[0].start_offset))
        return False


_SOME = 2  # batches that bear out the epoch of each other
_MOST_WAITING = 32  # batches, each alone with its epoch: a log of many such is damaged, or was made so
_NEVER = 1 << 40  # costs more than any explanation
_MOST_TOLD = 1000  # findings of one log: of one with more no epoch is restored
_MANY = 16  # elections of which nothing else is left


class EpochFold:
    """Judges the leader epochs of a log's batches in file order.

    An epoch that two batches have, one behind the other, is right. A batch alone with its epoch waits for such two.

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
        self._sure: HeaderFacts | None = None  # the last batch whose epoch another one bears out
        self._waiting: tuple[HeaderFacts, ...] = ()  # the batches behind it
        self._told = 0  # findings

    @property
    def state(self) -> tuple[object, ...]:
        """What it holds."""
        return self._sure, self._waiting, self._told

    def resume(self, state: tuple[Any, ...]) -> None:
        """Go on from what another one held."""
        self._sure, self._waiting, self._told = state

    def is_same(self, one: HeaderFacts) -> bool:
        """Whether a batch has the epoch of the one before, or none, and nothing waits."""
        return not self._waiting and (one.epoch is None or (self._sure is not None and one.epoch == self._sure.epoch))

    def is_plain(self, first: int, last: HeaderFacts) -> bool:
        """Whether no other epoch begins by the checkpoint in a run of batches of one epoch.

        Args:
            first: offset of the first one.
            last: batch of it.
        """
        return last.epoch is None or not self._around.has_other(last.epoch, first, last.last)

    def skip(self, one: HeaderFacts) -> None:
        """Move on in a run of batches of one epoch, at least two, in which the checkpoint begins no other one."""
        if one.epoch is not None:
            self._settle(one)

    def push(self, one: HeaderFacts) -> None:
        """Take the next batch; one whose CRC is wrong, or without an epoch, says nothing."""
        if not one.trusted or one.epoch is None:
            return
        is_odd = one.first is not None and self._around.has_other(one.epoch, one.first, one.first)
        if self.is_same(one) and not is_odd:
            self._sure = one
        elif self._waiting and _epoch(one) == _epoch(self._waiting[-1]) >= layout.NO_EPOCH and not is_odd:
            first, self._waiting = self._waiting[-1], self._waiting[:-1]
            self._settle(first)
            self._sure = one
        else:
            self._waiting += (one,)
            if len(self._waiting) > _MOST_WAITING:
                self._settle_first()

    def finish(self) -> None:
        """There is no next batch in this log."""
        self._tell(self._judge(None, is_end=True))
        self._waiting = ()

    def _settle(self, sure: HeaderFacts) -> None:
        """Judge those that wait, before a batch that has its epoch for sure."""
        self._tell(self._judge(sure))
        before = self._sure
        if before is not None and _epoch(sure) < _epoch(before):
            self._tell([self._finding(sure, before, sure, None)])  # two of each: nobody knows which are wrong
        self._sure, self._waiting = sure, ()

    def _settle_first(self) -> None:
        """Judge those that wait, but for the last ones: those behind them may bear them out."""
        some = self._waiting[:-_SOME]
        wrong = [one for one in self._judge(None) if (one.position or 0) <= some[-1].position]
        self._tell(wrong)
        blamed = {one.position for one in wrong}
        right = [one for one in some if one.position not in blamed]
        self._sure, self._waiting = (right[-1] if right else self._sure), self._waiting[-_SOME:]

    def _tell(self, wrong: Sequence[Finding]) -> None:
        self._told += len(wrong)
        for one in wrong:
            self._report(one)

    def _judge(self, sure: HeaderFacts | None, *, is_end: bool = False) -> list[Finding]:
        """Return what is wrong with the batches that wait.

        Args:
            sure: the batch behind them, which has its epoch for sure; None where none is known.
            is_end: the log ends behind them.
        """
        waiting, first = self._waiting, self._sure
        if not waiting:
            return []
        known = [self._around.of(one) for one in waiting]
        is_order = _ascend([*(() if first is None else (first,)), *waiting, *(() if sure is None else (sure,))])
        is_older = sure is not None and self._around.of(sure) not in (None, sure.epoch)
        if is_order and not is_older and all(one.epoch == epoch for one, epoch in zip(waiting, known, strict=True)):
            return []  # and nobody asks for the logs beside this one
        is_free = all(epoch in (None, one.epoch) for one, epoch in zip(waiting, known, strict=True))
        if is_order and is_free and first is not None and not is_end:
            return []
        if self._told > _MOST_TOLD:
            sides = zip([first, *waiting], waiting, strict=False)
            return [
                self._finding(one, before, None, None)
                for before, one in sides
                if _epoch(one) < (layout.NO_EPOCH if before is None else _epoch(before))
            ]
        before = [*self._around.batches_before] if first is None else [first]
        behind = [*self._around.batches_behind] if is_end else [] if sure is None else [sure]
        group = _Group(before, waiting, behind, self._around, is_sure=(first is not None, sure is not None))
        return [self._finding(one, *sides, epoch) for one, sides, epoch in group.wrong(is_last=is_end and not behind)]

    def _finding(
        self, one: HeaderFacts, before: HeaderFacts | None, behind: HeaderFacts | None, expected: int | None
    ) -> Finding:
        return Finding(
            Code.E01 if _epoch(one) >= layout.NO_EPOCH else Code.E02,
            self._file,
            one.position,
            one.size,
            offset=one.first,
            last_offset=one.last,
            field="partitionLeaderEpoch",
            found=one.epoch,
            expected=expected,
            values={"before": _or_none(before), "after": _or_none(behind)},
        )


class _Group:
    """Batches that lie one behind the other between two of which the epochs are sure, as far as there are such.

    Args:
        before: the batches before those that are judged: one or two.
        waiting: those that are judged, each alone with its epoch.
        behind: the batches behind them: one or two.
        around: what the checkpoint says.
        is_sure: whether the epochs of those before, and of those behind, are sure. They are too where two agree.
    """

    def __init__(
        self,
        before: Sequence[HeaderFacts],
        waiting: Sequence[HeaderFacts],
        behind: Sequence[HeaderFacts],
        around: EpochsAround,
        *,
        is_sure: tuple[bool, bool],
    ) -> None:
        self._batches = [*before, *waiting, *behind]
        self._around = around
        self._own = range(len(before), len(before) + len(waiting))
        is_high, is_low = is_sure[1] or _agree(behind), is_sure[0] or _agree(before)
        self._high = _epoch(behind[0]) if is_high else None
        self._low = _epoch(before[-1]) if is_low else 0 if self._high == 0 else None
        # a batch beside them that is alone with its epoch too is judged with them
        self._judged = range(
            self._own.start if before and is_low else 0, self._own.stop if is_high else len(self._batches)
        )
        if self._low is not None and self._high is not None and self._low > self._high:
            self._low = None

    def wrong(
        self, *, is_last: bool
    ) -> Iterator[tuple[HeaderFacts, tuple[HeaderFacts | None, HeaderFacts | None], int | None]]:
        """Yield each batch that is wrong, the batches beside it, and its epoch where that is determined.

        Args:
            is_last: no batch comes behind them.
        """
        borne = max(sure for sure in (layout.NO_EPOCH, self._low, self._high) if sure is not None)
        totals, own = self._totals(borne, is_last=is_last)
        if own > min(totals[0].values(), default=0):  # that one file is older costs once, however many batches tell it
            others, own_then = self._totals(MAX_LONG, is_last=is_last)
            own = min(own, own_then + OLDER)
            totals = [_cheaper(one, other, OLDER) for one, other in zip(totals, others, strict=True)]
        least = min(totals[0].values(), default=0)
        if own == least:
            return
        best = [[value for value, cost in total.items() if cost == least] for total in totals]
        for k in self._own:
            at, epoch = k - self._judged.start, _epoch(self._batches[k])
            if best[at] == [epoch]:
                continue
            near = [value for value, cost in totals[at].items() if cost < least + NEAR and value != epoch]
            low = best[at - 1][0] if at and len(best[at - 1]) == 1 else self._low
            high = best[at + 1][0] if at + 1 < len(best) and len(best[at + 1]) == 1 else self._high
            is_known = epoch not in best[at] and len(near) == 1 and self._is_determined(k, near[0], low, high)
            yield self._batches[k], (self._before(k), self._behind(k)), near[0] if is_known else None

    def _totals(self, newest: int, *, is_last: bool) -> tuple[list[dict[int, int]], int]:
        """Return what each value of each batch costs with the best of all others, and what all cost as they are.

        Args:
            newest: an epoch up to which the checkpoint is known to lack some.
            is_last: no batch comes behind them.
        """
        costs = [self._costs(k, newest) for k in self._judged]
        if is_last:
            self._add_elections(costs[-1])
        totals = ascending(costs, self._low, self._high)
        stored = [_epoch(self._batches[k]) for k in self._judged]
        some = zip(stored, totals, costs, strict=True)
        if not _is_rising(stored) or any(epoch not in total or epoch not in cost for epoch, total, cost in some):
            return totals, _NEVER
        return totals, sum(cost[epoch] for epoch, cost in zip(stored, costs, strict=True))

    def _is_determined(self, k: int, epoch: int, low: int | None, high: int | None) -> bool:
        """Whether something tells the epoch of a batch, and not only that it lies between others.

        Args:
            k: number of the batch.
            epoch: that it would have.
            low, high: the epochs before and behind it, None where nobody knows them.
        """
        if epoch in (self._of(k), self._around.own_of(self._batches[k])) or epoch == low == high:
            return True
        if epoch not in (low, high):
            return False
        others = one_bit_from(_epoch(self._batches[k]), EPOCH_BITS)
        least, most = max(0, low or 0), MAX_LONG if high is None else high
        return [one for one in others if least <= one <= most] == [epoch]

    def _before(self, k: int) -> HeaderFacts | None:
        return self._batches[k - 1] if k else None

    def _behind(self, k: int) -> HeaderFacts | None:
        return self._batches[k + 1] if k + 1 < len(self._batches) else None

    def _costs(self, k: int, newest: int) -> dict[int, int]:
        """Return what each epoch costs that a batch may have, by all but the order."""
        one = self._batches[k]
        sides = [side for side in (self._before(k), self._behind(k)) if side is not None]
        own = self._around.own_of(one) if self._is_placed(k) else None
        tried = {one.epoch, self._low, self._high, self._of(k), own, *(side.epoch for side in sides)}
        found = {}
        for value in tried:
            if value is not None and value >= layout.NO_EPOCH:
                found[value] = field_cost(_epoch(one), value, EPOCH_BITS)
                if self._is_placed(k):
                    found[value] += self._around.against(one._replace(epoch=value), sides, newest)
        return found

    def _add_elections(self, costs: dict[int, int]) -> None:
        """Let an epoch of the very last batch cost more where many elections must have left nothing else."""
        *others, last = [_epoch(one) for one in self._batches]
        known = max(others, default=last) if self._low is None else self._low
        for value in costs:
            costs[value] += SELDOM if value > known + _MANY else 0

    def _of(self, k: int) -> int | None:
        """The epoch that the checkpoint has for a batch."""
        return self._around.of(self._batches[k]) if self._is_placed(k) else None

    def _is_placed(self, k: int) -> bool:
        """Whether a batch lies between those beside it: else nobody knows of which offsets it is."""
        return all(one.last < other.begin for one, other in pairwise(self._batches[max(0, k - 1) : k + 2]))


def _cheaper(one: dict[int, int], other: dict[int, int], more: int) -> dict[int, int]:
    """What values cost by the cheaper of two explanations, of which the second costs more by itself."""
    return {
        value: min(some[value] + extra for some, extra in ((one, 0), (other, more)) if value in some)
        for value in sorted(one.keys() | other.keys())
    }


def _epoch(batch: HeaderFacts) -> int:
    assert batch.epoch is not None
    return batch.epoch


def _ascend(batches: Sequence[HeaderFacts]) -> bool:
    return _is_rising([_epoch(one) for one in batches])


def _is_rising(epochs: Sequence[int]) -> bool:
    return all(one <= other for one, other in pairwise(epochs))


def _agree(batches: Sequence[HeaderFacts]) -> bool:
    """Whether two batches bear out the epoch of each other."""
    return len(batches) == _SOME and batches[0].epoch == batches[1].epoch


def _or_none(batch: HeaderFacts | None) -> int | str:
    return "none" if batch is None or batch.epoch is None else batch.epoch
