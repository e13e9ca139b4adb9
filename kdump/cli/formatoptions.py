"""Options of dump that say how keys, values and times are written."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from collections.abc import Callable

FORMATS = ("utf8", "hex", "base64", "int", "long", "json")

_OPTIONS = (
    click.option("--key-format", type=click.Choice(FORMATS), help="How keys are written, and --key is read."),
    click.option("--value-format", type=click.Choice(FORMATS), help="How payloads are written."),
    click.option(
        "--timestamps", type=click.Choice(("ms", "iso")), default="ms", show_default=True, help="How times are written."
    ),
    click.option("--decoder-command", metavar="CMD", help="Run CMD, which makes JSON of each payload."),
)
# Of these options, which every command line may have, one wins; together with a format they contradict each other.
_DECODERS = (
    "offsets_decoder",
    "transaction_log_decoder",
    "cluster_metadata_decoder",
    "remote_log_metadata_decoder",
    "share_group_state_decoder",
    "decoder",
)
_OWN = (
    "from_offset", "to_offset", "from_time", "to_time", "from_position", "limit", "tail", "keys", "patterns", "headers",
    "producers", "epochs", "control", "transactional", "tombstones", "committed", "aborted", "key_format",
    "value_format", "timestamps", "decoder_command",
)  # fmt: skip


def format_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def check_formats(ctx: click.Context) -> None:
    """Refuse options that contradict each other.

    Raises:
        click.UsageError: they do.
    """
    given = {
        param.name: param.opts[0]
        for param in ctx.command.params
        if param.name and ctx.get_parameter_source(param.name) is ParameterSource.COMMANDLINE
    }
    own = [given[name] for name in _OWN if name in given]
    if own and "compat" in given:
        raise click.UsageError(f"{own[0]} works without --compat only: Kafka's tool has no such option.")
    ways = {
        "key": ("key_format", "key_decoder_class", *_DECODERS),
        "value": ("value_format", "decoder_command", "value_decoder_class", *_DECODERS),
    }
    for names in ways.values():
        both = [given[name] for name in names if name in given]
        if len(both) > 1 and any(name in given for name in names if name in _OWN):
            raise click.UsageError(f"{both[0]} and {both[1]} exclude each other.")


def key_reader(form: str | None) -> Callable[[str], bytes]:
    """Return what makes bytes of a key as --key-format writes it; it raises ValueError for what is none."""
    if form in (None, "utf8", "json"):
        return os.fsencode
    from kdump.decode.formats import parse

    return lambda text: parse(form or "", text)
