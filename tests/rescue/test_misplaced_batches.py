"""A base offset is taken from another copy only where the same bytes stand between the same neighbours there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kdump.format.batch.epoch_order import EpochsAround
from kdump.format.source import BytesSource
from kdump.rescue.base_offset.misplaced_batches import wrong_base_offsets
from kdump.rescue.base_offset.seen import CopyLog
from kdump.rescue.salvage import Wanted, salvage
from kdump.rescue.scanned_log import read_log
from tests.support.healing import OPTIONS, batches
from tests.support.partitions import name, write
from tests.support.repair_trees import Quick
from tests.support.segments import batch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kdump.rescue.scanned_log import ScannedLog


class CountedSource(BytesSource):
    """Counts the bytes that are read."""

    count = 0

    def read_at(self, position: int, length: int) -> bytes:
        """Return bytes."""
        CountedSource.count += length
        return super().read_at(position, length)

    def read_into(self, position: int, target: memoryview) -> int:
        """Fill a buffer."""
        CountedSource.count += len(target)
        return super().read_into(position, target)


def at_offset(part: bytes, offset: int) -> bytes:
    """The same batch at another offset."""
    return offset.to_bytes(8, "big") + part[8:]


def torn(part: bytes) -> bytes:
    """The same batch with a wrong CRC."""
    return part[:-1] + bytes([part[-1] ^ 1])


def _copy_log(source: BytesSource, facts: ScannedLog, copy: int) -> CopyLog:
    return CopyLog(copy, source, source, facts, 0, None)


def found(own: Sequence[bytes], *others: Sequence[bytes]) -> list[tuple[Any, Any]]:
    """What is found and expected of the batches of a log, by those of the copies."""

    def facts(parts: Sequence[bytes]) -> Any:
        return read_log(BytesSource(b"".join(parts)), 0, OPTIONS.limits, EpochsAround())

    logs = [_copy_log(CountedSource(b"".join(parts)), facts(parts), 1) for parts in others]
    mine = _copy_log(BytesSource(b"".join(own)), facts(own), 0)
    return [(one.found, one.expected) for one in wrong_base_offsets(mine, lambda: logs, 1 << 26)]


PARTS = [batch(offset, [b"v%d" % offset]) for offset in range(9)]
HIGH = 5 + (3 << 20)  # two bits: the neighbours on one side do not tell
OWN = [*PARTS[:4], torn(PARTS[4]), at_offset(PARTS[5], HIGH), torn(PARTS[6]), PARTS[7], torn(PARTS[8])]


def test_a_batch_between_torn_ones_has_the_offset_that_another_copy_has_for_it() -> None:
    assert found(OWN, PARTS) == [(HIGH, 5)]


def test_the_same_place_of_a_segment_tells_where_the_neighbours_are_torn() -> None:
    own = [torn(PARTS[0]), *OWN[1:]]
    assert found(own, [*(torn(part) for part in PARTS[:4]), *PARTS[4:7], torn(PARTS[7]), torn(PARTS[8])]) == [(HIGH, 5)]


def test_equal_bytes_between_other_neighbours_tell_nothing() -> None:
    other = [*PARTS[:4], batch(4, [b"another one, and longer"]), *PARTS[5:]]
    assert found(OWN, other) == []


def test_an_equal_crc_and_size_are_not_the_same_bytes() -> None:
    other = list(PARTS)
    forged = bytearray(batch(5, [b"w5"]))
    forged[17:21] = PARTS[5][17:21]
    other[5] = bytes(forged)
    mine = read_log(BytesSource(b"".join(OWN)), 0, OPTIONS.limits, EpochsAround())
    theirs = read_log(BytesSource(b"".join(PARTS)), 0, OPTIONS.limits, EpochsAround())
    own = _copy_log(BytesSource(b"".join(OWN)), mine, 0)
    logs = [_copy_log(BytesSource(b"".join(other)), theirs, 1)]
    assert wrong_base_offsets(own, lambda: logs, 1 << 26) == []


def test_a_batch_that_another_copy_has_at_its_own_offset_too_stays() -> None:
    assert found(OWN, PARTS, [*PARTS, at_offset(PARTS[5], HIGH)]) == []


def test_copies_that_know_different_offsets_decide_nothing() -> None:
    other = [*PARTS[:4], torn(PARTS[4]), at_offset(PARTS[5], 6), torn(PARTS[6]), PARTS[7]]
    assert found(OWN, other) == [(HIGH, 6)]
    assert found(OWN, PARTS, other) == []


def test_each_log_is_read_a_few_times_whatever_the_number_of_batches() -> None:
    reads = []
    for count in (100, 800):
        parts = [batch(offset, [b"v%d" % offset]) for offset in range(3 * count)]
        own = list(parts)
        for at in range(1, 3 * count - 1, 3):
            own[at - 1], own[at] = torn(parts[at - 1]), at_offset(parts[at], at + (3 << 28))
        CountedSource.count = 0
        assert sum(was != true for was, true in found(own, parts)) == count
        reads.append(CountedSource.count / len(b"".join(parts)))
    assert reads[1] < 2 * reads[0]


def test_a_wrong_bit_in_a_base_offset_leads_no_batch_behind_it(tmp_path: Path) -> None:
    """The batch behind it follows it with one other bit: two copies that are whole tell that it does not."""
    own = [at_offset(PARTS[0], 1 << 22), at_offset(PARTS[1], 1 + (1 << 28)), *PARTS[2:3]]
    sources = [
        str(write(tmp_path / f"b{number}" / "plain-0", {name(0): b"".join(parts)}))
        for number, parts in enumerate((PARTS[:3], own))
    ]
    list(salvage(sources, Wanted(str(tmp_path / "out"), None, ()), OPTIONS, Quick()))
    assert batches(tmp_path / "out" / "plain-0") == dict(enumerate(PARTS[:3]))
