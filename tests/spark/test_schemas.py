"""Payloads are decoded by schemas on Spark as on one machine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from kdump.spark.source_options import OptionError, SourceOptions
from tests.support.runs import run_kdump
from tests.support.schema_logs import log_dir, written_topics

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_keys_and_payloads_are_those_of_a_dump(spark: SparkSession, tmp_path: Path) -> None:
    data = log_dir(tmp_path, written_topics())
    lines = run_kdump(["dump", str(data), "--schemas", str(data), "--format", "json"], tmp_path).stdout.splitlines()
    rows = [row for row in map(json.loads, lines) if row["type"] == "record"]
    known = [(row["file"], row["offset"], _text(row["decodedKey"]), _text(row["decodedPayload"])) for row in rows]
    reader = spark.read.format("kafka-segments").option("table", "records").option("schemas", str(data))
    found = [
        (row.file, row.offset, _text(_read(row.decodedKey)), _text(_read(row.decodedPayload)))
        for row in reader.load(str(data)).collect()
    ]
    assert len([one for one in found if one[3] != "null"]) > 10
    assert sorted(found) == sorted(known)


def test_a_registry_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(OptionError) as raised:
        SourceOptions({"path": str(tmp_path), "table": "records", "schemas": str(tmp_path / "gone")})
    assert "gone" in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


def _read(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
