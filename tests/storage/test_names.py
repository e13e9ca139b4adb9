"""File names: what they tell, strictly, and what Kafka's tool makes of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.storage.names import (
    TEXT_KINDS,
    Dispatch,
    FileKind,
    FileName,
    PartitionName,
    java_file,
    java_name,
    kafka_dispatch,
    parse_name,
    parse_partition,
)

pytestmark = pytest.mark.quick

ZERO = "0" * 20
TEN = "0" * 18 + "10"
UUID = "-_RBbyWzTFSyDVD9bjCpAw"
HEX = "2a5214c456a442bd97c20a732af24d67"
SEGMENT_KINDS = ("log", "index", "timeindex", "txnindex", "snapshot")


@pytest.mark.parametrize("suffix", SEGMENT_KINDS)
def test_a_segment_file_tells_kind_and_base_offset(suffix: str) -> None:
    name = parse_name(f"{TEN}.{suffix}")
    assert name == FileName(FileKind(suffix), 10, is_exact=True)
    assert name.is_live


@pytest.mark.parametrize("suffix", SEGMENT_KINDS)
@pytest.mark.parametrize("temporary", ["deleted", "swap", "cleaned"])
def test_kafkas_temporary_suffixes_are_known_and_not_live(suffix: str, temporary: str) -> None:
    name = parse_name(f"{TEN}.{suffix}.{temporary}")
    assert name == FileName(FileKind(suffix), 10, (temporary,), is_exact=True)
    assert not name.is_live


@pytest.mark.parametrize(
    "name",
    [
        "1.log",
        "0000_0000_0000_0000_1.log",
        "\uff10" * 20 + ".log",
        "\u0660" * 20 + ".log",
        " " + ZERO[1:] + ".log",
        "+" + ZERO[1:] + ".log",
        "-" + ZERO[1:] + ".log",
        ZERO + "0.log",
        ZERO + "\n.log",
        "9" * 20 + ".log",
        "kdump-q.log",
        ".log",
        f"{ZERO} (1).log",
    ],
)
def test_only_twenty_ascii_digits_are_a_base_offset(name: str) -> None:
    assert parse_name(name) == FileName(FileKind.LOG)


def test_the_largest_base_offset_is_that_of_a_long() -> None:
    assert parse_name("09223372036854775807.log").base_offset == 2**63 - 1
    assert parse_name("09223372036854775808.log").base_offset is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("x.log.bak", FileName(FileKind.LOG, None, ("bak",))),
        (f"{TEN}.log.bak", FileName(FileKind.LOG, 10, ("bak",))),
        (f"{TEN}.log.gz", FileName(FileKind.LOG, 10, ("gz",))),
        (f"{TEN}.index.deleted.old", FileName(FileKind.INDEX, 10, ("deleted", "old"))),
        (f"{TEN}.x.log", FileName(FileKind.LOG, 10)),
        (f"{TEN}.log.index", FileName(FileKind.INDEX, 10)),
        ("meta.properties.bak", FileName(FileKind.META_PROPERTIES, None, ("bak",))),
    ],
)
def test_a_copy_keeps_its_kind_and_is_no_name_of_kafkas(name: str, expected: FileName) -> None:
    assert parse_name(name) == expected
    assert not expected.is_live


@pytest.mark.parametrize("kind", TEXT_KINDS)
def test_text_files_are_known_by_their_whole_name(kind: FileKind) -> None:
    assert parse_name(kind.value) == FileName(kind, is_exact=True)
    assert parse_name(f"{kind.value}.tmp") == FileName(kind, None, ("tmp",), is_exact=True)
    assert parse_name(f"x{kind.value}").kind is FileKind.UNKNOWN


@pytest.mark.parametrize("name", ["", ".", "..", "orders-0", ".lock", "log", "index.html", "x.part", "checkpoint"])
def test_other_names_are_unknown(name: str) -> None:
    assert parse_name(name) == FileName(FileKind.UNKNOWN)


@pytest.mark.parametrize("suffix", ["index", "timeindex", "txnindex"])
def test_a_tiered_index_tells_offset_and_remote_segment(suffix: str) -> None:
    assert parse_name(f"435_{UUID}.{suffix}") == FileName(FileKind(suffix), 435, uuid=UUID, is_exact=True)
    assert parse_name(f"435_{UUID}.{suffix}.deleted").suffixes == ("deleted",)
    assert parse_name(f"435_{UUID[1:]}.{suffix}") == FileName(FileKind(suffix))
    assert not parse_name(f"{TEN}_{UUID}.{suffix}").is_exact


def test_a_log_is_never_tiered() -> None:
    assert parse_name(f"435_{UUID}.log") == FileName(FileKind.LOG)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"{TEN}-0000000003.checkpoint", FileName(FileKind.CHECKPOINT, 10, (), 3, is_exact=True)),
        (
            f"{TEN}-0000000003.checkpoint.deleted",
            FileName(FileKind.CHECKPOINT, 10, ("deleted",), 3, is_exact=True),
        ),
        (
            f"{TEN}-0000000003-81234.checkpoint.part",
            FileName(FileKind.CHECKPOINT, 10, ("part",), 3, is_exact=True),
        ),
        (f"{TEN}-9999999999.checkpoint", FileName(FileKind.CHECKPOINT)),
        (f"{TEN}-3.checkpoint", FileName(FileKind.CHECKPOINT)),
        (f"{TEN}.checkpoint", FileName(FileKind.CHECKPOINT)),
        ("bootstrap.checkpoint", FileName(FileKind.CHECKPOINT, is_exact=True)),
        ("bootstrap.checkpoint.bak", FileName(FileKind.CHECKPOINT, None, ("bak",))),
    ],
)
def test_a_snapshot_of_the_metadata_log_tells_end_offset_and_epoch(name: str, expected: FileName) -> None:
    assert parse_name(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders-0", ("orders", 0, "")),
        ("a-b.c-12", ("a-b.c", 12, "")),
        ("x-delete-3", ("x-delete", 3, "")),
        (f"t.1-0.{HEX}-delete", ("t.1", 0, "delete")),
        (f"t-7.{HEX}-future", ("t", 7, "future")),
        (f"t-7.{HEX}-stray", ("t", 7, "stray")),
        ("t-7.ab-delete", ("t", 7, "delete")),  # whatever stands for the id
        ("t-7.a-b_C-stray", ("t", 7, "stray")),
        ("t-7.1-2.ab-future", ("t-7.1", 2, "future")),
        ("t-2147483647", ("t", 2**31 - 1, "")),
    ],
)
def test_a_partition_directory_ends_after_the_last_dash(name: str, expected: tuple[str, int, str]) -> None:
    assert parse_partition(name) == PartitionName(*expected)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "lost+found",
        "orders",
        "-1",
        "t-",
        "t-x",
        "t--",
        "t-\u0663",
        "t-2147483648",
        f"t-7.{HEX}-gone",
        "t-7.-delete",
        "t-7.a.b-delete",
        "t-7.a b-delete",
        "t a-7.ab-delete",
    ],
)
def test_another_directory_is_no_partition(name: str) -> None:
    assert parse_partition(name) is None


NUMBER = "java.lang.NumberFormatException: For input string: "
BOUNDS = "java.lang.StringIndexOutOfBoundsException: "


# What DumpLogSegments 4.3.1, 4.2.1 and 3.9.2 did with empty files of these names.
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("5.log", Dispatch(FileKind.LOG, 5)),
        ("+5.log", Dispatch(FileKind.LOG, 5)),
        ("-5.log", Dispatch(FileKind.LOG, -5)),
        ("\uff11.log", Dispatch(FileKind.LOG, 1)),
        ("5..log", Dispatch(FileKind.LOG, 5)),
        ("0000.x.log", Dispatch(FileKind.LOG, 0)),
        (ZERO + "00.log", Dispatch(FileKind.LOG, 0)),
        ("9223372036854775807.log", Dispatch(FileKind.LOG, 2**63 - 1)),
        ("9" * 20 + ".log", Dispatch(FileKind.LOG, error=f'{NUMBER}"99999999999999999999"')),
        ("a.log", Dispatch(FileKind.LOG, error=f'{NUMBER}"a"')),
        ("1 .log", Dispatch(FileKind.LOG, error=f'{NUMBER}"1 "')),
        (".log", Dispatch(FileKind.LOG, error=f'{NUMBER}""')),
        ("..log", Dispatch(FileKind.LOG, error=f'{NUMBER}""')),
        ("x.index", Dispatch(FileKind.INDEX, error=f'{NUMBER}"x"')),
        ("x.timeindex", Dispatch(FileKind.TIMEINDEX, error=f'{NUMBER}"x"')),
        ("x.txnindex", Dispatch(FileKind.TXNINDEX, error=f'{NUMBER}"x"')),
        (f"{ZERO}_AbC.index", Dispatch(FileKind.INDEX, error=f'{NUMBER}"{ZERO}_AbC"')),
        ("x.snapshot", Dispatch(FileKind.SNAPSHOT)),
        ("bootstrap.checkpoint", Dispatch(FileKind.CHECKPOINT)),
        (f"{TEN}-0000000003.checkpoint", Dispatch(FileKind.CHECKPOINT, 10, 3)),
        (f"{TEN}_0000000003x.checkpoint", Dispatch(FileKind.CHECKPOINT, 10, 3)),
        ("x.checkpoint", Dispatch(FileKind.CHECKPOINT, error=f"{BOUNDS}begin 0, end 20, length 12")),
        (".checkpoint", Dispatch(FileKind.CHECKPOINT, error=f"{BOUNDS}begin 0, end 20, length 11")),
        (
            "x\U0001f600.checkpoint",
            Dispatch(FileKind.CHECKPOINT, error=f"{BOUNDS}begin 0, end 20, length 14"),
        ),
        (f"{TEN}.log.deleted", Dispatch(None)),
        ("log.", Dispatch(None)),
        (".", Dispatch(None)),
    ],
)
def test_kafkas_tool_takes_a_name_as_it_does(name: str, expected: Dispatch) -> None:
    for release in ("4.3", "4.2", "3.9"):
        assert kafka_dispatch(name, release) == expected


@pytest.mark.parametrize(
    ("name", "error"),
    [
        (f"{TEN}.checkpoint", f'{NUMBER}"checkpoint"'),
        (f"{TEN}-00000.checkpoint", f'{NUMBER}"00000.chec"'),
        (f"{ZERO}-9999999999.checkpoint", f'{NUMBER}"9999999999"'),
        (f"{ZERO[1:]}x-0000000003.checkpoint", f'{NUMBER}"{ZERO[1:]}x"'),
        (f"{'0' * 9}.checkpoint", f'{NUMBER}"000000000.checkpoint"'),
    ],
)
def test_a_wrong_snapshot_name_is_told_as_by_kafkas_tool(name: str, error: str) -> None:
    assert kafka_dispatch(name).error == error


@pytest.mark.parametrize(("name", "length"), [("nodot", 5), ("", 0), ("x\U0001f600", 3)])
def test_only_releases_before_4_3_die_of_a_name_without_a_dot(name: str, length: int) -> None:
    assert kafka_dispatch(name) == Dispatch(None)
    error = f"{BOUNDS}begin -1, end {length}, length {length}"
    assert kafka_dispatch(name, "4.2").error == kafka_dispatch(name, "3.9").error == error


@pytest.mark.parametrize(
    ("path", "shown"),
    [("a//b/", "a/b"), ("/", "/"), ("//", "/"), ("", ""), ("./x", "./x"), ("a/./../b", "a/./../b")],
)
def test_a_path_is_shown_as_by_java(path: str, shown: str) -> None:
    assert java_file(path) == shown


def test_the_name_is_the_last_component_of_the_path() -> None:
    java = java_name(f"a.b//{TEN}.index/")
    assert (java.name, java.stem, java.suffix, java.base_offset) == (f"{TEN}.index", TEN, ".index", 10)


@given(st.text(max_size=60))
def test_no_name_raises(name: str) -> None:
    parse_name(name)
    parse_partition(name)
    for suffix in ("", ".log", ".checkpoint", "_", f"{ZERO}.checkpoint"):
        kafka_dispatch(name + suffix, "3.9")
