"""Payloads that Confluent's serializers wrote are decoded to what was given to these, by what is on the disk alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kdump
from tests.support.runs import run_kdump
from tests.support.schema_logs import (
    entry,
    expected_of,
    log_dir,
    record_of,
    registered,
    registry_records,
    written,
    written_topics,
)
from tests.support.schema_payloads import ORDER, PLACE, SHIPMENT, VISIT
from tests.support.segments import CODECS, Record

Json = dict[str, Any]


def dumped(*args: object, exit_status: int = 0) -> list[Json]:
    """The rows of a dump as JSON."""
    run = run_kdump(["dump", *map(str, args), "--format", "json"], Path.cwd())
    assert run.exit == exit_status, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def records(rows: list[Json]) -> list[Json]:
    return [row for row in rows if row["type"] == "record"]


def codes(rows: list[Json]) -> list[str]:
    return [row["code"] for row in rows if row["type"] == "finding"]


def as_text() -> list[Record]:
    """The registry's log with `.proto` text where the serializers registered descriptors, as Java's do."""
    text = {"shipments-value": SHIPMENT, "reasons-value": SHIPMENT, "spot.proto": PLACE, "visits-value": VISIT}
    made = []
    for one in written()["schemas"]:
        value = {**one["value"], "schema": text.get(one["value"]["subject"], one["value"]["schema"])}
        more = {name: value[name] for name in ("guid", "schemaType", "references")}
        made.append(registered(value["subject"], value["version"], value["id"], value["schema"], **more))
    return made


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("form", ["descriptors", "text"])
def test_what_was_serialized_is_what_is_shown(codec: int, form: str, tmp_path: Path) -> None:
    topics = written_topics()
    data = log_dir(tmp_path, topics, as_text() if form == "text" else None, codec=codec)
    rows = dumped(*(data / f"{topic}-0" for topic in topics), "--schemas", data)
    assert codes(rows) == []
    for topic in topics:
        shown = [row for row in records(rows) if row["file"].startswith(f"{data}/{topic}-0/")]
        for row, payload in zip(shown, expected_of(topic), strict=True):
            side, schema = ("decodedKey", "keySchema") if payload["isKey"] else ("decodedPayload", "schema")
            assert row[side] == payload["expected"], payload["name"]
            assert row[schema]["subject"] == f"{topic}-{'key' if payload['isKey'] else 'value'}"


def test_text_has_the_json_behind_payload(tmp_path: Path) -> None:
    data = log_dir(tmp_path, written_topics())
    run = run_kdump(["dump", str(data / "orders-0"), "--schemas", str(data)], tmp_path)
    assert b'payload: {"id":0,"customer":"customer-0","total":"-0.20","placed":1700000000000,' in run.stdout
    assert b'key: "customer-1"\n' in run.stdout


def test_several_processes_show_the_same(tmp_path: Path) -> None:
    data = log_dir(tmp_path, written_topics())
    one, two = (
        run_kdump(["dump", str(data), "--schemas", str(data), "--format", "json", "-j", jobs], tmp_path)
        for jobs in "12"
    )
    assert one == two


def test_the_library_gives_values(tmp_path: Path) -> None:
    data = log_dir(tmp_path, written_topics())
    log = kdump.Log(data / "every-0")
    (one,) = log.decoded(schemas=data)
    assert one.value == expected_of("every")[0]["expected"]
    assert one.schema is not None
    assert (one.schema.id, one.schema.schema_type) == (5, "AVRO")
    assert one.record.offset == 0
    assert log.findings == ()


def test_what_is_wrong_with_the_log_of_schemas_is_among_the_findings(tmp_path: Path) -> None:
    data = log_dir(tmp_path, written_topics())
    (damaged,) = (data / "_schemas-0").glob("*.log")
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    log = kdump.Log(data / "orders-0")
    found = log.decoded(schemas=data, from_offset=10**6)  # no record is there, and nothing else is found
    assert list(found) == []
    assert "B01" in {one.code.name for one in log.findings}


def test_an_export_has_them_as_columns(tmp_path: Path) -> None:
    data = log_dir(tmp_path / "data", written_topics())
    words = ["export", str(data), "--topic", "shipments", "--to", "out", "--format", "json", "--schemas", str(data)]
    assert run_kdump(words, tmp_path).exit == 0
    (file,) = (tmp_path / "out").glob("topic=*/*/*.json")
    found = [json.loads(line) for line in file.read_text().splitlines()]
    values = [json.loads(row["decodedPayload"]) if isinstance(row["decodedPayload"], str) else row["decodedPayload"]
              for row in found]  # fmt: skip
    assert values == [one["expected"] for one in expected_of("shipments")]


# --- which schema -------------------------------------------------------------------------------------------
def avro(value: int) -> bytes:
    """A long, in a frame of id 7."""
    from tests.support.segments import varint

    return b"\0\0\0\0\x07" + varint(value)


def named(subject: str, field: str, id_: int = 7, version: int = 1) -> Record:
    """A schema with one long."""
    fields = [{"name": field, "type": "long"}]
    return registered(subject, version, id_, json.dumps({"type": "record", "name": "R", "fields": fields}))


def decoded(tmp_path: Path, registry: list[Record], payload: bytes = avro(5), **more: Any) -> tuple[Json, list[str]]:
    """The record of topic t with a payload, and the codes of findings."""
    data = log_dir(tmp_path, {"t": [Record(payload, None, **more)]}, registry)
    rows = dumped(data / "t-0", "--schemas", data)
    return records(rows)[0], codes(rows)


def test_one_id_of_many_subjects_is_first_that_of_the_topic(tmp_path: Path) -> None:
    row, found = decoded(tmp_path, [named("a-value", "x"), named("t-value", "x"), named("z-value", "x")])
    assert (row["schema"]["subject"], found) == ("t-value", [])


def test_a_deleted_schema_still_decodes(tmp_path: Path) -> None:
    soft = entry({"keytype": "DELETE_SUBJECT", "subject": "t-value", "magic": 0}, {"subject": "t-value", "version": 1})
    hard = entry({"keytype": "SCHEMA", "subject": "t-value", "version": 1, "magic": 1}, None)
    row, found = decoded(tmp_path, [named("t-value", "x"), soft, hard])
    assert (row["decodedPayload"], found) == ({"x": 5}, [])


def test_an_id_of_several_contexts_is_that_of_the_topic_s_subject(tmp_path: Path) -> None:
    row, _ = decoded(tmp_path, [named("other-value", "x"), named(":.east:t-value", "y")])
    assert row["decodedPayload"] == {"y": 5}


def test_an_id_with_several_schemas_and_none_of_the_topic_has_no_answer(tmp_path: Path) -> None:
    row, found = decoded(tmp_path, [named("a-value", "x"), named(":.east:b-value", "y")])
    assert (row["decodedPayload"], row["schema"], found) == (None, None, ["R08"])


def test_an_id_that_was_given_again_is_as_of_the_time_of_the_record(tmp_path: Path) -> None:
    log = [named("t-value", "x"), named("u-value", "u", id_=8), named("t-value", "y", version=2)]
    late, _ = decoded(tmp_path / "late", log)
    early, _ = decoded(tmp_path / "early", log, timestamp=-999)  # one ms after the first record of the registry
    assert (early["decodedPayload"], late["decodedPayload"]) == ({"x": 5}, {"y": 5})


def test_a_guid_that_the_log_does_not_say_is_that_of_the_text(tmp_path: Path) -> None:
    import hashlib

    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "x", "type": "long"}]})
    header = (b"__value_schema_id", b"\x01" + hashlib.md5(text.encode()).digest())
    row, found = decoded(tmp_path, [registered("t-value", 1, 7, text)], avro(5)[5:], headers=[header])
    assert (row["decodedPayload"], found) == ({"x": 5}, [])


def test_a_number_is_no_frame(tmp_path: Path) -> None:
    row, found = decoded(tmp_path, [named("t-value", "x")], (5).to_bytes(8, "big"))
    assert (row["schema"], found) == (None, [])


# --- what is not decoded --------------------------------------------------------------------------------------
def test_an_unknown_id_is_r08_and_the_bytes_stay(tmp_path: Path) -> None:
    row, found = decoded(tmp_path, [named("t-value", "x")], b"\0\0\0\0\x09abc")
    assert (row["payload"], row["decodedPayload"], found) == ("\0\0\0\0\tabc", None, ["R08"])


@pytest.mark.parametrize("payload", [avro(5)[:-1], avro(5) + b"\0", avro(5)[:5] + b"\xff" * 11])
def test_bytes_that_do_not_fit_are_r09(payload: bytes, tmp_path: Path) -> None:
    row, found = decoded(tmp_path, [named("t-value", "x")], payload)
    assert (row["decodedPayload"], row["schema"], found) == (None, None, ["R09"])


@pytest.mark.parametrize(
    ("schema", "more"),
    [
        ("{", {}),
        ('{"type":"record","name":"R","fields":[{"name":"a","type":"Other"}]}', {}),
        ("message {", {"schemaType": "PROTOBUF"}),
        ('syntax="proto3"; import "../../etc/passwd"; message M {}', {"schemaType": "PROTOBUF"}),
        ('"long"', {"references": [{"name": "n", "subject": "gone", "version": 1}]}),
        ("[" * 50_000 + "]" * 50_000, {}),
    ],
)
def test_a_schema_that_cannot_be_used_is_r10(schema: str, more: Json, tmp_path: Path) -> None:
    row, found = decoded(tmp_path, [registered("t-value", 1, 7, schema, **more)], avro(0))
    assert (row["decodedPayload"], found) == (None, ["R10"])


def test_records_behind_what_does_not_fit_are_decoded(tmp_path: Path) -> None:
    values = [avro(1), avro(2)[:-1], avro(3)]
    data = log_dir(tmp_path, {"t": [Record(one, None) for one in values]}, [named("t-value", "x")])
    rows = dumped(data / "t-0", "--schemas", data)
    assert [row["decodedPayload"] for row in records(rows)] == [{"x": 1}, None, {"x": 3}]
    assert [row["offset"] for row in rows if row["type"] == "finding"] == [1]


# --- files ----------------------------------------------------------------------------------------------------
def test_a_file_decodes_payloads_with_a_frame_and_without(tmp_path: Path) -> None:
    framed = record_of(expected_of("orders")[1])
    assert framed.value is not None
    data = log_dir(tmp_path / "data", {"orders": [framed, framed._replace(value=framed.value[5:])]}, [])
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    rows = dumped(data / "orders-0", "--value-schema", tmp_path / "order.avsc")
    assert [row["decodedPayload"] for row in records(rows)] == [expected_of("orders")[1]["expected"]] * 2


def test_files_are_named_by_id_or_by_subject_and_need_each_other(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "1.avsc").write_text(json.dumps(ORDER))
    (files / "spot.proto").write_text(PLACE)
    (files / "visits-value.proto").write_text(VISIT)
    data = log_dir(tmp_path / "data", written_topics(), [])
    orders = records(dumped(data / "orders-0", "--schemas", files))
    assert [row["decodedPayload"] is not None for row in orders] == [True] * 4 + [False] * 3
    (visit,) = records(dumped(data / "visits-0", "--schemas", files))
    assert visit["decodedPayload"] == expected_of("visits")[0]["expected"]
    assert visit["schema"] == {"id": None, "subject": "visits-value", "version": None, "schemaType": "PROTOBUF"}


# --- redaction ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("layout", ["text", "json", "table"])
def test_redaction_hides_values_and_keys_of_maps_and_leaves_names_of_fields(layout: str, tmp_path: Path) -> None:
    data = log_dir(tmp_path, written_topics())
    words = ["dump", str(data / "orders-0"), str(data / "clicks-0"), str(data / "visits-0"), "--schemas", str(data)]
    run = run_kdump([*words, "--format", layout, "--redact"], tmp_path)
    assert run.exit == 0
    shown = run.stdout.decode()
    for hidden in ("customer-1", "sku-0", "by hand", "PAID", "-0.20", "1700000000001", "\\u00e9", "Wien", "orders"):
        assert hidden not in shown
    if layout != "table":
        assert '"customer":"tok-' in shown
        assert '"page":"tok-' in shown


def test_a_redacted_export_hides_the_same(tmp_path: Path) -> None:
    data = log_dir(tmp_path / "data", written_topics())
    words = ["export", str(data), "--to", "out", "--format", "json", "--redact", "--schemas", str(data)]
    assert run_kdump([*words, "--topic", "orders"], tmp_path).exit == 0
    (file,) = (tmp_path / "out").glob("topic=*/*/*.json")
    assert "customer-1" not in file.read_text()
    assert "sku-0" not in file.read_text()
    assert "tok-" in file.read_text()


# --- the registry itself --------------------------------------------------------------------------------------
def schemas_of(data: Path, *args: str, exit_status: int = 0) -> list[Json]:
    run = run_kdump(["schemas", str(data), "--format", "json", *args], data)
    assert run.exit == exit_status, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_the_log_tells_when_schemas_were_registered_deleted_and_settings_changed(tmp_path: Path) -> None:
    level = {"keytype": "CONFIG", "subject": "t-value", "magic": 0}
    log = [
        entry({"keytype": "MODE", "subject": None, "magic": 0}, {"mode": "READONLY"}),
        named("t-value", "x"),
        entry(level, {"compatibilityLevel": "FULL"}),
        entry({"keytype": "DELETE_SUBJECT", "subject": "t-value", "magic": 0}, {"subject": "t-value", "version": 1}),
        named("u-value", "x"),
        entry(level, None),
        entry({"keytype": "NOOP", "magic": 0}, None),
    ]
    rows = schemas_of(log_dir(tmp_path, {}, log))
    found = [row for row in rows if row["type"] == "schema"]
    assert [(row["subject"], row["version"], row["id"], row["offset"], row["deleted"]) for row in found] == [
        ("t-value", 1, 7, 1, True),
        ("u-value", 1, 7, 4, False),
    ]
    assert found[0]["deletedOffset"] == 3
    settings = [row for row in rows if row["type"] == "schemaSetting"]
    assert [(row["subject"], row["setting"], row["value"], row["offset"]) for row in settings] == [
        (None, "mode", "READONLY", 0),
        ("t-value", "compatibility", "FULL", 2),
        ("t-value", "compatibility", None, 5),
    ]


def test_compatibility_is_that_of_the_subject_or_of_all(tmp_path: Path) -> None:
    levels = [(None, "NONE"), ("t-value", "FULL")]
    log = [
        entry({"keytype": "CONFIG", "subject": subject, "magic": 0}, {"compatibilityLevel": level})
        for subject, level in levels
    ]
    rows = schemas_of(log_dir(tmp_path, {}, [*log, named("t-value", "x"), named("u-value", "x")]))
    assert [row["compatibility"] for row in rows if row["type"] == "schema"] == ["FULL", "NONE"]


def test_a_record_that_is_none_of_a_registry_is_r07_and_the_next_counts(tmp_path: Path) -> None:
    odd = [Record(b"{", b"{"), Record(b"{}", b'{"keytype":"SCHEMA"}'), Record(None, b'{"keytype":"NEW"}')]
    rows = schemas_of(log_dir(tmp_path, {}, [*odd, named("t-value", "x")]))
    assert codes(rows) == ["R07"] * 3
    assert [row["subject"] for row in rows if row["type"] == "schema"] == ["t-value"]


def test_no_schema_is_exit_10(tmp_path: Path) -> None:
    schemas_of(log_dir(tmp_path, {}, registry_records()), "--subject", "none", exit_status=10)


def test_a_table_for_people(tmp_path: Path) -> None:
    run = run_kdump(["schemas", str(log_dir(tmp_path, {}))], tmp_path)
    lines = run.stdout.decode().splitlines()
    assert lines[0].split()[:4] == ["subject", "version", "id", "type"]
    assert "needs shop.Address version 1" in run.stdout.decode()


def test_without_the_libraries_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kdump.decode.payload.records import Schemas
    from kdump.format.read_limits import ReadLimits
    from kdump.state.schemas import registry_of

    data = log_dir(tmp_path, written_topics())
    schemas = Schemas(registry_of(str(data), ReadLimits(), lambda _: None))
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert schemas.missing_library == "fastavro"
