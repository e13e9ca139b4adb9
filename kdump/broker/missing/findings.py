"""The findings about holes: what is wrong, why, and what to do before anything is built again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.missing.ranges import MissingRange, Proof
from kdump.finding import Code, Finding, Severity
from kdump.words.numbers import NamedRanges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kdump.broker.missing.losses import HolesAmong
    from kdump.rows.verdict import Loss

_WHY = {
    Proof.SHOWN: "and lost: the offset index knows batches there",
    Proof.MARKER: "and lost: the transaction index knows the end of a transaction there",
    None: "and lost: no compaction has made this hole, by the cleanup.policy of the topic",
}
COMPARE = "an index that has these offsets is evidence; see what another replica has: kdump verify --replicas DIR OTHER"
"""What to do about offsets that are missing, before anything is built again."""
_FROM_REPLICA = "restore this replica from one that has them, or salvage all together"
_MOST = 3  # replicas that a sentence names


def range_of(loss: Loss) -> MissingRange:
    """Return the range of a loss that is a hole."""
    return MissingRange(loss.offset, loss.last_offset, loss.because, loss.file or loss.path, loss.position or 0)


def of_hole(hole: MissingRange) -> Finding:
    """Return what is wrong with a hole that is lost.

    Args:
        hole: the first of its codes tells of it.

    Reports: O04, O07.
    """
    code = Code.O04 if hole.because[0] == Code.O04.name else Code.O07
    values: dict[str, int | str | None] = {"missing_first": hole.first, "missing_last": hole.last}
    if code is Code.O07:
        knows = "its time index knows them" if hole.because[0] == Code.T04.name else None
        values["why"] = knows or f"the next segment begins at {hole.last + 1}"
    place = code, hole.file, hole.position, 0, False, hole.first, hole.last
    return Finding(*place, severity_override=Severity.ERROR, values=values)


def as_lost(finding: Finding, proof: Proof | None) -> Finding:
    """Return a finding about a hole as an error that says why its offsets are lost.

    Args:
        finding: O04 or O07.
        proof: what the indexes say of the hole.
    """
    why = _WHY.get(proof, _WHY[None])
    values = {**finding.values, "also": why, "remedy": COMPARE}
    return finding.replace(severity_override=Severity.ERROR, values=values)


def had_elsewhere(finding: Finding, parts: Sequence[tuple[int, int]], replicas: Sequence[str]) -> Finding:
    """Return a finding about a hole as an error, as another replica has what is missing, or parts of it.

    Args:
        finding: O04 or O07.
        parts: first and last offset of each range that is there.
        replicas: paths of those that have some.
    """
    names, lost = f"{', '.join(replicas[:_MOST])}{' and others' if len(replicas) > _MOST else ''}", NamedRanges()
    for part in parts:
        lost.add(*part)
    have = "has" if len(replicas) == 1 else "have"
    why = f"and lost: {names} {have} {'it' if lost.offsets == 1 else 'them'}"
    if parts != [(finding.offset, finding.last_offset)]:
        why = f"and of these {lost} {'is' if lost.offsets == 1 else 'are'} lost: {names} {have} them"
    values = {**finding.values, "also": why, "remedy": _FROM_REPLICA}
    return finding.replace(severity_override=Severity.ERROR, values=values, because=None)


def among_holes(among: HolesAmong, finding: Finding | None = None) -> Finding:
    """Return what is wrong with holes in one of which bytes are missing, nobody knows in which.

    Args:
        among: these holes.
        finding: about the first of them; None to make it.

    Reports: O04.
    """
    assert among.first is not None
    finding = finding or of_hole(among.first)
    values = {**finding.values, "also": among.sentence, "remedy": COMPARE, "among": among.sentence}
    return finding.replace(code=Code.O04, severity_override=Severity.ERROR, values=values)


def of_unexplained(code: Code, first: Loss, count: int) -> Finding:
    """Return what is to be said of holes of which nobody can tell whether they are lost.

    Args:
        code: L17 or L19.
        first: of the first of them.
        count: how many there are.

    Reports: L17, L19.
    """
    is_one = first.offset == first.last_offset and count == 1
    values: dict[str, int | str | None] = {
        "missing_first": first.offset,
        "missing_last": first.last_offset,
        "others": "" if count == 1 else f", nor are those of {count - 1} more hole{'' if count == 2 else 's'}",
        "them": "it" if is_one else "them",
        "they": "it is" if is_one else "they are",
    }
    place = first.file or first.path, first.position, first.length, False, first.offset, first.last_offset
    return Finding(code, *place, by_neighbours=True, count=count, values=values)
