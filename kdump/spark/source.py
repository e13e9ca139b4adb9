"""The data source `kafka-segments`: batches, records, findings and more of log directories, as tables.

Partitions are splits of logs (`kdump.export.split`). Rows are sent as Arrow record batches.
Paths are made absolute, and manifests are read, where the work is planned; tasks get both from the plan, with what was
seen of each directory (`kdump.storage.sighting`). No rows never stand for what a task could not open: it raises, or,
with `mode=permissive`, that is a row of the table `unread`.
What is not asked for is left out by options, which belong to the relation:
`pushFilters` is not implemented on purpose. Spark keeps what it pushed last with the relation, so that a view that is
used twice with different filters gives wrong rows, silently.
"""

from __future__ import annotations

import os
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kdump.broker.clusters import cluster_settings
from kdump.checks.directories import DirectoryCheck
from kdump.checks.replicas import by_origin
from kdump.checks.run import without_files
from kdump.checks.table_items import table_items
from kdump.checks.together import not_together
from kdump.export.log_file import LogFile
from kdump.export.split import logs_of, pack, splits_of
from kdump.export.tables import REPLICA_TABLES, SPLIT_TABLES, STATE_TABLES, CellType
from kdump.export.verdicts import StateRows, VerdictRows, unread_of, unread_segment_row, verdict_rows
from kdump.finding import Code, Finding
from kdump.format.read_limits import ReadLimits
from kdump.spark.readers import Reader, Task, tasks_of
from kdump.spark.source_options import SourceOptions
from kdump.spark.state import state_items, state_units
from kdump.spark.units import Directory, DirectoryJudge
from kdump.storage.directory import expanded
from kdump.storage.file_source import OpenFailure
from kdump.storage.open_files import open_source
from kdump.storage.paths import is_dir, normal
from kdump.storage.sighting import LogDirs, Sighting, missed, sighted, sighted_file, sighting_of, sightings
from kdump.usage.options import by_partition
from kdump.usage.run import PlacedRows, usage_units

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from kdump.checks.partition_check import PartitionCheck
    from kdump.export.log_file import Split
    from kdump.export.tables import TableField
    from kdump.item import Item
    from kdump.spark.state import StateUnit
    from kdump.usage.options import UsageOptions
    from kdump.usage.run import UsageUnit

ROWS = 4096  # of findings and segments in one record batch
_TYPES: dict[CellType, DataType] = {
    CellType.LONG: LongType(),
    CellType.INT: IntegerType(),
    CellType.BOOL: BooleanType(),
    CellType.TEXT: StringType(),
    CellType.BYTES: BinaryType(),
    CellType.JSON: StringType(),
    CellType.TIME: TimestampType(),
    CellType.TEXTS: ArrayType(StringType()),
    CellType.NUMBERS: ArrayType(LongType()),
    CellType.HEADERS: ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}


def spark_schema(columns: Sequence[TableField]) -> StructType:
    """Return the schema of some columns; the comment of each is what the manual says of it."""
    return StructType(
        [StructField(column.name, _TYPES[column.kind], metadata={"comment": column.doc}) for column in columns]
    )


class KafkaSegments(DataSource):
    """The data source; see the package for how to get a session that knows it."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "kafka-segments"

    def schema(self) -> StructType:
        """The columns that are asked for."""
        return spark_schema(SourceOptions(dict(self.options)).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """The planner and reader."""
        options = SourceOptions({**dict(self.options), "columns": ",".join(schema.names)})
        options.demand_no_stream()
        _ = options.roots
        if options.table in STATE_TABLES:
            return _StateReader(options)
        readers: dict[str, type[_UsageReader | _UnreadReader | _SplitReader]] = {
            "usage": _UsageReader,
            "unread": _UnreadReader,
            **dict.fromkeys(SPLIT_TABLES, _SplitReader),
        }
        return readers[options.table](options) if options.table in readers else WholeReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (as Spark calls it)
        """The planner and reader of a stream."""
        from kdump.spark.stream import SegmentStream  # few ask for a stream

        options = SourceOptions({**dict(self.options), "columns": ",".join(schema.names)})
        options.demand_stream()
        _ = options.roots
        return SegmentStream(options)


class _SplitReader(Reader):
    """Batches and records: pieces of logs."""

    def planned(self) -> Sequence[InputPartition]:
        """Plan pieces of about the same size."""
        options = self._options
        splits: list[Split] = []
        for log in logs_of([root.path for root in options.roots], options.origins, options.wanted):
            if isinstance(log, LogFile):
                splits += splits_of(log, options.split_size, options.wanted if options.reading.seeks else None)
            else:
                self._plan_without(log)
        groups = pack(splits, [split.size for split in splits], options.split_size, options.tasks)
        seen: dict[str, Sighting] = {}
        return tasks_of([self._by_directory(group, seen) for group in groups])

    def _by_directory(self, splits: Sequence[Split], seen: dict[str, Sighting]) -> list[tuple[Sighting, list[Split]]]:
        """Pieces by the directory that they lie in, and what is to be looked for there."""
        places: dict[str, list[Split]] = {}
        for split in splits:
            places.setdefault(os.path.dirname(split.log.path), []).append(split)
        found = []
        for directory, here in places.items():
            if directory not in seen:
                seen[directory] = sighting_of(directory, self._options.origins.log_dirs).replace(is_alone=True)
            logs = {os.path.basename(split.log.path): split.log.size for split in here}
            found.append((seen[directory].replace(logs=tuple(logs.items())), here))
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some pieces."""
        from kdump.export.read import read_splits

        assert isinstance(partition, Task)
        yield from read_splits(self._there(partition.work), self._options.reading, self._go_without)

    def _there(self, work: Sequence[tuple[Sighting, list[Split]]]) -> Iterator[Split]:
        """Yield the pieces of logs that are there, and are those of the plan."""
        log_dirs = LogDirs()
        for seen, splits in work:
            unseen = missed(seen, log_dirs)
            self._misses(unseen)
            lost = {one.failure.path for one in unseen}
            yield from (split for split in splits if split.log.path not in lost)


class _StateReader(Reader):
    """What internal topics come to: a task for each of their partitions."""

    def planned(self) -> Sequence[InputPartition]:
        """Plan the partitions; the copies of one meet in one task."""
        units, problems = state_units(self._options.table, [root.path for root in self._options.roots])
        for problem in problems:
            self._plan_without(problem)
        log_dirs = self._options.origins.log_dirs
        return tasks_of([[(unit, [sighted(path, log_dirs) for path in unit.paths])] for unit in units])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""
        from kdump.export.arrow import from_rows

        assert isinstance(partition, Task)
        rows = self._rows(partition.work)
        while some := list(islice(rows, ROWS)):
            yield from_rows(some, self._options.columns)

    def _rows(self, work: Sequence[tuple[StateUnit, list[Sighting]]]) -> Iterator[dict[str, object]]:
        options = self._options
        log_dirs, given = LogDirs(), options.verify
        limits = ReadLimits(given.max_batch_bytes, given.max_uncompressed_bytes)
        for unit, places in work:
            lost = {seen.directory for seen in places if self._misses(missed(seen, log_dirs))}
            here = unit.replace(paths=tuple(path for path in unit.paths if path not in lost))
            if not here.paths:
                continue
            state = StateRows(options.table, options.origins)
            for item in state_items(here, limits):
                if isinstance(item, OpenFailure):
                    self._go_without(item)
                yield from (row for row in state.see(item) if options.wanted.has_row(row))


class _UsageReader(Reader):
    """What uses the space: partitions of log directories, a task for each unless they are small."""

    @cached_property
    def _usage(self) -> UsageOptions:
        """What is asked for, with the configurations of a metadata log among the paths: tasks get it from the plan."""
        given = self._options.verify
        limits = given.max_batch_bytes, given.max_uncompressed_bytes
        return by_partition(*limits, cluster_settings([root.path for root in self._options.roots], ReadLimits(*limits)))

    def planned(self) -> Sequence[InputPartition]:
        """Plan the partitions."""
        options = self._options
        _ = self._usage
        units: list[tuple[UsageUnit, Sighting]] = []
        log_dirs = options.origins.log_dirs
        for unit in usage_units([root.path for root in options.roots]):
            if isinstance(unit, OpenFailure):
                self._plan_without(unit)
            elif unit.name is not None or options.wanted.is_all:
                units.append((unit, _sighting_of_unit(unit, log_dirs)))
        return tasks_of(pack(units, [unit.size for unit, _ in units], options.split_size, options.tasks))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some partitions."""
        from kdump.export.arrow import from_rows

        assert isinstance(partition, Task)
        options, log_dirs = self._options, LogDirs()
        rows = PlacedRows(self._usage)
        found: list[dict[str, object]] = []
        for unit, seen in partition.work:
            if self._misses(missed(seen, log_dirs)):
                continue
            for item in rows.of(unit):
                if isinstance(item, OpenFailure):
                    self._go_without(item)
                found += [row for row in verdict_rows("usage", item, options.origins) if options.wanted.has_row(row)]
        if found:
            yield from_rows(found, options.columns)


def _sighting_of_unit(unit: UsageUnit, log_dirs: LogDirs) -> Sighting:
    """What is to be looked for of a unit of the table `usage`: its partition directory, or that of the user."""
    if not is_dir(unit.root):
        return sighted_file(unit.root, unit.size, log_dirs)
    below = os.path.join(unit.root, unit.name or "")
    return sighted(below if unit.name is not None and is_dir(below) else unit.root, log_dirs)


class _UnreadReader(Reader):
    """What cannot be opened: by the planner, and by tasks of some directories each. Nothing is read."""

    def planned(self) -> Sequence[InputPartition]:
        """Plan the directories; what cannot be opened here travels as it is."""
        options = self._options
        log_dirs = options.origins.log_dirs
        work: list[Sighting | OpenFailure] = []
        for one in sightings(expanded([root.path for root in options.roots]), log_dirs):
            if isinstance(one, OpenFailure):
                self._plan_without(one)
                work.append(one)
            elif options.wanted.has_place(options.origins.of(one.directory)):
                work.append(one)
        many = [1 if isinstance(one, OpenFailure) else max(1, len(one.logs)) for one in work]
        return tasks_of(pack(work, [0] * len(work), options.split_size, options.tasks, many))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some directories."""
        from kdump.export.arrow import from_rows

        assert isinstance(partition, Task)
        rows = self._rows(partition.work)
        while some := list(islice(rows, ROWS)):
            yield from_rows(some, self._options.columns)

    def _rows(self, work: Sequence[Sighting | OpenFailure]) -> Iterator[dict[str, object]]:
        origins, log_dirs = self._options.origins, LogDirs()
        for seen in work:
            for one in unread_of(seen, log_dirs, origins):
                if isinstance(seen, Sighting):
                    self._go_without(one.failure)
                yield one.row


class JudgedUnit:
    """Directories and files that are judged by one task, and what is known of them already.

    Attributes:
        parts: partition directories and single files, with what was seen of them; all of one directory, or replicas.
        known: what is known without reading them.
        size: of their logs, bytes.
        files: how many logs.
        are_replicas: they are replicas of one partition, which are compared.
        check: of the one partition that it is; None where it is more or less, and for who does the work.
    """

    def __init__(self, *, are_replicas: bool = False) -> None:
        self.parts: list[tuple[Directory | str, Sighting]] = []
        self.known: list[Item] = []
        self.size = 0
        self.files = 0
        self.are_replicas = are_replicas
        self.check: PartitionCheck | None = None

    def __getstate__(self) -> dict[str, Any]:
        """All that travels."""
        return {**self.__dict__, "check": None}


class WholeReader(Reader):
    """Findings, segments, losses and more: whole partition directories, a task for each unless they are small."""

    def planned(self) -> Sequence[InputPartition]:
        """Plan the directories."""
        each, options = self._each_unit(), self._options
        sizes, many = [unit.size for unit in each], [max(1, unit.files) for unit in each]
        return tasks_of(pack(each, sizes, options.split_size, options.tasks, many))

    def _each_unit(self) -> list[JudgedUnit]:
        """What is judged; what only the paths together show is judged here."""
        options = self._options
        log_dirs, origins = options.origins.log_dirs, options.origins
        rest = JudgedUnit()
        places: list[DirectoryCheck] = []
        files: list[tuple[str, Sighting]] = []
        for path, is_directory in expanded([root.path for root in options.roots]):
            if not is_directory:
                opened = open_source(path)
                if isinstance(opened, OpenFailure):
                    rest.known.append(opened)
                    continue
                opened.close()
                files.append((path, sighted_file(path, opened.size, log_dirs)))
            elif (place := DirectoryCheck(path)).is_broker_directory:
                places.append(place)
                if place.log_dir.path == path:
                    log_dirs.saw(place.log_dir.listing)
            else:
                rest.known += without_files(path)
        units = self._units([check for place in places for check in place.partitions])
        for path, seen in files:
            unit = units.setdefault(normal(origins.directory_of(path)), JudgedUnit())
            unit.parts.append((path, seen))
        of_hosts = any(root.host is not None for root in options.roots)
        around = [*not_together(places, options.verify.replace(of_hosts=of_hosts), are_replicas=False)]
        around += (item for place in places for item in place.check(options.verify))
        for item in around:
            path = item.file if isinstance(item, Finding) else item.path if isinstance(item, OpenFailure) else ""
            units.get(normal(origins.directory_of(path)), rest).known.append(item)
        each = [*dict.fromkeys(units.values()), rest]
        for unit in each:
            for item in unit.known:
                if isinstance(item, OpenFailure):
                    self._plan_without(item)
        return each

    def _units(self, checks: Sequence[PartitionCheck]) -> dict[str, JudgedUnit]:
        """What is judged together, by the paths of the directories: those that are compared, else each alone."""
        options = self._options
        log_dirs, found = options.origins.log_dirs, dict[str, JudgedUnit]()
        wanted = [check for check in checks if options.wanted.has_place(options.origins.of(check.path))]
        if options.table in REPLICA_TABLES:
            for replicas in by_origin(wanted)[0].values():
                if len(replicas) > 1:
                    found.update(dict.fromkeys((normal(one.path) for one in replicas), JudgedUnit(are_replicas=True)))
        for check in wanted:
            unit = found.setdefault(normal(check.path), JudgedUnit())
            unit.check = None if unit.parts else check
            unit.parts.append((Directory.of(check), sighted(check.path, log_dirs, check.swapped.today.listing)))
            unit.size += sum(check.sizes)
            unit.files += len(check.sizes)
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some directories."""
        from kdump.export.arrow import from_rows

        assert isinstance(partition, Task)
        log_dirs, judge, wanted = LogDirs(), DirectoryJudge(self._options.verify), self._options.wanted
        rows = (row for unit in partition.work for row in self.rows(unit, log_dirs, judge) if wanted.has_row(row))
        while some := list(islice(rows, ROWS)):
            yield from_rows(some, self._options.columns)

    def rows(self, unit: JudgedUnit, log_dirs: LogDirs, judge: DirectoryJudge) -> Iterator[dict[str, object]]:
        """Yield the rows of a unit.

        Args:
            unit: which.
            log_dirs: tells log directories apart here.
            judge: of partition directories.
        """
        made = VerdictRows(self._options.table, self._options.origins)
        for item in unit.known:
            if isinstance(item, OpenFailure):
                self._go_without(item)
            yield from made.see(item)
        here: list[Directory | str] = []
        for part, seen in unit.parts:
            unseen = missed(seen, log_dirs)
            if not self._misses(unseen) and not (seen.is_alone and unseen):
                here.append(part)
            if self._options.table == "segments" and seen.logs:
                yield from (unread_segment_row(one.failure.path, self._options.origins) for one in unseen)
            for one in unseen:
                yield from made.see(Finding(Code.V02, one.failure.path) if one.is_gone else one.failure)
        for item in self._items(unit, here, judge):
            if isinstance(item, OpenFailure):
                self._go_without(item)
            yield from made.see(item)
        yield from made.rest()

    def _items(self, unit: JudgedUnit, parts: Sequence[Directory | str], judge: DirectoryJudge) -> Iterator[Item]:
        """What verify says of what is there."""
        if unit.are_replicas and parts:
            paths = [part.path if isinstance(part, Directory) else part for part in parts]
            yield from table_items(self._options.table, paths, self._options.verify)
            return
        for part in parts if self._options.table != "replicaDiffs" else ():
            if isinstance(part, str):
                yield from judge.loose(part)
                continue
            late: list[Finding] = []
            yield from judge.partition(part, late)
            yield from late
