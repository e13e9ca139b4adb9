"""Options for the settings and the clock of a broker: --config, --set and --now."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from kdump.broker.config import DEFAULTS, ClusterSettings, Config, check_name, read_config
from kdump.broker.load.log_manager import LoadSettings
from kdump.cli.options.times import clock_of
from kdump.render.commentary import say
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
    now = clock_of("--now", given["now"], quiet=bool(given.get("quiet")))
    try:
        config = Config(properties_of(given["config"]))
    except ValueError as error:
        raise click.UsageError(escape(f"--config {given['config']}: {error}")) from None
    return LoadSettings(now, config, given["index_interval_bytes"])


def configured(given: Mapping[str, Any]) -> Config:
    """Return the configuration that --config and --set say.

    Args:
        given: values of both; the settings of --set as `settings`; the paths, and the limits of what is read.

    Raises:
        click.UsageError: one of them cannot be used.
    """
    values = properties_of(given["config"])
    try:
        Config(values)
    except ValueError as error:
        raise click.UsageError(escape(f"--config {given['config']}: {error}")) from None
    firm: set[str] = set()
    try:
        for text in given["settings"]:
            name, equals, value = text.partition("=")
            if not equals:
                raise ValueError(f"--set wants NAME=VALUE, not '{text}'")
            check_name(name.strip())
            values[name.strip()] = value
            firm.add(name.strip())
        return Config(values, frozenset(firm)).within(cluster_of(given))
    except ValueError as error:
        raise click.UsageError(escape(str(error))) from None


def say_defaults(config: Config, verb: str, *, always: bool = False) -> None:
    """Say where an answer hangs on settings that nobody gave, and how to give them.

    Args:
        config: as it was given.
        verb: that answers.
        always: the answer itself does not say so; else it is said where a person looks.
    """
    if config.is_silent and (always or sys.stdout.isatty() or sys.stderr.isatty()):
        how = "give others by --config or --set, or name __cluster_metadata-0 among the paths"
        say(f"kdump: {verb}: the settings of topics are not in their files. {DEFAULTS}; {how}")


def cluster_of(given: Mapping[str, Any]) -> ClusterSettings | None:
    """Return what a metadata log among the paths says of configurations, None where there is none.

    Args:
        given: the paths, and the limits of what is read.
    """
    from kdump.format.read_limits import ReadLimits
    from kdump.state.cluster_config import cluster_settings

    limits = ReadLimits(given["max_batch_bytes"], given["max_uncompressed_bytes"])
    return cluster_settings([os.fspath(path) for path in given["paths"]], limits)


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
