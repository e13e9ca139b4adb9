"""Start a session: its Java, its Python, and settings for small machines and small tasks."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from kdump.spark.errors import SparkMissingError
from kdump.spark.java import find_java
from kdump.value import pattern
from kdump.words.install import to_install

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

_LOCAL = pattern(r"local(?:\[([0-9]+|\*)\])?")
_TRIES = 4  # of a task, as on a cluster; Spark's local mode has but one
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.python.daemon.module": "kdump.spark.daemon",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.maxResultSize": "0",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
}
_NAME = {"spark.app.name": "kdump"}


def start(master: str | None, java_home: str | None, conf: Mapping[str, str]) -> SparkSession:
    """Return the active session, or a new one; it knows the data source.

    Args:
        master: URL of a cluster, or local[N]; None for all cores of this machine.
        java_home: where to find Java; None to look for it.
        conf: settings of Spark, over those made here.

    Raises:
        SparkMissingError: a package or a Java that works is missing.
    """
    missing = [name for name in ("pyspark", "pyarrow", "pandas") if not _is_there(name)]
    if missing:
        told = f"Spark needs what is not installed here ({', '.join(missing)}): {to_install('pyspark')}"
        raise SparkMissingError(told)
    from pyspark.sql import SparkSession

    from kdump.spark.source import KafkaSegments

    spark = SparkSession.getActiveSession()
    if spark is None:
        builder = SparkSession.builder
        for name, value in _wanted(master, java_home, conf).items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
    spark.dataSource.register(KafkaSegments)
    return spark


def _wanted(master: str | None, java_home: str | None, conf: Mapping[str, str]) -> dict[str, str]:
    """The settings of a session that is to be made, in a JVM that runs then.

    A session that another thread has made keeps all of its settings. Those of spark-submit, and of its files, stand: of
    kdump's own only those count that it does not have. What the caller says stands over both.
    """
    from pyspark import SparkConf, SparkContext

    from kdump.spark.gateway import start_jvm, started

    if SparkContext._active_spark_context is not None:
        return {}
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    is_there = "PYSPARK_GATEWAY_PORT" in os.environ
    if is_there and not started():
        SparkContext._ensure_initialized()
        given = dict(SparkConf().getAll())
        asked = {**conf} if master is None else {"spark.master": master, **conf}
        if "spark.master" not in asked and "spark.master" in given:
            return {**{name: value for name, value in {**_SETTINGS, **_NAME}.items() if name not in given}, **asked}
        made = {**_NAME, **_settings(master, conf)}
        return {name: value for name, value in made.items() if name not in given or name in asked}
    settings = _settings(master, conf)
    if not is_there:
        flags = tuple(settings.pop("spark.driver.extraJavaOptions", "").split())
        memory = settings.get("spark.driver.memory", "1g")
        start_jvm(find_java(java_home), settings, memory=memory, flags=flags)
    return {**_NAME, **settings}


def _is_there(package: str) -> bool:
    try:
        import_module(package)
    except ImportError:
        return False
    return True


def _settings(master: str | None, conf: Mapping[str, str]) -> dict[str, str]:
    wanted = conf.get("spark.master", master or "local[*]")
    local = _LOCAL.fullmatch(wanted)
    if local is not None:
        wanted = f"local[{local[1] or 1},{_TRIES}]"
    settings = {**_SETTINGS, **conf, "spark.master": wanted}
    if local is not None:
        settings.setdefault("spark.driver.host", "127.0.0.1")
        settings.setdefault("spark.driver.bindAddress", "127.0.0.1")
    return settings
