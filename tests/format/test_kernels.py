"""The kernels, compiled and not: what they do with rows and bytes at every limit.

Where a kernel is compiled, its `.py` is loaded from source beside it; both must agree on every input.
"""

from __future__ import annotations

import ast
import importlib.util
import random
import re
import subprocess
import sys
from array import array
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kdump
from kdump.broker.cleaner import _cleaning
from kdump.export import _columns
from kdump.format.batch import _scan, layout
from kdump.format.kernels import wire
from kdump.format.record import _records, _select
from kdump.format.record.reader import RecordReader, header_places, key_and_value
from kdump.render.json import _json
from kdump.render.text import _text
from kdump.rescue import _carving
from tests.broker.test_compaction import COMPACT, NOW, made
from tests.support.cleaner_cases import compacted, run
from tests.support.partitions import name as file_name
from tests.support.runs import run_kdump
from tests.support.segments import GZIP, NONE, TIME, batch, compress, framed, message, varint, wrapper

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from kdump.finding import Finding

KERNELS = (_records, _select, _cleaning, _columns, _text, _json)
MAX_LONG, MIN_LONG = 2**63 - 1, -(2**63)


@cache
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


SETS = (KERNELS, tuple(twin(kernel) for kernel in KERNELS))


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
        "import sys; from tests.support.fork_server import SourceOnly; sys.meta_path.insert(0, SourceOnly());"
        "from kdump.__main__ import main; sys.argv = ['kdump', '--version']; main()"
    )
    paths = [str(tmp_path), str(Path(kdump.__file__).parents[1]), str(Path(__file__).parents[1])]
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False, env={"PYTHONPATH": ":".join(paths)}
    )
    assert run.stderr == b""
    assert run.stdout == f"kdump {kdump.__version__} (interpreted)\n".encode()


# --- candidates of carve -----------------------------------------------------------------------------------------
def test_candidates_are_the_same_compiled_and_not_at_every_limit() -> None:
    rng = random.Random(4)
    header = batch(0, [b"v"])[:61]
    old = message(1, 5), message(0, 5)
    for _ in range(200):
        data = bytearray(rng.choice((bytes(200), rng.randbytes(200), header * 4, old[0] * 5, old[1] * 5)))
        for _ in range(rng.randrange(6)):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 2, 3, 0x7F, 0x80, 0xFF))
        at = rng.randrange(len(data))
        data[at : at + 4] = rng.choice((-1, 0, 13, 14, 21, 22, 48, 49, 150, 2**31 - 1)).to_bytes(4, "big", signed=True)
        start, n, room = rng.randrange(-1, 50) + 1, rng.randrange(len(data) + 1), rng.randrange(1, 5)
        stop, left, small = rng.randrange(len(data) + 9), n + rng.randrange(9), rng.choice((61, 100, 2**20))
        found = []
        for kernel in both(_carving):
            rows = numbers(3 * room)
            count = kernel.candidates(data, start, stop, n, left, small, rows, room)
            found.append((count, rows[: 3 * count]))
            assert all(start <= rows[3 * k] < stop and rows[3 * k] + rows[3 * k + 1] <= left for k in range(count))
        assert found[0] == found[1]
        assert _carving.behind(rng.getrandbits(32), n, 0x82F63B78) < 2**32


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
        row[layout.R_END] = 3
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


@pytest.mark.parametrize("key", [-1, 0, 3, 2**31 - 1])
@pytest.mark.parametrize("value", [-1, 0, 3, 2**31 - 1])
def test_a_size_is_the_same_compiled_and_not(key: int, value: int) -> None:
    rows = numbers(layout.RECORD_WIDTH)
    rows[layout.R_KEY_SIZE], rows[layout.R_VALUE_SIZE] = key, value
    size = max(key, 0) + max(value, 0)
    for kernel in both(_select):
        for least, most, kept in ((size, size, 1), (size + 1, MAX_LONG, 0), (0, size - 1, 0)):
            mask = bytearray(b"\1")
            kernel.in_sizes(rows, 1, least, most, mask)
            assert mask == bytes([kept])


def test_parts_of_a_chunk_make_the_same_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pa = pytest.importorskip("pyarrow")
    from kdump.export import arrow_records as arrowrecords
    from kdump.export.tables import TABLES
    from kdump.format.batch.walk import CheckedWalk
    from kdump.format.source import BytesSource

    data = b"".join(batch(n * 3, [b"a" * n, b"", b"c"]) for n in range(20))
    columns = [one for one in TABLES["records"] if one.name in ("offset", "key", "payload", "headers", "batchPosition")]

    findings: list[Finding] = []

    def table() -> tuple[int, Any]:
        walk = CheckedWalk(BytesSource(data, "log"), findings.append, segment=0, next_base=None, max_batch_bytes=2**26)
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


# --- one decoder ----------------------------------------------------------------------------------------------
def test_the_compiler_has_the_numbers_of_the_layout() -> None:
    text = Path(layout.__file__).with_suffix(".pxd").read_text()
    said = {name: int(value) for name, value in re.findall(r"^    ([A-Z]\w*) = (-?\d+)$", text, re.M)}
    for name, macro in re.findall(r'const long long (\w+) "(\w+)"', text):
        (value,) = re.findall(rf"#define {macro} (.+)$", text, re.M)
        said[name] = eval(value.replace("LL", ""))
    source = Path(layout.__file__).read_text()
    own = set(re.findall(r"^([A-Z][A-Z0-9_]*) = ", source, re.M))  # not what it has from other modules
    assert said == {name: value for name, value in vars(layout).items() if name in own | said.keys()}


def test_both_halves_of_the_decoder_have_the_same_functions() -> None:
    source = Path(wire.__file__)
    mine = {
        node.name: [one.arg for one in node.args.args]
        for node in ast.parse(source.read_text()).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }
    text = source.with_suffix(".pxd").read_text()
    theirs = {
        name: [one.split()[-1].lstrip("*") for one in arguments.split(",")]
        for name, arguments in re.findall(r"^cdef inline .*?(\w+)\(([^)]*)\)", text, re.M)
    }
    del theirs["put_unsigned"]  # a part of put_int
    assert mine == theirs


@pytest.mark.parametrize("most", [wire.WIDEST_INT, wire.WIDEST_LONG])
@pytest.mark.parametrize("size", range(13))
def test_a_varint_ends_where_it_has_to(size: int, most: int) -> None:
    data = b"\x80" * size
    assert wire.varint_end(data, 0, size, most) == (wire.TOO_WIDE if size >= most else wire.NO_END)
    end = wire.varint_end(data + b"\1", 0, size + 1, most)
    assert end == (size + 1 if size < most else wire.TOO_WIDE)
    assert wire.varint_end(data + b"\1", 0, size, most) == (wire.TOO_WIDE if size >= most else wire.NO_END)


# --- rows at every limit --------------------------------------------------------------------------------------
def varints(number: int) -> Iterator[bytes]:
    """A number as it is written, and as it could be: filled up with zeros, with bits that are cut off, too long."""
    plain = varint(number)
    yield plain
    wide = plain[:-1] + bytes([plain[-1] | 0x80])
    filled = wide + b"\x80" * (4 - len(wide)) if len(wide) < 5 else wide[:4]
    yield filled + (bytes([plain[4]]) if len(plain) == 5 else b"\0")
    yield filled + bytes([0x70 | (plain[4] if len(plain) == 5 else 0)])
    yield filled + b"\x80\0"  # six bytes
    yield filled + b"\x80" * 5 + b"\1"  # ten
    yield filled + b"\x80" * 6 + b"\1"  # eleven
    yield filled + b"\x80"  # does not end


def bodies() -> Iterator[bytes]:
    """Bodies of records of which one number is at a limit."""
    for at in range(6):
        for number in (-(2**31), -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 2**31 - 1):
            for text in varints(number):
                parts = [b"\0", varint(0), varint(0), varint(2) + b"kk", varint(3) + b"vvv"]
                header = [varint(1), varint(2) + b"hh", varint(2) + b"HH"]
                tails = [b"", b"", b"kk", b"vvv", b"", b"hh", b"HH"]
                whole = parts + header
                index = at + 2
                whole[index] = text + tails[index - 1]
                yield b"".join(whole)
    for text in varints(2**63 - 1):
        yield b"\0" + text + b"\0\1\1\0"
    yield from (b"", b"\0", b"\7\0\0\1\1\0", b"\0\0\0\1\1\2\6\xff\xfe\xfd\1")


def is_safe(data: bytes, row: array[int]) -> None:
    """The contract of a record row."""
    start, end = row[layout.R_AT], row[layout.R_END]
    assert 0 <= start <= end <= len(data)
    for place, size in ((layout.R_KEY_AT, layout.R_KEY_SIZE), (layout.R_VALUE_AT, layout.R_VALUE_SIZE)):
        assert start <= row[place] <= row[place] + max(0, row[size]) <= end
    at = row[layout.R_HEADERS_AT]
    assert start <= at <= end
    for key_at, key_size, value_at, size in header_places(memoryview(data), row):
        assert at <= key_at <= key_at + key_size <= value_at <= value_at + max(0, size) <= end
        at = value_at + max(0, size)
    assert at == end


def batch_row(count: int, magic: int = 2, flags: int = 0) -> array[int]:
    """The row of a batch whose records are read."""
    row = numbers(layout.BATCH_WIDTH)
    row[layout.COUNT], row[layout.MAGIC], row[layout.ATTRIBUTES] = count, magic, flags
    row[layout.LAST_OFFSET_DELTA], row[layout.BASE_OFFSET], row[layout.BASE_TIMESTAMP] = count - 1, 5, TIME
    row[layout.SEEN_DELTA], row[layout.SEEN_MAX_TIMESTAMP] = -1, layout.UNKNOWN
    return row


def used(kernels: tuple[Any, ...], data: bytes, q: array[int], rows: array[int], n: int) -> list[object]:
    """What the later kernels make of record rows."""
    _, select, cleaning, columns, text, json = kernels
    said: list[object] = []
    out = bytearray(1 << 16)
    slow = lambda one: b"<%d>" % len(one)  # noqa: E731
    both_texts = lambda *one: repr(one).encode()  # noqa: E731
    for fates, hide in ((None, None), ([b"fate"] * n, slow)):
        more: tuple[object, ...] = (slow, None, both_texts, fates)
        *ends, stop, why, reason = text.render(data, q, 0, 1, False, rows, 0, n, out, 0, 1, *more)
        said += [ends, why, reason, bytes(out[:stop])]
        more = (True, None, both_texts, fates, hide)
        *ends, stop, why = json.render(data, q, 0, 1, False, rows, 0, n, out, 0, b"B", b"R", *more)
        said += [ends, why, bytes(out[:stop])]
    mask = bytearray(b"\1" * n)
    select.with_headers(data, rows, n, b"hhHH.", array("q", [0, 2, 2, 2]), mask)
    said.append(bytes(mask))
    mask = bytearray(b"\1" * n)
    select.with_keys(data, rows, n, b"kk.", array("q", [0, 2]), mask)
    said.append(bytes(mask))
    for place, size in ((layout.R_KEY_AT, layout.R_KEY_SIZE), (layout.R_VALUE_AT, layout.R_VALUE_SIZE)):
        room = bytearray(max(1, columns.field_bytes(rows, n, size)))
        offsets, bits = array("i", bytes(4 * n + 4)), bytearray(n // 8 + 1)
        said += [columns.copy_field(data, rows, n, place, size, offsets, bits, room), bytes(room), offsets, bits]
    headers, keys, values = columns.header_room(data, rows, n)
    lists, key_offsets, value_offsets = (array("i", bytes(4 * size + 4)) for size in (n, headers, headers))
    keys, values, bits = bytearray(keys + 1), bytearray(values + 1), bytearray(headers // 8 + 1)
    columns.copy_headers(data, rows, n, lists, key_offsets, keys, value_offsets, bits, values)
    said += [lists, key_offsets, value_offsets, keys, values, bits]
    room = bytearray(len(data) + 28 * n)
    row, size = cleaning.encode(data, rows, 0, n, b"\1" * n, 5, TIME, room)
    assert row == n
    said.append(bytes(room[:size]))
    return said


def read(kernels: tuple[Any, ...], data: bytes, count: int) -> list[object]:
    """What the record kernel and all others make of the records of a batch of magic 2."""
    q, rows = batch_row(count), numbers(8 * layout.RECORD_WIDTH)
    *ends, n, status = kernels[0].read_stream(data, 0, len(data), q, 0, 0, rows, 8)
    for i in range(n):
        is_safe(data, rows[i * layout.RECORD_WIDTH : (i + 1) * layout.RECORD_WIDTH])
        rows[i * layout.RECORD_WIDTH + layout.R_CLAIMED_SIZE] = 0
    q[layout.CRC] = q[layout.COMPUTED_CRC] = 1
    return [ends, n, status, rows[: n * layout.RECORD_WIDTH], q, *used(kernels, data, q, rows, n)]


def test_rows_at_every_limit_are_safe_and_the_same_compiled_and_not() -> None:
    statuses = set()
    for body in bodies():
        good = b"\0\0\0" + varint(-1) * 2 + b"\0"
        data = framed(body) + framed(good)
        compiled, interpreted = (read(kernels, data, 2) for kernels in SETS)
        assert compiled == interpreted, body.hex()
        statuses.add(compiled[2])
    assert statuses == {
        layout.R_DONE, layout.R_FIELD_VARINT, layout.R_BODY, layout.R_KEY_LENGTH, layout.R_VALUE_LENGTH,
        layout.R_HEADER_COUNT_BAD, layout.R_HEADER_KEY, layout.R_HEADER_VALUE,
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_damaged_records_are_safe_and_the_same_compiled_and_not(seed: int) -> None:
    rng = random.Random(seed)
    some = list(bodies())
    for _ in range(150):
        data = bytearray(b"".join(framed(rng.choice(some)) for _ in range(3)))
        for _ in range(rng.choice((0, 1, 1, 3))):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        cut = bytes(data[: rng.randrange(1, len(data) + 1)])
        compiled, interpreted = (read(kernels, cut, rng.choice((3, 3))) for kernels in SETS)
        assert compiled == interpreted, cut.hex()


@pytest.mark.parametrize("length", [-(2**31), -2, -1, 0, 1, 6, 7, 8, 9, 2**31 - 1])
def test_lengths_of_records_at_every_limit(length: int) -> None:
    body = b"\0\0\0" + varint(-1) * 2 + b"\0\0"
    for text in varints(length):
        for data in (text + body, text, text[:-1] or b"\x80"):
            compiled, interpreted = (read(kernels, data, 1) for kernels in SETS)
            assert compiled == interpreted, data.hex()


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("key_size", [-(2**31), -2, -1, 0, 1, 2, 5, 6, 2**31 - 1])
@pytest.mark.parametrize("value_size", [-(2**31), -2, -1, 0, 4, 5, 6, 2**31 - 1])
def test_messages_at_every_limit_are_safe_and_the_same_compiled_and_not(
    magic: int, key_size: int, value_size: int
) -> None:
    data = message(magic, 7, b"value", key=b"k", key_size=key_size, value_size=value_size)
    for cut in range(len(data) - 14 - 8 * magic, len(data) + 1):
        part = data[:8] + (cut - 12).to_bytes(4, "big") + data[12:cut]
        said = []
        for kernels in SETS:
            q, rows = batch_row(1, magic), numbers(layout.RECORD_WIDTH)
            at, n, status = kernels[0].read_messages(part, 0, len(part), q, 0, 0, rows, 1)
            if n:
                is_safe(part, rows)
                assert key_and_value(memoryview(part), rows)
            said.append([at, n, status, rows[: n * layout.RECORD_WIDTH], *used(kernels, part, q, rows, n)])
        assert said[0] == said[1]


def test_a_batch_that_is_not_all_in_the_window_is_not_read() -> None:
    for size in (60, 61, 62, 100, 2**31):
        for kernel in both(_records):
            q, rows = batch_row(1), numbers(layout.RECORD_WIDTH)
            q[layout.SIZE] = size
            k, at, done, n, status = kernel.read_plain(bytes(61), 0, q, 0, 1, 0, 0, rows, 0, 1)
            assert (k, done, n, status) == (0, 0, 0, layout.R_MORE)
            assert at <= 61


# --- a record in pieces ---------------------------------------------------------------------------------------
def pieces_of(kernel: Any, data: bytes, step: int, capacity: int) -> tuple[int, dict[tuple[int, int], Any], list[int]]:
    """Read a record `step` bytes at a time: why it ended, the fields, the state."""
    state, pieces = numbers(layout.P_WIDTH), numbers(capacity * layout.PIECE_WIDTH)
    fields: dict[tuple[int, int], Any] = {}
    begin = stop = number = 0
    status = layout.R_MORE
    while True:
        if status == layout.R_MORE:
            if stop == len(data):
                return status, fields, state.tolist()
            stop = min(len(data), stop + step)
        view = data[begin:stop]
        at, n, status = kernel.read_pieces(view, 0, len(view), state, pieces, capacity)
        for i in range(0, n * layout.PIECE_WIDTH, layout.PIECE_WIDTH):
            what, place, size, left = pieces[i : i + layout.PIECE_WIDTH]
            assert 0 <= place <= place + max(0, size) <= len(view)
            text = fields.get((what, number), b"")
            fields[what, number] = text + view[place : place + size] if size >= 0 else None
            number += what == layout.AT_HEADER_VALUE and left == 0
        begin += at
        if status not in (layout.R_MORE, layout.R_FULL):
            return status, fields, state.tolist()


@pytest.mark.parametrize("step", [1, 2, 7, 1000])
def test_a_record_in_pieces_is_the_record(step: int) -> None:
    for kernel in both(_records):
        for body in bodies():
            data = framed(body)
            q, rows = batch_row(1), numbers(layout.RECORD_WIDTH)
            q[layout.LAST_OFFSET_DELTA] = 2**31 - 1
            *_, n, status = kernel.read_stream(data, 0, len(data), q, 0, 0, rows, 1)
            why, fields, state = pieces_of(kernel, data, step, 3)
            assert why == status, body.hex()
            if not n:
                continue
            view = memoryview(data)
            key, value = key_and_value(view, rows)
            expected: dict[tuple[int, int], Any] = {(layout.AT_KEY, 0): key, (layout.AT_VALUE, 0): value}
            for i, (key_at, key_size, at, size) in enumerate(header_places(view, rows)):
                expected[layout.AT_HEADER_KEY, i] = data[key_at : key_at + key_size]
                expected[layout.AT_HEADER_VALUE, i] = data[at : at + size] if size >= 0 else None
            assert fields == expected
            names = ("DELTA", "TIME_DELTA", "ATTRIBUTES", "KEY_SIZE", "VALUE_SIZE", "HEADER_COUNT")
            for name in names:
                assert state[getattr(layout, f"P_{name}")] == rows[getattr(layout, f"R_{name}")]


# --- records out of order -------------------------------------------------------------------------------------
def test_flagged_rows_are_found_and_counted_by_the_kernel() -> None:
    data = b"".join(framed(b"\0\0" + varint(delta) + b"\1\1\0") for delta in (0, 0, 1, 5, 2, 3))
    for kernel in both(_records):
        q, rows = batch_row(6), numbers(6 * layout.RECORD_WIDTH)
        assert kernel.read_stream(data, 0, len(data), q, 0, 0, rows, 6)[2] == 6
        found, i = [], 0
        while (i := kernel.next_flagged(rows, i, 6, 0, layout.DISORDERED)) < 6:
            found.append(i)
            i += 1
        assert found == [1, 4]
        assert kernel.count_flagged(rows, 0, 6, 0, layout.DISORDERED) == 2
        assert kernel.count_flagged(rows, 0, 6, 0, 0) == 6
        assert kernel.next_flagged(rows, 0, 6, 1, 0) == 6
