"""Puts together the sink that prints a dump as JSON lines."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from kdump.cli.textsink import error_line
from kdump.render.dumpjson import DumpJson
from kdump.render.escape import escape
from kdump.render.jsonwriter import JsonWriter

if TYPE_CHECKING:
    from kdump.cli.decoding import Decoding
    from kdump.cli.outcome import Outcome
    from kdump.cli.textsink import Layout


def json_sink(shown: Layout, decodes: Decoding | None, outcome: Outcome, *, deep: bool, stats: bool) -> DumpJson:
    """Return the sink for stdout and stderr.

    Args:
        shown: what is shown of records.
        decodes: reads keys and values; None where nothing does.
        outcome: knows the exit status.
        deep: records are read.
        stats: figures and findings only.
    """
    writer = json_writer(contents=shown.contents)
    decode = (lambda: None) if decodes is None else decodes.json
    return DumpJson(
        writer,
        decode,
        lambda line: error_line(escape(line)),
        lambda: int(outcome.exit),
        deep=deep,
        stats=stats,
    )


def json_writer(*, contents: bool) -> JsonWriter:
    """Return what writes batches and records to stdout.

    Args:
        contents: keys and payloads too.
    """

    def control(key: bytes | None, value: bytes | None) -> bytes:
        from kdump.decode.control import control_object

        return json.dumps(control_object(key, value), separators=(",", ":")).encode()

    return JsonWriter(sys.stdout.buffer.write, contents=contents, control=control)
