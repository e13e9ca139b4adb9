"""Rows of salvage beside a partition that cannot be read, or do not count: what judges holes by them says so."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from kdump.storage import evidence
from kdump.storage.evidence import evidence_of
from kdump.storage.log_dir import LogDir
from kdump.storage.open_files import open_source
from kdump.storage.partition_dir import PartitionDir
from tests.support.hot_journal import give_away
from tests.support.partitions import name, write
from tests.support.segments import batch
from tests.support.unprivileged import unprivileged

if TYPE_CHECKING:
    from pathlib import Path

P = "__consumer_offsets-1"
ROWS = f"{P}.salvage.jsonl"
LOSS = '{"type":"loss","certainty":"lost","offset":1,"lastOffset":1}\n'
VERBS = [
    ("verify", P),
    ("verify", f"{P}/{name(0)}"),
    ("find-offset", P, "1"),
    ("dump", P, "--key", "x"),
    ("groups", P),
    ("salvage", P, "--to", "out"),
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A partition with holes, of which its rows say that they were losses: compaction may have made such holes too."""
    write(tmp_path / P, {name(0): b"".join(batch(offset, [b"v"]) for offset in (0, 2, 4, 7))})
    (tmp_path / ROWS).write_text(LOSS)
    return tmp_path


def shut(rows: Path) -> None:
    rows.chmod(0)


def open_to_all(rows: Path) -> None:
    rows.chmod(0o666)


def a_pipe(rows: Path) -> None:
    rows.unlink()
    os.mkfifo(rows)


def a_link(rows: Path) -> None:
    rows.rename(rows.parent / "list")
    rows.symlink_to("list")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("verb", VERBS, ids=lambda one: one[0])
@pytest.mark.parametrize("change", [shut, open_to_all, a_pipe, a_link])
def test_rows_that_cannot_be_read_are_told_as_unread_by_each_verb(
    change: object, verb: tuple[str, ...], place: Path
) -> None:
    """`find-offset` once lost its O04 and its status 3 with them, and verify said unchecked=0."""
    assert callable(change)
    before = unprivileged(*verb, cwd=place)
    assert before.exit not in (1, 5, 6), before.stderr
    change(place / ROWS)
    done = unprivileged(*(one.replace("out", "out2") for one in verb), cwd=place)
    assert done.exit in (5, 6), done.stderr
    said = f"{done.stdout.decode()}{done.stderr.decode()}"
    assert f"{ROWS}: " in said
    assert f"; what was lost when salvage made {P} is not known from it" in said
    if verb == ("verify", P):
        assert "1 not checked" in said


def test_rows_that_no_disk_gives_are_unread_and_those_before_them_count(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / ROWS).write_text(LOSS + "x" * (1 << 20))
    monkeypatch.chdir(place)

    class Failing:
        def __init__(self, path: str) -> None:
            self._source = open_source(path)
            self.status = self._source.status  # type: ignore[union-attr]

        def __enter__(self) -> Failing:
            return self

        def __exit__(self, *_: object) -> None:
            self._source.close()  # type: ignore[union-attr]

        def read_at(self, position: int, length: int) -> bytes:
            if position:
                raise OSError(errno.EIO, "Input/output error")
            return self._source.read_at(position, length)  # type: ignore[union-attr]

    monkeypatch.setattr(evidence, "open_source", lambda path, **_: Failing(path))
    lost = evidence_of(PartitionDir(P, LogDir(".")))
    assert list(lost.before_salvage) == [(1, 1)]
    assert lost.rows_unread is not None
    assert (lost.rows_unread.path, lost.rows_unread.kind) == (ROWS, "read")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_rows_are_judged_by_the_file_that_is_read(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others put their file in the place of the one that was looked at."""
    looked = os.stat

    def late(path: object, *args: object, **named: object) -> os.stat_result:
        found = looked(path, *args, **named)  # type: ignore[arg-type]
        if path == ROWS and not (place / "moved").exists():
            (place / ROWS).rename(place / "moved")
            (place / ROWS).write_text(LOSS.replace("1", "3"))
            os.chown(place / ROWS, 65533, 65533)
        return found

    give_away(place / P)
    monkeypatch.chdir(place)
    monkeypatch.setattr(os, "stat", late)
    lost = evidence_of(PartitionDir(P, LogDir(".")))
    assert (list(lost.before_salvage), lost.rows_unread is None) == ([], False)


def test_no_rows_are_no_matter(place: Path) -> None:
    (place / ROWS).unlink()
    lost = evidence_of(PartitionDir(str(place / P), LogDir(str(place))))
    assert (list(lost.before_salvage), lost.rows_unread) == ([], None)
