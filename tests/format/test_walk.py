"""The checked walk: every byte in a batch or a gap, every intact batch found, whatever was done to the bytes.

Where the kernels run uncompiled, fixed samples take the place of what is exhaustive or searched for longer.
"""

from __future__ import annotations

import random
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kdump.compat.kafka_walk import KafkaWalk
from kdump.finding import Code, Finding
from kdump.format.batch import layout
from kdump.format.batch.base_offset.fold import OffsetFold
from kdump.format.batch.base_offset.header import HeaderFacts, LogEnd
from kdump.format.batch.walk import CheckedWalk, settled_windows
from kdump.format.source import BytesSource
from tests.support.scan_windows import (
    COMPILED,
    FLIPS,
    MAX_BATCH,
    SEGMENTS,
    Real,
    Walked,
    check_law,
    follow,
    rows_of,
    short,
    walked,
    windows_of,
)
from tests.support.segments import batch, bounds, log

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

searching = settings(
    max_examples=600 if COMPILED else 60,
    suppress_health_check=[HealthCheck.data_too_large],
)
names = st.sampled_from(sorted(SEGMENTS))
LENGTHS = (1, 2, 4, 8, 12, 16, 61, 100, 300, 1000)


@pytest.fixture(autouse=True)
def _few_rows() -> Iterator[None]:
    with windows_of():
        yield


# --- mutations ----------------------------------------------------------------------------------------------
class Edit(NamedTuple):
    """One thing that is done to bytes; places are taken modulo what is there."""

    kind: str
    at: int
    length: int
    to: int
    data: bytes


edits = st.builds(
    Edit,
    st.sampled_from(["flip", "set", "fill", "zero", "cut", "insert", "copy", "swap", "splice", "end"]),
    st.integers(0, 9000),
    st.sampled_from(LENGTHS),
    st.integers(0, 9000),
    st.binary(min_size=1, max_size=20),
)


def edited(data: bytes, changes: Sequence[Edit], other: bytes = b"") -> bytes:
    """The bytes after some edits; `other` is what ranges are spliced in from."""
    for change in changes:
        if data:
            data = _edited(data, change, other)
    return data


def _edited(data: bytes, change: Edit, other: bytes) -> bytes:
    at, to = change.at % len(data), change.to % len(data)
    end = min(at + change.length, len(data))
    piece, changed = data[at:end], data
    match change.kind:
        case "flip":
            changed = data[:at] + bytes([data[at] ^ 1 << change.to % 8]) + data[at + 1 :]
        case "set":
            changed = (data[:at] + change.data + data[at + len(change.data) :])[: len(data)]
        case "fill":
            changed = data[:at] + change.data[:1] * len(piece) + data[end:]
        case "zero":
            changed = data[:at] + bytes(len(piece)) + data[end:]
        case "cut":
            changed = data[:at] + data[end:]
        case "insert":
            changed = data[:at] + change.data + data[at:]
        case "copy":
            changed = data[:to] + piece + data[to:]
        case "swap" if end <= to <= len(data) - len(piece):
            there = data[to : to + len(piece)]
            changed = data[:at] + there + data[end:to] + piece + data[to + len(piece) :]
        case "splice" if other:
            start = change.to % len(other)
            changed = data[:at] + other[start : start + change.length] + data[end if change.data[0] % 2 else at :]
        case "end":
            changed = data[:at]
    return changed


class Mutant(NamedTuple):
    """A real segment after some edits, and what is known about it.

    Args:
        name: of the segment.
        edits: what is done to it.
        other: name of the segment that ranges are spliced in from.
        based: whether its base offset is known.
        hints: what the index says: "none", "right" (before the edits) or "wrong".
    """

    name: str
    edits: list[Edit]
    other: str
    based: bool
    hints: str

    @property
    def data(self) -> bytes:
        """The bytes."""
        return edited(SEGMENTS[self.name].data, self.edits, SEGMENTS[self.other].data)

    @property
    def base(self) -> int:
        """The base offset."""
        return SEGMENTS[self.name].base if self.based else layout.UNKNOWN

    def walked(self, stops: Sequence[int] = ()) -> Walked:
        """Take the walk."""
        right = [position for position, _ in SEGMENTS[self.name].bounds[2::3]]
        hints = {"none": [], "right": right, "wrong": [5, 7, 300, 301, 1000, 2**31 - 1]}[self.hints]
        return walked(self.data, self.base, hints=hints, stops=stops)


mutants = st.builds(
    Mutant,
    names,
    st.lists(edits, min_size=1, max_size=5),
    names,
    st.sampled_from([True, True, False]),
    st.sampled_from(["none", "right", "wrong"]),
)


# --- the law ------------------------------------------------------------------------------------------------
@searching
@given(mutants)
def test_the_law_holds_whatever_was_done_to_a_segment(mutant: Mutant) -> None:
    check_law(mutant.walked())


@searching
@given(st.binary(max_size=400), st.sampled_from([0, 1000, layout.UNKNOWN]))
def test_the_law_holds_on_any_bytes(data: bytes, base: int) -> None:
    check_law(walked(data, base))


@searching
@given(st.lists(st.sampled_from(range(18)), max_size=8), st.binary(max_size=80))
def test_the_law_holds_on_fields_without_sense(choices: list[int], rest: bytes) -> None:
    """Headers made of the numbers that go wrong most easily: 0, -1, limits, and sizes near the right one."""
    numbers = [0, 1, -1, 13, 14, 48, 49, 61, 2**31 - 1, -(2**31), 2, 3, 127, -128, 100, 12, 17, 22]
    data = b"".join(
        batch(numbers[at], [b"v"], length=numbers[choice], count=numbers[choice], last_delta=numbers[at])
        for at, choice in enumerate(choices)
    )
    check_law(walked(data + rest, 0))


@searching
@given(mutants)
def test_a_walk_has_no_memory_of_another(mutant: Mutant) -> None:
    first = mutant.walked()
    again = mutant.walked()
    assert (again.rows, again.findings) == (first.rows, first.findings)


@pytest.mark.parametrize("name", sorted(SEGMENTS))
def test_an_intact_segment_is_its_batches(name: str) -> None:
    found = walked(SEGMENTS[name].data, SEGMENTS[name].base)
    assert found.trusted == SEGMENTS[name].bounds
    assert [extent.kind for extent in found.extents] == ["batch"] * len(found.rows)
    assert found.above_notes() == []


# --- ranges and windows -------------------------------------------------------------------------------------
def assert_same(expected: Walked, found: Walked) -> None:
    assert found.extents == expected.extents
    assert found.rows == expected.rows
    assert found.told == expected.told


# A wrapper waits for the batch behind it, wherever a window ends.
WRAPPERS = Mutant(
    "v0 v1 v2",
    [Edit("flip", 0, 1, 0, b"\0"), Edit("splice", 65, 1000, 623, b"\0")],
    "v0 v1 v2",
    based=True,
    hints="none",
)
# An offset that is the number for "nothing before" was no neighbour to the scan, but one to the folds.
LEAST_OFFSET = Mutant(
    "hand-made",
    [Edit("flip", 0, 1, 7, b"\0"), Edit("flip", 411, 1, 0, b"\0"), Edit("flip", 426, 1, 0, b"\0")],
    "compacted",
    based=False,
    hints="none",
)


@searching
@given(mutants, st.lists(st.integers(0, 9000), max_size=3))
@example(LEAST_OFFSET, [188])
@example(WRAPPERS, [156, 981])
def test_reading_in_ranges_is_reading_whole(mutant: Mutant, stops: list[int]) -> None:
    whole = mutant.walked()
    assert_same(whole, mutant.walked(sorted(stops)))


def in_two(data: bytes, base: int, stop: int) -> Walked:
    """Walk up to a position, and on from there with another walk that has only the border and the folds."""
    findings: list[Finding] = []
    first = CheckedWalk(
        BytesSource(data, "log"), findings.append, segment=base, next_base=None, max_batch_bytes=MAX_BATCH
    )
    rows = list(rows_of(first, stop))
    if first.border.position < len(data):
        rows += rows_of(follow(first, data, base, findings.append))
    return Walked(len(data), rows, findings)


# A batch that a search had found was still the end of damage after offsets above it were believed.
BELIEVED_LATER = Mutant(
    "compacted, transactions",
    [
        Edit("splice", 7472, 100, 0, b"\0"),
        Edit("fill", 4418, 16, 0, b"\1"),
        Edit("copy", 0, 1, 1269, b"\0"),
        Edit("copy", 0, 1, 5937, b"\0"),
    ],
    "compacted",
    based=True,
    hints="none",
)


@searching
@given(mutants, st.integers(0, 9000))
@example(BELIEVED_LATER, 1056)
@example(BELIEVED_LATER, 1057)
def test_another_walk_goes_on_at_the_border(mutant: Mutant, stop: int) -> None:
    stop %= len(mutant.data) + 1
    whole, parts = walked(mutant.data, mutant.base), in_two(mutant.data, mutant.base, stop)
    assert parts.extents == whole.extents
    assert parts.rows == whole.rows
    told = [sorted(repr(without_neighbours(one)) for one in found.findings) for found in (parts, whole)]
    assert told[0] == told[1]


def without_neighbours(finding: Finding) -> Finding:
    """What a gap gets from its neighbours (offsets, and how many) is less where a walk has not seen all of them."""
    return Finding(finding.code, finding.file, finding.position, finding.length, gap=True) if finding.gap else finding


@pytest.mark.parametrize("name", sorted(SEGMENTS))
def test_an_intact_segment_can_be_cut_at_every_batch(name: str) -> None:
    segment = SEGMENTS[name]
    whole = walked(segment.data, segment.base)
    for position, size in segment.bounds:
        for stop in (position, position + 1, position + size - 1):
            assert_same(whole, walked(segment.data, segment.base, stops=[stop]))
            assert_same(whole, in_two(segment.data, segment.base, stop))


@pytest.mark.parametrize("name", sorted(FLIPS))
def test_a_damaged_segment_can_be_cut_at_every_batch(name: str) -> None:
    segment, rng = FLIPS[name], random.Random(4)
    for _ in range(60 if COMPILED else 6):
        data = bytearray(segment.data)
        for position, size in rng.sample(segment.bounds, 2):
            damage(data, position, size, rng.choice(DAMAGES), rng)
        whole = walked(bytes(data), segment.base)
        for position, _ in segment.bounds:
            assert_same(whole, walked(bytes(data), segment.base, stops=[position]))
            assert_same(whole, in_two(bytes(data), segment.base, position))


@searching
@example(Mutant("transactions", [Edit("fill", 545, 61, 0, b"\x80")], "compacted", True, "none"), 500, 1)
@given(mutants, st.sampled_from([500, 512, 2048, 4096]), st.sampled_from([1, 2, 7]))
def test_the_size_of_a_window_decides_nothing(mutant: Mutant, size: int, rows: int) -> None:
    whole = mutant.walked()
    with windows_of(size, rows):
        assert_same(whole, mutant.walked())


@pytest.mark.parametrize("size", [70, 100, 150, 250])
@pytest.mark.parametrize("name", sorted(SEGMENTS))
def test_batches_may_be_larger_than_a_window(name: str, size: int) -> None:
    segment = SEGMENTS[name]
    whole = walked(segment.data, segment.base)
    with windows_of(size):
        assert_same(whole, walked(segment.data, segment.base))


# --- Kafka's walk -------------------------------------------------------------------------------------------
FRAMING = frozenset(code for code in Code if code.name[0] in "LF" or code in (Code.B02, Code.B03, Code.B04))


def kafka_rows(data: bytes) -> list[tuple[int, int]]:
    walk = KafkaWalk(BytesSource(data, "log"), "log", 0, len(data), MAX_BATCH)
    return [place for window in walk.windows() for place in window.ranges()]


@searching
@given(mutants)
def test_the_two_walks_agree_up_to_the_first_doubt(mutant: Mutant) -> None:
    """Kafka's walk ends on any bytes too; up to a length or a magic in doubt it meets the same batches."""
    found = walked(mutant.data, mutant.base)
    doubt = min((one.position or 0 for one in found.findings if one.code in FRAMING), default=len(mutant.data))
    expected = [extent.place for extent in found.extents if extent.position < doubt]
    assert [place for place in kafka_rows(mutant.data) if place[0] < doubt] == expected


# --- intact batches -----------------------------------------------------------------------------------------
DAMAGES = ("flip", "zero", "random", "length", "head", "piece", "flips", "magic")


def damage(data: bytearray, position: int, size: int, kind: str, rng: random.Random) -> None:
    """Damage one batch in place, in one of the ways that disks and bugs have."""
    at = rng.randrange(size)
    length = min(size - at, rng.randrange(1, 40))
    match kind:
        case "flip":
            data[position + at] ^= 1 << rng.randrange(8)
        case "zero":
            data[position : position + size] = bytes(size)
        case "random":
            data[position : position + size] = rng.randbytes(size)
        case "length":
            data[position + 8 : position + 12] = rng.randbytes(4)
        case "head":
            data[position : position + 12] = rng.randbytes(12)
        case "piece":
            data[position + at : position + at + length] = rng.randbytes(length)
        case "flips":
            for _ in range(5):
                data[position + rng.randrange(size)] ^= 1 << rng.randrange(8)
        case "magic":
            data[position + 16] = rng.choice([0, 1, 2, 3, 127, 128, 255])


def lost(segment: Real, data: bytes, hit: Sequence[int]) -> list[int]:
    """The batches that were not touched and yet are not among those with the right CRC."""
    found = walked(data, segment.base)
    check_law(found)
    return [k for k, place in enumerate(segment.bounds) if k not in hit and place not in found.trusted]


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("name", sorted(FLIPS))
def test_all_others_are_found_when_some_of_eight_are_damaged(name: str, count: int) -> None:
    segment, rng = FLIPS[name], random.Random(count)
    for hit in combinations(range(8), count):
        for _ in range(12 if COMPILED else 1):
            data, kinds = bytearray(segment.data), []
            for k in hit:
                kinds.append(rng.choice(DAMAGES))
                damage(data, *segment.bounds[k], kinds[-1], rng)
            assert not lost(segment, bytes(data), hit), (hit, kinds)


@pytest.mark.parametrize("name", sorted(SEGMENTS))
def test_every_second_batch_may_be_damaged(name: str) -> None:
    segment, rng = SEGMENTS[name], random.Random(9)
    for first in (0, 1):
        hit = range(first, len(segment.bounds), 2)
        for kind in DAMAGES:
            data = bytearray(segment.data)
            for k in hit:
                damage(data, *segment.bounds[k], kind, rng)
            assert not lost(segment, bytes(data), hit), kind


class Wound(NamedTuple):
    """What is done to one batch of a segment."""

    kind: str
    batch: int
    at: int
    length: int
    data: bytes


wounds = st.builds(
    Wound,
    st.sampled_from(["flip", "set", "zero", "cut", "insert", "length", "drop", "bytes before", "zeros before"]),
    st.integers(0, 200),
    st.one_of(st.integers(0, 25), st.integers(0, 3000)),
    st.sampled_from(LENGTHS),
    st.binary(min_size=1, max_size=20),
)


def wounded(part: bytes, wound: Wound) -> bytes:
    """One batch after it was damaged."""
    if wound.kind == "drop" or not part:
        return b""
    if wound.kind == "length":
        return part[:8] + wound.data[:4].rjust(4, b"\0") + part[12:]
    return _edited(part, Edit(wound.kind, wound.at, wound.length, wound.data[0], wound.data), b"")


@searching
@given(names, st.lists(wounds, min_size=1, max_size=5))
def test_no_batch_is_lost_that_was_not_touched(name: str, hits: list[Wound]) -> None:
    """Whatever happens to other batches, and whatever comes between.

    One thing nobody can tell apart: a batch that lost its last zeros, and a next one that lost its first.
    """
    segment = SEGMENTS[name]
    intact = [segment.data[position : position + size] for position, size in segment.bounds]
    parts, before = list(intact), [b""] * len(intact)
    for hit in hits:
        k = hit.batch % len(parts)
        if hit.kind.endswith("before"):
            before[k] = bytes(hit.length) if hit.kind == "zeros before" else hit.data
        else:
            parts[k] = wounded(parts[k], hit)
    pieces = [piece for pair in zip(before, parts, strict=True) for piece in pair]
    found = walked(log(pieces), segment.base)
    check_law(found)
    for k, place in enumerate(bounds(pieces)[1::2]):
        if parts[k] == intact[k] and place not in found.trusted:
            eaten = any(start < place[0] < start + size for start, size in found.trusted)
            assert eaten, f"batch {k} at {place} is not found: {found.codes}"


# --- single bits, ends and zeros ----------------------------------------------------------------------------
OUTSIDE = {"v2": 17, "v1": 12}  # bytes of a batch before its CRC and what that covers
MAGIC = 16  # the CRC of magic 1 covers it, and proves what it was
WHOLE = [(name, k) for name in sorted(FLIPS) for k in range(8)]


def flips(name: str, k: int) -> Iterator[tuple[int, Walked]]:
    """Yield each bit of one batch, counted from its first byte, and the walk over the segment with it flipped."""
    segment = FLIPS[name]
    position, size = segment.bounds[k]
    bits: Sequence[int] = range(8 * size)
    if not COMPILED:
        bits = sorted(random.Random(k).sample(bits, 25))
    for bit in bits:
        data = bytearray(segment.data)
        data[position + bit // 8] ^= 1 << bit % 8
        yield bit, walked(bytes(data), segment.base)


@pytest.mark.parametrize(("name", "k"), WHOLE)
def test_any_flipped_bit_leaves_all_batches_in_place(name: str, k: int) -> None:
    """All eight are found where they are; only the one with the bit is in doubt, unless the bit is outside its CRC."""
    segment = FLIPS[name]
    for bit, found in flips(name, k):
        check_law(found)
        assert [extent.place for extent in found.extents] == segment.bounds, bit
        doubt = [at for at, extent in enumerate(found.extents) if extent.kind != "batch"]
        if (name, bit // 8) == ("v1", MAGIC):
            assert doubt in ([], [k]), bit
        else:
            assert doubt == ([] if bit // 8 < OUTSIDE[name] else [k]), bit


@pytest.mark.parametrize(("name", "k"), WHOLE)
def test_any_flipped_bit_is_told_where_it_is(name: str, k: int) -> None:
    """What is told is about the batch with the bit, or about a neighbour that does not go with it."""
    segment = FLIPS[name]
    near = {segment.bounds[at][0] for at in (k - 1, k, k + 1) if 0 <= at < 8}
    for bit, found in flips(name, k):
        for one in found.findings:
            assert one.position in near, (bit, short(one))
        if bit // 8 >= OUTSIDE[name]:
            first = found.findings[0]
            assert (first.position, first.length) == segment.bounds[k], (bit, short(first))
            assert first.code in (Code.B01, Code.B02) or (bit // 8 == MAGIC and first.gap), (bit, short(first))


FIELDS = {"baseOffset": (0, 8), "batchLength": (8, 12), "partitionLeaderEpoch": (12, 16), "magic": (16, 17)}
# Batches and fields whose value the neighbours leave open.
OPEN = {
    ("v2", 4, "partitionLeaderEpoch"): "epoch 4 before it, 6 after it",
    ("v2", 5, "partitionLeaderEpoch"): "epoch 4 before it, 6 after it",
    ("v2", 6, "partitionLeaderEpoch"): "nothing behind the last batch: that one may be wrong as well",
}
OPEN_BITS = {
    ("v2", 0, 120): "epoch 5 may have been 1, which may come before epoch 4, or 4",
    ("v2", 0, 121): "epoch 6 may have been 2, which may come before epoch 4, or 4",
    ("v2", 0, 122): "epoch 0 may come before epoch 4",
    ("v2", 1, 122): "epochs 4, 0, 4: the first may be wrong, or the second",
    ("v2", 3, 120): "epochs 4, 5, 4, 6: the second may be wrong, or the third",
    ("v2", 3, 121): "epochs 4, 6, 4, 6: the second may be wrong, or the third",
    ("v1", 2, 56): "offset 53 before a wrapper that may begin with 54: a hole is as likely",
    ("v1", 2, 57): "offset 54 before a wrapper that may begin with 55: a hole is as likely",
}


@pytest.mark.parametrize(("name", "k"), [(name, k) for name, k in WHOLE if k < 7])
def test_a_flipped_bit_outside_the_crc_is_told_with_the_right_value(name: str, k: int) -> None:
    """The batch with the bit is blamed, and what follows it says what the field was."""
    segment = FLIPS[name]
    position, size = segment.bounds[k]
    for bit, found in flips(name, k):
        field = next((field for field, (start, end) in FIELDS.items() if start <= bit // 8 < end), "")
        if bit // 8 >= OUTSIDE[name] or (name, k, field) in OPEN or (name, k, bit) in OPEN_BITS:
            continue
        told = [(one.field, one.expected) for one in found.findings if (one.position, one.length) == (position, size)]
        start, end = FIELDS[field]
        true = int.from_bytes(segment.data[position + start : position + end], "big")
        assert told == [(field, true)], (bit, [short(one) for one in found.findings])


# What no neighbour contradicts: a leader epoch may rise at the last batch, or between two that rise too.
EPOCH = range(12, 16)


@pytest.mark.parametrize("is_lost", [False, True], ids=["behind a batch", "behind damage"])
def test_a_run_that_is_skipped_leaves_what_its_batches_one_by_one_leave(is_lost: bool) -> None:
    run = [HeaderFacts(100 + 70 * n, 70, 10 + n, 10 + n, 0, trusted=True) for n in range(5)]
    states, told = [], []
    for skips in (False, True):
        free: list[tuple[int, int | None, int]] = []
        found: list[Finding] = []
        fold = OffsetFold("x.log", found.append, 0, None)
        fold.on_free_range = lambda *one, free=free: free.append(one)
        fold.push(HeaderFacts(0, 90, 0, 9, 0, trusted=True))
        if is_lost:
            fold.after_loss()
        if skips:
            fold.skip(run[-1], run[0].position)
        else:
            for one in run:
                fold.push(one)
        states.append(fold.state)
        told.append(free)
    assert states[0] == states[1]
    assert told[0] == told[1]


def last_of_a_segment(first: int, end: int, *, by_others: bool = False) -> tuple[list[Finding], int | None]:
    """What is found where the batches 0..9 and one of four offsets from `first` on lie before an offset.

    Args:
        first: base offset of the last batch.
        end: where the next segment begins, or the last one ends.
        by_others: other files know it to end there.
    """
    found: list[Finding] = []
    fold = OffsetFold("x.log", found.append, 0, None if by_others else end, lambda: LogEnd(end))
    fold.push(HeaderFacts(0, 90, 0, 9, 0, trusted=True))
    fold.push(HeaderFacts(90, 90, first, first + 3, 0, trusted=True))
    fold.finish()
    return found, fold.last


@pytest.mark.parametrize("by_others", [False, True])
@pytest.mark.parametrize("first", [10 ^ 1 << bit for bit in range(63)] + [2, 8])
def test_the_next_segment_or_the_other_files_tell_one_wrong_bit_of_the_last_batch(first: int, by_others: bool) -> None:
    (found,), last = last_of_a_segment(first, 14, by_others=by_others)
    assert (found.code in (Code.O02, Code.O03), found.expected, last) == (True, 10, 13)


@pytest.mark.parametrize(
    ("first", "end", "codes"),
    [
        (10, 14, []),
        (10, 30, []),  # compaction has taken what came behind it
        (20, 30, [Code.O04]),  # and what lay before it
        (10 ^ 64, 30, [Code.O04]),  # where it ended nobody knows
        (10, 12, []),  # it stands behind the batches before it: which of them is wrong nobody knows
    ],
)
def test_what_one_bit_does_not_explain_is_not_blamed(first: int, end: int, codes: list[Code]) -> None:
    for by_others in (False, True):
        found, _ = last_of_a_segment(first, end, by_others=by_others)
        assert [one.code for one in found] == codes


def test_several_wrong_bits_are_told_where_the_batch_fills_the_log_up_to_the_next_segment() -> None:
    """Other files may be older than the last batch, and one alone does not count against it."""
    (found,), last = last_of_a_segment(10 ^ 1 ^ 64, 14, by_others=False)
    assert (found.code, found.expected, last) == (Code.O03, 10, 13)
    (found,), last = last_of_a_segment(10 ^ 1 ^ 64, 14, by_others=True)
    assert (found.code, found.expected) == (Code.O04, None)


def test_a_batch_before_lost_bytes_is_not_the_last_one() -> None:
    found: list[Finding] = []
    fold = OffsetFold("x.log", found.append, 0, 14)
    fold.push(HeaderFacts(0, 90, 0, 5, 0, trusted=True))
    fold.push(HeaderFacts(90, 90, 10 ^ 4, 17, 0, trusted=True))
    fold.after_loss()
    fold.finish()
    assert [one.expected for one in found if one.code is not Code.O04] == []


# --- windows whose offsets are judged -----------------------------------------------------------------------
class Torn(BytesSource):
    """A log that cannot be read from a position on."""

    torn = 1 << 40

    def read_into(self, position: int, view: memoryview) -> int:
        if position + len(view) > self.torn:
            raise OSError(5, "Input/output error", self.name)
        return super().read_into(position, view)


WRONG = [batch(k) if k != 2 else batch(2 ^ 1 << 20) for k in range(5)]


def settled(source: BytesSource, stop: int | None = None) -> Iterator[tuple[list[bytes], list[int | None]]]:
    """The bytes of the batches that are handed out together, and where they belong by what is found until then."""
    found: list[Finding] = []
    walk = CheckedWalk(source, found.append, segment=0, next_base=None, max_batch_bytes=MAX_BATCH)
    for window in settled_windows(walk, found, stop):
        ranges = [(position - window.origin, size) for position, size in window.ranges()]
        yield [bytes(window.view[at : at + size]) for at, size in ranges], [one.expected for one in found]  # type: ignore[misc]
        found.clear()
    assert found == []


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5])
def test_a_batch_at_the_end_of_a_window_is_handed_out_when_the_next_one_has_judged_it(rows: int) -> None:
    with windows_of(rows=rows):
        found = list(settled(BytesSource(b"".join(WRONG), "log")))
    assert [one for batches, _ in found for one in batches] == WRONG
    assert [(WRONG[2] in batches, expected) for batches, expected in found if expected] == [(True, [2])]


def test_the_last_batch_before_a_place_is_judged_by_the_one_behind_it() -> None:
    stop = sum(map(len, WRONG[:3]))
    (before, wrong) = settled(BytesSource(b"".join(WRONG), "log"), stop)
    assert (before, wrong) == ((WRONG[:2], []), (WRONG[2:3], [2]))


def test_a_batch_before_what_cannot_be_read_is_handed_out_first() -> None:
    source = Torn(b"".join(WRONG), "log")
    with windows_of(len(WRONG[0]), rows=1):
        handed = settled(source)
        seen = [next(handed)[0] for _ in range(2)]
        source.torn = sum(map(len, WRONG[:3])) + 61
        assert [*seen, next(handed)[0]] == [[one] for one in WRONG[:3]]
        with pytest.raises(OSError, match="Input/output"):
            next(handed)


def test_only_plausible_epochs_are_silent() -> None:
    """Of all single bits, what is not told are 33 bits of leader epochs, and none where there are no epochs."""
    silent = {
        name: [(k, bit) for k in range(8) for bit, found in flips(name, k) if not found.findings] for name in FLIPS
    }
    assert not silent["v1"]
    assert all(bit // 8 in EPOCH for _, bit in silent["v2"])
    assert len(silent["v2"]) == 33 or not COMPILED


def ends(size: int) -> Sequence[int]:
    """Every length or place, or a sample that has the interesting ones."""
    return range(size) if COMPILED else sorted(random.Random(size).sample(range(size), 120))


@pytest.mark.parametrize("name", sorted(FLIPS))
def test_a_log_may_end_anywhere(name: str) -> None:
    """All batches before the end are there, and what is torn is one gap that says so."""
    segment = FLIPS[name]
    for size in ends(len(segment.data)):
        found = walked(segment.data[:size], segment.base)
        check_law(found)
        whole = [place for place in segment.bounds if sum(place) <= size]
        assert found.trusted == whole, size
        rest = size - sum(whole[-1] if whole else (0, 0))
        assert found.codes == ([] if not rest else ["L01" if rest <= 17 else "L02"]), size


@pytest.mark.parametrize("name", sorted(FLIPS))
def test_a_log_may_be_zero_from_anywhere(name: str) -> None:
    """All batches that are as they were are there, and what comes after them is told."""
    segment = FLIPS[name]
    for start in ends(len(segment.data)):
        data = segment.data[:start] + bytes(len(segment.data) - start)
        found = walked(data, segment.base)
        check_law(found)
        same = [place for place in segment.bounds if data[place[0] : sum(place)] == segment.data[place[0] : sum(place)]]
        assert found.trusted == same, start
        assert bool(found.findings) == (data != segment.data), start
        assert not found.findings or found.findings[0].position == sum(same[-1] if same else (0, 0)), start


@pytest.mark.parametrize("name", sorted(FLIPS))
def test_any_part_may_be_zero(name: str) -> None:
    segment, rng = FLIPS[name], random.Random(6)
    for _ in range(400 if COMPILED else 30):
        start, end = sorted(rng.sample(range(len(segment.data) + 1), 2))
        data = segment.data[:start] + bytes(end - start) + segment.data[end:]
        hit = [k for k, (at, size) in enumerate(segment.bounds) if data[at : at + size] != segment.data[at : at + size]]
        assert not lost(segment, data, hit), (start, end)
