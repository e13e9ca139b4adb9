"""The broken states that the runbooks of the manual are for, each made from fixtures in a new directory."""

from __future__ import annotations

import gzip
import shutil
from typing import TYPE_CHECKING

from tests.support.runs import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_PLAIN = FIXTURES / "damage" / "intact" / "none" / "logdir"
_OTHER = FIXTURES / "kafka-4.3.1" / "clean" / "node2"
_NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
_LOG = f"orders-0/{119:020}.log"
_INDEX = f"orders-0/{119:020}.index"

# Python takes this module by its name: reads of some bytes fail as those of a disk with bad sectors do.
_BAD_SECTORS = """
import errno, os
bad, pread, preadv = range(4096, 4608), os.pread, os.preadv
def check(fd, length, position):
    path = os.readlink(f"/proc/self/fd/{fd}")
    if path.endswith(NAME) and position < bad.stop and position + length > bad.start:
        raise OSError(errno.EIO, os.strerror(errno.EIO))
def failing_pread(fd, length, position):
    check(fd, length, position)
    return pread(fd, length, position)
def failing_preadv(fd, targets, position):
    check(fd, len(targets[0]), position)
    return preadv(fd, targets, position)
os.pread, os.preadv = failing_pread, failing_preadv
"""


def log_dir(target: Path) -> Path:
    """Make a sound log directory with the partition orders-0, of 297 records in three segments; return it."""
    shutil.copytree(_PLAIN, target)
    (target / "plain-0").rename(target / "orders-0")
    for path in target.glob("*-checkpoint"):
        path.write_text(path.read_text("ascii").replace("plain ", "orders "), "ascii")
    return target


def write(path: Path, position: int, data: bytes) -> None:
    """Write over some bytes of a file."""
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def bad_sectors(folder: Path) -> None:
    """A log of which 512 bytes cannot be read."""
    log_dir(folder / "kafka")
    (folder.parent / "python").mkdir()
    (folder.parent / "python" / "sitecustomize.py").write_text(
        _BAD_SECTORS.replace("NAME", repr(f"kafka/{_LOG}")), "utf-8"
    )


def scratched(folder: Path) -> None:
    """Three replicas, none of them sound."""
    for number, position in enumerate((300, 2000, 2000), 1):
        broker = log_dir(folder / f"broker{number}")
        write(broker / _LOG, position, b"X")
    (folder / "broker3" / "orders-0" / f"{240:020}.log").unlink()


def deleted(folder: Path) -> None:
    """The image of a disk on which no file has a name any more, and another broker's log directory."""
    with gzip.open(FIXTURES / "carve" / "ext4.img.gz") as image:
        (folder / "disk.img").write_bytes(image.read())
    shutil.copytree(_OTHER, folder / "broker2")


def torn_checkpoint(folder: Path) -> None:
    """A log directory after a crash: the recovery checkpoint is torn, and so is the end of a log."""
    kafka = log_dir(folder / "kafka")
    (kafka / ".kafka_cleanshutdown").unlink()
    (kafka / "recovery-point-offset-checkpoint").write_bytes(b"0\n1\norders 0")
    log = kafka / "orders-0" / f"{240:020}.log"
    write(log, log.stat().st_size - 40, bytes(40))


def refused(folder: Path) -> None:
    """A log directory whose small files are zero bytes after a power loss, and a sound one of the same broker."""
    kafka, other = log_dir(folder / "kafka"), folder / "kafka2"
    shutil.copytree(_NODE / "mixed-0", other / "mixed-0")
    for path in (kafka, other):
        shutil.copy(_NODE / "meta.properties", path)
    for name in ("meta.properties", "recovery-point-offset-checkpoint", "orders-0/leader-epoch-checkpoint"):
        (kafka / name).write_bytes(bytes(24))


def corrupt_index(folder: Path) -> None:
    """An index with an entry that leads nowhere."""
    write(log_dir(folder / "kafka") / _INDEX, 15, b"\0")


def impassable(folder: Path) -> None:
    """A batch whose length is wrong, and later one with a wrong byte in a record."""
    kafka = log_dir(folder / "kafka")
    write(kafka / _LOG, 300, b"X")
    write(kafka / _LOG, 3834, b"\3")


def retained(folder: Path) -> None:
    """Log segments that retention will delete, and one that it has deleted."""
    shutil.copytree(_NODE / "retention-0", folder / "kafka" / "orders-0")


def trimmed(folder: Path) -> None:
    """A partition of which somebody deleted records by DeleteRecords."""
    shutil.copytree(_NODE / "trimmed-0", folder / "kafka" / "orders-0")
    (folder / "kafka" / "log-start-offset-checkpoint").write_text("0\n1\norders 0 157\n", "ascii")


def hanging(folder: Path) -> None:
    """A transaction that no coordinator will end."""
    shutil.copytree(FIXTURES / "state" / "hanging" / "logdir", folder / "kafka")


def node(folder: Path) -> None:
    """The log directory of a broker with all kinds of topics."""
    shutil.copytree(_NODE, folder / "kafka")


def sound(folder: Path) -> None:
    """A sound log directory, a metadata log, and the log directory of a broker that lacks some partitions."""
    log_dir(folder / "kafka")
    shutil.copytree(_NODE / "__cluster_metadata-0", folder / "controller" / "__cluster_metadata-0")
    shutil.copytree(_NODE, folder / "broker1")


def fleet(folder: Path) -> None:
    """Copies of the disks of two hosts, and a list of them."""
    log_dir(folder / "disks" / "host1")
    write(log_dir(folder / "disks" / "host2") / _LOG, 300, b"X")
    lines = ["path,host,log.dir", *(f"disks/{name},{name}.example,/data/kafka" for name in ("host1", "host2"))]
    (folder / "fleet.csv").write_text("\n".join(lines) + "\n", "utf-8")


SCENES: dict[str, Callable[[Path], None]] = {
    "A DISK WITH BAD SECTORS": bad_sectors,
    "ALL REPLICAS DAMAGED": scratched,
    "A LOG.DIR DELETED BY MISTAKE": deleted,
    "A BROKER THAT DOES NOT START AFTER A CRASH": torn_checkpoint,
    "A BROKER THAT REFUSES ITS CHECKPOINTS": refused,
    "A CORRUPT INDEX": corrupt_index,
    "OFFSETS THAT CONSUMERS CANNOT PASS": impassable,
    "A RETENTION THAT DELETES TOO MUCH": retained,
    "ACCIDENTAL DELETERECORDS": trimmed,
    "A TRANSACTION THAT BLOCKS READERS": hanging,
    "OFFSETS RESET BY MISTAKE": node,
    "A FULL DISK": node,
    "MOVING A LOG.DIR": sound,
    "WHAT TO SEND TO A COLLEAGUE": impassable,
    "CHECKING A FLEET EVERY NIGHT": fleet,
}
