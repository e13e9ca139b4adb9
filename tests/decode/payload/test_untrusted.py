"""What is hostile ends neither kdump nor the records behind it: schemas, payloads, and decoders that die."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kdump.decode.payload import process as decoder_process
from kdump.decode.payload.child import MOST_MEMORY
from kdump.decode.payload.process import MOST_ENDS, DecoderProcess, SchemaText, Undecoded
from kdump.decode.payload.registry import Registry
from kdump.rows.schemas import AVRO, JSON, PROTOBUF, ReferenceRow, SchemaRow
from tests.support.random_payloads import mutations, round_trips
from tests.support.runs import run_kdump
from tests.support.schema_logs import log_dir, registered
from tests.support.segments import Record, varint

if TYPE_CHECKING:
    from collections.abc import Iterator

SELF = json.dumps({"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]})
NULLS = '{"type":"array","items":"null"}'
MANY = varint(20_000_000) + b"\0"
SECONDS = 60  # on a busy machine; what is judged takes far less than one


@pytest.fixture
def process() -> Iterator[DecoderProcess]:
    made = DecoderProcess()
    yield made
    made.close()


def whys(answers: list[bytes | Undecoded]) -> list[str]:
    return [one.why if isinstance(one, Undecoded) else "" for one in answers]


def test_random_records_come_back() -> None:
    assert round_trips(600, 1) >= 600


def test_payloads_that_are_nearly_right_give_no_wrong_value() -> None:
    made, none = mutations(300, 1)
    assert made
    assert none


def test_a_schema_that_contains_itself_and_200_kb_of_payload(process: DecoderProcess) -> None:
    deep, whole = b"\2" * 200_000, b"\2\0"
    first, second = process.decode(SchemaText(AVRO, SELF), (), [deep, whole])
    assert first == Undecoded("it is nested deeper than 128")
    assert second == b'{"next":{"next":null}}'


def test_twenty_million_nulls_take_neither_memory_nor_time(process: DecoderProcess) -> None:
    begun = time.monotonic()
    (answer,) = process.decode(SchemaText(AVRO, NULLS), (), [MANY])
    assert whys([answer]) == ["it has more than 1000000 items without bytes"]
    assert process._process is not None
    status = Path(f"/proc/{process._process.pid}/status").read_text()
    assert int(status.partition("VmHWM:")[2].split()[0]) * 1024 < MOST_MEMORY
    assert time.monotonic() - begun < SECONDS


def test_both_in_a_log_are_findings_and_the_rest_is_shown(tmp_path: Path) -> None:
    registry = [registered("t-value", 1, 1, SELF), registered("u-value", 1, 2, NULLS)]
    frames = [b"\0\0\0\0\1" + b"\2" * 200_000, b"\0\0\0\0\2" + MANY, b"\0\0\0\0\1\0", b"\0\0\0\0\2\0"]
    data = log_dir(tmp_path, {"t": [Record(one, None) for one in frames]}, registry)
    run = run_kdump(["dump", str(data / "t-0"), "--schemas", str(data), "--format", "json"], tmp_path)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    assert run.exit == 0
    assert [row["decodedPayload"] for row in rows if row["type"] == "record"] == [None, None, {"next": None}, []]
    assert [(row["code"], row["offset"]) for row in rows if row["type"] == "finding"] == [("R09", 0), ("R09", 1)]


def test_what_takes_too_much_memory_is_a_limit_and_the_next_is_decoded(process: DecoderProcess) -> None:
    large = b"[" + b'{"a":0},' * 2_500_000 + b"0]"
    answers = process.decode(SchemaText(JSON, "{}"), (), [b"[1]", large, b"[2]"])
    assert [answers[0], answers[2]] == [b"[1]", b"[2]"]
    assert whys(answers)[1]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (AVRO, '{"type":"array","items":' * 100_000),
        (AVRO, json.dumps({"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]})),
        (AVRO, json.dumps({"type": "fixed", "name": "F", "size": 2**40})),
        (AVRO, '{"type":"enum","name":"E","symbols":[]}'),
        (PROTOBUF, "message M {" * 100_000),
        (PROTOBUF, 'syntax = "proto3"; import "schema.proto"; message M { int32 a = 1; }'),
        (PROTOBUF, 'syntax = "proto3"; import "/etc/passwd"; message M { int32 a = 1; }'),
        (PROTOBUF, 'syntax = "proto3"; message M { repeated int32 a = 999999999999; }'),
        (PROTOBUF, "AAAA"),
        (PROTOBUF, "\0"),
    ],
)
def test_a_hostile_schema_gives_no_value(kind: str, text: str, process: DecoderProcess) -> None:
    for _ in range(2):
        (answer,) = process.decode(SchemaText(kind, text), (0,), [b"\x08\x01\0\0"])
        assert isinstance(answer, Undecoded)
    assert process.decode(SchemaText(AVRO, '"long"'), (), [b"\2"]) == [b"1"]


# --- decoders that die ----------------------------------------------------------------------------------------
DIES = """
import os, sys
sys.path[:] = sys.argv[1:]
from kdump.decode.payload import child
decode = child._json
child._json = lambda data: os.kill(os.getpid(), 11) if data == b'"die"' else decode(data)
child.run()
"""


def test_the_payload_that_ends_the_decoder_is_found_and_the_others_are_decoded(
    process: DecoderProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoder_process, "_START", DIES)
    some = [b"1", b'"die"', b"2", b'"die"', b"3"]
    answers = process.decode(SchemaText(JSON, "{}"), (), some)
    assert [one for one in answers if isinstance(one, bytes)] == [b"1", b"2", b"3"]
    assert whys(answers)[1] == f"its decoder was ended by signal {int(signal.SIGSEGV)}"


def test_a_schema_that_ends_the_decoder_often_is_not_used_again(
    process: DecoderProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoder_process, "_START", DIES)
    monkeypatch.setattr(decoder_process, "MOST_ENDS", 3)
    answers = process.decode(SchemaText(JSON, "{}"), (), [b'"die"'] * 5 + [b"1"])
    assert [isinstance(one, Undecoded) and one.is_schema for one in answers] == [False] * 3 + [True] * 3
    assert MOST_ENDS > 3


def test_a_decoder_that_was_killed_between_questions_is_started_again(process: DecoderProcess) -> None:
    assert process.decode(SchemaText(JSON, "{}"), (), [b"1"]) == [b"1"]
    assert process._process is not None
    os.kill(process._process.pid, signal.SIGKILL)
    assert process.decode(SchemaText(JSON, "{}"), (), [b"2", b"3"]) == [b"2", b"3"]


def test_a_decoder_that_has_died_ends_no_process_that_dies_of_a_closed_pipe(process: DecoderProcess) -> None:
    """As kdump does: `| head` ends it."""
    child = os.fork()
    if not child:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        process.decode(SchemaText(JSON, "{}"), (), [b"1"])
        assert process._process is not None
        os.kill(process._process.pid, signal.SIGKILL)
        process._process.wait()
        os._exit(process.decode(SchemaText(JSON, "{}"), (), [b"2", b"3"]) != [b"2", b"3"])
    assert os.waitpid(child, 0)[1] == 0


def test_json_keeps_its_numbers_and_members_whatever_letters_it_has(process: DecoderProcess) -> None:
    given = '{"n":12345678901234567.89,"s":"\u00fc\U0001f600","e":1E400,"a":1,"a":2,"z":1.10}'
    (made,) = process.decode(SchemaText(JSON, "{}"), (), [given.encode()])
    assert made == given.replace("\u00fc", "\\u00fc").replace("\U0001f600", "\\ud83d\\ude00").encode()


def test_a_decoder_is_of_the_process_that_started_it(process: DecoderProcess) -> None:
    assert process.decode(SchemaText(JSON, "{}"), (), [b"1"]) == [b"1"]
    child = os.fork()
    if not child:
        is_right = process.decode(SchemaText(JSON, "{}"), (), [b"2"]) == [b"2"]
        process.close()
        os._exit(0 if is_right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert process.decode(SchemaText(JSON, "{}"), (), [b"3"]) == [b"3"]


def test_references_of_references_without_end_are_no_schema() -> None:
    def row(number: int) -> SchemaRow:
        needed = (ReferenceRow(f"n{number + 1}", f"s{number + 1}", 1),)
        return SchemaRow(f"s{number}", 1, number, None, "AVRO", needed, False, None, None, number, 0, '"int"')

    rows = [row(number) for number in range(5000, -1, -1)]
    assert Registry(rows).whole(rows[-1]) == "it needs others 100 deep"
