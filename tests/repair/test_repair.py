"""reindex, truncate and patch-header on whole partitions: what they restore, what they refuse, and how they say it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

import kdump
from kdump.broker.load.facts import Action, Start
from kdump.broker.load.log_loader import load
from kdump.broker.load.log_manager import LogManager
from kdump.broker.truncate import cut_at_offset, truncate
from kdump.cli.reindex import _directory as reindex_directory
from kdump.cli.repairing import Repair, gracefully
from kdump.exit_status import Exit
from kdump.format.source import BytesSource
from kdump.repair import guard
from kdump.repair.apply import apply
from kdump.repair.errors import FailedError, RefusedError
from kdump.repair.lock import DirectoryLock, users_of
from kdump.repair.patch_header import plan_patches
from kdump.repair.places import Places
from kdump.repair.reasons import Reasons
from kdump.repair.reindex import ReindexOptions, plan_reindex
from kdump.repair.resume_undo import resume, undo
from kdump.repair.truncate import CutTarget, LogDamage, plan_truncate
from kdump.storage.fsops import FileOps
from kdump.storage.log_dir import LogDir
from kdump.storage.partition_dir import PartitionDir
from kdump.storage.paths import above
from tests.support.damage_cases import Damage as Case
from tests.support.damage_cases import damage_cases
from tests.support.partitions import name, segment, write
from tests.support.repair_trees import (
    BATCHES,
    PARTITION,
    SCENARIOS,
    SETTINGS,
    Counting,
    Faulty,
    Quick,
    broken_headers,
    broken_indexes,
    contents,
    dress,
    intact,
    is_clean,
    journals,
    means,
    plan_of_patches,
    plan_of_reindex,
    plan_of_truncate,
    seen,
)
from tests.support.runs import FIXTURES, changed, copy_tree, fingerprint, run_kdump, run_on_full_disk
from tests.support.segments import TIME, batch
from tests.support.unprivileged import unprivileged
from tests.support.verify_runs import codes, findings_of, held, loud

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.repair.plan import Plan

DAMAGE = FIXTURES / "damage"
CASES = {case.name: case for case in damage_cases(DAMAGE)}
INDEX_SUFFIXES = ("index", "timeindex", "txnindex")


def run(*args: object) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of kdump; what is wrapped stands in one line."""
    done = run_kdump([str(one) for one in args], FIXTURES)
    return done.exit, unwrapped(done.stdout.decode()), done.stderr.decode()


def unwrapped(text: str) -> str:
    """Return text of plans with a command, and the end of a long sentence, in the line in which they begin."""
    return re.sub(r"\n +(?=kdump |with --apply|--apply|or without|without|/)", " ", text)


def apply_plan(plan: Plan, quarantine: Path) -> None:
    apply(plan, str(quarantine), [], means())


# --- reindex --------------------------------------------------------------------------------------------------
def gone(path: Path) -> None:
    path.unlink()


def zeroed(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def shifted(path: Path) -> None:
    path.write_bytes(path.read_bytes()[3:])


def padded(path: Path) -> None:
    path.write_bytes(path.read_bytes() + bytes(4096))


def restored(base: str, interval: int, harm: Callable[[Path], None], root: Path) -> Iterator[tuple[str, bytes, bytes]]:
    """Harm every index of an intact directory, rebuild, and yield what there is and what Kafka makes."""
    folder = DAMAGE / "intact" / base
    copy_tree(folder / "logdir", root / "logs")
    (partition,) = (path for path in (root / "logs").iterdir() if path.is_dir())
    harmed = [path for path in sorted(partition.iterdir()) if path.suffix[1:] in INDEX_SUFFIXES and path.stat().st_size]
    for path in harmed:
        harm(path)
    reasons = Reasons(str(partition), findings_of(partition, deep=False))
    apply_plan(plan_reindex(str(partition), reasons, ReindexOptions(interval=interval)), root / "q")
    assert is_clean(partition)
    for path in harmed:
        wanted = folder / "recovered" / str(interval) / path.name
        yield path.name, path.read_bytes(), wanted.read_bytes() if wanted.exists() else b""


@pytest.mark.parametrize("interval", [4096, 512, 0])
@pytest.mark.parametrize("base", sorted(path.name for path in (DAMAGE / "intact").iterdir()))
def test_harmed_indexes_become_what_kafka_makes(base: str, interval: int, tmp_path: Path) -> None:
    for number, harm in enumerate((gone, zeroed, shifted, padded)):
        found = list(restored(base, interval, harm, tmp_path / str(number)))
        assert found
        for one, data, wanted in found:
            assert data == wanted, (harm.__name__, one)


ONLY_INDEXES = [case for case in CASES.values() if all(code[0] in "XTA" or code == "F09" for code in case.codes)]
NOTES = {"x-empty-mid", "x-empty-last", "x-key-too-high-mid", "x07-index-cut-log-full"}
"""Cases in which every lookup is right: notes at most, and nothing to do."""


@pytest.mark.parametrize("case", ONLY_INDEXES, ids=lambda case: case.name)
def test_damage_of_indexes_alone_is_gone_afterwards_and_a_second_run_touches_nothing(
    case: Case, tmp_path: Path
) -> None:
    log_dir = case.build(tmp_path / "logs")
    partition = (log_dir / case.file).parent
    found = findings_of(log_dir)
    assert (loud(found) == []) == (case.name in NOTES)
    logs = {path.name: path.read_bytes() for path in partition.glob("*.log")}
    plan = plan_reindex(str(partition), Reasons(str(partition), found), ReindexOptions())
    assert bool(plan.changes) == (case.name not in NOTES)
    if plan.changes:
        assert any(change.why for change in plan.changes)
        apply_plan(plan, tmp_path / "q")
    assert loud(findings_of(log_dir)) == []
    assert logs == {path.name: path.read_bytes() for path in partition.glob("*.log")}
    before = fingerprint(log_dir)
    again = plan_reindex(str(partition), Reasons(str(partition), findings_of(partition)), ReindexOptions())
    assert again.changes == ()
    assert changed(before, fingerprint(log_dir)) is None


def test_sound_indexes_of_all_releases_are_left_alone() -> None:
    partitions = {path.parent for path in FIXTURES.glob("releases/**/*.log")}
    partitions |= {path.parent for path in FIXTURES.glob("kafka-4.3.1/**/*.log")}
    looked_at = 0
    for partition in sorted(partitions):
        found = findings_of(partition, deep=False)
        if loud(found):
            continue
        plan = plan_reindex(str(partition), Reasons(str(partition), found), ReindexOptions())
        assert [change.name for change in plan.changes if change.why] == [], partition
        looked_at += 1
    assert looked_at > 20


def test_force_builds_sound_indexes_anew_and_leaves_equal_ones_their_inode(tmp_path: Path) -> None:
    partition = intact(tmp_path / "logs")
    assert plan_reindex(str(partition), Reasons(str(partition)), ReindexOptions(0, force=True)).changes == ()
    plan = plan_reindex(str(partition), Reasons(str(partition)), ReindexOptions(4096, force=True))
    assert [(one.name, one.action, bool(one.why)) for one in plan.changes] == [
        (name(base, suffix), "rebuild-index", False) for base in (0, 10) for suffix in ("index", "timeindex")
    ]


@pytest.mark.parametrize("base", ["txn", "epochs", "none", "legacy-v0", "mixed", "follower", "compacted"])
def test_a_broker_that_recovers_all_leaves_new_indexes_as_they_are(base: str, tmp_path: Path) -> None:
    copy_tree(DAMAGE / "intact" / base / "logdir", tmp_path / "logs")
    (partition,) = (path for path in (tmp_path / "logs").iterdir() if path.is_dir())
    plan = plan_reindex(str(partition), Reasons(str(partition)), ReindexOptions(300, force=True))
    apply_plan(plan, tmp_path / "q")
    outcome = load(facts_of(partition).replace(interval=300), Start.FULL)
    assert {one.action for one in outcome.segments} == {Action.KEEP}


def test_a_log_is_indexed_up_to_its_damage_only_when_that_is_said(tmp_path: Path) -> None:
    partition = broken_indexes(tmp_path / "logs")
    log = partition / name(0)
    size = len(BATCHES[0])
    data = bytearray(log.read_bytes())
    data[3 * size + 80] ^= 1
    log.write_bytes(data)
    reasons = Reasons(str(partition), findings_of(partition))
    plan = plan_reindex(str(partition), reasons, ReindexOptions(0))
    (why,) = plan.refused
    assert f"byte {3 * size}" in why
    assert "--up-to-damage" in why
    assert [one.name for one in plan.changes] == [name(10, "index")]  # the other segment is well
    plan = plan_reindex(str(partition), reasons, ReindexOptions(0, up_to_damage=True))
    assert plan.refused == ()
    apply_plan(plan, tmp_path / "q")
    assert (partition / name(0, "index")).read_bytes() == segment(0, BATCHES[:3], interval=0)[name(0, "index")]


def test_where_one_segment_is_refused_nothing_is_done_to_the_others_unless_they_are_named(tmp_path: Path) -> None:
    partition = broken_indexes(tmp_path / "logs")
    log = partition / name(0)
    data = bytearray(log.read_bytes())
    data[200] ^= 1
    log.write_bytes(data)
    before = seen(partition)
    args = ("--index-interval-bytes", 0, "--apply", "--quarantine", tmp_path / "q")
    status, out, said = run("reindex", partition, *args)
    assert status == 12
    assert "--up-to-damage" in said
    *_, nothing, goes_on = out.splitlines()
    assert nothing == f"nothing is changed in {partition}, with --apply or without"
    assert goes_on == f"to go on: kdump reindex {partition / name(10)} --index-interval-bytes 0"
    assert "would " not in out
    assert f"refused: rebuild topic-0/{name(10, 'index')} " in out
    assert seen(partition) == before
    assert run("reindex", partition / name(10), *args)[0] == 3  # the damage is still there
    assert (partition / name(10, "index")).read_bytes() == segment(10, BATCHES[5:], interval=0)[name(10, "index")]


def test_a_wrong_offset_never_gets_into_an_index(tmp_path: Path) -> None:
    partition = broken_headers(tmp_path / "logs")
    (partition / name(0, "index")).unlink()
    plan = plan_of_reindex(partition)
    (why,) = plan.refused
    assert "patch-header" in why


def test_new_indexes_that_are_many_are_made_again_when_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kdump.repair.reindex._HELD", 0)
    partition = broken_indexes(tmp_path / "logs")
    apply_plan(plan_of_reindex(partition), tmp_path / "q")
    assert contents(partition) == contents(intact(tmp_path / "other"))


def test_snapshots_are_built_from_the_log(tmp_path: Path) -> None:
    copy_tree(DAMAGE / "intact" / "txn" / "logdir", tmp_path / "logs")
    partition = tmp_path / "logs" / "payments-0"
    wanted = {one: (partition / name(one, "snapshot")).read_bytes() for one in (114, 224)}
    (partition / name(114, "snapshot")).write_bytes(b"torn")
    (partition / name(224, "snapshot")).unlink()
    found = findings_of(partition)
    options = ReindexOptions(snapshot=True)
    plan = plan_reindex(str(partition), Reasons(str(partition), found), options)
    assert [(one.name, one.action) for one in plan.changes] == [
        (name(114, "snapshot"), "replace"),
        (name(224, "snapshot"), "create"),
    ]
    apply_plan(plan, tmp_path / "q")
    assert {one: (partition / name(one, "snapshot")).read_bytes() for one in wanted} == wanted


def test_indexes_can_be_written_aside_and_nowhere_else(tmp_path: Path) -> None:
    partition = broken_indexes(tmp_path / "logs")
    before = fingerprint(tmp_path / "logs")
    status, _, _ = run("reindex", partition, "--index-interval-bytes", 0, "--to", tmp_path / "aside")
    assert status == 7
    assert changed(before, fingerprint(tmp_path / "logs")) is None
    made = contents(tmp_path / "aside" / PARTITION)
    right = contents(intact(tmp_path / "other"))
    assert made == {one: right[one] for one in (name(0, "index"), name(0, "timeindex"), name(10, "index"))}
    status, _, said = run("reindex", partition, "--index-interval-bytes", 0, "--to", tmp_path / "aside")
    assert (status, "is there already" in said) == (12, True)
    status, _, said = run("reindex", partition, "--to", tmp_path / "logs" / "aside")
    assert (status, "lies in the log directory" in said) == (12, True)


# --- patch-header ---------------------------------------------------------------------------------------------
HEADERS = [
    case
    for case in CASES.values()
    if case.file.endswith(".log")
    and {*case.codes} & {"O01", "O02", "O03", "B03", "B04", "E01", "E03", "L05", "L06", "L07", "L08"}
]
AMBIGUOUS = {"o01-renamed-up"}
TWICE = {"l10-duplicate"}  # a batch that stands there twice has no other place


@pytest.mark.parametrize("case", HEADERS, ids=lambda case: case.name)
def test_header_fields_that_are_determined_are_restored_byte_for_byte(case: Case, tmp_path: Path) -> None:
    log = case.build(tmp_path / "logs") / case.file
    before = log.read_bytes()
    plan = plan_patches(str(log), findings_of(log))
    if case.name in AMBIGUOUS | TWICE:
        assert bool(plan.refused) is (case.name in AMBIGUOUS)
        assert plan.changes == ()
        return
    apply_plan(plan, tmp_path / "q")
    assert loud(findings_of(log)) == []
    right = (DAMAGE / "intact" / case.base / "logdir" / case.file).read_bytes()
    assert log.read_bytes() == right
    assert 0 < sum(one != other for one, other in zip(before, right, strict=True)) <= 17
    undo(str(journals(tmp_path / "q")[0]), means())
    assert log.read_bytes() == before


@pytest.mark.parametrize("bit", [0, 2, 6, 7, 9, 31, 40, 62, 63])
def test_the_base_offset_of_the_last_batch_of_a_closed_segment_is_restored(bit: int, tmp_path: Path) -> None:
    log = copy_tree(DAMAGE / "intact" / "none" / "logdir", tmp_path / "logs") / "plain-0" / name(119)
    before = bytearray(log.read_bytes())
    at = last_batch(before)
    before[at + 7 - bit // 8] ^= 1 << bit % 8
    log.write_bytes(before)
    found = findings_of(log)
    assert loud(found)[0].split()[1] in ("O01", "O02", "O03")
    assert len(loud(found)) == 1
    apply_plan(plan_patches(str(log), found), tmp_path / "q")
    assert log.read_bytes() == (DAMAGE / "intact" / "none" / "logdir" / "plain-0" / name(119)).read_bytes()


def too_low(base: str, log: str, right: int, wrong: int, folder: Path) -> Path:
    """A log of an intact directory in which one batch has another base offset."""
    path = copy_tree(DAMAGE / "intact" / base / "logdir", folder) / log
    data = bytearray(path.read_bytes())
    at = data.index(right.to_bytes(8, "big"))
    data[at : at + 8] = wrong.to_bytes(8, "big")
    path.write_bytes(data)
    return path


def test_where_either_of_two_batches_may_be_wrong_none_is_patched(tmp_path: Path) -> None:
    """Behind a hole, a batch that one bit takes too low looks as if the one before were too high."""
    path = too_low("compacted", "compacted-0/00000000000000000000.log", 487, 483, tmp_path / "logs")
    plan = plan_patches(str(path), findings_of(path))
    assert plan.changes == ()
    assert "nothing tells which" in plan.refused[0]


def test_a_message_behind_a_wrapper_that_fills_the_place_between_its_neighbours_is_restored(tmp_path: Path) -> None:
    """That the wrapper were too high would need a hole beside the wrong bit."""
    log = "ancient-0/00000000000000000134.log"
    path = too_low("legacy-v0", log, 270, 266, tmp_path / "logs")
    apply_plan(plan_patches(str(path), findings_of(path)), tmp_path / "q")
    assert path.read_bytes() == (DAMAGE / "intact" / "legacy-v0" / "logdir" / log).read_bytes()


def last_batch(log: bytes | bytearray) -> int:
    """The position of the last batch."""
    at = end = 0
    while end < len(log):
        at, end = end, end + 12 + int.from_bytes(log[end + 8 : end + 12], "big")
    return at


def test_headers_are_cased() -> None:
    assert len(HEADERS) > 25
    assert {case.name for case in HEADERS} > AMBIGUOUS


def several_headers(log_dir: Path) -> Path:
    """Two logs of one partition, and one of another, have a wrong header."""
    for partition in ("other-0", PARTITION):
        broken_headers(log_dir)
        if partition != PARTITION:
            (log_dir / PARTITION).rename(log_dir / partition)
    data = bytearray((log_dir / PARTITION / name(10)).read_bytes())
    data[len(BATCHES[5]) + 16] = 3
    (log_dir / PARTITION / name(10)).write_bytes(data)
    dress(log_dir / PARTITION)
    return log_dir


def test_headers_of_a_log_directory_are_restored_by_one_plan_a_partition(tmp_path: Path) -> None:
    log_dir = several_headers(tmp_path / "logs")
    before = {one: contents(log_dir / one) for one in (PARTITION, "other-0")}
    status, stdout, _ = run("patch-header", log_dir, "--format", "json")
    assert status == Exit.PENDING
    plans = [row for row in map(json.loads, stdout.splitlines()) if row["type"] == "plan"]
    assert [(one["partition"], len(one["operations"])) for one in plans] == [("other-0", 1), (PARTITION, 2)]
    assert {one: contents(log_dir / one) for one in (PARTITION, "other-0")} == before
    ids = [part for one in plans for part in ("--plan-id", one["planId"])]
    done = ("--apply", "--quarantine", tmp_path / "q")
    status, _, stderr = run("patch-header", log_dir, *done, "--plan-id", plans[0]["planId"])
    assert status == Exit.REFUSED
    assert "not the one that was named" in stderr
    assert contents(log_dir / PARTITION) == before[PARTITION]
    assert run("patch-header", log_dir, *done, *ids)[0] == Exit.OK
    assert is_clean(log_dir)
    assert run("patch-header", log_dir)[0] == Exit.OK
    for journal in journals(tmp_path / "q"):
        undo(str(journal), means())
    assert {one: contents(log_dir / one) for one in (PARTITION, "other-0")} == before


def test_where_one_header_is_ambiguous_the_partition_is_left_and_its_other_logs_can_be_named(tmp_path: Path) -> None:
    log_dir = several_headers(tmp_path / "logs")
    log = log_dir / PARTITION / name(10)
    data = bytearray(log.read_bytes())
    data[0:8] = (99).to_bytes(8, "big")
    del data[len(BATCHES[5]) : len(BATCHES[5]) + len(BATCHES[6])]  # else it would fill what lies up to the next one
    log.write_bytes(data)
    before = contents(log_dir / PARTITION)
    apply = ("--apply", "--quarantine", tmp_path / "q")
    status, _, stderr = run("patch-header", log_dir / PARTITION, *apply)
    assert status == Exit.REFUSED
    assert name(10) in stderr
    assert contents(log_dir / PARTITION) == before
    assert run("patch-header", log_dir / PARTITION / name(0), *apply)[0] == Exit.OK
    assert contents(log_dir / PARTITION)[name(0)] != before[name(0)]


def test_patch_header_names_what_is_not_there_and_what_is_no_directory_of_segments(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    status, _, stderr = run("patch-header", tmp_path / "no", tmp_path / "empty")
    assert status == Exit.NOT_FOUND
    assert "no such file" in stderr
    assert "no segment is here" in stderr


def test_a_checkpoint_that_contradicts_the_neighbours_is_no_reason_to_patch(tmp_path: Path) -> None:
    case = CASES["k04-epochs-wrong-offset"]
    log_dir = case.build(tmp_path / "logs")
    log = log_dir / "epochs-0" / name(0)
    found = findings_of(log)
    assert "E03" in codes(found)
    plan = plan_patches(str(log), found)
    assert plan.changes == ()
    assert "nothing tells which is right" in plan.refused[0]


# --- truncate -------------------------------------------------------------------------------------------------
LOST = [
    case
    for case in CASES.values()
    if case.codes[0][0] == "L" or case.codes[0] in ("B01", "B02", "B05", "B07", "B08", "B09")
]


@pytest.mark.parametrize("case", LOST, ids=lambda case: case.name)
def test_after_a_cut_at_the_damage_all_is_clean(case: Case, tmp_path: Path) -> None:
    log_dir = case.build(tmp_path / "logs")
    partition = (log_dir / case.file).parent
    before, damage = seen(partition), LogDamage(str(partition))
    for finding in findings_of(partition):
        damage.see(finding)
    if damage.patchable and not damage.first:
        with pytest.raises(RefusedError, match="without loss"):
            plan_truncate(str(partition), CutTarget(at_damage=True, with_later=True), damage, SETTINGS)
        return
    plan = plan_truncate(str(partition), CutTarget(at_damage=True, with_later=True), damage, SETTINGS)
    if not damage.first:  # offsets are missing, and no byte is wrong
        assert plan.changes == ()
        return
    apply_plan(plan, tmp_path / "q")
    assert is_clean(partition)
    assert is_clean(log_dir)
    (journal,) = journals(tmp_path / "q")
    check_loses_nothing(journal.parent, partition, {one: file.data for one, file in before.items()})
    undo(str(journal), means())
    assert seen(partition) == before


def check_loses_nothing(quarantine: Path, partition: Path, before: dict[str, bytes]) -> None:
    now = contents(partition)
    for one, data in before.items():
        if now.get(one) == data:
            continue
        if one in now and one.endswith(".log"):
            assert now[one] + (quarantine / "cut.records").read_bytes() == data
        else:
            assert (quarantine / f"old.{one}.bin").read_bytes() == data


def facts_of(partition: Path, files: dict[str, bytes] | None = None) -> Any:
    log_dir = LogDir(str(partition.parent))
    directory = PartitionDir(str(partition), log_dir)
    facts, _ = LogManager(log_dir).partition(directory, SETTINGS.replace(interval=None))
    if files is None:
        return facts
    sources = {one: BytesSource(data, str(partition / one)) for one, data in files.items()}
    return facts.replace(files=sources, recovery_point=0)


@pytest.mark.parametrize("base", ["txn", "epochs", "none", "legacy-v1", "mixed", "follower"])
def test_a_broker_has_nothing_to_add_to_a_cut(base: str, tmp_path: Path) -> None:
    """Applying the outcome to a copy and loading it again predicts no further change of log, index or epoch."""
    copy_tree(DAMAGE / "intact" / base / "logdir", tmp_path / "logs")
    (partition,) = (path for path in (tmp_path / "logs").iterdir() if path.is_dir())
    facts = facts_of(partition)
    bases = sorted(int(path.stem) for path in partition.glob("*.log"))
    end = load(facts, Start.CLEAN).log_end_offset
    assert end is not None
    for offset in range(0, end + 2, 7):
        outcome = truncate(facts, cut_at_offset(bases, offset))
        assert outcome.loads
        left = {
            one: source.read_at(0, source.size) for one in outcome.disk.names() if (source := outcome.disk.get(one))
        }
        for start in Start:
            again = load(facts_of(partition, left), start, wants_contents=True)
            assert again.log_end_offset == outcome.log_end_offset, (offset, start)
            assert again.bytes_lost == 0
            touched = {one for one in {*left, *again.disk.names()} if again.disk.is_changed(one)}
            cut = max(one for one in bases if one <= max(offset, bases[0]))
            expected = {one for one in touched if one.endswith(".snapshot") or not one.startswith(f"{cut:020}")}
            assert touched == expected, (offset, start)


def test_a_cut_says_what_it_costs_and_needs_a_word_for_later_segments(tmp_path: Path) -> None:
    partition = intact(tmp_path / "logs")
    (tmp_path / "logs" / "replication-offset-checkpoint").write_text("0\n1\ntopic 0 16\n")
    status, out, said = run("truncate", partition, "--to-offset", 7, "--format", "json")
    assert status == 12
    assert "--with-later-segments" in said
    status, out, _ = run("truncate", partition, "--to-offset", 7, "--with-later-segments", "--format", "json")
    assert status == 7
    plan = json.loads(out.splitlines()[0])
    size = len(BATCHES[0])
    assert (plan["type"], plan["command"], plan["partition"]) == ("plan", "truncate", PARTITION)
    assert (plan["bytesLost"], plan["recordsLost"], plan["logEndOffset"]) == (5 * size, 10, 6)
    assert {"file": name(0), "action": "truncate", "from": 5 * size, "to": 3 * size} in plan["operations"]
    assert any("high watermark is 16, and a broker lowers it to 6" in one for one in plan["announces"])
    lost = "until a broker has started here, verify tells offsets 6..15 as lost (K01), with status 3"
    assert lost in plan["announces"]
    (tmp_path / "logs" / "replication-offset-checkpoint").write_text("0\n1\ntopic 0 18\n")
    out = run("truncate", partition, "--to-offset", 7, "--with-later-segments", "--format", "json")[1]
    lost = "until a broker has started here, verify tells offsets 6..17 as lost (K01), with status 3"
    assert f"by these the log had ended at 18, not at 16; {lost}" in json.loads(out.splitlines()[0])["announces"]
    assert (plan["logEndOffsetBefore"], plan["offsetsLost"]) == (16, 10)
    assert list(plan) == [
        "type", "command", "planId", "partition", "operations", "bytesLost", "recordsLost", "offsetsLost",
        "logEndOffsetBefore", "logEndOffset", "announces", "kind",
    ]  # fmt: skip


@pytest.mark.parametrize("how", [[], ["--apply", "--quarantine", "q"]], ids=["dry run", "applied"])
def test_the_plan_of_a_cut_and_the_summary_say_the_same_of_what_is_lost(how: list[str], tmp_path: Path) -> None:
    intact(tmp_path / "logs")
    cut = ["truncate", f"logs/{PARTITION}", "--to-offset", "7", "--with-later-segments", "--format", "json"]
    plan, *_, summary = map(json.loads, run_kdump([*cut, *how], tmp_path).stdout.splitlines())
    assert (plan["offsetsLost"], plan["recordsLost"]) == (10, 10)
    assert (summary["offsetsLost"], summary["recordsLost"]) == (10, 10)


def test_a_cut_of_bytes_that_are_no_batch_says_what_checkpoints_know_of_the_end(tmp_path: Path) -> None:
    partition = intact(tmp_path / "logs")
    (partition / name(10)).write_bytes(b"an editor has saved this\n")
    (tmp_path / "logs" / "replication-offset-checkpoint").write_text("0\n1\ntopic 0 16\n")
    (line,) = run_kdump(["truncate", str(partition), "--at-damage", "--format", "json"], tmp_path).stdout.splitlines()[
        :1
    ]
    plan = json.loads(line)
    assert (plan["logEndOffsetBefore"], plan["logEndOffset"]) == (10, 10)
    told = "by these the log had ended at 16, not at 10; until a broker has started here, verify tells offsets 10..15"
    assert any(one.startswith(told) for one in plan["announces"])
    assert plan["announces"][0].startswith("another replica may hold these records")


def test_a_dry_run_that_mends_only_warnings_is_pending_and_finds_no_errors(tmp_path: Path) -> None:
    partition = intact(tmp_path / "logs")
    index = partition / name(0, "index")
    index.write_bytes(index.read_bytes()[:8] + bytes(16))
    status, out, _ = run("reindex", partition, "--index-interval-bytes", 0, "--format", "json")
    summary = json.loads(out.splitlines()[-1])
    assert (summary["errors"], summary["warnings"], summary["exit"], status) == (0, 1, 7, 7)
    index.write_bytes(index.read_bytes()[:7])
    assert run("reindex", partition, "--index-interval-bytes", 0)[0] == 7, "what the plan mends does not count"


def test_a_cut_in_the_middle_of_a_transaction_says_so(tmp_path: Path) -> None:
    copy_tree(DAMAGE / "intact" / "txn" / "logdir", tmp_path / "logs")
    partition = tmp_path / "logs" / "payments-0"
    plan = plan_truncate(str(partition), CutTarget(offset=60, with_later=True), LogDamage(str(partition)), SETTINGS)
    (said,) = [one for one in plan.announces if one.startswith("2 transactions are open at the new end: ")]
    assert "readers of committed data stop at offset 39; " in said
    assert "kdump transactions --hanging" in said


def test_an_interrupt_in_the_middle_names_the_journal(tmp_path: Path) -> None:
    counting = Counting()
    scenario = SCENARIOS["reindex"]
    scenario.build(tmp_path / "one" / "logs")
    scenario.run(tmp_path / "one", counting)
    last = max(number for number, call in enumerate(counting.names) if call == "rename") - 1

    def interrupt(*_args: object, **_named: object) -> None:
        raise KeyboardInterrupt

    scenario.build(tmp_path / "two" / "logs")
    with pytest.raises(FailedError, match="interrupted; finish it with kdump resume") as raised:
        scenario.run(tmp_path / "two", Faulty(last, interrupt))
    assert raised.value.journal == str(journals(tmp_path / "two" / "q")[0])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_things_are_prepared_leaves_nothing_behind(number: signal.Signals, tmp_path: Path) -> None:
    partition = broken_indexes(tmp_path / "logs")
    before = seen(partition)
    child = os.fork()
    if not child:
        signal.signal(number, signal.SIG_DFL)
        with suppress(BaseException), gracefully():

            def send(function: Callable[..., Any], *args: object, **named: object) -> object:
                os.kill(os.getpid(), number)
                return function(*args, **named)

            apply(plan_of_reindex(partition), str(tmp_path / "q"), [], means(Faulty(25, send)))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -number
    assert seen(partition) == before
    assert not (tmp_path / "q").exists()


def test_a_cut_at_the_log_start_is_refused(tmp_path: Path) -> None:
    partition = intact(tmp_path / "logs")
    (tmp_path / "logs" / "log-start-offset-checkpoint").write_text("0\n1\ntopic 0 6\n")
    target = CutTarget(offset=6, with_later=True)
    with pytest.raises(RefusedError, match="would delete all of it"):
        plan_truncate(str(partition), target, LogDamage(str(partition)), SETTINGS)


def test_a_cut_after_damage_is_refused(tmp_path: Path) -> None:
    case = CASES["b01-payload-mid-last"]
    partition = (case.build(tmp_path / "logs") / case.file).parent
    damage = LogDamage(str(partition))
    for finding in findings_of(partition):
        damage.see(finding)
    with pytest.raises(RefusedError, match="before the cut"):
        plan_truncate(str(partition), CutTarget(position=10**6), damage, SETTINGS)
    assert plan_truncate(str(partition), CutTarget(offset=200, with_later=True), damage, SETTINGS).changes


@pytest.mark.parametrize(
    "target", [CutTarget(offset=16), CutTarget(offset=99), CutTarget(position=10**9), CutTarget(at_damage=True)]
)
def test_a_cut_beyond_the_end_does_nothing(target: CutTarget, tmp_path: Path) -> None:
    partition = intact(tmp_path / "logs")
    assert plan_truncate(str(partition), target, LogDamage(str(partition)), SETTINGS).changes == ()


def test_a_byte_within_a_batch_takes_the_whole_batch(tmp_path: Path) -> None:
    partition = intact(tmp_path / "logs")
    size = len(BATCHES[0])
    for position in (size, size + 1, 2 * size - 1):
        plan = plan_truncate(str(partition), CutTarget(position=position), LogDamage(str(partition)), SETTINGS)
        (log,) = (one for one in plan.changes if one.name.endswith(".log"))
        assert (log.name, log.size, plan.log_end_offset) == (name(10), size, 12)


# --- the command line -----------------------------------------------------------------------------------------
def test_without_apply_nothing_is_touched(tmp_path: Path) -> None:
    broken_indexes(tmp_path / "logs")
    broken_headers(tmp_path / "heads")
    before = fingerprint(tmp_path)
    partition, log = tmp_path / "logs" / PARTITION, tmp_path / "heads" / PARTITION / name(0)
    assert run("reindex", partition)[0] == 7
    assert run("reindex", tmp_path / "logs")[0] == 7
    assert run("truncate", partition, "--to-offset", 13)[0] == 3, "the broken indexes stay"
    assert run("patch-header", log)[0] == 7
    assert changed(before, fingerprint(tmp_path)) is None


@pytest.mark.parametrize("command", ["reindex", "truncate --to-offset 7", "patch-header"])
def test_apply_needs_a_quarantine(command: str, tmp_path: Path) -> None:
    partition = intact(tmp_path / "logs")
    for given in ((), ("--quarantine", "")):  # a variable that a script forgot to set is no directory
        status, _, said = run(*command.split(), "--apply", *given, partition)
        assert status == 2
        assert "--quarantine DIR" in said


def test_a_run_from_the_plan_to_the_undo(tmp_path: Path) -> None:
    partition, q = broken_indexes(tmp_path / "logs"), tmp_path / "q"
    before = seen(partition)
    status, out, _ = run("reindex", partition, "--index-interval-bytes", 0)
    assert status == 7
    again = re.search(r"^to do it: kdump (.*) --quarantine DIR$", out, re.MULTILINE)
    assert again is not None
    status, out, _ = run(*again[1].split(), "--quarantine", q)
    assert status == 0
    assert contents(partition) == contents(intact(tmp_path / "other"))
    journal = re.search(r"^journal: (.*)$", out, re.MULTILINE)
    assert journal is not None
    assert stat.S_IMODE(os.stat(os.path.dirname(journal[1])).st_mode) == 0o700
    assert not (tmp_path / "logs" / ".lock").exists()
    assert run("reindex", partition, "--apply", "--quarantine", q)[:2][0] == 0
    assert len(journals(q)) == 1
    assert run("resume", journal[1])[0] == 0
    assert run("undo", journal[1], "--apply")[0] == 0
    assert seen(partition) == before
    assert run("undo", journal[1], "--apply")[0] == 0
    assert run("resume", journal[1])[0] == 12


def test_the_command_of_a_plan_has_the_quarantine_that_was_named(tmp_path: Path) -> None:
    partition, q = broken_indexes(tmp_path / "logs"), tmp_path / "q q"
    out = run("reindex", partition, "--index-interval-bytes", 0, "--quarantine", q)[1]
    again = re.search(r"^to do it: kdump (.*)$", out, re.MULTILINE)
    assert again is not None
    assert shlex.split(again[1])[-2:] == ["--quarantine", str(q)]
    assert run(*shlex.split(again[1]))[0] == 0
    assert len(journals(q)) == 1


def test_a_cut_that_is_refused_for_a_header_names_the_whole_command(tmp_path: Path) -> None:
    partition = broken_headers(tmp_path / "logs")
    status, _, said = run("truncate", partition, "--at-damage")
    assert status == 12
    command = re.search(r"restore it without loss: kdump (.*)$", said)
    assert command is not None
    assert command[1] == f"patch-header {partition / name(0)}"
    assert run(*shlex.split(command[1]))[0] == 7


def test_a_quarantine_is_named_for_its_only_repair(tmp_path: Path) -> None:
    partition, q = broken_indexes(tmp_path / "logs"), tmp_path / "q"
    before = seen(partition)
    assert run("reindex", partition, "--index-interval-bytes", 0, "--apply", "--quarantine", q)[0] == 0
    assert run("undo", q, "--apply")[0] == 0
    assert seen(partition) == before
    assert run("reindex", partition, "--index-interval-bytes", 0, "--apply", "--quarantine", q)[0] == 0
    status, _, said = run("undo", q, "--apply")
    assert status == 12
    assert all(Path(one).parent.name in said for one in journals(q))
    assert "holds 2 repairs; name one" in said


def test_repairs_of_the_same_files_are_undone_in_their_order(tmp_path: Path) -> None:
    partition, q = broken_indexes(tmp_path / "logs"), tmp_path / "q"
    before = seen(partition)
    assert run("reindex", partition, "--index-interval-bytes", 0, "--apply", "--quarantine", q)[0] == 0
    assert run("truncate", partition, "--to-offset", 13, "--apply", "--quarantine", q)[0] == 0
    assert run("truncate", partition, "--to-offset", 11, "--apply", "--quarantine", q)[0] == 0
    begun = {json.loads(Path(one).read_text())["events"][0]["time"]: Path(one).parent.name for one in journals(q)}
    names = [begun[time] for time in sorted(begun)]
    after = fingerprint(tmp_path)
    status, _, said = run("undo", q / names[0], "--apply")
    assert status == 12
    assert said.endswith(f"rest on it, nothing was done; first: kdump undo {q / names[2]} {q / names[1]} --apply\n")
    assert run("undo", q / names[1], "--apply")[0] == 12
    assert changed(after, fingerprint(tmp_path)) is None
    assert run("undo", q / names[2], "--apply")[0] == 0
    said = run("undo", q, "--apply")[2]
    assert said == (
        f"kdump: {q}: holds 3 repairs; name one, of the same files the newest first:\n"
        f"  kdump undo {q / names[2]} --apply  # undone already\n"
        f"  kdump undo {q / names[1]} --apply\n  kdump undo {q / names[0]} --apply\n"
    )
    assert run("resume", q)[2] == said.replace("kdump undo", "kdump resume").replace(" --apply", "")
    assert run("undo", q / names[1], "--apply")[0] == 0
    assert run("undo", q / names[0], "--apply")[0] == 0
    assert seen(partition) == before
    status, out, said = run("undo", q / names[0], "--apply")
    assert (status, out, said) == (0, f"{partition}: was undone already; nothing to do\n", "")


def test_a_pattern_that_names_several_repairs_undoes_them_the_newest_first(tmp_path: Path) -> None:
    partition, q = broken_indexes(tmp_path / "logs"), tmp_path / "q"
    before = seen(partition)
    for offset in (14, 13, 11):
        assert run("truncate", partition, "--to-offset", offset, "--apply", "--quarantine", q)[0] in (0, 3)
    after = fingerprint(tmp_path)
    folders = sorted(Path(one).parent for one in journals(q))
    status, out, said = run("undo", *folders, q / "none", "--apply")  # one that is not there: none is undone
    assert (status, out, said) == (10, "", f"kdump: no such file: {q / 'none'}\nkdump: nothing was undone\n")
    assert changed(after, fingerprint(tmp_path)) is None
    assert run("undo", *folders, "--apply") == (0, 3 * f"undone: {partition} is restored\n", "")
    assert seen(partition) == before


CANNOT_WRITE = "kdump: cannot write the output: No space left on device\n"


@pytest.mark.parametrize("layout", ["text", "json"])
@pytest.mark.parametrize("command", SCENARIOS)
def test_a_repair_that_cannot_write_its_output_says_that_it_is_done(command: str, layout: str, tmp_path: Path) -> None:
    partition, q = SCENARIOS[command].build(tmp_path / "logs"), tmp_path / "q"
    before = seen(partition)
    cut = ("--to-offset", 13) if command == "truncate" else ()
    given = (command, partition, *cut, "--apply", "--quarantine", q, "--format", layout)
    done = run_on_full_disk(given, tmp_path)
    assert seen(partition) != before
    (journal,) = journals(q)
    told = (
        f"kdump: the repair is done; journal: {journal}\nkdump: to take it back: kdump undo {journal.parent} --apply\n"
    )
    assert (done.exit, done.stderr.decode()) == (5, CANNOT_WRITE + told)
    done = run_on_full_disk(("undo", journal.parent, "--apply"), tmp_path)
    whole = partition.parent if command == "repair" else partition
    assert (done.exit, done.stderr.decode()) == (5, f"{CANNOT_WRITE}kdump: undone: {whole} is restored\n")
    assert seen(partition) == before


def test_a_plan_that_cannot_be_written_is_not_said_to_be_done(tmp_path: Path) -> None:
    partition = broken_indexes(tmp_path / "logs")
    done = run_on_full_disk(("reindex", partition), tmp_path)
    assert (done.exit, done.stderr.decode()) == (5, CANNOT_WRITE)


def test_an_undo_that_cannot_write_its_output_says_what_is_left(tmp_path: Path) -> None:
    partition, q = broken_indexes(tmp_path / "logs"), tmp_path / "q"
    for offset in (14, 13):
        run("truncate", partition, "--to-offset", offset, "--apply", "--quarantine", q)
    folders = sorted(one.parent for one in journals(q))
    done = run_on_full_disk(("undo", *folders, "--apply"), tmp_path)
    assert done.exit == 5
    undone, left = done.stderr.decode().removeprefix(CANNOT_WRITE).splitlines()
    assert undone == f"kdump: undone: {partition} is restored"
    assert left in [f"kdump: not undone: {one}" for one in folders]
    assert run("undo", left.removeprefix("kdump: not undone: "), "--apply")[0] == 0


def test_a_repair_prints_the_command_that_takes_it_back(tmp_path: Path) -> None:
    partition, q = broken_indexes(tmp_path / "logs"), tmp_path / "q q"
    before = seen(partition)
    out = run("reindex", partition, "--index-interval-bytes", 0, "--apply", "--quarantine", q)[1]
    told = re.search(r"^to take it back: kdump (.*)$", out, re.MULTILINE)
    assert told is not None
    assert run(*shlex.split(told[1]))[0] == 0
    assert seen(partition) == before
    given = ("reindex", partition, "--index-interval-bytes", 0, "--apply", "--quarantine", q, "--format", "json")
    assert "kdump: to take it back: kdump undo " in run(*given)[2]


def test_a_repair_that_rests_on_another_quarantine_says_so(tmp_path: Path) -> None:
    partition = broken_indexes(tmp_path / "logs")
    for number, offset in enumerate((13, 11)):
        q = tmp_path / str(number)
        assert run("truncate", partition, "--to-offset", offset, "--apply", "--quarantine", q)[0] in (0, 3)
    after = fingerprint(tmp_path)
    status, _, said = run("undo", tmp_path / "0", "--apply")
    assert status == 12
    assert "undo it first, by its journal in the quarantine that it was given" in said
    assert changed(after, fingerprint(tmp_path)) is None


@pytest.mark.parametrize("command", ["reindex", "truncate --at-damage"])
def test_what_cannot_be_read_is_not_said_to_need_nothing(command: str, tmp_path: Path) -> None:
    for path in intact(tmp_path / "logs").iterdir():
        path.chmod(0 if path.name == name(0) else 0o644)
    done = unprivileged(*command.split(), f"logs/{PARTITION}", cwd=tmp_path)
    told = f"not judged: 1 file could not be read in logs/{PARTITION}; run as the owner of the files\n"
    assert (done.exit, done.stdout.decode()) == (5, told)
    assert f"{PARTITION}/{name(0)}: permission denied" in done.stderr.decode()


def test_what_is_left_wrong_decides_the_exit_status(tmp_path: Path) -> None:
    """Indexes are rebuilt, and another segment has a damaged batch."""
    partition = broken_indexes(tmp_path / "logs")
    log = partition / name(10)
    data = bytearray(log.read_bytes())
    data[len(BATCHES[0]) + 80] ^= 1
    log.write_bytes(data)
    stem = partition / name(0)
    args = ("reindex", stem, "--index-interval-bytes", 0, "--apply", "--quarantine", tmp_path / "q")
    status, out, _ = run(*args)
    assert status == 3
    assert "error B01" in out
    assert (partition / name(0, "index")).exists()


def test_a_disk_that_takes_nothing_more_is_exit_13_and_all_is_as_it_was(tmp_path: Path) -> None:
    partition = broken_indexes(tmp_path / "logs")
    before = fingerprint(tmp_path / "logs")
    command = [sys.executable, "-P", "-m", "kdump", "reindex", partition, "--apply", "--quarantine", tmp_path / "q"]
    limit = ["bash", "-c", 'ulimit -f 0; exec "$@"', "bash", *map(str, command)]
    environment = {**os.environ, "PYTHONPATH": str(Path(kdump.__file__).parent.parent)}
    done = subprocess.run(limit, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 13, done.stderr
    assert re.search(r"^kdump: .*File too large; nothing was changed$", done.stderr, re.MULTILINE)
    after = fingerprint(tmp_path / "logs")
    for tree in (before, after):
        del tree["."], tree[PARTITION]  # .lock and temporary files came and went
    assert changed(before, after) is None
    assert not (tmp_path / "q").exists()


@pytest.mark.parametrize("is_users", [False, True], ids=["made by the repair", "the user's own"])
def test_a_repair_that_fails_removes_the_quarantine_that_it_made_and_no_other(is_users: bool, tmp_path: Path) -> None:
    partition, quarantine = broken_indexes(tmp_path / "logs"), tmp_path / "q"
    plan = plan_of_reindex(partition)
    if is_users:
        quarantine.mkdir()
    for at in range(1000):
        failing = Faulty(at, lambda *_, **__: throw(OSError(errno.EIO, "Input/output error")))
        with pytest.raises(FailedError) as raised:
            apply(plan, str(quarantine), [], means(failing))
        if raised.value.journal is not None:  # something may have changed
            break
        assert quarantine.exists() == is_users, failing.names
        assert not is_users or list(quarantine.iterdir()) == [], failing.names
    assert at > 20


def test_a_repair_without_the_right_to_write_names_the_user_to_run_as(tmp_path: Path) -> None:
    partition = broken_indexes(tmp_path / "logs")
    (tmp_path / "logs" / ".lock").touch()
    owner = 4321 if os.geteuid() == 0 else os.geteuid()
    for path in [*partition.rglob("*"), partition]:
        path.chmod(0o555 if path.is_dir() else 0o444)
        os.chown(path, owner, -1)
    done = unprivileged("reindex", f"logs/{PARTITION}", "--apply", "--quarantine", "q", cwd=tmp_path)
    what = "user 4321, who owns it" if os.geteuid() == 0 else "chmod"
    assert done.exit == 12
    assert what in done.stderr.decode()
    assert not (tmp_path / "q").exists()


@pytest.mark.parametrize("command", ["reindex", "patch-header", "truncate --at-damage"])
@pytest.mark.parametrize("named", [PARTITION, f"{PARTITION}/{name(0)}"], ids=["directory", "log"])
def test_why_a_file_is_not_read_is_said_once(command: str, named: str, tmp_path: Path) -> None:
    for path in intact(tmp_path / "logs").iterdir():
        path.chmod(0 if path.name == name(0) else 0o644)
    done = unprivileged(*command.split(), f"logs/{named}", cwd=tmp_path)
    assert done.exit in (5, 12)
    assert done.stderr.decode().count("permission denied") == 1, done.stderr


@pytest.mark.parametrize("command", ["reindex", "patch-header", "truncate --at-damage"])
def test_a_partition_in_a_directory_that_may_not_be_entered_is_not_said_to_be_missing(
    command: str, tmp_path: Path
) -> None:
    intact(tmp_path / "logs")
    (tmp_path / "logs").chmod(0)
    done = unprivileged(*command.split(), f"logs/{PARTITION}", cwd=tmp_path)
    (tmp_path / "logs").chmod(0o755)
    assert done.exit == 5
    assert done.stderr.decode().startswith(f"kdump: logs/{PARTITION}: permission denied; you own {tmp_path / 'logs'}: ")


def throw(error: Exception) -> None:
    raise error


def test_what_fails_and_what_is_refused_has_its_exit_status() -> None:
    for error, status in (
        (RefusedError("why", locked=True), Exit.LOCKED),
        (RefusedError("why"), Exit.REFUSED),
        (FailedError("why"), Exit.FAILED),
        (FailedError("why", "journal"), Exit.PART_WAY),
    ):
        repair = Repair({"fail_on": "never", "layout": "text"})
        with repair.guarded():
            throw(error)
        assert repair.end() == status
        assert repair.has_failed == (status in (Exit.FAILED, Exit.PART_WAY))


@pytest.mark.parametrize("missing", ["reindex", "patch-header", "truncate --at-damage", "undo", "resume"])
def test_what_is_not_there_is_said(missing: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "nowhere", tmp_path / "file" / "below")[: 1 if missing in ("undo", "resume") else 2]:
        status, _, said = run(*missing.split(), path)
        assert status == 10
        assert said == f"kdump: no such file: {path}\n"


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", "null", '{"version": 2}', "{" * 99_999, '{"version": 1, "changes": 5}']
)
def test_a_journal_that_is_none_is_refused(content: str, tmp_path: Path) -> None:
    journal = tmp_path / "journal.json"
    journal.write_text(content)
    for command in ("undo", "resume"):
        status, _, said = run(command, journal)
        assert status == 12
        assert "not a journal" in said


def without(value: Any, path: tuple[Any, ...], put: Any) -> Any:
    """A copy of a value in which one member is another one."""
    if not path:
        return put
    copy = list(value) if isinstance(value, list) else dict(value)
    copy[path[0]] = without(value[path[0]], path[1:], put)
    return copy


def members(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each member of a value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield (*path, key)
        yield from members(inner, (*path, key))


@pytest.mark.parametrize("command", ["reindex", "truncate", "patch-header"])
def test_a_journal_that_was_tampered_with_is_refused_or_does_no_harm(command: str, tmp_path: Path) -> None:
    scenario = SCENARIOS[command]
    scenario.build(tmp_path / "logs")
    scenario.run(tmp_path)
    (journal,) = journals(tmp_path / "q")
    fields = json.loads(journal.read_text("utf-8"))
    after = contents(tmp_path / "logs" / PARTITION)
    refusals = 0
    for path in [one for one in members(fields) if one[0] in ("changes", "inputs", "events", "lock", "directory")]:
        for put in cast("tuple[Any, ...]", (None, 7, "x/../y", [])):
            journal.write_text(json.dumps(without(fields, path, put)))
            try:
                resume(str(journal), means())
            except (RefusedError, FailedError):
                refusals += 1
            assert contents(tmp_path / "logs" / PARTITION) == after, (path, put)
    assert refusals > 100


def test_an_option_that_makes_no_sense_is_a_wrong_use(tmp_path: Path) -> None:
    partition = intact(tmp_path / "logs")
    assert run("truncate", partition)[0] == 2
    assert run("truncate", partition, "--at-damage", "--to-offset", 5)[0] == 2
    assert run("reindex", partition, "--apply", "--quarantine", tmp_path / "q", "--to", tmp_path / "o")[0] == 2


def test_the_interval_comes_from_a_configuration(tmp_path: Path) -> None:
    partition, config = broken_indexes(tmp_path / "logs"), tmp_path / "server.properties"
    config.write_text("log.index.interval.bytes=0\n")
    status, out, _ = run("reindex", partition, "--config", config, "--format", "json")
    plan = json.loads(out.splitlines()[0])
    assert (status, plan["operations"][0]["to"], plan["announces"]) == (7, 8 * 4, [])


# --- refusals -------------------------------------------------------------------------------------------------
def refused(plan: Plan, quarantine: Path, match: str, **more: Any) -> RefusedError:
    before = fingerprint(quarantine.parent)
    with pytest.raises(RefusedError, match=match) as raised:
        apply(plan, str(quarantine), [], means()._replace(**more))
    assert "\n" not in str(raised.value)
    assert not os.path.exists(quarantine)
    touched = changed(
        {k: v for k, v in before.items() if "logs/" in k},
        {k: v for k, v in fingerprint(quarantine.parent).items() if "logs/" in k},
    )
    assert touched is None
    return raised.value


def touched_size(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"!")


def touched_content(path: Path) -> None:
    data, dates = path.read_bytes(), path.stat()
    with path.open("r+b") as file:
        file.write(bytes([data[0] ^ 1]))
    os.utime(path, ns=(dates.st_atime_ns, dates.st_mtime_ns))


def touched_inode(path: Path) -> None:
    shutil.copy2(path, f"{path}.tmp")
    Path(f"{path}.tmp").replace(path)


def touched_mode(path: Path) -> None:
    path.chmod(0o600)


def touched_time(path: Path) -> None:
    os.utime(path)


def touched_name(path: Path) -> None:
    (path.parent / name(99)).write_bytes(b"")


@pytest.mark.parametrize(
    "touch", [touched_size, touched_content, touched_inode, touched_mode, touched_time, touched_name, gone]
)
@pytest.mark.parametrize("one", [name(0), name(0, "timeindex")])
def test_a_plan_of_files_that_were_touched_since_is_refused(
    touch: Callable[[Path], None], one: str, tmp_path: Path
) -> None:
    partition = broken_indexes(tmp_path / "logs")
    plan = plan_of_reindex(partition)
    touch(partition / one)
    refused(plan, tmp_path / "q", r"since the plan was made|when the plan was made")


def test_a_plan_is_known_again_by_its_id_and_another_one_is_refused(tmp_path: Path) -> None:
    partition = broken_indexes(tmp_path / "logs")
    plan = plan_of_reindex(partition)
    assert plan.plan_id == plan_of_reindex(partition).plan_id
    touched_time(partition / name(0))
    assert plan.plan_id != plan_of_reindex(partition).plan_id
    args = ("reindex", partition, "--index-interval-bytes", 0, "--apply", "--quarantine", tmp_path / "q")
    status, _, said = run(*args, "--plan-id", plan.plan_id)
    assert (status, "look again" in said) == (12, True)
    assert run(*args, "--plan-id", plan_of_reindex(partition).plan_id)[0] == 0


def test_a_quarantine_in_a_log_directory_is_refused(tmp_path: Path) -> None:
    partition = broken_indexes(tmp_path / "logs")
    plan = plan_of_reindex(partition)
    for place in (tmp_path / "logs" / "q", partition / "q"):
        before = fingerprint(tmp_path)
        with pytest.raises(RefusedError, match="trip over it"):
            apply(plan, str(place), [], means())
        assert changed(before, fingerprint(tmp_path)) is None
    intact(tmp_path / "other")
    with pytest.raises(RefusedError, match="log directory"):
        apply(plan, str(tmp_path / "other" / "deep"), [], means())


def test_files_with_two_names_links_and_directories_open_to_all_are_refused(tmp_path: Path) -> None:
    partition = broken_indexes(tmp_path / "logs")
    index = partition / name(0, "timeindex")
    os.link(index, tmp_path / "second")
    refused(plan_of_reindex(partition), tmp_path / "q", "has 2 names")
    (tmp_path / "second").unlink()
    data = index.read_bytes()
    index.unlink()
    (tmp_path / "elsewhere").write_bytes(data)
    index.symlink_to(tmp_path / "elsewhere")
    plan = plan_reindex(str(partition), Reasons(str(partition)), ReindexOptions(0, force=True))
    refused(plan, tmp_path / "q", "symbolic link")
    index.unlink()
    index.write_bytes(data)
    dress(tmp_path / "logs" / PARTITION)
    partition.chmod(0o777)
    refused(plan_of_reindex(partition), tmp_path / "q", "chmod o-w")


def test_what_a_broker_will_put_in_the_place_of_others_is_refused_in_the_dry_run_too(tmp_path: Path) -> None:
    partition, q = broken_indexes(tmp_path / "logs"), tmp_path / "q"
    swap = partition / f"{name(0)}.swap"
    swap.write_bytes(b"")
    refused(plan_of_reindex(partition), q, "at its next start")
    told = f"what to do: kdump verify {partition}\n"
    args = ("reindex", partition, "--index-interval-bytes", 0)
    status, out, dry = run(*args)
    assert (status, dry.endswith(told)) == (12, True)
    assert out.splitlines()[-1] == f"nothing is changed in {partition}, with --apply or without"
    assert run(*args, "--apply", "--quarantine", q)[::2] == (12, dry)
    swap.rename(tmp_path / "elsewhere")
    assert run(*args, "--apply", "--quarantine", q)[0] == 0


@pytest.mark.parametrize("command", ["reindex", "truncate", "patch-header"])
def test_what_a_broker_only_removes_is_left_to_it(command: str, tmp_path: Path) -> None:
    scenario = SCENARIOS[command]
    partition = scenario.build(tmp_path / "logs")
    whole = contents(partition)
    leftovers = {f"{one}.{suffix}" for one in (name(0), name(0, "index")) for suffix in ("deleted", "cleaned")}
    for one in leftovers:
        (partition / one).write_bytes(b"left over")
    dress(tmp_path / "logs" / PARTITION)
    done = scenario.run(tmp_path)
    for start in Start:
        outcome = load(facts_of(partition).replace(interval=0), start, wants_contents=True)
        disk = outcome.disk
        touched = {
            one for one in {*disk.before, *disk.names()} if disk.is_changed(one) and not one.endswith(".snapshot")
        }
        assert touched == leftovers, start
    undo(done.journal, means())
    assert contents(partition) == whole | dict.fromkeys(leftovers, b"left over")


def test_a_dry_run_says_what_apply_would_refuse_as_things_are(tmp_path: Path) -> None:
    partition = broken_indexes(tmp_path / "logs")
    args = ("reindex", partition, "--index-interval-bytes", 0)
    with held(tmp_path / "logs"):
        before = fingerprint(tmp_path)
        status, out, said = run(*args)
        assert changed(before, fingerprint(tmp_path)) is None
    assert status == 7
    assert out.splitlines()[-1].startswith("to do it: ")
    assert re.search(r"^kdump: --apply would be refused as things are: .* is in use by a broker \(pid \d+ holds ", said)
    assert "would be refused" not in run(*args)[2]
    said = run(*args, "--quarantine", partition / "q")[2]
    assert "would be refused as things are" in said
    assert "lies in the partition directory" in said
    os.link(partition / name(0, "timeindex"), tmp_path / "second")
    status, _, said = run(*args)
    assert (status, "has 2 names" in said) == (12, True)


# --- several partitions -----------------------------------------------------------------------------------------
def several(log_dir: Path) -> list[Path]:
    """Five partitions: two lack an index, one has a damaged log without one, two are well."""
    whole = intact(log_dir)
    partitions = [whole, *(log_dir / f"topic-{number}" for number in range(1, 5))]
    for one in partitions[1:]:
        shutil.copytree(whole, one)
    for one in partitions[1:4]:
        (one / name(0, "index")).unlink()
    data = bytearray((partitions[2] / name(0)).read_bytes())
    data[200] ^= 1
    (partitions[2] / name(0)).write_bytes(data)
    return partitions


def test_of_several_partitions_the_last_line_counts_and_names_those_with_something_to_do(tmp_path: Path) -> None:
    several(tmp_path / "logs")
    args = ("reindex", tmp_path / "logs", "--index-interval-bytes", 0)
    status, out, said = run(*args)
    assert status == 12
    assert "nothing to do" not in out
    counts = "2 to do (topic-1, topic-3), 1 refused (topic-2), 2 with nothing to do"
    assert said.splitlines()[-1] == f"kdump: reindex: {counts}"
    with held(tmp_path / "logs"):
        status, _, said = run(*args, "--apply", "--quarantine", tmp_path / "q")
    assert status == 12
    counts = "1 refused (topic-2), 2 in use (topic-1, topic-3), 2 with nothing to do"
    assert said.splitlines()[-1] == f"kdump: reindex: {counts}"


def test_a_partition_that_is_refused_does_not_stop_the_others(tmp_path: Path) -> None:
    several(tmp_path / "logs")
    args = ("reindex", tmp_path / "logs", "--index-interval-bytes", 0, "--apply", "--quarantine", tmp_path / "q")
    status, _, said = run(*args)
    assert status == 12
    counts = "2 done (topic-1, topic-3), 1 refused (topic-2), 2 with nothing to do"
    assert said.splitlines()[-1] == f"kdump: reindex: {counts}"
    assert len(journals(tmp_path / "q")) == 2


def test_several_repairs_are_resumed_by_a_pattern(tmp_path: Path) -> None:
    partitions, q = several(tmp_path / "logs"), tmp_path / "q"
    run("reindex", partitions[1], partitions[3], "--index-interval-bytes", 0, "--apply", "--quarantine", q)
    folders = [one.parent for one in journals(q)]
    done = f"{partitions[1]}: was done already; nothing to do\n{partitions[3]}: was done already; nothing to do\n"
    assert run("resume", *folders)[:2] == (0, done)
    assert run("undo", folders[0], "--apply")[0] == 0
    status, out, said = run("resume", *folders)
    assert (status, out) == (12, done.splitlines(keepends=True)[1])
    assert "was undone: run the command again" in said


INTERRUPTED = """
import os, signal
from kdump.__main__ import main
from kdump.cli.repairing import Repair
from kdump.storage.fsops import FileOps

def interrupting(function, at):
    def instead(*args):
        seen.append(args)
        if len(seen) == at:
            os.kill(os.getpid(), signal.SIGINT)
        return function(*args)
    seen = []
    return instead

"""


def interrupted(patch: str, *args: object) -> tuple[int, str]:
    """Run a command that gets a SIGINT somewhere; the exit status, and stderr."""
    script = f"{INTERRUPTED}{patch}\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, args)],
        env={**os.environ, "PYTHONPATH": str(FIXTURES.parent)}, capture_output=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr.decode()


def test_an_interrupt_between_two_repairs_says_how_many_are_done(tmp_path: Path) -> None:
    partitions, q = several(tmp_path / "logs"), tmp_path / "q"
    paths = (partitions[1], partitions[3])
    args = ("reindex", *paths, "--index-interval-bytes", 0)
    between = "Repair.check = interrupting(Repair.check, {})"
    before = "Repair.carry_out = interrupting(Repair.carry_out, 1)"
    assert interrupted(before, *args) == (-signal.SIGINT, "kdump: reindex was interrupted: nothing was changed\n")
    apply = ("--apply", "--quarantine", q)
    told = "kdump: reindex was interrupted: 1 repair is done; run the same command again to go on\n"
    assert interrupted(between.format(1), *args, *apply) == (-signal.SIGINT, told)
    told = "kdump: reindex was interrupted: 1 repair is done; run the same command again to go on\n"
    assert interrupted(between.format(1), *args, *apply) == (-signal.SIGINT, told)
    assert run(*args, *apply)[0] == 0
    folders = [one.parent for one in journals(q)]
    assert len(folders) == 2
    told = "kdump: undo was interrupted: 1 repair is undone; run the same command again to go on\n"
    assert interrupted("Repair.say_unseen = interrupting(Repair.say_unseen, 1)", "undo", *folders, "--apply") == (
        -signal.SIGINT,
        told,
    )


def test_an_interrupt_in_the_middle_of_a_repair_names_the_journal_and_ends_by_the_signal(tmp_path: Path) -> None:
    partitions, q = several(tmp_path / "logs"), tmp_path / "q"
    args = ("reindex", partitions[0], partitions[1], partitions[3], "--index-interval-bytes", 0)
    patch = "from kdump.repair.files import File\nFile.forward = interrupting(File.forward, 1)"
    status, said = interrupted(patch, *args, "--apply", "--quarantine", q)
    (journal,) = journals(q)
    assert status == -signal.SIGINT
    first, last = said.splitlines()
    assert first == (
        f"kdump: interrupted; finish it with kdump resume {journal}, or take it back with kdump undo {journal} --apply"
    )
    assert last == "kdump: reindex: 1 failed (topic-1), 1 with nothing to do, 1 not reached"
    assert run("resume", journal)[0] == 0


def test_an_interrupt_while_a_repair_is_prepared_leaves_nothing_and_says_so(tmp_path: Path) -> None:
    partition, q = broken_indexes(tmp_path / "logs"), tmp_path / "q"
    before = seen(partition)
    patch = "from kdump.repair.apply import Work\nWork.prepare = interrupting(Work.prepare, 1)"
    args = ("reindex", partition, "--index-interval-bytes", 0, "--apply", "--quarantine", q)
    assert interrupted(patch, *args) == (-signal.SIGINT, "kdump: reindex was interrupted: nothing was changed\n")
    assert seen(partition) == before
    assert not q.exists()


def test_a_cut_of_later_segments_ends_with_the_command_that_goes_on(tmp_path: Path) -> None:
    partition = intact(tmp_path / "logs")
    status, out, _ = run("truncate", partition, "--to-offset", 7)
    assert status == 12
    command = f"truncate {partition} --to-offset 7 --with-later-segments"
    assert out.splitlines()[-1] == f"to go on: kdump {command}"
    assert run(*shlex.split(command))[0] == 7


def test_a_log_directory_is_not_taken_for_a_quarantine_nor_for_a_partition_to_cut(tmp_path: Path) -> None:
    intact(tmp_path / "logs")
    what = (
        "is not a quarantine: it has no journal; name the directory that --quarantine was given, or one of its folders"
    )
    for command in ("undo", "resume"):
        assert run(command, tmp_path / "logs")[::2] == (10, f"kdump: {tmp_path / 'logs'}: {what}\n")
    what = "is a log directory; name one of the partition directories in it"
    assert run("truncate", tmp_path / "logs", "--at-damage")[::2] == (12, f"kdump: {tmp_path / 'logs'}: {what}\n")


@pytest.mark.parametrize("command", ["reindex", "patch-header", "truncate --at-damage"])
def test_a_directory_without_partitions_ends_as_for_other_commands(command: str, tmp_path: Path) -> None:
    status, out, said = run(*command.split(), tmp_path)
    what = "no segment is here; name a partition directory or a log directory"
    assert (status, out, said) == (10, "", f"kdump: {tmp_path}: {what}\n")
    assert run("verify", tmp_path)[0] == status


def test_too_little_room_is_refused_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = broken_indexes(tmp_path / "logs")
    plan = plan_of_reindex(partition)
    true = os.statvfs(partition)
    none = os.statvfs_result((*true[:2], *true[2:4], 10, *true[5:]))
    monkeypatch.setattr("kdump.repair.guard.os.statvfs", lambda _path: none)
    refused(plan, tmp_path / "q", "bytes are needed here")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_files_of_different_owners_are_refused_and_others_files_too(tmp_path: Path) -> None:
    partition = broken_indexes(tmp_path / "logs")
    os.chown(partition / name(0, "timeindex"), 77, 77)
    refused(plan_of_reindex(partition), tmp_path / "q", "different owners")
    dress(tmp_path / "logs" / PARTITION)
    plan = plan_of_reindex(partition)
    for path in (tmp_path, tmp_path / "logs", partition, *tmp_path.parents):
        if (
            path.stat().st_uid == 0
            and path.stat().st_mode & 0o005 != 0o005
            and tmp_path.parents[2] in (path, *path.parents)
        ):
            path.chmod(path.stat().st_mode | 0o005)
    child = os.fork()
    if not child:
        status = 1
        try:
            os.setgroups([])
            os.setgid(4321)
            os.setuid(4321)
            guard.check_plan(plan, Places(os.open(partition, os.O_RDONLY), str(partition)))
        except RefusedError as error:
            status = 0 if "another user" in error.sentence else 2
        except OSError:
            status = 3
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_an_undo_is_refused_when_a_broker_has_gone_on(tmp_path: Path) -> None:
    partition = broken_indexes(tmp_path / "logs")
    apply_plan(plan_of_reindex(partition), tmp_path / "q")
    (journal,) = journals(tmp_path / "q")
    with (partition / name(10)).open("ab") as file:
        file.write(batch(16))
    with pytest.raises(RefusedError, match="was changed since"):
        undo(str(journal), means())
    partition = intact(tmp_path / "two" / "logs")
    apply_plan(plan_of_truncate(partition), tmp_path / "two" / "q")
    (journal,) = journals(tmp_path / "two" / "q")
    with (partition / name(0)).open("ab") as file:
        file.write(batch(6))
    before = fingerprint(partition)
    with pytest.raises(RefusedError, match="changed by somebody else"):
        undo(str(journal), means())
    assert changed(before, fingerprint(partition)) is None


# --- the lock -------------------------------------------------------------------------------------------------
JAVA = """
import java.nio.channels.*; import java.nio.file.*;
public class Hold {
  public static void main(String[] args) throws Exception {
    Path path = Path.of(args[0]);
    FileChannel channel = new java.io.RandomAccessFile(path.toFile(), "rw").getChannel();
    if (channel.tryLock() == null) { System.out.println("taken"); return; }
    System.out.println("held");
    System.in.read();
  }
}
"""


@contextmanager
def held_by_java(log_dir: Path, work: Path) -> Iterator[None]:
    """Hold the lock as a broker does, in a JVM."""
    (work / "Hold.java").write_text(JAVA)
    command = ["java", "-XX:TieredStopAtLevel=1", str(work / "Hold.java"), str(log_dir / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline() == "held\n"
        try:
            yield
        finally:
            broker.communicate()


def test_a_lock_that_a_broker_holds_is_respected(tmp_path: Path) -> None:
    """A JVM holds it where there is one, as a broker does; Python holds the same kind of lock."""
    partition = broken_indexes(tmp_path / "logs")
    holders: list[Callable[[], Any]] = [lambda: held(tmp_path / "logs")]
    if shutil.which("java"):
        holders.append(lambda: held_by_java(tmp_path / "logs", tmp_path))
    args = ("reindex", partition, "--index-interval-bytes", 0, "--apply", "--quarantine", tmp_path / "q")
    for holder in holders:
        with holder():
            before = fingerprint(tmp_path / "logs")
            status, _, said = run(*args)
            assert status == 11
            assert re.search(r"is in use by a broker \(pid \d+ holds .*/\.lock\)\. Stop it, or work on a copy\.", said)
            assert changed(before, fingerprint(tmp_path / "logs")) is None
            assert not (tmp_path / "q").exists()
    assert run(*args)[0] == 0


def test_while_kdump_is_at_work_a_broker_cannot_start(tmp_path: Path) -> None:
    partition = intact(tmp_path / "logs")
    lock = tmp_path / "logs" / ".lock"
    with DirectoryLock([str(partition)], above(str(partition)), Quick()) as held_here:
        assert held_here.is_missing
        assert not lock.exists()
        held_here.secure()
        file = lock.open("rb+")
        child = os.fork()
        if not child:
            with lock.open("rb+") as broker:
                try:
                    fcntl.lockf(broker, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        file.close()
        with pytest.raises(RefusedError) as raised, DirectoryLock([str(partition)], above(str(partition)), Quick()):
            pass
        assert raised.value.locked
    assert not (tmp_path / "logs" / ".lock").exists()


def test_a_lock_file_of_a_broker_stays(tmp_path: Path) -> None:
    partition = intact(tmp_path / "logs")
    (tmp_path / "logs" / ".lock").write_bytes(b"")
    with DirectoryLock([str(partition)], above(str(partition)), Quick()):
        pass
    assert (tmp_path / "logs" / ".lock").exists()


def test_a_copy_outside_of_a_log_directory_is_locked_without_a_file(tmp_path: Path) -> None:
    partition = write(tmp_path / "evidence" / PARTITION, segment(0, BATCHES[:2], interval=0))
    with DirectoryLock([str(partition)], above(str(partition)), Quick()):
        assert [path.name for path in (tmp_path / "evidence").iterdir()] == [PARTITION]
        with (
            pytest.raises(RefusedError, match="another kdump"),
            DirectoryLock([str(partition)], above(str(partition)), Quick()),
        ):
            pass
    assert TIME


def test_a_broker_that_has_lost_its_lock_is_found_by_its_open_files(tmp_path: Path) -> None:
    partition = broken_indexes(tmp_path / "logs")
    script = "import mmap,sys\nf=open(sys.argv[1],'r+b')\nm=mmap.mmap(f.fileno(),0) if sys.argv[2]=='map' else f\n"
    script += "f.close() if sys.argv[2]=='map' else None\nprint('open',flush=True)\nsys.stdin.read()"
    for how in ("open", "map"):
        command = [sys.executable, "-c", script, str(partition / name(0, "timeindex")), how]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == b"open\n"
            error = refused(plan_of_reindex(partition), tmp_path / "q", f"pid {other.pid} ", look=users_of)
            assert error.locked
            other.communicate()


# --- what strangers did ---------------------------------------------------------------------------------------
def test_a_copy_of_a_cut_log_is_not_undone_by_half(tmp_path: Path) -> None:
    """The snapshots would be brought back, and then the log is another file."""
    partition = intact(tmp_path / "logs")
    apply_plan(plan_of_truncate(partition), tmp_path / "q")
    (journal,) = journals(tmp_path / "q")
    kept = partition.rename(tmp_path / "kept")
    shutil.copytree(kept, partition)
    before = fingerprint(partition)
    with pytest.raises(RefusedError, match="is another file"):
        undo(str(journal), means())
    assert changed(before, fingerprint(partition)) is None
    shutil.rmtree(partition)
    kept.rename(partition)
    undo(str(journal), means())
    assert contents(partition) == contents(intact(tmp_path / "other"))


def test_a_device_may_have_another_number_after_a_restart(tmp_path: Path) -> None:
    partition = intact(tmp_path / "logs")
    apply_plan(plan_of_truncate(partition), tmp_path / "q")
    (journal,) = journals(tmp_path / "q")
    fields = json.loads(journal.read_text("utf-8"))
    for change in fields["changes"]:
        for side in ("before", "like"):
            if change[side] is not None:
                change[side]["device"] += 1
    journal.write_text(json.dumps(fields))
    undo(str(journal), means())
    assert contents(partition) == contents(intact(tmp_path / "other"))


def test_a_repair_whose_log_was_replaced_is_not_resumed_by_half(tmp_path: Path) -> None:
    partition = intact(tmp_path / "logs")
    apply_plan(plan_of_truncate(partition), tmp_path / "q")
    (journal,) = journals(tmp_path / "q")
    undo(str(journal), means())
    fields = json.loads(journal.read_text("utf-8"))
    fields["events"] = [one for one in fields["events"] if one["state"] in ("planned", "armed")]
    journal.write_text(json.dumps(fields))
    (log,) = [partition / one["name"] for one in fields["changes"] if one["cut"] is not None]
    kept = log.rename(tmp_path / "kept")
    shutil.copy2(kept, log)
    before = fingerprint(partition)
    with pytest.raises(RefusedError, match="is another file"):
        resume(str(journal), means())
    assert changed(before, fingerprint(partition)) is None


@pytest.mark.parametrize(
    "odd", ["new\nline", "\x1b[31mred", "two words", "\u00fcn\u00ef", "\udcff", "-dash", "it's\n\\"]
)
def test_the_command_that_carries_a_plan_out_can_be_pasted(odd: str, tmp_path: Path) -> None:
    logs = tmp_path / odd / "logs"
    broken_indexes(logs)
    command = [sys.executable, "-m", "kdump"]
    place = {**os.environ, "PYTHONPATH": str(Path(kdump.__file__).parents[1])}
    args = [*command, "reindex", "--", os.path.join(odd, "logs")]
    out = unwrapped(subprocess.run(args, cwd=tmp_path, env=place, capture_output=True, check=False).stdout.decode())
    assert odd.isprintable() or odd not in out
    again = re.search(r"^to do it: kdump (.*) DIR$", out, re.MULTILINE)
    assert again is not None
    text = f'"$@" {again[1]} q'
    done = subprocess.run(
        ["bash", "-c", text, "bash", *command], cwd=tmp_path, env=place, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (journal,) = journals(tmp_path / "q")
    for verb in (["resume"], ["undo", "--apply"]):
        done = subprocess.run([*command, *verb, journal], cwd=tmp_path, env=place, capture_output=True, check=False)
        assert (done.returncode, done.stdout.count(b"\n")) == (0, 1)
        assert b"\x1b" not in done.stdout


@pytest.mark.parametrize("command", ["reindex", "patch-header"])
def test_nothing_to_do_where_something_is_wrong_says_so(command: str, tmp_path: Path) -> None:
    partition = intact(tmp_path / "logs")
    log = partition / name(10)
    data = bytearray(log.read_bytes())
    data[len(BATCHES[0]) + 80] ^= 1
    log.write_bytes(data)
    path = log if command == "patch-header" else partition
    status, out, said = run(command, path)
    assert (status, out) == (3, f"nothing to do in {partition}\n")
    assert f"kdump: {path}: 1 error here that this command cannot repair; look with kdump verify\n" == said


def test_a_journal_that_cannot_be_read_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "journal.json").mkdir()
    status, _, said = run("undo", tmp_path, "--apply")
    assert (status, said) == (12, f"kdump: {tmp_path / 'journal.json'}: is a directory, not a journal\n")


class Forbidden(FileOps):
    """May open nothing for writing that is there already, as with a read-only log."""

    def open_to_change(self, directory: int, name: str) -> int:
        if name.endswith(".log"):
            raise PermissionError(13, "Permission denied", name)
        return super().open_to_change(directory, name)


@pytest.mark.parametrize("command", ["truncate", "patch-header"])
def test_a_log_that_may_not_be_written_is_refused_before_anything_is_changed(command: str, tmp_path: Path) -> None:
    if command == "truncate":
        plan = plan_of_truncate(intact(tmp_path / "logs"))
    else:
        plan = plan_of_patches(broken_headers(tmp_path / "logs"))
    before = seen(tmp_path / "logs" / PARTITION)
    with pytest.raises(RefusedError, match="nothing was changed"):
        apply(plan, str(tmp_path / "q"), [], means(Forbidden()))
    assert seen(tmp_path / "logs" / PARTITION) == before
    assert not journals(tmp_path / "q")


def test_a_failure_names_the_whole_path(tmp_path: Path) -> None:
    directory = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(FileNotFoundError) as failed:
        FileOps().remove(directory, "gone")
    os.close(directory)
    assert failed.value.filename == str(tmp_path / "gone")


def test_a_directory_that_cannot_be_listed_is_not_an_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    partition = intact(tmp_path / "logs")
    repair = Repair({"fail_on": "error", "layout": "text"})
    monkeypatch.setattr("kdump.cli.reindex.os.scandir", refuse)
    reindex_directory(repair, [str(partition)], {})
    assert repair.end() == 5


def test_indexes_of_one_partition_are_one_repair_that_is_judged_at_its_end(tmp_path: Path) -> None:
    partition = copy_tree(DAMAGE / "intact" / "none" / "logdir", tmp_path / "logs") / "plain-0"
    paths = [partition / f"{base:020}.index" for base in (119, 240)]
    for path in paths:
        data = bytearray(path.read_bytes())
        data[15] ^= 0xFF
        path.write_bytes(data)
    code, stdout, _ = run("reindex", *paths)
    assert code == 7
    assert f"to do it: kdump reindex {paths[0]} {paths[1]} --apply" in stdout
    code, stdout, stderr = run("reindex", *paths, "--apply", "--quarantine", tmp_path / "aside")
    assert (code, stderr) == (0, "")
    assert "error" not in stdout
    assert len(list((tmp_path / "aside").iterdir())) == 1
    assert run("verify", "--quiet", tmp_path / "logs")[0] == 0
