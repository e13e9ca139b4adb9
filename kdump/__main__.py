"""`python -m kdump` and the entry point `kdump`."""

from __future__ import annotations

import os
import signal
import sys

KAFKA_NAMES = ("kafka-dump-log.sh", "kafka-dump-log")
"""Started through a link of such a name, kdump is `kdump dump`."""


def main() -> None:
    """Run the command line; end quietly on a closed pipe, at once on Ctrl-C, and with a report on a bug."""
    # Dying of the signal is what a shell expects of both: no traceback, status 141 or 130.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
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
    main()
