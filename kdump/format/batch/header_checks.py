"""Checks of batch headers against their neighbours: offsets, epochs and sequences, in one walk.

Strategy: the scan has marked every header that breaks a cheap rule. Of a window without marks the folds look at the
last row only, when it continues where they are; else at the first rows too, which settle what they hold. Of the others
they look at each row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kdump.finding import Code, Finding, Report, Severity
from kdump.format.batch import _scan, layout
from kdump.format.batch.offset_order import OffsetFold, header_facts, offsets_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.format.batch.offset_order import HeaderFacts
    from kdump.format.batch.window import Window


_ORDER = layout.NOT_ABOVE | layout.GAP | layout.OUT_OF_RANGE | layout.EPOCH_CHANGES
_HEADER = layout.ODD_CODEC | layout.ODD_ATTRIBUTES | layout.ODD_DELTA | layout.ODD_COUNT | layout.ODD_FLAGS


_SEAM = 2  # rows after which nothing of the window before is in doubt


def _one_format(window: Window) -> bool:
    """Whether all batches have leader epochs, or none: the scan compares only those that have one."""
    lowest, highest = _scan.extremes(window.rows, window.count, layout.MAGIC)
    return lowest >= layout.MAGIC_V2 or highest < layout.MAGIC_V2


class HeaderChecks:
    """All folds over the headers of one log.

    Args:
        file: the path as the user wrote it.
        report: takes each finding.
        segment: base offset of the file, layout.UNKNOWN when it has none.

    Attributes:
        follow_producers: look at sequences; off for topics where they say nothing.

    Reports: B05-B09, B11, O01-O05, E01-E03, P01, P02.
    """

    def __init__(self, file: str, report: Report, segment: int) -> None:
        self._file = file
        self._report = report
        self.offsets = OffsetFold(file, report, segment)
        self.epochs = EpochFold(file, report)
        self._sequences = SequenceFold(file, report)
        self.follow_producers = True

    def step(self, window: Window) -> None:
        """Take the next batches."""
        bits = window.suspicions
        if bits & _HEADER:
            self._headers(window)
        all_trusted = window.all_trusted
        if self.follow_producers and (bits & (layout.HAS_PRODUCER | layout.GAP) or not all_trusted):
            self._sequences.step(window)
        start = 0
        if window.count > _SEAM and not bits & _ORDER and all_trusted and _one_format(window):
            start = window.count - 1
            last = header_facts(window, start)
            goes_on = self.offsets.is_next(window.cell(0, layout.BASE_OFFSET)) and self.epochs.is_same(last.epoch)
            if goes_on and last.first is not None:
                self._skip(last)
                return
            for k in range(_SEAM):
                self._push(header_facts(window, k))
            self._skip(header_facts(window, start - 1))
        for k in range(start, window.count):
            self._push(header_facts(window, k))

    def _push(self, one: HeaderFacts) -> None:
        self.offsets.push(one)
        self.epochs.push(one)

    def _skip(self, one: HeaderFacts) -> None:
        self.offsets.skip(one)
        self.epochs.skip(one)

    def gap(self) -> None:
        """A gap of bytes: what comes next may leave out offsets and sequences."""
        self.offsets.after_loss()
        self._sequences.forget()

    def finish(self) -> None:
        """Settle what waits for a next batch: there is none."""
        self.offsets.finish()
        self.epochs.finish()

    def _headers(self, window: Window) -> None:
        for k, bits in enumerate(window.column(layout.SUSPICION)):
            if bits & _HEADER and window.cell(k, layout.CRC) == window.cell(k, layout.COMPUTED_CRC):
                for finding in check_header(self._file, window, k):
                    self._report(finding)


_UNUSED_LEGACY = 0xF0


def check_header(file: str, window: Window, k: int) -> Iterator[Finding]:
    """Yield what is wrong with the header in row k, which the scan has marked.

    Args:
        file: the path as the user wrote it.
        window: where the batch is.
        k: its row.

    Reports: B05-B09, B11, C07.

    Source: DefaultRecordBatch, LegacyRecord, CompressionType.forId, Kafka 4.3.
    """
    bits = window.cell(k, layout.SUSPICION)
    attributes = window.cell(k, layout.ATTRIBUTES)
    legacy = window.cell(k, layout.MAGIC) < layout.MAGIC_V2

    def finding(code: Code, field: str, found: int, **more: Any) -> Finding:  # noqa: ANN401 (fields of a Finding)
        return _finding(file, window, k, code, field=field, found=found, **more)

    codec = attributes & layout.CODEC_MASK
    if bits & layout.ODD_CODEC and (not legacy or codec > layout.CODEC_ZSTD):
        yield finding(Code.B05, "compresscodec", codec)
    if bits & layout.ODD_ATTRIBUTES:
        unused = attributes & (_UNUSED_LEGACY if legacy else layout.ATTRIBUTES_UNUSED_V2)
        yield finding(Code.B06, "attributes", unused)
    delta, count = window.cell(k, layout.LAST_OFFSET_DELTA), window.cell(k, layout.COUNT)
    if bits & layout.ODD_DELTA:
        yield finding(Code.B07, "lastOffsetDelta", delta)
    elif bits & layout.ODD_COUNT and count == 0:
        left = window.cell(k, layout.SIZE) - layout.RECORDS_AT
        yield finding(Code.B09, "count", left)
    elif bits & layout.ODD_COUNT:
        yield finding(Code.B08, "count", count)
    if bits & layout.ODD_FLAGS:
        yield from _flags(finding, window, k)


def _finding(file: str, window: Window, k: int, code: Code, **more: Any) -> Finding:  # noqa: ANN401 (as above)
    position, size = window.cell(k, layout.POSITION), window.cell(k, layout.SIZE)
    first, last, is_after = offsets_at(window, k)
    return Finding(code, file, position, size, offset=first, last_offset=last, by_neighbours=is_after, **more)


def _flags(finding: Callable[..., Finding], window: Window, k: int) -> Iterator[Finding]:
    """Flags that contradict each other. Control batches of the Raft layer rightly have no producer id."""
    attributes = window.cell(k, layout.ATTRIBUTES)
    if window.cell(k, layout.PRODUCER_ID) < 0:
        if attributes & layout.TRANSACTIONAL_FLAG:
            yield finding(Code.B11, "isTransactional", 1, values={"why": "transactional, but without a producer id"})
        elif not _is_raft_control(window, k):
            why = "a control batch without a producer id whose record is not a control record"
            yield finding(Code.B11, "isControl", 1, values={"why": why})
    horizon = window.cell(k, layout.BASE_TIMESTAMP)
    if attributes & layout.DELETE_HORIZON_FLAG and horizon <= window.cell(k, layout.MAX_TIMESTAMP):
        why = f"the delete horizon {horizon} is not after the records (up to {window.cell(k, layout.MAX_TIMESTAMP)})"
        yield finding(Code.B11, "deleteHorizonMs", horizon, values={"why": why}, severity_override=Severity.WARNING)


def _is_raft_control(window: Window, k: int) -> bool:
    """Whether the first record of an uncompressed batch has the 4-byte key of a control record of the Raft layer."""
    if not window.whole or not window.cell(k, layout.ATTRIBUTES) & layout.CONTROL_FLAG:
        return True
    start = window.cell(k, layout.POSITION) - window.origin + layout.RECORDS_AT
    body = bytes(window.view[start : start + 32])
    at = next((i for i, byte in enumerate(body) if byte < 0x80), len(body))  # length
    # attributes, timestamp delta and offset delta of the first record are one byte each: it is 0 ms after the base
    key_at = at + 1 + 3
    return len(body) >= key_at + 5 and body[key_at] == 8 and body[key_at + 1 : key_at + 3] == b"\0\0"


class EpochFold:
    """Judges the leader epochs of a log's batches in file order.

    Args:
        file: the path as the user wrote it.
        report: takes each finding.

    Reports: E01, E02.
    """

    def __init__(self, file: str, report: Report) -> None:
        self._file = file
        self._report = report
        self._good: int | None = None
        self._held: HeaderFacts | None = None
        self._first: HeaderFacts | None = None  # until a later batch bears its epoch out

    def is_same(self, epoch: int | None) -> bool:
        """Whether this is the epoch of the batch before, or none, and nothing waits for the next one."""
        return self._held is None and epoch in (None, self._good)

    def skip(self, one: HeaderFacts) -> None:
        """Move on in a run of batches in which the epoch does not change."""
        if one.epoch is not None:
            self._good, self._held, self._first = one.epoch, None, None

    def push(self, one: HeaderFacts) -> None:
        """Take the next batch; one whose CRC is wrong, or without an epoch, says nothing."""
        if not one.trusted or one.epoch is None:
            return
        if self._held is not None:
            self._settle(one.epoch)
        if self._good is None and one.epoch >= layout.NO_EPOCH:
            self._good, self._first = one.epoch, one
        elif one.epoch != self._good:
            self._held = one
        else:
            self._first = None

    def finish(self) -> None:
        """There is no next batch."""
        if self._held is not None:
            self._settle(None)

    def _settle(self, after: int | None) -> None:
        """Judge the held batch by the epoch before it and the one after it."""
        held, self._held = self._held, None
        assert held is not None
        assert held.epoch is not None
        good = layout.NO_EPOCH if self._good is None else self._good
        expected = good if after in (None, good) else None
        if held.epoch < layout.NO_EPOCH:
            if self._good is None and after is not None and _one_bit(held.epoch, after):
                expected = after
            self._blame(Code.E02, held, good, after, expected)
        elif self._first is not None and after is not None and held.epoch <= after < good:
            expected = held.epoch if _one_bit(good, held.epoch) else None
            self._blame(Code.E01, self._first, None, held.epoch, expected)
            self._good = held.epoch
        elif held.epoch < good:
            self._blame(Code.E01, held, good, after, expected if after is not None else None)
            if after is not None and after < good:
                self._good = held.epoch  # epochs continue from the lower one
        elif after is not None and good <= after < held.epoch:
            self._blame(Code.E01, held, good, after, expected)
        else:
            self._good = held.epoch
        self._first = None

    def _blame(
        self, code: Code, held: HeaderFacts, before: int | None, after: int | None, expected: int | None
    ) -> None:
        self._report(
            Finding(
                code,
                self._file,
                held.position,
                held.size,
                offset=held.first,
                last_offset=held.last,
                field="partitionLeaderEpoch",
                found=held.epoch,
                expected=expected,
                values={"before": _or_none(before), "after": _or_none(after)},
            )
        )


def _or_none(epoch: int | None) -> int | str:
    return "none" if epoch is None else epoch


def _one_bit(epoch: int, other: int) -> bool:
    return (epoch ^ other).bit_count() == 1


_SEQUENCES = layout.MAX_INT + 1
_REMEMBERED = 100_000  # producers; more than a broker keeps for one partition in practice


class SequenceFold:
    """Follows each producer's epoch and sequence.

    It believes the first batch of a producer, and starts again after a hole of offsets; so neither a log that
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
