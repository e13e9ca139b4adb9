"""kdump --compat prints what Kafka's own tool printed for damaged files: every case of `fixtures/damage`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.damage_cases import Damage, damage_cases, run_dump
from tests.support.runs import COMPAT, FIXTURES, changed, fingerprint, run_kdump, unfair_exit

if TYPE_CHECKING:
    from pathlib import Path

CASES = [case for case in damage_cases(FIXTURES / "damage") if case.dumps()]
HEAPS = [case for case in CASES if not all(dump.mirrored for dump in case.dumps())]


@pytest.mark.parametrize("tool", ["4.3.1", "3.9.2"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_with_compat_stdout_is_that_of_the_release_its_stops_included(case: Damage, tool: str, tmp_path: Path) -> None:
    """Under --compat stdout is that of the release, its stops included, and stderr where it ended well."""
    tree = case.build(tmp_path / "logdir")
    before = fingerprint(tree)
    dumps = [dump for dump in case.dumps() if dump.tool == tool and dump.mirrored]
    problems = [f"{dump}: {problem}" for dump in dumps if (problem := run_dump(dump, tree))]
    assert not problems, "\n".join(problems)
    assert changed(before, fingerprint(tree)) is None


@pytest.mark.parametrize("case", HEAPS, ids=lambda case: case.name)
def test_where_java_ran_out_of_memory(case: Damage, tmp_path: Path) -> None:
    """Where Kafka's tool died of its heap, kdump ends well."""
    tree = case.build(tmp_path / "logdir")
    for dump in case.dumps():
        run = run_kdump(["dump", "--compat", COMPAT[dump.tool], *dump.args], tree)
        assert unfair_exit(run) is None
