"""Kinds of faults that are known, each with a number that shows it and what is right; one that is mended goes.

`tests/rescue/test_rescue_truth.py` holds the sample to this table: no other kind may fail, and each number still does.
"""

from __future__ import annotations

from typing import NamedTuple

SALVAGES, PATCHES, CARVES = "salvages", "patch-headers", "carves"

_EARLY_FILE = "an epoch file that ends early is true for what it has, and changes no epoch behind it"
_LEGACY = "in magic 0 and 1 too the batch that contradicts all others is wrong; the same bytes elsewhere settle it"
_NAME = "the name of a log moves no batch that its neighbours, the index or the same bytes elsewhere have where it is"
_ADJOINS = "runs that adjoin in the image are neighbours, and a jump that no segment can hold is not kept"
_ROWS = "what is left out has a row, what has a row is left out"
_IMAGE = "runs of several copies in one image are several copies"
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
    "newest-left-out": Known(SALVAGES, 594, "the batches of a renamed log of the copy that led last are of the line"),
    "left-out": Known(SALVAGES, 354, "of logs that exchanged their names in a cleaned copy nothing stays out"),
    "left-out-foreign": Known(SALVAGES, 399, _FOREIGN),
    "right-epoch-changed": Known(SALVAGES, 475, _EARLY_FILE),
    "wrong-epoch": Known(SALVAGES, 165, _ONE_BIT),
    "wrong-epoch-file": Known(SALVAGES, 1175, _ONE_BIT),
    "right-offset-changed": Known(SALVAGES, 462, _NAME),
    "right-offset-changed-legacy": Known(SALVAGES, 387, _NAME),
    "wrong-offset": Known(SALVAGES, 1860, _ADJOINS),
    "wrong-offset-legacy": Known(SALVAGES, 40, _LEGACY),
    "wrong-fate": Known(SALVAGES, 11224, "a snapshot tells from where on the transaction of a producer was open"),
    "untold": Known(SALVAGES, 11281, f"a batch that was moved has no row; {_NAME}"),
    "told-and-written-cleaned": Known(SALVAGES, 12223, f"{_ROWS}: also of a moved batch that a cleaner wrote anew"),
    "nothing-written": Known(SALVAGES, 2367, _FOREIGN),
    "refused": Known(SALVAGES, 1118, _NAME),
    "patched-wrong": Known(PATCHES, 465, f"{_EARLY_FILE}; {_NAME}"),
    "carve-wrong-epoch": Known(CARVES, 0, _ONE_BIT),
    "carve-wrong-epoch-file": Known(CARVES, 0, _ONE_BIT),
    "carve-wrong-offset": Known(CARVES, 5, _ADJOINS),
    "carve-wrong-offset-legacy": Known(CARVES, 9, _LEGACY),
    "carve-refused": Known(CARVES, 6, "of copies that do not contradict each other none is refused"),
    "carve-one-image-wrong-branch": Known(CARVES, 79, _IMAGE),
    "carve-one-image-newest-left-out": Known(CARVES, 10232, _IMAGE),
    "carve-one-image-mixed-branches": Known(CARVES, 4, _IMAGE),
    "carve-one-image-wrong-epoch": Known(CARVES, 4, _ONE_BIT),
    "carve-one-image-wrong-epoch-file": Known(CARVES, 4, _ONE_BIT),
    "carve-one-image-wrong-offset": Known(CARVES, 21, _ADJOINS),
    "carve-one-image-left-out": Known(CARVES, 90, _IMAGE),
}
