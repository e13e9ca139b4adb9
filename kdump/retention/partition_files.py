"""The files of a partition directory: their names, listed once, and single facts from them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding, Severity
from kdump.format.batch import layout
from kdump.format.batch.walk import CheckedWalk
from kdump.format.index.offset_and_time import OffsetIndex
from kdump.format.index.transaction_index import TransactionIndex
from kdump.storage.file_source import DoorProblem, FileSource, open_source
from kdump.storage.names import log_bases, parse_partition
from kdump.storage.partition import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.format.index.transaction_index import AbortedTxn
    from kdump.format.source import Source
    from kdump.storage.checkpoints import LogDirectory

_TIME_SLOT = 12
_NO_TIME = -1


class PartitionFiles:
    """A partition directory.

    Args:
        path: of the directory, as the user wrote it.
        around: its log directory.
        report: takes what is wrong.
        max_batch_bytes: a larger batch is not held in memory.

    Attributes:
        path, around, report, max_batch_bytes: the same.
        name: of the directory.
        topic: None where the name tells none.
        key: topic and partition; None where the name tells none.
        is_clean: a broker has closed the log directory in order, and goes by that.
        names: of all files.
        bases: base offsets, ascending; empty where there is no segment.
        log_start: the log start offset, for `aborted`.

    Reports: F08, and all that the checked walk does.

    Raises:
        UnreadableError: what cannot be left out cannot be read.
    """

    def __init__(
        self,
        path: str,
        around: LogDirectory,
        report: Callable[[Finding | DoorProblem], None],
        max_batch_bytes: int,
    ) -> None:
        self.path = path
        self.name = os.path.basename(os.path.abspath(path))
        parsed = parse_partition(self.name)
        self.topic = parsed.topic if parsed is not None else None
        self.key = (parsed.topic, parsed.partition) if parsed is not None else None
        self.is_clean = around.is_clean and not (parsed is not None and parsed.is_raft_log)
        self.around = around
        self.report = report
        self.max_batch_bytes = max_batch_bytes
        self.log_start = 0
        self._prefix = os.path.join(path, "")
        try:
            self.names = frozenset(os.listdir(path))
        except OSError as error:
            raise UnreadableError(
                DoorProblem(path, "permission", f"{path}: cannot be listed: {error.strerror}")
            ) from None
        self.bases = log_bases(self.names)
        self._open: tuple[int, FileSource] | None = None
        self._explained: set[int] = set()

    def file(self, number: int, suffix: str) -> str:
        """Return the path of a file of a segment."""
        return f"{self._prefix}{self.bases[number]:020}.{suffix}"

    def has(self, number: int, suffix: str) -> bool:
        """Whether a segment has such a file."""
        return f"{self.bases[number]:020}.{suffix}" in self.names

    # --- one file ---------------------------------------------------------------------------------------------
    def opened(self, number: int, suffix: str) -> FileSource:
        """Open a file of a segment.

        Raises:
            UnreadableError: it cannot be.
        """
        source = open_source(self.file(number, suffix), follow=False)
        if isinstance(source, DoorProblem):
            raise UnreadableError(source)
        return source

    def explain(self, source: Source, number: int) -> None:
        """Report what is wrong with a log, once."""
        if number in self._explained:
            return
        self._explained.add(number)
        walk = CheckedWalk(source, self.report, segment=self.bases[number], max_batch_bytes=self.max_batch_bytes)
        for _ in walk.windows():
            pass

    def first_timestamp(self, number: int) -> int:
        """Return the largest timestamp of the first batch of a segment, -1 where there is none."""
        head = self.log(number).read_at(0, layout.RECORDS_AT)
        if len(head) <= layout.HEADER_UP_TO_MAGIC or head[layout.MAGIC_AT] == 0:
            return _NO_TIME
        is_new = head[layout.MAGIC_AT] >= layout.MAGIC_V2
        at = layout.MAX_TIMESTAMP_AT if is_new else layout.LEGACY_TIMESTAMP_AT
        return int.from_bytes(head[at : at + 8], "big", signed=True) if len(head) >= at + 8 else _NO_TIME

    def index_size(self, number: int, suffix: str) -> int:
        """Return the size of an index, bytes; 0 without one."""
        if not self.has(number, suffix):
            return 0
        slot = 8 if suffix == "index" else _TIME_SLOT
        with self.opened(number, suffix) as source:
            return source.size // slot * slot

    # --- what the cleaner reads -------------------------------------------------------------------------------
    def log(self, number: int) -> Source:
        """Return the log; it stays open until the next is asked for.

        Raises:
            UnreadableError: it cannot be opened.
        """
        if self._open is None or self._open[0] != number:
            self.close()
            self._open = number, self.opened(number, "log")
        return self._open[1]

    def close(self) -> None:
        """Close what is open."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def position(self, number: int, offset: int) -> int:
        """Return where the offset index says to look for an offset."""
        if not self.has(number, "index"):
            return 0
        with self.opened(number, "index") as source:
            return OffsetIndex(source, self.bases[number]).lookup(offset).position

    def aborted(self, number: int, upper_bound: int) -> Iterator[AbortedTxn]:
        """Return the aborted transactions from a segment on that begin below an offset.

        Source: LocalLog.collectAbortedTransactions, TransactionIndex.collectAbortedTxns.
        """
        for later in range(number, len(self.bases)):
            if not self.has(later, "txnindex"):
                continue
            with self.opened(later, "txnindex") as source:
                for one in TransactionIndex(source, self.bases[later]):
                    if one.last_offset >= self.log_start and one.first_offset < upper_bound:
                        yield one
                    if one.last_stable_offset >= upper_bound:
                        return

    def check_names(self) -> None:
        """Report the files that change the segments when a broker starts."""
        for name in sorted(name for name in self.names if name.endswith(".swap")):
            why = "compaction or a split was about to finish: a broker puts it in the place of what it covers"
            self.report(
                Finding(
                    Code.F08,
                    os.path.join(self.path, name),
                    values={"why": why},
                    severity_override=Severity.WARNING,
                )
            )
