"""A standalone cluster of Spark on the loopback: a master, and workers with environment and directory of their own.

A worker may have a mount namespace of its own, in which a directory is hidden under an empty file system: a machine
without that disk. Only root may do so, and not everywhere.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyspark

from kdump.spark.gateway import _FLAGS
from kdump.spark.java import find_java

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_HOME = os.path.dirname(pyspark.__file__)
_PATH = os.environ.get("PATH")  # that of the run: a session of other tests hides the Java of the machine
_PATIENCE = 120  # seconds
_HIDE = 'for one in "$@"; do [ "$one" = -- ] && break; mount -t tmpfs none "$one" || exit 99; done'
_SHIFT = 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"'


def why_nothing_can_be_hidden() -> str | None:
    """Return why no worker can be started that does not see a directory; None where one can."""
    if shutil.which("unshare") is None:
        return "there is no unshare here"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /mnt"], capture_output=True, text=True, check=False
    )
    return done.stderr.strip() or "unshare -m fails" if done.returncode else None


@contextmanager
def master(folder: Path) -> Iterator[str]:
    """Run a master; give its URL.

    Args:
        folder: takes its log.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    said = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    with _process(folder / "master.log", folder, ["org.apache.spark.deploy.master.Master", *said]):
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"spark://127.0.0.1:{port}"


@contextmanager
def worker(url: str, folder: Path, hidden: Sequence[Path] = ()) -> Iterator[None]:
    """Run a worker with one core, in a directory of its own.

    Args:
        url: of the master.
        folder: its directory.
        hidden: directories that it does not see the files of.
    """
    folder.mkdir()
    said = [
        "--host",
        "127.0.0.1",
        "--cores",
        "1",
        "--memory",
        "1g",
        "--work-dir",
        str(folder),
        "--webui-port",
        "0",
        url,
    ]
    with _process(folder / "worker.log", folder, ["org.apache.spark.deploy.worker.Worker", *said], hidden):
        yield


@contextmanager
def _process(log: Path, folder: Path, words: Sequence[str], hidden: Sequence[Path] = ()) -> Iterator[None]:
    java = shutil.which("java", path=_PATH) or find_java().path  # executors ask for modules that a wheel may not have
    command = [java, "-cp", os.path.join(_HOME, "jars", "*"), "-Xmx256m", *_FLAGS, *words]
    if hidden:
        command = ["unshare", "-m", "sh", "-c", f"{_HIDE}; {_SHIFT}", "sh", *map(str, hidden), "--", *command]
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "SPARK_HOME": _HOME,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SCALA_VERSION": "2.13",  # asked for by the launcher; any does
    }
    with log.open("wb") as said:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
