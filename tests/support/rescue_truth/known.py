"""Kinds of faults that are known, each with a number that shows it and what is right; one that is mended goes.

`tests/rescue/test_rescue_truth.py` holds the sample to this table: no other kind may fail, and each number still does.
"""

from __future__ import annotations

from typing import NamedTuple

SALVAGES, PATCHES, CARVES = "salvages", "patch-headers", "carves"

_LEGACY = "in magic 0 and 1 too the batch that contradicts all others is wrong; the same bytes elsewhere settle it"
_NAME = "the name of a log moves no batch that its neighbours, the index or the same bytes elsewhere have where it is"
_ROWS = "what is left out has a row, what has a row is left out"
_FOREIGN = "one batch out of place, or a wrong name, makes no foreign segment of a log"
_ONE_BIT = "one wrong bit never wins over intact neighbours: an epoch above those behind it is wrong"


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
    "left-out": Known(SALVAGES, 12170, "of a log of one batch its name or its base offset is wrong: nobody knows"),
    "wrong-offset-legacy": Known(SALVAGES, 60030, _LEGACY),
    "wrong-fate": Known(SALVAGES, 11224, "a snapshot tells from where on the transaction of a producer was open"),
    "told-and-written-cleaned": Known(SALVAGES, 12223, f"{_ROWS}: also of a moved batch that a cleaner wrote anew"),
    "carve-wrong-offset-legacy": Known(CARVES, 11042, _LEGACY),
    "carve-wrong-branch": Known(CARVES, 11168, _ONE_BIT),
    "carve-wrong-fate": Known(CARVES, 613, "a marker that is lost is proven by the entry behind it"),
    "carve-left-out": Known(CARVES, 61110, _ROWS),
    "carve-one-image-wrong-offset": Known(CARVES, 61095, _NAME),
    "carve-one-image-wrong-epoch": Known(CARVES, 165, _ONE_BIT),
}
