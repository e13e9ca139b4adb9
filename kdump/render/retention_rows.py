"""The results of retention and compaction as rows, in pieces: a pass can leave millions of batches."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from kdump.broker.retention_results import Compacted, Retained
from kdump.dispatch import takes
from kdump.render.row_lines import RowLines
from kdump.render.text.retention import outcome
from kdump.rows.fact_lines import word
from kdump.rows.json_lines import line, name, safe_text
from kdump.rows.layout import LINES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.broker.cleaner.cleaned_segment import CleanedSegment

_ROWS = 4096


def _assumed(row: Retained | Compacted) -> list[object]:
    """What was assumed, of the release too."""
    return [safe_text(one) for one in (row.release, *row.assumed) if one]


def retained_fields(row: Retained) -> dict[str, object]:
    """Return what is deleted, as JSON has it."""
    deletion, reasons = row.deletion, [] if row.deletion is None else row.deletion.reasons
    remote = row.remote
    segments = [
        {
            "baseOffset": segment.base_offset,
            "size": segment.size,
            "largestTimestamp": segment.largest,
            "from": segment.source,
            "maxInData": segment.max_in_data,
            "deleted": None if deletion is None else number < len(reasons),
            "reason": reasons[number] if number < len(reasons) else None,
            "firstDeletedAt": row.first_deleted[number],
            "copied": None if remote is None else row.log.is_copied(number),
        }
        for number, segment in enumerate(row.log.segments)
    ]
    return {
        "partition": name(row.partition),
        "now": row.now,
        "logStartOffset": row.log.start_offset,
        "logEndOffset": row.log.end_offset,
        "highWatermark": row.log.high_watermark,
        "logStartOffsetAfter": None if deletion is None else deletion.start_offset,
        "rolledTo": None if deletion is None else deletion.rolled_to,
        "localLogStartOffset": row.log.local_start_offset,
        "localLogStartOffsetAfter": None if deletion is None else deletion.local_start_offset,
        "highestRemoteOffset": None if remote is None else remote.highest,
        "copyableUpTo": None if remote is None else remote.ready,
        "localOnlySegments": None if remote is None else remote.local_segments,
        "localOnlySize": None if remote is None else remote.local_bytes,
        "assumed": _assumed(row),
        "policy": None if row.policy is None else sorted(row.policy),
        "segments": segments,
    }


def compacted_fields(row: Compacted) -> dict[str, object]:
    """Return what is compacted, as JSON has it, without the segments that a pass leaves."""
    part = row.part
    fields = {
        "partition": name(row.partition),
        "now": row.now,
        "firstDirtyOffset": part.first_dirty_offset,
        "firstUncleanableOffset": part.first_uncleanable_offset,
        "why": part.why,
        "cleanUntilOffset": part.clean_until_offset,
        "cleanBytes": part.clean_bytes,
        "cleanableBytes": part.cleanable_bytes,
        "totalBytes": part.total_bytes,
        "dirtyRatio": part.dirty_ratio,
        "mustCompactNow": part.must_compact_now,
        "chosen": part.chosen if row.policy is not None else None,
        "assumed": _assumed(row),
    }
    return fields if row.cleaned is None else {**fields, "endOffset": row.end_offset}


def compacted_json(row: Compacted) -> Iterator[str]:
    """Yield the pieces of the line of JSON of what is compacted, with its end."""
    head = line("compaction", compacted_fields(row))
    if row.cleaned is None:
        yield f"{head}\n"
        return
    yield f'{head[:-1]},"segments":['
    for number, segment in enumerate(row.cleaned):
        yield "," if number else ""
        yield f'{{"baseOffset":{segment.base_offset},"size":{segment.size},"batches":['
        yield from _pieces(_batches(segment))
        yield '],"records":['
        yield from _pieces(_records(segment))
        yield "]}"
    yield "]}\n"


def compacted_lines(row: Compacted) -> Iterator[str]:
    """Yield the pieces of the lines of facts of what is compacted, with their ends."""
    yield LINES.fields("compaction", compacted_fields(row))
    for segment in row.cleaned or ():
        yield f"compaction.segments partition={word(name(row.partition))} baseOffset={segment.base_offset} "
        yield f"size={segment.size} batches=["
        yield from _pieces(_batches(segment))
        yield "] records=["
        yield from _pieces(_records(segment))
        yield "]\n"


def _batches(segment: CleanedSegment) -> Iterator[str]:
    for base, last, count, horizon in segment.batch_rows:
        yield f"[{base},{last},{'null' if count < 0 else count},{'null' if horizon < 0 else horizon}]"


def _records(segment: CleanedSegment) -> Iterator[str]:
    for first, last in segment.runs:
        yield f"[{first},{last}]" if last > first else str(first)


def _pieces(texts: Iterable[str]) -> Iterator[str]:
    """Yield texts with commas between, some thousand at a time."""
    rest = iter(texts)
    begun = False
    while piece := ",".join(islice(rest, _ROWS)):
        yield f",{piece}" if begun else piece
        begun = True


class RetentionRows(RowLines):
    """Writes rows; each stands for itself, and no summary behind them."""

    @takes(Retained)
    def _retained(self, row: Retained) -> None:
        self._write(self._layout.fields("retention", retained_fields(row)))

    @takes(Compacted)
    def _compacted(self, row: Compacted) -> None:
        for piece in compacted_lines(row) if self._layout is LINES else compacted_json(row):
            self._write(piece)
        if row.failure:
            self._error(f"kdump: {row.path}: the pass {outcome(row)}")
