"""What public reports have shown, as log directories: each case, and a sibling of the same kind.

A case is a function that returns the files of a directory; which of the two is made, the number says: 0 for what was
reported, 1 for its sibling.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tests.support.make_fixtures import topic_id
from tests.support.partitions import (
    Files,
    below,
    checkpoint,
    meta,
    name,
    segment,
    snapshot,
)
from tests.support.segments import TRANSACTIONAL, Record, batch

if TYPE_CHECKING:
    from collections.abc import Sequence

TIME = 1_700_000_000_000
COMMIT_KEY = struct.pack(">hh", 1, 2) + b"g1" + struct.pack(">h1si", 1, b"t", 0)


def commit(offset: int) -> Record:
    """A record of __consumer_offsets."""
    return Record(struct.pack(">hqihq", 3, offset, -1, 0, TIME + offset), COMMIT_KEY)


def log_dir(
    parts: dict[str, Files], *, clean: bool = True, recovery: int | None = None, **checkpoints: tuple[object, ...]
) -> Files:
    """Return a log directory as a broker leaves it.

    Args:
        parts: its partitions, by name; those without an id of their own get that of one topic.
        clean: it was shut down in order.
        recovery: the recovery point of all partitions; None for the end of each.
        checkpoints: an entry of `start` or `cleaner`.
    """
    ends, points = [], []
    for one, files in parts.items():
        topic, _, number = one.split(".")[0].rpartition("-")
        if "." not in one and not topic.startswith("__cluster"):
            end = end_of(files)
            ends.append((topic, number, end))
            points.append((topic, number, end if recovery is None else recovery))
    own: Files = {
        "meta.properties": meta(1),
        "recovery-point-offset-checkpoint": checkpoint(*points),
        "replication-offset-checkpoint": checkpoint(*ends),
        "log-start-offset-checkpoint": checkpoint(*([checkpoints["start"]] if "start" in checkpoints else [])),
        "cleaner-offset-checkpoint": checkpoint(*([checkpoints["cleaner"]] if "cleaner" in checkpoints else [])),
    }
    if clean:
        own[".kafka_cleanshutdown"] = b'{"version":0,"brokerEpoch":1}'
    for one, files in parts.items():
        own |= below(one, topic_id("C") | files)
    return own


def end_of(files: Files) -> int:
    """The offset behind the last batch of a partition that is whole."""
    path = max(one for one in files if one.endswith(".log"))
    data, at, end = files[path], 0, int(path[:20])
    while at + 12 < len(data) and any(data[at : at + 12]):
        first, size = struct.unpack_from(">qi", data, at)
        end = first + struct.unpack_from(">i", data, at + 23)[0] + 1
        at += 12 + size
    return end


def one_by_one(first: int, end: int, *, time: int = TIME, epoch: int = 0, value: bytes = b"v") -> list[bytes]:
    """Batches of one record each."""
    return [batch(at, [Record(value, b"k")], base_timestamp=time + at, epoch=epoch) for at in range(first, end)]


def closed(*bases: int, end: int, epoch: int = 0, time: int = TIME, value: bytes = b"v") -> Files:
    """A partition of whole segments that was closed in order."""
    found: Files = {name(end, "snapshot"): snapshot(), "leader-epoch-checkpoint": checkpoint((epoch, bases[0]))}
    for base, until in zip(bases, (*bases[1:], end), strict=True):
        found |= segment(base, one_by_one(base, until, epoch=epoch, time=time, value=value), interval=1)
    return found


def flipped(data: bytes, at: int) -> bytes:
    """Bytes with one bit wrong."""
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


# --- holes, and offsets far up ----------------------------------------------------------------------------------------
def first_compacted(which: int) -> Files:
    """Compaction has removed the first offset of the log, or of a later segment, and nothing else."""
    first, second = [batch(1, [commit(1)])], [batch(2, [commit(2)])]
    if which:
        first, second = [batch(0, [commit(0)])], [batch(3, [commit(3)])]
    base = 2
    files = segment(0, first) | segment(base, second) | {"leader-epoch-checkpoint": checkpoint((0, 0))}
    files[name(3 + which, "snapshot")] = snapshot()
    return log_dir({"__consumer_offsets-28": files}, cleaner=("__consumer_offsets", 28, 2 + which))


def dip(which: int) -> Files:
    """After a change of leaders a batch begins below the last offset and ends above it, or two of them do."""
    parts = [*_batches(3, (0, 9), (10, 19)), *_batches(4, (15, 24), (25, 29))]
    entries = [(3, 0), (4, 15)]
    if which:
        parts += _batches(6, (28, 33))
        entries += [(6, 28)]
    files = segment(0, parts, interval=1) | {"leader-epoch-checkpoint": checkpoint(*entries)}
    return log_dir({"events-20": files}, clean=False, recovery=0)


def _batches(epoch: int, *ranges: tuple[int, int]) -> list[bytes]:
    return [batch(first, [b"%d" % n for n in range(first, last + 1)], epoch=epoch) for first, last in ranges]


def far_up(which: int) -> Files:
    """Batches lie more than 2^31 above the name of their segment; in the sibling it is the last one."""
    far = 2**31 + 12_345
    parts = [*one_by_one(0, 2), *one_by_one(far, far + 5)]
    files = segment(0, one_by_one(0, 2), interval=1) | {name(0): b"".join(parts)}
    end = far + 5 if which else far + 13
    files |= {} if which else segment(far + 5, one_by_one(far + 5, end), interval=1)
    files |= {"leader-epoch-checkpoint": checkpoint((0, 0)), name(end, "snapshot"): snapshot()}
    return log_dir({"big-0": files}, cleaner=("big", 0, far + 5))


# --- what lies beside the log -----------------------------------------------------------------------------------------
def ids_empty(which: int) -> Files:
    """All small files are empty after a power loss; in the sibling one partition has kept its id."""
    kept = {3: topic_id("C")} if which else {}
    parts = {f"orders-{n}": {**closed(0, end=1), "partition.metadata": b"", **kept.get(n, {})} for n in range(6)}
    found = log_dir(parts, clean=False)
    return found if which else found | {"meta.properties": b""}


def deleted(which: int) -> Files:
    """The directory of a topic that was deleted by mistake; in the sibling another partition of it is still in use."""
    aside = f"orders-0.{'2a' * 16}-delete"
    return log_dir({aside: closed(0, 4, end=8)} | ({"orders-1": closed(0, end=2)} if which else {}))


def strays(which: int) -> Files:
    """Segment files in the log directory itself: of a log, or an index alone."""
    data = segment(7, one_by_one(7, 9), interval=1)
    lost = {path: one for path, one in data.items() if not (which and path.endswith(".log"))}
    return log_dir({"orders-0": closed(0, end=4)}) | lost


def preallocated(which: int) -> Files:
    """A broker that preallocates was killed: zeros behind the last batch; in the sibling right after a roll."""
    last = [] if which else one_by_one(5, 10)
    files = closed(0, end=5) | segment(5, last) | {name(5): b"".join(last) + bytes(1 << 16)}
    files |= {name(5, "index"): bytes(8 * 512), name(5, "timeindex"): bytes(12 * 512)}
    return log_dir({"o-0": files}, clean=False, recovery=0)


def cleaned_beside_swap(which: int) -> Files:
    """A `.swap` beside a `.cleaned` of the same base offset, or of a lower one: a broker throws both away."""
    result = segment(4, [batch(4, [Record(b"v", b"k")], last_delta=3)])
    other = 0 if which else 4
    waiting = {f"{path}.swap": data for path, data in result.items()}
    begun = {f"{path}.cleaned": data for path, data in segment(other, one_by_one(other, other + 1)).items()}
    return log_dir({"t-0": closed(0, 4, 8, end=10) | waiting | begun}, clean=False, recovery=0)


def zero_indexes(which: int) -> Files:
    """Indexes of the last two segments are zeros of their full size; in the sibling the time index alone."""
    files = closed(0, 5, end=9)
    del files[name(9, "snapshot")]
    for base in (0, 5):
        files[name(base, "timeindex")] = bytes(12 * 1024)
        files |= {} if which else {name(base, "index"): bytes(8 * 1024)}
    return log_dir({"orders-0": files}, clean=False, recovery=0)


def time_index_of_zeros(which: int) -> Files:
    """A file system gave back zeros for the time index of closed segments."""
    files = closed(0, 4, 8, end=12, time=TIME + 95_600_000_000)
    for base in (0, 4)[which:]:
        files[name(base, "timeindex")] = bytes(12 * (1 + which))
    return log_dir({"test-0": files})


def bad_crc(which: int) -> Files:
    """A byte of a batch is wrong: of a plain log, or of a closed segment of a compacted topic."""
    if not which:
        parts = [batch(3 * n, [Record(b"v%d" % n, b"k")] * 3, base_timestamp=TIME + n) for n in range(10)]
        files = segment(0, parts, interval=1) | {"leader-epoch-checkpoint": checkpoint((0, 0))}
        files |= {name(30, "snapshot"): snapshot(), name(0): flipped(b"".join(parts), 4 * len(parts[0]) + 70)}
        return log_dir({"rl-49": files})
    files = {"leader-epoch-checkpoint": checkpoint((0, 0)), name(12, "snapshot"): snapshot()}
    for base in (0, 4, 8):
        files |= segment(
            base, [batch(at, [commit(at)], base_timestamp=TIME + at) for at in range(base, base + 4)], interval=1
        )
    files[name(4)] = flipped(files[name(4)], len(files[name(4)]) // 4 * 2 + 70)
    return log_dir({"__consumer_offsets-7": files}, cleaner=("__consumer_offsets", 7, 4))


def bad_epochs(which: int) -> Files:
    """The leader epoch checkpoint came back as NUL bytes, or cut in a line."""
    bad = {"leader-epoch-checkpoint": b"0\n1\n5" if which else bytes(8)}
    return log_dir({"a-0": closed(0, end=2, epoch=5) | bad, "b-0": closed(0, end=2)}, clean=False)


def bad_metadata(which: int) -> Files:
    """A byte of a batch in the middle, or near the end, of the metadata log is wrong."""
    level = bytes([1, 12, 0, 17]) + b"metadata.version" + bytes([0, 7, 0])
    parts = [batch(at, [level], epoch=3) for at in range(9)]
    at = (7 if which else 4) * len(parts[0]) + 75
    quorum = b'{"leaderId":1,"leaderEpoch":3,"votedId":-1,"data_version":1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA"}'
    files = segment(0, parts) | {name(0): flipped(b"".join(parts), at), "quorum-state": quorum}
    files |= {"leader-epoch-checkpoint": checkpoint((3, 0)), "partition.metadata": _METADATA_ID}
    return log_dir({"__cluster_metadata-0": files})


_METADATA_ID = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"


def logs_removed(which: int) -> Files:
    """A job has removed the oldest log: that of a partition with others, or the only one."""
    files = closed(*((0,) if which else (0, 4)), end=4 if which else 8)
    ends = log_dir({"a-0": files}, clean=False)
    del ends[f"a-0/{name(0)}"]
    return ends


def cut_copy(which: int) -> Files:
    """A copy broke off in a batch, or between two: the indexes go on."""
    files = closed(0, end=20)
    size = len(files[name(0)]) // 20
    return log_dir({"o-0": files}) | {f"o-0/{name(0)}": files[name(0)][: 11 * size + (0 if which else 22)]}


def start_ahead(which: int) -> Files:
    """The log start offset is above the end of the log, far or by one."""
    return log_dir({"m-0": closed(0, end=10)}, start=("m", 0, 11 if which else 5000))


# --- retention and the cleaner ----------------------------------------------------------------------------------------
def far_time(which: int) -> Files:
    """One timestamp of a closed segment is in microseconds, or nanoseconds."""
    bad = batch(4, [Record(b"bad", b"k")], base_timestamp=(TIME + 4) * (1_000_000 if which else 1000))
    parts = [*one_by_one(0, 4), bad, *one_by_one(5, 6)]
    files = closed(6, 10, end=12) | segment(0, parts, interval=1) | {"leader-epoch-checkpoint": checkpoint((0, 0))}
    return log_dir({"clicks-0": files})


def open_commit(which: int) -> Files:
    """A transaction of __consumer_offsets was never ended: from its first record on nothing is cleaned."""
    at = 5 if which else 1
    state = (77, 3, 0, at, 0, TIME + 1, -1, at)
    files: Files = {"leader-epoch-checkpoint": checkpoint((0, 0))}
    for base in (0, 4, 8, 12):
        parts = [
            batch(n, [commit(n)], base_timestamp=TIME + n, flags=TRANSACTIONAL, producer=(77, 3, 0))
            if n == at
            else batch(n, [commit(n)], base_timestamp=TIME + n)
            for n in range(base, base + 4)
        ]
        files |= segment(base, parts, interval=1)
        files[name(base + 4, "snapshot")] = snapshot(*([state] if base + 4 > at else []))
    return log_dir({"__consumer_offsets-20": files})


def far_apart(which: int) -> Files:
    """Small closed segments that one group would span more than 2^31 offsets of."""
    bases: Sequence[int] = (0, 1_500_000_000, 3_000_000_000, 3_000_000_001)
    if which:
        bases = (0, 2**31 + 5, 2**31 + 7)
    files: Files = {"leader-epoch-checkpoint": checkpoint((0, 0))}
    for number, base in enumerate(bases):
        files |= segment(base, [batch(base, [Record(b"v", b"k%d" % number)], base_timestamp=TIME)])
    return log_dir({"state-0": files})


def unkeyed(which: int) -> Files:
    """A topic was made compacted after records without a key; in the sibling they share a batch with others."""
    if which:
        parts = [batch(0, [Record(b"no key", None), Record(b"v", b"k")]), batch(2, [Record(b"v", b"k")])]
        files = segment(0, parts) | segment(3, [batch(3, [Record(b"v", b"j")])])
    else:
        files = segment(
            0, [batch(at, [Record(b"no key", None)], base_timestamp=TIME + at) for at in range(4)], interval=1
        )
        files |= segment(4, one_by_one(4, 8), interval=1)
    return log_dir({"profiles-0": files | {"leader-epoch-checkpoint": checkpoint((0, 0))}})


def time_of_zero(which: int) -> Files:
    """A producer gives no timestamp: the time index of a closed segment is one entry of zeros."""
    parts = [batch(at, [Record(b"v", b"k%d" % at)], base_timestamp=0) for at in range(6)]
    files = segment(0, parts[:3]) | segment(3, parts[3:]) | {name(6, "snapshot"): snapshot()}
    for base in (0, 3):
        files[name(base, "timeindex")] = bytes(12)
    if which:
        last = [batch(6, [Record(b"v", b"k")], base_timestamp=TIME)]
        files |= segment(6, last) | {name(7, "snapshot"): snapshot()}
    return log_dir({"orders-0": files | {"leader-epoch-checkpoint": checkpoint((0, 0))}})


def sequences(which: int) -> Files:
    """A producer's batch stands twice, whole or in part, and then it skips sequences."""
    values = [b"a", b"b", b"c", b"d"]
    again = 2 if which else 0
    parts = [
        batch(0, values, producer=(9, 0, 0), base_timestamp=TIME),
        batch(4, values, producer=(9, 0, 4), base_timestamp=TIME),
        batch(8, values[again:], producer=(9, 0, 4 + again), base_timestamp=TIME, epoch=1),
        batch(12 - again, values, producer=(9, 0, 11), base_timestamp=TIME, epoch=1),
    ]
    end, state = 16 - again, (9, 0, 14, 15 - again, 3, TIME, -1, -1)
    files = segment(0, parts) | {"leader-epoch-checkpoint": checkpoint((0, 0), (1, 8))}
    return log_dir({"orders-0": files | {name(end, "snapshot"): snapshot(state)}})


UNITS = {"seconds": TIME // 1000, "microseconds": TIME * 1000, "nanoseconds": TIME * 1_000_000}


def wrong_unit(unit: str, first: int) -> Files:
    """From an offset on a producer gives times in another unit than milliseconds."""
    parts = [
        batch(at, [Record(b"v", b"k")], base_timestamp=(UNITS[unit] if at >= first else TIME) + at) for at in range(6)
    ]
    files = segment(0, parts[:3], interval=1) | segment(3, parts[3:], interval=1)
    files |= {"leader-epoch-checkpoint": checkpoint((0, 0)), name(6, "snapshot"): snapshot()}
    return log_dir({"orders-0": files})
