"""JSON: what every command prints is what man/kdump-json.5 says, and says all that is in a file."""

from __future__ import annotations

import ast
import base64
import io
import json
import os
import re
import shutil
import struct
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kdump
from kdump.format.batch.walk import CheckedWalk
from kdump.format.checksum import crc32c
from kdump.format.record.reader import RecordReader
from kdump.format.source import BytesSource
from kdump.render.json.writer import JsonWriter
from tests.support import segments
from tests.support.consoles import MAN, plain
from tests.support.damage_cases import damage_cases
from tests.support.runs import FIXTURES, Run, run_kdump
from tests.support.schema_logs import log_dir
from tests.support.segments import varint

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
CLEAN = FIXTURES / "kafka-4.3.1" / "clean"
NODE = CLEAN / "node1"
ZERO = "00000000000000000000.log"
BASH = shutil.which("bash") or "bash"


SOMETIMES = ("doubtful", "fate", "keySchema", "schema")
"""Keys of a record that few commands give it."""


def rows(args: list[str], cwd: Path = FIXTURES, *, exits: tuple[int, ...] = (0,)) -> list[dict[str, Any]]:
    """Run kdump and read the lines of its stdout, each held to its schema."""
    run = run_kdump(args, cwd)
    assert run.exit in exits, (args, run.exit, run.stderr)
    return checked(run)


def checked(run: Run) -> list[dict[str, Any]]:
    assert run.stdout.isascii()
    assert b"Traceback" not in run.stderr
    found = []
    for line in run.stdout.splitlines():
        row = json.loads(line)
        assert next(iter(row)) == "type"
        assert line.decode() == json.dumps(row, separators=(",", ":")), "compact, escaped as json.dumps does"
        assert row["type"] in SCHEMAS
        problem = violates(row, SCHEMAS[row["type"]])
        assert problem is None, (problem, row)
        found.append(row)
    return found


# --- schemas ------------------------------------------------------------------------------------------------
def schemas() -> dict[str, Any]:
    """Return the schemas of the manual page by name."""
    text = (ROOT / "man" / "kdump-json.5").read_text("ascii")
    types = text[text.index(".SH TYPES") : text.index('.SH "WHICH')]
    found = {}
    for block in re.findall(r"(?ms)^\.EX\n(.*?)^\.EE$", types):
        plain = block.replace(r"\(aq", "'").replace(r"\-", "-").replace(r"\e", "\\")
        schema = json.loads(plain)
        found[schema["$id"]] = schema
    return found


TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "integer": (int,), "number": (int, float),
    "boolean": (bool,), "null": (type(None),),
}  # fmt: skip
KEYWORDS = {
    "prefixItems",
    "$id",
    "$ref",
    "type",
    "const",
    "enum",
    "anyOf",
    "properties",
    "required",
    "additionalProperties",
    "items",
}


def violates(value: Any, schema: dict[str, Any], at: str = "$") -> str | None:
    """Say how a value violates a schema, None when it does not; of JSON Schema, what the manual uses."""
    assert set(schema) <= KEYWORDS, schema
    if "$ref" in schema:
        return violates(value, SCHEMAS[schema["$ref"]], at)
    if "const" in schema:
        return None if value == schema["const"] else f"{at}: not {schema['const']}"
    if "enum" in schema:
        return None if value in schema["enum"] else f"{at}: {value} is none of {schema['enum']}"
    if "anyOf" in schema:
        problems = [violates(value, one, at) for one in schema["anyOf"]]
        return None if None in problems else f"{at}: {problems}"
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    is_one = any(isinstance(value, TYPES[name]) and isinstance(value, bool) == (name == "boolean") for name in names)
    if not is_one:
        return f"{at}: {value!r} is no {names}"
    if isinstance(value, list) and "prefixItems" in schema:
        pairs = zip(value, schema["prefixItems"], strict=True)
        return next(filter(None, (violates(one, of, f"{at}[]") for one, of in pairs)), None)
    if isinstance(value, list) and "items" in schema:
        return next(filter(None, (violates(one, schema["items"], f"{at}[]") for one in value)), None)
    if isinstance(value, dict) and "properties" in schema:
        if missing := set(schema["required"]) - set(value):
            return f"{at}: without {missing}"
        if more := set(value) - set(schema["properties"]):
            return f"{at}: with {more}"
        pairs = schema["properties"].items()
        return next(
            filter(None, (violates(value[key], one, f"{at}.{key}") for key, one in pairs if key in value)), None
        )
    return None


SCHEMAS = schemas()


def test_the_validator_can_say_no() -> None:
    row = rows(["dump", "--format", "json", f"kafka-4.3.1/clean/node1/plain-0/{ZERO}"])[1]
    for key in row:
        assert violates({name: value for name, value in row.items() if name != key}, SCHEMAS["batch"]) is not None
        assert violates({**row, key: []}, SCHEMAS["batch"]) is not None
    assert violates({**row, "more": 1}, SCHEMAS["batch"]) is not None
    assert violates({**row, "isvalid": 1}, SCHEMAS["batch"]) is not None
    assert violates({**row, "count": True}, SCHEMAS["batch"]) is not None


def test_every_schema_is_strict() -> None:
    for name, schema in SCHEMAS.items():
        if name != "bytes":
            assert schema["additionalProperties"] is False
            assert schema["properties"]["type"] == {"const": name}
            assert set(schema["required"]) <= set(schema["properties"])


TREES = [CLEAN / "node1", *sorted((FIXTURES / "releases").glob("*/logs")), FIXTURES / "kafka-4.3.1" / "live"]


@cache
def whole(tree: Path, *options: str) -> list[dict[str, Any]]:
    return rows(["dump", "--format", "json", *options, str(tree)])


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: str(tree.relative_to(FIXTURES)))
def test_all_that_brokers_wrote_is_dumped_by_schema(tree: Path) -> None:
    if tree.name == "live":
        tree = next(tree.glob("node*"))
    found = whole(tree, "--print-data-log")
    assert found[-1]["type"] == "summary"
    assert found[-1]["errors"] == 0
    assert found[-1]["batches"] == sum(row["type"] == "batch" for row in found)
    assert found[-1]["records"] == sum(row["type"] == "record" for row in found)
    assert found[-1]["files"] == sum(row["type"] == "file" for row in found)
    assert found[-1]["bytes"] == sum(row["size"] for row in found if row["type"] == "file")


def test_every_type_of_the_manual_is_printed_by_some_command(tmp_path: Path) -> None:
    node = "kafka-4.3.1/clean/node1"
    found = {row["type"] for row in whole(CLEAN / "node1", "--print-data-log")}
    found |= {row["type"] for row in rows(["dump", "--stats", "--format", "json", node])}
    found |= {row["type"] for row in rows(["verify", "--format", "json", f"{node}/txn-0"])}
    for args in (
        ["--start", "clean", "damage/intact/compacted/logdir"],
        ["log-l19-hole-alone"],
        ["log-o08-offsets-twice"],
    ):
        found |= {row["type"] for row in rows(["verify", "--format", "json", *args], exits=(0, 3))}
    found |= {row["type"] for row in rows(["truncate", "--format", "json", "--at-damage", f"{node}/txn-0"])}
    found |= {row["type"] for row in rows(["find-offset", "--format", "json", f"{node}/txn-0", "0"])}
    found |= {row["type"] for row in rows(["du", "--full-at", "1T", "--format", "json", f"{node}/txn-0"])}
    for more in ([], ["--pass"]):
        found |= {row["type"] for row in rows(["retention", "--compaction", *more, "--format", "json", node])}
    found |= {row["type"] for row in rows(["partition-for", "--format", "json", "group"])}
    for args in (["groups"], ["groups", "--diff", "0", "end"], ["transactions"], ["cluster"]):
        found |= {row["type"] for row in rows([*args, "--format", "json", node])}
    registry = log_dir(tmp_path / "registry", {})
    found |= {row["type"] for row in rows(["schemas", "--format", "json", str(registry)])}
    (tmp_path / "image").write_bytes((CLEAN / "node1/txn-0/00000000000000000000.log").read_bytes())
    carved = run_kdump(["carve", "image", "--to", "out", "--format", "json"], tmp_path)
    found |= {json.loads(line)["type"] for line in carved.stdout.splitlines()}
    copies = [str(FIXTURES / "replica-d01-differs" / one) for one in ("first", "second")]
    for table, paths in (("unread", ["nowhere"]), ("partitionSummary", copies), ("replicaDiffs", copies)):
        run_kdump(["export", "--table", table, "--format", "json", "--to", f"tables/{table}", *paths], tmp_path)
    for file in (tmp_path / "tables").glob("*/topic=*/*/*.json"):
        for row in map(json.loads, file.read_text("ascii").splitlines()):
            assert violates(row, SCHEMAS[row["type"]]) is None
            found.add(row["type"])
    # those of verify and salvage over damage: tests/checks and tests/rescue; of no cluster here: tests/state; of
    # nights: tests/nights
    others = {"nightRun", "step", "token", "kept", "patched", "revived", "divergent", "salvage"}
    assert found | others == set(SCHEMAS) - {"bytes"}


def test_kinds_of_files_are_those_of_the_manual() -> None:
    kinds = {row["kind"] for row in whole(CLEAN / "node1", "--print-data-log") if row["type"] == "file"}
    assert kinds <= set(SCHEMAS["file"]["properties"]["kind"]["enum"])
    assert {"log", "index", "timeindex", "txnindex", "snapshot", "checkpoint", "meta.properties"} <= kinds


@pytest.mark.sampled(5)
@pytest.mark.parametrize("case", damage_cases(FIXTURES / "damage"), ids=lambda case: case.name)
def test_damage_is_dumped_and_verified_by_schema(case: Any, tmp_path: Path) -> None:
    tree = case.build(tmp_path / "logdir")
    codes = (0, 3, 4, 5, 6, 10)
    found = rows(["dump", "--format", "json", "--print-data-log", "."], tree, exits=codes)
    status = run_kdump(["dump", "--deep-iteration", "."], tree).exit
    assert found[-1]["exit"] == status, "the same verdict as that of the text"
    assert (found[-1]["errors"] > 0) == (status in (3, 6))
    rows(["verify", "--format", "json", "--start", "clean", "."], tree, exits=codes)
    salvaged = rows(["salvage", ".", "--to", str(tmp_path / "out"), "--format", "json"], tree, exits=(*codes, 12))
    for key, certainties in (("offsetsLost", ("lost", "doubtful")), ("offsetsUnexplained", ("unexplained",))):
        losses = [row for row in salvaged if row["type"] == "loss" and row["certainty"] in certainties]
        missing = sum(row["lastOffset"] - row["offset"] + 1 for row in losses)
        assert salvaged[-1][key] == sum(row[key] for row in salvaged if row["type"] == "salvage") == missing


def test_answers_of_find_are_as_the_manual_says() -> None:
    node = "kafka-4.3.1/clean/node1"
    for topic, offset in (("plain-0", "60"), ("gzip-0", "latest"), ("__consumer_offsets-1", "3"), ("txn-0", "100")):
        args = ["find-offset", f"{node}/{topic}", offset, "--format", "json", "--print", "--context", "2"]
        found = rows(args, exits=(0, 10))
        assert found[0]["type"] in ("location", "finding", "batch")
    assert rows(["find-time", f"{node}/plain-0", "2050-01-01", "--format", "json"], exits=(10,))[0]["error"]


# --- depth and decoders -------------------------------------------------------------------------------------
def records(*args: str) -> list[dict[str, Any]]:
    return [row for row in rows(["dump", "--format", "json", *args], NODE) if row["type"] == "record"]


def test_without_an_option_there_are_batches_only() -> None:
    assert records("plain-0") == []


def test_deep_iteration_has_records_without_key_and_payload() -> None:
    found = records("--deep-iteration", "plain-0")
    assert found
    assert all({"key", "payload", "decodedKey", "decodedPayload"}.isdisjoint(row) for row in found)


def test_print_data_log_has_records_with_all() -> None:
    found = records("--print-data-log", "plain-0")
    assert found
    assert all(list(row) == [key for key in SCHEMAS["record"]["properties"] if key not in SOMETIMES] for row in found)


@pytest.mark.parametrize(
    ("topic", "option"),
    [
        ("__consumer_offsets-1", "offsets"),
        ("__transaction_state-0", "transaction"),
        ("__cluster_metadata-0", "metadata"),
        ("__remote_log_metadata-0", "remote"),
        ("__share_group_state-0", "share"),
    ],
)
def test_the_directory_tells_the_decoder(topic: str, option: str) -> None:
    by_itself = records("--print-data-log", topic)
    assert by_itself == records("--decoder", option, topic) == records("--decoder", "auto", topic)
    assert any(isinstance(row["decodedPayload"], dict) for row in by_itself)
    bare = records("--print-data-log", "--decoder", "none", topic)
    assert all(row["decodedKey"] is row["decodedPayload"] is None for row in bare)


def test_decoded_objects_are_those_of_the_text() -> None:
    log = f"__consumer_offsets-1/{ZERO}"
    lines = run_kdump(["dump", "--offsets-decoder", log], NODE).stdout.decode().splitlines()
    shown = [line for line in lines if line.startswith("| ")]
    found = records("--print-data-log", log)
    assert len(shown) == len(found)
    assert any(row["decodedPayload"] == "<DELETE>" for row in found)
    for line, row in zip(shown, found, strict=True):
        if row["control"]:
            continue
        key, _, payload = line.partition(" key: ")[2].partition(" payload: ")
        assert json.loads(key) == row["decodedKey"]
        assert row["decodedPayload"] == (payload if payload == "<DELETE>" else json.loads(payload))


@pytest.mark.parametrize("option", [[], ["--verify-index-only"], ["--index-sanity-check"]])
def test_what_is_wrong_with_an_index_is_said_with_its_numbers(option: list[str]) -> None:
    found = []
    for folder in sorted(path for path in FIXTURES.glob("*index-*") if path.is_dir()):
        found += rows(["dump", "--format", "json", *option, folder.name], exits=(0, 3, 5, 6))
    said = {row["code"]: row["message"] for row in found if row["type"] == "finding"}
    assert re.search(r"with \d+ for offset \d+ before it$", said["T03"])


def test_a_last_entry_below_the_base_offset_is_said_with_its_numbers(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000100.index").write_bytes(struct.pack(">ii", -1, 5))
    args = ["dump", "--format", "json", "--index-sanity-check", "00000000000000000100.index"]
    (found,) = [row for row in rows(args, tmp_path, exits=(3,)) if row["type"] == "finding"]
    assert (found["code"], found["offset"], found["found"]) == ("X03", 99, 5)
    assert "offset 100 at byte 0 before it" in found["message"]


@pytest.mark.parametrize("form", ["utf8", "hex", "base64", "int", "long", "json"])
def test_values_of_a_form_are_in_the_schema(form: str, tmp_path: Path) -> None:
    values = (b'[1,"a"]', b"true", b"null", b"1.5", b'{"a":1}', b"\0\0\0\1", b"\0\0\0\0\0\0\0\2", b"\xff", b"", None)
    (tmp_path / ZERO).write_bytes(segments.batch(0, [segments.Record(one, one) for one in values]))
    found = rows(["dump", "--format", "json", "--key-format", form, "--value-format", form, ZERO], tmp_path)
    said = [row["decodedPayload"] for row in found if row["type"] == "record"]
    assert said == [row["decodedKey"] for row in found if row["type"] == "record"]
    if form == "json":
        assert said[:5] == [[1, "a"], True, None, 1.5, {"a": 1}]
    if form in ("int", "long"):
        assert said[5:7] == ([1, {"base64": "AAAAAAAAAAI="}] if form == "int" else [{"base64": "AAAAAQ=="}, 2])


def test_auto_in_text_goes_by_the_directory_too() -> None:
    both = ["__consumer_offsets-1", "plain-0", "__cluster_metadata-0", "bootstrap.checkpoint"]
    text = run_kdump(["dump", "--decoder", "auto", *both], NODE).stdout
    parts = [
        run_kdump(["dump", *option, path], NODE).stdout
        for path, option in zip(
            both,
            (
                ["--offsets-decoder"],
                ["--print-data-log"],
                ["--cluster-metadata-decoder"],
                ["--cluster-metadata-decoder"],
            ),
            strict=True,
        )
    ]
    assert text == b"".join(parts)


def test_text_without_an_option_is_kafka_s_even_for_internal_topics() -> None:
    assert b"decoded" not in run_kdump(["dump", "--print-data-log", "__consumer_offsets-1"], NODE).stdout


def test_control_records_say_what_they_are() -> None:
    kinds = {row["control"]["type"] for row in records("--print-data-log", "txn-0") if row["control"]}
    assert kinds == {"COMMIT", "ABORT"}
    assert all(
        row["decodedKey"] is None for row in records("--print-data-log", "__cluster_metadata-0") if row["control"]
    )


# --- odd records of internal topics -------------------------------------------------------------------------
def field(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def batch_of(*pairs: tuple[bytes | None, bytes | None], headers: tuple[tuple[bytes, bytes | None], ...] = ()) -> bytes:
    """Return a batch with these records."""
    body = b""
    for i, (key, value) in enumerate(pairs):
        more = varint(len(headers)) + b"".join(field(name) + field(data) for name, data in headers)
        record = b"\0" + varint(0) + varint(i) + field(key) + field(value) + more
        body += varint(len(record)) + record
    head = struct.pack(">hiqqqhii", 0, len(pairs) - 1, 0, 0, -1, -1, -1, len(pairs)) + body
    return struct.pack(">qiibI", 0, 9 + len(head), 0, 2, crc32c(head)) + head


COMMIT = b"\0\1\0\1g\0\1t\0\0\0\7"
VALUE = b"\0\3" + bytes(12) + b"\0\0" + bytes(8)


def internal(tmp_path: Path, *pairs: tuple[bytes | None, bytes | None]) -> Path:
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (folder / ZERO).write_bytes(batch_of(*pairs))
    return folder


def test_bytes_left_over_after_a_record_are_a_warning(tmp_path: Path) -> None:
    internal(tmp_path, (COMMIT, VALUE), (COMMIT + b"!", VALUE + b"abc"), (COMMIT, VALUE))
    found = rows(["dump", "--format", "json", "--print-data-log", "__consumer_offsets-0"], tmp_path)
    (finding,) = [row for row in found if row["type"] == "finding"]
    assert (finding["code"], finding["severity"], finding["offset"]) == ("R07", "warning", 1)
    assert "1 byte after the key record; 3 bytes after the value record" in finding["message"]
    assert (finding["position"], finding["length"]) == (0, found[0]["size"])
    one, two, three = (row["decodedPayload"] for row in found if row["type"] == "record")
    assert one == two == three
    text = run_kdump(["dump", "--offsets-decoder", "__consumer_offsets-0"], tmp_path)
    assert b"warning R07 decoder " in text.stderr
    failing = ["dump", "--offsets-decoder", "--fail-on", "warning", "__consumer_offsets-0"]
    assert run_kdump(failing, tmp_path).exit == 4


@pytest.mark.parametrize("options", [["--format", "json", "--print-data-log"], ["--offsets-decoder"]], ids=" ".join)
def test_an_odd_record_is_told_once_wherever_the_buffer_ends(options: list[str], tmp_path: Path) -> None:
    internal(tmp_path, *[(COMMIT + b"!", VALUE + bytes(20_000)) for _ in range(90)])
    run = run_kdump(["dump", *options, "--max-batch-bytes", "4000000", "__consumer_offsets-0"], tmp_path)
    assert len(run.stdout) > 1 << 20 or "json" not in options
    told = (run.stdout + run.stderr).count(b"1 byte after the key record; 20000 bytes after the value record")
    assert told == (90 if "json" in options else 5)  # text folds all but four, and shows the last
    assert "json" in options or b"count=86: 86 more" in run.stderr


def test_where_kafka_dies_over_a_record_the_dump_goes_on(tmp_path: Path) -> None:
    folder = internal(tmp_path, (COMMIT, VALUE), (None, b"value"), (COMMIT, VALUE))
    found = rows(["dump", "--format", "json", "--print-data-log", "__consumer_offsets-0"], tmp_path)
    assert [row["offset"] for row in found if row["type"] == "record"] == [0, 1, 2]
    assert [row["code"] for row in found if row["type"] == "finding"] == ["R07"]
    text = run_kdump(["dump", "--offsets-decoder", str(folder / ZERO)], tmp_path)
    lines = text.stdout.decode().splitlines()
    assert [line.split(" ")[2] for line in lines if line.startswith("| ")] == ["0", "1", "2"]
    assert "skipping. Failed to decode message at offset 1" in text.stdout.decode()
    assert b"warning R07 decoder " in text.stderr
    compat = run_kdump(["dump", "--compat", "4.3", "--offsets-decoder", "--files", str(folder / ZERO)], tmp_path)
    assert b"java.lang.RuntimeException: Failed to decode message at offset 1" in compat.stderr


def test_what_no_decoder_can_read_is_said_in_kafka_s_words(tmp_path: Path) -> None:
    internal(tmp_path, (b"\0\x63", b"x"), (COMMIT, b"\0\x63"), (COMMIT, VALUE[:5]), (COMMIT, None))
    keys = [
        (row["decodedKey"], row["decodedPayload"])
        for row in rows(["dump", "--format", "json", "--print-data-log", "__consumer_offsets-0"], tmp_path)
        if row["type"] == "record"
    ]
    key = {"type": "1", "data": {"group": "g", "topic": "t", "partition": 7}}
    assert keys[0] == ({"type": "99", "data": {"base64": ""}}, None)
    assert keys[1] == (key, {"version": "99", "data": {"base64": ""}})
    assert keys[2][0].startswith("Error at offset 2, skipping. Could not read record with version 3")
    assert keys[2][1] is None
    assert keys[3] == (key, "<DELETE>")


# --- nothing of a batch is lost -----------------------------------------------------------------------------
def data_of(shown: Any) -> bytes | None:
    if shown is None:
        return None
    return base64.b64decode(shown["base64"]) if isinstance(shown, dict) else shown.encode()


def rebuilt(batch: dict[str, Any], inside: list[dict[str, Any]]) -> bytes:
    """Return the batch that its lines of JSON tell of."""
    body = b""
    for row in inside:
        assert row["batchPosition"] == batch["position"]
        key, value = data_of(row["key"]), data_of(row["payload"])
        assert (row["keySize"], row["valueSize"]) == tuple(-1 if one is None else len(one) for one in (key, value))
        record = struct.pack(">B", row["attributes"]) + varint(row["timestampDelta"])
        record += varint(row["offset"] - batch["baseOffset"]) + field(key) + field(value) + varint(len(row["headers"]))
        for header in row["headers"]:
            record += field(data_of(header["key"])) + field(data_of(header["value"]))
        body += varint(len(record)) + record
    head = struct.pack(
        ">hiqqqhii", batch["attributes"] - (batch["attributes"] > 0x7FFF) * 0x10000,
        batch["lastOffset"] - batch["baseOffset"], batch["baseTimestamp"], batch["maxTimestamp"], batch["producerId"],
        batch["producerEpoch"], batch["baseSequence"], batch["count"],
    )  # fmt: skip
    sizes = struct.pack(
        ">qiibI", batch["baseOffset"], batch["size"] - 12, batch["partitionLeaderEpoch"], 2, batch["crc"]
    )
    return sizes + head + body


def uncompressed(tree: Path) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield each uncompressed batch of magic 2 below a folder that has records, with them."""
    batch: dict[str, Any] | None = None
    inside: list[dict[str, Any]] = []
    for row in [*whole(tree, "--print-data-log"), {"type": "end"}]:
        if row["type"] == "record":
            inside.append(row)
        elif row["type"] != "finding":
            if batch is not None:
                yield batch, inside
            is_plain = row["type"] == "batch" and row["magic"] == 2 and row["compresscodec"] == "none"
            batch, inside = (row if is_plain else None), []


@pytest.mark.parametrize("tree", TREES[:-1], ids=lambda tree: str(tree.relative_to(FIXTURES)))
def test_a_batch_can_be_rebuilt_from_its_json(tree: Path) -> None:
    count = 0
    for batch, inside in uncompressed(tree):
        with Path(batch["file"]).open("rb") as file:
            file.seek(batch["position"])
            stored = file.read(batch["size"])
        assert rebuilt(batch, inside) == stored, batch
        count += 1
    assert count > 10 or int(tree.parent.name.split(".")[1]) < 11, "releases before 0.11 have no magic 2"


# --- the kernel ---------------------------------------------------------------------------------------------
def lines_of(log: bytes, room: int | None = None) -> list[dict[str, Any]]:
    """Return the lines of a log in memory."""
    out = io.BytesIO()
    writer = JsonWriter(out.write, contents=True, control=lambda _key, _value: b"null")
    if room is not None:
        writer._buffer = memoryview(bytearray(room))
    writer.begin("x.log", None)
    reader = RecordReader(1 << 28)
    for window in CheckedWalk(BytesSource(log), lambda _: None, next_base=None, max_batch_bytes=1 << 28).windows():
        for chunk in reader.chunks(window):
            writer.chunk(chunk)
    writer.flush()
    lines = out.getvalue().decode("ascii").splitlines()
    found = [json.loads(line) for line in lines]
    assert lines == [json.dumps(row, separators=(",", ":")) for row in found]
    return found


some_bytes = st.none() | st.binary(max_size=40) | st.text(max_size=20).map(str.encode)
some_header = st.tuples(st.binary(max_size=10) | st.text(max_size=8).map(str.encode), some_bytes)


@settings(max_examples=200)
@given(some_bytes, some_bytes, st.lists(some_header, max_size=4))
def test_any_bytes_come_back_from_json(key: bytes | None, value: bytes | None, headers: list[Any]) -> None:
    _, row = lines_of(batch_of((key, value), headers=tuple(headers)))
    assert (data_of(row["key"]), data_of(row["payload"])) == (key, value)
    assert [(data_of(one["key"]), data_of(one["value"])) for one in row["headers"]] == headers


@pytest.mark.parametrize(
    "data",
    [
        bytes(range(128)),
        "\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff".encode(),
        b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xff", b"\xe2\x82", b"a\xf0\x9f\x98", b"\xc3",
    ],
)  # fmt: skip
def test_text_is_text_and_the_rest_is_base64(data: bytes) -> None:
    _, row = lines_of(batch_of((data, data + b"x")))
    try:
        expected: Any = data.decode()
    except UnicodeDecodeError:
        expected = {"base64": base64.b64encode(data).decode()}
    assert row["key"] == expected
    assert data_of(row["payload"]) == data + b"x"


@pytest.mark.parametrize("unit", [b"a", b"\xff", "\U0001f600".encode(), b"\n"])
@pytest.mark.parametrize("size", [100_000, 1_500_000, 9_000_000])
def test_a_record_of_any_length_is_one_line(unit: bytes, size: int) -> None:
    value = unit * (size // len(unit))
    _, row, last = lines_of(batch_of((b"k", value), (None, b"end"), headers=((b"h", value[: size // 4]),)))
    assert data_of(row["payload"]) == value
    assert data_of(row["headers"][0]["value"]) == value[: size // 4]
    assert list(row) == [key for key in SCHEMAS["record"]["properties"] if key not in SOMETIMES]
    assert data_of(last["payload"]) == b"end"


def test_lines_are_the_same_wherever_the_buffer_ends() -> None:
    log = batch_of(*[(b"k%d" % i, b"v" * i) for i in range(60)], headers=((b"h", None), (b"\xff", b"x")))
    expected = lines_of(log)
    for room in range(1200, 1500, 7):
        assert lines_of(log, room) == expected


def test_names_that_are_not_utf8_are_base64(tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"\xff-0")
    os.mkdir(path)  # noqa: PTH102 (a name in bytes)
    with open(os.path.join(path, ZERO.encode()), "wb") as file:  # noqa: PTH123 (a name in bytes)
        file.write(batch_of((b"k", b"v")))
    for row in rows(["dump", "--format", "json", "--print-data-log", "."], tmp_path):
        if row["type"] == "batch":
            assert data_of(row["file"]) == b"./\xff-0/" + ZERO.encode()


def test_a_long_name_leaves_room_for_its_line(tmp_path: Path) -> None:
    folder = tmp_path
    for _ in range(10):
        folder /= "d" * 200
    (folder / "t-0").mkdir(parents=True)
    (folder / "t-0" / ZERO).write_bytes(batch_of((b"k", b"v")))
    found = rows(["dump", "--format", "json", "--print-data-log", str(folder / "t-0" / ZERO)], tmp_path)
    assert [row["type"] for row in found] == ["file", "batch", "record", "segment", "summary"]


@pytest.mark.parametrize("option", [["--format", "json"], ["--stats"], ["--decoder", "auto"]], ids=" ".join)
def test_compat_goes_with_nothing_that_kafka_s_tool_does_not_have(option: list[str]) -> None:
    run = run_kdump(["dump", "--compat", "4.3", *option, "--files", "x.log"], NODE)
    assert (run.exit, run.stdout) == (2, b"")


# --- files and segments -------------------------------------------------------------------------------------
def test_a_segment_says_what_it_comes_to() -> None:
    for found in (whole(CLEAN / "node1"), whole(CLEAN / "node1", "--deep-iteration")):
        batches: list[dict[str, Any]] = []
        for row in found:
            if row["type"] == "batch":
                batches.append(row)
            elif row["type"] in ("file", "segment"):
                if row["type"] == "segment" and batches:
                    assert row["batches"] == len(batches)
                    assert row["records"] == sum(batch["count"] for batch in batches)
                    assert row["nextOffset"] == batches[-1]["lastOffset"] + 1
                    assert row["maxTimestamp"] == max(batch["maxTimestamp"] for batch in batches)
                batches = []


def test_the_status_of_a_segment_is_that_of_its_findings(tmp_path: Path) -> None:
    log = bytearray((NODE / "plain-0" / ZERO).read_bytes())
    log[100] ^= 1
    (tmp_path / ZERO).write_bytes(log)
    found = rows(["dump", "--format", "json", ZERO], tmp_path, exits=(3,))
    kinds = [row["type"] for row in found]
    assert kinds[:3] == ["file", "finding", "batch"] or kinds.index("finding") < kinds.index("segment")
    (segment,) = [row for row in found if row["type"] == "segment"]
    assert segment["status"] == "DAMAGED"
    assert found[-1]["exit"] == 3


def test_records_of_compressed_old_messages_are_not_guessed() -> None:
    tree = FIXTURES / "releases" / "0.9.0.1" / "logs"
    shallow, deep = (
        [row for row in whole(tree, *deep) if row["type"] == "segment"] for deep in ([], ["--deep-iteration"])
    )
    assert None in [row["records"] for row in shallow]
    for one, other in zip(shallow, deep, strict=True):
        assert one["records"] in (None, other["records"])


# --- tutorial -------------------------------------------------------------------------------------------------
def pipelines() -> list[tuple[list[str], str, str]]:
    """Return arguments of kdump, options and program of jq of each example of the tutorial that has both."""
    text = plain((MAN / "kdump-tutorial.7").read_text("ascii"))
    found = re.findall(r"(?m)^\$ kdump (.*?) \| jq (-\w+) '(.*)'$", text)
    return [(args.split(" "), options, program) for args, options, program in found]


def test_the_tutorial_has_examples_with_jq() -> None:
    assert len(pipelines()) >= 4


def filtered(options: str, program: str, lines: str) -> list[str]:
    """Return what jq prints, from its library or its command; without both there is no answer, and the test fails."""
    try:
        import jq
    except ModuleNotFoundError:
        done = subprocess.run(["jq", options, program], input=lines, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()
    values = [json.loads(line) for line in lines.splitlines()]
    compiled = jq.compile(program)
    answers = [one for value in ([values] if "s" in options else values) for one in compiled.input_value(value).all()]
    plain = "r" in options
    return [one if plain and isinstance(one, str) else json.dumps(one, separators=(",", ":")) for one in answers]


@pytest.mark.parametrize(("args", "options", "program"), pipelines(), ids=lambda one: str(one)[:60])
def test_the_examples_with_jq_print_what_the_tutorial_shows(
    args: list[str], options: str, program: str, tmp_path: Path
) -> None:
    (tmp_path / "fixtures").symlink_to(FIXTURES)
    answers = filtered(options, program, run_kdump(args, tmp_path).stdout.decode())
    command = f"$ kdump {' '.join(args)} | jq {options} '{program}'\n"
    assert answers
    assert command + "\n".join(answers) + "\n" in plain((MAN / "kdump-tutorial.7").read_text("ascii"))


@pytest.mark.parametrize("kernel", ["render/json/_json.py", "render/text/_text.py"])
def test_a_literal_is_as_long_as_the_kernel_says(kernel: str) -> None:
    """A compiled kernel copies so many bytes as it is told, whatever there is."""
    tree = ast.parse((Path(kdump.__file__).parent / kernel).read_text("utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "wire.put"]
    pairs = [(call.args[2], call.args[3]) for call in calls]
    literals = [(text.value, size) for text, size in pairs if isinstance(text, ast.Constant)]
    assert len(literals) > 40
    for text, size in literals:
        assert isinstance(text, bytes)
        assert ast.literal_eval(size) == len(text), text
