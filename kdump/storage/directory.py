"""The directories that users name: each is listed once, with its entries in the order of the output.

Strategy: the depth is fixed, a log.dir, its partition directories, their files, so a walk cannot be led astray.
Nothing is opened here. Paths are joined as text onto what the user wrote.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from functools import cached_property
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING

from kdump.storage.file_source import OpenFailure
from kdump.storage.names import (
    LOCK,
    REMOTE_CACHE,
    TEXT_KINDS,
    FileKind,
    FileName,
    has_meaning,
    log_bases,
    parse_name,
    parse_partition,
)
from kdump.storage.paths import DID_YOU_MEAN, is_dir, is_remote, real, why_not
from kdump.value import TupleValue, Value
from kdump.words.numbers import counted

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from kdump.storage.object_store import RemoteEntry

SEGMENT_KINDS = (FileKind.LOG, FileKind.INDEX, FileKind.TIMEINDEX, FileKind.TXNINDEX, FileKind.SNAPSHOT)
NOT_A_PARTITION = "not a partition directory"
A_LINK, NO_FILE = "a symbolic link", "not a regular file"  # a broker follows the first, and fails on some of the others
IN_A_PARTITION = "a directory inside a partition directory"
_LEVELS, _MOST_BELOW, _MOST_NAMED = 2, 500, 3  # where log directories are looked for that a user may have meant


class Skipped(Value):
    """An entry that is not followed or read, and why."""

    path: str
    reason: str

    @property
    def is_missed(self) -> bool:
        """Whether a broker would load what has this name: a link, or something that is no regular file."""
        name = os.path.basename(self.path)
        is_loaded = parse_name(name).is_live or parse_partition(name) is not None
        return self.reason in (A_LINK, NO_FILE) and is_loaded

    @property
    def is_out_of_reach(self) -> bool:
        """Whether the system does not give it; else it is left alone on purpose."""
        return self.reason.startswith("cannot")

    @property
    def sentence(self) -> str:
        """One line for the user."""
        return f"{self.path}: {self.reason}" if self.is_out_of_reach else f"{self.path}: not read: {self.reason}"


class FoundFile(TupleValue):
    """A regular file: its path, and what its name tells."""

    path: str
    name: FileName


class Contents(Value):
    """The entries of a directory, in the order of the output."""

    # what a broker reads: segments by base offset, for each base in the order log, index, timeindex, txnindex,
    # snapshot; then KRaft snapshots, then text files
    files: list[FoundFile]
    leftovers: list[str]  # files with a known purpose under a name that no broker reads: `.deleted`, `.swap`, copies
    ignored: list[str]  # what has no meaning to a broker, or none to read
    skipped: list[Skipped]  # symbolic links, special files, directories of another depth, and what cannot be listed


def _matters(entry: os.DirEntry[str]) -> bool:
    """Whether an entry can mean something to a broker, or has to be told: other regular files are passed over."""
    try:
        return has_meaning(entry.name) or not entry.is_file(follow_symlinks=False)
    except OSError:
        return True


class DirectoryListing:
    """The entries of one directory, listed once; their names are read and their kinds asked for when somebody needs it.

    Args:
        path: of the directory, as the user wrote it.

    Attributes:
        renamed: the names that some files will have, and those that they have today: see `RenamedListing`.
    """

    renamed: Mapping[str, str] = MappingProxyType({})

    def __init__(self, path: str) -> None:
        self.path = path
        self.error: OSError | None = None  # why it cannot be listed, None where it is
        self._entries: dict[str, os.DirEntry[str] | RemoteEntry] = {}
        self._parsed: dict[str, FileName] = {}
        try:
            if is_remote(path):
                from kdump.storage.object_store import entries

                self._entries = {entry.name: entry for entry in entries(path)}
            else:
                with os.scandir(path or os.curdir) as found:
                    self._entries = {entry.name: entry for entry in found if _matters(entry)}  # of a million perhaps
        except OSError as error:
            self.error = error

    @property
    def failure(self) -> OpenFailure | None:
        """The same as a line for the user."""
        return None if self.error is None else cannot_list(self.path, self.error)

    @property
    def names(self) -> Iterable[str]:
        """The names of all entries, of whatever kind, in no order."""
        return self._entries.keys()

    @cached_property
    def has_temporaries(self) -> bool:
        """Whether files lie here that a broker was to remove, or to put in place."""
        return any(name.endswith((".deleted", ".cleaned", ".swap")) for name in self._entries)

    def has(self, name: str) -> bool:
        """Tell whether an entry has this name, of whatever kind."""
        return name in self._entries

    @cached_property
    def bases(self) -> list[int]:
        """The base offsets of the logs among all entries, ascending."""
        return log_bases(self._entries)

    @property
    def regular_bases(self) -> list[int]:
        """The base offsets of the logs that are regular files, ascending."""
        return [base for base in self.bases if self.is_regular(f"{base:020}.log")]

    def next_base(self, base: int) -> int | None:
        """Return the base offset of the next log that is a regular file, None after the last."""
        bases = self.bases
        later = (bases[at] for at in range(bisect_right(bases, base), len(bases)))
        return next((one for one in later if self.is_regular(f"{one:020}.log")), None)

    def name_of(self, name: str) -> FileName:
        """Return what the name of an entry tells."""
        found = self._parsed.get(name)
        if found is None:
            found = self._parsed[name] = parse_name(name)
        return found

    @cached_property
    def _by_kind(self) -> tuple[list[str], list[str], list[Skipped]]:
        """Regular files, directories, and what is neither, sorted by name."""
        files: list[str] = []
        directories: list[str] = []
        skipped: list[Skipped] = []
        for name, entry in sorted(self._entries.items()):
            try:
                if entry.is_file(follow_symlinks=False):
                    files.append(name)
                elif entry.is_dir(follow_symlinks=False):
                    directories.append(name)
                else:
                    skipped.append(Skipped(self.join(name), A_LINK if entry.is_symlink() else NO_FILE))
            except OSError as error:
                skipped.append(Skipped(self.join(name), f"cannot be looked at: {why_not(self.join(name), error)}"))
        if self.error is not None:
            skipped.append(Skipped(self.path, _cannot_list(self.path, self.error)))
        return files, directories, skipped

    @property
    def files(self) -> list[str]:
        """The names of the regular files, sorted; symbolic links are none."""
        return self._by_kind[0]

    @property
    def has_segments(self) -> bool:
        """Whether a file of a segment is there, as in a partition directory."""
        return any(name.is_live and name.kind in SEGMENT_KINDS for name in map(self.name_of, self.files))

    def followed(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yield the names of regular files as a broker sees them, links to such files included, with size and time.

        Raises:
            OSError: the directory, or one of the files, cannot be looked at.
        """
        if self.error is not None:
            raise self.error
        for name, entry in self._entries.items():
            if entry.is_file():
                yield name, entry.stat()  # type: ignore[misc]

    def followed_directories(self) -> list[str]:
        """Return the names of directories as a broker sees them, links to such included, sorted."""
        return sorted(name for name, entry in self._entries.items() if entry.is_dir())

    def is_regular(self, name: str) -> bool:
        """Tell whether an entry is a regular file, and no link to one."""
        try:
            return self._entries[name].is_file(follow_symlinks=False)
        except (KeyError, OSError):
            return False

    def status(self, name: str) -> tuple[int, int]:
        """Return size (bytes) and time (ms since the epoch) of a file, links followed, when they were first asked for.

        Raises:
            OSError: nobody can tell.
        """
        found = self._entries[name].stat()
        return found.st_size, found.st_mtime_ns // 1_000_000

    def size(self, name: str) -> int:
        """Return the size of a file in bytes, when it was first asked for; 0 where nobody can tell."""
        try:
            return self._entries[name].stat(follow_symlinks=False).st_size
        except (KeyError, OSError):
            return 0

    def join(self, name: str) -> str:
        """Return the path of an entry."""
        return os.path.join(self.path, name)

    def contents(self, *, is_partition: bool) -> Contents:
        """Return what it has, in order.

        Args:
            is_partition: of a partition directory; else of a log.dir, without its partition directories.
        """
        files, directories, skipped = self._by_kind
        found = Contents([], [], [], list(skipped))
        live: list[tuple[tuple[int, int, int], str]] = []
        for text in files:
            name = self.name_of(text)
            if name.is_live:
                live.append((_rank(name), text))
            elif text != LOCK:
                group = found.ignored if name.kind is FileKind.UNKNOWN else found.leftovers
                group.append(self.join(text))
        live.sort()
        found.files.extend(FoundFile(self.join(text), self._parsed[text]) for _, text in live)
        for text in directories:
            if is_partition:
                found.skipped.append(Skipped(self.join(text), IN_A_PARTITION))
            elif text == REMOTE_CACHE:
                found.ignored.append(self.join(text))
            elif parse_partition(text) is None:
                found.skipped.append(Skipped(self.join(text), NOT_A_PARTITION))
        return found

    def partitions(self) -> list[str]:
        """Return the paths of the partition directories in a log.dir, by topic and partition, not by text."""
        parsed = ((name, parse_partition(name)) for name in self._by_kind[1])
        keys = sorted((found.topic, found.partition, name) for name, found in parsed if found is not None)
        return [self.join(name) for _, _, name in keys]


class RenamedListing(DirectoryListing):
    """A listing as it will be once some files have other names: paths are those of today.

    Args:
        listing: of today.
        names: the names that some files will have, and those that they have today.
        gone: names of files that will not be there.
    """

    def __init__(self, listing: DirectoryListing, names: Mapping[str, str], gone: Container[str]) -> None:
        self.path = listing.path
        self.error = listing.error
        self._parsed = {}
        self.renamed = dict(names)
        entries = listing._entries
        moved = {*names, *names.values()}
        stay = {name: entry for name, entry in entries.items() if name not in moved and name not in gone}
        self._entries = stay | {name: entries[today] for name, today in names.items()}

    def join(self, name: str) -> str:
        """Return the path of an entry, as it is today."""
        return super().join(self.renamed.get(name, name))


def cannot_list(path: str, error: OSError) -> OpenFailure:
    """Return why nobody knows what lies in a directory, and what to do.

    Args:
        path: of the directory, as the user wrote it.
        error: what the system said.
    """
    kind = "permission" if isinstance(error, PermissionError) else "other"
    return OpenFailure(path, kind, f"{path}: {_cannot_list(path, error)}")


def _cannot_list(path: str, error: OSError) -> str:
    return f"cannot be listed: {why_not(path, error)}"


def no_kafka_files(path: str) -> OpenFailure:
    """Return why a directory is not read in which a broker has nothing, with log directories that lie below it.

    Args:
        path: of the directory, as the user wrote it.
    """
    below = [] if is_remote(path) else log_dirs_below(path)
    hint = f"{DID_YOU_MEAN}{', '.join(below[:_MOST_NAMED])}?" if below else ""
    if not (below or is_remote(path)):
        from kdump.storage.other_formats import redpanda_below  # few directories have no file of Kafka's

        found = redpanda_below(path)
        hint = "" if found is None else f": {found} looks like a segment of Redpanda"
        fetched = _fetched_in(path)
        if fetched:
            what = f"{counted(len(fetched), 'file')} of remote storage, which no broker loads; named alone it is judged"
            hint = f", but {what}: {fetched[0]}"
    return OpenFailure(path, "missing", f"{path}: no Kafka files here{hint}")


def _fetched_in(path: str) -> list[str]:
    """The logs in a directory under the names that they have in remote storage."""
    listing = DirectoryListing(path)
    names = ((one, parse_name(one)) for one in sorted(listing.names) if one.endswith(".log"))
    return [listing.join(one) for one, name in names if name.uuid is not None and name.kind is FileKind.LOG]


def log_dirs_below(path: str) -> list[str]:
    """Return the directories with partition directories in them that lie below one on this machine, not far.

    Args:
        path: of a directory that is no log directory.
    """
    below: list[str] = []
    level = [path]
    for _ in range(_LEVELS):
        level = [one for above in level for one in _directories(above)][:_MOST_BELOW]
        below += [one for one in level if any(parse_partition(os.path.basename(sub)) for sub in _directories(one))]
    return below


def _directories(path: str) -> list[str]:
    """The directories in a directory, sorted; none where it cannot be listed."""
    try:
        with os.scandir(path) as found:
            names = [entry.name for entry in islice(found, _MOST_BELOW) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return [os.path.join(path, name) for name in sorted(names)]


def expanded(paths: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yield what the paths of a user stand for, each directory once, and whether it is one.

    Args:
        paths: as the user wrote them; a pattern where nothing has that name is expanded.
    """
    seen: set[str] = set()
    for pattern in paths:
        for path in _matches(pattern):
            if not is_dir(path):
                yield path, False
            elif (known := real(path)) not in seen:
                seen.add(known)
                yield path, True


def _matches(path: str) -> Iterator[str]:
    """The paths that a path stands for: itself, or if nothing has that name the matches of a pattern."""
    if is_remote(path) or os.path.lexists(path):
        yield path
        return
    from glob import glob, has_magic

    matches = sorted(glob(path)) if has_magic(path) else []  # noqa: PTH207 (a Path would change what the user wrote)
    yield from matches or [path]


def _rank(name: FileName) -> tuple[int, int, int]:
    number = -1 if name.base_offset is None else name.base_offset
    if name.kind in SEGMENT_KINDS:
        return 0, number, SEGMENT_KINDS.index(name.kind)
    if name.kind is FileKind.CHECKPOINT:
        return 1, number, name.epoch or 0
    return 2, TEXT_KINDS.index(name.kind), 0
