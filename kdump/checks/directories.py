"""The directories that a user names: partition directories and log directories, with all that they leave to judge."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.checks.names import check_names
from kdump.checks.partition import PartitionCheck
from kdump.checks.read_errors import entries_of
from kdump.checks.state_files import check_text
from kdump.checks.surroundings import Surroundings
from kdump.finding import Code, Finding
from kdump.format.checkpoint.text_lines import Property
from kdump.format.kinds import TEXT_KINDS, FileKind
from kdump.item import Checked, CheckedFile
from kdump.storage.directory import Expansion, directories
from kdump.storage.file_source import is_remote
from kdump.storage.names import parse_name, parse_partition
from kdump.storage.paths import above

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.checks.options import VerifyOptions
    from kdump.item import Item

_LOG_DIR_KINDS = tuple(kind for kind in TEXT_KINDS if kind not in (FileKind.EPOCHS, FileKind.PARTITION_METADATA))


class Place:
    """A directory that the user named: a partition directory, or a log directory.

    Args:
        path: as the user wrote it.

    Attributes:
        is_partition: it is a partition directory.
        is_broker_s: a broker may have made it; or it cannot be listed.
        around: the log directory.
        partitions: those that lie there.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._listing = Expansion()
        found = directories(path, self._listing)
        named_so = parse_partition(os.path.basename(os.path.abspath(path))) is not None
        self.is_partition = found == [path] or (named_so and not found)
        if self.is_partition:
            self._listing, found = Expansion(), [path]
        can_be_listed = is_remote(path) or os.access(path, os.R_OK | os.X_OK)
        self.is_broker_s = bool(found or self._listing.files or not can_be_listed)
        self.around = Surroundings(above(path) if self.is_partition else path)
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
        from kdump.checks.predict import predict  # the model of the broker costs time to import

        paths = [check.path for check in self.partitions]
        return predict(self.around.path, paths, options, is_alone=self.is_partition)

    @property
    def broker(self) -> tuple[object, object] | None:
        """Broker and directory by meta.properties, None where that is not known; two copies have the same of both."""
        entries = entries_of(FileKind.META_PROPERTIES, os.path.join(self.around.path, FileKind.META_PROPERTIES.value))
        named = {one.name: one.value for one in entries if isinstance(one, Property)}
        node = named.get("node.id", named.get("broker.id"))
        return None if node is None else ((named.get("cluster.id"), node), named.get("directory.id"))


def duplicates(places: list[Place]) -> Iterator[Item]:
    """Yield the partitions that lie in two log directories of one broker.

    Args:
        places: that the user named.

    Reports: F12.
    """
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
