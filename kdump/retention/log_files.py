"""The files of the segments of a partition that retention and the cleaner read, and single facts from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Code, Finding, Severity
from kdump.format.batch import layout
from kdump.format.batch.walk import CheckedWalk
from kdump.format.index.offset_and_time import OffsetIndex, TimeIndex
from kdump.format.index.transaction_index import TransactionIndex
from kdump.format.kinds import FileKind
from kdump.storage.file_source import DoorProblem
from kdump.storage.names import SWAP
from kdump.storage.segment import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.format.index.transaction_index import AbortedTxn
    from kdump.format.source import Source
    from kdump.storage.open_files import CachedFile
    from kdump.storage.partition_dir import PartitionDir

_NO_TIME = -1


class LogFiles:
    """The files of the segments of a partition, as retention and the cleaner read them.

    Args:
        directory: of the partition.
        report: takes what is wrong.
        max_batch_bytes: a larger batch is not held in memory.

    Attributes:
        directory, report, max_batch_bytes: the same.
        path, name, log_dir: of the directory.
        topic: None where the name tells none.
        key: topic and partition; None where the name tells none.
        bases: base offsets, ascending; empty where there is no segment.
        log_start: the log start offset, for `aborted`.

    Reports: F08, and all that the checked walk does.

    Raises:
        UnreadableError: what cannot be left out cannot be read.
    """

    def __init__(
        self, directory: PartitionDir, report: Callable[[Finding | DoorProblem], None], max_batch_bytes: int
    ) -> None:
        directory.demand_listing()
        self.directory = directory
        self.path = directory.path
        self.name = directory.name
        self.key = directory.key
        self.topic = self.key[0] if self.key is not None else None
        self.log_dir = directory.log_dir
        self.bases = directory.bases
        self.report = report
        self.max_batch_bytes = max_batch_bytes
        self.log_start = 0
        self._explained: set[int] = set()

    def file(self, number: int, kind: FileKind) -> str:
        """Return the path of a file of a segment."""
        return self.directory.path_of(self.bases[number], kind)

    def has(self, number: int, kind: FileKind) -> bool:
        """Whether a segment has such a file."""
        return self.directory.has(self.bases[number], kind)

    # --- one file ---------------------------------------------------------------------------------------------
    def opened(self, number: int, kind: FileKind) -> CachedFile:
        """Open a file of a segment.

        Raises:
            UnreadableError: it cannot be.
        """
        source = self.directory.cache.open(self.file(number, kind), follow=False)
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

    def index_size(self, number: int, kind: FileKind) -> int:
        """Return the bytes of the whole entries of an index; 0 without one."""
        if not self.has(number, kind):
            return 0
        slot = OffsetIndex.entry_size if kind is FileKind.INDEX else TimeIndex.entry_size
        return self.opened(number, kind).size // slot * slot

    # --- what the cleaner reads -------------------------------------------------------------------------------
    def log(self, number: int) -> CachedFile:
        """Return the log.

        Raises:
            UnreadableError: it cannot be opened.
        """
        return self.opened(number, FileKind.LOG)

    def position(self, number: int, offset: int) -> int:
        """Return where the offset index says to look for an offset."""
        if not self.has(number, FileKind.INDEX):
            return 0
        return OffsetIndex(self.opened(number, FileKind.INDEX), self.bases[number]).lookup(offset).position

    def aborted(self, number: int, upper_bound: int) -> Iterator[AbortedTxn]:
        """Return the aborted transactions from a segment on that begin below an offset.

        Source: LocalLog.collectAbortedTransactions, TransactionIndex.collectAbortedTxns.
        """
        for later in range(number, len(self.bases)):
            if not self.has(later, FileKind.TXNINDEX):
                continue
            for one in TransactionIndex(self.opened(later, FileKind.TXNINDEX), self.bases[later]):
                if one.last_offset >= self.log_start and one.first_offset < upper_bound:
                    yield one
                if one.last_stable_offset >= upper_bound:
                    return

    def check_names(self) -> None:
        """Report the files that change the segments when a broker starts."""
        for name in sorted(name for name in self.directory.listing.names if name.endswith(".swap")):
            path = self.directory.listing.join(name)
            self.report(Finding(Code.F08, path, values={"why": SWAP}, severity_override=Severity.WARNING))
