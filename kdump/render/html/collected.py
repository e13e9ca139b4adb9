"""What a report is about: the items of verify put to the files and partitions that they belong to.

What is kept grows with what was found, and with the number of partitions and segments: nothing grows with a file. Of
each finding the place is kept, for the maps; its words only if they are to be shown.
"""

from __future__ import annotations

import os
from array import array
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from kdump.dispatch import Dispatcher, takes
from kdump.finding import Code, Finding, Severity
from kdump.format.kinds import FileKind
from kdump.item import Checked, PartitionChecked, SegmentChecked
from kdump.render.fold import FileFindings
from kdump.rows.steps import Step
from kdump.rows.verdict import Certainty, Loss, Prediction
from kdump.storage.file_source import OpenFailure
from kdump.verdict import DAMAGED as IS_DAMAGED
from kdump.verdict import LOST, SOUND, UNREAD, WARNING, Judgement

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable

    from kdump.item import Item

DAMAGED, PASSED, SUSPECT = range(3)
"""What a place is: wrong, passed over as it belongs to no batch, or suspicious."""

MARK = 7
"""Numbers of a place: position, length, what it is, code, first and last offset, finding; -1 for none."""

CODES = tuple(Code)
_NUMBER = {code: at for at, code in enumerate(CODES)}
_SEGMENT_KINDS = (FileKind.TIMEINDEX, FileKind.INDEX, FileKind.TXNINDEX, FileKind.LOG)
_PATTERN = frozenset("*?[")  # may stand for several paths
_RANKS = {IS_DAMAGED: 0, LOST: 1, UNREAD: 2, WARNING: 3, SOUND: 4}


class FoundInFile(FileFindings):
    """What was found in one file.

    Args:
        path: of the file.
        fold: write out four findings of each code and severity, and no effects.
    """

    def __init__(self, path: str, *, fold: bool) -> None:
        super().__init__(fold=fold)
        self.path = path  # of the file
        self.shown: list[Finding] = []  # what is written out
        self.marks = array("q")  # the places of errors and warnings, `MARK` numbers each
        self.whole: dict[Code, None] = {}  # codes of errors and warnings about the whole file
        self.codes: dict[tuple[Code, Severity], int] = {}  # how many of each

    def take(self, finding: Finding) -> None:
        """Take one more."""
        is_shown = self.add(finding)
        kind = finding.code, finding.severity
        self.codes[kind] = self.codes.get(kind, 0) + 1 + (finding.more or 0)
        if is_shown:
            self.shown.append(finding)
        if finding.severity is Severity.NOTE:
            return
        if finding.position is None:
            self.whole[finding.code] = None
            return
        what = SUSPECT if finding.severity is Severity.WARNING else PASSED if finding.gap else DAMAGED
        offset = -1 if finding.offset is None else finding.offset
        last = offset if finding.last_offset is None else finding.last_offset
        at = len(self.shown) - 1 if is_shown else -1
        place = finding.position, finding.length or 0, what, _NUMBER[finding.code], offset, last, at
        self.marks.extend(place)

    @property
    def word(self) -> str:
        """The verdict."""
        return self.verdict.word()


class SegmentFound:
    """The files of a segment in which something is wrong.

    Args:
        stem: the path of its log without the suffix.
    """

    def __init__(self, stem: str) -> None:
        self.stem = stem  # the path of its log without the suffix
        self.sizes: dict[FileKind, int] = {}  # bytes of each kind of file that was read
        self.paths: dict[FileKind, str] = {}  # of these files
        self.checked: SegmentChecked | None = None  # what is known of its log; None where that was not judged

    @property
    def kinds(self) -> list[FileKind]:
        """What is there, the log last."""
        return [kind for kind in _SEGMENT_KINDS if kind in self.sizes]


class LossesFound:
    """What readers of one partition do not get."""

    def __init__(self) -> None:
        self.partition: str | None = None  # its name; None without any loss
        self.losses: list[Loss] = []  # without what is unexplained
        self.unexplained = array("q")  # first and last offset, pair by pair: a compacted log may have many
        self.because: dict[str, None] = {}  # codes that say why something is unexplained

    def take(self, loss: Loss) -> None:
        """Take one more."""
        self.partition = loss.partition
        if loss.certainty is not Certainty.UNEXPLAINED:
            self.losses.append(loss)
        else:
            self.unexplained.extend((loss.offset, loss.last_offset))
            self.because.update(dict.fromkeys(loss.because))


class PartitionFound:
    """A partition, a file that was named, or a directory in which something else was found.

    Args:
        path: of it.
        checked: what verify says of the partition; None for what is none.
    """

    def __init__(self, path: str, checked: PartitionChecked | None = None) -> None:
        self.path = path  # of the partition, file or directory
        self.checked = checked  # what verify says of the partition; None for what is none
        self.files: dict[str, FoundInFile] = {}  # in which something was found, by path
        self.segments: list[SegmentFound] = []  # that have a map
        self.unread = 0  # how many of its files could not be read
        self.size: int | None = None if checked is None else checked.size  # bytes; None where that is not known
        self.lost = LossesFound()  # what readers do not get
        self.predictions: list[Prediction] = []  # what a start of a broker does

    @property
    def counts(self) -> Counter[Severity]:
        """How many findings of each severity there are."""
        return +self._verdict.severities

    @property
    def _verdict(self) -> Judgement:
        found = Judgement()
        for file in self.files.values():
            found.join(file.verdict)
        return found

    @property
    def word(self) -> str:
        """The verdict."""
        lost = self.checked.offsets_lost if self.checked is not None else len(self.lost.losses)
        return self._verdict.word(is_lost=lost > 0, is_unread=self.unread > 0)

    @property
    def rank(self) -> int:
        """What comes first: damage, then what is lost, what is not known, warnings, notes, and what is sound."""
        word = _RANKS[self.word]
        return word if word < _RANKS[SOUND] or self.counts else word + 1

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong with it."""
        return self.rank >= _RANKS[SOUND]

    @property
    def name(self) -> str:
        """Of the partition or the file: as the items have it, for a path may be `.`."""
        told = self.predictions[0].partition if self.predictions else self.lost.partition
        own = os.path.basename(self.path.rstrip("/")) or self.path
        return told if told is not None and own in (".", "..") else own

    @property
    def title(self) -> str:
        """The path, and the name where that does not have it."""
        return self.path if self.path.rstrip("/").endswith(self.name) else f"{self.path} ({self.name})"


class _NamedPaths:
    """Files that the user named, or wrote a pattern for."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = frozenset(paths)
        self._patterns = [path for path in self._paths if _PATTERN & set(path)]

    def __contains__(self, path: str) -> bool:
        # no pattern goes over a slash
        return path in self._paths or any(
            path.count("/") == one.count("/") and fnmatchcase(path, one) for one in self._patterns
        )


class Collected(Dispatcher):
    """Takes the items of verify.

    Args:
        paths: what the user named: these files have a row each.
        fold: write out four findings of each code in a file, and no effects.
        wanted: tells what is shown when little is to be shown; None for everything.
        keep: keep the sizes of all segments: the last findings may be about any.
    """

    def __init__(self, paths: Iterable[str], *, fold: bool, wanted: Callable[[Item], bool] | None, keep: bool) -> None:
        self._named = _NamedPaths(paths)
        self.is_folded = fold  # not all findings are shown
        self._wanted = wanted
        self._keep = keep
        self._partitions: dict[str, PartitionFound] = {}
        self._files: dict[str, FoundInFile] = {}
        self._loose: dict[str, int] = {}  # sizes of the files that were named
        self._recent: dict[str, SegmentFound] = {}  # of the partition in hand
        self._segments: list[SegmentFound] = []
        self._judged: SegmentChecked | None = None
        self._unread: list[str] = []
        self._lost: dict[str, LossesFound] = {}
        self._predictions: list[Prediction] = []
        self.steps: list[Step] = []  # what to do
        self.codes: dict[Code, int] = {}  # how many findings there are of each code

    def see(self, item: object) -> None:
        """Take one item."""
        self.take(item, self._wanted)

    @takes(SegmentChecked, always=True)
    def _segment(self, segment: SegmentChecked) -> None:
        self._judged = segment

    @takes(OpenFailure, always=True)
    def _problem(self, problem: OpenFailure) -> None:
        if problem.kind != "skipped":
            self._unread.append(problem.path)

    @takes(Loss)
    def _loss(self, loss: Loss) -> None:
        path = loss.file if loss.file is not None and loss.file in self._named else loss.path
        self._lost.setdefault(path, LossesFound()).take(loss)

    @takes(Prediction)
    def _prediction(self, prediction: Prediction) -> None:
        self._predictions.append(prediction)

    @takes(Step)
    def _step(self, step: Step) -> None:
        self.steps.append(step)

    @takes(Finding)
    def _finding(self, finding: Finding) -> None:
        file = self._files.get(finding.file)
        if file is None:
            file = self._files[finding.file] = FoundInFile(finding.file, fold=self.is_folded)
        file.take(finding)
        self.codes[finding.code] = self.codes.get(finding.code, 0) + 1 + (finding.more or 0)

    @takes(Checked, always=True)
    def _checked(self, item: Checked) -> None:
        for file in item.files:
            if file.path in self._named:
                self._loose[file.path] = file.size
            if file.kind not in _SEGMENT_KINDS:
                continue
            stem = "".join(file.path.rsplit(f".{file.kind.value}", 1))
            segment = self._recent.get(stem)
            if segment is None:
                segment = self._recent[stem] = SegmentFound(stem)
            segment.sizes[file.kind] = file.size
            segment.paths[file.kind] = file.path
            if file.kind is FileKind.LOG and self._judged is not None and self._judged.path == file.path:
                segment.checked = self._judged
        self._judged = None

    @takes(PartitionChecked, always=True)
    def _partition(self, item: PartitionChecked) -> None:
        self._segments += [one for one in self._recent.values() if self._keep or self._is_loud(one)]
        self._recent.clear()
        self._partitions[_directory(item.path)] = PartitionFound(item.path, item)

    def _is_loud(self, segment: SegmentFound) -> bool:
        return any(
            path in self._files and (self._files[path].marks or self._files[path].whole)
            for path in segment.paths.values()
        )

    def ordered(self) -> list[PartitionFound]:
        """Return everything that has a row, the damaged first; to be called at the end."""
        found = dict(self._partitions)
        for path, size in self._loose.items():
            if os.path.dirname(path) not in found:
                found[path] = PartitionFound(path)
                found[path].size = size
        for path, file in self._files.items():
            self._home(found, path).files[path] = file
        for path in self._unread:
            self._home(found, path).unread += 1
        for segment in (*self._segments, *self._recent.values()):
            if self._is_loud(segment):
                self._home(found, next(iter(segment.paths.values()))).segments.append(segment)
        for path, lost in self._lost.items():
            self._home(found, path).lost = lost
        for one in self._predictions:
            self._home(found, one.path).predictions.append(one)
        return sorted(found.values(), key=lambda one: one.rank)

    def _home(self, found: dict[str, PartitionFound], path: str) -> PartitionFound:
        """Where something belongs: the file that was named, the partition, or another directory."""
        if path in found:
            return found[path]
        if _directory(path) in found:
            return found[_directory(path)]
        folder = os.path.dirname(path)
        if folder not in found:
            found[folder] = PartitionFound(folder or ".")
        return found[folder]


def _directory(path: str) -> str:
    """The path of a directory as the paths of its files have it."""
    return os.path.dirname(os.path.join(path, "x"))
