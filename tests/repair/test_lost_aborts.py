"""The entry of a transaction index whose marker is lost is the last witness of an abort: no step takes it away."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import kdump
from tests.support.partitions import aborted, marker, name, segment, write
from tests.support.runs import run_kdump
from tests.support.segments import TRANSACTIONAL, batch

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.partitions import Files

ONE, TWO = (7, 0), (8, 0)


def data(offset: int, producer: tuple[int, int]) -> bytes:
    return batch(offset, [b"v"], flags=TRANSACTIONAL, producer=(*producer, 0))


def parts() -> Files:
    """Two aborted transactions over two segments: the second one begins with a marker, and has the other one too."""
    first = [data(0, ONE), data(1, TWO), batch(2, [b"x"])]
    second = [marker(3, ONE, commit=False), batch(4, [b"y"]), marker(5, TWO, commit=False), batch(6, [b"z"])]
    files = {**segment(0, first), **segment(3, second)}
    files[name(3, "txnindex")] = aborted(7, 0, 3, 1) + aborted(8, 1, 5, 6)
    return files


def without(files: Files, base: int, part: bytes) -> Files:
    assert part in files[name(base)]
    return {**files, name(base): files[name(base)].replace(part, b"")}


def judged(partition: Path) -> tuple[list[str], list[str]]:
    """Findings about transaction indexes as code and repair, and the commands of the steps."""
    found = kdump.verify([partition])
    told = [f"{one.code.name} {one.repair}" for one in found.findings if one.file.endswith(".txnindex")]
    assert len(found.losses) == 1
    return told, [step.command or "" for step in found.steps]


def indexed(root: Path, *args: str) -> bytes:
    """The transaction index of the second segment, as reindex leaves it."""
    run = run_kdump(["reindex", "plain-0", *args], root)
    if b"--plan-id" in run.stdout:
        plan = run.stdout.partition(b"--plan-id ")[2].split()[0].decode()
        apply = ["--apply", "--plan-id", plan, "--quarantine", str(root / "aside")]
        run_kdump(["reindex", "plain-0", *args, *apply], root)
    return (root / "plain-0" / name(3, "txnindex")).read_bytes()


def test_an_entry_whose_marker_is_missing_at_the_head_of_a_segment_is_a_witness_and_not_wrong(tmp_path: Path) -> None:
    partition = write(tmp_path / "plain-0", without(parts(), 3, marker(3, ONE, commit=False)))
    told, commands = judged(partition)
    assert [one.partition(" ")[0] for one in told] == ["A07"]
    assert not any("txnindex" in one or one.endswith(name(3)) for one in commands)


def test_reindex_keeps_the_entry_of_a_marker_that_the_log_lacks(tmp_path: Path) -> None:
    """The index has a torn entry too, so it is built again; only --force gives the witness up."""
    files = without(parts(), 3, marker(3, ONE, commit=False))
    whole = files[name(3, "txnindex")]
    files[name(3, "txnindex")] += b"\0" * 7
    write(tmp_path / "plain-0", files)
    assert [one.partition(" ")[0] for one in judged(tmp_path / "plain-0")[0]] == ["A01", "A07"]
    kept, others = whole[:34], struct.pack(">hqqq", 0, 8, 1, 5)  # what is stable by then is not known without it
    assert indexed(tmp_path).startswith(kept + others)
    assert indexed(tmp_path, "--force").startswith(others)


def test_reindex_takes_an_entry_away_that_the_log_proves_wrong(tmp_path: Path) -> None:
    files = parts()
    whole = files[name(3, "txnindex")]
    files[name(3, "txnindex")] = aborted(7, 0, 3, 1) + aborted(9, 2, 4, 1) + aborted(8, 1, 5, 6)
    write(tmp_path / "plain-0", files)
    assert indexed(tmp_path) == whole


def test_an_entry_behind_the_end_of_a_rolled_segment_is_restored_or_salvaged_first(tmp_path: Path) -> None:
    files = {**parts(), **segment(7, [batch(7, [b"w"])])}
    lost = marker(5, TWO, commit=False) + batch(6, [b"z"])
    partition = write(tmp_path / "plain-0", without(files, 3, lost))
    told, commands = judged(partition)
    assert all(one.endswith(" None") for one in told)
    assert not any(one.startswith("kdump reindex") and "--force" not in one for one in commands)
    assert indexed(tmp_path) == files[name(3, "txnindex")]
