"""What a log comes to by its errors: what patch-header mends, what stays damaged, and whether reindex takes it.

Every command that names a remedy goes by this: `reindex` refuses a log whose recovery does not get to its end.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from kdump.finding import Code
from kdump.format.batch.header_fields import is_of_header
from kdump.storage.file_source import OpenFailure
from kdump.storage.open_files import open_source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kdump.finding import Finding
    from kdump.format.batch.epoch_order import EpochsAround
    from kdump.format.batch.header_patches import HeaderPatches


class LogState:
    """A log, by what is wrong with it.

    Args:
        log: its path, as the user wrote it.
        base: offset of the segment.
        next_base: of the next segment; None for the last one.
        around: what lies around the log says of leader epochs.
        errors: in it, at least the first of each code, those of headers apart.
    """

    def __init__(
        self, log: str, base: int, next_base: int | None, around: EpochsAround, errors: Sequence[Finding]
    ) -> None:
        self.log = log
        self.base = base
        self._next_base = next_base
        self._around = around
        self._errors = errors

    @cached_property
    def patches(self) -> HeaderPatches | None:
        """The patches of its headers, None where there are none or they are ambiguous."""
        if not any(is_of_header(one) for one in self._errors):
            return None
        from kdump.format.batch.header_patches import HeaderPatches, by_checkpoint, log_end_by  # it walks the log again

        source = open_source(self.log, follow=False)
        if isinstance(source, OpenFailure):
            return None
        with source:
            end = log_end_by(self.log, self._errors)
            headers = HeaderPatches(source, self.base, self._next_base, self._around, end)
            try:
                refused = headers.solve(by_checkpoint(self.log, self._errors))
            except OSError:
                return None
        return headers if headers.patches and not refused else None

    def mends(self, finding: Finding) -> bool:
        """Whether patch-header mends an error."""
        return self.patches is not None and finding.file == self.log and self.patches.mends(finding)

    def is_damage(self, finding: Finding) -> bool:
        """Whether an error is about its bytes, and no patch mends it; those of another partition's log are not."""
        is_own = finding.file == self.log and finding.because is not Code.F15
        return is_own and finding.is_log_damage and not self.mends(finding)

    @cached_property
    def damage(self) -> list[Finding]:
        """The errors that are damage, by position."""
        return sorted((one for one in self._errors if self.is_damage(one)), key=lambda one: one.position or 0)

    @cached_property
    def can_be_indexed(self) -> bool:
        """Whether a recovery gets to its end as it is: reindex refuses all others."""
        if any(one.is_misplaced for one in self._errors):
            return False
        if not any(one.is_log_damage for one in self._errors):
            return True
        from kdump.broker.load.recover import recover
        from kdump.broker.producer.replay import Producers

        source = open_source(self.log, follow=False)
        if isinstance(source, OpenFailure):
            return False
        with source:
            try:
                done = recover(source, self.base, source.size, Producers.empty())
            except OSError:
                return False
        return done.failure is None and done.valid_bytes == source.size

    @property
    def before_reindex(self) -> str:
        """What has to be done before its indexes can be built again; empty for nothing."""
        if self.can_be_indexed:
            return ""
        if not self.damage:
            return "after patch-header has mended its log"
        return f"after its log ({self.damage[0].code.name}): a restore, salvage or truncate does both"
