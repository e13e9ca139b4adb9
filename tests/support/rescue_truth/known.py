"""Kinds of faults that are known, each with a number that shows it and what is right; one that is mended goes.

`tests/rescue/test_rescue_truth.py` holds the sample to this table: no other kind may fail, and each number still does.
"""

from __future__ import annotations

from typing import NamedTuple

SALVAGES, PATCHES, CARVES = "salvages", "patch-headers", "carves"

_EARLY_FILE = "an epoch file that ends early is true for what it has, and changes no epoch behind it"
_LEGACY = "in magic 0 and 1 too the batch that contradicts all others is wrong; the same bytes elsewhere settle it"
_CLEANED_LEGACY = "a cleaner gives a wrapper of magic 0 or 1 other offsets: cleaned copies do not contradict each other"
_NAME = "the name of a log moves no batch that its neighbours, the index or the same bytes elsewhere have where it is"
_END = "where all files know the end of a log its last batch has the place before it, whatever the names of logs are"
_OVERLAP = "an overlap that a new leader wrote is in all copies, cleaned or not"
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
    "newest-left-out": Known(SALVAGES, 594, "the batches of a renamed log of the copy that led last are of the line"),
    "left-out": Known(SALVAGES, 354, "of logs that exchanged their names in a cleaned copy nothing stays out"),
    "left-out-foreign": Known(SALVAGES, 399, _FOREIGN),
    "right-epoch-changed": Known(SALVAGES, 475, _EARLY_FILE),
    "wrong-epoch": Known(SALVAGES, 165, _ONE_BIT),
    "wrong-epoch-file": Known(SALVAGES, 1175, _ONE_BIT),
    "right-offset-changed": Known(SALVAGES, 462, _NAME),
    "right-offset-changed-legacy": Known(SALVAGES, 387, _NAME),
    "wrong-offset": Known(SALVAGES, 1860, _END),
    "wrong-offset-legacy": Known(SALVAGES, 40, _LEGACY),
    "wrong-fate": Known(SALVAGES, 100080, "an index entry above an open batch of its producer proves a marker between"),
    "untold": Known(SALVAGES, 820, _ROWS),
    "untold-moved": Known(SALVAGES, 10985, _ROWS),
    "told-and-written": Known(SALVAGES, 368, f"{_ROWS}; {_LEGACY}"),
    "told-and-written-cleaned": Known(SALVAGES, 36, f"{_ROWS}: also where a larger copy of a batch was taken"),
    "unsaid-loss": Known(SALVAGES, 2972, "what the files of a copy that led tell of its end is lost, or doubtful"),
    "status-0": Known(SALVAGES, 2972, "what the files of a copy that led tell of its end is lost, or doubtful"),
    "false-loss": Known(SALVAGES, 100329, _CLEANED_LEGACY),
    "nothing-written": Known(SALVAGES, 2367, _FOREIGN),
    "refused": Known(SALVAGES, 1118, _NAME),
    "refused-cleaned-legacy": Known(SALVAGES, 12, _CLEANED_LEGACY),
    "refused-overlap": Known(SALVAGES, 184, _OVERLAP),
    "patched-wrong": Known(PATCHES, 465, f"{_EARLY_FILE}; {_NAME}"),
    "carve-wrong-epoch": Known(CARVES, 20, _ONE_BIT),
    "carve-wrong-epoch-file": Known(CARVES, 20, _ONE_BIT),
    "carve-wrong-offset-legacy": Known(CARVES, 11042, _LEGACY),
    "carve-wrong-branch": Known(CARVES, 11168, _ONE_BIT),
    "carve-wrong-fate": Known(
        CARVES, 613, "an index entry above an open batch of its producer proves a marker between"
    ),
    "carve-left-out": Known(CARVES, 808, _OVERLAP),
    "carve-refused-overlap": Known(CARVES, 514, _OVERLAP),
    "carve-one-image-refused-overlap": Known(CARVES, 184, _OVERLAP),
    "carve-refused-cleaned-legacy": Known(CARVES, 12, _CLEANED_LEGACY),
    "carve-one-image-wrong-epoch": Known(CARVES, 4, _ONE_BIT),
    "carve-one-image-wrong-epoch-file": Known(CARVES, 4, _ONE_BIT),
}
