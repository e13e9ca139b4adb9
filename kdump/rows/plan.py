"""The row of reindex, truncate, patch-header and repair."""

from __future__ import annotations

from kdump.row import Kind, Row, column

KINDS = ("index", "header", "epochs", "checkpoint", "partition-metadata", "meta-properties", "snapshot", "zeros")
"""What `repair` mends."""


class Operation(Row):
    """What becomes of one file by a repair."""

    file: str = column(Kind.PATH, "name in the partition directory")
    action: str = column(
        Kind.WORD,
        "what is done",
        words=("rebuild-index", "create", "replace", "truncate", "empty", "delete", "patch"),
    )
    before: int | None = column(Kind.SIZE, "of the file now; null where there is none", key="from")
    after: int | None = column(Kind.SIZE, "of the file afterwards; null where there is none", key="to")
    why: str = ""  # what is wrong with it now; empty when nothing is
    detail: str = ""  # what else there is to say


class Planned(Row, name="plan"):
    """What a repair would do to one partition directory, or has done."""

    command: str = column(Kind.WORD, "the repair", words=("reindex", "truncate", "patch-header", "repair"))
    plan_id: str = column(Kind.WORD, "what --plan-id takes: by it the plan is known again")
    partition: str = column(Kind.PARTITION, "name of the directory")
    directory: str  # as the user wrote it
    operations: tuple[Operation, ...] = column(Kind.ROW, "in the order in which they are made", of=Operation)
    bytes_lost: int = column(Kind.SIZE, "that are cut from logs")
    records_lost: int = column(Kind.COUNT, "those cut that can be read today")
    offsets_lost: int = column(Kind.COUNT, "between the old and the new end", default=0)
    log_end_offset_before: int | None = column(
        Kind.OFFSET,
        "where the log ends now by its last batch, a torn one too where its header stands; null where that is not "
        "known",
        default=None,
    )
    log_end_offset: int | None = column(Kind.OFFSET, "afterwards; null where it is not known", default=None)
    announces: tuple[str, ...] = column(Kind.TEXT, "what to know before it is done", default=())
    kind: str | None = column(
        Kind.WORD,
        "of repair, which has a row for each change: what is mended; else null",
        words=KINDS,
        default=None,
    )
    kept: int = 0  # files of the kinds that the command is about and that are left alone
    journal: str | None = None  # path of the journal, when it is done; None when nothing was done
    arguments: tuple[str, ...] = ()  # what to write after the command to have it done
    is_refused: bool = False  # it will not be done
    unread: int = 0  # files that could not be read, so that nobody knows whether they need it
    partial_arguments: tuple[str, ...] = ()  # what to write after the command for what can be done all the same
