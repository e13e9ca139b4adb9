"""The options of commands that keep tables night by night, and the store behind them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from kdump.cli.options.engine import refuse
from kdump.cli.options.guest import duration
from kdump.cli.options.help import option, options
from kdump.exit_status import Exit
from kdump.render.commentary import say
from kdump.value import pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kdump.export.nights import Night
    from kdump.export.origin import Root
    from kdump.export.tables import TableField

_USUAL = 30 * 86400.0  # seconds

nights_options = options(
    option(
        "--update",
        group="What is done",
        is_flag=True,
        help="Keep the tables in --to: read what is new or changed since the last run.",
    ),
    option(
        "--prune",
        group="What is done",
        is_flag=True,
        help="With --update: remove the rows of what is no longer there.",
    ),
    option(
        "--reread-after",
        group="What is done",
        callback=duration,
        metavar="DURATION",
        help="With --update: read again what was read before that, though nothing shows a change.  [default: 30d]",
    ),
)


host_option = option(
    "--host",
    group="What is done",
    metavar="NAME",
    help="Write below host=NAME/ in --to, so that several hosts share a directory.",
)
_HOST = pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


def below_host(given: dict[str, Any], directory: str | None, roots: Sequence[Root] | None) -> str | None:
    """Return where the tables of this host go; ends with a usage error where that is no name of one.

    Args:
        given: the values of the options.
        directory: that of --to; None where no tables are written.
        roots: what the paths stand for; None where no manifest is among them.
    """
    name = given["host"]
    if name is None:
        return directory
    if directory is None:
        raise click.UsageError("--host has a meaning with --to only.")
    if _HOST.fullmatch(name) is None:
        raise click.BadParameter("is not the name of a host", param_hint="--host")
    if any(root.host is not None for root in roots or ()):
        raise click.UsageError("--host is for the files of one host, and a manifest names others.")
    return os.path.join(directory, f"host={name}")


def without_host(columns: tuple[TableField, ...], given: dict[str, Any]) -> tuple[TableField, ...]:
    """Return columns without the host, where the name of a directory has it."""
    return tuple(one for one in columns if one.name != "host" or given["host"] is None)


def demand_update(given: dict[str, Any]) -> None:
    """End with a usage error where something is asked for that has a meaning with --update only, or none with it."""
    if not given["update"]:
        for name in ("prune", "reread_after"):
            if given[name]:
                raise click.UsageError(f"--{name.replace('_', '-')} has a meaning with --update only.")
    elif given["redact"] or given["redact_key"] is not None:
        raise click.UsageError("--update notes names and paths as they are, to know them again: not with --redact.")


def open_night(directory: str, asked: dict[str, object], given: dict[str, Any]) -> Night:
    """Return the store of a directory, held by this run; ends with one line where it cannot be had.

    Args:
        directory: where the tables lie.
        asked: what the user asked for, in JSON's types.
        given: the values of the options.
    """
    from kdump.export.nights import Night
    from kdump.nights.present import NotThisStoreError, Store, StoreHeldError

    try:
        store = Store(directory, asked, given["reread_after"] or _USUAL)
    except NotThisStoreError as error:
        refuse(str(error))
    except StoreHeldError as error:
        say(f"kdump: {error}")
        sys.exit(Exit.LOCKED)
    click.get_current_context().call_on_close(store.close)  # however the run ends
    return Night(store, prunes=given["prune"])


def say_night(night: Night) -> None:
    """Say where nothing was pruned though that was asked for."""
    if night.held_back:
        say("kdump: nothing was pruned: something could not be looked at, and may have what seems to be gone")
