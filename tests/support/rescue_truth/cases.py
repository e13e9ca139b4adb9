"""A case by its number: what lies on the disks of a cluster, damaged."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from tests.support.rescue_truth.cluster import Cluster, Life, Replica
from tests.support.rescue_truth.damage import damage
from tests.support.rescue_truth.disks import Copy, copy_of

if TYPE_CHECKING:
    from pathlib import Path


@dataclass
class Case:
    """Copies of one partition.

    Args:
        seed: decided everything.
        cluster: what happened.
        copies: damaged.
        prefer: number of the copy that is chosen by hand; None for none.
        below_log_start: batches below the log start are wanted too.
        policy: cleanup.policy of the topic, where the user says it.
    """

    seed: int
    cluster: Cluster
    copies: list[Copy]
    prefer: int | None = None
    below_log_start: bool = False
    policy: str | None = None

    def lay(self, root: Path) -> list[Path]:
        """Write the copies below a directory, each into a log directory of its own; return the partitions."""
        return [copy.lay(root / f"b{number}") for number, copy in enumerate(self.copies)]

    @property
    def told(self) -> str:
        """How it was damaged, for a person."""
        said = [
            f"b{number}: {', '.join(f'{kind} {file}' for kind, file in copy.damages)}"
            for number, copy in enumerate(self.copies)
            if copy.damages
        ]
        style = self.cluster.style
        what = f"magic {style.magic}{' compacted' * style.is_compacted}, {len(self.copies)} copies"
        asked = "" if self.policy is None else f" cleanup.policy={self.policy}"
        asked += (
            f"{'' if self.prefer is None else f' --prefer b{self.prefer}'}{' --below-log-start' * self.below_log_start}"
        )
        return f"{what}{asked}; {'; '.join(said) or 'no damage'}"


def case_of(seed: int, *, only: int | None = None) -> Case:
    """Make the case of a number.

    Args:
        seed: decides everything.
        only: so many copies at most.
    """
    chance = Random(seed)
    life = Life(chance)
    cluster = life.cluster
    logs = [log for log in cluster.replicas if log.batches]
    if life.backups and chance.random() < 0.12:  # one is an older copy
        older = chance.choice(life.backups)
        logs = [older if log.number == older.number else log for log in logs]
    if len(logs) > 1 and chance.random() < 0.1:
        logs.pop(chance.randrange(len(logs)))
    copies = [_copy(chance, life, log) for log in logs[:only]]
    damage(chance, copies)
    copies = [copy for copy in copies if copy.logs] or copies[:1]
    case = Case(seed, cluster, copies)
    if chance.random() < 0.5:
        case.policy = "compact" if cluster.style.is_compacted else "delete"
    if chance.random() < 1 / 3:
        if len(copies) > 1 and chance.random() < 0.7:
            case.prefer = chance.randrange(len(copies))
        else:
            case.below_log_start = True
    return case


def _copy(chance: Random, life: Life, log: Replica) -> Copy:
    made = copy_of(chance, life.cluster, log)
    before = [one for one in life.backups if one.number == log.number and one.end < log.end]
    if before:
        made.older = copy_of(chance, life.cluster, chance.choice(before))
    return made
