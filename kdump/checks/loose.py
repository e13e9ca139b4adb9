"""One file that the user named: judged with what lies beside it, but nothing else is told."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING

from kdump.broker.missing.judge import NOTHING_AROUND, HoleJudge
from kdump.broker.missing.losses import PartitionLosses
from kdump.broker.missing.lost_holes import surroundings, walk_log
from kdump.checks.causes import explained, may_be_effect
from kdump.checks.hole_findings import HoleFindings
from kdump.checks.indexes import index_fold
from kdump.checks.job import MissingInLog, SegmentJob, SegmentSummary
from kdump.checks.names import check_name
from kdump.checks.next_steps import PartitionSteps
from kdump.checks.partition_check import PartitionCheck
from kdump.checks.read_errors import judged
from kdump.checks.segment import check_segment
from kdump.checks.state_files import check_text, read_producers
from kdump.checks.transactions import check_aborted
from kdump.finding import Code, Finding, Severity
from kdump.format.java_values import MAX_LONG
from kdump.format.kinds import TEXT_KINDS, FileKind
from kdump.item import Checked, CheckedFile, Progress
from kdump.storage.evidence import evidence_of
from kdump.storage.file_source import OpenFailure
from kdump.storage.log_dir import LogDir
from kdump.storage.names import base_by_name, parse_name
from kdump.storage.open_files import OpenFileCache, open_source
from kdump.storage.other_formats import why_not_read
from kdump.storage.partition_dir import PartitionDir
from kdump.storage.paths import above, is_stream
from kdump.storage.raft_snapshots import to_copy
from kdump.storage.segment import UnreadableError
from kdump.storage.state_file import StateFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.checks.options import VerifyOptions
    from kdump.checks.swaps import SwapCheck
    from kdump.finding import Report
    from kdump.format.source import Source
    from kdump.item import Item

_NEED_BASE = (FileKind.LOG, FileKind.INDEX, FileKind.TIMEINDEX, FileKind.TXNINDEX)


def check_loose(path: str, options: VerifyOptions) -> Iterator[Item]:
    """Yield what is wrong with one file.

    Args:
        path: as the user wrote it.
        options: what was asked for.

    Reports: the codes of its kind; of an index without its log those that need no log.
    """
    opened = open_source(path)
    if isinstance(opened, OpenFailure):
        yield opened
        return
    with opened:
        why = why_not_read(opened)
    if why is not None:
        yield from (one for one in (check_name(path),) if one is not None)
        yield OpenFailure(path, "type", f"{path}: {why}")
        return
    folder = os.path.dirname(path)
    lies = PartitionDir(folder, LogDir(above(folder)))  # an empty path: names as the user wrote them
    if parse_name(os.path.basename(path)).kind not in _NEED_BASE:
        yield from PartitionSteps(lies, [], options, path).through(_by_kind(path, lies, [], options))
        return
    check = PartitionCheck(lies, path)
    directory, jobs, swaps = check.directory, check.jobs, _swaps(check, options)
    said = chain(() if swaps is None else swaps.of(path), _by_kind(path, directory, jobs, options))
    yield from PartitionSteps(directory, jobs, options, path, swaps).through(said)


def _swaps(check: PartitionCheck, options: VerifyOptions) -> SwapCheck | None:
    """What waits beside a file to be put in place; None for nothing."""
    if not check.swapped.waiting:
        return None
    from kdump.broker.awaiting_deletion import logs_awaiting_deletion  # few have any
    from kdump.checks.swaps import SwapCheck

    limit = options.max_batch_bytes
    removed = {one.file: one for one in logs_awaiting_deletion(check.swapped.today, limit)}
    return SwapCheck(check.swapped, removed, limit)


def _by_kind(path: str, directory: PartitionDir, jobs: Sequence[SegmentJob], options: VerifyOptions) -> Iterator[Item]:
    name = parse_name(os.path.basename(path))
    if name.kind in _NEED_BASE and name.base_offset is None:
        base = base_by_name(name, path)
        if base is None:
            yield OpenFailure(path, "base", f"{path}: no base offset in the name: a segment is named <20 digits>.log")
        else:
            yield from _of_segment(path, name.kind, base, (), options, directory)
    elif name.kind is FileKind.UNKNOWN and is_stream(path):
        from kdump.storage.streams import first_offset  # few name one

        yield from _judged(SegmentJob.alone(path, first_offset(open_source(path)), only=path), options, FileKind.LOG)
    elif name.kind is FileKind.UNKNOWN:
        yield OpenFailure(path, "type", f"{path}: the name does not tell what this is; kdump dump --type KIND shows it")
    elif name.kind in TEXT_KINDS:
        yield from _grouped(check_text(StateFile(path, name.kind, OpenFileCache())))
    elif name.kind is FileKind.SNAPSHOT:
        yield from _grouped(iter(read_producers(StateFile(path, name.kind, OpenFileCache()))[1]))
    elif name.kind is FileKind.CHECKPOINT:
        job = SegmentJob.alone(path, 0, only=path)
        for one in _judged(job, options, FileKind.CHECKPOINT):
            yield to_copy(one) if isinstance(one, Finding) else one
    else:
        yield from _of_segment(path, name.kind, name.base_offset or 0, jobs, options, directory)


def _of_segment(
    path: str, kind: FileKind, base: int, jobs: Sequence[SegmentJob], options: VerifyOptions, around: PartitionDir
) -> Iterator[Item]:
    job = next((job for job in jobs if job.files.get(kind) == path), None)
    if kind is FileKind.TXNINDEX:
        yield from _grouped(_aborted(path, base))
    elif job is not None:
        yield from _judged(job, options, kind, around)
    elif kind is FileKind.LOG:  # a copy, under a name that no broker loads
        copy = SegmentJob.alone(path, base, only=path)
        yield from _judged(copy, options, kind)
    else:
        yield from _grouped(_index_alone(path, kind, base))


def _judged(
    job: SegmentJob, options: VerifyOptions, kind: FileKind, around: PartitionDir | None = None
) -> Iterator[Item]:
    held: list[Finding] = []
    path = job.files[FileKind.LOG]
    directory = os.path.dirname(os.path.abspath(path))
    folder = os.path.dirname(path) or os.curdir
    judge = HoleJudge(NOTHING_AROUND if around is None else surroundings(around, options.policies_for(around)))
    unread = None if around is None else evidence_of(around).rows_unread
    if unread is not None:
        yield unread
    losses = PartitionLosses(folder, os.path.basename(directory), job.start_offset, judge)
    holes = HoleFindings(losses)
    for result in check_segment(job, options):
        if isinstance(result, MissingInLog):
            judge.trace(result.traced_to)
            if kind is FileKind.LOG:
                yield from holes.settle(losses.take(result.ranges))
        elif isinstance(result, SegmentSummary):
            yield from holes.settle((), list(explained(job, result, held)))
            if result.overlaps and kind is FileKind.LOG:
                from kdump.checks.duplicates import Duplicates  # few logs have any

                yield from Duplicates(folder, os.path.basename(directory), options).of(result.overlaps, [path])
            size = result.sizes.get(kind if kind in result.sizes else FileKind.LOG)
            if kind is FileKind.LOG:
                yield result.checked(job, deep=options.deep)
            files = () if size is None or job.only is None else (CheckedFile(job.only, kind, size),)
            if around is not None and losses.has_waiting:
                losses.judge_as_in(_in_all_logs(around, options))
            yield from holes.rest()
            yield Checked(files, result.batches, result.records)
        elif may_be_effect(result):
            held.append(result)
        elif options.progress or not isinstance(result, Progress):
            yield from holes.take(result)


def _in_all_logs(around: PartitionDir, options: VerifyOptions) -> PartitionLosses:
    """Return the losses of the whole partition, none of them settled: a hole of one log may go on in the next."""
    judge = HoleJudge(surroundings(around, options.policies_for(around)))
    losses = PartitionLosses(around.path, around.name, around.start_offset, judge)
    for number in range(len(around)):
        with suppress(OSError, UnreadableError):  # it says nothing then
            for _ in walk_log(around, number, options.limits, judge, losses):
                losses.verdicts.clear()
    return losses


def _grouped(items: Iterator[Finding | OpenFailure | CheckedFile]) -> Iterator[Item]:
    files: list[CheckedFile] = []
    for one in items:
        if isinstance(one, CheckedFile):
            files.append(one)
        else:
            yield one
    yield Checked(tuple(files), 0, 0)


def _aborted(path: str, base: int) -> Iterator[Finding | OpenFailure | CheckedFile]:
    def judge(source: Source, report: Report) -> None:
        check_aborted(source, base, [], complete=False, first_known=0, end=MAX_LONG, report=report)

    return judged(path, FileKind.TXNINDEX, judge)


def _index_alone(path: str, kind: FileKind, base: int) -> Iterator[Finding | OpenFailure | CheckedFile]:
    """An index without its log: only its size and its order can be judged."""

    def judge(source: Source, report: Report) -> None:
        fold = index_fold(kind, source, base, report, may_be_untrimmed=True)
        fold.gap()
        for _ in fold.finish(MAX_LONG, MAX_LONG, 0):
            pass
        why = "no log is beside it: only its size and its order were judged"
        report(Finding(Code.F08, path, values={"why": why}, severity_override=Severity.WARNING))

    return judged(path, kind, judge)
