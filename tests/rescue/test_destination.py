"""`salvage --for LOGDIR`: the result fits the cluster of that log.dir, and the steps put it in place there."""

from __future__ import annotations

import json
import shlex
import struct
from typing import TYPE_CHECKING, Any

import pytest

from kdump.finding import ignore
from kdump.format.batch import layout
from kdump.format.batch.walk import CheckedWalk
from kdump.format.source import BytesSource
from kdump.rescue.fitted_epochs import FittedEpochs
from tests.support import metadata_records as made
from tests.support.fitted_results import fitted, unfit
from tests.support.partitions import Files, below, checkpoint, meta, name, segment, snapshot, write
from tests.support.rescue_loads import log_start
from tests.support.segments import TRANSACTIONAL, Record, batch
from tests.support.whole_lines import run_kdump

if TYPE_CHECKING:
    from pathlib import Path

OLD, NEW, OTHER = made.uuid(1), made.uuid(2), made.uuid(3)
META = {"meta.properties": meta(1)}
METADATA = f"__cluster_metadata-0/{name(0)}"
EPOCHS = "leader-epoch-checkpoint"


def metadata_id(topic_id: str) -> bytes:
    return f"version: 0\ntopic_id: {topic_id}".encode()


def partition(epochs: list[int], topic_id: str | None = OLD, records: int = 10, value: bytes = b"value") -> Files:
    """A partition directory with one batch of each epoch."""
    parts = [batch(k * records, [value] * records, epoch=epoch) for k, epoch in enumerate(epochs)]
    begins = {epoch: k * records for k, epoch in reversed(list(enumerate(epochs)))}
    files = segment(0, parts) | {EPOCHS: checkpoint(*sorted(begins.items()))}
    return files | ({} if topic_id is None else {"partition.metadata": metadata_id(topic_id)})


def metadata_log(*, epoch: int = 0, of: int = 2, partitions: int = 1, replicas: tuple[int, ...] = (1, 2)) -> bytes:
    """The metadata log of a cluster with a topic."""
    records = [made.broker(number) for number in replicas] + [made.topic("orders", of)]
    records += [made.partition(number, of, replicas) for number in range(partitions)]
    records += [made.change(0, of, leader=replicas[0])] * epoch
    return made.log(records)


def cluster(**more: Any) -> Files:
    """The log.dir of a broker with the metadata log, and an empty partition of the new topic."""
    live = partition([], NEW)
    return below("orders-0", live) | {METADATA: metadata_log(**more)} | META


def placed(tmp_path: Path, source: Files, there: Files, *more: str, to: str = "out") -> Any:
    if not (tmp_path / "src").exists():
        write(tmp_path / "src" / "orders-0", source)
        write(tmp_path / "there", there)
    return run_kdump(["salvage", "src/orders-0", "--for", "there", "--to", to, *more], tmp_path)


def rows_of(run: Any, kind: str) -> list[dict[str, Any]]:
    return [row for row in map(json.loads, run.stdout.splitlines()) if row["type"] == kind]


def batches(path: Path) -> list[tuple[int, bytes]]:
    """Leader epoch, and all other bytes, of each batch."""
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        size, epoch = struct.unpack_from(">ii", data, at + 8)
        found.append((epoch, data[at : at + 12] + data[at + 16 : at + 12 + size]))
        at += 12 + size
    return found


# --- leader epochs ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("epochs", "present", "fitted"),
    [
        ([0, 1, 2], 5, [0, 1, 2]),
        ([0, 3, 7, 9], 4, [0, 3, 4, 4]),
        ([7, 8], 0, [0, 0]),
        ([-1, 3, -1, 5], 4, [-1, 3, -1, 4]),
        ([2, 9, 2, 3], 4, [2, 4, 4, 4]),
    ],
)
def test_no_epoch_is_above_the_present_one_or_falls(epochs: list[int], present: int, fitted: list[int]) -> None:
    data = b"".join(batch(k, epoch=epoch) for k, epoch in enumerate(epochs))
    fit, found = FittedEpochs(present), list[int]()
    changed: dict[int, tuple[int, int]] = {}
    for window in CheckedWalk(BytesSource(data, "a"), ignore, next_base=None, max_batch_bytes=1 << 20).windows():
        for part in (window.slice(0, 1), window.slice(1, window.count)):
            out, told = fit.fit(part)
            found += list(out.column(layout.LEADER_EPOCH))
            for k, at in enumerate(out.column(layout.POSITION)):
                start = at - out.origin + layout.LEADER_EPOCH_AT
                stored = int.from_bytes(out.view[start : start + 4], "big", signed=True)
                assert stored == out.cell(k, layout.LEADER_EPOCH)
            changed |= {part.cell(one.row, layout.BASE_OFFSET): (one.before, one.after) for one in told}
    assert found == fitted
    assert changed == {k: pair for k, pair in enumerate(zip(epochs, fitted, strict=True)) if pair[0] != pair[1]}


@pytest.mark.parametrize("limit", [(), ("--max-batch-bytes", "1024")], ids=["held", "larger than is held"])
def test_only_the_epoch_of_a_batch_is_another_and_each_is_a_row(limit: tuple[str, ...], tmp_path: Path) -> None:
    run = placed(tmp_path, partition([0, 4, 6, 9], value=bytes(200)), cluster(epoch=5), "--format", "json", *limit)
    assert run.exit == (5 if limit else 0), run.stderr  # its records were not looked at
    before, after = batches(tmp_path / "src/orders-0" / name(0)), batches(tmp_path / "out/orders-0" / name(0))
    assert [one for one, _ in after] == [0, 4, 5, 5]
    assert [rest for _, rest in after] == [rest for _, rest in before]
    told = [(row["field"], row["from"], row["to"]) for row in rows_of(run, "patched")]
    assert told == [("partitionLeaderEpoch", 6, 5), ("partitionLeaderEpoch", 9, 5)]
    source = (tmp_path / "src/orders-0" / name(0)).read_bytes()
    for row in rows_of(run, "patched"):
        assert int.from_bytes(source[row["position"] :][:4]) == row["from"]
    assert (tmp_path / "out/orders-0" / EPOCHS).read_bytes() == checkpoint((0, 0), (4, 10), (5, 20))
    assert (tmp_path / "out/orders-0/partition.metadata").read_bytes() == metadata_id(NEW)
    (last,) = rows_of(run, "salvage")
    assert (last["topicId"], last["leaderEpoch"], last["copies"]) == (NEW, 5, [])
    (kept,) = rows_of(run, "kept")
    assert (kept["offset"], kept["lastOffset"]) == (0, 39)


def test_a_result_that_fits_as_it_is_has_the_same_bytes(tmp_path: Path) -> None:
    assert placed(tmp_path, partition([0, 1]), cluster(epoch=1)).exit == 0
    assert (tmp_path / "out/orders-0" / name(0)).read_bytes() == (tmp_path / "src/orders-0" / name(0)).read_bytes()


def test_many_rows_of_fields_end_no_row_too_much(tmp_path: Path) -> None:
    """They stand behind what is kept, so they are held back, up to a bound."""
    run = placed(tmp_path, partition([7] * 5000, records=1), cluster(), "--format", "json")
    kept = [(row["offset"], row["lastOffset"]) for row in rows_of(run, "kept")]
    assert len(rows_of(run, "patched")) == 5000
    assert (kept[0][0], kept[-1][1], sum(last - first + 1 for first, last in kept)) == (0, 4999, 5000)


def test_the_result_is_sound_for_verify(tmp_path: Path) -> None:
    placed(tmp_path, partition([0, 3, 8]), cluster(epoch=2))
    run = run_kdump(["verify", "out"], tmp_path)
    assert (run.exit, b"SOUND" in run.stdout) == (0, True)


@pytest.mark.parametrize("flags", [0, TRANSACTIONAL], ids=["idempotent", "in an open transaction"])
@pytest.mark.parametrize("of", [1, 2], ids=["the same topic", "a new topic"])
def test_a_new_topic_knows_no_producer_but_that_of_an_open_transaction(of: int, flags: int, tmp_path: Path) -> None:
    """Another cluster gives the id again, and a broker would take what that producer writes for duplicates."""
    source = segment(0, [batch(0, producer=(7, 0, 0), flags=flags)]) | {"partition.metadata": metadata_id(OLD)}
    there = {METADATA: metadata_log(of=of)} | META
    assert placed(tmp_path, source, there).exit == 0
    log = tmp_path / "out" / "orders-0" / name(1, "snapshot")
    assert (log.read_bytes() == snapshot()) == (of == 2 and not flags)
    assert run_kdump(["verify", "out"], tmp_path).exit == 0


def test_of_damaged_copies_only_leader_epochs_are_others_than_without(tmp_path: Path) -> None:
    count = 0
    for seed in range(24):
        (tmp_path / str(seed)).mkdir()
        made = fitted(tmp_path / str(seed), seed)
        if made is not None:
            assert list(unfit(*made, log_start(made[1]))) == [], seed
            count += 1
    assert count > 12


# --- where the facts come from -----------------------------------------------------------------------------------
def test_without_a_metadata_log_the_partition_there_tells(tmp_path: Path) -> None:
    there = below("orders-0", partition([0, 2], NEW)) | META
    run = placed(tmp_path, partition([0, 4]), there)
    assert run.exit == 0, run.stderr
    assert [epoch for epoch, _ in batches(tmp_path / "out/orders-0" / name(0))] == [0, 2]
    assert (tmp_path / "out/orders-0/partition.metadata").read_bytes() == metadata_id(NEW)


def test_a_metadata_log_may_be_named_itself(tmp_path: Path) -> None:
    write(tmp_path / "src" / "orders-0", partition([0, 4]))
    write(tmp_path / "there", cluster(epoch=1))
    run = run_kdump(["salvage", "src/orders-0", "--for", "there/__cluster_metadata-0/", "--to", "out"], tmp_path)
    assert run.exit == 0, run.stderr
    assert [epoch for epoch, _ in batches(tmp_path / "out/orders-0" / name(0))] == [0, 1]


def test_a_damaged_metadata_log_tells_nothing(tmp_path: Path) -> None:
    there = cluster(epoch=9)
    log = bytearray(there[METADATA])
    log[90] ^= 1
    run = placed(tmp_path, partition([0, 4]), there | {METADATA: bytes(log)})
    assert run.exit == 0, run.stderr
    assert [epoch for epoch, _ in batches(tmp_path / "out/orders-0" / name(0))] == [0, 0]
    assert b"there/orders-0 has them; 1 batch got another leader epoch" in run.stdout
    assert b"the metadata log there is damaged, and was not asked" in run.stdout


def test_another_partition_of_the_topic_tells_its_id_and_no_epoch(tmp_path: Path) -> None:
    there = below("orders-5", partition([0, 8], NEW)) | META
    run = placed(tmp_path, partition([0, 4]), there)
    assert (run.exit, b"nothing there tells whether the topic has that partition" in run.stdout) == (0, True)
    assert [epoch for epoch, _ in batches(tmp_path / "out/orders-0" / name(0))] == [0, 0]


# --- what is refused -----------------------------------------------------------------------------------------------
MAKE = ["kafka-topics.sh", "--bootstrap-server", "HOST:PORT", "--create", "--topic", "orders", "--partitions", "1"]
NO_TOPIC = {METADATA: made.log([made.topic("else", 7), made.partition(0, 7, [1])])} | META
REFUSED: dict[str, tuple[Files, str, list[str]]] = {
    "the metadata log has no such topic": (NO_TOPIC, "has no topic orders", MAKE),
    "nothing tells": (META, "there is no metadata log", MAKE),
    "the metadata log is damaged, and nothing else tells": (
        {METADATA: b"x" * 300} | META,
        "the metadata log there is damaged",
        MAKE,
    ),
    "a partition without its id": (below("orders-0", partition([0], None)) | META, "id", MAKE),
    "several ids": (
        below("orders-0", partition([0], NEW)) | below("orders-1", partition([0], OTHER)) | META,
        "several ids",
        [],
    ),
    "an id that the metadata log does not have": (
        below("orders-0", partition([0], OTHER)) | {METADATA: metadata_log()} | META,
        "several ids",
        [],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_known_is_refused_with_the_step(case: str, tmp_path: Path) -> None:
    there, why, command = REFUSED[case]
    run = placed(tmp_path, partition([0]), there)
    told = run.stderr.decode()
    assert (run.exit, why in told, (tmp_path / "out").exists()) == (12, True, False), told
    if command:
        assert shlex.split(told.strip().splitlines()[0].rpartition(": ")[2]) == command


def test_a_partition_that_the_topic_does_not_have_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "src" / "orders-3", partition([0]))
    write(tmp_path / "there", cluster())
    run = run_kdump(["salvage", "src/orders-3", "--for", "there", "--to", "out"], tmp_path)
    told = run.stderr.decode()
    assert (run.exit, "with 1 partition; give it more" in told) == (12, True)
    assert told.strip().splitlines()[0].endswith("--alter --topic orders --partitions 4")


def test_one_that_is_refused_does_not_stop_the_others(tmp_path: Path) -> None:
    write(
        tmp_path / "src",
        below("orders-0", partition([0])) | below("gone-0", partition([0])) | META,
    )
    write(tmp_path / "there", cluster())
    run = run_kdump(["salvage", "src", "--for", "there", "--to", "out"], tmp_path)
    assert (run.exit, sorted(one.name for one in (tmp_path / "out").iterdir())) == (
        12,
        ["orders-0", "orders-0.salvage.jsonl"],
    )


def test_a_metadata_log_is_for_no_other_cluster(tmp_path: Path) -> None:
    write(tmp_path / "there", cluster())
    write(tmp_path / "src", {METADATA: metadata_log()})
    run = run_kdump(["salvage", "src/__cluster_metadata-0", "--for", "there", "--to", "out"], tmp_path)
    assert (run.exit, b"is the cluster itself" in run.stderr) == (12, True)


@pytest.mark.parametrize("path", ["src", "src/orders-0", "nothing", "file"])
def test_what_is_no_log_dir_is_wrong_use(path: str, tmp_path: Path) -> None:
    write(tmp_path / "src" / "orders-0", partition([0]))
    write(tmp_path / "src" / "deep" / "er", {"x": b""})
    (tmp_path / "file").touch()
    where = "src/deep" if path == "src" else path
    run = run_kdump(["salvage", "src/orders-0", "--for", where, "--to", "out"], tmp_path)
    assert (run.exit, b"--for" in run.stderr) == (2, True), run.stderr


# --- a run before -------------------------------------------------------------------------------------------------
def test_the_same_command_keeps_what_is_whole(tmp_path: Path) -> None:
    first = placed(tmp_path, partition([0, 4]), cluster(epoch=1), "--format", "json")
    write(tmp_path / "there", cluster(epoch=3))  # the cluster has gone on
    again = placed(tmp_path, {}, {}, "--format", "json")
    (row,) = rows_of(again, "salvage")
    assert (again.exit, row["keptFromFormerRun"], row["leaderEpoch"]) == (0, True, 1)
    assert [one["why"] for one in rows_of(again, "step")] == [one["why"] for one in rows_of(first, "step")]


@pytest.mark.parametrize("how", ["without --for", "for another topic", "for an older cluster"])
def test_a_result_for_another_cluster_is_not_kept(how: str, tmp_path: Path) -> None:
    placed(tmp_path, partition([0, 4]), cluster(epoch=2))
    if how == "for another topic":
        there = below("orders-0", partition([], OTHER)) | {METADATA: metadata_log(of=3, epoch=2)}
        write(tmp_path / "there", there)
    elif how == "for an older cluster":
        write(tmp_path / "there", {METADATA: metadata_log(epoch=1)})
    more = () if how == "without --for" else ("--for", "there")
    run = run_kdump(["salvage", "src/orders-0", *more, "--to", "out"], tmp_path)
    assert (run.exit, b"was made for another cluster, or for none" in run.stderr) == (12, True), run.stderr


# --- what a person does --------------------------------------------------------------------------------------------
def commands(run: Any) -> list[list[str] | None]:
    steps = rows_of(run, "step")
    assert {(step["rank"], step["option"]) for step in steps} == {("recommended", 1)}
    assert [step["n"] for step in steps] == list(range(1, len(steps) + 1))
    return [None if step["command"] is None else shlex.split(step["command"]) for step in steps]


def test_the_steps_stop_all_brokers_before_anything_is_moved(tmp_path: Path) -> None:
    run = placed(tmp_path, partition([0, 4]), cluster(), "--format", "json")
    put = "cp -a out/orders-0 LOGDIR/ && chown -R --reference=LOGDIR LOGDIR/orders-0"
    configs = "kafka-configs.sh --bootstrap-server HOST:PORT --alter --entity-type topics --entity-name orders"
    assert [" ".join(one or ["-"]) for one in commands(run)] == [
        f"{configs} --add-config retention.ms=-1,retention.bytes=-1",
        "kafka-server-stop.sh --node-id=1",
        "kafka-server-stop.sh --node-id=2",
        "mkdir -p out.replaced && mv -n there/orders-0 out.replaced/",
        "cp -a out/orders-0 there/ && chown -R --reference=there there/orders-0",
        f"mkdir -p REPLACED && mv -n LOGDIR/orders-0 REPLACED/ && {put}",
        "kdump verify there/orders-0",
        "kafka-server-start.sh -daemon server.properties",
        f"{configs} --delete-config retention.ms,retention.bytes",
        "kdump groups LOGDIR... --topic orders --at WHEN --reset-csv",
    ]
    assert [step["why"].partition(":")[0] for step in rows_of(run, "step")][3:6] == [
        "on broker 1 (host)",
        "on broker 1 (host)",
        "on broker 2 (host)",
    ]


def test_a_retention_of_the_topic_is_given_back(tmp_path: Path) -> None:
    records = [made.topic("orders", 2), made.partition(0, 2, [1]), made.config(2, "orders", "retention.ms", "5")]
    run = placed(tmp_path, partition([0]), cluster() | {METADATA: made.log(records)}, "--format", "json")
    assert " --add-config retention.ms=5 --delete-config retention.bytes" in rows_of(run, "step")[-2]["command"]


def test_records_of_the_new_topic_are_named_first(tmp_path: Path) -> None:
    there = cluster() | below("orders-0", partition([0], NEW))
    run = placed(tmp_path, partition([0]), there, "--format", "json")
    first = rows_of(run, "step")[0]
    assert "they are lost then" in first["why"]
    assert first["command"] == "kdump salvage src/orders-0 --for there --to DIR --name OTHER-0"


def test_a_partition_of_the_same_topic_is_a_source_too(tmp_path: Path) -> None:
    there = {METADATA: metadata_log(of=1)} | META | below("orders-0", partition([0, 0]))
    run = placed(tmp_path, partition([0]), there, "--format", "json")
    wanted = "kdump salvage src/orders-0 there/orders-0 --for there --to DIR"
    steps = rows_of(run, "step")
    assert wanted in [step["command"] for step in steps]
    assert "see that no other replica of orders-0 is sound" in steps[0]["why"]  # Kafka replicates that one


def test_a_sound_replica_of_that_cluster_needs_no_rescue(tmp_path: Path) -> None:
    write(tmp_path / "there", {METADATA: metadata_log(of=1, epoch=4)} | META | below("orders-0", partition([0, 4])))
    run = run_kdump(["salvage", "there/orders-0", "--for", "there", "--to", "out"], tmp_path)
    assert (run.exit, b"its replicas need no rescue" in run.stdout) == (0, True)


def test_a_log_start_there_that_would_delete_records_is_named(tmp_path: Path) -> None:
    there = cluster() | {"log-start-offset-checkpoint": checkpoint(("orders", 0, 5))}
    run = placed(tmp_path, partition([0]), there, "--format", "json")
    assert any("log-start-offset-checkpoint says `orders 0 0`" in step["why"] for step in rows_of(run, "step"))


def test_hostile_names_stay_words(tmp_path: Path) -> None:
    there = "it's; touch PWN"
    write(tmp_path / "src" / "orders-0", partition([0]))
    write(tmp_path / there, cluster())
    run = run_kdump(["salvage", "src/orders-0", "--for", there, "--to", "out", "--format", "json"], tmp_path)
    put = next(one for one in commands(run) if one is not None and one[0] == "cp")
    assert put[:4] == ["cp", "-a", "out/orders-0", f"{there}/"]
    assert put[4:] == ["&&", "chown", "-R", f"--reference={there}", f"{there}/orders-0"]


def test_several_processes_tell_the_same(tmp_path: Path) -> None:
    files = below("orders-0", partition([0, 9])) | below("orders-1", partition([0, 9]))
    write(tmp_path / "src", files | META)
    write(tmp_path / "there", {METADATA: metadata_log(partitions=2)} | META)
    runs = [run_kdump(["salvage", "src", "--for", "there", "--to", f"out{n}", "-j", n], tmp_path) for n in ("1", "2")]
    assert runs[0].stdout.replace(b"out1", b"out2") == runs[1].stdout


def test_runs_of_carve_get_the_id_too(tmp_path: Path) -> None:
    write(tmp_path / "runs", {f"run-00001-{0:020}.log": batch(0, [Record()], epoch=7)})
    write(tmp_path / "there", cluster(epoch=2))
    run = run_kdump(["salvage", "runs", "--name", "orders-0", "--for", "there", "--to", "out"], tmp_path)
    assert run.exit == 0, run.stderr
    assert [epoch for epoch, _ in batches(tmp_path / "out/orders-0" / name(0))] == [2]
    assert (tmp_path / "out/orders-0/partition.metadata").read_bytes() == metadata_id(NEW)
