"""What to do next: options for one partition, or for several alike, each of them one or more steps."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from kdump.row import Kind, Row, column

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.words.command import ShellCommand


class Rank(Enum):
    """How an option stands beside the others of its block."""

    RECOMMENDED = "recommended"
    IF = "if"
    LAST_RESORT = "last-resort"


class Amount(Row):
    """Records that are intact and that readers get."""

    offsets: int | None = column(Kind.COUNT, "how many offsets they have; null where that is not known", default=None)
    records: int | None = column(Kind.COUNT, "how many they are; null where that is not known", default=None)

    def __add__(self, other: Amount) -> Amount:
        """Add the amounts of two partitions."""
        return Amount(_sum(self.offsets, other.offsets), _sum(self.records, other.records))

    def without(self, other: Amount) -> Amount:
        """What is left of this when that much goes."""
        return Amount(_left(self.offsets, other.offsets), _left(self.records, other.records))

    @property
    def is_none(self) -> bool:
        """Whether it is known that there are none."""
        return self.offsets == 0 and self.records == 0


UNKNOWN = Amount()
"""Nobody can tell how many."""

NONE = Amount(0, 0)
"""Not one."""


class Step(Row, name="step"):
    """What to do next about what was found; a block of options for a partition, or for several alike."""

    option: int = column(Kind.NUMBER, "number of the option in its block, from 1 on: one or more steps, in order")
    n: int = column(Kind.NUMBER, "number of the step in its option, from 1 on")
    partitions: tuple[str, ...] = column(
        Kind.PATH, "the partition directories that the block is about; none: it is about the whole run"
    )
    rank: Rank = column(
        Kind.WORD,
        "recommended: exactly one option of each block; if: right where the condition holds, which nothing here shows; "
        "last-resort: it destroys something",
        words=tuple(one.value for one in Rank),
    )
    condition: str | None = column(Kind.TEXT, "when the option is the right one; null for no condition")
    command: ShellCommand | None = column(
        Kind.COMMAND, "as a dry run and as a shell reads it; null where a person acts"
    )
    why: str = column(Kind.TEXT, "what it does, and what it costs; or what the person does")
    keeps: Amount = column(
        Kind.ROW, "intact records that readers get today, and get afterwards", of=Amount, default=UNKNOWN
    )
    loses: Amount = column(
        Kind.ROW, "intact records that readers get today, and do not get afterwards", of=Amount, default=UNKNOWN
    )
    size: int | None = column(
        Kind.SIZE, "that are copied or read; null where that is not known", key="bytes", default=None
    )

    @property
    def begins_block(self) -> bool:
        """Whether it is the first one of a block."""
        return self.option == 1 and self.n == 1

    @property
    def begins_option(self) -> bool:
        """Whether it is the first one of an option."""
        return self.n == 1


def blocks_of(steps: Iterable[Step]) -> Iterator[list[list[Step]]]:
    """Yield the options of each block, and the steps of each option.

    Args:
        steps: in their order.
    """
    block: list[list[Step]] = []
    for one in steps:
        if one.begins_block and block:
            yield block
            block = []
        if one.begins_option or not block:
            block.append([])
        block[-1].append(one)
    if block:
        yield block


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _left(one: int | None, gone: int | None) -> int | None:
    return None if one is None or gone is None else max(0, one - gone)
