"""What is missing in one log, held back until the indexes have said what they know of the holes among it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.hole_proofs import HoleInLog
from kdump.broker.missing_offsets import MOST_HOLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kdump.broker.hole_proofs import HoleProofs, ShownHole
    from kdump.broker.losses import LostRange


class ProvenRanges:
    """Gives the ranges of a log back, each hole with what the indexes prove of it.

    What lies behind a hole counts too. So where an index may show something all ranges wait for the end of the log, or
    until they are too many: then those whose proof is settled are given back.

    Args:
        proofs: of the log; None where its indexes may be of another time than the log.
    """

    def __init__(self, proofs: HoleProofs | None) -> None:
        self._proofs = proofs
        self._held: list[LostRange] = []
        self._may_show = False

    def take(self, ranges: Iterable[LostRange]) -> list[LostRange]:
        """Take ranges behind all others; return those of which all is known."""
        self._held += ranges
        if self._proofs is not None and not self._may_show:
            self._may_show = self._proofs.may_show(_gaps(self._held))
        if self._may_show and len(self._held) < MOST_HOLES:
            return []
        return self._given(is_end=False)

    def rest(self) -> list[LostRange]:
        """Return what is held, at the end of the log."""
        return self._given(is_end=True)

    def _given(self, *, is_end: bool) -> list[LostRange]:
        held, self._held = self._held, []
        gaps = _gaps(held)
        if self._proofs is None or not gaps or not (is_end or self._may_show):
            return held
        shown = self._proofs.of(gaps, is_end=is_end)
        if not is_end:
            at = max(k for k, one in enumerate(held) if one.certainty is None)
            held, self._held = held[:at], held[at:]
        return [_with_proof(one, shown) for one in held]


def _gaps(ranges: Iterable[LostRange]) -> list[HoleInLog]:
    return [HoleInLog(one.first, one.last, one.position) for one in ranges if one.certainty is None]


def _with_proof(one: LostRange, shown: Mapping[HoleInLog, ShownHole]) -> LostRange:
    found = None if one.certainty is not None else shown.get(HoleInLog(one.first, one.last, one.position))
    return one if found is None else one._replace(proof=found.proof, missing_bytes=found.missing_bytes)
