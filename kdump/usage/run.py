"""The verb du: the paths of a user, part by part, and then the rows."""

from __future__ import annotations

import os
from itertools import chain
from typing import TYPE_CHECKING

from kdump.item import Progress
from kdump.storage.directory import expanded
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import parse_partition
from kdump.storage.open_files import open_source
from kdump.storage.partition_dir import InputDirectory, LogAlone
from kdump.storage.paths import base_name, parent
from kdump.usage.fold import PartFold, UsageFold, UsagePart, UsageShare
from kdump.workers import in_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.item import Item
    from kdump.usage.options import UsageOptions

_LEFT = ("delete", "stray")


def usage(paths: Sequence[str], options: UsageOptions) -> Iterator[Item]:
    """Yield what is wrong with the files, and then what uses the space.

    Args:
        paths: files, partition directories or log directories, as the user wrote them.
        options: what was asked for.

    Reports: what is wrong with logs, as the checked walk does.
    """
    parts: list[tuple[UsagePart, set[str]]] = []
    for path, is_directory in expanded(paths):
        if is_directory:
            found = list(_parts(path))
            parts += found
            if not found:
                yield OpenFailure(path, "other", f"{path}: neither a partition directory nor a log directory")
        else:
            source = open_source(path)
            if isinstance(source, OpenFailure):
                yield source
                continue
            source.close()
            folder = os.path.dirname(path) or "."
            parts.append((UsagePart(folder, LogAlone(path), leftover=False, alone=path), set()))
    yield from _counted(parts, options)


def _counted(parts: list[tuple[UsagePart, set[str]]], options: UsageOptions) -> Iterator[Item]:
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


def _parts(path: str) -> Iterator[tuple[UsagePart, set[str]]]:
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
