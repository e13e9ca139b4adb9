"""The plan of a repair: the changes of files in one partition directory, and what they cost."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Protocol

from kdump.broker.producer.lost_aborts import WITNESS
from kdump.finding import Code, Trait
from kdump.format.batch.layout import RECORDS_AT
from kdump.repair.places import directories_of
from kdump.repair.schema import REPAIR
from kdump.rows.plan import Operation, Planned
from kdump.storage.directory import DirectoryListing
from kdump.storage.names import FileKind, parse_name, parse_partition
from kdump.storage.paths import above, base_name
from kdump.value import Value
from kdump.words.command import named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kdump.finding import Finding
    from kdump.format.batch.header_fields import Patch
    from kdump.repair.file_state import FileState
    from kdump.words.command import ShellCommand

_ID_DIGITS = 16
_MOST_NAMED = 20  # files in a command to paste


class Content(Protocol):
    """The new content of a file: known by its hash, made again when it is needed.

    Attributes:
        size: bytes.
        sha256: of the bytes.
    """

    @property
    def size(self) -> int:
        """Bytes."""

    @property
    def sha256(self) -> str:
        """The hash, in hex."""

    def data(self) -> bytes:
        """Return the bytes."""


class Bytes:
    """Content that is held."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)
        self.sha256 = hashlib.sha256(data).hexdigest()

    def data(self) -> bytes:
        """Return the bytes."""
        return self._data


class Change(Value):
    """The change of one file."""

    name: str  # in the directory of the plan; of `repair` with that of the partition before it
    action: str  # rebuild-index, create, replace, truncate, empty, delete or patch
    before: FileState | None  # the present state; None where there is no file
    size: int  # bytes afterwards, 0 where the file goes
    like: str  # the file whose owner and rights a new one gets
    content: Content | None = None  # what it is to have; None for a file that is cut, patched or goes
    patches: tuple[Patch, ...] = ()  # of a file that is patched
    why: str = ""  # for people: what is wrong now; empty where no error and no warning is the reason
    kind: str = ""  # of what `repair` mends; empty for the other commands

    @property
    def is_cut(self) -> bool:
        """Whether the file is shortened in its place."""
        return self.content is None and not self.patches and self.action != "delete"

    def mends(self, finding: Finding) -> bool:
        """Tell whether what a finding about the file is about is right, or gone, once the file is changed."""
        position = finding.position
        if self.patches:
            end = (position or 0) + max(finding.length or 0, RECORDS_AT)
            return position is not None and any(position <= one.position < end for one in self.patches)
        return not self.is_cut or position is None or position >= self.size

    def facts(self) -> list[object]:
        """Return what the plan id is made from."""
        patches = [[one.position, one.old.hex(), one.new.hex()] for one in self.patches]
        before = None if self.before is None else self.before.fields()
        return [
            self.name,
            self.action,
            before,
            self.size,
            None if self.content is None else self.content.sha256,
            patches,
        ]


class LeftAlone(Value):
    """Something wrong that `repair` does not mend."""

    kind: str | None  # of what would be mended; None for what it never mends
    path: str  # of the file or directory
    why: str  # what is wrong, why it is left, and what to do; begins with the path
    command: ShellCommand | None  # that goes on, None where a person acts

    @property
    def partitions(self) -> tuple[str, ...]:
        """The path of the partition directory that it is, or lies in; none for something of the log directory."""
        around = self.path, os.path.dirname(self.path)
        return tuple(one for one in around if parse_partition(base_name(one)))[:1]


class Plan(Value):
    """The plan for one partition directory."""

    command: str  # reindex, truncate, patch-header or repair
    # of the partition, as the user wrote it; of `repair` the directory that partitions lie in: names begin with theirs
    directory: str
    changes: tuple[Change, ...]  # in the order in which they are made
    inputs: dict[str, FileState]  # the files from which all this follows, and that stay as they are
    names: tuple[str, ...]  # of all files in the directory: one more would make it another plan
    bytes_lost: int = 0  # that are cut from logs
    records_lost: int = 0  # in these bytes, as far as they can be counted
    log_end_offset: int | None = None  # of the partition afterwards; None where it is not known
    announces: tuple[str, ...] = ()  # what a broker will do then, or what the operator must know; a sentence each
    kept: int = 0  # sound files of the kinds that the command is about
    refused: tuple[str, ...] = ()  # why parts were left out, a sentence each: with one of them nothing is applied
    log_end_before: int | None = None  # before, a torn batch counts where its header stands; None where it is not known
    lacks: str = ""  # the option without which it is refused; empty for none
    alone: tuple[str, ...] = ()  # names of logs: where these alone are named, the plan is not refused
    left: tuple[LeftAlone, ...] = ()  # what `repair` does not mend, and why

    @property
    def offsets_lost(self) -> int:
        """How many offsets lie between the new end and the one before."""
        before, after = self.log_end_before, self.log_end_offset
        return 0 if before is None or after is None else max(0, before - after)

    def mends(self, finding: Finding) -> bool:
        """Tell whether what a finding is about is right, or gone, once this is done."""
        is_witness = Trait.RESTORED in finding.code.traits or finding.values.get("remedy") == WITNESS
        if is_witness and self.command == REPAIR:
            return False  # what tells of it stays
        path, here = os.path.abspath(finding.file), os.path.abspath(self.directory)
        if finding.code is Code.E03:  # a batch, or the file beside its log, has the wrong epoch
            epochs = os.path.join(os.path.dirname(path), FileKind.EPOCHS.value)
            if any(os.path.join(here, change.name) == epochs and change.content for change in self.changes):
                return True
        return any(change.mends(finding) for change in self.changes if os.path.join(here, change.name) == path)

    @property
    def log_dir(self) -> str:
        """The directory that its partitions lie in."""
        return self.directory if self.command == REPAIR else above(self.directory)

    @property
    def places(self) -> list[str]:
        """The directories in which it changes or reads files."""
        return directories_of(self.directory, [*(one.name for one in self.changes), *self.inputs])

    @property
    def partitions(self) -> list[str]:
        """The partition directories among them."""
        return [one for one in self.places if self.command != REPAIR or one != self.directory]

    @property
    def partition(self) -> str:
        """The name of the partition directory."""
        return os.path.basename(os.path.abspath(self.directory))

    @property
    def plan_id(self) -> str:
        """By what the plan is known again: the same in every run while inputs and outcome are the same."""
        facts = [
            self.command,
            os.path.realpath(self.directory),
            sorted((name, state.fields()) for name, state in self.inputs.items()),
            sorted(self.names),
            [change.facts() for change in self.changes],
        ]
        text = json.dumps(facts, sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_ID_DIGITS]

    def shown(
        self, paths: tuple[str, ...], options: tuple[str, ...], journal: str | None = None, unread: int = 0
    ) -> Planned:
        """Return what users see of it.

        Args:
            paths, options: what to write after the command to have it done.
            journal: path of the journal, when it is done.
            unread: files that could not be read when it was made.
        """
        goes_on: tuple[str, ...] = ()
        if self.lacks:
            goes_on = (*map(named, paths), *options, self.lacks)
        elif 0 < len(self.alone) <= _MOST_NAMED:
            goes_on = (*(named(os.path.join(self.directory, name)) for name in self.alone), *options)
        return Planned(
            command=self.command,
            plan_id=self.plan_id,
            partition=self.partition,
            directory=self.directory,
            operations=tuple(_operation(one) for one in self.changes),
            bytes_lost=self.bytes_lost,
            records_lost=self.records_lost,
            log_end_offset=self.log_end_offset,
            announces=self.announces,
            kept=self.kept,
            journal=journal,
            arguments=(*map(named, paths), *options),
            is_refused=bool(self.refused),
            offsets_lost=self.offsets_lost,
            log_end_offset_before=self.log_end_before,
            unread=unread,
            partial_arguments=goes_on,
        )


def rows_of(shown: Planned, kinds: Sequence[str]) -> Iterator[Planned]:
    """Yield a plan of `repair` as rows of one operation each, and as one row where nothing is to be done.

    Args:
        shown: the plan as people see it.
        kinds: of its operations.
    """
    if not kinds:
        yield shown
    for kind, one in zip(kinds, shown.operations, strict=True):
        directory, name = os.path.split(os.path.join(shown.directory, one.file))
        partition = os.path.basename(os.path.abspath(directory))
        operations = (one.replace(file=name),)
        yield shown.replace(kind=kind, partition=partition, directory=directory, operations=operations)


def _operation(change: Change) -> Operation:
    before = None if change.before is None else change.before.size
    after = None if change.action == "delete" else change.size
    detail = ", ".join(_patch(one) for one in change.patches)
    return Operation(change.name, change.action, before, after, change.why, detail)


def _patch(one: Patch) -> str:
    return f"bytes {one.position}..{one.position + len(one.old) - 1}: {one.old.hex()} becomes {one.new.hex()}"


def names_of(listing: DirectoryListing) -> tuple[str, ...]:
    """Return the names in a directory that a broker may look at; our own temporary files are none.

    Raises:
        OSError: it could not be listed.
    """
    if listing.error is not None:
        raise listing.error
    return tuple(sorted(name for name in listing.names if not is_temporary(name)))


def names_in(root: str, directories: Iterable[str], *, is_log_dir: bool) -> tuple[str, ...]:
    """Return the paths of all files in some directories, as a plan has them.

    Args:
        root: path of the directory of the plan.
        directories: paths of it, and of others right below it.
        is_log_dir: the directory of the plan holds partitions: those beside the ones of the plan do not count.

    Raises:
        OSError: one could not be listed.
    """
    found: list[str] = []
    for path in directories:
        names = names_of(DirectoryListing(path))
        if path != root:
            found += (os.path.join(os.path.basename(path), one) for one in names)
        else:
            found += (one for one in names if not is_log_dir or parse_name(one).kind is not FileKind.UNKNOWN)
    return tuple(sorted(found))


def is_temporary(name: str) -> bool:
    """Tell whether a file is one of those that a repair makes beside the others, under a name no broker looks at."""
    return name.startswith("kdump-") and name.endswith(".tmp")
