"""The option `--help` of every command: click's own goes through gettext, which costs each start."""

from __future__ import annotations

import click


def _show(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


help_option = click.option(
    "--help", is_flag=True, expose_value=False, is_eager=True, callback=_show, help="Show this message and exit."
)
