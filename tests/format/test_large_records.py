"""A record that is too large to be held is checked and shown as any other: here buffers are small, so that many are.

What the large ones cost is in tests/cli/test_bounds.py.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from kdump.cli.main import kdump
from kdump.format.batch import layout
from kdump.format.record import chunk, cut_record, legacy, reader
from kdump.format.record.cut_record import digest, whole_chunk
from kdump.format.record.reader import RecordReader, header_places, key_and_value
from tests.format.test_second_reading import LIMIT, window
from tests.support.runs import FIXTURES
from tests.support.scan_windows import SEGMENTS
from tests.support.segments import (
    CONTROL,
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    Record,
    batch,
    compress,
    framed,
    message,
    varint,
    wrapper,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMMANDS = (
    ("dump", "--print-data-log"),
    ("dump", "--print-data-log", "--format", "json"),
    ("dump", "--deep-iteration"),
    ("dump", "--print-data-log", "--value-format", "hex", "--skip-record-metadata"),
    ("dump", "--stats", "--format", "json"),
    ("verify", "--format", "json"),
)


@contextmanager
def small_buffers(held: int, piece: int, kept: int) -> Iterator[None]:
    """Records over `held` bytes are cut to `kept` bytes a field, and read `piece` bytes at a time."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (reader, legacy):
            patch.setattr(module, "LARGE", held)
            patch.setattr(module, "STREAM_SIZE", held)
        patch.setattr(cut_record, "PIECE", piece)
        begin = RecordReader.__init__

        def cut(one: RecordReader, *args: Any, **options: Any) -> None:
            begin(one, *args, **{**options, "cut": options.get("cut") and kept})

        patch.setattr(RecordReader, "__init__", cut)
        yield


def said(capfdbinary: pytest.CaptureFixture[bytes], *args: str) -> tuple[object, list[bytes], list[bytes]]:
    """Exit status and output of a run in this process: what is patched counts.

    Lines are sorted: a finding comes behind the records that were read with its own.
    """
    with pytest.raises(SystemExit) as end:
        kdump([*args], prog_name="kdump")
    out, err = capfdbinary.readouterr()
    return end.value.code, sorted(out.splitlines()), sorted(err.splitlines())


ODD = (
    Record('\u00e9\U0001f600\u0001"\\'.encode() * 40, key=b"k", headers=((b"", None), (b"a", b"b" * 300))),
    Record(b"\xff\xed\xa0\x80" * 30, key=b"\xc3" * 70, headers=((b"\xe2\x82", b"\xac" * 200),)),
    Record(None, key=b"x" * 500, headers=tuple((b"%d" % i, b"v" * (i % 7)) for i in range(60))),
    Record(b"y" * 90, key=None, headers=((b"h" * 130, None), (b"i" * 140, b"\xc3\xa9" * 90), (b"", b""))),
    Record(b"", key=b""),
)


def logs() -> dict[str, bytes]:
    """Real segments, and records that are odd in every field, in every codec."""
    made = {name: one.data for name, one in SEGMENTS.items()}
    for codec in (NONE, GZIP, SNAPPY, LZ4, ZSTD):
        made[f"odd-{codec}"] = batch(0, list(ODD), codec=codec) + batch(5, [ODD[0]])
        if codec != ZSTD:
            for magic in (0, 1):
                values = [one.value or b"" for one in ODD]
                inner = (
                    wrapper(magic, 0, values, codec=codec) if codec else message(magic, 4, b"v" * 300, key=b"k" * 90)
                )
                made[f"odd-{codec}-magic-{magic}"] = inner + batch(50, [ODD[1]], codec=codec)
    made["control"] = batch(0, [Record(b"v" * 300, key=b"\0\0\0\6" + b"k" * 90)], codec=GZIP, flags=CONTROL)
    return made


LOGS = logs()


@pytest.mark.parametrize("name", LOGS)
def test_what_is_said_of_records_in_pieces_is_what_is_said_of_them_whole(
    name: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = LOGS[name]
    path = tmp_path / "t-0" / f"{SEGMENTS[name].base if name in SEGMENTS else 0:020}.log"
    path.parent.mkdir()
    monkeypatch.chdir(tmp_path)
    places = range(len(data) // 3, len(data), max(1, len(data) // 3))
    for flipped in (None, *places):
        some = bytearray(data)
        if flipped is not None:
            some[flipped] ^= 0x55
        path.write_bytes(some)
        for command in COMMANDS if flipped is None else COMMANDS[1::4]:
            where = "." if command[0] == "verify" else "t-0"
            whole = said(capfdbinary, *command, where)
            for held, piece, kept in ((60, 40, 16), (150, 64, 100)):
                with small_buffers(held, piece, kept):
                    assert said(capfdbinary, *command, where) == whole, (command, flipped)


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_a_record_in_pieces_can_be_had_whole(codec: int) -> None:
    one = window(batch(0, list(ODD), codec=codec))
    expected = [
        (*key_and_value(part.view, row), [part.view[at : at + size] for at, size in places(part.view, row)])
        for part, row in rows(one)
    ]
    with small_buffers(60, 40, 16):
        found, cuts = [], 0
        for part in RecordReader(LIMIT, cut=1000).chunks(one):
            cuts += part.cut is not None
            told = part if part.cut is None else whole_chunk(part)
            for i in range(told.filled):
                row = told.rows[i * layout.RECORD_WIDTH : (i + 1) * layout.RECORD_WIDTH]
                found.append(
                    (*key_and_value(told.view, row), [told.view[at : at + n] for at, n in places(told.view, row)])
                )
            if part.cut is not None:
                assert digest(part.cut) == digest(part.cut)
    assert found == expected
    assert cuts == 4


def rows(one: Any) -> Iterator[tuple[Any, Any]]:
    for part in RecordReader(LIMIT, cut=None).chunks(one):
        for i in range(part.filled):
            yield part, part.rows[i * layout.RECORD_WIDTH : (i + 1) * layout.RECORD_WIDTH]


def places(view: memoryview, row: Any) -> Iterator[tuple[int, int]]:
    """Place and size of keys and values of headers, null as a size below 0."""
    for key_at, key_size, at, size in header_places(view, row):
        yield from ((key_at, key_size), (at, max(0, size)))


MANY = 1_200_000  # headers of two bytes: more than are kept


@pytest.mark.parametrize(
    ("last", "status"),
    [
        (b"\0\1", None),
        (b"\2\xff\1", None),  # a key that is not UTF-8
        (b"\1\1", layout.R_HEADER_KEY),  # a key of size -1
        (b"\0\x08", layout.R_HEADER_VALUE),  # a value that ends behind the record
        (b"\0\xff\xff\xff\xff\xff\1", layout.R_FIELD_VARINT),
        (b"\0\1\0", layout.R_BODY),  # bytes are left over
        (b"\0", layout.R_FIELD_VARINT),
    ],
)
def test_headers_behind_what_is_kept_of_them_are_checked(last: bytes, status: int | None) -> None:
    value = bytes(chunk.LARGE)
    headers = varint(MANY) + b"\0\1" * (MANY - 1) + last
    body = b"\0\0\0\1" + varint(len(value)) + value + headers
    one = window(batch(0, [b""], codec=GZIP, body=compress(GZIP, framed(body))))
    for cut in (None, 1000):
        found = list(RecordReader(LIMIT, cut=cut).chunks(one))
        problem = found[-1].problem
        assert (None if problem is None else problem.status) == status
        assert sum(part.filled for part in found) == (status is None)
        if status is None:
            row = next(part.rows[: layout.RECORD_WIDTH] for part in found if part.filled)
            assert bool(row[layout.R_FLAGS] & layout.ODD_HEADER_KEY) == (b"\xff" in last)


def test_the_fixtures_of_large_records_are_cut() -> None:
    for name in ("06-headers-120M", "06-record-240M"):
        (log,) = (FIXTURES / "hostile" / name).rglob("*.log")
        found = list(RecordReader(1 << 28, cut=1000).chunks(window(log.read_bytes())))
        assert [part.cut is not None for part in found if part.filled] == [True]
