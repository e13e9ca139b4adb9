"""The command `kdump` and its subcommands, each imported only when it is asked for."""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import contextmanager
from importlib.machinery import EXTENSION_SUFFIXES
from typing import TYPE_CHECKING, Any

import click

from kdump import __file__ as kdump_file
from kdump import __version__
from kdump.cli.options.common import help_option
from kdump.cli.options.help import option, with_hint
from kdump.render.commentary import answer, say_at_once
from kdump.render.report.sentences import fitter_of
from kdump.words.escape import escape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from click.shell_completion import CompletionItem

_COMMANDS = {
    "dump": "kdump.cli.dump",
    "verify": "kdump.cli.verify",
    "find-offset": "kdump.cli.find:find_offset",
    "find-time": "kdump.cli.find:find_time",
    "retention": "kdump.cli.retention",
    "du": "kdump.cli.du",
    "repair": "kdump.cli.repair",
    "reindex": "kdump.cli.reindex",
    "truncate": "kdump.cli.truncate",
    "patch-header": "kdump.cli.patch_header",
    "salvage": "kdump.cli.salvage",
    "undo": "kdump.cli.resume_undo:undo_command",
    "resume": "kdump.cli.resume_undo:resume_command",
    "carve": "kdump.cli.carve",
    "partition-for": "kdump.cli.partition_for",
    "export": "kdump.cli.export",
    "groups": "kdump.cli.groups",
    "transactions": "kdump.cli.transactions",
    "cluster": "kdump.cli.cluster",
    "schemas": "kdump.cli.schemas",
    "serve": "kdump.cli.serve",
    "explain": "kdump.cli.explain",
    "completion": "kdump.cli.completion",
}

_REPAIR = "kdump repair PATH mends what is safe; kdump verify PATH says what fits the rest"
_MEANT = {
    "fix": _REPAIR,
    "recover": _REPAIR,
    "check": "kdump verify PATH",
    "search": "kdump find-offset, kdump find-time, or kdump dump PATH --key KEY",
    "find": "kdump find-offset, kdump find-time, or kdump dump PATH --key KEY",
    "ls": "kdump dump PATH, or kdump du PATH",
    "cat": "kdump dump PATH --print-data-log",
    "info": "kdump verify PATH, or kdump dump PATH --stats",
    "topics": "kdump cluster LOGDIR, or kdump du LOGDIR --by topic",
    "consumer-groups": "kdump groups LOGDIR",
    "offsets": "kdump groups LOGDIR, or kdump find-offset PATH earliest",
    "log": "kdump dump PATH",
    "runbook": "kdump explain disk-full, or kdump explain MESSAGE",
}
"""What other tools have, and the command here."""

_SAID = "Error: "  # click writes it before a message
_HELP = "help"  # without an entry above: `kdump help dump` is `kdump dump -h`

TASKS = {
    "Check": {
        "verify": "Check files of a broker for damage.",
    },
    "Understand": {
        "explain": "Show what a finding or a JSON key means, and what to do.",
        "retention": "Show what a broker will delete, roll and compact.",
        "du": "Show what uses the space.",
    },
    "Repair": {
        "repair": "Mend all that costs nothing, and name the rest.",
        "reindex": "Rebuild missing or corrupt indexes.",
        "truncate": "Cut off the end of a log, and keep it aside.",
        "patch-header": "Restore header fields that no CRC covers.",
        "undo": "Undo a repair.",
        "resume": "Resume a repair that was interrupted.",
    },
    "Rescue": {
        "salvage": "Build a clean partition from damaged replicas.",
        "carve": "Find the batches in a disk image, or in any bytes.",
    },
    "Look inside": {
        "dump": "Show what is in files of a broker, in Kafka's layout.",
        "find-offset": "Show where an offset is.",
        "find-time": "Show which offset belongs to a time.",
        "export": "Write batches, records or findings as tables.",
        "serve": "Serve log files to any Kafka client, read-only.",
    },
    "Ask": {
        "groups": "Show committed offsets, now or at a past time.",
        "transactions": "Show which transactions are open, and which hang.",
        "cluster": "Show which brokers and topics there were; check disks.",
        "schemas": "Show which schemas a registry has.",
        "partition-for": "Show the coordinator partition of a group.",
    },
    "More": {
        "completion": "Print the completion script of a shell.",
        _HELP: "Show every option of a command: kdump help verify.",
    },
}
"""The commands by what one wants, and what each does: the overview loads none of them."""
_KERNELS = (
    "api._rows",
    "broker.cleaner._cleaning",
    "decode._fast",
    "decode.payload._avro",
    "export._columns",
    "format.batch._scan",
    "format.record._records",
    "format.record._select",
    "render.json._json",
    "render.text._text",
    "rescue._carving",
    "state._fold",
    "usage._sums",
)


def _version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    answer(f"kdump {__version__} ({'compiled' if all(map(_is_compiled, _KERNELS)) else 'interpreted'})")
    ctx.exit()


def _licenses(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from kdump.cli.licenses import show_licenses

    ctx.exit(show_licenses())


def _is_compiled(kernel: str) -> bool:
    """Tell whether an import would load a kernel compiled; it is not loaded for that, nor are its packages."""
    folder = os.path.join(os.path.dirname(kdump_file), *kernel.split(".")[:-1])
    asked = (finder.find_spec(f"kdump.{kernel}", [folder]) for finder in sys.meta_path)
    found = next(filter(None, asked), None)
    return found is not None and str(found.origin).endswith(tuple(EXTENSION_SUFFIXES))


@contextmanager
def _escaped() -> Iterator[None]:
    """Make click's messages safe for a terminal, and as wide as it."""
    try:
        yield
    except getattr(click.exceptions, "NoArgsIsHelpError", ()):  # its message is the help
        raise
    except click.ClickException as error:
        vars(error)["message"] = escape(error.message)  # final only for type checkers; each subclass shows it
        fit, said = fitter_of(sys.stderr), error.format_message
        vars(error)["format_message"] = lambda: fit(f"{_SAID}{said()}").removeprefix(_SAID)
        raise


def _tell(sentence: str) -> None:
    """Say something of the kernels, over a progress bar that may stand there."""
    if sys.stderr is not None and sys.stderr.isatty():
        from kdump.output import erase  # seldom

        sys.stderr.write(erase())
    say_at_once(f"kdump: {sentence}")


class _Commands(click.Group):
    """Subcommands by name, loaded when used: start-up must not pay for what is not asked."""

    def make_context(self, *args: Any, **named: Any) -> click.Context:  # noqa: ANN401 (as click has it)
        with _escaped():
            return super().make_context(*args, **named)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401
        with _escaped():
            return super().invoke(ctx)

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[name].partition(":")
        command = getattr(importlib.import_module(module), attribute or "command")
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        # By name alone: with the help texts, as click has it, one Tab would load every command.
        from click.shell_completion import CompletionItem

        names = [CompletionItem(name) for name in (*_COMMANDS, _HELP) if name.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands task by task."""
        width = max(map(len, _COMMANDS))
        for task, rows in TASKS.items():
            there = [(name.ljust(width), said) for name, said in rows.items() if name in _COMMANDS or name == _HELP]
            with formatter.section(task):
                formatter.write_dl(there)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, then the options: who asks for help wants the former."""
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def get_usage(self, ctx: click.Context) -> str:
        return with_hint(super().get_usage(ctx), ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] == _HELP:
            if ctx.resilient_parsing:  # a shell asks what may follow: the commands
                return None, None, []
            if len(args) == 1 or args[1].startswith("-"):
                answer(ctx.get_help())
                ctx.exit()
            if args[1] not in _COMMANDS:
                from kdump.cli.explain import show_topic  # reads the manual

                if show_topic(args[1]):
                    ctx.exit()
            args = [args[1], "--help"]
        name = args[0]
        if name not in _COMMANDS and not name.startswith("-"):
            from difflib import get_close_matches

            from kdump.words.command import command_line, named

            near = get_close_matches(name, _COMMANDS, 1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            if os.path.lexists(name):  # a file or a directory, where a command is missing
                hint = f": {command_line('verify', named(name))}, or {command_line('dump', named(name))}"
            ctx.fail(f"no command '{name}'" + (f": {_MEANT[name]}" if name in _MEANT else hint))
        return super().resolve_command(ctx, args)


@click.group(cls=_Commands, add_help_option=False, context_settings={"max_content_width": 100})
@help_option
@option(
    "-V",
    "--version",
    group="More",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_version,
    help="Show the version.",
)
@option(
    "--licenses",
    group="More",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_licenses,
    help="Show the licences of kdump and of each package that runs with it.",
)
def kdump() -> None:
    """Show, check and repair the files that Apache Kafka brokers write."""
    if not _is_compiled("format.batch._scan"):
        from kdump.format.kernels.interpreted import listen  # few are

        listen(_tell)
