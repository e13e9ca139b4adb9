"""The row of a run that keeps tables night by night."""

from __future__ import annotations

from kdump.row import Kind, Row, column


class NightRun(Row, name="nightRun"):
    """A run of verify or export with --update."""

    id: str = column(Kind.WORD, "of the run: the time of its beginning (UTC) and a few digits more")
    started_at: int = column(Kind.TIME, "when it began")
    ended_at: int | None = column(Kind.TIME, "when its files were there; null of a run that was ended before that")
    host: str = column(Kind.NAME, "where it ran")
    version: str = column(Kind.WORD, "of kdump")
    options: dict[str, object] = column(Kind.JSON, "what was asked for")
    files: int | None = column(Kind.COUNT, "logs that were read: all others were as before; null as endedAt")
    size: int | None = column(Kind.SIZE, "of these logs; null as endedAt", key="bytes")
    rows: int | None = column(Kind.COUNT, "of the tables, in all their files; null as endedAt")
    unread: int | None = column(Kind.COUNT, "paths that could not be looked at; null as endedAt")
    exit: int | None = column(Kind.NUMBER, "the exit status; null as endedAt")
