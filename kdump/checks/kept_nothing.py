"""A verify that keeps nothing: most runs. What does keep something is in `kept_segments`, and costs time to import."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.checks.segment import Result


class NothingKept:
    """Where no state is kept: each segment of a partition is read."""

    unchanged: frozenset[int] = frozenset()  # numbers of the segments that are as they were

    def results(self, number: int) -> Iterator[Result]:
        """Return what an unchanged segment showed."""
        raise NotImplementedError

    def fresh(self, _number: int, results: Iterator[Result]) -> Iterator[Result]:
        """Return what a segment shows that is read now, and note it."""
        return results

    def done(self) -> None:
        """The partition is judged: keep what was noted."""


NOTHING = NothingKept()
