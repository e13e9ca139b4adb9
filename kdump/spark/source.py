"""The data source `kafka-segments`: batches, records, findings and more of log directories, as tables.

Partitions are splits of logs (`kdump.export.split`). Rows are sent as Arrow record batches.
What is not asked for is left out by options, which belong to the relation:
`pushFilters` is not implemented on purpose. Spark keeps what it pushed last with the relation, so that a view that is
used twice with different filters gives wrong rows, silently.
"""

from __future__ import annotations

import json
import os
import sys
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
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
)

from kdump.broker.clusters import cluster_settings
from kdump.checks.directories import DirectoryCheck, not_together
from kdump.checks.options import VerifyOptions
from kdump.export.origin import Origins, read_roots
from kdump.export.split import SPLIT_SIZE, LogFile, WantedLogs, logs_of, pack, splits_of
from kdump.export.tables import SPLIT_TABLES, STATE_TABLES, Kind, columns_of
from kdump.export.verdicts import StateRows, segment_rows, verdict_rows
from kdump.format.read_limits import ReadLimits
from kdump.spark.state import state_items, state_units
from kdump.spark.units import Directory, DirectoryJudge
from kdump.storage.directory import expanded, no_kafka_files
from kdump.storage.file_source import OpenFailure
from kdump.storage.open_files import open_source
from kdump.storage.paths import is_dir, is_remote
from kdump.usage.options import by_partition
from kdump.usage.run import PlacedRows, usage_units

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from kdump.export.origin import Root
    from kdump.export.split import Split
    from kdump.export.tables import Column
    from kdump.finding import Finding
    from kdump.item import Item
    from kdump.spark.state import StateUnit
    from kdump.usage.options import UsageOptions
    from kdump.usage.run import UsageUnit

_MB = 1024 * 1024
_ROWS = 4096  # of findings and segments in one record batch
_UNITS = {"": 1, "k": 1024, "m": _MB, "g": 1024 * _MB}
_TYPES: dict[Kind, DataType] = {
    Kind.LONG: LongType(),
    Kind.INT: IntegerType(),
    Kind.BOOL: BooleanType(),
    Kind.TEXT: StringType(),
    Kind.BYTES: BinaryType(),
    Kind.JSON: StringType(),
    Kind.TEXTS: ArrayType(StringType()),
    Kind.HEADERS: ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}
_OPTIONS = (
    "path", "paths", "table", "columns", "decoder", "splitSize", "minPartitions", "topics", "partitions", "fromOffset",
    "toOffset", "fromTime", "toTime", "shallow", "contiguous", "noResync", "maxBatchBytes", "maxUncompressedBytes",
)  # fmt: skip


class OptionError(ValueError):
    """An option of the data source cannot be used; the message is one line for the user."""


def spark_schema(columns: Sequence[Column]) -> StructType:
    """Return the schema of some columns."""
    return StructType([StructField(column.name, _TYPES[column.kind]) for column in columns])


class _Options:
    """The options of a relation, as values.

    Args:
        given: by name in lower case, as Spark hands them over.
    """

    def __init__(self, given: dict[str, str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        known = {name.lower() for name in _OPTIONS}
        for name in self._given:
            if name not in known and not name.startswith("__"):
                raise OptionError(f"no option '{name}': there are {', '.join(_OPTIONS)}")
        self.table = self._given.get("table", "batches")
        self.columns = columns_of(self.table, self._words("columns"))

    def _words(self, name: str) -> tuple[str, ...] | None:
        text = self._given.get(name.lower())
        return None if text is None else tuple(word.strip() for word in text.split(",") if word.strip())

    def _number(self, name: str, default: int | None = None) -> int | None:
        text = self._given.get(name.lower())
        if text is None:
            return default
        digits = text.strip().lower().rstrip("b")
        unit = digits[-1:] if digits[-1:] in ("k", "m", "g") else ""
        try:
            return int(digits.removesuffix(unit)) * _UNITS[unit]
        except ValueError:
            raise OptionError(f"option {name}: '{text}' is not a number") from None

    def _flag(self, name: str) -> bool:
        return self._given.get(name.lower(), "false").strip().lower() == "true"

    @property
    def roots(self) -> list[Root]:
        """The paths of the user: `load(path)`, or `load([path, ...])`, which Spark hands over as JSON."""
        text = self._given.get("paths")
        paths = json.loads(text) if text else []
        if "path" in self._given:
            paths = [self._given["path"], *paths]
        if not paths:
            raise OptionError("no path is given: load(path) wants a log directory, a partition directory or a log")
        return read_roots(paths)

    @property
    def split_size(self) -> int:
        """Bytes that a task should have."""
        return max(1, self._number("splitSize") or SPLIT_SIZE[self.table])

    @property
    def tasks(self) -> int:
        """The least number of tasks."""
        return self._number("minPartitions") or os.cpu_count() or 1

    @property
    def wanted(self) -> WantedLogs:
        """The rows that are asked for."""
        return WantedLogs(
            self._words("topics"),
            self._words("partitions"),
            (self._number("fromOffset"), self._number("toOffset")),
            (self._number("fromTime"), self._number("toTime")),
        )

    @property
    def decoder(self) -> str:
        """auto, none, or the name of a decoder."""
        return self._given.get("decoder", "auto")

    @property
    def limits(self) -> dict[str, int]:
        """The limits that are given."""
        found = {"max_batch_bytes": "maxBatchBytes", "max_uncompressed_bytes": "maxUncompressedBytes"}
        return {name: value for name, option in found.items() if (value := self._number(option)) is not None}

    @property
    def verify(self) -> VerifyOptions:
        """The options of verify for findings and segments."""
        deep, resync, contiguous = not self._flag("shallow"), not self._flag("noResync"), self._flag("contiguous")
        return VerifyOptions(deep, resync, contiguous).replace(**self.limits)


class KafkaSegments(DataSource):
    """The data source; see the package for how to get a session that knows it."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "kafka-segments"

    def schema(self) -> StructType:
        """The columns that are asked for."""
        return spark_schema(_Options(dict(self.options)).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """The planner and reader."""
        options = _Options({**dict(self.options), "columns": ",".join(schema.names)})
        if options.table in STATE_TABLES:
            return _StateReader(options)
        if options.table == "usage":
            return _UsageReader(options)
        return _SplitReader(options) if options.table in SPLIT_TABLES else _WholeReader(options)


class _Task(InputPartition):
    """The work of one task; None for a relation without any."""

    def __init__(self, work: Any) -> None:  # noqa: ANN401 (a list of splits, or of directories)
        super().__init__(work)
        self.work = work


def _tasks(groups: list[list[Any]]) -> list[InputPartition]:
    return [_Task(group) for group in groups] or [_Task([])]


def _complain(line: str) -> None:
    """Say on the standard error of the task what is left out; no row can."""
    sys.stderr.write(f"kafka-segments: {line}\n")


def _left_out(problem: OpenFailure, roots: Sequence[Root]) -> None:
    """Say what is left out; that a path of the user leads nowhere, or a store does not answer, is a mistake instead."""
    is_nowhere = is_remote(problem.path) or (problem.missing and not is_dir(problem.path))
    if is_nowhere and any(problem.path == root.path for root in roots):
        raise OptionError(problem.sentence)
    _complain(problem.sentence)


class _SplitReader(DataSourceReader):
    """Batches and records: pieces of logs."""

    def __init__(self, options: _Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Plan pieces of about the same size."""
        options = self._options
        roots, wanted = options.roots, options.wanted
        splits: list[Split] = []
        for log in logs_of([root.path for root in roots], Origins(roots), wanted):
            if isinstance(log, LogFile):
                splits.extend(splits_of(log, options.split_size))
            else:
                _left_out(log, roots)
        sizes = [split.size for split in splits]
        return _tasks(pack(splits, sizes, options.split_size, options.tasks))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some pieces."""
        from kdump.export.read import ReadOptions, read_splits

        assert isinstance(partition, _Task)
        options = self._options
        wanted = ReadOptions(options.table, options.columns, options.wanted, options.decoder).replace(**options.limits)
        yield from read_splits(partition.work, wanted, _complain)


class _StateReader(DataSourceReader):
    """What internal topics come to: a task for each of their partitions."""

    def __init__(self, options: _Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the partitions; the copies of one meet in one task."""
        roots = self._options.roots
        units, problems = state_units(self._options.table, [root.path for root in roots])
        for problem in problems:
            if isinstance(problem, OpenFailure):
                _left_out(problem, roots)
        return _tasks([[unit] for unit in units])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""
        from kdump.export.arrow import from_rows

        assert isinstance(partition, _Task)
        rows = self._rows(partition.work)
        while some := list(islice(rows, _ROWS)):
            yield from_rows(some, self._options.columns)

    def _rows(self, work: Sequence[StateUnit]) -> Iterator[dict[str, object]]:
        options = self._options
        origins, given = Origins(options.roots), options.verify
        limits = ReadLimits(given.max_batch_bytes, given.max_uncompressed_bytes)
        for unit in work:
            state = StateRows(options.table, origins)
            for item in state_items(unit, limits):
                if isinstance(item, OpenFailure):
                    _complain(item.sentence)
                yield from (row for row in state.see(item) if options.wanted.has_row(row))


class _UsageReader(DataSourceReader):
    """What uses the space: partitions of log directories, a task for each unless they are small."""

    def __init__(self, options: _Options) -> None:
        self._options = options

    @cached_property
    def _usage(self) -> UsageOptions:
        """What is asked for, with the configurations of a metadata log among the paths: tasks get it from the plan."""
        given = self._options.verify
        limits = given.max_batch_bytes, given.max_uncompressed_bytes
        return by_partition(*limits, cluster_settings([root.path for root in self._options.roots], ReadLimits(*limits)))

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the partitions."""
        options = self._options
        _ = self._usage
        roots, wanted = options.roots, options.wanted
        units: list[UsageUnit] = []
        for unit in usage_units([root.path for root in roots]):
            if isinstance(unit, OpenFailure):
                _left_out(unit, roots)
            elif unit.name is not None or wanted.is_all:
                units.append(unit)
        return _tasks(pack(units, [unit.size for unit in units], options.split_size, options.tasks))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some partitions."""
        from kdump.export.arrow import from_rows

        assert isinstance(partition, _Task)
        options, origins = self._options, Origins(self._options.roots)
        rows = PlacedRows(self._usage)
        found: list[dict[str, object]] = []
        for unit in partition.work:
            for item in rows.of(unit):
                if isinstance(item, OpenFailure):
                    _complain(item.sentence)
                found += [row for row in verdict_rows("usage", item, origins) if options.wanted.has_row(row)]
        if found:
            yield from_rows(found, options.columns)


class _WholeReader(DataSourceReader):
    """Findings and segments: whole partition directories, a task for each unless they are small."""

    def __init__(self, options: _Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the directories; what only the paths together show is judged here."""
        options = self._options
        roots, wanted = options.roots, options.wanted
        origins = Origins(roots)
        work: list[Directory | str | list[Item]] = []
        sizes: list[int] = []
        places: list[DirectoryCheck] = []
        for path, is_directory in expanded([root.path for root in roots]):
            if not is_directory:
                opened = open_source(path)
                if isinstance(opened, OpenFailure):
                    _left_out(opened, roots)
                    continue
                opened.close()
                work.append(path)
                sizes.append(0)
            elif (place := DirectoryCheck(path)).is_broker_directory:
                places.append(place)
            else:
                _complain(no_kafka_files(path).sentence)
        for place in places:
            for check in place.partitions:
                if wanted.has_place(origins.of(check.path)):
                    work.append(Directory.of(check))
                    sizes.append(sum(check.sizes))
        of_hosts = any(root.host is not None for root in roots)
        around = [*not_together(places, are_replicas=False, of_hosts=of_hosts)]
        around += (item for place in places for item in place.check(options.verify))
        work.append(around)
        sizes.append(0)
        return _tasks(pack(work, sizes, options.split_size, options.tasks))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some directories."""
        from kdump.export.arrow import from_rows

        assert isinstance(partition, _Task)
        rows = self._rows(partition.work)
        while some := list(islice(rows, _ROWS)):
            yield from_rows(some, self._options.columns)

    def _rows(self, work: Sequence[Directory | str | list[Item]]) -> Iterator[dict[str, object]]:
        origins = Origins(self._options.roots)
        judge = DirectoryJudge(self._options.verify)
        for one in work:
            items = self._items(judge, one)
            if self._options.table == "segments":
                yield from segment_rows(items, origins)
            else:
                yield from (row for item in items for row in verdict_rows(self._options.table, item, origins))

    def _items(self, judge: DirectoryJudge, one: Directory | str | list[Item]) -> Iterator[Item]:
        if isinstance(one, Directory):
            late: list[Finding] = []
            yield from judge.partition(one, late)
            yield from late
        elif isinstance(one, str):
            yield from judge.loose(one)
        else:
            yield from one
