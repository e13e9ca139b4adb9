"""What is to be done about files that lie in no partition: where they stop a start, before all else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.checks.step_sentences import PersonSteps, StepKind
from kdump.checks.step_table import RunState, block_of
from kdump.finding import Severity
from kdump.rows.steps import NONE
from kdump.storage.paths import parent, real

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kdump.checks.mendable import FileRepair
    from kdump.checks.step_table import PartitionState
    from kdump.finding import Finding
    from kdump.storage.log_dir import LogDir


class RunSteps:
    """Gathers what is known of the partitions, and what is wrong beside them."""

    def __init__(self) -> None:
        self._states: list[PartitionState] = []
        self._beside = PersonSteps()  # what stops no start
        self._stops: dict[str, PersonSteps] = {}  # what stops one, by log directory

    def add(self, state: PartitionState) -> None:
        """Take what is known of a partition in which something is to be done."""
        self._states.append(state)

    def see(self, finding: Finding) -> None:
        """Take a finding about a file, or a directory, of a log directory itself: a broker does not start by an error.

        Args:
            finding: its file lies in the log directory.
        """
        if finding.severity is Severity.ERROR:
            log_dir = real(parent(finding.file))
            self._stops.setdefault(log_dir, PersonSteps(StepKind.MEND)).see(finding)
        else:
            self._beside.see(finding)

    def state(self, log_dirs: Sequence[LogDir]) -> RunState:
        """Return what is known of all: what stops the start of a partition comes first in its block.

        Where nothing else is to be done in a log directory, or there are several blocks, that is a block of its own.

        Args:
            log_dirs: those that the user has named, or named something in.
        """
        known = []
        repairing = self._repairing(log_dirs)
        stops = {log_dir: list(persons.moves(repairing=repairing)) for log_dir, persons in self._stops.items()}
        told = set()
        places = [(real(parent(one.path)), block_of(one)) if stops else ("", None) for one in self._states]
        blocks: dict[str, set[object]] = {}  # of each log directory
        for log_dir, block in places:
            if block is not None:
                blocks.setdefault(log_dir, set()).add(block)
        for one, (log_dir, block) in zip(self._states, places, strict=True):
            is_here = log_dir in stops and block is not None and len(blocks[log_dir]) == 1
            before = [each.replace(keeps=one.keeps, loses=NONE) for each in stops[log_dir]] if is_here else []
            told.update([log_dir] if before else [])
            moves = (*before, *one.moves)
            known.append(one.replace(moves=moves, fails_by_file=True) if before else one)
        rest = (each for log_dir, moves in stops.items() if log_dir not in told for each in moves)
        return RunState(tuple(known), (*rest, *self._beside.moves(repairing=repairing)))

    def _repairing(self, log_dirs: Sequence[LogDir]) -> Callable[[Finding, str], FileRepair | None]:
        """What tells how `kdump repair` mends a file of a log directory."""

        def repairing(finding: Finding, file: str) -> FileRepair | None:
            from kdump.checks.mendable import file_repair  # few have any

            return file_repair(finding, file, log_dirs, unsafe)

        # what a broker was about to append is in nobody's way
        damaged = (
            one for one in self._states if one.harm or one.has_read_error or (one.is_damaged and not one.starts_well)
        )
        unsafe = {real(parent(one.path)) for one in damaged}
        return repairing
