#!/usr/bin/env python3
"""Time payloads of Avro, decoded by a registry's schemas, and fastavro alone in turn with them.

    python -m tests.bench.payloads [--records N] [--runs N]

Both take the same payloads from memory. fastavro makes objects of them; kdump finds the schema of each, proves its
bytes, decodes it in the child and has the JSON back. Ends with 1 where that is less than LEAST of the records in a
second.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro

from kdump.compat.dump_log_segments_options import DumpOptions
from kdump.decode.payload.records import SchemaDecoder, Schemas
from kdump.dump.checked import CheckedDump
from kdump.format.read_limits import ReadLimits
from kdump.format.record.chunk import Chunk
from kdump.state.schemas import registry_of
from tests.support.schema_logs import log_dir, registered
from tests.support.segments import Record

if TYPE_CHECKING:
    from collections.abc import Callable

LEAST = 0.5
SCHEMA = {"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "user", "type": "string"}, {"name": "amount", "type": "double"},
    {"name": "items", "type": {"type": "array", "items": {"type": "record", "name": "Item", "fields": [
        {"name": "sku", "type": "string"}, {"name": "count", "type": "int"}]}}},
    {"name": "note", "type": ["null", "string"]},
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["WEB", "SHOP"]}},
]}  # fmt: skip


def order(number: int) -> dict[str, Any]:
    """A value of the schema."""
    return {
        "id": number,
        "user": f"user-{number % 1000}",
        "amount": number / 4,
        "items": [{"sku": f"sku-{k}", "count": k} for k in range(1 + number % 3)],
        "note": None if number % 2 else "by hand",
        "kind": ("WEB", "SHOP")[number % 2],
    }


def best(run: Callable[[], None], runs: int) -> float:
    """Seconds of the fastest run."""
    found = []
    for _ in range(runs):
        begun = time.perf_counter()
        run()
        found.append(time.perf_counter() - begun)
    return min(found)


def main() -> None:
    """Time both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    parsed = fastavro.parse_schema(SCHEMA)
    payloads = []
    for number in range(given.records):
        target = io.BytesIO()
        fastavro.schemaless_writer(target, parsed, order(number))
        payloads.append(target.getvalue())
    with tempfile.TemporaryDirectory() as folder:
        records = [Record(b"\0\0\0\0\7" + one, b"key") for one in payloads]
        data = log_dir(Path(folder), {"t": records}, [registered("t-value", 1, 7, json.dumps(SCHEMA))])
        decoder = SchemaDecoder(Schemas(registry_of(str(data), ReadLimits(), print)))
        decoder.begin("t-0", "t")
        items = CheckedDump(DumpOptions(deep=True, contents=True)).files([str(data / "t-0")])
        chunks = [one for one in items if isinstance(one, Chunk) and one.filled]
        assert sum(one.filled for one in chunks) == given.records

        def ours() -> None:
            for chunk in chunks:
                assert all(both.value is not None for both in decoder.take(chunk))

        def alone() -> None:
            read = fastavro.schemaless_reader
            for one in payloads:
                read(io.BytesIO(one), parsed, None)

        times = [(best(alone, 1), best(ours, 1)) for _ in range(given.runs)]
        decoder.close()
    fast, slow = (min(one) for one in zip(*times, strict=True))
    part = fast / slow
    print(f"fastavro {given.records / fast:,.0f} records a second, kdump {given.records / slow:,.0f}: {part:.2f} of it")
    sys.exit(part < LEAST)


if __name__ == "__main__":
    main()
