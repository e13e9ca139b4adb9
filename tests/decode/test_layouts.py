"""Records of Kafka Streams' stores and of MirrorMaker 2: fixed layouts, by name or by topic."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.decode import INTERNAL, LAYOUTS, open_decoder, records_of, topic_decoder
from kdump.decode import table as tables
from kdump.decode.decoded import NULL
from kdump.decode.layouts import NAMES
from tests.support.runs import run_kdump
from tests.support.segments import Record, batch

if TYPE_CHECKING:
    from pathlib import Path

WINDOW = b"user-1" + struct.pack(">qi", 1_700_000_000_000, 0)
SESSION = b"user-1" + struct.pack(">qq", 1_700_000_005_000, 1_700_000_000_000)
# what OffsetSync, Checkpoint and Heartbeat of MirrorMaker 4.3.1 write
WRITTEN = [
    (
        "mm2-offset-syncs.B.internal",
        ("00017400000001", "00000000000000050000000000000006"),
        ({"type": "offset-syncs", "data": {"topic": "t", "partition": 1}}),
        ({"type": "offset-syncs", "data": {"upstreamOffset": 5, "offset": 6}}),
    ),
    (
        "A.checkpoints.internal",
        ("00016700017400000001", "00000000000000000005000000000000000600016d"),
        ({"type": "checkpoints", "data": {"group": "g", "topic": "t", "partition": 1}}),
        ({"type": "checkpoints", "version": 0, "data": {"upstreamOffset": 5, "offset": 6, "metadata": "m"}}),
    ),
    (
        "A.heartbeats",
        ("000141000142", "00000000000000000007"),
        ({"type": "heartbeats", "data": {"sourceClusterAlias": "A", "targetClusterAlias": "B"}}),
        ({"type": "heartbeats", "version": 0, "data": {"timestamp": 7}}),
    ),
]


def log(directory: Path, topic: str, *records: Record) -> None:
    (directory / f"{topic}-0").mkdir()
    (directory / f"{topic}-0" / f"{0:020}.log").write_bytes(batch(0, list(records)))


def records(run: Any) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    return [row for row in rows if row["type"] == "record"]


def test_the_names_of_decoders_have_one_list() -> None:
    assert LAYOUTS == NAMES
    assert set(INTERNAL) == set(tables.topics().values())


@pytest.mark.parametrize(("topic", "written", "key", "value"), WRITTEN, ids=[one[0] for one in WRITTEN])
def test_what_mirrormaker_writes_is_decoded_by_the_name_of_its_topic(
    topic: str, written: tuple[str, str], key: object, value: object, tmp_path: Path
) -> None:
    log(tmp_path, topic, Record(bytes.fromhex(written[1]), key=bytes.fromhex(written[0])))
    run = run_kdump(["dump", "--format", "json", "--print-data-log", f"{topic}-0"], tmp_path)
    (row,) = records(run)
    assert (row["decodedKey"], row["decodedPayload"]) == (key, value)
    assert run.exit == 0


def test_a_topic_of_such_a_name_that_has_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    log(tmp_path, "heartbeats", Record(b'{"is": "alive"}', key=b"host-1"), Record(None, key=None))
    run = run_kdump(["dump", "--format", "json", "--print-data-log", "heartbeats-0"], tmp_path)
    assert [(row["decodedKey"], row["decodedPayload"]) for row in records(run)] == [(None, None), (None, "<DELETE>")]
    assert run.exit == 0
    named = run_kdump(["dump", "--decoder", "heartbeats", "--format", "json", "heartbeats-0"], tmp_path)
    assert "R07" in named.stdout.decode()
    text = run_kdump(["dump", "--decoder", "auto", "heartbeats-0"], tmp_path)
    assert 'key: host-1 payload: {"is": "alive"}' in text.stdout.decode()


@pytest.mark.parametrize(
    ("name", "key", "value", "made_key", "made_value"),
    [
        ("windowed", WINDOW, b"v", {"key": "user-1", "windowStart": 1_700_000_000_000, "sequence": 0}, "v"),
        (
            "windowed-timestamped",
            WINDOW,
            struct.pack(">qq", 8, 3),
            {"key": "user-1", "windowStart": 1_700_000_000_000, "sequence": 0},
            {"timestamp": 8, "value": 3},
        ),
        (
            "session",
            SESSION,
            struct.pack(">q", 3),
            {"key": "user-1", "windowEnd": 1_700_000_005_000, "windowStart": 1_700_000_000_000},
            3,
        ),
        ("timestamped", b"user-1", struct.pack(">qq", 8, 3), "user-1", {"timestamp": 8, "value": 3}),
    ],
)
def test_stores_of_streams_are_decoded_by_name_and_what_is_inside_in_the_form_that_is_asked_for(
    name: str, key: bytes, value: bytes, made_key: Any, made_value: Any, tmp_path: Path
) -> None:
    log(tmp_path, "app-store-changelog", Record(value, key=key), Record(None, key=key))
    form = [] if value == b"v" else ["--value-format", "long"]
    run = run_kdump(["dump", "--decoder", name, *form, "--format", "json", "app-store-changelog-0"], tmp_path)
    first, second = records(run)
    assert (first["decodedKey"]["data"] if isinstance(made_key, dict) else first["decodedKey"]) == made_key
    shown = first["decodedPayload"]
    assert (shown["data"] if isinstance(made_value, dict) else shown) == made_value
    assert second["decodedPayload"] == "<DELETE>"
    hidden = run_kdump(["dump", "--decoder", name, "--format", "json", "--redact", "app-store-changelog-0"], tmp_path)
    assert "user-1" not in hidden.stdout.decode()


@given(st.sampled_from(LAYOUTS), st.none() | st.binary(max_size=60), st.none() | st.binary(max_size=60))
def test_no_bytes_end_a_decoder_or_lose_what_they_are(name: str, key: bytes | None, value: bytes | None) -> None:
    for is_sure in (True, False):
        made = open_decoder(name, is_sure=is_sure)(0, key, value)
        is_left = made.key_object is NULL and made.payload_object is NULL
        assert (made.warning is not None) == (is_sure and is_left and not (key is None and value is None))
        assert (made.key is None) == (key is None)
    assert records_of(name)


def test_layouts_do_not_go_with_the_text_of_kafkas_tool(tmp_path: Path) -> None:
    log(tmp_path, "t", Record(b"v"))
    run = run_kdump(["dump", "--compat", "4.4", "--decoder", "windowed", "t-0"], tmp_path)
    assert run.exit == 2
    assert topic_decoder("heartbeats2") is None


def test_a_search_for_the_key_inside_says_how_many_keys_begin_with_it(tmp_path: Path) -> None:
    log(
        tmp_path,
        "app-store-changelog",
        Record(b"v", key=WINDOW),
        Record(b"v", key=SESSION),
        Record(b"v", key=b"user-12"),
        Record(b"v", key=b"us"),
    )
    for jobs in ("1", "2"):
        run = run_kdump(["dump", "-j", jobs, "--key", "user-1", "app-store-changelog-0"], tmp_path)
        assert run.exit == 10
        assert "3 records have a longer key that begins with user-1: " in run.stderr.decode()
        assert "1 with 12 bytes more (a window of Kafka Streams: --decoder windowed)" in run.stderr.decode()
        assert "1 with 16 bytes more (a session of Kafka Streams: --decoder session)" in run.stderr.decode()
        assert "--key-regex '^user-1' shows them" in run.stderr.decode()
    none = run_kdump(["dump", "--key", "other", "app-store-changelog-0"], tmp_path)
    assert "longer key" not in none.stderr.decode()
    quiet = run_kdump(["dump", "--quiet", "--key", "user-1", "app-store-changelog-0"], tmp_path)
    assert "longer key" not in quiet.stderr.decode()
