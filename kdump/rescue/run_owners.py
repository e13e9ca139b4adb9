"""Which partition a run of carve belongs to: only what fits one partition of the log directories given, and no other.

What counts: the same batches (offset, CRC and size) stand there; an aborted transaction of its `.txnindex` ends in the
run; its `leader-epoch-checkpoint` has the epochs that begin inside the run, with their offsets; the groups of the run's
commits all have one coordinator partition. Where the same batches stand in one partition only, it is that one, whatever
fits others. A partition that has another batch at an offset of the run is none of them.
Offsets alone never count: they fit by chance. Markers do not count as batches: those of one transaction are the same in
all partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.lookup import Lookup
from kdump.broker.lookup_results import FoundBatch
from kdump.finding import ignore
from kdump.format.batch import layout
from kdump.format.batch.walk import CheckedWalk
from kdump.format.index.transaction_index import TransactionIndex
from kdump.format.java_values import coordinator_partition
from kdump.format.kinds import FileKind
from kdump.format.record.chunk import KEPT
from kdump.format.record.reader import RecordReader, key_and_value
from kdump.format.source import BytesSource
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import OFFSETS_TOPIC
from kdump.storage.partition_dir import InputDirectory
from kdump.storage.segment import UnreadableError
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.format.source import Source
    from kdump.rescue.runs import Run
    from kdump.storage.partition_dir import PartitionDir

_LIMIT = 16 << 20  # bytes: what is compared is small
_GROUPS_PARTITIONS = 50  # by default: offsets.topic.num.partitions
_FIRST_SAMPLES = 8  # batches that are looked for in each partition


class RunOwner(Value):
    """Topic and number of the one partition that a run fits, None for none, and the sentences that say why."""

    partition: tuple[str, int] | None
    evidence: tuple[str, ...]


class RunOwners:
    """What lies in some log directories, to be compared with runs.

    Args:
        paths: log directories or partition directories, as the user wrote them.
    """

    def __init__(self, paths: tuple[str, ...]) -> None:
        self._partitions: list[tuple[tuple[str, int], PartitionDir]] = []
        for path in paths:
            for one in InputDirectory(path).partitions:
                if one.parsed is not None:
                    self._partitions.append(((one.parsed.topic, one.parsed.partition), one))
        self._reader = RecordReader(_LIMIT, cut=KEPT)

    def of(self, run: Run, source: Source) -> RunOwner:
        """Find the partition of a run.

        Args:
            run: the run.
            source: its image.
        """
        if not self._partitions or run.kind != "log" or run.offset < 0:
            return RunOwner(None, ())
        fits: dict[tuple[str, int], list[str]] = {}
        against: set[tuple[str, int]] = set()
        stands: set[tuple[str, int]] = set()
        for name, partition in self._partitions:
            try:
                same, other = self._compare(run, partition)
                reasons = [*same, *_transactions(run, partition), *_epochs(run, partition)]
            except (UnreadableError, OSError):
                continue
            finally:
                partition.close()
            if same:
                stands.add(name)
            if other and not same:
                against.add(name)
            elif reasons:
                known = fits.setdefault(name, [])
                known += [reason for reason in reasons if reason not in known]
        against -= stands  # one directory of that name has the batches of the run: another one is a branch, or stale
        fits = {name: reasons for name, reasons in fits.items() if name not in against}
        if len(stands) == 1:  # two topics may well have epochs that begin at the same offset
            fits = {name: fits[name] for name in stands}
        if not fits:
            commits = self._commits(run, source)
            if commits is not None and commits[0] not in against:
                fits[commits[0]] = [commits[1]]
        if len(fits) == 1:
            [(name, reasons)] = fits.items()
            return RunOwner(name, tuple(reasons))
        several = ", ".join(sorted(f"{topic}-{number}" for topic, number in fits))
        return RunOwner(None, (f"fits more than one partition: {several}",) if fits else ())

    def _compare(self, run: Run, partition: PartitionDir) -> tuple[list[str], bool]:
        """What says that batches of the run stand in a partition; and whether other ones stand in their place."""
        if not len(partition):
            return [], False
        lookup = Lookup(partition, _LIMIT, _LIMIT, lambda _number, _window, _k: None)
        step = max(1, len(run.samples) // _FIRST_SAMPLES)
        same = other = 0
        for _, base, crc, size in run.samples[::step]:
            if base < partition.bases[0]:
                continue
            found = lookup.read(base)
            if not isinstance(found, FoundBatch) or found.cell(layout.LAST_OFFSET) < base:
                continue
            is_same = found.cell(layout.CRC) == crc and found.cell(layout.SIZE) == size
            if is_same:
                same += 1
            elif found.cell(layout.BASE_OFFSET) <= base:
                other += 1
        if same and not other:
            what = "batch of the run stands" if same == 1 else "batches of the run stand"
            return [f"{same} {what} there too, at the same offsets and with the same CRC"], False
        return [], other > 0

    def _commits(self, run: Run, source: Source) -> tuple[tuple[str, int], str] | None:
        """The partition of __consumer_offsets that all groups of the run have."""
        numbers = [number for (topic, number), _ in self._partitions if topic == OFFSETS_TOPIC]
        if not numbers or max(numbers) >= _GROUPS_PARTITIONS:
            return None
        groups: set[str] = set()
        for key in self._keys(run, source):
            group = _group(key)
            if group is None:
                return None
            groups.add(group)
        found = {coordinator_partition(group, _GROUPS_PARTITIONS) for group in groups}
        if len(groups) < 2 or len(found) != 1:  # one group has one partition, whatever the records are
            return None
        number = found.pop()
        return (OFFSETS_TOPIC, number), f"its {len(groups)} groups all have {OFFSETS_TOPIC}-{number} as coordinator"

    def _keys(self, run: Run, source: Source) -> Iterator[bytes | None]:
        for position, _, _, size in run.samples:
            if size > _LIMIT:
                continue
            data = BytesSource(source.read_at(position, size))
            walk = CheckedWalk(data, ignore, next_base=None, max_batch_bytes=_LIMIT)
            for window in walk.windows():
                for chunk in self._reader.chunks(window):
                    for k in range(chunk.filled):
                        row = chunk.rows[k * layout.RECORD_WIDTH : (k + 1) * layout.RECORD_WIDTH]
                        yield key_and_value(chunk.view, row)[0]


def _transactions(run: Run, partition: PartitionDir) -> Iterator[str]:
    """What says that aborted transactions of a partition's index end in the run."""
    if not run.markers:
        return
    ends = {(producer, offset) for producer, _, offset in run.markers}
    for base in partition.bases:
        if partition.has(base, FileKind.TXNINDEX) and base <= run.last_offset:
            source = partition.cache.open(partition.path_of(base, FileKind.TXNINDEX))
            if isinstance(source, OpenFailure):
                continue
            for entry in TransactionIndex(source, base):
                if (entry.producer_id, entry.last_offset) in ends:
                    yield f"the transaction of producer {entry.producer_id} that its .txnindex has ends in the run"
                    return


def _epochs(run: Run, partition: PartitionDir) -> Iterator[str]:
    """What says that the epochs that begin inside the run begin there in a partition too."""
    begun = [(epoch, offset) for epoch, offset in run.epochs[1:] if offset > 0]
    known = {(entry.epoch, entry.start_offset) for entry in partition.epochs}
    if begun and known.issuperset(begun):
        epoch, offset = begun[0]
        yield f"its leader-epoch-checkpoint has epoch {epoch} from offset {offset} on, as the run"


def _group(key: bytes | None) -> str | None:
    """The group of a key of __consumer_offsets, None for another key. Source: OffsetCommitKey, GroupMetadataKey."""
    if key is None or len(key) < 4:
        return None
    kind = int.from_bytes(key[:2], "big", signed=True)
    if not 0 <= kind <= 16:
        return None
    end = 4 + int.from_bytes(key[2:4], "big")
    try:
        group = key[4:end].decode()
    except UnicodeDecodeError:
        return None
    if kind <= 1:  # topic and partition follow, and nothing else
        topic = int.from_bytes(key[end : end + 2], "big")
        return group if len(key) == end + 2 + topic + 4 else None
    return group if len(key) == end or kind > 2 else None
