"""Kinds of faults that are known, each with a number that shows it and what is right; one that is mended goes.

`tests/rescue/test_rescue_truth.py` holds the sample to this table: no other kind may fail, and each number still does.
"""

from __future__ import annotations

from typing import NamedTuple

SALVAGES, CARVES = "salvages", "carves"

_LEGACY = "in magic 0 and 1 too the batch that contradicts all others is wrong; the same bytes elsewhere settle it"
_NAME = "the name of a log moves no batch that its neighbours, the index or the same bytes elsewhere have where it is"
_ROWS = "what is left out has a row, what has a row is left out"


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
    "newest-left-out": Known(SALVAGES, 204182, _NAME),
    "refused": Known(SALVAGES, 250834, "two logs of one copy under wrong names"),
    "wrong-offset": Known(SALVAGES, 201604, _NAME),
    "wrong-offset-legacy": Known(SALVAGES, 60030, _LEGACY),
    "told-and-written-cleaned": Known(SALVAGES, 200731, f"{_ROWS}: also of a moved batch that a cleaner wrote anew"),
    "carve-wrong-offset-legacy": Known(CARVES, 11042, _LEGACY),
    "carve-one-image-wrong-offset": Known(CARVES, 61095, _NAME),
    "carve-left-out": Known(CARVES, 250175, _ROWS),
    "carve-one-image-left-out": Known(CARVES, 250177, _ROWS),
    "carve-wrong-offset": Known(CARVES, 250003, _NAME),
    "carve-refused": Known(CARVES, 200105, "of one history several batches outweigh the newest epoch of one alone"),
}
