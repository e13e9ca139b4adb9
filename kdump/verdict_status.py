"""The exit status of a verdict: what is lost is an error too. Who repairs, or answers, is judged by findings alone."""

from __future__ import annotations

from kdump.dispatch import takes
from kdump.exit_status import RunStatus
from kdump.finding import Code
from kdump.rows.verdict import Loss


class VerdictStatus(RunStatus):
    """The exit status of a run of verify, from its items."""

    @takes(Loss)
    def _loss(self, loss: Loss) -> None:
        # The finding K01 is a warning only: so the loss itself is the error. What a disk cannot read is 5, not damage.
        self._errors |= loss.counts and Code.F06.name not in loss.because

    def matters(self, item: object) -> bool:
        """Whether an item makes the exit status another than 0, or is an error; the rest is what `--quiet` hides."""
        return item.counts if isinstance(item, Loss) else super().matters(item)
