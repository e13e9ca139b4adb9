"""The configuration file of a broker (server.properties), known by what is in it: its log directories."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.storage.file_source import OpenFailure
from kdump.storage.names import FileKind, parse_name
from kdump.storage.open_files import open_source
from kdump.storage.paths import is_dir, is_remote
from kdump.value import Value, pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST = 1024 * 1024  # bytes of one; they have some KB
_NAMES = "log.dirs", "log.dir"  # the first one that says something counts
_COMMA = pattern(r"\s*,\s*")


def log_dirs_of(settings: Mapping[str, str]) -> list[str]:
    """Return the log directories that settings of a broker name, as they are written there.

    Args:
        settings: texts by name.

    Source: AbstractKafkaConfig.logDirs, Csv.parseCsvList.
    """
    text = next((settings[name].strip() for name in _NAMES if settings.get(name, "").strip()), "")
    return [one for one in _COMMA.split(text) if one]


def metadata_dir_of(settings: Mapping[str, str]) -> str:
    """Return where settings of a broker have its metadata log; empty where they say nothing.

    Args:
        settings: texts by name.

    Source: AbstractKafkaConfig.metadataLogDir.
    """
    return settings.get("metadata.log.dir", "").strip() or next(iter(log_dirs_of(settings)), "")


class NodeSettings(Value):
    """The configuration of a node."""

    path: str  # of the file, as the user wrote it
    values: Mapping[str, str]  # texts by name

    @property
    def metadata_dir(self) -> str:
        """The directory that has its metadata log."""
        return self._resolved(metadata_dir_of(self.values))

    @property
    def directories(self) -> list[str]:
        """The directories that the node has, each once."""
        found: dict[str, str] = {}
        for one in (*map(self._resolved, log_dirs_of(self.values)), self.metadata_dir):
            found.setdefault(os.path.realpath(one), one)
        return list(found.values())

    @property
    def node(self) -> int | None:
        """Its node.id, None where that is no number."""
        text = self.values.get("node.id", self.values.get("broker.id", "")).strip()
        return int(text) if text.isascii() and text.isdigit() else None

    @property
    def runs_kraft(self) -> bool:
        """Whether it runs without ZooKeeper."""
        return bool(self.values.get("process.roles", "").strip())

    def _resolved(self, path: str) -> str:
        """A relative path begins where the node was started: where nothing is there, above the file's directory."""
        beside = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(self.path))), path)
        return beside if not path.startswith(os.sep) and not is_dir(path) and is_dir(beside) else path


def node_settings(path: str) -> NodeSettings | None:
    """Return the settings in a file; None where it is not the configuration of a broker or controller.

    Args:
        path: of any file; nothing but a regular one is opened.
    """
    name = parse_name(os.path.basename(path))
    if is_remote(path) or name.kind is not FileKind.UNKNOWN:
        return None
    source = open_source(path)
    if isinstance(source, OpenFailure):
        return None
    from kdump.format.checkpoint.properties import read_properties  # few name such a file

    with source:
        try:
            data = source.read_at(0, source.size) if source.size <= _MOST else b""
            settings = read_properties(data) if b"log.dir" in data else {}
        except (OSError, ValueError):
            return None
    return NodeSettings(path, settings) if log_dirs_of(settings) else None
