"""What sinks of groups, transactions and cluster share in every layout."""

from __future__ import annotations

from kdump.dispatch import takes
from kdump.render.sink import Sink
from kdump.rows.coordinators import CopyChosen, Remark


class CoordinatorSink(Sink):
    """Says on stderr which copy of a partition is read, and what a person has to know about an answer."""

    @takes(CopyChosen, Remark)
    def _remark(self, remark: CopyChosen | Remark) -> None:
        self._error(f"kdump: {remark.sentence}")
