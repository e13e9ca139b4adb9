"""Puts together the sink that prints a dump as JSON lines."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from kdump.render.escape import escape
from kdump.render.json.dump import DumpJson
from kdump.render.json.writer import JsonWriter
from kdump.render.text.dump_sink import error_line

if TYPE_CHECKING:
    from kdump.compat.dialect import Dialect
    from kdump.decode.file_decoder import FileDecoder
    from kdump.exit_status import RunStatus
    from kdump.render.text.dump_sink import RecordFormat


def json_sink(
    shown: RecordFormat, dialect: Dialect, decodes: FileDecoder | None, outcome: RunStatus, *, deep: bool, stats: bool
) -> DumpJson:
    """Return the sink for stdout and stderr.

    Args:
        shown: what is shown of records.
        dialect: the release whose words control records have.
        decodes: reads keys and values; None where nothing does.
        outcome: knows the exit status.
        deep: records are read.
        stats: figures and findings only.
    """
    writer = json_writer(dialect, contents=shown.contents)
    decode = (lambda: None) if decodes is None else decodes.json
    return DumpJson(
        writer,
        decode,
        lambda line: error_line(escape(line)),
        lambda: int(outcome.exit),
        deep=deep,
        stats=stats,
    )


def json_writer(dialect: Dialect, *, contents: bool) -> JsonWriter:
    """Return what writes batches and records to stdout.

    Args:
        dialect: the release whose words control records have.
        contents: keys and payloads too.
    """

    def control(key: bytes | None, value: bytes | None) -> bytes:
        from kdump.decode.control import control_object

        return json.dumps(control_object(key, value, dialect.release), separators=(",", ":")).encode()

    return JsonWriter(sys.stdout.buffer.write, contents=contents, control=control)
