"""The commentary: one line to stderr."""

from __future__ import annotations

import sys
from contextlib import suppress

from kdump.render.escape import escape


def say(line: str) -> None:
    """Write one line to stderr, safe on a terminal, after all that stdout got; the answer must not fail on it."""
    if sys.stdout is not None:
        sys.stdout.flush()
    if sys.stderr is not None:  # it is closed
        with suppress(OSError):
            sys.stderr.write(f"{escape(line)}\n")
            sys.stderr.flush()
