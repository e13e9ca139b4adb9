"""The order of leader epochs from batch to batch: outside the CRC, so judged by the neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Code, Finding, Report
from kdump.format import layout

if TYPE_CHECKING:
    from kdump.format.checks import Element


class EpochFold:
    """Judges the leader epochs of a log's batches in file order.

    Args:
        file: the path as the user wrote it.
        report: takes each finding.

    Reports: E01, E02.
    """

    def __init__(self, file: str, report: Report) -> None:
        self._file = file
        self._report = report
        self._good: int | None = None
        self._held: Element | None = None
        self._first: Element | None = None  # until a later batch bears its epoch out

    def is_same(self, epoch: int | None) -> bool:
        """Whether this is the epoch of the batch before, or none, and nothing waits for the next one."""
        return self._held is None and epoch in (None, self._good)

    def skip(self, one: Element) -> None:
        """Move on in a run of batches in which the epoch does not change."""
        if one.epoch is not None:
            self._good, self._held, self._first = one.epoch, None, None

    def push(self, one: Element) -> None:
        """Take the next batch; one whose CRC is wrong, or without an epoch, says nothing."""
        if not one.trusted or one.epoch is None:
            return
        if self._held is not None:
            self._settle(one.epoch)
        if self._good is None and one.epoch >= layout.NO_EPOCH:
            self._good, self._first = one.epoch, one
        elif one.epoch != self._good:
            self._held = one
        else:
            self._first = None

    def finish(self) -> None:
        """There is no next batch."""
        if self._held is not None:
            self._settle(None)

    def _settle(self, after: int | None) -> None:
        """Judge the held batch by the epoch before it and the one after it."""
        held, self._held = self._held, None
        assert held is not None
        assert held.epoch is not None
        good = layout.NO_EPOCH if self._good is None else self._good
        expected = good if after in (None, good) else None
        if held.epoch < layout.NO_EPOCH:
            if self._good is None and after is not None and _one_bit(held.epoch, after):
                expected = after
            self._blame(Code.E02, held, good, after, expected)
        elif self._first is not None and after is not None and held.epoch <= after < good:
            expected = held.epoch if _one_bit(good, held.epoch) else None
            self._blame(Code.E01, self._first, None, held.epoch, expected)
            self._good = held.epoch
        elif held.epoch < good:
            self._blame(Code.E01, held, good, after, expected if after is not None else None)
            if after is not None and after < good:
                self._good = held.epoch  # epochs go on from the lower one
        elif after is not None and good <= after < held.epoch:
            self._blame(Code.E01, held, good, after, expected)
        else:
            self._good = held.epoch
        self._first = None

    def _blame(self, code: Code, held: Element, before: int | None, after: int | None, expected: int | None) -> None:
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
