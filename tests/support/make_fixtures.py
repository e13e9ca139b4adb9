#!/usr/bin/env python3
"""Makes the smallest directories that show each finding: `fixtures/<kind>-<code>-<name>/`.

Run by hand, from anywhere, after a change here; `tests/checks/test_verify_fixtures.py` holds what is committed to what
this makes, and what kdump says to `expect.json`. What is expected is written here by hand, never taken from a run.
"""

from __future__ import annotations

import json
import shutil
import struct
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.metadata_records import feature
from tests.support.metadata_records import framed as framed_record
from tests.support.partitions import (
    Files,
    aborted,
    below,
    checkpoint,
    marker,
    meta,
    name,
    offset_index,
    segment,
    snapshot,
    time_index,
    write,
)
from tests.support.segments import (
    CONTROL,
    GZIP,
    LZ4,
    NONE,
    TIME,
    TRANSACTIONAL,
    ZSTD,
    Record,
    batch,
    encode,
    framed,
    message,
    sized,
    varint,
    wrapper,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

Expected = tuple[str, str, str, int | None, int | None]
"""Code, severity, file, position, length."""


class Fixture(NamedTuple):
    """One directory.

    Args:
        what: what is wrong, in words.
        files: its files.
        found: all that verify says.
        options: of `VerifyOptions`.
        paths: what verify is given, below the directory.
        replicas: they are compared.
    """

    what: str
    files: Files
    found: Sequence[Expected]
    options: dict[str, Any] = {}  # noqa: RUF012 (never changed)
    paths: Sequence[str] = (".",)
    replicas: bool = False

    def expect(self) -> bytes:
        """Return the content of `expect.json`."""
        keys = ("code", "severity", "file", "position", "length")
        found = [dict(zip(keys, one, strict=True)) for one in self.found]
        lines = ",\n".join(f"    {json.dumps(one)}" for one in found)
        head = {"what": self.what, "paths": list(self.paths), "replicas": self.replicas, "options": self.options}
        top = "".join(f"  {json.dumps(key)}: {json.dumps(value)},\n" for key, value in head.items())
        return f'{{\n{top}  "findings": [\n{lines}\n  ]\n}}\n'.encode()


EXPECT = "expect.json"
PAIR = (b"a", b"b")
MANY = [batch(first, PAIR) for first in range(0, 24, 2)]
A, B, C, D = MANY[:4]
TWICE = batch(3, (b"x", b"y", b"z"), epoch=1)
SIZE = len(A)  # of each of these
FENCED = framed_record(7, 0, struct.pack(">iq", 1, 1))  # FenceBrokerRecord
LEVEL = feature("metadata.version", 20)
LOG, INDEX, TIMEINDEX, TXNINDEX = (name(0, suffix) for suffix in ("log", "index", "timeindex", "txnindex"))
NEXT = 6  # base offset of the segment after A, B, C
EPOCHS = "leader-epoch-checkpoint"
EPOCH_0 = checkpoint((0, 0))


def partition(*parts: bytes, log: bytes | None = None, epochs: bytes | None = EPOCH_0, **extra: bytes) -> Files:
    """A partition of one segment; its log may be another than its indexes say."""
    files = segment(0, parts)
    if log is not None:
        files[LOG] = log
    if epochs is not None:
        files[EPOCHS] = epochs
    return {**files, **{name(0, suffix): data for suffix, data in extra.items()}}


def topic_id(letter: str) -> Files:
    """The partition.metadata of a topic."""
    return {"partition.metadata": f"version: 0\ntopic_id: {21 * letter}A\n".encode()}


def followed(files: Files, base: int = NEXT) -> Files:
    """The same with one more segment, so that the first is not the one that is written to."""
    return {**files, **segment(base, [batch(base, PAIR)])}


def second(*extra: Expected, code: str, severity: str = "error", length: int = SIZE) -> list[Expected]:
    """A finding about the batch B, and others."""
    return [(code, severity, LOG, SIZE, length), *extra]


def put(data: bytes, at: int, new: bytes) -> bytes:
    """Overwrite some bytes."""
    return data[:at] + new + data[at + len(new) :]


def int32(number: int) -> bytes:
    return struct.pack(">i", number)


# --- files and directories ----------------------------------------------------------------------------------
INTACT = partition(A, B, C)
FOREIGN = bytes((7 * i * i + 31 * i + 130) % 251 | 0x80 for i in range(40))  # no number in it makes sense

FIXTURES: dict[str, Fixture] = {
    "directory-f01-odd-name": Fixture(
        "a copy of the log under a name with one more dot",
        {**INTACT, "00000000000000000000.x.log": A},
        [("F01", "error", "00000000000000000000.x.log", None, None)],
    ),
    "log-f02-empty": Fixture(
        "the last log has no batch",
        {**INTACT, **segment(NEXT, [])},
        [("F02", "note", name(NEXT), None, None)],
    ),
    "directory-f08-leftover": Fixture(
        "a deleted log is still there",
        {**INTACT, f"{LOG}.deleted": A},
        [("F08", "note", f"{LOG}.deleted", None, None)],
    ),
    "index-f09-missing": Fixture(
        "a segment lacks its offset index",
        followed({path: data for path, data in INTACT.items() if path != INDEX}),
        [("F09", "warning", INDEX, None, None)],
    ),
    "log-f10-not-a-log": Fixture(
        "the log was compressed",
        partition(log=b"\x1f\x8b\x08\0\0\0\0\0\0\x03" + FOREIGN + FOREIGN),
        [("F10", "error", LOG, 0, 10 + 2 * len(FOREIGN))],
    ),
    "directory-f11-odd-directory": Fixture(
        "a directory in the log directory is none of a partition",
        {**below("plain-0", INTACT), "lost+found/inode": b"lost\n"},
        [("F11", "error", "lost+found", None, None)],
    ),
    "directory-f12-duplicate": Fixture(
        "two log directories of one broker have the same partition",
        {
            **{f"{one}/meta.properties": meta(1) for one in ("first", "second")},
            **below("first/plain-0", {**INTACT, **topic_id("C")}),
            **below("second/plain-0", {**INTACT, **topic_id("C")}),
        },
        [("F12", "error", "second/plain-0", None, None)],
        paths=("first", "second"),
    ),
    "directory-f16-awaiting-deletion": Fixture(
        "the first segment is about to be deleted, and no other file has its records",
        {**segment(NEXT, [batch(NEXT, PAIR)]), f"{LOG}.deleted": A + B, EPOCHS: checkpoint((0, NEXT))},
        [
            ("F16", "note", f"{LOG}.deleted", None, None),
            ("L15", "note", name(NEXT), None, None),
        ],
    ),
    "directory-f17-compressed-copy": Fixture(
        "somebody has compressed a log beside the one that is there",
        {**INTACT, f"{name(90)}.gz": b"\x1f\x8b\x08\0"},
        [("F17", "note", f"{name(90)}.gz", None, None)],
    ),
    "directory-f18-other-format": Fixture(
        "a segment of Redpanda was copied beside those of Kafka",
        {**INTACT, "0-1-v1.log": b"\x1b\x2c\x3d\x4e\x46\0\0\0"},
        [("F18", "note", "0-1-v1.log", None, None)],
    ),
    "directory-f19-harmful-swap": Fixture(
        "what waits to be put in the place of a sound log has a batch with a wrong CRC",
        {**INTACT, f"{LOG}.swap": A + B + C[:-1] + b"X", **{f"{one}.swap": INTACT[one] for one in (INDEX, TIMEINDEX)}},
        [
            ("F19", "error", f"{LOG}.swap", None, None),
            ("F08", "warning", f"{INDEX}.swap", None, None),
            ("F08", "warning", f"{TIMEINDEX}.swap", None, None),
            ("B01", "error", f"{LOG}.swap", 2 * SIZE, SIZE),
            ("F08", "note", LOG, None, None),
        ],
    ),
    "directory-k09-topic-id-differs": Fixture(
        "a partition is that of an older topic of the same name",
        {
            "meta.properties": meta(1),
            **below("plain-0", {**INTACT, **topic_id("C")}),
            **below("plain-1", {**INTACT, **topic_id("D")}),
            **below("plain-2", {**INTACT, **topic_id("C")}),
        },
        [("K09", "warning", "plain-1/partition.metadata", None, None)],
    ),
    "directory-k11-brokers-differ": Fixture(
        "two log directories are of two brokers of one cluster",
        {
            **{f"{one}/meta.properties": meta(node) for node, one in enumerate(("first", "second"), 1)},
            **below("first/plain-0", {**INTACT, **topic_id("C")}),
            **below("second/plain-1", {**INTACT, **topic_id("C")}),
        },
        [("K11", "note", "second/meta.properties", None, None)],
        paths=("first", "second"),
    ),
    "directory-k10-clusters-differ": Fixture(
        "two log directories are of two clusters",
        {
            **{f"{one}/meta.properties": meta(1, one) for one in ("first", "second")},
            **below("first/plain-0", {**INTACT, **topic_id("C")}),
            **below("second/plain-0", {**INTACT, **topic_id("C")}),
        },
        [("K10", "warning", "second/meta.properties", None, None)],
        paths=("first", "second"),
    ),
}

# --- framing ------------------------------------------------------------------------------------------------
ABC = A + B + C
END = len(ABC)


def framing(what: str, code: str, log: bytes, position: int, length: int) -> Fixture:
    """A log with one gap, or one wrong length."""
    return Fixture(what, partition(A, B, C, log=log), [(code, "error", LOG, position, length)])


def with_length(length: int) -> bytes:
    """The log with another length in B."""
    return put(ABC, SIZE + 8, int32(length))


FIXTURES |= {
    "log-l01-short-tail": framing("ten bytes of a batch follow", "L01", ABC + D[:10], END, 10),
    "log-l02-torn-batch": framing("half a batch follows", "L02", ABC + D[: SIZE // 2], END, SIZE // 2),
    "log-l03-zero-tail": framing("zero bytes follow", "L03", ABC + bytes(100), END, 100),
    "log-l04-zero-hole": framing("zero bytes stand between two batches", "L04", A + bytes(100) + B + C, SIZE, 100),
    "log-l05-bad-length": framing("the length of a batch is 0", "L05", with_length(0), SIZE, SIZE),
    "log-l06-short-length": framing("the length of a batch is 14", "L06", with_length(14), SIZE, SIZE),
    "log-l07-wrong-length": framing("the length of a batch is 8 too large", "L07", with_length(SIZE - 4), SIZE, SIZE),
    "log-l08-huge-length": framing("the length of a batch is 2147483647", "L08", with_length(2**31 - 1), SIZE, SIZE),
    "log-l09-foreign-bytes": framing(
        "foreign bytes stand between two batches", "L09", A + FOREIGN + B + C, SIZE, len(FOREIGN)
    ),
    "log-l12-limit": Fixture(
        "a batch is larger than the limit",
        partition(A, batch(2, [bytes(1200), b"b"]), C),
        second(code="L12", severity="warning", length=len(batch(2, [bytes(1200), b"b"]))),
        options={"max_batch_bytes": 1024},
    ),
}


# --- batch header -------------------------------------------------------------------------------------------
def header(what: str, code: str, one: bytes, severity: str = "error", *extra: Expected) -> Fixture:
    """A log whose second batch is another."""
    log = A + one + C
    return Fixture(what, partition(A, B, C, log=log), second(*extra, code=code, severity=severity, length=len(one)))


OLD = [message(1, offset, b"value") for offset in range(3)]

FIXTURES |= {
    "batch-b01-crc-mismatch": header("a bit of a value has flipped", "B01", put(B, SIZE - 2, b"c")),
    "batch-b02-crc-mismatch-legacy": Fixture(
        "a bit of a value has flipped in a message of magic 1",
        {
            LOG: OLD[0] + put(OLD[1], len(OLD[1]) - 1, b"d") + OLD[2],
            INDEX: b"",
            TIMEINDEX: time_index(0, (TIME, 0)),
        },
        [("B02", "error", LOG, len(OLD[0]), len(OLD[1]))],
    ),
    "batch-b03-magic-unknown": header("the magic is 3", "B03", put(B, 16, b"\x03")),
    "batch-b04-magic-wrong": header("the magic is 0", "B04", put(B, 16, b"\0")),
    "batch-b05-codec-unknown": header("the codec is 5", "B05", batch(2, PAIR, codec=5)),
    "batch-b06-attributes-reserved": header("bit 9 of the attributes", "B06", batch(2, PAIR, flags=0x200), "warning"),
    "batch-b07-last-offset-delta": Fixture(
        "the last offset is below the first: each record is beyond it, and the batch ends before it begins",
        partition(A, B, C, log=A + batch(2, PAIR, last_delta=-1) + C),
        second(
            ("R06", "error", LOG, SIZE, SIZE),
            ("R06", "error", LOG, SIZE, SIZE),
            ("L19", "warning", LOG, 2 * SIZE, 0),
            ("O04", "note", LOG, 2 * SIZE, 0),
            code="B07",
        ),
    ),
    "batch-b08-record-count": header("the count is one too many", "B08", batch(2, PAIR, count=3)),
    "batch-b09-count-zero": header("the count is 0, but there are records", "B09", batch(2, PAIR, count=0)),
    "batch-b10-timestamp": header(
        "the largest timestamp is below that of the records", "B10", batch(2, PAIR, max_timestamp=TIME - 1), "warning"
    ),
    "batch-b11-flags": header("a batch of data is marked as control batch", "B11", batch(2, PAIR, flags=CONTROL)),
}

# --- offsets and epochs -------------------------------------------------------------------------------------
FAR = batch(2**31 + 2, PAIR)
OVERFLOW = [batch(2**31 + 100 + at, (b"a", None)) for at in (0, 2, 5)]
OVERFLOW_END = 2**31 + 107
FALLEN = [batch(first, PAIR, epoch=epoch) for first, epoch in ((0, 1), (2, 0), (4, 1))]

FIXTURES |= {
    "log-o01-offset-below-name": Fixture(
        "the log of offset 0 has the name of offset 2, and no other file tells which is right",
        {**segment(2, [B]), name(2): A + B},
        [("O01", "error", name(2), 0, SIZE), ("K04", "note", EPOCHS, None, None)],
    ),
    "log-o02-offset-overflow": Fixture(
        "the last offset is 2147483648 too high",
        partition(A, B, log=A + FAR),
        second(code="O02"),
    ),
    "log-o03-offset-order": Fixture(
        "a batch stands there twice",
        partition(A, B, C, log=A + A + B + C),
        second(("O08", "error", LOG, SIZE, SIZE), code="O03"),
    ),
    "log-o04-offset-gap": Fixture(
        "a batch is missing",
        partition(A, C),
        [("L19", "warning", LOG, SIZE, 0), ("O04", "note", LOG, SIZE, 0)],
    ),
    "log-l19-hole-alone": Fixture(
        "two batches are missing, and nothing tells why",
        partition(A, batch(6, (b"seven", b"eight"))),
        [("L19", "warning", LOG, SIZE, 0), ("O04", "note", LOG, SIZE, 0)],
    ),
    "log-l17-hole-unexplained": Fixture(
        "batches are missing at two places",
        partition(A, C, batch(8, (b"nine", b"ten"))),
        [
            ("L17", "note", LOG, SIZE, 0),
            ("O04", "note", LOG, SIZE, 0),
            ("O04", "note", LOG, 2 * SIZE, 0),
        ],
    ),
    "log-o06-offset-overlap": Fixture(
        "the first batch of the next segment stands at the end of this one too",
        {**partition(A, B, C), **segment(4, [C])},
        [("O06", "error", LOG, END, 0)],
    ),
    "log-o08-offsets-twice": Fixture(
        "a leader of a new epoch begins below the end, and goes on above it",
        {
            **partition(A, B, log=A + B + TWICE),
            **segment(NEXT, [batch(NEXT, PAIR, epoch=1)]),
            EPOCHS: checkpoint((0, 0), (1, 3)),
        },
        [
            ("O03", "error", LOG, 2 * SIZE, len(TWICE)),
            ("O08", "error", LOG, 2 * SIZE, len(TWICE)),
        ],
    ),
    "log-o07-segment-gap": Fixture(
        "the last batch before the next segment is missing",
        followed(partition(A, B)),
        [("L19", "warning", LOG, 2 * SIZE, 0), ("O07", "note", LOG, 2 * SIZE, 0)],
    ),
    "log-o09-segment-overflow": Fixture(
        "a compacted segment goes more than 2^31 above its base, and the next one continues it",
        {
            **partition(A, B, log=A + B + b"".join(OVERFLOW)),
            **segment(OVERFLOW_END, [batch(OVERFLOW_END, PAIR)]),
            EPOCHS: EPOCH_0,
        },
        [
            ("O09", "note", LOG, 2 * SIZE, 0),
            ("L17", "note", LOG, 2 * SIZE, 0),
            ("O04", "note", LOG, 2 * SIZE, 0),
            ("O04", "note", LOG, 4 * SIZE - 2, 0),
        ],
    ),
    "batch-e01-epoch-order": Fixture(
        "the leader epoch of one batch is below its neighbours",
        partition(*FALLEN, epochs=checkpoint((1, 0))),
        second(("E03", "error", LOG, SIZE, SIZE), code="E01"),
    ),
    "batch-e02-epoch-invalid": Fixture(
        "the leader epoch of one batch is -7",
        partition(A, put(B, 12, int32(-7)), C),
        second(("E03", "error", LOG, SIZE, SIZE), code="E02"),
    ),
    "batch-e03-epoch-checkpoint": Fixture(
        "the checkpoint begins an epoch that no batch has",
        partition(A, B, C, epochs=checkpoint((0, 0), (1, 2))),
        second(code="E03"),
    ),
}


# --- records ------------------------------------------------------------------------------------------------
FIRST = encode(Record(b"a"), 0)


def body_of(*, key: bytes = b"\x06key", headers: bytes = varint(0), more: bytes = b"") -> bytes:
    """A record of offset delta 1 without its length: key and headers as they are written."""
    return b"\0" + varint(0) + varint(1) + key + sized(b"b") + headers + more


def records(what: str, code: str, *rest: bytes, severity: str = "error") -> Fixture:
    """A batch of a good record and of these bytes."""
    body = FIRST + b"".join(rest)
    return header(what, code, batch(2, PAIR, body=body), severity)


BAD_KEY = varint(1) + sized(b"\xff") + sized(b"v")

FIXTURES |= {
    "record-r01-varint": records("the length of a record has six bytes", "R01", b"\x80" * 5 + b"\x01", body_of()),
    "record-r02-record-length": records("the length of a record is negative", "R02", framed(body_of(), -3)),
    "record-r03-record-body": records("three bytes too many in a record", "R03", framed(body_of(more=bytes(3)))),
    "record-r04-field-length": records("a key reaches past the end", "R04", framed(body_of(key=varint(500) + b"key"))),
    "record-r05-header-text": records(
        "a header key is not UTF-8", "R05", framed(body_of(headers=BAD_KEY)), severity="note"
    ),
    "record-r06-offset-delta": header(
        "two records have one offset", "R06", batch(2, [Record(b"a", delta=1), Record(b"b", delta=1)])
    ),
}


# --- compression --------------------------------------------------------------------------------------------
def gzip_stored(data: bytes, *, crc: int | None = None, size: int | None = None) -> bytes:
    """A gzip stream with the data as it is, so that no release of a library makes another."""
    stored = b"\x01" + struct.pack("<HH", len(data), len(data) ^ 0xFFFF) + data
    trailer = struct.pack("<II", zlib.crc32(data) if crc is None else crc, len(data) if size is None else size)
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + stored + trailer


def lz4_stored(data: bytes, checksum: int) -> bytes:
    """A frame of lz4 with the data as it is, and a content checksum."""
    return (
        b"\x04\x22\x4d\x18\x64\x40\xa7"
        + struct.pack("<I", len(data) | 1 << 31)
        + data
        + struct.pack("<II", 0, checksum)
    )


PLAIN = encode(Record(b"a"), 0) + encode(Record(b"b"), 1)


def codec(what: str, code: str, stream: bytes, kind: int = GZIP, severity: str = "error") -> Fixture:
    """A batch with this stream."""
    return header(what, code, batch(2, PAIR, codec=kind, body=stream), severity)


FIXTURES |= {
    "record-c01-codec-data": codec("the CRC of a gzip stream is wrong", "C01", gzip_stored(PLAIN, crc=1)),
    "record-c02-codec-ends": codec("a gzip stream ends early", "C02", gzip_stored(PLAIN)[:-12]),
    "record-c03-codec-limit": codec(
        "the records of a batch are larger than the limit", "C03", gzip_stored(PLAIN), severity="warning"
    )._replace(options={"max_uncompressed_bytes": 16}),
    "record-c04-codec-lies": codec("a gzip stream tells another size", "C04", gzip_stored(PLAIN, size=7)),
    "record-c05-codec-other": codec("gzip data in a batch without compression", "C05", gzip_stored(PLAIN), NONE),
    "record-c06-codec-checksum": codec(
        "the content checksum of an lz4 frame is wrong", "C06", lz4_stored(PLAIN, 1), LZ4, "warning"
    ),
    "record-c07-codec-nesting": Fixture(
        "a message of magic 1 is marked zstd",
        {
            LOG: OLD[0] + wrapper(1, 1, stream=b"stream", wrapper_offset=1, codec=ZSTD),
            INDEX: b"",
            TIMEINDEX: time_index(0, (TIME, 0)),
        },
        [("C07", "error", LOG, len(OLD[0]), len(wrapper(1, 1, stream=b"stream", codec=ZSTD)))],
    ),
}

# --- producers ----------------------------------------------------------------------------------------------
ID = 7


def written(first: int, sequence: int, *, epoch: int = 0, flags: int = 0) -> bytes:
    """Two records of the producer."""
    return batch(first, PAIR, producer=(ID, epoch, sequence), flags=flags)


OPEN = written(0, 0, flags=TRANSACTIONAL)
BAD_MARKER = marker(2, (ID, 0), commit=True, key=b"\0\0")

FIXTURES |= {
    "batch-p01-sequence": Fixture(
        "the sequence of a producer jumps",
        partition(written(0, 0), written(2, 5)),
        second(code="P01", severity="warning"),
    ),
    "batch-p02-producer-epoch": Fixture(
        "the epoch of a producer falls",
        partition(written(0, 0, epoch=1), written(2, 0)),
        second(code="P02", severity="warning"),
    ),
    "record-p03-control-record": Fixture(
        "the key of an end marker has two bytes",
        partition(OPEN, BAD_MARKER),
        [("P03", "error", LOG, SIZE, len(BAD_MARKER)), ("P04", "note", LOG, None, None)],
    ),
    "log-p04-open-transaction": Fixture("a transaction is open", partition(OPEN), [("P04", "note", LOG, None, None)]),
}


# --- indexes ------------------------------------------------------------------------------------------------
def index(what: str, code: str, *found: tuple[str, int, int], data: bytes, suffix: str = "index") -> Fixture:
    """A partition with this index; what is found has severity, position, length."""
    files = followed(partition(A, B, C, **{suffix: data}))
    return Fixture(what, files, [(code, severity, name(0, suffix), at, length) for severity, at, length in found])


def times(*entries: tuple[int, int]) -> bytes:
    """A time index of ms after the start, and offsets."""
    return time_index(0, *((TIME + ms, offset) for ms, offset in entries))


LATER = [batch(first, PAIR, base_timestamp=TIME + 10 * first) for first in (0, 2, 4)]  # ms 0, 20, 40
WIDE = batch(4, (b"a", b"b", b"c"))


def time(what: str, code: str, data: bytes, *found: tuple[str, int, int]) -> Fixture:
    """A partition of three timestamps with this time index."""
    files = followed(partition(*LATER, timeindex=data))
    return Fixture(what, files, [(code, severity, TIMEINDEX, at, length) for severity, at, length in found])


FOREIGN_INDEXES = {INDEX: offset_index(0, (4, SIZE + 9), (9, 3 * SIZE + 5)), TIMEINDEX: time_index(0, (TIME - 5, 9))}

FIXTURES |= {
    "index-x01-size": index(
        "half an entry follows", "X01", ("error", 8, 4), data=offset_index(0, (3, SIZE)) + int32(5)
    ),
    "index-x02-zeros": index(
        "entries at the end are zero", "X02", ("warning", 8, 24), data=offset_index(0, (3, SIZE)) + bytes(24)
    ),
    "index-x03-order": index(
        "two entries are swapped", "X03", ("error", 8, 8), data=offset_index(0, (5, 2 * SIZE), (3, SIZE))
    ),
    "index-x04-position": index(
        "an entry points into a batch", "X04", ("error", 0, 8), data=offset_index(0, (3, SIZE + 7))
    ),
    "index-x05-unsound": index(
        "an entry points to the batch after its own", "X05", ("error", 0, 8), data=offset_index(0, (3, 2 * SIZE))
    ),
    "index-x06-entry": Fixture(
        "an entry has an offset in the middle of its batch",
        followed({**partition(A, B, WIDE), INDEX: offset_index(0, (5, 2 * SIZE))}, 7),
        [("X06", "note", INDEX, 0, 8)],
    ),
    "index-x07-too-long": index(
        "the last entry is for an offset of the next segment",
        "X07",
        ("error", 8, 8),
        data=offset_index(0, (3, SIZE), (9, END)),
    ),
    "index-x08-short": Fixture(
        "entries were dense, and end early",
        followed({**partition(*MANY), INDEX: offset_index(0, (3, SIZE))}, 2 * len(MANY)),
        [("X08", "note", INDEX, 8, 0)],
    ),
    "index-x09-foreign": Fixture(
        "the indexes are those of another segment",
        followed({**partition(*MANY), **FOREIGN_INDEXES}, 2 * len(MANY)),
        [
            ("X09", "error", INDEX, None, None),
            ("X04", "error", INDEX, 0, 8),
            ("X04", "error", INDEX, 8, 8),
            ("T04", "error", TIMEINDEX, 0, 12),
            ("X08", "note", INDEX, 16, 0),
            ("T05", "warning", TIMEINDEX, 0, 12),
        ],
    ),
    "timeindex-t01-size": time("half an entry follows", "T01", times((40, 5)) + int32(5), ("error", 12, 4)),
    "timeindex-t02-zeros": time("the last entry is zero", "T02", times((40, 5)) + bytes(12), ("error", 12, 12)),
    "timeindex-t03-order": time("a timestamp falls", "T03", times((40, 5), (20, 5)), ("error", 12, 12)),
    "timeindex-t04-entry": time("a timestamp is 1 ms too low", "T04", times((19, 3), (40, 5)), ("error", 0, 12)),
    "timeindex-t05-short": time("the last entry is missing", "T05", times((20, 3)), ("warning", 0, 12)),
}

# --- transactions -------------------------------------------------------------------------------------------
ABORTED = [OPEN, marker(2, (ID, 0), commit=False)]
RIGHT = aborted(ID, 0, 2, 3)
ENTRY = len(RIGHT)


def txnindex(what: str, code: str, data: bytes | None, position: int = 0, length: int = ENTRY) -> Fixture:
    """A partition with one aborted transaction, and this index of it."""
    files = partition(*ABORTED)
    if data is not None:
        files[TXNINDEX] = data
    return Fixture(what, files, [(code, "error", TXNINDEX, position, length)])


FIXTURES |= {
    "txnindex-a01-size": txnindex("part of an entry follows", "A01", RIGHT + RIGHT[:20], ENTRY, 20),
    "txnindex-a02-version": txnindex("the version of an entry is 1", "A02", aborted(ID, 0, 2, 3, version=1)),
    "txnindex-a03-entry": txnindex("a transaction ends before it begins", "A03", aborted(ID, 3, 2, 3)),
    "txnindex-a04-missing": txnindex("the index is missing", "A04", None, length=0),
    "txnindex-a05-extra": Fixture(
        "an entry is about a transaction that was committed",
        partition(OPEN, marker(2, (ID, 0), commit=True), txnindex=RIGHT),
        [("A05", "error", TXNINDEX, 0, ENTRY)],
    ),
    "txnindex-a07-marker-missing": Fixture(
        "the marker that an entry tells of was cut out of the log",
        partition(OPEN, batch(3, (b"four", b"five")), txnindex=RIGHT),
        [
            ("O04", "error", LOG, len(OPEN), 0),
            ("A07", "error", TXNINDEX, 0, ENTRY),
            ("P04", "note", LOG, None, None),
        ],
    ),
    "txnindex-a08-end-missing": Fixture(
        "the COMMIT before the transaction of an entry is lost, in one of two holes",
        partition(
            OPEN,
            written(3, 2, flags=TRANSACTIONAL),
            marker(5, (ID, 0), commit=False),
            batch(8, PAIR),
            txnindex=aborted(ID, 3, 5, 6),
        ),
        [
            ("A08", "error", TXNINDEX, 0, ENTRY),
            ("L17", "note", LOG, len(OPEN), 0),
            ("O04", "note", LOG, len(OPEN), 0),
            ("O04", "note", LOG, 244, 0),
        ],
    ),
    "txnindex-a06-differs": txnindex("the last stable offset is too low", "A06", aborted(ID, 0, 2, 1)),
}

# --- state files --------------------------------------------------------------------------------------------
STATE = (ID, 0, 1, 1, 1, TIME, -1, -1)
LINES = [batch(first, (b"one\ntwo", b"three\n")) for first in (0, 2, 4)]
AS_TEXT = b"".join(LINES).replace(b"\n", b"\r\n")
TEXT = len(AS_TEXT) // len(LINES)
WROTE = [written(0, 0), B, C]
RECOVERY, START = "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"
WATERMARK, CLEANER = "replication-offset-checkpoint", "cleaner-offset-checkpoint"


def state(
    what: str, code: str, severity: str, offset: int, data: bytes, place: tuple[int | None, int | None]
) -> Fixture:
    """A partition with this snapshot."""
    path = name(offset, "snapshot")
    return Fixture(what, {**followed(partition(*WROTE)), path: data}, [(code, severity, path, *place)])


def log_dir(what: str, *found: Expected, path: str, data: bytes) -> Fixture:
    """A log directory with this checkpoint."""
    return Fixture(what, {**below("plain-0", INTACT), path: data}, found)


FIXTURES |= {
    "snapshot-s01-crc": state(
        "a byte of a snapshot has changed", "S01", "warning", NEXT, put(snapshot(STATE), 20, b"\1"), (0, 56)
    ),
    "snapshot-s02-ahead": Fixture(
        "a snapshot is for an offset after the end of a log that a broker has closed there",
        {
            **below("plain-0", {**partition(*WROTE), name(99, "snapshot"): snapshot(STATE)}),
            ".kafka_cleanshutdown": b"",
            RECOVERY: checkpoint(("plain", 0, NEXT)),
        },
        [("S02", "warning", f"plain-0/{name(99, 'snapshot')}", None, None)],
    ),
    "log-f13-text-mode": Fixture(
        "the log was copied as text",
        partition(*LINES, log=AS_TEXT),
        [("F13", "error", LOG, None, None), *[("L09", "error", LOG, at, TEXT) for at in (0, TEXT, 2 * TEXT)]],
    ),
    "log-f14-stale-copy": Fixture(
        "the log is an older copy than its indexes",
        {**partition(A, B, C, log=A + B), INDEX: offset_index(0, (3, SIZE), (5, 2 * SIZE))},
        [
            ("F14", "error", LOG, 2 * SIZE, 0),
            ("O07", "error", LOG, 2 * SIZE, 0),
            ("X07", "error", INDEX, 8, 8),
        ],
    ),
    "log-f15-segment-foreign": Fixture(
        "the epochs of a segment are not those of the partition",
        {
            **segment(0, [batch(first, PAIR, epoch=3) for first in (0, 2, 4)]),
            **segment(NEXT, [batch(NEXT, PAIR, epoch=1)]),
            EPOCHS: checkpoint((0, 0), (1, NEXT)),
        },
        [("F15", "error", LOG, None, None), ("E03", "error", LOG, 0, SIZE)],
    ),
    "snapshot-s03-state": state(
        "a snapshot has another last sequence",
        "S03",
        "warning",
        NEXT,
        snapshot((ID, 0, 4, 1, 1, TIME, -1, -1)),
        (None, None),
    ),
    "snapshot-s04-name": Fixture(
        "a snapshot has a name without an offset",
        {**INTACT, "x.snapshot": snapshot()},
        [("S04", "error", "x.snapshot", None, None)],
    ),
    "checkpoint-k01-ahead": log_dir(
        "the recovery point is above the end of the log",
        ("K08", "note", f"plain-0/{EPOCHS}", None, None),
        ("K01", "warning", RECOVERY, None, None),
        path=RECOVERY,
        data=checkpoint(("plain", 0, 99)),
    ),
    "checkpoint-k07-recovery-point": log_dir(
        "the recovery point is negative",
        ("K07", "warning", RECOVERY, None, None),
        path=RECOVERY,
        data=checkpoint(("plain", 0, -5)),
    ),
    "checkpoint-k08-end-cut": Fixture(
        "the high watermark is above the end of a log that was truncated",
        {**below("plain-0", INTACT), WATERMARK: checkpoint(("plain", 0, 99))},
        [
            ("K08", "note", f"plain-0/{EPOCHS}", None, None),
            ("K01", "warning", WATERMARK, None, None),
        ],
    ),
    "log-l14-start-moved": Fixture(
        "records were deleted up to the middle of a segment",
        {**below("plain-0", INTACT), START: checkpoint(("plain", 0, 2))},
        [("L14", "note", f"plain-0/{LOG}", None, None)],
    ),
    "log-l15-start-expired": Fixture(
        "the first segment has expired",
        {**segment(NEXT, [batch(NEXT, PAIR)]), EPOCHS: checkpoint((0, NEXT))},
        [("L15", "note", name(NEXT), None, None)],
    ),
    "log-l18-snapshot-missing": Fixture(
        "the metadata log begins above 0, and the snapshot of what was below is not here",
        {
            **below("__cluster_metadata-0", segment(NEXT, [batch(NEXT, PAIR)])),
            f"__cluster_metadata-0/{EPOCHS}": checkpoint((0, NEXT)),
        },
        [("L18", "error", f"__cluster_metadata-0/{name(NEXT)}", None, None)],
    ),
    "batch-b12-time-unit": Fixture(
        "a producer gives seconds in place of milliseconds",
        {**segment(0, [batch(0, PAIR, base_timestamp=TIME // 1000)]), EPOCHS: checkpoint((0, 0))},
        [("B12", "note", LOG, 0, len(batch(0, PAIR, base_timestamp=TIME // 1000)))],
    ),
    "log-l20-snapshot-unusable": Fixture(
        "the newest snapshot of the metadata log is empty, as after a power loss",
        {
            **below("__cluster_metadata-0", segment(0, [batch(at, [LEVEL]) for at in range(6)])),
            f"__cluster_metadata-0/{EPOCHS}": checkpoint((0, 0)),
            f"__cluster_metadata-0/{4:020}-{0:010}.checkpoint": b"",
        },
        [("L20", "error", f"__cluster_metadata-0/{4:020}-{0:010}.checkpoint", 0, 0)],
    ),
    "log-l21-record-refused": Fixture(
        "a record of the metadata log fences a broker that is not registered",
        {
            **below("__cluster_metadata-0", segment(0, [batch(0, [LEVEL]), batch(1, [FENCED])])),
            f"__cluster_metadata-0/{EPOCHS}": checkpoint((0, 0)),
        },
        [("L21", "error", f"__cluster_metadata-0/{LOG}", len(batch(0, [LEVEL])), 84)],
    ),
    "log-l16-compacted": Fixture(
        "the log was compacted",
        {**below("plain-0", partition(A, C)), CLEANER: checkpoint(("plain", 0, 6))},
        [
            ("O04", "note", f"plain-0/{LOG}", SIZE, 0),
            ("L16", "note", f"plain-0/{LOG}", None, None),
        ],
    ),
    "checkpoint-k02-start-ahead": log_dir(
        "the log start offset is above the end of the log",
        ("K02", "error", START, None, None),
        path=START,
        data=checkpoint(("plain", 0, 99)),
    ),
    "checkpoint-k03-malformed": log_dir(
        "the recovery point is no number",
        ("K03", "error", RECOVERY, 4, 11),
        path=RECOVERY,
        data=checkpoint(("plain", 0, "six")),
    ),
    "checkpoint-k04-epochs": Fixture(
        "an epoch is no number",
        partition(A, B, C, epochs=checkpoint(("one", 0))),
        [("K04", "error", EPOCHS, 4, 5)],
    ),
    "checkpoint-k05-partition-metadata": Fixture(
        "the id of the topic is none",
        {**INTACT, "partition.metadata": b"version: 0\ntopic_id: none\n"},
        [("K05", "error", "partition.metadata", 11, 14)],
    ),
}

# --- replicas -----------------------------------------------------------------------------------------------
SECOND = f"second/plain-0/{LOG}"


def replicas(what: str, second: Files, *found: Expected) -> Fixture:
    """Two replicas of a partition, the first one whole."""
    both = {**below("first/plain-0", INTACT), **below("second/plain-0", second)}
    return Fixture(what, both, found, paths=("first", "second"), replicas=True)


FIXTURES |= {
    "replica-d01-differs": replicas(
        "a record has another value",
        partition(A, batch(2, (b"a", b"x")), C),
        ("D01", "error", SECOND, SIZE, SIZE),
    ),
    "replica-d02-lacks": replicas(
        "a batch is missing in one of them",
        partition(A, C),
        ("O04", "error", SECOND, SIZE, 0),
        ("D02", "warning", SECOND, SIZE, 0),
    ),
    "replica-d03-short": replicas(
        "one of them ends earlier",
        partition(A, B),
        ("D03", "note", "second/plain-0", None, None),
    ),
}


def files(fixture: Fixture) -> Files:
    """All files of a fixture."""
    return {**fixture.files, EXPECT: fixture.expect()}


def main() -> int:
    """Make them all anew."""
    root = Path(__file__).resolve().parents[2] / "fixtures"
    for folder in root.glob(f"*/{EXPECT}"):
        shutil.rmtree(folder.parent)
    for path, fixture in FIXTURES.items():
        write(root / path, files(fixture))
    size = sum(len(data) for fixture in FIXTURES.values() for data in files(fixture).values())
    print(f"{len(FIXTURES)} directories, {size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
