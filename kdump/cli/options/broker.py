"""Options for the settings and the clock of a broker: --config, --set and --now.

The settings, and the model of the broker, are loaded where somebody gives or asks for them: verify seldom needs them.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from kdump.cli.options.common import limits_of
from kdump.render.commentary import say
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import METADATA_LOG
from kdump.storage.open_files import open_source
from kdump.words.escape import escape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kdump.broker.clusters import TopicPolicies
    from kdump.broker.config import ClusterSettings, Config
    from kdump.broker.load.log_manager import LoadSettings


def settings(given: Mapping[str, Any], config: Config | None = None) -> LoadSettings:
    """Return what decides besides the files.

    Args:
        given: values of --config, --now and --index-interval-bytes.
        config: the settings; None for those of --config alone.

    Raises:
        click.UsageError: one of them cannot be used.
    """
    from kdump.broker.load.log_manager import LoadSettings
    from kdump.cli.options.times import clock_of

    now = clock_of("--now", given["now"], quiet=bool(given.get("quiet")))
    config = given_config({**given, "settings": ()}) if config is None else config
    return LoadSettings(now, config, given["index_interval_bytes"])


def given_config(given: Mapping[str, Any]) -> Config:
    """Return the configuration that --config, --set and --broker say, without what metadata logs do.

    Args:
        given: values of them; the settings of --set as `settings`.

    Raises:
        click.UsageError: one of them cannot be used.
    """
    from kdump.broker.config import Config, check_name

    values = properties_of(given["config"])
    try:
        Config(values)
    except ValueError as error:
        raise click.UsageError(escape(f"--config {given['config']}: {_said(error, given)}")) from None
    firm: set[str] = set()
    try:
        for text in given["settings"]:
            name, equals, value = text.partition("=")
            if not equals:
                raise ValueError(f"--set wants NAME=VALUE, not '{text}'")
            check_name(name.strip())
            values[name.strip()] = value
            firm.add(name.strip())
        release = given.get("broker")
        return Config(values, frozenset(firm), has_file=given["config"] is not None, release=release)
    except ValueError as error:
        raise click.UsageError(escape(str(error))) from None


def _said(error: ValueError, given: Mapping[str, Any]) -> str:
    """What is wrong with a file of settings; without the value where nothing of it may be seen."""
    is_hidden = given.get("redact") or given.get("redact_key") is not None
    return getattr(error, "hidden", str(error)) if is_hidden else str(error)


def configured(given: Mapping[str, Any]) -> Config:
    """Return the configuration that --config and --set say, and metadata logs at hand.

    Args:
        given: values of both; the settings of --set as `settings`; the paths, and the limits of what is read.

    Raises:
        click.UsageError: one of them cannot be used.
    """
    return given_config(given).within(clusters_of(given))


def topic_policies(given: Mapping[str, Any], paths: Sequence[str]) -> TopicPolicies:
    """Return what is known of the cleanup.policy of topics; metadata logs at hand are read when that is asked for.

    Args:
        given: values of --config, --set as `settings`, and the limits of what is read.
        paths: of the user.

    Raises:
        click.UsageError: one of them cannot be used.
    """
    from kdump.broker.clusters import TopicPolicies

    limits = limits_of(given)
    where = [*map(os.fspath, paths), *_metadata_dir(properties_of(given["config"]))]
    is_given = given["config"] is not None or given["settings"]
    return TopicPolicies(where, limits, given_config(given) if is_given else None)


def say_defaults(config: Config, verb: str, *, always: bool = False) -> None:
    """Say where an answer hangs on settings that nobody gave, and how to give them.

    Args:
        config: as it was given.
        verb: that answers.
        always: the answer itself does not say so; else it is said where a person looks.
    """
    if config.is_silent and (always or sys.stdout.isatty() or sys.stderr.isatty()):
        from kdump.broker.config import DEFAULTS

        how = "give them by --config or --set, or name __cluster_metadata-0 among the paths"
        say(f"kdump: {verb}: the settings of topics are not in their files. {DEFAULTS}; {how}")


def clusters_of(given: Mapping[str, Any]) -> Sequence[ClusterSettings]:
    """Return what metadata logs say: those among the paths, beside them, and where --config says that the log lies.

    Args:
        given: the paths, the value of --config, and the limits of what is read.
    """
    from kdump.broker.clusters import cluster_settings

    limits = limits_of(given)
    return cluster_settings([*map(os.fspath, given["paths"]), *_metadata_dir(properties_of(given["config"]))], limits)


def _metadata_dir(config: Mapping[str, str]) -> list[str]:
    """Return where the settings of a broker have its metadata log, where that is a directory here."""
    from kdump.storage.server_properties import metadata_dir_of

    first = metadata_dir_of(config)
    return [first] if first and os.path.isdir(os.path.join(first, METADATA_LOG)) else []


def properties_of(path: str | None) -> dict[str, str]:
    """Return the settings in a file, by name.

    Args:
        path: of the file; None for none.

    Raises:
        click.UsageError: it cannot be used.
    """
    if path is None:
        return {}
    from kdump.broker.config import read_config

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
