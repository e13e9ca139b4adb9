"""What verify says of the next start of a broker, and of what to do next: sentences that several layouts share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.words.escape import escape
from kdump.words.numbers import counted, size

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kdump.rows.steps import Step
    from kdump.rows.verdict import Prediction, SegmentFate


_MOST = 6  # segments that a sentence names


def rank_of(step: Step) -> str:
    """Return the heading of an option: its rank, or its condition."""
    if step.condition is not None:
        return f"if {step.condition}"
    return step.rank.value.replace("-", " ")


def amounts_of(step: Step) -> str:
    """Return what a step keeps, what it loses, and how much it copies or reads; empty where nothing is known."""
    found = []
    keeps, loses = step.keeps.records, step.loses.records
    if step.loses.is_none or loses == 0:
        found.append(f"keeps {_all_of(keeps)}" if keeps else "loses no intact record")
    else:
        found += [f"keeps {counted(keeps, 'intact record')}"] if keeps is not None else []
        found += [f"loses {counted(loses, 'intact record')}"] if loses is not None else []
    if step.size:
        found.append(f"{size(step.size)} to read or copy")
    return ", ".join(found)


def _all_of(records: int) -> str:
    return "the one intact record" if records == 1 else f"all {counted(records, 'intact record')}"


def hidden_sentence(one: Prediction) -> str:
    """Return what stays on disk and is not served any more, and what is given out again; empty for nothing."""
    found = [f"HIDES {counted(one.hidden_records, 'record')}"] if one.hidden_records else []
    if one.reused_offsets is not None:
        first, last = one.reused_offsets
        found.append(f"offset {first} will be" if first == last else f"offsets {first}..{last} will be")
        found[-1] += " reused for new records"
    return "; ".join(found)


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
    if one.reused_offsets is not None:
        end = max(end or 0, one.reused_offsets[1] + 1)
    was = "" if end in (None, one.log_end_offset) else f" (was {end})"
    done = ", ".join(filter(None, (_done(one.segments), _removed(one), _torn(one)))) or "keeps all logs and indexes"
    found = [f"loads, end offset {one.log_end_offset}{was}: {done}"]
    if lost:
        offsets = max(0, (end or 0) - (one.log_end_offset or 0))
        found.append(f"{counted(offsets, 'offset')}, {lost} lost" if offsets else f"{lost} lost")
    hidden = hidden_sentence(one)
    if one.bytes_read and one.is_clean is not None:
        found.append(f"the broker reads {size(one.bytes_read)} of logs for that")
    return [*found, hidden] if hidden else found


def _removed(one: Prediction) -> str:
    if not one.orphans:
        return ""
    more = f" and {len(one.orphans) - _MOST} more" if len(one.orphans) > _MOST else ""
    return f"removes {', '.join(map(escape, one.orphans[:_MOST]))}{more}, whose log is gone"


def _torn(one: Prediction) -> str:
    if one.torn is None or not one.keeps_torn:
        return ""
    where = f"byte {one.torn.position} of segment {one.torn.base_offset}"
    return f"keeps the torn batch at {where}, and appends behind it; consumers stop there"


def _lost(one: Prediction) -> str:
    if not one.bytes_lost:
        return ""
    records = counted(one.records_lost, "record") if one.records_lost else "no readable record"
    return f"{size(one.bytes_lost)} ({records})"


def _done(segments: Iterable[SegmentFate]) -> str:
    groups: dict[str, list[SegmentFate]] = {}
    for one in segments:
        if one.action != "keep":
            groups.setdefault(one.action, []).append(one)
    return ", ".join(_phrase(action, them) for action, them in groups.items())


def _phrase(action: str, segments: list[SegmentFate]) -> str:
    if action == "truncate":
        return " and ".join(f"cuts segment {one.base_offset} at byte {one.size}" for one in segments)
    words = {
        "rebuild-index": "makes new indexes of",
        "empty": "empties",
        "delete": "deletes",
        "split": "splits",
        "create": "makes",
        "replace": "puts finished work of compaction in the place of",
    }
    names = ", ".join(str(one.base_offset) for one in segments[:_MOST])
    more = f" and {len(segments) - _MOST:,} more" if len(segments) > _MOST else ""
    noun = "segment" if len(segments) == 1 else "segments"
    return f"{words[action]} {noun} {names}{more}"
