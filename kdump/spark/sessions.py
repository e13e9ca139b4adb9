"""Start a session: its Java, its Python, and settings for small machines and small tasks."""

from __future__ import annotations

import os
import socket
import struct
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from kdump.format.checkpoint.properties import read_properties
from kdump.spark.errors import SparkFailedError, SparkMissingError, reason_of
from kdump.spark.gateway import kept_log
from kdump.spark.java import find_java
from kdump.storage.file_source import first_line
from kdump.value import pattern
from kdump.words.install import to_install

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

_LOCAL = pattern(r"local(?:\[([0-9]+|\*)\])?")
_MASTER = pattern(r"local(\[([1-9][0-9]*|\*)( *, *[0-9]+)?\])?|local-cluster\[[0-9, ]+\]|yarn|(spark|k8s)://.+")
_STANDALONE = "spark://"
_PATIENCE = 5  # seconds for the master of a cluster to take a connection
_ENCRYPTED = ("spark.ssl.rpc.enabled", "spark.ssl.enabled", "spark.authenticate", "spark.network.crypto.enabled")
_STREAM_REQUEST, _STREAM_ANSWERS, _ANSWER = 6, (7, 8), 9  # types of messages, and bytes of an answer up to its type
_MOST_ANSWERED = 4096  # bytes that are read at once
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
        SparkMissingError: a package or a Java that works is missing, or the master is none.
        SparkFailedError: no session can be had from the master.
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
        try:
            spark = builder.getOrCreate()
        except Exception as error:  # of the JVM, of pyspark, or of a plugin: whatever it is, there is no session
            raise SparkFailedError(_why_not_started(error)) from None
    tell_slots(spark)
    spark.dataSource.register(KafkaSegments)
    return spark


def tell_slots(spark: SparkSession) -> None:
    """Let planners of the data source, which see no session, know how many tasks can run at a time.

    Args:
        spark: the session, before the data source is registered with it; one of Spark Connect has no context.
    """
    from kdump.spark.source_options import SLOTS

    context = getattr(spark, "_sc", None)
    if context is not None:
        conf = context.getConf()
        asked = [conf.get(name, "0") for name in ("spark.cores.max", "spark.executor.instances")]
        cores = conf.get("spark.executor.cores", "1")
        known = [int(one) for one in (*asked, cores) if one.isdigit()]
        most = max(known[0], known[1] * known[2]) if len(known) == len(asked) + 1 else 0
        context.environment[SLOTS] = str(max(context.defaultParallelism, most))


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
    defaults = _defaults()
    if not is_there:
        master = master or conf.get("spark.master") or defaults.get("spark.master")
    settings = _settings(master, {**defaults, **conf, **({} if master is None else {"spark.master": master})})
    _demand_master(settings["spark.master"], is_secret=any(settings.get(name) == "true" for name in _ENCRYPTED))
    if not is_there:
        flags = tuple(settings.pop("spark.driver.extraJavaOptions", "").split())
        memory = settings.get("spark.driver.memory", "1g")
        start_jvm(find_java(java_home), settings, memory=memory, flags=flags)
    return {**_NAME, **settings}


def _defaults() -> dict[str, str]:
    """The settings of spark-defaults.conf, which stand over those of kdump.

    Source: Utils.getDefaultPropertiesFile, Utils.getPropertiesFromFile.
    """
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (os.path.join(home, "conf") if home else None)
    if folder is None:
        return {}
    path = Path(folder) / "spark-defaults.conf"
    try:
        found = read_properties(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise SparkMissingError(f"{path}: cannot be read: {error}") from None
    return {name: value.strip() for name, value in found.items() if name.startswith("spark.")}


def _demand_master(master: str, *, is_secret: bool) -> None:
    """Demand that a master may be one, and that one of a standalone cluster is there: Spark waits long to say so.

    Args:
        master: its URL.
        is_secret: what the cluster says is encrypted: that somebody takes connections is enough.

    Raises:
        SparkMissingError: it is none.
        SparkFailedError: nobody is there.
    """
    is_standalone = master.startswith(_STANDALONE)
    places = [one.rpartition(":") for one in master.removeprefix(_STANDALONE).split(",")] if is_standalone else []
    if _MASTER.fullmatch(master) is None or not all(host and port.isdigit() for host, _, port in places):
        raise SparkMissingError(f"'{master}' is no master of Spark: local[N], spark://HOST:PORT, yarn, k8s://URL")
    why = ""
    for host, _, port in places:
        try:
            with socket.create_connection((host.strip("[]"), int(port)), _PATIENCE) as there:
                if is_secret or _is_of_spark(there):
                    return
            why = "what takes connections there does not answer as Spark does"
        except (OSError, OverflowError, UnicodeError) as error:
            why = first_line(error) if isinstance(error, OSError) else str(error)
    if places:
        raise SparkFailedError(f"{master}: no master of Spark is there: {why}")


def _is_of_spark(there: socket.socket) -> bool:
    """Whether a server knows the messages of Spark: asked for a stream that it does not have, it says so.

    Source: StreamRequest, StreamFailure, MessageEncoder (8 bytes of length, and a type).
    """
    name = b"/files/kdump"
    there.settimeout(_PATIENCE)
    answer = b""
    try:
        there.sendall(struct.pack(">qbi", 13 + len(name), _STREAM_REQUEST, len(name)) + name)
        while len(answer) < _ANSWER and (part := there.recv(_MOST_ANSWERED)):
            answer += part
    except OSError:
        return False
    if len(answer) < _ANSWER:
        return False
    size, kind = struct.unpack_from(">qb", answer)
    return size > _ANSWER and kind in _STREAM_ANSWERS


def _why_not_started(error: Exception) -> str:
    """One line about a session that cannot be had, and where more stands."""
    log = kept_log()
    more = f"; what its JVM printed: {log}" if log else ""
    return f"Spark does not start: {reason_of(str(error)) or type(error).__name__}{more}"


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
