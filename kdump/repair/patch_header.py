"""What `kdump patch-header` would do: fields of batch headers outside the CRC that can have one value only.

A base offset is determined by both neighbours, or by one when a single bit makes the difference; a length and a magic
by the CRC, which is right with one value of them; a leader epoch by both neighbours, or by the checkpoint between them,
and the checkpoint must not contradict. What the checked walk says of the log as it is decides, and then what it says of
the log as it would be: nothing about these fields, and nothing new.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding, Severity
from kdump.format.batch import layout
from kdump.format.batch.header_fields import Overlay, Patch, is_of_header, patch_of, within_checkpoint
from kdump.format.batch.walk import CheckedWalk
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

    from kdump.format.source import Source

_ROUNDS = 8  # a field that is put right can show the next one
_MAX_BATCH = 64 * 1024 * 1024
_MOST_ERRORS = 100_000  # of one log; they are held


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
        headers = _Headers(source, found.base_offset or 0)
        checkpoint = _by_checkpoint(name, findings)
        refused = headers.solve(checkpoint) or _contradicted(headers, checkpoint)
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
        log_end_before=headers.end_before if is_last else None,
        refused=tuple(f"{path}: {why}" for why in refused),
    )


class _Headers:
    """The headers of one log, as they are and as they would be.

    Attributes:
        patches: by position and field.
        end: the offset after the last batch.
        end_before: that of the log as it is.
    """

    def __init__(self, source: Source, base: int) -> None:
        self._source = source
        self._base = base
        self.patches: dict[int, Patch] = {}
        self.end: int | None = None
        self.end_before: int | None = None
        self._positions: set[int] = set()

    @property
    def batches(self) -> int:
        """How many batches have a patch."""
        return len(self._positions)

    def solve(self, checkpoint: dict[int, Finding]) -> list[str]:
        """Find all patches; return why that cannot be done.

        Args:
            checkpoint: by the position of a batch, what the leader-epoch-checkpoint says of it.
        """
        first = others = self._walk()
        for _ in range(_ROUNDS):
            if len(others) > _MOST_ERRORS:
                return [f"the log has more than {_MOST_ERRORS:,} errors: restore the replica"]
            wrong = [_bounded(one, checkpoint) for one in others if is_of_header(one)]
            if not wrong:
                return self._new(first, others)
            refused = [_ambiguous(one) for one in wrong if not isinstance(one.expected, int)]
            if refused:
                return refused
            for finding in wrong:
                self._patch(finding)
            others = self._walk()
        return ["with the values that the neighbours suggest other headers look wrong: none is patched"]

    def _walk(self) -> list[Finding]:
        found: list[Finding] = []
        log = Overlay(self._source, self.patches.values())

        def keep(finding: Finding) -> None:
            if finding.severity is Severity.ERROR or is_of_header(finding):
                found.append(finding)

        walk = CheckedWalk(log, keep, segment=self._base, max_batch_bytes=_MAX_BATCH)
        for _ in walk.windows():
            if len(found) > _MOST_ERRORS:
                break
        last = walk.checks.offsets.last
        self.end = self._base if last is None else last + 1
        self.end_before = self.end if self.end_before is None else self.end_before
        return found

    def _patch(self, finding: Finding) -> None:
        assert finding.position is not None
        patch = patch_of(finding, self._source)
        self._positions.add(finding.position)
        self.patches[patch.position] = patch

    def _new(self, before: list[Finding], after: list[Finding]) -> list[str]:
        """Refuse when the log would have faults that it does not have now."""
        if not self.patches:
            return []
        known = {(one.code, one.position) for one in before}
        new = [one for one in after if one.severity is Severity.ERROR and (one.code, one.position) not in known]
        return [f"with the values that the neighbours suggest, byte {one.position}: {one.message}" for one in new[:1]]


def _ambiguous(finding: Finding) -> str:
    why = f"{finding.field} {finding.found} of the batch at byte {finding.position} is wrong"
    return f"{why}, and nothing determines what it was; another replica has it"


def _by_checkpoint(name: str, findings: Iterable[Finding]) -> dict[int, Finding]:
    return {
        one.position: one
        for one in findings
        if one.code is Code.E03 and os.path.basename(one.file) == name and one.position is not None
    }


def _bounded(finding: Finding, checkpoint: dict[int, Finding]) -> Finding:
    known = checkpoint.get(-1 if finding.position is None else finding.position)
    epoch = None if known is None else known.expected
    return within_checkpoint(finding, epoch if isinstance(epoch, int) else None)


def _contradicted(headers: _Headers, checkpoint: dict[int, Finding]) -> list[str]:
    """Refuse where the leader-epoch-checkpoint says something else than the neighbours: one of them is wrong."""
    for position, finding in checkpoint.items():
        patch = headers.patches.get(position + layout.LEADER_EPOCH_AT)
        value = finding.found if patch is None else int.from_bytes(patch.new, "big", signed=True)
        if value != finding.expected:
            why = f"the batches around byte {position} have leader epoch {value}"
            return [f"{why}, and the leader-epoch-checkpoint has {finding.expected}: nothing tells which is right"]
    return []
