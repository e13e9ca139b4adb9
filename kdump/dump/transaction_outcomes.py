"""The outcome of each transaction: committed, aborted or open, for `dump --committed` and `--aborted`.

Strategy: what a batch comes to is said by the next marker of its producer, which lies after it. So the logs are walked
through once before they are shown, further than they are shown where transactions are open at their end, into the
segments beside them. Where the marker is lost the .txnindex may still say that it was an abort. What is kept are the
ranges of aborted transactions and the beginning of open ones; what is not among them was committed.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING

from kdump.broker.producer.end_markers import Marker, read_markers
from kdump.dump.checked import open_walk
from kdump.dump.input_file import InputFile
from kdump.finding import Code, Finding
from kdump.format.batch import layout
from kdump.format.index.transaction_index import TransactionIndex
from kdump.format.record import _select
from kdump.format.record.chunk import KEPT
from kdump.format.record.reader import RecordReader
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import FileKind, parse_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.compat.dump_log_segments_options import DumpOptions
    from kdump.format.batch.window import Window

COMMITTED = "committed"
ABORTED = "aborted"
OPEN = "open"
_FLAGS = layout.TRANSACTIONAL_FLAG | layout.CONTROL_FLAG


class Outcomes:
    """Knows what became of the transactions in the logs of one directory.

    Args:
        logs: in order; the later segments of the directory are looked into as needed.
        options: limits.

    Attributes:
        logs: these, and the segments after them.
    """

    def __init__(self, logs: Sequence[InputFile], options: DumpOptions) -> None:
        self.logs = [*logs, *_later(logs[-1])]
        self._options = options
        self._numbers = {log.path: number for number, log in enumerate(self.logs)}
        self._reader = RecordReader(options.max_uncompressed_bytes, max_batch=options.max_batch_bytes, cut=KEPT)
        self._walked = 0  # logs
        self._running: dict[int, tuple[int, int]] = {}  # producer: number of the log, first offset
        self._aborted: dict[int, array[int]] = {}  # producer: first and last offset of each, ascending
        self._last_seen: dict[int, tuple[str, int]] = {}  # open transactions that were met in what is shown

    def window(self, path: str, window: Window, wanted: str) -> Window:
        """Return the batches with an outcome. Markers have none; what is in no transaction is committed.

        Args:
            path: of the log.
            window: batches of it.
            wanted: "committed" or "aborted".
        """
        in_question = set(_select.with_any(window.rows, window.count, _FLAGS))
        if not in_question and wanted == COMMITTED:
            return window
        if in_question:
            self._walk_until_known(self._numbers[path])
        width = layout.BATCH_WIDTH
        kept = array("q")
        for k in range(window.count) if wanted == COMMITTED else sorted(in_question):
            outcome = self._outcome(path, window, k) if k in in_question else COMMITTED
            if outcome == wanted:
                kept.extend(window.rows[k * width : (k + 1) * width])
        return window.some(kept, len(kept) // width)

    def of(self, path: str, window: Window, k: int) -> str | None:
        """Return what became of the transaction of a batch; None for a marker, and for what is in none.

        Args:
            path: of the log.
            window: batches of it.
            k: number of the batch.
        """
        flags = window.cell(k, layout.ATTRIBUTES) & _FLAGS
        if window.cell(k, layout.MAGIC) < layout.MAGIC_V2 or flags != layout.TRANSACTIONAL_FLAG:
            return None
        self._walk_until_known(self._numbers[path])
        return self._outcome(path, window, k)

    def know_all(self) -> None:
        """Walk through all logs now: a process that is forked later knows what was found."""
        self._walk_until_known(len(self.logs))

    def met(self, seen: dict[int, tuple[str, int]] | None = None) -> dict[int, tuple[str, int]]:
        """Return the open transactions that were met in what is shown, and go on with others.

        Args:
            seen: they; None for none.
        """
        met, self._last_seen = self._last_seen, seen or {}
        return met

    def open_transactions(self) -> Iterator[Finding]:
        """Yield the transactions of which batches were left out because they have no outcome yet.

        Reports: P04.
        """
        for producer, (path, offset) in self._last_seen.items():
            yield Finding(Code.P04, path, offset=offset, values={"producer": producer})
        self._last_seen.clear()

    def _outcome(self, path: str, window: Window, k: int) -> str:
        if window.cell(k, layout.ATTRIBUTES) & layout.CONTROL_FLAG:
            return "marker"
        producer, offset = window.cell(k, layout.PRODUCER_ID), window.cell(k, layout.BASE_OFFSET)
        ranges = self._aborted.get(producer)
        if ranges is not None:
            at = bisect_right(ranges, offset)
            if at % 2 or (at and ranges[at - 1] == offset):
                return ABORTED
        running = self._running.get(producer)
        if running is None or offset < running[1]:
            return COMMITTED
        self._last_seen.setdefault(producer, (path, running[1]))
        return OPEN

    def _walk_until_known(self, number: int) -> None:
        """Walk through the logs up to one, and on while transactions are open that began up to there."""
        logs = self.logs
        while self._walked < len(logs):
            if self._walked > number and not any(first[0] <= number for first in self._running.values()):
                return
            self._walk(self._walked, logs[self._walked])
            self._walked += 1
            if self._walked == len(logs):
                self._ask_indexes()

    def _walk(self, number: int, log: InputFile) -> None:
        source = log.open()
        if isinstance(source, OpenFailure):
            return  # what ends in it stays open, and is said to
        try:
            walk = open_walk(log, source, self._options, [])
            walk.checks.follow_producers = False
            for window in walk.windows():
                self._step(number, window)
        except OSError:
            return

    def _step(self, number: int, window: Window) -> None:
        picked = _select.with_any(window.rows, window.count, _FLAGS)
        controls = [k for k in picked if _is_trusted_control(window, k)]
        markers = read_markers(self._reader, window, controls) if controls else {}
        for k in picked:
            producer, offset = window.cell(k, layout.PRODUCER_ID), window.cell(k, layout.BASE_OFFSET)
            if not window.cell(k, layout.ATTRIBUTES) & layout.CONTROL_FLAG:
                self._running.setdefault(producer, (number, offset))
                continue
            marker = markers.get(k)
            if not isinstance(marker, Marker):
                continue
            begun = self._running.pop(producer, None)
            if begun is not None and marker.is_abort:
                self._add_aborted(producer, begun[1], offset)

    def _add_aborted(self, producer: int, first: int, last: int) -> None:
        ranges = self._aborted.setdefault(producer, array("q"))
        if not ranges or ranges[-1] < first <= last:
            ranges.extend((first, last))

    def _ask_indexes(self) -> None:
        """Look into the transaction indexes for what is still open at the end of the logs."""
        for log in self.logs if self._running else ():
            opened = log.segment.file(FileKind.TXNINDEX)
            if isinstance(opened, OpenFailure):
                continue
            for entry in TransactionIndex(opened, log.base or 0):
                running = self._running.get(entry.producer_id)
                if running is not None and entry.first_offset <= running[1] <= entry.last_offset:
                    self._add_aborted(entry.producer_id, running[1], entry.last_offset)
                    del self._running[entry.producer_id]


def _is_trusted_control(window: Window, k: int) -> bool:
    is_control = window.cell(k, layout.ATTRIBUTES) & layout.CONTROL_FLAG
    return bool(is_control) and window.cell(k, layout.CRC) == window.cell(k, layout.COMPUTED_CRC)


def _later(log: InputFile) -> list[InputFile]:
    """The segments after a log in its directory, in order."""
    if not log.name.is_live or log.kind is not FileKind.LOG or log.base is None:
        return []
    directory, found = os.path.dirname(log.path), []
    for base in (one for one in log.directory.bases if one > log.base):
        name = f"{base:020}.log"
        path = os.path.join(directory, name)
        found.append(InputFile(path, True, log.directory, parse_name(name), FileKind.LOG, base))
    return found
