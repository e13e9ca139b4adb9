"""A stream of the data source: batches and records of logs that grow.

The offset of a stream has, for each partition, the next offset of its log. A partition is known by its cluster, its
log directory (by directory.id; where that has none, by host and path) and TOPIC-N. What else stands there is a hint
or tells changes: the last batch that was handed out, the topic id, the broker, and where a range begins that does not
begin where the one before ended: there something was lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxFiles, SupportsTriggerAvailableNow

from kdump.export.growth import (
    OpenError,
    OpenPieces,
    StreamLoss,
    cut_up,
    grown,
    limited,
    located_pieces,
    logs_from,
    up_to,
)
from kdump.export.log_file import BatchMark, Between, LogEdge
from kdump.export.split import not_followed, pack
from kdump.format.java_values import MAX_LONG
from kdump.spark.errors import UnreadError
from kdump.spark.readers import Task, complain, tasks_of
from kdump.spark.source_options import OptionError
from kdump.storage.directory import expanded, no_kafka_files
from kdump.storage.file_source import OpenFailure, first_line
from kdump.storage.partition_dir import InputDirectory
from kdump.storage.sighting import LogDirs, missed, sighting_of
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit

    from kdump.export.growth import Grown
    from kdump.export.log_file import Split
    from kdump.export.origin import Origin
    from kdump.spark.source_options import SourceOptions
    from kdump.storage.sighting import Sighting

_TRIES = 20  # of a partition whose logs are removed while they are looked at
_SMALL = 8 * 1024 * 1024  # bytes of a micro-batch that one task reads
_OF_MARK, _DIGITS = (5, 6), 20  # numbers of a mark, the last one may be missing, and digits of each
_HELP = "option mode=permissive reads the rest, and comes back to it"
_SKIP = "option onLoss=skip goes on"

Entry = dict[str, Any]
"""What the offset of a stream has of a partition: next, mark, begin, broker, topicId."""


class _Place(Value):
    """A partition directory."""

    path: str
    origin: Origin


class _Stretch(Value):
    """What a task reads of a partition."""

    place: _Place
    seen: Sighting  # of its directory
    between: Between
    size: int  # bytes


class SegmentStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The planner and reader of a stream.

    Args:
        options: of the relation.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._target: dict[str, LogEdge] | None = None  # where the stream ends, None where it does not
        self._latest: dict[str, Entry] | None = None

    # --- offsets ---------------------------------------------------------------------------------------------
    def initialOffset(self) -> dict[str, Entry]:  # noqa: N802 (as Spark calls it)
        """Nothing is read; what is asked for is there."""
        self._options.demand_selected()
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limit of a micro-batch."""
        size, files = self._options.most_of_a_batch
        return ReadMaxBytes(size) if size else ReadMaxFiles(files) if files else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Take down where the logs end now: what comes later is for the next run."""
        target = {}
        for key, place in self._places().items():
            new = self._grown(place, LogEdge(MAX_LONG))
            if new is not None:
                target[key] = new.between.last
        self._target = target

    def latestOffset(self, start: dict[str, Entry], limit: ReadLimit) -> dict[str, Entry]:  # noqa: N802
        """Return how far a micro-batch reads.

        Args:
            start: where it begins.
            limit: of its bytes or its files, by the trigger.
        """
        places, end = self._places(), dict(start)
        new: list[tuple[str, _Place, Grown]] = []
        latest = dict(start)
        for key, place in places.items():
            if self._target is not None and key not in self._target:
                continue
            entry, old = _entry_of(key, place, start, places)
            if entry is None and old is not None:
                continue  # a log directory hands it over to this one just now
            found = self._grown(place, None if entry is None else _edge(entry), (entry or {}).get("topicId"))
            if found is None:
                continue
            if found.loss is not None:
                self._lose(place.path, found.loss)
            if found.wrong is not None:
                at = f"goes on at offset {found.between.first.offset} and not at {found.wrong}"
                why = "the base offset of the last batch that was read is wrong, as those behind it show"
                complain(OpenFailure(place.path, "other", f"{place.path}: {at}: {why}"))
            found = found if self._target is None else up_to(found, self._target[key])
            if found is not None:
                if old is not None:
                    end.pop(old)
                    latest.pop(old)
                found = found.replace(begins=found.begins or old is not None)
                latest[key] = _entry(place, found, found.between.last)
                new.append((key, place, found))
        self._latest = latest
        self._take(new, end, limit)
        return end

    def reportLatestOffset(self) -> dict[str, Entry] | None:  # noqa: N802
        """Return how far the logs go, as they were seen last."""
        return self._latest

    def _take(self, new: list[tuple[str, _Place, Grown]], end: dict[str, Entry], limit: ReadLimit) -> None:
        """Take as much as the limit allows: first of the partitions that have most."""
        size, files = self._options.most_of_a_batch
        size = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        files = limit.max_files if isinstance(limit, ReadMaxFiles) else files if size is not None else None
        bytes_left, files_left = size or MAX_LONG, files or MAX_LONG
        for key, place, found in sorted(new, key=lambda one: (-one[2].size, one[0])):
            if bytes_left <= 0 or files_left <= 0:
                if found.begins:
                    end[key] = _entry(place, found, found.between.first)
                continue
            edge, used, many = found.between.last, found.size, len(found.logs)
            if used > bytes_left or many > files_left:
                try:
                    edge, used, many = limited(found, bytes_left, files_left)
                except (OpenError, OSError) as error:
                    if not (isinstance(error, OpenError) and error.failure.missing):
                        raise UnreadError(_line(place, error)) from None
                    # removed since it was listed: who reads the first log says what is lost
                    behind = found.logs[0].next_base
                    edge = edge if behind is None else LogEdge(behind)
            end[key] = _entry(place, found, edge)
            bytes_left, files_left = bytes_left - used, files_left - many

    def _grown(self, place: _Place, before: LogEdge | None, topic_id: str | None = None) -> Grown | None:
        """What a partition has that was not read; None for nothing."""
        is_end = before is not None and before.offset == MAX_LONG
        for is_last_try in (*[False] * _TRIES, True):
            try:
                first = None if before is None else before.first_needed
                directory, logs = logs_from(place.path, place.origin, first)
                return grown(directory, logs, None if is_end else before, topic_id)
            except OpenError as error:
                if error.failure.missing and not is_last_try:
                    continue  # removed since it was listed: the next listing says what is there
                self._plan_without(error.failure)
            except OSError as error:
                self._plan_without(OpenFailure(place.path, "read", _line(place, error)))
            break
        return None

    # --- what is there ---------------------------------------------------------------------------------------
    def _places(self, unread: list[OpenFailure] | None = None) -> dict[str, _Place]:
        """The partitions that are there, by what they are known by.

        Args:
            unread: gets what cannot be read, where the work was planned before; None: it counts as the mode says.
        """
        found: dict[str, _Place] = {}
        options = self._options
        without = self._plan_without if unread is None else unread.append
        for path, is_directory in expanded([root.path for root in options.roots]):
            if not is_directory:
                raise OptionError(f"{path}: is no directory: a stream reads log directories and partition directories")
            directory = InputDirectory(path)
            if directory.failure is not None:
                without(directory.failure)
                continue
            if directory.is_log_dir:
                if not (directory.partitions or directory.contents.files):
                    without(no_kafka_files(path))
                for failure in not_followed(directory.contents):
                    without(failure)
            options.origins.log_dirs.saw(directory.itself.listing)
            for one in directory.partitions:
                if one.parsed is None or one.parsed.state:
                    continue
                place = _Place(one.path, options.origins.of(one.path))
                if options.wanted.has_place(place.origin):
                    key = self._key(place)
                    if key in found:
                        raise OptionError(f"{one.path}: a copy of {found[key].path}: a stream reads one copy")
                    found[key] = place
        return found

    def _key(self, place: _Place) -> str:
        """What a partition is known by: CLUSTER/DIRECTORY/TOPIC-N."""
        known = self._options.origins.place(place.origin.columns())
        where = known.directory_id or f"{known.host or ''}:{known.log_dir}"
        return f"{known.cluster or ''}/{where}/{known.topic}-{known.partition}"

    # --- what is lost ----------------------------------------------------------------------------------------
    def _plan_without(self, failure: OpenFailure) -> None:
        """Take what cannot be read where the work is planned: its offset stays."""
        if not self._options.is_permissive:
            raise UnreadError(f"{failure.sentence} ({_HELP})")
        complain(failure)

    def _lose(self, path: str, loss: StreamLoss) -> None:
        """Take what was lost: it ends the stream, or is said."""
        sentence = f"{path}: {loss.sentence}"
        if not self._options.skips_losses:
            raise UnreadError(f"{sentence} ({_SKIP})")
        complain(OpenFailure(path, "missing", sentence))

    # --- work ------------------------------------------------------------------------------------------------
    def partitions(self, start: dict[str, Entry], end: dict[str, Entry]) -> Sequence[InputPartition]:
        """Plan the tasks of a micro-batch.

        Args:
            start: where it begins.
            end: where it ends.
        """
        work = []
        unread: list[OpenFailure] = []
        places = self._places(unread) if start != end else {}
        for key, entry in end.items():
            if entry == start.get(key):
                continue
            between = Between(
                LogEdge(_offset_in(entry, "begin")) if "begin" in entry else _edge(start[key]), _edge(entry)
            )
            if between.first.offset > between.last.offset:
                above = f"the stream has read up to offset {between.first.offset - 1}"
                raise UnreadError(f"{key}: {above}, and its log ends at {between.last.offset} ({_SKIP})")
            if key in places and between.first != between.last:
                work += self._stretches(places[key], between)
            elif between.first.offset < between.last.offset:
                if unread:  # it may be there: what is planned is read, or the query ends
                    raise UnreadError(unread[0].sentence)
                self._lose(key, StreamLoss(between.first.offset, between.last.offset - 1, is_gone=True))
        if not work:
            return []
        sizes = [one.size for one in work]
        least = self._options.tasks if sum(sizes) > _SMALL else 1
        return tasks_of(pack(work, sizes, self._options.split_size, least))

    def _stretches(self, place: _Place, between: Between) -> list[_Stretch]:
        """What tasks read of the range of a partition."""
        seen = sighting_of(place.path, self._options.origins.log_dirs)
        whole = [_Stretch(place, seen, between, 0)]
        try:
            directory_logs = logs_from(
                place.path, place.origin, None if between.first is None else between.first.offset
            )
            splits = located_pieces(directory_logs[1], between)
            cut = [one for split in splits for one in cut_up(split, self._options.split_size)]
        except (OpenError, OSError):
            return whole  # a broker is at work there: the task sees what there is
        if not cut:
            return whole
        made = [_Stretch(place, seen, one.between, one.size) for one in cut if one.between is not None]
        made[0] = made[0].replace(between=made[0].between.replace(first=between.first))
        return made

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some ranges."""
        from kdump.export.read import read_splits

        assert isinstance(partition, Task)
        pieces, log_dirs = OpenPieces(), LogDirs()
        splits = (split for one in partition.work for split in self._there(one, pieces, log_dirs))
        yield from read_splits(splits, self._options.reading, _go_without, opened=pieces.opened)

    def _there(self, one: _Stretch, pieces: OpenPieces, log_dirs: LogDirs) -> Iterator[Split]:
        """Yield the pieces of a range that are there."""
        for unseen in missed(one.seen, log_dirs):
            raise UnreadError(unseen.failure.sentence)
        try:
            for found in pieces.of(one.place.path, one.place.origin, one.between):
                if isinstance(found, StreamLoss):
                    self._lose(one.place.path, found)
                else:
                    yield found
        except (OpenError, OSError) as error:
            raise UnreadError(_line(one.place, error)) from None


def _go_without(problem: OpenFailure) -> None:
    """Take what cannot be read where the work is done: what was planned is read, or the micro-batch fails."""
    if problem.is_of_opening or problem.kind == "read":
        raise UnreadError(problem.sentence)
    complain(problem)


def _entry_of(
    key: str, place: _Place, start: Mapping[str, Entry], places: Mapping[str, _Place]
) -> tuple[Entry | None, str | None]:
    """How far a partition was read, and the name that it had before a broker has moved it to another disk of its own.

    While it is in both places it is None, and has that name.
    """
    if key in start:
        return start[key], None
    broker = place.origin.broker
    if broker is None:
        _demand_known(key, place, start, places)
        return None, None
    for old, entry in start.items():
        if entry.get("broker") == broker and _without_directory(old) == _without_directory(key):
            return (None if old in places else {name: entry[name] for name in entry if name != "mark"}), old
    return None, None


def _demand_known(key: str, place: _Place, start: Mapping[str, Entry], places: Mapping[str, _Place]) -> None:
    """Refuse a partition that nothing identifies, where one of its name was read that is here no more."""
    for old in start:
        if old not in places and old.rpartition("/")[2] == key.rpartition("/")[2] and not old.startswith("/"):
            why = "meta.properties is missing, or cannot be read"
            raise UnreadError(f"{place.path}: {why}: nothing tells whether it is {old}, which was read before")


def _without_directory(key: str) -> tuple[str, str]:
    return key.partition("/")[0], key.rpartition("/")[2]


def _entry(place: _Place, found: Grown, edge: LogEdge) -> Entry:
    entry: Entry = {"next": edge.offset}
    if edge.mark is not None:
        mark = edge.mark
        numbers = (mark.segment, mark.position, mark.size, mark.header, mark.inode)
        entry["mark"] = ":".join(map(str, numbers if mark.epoch < 0 else (*numbers, mark.epoch)))
    begin = found.between.first.offset if found.begins else None
    more = {"begin": begin, "broker": place.origin.broker, "topicId": found.topic_id}
    return entry | {name: value for name, value in more.items() if value is not None}


def _edge(entry: Entry) -> LogEdge:
    """The edge of an entry; a mark is a hint, and one of another make is none."""
    offset, text = _offset_in(entry, "next"), entry.get("mark")
    numbers = text.split(":") if isinstance(text, str) else []
    if len(numbers) not in _OF_MARK or not all(
        one.isascii() and one.isdigit() and len(one) <= _DIGITS for one in numbers
    ):
        return LogEdge(offset)
    return LogEdge(offset, BatchMark(*map(int, numbers)))


def _offset_in(entry: Entry, name: str) -> int:
    """An offset that the checkpoint of a query has."""
    found = entry.get(name) if isinstance(entry, dict) else None
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= MAX_LONG:
        raise OptionError(f"the checkpoint of the query has no offset in {name}, but {found!r}: it is not a stream's")
    return found


def _line(place: _Place, error: OpenError | OSError) -> str:
    return error.failure.sentence if isinstance(error, OpenError) else f"{place.path}: {first_line(error)}"
