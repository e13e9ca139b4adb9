"""What waits as `.swap` in a partition: what the next start of a broker makes of it, and whether that costs records.

A partition is judged as that start will have it (`kdump.broker.load.swapped_dir`), so the findings about a log that is
put in place name its `.swap` file. What such a log lacks of those that go for it is not lost yet: that is told too.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

from kdump.broker.load.swapped_dir import is_sound
from kdump.finding import Code, Finding, Severity, ignore
from kdump.storage.names import SWAP, SWAP_REMEDY, java_name
from kdump.storage.paths import base_name
from kdump.value import TupleValue
from kdump.words.command import ShellCommand, command_line, named
from kdump.words.numbers import some_of, span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kdump.broker.load.swapped_dir import SwappedDir

_MOST_NAMED = 3  # logs in one sentence
_WITH_ITS_LOG = "do with it what is done with its log (F19)"
_THROWN = "compaction or a split did not finish, as a .cleaned file here shows: a broker throws it away"


class Way(TupleValue):
    """How to keep a start from putting files in place that lack what it removes for them."""

    command: ShellCommand
    is_move: bool  # it moves the `.swap` files aside; else it writes what is intact here and there to a new directory


class SwapCheck:
    """Judges the `.swap` files of one partition.

    Args:
        swapped: the partition.
        removed: what is said of logs that a start removes though no other file has their records, by path.
        limit: a batch over this is not held in memory.
    """

    def __init__(self, swapped: SwappedDir, removed: Mapping[str, Finding], limit: int) -> None:
        self._swapped = swapped
        self._limit = limit
        self.told: set[str] = set()  # paths of those of which all is said
        self._lacking: dict[str, list[Finding]] = {}  # by path of a `.swap` log: what is said of logs that go for it
        for found in (removed[path] for path in swapped.replaced if path in removed):
            self._lacking.setdefault(swapped.put_over(found.offset or 0), []).append(found)

    def beside(self, paths: Iterable[str]) -> Iterator[Finding]:
        """Yield what is to be said of those among some files that are put in place.

        Reports: F08, F19.
        """
        for path in paths:
            if path in self._swapped.files and path not in self.told:
                self.told.add(path)
                yield self._harmful(path) if path in self._lacking else self._waiting(path)

    def rest(self) -> Iterator[Finding]:
        """Yield what is to be said of those of no segment, and of the logs that are not judged because they go.

        Reports: F08, F19.
        """
        swapped = self._swapped
        yield from self.beside(swapped.files)
        path = self._failing
        if path is not None:
            self.told.add(path)
            why = f"a broker fails to load the partition over it: {swapped.failure}"
            yield Finding(Code.F19, path, values={"why": why, "remedy": self.remedy})
        yield from self._replaced().values()

    def of(self, path: str) -> Iterator[Finding]:
        """Yield what is to be said of one file that was named alone.

        Args:
            path: of it.

        Reports: F08, F19.
        """
        if path in self._swapped.files:
            yield from self.beside([path])
        else:
            said = {one.file: one for one in self.rest()} | self.left()
            yield from (said[path],) if path in said else ()

    def _replaced(self) -> dict[str, Finding]:
        """What is to be said of logs that go, by path."""
        found = {}
        for path in self._swapped.put:
            for one in self._swapped.replaced_by(path):
                why = f"a broker removes it when it puts {base_name(path)} in its place"
                found[one] = Finding(Code.F08, one, values={"why": why, "remedy": "none"})
        return found

    def left(self) -> dict[str, Finding]:
        """Return what is to be said of those that are not put in place, by path.

        Reports: F08.
        """
        swapped = self._swapped
        if swapped.failure is not None and self._failing is None:
            return {}
        left = [one for one in swapped.waiting if one not in self.told and java_name(one).base_offset is not None]
        values = {"why": _THROWN} if swapped.failure is None else {"why": SWAP, "remedy": _WITH_ITS_LOG}
        return {one: Finding(Code.F08, one, values=values, severity_override=Severity.WARNING) for one in left}

    @cached_property
    def _failing(self) -> str | None:
        """The log over which a broker fails; None for none, and where it fails over a name, which is told."""
        swapped, logs = self._swapped, self._swapped.waiting_logs
        temporaries = [one for one in swapped.today.listing.names if one.endswith((".swap", ".cleaned"))]
        is_of_name = any(java_name(one).base_offset is None for one in temporaries)
        if swapped.failure is None or is_of_name or not logs:
            return None
        return next((one for one in logs if not is_sound(swapped.today, one)), logs[0])

    def _waiting(self, path: str) -> Finding:
        logs = _names(self._swapped.replaced_by(path))
        is_of_harmful = self._lacking and path not in self._swapped.put
        values = {"why": f"{SWAP}: {logs}" if logs else SWAP, "remedy": _WITH_ITS_LOG if is_of_harmful else SWAP_REMEDY}
        return Finding(Code.F08, path, values=values, severity_override=Severity.WARNING)

    def _harmful(self, path: str) -> Finding:
        found = self._lacking[path]
        logs = _names([one.file for one in found])
        counts = [one.count for one in found]
        count = None if None in counts else sum(one or 0 for one in counts)
        first, last = min(one.offset or 0 for one in found), max(one.last_offset or 0 for one in found)
        records = "the records" if count is None else f"{count} record{'s' if count != 1 else ''}"
        of = span(first, last, "offset")
        why = f"a broker that starts replaces {logs} by this, which lacks {records} of {of}: they are lost then"
        values = {"why": why, "remedy": self.remedy}
        return Finding(Code.F19, path, offset=first, last_offset=last, count=count, by_neighbours=True, values=values)

    @property
    def remedy(self) -> str:
        """What to do about those that cost records."""
        what = "keep what waits elsewhere" if self.way.is_move else "write what is intact here and there"
        return f"before a broker starts, {what}: {self.way.command}"

    @cached_property
    def way(self) -> Way:
        """How to keep a start from it: by moving what waits, unless only that has some of the records."""
        from kdump.broker.lacking import intact_batches, lacking

        swapped = self._swapped
        batches = intact_batches(swapped.today, swapped.waiting_logs, self._limit, ignore)
        alone = next(lacking(batches, swapped.today, self._limit, lambda _first, _last: False), None)
        if alone is None:
            return Way(ShellCommand("mv", *map(named, swapped.waiting), "DIR"), is_move=True)
        deleted = () if swapped.failure is None else ("--deleted", "too")
        whole = named(swapped.today.path or os.curdir)
        return Way(command_line("salvage", whole, *deleted, "--to", "DIR"), is_move=False)


def _names(paths: Sequence[str]) -> str:
    return some_of([base_name(path) for path in paths], _MOST_NAMED)
