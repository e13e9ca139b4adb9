"""`python -m kdump` and the entry point `kdump`."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading
from contextlib import suppress

KAFKA_NAMES = ("kafka-dump-log.sh", "kafka-dump-log")
"""Started through a link of such a name, kdump is `kdump dump`."""

_MOST_YOUNG = 50_000
"""Objects that Python makes before it looks for circles among them; 700 by itself.

A start makes tens of thousands that all stay, and kdump makes few circles.
"""


def run() -> None:
    """Run the command line in a process of its own, which ends at once when all is written.

    To take apart every module and object, as Python does at its end, is up to a quarter of a short run.
    """
    gc.set_threshold(_MOST_YOUNG)
    try:
        main()
    except SystemExit as ended:
        code = 0 if ended.code is None else ended.code
        if not isinstance(code, int) or _is_awaited():
            raise
        _flush()
        os._exit(code)


def _is_awaited() -> bool:
    """Whether somebody waits for the end of Python itself: another thread, what is to be done at exit, a profiler."""
    is_watched = sys.getprofile() is not None or sys.gettrace() is not None or sys.flags.inspect
    return bool(is_watched or threading.active_count() > 1 or atexit._ncallbacks())


def _flush() -> None:
    """Write out what stdout and stderr hold; of the answer it is said when that fails."""
    try:
        sys.stdout.flush()
    except OSError as error:
        from kdump.render.commentary import fail_to_write

        fail_to_write(error)
    with suppress(OSError):
        sys.stderr.flush()


def main() -> None:
    """Run the command line; end quietly on a closed pipe, at once on Ctrl-C, and with a report on a bug."""
    # Dying of the signal is what a shell expects of both: no traceback, status 141 or 130.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as in the background of a script: it is not for us
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.stderr is None:
        _open_stderr()
    if sys.stdout is None:  # closed before the start
        sys.stderr.write("kdump: cannot write the output: stdout is closed\n")
        os._exit(5)
    try:
        from kdump.cli.main import kdump
        from kdump.format.checksum import self_test

        try:
            self_test()
        except RuntimeError as error:
            sys.stderr.write(f"kdump: {error}\n")
            os._exit(1)
        arguments = sys.argv[1:]
        if os.path.basename(sys.argv[0]) in KAFKA_NAMES:
            arguments.insert(0, "dump")
        kdump(arguments, prog_name="kdump")
    except Exception as error:
        from kdump.cli.bug import report_bug

        sys.exit(report_bug(error))


def _open_stderr() -> None:
    """Let what is said go nowhere where stderr is closed; no file that is opened may get its number."""
    null = os.open(os.devnull, os.O_WRONLY)
    if null != 2:
        os.dup2(null, 2, inheritable=True)
        os.close(null)
    else:
        os.set_inheritable(null, True)
    sys.stderr = os.fdopen(2, "w", errors="backslashreplace", closefd=False)


if __name__ == "__main__":
    run()
