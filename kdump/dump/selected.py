"""`dump` of what is selected: the logs that can have it, from where their indexes say, and nothing else.

Strategy: segments are passed over by their names, the beginning of a segment by its indexes (`Starts`), batches by
their headers and records by their columns (`Filter`). The last records are found by counting in growing ends of the
logs, from back to front, so nothing has to be remembered of them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.dump.checked import identify, input_files
from kdump.dump.selected_log import SelectedLog
from kdump.dump.selection import Filter, Selection
from kdump.storage.file_source import DoorProblem
from kdump.storage.names import FileKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.compat.dump_log_segments_options import DumpOptions
    from kdump.dump.checked import InputFile
    from kdump.dump.selected_log import Tail
    from kdump.dump.transaction_outcomes import Outcomes
    from kdump.item import Item


class SelectedDump:
    """Dumps what is selected of the logs among some files.

    Args:
        options: what was asked for, with a selection.
        selection: the same selection.
    """

    def __init__(self, options: DumpOptions, selection: Selection) -> None:
        self._options = options
        self._selection = selection
        self._filter = Filter(selection, deep=options.deep)
        self._stopped = False

    def files(self, paths: list[str]) -> Iterator[Item]:
        """Yield the items of all logs, in order; what cannot be read is a DoorProblem among them.

        Args:
            paths: files and directories, as the user wrote them.

        Reports: as findings among the items, what is wrong with what is read, and with the indexes that are used.
        """
        logs: list[InputFile] = []
        others: list[str] = []
        for place in input_files(paths):
            file = place if isinstance(place, DoorProblem) else self._identify(place)
            if isinstance(file, DoorProblem):
                yield from self._partition(logs)
                logs = []
                if not self._stopped:
                    yield file
            elif file.is_log:
                if logs and os.path.dirname(logs[-1].path) != os.path.dirname(file.path):
                    yield from self._partition(logs)
                    logs = []
                logs.append(file)
            elif file.follow:
                others.append(file.path)
            if self._stopped:
                return
        yield from self._partition(logs)
        if others and not self._stopped:
            count = f"{len(others)} files without batches are not shown" if len(others) > 1 else "not shown"
            why = f"{others[0]}: {count}: only logs have what can be selected"
            yield DoorProblem(others[0], "skipped", why)

    def _identify(self, unknown: InputFile) -> InputFile | DoorProblem:
        """What a file is, or why it cannot be read: what has no batches is not opened again."""
        file = identify(unknown, self._options)
        if not isinstance(file, DoorProblem) and file.is_log:
            return file
        opened = unknown.open()
        return opened if isinstance(opened, DoorProblem) else file

    def _partition(self, all_logs: list[InputFile]) -> Iterator[Item]:
        """The logs of one directory, in order."""
        logs = [log for at, log in enumerate(all_logs) if not self._is_outside(log, all_logs[at + 1 :])]
        if not logs:
            return
        outcomes = self._outcomes(logs)
        first, tail = 0, None
        if self._selection.tail is not None:
            first, tail = self._find_tail(logs, self._selection.tail, outcomes)
            self._filter.left = self._selection.tail
        for log in logs[first:]:
            yield from self._read(SelectedLog(log, self._options, self._selection, self._filter, outcomes), tail)
            tail = None
            if self._filter.is_full:
                self._stopped = True
                return
        if outcomes is not None:
            yield from outcomes.open_transactions()

    def _outcomes(self, logs: list[InputFile]) -> Outcomes | None:
        if self._selection.outcome is None:
            return None
        from kdump.dump.transaction_outcomes import Outcomes

        return Outcomes(logs, self._options)

    def _is_outside(self, log: InputFile, after: list[InputFile]) -> bool:
        """Whether the names say that nothing of a log of a directory is in the range of offsets."""
        one = self._selection
        if log.follow or log.kind is not FileKind.LOG or log.base is None:
            return False  # what the user names is read
        if one.to_offset is not None and log.base >= one.to_offset:
            return True
        following = next((other.base for other in after if other.kind is FileKind.LOG), None)
        return one.from_offset is not None and following is not None and following <= one.from_offset

    def _read(self, log: SelectedLog, tail: Tail | None) -> Iterator[Item]:
        """One log, whatever happens to it."""
        source = log.file.open()
        if isinstance(source, DoorProblem):
            yield source
            return
        try:
            yield from log.items(source, tail)
        except OSError as error:
            yield DoorProblem(log.path, "read", f"{log.path}: cannot be read further: {error.strerror}")

    def _find_tail(self, logs: list[InputFile], wanted: int, outcomes: Outcomes | None) -> tuple[int, Tail | None]:
        """Find where the last records begin, from the last log backwards: in which log, and where in it."""
        for number in range(len(logs) - 1, -1, -1):
            log = SelectedLog(logs[number], self._options, self._selection, self._filter, outcomes)
            source = log.file.open()
            if isinstance(source, DoorProblem):
                continue  # it is said when its turn comes
            try:
                tail = log.from_end(source, wanted)
            except OSError:
                continue
            if tail.count >= wanted:
                self._filter.skip = tail.count - wanted
                return number, tail
            wanted -= tail.count
        return 0, None
