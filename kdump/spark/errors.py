"""The failures of Spark itself, as one line for the user. Nothing of Spark is imported here."""

from __future__ import annotations

import re

from kdump.value import pattern

_TRACEBACK = pattern(r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*(\S.*)")
_NO_PYTHON = pattern(r"Error from python worker:\s*\n(?:.*\n)*?\s*(\S.*)\nPYTHONPATH was:")
NO_KDUMP = pattern(r"No module named '?kdump\b")
_JAVA = pattern(r"^: (\S.*)", re.MULTILINE)


class SparkMissingError(Exception):
    """A requirement of Spark is missing: one sentence, with the command that helps."""


class SparkFailedError(Exception):
    """A job has failed for a reason that is not in the files."""


class UnreadError(Exception):
    """A file that the plan has cannot be opened where the work is done: one sentence."""


def reason_of(text: str) -> str:
    """Return the line that says why, of the many in which Spark tells that a job has failed.

    Args:
        text: of the exception: the exception of a Python worker stands in it, with its traceback; else what Python said
            that did not start; else the exception of the JVM is the reason.

    Returns:
        The line; the first of the text where there is none of these, which may be empty.
    """
    for reason in (_TRACEBACK, _NO_PYTHON, _JAVA):
        found = reason.findall(text)
        if found:
            return str(found[-1]).strip()
    return text.strip().partition("\n")[0]
