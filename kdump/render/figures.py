"""The statistics of the logs of a directory, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.render.text.find import iso
from kdump.rows.json_lines import fields_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.rows.stats import Figures


def figures_text(figures: Figures) -> Iterator[str]:
    """Yield lines in the manner of Kafka's: key, colon, blank, value; what there is nothing of is left out."""
    yield f"Stats of {figures.path}"
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
        yield _pairs(**fields_of(codec))
    for run in figures.epochs:
        yield _pairs(**fields_of(run))
    if figures.epoch_changes >= len(figures.epochs) > 0:
        yield _pairs(epochChanges=figures.epoch_changes)
    transactions = figures.transactions
    for how, ended in (("committed", transactions.committed), ("aborted", transactions.aborted)):
        if ended.count:
            yield f"transactions: {how} {_pairs(**fields_of(ended))}"
    if transactions.open_count:
        yield f"transactions: open count: {transactions.open_count}"
    for one in transactions.open:
        yield f"open transaction: {_pairs(**fields_of(one))}"
    yield from _sizes_text(figures)


def _sizes_text(figures: Figures) -> Iterator[str]:
    """Yield the lines of keys, values, and the largest record and batch."""
    for what, sizes in (("keys", figures.keys), ("values", figures.values)):
        numbers = {key: value for key, value in fields_of(sizes).items() if key != "histogram"}
        yield f"{what}: {_pairs(**numbers)}"
        for bar in sizes.histogram:
            yield f"{what}: {_pairs(**fields_of(bar))}"
    for what, largest in (("largest record", figures.largest_record), ("largest batch", figures.largest_batch)):
        if largest is not None:
            yield f"{what}: {_pairs(**fields_of(largest))}"


def _pairs(**fields: object) -> str:
    return " ".join([f"{key}: {value}" for key, value in fields.items() if value is not None])
