"""The exit status of a verdict: what is lost is an error too. Who repairs, or answers, is judged by findings alone."""

from __future__ import annotations

from kdump.dispatch import takes
from kdump.exit_status import RunStatus
from kdump.finding import Code, Finding, Trait
from kdump.rows.verdict import Loss, Prediction


class VerdictStatus(RunStatus):
    """The exit status of a run of verify, from its items."""

    @takes(Loss)
    def _loss(self, loss: Loss) -> None:
        # The finding K01 is a warning only: so the loss itself is the error. What a disk cannot read is 5, not damage.
        self._errors |= loss.counts and Code.F06.name not in loss.because

    def matters(self, item: object) -> bool:
        """Whether an item makes the exit status another than 0, or is an error; the rest is what `--quiet` hides."""
        return item.counts if isinstance(item, Loss) else super().matters(item)


LOSS = "loss"
"""The value of --fail-on for a gate before a restart."""


class StartStatus(RunStatus):
    """The exit status where only that counts which the next start of a broker takes from those who read today.

    That are intact records that it cuts, or that it serves no more, be it that the partition does not load. What is
    damaged counts for nothing: it is lost already.
    """

    def __init__(self) -> None:
        super().__init__("error", compat=False)

    @takes(Finding)
    def _finding(self, finding: Finding) -> None:
        self._incomplete |= Trait.NOT_ALL_READ in finding.code.traits

    @takes(Prediction)
    def _prediction(self, row: Prediction) -> None:
        self._errors |= row.takes_intact

    def matters(self, item: object) -> bool:
        """Whether an item makes the exit status another than 0; the rest is what `--quiet` hides."""
        return item.takes_intact if isinstance(item, Prediction) else super().matters(item)


def status_of(fail_on: str) -> RunStatus:
    """Return what knows the exit status of verify.

    Args:
        fail_on: error, warning, loss or never.
    """
    return StartStatus() if fail_on == LOSS else VerdictStatus(fail_on, compat=False)
