"""Sequences of idempotent producers from batch to batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Code, Finding, Report
from kdump.format.batch import layout

if TYPE_CHECKING:
    from kdump.format.batch.window import Window

_SEQUENCES = layout.MAX_INT + 1
_REMEMBERED = 100_000  # producers; more than a broker keeps for one partition in practice


class SequenceFold:
    """Follows each producer's epoch and sequence.

    What it sees first of a producer it believes, and it begins anew after a hole of offsets; so neither a log that
    begins in the middle nor a compacted one has a false alarm. Producers that
    have not written for longest are forgotten when there are too many.

    Args:
        file: the path as the user wrote it.
        report: takes each finding.

    Reports: P01, P02.

    Source: ProducerAppendInfo.checkSequence, inSequence.
    """

    def __init__(self, file: str, report: Report) -> None:
        self._file = file
        self._report = report
        self._producers: dict[int, tuple[int, int]] = {}

    def forget(self) -> None:
        """Bytes were lost: any producer may have written there."""
        self._producers.clear()

    def step(self, window: Window) -> None:
        """Take the next batches."""
        for k, bits in enumerate(window.column(layout.SUSPICION)):
            if bits & layout.GAP:
                self._producers.clear()  # what is missing, compaction or a follower left out
            if window.cell(k, layout.CRC) != window.cell(k, layout.COMPUTED_CRC):
                self._producers.clear()  # whose batch it was is not known
            elif bits & layout.HAS_PRODUCER:
                self._batch(window, k)

    def _batch(self, window: Window, k: int) -> None:
        producer = window.cell(k, layout.PRODUCER_ID)
        epoch = window.cell(k, layout.PRODUCER_EPOCH)
        sequence = window.cell(k, layout.BASE_SEQUENCE)
        known = self._producers.pop(producer, None)
        if window.cell(k, layout.ATTRIBUTES) & layout.CONTROL_FLAG:
            sequence = next_sequence = -1  # a marker may raise the epoch and has no sequence
            if known is not None and known[0] == epoch:
                next_sequence = known[1]
        else:
            next_sequence = (sequence + window.cell(k, layout.LAST_OFFSET_DELTA) + 1) % _SEQUENCES
        if known is not None:
            self._compare(window, k, producer, known, epoch, sequence)
        self._producers[producer] = (epoch, next_sequence)
        if len(self._producers) > _REMEMBERED:
            del self._producers[next(iter(self._producers))]

    def _compare(
        self, window: Window, k: int, producer: int, known: tuple[int, int], epoch: int, sequence: int
    ) -> None:
        if epoch < known[0]:
            self._blame(Code.P02, window, k, producer, "producerEpoch", epoch, known[0])
        elif epoch == known[0] and sequence >= 0 and known[1] >= 0 and sequence != known[1]:
            self._blame(Code.P01, window, k, producer, "baseSequence", sequence, (known[1] - 1) % _SEQUENCES)

    def _blame(self, code: Code, window: Window, k: int, producer: int, field: str, found: int, previous: int) -> None:
        self._report(
            Finding(
                code,
                self._file,
                window.cell(k, layout.POSITION),
                window.cell(k, layout.SIZE),
                offset=window.cell(k, layout.BASE_OFFSET),
                last_offset=window.cell(k, layout.LAST_OFFSET),
                field=field,
                found=found,
                values={"producer": producer, "previous": previous},
            )
        )
