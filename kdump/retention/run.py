"""The verb retention: partition by partition, what a broker deletes, rolls and compacts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kdump.broker.cleaner.cleaned_segment import OffsetMap
from kdump.broker.cleaner.cleaner import Cleaner, LogToClean
from kdump.broker.cleaner.cleaner_manager import IndexSizes, groups
from kdump.broker.cleaner.filter_to import CleaningError
from kdump.broker.log_facts import LogFiles, LogReader, cleanable_part, last_records, producers_at
from kdump.broker.remote_copy import remote_copy
from kdump.broker.retention import Append, RetentionFacts, SegmentFacts, delete, first_deleted, misled, rolling
from kdump.broker.retention_results import Compacted, Retained
from kdump.finding import Code, Finding
from kdump.format.batch.window import HEADERS_WINDOW, Buffer
from kdump.format.index.offset_and_time import TimeIndex
from kdump.format.kinds import FileKind
from kdump.format.source import BytesSource
from kdump.item import Progress
from kdump.storage.directory import no_kafka_files
from kdump.storage.file_source import OpenFailure
from kdump.storage.open_files import open_source
from kdump.storage.partition_dir import InputDirectory
from kdump.storage.paths import is_dir, parent
from kdump.storage.segment import UnreadableError
from kdump.value import Value
from kdump.workers import in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    from kdump.broker.cleaner.cleaned_segment import CleanedSegment
    from kdump.broker.cleaner.cleaner import LastRecord
    from kdump.broker.cleanup_policy import CleanupPolicy
    from kdump.broker.config import Config, TopicConfig
    from kdump.broker.retention_results import RetentionItem
    from kdump.storage.partition_dir import PartitionDir
    from kdump.storage.state_file import StateFile

_SMALL_APPEND = 70  # bytes: one record with nearly nothing in it
_TIME_SLOT = TimeIndex.entry_size
_TOO_SMALL = "the offset map is too small for even a single message: raise log.cleaner.dedupe.buffer.size"
_STATES = {
    "delete": "its topic is deleted: the whole directory goes file.delete.delay.ms after that",
    "stray": "a broker has moved it away: no retention looks at it",
    "future": "it is a copy on its way to another log directory: no retention looks at it",
}


class RetentionOptions(Value):
    """The options of retention."""

    config: Config  # of the broker and its topics
    now: int  # the clock, ms
    high_watermark: int | None  # of each log; None for its end
    log_start_offset: int | None  # of each log; None for what the checkpoint says
    highest_remote_offset: int | None  # of each tiered log, -1 for none; None for all that may be copied
    compaction: bool  # say what the cleaner does
    clean: bool  # simulate a pass of it
    collect: bool  # keep lists of batches and offsets
    progress: bool  # yield how far it is
    # max_batch_bytes, max_uncompressed_bytes: limits
    max_batch_bytes: int
    max_uncompressed_bytes: int
    jobs: int = 1  # processes; 0 for one on each core


def retention(paths: list[str], options: RetentionOptions) -> Iterator[RetentionItem]:
    """Yield what a broker does with the segments of partitions, each after the findings about it.

    Args:
        paths: partition directories or log directories, as the user wrote them.
        options: what was asked for.

    Reports: T02, T04 and T05 where they change what is deleted; F08, K02, K03; what is wrong with a damaged log.
    """
    found: list[tuple[InputDirectory, Sequence[PartitionDir]]] = []
    for path in paths:
        if not is_dir(path):
            yield _no_directory(path)
            continue
        held: list[Finding | OpenFailure] = []
        directory = InputDirectory(path, parent)
        skipped = [] if directory.is_partition else directory.contents.skipped
        for one in skipped:
            kind = "permission" if one.path == path else "skipped"
            held.append(OpenFailure(one.path, kind, one.sentence))
        partitions = [] if any(one.path == path for one in skipped) else directory.partitions
        if not (partitions or held):
            held.append(no_kafka_files(path))
        yield from held
        found.append((directory, partitions))
    buffer = Buffer(BytesSource(b""), HEADERS_WINDOW)
    passes = 1 + options.clean  # the offset map is made first, then the segments are filtered
    sizes = [[passes * _size(one) for one in judged] if options.progress else None for _, judged in found]
    done, total = 0, sum(sum(own or ()) for own in sizes)
    for (directory, judged), own in zip(found, sizes, strict=True):
        for item in _partitions(directory, judged, own, buffer, options):
            yield Progress(done + item.done, total, item.path) if isinstance(item, Progress) else item
        done += sum(own or ())


def _size(partition: PartitionDir) -> int:
    """The bytes of the logs of a partition that are looked at."""
    return 0 if partition.parsed is not None and partition.parsed.state else partition.log_bytes


def _partitions(
    directory: InputDirectory,
    partitions: Sequence[PartitionDir],
    sizes: Sequence[int] | None,
    buffer: Buffer,
    options: RetentionOptions,
) -> Iterator[RetentionItem]:
    """Yield what is said of partitions of one directory, and with their sizes how many bytes of its logs are done."""

    def one(number: int) -> Iterator[RetentionItem | _OfCheckpoint]:
        held: list[Finding | OpenFailure | _OfCheckpoint] = []
        directory.log_dir.on_read = partial(_report, held)
        for item in _partition(_Task(partitions[number], buffer, options, held)):
            if sizes is not None or not isinstance(item, Progress):
                yield item
        if sizes is not None:
            yield Progress(sizes[number], sizes[number], partitions[number].path)

    told: set[str] = set()
    total = None if sizes is None else sum(sizes)
    with in_order(range(len(partitions)), one, options.jobs, total=total) as judged:
        for items in judged:
            for item in items:
                if not isinstance(item, _OfCheckpoint):
                    yield item
                elif item.path not in told:  # each process reads them once
                    told.add(item.path)
                    yield from item.problems


class _OfCheckpoint(Value):
    """What is wrong with a checkpoint of the log directory, which the first partition that needs it has read."""

    path: str
    problems: list[Finding | OpenFailure]


def _report(held: list[Finding | OpenFailure | _OfCheckpoint], file: StateFile) -> None:
    """Report what is wrong with a checkpoint, or why it cannot be read."""
    problems: list[Finding | OpenFailure] = []
    if file.failure is not None and not file.is_missing:
        problems.append(file.failure)
    problems.extend(file.findings)
    if file.error is not None:
        problems.append(OpenFailure(file.path, "read", f"{file.path}: cannot be read: {file.error.strerror}"))
    held.append(_OfCheckpoint(file.path, problems))


def _no_directory(path: str) -> OpenFailure:
    source = open_source(path)  # knows links that lead nowhere
    if isinstance(source, OpenFailure):
        return source
    source.close()
    return OpenFailure(path, "other", f"{path}: name a partition directory or a log directory, not a file in it")


class _Task(Value):
    """One partition: its directory, a buffer, what was asked for, and where problems are put."""

    directory: PartitionDir
    buffer: Buffer
    options: RetentionOptions
    held: list[Finding | OpenFailure | _OfCheckpoint]


def _partition(task: _Task) -> Iterator[RetentionItem | _OfCheckpoint]:
    directory, path = task.directory, task.directory.path
    parsed = directory.parsed
    if parsed is not None and parsed.state:
        yield OpenFailure(path, "skipped", f"{path}: {_STATES[parsed.state]}")
        return
    rows: list[RetentionItem] = []
    try:
        files = LogFiles(directory, task.held.append, task.options.max_batch_bytes)
        if files.bases:
            rows = yield from _rows(LogReader(files, task.buffer), task)
        else:
            task.held.append(OpenFailure(path, "other", f"{path}: no segment is here"))
    except UnreadableError as error:
        task.held.append(error.problem)
    except OSError as error:
        where = error.filename or path
        task.held.append(OpenFailure(where, "read", f"{where}: cannot be read: {error.strerror}"))
    finally:
        directory.close()
    yield from task.held
    task.held.clear()
    yield from rows


def _rows(reader: LogReader, task: _Task) -> Generator[Progress, None, list[RetentionItem]]:
    """Return the items of a partition: compaction first, as it reads what retention needs."""
    options, files = task.options, reader.files
    log_dir = task.directory.log_dir
    policy = options.config.policy(files.topic, log_dir, task.directory.topic_id)
    options = options.replace(config=options.config.on(files.topic, log_dir))
    config = options.config.of_topic(files.topic)
    files.check_names()
    largest: dict[int, int] = {}
    compacted = None
    if options.compaction:
        compacted = yield from _compacted(reader, config, policy, options, largest, task.held.append)
    log = reader.facts(options.log_start_offset, options.high_watermark, largest, is_tiered=config.is_tiered)
    remote = remote_copy(files, log, config, options.config.rules, options.now, options.highest_remote_offset)
    if remote is not None:
        log = log.replace(remote=remote.highest)
    append = Append(_SMALL_APPEND, options.now, log.end_offset)
    is_known = policy.now is not None
    rows: list[RetentionItem] = [
        Retained(
            files.path,
            files.name,
            options.now,
            log=log,
            config=config,
            policy=policy.now,
            deletion=delete(log, config, options.now) if is_known else None,
            first_deleted=first_deleted(log, config, options.now) if is_known else [None] * len(log.segments),
            rolling=rolling(reader.active(), append, config, options.now),
            append=append,
            remote=remote,
            assumed=_said(options.config.assumed(files.topic, policy), "" if remote is None else remote.assumed),
            release=options.config.assumed_release,
        )
    ]
    for number in misled(log, config, options.now) if is_known else ():
        task.held.append(_time_finding(files, number, log.segments[number]))
    if compacted is not None:
        rows.append(compacted)
    return rows


def _said(*said: str) -> tuple[str, ...]:
    """The sentences that are not empty."""
    return tuple(filter(None, said))


def _time_finding(files: LogFiles, number: int, segment: SegmentFacts) -> Finding:
    """A wrong largest timestamp that decides over a segment: zeros, too high, too low or none."""
    path = files.file(number, FileKind.TIMEINDEX)
    is_there = files.has(number, FileKind.TIMEINDEX)
    size = files.index_size(number, FileKind.TIMEINDEX)
    at, length = (size - _TIME_SLOT, _TIME_SLOT) if size else (0 if is_there else None, 0 if is_there else None)
    found = segment.largest if segment.source == "index" else None
    last = segment.base_offset
    if found == 0:
        return Finding(Code.T02, path, at, length, found=0, expected=segment.max_in_data)
    if found is not None and segment.max_in_data is not None and found > segment.max_in_data:
        values: dict[str, int | str | None] = {"largest": segment.max_in_data}
        return Finding(
            Code.T04, path, at, length, offset=last, found=found, expected=segment.max_in_data, values=values
        )
    values = {"largest": segment.max_in_data}
    return Finding(
        Code.T05, path, at, length, found=-1 if found is None else found, expected=segment.max_in_data, values=values
    )


# --- the cleaner ----------------------------------------------------------------------------------------------
def _compacted(
    reader: LogReader,
    config: TopicConfig,
    policy: CleanupPolicy,
    options: RetentionOptions,
    largest: dict[int, int],
    report: Callable[[Finding | OpenFailure], None],
) -> Generator[Progress, None, Compacted]:
    timeless = options.clean and config.min_compaction_lag_ms == 0
    files = reader.files
    log = reader.facts(options.log_start_offset, options.high_watermark, {}, timeless=timeless)
    files.log_start = log.start_offset
    known = producers_at(files, log.end_offset)
    part = cleanable_part(files, log, known, config, options.now)
    size = sum(segment.size for segment in log.segments)
    row = Compacted(
        files.path,
        files.name,
        options.now,
        config=config,
        policy=policy.now,
        part=part,
        log_size=size,
        assumed=_said(options.config.assumed(files.topic, policy)),
        release=options.config.assumed_release,
    )
    if not options.clean:
        return row
    if not part.chosen:
        return row.replace(cleaned=[])
    active = last_records(known, options.now, options.config.broker("producer.id.expiration.ms"))
    return (yield from _pass(reader, config, options, log=log, row=row, active=active, largest=largest, report=report))


def _watermark(files: LogFiles, log: RetentionFacts, options: RetentionOptions) -> int:
    """The high watermark of a pass: the one that was given, else that of the checkpoint, else the log end."""
    name = files.directory.parsed
    if options.high_watermark is not None or name is None:
        return log.high_watermark
    stored = files.directory.log_dir.file(FileKind.REPLICATION).offsets.get((name.topic, name.partition))
    return log.high_watermark if stored is None else min(max(stored, log.start_offset), log.end_offset)


def _pass(
    reader: LogReader,
    config: TopicConfig,
    options: RetentionOptions,
    log: RetentionFacts,
    row: Compacted,
    active: Mapping[int, LastRecord],
    largest: dict[int, int],
    report: Callable[[Finding | OpenFailure], None],
) -> Generator[Progress, None, Compacted]:
    """Simulate a pass; one that fails leaves what it had not come to as it is."""
    files, rules = reader.files, options.config.rules
    count = len(files.bases)
    log_to_clean = LogToClean(
        files.bases,
        [reader.modified(number) for number in range(count)],
        row.part.first_dirty_offset,
        end=row.part.clean_until_offset,
        now=options.now,
        delete_retention_ms=config.delete_retention_ms,
        kept_end=_watermark(files, log, options)
        if rules.keeps_empty_at_high_watermark
        else row.part.clean_until_offset,
        max_record=rules.max_record(config.max_decompressed_message_bytes),
        producers=active,
        max_uncompressed_bytes=options.max_uncompressed_bytes,
        max_batch_bytes=options.max_batch_bytes,
    )
    offset_map = OffsetMap(options.config.broker("log.cleaner.dedupe.buffer.size"), options.config.load_factor())
    if offset_map.is_too_small:
        return row.replace(cleaned=[], failure=_TOO_SMALL)
    cleaner = Cleaner(log_to_clean, files, offset_map, collect=options.collect)
    cleaned: list[CleanedSegment] = []
    done, before, end, failure = 0, 0, None, ""
    try:
        end = yield from cleaner.build_map()
        sizes = [
            IndexSizes(files.index_size(n, FileKind.INDEX), files.index_size(n, FileKind.TIMEINDEX))
            for n in range(count)
        ]
        for group in groups(log, end, row.part.clean_until_offset, sizes, config):
            cleaned.append((yield from cleaner.clean(group)))
            done = group.stop
            before += sum(log.segments[number].size for number in group)
    except CleaningError as error:
        end, failure = None, error.why
        _explain(files, error, report)
    try:
        for number in range(done, count - 1):
            if options.collect:
                cleaned.append((yield from cleaner.untouched(number)))
    except CleaningError as error:
        if not failure:
            _explain(files, error, report)
        failure = failure or error.why
    for number in sorted(cleaner.odd):
        files.explain(files.log(number), number)
    largest.update(cleaner.largest)
    return row.replace(cleaned=cleaned, before=before, end_offset=end, failure=failure)


def _explain(files: LogFiles, error: CleaningError, report: Callable[[Finding | OpenFailure], None]) -> None:
    """Report what is wrong with the log in which a pass fails."""
    path = files.file(error.number, FileKind.LOG)
    if error.limit:
        report(Finding(Code.L12, path, error.position, 0, values={"why": error.why}))
    else:
        files.explain(files.log(error.number), error.number)
