"""The exceptions of a repair: refused, or failed on the way."""

from __future__ import annotations

from kdump.storage.refusal import RefusedError

__all__ = ["FailedError", "RefusedError", "SeveralError"]


class SeveralError(RefusedError):
    """A quarantine holds several repairs, and the user is to name one.

    Args:
        quarantine: path as the user wrote it.
        folders: path of the directory of each repair, the newest first, and whether it is undone.
    """

    def __init__(self, quarantine: str, folders: list[tuple[str, bool]]) -> None:
        super().__init__(f"{quarantine}: holds {len(folders)} repairs; name one, of the same files the newest first:")
        self.folders = folders


class FailedError(Exception):
    """A system call failed on the way.

    Args:
        sentence: one line for the user, without the name of the program.
        journal: path of the journal when something may have changed; None when nothing has.
    """

    def __init__(self, sentence: str, journal: str | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.journal = journal
