"""Running kdump as a user to whom permissions mean something: root without the capabilities that let it read all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import kdump
from tests.support.runs import Run

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(kdump.__file__).parent.parent)}
SECONDS = 120  # a run that takes longer hangs
UNPRIVILEGED = """
import ctypes, struct, sys
libc = ctypes.CDLL(None)
header, capabilities = struct.pack("=Ii", 0x20080522, 0), ctypes.create_string_buffer(24)
assert libc.capget(header, capabilities) == 0
effective, *rest = struct.unpack("=6I", capabilities)
effective &= ~0b110  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: what lets root read everything
assert libc.capset(header, struct.pack("=6I", effective, *rest)) == 0
sys.argv[0] = "kdump"
from kdump.__main__ import main
main()
"""


def unprivileged(*args: str, cwd: Path) -> Run:
    """Run kdump as a user to whom permissions mean something, root or not."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", UNPRIVILEGED, *args],
        cwd=cwd,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    return Run(done.returncode, done.stdout, done.stderr)
