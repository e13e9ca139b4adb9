"""Runs: batches of an image that follow each other, as the pieces of a log do.

A batch belongs to the run of the batch that ends where it begins, if offsets rise, epochs do not fall, and the sequence
numbers of a producer go on where its last batch of the run ended. At the border of a disk block another file may begin,
so there the offsets must meet exactly. Elsewhere they may leave holes, as compaction does; but where runs are to be
given to partitions (`strict`), only behind a batch of the same producer: two logs in one run could not be told apart.
Across other bytes (a file in fragments) only the same producer with the next sequence number and the next offset
counts: offsets alone fit by chance. A run too short is joined again by salvage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import ignore
from kdump.format.batch import layout
from kdump.format.batch.walk import CheckedWalk
from kdump.format.codec.signatures import VARINT_BYTES, VARLONG_BYTES, varint
from kdump.format.kernels import wire
from kdump.format.record.chunk import KEPT
from kdump.format.record.reader import RecordReader
from kdump.format.source import BytesSource

if TYPE_CHECKING:
    from kdump.format.source import Source
    from kdump.rescue.image_search import CarvedBatch

_SECTOR = 512  # bytes: files begin at multiples of it
_SAMPLES = 64  # batches of a run that are compared with what lies elsewhere
_SNAPSHOT_HEADER, SNAPSHOT_FOOTER = 3, 4  # Source: org.apache.kafka.common.record.ControlRecordType


class Run:
    """Batches that follow each other.

    Args:
        image: the path of the image, as the user wrote it.
        kind: "log", or "snapshot" for the content of a `.checkpoint` file.

    Attributes:
        batches, records: how many.
        offset, last_offset: of the first and the last record.
        sequences: epoch and next sequence number of each producer of data.
        first_timestamp, max_timestamp: the lowest and the highest, ms since the epoch; None where batches have none.
        markers: producer id, epoch and offset of transaction markers, a bounded number.
        samples: position, base offset, CRC and bytes of some batches that are no control batches.
    """

    def __init__(self, image: str, kind: str) -> None:
        self.image = image
        self.kind = kind
        self.extents: list[tuple[int, int]] = []  # position and bytes of each stretch of the image
        self.batches = self.records = 0
        self.offset = self.last_offset = 0
        self.epochs: list[tuple[int, int]] = []  # leader epoch and offset of the first batch of it, where it changes
        self.producer_ids: set[int] = set()  # those of its batches
        self.sequences: dict[int, tuple[int, int]] = {}  # by producer: epoch, and the sequence number that comes next
        self.first_timestamp: int | None = None
        self.max_timestamp: int | None = None
        self.markers: list[tuple[int, int, int]] = []
        self.samples: list[tuple[int, int, int, int]] = []
        self.last: CarvedBatch | None = None
        self.key: tuple[int, int, int, int] | None = None  # what goes on with it begins with that
        self.ended = False  # a snapshot whose footer has come
        self._step = 1

    @property
    def length(self) -> int:
        """Bytes of its batches."""
        return sum(length for _, length in self.extents)

    def add(self, found: CarvedBatch, first: int, records: int) -> None:
        """Take the next batch.

        Args:
            found: the batch.
            first: its first offset.
            records: how many it has.
        """
        if self.last is None:
            self.offset = first
        if self.last is not None and self.last.end == found.position:
            self.extents[-1] = (self.extents[-1][0], self.extents[-1][1] + found.size)
        else:
            self.extents.append((found.position, found.size))
        self.batches += 1
        self.records += records
        self.last_offset = found.last_offset
        if found.magic >= layout.MAGIC_V2 and (not self.epochs or self.epochs[-1][0] != found.epoch):
            self.epochs.append((found.epoch, first))
        if found.producer_id >= 0:
            self.producer_ids.add(found.producer_id)
            if found.base_sequence >= 0:
                self.sequences[found.producer_id] = found.producer_epoch, next_sequence(found)
        for timestamp in (found.first_timestamp, found.max_timestamp):
            if timestamp >= 0:
                self.first_timestamp = min(timestamp, self.first_timestamp or timestamp)
                self.max_timestamp = max(timestamp, self.max_timestamp or timestamp)
        if is_control(found):
            if found.producer_id >= 0 and len(self.markers) < _SAMPLES:
                self.markers.append((found.producer_id, found.producer_epoch, first))
        elif found.records > 0 and (self.batches % self._step == 0 or not self.samples):
            self.samples.append((found.position, found.base_offset, found.crc, found.size))
            if len(self.samples) > _SAMPLES:  # every second one from now on
                self.samples = self.samples[::2]
                self._step *= 2
        self.last = found


class RunBuilder:
    """Joins the batches of one image.

    Args:
        source: the image.
        image: its path, as the user wrote it.
        limit: bytes that the records of one batch may have when decompressed.
        strict: holes between offsets count only behind a batch of the same producer.
    """

    def __init__(self, source: Source, image: str, limit: int, *, strict: bool) -> None:
        self._source = source
        self._image = image
        self._strict = strict
        self._reader = RecordReader(limit, cut=KEPT)
        self.runs: list[Run] = []  # all of them, in the order of their places
        self._run: Run | None = None
        self._open: dict[tuple[int, int, int, int], Run] = {}  # by the key of each

    def add(self, found: CarvedBatch) -> Run:
        """Put a batch into its run, and return that."""
        first, records = found.base_offset, found.records
        if found.magic < layout.MAGIC_V2 and found.attributes & layout.CODEC_MASK:
            first, records = self._inner(found)
        kind = control_type(self._source, found.position) if is_control(found) else -1
        run = self._run
        if run is None or kind == _SNAPSHOT_HEADER or not _follows(run, found, first, strict=self._strict):
            run = self._elsewhere(found) if kind != _SNAPSHOT_HEADER else None
            if run is None:
                run = Run(self._image, "snapshot" if kind == _SNAPSHOT_HEADER else "log")
                self.runs.append(run)
        run.add(found, first, records)
        run.ended = kind == SNAPSHOT_FOOTER
        self._run = run
        if run.key is not None:
            self._open.pop(run.key, None)
        run.key = _key_after(found) if found.base_sequence >= 0 and run.kind == "log" else None
        if run.key is not None:
            self._open[run.key] = run
        return run

    def _elsewhere(self, found: CarvedBatch) -> Run | None:
        """The run that a batch goes on with after other bytes."""
        key = (found.producer_id, found.producer_epoch, found.base_sequence, found.base_offset)
        run = self._open.get(key) if found.producer_id >= 0 and found.base_sequence >= 0 else None
        return run if run is not None and run.last is not None and found.epoch >= run.last.epoch else None

    def _inner(self, found: CarvedBatch) -> tuple[int, int]:
        """First offset and number of the messages in a compressed wrapper; its own offset where they cannot be read."""
        first, records = found.last_offset, 0
        data = self._source.read_at(found.position, found.size)
        walk = CheckedWalk(BytesSource(data), ignore, next_base=None, max_batch_bytes=found.size + 1)
        for window in walk.windows():
            for chunk in self._reader.chunks(window):
                if chunk.filled and not records:
                    first = chunk.rows[layout.R_OFFSET]
                records += chunk.filled
        return first, max(records, 1)


def control_type(source: Source, position: int) -> int:
    """Return the type of a control batch's first record, -1 for none.

    Args:
        source: has the batch.
        position: where it begins.

    Source: ControlRecordType.parse.
    """
    data = memoryview(source.read_at(position + layout.RECORDS_AT, min(64, source.size - position - layout.RECORDS_AT)))
    _, at = varint(data, 0, VARINT_BYTES)
    _, at = varint(data, at + 1, VARLONG_BYTES)
    _, at = varint(data, at, VARINT_BYTES)
    size, at = varint(data, at, VARINT_BYTES)
    return wire.i16(data, at + 2) if size >= layout.CONTROL_KEY_SIZE and at + 4 <= len(data) else -1


def _follows(run: Run, found: CarvedBatch, first: int, *, strict: bool) -> bool:
    """Whether a batch goes on with a run right behind its last batch."""
    last = run.last
    if last is None or run.ended or last.end != found.position or found.base_offset < 0:
        return False
    if first <= last.last_offset or (found.magic >= layout.MAGIC_V2 and found.epoch < last.epoch):
        return False
    meets = first == last.last_offset + 1
    if found.base_sequence >= 0 and found.producer_id in run.sequences:
        epoch, sequence = run.sequences[found.producer_id]
        if found.producer_epoch < epoch:
            return False
        if found.producer_epoch == epoch and found.base_sequence != sequence:
            return not meets and found.base_sequence > sequence and found.position % _SECTOR != 0
        return True
    if meets:
        return True
    is_known = found.producer_id >= 0 and found.producer_id in run.producer_ids
    return (is_known or not strict) and found.position % _SECTOR != 0


def next_sequence(found: CarvedBatch) -> int:
    """Return the sequence number after the last record of a batch. Source: DefaultRecordBatch.lastSequence."""
    return wire.sequence(found.base_sequence, found.last_offset - found.base_offset + 1)


def _key_after(found: CarvedBatch) -> tuple[int, int, int, int]:
    """Producer id and epoch, sequence and offset that the next batch has, if it is of the same producer."""
    sequence = next_sequence(found)
    return found.producer_id, found.producer_epoch, sequence, found.last_offset + 1


def is_control(found: CarvedBatch) -> bool:
    """Tell whether a batch holds what coordinators or controllers write: markers, snapshot headers, leader changes."""
    return found.magic >= layout.MAGIC_V2 and found.attributes & layout.CONTROL_FLAG != 0
