"""The tables of `verify --out`, and what each disk comes to."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.cli.options.engine import demand_arrow, demand_outside, fail, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.export.origin import Root
    from kdump.export.verdict_files import LogDirRow, Summary
    from kdump.item import Item

_TABLES = ("findings", "segments", "losses")


def with_tables(
    items: Iterator[Item], named: Sequence[str], roots: Sequence[Root] | None, out: str | None, disks: list[LogDirRow]
) -> Iterator[Item]:
    """Return items that are counted as they go by, and written as tables.

    Args:
        items: of verify.
        named: the paths as the user wrote them.
        roots: what they stand for; None where no manifest is among them.
        out: directory of the tables; None for no tables.
        disks: takes what each log directory comes to, at the end.
    """
    demand_arrow()
    from kdump.export.job import ExportTarget, NotThisExportError
    from kdump.export.origin import Origins, read_roots
    from kdump.export.tables import columns_of
    from kdump.export.verdict_files import Summary, VerdictFiles

    roots = read_roots(named) if roots is None else roots
    origins = Origins(roots)
    summary = Summary(origins)
    items = summary.through(items)
    if out is not None:
        demand_outside(out, [root.path for root in roots], "--out")
        try:
            for table in _TABLES:
                target = ExportTarget(os.path.join(out, table), "parquet", table, columns_of(table))
                items = VerdictFiles(target, origins, {"verify": table}).through(items)
        except NotThisExportError as error:
            refuse(str(error))
        except OSError as error:
            fail(f"{error.filename}: {error.strerror}")
    return _summed(items, summary, out, disks)


def _summed(items: Iterator[Item], summary: Summary, out: str | None, disks: list[LogDirRow]) -> Iterator[Item]:
    yield from items
    disks.extend(summary.disks())
    if out is not None:
        summary.write(os.path.join(out, "summary"))
