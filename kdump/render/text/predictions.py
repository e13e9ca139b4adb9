"""What a broker will do with a partition, as text: a line for scripts, sentences for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.render.escape import escape
from kdump.render.terminal.numbers import counted, size

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kdump.item import Prediction, SegmentFate

_MOST = 6  # segments that a sentence names


def prediction_line(one: Prediction) -> str:
    """Return one fact line: name=value pairs, the segments that do not stay as they are last."""
    loads = "true" if one.loads else "false"
    parts = [f"prediction {escape(one.partition)} start={one.start} loads={loads}"]
    if one.loads:
        parts.append(f"start_offset={one.log_start_offset} end={one.log_end_offset}")
    else:
        parts.append(f"stops={one.stops} class={one.reason_class}")
    parts.append(f"lost_bytes={one.bytes_lost} lost_records={one.records_lost}")
    parts += [f"segment={it.base_offset}:{it.action}:{it.size}" for it in one.segments if it.action != "keep"]
    parts += [f'assumed="{escape(what)}"' for what in one.assumed]
    if one.reason is not None:
        parts.append(f'reason="{escape(one.reason)}"')
    return " ".join(parts)


def prediction_sentences(one: Prediction, end: int | None) -> list[str]:
    """Return what a broker does with a partition, the consequences first.

    Args:
        one: the prediction.
        end: the log end offset by the data, None where it is not known.
    """
    lost = _lost(one)
    if not one.loads:
        found = [escape(one.reason or "")]
        return [*found, f"before that it cuts away {lost}"] if lost else found
    was = "" if end in (None, one.log_end_offset) else f" (was {end:,})"
    done = _done(one.segments)
    found = [f"loads, end offset {one.log_end_offset:,}{was}: {done or 'keeps everything'}"]
    if lost:
        offsets = max(0, (end or 0) - (one.log_end_offset or 0))
        found.append(f"{offsets:,} offsets, {lost} lost" if offsets else f"{lost} lost")
    return found


def _lost(one: Prediction) -> str:
    if not one.bytes_lost:
        return ""
    return f"{size(one.bytes_lost)} ({counted(one.records_lost, 'record')})"


def _done(segments: Iterable[SegmentFate]) -> str:
    groups: dict[str, list[SegmentFate]] = {}
    for one in segments:
        if one.action != "keep":
            groups.setdefault(one.action, []).append(one)
    return ", ".join(_phrase(action, them) for action, them in groups.items())


def _phrase(action: str, segments: list[SegmentFate]) -> str:
    if action == "truncate":
        return " and ".join(f"cuts {one.base_offset} at byte {one.size:,}" for one in segments)
    words = {
        "rebuild-index": "rebuilds the indexes of",
        "empty": "empties",
        "delete": "deletes",
        "split": "splits",
        "create": "makes",
        "replace": "puts finished work of compaction in the place of",
    }
    names = ", ".join(str(one.base_offset) for one in segments[:_MOST])
    more = f" and {len(segments) - _MOST:,} more" if len(segments) > _MOST else ""
    return f"{words[action]} {names}{more}"
