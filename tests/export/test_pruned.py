"""A range or a key is read without what cannot have it, and the rows are those of all that lies there."""

from __future__ import annotations

import os
import random
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kdump.export.log_file import LogFile
from kdump.export.origin import Origins, read_roots
from kdump.export.read import ReadOptions, read_splits
from kdump.export.split import WantedLogs, logs_of, splits_of
from kdump.export.tables import columns_of
from kdump.format.batch.headers_only import Stretch, TimeRange, joined
from tests.support.partitions import name, segment, write
from tests.support.segments import Record, batch
from tests.support.tables import WHOLE, split_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

T = 1_700_000_000_000
APPEND_TIME = 8


def log_of(random_: random.Random, base: int, count: int, *, drift: int, inner: int) -> list[bytes]:
    """Batches of a segment whose times ascend, more or less.

    Args:
        random_: makes it.
        base: offset of the first.
        count: of batches.
        drift: ms by which a batch may be out of order.
        inner: ms by which a record may be earlier than the first of its batch.
    """
    made = []
    for _ in range(count):
        records = random_.randint(1, 5)
        time = T + base * 10 + random_.randint(-drift, drift)
        deltas = [0, *(random_.randint(-inner, 40) for _ in range(records - 1))]
        flags = APPEND_TIME if random_.random() < 0.1 else 0
        some = [Record(b"v" * random_.randint(0, 300), b"k%d" % random_.randint(0, 4), timestamp=at) for at in deltas]
        made.append(batch(base, some, base_timestamp=time, flags=flags))
        base += records + (random_.random() < 0.1)
    return made


def lied(random_: random.Random, data: bytes, size: int) -> bytes:
    """An index of entries of some bytes that does not tell the truth."""
    entries = [data[at : at + size] for at in range(0, len(data) - size + 1, size)]
    kind = random_.choice(("true", "shuffled", "noise", "shifted", "half", "none", "short"))
    if kind == "shuffled":
        random_.shuffle(entries)
    elif kind == "noise":
        entries = [random_.randbytes(size) for _ in entries]
    elif kind == "shifted":
        moved = [*entries[1:], *entries[:1]]
        entries = [a[: size - 4] + b[size - 4 :] for a, b in zip(entries, moved, strict=True)]
    elif kind == "half":
        entries = entries[len(entries) // 2 :]
    elif kind == "none":
        entries = []
    return b"".join(entries)[: -3 if kind == "short" else None]


def partition(folder: Path, random_: random.Random) -> None:
    """A partition of some segments, whose indexes lie."""
    drift, inner = random_.choice((0, 20, 3000)), random_.choice((0, 0, 60))
    base = random_.choice((0, 1000))
    for _ in range(random_.randint(1, 4)):
        parts = log_of(random_, base, random_.randint(1, 40), drift=drift, inner=inner)
        files = segment(base, parts, interval=random_.choice((100, 500, 4096)))
        for suffix, size in (("index", 8), ("timeindex", 12)):
            files[name(base, suffix)] = lied(random_, files[name(base, suffix)], size)
        write(folder, files)
        base = int.from_bytes(parts[-1][:8], "big") + 10


def asked(random_: random.Random, rows: pa.Table) -> dict[str, Any]:
    """A question about a log."""
    offsets, times = rows.column("offset").to_pylist(), sorted(rows.column("timestamp").to_pylist())
    fields: dict[str, Any] = {}
    kind = random_.randrange(7)
    if kind & 1 or not kind:
        some = sorted(random_.choices([*offsets, offsets[-1] + 5, 0], k=2))
        fields["offsets"] = random_.choice(
            ((some[0], some[1]), (some[0], None), (None, some[1]), (some[0], some[0] + 1))
        )
    if kind & 2:
        some = sorted(random_.choices([*times, times[-1] + 1, 1], k=2))
        fields["times"] = random_.choice(((some[0], some[1]), (some[0], None), (None, some[1]), (some[0], some[0] + 1)))
    if kind & 4:
        fields["keys"] = (b"k%d" % random_.randint(0, 5),)
        fields["patterns"] = random_.choice(((), (re.compile("[0-2]"),)))
    return fields


def by_hand(rows: pa.Table, fields: dict[str, Any]) -> pa.Table:
    """The rows that are asked for, of all of them."""
    for column, (low, high) in (
        ("offset", fields.get("offsets", (None, None))),
        ("timestamp", fields.get("times", (None, None))),
    ):
        if low is not None:
            rows = rows.filter(pc.greater_equal(rows.column(column), low))
        if high is not None:
            rows = rows.filter(pc.less(rows.column(column), high))
    keys = [bytes(key) for key in rows.column("key").to_pylist()]
    good = [
        (not fields.get("keys") or key in fields["keys"])
        and all(one.search(key.decode()) for one in fields.get("patterns", ()))
        for key in keys
    ]
    return rows.filter(pa.array(good, pa.bool_()))


@pytest.mark.parametrize("seed", range(25))
def test_what_is_asked_for_is_what_lies_there_whatever_the_indexes_say(seed: int, tmp_path: Path) -> None:
    random_ = random.Random(seed)
    partition(tmp_path, random_)
    everything = split_table([str(tmp_path)], "records")
    batches = split_table([str(tmp_path)], "batches")
    for _ in range(12):
        fields = asked(random_, everything)
        wanted, size = WantedLogs(**fields), random_.choice((WHOLE, 1500))
        assert split_table([str(tmp_path)], "records", size, wanted).equals(by_hand(everything, fields)), fields
        of_batches = {one: fields[one] for one in ("offsets", "times") if one in fields}
        found = split_table([str(tmp_path)], "batches", size, WantedLogs(**of_batches))
        assert found.equals(split_table([str(tmp_path)], "batches", WHOLE, WantedLogs(**of_batches), seeks=False))
        assert found.num_rows <= batches.num_rows


@pytest.mark.parametrize("place", range(0, 3000, 101))
def test_a_damaged_byte_leaves_what_is_asked_for(place: int, tmp_path: Path) -> None:
    random_ = random.Random(3)
    files = segment(0, log_of(random_, 0, 40, drift=0, inner=0), interval=500)
    log = bytearray(files[name(0)])
    log[place % len(log)] ^= 0x10
    write(tmp_path, {**files, name(0): bytes(log)})
    for fields in ({"times": (T + 300, T + 500)}, {"times": (None, T + 300)}, {"offsets": (40, 60)}):
        wanted = WantedLogs(**fields)
        found = split_table([str(tmp_path)], "records", WHOLE, wanted)
        assert set(map(repr, split_table([str(tmp_path)], "records", WHOLE, wanted, seeks=False).to_pylist())) >= set(
            map(repr, found.to_pylist())
        )


def read_by(paths: Sequence[str], patch: pytest.MonkeyPatch, **fields: Any) -> tuple[int, pa.Table]:
    """The bytes that are read of files for a question, and the rows."""
    sizes: list[int] = []
    pread, preadv = os.pread, os.preadv

    def one(file: int, length: int, position: int) -> bytes:
        found = pread(file, length, position)
        sizes.append(len(found))
        return found

    def several(file: int, buffers: Sequence[memoryview], position: int) -> int:
        sizes.append(preadv(file, buffers, position))
        return sizes[-1]

    with patch.context() as here:
        here.setattr(os, "pread", one)
        here.setattr(os, "preadv", several)
        wanted = WantedLogs(**fields)
        logs = [one for one in logs_of(paths, Origins(read_roots(paths)), wanted) if isinstance(one, LogFile)]
        splits = [split for log in logs for split in splits_of(log, WHOLE, wanted)]
        read = ReadOptions("records", columns_of("records"), wanted)
        rows = pa.Table.from_batches(read_splits(splits, read, lambda _problem: None))
    return sum(sizes), rows.combine_chunks()


def test_a_key_in_five_minutes_of_many_segments_reads_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minute, total = 60_000, 0
    for number in range(150):  # a minute each
        parts = [
            batch(
                number * 1000 + 100 * k,
                [Record(b"v" * 100, b"k%d" % (n % 50), timestamp=n) for n in range(100)],
                base_timestamp=T + number * minute + 1000 * k,
            )
            for k in range(10)
        ]
        files = segment(number * 1000, parts, interval=4096)
        total += sum(map(len, files.values()))
        write(tmp_path, files)
    asked_for = {"times": (T + 100 * minute, T + 105 * minute), "keys": (b"k7",)}
    read, rows = read_by([str(tmp_path)], monkeypatch, **asked_for)
    assert rows.num_rows == 5 * 10 * 2
    assert read < total * 0.05
    assert rows.equals(by_hand(split_table([str(tmp_path)], "records"), asked_for))


def test_records_that_are_earlier_than_the_first_of_their_batch_are_found(tmp_path: Path) -> None:
    parts = [
        batch(2 * k, [Record(timestamp=5000), Record(timestamp=0)], base_timestamp=T + 10 * k) for k in range(3000)
    ]
    write(tmp_path, segment(0, parts, interval=4096))
    found = split_table([str(tmp_path)], "records", wanted=WantedLogs(times=(T + 100, T + 200)))
    assert found.column("offset").to_pylist() == [2 * k + 1 for k in range(10, 20)]


def test_stretches_that_lie_near_each_other_are_one() -> None:
    far = 1 << 20
    some = [Stretch(far, far + 5), Stretch(0, 10), Stretch(20, 30)]
    assert joined(some) == [Stretch(0, 30), Stretch(far, far + 5)]
    assert TimeRange().is_all
    assert TimeRange(end=5).begins_behind(0, 5)
    assert not TimeRange(end=5).leaves_out(0, 5, 9)
    assert TimeRange(end=5, of_batches=True).leaves_out(0, 5, 9)
