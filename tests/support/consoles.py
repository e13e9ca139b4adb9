"""Commands that the README and the manual show, run as they are printed; and what a reader sees of a man page."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import kdump
from tests.support.runs import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ROOT = Path(__file__).resolve().parents[2]
MAN = ROOT / "man"
_ESCAPES = {
    r"\-": "-", r"\&": "", r"\(dq": '"', r"\(aq": "'", r"\(ga": "`", r"\(ha": "^", r"\(ti": "~",
    r"\(bu": "*", r"\e": "\\",
}  # fmt: skip


class Example(NamedTuple):
    """A command, and what stands below it: a line `...` is any lines, and `...` at the end of one the rest of it."""

    command: str
    output: str


def plain(text: str) -> str:
    """Return what a reader sees."""
    for escape, shown in _ESCAPES.items():
        text = text.replace(escape, shown)
    return text


def of_markdown(text: str) -> list[list[Example]]:
    """Return the console blocks of a text; commands of one block follow upon each other."""
    return [_examples(block) for block in re.findall(r"(?ms)^```console\n(.*?)^```$", text)]


def of_page(text: str) -> list[list[Example]]:
    """Return the blocks of a man page, or of a section of one, that begin with a command."""
    blocks = [plain(block) for block in re.findall(r"(?ms)^\.EX\n(.*?)^\.EE$", text)]
    return [_examples(block) for block in blocks if block.startswith("$ ")]


def sections(name: str) -> dict[str, str]:
    """Return the sections of a man page by their titles."""
    text = (MAN / name).read_text("ascii")
    parts = re.split(r"(?m)^\.SH (.*)\n", text)
    return dict(zip((title.strip('"') for title in parts[1::2]), parts[2::2], strict=True))


def environment(programs: Path) -> dict[str, str]:
    """Make a `kdump` that is the one under test; return an environment in which it is found.

    Args:
        programs: where it is made, a new directory.
    """
    programs.mkdir()
    command = shlex.split(os.environ.get("KDUMP_COMMAND", "")) or [sys.executable, "-P", "-m", "kdump"]
    (programs / "kdump").write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n', "utf-8")
    (programs / "kdump").chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(Path(kdump.__file__).parents[1])}


def newcomer(folder: Path) -> tuple[Path, dict[str, str]]:
    """Make a directory with the fixtures in it, as a clone has them, and the environment for it."""
    (folder / "work").mkdir()
    (folder / "work" / "fixtures").symlink_to(FIXTURES)
    return folder / "work", environment(folder / "bin")


def run(block: list[Example], folder: Path, variables: Mapping[str, str]) -> list[str]:
    """Run the commands of a block in one shell; return what each prints on both streams."""
    script = "\n".join(f"{example.command}\nlast=$?; printf '\\001'; (exit $last)" for example in block)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.stdout.decode().split("\x01")[:-1]


def assert_shown(block: list[Example], folder: Path, variables: Mapping[str, str]) -> None:
    """Fail unless the commands print what stands below them."""
    outputs = run(block, folder, variables)
    shown = [
        f"$ {example.command}\n{example.output if re.fullmatch(_pattern(example.output), output) else output}"
        for example, output in zip(block, outputs, strict=True)
    ]
    assert "".join(shown) == "".join(f"$ {example.command}\n{example.output}" for example in block)


def _examples(block: str) -> list[Example]:
    return [Example(*part.partition("\n")[::2]) for part in re.split(r"(?m)^\$ ", block)[1:]]


def _pattern(output: str) -> str:
    lines = []
    for line in output.splitlines(keepends=True):
        if line == "...\n":
            lines.append("(?:.*\n)*")
        elif line.endswith("...\n"):
            lines.append(re.escape(line[:-4]) + ".*\n")
        else:
            lines.append(re.escape(line))
    return "".join(lines)


def run_section(page: str, title: str, folder: Path, scene: Callable[[Path], None]) -> None:
    """Make a scene, run all commands of a section of a page there, in one shell; fail unless they print what is shown.

    Args:
        page: file name of the page.
        title: of the section.
        folder: an empty directory.
        scene: makes the scene in a new directory in it; Python modules for kdump go to `python` beside that.
    """
    work = folder / "work"
    work.mkdir()
    scene(work)
    variables = environment(folder / "bin")
    variables["PYTHONPATH"] = os.pathsep.join([str(folder / "python"), variables["PYTHONPATH"]])
    block = [example for block in of_page(sections(page)[title]) for example in block]
    assert block
    assert_shown(block, work, variables)
