"""Damages that leave holes: batches and segments that are gone, indexes that know of them or not."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.support.hole_histories import never
from tests.support.hole_logs import files, segment_files
from tests.support.hole_truth import segments_of
from tests.support.partitions import aborted, name

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tests.support.hole_histories import Made
    from tests.support.hole_logs import Segment, Stop


def _cut(made: Made, segment: Segment, first: int, last: int, *, rebuilt: bool) -> None:
    """Take batches out of a segment; its indexes stay as they were, or are rebuilt."""
    gone = segment.batches[first:last]
    segment.batches = segment.batches[:first] + segment.batches[last:]
    here = segment_files(segment, made.stop, is_open=segment is made.log.segments[-1] and not made.stop.is_clean)
    if not rebuilt:
        made.files[name(segment.base)] = here[name(segment.base)]
        return
    made.files |= here
    bases = {one.base for one in gone}
    entries = [one for one in made.log.aborted.get(segment.base, ()) if one.last not in bases]
    made.files.pop(name(segment.base, "txnindex"), None)
    if entries:
        made.files[name(segment.base, "txnindex")] = b"".join(aborted(*one) for one in entries)


def _filled(made: Made, least: int = 1) -> list[Segment]:
    return [one for one in made.log.segments if len(one.batches) >= least]


def _some(chance: Random, segment: Segment, *, is_last: bool) -> tuple[int, int]:
    """Batches of a segment: not the last one of a log, which is a cut of its tail."""
    first = chance.randrange(len(segment.batches) - is_last)
    last = min(first + chance.choice((1, 1, 1, 2, 3, 6)), len(segment.batches) - is_last)
    return first, last


def _cut_one(chance: Random, made: Made, *, rebuilt: bool) -> Segment | None:
    last = next((one for one in reversed(made.log.segments) if one.batches), None)
    choice = [one for one in _filled(made) if one is not last or len(one.batches) > 1]
    if not choice:
        return None
    segment = chance.choice(choice)
    _cut(made, segment, *_some(chance, segment, is_last=segment is last), rebuilt=rebuilt)
    return segment


def cut(chance: Random, made: Made) -> str:
    """Batches are gone, the indexes are as they were."""
    return "cut" if _cut_one(chance, made, rebuilt=False) else "nothing"


def cut_rebuilt(chance: Random, made: Made) -> str:
    """Batches are gone, and the indexes were rebuilt."""
    return "cut, indexes rebuilt" if _cut_one(chance, made, rebuilt=True) else "nothing"


def cut_unknown_to_user(chance: Random, made: Made) -> str:
    """Batches are gone, the indexes were rebuilt, and the user says that the topic was never compacted."""
    never(made)
    return "cut, never compacted" if _cut_one(chance, made, rebuilt=True) else "nothing"


def cuts(chance: Random, made: Made) -> str:
    """Batches are gone in several places."""
    rebuilt = [chance.random() < 0.3 for _ in range(chance.randrange(2, 4))]
    for one in sorted(rebuilt, reverse=True):
        _cut_one(chance, made, rebuilt=one)
    return "several cuts"


def segment_gone(chance: Random, made: Made) -> str:
    """The files of a segment are gone, not of the last one."""
    if len(made.log.segments) < 2:
        return "nothing"
    gone = made.log.segments.pop(chance.randrange(len(made.log.segments) - 1))
    made.files = {path: data for path, data in made.files.items() if int_of(path) != gone.base}
    return "segment gone"


def int_of(path: str) -> int:
    """The base offset in the name of a file; -1 if there is none."""
    return int(path[:20]) if path[:20].isdigit() else -1


def last_gone(chance: Random, made: Made) -> str:
    """The files of the last segments are gone; the snapshots are there or not."""
    count = chance.randrange(1, 3)
    if len(made.log.segments) <= count:
        return "nothing"
    keeps = chance.random() < 0.5
    for gone in made.log.segments[-count:]:
        made.files = {
            path: data
            for path, data in made.files.items()
            if int_of(path) < gone.base or (keeps and path.endswith(".snapshot"))
            or int_of(path) == -1
        }  # fmt: skip
    del made.log.segments[-count:]
    return "last segments gone"


def tail_cut(chance: Random, made: Made) -> str:
    """The log ends earlier, at the end of a batch; the indexes are as they were or rebuilt."""
    segment = next((one for one in reversed(made.log.segments) if one.batches), None)
    if segment is None or len(segment.batches) < 2:
        return "nothing"
    first = chance.randrange(1, len(segment.batches))
    rebuilt = chance.random() < 0.3
    _cut(made, segment, first, len(segment.batches), rebuilt=rebuilt)
    return "tail cut, index rebuilt" if rebuilt else "tail cut"


def marker_gone(chance: Random, made: Made) -> str:
    """The marker of an aborted transaction is gone, and the transaction index knows of it."""
    markers = {one.last for some in made.log.aborted.values() for one in some}
    places = [
        (segment, at)
        for segment in made.log.segments
        for at, one in enumerate(segment.batches)
        if one.base in markers and (segment is not made.log.segments[-1] or at < len(segment.batches) - 1)
    ]
    if not places:
        return "nothing"
    segment, at = chance.choice(places)
    keeps = made.files.get(name(segment.base, "txnindex"))
    _cut(made, segment, at, at + 1, rebuilt=chance.random() < 0.7)
    if keeps is not None:
        made.files[name(segment.base, "txnindex")] = keeps
    return "marker gone"


def cut_beside_swap(chance: Random, made: Made) -> str:
    """Batches are gone, and a cleaner was interrupted: its indexes may be those of other bytes."""
    segment = _cut_one(chance, made, rebuilt=False)
    if segment is None:
        return "nothing"
    for suffix in ("log", "index", "timeindex"):
        data = made.files[name(segment.base, suffix)]
        made.files[f"{name(segment.base, suffix)}.cleaned"] = data[: len(data) // 2] if suffix == "log" else b""
    return "cut beside .cleaned"


def index_slots(chance: Random, made: Made) -> str:
    """Batches are gone from the last segment, whose indexes have slots that nothing was written to."""
    last = made.log.segments[-1]
    if len(last.batches) < 2:
        return "nothing"
    made.stop = replace_stop(made)
    made.files |= segment_files(last, made.stop, is_open=True)
    _cut(made, last, *_some(chance, last, is_last=True), rebuilt=False)
    return "cut in open segment"


def replace_stop(made: Made) -> Stop:
    """The same, without a shutdown."""
    return made.stop._replace(is_clean=False)


def cut_among_holes(chance: Random, made: Made) -> str:
    """Batches are gone where a cleaner made holes too, and the indexes have few entries."""
    made.stop = made.stop._replace(interval=chance.choice((250, 400, 600)))
    made.files |= files(made.log, made.stop)
    choice = [one for one in made.log.segments[:-1] if _holes(one) > 1]
    if not choice:
        return "nothing"
    segment = chance.choice(choice)
    first = chance.randrange(max(len(segment.batches) // 2, 1))
    _cut(made, segment, first, first + 1, rebuilt=False)
    return "cut among holes"


def _holes(segment: Segment) -> int:
    return sum(b.base > a.last + 1 for a, b in pairwise(segment.batches))


def slots_in_the_middle(chance: Random, made: Made) -> str:
    """Batches are gone from a closed segment whose index was not trimmed, or has slots only."""
    choice = [one for one in made.log.segments[:-1] if one.batches]
    if not choice:
        return "nothing"
    segment = chance.choice(choice)
    _cut(made, segment, *_some(chance, segment, is_last=False), rebuilt=False)
    path = name(segment.base, "index")
    made.files[path] = chance.choice((made.files[path], b"")) + bytes(64)
    return "cut, closed index untrimmed"


def first_gone(chance: Random, made: Made) -> str:
    """The first segments are gone, and the checkpoint file says that the log began before."""
    if len(made.log.segments) < 3 or not made.has_log_dir:
        return "nothing"
    gone = made.log.segments.pop(0)
    made.files = {path: data for path, data in made.files.items() if int_of(path) != gone.base}
    if made.known.start is None:
        made.known = made.known._replace(start=gone.base)
    return "first segment gone"


def salvaged(chance: Random, made: Made) -> str:
    """Batches are gone, and the salvage that made this directory wrote down which."""
    if not _cut_one(chance, made, rebuilt=True):
        return "nothing"
    segments = segments_of(made.files)
    batches = [one for segment in segments for one in segment.batches]
    lost = [(a.last + 1, b.first - 1) for a, b in pairwise(batches) if b.first > a.last + 1]
    if not lost:
        return "nothing"
    lost = chance.sample(lost, chance.randrange(1, len(lost) + 1))
    rows = [
        {
            "type": "loss", "partition": made.folder, "file": made.path, "position": None, "length": None,
            "offset": first, "lastOffset": last, "records": None, "because": ["O04"], "elsewhere": [],
            "certainty": chance.choice(("lost", "doubtful")),
        }
        for first, last in lost
    ]  # fmt: skip
    made.beside[f"{made.path}.salvage.jsonl"] = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    made.known = made.known._replace(told=tuple(lost))
    return "salvaged"


DAMAGES: tuple[Callable[[Random, Made], str], ...] = (
    cut,
    cut,
    cut,
    cut_rebuilt,
    cut_unknown_to_user,
    cuts,
    segment_gone,
    last_gone,
    tail_cut,
    tail_cut,
    marker_gone,
    cut_beside_swap,
    index_slots,
    cut_among_holes,
    cut_among_holes,
    slots_in_the_middle,
    first_gone,
    salvaged,
)
