"""The process from which Spark forks its Python workers: it imports once what they all need.

Without the freeze Spark's collection of garbage after each task goes through all that is imported: ten times the cost
of a small task.
"""

from __future__ import annotations

import gc
import os
from typing import Any

import pyarrow.compute  # noqa: F401
import pyspark.sql.worker.plan_data_source_read
import pyspark.worker  # noqa: F401
from pyspark import daemon

_worker = daemon.worker


def _quiet_worker(sock: Any, authenticated: bool) -> int:  # noqa: ANN401 (a socket, of a kind that Spark chooses)
    """Run a worker; where Spark wants no more of it, as after a `show`, it ends, and tells no traceback.

    Where kdump has started the JVM, nothing that is printed here reaches the user (`kdump.spark.gateway`); a session
    that was there before has no such log.
    """
    try:
        return int(_worker(sock, authenticated))
    except ConnectionError:
        os._exit(1)


if __name__ == "__main__":
    daemon.worker = _quiet_worker
    gc.collect()
    gc.freeze()
    daemon.manager()
