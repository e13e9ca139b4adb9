"""Salvage, patch-header and carve on cases whose truth is known: a small sample of `tests/support/rescue_truth`.

`python -m tests.support.rescue_truth` makes as many runs as one has time for.
"""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.hole_logs import Batch
from tests.support.rescue_truth.__main__ import many
from tests.support.rescue_truth.batches import Legacy, entries, read_log
from tests.support.rescue_truth.cases import case_of
from tests.support.rescue_truth.disks import PARTITION
from tests.support.rescue_truth.known import KNOWN
from tests.support.rescue_truth.runs import salvaged
from tests.support.rescue_truth.truth import Truth
from tests.support.rescue_truth.verdicts import Result, faults
from tests.support.segments import CONTROL, GZIP, NONE, TIME, with_crc

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.rescue_truth.runs import Outcome

SAMPLE = {"salvages": range(0, 3000, 75), "patch-headers": range(0, 800, 40), "carves": range(0, 300, 15)}
"""Numbers that are spread over a full run: a kind that is not known may fail at none of them."""


@cache
def outcomes(sort: str) -> list[Outcome]:
    return many(sort, SAMPLE[sort])


@pytest.mark.parametrize("sort", SAMPLE)
def test_no_kind_fails_that_is_not_known(sort: str) -> None:
    found = [(one.seed, one.told, kind, told) for one in outcomes(sort) for kind, told in one.faults]
    assert [one for one in found if one[2] not in KNOWN] == []


@pytest.mark.parametrize("sort", SAMPLE)
def test_most_runs_end_with_a_result(sort: str) -> None:
    """A refusal breaks few laws: it must stay rare."""
    refused = [one.seed for one in outcomes(sort) if one.end in ("refused", "crash")]
    assert len(refused) * 5 < len(outcomes(sort)), refused


@pytest.mark.parametrize("kind", KNOWN)
def test_a_known_kind_still_fails(kind: str) -> None:
    """One that does not fail any more is to leave the table, so that it never fails again unseen."""
    (outcome,) = many(KNOWN[kind].sort, [KNOWN[kind].seed])
    assert kind in {found for found, _ in outcome.faults}


# --- the laws themselves --------------------------------------------------------------------------------------
def _batches(log: bytes) -> list[bytes]:
    return [log[one.position : one.position + one.size] for one in read_log(log)]


def _without_a_marker(parts: list[bytes]) -> list[bytes]:
    at = next(k for k, one in enumerate(parts) if one[22] & CONTROL)
    return parts[:at] + parts[at + 1 :]


def _with_base(one: bytes, by: int) -> bytes:
    return (int.from_bytes(one[:8], "big") + by).to_bytes(8, "big") + one[8:]


def _with_last_byte(one: bytes) -> bytes:
    return with_crc(one[:-2] + bytes([one[-2] ^ 1]) + one[-1:])


BREACHES: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "invented": lambda parts: [_with_last_byte(parts[0]), *parts[1:]],
    "twice": lambda parts: [*parts, parts[0]],
    "right-offset-changed": lambda parts: [*parts[:-1], _with_base(parts[-1], 7)],
    "right-epoch-changed": lambda parts: [*parts[:-1], parts[-1][:15] + bytes([parts[-1][15] ^ 4]) + parts[-1][16:]],
    "changed-header": lambda parts: [with_crc(parts[0][:50] + b"\x07" + parts[0][51:]), *parts[1:]],
    "untold": lambda parts: parts[:-1],
    "wrong-counts": lambda parts: parts[:-1],
    "wrong-fate": _without_a_marker,
    "broken-result": lambda parts: [*parts[:-1], parts[-1][:-1]],
}


@pytest.fixture(scope="module")
def rescue(tmp_path_factory: pytest.TempPathFactory) -> tuple[Truth, Path]:
    """An undamaged copy of a log with transactions that ended, salvaged: nothing is wrong with it."""
    for seed in range(1000):
        case = case_of(seed)
        sound = len(case.copies) == 1 and not case.copies[0].damages and not case.cluster.style.is_compacted
        if sound and len(case.copies[0].logs) == 1 and "aborted" in Truth(case).fates(Truth(case).line).values():
            root = tmp_path_factory.mktemp("rescue")
            assert salvaged(root, seed).faults == []
            return Truth(case), root
    raise AssertionError("no such case")


@pytest.mark.parametrize("kind", BREACHES)
def test_a_law_sees_what_breaks_it(kind: str, rescue: tuple[Truth, Path], tmp_path: Path) -> None:
    truth, root = rescue
    out = Path(shutil.copytree(root / "out", tmp_path / "out"))
    (log,) = (out / PARTITION).glob("*.log")
    log.write_bytes(b"".join(BREACHES[kind](_batches(log.read_bytes()))))
    try:
        made = Result.read(truth, out, [root / "b0" / PARTITION], says_lost=False)
    except ValueError:
        assert kind == "broken-result"
        return
    assert kind in {found for found, _ in faults(made)}


def test_a_row_of_a_loss_that_is_written_is_seen(rescue: tuple[Truth, Path]) -> None:
    truth, root = rescue
    made = Result.read(truth, root / "out", [root / "b0" / PARTITION], says_lost=True)
    first = made.batches[0].read.base
    row = {"type": "loss", "certainty": "lost", "offset": first, "lastOffset": first, "because": [], "file": None}
    made.rows.insert(0, row)
    assert {"told-and-written", "false-loss"} <= {found for found, _ in faults(made)}


def test_an_epoch_file_that_says_otherwise_is_seen(rescue: tuple[Truth, Path]) -> None:
    truth, root = rescue
    made = Result.read(truth, root / "out", [root / "b0" / PARTITION], says_lost=False)
    made.epochs = [(epoch + 1, start) for epoch, start in made.epochs]
    assert "wrong-epoch-file" in {found for found, _ in faults(made)}


# --- the model itself ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("codec", [NONE, GZIP])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_what_is_written_of_a_batch_is_read_again(magic: int, codec: int) -> None:
    values = (b"a", b"", None) if codec else (b"a",)
    records = tuple((100 + at, b"key", value) for at, value in enumerate(values))
    if magic == 2:
        one = Batch(100, 100 + len(values) - 1, records, (7, 1, 5), True, None, TIME, 3, False, codec)
    else:
        one = Legacy(100, 100 + len(values) - 1, records, time=TIME, codec=codec, magic=magic)
    (read,) = read_log(one.data)
    assert (read.base, read.last, read.magic, read.is_whole) == (100, 100 + len(values) - 1, magic, True)
    assert list(read.entries) == entries(one)


def test_the_line_goes_through_all_leaders_and_each_copy_is_of_one_branch() -> None:
    for seed in range(40):
        truth = Truth(case_of(seed))
        assert truth.branch_of(truth.line) == truth.line
        for number, chain in enumerate(truth.chains):
            here = {one.ident for one in truth.placed if one.copy == number}
            assert here <= chain
        told = truth.epochs(truth.line)
        assert [epoch for epoch, _ in told] == sorted({epoch for epoch, _ in told})


def test_the_same_number_makes_the_same_case() -> None:
    one, other = case_of(11), case_of(11)
    assert [copy.directory for copy in one.copies] == [copy.directory for copy in other.copies]
