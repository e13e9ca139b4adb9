"""The report of a bug in kdump: an unexpected exception; of a package that is not installed, one line."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress

from kdump.exit_status import Exit

_MOST = 500  # characters of a message: it may hold what was read
_OTHER_NAMES = {"snappy": "python-snappy"}  # of packages, by what is imported


def report_bug(error: BaseException) -> int:
    """Say on stderr where it happened and what; the last line says what to do.

    File names and bytes that were read get into such messages. So each line is escaped as a whole, and no more of a
    message is shown than one needs to know what happened.

    Args:
        error: what was raised.

    Returns:
        the exit status.
    """
    with suppress(OSError, ValueError, AttributeError):  # stdout or stderr is closed
        sys.stdout.flush()
    missing = _missing_package(error)
    with suppress(OSError, ValueError, AttributeError):
        lines = bug_lines(error) if missing is None else [_to_install(missing)]
        sys.stderr.write("".join(f"{line}\n" for line in lines))
        sys.stderr.flush()
    return Exit.BUG if missing is None else Exit.USAGE


def _missing_package(error: BaseException) -> str | None:
    """Return what is to be installed for an import that failed; None for any other error."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    name = error.name.partition(".")[0]
    return None if name == "kdump" or name in sys.stdlib_module_names else name


def _to_install(package: str) -> str:
    from kdump.words.install import to_install

    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    is_clone = os.path.exists(os.path.join(source, "pyproject.toml"))
    command = to_install(package, python=sys.executable or "python3", source=source if is_clone else None)
    how = "" if command is None else f"; to install it: {command}"
    return f"kdump: the Python package {_OTHER_NAMES.get(package, package)} is not installed{how}"


def bug_lines(error: BaseException) -> list[str]:
    """Return the lines that describe a bug: calls, the innermost last, causes before effects, and one for people."""
    from kdump import __version__
    from kdump.words.escape import escape

    chain: list[BaseException] = [error]
    while len(chain) < 10:
        before = chain[-1].__cause__ or (None if chain[-1].__suppress_context__ else chain[-1].__context__)
        if before is None or before in chain:
            break
        chain.append(before)
    lines = []
    for one in reversed(chain):
        frames = traceback.extract_tb(one.__traceback__)
        for frame in frames if len(frames) < 40 else [*frames[:20], *frames[-20:]]:  # of an endless recursion
            lines.append(escape(f"  {frame.filename}:{frame.lineno} in {frame.name}"))
        lines.append(f"  {_named(one)}")
    python = f"Python {'.'.join(map(str, sys.version_info[:3]))} on {os.uname().sysname}"
    return [
        f"kdump: a bug, in kdump {__version__}, {python}:",
        *lines,
        f"kdump: {_named(error)}: a bug in kdump, not in your files; please report it with the lines above",
    ]


def _named(error: BaseException) -> str:
    from kdump.render.commentary import hidden
    from kdump.words.escape import escape

    try:
        message = str(error)
    except Exception:
        message = ""
    shown = hidden(message if len(message) <= _MOST else f"{message[:_MOST]}...")
    return escape(f"{type(error).__name__}: {shown}" if shown else type(error).__name__)
