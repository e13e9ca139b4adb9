"""A selection is a filter: whatever way it takes through indexes and headers, it gives what reading all gives."""

from __future__ import annotations

import random
import re
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdump.finding import Code
from kdump.format.batch import layout
from kdump.format.record.selection import Selection, literal_of
from tests.support.damage_cases import damage_cases
from tests.support.runs import FIXTURES
from tests.support.selection import Dump, everything, expected, is_trusted, selected

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.damage_cases import Damage

INTACT = sorted(
    {path.parent for folder in ("kafka-4.3.1", "releases") for path in (FIXTURES / folder).rglob("*.log")}
    | {path.parent for path in (FIXTURES / "damage" / "intact").rglob("*.log")}
)
# Damage of the order of offsets, of times and of names: what a broker goes by, and a selection by ranges too.
MISLED = {Code.O01, Code.O02, Code.O03, Code.O06, Code.B07, Code.R06, Code.B10}
CASES = 24


@cache
def full(folder: Path) -> Dump:
    return everything([folder])


def some_selections(dump: Dump, rng: random.Random) -> list[tuple[Selection, bool]]:
    """Selections that cut through what is there."""
    records = [record for batch in dump.batches for record in batch.records]
    offsets = [record.offset for record in records] or [0]
    times = [record.timestamp for record in records] or [0]
    keys = sorted({record.key for record in records if record.key is not None}) or [b""]
    headers = sorted({(name, value or b"") for record in records for name, value in record.headers}) or [(b"h", b"")]
    cells = {column: sorted({batch.cell(column) for batch in dump.batches} or {0}) for column in (9, 14, 0)}

    def near(values: list[int]) -> int:
        return max(0, rng.choice(values) + rng.choice((-1, 0, 0, 1)))

    def key_part() -> re.Pattern[str]:
        key = rng.choice(keys).decode("utf-8", "surrogateescape")
        at = rng.randrange(len(key) + 1)
        return re.compile(rng.choice(("", "^")) + re.escape(key[at : at + 2]) + rng.choice(("", "$", ".")))

    ways: dict[str, Any] = {
        "from_offset": lambda: near(offsets),
        "to_offset": lambda: near(offsets),
        "from_time": lambda: near(times),
        "to_time": lambda: near(times),
        "from_position": lambda: near(cells[layout.POSITION]),
        "producers": lambda: tuple({rng.choice(cells[layout.PRODUCER_ID]), rng.choice(cells[layout.PRODUCER_ID])}),
        "epochs": lambda: (rng.choice(cells[layout.LEADER_EPOCH]),),
        "control": lambda: True,
        "transactional": lambda: True,
        "outcome": lambda: rng.choice(("committed", "aborted")),
        "tombstones": lambda: True,
        "keys": lambda: tuple(rng.sample(keys, min(2, len(keys)))),
        "patterns": lambda: (key_part(),),
        "headers": lambda: (rng.choice([*headers, (rng.choice(headers)[0], None)]),),
        "limit": lambda: rng.choice((1, 2, 10, 10_000)),
        "tail": lambda: rng.choice((1, 2, 10, 10_000)),
    }
    made = []
    for number in range(CASES):
        names = rng.sample(sorted(ways), rng.choice((1, 1, 2, 3)))
        if number < len(ways):
            names = [sorted(ways)[number]]
        fields = {name: ways[name]() for name in names}
        if "limit" in fields:
            fields.pop("tail", None)
        one = Selection(**fields)
        made.append((one, one.by_record or rng.random() < 0.7))
    return made


def check(folder: Path, dump: Dump, one: Selection, *, deep: bool) -> Dump:
    got = selected([folder], one, deep=deep)
    wanted = expected(dump, one, deep=deep)
    if one.from_time is not None and not (one.limit or one.tail):
        # the times of a batch with a wrong CRC say nothing: what lies before the first true one is passed over
        assert [batch[1:] for batch in got.batches if is_trusted(batch)] == [
            batch[1:] for batch in wanted if is_trusted(batch)
        ], one
    else:
        assert [batch[1:] for batch in got.batches] == [batch[1:] for batch in wanted], one
    return got


@pytest.mark.parametrize("folder", INTACT, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_a_selection_is_what_a_filter_leaves_of_everything(folder: Path) -> None:
    dump, rng = full(folder), random.Random(str(folder.relative_to(FIXTURES)))
    for one, deep in some_selections(dump, rng):
        check(folder, dump, one, deep=deep)


@pytest.mark.parametrize("folder", INTACT, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_a_selection_of_an_intact_log_has_no_finding_of_its_own(folder: Path) -> None:
    dump, rng = full(folder), random.Random(str(folder.relative_to(FIXTURES)))
    known = {(finding.code, finding.file, finding.position) for finding in dump.findings}
    for one, deep in some_selections(dump, rng):
        found = selected([folder], one, deep=deep).findings
        new = {(finding.code, finding.file, finding.position) for finding in found} - known
        assert {code for code, *_ in new} <= {Code.P04}, one  # what is open says so when it is asked for


# Damage of what lies in a partition directory: what lies above it is not looked at by a selection.
IN_PARTITIONS = [case for case in damage_cases(FIXTURES / "damage") if "/" in case.file]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("case", IN_PARTITIONS, ids=lambda case: str(case.name))
def test_damage_hides_nothing_from_a_selection(case: Damage, tmp_path: Path) -> None:
    """Ranges go by the order of offsets and by the times of headers: where these are damaged, what is said of them."""
    tree = case.build(tmp_path / "logdir")
    folder = (tree / case.file).parent
    assert any(folder.glob("*.log"))
    dump, rng = everything([folder]), random.Random(case.name)
    misled = any(finding.code in MISLED for finding in dump.findings)
    known = {(finding.code, finding.file, finding.position) for finding in dump.findings}
    for one, deep in some_selections(dump, rng):
        by_range = any(
            value is not None for value in (one.from_offset, one.to_offset, one.from_time, one.to_time, one.tail)
        )
        if not (misled and by_range):
            found = check(folder, dump, one, deep=deep).findings
            new = {(finding.code, finding.file, finding.position) for finding in found} - known
            assert {code for code, *_ in new} <= {Code.X04, Code.X05, Code.T04, Code.P04}, one


# --- the shortcut of regular expressions -----------------------------------------------------------------------
@settings(derandomize=True, max_examples=3000, deadline=None)
@given(st.text("aab1.*+?{}[]^$\\|()-d,:x", max_size=8), st.text("ab1-]x\\.", max_size=6))
def test_a_literal_of_a_pattern_is_in_every_key_where_it_is_found(pattern: str, key: str) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = re.search(pattern, key)
    except re.error:
        return
    if found:
        assert literal_of(pattern) in key.encode()


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [
        ("user-", b"user-"),
        ("^ab.*z$", b"ab"),
        (r"^user-\d+:eu", b"user-"),
        ("a|b", b""),
        (r"\x41bc", b""),
        ("ab?", b"a"),
    ],
)
def test_the_longest_plain_run_is_the_literal(pattern: str, literal: bytes) -> None:
    assert literal_of(pattern) == literal
