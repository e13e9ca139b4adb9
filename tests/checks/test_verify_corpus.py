"""verify is right about real directories: silent where nothing is wrong, and it tells every damage that can be seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.damage_cases import Damage, damage_cases
from tests.support.runs import FIXTURES, changed, fingerprint
from tests.support.scan_windows import check_words
from tests.support.verify_runs import NOT_AS_NAMED, below, codes, findings_of, loud

if TYPE_CHECKING:
    from pathlib import Path

    from kdump.finding import Finding

LOG_DIRS = {
    path
    for pattern in (
        "damage/intact/*/logdir",
        "kafka-4.3.1/clean/*",
        "kafka-4.3.1/live/*",
        "kafka-4.4.0/clean/*",
        "releases/*/*",
    )
    for path in FIXTURES.glob(pattern)
    if path.is_dir()
}
CASES = {case.name: case for case in damage_cases(FIXTURES / "damage")}
CONTROLS = [case for case in CASES.values() if case.codes == ("-",)]
DAMAGED = [case for case in CASES.values() if case.codes != ("-",)]
# A dropped batch is a hole of offsets, and one at the end too.
SAME = {"L10": "O04", "L11": "O07"}
# Where the finding is not about the file that the case names, but about the one that carries the fact.
FIRST, MID, PAYMENTS = (f"{part}/{base:020}" for part, base in (("plain-0", 0), ("plain-0", 119), ("payments-0", 114)))
ELSEWHERE = {
    "f08-deleted-leftover": f"{FIRST}.log.deleted",
    "f08-cleaned-leftover": f"{FIRST}.log.cleaned",
    "f08-swap-log-only": f"{FIRST}.log.swap",
    "f08-swap-covers-two": f"{FIRST}.log.swap",
    "f08-swap-and-cleaned": f"{FIRST}.log.swap",
    "f08-nonnumeric-cleaned": "plain-0/kdump.cleaned",
    "f09-index-missing-first": f"{FIRST}.index",  # the case shows what Kafka says of the other index
    "f09-index-missing-mid": f"{MID}.index",
    "f09-timeindex-missing-mid": f"{MID}.timeindex",
    "f09-all-indexes-missing": f"{MID}.index",
    "f11-dir-without-number": "lost+found",
    "s05-all-missing": "payments-0/00000000000000000285.snapshot",  # the one that a clean stop leaves
    "p03-abort-becomes-commit": f"{PAYMENTS}.txnindex",  # both are right by themselves
    "p03-commit-becomes-abort": f"{PAYMENTS}.txnindex",
    "k04-epochs-wrong-offset": "epochs-0/00000000000000000118.log",  # the file is right by itself
}


def of(path: Path) -> str:
    return str(path.relative_to(FIXTURES))


# --- nothing is wrong ---------------------------------------------------------------------------------------
def test_every_log_of_a_broker_is_looked_at() -> None:
    for corpus in ("damage/intact", "kafka-4.3.1", "kafka-4.4.0", "releases"):
        for log in (FIXTURES / corpus).rglob("*.log"):
            assert not LOG_DIRS.isdisjoint(log.parents), log


@pytest.mark.parametrize("log_dir", sorted(LOG_DIRS), ids=of)
def test_nothing_intact_has_an_error_or_a_warning(log_dir: Path) -> None:
    """Leaders, followers, compacted and transactional logs, of all releases, stopped and at work."""
    before = fingerprint(log_dir)
    found = findings_of(log_dir)
    assert loud(found) == []
    for one in found:
        check_words(one)
    assert changed(before, fingerprint(log_dir)) is None


@pytest.mark.parametrize("case", CONTROLS, ids=lambda case: case.name)
def test_what_is_harmless_has_no_error_and_no_warning(case: Damage, tmp_path: Path) -> None:
    assert loud(findings_of(case.build(tmp_path / "logdir"))) == []


# --- damage -------------------------------------------------------------------------------------------------
def judged(case: Damage, tmp_path: Path) -> list[Finding]:
    """What is found in the damaged directory, with files as the case names them."""
    tree = case.build(tmp_path / "logdir")
    before = fingerprint(tree)
    found = below(tree, findings_of(tree))
    assert changed(before, fingerprint(tree)) is None
    for one in found:
        check_words(one)
    return found


@pytest.mark.parametrize(
    "case", [case for case in DAMAGED if case.name not in NOT_AS_NAMED], ids=lambda case: case.name
)
def test_each_damage_is_told_in_the_file_that_has_it(case: Damage, tmp_path: Path) -> None:
    found = judged(case, tmp_path)
    file = ELSEWHERE.get(case.name, case.file)
    assert {SAME.get(code, code) for code in case.codes} & codes([one for one in found if one.file == file]), found


@pytest.mark.parametrize("name", NOT_AS_NAMED)
def test_what_is_told_otherwise_or_not_at_all(name: str, tmp_path: Path) -> None:
    """The exceptions: the manual has the same list, with the same reasons (`tests/cli/test_manual.py`)."""
    case = CASES[name]
    told, _ = NOT_AS_NAMED[name]
    found = codes(judged(case, tmp_path)) - codes(findings_of(FIXTURES / "damage" / "intact" / case.base / "logdir"))
    assert found == set(told.split())
    assert found.isdisjoint(SAME.get(code, code) for code in case.codes), "it is told as it should be"


def test_the_tables_name_cases() -> None:
    assert set(ELSEWHERE) | set(NOT_AS_NAMED) <= {case.name for case in DAMAGED}
    assert set(ELSEWHERE).isdisjoint(NOT_AS_NAMED)
    assert all(CASES[name].file != file for name, file in ELSEWHERE.items())
