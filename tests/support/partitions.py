"""Files of partitions made byte by byte: what lies beside the logs of `tests/support/segments.py`.

Nothing of kdump is used here: what is made must not depend on what is tested.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING

from crc32c import crc32c

from tests.support.segments import CONTROL, TRANSACTIONAL, Record, batch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Files = dict[str, bytes]
"""Content by path, relative to a directory."""


def name(base: int, suffix: str = "log") -> str:
    """The name of a file of a segment."""
    return f"{base:020}.{suffix}"


def segment(base: int, parts: Sequence[bytes], *, interval: int | None = None) -> Files:
    """The log and the indexes of a segment of whole batches of magic 2.

    Args:
        base: base offset.
        parts: the batches.
        interval: index.interval.bytes; None: too large for any entry but the last timestamp.
    """
    offsets: list[tuple[int, int]] = []
    times: list[tuple[int, int]] = []
    at = entry_at = 0
    latest = (-1, -1)
    for part in parts:
        first, delta, time = (*struct.unpack_from(">q", part), *struct.unpack_from(">i8xq", part, 23))
        latest = max(latest, (time, first + delta), key=lambda one: one[0])
        if interval is not None and at - entry_at > interval:
            offsets.append((first + delta, at))
            times += [latest] if [latest] != times[-1:] else []
            entry_at = at
        at += len(part)
    times += [latest] if parts and [latest] != times[-1:] else []
    return {
        name(base): b"".join(parts),
        name(base, "index"): offset_index(base, *offsets),
        name(base, "timeindex"): time_index(base, *times),
    }


def offset_index(base: int, *entries: tuple[int, int]) -> bytes:
    """An offset index of these offsets and positions. Source: OffsetIndex."""
    return b"".join(struct.pack(">ii", offset - base, position) for offset, position in entries)


def time_index(base: int, *entries: tuple[int, int]) -> bytes:
    """A time index of these timestamps and offsets. Source: TimeIndex."""
    return b"".join(struct.pack(">qi", timestamp, offset - base) for timestamp, offset in entries)


def aborted(producer: int, first: int, last: int, stable: int, version: int = 0) -> bytes:
    """An entry of a transaction index. Source: AbortedTxn."""
    return struct.pack(">hqqqq", version, producer, first, last, stable)


def snapshot(*entries: tuple[int, int, int, int, int, int, int, int], version: int = 1) -> bytes:
    """A producer snapshot: id, epoch, last sequence, last offset, delta, timestamp, coordinator epoch, first offset.

    Source: ProducerStateManager.writeSnapshot.
    """
    body = struct.pack(">i", len(entries)) + b"".join(struct.pack(">qhiqiqiq", *entry) for entry in entries)
    return struct.pack(">hI", version, crc32c(body)) + body


def marker(offset: int, producer: tuple[int, int], *, commit: bool, key: bytes | None = None, epoch: int = 0) -> bytes:
    """A batch with an end marker. Source: EndTransactionMarker.

    Args:
        offset: of the marker.
        producer: id and epoch.
        commit: or abort.
        key: of the record, if it lies.
        epoch: of the leader.
    """
    record = Record(struct.pack(">hi", 0, 0), struct.pack(">hh", 0, int(commit)) if key is None else key)
    return batch(offset, [record], flags=TRANSACTIONAL | CONTROL, producer=(*producer, -1), epoch=epoch)


def checkpoint(*entries: tuple[object, ...], version: int = 0, count: int | None = None) -> bytes:
    """A text file with an entry a line. Source: CheckpointFile."""
    lines = [str(version), str(len(entries) if count is None else count)]
    lines += [" ".join(map(str, entry)) for entry in entries]
    return "".join(f"{line}\n" for line in lines).encode()


def meta(node: int, cluster: str = "kdump-fixtures-cluster") -> bytes:
    """A meta.properties."""
    return f"version=1\ncluster.id={cluster}\nnode.id={node}\n".encode()


def below(folder: str, files: Mapping[str, bytes]) -> Files:
    """The same files in a folder."""
    return {f"{folder}/{path}": data for path, data in files.items()}


def write(root: Path, files: Mapping[str, bytes]) -> Path:
    """Write files below a directory, which is made; a path above another one is a directory."""
    root.mkdir(parents=True, exist_ok=True)
    folders = {str(parent) for path in files for parent in Path(path).parents}
    for path, data in files.items():
        if path in folders:
            continue
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return root


def overwrite(path: Path, data: bytes) -> None:
    """Give a file that is there another content, in place: a new file costs more than most tests of it."""
    with path.open("r+b", buffering=0) as file:
        file.write(data)
        file.truncate()
