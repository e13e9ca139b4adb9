"""Processes that judge segments, and what they find in the order of the segments.

Each process has its own share of the segments and its own pipe, and judges them in order; whoever reads takes segment
after segment from the process that has it. A process that is ahead waits when its pipe is full: nothing grows.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Self

from kdump.checks.job import SegmentSummary, nothing_known
from kdump.checks.segment import check_segment
from kdump.format.kinds import FileKind
from kdump.storage.file_source import OpenFailure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.connection import Connection

    from kdump.checks.job import SegmentJob
    from kdump.checks.options import VerifyOptions
    from kdump.checks.segment import Result

_TOGETHER = 64  # results that go through the pipe at once


class Workers:
    """Judges segments in `options.jobs` processes; in this one when that is 1.

    Args:
        jobs: all segments, in the order in which `of` will be asked for them.
        sizes: of their logs, bytes: what the shares are made by.
        options: what was asked for.
    """

    def __init__(self, jobs: Sequence[SegmentJob], sizes: Sequence[int], options: VerifyOptions) -> None:
        self._jobs = jobs
        self._options = options
        self._pipes: list[Connection] = []
        self._owners: list[int] = []
        count = min(options.jobs, len(jobs))
        self._processes = []
        if count > 1:
            from multiprocessing import get_context  # it costs a tenth of the start

            self._owners = _shares(sizes, count)
            context = get_context("fork")
            for number in range(count):
                ours, theirs = context.Pipe(duplex=False)
                self._pipes.append(ours)
                process = context.Process(target=self._work, args=(number, theirs), daemon=True)
                process.start()
                theirs.close()
                self._processes.append(process)

    def of(self, number: int) -> Iterator[Result]:
        """Yield the results of a segment, its facts last; segments are asked for in order."""
        if not self._processes:
            yield from check_segment(self._jobs[number], self._options)
            return
        pipe = self._pipes[self._owners[number]]
        while True:
            try:
                results: list[Result] = pipe.recv()
            except EOFError:
                path = self._jobs[number].files[FileKind.LOG]
                why = "not judged: the process that had it was ended; fewer of them (-j) leave more memory to each"
                yield OpenFailure(path, "read", f"{path}: {why}")
                yield nothing_known(self._jobs[number])
                return
            yield from results
            if isinstance(results[-1], SegmentSummary):
                return

    def _work(self, number: int, pipe: Connection) -> None:
        for ours in self._pipes:
            ours.close()  # only who reads may hold them: else nobody here would learn that it has ended
        for at, job in enumerate(self._jobs):
            if self._owners[at] != number:
                continue
            held: list[Result] = []
            for result in check_segment(job, self._options):
                held.append(result)
                if len(held) >= _TOGETHER or isinstance(result, SegmentSummary):
                    try:
                        pipe.send(held)
                    except BrokenPipeError:  # nobody reads any more
                        os._exit(0)
                    held = []
        pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()


def _shares(sizes: Sequence[int], count: int) -> list[int]:
    """Who judges which segment: the largest first, each to the one that has least to do."""
    owners = [0] * len(sizes)
    loads = [0] * count
    for at in sorted(range(len(sizes)), key=lambda at: -sizes[at]):
        owners[at] = loads.index(min(loads))
        loads[owners[at]] += sizes[at] + 1
    return owners
