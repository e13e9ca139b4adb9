"""Writes again what the README, the tutorial and the runbooks show below their commands, where it is not so any more.

python -m tests.support.examples_again [README.md] [kdump-tutorial.7] [kdump-runbooks.7]

Of a long answer the lines that matter are kept, and `...` stands for the others: read what it has written.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

from tests.support import consoles
from tests.support.runbook_scenes import SCENES

_WIDTH, _MOST = 120, 16  # characters of a line of a page, and lines of an answer that is shown whole
_MATTERS = re.compile(
    r"(SOUND|WARNING|DAMAGED|LOST|UNREAD|kdump:|prediction|next steps|other options|what was found|known before"
    r"|\d+ partitions?,|exit \d"
    r"| {2,4}(if .*|last resort):?$| {4,6}(\d  )?(kdump|start|do not start|nothing to do) "
    r"| *lost: |  (un)?clean|.*would|salvaged |  (next \d|nothing is lost|absent|what became)"
    r"|not complete|with losses|found runs|run .*offsets=1[67]\d|Stats|batches:|transactions:)"
)
_VARIES = re.compile(r"/tmp/|plan [0-9a-f]{16}|--plan-id |journal: |to take it back:$")
_HOSTS_PAGE = "CHECKING A FLEET EVERY NIGHT"  # on Spark: by hand


def main(names: list[str]) -> None:
    """Write the pages that are named, or all."""
    for name in names or ["README.md", "kdump-tutorial.7", "kdump-runbooks.7"]:
        path = consoles.ROOT / name if name.endswith(".md") else consoles.MAN / name
        text = path.read_text("utf-8")
        at = 0
        for title, block, printed in _runs(name, text):
            at = text.index(f".SH {title}\n") if title else at
            for example, output in zip(block, printed, strict=True):
                text, at = _replaced(text, at, example, output, is_page=not name.endswith(".md"))
        path.write_text(text, "utf-8")


def _runs(name: str, text: str) -> list[tuple[str, list[consoles.Example], list[str]]]:
    found = []
    if name == "kdump-runbooks.7":
        for title, scene in SCENES.items():
            if title == _HOSTS_PAGE:
                continue
            with tempfile.TemporaryDirectory() as place:
                folder = Path(place)
                (folder / "work").mkdir()
                scene(folder / "work")
                variables = consoles.environment(folder / "bin")
                variables["PYTHONPATH"] = os.pathsep.join([str(folder / "python"), variables["PYTHONPATH"]])
                block = [one for part in consoles.of_page(consoles.sections(name)[title]) for one in part]
                written = title if f".SH {title}\n" in text else f'"{title}"'
                found.append((written, block, consoles.run(block, folder / "work", variables)))
        return found
    with tempfile.TemporaryDirectory() as place:  # in one clone, one behind the other
        folder, variables = consoles.newcomer(Path(place))
        blocks = consoles.of_markdown(text) if name.endswith(".md") else consoles.of_page(text)
        return [("", block, consoles.run(block, folder, variables)) for block in blocks]


def _replaced(text: str, at: int, example: consoles.Example, output: str, *, is_page: bool) -> tuple[str, int]:
    """Return the text with what is shown below a command, and where the next command may stand."""
    write, read = (_roffed, consoles.plain) if is_page else (str, str)
    begin = at
    for line in text[at:].splitlines(keepends=True):  # a page may write a character in more than one way
        begin += len(line)
        if read(line) == f"$ {example.command}\n":
            break
    if re.fullmatch(consoles._pattern(example.output), output):
        return text, begin
    rest = text[begin:].splitlines(keepends=True)
    end = begin + sum(map(len, rest[: next(n for n, line in enumerate(rest) if line.startswith(("$ ", ".EE", "```")))]))
    return f"{text[:begin]}{write(_shown(output, is_page=is_page))}{text[end:]}", begin


def _shown(output: str, *, is_page: bool) -> str:
    lines = output.splitlines()
    is_long = len(lines) > _MOST
    kept: list[str] = []
    for line in lines:
        if (is_long and not _MATTERS.match(line)) or _VARIES.search(line) or (is_page and not line.isascii()):
            if kept[-1:] != ["..."]:
                kept.append("...")
        else:
            kept.append(line if len(line) <= _WIDTH else f"{line[:_WIDTH].rpartition(' ')[0]} ...")
    return "".join(f"{line}\n" for line in kept)


def _roffed(text: str) -> str:
    """Return a text as the source of a man page has it."""
    for shown, written in (("\\", r"\e"), ("-", r"\-"), ("'", r"\(aq"), ("`", r"\(ga"), ("^", r"\(ha"), ("~", r"\(ti")):
        text = text.replace(shown, written)
    return re.sub(r"(?m)^(?=\.|$(?!\Z))", r"\\&", text)


if __name__ == "__main__":
    main(sys.argv[1:])
