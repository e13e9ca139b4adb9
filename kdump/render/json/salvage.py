"""What salvage has kept and what not, as JSON lines: in the file beside a partition, and on stdout."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kdump.finding import Finding
from kdump.render.json.lines import finding_json, line, name, text_or_bytes
from kdump.salvaged import Diverged, Kept, PatchedField, Revived, Salvaged

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kdump.item import Loss

    SalvageRow = Kept | Diverged | PatchedField | Revived | Salvaged | Loss | Finding


def row_json(row: SalvageRow) -> str:
    """Return the line of a row."""
    if isinstance(row, Kept):
        fields: dict[str, object] = {
            "partition": name(row.partition),
            "offset": row.offset,
            "lastOffset": row.last_offset,
            "records": row.records,
            "source": name(row.source),
            "sources": row.sources,
        }
        return line("kept", fields)
    if isinstance(row, Diverged):
        fields = {
            "partition": name(row.partition),
            "offset": row.offset,
            "lastOffset": row.last_offset,
            "source": name(row.source),
            "epoch": row.epoch,
            "records": row.records,
        }
        return line("divergent", fields)
    if isinstance(row, PatchedField):
        fields = {
            "partition": name(row.partition),
            "file": name(row.file),
            "position": row.position,
            "field": row.field,
            "from": row.before,
            "to": row.after,
        }
        return line("patched", fields)
    if isinstance(row, Revived):
        return line("revived", {"partition": name(row.partition), "key": text_or_bytes(row.key), "offset": row.offset})
    if isinstance(row, Finding):
        return finding_json(row)
    if isinstance(row, Salvaged):
        return _salvaged_json(row)
    from kdump.render.json.lines import loss_json

    return loss_json(row)


def former_json(text: str, changed: Iterable[str]) -> str:
    """Return the line of what a partition came to in a former run, and that it was one.

    Args:
        text: the line, as it was written then.
        changed: the logs and directories of the sources that changed since.
    """
    row = {**json.loads(text), "keptFromFormerRun": True, "changedSince": [name(one) for one in changed]}
    return line(str(row.pop("type")), row)


def _salvaged_json(row: Salvaged) -> str:
    return line(
        "salvage",
        {
            "partition": name(row.partition),
            "sources": [name(one) for one in row.sources],
            "batches": row.batches,
            "records": row.records,
            "bytes": row.size,
            "segments": row.segments,
            "logStartOffset": row.log_start_offset,
            "logEndOffset": row.log_end_offset,
            "offsetsLost": row.offsets_lost,
            "openTransactions": [
                {
                    "producerId": one.producer_id,
                    "producerEpoch": one.producer_epoch,
                    "firstOffset": one.first_offset,
                }
                for one in row.open_transactions
            ],
            "copies": [{"path": name(one.path), "state": one.state, "logEndOffset": one.end} for one in row.copies],
        },
    )
