"""Paths that stand for others: the configuration of a broker for its directories, a stream for what comes from it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from kdump.storage.paths import is_remote, is_stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.storage.server_properties import NodeSettings

_SEVERAL = ("paths", "sources")  # parameters of a verb that take paths
_ONE = "path"
_OF_ALL = ("find-offset", "find-time")  # verbs of one path that answer for all directories of a node
_NODES, _OTHERS = "kdump.nodes", "kdump.paths"  # settings of nodes, and how many paths were named
_ALL = "kdump.directories"  # of the node whose configuration was named as the one path


def only_node() -> NodeSettings | None:
    """Return the settings of the node whose configuration is all that the user named; None where it is not."""
    context = click.get_current_context()
    nodes: list[NodeSettings] = context.meta.get(_NODES, [])
    return nodes[0] if len(nodes) == 1 and context.meta.get(_OTHERS, 0) == 1 else None


def resolve_inputs(given: dict[str, Any]) -> None:
    """Put in the place of configuration files what they name, and read streams.

    Args:
        given: the values of a verb's parameters; those with paths are changed, and `config` where nobody gave it.

    Raises:
        click.UsageError: a verb of one path is given a configuration with several directories.
    """
    if given.get("compat"):
        return
    for name in _SEVERAL:
        if isinstance(given.get(name), tuple):
            click.get_current_context().meta[_OTHERS] = len(given[name])
            given[name] = tuple(one for path in given[name] for one in _meant(os.fspath(path), given))
    if given.get(_ONE) is not None:
        found = list(_meant(os.fspath(given[_ONE]), given))
        context = click.get_current_context()
        if len(found) > 1 and context.info_name not in _OF_ALL:
            raise click.UsageError(f"{given[_ONE]} names {len(found)} directories: name one of {', '.join(found)}.")
        given[_ONE], context.meta[_ALL] = found[0], found


def all_directories(path: str) -> list[str]:
    """Return the directories of the node whose configuration was named as the one path; else the path.

    Args:
        path: as the verb has it.
    """
    found: list[str] = click.get_current_context().meta.get(_ALL, [path])
    return found


def _meant(path: str, given: dict[str, Any]) -> Iterator[str]:
    if is_remote(path) or os.path.isdir(path):
        yield path
        return
    if is_stream(path):
        from kdump.storage.streams import take_stream  # few name one

        take_stream(path)
        yield path
        return
    from kdump.storage.server_properties import node_settings

    settings = node_settings(path)
    if settings is None:
        yield path
        return
    if "config" in given and given["config"] is None:
        given["config"] = path
    click.get_current_context().meta.setdefault(_NODES, []).append(settings)
    yield from settings.directories
