"""What readers of a partition lose, in one line: offsets first, then records, then who has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kdump.item import Loss

_MOST = 4  # ranges that the line names


class LossSum:
    """The losses of one partition, added up; what is absent is not lost.

    Args:
        path: of the partition directory.

    Attributes:
        path: the same.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._ranges: list[list[int]] = []
        self._count = 0
        self._records = self._unknown = self._elsewhere = self._offsets = 0
        self._replicas: set[str] = set()

    def add(self, loss: Loss) -> None:
        """Take one more; they come in the order of offsets."""
        if not loss.certainty.is_loss:
            return
        self._offsets += loss.offsets
        if loss.records is None:
            self._unknown += loss.offsets
        else:
            self._records += loss.records
        if loss.elsewhere:
            self._elsewhere += loss.offsets
            self._replicas.update(loss.elsewhere)
        if self._ranges and self._ranges[-1][1] + 1 == loss.offset:
            self._ranges[-1][1] = loss.last_offset
            return
        self._count += 1
        if len(self._ranges) > _MOST:
            self._ranges.pop()
        self._ranges.append([loss.offset, loss.last_offset])

    def sentence(self) -> str | None:
        """Return the line without its partition, None where nothing is lost.

        It says `lost: offsets 680..873 (97 records known, 97 unknown)`: unknown are offsets of which nobody
        can tell how many records they had.
        """
        if not self._ranges:
            return None
        named = ", ".join(_range(*one) for one in self._ranges[:_MOST])
        more = f" and {self._count - _MOST} more ranges" if self._count > _MOST else ""
        noun = "offset" if self._offsets == 1 else "offsets"
        known = f"{self._records} {'record' if self._records == 1 else 'records'} known, {self._unknown} unknown"
        found = f"lost: {noun} {named}{more} ({known})"
        if self._elsewhere:
            whole = "all" if self._elsewhere == self._offsets else f"{self._elsewhere} of {self._offsets} offsets"
            found += f"; {whole} intact in {', '.join(sorted(self._replicas))}"
        return found


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}..{last}"
