"""What kdump says to do about damage does what it says, in the order in which it is said."""

from __future__ import annotations

import json
import os
import shlex
from typing import TYPE_CHECKING

import pytest

import kdump
from kdump.finding import Code, Severity
from tests.support.damage_cases import apply_edit, damage_cases
from tests.support.partitions import below, name, segment, write
from tests.support.repair_trees import PARTITION, broken_headers, broken_indexes, intact
from tests.support.runs import FIXTURES, copy_tree, flat, run_kdump
from tests.support.segments import batch
from tests.support.step_runs import (
    acts,
    after_steps,
    best_of_all_orders,
    copied,
    is_writer,
    loud_findings,
    unmended,
)
from tests.support.verify_runs import held

if TYPE_CHECKING:
    from pathlib import Path

DAMAGE = FIXTURES / "damage"
CASES = {case.name: case for case in damage_cases(DAMAGE)}
SAMPLE = [*CASES][::8]  # all of them: python -m tests.support.step_runs
TOGETHER = [
    ("l05-length-0", "l01-torn-last-17", "x-zero-tail-mid"),
    ("b-flip-baseOffset-low", "t-decreasing-mid", "b01-payload-last-last"),
    ("f09-index-missing-first", "b-flip-magic-high", "l04-hole-last"),
]
"""Damage of several kinds in one partition."""


@pytest.mark.parametrize(("base", "log"), [("none", f"plain-0/{name(119)}"), ("txn", f"payments-0/{name(114)}")])
def test_the_step_with_salvage_says_that_it_leaves_out_what_may_have_ended_in_the_damage(
    base: str, log: str, tmp_path: Path
) -> None:
    path = copy_tree(DAMAGE / "intact" / base / "logdir", tmp_path / "logs") / log
    data = bytearray(path.read_bytes())
    data[500:502] = b"ZZ"
    path.write_bytes(data)
    (step,) = (one for one in kdump.verify([tmp_path / "logs"]).steps if "kdump salvage" in (one.command or ""))
    assert (step.keeps.records is None) is (base == "txn")
    assert step.why.endswith("; it leaves out, and names, batches whose transaction may have ended in the damage") is (
        base == "txn"
    )


@pytest.mark.parametrize("case", SAMPLE)
def test_the_repair_of_a_finding_removes_it(case: str, tmp_path: Path) -> None:
    assert unmended(CASES[case].build(tmp_path / "build"), tmp_path / "run") == []


@pytest.mark.parametrize("case", SAMPLE[1::4])
def test_where_any_order_ends_clean_the_steps_do_and_keep_as_much(case: str, tmp_path: Path) -> None:
    check_order(CASES[case].build(tmp_path / "build"), tmp_path / "run")


@pytest.mark.parametrize("cases", TOGETHER, ids=lambda cases: cases[0])
def test_steps_mend_damage_of_several_kinds_and_no_order_keeps_more(cases: tuple[str, ...], tmp_path: Path) -> None:
    build = tmp_path / "build"
    copy_tree(DAMAGE / "intact" / "none" / "logdir", build)
    for case in cases:
        for edit in CASES[case].edits:
            apply_edit(build, edit)
    assert loud_findings(build)
    assert unmended(build, tmp_path / "run") == []
    commands = check_order(build, tmp_path / "run")
    assert [shlex.split(one)[1] for one in commands] == ["repair", "truncate"]


def test_a_cut_below_the_log_start_is_no_step_as_truncate_refuses_it(tmp_path: Path) -> None:
    """The log starts at offset 58: with what a cut at the first damage leaves below it, a broker deletes all."""
    for position, is_step in ((1470, False), (4000, True)):
        tree = copy_tree(DAMAGE / "intact" / "logstart" / "logdir", tmp_path / str(position))
        apply_edit(tree, {"op": "set", "file": f"logstart-0/{name(0)}", "position": position, "bytes": "ff"})
        commands = [step.command or "" for step in kdump.verify([str(tree)]).steps]
        assert any("truncate" in command for command in commands) is is_step
        cut = ["truncate", "--at-damage", "--with-later-segments", str(tree / "logstart-0")]
        assert run_kdump(cut, tmp_path).exit == (7 if is_step else 12)


def check_order(build: Path, root: Path) -> list[str]:
    commands, left, kept = after_steps(build, root)
    best = best_of_all_orders(build, root, commands)
    if best is not None:
        assert left == []
        assert kept == best
    return commands


def test_a_cut_that_costs_intact_records_is_a_step_and_the_repair_of_nothing(tmp_path: Path) -> None:
    log_dir = CASES["b01-payload-first-first"].build(tmp_path / "logs")
    verdict = kdump.verify(log_dir)
    assert [one.repair for one in verdict.findings if one.code is Code.B01] == [None]
    compare, salvage, restore, cut = verdict.steps
    assert [one.rank.value for one in verdict.steps] == ["recommended", "if", "if", "last-resort"]
    assert compare.command == f"kdump verify --replicas {log_dir}/plain-0 OTHER"
    assert salvage.command == f"kdump salvage {log_dir}/plain-0 --to DIR"
    assert restore.command is None
    assert "another replica" in restore.why
    assert cut.command == f"kdump truncate {log_dir}/plain-0 --at-damage --with-later-segments"
    assert [(one.keeps.records, one.loses.records) for one in (salvage, cut)] == [(296, 0), (0, 296)]


def test_steps_for_one_log_restore_and_salvage_its_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one segment in the place of the partition would cost all others."""
    partition = CASES["b01-payload-first-first"].build(tmp_path / "logs") / "plain-0"
    log = partition / name(0)
    _, salvage, restore, cut = kdump.verify(log).steps
    assert restore.why.startswith(f"restore {partition} ")
    assert salvage.command == f"kdump salvage {partition} --to DIR"
    assert cut.command == f"kdump truncate {log} --at-damage --with-later-segments"
    monkeypatch.chdir(partition)
    assert [one.command for one in kdump.verify(name(0)).steps][1] == "kdump salvage . --to DIR"
    alone = copied(partition, tmp_path / "found") / name(0)
    assert [one.command for one in kdump.verify(alone).steps][1] == f"kdump salvage {alone} --to DIR --name TOPIC-N"


def test_a_torn_tail_is_cut_by_its_repair_and_salvage_would_keep_no_more(tmp_path: Path) -> None:
    log_dir = CASES["l01-torn-last-60"].build(tmp_path / "logs")
    verdict = kdump.verify(log_dir)
    (torn,) = (one for one in verdict.findings if one.code is Code.L02)
    assert torn.repair == f"kdump truncate {torn.file} --at-damage"
    salvage, cut = (one for one in verdict.steps if one.command and one.command.split()[1] in ("salvage", "truncate"))
    assert cut.command == f"kdump truncate {log_dir}/plain-0 --at-damage"
    assert salvage.keeps == cut.keeps == kdump.Amount(295, 295)


def test_commands_are_quoted_for_a_shell_with_paths_as_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    intact_index = broken_indexes(tmp_path / "logs")
    odd = tmp_path / "-it's $(odd)"
    (tmp_path / "logs").rename(odd)
    monkeypatch.chdir(tmp_path)
    (finding, *_) = (one for one in kdump.verify(odd.name).findings if one.repair)
    words = shlex.split(str(finding.repair))
    assert words[:2] == ["kdump", "reindex"]
    assert words[2].startswith(f"./{odd.name}/{intact_index.name}/")
    assert os.path.exists(words[2])


def test_a_missing_index_is_built_by_the_name_of_its_log(tmp_path: Path) -> None:
    partition = broken_indexes(tmp_path / "logs")
    (missing,) = (one for one in kdump.verify(partition).findings if one.code is Code.F09)
    assert missing.repair == f"kdump reindex {partition / name(0)}"


def test_header_fields_are_patched_in_one_step(tmp_path: Path) -> None:
    partition = broken_headers(tmp_path / "logs")
    verdict = kdump.verify(partition)
    command = f"kdump patch-header {partition / name(0)}"
    assert {one.repair for one in verdict.findings if one.severity is Severity.ERROR} == {command}
    steps = [(one.rank.value, one.command) for one in verdict.steps if one.command]
    assert steps == [("recommended", f"kdump repair {partition}")]


@pytest.mark.parametrize("kind", ["log", "index"])
def test_a_file_that_is_named_alone_has_repairs_too(kind: str, tmp_path: Path) -> None:
    partition = broken_headers(tmp_path / "a") if kind == "log" else broken_indexes(tmp_path / "b")
    path = str(partition / name(0)) if kind == "log" else str(partition / name(10, "index"))
    verdict = kdump.verify(path)
    command = "patch-header" if kind == "log" else "reindex"
    assert {one.repair for one in verdict.findings if one.severity is Severity.ERROR} == {f"kdump {command} {path}"}
    assert [one.command for one in verdict.steps] == [f"kdump {command} {path}"]


def test_an_index_of_a_damaged_log_that_is_named_alone_has_no_repair_but_what_names_the_steps(tmp_path: Path) -> None:
    partition = CASES["l09-garbage-17"].build(tmp_path / "logs") / "plain-0"
    verdict = kdump.verify(partition / name(119, "index"))
    assert {one.repair for one in verdict.findings} == {None}
    (step,) = verdict.steps
    assert step.command == f"kdump verify {partition}"
    assert f"{partition / name(119)}, which is damaged too" in step.why


@pytest.mark.parametrize("is_sound", [True, False])
def test_an_index_with_which_lookups_are_slow_names_the_command_that_builds_it_where_its_log_is_sound(
    is_sound: bool, tmp_path: Path
) -> None:
    partition = copy_tree(FIXTURES / "index-x08-short", tmp_path / "logs" / "orders-0")
    if not is_sound:
        data = bytearray((partition / name(0)).read_bytes())
        data[-1] ^= 1
        (partition / name(0)).write_bytes(data)
    (found,) = (one for one in kdump.verify(partition).findings if one.code is Code.X08)
    assert found.remedy == "rebuild the index if lookups matter"
    assert found.repair == (f"kdump reindex {partition / name(0, 'index')} --force" if is_sound else None)
    if is_sound:
        assert unmended(partition.parent, tmp_path / "run") == []


def test_an_entry_that_no_broker_must_follow_is_taken_out_by_a_command(tmp_path: Path) -> None:
    log_dir = CASES["k02-logstart-beyond-leo"].build(tmp_path / "logs")
    hold, step, start = kdump.verify(log_dir).steps
    assert hold.why.startswith("do not start the broker: it discards 297 records")
    assert step.command == f"kdump repair {log_dir} --only checkpoint"
    assert "K02 start-ahead" in step.why
    assert (start.rank.value, start.loses.records, start.keeps.records) == ("last-resort", 297, 0)


def test_each_partition_has_options_of_its_own(tmp_path: Path) -> None:
    broken_headers(tmp_path / "logs")
    (tmp_path / "logs" / PARTITION).rename(tmp_path / "logs" / "other-0")
    copied_to = copied(tmp_path / "logs", tmp_path / "all")
    broken_headers(copied_to)
    for at in (1, 2):
        copy_tree(copied_to / "other-0", copied_to / f"other-{at}")
    steps = kdump.verify(copied_to).steps
    words = [word for one in steps if is_writer(one.command) for word in shlex.split(one.command or "")[2:]]
    assert len(set(words)) == 4
    blocks = [one for one in steps if one.begins_block]
    assert len({path for one in blocks for path in one.partitions}) == sum(len(one.partitions) for one in blocks) == 4


def test_nothing_is_to_be_done_where_nothing_is_wrong(tmp_path: Path) -> None:
    partition = intact(tmp_path / "logs")
    assert kdump.verify(partition.parent).steps == ()


def test_a_broker_that_runs_is_no_reason_to_be_silent(tmp_path: Path) -> None:
    broken_headers(tmp_path / "logs")
    with held(tmp_path / "logs"):
        assert kdump.verify(tmp_path / "logs").steps


def test_the_commands_that_mend_a_code_are_named_in_the_order_in_which_they_are_tried() -> None:
    assert Code.B03.repairs == ("patch-header", "truncate")
    assert Code.O06.repairs == ()


def test_where_indexes_tell_what_is_lost_they_are_built_again_only_knowingly(tmp_path: Path) -> None:
    log_dir = CASES["x07-log-cut-index-stale"].build(tmp_path / "logs")
    verdict = kdump.verify(log_dir)
    explained = [one for one in verdict.findings if Code.F14 in (one.code, one.because)]
    assert {Code.F14, Code.X07, Code.T04} <= {one.code for one in explained}
    assert {one.repair for one in explained} == {None}
    (restore,) = (one for one in verdict.steps if one.why.startswith("restore "))
    assert "another replica" in restore.why
    (forced,) = (one for one in verdict.steps if "--force" in (one.command or ""))
    assert forced.condition == "there is no other replica"  # else a broker hides what is left
    assert forced.command == f"kdump reindex {log_dir}/plain-0/{name(240)} --force"
    run_kdump([*shlex.split(forced.command)[1:], "--apply", "--quarantine", str(tmp_path / "aside")], tmp_path)
    assert not any(one.code in (Code.X07, Code.T04) for one in loud_findings(log_dir))


def damaged_with_index(root: Path) -> Path:
    """A partition with a damaged batch, and a damaged index of its log."""
    partition = copy_tree(DAMAGE / "intact" / "none" / "logdir", root / "logs") / "plain-0"
    for path, at in ((partition / name(119, "log"), 900), (partition / name(119, "index"), 7)):
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)
    return partition


def test_the_index_of_a_damaged_log_says_what_settles_it(tmp_path: Path) -> None:
    """Reindex refuses there: to name it alone leads in a circle."""
    partition = damaged_with_index(tmp_path)
    for path in (partition, partition / name(119, "index")):
        found = next(one for one in loud_findings(path) if one.code is Code.X04)
        assert found.repair is None
        assert found.remedy.startswith("rebuild the index, after its log (B01): ")
    refused = run_kdump(["reindex", str(partition)], tmp_path)
    assert refused.exit == 12
    damage = next(one for one in loud_findings(partition) if one.code is Code.B01)
    assert f"stored crc = {damage.found:#010x}".encode() in refused.stderr


@pytest.mark.parametrize("command", ["salvage", "truncate"])
def test_what_settles_a_damaged_log_settles_its_index(command: str, tmp_path: Path) -> None:
    partition, saved = damaged_with_index(tmp_path), tmp_path / "saved"
    flags = {
        "salvage": ["--to", str(saved)],
        "truncate": ["--at-damage", "--with-later-segments", "--apply", "--quarantine", str(tmp_path / "aside")],
    }
    run = run_kdump([command, str(partition), *flags[command]], tmp_path)
    assert run.exit == {"salvage": 3, "truncate": 0}[command]
    assert {one.code for one in loud_findings(saved if command == "salvage" else partition)} <= {Code.K01}


def test_a_file_that_is_no_log_is_an_error_though_the_search_in_it_had_no_end(tmp_path: Path) -> None:
    """And where not all was searched, no repair says that nothing is intact there."""
    (tmp_path / "t-0").mkdir()
    path = tmp_path / "t-0" / name(0)
    looks = bytearray(batch(0, [b"v"])[:61])
    looks[8:12], looks[17] = (61 * 1000 - 12).to_bytes(4, "big"), looks[17] ^ 1  # where it ends, another begins
    path.write_bytes(b"\x7fELF" + bytes(range(1, 97)) + 4000 * bytes(looks))
    run = run_kdump(["verify", str(tmp_path)], tmp_path)
    text = flat(run.stdout)
    assert "(it looks like a program) -> restore the file from another replica" in text.partition("error F10")[2]
    assert "-> kdump carve searches any bytes for batches" in text.partition("warning L12")[2]
    assert " restore " in text.partition("next steps")[2]
    assert run.exit == 6


def test_an_end_that_was_cut_off_is_compared_with_another_replica_and_no_step_beside_a_restore(tmp_path: Path) -> None:
    """Its own index knows more: compaction does not explain that."""
    log = copy_tree(FIXTURES / "kafka-4.3.1/clean/node1/txnspan-0", tmp_path / "txnspan-0") / name(211)
    os.truncate(log, 6000)
    found = kdump.verify([str(log.parent)])
    (gap,) = [one for one in found.findings if one.code is Code.O07]
    assert (
        gap.remedy == "the end of the log is cut off: see what another replica has: kdump verify --replicas DIR OTHER"
    )
    assert [
        step.command and step.command.split()[1]
        for step in found.steps
        if step.rank is not kdump.Rank.IF and step.command
    ] == [
        "verify",
        "truncate",
    ]


@pytest.mark.parametrize("command", ["verify", "reindex", "patch-header", "truncate"])
def test_a_log_that_is_lost_comes_before_damage_behind_it(command: str, tmp_path: Path) -> None:
    """Verify and the repairs ended by an exception here, where nothing but the lost log comes before the cut."""
    partition = copy_tree(DAMAGE / "intact" / "none" / "logdir", tmp_path / "logs") / "plain-0"
    (partition / name(119, "log")).unlink()
    log = partition / name(240, "log")
    data = bytearray(log.read_bytes())
    data[300] ^= 1
    log.write_bytes(data)
    options = ["--at-damage"] if command == "truncate" else []
    run = run_kdump([command, str(partition), *options], tmp_path)
    assert run.exit not in (0, 1), run.stderr
    steps = kdump.verify(partition).steps
    verbs = [one.command and one.command.split()[1] for one in steps]
    assert verbs == [None, "verify", "salvage", None, "truncate", None]
    assert "what alone tells of lost logs" in steps[0].why
    assert "F08 leftover" in steps[3].why


PLAIN = "plain-0"


def without_middle(log_dir: Path) -> Path:
    copy_tree(DAMAGE / "intact" / "none" / "logdir", log_dir)
    for path in (log_dir / PLAIN).glob(f"{119:020}.*"):
        path.unlink()
    return log_dir


def without_a_batch(log_dir: Path) -> Path:
    copy_tree(DAMAGE / "intact" / "none" / "logdir", log_dir)
    log = log_dir / PLAIN / name(119)
    data = log.read_bytes()
    log.write_bytes(data[:1032] + data[1272:])
    return log_dir


def test_where_offsets_are_missing_the_first_step_asks_another_replica(tmp_path: Path) -> None:
    log_dir = without_middle(tmp_path / "logs")
    step, nothing = kdump.verify(log_dir).steps
    assert step.command == f"kdump verify --replicas {log_dir}/{PLAIN} OTHER"
    assert step.why.startswith("offsets 119..239 are missing")
    assert (nothing.condition, nothing.command) == ("there is no other replica", None)


def test_where_offsets_are_missing_no_step_says_that_nothing_is_lost(tmp_path: Path) -> None:
    log_dir = without_a_batch(tmp_path / "logs")
    compare, repair = (one for one in kdump.verify(log_dir).steps if one.command)
    assert compare.command is not None
    assert compare.command.startswith("kdump verify --replicas ")
    assert repair.command is not None
    assert repair.command.startswith("kdump repair ")
    assert "nothing is lost" not in repair.why


def test_where_replicas_were_compared_what_is_missing_is_restored_from_the_sound_one(tmp_path: Path) -> None:
    log_dir = without_a_batch(tmp_path / "logs")
    other = copy_tree(DAMAGE / "intact" / "none" / "logdir", tmp_path / "other")
    run = run_kdump(["verify", "--replicas", "--format", "json", str(log_dir), str(other)], tmp_path)
    steps = [row for row in map(json.loads, run.stdout.splitlines()) if row["type"] == "step"]
    assert steps[0]["why"].startswith(f"restore {log_dir}/{PLAIN} from {other}/{PLAIN}, in which nothing is wrong")
    assert (steps[0]["rank"], steps[0]["loses"]) == ("recommended", {"offsets": 0, "records": 0})
    assert "verify --replicas" not in json.dumps(steps)


def test_where_no_replica_has_a_lost_log_a_broker_serves_the_rest_and_nothing_is_salvaged(tmp_path: Path) -> None:
    partition = copy_tree(DAMAGE / "intact" / "none" / "logdir", tmp_path / "logs") / "plain-0"
    (partition / name(119, "log")).unlink()
    steps = acts(kdump.verify(partition).steps)
    assert [one.command and one.command.split()[1] for one in steps][:2] == ["verify", None]
    assert steps[1].condition == "there is no other replica"
    assert steps[1].why.startswith("nothing to do but to look for what is lost")  # the start removes its indexes
    assert steps[1].why.endswith("start the broker all the same: it serves the rest")
    assert not any("salvage" in (one.command or "") for one in steps)


def test_salvage_of_a_directory_that_does_not_say_its_partition_asks_for_the_name(tmp_path: Path) -> None:
    partition = damaged_with_index(tmp_path)
    unnamed = partition.rename(tmp_path / "copy")
    (command,) = (one.command for one in kdump.verify(unnamed).steps if one.command and " salvage " in one.command)
    assert command == f"kdump salvage {unnamed} --to DIR --name TOPIC-N"
    assert run_kdump([*shlex.split(command)[1:-1], "plain-0"], tmp_path).exit == 3


def test_the_step_of_an_epoch_file_that_no_batch_tells_says_all_that_a_person_does(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / "leader-epoch-checkpoint").write_text("zero\n")
    (tmp_path / "t-0" / "00000000000000000000.log").write_bytes(b"damaged" * 100)
    step = flat(run_kdump(["verify", str(tmp_path / "t-0")], tmp_path).stdout).partition("next steps")[2]
    assert "while the broker is stopped, copy the file of another replica of the partition over this one" in step
    assert (
        "without such a replica take the one that kdump salvage makes from the batches, or move this file away" in step
    )


# --- a producer snapshot that is named -----------------------------------------------------------------------
def with_bad_snapshot(root: Path, name: str) -> tuple[Path, Path]:
    partition = copy_tree(FIXTURES / "releases" / "2.8.2" / "logs" / "txn-0", root / "txn-0")
    path = partition / name
    data = bytearray(path.read_bytes())
    data[30] ^= 1
    path.write_bytes(data)
    return partition, path


def test_the_newest_producer_snapshot_is_left_to_the_broker_by_finding_and_reindex(tmp_path: Path) -> None:
    partition, path = with_bad_snapshot(tmp_path, "00000000000000000079.snapshot")
    said = flat(run_kdump(["verify", str(partition)], tmp_path).stdout)
    assert "none needed: a broker builds it again from an older one and the log" in said.partition(" S01 ")[2]
    assert "nothing to do: every record is readable (S01 snapshot in " in said
    refused = run_kdump(["reindex", str(path)], tmp_path)
    assert refused.exit == 12
    assert "no segment begins at offset 79: a broker builds it again at its next start" in refused.stderr.decode()


def test_reindex_of_a_producer_snapshot_names_the_command_for_its_segment(tmp_path: Path) -> None:
    name = "00000000000000000009.snapshot"
    partition, path = with_bad_snapshot(tmp_path, name)
    refused = run_kdump(["reindex", str(path)], tmp_path)
    assert refused.exit == 12
    log = partition / name.replace("snapshot", "log")
    assert f"kdump reindex {log} --snapshot" in refused.stderr.decode()


def test_an_epoch_file_has_the_remedy_of_what_is_wrong_with_it(tmp_path: Path) -> None:
    logs = write(
        tmp_path,
        below("t-0", segment(0, [batch(0, [b"v"], epoch=1), batch(1, [b"v"], epoch=1)])),
    )
    path = logs / "t-0" / "leader-epoch-checkpoint"

    def remedy() -> str:
        rows = map(json.loads, run_kdump(["verify", "--format", "json", "t-0"], logs).stdout.splitlines())
        (found,) = [row for row in rows if row.get("code") == "K04"]
        return str(found["remedy"])

    missing = remedy()
    assert missing.startswith(
        "while the broker is stopped, copy the file of another replica of the partition to this place"
    )
    path.write_text("0\n2\n1 0\n2 7\n")
    assert remedy().startswith("leave it: what is missing is the end of the log")
    path.write_text("0\n2\n2 0\n1 1\n")
    assert remedy() == missing
    assert run_kdump(["salvage", "t-0", "--to", "out"], logs).exit == 0
    assert (logs / "out" / "t-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n1 0\n"


def test_a_restored_metadata_log_leaves_the_node_its_votes_and_its_snapshots(tmp_path: Path) -> None:
    """Kafka 4.3.1 begins with the newest snapshot then, and reads quorum-state."""
    log = copy_tree(FIXTURES / "kafka-4.3.1/clean/node1/__cluster_metadata-0", tmp_path / "__cluster_metadata-0")
    data = bytearray((log / name(0)).read_bytes())
    data[18570] ^= 1
    (log / name(0)).write_bytes(data)
    (first,) = (one for one in kdump.verify([log]).steps if one.why.startswith("restore "))
    kept = "move all files but quorum-state and sound .checkpoint files out of the directory"
    assert first.why.startswith(f"restore {log} from another replica, if one is sound (B01 ")
    assert f": stop the node, {kept}, and start it while the other controllers run and have a leader" in first.why
