"""Leader epochs at the border of two logs of a partition: of the last batches before it, and the first behind.

They are read when somebody asks.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING

from kdump.format.batch import layout
from kdump.format.batch.base_offset.header import header_facts
from kdump.format.batch.epoch_order import EpochsAround
from kdump.format.batch.walk import Border, CheckedWalk
from kdump.format.read_limits import MAX_BATCH_BYTES
from kdump.storage.open_files import OpenFileCache
from kdump.storage.segment import Segment, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.finding import Finding
    from kdump.format.batch.base_offset.header import HeaderFacts
    from kdump.format.batch.window import Window
    from kdump.format.checkpoint.checkpoint_file import EpochEntry

_SMALL = 256 * 1024  # bytes: such a log is read from its beginning
_FAR = 64 * 1024 * 1024  # bytes: no overlap goes back over so much
_BORNE_OUT = 2  # batches: of one alone a wrong bit may tell another epoch


class EpochsBeside(EpochsAround):
    """What the logs beside a log, and the checkpoint, say of the leader epochs of its batches.

    Args:
        log_before: path of the log before; None where there is none.
        logs: the path of the log, and those of the logs behind it.
        entries, floor, is_other: of the checkpoint.
    """

    def __init__(
        self,
        log_before: str | None,
        logs: Sequence[str],
        entries: Sequence[EpochEntry] = (),
        floor: int = 0,
        *,
        is_other: bool = False,
    ) -> None:
        super().__init__(entries, floor, is_other=is_other)
        self._log_before, self._logs = log_before, logs
        self._starts_behind: dict[int, tuple[int, float, bool]] = {}  # by epoch: see `begins_behind`

    def alone(self) -> EpochsAround:
        """Return what the checkpoint says."""
        return EpochsAround(self._entries, self._floor, is_other=self._is_other)

    def before(self) -> int | None:
        """Return the epoch of the log's last batches, as `_borne_out` has it; None where nothing bears it out."""
        return self._before

    def after(self) -> int | None:
        """Return the epoch of the log's first batches, as `_borne_out` has it; None where nothing bears it out."""
        return self._after

    @cached_property
    def _before(self) -> int | None:
        return None if self._log_before is None else self._borne_out(_at_end(self._log_before, is_end=True))

    @cached_property
    def _after(self) -> int | None:
        return self._borne_out(_at_end(self._logs[1], is_end=False)) if len(self._logs) > 1 else None

    def begins_behind(self, epoch: int, position: int) -> bool:
        """Tell whether an epoch of the checkpoint begins behind a position of the log, in file order.

        That is so where the next batch of that epoch is the one with which it begins.

        Args:
            epoch: one of the checkpoint.
            position: of a batch, bytes.
        """
        start, end, found = self._starts_behind.get(epoch, (position, position, False))
        if not start <= position < end:
            end, found = self._next_of(epoch, position)
            self._starts_behind[epoch] = position, end, found
        return found

    def _next_of(self, epoch: int, position: int) -> tuple[float, bool]:
        """Where the next batch of an epoch lies in the log, and if it is the first; infinite where it is in no log."""
        at, left = position, _FAR
        for path in self._logs:
            for window in _windows(path, at):
                for k, one in enumerate(window.column(layout.LEADER_EPOCH)):
                    if one == epoch:
                        facts = header_facts(window, k)
                        is_first = self.begins(epoch, facts.first)  # both fields: no damage makes them agree
                        if is_first or facts.trusted:
                            return facts.position if path == self._logs[0] else inf, is_first
                left -= window.end(window.count) - window.cell(0, layout.POSITION)
                if left < 0:
                    return inf, False
            at = 0
        return inf, False

    def _borne_out(self, found: list[HeaderFacts]) -> int | None:
        """The epoch of two batches that agree, or of one that the checkpoint has: one wrong bit makes neither."""
        epochs = [one.epoch for one in found]
        if len(found) == 1 and found[0].first is not None:
            epochs.append(self.at(found[0].first))
        return epochs[0] if len(epochs) == _BORNE_OUT and epochs[0] == epochs[1] else None


def _at_end(path: str, *, is_end: bool) -> list[HeaderFacts]:
    """The last two batches of a log, or the first, where all are well; one where it has no more."""
    found: list[HeaderFacts] = []
    wrong: list[Finding] = []
    with suppress(OSError, UnreadableError), OpenFileCache() as cache:
        segment = Segment(path, 0, cache, follow=False)  # of its index only positions are asked for
        log = segment.log
        start = segment.some_before(log.size) if is_end and log.size > _SMALL else 0
        if start is None:
            return []
        start_of = Border(position=start)
        walk = CheckedWalk(
            log, wrong.append, next_base=None, max_batch_bytes=MAX_BATCH_BYTES, border=start_of, resync=False
        )
        for window in walk.windows():
            facts = [header_facts(window, k) for k in _ends(window.count, is_end=is_end)]
            found += [one for one in facts if one.trusted and one.epoch is not None]
            found = found[-_BORNE_OUT:] if is_end else found[:_BORNE_OUT]
            if not is_end and len(found) == _BORNE_OUT:
                break
    return [] if any(one.gap for one in wrong) else found


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
    return range(max(0, count - _BORNE_OUT), count) if is_end else range(min(count, _BORNE_OUT))
