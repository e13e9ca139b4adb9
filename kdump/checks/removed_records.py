"""What a start removes and no other file has (F16), beside what is missing: whether the one brings back the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.checks.step_sentences import StepKind, move
from kdump.ranges import RangeSet
from kdump.rows.steps import NONE
from kdump.rows.verdict import Certainty
from kdump.words.command import ShellCommand
from kdump.words.numbers import NamedRanges

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.checks.step_sentences import Move
    from kdump.finding import Finding
    from kdump.rows.steps import Amount
    from kdump.rows.verdict import Loss

_MOST_FILES = 100  # that are held
_MOST_LOST = 10_000  # ranges that are held; of more nobody says that all come back
_OTHERS_STAY = ", and none of the logs that stay: these have others at its offsets"
_FOR_TOPIC = "; with --for LOGDIR one that fits a topic that was made again"


class RemovedRecords:
    """The records of one partition that its broker is to remove, and which of its missing offsets they have."""

    def __init__(self) -> None:
        self._files: list[str] = []  # some of them
        self._command: ShellCommand | None = None  # that makes a partition of them
        self._deleted: str | None = None  # how it reads logs that are renamed: too, alone, or None for a directory
        self._slug = ""
        self._has, self._may_have = RangeSet(), RangeSet()
        self._lost = RangeSet()
        self._has_more_lost = False

    def see(self, finding: Finding) -> None:
        """Take what is said of a directory or a log (F16): all of one partition name the same command."""
        command = finding.values["rescue"]
        assert isinstance(command, ShellCommand)
        self._command, deleted = command, finding.values["deleted"]
        self._deleted = None if deleted is None else str(deleted)
        self._slug = f"{finding.code.name} {finding.code.slug}"
        if len(self._files) < _MOST_FILES:
            self._files.append(finding.file)
        first, last = finding.offset or 0, finding.last_offset or 0
        is_whole = finding.count == last - first + 1  # else nobody says here which of them it has
        (self._has if is_whole else self._may_have).add(first, last)

    def see_loss(self, loss: Loss, *, is_alone: bool) -> None:
        """Take missing offsets; `is_alone`: nothing tells whether they are lost (L19)."""
        if not (loss.counts or is_alone):
            return
        if len(self._lost) < _MOST_LOST:
            self._lost.add(loss.offset, loss.last_offset)
        else:
            self._has_more_lost = True
        self._has_more_lost |= loss.certainty is Certainty.DOUBTFUL

    @property
    def _joins(self) -> bool:
        """Whether one partition is made of them and of all logs that stay."""
        return self._deleted == "too"

    @property
    def has_some(self) -> bool:
        """Whether there are any."""
        return self._command is not None

    @property
    def may_bring_back(self) -> bool:
        """Whether a salvage of the partition that reads them too brings missing offsets back, as far as is known."""
        is_there = any(one.has_any(*lost) for lost in self._lost for one in (self._has, self._may_have))
        return self._joins and is_there

    @property
    def has_all_lost(self) -> bool:
        """Whether a salvage of the partition that reads them too brings back all that is missing."""
        is_any = len(self._lost) > 0 and not self._has_more_lost
        return self._joins and is_any and all(self._has.has_all(*lost) for lost in self._lost)

    def brings(self) -> str:
        """Say which of the missing offsets come back, and from where; empty where none does for certain."""
        found = NamedRanges()
        for first, last in self._lost:
            for low, high in self._has.over(first, last):
                found.add(max(first, low), min(last, high))
        if not (self._joins and found.offsets):
            return ""
        are = "is" if found.offsets == 1 else "are"
        return f"{found}, which {are} missing here" if self.has_all_lost else f"{found} of what is missing here"

    def moves(self, keeps: Amount) -> Iterator[Move]:
        """Yield the step about them.

        Args:
            keeps: intact records that readers get today.
        """
        if self._command is None:
            return
        kind = StepKind.RESCUE_TOO if self._joins else StepKind.RESCUE
        brings = self.brings()
        it = "it" if len(self._files) == 1 else "them"
        on_purpose = "" if brings else f"unless {'it was' if it == 'it' else 'they were'} removed on purpose, "
        words: dict[str, object] = {"files": tuple(self._files), "it": it, "code": self._slug, "unless": on_purpose}
        if self._joins:
            words["has"] = f"; {'it has' if it == 'it' else 'they have'} {brings}" if brings else ""
        else:
            words["alone"] = _OTHERS_STAY if self._deleted == "alone" else _FOR_TOPIC
        yield move(kind, self._command, **words).replace(keeps=keeps, loses=NONE)
