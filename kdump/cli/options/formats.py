"""Options of dump for the form of keys, values and times."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from kdump.cli.options.help import option, options
from kdump.cli.options.schemas import SCHEMA_OPTIONS
from kdump.compat.dump_log_segments_options import STRING
from kdump.decode import INTERNAL, LAYOUTS
from kdump.render.text.dump import RecordFormat
from kdump.words.escape import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from kdump.compat.dialect import Dialect
    from kdump.decode.decoded import Decoder
    from kdump.decode.file_decoder import FileDecoder
    from kdump.decode.payload.records import SchemaDecoder
    from kdump.redact import Redactor

FORMATS = ("utf8", "hex", "base64", "int", "long", "json")

format_options = options(
    option(
        "--key-format",
        group="Keys and values",
        type=click.Choice(FORMATS),
        help="How keys are written, and --key is read.",
    ),
    option("--value-format", group="Keys and values", type=click.Choice(FORMATS), help="How payloads are written."),
    option(
        "--timestamps",
        group="What is shown",
        type=click.Choice(("ms", "iso")),
        default="ms",
        show_default=True,
        help="How times are written.",
    ),
    option(
        "--decoder",
        group="Keys and values",
        type=click.Choice([*INTERNAL, *LAYOUTS, "auto", "none"]),
        metavar="NAME",
        help="Read records as those of an internal topic: offsets, transaction, metadata, remote, share; of Kafka "
        "Streams' stores: windowed, session, timestamped; of MirrorMaker: offset-syncs, checkpoints, heartbeats. auto "
        "goes by the topic of each directory, and is the default in JSON.",
    ),
    option(
        "--decoder-command", group="Keys and values", metavar="CMD", help="Run CMD, which makes JSON of each payload."
    ),
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
# Which decoder wins when several are given. Source: DumpLogSegmentsOptions.messageParser.
_BY_OPTION = (
    ("offsets_decoder", "offsets"),
    ("transaction_log_decoder", "transaction"),
    ("cluster_metadata_decoder", "metadata"),
    ("remote_log_metadata_decoder", "remote"),
    ("share_group_state_decoder", "share"),
)
_OWN = (
    "from_offset", "to_offset", "from_time", "to_time", "from_position", "limit", "tail", "keys", "patterns",
    "value_patterns", "headers", "producers", "epochs", "control", "transactional", "tombstones", "committed",
    "aborted", "key_format", "value_format", "timestamps", "decoder_command", "fate", "config", "settings", "notes",
    "quiet", "schemas", "key_schema", "value_schema",
)  # fmt: skip


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
    if ctx.params.get("timestamps") == "iso" and ctx.params.get("layout") == "json":
        raise click.UsageError("--timestamps iso is for text: times are ms in JSON.")
    is_layout = ctx.params.get("decoder") in LAYOUTS
    if is_layout and "compat" in given:
        raise click.UsageError(f"--decoder {ctx.params['decoder']} works without --compat only: Kafka's tool has none.")
    decoders = tuple(one for one in _DECODERS if not (is_layout and one == "decoder"))  # a form is of what is inside
    ways = {
        "key": ("key_format", "key_decoder_class", *decoders),
        "value": ("value_format", "decoder_command", "value_decoder_class", *decoders),
    }
    for names in ways.values():
        both = [given[name] for name in names if name in given]
        if len(both) > 1 and any(name in given for name in names if name in _OWN):
            raise click.UsageError(f"{both[0]} and {both[1]} exclude each other.")


def command_of(text: str | None) -> list[str] | None:
    """Return program and arguments of --decoder-command, split as a shell splits words, without a shell.

    Raises:
        click.UsageError: there is no such program, or a quote is not closed.
    """
    if text is None:
        return None
    import shlex
    import shutil

    try:
        words = shlex.split(text)
    except ValueError as error:
        raise click.UsageError(f"--decoder-command: {str(error).lower()}.") from None
    if not words:
        raise click.UsageError("--decoder-command: no command.")
    if "\0" in text or shutil.which(words[0]) is None:
        raise click.UsageError(f"--decoder-command: no program '{escape(words[0])}' can be run.")
    return words


def key_reader(form: str | None) -> Callable[[str], bytes]:
    """Return what makes bytes of a key as --key-format writes it; it raises ValueError for what is none."""
    if form in (None, "utf8", "json"):
        return os.fsencode
    from kdump.decode.formats import parse

    return lambda text: parse(form or "", text)


def record_format(given: Mapping[str, Any], *, terminal: bool) -> RecordFormat:
    """Return what the options of the command line mean."""
    decoder = next((name for option, name in _BY_OPTION if given[option]), given["decoder"])
    classes = (given["key_decoder_class"], given["value_decoder_class"])
    forms = (given["key_format"], given["value_format"])
    has_way = classes != (None, None) or forms != (None, None) or given["decoder_command"] is not None
    has_schemas = any(given[name] is not None for name in SCHEMA_OPTIONS)
    contents = given["print_data_log"] or decoder not in (None, "none") or has_way or has_schemas
    if decoder is None and not has_way and given["layout"] != "text":
        decoder = "auto"
    return RecordFormat(
        deep=given["deep_iteration"] or contents,
        contents=contents,
        skip_metadata=given["skip_record_metadata"],
        decoder=None if decoder == "none" else decoder,
        key_class=classes[0] or STRING,
        value_class=classes[1] or STRING,
        compat=given["compat"] is not None,
        careful=terminal and not given["raw"],
        key_form=forms[0],
        value_form=forms[1],
        iso=given["timestamps"] == "iso",
        key=bool(given["keys"] or given["patterns"]),
        payload=bool(given["value_patterns"]),
    )


def file_decoder(
    shown: RecordFormat,
    dialect: Dialect,
    command: Decoder | None,
    redactor: Redactor | None = None,
    schemas: SchemaDecoder | None = None,
) -> FileDecoder | None:
    """Return what decodes keys and values; None where they are plain.

    Args:
        shown: how records are shown.
        dialect: the release whose words are wanted.
        command: decodes payloads; None where the layout says how.
        redactor: hides what they have; None where all may be seen.
        schemas: decodes by schemas; None where none are given.

    Raises:
        click.BadParameter: a decoder does not exist.
    """
    plain = command
    if plain is None and (shown.key_form or shown.value_form):
        from kdump.decode.formats import decoder as of_forms

        plain = of_forms(shown.key_form or "utf8", shown.value_form or "utf8")
    if plain is None and shown.decoder is None and schemas is None:
        is_plain = (shown.key_class, shown.value_class) == (STRING, STRING)
        if not shown.contents or (is_plain and redactor is None):
            return None
        from kdump.decode import classes

        found = None if is_plain else classes(shown.key_class, shown.value_class, dialect.release)
        if isinstance(found, str):
            if shown.compat:
                return None  # Kafka's tool dies of it when it comes to the first log
            raise click.BadParameter(found)
        plain = found
    from kdump.decode.file_decoder import FileDecoder

    try:
        return FileDecoder(shown.decoder, dialect, plain, compat=shown.compat, hides=redactor, schemas=schemas)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
