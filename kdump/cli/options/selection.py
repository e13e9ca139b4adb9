"""Options of dump that select batches and records."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from kdump.cli.options.times import time_of
from kdump.format.java_values import MAX_INT, MAX_LONG
from kdump.render.escape import escape
from kdump.words.command import ShellCommand

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Mapping

    from kdump.dump.selection import Selection

_LONG = click.IntRange(min=0)
_COUNT = click.IntRange(min=1)


_OPTIONS = (
    click.option("--from-offset", type=_LONG, metavar="N", help="Only what is at or after this offset."),
    click.option("--to-offset", type=_LONG, metavar="N", help="Only what is before this offset."),
    click.option("--from-time", metavar="TIME", help="Only what is at or after this time: 2026-11-21, 10:00, now-2h."),
    click.option("--to-time", metavar="TIME", help="Only what is before this time."),
    click.option("--from-position", type=_LONG, metavar="N", help="Only batches that begin at byte N or after."),
    click.option("--limit", type=_COUNT, metavar="N", help="Show N records, then stop."),
    click.option("--tail", type=_COUNT, metavar="N", help="Show the last N records of each partition."),
    click.option("--key", "keys", multiple=True, metavar="KEY", help="Only records with this key."),
    click.option("--key-regex", "patterns", multiple=True, metavar="REGEX", help="Only records whose key has a match."),
    click.option(
        "--value-regex", "value_patterns", multiple=True, metavar="REGEX", help="Only records whose value has a match."
    ),
    click.option("--header", "headers", multiple=True, metavar="NAME[=VALUE]", help="Only records with this header."),
    click.option(
        "--producer-id", "producers", type=click.IntRange(-1, MAX_LONG), multiple=True, metavar="N",
        help="Only batches of this producer.",
    ),
    click.option(
        "--leader-epoch", "epochs", type=click.IntRange(-1, MAX_INT), multiple=True, metavar="N",
        help="Only batches of this leader epoch.",
    ),
    click.option("--control", is_flag=True, help="Only control batches."),
    click.option("--transactional", is_flag=True, help="Only batches that are part of a transaction."),
    click.option("--tombstones", is_flag=True, help="Only records whose value is null."),
    click.option("--committed", is_flag=True, help="Only what a consumer with isolation.level=read_committed gets."),
    click.option("--aborted", is_flag=True, help="Only records of aborted transactions."),
)  # fmt: skip


def selection_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


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
    if given["patterns"]:
        fields["patterns"] = tuple(_read("--key-regex", _compiled, pattern) for pattern in given["patterns"])
    if given["value_patterns"]:
        fields["value_patterns"] = tuple(_read("--value-regex", _compiled, one) for one in given["value_patterns"])
    if given["headers"]:
        fields["headers"] = tuple(_header(header) for header in given["headers"])
    if not fields:
        return None
    from kdump.dump.selection import Selection

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
    from kdump.dump.selection import Selection

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
    for name, option in (("from_time", "--from-time"), ("to_time", "--to-time")):
        if given[name] is not None:
            fields[name] = time_of(option, given[name], quiet=bool(given.get("quiet")))
    if fields:
        from kdump.dump.selection import contradiction

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


def _compiled(text: str) -> re.Pattern[str]:
    import re
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what a later Python may read otherwise
            return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"'{text}' is not a valid regular expression: {error}") from None


def _header(text: str) -> tuple[bytes, bytes | None]:
    name, given, value = text.partition("=")
    return os.fsencode(name), os.fsencode(value) if given else None
