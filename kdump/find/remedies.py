"""What to do about what a lookup met: as verify says it, which knows all of the partition.

An index is built again from its log. So a log that is damaged comes first, and where the end of a log is cut off the
index is a witness of what is missing: it is the replica that is restored.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding, Severity, Trait
from kdump.format.batch import layout
from kdump.format.batch.header_fields import is_of_header
from kdump.format.kinds import FileKind
from kdump.ranges import RangeSet
from kdump.storage.names import parse_name
from kdump.storage.segment import sibling

if TYPE_CHECKING:
    from kdump.broker.load.log_state import LogState
    from kdump.storage.partition_dir import PartitionDir

_STEPS = "(kdump verify has the steps)"
_COMMAND = "(kdump verify names the command)"
_WITNESS = "restore the replica before anything is rebuilt: this index is evidence of what its log has lost"


class Remedies:
    """What was met in one partition, and what to do about it.

    Args:
        partition: its segments.
    """

    def __init__(self, partition: PartitionDir) -> None:
        self._partition = partition
        self._logs: dict[str, _Log] = {}
        self._indexes: list[Finding] = []

    def see(self, finding: Finding) -> None:
        """Take a finding; nothing is said about it yet."""
        if Trait.REINDEX in finding.code.traits:
            self._indexes.append(finding)
        elif finding.severity is Severity.ERROR and finding.position is not None:
            if finding.file not in self._logs:
                self._logs[finding.file] = _Log(self._partition, finding.file)
            self._logs[finding.file].see(finding)

    def is_sound(self, log: str) -> bool:
        """Tell whether nothing wrong with a log was met."""
        return log not in self._logs

    def covers(self, log: str, position: int) -> bool:
        """Tell whether a byte of a log is known to be damaged: no index is to blame for what is not found there."""
        return log in self._logs and self._logs[log].lost_bytes.has_any(position, position)

    def reaches(self, log: str, position: int) -> bool:
        """Tell whether bytes of a log at or behind a position are known to be damaged."""
        return log in self._logs and self._logs[log].lost_bytes.has_any(position, layout.LARGEST_OFFSET)

    def told(self, finding: Finding) -> Finding:
        """Return a finding with what has to be done before its remedy."""
        if Trait.REINDEX not in finding.code.traits:
            return finding
        if self._is_witness(finding):
            return finding.replace(values={**finding.values, "remedy": _WITNESS})
        once = self._before(finding)
        return finding.replace(values={**finding.values, "once": once}) if once else finding

    def of_other_answer(self, *, scan: bool, untimed: str | None) -> str:
        """Return what to do about an answer of a broker that is not that of the data.

        Args:
            scan: the user has the answer of the data.
            untimed: the log whose time index is the reason, as it is empty or missing; None for another reason.
        """
        said = []
        wrong = [one for one in self._indexes if not self._is_witness(one)]
        damaged = [path for path, log in self._logs.items() if log.state.damage]
        if any(log.cut is not None for log in self._logs.values()):
            said.append(f"restore the replica, as the end of its log is cut off {_STEPS}")
        if any(log.state.patches for log in self._logs.values()):
            said.append(f"restore the header that is wrong {_COMMAND}")
        if any(not self._before(one) for one in wrong):
            said.append(f"rebuild the index that is wrong {_COMMAND}")
        elif untimed is not None and not wrong:
            log = self._logs.get(untimed)
            once = "" if log is None else log.state.before_reindex
            name = os.path.basename(sibling(untimed, FileKind.TIMEINDEX.value))
            said.append(f"rebuild {name}, {once}" if once else f"rebuild {name} (kdump reindex)")
        last = "a consumer gets the broker's answer" if scan else Code.L13.remedy
        if any(_log_of(one) in damaged for one in wrong):
            said.append(f"mend the damaged log before its index {_STEPS}")
        elif damaged:
            last = f"no index mends a damaged batch: {last}"
        return "; ".join((*said, last))

    def _is_witness(self, finding: Finding) -> bool:
        """Whether an index finding is about what was cut off behind its log."""
        log = self._logs.get(_log_of(finding))
        return log is not None and log.cut is not None and finding.offset is not None and finding.offset >= log.cut

    def _before(self, finding: Finding) -> str:
        """What has to be done before an index is built again; empty for nothing."""
        log = self._logs.get(_log_of(finding))
        return "" if log is None else log.state.before_reindex


class _Log:
    """What was met in one log.

    Args:
        partition: that it belongs to.
        path: as the user wrote it.
    """

    def __init__(self, partition: PartitionDir, path: str) -> None:
        self._partition = partition
        self._path = path
        self._errors: dict[tuple[Code, bool], Finding] = {}  # the first of each code in the log, apart those of headers
        self._judged: LogState | None = None
        self.lost_bytes = RangeSet()  # those that are damaged
        self.cut: int | None = None  # the first offset that was cut off at its end; None where none was

    def see(self, finding: Finding) -> None:
        """Take an error."""
        kind, position = (finding.code, is_of_header(finding)), finding.position or 0
        if kind not in self._errors or position < (self._errors[kind].position or 0):
            self._errors[kind] = finding
            self._judged = None
        if finding.is_log_damage or finding.gap:
            self.lost_bytes.add(position, position + max(1, finding.length or 0) - 1)
        if finding.code is Code.O07:
            self.cut = finding.offset

    @property
    def state(self) -> LogState:
        """What it comes to by all that was met so far."""
        if self._judged is None:
            from kdump.broker.load.log_state import LogState

            base = parse_name(os.path.basename(self._path)).base_offset or 0
            following, around = self._partition.next_base(base), self._partition.epochs_around(base)
            self._judged = LogState(self._path, base, following, around, list(self._errors.values()))
        return self._judged


def _log_of(finding: Finding) -> str:
    """The log that an index belongs to."""
    return sibling(finding.file, "log")
