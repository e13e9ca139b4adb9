"""Puts together the sink that prints a dump as text: layout, decoders and what the terminal needs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from kdump.cli.kafkaoptions import STRING
from kdump.dialect import DEFAULT
from kdump.render import _text
from kdump.render.escape import escape_bytes
from kdump.render.lines import TextSink
from kdump.render.text import TextWriter
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kdump.cli.decoding import Decoding
    from kdump.decode import Decoder
    from kdump.dialect import Dialect
    from kdump.format.kafkalegacy import LegacyMessage

AUTO = "auto"
# Which decoder wins when several are given. Source: DumpLogSegmentsOptions.messageParser.
_DECODERS = (
    ("offsets_decoder", "offsets"),
    ("transaction_log_decoder", "transaction"),
    ("cluster_metadata_decoder", "metadata"),
    ("remote_log_metadata_decoder", "remote"),
    ("share_group_state_decoder", "share"),
)


class Layout(Value):
    """How records are shown.

    Args:
        deep: records at all.
        contents: keys and payloads.
        skip_metadata: nothing else of a record.
        decoder: name of a decoder for internal topics, or "auto"; None for none.
        key_class, value_class: Java classes of Kafka's tool.
        compat: end where Kafka's tool ends.
        careful: escape what could drive a terminal.
        key_form, value_form: how keys and payloads are written; None for the classes.
        iso: times as ISO 8601.
    """

    deep: bool
    contents: bool
    skip_metadata: bool
    decoder: str | None
    key_class: str
    value_class: str
    compat: bool
    careful: bool
    key_form: str | None = None
    value_form: str | None = None
    iso: bool = False

    @classmethod
    def of(cls, given: Mapping[str, Any], *, terminal: bool) -> Layout:
        """Return what the options of the command line mean."""
        decoder = next((name for option, name in _DECODERS if given[option]), given["decoder"])
        classes = (given["key_decoder_class"], given["value_decoder_class"])
        forms = (given["key_format"], given["value_format"])
        has_way = classes != (None, None) or forms != (None, None) or given["decoder_command"] is not None
        contents = given["print_data_log"] or decoder not in (None, "none") or has_way
        if decoder is None and not has_way and given["layout"] == "json":
            decoder = AUTO
        return cls(
            given["deep_iteration"] or contents,
            contents,
            given["skip_record_metadata"],
            None if decoder == "none" else decoder,
            classes[0] or STRING,
            classes[1] or STRING,
            given["compat"] is not None,
            terminal and not given["raw"],
            *forms,
            given["timestamps"] == "iso",
        )


def text_sink(shown: Layout, dialect: Dialect, decodes: Decoding | None) -> TextSink:
    """Return the sink for stdout and stderr."""
    first = b"| " if shown.skip_metadata else b" "
    contents = None if decodes is None else lambda: decodes.text(first, careful=shown.careful)
    return TextSink(_writer(shown, dialect), error_line, dialect, contents, careful=shown.careful, iso=shown.iso)


def text_writer(*, careful: bool) -> TextWriter:
    """Return what writes batches and records to stdout as dump does with --print-data-log.

    Args:
        careful: escape what could drive a terminal.
    """
    return _writer(Layout(True, True, False, None, STRING, STRING, False, careful), DEFAULT)


def _writer(shown: Layout, dialect: Dialect) -> TextWriter:
    mode = (
        (_text.CONTENTS if shown.contents else 0)
        | (_text.SKIP_METADATA if shown.skip_metadata else 0)
        | (_text.LEGACY_BRACE if dialect.legacy_brace else 0)
        | (_text.BARE_PAYLOAD if dialect.bare_payload else 0)
        | (_text.KAFKA if shown.compat else 0)
        | (_text.CAREFUL if shown.careful else 0)
        | (_text.ISO if shown.iso else 0)
    )
    slow_text = escape_bytes if shown.careful else _java_utf8
    return TextWriter(sys.stdout.buffer.write, mode, slow_text, None, _control(shown, dialect), _broken(shown, dialect))


def _java_utf8(data: bytes) -> bytes:
    from kdump.decode.javatext import java_utf8

    return java_utf8(data)


def write_text(text: str) -> None:
    """Write text to stdout; names that are not UTF-8 go out as the bytes they are."""
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))


def error_line(line: str) -> None:
    """Write one line to stderr, after all that stdout got."""
    sys.stdout.buffer.flush()
    sys.stderr.buffer.write(line.encode("utf-8", "surrogateescape") + b"\n")
    sys.stderr.buffer.flush()


def decoding(shown: Layout, dialect: Dialect, command: Decoder | None) -> Decoding | None:
    """Return what decodes keys and values; None where they are plain.

    Args:
        shown: how records are shown.
        dialect: the release whose words are wanted.
        command: decodes payloads; None where the layout says how.

    Raises:
        click.BadParameter: a decoder does not exist.
    """
    plain = command
    if plain is None and (shown.key_form or shown.value_form):
        from kdump.decode.formats import decoder as of_forms

        plain = of_forms(shown.key_form or "utf8", shown.value_form or "utf8")
    if plain is None and shown.decoder is None:
        if not shown.contents or (shown.key_class, shown.value_class) == (STRING, STRING):
            return None
        from kdump.decode import classes

        found = classes(shown.key_class, shown.value_class, dialect.release)
        if isinstance(found, str):
            if shown.compat:
                return None  # Kafka's tool dies of it when it comes to the first log
            raise click.BadParameter(found)
        plain = found
    from kdump.cli.decoding import Decoding

    try:
        return Decoding(shown.decoder, dialect, plain, compat=shown.compat)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _control(shown: Layout, dialect: Dialect) -> _text.Contents:
    """What makes the text of control records."""

    def control(_offset: int, key: bytes | None, value: bytes | None) -> bytes | tuple[bytes, str]:
        from kdump.decode.control import Stopped, control_text

        text = control_text(key, value, dialect.release)
        if not isinstance(text, Stopped):
            return text
        return (b"", text.message) if shown.compat else b""

    return _escaped(control) if shown.careful else control


def _broken(shown: Layout, dialect: Dialect) -> Callable[[int, LegacyMessage], tuple[bytes, str | None]]:
    """What makes the text of messages whose key or value cannot be read."""
    first = b"| " if shown.skip_metadata else b" "

    def broken(offset: int, message: LegacyMessage) -> tuple[bytes, str | None]:
        from kdump.decode import classes, decoder
        from kdump.dump.brokenmessage import broken_message

        plain = classes(shown.key_class, shown.value_class, dialect.release)
        decode = decoder(shown.decoder, dialect.release) if shown.decoder is not None else plain
        decoded = broken_message(shown.decoder, None if isinstance(decode, str) else decode, offset, message)
        name, text = ("key", decoded.key) if decoded.payload is None else ("payload", decoded.payload)
        return (b"" if text is None else b"%b%b: %b" % (first, name.encode(), text)), decoded.stop

    return broken


def _escaped(make: _text.Contents) -> _text.Contents:
    """The same text, safe on a terminal."""

    def safe(offset: int, key: bytes | None, value: bytes | None) -> bytes | tuple[bytes, str]:
        text = make(offset, key, value)
        return escape_bytes(text) if isinstance(text, bytes) else (escape_bytes(text[0]), text[1])

    return safe
