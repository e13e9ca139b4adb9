"""Why something is not decoded."""

from __future__ import annotations


class SchemaError(Exception):
    """A schema cannot be read; the message says why."""


class UnfitError(Exception):
    """Bytes are no value of a schema; the message says why, without a word of theirs."""
