"""Where kdump may make a file: nowhere in what it reads, and nowhere a broker looks.

A broker does not start over a directory in its log.dir that is no partition, and a source in which something is
changed cannot be had again.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.format.kinds import FileKind
from kdump.storage.directory import expanded
from kdump.storage.log_dir import is_log_dir
from kdump.storage.names import log_bases, parse_name, parse_partition
from kdump.storage.paths import is_remote
from kdump.storage.refusal import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable

_OF_PARTITION = (FileKind.EPOCHS, FileKind.PARTITION_METADATA)
_BESIDE_LOGS = (FileKind.INDEX, FileKind.TIMEINDEX, FileKind.TXNINDEX, *_OF_PARTITION)


def _refuse_in_store(target: str, inputs: Iterable[str], option: str) -> None:
    """Refuse a place in a store that lies in what is read there, or around it."""
    where = _in_store(target)
    for one in inputs:
        source = _in_store(one) if is_remote(one) else None
        if source is not None and (where[: len(source)] == source or source[: len(where)] == where):
            raise _refused(target, f"lies in {one}, which is read, or around it", option)


def _in_store(url: str) -> list[str]:
    """The parts of a URL, one name for each scheme, as far as no pattern is in them."""
    scheme, _, rest = url.partition("://")
    parts = [one for one in rest.split("/") if one]
    plain = next((at for at, one in enumerate(parts) if any(sign in one for sign in "*?[")), len(parts))
    return ["s3" if scheme in ("s3a", "s3n") else scheme, *parts[:plain]]


def refuse_inside_sources(target: str, inputs: Iterable[str], option: str) -> None:
    """Refuse to make a file or a directory in what is read, in a partition directory, or in a log.dir.

    What counts is where the path leads: links are followed, and a directory is known again under another name.

    Args:
        target: of the file or directory, as the user wrote it; it need not be there.
        inputs: that are read: files, directories and patterns; URLs of object stores hold nothing of this machine.
        option: that names the target, for the message.

    Raises:
        RefusedError: it lies in one of them, or is one of them.
    """
    if is_remote(target):
        _refuse_in_store(target, inputs, option)
        return
    where = os.path.realpath(target)
    named: dict[tuple[int, int], str] = {}
    for one, _ in expanded([one for one in inputs if not is_remote(one)]):
        for path in (one, *_partitions_in(one)):
            if (identity := _identity(path)) is not None:
                named.setdefault(identity, path)
    at = where
    while True:
        identity = _identity(at)
        source = None if identity is None else named.get(identity)
        if is_log_dir(at):
            why = f"{_in(at, where)} the log directory {at}, where a broker would trip over it"
            raise _refused(target, why, option)
        if is_partition_directory(at):
            why = f"{_in(at, where)} the partition directory {at}, where a broker would trip over it"
            raise _refused(target, why, option)
        if source is not None and (at == where or os.path.isdir(at)):
            raise _refused(target, f"{_in(at, where)} {source}, which is read", option)
        if at == os.path.dirname(at):
            return
        at = os.path.dirname(at)


def _in(directory: str, where: str) -> str:
    return "is" if directory == where else "lies in"


def _refused(target: str, why: str, option: str) -> RefusedError:
    return RefusedError(f"{target}: {why}: nothing is written there; name a place elsewhere for {option}")


def _identity(path: str) -> tuple[int, int] | None:
    """By what a file or a directory is known again under another name; None where nothing is there."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def _partitions_in(path: str) -> list[str]:
    """What has the name of a partition in a directory that is read: under another name it is known again."""
    try:
        names = os.listdir(path)
    except OSError:
        return []
    return [os.path.join(path, name) for name in names if parse_partition(name) is not None]


def is_partition_directory(path: str) -> bool:
    """Tell whether a directory is that of a partition: by its name and what is left of it, or by a log and its files.

    A log by itself may lie in any directory, and indexes alone are what `reindex --output` makes.

    Args:
        path: its real path.
    """
    try:
        names = os.listdir(path)
    except OSError:
        return False
    found = [parse_name(name) for name in names]
    if parse_partition(os.path.basename(path)) is not None:
        has_log = any(one.kind is FileKind.LOG and one.base_offset is not None for one in found)
        return has_log or any(one.kind in _OF_PARTITION for one in found)
    return bool(log_bases(names)) and any(one.kind in _BESIDE_LOGS for one in found)
