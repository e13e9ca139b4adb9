"""Damage of every kind, one at a time: to headers, bodies, logs, names, and the small files beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.partitions import name
from tests.support.rescue_truth.disks import CLEANER, EPOCHS, MARK, METADATA, POINT, START, Bytes, Copy, segment_of
from tests.support.segments import CONTROL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random

FIELDS = {
    "baseOffset": (0, 8),
    "length": (8, 4),
    "epoch": (12, 4),
    "magic": (16, 1),
    "crc": (17, 4),
    "attributes": (21, 2),
    "lastOffsetDelta": (23, 4),
    "baseTimestamp": (27, 8),
    "maxTimestamp": (35, 8),
    "producerId": (43, 8),
    "producerEpoch": (51, 2),
    "sequence": (53, 4),
    "count": (57, 4),
}
"""Place and size of the fields of a header of magic 2, bytes."""
LEGACY_FIELDS = {"baseOffset": (0, 8), "length": (8, 4), "crc": (12, 4), "magic": (16, 1), "attributes": (17, 1)}
_HEADER = 61


def placed(log: Bytes) -> Iterator[tuple[int, int]]:
    """Yield place and size of the batches that a log had, of the last one also where it is cut."""
    at = 0
    while at + 17 <= len(log.true):
        size = 12 + int.from_bytes(log.true[at + 8 : at + 12], "big")
        yield at, size
        at += size


def _filled(chance: Random, copy: Copy) -> str | None:
    filled = [path for path, log in copy.logs.items() if len(log.true) > _HEADER]
    return chance.choice(filled) if filled else None


def header(chance: Random, copy: Copy) -> str | None:
    """One or two bits of a header field; of those outside the CRC more often."""
    path = _filled(chance, copy)
    if path is None:
        return None
    log = copy.logs[path]
    places = list(placed(log))
    at, _ = chance.choice((*places, places[0], places[-1], places[-1]))
    fields = FIELDS if log.true[at + 16] == 2 else LEGACY_FIELDS
    often = ("baseOffset", "epoch") if fields is FIELDS else ("baseOffset",)
    field = chance.choice((*fields, *3 * often, *often[-1:]))
    start, size = fields[field]
    if at + start + size > len(log.data):
        return None
    low = chance.random() < 0.6  # a wrong bit among the low ones may look like another value that is right
    for _ in range(chance.choice((1, 1, 1, 2))):
        bit = chance.randrange(min(8, 8 * size) if low else 8 * size)
        log.data[at + start + size - 1 - bit // 8] ^= 1 << bit % 8
    copy.note(f"bits of {field}", path)
    return path


def body(chance: Random, copy: Copy) -> str | None:
    """A bit of the records of a batch."""
    path = _filled(chance, copy)
    if path is None:
        return None
    log = copy.logs[path]
    at, size = chance.choice(list(placed(log)))
    stop = min(at + size, len(log.data))
    where = chance.randrange(at + min(_HEADER, size - 4), at + size)
    if where >= stop:
        return None
    log.data[where] ^= 1 << chance.randrange(8)
    copy.note("body", path)
    return path


def cut(chance: Random, copy: Copy) -> str | None:
    """The end of a log is gone; mostly of the last one."""
    path = max(copy.logs, default=None) if chance.random() < 0.7 else _filled(chance, copy)
    if path is None or not copy.logs[path].data:
        return None
    log = copy.logs[path]
    del log[chance.randrange(len(log.data)) :]
    copy.note("cut", path)
    return path


def zeros(chance: Random, copy: Copy) -> str | None:
    """Sectors, or the beginning of a batch, are zeros."""
    path = _filled(chance, copy)
    if path is None:
        return None
    log = copy.logs[path]
    if chance.random() < 0.4:
        at, _ = chance.choice(list(placed(log)))
        at -= min(at, chance.randrange(30))
        size = chance.choice((4, 8, 12, 20, 40))
    else:
        size = chance.choice((64, 128, 512))
        at = chance.randrange(len(log.data)) // size * size
    stop = min(at + size, len(log.data))
    log.data[at:stop] = bytes(max(0, stop - at))
    copy.note("zeros", path)
    return path


def drop_batches(chance: Random, copy: Copy) -> str | None:
    """Some batches are gone, as if they had never been there."""
    path = _filled(chance, copy)
    if path is None:
        return None
    log = copy.logs[path]
    places = list(placed(log))
    first = chance.randrange(len(places))
    markers = [k for k, (at, _) in enumerate(places) if log.true[at + 16] == 2 and log.true[at + 22] & CONTROL]
    if markers and chance.random() < 0.6:
        first = chance.choice(markers)
    last = min(first + chance.choice((0, 0, 1, 2)), len(places) - 1)
    del log[places[first][0] : places[last][0] + places[last][1]]
    copy.note("dropped batches", path)
    return path


def drop_segment(chance: Random, copy: Copy) -> str | None:
    """A log is gone, alone or with all files of its segment."""
    if len(copy.logs) < 2:
        return None
    path = chance.choice(sorted(copy.logs))
    if chance.random() < 0.5:
        gone = [one for one in copy.small if one.startswith(f"{path[:20]}.")]
        for one in gone:
            del copy.small[one]
        copy.note("dropped segment", path)
    else:
        copy.note("dropped log", path)
    del copy.logs[path]
    return path


def rename(chance: Random, copy: Copy) -> str | None:
    """A segment has another name, with its indexes or alone."""
    if not copy.logs:
        return None
    path = chance.choice(sorted(copy.logs))
    base = segment_of(path)
    digits = list(f"{base:020}")
    digits[chance.randrange(14, 20)] = chance.choice("0123456789")
    new = int("".join(digits))
    if name(new) in copy.logs or any(one.startswith(f"{new:020}.") for one in copy.small):
        return None
    copy.note("renamed log", path)
    copy.logs[name(new)] = copy.logs.pop(path)
    if chance.random() < 0.6:
        for suffix in ("index", "timeindex", "txnindex"):
            if name(base, suffix) in copy.small:
                copy.small[name(new, suffix)] = copy.small.pop(name(base, suffix))
                copy.touched.add(name(new, suffix))
    return name(new)


def swap(chance: Random, copy: Copy) -> str | None:
    """Two logs have each other's name."""
    if len(copy.logs) < 2:
        return None
    one, other = chance.sample(sorted(copy.logs), 2)
    copy.note("swapped logs", one)
    copy.note("swapped logs", other)
    copy.logs[one], copy.logs[other] = copy.logs[other], copy.logs[one]
    return one


def _small_kinds(copy: Copy) -> list[str]:
    return sorted({*copy.small, *copy.beside} - {"meta.properties", METADATA})


def older_file(chance: Random, copy: Copy) -> str | None:
    """A small file is an older copy, as from a backup or after a power loss; snapshots all together."""
    older = copy.older
    if older is None:
        return None
    what = chance.choice(
        (EPOCHS, EPOCHS, ".snapshot", ".txnindex", ".index", ".timeindex", START, MARK, POINT, CLEANER)
    )
    if what.startswith("."):
        paths = sorted(path for path in {*copy.small, *older.small} if path.endswith(what))
        paths = paths if what == ".snapshot" else paths[-1:]
    else:
        paths = [what]
    changed = None
    for path in paths:
        where, old = (copy.beside, older.beside) if path in older.beside else (copy.small, older.small)
        if where.get(path) == old.get(path):
            continue
        if (path in old and not what.startswith(".")) or (path in old and path in where):
            where[path] = old[path]
        elif what == ".snapshot" and path not in old:
            del where[path]
        else:
            continue
        copy.note(f"older {what}", path)
        changed = path
    return changed


def missing_file(chance: Random, copy: Copy) -> str | None:
    """A small file is gone."""
    kinds = _small_kinds(copy)
    if not kinds:
        return None
    path = chance.choice((*kinds, *[EPOCHS] * (EPOCHS in kinds) * 3))
    (copy.beside if path in copy.beside else copy.small).pop(path)
    suffix = path[20:] if path[:20].isdigit() else path
    copy.note(f"missing {suffix}", path)
    return path


WAYS: tuple[tuple[Callable[[Random, Copy], str | None], int], ...] = (
    (header, 10),
    (body, 3),
    (cut, 3),
    (zeros, 4),
    (drop_batches, 4),
    (drop_segment, 3),
    (rename, 2),
    (swap, 1),
    (older_file, 6),
    (missing_file, 3),
)
"""The ways, and how often each is taken."""


def damage(chance: Random, copies: list[Copy]) -> None:
    """Damage copies in none to three ways; more than one often meets the same copy."""
    ways, weights = zip(*WAYS, strict=True)
    unlucky = chance.choice(copies)
    for _ in range(chance.choices((0, 1, 2, 3), (1, 5, 4, 3))[0]):
        for way in chance.choices(ways, weights, k=5):
            if way(chance, unlucky if chance.random() < 0.5 else chance.choice(copies)) is not None:
                break
