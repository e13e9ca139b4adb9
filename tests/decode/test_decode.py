"""The decoders of internal topics against what Kafka's own classes print (fixtures/records/README.md)."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kdump.decode import classes, decoder, plain, records_of, topic_decoder, usual
from kdump.decode import table as tables
from kdump.decode.control import Stopped, control_object, control_text
from kdump.decode.decoded import Decoded, Decoder, Usual
from kdump.decode.java_text import java_double, java_json, java_utf8
from kdump.decode.wire import uvarint
from kdump.format.batch import layout
from kdump.format.batch.walk import CheckedWalk
from kdump.format.record.reader import RecordReader, key_and_value
from kdump.format.source import BytesSource

if TYPE_CHECKING:
    from collections.abc import Iterator

FIXTURES = Path(__file__).parents[2] / "fixtures" / "records"
RELEASES = ("4.3", "4.2", "3.9")
NAMES = ("offsets", "transaction", "metadata", "remote", "share")
KINDS = [(name, release) for release in RELEASES for name in NAMES if (name, release) != ("share", "3.9")]
API = "org.apache.kafka.tools.api."

bytes_or_none = st.none() | st.binary(max_size=60)
calm = settings(max_examples=150)


@cache
def lines(name: str) -> list[dict[str, Any]]:
    with gzip.open(FIXTURES / name, "rt", encoding="ascii") as file:
        return [json.loads(line) for line in file]


def unhex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def text_of(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def cases(release: str) -> Iterator[tuple[str, int, bytes | None, bytes | None, dict[str, Any]]]:
    """Yield decoder, offset, key, value and the release's answer."""
    for line in lines("tool.jsonl.gz"):
        expected = line["4.3"]
        for later in ("4.2", "3.9"):
            if later in line and later >= release:
                expected = line[later]
        if expected is not None:
            yield line["decoder"], line["offset"], unhex(line["key"]), unhex(line["value"]), expected


def answer(shown: Decoded) -> dict[str, Any]:
    if shown.stop is not None:
        assert (shown.key, shown.payload) == (None, None), "Java prints nothing before it has read both"
        return {"stop": shown.stop}
    return {"key": text_of(shown.key), "payload": text_of(shown.payload)}


def control_answer(key: bytes | None, value: bytes | None, release: str) -> dict[str, str]:
    text = control_text(key, value, release)
    return {"stop": text.message} if isinstance(text, Stopped) else {"text": text.decode()}


def made(name: str, release: str) -> Decoder:
    if not name.startswith("class:"):
        return decoder(name, release)
    _, key_class, value_class = name.split(":")
    found = classes(key_class, value_class, release)
    assert not isinstance(found, str)
    return found


def frame_size(name: str, data: bytes) -> int:
    """Return the number of bytes before a message in vectors.jsonl."""
    known = tables.table("4.3")
    framed = {message for kind in ("metadata", "remote") for message in known.records(kind).values()}
    bare = {row["value"] for row in known.control().values() if "value" in row}
    if name in framed:
        at = 0
        for _ in range(3):
            _, at = uvarint(data, at)
        return at
    return 0 if name in bare | {"EndTxnMarker", "ControlRecordTypeSchema"} else 2


def test_every_vector_reads_to_the_json_of_kafka() -> None:
    known = tables.table("4.3")
    for line in lines("vectors.jsonl.gz"):
        data = bytes.fromhex(line.get("value_hex") or line["key_hex"])
        schema = known.schema(line["type"])
        found, end = schema.read(data, frame_size(line["type"], data), line["version"])
        assert (java_json(found).decode(), end) == (line["json"], len(data)), line


def test_vectors_cover_every_version_of_every_message() -> None:
    known = tables.table("4.3")
    rows = json.loads(Path(tables.__file__).with_name("records.json").read_bytes())["messages"]
    newer = {line["type"] for line in lines("vectors-4.4.jsonl.gz")} - {
        line["type"] for line in lines("vectors.jsonl.gz")
    }
    assert newer == {"UnregisterControllerRecord"}
    messages = [known.message(name) for name in rows if name not in newer]
    wanted = {(message.name, at) for message in messages for at in range(message.low, message.high + 1)}
    assert {(line["type"], line["version"]) for line in lines("vectors.jsonl.gz")} == wanted


def test_tool_cases_cover_every_record_type() -> None:
    for name in ("offsets", "transaction", "share"):
        keys = {key[:2] for kind, _, key, _, _ in cases("4.3") if kind == name and key}
        assert {number.to_bytes(2) for number in tables.table("4.3").records(name)} <= keys
    for name in ("metadata", "remote"):
        values = {value[1] for kind, _, _, value, _ in cases("4.3") if kind == name and value and len(value) > 1}
        assert set(tables.table("4.3").records(name)) <= values


@pytest.mark.parametrize("release", RELEASES)
def test_decoders_print_what_the_release_prints(release: str) -> None:
    decoders: dict[str, Decoder] = {}
    count = 0
    for name, offset, key, value, expected in cases(release):
        if name == "control":
            found = control_answer(key, value, release)
        else:
            if name not in decoders:
                decoders[name] = made(name, release)
            found = answer(decoders[name](offset, key, value))
        assert found == expected, (name, offset, key, value)
        count += 1
    assert count > 2500


@pytest.mark.parametrize("release", RELEASES)
def test_objects_say_what_the_text_says(release: str) -> None:
    decoders = {name: decoder(name, release) for name, of in KINDS if of == release}
    for name, offset, key, value, _ in cases(release):
        if name not in decoders:
            continue
        shown = decoders[name](offset, key, value)
        for text, thing in ((shown.key, shown.key_object), (shown.payload, shown.payload_object)):
            assert thing is None or json.loads(json.dumps(thing)) == thing
            if text and text.startswith(b"{"):
                assert json.loads(text) == thing
            elif text and text.startswith((b"Error", b"Unknown", b"<DELETE>")):
                assert thing is None


@pytest.mark.parametrize("release", RELEASES)
def test_control_objects_hold_what_the_text_shows(release: str) -> None:
    for name, _, key, value, _ in cases(release):
        if name != "control":
            continue
        text, thing = control_text(key, value, release), control_object(key, value, release)
        if isinstance(text, Stopped):
            assert thing is None
        elif thing is not None and b"{" in text:
            assert json.loads(text[text.index(b"{") :]) == thing["data"]
        elif thing is not None and b"Marker" in text:
            assert (
                f" endTxnMarker: {thing['type']} coordinatorEpoch: {thing['data']['coordinatorEpoch']}" == text.decode()
            )


@pytest.mark.parametrize(("name", "release"), KINDS)
def test_no_decoder_raises_on_records_cut_at_any_length(name: str, release: str) -> None:
    decode = decoder(name, release)
    some = [case for case in cases(release) if case[0] == name and len(case[3] or b"") < 120][::7]
    assert some
    for _, offset, key, value, _ in some:
        for end in range(len(value or b"")):
            decode(offset, key, (value or b"")[:end])
        for end in range(len(key or b"")):
            decode(offset, (key or b"")[:end], value)


@pytest.mark.parametrize("release", RELEASES)
def test_control_records_cut_at_any_length_end_in_text_or_a_stop(release: str) -> None:
    some = [(key, value) for name, _, key, value, _ in cases(release) if name == "control" and key and value]
    assert some
    for key, value in some:
        for end in range(len(value)):
            assert isinstance(control_text(key, value[:end], release), bytes | Stopped)


@pytest.mark.parametrize(("name", "release"), KINDS)
def test_no_decoder_raises_on_random_bytes(name: str, release: str) -> None:
    decode = decoder(name, release)
    kinds = sorted(tables.table(release).records(name))

    @calm
    @given(st.sampled_from(kinds), bytes_or_none, bytes_or_none, st.integers(0, 5), st.booleans())
    def holds(kind: int, key: bytes | None, value: bytes | None, version: int, framed: bool) -> None:
        if framed and name in ("metadata", "remote"):
            value = bytes([1, kind, version]) + (value or b"")
        elif framed:
            key, value = kind.to_bytes(2) + (key or b""), version.to_bytes(2) + (value or b"")
        shown = decode(3, key, value)
        for text in (shown.key, shown.payload):
            assert text is None or text.decode().encode() == text

    holds()


@pytest.mark.parametrize("release", RELEASES)
def test_no_decoder_raises_on_damaged_records(release: str) -> None:
    whole = [case for case in cases(release) if case[3] and ":" not in case[0] and case[0] != "control"]
    decoders = {name: decoder(name, of) for name, of in KINDS if of == release}

    @calm
    @given(st.sampled_from(whole), st.integers(0, 400), st.binary(max_size=4), st.integers(0, 4))
    def holds(case: Any, at: int, put: bytes, drop: int) -> None:
        name, offset, key, value, _ = case
        at %= len(value)
        decoders[name](offset, key, value[:at] + put + value[at + drop :])

    holds()


@calm
@given(bytes_or_none, bytes_or_none, st.sampled_from(RELEASES))
@example(b"\0\0\0\6", b"\0\0\xff\xff\xff\xff\x0f", "4.3")
def test_control_text_never_raises(key: bytes | None, value: bytes | None, release: str) -> None:
    assert isinstance(control_text(key, value, release), bytes | Stopped)
    control_object(key, value, release)


QUICK = [(name, release) for name, release in KINDS if usual(name, release) is not None]


@cache
def both_ways(name: str, release: str) -> tuple[Usual | None, Decoder]:
    return usual(name, release), decoder(name, release)


def quick_and_slow(name: str, release: str, key: bytes | None, value: bytes | None) -> bool:
    """Hold the quick way to the decoder; return whether it had an answer."""
    texts, decode = both_ways(name, release)
    assert texts is not None
    shown = decode(7, key, value)
    found = texts(key, value)
    assert found is None or (found, None, None) == ((shown.key, shown.payload), shown.stop, shown.warning)
    return found is not None


@pytest.mark.parametrize(("name", "release"), QUICK)
def test_the_quick_way_says_what_the_decoder_says_or_nothing(name: str, release: str) -> None:
    answered = [quick_and_slow(name, release, key, value) for kind, _, key, value, _ in cases(release) if kind == name]
    assert any(answered)


@pytest.mark.parametrize("name", ["offsets", "metadata"])
def test_what_brokers_wrote_is_usual(name: str) -> None:
    read = [quick_and_slow(name, "4.3", *record) for record in written(records_of(name))]
    assert len(read) > 20
    assert sum(read) >= 0.95 * len(read)


def written(topic: str) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Yield key and value of each record that a broker wrote into an internal topic, control records left out."""
    reader = RecordReader(1 << 28)
    for path in sorted((FIXTURES.parent / "kafka-4.3.1" / "clean").glob(f"node*/{topic}-*/*.log")):
        for window in CheckedWalk(
            BytesSource(path.read_bytes()), lambda _: None, next_base=None, max_batch_bytes=1 << 28
        ).windows():
            for chunk in reader.chunks(window):
                for at in range(0, chunk.filled * layout.RECORD_WIDTH, layout.RECORD_WIDTH):
                    row = chunk.rows[at : at + layout.RECORD_WIDTH]
                    if not window.cell(row[layout.R_BATCH], layout.ATTRIBUTES) & layout.CONTROL_FLAG:
                        yield key_and_value(chunk.view, row)


@pytest.mark.parametrize(("name", "release"), QUICK)
def test_the_quick_way_leaves_damage_to_the_decoder(name: str, release: str) -> None:
    whole = [case for case in cases(release) if case[0] == name and case[3]]

    @calm
    @given(st.sampled_from(whole), st.integers(0, 400), st.binary(max_size=3), st.integers(0, 3), st.booleans())
    def holds(case: Any, at: int, put: bytes, drop: int, of_key: bool) -> None:
        _, _, key, value, _ = case
        data = key if of_key and key else value
        at %= len(data) + 1
        changed = data[:at] + put + data[at + drop :]
        quick_and_slow(name, release, *((changed, value) if data is key else (key, changed)))

    holds()


@pytest.mark.parametrize(("name", "release"), QUICK)
def test_the_quick_way_reads_no_byte_past_a_cut(name: str, release: str) -> None:
    some = [case for case in cases(release) if case[0] == name and 0 < len(case[3] or b"") < 120][::5]
    assert some
    for _, _, key, value, _ in some:
        for end in range(len(value or b"")):
            quick_and_slow(name, release, key, (value or b"")[:end])


def test_the_quick_way_ends_where_its_room_ends() -> None:
    key, text = b"\0\3\0\1g", b"\0\1\0\1g\0\1t\0\0\0\0"
    assert quick_and_slow("offsets", "4.3", key, b"\0\0\0\0\0\7\0")
    for size in (32760, 32767):
        commit = b"\0\3" + bytes(12) + size.to_bytes(2) + b"\\" * size + bytes(8)
        assert not quick_and_slow("offsets", "4.3", text, commit), "twice as many characters as there is room for"


def test_every_decoder_has_its_topic() -> None:
    assert [topic_decoder(records_of(name)) for name in NAMES] == list(NAMES)


def test_lengths_are_checked_before_anything_is_made() -> None:
    decode = decoder("metadata", "4.3")
    huge = bytes([1, 3, 0]) + bytes(20) + b"\xff\xff\xff\xff\x07" * 4
    shown = decode(9, None, huge)
    assert shown.payload == b"Error at 9, skipping. Failed to deserialize record with type 3"


def test_trailing_bytes_are_said_where_kafka_is_silent() -> None:
    decode = decoder("offsets", "4.3")
    key, value = b"\0\3\0\1g", b"\0\0\0\0\0\7\0"
    assert decode(0, key, value).warning is None
    assert decode(0, key + b"x", None).warning == "1 byte after the key record"
    assert decode(0, key, value + b"xy").warning == "2 bytes after the value record"
    both = decode(0, key + b"xyz", value + b"x")
    assert both.warning == "3 bytes after the key record; 1 byte after the value record"
    assert both.payload == decode(0, key, value).payload


def test_keys_that_are_remembered_are_shown_like_new_ones() -> None:
    decode = decoder("offsets", "4.3")
    for name in (b"g", b"g" * 600):
        key = b"\0\3" + len(name).to_bytes(2) + name
        assert decode(1, key, None) == decode(1, key, None)
    unknown = [decode(offset, b"\0\x63", None).key for offset in (1, 2)]
    assert unknown == [b"Unknown record type 99 at offset %d, skipping." % offset for offset in (1, 2)]


def test_a_bad_value_hides_a_good_key_of_decoder_classes() -> None:
    decode = made(f"class:{API}StringDecoder:{API}LongDecoder", "4.3")
    assert decode(0, b"good", b"short") == Decoded(None, None, "java.nio.BufferUnderflowException")


def test_default_decoder_shows_hex() -> None:
    decode = made(f"class:{API}DefaultDecoder:{API}DefaultDecoder", "4.3")
    assert decode(0, b"\0k", b"\xff") == Decoded(b"006b", b"ff")


def test_old_class_names_are_known_to_old_releases_only() -> None:
    old = "kafka.serializer.LongDecoder"
    assert made(f"class:{old}:{API}StringDecoder", "3.9")(0, bytes(8), None).key == b"0"
    for release in ("4.2", "4.3"):
        assert isinstance(classes(old, API + "StringDecoder", release), str)
        assert plain.notices(old, API + "StringDecoder", release) == []
    words = "is deprecated. Please use org.apache.kafka.tools.api."
    assert plain.notices(old, "kafka.serializer.StringDecoder", "3.9") == [
        f"kafka.serializer.StringDecoder {words}StringDecoder instead",
        f"kafka.serializer.LongDecoder {words}LongDecoder instead",
    ]
    assert plain.notices(old, "com.example.Nope", "3.9") == []
    assert len(plain.notices("com.example.Nope", old, "3.9")) == 1


def test_unknown_classes_are_named_and_java_s_words_are_there() -> None:
    nope = "com.example.Nope"
    problem = classes(API + "StringDecoder", nope, "4.3")
    assert isinstance(problem, str)
    assert nope in problem
    cause = f"java.lang.ClassNotFoundException: {nope}"
    wrapped = f"java.lang.RuntimeException: Failed to load decoder class\nCaused by: {cause}"
    found = {release: plain.java_failure(API + "StringDecoder", nope, release) for release in RELEASES}
    assert found == {"4.3": wrapped, "4.2": cause, "3.9": cause}
    assert plain.java_failure(API + "StringDecoder", API + "LongDecoder", "4.3") is None


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("class", "java.lang.String"),
        ("interface", "java.util.Map"),
        ("class", "org.apache.kafka.common.serialization.StringDeserializer"),
        ("interface", "org.apache.kafka.common.serialization.Serde"),
    ],
)
def test_a_class_that_is_no_decoder_has_java_s_words(kind: str, name: str) -> None:
    cast = f"java.lang.ClassCastException: {kind} {name}"
    missing = f"java.lang.NoSuchMethodException: {name}.<init>(kafka.utils.VerifiableProperties)"
    found = {release: plain.java_failure(API + "StringDecoder", name, release) for release in ("3.9", "4.2", "4.4")}
    assert found == {"3.9": missing, "4.2": cast, "4.4": cast}


def test_topics_have_their_decoder() -> None:
    topics = {
        "__consumer_offsets": "offsets",
        "__transaction_state": "transaction",
        "__share_group_state": "share",
        "__cluster_metadata": "metadata",
        "__remote_log_metadata": "remote",
    }
    assert {topic: topic_decoder(topic) for topic in topics} == topics
    assert topic_decoder("orders") is None


@pytest.mark.parametrize(("name", "release"), [("share", "3.9"), ("nope", "4.3"), ("offsets", "2.8")])
def test_what_a_release_does_not_have_is_refused(name: str, release: str) -> None:
    with pytest.raises(ValueError, match=r"no decoder|not known"):
        decoder(name, release)


def test_nothing_is_loaded_before_a_decoder_is_made() -> None:
    code = "import sys, kdump.decode; print([name for name in sys.modules if name.startswith('kdump.decode.')])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_a_new_release_is_a_change_of_the_table_only(monkeypatch: pytest.MonkeyPatch) -> None:
    data = json.loads(Path(tables.__file__).with_name("records.json").read_bytes())
    data["releases"].append("9.0")
    data["decoders"]["metadata"]["records"]["99"] = {"9.0": "NewThingRecord"}
    data["messages"]["NewThingRecord"] = {
        "versions": {"9.0": "0-1"},
        "flex": 0,
        "fields": {
            "name": "string",
            "size": "int32 v1+ tag0 =-1",
            "parts": ["[]Part null", {"id": "int8"}],
            "more": "[]Part",
        },
    }
    data["messages"]["TopicRecord"]["fields"]["colour"] = "string null tag5 =null since9.0"
    monkeypatch.setattr(tables, "_data", lambda: data)
    new, old = tables.Table("9.0"), tables.Table("4.3")
    part, size = b"\2\7\0", b"\1\0\4\0\0\0\5"
    body = new.schema("NewThingRecord").read(b"\2x" + part + part + size, 0, 1)[0]
    assert java_json(body) == b'{"name":"x","size":5,"parts":[{"id":7}],"more":[{"id":7}]}'
    assert (new.records("metadata")[99], 99 in old.records("metadata")) == ("NewThingRecord", False)
    topic = b"\2t" + bytes(16) + b"\1\5\2\2r"
    shown = [known.schema("TopicRecord").read(topic, 0, 0)[0].get("colour") for known in (new, old)]
    assert shown == ["r", None]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"plain", "plain"),
        (b"caf\xc3\xa9 \xf0\x9f\x98\x80", "caf\u00e9 \U0001f600"),
        (b"\xed\xa0\x80", "\ufffd"),
        (b"\xed\xa0\x80\xed\xbf\xbf", "\ufffd\ufffd"),
        (b"\xed\xa0", "\ufffd"),
        (b"\xed\xa0x", "\ufffdx"),
        (b"\xed\xc0", "\ufffd\ufffd"),
        (b"\xed", "\ufffd"),
        (b"\xc0\x80", "\ufffd\ufffd"),
        (b"\xe2\x82", "\ufffd"),
        (b"\xe2\x82\xed\xb0\x80", "\ufffd\ufffd"),
        (b"\xf4\x90\x80\x80", "\ufffd" * 4),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
def test_damaged_utf8_is_replaced_as_java_does(data: bytes, expected: str) -> None:
    assert java_utf8(data) == expected.encode()


@calm
@given(st.binary(max_size=40))
def test_java_text_is_always_utf8_and_settled(data: bytes) -> None:
    once = java_utf8(data)
    assert java_utf8(once) == once == once.decode().encode()


@calm
@given(st.text())
def test_valid_text_is_left_alone(text: str) -> None:
    assert java_utf8(text.encode()) == text.encode()
    assert json.loads(java_json(text)) == text


def test_json_escapes_are_jackson_s() -> None:
    text = '"\\/\b\t\n\f\r\x00\x0b\x1f\x7f\x80\u2028\ufeff<&>\\u001f\\\\u000b'
    escaped = r"\"\\/\b\t\n\f\r\u0000\u000B\u001F" + "\x7f\x80\u2028\ufeff<&>" + r"\\u001f\\\\u000b"
    for floats in (True, False):
        assert (
            java_json({text: [text, None, True, -1]}, floats).decode() == f'{{"{escaped}":["{escaped}",null,true,-1]}}'
        )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (100.0, "100.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (-1.5e7, "-1.5E7"),
        (123456789.125, "1.23456789125E8"),
        (0.001, "0.001"),
        (0.0123, "0.0123"),
        (9.9e-4, "9.9E-4"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (5e-324, "4.9E-324"),
        (2e-323, "2.0E-323"),
        (2e22, "2.0E22"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_doubles_are_printed_as_java_does(value: float, expected: str) -> None:
    assert java_double(value) == expected
    quoted = expected if value - value == 0 else f'"{expected}"'
    assert java_json({"value": value}).decode() == f'{{"value":{quoted}}}'


@calm
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_read_back_as_they_were(value: float) -> None:
    assert float(java_double(value)) == value


@pytest.mark.parametrize("release", RELEASES)
def test_the_table_names_only_messages_that_it_has(release: str) -> None:
    known = tables.table(release)
    for name in NAMES:
        for record in known.records(name).values():
            suffixes = ("",) if name in ("metadata", "remote") else ("Key", "Value")
            for suffix in suffixes:
                message = known.message(record + suffix)
                assert message.low <= message.high
    for row in known.control().values():
        assert "value" not in row or known.message(row["value"])
