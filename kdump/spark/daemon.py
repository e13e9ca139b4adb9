"""The process that Spark forks its Python workers from: what they all need is imported once, and frozen.

Without the freeze Spark's collection of garbage after each task goes through all that is imported: ten times the cost
of a small task.
"""

from __future__ import annotations

import gc

import pyarrow.compute  # noqa: F401
import pyspark.sql.worker.plan_data_source_read
import pyspark.worker  # noqa: F401
from pyspark import daemon

import kdump.export.read
import kdump.spark.source
import kdump.verify.run  # noqa: F401

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    daemon.manager()
