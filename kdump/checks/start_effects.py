"""What the start that is coming does to one partition in which something is wrong, as far as the steps hang on it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.checks.step_sentences import Harm, Move, StepKind, Sum
from kdump.finding import Code, Finding, Severity, Trait
from kdump.format.kinds import FileKind
from kdump.rows.steps import NONE, UNKNOWN, Amount
from kdump.storage.evidence import is_of_witness
from kdump.storage.names import parse_name
from kdump.value import Value
from kdump.words.numbers import span

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kdump.checks.intact_records import IntactRecords
    from kdump.checks.options import VerifyOptions
    from kdump.rows.verdict import Loss, Prediction, SegmentFate
    from kdump.storage.partition_dir import PartitionDir

_MOST = 1000  # errors and losses that are held; of more nobody says that a start mends them
_MOST_WITNESSES = 100
_READ_WHOLE = ".txnindex", ".snapshot", FileKind.EPOCHS.value
_LARGEST = 1 << 28  # bytes of such a file: a start reads them entry by entry, and no broker has written a larger one
_INDEXES = (FileKind.INDEX, FileKind.TIMEINDEX, FileKind.TXNINDEX)
_CUT = ("truncate", "empty")
_BUILT = ("rebuild-index", *_CUT)


NO_HARM = Harm()


class Foreseen(Value):
    """What the steps hang on."""

    move: Move | None = None  # to start the broker, where that mends all that is wrong and takes nothing intact
    harm: Harm = NO_HARM  # what it does to what is intact, or was
    loses: Amount = UNKNOWN  # intact records that it takes
    blames: tuple[
        str, ...
    ] = ()  # codes of the small files because of which the partition does not load, or is set aside


class StartEffects:
    """Holds what is wrong with a partition against what the start that is coming does.

    Attributes:
        has_read_error: the disk cannot read a part of it.
    """

    def __init__(self) -> None:
        self.has_read_error = False
        self._errors: list[Finding] = []
        self._losses: list[Loss] = []
        self._is_other = False  # something is wrong that no start mends
        self._last_lost = -1
        self._witnesses: dict[str, None] = {}  # indexes of logs that are lost, which a start removes
        self._high_watermark: int | None = None  # by its checkpoint, where it is above the end of the log

    def see(self, finding: Finding) -> None:
        """Take a finding about the partition."""
        self.has_read_error |= finding.code is Code.F06
        self._is_other |= Trait.NOT_ALL_READ in finding.code.traits
        if finding.code is Code.K01 and finding.field == "highWatermark" and isinstance(finding.found, int):
            self._high_watermark = finding.found
        if is_of_witness(finding) and len(self._witnesses) < _MOST_WITNESSES:
            self._witnesses[finding.file] = None
        if finding.severity is Severity.ERROR:
            if len(self._errors) < _MOST:
                self._errors.append(finding)
            else:
                self._is_other = True

    def see_loss(self, loss: Loss, *, is_alone: bool) -> None:
        """Take missing offsets; `is_alone`: nothing tells whether they are lost (L19)."""
        self._is_other |= is_alone
        if not loss.counts:
            return
        self._last_lost = max(self._last_lost, loss.last_offset)
        if len(self._losses) < _MOST:
            self._losses.append(loss)
        else:
            self._is_other = True

    def foreseen(self, directory: PartitionDir | None, options: VerifyOptions, records: IntactRecords) -> Foreseen:
        """Return what the start that is coming does.

        Args:
            directory: the partition as it lies; None where its start is not asked for.
            options: what was asked for.
            records: that readers of it get.
        """
        if directory is None or directory.parsed is None or directory.parsed.state:
            return Foreseen()
        if any(
            directory.listing.size(name) > _LARGEST for name in directory.listing.names if name.endswith(_READ_WHOLE)
        ):
            return Foreseen()
        from kdump.checks.predict import predict_alone  # the model of the broker costs time to import

        try:
            rows = predict_alone(directory, options, self._last_lost)
        except OSError:  # it is said where the file is judged
            return Foreseen()
        if not rows:
            return Foreseen()
        move = self._move(directory, rows, records) if self._mends_all(directory, rows) else None
        worst = max(rows, key=lambda row: (row.is_stray, row.harm))
        causes = (row.cause.code for row in rows if row.cause is not None)
        blames = tuple(code for code in causes if Trait.STOPS_PARTITION.is_among([code]))
        harm = NO_HARM if move is not None else _harm(worst, self._witnesses if worst.loads else ())
        return Foreseen(move, harm, _loses(worst, records) if harm else UNKNOWN, blames)

    def _mends_all(self, directory: PartitionDir, rows: Sequence[Prediction]) -> bool:
        """Whether verify would find no error afterwards, and nothing goes that was ever whole."""
        first = rows[0]
        if self._is_other or directory.log_dir.is_held:
            return False
        if any(row.takes_intact or row.records_lost for row in rows):
            return False
        if any((row.log_end_offset, row.segments) != (first.log_end_offset, first.segments) for row in rows):
            return False
        done = {fate.base_offset: fate for fate in first.segments}
        if not any(fate.action in _BUILT for fate in first.segments):
            return False
        if any(fate.action not in ("keep", *_BUILT) for fate in first.segments):
            return False
        return all(_mends(done, one) for one in self._errors) and all(_cuts_loss(done, one) for one in self._losses)

    def _move(self, directory: PartitionDir, rows: Sequence[Prediction], records: IntactRecords) -> Move:
        row = rows[0]
        built = sum(fate.action in _BUILT for fate in row.segments)
        after = ""
        if self._high_watermark is not None and self._high_watermark > (row.log_end_offset or 0):
            after = (
                f", after another replica of {row.partition} leads, where there is one (the high watermark "
                f"{self._high_watermark} is above {row.log_end_offset}, where the log ends then)"
            )
        read = max(one.bytes_read for one in rows)
        words = (("after", after), ("what", Sum(row.bytes_lost, read, built)))
        return Move(StepKind.START, words=words, keeps=records.intact, loses=NONE, size=read)


def _is_cut(done: dict[int, SegmentFate], file: str | None, position: int | None) -> bool:
    """Whether a start cuts the bytes at a place away."""
    if file is None or position is None:
        return False
    name = parse_name(os.path.basename(file))
    fate = done.get(-1 if name.base_offset is None else name.base_offset)
    return name.kind is FileKind.LOG and fate is not None and fate.action in _CUT and position >= fate.size


def _mends(done: dict[int, SegmentFate], finding: Finding) -> bool:
    """Whether what an error is about is gone or built again after a start."""
    cause = finding.code if finding.because is None else finding.because
    if Trait.CAUSE in cause.traits:
        return False
    if _is_cut(done, finding.file, finding.position):
        return Trait.UNFINISHED in finding.code.traits
    name = parse_name(os.path.basename(finding.file))
    fate = done.get(-1 if name.base_offset is None else name.base_offset)
    return name.kind in _INDEXES and fate is not None and fate.action in _BUILT


def _cuts_loss(done: dict[int, SegmentFate], loss: Loss) -> bool:
    """Whether a loss is of a batch that was never whole, and that a start cuts away."""
    return _is_cut(done, loss.file, loss.position) and all(Trait.UNFINISHED in Code[one].traits for one in loss.because)


def _harm(row: Prediction, witnesses: Iterable[str]) -> Harm:
    if row.is_stray:
        return Harm(strays=1) if row.is_renamed else Harm(refused=1)
    again = () if row.reused_offsets is None else (span(*row.reused_offsets, "offset"),)
    return Harm(0, row.served_lost, row.hidden_records, again, tuple(witnesses))


def _loses(row: Prediction, records: IntactRecords) -> Amount:
    """What is intact, can be read today, and not afterwards."""
    intact = records.intact
    if row.is_stray:
        return intact
    gone = row.served_lost + row.hidden_records
    if not row.loads or not gone:
        return Amount(None if gone else 0, gone)
    kept = records.offsets(row.log_end_offset, row.log_start_offset)
    return Amount(intact.without(Amount(kept, None)).offsets, gone)
