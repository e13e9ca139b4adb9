"""One partition directory: its segments in order, what they leave to be judged together, and its other files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.checks.job import SegmentFacts, SegmentJob
from kdump.checks.names import check_names
from kdump.checks.replay import Replay
from kdump.checks.segment import check_segment
from kdump.checks.state_files import ascend, check_epochs, check_text, read_epochs
from kdump.checks.transactions import open_transactions
from kdump.finding import Code, Finding, Severity
from kdump.format.kinds import FileKind
from kdump.item import Checked, CheckedFile, PartitionChecked
from kdump.storage.directory import Expansion, partition_files
from kdump.storage.names import parse_name, parse_partition
from kdump.storage.paths import exists, size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.checks.options import VerifyOptions
    from kdump.checks.segment import Result
    from kdump.checks.surroundings import Surroundings
    from kdump.item import Item

_OF_SEGMENT = (FileKind.LOG, FileKind.INDEX, FileKind.TIMEINDEX, FileKind.TXNINDEX, FileKind.SNAPSHOT)
_NEVER = 2**63
_NO_LOG = "there is no log for it: a broker removes it"


class PartitionCheck:
    """Judges one partition directory.

    Args:
        path: of the directory.
        around: its log directory.
        only: judge the files of this path only; None for all.

    Attributes:
        path: of the directory.
        jobs: its segments, by base offset.
        sizes: of their logs, bytes.
        around: the log directory.
        checkpoint_findings: K01 and K02, for whoever judges the files of the log directory.
    """

    def __init__(self, path: str, around: Surroundings, only: str | None = None) -> None:
        self.path = path
        self.around = around
        self._listing = Expansion()
        partition_files(path, self._listing)
        self.name = parse_partition(os.path.basename(os.path.abspath(path)))
        self._files = self._by_base()
        self._bases = sorted(base for base, files in self._files.items() if FileKind.LOG in files)
        start = self._bases[0] if self._bases else 0
        if self.name is not None:
            start = max(start, around.start_offset(self.name))
        self._start = start
        self._epochs = read_epochs(self._epoch_file)
        self._usable_epochs = self._epochs if ascend(self._epochs) else ()
        self.jobs = [self._job(base, only) for base in self._bases]
        self.sizes = [_size(job.files[FileKind.LOG]) for job in self.jobs]
        self.checkpoint_findings: list[Finding] = []
        self._end = self._bases[0] if self._bases else 0
        self._has_epochs = False
        self._is_read = True  # up to the end of the last log so far
        self._done: set[str] = set()

    @property
    def _epoch_file(self) -> str:
        return os.path.join(self.path, FileKind.EPOCHS.value)

    def _by_base(self) -> dict[int, dict[FileKind, str]]:
        found: dict[int, dict[FileKind, str]] = {}
        for path in self._listing.files:
            name = parse_name(os.path.basename(path))
            if name.kind in _OF_SEGMENT and name.base_offset is not None and name.uuid is None:
                found.setdefault(name.base_offset, {})[name.kind] = path
        return found

    def _job(self, base: int, only: str | None) -> SegmentJob:
        return SegmentJob(
            self._files[base],
            base,
            self.around.is_clean,
            base == self._bases[-1],
            self.around.is_held,
            self._start,
            self._usable_epochs,
            None if self.name is None else self.name.topic,
            self.name is not None and self.name.state == "delete",
            only,
            is_raft_log=self.name is not None and self.name.is_raft_log,
        )

    def check(self, results: Callable[[int], Iterator[Result]], options: VerifyOptions) -> Iterator[Item]:
        """Yield what is wrong with the partition.

        Args:
            results: gives those of the segment with a number among `jobs`; asked for in order.
            options: what was asked for.

        Reports: A01-A06, E03, F01-F09, K01-K05, O06, O07, P04, S01-S04, and all that a segment shows.
        """
        replay = Replay()
        for number, job in enumerate(self.jobs):
            for result in results(number):
                if isinstance(result, SegmentFacts):
                    yield from self._after(job, result, replay, deep=options.deep)
                else:
                    yield result
        yield from self._rest(replay, options)
        size, count = sum(self.sizes), len(self.jobs)
        ends = (self._start, self._end) if self._bases else (None, None)
        yield PartitionChecked(self.path, count, ends[0], ends[1], size)

    def _after(self, job: SegmentJob, facts: SegmentFacts, replay: Replay, *, deep: bool) -> Iterator[Item]:
        """What a segment leaves to be judged, and the end of its group."""
        read = {kind: CheckedFile(job.files[kind], kind, size) for kind, size in facts.sizes.items()}
        for one in replay.segment(job, facts):
            if isinstance(one, CheckedFile):
                read[one.kind] = one
            elif job.only is None:
                yield one
        self._end = max(self._end, facts.end_offset)
        self._is_read = facts.is_read
        self._has_epochs = self._has_epochs or facts.has_epochs
        self._done.update(job.files.values())
        if job.is_last and job.only is None:
            yield from open_transactions(replay.producers, job.files[FileKind.LOG], self._end)
        yield facts.checked(job, deep=deep)
        shown = tuple(read[kind] for kind in _OF_SEGMENT if kind in read and job.only in (None, read[kind].path))
        yield Checked(shown, facts.batches, facts.records)

    @property
    def _last_end(self) -> int:
        """The log end offset, for those who ask whether something is beyond it; never, when it is not known."""
        return self._end if self._is_read else _NEVER

    # --- the other files ------------------------------------------------------------------------------------
    def _rest(self, replay: Replay, options: VerifyOptions) -> Iterator[Item]:
        shown: list[CheckedFile] = []
        has_sound_epochs = True
        for one in self._other_files(replay, options):
            if isinstance(one, CheckedFile):
                shown.append(one)
            else:
                has_sound_epochs = has_sound_epochs and not (isinstance(one, Finding) and one.file == self._epoch_file)
                yield one
        yield from check_names(self._listing)
        if has_sound_epochs:  # a broker does not start with others
            yield from check_epochs(self._epoch_file, self._epochs, self._last_end, has_epochs=self._has_epochs)
        if self.name is not None and self._bases:
            self.checkpoint_findings.extend(self.around.check(self.name, self.path, self._last_end))
        yield Checked(tuple(shown), 0, 0)

    def _other_files(self, replay: Replay, options: VerifyOptions) -> Iterator[Item | CheckedFile]:
        for path in self._listing.files:
            if path in self._done:
                continue
            kind = parse_name(os.path.basename(path)).kind
            if kind is FileKind.SNAPSHOT:
                yield from replay.snapshot(path, self._last_end, has_log=bool(self._bases))
            elif kind in _OF_SEGMENT:
                if not exists(f"{path.removesuffix(kind.value)}{FileKind.LOG.value}", follow=False):
                    yield Finding(Code.F08, path, values={"why": _NO_LOG}, severity_override=Severity.WARNING)
                yield CheckedFile(path, kind, _size(path))
            elif kind is FileKind.CHECKPOINT:
                yield from self._kraft_snapshot(path, options)
            else:
                yield from check_text(path)

    def _kraft_snapshot(self, path: str, options: VerifyOptions) -> Iterator[Item | CheckedFile]:
        """A snapshot of the metadata log: it has the format of a log, and offsets of its own."""
        job = SegmentJob({FileKind.LOG: path}, 0, True, False, False, 0, (), None, False, is_alone=True)
        for result in check_segment(job, options):
            if not isinstance(result, SegmentFacts):
                yield result
            elif FileKind.LOG in result.sizes:
                yield CheckedFile(path, FileKind.CHECKPOINT, result.sizes[FileKind.LOG])


def _size(path: str) -> int:
    try:
        return size(path)
    except OSError:
        return 0
