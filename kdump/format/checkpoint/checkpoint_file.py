"""The small text files of a broker that DumpLogSegments cannot show; here those with one entry a line.

Strategy: what can be read is returned; what cannot is a finding with the exact bytes, in Kafka's words where
a broker has some. A finding's values are `why` and `exception`, the Java class that a broker meets there: an
IOException takes the log directory offline; another one ends the load, or (recovery point, log start) is
logged and the file counts as empty. Entries of lines are made when they are asked for: in memory they are many
times as large as their text.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from operator import eq
from typing import TYPE_CHECKING, TypeAlias, overload

from kdump.format.checkpoint.text_lines import MAX_FINDINGS, Property, TextDamage, line_at, lines, split, text_of
from kdump.format.java_values import ARGUMENT, IO, JavaComplaint, parse_number, quote, uuid_complaint
from kdump.format.kinds import TEXT_KINDS, FileKind
from kdump.value import TupleValue, Value, pattern

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kdump.finding import Report
    from kdump.format.source import Source

__all__ = [
    "MAX_BYTES",
    "MAX_FINDINGS",
    "MAX_LINE",
    "MAX_SMALL_BYTES",
    "Checkpoint",
    "Entry",
    "EpochEntry",
    "JavaComplaint",
    "LineEntries",
    "Property",
    "TopicPartitionOffset",
    "encode_checkpoint",
    "offsets_of",
    "parse_number",
    "read_checkpoint",
    "uuid_complaint",
]

MAX_BYTES = 1 << 23  # larger files are not read: 100,000 partitions have about 4 MB
MAX_SMALL_BYTES = 1 << 16  # the same for files that have a few lines
MAX_LINE = 1 << 16  # longer lines are not decoded: a broker's own have about 300 bytes at most

_MAYBE_ENTRY = pattern(rb"\S\s+[+-]?[\d\x80-\xff]")  # any other line is malformed
_BLANKS = pattern(r"\s+", re.ASCII)  # what Java takes for blanks
_SMALL_KINDS = frozenset(
    (FileKind.PARTITION_METADATA, FileKind.META_PROPERTIES, FileKind.QUORUM_STATE, FileKind.CLEAN_SHUTDOWN)
)


class EpochEntry(TupleValue):
    """The leader epoch that begins at `start_offset`."""

    epoch: int
    start_offset: int


class TopicPartitionOffset(TupleValue):
    """One offset of one partition: recovery point, log start, high watermark or first dirty offset."""

    topic: str
    partition: int
    offset: int


Entry: TypeAlias = EpochEntry | TopicPartitionOffset | Property


class LineEntries(Sequence[Entry]):
    """Entries of a file with one a line, made from its bytes when they are asked for.

    Args:
        kind: which file it is.
        data: the whole file.
        starts: where each line begins that is an entry.
    """

    def __init__(self, kind: FileKind, data: bytes, starts: array[int]) -> None:
        self._kind = kind
        self._data = data
        self._starts = starts

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Entry]: ...
    def __getitem__(self, index: int | slice) -> Entry | Sequence[Entry]:
        """Return one entry, or some."""
        if isinstance(index, slice):
            return LineEntries(self._kind, self._data, self._starts[index])
        entry = _entry(self._kind, line_at(self._data, self._starts[index]).decode())
        assert isinstance(entry, tuple)
        return entry

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple | LineEntries) and len(other) == len(self) and all(map(eq, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"<{len(self)} entries of {self._kind.value}>"


class Checkpoint(Value):
    """The readable part of one file: its version if it has one, its entries in file order."""

    kind: FileKind
    version: int | None
    entries: Sequence[Entry]


def read_checkpoint(kind: FileKind, source: Source, report: Report) -> Checkpoint:
    """Read a small file of a broker.

    Args:
        kind: which file it is, one of `TEXT_KINDS`.
        source: the file; one above `MAX_BYTES`, or `MAX_SMALL_BYTES` without a line for each entry, is not read.
        report: called once for each damaged place.

    Returns:
        everything readable, damage or not.

    Reports:
        K05 for partition.metadata, K04 for leader-epoch-checkpoint, K03 for all others.

    Raises:
        OSError: the source cannot be read. Never for bad data.
        ValueError: the kind is not a text file.

    Source: CheckpointFile, PartitionMetadataReadBuffer, MetaProperties, FileQuorumStateStore.
    """
    if kind not in TEXT_KINDS:
        raise ValueError(kind)
    damage = TextDamage(kind, source.name, report)
    limit = MAX_SMALL_BYTES if kind in _SMALL_KINDS else MAX_BYTES
    if source.size > limit:
        why = f"the file has {source.size} bytes and was not read: the limit is {limit}"
        damage.add(0, source.size, JavaComplaint(why))
        return Checkpoint(kind, None, ())
    data = source.read_at(0, source.size)
    if kind not in _SMALL_KINDS or kind is FileKind.PARTITION_METADATA:
        damage.read(data)
    version, entries = _read(kind, data, damage)
    damage.finish()
    return Checkpoint(kind, version, entries)


def _read(kind: FileKind, data: bytes, damage: TextDamage) -> tuple[int | None, Sequence[Entry]]:
    if kind not in _SMALL_KINDS:
        return _read_lines(kind, data, damage)
    if kind in (FileKind.QUORUM_STATE, FileKind.CLEAN_SHUTDOWN):
        from kdump.format.checkpoint.json_files import read_json  # json costs milliseconds

        version, entries = read_json(kind, data, damage)
    else:
        from kdump.format.checkpoint.properties import read_meta_properties, read_partition_metadata

        read = read_partition_metadata if kind is FileKind.PARTITION_METADATA else read_meta_properties
        version, entries = read(data, damage)
    return version, tuple(entries)


def _read_lines(kind: FileKind, data: bytes, damage: TextDamage) -> tuple[int | None, LineEntries]:
    """Read a version, a count, then one entry a line. Source: CheckpointFile.CheckpointReadBuffer.read."""
    header: list[int | None] = []
    starts = array("I")
    count_at = (0, 0)
    for position, line in lines(data):
        if damage.is_full and len(header) >= 2 and not _MAYBE_ENTRY.search(line):
            damage.count_place(position, len(line))
            continue
        place, text, is_header = (position, len(line)), _decoded(line), len(header) < 2
        if is_header:
            number = text if isinstance(text, JavaComplaint) else parse_number(text, 32)
            header.append(number if isinstance(number, int) else None)
            if isinstance(number, int):
                count_at = place
                damage.add(*place, _header_complaint(header, damage.name))
                continue
        found = text if isinstance(text, JavaComplaint) else _entry(kind, text)
        if isinstance(found, tuple):
            starts.append(position)  # also where the header should be: the header may be what is missing
        if isinstance(text, str) and (is_header or found is None):
            why = f"Malformed line in checkpoint file [{damage.name}]: {quote(text)}"
            damage.add(*place, JavaComplaint(why, IO))
        elif isinstance(found, JavaComplaint):
            damage.add(*place, found)
    version, count = (*header, None, None)[:2]
    if count is not None and count != len(starts) and not damage.count:
        why = f"Expected [{count}] entries in checkpoint file [{damage.name}], but found only [{len(starts)}]"
        damage.add(*count_at, JavaComplaint(why, IO))
    return version, LineEntries(kind, data, starts)


def _header_complaint(header: list[int | None], name: str) -> JavaComplaint | None:
    number = header[-1] or 0
    if len(header) == 1 and number:
        why = f"Unrecognised version:{number}, expected version: 0 in checkpoint file at: {name}"
        return JavaComplaint(why, IO)
    return JavaComplaint(f"Illegal Capacity: {number}", ARGUMENT) if number < 0 else None


def _decoded(line: bytes) -> str | JavaComplaint:
    if len(line) > MAX_LINE:
        return JavaComplaint(f"the line has {len(line)} bytes and was not read: the limit is {MAX_LINE}")
    return text_of(line)


def _entry(kind: FileKind, text: str) -> Entry | JavaComplaint | None:
    """Read one line, None for a malformed one.

    Source: OffsetCheckpointFile.Formatter, LeaderEpochCheckpointFile.Formatter.
    """
    parts = split(_BLANKS, text)
    if len(parts) != (2 if kind is FileKind.EPOCHS else 3):
        return None
    first, second = parse_number(parts[-2], 32), parse_number(parts[-1], 64)
    if isinstance(first, JavaComplaint):
        return first
    if isinstance(second, JavaComplaint):
        return second
    if kind is FileKind.EPOCHS:
        return EpochEntry(first, second)
    return TopicPartitionOffset(parts[0], first, second)


def encode_checkpoint(entries: Sequence[Sequence[object]]) -> bytes:
    """Return a file with one entry a line, as a broker writes it.

    Args:
        entries: the words of each line.

    Source: CheckpointFile.write.
    """
    lines = [" ".join(map(str, one)) for one in entries]
    return "".join(f"{line}\n" for line in ("0", len(lines), *lines)).encode()


def offsets_of(entries: Iterable[object]) -> dict[tuple[str, int], int]:
    """Return the offsets of a checkpoint by topic and partition; other entries are left out."""
    return {(one.topic, one.partition): one.offset for one in entries if isinstance(one, TopicPartitionOffset)}
