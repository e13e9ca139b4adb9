"""Tables that were kept night by night, read by the list of their present state."""

from __future__ import annotations

import os
from functools import reduce
from typing import TYPE_CHECKING, Any

from kdump.export.job import NO_NAME
from kdump.export.tables import FOLDERS, TABLES, columns_of
from kdump.nights.present import NotThisStoreError, parts_of, read_present
from kdump.spark.source import spark_schema
from kdump.storage.directory import DirectoryListing
from kdump.storage.paths import is_remote
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_KIND = "parquet"
_HOST = "host="
_TASKS = 256  # that read the files of a store, at most


class NoTableError(ValueError):
    """There is no such table; the message is one line."""


class _Listed(Value):
    """A store, and its list."""

    place: str  # its directory
    within: str  # what the files of the table begin with; empty where all of the store is meant
    host: str | None  # by the name of the directory; None where that has none
    present: dict[str, Any]  # the list


def read_table(spark: SparkSession, directory: str, name: str | None) -> DataFrame:
    """Return a table as the lists of its stores have it; see `kdump.spark.table`."""
    frames = [_read(spark, one, name, directory) for one in _listed(directory)]
    return reduce(lambda one, other: one.unionByName(other), frames)


def _read(spark: SparkSession, listed: _Listed, name: str | None, directory: str) -> DataFrame:
    """The table of one store."""
    parts = [part for part in parts_of(listed.present) if all(path.startswith(listed.within) for path, _ in part.files)]
    asked = listed.present["asked"]
    if asked.get("kind", _KIND) != _KIND:
        raise NoTableError(f"{directory}: its files are {asked['kind']}; tables are read from Parquet")
    if name is None:
        names = sorted({part.table for part in parts if part.files}) if "table" not in asked else [str(asked["table"])]
        if len(names) != 1:
            raise NoTableError(f"{directory}: holds the tables {', '.join(names) or 'of no rows'}: name one")
        name = names[0]
    if name not in TABLES or ("table" in asked and asked["table"] != name):
        raise NoTableError(f"{directory}: holds no table {name}")
    columns = columns_of(name, asked.get("columns"))
    shown = [one.name for one in columns]
    files = [os.path.join(listed.place, path) for part in parts if part.table == name for path, _ in part.files]
    # the names of directories have topic and partition, whether they were asked for or not
    known = {one.name: one for one in (*columns, *columns_of(name, FOLDERS))}
    if listed.host is not None:
        known.pop("host", None)  # no file has it
        shown = shown if "host" in shown else ["host", *shown]
    schema = spark_schema(list(known.values()))
    if files and is_remote(listed.place):
        frame = _of_store(spark, files, schema)
    elif files:
        base = files[0].partition("topic=")[0]
        frame = spark.read.schema(schema).option("basePath", base).parquet(*files)
    else:
        frame = spark.createDataFrame([], schema)
    if listed.host is not None:
        from pyspark.sql.functions import lit

        frame = frame.withColumn("host", lit(listed.host))
    return frame.select(*shown)


def _of_store(spark: SparkSession, files: list[str], schema: StructType) -> DataFrame:
    """The rows of files in a store, read as kdump reads there: Spark needs no package of its own for it."""
    from urllib.parse import unquote

    from pyspark.sql.pandas.types import to_arrow_schema

    wanted = to_arrow_schema(schema)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow.parquet as pq

        from kdump.storage.object_store import opened_file

        for path in (one for batch in batches for one in batch.column(0).to_pylist()):
            names = dict(one.split("=", 1) for one in path.split("/") if one.startswith(("topic=", "partition=")))
            with opened_file(path) as file:
                rows, named = pq.ParquetFile(file), {name: unquote(text) for name, text in names.items()}
                for group in range(rows.num_row_groups):  # each of which the writer has bounded
                    for batch in rows.iter_batches(row_groups=[group]):
                        yield _with_names(batch, wanted, named)

    one_each = spark.createDataFrame([(one,) for one in files], "path string").repartition(min(len(files), _TASKS))
    return one_each.mapInArrow(read, schema)


def _with_names(batch: pa.RecordBatch, schema: pa.Schema, names: dict[str, str]) -> pa.RecordBatch:
    """Rows of a file with the columns that the names of its directories have."""
    import pyarrow as pa

    columns = []
    for field in schema:
        if field.name in batch.schema.names:
            columns.append(batch.column(field.name).cast(field.type))
        else:
            text = names.get(field.name, NO_NAME)
            columns.append(pa.array([None if text == NO_NAME else text] * batch.num_rows, pa.string()).cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _listed(directory: str) -> list[_Listed]:
    """The stores that a directory means: itself, those of the hosts below it, or the one above that it is a table of.

    Raises:
        NotThisStoreError: there is none.
    """
    place = directory.rstrip("/") if is_remote(directory) else os.path.abspath(directory)
    for at, within in ((place, ""), (os.path.dirname(place), os.path.basename(place) + "/")):
        present = read_present(at)
        if present is not None:
            return [_Listed(at, within, _host_of(at), present)]
    below = sorted(one for one in DirectoryListing(place).names if one.startswith(_HOST))
    found = []
    for one in below:
        at = os.path.join(place, one)
        present = read_present(at)
        if present is not None:  # else its first run has not come to its end
            found.append(_Listed(at, "", _host_of(at), present))
    if not found:
        raise NotThisStoreError(f"{directory}: has no list of its files: it is not kept by --update")
    return found


def _host_of(place: str) -> str | None:
    name = os.path.basename(place)
    return name.removeprefix(_HOST) if name.startswith(_HOST) else None
