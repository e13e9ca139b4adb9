"""What is told of base offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import OVERLAP, Code, Finding
from kdump.format.batch import layout

if TYPE_CHECKING:
    from kdump.finding import Report
    from kdump.format.batch.base_offset.header import Before, Ends, HeaderFacts

    Values = dict[str, int | str | None]

BASE_OFFSET = "baseOffset"
"""The field; that of a legacy wrapper has its last offset."""
LOG_END = "log_end"
"""Among the values of a finding: the end that other files know, by which the last base offset of a log is judged."""


class OffsetFindings:
    """Makes the findings about base offsets.

    Args:
        file: the path as the user wrote it.
        report: takes each finding.

    Reports: O01-O04, O09, B07.
    """

    def __init__(self, file: str, report: Report) -> None:
        self._file = file
        self._report = report

    def _of_batch(
        self, code: Code, held: HeaderFacts, last: int | None, field: tuple[str, int, int | None], values: Values
    ) -> None:
        """A finding about a batch: its last offset, and the name of a field, what was found there, and expected."""
        name, found, expected = field
        place = held.position, held.size, False, held.first, last
        self._report(Finding(code, self._file, *place, name, expected, found, values=values))

    def _of_base_offset(
        self, code: Code, held: HeaderFacts, last: int | None, expected: int | None, values: Values
    ) -> None:
        """A finding about the base offset of a batch: its last offset, and the base offset that it should have."""
        field = BASE_OFFSET, held.stored, None if expected is None else held.field(expected)
        self._of_batch(code, held, last, field, values)

    def gap(self, before: Before, held: HeaderFacts) -> None:
        """Tell of offsets that are missing before a batch, where nothing else than a hole is there."""
        if before.good is None or before.is_open or held.first is None or before.adjoins(held):
            return
        first, last = before.good.last + 1, held.first - 1
        values: Values = {"missing_first": first, "missing_last": last}
        place = self._file, held.position, 0
        self._report(Finding(Code.O04, *place, offset=first, last_offset=last, values=values))

    def out_of_range(self, held: HeaderFacts, before: Before, expected: int | None) -> None:
        """Tell of a batch whose offsets cannot be those of its segment."""
        segment, first = before.segment, held.begin
        below = first < max(segment, 0)
        of_file = f"the base offset {segment} of the file"
        if below:
            why = "is negative" if segment == layout.UNKNOWN else f"is below {of_file}"
        elif first + held.span > layout.LARGEST_OFFSET:
            why = "leaves no offset for what follows its batch"
        else:
            why = f"is too far above {of_file}"
        code = Code.O01 if below else Code.O02
        self._of_base_offset(code, held, held.true_last, expected, {"why": why})

    def far(self, held: HeaderFacts, segment: int) -> None:
        """Tell of the first batch that lies too far above the base of its segment, where it was written."""
        place = self._file, held.position, 0
        self._report(
            Finding(
                Code.O09,
                *place,
                offset=held.first,
                last_offset=held.last,
                field=BASE_OFFSET,
                found=held.begin,
                values={"segment": segment},
            )
        )

    def wrong(
        self, held: HeaderFacts, before: Before, after: HeaderFacts | None, ends: Ends, expected: int | None
    ) -> None:
        """Tell of a batch that lies out of order."""
        segment, good, first, log_end = before.segment, before.good, held.begin, None
        if first < segment:
            why = f"is below the base offset {segment} of the file"
        elif good is not None and first <= good.last:
            why = f"is not above the last offset {good.last} before it"
        elif after is not None:
            why = "lies above the batch after it"
        elif ends.next_base is not None:
            why = f"lets its batch reach into the next segment, which begins at {ends.next_base}"
        else:
            log_end = ends.filled
            why = f"lies above the end of the log by its other files, {log_end}, where this batch fits exactly"
        code = Code.O01 if first < segment else Code.O03
        values: Values = {"why": why, LOG_END: log_end}
        self._of_base_offset(code, held, held.true_last, expected, values)

    def overlap(self, held: HeaderFacts, before: Before) -> None:
        """Tell of a batch that lies over those before it, where it was written."""
        floor = before.floor
        assert held.first is not None
        assert floor is not None
        last = min(floor, held.last)
        both, are = (f"{held.first}..{last}", "are") if held.first < last else (str(last), "is")
        what = f"not above the last offset {floor} before it"
        if before.good is None:
            what = f"below the base offset {before.segment} of the file, up to which the segment before goes"
        values: Values = {
            "why": f"is {what}: {both} {are} there twice",
            "remedy": f"none: no offset is lost, and a broker serves all; readers may get {both} twice",
            OVERLAP: last,
        }
        self._of_base_offset(Code.O03, held, held.last, None, values)

    def delta(self, held: HeaderFacts, after: HeaderFacts | None) -> None:
        """Tell of a base offset that follows, where the last offset cannot be: lastOffsetDelta is wrong."""
        assert held.first is not None
        expected = after.first - 1 - held.first if after is not None and after.first is not None else None
        self._of_batch(Code.B07, held, held.true_last, ("lastOffsetDelta", held.span, expected), {})
