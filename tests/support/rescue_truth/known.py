"""Kinds of faults that are known, each with a number that shows it and what is right; one that is mended goes.

`tests/rescue/test_rescue_truth.py` holds the sample to this table: no other kind may fail, and each number still does.
"""

from __future__ import annotations

from typing import NamedTuple

SALVAGES, CARVES = "salvages", "carves"


class Known(NamedTuple):
    """A kind that does not hold yet.

    Args:
        sort: of the run that shows it.
        seed: its number.
        right: what is right.
    """

    sort: str
    seed: int
    right: str


KNOWN: dict[str, Known] = {
    "left-out": Known(
        SALVAGES, 8100366, "of two batches of a log under a wrong name the log behind it tells which is right"
    ),
    "wrong-offset": Known(
        SALVAGES, 7000790, "a log before it and the end tell a name and a base offset that are both wrong"
    ),
    "untold-moved": Known(SALVAGES, 8100858, "zeros that go on over a base offset do not hide the batch behind them"),
    "carve-wrong-offset": Known(CARVES, 250003, "two runs of one batch that adjoin in the image are neighbours"),
    "carve-refused": Known(
        CARVES, 200105, "runs that only adjoin in the image are no log, where another run lies between"
    ),
}
