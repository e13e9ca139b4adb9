"""`dump --fate`: what became of each record; keys, payloads, notes and commentary that a selection brings or leaves."""

from __future__ import annotations

import base64
import json
import re
import struct
from array import array
from typing import TYPE_CHECKING, Any

import pytest

from kdump.broker.config import Config
from kdump.compat.dump_log_segments_options import DumpOptions
from kdump.dump.fates import FateOptions, KeysFound, RecordFates
from kdump.dump.searched import Searched
from kdump.dump.selected import SelectedDump, selected_logs
from kdump.finding import Finding
from kdump.format.batch import layout
from kdump.format.batch.walk import CheckedWalk
from kdump.format.record.chunk import Fate
from kdump.format.record.reader import RecordReader
from kdump.format.record.selection import Selection
from kdump.format.source import BytesSource
from kdump.render.json.writer import fate_json
from kdump.render.text.writer import fate_text
from kdump.storage.file_source import OpenFailure
from tests.support.coordinator_records import at, ended
from tests.support.partitions import checkpoint, segment, write
from tests.support.runs import FIXTURES, copy_tree, run_kdump
from tests.support.segments import Record

if TYPE_CHECKING:
    from pathlib import Path

NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
DAMAGE = FIXTURES / "damage"
T = 1_700_000_000_000
WEEK = 7 * 24 * 3_600_000
ONE, TWO = (1, 0), (2, 0)
DELETE = ["--set", "cleanup.policy=delete"]


def record(key: str, value: str = "v") -> Record:
    return Record(key=key.encode(), value=value.encode())


@pytest.fixture
def logdir(tmp_path: Path) -> Path:
    """A log directory with one partition of two segments, in which keys come back, in and out of transactions."""
    first = [
        at(0, T, record("a"), record("b")),
        at(2, T + 1, record("a"), producer=ONE),  # committed at 5
        at(3, T + 2, record("a"), producer=TWO),  # aborted at 6
        at(4, T + 3, record("c")),
        ended(5, T + 4, ONE, commit=True),
        ended(6, T + 5, TWO, commit=False),
    ]
    second = [
        at(7, T + 6, record("a"), record("b")),
        at(9, T + 7, record("b"), producer=ONE),  # open
        at(10, T + 8, record("a", "")),
    ]
    files = {**segment(0, first), **segment(7, second)}
    return write(
        tmp_path,
        {
            **{f"orders-0/{name}": data for name, data in files.items()},
            "log-start-offset-checkpoint": checkpoint(("orders", 0, 1)),
            ".kafka_cleanshutdown": b"{}",
        },
    )


def spoil_the_last(logdir: Path) -> None:
    """A wrong bit in the key of the record at 10: the CRC of its batch is wrong."""
    path = logdir / "orders-0" / f"{7:020}.log"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(bytes(data))


def fates(logdir: Path, *args: str) -> dict[int, dict[str, Any]]:
    known = [] if any("cleanup.policy" in one for one in args) else DELETE
    run = run_kdump(["dump", "orders-0", "--fate", "--format", "json", "--quiet", *known, *args], logdir)
    assert run.stderr == b""
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    return {row["offset"]: row["fate"] for row in rows if row["type"] == "record"}


EXPECTED = {  # transaction, below the log start, superseded by; when retention deletes
    0: (None, True, 2, 0), 1: (None, False, 8, 0), 2: ("committed", False, 7, 0), 3: ("aborted", False, 7, 0),
    4: (None, False, None, 0), 5: (None, False, None, 0), 6: (None, False, None, 0), 7: (None, False, 10, 1),
    8: (None, False, None, 1), 9: ("open", False, None, 1), 10: (None, False, None, 1),
}  # fmt: skip
LAST = (T + 5, T + 8)  # largest timestamp of each segment


def expected(*offsets: int) -> dict[int, dict[str, Any]]:
    found = {}
    for offset in offsets or EXPECTED:
        transaction, below, after, number = EXPECTED[offset]
        found[offset] = {
            "transaction": transaction,
            "waitsFor": {"producerId": 1, "firstOffset": 9} if offset >= 9 else None,
            "belowLogStart": below,
            "supersededBy": after,
            "noKey": False,
            "tombstone": None,
            "tombstoneUntil": None,
            "deletedAt": LAST[number] + WEEK + 1,
        }
    return found


def test_the_fate_of_every_record_is_told(logdir: Path) -> None:
    assert fates(logdir) == expected()


@pytest.mark.parametrize(
    ("args", "offsets"),
    [
        (["--key", "a"], [0, 2, 3, 7, 10]),
        (["--key-regex", "^[bc]$"], [1, 4, 8, 9]),
        (["--limit", "2"], [0, 1]),
        (["--tail", "2"], [9, 10]),
        (["--from-offset", "2", "--to-offset", "4"], [2, 3]),
        (["--committed", "--key", "a"], [0, 2, 7, 10]),
    ],
)
def test_the_fate_does_not_hang_on_what_is_selected(args: list[str], offsets: list[int], logdir: Path) -> None:
    assert fates(logdir, *args) == expected(*offsets)


def test_later_segments_decide_over_a_log_that_is_named_alone(logdir: Path) -> None:
    run = run_kdump(["dump", f"orders-0/{0:020}.log", "--fate", "--key", "b", "--format", "json", *DELETE], logdir)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    assert [row["fate"] for row in rows if row["type"] == "record"] == [expected(1)[1]]


def test_a_compacted_topic_is_not_deleted_by_time(logdir: Path) -> None:
    found = fates(logdir, "--set", "cleanup.policy=compact")
    assert {one["deletedAt"] for one in found.values()} == {None}


def test_a_record_of_a_batch_with_a_wrong_crc_supersedes_nothing(logdir: Path) -> None:
    path = logdir / "orders-0" / f"{7:020}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1  # of the batch at 10
    path.write_bytes(bytes(data))
    run = run_kdump(["dump", "orders-0", "--fate", "--format", "json", "--key", "a"], logdir)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    assert {row["offset"]: row["fate"]["supersededBy"] for row in rows if row["type"] == "record"}[7] is None
    assert run.exit == 3


def test_in_text_the_fate_stands_behind_the_header_keys_in_brackets(logdir: Path) -> None:
    run = run_kdump(["dump", "orders-0", "--fate", "--key", "a", "--print-data-log", *DELETE], logdir)
    lines = [line.partition("headerKeys: [] ")[2] for line in run.stdout.decode().splitlines() if line.startswith("| ")]
    gone = "retention deletes it from 2023-11-21T22:13:20.00"
    assert lines == [
        f"fate: [below the log start, superseded at offset 2, {gone}6Z on] key: a payload: v",
        f"fate: [committed, superseded at offset 7, {gone}6Z on] key: a payload: v",
        f"fate: [aborted, superseded at offset 7, {gone}6Z on] key: a payload: v",
        f"fate: [superseded at offset 10, {gone}9Z on] key: a payload: v",
        f"fate: [waits for producer 1, whose transaction is open since offset 9, {gone}9Z on] key: a payload: ",
    ]
    assert b"defaults are taken" not in run.stderr


def test_where_nobody_knows_the_policy_nothing_is_said_to_be_kept(logdir: Path) -> None:
    run = run_kdump(["dump", "orders-0", "--fate", "--print-data-log"], logdir)
    said = [FATE.search(line.encode()) for line in run.stdout.decode().splitlines() if line.startswith("| ")]
    told = {int(one[1]): one[2].decode() for one in said if one is not None}
    assert (told[4], told[2]) == ("not known: cleanup.policy", "committed, superseded at offset 7")
    assert not any("kept" in one or "retention" in one for one in told.values())
    assert b"cleanup.policy is not known" in run.stderr


@pytest.mark.parametrize(
    ("policy", "removed"), [("compact", True), ("compact,delete", True), ("delete", False), (None, False)]
)
def test_compaction_removes_what_has_no_key(policy: str | None, removed: bool, tmp_path: Path) -> None:
    """An empty key is a key; a marker has none and stays as long as its transaction."""
    records = [Record(b"v", None), Record(b"v", b""), Record(b"v", b"k")]
    write(tmp_path, {f"t-0/{0:020}.log": at(0, T, *records, producer=ONE) + ended(3, T, ONE, commit=True)})
    given = [] if policy is None else ["--set", f"cleanup.policy={policy}"]
    run = run_kdump(["dump", "t-0", "--fate", "--format", "json", "--quiet", *given], tmp_path)
    rows = [row for row in map(json.loads, run.stdout.splitlines()) if row["type"] == "record"]
    assert [row["fate"]["noKey"] for row in rows] == [removed, False, False, False]
    text = run_kdump(["dump", "t-0", "--fate", "--quiet", *given], tmp_path).stdout
    assert (b"compaction removes it: it has no key" in text) == removed


def test_a_fate_of_nothing_is_said_too() -> None:
    kept = Fate(None, False, None, None)
    assert fate_text(kept) == b" fate: [kept]"
    assert json.loads(b"{" + fate_json(kept)[1:] + b"}") == {
        "fate": dict.fromkeys(("transaction", "waitsFor", "supersededBy", "tombstone", "tombstoneUntil", "deletedAt"))
        | {"belowLogStart": False, "noKey": False}
    }
    assert fate_text(kept.replace(is_judged=False)) == b" fate: [not known: cleanup.policy]"


def test_the_fate_of_a_record_with_a_wrong_crc_says_first_that_no_consumer_gets_it(logdir: Path) -> None:
    spoil_the_last(logdir)
    run = run_kdump(["dump", "orders-0", "--fate", "--from-offset", "9", *DELETE], logdir)
    fates = [line.partition("fate: ")[2] for line in run.stdout.decode().splitlines() if line.startswith("| ")]
    assert [one.partition(",")[0] for one in fates] == ["[open", "[not readable: wrong CRC"]


FATE = re.compile(rb"\| offset: (\d+) .*?fate: \[(.*?)\]")


@pytest.mark.parametrize(
    ("at_byte", "value", "offsets"), [(18003, 1, {477: 221}), (25034, 0, {63: 319}), (17999, 9, {})]
)
def test_a_wrong_base_offset_changes_no_fate(at_byte: int, value: int, offsets: dict[int, int], tmp_path: Path) -> None:
    """The offset is shown as it is stored; what became of each record goes by the right one."""
    node = copy_tree(NODE, tmp_path / "node1")
    log, args = (
        node / "txn-0" / f"{0:020}.log",
        ["dump", "--fate", "--key", "t1.5", "--set", "retention.ms=-1", "txn-0"],
    )
    sound = FATE.findall(run_kdump(args, node).stdout)
    stored = bytearray(log.read_bytes())
    stored[at_byte] = value
    log.write_bytes(stored)
    run = run_kdump(args, node)
    found = FATE.findall(run.stdout)
    assert run.exit == 3
    assert len(found) == len(sound) == 20
    assert [fate for _, fate in found] == [fate for _, fate in sound]
    changed = [(int(one), int(right)) for (one, _), (right, _) in zip(found, sound, strict=True) if one != right]
    assert len(changed) == 3
    assert dict(changed[:1]) == offsets or not offsets


def test_where_a_newer_record_may_be_is_said(logdir: Path) -> None:
    spoil_the_last(logdir)
    run = run_kdump(["dump", "orders-0", "--fate", "--key", "a"], logdir)
    assert b"offset 10 cannot be read: a newer record of a key may be there\n" in run.stderr


@pytest.mark.parametrize(
    ("length", "said"),
    [(75, b"lz4-0/00000000000000000777.log: offset 900 cannot"), (None, b"lz4-0: offsets 900..901 cannot")],
    ids=["zeros before other bytes", "zeros to the end"],
)
def test_what_cannot_be_read_is_said_once(length: int | None, said: bytes, tmp_path: Path) -> None:
    """Zeros and what is left of a batch are two gaps, and the snapshot of offset 902 knows of both batches."""
    node = copy_tree(NODE, tmp_path / "node1")
    log = node / "lz4-0" / f"{777:020}.log"
    stored = log.read_bytes()
    end = len(stored) if length is None else 14021 + length
    log.write_bytes(stored[:14021] + bytes(end - 14021) + stored[end:])
    assert b"kdump: " + said + b" be read: a newer record" in run_kdump(["dump", "--fate", "lz4-0"], node).stderr


def l12(logdir: Path, selection: Selection) -> list[str]:
    """What a dump with fates says about limits."""
    dump = SelectedDump(DumpOptions(deep=True), selection, FateOptions(Config({}), T))
    items = dump.files([str(logdir / "orders-0")])
    return [item.message for item in items if isinstance(item, Finding) and item.code.name == "L12"]


@pytest.mark.parametrize("partition", ["txnspan-0", "compacttxn-0"])
def test_the_fate_of_a_record_does_not_hang_on_what_else_is_shown(partition: str, tmp_path: Path) -> None:
    node = copy_tree(NODE, tmp_path / "node1")
    (node / "orders-0").symlink_to(node / partition)
    everything = fates(node)
    found = [fates(node, "--limit", "7"), fates(node, "--tail", "7")]
    found += [fates(node, "--from-offset", str(at), "--limit", "3") for at in list(everything)[5::40]]
    found += [fates(node, "--from-offset", str(at), "--to-offset", str(at + 90)) for at in list(everything)[7::60]]
    for some in found:
        assert some == {offset: everything[offset] for offset in some}
        assert some


def test_offsets_are_kept_as_far_as_what_is_shown_can_need_them(logdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdump.dump.fates._MOST_OFFSETS", 6)  # 0, 1, 2, 4, 7, 8: 3 was aborted, 9 is open
    (told,) = l12(logdir, Selection())
    assert told.endswith("what supersedes a record is known up to offset 9 only; select fewer records")
    monkeypatch.setattr("kdump.dump.fates._MOST_OFFSETS", 4)  # those of the batch at 0, and one of each behind it
    assert l12(logdir, Selection(limit=1)) == []


def test_keys_beyond_the_limit_are_said_to_be_unknown(logdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdump.dump.fates._MOST_KEYS", 1)
    assert len(l12(logdir, Selection())) == 1
    assert KeysFound().is_full is False


def test_a_record_that_nobody_can_place_supersedes_nothing(tmp_path: Path) -> None:
    """Compaction has taken 1 and 3..4, so its neighbours do not tell where it was: that is said instead."""
    log = [at(0, T, record("a")), at(2 ^ 1 << 20, T, record("a")), at(5, T, record("b"))]
    write(tmp_path, {f"t-0/{0:020}.log": b"".join(log)})
    run = run_kdump(["dump", "t-0", "--fate", "--set", "retention.ms=-1", "--key", "a", "--limit", "1"], tmp_path)
    assert FATE.findall(run.stdout) == [(b"0", b"kept")]
    assert b"a newer record of a key may be there" in run.stderr


def test_the_fate_of_each_record_goes_by_its_own_batch(tmp_path: Path) -> None:
    """In whatever order the records of a chunk are: only the batch at 1 has a wrong base offset."""
    log = [at(0, T, record("a")), at(1, T, record("a")), at(2, T, record("a")), at(3, T, record("b"))]
    wrong = [one if k != 1 else struct.pack(">q", 1 ^ 1 << 20) + one[8:] for k, one in enumerate(log)]
    write(tmp_path, {f"t-0/{0:020}.log": b"".join(wrong)})
    (logs,) = selected_logs([str(tmp_path / "t-0")], DumpOptions(deep=True), Selection())
    assert not isinstance(logs, OpenFailure)
    (log_file,) = logs
    found = KeysFound()
    source = BytesSource(b"".join(wrong), log_file.path)
    (window,) = CheckedWalk(source, lambda _: None, segment=0, next_base=None, max_batch_bytes=1 << 20).windows()
    (chunk,) = RecordReader(1 << 20).chunks(window)
    found.see(chunk, 0)
    known = RecordFates([log_file], DumpOptions(deep=True), FateOptions(Config({}), T), found)
    rows = [chunk.rows[k * layout.RECORD_WIDTH : (k + 1) * layout.RECORD_WIDTH] for k in range(chunk.filled)]
    mixed = array("q", b"".join(row.tobytes() for row in (*rows, rows[1], rows[0])))
    fates = known.of(log_file, chunk.replace(rows=mixed, filled=6))
    assert [fate.superseded_by for fate in fates] == [1, 2, None, None, 2, 1]


# --- transactions whose end cannot be read -------------------------------------------------------------------
@pytest.fixture(params=["crc", "zeros"])
def doubtful(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A partition in which the COMMIT at 4 cannot be read, and the next marker of its producer is an ABORT."""
    lost = bytearray(ended(4, T + 3, ONE, commit=True))
    lost[-1:] = bytes([lost[-1] ^ 1])
    if request.param == "zeros":
        lost[:] = bytes(len(lost))
    parts = [
        at(0, T, record("a"), record("b"), producer=ONE),
        at(2, T + 1, record("c"), producer=TWO),
        ended(3, T + 2, TWO, commit=True),
        bytes(lost),
        at(5, T + 4, record("d"), producer=ONE),
        at(6, T + 5, record("e"), producer=TWO),
        ended(7, T + 6, ONE, commit=False),
        ended(8, T + 7, TWO, commit=True),
    ]
    return write(tmp_path, {f"orders-0/{name}": data for name, data in segment(0, parts).items()})


IN_DOUBT = (
    "kdump: orders-0: 2 records are in doubt: the end of their transaction may be in what cannot be read (offset 4)"
)


def offsets(run: Any) -> list[int]:
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    return [row["offset"] for row in rows if row["type"] == "record" and row["control"] is None]


def test_a_marker_behind_what_cannot_be_read_tells_nothing_of_the_records_before_it(doubtful: Path) -> None:
    args = ["dump", "orders-0", "--fate", *DELETE]
    run = run_kdump([*args, "--format", "json"], doubtful)
    rows = [row for row in map(json.loads, run.stdout.splitlines()) if row["type"] == "record"]
    told = {row["offset"]: row["fate"]["transaction"] for row in rows if row["control"] is None}
    assert told == {0: None, 1: None, 2: "committed", 5: "aborted", 6: "committed"}
    text = run_kdump(args, doubtful)
    lines = [line for line in text.stdout.decode().splitlines() if "in doubt" in line]
    assert len(lines) == 2
    assert all("fate: [in doubt (its end may be in what cannot be read at offset 4), " in line for line in lines)
    for one in (run, text):
        said = [line for line in one.stderr.decode().splitlines() if "in doubt" in line]
        assert said == [IN_DOUBT + "; whether it was committed or aborted is not known"]


@pytest.mark.parametrize(("option", "shown"), [("--committed", [2, 6]), ("--aborted", [5])])
def test_records_in_doubt_are_neither_committed_nor_aborted_and_that_is_said(
    option: str, shown: list[int], doubtful: Path
) -> None:
    args = ["dump", "orders-0", option, "--format", "json", "--print-data-log"]
    run = run_kdump(args, doubtful)
    assert offsets(run) == shown
    said = [line for line in run.stderr.decode().splitlines() if "in doubt" in line]
    assert said == [IN_DOUBT + "; neither --committed nor --aborted shows or searches them"]
    several = run_kdump([*args, "-j", "3"], doubtful)
    assert (several.exit, several.stdout, several.stderr) == (run.exit, run.stdout, run.stderr)
    last = run_kdump([*args, "--tail", "9"], doubtful)
    assert (last.stdout, last.stderr) == (run.stdout, run.stderr)


def test_a_damaged_batch_that_is_longer_than_any_marker_puts_nothing_in_doubt(tmp_path: Path) -> None:
    data = at(1, T + 1, record("b", 100 * "v"))
    parts = [at(0, T, record("a"), producer=ONE), data[:-9] + b"w" + data[-8:], ended(2, T + 2, ONE, commit=True)]
    write(tmp_path, {f"orders-0/{name}": content for name, content in segment(0, parts).items()})
    run = run_kdump(["dump", "orders-0", "--fate", "--format", "json"], tmp_path)
    rows = [row for row in map(json.loads, run.stdout.splitlines()) if row["type"] == "record"]
    assert rows[0]["fate"]["transaction"] == "committed"
    assert b"in doubt" not in run.stderr


def test_a_transaction_behind_one_of_which_only_the_index_knows_the_abort_is_open(tmp_path: Path) -> None:
    parts = [
        at(0, T, record("a"), producer=ONE),
        bytes(len(ended(1, T, ONE, commit=False))),
        at(2, T + 1, record("b"), producer=ONE),
    ]
    files = segment(0, parts)
    files[f"{0:020}.txnindex"] = struct.pack(">hqqqq", 0, 1, 0, 1, 0)
    write(tmp_path, {f"orders-0/{name}": data for name, data in files.items()})
    run = run_kdump(["dump", "orders-0", "--fate", "--format", "json"], tmp_path)
    rows = [row for row in map(json.loads, run.stdout.splitlines()) if row["type"] == "record"]
    assert {row["offset"]: row["fate"]["transaction"] for row in rows} == {0: "aborted", 2: "open"}


@pytest.mark.parametrize(
    ("entry", "outcome"),
    [
        ((0, 1, 0, 4, 0), "aborted"),
        ((0, 1, 1, 4, 0), None),  # not its first offset
        ((0, 1, 0, 3, 0), None),  # another batch has this offset
        ((0, 2, 0, 4, 0), None),  # another producer
        ((0x100, 1, 0, 4, 0), None),  # of an index that no broker takes
    ],
)
def test_a_transaction_whose_abort_cannot_be_read_is_aborted_where_the_index_has_it(
    entry: tuple[int, ...], outcome: str | None, doubtful: Path
) -> None:
    (doubtful / "orders-0" / f"{0:020}.txnindex").write_bytes(struct.pack(">hqqqq", *entry))
    run = run_kdump(["dump", "orders-0", "--fate", "--format", "json"], doubtful)
    rows = [row for row in map(json.loads, run.stdout.splitlines()) if row["type"] == "record"]
    told = {row["offset"]: row["fate"]["transaction"] for row in rows if row["control"] is None}
    assert told == {0: outcome, 1: outcome, 2: "committed", 5: "aborted", 6: "committed"}
    assert (b"in doubt" in run.stderr) is (outcome is None)


# --- offsets that are not there ------------------------------------------------------------------------------
def told(where: Path, parts: dict[int, list[bytes]], *paths: str) -> tuple[dict[int, str | None], str]:
    """The fates of the records of a partition that is written, and what is said of doubts."""
    files = {name: data for base, some in parts.items() for name, data in segment(base, some).items()}
    write(where, {f"orders-0/{name}": data for name, data in files.items()})
    run = run_kdump(["dump", *(f"orders-0/{one}" for one in paths or ("",)), "--fate", "--format", "json"], where)
    rows = [row for row in map(json.loads, run.stdout.splitlines()) if row["type"] == "record"]
    said = [line for line in run.stderr.decode().splitlines() if "in doubt" in line]
    return {row["offset"]: row["fate"]["transaction"] for row in rows if row["control"] is None}, "".join(said)


OVER_A_GAP = [at(0, T, record("a"), producer=ONE), at(2, T, record("b"), producer=ONE), ended(3, T, ONE, commit=True)]


def test_a_marker_behind_missing_offsets_of_a_dense_log_tells_nothing_of_what_is_before_them(tmp_path: Path) -> None:
    fates, said = told(tmp_path, {0: OVER_A_GAP})
    assert fates == {0: None, 2: "committed"}
    assert "1 record is in doubt: the end of its transaction may be in what cannot be read (offset 1)" in said
    run = run_kdump(["dump", "orders-0", "--committed", "--format", "json", "--deep-iteration"], tmp_path)
    assert offsets(run) == [2]
    assert b"1 record is in doubt" in run.stderr
    several = run_kdump(
        ["dump", "orders-0", "--committed", "--format", "json", "--deep-iteration", "-j", "2"], tmp_path
    )
    assert (several.stdout, several.stderr) == (run.stdout, run.stderr)


def test_missing_offsets_at_the_border_of_two_segments_of_a_dense_log_may_have_had_a_marker(tmp_path: Path) -> None:
    fates, _ = told(tmp_path, {0: OVER_A_GAP[:1], 2: OVER_A_GAP[1:]})
    assert fates == {0: None, 2: "committed"}


@pytest.mark.parametrize("where", ["behind", "before"])
def test_missing_offsets_that_compaction_explains_put_nothing_in_doubt(where: str, tmp_path: Path) -> None:
    """What tells that it was at work may stand in another segment, which is not shown."""
    holes = [at(10, T, record("a")), at(12, T, record("b"))]
    low = [at(0, T, record("a")), at(2, T, record("b")), at(3, T, record("c"))]
    over = [at(4, T, record("a"), producer=ONE), at(6, T, record("b"), producer=ONE), ended(7, T, ONE, commit=True)]
    parts = (
        {4: over, 8: [at(8, T, record("x")), at(9, T, record("x")), *holes]} if where == "behind" else {0: low, 4: over}
    )
    assert told(tmp_path, parts, f"{4:020}.log")[0] == {4: "committed", 6: "committed"}


def test_a_missing_marker_whose_abort_the_index_has_is_told(tmp_path: Path) -> None:
    write(tmp_path, {f"orders-0/{0:020}.txnindex": struct.pack(">hqqqq", 0, 1, 0, 1, 0)})
    assert told(tmp_path, {0: OVER_A_GAP}) == ({0: "aborted", 2: "committed"}, "")


# --- what salvage knows by ------------------------------------------------------------------------------------
def test_an_epoch_that_rises_with_each_transaction_tells_what_the_marker_of_another_producer_cannot_hide(
    tmp_path: Path,
) -> None:
    """Only of the producer whose epoch never rose in sight nothing is known."""
    lost = bytes(len(ended(3, T, (3, 1), commit=True)))
    parts = [
        at(0, T, record("a"), producer=(1, 0)),
        ended(1, T, (1, 1), commit=True),
        at(2, T, record("b"), producer=(1, 1)),
        lost,
        at(4, T, record("c"), producer=(2, 0)),
        ended(5, T, (1, 2), commit=False),
        ended(6, T, (2, 0), commit=True),
    ]
    assert told(tmp_path, {0: parts}) == ({0: "committed", 2: "aborted", 4: "committed"}, "")


def test_an_index_that_goes_on_behind_an_unreadable_marker_tells_that_it_was_no_abort(doubtful: Path) -> None:
    commit = [at(9, T, record("x"), producer=TWO), ended(10, T, TWO, commit=False)]
    log = doubtful / "orders-0" / f"{0:020}.log"
    log.write_bytes(log.read_bytes().replace(ended(7, T + 6, ONE, commit=False), ended(7, T + 6, ONE, commit=True)))
    log.write_bytes(log.read_bytes() + b"".join(commit))
    (doubtful / "orders-0" / f"{0:020}.txnindex").write_bytes(struct.pack(">hqqqq", 0, 2, 9, 10, 9))
    run = run_kdump(["dump", "orders-0", "--fate", "--format", "json"], doubtful)
    rows = [row for row in map(json.loads, run.stdout.splitlines()) if row["type"] == "record"]
    told = {row["offset"]: row["fate"]["transaction"] for row in rows if row["control"] is None}
    assert told == {0: "committed", 1: "committed", 2: "committed", 5: "committed", 6: "committed", 9: "aborted"}
    assert b"in doubt" not in run.stderr


# --- wrong use ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--fate", "--stats"], "does not go with --stats"),
        (["--fate", "--skip-record-metadata"], "does not go with --skip-record-metadata"),
        (["--set", "retention.ms=1"], "--set has a meaning with --fate only"),
        (["--config", "x"], "--config has a meaning with --fate only"),
        (["--compat", "4.3", "--fate", "--files", "x"], "--fate works without --compat only"),
        (["--compat", "4.3", "--quiet", "--files", "x"], "--quiet works without --compat only"),
        (["--value-regex", "("], "is not a valid regular expression"),
    ],
)
def test_a_wrong_use_of_fate_is_one_line(args: list[str], said: str, tmp_path: Path) -> None:
    run = run_kdump(["dump", *args, "nothing"], tmp_path)
    assert run.exit == 2
    assert said in run.stderr.decode()


# --- selections show what they go by ------------------------------------------------------------------------
def shown(logdir: Path, *args: str) -> list[str]:
    run = run_kdump(["dump", "orders-0", *args], logdir)
    return [re.sub(r".*headerKeys: \[\]", "", one) for one in run.stdout.decode().splitlines() if one[0] == "|"]


def test_a_selection_by_key_shows_the_key_and_one_by_value_the_payload(logdir: Path) -> None:
    assert shown(logdir, "--key", "c") == [" key: c"]
    assert shown(logdir, "--key-regex", "c", "--deep-iteration") == [" key: c"]
    assert shown(logdir, "--value-regex", "v", "--limit", "1") == [" payload: v"]
    assert shown(logdir, "--value-regex", "v", "--key", "c") == [" key: c payload: v"]
    assert shown(logdir, "--limit", "1") == [""]
    assert shown(logdir, "--key", "c", "--print-data-log") == [" key: c payload: v"]


@pytest.mark.parametrize(
    ("args", "keys"),
    [
        (["--key", "c"], {"key": "c"}),
        (["--value-regex", "^v$", "--key-regex", "c"], {"key": "c", "payload": "v"}),
        (["--value-regex", "v", "--from-offset", "4", "--to-offset", "5"], {"payload": "v"}),
        (["--from-offset", "4", "--to-offset", "5", "--deep-iteration"], {}),
    ],
)
def test_the_same_in_json(args: list[str], keys: dict[str, str], logdir: Path) -> None:
    run = run_kdump(["dump", "orders-0", "--format", "json", *args], logdir)
    (row,) = (one for one in map(json.loads, run.stdout.splitlines()) if one["type"] == "record")
    assert {name: row[name] for name in ("key", "payload", "decodedKey", "fate") if name in row} == keys


def text_of(payload: Any) -> str:
    """A payload of JSON as a pattern sees it."""
    if isinstance(payload, dict):
        return base64.b64decode(payload["base64"]).decode("utf-8", "surrogateescape")
    return payload or ""


def test_values_are_searched_as_they_are_in_the_log(logdir: Path) -> None:
    for topic in ("gzip-0", "lz4-0", "zstd-0", "snappy-0", "plain-0"):
        whole = run_kdump(["dump", topic, "--print-data-log", "--format", "json"], NODE)
        rows = [one for one in map(json.loads, whole.stdout.splitlines()) if one["type"] == "record"]
        wanted = [one["offset"] for one in rows if re.search("[13]", text_of(one["payload"]))]
        run = run_kdump(["dump", topic, "--value-regex", "[13]", "--format", "json"], NODE)
        found = [one["offset"] for one in map(json.loads, run.stdout.splitlines()) if one["type"] == "record"]
        assert found == wanted
        assert wanted


@pytest.mark.parametrize("layout", ["text", "json"])
def test_what_a_selection_shows_is_redacted_too(layout: str, tmp_path: Path) -> None:
    batch = at(0, T, record("secret-key", "secret-value"))
    write(tmp_path, {f"orders-0/{name}": data for name, data in segment(0, [batch]).items()})
    for args in (["--key-regex", "cret"], ["--value-regex", "cret"], ["--key", "secret-key", "--value-regex", "c"]):
        run = run_kdump(["dump", "orders-0", "--redact", "--fate", "--format", layout, *args], tmp_path)
        assert b"secret" not in run.stdout + run.stderr
        assert (b"key: " in run.stdout or b'"key":' in run.stdout) == ("--value-regex" not in args[:1])


# --- nothing found -------------------------------------------------------------------------------------------
def searched(selection: Selection, *paths: Path) -> list[str]:
    watch = Searched(selection)
    for item in SelectedDump(DumpOptions(deep=True), selection).files([str(path) for path in paths]):
        watch.see(item)
    return list(watch.lines())


def test_what_finds_something_says_nothing(logdir: Path) -> None:
    assert searched(Selection(keys=(b"a",)), logdir / "orders-0") == []


def test_a_range_without_offsets_is_told_as_that(logdir: Path) -> None:
    run = run_kdump(["dump", "--from-offset", "2", "--to-offset", "2", "orders-0"], logdir)
    assert run.stderr == (
        b"kdump: nothing found: --to-offset 2 is left out, so no offset is asked for; "
        b"for offset 2 alone use --to-offset 3\n"
    )


def test_nothing_found_is_said_with_the_range_that_was_searched(logdir: Path) -> None:
    found = searched(Selection(keys=(b"x",), from_offset=3, to_offset=9, from_time=T), logdir / "orders-0")
    assert found == ["nothing found; searched was only offsets 3 to 8, times from 2023-11-14T22:13:20.000Z to the end"]


def test_nothing_found_is_said_with_the_damage_that_was_not_searched(logdir: Path) -> None:
    path = logdir / "orders-0" / f"{0:020}.log"
    data = path.read_bytes()
    path.write_bytes(data[:-20])
    (said, place) = searched(Selection(keys=(b"x",)), logdir / "orders-0")
    assert said == "nothing found"
    assert re.fullmatch(
        rf"not searched: {re.escape(str(path))}: bytes \d+\.\.\d+, offsets 6\.\.6 \(L02 torn-batch\)", place
    )


# --- notes and quiet -----------------------------------------------------------------------------------------
def said(*args: str, cwd: Path) -> list[str]:
    run = run_kdump(args, cwd)
    return [line.split(" ")[0] for line in run.stderr.decode().splitlines()]


def test_notes_are_listed_by_dump_and_find_when_they_are_asked_for(tmp_path: Path) -> None:
    parts = [at(0, T, record("a")), at(5, T, record("b"))]
    write(tmp_path, {f"orders-0/{name}": data for name, data in segment(0, parts).items()})
    for args in (["dump", "orders-0"], ["dump", "orders-0", "--stats"], ["dump", "-j", "2", "orders-0"]):
        assert said(*args, cwd=tmp_path) == []
        assert said(*args, "--no-notes", cwd=tmp_path) == []
        assert said(*args, "--notes", cwd=tmp_path) == ["note"]
    run = run_kdump(["dump", "orders-0", "--format", "json"], tmp_path)
    assert [row["severity"] for row in map(json.loads, run.stdout.splitlines()) if row["type"] == "finding"] == ["note"]
    listed = run_kdump(["verify", "orders-0", "--notes"], tmp_path).stdout.decode()
    without = run_kdump(["verify", "orders-0"], tmp_path).stdout.decode()
    assert "┃ note " in listed
    assert "┃ note " not in without
    assert "2 notes (--notes lists them)" in without


def test_quiet_leaves_errors_and_the_exit_status(tmp_path: Path) -> None:
    parts = [at(0, T, record("a")), at(5, T, record("b"))]
    files = segment(0, parts)
    files["00000000000000000000.log"] += b"\1" * 30
    write(tmp_path, {**{f"orders-0/{name}": data for name, data in files.items()}, "orders-0/x.deleted": b""})
    plain = run_kdump(["dump", "orders-0", "--notes", "--from-time", "2020-01-01"], tmp_path)
    quiet = run_kdump(["dump", "orders-0", "--quiet", "--from-time", "2020-01-01"], tmp_path)
    assert (quiet.exit, quiet.stdout) == (plain.exit, plain.stdout) == (3, plain.stdout)
    assert {line.split(b" ")[0] for line in quiet.stderr.splitlines()} == {b"error"}
    assert len(plain.stderr.splitlines()) > len(quiet.stderr.splitlines())


def test_the_settings_of_a_topic_are_those_of_the_metadata_log_beside_it() -> None:
    node = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
    run = run_kdump(["dump", "--key", "roll1", "--format", "json", "--fate", "compact-0"], node)
    fates = [row["fate"] for line in run.stdout.splitlines() if (row := json.loads(line))["type"] == "record"]
    assert fates
    assert all(one["deletedAt"] is None for one in fates), "it is compacted, and nothing else"
    assert b"defaults are taken" not in run.stderr
