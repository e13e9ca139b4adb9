"""verify as a whole: paths of all kinds, any number of processes, directories in use, whatever the bytes are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kdump
from kdump.finding import Code, Finding, Severity
from kdump.format.index.offset_and_time import OffsetIndex
from kdump.format.source import BytesSource
from kdump.item import Checked, PartitionChecked, Progress
from kdump.storage.file_source import OpenFailure
from tests.support.damage_cases import apply_edit, damage_cases
from tests.support.make_fixtures import ABORTED, EPOCH_0, EPOCHS, INTACT, LOG, RIGHT, SIZE, A, B, C, topic_id
from tests.support.partitions import (
    aborted,
    below,
    checkpoint,
    meta,
    name,
    offset_index,
    overwrite,
    segment,
    snapshot,
    time_index,
    write,
)
from tests.support.runs import FIXTURES, changed, copy_tree, fingerprint
from tests.support.scan_windows import COMPILED, walked, windows_of
from tests.support.segments import LOG_APPEND_TIME, TIME, Record, batch
from tests.support.verify_runs import codes, findings_of, held, items_of, loud, meanwhile

BASES = FIXTURES / "damage" / "intact"
CASES = {case.name: case for case in damage_cases(FIXTURES / "damage")}
ZERO, INDEX, TXNINDEX = LOG, name(0, "index"), name(0, "txnindex")


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory of four partitions, with something wrong in each and in itself; nobody changes it."""
    tree = tmp_path_factory.mktemp("verify") / "data"
    wrong = ["l04-hole-mid", "x-unsound-mid", "c02-lz4-stream-short", "a04-entry-missing", "e01-epoch-falls"]
    for case in map(CASES.__getitem__, wrong):
        if not (tree / case.file).exists():
            copy_tree(BASES / case.base / "logdir", tree)
        for edit in case.edits:
            apply_edit(tree, edit)
    write(tree, {"lost+found/inode": b"lost\n", "recovery-point-offset-checkpoint": checkpoint(("plain", 0, 999))})
    return tree


# --- processes and order ------------------------------------------------------------------------------------
@pytest.mark.parametrize("jobs", [2, 3, 50])
def test_the_number_of_processes_changes_nothing(damaged: Path, jobs: int) -> None:
    once = items_of(damaged)
    assert {"L04", "X05", "C02", "A04", "E01", "F11", "K01"} <= codes([one for one in once if isinstance(one, Finding)])
    assert items_of(damaged, jobs=jobs) == once


PRINTED = """
import sys
from kdump.checks.options import VerifyOptions
from kdump.checks.run import verify
for item in verify(sys.argv[2:], VerifyOptions(jobs=int(sys.argv[1]))):
    print(item)
"""


def test_the_order_hangs_on_no_hash(damaged: Path) -> None:
    """Names are in sets and dicts: a hash seed must not show, nor the order in which a directory is listed."""
    outputs = set()
    for seed, jobs in (("1", "1"), ("2", "2")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", PRINTED, jobs, str(damaged)]
        outputs.add(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)
    assert outputs == {"".join(f"{item}\n" for item in items_of(damaged)).encode()}


def test_the_order_is_that_of_topics_partitions_and_offsets(tmp_path: Path) -> None:
    names = ["b-10", "b-2", "a-1", "c-0"]
    for one in names:
        write(tmp_path / one, {**INTACT, **segment(6, [])})
    places = [one.path for one in items_of(tmp_path) if isinstance(one, PartitionChecked)]
    assert places == [str(tmp_path / one) for one in ("a-1", "b-2", "b-10", "c-0")]


def test_paths_are_judged_in_the_order_in_which_they_were_given(tmp_path: Path) -> None:
    for one in ("a-0", "b-0"):
        write(tmp_path / one, INTACT)
    places = [one.path for one in items_of(tmp_path / "b-0", tmp_path / "a-0") if isinstance(one, PartitionChecked)]
    assert places == [str(tmp_path / "b-0"), str(tmp_path / "a-0")]


@pytest.mark.parametrize("jobs", [1, 2])
def test_progress_ends_at_the_size_of_all_logs(damaged: Path, jobs: int) -> None:
    told = [one for one in items_of(damaged, progress=True, jobs=jobs) if isinstance(one, Progress)]
    sizes = sum(path.stat().st_size for path in damaged.rglob("*.log"))
    assert {one.total for one in told} == {sizes}
    assert [one.done for one in told] == sorted(one.done for one in told)
    assert told[-1].done == sizes


def test_each_file_is_counted_once(damaged: Path) -> None:
    groups = [one for one in items_of(damaged) if isinstance(one, Checked)]
    files = [file.path for group in groups for file in group.files]
    assert len(files) == len(set(files))
    looked_at = {str(path) for path in damaged.rglob("*") if path.is_file()}
    assert looked_at - set(files) == {str(damaged / "lost+found" / "inode")}


# --- one partition of many, one file of many ----------------------------------------------------------------
def test_a_partition_alone_is_judged_as_in_its_log_directory(damaged: Path) -> None:
    whole = findings_of(damaged)
    for partition in (path for path in damaged.iterdir() if path.name.endswith("-0")):

        def is_own(one: Finding, partition: Path = partition) -> bool:
            return Path(one.file).parent == partition or one.values.get("partition") == partition.name

        found = [one.replace(file=os.path.normpath(one.file)) for one in findings_of(partition)]
        assert found == list(filter(is_own, whole))


def test_a_file_alone_is_judged_with_what_lies_beside_it(damaged: Path) -> None:
    """But what is wrong with the others is not told."""
    for kind, code in (("log", Code.L04), ("index", Code.X05)):
        path = damaged / "plain-0" / name(119, kind)
        found = findings_of(path)
        assert code in {one.code for one in found}
        assert {one.file for one in found} == {str(path)}
        assert found == [one for one in findings_of(damaged) if one.file == str(path)]


def loose(*roots: str) -> list[Path]:
    """All files that a broker loads, of some partitions."""
    live = {".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint"}
    return [
        path
        for root in roots
        for path in sorted((FIXTURES / root).rglob("*"))
        if path.is_file()
        and (path.suffix in live or path.name.endswith("checkpoint") or path.name == "meta.properties")
    ]


@pytest.mark.parametrize("root", ["damage/intact/*/logdir", "kafka-4.3.1/clean", "kafka-4.3.1/live", "releases/2.8.2"])
def test_no_intact_file_alone_has_an_error_or_a_warning(root: str) -> None:
    places = [str(path.relative_to(FIXTURES)) for path in FIXTURES.glob(root)]
    assert loud([one for path in loose(*places) for one in findings_of(path)]) == []


ONE = offset_index(0, (3, SIZE))
ALONE: list[tuple[str, bytes, set[str]]] = [
    (ZERO, A + B + C, set()),
    (ZERO, A + C, {"L19", "O04"}),
    (INDEX, ONE, set()),
    (INDEX, ONE + b"\0\0\0", {"X01"}),
    (INDEX, ONE + offset_index(0, (2, 90)), {"X03"}),
    (name(0, "timeindex"), segment(0, [A])[name(0, "timeindex")] * 2, {"T03"}),
    (TXNINDEX, RIGHT, set()),
    (TXNINDEX, RIGHT[:20], {"A01"}),
    (TXNINDEX, aborted(7, 3, 2, 3), {"A03"}),
    (name(6, "snapshot"), snapshot((7, 0, 1, 1, 1, TIME, -1, -1)), set()),
    (name(6, "snapshot"), snapshot()[:-1], {"S01"}),
    ("leader-epoch-checkpoint", EPOCH_0, set()),
    ("leader-epoch-checkpoint", b"zero\n", {"K04"}),
    ("recovery-point-offset-checkpoint", checkpoint(("plain", 0, 6), count=2), {"K03"}),
    ("partition.metadata", b"version: 1\n", {"K05"}),
    (f"{ZERO}.deleted", A + B + C, set()),
    (f"{name(6)}.bak", A, {"O01"}),
    (f"{6:020}-0000000001.checkpoint", A + B + C, set()),
]


@pytest.mark.parametrize(("path", "data", "expected"), ALONE, ids=lambda value: value if isinstance(value, str) else "")
def test_a_file_without_any_other(path: str, data: bytes, expected: set[str], tmp_path: Path) -> None:
    """What needs another file is not judged, and where that is nearly all, it is said."""
    (tmp_path / path).write_bytes(data)
    items = items_of(tmp_path / path)
    found = [one for one in items if isinstance(one, Finding)]
    is_index = path.endswith((".index", ".timeindex"))
    assert codes(found) == expected | ({"F08"} if is_index else set())
    files = [file for one in items if isinstance(one, Checked) for file in one.files]
    assert [(file.path, file.size) for file in files] == [(str(tmp_path / path), len(data))]


# --- doors --------------------------------------------------------------------------------------------------
def door(path: Path | str) -> str:
    """Why nothing was judged."""
    (one,) = items_of(path)
    assert isinstance(one, OpenFailure)
    assert str(path) in one.sentence
    return one.kind


def test_what_is_not_there(tmp_path: Path) -> None:
    assert door(tmp_path / ZERO) == "missing"
    assert door(tmp_path / "*.log") == "missing"
    assert door("") == "missing"
    assert door("a\0b") == "missing"


def test_what_is_no_file_of_a_broker(tmp_path: Path) -> None:
    write(tmp_path, {"kdump-quarantine.log": A, "notes.txt": b"text\n", "photos/one.jpg": b"\xff\xd8"})
    os.mkfifo(tmp_path / name(0))
    (tmp_path / "empty").mkdir()
    assert door(tmp_path / "kdump-quarantine.log") == "base"
    assert door(tmp_path / "notes.txt") == "type"
    assert door(tmp_path / "photos") == "missing"
    assert door(tmp_path / "empty") == "missing"
    assert door(tmp_path / name(0)) == "special"


def test_an_empty_partition_directory_is_one(tmp_path: Path) -> None:
    (tmp_path / "topic-0").mkdir()
    (one,) = [item for item in items_of(tmp_path / "topic-0") if isinstance(item, PartitionChecked)]
    assert (one.segments, one.start_offset, one.end_offset) == (0, None, None)


def test_a_pattern_stands_for_what_it_matches(tmp_path: Path) -> None:
    write(tmp_path, {name(0): A, name(2): B, "a[0]-0/x": b""})
    write(tmp_path / "a[0]-0", INTACT)
    read = [one.files[0].path for one in items_of(tmp_path / "*.log") if isinstance(one, Checked)]
    assert read == [str(tmp_path / name(0)), str(tmp_path / name(2))]
    assert not findings_of(tmp_path / "a[0]-0"), "what is there by that name is no pattern"


def test_a_link_of_the_user_is_followed(tmp_path: Path) -> None:
    write(tmp_path / "topic-0", INTACT)
    (tmp_path / name(0)).symlink_to(tmp_path / "topic-0" / LOG)
    (tmp_path / "link-0").symlink_to(tmp_path / "topic-0")
    for path in (tmp_path / name(0), tmp_path / "link-0"):
        assert not findings_of(path)
        assert any(isinstance(one, Checked) and one.files for one in items_of(path))


def test_what_a_broker_would_follow_or_pass_over_is_told(tmp_path: Path) -> None:
    write(tmp_path / "data" / "topic-0", INTACT)
    os.mkfifo(tmp_path / "data" / "topic-0" / "queue")
    (tmp_path / "data" / "other-0").symlink_to(tmp_path / "data" / "topic-0")
    items = items_of(tmp_path / "data")
    found = [one for one in items if isinstance(one, Finding)]
    assert [(one.code, os.path.basename(one.file)) for one in found] == [(Code.F04, "queue"), (Code.F04, "other-0")]
    (unread,) = [one for one in items if isinstance(one, OpenFailure)]
    assert (unread.kind, unread.path) == ("symlink", str(tmp_path / "data" / "other-0"))


# --- directories in use -------------------------------------------------------------------------------------
TORN = {**INTACT, LOG: INTACT[LOG][:-10]}


def test_a_torn_end_is_unfinished_while_the_lock_is_held(tmp_path: Path) -> None:
    write(tmp_path / "topic-0", TORN)
    with held(tmp_path):
        for path in (tmp_path, tmp_path / "topic-0", tmp_path / "topic-0" / LOG):
            (one,) = [one for one in findings_of(path) if one.code is not Code.X08]
            assert (one.code, one.severity, one.gap) == (Code.V03, Severity.NOTE, True)
            assert (one.position, one.length) == (2 * SIZE, SIZE - 10)


def test_a_torn_end_is_an_error_where_nobody_writes(tmp_path: Path) -> None:
    write(tmp_path / "topic-0", TORN)
    (tmp_path / ".lock").touch()
    assert codes(findings_of(tmp_path)) == {"L02"}
    assert len(loud(findings_of(tmp_path))) == 1


def test_a_torn_segment_before_the_last_is_an_error_always(tmp_path: Path) -> None:
    write(tmp_path / "topic-0", {**TORN, **segment(6, [batch(6)])})
    with held(tmp_path):
        assert "L02" in codes(findings_of(tmp_path))
        assert "V03" not in codes(findings_of(tmp_path))


UNTRIMMED = {**INTACT, INDEX: bytes(4096), name(0, "timeindex"): bytes(4092)}


def test_preallocated_indexes_are_fair_where_a_broker_did_not_close_them(tmp_path: Path) -> None:
    write(tmp_path / "topic-0", UNTRIMMED)
    assert {(one.code, one.severity) for one in findings_of(tmp_path)} == {
        (Code.X02, Severity.NOTE),
        (Code.T02, Severity.NOTE),
    }
    assert {one.remedy.partition(":")[0] for one in findings_of(tmp_path)} == {"none"}
    (tmp_path / ".kafka_cleanshutdown").touch()
    assert len(loud(findings_of(tmp_path))) == 2
    assert {one.remedy for one in findings_of(tmp_path)} == {"rebuild the index"}


def test_indexes_may_lack_where_a_broker_did_not_close_them(tmp_path: Path) -> None:
    write(tmp_path / "topic-0", {LOG: INTACT[LOG], EPOCHS: EPOCH_0})
    assert {(one.code, one.severity) for one in findings_of(tmp_path)} == {(Code.F09, Severity.NOTE)}
    (tmp_path / ".kafka_cleanshutdown").touch()
    assert {(one.code, one.severity) for one in findings_of(tmp_path)} == {(Code.F09, Severity.WARNING)}


LIVE = {
    **below(
        "topic-0",
        {
            **segment(0, [*ABORTED, batch(3, (b"a", b"b", b"c"))]),
            TXNINDEX: RIGHT,
            name(6, "snapshot"): snapshot((7, 0, 1, 1, 1, TIME, 0, -1)),
            **segment(6, [batch(6)]),
            EPOCHS: EPOCH_0,
            "partition.metadata": b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n",
        },
    ),
    "recovery-point-offset-checkpoint": checkpoint(("topic", 0, 7)),
    "log-start-offset-checkpoint": checkpoint(("topic", 0, 0)),
    "replication-offset-checkpoint": checkpoint(("topic", 0, 7)),
    "meta.properties": meta(1),
    ".kafka_cleanshutdown": b"",
}


def test_the_directory_of_these_tests_is_sound(tmp_path: Path) -> None:
    assert findings_of(write(tmp_path / "data", LIVE)) == []


@pytest.mark.parametrize("path", [one for one in LIVE if one != ".kafka_cleanshutdown"])
def test_a_file_that_vanishes_is_told_and_the_others_are_judged(path: str, tmp_path: Path) -> None:
    """Between listing and opening: retention and compaction at work."""
    tree = write(tmp_path / "data", LIVE)
    with meanwhile(tree / path, os.unlink):
        items = items_of(tree)
    found = [one for one in items if isinstance(one, Finding)]
    assert (Code.V02, str(tree / path)) in [(one.code, one.file) for one in found]
    assert not [one for one in items if isinstance(one, OpenFailure)]
    assert len(loud(found)) == 1
    files = {file.path for one in items if isinstance(one, Checked) for file in one.files}
    is_log = path.endswith(".log")  # its indexes are not judged without it
    gone = {one for one in LIVE if one == path or (is_log and one.startswith(path[:-3]) and one.endswith("index"))}
    assert files | {str(tree / one) for one in gone if one != path} == {str(tree / one) for one in LIVE if one != path}


READ_ONCE = [one for one, data in LIVE.items() if data and not one.endswith("-checkpoint")]


@pytest.mark.parametrize("path", READ_ONCE)
def test_a_file_that_shrinks_is_told_and_the_others_are_judged(path: str, tmp_path: Path) -> None:
    tree = write(tmp_path / "data", LIVE)
    times = 2 if path.endswith(".log") else 1  # the first time only the first header of a log is read, for its name
    with meanwhile(tree / path, lambda one: os.truncate(one, len(LIVE[path]) - 1), after=True, from_time=times):
        items = items_of(tree)
    found = [one for one in items if isinstance(one, Finding)]
    assert (Code.V01, str(tree / path)) in [(one.code, one.file) for one in found]
    assert {one.file for one in found if one.severity is not Severity.NOTE} == {str(tree / path)}
    assert not [one for one in items if isinstance(one, OpenFailure)]


def test_what_is_appended_meanwhile_is_no_damage(tmp_path: Path) -> None:
    """The log is as long as it was when it was opened; its indexes are read later."""
    end = len(INTACT[LOG])
    later = {
        INDEX: offset_index(0, (3, SIZE), (9, end)),
        name(0, "timeindex"): time_index(0, (TIME, 1), (TIME + 1, 9)),
    }
    write(tmp_path / "topic-0", {**INTACT, **later})
    with held(tmp_path):
        assert not loud(findings_of(tmp_path))
    assert codes(findings_of(tmp_path)) == {"F14", "X07", "O07", "T04"}


# --- options ------------------------------------------------------------------------------------------------
HOLES = ["l04-hole-mid", "l04-head-zeroed", "l09-garbage-300", "l09-garbage-at-start", "l05-length-minus1"]


@pytest.mark.parametrize("case", HOLES)
def test_without_a_search_the_rest_of_a_log_is_one_gap(case: str, tmp_path: Path) -> None:
    log = CASES[case].build(tmp_path / "logdir") / CASES[case].file
    searched, not_searched = (findings_of(log, resync=way) for way in (True, False))
    (gap,) = [one for one in not_searched if one.gap]
    assert gap.position is not None
    assert gap.length is not None
    assert gap.position + gap.length == log.stat().st_size
    assert min(one.position or 0 for one in searched) == gap.position
    assert [one for one in not_searched if one.position not in (gap.position, log.stat().st_size)] == []


def batches(path: Path, **options: Any) -> tuple[int, int]:
    """How many batches and records were read."""
    told = [(one.batches, one.records) for one in items_of(path, **options) if isinstance(one, Checked)]
    return sum(one for one, _ in told), sum(one for _, one in told)


def test_after_damage_every_intact_batch_is_read(tmp_path: Path) -> None:
    write(tmp_path / "topic-0", {**INTACT, LOG: A + bytes(200) + B + C})
    assert batches(tmp_path) == (3, 6)
    assert batches(tmp_path, resync=False) == (1, 2)
    assert batches(tmp_path, deep=False) == (3, 0)


@pytest.mark.parametrize("base", ["compacted", "follower"])
def test_missing_offsets_are_warnings_where_none_may_be_missing(base: str) -> None:
    usual, strict = (findings_of(BASES / base / "logdir", contiguous=one) for one in (False, True))
    holes = [one for one in usual if one.code in (Code.O04, Code.O07)]
    assert holes
    assert {one.severity for one in holes} == {Severity.NOTE}
    raised = [one.replace(severity_override=Severity.WARNING) if one in holes else one for one in usual]
    assert strict == raised


def test_shallow_reads_no_records(tmp_path: Path) -> None:
    for case, code in (
        ("r02-length-negative", "R02"),
        ("c02-lz4-stream-short", "C02"),
        ("b10-maxts-far-future", "B10"),
    ):
        tree = CASES[case].build(tmp_path / case)
        assert code in codes(findings_of(tree))
        assert code not in codes(findings_of(tree, deep=False))


def test_append_time_may_be_the_time_of_a_record(tmp_path: Path) -> None:
    """A broker on the host of its producer appends in the millisecond of the newest record."""
    records = [Record(b"v", timestamp=delta) for delta in (0, 3, 7)]
    cases = ((0, 7, False), (0, 3, True), (LOG_APPEND_TIME, 7, False), (LOG_APPEND_TIME, 9, False))
    for flags, latest, found in cases:
        root = tmp_path / f"{flags}-{latest}"
        log = [batch(3 * one, records, flags=flags, max_timestamp=TIME + latest) for one in range(3)]
        write(root / "t-0", {f"{0:020}.log": b"".join(log)})
        assert ("B10" in codes(findings_of(root))) == found


def test_append_time_between_batches_without_it_is_told(tmp_path: Path) -> None:
    records = [Record(b"v", timestamp=delta) for delta in (0, 3, 7)]
    log = [
        batch(3 * one, records, flags=LOG_APPEND_TIME if one == 1 else 0, max_timestamp=TIME + 7) for one in range(3)
    ]
    write(tmp_path / "t-0", {f"{0:020}.log": b"".join(log)})
    assert [(one.code.name, one.offset) for one in findings_of(tmp_path) if one.code.name == "B10"] == [("B10", 3)]


@pytest.mark.parametrize("case", ["p03-control-key-short", "p03-control-value-short", "b01-payload-lz4", "b05-codec-5"])
def test_shallow_finds_all_that_needs_no_records(case: str, tmp_path: Path) -> None:
    tree = CASES[case].build(tmp_path / "logdir")
    assert sorted(map(repr, findings_of(tree, deep=False))) == sorted(map(repr, findings_of(tree)))


def test_nothing_is_written(damaged: Path) -> None:
    before = fingerprint(damaged)
    for options in ({}, {"jobs": 2}, {"deep": False, "resync": False, "contiguous": True}):
        items_of(damaged, *sorted(damaged.rglob("*")), **options)
    assert changed(before, fingerprint(damaged)) is None


# --- two log directories ------------------------------------------------------------------------------------
ONE_ID, OTHER_ID = (b"directory.id=AAAAAAAAAAAAAAAAAAAAA%s\n" % end for end in (b"Q", b"g"))


def two(folder: Path, first: bytes, second: bytes, partition: str = "topic-0") -> list[Finding]:
    """What is found in two log directories with one partition each."""
    write(folder / "a", {**below("topic-0", {**INTACT, **topic_id("C")}), "meta.properties": first})
    write(folder / "b", {**below(partition, {**INTACT, **topic_id("C")}), "meta.properties": second})
    return findings_of(folder / "a", folder / "b")


def test_a_broker_has_each_partition_once(tmp_path: Path) -> None:
    (one,) = two(tmp_path, meta(1) + ONE_ID, meta(1) + OTHER_ID)
    assert (one.code, one.file, one.values["other"]) == (
        Code.F12,
        str(tmp_path / "b" / "topic-0"),
        str(tmp_path / "a" / "topic-0"),
    )


@pytest.mark.parametrize(
    ("first", "second", "partition"),
    [
        (meta(1), meta(2), "topic-0"),
        (meta(1), meta(1), "topic-1"),
        (meta(1), meta(1), "topic-0.0123456789abcdef0123456789abcdef-future"),
        (
            meta(1) + ONE_ID,
            meta(1) + ONE_ID,
            "topic-0",
        ),
    ],
    ids=["nodes", "partitions", "moving", "copies"],
)
def test_what_is_not_there_twice(first: bytes, second: bytes, partition: str, tmp_path: Path) -> None:
    assert [one for one in two(tmp_path, first, second, partition) if one.code is not Code.K11] == []


def test_log_directories_of_two_clusters_are_told(tmp_path: Path) -> None:
    (found,) = two(tmp_path, meta(1, "one-cluster"), meta(1, "another"), "topic-0")
    assert (found.code, found.expected, found.found) == (Code.K10, "one-cluster", "another")


def test_a_directory_given_twice_is_not_there_twice(tmp_path: Path) -> None:
    write(tmp_path / "a", {**below("topic-0", {**INTACT, **topic_id("C")}), "meta.properties": meta(1)})
    assert findings_of(tmp_path / "a", f"{tmp_path}/a/", tmp_path / "a" / "topic-0") == []


# --- whatever the bytes are ---------------------------------------------------------------------------------
class Edit(NamedTuple):
    """One thing that is done to a file; places are taken modulo what is there."""

    path: str
    kind: str
    at: int
    length: int
    data: bytes


edits = st.builds(
    Edit,
    st.sampled_from(sorted(LIVE)),
    st.sampled_from(["flip", "set", "cut", "insert", "zero", "end"]),
    st.integers(0, 400),
    st.sampled_from([1, 2, 4, 8, 12, 34, 61, 100]),
    st.binary(min_size=1, max_size=12),
)


def edited(data: bytes, edit: Edit) -> bytes:
    """The bytes after an edit."""
    at = edit.at % (len(data) + 1)
    rest, new = data[at + edit.length :], edit.data
    match edit.kind:
        case "flip":
            return data[:at] + bytes(byte ^ 1 << new[0] % 8 for byte in data[at : at + 1]) + data[at + 1 :]
        case "set":
            return data[:at] + new + data[at + len(new) :]
        case "cut":
            return data[:at] + rest
        case "insert":
            return data[:at] + new + data[at:]
        case "zero":
            return data[:at] + bytes(edit.length) + rest
    return data[:at]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("live") / "data", LIVE)


@settings(max_examples=400 if COMPILED else 40)
@given(st.lists(edits, min_size=1, max_size=4))
def test_no_bytes_raise_and_each_gap_is_told_once(live: Path, changes: list[Edit]) -> None:
    files = dict(LIVE)
    for change in changes:
        files[change.path] = edited(files[change.path], change)
    for path in {change.path for change in changes}:
        overwrite(live / path, files[path])
    try:
        with windows_of():
            found = findings_of(live)
    finally:
        for path in {change.path for change in changes}:
            overwrite(live / path, LIVE[path])
    for one in found:
        assert one.message
        assert one.remedy
        if one.position is not None:
            assert one.length is not None
            size = len(files.get(os.path.relpath(one.file, live), b""))
            assert 0 <= one.position <= one.position + one.length <= size
    for base in (0, 6):
        path = f"topic-0/{name(base)}"
        index = OffsetIndex(BytesSource(files[f"topic-0/{name(base, 'index')}"], "index"), base)
        gaps = [
            extent.place
            for extent in walked(files[path], base, hints=index.ascending_positions()).extents
            if extent.kind == "gap"
        ]
        assert sorted((one.position, one.length) for one in found if one.gap and one.file == str(live / path)) == gaps


@pytest.mark.parametrize(
    ("watermark", "what", "remedy"),
    [
        (6, "the recovery point 99 is above", "what was cut off here was not committed"),
        (99, "the recovery point 99 and the high watermark 99 are above", "offsets 6..98 were committed; "),
        (7, "the recovery point 99 and the high watermark 7 are above", "offset 6 was committed; "),
    ],
)
def test_what_was_cut_off_below_the_high_watermark_was_committed(
    watermark: int, what: str, remedy: str, tmp_path: Path
) -> None:
    copy_tree(FIXTURES / "checkpoint-k08-end-cut", tmp_path)
    write(
        tmp_path,
        {
            "recovery-point-offset-checkpoint": checkpoint(("plain", 0, 99)),
            "replication-offset-checkpoint": checkpoint(("plain", 0, watermark)),
        },
    )
    (found,) = (one for one in findings_of(tmp_path) if one.code is Code.K08)
    assert found.message.startswith(what)
    assert found.remedy.startswith(f"compare with the leader of that epoch: {remedy}")


def test_a_checkpoint_that_cannot_be_read_names_no_other_directory_as_its_source() -> None:
    (found,) = (one for one in findings_of(FIXTURES / "checkpoint-k03-malformed") if one.code is Code.K03)
    assert "that of another log directory does not fit" in found.remedy
    assert "kdump explain K03 has the price of the others" in found.remedy


def test_an_index_is_held_against_batches_that_wait_for_those_behind_them(tmp_path: Path) -> None:
    """In a compacted log nearly every batch waits: its offset does not follow from the one before it."""
    for topic, base in (("compact-0", 636), ("tombstone-0", 611), ("compacttxn-0", 396)):
        directory = copy_tree(FIXTURES / "kafka-4.3.1" / "clean" / "node1" / topic, tmp_path / topic)
        index = directory / f"{base:020}.timeindex"
        data = bytearray(index.read_bytes())
        data[3] = 0xFF
        index.write_bytes(data)
        found = [one for one in kdump.verify([str(directory)]).findings if one.severity is Severity.ERROR]
        assert {one.file for one in found} == {str(index)}
        assert found[0].code is Code.T04
        assert found[0].repair == f"kdump reindex {index}"


# --- producer snapshots -------------------------------------------------------------------------------------
def test_a_clean_log_without_any_snapshot_is_told_as_a_broker_forgets_its_producers(tmp_path: Path) -> None:
    """Kafka 4.3.1 wrote empty snapshots at such a start (fixtures/damage/starts.json, s05-all-missing)."""
    logs = copy_tree(FIXTURES / "damage" / "intact" / "txn" / "logdir", tmp_path / "logs")
    partition = logs / "payments-0"
    for path in partition.glob("*.snapshot"):
        path.unlink()
    (found,) = [one for one in findings_of(logs) if one.code is Code.S01]
    assert (found.severity, found.file) == (Severity.WARNING, str(partition / name(285, "snapshot")))
    assert found.message.endswith("forgets the producers and the open transactions of the log")
    marker = logs / ".kafka_cleanshutdown"
    assert "S01" not in codes(findings_of(partition / name(0)))
    (partition / name(224, "snapshot")).write_bytes(snapshot((7, 0, 1, 1, 1, TIME, -1, -1)))
    assert "S01" not in codes(findings_of(logs))
    (partition / name(224, "snapshot")).unlink()
    marker.unlink()
    assert "S01" not in codes(findings_of(logs))
