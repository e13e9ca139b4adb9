"""Where a user lets kdump write: never into what is read, into a partition directory, or where a broker looks."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.support.partitions import checkpoint, meta, segment, write
from tests.support.runs import Run, run_kdump
from tests.support.segments import Record, batch

if TYPE_CHECKING:
    from pathlib import Path

P = "t-0"
BASES = (0, 5)
VERBS = {
    "reindex": ("reindex", "{source}", "--force", "--output", "{to}"),
    "truncate": ("truncate", "{source}", "--to-offset", "7", "--apply", "--quarantine", "{to}"),
    "quarantine": ("reindex", "{source}", "--force", "--apply", "--quarantine", "{to}"),
    "salvage": ("salvage", "{source}", "--to", "{to}"),
    "doubtful": ("salvage", "{source}", "--to", "aside", "--doubtful", "{to}"),
    "carve": ("carve", "{source}/00000000000000000000.log", "--like", "{source}", "--to", "{to}"),
    "export": ("export", "{source}", "--to", "{to}"),
    "findings": ("export", "{source}", "--table", "findings", "--to", "{to}"),
    "verify": ("verify", "{source}", "--quiet", "--out", "{to}"),
    "scrub": ("verify", "{source}", "--quiet", "--scrub", "{to}"),
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A partition of a copy, another one in a log directory, and an empty directory."""
    parts = {base: segment(base, [batch(base + n, [Record()]) for n in range(5)]) for base in BASES}
    for root in ("copy", "ld"):
        write(tmp_path / root / P, {path: data for one in parts.values() for path, data in one.items()})
    (tmp_path / "copy" / P / f"{0:020}.timeindex").unlink()  # so that there is something to do
    write(tmp_path / "ld", {"meta.properties": meta(1)})
    (tmp_path / "elsewhere").mkdir()
    return tmp_path


def seen(place: Path) -> dict[str, tuple[int, bytes]]:
    """All that lies there, with the inode and the content of each file."""
    return {
        str(path.relative_to(place)): (path.lstat().st_ino, path.read_bytes() if path.is_file() else b"")
        for path in sorted(place.rglob("*"))
    }


def run(place: Path, verb: str, to: str, source: str = f"copy/{P}", cwd: str = ".") -> Run:
    args = [one.format(source=source, to=to) for one in VERBS[verb]]
    done = run_kdump(args, place / cwd)
    assert done.exit != 1, done.stderr
    return done


def refused(place: Path, verb: str, to: str, source: str = f"copy/{P}", cwd: str = ".") -> str:
    before = seen(place)
    done = run(place, verb, to, source, cwd)
    assert done.exit == 12, (done.exit, done.stderr)
    assert seen(place) == before
    return done.stderr.decode()


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_writes_into_its_source_however_that_is_named(verb: str, place: Path) -> None:
    (place / "elsewhere" / "link").symlink_to(place / "copy" / P)
    for to in (f"copy/{P}/x", f"elsewhere/../copy/{P}/x", "elsewhere/link/x"):
        assert "nothing is written there; name a place elsewhere" in refused(place, verb, to)
    refused(place, verb, "x", ".", f"copy/{P}")


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("sign", ["meta.properties", "replication-offset-checkpoint", ".kafka_cleanshutdown"])
def test_no_verb_writes_into_a_log_directory_or_below_it(sign: str, verb: str, place: Path) -> None:
    shutil.rmtree(place / "ld" / P)
    (place / "ld" / "meta.properties").unlink()
    (place / "ld" / sign).write_bytes(checkpoint(("t", 0, 10)) if "checkpoint" in sign else b"")
    (place / "ld" / "below").mkdir()
    for to in ("ld/x", "ld/below/x"):
        assert "the log directory" in refused(place, verb, to)


@pytest.mark.parametrize("verb", [one for one in VERBS if one not in ("truncate", "carve")])
def test_what_was_named_is_a_source_though_no_file_of_a_broker_lies_in_it(verb: str, place: Path) -> None:
    (place / "copy" / "more").mkdir()
    refused(place, verb, "copy/more/x", "copy")


@pytest.mark.parametrize("verb", VERBS)
def test_another_partition_directory_is_no_place_either(verb: str, place: Path) -> None:
    shutil.copytree(place / "copy" / P, place / "elsewhere" / "u-3")
    shutil.copytree(place / "copy" / P, place / "elsewhere" / "of old")
    for to in ("elsewhere/u-3/x", "elsewhere/of old/x"):
        assert "the partition directory" in refused(place, verb, to)


@pytest.mark.parametrize("verb", VERBS)
def test_the_directory_above_a_partition_is_one_like_others(verb: str, place: Path) -> None:
    before = {path: data for path, data in seen(place).items() if path.startswith(f"copy/{P}/")}
    done = run(place, verb, "copy/x")
    assert done.exit in (0, 3, 4, 7), done.stderr
    if verb not in ("truncate", "quarantine"):
        after = {path: data for path, data in seen(place).items() if path.startswith(f"copy/{P}/")}
        assert after == before


@pytest.mark.parametrize("cwd", [".", "copy", f"copy/{P}"])
def test_indexes_are_not_written_aside_into_the_partition_itself(cwd: str, place: Path) -> None:
    """`reindex u-0 --output .` once made its indexes beside the log, and said that nothing was changed."""
    up = os.path.relpath(place / "copy", place / cwd)
    refused(place, "reindex", up, os.path.join(up, P), cwd)


def test_no_link_is_followed_to_indexes_aside(place: Path) -> None:
    (place / "aside").mkdir()
    (place / "aside" / P).symlink_to(place / "elsewhere")
    assert "is a symbolic link" in refused(place, "reindex", "aside")


@pytest.mark.parametrize("verb", ["scrub", "doubtful"])
def test_a_link_to_nothing_is_no_new_file(verb: str, place: Path) -> None:
    (place / "elsewhere" / "new").symlink_to(place / "copy" / P / "made")
    before = seen(place)
    assert run(place, verb, "elsewhere/new").exit in (2, 12)
    assert seen(place) == before


def test_a_file_with_a_second_name_in_a_source_is_no_ledger(place: Path) -> None:
    (place / "copy" / P / "empty.txnindex").touch()
    (place / "elsewhere" / "ledger").hardlink_to(place / "copy" / P / "empty.txnindex")
    refused(place, "scrub", "elsewhere/ledger")


def test_a_log_by_itself_may_lie_where_the_result_goes(place: Path) -> None:
    shutil.copyfile(place / "copy" / P / "00000000000000000000.log", place / "elsewhere" / "00000000000000000000.log")
    args = ["salvage", "00000000000000000000.log", "--name", "t-0", "--to", "out"]
    assert run_kdump(args, place / "elsewhere").exit == 0


@pytest.mark.parametrize("left", ["index", "snapshot", "log.deleted"])
@pytest.mark.parametrize("verb", ["salvage", "export", "verify", "scrub", "carve"])
def test_a_partition_directory_is_known_without_its_logs(verb: str, left: str, place: Path) -> None:
    write(place / "copy" / "u-0", {f"{0:020}.{left}": b"", "partition.metadata": b""})
    refused(place, verb, "copy/u-0/x")


@pytest.mark.parametrize("verb", ["salvage", "export", "verify", "scrub"])
def test_a_partition_of_a_source_is_known_by_what_a_link_leads_to(verb: str, place: Path) -> None:
    (place / "copy" / P).rename(place / "elsewhere" / "volume")
    (place / "copy" / P).symlink_to(place / "elsewhere" / "volume")
    for path in (place / "elsewhere" / "volume").iterdir():
        if not path.name.endswith(".log"):
            path.unlink()
    write(place, {f"copy/u-0/{0:020}.log": segment(0, [batch(0, [Record()])])[f"{0:020}.log"]})
    refused(place, verb, "elsewhere/volume/x", "copy")


@pytest.mark.parametrize("table", ["findings", "segments", "summary"])
def test_no_table_of_verify_is_written_through_a_link_into_a_source(table: str, place: Path) -> None:
    (place / "out").mkdir()
    (place / "out" / table).symlink_to(place / "copy" / P)
    refused(place, "verify", "out")
    (place / "out" / table).unlink()
    (place / "copy").rename(place / table)
    refused(place, "verify", ".", table)
