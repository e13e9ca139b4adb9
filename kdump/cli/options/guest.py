"""The options of commands that read where a broker is at work, and how rates and spans of time are written."""

from __future__ import annotations

import re
from typing import Any

import click

from kdump.cli.options.help import option, options

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_POWERS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3}
_DIGITS = r"([0-9]{1,9}(?:\.[0-9]{1,3})?)"


def duration(_ctx: click.Context, _param: click.Parameter, value: str | None) -> float | None:
    """Return the seconds of a span of time, as a callback of click: 90, 90s, 5m, 2h, 30d."""
    if value is None:
        return None
    found = re.fullmatch(_DIGITS + "([smhd]?)", value)
    if found is None or not float(found[1]):
        raise click.BadParameter(f"'{value}' is not a span of time: 90, 90s, 5m, 2h or 30d")
    return float(found[1]) * _UNITS[found[2]]


def rate(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    """Return the bytes a second of a rate, as a callback of click: k, M and G are powers of 1000."""
    if value is None:
        return None
    found = re.fullmatch(_DIGITS + "([kKmMgG]?)", value)
    size = 0 if found is None else int(float(found[1]) * _POWERS[found[2].lower()])
    if not size:
        raise click.BadParameter(f"'{value}' is not a rate: bytes a second, as 500k, 50M or 1G")
    return size


guest_options = options(
    option(
        "--max-rate",
        group="What is checked",
        callback=rate,
        metavar="RATE",
        help="Most bytes to read in a second, by all processes together: 50M.",
    ),
    option(
        "--drop-cache",
        group="What is checked",
        is_flag=True,
        help="Leave the page cache as it is: what it did not hold before is dropped again.",
    ),
)


def throttle_reads(given: dict[str, Any], *, always: bool = False) -> None:
    """Read as the options say from now on; as a guest the disk is read when nobody else does.

    Args:
        given: the values of the options.
        always: as a guest without them too.
    """
    if given["max_rate"] is not None or given["drop_cache"] or always:
        from kdump.storage.guest import be

        be(rate=given["max_rate"], keeps_cache=given["drop_cache"], idle=True)
