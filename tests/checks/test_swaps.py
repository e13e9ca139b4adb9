"""verify judges a partition as the next start has it, once that has put in place what waits as `.swap`."""

from __future__ import annotations

import json
import shlex
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.make_fixtures import topic_id
from tests.support.partitions import Files, below, checkpoint, meta, name, segment, write
from tests.support.runs import run_kdump
from tests.support.segments import batch

if TYPE_CHECKING:
    from pathlib import Path

PARTITION = "data/orders-0"
END = 15


def log(base: int, count: int) -> Files:
    return segment(base, [batch(base + one, [b"v%d" % (base + one)]) for one in range(count)], interval=1)


FIRST, SECOND, THIRD = log(0, 5), log(5, 5), log(10, 5)
WHOLE = FIRST | SECOND | THIRD
INDEXES = {path: data for path, data in SECOND.items() if not path.endswith(".log")}


def waiting(files: Files) -> Files:
    return {f"{path}.swap": data for path, data in files.items()}


def flipped(files: Files, base: int, at: int = -1) -> Files:
    data = bytearray(files[name(base)])
    data[at] ^= 0x55
    return files | {name(base): bytes(data)}


def cut(files: Files, base: int, size: int) -> Files:
    return files | {name(base): files[name(base)][:-size]}


def log_only(files: Files) -> Files:
    return {path: data for path, data in files.items() if path.endswith(".log")}


def make(root: Path, files: Files) -> None:
    ends = checkpoint(("orders", 0, END))
    of_dir: Files = {
        "meta.properties": meta(1),
        "log-start-offset-checkpoint": checkpoint(),
        "recovery-point-offset-checkpoint": ends,
        "replication-offset-checkpoint": ends,
        ".kafka_cleanshutdown": b'{"version":0,"brokerEpoch":1}',
    }
    write(
        root,
        below(
            "data", of_dir | below("orders-0", files | topic_id("C") | {"leader-epoch-checkpoint": checkpoint((0, 0))})
        ),
    )


class Verdict:
    """What verify says."""

    def __init__(self, root: Path, *args: str, path: str = PARTITION) -> None:
        run = run_kdump(["verify", path, *args, "--format", "json"], root)
        rows = [json.loads(line) for line in run.stdout.splitlines()]
        self.status = run.exit
        self.findings = [one for one in rows if one["type"] == "finding"]
        self.errors = [one for one in self.findings if one["severity"] == "error"]
        self.lost = [(one["offset"], one["lastOffset"]) for one in rows if one["type"] == "loss"]
        self.steps = [one for one in rows if one["type"] == "step"]
        self.predicted = {one["start"]: one for one in rows if one["type"] == "prediction"}

    def of(self, code: str) -> list[dict[str, Any]]:
        return [one for one in self.findings if one["code"] == code]

    @property
    def commands(self) -> list[str]:
        return [one["command"] for one in self.steps if one["command"]]


def in_place(command: str) -> bool:
    return command.startswith(("kdump truncate", "kdump reindex", "kdump patch-header"))


# --- what waits is sound: nothing is lost --------------------------------------------------------------------
SOUND: dict[str, Files] = {
    "the last log waits": FIRST | SECOND | waiting(THIRD),
    "the last log waits alone": FIRST | SECOND | waiting(log_only(THIRD)),
    "the first log waits": waiting(FIRST) | SECOND | THIRD,
    "a log in the middle waits": FIRST | waiting(SECOND) | THIRD,
    "a log waits beside its old indexes": FIRST | SECOND | {**THIRD, **waiting(log_only(THIRD))},
    "an empty log lies there": FIRST | SECOND | waiting(THIRD) | {name(10): b""},
    "an empty log lies in the middle": FIRST | waiting(SECOND) | THIRD | {name(5): b""},
    "what goes is damaged": FIRST | flipped(SECOND, 5) | waiting(SECOND) | THIRD,
    "what goes at the end is damaged": FIRST | SECOND | flipped(THIRD, 10) | waiting(THIRD),
    "one for two, both damaged": flipped(FIRST, 0) | flipped(SECOND, 5) | waiting(log(0, 10)) | THIRD,
    "two for one that is damaged": flipped(log(0, 10), 0) | waiting(FIRST) | waiting(SECOND) | THIRD,
    "only indexes wait": FIRST | log_only(SECOND) | waiting(INDEXES) | THIRD,
    "indexes wait beside wrong ones": WHOLE | {name(5, "index"): b"\0" * 7} | waiting(INDEXES),
}


@pytest.mark.parametrize("case", SOUND)
def test_what_waits_and_is_sound_is_no_loss_and_what_goes_for_it_is_no_damage(case: str, tmp_path: Path) -> None:
    make(tmp_path, SOUND[case])
    said = Verdict(tmp_path, "--start", "all")
    assert (said.status, said.errors, said.lost) == (0, [], [])
    assert said.commands == []
    assert {one["recordsLost"] for one in said.predicted.values()} == {0}
    assert not [one for one in said.findings if one["code"] in ("L17", "L19", "O07", "F14", "K01", "S02")]
    assert run_kdump(["salvage", PARTITION, "--to", "out"], tmp_path).stdout.count(b"; lost: nothing\n") == 1
    for offset in (7, 14):
        found = run_kdump(["find-offset", PARTITION, str(offset), "--format", "json"], tmp_path)
        (row,) = [one for one in map(json.loads, found.stdout.splitlines()) if one["type"] == "location"]
        assert (found.exit, row["offset"]) == (0, offset)


def test_what_goes_is_named_and_what_waits_is_to_be_left(tmp_path: Path) -> None:
    make(tmp_path, FIRST | SECOND | waiting(log(0, 10)) | THIRD)
    said = Verdict(tmp_path)
    told = {one["file"]: one for one in said.of("F08")}
    swap = told[f"{PARTITION}/{name(0)}.swap"]
    assert f"{name(0)}, {name(5)}" in swap["message"]
    assert "leave it where it is" in swap["remedy"]
    assert f"puts {name(0)}.swap in its place" in told[f"{PARTITION}/{name(5)}"]["message"]


def test_what_compaction_took_out_of_a_log_that_waits_is_not_missed(tmp_path: Path) -> None:
    cleaned = segment(0, [batch(1, [b"v1"]), batch(4, [b"v4"])], interval=1)
    make(tmp_path, waiting(cleaned) | SECOND | THIRD)
    said = Verdict(tmp_path)
    assert (said.status, said.errors, said.of("L19"), said.of("L17")) == (0, [], [], [])


def test_where_nothing_ever_compacts_a_hole_in_a_log_that_waits_is_a_loss(tmp_path: Path) -> None:
    holed = segment(0, [batch(at, [b"v"]) for at in (0, 1, 4)], interval=1 << 20)
    make(tmp_path, waiting(holed) | SECOND | THIRD)
    rows = run_kdump(
        ["verify", PARTITION, "--set", "cleanup.policy=delete", "--format", "json"], tmp_path
    ).stdout.splitlines()
    assert [(one["offset"], one["lastOffset"]) for one in map(json.loads, rows) if one["type"] == "loss"]


def test_what_lies_beside_a_cleaned_file_is_thrown_away_and_the_old_log_is_judged(tmp_path: Path) -> None:
    make(tmp_path, flipped(FIRST, 0) | waiting(FIRST) | {name(0, "index.cleaned"): b""} | SECOND | THIRD)
    said = Verdict(tmp_path)
    assert (said.status, said.lost) == (3, [(4, 4)])
    assert [one["file"] for one in said.of("B01")] == [f"{PARTITION}/{name(0)}"]
    assert [one["file"] for one in said.of("F16")] == [f"{PARTITION}/{name(0)}.swap"]
    assert not any(map(in_place, said.commands))
    make(tmp_path / "sound", FIRST | waiting(FIRST) | {name(0, "index.cleaned"): b""} | SECOND | THIRD)
    said = Verdict(tmp_path / "sound")
    assert (said.status, said.errors) == (0, [])
    assert "throws it away" in next(one["message"] for one in said.of("F08") if one["file"].endswith(".log.swap"))


def test_a_cleaned_file_of_a_later_segment_leaves_what_waits(tmp_path: Path) -> None:
    make(tmp_path, flipped(FIRST, 0) | waiting(FIRST) | {name(5, "log.cleaned"): b""} | SECOND | THIRD)
    assert Verdict(tmp_path).errors == []


# --- what waits is worse than what goes ----------------------------------------------------------------------
HARMFUL: dict[str, tuple[Files, tuple[int, int]]] = {
    "a flipped byte": (FIRST | SECOND | waiting(flipped(SECOND, 5)) | THIRD, (9, 9)),
    "a flipped byte at the end": (FIRST | SECOND | THIRD | waiting(flipped(THIRD, 10)), (14, 14)),
    "torn": (FIRST | SECOND | waiting(cut(SECOND, 5, 20)) | THIRD, (9, 9)),
    "torn at the end": (FIRST | SECOND | THIRD | waiting(cut(THIRD, 10, 20)), (14, 14)),
    "empty, and its index knows better": (FIRST | SECOND | waiting(SECOND | {name(5): b""}) | THIRD, (5, 9)),
    "no log": (FIRST | SECOND | waiting(SECOND | {name(5): b"x" * 100}) | THIRD, (5, 9)),
    "one for two": (FIRST | SECOND | waiting(flipped(log(0, 10), 0)) | THIRD, (9, 9)),
    "the second of two for one": (log(0, 10) | waiting(FIRST) | waiting(flipped(SECOND, 5)) | THIRD, (9, 9)),
}


@pytest.mark.parametrize("case", HARMFUL)
def test_what_would_replace_sound_records_by_damage_is_an_error_with_the_command_that_saves_them(
    case: str, tmp_path: Path
) -> None:
    files, offsets = HARMFUL[case]
    make(tmp_path, files)
    said = Verdict(tmp_path, "--start", "all")
    assert said.status == 3
    (harmful,) = said.of("F19")
    assert (harmful["severity"], harmful["offset"], harmful["lastOffset"]) == ("error", *offsets)
    assert harmful["file"].endswith(".log.swap")
    assert harmful["count"] == offsets[1] - offsets[0] + 1
    assert {one["recordsLost"] >= harmful["count"] for one in said.predicted.values()} == {True}
    assert said.predicted["clean"]["recordsLost"] == harmful["count"]
    assert [one for first, last in said.lost for one in range(first, last + 1)] == list(
        range(offsets[0], offsets[1] + 1)
    )
    assert not said.of("F16")
    assert b"F19" in run_kdump(["verify", PARTITION, "--quiet"], tmp_path).stdout
    # The first step is enough, and takes all that waits.
    first = next(one for one in said.steps if one["command"])
    program, *paths, to = shlex.split(first["command"])
    assert (program, to) == ("mv", "DIR")
    assert sorted(paths) == sorted(f"{PARTITION}/{one}" for one in files if one.endswith(".swap"))
    assert not any(map(in_place, said.commands))
    run = run_kdump(["salvage", PARTITION, "--to", "out"], tmp_path)
    assert b"; lost: nothing\n" in run.stdout
    for path in paths:
        shutil.move(tmp_path / path, tmp_path)
    after = Verdict(tmp_path)
    assert (after.status, after.findings) == (0, [])


BOTH: dict[str, Files] = {
    "both are damaged": FIRST | flipped(SECOND, 5, 70) | waiting(flipped(SECOND, 5)) | THIRD,
    "one of those that go is gone": SECOND | waiting(flipped(log(0, 10), 0)) | THIRD,
}


@pytest.mark.parametrize("case", BOTH)
def test_where_what_waits_has_records_of_its_own_it_is_not_moved_but_both_are_salvaged(
    case: str, tmp_path: Path
) -> None:
    make(tmp_path, BOTH[case])
    said = Verdict(tmp_path)
    assert (said.status, len(said.of("F19"))) == (3, 1)
    assert said.commands == [f"kdump salvage {PARTITION} --to DIR"]
    assert b"; lost: nothing\n" in run_kdump(["salvage", PARTITION, "--to", "out"], tmp_path).stdout


def test_what_waits_and_is_damaged_where_nothing_else_is_left_is_salvaged_and_never_cut(tmp_path: Path) -> None:
    make(tmp_path, FIRST | waiting(flipped(SECOND, 5)) | THIRD)
    said = Verdict(tmp_path)
    assert (said.status, said.lost, said.of("F19")) == (3, [(9, 9)], [])
    assert [one["file"] for one in said.of("B01")] == [f"{PARTITION}/{name(5)}.swap"]
    assert said.commands == [f"kdump verify --replicas {PARTITION} OTHER", f"kdump salvage {PARTITION} --to DIR"]


def test_damage_elsewhere_is_salvaged_while_something_waits(tmp_path: Path) -> None:
    make(tmp_path, flipped(FIRST, 0) | waiting(SECOND) | THIRD)
    said = Verdict(tmp_path)
    assert (said.status, said.lost) == (3, [(4, 4)])
    assert said.commands == [f"kdump verify --replicas {PARTITION} OTHER", f"kdump salvage {PARTITION} --to DIR"]
    assert not any("truncate" in one["remedy"] for one in said.findings)


def test_what_waits_and_keeps_a_broker_from_its_start_is_an_error(tmp_path: Path) -> None:
    data = bytearray(SECOND[name(5)])
    size = len(data) // 5
    data[-size + 8 : -size + 12] = b"\0\0\0\1"
    index = segment(5, [], interval=1)
    make(tmp_path, FIRST | SECOND | waiting(SECOND | index | {name(5): bytes(data)}) | THIRD)
    said = Verdict(tmp_path, "--start", "clean")
    assert said.predicted["clean"]["loads"] is False
    assert said.status == 3
    (harmful,) = said.of("F19")
    assert harmful["file"].endswith(f"{name(5)}.swap")
    assert "fails to load the partition over it" in harmful["message"]
    assert said.commands[0].startswith("mv ")


# --- one file --------------------------------------------------------------------------------------------------
def test_one_file_that_waits_is_judged_as_what_it_becomes(tmp_path: Path) -> None:
    make(tmp_path, FIRST | SECOND | waiting(flipped(SECOND, 5)) | THIRD)
    said = Verdict(tmp_path, path=f"{PARTITION}/{name(5)}.swap")
    assert (said.status, [one["code"] for one in said.errors]) == (3, ["F19", "B01"])
    assert said.commands[0].startswith("mv ")
    goes = Verdict(tmp_path, path=f"{PARTITION}/{name(5)}")
    assert (goes.status, [one["code"] for one in goes.findings]) == (0, ["F08"])
    other = Verdict(tmp_path, path=f"{PARTITION}/{name(0)}")
    assert (other.status, other.findings) == (0, [])


def test_one_damaged_file_that_goes_is_not_to_be_cut(tmp_path: Path) -> None:
    make(tmp_path, FIRST | SECOND | flipped(THIRD, 10) | waiting(THIRD))
    said = Verdict(tmp_path, path=f"{PARTITION}/{name(10)}")
    assert said.status == 3
    assert not any(map(in_place, said.commands))
    assert f"puts {name(10)}.swap in its place" in said.of("F08")[0]["message"]


# --- the repairs -----------------------------------------------------------------------------------------------
def repaired(root: Path, *args: str) -> tuple[int, str]:
    run = run_kdump([*args], root)
    return run.exit, (run.stdout + run.stderr).decode()


@pytest.mark.parametrize("verb", [("truncate", "--at-damage"), ("truncate", "--to-offset", "3"), ("patch-header",)])
def test_repairs_refuse_what_waits_and_name_who_knows_what_to_do(verb: tuple[str, ...], tmp_path: Path) -> None:
    files = flipped(FIRST, 0)
    bad = bytearray(files[name(0)])
    bad[16] = 5  # a magic that there is not
    files = {**files, name(0): bytes(bad)}
    make(tmp_path, files | waiting(SECOND) | THIRD)
    command, *options = verb
    status, text = repaired(tmp_path, command, PARTITION, *options)
    assert status == 12
    assert f"{name(5)}.swap: a broker puts it in the place of others" in text
    assert text.rstrip().endswith(f"kdump verify {PARTITION}")
    assert "cut " not in text


def test_what_goes_is_not_cut_at_the_damage_of_what_waits(tmp_path: Path) -> None:
    make(tmp_path, FIRST | SECOND | THIRD | waiting(flipped(THIRD, 10)))
    status, text = repaired(tmp_path, "truncate", PARTITION, "--at-damage")
    assert (status, "cut" in text) == (12, False)
