"""Options as the parser of Kafka's tool takes them."""

from __future__ import annotations

import re

import click

from kdump.format import layout


class KafkaCommand(click.Command):
    """Takes `-files` for `--files`, and `true` after a flag, as scripts for Kafka's tool may have them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments after putting them into click's form."""
        flags = {name for option in self.params for name in option.opts if getattr(option, "is_flag", False)}
        known = {name for option in self.params for name in option.opts}
        plain: list[str] = []
        for arg in args:
            name = arg.partition("=")[0]
            if not arg.startswith("--") and f"-{name}" in known:
                arg = f"-{arg}"
            if arg == "true" and plain and plain[-1] in flags:
                continue
            plain.append(arg)
        return super().parse_args(ctx, plain)


class BadInt(str):
    """A number that Java would not take; with `--compat` it matters only where it is used, as in Kafka's tool."""

    option: str


def java_int(option: str, text: str, compat: str | None) -> int:
    """Return an int32 as Java parses it.

    Raises:
        click.BadParameter: it is none.
    """
    if re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII) and -layout.MAX_INT - 1 <= int(text) <= layout.MAX_INT:
        return int(text)
    raise click.BadParameter(f"'{text}' is not a whole number below 2^31", param_hint=f"--{option}")
