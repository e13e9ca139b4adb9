"""Whose settings a session has: those of a session or of spark-submit that is there stand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

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
