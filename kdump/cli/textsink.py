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
    from collections.abc import Mapping

    from kdump.decode import Decoder
    from kdump.dialect import Dialect

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
        decoder: name of a decoder for internal topics.
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
        decoder = next((name for option, name in _DECODERS if given[option]), None)
        contents = given["print_data_log"] or decoder is not None
        classes = (given["key_decoder_class"], given["value_decoder_class"])
        forms = (given["key_format"], given["value_format"])
        contents = contents or classes != (None, None) or forms != (None, None) or bool(given["decoder_command"])
        return cls(
            given["deep_iteration"] or contents,
            contents,
            given["skip_record_metadata"],
            decoder,
            classes[0] or STRING,
            classes[1] or STRING,
            given["compat"] is not None,
            terminal and not given["raw"],
            *forms,
            given["timestamps"] == "iso",
        )


def text_sink(shown: Layout, dialect: Dialect, command: Decoder | None = None) -> TextSink:
    """Return the sink for stdout and stderr.

    Args:
        shown: how records are shown.
        dialect: the release whose layout it is.
        command: decodes payloads; None where the layout says how.

    Raises:
        click.BadParameter: a decoder does not exist.
    """
    return TextSink(_writer(shown, dialect, command), _error_line, dialect, careful=shown.careful, iso=shown.iso)


def text_writer(*, careful: bool) -> TextWriter:
    """Return what writes batches and records to stdout as dump does with --print-data-log.

    Args:
        careful: escape what could drive a terminal.
    """
    return _writer(Layout(True, True, False, None, STRING, STRING, False, careful), DEFAULT)


def _writer(shown: Layout, dialect: Dialect, command: Decoder | None = None) -> TextWriter:
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
    contents = _contents(shown, dialect, command)
    return TextWriter(sys.stdout.buffer.write, mode, slow_text, contents, _control(shown, dialect))


def _java_utf8(data: bytes) -> bytes:
    from kdump.decode.javatext import java_utf8

    return java_utf8(data)


def _error_line(line: str) -> None:
    sys.stdout.buffer.flush()
    sys.stderr.buffer.write(line.encode("utf-8", "surrogateescape") + b"\n")
    sys.stderr.buffer.flush()


def _contents(shown: Layout, dialect: Dialect, command: Decoder | None) -> _text.Contents | None:
    """What makes the text of keys and payloads; None for plain UTF-8."""
    if not shown.contents:
        return None
    if command is not None:
        return _as_contents(command, shown, dialect)
    if shown.key_form or shown.value_form:
        from kdump.decode.formats import decoder as of_forms

        return _as_contents(of_forms(shown.key_form or "utf8", shown.value_form or "utf8"), shown, dialect)
    if shown.decoder is None and (shown.key_class, shown.value_class) == (STRING, STRING):
        return None
    from kdump.decode import classes, decoder

    try:
        decode = (
            decoder(shown.decoder, dialect.release)
            if shown.decoder
            else classes(shown.key_class, shown.value_class, dialect.release)
        )
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if isinstance(decode, str):
        if shown.compat:
            return None  # Kafka's tool dies of it when it comes to the first log
        raise click.BadParameter(decode)
    return _as_contents(decode, shown, dialect)


def _as_contents(decode: Decoder, shown: Layout, dialect: Dialect) -> _text.Contents:
    """What a decoder makes, as the text after the metadata of a record."""
    first = b"| " if shown.skip_metadata else b" "
    bare = dialect.bare_payload

    def contents(offset: int, key: bytes | None, value: bytes | None) -> bytes | tuple[bytes, str]:
        decoded = decode(offset, key, value)
        text, prefix = b"", first
        if decoded.key is not None:
            text, prefix = b"%bkey: %b" % (prefix, decoded.key), b" "
        if decoded.payload is not None:
            text += b"%bpayload: %b" % (b" " if bare else prefix, decoded.payload)
        return text if decoded.stop is None else (text, decoded.stop)

    return _escaped(contents) if shown.careful else contents


def _control(shown: Layout, dialect: Dialect) -> _text.Contents:
    """What makes the text of control records."""

    def control(_offset: int, key: bytes | None, value: bytes | None) -> bytes | tuple[bytes, str]:
        from kdump.decode.control import Stopped, control_text

        text = control_text(key, value, dialect.release)
        if not isinstance(text, Stopped):
            return text
        return (b"", text.message) if shown.compat else b""

    return _escaped(control) if shown.careful else control


def _escaped(make: _text.Contents) -> _text.Contents:
    """The same text, safe on a terminal."""

    def safe(offset: int, key: bytes | None, value: bytes | None) -> bytes | tuple[bytes, str]:
        text = make(offset, key, value)
        return escape_bytes(text) if isinstance(text, bytes) else (escape_bytes(text[0]), text[1])

    return safe
