"""What Spark's processes print: standard error has what kdump and Spark say, and nothing of Python workers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kdump.spark.errors import SparkMissingError, reason_of
from tests.support.fleet import NODE

if TYPE_CHECKING:
    from collections.abc import Sequence

_BEFORE = "Traceback (most recent call last): before"
_AFTER = "BrokenPipeError: [Errno 32] Broken pipe: after"


def python_that(folder: Path, lines: Sequence[str]) -> Path:
    """A program for PYSPARK_PYTHON: a shell does some lines, of which `run` runs Python."""
    program = folder / "python"
    run = f'run() {{ "{sys.executable}" "$@"; }}'
    program.write_text("\n".join(["#!/bin/sh", run, *lines, ""]))
    program.chmod(0o755)
    return program


def verify(program: Path, temporary: Path) -> subprocess.CompletedProcess[str]:
    """Run verify in a process of its own, whose Python workers run under a program."""
    temporary.mkdir()
    # the session of the other tests listens where these say, and is not this one's
    left_out = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
    given = {name: value for name, value in os.environ.items() if name not in left_out}
    # Spark asks planners for data sources only where there is a python3 on PATH
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    given |= {"PYSPARK_PYTHON": str(program), "TMPDIR": str(temporary), "PATH": path}
    command = [sys.executable, "-P", "-m", "kdump", "verify", "--engine", "spark", "--quiet", str(NODE / "plain-0")]
    return subprocess.run(command, capture_output=True, text=True, env=given, check=False, timeout=300)


def test_what_python_processes_print_is_not_for_the_user(tmp_path: Path) -> None:
    """Workers, planners and daemons print when they begin and when they end, as at a pipe that Spark has closed."""
    noise = tmp_path / "noise"
    program = python_that(
        tmp_path,
        [
            f"echo '{_BEFORE}' >> {noise}",
            f"echo '{_BEFORE}' >&2",
            'run "$@"',
            "status=$?",
            f"echo '{_AFTER}' >&2",
            "exit $status",
        ],
    )
    done = verify(program, tmp_path / "tmp")
    assert (done.returncode, done.stderr) == (0, "")
    assert noise.read_text().count(_BEFORE) >= 2  # a planner's daemon, and the workers'
    assert not list((tmp_path / "tmp").glob("kdump-spark-*"))


def test_where_a_job_fails_the_reason_and_the_file_with_what_was_printed_are_named(tmp_path: Path) -> None:
    """Workers do not start; a planner has printed something."""
    lines = [
        f"echo '{_BEFORE}' >&2",
        'case "$*" in *kdump.spark.daemon*) echo "no room for workers" >&2; exit 3;; esac',
    ]
    done = verify(python_that(tmp_path, [*lines, 'run "$@"']), tmp_path / "tmp")
    said = re.search(
        r"(?m)^kdump: the Spark job 'verify' failed: (.*); what its Python workers printed: (.*)$", done.stderr
    )
    assert said is not None, done.stderr
    assert done.returncode == 5
    assert said[1] == "no room for workers"
    assert _BEFORE in Path(said[2]).read_text()


def test_an_executor_without_kdump_is_one_line_at_once(tmp_path: Path) -> None:
    """Its Python has no packages at all; at once is a small part of what Spark would wait, in sound runs' time."""
    bare = f'case "$*" in *kdump.spark.daemon*) exec "{sys.executable}" -I -S "$@";; esac'
    began = time.monotonic()
    assert verify(python_that(tmp_path, ['run "$@"']), tmp_path / "sound").returncode == 0
    ended = time.monotonic()
    done = verify(python_that(tmp_path, [bare, 'run "$@"']), tmp_path / "tmp")
    assert time.monotonic() - ended < 3 * (ended - began)
    assert done.returncode == 5
    assert re.search(
        r"(?m)^kdump: the Spark job 'verify' failed: .*No module named 'kdump'.*: kdump must be installed", done.stderr
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("out of luck", "out of luck"),
        (
            "An error occurred while calling z:a.b.\n: java.lang.Exception: no\n\tat a.b(c:1)\n",
            "java.lang.Exception: no",
        ),
        (
            (
                "An error occurred while calling o1.count.\n: org.apache.spark.SparkException: Job aborted:"
                " org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
                '  File "a.py", line 1, in f\n    f()\nkdump.spark.errors.UnreadError: /a/b.log: cannot be opened\n\n'
                "\tat org.apache.spark.a(b:1)\n"
            ),
            "kdump.spark.errors.UnreadError: /a/b.log: cannot be opened",
        ),
        (
            (
                "An error occurred\n: org.apache.spark.SparkException: \nError from python worker:\n"
                "  warning: old\n  /usr/bin/python: No module named kdump\nPYTHONPATH was:\n  /a\n"
            ),
            "/usr/bin/python: No module named kdump",
        ),
    ],
)
def test_the_line_that_says_why_a_job_has_failed(text: str, line: str) -> None:
    assert reason_of(text) == line


def test_a_jvm_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kdump.spark.gateway import start_jvm
    from kdump.spark.java import find_java

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(
        SparkMissingError, match=r"Spark does not start on this Java \(Invalid maximum heap size: -Xmxno"
    ):
        start_jvm(find_java(), {}, memory="no")
