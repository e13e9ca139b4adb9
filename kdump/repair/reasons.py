"""The findings of a partition directory that decide what a repair changes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.broker.producer.lost_aborts import WITNESS
from kdump.finding import Code, Finding, Severity, Trait
from kdump.format.kinds import FileKind
from kdump.storage.names import parse_name

if TYPE_CHECKING:
    from collections.abc import Iterable

_INDEX_KINDS = (FileKind.INDEX, FileKind.TIMEINDEX, FileKind.TXNINDEX)


class Here:
    """Tells whether a directory is the one that is meant, however it is written.

    Args:
        directory: its path.
    """

    def __init__(self, directory: str) -> None:
        self._real = os.path.realpath(directory)
        self._known: dict[str, bool] = {}  # of many findings most are of one directory

    def __call__(self, directory: str) -> bool:
        """Whether a directory is that one; an empty path is the current directory."""
        if directory not in self._known:
            self._known[directory] = os.path.realpath(directory or ".") == self._real
        return self._known[directory]


class Reasons:
    """Takes findings, and keeps what counts: of each file the first one that says most.

    Args:
        directory: the partition directory; findings about other files are passed over.

    Attributes:
        unsound: the indexes that are missing or wrong, by name, with the first finding of the highest severity.
        wrong_offsets: by the name of a log the position of its first batch whose base offset is wrong.
        witnesses: by the base offset of a segment why its indexes must stay as they are: only they show what was there.
    """

    def __init__(self, directory: str, findings: Iterable[Finding] = ()) -> None:
        self._here = Here(directory)
        self.unsound: dict[str, Finding] = {}
        self.wrong_offsets: dict[str, int] = {}
        self.distrusted: dict[str, Finding] = {}  # snapshots that do not say what the log says
        self.witnesses: dict[int, Finding] = {}
        for finding in findings:
            self.see(finding)

    def see(self, finding: Finding) -> None:
        """Take one finding."""
        directory, name = os.path.split(finding.file)
        if not self._here(directory):
            return
        kind, base = parse_name(name).kind, parse_name(name).base_offset
        if Trait.KEEPS_INDEXES in finding.code.traits and base is not None:
            self.witnesses.setdefault(base, finding)
            return
        if Trait.UNSOUND_SNAPSHOT in finding.code.traits:
            self.distrusted.setdefault(name, finding)
        elif finding.is_misplaced and finding.position is not None:
            self.wrong_offsets[name] = min(finding.position, self.wrong_offsets.get(name, finding.position))
        elif finding.values.get("remedy") == WITNESS:
            return
        elif kind in _INDEX_KINDS and (finding.severity is not Severity.NOTE or finding.code is Code.F09):
            known = self.unsound.get(name)
            if known is None or (known.severity, finding.severity) == (Severity.WARNING, Severity.ERROR):
                self.unsound[name] = finding
