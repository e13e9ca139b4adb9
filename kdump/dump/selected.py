"""`dump` of what is selected: the logs that can have it, from where their indexes say, and nothing else.

Strategy: segments are passed over by their names, the beginning of a segment by its indexes (`Starts`), batches by
their headers and records by their columns (`Filter`). The last records are found by counting in growing ends of the
logs, from back to front, so nothing has to be remembered of them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.dump.checked import identify, places
from kdump.dump.selected_log import Log, SelectedLog
from kdump.dump.selection import Filter, Selection
from kdump.storage.file_source import DoorProblem, open_source
from kdump.storage.names import FileKind
from kdump.storage.segment_boundaries import Edges

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.compat.dump_log_segments_options import DumpOptions
    from kdump.dump.checked import Identity, Place
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
        self._edges = Edges()
        self._stopped = False

    def files(self, paths: list[str]) -> Iterator[Item]:
        """Yield the items of all logs, in order; what cannot be read is a DoorProblem among them.

        Args:
            paths: files and directories, as the user wrote them.

        Reports: as findings among the items, what is wrong with what is read, and with the indexes that are used.
        """
        logs: list[Log] = []
        others: list[str] = []
        for place in places(paths):
            file = place if isinstance(place, DoorProblem) else self._identify(place)
            if isinstance(place, DoorProblem) or isinstance(file, DoorProblem):
                yield from self._partition(logs)
                logs = []
                if not self._stopped:
                    assert isinstance(file, DoorProblem)
                    yield file
            elif file.is_log:
                if logs and os.path.dirname(logs[-1].place.path) != os.path.dirname(place.path):
                    yield from self._partition(logs)
                    logs = []
                logs.append(Log(place, file))
            elif place.follow:
                others.append(place.path)
            if self._stopped:
                return
        yield from self._partition(logs)
        if others and not self._stopped:
            count = f"{len(others)} files without batches are not shown" if len(others) > 1 else "not shown"
            why = f"{others[0]}: {count}: only logs have what can be selected"
            yield DoorProblem(others[0], "skipped", why)

    def _identify(self, place: Place) -> Identity | DoorProblem:
        """What a file is, or why it cannot be read: what has no batches is not opened again."""
        file = identify(place.path, self._options)
        if not isinstance(file, DoorProblem) and file.is_log:
            return file
        opened = open_source(place.path, follow=place.follow)
        if isinstance(opened, DoorProblem):
            return opened
        opened.close()
        return file

    def _partition(self, all_logs: list[Log]) -> Iterator[Item]:
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

    def _outcomes(self, logs: list[Log]) -> Outcomes | None:
        if self._selection.outcome is None:
            return None
        from kdump.dump.transaction_outcomes import Outcomes

        return Outcomes([(log.place.path, log.file) for log in logs], self._options)

    def _is_outside(self, log: Log, after: list[Log]) -> bool:
        """Whether the names say that nothing of a log of a directory is in the range of offsets."""
        one = self._selection
        if log.place.follow or log.file.kind is not FileKind.LOG or log.file.base is None:
            return False  # what the user names is read
        if one.to_offset is not None and log.file.base >= one.to_offset:
            return True
        following = next((other.file.base for other in after if other.file.kind is FileKind.LOG), None)
        return one.from_offset is not None and following is not None and following <= one.from_offset

    def _read(self, log: SelectedLog, tail: Tail | None) -> Iterator[Item]:
        """One log, whatever happens to it."""
        path = log.path
        source = open_source(path, follow=log.follow)
        if isinstance(source, DoorProblem):
            yield source
            return
        with source:
            try:
                yield from log.items(source, self._edges, tail)
            except OSError as error:
                yield DoorProblem(path, "read", f"{path}: cannot be read further: {error.strerror}")

    def _find_tail(self, logs: list[Log], wanted: int, outcomes: Outcomes | None) -> tuple[int, Tail | None]:
        """Find where the last records begin, from the last log backwards: in which log, and where in it."""
        for number in range(len(logs) - 1, -1, -1):
            log = SelectedLog(logs[number], self._options, self._selection, self._filter, outcomes)
            source = open_source(log.path, follow=log.follow)
            if isinstance(source, DoorProblem):
                continue  # it is said when its turn comes
            with source:
                try:
                    tail = log.from_end(source, wanted)
                except OSError:
                    continue
            if tail.count >= wanted:
                self._filter.skip = tail.count - wanted
                return number, tail
            wanted -= tail.count
        return 0, None
