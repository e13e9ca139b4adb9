"""Options for the settings and the clock of a broker: --config, --set and --now."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from kdump.broker.config import Config, read_config
from kdump.broker.load.log_manager import LoadSettings
from kdump.find.query import Ask, time_query
from kdump.render.escape import escape
from kdump.storage.file_source import OpenFailure
from kdump.storage.open_files import open_source

if TYPE_CHECKING:
    from collections.abc import Mapping


def settings(given: Mapping[str, Any]) -> LoadSettings:
    """Return what decides besides the files.

    Args:
        given: values of --config, --now and --index-interval-bytes.

    Raises:
        click.UsageError: one of them cannot be used.
    """
    now = time.time_ns() // 1_000_000
    if given["now"] is not None:
        try:
            query = time_query(given["now"], now)
        except ValueError as error:
            raise click.UsageError(escape(f"--now: {error}")) from None
        if query.ask is not Ask.TIME:
            raise click.UsageError(
                f"--now: '{escape(given['now'])}' is not a valid time: ms since the epoch, or ISO 8601"
            )
        now = query.number
    try:
        config = Config(properties_of(given["config"]))
    except ValueError as error:
        raise click.UsageError(escape(f"--config {given['config']}: {error}")) from None
    return LoadSettings(now, config, given["index_interval_bytes"])


def properties_of(path: str | None) -> dict[str, str]:
    """Return the settings in a file, by name.

    Args:
        path: of the file; None for none.

    Raises:
        click.UsageError: it cannot be used.
    """
    if path is None:
        return {}
    source = open_source(path)
    if isinstance(source, OpenFailure):
        raise click.UsageError(escape(f"--config: {source.sentence}"))
    with source:
        try:
            return read_config(source)
        except OSError as error:
            raise click.UsageError(escape(f"--config: {path}: cannot be read: {error.strerror}")) from None
        except ValueError as error:
            raise click.UsageError(escape(f"--config: {path}: {error}")) from None
