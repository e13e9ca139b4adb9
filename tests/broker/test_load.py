"""What a broker does with a partition when it starts, against what Kafka 4.3.1 did with the same directories.

`fixtures/damage/starts.json` has three starts of LogManager for each damaged directory: offsets, segments and all files
that were left.
"""

from __future__ import annotations

import hashlib
import json
import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.broker.config import Config
from kdump.broker.index_interval import infer_interval
from kdump.broker.leader_epoch_file_cache import EpochCache
from kdump.broker.load.facts import Action, Outcome, PartitionFacts, Start, Stops
from kdump.broker.load.log_loader import Recoveries, load
from kdump.broker.load.log_manager import LoadSettings, LogManager
from kdump.broker.load.recover import recover
from kdump.broker.producer.producer_state_manager import in_java_order
from kdump.broker.producer.replay import Producers
from kdump.format.checkpoint.checkpoint_file import EpochEntry
from kdump.format.checkpoint.producer_snapshot import ProducerStateEntry
from kdump.format.source import BytesSource
from kdump.rows.verdict import Prediction
from kdump.storage.log_dir import LogDir
from kdump.storage.partition_dir import PartitionDir
from tests.support.damage_cases import Damage, damage_cases
from tests.support.partitions import aborted, checkpoint, name, segment, snapshot
from tests.support.runs import FIXTURES
from tests.support.segments import Record, batch
from tests.support.verify_runs import items_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kdump.broker.load.disk import Disk
    from kdump.format.source import Source

DAMAGE = FIXTURES / "damage"
STARTS: dict[str, dict[str, Any]] = json.loads((DAMAGE / "starts.json").read_text("utf-8"))
CASES = damage_cases(DAMAGE)
NOW = 1_700_000_000_000
# What a broker has marked for deletion has indexes of their full size as long as they are open.
UNTRIMMED = ".index.deleted", ".timeindex.deleted"


def settings(case: Damage, **more: Any) -> LoadSettings:
    recorded = STARTS[case.name]
    given = {"index.interval.bytes": str(recorded["interval"])}
    if recorded["indexBytes"]:
        given["segment.index.bytes"] = str(recorded["indexBytes"])
    return LoadSettings(recorded["now"], Config(given, release="4.3"), **more)


def expected(case: Damage, start: Start) -> dict[str, Any]:
    recorded: dict[str, Any] | str = STARTS[case.name][start.value]
    same: dict[str, Any] = STARTS[case.name]["clean"]
    return same if isinstance(recorded, str) else recorded


def facts_in(case: Damage, tree: Path) -> PartitionFacts:
    log_dir = LogDir(str(tree))
    directory = PartitionDir(str(tree / STARTS[case.name]["partition"]), log_dir)
    return LogManager(log_dir).partition(directory, settings(case))[0]


LOADED = [
    pytest.param(case, start, id=f"{case.name}-{start.value}")
    for case in CASES
    for start in Start
    if expected(case, start)["loads"]
]


def content(disk: Disk, file: str) -> bytes:
    source = disk.get(file)
    assert source is not None
    return source.read_at(0, source.size)


# --- what Kafka did -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_prediction_is_what_the_broker_did(case: Damage, tmp_path: Path) -> None:
    tree = case.build(tmp_path / "logs")
    items = items_of(tree, starts=tuple(Start), settings=settings(case), deep=False)
    rows = [item for item in items if isinstance(item, Prediction)]
    named = [row for row in rows if row.partition == STARTS[case.name]["partition"]]
    assert [row.start for row in named] == ["clean", "unclean", "full"]
    for row in named:
        broker = expected(case, Start(row.start))
        assert row.loads == broker["loads"]
        if row.loads:
            assert (row.log_start_offset, row.log_end_offset) == (broker["start"], broker["end"])
            left = [[one.base_offset, one.size] for one in row.segments if one.action != "delete"]
            assert left == broker["segments"]
            assert (row.stops, row.reason, row.reason_class) == (None, None, None)
        else:
            assert row.stops == broker["stops"]
            assert row.reason_class == (broker["class"] or "java.io.IOException")
            assert (row.log_start_offset, row.log_end_offset, row.segments) == (None, None, ())
            assert row.reason


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("case", "start"), LOADED)
def test_files_are_what_the_broker_left(case: Damage, start: Start, tmp_path: Path) -> None:
    broker = expected(case, start)
    tree = case.build(tmp_path / "logs")
    disk = load(facts_in(case, tree), start, wants_contents=True).disk
    left = {file for file in disk.names() if not file.endswith(UNTRIMMED)}
    gone = {file for file, state in broker["files"].items() if state is None}
    changed = {file: state for file, state in broker["files"].items() if state is not None}
    wanted = {*(set(disk.before) - gone), *changed}
    assert left == {file for file in wanted if not file.endswith(UNTRIMMED)}
    for file in left:
        if file in changed:
            data = content(disk, file)
            assert f"{len(data)} {hashlib.sha256(data).hexdigest()[:16]}" == changed[file], file
        else:
            assert not disk.is_changed(file), file
            assert disk.size(file) == disk.before[file].size, file


# --- properties ---------------------------------------------------------------------------------------------
def left_behind(outcome: Outcome) -> dict[str, Source]:
    """The partition as it is on the disk after a load, or a cut: what is marked for deletion is gone by then."""
    names = (file for file in outcome.disk.names() if not file.endswith(".deleted"))
    return {file: BytesSource(content(outcome.disk, file), file) for file in names}


def again(facts: PartitionFacts, outcome: Outcome, start: Start) -> Outcome:
    end, begin = outcome.log_end_offset, outcome.log_start_offset
    assert end is not None
    assert begin is not None
    first = next(one.base_offset for one in outcome.segments if one.action is not Action.DELETE)
    log_start = begin if begin > first else 0  # else the broker writes none
    facts = facts.replace(files=left_behind(outcome), recovery_point=end, log_start=log_start)
    return load(facts, start, wants_contents=True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("case", "start"), LOADED)
def test_second_start_changes_nothing_more(case: Damage, start: Start, tmp_path: Path) -> None:
    tree = case.build(tmp_path / "logs")
    facts = facts_in(case, tree)
    first = load(facts, start, wants_contents=True)
    second = again(facts, first, Start.CLEAN)
    assert [(one.action, one.bytes_lost) for one in second.segments] == [(Action.KEEP, 0)] * len(second.segments)
    assert (second.log_start_offset, second.log_end_offset) == (first.log_start_offset, first.log_end_offset)
    changed = [file for file in second.disk.names() if second.disk.is_changed(file)]
    if not any(file.endswith(".snapshot") for file in first.disk.names()):  # then a clean start takes one
        changed = [file for file in changed if not file.endswith(".snapshot")]
    assert changed == []


def files_of(count: int = 3, interval: int = 300) -> dict[str, bytes]:
    """A partition of small segments with producers, epochs and all files beside them."""
    files: dict[str, bytes] = {}
    base = 0
    for number in range(count):
        parts = []
        for k in range(6):
            records = [Record(b"k", bytes(40 + 7 * k)) for _ in range(3)]
            parts.append(
                batch(
                    base + 3 * k, records, base_timestamp=NOW + 1000 * (base + k), epoch=number, producer=(7, 0, 3 * k)
                )
            )
        files |= segment(base, parts, interval=interval)
        base += 18
    files["leader-epoch-checkpoint"] = checkpoint(*((n, 18 * n) for n in range(count)))
    return files


def facts_of(files: Mapping[str, bytes], **more: Any) -> PartitionFacts:
    sources = {file: BytesSource(data, f"logs/t-0/{file}") for file, data in files.items()}
    given = {"interval": 300, "now": NOW, **more}
    return PartitionFacts("logs/t-0", "t", 0, "", sources, **given)


@given(seed=st.integers(0, 2**32), start=st.sampled_from(Start))
def test_no_bytes_end_in_an_error_of_ours(seed: int, start: Start) -> None:
    """Any damage gives an outcome: the broker loads the partition, or what it throws is named."""
    dice = random.Random(seed)
    files = files_of()
    for _ in range(dice.randint(1, 6)):
        file = dice.choice(sorted(files))
        data = bytearray(files[file])
        match dice.randrange(4):
            case 0 if data:
                data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
            case 1:
                del data[dice.randrange(len(data) + 1) :]
            case 2:
                at = dice.randrange(len(data) + 1)
                data[at:at] = dice.randbytes(dice.randint(1, 40))
            case _:
                files.pop(file)
                continue
        files[file] = bytes(data)
    if not files:
        return
    outcome = load(
        facts_of(files, log_start=dice.choice((0, 0, 5, 500)), recovery_point=dice.choice((0, 20, 54))), start
    )
    if outcome.loads:
        assert outcome.log_end_offset is not None
        assert outcome.log_start_offset is not None
        assert not outcome.exception
        assert all(one.size <= max(one.size_before, one.size) for one in outcome.segments)
    else:
        assert outcome.java_class.startswith(("java.", "org.apache.kafka."))
    assert 0 <= outcome.bytes_lost <= sum(len(data) for file, data in files.items() if file.endswith(".log"))


@pytest.mark.parametrize("start", Start)
def test_contents_that_nobody_wants_change_no_answer(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    files = files_of(8, interval=0)
    del files[name(36, "index")]
    whole = load(facts_of(files, interval=0), start, wants_contents=True)
    monkeypatch.setattr("kdump.broker.load.disk.KEPT_BYTES", 0)
    monkeypatch.setattr("kdump.broker.load.disk._THIN_ENTRIES", 2)
    thin = load(facts_of(files, interval=0), start)
    assert not thin.disk.is_whole
    assert thin.segments == whole.segments
    assert (thin.log_start_offset, thin.log_end_offset) == (whole.log_start_offset, whole.log_end_offset)
    assert [thin.disk.size(file) for file in thin.disk.names()] == [
        whole.disk.size(file) for file in whole.disk.names()
    ]


def test_start_that_was_recovered_before_reads_no_segment_again(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0

    def counted(*given: Any, **more: Any) -> Any:
        nonlocal count
        count += 1
        return recover(*given, **more)

    monkeypatch.setattr("kdump.broker.load.log_loader.recover", counted)
    facts, recoveries = facts_of(files_of(), recovery_point=54), Recoveries()
    outcomes = [load(facts, start, recoveries=recoveries) for start in (Start.FULL, Start.UNCLEAN)]
    assert count == 3
    assert outcomes[0].log_end_offset == outcomes[1].log_end_offset == 54


# --- one rule each ------------------------------------------------------------------------------------------
def test_log_start_beyond_the_end_deletes_everything_and_begins_there() -> None:
    outcome = load(facts_of(files_of(), log_start=1000), Start.CLEAN)
    assert (outcome.log_start_offset, outcome.log_end_offset) == (1000, 1000)
    assert [(one.base_offset, one.action) for one in outcome.segments] == [
        *((base, Action.DELETE) for base in (0, 18, 36)),
        (1000, Action.CREATE),
    ]
    assert outcome.records_lost == 54


def test_clean_start_reads_only_the_last_segment() -> None:
    files = files_of()
    for base in (0, 18):
        files[name(base)] = b"\xff" * len(files[name(base)])
    outcome = load(facts_of(files), Start.CLEAN)
    assert outcome.log_end_offset == 54
    assert {one.action for one in outcome.segments} == {Action.KEEP}


def test_segment_that_loses_bytes_takes_all_later_ones_with_it() -> None:
    files = files_of()
    data = bytearray(files[name(18)])
    data[-1] ^= 1
    files[name(18)] = bytes(data)
    outcome = load(facts_of(files), Start.FULL)
    assert [(one.base_offset, one.action) for one in outcome.segments] == [
        (0, Action.KEEP),
        (18, Action.TRUNCATE),
        (36, Action.DELETE),
    ]
    assert outcome.log_end_offset == 33
    assert outcome.records_lost == 18  # the batch with the wrong CRC has none that count
    assert "00000000000000000036.log.deleted" in outcome.disk.names()


def test_segment_without_index_is_recovered_even_after_a_clean_shutdown() -> None:
    files = files_of()
    lost = files.pop(name(18, "index"))
    outcome = load(facts_of(files), Start.CLEAN, wants_contents=True)
    assert [one.action for one in outcome.segments] == [Action.KEEP, Action.REBUILD_INDEX, Action.KEEP]
    assert content(outcome.disk, name(18, "index")) == lost


def test_transactions_below_the_base_offset_have_the_segment_recovered() -> None:
    files = files_of()
    files[name(18, "txnindex")] = aborted(9, 1, 2, 3)
    outcome = load(facts_of(files), Start.CLEAN, wants_contents=True)
    assert [one.action for one in outcome.segments] == [Action.KEEP, Action.REBUILD_INDEX, Action.KEEP]
    assert content(outcome.disk, name(18, "txnindex")) == b""


def test_swap_files_take_the_place_of_what_they_cover() -> None:
    files = files_of()
    files |= {f"{file}.swap": data for file, data in segment(0, [files[name(0)], files[name(18)]]).items()}
    outcome = load(facts_of(files), Start.CLEAN)
    assert [(one.base_offset, one.action) for one in outcome.segments] == [
        (0, Action.REPLACE),
        (18, Action.DELETE),
        (36, Action.KEEP),
    ]
    assert outcome.bytes_lost == 0
    assert outcome.log_end_offset == 54


def test_unfinished_compaction_is_thrown_away() -> None:
    files = files_of()
    files |= {f"{name(0)}.cleaned": b"x", f"{name(18)}.swap": b"x", f"{name(36)}.deleted": b"x"}
    outcome = load(facts_of(files), Start.CLEAN)
    assert {one.action for one in outcome.segments} == {Action.KEEP}
    assert not [file for file in outcome.disk.names() if file.endswith((".cleaned", ".swap", ".deleted"))]


def test_offsets_too_far_above_the_base_split_the_segment() -> None:
    far = 2**31 + 5
    parts = [batch(0, [Record()]), batch(1, [Record()]), batch(far, [Record()])]
    files = segment(0, parts[:2])
    files[name(0)] = b"".join(parts)
    outcome = load(facts_of(files), Start.FULL)
    assert [(one.base_offset, one.action, one.size) for one in outcome.segments] == [
        (0, Action.SPLIT, len(parts[0] + parts[1])),
        (far, Action.CREATE, len(parts[2])),
    ]
    assert (outcome.log_end_offset, outcome.bytes_lost) == (far + 1, 0)


def test_snapshots_of_no_segment_go_but_for_the_last_beyond_all() -> None:
    files = files_of()
    for offset in (5, 18, 30, 54, 90):
        files[f"{offset:020}.snapshot"] = snapshot()
    outcome = load(facts_of(files), Start.CLEAN)
    kept = [int(file[:20]) for file in outcome.disk.names() if file.endswith(".snapshot")]
    assert kept == [18, 36, 54]  # 90 is beyond the end; 36 is taken on the way


def test_without_snapshots_a_clean_start_takes_it_that_there_were_no_producers() -> None:
    outcome = load(facts_of(files_of()), Start.CLEAN, wants_contents=True)
    taken = {int(file[:20]): content(outcome.disk, file) for file in outcome.disk.names() if file.endswith(".snapshot")}
    assert taken == dict.fromkeys((18, 36, 54), snapshot())


def test_producers_expire_by_the_clock() -> None:
    files = files_of()
    del files[name(36, "index")]
    files[f"{36:020}.snapshot"] = snapshot(
        (9, 0, 5, 30, 0, NOW - 86_400_000, 0, -1), (8, 0, 5, 30, 0, NOW - 86_399_999, 0, -1)
    )
    outcome = load(facts_of(files, recovery_point=36), Start.UNCLEAN, wants_contents=True)
    data = content(outcome.disk, f"{54:020}.snapshot")
    ids = [int.from_bytes(data[at : at + 8], "big") for at in range(10, len(data), 46)]
    assert ids == [7, 8]


def test_names_without_a_number_end_the_broker() -> None:
    for file in ("x.log", "x.snapshot", "x.cleaned", "x.swap", "x.index"):
        outcome = load(facts_of(files_of() | {file: b""}), Start.CLEAN)
        assert outcome.stops is Stops.BROKER, file
        assert outcome.java_class == "java.lang.NumberFormatException"


def test_delete_directory_is_loaded_without_recovery() -> None:
    files = files_of()
    files[name(36)] = b"\0" * 100
    assert load(facts_of(files, state="delete"), Start.FULL).loads


def test_log_over_two_gib_is_not_opened() -> None:
    facts = facts_of(files_of())
    large = BytesSource(b"", "huge")
    large.size = 2**31
    outcome = load(facts.replace(files={**facts.files, name(18): large}), Start.CLEAN)
    assert outcome.stops is Stops.BROKER
    assert outcome.exception.endswith("is larger than the maximum allowed segment size of 2147483647")


# --- pieces -------------------------------------------------------------------------------------------------
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 40)), max_size=8))
def test_epochs_always_ascend_in_both_numbers(pairs: list[tuple[int, int]]) -> None:
    cache = EpochCache(EpochEntry(*pair) for pair in pairs)
    kept = cache.entries
    assert all(one.epoch < other.epoch and one.start_offset < other.start_offset for one, other in pairwise(kept))
    if pairs:
        assert kept[-1].epoch == pairs[-1][0]
    cache.truncate_from_end(20)
    assert all(one.start_offset < 20 for one in cache.entries)
    cache.truncate_from_start(10)
    assert all(one.start_offset >= 10 for one in cache.entries)


def test_epoch_that_falls_takes_the_ones_that_it_contradicts() -> None:
    cache = EpochCache([EpochEntry(2, 0), EpochEntry(5, 40), EpochEntry(6, 279)])
    cache.assign(EpochEntry(900, 179))  # the true entry of epoch 6 is lost
    assert cache.file() == b"0\n3\n2 0\n5 40\n900 179\n"


def test_entry_below_zero_ends_the_broker() -> None:
    outcome = load(facts_of(files_of() | {"leader-epoch-checkpoint": b"0\n1\n-1 0\n"}), Start.CLEAN)
    assert outcome.exception.startswith("java.lang.IllegalArgumentException: Received invalid partition leader epoch")


@given(
    sizes=st.lists(st.integers(1, 900), min_size=30, max_size=120),
    interval=st.sampled_from((0, 100, 128, 300, 512, 1000, 4096)),
)
def test_inferred_interval_makes_the_same_index(sizes: Sequence[int], interval: int) -> None:
    data = b"".join(batch(n, [Record(None, bytes(size))]) for n, size in enumerate(sizes))

    def built(by: int) -> bytes:
        return recover(BytesSource(data, name(0)), 0, by, Producers.empty()).index()

    files = {name(0): BytesSource(data, name(0)), name(0, "index"): BytesSource(built(interval), name(0, "index"))}
    inferred = infer_interval(files)
    if inferred is not None:
        assert built(inferred)[: 32 * 8] == built(interval)[: 32 * 8]
    else:
        assert built(interval) == b""


def test_snapshot_has_producers_in_the_order_of_a_hash_map() -> None:
    # Java: new HashMap, keys put in this order, then iterated
    keys = (4003, 17, 1, 33, 2**40 + 5, 16)
    entries = {key: ProducerStateEntry(key, 0, 0, 0, 0, 0, 0, -1) for key in keys}
    assert [entry.producer_id for entry in in_java_order(entries)] == [16, 17, 1, 33, 4003, 2**40 + 5]
