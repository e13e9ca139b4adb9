"""The replay of producers and transactions, and what is judged by it: against files of brokers, and against a model."""

from __future__ import annotations

import struct
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.broker.producer.replay import ProducerFold, Producers, SegmentProducers
from kdump.checks.transactions import check_aborted, check_snapshot, open_transactions
from kdump.finding import Finding, Severity
from kdump.format.batch import layout
from kdump.format.batch.walk import CheckedWalk
from kdump.format.checkpoint.producer_snapshot import ProducerStateEntry, read_snapshot
from kdump.format.index.transaction_index import AbortedTxn, TransactionIndex
from kdump.format.record.reader import RecordReader
from kdump.format.record.record_checks import RecordChecks
from kdump.format.source import BytesSource
from tests.support.damage_cases import damage_cases
from tests.support.runs import FIXTURES
from tests.support.scan_windows import MAX_BATCH, check_words, windows_of
from tests.support.segments import CONTROL, GZIP, TIME, TRANSACTIONAL, Record, batch, log

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from kdump.finding import Report
    from kdump.format.batch.window import Window

LIMIT = 1 << 20
ABORT, COMMIT = 0, 1
ENTRY = 34  # bytes of a .txnindex entry


# --- replaying ----------------------------------------------------------------------------------------------
def passed(_: Finding) -> None:
    """What the walk says is not looked at here."""


def unexpected(one: Finding) -> None:
    raise AssertionError(one.message)


def windows(data: bytes, base: int, report: Report = passed, *, max_batch: int = MAX_BATCH) -> Iterator[Window]:
    return CheckedWalk(
        BytesSource(data, "log"), report, segment=base, next_base=None, max_batch_bytes=max_batch
    ).windows()


def folded(data: bytes, base: int = 0, *, until: int | None = None, controls: bool = True) -> Folded:
    """Walk one segment, or the batches in it that end before an offset."""
    found: list[Finding] = []
    fold = ProducerFold("log", found.append, LIMIT, report_controls=controls)
    for window in windows(data, base, lambda one: fold.gap() if one.gap else None):
        while until is not None and window.count and window.cell(window.count - 1, layout.LAST_OFFSET) >= until:
            window.count -= 1
        fold.step(window)
    return Folded(fold.finish(), found)


class Folded(NamedTuple):
    """What came out of one segment."""

    segment: SegmentProducers
    findings: list[Finding]


class Replayed(NamedTuple):
    """What is known at the end of some segments, and the transaction index of each by its base offset."""

    producers: Producers
    aborted: dict[int, list[AbortedTxn]]
    findings: list[Finding]


def replay(segments: Iterable[tuple[int, bytes]], start: Producers | None = None, until: int | None = None) -> Replayed:
    """Walk segments one by one, and put the results together."""
    producers, aborted = start or Producers.empty(), {}
    findings: list[Finding] = []
    for base, data in segments:
        one = folded(data, base, until=until)
        findings += one.findings
        producers, aborted[base] = producers.after(one.segment, findings.append)
    return Replayed(producers, aborted, findings)


# --- files of brokers ---------------------------------------------------------------------------------------
ROOTS = [FIXTURES / "damage" / "intact", FIXTURES / "kafka-4.3.1", FIXTURES / "releases"]
PARTITIONS = sorted(
    {
        path.parent
        for root in ROOTS
        for kind, least in (("txnindex", 1), ("snapshot", 56))  # one entry
        for path in root.rglob(f"{'?' * 20}.{kind}")
        if path.stat().st_size >= least and list(path.parent.glob(f"{'?' * 20}.log"))
    }
)
PAYMENTS = FIXTURES / "damage" / "intact" / "txn" / "logdir" / "payments-0"

# What releases before 2.8 wrote otherwise: 0.11 took an end marker for the last batch; until 2.0 the timestamp was that
# of the last batch, not of the marker after it.
OTHERWISE = {"0.11.0.3": ("last_offset", "offset_delta"), "1.1.1": ("timestamp",), "2.0.1": ("timestamp",)}
# Compaction has removed the last end marker of a producer, which had raised its epoch.
LOST = {"compacttxn-0"}


def name(partition: Path) -> str:
    return str(partition.relative_to(FIXTURES))


def logs(partition: Path) -> list[tuple[int, bytes]]:
    return sorted((int(path.stem), path.read_bytes()) for path in partition.glob(f"{'?' * 20}.log"))


def snapshots(partition: Path) -> dict[int, Sequence[ProducerStateEntry]]:
    found = {int(path.stem): path.read_bytes() for path in sorted(partition.glob(f"{'?' * 20}.snapshot"))}
    return {offset: read_snapshot(BytesSource(data)).entries for offset, data in found.items()}


def stored_index(partition: Path, base: int) -> bytes:
    path = partition / f"{base:020}.txnindex"
    return path.read_bytes() if path.exists() else b""


def start_of(partition: Path) -> Producers:
    """What a broker begins with: nothing, or the snapshot at the first segment."""
    base = logs(partition)[0][0]
    return Producers.of_snapshot(snapshots(partition).get(base, ()) if base else (), base)


def test_there_are_files_to_compare_with() -> None:
    held = [len(snapshot) for partition in PARTITIONS for snapshot in snapshots(partition).values()]
    indexes = [stored_index(partition, base) for partition in PARTITIONS for base, _ in logs(partition)]
    assert sum(map(bool, held)) > 80
    assert sum(map(bool, indexes)) > 30


@pytest.mark.parametrize("partition", PARTITIONS, ids=name)
def test_the_replay_gives_the_transaction_indexes_of_the_broker(partition: Path) -> None:
    found = replay(logs(partition), start_of(partition))
    assert found.findings == []
    assert found.producers.complete
    for base, aborted in found.aborted.items():
        assert TransactionIndex.encode(aborted) == stored_index(partition, base), base


@pytest.mark.parametrize("partition", PARTITIONS, ids=name)
def test_the_replay_gives_the_snapshots_of_the_broker(partition: Path) -> None:
    """Those that were taken inside a segment too; the last offset of a log is the end of the last one."""
    segments, start = logs(partition), start_of(partition)
    release = next((part for part in partition.parts if part in OTHERWISE), None)
    differing = set()
    for offset, stored in snapshots(partition).items():
        known = replay([one for one in segments if one[0] < offset], start, until=offset).producers
        masked = dict.fromkeys(OTHERWISE[release], 0) if release else {}
        as_stored = {entry.producer_id: entry._replace(**masked) for entry in stored}
        if as_stored != {producer: entry._replace(**masked) for producer, entry in known.entries.items()}:
            differing.add(offset)
        elif offset > start.start:
            assert judged_snapshot(stored, known) == []
    assert bool(differing) == (partition.name in LOST)


@pytest.mark.parametrize("partition", PARTITIONS, ids=name)
def test_nothing_is_wrong_with_the_transaction_indexes_of_a_broker(partition: Path) -> None:
    assert [one.code.name for one in judged_indexes(partition)] == []


@pytest.mark.parametrize("partition", PARTITIONS, ids=name)
@pytest.mark.parametrize("rows", [1, 3])
def test_one_walk_over_all_segments_says_the_same(partition: Path, rows: int) -> None:
    segments, start = logs(partition), start_of(partition)
    found = replay(segments, start)
    fold = ProducerFold("log", unexpected, LIMIT, report_controls=True)
    with windows_of(rows=rows):
        for base, data in segments:
            for window in windows(data, base):
                fold.step(window)
    producers, aborted = start.after(fold.finish(), unexpected)
    assert producers == found.producers
    assert aborted == [txn for index in found.aborted.values() for txn in index]


# --- a model ------------------------------------------------------------------------------------------------
class Event(NamedTuple):
    """A batch of one producer: plain, txn, commit, abort, or a control batch that compaction has emptied."""

    producer: int
    kind: str
    epoch: int = 0
    records: int = 1

    @property
    def is_control(self) -> bool:
        return self.kind in ("commit", "abort", "empty")


def marker(offset: int, producer: int, kind: int, epoch: int = 0, *, coordinator: int = 7, codec: int = 0) -> bytes:
    record = Record(struct.pack(">hi", 0, coordinator), struct.pack(">hh", 0, kind), timestamp=offset)
    return batch(offset, [record], flags=TRANSACTIONAL | CONTROL, producer=(producer, epoch, -1), codec=codec)


def written(event: Event, offset: int) -> bytes:
    """The batch of an event."""
    producer, kind, epoch, records = event
    if kind == "empty":
        return batch(offset, [], flags=TRANSACTIONAL | CONTROL, producer=(producer, epoch, -1), last_delta=0)
    if event.is_control:
        return marker(offset, producer, COMMIT if kind == "commit" else ABORT, epoch, coordinator=offset % 5)
    flags = TRANSACTIONAL if kind == "txn" else 0
    sequence = (producer, epoch, offset * 3)
    return batch(offset, [Record(timestamp=offset)] * records, flags=flags, producer=sequence)


class Broker:
    """ProducerStateManager and ProducerAppendInfo, a batch at a time."""

    def __init__(self) -> None:
        self.entries: dict[int, ProducerStateEntry] = {}
        self.ongoing: dict[int, int] = {}
        self.aborted: list[AbortedTxn] = []
        self.fails = False

    def append(self, event: Event, offset: int) -> None:
        producer = event.producer
        entry = self.entries.get(producer, ProducerStateEntry(producer, -1, -1, -1, 0, -1, -1, -1))
        if event.kind != "empty":
            if entry.producer_epoch != event.epoch:
                entry = entry._replace(producer_epoch=event.epoch, last_sequence=-1, last_offset=-1, offset_delta=0)
            entry = entry._replace(timestamp=TIME + offset)
            entry = self._end(entry, event, offset) if event.is_control else self._data(entry, event, offset)
        self.entries[producer] = entry

    def _data(self, entry: ProducerStateEntry, event: Event, offset: int) -> ProducerStateEntry:
        is_open = entry.current_txn_first_offset >= 0
        if event.kind == "txn" and not is_open:
            entry = entry._replace(current_txn_first_offset=offset)
            self.ongoing[offset] = event.producer
        self.fails = self.fails or (event.kind == "plain" and is_open)
        delta = event.records - 1
        return entry._replace(last_sequence=offset * 3 + delta, last_offset=offset + delta, offset_delta=delta)

    def _end(self, entry: ProducerStateEntry, event: Event, offset: int) -> ProducerStateEntry:
        first = entry.current_txn_first_offset
        if first >= 0:
            del self.ongoing[first]
            if event.kind == "abort":
                stable = min(self.ongoing, default=offset + 1)
                self.aborted.append(AbortedTxn(0, event.producer, first, offset, stable))
        return entry._replace(coordinator_epoch=offset % 5, current_txn_first_offset=-1)


events = st.builds(
    Event,
    st.integers(0, 3),
    st.sampled_from(["plain", "txn", "txn", "txn", "commit", "abort", "abort", "empty"]),
    st.integers(0, 1),
    st.integers(1, 3),
)
histories = st.lists(st.tuples(events, st.booleans()), max_size=30)


@given(histories, st.integers(1, 8))
def test_however_a_log_is_cut_the_replay_is_what_a_broker_does(history: list[tuple[Event, bool]], rows: int) -> None:
    """Each event says too whether a segment begins with it."""
    broker, offset = Broker(), 0
    segments: list[tuple[int, list[bytes]]] = []
    for event, begins in history:
        if begins or not segments:
            segments.append((offset, []))
        segments[-1][1].append(written(event, offset))
        broker.append(event, offset)
        offset += 1 if event.is_control else event.records
    with windows_of(rows=rows):
        found = replay((base, log(parts)) for base, parts in segments)
    assert found.producers == Producers(broker.entries, True, 0)
    assert [txn for index in found.aborted.values() for txn in index] == broker.aborted
    assert {one.code.name for one in found.findings} == ({"P03"} if broker.fails else set())


# --- one segment --------------------------------------------------------------------------------------------
def txn(offset: int, producer: int = 1, *, flags: int = TRANSACTIONAL, sequence: int = 0) -> bytes:
    return batch(offset, flags=flags, producer=(producer, 0, sequence))


def test_a_batch_outside_of_the_open_transaction_is_told_once() -> None:
    parts = [txn(0), txn(1, flags=0), txn(2, flags=0), marker(3, 1, COMMIT), txn(4), txn(5, flags=0)]
    found = folded(log(parts)).findings
    assert [(one.code.name, one.offset) for one in found] == [("P03", 1), ("P03", 5)]
    assert (found[0].position, found[0].length, found[0].last_offset) == (len(parts[0]), len(parts[1]), 1)
    assert "producer 1 writes outside of its transaction, open since 0" in found[0].message


def test_a_transaction_from_before_the_segment_may_be_open() -> None:
    found = replay([(0, txn(0)), (1, log([batch(1), txn(2, flags=0), txn(3, flags=0)]))]).findings
    assert [(one.code.name, one.offset) for one in found] == [("P03", 2)]
    assert folded(log([txn(2, flags=0), txn(3)]), 2).findings == []


def test_what_cannot_be_trusted_is_passed_over() -> None:
    wrong = bytearray(txn(1, producer=2))
    wrong[-1] ^= 1
    one = folded(log([txn(0), bytes(wrong), txn(2, flags=0)]))
    assert not one.segment.complete
    assert set(one.segment.entries) == {1}
    assert one.findings == []  # an end marker may be lost


@pytest.mark.parametrize("broken", [b"\xff" * 20, bytes(200)])
def test_lost_bytes_make_the_result_incomplete(broken: bytes) -> None:
    assert not folded(log([txn(0), broken, txn(1)])).segment.complete


def test_offsets_that_cannot_be_right_make_the_result_incomplete() -> None:
    assert not folded(log([txn(0), txn(5), txn(2)])).segment.complete
    assert not folded(txn(0), base=4).segment.complete


def test_an_incomplete_segment_leaves_all_after_it_incomplete() -> None:
    found = replay([(0, log([txn(0), b"\xff" * 20])), (1, txn(1, flags=0))])
    assert not found.producers.complete
    assert found.findings == []


BAD_CONTROLS = {
    "key of a control record has 2 bytes": (b"\0\0", bytes(6)),
    "key of a control record has 0 bytes": (None, bytes(6)),
    "version of a control record is negative": (b"\xff\xff\0\0", bytes(6)),
    "type of a control record is 6": (b"\0\0\0\6", bytes(6)),
    "value of a transaction marker has 3 bytes": (b"\0\0\0\0", bytes(3)),
    "value of a transaction marker has -1 bytes": (b"\0\0\0\1", None),
    "version of a transaction marker is negative": (b"\0\0\0\1", b"\xff" + bytes(5)),
}


@pytest.mark.parametrize("why", BAD_CONTROLS)
def test_a_control_record_that_a_broker_cannot_replay_is_told_once(why: str) -> None:
    """By the fold where no records are read, else with the records."""
    key, value = BAD_CONTROLS[why]
    bad = batch(1, [Record(value, key)], flags=TRANSACTIONAL | CONTROL, producer=(1, 0, -1))
    data = log([txn(0), bad, txn(2, flags=0)])
    shallow, deep = folded(data), folded(data, controls=False)
    assert deep == Folded(shallow.segment, [])
    assert not shallow.segment.complete
    (told,) = shallow.findings
    assert why in told.message
    chunks = [chunk for window in windows(data, 0) for chunk in RecordReader(LIMIT).chunks(window)]
    checks = RecordChecks("log")
    by_records = [one for chunk in chunks for one in checks.check(chunk)]
    assert by_records == [told]


def test_only_the_first_record_of_a_control_batch_counts() -> None:
    good, bad = Record(bytes(6), b"\0\0\0\0"), Record(b"", b"")
    data = log([txn(0), batch(1, [good, bad], flags=TRANSACTIONAL | CONTROL, producer=(1, 0, -1))])
    found = replay([(0, data)])
    assert found.aborted == {0: [AbortedTxn(0, 1, 0, 1, 2)]}
    assert found.findings == []


def test_a_compressed_marker_is_read() -> None:
    found = replay([(0, log([txn(0), marker(1, 1, ABORT, codec=GZIP)]))])
    assert found.aborted == {0: [AbortedTxn(0, 1, 0, 1, 2)]}


@pytest.mark.parametrize("body", [b"\xff" * 30, b""])
def test_a_control_batch_that_cannot_be_read_makes_the_result_incomplete(body: bytes) -> None:
    """What is wrong with it the records say."""
    bad = batch(1, flags=TRANSACTIONAL | CONTROL, producer=(1, 0, -1), body=body)
    one = folded(log([txn(0), bad]))
    assert not one.segment.complete
    assert one.findings == []


def test_a_control_batch_over_the_limit_makes_the_result_incomplete() -> None:
    fold = ProducerFold("log", unexpected, LIMIT, report_controls=True)
    large = batch(0, [Record(bytes(9000), b"\0\0\0\0")], flags=TRANSACTIONAL | CONTROL, producer=(1, 0, -1))
    with windows_of(size=4096):
        for window in windows(large, 0, max_batch=1000):
            assert not window.has_record_bytes
            fold.step(window)
    assert not fold.finish().complete


def test_sequences_begin_again_after_the_last_one() -> None:
    data = batch(0, [b"a", b"b", b"c"], producer=(1, 0, 2**31 - 2))
    assert folded(data).segment.entries[1].last_sequence == 0
    data = batch(0, [b"a", b"b"], producer=(1, 0, -1))  # a coordinator writes no sequences
    assert folded(data).segment.entries[1].last_sequence == -1


def test_a_walk_holds_no_more_than_its_producers_and_aborted_transactions() -> None:
    parts = [txn(0, producer=9)]
    for offset in range(1, 4000, 2):
        parts += [txn(offset), marker(offset + 1, 1, COMMIT)]
    fold = ProducerFold("log", unexpected, LIMIT, report_controls=True)
    for window in windows(log(parts), 0):
        fold.step(window)
        assert len(fold._heap) < 100
    segment = fold.finish()
    assert (len(segment.entries), len(segment.ends), segment.aborts) == (2, 1, [])


# --- the transaction index ----------------------------------------------------------------------------------
def judged_index(
    data: bytes, expected: list[AbortedTxn], base: int, end: int, *, first_known: int = 0, complete: bool = True
) -> list[Finding]:
    found: list[Finding] = []
    source = BytesSource(data, "txnindex")
    check_aborted(source, base, expected, complete=complete, first_known=first_known, end=end, report=found.append)
    for one in found:
        check_words(one)
    return found


def judged_indexes(partition: Path) -> list[Finding]:
    """Judge all transaction indexes of a partition."""
    segments = logs(partition)
    replayed = replay(segments, start_of(partition))
    ends = [base for base, _ in segments[1:]] + [2**62]
    found = [*replayed.findings]
    for (base, aborted), end in zip(replayed.aborted.items(), ends, strict=True):
        complete = replayed.producers.complete
        found += judged_index(stored_index(partition, base), aborted, base, end, complete=complete)
    return found


CASES = {case.name: case for case in damage_cases(FIXTURES / "damage")}
MARKERS = ("p03-abort-becomes-commit", "p03-commit-becomes-abort", "p05-nontxn-in-txn")
TOLD = {"p05-nontxn-in-txn": ["P03"]}  # P01 is told by the headers


@pytest.mark.parametrize("case", [name for name in CASES if name.startswith("a0") or name in MARKERS])
def test_damage_is_told(case: str, tmp_path: Path) -> None:
    partition = CASES[case].build(tmp_path / "logdir") / "payments-0"
    codes = {one.code.name for one in judged_indexes(partition)}
    assert codes == set(TOLD.get(case, CASES[case].codes))


@pytest.mark.parametrize("case", [name for name in CASES if name.startswith("p03-control")])
def test_an_index_is_not_blamed_for_what_is_wrong_with_the_log(case: str, tmp_path: Path) -> None:
    partition = CASES[case].build(tmp_path / "logdir") / "payments-0"
    assert [one.code.name for one in judged_indexes(partition)] == ["P03"]


INDEX = [AbortedTxn(0, 1, 100, 110, 111), AbortedTxn(0, 2, 112, 120, 114), AbortedTxn(0, 1, 114, 130, 131)]
BASE, END = 90, 200


def codes(
    entries: list[AbortedTxn], tail: bytes = b"", *, first_known: int = 0, complete: bool = True
) -> list[tuple[str, int]]:
    """Codes and places of what is wrong with entries that should be those above."""
    found = judged_index(
        TransactionIndex.encode(entries) + tail, INDEX, BASE, END, first_known=first_known, complete=complete
    )
    return [(one.code.name, one.position or 0) for one in found]


def changed(number: int, **fields: int) -> list[AbortedTxn]:
    return [txn._replace(**fields) if k == number else txn for k, txn in enumerate(INDEX)]


def test_each_wrong_number_is_one_finding() -> None:
    assert codes(INDEX) == []
    for number, at in enumerate((0, ENTRY, 2 * ENTRY)):
        assert codes(changed(number, producer_id=77)) == [("A06", at)]
        assert codes(changed(number, first_offset=95)) == [("A06", at)]
        assert codes(changed(number, last_stable_offset=99)) == [("A06", at)]
        assert codes(changed(number, last_stable_offset=1000)) == [("A06", at)]
        assert codes(changed(number, first_offset=131)) == [("A03", at)]
        assert codes(changed(number, last_offset=89)) == [("A03", at)]
        assert codes(changed(number, last_offset=200)) == [("A03", at)]
        assert codes(INDEX[:number] + INDEX[number + 1 :]) == [("A04", at)]
        assert codes([*INDEX[:number], INDEX[number], *INDEX[number:]]) == [("A03", at + ENTRY)]
    assert codes(changed(0, last_offset=125)) == [("A06", 0)]
    assert codes(changed(2, last_offset=115)) == [("A03", 2 * ENTRY)]
    assert codes([*INDEX[:2], AbortedTxn(0, 5, 121, 125, 114), INDEX[2]]) == [("A05", 2 * ENTRY)]
    assert codes([]) == [("A04", 0)] * 3


def test_a_wrong_entry_is_described() -> None:
    data = TransactionIndex.encode(changed(1, last_stable_offset=90))
    (one,) = judged_index(data, INDEX, BASE, END)
    assert (one.position, one.length, one.offset, one.last_offset) == (ENTRY, ENTRY, 112, 120)
    assert (one.field, one.expected, one.found) == ("lastStableOffset", 114, 90)
    (one,) = judged_index(TransactionIndex.encode(INDEX[1:]), INDEX, BASE, END)
    assert (one.position, one.length, one.offset, one.last_offset) == (0, 0, 100, 110)


@pytest.mark.parametrize(("version", "entries"), [(b"\0\1", 3), (b"\1\0", 3), (b"\xff\xff", 3)])
def test_both_bytes_of_a_version_count(version: bytes, entries: int) -> None:
    data = bytearray(TransactionIndex.encode(INDEX))
    data[ENTRY : ENTRY + 2] = version
    (one,) = judged_index(bytes(data), INDEX, BASE, END)
    assert (one.code.name, one.position, one.length) == ("A02", ENTRY, ENTRY)
    assert one.found == int.from_bytes(version, "big", signed=True)


def test_a_partial_entry_is_told_wherever_it_ends() -> None:
    for size in range(1, ENTRY):
        assert codes(INDEX, bytes(size)) == [("A01", 3 * ENTRY)]
        assert codes(INDEX, bytes(size), complete=False) == [("A01", 3 * ENTRY)]


def test_without_a_complete_replay_an_entry_is_judged_by_itself() -> None:
    assert codes([], complete=False) == []
    assert codes(changed(1, first_offset=95, last_stable_offset=1), complete=False) == []
    assert codes(changed(1, first_offset=121), complete=False) == [("A03", ENTRY)]
    assert codes(changed(1, last_offset=110), complete=False) == [("A03", ENTRY)]


def test_what_began_before_the_replay_is_not_judged() -> None:
    assert codes(changed(0, first_offset=60), first_known=105) == []
    assert codes([AbortedTxn(0, 8, 60, 107, 100), *INDEX], first_known=105) == []
    assert codes(changed(2, last_stable_offset=60), first_known=105) == []
    assert codes(changed(2, last_stable_offset=106), first_known=105) == [("A06", 2 * ENTRY)]


def test_a_follower_may_know_of_transactions_after_the_marker() -> None:
    """It takes several batches at once, and all of them before it writes an entry: ProducerStateManager.update."""
    assert codes(changed(0, last_stable_offset=112)) == []
    assert codes(changed(0, last_stable_offset=113)) == [("A06", 0)]  # a reader would miss the next entry
    assert codes(changed(1, last_stable_offset=115)) == [("A06", ENTRY)]
    assert codes(changed(2, last_stable_offset=199)) == []
    assert codes(changed(2, last_stable_offset=200)) == [("A06", 2 * ENTRY)]


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_judged(data: bytes, complete: bool) -> None:
    found = judged_index(data, INDEX, BASE, END, complete=complete)
    assert all((one.position or 0) + (one.length or 0) <= len(data) for one in found)


# --- snapshots ----------------------------------------------------------------------------------------------
def judged_snapshot(entries: Sequence[ProducerStateEntry], known: Producers) -> list[Finding]:
    found: list[Finding] = []
    check_snapshot(entries, "snapshot", known, found.append)
    for one in found:
        check_words(one)
    return found


ALL = [ProducerStateEntry(key, 3, 50 + key, 200 + key, 2, TIME, 7, 190 if key == 4 else -1) for key in range(1, 9)]
KNOWN = Producers.of_snapshot(ALL, 100)


@pytest.mark.parametrize(
    "change",
    [
        {"producer_epoch": 4},
        {"last_sequence": 9},
        {"last_offset": 150},
        {"offset_delta": 3},
        {"coordinator_epoch": 8},
        {"current_txn_first_offset": 180},
        {"producer_id": 99},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_snapshot_that_says_something_else_is_told(change: dict[str, int]) -> None:
    (one,) = judged_snapshot([ALL[0]._replace(**change), *ALL[1:]], KNOWN)
    assert (one.code.name, one.severity, one.count) == ("S03", Severity.WARNING, 1)
    assert f"id {change.get('producer_id', 1)}" in one.message
    assert judged_snapshot([ALL[0]._replace(**change)], KNOWN.replace(complete=False)) == []


def test_what_a_release_or_expiry_explains_is_not_told() -> None:
    assert judged_snapshot(ALL[3:], KNOWN) == []
    one = ALL[0]
    assert judged_snapshot([one._replace(timestamp=1)], KNOWN) == []
    assert judged_snapshot([one._replace(last_offset=205, offset_delta=0)], KNOWN) == []
    assert judged_snapshot([one._replace(coordinator_epoch=-1)], KNOWN) == []
    assert judged_snapshot([one._replace(last_offset=-1, last_sequence=-1, offset_delta=0)], KNOWN) == []
    assert judged_snapshot([one._replace(producer_id=99, last_offset=99)], KNOWN) == []


def test_many_producers_are_one_finding() -> None:
    (one,) = judged_snapshot([entry._replace(last_sequence=0) for entry in ALL], KNOWN)
    assert one.count == 8
    assert "producers (id 1, 2, 3, 4, 5 ...), 8 in all" in one.message


def test_damage_of_a_snapshot_is_told(tmp_path: Path) -> None:
    partition = CASES["s03-last-disagrees"].build(tmp_path / "logdir") / "payments-0"
    counted = Counter(
        one.code.name
        for offset, stored in snapshots(partition).items()
        for one in judged_snapshot(stored, replay(logs(partition), until=offset).producers)
    )
    assert counted == {"S03": 1}


# --- open transactions --------------------------------------------------------------------------------------
def test_open_transactions_are_notes() -> None:
    data = log([txn(0, producer=3), txn(1, producer=2), txn(2, producer=1), marker(3, 2, ABORT)])
    found = list(open_transactions(replay([(0, data)]).producers, "log", 4, is_lone=False))
    assert [(one.code.name, one.severity) for one in found] == [("P04", Severity.NOTE)] * 2
    assert [(one.offset, one.last_offset) for one in found] == [(0, 3), (2, 3)]
    assert "producer 3" in found[0].message


def test_a_dropped_marker_leaves_its_transaction_open(tmp_path: Path) -> None:
    partition = CASES["p04-abort-dropped"].build(tmp_path / "logdir") / "payments-0"
    before, after = (replay(logs(one)[:2], until=122).producers.entries[4001] for one in (PAYMENTS, partition))
    assert (before.current_txn_first_offset, after.current_txn_first_offset) == (-1, 115)
