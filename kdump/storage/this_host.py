"""What of a broker is on this host: the configuration of one that runs, and what lies in the usual places."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from kdump.storage.log_dir import is_log_dir
from kdump.storage.server_properties import node_settings
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAIN = b"kafka.Kafka"  # the class that a broker or controller runs; its first argument is the configuration
_MOST = 1 << 20  # bytes of a command line
CONFIGURATIONS = (
    "/etc/kafka/*.properties",
    "/etc/kafka/kraft/*.properties",
    "/etc/kafka/docker/*.properties",
    "/etc/confluent/kafka/*.properties",
    "/opt/kafka*/config/*.properties",
    "/opt/kafka*/config/kraft/*.properties",
    "/opt/bitnami/kafka/config/*.properties",
    "/usr/local/kafka*/config/*.properties",
    "/usr/local/etc/kafka/*.properties",
    "/opt/homebrew/etc/kafka/*.properties",
    "/usr/hdp/current/kafka-broker/conf/*.properties",
    "/tmp/strimzi.properties",
)
"""Where packages and images put the configuration of a broker."""
LOG_DIRECTORIES = (
    "/var/lib/kafka",
    "/var/lib/kafka/*",
    "/var/lib/kafka/data*/*",
    "/bitnami/kafka/data",
    "/var/kafka-logs",
    "/kafka-logs*",
    "/kafka*/*",
    "/data/kafka*",
    "/data*/kafka*/*",
    "/mnt/kafka*",
    "/tmp/kafka-logs",
    "/tmp/kraft-combined-logs",
    "/usr/local/var/lib/kafka-logs",
    "/opt/homebrew/var/lib/kafka-logs",
)
"""Where log directories lie as a rule."""


class FoundBroker(Value):
    """A configuration, or a log directory that no configuration found here names."""

    path: str
    process: int | None = None  # of the broker that was started with it; None where none runs with it
    directories: tuple[str, ...] = ()  # that the configuration names


def brokers_here(proc: str = "/proc", root: str = "/") -> list[FoundBroker]:
    """Return what is found, what runs first, each once.

    Args:
        proc: where the system shows its processes.
        root: the directory that the usual places lie in.
    """
    found: dict[str, FoundBroker] = {}
    for process, path in _running(proc):
        _add(found, path, process)
    for pattern in CONFIGURATIONS:
        for path in _sorted(root, pattern):
            _add(found, path, None)
    named = {os.path.realpath(one) for broker in found.values() for one in broker.directories}
    for pattern in LOG_DIRECTORIES:
        for path in _sorted(root, pattern):
            real = os.path.realpath(path)
            if real not in named and _is_dir(path) and is_log_dir(path):
                named.add(real)
                found[real] = FoundBroker(path)
    return list(found.values())


def _add(found: dict[str, FoundBroker], path: str, process: int | None) -> None:
    real = os.path.realpath(path)
    settings = None if real in found else node_settings(path)
    if settings is not None:
        found[real] = FoundBroker(path, process, tuple(settings.directories))


def _running(proc: str) -> Iterator[tuple[int, str]]:
    """Yield the processes of brokers, and the paths of their configurations, as this process reaches them."""
    try:
        names = sorted((int(name) for name in os.listdir(proc) if name.isdigit()), reverse=True)
    except OSError:
        return
    for process in names:
        try:
            with Path(f"{proc}/{process}/cmdline").open("rb") as file:
                words = file.read(_MOST).split(b"\0")
        except OSError:  # it has ended, or is somebody else's
            continue
        at = words.index(_MAIN) + 1 if _MAIN in words else len(words)
        given = next((os.fsdecode(word) for word in words[at:] if word and not word.startswith(b"-")), None)
        if given is None:
            continue
        where = given
        if not given.startswith("/"):
            where = os.path.join(os.path.realpath(f"{proc}/{process}/cwd"), given)
        inside = f"{proc}/{process}/root{where}"  # of a container
        yield process, where if os.path.exists(where) or not os.path.exists(inside) else inside


def _sorted(root: str, pattern: str) -> list[str]:
    try:
        return sorted(map(str, Path(root).glob(pattern.lstrip("/"))))
    except OSError:  # a directory on the way is somebody else's
        return []


def _is_dir(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except OSError:
        return False
