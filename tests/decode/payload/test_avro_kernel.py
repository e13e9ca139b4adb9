"""The proof that bytes are one value of a schema: compiled and interpreted it says the same, and what it says is so."""

from __future__ import annotations

import base64
import io
import json
import random
from array import array

import fastavro
import pytest

from kdump.decode.payload import _avro
from kdump.decode.payload.avro import AvroSchema
from kdump.decode.payload.unfit import SchemaError, UnfitError
from tests.format.test_kernels import both
from tests.support.random_payloads import avro_value, mutated, schema_texts
from tests.support.schema_logs import payloads
from tests.support.segments import varint

INTS = '{"type":"array","items":"int"}'
ABC = '{"type":"enum","name":"E","symbols":["A","B","C"]}'


def value(schema: str, data: bytes) -> object:
    """What is decoded, or why nothing is."""
    (made,) = AvroSchema(schema, []).decoded(bytearray(data or b"\0"), array("q", [0, len(data)]))
    return str(made) if isinstance(made, UnfitError) else made


@pytest.mark.parametrize(
    ("schema", "data", "made"),
    [
        ('"null"', b"", None),
        ('"boolean"', b"\1", True),
        ('"boolean"', b"\2", "a boolean is neither 0 nor 1"),
        ('"int"', varint(2**31 - 1), 2**31 - 1),
        ('"int"', varint(-(2**31)), -(2**31)),
        ('"int"', varint(2**31), "a number has too many bits"),
        ('"long"', varint(-(2**63)), -(2**63)),
        ('"long"', b"\xff" * 9 + b"\2", "a number has too many bits"),
        ('"long"', b"\xff" * 11, "a number has too many bits"),
        ('"long"', b"\x80", "it ends inside a value"),
        ('"double"', bytes(7), "it ends inside a value"),
        ('"string"', b"\4a", "it ends inside a value"),
        ('"bytes"', b"\1a", "a length is below 0, or beyond the end"),
        (ABC, b"\4", "C"),
        (ABC, b"\1", "an enum has no symbol of that number"),
        (ABC, b"\6", "an enum has no symbol of that number"),
        ('["null","long"]', b"\1\4", "a union has no branch of that number"),
        ('["null","long"]', b"\2\4", 2),
        (INTS, b"\4\2\4\0", [1, 2]),
        (INTS, b"\3\4\2\4\0", [1, 2]),
        (INTS, b"\3\6\2\4\0", "a block has not the size that it says"),
        (INTS, b"\3\x7f\2\4\0", "a length is below 0, or beyond the end"),
        (INTS, varint(-(2**63)) + b"\0", "a length is below 0, or beyond the end"),
        (INTS, b"\4\2\4\0\0", "1 byte behind the value"),
        ('{"type":"array","items":"null"}', varint(1_000_000) + b"\0", [None] * 1_000_000),
        ('{"type":"bytes","logicalType":"decimal","precision":2,"scale":30}', b"\2\x85", "-0." + "0" * 27 + "123"),
    ],
)
def test_a_value_is_there_where_the_bytes_are_one(schema: str, data: bytes, made: object) -> None:
    assert value(schema, data) == made


def test_both_halves_say_the_same() -> None:
    dice, schemas = random.Random(5), schema_texts()
    cases: list[tuple[str, list[str]]] = [(INTS, []), (ABC, []), ('{"type":"map","values":["null","double"]}', [])]
    cases += [(one.text, [text for _, text in one.references]) for one in schemas.values() if one.kind == "AVRO"]
    written = [base64.b64decode(one["data"])[5:] for one in payloads() if not one["headers"]]
    for text, references in cases:
        program = array("q", AvroSchema(text, references)._program)
        for _ in range(150):
            data = bytearray(mutated(dice.choice(written), dice) or b"\0")
            places, ends = array("q", [0, len(data)]), [array("q", [0]), array("q", [0])]
            for kernel, found in zip(both(_avro), ends, strict=True):
                kernel.ends_of_values(program, data, places, 1, found, array("q", [0]))
            assert ends[0] == ends[1], (text, bytes(data))
            assert ends[0][0] <= len(data)


def test_what_is_written_is_proven() -> None:
    schema = {"type": "map", "values": {"type": "array", "items": ["null", "double"]}}
    dice, parsed = random.Random(7), fastavro.parse_schema(schema)
    for _ in range(100):
        target, made = io.BytesIO(), avro_value(schema, dice)
        fastavro.schemaless_writer(target, parsed, made)
        assert value(json.dumps(schema), target.getvalue()) == made


@pytest.mark.parametrize("text", ["", "{", "[]x", '{"type":"record"}', '{"type":"fixed","name":"F","size":-1}', "7"])
def test_what_is_no_schema_is_an_error(text: str) -> None:
    with pytest.raises(SchemaError):
        AvroSchema(text, [])
