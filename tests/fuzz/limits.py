"""Log directories whose numbers are at the limits of their fields: offsets, deltas, times, epochs, ids."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tests.fuzz.internal import contents_of
from tests.support import partitions
from tests.support.segments import (
    CODECS,
    DELETE_HORIZON,
    GZIP,
    LEGACY_CODECS,
    LOG_APPEND_TIME,
    NONE,
    TIME,
    TRANSACTIONAL,
    Record,
    batch,
    compress,
    message,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.fuzz.chance import Chance
    from tests.support.partitions import Files

INT, LONG = 2**31 - 1, 2**63 - 1
OFFSETS = [0, 1, -1, -2, INT - 1, INT, INT + 1, 2**32 - 1, 2**32, -INT - 1]
OFFSETS += [LONG, LONG - 1, LONG - 2, LONG - INT, LONG - INT - 1, -LONG - 1, -LONG]
BASES = [0, 0, 0, 5, INT, INT + 1, 2**32, LONG - INT, LONG - 5, LONG - 1, LONG]
ANSWERS = [0, 1, 2, 5, INT, INT + 1, 2**32, LONG - INT, LONG - 1, LONG]  # what a person may ask for
TIMES = [TIME, TIME, TIME + 1, TIME - 1, 0, -1, 1, -2, LONG, LONG - 1, -LONG - 1, 2**53, 2**31]
EPOCHS = [0, 0, 0, 1, -1, INT, INT - 1, -INT - 1]
PRODUCERS = [0, 1, 1, -1, -2, LONG, LONG - 1, -LONG - 1]
PRODUCER_EPOCHS = [0, 0, 1, -1, 32767, 32766, -32768]
SEQUENCES = [0, 0, 5, -1, INT, INT - 1, -INT - 1]
COUNTS = [0, 1, 2, -1, INT, INT - 1, -INT - 1]
TOPICS = {
    "p-0": "",
    "__consumer_offsets-0": "groups",
    "__transaction_state-0": "transactions",
    "__cluster_metadata-0": "cluster",
}
TABLES = ["records", "batches", "findings", "segments", "losses", "usage", "groups", "commits", "transactions", "open"]
OUT = "OUT"  # of a command: each writes into a directory of its own
KINDS = ["topic", "partition", "kind", "codec", "producer", "day", "group", "key"]


def fitted(number: int, bits: int) -> int:
    """The number as a field of so many bits holds it."""
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


def next_offset(chance: Chance, base: int, first: int, last: int) -> int:
    """Where the next batch begins: behind the one before it, or at a limit.

    Args:
        chance: decides.
        base: by the name of the segment.
        first, last: of the batch before.
    """
    kind = chance.random()
    if kind < 0.55:
        return fitted(last + 1, 64)
    if kind < 0.7:
        return fitted(base + chance.among([-1, 0, 1, INT - 1, INT, INT + 1, 2**32]), 64)
    if kind < 0.85:
        return chance.among(OFFSETS)
    return fitted(chance.among([first, last, first - 1, last + 2, last + INT]), 64)


def deltas(chance: Chance, count: int) -> list[int]:
    """The offset deltas of records: one after the other, or one of them at a limit."""
    found = list(range(count))
    if chance.often(0.2):
        found[chance.randrange(count)] = chance.among([*COUNTS, 2**32, LONG, -LONG - 1])
    return found


def part(chance: Chance, offset: int, contents: Sequence[tuple[bytes | None, bytes | None]]) -> tuple[bytes, int]:
    """A batch of magic 2 with a right CRC, and its last offset by its header."""
    count = len(contents)
    times = [0] * count
    if chance.often(0.2):
        times[-1] = chance.among([1, -1, INT, LONG, -LONG - 1])
    records = [
        Record(value, key, timestamp=time, delta=delta)
        for (key, value), time, delta in zip(contents, times, deltas(chance, count), strict=True)
    ]
    last = count - 1
    if chance.often(0.2):
        last = chance.among([INT, INT - 1, -1, -INT - 1, 0, count, LONG - offset, LONG - offset + 1])
    last = fitted(last, 32)
    flags = LOG_APPEND_TIME * chance.often(0.1) | DELETE_HORIZON * chance.often(0.1)
    producer = (-1, -1, -1)
    if chance.often(0.35):
        producer = (chance.among(PRODUCERS), chance.among(PRODUCER_EPOCHS), chance.among(SEQUENCES))
        flags |= TRANSACTIONAL * chance.often(0.6)
    made = batch(
        fitted(offset, 64),
        records,
        codec=chance.among(CODECS) if chance.often(0.3) else NONE,
        flags=flags,
        epoch=chance.among(EPOCHS) if chance.often(0.3) else 0,
        producer=producer,
        base_timestamp=chance.among(TIMES),
        max_timestamp=chance.among(TIMES),
        last_delta=last,
        count=chance.among(COUNTS) if chance.often(0.08) else None,
    )
    return made, offset + last


def end_marker(chance: Chance, offset: int) -> tuple[bytes, int]:
    """A batch that ends a transaction, and its last offset."""
    producer = chance.among(PRODUCERS), chance.among(PRODUCER_EPOCHS)
    commit = chance.often(0.5)
    key = struct.pack(">hh", chance.among([0, 1, -1, 32767]), int(commit)) if chance.often(0.2) else None
    return partitions.marker(offset, producer, commit=commit, key=key, epoch=chance.among(EPOCHS)), offset


def wrapper(chance: Chance, magic: int, offset: int, contents: Sequence[tuple[bytes | None, bytes | None]]) -> bytes:
    """A compressed message of magic 0 or 1 whose messages inside have offsets at limits too."""
    count = len(contents)
    first = 0 if magic else offset - count + 1
    offsets = [first + k for k in range(count)]
    if chance.often(0.3):
        offsets[chance.randrange(count)] = chance.among([*OFFSETS, count, offset])
    inner = b"".join(
        message(magic, fitted(at, 64), value, key=key, timestamp=chance.among(TIMES))
        for at, (key, value) in zip(offsets, contents, strict=True)
    )
    codec = chance.among(LEGACY_CODECS[1:]) if chance.often(0.5) else GZIP
    flags = codec | LOG_APPEND_TIME * (chance.often(0.2) and magic == 1)
    return message(
        magic, offset, compress(codec, inner, magic=magic), key=None, attributes=flags, timestamp=chance.among(TIMES)
    )


def log(chance: Chance, base: int, topic: str) -> list[bytes]:
    """One to five batches or messages of a log."""
    parts: list[bytes] = []
    magics = chance.among([(2,), (2,), (2,), (0,), (1,), (0, 1, 2)])
    first, last = base, base - 1
    for number in range(chance.randrange(1, 6)):
        first = base if not number and chance.often(0.6) else next_offset(chance, base, first, last)
        magic = chance.among(magics)
        contents = some(chance, topic)
        if magic == 2:
            made, last = part(chance, first, contents) if chance.often(0.85) else end_marker(chance, first)
        else:
            is_wrapper = chance.often(0.6)
            last = fitted(first + (len(contents) - 1 if is_wrapper else 0), 64)
            made = (
                wrapper(chance, magic, last, contents)
                if is_wrapper
                else message(magic, first, contents[0][1], key=contents[0][0], timestamp=chance.among(TIMES))
            )
        parts.append(made)
    return parts


def some(chance: Chance, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values, those of a coordinator or controller where the topic has them."""
    known = contents_of(topic.removesuffix("-0")) if topic != "p-0" else []
    if known:
        return [chance.among(known) for _ in range(chance.randrange(1, 4))]
    return [
        (chance.among([b"k1", b"k2", None]), chance.among([b"value", b"", None])) for _ in range(chance.randrange(1, 4))
    ]


def indexes(chance: Chance, base: int, parts: Sequence[bytes]) -> Files:
    """Both indexes, as a broker that does not look would write them, and a transaction index."""
    offsets, times, at = b"", b"", 0
    for one in parts:
        first, magic = struct.unpack_from(">q8xb", one)
        last = first + struct.unpack_from(">i", one, 23)[0] if magic == 2 else first
        time = struct.unpack_from(">q", one, 35)[0] if magic == 2 else TIME
        relative = chance.among(COUNTS) if chance.often(0.1) else fitted(last - base, 32)
        if at and chance.often(0.7):
            offsets += struct.pack(">ii", relative, at)
        times += struct.pack(">qi", time, relative) if chance.often(0.7) else b""
        at += len(one)
    files = {partitions.name(base, "index"): offsets, partitions.name(base, "timeindex"): times}
    if chance.often(0.3):
        files[partitions.name(base, "txnindex")] = b"".join(
            partitions.aborted(chance.among(PRODUCERS), *(chance.among([*OFFSETS, base]) for _ in range(3)))
            for _ in range(chance.randrange(1, 3))
        )
    return files


def snapshot(chance: Chance) -> bytes:
    """A producer snapshot."""
    return partitions.snapshot(
        *(
            (
                chance.among(PRODUCERS),
                chance.among(PRODUCER_EPOCHS),
                chance.among(SEQUENCES),
                chance.among(OFFSETS),
                chance.among(COUNTS),
                chance.among(TIMES),
                chance.among(EPOCHS),
                chance.among(OFFSETS),
            )
            for _ in range(chance.randrange(3))
        )
    )


def partition(chance: Chance, topic: str) -> Files:
    """The files of a partition of one or two segments."""
    files: Files = {}
    for base in sorted({chance.among(BASES) for _ in range(chance.among([1, 1, 2]))}):
        parts = log(chance, base, topic)
        files[partitions.name(base)] = b"".join(parts)
        if chance.often(0.6):
            files |= indexes(chance, base, parts)
    if chance.often(0.4):
        files[partitions.name(chance.among([*BASES, *files_bases(files)]), "snapshot")] = snapshot(chance)
    if chance.often(0.4):
        entries = [(chance.among(EPOCHS), chance.among(OFFSETS)) for _ in range(chance.randrange(1, 4))]
        files["leader-epoch-checkpoint"] = partitions.checkpoint(*(sorted(entries) if chance.often(0.7) else entries))
    if chance.often(0.3):
        files["partition.metadata"] = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"
    return files


def files_bases(files: Files) -> list[int]:
    """Base offsets of the logs."""
    return [int(name[:20]) for name in files if name.endswith(".log")]


def copy_of(chance: Chance, files: Files, topic: str) -> Files:
    """Another copy of a partition: equal, of other batches, or one that lacks a log's first or last bytes."""
    other = dict(files)
    for name in [name for name in files if name.endswith(".log")]:
        kind = chance.random()
        if kind < 0.3:
            other[name] = b"".join(log(chance, int(name[:20]), topic))
        elif kind < 0.5:
            other[name] = files[name][: chance.randrange(len(files[name]))]
        elif kind < 0.6:
            other[name] = files[name][chance.randrange(61) :]
    return other


def log_dirs(chance: Chance) -> Files:
    """A log directory `a`, now and then a second one `b` with another copy."""
    topic = chance.among(["p-0", "p-0", *TOPICS])
    first = partition(chance, topic)
    files = partitions.below(f"a/{topic}", first)
    if chance.often(0.4):
        files |= partitions.below(f"b/{topic}", copy_of(chance, first, topic))
    name, _, number = topic.rpartition("-")
    for kind in ("recovery-point", "replication", "log-start", "cleaner"):
        if chance.often(0.3):
            path = f"a/{kind}-offset-checkpoint"
            files[path] = partitions.checkpoint((name, number, chance.among([*OFFSETS, *ANSWERS])))
    if chance.often(0.3):
        files["a/meta.properties"] = partitions.meta(1)
    return files


def paths(files: Files) -> list[str]:
    """The copies of the partition."""
    return sorted({path.rpartition("/")[0] for path in files if path.endswith(".log")})


def readers(chance: Chance, files: Files) -> list[list[str]]:
    """Some commands of many that read."""
    copies = paths(files)
    p = copies[0]
    topic = p.rpartition("/")[2]
    offset, other = (str(chance.among(ANSWERS)) for _ in range(2))
    time = str(chance.among([0, TIME, TIME + 1, 2**53, LONG, LONG - 1]))
    logs = sorted(path for path in files if path.endswith(".log"))
    bases = [int(path[-24:-4]) for path in logs]
    near = str(min(LONG, chance.among(bases) + chance.among([0, 1, 2, INT])))
    some: list[list[str]] = [
        ["verify", p],
        ["verify", "--start", "all", "a"],
        ["verify", "--replicas", *copies],
        ["verify", "--contiguous", "--shallow", p],
        ["verify", "--format", "html", "--start", "all", "--now", "2023-11-15", "a"],
        ["dump", p],
        ["dump", "--print-data-log", p],
        ["dump", "--deep-iteration", "--format", "text", "--timestamps", "iso", p],
        ["dump", "--stats", p],
        ["dump", "--from-offset", offset, p],
        ["dump", "--to-offset", offset, "--print-data-log", p],
        ["dump", "--from-offset", near, "--limit", "2", p],
        ["dump", "--from-time", time, p],
        ["dump", "--to-time", time, "--deep-iteration", p],
        ["dump", "--tail", "2", p],
        ["dump", "--committed", "--print-data-log", p],
        ["dump", "--aborted", p],
        ["dump", "--producer-id", str(max(-1, chance.among(PRODUCERS))), p],
        ["dump", "--leader-epoch", str(max(-1, chance.among(EPOCHS))), p],
        ["find-offset", p, offset],
        ["find-offset", "--scan", "--print", "--context=1", p, near],
        ["find-offset", p, near],
        ["find-offset", p, "latest"],
        ["find-offset", "--scan", p, "earliest"],
        ["find-time", p, time],
        ["find-time", "--scan", "--print", p, time],
        ["find-time", p, "max"],
        ["reindex", *chance.among([[], ["--force"], ["--up-to-damage"], ["--snapshot", "--force"]]), p],
        ["truncate", "--to-offset", offset, "--with-later-segments", p],
        ["truncate", "--to-offset", near, "--with-later-segments", p],
        ["truncate", "--at-damage", "--with-later-segments", p],
        ["patch-header", p],
        ["salvage", "--to", OUT, p],
        ["salvage", "--to", OUT, "--prefer", p, *copies],
        ["salvage", "--to", OUT, "--below-log-start", "--name", "q-0", *copies],
        ["salvage", "--to", OUT, "--segment-bytes", "1024", p],
        ["carve", "--to", OUT, *logs],
        ["carve", "--to", OUT, "--like", "a", *logs],
        ["retention", "--now", str(TIME + 10**9), "--compaction", p],
        ["retention", "--now", str(TIME + 10**9), "--pass", "--set", "cleanup.policy=compact", p],
        ["retention", "--now", str(TIME), "--high-watermark", offset, "--log-start-offset", other, p],
        ["retention", "--now", str(TIME), "--set", "retention.ms=1", "--set", "retention.bytes=1", "a"],
        *(["du", "--by", kind, "--now", str(TIME + 10**9), "a"] for kind in KINDS),
        ["du", "--superseded", "--full-at", "1G", "--now", str(TIME + 10**9), "a"],
        ["groups", "--lag", "a"],
        ["transactions", "a"],
        ["transactions", "--hanging", "a"],
        ["cluster", "a"],
        ["cluster", "--at-offset", offset, "a"],
        ["export", "--table", "segments", "--to", OUT, p],  # more often: it has the ends of logs
        *(["export", "--table", table, "--to", OUT, "a"] for table in TABLES),
    ]
    verb = TOPICS[topic]
    if verb:
        some += [[verb, "--at", "end", p], [verb, p]] * 3
        some += [["export", "--table", table, "--to", OUT, p] for table in TABLES[6:]] * 2
    commands = []
    for number, one in enumerate(chance.sample(some, 8)):
        to = f"../out/{number}"
        given = [to if word == OUT else word for word in one]
        if given[0] == "export":
            given[1:1] = ["--file-format", chance.among(["parquet", "parquet", "json", "csv"])]
        elif "--format" not in given and chance.often(0.5):
            given[1:1] = ["--format", "json"]
        commands.append(["kdump", *given])
        if given[0] == "salvage":
            commands.append(["@salvaged", to])
    return commands


def writer(chance: Chance, files: Files) -> list[list[str]]:
    """A repair that is carried out and taken back."""
    p = paths(files)[0]
    bases = files_bases({path.rpartition("/")[2]: data for path, data in files.items()})
    offset = chance.among([*ANSWERS, *(min(LONG, base + 1) for base in bases), *bases])
    verb = chance.among(
        [
            ["truncate", "--to-offset", str(offset), "--with-later-segments"],
            ["truncate", "--at-damage", "--with-later-segments"],
            ["truncate", "--to-position", str(chance.randrange(300)), "--with-later-segments"],
            ["reindex"],
            ["reindex", "--force", "--snapshot"],
            ["reindex", "--up-to-damage"],
            ["patch-header"],
        ]
    )
    return [
        ["kdump", *verb, "--apply", "--quarantine", "../quarantine", p],
        ["kdump", "verify", "--start", "all", p],
        ["@undo", "../quarantine"],
    ]
