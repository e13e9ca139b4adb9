"""`kdump completion`."""

from __future__ import annotations

from pathlib import Path

import click

from kdump.cli.options.common import help_option
from kdump.cli.options.help import Command
from kdump.render.commentary import answer

# The names are those under which the shells look for them: an installation puts the same files under share/.
SCRIPTS = {"bash": "kdump", "zsh": "_kdump", "fish": "kdump.fish"}


@click.command(
    "completion",
    cls=Command,
    add_help_option=False,
    examples=(
        "kdump completion bash > ~/.local/share/bash-completion/completions/kdump",
        "kdump completion zsh > ~/.zfunc/_kdump",
    ),
)
@click.argument("shell", type=click.Choice(list(SCRIPTS)), metavar="bash|zsh|fish")
@help_option
def command(shell: str) -> None:
    """Print the script that completes kdump's commands, options and values in a shell.

    An installed package has the same scripts under share/, where the shells look for them. Elsewhere, for bash: source
    <(kdump completion bash).
    """
    script = (Path(__file__).with_name("completions") / SCRIPTS[shell]).read_text("ascii")
    answer(script.removesuffix("\n"))
