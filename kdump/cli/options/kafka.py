"""Options in the syntax of DumpLogSegments."""

from __future__ import annotations

import re
from typing import IO, TYPE_CHECKING, Any

import click

from kdump.cli.options.help import Command
from kdump.compat.dump_log_segments_options import STRING
from kdump.format.batch import layout

if TYPE_CHECKING:
    from collections.abc import Mapping


class KafkaCommand(Command):
    """Takes `-files` for `--files`, and `true` after a flag, as scripts for Kafka's tool may have them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments after putting them into click's form."""
        flags = {name for option in self.params for name in option.opts if getattr(option, "is_flag", False)}
        known = {name for option in self.params for name in option.opts}
        hungry = {name for name in known - flags if not name.endswith("-decoder-class")}
        plain: list[str] = []
        is_value = False
        for arg in args:
            one_dash = not arg.startswith("--") and f"-{arg.partition('=')[0]}" in known
            if not is_value and arg == "true" and plain and plain[-1] in flags:
                continue
            plain.append(f"-{arg}" if one_dash and not is_value else arg)
            is_value = not is_value and plain[-1] in hungry
        return super().parse_args(ctx, plain)


class MissingFilesError(click.UsageError):
    """No `--files` under `--compat`: the message begins as that of Kafka's tool.

    Source: CommandLineUtils.checkRequiredArgs
    """

    def show(self, file: IO[Any] | None = None) -> None:
        """Write the message before what click says of the usage."""
        click.echo('Missing required argument "[files]"', file=file, err=file is None)
        super().show(file)


def java_int(text: str) -> int:
    """Return an int32 as Java parses it.

    Raises:
        ValueError: it is none.
    """
    if re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII) and -layout.MAX_INT - 1 <= int(text) <= layout.MAX_INT:
        return int(text)
    raise ValueError(f"'{text}' is not a whole number below 2^31")


class JavaInt(click.ParamType[str | int]):
    """An int32 option; what is none stays text, so that `--compat` can fail where Kafka's tool fails.

    Args:
        only_compat: the option means nothing without `--compat`: then any value will do.
    """

    name = "integer"

    def __init__(self, *, only_compat: bool = False) -> None:
        self._only_compat = only_compat

    def convert(self, value: str | int, _param: click.Parameter | None, ctx: click.Context | None) -> str | int:
        """Return the number; without `--compat` anything else is a wrong use."""
        if isinstance(value, int):
            return value
        compat = self._only_compat or (ctx is not None and isinstance(ctx.params.get("compat"), str))
        try:
            number = java_int(value)
        except ValueError as error:
            if compat:
                return value
            self.fail(str(error))
        if number < 0 and not compat:
            self.fail(f"{number} is below 0")
        return number


def late_failures(given: Mapping[str, Any]) -> dict[str, str]:
    """Return how Kafka's tool dies of options that it looks at late: option to Java exception.

    Source: joptsimple.OptionSet.valueOf, DumpLogSegmentsOptions.newDecoder.
    """
    failures = {}
    for option in ("max-bytes", "max-message-size"):
        value = given[option.replace("-", "_")]
        if isinstance(value, str):
            failures[option] = (
                f"joptsimple.OptionArgumentConversionException: Cannot parse argument '{value}' of option {option}"
            )
    if given["key_decoder_class"] or given["value_decoder_class"]:
        from kdump.decode.plain import java_failure

        failure = java_failure(
            given["key_decoder_class"] or STRING, given["value_decoder_class"] or STRING, given["compat"]
        )
        if failure is not None:
            failures["decoder-class"] = failure
    return failures
