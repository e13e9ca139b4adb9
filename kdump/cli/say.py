"""The commentary: one line to stderr."""

from __future__ import annotations

import sys

from kdump.render.escape import escape


def say(line: str) -> None:
    """Write one line to stderr, safe on a terminal, after all that stdout got before."""
    sys.stdout.flush()
    sys.stderr.write(f"{escape(line)}\n")
