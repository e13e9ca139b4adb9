"""The kernels, compiled and not: what they do with rows and bytes at every limit.

Where a kernel is compiled, its `.py` is loaded from source beside it; both must agree on every input.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kdump
from kdump.export import _columns
from kdump.format import _cleaning, _records, _scan, layout
from kdump.format.records import RecordReader
from tests.cleanup import compacted, run
from tests.corpus import run_kdump
from tests.segments import GZIP, NONE, TIME, batch, compress, framed, message, varint, wrapper
from tests.test_compaction import COMPACT, NOW, made
from tests.test_compaction import name as file_name

if TYPE_CHECKING:
    from types import ModuleType

MAX_LONG, MIN_LONG = 2**63 - 1, -(2**63)


def twin(kernel: ModuleType) -> ModuleType:
    """The kernel as the interpreter runs it, from its source."""
    source = Path(str(kernel.__file__)).parent / (kernel.__name__.rpartition(".")[2] + ".py")
    spec = importlib.util.spec_from_file_location(f"{kernel.__name__}_twin", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert not module.is_compiled()
    return module


def both(kernel: ModuleType) -> tuple[ModuleType, ModuleType]:
    """A kernel as it is installed, and its twin."""
    return kernel, twin(kernel)


def numbers(n: int) -> array[int]:
    """Room for n numbers."""
    return array("q", bytes(8 * n))


# --- loading --------------------------------------------------------------------------------------------------
def test_kernels_run_from_source_where_cython_is_installed(tmp_path: Path) -> None:
    """A `cython` that can be imported is not used by the interpreter: any attribute of this one is an error."""
    (tmp_path / "cython.py").write_text("compiled = False\n")
    code = (
        "import sys; from tests.fork_server import SourceOnly; sys.meta_path.insert(0, SourceOnly());"
        "from kdump.__main__ import main; sys.argv = ['kdump', '--version']; main()"
    )
    paths = [str(tmp_path), str(Path(kdump.__file__).parents[1]), str(Path(__file__).parents[1])]
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False, env={"PYTHONPATH": ":".join(paths)}
    )
    assert run.stderr == b""
    assert run.stdout == f"kdump {kdump.__version__} (interpreted)\n".encode()


# --- headers --------------------------------------------------------------------------------------------------
WIDE_THREE = bytes.fromhex("8680808070")  # the varint 3 with bits above the 32nd


def test_a_header_size_has_32_bits_for_every_kernel(tmp_path: Path) -> None:
    body = b"\0\0\0" + varint(1) + b"k" + varint(1) + b"v" + varint(1) + varint(1) + b"h" + WIDE_THREE + b"abc"
    data = batch(0, body=framed(body), count=1, last_delta=0)
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / file_name(0)).write_bytes(data)
    args = ["export", "--table", "records", "--file-format", "json", "--to", "out", "t-0"]
    assert run_kdump(args, tmp_path).exit == 0
    (written,) = (tmp_path / "out" / "topic=t").glob("**/*.json")
    assert '"value":"abc"' in written.read_text().replace(" ", "")


# --- legacy messages that lie about their value --------------------------------------------------------------
CLAIMS = [0, 1, 5, 6, 7, 100, 2**20, 2**31 - 1]  # bytes; five are there


def lying(magic: int, claim: int, key: bytes = b"k") -> bytes:
    """A message whose value claims some bytes and has five; its CRC is right."""
    return message(magic, 0, b"value", key=key, value_size=claim)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("claim", [*CLAIMS, -1, -2, -(2**31)])
def test_a_row_of_a_legacy_message_lies_in_its_message(magic: int, claim: int) -> None:
    data = lying(magic, claim)
    seen = []
    for kernel in both(_records):
        batches, rows = numbers(layout.BATCH_WIDTH), numbers(layout.RECORD_WIDTH)
        _scan.header_row(data + bytes(61), 0, 0, len(data), magic, batches)
        *_, filled, status = kernel.read_plain(data, 0, batches, 0, 1, 0, 0, rows, 0, 1)
        seen.append((filled, status, rows.tolist()))
        for place, size in ((layout.R_KEY_AT, layout.R_KEY_SIZE), (layout.R_VALUE_AT, layout.R_VALUE_SIZE)):
            assert 0 <= rows[place] <= rows[place] + max(0, rows[size]) <= rows[layout.R_END] == len(data)
        over = claim > 5
        assert bool(rows[layout.R_FLAGS] & layout.VALUE_OVERRUNS) == over == (status == layout.R_VALUE_LENGTH)
        assert rows[layout.R_VALUE_SIZE] == (-1 if over else claim)
    assert seen[0] == seen[1]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [NONE, GZIP])
@pytest.mark.parametrize("claim", [6, 2**20, 2**31 - 1])
def test_a_pass_fails_where_it_has_to_copy_a_value_that_overruns(
    magic: int, codec: int, claim: int, tmp_path: Path
) -> None:
    bad = lying(magic, claim)
    data = wrapper(magic, 0, codec=codec, stream=compress(codec, bad, magic=magic)) if codec else bad
    place = made(tmp_path, (0, [batch(0)]))
    (place / "t-0" / file_name(0)).write_bytes(data)
    items = run(place, COMPACT, NOW, compaction=True, clean=True)
    assert "newLimit > capacity" in compacted(items).failure


@pytest.mark.parametrize("size", [100, 9 * 2**20])
def test_a_long_message_with_a_lying_value_ends_compat_as_a_short_one_does(size: int, tmp_path: Path) -> None:
    (tmp_path / file_name(0)).write_bytes(lying(1, 2**30, b"k" * size))
    end = run_kdump(["dump", "--compat", "4.3", "--print-data-log", "--files", file_name(0)], tmp_path)
    assert end.stdout.decode().splitlines()[-1].startswith("| offset: 0 CreateTime")
    assert f"keySize: {size} valueSize: {2**30} isValid: true" in end.stdout.decode()
    assert b"newLimit > capacity" in end.stderr
    assert b"Traceback" not in end.stderr


# --- numbers at the ends of their range -----------------------------------------------------------------------
@pytest.mark.parametrize("floor", [layout.UNKNOWN, MIN_LONG + 1, -(2**62), -1, 0, MAX_LONG - 1, MAX_LONG])
@pytest.mark.parametrize("offset", [0, 1, 2**31, 2**62, MAX_LONG - 1, MAX_LONG])
def test_a_plausible_header_is_so_compiled_and_not(floor: int, offset: int) -> None:
    data = batch(offset) + bytes(61)
    said = {kernel.plausible(data, 0, 0, len(data), floor) for kernel in both(_scan)}
    too_high = floor != layout.UNKNOWN and offset - floor > 2**31
    assert said == {offset > floor and not too_high}


def test_the_offset_map_takes_the_last_offset_that_there_is() -> None:
    data = b"key"
    for kernel in both(_cleaning):
        row, table, state = numbers(layout.RECORD_WIDTH), numbers(3 * 7), array("q", [0, -1])
        row[layout.R_OFFSET], row[layout.R_KEY_SIZE], row[layout.R_VALUE_SIZE] = MAX_LONG, 3, -1
        flags, keep, stats = numbers(1), bytearray(1), numbers(layout.S_WIDTH)
        assert kernel.put(data, row, 1, flags, 0, table, 7, 6, state) == 1
        assert state.tolist() == [1, MAX_LONG]
        assert MIN_LONG in table
        kernel.judge(data, row, 1, flags, table, 7, MAX_LONG, keep, stats)
        assert keep == b"\1"


@pytest.mark.parametrize("time", [MIN_LONG, -1, 0, MAX_LONG])
@pytest.mark.parametrize("offset", [0, 2**31 - 1, 2**31, MAX_LONG, MIN_LONG])
def test_a_record_is_written_the_same_compiled_and_not(time: int, offset: int) -> None:
    data = b"keyvalue"
    row = numbers(layout.RECORD_WIDTH)
    row[layout.R_OFFSET], row[layout.R_TIMESTAMP] = offset, time
    row[layout.R_KEY_SIZE], row[layout.R_VALUE_AT], row[layout.R_VALUE_SIZE] = 3, 3, 5
    row[layout.R_HEADERS_AT] = row[layout.R_END] = 8
    written = []
    for kernel in both(_cleaning):
        target = bytearray(64)
        assert kernel.encode(data, row, 0, 1, b"\1", 5, TIME, target)[0] == 1
        written.append(target)
    assert written[0] == written[1]


def test_runs_of_offsets_do_not_go_on_at_the_other_end() -> None:
    for kernel in both(_cleaning):
        rows, runs = numbers(2 * layout.RECORD_WIDTH), numbers(8)
        rows[layout.R_OFFSET], rows[layout.RECORD_WIDTH + layout.R_OFFSET] = MAX_LONG, MIN_LONG
        assert kernel.add_runs(rows, 2, b"\1\1", runs, 0) == 2
        assert runs.tolist()[:4] == [MAX_LONG, MAX_LONG, MIN_LONG, MIN_LONG]


# --- columns for Arrow ----------------------------------------------------------------------------------------
def test_records_are_split_before_their_offsets_exceed_32_bits() -> None:
    for kernel in both(_columns):
        rows = numbers(4 * layout.RECORD_WIDTH)
        for i, size in enumerate((2**30, 2**30, 1, 2**31 - 1)):
            rows[i * layout.RECORD_WIDTH + layout.R_END] = size
        assert kernel.rows_within(rows, 0, 4, 2**30) == 1
        assert kernel.rows_within(rows, 1, 4, 2**30 + 1) == 3
        assert kernel.rows_within(rows, 3, 4, 2**30) == 4


def test_parts_of_a_chunk_make_the_same_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pa = pytest.importorskip("pyarrow")
    from kdump.export import arrowrecords
    from kdump.export.tables import TABLES
    from kdump.format.source import BytesSource
    from kdump.format.walk import CheckedWalk

    data = b"".join(batch(n * 3, [b"a" * n, b"", b"c"]) for n in range(20))
    columns = [one for one in TABLES["records"] if one.name in ("offset", "key", "payload", "headers", "batchPosition")]

    def table() -> tuple[int, Any]:
        walk = CheckedWalk(BytesSource(data, "log"), [].append, segment=0, max_batch_bytes=2**26)
        found = [
            arrowrecords.Records(part, {}, lambda _chunk: {}).columns(columns)
            for window in walk.windows()
            for chunk in RecordReader(2**26).chunks(window)
            for part in arrowrecords.parts(chunk)
        ]
        return len(found), pa.Table.from_batches(found).combine_chunks()

    pieces, whole = table()
    monkeypatch.setattr(arrowrecords, "MOST_BYTES", 100)
    more, parted = table()
    assert (pieces, more) == (1, 9)
    assert parted == whole
