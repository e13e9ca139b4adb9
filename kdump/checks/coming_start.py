"""The start that is coming (--start auto): clean where the last shutdown was, which the log directory shows."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.broker.load.facts import Start
from kdump.format.kinds import FileKind
from kdump.rows.verdict import Prediction
from kdump.storage.log_dir import is_log_dir
from kdump.storage.paths import above

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.item import Item


def coming(items: Iterable[Item]) -> Iterator[Item]:
    """Yield items of verify, and of the predictions of each partition that of the start that is coming.

    Args:
        items: with predictions of a clean and of an unclean start.

    Where a partition lies in no log directory nobody knows which it is: the one that costs more counts.
    """
    held: list[Prediction] = []
    for item in items:
        if held and not (isinstance(item, Prediction) and item.path == held[0].path):
            yield _chosen(held)
            held = []
        if isinstance(item, Prediction):
            held.append(item)
        else:
            yield item
    if held:
        yield _chosen(held)


def _chosen(rows: list[Prediction]) -> Prediction:
    log_dir = above(rows[0].path)
    start = None
    if os.path.lexists(os.path.join(log_dir, FileKind.CLEAN_SHUTDOWN.value)):
        start = Start.CLEAN
    elif is_log_dir(log_dir):
        start = Start.UNCLEAN
    fitting = [row for row in rows if start is None or row.start == start.value]
    row = max(fitting or rows, key=lambda one: one.harm)
    return row.replace(start="auto", is_clean=row.start == Start.CLEAN.value)
