"""JSON lines: one object a line, ASCII only, `type` first, Kafka's names."""

from __future__ import annotations

import base64
import json
import os
from typing import TYPE_CHECKING

from kdump.render.escape import escape

if TYPE_CHECKING:
    from kdump.finding import Finding
    from kdump.item import LookupAnswer, Loss, Prediction, Step


def line(type_: str, fields: dict[str, object]) -> str:
    """Return one line, without its end."""
    return json.dumps({"type": type_, **fields}, separators=(",", ":"))


def finding_json(finding: Finding) -> str:
    """Return the line of a finding."""
    return line(
        "finding",
        {
            "code": finding.code.name,
            "name": finding.code.slug,
            "severity": finding.severity.value,
            "file": name(finding.file),
            "position": finding.position,
            "length": finding.length,
            "gap": finding.gap,
            "offset": finding.offset,
            "lastOffset": finding.last_offset,
            "offsetsFrom": finding.offsets_from,
            "field": finding.field,
            "expected": safe_value(finding.expected),
            "found": safe_value(finding.found),
            "message": safe_text(finding.message),
            "remedy": safe_text(finding.remedy),
            "repair": finding.repair,
            "count": finding.count,
            "because": None if finding.because is None else finding.because.name,
            "more": finding.more,
        },
    )


def location_json(location: LookupAnswer) -> str:
    """Return the line of an answer."""
    return line(
        "location",
        {
            "query": safe_text(location.query.strip()),
            "offset": location.offset,
            "timestamp": location.timestamp,
            "leaderEpoch": location.leader_epoch,
            "file": None if location.file is None else name(location.file),
            "position": location.position,
            "baseOffset": location.base_offset,
            "lastOffset": location.last_offset,
            "error": safe_value(location.error),
        },
    )


def loss_json(loss: Loss) -> str:
    """Return the line of offsets that a reader does not get."""
    return line(
        "loss",
        {
            "partition": name(loss.partition),
            "file": None if loss.file is None else name(loss.file),
            "position": loss.position,
            "length": loss.length,
            "offset": loss.offset,
            "lastOffset": loss.last_offset,
            "records": loss.records,
            "certainty": loss.certainty.value,
            "because": list(loss.because),
            "elsewhere": [name(path) for path in loss.elsewhere or ()],
        },
    )


def prediction_json(one: Prediction) -> str:
    """Return the line of what a broker does with a partition."""
    segments = [{"baseOffset": it.base_offset, "action": it.action, "size": it.size} for it in one.segments]
    return line(
        "prediction",
        {
            "partition": name(one.partition),
            "start": one.start,
            "loads": one.loads,
            "stops": one.stops,
            "reason": safe_value(one.reason),
            "reasonClass": one.reason_class,
            "logStartOffset": one.log_start_offset,
            "logEndOffset": one.log_end_offset,
            "bytesLost": one.bytes_lost,
            "recordsLost": one.records_lost,
            "hiddenRecords": one.hidden_records,
            "reusedOffsets": None if one.reused_offsets is None else list(one.reused_offsets),
            "cause": None if one.cause is None else {"code": one.cause[0], "file": name(one.cause[1])},
            "assumed": [safe_text(what) for what in one.assumed],
            "segments": segments,
        },
    )


def step_json(step: Step) -> str:
    """Return the line of what to do next."""
    return line(
        "step",
        {"n": step.n, "command": step.command, "why": safe_text(step.why), "instead": list(step.instead)},
    )


def summary_json(totals: dict[str, int], unchecked: list[tuple[str | None, str]], status: int) -> str:
    """Return the line that ends a run.

    Args:
        totals: numbers by name.
        unchecked: what was not read, and why; None for all files.
        status: the exit status.
    """
    left_out = [{"file": None if path is None else name(path), "reason": safe_text(why)} for path, why in unchecked]
    return line("summary", {**totals, "unchecked": left_out, "exit": status})


def text_or_bytes(data: bytes | None) -> object:
    """Return bytes as JSON has them: a string when they are UTF-8, else an object with Base64; null stays null."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def name(path: str) -> object:
    """Return a path as JSON has it: it is bytes too, and not always UTF-8."""
    return path if path.isascii() else text_or_bytes(os.fsencode(path))


def safe_value(value: int | str | None) -> int | str | None:
    """Return a value, text as `safe_text`."""
    return safe_text(value) if isinstance(value, str) else value


def safe_text(text: str) -> str:
    """Return text for people; bytes in it that were not UTF-8 are made visible, as not all who read JSON take them."""
    if text.isascii():
        return text
    return "".join([escape(char) if "\ud800" <= char <= "\udfff" else char for char in text])
