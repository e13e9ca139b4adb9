"""What readers of a partition lose, in one line: offsets first, then records, then who has them."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from kdump.finding import Code
from kdump.words.numbers import NamedRanges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.rows.verdict import Loss

_MOST = 4  # sets of replicas that the line names


class LossSum:
    """The losses of one partition, added up; what is absent is not lost.

    Args:
        path: of the partition directory.
    """

    def __init__(self, path: str) -> None:
        self.path = path  # of the partition directory
        self._all, self._nowhere, self._known = NamedRanges(), NamedRanges(), NamedRanges()
        self._records = self._unknown = 0
        self._is_by_checkpoints = True  # all of it: nothing that lies here knows of them
        self._intact: dict[tuple[str, ...], NamedRanges] = {}  # by the replicas that have them

    def add(self, loss: Loss) -> None:
        """Take one more; they come in the order of offsets."""
        if loss.certainty.is_loss and loss.is_known:
            self._known.add(loss.offset, loss.last_offset)
        if not loss.counts:
            return
        self._all.add(loss.offset, loss.last_offset)
        self._is_by_checkpoints &= loss.because == (Code.K01.name,)
        if loss.records is None:
            self._unknown += loss.offsets
        else:
            self._records += loss.records
        if loss.replicas is not None:
            have = tuple(sorted(loss.elsewhere))
            ranges = self._intact.setdefault(have, NamedRanges()) if have else self._nowhere
            ranges.add(loss.offset, loss.last_offset)

    def sentence(self, where: str = "") -> str | None:
        """Return the line, None where nothing is lost.

        It says `lost: offsets 680..873 (97 records; number unknown for 97 offsets)`: how many records those offsets
        had is unknown. Behind that, where replicas were compared, what can be taken from which of them.

        Args:
            where: stands behind what is lost, before what other replicas have.
        """
        before = f"known before: {self._known}" if self._known.offsets else ""
        if not self._all.offsets:
            return before or None
        known = f"{self._records} {'record' if self._records == 1 else 'records'}"
        if self._unknown:
            of = f"number {'of records ' if not self._records else ''}unknown"
            every = not self._records and self._unknown == self._all.offsets
            offsets = "" if every else f" for {self._unknown} {'offset' if self._unknown == 1 else 'offsets'}"
            known = f"{known}; {of}{offsets}" if self._records else f"{of}{offsets}"
        found = [f"lost: {self._all} ({known}){where}"]
        if self._is_by_checkpoints:
            them = "it" if self._all.offsets == 1 else "them"
            found.append(f"only checkpoints know {them} (K01), as after a truncation")
        return "; ".join((*found, *self._elsewhere(), *filter(None, (before,))))

    def _elsewhere(self) -> Iterator[str]:
        """Yield which replicas have what, and then what none has."""
        if len(self._intact) == 1 and not self._nowhere.offsets:
            yield f"all are intact in {', '.join(*self._intact)}"
            return
        for have, ranges in islice(self._intact.items(), _MOST):
            yield f"{ranges} {'is' if ranges.offsets == 1 else 'are'} intact in {', '.join(have)}"
        if len(self._intact) > _MOST:
            yield "the rest of what a replica has is in others"
        if self._nowhere.offsets:
            yield f"no replica has {self._nowhere if self._intact else 'them'}"


class LossesInTurn:
    """Adds up the losses of one partition after the other.

    Args:
        say: takes the losses of a partition.
    """

    def __init__(self, say: Callable[[LossSum], None]) -> None:
        self._say = say
        self._sum: LossSum | None = None

    def add(self, loss: Loss) -> None:
        """Take one more; one of another partition ends that before."""
        if self._sum is None or self._sum.path != loss.path:
            self.end()
            self._sum = LossSum(loss.path)
        self._sum.add(loss)

    def end(self) -> None:
        """Say what the last partition has lost."""
        ended, self._sum = self._sum, None
        if ended is not None:
            self._say(ended)
