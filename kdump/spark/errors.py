"""The failures of Spark itself, as one line for the user. Nothing of Spark is imported here."""

from __future__ import annotations


class SparkMissingError(Exception):
    """A requirement of Spark is missing: one sentence, with the command that helps."""


class SparkFailedError(Exception):
    """A job has failed for a reason that is not in the files."""
