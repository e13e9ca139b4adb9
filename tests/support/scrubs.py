"""What the tests of a scrub share: partitions of closed segments, rot in them, and runs in this process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kdump.checks.scrub import ScrubOptions, scrub
from kdump.finding import Code, Finding
from kdump.item import Checked, Unchecked
from tests.support.partitions import below, meta, segment, write
from tests.support.segments import CRC_AT, RECORDS_AT, Record, batch, with_crc

if TYPE_CHECKING:
    from pathlib import Path

    from kdump.item import Item

BLOCK = 64 * 1024
SEGMENTS = 4  # of a partition; the last one is not closed
_BATCHES = 5


def log_dir(root: Path, topics: str = "ab", *, value: int = 40, batches: int = _BATCHES) -> Path:
    """A log directory with a partition of each topic."""
    files = {"meta.properties": meta(1)}
    for topic in topics:
        for number in range(SEGMENTS):
            base = number * batches
            parts = [batch(base + at, [Record(bytes([65 + at % 26]) * value)]) for at in range(batches)]
            files.update(below(f"{topic}-0", segment(base, parts)))
    return write(root, files)


def closed(root: Path) -> list[Path]:
    """The logs of the closed segments below a log directory."""
    return [path for one in sorted(root.glob("*-*")) for path in sorted(one.glob("*.log"))[:-1]]


def parts_of(path: Path) -> list[tuple[int, int]]:
    """Position and size of each batch of a log."""
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        size = int.from_bytes(data[at + 8 : at + 12], "big") + 12
        found.append((at, size))
        at += size
    return found


def rot(path: Path, number: int = 1, *, mend: bool = False, depth: int = 10) -> tuple[int, int]:
    """Flip a bit of a record as a disk does; return position and size of its batch.

    Args:
        path: of the log.
        number: of the batch.
        mend: make its CRC right again.
        depth: bytes behind the header.
    """
    at, size = parts_of(path)[number]
    status = path.stat()
    with path.open("r+b", buffering=0) as file:
        file.seek(at)
        data = bytearray(file.read(size))
        data[RECORDS_AT + depth] ^= 4
        file.seek(at)
        file.write(with_crc(bytes(data)) if mend else bytes(data))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert mend or int.from_bytes(data[CRC_AT : CRC_AT + 4], "big")
    return at, size


def run(ledger: Path, *paths: Path, **options: Any) -> list[Item]:
    """All items of a run."""
    return list(scrub([str(path) for path in paths], ScrubOptions(str(ledger), **options)))


def rotten(items: list[Item]) -> list[Finding]:
    """What has changed."""
    return [one for one in items if isinstance(one, Finding) and one.code is Code.V05]


def read(items: list[Item]) -> list[str]:
    """The names of the logs that were read, with their directory, in order."""
    return [
        os.path.join(os.path.basename(os.path.dirname(file.path)), os.path.basename(file.path))
        for one in items
        if isinstance(one, Checked)
        for file in one.files
    ]


def left(items: list[Item]) -> list[str | None]:
    """What was not reached."""
    return [one.path for one in items if isinstance(one, Unchecked)]
