"""A `kdump serve` on the loopback, what a real client reads from it, and what `dump` says that it must read."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdump.finding import Code, Trait
from tests.support.runs import run_kdump

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_START = 60  # seconds
_READ = 20.0  # seconds within which a client must meet the end
_QUIET = {"log_level": 0}
Read = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str | None, bytes | None], ...]]
"""Offset, timestamp (ms), key, value and headers of a record; a header's key is None where it is no text."""


@dataclass
class Served:
    """A server that runs."""

    address: str  # as clients take it
    process: subprocess.Popen[bytes]
    errors: Path  # what it says

    def said(self) -> str:
        """Return what it has said on stderr so far."""
        return self.errors.read_text("utf-8")

    def memory(self) -> int:
        """Return its resident memory, bytes."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text("ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def serving(paths: Sequence[object], *options: str) -> Iterator[Served]:
    """Serve files on a free port of the loopback; at the end the server must end by SIGTERM, and have no traceback."""
    with tempfile.NamedTemporaryFile(suffix=".err") as errors:
        command = [sys.executable, "-P", "-m", "kdump", "serve", *map(str, paths), "--listen", "127.0.0.1:0", *options]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, start_new_session=True)
        try:
            yield Served(_address(process, Path(errors.name)), process, Path(errors.name))
        finally:
            process.send_signal(signal.SIGTERM)
            status = process.wait(_START)
            if process.stdout is not None:
                process.stdout.close()
        said = Path(errors.name).read_text("utf-8")
        assert status == -signal.SIGTERM, (status, said)
        assert "Traceback" not in said, said
        assert "a bug" not in said, said


def _address(process: subprocess.Popen[bytes], errors: Path) -> str:
    assert process.stdout is not None
    until, line = time.monotonic() + _START, b""
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, until - time.monotonic()))
        piece = process.stdout.readline() if ready else b""
        if not piece:
            raise AssertionError(f"it does not listen: {errors.read_text('utf-8')}")
        line += piece
    return line.decode().removeprefix("listening on ").partition(": ")[0]


def client(address: str, *, committed: bool = False, group: str = "kdump-test", **settings: Any) -> Any:
    """Return a consumer of librdkafka."""
    from confluent_kafka import Consumer

    level = "read_committed" if committed else "read_uncommitted"
    known = {"bootstrap.servers": address, "group.id": group, "isolation.level": level, "enable.auto.commit": False}
    known |= {"enable.partition.eof": True, "check.crcs": True, "auto.offset.reset": "earliest", **_QUIET}
    return Consumer(known | settings)


def read_all(consumer: Any, topic: str, partition: int, start: int | None = None) -> list[Read]:
    """Return the records of a partition from an offset on, None for the begin, until the client meets the end."""
    from confluent_kafka import OFFSET_BEGINNING, TopicPartition

    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING if start is None else start)])
    return _polled(consumer)


def read_group(consumer: Any, topic: str) -> list[Read]:
    """Return the records of a topic of one partition, by a subscription."""
    consumer.subscribe([topic])
    return _polled(consumer)


def _polled(consumer: Any) -> list[Read]:
    from confluent_kafka import KafkaError

    found: list[Read] = []
    until = time.monotonic() + _READ
    while time.monotonic() < until:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error() is not None:
            if message.error().code() == KafkaError._PARTITION_EOF:
                return found
            raise AssertionError(message.error())
        found.append(_read(message))
    raise AssertionError(f"no end after {len(found)} records")


def _read(message: Any) -> Read:
    from confluent_kafka import TIMESTAMP_NOT_AVAILABLE

    kind, timestamp = message.timestamp()
    try:
        headers = tuple(message.headers() or ())
    except UnicodeDecodeError:
        headers = ((None, None),)
    timestamp = -1 if kind == TIMESTAMP_NOT_AVAILABLE else timestamp
    return message.offset(), timestamp, message.key(), message.value(), headers


def readable(directory: Path, *, committed: bool = False) -> list[Read]:
    """Return the records of a partition that a client must get, by `dump` and its findings, from the log start on.

    Batches with a wrong CRC, and those with an error that a consumer does not get over, are not among them.
    """
    args = ["dump", ".", "--print-data-log", "--format", "json", *(["--committed"] if committed else [])]
    rows = [json.loads(line) for line in run_kdump(args, directory).stdout.splitlines()]
    bad = {
        (one["file"], one["position"])
        for one in rows
        if one["type"] == "finding" and one["severity"] == "error" and _keeps_away(Code[one["code"]])
    }
    return [
        (one["offset"], one["timestamp"], _bytes(one["key"]), _bytes(one["payload"]), _headers(one["headers"]))
        for one in rows
        if one["type"] == "record" and one["control"] is None and (one["file"], one["batchPosition"]) not in bad
    ]


def _keeps_away(code: Code) -> bool:
    return bool({Trait.UNREADABLE, Trait.BAD_CRC, Trait.OUTSIDE_SEGMENT} & code.traits)


def _bytes(value: str | dict[str, str] | None) -> bytes | None:
    if value is None:
        return None
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value.encode()


def _headers(headers: list[dict[str, Any]] | None) -> tuple[tuple[str | None, bytes | None], ...]:
    if headers is None:  # formats before 0.11 have none
        return ()
    if any(isinstance(one["key"], dict) for one in headers):
        return ((None, None),)  # the client has no words for such a key
    return tuple((one["key"], _bytes(one["value"])) for one in headers)


def log_start(directory: Path) -> int:
    """Return the log start offset, by `find-offset earliest`."""
    run = run_kdump(["find-offset", ".", "earliest", "--format", "json"], directory)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    return next(int(one["offset"]) for one in rows if one["type"] == "location")


def first_open(log_dir: Path) -> dict[str, int]:
    """Return by TOPIC-N where the first open transaction of a partition begins, by `transactions`."""
    run = run_kdump(["transactions", ".", "--format", "json"], log_dir)
    found: dict[str, int] = {}
    for line in run.stdout.splitlines():
        row = json.loads(line)
        if row["type"] == "open":
            name = f"{row['topic']}-{row['partition']}"
            found[name] = min(found.get(name, row["firstOffset"]), row["firstOffset"])
    return found
