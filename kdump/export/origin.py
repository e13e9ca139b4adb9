"""The origin of rows: whose they are and where they lie, by meta.properties, manifests and names of directories."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kdump.format.java_values import MAX_INT, MAX_LONG, MIN_LONG
from kdump.nights.known import KnownPlace
from kdump.storage.file_source import OpenFailure, first_line
from kdump.storage.json_rules import BadValueError, an_object, array_in, bounded, number, parsed, text
from kdump.storage.names import FileKind, parse_name, parse_partition
from kdump.storage.open_files import open_source
from kdump.storage.partition_dir import InputDirectory
from kdump.storage.paths import normal, parent, relative_to
from kdump.storage.sighting import LogDirs
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_MANIFESTS = (".csv", ".json", ".jsonl")
_MOST = 16 * 1024 * 1024  # bytes of a manifest
_MOST_ROWS = 250_000
_MOST_CELL = 4096  # bytes: as long as a path can be
_MARK = b"\xef\xbb\xbf"  # some programs write it at the beginning of UTF-8
_PATH, _HOST, _LOG_DIR = ("path",), ("host",), ("log.dir", "logDir", "log_dir")
_PLACE = ("cluster", "broker", "host", "logDir", "topic", "partition")
_CLUSTER, _BROKER = ("cluster", "cluster.id"), ("broker", "node.id", "broker.id")


class ManifestError(ValueError):
    """A manifest cannot be used; the message is one line for the user."""


class Root(Value):
    """A path of the user, and what a manifest says of it."""

    path: str  # of a log directory, a partition directory or a file; or a pattern
    host: str | None = None  # whose it is
    log_dir: str | None = None  # what it is called there; None: as it is here
    # cluster, broker: whose it is, where its meta.properties does not say it
    cluster: str | None = None
    broker: int | None = None


class Origin(Value):
    """The origin of the rows of a file; None for what is unknown."""

    cluster: str | None
    broker: int | None
    host: str | None
    log_dir: str | None
    topic: str | None
    partition: int | None

    def columns(self) -> dict[str, object]:
        """Return the values of the columns that every table begins with."""
        return {
            "cluster": self.cluster,
            "broker": self.broker,
            "host": self.host,
            "logDir": self.log_dir,
            "topic": self.topic,
            "partition": self.partition,
        }


class Origins:
    """Tells where files are from.

    It goes to the tasks of Spark as it is where the work is planned: what log directories say, and what the paths of
    the user are, is decided there. A task may see another disk, or none.

    Args:
        roots: what the user named.

    Attributes:
        log_dirs: what log directories say where the work is planned.
    """

    def __init__(self, roots: Sequence[Root]) -> None:
        self.log_dirs = LogDirs()
        self._roots = {normal(root.path): root for root in roots}
        self._known: dict[str, Origin] = {}
        self._ids: dict[tuple[object, ...], str | None] = {}  # of log directories, by what rows say of them

    def __getstate__(self) -> dict[str, Any]:
        """All but what follows from the rest, for each of a million partitions perhaps."""
        return {**vars(self), "_known": {root.path: self.of(root.path) for root in self._roots.values()}}

    @property
    def names_hosts(self) -> bool:
        """Whether a manifest says whose something is."""
        return any(root.host is not None for root in self._roots.values())

    def of(self, path: str) -> Origin:
        """Return where a file is from, or a partition directory.

        Args:
            path: of it, below a root or a root itself.
        """
        directory = self.directory_of(path)
        begin = path if normal(path) in self._roots else directory
        if begin not in self._known:
            self._known[begin] = self._look_up(directory, begin)
        return self._known[begin]

    def directory_of(self, path: str) -> str:
        """Return the partition directory or log directory that a file is in, or that a path is.

        Args:
            path: as `of` takes it.
        """
        name, is_root = os.path.basename(path), normal(path) in self._roots
        is_directory = parse_partition(name) is not None or (is_root and parse_name(name).kind is FileKind.UNKNOWN)
        return (path.rstrip(os.sep) or os.sep) if is_directory else os.path.dirname(path)

    def _look_up(self, directory: str, begin: str) -> Origin:
        name = parse_partition(os.path.basename(os.path.abspath(directory)))
        if name is not None and normal(directory) in self._roots and InputDirectory(directory).is_log_dir:
            name = None  # /disks/kafka-0
        above = directory if name is None else parent(directory) or os.curdir
        root = next((self._roots[one] for one in _upwards(begin) if one in self._roots), Root(above))
        log_dir = above if root.log_dir is None else root.log_dir
        said = self.log_dirs.of(above)
        cluster = root.cluster if said.cluster is None else printable(said.cluster)
        broker = root.broker if said.broker is None else said.broker
        own = (printable(name.topic), name.partition) if name else (None, None)
        found = Origin(cluster, broker, root.host, printable(log_dir), *own)
        self._ids[found.cluster, found.broker, found.host, found.log_dir] = said.directory_id
        return found

    def place(self, row: Mapping[str, object]) -> KnownPlace:
        """Return where a row is from, by what stays when a disk is mounted elsewhere.

        Args:
            row: of a table, or the columns of an origin that was asked for here.
        """
        cluster, broker, host, log_dir, topic, partition = (row[one] for one in _PLACE)
        own = self._ids.get((cluster, broker, host, log_dir))
        return KnownPlace(cluster, own, host, log_dir, topic, partition)  # type: ignore[arg-type]


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
    if path.isascii():
        return path
    try:
        return os.fsencode(path).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # half of a character, as \\ud800 in a meta.properties
        return path.encode("utf-8", "backslashreplace").decode()


def read_roots(paths: Iterable[str]) -> list[Root]:
    """Return what some paths stand for; manifests among them are read.

    A manifest is a file `*.csv` with a line of names, or `*.json` with an array of objects or an object a line; its
    columns are path, and as far as they are known host, log.dir, cluster and broker. Relative paths in it begin where
    it lies.

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
    roots: list[Root] = []
    try:
        with source:
            if source.size > _MOST:
                raise BadValueError("all of it", f"has {source.size} bytes, and may have {_MOST}: make several of it")
            data = bounded(source.read_at(0, _MOST))
        for number, row in enumerate(_rows(path, data), 1):
            if number > _MOST_ROWS:
                raise BadValueError("all of it", f"has more than {_MOST_ROWS} rows: make several of it")
            where, host, log_dir, cluster, broker = (
                _value(row, names, f"row {number}: {names[0]}") for names in (_PATH, _HOST, _LOG_DIR, _CLUSTER, _BROKER)
            )
            if where is None:
                raise ManifestError(f"{path}: row {number} has no path; a manifest has the columns host, log.dir, path")
            node = _broker(broker, f"row {number}: {_BROKER[0]}")
            roots.append(Root(relative_to(os.path.dirname(path), where), host, log_dir, cluster, node))
    except OSError as error:
        raise ManifestError(f"{path}: cannot be read: {first_line(error)}") from None
    except ValueError as error:
        raise ManifestError(f"{path}: no manifest: {error}") from None
    return roots


def _rows(path: str, data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the rows of a manifest, one after the other: only what counts of each is kept.

    Raises:
        ValueError: it is none; the message says where.
    """
    import io

    if path.lower().endswith(".csv"):
        import csv

        try:
            yield from csv.DictReader(io.TextIOWrapper(io.BytesIO(data), "utf-8-sig", newline=""))
        except csv.Error as error:
            raise ValueError(str(error)) from None
        return
    if not data.removeprefix(_MARK).lstrip().startswith(b"["):
        for number, line in enumerate(io.BytesIO(data.removeprefix(_MARK)), 1):
            if line.strip():
                yield an_object(parsed(line), f"line {number}")
        return
    yield from array_in(data.removeprefix(_MARK))


def _broker(text: str | None, place: str) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MAX_INT)) and int(text) <= MAX_INT):
        raise BadValueError(place, "is not the number of a broker")
    return int(text)


def _value(row: dict[str, Any], names: tuple[str, ...], place: str) -> str | None:
    found = next((row[name] for name in names if row.get(name) not in (None, "")), None)
    if found is None:
        return None
    if isinstance(found, int):  # of a host
        number(MIN_LONG, MAX_LONG)(found, place)
    else:
        text(found, place, _MOST_CELL)
    return str(found)
