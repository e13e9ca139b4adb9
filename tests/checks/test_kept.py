"""What a segment shows is the same once it was kept in a file, and kept is nothing but what kdump writes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from kdump.checks.kept_forms import RESULTS
from kdump.checks.kept_segments import inputs_of
from kdump.checks.options import VerifyOptions
from kdump.checks.run import partitions_of
from kdump.checks.segment import check_segment
from kdump.format.checkpoint.checkpoint_file import EpochEntry
from kdump.item import Progress
from kdump.storage.file_source import OpenFailure
from kdump.storage.json_rules import BadValueError
from kdump.storage.value_forms import FLAG, NUMBER, TEXT, WORD, CannotKeepError, many, maybe, pairs
from kdump.words.command import ShellCommand
from tests.support.damage_cases import damage_cases
from tests.support.fleet import NODE
from tests.support.nights import node
from tests.support.runs import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.damage_cases import Damage


def shown(path: str) -> list[list[Any]]:
    """What each segment below a path shows."""
    found = []
    for check in partitions_of([path]):
        for job in check.jobs:
            results = [one for one in check_segment(job, VerifyOptions()) if not isinstance(one, Progress)]
            found.append([one for one in results if not isinstance(one, OpenFailure)])
    return found


def test_what_the_segments_of_a_node_show_is_the_same_once_it_was_kept() -> None:
    for results in shown(str(NODE)):
        assert RESULTS.read(json.loads(json.dumps(RESULTS.write(results))), "") == results


@pytest.mark.sampled(5)
@pytest.mark.parametrize("case", damage_cases(FIXTURES / "damage"), ids=lambda case: case.name)
def test_what_damaged_segments_show_is_the_same_once_it_was_kept(case: Damage, tmp_path: Path) -> None:
    for results in shown(str(case.build(tmp_path / "logdir"))):
        assert RESULTS.read(json.loads(json.dumps(RESULTS.write(results))), "") == results


@pytest.mark.parametrize("at", range(12))
def test_no_value_that_kdump_does_not_write_is_taken(at: int) -> None:
    results = RESULTS.write(shown(str(NODE))[0])
    summary = results[-1][1]
    bad: Any
    for bad in ({}, "x", [[]], 1 << 64):
        kept, summary[at % len(summary)] = summary[at % len(summary)], bad
        with pytest.raises(BadValueError):
            RESULTS.read(results, "")
        summary[at % len(summary)] = kept


def test_a_command_and_a_number_without_bounds_are_not_kept() -> None:
    for form, value in ((WORD, ShellCommand("kdump", "x")), (NUMBER, 1 << 63), (TEXT, "\ud800"), (NUMBER, True)):
        with pytest.raises(CannotKeepError):
            form.write(value)
    assert pairs(NUMBER, many(maybe(FLAG))).read([[3, [True, None]]], "") == {3: (True, None)}


def test_a_segment_hangs_on_no_more_than_its_own_offsets(tmp_path: Path) -> None:
    check = next(partitions_of([str(node(tmp_path, "a"))]))
    first, second, *_, last = check.jobs
    entry = first.epochs[0]
    later = EpochEntry(4, 18)
    for job, is_same in ((first, True), (second, True), (last, False)):
        assert (inputs_of(job.replace(epochs=(entry, later))) == inputs_of(job)) is is_same
        assert (inputs_of(job.replace(is_clean=not job.is_clean)) == inputs_of(job)) is is_same
    assert inputs_of(second.replace(start_offset=5)) == inputs_of(second)
    assert inputs_of(second.replace(start_offset=7)) != inputs_of(second)
    assert inputs_of(second.replace(next_base=11)) != inputs_of(second)
