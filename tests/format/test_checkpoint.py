"""The small text files: what is readable is returned, what is not is told as a broker would."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.finding import Code, Finding, Severity
from kdump.format.checkpoint.checkpoint_file import (
    MAX_BYTES,
    MAX_FINDINGS,
    MAX_LINE,
    MAX_SMALL_BYTES,
    Checkpoint,
    EpochEntry,
    JavaComplaint,
    Property,
    TopicPartitionOffset,
    parse_number,
    read_checkpoint,
    uuid_complaint,
)
from kdump.format.kinds import TEXT_KINDS, FileKind
from kdump.format.source import BytesSource

pytestmark = pytest.mark.quick

UUID = "XfRBbyWzTFSyDVD9bjCpAw"
IO = "java.io.IOException"
NUMBER = "java.lang.NumberFormatException"
ARGUMENT = "java.lang.IllegalArgumentException"
RUNTIME = "java.lang.RuntimeException"
NO_NODE = "neither version=1 and node.id nor broker.id is in the file"
QUORUM = '{"leaderId":1,"leaderEpoch":2,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'


def read(kind: FileKind, data: bytes | str) -> tuple[Checkpoint, list[Finding]]:
    findings: list[Finding] = []
    data = data if isinstance(data, bytes) else data.encode()
    checkpoint = read_checkpoint(kind, BytesSource(data, "F"), findings.append)
    return checkpoint, findings


def told(findings: list[Finding]) -> list[tuple[object, ...]]:
    return [(one.position, one.length, one.values["why"], one.values["exception"]) for one in findings]


def pairs(checkpoint: Checkpoint) -> list[tuple[object, ...]]:
    return [tuple(entry) for entry in checkpoint.entries]


@pytest.mark.parametrize(("far", "first"), [(0, "java.nio.charset.MalformedInputException"), (9000, IO)])
def test_bytes_that_are_no_utf8_come_before_all_lines_that_java_decodes_with_them(far: int, first: str) -> None:
    _, findings = read(FileKind.EPOCHS, b"1\n0\n" + b"0 0\n" * (far // 4) + b"@4>o\x9e\x04\n")
    assert next(one.values["exception"] for one in findings) == first
    assert {one.position for one in findings} >= {0, 4 + far // 4 * 4}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_line_end_that_java_knows_is_accepted(end: str) -> None:
    checkpoint, findings = read(FileKind.EPOCHS, end.join(("0", "2", "0 0", "5 40", "")))
    assert findings == []
    assert checkpoint == Checkpoint(FileKind.EPOCHS, 0, (EpochEntry(0, 0), EpochEntry(5, 40)))


@pytest.mark.parametrize("kind", [FileKind.RECOVERY_POINT, FileKind.LOG_START, FileKind.REPLICATION, FileKind.CLEANER])
def test_offset_checkpoints_hold_one_partition_a_line(kind: FileKind) -> None:
    checkpoint, findings = read(kind, "0\n2\na.b-c 0 17\nt 12 -1")
    assert findings == []
    assert checkpoint.entries == (TopicPartitionOffset("a.b-c", 0, 17), TopicPartitionOffset("t", 12, -1))


@pytest.mark.parametrize("data", ["", "0\n", "0\n0\n"])
def test_a_file_without_entries_is_no_damage(data: str) -> None:
    checkpoint, findings = read(FileKind.EPOCHS, data)
    assert (checkpoint.entries, findings) == ((), [])


# Messages of LeaderEpochCheckpointFile.read of 4.3.1 on a file named F, and the bytes that they are about.
@pytest.mark.parametrize(
    ("data", "position", "length", "why", "exception"),
    [
        ("1\n0\n", 0, 1, "Unrecognised version:1, expected version: 0 in checkpoint file at: F", IO),
        ("what is this\n", 0, 12, "Malformed line in checkpoint file [F]: what is this", IO),
        ("0 \n0\n", 0, 2, "Malformed line in checkpoint file [F]: 0 ", IO),
        ("0\nx\n", 2, 1, "Malformed line in checkpoint file [F]: x", IO),
        ("0\n-1\n", 2, 2, "Illegal Capacity: -1", ARGUMENT),
        ("0\n3\n0 0\n", 2, 1, "Expected [3] entries in checkpoint file [F], but found only [1]", IO),
        ("0\n1\n0 0\n1 1\n", 2, 1, "Expected [1] entries in checkpoint file [F], but found only [2]", IO),
        ("0\n1\n 0 0\n", 4, 4, "Malformed line in checkpoint file [F]:  0 0", IO),
        ("0\n1\n   \n", 4, 3, "Malformed line in checkpoint file [F]:    ", IO),
        ("0\n1\n0 0\n\n", 8, 0, "Malformed line in checkpoint file [F]: ", IO),
        ("0\n1\n0\u00a00\n", 4, 4, "Malformed line in checkpoint file [F]: 0\u00a00", IO),
        ("0\n1\na b\n", 4, 3, 'For input string: "a"', NUMBER),
        ("0\n1\n0 9223372036854775808\n", 4, 21, 'For input string: "9223372036854775808"', NUMBER),
        ("0\n1\n0 \x1c0\n", 4, 4, 'For input string: "\x1c0"', NUMBER),
    ],
)
def test_damage_is_told_in_kafkas_words_with_the_bytes_of_the_line(
    data: str, position: int, length: int, why: str, exception: str
) -> None:
    _, findings = read(FileKind.EPOCHS, data)
    assert told(findings) == [(position, length, why, exception)]
    assert findings[0].code is Code.K04
    assert findings[0].file == "F"


def test_what_kafka_takes_for_numbers_is_taken() -> None:
    checkpoint, findings = read(FileKind.EPOCHS, "0\n2\n+1\t\x0b+5  \n\u0663 -007\n")
    assert findings == []
    assert checkpoint.entries == (EpochEntry(1, 5), EpochEntry(3, -7))


def test_a_bad_line_does_not_hide_the_good_ones() -> None:
    checkpoint, findings = read(FileKind.REPLICATION, b"0\n3\na 0 1\n\xff 0 2\nb 0 3\n")
    assert pairs(checkpoint) == [("a", 0, 1), ("b", 0, 3)]
    assert told(findings) == [(10, 5, "the line is not UTF-8", "java.nio.charset.MalformedInputException")]


def test_entries_survive_a_lost_header() -> None:
    checkpoint, findings = read(FileKind.REPLICATION, "a 0 1\nb 0 3\nc 0 4\n")
    assert pairs(checkpoint) == [("a", 0, 1), ("b", 0, 3), ("c", 0, 4)]
    assert [finding.position for finding in findings] == [0, 6]


def test_more_than_a_hundred_bad_lines_are_a_hundred_findings_and_one() -> None:
    _, findings = read(FileKind.EPOCHS, "0\n500\n" + "x\n" * 500)
    assert len(findings) == MAX_FINDINGS + 1
    last = findings[-1]
    assert (last.position, last.length, last.count) == (6 + 200, 799, 400)
    assert "400 more places" in last.message


def test_a_long_bad_line_is_quoted_in_part() -> None:
    _, findings = read(FileKind.EPOCHS, "0\n1\n" + "x" * 1_000_000 + "\n")
    assert findings[0].length == 1_000_000
    assert len(findings[0].message) < 400


@pytest.mark.parametrize("kind", TEXT_KINDS)
def test_a_huge_file_is_told_and_not_read(kind: FileKind) -> None:
    class Huge(BytesSource):
        def __init__(self) -> None:
            super().__init__(b"", "F")
            self.size = 2**40

        def read_at(self, position: int, length: int) -> bytes:
            raise AssertionError

    findings: list[Finding] = []
    assert read_checkpoint(kind, Huge(), findings.append).entries == ()
    assert (findings[0].position, findings[0].length) == (0, 2**40)
    assert findings[0].severity is Severity.ERROR


@pytest.mark.parametrize(("kind", "limit"), [(FileKind.EPOCHS, MAX_BYTES), (FileKind.QUORUM_STATE, MAX_SMALL_BYTES)])
def test_the_limit_of_a_file_is_met_in_words(kind: FileKind, limit: int) -> None:
    _, findings = read(kind, b" " * limit)
    assert "the file has" not in findings[0].message
    _, findings = read(kind, b" " * (limit + 1))
    assert told(findings) == [
        (0, limit + 1, f"the file has {limit + 1} bytes and was not read: the limit is {limit}", None)
    ]


def test_a_line_over_the_limit_is_told_and_not_decoded() -> None:
    topic = "t" * (MAX_LINE - 4)
    checkpoint, findings = read(FileKind.CLEANER, f"0\n2\n{topic} 0 5\n{topic}t 0 5\n")
    assert pairs(checkpoint) == [(topic, 0, 5)]
    why = f"the line has {MAX_LINE + 1} bytes and was not read: the limit is {MAX_LINE}"
    assert told(findings) == [(4 + MAX_LINE + 1, MAX_LINE + 1, why, None)]


def partitions(count: int) -> str:
    return f"0\n{count}\n" + "".join(f"a-topic-of-common-length-{n:05} 0 {10**9 + n}\n" for n in range(count))


def test_a_file_of_100_000_partitions_is_read() -> None:
    checkpoint, findings = read(FileKind.RECOVERY_POINT, partitions(100_000))
    assert (len(checkpoint.entries), findings) == (100_000, [])
    assert checkpoint.entries[-1] == TopicPartitionOffset("a-topic-of-common-length-99999", 0, 10**9 + 99_999)


def test_entries_take_little_more_memory_than_their_text() -> None:
    text = partitions(10_000)
    tracemalloc.start()
    try:
        checkpoint, _ = read(FileKind.RECOVERY_POINT, text)
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < peak < 4 * len(text)
    assert len(checkpoint.entries) == 10_000


def test_entries_are_a_sequence() -> None:
    entries = read(FileKind.EPOCHS, "0\n3\n0 0\n5 40\nx\n7 50")[0].entries
    expected = (EpochEntry(0, 0), EpochEntry(5, 40), EpochEntry(7, 50))
    assert entries == expected
    assert read(FileKind.EPOCHS, "0\n2\n0 0\n5 40")[0].entries != expected
    assert hash(entries) == hash(expected)
    assert entries[1:] == expected[1:]
    assert tuple(reversed(entries)) == expected[::-1]


def test_a_kind_that_is_no_text_file_is_wrong_use() -> None:
    with pytest.raises(ValueError, match="LOG"):
        read(FileKind.LOG, "")


def test_partition_metadata_is_a_version_and_a_topic_id() -> None:
    checkpoint, findings = read(FileKind.PARTITION_METADATA, f"version: 0\ntopic_id: {UUID}")
    assert findings == []
    assert checkpoint.version == 0
    assert checkpoint.entries == (Property("version", "0"), Property("topic_id", UUID))


# Of PartitionMetadataFile.read of 4.3.1; a NullPointerException has no words worth repeating.
@pytest.mark.parametrize(
    ("data", "position", "length", "why", "exception"),
    [
        ("", 0, 0, "the file is empty", "java.lang.NullPointerException"),
        ("version: 0\n", 11, 0, "the line of the topic id is missing", "java.lang.NullPointerException"),
        (
            f"version: -1\ntopic_id: {UUID}",
            0,
            11,
            "Unrecognized version of partition metadata file (F): -1",
            IO,
        ),
        (
            f"version 0\ntopic_id: {UUID}",
            0,
            9,
            "Malformed line in partition metadata file [F]: version 0",
            IO,
        ),
        (
            f"version: x\ntopic_id: {UUID}",
            0,
            10,
            "Malformed line in partition metadata file [F]: version: x",
            IO,
        ),
        (
            "version: 0\ntopic_id: abc",
            11,
            13,
            (
                "Input string `abc` decoded as 2 bytes, which is not equal to the expected 16 bytes of a "
                "base64-encoded UUID"
            ),
            ARGUMENT,
        ),
        (
            "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
            11,
            32,
            "Invalid topic ID in partition metadata file (F)",
            IO,
        ),
    ],
)
def test_damaged_partition_metadata_is_told_in_kafkas_words(
    data: str, position: int, length: int, why: str, exception: str
) -> None:
    _, findings = read(FileKind.PARTITION_METADATA, data)
    assert told(findings) == [(position, length, why, exception)]
    assert findings[0].code is Code.K05


# Of Uuid.fromString of 4.3.1 on Java 17.
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (UUID, None),
        (f"{UUID}==", None),
        (UUID[:21] + "_", None),
        (f"{UUID}=", "Input byte array has wrong 4-byte ending unit"),
        (UUID[:21], "Last unit does not have enough valid bits"),
        ("A", "Input byte[] should at least have 2 bytes for base64 bytes"),
        ("a." + UUID[2:], "Illegal base64 character 2e"),
        ("a\u00e9" + UUID[2:], "Illegal base64 character -17"),
        (UUID * 2, f"Input string with prefix `{UUID}Xf` is too long to be decoded as a base64 UUID"),
    ],
)
def test_a_uuid_is_judged_as_in_kafka(text: str, why: str | None) -> None:
    assert uuid_complaint(text) == why


@pytest.mark.parametrize(
    ("text", "bits", "number"),
    [
        ("+5", 32, 5),
        ("-0012", 64, -12),
        ("\uff11\uff12", 32, 12),
        ("2147483648", 32, None),
        ("-2147483648", 32, -(2**31)),
        ("0" * 400 + "7", 64, 7),
        ("1" + "0" * 400, 64, None),
        ("9223372036854775807", 64, 2**63 - 1),
        ("", 64, None),
        ("-", 64, None),
        ("1_0", 64, None),
        (" 1", 64, None),
        ("\U0001d7cf", 64, None),
    ],
)
def test_numbers_are_those_of_java(text: str, bits: int, number: int | None) -> None:
    found = parse_number(text, bits)
    assert (None if isinstance(found, JavaComplaint) else found) == number


def test_meta_properties_are_properties() -> None:
    text = f"#\n#Sat Nov 21\nnode.id=1\ndirectory.id={UUID}\nversion=1\ncluster.id=abc\n"
    checkpoint, findings = read(FileKind.META_PROPERTIES, text)
    assert findings == []
    assert checkpoint.version == 1
    assert pairs(checkpoint) == [
        ("node.id", "1"),
        ("directory.id", UUID),
        ("version", "1"),
        ("cluster.id", "abc"),
    ]


# As java.util.Properties.load of Java 17 reads them.
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a\\:b\\=c:d=e", [("a:b=c", "d=e")]),
        (b"a b", [("a", "b")]),
        (b"a  =  b ", [("a", "b ")]),
        (b"a", [("a", "")]),
        (b"=x", [("", "x")]),
        (b" \t\fa=b", [("a", "b")]),
        (b"!no\n#a=b\nc=d", [("c", "d")]),
        (b"a=b\\\n   c\\\r\n\td", [("a", "bcd")]),
        (b"a=b\\\\\nc=d", [("a", "b\\"), ("c", "d")]),
        (b"a=\\u0041\\t\\q\\ b", [("a", "A\tq b")]),
        (b"a=\\uD83D\\uDE00", [("a", "\U0001f600")]),
        (b"a=\xe9", [("a", "\u00e9")]),
        (b"a=b\\\n#c", [("a", "b#c")]),
        (b"a=1\na=2", [("a", "1"), ("a", "2")]),
        (b"a=b\\", [("a", "b")]),
    ],
)
def test_properties_are_read_as_java_reads_them(data: bytes, expected: list[tuple[str, str]]) -> None:
    checkpoint, findings = read(FileKind.META_PROPERTIES, b"broker.id=1\n" + data)  # without it no node is named
    assert (pairs(checkpoint), findings) == ([("broker.id", "1"), *expected], [])


# Of MetaProperties.Builder of 4.3.1.
@pytest.mark.parametrize(
    ("data", "position", "length", "why", "exception"),
    [
        ("version=2\n", 0, 9, "Unknown meta.properties version number 2", RUNTIME),
        ("a=1\nversion=x\n", 4, 9, "Invalid meta.properties version string 'x'", RUNTIME),
        ("version=1\ncluster.id=a\n", 0, 23, "Failed to find node.id", RUNTIME),
        (
            "version=1\nnode.id=x\ncluster.id=a\n",
            10,
            9,
            "Unable to read node.id as a base-10 number.",
            RUNTIME,
        ),
        ("version=1\nnode.id=1\n", 0, 20, "cluster.id was not found.", RUNTIME),
        ("broker.id=x", 0, 11, "Unable to read broker.id as a base-10 number.", RUNTIME),
        (
            "version=0\nbroker.id=1\ndirectory.id=abc",
            22,
            16,
            (
                "Unable to read directory.id as a Uuid: Input string `abc` decoded as 2 bytes, which is not "
                "equal to the expected 16 bytes of a base64-encoded UUID"
            ),
            RUNTIME,
        ),
        ("a=1\nb=\\u12x4\n", 4, 8, "Malformed \\uxxxx encoding.", ARGUMENT),
        ("broker.id=1\n\0\0\0", 12, 3, "zero bytes where text should be", None),
        ("", 0, 0, "node ID not found: the file is empty", RUNTIME),
        ("garbage\n", 0, 8, f"node ID not found: {NO_NODE}", RUNTIME),
        ("node.id=1\ncluster.id=x\n", 0, 23, f"node ID not found: {NO_NODE}", RUNTIME),
        ("\0\0\0", 0, 3, f"zero bytes where text should be, and node ID not found: {NO_NODE}", RUNTIME),
    ],
)
def test_damaged_meta_properties_are_told_in_kafkas_words(
    data: str, position: int, length: int, why: str, exception: str | None
) -> None:
    _, findings = read(FileKind.META_PROPERTIES, data)
    assert told(findings) == [(position, length, why, exception)]


def test_quorum_state_is_one_json_object() -> None:
    checkpoint, findings = read(FileKind.QUORUM_STATE, QUORUM)
    assert (checkpoint.version, findings) == (1, [])
    assert checkpoint.entries[0] == Property("leaderId", 1)
    assert checkpoint.entries[3] == Property("votedDirectoryId", "A" * 22)


def test_nested_json_is_shown_as_compact_text() -> None:
    checkpoint, _ = read(FileKind.QUORUM_STATE, '{"currentVoters": [{"voterId": 1}], "b": true, "n": null}')
    assert pairs(checkpoint) == [("currentVoters", '[{"voterId":1}]'), ("b", "true"), ("n", None)]


# Of FileQuorumStateStore.readElectionState of 4.3.1.
@pytest.mark.parametrize(
    ("data", "why", "exception"),
    [
        ("", "File ended prematurely.", "java.io.EOFException"),
        ("   ", "Deserialized node  is not an object node", IO),
        ("[]", "Deserialized node [] is not an object node", IO),
        ("{}", "Deserialized node {} does not have data_version field", IO),
        (
            '{"data_version":2}',
            "data_version (2) is not within the min (0) and max (1) supported version",
            "java.lang.IllegalStateException",
        ),
        (
            '{"data_version":1}',
            "QuorumStateData: unable to locate field 'leaderId', which is mandatory in version 1",
            RUNTIME,
        ),
        (
            '{"data_version":"1"}',
            "QuorumStateData: unable to locate field 'clusterId', which is mandatory in version 0",
            RUNTIME,
        ),
        (QUORUM.replace("1", '"x"', 1), "QuorumStateData: leaderId is not a number", NUMBER),
    ],
)
def test_a_damaged_quorum_state_is_told_in_kafkas_words(data: str, why: str, exception: str) -> None:
    _, findings = read(FileKind.QUORUM_STATE, data)
    assert told(findings) == [(0, len(data), why, exception)]


@pytest.mark.parametrize("data", [b"{", b'{"a":NaN}', b"[" * 60_000, b'{"a":' * 5000, b"\xff", b"9" * 5000])
def test_what_is_not_json_is_told_and_never_raises(data: bytes) -> None:
    checkpoint, findings = read(FileKind.QUORUM_STATE, data)
    assert checkpoint.entries == ()
    assert len(findings) == 1


def test_a_clean_shutdown_is_clean_whatever_its_file_says() -> None:
    checkpoint, findings = read(FileKind.CLEAN_SHUTDOWN, '{"version":0,"brokerEpoch":381}')
    assert (checkpoint.version, pairs(checkpoint), findings) == (
        0,
        [("version", 0), ("brokerEpoch", 381)],
        [],
    )
    for data in (b"", b"garbage", b"\xff\xff", b"[]"):
        assert read(FileKind.CLEAN_SHUTDOWN, data)[1] == []


SAMPLES = {
    FileKind.EPOCHS: "0\n2\n0 0\n5 40\n",
    FileKind.REPLICATION: "0\n1\nt\u00fc 0 5\n",
    FileKind.PARTITION_METADATA: f"version: 0\ntopic_id: {UUID}",
    FileKind.META_PROPERTIES: f"#x\nversion=1\nnode.id=1\ncluster.id=\\u0041\ndirectory.id={UUID}\\\n",
    FileKind.QUORUM_STATE: QUORUM,
    FileKind.CLEAN_SHUTDOWN: '{"version":0,"brokerEpoch":381}',
}


@pytest.mark.parametrize("kind", SAMPLES)
def test_every_truncation_is_read_without_an_exception(kind: FileKind) -> None:
    data = SAMPLES[kind].encode()
    for size in range(len(data) + 1):
        _, findings = read(kind, data[:size])
        assert all(0 <= (one.position or 0) <= (one.position or 0) + (one.length or 0) <= size for one in findings)


@given(st.sampled_from(TEXT_KINDS), st.binary(max_size=80))
def test_no_bytes_make_a_checkpoint_raise(kind: FileKind, data: bytes) -> None:
    _, findings = read(kind, data)
    for one in findings:
        assert one.message
        assert one.position is not None
        assert one.length is not None
        assert 0 <= one.position <= one.position + one.length <= len(data)


@given(st.lists(st.builds(EpochEntry, st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1))))
def test_what_kafka_writes_is_read_back(entries: list[EpochEntry]) -> None:
    text = f"0\n{len(entries)}\n" + "".join(f"{epoch} {offset}\n" for epoch, offset in entries)
    assert read(FileKind.EPOCHS, text) == (Checkpoint(FileKind.EPOCHS, 0, tuple(entries)), [])


def test_a_partition_metadata_is_read_as_far_as_java_reads_it() -> None:
    whole = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"
    for data, thrown in (
        (whole + b"\xc9", [None]),  # the file ends within a character, which nobody asks for
        (whole + b"\xc9x\n", ["java.nio.charset.MalformedInputException"]),
        (whole[:-2] + b"\n\xc9x\n", ["java.nio.charset.MalformedInputException", "java.lang.IllegalArgumentException"]),
    ):
        found: list[Finding] = []
        read_checkpoint(FileKind.PARTITION_METADATA, BytesSource(data, "partition.metadata"), found.append)
        assert [one.values["exception"] for one in found] == thrown
