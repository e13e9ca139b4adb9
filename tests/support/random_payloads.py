"""Random schemas and values, written by fastavro and protobuf and decoded again; and payloads that are nearly right.

    python -m tests.support.random_payloads round-trips --runs 100000 --seed 0
    python -m tests.support.random_payloads mutations --runs 20000 --seed 0

The first demands that each value is decoded to what was written. The second changes bytes of payloads that Confluent's
serializers wrote: no value may come of one that the library itself refuses, none that it reads otherwise, and nothing
may end this process or take more memory than a child may have.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import math
import random
import resource
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from kdump.decode.payload.child import MOST_MEMORY
from kdump.decode.payload.frame import FIRST_MESSAGE, frame_of, message_of
from kdump.decode.payload.process import DecoderProcess, SchemaText
from kdump.rows.json_lines import text_or_bytes
from tests.support.schema_logs import payloads, written

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDS = 50  # of a schema


# --- values ---------------------------------------------------------------------------------------------------
def number(bits: int, dice: random.Random, *, signed: bool = True) -> int:
    """A number that takes any number of bytes, the limits among them."""
    made = dice.choice((0, 1, 2**bits - 1, dice.getrandbits(dice.randint(1, bits))))
    return dice.choice((made >> 1, -(made >> 1) - 1)) if signed else made


def text(dice: random.Random) -> str:
    """A text of any characters."""
    return "".join(
        chr(dice.choice((65, 0, 34, 92, 127, 0xE9, 0x8A9E, 0x1F600, 0x2028))) for _ in range(dice.randrange(9))
    )


def double(dice: random.Random) -> float:
    """A number with a fraction."""
    return dice.choice((0.0, -0.0, 1.5, 1e308, 5e-324, float("inf"), float("-inf"), dice.uniform(-1e9, 1e9)))


_VALUES: dict[str, Callable[[random.Random], Any]] = {
    "null": lambda _: None,
    "boolean": lambda dice: dice.random() < 0.5,
    "int": lambda dice: number(32, dice),
    "long": lambda dice: number(64, dice),
    "float": lambda dice: dice.choice((0.0, 0.5, -1024.25, float("inf"))),
    "double": double,
    "bytes": lambda dice: dice.randbytes(dice.randrange(12)),
    "string": text,
}
_PROTO: dict[str, Callable[[random.Random], Any]] = {
    "int32": lambda dice: number(32, dice),
    "int64": lambda dice: number(64, dice),
    "uint32": lambda dice: number(32, dice, signed=False),
    "uint64": lambda dice: number(64, dice, signed=False),
    "sint64": lambda dice: number(64, dice),
    "fixed64": lambda dice: number(64, dice, signed=False),
    "bool": _VALUES["boolean"],
    "double": double,
    "string": text,
    "bytes": _VALUES["bytes"],
}


# --- Avro -----------------------------------------------------------------------------------------------------
def avro_schemas() -> st.SearchStrategy[Any]:
    """Schemas; a union has one branch beside null, as fastavro guesses which of several a value is of."""
    numbers = iter(range(10**9))

    def name() -> str:
        return f"T{next(numbers)}"

    plain = st.sampled_from(sorted(_VALUES))
    fixed = st.integers(1, 9).map(lambda size: {"type": "fixed", "name": name(), "size": size})
    enum = st.integers(1, 5).map(lambda n: {"type": "enum", "name": name(), "symbols": [f"S{k}" for k in range(n)]})

    def larger(inner: Any) -> Any:
        return (
            inner.map(lambda one: {"type": "array", "items": one})
            | inner.map(lambda one: {"type": "map", "values": one})
            | inner.map(lambda one: one if isinstance(one, list) or one == "null" else ["null", one])
            | st.lists(inner, max_size=4).map(
                lambda some: {
                    "type": "record",
                    "name": name(),
                    "fields": [{"name": f"f{k}", "type": one} for k, one in enumerate(some)],
                }
            )
        )

    return st.recursive(plain | fixed | enum, larger, max_leaves=10)


def avro_value(schema: Any, dice: random.Random) -> Any:
    """A value of a schema."""
    if isinstance(schema, str):
        return _VALUES[schema](dice)
    if isinstance(schema, list):
        return avro_value(dice.choice(schema), dice)
    kind = schema["type"]
    if kind == "fixed":
        return dice.randbytes(schema["size"])
    if kind == "enum":
        return dice.choice(schema["symbols"])
    if kind == "array":
        return [avro_value(schema["items"], dice) for _ in range(dice.randrange(4))]
    if kind == "map":
        return {text(dice): avro_value(schema["values"], dice) for _ in range(dice.randrange(3))}
    return {one["name"]: avro_value(one["type"], dice) for one in schema["fields"]}


def shown(value: Any) -> Any:
    """A value as kdump shows it: bytes as JSON has them, numbers that JSON does not have by name."""
    if isinstance(value, bytes):
        return text_or_bytes(value)
    if isinstance(value, dict):
        return {key: shown(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [shown(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def check_avro(process: DecoderProcess, schema: Any, values: list[Any]) -> None:
    """Demand that values come back."""
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    made = []
    for value in values:
        target = io.BytesIO()
        fastavro.schemaless_writer(target, parsed, value)
        made.append(target.getvalue())
    answers = process.decode(SchemaText("AVRO", json.dumps(schema)), (), made)
    for value, answer, data in zip(values, answers, made, strict=True):
        assert isinstance(answer, bytes), (schema, value, data, answer)
        assert json.loads(answer) == shown(value), (schema, value, data, answer)


# --- Protobuf -------------------------------------------------------------------------------------------------
def proto_schemas() -> st.SearchStrategy[list[tuple[str, str]]]:
    """The fields of a message: label and type."""
    labels = st.sampled_from(["", "optional ", "repeated "])
    return st.lists(st.tuples(labels, st.sampled_from(sorted(_PROTO))), min_size=1, max_size=6)


def check_protobuf(process: DecoderProcess, fields: list[tuple[str, str]], dice: random.Random, count: int) -> None:
    """Demand that messages come back."""
    lines = [f"{label}{kind} f{k} = {k + 1};" for k, (label, kind) in enumerate(fields)]
    schema = 'syntax = "proto3"; message M { ' + " ".join(lines) + " }"
    of = _message_class(schema)
    made, values = [], []
    for _ in range(count):
        value: dict[str, Any] = {}
        for k, (label, kind) in enumerate(fields):
            if label == "repeated ":
                value[f"f{k}"] = [_PROTO[kind](dice) for _ in range(dice.randrange(4))]
            elif label != "optional " or dice.random() < 0.5:
                value[f"f{k}"] = _PROTO[kind](dice)
        made.append(of(**value).SerializeToString())
        values.append(value)
    answers = process.decode(SchemaText("PROTOBUF", schema), FIRST_MESSAGE, made)
    for value, answer in zip(values, answers, strict=True):
        assert isinstance(answer, bytes), (schema, value, answer)
        assert json.loads(answer) == shown(value), (schema, value, answer)


def _message_class(text: str) -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "m.proto").write_text(text)
        assert protoc.main(["protoc", f"-I{directory}", f"--descriptor_set_out={directory}/set", "m.proto"]) == 0
        found = descriptor_pb2.FileDescriptorSet.FromString(Path(directory, "set").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(found.file[0])
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("M"))


def round_trips(runs: int, first: int) -> int:
    """Write and read at least so many records; return how many there were."""
    process, number_of, done = DecoderProcess(), first, 0
    quiet = settings(
        max_examples=max(1, runs // RECORDS), deadline=None, database=None, phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip

    @seed(number_of)
    @quiet
    @given(st.data())
    def each(data: st.DataObject) -> None:
        nonlocal done
        dice = random.Random(data.draw(st.integers(0, 2**64)))
        if data.draw(st.integers(0, 4)):
            schema = data.draw(avro_schemas())
            check_avro(process, schema, [avro_value(schema, dice) for _ in range(RECORDS)])
        else:
            check_protobuf(process, data.draw(proto_schemas()), dice, RECORDS)
        done += RECORDS

    while done < runs:
        each()
        number_of += 1
    process.close()
    return done


# --- mutations ------------------------------------------------------------------------------------------------
def mutated(data: bytes, dice: random.Random) -> bytes:
    """Bytes that are nearly these."""
    made = bytearray(data)
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        at = dice.randrange(len(made) + 1)
        kind = dice.randrange(6)
        if kind == 0 and at < len(made):
            made[at] ^= 1 << dice.randrange(8)
        elif kind == 1 and at < len(made):
            made[at] = dice.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            made[at:at] = bytes(dice.choices(range(256), k=dice.randrange(1, 12)))
        elif kind == 3:
            del made[at : at + dice.randrange(1, 8)]
        elif kind == 4:
            made[at:at] = b"\xff" * dice.randrange(1, 11)
        else:
            made[at:at] = made[at : at + 20] * dice.randrange(1, 4)
    return bytes(made)


def schema_texts() -> dict[int, SchemaText]:
    """The schemas that the serializers registered, by id."""
    by_subject = {one["value"]["subject"]: one["value"] for one in written()["schemas"]}
    found = {}
    for one in written()["schemas"]:
        value = one["value"]
        references = tuple((each["name"], by_subject[each["subject"]]["schema"]) for each in value["references"])
        found[value["id"]] = SchemaText(value["schemaType"], value["schema"], references)
    return found


def reference(schema: SchemaText, indexes: tuple[int, ...], data: bytes) -> Any:
    """What the library itself makes of bytes; raises what it raises. Nothing for what has no reference here."""
    if schema.kind == "AVRO":
        named: dict[str, Any] = {}
        for _, text in schema.references:
            fastavro.parse_schema(_bare(json.loads(text)), named_schemas=named)
        parsed = fastavro.parse_schema(_bare(json.loads(schema.text)), named_schemas=named)
        return fastavro.schemaless_reader(io.BytesIO(data), parsed, None)
    if schema.kind == "JSON":
        return json.loads(data)
    from kdump.decode.payload.protobuf import ProtobufSchema

    found = ProtobufSchema(schema.text, schema.references)
    from google.protobuf import message_factory

    for one in found._descriptors(indexes):
        message_factory.GetMessageClass(one)().ParseFromString(data)
    return None


def _bare(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {name: _bare(one) for name, one in schema.items() if name != "logicalType"}
    return [_bare(one) for one in schema] if isinstance(schema, list) else schema


def mutations(runs: int, first: int) -> tuple[int, int]:
    """Decode so many payloads that are nearly right; return how many gave a value, and how many none."""
    dice, process, schemas = random.Random(first), DecoderProcess(), schema_texts()
    framed = [base64.b64decode(one["data"]) for one in payloads() if not one["headers"]]
    groups: dict[tuple[SchemaText, tuple[int, ...]], list[bytes]] = {}
    none = 0
    for _ in range(runs):
        data = mutated(dice.choice(framed), dice)
        frame = frame_of(data)
        if frame is None or frame.id not in schemas:
            none += 1
            continue
        schema, start = schemas[frame.id], frame.start
        indexes: tuple[int, ...] = ()
        if schema.kind == "PROTOBUF":
            message = message_of(data, start)
            if message is None:
                none += 1
                continue
            indexes, start = message
        groups.setdefault((schema, indexes), []).append(data[start:])
    made = 0
    for (schema, indexes), some in groups.items():
        for data, answer in zip(some, process.decode(schema, indexes, some), strict=True):
            if not isinstance(answer, bytes):
                none += 1
                continue
            made += 1
            value = reference(schema, indexes, data)  # that raises where it refuses
            if schema.kind == "AVRO" and "logicalType" not in schema.text:
                assert json.loads(answer) == shown(value), (schema, data, answer)
    process.close()
    return made, none


def main() -> None:
    """Run one of the two, and say what it came to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("round-trips", "mutations"))
    parser.add_argument("--runs", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    given_ = parser.parse_args()
    begun = time.monotonic()
    if given_.what == "round-trips":
        print(f"{round_trips(given_.runs, given_.seed)} records came back")
    else:
        print("{} gave a value, {} none".format(*mutations(given_.runs, given_.seed)))
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    assert most < MOST_MEMORY + 2**28, most
    print(f"{time.monotonic() - begun:.0f} s, at most {most // 2**20} MiB in a child")


if __name__ == "__main__":
    main()
