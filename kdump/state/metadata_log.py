"""The metadata log as a controller loads it: the newest snapshot that counts, then the log behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Finding, Severity
from kdump.format.batch import layout
from kdump.format.kinds import FileKind
from kdump.item import Checked
from kdump.rows.coordinators import Horizon
from kdump.state.doubt import Doubt
from kdump.state.metadata_image import MetadataImage
from kdump.state.partition_log import START, Cut, PartitionLog, SnapshotLog
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import METADATA_TOPIC
from kdump.value import TupleValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kdump.format.read_limits import ReadLimits
    from kdump.item import PartitionChecked
    from kdump.state.partition_log import Steps
    from kdump.storage.partition_dir import PartitionDir

    Report = Callable[[Finding | OpenFailure], None]


class KraftSnapshot(TupleValue):
    """A snapshot: end offset (exclusive), epoch and path."""

    end: int
    epoch: int
    path: str


class Until(TupleValue):
    """What of the log counts."""

    when: int | None = None  # ms; None where an offset or the end counts
    offset: int | None = None  # the last record that counts; None for all


class Begun(TupleValue):
    """A fold: the state, the place in the log that it has come to, the offset that it began at, and with what."""

    image: MetadataImage
    place: Cut
    begin: int
    snapshot: KraftSnapshot | None
    exact_from: int | None


class MetadataLog:
    """Reads one copy of the metadata log.

    Args:
        directory: of the partition.
        limits: what is read at most.
        report: takes what is wrong, and what cannot be read.

    Reports: R07; what is wrong with a damaged log or snapshot.
    """

    def __init__(self, directory: PartitionDir, limits: ReadLimits, report: Report) -> None:
        self._directory = directory
        self._limits = limits
        self._report = report
        self.log = PartitionLog(directory, limits, report)  # the log itself
        self._doubt = Doubt(self.log, report, METADATA_TOPIC)
        self._unsound: set[str] = set()
        self._checked: dict[str, Checked] = {}
        names = ((name, directory.listing.name_of(name)) for name in directory.listing.files)
        self._snapshots = sorted(
            KraftSnapshot(one.base_offset, one.epoch or 0, directory.listing.join(name))
            for name, one in names
            if one.kind is FileKind.CHECKPOINT and one.is_live and one.base_offset is not None
        )

    # --- places -----------------------------------------------------------------------------------------------
    def cuts(self, untils: Sequence[Until]) -> Steps[list[Cut]]:
        """Return up to where the log counts; the log is walked to its end."""
        times = iter((yield from self.log.cuts([one.when for one in untils if one.when is not None])))
        yield from self.log.survey()
        end = Cut(len(self.log.bases), 0, self.end_offset)
        cuts = []
        for one in untils:
            if one.when is not None:
                cuts.append(next(times))
            elif one.offset is None:
                cuts.append(end)
            else:
                place, _ = yield from self.log.place(min(one.offset + 1, end.offset), layout.BASE_OFFSET)
                cuts.append(place)
        return cuts

    @property
    def end_offset(self) -> int:
        """The offset after the last record of log and snapshots; the log was walked."""
        known = self.log.end_offset(Cut(len(self.log.bases), 0, -1)) if self.log.bases else -1
        return max([known, 0, *(one.end for one in self._snapshots)])

    # --- folds ------------------------------------------------------------------------------------------------
    def begin(self, cut: Cut, *, keep_origins: bool) -> Steps[Begun]:
        """Return the state at the newest snapshot that is not behind a place, and where the log continues.

        Without one that is sound it begins with the log; where that has lost its begin, with the oldest snapshot: its
        state is then later than was asked for, and `exact_from` says so.

        Args:
            cut: up to where the log counts.
            keep_origins: see `MetadataImage`.
        """
        usable = [one for one in self._snapshots if one.end <= cut.offset]
        later = [one for one in self._snapshots if one.end > cut.offset]
        starts_at_0 = bool(self.log.bases) and self.log.log_start == 0
        for snapshot in [*reversed(usable), *([] if starts_at_0 else later)]:
            image = yield from self._read(snapshot, keep_origins=keep_origins)
            if image is not None:
                place, largest = yield from self.log.place(snapshot.end)
                times = [time for time in (largest, image.last_contained) if time is not None and time >= 0]
                since = max(times, default=None) if snapshot.end else None
                return Begun(image, place, snapshot.end, snapshot, since)
        image = self._image(keep_origins=keep_origins)
        image.is_whole = starts_at_0
        return Begun(image, START, self.log.log_start, None, None)

    def fold(self, begun: Begun, cut: Cut) -> Steps[Begun]:
        """Take what follows into account, up to a place."""
        if begun.place[:2] < cut[:2]:
            for path, chunk in self.log.chunks(begun.place, cut):
                begun.image.add(path, chunk, begun.place.offset, cut.offset - 1)
                yield self.log.how_far
            return begun._replace(place=cut)
        return begun

    def horizon(self, begun: Begun) -> Horizon:
        """Since when answers are exact."""
        known = self.log.horizon
        offset, since = begun.begin, begun.exact_from
        if known.exact_from is not None and known.offset > offset:  # what compaction never does to this log
            offset, since = known.offset, known.exact_from
        return Horizon(self.log.name, self._directory.path, since, offset)

    def checked(self) -> Iterator[Checked | PartitionChecked]:
        """Yield what was read, for the totals."""
        yield from self._checked.values()
        yield from self.log.checked()

    def _image(self, *, keep_origins: bool) -> MetadataImage:
        return MetadataImage(self._doubt, keep_origins=keep_origins)

    def _read(self, snapshot: KraftSnapshot, *, keep_origins: bool) -> Steps[MetadataImage | None]:
        """Read a snapshot; None where it is damaged or not whole."""
        if snapshot.path in self._unsound:
            return None
        found: list[Finding | OpenFailure] = []
        log = SnapshotLog(self._directory, snapshot.path, self._limits, found.append)
        image = MetadataImage(Doubt(log, found.append, METADATA_TOPIC), keep_origins=keep_origins)
        for path, chunk in log.chunks(START, Cut(1, 0, -1)):
            image.add(path, chunk, 0, None, of_snapshot=True)
            yield self.log.how_far  # a snapshot is small beside the log
        for one in found:
            self._report(one)
        self._checked[snapshot.path] = next(one for one in log.checked() if isinstance(one, Checked))
        bad = any(isinstance(one, OpenFailure) or one.severity is Severity.ERROR for one in found)
        if bad or not image.is_finished:
            self._unsound.add(snapshot.path)
            why = "it is damaged" if bad else "it has no end: it was not finished"
            self._report(OpenFailure(snapshot.path, "other", f"{snapshot.path}: {why}: not used"))
            return None
        return image
