"""The verb carve: batches out of any bytes, written as runs that a person or salvage reads.

Strategy: an image is read once. The bytes of a run are copied to a file under a temporary name soon after they were
found, while the system still has them; the files get their names when the image has been read. `carve.jsonl`, which
says what each run is, comes last: while it is missing, the run has not ended.
"""

from __future__ import annotations

import os
from array import array
from functools import partial
from typing import TYPE_CHECKING

from kdump.format.kinds import FileKind
from kdump.format.read_limits import MAX_UNCOMPRESSED_BYTES
from kdump.item import Checked, CheckedFile, Progress
from kdump.rescue.carve_output import CarveOutput
from kdump.rescue.image_search import CarvedBatch, ImageSearch, RangeEnd
from kdump.rescue.run_owners import RunOwner, RunOwners
from kdump.rescue.runs import RunBuilder
from kdump.rows.carved import CarvedRun
from kdump.storage.file_source import OpenFailure
from kdump.storage.open_files import open_source
from kdump.value import Value
from kdump.workers import in_order, processes

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from kdump.finding import Finding
    from kdump.rescue.runs import Run
    from kdump.storage.file_source import FileSource
    from kdump.storage.fsops import FileOps

_COPIED = 8 << 20  # bytes of a run that wait to be copied
_PIECE = 1 << 20
_RANGE = 16 << 20  # bytes of an image that a process searches at a time
_TOGETHER = 4096  # batches that go from one process to another at once
_FIELDS = len(CarvedBatch._fields)
LISTING = "carve.jsonl"


class CarveOptions(Value):
    """What was asked for."""

    to: str  # the directory for the runs
    like: tuple[str, ...] = ()  # log directories whose partitions may own runs
    min_batches: int = 1  # a run with fewer is left out
    max_uncompressed_bytes: int = MAX_UNCOMPRESSED_BYTES  # a limit
    progress: bool = False  # say how far it is
    jobs: int = 1  # processes, one for a range of an image at a time; 0 for every core


def carve(
    images: list[str], options: CarveOptions, listing: Callable[[CarvedRun], str], ops: FileOps | None = None
) -> Generator[CarvedRun | Checked | Finding | OpenFailure | Progress, None, None]:
    """Search images, write the runs, and yield what each is.

    Args:
        images: files or block devices, as the user wrote them.
        options: what was asked for.
        listing: makes the line of a run in `carve.jsonl`.
        ops: makes the calls that write.

    Yields:
        Findings of an image as they come; its runs in the order of their places.

    Reports: F06, L12.

    Raises:
        RefusedError: the directory may not be written to; nothing was read.
        OSError: it cannot be written to. Files without their names are removed.
    """
    if not any(map(os.path.lexists, images)):  # nothing is made for that
        for path in images:
            if isinstance(source := open_source(path, devices=True), OpenFailure):
                yield source
        return
    with CarveOutput(options.to, (*images, *options.like), ops) as output:
        owners = RunOwners(options.like)
        number = 0
        lines: list[str] = []
        for path in images:
            source = open_source(path, devices=True)
            if isinstance(source, OpenFailure):
                yield source
                continue
            with source:
                copies = _Copies(output, source, number)
                builder = RunBuilder(source, path, options.max_uncompressed_bytes, strict=bool(options.like))
                batches = records = 0
                for item in found_in(source, options.jobs, progress=options.progress):
                    if not isinstance(item, CarvedBatch):
                        yield item
                        continue
                    batches += 1
                    copies.see(builder.add(item))
                copies.see(builder.finish())
                copies.finish()
                for run in builder.runs:
                    records += run.records
                    name = copies.name(run, keep=run.batches >= options.min_batches)
                    if name is not None:
                        owner = owners.of(run, source)
                        one = _carved(os.path.join(options.to, name), run, owner)
                        lines.append(listing(one))
                        yield one
                number = copies.number
                yield Checked((CheckedFile(path, FileKind.LOG, source.size),), batches, records)
        output.write(LISTING, "".join(lines).encode())


def _carved(file: str, run: Run, owner: RunOwner) -> CarvedRun:
    return CarvedRun(
        file=file,
        image=run.image,
        kind=run.kind,
        extents=tuple(run.extents),
        batches=run.batches,
        records=run.records,
        offset=run.offset,
        last_offset=run.last_offset,
        epochs=tuple(sorted({epoch for epoch, _ in run.epochs})),
        producer_ids=tuple(sorted(run.producer_ids)),
        first_timestamp=run.first_timestamp,
        max_timestamp=run.max_timestamp,
        partition=owner.partition,
        evidence=owner.evidence,
    )


def found_in(source: FileSource, jobs: int, *, progress: bool) -> Iterator[CarvedBatch | Finding | Progress]:
    """Yield the batches of an image by position, what is wrong with it, and how far the search is.

    Each process searches ranges as if nothing lay before them. Where that may make a difference (a batch or a message
    reaches over the border to what was found there, a large batch is open at the border, bytes cannot be read) the
    range is searched again here, from what is known of all before: so what comes out is that of one search.

    Args:
        source: the image.
        jobs: processes; 0 for every core.
        progress: say how far it is.
    """
    held: list[Finding | Progress] = []
    search = ImageSearch(source, held.append, _say(held, source, on=progress and processes(jobs) == 1))
    if processes(jobs) == 1:
        yield from _drained(search.batches(), held)
        return
    ranges = [(start, min(start + _RANGE, source.size)) for start in range(0, source.size, _RANGE)]
    total = source.size if progress else None
    with in_order(ranges, partial(_range, source), jobs, total=total) as searched:
        for (_, stop), results in zip(ranges, searched, strict=True):
            pieces: list[array[int]] = []
            end: RangeEnd | None = None
            for result in results:
                if isinstance(result, Progress):
                    yield result
                elif isinstance(result, array):
                    pieces.append(result)
                else:
                    end = result
            assert end is not None
            if search.adopt(pieces[0][0] if pieces else None, end):
                for piece in pieces:
                    for at in range(0, len(piece), _FIELDS):
                        yield CarvedBatch._make(piece[at : at + _FIELDS])
                search.pass_over(stop, sum(pieces[-1][-_FIELDS : -_FIELDS + 2]) if pieces else None, end)
            else:
                yield from _drained(search.batches(stop), held)
        yield from _drained(search.batches(), held)


def _range(source: FileSource, place: tuple[int, int]) -> Iterator[array[int] | RangeEnd | Progress]:
    """Search a range of an image in any process: yield its batches as numbers, and what the search leaves."""
    start, stop = place
    findings: list[Finding] = []
    held: list[Progress] = []
    search = ImageSearch(source, findings.append, lambda at: held.append(Progress(at - start, 0, source.name)), start)
    numbers = array("q")
    end = RangeEnd(0, -1, whole=False)
    try:
        for found in search.batches(stop):
            yield from held
            held.clear()
            numbers.extend(found)
            if len(numbers) >= _TOGETHER * _FIELDS:
                yield numbers
                numbers = array("q")
        end = search.end
    except (OSError, OverflowError):  # it is met again where it can be told; an offset may leave 64 bits
        pass
    if numbers:
        yield numbers
    yield Progress(stop - start, 0, source.name)
    yield end._replace(whole=end.whole and not findings)


def _drained(
    batches: Iterator[CarvedBatch], held: list[Finding | Progress]
) -> Iterator[CarvedBatch | Finding | Progress]:
    """Yield what was said before each batch, the batches, and what was said at the end."""
    for found in batches:
        yield from held
        held.clear()
        yield found
    yield from held
    held.clear()


def _say(held: list[Finding | Progress], source: FileSource, *, on: bool) -> Callable[[int], None]:
    return (lambda done: held.append(Progress(done, source.size, source.name))) if on else (lambda _done: None)


class _Copies:
    """The files of the runs of one image, without their names until it has been read.

    Args:
        output: the directory.
        source: the image.
        number: of the last run before.
    """

    def __init__(self, output: CarveOutput, source: FileSource, number: int) -> None:
        self._output = output
        self._source = source
        self._first = number
        self.number = number
        self._made: dict[int, tuple[str, list[int]]] = {}  # by run: its file; extent and bytes of it that are copied
        self._run: Run | None = None

    def see(self, runs: list[Run]) -> None:
        """Copy what waits of runs that have got batches, if it is much or of another run."""
        for run in runs:
            if self._run is not None and run is not self._run:
                self._copy(self._run)
            self._run = run
            if sum(run.extents[-1]) - self._done(run) > _COPIED:
                self._copy(run)

    def finish(self) -> None:
        """Copy what still waits."""
        if self._run is not None:
            self._copy(self._run)

    def name(self, run: Run, *, keep: bool) -> str | None:
        """Give the file of a run its name and return it; None where it is left out."""
        file, _ = self._made[id(run)]
        if not keep:
            self._output.remove(file)
            return None
        self.number += 1
        name = f"run-{self.number:05}-{max(run.offset, 0):020}.log"
        self._output.rename(file, name)
        return name

    def _done(self, run: Run) -> int:
        """Where in the image the copy of a run ends."""
        made = self._made.get(id(run))
        if made is None:
            return run.extents[0][0]
        extent, copied = made[1]
        return run.extents[extent][0] + copied if extent == len(run.extents) - 1 else run.extents[-1][0]

    def _copy(self, run: Run) -> None:
        if id(run) not in self._made:
            file = f".run-{self._first + len(self._made) + 1}"
            self._made[id(run)] = (file, [0, 0])
        file, done = self._made[id(run)]
        with self._output.appending(file) as append:
            for extent in range(done[0], len(run.extents)):
                position, length = run.extents[extent]
                while done[1] < length:
                    piece = self._source.read_at(position + done[1], min(_PIECE, length - done[1]))
                    append(piece)
                    done[1] += len(piece)
                if extent < len(run.extents) - 1:
                    done[0], done[1] = extent + 1, 0
