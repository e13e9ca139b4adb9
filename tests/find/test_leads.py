"""Where an offset leads: what stands there, and which record each kind of consumer gets next."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from kdump.find import leads
from kdump.format.read_limits import ReadLimits
from kdump.rows.lookup import OffsetContent
from kdump.storage.log_dir import LogDir
from kdump.storage.partition_dir import PartitionDir
from tests.support.partitions import aborted, checkpoint, name, snapshot, write
from tests.support.segments import CONTROL, TRANSACTIONAL, Record, batch
from tests.support.whole_lines import run_kdump

if TYPE_CHECKING:
    from pathlib import Path

DATA, MARKER = TRANSACTIONAL, TRANSACTIONAL | CONTROL
META = b"version=1\ncluster.id=C\nnode.id=1\ndirectory.id=D\n"
END = b"\0\0\0\0\0\0"


def marker(offset: int, producer: int, *, commit: bool) -> bytes:
    return batch(
        offset, [Record(END, b"\0\0\0\1" if commit else b"\0\0\0\0")], flags=MARKER, producer=(producer, 0, -1)
    )


def asked(root: Path, verb: str, *args: str) -> dict[str, Any]:
    run = run_kdump([verb, "logs/t-0", *args, "--format", "json"], root)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    return next(row for row in rows if row["type"] == "location")


def lead(root: Path, verb: str, *args: str) -> tuple[Any, Any, Any]:
    row = asked(root, verb, *args)
    return row["what"], row["next"], row["nextCommitted"]


@pytest.fixture
def stuck(tmp_path: Path) -> Path:
    """Batches of which compaction has left little, an aborted transaction, and one that is open."""
    parts = [
        batch(0, [Record(b"1", b"a", delta=0), Record(b"2", b"b", delta=7)], last_delta=19),
        batch(30, [], last_delta=9, producer=(9, 0, 20), count=0),
        batch(40, [b"x"] * 10, flags=DATA, producer=(77, 0, 0)),
        marker(50, 77, commit=False),
        batch(51, [b"e"]),
        batch(60, [b"o", b"p"], flags=DATA, producer=(78, 0, 0)),
        batch(62, [b"q"]),
    ]
    files = {name(0): b"".join(parts), name(0, "txnindex"): aborted(77, 40, 50, 51)}
    files |= {name(0, "snapshot"): snapshot(), "leader-epoch-checkpoint": checkpoint((0, 0))}
    write(tmp_path / "logs", {"meta.properties": META, **{f"t-0/{one}": data for one, data in files.items()}})
    return tmp_path


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (0, ("record", 0, 0)),
        (3, ("compacted", 7, 7)),
        (12, ("compacted", 40, 51)),  # in the end of a batch that has no record any more
        (25, ("compacted", 40, 51)),  # between two batches
        (33, ("compacted", 40, 51)),  # in a batch without records
        (40, ("aborted", 40, 51)),
        (49, ("aborted", 49, 51)),
        (50, ("control", 51, 51)),
        (51, ("record", 51, 51)),
        (60, ("record", 60, None)),  # of an open transaction
        (62, ("record", 62, None)),  # behind it
    ],
)
def test_an_offset_leads_to_what_each_consumer_gets_next(offset: int, expected: tuple[Any, ...], stuck: Path) -> None:
    assert lead(stuck, "find-offset", str(offset)) == expected
    assert lead(stuck, "find-offset", str(offset), "--scan") == expected


def test_nothing_stands_at_the_end_of_a_log(stuck: Path) -> None:
    assert lead(stuck, "find-offset", "63") == (None, None, None)
    assert lead(stuck, "find-offset", "latest") == (None, None, None)


def test_the_first_offset_and_a_time_lead_somewhere_too(stuck: Path) -> None:
    assert lead(stuck, "find-offset", "earliest") == ("record", 0, 0)
    assert lead(stuck, "find-time", "0") == ("record", 0, 0)
    assert lead(stuck, "find-time", "max")[0] == "record"


@pytest.mark.parametrize(
    ("offset", "is_here"), [(0, True), (3, False), (7, True), (12, False), (25, False), (40, True)]
)
@pytest.mark.parametrize("scan", [(), ("--scan",)])
def test_a_record_below_the_log_start_is_said_to_be_here(
    offset: int, is_here: bool, scan: tuple[str, ...], stuck: Path
) -> None:
    """DeleteRecords, by mistake: a broker removes whole segments, and those later."""
    (stuck / "logs" / "log-start-offset-checkpoint").write_bytes(checkpoint(("t", 0, 51)))
    run = run_kdump(["find-offset", "logs/t-0", str(offset), *scan], stuck)
    said = run.stderr.decode()
    assert (run.exit, f"offset {offset} is before the start: the log begins at 51" in said) == (10, True)
    assert ("its record is here still, below the start" in said) == is_here


def test_text_says_it_where_it_is_not_the_record_of_the_answer(stuck: Path) -> None:
    def told(offset: str) -> str:
        return run_kdump(["find-offset", "logs/t-0", offset], stuck).stdout.decode()

    assert told("45").endswith("what: aborted next: 45 nextCommitted: 51\n")
    assert told("62").endswith("what: record next: 62 nextCommitted: none\n")
    assert told("33").endswith("what: compacted next: 40 nextCommitted: 51\n")
    assert "what" not in told("51")


def test_what_is_lost_is_not_called_compacted(stuck: Path) -> None:
    log = stuck / "logs" / "t-0" / name(0)
    data = bytearray(log.read_bytes())
    at = data.index(batch(51, [b"e"]))
    data[at + 70] ^= 1
    log.write_bytes(data)
    assert lead(stuck, "find-offset", "51") == (None, None, None)  # a consumer comes to its end there
    assert lead(stuck, "find-offset", "45") == ("aborted", 45, None)


def test_a_hole_that_is_a_loss_is_not_called_compacted(tmp_path: Path) -> None:
    parts = [batch(0, [b"a", b"b"]), bytes(len(batch(2, [b"b", b"b", b"b"]))), batch(5, [b"c"])]
    files = {name(0): b"".join(parts), name(0, "snapshot"): snapshot(), "leader-epoch-checkpoint": checkpoint((0, 0))}
    write(tmp_path / "logs", {"meta.properties": META, **{f"t-0/{one}": data for one, data in files.items()}})
    assert lead(tmp_path, "find-offset", "3", "--scan") == (None, 5, None)  # no broker gets beyond the zeros


@pytest.mark.parametrize("reads_all", [False, True])
def test_a_log_of_which_much_lies_behind_its_snapshot_is_not_read_for_it(
    reads_all: bool, stuck: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leads, "_MOST_READ", 100)
    found = leads.Leads(
        PartitionDir(str(stuck / "logs" / "t-0"), LogDir(str(stuck / "logs"))),
        ReadLimits(),
        lambda: 63,
        reads_all=reads_all,
    )
    assert found.of(0, 0, 0) == leads.Lead(OffsetContent.RECORD, 0, 0 if reads_all else None)


@pytest.mark.parametrize("seed", range(12))
def test_random_logs_lead_where_their_records_say(seed: int, tmp_path: Path) -> None:
    """Beside a truth that is kept while the log is made: no index and no walk is asked for it."""
    chance = random.Random(seed)
    parts: list[bytes] = []
    truth: dict[int, tuple[str, int]] = {}  # by offset: what, and its transaction
    opened: dict[int, int] = {}  # by producer: number of the transaction
    first: dict[int, int] = {}  # of each transaction
    aborts: list[tuple[int, int, int, int]] = []
    fate: dict[int, bool] = {}
    offset = number = 0
    for _ in range(chance.randrange(3, 25)):
        offset += chance.choice([0, 0, 0, chance.randrange(5)])
        producer = chance.randrange(1, 4)
        if opened and chance.random() < 0.4:
            producer = chance.choice(list(opened))
            which, commit = opened.pop(producer), chance.random() < 0.5
            fate[which] = commit
            parts.append(marker(offset, producer, commit=commit))
            if not commit:
                stable = min((first[one] for one in opened.values()), default=offset + 1)
                aborts.append((producer, first[which], offset, stable))
            truth[offset] = ("control", -1)
            offset += 1
            continue
        size = chance.randrange(1, 6)
        kept = sorted(chance.sample(range(size), chance.randrange(size + 1)))
        is_in = chance.random() < 0.6
        if is_in and producer not in opened:
            number += 1
            opened[producer], first[number] = number, offset
        records = [Record(b"v", b"k", delta=one) for one in kept]
        flags, whose = (DATA, (producer, 0, offset)) if is_in else (0, (-1, -1, -1))
        parts.append(batch(offset, records, last_delta=size - 1, flags=flags, producer=whose))
        truth |= {offset + one: ("record", opened[producer] if is_in else 0) for one in kept}
        offset += size
    files = {name(0): b"".join(parts), "leader-epoch-checkpoint": checkpoint((0, 0)), name(0, "snapshot"): snapshot()}
    if aborts:
        files[name(0, "txnindex")] = b"".join(aborted(*one) for one in aborts)
    write(tmp_path / "logs", {"meta.properties": META, **{f"t-0/{one}": data for one, data in files.items()}})
    stable = min((first[one] for one in opened.values()), default=offset)
    readable = [at for at, (what, _) in sorted(truth.items()) if what == "record"]
    good = [at for at in readable if at < stable and fate.get(truth[at][1], truth[at][1] == 0)]
    for at in range(offset):
        what, which = truth.get(at, ("compacted", 0))
        if what == "record" and fate.get(which) is False:
            what = "aborted"
        following = next((one for one in readable if one >= at), None)
        committed = next((one for one in good if one >= at), None)
        assert lead(tmp_path, "find-offset", str(at)) == (what, following, committed), at
