"""`find-offset` and `find-time`: a broker's answer, and that of the data where a lookup met damage.

Decisions: the offset of an answer is that of the first record at or after the one that was asked for, in the batch
that a broker would send; a batch may end before such a record, after compaction: then it is null and a consumer reads
on. With `--scan` the data answers, and a broker's other answer is the finding.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

from kdump.broker.load.swapped_dir import once_swapped
from kdump.broker.lookup import Lookup
from kdump.broker.lookup_results import NO_TIMESTAMP, FoundBatch, FoundRecord, Refused
from kdump.broker.releases import rules_of
from kdump.find.answers import Answers, BatchRecords, Sentences
from kdump.find.leads import Leads
from kdump.find.lookup_audit import LookupAudit
from kdump.find.query import Ask
from kdump.find.remedies import Remedies
from kdump.finding import Code, Finding, Severity
from kdump.format.batch import layout
from kdump.format.java_values import MAX_DECOMPRESSED
from kdump.format.kinds import FileKind
from kdump.format.record.chunk import Chunk
from kdump.rows.lookup import LookupAnswer, NoAnswer
from kdump.storage.directory import DirectoryListing
from kdump.storage.evidence import evidence_of
from kdump.storage.file_source import FileShrankError, OpenFailure
from kdump.storage.log_dir import LogDir
from kdump.storage.names import SWAP, SWAP_REMEDY, parse_name, parse_partition
from kdump.storage.open_files import open_source
from kdump.storage.partition_dir import LogAlone, PartitionDir
from kdump.storage.paths import DID_YOU_MEAN, base_name, is_dir, parent
from kdump.storage.segment import UnreadableError
from kdump.words.numbers import some_of
from kdump.words.time_units import in_its_unit
from kdump.words.times import iso

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kdump.broker.config import Config
    from kdump.find.log_scan import LogScan
    from kdump.find.query import Query
    from kdump.finding import Report
    from kdump.format.read_limits import ReadLimits
    from kdump.item import Progress


_NAMED = 5  # partitions that a sentence names


def open_partition(path: str, report: Report) -> PartitionDir:
    """Return what a broker has loaded: a partition directory, or one log alone.

    What waits as `.swap` counts as what it becomes, as no broker answers before it has put that in place.

    Args:
        path: of the directory, or of the log, as the user wrote it.
        report: takes what is wrong with its checkpoint files and the names in it.

    Raises:
        UnreadableError: the directory or a checkpoint cannot be read, or there is no segment.

    Reports: F08, K03, K04.
    """
    if not is_dir(path):
        log = LogAlone(path)
        if not log.bases:
            raise UnreadableError(_no_segment(path))
        return log
    today = PartitionDir(path, LogDir(parent(path)))
    today.demand_listing()
    swapped = once_swapped(today)
    partition = swapped.directory
    if not partition.bases:
        raise UnreadableError(_no_log(partition))
    for name in sorted(one for one in today.listing.names if one.endswith(tuple(_UNFINISHED))):
        severity, why = _UNFINISHED[os.path.splitext(name)[1]]
        leftover, remedy = today.listing.join(name), None
        if leftover in swapped.files:
            why, remedy = f"{SWAP}: it is read as what it becomes", SWAP_REMEDY
        values = {"why": why, "remedy": remedy}
        report(Finding(Code.F08, leftover, values=values, severity_override=severity))
    for finding in evidence_of(partition).findings():
        report(finding)
    for file in (partition.log_dir.file(FileKind.LOG_START), partition.epoch_file):
        if file.failure is not None and not file.is_missing:
            raise UnreadableError(file.failure)
        for finding in file.findings:
            report(finding)
        if file.error is not None:
            raise file.error
    return partition


def _no_log(directory: PartitionDir) -> OpenFailure:
    """Why nothing can be asked of a directory: status 10 where nothing is there, 5 where partitions are."""
    path, partitions = directory.path, directory.listing.partitions()
    if partitions:
        first = min(map(base_name, partitions), key=lambda name: (name.startswith("__"), name))  # Kafka's own last
        which = f"--topic {first.rpartition('-')[0]}, or --topic-partition {first}"
        why = f"this is a log.dir: say which partitions of it, for example {which}"
        return OpenFailure(path, "other", f"{path}: {why}")
    what = "directory" if directory.parsed is None else "partition directory"
    why = f"no segment in this {what}; name a partition directory, or a log.dir with --topic T"
    return OpenFailure(path, "missing", f"{path}: {why}")


def _there_are(path: str) -> str:
    """Say which partitions lie beside one that is missing, those of its topic where it has some; empty for none."""
    missing = parse_partition(base_name(path))
    if missing is None:
        return ""
    names = [base_name(one) for one in DirectoryListing(parent(path)).partitions()]
    topics = {name: found.topic for name in names if (found := parse_partition(name)) is not None}
    names = [name for name in names if topics[name] == missing.topic] or names
    return f"; here are {some_of(names, _NAMED)}" if names else ""


def _no_segment(path: str) -> OpenFailure:
    opened = open_source(path)
    if isinstance(opened, OpenFailure):
        is_guessed = not opened.missing or DID_YOU_MEAN in opened.sentence
        return opened if is_guessed else opened.replace(sentence=opened.sentence + _there_are(path))
    opened.close()
    why = "the name tells no base offset: a segment is named <20 digits>.log"
    if parse_name(base_name(path)).base_offset is not None:
        why = "this is not a log: name the .log of the segment, or the partition directory"
    return OpenFailure(path, "other", f"{path}: {why}")


_UNFINISHED = {
    ".swap": (Severity.WARNING, "compaction or a split did not finish: a broker does not put it in place"),
    ".cleaned": (
        Severity.NOTE,
        "compaction or a split is at work, or did not finish: a broker throws it away when it starts",
    ),
}


class Finder:
    """Answers questions about one partition.

    Args:
        partition: its segments.
        limits: what is read of a batch.
        scan: the data answers, not a broker.
        jobs: processes that read the data; 0 for one on each core.
        times: some questions are about time.
        separators: a person reads the sentences: numbers in them get thousands separators.
        told: takes how far a walk over the data is; None where nobody wants to know.
        report: takes what is wrong with logs as it is met; None: it comes with the answers, held until then.
        config: of the broker that answers; None for the newest with its defaults.
    """

    def __init__(
        self,
        partition: PartitionDir,
        limits: ReadLimits,
        *,
        scan: bool,
        times: bool,
        separators: bool = False,
        jobs: int = 1,
        told: Callable[[Progress], None] | None = None,
        report: Report | None = None,
        config: Config | None = None,
    ) -> None:
        self._partition = partition
        self._scan = scan
        self._found: list[Finding] = []
        self._told: set[int] = set()  # hashes of what was told: a finding takes twenty times as much
        self._hand_on = report
        self._remedies = Remedies(partition)
        unpacked, packed = limits.max_uncompressed_bytes, limits.max_batch_bytes
        self._way = LookupAudit(partition, self._report)
        rules, most = rules_of(), MAX_DECOMPRESSED
        if config is not None:
            topic = None if partition.parsed is None else partition.parsed.topic
            rules, most = config.rules, config.of_topic(topic).max_decompressed_message_bytes
        self._lookup = Lookup(partition, unpacked, packed, self._way.passed, rules, max_record=most)
        self._inside = BatchRecords(partition, unpacked, packed, self._report)
        self._sentences = Sentences(separators=separators)
        self._places = Answers(partition, self._inside, self._sentences, self._lookup.batch_at)
        self._limits = limits
        self._times = times
        self._jobs = jobs
        self._tell = told
        self._holes_told: set[int] = set()  # first offsets
        self._newest = NO_TIMESTAMP  # of what the last question about a time did not reach, ms

    def answers(self, queries: Iterable[Query]) -> Iterator[LookupAnswer | Finding | OpenFailure]:
        """Yield one location for each question, in order, each after what was met on the way to it.

        A file that cannot be read is a problem or a finding, and its sentence is the location's error.

        Reports: X04, X05, X07, T02-T05, K02, O04, O07, L13, V01, V02, and those of the checked walk, of headers and of
        records.
        """
        for query in queries:
            problem: Finding | OpenFailure | None = None
            try:
                answer = self._answer(query)
            except (UnreadableError, OSError) as error:
                problem, sentence = _unread(error)
                answer = LookupAnswer(query.text, error=sentence)
            yield from map(self._remedies.told, self._found)
            self._found.clear()
            if problem is None:
                yield from self._hole_before(query, answer)
                answer = self._with_lead(query, answer)
            if problem is not None:
                yield problem
            yield answer

    def _report(self, finding: Finding) -> None:
        """Take a finding; findings that only compaction explains are left out, and repeated ones."""
        if finding.severity is Severity.NOTE:
            return
        told = hash((finding.code, finding.file, finding.position, finding.message))
        if told in self._told:
            return
        if self._hand_on is not None and finding.is_log_damage:
            self._hand_on(finding)
        else:  # what else is met can change what is to be done about it
            self._found.append(finding)
        if finding.code is not Code.L13:
            self._told.add(told)
            self._remedies.see(finding)

    def _answer(self, query: Query) -> LookupAnswer:
        way, places = self._way, self._places
        way.start(self._lookup)
        places.start()
        broker = self._by_broker(query)
        way.check_following(self._lookup, places.batch)
        if not (self._scan or way.is_odd or way.untimed is not None):
            return self._with_end(query, broker, self._lookup.end_offset())
        batch, is_failure = places.batch, places.is_failure
        places.batch = None
        data = self._by_data(query)
        if not self._scan:
            places.batch = batch
        way.settle(self._data, self._remedies)
        end = self._data.end_offset()
        if not self._scan:
            broker = self._as_taken(query, broker, end)
        shown = self._with_end(query, data if self._scan else broker, end)
        if not places.limited and not _same(broker, data):
            self._report(self._differ(query, broker, data, is_failure=is_failure))
            if shown.error is not None and broker.no_answer is NoAnswer.NO_TIME:
                shown = shown.replace(error=self._sentences.broker_only(query, self._way.reason))
        return shown

    def _as_taken(self, query: Query, broker: LookupAnswer, end: int) -> LookupAnswer:
        """Return an answer about the end of the log, where a broker takes another one for it, with both.

        Args:
            query: the question.
            broker: the answer of a broker.
            end: of the log, by the data.
        """
        taken = self._lookup.end_offset()
        if isinstance(taken, Refused) or taken >= end or broker.no_answer is not NoAnswer.PAST_END:
            return broker
        return broker.replace(error=self._sentences.past_taken(query.number, taken, end))

    # --- the end of the log ---------------------------------------------------------------------------------
    def _with_end(self, query: Query, answer: LookupAnswer, end: int | Refused) -> LookupAnswer:
        """Return an answer with what the log lacks at its end, or elsewhere, where that may have had another one.

        Args:
            query: the question.
            answer: to it.
            end: of the log.
        """
        is_past = query.ask is Ask.OFFSET and answer.error is not None and isinstance(end, int) and query.number >= end
        is_no_time = answer.no_answer is NoAnswer.NO_TIME
        if isinstance(end, Refused):
            return self._with_newest(query, answer) if is_no_time else answer
        is_asked = is_past or is_no_time or query.ask in (Ask.LATEST, Ask.MAX)
        if not (is_asked or any(one.code is Code.X07 for one in self._found)):
            return answer
        lost = evidence_of(self._partition)
        base = self._partition.bases[-1]
        behind = lost.behind(base, end, self._partition.segment(len(self._partition) - 1).log.size)
        if behind is not None and behind.finding is not None and not self._is_damaged_at_end(behind.finding.file):
            severity = None if behind.is_sure else Severity.WARNING
            self._report(behind.finding.replace(severity_override=severity or behind.finding.severity))
            self._found.sort(key=lambda one: one.code is not Code.O07)  # the cause comes first
        gone = [] if behind is None else [(behind.first, behind.last)]
        if is_no_time:
            known = [(one.offset or 0, one.last_offset or 0) for one in lost.findings() if (one.offset or 0) < base]
            return self._with_newest(query, answer.replace(error=self._sentences.no_time(query, [*known, *gone])))
        if answer.error is None or not (gone and is_asked) or self._places.is_failure or self._places.limited:
            return answer
        return answer.replace(error=self._sentences.lacking(answer.error, gone))

    def _with_lead(self, query: Query, answer: LookupAnswer) -> LookupAnswer:
        """Return an answer with what stands there, and what comes next."""
        offset = query.number if query.ask is Ask.OFFSET else answer.offset
        place = self._places.batch
        if place is None and query.ask is Ask.EARLIEST and offset is not None:
            found = self._lookup.read(offset)
            place = (found.segment, found.cell(layout.POSITION)) if isinstance(found, FoundBatch) else None
        if answer.error is not None or offset is None or place is None:
            return answer
        lead = self._leads.of(*place, offset)
        is_before = answer.base_offset is not None and offset < answer.base_offset
        is_known = not is_before or not self._may_be_lost(offset, answer.file or "")
        return answer.replace(what=lead.what if is_known else None, next=lead.next, next_committed=lead.next_committed)

    def _may_be_lost(self, offset: int, log: str) -> bool:
        """Whether the hole that an offset is in may be damage, and not what compaction took."""
        return not self._remedies.is_sound(log) or self._lost_hole(offset) is not None

    @cached_property
    def _leads(self) -> Leads:
        def end() -> int | None:
            found = self._lookup.end_offset()
            return found if isinstance(found, int) else None

        return Leads(self._partition, self._limits, end, reads_all=self._scan)

    def _hole_before(self, query: Query, answer: LookupAnswer) -> Iterator[Finding]:
        """Yield a hole right before an answer, where its offsets are lost: one of them may have been the answer."""
        place, base = self._places.batch, answer.base_offset
        if place is None and query.ask is Ask.OFFSET:
            yield from self._hole_asked_for(query.number)
        if place is None or base is None or query.ask not in (Ask.OFFSET, Ask.TIME):
            return
        wanted = query.number if query.ask is Ask.OFFSET else base - 1
        if not self._partition.start_offset <= wanted < base:
            return
        if query.ask is Ask.TIME and not self._way.is_odd and self._lookup.end_before(*place, base) in (None, base):
            return
        yield from self._told_hole(wanted)

    def _hole_asked_for(self, offset: int) -> Iterator[Finding]:
        """Yield the hole that an offset is in for which a broker has no batch, where that is lost."""
        is_read = self._scan or self._way.is_odd
        end = self._data.end_offset() if is_read else self._lookup.end_offset()
        if self._partition.start_offset <= offset and not isinstance(end, Refused) and offset < end:
            yield from self._told_hole(offset)

    def _told_hole(self, offset: int) -> Iterator[Finding]:
        hole = self._lost_hole(offset)
        if hole is not None and hole.offset is not None and hole.offset not in self._holes_told:
            self._holes_told.add(hole.offset)
            yield hole

    def _lost_hole(self, offset: int) -> Finding | None:
        from kdump.broker.missing.lost_holes import lost_holes  # the walk over damage: most questions do not need it

        try:
            return lost_holes(self._partition, self._limits).at(offset)
        except (UnreadableError, OSError):  # of a log that no answer needs: compaction may explain the hole there
            return None

    def _is_damaged_at_end(self, log: str) -> bool:
        """Whether what is behind the last true batch is known to be damaged: then it is that what is told."""
        return not self._remedies.is_sound(log) and self._remedies.reaches(log, self._data.end_position())

    def _with_newest(self, query: Query, answer: LookupAnswer) -> LookupAnswer:
        """Add the newest time to the answer that no record is late enough: the next question can be a right one.

        It is that of a record: of the data where that was asked, else of the batch that a time index names.
        """
        if query.ask is not Ask.TIME:
            return answer
        is_data = self._scan or self._way.is_odd or self._way.untimed is not None
        newest = self._data.newest() if is_data else self._newest
        looks = in_its_unit(newest)
        said = f"the newest time known is {iso(newest)}{f', which {looks}' if looks else ''}"
        return answer if newest < 0 else answer.replace(error=f"{answer.error}; {said}")

    def record(self, location: LookupAnswer) -> Chunk | None:
        """Return the record of an answer as a chunk of its own, without the batch; None when there is none.

        Args:
            location: the last answer.
        """
        place = self._places.batch
        batch = self._lookup.batch_at(*place) if place is not None else None
        if not isinstance(batch, FoundBatch) or location.offset is None:
            return None
        stored, base = batch.cell(layout.BASE_OFFSET), location.base_offset
        is_misplaced = base is not None and batch.cell(layout.MAGIC) >= layout.MAGIC_V2 and stored != base
        return self._inside.record(batch, location.offset + (stored - base if is_misplaced and base is not None else 0))

    def context(self, count: int) -> Iterator[Chunk]:
        """Yield the batches around that of the last answer, as the segment has them, whatever their CRC.

        Args:
            count: batches before it, and after it.
        """
        if self._places.batch is None:
            return
        for window in self._data.around(*self._places.batch, count):
            yield Chunk(window, window.view, 0, last=1, begun=False, rows=window.rows, filled=0)

    @cached_property
    def _data(self) -> LogScan:
        from kdump.find.log_scan import LogScan  # the walk over damage: most questions do not need it

        unpacked, packed = self._limits.max_uncompressed_bytes, self._limits.max_batch_bytes
        times, jobs, told = self._times, self._jobs, self._tell
        return LogScan(self._partition, self._report, unpacked, packed, times=times, jobs=jobs, told=told)

    # --- a broker -------------------------------------------------------------------------------------------
    def _by_broker(self, query: Query) -> LookupAnswer:
        lookup, way, places = self._lookup, self._way, self._places
        if query.ask is Ask.OFFSET:
            return self._read(query)
        if query.ask is Ask.EARLIEST:
            return places.record(query, lookup.earliest())
        if query.ask is Ask.LATEST:
            answer = places.record(query, lookup.latest())
            way.check_end(lookup)
            return answer
        found = lookup.max_timestamp() if query.ask is Ask.MAX else lookup.time(query.number)
        answer = places.record(query, found, self._nothing(query) if found is None else None)
        nothing = answer.error is not None and not places.limited
        if query.ask is Ask.MAX:
            way.check_max(lookup, nothing=nothing)
        else:
            way.check_time(lookup, query.number, nothing=nothing)
            if found is None:
                way.check_end(lookup)
            if found is None and not (way.is_odd or way.untimed is not None):
                self._see_newest()
        return answer

    def _see_newest(self) -> None:
        """Look up the newest time, and judge the time index that names it."""
        found = self._lookup.max_timestamp()
        is_limited = isinstance(found, Refused) and bool(found.limit)
        self._way.check_max(self._lookup, nothing=not (is_limited or isinstance(found, FoundRecord)))
        self._newest = NO_TIMESTAMP
        if isinstance(found, FoundRecord):
            self._newest = found.timestamp if found.offset >= self._partition.start_offset else NO_TIMESTAMP
        elif isinstance(found, Refused) and found.limit and found.place is not None:  # its records are beyond a limit
            batch = self._lookup.batch_at(*found.place)
            if isinstance(batch, FoundBatch) and batch.cell(layout.LAST_OFFSET) >= self._partition.start_offset:
                self._newest = batch.cell(layout.MAX_TIMESTAMP)

    def _read(self, query: Query) -> LookupAnswer:
        found = self._lookup.read(query.number)
        if isinstance(found, FoundBatch):
            answer = self._places.in_batch(query, found)  # now: the next lookup takes its buffer
            self._way.check_offset(self._lookup, query.number, found)
            return answer
        self._way.check_offset(self._lookup, query.number, found)
        end = self._lookup.end_offset()
        if isinstance(end, int) and query.number >= end:
            return self._places.past_end(query, end)
        if query.number < self._partition.start_offset:
            return LookupAnswer(query.text, error=self._before_start(query))
        if isinstance(found, Refused):
            return self._places.refused(query, found)
        return LookupAnswer(query.text, error=self._sentences.no_batch(query.number))

    def _before_start(self, query: Query) -> str:
        """Why an offset below the log start has no answer."""
        number, is_here = self._partition.floor(query.number), False
        if number >= 0:
            try:
                found = self._lookup.batch_of(number, query.number)
            except (UnreadableError, OSError):
                found = None
            if isinstance(found, FoundBatch) and found.cell(layout.CRC) == found.cell(layout.COMPUTED_CRC):
                is_here = self._inside.record(found, query.number) is not None
        return self._sentences.before_start(query.number, self._partition.start_offset, is_here=is_here)

    def _nothing(self, query: Query) -> LookupAnswer:
        """That a broker finds no record for a question about time, if it throws nothing."""
        number, largest = self._lookup.believed
        if query.ask is not Ask.MAX or largest < 0:
            return self._places.no_time(query)
        return LookupAnswer(
            query.text, error=self._sentences.no_named(largest, self._partition.segment(number).time_index.name)
        )

    # --- the data -------------------------------------------------------------------------------------------
    def _by_data(self, query: Query) -> LookupAnswer:
        if query.ask is Ask.OFFSET:
            return self._data_read(query)
        if query.ask is Ask.EARLIEST:
            return self._places.record(query, self._lookup.earliest())
        if query.ask is Ask.LATEST:
            broker = self._lookup.latest()
            epoch = broker.epoch if isinstance(broker, FoundRecord) else None
            return self._places.record(query, FoundRecord(NO_TIMESTAMP, self._data.end_offset(), epoch))
        found = self._data.max_timestamp() if query.ask is Ask.MAX else self._data.time(query.number)
        return self._places.record(query, found)

    def _data_read(self, query: Query) -> LookupAnswer:
        if query.number < self._partition.start_offset:
            return LookupAnswer(query.text, error=self._before_start(query))
        batch = self._data.offset(query.number)
        if batch is None:
            return self._places.past_end(query, self._data.end_offset())
        return self._places.in_batch(query, batch)

    def _differ(self, query: Query, broker: LookupAnswer, data: LookupAnswer, *, is_failure: bool) -> Finding:
        place = broker if broker.file is not None else data
        by_position = query.ask is Ask.OFFSET and broker.position != data.position
        answer = "fails" if is_failure else f"answers {broker.answer}"
        if self._way.reason:
            answer += f" ({self._way.reason})"
        return Finding(
            Code.L13,
            place.file or self._partition.path,
            place.position,
            None if place.position is None else 0,
            field="position" if by_position else "offset",
            found=broker.position if by_position else broker.offset,
            expected=data.position if by_position else data.offset,
            values={
                "query": query.text.strip(),
                "broker": answer,
                "data": data.answer,
                "remedy": self._remedies.of_other_answer(scan=self._scan, untimed=self._way.untimed),
            },
            severity_override=None if self._told else Severity.WARNING,
        )


def _unread(error: UnreadableError | OSError) -> tuple[Finding | OpenFailure, str]:
    """Report a file that cannot be read, and return the sentence of the answer."""
    if isinstance(error, UnreadableError):
        problem = error.problem
        return Finding(Code.V02, problem.path) if problem.missing else problem, problem.sentence
    sentence = f"{error.filename}: cannot be read: {error.strerror}"
    if isinstance(error, FileShrankError):
        return Finding(Code.V01, error.filename, error.position), sentence
    return OpenFailure(error.filename, "read", sentence), sentence


def _same(one: LookupAnswer, other: LookupAnswer) -> bool:
    """Whether two answers are the same place: what a sentence says of nothing may differ."""
    if one.error is not None or other.error is not None:
        return (one.error is None) == (other.error is None)
    return (one.offset, one.file, one.position) == (other.offset, other.file, other.position)
