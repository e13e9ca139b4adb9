"""The library: what is public, that it says what `dump`, `verify` and `find-*` say, and how it fails."""

from __future__ import annotations

import base64
import json
import os
import pickle
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import kdump
from tests.corpus import FIXTURES

INTACT = FIXTURES / "damage" / "intact" / "none" / "logdir"
PLAIN = INTACT / "plain-0"
NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
PUBLIC = {
    "Batch", "BatchColumns", "Code", "Error", "Finding", "Location", "Log", "Prediction", "Record", "RecordColumns",
    "Severity", "Verdict", "__version__", "find_offset", "find_time", "records", "verify",
}  # fmt: skip
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(kdump.__file__).parent.parent)}

# Every log with another content, of all releases and all damage; of the copies in the damage cases one each.
LOGS = list({path.read_bytes(): path for path in sorted(FIXTURES.rglob("*.log"), reverse=True)}.values())
GROUPS = [LOGS[start::8] for start in range(8)]


def python(code: str) -> str:
    """Run code in a new interpreter."""
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    return done.stdout


def dumped(*args: str) -> list[dict[str, Any]]:
    """Return the JSON lines of a dump, whatever it finds."""
    run = [sys.executable, "-P", "-m", "kdump", "dump", "--format", "json", "--print-data-log", "--decoder", "none"]
    done = subprocess.run([*run, *args], env=ENVIRONMENT, capture_output=True, check=False)
    assert done.returncode in (0, 3, 5, 6), done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def content(value: bytes | None) -> Any:
    """Return a field of bytes as JSON has it."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def as_json(record: kdump.Record) -> dict[str, Any]:
    """Return a record as JSON has it, control and names of headers aside."""
    return {
        "file": record.file,
        "batchPosition": record.batch_position,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestampDelta": record.timestamp_delta,
        "timestampType": record.timestamp_type,
        "attributes": record.attributes,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "sequence": record.sequence,
        "headers": [content(value) for _, value in record.headers],
        "key": content(record.key),
        "payload": content(record.value),
    }


def camel(name: str) -> str:
    return re.sub("_(.)", lambda letter: letter[1].upper(), name)


# --- what is public -----------------------------------------------------------------------------------------
def test_the_public_names_are_these() -> None:
    assert set(kdump.__all__) == PUBLIC
    assert all(getattr(kdump, name) is not None for name in PUBLIC)
    assert set(dir(kdump)) >= PUBLIC


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        kdump.nothing  # noqa: B018


def test_importing_kdump_loads_nothing_else() -> None:
    loaded = python("import sys; before = set(sys.modules); import kdump; print(*set(sys.modules) - before)")
    assert loaded.split() == ["kdump"]


def test_importing_the_errors_loads_no_reader() -> None:
    loaded = python("import sys, kdump; kdump.Error; print(*sys.modules)").split()
    assert {"kdump.api.log", "kdump.format.walk", "click"} & set(loaded) == set()


# --- records ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_records_and_batches_are_those_of_json_for_every_log_of_the_fixtures(group: int) -> None:
    lines = dumped(*map(str, GROUPS[group]))
    records, batches, findings = [], [], []
    for path in GROUPS[group]:
        with kdump.Log(path) as log:
            records += list(log.records())
            findings += [(finding.code.name, finding.position) for finding in log.findings]
            batches += list(log.batches())
    expected = [line for line in lines if line["type"] == "record"]
    for line in expected:
        line["headers"] = [header["value"] for header in line["headers"] or ()]
        del line["type"], line["decodedKey"], line["decodedPayload"]
    controls = [line.pop("control") is not None for line in expected]
    assert [as_json(record) for record in records] == expected
    assert [record.is_control for record in records] == controls
    mine = [{camel(name): value for name, value in batch._asdict().items()} for batch in batches]
    assert mine == [{**line, "type": None} | {} for line in lines if line["type"] == "batch" and not line.pop("type")] or mine == [
        {key: value for key, value in line.items() if key != "type"} for line in lines if "isvalid" in line
    ]
    said = [(line["code"], line["position"]) for line in lines if line["type"] == "finding" and "more" not in line]
    assert [one for one in findings if one in said] == said
