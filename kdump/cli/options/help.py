"""Help: options in groups, examples below them, and what a mistake in the use is told to try.

The groups stand here, not at each option: an option of several commands is in one group in all of them. A name may be
here before its command is; an option that is not here is in the last group, and a test says so.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from kdump.value import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_REST = "More"
_BEFORE_NOW = pattern(r"-[0-9]+(ms|s|m|h|d)")
_TIME = pattern(r"\b(TIME|WHEN)\b")  # the metavar of what takes one
_TWO_VALUES = {"--diff": "--diff yesterday now"}
_DIRECTORY = "name the directory of the partition instead: LOGDIR/TOPIC-N"
_OF_PATHS = ("dump", "verify", "retention", "du", "export", "reindex", "truncate", "patch-header")
_REPAIRS = ("reindex", "truncate", "patch-header")
_MEANT = {
    "--topic-partition": (_DIRECTORY, _OF_PATHS),
    "--topic": (_DIRECTORY, _OF_PATHS),
    "--partition": (_DIRECTORY, _OF_PATHS),
    "--offset": ("--from-offset 72 --to-offset 73 selects offset 72", ("dump",)),
    "--fix": ("kdump verify PATH says which repair fits", ("verify", "dump")),
    "--dry-run": ("without --apply it is a dry run", _REPAIRS),
}
"""What people try, what to do instead, and the commands for which that is so."""

GROUPS = {
    "Input": (
        "--files", "--base-offset", "--type", "--from-position", "--max-bytes", "--topic-partition", "--name",
        "--prefer", "--epochs", "--like", "--min-batches", "--replicas", "--follow", "--idle-timeout", "--accept",
        "--partitions", "--below-log-start", "--deleted",
    ),
    "Selection": (
        "--from-offset", "--to-offset", "--from-time", "--to-time", "--limit", "--tail", "--key", "--key-regex",
        "--value-regex", "--header", "--producer-id", "--leader-epoch", "--control", "--transactional", "--tombstones",
        "--committed", "--aborted", "--group", "--topic", "--table", "--columns", "--at", "--at-offset", "--diff",
        "--hanging", "--by", "--top",
    ),
    "Where to cut": ("truncate --to-offset", "--to-position", "--at-damage", "--with-later-segments"),
    "What is checked": (
        "--shallow", "--no-resync", "--contiguous", "--start", "--scrub", "--for", "--max-rate", "--drop-cache",
        "--check", "--scan", "--index-interval-bytes",
    ),
    "What is asked": (
        "--superseded", "--full-at", "--lag", "--compaction", "--pass", "--high-watermark", "--log-start-offset",
    ),
    "What is shown": (
        "--deep-iteration", "--print-data-log", "--skip-record-metadata", "--stats", "--fate", "--context", "--print",
        "--timestamps", "--notes", "--no-notes", "--no-fold", "--quiet", "--format", "--reset-csv", "--color", "--raw",
        "--with-host", "--redact", "--redact-key", "--fail-on",
    ),
    "Keys and values": ("--key-format", "--value-format", "--decoder", "--decoder-command"),
    "Kafka's options": (
        "--compat", "--max-message-size", "--verify-index-only", "--index-sanity-check", "--key-decoder-class",
        "--value-decoder-class", "--offsets-decoder", "--transaction-log-decoder", "--cluster-metadata-decoder",
        "--remote-log-metadata-decoder", "--share-group-state-decoder",
    ),
    "What is done": (
        "--apply", "--quarantine", "--plan-id", "--up-to-damage", "--force", "--snapshot", "--output", "--to", "--out",
        "--file-format", "--segment-bytes", "--doubtful",
    ),
    "The broker": ("--config", "--set", "--now"),
    "Limits and processes": (
        "--jobs", "--engine", "--master", "--java-home", "--max-batch-bytes", "--max-uncompressed-bytes",
    ),
    _REST: ("--version", "--help"),
}  # fmt: skip
"""The options of each group, in the order of the help; `COMMAND --option` for one that means something else there."""


class Command(click.Command):
    """A command with examples.

    Args:
        examples: commands to copy, two or three; the rest as click has it.
    """

    def __init__(self, *args: object, examples: Sequence[str] = (), **named: object) -> None:
        super().__init__(*args, **named)  # type: ignore[arg-type]
        self.examples = examples

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

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options group by group, and the examples."""
        for heading, rows in grouped(self, ctx):
            with formatter.section(heading):
                formatter.write_dl(rows)
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:  # not wrapped: they are to be copied
                    formatter.write(f"{'':>{formatter.current_indent}}{example}\n")

    def get_usage(self, ctx: click.Context) -> str:
        """Return how the command is used, for the head of a mistake in its use."""
        return with_hint(super().get_usage(ctx), ctx)


def with_hint(usage: str, ctx: click.Context) -> str:
    """Return the line about the use, and one about the help; click's own names the longest option."""
    return f"{usage}\nTry '{ctx.command_path} -h' for help."


def group_of(command: str | None, option: click.Option) -> str:
    """Return the group of an option; the last one for an option that is in none.

    Args:
        command: its name.
        option: one of its options.
    """
    names = {name for name in (*option.opts, *option.secondary_opts) if name.startswith("--")}
    names |= {f"{command} {name}" for name in names}
    found = [heading for heading, known in GROUPS.items() for name in known if name in names]
    own = [heading for heading, known in GROUPS.items() for name in known if name in names and " " in name]
    return next(iter((*own, *found)), _REST)


def grouped(command: click.Command, ctx: click.Context) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each group of a command's options: its heading, and how each option is written and what it does."""
    rows: dict[str, list[tuple[int, tuple[str, str]]]] = {heading: [] for heading in GROUPS}
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if isinstance(param, click.Option) and record is not None:
            heading = group_of(command.name, param)
            written, said = record
            rows[heading].append((_place(heading, param), (written, _without_range(said))))
    for heading, found in rows.items():
        if found:
            yield heading, [record for _, record in sorted(found, key=lambda one: one[0])]


def _without_range(said: str) -> str:
    """The text about an option without the numbers that it may be: what is out of range is told when it is typed."""
    said = re.sub(r"; [^];]*x[<>]=[^];]*\]$", "]", said)
    return re.sub(r"  \[[^];]*x[<>]=[^];]*\]$", "", said)


def _place(heading: str, option: click.Option) -> int:
    known = [name.rpartition(" ")[2] for name in GROUPS[heading]]
    return min((known.index(name) for name in option.opts if name in known), default=-1)
