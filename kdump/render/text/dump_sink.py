"""Puts together the sink that prints a dump as text: layout, decoders and what the terminal needs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kdump.compat.dialect import DEFAULT
from kdump.decode import STRING
from kdump.render.escape import escape_bytes
from kdump.render.text import _text
from kdump.render.text.dump import TextSink
from kdump.render.text.writer import TextWriter
from kdump.value import Value

if TYPE_CHECKING:
    from kdump.compat.dialect import Dialect
    from kdump.decode.file_decoder import FileDecoder


class RecordFormat(Value):
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


def text_sink(shown: RecordFormat, dialect: Dialect, decodes: FileDecoder | None) -> TextSink:
    """Return the sink for stdout and stderr."""
    first = b"| " if shown.skip_metadata else b" "
    contents = None if decodes is None else lambda: decodes.text(first, escape_bytes if shown.careful else None)
    return TextSink(_writer(shown, dialect), error_line, dialect, contents, careful=shown.careful, iso=shown.iso)


def text_writer(*, careful: bool) -> TextWriter:
    """Return what writes batches and records to stdout as dump does with --print-data-log.

    Args:
        careful: escape what could drive a terminal.
    """
    return _writer(RecordFormat(True, True, False, None, STRING, STRING, False, careful), DEFAULT)


def _writer(shown: RecordFormat, dialect: Dialect) -> TextWriter:
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
    return TextWriter(sys.stdout.buffer.write, mode, slow_text, None, _control(shown, dialect))


def _java_utf8(data: bytes) -> bytes:
    from kdump.decode.java_text import java_utf8

    return java_utf8(data)


def write_text(text: str) -> None:
    """Write text to stdout; names that are not UTF-8 go out as the bytes they are."""
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))


def error_line(line: str) -> None:
    """Write one line to stderr, after all that stdout got."""
    sys.stdout.buffer.flush()
    sys.stderr.buffer.write(line.encode("utf-8", "surrogateescape") + b"\n")
    sys.stderr.buffer.flush()


def _control(shown: RecordFormat, dialect: Dialect) -> _text.Contents:
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
