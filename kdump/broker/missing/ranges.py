"""Offsets that are missing: the one type for them."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from kdump.finding import Trait
from kdump.value import TupleValue

if TYPE_CHECKING:
    from kdump.rows.verdict import Certainty


class Proof(Enum):
    """What the indexes of a log say of a hole in it."""

    SHOWN = "the offset index knows batches there"
    MARKER = "the transaction index knows an end marker there"
    AMONG_SEVERAL = "the offset index shows that bytes are missing there, or in another hole beside it"


class MissingRange(TupleValue):
    """Offsets that readers of a log do not get: a hole, which no bytes stand for, or those of damaged bytes."""

    # first, last: offsets, inclusive
    first: int
    last: int
    # names of the codes that tell of them; of a hole O04, O07, or at the end of a log what shows that it went on
    because: tuple[str, ...] = ()
    file: str = ""  # the log
    # position, length: of their bytes; of a hole the batch behind it, and 0
    position: int = 0
    length: int = 0
    records: int | None = None  # None where nobody can count them
    certainty: Certainty | None = None  # None for a hole, of which `HoleJudge` says what to think
    proof: Proof | None = None  # what the indexes say of a hole; None for nothing
    # so many were in it, or in several together, by the offset index; None where that does not tell
    missing_bytes: int | None = None
    is_vouched: bool = False  # a CRC vouches for the records, whatever their offsets are

    @property
    def is_behind_end(self) -> bool:
        """Whether it lies behind the last batch, and snapshots or checkpoints know its offsets."""
        return Trait.KNOWN_OFFSETS.is_among(self.because)

    @property
    def is_inner_hole(self) -> bool:
        """Whether it is a hole that other batches, or another log, follow."""
        return self.certainty is None and is_followed_by_batches(self.because)


def is_followed_by_batches(because: tuple[str, ...]) -> bool:
    """Tell whether missing offsets are a hole that other batches, or another log, follow.

    Args:
        because: names of the codes that tell of them.
    """
    return Trait.HOLE.is_among(because[:1])
