"""Figures of a run for monitoring: a text file of Prometheus, as its node exporter collects them from a directory.

It is written when a run has come to its end, whatever its exit status, and whole or not at all: who reads it sees the
one run or the other, and a run that did not end shows by the time of the last one that did.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from kdump.dispatch import takes
from kdump.finding import Finding, Severity
from kdump.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DOCS = {
    "kdump_bytes": "Bytes of the files that the run was about.",
    "kdump_read_bytes": "Of these, bytes of files that this run has read: the rest was unchanged since the last one.",
    "kdump_partitions": "Partition directories that were judged.",
    "kdump_rows": "Rows of the tables.",
    "kdump_findings": "Findings by severity and code.",
    "kdump_lost_offsets": "Offsets that readers do not get.",
    "kdump_lost_records": "Records at them, as far as they can be counted.",
    "kdump_unread_files": "Files that could not be read, or not to their end.",
    "kdump_exit_status": "Exit status of the run.",
    "kdump_seconds": "How long the run took.",
    "kdump_last_run_timestamp_seconds": "When the run came to its end.",
}


class RunFigures(Tally):
    """Adds up the figures of one run.

    Args:
        verb: verify, scrub or export.
        table: of an export; None elsewhere.
        replicas: the paths are replicas of each other.

    Attributes:
        read: bytes that were read in this run; None for all of them.
        rows: of tables; None where none are written.
    """

    def __init__(self, verb: str, table: str | None = None, *, replicas: bool = False) -> None:
        super().__init__(replicas=replicas)
        self._labels = {"verb": verb} if table is None else {"verb": verb, "table": table}
        self._began = time.monotonic()
        self._codes: Counter[tuple[str, str]] = Counter()
        self.read: int | None = None
        self.rows: int | None = None

    @takes(Finding)
    def _finding(self, finding: Finding) -> None:
        super()._finding(finding)
        self.found(finding.severity, finding.code.name, 1 + (finding.more or 0))

    def found(self, severity: Severity, code: str, count: int) -> None:
        """Take findings that are known by their number alone."""
        self._codes[severity.value, code] += count

    def through(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yield items as they come, and count."""
        for item in items:
            self.see(item)
            yield item

    def text(self, exit_status: int) -> str:
        """Return all figures in the format of Prometheus.

        Args:
            exit_status: of the run.
        """
        values: dict[str, float | None] = {
            "kdump_bytes": self.bytes,
            "kdump_read_bytes": self.bytes if self.read is None else self.read,
            "kdump_partitions": self.partitions,
            "kdump_rows": self.rows,
            "kdump_lost_offsets": self.offsets_lost,
            "kdump_lost_records": self.records_lost,
            "kdump_unread_files": len(self.unchecked),
            "kdump_exit_status": int(exit_status),
            "kdump_seconds": round(time.monotonic() - self._began, 3),
            "kdump_last_run_timestamp_seconds": round(time.time(), 3),
        }
        lines: list[str] = []
        for name, doc in _DOCS.items():
            samples = [(self._labels, values[name])] if name in values else self._by_code()
            told = [f"{name}{_braced(labels)} {value}" for labels, value in samples if value is not None]
            lines += [f"# HELP {name} {doc}", f"# TYPE {name} gauge", *told] if told else []
        return "\n".join(lines) + "\n"

    def _by_code(self) -> list[tuple[dict[str, str], float]]:
        """Findings; those of each severity together with 0 where there are none, so that an alert has a series."""
        total = [({**self._labels, "severity": one.value, "code": ""}, 0) for one in Severity]
        found = sorted(self._codes.items())
        known = [({**self._labels, "severity": severity, "code": code}, count) for (severity, code), count in found]
        met = {severity for severity, _ in self._codes}
        return [*(one for one in total if one[0]["severity"] not in met), *known]


def _braced(labels: dict[str, str]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"  # no value has a quote


def write_whole(path: str, text: str) -> None:
    """Write a file as a whole, in the place of what has its name; a link is replaced, and not followed.

    Args:
        path: of the file; its directory must be there.
        text: ASCII.

    Raises:
        OSError: it cannot be written; what had its name is as it was.
    """
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{os.urandom(4).hex()}.tmp")  # the node exporter takes *.prom
    fd = os.open(temporary, _NEW, 0o644)
    try:
        with os.fdopen(fd, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)  # noqa: PTH105 (paths stay text)
    except BaseException:
        os.unlink(temporary)  # noqa: PTH108 (paths stay text)
        raise
