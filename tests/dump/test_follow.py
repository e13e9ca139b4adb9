"""`dump --follow`: staged files for each thing that a broker does between two looks. No test waits for a clock."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kdump.compat.dump_log_segments_options import DumpOptions
from kdump.dump.follow import Follow
from kdump.finding import Code, Finding
from kdump.format.batch import layout
from kdump.format.record.chunk import Chunk
from kdump.format.record.selection import Selection
from kdump.item import FileTurn
from kdump.storage.file_source import OpenFailure
from tests.support.runs import run_kdump
from tests.support.segments import LZ4, Record, batch, message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Said = list[tuple[str, object]]


def one(offset: int, count: int = 1, word: bytes = b"v", **named: object) -> bytes:
    """A batch."""
    return batch(offset, [Record(b"%b%d" % (word, offset + at), b"k%d" % at) for at in range(count)], **named)  # type: ignore[arg-type]


class Stage:
    """A partition directory that changes between looks."""

    def __init__(self, root: Path, name: str = "t-0") -> None:
        self.path = root / name
        self.path.mkdir(parents=True)

    def log(self, base: int) -> Path:
        """The path of a segment."""
        return self.path / f"{base:020}.log"

    def append(self, base: int, *parts: bytes) -> bool:
        """Append to a segment; make it where it is not there."""
        with self.log(base).open("ab") as file:
            return file.write(b"".join(parts)) >= 0

    def cut(self, base: int, size: int) -> bool:
        """Truncate a segment."""
        os.truncate(self.log(base), size)
        return True

    def drop(self, base: int) -> bool:
        """Delete a segment."""
        self.log(base).unlink()
        return True

    def clean(self, base: int, *parts: bytes) -> bool:
        """Replace a segment as the cleaner does."""
        cleaned = self.path / f"{base:020}.log.swap"
        cleaned.write_bytes(b"".join(parts))
        return bool(cleaned.replace(self.log(base)))

    def go(self) -> bool:
        """Rename the directory as a broker does that deletes it."""
        return bool(self.path.rename(f"{self.path}.{'0a' * 16}-delete"))


def followed(
    stages: Sequence[Callable[[], object]],
    *paths: Path,
    selection: Selection | None = None,
    deep: bool = False,
    idle: float | None = None,
) -> Said:
    """What is shown while stages go by, one between two looks; then the directories go."""
    left = list(stages)
    now = [0.0]

    def pause(seconds: float) -> None:
        now[0] += seconds
        if left:
            left.pop(0)()
        elif idle is None:
            for path in paths:
                shutil.rmtree(path, ignore_errors=True)

    said: Said = []
    follow = Follow(DumpOptions(deep=deep), selection, idle, clock=lambda: now[0], pause=pause)
    for item in follow.files([str(path) for path in paths]):
        if isinstance(item, FileTurn):
            said.append(("new" if item.is_new else "again", os.path.basename(item.file.path)[:20].lstrip("0") or "0"))
        elif isinstance(item, Chunk) and deep:
            width = layout.RECORD_WIDTH
            said += [("record", item.rows[at * width + layout.R_OFFSET]) for at in range(item.filled)]
        elif isinstance(item, Chunk):
            first = item.first + item.begun
            said += [("batch", offset) for offset in item.window.column(layout.BASE_OFFSET)[first : item.last]]
        elif isinstance(item, Finding):
            said.append((item.code.name, item.offset))
        elif isinstance(item, OpenFailure):
            assert item.kind == "skipped"
            said.append(("said", item.sentence.removeprefix(f"{item.path}: ")))
    return said


def batches(said: Said) -> list[object]:
    """The offsets of batches alone."""
    return [what for kind, what in said if kind == "batch"]


def test_it_begins_at_the_end_and_shows_each_new_batch_once(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.append(0, one(0, 3), one(3))
    looks = [lambda: stage.append(0, one(4)), lambda: None, lambda: stage.append(0, one(5, 2), one(7))]
    assert followed(looks, stage.path) == [("new", "0"), ("batch", 4), ("batch", 5), ("batch", 7)]


@pytest.mark.parametrize(
    ("selection", "shown"),
    [
        (Selection(from_offset=4), [4, 5, 6, 7, 8]),
        (Selection(from_offset=0, to_offset=5), [0, 1, 2, 3, 4]),
        (Selection(tail=3), [4, 5, 6, 7, 8]),
        (Selection(tail=6), [1, 2, 3, 4, 5, 6, 7, 8]),
        (Selection(tail=60), [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        (Selection(keys=(b"k1",)), [1, 3, 8]),
        (Selection(from_offset=0, limit=5), [0, 1, 2, 3, 4]),
        (Selection(limit=2), [7, 8]),
        (Selection(from_time=0), [0, 1, 2, 3, 4, 5, 6, 7, 8]),
    ],
)
def test_a_selection_shows_what_is_there_of_it_first(tmp_path: Path, selection: Selection, shown: list[int]) -> None:
    stage = Stage(tmp_path)
    stage.append(0, one(0, 2), one(2, 2))
    stage.append(4, one(4), one(5), one(6), one(7)[:40])
    looks = [lambda: (stage.cut(4, 3 * len(one(4))), stage.append(4, one(7, 2)))]
    said = followed(looks, stage.path, selection=selection, deep=True)
    assert [what for kind, what in said if kind == "record"] == shown
    assert {kind for kind, _ in said} == {"new", "record"}


@pytest.mark.parametrize(
    ("made", "after"), [(one(4, 5), 9), (one(4, 50, codec=LZ4), 54), (message(1, 4), 5)], ids=["plain", "lz4", "old"]
)
def test_a_batch_is_shown_when_all_of_it_is_there(tmp_path: Path, made: bytes, after: int) -> None:
    stage = Stage(tmp_path)
    stage.append(0, one(0, 4))
    cuts = [0, 1, 11, 16, 17, 20, len(made) // 2, len(made) - 1, len(made)]
    looks = [(lambda piece: lambda: stage.append(0, piece))(made[start:end]) for start, end in pairwise(cuts)]
    said = followed([*looks, lambda: stage.append(0, one(after))], stage.path)
    assert [kind for kind, _ in said] == ["new", "batch", "batch"]


def test_preallocated_zeros_are_no_batch_yet(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.append(0, one(0), bytes(500))

    def write() -> None:
        with stage.log(0).open("r+b") as file:
            file.seek(len(one(0)))
            file.write(one(1) + one(2))

    assert followed([write], stage.path) == [("new", "0"), ("batch", 1), ("batch", 2)]


def test_a_roll_is_followed_though_both_segments_grew(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.append(0, one(0))
    looks = [
        lambda: (stage.append(0, one(1)), stage.append(2, one(2)), stage.append(3, one(3))),
        lambda: stage.append(4),
        lambda: stage.append(4, one(4)),
    ]
    said = followed(looks, stage.path)
    assert said == [
        ("new", "0"), ("batch", 1), ("new", "2"), ("batch", 2), ("new", "3"), ("batch", 3), ("new", "4"), ("batch", 4),
    ]  # fmt: skip


def test_what_was_cut_and_written_again_is_shown_from_the_first_that_differs(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.append(0, one(0))
    size = len(one(0))
    looks = [
        lambda: stage.append(0, one(1), one(2), one(3)),
        lambda: (stage.cut(0, 2 * size), stage.append(0, one(2, word=b"w"), one(3), one(4))),
        lambda: stage.cut(0, 3 * size),
        lambda: stage.append(0, one(3, word=b"x")),
        lambda: (stage.cut(0, 4 * size), stage.append(0, one(4))),  # nothing that was shown went
    ]
    said = followed(looks, stage.path)
    cut = "the log was cut back to offset {}: it goes on from there"
    assert batches(said) == [1, 2, 3, 2, 3, 4, 3, 4]
    assert [what for kind, what in said if kind == "said"] == [cut.format(2), cut.format(3)]


def test_a_cut_over_segments_and_one_of_all_that_was_there(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.append(0, one(0), one(1))
    looks = [
        lambda: (stage.append(2, one(2)), stage.append(3, one(3))),
        lambda: (stage.drop(3), stage.drop(2), stage.cut(0, len(one(0))), stage.append(0, one(1, 9))),
        lambda: (stage.drop(0), stage.append(700, one(700))),  # truncateFullyAndStartAt
        lambda: (stage.drop(700), stage.append(5, one(5))),
    ]
    said = followed(looks, stage.path)
    assert batches(said) == [2, 3, 1, 700, 5]
    assert [what for kind, what in said if kind == "said"] == [
        "the log was cut back to offset 1: it goes on from there",
        "offsets 10..699 were deleted before they were read",
        "the log was cut back to offset 5: it goes on from there",
    ]


def test_deleted_segments_are_no_matter_unless_they_were_not_read(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    for base in range(4):
        stage.append(base, one(base))
    looks = [
        lambda: (stage.drop(0), stage.drop(1)),
        lambda: (stage.append(4, one(4)), stage.drop(2), stage.drop(3)),
        lambda: (stage.append(5, one(5)), stage.append(8, one(8)), stage.drop(4), stage.drop(5)),
    ]
    said = followed(looks, stage.path)
    assert batches(said) == [4, 8]
    assert [what for kind, what in said if kind == "said"] == ["offsets 5..7 were deleted before they were read"]


def test_the_cleaner_is_no_cut(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.append(0, one(0), one(1), one(2))
    looks = [
        lambda: stage.append(0, one(3)),
        lambda: stage.append(4),
        lambda: stage.clean(0, one(1)),
        lambda: stage.append(4, one(4)),
        lambda: (stage.append(5, one(5)), stage.clean(0)),
        lambda: (stage.clean(4, one(4)), stage.append(5, one(6))),
    ]
    assert [(kind, what) for kind, what in followed(looks, stage.path) if kind != "new"] == [
        ("batch", offset) for offset in (3, 4, 5, 6)
    ]


def test_a_directory_that_goes_has_its_last_batches_shown(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.append(0, one(0))
    said = followed([lambda: stage.append(0, one(1)), lambda: (stage.append(0, one(2)), stage.go())], stage.path)
    assert said == [("new", "0"), ("batch", 1), ("batch", 2)]


def test_directories_come_by_batch_and_each_goes_on_when_another_is_gone(tmp_path: Path) -> None:
    a, b = Stage(tmp_path, "a-0"), Stage(tmp_path, "b-0")
    looks = [
        lambda: (a.append(0, one(0)), b.append(7, one(7))),
        lambda: (a.append(0, one(1)), b.append(7, one(8))),
        lambda: (a.append(0, one(2)), a.go()),
        lambda: b.append(7, one(9)),
    ]
    assert followed(looks, a.path, b.path) == [
        ("new", "0"), ("batch", 0), ("new", "7"), ("batch", 7), ("again", "0"), ("batch", 1), ("again", "7"),
        ("batch", 8), ("again", "0"), ("batch", 2), ("again", "7"), ("batch", 9),
    ]  # fmt: skip


def test_a_whole_batch_with_a_wrong_crc_is_shown_with_its_finding(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    bad = bytearray(one(1))
    bad[-1] ^= 1
    looks = [
        lambda: stage.append(0, one(0)),
        lambda: stage.append(0, bytes(bad)),
        lambda: None,
        lambda: stage.append(0, one(2)),
    ]
    said = followed(looks, stage.path)
    assert said == [("new", "0"), ("batch", 0), ("B01", 1), ("batch", 1), ("batch", 2)]


def test_a_batch_whose_bytes_come_late_is_not_damaged(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    made = one(0, 20)

    def write() -> None:
        with stage.log(0).open("r+b") as file:
            file.write(made)

    assert followed([lambda: stage.append(0, made[:61] + bytes(len(made) - 61)), write], stage.path) == [
        ("new", "0"), ("batch", 0),
    ]  # fmt: skip


def test_a_torn_batch_in_a_closed_segment_is_damage(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    looks = [lambda: stage.append(0, one(0), one(1)[:50]), lambda: None, lambda: stage.append(2, one(2))]
    said = followed(looks, stage.path)
    assert batches(said) == [0, 2]
    assert "V03" not in dict(said)
    assert any(kind in Code.__members__ for kind, _ in said)


def test_it_ends_when_nothing_came_for_long(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    looks = [*[lambda: None] * 8, lambda: stage.append(0, one(0)), *[lambda: None] * 40]
    assert batches(followed(looks, stage.path, idle=1.0)) == [0]
    assert stage.path.exists()


def test_a_slow_look_does_not_end_it_before_the_last_batch_was_looked_at_twice(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    bad = bytearray(one(1))
    bad[-1] ^= 1
    stage.append(0, one(0), bytes(bad))
    ticks = iter(range(100))  # each question what time it is costs a second
    follow = Follow(DumpOptions(), Selection(from_offset=0), 0.2, clock=lambda: next(ticks), pause=lambda _: None)
    found = [item for item in follow.files([str(stage.path)]) if isinstance(item, Finding)]
    assert [(item.code.name, item.offset) for item in found] == [("B01", 1)]


@pytest.mark.parametrize("seed", range(60))
def test_any_order_of_what_brokers_do_shows_each_batch_once(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    stage = Stage(tmp_path)
    segments: dict[int, list[tuple[int, bytes]]] = {0: [(0, one(0))]}  # offset and bytes of each batch
    stage.append(0, one(0))
    expected: list[int] = []
    before = [segments[0][0]]

    def end() -> int:
        last = max(segments)
        return segments[last][-1][0] + 1 if segments[last] else last

    def act() -> None:
        kind = chance.choice(["append"] * 4 + ["roll", "cut", "delete"])
        last = max(segments)
        if kind == "append":
            made = end(), one(end(), word=chance.choice([b"u", b"v"]))
            segments[last].append(made)
            stage.append(last, made[1])
        elif kind == "roll" and segments[last]:
            base = end()
            segments[base] = []
            stage.append(base)
        elif kind == "cut":
            to = chance.randrange(max(0, end() - 4), end() + 1)
            while len(segments) > 1 and max(segments) > to:
                stage.log(max(segments)).unlink()
                del segments[max(segments)]
            last = max(segments)
            segments[last] = [one for one in segments[last] if one[0] < to]
            stage.cut(last, sum(len(data) for _, data in segments[last]))
        elif kind == "delete" and len(segments) > 2:
            first = min(segments)
            if all(one in before for one in segments[first]):  # it was read
                stage.log(first).unlink()
                before[:] = [one for one in before if one not in segments[first]]
                del segments[first]

    def look() -> None:
        for _ in range(chance.randrange(1, 5)):
            act()
        now = [one for base in sorted(segments) for one in segments[base]]
        same = next(
            (at for at, (a, b) in enumerate(zip(before, now, strict=False)) if a != b), min(len(before), len(now))
        )
        expected.extend(offset for offset, _ in now[same:])
        before[:] = now

    assert batches(followed([look] * 12, stage.path)) == expected


# --- the command ------------------------------------------------------------------------------------------------
def test_the_command_ends_with_3_after_a_wrong_crc_and_json_has_its_summary(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "wages-0")  # a name that no directory above has
    bad = bytearray(one(1))
    bad[-1] ^= 1
    stage.append(0, one(0), bytes(bad), one(2))
    words = ["dump", "--follow", "--from-offset", "0", "--format", "json", "--idle-timeout", "0.2"]
    run = run_kdump([*words, "--redact", str(stage.path)], tmp_path)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    assert run.exit == 3
    assert [row["type"] for row in rows] == ["file", "finding", "batch", "batch", "batch", "segment", "summary"] or [
        row["type"] for row in rows if row["type"] != "finding"
    ] == ["file", "batch", "batch", "batch", "segment", "summary"]
    assert rows[-2]["size"] == stage.log(0).stat().st_size
    assert rows[-1]["exit"] == 3
    assert b"wages" not in run.stdout


def test_json_of_several_directories_has_one_segment_row_for_each(tmp_path: Path) -> None:
    stages = [Stage(tmp_path, f"{name}-0") for name in "ab"]
    for stage in stages:
        stage.append(0, one(0), one(1))
        stage.append(2, one(2))
    words = ["dump", "--follow", "--from-offset", "0", "--format", "json", "--idle-timeout", "0.2"]
    run = run_kdump([*words, *(str(stage.path) for stage in stages)], tmp_path)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    files = sorted(str(stage.log(base)) for stage in stages for base in (0, 2))
    assert run.exit == 0
    for kind in ("file", "segment"):
        assert sorted(row["file"] for row in rows if row["type"] == kind) == files
    assert {row["file"]: row["batches"] for row in rows if row["type"] == "segment"} == {
        name: 2 if name.endswith("0.log") else 1 for name in files
    }
    assert rows[-1]["files"] == 4
    assert rows[-1]["bytes"] == sum(Path(name).stat().st_size for name in files)


@pytest.mark.parametrize(
    "words",
    [
        ["--follow", "file"],
        ["--follow", "."],
        ["--follow", "t-0", "--compat", "4.3"],
        ["--follow", "t-0", "--stats"],
        ["--follow", "t-0", "--committed"],
        ["t-0", "--idle-timeout", "5"],
        ["--follow", "t-0", "--idle-timeout", "soon"],
    ],
)
def test_what_cannot_be_followed_is_wrong_use(tmp_path: Path, words: list[str]) -> None:
    Stage(tmp_path)
    (tmp_path / "file").write_bytes(one(0))
    run = run_kdump(["dump", *words], tmp_path)
    assert (run.exit, run.stdout) == (2, b"")


def test_a_directory_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    assert run_kdump(["dump", "--follow", "t-9"], tmp_path).exit == 10


def test_ctrl_c_ends_it_by_the_signal_and_what_came_was_written(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.append(0, one(0))
    command = [sys.executable, "-P", "-m", "kdump", "dump", "--follow", "--from-offset", "0", str(stage.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        stage.append(0, one(1))
        lines.append(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert process.wait() == -signal.SIGINT
    assert lines[2].startswith(b"baseOffset: 0 ")
    assert lines[3].startswith(b"baseOffset: 1 ")


# --- what replaces a log ------------------------------------------------------------------------------------
def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _link(path: Path) -> None:
    path.with_name("elsewhere").write_bytes(one(0, 3))
    path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.parametrize("make", [_pipe, _link, Path.mkdir])
@pytest.mark.parametrize("selection", [None, Selection(from_offset=0), Selection(tail=2), Selection(keys=(b"k0",))])
def test_what_replaces_a_log_ends_it_by_a_finding(
    make: Callable[[Path], object], selection: Selection | None, tmp_path: Path
) -> None:
    """A pipe was opened, and nobody ever wrote to it: no end, whatever --idle-timeout."""
    stage = Stage(tmp_path)
    stage.append(0, one(0, 3))

    def replace() -> None:
        stage.drop(0)
        make(stage.log(0))

    looks = [lambda: stage.append(0, one(3)), replace, lambda: None]
    said = followed(looks, stage.path, selection=selection, deep=True)
    assert said[-1] == (Code.F04.name, None)
    assert ("record", 3) in said
    there = followed([], stage.path, selection=selection, deep=True, idle=0.0)
    assert there == [(Code.F04.name, None)], "it was so from the beginning"


def test_another_partition_goes_on_where_one_has_ended(tmp_path: Path) -> None:
    ends, stays = Stage(tmp_path, "a-0"), Stage(tmp_path, "b-0")
    for stage in (ends, stays):
        stage.append(0, one(0))

    def replace() -> None:
        ends.drop(0)
        _pipe(ends.log(0))

    said = followed([replace, lambda: stays.append(0, one(1))], ends.path, stays.path)
    assert [(kind, what) for kind, what in said if kind != "new"] == [(Code.F04.name, None), ("batch", 1)]


def test_a_name_above_all_offsets_is_a_finding_once_and_the_log_goes_on(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.append(0, one(0))
    looks = [lambda: stage.append(10**20 - 1, one(5)), lambda: stage.append(0, one(1)), lambda: None]
    said = followed(looks, stage.path)
    assert [what for what in said if what[0] != "again"] == [(Code.F01.name, None), ("new", "0"), ("batch", 1)]
