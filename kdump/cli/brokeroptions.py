"""The options that say how a broker is configured, and what its clock says, for those who predict what it does."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from kdump.broker.config import Config
from kdump.broker.logdir import Settings
from kdump.find.query import Ask, time_query
from kdump.format.properties import read_properties
from kdump.log.source import DoorProblem, open_source

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST = 1 << 20  # bytes of a configuration file


def settings(given: Mapping[str, Any]) -> Settings:
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
            raise click.UsageError(f"--now: {error}") from None
        if query.ask is not Ask.TIME:
            raise click.UsageError(f"--now: '{given['now']}' is no time: ms since the epoch, or ISO 8601")
        now = query.number
    try:
        config = Config(_properties(given["config"]))
    except ValueError as error:
        raise click.UsageError(f"--config {given['config']}: {error}") from None
    return Settings(now, config, given["index_interval_bytes"])


def _properties(path: str | None) -> dict[str, str]:
    if path is None:
        return {}
    source = open_source(path)
    if isinstance(source, DoorProblem):
        raise click.UsageError(f"--config: {source.sentence}")
    with source:
        if source.size > _MOST:
            raise click.UsageError(f"--config: {path}: has {source.size} bytes; a configuration has at most {_MOST}")
        try:
            return read_properties(source.read_at(0, source.size))
        except OSError as error:
            raise click.UsageError(f"--config: {path}: cannot be read: {error.strerror}") from None
