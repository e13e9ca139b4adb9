"""Batches anywhere in any bytes: what begins at a byte, and ends where its CRC says.

Strategy: the kernel names the places where a magic and a size fit. The image is read once, in windows with a part of
what follows. A batch that ends inside the window is checked at once, and the search goes on behind it: what lies inside
a batch is its content. A larger one (or one of many that lie about their size) is a claim: the CRC of all bytes is kept
up while there are claims, and that of the range between two places follows from the CRCs at both. So each byte goes
through a CRC a few times at most, whatever the bytes claim. What is found inside a claim is held back until the claim
has ended.
"""

from __future__ import annotations

import errno
import struct
from array import array
from bisect import insort
from collections import deque
from heapq import heappop, heappush
from operator import attrgetter
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding, Report
from kdump.format.batch import layout
from kdump.format.checksum import crc32, crc32c
from kdump.format.codec.base import CompressionType
from kdump.format.codec.signatures import SIGNATURES, VARINT_BYTES, VARLONG_BYTES, varint
from kdump.rescue import _carving
from kdump.storage.file_source import BLOCK
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.format.source import Source

_WINDOW = 4 << 20  # bytes in which batches begin at a time
_AHEAD = 1 << 20  # bytes held behind them: a batch up to this size is checked at once
_ROOM = 512  # candidates looked at together
_HASHED = 8  # bytes put through a CRC at once, for each byte of the image; more become claims
_HASHED_LEAST = 64 << 20
_MOST_CLAIMS = 4096
_MOST_HELD = 1 << 20  # batches found inside claims
_POLY = 0x82F63B78  # CRC-32C, bits reversed
_HEADER = struct.Struct(">qiibIhiqqqhii")


_NO_PRODUCER = (-1, -1, -1, -1)  # leader epoch, id, epoch and sequence of a legacy message


class CarvedBatch(TupleValue):
    """A batch that lies whole in an image, with the right CRC."""

    position: int  # its first byte
    size: int  # bytes
    magic: int  # 0, 1 or 2
    # base_offset, last_offset: of a legacy wrapper both its last one
    base_offset: int
    last_offset: int
    # epoch, producer_id, producer_epoch, base_sequence: -1 for none
    epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int  # as the header has them; 1 for a legacy message or wrapper
    # first_timestamp, max_timestamp: ms since the epoch; -1 for none
    first_timestamp: int
    max_timestamp: int
    attributes: int  # unsigned
    crc: int  # unsigned

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.position + self.size


class RangeEnd(TupleValue):
    """What a search leaves at the end of a range."""

    hashed: int  # bytes that it has put through a CRC
    legacy_end: int  # of its last message of magic 0 or 1; -1 for none
    whole: bool  # nothing in it hangs on what lies before or behind it


class _Claim:
    """What may be a batch whose end has not been read yet."""

    def __init__(self, found: CarvedBatch) -> None:
        self.found = found
        self.prefix: int | None = None  # the CRC of all bytes up to where its own begins
        self.open = True


_position = attrgetter("position")


class ImageSearch:
    """Searches one image once.

    Args:
        source: the image.
        report: takes the findings.
        progress: is told the position, now and then.
        start: where to begin, as if nothing lay before it.

    Reports: F06 for what cannot be read, L12 where claims are given up.
    """

    def __init__(self, source: Source, report: Report, progress: Callable[[int], None], start: int = 0) -> None:
        self._source = source
        self._origin = start
        self._size = source.size
        self._report = report
        self._progress = progress
        self._rows = array("q", bytes(8 * _carving.CANDIDATE_WIDTH * _ROOM))
        self._buffer = bytearray(_WINDOW + _AHEAD)
        self._view = memoryview(self._buffer)
        self._at, self._have = start, 0  # position of the first byte of the buffer; bytes in it
        self._hashed = 0
        self.limited = False  # more bytes would have been put through a CRC than may be
        self._next = start  # where the next batch may begin
        self._legacy_end = -1  # of the last message of magic 0 or 1
        self._ready: list[CarvedBatch] = []
        self._held: list[CarvedBatch] = []
        self._claims: deque[_Claim] = deque()  # by position
        self._events: list[tuple[int, int, _Claim]] = []  # where a claim's CRC begins or ends
        self._numbered = 0
        self._crc = self._crc_at = 0  # of the bytes since the oldest claim

    def batches(self, stop: int | None = None) -> Iterator[CarvedBatch]:
        """Yield every batch that begins before `stop`, by position; the next call goes on there.

        A claim that is open at `stop` is settled by the next call, with all that waits for it.

        Args:
            stop: position; None for the end of the image.

        Raises:
            OSError: the image cannot be read for another reason than bad bytes.
        """
        end = self._size if stop is None else min(stop, self._size)
        while self._at < end:
            bad = self._step(end)
            yield from self._take()
            self._progress(self._at)
            if bad is None:
                continue
            self._give_up_all()
            yield from self._take()
            self._at = self._next = self._behind_bad(bad)
            self._report(
                Finding(Code.F06, self._source.name, bad, self._at - bad, values={"why": "the disk cannot read it"})
            )
        if end >= self._size:
            self._give_up_all()
            yield from self._take()

    # --- ranges ---------------------------------------------------------------------------------------------
    @property
    def end(self) -> RangeEnd:
        """What a search that began at another place must know of this one, which ends at a border."""
        whole = not (self.limited or self._claims)
        return RangeEnd(self._hashed, self._legacy_end, whole)

    def adopt(self, first: int | None, end: RangeEnd) -> bool:
        """Tell whether what a search has found that began where this one is, is what this one would find.

        Args:
            first: position of the first batch that it has found; None for none.
            end: what it has left.
        """
        at = self._at
        if not end.whole or self._claims or self._hashed > _HASHED * (at - self._origin):
            return False
        if first is not None and first < self._next:
            return False
        return self._legacy_end < at or self._legacy_end == first  # a message may count for what lies before it

    def pass_over(self, stop: int, last: int | None, end: RangeEnd) -> None:
        """Go on behind a range that another search was right about.

        Args:
            stop: end of the range.
            last: where its last batch ends; None where it has none.
            end: what that search has left.
        """
        self._at, self._have = stop, 0
        self._hashed += end.hashed
        self._next = max(self._next, stop, last or 0)
        self._legacy_end = max(self._legacy_end, end.legacy_end)

    # --- bytes ----------------------------------------------------------------------------------------------
    def _step(self, end: int) -> int | None:
        """Search a window, no further than to `end`; return the position of what cannot be read."""
        view = self._view
        bad = self._fill()
        last = bad is not None or self._at + self._have >= self._size
        stop = min(self._have if last else self._have - _AHEAD, end - self._at)
        self._judge(stop)
        self._run_events(self._at + stop)
        is_bad = bad is not None and stop == self._have
        view[: self._have - stop] = bytes(view[stop : self._have])
        self._at += stop
        self._have -= stop
        if is_bad:
            return bad
        if self._at < end:
            self._skip_hole(end)
        return None

    def _fill(self) -> int | None:
        """Fill the buffer; return the position of what cannot be read."""
        wanted = min(len(self._buffer), self._size - self._at)
        while self._have < wanted:
            target = self._view[self._have : wanted]
            try:
                self._source.read_into(self._at + self._have, target)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                return self._fill_blocks(wanted)
            self._have = wanted
        return None

    def _fill_blocks(self, wanted: int) -> int | None:
        """Fill the buffer block by block, after an error."""
        while self._have < wanted:
            position = self._at + self._have
            length = min(BLOCK - position % BLOCK, wanted - self._have)
            if not self._reads(position, self._view[self._have : self._have + length]):
                return position
            self._have += length
        return None

    def _reads(self, position: int, target: memoryview) -> bool:
        try:
            self._source.read_into(position, target)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return False
        return True

    def _behind_bad(self, position: int) -> int:
        """The first position behind one that cannot be read, from where on bytes can."""
        block = memoryview(bytearray(BLOCK))
        while position < self._size:
            position = min(position - position % BLOCK + BLOCK, self._size)
            if position >= self._size or self._reads(position, block[: min(BLOCK, self._size - position)]):
                break
        return position

    def _skip_hole(self, end: int) -> None:
        """Go to the end of a hole of a sparse file, no further than to `end`; nothing but zeros is there."""
        target = self._source.next_data(self._at) - layout.RECORDS_AT  # a header may begin with zeros
        target = min(target, end)
        if target - self._at < 2 * _AHEAD:
            return
        while self._events and self._events[0][0] <= target:
            position, _, claim = heappop(self._events)
            self._zeros_to(position)
            self._event(position, claim)
        if self._claims:
            self._zeros_to(target)
        self._at, self._have = target, 0

    def _zeros_to(self, position: int) -> None:
        """Let the CRC pass over a hole."""
        count = position - self._crc_at
        if count <= 0:
            return
        zeros, done = crc32c(b"\0"), 1
        for bit in bin(count)[3:]:  # from one zero to all of them, by doubling
            zeros, done = _carving.behind(zeros, done, _POLY) ^ zeros, 2 * done
            if bit == "1":
                zeros, done = crc32c(b"\0", zeros), done + 1
        self._crc = _carving.behind(self._crc, count, _POLY) ^ zeros
        self._crc_at = position

    # --- candidates -----------------------------------------------------------------------------------------
    def _judge(self, stop: int) -> None:
        """Judge each candidate that begins in the buffer before `stop`."""
        at = self._at
        start = max(0, self._next - at)
        while start < stop:
            count = _carving.candidates(
                self._buffer,
                start,
                stop=stop,
                n=self._have,
                left=self._size - at,
                small=_AHEAD,
                rows=self._rows,
                room=_ROOM,
            )
            rows = self._rows[: count * _carving.CANDIDATE_WIDTH].tolist()
            for k in range(0, len(rows), _carving.CANDIDATE_WIDTH):
                place, size, magic = rows[k : k + _carving.CANDIDATE_WIDTH]
                if at + place >= self._next:
                    if self._events and self._events[0][0] <= at + place:
                        self._run_events(at + place)
                    if at + place >= self._next:
                        self._look(place, size, magic)
            if count < _ROOM:
                return
            start = max(rows[-_carving.CANDIDATE_WIDTH] + 1, self._next - at)

    def _look(self, place: int, size: int, magic: int) -> None:
        """Judge one candidate: found, a claim, or nothing."""
        if magic < layout.MAGIC_V2:
            if self._is_message(place, size):
                self._legacy_end = self._at + place + size
                self._accept(self._message(place, size, magic))
            return
        stored = int.from_bytes(self._view[place + layout.CRC_AT : place + layout.CRC_AT + 4], "big")
        if size <= _AHEAD and self._may_hash(place):
            if place + size <= self._have:
                self._hashed += size
                if crc32c(self._view[place + layout.ATTRIBUTES_AT : place + size]) == stored:
                    self._accept(self._batch(place, size))
        elif size <= _AHEAD or self._is_plausible(place, size):
            self._claim(self._batch(place, size))

    def _may_hash(self, place: int) -> bool:
        """Whether not too much was put through a CRC for how far the search has come."""
        self.limited |= self._hashed > _HASHED * (self._at + place - self._origin) + _HASHED_LEAST
        return self._hashed <= _HASHED * (self._at + place - self._origin) + _HASHED_LEAST

    def _batch(self, place: int, size: int) -> CarvedBatch:
        base, _, epoch, magic, crc, attributes, delta, first, latest, producer, term, sequence, count = (
            _HEADER.unpack_from(self._buffer, place)
        )
        of_producer = epoch, producer, term, sequence
        fields = self._at + place, size, magic, base, base + delta, *of_producer, count, first, latest
        return CarvedBatch._make((*fields, attributes & 0xFFFF, crc))

    def _is_plausible(self, place: int, size: int) -> bool:
        """Whether the first record of a large batch makes sense; the kernel has looked at its header."""
        codec = self._view[place + layout.ATTRIBUTES_AT + 1] & layout.CODEC_MASK
        data = self._view[place + layout.RECORDS_AT : min(place + layout.RECORDS_AT + 32, self._have)]
        if codec:
            _, signature = SIGNATURES[codec - 1]
            return data[: len(signature)] == signature or (codec == CompressionType.SNAPPY and _raw_snappy(data, size))
        return _first_record(data, size)

    # --- magic 0 and 1 --------------------------------------------------------------------------------------
    def _is_message(self, place: int, size: int) -> bool:
        position, end = self._at + place, self._at + place + size
        if not self._may_hash(place):
            return False
        stored = int.from_bytes(self._view[place + layout.LEGACY_CRC_AT : place + layout.LEGACY_CRC_AT + 4], "big")
        try:
            if not self._sizes_add_up(place, size):
                return False
            self._hashed += size
            computed = crc32(self._view[place + layout.MAGIC_AT : min(place + size, self._have)])
            for start in range(self._at + self._have, end, _AHEAD):
                computed = crc32(self._source.read_at(start, min(_AHEAD, end - start)), computed)
            return computed == stored and (self._legacy_end == position or self._has_neighbour(place, end))
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return False

    def _sizes_add_up(self, place: int, size: int) -> bool:
        """Whether the value ends where the message does; the kernel has seen to it where the key ends in the buffer."""
        at = place + layout.LEGACY_TIMESTAMP_AT + 8 * self._view[place + layout.MAGIC_AT]
        key = int.from_bytes(self._view[at : at + 4], "big", signed=True)
        at += 4 + max(key, 0)
        if at + 4 <= self._have:
            return True
        value = int.from_bytes(self._source.read_at(self._at + at, 4), "big", signed=True)
        return value >= -1 and at + 4 + max(value, 0) == place + size

    def _has_neighbour(self, place: int, end: int) -> bool:
        """Whether a header with a higher offset follows: 32 bits of a CRC alone come about by chance."""
        header = self._source.read_at(end, layout.RECORDS_AT + layout.SIZE_AT)
        offset = int.from_bytes(self._view[place : place + 8], "big", signed=True)
        count = _carving.candidates(
            bytearray(header),
            0,
            stop=1,
            n=len(header),
            left=self._size - end,
            small=_AHEAD,
            rows=array("q", bytes(8 * _carving.CANDIDATE_WIDTH)),
            room=1,
        )
        return count == 1 and 0 <= offset < int.from_bytes(header[:8], "big", signed=True) <= offset + layout.MAX_INT

    def _message(self, place: int, size: int, magic: int) -> CarvedBatch:
        view = self._view
        offset = int.from_bytes(view[place : place + 8], "big", signed=True)
        at = place + layout.LEGACY_TIMESTAMP_AT
        timestamp = int.from_bytes(view[at : at + 8], "big", signed=True) if magic else -1
        crc = int.from_bytes(view[place + layout.LEGACY_CRC_AT : place + layout.LEGACY_CRC_AT + 4], "big")
        attributes = view[place + layout.LEGACY_ATTRIBUTES_AT]
        fields = self._at + place, size, magic, offset, offset, *_NO_PRODUCER, 1, timestamp, timestamp
        return CarvedBatch._make((*fields, attributes, crc))

    # --- claims ---------------------------------------------------------------------------------------------
    def _accept(self, found: CarvedBatch) -> None:
        self._next = found.end
        if self._claims:
            self._held.append(found)
            if len(self._held) > _MOST_HELD:
                self._give_up()
        else:
            self._ready.append(found)

    def _claim(self, found: CarvedBatch) -> None:
        claim = _Claim(found)
        begins = found.position + layout.ATTRIBUTES_AT
        if not self._claims:
            self._crc, self._crc_at = 0, begins
        self._claims.append(claim)
        for position in (begins, found.end):
            self._numbered += 1
            heappush(self._events, (position, self._numbered, claim))
        if len(self._claims) > _MOST_CLAIMS:
            self._give_up()

    def _run_events(self, up_to: int) -> None:
        """Bring the CRC up to a position, and settle the claims that end on the way."""
        while self._events and self._events[0][0] <= up_to:
            position, _, claim = heappop(self._events)
            self._crc_to(position)
            self._event(position, claim)
        if self._claims:
            self._crc_to(up_to)

    def _crc_to(self, position: int) -> None:
        if position > self._crc_at:
            self._crc = crc32c(self._view[self._crc_at - self._at : position - self._at], self._crc)
            self._crc_at = position

    def _event(self, position: int, claim: _Claim) -> None:
        """Begin or settle a claim, the CRC being that of all bytes up to here."""
        if not claim.open:
            return
        if claim.prefix is None:
            claim.prefix = self._crc
            return
        found = claim.found
        claim.open = False
        length = found.size - layout.ATTRIBUTES_AT
        if self._crc ^ _carving.behind(claim.prefix, length, _POLY) == found.crc:
            self._next = max(self._next, position)
            self._held = [one for one in self._held if not found.position < one.position < position]
            insort(self._held, found, key=_position)
            for other in self._claims:
                if found.position < other.found.position < position:
                    other.open = False
        self._settle()

    def _give_up(self) -> None:
        """Give up the oldest claim: too much waits for it."""
        claim = self._claims[0]
        claim.open = False
        found = claim.found
        why = f"a batch of {found.size} bytes may begin here, among more than can be followed at once"
        self._report(Finding(Code.L12, self._source.name, found.position, found.size, values={"why": why}))
        self._settle()

    def _give_up_all(self) -> None:
        """End at bytes that cannot be read: no batch reaches over them."""
        self._claims.clear()
        self._events.clear()
        self._settle()

    def _settle(self) -> None:
        """Let go what waits for no claim any more."""
        while self._claims and not self._claims[0].open:
            self._claims.popleft()
        if not self._claims:
            self._ready += self._held
            self._held = []
            self._events.clear()
            return
        first = self._claims[0].found.position
        n = next((k for k, one in enumerate(self._held) if one.position >= first), len(self._held))
        self._ready += self._held[:n]
        del self._held[:n]

    def _take(self) -> Iterator[CarvedBatch]:
        ready, self._ready = self._ready, []
        yield from ready


def _first_record(data: memoryview, size: int) -> bool:
    """Whether a first record of magic 2 may begin with these bytes."""
    length, at = varint(data, 0, VARINT_BYTES)
    if not layout.SMALLEST_RECORD - 1 <= length <= size or at >= len(data) or data[at] != 0:
        return False
    _, at = varint(data, at + 1, VARLONG_BYTES)  # timestamp delta
    delta, _ = varint(data, at, VARINT_BYTES)
    return delta >= 0


def _raw_snappy(data: memoryview, size: int) -> bool:
    """Whether a block of snappy may begin with these bytes: a size that such data can come to, then a literal."""
    value = shift = at = 0
    for byte in data[:5]:
        value |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if byte < 0x80:
            break
    return size // 2 <= value <= 32 * size and at < len(data) and data[at] & 3 == 0
