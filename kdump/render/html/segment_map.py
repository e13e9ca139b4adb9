"""What the report shows of one segment: its damage map, large or small."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kdump.format.kinds import FileKind
from kdump.render.html.map_marks import marks, outline, percent
from kdump.words.numbers import counted, size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kdump.render.html.collected import PartitionFound, SegmentFound
    from kdump.render.html.map_marks import MapMark

_LISTED = 12  # marks of an axis that stand below it as text
_TRACKS = {FileKind.INDEX: "offset index", FileKind.TIMEINDEX: "time index", FileKind.TXNINDEX: "transaction index"}


def segment_map(partition: PartitionFound, segment: SegmentFound, file_numbers: Mapping[str, int]) -> dict[str, Any]:
    """Return what the page shows of a segment: an axis for each of its files, and on it what is wrong where.

    Args:
        partition: what was found in it.
        segment: one of it.
        file_numbers: by path; the ids of the page are made of these.
    """
    tracks = []
    top = 0
    whole: list[str] = []
    for kind in segment.kinds:
        path = segment.paths[kind]
        file = partition.files.get(path)
        found = marks(file, segment.sizes[kind])
        if file is not None:
            whole += [f"{code.name} {code.slug} ({kind.value})" for code in file.whole]
        is_log = kind is FileKind.LOG
        height = 28 if is_log else 8
        tracks.append(
            {
                "name": _TRACKS.get(kind, "log"),
                "length": segment.sizes[kind],
                "size": size(segment.sizes[kind]),
                "y": top + 14,
                "height": height,
                "label": top + 10,
                "marks": [_mark(file_numbers[file.path], one) for one in found] if file is not None else [],
            }
        )
        top += 14 + height + 6
    return {
        "title": segment.paths.get(FileKind.LOG) or next(iter(segment.paths.values())),
        "about": _about(segment),
        "tracks": tracks,
        "height": top + 34,
        "ticks": _ticks(segment.sizes[segment.kinds[-1]]),
        "tick": top + 6,
        "tip": top + 28,
        "whole": whole,
        "cuts": list(_cuts(partition, segment)),
        "listed": [one for track in tracks for one in track["marks"]],  # type: ignore[attr-defined]
        "few": _LISTED,
    }


def _mark(number: int, one: MapMark) -> dict[str, Any]:
    return {
        "word": one.word.split()[0],
        "x": one.x,
        "width": one.width,
        "short": one.short,
        "text": one.text,
        "file": f"f{number}",
        "to": f"f{number}" if one.finding is None else f"f{number}-{one.finding + 1}",
    }


def small_segment_map(partition: PartitionFound, segment: SegmentFound) -> dict[str, Any]:
    """Return the short form of a segment: an outline for each file with marks, and how many there are of each.

    Args:
        partition: what was found in it.
        segment: one of it.
    """
    kinds = segment.kinds
    rows = []
    for kind in kinds:
        found = marks(partition.files.get(segment.paths[kind]), segment.sizes[kind])
        if found or kind is FileKind.LOG:
            words = [one.word for one in found]
            text = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words)) or "valid"
            rows.append({"paths": outline(found, 8), "text": text, "name": _TRACKS.get(kind, "log")})
    path = segment.paths.get(FileKind.LOG) or next(iter(segment.paths.values()))
    return {"title": path, "rows": rows, "size": size(segment.sizes[kinds[-1]])}


def _about(segment: SegmentFound) -> str:
    parts = []
    checked = segment.checked
    if checked is not None:
        if checked.next_offset > checked.base_offset:
            parts.append(f"offsets {checked.base_offset}..{checked.next_offset - 1}")
        parts.append(counted(checked.batches, "batch", "batches"))
    if FileKind.LOG in segment.sizes:
        parts.append(f"{segment.sizes[FileKind.LOG]} bytes")
    return ", ".join(parts)


def _ticks(length: int) -> list[dict[str, str]]:
    """The numbers below an axis; those in between are left out on a telephone."""
    found = []
    for at, anchor in ((0, "start"), (1, "middle"), (2, "middle"), (3, "middle"), (4, "end")):
        position = length * at // 4
        is_end = at in (0, 4)
        text = f"byte {position}" if is_end else size(position)
        found.append({"x": percent(position, length), "anchor": anchor, "text": text, "minor": "" if is_end else "m"})
    return found if length >= 4 else [found[0]]


def _cuts(partition: PartitionFound, segment: SegmentFound) -> Iterator[dict[str, str]]:
    """Where a broker would cut the log, by the kind of start."""
    if segment.checked is None:
        return
    starts: dict[tuple[int, str], list[str]] = {}
    for one in partition.predictions:
        for fate in one.segments:
            if fate.base_offset == segment.checked.base_offset and fate.action in ("truncate", "empty", "delete"):
                starts.setdefault((fate.size, fate.action), []).append(one.start)
    for (position, action), kinds in sorted(starts.items()):
        does = "deletes this segment" if action == "delete" else f"cuts the log at byte {position}"
        where = percent(position, segment.sizes[FileKind.LOG])
        yield {"x": where, "text": f"a broker {does} at its next start ({', '.join(kinds)})"}
