"""Tables that were kept night by night, read by the list of their present state."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kdump.export.tables import FOLDERS, TABLES, columns_of
from kdump.nights.present import NotThisStoreError, parts_of, read_present
from kdump.spark.source import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_KIND = "parquet"


class NoTableError(ValueError):
    """There is no such table; the message is one line."""


def read_table(spark: SparkSession, directory: str, name: str | None) -> DataFrame:
    """Return a table as the list of its store has it; see `kdump.spark.table`."""
    place, within, present = _listed(directory)
    parts = [part for part in parts_of(present) if all(path.startswith(within) for path, _ in part.files)]
    asked = present["asked"]
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
    schema = spark_schema(columns)
    files = [os.path.join(place, path) for part in parts if part.table == name for path, _ in part.files]
    if not files:
        return spark.createDataFrame([], schema)
    base = os.path.join(place, _folder(files[0], place))
    # the names of directories have topic and partition, whether they were asked for or not
    known = {one.name: one for one in (*columns, *columns_of(name, FOLDERS))}
    frame = spark.read.schema(spark_schema(list(known.values()))).option("basePath", base).parquet(*files)
    return frame.select(*[one.name for one in columns])


def _folder(file: str, place: str) -> str:
    """What stands before the directories of topics: the folder of a table, or nothing."""
    return os.path.relpath(file, place).partition("topic=")[0]


def _listed(directory: str) -> tuple[str, str, dict[str, Any]]:
    """The directory of a store, what its files begin with, and its list.

    Raises:
        NotThisStoreError: neither the directory nor the one above it has a list.
    """
    place = os.path.abspath(directory)
    for at, within in ((place, ""), (os.path.dirname(place), os.path.basename(place) + "/")):
        present = read_present(at)
        if present is not None:
            return at, within, present
    raise NotThisStoreError(f"{directory}: has no list of its files: it is not kept by --update")
