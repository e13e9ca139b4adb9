"""The plan of `kdump patch-header`: header fields outside the CRC for which only one value is possible.

A base offset is determined by both neighbours, or by one when a single bit makes the difference; a length and a magic
by the CRC, which is right with one value of them; a leader epoch by both neighbours, or by the checkpoint between them,
and the checkpoint must not contradict. What the checked walk says of the log as it is decides, and then what it says of
the log as it would be: nothing about these fields, and nothing new.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding, Severity
from kdump.format.batch import layout
from kdump.format.batch.walk import CheckedWalk
from kdump.format.kinds import FileKind
from kdump.repair.errors import RefusedError
from kdump.repair.file_state import open_directory, state_of
from kdump.repair.plan import Change, Patch, Plan, names_of
from kdump.storage.directory import DirectoryListing
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import log_bases, parse_name
from kdump.storage.open_files import open_source

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kdump.format.source import Source

_PLACES = {
    "baseOffset": (layout.OFFSET_AT, 8),
    "batchLength": (layout.SIZE_AT, 4),
    "partitionLeaderEpoch": (layout.LEADER_EPOCH_AT, 4),
    "magic": (layout.MAGIC_AT, 1),
}
_CODES = {
    Code.O01, Code.O02, Code.O03, Code.E01, Code.E02, Code.B03, Code.B04, Code.L05, Code.L06, Code.L07, Code.L08,
}  # fmt: skip
_ROUNDS = 8  # a field that is put right can show the next one
_MAX_BATCH = 64 * 1024 * 1024
_MOST_ERRORS = 100_000  # of one log; they are held


def plan_patches(path: str, findings: Iterable[Finding]) -> Plan:
    """Return what would be done to the headers of one log.

    Args:
        path: of the log, as the user wrote it.
        findings: what its surroundings say of it: those about the leader-epoch-checkpoint count.

    Raises:
        RefusedError: it is not a log with the name that a broker gives one, or cannot be read.
        OSError: it cannot be read to its end.
    """
    directory, name = os.path.split(path)
    found = parse_name(name)
    if not found.is_live or found.kind is not FileKind.LOG:
        raise RefusedError(f"{path}: is not a log with the name that a broker gives it, <20 digits>.log")
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
        """The number of batches with a patch."""
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
        assert isinstance(finding.expected, int)
        at, size = _PLACES[str(finding.field)]
        position = finding.position + at
        old = self._source.read_at(position, size)
        self._positions.add(finding.position)
        self.patches[position] = Patch(position, old, finding.expected.to_bytes(size, "big", signed=True))

    def _new(self, before: list[Finding], after: list[Finding]) -> list[str]:
        """Refuse when the log would have faults that it does not have now."""
        if not self.patches:
            return []
        known = {(one.code, one.position) for one in before}
        new = [one for one in after if one.severity is Severity.ERROR and (one.code, one.position) not in known]
        return [f"with the values that the neighbours suggest, byte {one.position}: {one.message}" for one in new[:1]]


def is_of_header(finding: Finding) -> bool:
    """Tell whether a field of a header is wrong that no CRC covers, or that the CRC itself determines."""
    if finding.code is Code.B02:
        return finding.field == "magic"
    is_length = finding.code in (Code.L05, Code.L06, Code.L07, Code.L08)
    return finding.code in _CODES and not (is_length and finding.gap)


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
    """The epoch between two others that the checkpoint names."""
    known = checkpoint.get(-1 if finding.position is None else finding.position)
    if finding.code not in (Code.E01, Code.E02) or finding.expected is not None or known is None:
        return finding
    before, after = finding.values.get("before"), finding.values.get("after")
    if not (isinstance(before, int) and isinstance(after, int) and isinstance(known.expected, int)):
        return finding
    return finding.replace(expected=known.expected) if before <= known.expected <= after else finding


def _contradicted(headers: _Headers, checkpoint: dict[int, Finding]) -> list[str]:
    """Refuse where the leader-epoch-checkpoint says something else than the neighbours: one of them is wrong."""
    for position, finding in checkpoint.items():
        patch = headers.patches.get(position + layout.LEADER_EPOCH_AT)
        value = finding.found if patch is None else int.from_bytes(patch.new, "big", signed=True)
        if value != finding.expected:
            why = f"the batches around byte {position} have leader epoch {value}"
            return [f"{why}, and the leader-epoch-checkpoint has {finding.expected}: nothing tells which is right"]
    return []


class Overlay:
    """A source with some of its bytes replaced.

    Args:
        source: the file.
        patches: what replaces them.
    """

    def __init__(self, source: Source, patches: Iterable[Patch]) -> None:
        self.name, self.size = source.name, source.size
        self._source = source
        self._patches = sorted(patches, key=lambda one: one.position)
        self._ends = [one.position + len(one.new) for one in self._patches]  # they do not overlap

    def read_at(self, position: int, length: int) -> bytes:
        """Return the bytes [position, position + length), fewer only at the end."""
        data = bytearray(self._source.read_at(position, length))
        self._put(position, memoryview(data), len(data))
        return bytes(data)

    def read_into(self, position: int, target: memoryview) -> int:
        """Fill `target` from `position` on; return how many bytes there were."""
        done = self._source.read_into(position, target)
        self._put(position, target, done)
        return done

    def next_data(self, position: int) -> int:
        """Return the first position at or after `position` that is not in a hole, `size` when there is none."""
        return self._source.next_data(position)

    def _put(self, position: int, target: memoryview, size: int) -> None:
        for one in self._patches[bisect_right(self._ends, position) :]:
            if one.position >= position + size:
                return
            first, last = max(one.position, position), min(one.position + len(one.new), position + size)
            if first < last:
                target[first - position : last - position] = one.new[first - one.position : last - one.position]
