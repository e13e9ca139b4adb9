"""Salvage, patch-header and carve on cases whose truth is known: a small sample of `tests/support/rescue_truth`.

`python -m tests.support.rescue_truth` makes as many runs as one has time for.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.support.hole_logs import Batch
from tests.support.rescue_truth.__main__ import many
from tests.support.rescue_truth.batches import Legacy, entries, read_log
from tests.support.rescue_truth.cases import case_of
from tests.support.rescue_truth.known import KNOWN
from tests.support.rescue_truth.truth import Truth
from tests.support.segments import GZIP, NONE, TIME

if TYPE_CHECKING:
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
