"""Runs: batches of an image that follow each other, as the pieces of a log do.

A batch belongs to the run of the batch that ends where it begins, if offsets rise, epochs do not fall, and the sequence
numbers of a producer go on where its last batch of the run ended. At the border of a disk block another file may begin,
so there the offsets must meet exactly. Elsewhere they may leave holes, as compaction does; but where runs are to be
given to partitions (`strict`), only behind a batch of the same producer: two logs in one run could not be told apart.
Across other bytes (a file in fragments) only the same producer with the next sequence number and the next offset
counts: offsets alone fit by chance. A run too short is joined again by salvage.

Base offset and leader epoch are outside the CRC, and one bit of them would tear a run. So a batch that begins where the
run ends, and does not go on exactly, waits for the one behind it: where that goes on with the run, and leaves the batch
its place, both are of the run, as they are of one file. So is a batch before or behind others of its file that one bit
lets go on. Salvage and patch-header put the field right by the neighbours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import ignore
from kdump.format.batch import layout
from kdump.format.batch.header_judge import EPOCH_BITS, is_one_bit
from kdump.format.batch.walk import CheckedWalk
from kdump.format.kernels import wire
from kdump.format.record.chunk import KEPT
from kdump.format.record.control_type import SNAPSHOT_FOOTER, SNAPSHOT_HEADER, control_type
from kdump.format.record.reader import RecordReader
from kdump.format.source import BytesSource
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kdump.format.source import Source
    from kdump.rescue.image_search import CarvedBatch

_MOST_MOVED = 3  # batches that lie between two that go on, and do not themselves
SECTOR = 512
"""Bytes: files begin at multiples of it."""
_SAMPLES = 64  # batches of a run that are compared with what lies elsewhere


class RunPart(TupleValue):
    """A batch on its way into a run."""

    found: CarvedBatch
    first: int  # its first offset
    records: int  # how many it has
    control: int  # type of its first control record, -1 for none

    @property
    def span(self) -> int:
        """How many offsets it has."""
        return self.found.last_offset - self.first + 1

    @property
    def position(self) -> int:
        """Where it begins in the image."""
        return self.found.position


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
        self.ended = False  # nothing goes on with it: a snapshot has its footer
        self._step = 1

    @property
    def length(self) -> int:
        """Bytes of its batches."""
        return sum(length for _, length in self.extents)

    def add(self, part: RunPart) -> None:
        """Take the next batch."""
        found, first = part.found, part.first
        if self.last is None:
            self.offset = first
        self._extend(part)
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

    def add_moved(self, part: RunPart) -> None:
        """Take the next batch, whose base offset or leader epoch is wrong: it tells nothing else."""
        self._extend(part)

    def forget_first(self) -> None:
        """Note that base offset or leader epoch of the only batch is wrong: the next one tells where the run begins."""
        self.epochs, self.markers, self.samples, self.last = [], [], [], None

    def _extend(self, part: RunPart) -> None:
        position, size = part.found.position, part.found.size
        if self.extents and sum(self.extents[-1]) == position:
            self.extents[-1] = (self.extents[-1][0], self.extents[-1][1] + size)
        else:
            self.extents.append((position, size))
        self.batches += 1
        self.records += part.records


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
        self._held: list[RunPart] = []  # that lie right behind the run, and wait for the one behind them
        self._open: dict[tuple[int, int, int, int], Run] = {}  # by the key of each

    def add(self, found: CarvedBatch) -> list[Run]:
        """Take the next batch, and return the runs that have got batches, in the order of their places."""
        part = self._part(found)
        grown: list[Run] = []
        if self._held and part.position == self._held[-1].found.end:
            if self._settles(part, grown):
                return grown
        else:
            self._release(grown)
        if self._waits(part):
            self._held.append(part)
        else:
            grown.append(self._put(part))
        return grown

    def finish(self) -> list[Run]:
        """Return the runs that have got the batches that waited; there is no next one."""
        grown: list[Run] = []
        self._release(grown)
        return grown

    def _part(self, found: CarvedBatch) -> RunPart:
        first, records = found.base_offset, found.records
        if found.magic < layout.MAGIC_V2 and found.attributes & layout.CODEC_MASK:
            first, records = self._inner(found)
        return RunPart(found, first, records, control_type(self._source, found.position) if is_control(found) else -1)

    # --- batches that wait for the one behind them ----------------------------------------------------------
    def _waits(self, part: RunPart) -> bool:
        """Whether a batch begins where the run ends, and does not go on exactly: the one behind it tells why."""
        run = self._run
        if run is None or run.kind != "log" or part.control in (SNAPSHOT_HEADER, SNAPSHOT_FOOTER):
            return False
        last = run.last
        if last is None or last.end != part.position:
            return False
        return part.first != last.last_offset + 1 or part.found.epoch != last.epoch

    def _settles(self, part: RunPart, grown: list[Run]) -> bool:
        """Settle what becomes of the batches that wait, by the one right behind them; whether that is settled too."""
        run, held = self._run, self._held
        assert run is not None
        goes_on = _goes_on(held[-1], part, strict=self._strict)
        if len(held) == 1 and goes_on and _follows(run, held[0], strict=self._strict):
            self._release(grown)
            return False
        if _overlaps(held[-1].found, part) and _room_before(run, held, part) == 0:
            self._release(
                grown
            )  # one batch overlaps, or the one before it is moved: both in one run were taken for that
            if self._run is not None:
                self._run.ended = True
            return False
        if _room_before(run, held, part) == 0:
            self._held = [*held, part]
            self._close(run, grown)
            return True
        if len(held) > 1 and goes_on and _closes(run, held[:-1], held[-1], strict=self._strict):
            self._close(run, grown)
            return False
        if len(held) == 1 and goes_on and _opens(run, held[0], part):
            run.forget_first()
            self._held = []
            run.add(held[0])
            grown.append(run)
            return False
        if not goes_on and len(held) <= _MOST_MOVED:
            held.append(part)
            return True
        self._release(grown, is_borne=goes_on)
        return False

    def _close(self, run: Run, grown: list[Run]) -> None:
        """Take the batches that wait into the run, all but the last as ones whose headers are wrong."""
        *moved, last = self._held
        self._held = []
        for one in moved:
            run.add_moved(one)
        run.add(last)
        self._note(run, last.found)
        grown.append(run)

    def _release(self, grown: list[Run], *, is_borne: bool = False) -> None:
        """Put the batches that wait where they go without the one behind them.

        Args:
            grown: gets the runs.
            is_borne: the one behind them goes on from the last of them.
        """
        held, self._held = self._held, []
        for one in held:
            run = self._run
            if len(held) == 1 and not is_borne and run is not None and _ends(run, one, strict=self._strict):
                run.add_moved(one)
                grown.append(run)
            else:
                grown.append(self._put(one))

    def _put(self, part: RunPart) -> Run:
        """Put a batch into the run that it goes on with, or a new one, and return that."""
        found, run = part.found, self._run
        if run is None or part.control == SNAPSHOT_HEADER or not _follows(run, part, strict=self._strict):
            run = self._elsewhere(found) if part.control != SNAPSHOT_HEADER else None
            if run is None:
                run = Run(self._image, "snapshot" if part.control == SNAPSHOT_HEADER else "log")
                self.runs.append(run)
        run.add(part)
        run.ended = part.control == SNAPSHOT_FOOTER
        self._run = run
        self._note(run, found)
        return run

    def _note(self, run: Run, found: CarvedBatch) -> None:
        """Note what goes on with a run across other bytes."""
        if run.key is not None:
            self._open.pop(run.key, None)
        run.key = _key_after(found) if found.base_sequence >= 0 and run.kind == "log" else None
        if run.key is not None:
            self._open[run.key] = run

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


def _follows(run: Run, part: RunPart, *, strict: bool) -> bool:
    """Whether a batch goes on with a run right behind its last batch."""
    last, found = run.last, part.found
    if last is None or run.ended or sum(run.extents[-1]) != found.position or found.base_offset < 0:
        return False
    if _overlaps(last, part):
        return run.batches > 1 and not strict and found.position % SECTOR != 0
    if not _ascends(last, part):
        return False
    meets = part.first == last.last_offset + 1
    if found.base_sequence >= 0 and found.producer_id in run.sequences:
        epoch, sequence = run.sequences[found.producer_id]
        if found.producer_epoch < epoch:
            return False
        if found.producer_epoch == epoch and found.base_sequence != sequence:
            return not meets and found.base_sequence > sequence and found.position % SECTOR != 0
        return True
    if meets:
        return True
    is_known = found.producer_id >= 0 and found.producer_id in run.producer_ids
    return (is_known or not strict) and found.position % SECTOR != 0


def _overlaps(last: CarvedBatch, part: RunPart) -> bool:
    """Whether a new leader, which knew less, may have written a batch from inside of the one before it on."""
    found = part.found
    return found.epoch > last.epoch and last.base_offset < part.first <= last.last_offset < found.last_offset


def _ascends(last: CarvedBatch, part: RunPart) -> bool:
    """Whether offsets and epochs let a batch lie behind another one in one segment: offsets in it are relative ints."""
    if not 0 < part.first - last.last_offset <= layout.MAX_INT:
        return False
    return part.found.magic < layout.MAGIC_V2 or part.found.epoch >= last.epoch


def _goes_on(before: RunPart, part: RunPart, *, strict: bool) -> bool:
    """Whether a batch goes on from one that is in no run yet."""
    meets = part.first == before.found.last_offset + 1
    return _ascends(before.found, part) and (meets or not (strict or part.position % SECTOR == 0))


def _room_before(run: Run, held: Sequence[RunPart], part: RunPart) -> int:
    """How many offsets are left before a batch that goes on with a run but for the others; -1 where it does not."""
    last = run.last
    if last is None or run.ended or part.found.base_offset < 0 or not _ascends(last, part):
        return -1
    return max(-1, part.first - last.last_offset - 1 - sum(one.span for one in held))


def _closes(run: Run, held: Sequence[RunPart], part: RunPart, *, strict: bool) -> bool:
    """Whether a batch goes on with a run, and leaves their places to those between the two, with a hole or without.

    At a multiple of a sector another file may begin, so there a hole tells nothing.
    """
    room = _room_before(run, held, part)
    return room == 0 or (room > 0 and not strict and all(one.position % SECTOR for one in (*held, part)))


def _opens(run: Run, one: RunPart, part: RunPart) -> bool:
    """Whether the only batch of a run lies before two that go on exactly, and would too but for one bit."""
    last = run.last
    if last is None or run.batches != 1 or part.first != one.found.last_offset + 1:
        return False
    place = one.first - (last.last_offset - last.base_offset) - 1
    return _is_one_bit_off(last, place, one.found.epoch) and last.magic >= layout.MAGIC_V2


def _ends(run: Run, part: RunPart, *, strict: bool) -> bool:
    """Whether a batch lies behind several of a run, and would go on but for one bit."""
    last = run.last
    if last is None or run.ended or run.batches == 1 or _follows(run, part, strict=strict):
        return False
    place = last.last_offset + 1 + part.found.base_offset - part.first  # of a compressed message that of its last one
    return _is_one_bit_off(part.found, place, last.epoch)


def _is_one_bit_off(found: CarvedBatch, offset: int, epoch: int) -> bool:
    """Whether one bit gives a batch another base offset or leader epoch, the other one of the two being right."""
    if offset < 0:
        return False
    if found.base_offset == offset:
        return is_one_bit(found.epoch, epoch, EPOCH_BITS)
    return is_one_bit(found.base_offset, offset) and found.epoch >= epoch


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
