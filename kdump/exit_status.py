"""The exit status. Scripts rely on it: numbers are only ever added."""

from __future__ import annotations

from enum import IntEnum, unique

from kdump.dispatch import Dispatcher, takes
from kdump.finding import Code, Finding, Severity, Trait
from kdump.item import Complaint, Died, RecordsUnread, SanityFailed
from kdump.storage.file_source import OpenFailure


@unique
class Exit(IntEnum):
    """Exit codes; `combine` tells which one wins."""

    OK = 0  # done; nothing at or above the severity of --fail-on
    BUG = 1  # a bug in kdump
    USAGE = 2  # wrong use: an option, a value, a path of another kind
    ERRORS = 3  # errors were found
    WARNINGS = 4  # warnings, with --fail-on warning
    INCOMPLETE = 5  # something that was asked for could not be read, or is not among the inputs
    ERRORS_AND_INCOMPLETE = 6  # both
    PENDING = 7  # a dry run only: something would be changed
    NOT_FOUND = 10  # a path is missing, or nothing was found
    LOCKED = 11  # a broker, or another process, is at work there
    REFUSED = 12  # nothing was written: not allowed, or it cannot be done rightly
    FAILED = 13  # a write failed, and all is as it was
    PART_WAY = 14  # a write failed part-way: `kdump resume` or `kdump undo`


def combine(
    *,
    errors: bool,
    warnings: bool,
    incomplete: bool,
    missing: bool,
    fail_on: str,
    nothing: bool = False,
    doubt: bool = False,
) -> Exit:
    """Return the one exit code for all that was seen, and for the answer to a question.

    Args:
        errors, warnings: findings of that severity; offsets that are lost are an error too.
        incomplete: something asked for could not be read, was over a limit, or is not among the inputs.
        missing: an input path does not exist.
        fail_on: error, warning or never.
        nothing: nothing was found for what was asked.
        doubt: what was asked for, and not found, may be in what is damaged: nothing found is no answer then.
    """
    is_half = errors and (missing or (nothing and doubt))
    if errors and fail_on != "never" and (incomplete or is_half):
        return Exit.ERRORS_AND_INCOMPLETE
    if incomplete or is_half:
        return Exit.INCOMPLETE
    if errors and fail_on != "never":
        return Exit.ERRORS
    if missing or nothing:
        return Exit.NOT_FOUND
    if warnings and fail_on == "warning":
        return Exit.WARNINGS
    return Exit.OK


class RunStatus(Dispatcher):
    """The exit status of a run, from its items.

    Args:
        fail_on: error, warning or never.
        compat: Kafka's tool is mirrored: what it only prints is not an error.
    """

    def __init__(self, fail_on: str, *, compat: bool) -> None:
        self._fail_on = fail_on
        self._compat = compat
        self._errors = self._warnings = self._incomplete = self._missing = False
        self._nothing = self._doubt = False
        self.dead = False

    def see(self, item: object) -> None:
        """Take one item into account."""
        self.take(item)

    @takes(Finding)
    def _finding(self, finding: Finding) -> None:
        self._errors |= finding.severity is Severity.ERROR and finding.code is not Code.F06  # that is 5, as other files
        self._warnings |= finding.severity is Severity.WARNING
        self._incomplete |= Trait.NOT_ALL_READ in finding.code.traits

    @takes(RecordsUnread)
    def _records_unread(self, item: RecordsUnread) -> None:
        self._finding(item.finding)

    @takes(OpenFailure)
    def _unread(self, failure: OpenFailure) -> None:
        self._missing |= failure.missing
        self._incomplete |= not failure.missing and failure.kind != "skipped"

    @takes(Complaint, SanityFailed)
    def _complaint(self, _item: Complaint | SanityFailed) -> None:
        self._errors |= not self._compat

    @takes(Died)
    def _died(self, item: Died) -> None:
        self.died(item.exception)

    def matters(self, item: object) -> bool:
        """Whether an item makes the exit status another than 0, or is an error; the rest is what `--quiet` hides."""
        if isinstance(item, OpenFailure):
            return item.kind != "skipped"
        if not isinstance(item, Finding):
            return False
        is_warning = item.severity is Severity.WARNING and self._fail_on == "warning"
        return item.is_unsound or is_warning

    def join(self, other: RunStatus) -> None:
        """Take what another one has seen into account."""
        for name, said in vars(other).items():
            if isinstance(said, bool) and name != "_compat":  # a setting, and not what was seen
                setattr(self, name, getattr(self, name) or said)

    @property
    def has_errors(self) -> bool:
        """Whether errors were found so far."""
        return self._errors

    def damaged(self) -> None:
        """Errors were found, and counted only."""
        self._errors = True

    def nothing(self) -> None:
        """Note that what was asked for was not found."""
        self._nothing = True

    def answered(self, *, found: bool, has_place: bool) -> None:
        """Take into account how a question was answered that only certain partitions can answer, once all is read.

        Args:
            found: there is an answer.
            has_place: the partition that must have it is among the inputs; a path that is missing was told as that.
        """
        if found:
            return
        self._doubt = True
        if has_place or self._missing:
            self._nothing = True
        else:
            self._incomplete = True

    def unreadable(self) -> None:
        """Something asked for could not be read."""
        self._incomplete = True

    def died(self, exception: str) -> None:
        """Kafka's tool dies: of a missing file, of one that it may not read, or of what is in it."""
        self.dead = True
        if exception.startswith("java.nio.file.NoSuchFileException"):
            self._missing = True
        elif exception.startswith("java.nio.file.AccessDeniedException"):
            self._incomplete = True
        else:
            self._errors = True

    @property
    def exit(self) -> Exit:
        """The exit status."""
        return combine(
            errors=self._errors,
            warnings=self._warnings,
            incomplete=self._incomplete,
            missing=self._missing,
            fail_on=self._fail_on,
            nothing=self._nothing,
            doubt=self._doubt,
        )
