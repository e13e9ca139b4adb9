"""The marks of a damage map: the bytes of a segment's files as axes to scale, and on them what is wrong where.

Positions are in thousandths of the axis, so that the page draws it at any width. Places that no eye could tell apart
are one mark that counts them: a map has a few hundred marks, whatever the log has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.render.html.collected import CODES, DAMAGED, MARK, PASSED, SUSPECT
from kdump.value import TupleValue
from kdump.words.numbers import byte_span, counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kdump.finding import Code
    from kdump.render.html.collected import FoundInFile

WORDS = {DAMAGED: "damaged", PASSED: "passed over", SUSPECT: "suspicious"}
_SAME = 250  # parts of an axis: places closer than one of them are one mark
_MOST_CODES = 3  # that a mark names


class MapMark(TupleValue):
    """Something on an axis."""

    what: int  # DAMAGED, PASSED or SUSPECT
    # x, width: in percent of the axis, as text
    x: str
    width: str
    # position, length: bytes
    position: int
    length: int
    places: int  # how many they are
    codes: tuple[Code, ...]  # of them
    offsets: tuple[int, int] | None  # first and last; None where they are not known
    finding: int | None  # its number among those shown of its file; None for several

    @property
    def word(self) -> str:
        """What it is."""
        return WORDS[self.what]

    @property
    def short(self) -> str:
        """Codes and place, in as few words as go below the axis of a telephone."""
        return f"{self.named}: {byte_span(self.position, self.length)}"

    @property
    def named(self) -> str:
        """Its codes."""
        names = ", ".join(code.name for code in self.codes[:_MOST_CODES])
        return f"{names} ..." if len(self.codes) > _MOST_CODES else names

    @property
    def text(self) -> str:
        """The mark as a sentence."""
        if self.places == 1:
            code = self.codes[0]
            where = byte_span(self.position, self.length)
            if not self.length:
                where = f"at byte {self.position}"
            return f"{self.word}: {where}, {code.name} {code.slug}{self._offsets}"
        several = counted(self.places, "place")
        where = f"in {byte_span(self.position, self.length)}" if self.length else f"at byte {self.position}"
        return f"{self.word}: {several} {where}, {self.named}{self._offsets}"

    @property
    def _offsets(self) -> str:
        if self.offsets is None:
            return ""
        first, last = self.offsets
        return f", offset {first}" if first == last else f", offsets {first}..{last}"


def marks(file: FoundInFile | None, size: int) -> list[MapMark]:
    """Return what stands on the axis of a file, by kind and position.

    Args:
        file: what was found in it; None for nothing.
        size: of the file, bytes.
    """
    if file is None or not size:
        return []
    numbers = file.marks
    rows = sorted(tuple(numbers[at : at + MARK]) for at in range(0, len(numbers), MARK))
    found: list[MapMark] = []
    for what in (PASSED, SUSPECT, DAMAGED):  # what is drawn last is on top
        found += _of_kind([row for row in rows if row[2] == what], size)
    return found


def _of_kind(rows: Iterable[Sequence[int]], size: int) -> Iterator[MapMark]:
    near = size / _SAME
    group: list[Sequence[int]] = []
    end = 0
    for row in rows:
        if group and row[0] > end + near:
            yield _mark(group, size)
            group = []
            end = 0
        group.append(row)
        end = max(end, row[0] + row[1])
    if group:
        yield _mark(group, size)


def _mark(rows: Sequence[Sequence[int]], size: int) -> MapMark:
    first = rows[0][0]
    end = max(row[0] + row[1] for row in rows)
    offsets = [row[4] for row in rows if row[4] >= 0]
    lasts = [row[5] for row in rows if row[5] >= 0]
    codes = tuple(dict.fromkeys(CODES[row[3]] for row in rows))
    return MapMark(
        what=rows[0][2],
        x=percent(first, size),
        width=percent(min(end, size) - min(first, size), size),
        position=first,
        length=end - first,
        places=len(rows),
        codes=codes,
        offsets=(min(offsets), max(offsets + lasts)) if offsets else None,
        finding=rows[0][6] if len(rows) == 1 and rows[0][6] >= 0 else None,
    )


def percent(part: int, whole: int) -> str:
    """Return a part in percent, as SVG has it: as many digits as any screen can show."""
    share = f"{100 * max(0, min(part, whole)) / whole:.3f}" if whole > 0 else "0"
    return f"{share.rstrip('0').rstrip('.') if '.' in share else share}%"


def outline(found: Iterable[MapMark], height: int) -> dict[str, str]:
    """Return the paths of marks on an axis that is 1000 wide, by what they are: the shortest way to draw them.

    Args:
        found: the marks.
        height: of the axis.
    """
    paths: dict[str, str] = {}
    for one in found:
        x, width = round(10 * float(one.x[:-1])), max(3, round(10 * float(one.width[:-1])))
        paths[one.word] = f"{paths.get(one.word, '')}M{x} 0h{width}v{height}h-{width}z"
    return paths
