"""Whose settings a session has: those of a session or of spark-submit that is there stand."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from kdump.spark import sessions
from kdump.spark.errors import SparkFailedError

if TYPE_CHECKING:
    from pathlib import Path

_ASKED = (
    "spark.master",
    "spark.app.name",
    "spark.sql.shuffle.partitions",
    "spark.sql.session.timeZone",
    "spark.task.cpus",
)
_SUBMITTED = """
import json, sys
from kdump.spark import gateway
from kdump.spark.java import find_java

gateway.start_jvm(find_java(), json.loads(sys.argv[1]), memory="512m")
held = list(gateway._started)  # as spark-submit: a JVM with settings that kdump has not started
gateway._started.clear()
"""
_SESSION = """
import json, sys
import kdump.spark

spark = kdump.spark.session(**json.loads(sys.argv[2]))
print(json.dumps({name: spark.conf.get(name, None) for name in json.loads(sys.argv[3])}))
print(spark.read.format("kafka-segments").load(sys.argv[4]).count())
spark.stop()
"""
_OTHER_THREAD = """
import threading
from pyspark.sql import SparkSession

def make():
    SparkSession.builder.master("local[1]").appName("mine").config("spark.sql.shuffle.partitions", "5").getOrCreate()

thread = threading.Thread(target=make)
thread.start()
thread.join()
"""


def settings_of(program: str, given: dict[str, str], **arguments: Any) -> dict[str, str | None]:
    """Run a program in a process of its own; return the settings of the session that it makes."""
    from tests.support.fleet import NODE

    left_out = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    environment["PYSPARK_PYTHON"] = sys.executable  # a session of another asks PATH
    words = [json.dumps(given), json.dumps(arguments), json.dumps(_ASKED), str(NODE / "plain-0")]
    command = [sys.executable, "-P", "-c", program, *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    said, count = done.stdout.splitlines()
    assert int(count) > 0
    found: dict[str, str | None] = json.loads(said)
    return found


def kdump(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, without the session of other tests."""
    from tests.support.fleet import NODE

    left_out = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_HOME", "SPARK_CONF_DIR")
    given = {name: value for name, value in os.environ.items() if name not in left_out}
    given["PATH"] = f"{os.path.dirname(sys.executable)}:/usr/bin:/bin"  # that of this process is for planners
    command = [sys.executable, "-P", "-m", "kdump", "verify", *words, str(NODE / "plain-0")]
    return subprocess.run(
        command, capture_output=True, text=True, env={**given, **environment}, check=False, timeout=300
    )


@pytest.fixture(scope="module")
def sound_run() -> float:
    """The seconds of a run in which nothing is wrong."""
    began = time.monotonic()
    assert kdump("--engine", "spark").returncode == 0
    return time.monotonic() - began


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--master", "local[x]"], 2, "'local[x]' is no master of Spark: local[N], spark://HOST:PORT, yarn, k8s://URL"),
        (["--master", "spark://nowhere"], 2, "'spark://nowhere' is no master of Spark"),
        (["--master", "spark://127.0.0.1:1"], 5, "spark://127.0.0.1:1: no master of Spark is there: "),
        (["--engine", "spark", "--conf", "spark.master=local[]"], 2, "'local[]' is no master of Spark"),
        (["--master", "odd://there"], 2, "'odd://there' is no master of Spark"),
        (["--master", "yarn"], 2, "Spark does not start: When running with master 'yarn' either HADOOP_CONF_DIR or"),
        (["--master", "local", "--conf", "spark.driver.port=x"], 5, "Spark does not start: "),
    ],
)
def test_a_wrong_master_is_one_line_at_once(words: list[str], status: int, said: str, sound_run: float) -> None:
    began = time.monotonic()
    done = kdump(*words)
    assert time.monotonic() - began < 3 * sound_run
    assert done.returncode == status, done.stderr
    assert said in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert "\tat " not in done.stderr
    assert status == 5 or done.stderr.count("\n") == 1


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_a_port_that_is_no_master_is_one_line_soon(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_PATIENCE", 1)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        url = f"spark://127.0.0.1:{server.getsockname()[1]}"

        def speak() -> None:
            there, _ = server.accept()
            with there:
                there.sendall(answer)
                if not answer:  # it says nothing as long as anybody waits
                    while there.recv(100):
                        pass

        Thread(target=speak, daemon=True).start()
        with pytest.raises(SparkFailedError, match="does not answer as Spark does"):
            sessions._demand_master(url, is_secret=False)
        sessions._demand_master(url, is_secret=True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--conf", "spark.a=b"], "is for Spark: name --engine spark, or --master"),
        (["--engine", "spark", "--conf", "spark.a"], "'spark.a' is no setting of Spark, as spark.NAME=VALUE"),
        (["--engine", "spark", "--conf", "a=b"], "'a=b' is no setting of Spark"),
        (["--master", "local", "--conf", "spark.master=yarn"], "names another master than --master"),
    ],
)
def test_a_wrong_setting_is_wrong_use(words: list[str], said: str) -> None:
    done = kdump(*words)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())


def test_settings_of_spark_defaults_stand_and_those_of_the_user_over_them(tmp_path: Path) -> None:
    lines = ["# ours", "spark.master local[1]", "spark.app.name: nightly", "spark.sql.shuffle.partitions=3", "other x"]
    (tmp_path / "spark-defaults.conf").write_text("\n".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(tmp_path))
        found = settings_of(_SESSION, {}, conf={"spark.sql.shuffle.partitions": "4", "spark.task.cpus": "1"})
    assert found["spark.master"] == "local[1,4]"
    assert found["spark.app.name"] == "nightly"
    assert (found["spark.sql.shuffle.partitions"], found["spark.task.cpus"]) == ("4", "1")
    assert found["spark.sql.session.timeZone"] == "UTC"


def test_settings_of_the_command_line_reach_spark(tmp_path: Path) -> None:
    """Its event log shows them."""
    where = f"spark.eventLog.dir=file:{tmp_path}"
    done = kdump("--master", "local[1]", "--conf", "spark.eventLog.enabled=true", "--conf", where, "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.iterdir())


def test_master_name_and_settings_of_spark_submit_stand() -> None:
    given = {"spark.master": "local[1]", "spark.app.name": "nightly", "spark.sql.shuffle.partitions": "3"}
    found = settings_of(_SUBMITTED + _SESSION, given)
    assert {name: found[name] for name in given} == given
    assert found["spark.sql.session.timeZone"] == "UTC"  # kdump's own: spark-submit says nothing of that


def test_what_the_caller_says_stands_over_spark_submit() -> None:
    given = {"spark.master": "local[1]", "spark.app.name": "nightly", "spark.sql.shuffle.partitions": "3"}
    conf = {"spark.sql.shuffle.partitions": "4"}
    found = settings_of(_SUBMITTED + _SESSION, given, conf=conf)
    assert found["spark.sql.shuffle.partitions"] == "4"
    assert found["spark.app.name"] == "nightly"


def test_a_session_that_another_thread_has_made_keeps_its_settings() -> None:
    found = settings_of(_SUBMITTED + _OTHER_THREAD + _SESSION, {})
    assert (found["spark.app.name"], found["spark.sql.shuffle.partitions"]) == ("mine", "5")
