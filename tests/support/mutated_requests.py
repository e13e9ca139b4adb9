"""Requests of clients, as they are and mutated, sent to a `kdump serve`: it must live, stay small, and serve others.

python -m tests.support.mutated_requests --runs 10000 --seed 0
"""

from __future__ import annotations

import argparse
import io
import random
import socket
import struct
import time
from typing import TYPE_CHECKING, Any

from kio.index import load_request_schema
from kio.serial import entity_writer

from kdump.serve import protocol
from kdump.serve.answers import ApiAnswers
from kdump.serve.options import Address
from tests.support.runs import FIXTURES
from tests.support.serving import Served, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

LOG_DIR = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
MOST_MEMORY = 300 * 1024 * 1024  # bytes, as of every process of kdump
_PARTITIONS = [{"partition": 0, "partition_index": 0, "index": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20,
                "current_leader_epoch": -1, "timestamp": -1, "leader_epoch": 0, "committed_offset": 5,
                "committed_metadata": "", "records": b""}]  # fmt: skip
_TOPICS = [{"name": "plain", "topic": "plain", "partitions": _PARTITIONS, "partition_indexes": [0],
            "partition_data": _PARTITIONS}]  # fmt: skip
_FIELDS: dict[str, Any] = {
    "topics": _TOPICS, "topic_data": _TOPICS, "topic_names": ["plain"], "max_wait": 0, "min_bytes": 0,
    "max_bytes": 1 << 20, "session_epoch": -1, "group_id": "g", "key": "g", "coordinator_keys": ["g"],
    "groups": [{"group_id": "g", "topics": _TOPICS}], "groups_names": ["g"], "member_id": "m",
    "session_timeout": 6000, "rebalance_timeout": 1000, "protocol_type": "consumer", "generation_id": 1,
    "protocols": [{"name": "range", "metadata": b"\0\1"}], "members": [{"member_id": "m"}], "acks": 1,
    "assignments": [{"member_id": "m", "assignment": b""}], "response_partition_limit": 10,
    "resources": [{"resource_type": 2, "resource_name": "plain", "configs": []}],
    "transactions": [{"transactional_id": "t", "topics": [{"name": "plain", "partitions": [0]}]}],
    "creations": [{"resource_name": "r", "principal": "p", "host": "h"}], "filters": [{}],
    "topic_partitions": [{"topic": "plain", "partitions": [0]}], "deletions": [{"name": "u"}],
    "upsertions": [{"name": "v"}], "feature_updates": [{"feature": "f"}],
    "entries": [{"entity": [{"entity_type": "user", "entity_name": "u"}], "ops": []}],
    "markers": [{"topics": [{"name": "plain", "partition_indexes": [0]}]}],
    "v3_and_below_topics": [{"name": "plain", "partitions": [0]}],
}  # fmt: skip
_NOT_SENT = ("join_group", "sync_group")  # whose answer waits for other members


def request(name: str, version: int, correlation: int = 7, **fields: Any) -> bytes:
    """Return a request without its length; what is not named is that of a plain client."""
    of = load_request_schema(protocol.api(name).key, version)
    header: dict[str, Any] = {"request_api_key": protocol.api(name).key, "request_api_version": version}
    header |= {"correlation_id": correlation, "client_id": "test"}
    buffer = io.BytesIO()
    entity_writer(of.__header_schema__)(buffer, protocol._made(of.__header_schema__, header))
    known = _FIELDS | fields
    if name == "describe_groups" or name == "list_groups":
        known = known | {"groups": ["g"]}
    if name in ("offset_fetch",) and version >= 10:
        known = known | {"groups": [{"group_id": "g", "topics": None}]}
    if name == "elect_leaders":
        known = known | {"topic_partitions": [{"topic": "plain", "partitions": [0]}]}
    entity_writer(of)(buffer, protocol._made(of, known))
    return buffer.getvalue()


def answered() -> list[tuple[str, int]]:
    """Return name and version of all requests that are answered."""
    keys = ApiAnswers.versions(_answers())["api_keys"]
    names = protocol.names_by_key()
    return [
        (names[one["api_key"]], version)
        for one in keys
        for version in range(one["min_version"], one["max_version"] + 1)
    ]


def _answers() -> ApiAnswers:
    class _Nothing:
        paths = ()
        options = None
        tell = print

    return ApiAnswers(_Nothing(), Address("127.0.0.1", 1))  # type: ignore[arg-type]


class Connection:
    """A plain connection."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=30)

    def ask(self, data: bytes) -> bytes | None:
        """Send a request; return the answer, None where the connection was closed."""
        try:
            self.socket.sendall(struct.pack(">i", len(data)) + data)
            size = struct.unpack(">i", self._exactly(4))[0]
            return self._exactly(size)
        except (ConnectionError, EOFError):
            return None

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            piece = self.socket.recv(min(1 << 16, size - len(found)))
            if not piece:
                raise EOFError
            found += piece
        return found

    def close(self) -> None:
        """End it."""
        self.socket.close()

    __del__ = close  # a test that is done with it


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return a request with some bytes changed, cut off, doubled, or with a length that lies."""
    body = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(body)) if body else 0
        kind = rng.randrange(5)
        if kind == 0 and body:
            body[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif kind == 1:
            del body[at:]
        elif kind == 2:
            body[at : at + 4] = rng.choice((b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\xff\xff"))
        elif kind == 3:
            body[at:at] = rng.randbytes(rng.randint(1, 40))
        else:
            body += body[at:]
    return bytes(body)


def attack(served: Served, runs: int, seed: int) -> dict[str, int]:
    """Send mutated requests; return how many were answered, and how many closed."""
    rng = random.Random(seed)
    kinds = [one for one in answered() if one[0] not in _NOT_SENT]
    counts = {"answered": 0, "closed": 0, "torn": 0}
    connection = Connection(served.address)
    for number in range(runs):
        data = mutated(request(*rng.choice(kinds)), rng)
        if number % 20 == 0:  # a request that is never whole
            connection.socket.sendall(struct.pack(">i", len(data) + rng.randint(1, 1 << 30)) + data)
            connection.close()
            connection = Connection(served.address)
            counts["torn"] += 1
            continue
        # an answer may wait as long as the request says: what waits is left
        connection.socket.settimeout(2)
        try:
            is_answered = connection.ask(data) is not None
        except TimeoutError:
            is_answered = False
        counts["answered" if is_answered else "closed"] += 1
        if not is_answered:
            connection.close()
            connection = Connection(served.address)
    connection.close()
    return counts


def still_serves(served: Served) -> bool:
    """Whether a plain client gets records."""
    connection = Connection(served.address)
    answer = connection.ask(request("fetch", 11))
    connection.close()
    return answer is not None and len(answer) > 1000


def slow_clients(served: Served, count: int) -> list[Connection]:
    """Connect many clients that ask for records and take none."""
    found = []
    for _ in range(count):
        connection = Connection(served.address)
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        data = request("fetch", 11)
        connection.socket.sendall(struct.pack(">i", len(data)) + data)
        found.append(connection)
    return found


def _plain(_served: Served) -> Iterator[tuple[str, int, bytes | None]]:
    for name, version in answered():
        if name in _NOT_SENT:
            continue
        connection = Connection(_served.address)
        yield name, version, connection.ask(request(name, version))
        connection.close()


def main() -> None:
    """Run it whole."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with serving([LOG_DIR]) as served:
        silent = [(name, version) for name, version, answer in _plain(served) if answer is None]
        print("not answered:", silent)
        before = served.memory()
        began = time.monotonic()
        counts = attack(served, given.runs, given.seed)
        print(
            f"{counts} in {time.monotonic() - began:.0f} s; memory {before >> 20} MiB, then {served.memory() >> 20} MiB"
        )
        slow = slow_clients(served, 500)
        print("serves beside 500 slow clients:", still_serves(served), f"memory {served.memory() >> 20} MiB")
        for one in slow:
            one.close()
        assert still_serves(served)
        assert served.memory() < MOST_MEMORY


if __name__ == "__main__":
    main()
