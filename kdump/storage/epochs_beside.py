"""Leader epochs at the border of two logs of a partition: of the last batches before it, and the first behind.

They are read when somebody asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain, islice
from math import inf
from typing import TYPE_CHECKING, Any

from kdump.format.batch import layout
from kdump.format.batch.base_offset.header import header_facts
from kdump.format.batch.epoch_order import EpochsAround
from kdump.format.batch.walk import Border, CheckedWalk
from kdump.format.read_limits import MAX_BATCH_BYTES
from kdump.storage.open_files import OpenFileCache
from kdump.storage.segment import Segment, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kdump.finding import Finding
    from kdump.format.batch.base_offset.header import HeaderFacts
    from kdump.format.batch.window import Window
    from kdump.format.checkpoint.checkpoint_file import EpochEntry

_SMALL = 256 * 1024  # bytes: such a log is read from its beginning
_FAR = 64 * 1024 * 1024  # bytes: no overlap goes back over so much
_SOME = 2  # batches: of one alone a wrong bit may tell another epoch
_MOST_LOGS = 8  # that are looked into for them: a log may be empty


class Paths(Sequence[str]):
    """The paths of some logs, each made when it is asked for: there may be many thousands.

    Args:
        path_at: gives one by its number.
        numbers: of those that are meant.
    """

    def __init__(self, path_at: Callable[[int], str], numbers: range) -> None:
        self._path_at, self._numbers = path_at, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, number: Any) -> Any:  # noqa: ANN401
        """Return one path."""
        return self._path_at(self._numbers[number])


class EpochsBeside(EpochsAround):
    """What the logs beside a log, and the checkpoint, say of the leader epochs of its batches.

    Args:
        log: its path.
        logs_before, logs_behind: paths of the others of its partition, the nearest first.
        entries, floor, own: of the checkpoint, as for the class above.
    """

    def __init__(
        self,
        log: str,
        logs_before: Sequence[str] = (),
        logs_behind: Sequence[str] = (),
        entries: Sequence[EpochEntry] = (),
        floor: int = 0,
        own: Sequence[EpochEntry] | None = None,
    ) -> None:
        super().__init__(entries, floor, own)
        self._log, self._logs_before, self._logs_behind = log, logs_before, logs_behind
        self._starts_behind: dict[int, tuple[int, float, bool]] = {}  # by epoch: see `begins_behind`

    def alone(self) -> EpochsAround:
        """Return what the checkpoint says."""
        return EpochsAround(self._entries, self._floor, self._own_entries)

    @cached_property
    def batches_before(self) -> Sequence[HeaderFacts]:
        """The last two batches of the logs before, in file order; fewer where there are none.

        Those before damage at the end of a log count too: an epoch does not fall behind it.
        """
        self.is_asked = True
        return _next_to(self._logs_before, is_end=True)

    @cached_property
    def batches_behind(self) -> Sequence[HeaderFacts]:
        """The first two batches of the logs behind, in file order; fewer where there are none."""
        self.is_asked = True
        return _next_to(self._logs_behind, is_end=False)

    def begins_behind(self, epoch: int, position: int) -> bool:
        """Tell whether an epoch of the checkpoint begins behind a position of the log, in file order.

        That is so where the next batch of that epoch is the one with which it begins.

        Args:
            epoch: one of the checkpoint.
            position: of a batch, bytes.
        """
        self.is_asked = True
        start, end, found = self._starts_behind.get(epoch, (position, position, False))
        if not start <= position < end:
            end, found = self._next_of(epoch, position)
            self._starts_behind[epoch] = position, end, found
        return found

    def _next_of(self, epoch: int, position: int) -> tuple[float, bool]:
        """Where the next batch of an epoch lies in the log, and if it is the first; infinite where it is in no log."""
        at, left = position, _FAR
        for path in chain([self._log], self._logs_behind):
            for window in _windows(path, at):
                for k, one in enumerate(window.column(layout.LEADER_EPOCH)):
                    if one == epoch:
                        facts = header_facts(window, k)
                        is_first = self.begins(epoch, facts.first)  # both fields: no damage makes them agree
                        if is_first or facts.trusted:
                            return facts.position if path == self._log else inf, is_first
                left -= window.end(window.count) - window.cell(0, layout.POSITION)
                if left < 0:
                    return inf, False
            at = 0
        return inf, False


def _next_to(paths: Iterable[str], *, is_end: bool) -> list[HeaderFacts]:
    """The last two batches of some logs, or the first, in file order; the nearest log comes first."""
    found: list[HeaderFacts] = []
    for path in islice(paths, _MOST_LOGS):
        some = _at_end(path, is_end=is_end)
        known = some or []
        found = [*known, *found][-_SOME:] if is_end else [*found, *known][:_SOME]
        if some is None or len(found) == _SOME:
            break
    return found


def _at_end(path: str, *, is_end: bool) -> list[HeaderFacts] | None:
    """The last two batches of a log, or the first; one where it has no more, None where damage hides them."""
    found: list[HeaderFacts] = []
    wrong: list[Finding] = []
    with suppress(OSError, UnreadableError), OpenFileCache() as cache:
        segment = Segment(path, 0, cache, follow=False)  # of its index only positions are asked for
        log = segment.log
        start = segment.some_before(log.size) if is_end and log.size > _SMALL else 0
        if start is None:
            return None
        start_of = Border(position=start)
        walk = CheckedWalk(
            log, wrong.append, next_base=None, max_batch_bytes=MAX_BATCH_BYTES, border=start_of, resync=False
        )
        for window in walk.windows():
            facts = [header_facts(window, k) for k in _ends(window.count, is_end=is_end)]
            found += [one for one in facts if one.trusted and one.epoch is not None]
            found = found[-_SOME:] if is_end else found[:_SOME]
            if not is_end and len(found) == _SOME:
                break
        # what lies behind a gap was not read: the batches before it are known, and no epoch falls behind it
        return None if any(one.gap for one in wrong) and not found else found
    return None


def _windows(path: str, position: int) -> Iterator[Window]:
    """The batches of a log from a position on, as far as one adjoins the other."""
    with suppress(OSError, UnreadableError), OpenFileCache() as cache:
        log = Segment(path, 0, cache, follow=False).log
        wrong: list[Finding] = []
        yield from CheckedWalk(
            log,
            wrong.append,
            next_base=None,
            max_batch_bytes=MAX_BATCH_BYTES,
            border=Border(position=position),
            resync=False,
        ).windows()


def _ends(count: int, *, is_end: bool) -> range:
    """The rows of a window that can count."""
    return range(max(0, count - _SOME), count) if is_end else range(min(count, _SOME))
