"""Partition directories in which a broker seems to work: logs grow, end in the middle of a batch, roll, are compacted,
cut off and deleted, in the steps of a broker.

Nothing of kdump is used here: what is made must not depend on what is tested.
"""

from __future__ import annotations

import os
import shutil
import struct
from typing import TYPE_CHECKING

from tests.support.partitions import name, segment
from tests.support.segments import batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

INTERVAL = 4096  # index.interval.bytes


def log_dir(place: Path, node: int = 1, own: str = "AAAAAAAAAAAAAAAAAAAAAA") -> Path:
    """Make a log directory.

    Args:
        place: of it.
        node: of the broker.
        own: its directory.id.
    """
    place.mkdir(parents=True, exist_ok=True)
    text = f"version=1\ncluster.id=streams\nnode.id={node}\ndirectory.id={own}\n"
    (place / "meta.properties").write_text(text, encoding="utf-8")
    return place


def value(offset: int) -> bytes:
    """The value of the record at an offset."""
    return b"%020d" % offset * (5 + offset % 7)


class GrowingLog:
    """The log of a partition, and what a broker does with it.

    Args:
        path: of the partition directory, which is made.
        count: records of a batch.
        topic_id: of its topic; None for none.
    """

    def __init__(self, path: Path, count: int = 4, topic_id: str | None = None) -> None:
        self.path = path
        self._count = count
        path.mkdir(parents=True)
        if topic_id is not None:
            (path / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n", encoding="utf-8")
        self.segments: dict[int, list[bytes]] = {0: []}  # whole batches by base offset
        self.end = 0  # the log end offset
        self._rest = b""  # of a batch of which a part is written
        self._write_indexes(0)

    @property
    def _active(self) -> int:
        return max(self.segments)

    def _file(self, base: int, suffix: str = "log") -> Path:
        return self.path / name(base, suffix)

    def _append(self, data: bytes) -> None:
        with self._file(self._active).open("ab", buffering=0) as file:
            file.write(data)

    def append(self, batches: int = 1) -> None:
        """Write whole batches, and the rest of one."""
        self._append(self._rest)
        self._rest = b""
        for _ in range(batches):
            made = self._made()
            self._append(made)
        self._write_indexes(self._active)

    def append_part(self, share: float) -> None:
        """Write a part of a batch; the next append writes the rest."""
        self.append(0)
        made = self._made()
        at = max(1, min(len(made) - 1, int(len(made) * share)))
        self._append(made[:at])
        self._rest = made[at:]

    def _made(self) -> bytes:
        made = batch(self.end, [value(self.end + k) for k in range(self._count)])
        self.segments[self._active].append(made)
        self.end += self._count
        return made

    def _write_indexes(self, base: int) -> None:
        for file, data in segment(base, self.segments[base], interval=INTERVAL).items():
            if file.endswith(".log"):
                self._file(base).touch()
            else:
                (self.path / file).write_bytes(data)

    def flip(self, number: int, bit: int) -> None:
        """Damage the base offset of a batch of the active segment, which no CRC covers.

        Args:
            number: of the batch.
            bit: of the offset, 0 for the lowest.
        """
        at = sum(map(len, self.segments[self._active][:number])) + 7 - bit // 8
        data = bytearray(self._file(self._active).read_bytes())
        data[at] ^= 1 << bit % 8
        self._file(self._active).write_bytes(data)

    def epochs(self, *entries: tuple[int, int]) -> None:
        """Write the leader-epoch-checkpoint: epoch and first offset of each."""
        lines = ["0", str(len(entries)), *(f"{epoch} {first}" for epoch, first in entries)]
        (self.path / "leader-epoch-checkpoint").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def roll(self) -> None:
        """Begin a new segment."""
        self.append(0)
        self.segments[self.end] = []
        self._write_indexes(self.end)

    def compact(self, keeps: Callable[[int], bool]) -> None:
        """Make one segment of all that are closed; of their batches those stay whose base offset is wanted.

        Source: LocalLog.replaceSegments: the new files get their names when the old ones have gone.
        """
        closed = sorted(self.segments)[:-1]
        if not closed:
            return
        base = closed[0]
        kept = [one for old in closed for one in self.segments[old] if keeps(struct.unpack_from(">q", one)[0])]
        made = segment(base, kept, interval=INTERVAL)
        for file, data in made.items():
            (self.path / f"{file}.cleaned").write_bytes(data)
        for file in made:
            (self.path / f"{file}.cleaned").rename(self.path / f"{file}.swap")
        for old in reversed(closed):
            for suffix in ("log", "index", "timeindex"):
                self._file(old, suffix).rename(self._file(old, f"{suffix}.deleted"))
            del self.segments[old]
        for file in made:
            (self.path / f"{file}.swap").rename(self.path / file)
        self.segments[base] = kept
        for old in closed:
            for suffix in ("log", "index", "timeindex"):
                self._file(old, f"{suffix}.deleted").unlink()

    def truncate(self, offset: int) -> None:
        """Cut off what a new leader does not have; an offset at which a batch begins."""
        self._rest = b""
        while self._active > offset:
            for suffix in ("log", "index", "timeindex"):
                self._file(self._active, suffix).unlink()
            del self.segments[self._active]
        base = self._active
        kept = [one for one in self.segments[base] if struct.unpack_from(">q", one)[0] < offset]
        os.truncate(self._file(base), sum(map(len, kept)))
        self.segments[base], self.end = kept, offset
        self._write_indexes(base)

    def delete_first(self) -> None:
        """Delete the first segment, as retention does."""
        base = min(self.segments)
        for suffix in ("log", "index", "timeindex"):
            self._file(base, suffix).rename(self._file(base, f"{suffix}.deleted"))
            self._file(base, f"{suffix}.deleted").unlink()
        del self.segments[base]

    def move(self, to: Path) -> None:
        """Move the directory to another log directory of the broker."""
        place = to / self.path.name
        shutil.move(self.path, place)
        self.path = place
