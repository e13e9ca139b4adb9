"""Three copies of a partition made byte by byte and damaged at random, and what of it is intact in any of them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.partitions import checkpoint, name, write
from tests.support.segments import batch

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

COPIES = 3


@dataclass
class Truth:
    """The intact log.

    Args:
        parts: its batches by base offset.
        starts: base offsets of its segments.
        epochs: entries of its leader-epoch-checkpoint.
    """

    parts: dict[int, bytes]
    starts: list[int]
    epochs: list[tuple[int, int]]
    end: int


@dataclass
class Copies:
    """Damaged copies.

    Args:
        paths: of their directories.
        truth: the intact log.
        intact: base offsets of the batches that at least one copy has as they were.
        what: how each was damaged.
        stale: number of the copy that has a branch of its own, -1 for none.
        wrong_epochs: numbers of the copies in which the leader epoch of a batch is wrong.
        wrong_offsets: batches, from the length on, whose base offset is wrong in a copy.
    """

    paths: list[Path]
    truth: Truth
    intact: set[int] = field(default_factory=set)
    what: list[str] = field(default_factory=list)
    stale: int = -1
    wrong_epochs: set[int] = field(default_factory=set)
    wrong_offsets: set[bytes] = field(default_factory=set)

    def note(self, number: int, sound: bytes, data: bytes) -> None:
        """Note the batches of a log whose base offset or leader epoch is wrong, and nothing else."""
        at = 0
        while at < len(sound):
            end = at + 12 + int.from_bytes(sound[at + 8 : at + 12], "big")
            was, now = sound[at:end], data[at:end]
            if now[16:] == was[16:] and now[12:16] != was[12:16]:
                self.wrong_epochs.add(number)
            if now[8:] == was[8:] and now[:8] != was[:8]:
                self.wrong_offsets.add(now[8:])
            at = end


def truth_of(chance: Random) -> Truth:
    """Make an intact log of a few segments, with a few leader epochs."""
    parts: dict[int, bytes] = {}
    starts, epochs = [0], []
    offset, epoch = 0, chance.randrange(3)
    epochs.append((epoch, 0))
    for number in range(chance.randrange(12, 40)):
        if number and chance.random() < 0.12:
            epoch += chance.randrange(1, 4)
            epochs.append((epoch, offset))
        if number and chance.random() < 0.15:
            starts.append(offset)
        values = [chance.randbytes(chance.randrange(4, 60)) for _ in range(chance.randrange(1, 5))]
        parts[offset] = batch(offset, values, epoch=epoch, base_timestamp=1_700_000_000_000 + number)
        offset += len(values)
    return Truth(parts, starts, epochs, offset)


def _files(
    truth: Truth, stop: int, chance: Random, *, extra: bool
) -> tuple[dict[int, bytearray], list[tuple[int, int]]]:
    """The logs of a copy up to an offset, perhaps with a branch of its own behind it."""
    logs: dict[int, bytearray] = {}
    for start in truth.starts:
        if start < stop or start == 0:
            logs[start] = bytearray()
    for offset, data in truth.parts.items():
        if offset < stop:
            logs[max(start for start in logs if start <= offset)] += data
    entries = [one for one in truth.epochs if one[1] < stop]
    if extra:
        last = max(logs)
        epoch = entries[-1][0]
        offset = stop
        for _ in range(chance.randrange(1, 6)):
            values = [chance.randbytes(chance.randrange(4, 60)) for _ in range(chance.randrange(1, 5))]
            logs[last] += batch(offset, values, epoch=epoch, base_timestamp=1_700_000_500_000)
            offset += len(values)
    return logs, entries


def damaged_copies(root: Path, chance: Random, *, headers: bool = True) -> Copies:
    """Make damaged copies below a directory.

    Args:
        root: the directory.
        chance: decides everything.
        headers: flips may hit fields outside the CRC; else those of the payload only.
    """
    truth = truth_of(chance)
    stale = chance.randrange(COPIES) if chance.random() < 0.4 and len(truth.epochs) > 1 else -1
    made = Copies([], truth, stale=stale)
    is_known = False
    for number in range(COPIES):
        said: list[str] = []
        stop = truth.end
        if number == stale:
            stop = chance.choice(truth.epochs[1:])[1]
            said.append(f"stale at {stop}")
        logs, entries = _files(truth, stop, chance, extra=number == stale)
        sound = {base: bytes(data) for base, data in logs.items()}
        for _ in range(chance.randrange(4)):
            said.append(_damage(logs, chance, headers=headers))
        folder = root / f"broker{number}" / "plain-0"
        shutil.rmtree(folder, ignore_errors=True)
        files = {name(base): bytes(data) for base, data in logs.items()}
        # where no copy knows of a newer epoch, nobody can tell that a branch is stale
        last_to_know = number == max(one for one in range(COPIES) if one != stale) and not is_known
        if chance.random() < 0.8 or (stale >= 0 and last_to_know):
            is_known = is_known or number != stale
            files["leader-epoch-checkpoint"] = checkpoint(*entries)
        files.setdefault(name(max(truth.starts[:1])), b"") if not any(one.endswith(".log") for one in files) else None
        write(folder, files)
        everything = b"\0".join(bytes(data) for data in logs.values())
        made.intact |= {offset for offset, data in truth.parts.items() if data in everything}
        made.paths.append(folder)
        for base, data in logs.items():
            made.note(number, sound[base], bytes(data))
        made.what.append(", ".join(said))
    return made


def _damage(logs: dict[int, bytearray], chance: Random, *, headers: bool) -> str:
    """Damage one log of a copy in one way; say how."""
    filled = [base for base, data in logs.items() if data]
    if not filled:
        return "nothing"
    base = chance.choice(filled)
    data = logs[base]
    match chance.randrange(5):
        case 0 | 1:
            at = chance.randrange(len(data))
            if not headers:
                at = max(at, 61)
                if at >= len(data):
                    return "nothing"
            data[at] ^= 1 << chance.randrange(8)
            return f"flip {base}:{at}"
        case 2:
            size = chance.choice((64, 128, 512))
            at = chance.randrange(len(data)) // size * size
            stop = min(at + size, len(data))
            data[at:stop] = bytes(stop - at)
            return f"zeros {base}:{at}+{size}"
        case 3:
            last = max(filled)
            cut = chance.randrange(len(logs[last]))
            del logs[last][cut:]
            return f"cut {last}:{cut}"
        case _:
            del logs[base]
            return f"lost {base}"
