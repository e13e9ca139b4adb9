"""Help: options in groups, examples below them, and what a mistake in the use is told to try."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Literal, get_args

import click

from kdump.render.commentary import end_on_interrupt
from kdump.value import pattern
from kdump.words.command import command_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeVar

    from click.shell_completion import CompletionItem

    Decorated = TypeVar("Decorated", bound=Callable[..., Any] | click.Command)

_BEFORE_NOW = pattern(r"-[0-9]+(ms|s|m|h|d)")
_TIME = pattern(r"\b(TIME|WHEN)\b")  # the metavar of what takes one
_TWO_VALUES = {"--diff": "--diff yesterday now"}
_REPAIRS = ("reindex", "truncate", "patch-header", "repair", "undo")
_OF_PARTITIONS = ("dump", "verify", "retention", "du", "export", "salvage", *_REPAIRS[:4], "find-offset", "find-time")
_BRIEF, _ROOM = 26, 48  # columns of the names of options in a brief help, and of a text about one
_MEANT = {
    "--partition": ("it is --topic-partition TOPIC-N", _OF_PARTITIONS),
    "--offset": ("--from-offset 72 --to-offset 73 selects offset 72", ("dump",)),
    "--print-headers": ("--print-data-log shows headers too, --header KEY=VALUE selects by one", ("dump",)),
    "--max-records": ("--limit N", ("dump",)),
    "--max-messages": ("--limit N", ("dump",)),
    "--count": ("--stats counts batches and records", ("dump",)),
    "--output": ("write stdout to a file; tables are those of kdump export --to DIR", ("dump", "verify")),
    "--fix": ("kdump repair PATH mends what is safe", ("verify", "dump")),
    "--dry-run": ("without --apply it is a dry run", _REPAIRS),
}
"""What people try, what to do instead, and the commands for which that is so."""

Group = Literal[
    "Input", "Selection", "Where to cut", "What is checked", "What is asked", "What is shown", "Keys and values",
    "Kafka's options", "What is done", "The broker", "Limits and processes", "More",
]  # fmt: skip
GROUPS: tuple[Group, ...] = get_args(Group)
"""The headings of the help, in order; the last one has what is in no other group."""


class Option(click.Option):
    """An option in a group of the help.

    Args:
        group: its heading; the rest as click has it.
        old: what it was called before: it works still, and nothing shows it.
    """

    def __init__(
        self, declared: Sequence[str], *, group: Group = "More", old: Sequence[str] = (), **named: object
    ) -> None:
        super().__init__([*declared, *old], **named)  # type: ignore[arg-type]
        self.group = group
        self.old = tuple(old)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return how it is written and what it does, without old names."""
        names = self.opts
        self.opts = [name for name in names if name not in self.old]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = names


def option(*names: str, group: Group, old: Sequence[str] = (), **named: Any) -> Callable[[Decorated], Decorated]:  # noqa: ANN401
    """Return what gives a command an option.

    Args:
        names: as it is written; and the name of its value, where that is another.
        old: what it was called before, hidden.
        group: the heading under which the help has it, in the order in which the command has its options.
        named: the rest, as click has it.
    """
    return click.option(*names, cls=Option, group=group, old=old, **named)


def options(*several: Callable[[Decorated], Decorated]) -> Callable[[Decorated], Decorated]:
    """Return what gives a command several options, in this order.

    Args:
        several: give it one each.
    """

    def decorate(command: Decorated) -> Decorated:
        for one in reversed(several):
            command = one(command)
        return command

    return decorate


class Command(click.Command):
    """A command with examples.

    Args:
        examples: commands to copy, two or three.
        usual: the options that are used most, at most ten, for `-h`; none where all of them fit a screen. The rest as
            click has it.
    """

    def __init__(self, *args: object, examples: Sequence[str] = (), usual: Sequence[str] = (), **named: object) -> None:
        super().__init__(*args, **named)  # type: ignore[arg-type]
        self.examples = examples
        self.usual = usual

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line; where that fails in a way that has a better answer than click's, give it.

        Raises:
            click.UsageError: as click does.
        """
        words = list(args)  # they are taken away one by one
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            blamed = {word for word in words if word.startswith(error.option_name)}
            path = next(
                (word for word in words if word.startswith(error.option_name[:2]) and os.path.lexists(word)), None
            )
            if path is not None:
                raise click.UsageError(f"no option '{path}'; the path that has this name is ./{path}", ctx) from None
            before = blamed.pop() if len(blamed) == 1 else ""
            meant, commands = _MEANT.get(error.option_name, ("", ()))
            if self.name in commands:
                raise click.UsageError(f"no option '{error.option_name}': {meant}", ctx) from None
            if error.option_name == "--json" and any("--format" in one.opts for one in self.params):
                raise click.UsageError("no option '--json': it is --format json", ctx) from None
            if not _BEFORE_NOW.fullmatch(before) or not any(_TIME.search(one.metavar or "") for one in self.params):
                raise
            raise click.UsageError(f"'{before}' is no option; did you mean now{before}?", ctx) from None
        except click.MissingParameter as error:
            if not isinstance(error.param, click.Option):
                raise
            option = f"{error.param.opts[0]} {error.param.metavar or ''}".rstrip()
            raise click.UsageError(f"Missing option '{option}': {error.param.help}", ctx) from None
        except click.BadOptionUsage as error:
            example = _TWO_VALUES.get(error.option_name)
            if example is None:
                raise
            raise click.UsageError(f"{error.message.rstrip('.')}, for example: {example}", ctx) from None

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 (as click has it)
        """Run the command; Ctrl-C ends it with a line, in which some say more, but where Kafka's tool is mirrored."""
        if not ctx.params.get("compat"):
            end_on_interrupt(lambda: f"{ctx.info_name} was interrupted")
        from kdump.cli.options.inputs import resolve_inputs  # the help needs none of it

        resolve_inputs(ctx.params)
        return super().invoke(ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return what may stand next: no old name of an option."""
        old = {name for one in self.params if isinstance(one, Option) for name in one.old}
        return [item for item in super().shell_complete(ctx, incomplete) if item.value not in old]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options group by group, and the examples."""
        for heading, rows in grouped(self, ctx):
            with formatter.section(heading):
                formatter.write_dl(rows)
        if self.usual:
            formatter.write_paragraph()
            common = f"Exit statuses: {command_line('help', 'statuses')}. Limits: {command_line('help', 'limits')}"
            formatter.write(f"{common}\n")
        self.format_examples(formatter)

    def format_examples(self, formatter: click.HelpFormatter) -> None:
        """Write the examples, not wrapped: they are to be copied."""
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{example}\n")

    def get_usage(self, ctx: click.Context) -> str:
        """Return how the command is used, for the head of a mistake in its use."""
        return with_hint(super().get_usage(ctx), ctx)


def with_hint(usage: str, ctx: click.Context) -> str:
    """Return the line about the use, and one about the help; click's own names the longest option."""
    return f"{usage}\nTry '{ctx.command_path} -h' for help."


def brief_help(command: Command, ctx: click.Context) -> str:
    """Return a help that fits a screen: what the command does, the options that are used most, and the examples."""
    if not command.usual:
        return ctx.get_help()
    formatter = ctx.make_formatter()
    command.format_usage(ctx, formatter)
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text((command.help or "").partition("\n\n")[0].replace("\n", " "))
    records = {name: one.get_help_record(ctx) for one in command.get_params(ctx) for name in one.opts}
    rows = [record for name in command.usual if (record := records[name]) is not None]
    count = sum(isinstance(one, click.Option) for one in command.params)
    with formatter.section(f"Used most of {count} options"):
        formatter.write_dl([(written, _in_brief(said)) for written, said in rows], col_max=_BRIEF)
    explains = ". What a finding means: kdump explain CODE" if "--fail-on" in records else ""
    formatter.write_paragraph()
    how = command_line("help", str(ctx.info_name))
    formatter.write(f"Every option: {how}{explains}\n")
    command.format_examples(formatter)
    return formatter.getvalue().rstrip("\n")


def _in_brief(said: str) -> str:
    """Return what the text about an option begins with: as much as one line has room for, if it can be parted so."""
    for mark in (r"\. |  \[", "; ", ": "):
        said = re.split(mark, said)[0].rstrip(".") + "." if len(said) > _ROOM or mark.startswith("\\") else said
    return said


def grouped(command: click.Command, ctx: click.Context) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each group of a command's options: its heading, and how each option is written and what it does."""
    rows: dict[str, list[tuple[str, str]]] = {heading: [] for heading in GROUPS}
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if isinstance(param, click.Option) and record is not None:
            written, said = record
            rows[param.group if isinstance(param, Option) else GROUPS[-1]].append((written, _without_range(said)))
    yield from ((heading, found) for heading, found in rows.items() if found)


def _without_range(said: str) -> str:
    """The text about an option without the numbers that it may be: what is out of range is told when it is typed."""
    said = re.sub(r"; [^];]*x[<>]=[^];]*\]$", "]", said)
    return re.sub(r"  \[[^];]*x[<>]=[^];]*\]$", "", said)
