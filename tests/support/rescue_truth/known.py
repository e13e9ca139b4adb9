"""Kinds of faults that are known, each with the row of what is right that it breaks: a kind that holds again goes."""

from __future__ import annotations

KNOWN: dict[str, str] = {}
