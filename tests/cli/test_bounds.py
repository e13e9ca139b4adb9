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
from functools import partial
from itertools import pairwise
from struct import pack
from typing import TYPE_CHECKING

import pytest

from kdump.finding import PER_PLACE
from kdump.format.checksum import crc32c
from tests.support.measured import Cost, cost
from tests.support.runs import FIXTURES
from tests.support.scan_windows import COMPILED
from tests.support.segments import TIME, ZSTD, Record, batch, encode, varint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from tests.support.sample import OneIn

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


@needs_kernels
def test_equal_complaints_of_kafkas_tool_are_held_once(tmp_path: Path) -> None:
    """6.6 KB took 573 MB, and five times the time."""
    body = b"".join(in_zstd([encode(Record(b"v", b"k"), 0)] * 3_000_000, 20))
    log = tmp_path / "t-0" / f"{NAME}.log"
    log.parent.mkdir()
    log.write_bytes(batch(0, [], codec=ZSTD, body=body, count=3_000_000, last_delta=2_999_999, max_timestamp=TIME))
    done = run("dump", "--compat", "4.3", "--deep-iteration", "--files", str(log), cwd=tmp_path, seconds=40, keep=False)
    assert done.memory < 100
    assert done.err.splitlines()[1] == b"  0 is followed by 0"


def test_the_text_says_how_many_findings_are_left_out(tmp_path: Path) -> None:
    if COMPILED:
        done = run("verify", "--no-fold", ".", cwd=case(tmp_path, "05-odd-order-800k"))
        assert b"799899 more: record 100" in done.out
        assert b"799,999 errors" in done.out


# --- one record that is as large as a batch may be ------------------------------------------------------------------
@pytest.mark.sampled(3)
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


# --- large records in every codec -----------------------------------------------------------------------------------
LARGE = 240 << 20
LARGE_VERBS = {
    "text": ("dump", "--print-data-log", "t-0"),
    "json": ("dump", "--print-data-log", "--format", "json", "t-0"),
    "verify": ("verify", "."),
    "export": ("export", "--table", "records", "--to", "../out", "."),
    "find": ("find-offset", "--scan", "t-0", "0"),
    "select": ("dump", "--key", "other", "t-0"),
}


def large_batch(codec: int, data: Iterable[bytes]) -> bytes:
    """A batch of magic 2 with one record, whose compressed bytes come in pieces."""
    body = b"".join(data)
    tail = pack(">hiqqqhii", codec, 0, 0, 0, -1, -1, -1, 1)
    return pack(">qiibI", 0, len(body) + 49, 0, 2, crc32c(body, crc32c(tail))) + tail + body


def large_record(*, headers: bool) -> Iterator[bytes]:
    """A record of 240 MB in pieces: its value, or headers of two bytes each."""
    step = b"\0\1" * (1 << 19) if headers else b"x" * (1 << 20)
    start = b"\0\0\0\2k" + (varint(1) + b"v" + varint(LARGE // 2) if headers else varint(LARGE))
    end = b"" if headers else b"\0"
    yield varint(len(start) + LARGE + len(end)) + start
    yield from [step] * (LARGE // len(step))
    yield end


def in_zstd(data: Iterable[bytes], window: int) -> Iterator[bytes]:
    import zstandard

    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=window)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    yield from map(packer.compress, data)
    yield packer.flush()


def in_gzip(data: Iterable[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    yield from map(packer.compress, data)
    yield packer.flush()


def in_lz4(data: Iterable[bytes], *, checksum: bool) -> Iterator[bytes]:
    import lz4.frame

    packer = lz4.frame.LZ4FrameCompressor(block_linked=False, block_size=7, content_checksum=checksum)
    yield packer.begin()
    yield from map(packer.compress, data)
    yield packer.flush()


def in_snappy(data: Iterable[bytes]) -> Iterator[bytes]:
    from cramjam import snappy

    yield b"\x82SNAPPY\0" + pack(">ii", 1, 1)
    for part in data:
        for start in range(0, len(part), 32768):
            block = bytes(snappy.compress_raw(part[start : start + 32768]))
            yield pack(">i", len(block)) + block


PACKERS: dict[str, tuple[int, Callable[[Iterable[bytes]], Iterator[bytes]]]] = {
    "gzip": (1, in_gzip),
    "snappy": (2, in_snappy),
    "lz4": (3, partial(in_lz4, checksum=True)),
    "zstd-8": (4, partial(in_zstd, window=23)),
    "zstd-128": (4, partial(in_zstd, window=27)),
}


def large_message(magic: int) -> Iterator[bytes]:
    """A message of magic 0 or 1 whose value has 240 MB, in pieces."""
    head = pack(">bb", magic, 0) + (pack(">q", 0) if magic else b"") + pack(">ici", 1, b"k", LARGE)
    piece, crc = b"x" * (1 << 20), zlib.crc32(head)
    for _ in range(LARGE // len(piece)):
        crc = zlib.crc32(piece, crc)
    yield pack(">qiI", 0, len(head) + 4 + LARGE, crc) + head
    yield from [piece] * (LARGE // len(piece))


@pytest.fixture(scope="module", params=["zstd-128", "zstd-128-headers", "magic-0-lz4"])
def large_log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory with a record of 240 MB."""
    name: str = request.param
    root = tmp_path_factory.mktemp("large")
    log = root / "log" / "t-0" / f"{NAME}.log"
    log.parent.mkdir(parents=True)
    if name.startswith("magic"):
        _, magic, packer = name.split("-")
        codec, pack_up = PACKERS[packer]
        value = b"".join(pack_up(large_message(int(magic))))
        body = pack(">bb", int(magic), codec) + (pack(">q", 0) if int(magic) else b"") + pack(">ii", -1, len(value))
        body += value
        log.write_bytes(pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body)
        return root / "log"
    codec, pack_up = PACKERS[name.removesuffix("-headers")]
    log.write_bytes(large_batch(codec, pack_up(large_record(headers=name.endswith("headers")))))
    return root / "log"


@pytest.mark.sampled(3)
@needs_kernels
@pytest.mark.parametrize("verb", LARGE_VERBS)
def test_no_verb_holds_a_large_record_or_the_window_of_its_codec_with_it(verb: str, large_log: Path) -> None:
    shutil.rmtree(large_log.parent / "out", ignore_errors=True)
    done = run(*LARGE_VERBS[verb], cwd=large_log, keep=False)
    expected = {"export": 5, "select": 10}  # of cells that are cut, C03 says so; nothing is selected
    assert done.status == expected.get(verb, 0)


@needs_kernels
def test_one_raw_block_of_snappy_that_claims_a_quarter_of_the_limit_is_refused(tmp_path: Path) -> None:
    from cramjam import snappy

    log = tmp_path / "log" / "t-0" / f"{NAME}.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(large_batch(2, [bytes(snappy.compress_raw(b"".join(large_record(headers=False))))]))
    done = run("verify", "--format", "json", ".", cwd=tmp_path / "log")
    assert done.status == 5
    assert [row["code"] for row in findings(done, "C03")] == ["C03"]


# --- large records where they are compared, decoded, counted or written again ---------------------------------------
OFFSETS, TRANSACTIONS, METADATA = "__consumer_offsets-0", "__transaction_state-0", "__cluster_metadata-0"
COMMIT_KEY = b"\0\1\0\1g\0\1t\0\0\0\0"


def large_field(
    *, key: bytes | None = b"k", begins: bytes = b"", fill: bytes = b"x", delta: int = 0
) -> Iterator[bytes]:
    """A record of 240 MB in pieces: its value, or without a key to stand beside it the key; with its first bytes."""
    start, end = b"\0\0" + varint(delta), b"\2v\0"
    if key is not None:
        start, end = start + varint(len(key)) + key, b"\0"
    start += varint(LARGE)
    yield varint(len(start) + LARGE + len(end)) + start
    yield begins + fill * ((1 << 20) - len(begins))
    yield from [fill * (1 << 20)] * (LARGE // (1 << 20) - 1)
    yield end


def large_of(parts: Iterable[bytes], *, count: int = 1, last_delta: int = 0) -> bytes:
    """A batch of these records, in one frame with a window of 128 MB."""
    body = b"".join(in_zstd(parts, 27))
    return batch(0, [], codec=ZSTD, body=body, count=count, last_delta=last_delta, max_timestamp=TIME)


def with_bad_crc(data: bytes) -> bytes:
    """A batch whose CRC is wrong."""
    return data[:17] + bytes([data[17] ^ 1]) + data[18:]


def put_log(directory: Path, data: bytes, base: int = 0) -> Path:
    """Write a log; return its directory."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{base:020}.log").write_bytes(data)
    return directory


@needs_kernels
def test_a_key_of_240_mb_is_counted_under_its_first_bytes(tmp_path: Path) -> None:
    put_log(tmp_path / "log" / "t-0", large_of(large_field(key=None)))
    done = run("du", "--by", "key", "--format", "json", "t-0", cwd=tmp_path / "log")
    row = next(row for row in map(json.loads, done.out.splitlines()) if row["type"] == "usage" and row["name"])
    assert row["name"] == "x" * (1 << 20)
    assert (row["records"], row["keyBytes"], row["valueBytes"]) == (1, LARGE, 1)


@needs_kernels
@pytest.mark.parametrize(
    ("name", "key", "begins", "args"),
    [
        (OFFSETS, COMMIT_KEY, b"\0\1", ("groups",)),
        (OFFSETS, None, b"\0\2", ("groups", "--at", "now")),
        ("__share_group_state-0", b"\0\0\0\1g" + bytes(20), b"\0\0", ("groups",)),
        (TRANSACTIONS, b"\0\0\0\1t", b"\0\0", ("transactions",)),
        (TRANSACTIONS, None, b"\0\0", ("transactions",)),
        (METADATA, b"", b"", ("cluster",)),
        (METADATA, b"", b"", ("verify", "--start", "all")),
        (METADATA, b"", b"", ("du",)),
    ],
    ids=lambda one: "-".join(one) if isinstance(one, tuple) else None,
)
def test_a_state_record_of_240_mb_is_not_decoded_and_said(
    name: str, key: bytes | None, begins: bytes, args: tuple[str, ...], tmp_path: Path
) -> None:
    put_log(tmp_path / "log" / name, large_of(large_field(key=key, begins=begins)))
    (tmp_path / "log" / "meta.properties").write_bytes(b"version=1\ncluster.id=c\nnode.id=1\n")
    done = run(*args, "--format", "json", ".", cwd=tmp_path / "log")
    if args[0] in ("groups", "transactions", "cluster"):
        told = [str(row["message"]) for row in findings(done, "R07")]
        assert sum("more than 16777216 are not decoded" in one for one in told) == 1


@needs_kernels
@pytest.mark.parametrize(
    ("name", "key", "begins", "producer", "row"),
    [
        (OFFSETS, b"\0\1\0\1g\0\1t", b"\0\1" + bytes(7) + b"\7" + bytes(18), (-1, 0, 0), "commit"),
        (OFFSETS, b"\0\1\0\1g\0\1t", b"\0\1" + bytes(7) + b"\7" + bytes(18), (7, 0, 0), "commit"),
        (OFFSETS, b"\0\2\0\4", b"\0\0\0\1c" + bytes(12), (-1, 0, 0), "group"),
        (TRANSACTIONS, b"\0\0\0\4", b"\0\0" + bytes(14) + b"\4" + bytes(20), (-1, 0, 0), "transaction"),
    ],
    ids=["commits", "pending", "groups", "transactions"],
)
def test_large_values_of_a_hundred_live_keys_are_held_as_small_as_they_lie_on_disk(
    name: str, key: bytes, begins: bytes, producer: tuple[int, int, int], row: str, tmp_path: Path
) -> None:
    verb = "transactions" if name == TRANSACTIONS else "groups"
    value = begins + bytes(6 << 20)
    logs = []
    for n in range(200):  # each key twice: known keys go another way
        one = Record(value, key + f"{n % 100:04}".encode())
        logs.append(batch(n, [one], codec=ZSTD, producer=producer, flags=16 * (producer[0] >= 0)))
    put_log(tmp_path / "log" / name, b"".join(logs))
    done = run(verb, "--format", "json", ".", cwd=tmp_path / "log")
    assert sum(found["type"] == row for found in map(json.loads, done.out.splitlines())) == 100


@needs_kernels
def test_the_marker_of_a_transaction_counts_however_large_its_value_is(tmp_path: Path) -> None:
    commit = batch(0, [Record(bytes.fromhex("0003 0000000000000007 ffffffff 0000 0000000000000000"), COMMIT_KEY)],
                   flags=16, producer=(7, 0, 0))  # fmt: skip
    body = b"".join(in_zstd(large_field(key=b"\0\0\0\1", begins=bytes(6)), 27))
    marker = batch(1, [], codec=ZSTD, body=body, count=1, flags=48, producer=(7, 0, -1), max_timestamp=TIME)
    put_log(tmp_path / "log" / OFFSETS, commit + marker)
    done = run("groups", "--format", "json", ".", cwd=tmp_path / "log")
    (row,) = (row for row in map(json.loads, done.out.splitlines()) if row["type"] == "commit")
    assert (row["offset"], row["pending"], row["exact"]) == (7, False, True)


@needs_kernels
def test_copies_of_a_large_batch_are_compared_without_holding_them(tmp_path: Path) -> None:
    old, root = encode(Record(b"old", b"a"), 0), tmp_path / "log"
    large = partial(large_field, delta=1)
    put_log(root / "one" / "t-0", large_of([old, *large()], count=2, last_delta=1))
    put_log(root / "two" / "t-0", large_of(large(), last_delta=1))
    put_log(root / "other" / "t-0", large_of(large(fill=b"y"), last_delta=1))
    done = run("salvage", "--format", "json", "one/t-0", "two/t-0", "--to", "out", cwd=root)
    assert done.status == 0
    (row,) = (row for row in map(json.loads, done.out.splitlines()) if row["type"] == "revived")
    assert (row["key"], row["offset"]) == ("a", 0)
    assert (root / "out" / "t-0" / f"{NAME}.log").read_bytes() == (root / "one" / "t-0" / f"{NAME}.log").read_bytes()
    done = run("salvage", "two/t-0", "other/t-0", "--to", "none", cwd=root)
    assert done.status == 12
    assert b"different batches at offset 0" in done.out + done.err


@needs_kernels
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_doubtful_records_are_written_in_pieces(jobs: str, tmp_path: Path) -> None:
    root, bad = tmp_path / "log", with_bad_crc(large_of(large_field()))
    for number in range(2):
        put_log(root / f"t-{number}", bad)
    run("salvage", "-j", jobs, ".", "--to", "../out", "--doubtful", "../doubtful", cwd=root, keep=False)
    with (tmp_path / "doubtful").open("rb") as file:
        for number in range(2):
            line = file.readline()
            assert line.startswith(b'{"type":"record","file":"./t-%d/' % number)
            assert line.endswith(b'","control":null,"decodedKey":null,"decodedPayload":null,"doubtful":true}\n')
            assert line.count(b"x") >= LARGE
        assert not file.read(1)


@needs_kernels
@pytest.mark.parametrize("args", [("retention", "--pass", "--format", "json"), ("dump", "--fate", "--print-data-log")])
def test_a_large_record_that_is_read_twice_is_never_held(args: tuple[str, ...], tmp_path: Path) -> None:
    root, parts = tmp_path / "log", [encode(Record(b"old", b"a"), 0), *large_field(delta=1)]
    put_log(root / "t-0", large_of(parts, count=2, last_delta=1))
    put_log(root / "t-0", batch(2, [Record(b"new", b"a")]), 2)
    put_log(root / "t-0", batch(3, [b"active"]), 3)
    done = run(*args, "--set", "cleanup.policy=compact", "t-0", cwd=root, keep=args[0] == "retention")
    assert done.status == 0
    if args[0] == "retention":
        (row,) = (row for row in map(json.loads, done.out.splitlines()) if row["type"] == "compaction")
        assert [segment["records"] for segment in row["segments"]] == [[[1, 2]]]


@needs_kernels
def test_a_wrapper_that_a_start_cuts_is_counted_without_holding_it(tmp_path: Path) -> None:
    value = b"".join(in_gzip(large_message(1)))
    body = pack(">bbqii", 1, 1, 0, -1, len(value)) + value
    wrapper = pack(">qiI", 1, len(body) + 4, zlib.crc32(body)) + body
    root = tmp_path / "log"
    put_log(root / "t-0", with_bad_crc(batch(0, [b"bad"])) + wrapper)
    done = run("verify", "--start", "unclean", "--format", "json", "t-0", cwd=root)
    (row,) = (row for row in map(json.loads, done.out.splitlines()) if row["type"] == "prediction")
    assert (row["bytesLost"] > len(wrapper), row["recordsLost"]) == (True, 1)


# --- indexes that lead astray ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["index", "timeindex"])
@pytest.mark.parametrize("zigzag", [False, True])
def test_entries_that_lead_astray_walk_the_log_a_few_times_not_once_each(
    kind: str, zigzag: bool, tmp_path: Path
) -> None:
    batches, entries = 20_000 if COMPILED else 500, 100_000 if COMPILED else 2_000
    one = large_batch(0, [b"\x10\0\0\0\2k\2v\0"])
    size = len(one)
    log = tmp_path / "log" / "t-0" / f"{NAME}.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"".join(pack(">q", offset) + one[8:] for offset in range(batches)))
    places = (batches - 1, batches // 2 if zigzag else batches - 1) if kind == "index" else (0, int(zigzag))
    index = b"".join(pack(">ii", number + 1, places[number % 2] * size) for number in range(entries))
    log.with_suffix(".index").write_bytes(index)
    far = (batches - 1, batches // 2 if zigzag else batches - 1)  # behind what the index says, at one place or two
    times = (far[number % 2] for number in range(entries))
    log.with_suffix(".timeindex").write_bytes(
        b"".join(pack(">qi", number + 1, offset) for number, offset in enumerate(times))
    )
    done = run("dump", "--format", "json", f"t-0/{NAME}.{kind}", cwd=tmp_path / "log", seconds=30)
    if COMPILED and zigzag:
        assert [row["code"] for row in findings(done, "L12")] == ["L12"]


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


def small_batches(count: int, *, bad: bool = False) -> bytes:
    """Batches of one record, each other one with a wrong byte in it where they are bad."""
    one = batch(0, [b"value"])
    other = one[:-1] + bytes([one[-1] ^ bad])
    return b"".join(pack(">q", n) + (other if n % 2 else one)[8:] for n in range(count))


@needs_kernels
@pytest.mark.parametrize("args", [("find-offset",), ("find-offset", "--scan"), ("find-time", "--scan")], ids="-".join)
def test_what_a_lookup_meets_is_not_held(args: tuple[str, ...], tmp_path: Path) -> None:
    put_log(tmp_path / "few" / "t-0", small_batches(100, bad=True))
    put_log(tmp_path / "many" / "t-0", small_batches(50_000, bad=True))
    few, many = (run(*args, "t-0", "5", cwd=tmp_path / name) for name in ("few", "many"))
    assert (few.status, many.status) == (3, 3)
    assert many.memory < few.memory + 24


@needs_kernels
def test_the_way_to_the_end_of_a_log_without_an_index_is_not_held(tmp_path: Path) -> None:
    put_log(tmp_path / "few" / "t-0", small_batches(100))
    put_log(tmp_path / "many" / "t-0", small_batches(100_000))
    few, many = (run("find-offset", "t-0", "latest", cwd=tmp_path / name) for name in ("few", "many"))
    assert (few.status, many.status) == (0, 0)
    assert many.memory < few.memory + 24


@needs_kernels
def test_records_of_replicas_whose_batches_never_end_alike_are_not_held(tmp_path: Path) -> None:
    for name, first in (("one", 400), ("other", 200)):
        bases = [0, *range(first, 400_000, 400), 400_000]
        data = (batch(at, [bytes(1000)] * (end - at), codec=ZSTD) for at, end in pairwise(bases))
        put_log(tmp_path / "log" / name / "t-0", b"".join(data))
    one = run("verify", "one", cwd=tmp_path / "log")
    both = run("verify", "--replicas", "one", "other", cwd=tmp_path / "log")
    assert (both.status, b" D0" in both.out) == (0, False)
    assert both.memory < one.memory + 16


@needs_kernels
def test_offsets_of_a_key_are_held_as_far_as_what_is_shown_can_need_them(tmp_path: Path) -> None:
    one = batch(0, [Record(b"v", b"k")] * 1000, codec=ZSTD)
    for name, count in (("few", 1), ("many", 2000)):
        put_log(tmp_path / name / "t-0", b"".join(pack(">q", 1000 * n) + one[8:] for n in range(count)))
    for asked in ("--limit", "--tail"):
        args = ("dump", "--fate", "--key", "k", asked, "5", "t-0")
        few, many = (run(*args, cwd=tmp_path / name, keep=False) for name in ("few", "many"))
        assert (few.status, many.status) == (0, 0)
        assert many.memory < few.memory + 8


def test_the_rows_of_salvage_are_never_held(tmp_path: Path) -> None:
    root = tmp_path / "log"
    put_log(root / OFFSETS, batch(0, [b"v"]) + batch(2, [b"v"]))
    before = run("groups", ".", cwd=root, keep=False)
    rows = [b'{"type":"kept","partition":"%s","offset":%d}\n' % (OFFSETS.encode(), n) for n in range(500_000)]
    lost = b'{"type":"loss","certainty":"lost","offset":1,"lastOffset":1}\n'
    (root / f"{OFFSETS}.salvage.jsonl").write_bytes(b"".join(rows) + lost + b"[" * (50 << 20))
    done = run("groups", ".", cwd=root, keep=False)
    assert b"lost before salvage made this: offset 1: " in done.err
    assert done.memory < before.memory + 20


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


def test_hundreds_of_thousands_of_files_of_other_names_take_seconds(one_in: OneIn, tmp_path: Path) -> None:
    root = tmp_path / "log"
    (root / "t-0").mkdir(parents=True)
    here = os.open(root / "t-0", os.O_RDONLY)
    try:
        for number in one_in(3, range(300_000)) if COMPILED else range(10_000):
            os.close(os.open(str(number), os.O_CREAT | os.O_WRONLY, dir_fd=here))
    finally:
        os.close(here)
    (root / "t-0" / f"{NAME}.log").write_bytes(b"")
    for args in (("verify", "--start", "all", "."), ("dump", "t-0"), ("truncate", "--to-offset", "0", "t-0")):
        run(*args, cwd=root, keep=False)
    shutil.rmtree(root)


def test_empty_segments_cost_what_segments_cost(one_in: OneIn, tmp_path: Path) -> None:
    """Four times as many take about four times as long: nothing goes through all of them for each one."""
    few = len(one_in(2, range(2_500))) if COMPILED else 250
    spent = list[float]()
    for segments in (few, 4 * few):
        root = tmp_path / str(segments)
        (root / "t-0").mkdir(parents=True)
        for base in range(segments):
            (root / "t-0" / f"{base:020}.log").touch()
        spent.append(run("verify", ".", cwd=root, keep=False).cpu)
    assert spent[1] < 7 * spent[0]


@needs_kernels
@pytest.mark.parametrize("layout", ["parquet", "json", "csv"])
def test_records_of_many_headers_are_exported_a_few_at_a_time(layout: str, tmp_path: Path) -> None:
    """As objects of Python the headers of all records of a batch would be a thousand times what lies on disk."""
    one = Record(b"v", b"k", headers=[(b"", None)] * 10_000)
    for name, count in (("few", 10), ("many", 80)):
        put_log(tmp_path / name / "t-0", batch(0, [one] * count, codec=ZSTD))
    few, many = (
        run("export", "--table", "records", "--format", layout, "--to", f"../{name}-out", ".", cwd=tmp_path / name)
        for name in ("few", "many")
    )
    assert (few.status, many.status) == (0, 0)
    assert many.memory < few.memory + 80
