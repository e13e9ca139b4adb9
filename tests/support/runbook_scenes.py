"""The broken states that the runbooks of the manual are for, each made from fixtures in a new directory."""

from __future__ import annotations

import gzip
import shutil
from typing import TYPE_CHECKING

from tests.support import metadata_records
from tests.support.partitions import checkpoint
from tests.support.partitions import write as write_files
from tests.support.runs import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_PLAIN = FIXTURES / "damage" / "intact" / "none" / "logdir"
_OTHER = FIXTURES / "kafka-4.3.1" / "clean" / "node2"
_NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
_METADATA = "__cluster_metadata-0"
_DIRECTORIES = {2: "MYphCQC7bftdn-X-E8Xfpg", 3: "owOtN3BBvzljZe9TRgizWw"}  # as the brokers told the controller
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


def controllers_lost(folder: Path) -> None:
    """The volumes of two brokers, one of which lacks the end of the metadata log, and of a formatted controller."""
    for number in (2, 3):
        volume = folder / f"volume{number}"
        shutil.copytree(_NODE / _METADATA, volume / _METADATA)
        meta = (_NODE / "meta.properties").read_text("ascii")
        directory = meta.partition("directory.id=")[2].split()[0]
        meta = meta.replace("node.id=1", f"node.id={number}").replace(directory, _DIRECTORIES[number])
        (volume / "meta.properties").write_text(meta, "ascii")
    log = folder / "volume3" / _METADATA / f"{0:020}.log"
    log.write_bytes(log.read_bytes()[:-200])
    controller = folder / "volume1"
    (controller / _METADATA).mkdir(parents=True)
    shutil.copy(_NODE / "meta.properties", controller)


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


def dead(folder: Path) -> None:
    """The log directory of a broker that will not come back, with a batch that cannot be read."""
    write(log_dir(folder / "kafka") / _LOG, 300, b"X")


def sound(folder: Path) -> None:
    """A sound log directory, a metadata log, and the log directory of a broker that lacks some partitions."""
    log_dir(folder / "kafka")
    shutil.copytree(_NODE / "__cluster_metadata-0", folder / "controller" / "__cluster_metadata-0")
    shutil.copytree(_NODE, folder / "broker1")


def fleet(folder: Path) -> None:
    """Copies of the disks of two hosts, and a list of them."""
    log_dir(folder / "disks" / "host1")
    write(log_dir(folder / "disks" / "host2") / _LOG, 300, b"X")
    ids = folder / "disks" / "host2" / "meta.properties"  # no copy of the first one
    text = ids.read_text("utf-8").replace("iZ1YCbDkQ4ioqfEgLpVb8A", "iZ1YCbDkQ4ioqfEgLpVb8Q")
    ids.write_text(text.replace("node.id=1", "node.id=2"), "utf-8")
    lines = ["path,host,log.dir", *(f"disks/{name},{name}.example,/data/kafka" for name in ("host1", "host2"))]
    (folder / "fleet.csv").write_text("\n".join(lines) + "\n", "utf-8")


def topic_deleted(folder: Path) -> None:
    """A log directory with a partition that its broker is about to remove, and the new topic of that name beside it."""
    kafka = log_dir(folder / "kafka")
    gone = kafka / "orders-0.0123456789abcdef0123456789abcdef-delete"
    (kafka / "orders-0").rename(gone)
    log = gone / f"{240:020}.log"
    data, at = bytearray(log.read_bytes()), 0
    while at < len(data):  # the last segment is of a later leader epoch, which no CRC covers
        data[at + 12 : at + 16] = (3).to_bytes(4)
        at += 12 + int.from_bytes(data[at + 8 : at + 12])
    log.write_bytes(data)
    (gone / "leader-epoch-checkpoint").write_bytes(checkpoint((0, 0), (3, 240)))
    new = {f"{0:020}.log": b"", "partition.metadata": f"version: 0\ntopic_id: {metadata_records.uuid(2)}".encode()}
    records = [metadata_records.broker(1), metadata_records.topic("orders", 2), metadata_records.partition(0, 2, [1])]
    write_files(kafka / "orders-0", new)
    write_files(kafka / "__cluster_metadata-0", {f"{0:020}.log": metadata_records.log(records)})
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (kafka / name).write_bytes(checkpoint(("orders", 0, 0)))


SCENES: dict[str, Callable[[Path], None]] = {
    "A DISK WITH BAD SECTORS": bad_sectors,
    "ALL REPLICAS DAMAGED": scratched,
    "A LOG.DIR DELETED BY MISTAKE": deleted,
    "A CLUSTER WHOSE CONTROLLERS ARE LOST": controllers_lost,
    "A TOPIC DELETED BY MISTAKE": topic_deleted,
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
    "A DEAD BROKER WHOSE DATA IS NEEDED": dead,
    "CHECKING A FLEET EVERY NIGHT": fleet,
}
