"""`kdump serve` lives through what clients do to it, says what it passes over, and ends as it is told to."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
import uuid
from typing import TYPE_CHECKING

import pytest

from kdump.serve import protocol
from kdump.serve.catalogue import Topic
from tests.support.mutated_requests import (
    LOG_DIR,
    MOST_MEMORY,
    Connection,
    answered,
    attack,
    request,
    slow_clients,
    still_serves,
)
from tests.support.runs import FIXTURES, run_kdump
from tests.support.serving import client, read_all, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.serving import Served

COMMAND = [sys.executable, "-P", "-m", "kdump", "serve"]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving([LOG_DIR]) as one:
        yield one


def files(directory: Path) -> dict[str, tuple[int, int, int]]:
    found = (one for one in directory.rglob("*") if one.is_file())
    return {str(one): (one.stat().st_ino, one.stat().st_mtime_ns, one.stat().st_size) for one in found}


def test_mutated_requests_end_their_connection_at_most(served: Served) -> None:
    before = files(LOG_DIR)
    attack(served, 300, seed=49)
    assert still_serves(served)
    assert served.memory() < MOST_MEMORY
    assert files(LOG_DIR) == before


def test_a_client_is_served_beside_many_that_take_nothing(served: Served) -> None:
    slow = slow_clients(served, 100)
    assert still_serves(served)
    assert served.memory() < MOST_MEMORY
    for one in slow:
        one.close()


def test_what_is_not_answered_is_closed_with_one_line(served: Served) -> None:
    time.sleep(1.1)  # of many connections that are closed in one second not all are told
    connection = Connection(served.address)
    assert connection.ask(request("sasl_handshake", 1)) is None
    assert served.said().count("sasl_handshake is not answered") == 1


def test_a_request_that_is_too_large_is_closed(served: Served) -> None:
    connection = Connection(served.address)
    connection.socket.sendall(b"\x7f\xff\xff\xff")
    assert connection.socket.recv(10) == b""


def test_what_is_advertised_is_what_is_answered(served: Served) -> None:
    connection = Connection(served.address)
    answer = connection.ask(request("api_versions", 0))
    assert answer is not None
    count = int.from_bytes(answer[6:10], "big")
    keys = {int.from_bytes(answer[10 + 6 * n : 12 + 6 * n], "big") for n in range(count)}
    assert keys == {protocol.api(name).key for name, _ in answered()}


def test_api_versions_of_tomorrow_is_answered_in_its_first_version(served: Served) -> None:
    connection = Connection(served.address)
    answer = connection.ask(b"\x00\x12\x00\x63\x00\x00\x00\x09whatever")
    assert answer is not None
    assert answer[:6] == b"\x00\x00\x00\x09\x00\x23"  # UNSUPPORTED_VERSION


def test_who_produces_is_refused(served: Served) -> None:
    from confluent_kafka import KafkaError, Producer

    errors: list[object] = []
    producer = Producer({"bootstrap.servers": served.address, "log_level": 0})
    producer.produce("plain", b"x", on_delivery=lambda error, _: errors.append(error and error.code()))
    producer.flush(30)
    assert errors == [KafkaError.CLUSTER_AUTHORIZATION_FAILED]


def test_damage_is_passed_over_and_said(tmp_path: Path) -> None:
    (tmp_path / "case-0").symlink_to(FIXTURES / "batch-b01-crc-mismatch")
    with serving([tmp_path / "case-0"]) as one:
        consumer = client(one.address)
        found = [record[0] for record in read_all(consumer, "case", 0)]
        consumer.close()
        assert found == [0, 1, 4, 5]
        assert "passes over offsets 2..3 (B01): kdump verify" in one.said()


def test_with_stop_the_log_ends_before_the_damage_and_that_is_an_error(tmp_path: Path) -> None:
    from confluent_kafka import TopicPartition

    (tmp_path / "case-0").symlink_to(FIXTURES / "batch-b01-crc-mismatch")
    with serving([tmp_path / "case-0"], "--on-damage", "stop") as one:
        consumer = client(one.address)
        assert consumer.get_watermark_offsets(TopicPartition("case", 0), timeout=30) == (0, 2)
        consumer.close()
        connection = Connection(one.address)
        partition = {"partition": 0, "fetch_offset": 2, "partition_max_bytes": 1000, "current_leader_epoch": -1}
        answer = connection.ask(request("fetch", 4, topics=[{"topic": "case", "partitions": [partition]}]))
        assert answer is not None
        assert b"case\x00\x00\x00\x01\x00\x00\x00\x00\x00\x02" in answer  # CORRUPT_MESSAGE


def test_at_a_time_a_log_ends_with_what_was_written_by_then() -> None:
    from confluent_kafka import TopicPartition

    consumer_at: dict[str, int] = {}
    run = run_kdump(["dump", "plain-0", "--format", "json"], LOG_DIR).stdout.decode()
    times = [int(line.split('"maxTimestamp":')[1].split(",")[0]) for line in run.splitlines() if '"batch"' in line]
    wanted = sorted(times)[len(times) // 2]
    with serving([LOG_DIR / "plain-0"], "--at", str(wanted)) as one:
        consumer = client(one.address)
        consumer_at["end"] = consumer.get_watermark_offsets(TopicPartition("plain", 0), timeout=30)[1]
        found = read_all(consumer, "plain", 0)
        consumer.close()
    last = max(n for n, time in enumerate(times) if time <= wanted)
    ends = [int(line.split('"lastOffset":')[1].split(",")[0]) for line in run.splitlines() if '"batch"' in line]
    assert consumer_at["end"] == ends[last] + 1
    assert found[-1][0] == ends[last]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(number: signal.Signals) -> None:
    process = subprocess.Popen(
        [*COMMAND, str(LOG_DIR / "plain-0"), "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"listening on 127.0.0.1:")
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (-number, b"kdump: serve has ended: 0 connections, 0 B of records\n")


def test_wrong_use_is_told_before_anything_is_opened() -> None:
    for args, why in (
        (["--listen", "nowhere:x"], "an address is HOST:PORT"),
        (["--listen", "0.0.0.0:9"], "--advertise"),
    ):
        run = run_kdump(["serve", ".", *args], LOG_DIR)
        assert (run.exit, why in run.stderr.decode()) == (2, True)


def test_a_path_that_is_missing_or_has_nothing_ends_with_10(tmp_path: Path) -> None:
    for path in ("missing", "."):
        assert run_kdump(["serve", path], tmp_path).exit == 10
    assert run_kdump(["serve", ".", "--topic", "nowhere"], LOG_DIR).exit == 10
    assert run_kdump(["serve", ".", "--replica", "elsewhere"], LOG_DIR).exit == 10


def test_an_address_that_is_taken_ends_with_5() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        run = run_kdump(["serve", ".", "--listen", f"127.0.0.1:{taken.getsockname()[1]}"], LOG_DIR)
    assert (run.exit, "cannot listen on" in run.stderr.decode()) == (5, True)


def test_what_is_no_topic_of_a_coordinator_is_not_internal() -> None:
    assert not Topic("__heartbeats", uuid.UUID(int=1)).is_internal
    assert Topic("__consumer_offsets", uuid.UUID(int=2)).is_internal
