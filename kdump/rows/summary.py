"""The last row of a run: what it comes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.row import Kind, Row, column

if TYPE_CHECKING:
    from collections.abc import Iterable


class Unread(Row):
    """What was not read, or not all of it."""

    file: str | None = column(Kind.PATH, "its path; null where all files are meant")
    reason: str = column(Kind.TEXT, "why, in a few words")


class RunSummary(Row, name="summary"):
    """What a run comes to."""

    files: int = column(Kind.COUNT, "that were read; of salvage the logs that were written")
    size: int = column(Kind.SIZE, "of the files", key="bytes")
    batches: int = column(Kind.COUNT, "of the logs")
    records: int = column(Kind.COUNT, "that were read: 0 where none were asked for")
    partitions: int = column(Kind.COUNT, "that were read, or written")
    errors: int = column(Kind.COUNT, "findings, folded ones included")
    warnings: int = column(Kind.COUNT, "findings, folded ones included")
    notes: int = column(Kind.COUNT, "findings, folded ones included")
    offsets_lost: int = column(
        Kind.COUNT, "of losses that are lost or doubtful; of replicas each offset once, if none has it"
    )
    records_lost: int = column(Kind.COUNT, "of the same losses, as far as it can be counted")
    records_unknown: int = column(Kind.COUNT, "losses whose number of records is unknown")
    offsets_elsewhere: int = column(Kind.COUNT, "that a replica lacks, and another one has: each once")
    records_elsewhere: int = column(Kind.COUNT, "of the same losses, as far as it can be counted")
    offsets_unexplained: int = column(Kind.COUNT, "of losses that are unexplained")
    offsets_twice: int = column(Kind.COUNT, "of duplicate rows: a consumer may get them twice")
    unchecked: tuple[Unread, ...] = column(Kind.ROW, "what was not read, or not all of it", of=Unread)
    exit: int = column(Kind.NUMBER, "the exit status")


def unread_rows(unchecked: Iterable[tuple[str | None, str]]) -> tuple[Unread, ...]:
    """Return rows of paths, each with the reason.

    Args:
        unchecked: None for all files.
    """
    return tuple(Unread(path, why) for path, why in unchecked)
