"""Findings, segments, losses and more with a task for each segment of a large partition: two stages of Spark.

A data source has one stage: what a task says of a partition it must have read itself. Here tasks of the first stage
judge segments, as the jobs of verify do, and say what they show; a second stage has all that was said of a partition in
one place, in order, and makes its rows of that. It opens the small files of the partition, and none of its logs but
where something is wrong with one. What one task can have is judged in the first stage, and its rows pass.
"""

from __future__ import annotations

import pickle
from itertools import count, islice
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from kdump.checks.job import SegmentSummary
from kdump.export.split import pack
from kdump.export.tables import SPLIT_TABLES, STATE_TABLES
from kdump.spark.readers import Task, tasks_of
from kdump.spark.source import ROWS, JudgedUnit, WholeReader, spark_schema
from kdump.spark.source_options import OptionError, SourceOptions
from kdump.spark.units import DirectoryJudge, units_of
from kdump.storage.names import parse_name
from kdump.storage.sighting import LogDirs, Sighting, missed
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from kdump.checks.segment import Result
    from kdump.spark.units import VerifyUnit
    from kdump.storage.misplaced import Misplaced

_UNIT, _AT, _NUMBER, _PART = "_unit", "_at", "_number", "_part"
_OURS = (
    StructField(_UNIT, LongType()),
    StructField(_AT, LongType()),
    StructField(_NUMBER, LongType()),
    StructField(_PART, BinaryType()),
)
_HEAD = -1  # before the base offset of any segment
_TOGETHER = 4096  # results of a segment in one row
_ONE_STAGE = (
    *SPLIT_TABLES,
    *STATE_TABLES,
    "usage",
    "unread",
    "replicaDiffs",
)  # these are read by the data source as well


class _Share(Value):
    """What one task does: a whole unit, or a segment of one."""

    unit: int  # its number
    whole: JudgedUnit | None = None
    seen: Sighting | None = None  # of the directory, with the log of the segment
    segment: VerifyUnit | None = None
    head: _Head | None = None  # of the unit, with its first segment


class _Head(Value):
    """What the second stage needs to know of a unit."""

    reader: WholeReader
    unit: JudgedUnit
    misplaced: Mapping[int, Misplaced]


class SegmentParts(DataSource):
    """The first stage: rows of the table, and what segments show; it is registered by who asks for the second."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "kafka-segments-parts"

    def schema(self) -> StructType:
        """Which unit a row belongs to, what a segment shows, and the columns that are asked for."""
        return StructType([*_OURS, *spark_schema(SourceOptions(dict(self.options)).columns)])

    def reader(self, schema: StructType) -> DataSourceReader:
        """The planner and reader."""
        ours = {one.name for one in _OURS}
        columns = ",".join(name for name in schema.names if name not in ours)
        options = SourceOptions({**dict(self.options), "columns": columns})
        options.demand_no_stream()
        _ = options.roots
        return _PartReader(options)


class _PartReader(WholeReader):
    """Directories, a task for each; a task for each segment of a large one."""

    def planned(self) -> Sequence[InputPartition]:
        """Plan the work."""
        options = self._options
        shares, sizes, many = list[_Share](), list[int](), list[int]()
        for number, unit in enumerate(self._each_unit()):
            cut = [] if unit.check is None or len(unit.parts) > 1 else units_of(unit.check, options.split_size)
            if not cut or cut[0].base is None:
                cut = []
                shares.append(_Share(number, whole=unit))
                sizes.append(unit.size)
                many.append(max(1, unit.files))
            head = _Head(WholeReader(options), unit, cut[0].misplaced) if cut else None
            logs = _logs_of(unit) if cut else {}
            for one in cut:
                own = tuple(logs[base] for base in (one.base,) if base in logs)
                shares.append(_Share(number, seen=unit.parts[0][1].replace(logs=own), segment=one, head=head))
                sizes.append(one.size)
                many.append(one.files)
                head = None
        return tasks_of(pack(shares, sizes, options.split_size, options.tasks, many))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of whole directories, and what segments of others show."""
        assert isinstance(partition, Task)
        log_dirs, judge = LogDirs(), DirectoryJudge(self._options.verify)
        for share in partition.work:
            numbers = count()
            if share.whole is not None:
                wanted = self._options.wanted
                rows = (row for row in self.rows(share.whole, log_dirs, judge) if wanted.has_row(row))
                while some := list(islice(rows, ROWS)):
                    yield self._batch(share.unit, 0, islice(numbers, len(some)), some)
                continue
            if share.head is not None:
                yield self._part(share.unit, _HEAD, next(numbers), share.head)
            assert share.segment is not None
            assert share.segment.base is not None
            base = share.segment.base
            results = self._results(share, log_dirs, judge)
            while some := list(islice(results, _TOGETHER)):
                yield self._part(share.unit, base, next(numbers), some)

    def _results(self, share: _Share, log_dirs: LogDirs, judge: DirectoryJudge) -> Iterator[Any]:
        """What a segment shows; where its log is not there, that."""
        assert share.seen is not None
        assert share.segment is not None
        assert share.segment.base is not None
        unseen = missed(share.seen, log_dirs)
        if self._misses(unseen):
            yield from (one.failure for one in unseen)
            yield SegmentSummary.not_read(share.segment.base)
            return
        yield from judge.unit(share.segment, [])

    def _part(self, unit: int, at: int, number: int, part: object) -> pa.RecordBatch:
        return self._batch(unit, at, iter((number,)), [], pickle.dumps(part))

    def _batch(
        self, unit: int, at: int, numbers: Iterator[int], rows: list[dict[str, object]], part: bytes | None = None
    ) -> pa.RecordBatch:
        import pyarrow as pa

        from kdump.export.arrow import from_rows

        columns = self._options.columns
        if part is not None:
            rows = [dict.fromkeys((one.name for one in columns), None)]
        made = from_rows(rows, columns)
        of_all, size = pa.int64(), len(rows)
        ours = [pa.array([unit] * size, of_all), pa.array([at] * size, of_all), pa.array(numbers, of_all)]
        names = [*(one.name for one in _OURS), *made.schema.names]
        return pa.RecordBatch.from_arrays([*ours, pa.array([part] * size, pa.binary()), *made.columns], names=names)


def _logs_of(unit: JudgedUnit) -> dict[int | None, tuple[str, int]]:
    """The logs that are to be looked for of the one partition of a unit, by base offset."""
    return {parse_name(one[0]).base_offset: one for one in unit.parts[0][1].logs}


def judged(spark: SparkSession, paths: Sequence[str], options: Mapping[str, str]) -> DataFrame:
    """Return a table of log directories, read by segment; see `kdump.spark.judged`."""
    given = SourceOptions(dict(options))
    if given.table in _ONE_STAGE:
        raise OptionError(f'the table {given.table} is read by spark.read.format("kafka-segments")')
    spark.dataSource.register(SegmentParts)
    parts = spark.read.format(SegmentParts.name()).options(**options).load(list(paths))
    in_order = parts.repartition(_UNIT).sortWithinPartitions(_UNIT, _AT, _NUMBER)
    return in_order.mapInArrow(_Merge(), spark_schema(given.columns))


class _Merge:
    """The second stage: rows pass, and rows are made of what the segments of a partition show."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows.

        Args:
            batches: rows of the first stage, those of a unit one behind the other.
        """
        pieces = _Pieces(batches)
        while True:
            rows = pieces.rows()
            if rows is not None:
                yield rows
            elif pieces.part is None:
                return
            else:
                yield from _merged(pieces)


class _Pieces:
    """What the first stage has handed over, piece by piece.

    Args:
        batches: of rows.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._each = self._all(batches)
        self._next: Any = next(self._each, None)

    @property
    def part(self) -> tuple[int, int, bytes] | None:
        """The part that comes next: of which unit, at which offset, and what; None for none, or where rows come."""
        return self._next if isinstance(self._next, tuple) else None

    def rows(self) -> pa.RecordBatch | None:
        """Take rows that are made already, if they come next."""
        return None if self._next is None or isinstance(self._next, tuple) else self._take()

    def take(self) -> bytes:
        """Take the part that comes next."""
        found: bytes = self._take()[2]
        return found

    def _take(self) -> Any:  # noqa: ANN401 (rows, or a part)
        found, self._next = self._next, next(self._each, None)
        return found

    @staticmethod
    def _all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch | tuple[int, int, bytes]]:
        for batch in batches:
            ours = [batch.column(name).to_pylist() for name in (_UNIT, _AT, _PART)]
            start = 0
            rest = batch.select(batch.schema.names[len(_OURS) :])
            for at, (unit, offset, part) in enumerate(zip(*ours, strict=True)):
                if part is None:
                    continue
                if start < at:
                    yield rest.slice(start, at - start)
                start = at + 1
                yield unit, offset, part
            if start < batch.num_rows:
                yield rest.slice(start)


def _merged(pieces: _Pieces) -> Iterator[pa.RecordBatch]:
    """The rows of the unit whose parts come next."""
    from kdump.export.arrow import from_rows

    assert pieces.part is not None
    unit, at, _ = pieces.part
    assert at == _HEAD
    head: _Head = pickle.loads(pieces.take())
    options = head.reader.options

    def of(base: int) -> bool:
        return pieces.part is not None and pieces.part[0] == unit and pieces.part[1] == base

    def skip(base: int | None) -> None:
        while pieces.part is not None and pieces.part[0] == unit and (base is None or pieces.part[1] < base):
            pieces.take()

    def shown(base: int) -> Iterator[Result] | None:
        skip(base)  # of a segment that has gone since
        return _results(pieces, of, base) if of(base) else None

    judge = DirectoryJudge(options.verify)
    judge.knows(shown, head.misplaced)
    rows = (row for row in head.reader.rows(head.unit, LogDirs(), judge) if options.wanted.has_row(row))
    while some := list(islice(rows, ROWS)):
        yield from_rows(some, options.columns)
    skip(None)


def _results(pieces: _Pieces, of: Callable[[int], bool], base: int) -> Iterator[Result]:
    while of(base):
        yield from pickle.loads(pieces.take())
