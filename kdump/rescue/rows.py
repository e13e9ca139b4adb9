"""The rows beside a partition that was salvaged, read again: each is held to what salvage declares."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kdump.finding import Finding
from kdump.rows.read_back import rule_of
from kdump.rows.salvaged import Diverged, Kept, PatchedField, Revived, Salvaged
from kdump.rows.verdict import Certainty, Loss
from kdump.storage.file_source import OpenFailure
from kdump.storage.json_rows import name_of, rows_in
from kdump.storage.open_files import open_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.row import Row

_ALL: tuple[type[Row], ...] = (Kept, Loss, Diverged, PatchedField, Revived, Salvaged, Finding)


def losses_of(path: str) -> Iterator[Loss]:
    """Yield the losses of a file of rows, in order.

    Args:
        path: of the file.

    Raises:
        BadValueError, OSError: as `rows_of`.
    """
    for row in rows_of(path, Loss):
        yield Loss(
            os.path.dirname(path),
            str(name_of(row["partition"])),
            file=name_of(row["file"]),
            position=row["position"],
            length=row["length"],
            offset=row["offset"],
            last_offset=row["lastOffset"],
            records=row["records"],
            certainty=Certainty(row["certainty"]),
            because=tuple(row["because"]),
            replicas=tuple(str(name_of(one)) for one in row["elsewhere"]),
        )


def rows_of(path: str, *types: type[Row]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file, in order.

    Args:
        path: of the file.
        types: of the rows that are wanted; all that salvage writes where none is named.

    Raises:
        BadValueError: a row is none that salvage writes.
        OSError: the file cannot be read.
    """
    source = open_source(path, follow=False)
    if isinstance(source, OpenFailure):
        raise OSError(source.sentence)
    with source:
        for _, row in rows_in(source.read_at, {one.row_name: rule_of(one) for one in types or _ALL}):
            yield row
