"""The table of verbs and options in CONTRIBUTING.md, made from the commands.

python -m tests.support.option_table   writes it again
"""

from __future__ import annotations

import re
from pathlib import Path

import click

from kdump.cli.main import kdump

GUIDE = Path(__file__).resolve().parents[2] / "CONTRIBUTING.md"
OPTIONS = (
    "--format", "--to", "--topic", "--topic-partition", "--color", "--quiet", "-j", "--fail-on", "--notes", "--apply",
)  # fmt: skip
_SHOWN = ("--format", "--fail-on")  # with their values
_USUAL = {"--fail-on": ("error", "warning", "never"), "--format": ("text", "lines", "json")}


def commands() -> dict[str, click.Command]:
    """Return the commands by name."""
    context = click.Context(kdump)
    assert isinstance(kdump, click.Group)
    found = ((name, kdump.get_command(context, name)) for name in kdump.list_commands(context))
    return {name: one for name, one in found if one is not None}


def table() -> str:
    """Return the table as Markdown."""
    lines = [f"| verb | {' | '.join(f'`{name}`' for name in OPTIONS)} |", f"|---|{'---|' * len(OPTIONS)}"]
    for verb, command in commands().items():
        cells = [_cell(command, name) for name in OPTIONS]
        lines.append(f"| {verb} | {' | '.join(cells)} |")
    usual = ", ".join(f"`{name}` {' '.join(values)}" for name, values in _USUAL.items())
    return "".join(f"{line}\n" for line in lines) + f"\nyes: {usual}.\n\n"


def _cell(command: click.Command, name: str) -> str:
    for one in command.params:
        if isinstance(one, click.Option) and name in one.opts:
            values = tuple(one.type.choices) if isinstance(one.type, click.Choice) else ()
            return " ".join(values) if name in _SHOWN and values != _USUAL[name] else "yes"
    return ""


def main() -> None:
    """Write the table into the guide."""
    text = GUIDE.read_text("utf-8")
    old = re.search(r"(?ms)^\| verb \| `.*?^yes: [^\n]*\n\n|^TABLE\n", text)
    assert old is not None
    GUIDE.write_text(f"{text[: old.start()]}{table()}{text[old.end() :]}", "utf-8")


if __name__ == "__main__":
    main()
