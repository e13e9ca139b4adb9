"""The items of verify that the rows of a table are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.checks.replicas import compare
from kdump.checks.run import verify
from kdump.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.checks.options import VerifyOptions
    from kdump.checks.replicas import LocalReplicas
    from kdump.item import Item


def table_items(
    table: str, paths: Sequence[str], options: VerifyOptions, engine: LocalReplicas | None = None
) -> Iterator[Item]:
    """Yield the items of verify that the rows of a table are made of.

    Losses say, where several paths have a partition, which replicas have what one has lost: those are compared. Where
    replicas differ without a loss is for the table `replicaDiffs`.

    Args:
        table: its name.
        paths: as the user wrote them.
        options: what was asked for.
        engine: judges the partitions.
    """
    options = options.replace(has_steps=False)
    if table == "replicaDiffs":
        yield from compare(paths, options, engine)
    elif table == "losses":
        for item in compare(paths, options, engine, is_asked=False, only_losing=True):
            if not (isinstance(item, Finding) and item.is_difference):
                yield item
    else:
        yield from verify(paths, options, engine)
