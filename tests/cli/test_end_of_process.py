"""How a process of kdump ends: at once, when all is written, unless somebody waits for the end of Python itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kdump

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(kdump.__file__).parent.parent), "PYTHONUNBUFFERED": ""}
RUN = "from kdump.__main__ import run; run()"
LATE = "import os\nclass Late:\n    def __del__(self): os.write(1, b'taken apart')\nkept = Late()\n"
"""Python takes it apart at its end."""


def ended(code: str, *args: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[bytes]:
    """Run `code` in a new interpreter, with `kdump ARGS...` as its arguments."""
    script = f"import sys; sys.argv = ['kdump', *sys.argv[1:]]\n{code}"
    return subprocess.run(
        [sys.executable, "-P", "-c", script, *args],
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        check=False,
    )


VERSION = ended("from kdump.__main__ import main; main()", "--version").stdout


def test_nothing_is_taken_apart() -> None:
    done = ended(LATE + RUN, "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, VERSION, b"")
    assert ended(LATE + "from kdump.__main__ import main; main()", "--version").stdout == VERSION + b"taken apart"


@pytest.mark.parametrize(("args", "status"), [(["dump", "/nowhere.log"], 10), (["dump"], 2), (["explain", "F01"], 0)])
def test_the_status_and_what_was_written_are_those_of_the_run(args: list[str], status: int) -> None:
    whole = ended("from kdump.__main__ import main; main()", *args)
    done = ended(RUN, *args)
    assert done.returncode == whole.returncode == status
    assert (done.stdout, done.stderr) == (whole.stdout, whole.stderr)


@pytest.mark.parametrize(
    "waits",
    [
        "import atexit; atexit.register(lambda: None)\n",
        "import sys; sys.setprofile(lambda *_: None)\n",
        "import sys; sys.settrace(lambda *_: None)\n",
        "import threading, time; threading.Thread(target=time.sleep, args=(0.5,)).start()\n",
    ],
    ids=["at exit", "profiler", "debugger", "thread"],
)
def test_who_waits_for_the_end_gets_it(waits: str) -> None:
    caught = "from kdump.__main__ import run\ntry: run()\nexcept SystemExit: print('goes on')"
    assert ended(caught, "--version").stdout == VERSION
    done = ended(waits + caught, "--version")
    assert (done.returncode, done.stdout) == (0, VERSION + b"goes on\n")


def test_what_is_still_held_is_written() -> None:
    held = "sys.stdout.write('before'); sys.stderr.write('aside')\n"
    done = ended("import sys\n" + held + RUN, "--version")
    assert (done.stdout, done.stderr) == (b"before" + VERSION, b"aside")


def test_an_answer_that_cannot_be_written_at_the_end_is_said() -> None:
    later = "import sys, kdump.__main__ as it\nit.main = lambda: sys.stdout.write('late') and sys.exit(0)\nit.run()"
    full = os.open("/dev/full", os.O_WRONLY)
    done = ended(later, stdout=full)
    os.close(full)
    assert (done.returncode, done.stderr) == (5, b"kdump: cannot write the output: No space left on device\n")
