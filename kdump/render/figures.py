"""The statistics of the logs of a directory, as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.codec.base import codec_name
from kdump.render.json.lines import line, name
from kdump.render.text.find import iso

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.figures import CodecFigures, EndedTransactions, Figures, SizeFigures


def figures_text(figures: Figures) -> Iterator[str]:
    """Yield lines in the manner of Kafka's: key, colon, blank, value; what there is nothing of is left out."""
    yield f"Stats of {figures.path or '.'}"
    if not figures.complete:
        yield "not complete: a limit was met, or records could not be read"
    yield _pairs(
        files=figures.files,
        bytes=figures.size,
        batches=figures.batches,
        records=figures.records,
        controlBatches=figures.control_batches,
        tombstones=figures.tombstones,
        producers=figures.producers,
    )
    yield _pairs(firstOffset=figures.first_offset, lastOffset=figures.last_offset)
    if figures.min_timestamp is not None and figures.max_timestamp is not None:
        yield f"minTimestamp: {figures.min_timestamp}{iso(figures.min_timestamp)}"
        yield f"maxTimestamp: {figures.max_timestamp}{iso(figures.max_timestamp)}"
    for codec in figures.codecs:
        yield _pairs(**_codec(codec))
    for run in figures.epochs:
        yield _pairs(epoch=run.epoch, firstOffset=run.first_offset, lastOffset=run.last_offset, batches=run.batches)
    if figures.epoch_changes >= len(figures.epochs) > 0:
        yield _pairs(epochChanges=figures.epoch_changes)
    for how, ended in (("committed", figures.committed), ("aborted", figures.aborted)):
        if ended.count:
            yield f"transactions: {how} {_pairs(**_ended(ended))}"
    if figures.open_count:
        yield f"transactions: open count: {figures.open_count}"
    for one in _open(figures):
        yield f"open transaction: {_pairs(**one)}"
    for what, sizes in (("keys", figures.keys), ("values", figures.values)):
        numbers = {key: value for key, value in _sizes(sizes).items() if key != "histogram"}
        yield f"{what}: {_pairs(**numbers)}"
        for up_to, count in sizes.histogram:
            yield f"{what}: {_pairs(upTo=up_to, count=count)}"


def figures_json(figures: Figures) -> str:
    """Return the line of the figures."""
    fields: dict[str, object] = {
        "path": name(figures.path or "."),
        "files": figures.files,
        "bytes": figures.size,
        "batches": figures.batches,
        "records": figures.records,
        "firstOffset": figures.first_offset,
        "lastOffset": figures.last_offset,
        "minTimestamp": figures.min_timestamp,
        "maxTimestamp": figures.max_timestamp,
        "codecs": [_codec(codec) for codec in figures.codecs],
        "producers": figures.producers,
        "epochs": [
            {"epoch": run.epoch, "firstOffset": run.first_offset, "lastOffset": run.last_offset, "batches": run.batches}
            for run in figures.epochs
        ],
        "epochChanges": figures.epoch_changes,
        "transactions": {
            "committed": _ended(figures.committed),
            "aborted": _ended(figures.aborted),
            "openCount": figures.open_count,
            "open": list(_open(figures)),
        },
        "controlBatches": figures.control_batches,
        "tombstones": figures.tombstones,
        "keys": _sizes(figures.keys),
        "values": _sizes(figures.values),
        "complete": figures.complete,
    }
    return line("stats", fields)


def _pairs(**fields: object) -> str:
    return " ".join([f"{key}: {value}" for key, value in fields.items() if value is not None])


def _codec(codec: CodecFigures) -> dict[str, object]:
    return {
        "compresscodec": codec_name(codec.codec),
        "batches": codec.batches,
        "records": codec.records,
        "bytes": codec.size,
        "uncompressedBytes": codec.uncompressed,
        "ratio": round(codec.uncompressed / codec.size, 2) if codec.size else None,
    }


def _ended(ended: EndedTransactions) -> dict[str, object]:
    return {
        "count": ended.count,
        "batches": ended.batches,
        "records": ended.records,
        "bytes": ended.size,
        "minDurationMs": ended.shortest,
        "maxDurationMs": ended.longest,
        "averageDurationMs": round(ended.total / ended.timed, 1) if ended.timed else None,
    }


def _open(figures: Figures) -> Iterator[dict[str, object]]:
    for one in figures.open:
        yield {
            "producerId": one.producer_id,
            "producerEpoch": one.producer_epoch,
            "firstOffset": one.first_offset,
            "firstTimestamp": one.first_timestamp,
            "ageMs": max(0, (figures.max_timestamp or 0) - one.first_timestamp),
            "batches": one.batches,
            "records": one.records,
            "bytes": one.size,
        }


def _sizes(sizes: SizeFigures) -> dict[str, object]:
    return {
        "count": sizes.count,
        "nulls": sizes.nulls,
        "bytes": sizes.total,
        "minSize": sizes.smallest,
        "maxSize": sizes.largest,
        "averageSize": round(sizes.total / sizes.count, 1) if sizes.count else None,
        "histogram": [{"upTo": up_to, "count": count} for up_to, count in sizes.histogram],
    }
