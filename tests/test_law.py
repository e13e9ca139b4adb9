"""The law of byte conservation, and that every batch which a correct reader can trust is found."""

from __future__ import annotations

import itertools
import random
from functools import cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kdump.format import _scan, layout
from kdump.format.source import BytesSource
from kdump.format.walk import CheckedWalk
from tests.corpus import FIXTURES

if TYPE_CHECKING:
    from kdump.finding import Finding

FLIPS = {"v2": 1000, "v1": 50}
SILENT_FLIPS = {"v2": 33, "v1": 0}  # bits of the leader epoch that nothing in a lone log contradicts
OUTSIDE_THE_CRC = {"v2": range(17), "v1": range(12)}
# Every flip where kernels are compiled; a seeded sample where each walk takes longer.
STEP = 1 if _scan.is_compiled() else 13

Extent = tuple[int, int, str]  # position, size, what: batch, untrusted, gap


def walk(data: bytes, segment: int, stops: tuple[int, ...] = ()) -> tuple[list[Extent], list[Finding]]:
    """Walk a log, in ranges if wanted, and hold the law."""
    findings: list[Finding] = []
    extents: list[Extent] = []
    walked = CheckedWalk(BytesSource(data, "x"), findings.append, segment=segment, max_batch_bytes=1 << 26)
    for stop in (*stops, None):
        for window in walked.windows(stop):
            for k, (position, size) in enumerate(window.ranges()):
                trusted = window.cell(k, layout.CRC) == window.cell(k, layout.COMPUTED_CRC)
                extents.append((position, size, "batch" if trusted else "untrusted"))
    extents += [(f.position or 0, f.length or 0, "gap") for f in findings if f.gap]
    extents.sort()
    end = 0
    for position, size, _ in extents:
        assert position == end
        assert size > 0
        end += size
    assert end == len(data)
    for finding in findings:
        assert finding.message
        assert finding.remedy
    return extents, findings


@cache
def flips(name: str) -> tuple[bytes, int, tuple[tuple[int, int], ...]]:
    """One of the two small segments: its bytes, base offset, and where its batches are."""
    data = next((FIXTURES / "damage" / "flips" / name).glob("*.log")).read_bytes()
    extents, findings = walk(data, FLIPS[name])
    assert not findings
    return data, FLIPS[name], tuple((position, size) for position, size, _ in extents)


def trusted(extents: list[Extent]) -> list[tuple[int, int]]:
    return [(position, size) for position, size, what in extents if what == "batch"]


@pytest.mark.parametrize("name", FLIPS)
def test_one_flipped_bit_costs_at_most_its_own_batch(name: str) -> None:
    data, segment, batches = flips(name)
    silent = 0
    for bit in range(0, 8 * len(data), STEP):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        extents, findings = walk(bytes(damaged), segment)
        found = trusted(extents)
        hit = next((position, size) for position, size in batches if position <= bit // 8 < position + size)
        assert [batch for batch in batches if batch not in found] in ([], [hit])
        if bit // 8 - hit[0] in OUTSIDE_THE_CRC[name]:
            assert hit in found
        silent += not findings
    assert silent <= SILENT_FLIPS[name]
    assert STEP > 1 or silent == SILENT_FLIPS[name]


@pytest.mark.parametrize("name", FLIPS)
def test_of_a_cut_log_every_whole_batch_is_found_and_the_rest_is_told(name: str) -> None:
    data, segment, batches = flips(name)
    for length in range(0, len(data) + 1, STEP):
        extents, findings = walk(data[:length], segment)
        whole = [(position, size) for position, size in batches if position + size <= length]
        assert trusted(extents) == whole
        assert bool(findings) == (length != sum(whole[-1] if whole else (0, 0)))


@pytest.mark.parametrize("name", FLIPS)
def test_of_a_zeroed_tail_every_whole_batch_is_found(name: str) -> None:
    data, segment, batches = flips(name)
    for start in range(0, len(data), STEP):
        damaged = data[:start] + bytes(len(data) - start)
        extents, findings = walk(damaged, segment)
        same = [(p, size) for p, size in batches if damaged[p : p + size] == data[p : p + size]]
        assert trusted(extents) == same
        assert bool(findings) == (damaged != data)


def damage(data: bytearray, position: int, size: int, how: int, rng: random.Random) -> None:
    """Spoil one batch in one of six ways."""
    if how == 0:
        data[position + rng.randrange(size)] ^= 1 << rng.randrange(8)
    elif how == 1:
        data[position : position + size] = bytes(size)
    elif how == 2:
        data[position : position + size] = rng.randbytes(size)
    elif how == 3:
        data[position + layout.SIZE_AT : position + layout.LOG_OVERHEAD] = rng.randbytes(4)
    elif how == 4:
        data[position : position + layout.LOG_OVERHEAD] = rng.randbytes(layout.LOG_OVERHEAD)
    else:
        at = position + rng.randrange(size)
        end = min(position + size, at + rng.randrange(1, 40))
        data[at:end] = rng.randbytes(end - at)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("name", FLIPS)
def test_of_eight_batches_all_but_the_damaged_are_found(name: str, count: int) -> None:
    data, segment, batches = flips(name)
    rng = random.Random(5)
    for chosen in itertools.combinations(range(8), count):
        for _ in range(12 if STEP == 1 else 1):
            damaged = bytearray(data)
            for k in chosen:
                damage(damaged, *batches[k], rng.randrange(6), rng)
            extents, _ = walk(bytes(damaged), segment)
            found = trusted(extents)
            assert [k for k in range(8) if k not in chosen and batches[k] not in found] == []


@cache
def intact_logs() -> tuple[tuple[str, int, bytes], ...]:
    """A log of every codec and magic."""
    paths = sorted((FIXTURES / "damage" / "intact").glob("*/logdir/*/*.log"))
    return tuple((path.parent.name, int(path.name[:20]), path.read_bytes()) for path in paths)


@settings(max_examples=150 if STEP == 1 else 25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_the_law_holds_for_any_mutation_of_any_log(data: st.DataObject) -> None:
    _, segment, log = data.draw(st.sampled_from(intact_logs()))
    damaged = bytearray(log)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(0, len(damaged) - 1)))
        size = data.draw(st.integers(0, 600))
        piece = data.draw(st.sampled_from(("drop", "zero", "noise", "repeat", "insert")))
        part = bytes(damaged[at : at + size])
        noise = random.Random(size).randbytes(len(part))
        damaged[at : at + size] = {
            "drop": b"", "zero": bytes(len(part)), "noise": noise, "repeat": part * 2, "insert": noise + part,
        }[piece]  # fmt: skip
    walk(bytes(damaged), segment)


@settings(max_examples=60 if STEP == 1 else 10, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_reading_in_ranges_is_reading_whole(data: st.DataObject) -> None:
    _, segment, log = data.draw(st.sampled_from(intact_logs()))
    damaged = bytearray(log)
    damage(damaged, 0, len(damaged), data.draw(st.sampled_from((0, 5))), random.Random(data.draw(st.integers(0, 999))))
    stops = tuple(sorted(data.draw(st.lists(st.integers(0, len(damaged)), max_size=4))))
    assert walk(bytes(damaged), segment, stops) == walk(bytes(damaged), segment)


def test_a_clean_log_has_no_finding_above_a_note() -> None:
    for name, segment, log in intact_logs():
        _, findings = walk(log, segment)
        assert {finding.severity.value for finding in findings} <= {"note"}
        assert not findings or name.startswith(("compacted", "follower"))  # these have holes of offsets
