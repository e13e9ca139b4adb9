"""The results of retention and compaction as JSON lines, in pieces: a pass can leave millions of batches."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING

from kdump.broker.retention_results import Compacted, Retained
from kdump.dispatch import takes
from kdump.render.json.lines import JsonLines
from kdump.render.text.retention import outcome
from kdump.rows.json_lines import line, name, safe_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.broker.cleaner.cleaned_segment import CleanedSegment

_ROWS = 4096


def retained_json(row: Retained) -> str:
    """Return the line of what is deleted."""
    deletion, reasons = row.deletion, [] if row.deletion is None else row.deletion.reasons
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
        }
        for number, segment in enumerate(row.log.segments)
    ]
    return line(
        "retention",
        {
            "partition": name(row.partition),
            "now": row.now,
            "logStartOffset": row.log.start_offset,
            "logEndOffset": row.log.end_offset,
            "highWatermark": row.log.high_watermark,
            "logStartOffsetAfter": None if deletion is None else deletion.start_offset,
            "rolledTo": None if deletion is None else deletion.rolled_to,
            "assumed": [safe_text(row.assumed)] if row.assumed else [],
            "policy": None if row.policy is None else sorted(row.policy),
            "segments": segments,
        },
    )


def compacted_json(row: Compacted) -> Iterator[str]:
    """Yield the pieces of the line of what is compacted."""
    part = row.part
    head = line(
        "compaction",
        {
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
            "assumed": [safe_text(row.assumed)] if row.assumed else [],
        },
    )
    if row.cleaned is None:
        yield head
        return
    yield f'{head[:-1]},"endOffset":{json.dumps(row.end_offset)},"segments":['
    for number, segment in enumerate(row.cleaned):
        yield "," if number else ""
        yield from _segment(segment)
    yield "]}"


def _segment(segment: CleanedSegment) -> Iterator[str]:
    yield f'{{"baseOffset":{segment.base_offset},"size":{segment.size},"batches":['
    yield from _pieces(
        f"[{base},{last},{'null' if count < 0 else count},{'null' if horizon < 0 else horizon}]"
        for base, last, count, horizon in segment.batch_rows
    )
    yield '],"records":['
    yield from _pieces(f"[{first},{last}]" if last > first else str(first) for first, last in segment.runs)
    yield "]}"


def _pieces(texts: Iterable[str]) -> Iterator[str]:
    """Yield texts with commas between, some thousand at a time."""
    rest = iter(texts)
    begun = False
    while piece := ",".join(islice(rest, _ROWS)):
        yield f",{piece}" if begun else piece
        begun = True


class RetentionJson(JsonLines):
    """Writes JSON lines; each stands for itself, and no summary behind them."""

    @takes(Retained)
    def _retained(self, row: Retained) -> None:
        self._write(f"{retained_json(row)}\n")

    @takes(Compacted)
    def _compacted(self, row: Compacted) -> None:
        for piece in compacted_json(row):
            self._write(piece)
        self._write("\n")
        if row.failure:
            self._error(f"kdump: {row.path}: the pass {outcome(row)}")
