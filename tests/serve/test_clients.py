"""A real client, librdkafka, reads from `kdump serve` what `dump` shows, but for what verify has something against."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.runs import FIXTURES
from tests.support.serving import Read, client, first_open, log_start, read_all, read_group, readable, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.serving import Served

pytest.importorskip("confluent_kafka")
LOG_DIR = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
NOT_SERVED = ("__cluster_metadata-0",)  # no broker serves it as a topic
NO_TEXT = ("raw-0",)  # librdkafka's Python cannot hand on a header whose key is no UTF-8


def partitions_of(log_dir: Path) -> list[Path]:
    found = (one for one in sorted(log_dir.iterdir()) if one.is_dir() and any(one.glob("*.log")))
    return [one for one in found if not one.name.endswith("-delete") and one.name not in NOT_SERVED]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving([LOG_DIR]) as one:
        yield one


@pytest.mark.sampled(4)
@pytest.mark.parametrize("partition", [one.name for one in partitions_of(LOG_DIR) if one.name not in NO_TEXT])
def test_each_record_that_dump_shows_is_read(served: Served, partition: str) -> None:
    directory, (topic, _, number) = LOG_DIR / partition, partition.rpartition("-")
    start = log_start(directory)
    consumer = client(served.address)
    found = read_all(consumer, topic, int(number))
    consumer.close()
    assert found == [one for one in readable(directory) if one[0] >= start]


@pytest.mark.parametrize("partition", ["txn-0", "txnspan-0", "compacttxn-0", "__consumer_offsets-1"])
def test_a_reader_of_committed_data_gets_what_was_committed_up_to_the_first_open_transaction(
    served: Served, partition: str
) -> None:
    directory, (topic, _, number) = LOG_DIR / partition, partition.rpartition("-")
    end = first_open(LOG_DIR).get(partition, 1 << 62)
    consumer = client(served.address, committed=True)
    found = read_all(consumer, topic, int(number))
    consumer.close()
    assert found == [one for one in readable(directory, committed=True) if one[0] < end]


def test_reading_begins_at_the_first_record_of_a_time(served: Served) -> None:
    from confluent_kafka import TopicPartition

    records = readable(LOG_DIR / "plain-0")
    wanted = records[len(records) // 2][1]
    first = next(one for one in records if one[1] >= wanted)
    consumer = client(served.address)
    (place,) = consumer.offsets_for_times([TopicPartition("plain", 0, wanted)], timeout=30)
    found = read_all(consumer, "plain", 0, place.offset)
    consumer.close()
    assert place.offset == first[0]
    assert found == [one for one in records if one[0] >= first[0]]


def test_a_group_shares_out_a_topic_and_its_commits_last_as_long_as_the_process(served: Served) -> None:
    from confluent_kafka import TopicPartition

    consumer = client(served.address, group="readers")
    found = read_group(consumer, "plain")
    consumer.commit(asynchronous=False)
    (kept,) = consumer.committed([TopicPartition("plain", 0)], timeout=30)
    consumer.close()
    again = client(served.address, group="readers")
    rest = read_group(again, "plain")
    again.close()
    assert found == readable(LOG_DIR / "plain-0")
    assert (kept.offset, rest) == (found[-1][0] + 1, [])


NOT_FOR_LIBRDKAFKA = {
    "record-c06-codec-checksum": "Java's clients do not look at that checksum, librdkafka ends there",
    "record-r05-header-text": "the key of a header is no text: its Python cannot hand that on",
}


def small_cases() -> Iterator[Path]:
    """The partitions in fixtures that each show one kind of damage."""
    for case in sorted(FIXTURES.glob("*-[a-z][0-9][0-9]-*")):
        if any(case.glob("*.log")) and case.name not in NOT_FOR_LIBRDKAFKA:
            yield case


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """All of them, each as a partition of a topic of its own."""
    log_dir = tmp_path_factory.mktemp("damaged")
    for case in small_cases():
        (log_dir / f"{case.name}-0").symlink_to(case)
    with serving([*log_dir.iterdir()]) as one:
        yield one


@pytest.mark.sampled(6)
@pytest.mark.parametrize("case", list(small_cases()), ids=lambda case: case.name)
def test_what_is_not_damaged_is_read_and_nothing_else(damaged: Served, case: Path) -> None:
    consumer = client(damaged.address)
    found = read_all(consumer, case.name, 0)
    consumer.close()
    expected = [record for record in readable(case) if record[0] >= log_start(case)]
    assert told_apart(found, expected) == ([], [])


def told_apart(found: list[Read], expected: list[Read]) -> tuple[list[Read], list[Read]]:
    """What should have been read and was not, and the reverse; of offsets that lie in a log twice the first counts."""
    expected = list({one[0]: one for one in reversed(expected)}.values())
    return [one for one in expected if one not in found], [one for one in found if one not in expected]
