"""What the exit status says. Scripts rely on it: numbers are only ever added."""

from __future__ import annotations

from enum import IntEnum, unique


@unique
class Exit(IntEnum):
    """Exit codes; `combine` tells which one wins."""

    OK = 0
    BUG = 1
    USAGE = 2
    ERRORS = 3
    WARNINGS = 4
    INCOMPLETE = 5
    ERRORS_AND_INCOMPLETE = 6
    PENDING = 7
    NOT_FOUND = 10
    LOCKED = 11
    REFUSED = 12
    FAILED = 13
    PART_WAY = 14


def combine(*, errors: bool, warnings: bool, incomplete: bool, missing: bool, fail_on: str) -> Exit:
    """Return the one exit code for all that was seen.

    Args:
        errors, warnings: findings of that severity.
        incomplete: something asked for could not be read, or was over a limit.
        missing: an input path does not exist.
        fail_on: error, warning or never.
    """
    errors = errors and fail_on != "never"
    if errors and incomplete:
        return Exit.ERRORS_AND_INCOMPLETE
    if incomplete:
        return Exit.INCOMPLETE
    if errors:
        return Exit.ERRORS
    if missing:
        return Exit.NOT_FOUND
    if warnings and fail_on == "warning":
        return Exit.WARNINGS
    return Exit.OK
