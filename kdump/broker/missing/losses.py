"""What is told of the missing offsets of a partition: each of them once, and the holes once they are judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.missing.columns import MissingColumns
from kdump.broker.missing.judge import HoleVerdict
from kdump.broker.missing.ranges import MissingRange, Proof
from kdump.finding import Code
from kdump.rows.verdict import Certainty, Loss

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.broker.missing.columns import MissingRun
    from kdump.broker.missing.judge import HoleJudge

_NAMED = 4  # holes that a sentence names
_TOGETHER = 10_000  # holes that are judged at a time


def loss_of(path: str, partition: str, one: MissingRange, certainty: Certainty) -> Loss:
    """Return what is told of a range.

    Args:
        path: of the directory.
        partition: its name.
        one: the range.
        certainty: what to think of it.
    """
    place = one.file, one.position, one.length, one.first, one.last
    return Loss(path, partition, *place, one.records, certainty, one.because)


class HolesAmong:
    """Holes in one of which bytes are missing, nobody knows in which: those of one log.

    Args:
        missing_bytes: so many.
    """

    def __init__(self, missing_bytes: int | None) -> None:
        self.missing_bytes = missing_bytes
        self.first: MissingRange | None = None  # the first of them; None before it has come
        self.count = 0  # how many they are
        self._others: list[str] = []

    def add(self, hole: MissingRange) -> None:
        """Take one more."""
        self.count += 1
        if self.first is None:
            self.first = hole
        elif len(self._others) < _NAMED:
            self._others.append(f"{hole.first}..{hole.last}")

    @property
    def sentence(self) -> str:
        """The others, and what is lost, to be said behind the first one."""
        more = self.count - 1 - len(self._others)
        where = " or ".join([*self._others, *([f"{more} more hole{'' if more == 1 else 's'}"] if more else [])])
        others = f"or {where}: " if where else ""
        them = "in these holes" if where else "in this hole, or in one that another copy fills"
        return f"{others}{self.missing_bytes} bytes are lost {them}, by the offset index"


class PartitionLosses:
    """Makes losses of the ranges of a partition's logs, each offset in one of them only.

    What becomes of a hole is for `HoleJudge` to say. One at the end of a log may go on in the next, and one of
    which the files say nothing waits for what comes behind it.

    Args:
        path: of the directory.
        partition: its name.
        start: the log start offset: what lies below it is on its way out.
        judge: of holes; it has taken all into account that lies before.

    Attributes:
        verdicts: of holes, by their last offset, since somebody emptied it: also of what is cut off behind a log. Those
            of holes that have waited, and that a cleaner has made, are not among them.
        unexplained: by code, L17 or L19, the first hole that it is about, as a loss, and how many there are.
    """

    def __init__(self, path: str, partition: str, start: int, judge: HoleJudge) -> None:
        self._path = path
        self._partition = partition
        self._next = self._end = start
        self._judge = judge
        self._waiting = MissingColumns()
        self._whole: MissingColumns | None = None
        self.offsets_lost = 0  # of all losses so far that count
        self.verdicts: dict[int, tuple[MissingRange, HoleVerdict]] = {}
        self.unexplained: dict[Code, tuple[Loss, int]] = {}
        self.among: dict[str, HolesAmong] = {}  # by log the holes in one of which bytes are missing
        self._named_to: dict[Code, int] = {}  # where the last of the holes ends that are counted there

    def is_waiting(self, last: int) -> bool:
        """Tell whether a hole, by its last offset, waits for what comes behind it."""
        return self._waiting.has(last)

    @property
    def has_waiting(self) -> bool:
        """Whether any hole waits for what comes behind it."""
        return len(self._waiting) > 0

    def have(self, end: int) -> None:
        """Intact batches of a segment have all offsets up to one in the next: there none of them is lost."""
        self._next = max(self._next, end)

    def reached(self, end: int) -> None:
        """A segment ends before an offset: the next one does not begin with a hole below it."""
        self._end = max(self._end, end)
        self._judge.reach(end)

    def judge_as_in(self, other: PartitionLosses) -> None:
        """Judge what waits as a part of another view, in which nothing was settled: that of all logs."""
        self._judge, self._whole = other._judge, other._waiting

    def take(self, ranges: Iterable[MissingRange]) -> Iterator[Loss]:
        """Yield the losses of some ranges, but for those of holes that wait.

        Args:
            ranges: of one log, in the order of offsets.
        """
        for whole in ranges:
            first = max(whole.first, self._next, self._end if whole.certainty is None else self._next)
            if first > whole.last:
                continue
            self._next = whole.last + 1
            one = whole if first == whole.first else whole._replace(first=first, records=None)
            if one.certainty is not None:
                if not one.length:
                    self.verdicts[one.last] = one._replace(proof=Proof.SHOWN), HoleVerdict(one.certainty)
                yield self._counted(loss_of(self._path, self._partition, one, one.certainty))
                continue
            if one.proof is Proof.AMONG_SEVERAL:
                self.among.setdefault(one.file, HolesAmong(one.missing_bytes)).add(one)
            self._judge.count(one)
            verdict = self._judge.by_files(one)
            if verdict is None:
                self._waiting.add(one)
            else:
                self._note(verdict, one, one.last)
                yield from self._judged(one, verdict)

    def drop_compacted(self) -> Iterator[int]:
        """Pass over holes that have waited, and that a cleaner has made as is known now; yield their last offsets."""
        while (run := self._waiting.first_run()) is not None:
            if not self._waiting.has_more_runs and run.end.because[:1] != (Code.O04.name,):
                return  # it may go on
            if self._judge.early(self._hole_of(run)) is None:
                return  # no more can be said of those behind it
            for _ in range(run.parts):
                yield self._waiting.pop().last

    def conclude(self) -> None:
        """Note what is to be said of all holes that wait, once all of the partition was taken: see `unexplained`."""
        for run in self._waiting.runs():
            self._note(self._judge.verdict(self._hole_of(run)), run.begin, run.end.last)

    def rest(self) -> Iterator[list[Loss]]:
        """Yield the losses of all holes that have waited, some at a time, once all of the partition was taken."""
        part: list[Loss] = []
        count = 0
        while (run := self._waiting.first_run()) is not None:
            verdict = self._judge.verdict(self._hole_of(run))
            for _ in range(run.parts):
                part += self._judged(self._waiting.pop(), verdict)
                count += 1
                if count == _TOGETHER:
                    yield part
                    part, count = [], 0
        if count:
            yield part

    def _hole_of(self, run: MissingRun) -> MissingRange:
        """The hole of the partition that some neighbouring ones are."""
        around = None if self._whole is None else self._whole.run_around(run.begin.first)
        first, last = around or (run.begin.first, run.end.last)
        return run.end._replace(first=first, last=last)

    def _note(self, verdict: HoleVerdict, begin: MissingRange, last: int) -> None:
        """Count a hole that nobody can explain, or the next part of one."""
        code = verdict.because
        if code is None or code is Code.X04:
            return
        loss = self._loss_of(begin, verdict).replace(last_offset=last)
        first, count = self.unexplained.get(code, (loss, 0))
        goes_on = self._named_to.get(code) == begin.first
        if goes_on and count == 1:
            first = first.replace(last_offset=last)
        self.unexplained[code] = first, count + (not goes_on)
        self._named_to[code] = last + 1

    def _judged(self, hole: MissingRange, verdict: HoleVerdict) -> Iterator[Loss]:
        """The loss of a hole; none where compaction has made it."""
        self.verdicts[hole.last] = hole, verdict
        if verdict.certainty is not Certainty.ABSENT:
            yield self._counted(self._loss_of(hole, verdict))

    def _loss_of(self, hole: MissingRange, verdict: HoleVerdict) -> Loss:
        because = hole.because if verdict.because is None else (*hole.because, verdict.because.name)
        loss = loss_of(self._path, self._partition, hole._replace(because=because), verdict.certainty)
        return loss.replace(is_known=True) if verdict.is_known else loss

    def _counted(self, loss: Loss) -> Loss:
        self.offsets_lost += loss.offsets if loss.counts else 0
        return loss
