"""Sizes as people type them."""

from __future__ import annotations

import click

from kdump.value import pattern

_SIZE = pattern(r"([0-9]{1,18})([KMGT]?)")


def size_of(option: str, text: str) -> int:
    """Return bytes, with K, M, G or T of 1024.

    Args:
        option: as the user wrote it.
        text: its value.

    Raises:
        click.UsageError: it is no size.
    """
    found = _SIZE.fullmatch(text.strip().upper())
    if found is None:
        raise click.UsageError(f"{option} wants a size in bytes, or with K, M, G or T: 500G, 2T")
    return int(found[1]) << 10 * " KMGT".index(found[2] or " ")
