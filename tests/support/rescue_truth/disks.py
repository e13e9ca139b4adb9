"""What a broker leaves of a replica on its disk; each byte of a log, damaged or not, beside the true one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.hole_logs import Stop, files
from tests.support.partitions import Files, checkpoint, meta, name, write

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from tests.support.rescue_truth.cluster import Cluster, Replica

TOPIC = "orders"
PARTITION = f"{TOPIC}-0"
EPOCHS = "leader-epoch-checkpoint"
METADATA = "partition.metadata"
START, MARK, POINT, CLEANER = (
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "cleaner-offset-checkpoint",
)


@dataclass
class Bytes:
    """A log: its bytes, and for each one what it was before a damage; a cut or a dropped batch goes from both."""

    data: bytearray
    true: bytearray

    @classmethod
    def of(cls, data: bytes) -> Bytes:
        """A log that nothing has damaged."""
        return cls(bytearray(data), bytearray(data))

    def __delitem__(self, part: slice) -> None:
        del self.data[part]
        del self.true[part]


@dataclass
class Copy:
    """A replica on a disk.

    Args:
        replica: what it is a copy of, as it was when its broker stopped.
        logs: the logs by name.
        small: the other files of its directory.
        beside: the files of its log directory.
        older: the same of an earlier time, or None.
        damages: what was done to it: kind and file of each.
        touched: names of small files that are not as they were.
    """

    replica: Replica
    logs: dict[str, Bytes]
    small: Files
    beside: Files
    older: Copy | None = None
    damages: list[tuple[str, str]] = field(default_factory=list)
    touched: set[str] = field(default_factory=set)

    def note(self, kind: str, file: str) -> None:
        """Note what was done to a file."""
        self.damages.append((kind, file))
        if file not in self.logs:
            self.touched.add(file)

    @property
    def directory(self) -> Files:
        """All files of its directory."""
        return {path: bytes(log.data) for path, log in self.logs.items()} | self.small

    def lay(self, root: Path) -> Path:
        """Write it below a directory, which becomes the log directory; return the partition."""
        write(root, self.beside)
        return write(root / PARTITION, self.directory)

    @property
    def end_evidence(self) -> int:
        """An offset below which its log reached, by the names and checkpoints that nothing has damaged."""
        found = [int(path[:20]) for path in self.small if path.endswith(".snapshot") and path not in self.touched]
        if POINT in self.beside and POINT not in self.touched:
            found += [int(line.split()[2]) for line in self.beside[POINT].decode().splitlines()[2:]]
        if EPOCHS in self.small and EPOCHS not in self.touched:
            found += [int(line.split()[1]) for line in self.small[EPOCHS].decode().splitlines()[2:]]
        return max(found, default=0)


def copy_of(chance: Random, cluster: Cluster, log: Replica) -> Copy:
    """Lay a replica down as its broker leaves it."""
    is_clean = chance.random() < 0.7
    stop = Stop(chance.choice((0, 0, 150, 4096)), is_clean, chance.choice((1, 16)))
    made = files(log, stop)
    is_legacy = cluster.style.magic < 2
    if is_legacy:
        made[EPOCHS] = checkpoint()
        if chance.random() < 0.5:  # a broker from before 0.11 has neither
            del made[EPOCHS]
            made = {path: data for path, data in made.items() if not path.endswith(".snapshot")}
    if not is_legacy or chance.random() < 0.5:
        made[METADATA] = b"version: 0\ntopic_id: Hc9ms4v5SrqGR5G5nTOPYQ\n"
    logs = {path: Bytes.of(data) for path, data in made.items() if path.endswith(".log")}
    small = {path: data for path, data in made.items() if path not in logs}
    return Copy(log, logs, small, _beside(chance, cluster, log, is_clean=is_clean))


def _beside(chance: Random, cluster: Cluster, log: Replica, *, is_clean: bool) -> Files:
    point = log.end if is_clean else log.segments[-1].base if chance.random() < 0.5 else log.segments[0].base
    start = [(TOPIC, 0, log.start)] if log.start > log.segments[0].base else []
    found = {
        "meta.properties": meta(log.number),
        POINT: checkpoint((TOPIC, 0, point)),
        MARK: checkpoint((TOPIC, 0, max(log.mark, log.first))),
        START: checkpoint(*start),
        CLEANER: checkpoint(*([(TOPIC, 0, log.dirty)] if log.dirty is not None else [])),
    }
    if is_clean:
        found[".kafka_cleanshutdown"] = b'{"version":0,"brokerEpoch":1}'
    return found


def segment_of(path: str) -> int:
    """The base offset in the name of a file."""
    return int(path[:20])


def log_name(base: int) -> str:
    """The name of a log."""
    return name(base)
