"""The page of proof: each command that it names is there, and takes the options that it is given."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "man" / "kdump-proof.7").read_text("ascii").replace("\\-", "-").replace("\\(aq", "'")
COMMANDS = [line for block in re.findall(r"(?ms)^\.EX\n(.*?)^\.EE$", PAGE) for line in block.splitlines()]


def source(command: str) -> str:
    """The text of what a command runs."""
    named = re.match(r"python (?:-m (\S+)|(\S+\.py))", command)
    assert named is not None, command
    path = ROOT / (named[2] or f"{named[1].replace('.', '/')}.py")
    files = [path] if path.suffix and path.exists() else sorted(path.with_suffix("").glob("*.py"))
    assert files, f"{command}: there is no such script"
    return "\n".join(file.read_text("utf-8") for file in files)


def test_each_part_of_the_page_names_a_command() -> None:
    parts = re.split(r"(?m)^\.SH ", PAGE)[1:]
    without = {part.split("\n", 1)[0] for part in parts if ".EX" not in part}
    assert without == {"NAME", "DESCRIPTION", "WHAT IS NOT PROVEN", "SEE ALSO"}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_is_there_with_its_options(command: str) -> None:
    text = source(command)
    for option in re.findall(r"(?<=\s)--[a-z-]+", command):
        assert f'"{option}"' in text, f"{command}: no option {option}"
