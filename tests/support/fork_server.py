"""Runs kdump many times from one small interpreter: each run is a forked child that has the modules already.

Started by `tests.corpus.run_kdump`. The first line of stdin is a JSON array: the module path, the file of
the package that the tests have, whether to run uncompiled, and the descriptors that get stdout and stderr. Each further
line is a run: its arguments and its directory. It is answered by its status.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pkgutil
import signal
import sys
import traceback
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SECONDS = 120  # a run that takes longer hangs


class SourceOnly:
    """Finds the modules of kdump as the import system does, but is blind for compiled ones."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        if not name.startswith("kdump."):
            return None
        finders = (FileFinder(entry, (SourceFileLoader, SOURCE_SUFFIXES)) for entry in path or ())
        return next(filter(None, (finder.find_spec(name) for finder in finders)), None)


def load() -> Callable[[], Any]:
    """Return the entry point, once every module that a run may load is loaded, so that each child has it."""
    main: Callable[[], Any] = importlib.import_module("kdump.__main__").main
    package = importlib.import_module("kdump")
    names = [module.name for module in pkgutil.walk_packages(package.__path__, "kdump.")]
    for name in (*names, "lz4.block", "lz4.frame", "snappy", "zstandard"):
        with contextlib.suppress(Exception):  # a run that needs it will say so
            importlib.import_module(name)
    return main


def child(main: Callable[[], Any], args: Sequence[str], cwd: str, out: int, err: int) -> NoReturn:
    """Run in a forked child: become `kdump ARGS...` in `cwd`, and end with its exit code."""
    code = 1
    try:
        signal.alarm(SECONDS)
        os.chdir(cwd)
        for fd, source in enumerate((os.open(os.devnull, os.O_RDONLY), out, err)):
            os.dup2(source, fd)
            os.close(source)
        code = run(main, args)
    except BaseException:
        os.write(2, traceback.format_exc().encode("utf-8", "backslashreplace"))
    finally:
        os._exit(code)


def run(main: Callable[[], Any], args: Sequence[str]) -> int:
    """Call the entry point as the installed command does; return what the interpreter would exit with."""
    sys.argv = ["kdump", *args]
    with (
        open(0, encoding="utf-8", closefd=False) as sys.stdin,
        open(1, "w", encoding="utf-8", closefd=False) as sys.stdout,
        open(2, "w", encoding="utf-8", closefd=False) as sys.stderr,
    ):
        try:
            code = main()
        except SystemExit as ended:
            code = ended.code
        if code is None or isinstance(code, int):
            return (code or 0) & 0xFF
        print(code, file=sys.stderr)
    return 1


def serve() -> None:
    """Answer requests until stdin ends."""
    path, package, interpreted, out, err = json.loads(sys.stdin.buffer.readline())
    sys.path[:] = path
    if interpreted:
        sys.meta_path.insert(0, SourceOnly())
    main = load()
    if sys.modules["kdump"].__file__ != package:  # a source tree without kernels would be taken without a word
        raise RuntimeError(f"the module path has changed: not {package}")
    for line in sys.stdin.buffer:
        args, cwd = json.loads(line)
        pid = os.fork()
        if pid == 0:
            child(main, args, cwd, out, err)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        sys.stdout.write(f"{status}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
