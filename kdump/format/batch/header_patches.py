"""What puts the headers of a log right: fields outside the CRC that can have one value only.

A base offset is determined by both neighbours, or by one when a single bit makes the difference, or by what it fills
with others between sound ones (`base_offset`); a length and a magic by the CRC, which is right with one value of them;
a leader epoch by two witnesses (`epoch_order`), and the checkpoint must not contradict.

What the checked walk says of the log as it is decides, and then what it says of the log as it would be: nothing about
these fields, and nothing new.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding, Severity
from kdump.format.batch import layout
from kdump.format.batch.base_offset.either import may_be_the_next
from kdump.format.batch.base_offset.findings import LOG_END
from kdump.format.batch.base_offset.header import LogEnd
from kdump.format.batch.header_fields import Overlay, Patch, is_of_header, patch_of
from kdump.format.batch.walk import CheckedWalk
from kdump.format.read_limits import MAX_BATCH_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kdump.format.batch.epoch_order import EpochsAround
    from kdump.format.source import Source

_JUDGED = 2  # files that know an end by which a finding was made: how many they are was judged then
_ROUNDS = 8  # a field that is put right can show the next one
MOST_ERRORS = 100_000  # of one log; they are held


class HeaderPatches:
    """The headers of one log, as they are and as they would be.

    Args:
        source: the log.
        base: offset of the segment.
        next_base: of the next segment; None for the last one.
        around: what lies around the log says of leader epochs.
        known_end: where other files know the last one to end, as `log_end_by` has it.
    """

    def __init__(
        self, source: Source, base: int, next_base: int | None, around: EpochsAround, known_end: int | None = None
    ) -> None:
        self._source = source
        self._around = around
        self._base = base
        self._next_base = next_base
        self._known_end = known_end
        self.patches: dict[int, Patch] = {}  # by position of the field
        self.end: int | None = None  # the offset after the last batch
        self.end_before: int | None = None  # that of the log as it is
        self._positions: set[int] = set()
        self._has_holes = False

    @property
    def batches(self) -> int:
        """How many batches have a patch."""
        return len(self._positions)

    def solve(self, checkpoint: dict[int, Finding]) -> list[str]:
        """Find all patches; return why that cannot be done, nothing when it can.

        Args:
            checkpoint: by the position of a batch, what the leader-epoch-checkpoint says of it.
        """
        return self._solve() or self._contradicted(checkpoint)

    def mends(self, finding: Finding) -> bool:
        """Tell whether a finding about this log is gone when the patches are made.

        Args:
            finding: of the log as it is.
        """
        if finding.position not in self._positions:
            return False
        if finding.code is not Code.E03:
            return is_of_header(finding)
        patch = self.patches.get(finding.position + layout.LEADER_EPOCH_AT)
        return patch is not None and int.from_bytes(patch.new, "big", signed=True) == finding.expected

    def _solve(self) -> list[str]:
        first = others = self._walk()
        for _ in range(_ROUNDS):
            if len(others) > MOST_ERRORS:
                return [f"the log has more than {MOST_ERRORS:,} errors: restore the replica"]
            wrong = [one for one in others if is_of_header(one)]
            if not wrong:
                return self._new(first, others)
            either = [one for one in wrong if self._is_either(one)]
            refused = [_ambiguous(one) for one in wrong if one not in either and not isinstance(one.expected, int)]
            refused += map(_either, either)
            if refused:
                return refused
            for finding in wrong:
                self._patch(finding)
            others = self._walk()
        return ["with the values that the neighbours suggest other headers look wrong: none is patched"]

    def _walk(self) -> list[Finding]:
        found: list[Finding] = []
        log = Overlay(self._source, self.patches.values())

        def keep(finding: Finding) -> None:
            if finding.severity is Severity.ERROR or is_of_header(finding):
                found.append(finding)
            self._has_holes = self._has_holes or finding.code is Code.O04

        walk = CheckedWalk(
            log,
            keep,
            segment=self._base,
            next_base=self._next_base,
            known_end=lambda: None if self._known_end is None else LogEnd(self._known_end, _JUDGED),
            max_batch_bytes=MAX_BATCH_BYTES,
            around=self._around,
        )
        for _ in walk.windows():
            if len(found) > MOST_ERRORS:
                break
        last = walk.checks.offsets.last
        self.end = self._base if last is None else last + 1
        self.end_before = self.end if self.end_before is None else self.end_before
        return found

    def _is_either(self, finding: Finding) -> bool:
        """Whether the batch behind is as likely wrong: of a wrapper nobody knows whether there is a hole before it."""
        may_be = self._has_holes or finding.offset is None
        return may_be and may_be_the_next(finding, self._source, self._next_base)

    def _patch(self, finding: Finding) -> None:
        assert finding.position is not None
        patch = patch_of(finding, self._source)
        self._positions.add(finding.position)
        self.patches[patch.position] = patch

    def _new(self, before: list[Finding], after: list[Finding]) -> list[str]:
        """Refuse when the log would have faults that it does not have now."""
        if not self.patches:
            return []
        known = {(one.code, one.position) for one in before}
        new = [one for one in after if one.severity is Severity.ERROR and (one.code, one.position) not in known]
        return [f"with the values that the neighbours suggest, byte {one.position}: {one.message}" for one in new[:1]]

    def _contradicted(self, checkpoint: dict[int, Finding]) -> list[str]:
        """Refuse where the leader-epoch-checkpoint says something else than the neighbours: one of them is wrong."""
        for position, finding in checkpoint.items():
            patch = self.patches.get(position + layout.LEADER_EPOCH_AT)
            value = finding.found if patch is None else int.from_bytes(patch.new, "big", signed=True)
            if value != finding.expected:
                why = f"the batches around byte {position} have leader epoch {value}"
                return [f"{why}, and the leader-epoch-checkpoint has {finding.expected}: nothing tells which is right"]
        return []


def _ambiguous(finding: Finding) -> str:
    why = f"{finding.field} {finding.found} of the batch at byte {finding.position} is wrong"
    return f"{why}, and nothing determines what it was; another replica has it"


def _either(finding: Finding) -> str:
    why = f"{finding.field} {finding.found} of the batch at byte {finding.position} is too high"
    return f"{why}, or that of the next one too low: nothing tells which; another replica does"


def by_checkpoint(path: str, findings: Iterable[Finding]) -> dict[int, Finding]:
    """Return what the leader-epoch-checkpoint says of batches, by their position.

    Args:
        path: of the log.
        findings: those about other files, and other ones, do not count.
    """
    name = os.path.basename(path)
    return {
        one.position: one
        for one in findings
        if one.code is Code.E03 and os.path.basename(one.file) == name and one.position is not None
    }


def log_end_by(path: str, findings: Iterable[Finding]) -> int | None:
    """Return the end of a log by other files, where a finding about its last batch goes by that.

    Args:
        path: of the log.
        findings: those about other files, and other ones, do not count.
    """
    name = os.path.basename(path)
    ends = (one.values.get(LOG_END) for one in findings if os.path.basename(one.file) == name)
    return next((end for end in ends if isinstance(end, int)), None)
