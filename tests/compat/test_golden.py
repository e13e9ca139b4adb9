"""kdump prints what Kafka's own tool printed: every recorded run of `fixtures/`, byte for byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.golden import Golden, default_layout, golden_cases, run_golden, without_cwd
from tests.support.runs import (
    COMPAT,
    FIXTURES,
    changed,
    copy_tree,
    differs,
    fingerprint,
    hash_ordered_blocks,
    run_kdump,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CORPORA = sorted(path.parent for path in FIXTURES.rglob("golden.jsonl"))
CASES = [case for corpus in CORPORA for case in golden_cases(corpus) if case.mirrored]

# What the default mode shows exactly as Kafka 4.4 does: whatever that shows of undamaged files; and what 4.3 shows
# alike, which is all but the states of transactions.
SHOWN = default_layout(CASES)
UNORDERED = [case for case in CASES if case.unordered]
SCALA = {"3.9.2", "4.2.1"}  # releases whose tool has maps of Scala


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Path, Path]]:
    """Copies of the corpora to run in; at the end nothing may have touched them."""
    trees = {corpus: copy_tree(corpus, tmp_path_factory.mktemp(corpus.name)) for corpus in CORPORA}
    before = {corpus: fingerprint(tree) for corpus, tree in trees.items()}
    yield trees
    for corpus, tree in trees.items():
        assert changed(before[corpus], fingerprint(tree)) is None


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_with_compat_stdout_is_that_of_the_release(case: Golden, copies: dict[Path, Path]) -> None:
    """Under --compat stdout is that of the release, and stderr where it ended well."""
    problem = run_golden(case, copies[case.corpus])
    assert problem is None, problem


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", SHOWN, ids=str)
def test_without_compat_undamaged_files_are_shown_as_4_4_shows_them(case: Golden, copies: dict[Path, Path]) -> None:
    """Without --compat, stdout is that of 4.4 for undamaged files."""
    problem = run_golden(case, copies[case.corpus], compat=False)
    assert problem is None, problem


@pytest.mark.parametrize("case", UNORDERED, ids=str)
def test_blocks_about_several_files_come_in_the_order_of_javas_hash(case: Golden, copies: dict[Path, Path]) -> None:
    """Blocks about several files come in the order of Java's hash of their absolute paths."""
    cwd = copies[case.corpus] / case.cwd
    run = run_kdump(["dump", "--compat", COMPAT[case.tool], *case.args], cwd)
    expected = hash_ordered_blocks(case.stderr, str(cwd), case.files, scala=case.tool in SCALA)
    problem = differs("stderr", expected, without_cwd(run.stderr, cwd))
    assert problem is None, problem


@pytest.mark.parametrize("case", [case for case in UNORDERED if case.ran_in], ids=str)
def test_the_rule_for_the_order_gives_what_kafkas_tool_did(case: Golden) -> None:
    """The rule for the order gives what Kafka's tool did where it ran."""
    assert case.ran_in is not None
    assert hash_ordered_blocks(case.stderr, case.ran_in, case.files, scala=case.tool in SCALA) == case.stderr
