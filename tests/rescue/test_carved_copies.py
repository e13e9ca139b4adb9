"""Salvage of what carve finds: which runs of an image are of one copy, and which batches of them lie elsewhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.rescue_cases import PARTITION, Part, part, parts
from tests.support.rescue_truth.batches import read_log
from tests.support.runs import run_kdump
from tests.support.segments import message

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

BETWEEN = b"\xa5" * 40
"""What is no batch."""


def salvaged(root: Path, logs: Iterable[Sequence[Part]], *options: str) -> tuple[int, dict[int, bytes], list[Any]]:
    """Carve an image of logs, and salvage the runs: exit status, value of each offset, rows."""
    image = BETWEEN.join((b"", *(b"".join(one.data for one in log) for log in logs), b""))
    (root / "image").write_bytes(image)
    assert run_kdump(["carve", "image", "--to", "runs"], root).exit == 0
    run = run_kdump(["salvage", "runs", "--to", "out", "--name", PARTITION, "--format", "json", *options], root)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    logs_made = sorted((root / "out" / PARTITION).glob("*.log"))
    batches = [one for log in logs_made for one in read_log(log.read_bytes())]
    values = {entry[0]: entry[2] or b"" for one in batches for entry in one.entries}
    assert len(values) == sum(len(one.entries) for one in batches)
    return run.exit, values, rows


def offsets(rows: Iterable[Any], kind: str) -> set[int]:
    return {at for row in rows if row["type"] == kind for at in range(row["offset"], row["lastOffset"] + 1)}


# --- which copy -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("order", [1, -1], ids=["", "reversed"])
def test_the_tail_of_an_old_leader_in_the_image_is_another_branch(order: int, tmp_path: Path) -> None:
    shared = parts(0, 8)
    logs = [
        shared + parts(8, 14, 0, "old"),
        parts(14, 20, 0, "old"),
        shared[:2],
        [shared[3], *parts(8, 12, 1, "new")],
        parts(12, 14, 1, "new") + parts(14, 18, 3, "new"),
    ]
    _, values, rows = salvaged(tmp_path, logs[::order])
    assert sorted(values) == list(range(18))
    assert {values[at][:3] for at in range(8, 18)} == {b"new"}
    assert offsets(rows, "divergent") == set(range(8, 20))


def test_a_newer_epoch_cuts_the_tail_of_a_copy_that_has_nothing_of_it(tmp_path: Path) -> None:
    """Of the last leader only the end is left: its offsets 8..11, which an old leader has too, are lost."""
    logs = [parts(0, 8) + parts(8, 16, 2, "old"), parts(0, 8), parts(12, 16, 5, "new") + parts(16, 20, 6, "new")]
    _, values, rows = salvaged(tmp_path, logs)
    assert {values[at][:3] for at in range(12, 20)} == {b"new"}
    assert set(range(12, 16)) <= offsets(rows, "divergent")
    assert {values[at] for at in range(8)} == {f"v{at}".encode() for at in range(8)}


def test_an_epoch_that_one_batch_alone_has_cuts_nothing(tmp_path: Path) -> None:
    some = parts(0, 20, 1)
    logs = [some[:4], [some[5].with_epoch(1 | 1 << 20)], some[7:], some[:8], some[9:]]
    _, values, rows = salvaged(tmp_path, logs)
    assert sorted(values) == list(range(20))
    assert offsets(rows, "divergent") == set()


def test_copies_of_one_history_fill_each_other(tmp_path: Path) -> None:
    some = parts(0, 12) + parts(12, 24, 1)
    logs = [some[:5], some[6:], some[:8], some[9:]]
    code, values, rows = salvaged(tmp_path, logs)
    assert (code, sorted(values), offsets(rows, "divergent")) == (0, list(range(24)), set())
    kept = [row for row in rows if row["type"] == "kept"]
    assert {row["sources"] for row in kept if row["offset"] == 0} == {2}, "two copies in one image are two"


def test_a_newest_epoch_of_which_other_copies_say_nothing_does_not_refuse_them(tmp_path: Path) -> None:
    """Nothing contradicts: what a lagging copy has behind a hole of the leader does not count, whoever led last."""
    some = parts(0, 8, 2) + parts(8, 14, 5) + parts(14, 16, 7)
    leader, lagging = [*some[:3], *some[4:]], some[:4]
    for number, copy in enumerate((leader, lagging)):
        (tmp_path / f"image{number}").write_bytes(BETWEEN + b"".join(one.data for one in copy) + BETWEEN)
        assert run_kdump(["carve", f"image{number}", "--to", f"runs{number}"], tmp_path).exit == 0
    run = run_kdump(["salvage", "runs0", "runs1", "--to", "out", "--name", PARTITION], tmp_path)
    assert run.exit in (0, 3), run.stderr


def test_several_batches_of_the_newest_epoch_in_two_runs_are_no_wrong_bit(tmp_path: Path) -> None:
    logs = [parts(0, 8, 5) + parts(8, 12, 5, "old"), parts(0, 8, 5) + parts(8, 10, 7, "new"), parts(10, 12, 7, "new")]
    code, values, _ = salvaged(tmp_path, logs)
    assert code in (0, 3)
    assert {values[at][:3] for at in range(8, 12)} == {b"new"}


# --- edges of runs ----------------------------------------------------------------------------------------------
def test_the_first_batch_of_a_run_belongs_before_the_rest_where_its_bytes_stand(tmp_path: Path) -> None:
    some = parts(100, 120)
    moved = some[0].with_base(100 ^ 4)
    code, values, rows = salvaged(tmp_path, [[moved, *some[1:]], some])
    assert (code, sorted(values)) == (0, list(range(100, 120)))
    assert [(row["from"], row["to"]) for row in rows if row["type"] == "patched"] == [(96, 100)]


def test_the_last_batch_of_a_run_belongs_behind_the_rest_where_its_bytes_stand(tmp_path: Path) -> None:
    some = parts(100, 120)
    moved = some[9].with_base(118 | 1 << 40)
    code, values, _ = salvaged(tmp_path, [[*some[:9], moved], [*some, part(120)]])
    assert (code, sorted(values)) == (0, list(range(100, 122)))


def test_a_batch_alone_that_one_bit_takes_into_a_hole_among_others_of_its_epoch_is_there(tmp_path: Path) -> None:
    some = parts(1000, 1030)
    logs = [some[:4], [some[4].with_base(1008 ^ 2)], some[5:]]  # it overlaps the one behind
    code, values, rows = salvaged(tmp_path, logs)
    assert (code, sorted(values)) == (0, list(range(1000, 1030)))
    assert [(row["from"], row["to"]) for row in rows if row["type"] == "patched"] == [(1010, 1008)]


def test_a_batch_at_the_offsets_of_another_of_its_epoch_stays_out_with_a_row(tmp_path: Path) -> None:
    some = parts(1000, 1030)
    logs = [some[:10], [part(2000, 2, 0, "lone").with_base(1003)], some[10:]]
    _, values, rows = salvaged(tmp_path, logs)
    assert {values[at] for at in range(1000, 1030)} == {f"v{at}".encode() for at in range(1000, 1030)}
    assert offsets(rows, "divergent") == {1003, 1004}


def test_zeros_over_a_base_offset_begin_no_epoch_before_the_log(tmp_path: Path) -> None:
    some = parts(0, 30, 1) + parts(30, 34, 6)
    logs = [some[:14], some, [some[15].with_base(0), some[16]]]
    code, values, _ = salvaged(tmp_path, logs)
    assert sorted(values) == list(range(34))
    assert code == 0


def test_a_batch_alone_farther_above_all_others_than_a_segment_reaches_stays_out(tmp_path: Path) -> None:
    some = parts(0, 20)
    _, values, rows = salvaged(tmp_path, [some, [part(20, 2).with_base(20 | 3 << 40)]])
    assert sorted(values) == list(range(20))
    assert any(row["type"] == "divergent" for row in rows)


def test_a_message_of_magic_1_belongs_where_its_bytes_stand(tmp_path: Path) -> None:
    some = [Part(at, at, -1, message(1, at, b"v%d" % at, key=b"k")) for at in range(12)]
    moved = some[5].with_base(5 | 1 << 33)
    code, values, _ = salvaged(tmp_path, [[*some[:5], moved], some])
    assert (code, sorted(values)) == (0, list(range(12)))


def test_a_batch_that_its_producer_wrote_twice_is_there_twice(tmp_path: Path) -> None:
    """Equal bytes side by side are a retry: one that lacks the first of them has the second where it is."""
    some = parts(0, 8)
    again = some[3].with_base(8)._replace(first=8, last=9)
    log = [*some, again, *parts(10, 16)]
    code, values, rows = salvaged(tmp_path, [log, [*some[:2], *log[4:]]])
    assert (code, sorted(values)) == (0, list(range(16)))
    assert not [row for row in rows if row["type"] == "patched"]


def test_of_runs_that_contradict_each_other_a_file_is_chosen(tmp_path: Path) -> None:
    """One batch of the newest epoch against several of another one: a wrong bit looks the same."""
    logs = [parts(0, 8) + parts(8, 12, 0, "old"), parts(0, 8), parts(8, 10, 4, "new")]
    (tmp_path / "image").write_bytes(BETWEEN.join((b"", *(b"".join(one.data for one in log) for log in logs), b"")))
    assert run_kdump(["carve", "image", "--to", "runs"], tmp_path).exit == 0
    refused = run_kdump(["salvage", "runs", "--to", "out", "--name", PARTITION], tmp_path)
    assert refused.exit == 12
    assert b"All are runs in runs: name its files as sources, and the one that counts: --prefer" in refused.stderr
    runs = sorted(str(one.relative_to(tmp_path)) for one in (tmp_path / "runs").glob("run-*"))
    for number, (run, value) in enumerate(((runs[0], b"old"), (runs[2], b"new"))):
        made = run_kdump(
            ["salvage", *runs, "--to", f"out{number}", "--name", PARTITION, "--prefer", run, "--format", "json"],
            tmp_path,
        )
        assert made.exit in (0, 3), made.stderr
        log = (tmp_path / f"out{number}" / PARTITION / f"{0:020}.log").read_bytes()
        assert {entry[2][:3] for one in read_log(log) for entry in one.entries if entry[0] in (8, 9) and entry[2]} == {
            value
        }
