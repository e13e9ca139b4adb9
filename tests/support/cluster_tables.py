"""The driver of a cluster: reads tables of the data source, and prints what becomes of each, as a JSON object a line.

`python -m tests.support.cluster_tables MASTER PATH TABLE...`, each TABLE with `:permissive` behind it where that mode
is meant. A process of its own, as a JVM has one session only, and Python starts one JVM.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import kdump
import kdump.spark
from kdump.spark.errors import reason_of
from tests.support.tables import sorted_rows

_CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executorEnv.PYTHONPATH": str(Path(kdump.__file__).parents[1]),
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.task.maxFailures": "1",
}


def main(master: str, path: str, *tables: str) -> None:
    """Read each table."""
    spark = kdump.spark.session(master, conf=_CONF)
    for word in tables:
        table, _, mode = word.partition(":")
        reader = spark.read.format("kafka-segments").option("table", table).option("mode", mode or "failfast")
        try:
            found: dict[str, object] = {"rows": sorted_rows(reader.load(path).toArrow())}
        except Exception as error:
            found = {"raises": reason_of(str(error))}
        print(json.dumps({"table": word, **found}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
