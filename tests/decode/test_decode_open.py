"""What JSON shows of records that a schema does not cover: of Kafka 4.4, of newer releases, and of nobody's."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdump.decode import decoder, open_decoder, open_usual
from kdump.decode.control import control_object
from kdump.decode.table import Table, newest, table
from tests.decode.test_decode import frame_size, lines
from tests.render.test_json import batch_of, rows
from tests.support.runs import FIXTURES, run_kdump

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kdump.decode.decoded import Decoded

ZERO = "00000000000000000000.log"
DECODER_OF = {
    "UnregisterControllerRecord": "metadata",
    "FeatureLevelRecord": "metadata",
    "StreamsGroupMetadataValue": "offsets",
}
TOPIC_RECORD = b"\1\2\0" + b"\5orders"[:5] + bytes(16)
TOPIC_ID = "A" * 22


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def tags(*pairs: tuple[int, bytes]) -> bytes:
    return uvarint(len(pairs)) + b"".join(uvarint(tag) + uvarint(len(data)) + data for tag, data in pairs)


def as_json(tag: int, data: bytes) -> dict[str, Any]:
    return {"tag": tag, "base64": b64encode(data).decode()}


def metadata(value: bytes | None) -> Decoded:
    return open_decoder("metadata")(5, None, value)


def without_unknown(thing: Any) -> Any:
    if isinstance(thing, dict):
        return {key: without_unknown(one) for key, one in thing.items() if key != "unknownTaggedFields"}
    return [without_unknown(one) for one in thing] if isinstance(thing, list) else thing


# --- Kafka 4.4 ----------------------------------------------------------------------------------------------
VECTORS = lines("vectors-4.4.jsonl.gz")


def test_vectors_show_all_that_is_new() -> None:
    text = "".join(line["json"] for line in VECTORS)
    for word in (
        "controllerId",
        "storedDescriptionTopologyEpoch",
        "failedDescriptionTopologyEpoch",
        '"deliveryState":3',
    ):
        assert word in text
    assert any("unknown_tags" in line for line in VECTORS)


@pytest.mark.parametrize("release", ["4.4", "4.3"])
def test_new_records_read_to_the_json_of_kafka_4_4(release: str) -> None:
    known = table(newest())
    for line in VECTORS:
        data = bytes.fromhex(line["value_hex"])
        if release == "4.3" and line["type"] == "UnregisterControllerRecord":
            assert 29 not in table("4.3").records("metadata")
            continue
        schema = known.schema(line["type"]) if release == "4.4" else table("4.3").schema(line["type"])
        found, end = schema.read(data, frame_size_44(line["type"], data), line["version"])
        expected = json.loads(line["json"])
        if release == "4.3":
            expected = {key: one for key, one in expected.items() if not key.endswith("DescriptionTopologyEpoch")}
        assert (found, list(found), end) == (expected, list(expected), len(data)), line


def frame_size_44(name: str, data: bytes) -> int:
    return 3 if name == "UnregisterControllerRecord" else frame_size(name, data)


def test_json_keeps_the_unknown_tags_that_kafkas_own_classes_wrote() -> None:
    seen = 0
    for line in VECTORS:
        name = DECODER_OF.get(line["type"])
        if name is None:
            continue
        key = b"\0\x11\0\1g" if name == "offsets" else None
        shown = open_decoder(name)(0, key, bytes.fromhex(line["value_hex"]))
        assert isinstance(shown.payload_object, dict)
        data = shown.payload_object["data"]
        assert without_unknown(data) == json.loads(line["json"])
        assert [one["tag"] for one in data.get("unknownTaggedFields", [])] == line.get("unknown_tags", [])
        inner = any("unknownTaggedFields" in one for one in data.get("lastAssignmentConfigs") or ())
        assert (shown.note is not None) == bool(line.get("unknown_tags") or inner)
        assert shown.warning is None
        seen += shown.note is not None
        quick = open_usual(name)
        assert quick is not None
        assert (quick(key, bytes.fromhex(line["value_hex"])) is None) >= (shown.note is not None)
    assert seen > 10


def test_text_stays_in_the_words_of_4_3() -> None:
    record = b"\1\x1d\0\0\0\0\7\0"
    decoded = decoder("metadata", "4.3")(9, None, record)
    unknown = b"org.apache.kafka.common.errors.UnsupportedVersionException: Unknown metadata id 29"
    assert decoded.payload == b"Error at 9, skipping. " + unknown
    assert metadata(record).payload_object == {
        "type": "UNREGISTER_CONTROLLER_RECORD",
        "version": 0,
        "data": {"controllerId": 7},
    }
    streams = b"\0\0" + struct.pack(">iq", 1, 2) + tags((2, b"\0\0\0\5"), (3, b"\0\0\0\6"))
    shown = decoder("offsets", "4.3")(0, b"\0\x11\0\1g", streams)
    assert shown.payload == b'{"version":"0","data":{"epoch":1,"metadataHash":2}}'


def test_levels_and_states_have_their_names() -> None:
    versions = table("4.4").feature("metadata.version")
    assert [versions[str(level)] for level in (1, 7, 25, 30, 31, 33)] == [
        "3.0-IV1", "3.3-IV3", "4.0-IV3", "4.3-IV0", "4.4-IV0", "4.4-IV2",
    ]  # fmt: skip
    assert sorted(map(int, versions)) == list(range(1, 34))
    assert [Table(release).feature("share.version") for release in ("4.3", "4.4")] == ["0-1", "0-2"]
    assert table("4.4").states("shareDelivery")[3] == "ARCHIVING"


# --- nobody's records ---------------------------------------------------------------------------------------
def test_unknown_tags_stand_in_their_struct() -> None:
    shown = metadata(TOPIC_RECORD + tags((7, b"abc"), (300, b"")))
    assert shown.payload_object == {
        "type": "TOPIC_RECORD",
        "version": 0,
        "data": {"name": "orde", "topicId": TOPIC_ID, "unknownTaggedFields": [as_json(7, b"abc"), as_json(300, b"")]},
    }
    assert (shown.note, shown.warning) == ("unknown tagged fields 7, 300 in TopicRecord", None)
    many = metadata(TOPIC_RECORD + tags(*((tag, b"") for tag in range(40))))
    assert many.note == "unknown tagged fields 0, 1, 2 and 37 more in TopicRecord"


def test_a_newer_version_is_read_as_the_newest_known() -> None:
    shown = metadata(b"\1\2\5" + TOPIC_RECORD[3:] + b"\0")
    data = {"name": "orde", "topicId": TOPIC_ID}
    assert shown.payload_object == {"type": "TOPIC_RECORD", "version": 5, "data": data}
    assert shown.note == "version 5 of TopicRecord is newer than 0, the newest that is known"
    # Structs in it as well, where Kafka's own tool gives up.
    voter = b"\2a\2h\0\1\0\0\0"
    register = b"\1\x1b\x09" + struct.pack(">i", 1) + bytes(16) + b"\0\2" + voter + b"\1\0"
    assert decoder("metadata", "4.3")(0, None, register).payload_object is None
    one = metadata(register).payload_object
    assert isinstance(one, dict)
    assert one["data"]["endPoints"] == [{"name": "a", "host": "h", "port": 1, "securityProtocol": 0}]


def test_an_unknown_metadata_type_is_there_with_its_bytes() -> None:
    shown = metadata(b"\1\x4d\2xyz")
    assert shown.payload_object == {"type": 77, "version": 2, "data": {"base64": b64encode(b"xyz").decode()}}
    assert (shown.note, shown.warning) == ("unknown record type 77", None)
    remote = open_decoder("remote")(0, None, b"\1\x4d\0xyz")
    assert (remote.payload_object, remote.note) == (
        {"type": 77, "version": 0, "data": {"base64": "eHl6"}},
        "unknown record type 77",
    )


def test_an_unknown_key_type_and_value_version_are_there_with_their_bytes() -> None:
    decode = open_decoder("offsets")
    shown = decode(0, b"\0\x2akey", b"\0\3value")
    assert shown.key_object == {"type": "42", "data": {"base64": b64encode(b"key").decode()}}
    assert shown.payload_object == {"version": "3", "data": {"base64": b64encode(b"value").decode()}}
    assert (shown.note, shown.warning) == ("unknown record type 42", None)
    assert decode(0, b"\0\x2akey", None).shown_payload == "<DELETE>"
    known = decode(0, b"\0\1\0\1g\0\1t\0\0\0\7", b"\0\x09value")
    assert known.key_object == {"type": "1", "data": {"group": "g", "topic": "t", "partition": 7}}
    assert known.payload_object == {"version": "9", "data": {"base64": b64encode(b"value").decode()}}
    assert (known.note, known.warning) == ("unknown version 9 of OffsetCommitValue", None)


def test_where_a_payload_breaks_off_it_is_a_warning() -> None:
    for value in (TOPIC_RECORD[:9], TOPIC_RECORD + b"\0more", b"\2\2\0", b"", None):
        shown = metadata(value)
        assert shown.payload_object is None
        assert shown.warning is not None
        assert shown.shown_payload == f"Error at 5, skipping. {shown.warning}"
    shown = open_decoder("share")(5, b"\0\0\2g" + bytes(20), b"\0")
    assert shown.warning is not None


def test_unknown_tags_in_control_records_are_kept() -> None:
    footer = control_object(b"\0\0\0\4", b"\0\0" + tags((3, b"x")))
    assert footer == {"type": "SNAPSHOT_FOOTER", "data": {"version": 0, "unknownTaggedFields": [as_json(3, b"x")]}}
    assert control_object(b"\0\0\0\4", b"\0\0" + tags((3, b"x")), "4.3") == {
        "type": "SNAPSHOT_FOOTER",
        "data": {"version": 0},
    }


@given(st.sampled_from(["offsets", "transaction", "metadata", "remote", "share"]), st.data())
@settings(max_examples=400)
def test_no_bytes_end_it(name: str, data: st.DataObject) -> None:
    line = data.draw(st.sampled_from([*lines("vectors.jsonl.gz"), *VECTORS]))
    value = bytearray(bytes.fromhex(line.get("value_hex") or line["key_hex"]))
    for at in data.draw(st.lists(st.integers(0, max(0, len(value) - 1)), max_size=4)):
        if at < len(value):
            value[at] = data.draw(st.integers(0, 255))
    kind = data.draw(st.integers(0, 30)).to_bytes(2)
    shown = open_decoder(name)(3, kind + b"\0\1g\0\1t" + bytes(30), bytes(value))
    made = json.loads(json.dumps([shown.shown_key, shown.shown_payload], allow_nan=False))
    assert shown.stop is None
    if shown.payload_object is None:
        assert shown.warning is not None or shown.note is not None
    else:
        assert isinstance(made[1], dict)


# --- the limits of Kafka 4.4 --------------------------------------------------------------------------------
def partition_record(replicas: int) -> bytes:
    body = struct.pack(">i", 0) + bytes(16) + uvarint(replicas + 1) + bytes(4 * replicas) + b"\1\1\1"
    return b"\1\3\0" + body + struct.pack(">iii", 0, 0, 0) + b"\0"


ELEMENTS = "Tried to read a collection of size 1000001, which exceeds the maximum allowed size of 1000000."
TAGS = "Tried to read 10001 tagged fields, which exceeds the maximum allowed count of 10000."


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (partition_record(1_000_001), ELEMENTS),
        (TOPIC_RECORD + tags(*((tag, b"") for tag in range(10_001))), TAGS),
    ],
    ids=["elements", "tags"],
)
def test_what_is_over_a_limit_is_not_decoded(value: bytes, why: str) -> None:
    shown = metadata(value)
    assert (shown.shown_payload, shown.warning, shown.note) == (None, why, None)
    bounded = decoder("metadata", "4.3", bounded=True)(5, None, value)
    assert (bounded.payload or b"").startswith(b"Error at 5, skipping. Failed to deserialize record with type ")
    assert (decoder("metadata", "4.3")(5, None, value).payload or b"").startswith(b'{"type":')


def test_a_record_of_many_large_arrays_is_not_decoded() -> None:
    tagged = tags(*((tag, b"") for tag in range(10_000)))
    topics = uvarint(103) + 102 * (b"\1" + b"\1" + struct.pack(">hh", 0, 0) + tagged)
    register = b"\1\x1b\0" + struct.pack(">i", 1) + bytes(17) + topics + b"\1\0"
    assert metadata(register).warning == "It has more than 1010000 elements in all."
    few = b"\1\x1b\0" + struct.pack(">i", 1) + bytes(17) + b"\2" + topics[1:][: 6 + len(tagged)] + b"\1\0"
    shown = metadata(few)
    assert (shown.warning, shown.note) == (
        None,
        "unknown tagged fields 0, 1, 2 and 9997 more in RegisterControllerRecord",
    )


def test_what_is_at_a_limit_is_decoded() -> None:
    tagged = metadata(TOPIC_RECORD + tags(*((tag, b"") for tag in range(10_000))))
    assert isinstance(tagged.payload_object, dict)
    assert len(tagged.payload_object["data"]["unknownTaggedFields"]) == 10_000
    full = metadata(partition_record(1_000_000))
    assert isinstance(full.payload_object, dict)
    assert len(full.payload_object["data"]["replicas"]) == 1_000_000


def topic(tmp_path: Path, name: str, *pairs: tuple[bytes | None, bytes | None]) -> Path:
    folder = tmp_path / name
    folder.mkdir()
    (folder / ZERO).write_bytes(batch_of(*pairs))
    return folder


MOST_MEMORY = 300 * 1024 * 1024


@pytest.mark.parametrize(
    "options", [["--format", "json", "--print-data-log"], ["--cluster-metadata-decoder"]], ids=" ".join
)
def test_a_false_count_takes_no_memory(options: list[str], tmp_path: Path) -> None:
    folder = topic(tmp_path, "__cluster_metadata-0", (None, partition_record(4_000_000)), (None, TOPIC_RECORD + b"\0"))
    code = (
        "import sys; from click.testing import CliRunner; from kdump.cli.main import kdump; "
        "run = CliRunner().invoke(kdump, sys.argv[1:]); "
        "print(run.exit_code, run.stderr.count('exceeds the maximum') + run.stdout.count('exceeds the maximum'), "
        "'orde' in run.stdout, *[line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')])"
    )
    command = [sys.executable, "-c", code, "dump", *options, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    status, told, goes_on, kilobytes = done.stdout.split()[-4:]
    assert (status, told, goes_on) == ("0", "1", "True")
    assert int(kilobytes) * 1024 < MOST_MEMORY


# --- findings -----------------------------------------------------------------------------------------------
def odd_ones() -> Iterator[tuple[bytes | None, str]]:
    yield TOPIC_RECORD + b"\0", ""
    yield TOPIC_RECORD + tags((7, b"abc")), "note"
    yield b"\1\x4d\2xyz", "note"
    yield b"\1\2\5" + TOPIC_RECORD[3:] + b"\0", "note"
    yield TOPIC_RECORD[:9], "warning"
    yield b"\1\x1d\0\0\0\0\7\0", ""


@pytest.mark.parametrize(
    "options",
    [["--format", "json", "--print-data-log"], ["--format", "json", "--cluster-metadata-decoder"]],
    ids=" ".join,
)
def test_each_strange_record_is_one_finding(options: list[str], tmp_path: Path) -> None:
    wanted = [severity for _, severity in odd_ones()]
    topic(tmp_path, "__cluster_metadata-0", *((None, value) for value, _ in odd_ones()))
    found = rows(["dump", *options, "__cluster_metadata-0"], tmp_path)
    told = {row["offset"]: row["severity"] for row in found if row["type"] == "finding"}
    assert {row["code"] for row in found if row["type"] == "finding"} == {"R07"}
    assert told == {offset: severity for offset, severity in enumerate(wanted) if severity}
    assert [row["decodedPayload"] is not None for row in found if row["type"] == "record"] == [True] * len(wanted)
    assert found[-1]["exit"] == 0


def test_text_tells_the_same_findings(tmp_path: Path) -> None:
    topic(tmp_path, "__cluster_metadata-0", *((None, value) for value, _ in odd_ones()))
    run = run_kdump(["dump", "--notes", "--cluster-metadata-decoder", "__cluster_metadata-0"], tmp_path)
    told = [line.split(" ")[0] for line in run.stderr.decode().splitlines() if " R07 " in line]
    assert told == ["note"] * 3 + ["warning"]
    compat = run_kdump(
        ["dump", "--compat", "4.4", "--cluster-metadata-decoder", "--files", f"__cluster_metadata-0/{ZERO}"], tmp_path
    )
    assert compat.stdout == run.stdout
    assert compat.stderr == b""


def test_what_brokers_of_4_4_wrote_is_usual() -> None:
    quick = open_usual("metadata")
    assert quick is not None
    node = FIXTURES / "kafka-4.4.0" / "clean" / "node1" / "__cluster_metadata-0"
    found = rows(["dump", "--format", "json", "--print-data-log", "."], node)
    assert [row for row in found if row["type"] == "finding"] == []
    assert len([row for row in found if row["type"] == "record" and row.get("decodedPayload")]) > 600
