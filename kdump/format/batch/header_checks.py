"""Checks of batch headers against their neighbours: offsets, epochs and sequences, in one walk.

Strategy: the scan has marked every header that breaks a cheap rule. Of a window without marks the folds look at the
last row only, when it continues where they are; else at the first rows too, which settle what they hold. Of the others
they look at each row.
"""

from __future__ import annotations

from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kdump.finding import REPEATED, Code, Finding, Report, Severity
from kdump.format.batch import _scan, layout
from kdump.format.batch.base_offset.fold import OffsetFold, unknown
from kdump.format.batch.base_offset.header import header_facts, offsets_at
from kdump.format.batch.epoch_order import EpochFold, EpochsAround
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kdump.format.batch.base_offset.header import HeaderFacts, LogEnd
    from kdump.format.batch.window import Window


_ORDER = layout.NOT_ABOVE | layout.GAP | layout.OUT_OF_RANGE | layout.EPOCH_CHANGES
_HEADER = layout.ODD_CODEC | layout.ODD_ATTRIBUTES | layout.ODD_DELTA | layout.ODD_COUNT | layout.ODD_FLAGS


_SEAM = 3  # rows after which nothing of the window before is in doubt


def _is_plain(window: Window) -> bool:
    """Whether the scan has compared all batches with each other: all have leader epochs or none, and a first offset."""
    lowest, highest = _scan.extremes(window.rows, window.count, layout.MAGIC)
    if lowest >= layout.MAGIC_V2:
        return True
    return highest < layout.MAGIC_V2 and _scan.extremes(window.rows, window.count, layout.BASE_OFFSET)[0] >= 0


class HeaderChecks:
    """All folds over the headers of one log.

    Args:
        file: the path as the user wrote it.
        report: takes each finding.
        segment: base offset of the file, layout.UNKNOWN when it has none.
        next_base: base offset of the next segment; None where there is none, or nobody knows.
        known_end: tells where other files know the last segment to end.
        around: what lies around the log says of leader epochs; None where nobody knows.
        span_of: tells how many offsets a legacy wrapper has, as `OffsetFold` asks it.

    Reports: B05-B09, B11, O01-O05, O09, E01, E02, P01, P02.
    """

    def __init__(
        self,
        file: str,
        report: Report,
        segment: int,
        next_base: int | None,
        known_end: Callable[[], LogEnd | None] = unknown,
        around: EpochsAround | None = None,
        span_of: Callable[[int], int | None] = unknown,
    ) -> None:
        self._file = file
        self._report = report
        around = EpochsAround() if around is None else around
        self.offsets = OffsetFold(
            file,
            report,
            segment,
            next_base,
            known_end=known_end,
            begins=around.begins,
            span_of=span_of,
            leads_up=around.leads_up_to,
        )
        self.epochs = EpochFold(file, report, around)
        self._sequences = SequenceFold(file, report)
        self.follow_producers = True  # look at sequences; off for topics where they say nothing

    @property
    def state(self) -> tuple[tuple[object, ...], dict[int, tuple[int, int]]]:
        """What the folds hold: those over offsets and epochs, and that over producers."""
        return (self.offsets.state, self.epochs.state), self._sequences.producers

    def resume(self, folds: tuple[Any, ...], producers: dict[int, tuple[int, int]]) -> None:
        """Go on from what others held."""
        self.offsets.resume(folds[0])
        self.epochs.resume(folds[1])
        self._sequences.producers = dict(producers)

    def forget_producers(self) -> None:
        """What comes next is read before it is known what the producers have written up to there."""
        self._sequences = SequenceFold(self._file, self._report, is_known=False)

    def adopt_producers(self, producers: dict[int, tuple[int, int]]) -> bool:
        """Take what they have written, if nothing that was read since then is wrong after that; else return False."""
        return self._sequences.adopt(producers)

    def step(self, window: Window) -> None:
        """Take the next batches."""
        bits = window.suspicions
        if bits & layout.OUT_OF_RANGE and self.offsets.segment != layout.UNKNOWN:
            self.offsets.accept_far(window)
            bits = window.suspicions
        if bits & _HEADER:
            self._headers(window)
        all_trusted = window.all_trusted
        if self.follow_producers and (bits & (layout.HAS_PRODUCER | layout.GAP) or not all_trusted):
            self._sequences.step(window)
        start = 0
        if window.count > _SEAM and not bits & _ORDER and all_trusted and _is_plain(window):
            last, first = header_facts(window, window.count - 1), window.cell(0, layout.BASE_OFFSET)
            if self.epochs.is_plain(first, last):
                start = window.count - 1
                if self.offsets.is_next(first) and self.epochs.is_same(last):
                    self._skip(window, start)
                    return
                for k in range(_SEAM):
                    self._push(header_facts(window, k))
                self._skip(window, start - 1)
        for k in range(start, window.count):
            self._push(header_facts(window, k))

    def _push(self, one: HeaderFacts) -> None:
        self.offsets.push(one)
        self.epochs.push(one)

    def _skip(self, window: Window, k: int) -> None:
        last = header_facts(window, k)
        self.offsets.skip(last, window.cell(0, layout.POSITION))
        self.epochs.skip(last)

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
    if not window.has_record_bytes or not window.cell(k, layout.ATTRIBUTES) & layout.CONTROL_FLAG:
        return True
    start = window.cell(k, layout.POSITION) - window.origin + layout.RECORDS_AT
    body = bytes(window.view[start : start + 32])
    at = next((i for i, byte in enumerate(body) if byte < 0x80), len(body))  # length
    # attributes, timestamp delta and offset delta of the first record are one byte each: it is 0 ms after the base
    key_at = at + 1 + 3
    return len(body) >= key_at + 5 and body[key_at] == 8 and body[key_at + 1 : key_at + 3] == b"\0\0"


_SEQUENCES = layout.MAX_INT + 1


def _broken(known: tuple[int, int], epoch: int, sequence: int) -> str | None:
    """The field of a batch that does not follow from the epoch and the next sequence of its producer."""
    if epoch < known[0]:
        return "producerEpoch"
    is_wrong = epoch == known[0] and sequence >= 0 and known[1] >= 0 and sequence != known[1]
    return "baseSequence" if is_wrong else None


def _after(known: tuple[int, int] | None, epoch: int, following: int) -> int:
    """The next sequence after a batch; a marker, which has none, changes none but those of another epoch."""
    return known[1] if following < 0 and known is not None and known[0] == epoch else following


class _Sequences(TupleValue):
    """A batch of a producer, as it is remembered: what may be there again."""

    epoch: int
    first: int  # its base sequence
    base_offset: int
    last_offset: int
    position: int


def _means(one: _Sequences, before: Sequence[_Sequences], expected: int) -> dict[str, str]:
    """What a sequence means that is not the expected one: records that are there again, or that are missing.

    Args:
        one: the batch.
        before: batches of its producer before it, the last one last.
        expected: the sequence behind these.
    """
    sequence = one.first
    again = (expected - sequence) % _SEQUENCES
    if again > _SEQUENCES // 2:
        missing = (sequence - expected) % _SEQUENCES
        return {"means": "1 sequence is missing" if missing == 1 else f"{missing} sequences are missing"}
    count = min(again, one.last_offset - one.base_offset + 1)
    for other in reversed(before):
        at = (sequence - other.first) % _SEQUENCES
        if other.epoch == one.epoch and other.first >= 0 and at <= other.last_offset - other.base_offset:
            first = other.base_offset + at
            last = min(first + count - 1, other.last_offset)
            named = f"offset {first}" if first == last else f"offsets {first}..{last}"
            means = f"it repeats {named}: readers get them twice"
            return {"means": means, REPEATED: f"{first}..{last}@{other.position}"}
    last_one = (sequence + count - 1) % _SEQUENCES
    named = f"sequence {sequence}" if count == 1 else f"sequences {sequence}..{last_one}"
    return {"means": f"it repeats {named} of the producer: readers get these records twice"}


_REMEMBERED = 100_000  # producers, the last ones; more than a broker keeps for one partition in practice
_RECENT = 5  # batches of a producer, as a broker remembers them (ProducerStateEntry.NUM_BATCHES_TO_RETAIN)
_RECENT_OF = 10_000  # producers, those that began last


class SequenceFold:
    """Follows each producer's epoch and sequence.

    It believes the first batch of a producer, and starts again after a hole of offsets; so neither a log that
    begins in the middle nor a compacted one has a false alarm. Producers that
    have not written for longest are forgotten when there are too many.

    Args:
        file: the path as the user wrote it.
        report: takes each finding.
        is_known: what the producers have written before is known: nothing, or what is put into `producers`. Else it
            remembers how each begins until `adopt` says what they had written.

    Attributes:
        producers: epoch and next sequence of each, the one that wrote last at the end.

    Reports: P01, P02.

    Source: ProducerAppendInfo.checkSequence, inSequence.
    """

    def __init__(self, file: str, report: Report, *, is_known: bool = True) -> None:
        self._file = file
        self._report = report
        self.producers: dict[int, tuple[int, int]] = {}
        self._recent: dict[int, list[tuple[int, int, int, int, int]]] = {}  # _Sequences by producer, cheaper
        self._begins: dict[int, list[tuple[int, int, int]]] | None = None if is_known else {}
        self._is_begin = not is_known  # nothing was forgotten since the beginning

    def forget(self) -> None:
        """Bytes were lost: any producer may have written there."""
        self.producers.clear()
        self._recent.clear()
        self._is_begin = False

    def adopt(self, producers: dict[int, tuple[int, int]]) -> bool:
        """Take what producers had written before the first batch; return whether all that was seen follows from it.

        Args:
            producers: as `producers` of the fold over what lies before.
        """
        begins, self._begins = self._begins, None
        if begins is None or len(producers) + len(self.producers) + len(begins) > _REMEMBERED:
            return False
        for producer, batches in begins.items():
            known = producers.get(producer)
            for epoch, sequence, following in batches:
                if known is not None and _broken(known, epoch, sequence) is not None:
                    return False
                known = epoch, _after(known, epoch, following)
            if self._is_begin and known is not None and batches[-1][2] < 0:
                self.producers[producer] = known  # in the place that it has
        if self._is_begin:
            self.producers = {**{one: producers[one] for one in producers if one not in begins}, **self.producers}
        self._is_begin = False
        return True

    def step(self, window: Window) -> None:
        """Take the next batches."""
        for k, bits in enumerate(window.column(layout.SUSPICION)):
            if bits & layout.GAP:
                self.forget()  # what is missing, compaction or a follower left out
            if window.cell(k, layout.CRC) != window.cell(k, layout.COMPUTED_CRC):
                self.forget()  # whose batch it was is not known
            elif bits & layout.HAS_PRODUCER:
                self._batch(window, k)

    def _batch(self, window: Window, k: int) -> None:
        producer = window.cell(k, layout.PRODUCER_ID)
        epoch = window.cell(k, layout.PRODUCER_EPOCH)
        sequence = window.cell(k, layout.BASE_SEQUENCE)
        if window.cell(k, layout.ATTRIBUTES) & layout.CONTROL_FLAG:
            sequence = following = -1  # a marker may raise the epoch and has no sequence
        else:
            following = (sequence + window.cell(k, layout.LAST_OFFSET_DELTA) + 1) % _SEQUENCES
        if self._is_begin and self._begins is not None:
            begin = self._begins.setdefault(producer, [])
            if not begin or begin[-1][2] < 0:
                begin.append((epoch, sequence, following))
        known = self.producers.pop(producer, None)
        recent = self._recent.get(producer)
        if recent is None:
            if len(self._recent) == 2 * _RECENT_OF:
                self._recent = dict(islice(self._recent.items(), _RECENT_OF, None))
            recent = self._recent[producer] = []
        rows, at = window.rows, k * layout.BATCH_WIDTH
        one = epoch, sequence, rows[at + layout.BASE_OFFSET], rows[at + layout.LAST_OFFSET], rows[at + layout.POSITION]
        if known is not None:
            field = _broken(known, epoch, sequence)
            if field == "producerEpoch":
                self._blame(Code.P02, window, k, producer=producer, field=field, found=epoch, previous=known[0])
            elif field is not None:
                self._blame(
                    Code.P01,
                    window,
                    k,
                    producer=producer,
                    field=field,
                    found=sequence,
                    previous=(known[1] - 1) % _SEQUENCES,
                    more=_means(_Sequences(*one), [_Sequences(*each) for each in recent[-_RECENT:]], known[1]),
                )
        self.producers[producer] = epoch, _after(known, epoch, following)
        if len(self.producers) > 2 * _REMEMBERED:  # many at once: the first of a dict is found past all that have gone
            self.producers = dict(islice(self.producers.items(), _REMEMBERED, None))
        recent.append(one)
        if len(recent) > 2 * _RECENT:
            del recent[:_RECENT]

    def _blame(
        self,
        code: Code,
        window: Window,
        k: int,
        producer: int,
        field: str,
        found: int,
        previous: int,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
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
                values={"producer": producer, "previous": previous, **more},
            )
        )
