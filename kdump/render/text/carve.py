"""What carve finds, as text: one run a line on stdout, findings and what comes next on stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.dispatch import takes
from kdump.finding import Finding
from kdump.render.sink import Sink
from kdump.render.text.findings import finding_line
from kdump.rows.carved import CarvedRun
from kdump.words.command import command_line, named
from kdump.words.escape import escape
from kdump.words.numbers import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.tally import Tally


class CarveText(Sink):
    """Writes runs as lines.

    Args:
        write: takes text for stdout.
        error: takes one line for stderr.
        tally: adds up.
        to: the directory of the runs, as the user wrote it.
        is_seen: stderr is a terminal: commands stand on lines of their own.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        error: Callable[[str], None],
        tally: Tally,
        to: str,
        *,
        is_seen: bool = False,
    ) -> None:
        super().__init__(write, error, tally)
        self._tally = tally
        self._to = to
        self._is_seen = is_seen
        self._runs = self._owned = self._records = 0

    @takes(CarvedRun)
    def _run(self, run: CarvedRun) -> None:
        self._runs += 1
        self._records += run.records
        self._owned += run.partition is not None
        self._write(f"{escape(_line(run))}\n")

    @takes(Finding)
    def _finding(self, finding: Finding) -> None:
        self._error(finding_line(finding))

    def end(self, _status: int) -> None:
        """Say what all comes to, and what comes next."""
        tally = self._tally
        self._write(
            f"found {counted(self._runs, 'run')}, {counted(tally.batches, 'batch', 'batches')}, "
            f"{counted(self._records, 'record')} in {counted(tally.files, 'image')}, {counted(tally.bytes, 'byte')}; "
            f"{counted(self._owned, 'run')} of a known partition\n"
        )
        if not self._runs:
            return
        steps: list[str] = [command_line("salvage", named(self._to), "--to", "DIR")] if self._owned else []
        if self._owned < self._runs:
            # a name for the whole directory would make one partition of the runs of many
            runs = command_line("salvage", f"{named(self._to)}/RUN...", "--to", "DIR", "--name", "TOPIC-N")
            steps += ["for the runs of one partition:", runs]
        head = f"kdump: the runs are in {self._to}; next:"
        if self._is_seen:
            for line in (head, *(f"  {step}" for step in steps)):
                self._error(line)
        else:
            self._error(f"{head} {'; '.join(steps).replace(':; ', ': ')}")


def _line(run: CarvedRun) -> str:
    parts = [
        f"{run.file}: {run.image}:{run.position}+{run.length}",
        f"offsets {run.offset}..{run.last_offset}",
        counted(run.batches, "batch", "batches"),
        counted(run.records, "record"),
        f"{'epoch' if len(run.epochs) == 1 else 'epochs'} {' '.join(map(str, run.epochs)) or 'unknown'}",
        f"{run.kind} of {run.topic_partition}" if run.topic_partition else f"{run.kind}, partition unknown",
    ]
    if len(run.extents) > 1:
        parts.append(f"in {len(run.extents)} pieces")
    return ", ".join(parts) + (f": {'; '.join(run.evidence)}" if run.evidence else "")
