"""A base offset is outside of the CRC: every verb puts a wrong one right, wherever in a log and a window it stands."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kdump.cli.main import kdump
from tests.support.coordinator_records import at, commit, ended
from tests.support.partitions import checkpoint, segment, write
from tests.support.runs import run_kdump
from tests.support.scan_windows import windows_of
from tests.support.segments import Record

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

T = 1_700_000_000_000
BIT = 1 << 20
ONE, TWO = (1, 0), (2, 0)


def moved(batch: bytes) -> bytes:
    """A batch with one wrong bit in its base offset."""
    return struct.pack(">q", struct.unpack_from(">q", batch)[0] ^ BIT) + batch[8:]


def partition(logdir: Path, name: str, *logs: Sequence[bytes], wrong: tuple[int, int], lost: int = -1) -> None:
    """Write a partition; the batch with this number in the log with this number has a wrong base offset.

    The one with the number `lost` there is gone: there are zeros.
    """
    for number, log in enumerate(logs):
        base = struct.unpack_from(">q", log[0])[0] if log else 3000
        files = segment(base, log)
        if number == wrong[0]:
            found = [bytes(len(one)) if k == lost else one for k, one in enumerate(log)]
            found[wrong[1]] = moved(log[wrong[1]])
            files[f"{base:020}.log"] = b"".join(found)
        write(logdir / name, files)


# --- the last batch of a segment ------------------------------------------------------------------------------
@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A log directory: the last batch of a closed segment, 2999, has the base offset 1051575."""
    log = [at(k, T + k, Record()) for k in range(2990, 3000)]
    partition(tmp_path, "t-0", log, [], wrong=(0, 9))
    return write(
        tmp_path,
        {
            "log-start-offset-checkpoint": checkpoint(("t", 0, 2990)),
            "recovery-point-offset-checkpoint": checkpoint(("t", 0, 3000)),
        },
    )


@pytest.mark.parametrize(
    "args",
    [
        ["verify", "t-0", "--format", "lines"],
        ["dump", "t-0"],
        ["find-offset", "t-0", "2999"],
        ["find-offset", "t-0", "2999", "--scan"],
        ["export", "t-0", "--to", "../rows", "--file-format", "json"],
        ["transactions", "."],
        ["du", "."],
        ["retention", "."],
    ],
    ids=" ".join,
)
def test_every_verb_judges_the_last_batch_of_a_closed_segment(args: list[str], closed: Path) -> None:
    run = run_kdump(args, closed)
    assert run.exit == (6 if args[0] in ("transactions", "retention") else 3)  # no coordinator's log, no policy
    assert b"expected=2999" in run.stdout + run.stderr or args[0] == "export"


def test_the_data_has_the_last_batch_at_its_right_offset(closed: Path) -> None:
    run = run_kdump(["find-offset", "t-0", "2999", "--scan"], closed)
    assert b"baseOffset: 2999 lastOffset: 2999" in run.stdout


def test_no_offset_behind_a_wrong_base_offset_counts_as_lost_or_given_out_again(closed: Path) -> None:
    start = run_kdump(["verify", "--start", "unclean", "--format", "json", "t-0"], closed)
    (row,) = [one for one in map(json.loads, start.stdout.splitlines()) if one["type"] == "prediction"]
    assert row.get("reusedOffsets") in (None, [])
    cut = run_kdump(["truncate", "t-0", "--to-offset", "2995"], closed)
    assert b"ends at 2995 instead of 3000: 5 offsets" in cut.stdout + cut.stderr


# --- the last batch of a window -------------------------------------------------------------------------------
def data(wrong: tuple[int, int], logdir: Path, lost: int) -> Path:
    first = [
        at(0, T, Record(key=b"a"), Record(key=b"b")),
        at(2, T + 1, Record(key=b"a"), producer=ONE),
        at(3, T + 2, Record(key=b"b"), producer=TWO),
        ended(4, T + 3, ONE, commit=True),
        ended(5, T + 4, TWO, commit=False),
        at(6, T + 5, Record(key=b"a")),
        at(7, T + 6, Record(key=b"b"), producer=ONE),
    ]
    second = [
        ended(8, T + 7, ONE, commit=True),
        at(9, T + 8, Record(key=b"a"), Record(key=b"b")),
        at(11, T + 9, Record(key=b"b")),
    ]
    commits = [at(k, T + k, commit("g", k % 3, k)) for k in range(10)]
    partition(logdir, "t-0", first, second, wrong=wrong, lost=lost)
    partition(logdir, "__consumer_offsets-0", commits[:7], commits[7:], wrong=wrong, lost=lost)
    return logdir


WRONG = [(0, k) for k in range(7)] + [(1, k) for k in range(3)]
ASKED = [
    ["find-offset", "t-0", "7", "--scan"],
    ["find-offset", "t-0", "3", "--scan"],
    ["find-time", "t-0", str(T + 6), "--scan"],
    ["dump", "--fate", "--set", "retention.ms=-1", "t-0"],
    ["dump", "--committed", "t-0"],
    ["dump", "--aborted", "t-0"],
    ["groups", "."],
    ["groups", ".", "--at", str(T + 4)],
    ["groups", ".", "--at", str(T + 6)],
    ["groups", ".", "--lag"],
]


def said(args: list[str], logdir: Path, rows: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[str]]:
    """Exit status and lines, sorted: a finding stands before the window that it is made in."""
    monkeypatch.chdir(logdir)
    with windows_of(rows=rows):
        run = CliRunner().invoke(kdump, args)
    return run.exit_code, sorted(run.output.splitlines())


@pytest.mark.parametrize("behind_damage", [False, True], ids=["placed", "unplaced"])
@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_no_answer_hangs_on_where_a_window_ends(
    wrong: tuple[int, int], behind_damage: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data(wrong, tmp_path, wrong[1] - 1 if behind_damage else -1)
    for args in ASKED:
        whole = said(args, tmp_path, 4096, monkeypatch)
        for rows in (1, 2, 3):
            assert said(args, tmp_path, rows, monkeypatch) == whole, (args, rows)
