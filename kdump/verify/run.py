"""The verb verify: what paths stand for, in which order it is judged, and by how many processes."""

from __future__ import annotations

import glob
import os
from itertools import accumulate
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding
from kdump.format.kinds import TEXT_KINDS, FileKind
from kdump.format.smalltext import Property
from kdump.item import Checked, CheckedFile, Progress
from kdump.log.directory import Expansion, directories
from kdump.log.names import parse_name, parse_partition
from kdump.log.source import DoorProblem
from kdump.verify.doors import entries_of
from kdump.verify.loose import check_loose
from kdump.verify.names import check_names
from kdump.verify.partition import PartitionCheck
from kdump.verify.statefiles import check_text
from kdump.verify.surroundings import Surroundings
from kdump.verify.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.item import Item
    from kdump.verify.options import VerifyOptions
    from kdump.verify.segment import Result

_LOG_DIR_KINDS = tuple(kind for kind in TEXT_KINDS if kind not in (FileKind.EPOCHS, FileKind.PARTITION_METADATA))


def verify(paths: list[str], options: VerifyOptions) -> Iterator[Item]:
    """Yield what is wrong with files, partition directories and log directories.

    The order is the same for any number of processes: path by path, partition by partition, segment by segment; the
    files of a log directory itself come after its partitions.

    Args:
        paths: as the user wrote them; a pattern where nothing has that name is expanded.
        options: what was asked for.

    Reports: every code but L13; as items of their own, among what was judged.
    """
    places: list[_Place] = []
    for path in _expanded(paths):
        if not os.path.isdir(path):
            yield from check_loose(path, options)
        elif (place := _Place(path)).is_broker_s:
            places.append(place)
        else:
            yield DoorProblem(path, "other", f"{path}: neither a partition directory nor a log directory of a broker")
    yield from _duplicates(places)
    checks = [check for place in places for check in place.partitions]
    jobs = [job for check in checks for job in check.jobs]
    sizes = [size for check in checks for size in check.sizes]
    done = list(accumulate(sizes, initial=0))
    with Workers(jobs, sizes, options) as workers:
        first = 0
        for place in places:
            for check in place.partitions:

                def results(number: int, first: int = first) -> Iterator[Result]:
                    return _progress(workers.of(first + number), done[first + number], done[-1], options)

                yield from check.check(results, options)
                first += len(check.jobs)
            yield from place.check()
            if options.starts:
                yield from place.predict(options)


def partitions_of(paths: list[str]) -> Iterator[PartitionCheck]:
    """Yield the partitions under some paths, path by path.

    Args:
        paths: as the user wrote them; what is no directory is left out.
    """
    for path in _expanded(paths):
        if os.path.isdir(path):
            yield from _Place(path).partitions


def _progress(results: Iterator[Result], done: int, total: int, options: VerifyOptions) -> Iterator[Result]:
    """Say how far all segments together have got."""
    for result in results:
        if not isinstance(result, Progress):
            yield result
        elif options.progress:
            yield Progress(done + result.done, total, result.path)


def _expanded(paths: list[str]) -> Iterator[str]:
    seen: set[str] = set()
    for pattern in paths:
        for path in _matches(pattern):
            if not os.path.isdir(path):
                yield path
            elif (real := os.path.realpath(path)) not in seen:
                seen.add(real)
                yield path


def _matches(path: str) -> Iterator[str]:
    """What a path stands for: itself, or where nothing has that name what it matches as a pattern."""
    if os.path.lexists(path) or not glob.has_magic(path):
        yield path
    else:
        yield from sorted(glob.glob(path)) or [path]  # noqa: PTH207 (a Path would change what the user wrote)


class _Place:
    """A directory that the user named: a partition directory, or a log directory."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._listing = Expansion()
        found = directories(path, self._listing)
        named_so = parse_partition(os.path.basename(os.path.abspath(path))) is not None
        self.is_partition = found == [path] or (named_so and not found)
        if self.is_partition:
            self._listing, found = Expansion(), [path]
        self.is_broker_s = bool(found or self._listing.files or not os.access(path, os.R_OK | os.X_OK))
        self.around = Surroundings(os.path.join(path, os.pardir) if self.is_partition else path)
        self.partitions = [PartitionCheck(directory, self.around) for directory in found]

    def check(self) -> Iterator[Item]:
        """Yield what is wrong with the files of a log directory itself, and what its checkpoints say of partitions."""
        for check in self.partitions:
            yield from check.checkpoint_findings
        if self.is_partition:
            if any(check.checkpoint_findings for check in self.partitions):
                yield Checked((), 0, 0)
            return
        shown: list[CheckedFile] = []
        for path in self._listing.files:
            if parse_name(os.path.basename(path)).kind not in _LOG_DIR_KINDS:
                continue
            for one in check_text(path):
                if isinstance(one, CheckedFile):
                    shown.append(one)
                else:
                    yield one
        yield from check_names(self._listing)
        yield Checked(tuple(shown), 0, 0)

    def predict(self, options: VerifyOptions) -> Iterator[Item]:
        """Yield what the next start of a broker does with the partitions."""
        from kdump.verify.predict import predict  # the model of the broker costs time to import

        paths = [check.path for check in self.partitions]
        return predict(self.around.path, paths, options, is_alone=self.is_partition)

    @property
    def broker(self) -> tuple[object, object] | None:
        """Broker and directory by meta.properties, None where that is not known; two copies have the same of both."""
        entries = entries_of(FileKind.META_PROPERTIES, os.path.join(self.around.path, FileKind.META_PROPERTIES.value))
        named = {one.name: one.value for one in entries if isinstance(one, Property)}
        node = named.get("node.id", named.get("broker.id"))
        return None if node is None else ((named.get("cluster.id"), node), named.get("directory.id"))


def _duplicates(places: list[_Place]) -> Iterator[Item]:
    """Partitions that lie in two log directories of one broker."""
    if len(places) < 2:
        return
    seen: dict[tuple[object, ...], tuple[str, object]] = {}
    for place in places:
        broker, directory = place.broker or (None, None)
        for check in place.partitions if broker is not None else ():
            if check.name is None or check.name.state:
                continue
            key = (broker, check.name.topic, check.name.partition)
            other, its_directory = seen.setdefault(key, (check.path, directory))
            is_copy = directory is not None and directory == its_directory
            if not is_copy and os.path.realpath(other) != os.path.realpath(check.path):
                yield Finding(Code.F12, check.path, values={"other": other})
                yield Checked((), 0, 0)
