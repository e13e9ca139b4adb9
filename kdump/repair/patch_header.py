"""What `kdump patch-header` would do: fields of batch headers outside the CRC that can have one value only."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.format.batch.header_patches import HeaderPatches, by_checkpoint
from kdump.format.kinds import FileKind
from kdump.repair.errors import RefusedError
from kdump.repair.file_state import open_directory, state_of
from kdump.repair.plan import Change, Plan, names_of
from kdump.storage.directory import DirectoryListing
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import log_bases, parse_name
from kdump.storage.open_files import open_source

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kdump.finding import Finding


def plan_patches(path: str, findings: Iterable[Finding]) -> Plan:
    """Return what would be done to the headers of one log.

    Args:
        path: of the log, as the user wrote it.
        findings: what its surroundings say of it: those about the leader-epoch-checkpoint count.

    Raises:
        RefusedError: it is no log with the name that a broker gives one, or cannot be read.
        OSError: it cannot be read to its end.
    """
    directory, name = os.path.split(path)
    found = parse_name(name)
    if not found.is_live or found.kind is not FileKind.LOG:
        raise RefusedError(f"{path}: is no log under the name that a broker gives it, <20 digits>.log")
    source = open_source(path, follow=False)
    if isinstance(source, OpenFailure):
        raise RefusedError(source.sentence)
    with source:
        fd = open_directory(directory or ".")
        try:
            before = state_of(fd, name)
        finally:
            os.close(fd)
        names = names_of(DirectoryListing(directory or "."))
        headers = HeaderPatches(source, found.base_offset or 0)
        refused = headers.solve(by_checkpoint(path, findings))
        patches = tuple(sorted(headers.patches.values(), key=lambda one: one.position))
    changes: tuple[Change, ...] = ()
    if patches and before is not None and not refused:
        why = f"{headers.batches} batches" if headers.batches > 1 else "1 batch"
        changes = (Change(name, "patch", before, before.size, name, patches=patches, why=why),)
    bases = log_bases(names)
    is_last = bool(bases) and bases[-1] == found.base_offset
    return Plan(
        "patch-header",
        directory or ".",
        changes,
        {},
        names,
        log_end_offset=headers.end if is_last else None,
        refused=tuple(f"{path}: {why}" for why in refused),
    )
