"""The exception of a command that refuses to act: nothing was done."""

from __future__ import annotations


class RefusedError(Exception):
    """Nothing was done: the sentence says why, and what to do.

    Args:
        sentence: one line for the user, without the name of the program.
        locked: another process has the files.
        missing: what was asked for is not at that path.
    """

    def __init__(self, sentence: str, *, locked: bool = False, missing: bool = False) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.locked = locked
        self.missing = missing
