"""The verb du: the paths of a user, part by part, and then the rows."""

from __future__ import annotations

import os
from itertools import chain
from typing import TYPE_CHECKING

from kdump.item import Progress
from kdump.rows.usage import PlacedUsage
from kdump.storage.directory import DirectoryListing, expanded, no_kafka_files
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import parse_partition
from kdump.storage.open_files import open_source
from kdump.storage.partition_dir import InputDirectory, LogAlone
from kdump.storage.paths import base_name, is_remote, parent, real
from kdump.usage.fold import PartFold, UsageFold, UsagePart, UsageShare
from kdump.value import Value
from kdump.workers import in_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.item import Item
    from kdump.usage.options import UsageOptions

    _Part = tuple[UsagePart, set[str]]

_LEFT = ("delete", "stray")


def usage(paths: Sequence[str], options: UsageOptions) -> Iterator[Item]:
    """Yield what is wrong with the files, and then what uses the space.

    Args:
        paths: files, partition directories or log directories, as the user wrote them.
        options: what was asked for.

    Reports: what is wrong with logs, as the checked walk does.
    """
    parts: list[_Part] = []
    for _, found in _roots(paths):
        if isinstance(found, OpenFailure):
            yield found
        else:
            parts += found
    yield from _counted(parts, options)


class UsageUnit(Value):
    """One partition in one path of the user, or what lies in none there."""

    root: str  # the path of the user
    name: str | None  # TOPIC-N; None for what lies in no partition
    size: int  # bytes of its logs, about


def usage_units(paths: Sequence[str]) -> Iterator[UsageUnit | OpenFailure]:
    """Yield what has a row of the table `usage`, in the order of the paths, and what cannot be read.

    Args:
        paths: as the user wrote them.
    """
    for root, found in _roots(paths):
        if isinstance(found, OpenFailure):
            yield found
            continue
        sizes: dict[str | None, int] = {}
        for part, _ in found:
            name = part.name("partition")
            sizes[name] = sizes.get(name, 0) + part.log_bytes
        for name in sorted(sizes, key=lambda one: (one is None, one)):
            yield UsageUnit(root, name, sizes[name])


class PlacedRows:
    """Makes the rows of units; what lies around them is listed once.

    Args:
        options: what was asked for, by partition.
    """

    def __init__(self, options: UsageOptions) -> None:
        self._options = options.replace(jobs=1)
        self._counts = PartFold(self._options)
        self._root: str | None = None
        self._parts: dict[str | None, list[_Part]] = {}

    def of(self, unit: UsageUnit) -> Iterator[Item | PlacedUsage]:
        """Yield what is wrong with a unit, and its row."""
        if unit.root != self._root:
            self._root, self._parts = unit.root, {}
            for _, found in _roots([unit.root]):
                for one in () if isinstance(found, OpenFailure) else found:
                    self._parts.setdefault(one[0].name("partition"), []).append(one)
        fold, path = UsageFold(self._options), os.path.join(unit.root, "")
        for number, (part, without) in enumerate(self._parts.get(unit.name, ())):
            if number == 0 and unit.name is not None:
                path = part.path
            for item in self._counts.count(part, without):
                if isinstance(item, UsageShare):
                    fold.join(item)
                else:
                    yield item
        for row in fold.usages():
            if row.name == unit.name:
                yield PlacedUsage(path, row)


def placed_usage(paths: Sequence[str], options: UsageOptions) -> Iterator[Item | PlacedUsage]:
    """Yield the rows of the table `usage`: those of du by partition, for each path of the user.

    Args:
        paths: as the user wrote them.
        options: what was asked for, by partition.
    """
    units: list[UsageUnit] = []
    for unit in usage_units(paths):
        if isinstance(unit, OpenFailure):
            yield unit
        else:
            units.append(unit)
    total = sum(unit.size for unit in units) if options.progress else None
    with in_order(units, PlacedRows(options).of, options.jobs, total=total) as counted:
        yield from chain.from_iterable(counted)


def _roots(paths: Sequence[str]) -> Iterator[tuple[str, list[_Part] | OpenFailure]]:
    """Each path of the user with the directories that are counted, or why there are none."""
    seen: set[str] = set()  # a path may lie in another one
    for path, is_directory in sorted(expanded(paths), key=lambda one: not one[1]):
        if is_remote(path):
            yield path, OpenFailure(path, "other", f"{path}: only directories of a file system are counted")
            continue
        if is_directory:
            found = list(_parts(path))
            new = [part for part in found if real(part[0].path) not in seen]
            seen.update(real(part.path) for part, _ in new)
            yield path, new if found else _not_counted(path)
            continue
        source = open_source(path)
        if isinstance(source, OpenFailure):
            yield path, source
            continue
        source.close()
        folder = os.path.dirname(path) or "."
        if real(folder) in seen or real(path) in seen:
            continue
        seen.add(real(path))
        yield path, [(UsagePart(folder, LogAlone(path), leftover=False, alone=path), set())]


def _not_counted(path: str) -> OpenFailure:
    """Why nothing of a directory is counted."""
    failure = DirectoryListing(path).failure
    return failure or no_kafka_files(path)


def _counted(parts: list[_Part], options: UsageOptions) -> Iterator[Item]:
    """Yield what is wrong with parts, and then the rows."""
    fold, counts, numbers = UsageFold(options), PartFold(options), range(len(parts))
    total = (1 + options.superseded) * sum(part.log_bytes for part, _ in parts) if options.progress else None
    logs: list[tuple[tuple[str, int], ...]] = []

    def count(number: int) -> Iterator[Item | UsageShare]:
        return counts.count(*parts[number])

    with in_order(numbers, count, options.jobs, total=total) as counted:
        for item in chain.from_iterable(counted):
            if isinstance(item, UsageShare):
                fold.join(item)
                if item.keys is not None:
                    logs.append(item.logs)
            else:
                yield item
    counts.rest()
    if fold.needs_second_pass:
        wanted = fold.begin_second_pass()
        total = (1 + options.superseded) * sum(size for some in logs for _, size in some) if options.progress else None
        with in_order(logs, wanted.again, options.jobs, total=total) as counted_again:
            for one in chain.from_iterable(counted_again):
                if isinstance(one, Progress):
                    yield one
                else:
                    fold.join_again(one)
    yield from fold.usages()
    if options.full_at is not None:
        yield from fold.growths(options.full_at, options.now)


def _parts(path: str) -> Iterator[_Part]:
    """A partition directory; or a log.dir itself, without its partition directories, and these."""
    directory = InputDirectory(path, parent)
    if not directory.is_log_dir:
        [partition] = directory.partitions
        yield _part(path, partition), set()
        return
    inside = {one.path for one in directory.partitions}
    if not inside and not directory.contents.files:
        return
    yield UsagePart(path, None, leftover=False), inside
    for partition in directory.partitions:
        yield _part(partition.path, partition), set()


def _part(path: str, partition: object) -> UsagePart:
    parsed = parse_partition(base_name(path))
    return UsagePart(path, partition, leftover=parsed is not None and parsed.state in _LEFT)  # type: ignore[arg-type]
