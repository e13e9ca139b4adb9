"""The origin of rows: host, log directory, topic and partition, by a manifest and by the names of directories."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kdump.storage.file_source import OpenFailure
from kdump.storage.names import FileKind, parse_name, parse_partition
from kdump.storage.open_files import open_source
from kdump.storage.paths import normal, parent, relative_to
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MANIFESTS = (".csv", ".json", ".jsonl")
_MOST = 64 * 1024 * 1024  # bytes of a manifest
_PATH, _HOST, _LOG_DIR = ("path",), ("host",), ("log.dir", "logDir", "log_dir")


class ManifestError(ValueError):
    """A manifest cannot be used; the message is one line for the user."""


class Root(Value):
    """A path of the user, and what a manifest says of it."""

    path: str  # of a log directory, a partition directory or a file; or a pattern
    host: str | None = None  # whose it is
    log_dir: str | None = None  # what it is called there; None: as it is here


class Origin(Value):
    """The origin of the rows of a file; None for what is unknown."""

    host: str | None
    log_dir: str | None
    topic: str | None
    partition: int | None

    def columns(self) -> dict[str, object]:
        """Return the values of the columns that every table begins with."""
        return {"host": self.host, "logDir": self.log_dir, "topic": self.topic, "partition": self.partition}


class Origins:
    """Tells where files are from.

    Args:
        roots: what the user named.
    """

    def __init__(self, roots: Sequence[Root]) -> None:
        self._roots = {normal(root.path): root for root in roots}
        self._known: dict[str, Origin] = {}

    @property
    def names_hosts(self) -> bool:
        """Whether a manifest says whose something is."""
        return any(root.host is not None for root in self._roots.values())

    def of(self, path: str) -> Origin:
        """Return where a file is from, or a partition directory.

        Args:
            path: of it, below a root or a root itself.
        """
        name, is_root = os.path.basename(path), normal(path) in self._roots
        is_directory = parse_partition(name) is not None or (is_root and parse_name(name).kind is FileKind.UNKNOWN)
        directory = (path.rstrip(os.sep) or os.sep) if is_directory else os.path.dirname(path)
        begin = path if is_root else directory
        if begin not in self._known:
            self._known[begin] = self._look_up(directory, begin)
        return self._known[begin]

    def _look_up(self, directory: str, begin: str) -> Origin:
        name = parse_partition(os.path.basename(os.path.abspath(directory)))
        above = directory if name is None else parent(directory) or os.curdir
        root = next((self._roots[one] for one in _upwards(begin) if one in self._roots), Root(above))
        log_dir = above if root.log_dir is None else root.log_dir
        return Origin(
            root.host, printable(log_dir), *((printable(name.topic), name.partition) if name else (None,) * 2)
        )


def _upwards(path: str) -> Iterable[str]:
    """A directory and those above it."""
    path = normal(path)
    while True:
        yield path
        above = os.path.dirname(path)
        if above == path:
            return
        path = above


def printable(path: str) -> str:
    """Return a name as text columns have it: bytes that are not UTF-8 are written out."""
    return path if path.isascii() else os.fsencode(path).decode("utf-8", "backslashreplace")


def read_roots(paths: Iterable[str]) -> list[Root]:
    """Return what some paths stand for; manifests among them are read.

    A manifest is a file `*.csv` with a line of names, or `*.json` with an array of objects or an object a line; its
    columns are path, and as far as they are known host and log.dir. Relative paths in it begin where it lies.

    Args:
        paths: as the user wrote them.

    Raises:
        ManifestError: a manifest cannot be read.
    """
    roots: list[Root] = []
    for path in paths:
        if path.lower().endswith(_MANIFESTS):
            roots.extend(_manifest(path))
        else:
            roots.append(Root(path))
    return roots


def _manifest(path: str) -> list[Root]:
    source = open_source(path)
    if isinstance(source, OpenFailure):
        if source.missing:  # whoever reads the paths says so
            return [Root(path)]
        raise ManifestError(source.sentence)
    with source:
        data = source.read_at(0, _MOST)
    try:
        text = data.decode("utf-8-sig")
        rows = _table(text) if path.lower().endswith(".csv") else _objects(text)
    except ValueError as error:
        raise ManifestError(f"{path}: no manifest: {error}") from None
    except RecursionError:
        raise ManifestError(f"{path}: no manifest: nested too deep") from None
    roots = []
    for number, row in enumerate(rows, 1):
        place = _value(row, _PATH)
        if place is None:
            raise ManifestError(f"{path}: row {number} has no path; a manifest has the columns host, log.dir, path")
        if not _can_be_path(place):
            raise ManifestError(f"{path}: row {number} has a path that no file can have")
        roots.append(Root(relative_to(os.path.dirname(path), place), _value(row, _HOST), _value(row, _LOG_DIR)))
    return roots


def _can_be_path(place: str) -> bool:
    try:
        return b"\0" not in os.fsencode(place)
    except UnicodeEncodeError:
        return False


def _table(text: str) -> list[dict[str, Any]]:
    import csv
    import io

    try:
        return list(csv.DictReader(io.StringIO(text)))
    except csv.Error as error:
        raise ValueError(str(error)) from None


def _objects(text: str) -> list[dict[str, Any]]:
    import json

    found = json.loads(text) if text.lstrip().startswith("[") else [json.loads(one) for one in text.splitlines() if one]
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise ValueError("not a list of objects")
    return found


def _value(row: dict[str, Any], names: tuple[str, ...]) -> str | None:
    found = next((row[name] for name in names if row.get(name)), None)
    return None if found is None else str(found)
