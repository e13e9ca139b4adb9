"""`kdump repair`: each kind of small file damaged in turn, what is mended, what is left alone, and undo."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from kdump.repair.apply import apply
from kdump.repair.errors import RefusedError
from kdump.repair.guard import check_files
from kdump.repair.places import Places
from kdump.repair.resume_undo import resume, undo
from kdump.rows.plan import KINDS
from kdump.storage.identity import is_cluster_id
from tests.support.repair_trees import BATCHES, broken_all, means, plan_of_repair
from tests.support.runs import FIXTURES, copy_tree, run_kdump
from tests.support.small_damages import CORPORA, damaged, not_loading, one_run, planned, seen, violations
from tests.support.verify_runs import findings_of, loud

if TYPE_CHECKING:
    from collections.abc import Callable

NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
FEW = ("__cluster_metadata-0", "__consumer_offsets-0", "__consumer_offsets-1", "dense-0", "epochs-0", "txn-0")
CLUSTER = "bk62DHJPTQOUKgGAmgTSxQ"
GIVEN = {"cluster.id": CLUSTER, "node.id": "1"}


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A log directory with some partitions, closed by its broker."""
    target = tmp_path / "data"
    target.mkdir()
    for path in NODE.iterdir():
        if path.is_file():
            shutil.copyfile(path, target / path.name)
    for name in FEW:
        copy_tree(NODE / name, target / name)
    for path in target.rglob("*"):
        if os.geteuid() == 0:
            os.chown(path, 1234, 1235)
        if path.is_file():
            path.chmod(0o640)
    (target / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    return target


# --- each kind, damaged in each way ---------------------------------------------------------------------------
def zeros(path: Path, _other: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def empty(path: Path, _other: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path, _other: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2 - 1])


def foreign(path: Path, other: Path) -> None:
    path.write_bytes(other.read_bytes())


def gone(path: Path, _other: Path) -> None:
    path.unlink()


WAYS = (zeros, empty, cut, foreign, gone)
SNAPSHOT, INDEX = "00000000000000000181.snapshot", "00000000000000000181.index"
FILES = {
    "epochs-0/leader-epoch-checkpoint": ("epochs", "txn-0/leader-epoch-checkpoint"),
    "txn-0/partition.metadata": ("partition-metadata", "meta.properties"),
    f"dense-0/{SNAPSHOT}": ("snapshot", "txn-0/00000000000000000000.index"),
    f"dense-0/{INDEX}": ("index", "dense-0/00000000000000000000.index"),
    "meta.properties": ("meta-properties", "recovery-point-offset-checkpoint"),
    "recovery-point-offset-checkpoint": ("checkpoint", "meta.properties"),
    "replication-offset-checkpoint": ("checkpoint", "epochs-0/00000000000000000000.index"),
    "log-start-offset-checkpoint": ("checkpoint", "epochs-0/leader-epoch-checkpoint"),
    "cleaner-offset-checkpoint": ("checkpoint", "txn-0/partition.metadata"),
}
HEALTHY = {  # a broker starts with it as if nothing were wrong
    ("recovery-point-offset-checkpoint", "empty"),
    ("replication-offset-checkpoint", "empty"),
    ("log-start-offset-checkpoint", "empty"),
    ("cleaner-offset-checkpoint", "empty"),
    *((name, "gone") for name in FILES if name.endswith("offset-checkpoint")),
    (f"dense-0/{SNAPSHOT}", "gone"),  # older ones are there
    (f"dense-0/{INDEX}", "empty"),  # lookups begin at the start of the log
}


def test_the_directory_is_sound_at_first(log_dir: Path) -> None:
    assert loud(findings_of(log_dir)) == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("way", WAYS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("name", FILES)
def test_a_small_file_is_mended_and_undo_gives_it_back(name: str, way: Callable[..., None], log_dir: Path) -> None:
    kind, other = FILES[name]
    way(log_dir / name, log_dir / other)
    is_healthy = (name, way.__name__) in HEALTHY
    plan, _ = planned(log_dir, given=GIVEN)
    assert {one.kind for one in plan.changes} <= {kind}
    assert bool(plan.changes) != is_healthy, [one.why for one in plan.left]
    counts: Counter[str] = Counter()
    assert list(violations(log_dir, log_dir.parent / "q", GIVEN, counts)) == []
    if plan.changes:
        resume_after_undo(log_dir)
        assert loud(findings_of(log_dir)) == []
        assert not_loading(log_dir) == []


def resume_after_undo(log_dir: Path) -> None:
    """Repair again, in another quarantine."""
    plan, _ = planned(log_dir, given=GIVEN)
    quarantine = log_dir.parent / "again"
    apply(plan, str(quarantine), [], means())
    (journal,) = quarantine.glob("*/journal.json")
    with_nothing_left = resume(str(journal), means())
    assert with_nothing_left.was_done


def test_all_kinds_at_once_have_one_journal(log_dir: Path) -> None:
    for name, (_, other) in FILES.items():
        zeros(log_dir / name, log_dir / other)
    before = seen(log_dir)
    plan, _ = planned(log_dir, given=GIVEN)
    assert {one.kind for one in plan.changes} == set(KINDS) - {"header", "zeros"}
    assert plan.changes[-1].name == "meta.properties", "a broker does not start before all else is done"
    done = apply(plan, str(log_dir.parent / "q"), [], means())
    fields = json.loads(Path(done.journal).read_text("ascii"))
    assert {one["name"] for one in fields["changes"]} == {one.name for one in plan.changes}
    assert loud(findings_of(log_dir)) == []
    assert [one.owner for one in seen(log_dir).values()] == [one.owner for one in before.values()]
    undo(done.journal, means())
    assert seen(log_dir) == before


def test_a_header_is_patched_and_its_indexes_are_built_of_what_it_is_then(log_dir: Path) -> None:
    log = log_dir / "dense-0" / "00000000000000000181.log"
    data = bytearray(log.read_bytes())
    second = 12 + int.from_bytes(data[8:12], "big")
    data[second + 7] ^= 1  # its base offset
    log.write_bytes(data)
    zeros(log_dir / "dense-0" / INDEX, log)
    plan, _ = planned(log_dir)
    assert {one.kind for one in plan.changes} == {"header", "index"}
    assert list(violations(log_dir, log_dir.parent / "q", {}, Counter())) == []


# --- what is left alone ---------------------------------------------------------------------------------------
def why_left(log_dir: Path, *others: Path, given: dict[str, str] | None = None) -> str:
    plan, _ = planned(log_dir, *others, given=given)
    assert not plan.changes
    return "\n".join(one.why for one in plan.left)


def test_without_a_witness_meta_properties_is_left_alone_and_the_options_are_named(log_dir: Path) -> None:
    zeros(log_dir / "meta.properties", log_dir)
    assert "--cluster-id ID" in why_left(log_dir)
    assert "--node-id N" in why_left(log_dir, given={"cluster.id": CLUSTER})


def test_what_the_user_says_against_a_line_that_is_there_is_refused(log_dir: Path) -> None:
    path = log_dir / "meta.properties"
    path.write_text(path.read_text("latin-1").replace("node.id=1\n", ""))
    why = why_left(log_dir, given={"cluster.id": "another", "node.id": "1"})
    assert f"its cluster.id is not certain: {CLUSTER} by its own line, another by --cluster-id" in why


def test_a_number_whose_digits_may_be_gone_is_no_witness(log_dir: Path) -> None:
    (log_dir / "meta.properties").write_bytes(b"version=1\ncluster.id=" + CLUSTER.encode() + b"\nnode.id=1")
    plan, _ = planned(log_dir)
    assert not plan.changes, "the file is sound: Java reads it"
    (log_dir / "meta.properties").write_bytes(b"version=1\nx\0=\nnode.id=1")
    assert "its cluster.id" in why_left(log_dir, given={"node.id": "1"})


def test_another_log_directory_of_the_broker_tells_its_ids(log_dir: Path) -> None:
    other = log_dir.parent / "other"
    other.mkdir()
    (other / "meta.properties").write_text(f"version=1\ncluster.id={CLUSTER}\nnode.id=1\n")
    empty(log_dir / "meta.properties", other)
    plan, _ = planned(log_dir, other)
    (change,) = plan.changes
    assert change.content is not None
    lines = change.content.data().decode().splitlines()
    assert lines[:3] == ["version=1", f"cluster.id={CLUSTER}", "node.id=1"]
    (other / "meta.properties").write_text("version=1\ncluster.id=another\nnode.id=2\n")
    third = log_dir.parent / "third"
    third.mkdir()
    (third / "meta.properties").write_text(f"version=1\ncluster.id={CLUSTER}\nnode.id=1\n")
    assert "is not certain" in why_left(log_dir, other, third)


def test_the_directory_id_is_the_one_that_the_cluster_has_registered(log_dir: Path) -> None:
    before = (log_dir / "meta.properties").read_text("latin-1")
    empty(log_dir / "meta.properties", log_dir)
    plan, _ = planned(log_dir, given=GIVEN)
    (change,) = plan.changes
    assert change.content is not None
    (line,) = (one for one in before.splitlines() if one.startswith("directory.id"))
    assert line in change.content.data().decode().splitlines()


def test_a_topic_that_the_metadata_log_does_not_have_gets_no_id(log_dir: Path) -> None:
    copy_tree(log_dir / "txn-0", log_dir / "nobody-0")
    for path in (log_dir / "nobody-0").iterdir():
        os.chown(path, 1234 if os.geteuid() == 0 else -1, -1)
    empty(log_dir / "nobody-0" / "partition.metadata", log_dir)
    assert "the metadata log has no topic nobody" in why_left(log_dir)


def test_without_a_metadata_log_the_other_partitions_of_the_topic_tell_its_id(log_dir: Path) -> None:
    shutil.rmtree(log_dir / "__cluster_metadata-0")
    empty(log_dir / "__consumer_offsets-0" / "partition.metadata", log_dir)
    empty(log_dir / "txn-0" / "partition.metadata", log_dir)
    plan, _ = planned(log_dir)
    assert [one.name for one in plan.changes] == ["__consumer_offsets-0/partition.metadata"]
    assert "no other partition of topic txn has its id" in "\n".join(one.why for one in plan.left)
    (log_dir / "__consumer_offsets-1" / "partition.metadata").write_text(f"version: 0\ntopic_id: {CLUSTER}")
    copy_tree(log_dir / "__consumer_offsets-1", log_dir / "__consumer_offsets-2")
    (log_dir / "__consumer_offsets-2" / "partition.metadata").write_text("version: 0\ntopic_id: X_HnexTiS3SDqWX6TiFSKg")
    assert "have different ids" in why_left(log_dir)


def test_whole_files_of_another_topic_are_never_changed(log_dir: Path) -> None:
    foreign(log_dir / "txn-0" / "partition.metadata", log_dir / "dense-0" / "partition.metadata")
    plan, _ = planned(log_dir)
    assert not plan.changes


def test_the_witness_of_a_lost_end_stays(log_dir: Path) -> None:
    """Recovery points, high watermarks and epochs above the end: a broker lowers them itself."""
    with (log_dir / "epochs-0" / "leader-epoch-checkpoint").open("a") as file:
        file.write("99 100000\n")
    lines = (log_dir / "epochs-0" / "leader-epoch-checkpoint").read_text("ascii").splitlines()
    lines[1] = str(len(lines) - 2)
    (log_dir / "epochs-0" / "leader-epoch-checkpoint").write_text("\n".join(lines) + "\n")
    path = log_dir / "recovery-point-offset-checkpoint"
    path.write_text("".join("epochs 0 99999\n" if one.startswith("epochs ") else one for one in lines_of(path)))
    assert "epoch 99 begins at offset 100000" in why_left(log_dir)


def lines_of(path: Path) -> list[str]:
    return path.read_text("ascii").splitlines(keepends=True)


def test_a_log_start_above_the_end_goes_and_nothing_else_of_its_file(log_dir: Path) -> None:
    path = log_dir / "log-start-offset-checkpoint"
    path.write_text("0\n2\nepochs 0 99999\ntxn 0 3\n")
    plan, _ = planned(log_dir)
    (change,) = plan.changes
    assert change.content is not None
    assert change.content.data() == b"0\n1\ntxn 0 3\n"
    assert list(violations(log_dir, log_dir.parent / "q", {}, Counter())) == []


def with_zeros(root: Path, at: int) -> Path:
    log_dir = copy_tree(FIXTURES / "damage" / "intact" / "none" / "logdir", root / "data")
    with (log_dir / "plain-0" / f"{at:020}.log").open("ab") as file:
        file.write(bytes(4096))
    return log_dir


def test_zeros_behind_a_log_that_another_one_continues_are_cut_and_come_back(tmp_path: Path) -> None:
    log_dir = with_zeros(tmp_path, 119)
    plan, _ = planned(log_dir)
    assert [(one.kind, one.action) for one in plan.changes] == [("zeros", "truncate")]
    assert plan.bytes_lost == 4096
    assert list(violations(log_dir, tmp_path / "q", {}, Counter())) == []


@pytest.mark.parametrize("name", [f"{119:020}.index", f"{119:020}.timeindex"])
def test_an_index_beside_such_zeros_is_mended_in_one_pass(name: str, tmp_path: Path) -> None:
    log_dir = with_zeros(tmp_path, 119)
    zeros(log_dir / "plain-0" / name, log_dir)
    plan, _ = planned(log_dir)
    assert {(one.kind, one.action) for one in plan.changes} == {("zeros", "truncate"), ("index", "rebuild-index")}
    assert plan.left == ()
    assert list(violations(log_dir, tmp_path / "q", {}, Counter())) == []


def test_epochs_are_taken_from_the_batches_of_a_log_whose_zeros_go(tmp_path: Path) -> None:
    log_dir = with_zeros(tmp_path, 119)
    zeros(log_dir / "plain-0" / "leader-epoch-checkpoint", log_dir)
    plan, _ = planned(log_dir)
    assert {one.kind for one in plan.changes} == {"zeros", "epochs"}
    assert list(violations(log_dir, tmp_path / "q", {}, Counter())) == []


def test_zeros_are_left_where_the_next_log_does_not_go_on_or_there_is_none(tmp_path: Path) -> None:
    last = with_zeros(tmp_path / "last", 240)
    assert planned(last)[0].changes == ()
    hole = with_zeros(tmp_path / "hole", 119)
    for one in (hole / "plain-0").glob("00000000000000000240.*"):
        one.rename(one.with_name(f"{250:020}{one.suffix}"))
    assert [one for one in planned(hole)[0].changes if one.kind == "zeros"] == []


def test_recovery_points_stay_where_a_recovery_without_them_would_cut_records(log_dir: Path) -> None:
    """The model says so: without its recovery point an unclean start reads the damaged segment, and cuts it."""
    (log_dir / ".kafka_cleanshutdown").unlink()
    log = log_dir / "dense-0" / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[12 + int.from_bytes(data[8:12], "big") + 70] ^= 1
    log.write_bytes(data)
    with (log_dir / "recovery-point-offset-checkpoint").open("ab") as file:
        file.write(b"\0\0\0\n")
    lines = lines_of(log_dir / "recovery-point-offset-checkpoint")
    plan, _ = planned(log_dir)
    assert [one.kind for one in plan.changes] == ["checkpoint"], "the entry can be read, and stays"
    shifted = "".join("dense 0\n" if one.startswith("dense ") else one for one in lines)
    (log_dir / "recovery-point-offset-checkpoint").write_text(shifted)
    assert "without its entry for dense-0 the coming start would cut or hide" in why_left(log_dir)


def test_a_directory_in_the_middle_of_a_swap_is_left_alone(log_dir: Path) -> None:
    empty(log_dir / "epochs-0" / "leader-epoch-checkpoint", log_dir)
    shutil.copyfile(log_dir / "dense-0" / "00000000000000000000.log", log_dir / "epochs-0" / f"{0:020}.log.swap")
    assert ".log.swap: a broker puts it in the place of others" in why_left(log_dir)


# --- refusals, and links --------------------------------------------------------------------------------------
def test_a_partition_that_is_a_link_is_refused(log_dir: Path) -> None:
    shutil.move(log_dir / "epochs-0", log_dir.parent / "elsewhere")
    (log_dir / "epochs-0").symlink_to(log_dir.parent / "elsewhere")
    with pytest.raises(RefusedError, match="cannot be opened as a directory"):
        Places(os.open(log_dir, os.O_RDONLY), str(log_dir)).of("epochs-0/leader-epoch-checkpoint")


def test_a_directory_that_is_swapped_for_another_one_is_refused(log_dir: Path) -> None:
    places = Places(os.open(log_dir, os.O_RDONLY), str(log_dir))
    places.of("epochs-0/x")
    places.close()
    shutil.move(log_dir / "epochs-0", log_dir.parent / "elsewhere")
    (log_dir / "epochs-0").mkdir()
    with pytest.raises(RefusedError, match="is another directory by now"):
        places.of("epochs-0/x")


def test_files_that_come_after_the_plan_are_seen(log_dir: Path, tmp_path: Path) -> None:
    empty(log_dir / "epochs-0" / "leader-epoch-checkpoint", log_dir)
    plan, _ = planned(log_dir)
    check_files(plan)
    (log_dir / "epochs-0" / "00000000000000009999.log").write_bytes(b"")
    with pytest.raises(RefusedError, match="files have come or gone"):
        apply(plan, str(tmp_path / "q"), [], means())


def test_a_journal_of_a_repair_names_no_file_elsewhere(log_dir: Path, tmp_path: Path) -> None:
    empty(log_dir / "epochs-0" / "leader-epoch-checkpoint", log_dir)
    plan, _ = planned(log_dir)
    done = apply(plan, str(tmp_path / "q"), [], means())
    path = Path(done.journal)
    whole = path.read_text("ascii")
    for name in ("../data/epochs-0/x", "a/b/leader-epoch-checkpoint", "etc/leader-epoch-checkpoint", "quorum-state"):
        path.write_text(whole.replace("epochs-0/leader-epoch-checkpoint", name))
        with pytest.raises(RefusedError, match="is not a journal"):
            undo(done.journal, means())
    path.write_text(whole)
    undo(done.journal, means())


def test_a_later_reindex_of_what_a_repair_has_made_is_undone_first(log_dir: Path, tmp_path: Path) -> None:
    zeros(log_dir / "dense-0" / INDEX, log_dir)
    plan, _ = planned(log_dir)
    apply(plan, str(tmp_path / "q"), [], means())
    zeros(log_dir / "dense-0" / INDEX, log_dir)
    log = log_dir / "dense-0" / "00000000000000000181.log"
    args = ["reindex", str(log), "--apply", "--quarantine", str(tmp_path / "q")]
    assert run_kdump(args, tmp_path).exit == 0
    (first,) = (tmp_path / "q").glob("*-repair")
    with pytest.raises(RefusedError, match="a later repair rests on it"):
        undo(str(first), means())


# --- the command ----------------------------------------------------------------------------------------------
def test_the_command_mends_several_directories_each_with_a_journal(log_dir: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    copy_tree(log_dir / "txn-0", other / "txn-1")
    (other / "meta.properties").write_text(f"version=1\ncluster.id={CLUSTER}\nnode.id=1\n")
    for path in (log_dir / "meta.properties", other / "txn-1" / "partition.metadata"):
        empty(path, path)
    dry = run_kdump(["repair", "data", "other", "--format", "json"], tmp_path)
    rows = [json.loads(line) for line in dry.stdout.splitlines()]
    plans = [one for one in rows if one["type"] == "plan"]
    assert [(one["kind"], one["partition"]) for one in plans] == [
        ("meta-properties", "data"),
        ("partition-metadata", "txn-1"),
    ]
    assert dry.exit == 7
    args = ["repair", "data", "other", "--apply", "--quarantine", "q"]
    assert run_kdump(args, tmp_path).exit == 0
    assert len(list((tmp_path / "q").iterdir())) == 2
    assert run_kdump(["repair", "data", "other"], tmp_path).exit == 0
    assert run_kdump(["undo", "--apply", *map(str, (tmp_path / "q").iterdir())], tmp_path).exit == 0
    assert (log_dir / "meta.properties").read_bytes() == b""


def test_a_partition_alone_is_mended_without_the_files_of_its_log_directory(log_dir: Path, tmp_path: Path) -> None:
    zeros(log_dir / "recovery-point-offset-checkpoint", log_dir)
    empty(log_dir / "epochs-0" / "leader-epoch-checkpoint", log_dir)
    run = run_kdump(["repair", "data/epochs-0", "--format", "json"], tmp_path)
    plans = [one for one in map(json.loads, run.stdout.splitlines()) if one["type"] == "plan"]
    assert [one["kind"] for one in plans] == ["epochs"]
    only = run_kdump(["repair", "data", "--only", "checkpoint", "--format", "json"], tmp_path)
    plans = [one for one in map(json.loads, only.stdout.splitlines()) if one["type"] == "plan"]
    assert [one["kind"] for one in plans] == ["checkpoint"]


def test_what_is_left_alone_is_listed_with_what_to_do(log_dir: Path, tmp_path: Path) -> None:
    zeros(log_dir / "meta.properties", log_dir)
    run = run_kdump(["repair", "data"], tmp_path)
    assert b"left alone:" in run.stdout
    assert run.exit == 3
    rows = [json.loads(one) for one in run_kdump(["repair", "data", "--format", "json"], tmp_path).stdout.splitlines()]
    (step,) = (one for one in rows if one["type"] == "step")
    assert "--cluster-id ID" in step["why"]


def test_a_batch_in_its_place_behind_a_wrong_one_is_neither_blamed_nor_patched(tmp_path: Path) -> None:
    """Both fill the end that the snapshot tells; only the first of the two has to move for that."""
    plan = plan_of_repair(broken_all(tmp_path / "logs"))
    (patched,) = (one for one in plan.changes if one.kind == "header")
    assert [(one.position, one.new) for one in patched.patches] == [(len(BATCHES[5]), (12).to_bytes(8, "big"))]


@pytest.mark.parametrize("value", ["", "a b", "a\nb", "a=b", "ä"])
def test_what_cannot_be_the_id_of_a_cluster_is_wrong_use(value: str, tmp_path: Path) -> None:
    assert not is_cluster_id(value)
    assert run_kdump(["repair", ".", "--cluster-id", value], tmp_path).exit == 2


# --- at random ------------------------------------------------------------------------------------------------
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "number",
    [
        977,  # an aborted transaction without its entry was found only once the leader-epoch-checkpoint was right
        5349,  # the snapshot is of an offset before the log that seems to have lost its end
        5584,  # of the files of the log directory only those are there that few brokers write
    ],
)
def test_what_was_once_mended_by_a_second_pass_or_not_undone(number: int) -> None:
    assert one_run(number, CORPORA, None)[0] == []


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_damages_are_mended_without_loss(first: int) -> None:
    for number in range(first, first + 10):
        assert one_run(number, CORPORA, None)[0] == []


def test_the_damages_are_of_all_kinds(tmp_path: Path) -> None:
    told = Counter(
        words.split()[0]
        for number in range(60)
        for words in damaged(copy_tree(CORPORA[1], tmp_path / str(number)), Random(number))
    )
    assert {"zeros", "empty", "cut", "foreign", "flipped", "gone", "without_a_line", "with_garbage"} <= set(told)
