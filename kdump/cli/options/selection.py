"""Options of dump that select batches and records."""

from __future__ import annotations

import os
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kdump.cli.options.help import option, options
from kdump.cli.options.sizes import size_of
from kdump.cli.options.times import time_of
from kdump.format.java_values import MAX_INT, MAX_LONG
from kdump.words.command import ShellCommand
from kdump.words.escape import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kdump.format.record.selection import Selection

_LONG = click.IntRange(min=0)
_COUNT = click.IntRange(min=1)

_select = partial(option, group="Selection")
selection_options = options(
    _select("--from-offset", type=_LONG, metavar="N", help="Only what is at or after this offset."),
    _select("--to-offset", type=_LONG, metavar="N", help="Only what is before this offset."),
    _select("--from-time", metavar="TIME", help="Only what is at or after this time: 2026-11-21, 10:00, now-2h."),
    _select("--to-time", metavar="TIME", help="Only what is before this time."),
    option(
        "--from-position", group="Input", type=_LONG, metavar="N", help="Only batches that begin at byte N or after."
    ),
    _select("--limit", type=_COUNT, metavar="N", help="Show N records, then stop."),
    _select("--tail", type=_COUNT, metavar="N", help="Show the last N records of each partition."),
    _select("--key", "keys", multiple=True, metavar="KEY", help="Only records with this key."),
    _select("--key-regex", "patterns", multiple=True, metavar="REGEX", help="Only records whose key has a match."),
    _select(
        "--value-regex", "value_patterns", multiple=True, metavar="REGEX", help="Only records whose value has a match."
    ),
    _select(
        "--header", "headers", multiple=True, metavar="NAME[=VALUE]",
        help="Only records with this header; a number also as 2, 4 or 8 bytes, 0x... as bytes.",
    ),
    _select("--min-size", metavar="SIZE", help="Only records whose key and value have so many bytes or more: 1M."),
    _select("--max-size", metavar="SIZE", help="Only records whose key and value have so many bytes or fewer."),
    _select(
        "--producer-id", "producers", type=click.IntRange(-1, MAX_LONG), multiple=True, metavar="N",
        help="Only batches of this producer.",
    ),
    _select(
        "--leader-epoch", "epochs", type=click.IntRange(-1, MAX_INT), multiple=True, metavar="N",
        help="Only batches of this leader epoch.",
    ),
    _select("--control", is_flag=True, help="Only control batches."),
    _select("--transactional", is_flag=True, help="Only batches that are part of a transaction."),
    _select("--tombstones", is_flag=True, help="Only records whose value is null."),
    _select("--committed", is_flag=True, help="Only what a read_committed consumer gets, or will get."),
    _select("--aborted", is_flag=True, help="Only records of aborted transactions."),
)  # fmt: skip


def selection_of(given: Mapping[str, Any], read_key: Callable[[str], bytes]) -> Selection | None:
    """Return what the options of the command line select, None for all.

    Args:
        given: their values.
        read_key: makes bytes of a key; ValueError when it is none.

    Raises:
        click.UsageError: they contradict each other, or one is not what it must be.
    """
    if given["committed"] and given["aborted"]:
        raise click.UsageError("--committed and --aborted exclude each other.")
    fields = _bounds(given)
    if given["committed"] or given["aborted"]:
        fields["outcome"] = "committed" if given["committed"] else "aborted"
    if given["keys"]:
        fields["keys"] = tuple(_read("--key", read_key, key) for key in given["keys"])
    if given["patterns"] or given["value_patterns"]:
        from kdump.format.record.selection import compiled  # few runs select by it

        for name, written in (("patterns", "--key-regex"), ("value_patterns", "--value-regex")):
            if given[name]:
                fields[name] = tuple(_read(written, compiled, pattern) for pattern in given[name])
    if given["headers"]:
        fields["headers"] = tuple(one for header in given["headers"] for one in _header(header))
    if not fields:
        return None
    from kdump.format.record.selection import Selection

    return Selection(**fields)


def records_asked_for(given: Mapping[str, Any]) -> str:
    """Return the options that ask for single records, as the user gave them; empty for none."""
    named = (
        ("--key", "keys"), ("--key-regex", "patterns"), ("--value-regex", "value_patterns"), ("--header", "headers")
    )  # fmt: skip
    words = [word for option, name in named for value in given[name] for word in (option, value)]
    return ShellCommand(*words, *(["--tombstones"] if given["tombstones"] else []))


def everything() -> Selection:
    """Return a selection of all that a log has."""
    from kdump.format.record.selection import Selection

    return Selection()


def _bounds(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are numbers, times and flags."""
    fields: dict[str, Any] = {
        name: given[name]
        for name in (
            "from_offset", "to_offset", "from_position", "limit", "tail", "producers", "epochs", "control",
            "transactional", "tombstones",
        )
        if given[name] or _is_zero(given[name])
    }  # fmt: skip
    for name in ("from_offset", "to_offset", "from_position", "limit", "tail"):
        if name in fields:
            fields[name] = min(fields[name], MAX_LONG)  # nothing is above it
    for name, written in (("min_size", "--min-size"), ("max_size", "--max-size")):
        if given.get(name) is not None:
            fields[name] = size_of(written, given[name])
    for name, written in (("from_time", "--from-time"), ("to_time", "--to-time")):
        if given[name] is not None:
            fields[name] = time_of(written, given[name], quiet=bool(given.get("quiet")))
    if fields:
        from kdump.format.record.selection import contradiction

        why = contradiction(fields, lambda name: f"--{name.replace('_', '-')}")
        if why is not None:
            raise click.UsageError(f"{why}.")
    return fields


def _is_zero(value: object) -> bool:
    """Whether it is the number: an end of 0 leaves nothing, no end leaves all."""
    return value == 0 and value is not False


def _read(option: str, read: Callable[[str], Any], text: str) -> Any:  # noqa: ANN401 (what `read` returns)
    try:
        return read(text)
    except ValueError as error:
        raise click.UsageError(f"{option}: {escape(str(error))}") from None


def _header(text: str) -> list[tuple[bytes, bytes | None]]:
    """The header that a text names, with each value that it may stand for."""
    name, given, value = text.partition("=")
    if not given:
        return [(os.fsencode(name), None)]
    return [(os.fsencode(name), one) for one in header_values(value)]


def header_values(text: str) -> list[bytes]:
    """Return the values that a text stands for: itself, the big-endian bytes of a number, the bytes of 0x...

    Args:
        text: as the user wrote it.
    """
    found = [os.fsencode(text)]
    if re.fullmatch(r"0[xX](?:[0-9a-fA-F]{2})+", text):
        found.append(bytes.fromhex(text[2:]))
    elif re.fullmatch(r"-?[0-9]{1,20}", text):
        number = int(text)
        for size in _WIDTHS:
            if -(1 << 8 * size - 1) <= number < 1 << 8 * size:
                found.append((number & ((1 << 8 * size) - 1)).to_bytes(size, "big"))
    return found


_WIDTHS = (2, 4, 8)  # bytes of short, int and long
