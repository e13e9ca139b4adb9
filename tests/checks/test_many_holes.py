"""Missing offsets: all verbs say the same of a hole, however many there are, and in however many logs one lies."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import kdump
from kdump.broker.missing import columns as missing_columns
from kdump.broker.missing import damage, index_proofs, losses
from kdump.broker.missing.columns import MissingColumns
from kdump.broker.missing.judge import HoleJudge, Surroundings
from kdump.broker.missing.lost_holes import lost_holes
from kdump.broker.missing.ranges import MissingRange, Proof
from kdump.format.read_limits import ReadLimits
from kdump.ranges import RangeSet
from kdump.storage.log_dir import LogDir
from kdump.storage.partition_dir import PartitionDir
from kdump.storage.paths import above
from tests.support.coordinator_records import at, commit
from tests.support.holes import case_of
from tests.support.partitions import Files, below, checkpoint, meta, name, offset_index, segment, write
from tests.support.segments import Record, batch
from tests.support.whole_lines import run_kdump

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from tests.support.runs import Run

SAMPLE = [range(at, at + 10) for at in (0, 10, 30, 60)]
LIMITS = ReadLimits(1 << 27, 1 << 27)
Row = tuple[int, int, str, tuple[str, ...]]


def _one(offset: int) -> bytes:
    return batch(offset, [b"v" * 20])


SIZE = len(_one(0))


def _log(base: int, offsets: Iterable[int]) -> Files:
    return segment(base, [_one(offset) for offset in offsets])


def _index(base: int, offsets: Iterable[int], *, wholly: Sequence[int]) -> Files:
    """An index with entries for some offsets of a log that once had all of `wholly`."""
    entries = [(offset, list(wholly).index(offset) * SIZE) for offset in offsets]
    return {name(base, "index"): offset_index(base, *entries)}


def _partition(root: Path, *files: Files, topic: str = "orders", **beside: bytes) -> Path:
    inside: Files = {}
    for some in files:
        inside |= some
    log_dir = {"meta.properties": meta(1), **{one.replace("_", "-"): data for one, data in beside.items()}}
    write(root, below(f"data/{topic}-0", inside) | below("data", log_dir))
    return root / "data" / f"{topic}-0"


def _said(path: Path) -> list[Row]:
    """What verify says of the holes under a path."""
    found = [one for one in kdump.verify([str(path)]).losses if one.because[:1] in (("O04",), ("O07",))]
    return sorted((one.offset, one.last_offset, one.certainty.value, one.because) for one in found)


def _findings(path: Path, *codes: str) -> list[tuple[str, str, int | None, int | None, str]]:
    found = (one for one in kdump.verify([str(path)]).findings if one.code.name in codes)
    return sorted((one.code.name, one.severity.value, one.offset, one.last_offset, one.message) for one in found)


def _rows(run: Run) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run.stdout.splitlines()]


# --- many holes -----------------------------------------------------------------------------------------------
def _few_at_a_time(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    for module, limit, value in (
        (damage, "_MOST", 2),
        (losses, "_TOGETHER", 2),
        (missing_columns, "_FEWEST_DROPPED", 1),
        (index_proofs, "_MOST_HOLES", most),
    ):
        monkeypatch.setattr(module, limit, value)


EVERY_OTHER = range(0, 120, 2)


@pytest.mark.parametrize("most", [2, 3, 7, 1000])
def test_a_hole_in_which_the_index_has_an_entry_is_lost_however_many_holes_there_are(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [one for one in EVERY_OTHER if one not in (20, 22, 24)]
    index = _index(0, (18, 22, 26, *EVERY_OTHER[20:]), wholly=EVERY_OTHER)
    path = _partition(
        tmp_path, _log(0, left), index, _log(120, [120]), cleaner_offset_checkpoint=checkpoint(("orders", 0, 120))
    )
    _few_at_a_time(monkeypatch, most)
    assert _said(path) == [(19, 25, "lost", ("O04",))]
    assert [one[:4] for one in _findings(path, "O04") if one[1] == "error"] == [("O04", "error", 19, 25)]


@pytest.mark.parametrize("most", [2, 3, 7, 1000])
def test_bytes_that_are_missing_in_one_of_many_holes_are_of_all_of_them(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [one for one in EVERY_OTHER if one != 20]
    path = _partition(tmp_path, _log(0, left), _index(0, (10, 40), wholly=EVERY_OTHER), _log(120, [120]))
    _few_at_a_time(monkeypatch, most)
    among = [row for row in _said(path) if "X04" in row[3]]
    assert (among[0][:2], among[-1][:2], len(among)) == ((11, 11), (39, 39), 14)


@pytest.mark.parametrize("seeds", SAMPLE, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_how_many_holes_are_held_at_a_time_changes_nothing(
    seeds: range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = ("O04", "O07", "L17", "L19", "A07", "F14")
    made = {seed: case_of(seed) for seed in seeds}
    roots = {seed: write(tmp_path / str(seed), case.files) for seed, case in made.items()}
    cases = [roots[seed] / path for seed, case in made.items() for path in case.truths]
    whole = [(_said(path), _findings(path, *codes)) for path in cases]
    _few_at_a_time(monkeypatch, 2)
    assert [(_said(path), _findings(path, *codes)) for path in cases] == whole


def test_a_trace_above_very_many_holes_explains_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the trace nothing has ever compacted the topic, and each hole is lost."""
    short = batch(120, [Record(delta=0)], last_delta=3)
    path = _partition(tmp_path, _log(0, EVERY_OTHER), segment(120, [short]), topic="__share_group_state")
    _few_at_a_time(monkeypatch, 2)
    assert _said(path) == []
    assert {one[1] for one in _findings(path, "O04", "O07")} == {"note"}


def test_each_of_many_holes_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _partition(tmp_path, _log(0, EVERY_OTHER), topic="__share_group_state")
    _few_at_a_time(monkeypatch, 2)
    told = _findings(path, "O04")
    assert [(one[1], one[2]) for one in told] == [("error", offset) for offset in range(1, 118, 2)]


def test_columns_of_holes_are_those_that_were_put_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing_columns, "_FEWEST_DROPPED", 3)
    columns, held = MissingColumns(), list[MissingRange]()
    for number in range(60):
        last, code = 5 * number + (4 if number % 3 else 2), "ab"[number % 2]
        one = MissingRange(5 * number, last, (code,), f"log{number // 7}", number)
        columns.add(one)
        held.append(one)
        if number % 2:
            assert columns.pop() == held.pop(0)
        assert list(columns) == held
        assert [run.begin.first for run in columns.runs()] == [
            one.first for k, one in enumerate(held) if not k or held[k - 1].last + 1 != one.first
        ]
        assert sum(run.parts for run in columns.runs()) == len(columns) == len(held)
        assert all(columns.has(one.last) for one in held)
        middle = held[len(held) // 2]
        assert list(columns.over(middle.first, middle.first)) == [middle]
        first, last = columns.run_around(middle.first) or (0, 0)
        assert first <= middle.first <= middle.last <= last
    assert columns.run_around(10_000) is None


# --- one hole in several logs ---------------------------------------------------------------------------------
OVER_TWO = _log(0, range(10)) | _log(50, range(60, 70))


def test_a_hole_over_two_logs_is_one_and_has_one_name(tmp_path: Path) -> None:
    [found] = _findings(_partition(tmp_path, OVER_TWO), "L19")
    assert found[2:4] == (10, 59)
    assert found[4].startswith("offsets 10..59 are not here, and nothing else shows")


def test_two_holes_over_two_logs_each_are_two(tmp_path: Path) -> None:
    [found] = _findings(_partition(tmp_path, OVER_TWO, _log(90, range(100, 105))), "L17")
    assert found[2:4] == (10, 59)
    assert "nor are those of 1 more hole:" in found[4]


def test_dump_and_find_tell_of_a_hole_over_two_logs_as_of_one(tmp_path: Path) -> None:
    _partition(tmp_path, OVER_TWO)
    run = run_kdump(["dump", "data/orders-0", "--key", "zzz"], tmp_path)
    assert run.stderr.count(b"not searched") == 1
    assert b"offsets 10..59 (L19 hole-alone)" in run.stderr
    run = run_kdump(["find-offset", "data/orders-0", "55"], tmp_path)
    assert b"offsets 10..59 are not here" in run.stderr


def test_a_hole_of_which_an_index_knows_a_part_counts_by_the_rest() -> None:
    judge = HoleJudge(Surroundings("t", 0, 100, None, RangeSet()))
    for first, last, proof in ((10, 19, Proof.SHOWN), (20, 29, None), (30, 39, Proof.SHOWN), (40, 49, None)):
        judge.count(MissingRange(first, last, proof=proof))
    assert judge.holes == 1
    judge.count(MissingRange(60, 69))
    assert judge.holes == 2


@pytest.mark.parametrize("verb", ["dump", "find-offset"])
def test_a_hole_that_an_index_proves_lost_is_no_trace_of_a_cleaner(verb: str, tmp_path: Path) -> None:
    """Beside it the other one is alone, as for verify."""
    left = [one for one in range(40) if one not in (10, 11, 12)]
    index = _index(0, (5, 11, 20), wholly=range(40))
    path = _partition(tmp_path, _log(0, left), index, _log(40, [*range(40, 50), *range(60, 70)]))
    assert [(one[0], one[2], one[3]) for one in _findings(path, "L19")] == [("L19", 50, 59)]
    question = {"dump": ["--key", "zzz"], "find-offset": ["55"]}[verb]
    run = run_kdump([verb, "data/orders-0", *question], tmp_path)
    assert b"50..59" in run.stderr
    assert b"L19" in run.stderr


# --- one file, and the whole ----------------------------------------------------------------------------------
@pytest.mark.parametrize("seeds", SAMPLE, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_verify_says_of_the_holes_of_one_log_what_it_says_of_the_partition(seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        case = case_of(seed)
        root = write(tmp_path / str(seed), case.files)
        for path in (root / one for one in case.truths):
            alone = sorted(row for log in sorted(path.glob("*.log")) for row in _said(log))
            assert alone == _said(path), (seed, case.kinds)


def test_verify_of_one_log_knows_where_that_ends(tmp_path: Path) -> None:
    """An entry of the cleaner below that end counts."""
    left = [one for one in range(40) if one not in (10, 11, 12)]
    path = _partition(tmp_path, _log(0, left), cleaner_offset_checkpoint=checkpoint(("orders", 0, 30)))
    assert _said(path / name(0)) == _said(path) == []


@pytest.mark.parametrize("seeds", SAMPLE, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_who_asks_about_a_hole_is_told_what_verify_says(seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        case = case_of(seed)
        root = write(tmp_path / str(seed), case.files)
        for path in (root / one for one in case.truths):
            for first, _, certainty, because in _said(path):
                holes = lost_holes(PartitionDir(str(path), LogDir(above(str(path)))), LIMITS)
                is_told = certainty == "lost" or not {"L19", "X04"}.isdisjoint(because)
                assert (holes.at(first) is not None) == is_told, (seed, case.kinds, first)


# --- bytes that are missing in one of several holes -------------------------------------------------------------
LEFT = [one for one in range(40) if one not in (10, 11, 12, 20, 21)]
AMONG = _log(0, LEFT) | _index(0, (5, 30, 35), wholly=range(40)) | _log(40, range(40, 50))
NAMED = f"offsets 10..12 are missing before this batch, or 20..21: {5 * SIZE} bytes are lost in these holes"


def test_salvage_tells_of_bytes_missing_in_one_of_several_holes_as_verify_does(tmp_path: Path) -> None:
    path = _partition(tmp_path, AMONG)
    [told] = [one for one in _findings(path, "O04") if one[1] == "error"]
    run = run_kdump(["salvage", "data", "--to", "out", "--format", "json"], tmp_path)
    assert run.exit == 3
    [finding] = [row for row in _rows(run) if row["type"] == "finding"]
    assert tuple(finding[key] for key in ("code", "severity", "offset", "lastOffset", "message")) == told
    summary = _rows(run)[-1]
    assert (summary["errors"], summary["recordsUnknown"], summary["offsetsLost"]) == (1, 1, 0)
    for _ in ("new", "kept"):
        run = run_kdump(["salvage", "data", "--to", "out"], tmp_path)
        assert run.exit == 3
        assert NAMED.encode() in run.stdout
        assert b"no copy of it is damaged" not in run.stdout
        assert b"nothing is lost" not in run.stdout
        assert b"with losses: 1 partition: orders-0" in run.stdout
        assert b"; lost: the records of 1 range, how many is unknown; unexplained: 5 offsets\n" in run.stdout


def test_salvage_names_the_holes_that_no_other_copy_fills(tmp_path: Path) -> None:
    _partition(tmp_path / "a", AMONG)
    _partition(tmp_path / "b", _log(0, [one for one in range(40) if one not in (20, 21)]), _log(40, range(40, 50)))
    run = run_kdump(["salvage", "a/data", "b/data", "--to", "out", "--format", "json"], tmp_path)
    assert run.exit == 3
    [finding] = [row for row in _rows(run) if row["type"] == "finding"]
    assert (finding["offset"], finding["lastOffset"]) == (20, 21)


def test_a_hole_of_several_logs_is_lost_for_salvage_where_an_index_knows_it(tmp_path: Path) -> None:
    files = OVER_TWO | _index(50, (55, 65), wholly=range(50, 70)) | _log(70, [70])
    path = _partition(tmp_path, files)
    assert [row[:3] for row in _said(path)] == [(10, 49, "unexplained"), (50, 59, "lost")]
    run = run_kdump(["salvage", "data", "--to", "out", "--format", "json"], tmp_path)
    rows = [row for row in _rows(run) if row["type"] == "loss"]
    assert [(row["offset"], row["lastOffset"], row["certainty"]) for row in rows] == [
        (10, 49, "unexplained"), (50, 59, "lost"),
    ]  # fmt: skip


@pytest.mark.parametrize("offset", [11, 20])
def test_find_tells_of_each_of_several_holes_that_bytes_may_be_missing_there(offset: int, tmp_path: Path) -> None:
    _partition(tmp_path, AMONG)
    run = run_kdump(["find-offset", "data/orders-0", str(offset)], tmp_path)
    assert run.exit == 3
    assert NAMED.encode() in run.stderr


def test_dump_has_not_searched_any_of_several_holes(tmp_path: Path) -> None:
    _partition(tmp_path, AMONG)
    run = run_kdump(["dump", "data/orders-0", "--key", "zzz"], tmp_path)
    assert run.exit == 3
    told = [line.rpartition(b"offsets ")[2] for line in run.stderr.splitlines() if b"not searched" in line]
    assert told == [b"10..12 (O04 offset-gap)", b"20..21 (O04 offset-gap)"]


def test_groups_tell_of_bytes_missing_in_one_of_several_holes(tmp_path: Path) -> None:
    whole = [at(k, 1_700_000_000_000, commit(f"g{k:03}", 0, k)) for k in range(40)]
    places = [sum(map(len, whole[:k])) for k in range(40)]
    log = {name(0): b"".join(whole[k] for k in LEFT)}
    index = {name(0, "index"): offset_index(0, *((k, places[k]) for k in (5, 30, 35)))}
    entry = checkpoint(("__consumer_offsets", 0, 40))
    _partition(tmp_path, log, index, _log(40, [40]), topic="__consumer_offsets", cleaner_offset_checkpoint=entry)
    run = run_kdump(["groups", "data"], tmp_path)
    assert run.exit in (3, 6)
    assert b"or 20..21" in run.stderr
    assert b"newer values may have been there" in run.stderr
