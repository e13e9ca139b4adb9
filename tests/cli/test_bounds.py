"""Memory and time follow the bytes that are there, not what they claim.

Each case runs in a child of its own: no more than 300 MiB at its peak, and killed after so many seconds of CPU that
only work that follows a claim can need them. The large files are holes, zeros and what compresses to nothing.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import zlib
from struct import pack
from typing import TYPE_CHECKING

import pytest

from kdump.finding import PER_PLACE
from tests.support.measured import Cost, cost
from tests.support.runs import FIXTURES
from tests.support.scan_windows import COMPILED

if TYPE_CHECKING:
    from pathlib import Path

MOST_MEMORY = 300  # MiB
HOSTILE = FIXTURES / "hostile"
NAME = f"{0:020}"
HUGE = 100 << 30

needs_kernels = pytest.mark.skipif(not COMPILED, reason="millions of records: the kernels' work, too much uncompiled")


def run(*args: str, cwd: Path, seconds: int = 60, keep: bool = True) -> Cost:
    """Run kdump within the bounds."""
    found = cost(*args, cwd=cwd, seconds=seconds, keep=keep)
    assert found.status >= 0, f"killed after {found.cpu:.0f} s of CPU"
    assert b"Traceback" not in found.err
    assert found.memory < MOST_MEMORY
    return found


def case(tmp_path: Path, name: str) -> Path:
    """A copy of a log directory that broke kdump once."""
    shutil.copytree(HOSTILE / name, tmp_path / name)
    return tmp_path / name


def findings(done: Cost, code: str) -> list[dict[str, object]]:
    """The findings of one code in JSON output."""
    rows = map(json.loads, done.out.splitlines())
    return [row for row in rows if row["type"] == "finding" and row["code"] == code]


# --- a batch that claims many records -------------------------------------------------------------------------------
@needs_kernels
@pytest.mark.parametrize(("name", "records"), [("05-odd-order-800k", 800_000), ("05-odd-order-37M", 37_224_448)])
def test_of_one_code_in_one_batch_a_hundred_findings_stand_and_the_last_counts_the_others(
    name: str, records: int, tmp_path: Path
) -> None:
    found = findings(run("verify", "--format", "json", ".", cwd=case(tmp_path, name)), "R06")
    assert len(found) == PER_PLACE
    assert [row["more"] for row in found[:-1]] == [None] * (PER_PLACE - 1)
    assert found[-1]["more"] == records - 1 - PER_PLACE


@needs_kernels
@pytest.mark.parametrize(
    "args",
    [
        ("verify", "."),
        ("dump", "--deep-iteration", "plain-0"),
        ("dump", "--deep-iteration", "--format", "json", "plain-0"),
        ("dump", "--tail", "5", "plain-0"),
        ("find-offset", "--scan", "plain-0", "5"),
        ("find-time", "--scan", "plain-0", "5"),
        ("truncate", "--at-damage", "plain-0"),
        ("export", "--table", "findings", "--to", "../out", "."),
    ],
    ids="-".join,
)
def test_records_out_of_order_cost_what_records_cost(args: tuple[str, ...], tmp_path: Path) -> None:
    run(*args, cwd=case(tmp_path, "05-odd-order-800k"), seconds=20, keep=False)


def test_the_text_says_how_many_findings_are_left_out(tmp_path: Path) -> None:
    if COMPILED:
        done = run("verify", "--no-fold", ".", cwd=case(tmp_path, "05-odd-order-800k"))
        assert b"count=799899: 799899 more like these" in done.out
        assert b" errors=799999 " in done.out


# --- one record that is as large as a batch may be ------------------------------------------------------------------
@needs_kernels
@pytest.mark.parametrize(
    "args",
    [
        ("verify", "."),
        ("dump", "--deep-iteration", "plain-0"),
        ("dump", "--print-data-log", "plain-0"),
        ("dump", "--deep-iteration", "--format", "json", "plain-0"),
        ("dump", "--print-data-log", "--format", "json", "plain-0"),
        ("dump", "--compat", "4.3", "--print-data-log", "--files", f"plain-0/{NAME}.log"),
        ("find-offset", "--scan", "plain-0", "0"),
        ("export", "--table", "records", "--to", "../out", "."),
    ],
    ids="-".join,
)
@pytest.mark.parametrize("name", ["06-headers-120M", "06-record-240M"])
def test_a_record_of_240_mb_is_written_in_pieces(name: str, args: tuple[str, ...], tmp_path: Path) -> None:
    run(*args, cwd=case(tmp_path, name), keep=False)


@needs_kernels
def test_a_value_of_240_mb_is_written_whole(tmp_path: Path) -> None:
    done = run("dump", "--print-data-log", "plain-0", cwd=case(tmp_path, "06-record-240M"))
    line = done.out.splitlines()[-1]
    before, _, value = line.partition(b" payload: ")
    assert b"valueSize: 251658240 " in before
    assert len(value) == 251658240


@needs_kernels
def test_120_million_header_keys_are_written_all(tmp_path: Path) -> None:
    done = run("dump", "--deep-iteration", "plain-0", cwd=case(tmp_path, "06-headers-120M"))
    keys = done.out.splitlines()[-1].partition(b" headerKeys: [")[2].partition(b"]")[0]
    assert keys == b"," * (len(keys))
    assert len(keys) > 120_000_000


@needs_kernels
def test_a_cell_of_an_export_is_cut_and_its_size_is_true(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    done = run("export", "--table", "records", "--to", "../out", ".", cwd=case(tmp_path, "06-record-240M"))
    assert done.status == 5
    assert b"C03" in done.err
    (file,) = (tmp_path / "out").rglob("*.parquet")
    (row,) = pq.read_table(file, columns=["valueSize", "payload"], partitioning=None).to_pylist()
    assert row["valueSize"] == 251658240
    assert len(row["payload"]) == 1024 * 1024


@pytest.mark.parametrize(
    "args",
    [
        ("--compat", "4.3", "--print-data-log", "--files"),
        ("--print-data-log", "--files"),
        ("--deep-iteration", "--format", "json", "--files"),
    ],
    ids=["compat", "text", "json"],
)
def test_a_message_that_ends_behind_the_limit_is_not_held(args: tuple[str, ...], tmp_path: Path) -> None:
    size = 600 << 20
    head = pack(">bbii", 0, 0, -1, size)
    pieces, crc = gzip.compress(b"\0" * (1 << 20), 1, mtime=0), zlib.crc32(head)
    for _ in range(600):
        crc = zlib.crc32(b"\0" * (1 << 20), crc)
    message = pack(">qiI", 0, len(head) + 4 + size, crc) + head
    value = gzip.compress(message, 1, mtime=0) + pieces * 600
    body = pack(">bbii", 0, 1, -1, len(value)) + value
    path = tmp_path / "log" / "t-0" / f"{NAME}.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body)
    run("dump", *args, str(path), cwd=path.parent.parent, keep=False)


# --- files that are larger than a broker makes them -----------------------------------------------------------------
def sparse(tmp_path: Path, kind: str, size: int = HUGE) -> Path:
    """A partition whose file of one kind goes on with a hole."""
    root = tmp_path / "log"
    shutil.copytree(FIXTURES / "kafka-4.3.1" / "clean" / "node1" / "tombstone-0", root / "t-0")
    log = min((root / "t-0").glob("*.log"))
    path = log.with_suffix(f".{kind}")
    with path.open("ab"):
        os.truncate(path, size)
    return root


@pytest.mark.parametrize("kind", ["index", "timeindex", "txnindex", "snapshot", "log"])
def test_a_file_of_100_gb_of_holes_is_judged_by_its_size(kind: str, tmp_path: Path) -> None:
    root = sparse(tmp_path, kind)
    done = run("verify", "--format", "json", ".", cwd=root)
    path = next(path for path in (root / "t-0").iterdir() if path.stat().st_size == HUGE)
    assert path.stat().st_blocks < 1 << 12
    about = [row for row in map(json.loads, done.out.splitlines()) if row.get("file", "") == f"./t-0/{path.name}"]
    assert {row["code"] for row in about if row["type"] == "finding"} & {"F03", "S01", "F08"}
    shown = run("dump", f"t-0/{path.name}", cwd=root, keep=False)
    assert shown.status in (3, 6)


@pytest.mark.parametrize(("kind", "code"), [("index", "X03"), ("timeindex", "T03"), ("txnindex", "A03")])
def test_zeros_in_the_middle_of_an_index_are_counted_not_listed(kind: str, code: str, tmp_path: Path) -> None:
    size = 8 * 12 * 34 * (2500 if COMPILED else 300)  # whole entries
    root = sparse(tmp_path, kind, size)
    path = next(path for path in (root / "t-0").glob(f"*.{kind}") if path.stat().st_size == size)
    with path.open("r+b") as file:
        file.seek(size - 8)
        file.write(b"\1" * 8)
    found = findings(run("verify", "--format", "json", ".", cwd=root), code)
    assert len(found) <= PER_PLACE
    assert isinstance(found[-1]["more"], int)
    assert found[-1]["more"] > size // 40


# --- many small things ----------------------------------------------------------------------------------------------
def tiny(count: int) -> bytes:
    """Messages of magic 0 with wrong CRCs."""
    body = pack(">bbii", 0, 0, -1, -1)
    crc = zlib.crc32(body) ^ 1
    return b"".join(pack(">qiI", offset, len(body) + 4, crc) + body for offset in range(count))


@pytest.mark.parametrize("command", ["verify", "patch-header", "truncate"])
def test_tiny_messages_with_wrong_crcs_are_passed_a_window_at_a_time(command: str, tmp_path: Path) -> None:
    """Each was read with the 4 KiB after it, several times: 10 s for a file of 1 MB."""
    log = tmp_path / "log" / "t-0" / f"{NAME}.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(tiny(38_000))
    args = {"verify": (".",), "patch-header": (f"t-0/{NAME}.log",), "truncate": ("--at-damage", "t-0")}[command]
    run(command, *args, cwd=tmp_path / "log", seconds=30 if COMPILED else 300)


@pytest.mark.parametrize("line", [b"\n", b"x\n"], ids=["empty", "odd"])
def test_a_million_bad_lines_of_a_checkpoint_take_seconds(line: bytes, tmp_path: Path) -> None:
    root = tmp_path / "log"
    (root / "t-0").mkdir(parents=True)
    (root / "t-0" / f"{NAME}.log").write_bytes(b"")
    for path in (root / "recovery-point-offset-checkpoint", root / "t-0" / "leader-epoch-checkpoint"):
        path.write_bytes(b"0\n1000000\n" + line * 1_000_000)
    done = run("verify", ".", cwd=root)
    assert done.status == 3


def test_a_million_files_of_other_names_take_seconds(tmp_path: Path) -> None:
    root = tmp_path / "log"
    (root / "t-0").mkdir(parents=True)
    here = os.open(root / "t-0", os.O_RDONLY)
    try:
        for number in range(1_000_000 if COMPILED else 10_000):
            os.close(os.open(str(number), os.O_CREAT | os.O_WRONLY, dir_fd=here))
    finally:
        os.close(here)
    (root / "t-0" / f"{NAME}.log").write_bytes(b"")
    for args in (("verify", "--start", "all", "."), ("dump", "t-0"), ("truncate", "--to-offset", "0", "t-0")):
        run(*args, cwd=root, keep=False)
    shutil.rmtree(root)


def test_sixty_thousand_empty_segments_take_seconds(tmp_path: Path) -> None:
    root = tmp_path / "log"
    (root / "t-0").mkdir(parents=True)
    for base in range(60_000 if COMPILED else 2_000):
        (root / "t-0" / f"{base:020}.log").touch()
    run("verify", ".", cwd=root, keep=False)
