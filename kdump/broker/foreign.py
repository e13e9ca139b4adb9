"""Whether a segment is another partition's: two independent facts say so, or it fits another one.

Verify and salvage go by this: the one says it, and the other leaves the segment out.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding
from kdump.format.batch import layout
from kdump.format.kinds import FileKind
from kdump.storage.file_source import OpenFailure
from kdump.storage.misplaced import end_of_log
from kdump.storage.open_files import open_source
from kdump.storage.partition_dir import PartitionDir
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kdump.format.batch.window import Window

_MOST_LOOKS = 4  # segments of a partition that are looked for in others
_MOST_BESIDE = 256  # partitions


class LogShape(Value):
    """What the batches of a log tell of where it is from."""

    # Of its first batch; None where it tells none. The base offset where that begins below and goes beyond: so begins
    # the first segment of a new leader that overlaps the one before. Source: LocalLog.roll.
    first_offset: int | None
    is_whole: bool  # nothing was put into the log or taken out: every byte is in a batch of its own
    is_whole_at_end: bool  # it ends with a batch whose CRC and offsets are right, or is empty
    has_holes: bool  # offsets are missing within it, or batches lack records
    epochs: tuple[int, int] | None  # the lowest and the highest leader epoch; None where a batch has none
    off_epochs: bool  # the leader-epoch-checkpoint contradicts each of its batches, and there are several
    unknown_epochs: bool  # that has the epoch of none of them: it contradicts them, or may be older


class SegmentOrigin(Value):
    """What a segment and its surroundings tell about where it is from."""

    log: str  # its path
    base_offset: int
    next_base: int | None  # None after the last
    batches: int
    end_offset: int  # the offset after its last batch
    shape: LogShape
    times: tuple[int, int] | None  # timestamp of the first batch, and the largest, ms; None where there is none
    is_other_index: bool  # its indexes are of another log
    skips: bool  # sequences of producers do not go on; False where nobody has looked
    shown_end: tuple[int, str] | None  # of the last segment: where the log ends, and what says so


class _Neighbour(Value):
    """What the segment before, or the first batch of the one after, says: epochs and times, lowest and highest."""

    epochs: tuple[int, int] | None
    times: tuple[int, int] | None


class ForeignSegments:
    """Finds the segments of a partition that are another's.

    Args:
        directory: of the partition.
    """

    def __init__(self, directory: PartitionDir) -> None:
        self._directory = directory
        self._before: _Neighbour | None = None
        self._end_before: int | None = None  # of the segment before, where it is known
        self._looks = 0

    def skip(self) -> None:
        """Nothing is known of the next segment."""
        self._before, self._end_before = None, None

    def judge(self, one: SegmentOrigin) -> Finding | None:
        """Return what is wrong with the next segment, in the order of offsets; None for one of this partition.

        Args:
            one: what it tells.

        Reports: F15.
        """
        found = self._foreign(one) if one.batches else None
        if found is not None:
            self.skip()
            return found
        self.keep(one)
        return None

    def keep(self, one: SegmentOrigin) -> None:
        """Take a segment as one of this partition.

        Args:
            one: what it tells.
        """
        self._before = _Neighbour(one.shape.epochs, one.times)
        self._end_before = one.end_offset if one.shape.is_whole_at_end else None

    def _foreign(self, one: SegmentOrigin) -> Finding | None:
        now = _Neighbour(one.shape.epochs, one.times)
        joints = self._joints(one)
        if not (one.shape.off_epochs or one.is_other_index or one.skips or joints or _apart(self._before, now, None)):
            return None
        after = self._first_of_next(one)
        is_apart = one.batches > 1 and _apart(self._before, now, after, "epochs")
        is_sure = len(joints) == 2 and any(overlaps for overlaps, _ in joints)
        # one that has the epochs of the segments beside is not older than this one
        is_off = one.shape.off_epochs or (is_apart and one.shape.unknown_epochs)
        why = []
        if (is_off or is_apart) and one.shape.epochs is not None:
            said = ["the leader-epoch-checkpoint"] if is_off else []
            said += ["the segments beside it"] if is_apart else []
            lowest, highest = one.shape.epochs
            which = f"epoch {lowest} contradicts" if lowest == highest else f"epochs {lowest}..{highest} contradict"
            why.append(f"its leader {which} {' and '.join(said)}")
            is_sure |= len(said) == 2
        if any(overlaps for overlaps, _ in joints) or is_sure:
            why += [sentence for _, sentence in joints]
        if one.is_other_index:
            why.append("its indexes are of another log")
        if one.skips:
            why.append("sequences of producers do not go on")
        if _apart(self._before, now, after, "times"):
            why.append("its timestamps lie before those of the segment before it, or after those of the next")
        home = None if len(why) > 1 and not joints else self._home(one)
        if len(why) < 2 and not is_sure and home is None:
            return None
        if home is not None:
            why = [*(why or [sentence for _, sentence in joints]), f"it fits {os.path.basename(home)}"]
        return Finding(
            Code.F15,
            one.log,
            offset=one.shape.first_offset,
            last_offset=one.end_offset - 1 if one.shape.first_offset is not None else None,
            values={"what": "a segment of another partition", "why": "; ".join(why)},
        )

    def _joints(self, one: SegmentOrigin) -> list[tuple[bool, str]]:
        """Where the offsets do not go on from the segment before, or to the next: whether they overlap, and a sentence.

        Compaction leaves offsets out too: where some are missing inside, those that are missing at an end say nothing;
        nor where one batch is all that there is, which has no inside.
        """
        first, end, base, before = one.shape.first_offset, one.end_offset, one.base_offset, self._end_before
        if first is None or not one.shape.is_whole:
            return []
        found = []
        if first not in (base, base if before is None else before):
            floor = base if before is None else before
            found.append((first < floor, f"it begins with offset {first}, and the one before it ends before {floor}"))
        after, what = one.shown_end or (None, "")
        if one.next_base is not None:
            after, what = one.next_base, "the next one begins at"
        is_told = after not in (None, end)
        if is_told and not (after == one.next_base and self._is_below_name(one, self._head_of_next(one))):
            found.append((end > (after or 0), f"it ends before offset {end}, and {what} {after}"))
        says_nothing = one.shape.has_holes or one.batches == 1
        return [joint for joint in found if joint[0] or not says_nothing]

    @staticmethod
    def _is_below_name(one: SegmentOrigin, head: bytes | None) -> bool:
        """Whether the first batch of the next segment lies below its name: that one tells nothing of this one."""
        if head is None or one.next_base is None:
            return False
        delta = head[layout.LAST_OFFSET_DELTA_AT : layout.LAST_OFFSET_DELTA_AT + 4]
        last = int.from_bytes(head[: layout.SIZE_AT], "big", signed=True) + int.from_bytes(delta, "big", signed=True)
        return last < one.next_base

    def _home(self, one: SegmentOrigin) -> str | None:
        """The partition beside this one that the segment fits, and this one's fits there, where offsets tell it."""
        first, end = one.shape.first_offset, one.end_offset
        if first is None or self._looks == _MOST_LOOKS:
            return None
        self._looks += 1
        log_dir = self._directory.log_dir
        for path in log_dir.listing.partitions()[:_MOST_BESIDE]:
            other = PartitionDir(path, log_dir)
            if other.name == self._directory.name or first not in other.bases:
                continue
            if first != one.base_offset and other.next_base(first) in (None, end):
                return path
            is_full = first == one.base_offset and other.next_base(first) == end
            if is_full and one.next_base not in (None, end) and end_of_log(other, first) == one.next_base:
                return path
        return None

    def _first_of_next(self, one: SegmentOrigin) -> _Neighbour | None:
        """Epoch and time of the first batch of the next segment; None where that is under the name of another one."""
        head = self._head_of_next(one)
        if head is None or self._is_below_name(one, head):
            return None
        epoch = int.from_bytes(head[layout.LEADER_EPOCH_AT : layout.LEADER_EPOCH_AT + 4], "big", signed=True)
        time = int.from_bytes(head[layout.MAX_TIMESTAMP_AT : layout.MAX_TIMESTAMP_AT + 8], "big", signed=True)
        return _Neighbour((epoch, epoch), (time, time))

    def _head_of_next(self, one: SegmentOrigin) -> bytes | None:
        """The header of the first batch of the next segment; None where there is none of magic 2."""
        if one.next_base is None:
            return None
        opened = open_source(self._directory.path_of(one.next_base, FileKind.LOG), follow=False)
        if isinstance(opened, OpenFailure):
            return None
        try:
            with opened:
                head = opened.read_at(0, layout.RECORDS_AT)
        except OSError:
            return None
        return head if len(head) >= layout.RECORDS_AT and head[layout.MAGIC_AT] == layout.MAGIC_V2 else None


def _apart(before: _Neighbour | None, now: _Neighbour, after: _Neighbour | None, what: str = "epochs") -> bool:
    """Whether all of a segment lies below what was before it, or above what comes after it."""
    own = getattr(now, what)
    if own is None or own[0] < 0:
        return False
    lower = None if before is None else getattr(before, what)
    upper = None if after is None else getattr(after, what)
    return (lower is not None and own[1] < lower[0]) or (upper is not None and own[0] > upper[1] >= 0)


def shown_end(directory: PartitionDir, end: int) -> tuple[int, str] | None:
    """Return where a log ends by the broker that has closed it, or else by its snapshots where these go beyond its end.

    Args:
        directory: of the partition.
        end: the log end offset by its batches.
    """
    if directory.closed_at is not None:
        return directory.closed_at, "the broker had closed the log at"
    reached = highest_snapshot(directory)
    return None if reached[0] <= end else (reached[0], f"the snapshot {reached[1]} goes on to")


def highest_snapshot(directory: PartitionDir) -> tuple[int, str]:
    """Return the highest offset of a producer snapshot, and its name; 0 where there is none."""
    found = [
        (file.name.base_offset, os.path.basename(file.path))
        for file in directory.contents.files
        if file.name.kind is FileKind.SNAPSHOT and file.name.base_offset is not None
    ]
    return max(found, default=(0, ""))


def times_of(window: Window, first: int | None, largest: int | None) -> tuple[int | None, int | None]:
    """Return the timestamp of the first batch and the largest of all, ms; batches with a wrong CRC say nothing.

    Args:
        window: the next batches.
        first, largest: of those before; None where there is none that has timestamps.
    """
    latest, magics = window.column(layout.MAX_TIMESTAMP), window.column(layout.MAGIC)
    if window.all_trusted and min(magics):
        rows: Sequence[int] = range(window.count)
        most = max(latest)
    else:
        stored, computed = window.column(layout.CRC), window.column(layout.COMPUTED_CRC)
        rows = [k for k in range(window.count) if stored[k] == computed[k] and magics[k]]
        if not rows:
            return first, largest
        most = max([latest[k] for k in rows])
    if first is None:
        k = rows[0]
        has_base = magics[k] >= layout.MAGIC_V2 and not window.cell(k, layout.ATTRIBUTES) & layout.DELETE_HORIZON_FLAG
        first = window.cell(k, layout.BASE_TIMESTAMP) if has_base else latest[k]
    return first, most if largest is None else max(most, largest)
