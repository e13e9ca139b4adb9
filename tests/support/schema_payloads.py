"""Writes `fixtures/schemas/payloads.json`: what Confluent's own serializers make of values, and what they registered.

    python -m tests.support.schema_payloads fixtures/schemas

Needs confluent-kafka[avro,json,protobuf], which no test does: its serializers write to the registry in memory that it
brings, and what that has is written as the records of a `_schemas` log.
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

TIME = 1_700_000_000_000
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "placed", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID", "SENT"]}},
        {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
            {"name": "sku", "type": "string"}, {"name": "count", "type": "int"}]}}},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}  # fmt: skip
ORDER_2 = {**ORDER, "fields": [*ORDER["fields"], {"name": "channel", "type": "string", "default": "shop"}]}
ADDRESS = {"type": "record", "name": "Address", "namespace": "shop", "fields": [{"name": "city", "type": "string"}]}
CUSTOMER = {"type": "record", "name": "Customer", "namespace": "shop", "fields": [
    {"name": "home", "type": "shop.Address"}, {"name": "work", "type": ["null", "shop.Address"]}]}  # fmt: skip
EVERY = {"type": "record", "name": "Every", "fields": [
    {"name": "nothing", "type": "null"}, {"name": "flag", "type": "boolean"}, {"name": "small", "type": "int"},
    {"name": "large", "type": "long"}, {"name": "single", "type": "float"}, {"name": "double", "type": "double"},
    {"name": "raw", "type": "bytes"}, {"name": "text", "type": "string"},
    {"name": "four", "type": {"type": "fixed", "name": "Four", "size": 4}},
    {"name": "either", "type": ["null", "long", "string", {"type": "array", "items": "double"}]},
    {"name": "nested", "type": {"type": "map", "values": {"type": "array", "items": ["null", "int"]}}},
    {"name": "again", "type": ["null", "Every"]},
]}  # fmt: skip
SHIPMENT = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Shipment {
  int64 id = 1;
  string carrier = 2;
  repeated string parcels = 3;
  optional int32 weight = 4;
  google.protobuf.Timestamp sent = 5;
  enum State { UNKNOWN = 0; MOVING = 1; }
  State state = 6;
  bytes seal = 7;
  oneof to { string shop = 8; Place place = 9; }
  double price = 10;
  uint64 largest = 11;
  sint32 below = 12;
  message Place { string city = 1; }
}
message Return { int64 id = 1; message Reason { string text = 1; } Reason reason = 2; }
"""
PLACE = 'syntax = "proto3";\npackage shop;\nmessage Spot { string city = 1; map<string, int32> counts = 2; }\n'
VISIT = 'syntax = "proto3";\npackage shop;\nimport "spot.proto";\n'
VISIT += "message Visit { Spot spot = 1; repeated Spot more = 2; }\n"
CLICK = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Click", "type": "object", "properties": {
    "page": {"type": "string"}, "at": {"type": "integer"}, "price": {"type": "number"}}}  # fmt: skip


class Cases:
    """Serializes values, and keeps what came of it."""

    def __init__(self) -> None:
        from confluent_kafka.schema_registry import SchemaRegistryClient

        self.client = SchemaRegistryClient.new_client({"url": "mock://fixtures"})
        self.made: list[dict[str, Any]] = []

    def add(self, name: str, topic: str, serializer: Any, given: Any, expected: Any, *, is_key: bool = False) -> None:
        """Serialize a value as the key or the payload of a topic."""
        from confluent_kafka.serialization import MessageField, SerializationContext

        headers: list[Any] = []
        field = MessageField.KEY if is_key else MessageField.VALUE
        data = serializer(given, SerializationContext(topic, field, headers))
        self.made.append({
            "name": name,
            "topic": topic,
            "isKey": is_key,
            "data": _base64(data),
            "headers": [[key, _base64(value)] for key, value in headers],
            "expected": expected,
        })  # fmt: skip


def main(target: Path) -> None:
    """Write the file."""
    cases = Cases()
    _avro(cases)
    _protobuf(cases)
    _json(cases)
    target.mkdir(parents=True, exist_ok=True)
    found = {"made by": "confluent-kafka 2.16.1", "schemas": _registered(cases.client), "payloads": cases.made}
    (target / "payloads.json").write_text(json.dumps(found, indent=1) + "\n")


def order(number: int) -> dict[str, Any]:
    """An order, as its serializer takes it."""
    from datetime import UTC, datetime
    from decimal import Decimal

    return {
        "id": number,
        "customer": f"customer-{number}",
        "total": Decimal(number * 7 - 20) / 100,
        "placed": datetime.fromtimestamp((TIME + number) / 1000, UTC),
        "state": ("OPEN", "PAID", "SENT")[number % 3],
        "lines": [{"sku": f"sku-{k}", "count": k} for k in range(number % 4)],
        "tags": {"é": "ü"} if number % 2 else {},
        "note": None if number % 2 else "by hand",
    }


def shown(number: int) -> dict[str, Any]:
    """The same as kdump shows it."""
    cents = number * 7 - 20
    made = order(number)
    made["total"] = f"{'-' if cents < 0 else ''}{abs(cents) // 100}.{abs(cents) % 100:02}"
    made["placed"] = TIME + number
    return made


def _avro(cases: Cases) -> None:
    from confluent_kafka.schema_registry import Schema, SchemaReference, header_schema_id_serializer
    from confluent_kafka.schema_registry.avro import AvroSerializer

    client = cases.client
    first = AvroSerializer(client, json.dumps(ORDER))
    for number in range(4):
        cases.add("avro", "orders", first, order(number), shown(number))
    second = AvroSerializer(client, json.dumps(ORDER_2))
    cases.add("avro evolved", "orders", second, {**order(5), "channel": "web"}, {**shown(5), "channel": "web"})
    cases.add("avro key", "orders", AvroSerializer(client, '"string"'), "customer-1", "customer-1", is_key=True)
    cases.add("avro long", "numbers", AvroSerializer(client, '"long"'), -(2**63), -(2**63))
    every = AvroSerializer(client, json.dumps(EVERY))
    value = {
        "nothing": None, "flag": True, "small": -(2**31), "large": 2**63 - 1, "single": 0.5, "double": 1e-300,
        "raw": b"\xff\x00", "text": "näïve 語 \U0001f600", "four": b"abcd", "either": [1.5, -2.5],
        "nested": {"a": [None, 1], "b": []}, "again": None,
    }  # fmt: skip
    bytes_shown = {**value, "raw": {"base64": "/wA="}, "four": "abcd"}
    cases.add("avro every type", "every", every, {**value, "again": value}, {**bytes_shown, "again": bytes_shown})
    client.register_schema("shop.Address", Schema(json.dumps(ADDRESS), "AVRO"))
    reference = SchemaReference("shop.Address", "shop.Address", 1)
    customer = AvroSerializer(client, Schema(json.dumps(CUSTOMER), "AVRO", [reference]))
    told = {"home": {"city": "Oslo"}, "work": {"city": "Rome"}}
    cases.add("avro reference", "customers", customer, told, told)
    by_header = AvroSerializer(client, json.dumps(ORDER), conf={"schema.id.serializer": header_schema_id_serializer})
    cases.add("avro by header", "orders", by_header, order(3), shown(3))


def _protobuf(cases: Cases) -> None:
    from confluent_kafka.schema_registry import header_schema_id_serializer
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer

    client = cases.client
    shop = _compiled("shipment.proto", {"shipment.proto": SHIPMENT})
    one = shop["shop.Shipment"](
        id=7, carrier="van", parcels=["a", "b"], weight=0, state=1, seal=b"\xfe", place={"city": "Bonn"}, price=2.5,
        largest=2**64 - 1, below=-5,
    )  # fmt: skip
    one.sent.FromMilliseconds(TIME)
    expected = {
        "id": 7, "carrier": "van", "parcels": ["a", "b"], "weight": 0, "sent": {"seconds": TIME // 1000, "nanos": 0},
        "state": "MOVING", "seal": {"base64": "/g=="}, "place": {"city": "Bonn"}, "price": 2.5, "largest": 2**64 - 1,
        "below": -5,
    }  # fmt: skip
    cases.add("protobuf", "shipments", ProtobufSerializer(shop["shop.Shipment"], client), one, expected)
    empty = {
        "id": 0, "carrier": "", "parcels": [], "state": "UNKNOWN", "seal": "", "price": 0.0, "largest": 0, "below": 0,
    }  # fmt: skip
    nothing = shop["shop.Shipment"]()
    cases.add("protobuf empty", "shipments", ProtobufSerializer(shop["shop.Shipment"], client), nothing, empty)
    back = shop["shop.Return"](id=3, reason={"text": "too small"})
    told = {"id": 3, "reason": {"text": "too small"}}
    cases.add("protobuf second message", "shipments", ProtobufSerializer(shop["shop.Return"], client), back, told)
    reason = shop["shop.Return.Reason"](text="too large")
    inner = ProtobufSerializer(shop["shop.Return.Reason"], client)
    cases.add("protobuf inner message", "reasons", inner, reason, {"text": "too large"})
    by_header = {"schema.id.serializer": header_schema_id_serializer}
    cases.add("protobuf by header", "shipments", ProtobufSerializer(shop["shop.Return"], client, by_header), back, told)
    visits = _compiled("visit.proto", {"visit.proto": VISIT, "spot.proto": PLACE})
    visit = visits["shop.Visit"](spot={"city": "Wien", "counts": {"a": 1}}, more=[{"city": "Graz"}])
    both = {"spot": {"city": "Wien", "counts": {"a": 1}}, "more": [{"city": "Graz", "counts": {}}]}
    cases.add("protobuf reference", "visits", ProtobufSerializer(visits["shop.Visit"], client), visit, both)


def _json(cases: Cases) -> None:
    from confluent_kafka.schema_registry.json_schema import JSONSerializer

    serializer = JSONSerializer(json.dumps(CLICK), cases.client)
    value = {"page": "/säle", "at": 2**53 + 1, "price": 1.5}
    cases.add("json", "clicks", serializer, value, value)


def _compiled(name: str, files: dict[str, str]) -> dict[str, Any]:
    """The classes of the messages of a `.proto`, by name, in a pool of their own."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory() as directory:
        for file, text in files.items():
            (Path(directory) / file).write_text(text)
        target = f"{directory}/set"
        known = str(Path(protoc.__file__).parent / "_proto")
        words = ["protoc", f"-I{directory}", f"-I{known}", "--include_imports", f"--descriptor_set_out={target}", name]
        assert protoc.main(words) == 0
        made = descriptor_pb2.FileDescriptorSet.FromString(Path(target).read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in made.file:
        pool.Add(file)
    found = {}

    def add(one: Any) -> None:
        found[one.full_name] = message_factory.GetMessageClass(one)
        for inner in one.nested_types:
            add(inner)

    for one in pool.FindFileByName(name).message_types_by_name.values():
        add(one)
    return found


def _registered(client: Any) -> list[dict[str, Any]]:
    """What the registry has, as the keys and values of its log."""
    records = []
    for subject in client.get_subjects():
        for version in client.get_versions(subject):
            one = client.get_version(subject, version)
            value = {
                "subject": subject,
                "version": version,
                "id": one.schema_id,
                "guid": str(uuid.UUID(str(one.guid))),
                "schemaType": one.schema.schema_type,
                "references": [
                    {"name": each.name, "subject": each.subject, "version": each.version}
                    for each in one.schema.references or ()
                ],
                "schema": one.schema.schema_str,
                "deleted": False,
            }
            records.append({"keytype": "SCHEMA", "value": value})
    return sorted(records, key=lambda one: (one["value"]["id"], one["value"]["subject"]))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
