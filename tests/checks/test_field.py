"""What public reports and real log directories have shown: the verdict on each, and on one more of its kind."""

from __future__ import annotations

import errno
import json
import os
from typing import TYPE_CHECKING

import pytest

from kdump.checks.options import VerifyOptions
from kdump.checks.replicas import compare
from kdump.checks.run import verify
from kdump.finding import Code, Finding, Severity
from kdump.rows.steps import Step
from kdump.rows.verdict import Duplicate, Loss
from kdump.storage.file_source import FileSource
from tests.support.make_fixtures import topic_id
from tests.support.partitions import below, checkpoint, meta, name, segment, snapshot, write
from tests.support.segments import batch, wrapper
from tests.support.whole_lines import run_kdump

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kdump.item import Item

LOG = name(0)


def judged(*paths: Path, replicas: bool = False) -> list[Item]:
    """All that verify says."""
    texts = [str(path) for path in paths]
    return list(compare(texts, VerifyOptions()) if replicas else verify(texts, VerifyOptions()))


def findings(items: Sequence[Item], *codes: Code) -> list[Finding]:
    return [one for one in items if isinstance(one, Finding) and one.code in codes]


def rows_of(items: Sequence[Item]) -> list[tuple[int, int, list[int]]]:
    """The offsets that are there twice, and the positions of their batches."""
    found = [one for one in items if isinstance(one, Duplicate)]
    return [(one.offset, one.last_offset, [place.position for place in one.places]) for one in found]


def counted(first: int, last: int, epoch: int = 0, value: bytes = b"v") -> bytes:
    """A batch with these offsets."""
    return batch(first, [value] * (last - first + 1), epoch=epoch)


def simple(first: int, last: int, epoch: int = 0) -> dict[str, bytes]:
    """A partition of one sound segment."""
    return {**segment(first, [counted(first, last, epoch)]), "leader-epoch-checkpoint": checkpoint((epoch, first))}


# --- offsets that are there twice ---------------------------------------------------------------------------
@pytest.mark.parametrize(("value", "words"), [(b"v", "with the same records"), (b"w", "with other records")])
def test_a_batch_that_begins_below_the_end_is_told_as_duplicates_and_not_as_loss(
    value: bytes, words: str, tmp_path: Path
) -> None:
    parts = [counted(0, 9), counted(10, 19), counted(15, 24, 1, value), counted(25, 29, 1)]
    epochs = checkpoint((0, 0), (1, 15))
    write(tmp_path / "events-20", {**segment(0, parts), "leader-epoch-checkpoint": epochs})
    items = judged(tmp_path / "events-20")
    assert [one.code for one in findings(items, Code.O03, Code.O08)] == [Code.O03, Code.O08]
    assert rows_of(items) == [(15, 19, [len(parts[0]), len(parts[0]) + len(parts[1])])]
    assert words in findings(items, Code.O08)[0].message
    assert not [one for one in items if isinstance(one, Loss)]
    (step,) = (one for one in items if isinstance(one, Step))
    assert step.why.startswith("nothing to do: every record is readable (O03 offset-order, O08 offsets-twice in ")
    assert step.loses.records == 0


@pytest.mark.parametrize("magic", [0, 1])
def test_wrappers_whose_inner_offsets_go_back_have_offsets_twice(magic: int, tmp_path: Path) -> None:
    def wrapped(first: int, last: int) -> bytes:
        return wrapper(magic, first, [b"v"] * (last - first + 1))

    parts = [wrapped(0, 4), wrapped(3, 9)]
    write(tmp_path / "old-0", {LOG: b"".join(parts)})
    items = judged(tmp_path / "old-0")
    assert rows_of(items) == [(3, 4, [0, len(parts[0])])]
    assert [one for one in items if isinstance(one, Loss)] == []


def test_summary_counts_offsets_that_are_twice(tmp_path: Path) -> None:
    parts = [counted(0, 9), counted(5, 14, 1), counted(15, 19, 1)]
    write(tmp_path / "t-0", {**segment(0, parts), "leader-epoch-checkpoint": checkpoint((0, 0), (1, 5))})
    run = run_kdump(["verify", "--format", "json", "t-0"], tmp_path)
    assert '"offsetsTwice":5,' in run.stdout.decode()
    assert '"type":"duplicate","partition":"t-0","offset":5,"lastOffset":9,"places":[["t-0/' in run.stdout.decode()


# --- offsets far above the name of their segment ------------------------------------------------------------
FAR = 2**31 + 5000


@pytest.mark.parametrize("witness", ["next segment", "snapshot", "its own order"])
def test_several_batches_in_order_far_above_the_name_of_their_segment_are_right(witness: str, tmp_path: Path) -> None:
    near = [counted(0, 3), counted(4, 4)]
    far = [batch(FAR + 2 * at, [b"v"], last_delta=1) for at in range(4)]  # a cleaner has made them short
    count = 4 if witness == "its own order" else 1
    files = {**segment(0, near), LOG: b"".join([*near, *far[:count]]), "leader-epoch-checkpoint": checkpoint((0, 0))}
    end = FAR + 2 * count
    if witness == "next segment":
        files |= segment(end, [counted(end, end + 3)])
    elif witness == "snapshot":
        files[name(end, "snapshot")] = snapshot()
    write(tmp_path / "big-3", files)
    items = judged(tmp_path / "big-3")
    at = sum(map(len, near))
    assert [(one.position, one.offset) for one in findings(items, Code.O09)] == [(at, FAR)]
    assert [one for one in items if isinstance(one, Finding) and one.severity is Severity.ERROR] == []
    assert [one for one in items if isinstance(one, Step)] == []
    run = run_kdump(["find-offset", "big-3", str(FAR)], tmp_path)
    assert (run.exit, f"position: {at} " in run.stdout.decode()) == (0, True)
    run = run_kdump(["reindex", "big-3"], tmp_path)
    assert run.exit == 0
    run = run_kdump(["salvage", "big-3", "--to", "out"], tmp_path)
    assert "nothing is lost" in run.stdout.decode()
    assert (tmp_path / "out" / "big-3" / name(FAR)).exists()


@pytest.mark.parametrize("following", [10, 2**31])
def test_a_batch_that_nothing_bears_out_so_far_above_the_name_is_wrong(following: int, tmp_path: Path) -> None:
    write(
        tmp_path / "t-0",
        {LOG: counted(0, 3) + counted(FAR, FAR + 1), **segment(following, [counted(following, following)])},
    )
    (found,) = findings(judged(tmp_path / "t-0"), Code.O02, Code.O03, Code.O09)
    assert found.code is not Code.O09


# --- topic ids, clusters, brokers ---------------------------------------------------------------------------
def test_a_partition_with_another_topic_id_is_named_with_both_ids(tmp_path: Path) -> None:
    parts = {f"orders-{n}": {**simple(0, 0), **topic_id("D" if n == 1 else "C")} for n in range(3)}
    write(tmp_path, {"meta.properties": meta(1), **_all(parts)})
    (found,) = findings(judged(tmp_path), Code.K09)
    assert (found.severity, found.found, found.expected) == (Severity.WARNING, 21 * "D" + "A", 21 * "C" + "A")
    assert found.file.endswith("orders-1/partition.metadata")
    assert "orders-0, orders-2" in found.message


@pytest.mark.parametrize("suffix", ["-delete", "-stray"])
def test_a_directory_that_is_set_aside_may_have_an_older_topic_id(suffix: str, tmp_path: Path) -> None:
    aside = f"orders-1.{'0' * 32}{suffix}"
    parts = {"orders-0": {**simple(0, 0), **topic_id("C")}, aside: {**simple(0, 0), **topic_id("D")}}
    write(tmp_path, {"meta.properties": meta(1), **_all(parts)})
    assert findings(judged(tmp_path), Code.K09) == []


def test_topic_ids_are_compared_between_log_directories_of_one_cluster_only(tmp_path: Path) -> None:
    for number, letter in enumerate("CD"):
        partition = below(f"orders-{number}", {**simple(0, 0), **topic_id(letter)})
        write(tmp_path / str(number), {"meta.properties": meta(1), **partition})
    both = [tmp_path / "0", tmp_path / "1"]
    assert len(findings(judged(*both), Code.K09)) == 1
    (tmp_path / "1" / "meta.properties").write_bytes(meta(1, "another"))
    assert findings(judged(*both), Code.K09) == []


def test_two_brokers_of_one_cluster_are_a_note_and_two_clusters_a_warning(tmp_path: Path) -> None:
    for node in (1, 2):
        write(
            tmp_path / str(node),
            {"meta.properties": meta(node), **below(f"a-{node}", {**simple(0, 0), **topic_id("C")})},
        )
    both = [tmp_path / "1", tmp_path / "2"]
    (found,) = findings(judged(*both), Code.K10, Code.K11)
    assert (found.code, found.severity, found.found, found.expected) == (Code.K11, Severity.NOTE, 2, 1)
    (tmp_path / "2" / "meta.properties").write_bytes(meta(2, "another"))
    (found,) = findings(judged(*both), Code.K10, Code.K11)
    assert (found.code, found.severity) == (Code.K10, Severity.WARNING)


@pytest.mark.parametrize(
    ("properties", "code", "found", "expected"),
    [
        ({"a": meta(3), "b": meta(3, "another")}, Code.K10, "another", "kdump-fixtures-cluster"),
        ({"a": meta(3), "b": meta(4)}, Code.K11, 4, 3),
        ({"a": meta(4)}, Code.K11, 4, 3),
    ],
)
def test_directories_that_one_configuration_names_and_that_do_not_fit_are_errors(
    properties: dict[str, bytes], code: Code, found: object, expected: object, tmp_path: Path
) -> None:
    for one, text in properties.items():
        write(tmp_path / one, {"meta.properties": text, **below(f"t-{ord(one)}", {**simple(0, 1), **topic_id("C")})})
    (tmp_path / "server.properties").write_text(
        f"process.roles=broker\nnode.id=3\nlog.dirs={','.join(str(tmp_path / one) for one in properties)}\n"
    )
    run = run_kdump(["verify", "--start", "auto", "--format", "json", "server.properties"], tmp_path)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    told = [
        (row["code"], row["severity"], row["found"], row["expected"]) for row in rows if row.get("code") == code.name
    ]
    assert told == [(code.name, "error", found, expected)]
    foretold = [row for row in rows if row["type"] == "prediction"]
    assert {(row["loads"], row["stops"], row["cause"]["code"]) for row in foretold} == {(False, "broker", code.name)}
    assert run.exit == 3


@pytest.mark.parametrize("by", ["server.properties", "the directories"])
def test_a_partition_in_two_directories_of_a_broker_keeps_it_from_starting(by: str, tmp_path: Path) -> None:
    for one, last, letter in (("a", 9, "D"), ("b", 3, "E")):
        own = meta(7) + f"directory.id={21 * letter}A\n".encode()
        write(tmp_path / one, {"meta.properties": own, **below("pay-1", {**simple(0, last), **topic_id("C")})})
    (tmp_path / "server.properties").write_text(f"node.id=7\nlog.dirs={tmp_path}/a,{tmp_path}/b\n")
    paths = ["server.properties"] if by == "server.properties" else ["a", "b"]
    run = run_kdump(["verify", "--start", "auto", "--format", "json", *paths], tmp_path)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    (found,) = [row for row in rows if row.get("code") == "F12"]
    assert "this one ends at offset 4, that one at 10" in found["message"]
    foretold = [row for row in rows if row["type"] == "prediction"]
    assert [(row["loads"], row["stops"], row["cause"]["code"]) for row in foretold] == 2 * [(False, "broker", "F12")]


def test_one_topic_id_has_several_texts(tmp_path: Path) -> None:
    other = {"partition.metadata": b"version: 0\ntopic_id: " + 21 * b"C" + b"P\n"}  # four bits of the last say nothing
    write(tmp_path, _all({"orders-0": {**simple(0, 0), **topic_id("C")}, "orders-1": {**simple(0, 0), **other}}))
    assert findings(judged(tmp_path), Code.K09) == []


# --- partition.metadata -------------------------------------------------------------------------------------
@pytest.mark.parametrize(("properties", "told"), [(meta(1), 1), (b"version=0\nbroker.id=1\n", 0)])
def test_a_missing_topic_id_is_told_where_the_broker_runs_kraft(properties: bytes, told: int, tmp_path: Path) -> None:
    parts = {"orders-0": {**simple(0, 0), **topic_id("C")}, "orders-1": simple(0, 0)}
    write(tmp_path, {"meta.properties": properties, **_all(parts)})
    found = findings(judged(tmp_path), Code.K05)
    assert [one.severity for one in found] == told * [Severity.WARNING]
    assert all("-stray" in one.message and one.file.endswith("orders-1/partition.metadata") for one in found)


# --- copies and other formats -------------------------------------------------------------------------------
def test_a_copy_that_was_made_while_the_broker_ran_is_named_beside_the_election(tmp_path: Path) -> None:
    offsets = {f"{one}-checkpoint": checkpoint(("t", 0, 30)) for one in ("recovery-point-offset", "replication-offset")}
    write(tmp_path, {"meta.properties": b"version=0\n", **offsets, **below("t-0", simple(0, 19))})
    (found,) = findings(judged(tmp_path), Code.K08)
    assert "made while the broker ran" in found.message
    assert "power loss" in found.message


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_a_compressed_log_is_no_damage(suffix: str, tmp_path: Path) -> None:
    begin = {"gz": b"\x1f\x8b\x08\0", "zst": b"\x28\xb5\x2f\xfd"}[suffix]
    write(tmp_path / "t-0", {**simple(0, 3), f"{name(90)}.{suffix}": begin + bytes(60)})
    (found,) = findings(judged(tmp_path / "t-0"), Code.F17, Code.F10)
    assert (found.code, found.severity) == (Code.F17, Severity.NOTE)
    for verb in ("verify", "dump"):
        run = run_kdump([verb, f"t-0/{name(90)}.{suffix}"], tmp_path)
        assert run.exit == 5
        assert "unpack it" in run.stderr.decode()


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_file_that_a_disk_cannot_give_is_told_and_ends_nothing(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first bytes are looked at before anything else: whether somebody has compressed it."""
    write(tmp_path, {f"{LOG}{suffix}": counted(0, 3)})
    intact = FileSource.read_at

    def failing(source: FileSource, position: int, length: int) -> bytes:
        if position == 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return intact(source, position, length)

    monkeypatch.setattr(FileSource, "read_at", failing)
    assert judged(tmp_path / f"{LOG}{suffix}")


def test_a_segment_of_remote_storage_is_read_by_its_leading_digits(tmp_path: Path) -> None:
    fetched = "00000000000000000023-tqimKeZwStOEOwRzT3L5oQ.log"
    write(tmp_path / "fetched", {fetched: counted(23, 26)})
    run = run_kdump(["dump", f"fetched/{fetched}"], tmp_path)
    assert (run.exit, "baseOffset: 23 lastOffset: 26" in run.stdout.decode()) == (0, True)
    run = run_kdump(["verify", f"fetched/{fetched}"], tmp_path)
    assert (run.exit, run.stdout.decode()[:5]) == (0, "SOUND")
    write(tmp_path / "t-0", {fetched: counted(23, 26), **simple(0, 3)})
    assert findings(judged(tmp_path / "t-0"), Code.F01)  # a broker fails over this name in a partition


def test_a_directory_of_segments_of_remote_storage_tells_what_to_name(tmp_path: Path) -> None:
    fetched = "00000000000000000023-tqimKeZwStOEOwRzT3L5oQ"
    write(tmp_path / "fetched", {f"{fetched}.log": counted(23, 26), f"{fetched}.index": b""})
    run = run_kdump(["verify", "fetched"], tmp_path)
    assert run.exit == 10
    assert f"named alone it is judged: fetched/{fetched}.log" in run.stderr.decode()


@pytest.mark.parametrize("path", ["data", "data/kafka/t/0_12", "data/kafka/t/0_12/0-1-v1.log"])
def test_a_segment_of_redpanda_is_named_as_that(path: str, tmp_path: Path) -> None:
    write(tmp_path, {"data/kafka/t/0_12/0-1-v1.log": b"\x1b\x2c\x3d\x4e" + bytes(80)})
    (found,) = findings(judged(tmp_path / path), Code.F18)
    assert found.severity is Severity.NOTE
    run = run_kdump(["verify", path], tmp_path)
    assert run.exit == 5
    assert "Redpanda" in run.stderr.decode()


# --- the metadata log ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(("snapshot", "told"), [(None, True), (5, True), (6, False)])
def test_a_metadata_log_needs_a_snapshot_that_reaches_its_start(
    snapshot: int | None, told: bool, tmp_path: Path
) -> None:
    log = below("__cluster_metadata-0", simple(6, 9))
    if snapshot is not None:
        log[f"__cluster_metadata-0/{snapshot:020}-0000000000.checkpoint"] = counted(0, 1)
    write(tmp_path, {"meta.properties": meta(1), **log})
    found = findings(judged(tmp_path), Code.L18)
    assert [one.severity for one in found] == told * [Severity.ERROR]


# --- owners -------------------------------------------------------------------------------------------------
@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize(("mode", "severity"), [(0o600, Severity.ERROR), (0o666, Severity.NOTE)])
def test_a_file_that_the_owner_of_the_log_directory_may_not_open_is_an_error(
    mode: int, severity: Severity, tmp_path: Path
) -> None:
    given = _given_away(tmp_path, f"pay-0/{LOG}", mode)
    (found,) = findings(judged(tmp_path), Code.K12)
    assert (found.severity, found.file) == (severity, str(given))


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("path", [f"pay-0/{LOG}", f"pay-0/{name(0, 'index')}", "pay-0", "meta.properties"])
def test_what_the_owner_may_not_open_takes_the_log_directory_offline(path: str, tmp_path: Path) -> None:
    given = _given_away(tmp_path / "data", path, 0o700)
    run = run_kdump(["verify", "--start", "auto", "--format", "json", "data"], tmp_path)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    assert [row["file"] for row in rows if row.get("code") == "K12"] == [str(given.relative_to(tmp_path))]
    (row,) = [row for row in rows if row["type"] == "prediction"]
    assert (row["loads"], row["stops"], row["cause"]["code"]) == (False, "logdir", "K12")
    assert "the broker runs as 1000, the owner of the log directory" in row["assumed"]
    assert run_kdump(["verify", "--start", "auto", "--fail-on", "loss", "data"], tmp_path).exit == 3


def _given_away(log_dir: Path, path: str, mode: int) -> Path:
    """A log directory of user 1000, in which one file or directory is root's."""
    write(log_dir, {"meta.properties": meta(1), **below("pay-0", {**simple(0, 3), **topic_id("C")})})
    for one in (log_dir, *log_dir.rglob("*")):
        os.chown(one, 1000, 1000)
    given = log_dir / path
    os.chown(given, 0, 0)
    given.chmod(mode)
    return given


# --- replicas -----------------------------------------------------------------------------------------------
def test_replicas_that_part_are_told_with_their_epochs_and_who_cuts_what(tmp_path: Path) -> None:
    common = [counted(at, at) for at in range(15)]
    one = [*common, *(counted(at, at) for at in range(15, 20))]
    other = [*common, *(counted(at, at, 1, b"w") for at in range(15, 25))]
    write(tmp_path / "1", below("pay-0", {**segment(0, one), "leader-epoch-checkpoint": checkpoint((0, 0))}))
    write(tmp_path / "2", below("pay-0", {**segment(0, other), "leader-epoch-checkpoint": checkpoint((0, 0), (1, 15))}))
    found = findings(judged(tmp_path / "1" / "pay-0", tmp_path / "2" / "pay-0", replicas=True), Code.D01)
    assert "epoch 1 here, epoch 0 there; they part at 15" in found[0].message
    assert "if " in found[0].message
    assert "they part" not in found[1].message  # said once


def test_offsets_that_replicas_lack_are_counted_once(tmp_path: Path) -> None:
    batches = [counted(at, at + 4) for at in range(0, 50, 5)]
    for replica, bad in (("1", {2, 4, 6}), ("2", {2, 4}), ("3", {2, 8})):
        log = b"".join(one[:-1] + bytes([one[-1] ^ 1]) if at in bad else one for at, one in enumerate(batches))
        write(tmp_path / replica, below("pay-0", {**segment(0, batches), LOG: log}))
    run = run_kdump(["verify", "--replicas", *(f"{one}/pay-0" for one in "123"), "--format", "json"], tmp_path)
    row = json.loads(run.stdout.splitlines()[-1])
    told = [row[f"{what}{where}"] for where in ("Lost", "Elsewhere") for what in ("offsets", "records")]
    assert told == [5, 5, 15, 15]
    run = run_kdump(["verify", "--replicas", *(f"{one}/pay-0" for one in "123")], tmp_path)
    assert "5 offsets in no replica, 15 more that another replica has" in run.stdout.decode()


def _all(parts: dict[str, dict[str, bytes]]) -> dict[str, bytes]:
    return {path: data for folder, files in parts.items() for path, data in below(folder, files).items()}
