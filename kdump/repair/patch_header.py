"""What `kdump patch-header` would do: fields of batch headers outside the CRC that can have one value only."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.finding import Code
from kdump.format.batch.base_offset.findings import LOG_END
from kdump.format.batch.header_fields import is_of_header
from kdump.format.batch.header_patches import MOST_ERRORS, HeaderPatches, by_checkpoint, log_end_by
from kdump.format.kinds import FileKind
from kdump.repair.errors import RefusedError
from kdump.repair.file_state import open_directory, state_of
from kdump.repair.guard import demand_finished
from kdump.repair.plan import Change, Plan, names_of
from kdump.repair.reasons import Here
from kdump.storage.file_source import OpenFailure
from kdump.storage.log_dir import LogDir
from kdump.storage.names import log_bases, parse_name
from kdump.storage.open_files import open_source
from kdump.storage.partition_dir import PartitionDir
from kdump.storage.paths import above

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kdump.finding import Finding
    from kdump.repair.file_state import FileState


class WrongHeaders:
    """Takes findings, and keeps which logs of a partition have wrong headers.

    Args:
        directory: the partition directory; findings about other files are passed over.

    Attributes:
        by_others: what other files say of batches: the leader-epoch-checkpoint, and those that know the log end.
    """

    def __init__(self, directory: str) -> None:
        self._here = Here(directory)
        self.logs: dict[str, None] = {}  # their names, in the order in which they were found
        self.by_others: list[Finding] = []

    def see(self, finding: Finding) -> None:
        """Take one finding."""
        directory, name = os.path.split(finding.file)
        if self._here(directory):
            is_by_others = finding.code is Code.E03 or isinstance(finding.values.get(LOG_END), int)
            if is_by_others and len(self.by_others) <= MOST_ERRORS:  # with one more the plan is refused
                self.by_others.append(finding)
            if is_of_header(finding):
                self.logs[name] = None


def plan_patches(path: str, findings: Iterable[Finding]) -> Plan:
    """Return what would be done to the headers of one log.

    Args:
        path: of the log, as the user wrote it.
        findings: what its surroundings say of it: what the leader-epoch-checkpoint and other files tell counts.

    Raises:
        RefusedError: it is not a log with the name that a broker gives one, or cannot be read.
        OSError: it cannot be read to its end.
    """
    directory, name = os.path.split(path)
    return _plan(directory, [name], findings)


def plan_partition_patches(directory: str, wrong: WrongHeaders) -> Plan:
    """Return what would be done to the headers of one partition; where one log is refused nothing is done to others.

    Args:
        directory: of the partition, as the user wrote it.
        wrong: what is wrong there.

    Raises:
        RefusedError: a log cannot be read.
        OSError: one cannot be read to its end.
    """
    return _plan(directory, list(wrong.logs), wrong.by_others)


def _plan(directory: str, logs: Sequence[str], findings: Iterable[Finding]) -> Plan:
    partition = PartitionDir(directory, LogDir(above(directory)))  # an empty path: names as the user wrote them
    listing = partition.listing
    names, known = names_of(listing), list(findings)
    if len(known) > MOST_ERRORS:
        raise RefusedError(f"{directory or '.'}: other files contradict more than {MOST_ERRORS:,} batches: restore it")
    bases = log_bases(names)
    if logs:
        demand_finished(directory, names)  # what is wrong is told of what such files become
    changes: list[Change] = []
    refused: list[str] = []
    end = end_before = None
    for name in logs:
        path = os.path.join(directory, name)
        found = parse_name(name)
        if not found.is_live or found.kind is not FileKind.LOG:
            raise RefusedError(f"{path}: is not a log with the name that a broker gives it, <20 digits>.log")
        source = open_source(path, follow=False)
        if isinstance(source, OpenFailure):
            raise RefusedError(source.sentence)
        with source:
            before = _state(directory, name)
            base = found.base_offset or 0
            around = partition.epochs_around(base)
            headers = HeaderPatches(source, base, listing.next_base(base), around, log_end_by(path, known))
            why = headers.solve(by_checkpoint(path, known))
        refused += [f"{path}: {one}" for one in why]
        if headers.patches and before is not None and not why:
            patches = tuple(sorted(headers.patches.values(), key=lambda one: one.position))
            what = f"{headers.batches} batches" if headers.batches > 1 else "1 batch"
            changes.append(Change(name, "patch", before, before.size, name, patches=patches, why=what))
        if bases and bases[-1] == found.base_offset:
            end, end_before = headers.end, headers.end_before
    return Plan(
        "patch-header",
        directory or ".",
        tuple(changes),
        {},
        names,
        log_end_offset=end,
        log_end_before=end_before,
        refused=tuple(refused),
    )


def _state(directory: str, name: str) -> FileState | None:
    fd = open_directory(directory or ".")
    try:
        return state_of(fd, name)
    finally:
        os.close(fd)
