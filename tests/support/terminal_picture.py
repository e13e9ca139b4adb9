#!/usr/bin/env python3
"""Draws the picture of a terminal that the README shows, from a real run: `kdump verify` of a damaged log directory.

tests/support/terminal_picture.py man/kdump-verify-terminal.svg
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

if __name__ == "__main__":  # a test that takes this in must find kdump where it is installed
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.consoles import environment
from tests.support.runs import FIXTURES

WIDTH, HEIGHT = 100, 40
_NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
_PLAIN = FIXTURES / "damage" / "intact" / "none" / "logdir"


def build(folder: Path) -> None:
    """Make the log directory `kafka`: of four partitions one has a wrong byte, and one an index that is cut."""
    shutil.copytree(_PLAIN, folder / "kafka")
    (folder / "kafka" / "plain-0").rename(folder / "kafka" / "payments-7")
    for path in (folder / "kafka").iterdir():
        if path.is_file() and path.name != "meta.properties":
            path.unlink()
    for name, source in (("orders-0", "txnspan-0"), ("orders-1", "plain-0"), ("billing-0", "mixed-0")):
        shutil.copytree(_NODE / source, folder / "kafka" / name)
    with (folder / "kafka" / "payments-7" / f"{119:020}.log").open("r+b") as log:
        log.seek(300)
        log.write(b"X")
    index = next((folder / "kafka" / "orders-1").glob("*.index"))
    os.truncate(index, index.stat().st_size - 3)


def on_a_terminal(command: list[str], folder: Path, variables: dict[str, str]) -> str:
    """Run a command whose standard output is a terminal; return what it writes there."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    with subprocess.Popen(
        command, cwd=folder, env=variables, stdin=subprocess.DEVNULL, stdout=child, stderr=subprocess.DEVNULL
    ):
        os.close(child)
        written = io.BytesIO()
        while data := _read(parent):
            written.write(data)
    os.close(parent)
    return written.getvalue().decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # how Linux says that nobody has the other end
        return b""


def draw(command: list[str], written: str) -> str:
    """Return what a terminal shows as SVG that asks for nothing from elsewhere."""
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(Text.from_ansi(f"$ {' '.join(command)}\n{written}"))
    svg = console.export_svg(title="", theme=DIMMED_MONOKAI, unique_id="kdump")
    return re.sub(r"(?s)\s*@font-face \{.*?\n\s*\}\n", "\n", svg)


def main() -> None:
    """Write the picture."""
    command = ["kdump", "verify", "kafka"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder)
        variables = {**environment(folder / "bin"), "TERM": "xterm-256color"}
        written = on_a_terminal(command, folder, variables)
    Path(sys.argv[1]).write_text(draw(command, written), "utf-8")
    print(re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", written))


if __name__ == "__main__":
    main()
