"""One session of real Spark for all tests of this directory, on the Java of the wheel.

Where pyspark is not installed the directory is not collected, unless KDUMP_TEST_SPARK=1 says that it must be.
"""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

_WANTED = os.environ.get("KDUMP_TEST_SPARK") == "1"
collect_ignore_glob = [] if _WANTED or find_spec("pyspark") is not None else ["test_*.py"]

FAST = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
}


def pytest_report_header() -> list[str]:
    """Say what is not collected."""
    return ["tests/spark: not collected, pyspark is not installed"] if collect_ignore_glob else []


@pytest.fixture(scope="session")
def store() -> Iterator[str]:
    """A real S3 server, and the environment that leads to it; its URL."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    url = "http://{}:{}".format(*server.get_host_and_port())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_ENDPOINT_URL", url)
        yield url
    server.stop()


def _tools(folder: Path) -> str:
    """A PATH with what Hadoop starts where it writes files, and nothing else."""
    for name in ("chmod", "readlink", "ls"):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    return str(folder)


@pytest.fixture(scope="session")
def spark(store: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with two cores. No Java is on PATH: it has to be the one of the wheel."""
    assert store
    import kdump.spark
    from kdump.spark.gateway import stop_jvms

    with pytest.MonkeyPatch.context() as patch:
        for name in ("JAVA_HOME", "SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_PYTHON", "JAVA_TOOL_OPTIONS"):
            patch.delenv(name, raising=False)
        patch.setenv("PATH", _tools(tmp_path_factory.mktemp("tools")))
        warehouse = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
        made = kdump.spark.session("local[2]", conf={**FAST, **warehouse})
        try:
            yield made
        finally:
            made.stop()
            stop_jvms()


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Log directories of all kinds, damaged ones and what is no log among them."""
    from tests.support.fleet import fleet

    return fleet(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partition directory with one segment of some thousand batches, 40 MB."""
    import random

    from tests.support.partitions import segment, write
    from tests.support.segments import batch

    random_ = random.Random(7)
    body = random_.randbytes(1000)
    parts = [batch(8 * k, [body[k % 700 :]] * 8 + [b""] * 0) for k in range(6000)]
    folder = tmp_path_factory.mktemp("large") / "orders-0"
    return write(folder, segment(0, parts, interval=4096))
