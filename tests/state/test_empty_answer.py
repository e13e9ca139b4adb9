"""Behind an answer: what is not here, what to ask next, what was not searched, and where to look for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kdump.finding import Code, Finding
from kdump.item import PartitionChecked
from kdump.not_searched import NotSearched
from kdump.state.empty_answer import EmptyAnswer, Question
from kdump.words.command import command_line
from tests.support.coordinator_records import at, commit
from tests.support.partitions import name as file_name
from tests.support.partitions import segment, write
from tests.support.runs import FIXTURES, run_kdump
from tests.support.segments import Record
from tests.support.terminal import run_in_terminal

if TYPE_CHECKING:
    from pathlib import Path

NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
T = 1_700_000_000_000


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["groups", ".", "--group", "nobody"], "no group nobody here; list them: kdump groups ."),
        (["groups", ".", "--group", "nobody", "--group", "grp-new"], "no group nobody here; list them: kdump groups ."),
        (
            ["groups", ".", "--at", "1"],
            "no groups here at 1970-01-01T00:00:00.001Z; at the end of the log: kdump groups .",
        ),
        (["groups", ".", "--group", "nobody", "--reset-csv"], "no group nobody here; list them: kdump groups ."),
        (["groups", ".", "--topic", "none"], "no commits of topic none here; list them: kdump groups ."),
        (["groups", ".", "--diff", "end", "end"], "no change here between the end and the end; at the end"),
        (["groups", ".", "--group", "nobody", "--redact"], "no such groups here\n"),
        (["groups", ".", "--topic", "secret", "--diff", "end", "end", "--redact"], "no change of such commits here"),
        (["cluster", ".", "--topic", "none"], "no topic none here; list them: kdump cluster ."),
        (["cluster", ".", "--diff", "end", "end"], "no change here between the end and the end; at the end of the "),
        (["transactions", "plain-0"], "no transactions here\n"),
        (["transactions", ".", "--hanging"], "no hanging transactions here\n"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_an_empty_answer_says_what_to_ask_on_a_terminal_and_in_a_log(args: list[str], said: str) -> None:
    run = run_kdump(args, NODE)
    (line,) = [one for one in run.stderr.decode().splitlines(keepends=True) if one.startswith("kdump: no ")]
    assert line.startswith(f"kdump: {said}")
    assert len(line) < 140
    assert run.exit == (0 if "--hanging" in args or args[:1] + args[2:3] == ["cluster", "--diff"] else 10)
    assert " ".join(line.split()) in " ".join(" ".join(run_in_terminal(args, NODE).lines).split())


AWAY = "which is not here: name the log.dirs of a broker that has it"


def said_of(args: list[str], where: Path) -> list[str]:
    """The lines behind the one that says what is not here."""
    lines = run_kdump(args, where).stderr.decode().splitlines()
    return [one.removeprefix("kdump: ") for one in lines if "partition" in one]


def test_a_group_that_is_not_here_belongs_to_a_partition_by_the_count_of_the_metadata_log() -> None:
    read = "(of 3 partitions), which was read"
    asked = ["groups", ".", "--group", "it's", "--group", "nobody"]
    expected = [
        f"group it's belongs to __consumer_offsets-0 {read}",
        f"group nobody belongs to __consumer_offsets-1 {read}",
    ]
    assert said_of(asked, NODE) == expected
    assert said_of([*asked, "--at", "1"], NODE) == expected
    assert said_of(["groups", "."], NODE) == []
    named = ["__consumer_offsets-1", "__cluster_metadata-0"]
    assert said_of(["groups", *named, "--group", "it's", "--group", "nobody"], NODE) == [
        f"group it's belongs to __consumer_offsets-0 (of 3 partitions), {AWAY}",
        expected[1],
    ]


def test_without_the_metadata_log_a_group_is_looked_for_by_the_default_count(tmp_path: Path) -> None:
    """Each broker of a real cluster has some of the partitions only."""
    write(tmp_path, {f"__consumer_offsets-{n}/{file_name(0)}": at(0, T, commit("g", 0, 5)) for n in (4, 37)})
    default = "(of 50 partitions, Kafka's default)"
    others = "where __consumer_offsets has another number of partitions: kdump partition-for"
    assert said_of(["groups", ".", "--group", "nope"], tmp_path) == [
        f"group nope belongs to __consumer_offsets-4 {default}, which was read",
        f"{others} nope --partitions N",
    ]
    assert said_of(["groups", ".", "--group", "it's"], tmp_path) == [
        f"group it's belongs to __consumer_offsets-5 {default}, {AWAY}",
        f"{others} 'it'\"'\"'s' --partitions N",
    ]
    write(tmp_path, {f"__consumer_offsets-50/{file_name(0)}": at(0, T, commit("g", 0, 5))})
    command = "kdump partition-for nope --partitions N"
    assert said_of(["groups", ".", "--group", "nope"], tmp_path) == [
        f"a group belongs to one partition of __consumer_offsets: {command} tells to which of N"
    ]


def test_a_group_that_compaction_may_have_erased_at_that_time_is_not_just_missing(tmp_path: Path) -> None:
    log = at(5, T, commit("g", 0, 5)) + at(9, T + 1000, commit("g", 0, 6))
    write(tmp_path, {f"__consumer_offsets-4/{file_name(0)}": log})
    line = "group nope belongs to __consumer_offsets-4 (of 50 partitions, Kafka's default), which was read"
    erased = "; compaction may have erased it, answers are exact from 2023-11-14T22:13:20.000Z on"
    for when, said in ((T - 1, line + erased), (T, line), ("end", line)):
        assert said in said_of(["groups", ".", "--group", "nope", "--at", str(when)], tmp_path)


@pytest.mark.parametrize("there", ["log is gone", "batch is damaged"])
def test_a_damaged_partition_does_not_count_as_read(there: str, tmp_path: Path) -> None:
    damaged = bytearray(at(0, T, commit("g", 0, 5)))
    damaged[-1] ^= there == "batch is damaged"
    files = segment(0, [bytes(damaged)], interval=0)
    if there == "log is gone":
        del files[file_name(0)]
    write(tmp_path, {f"__consumer_offsets-4/{one}": data for one, data in files.items()})
    default = "(of 50 partitions, Kafka's default)"
    said = said_of(["groups", "./__consumer_offsets-4/", "--group", "nope"], tmp_path)
    damaged_one = (
        f"group nope belongs to __consumer_offsets-4 {default}, which is damaged: not all that was there could be read"
    )
    assert said[0] == damaged_one


@pytest.mark.parametrize("layout", [[], ["--format", "json"], ["--reset-csv"]])
@pytest.mark.parametrize(
    ("group", "when", "pending"),
    [
        ("grp-static", "2026-11-21T00:05:22.000Z", ""),
        ("grp-txoff", "2026-11-21T00:05:23.800Z", ", but 1 pending one, of a transaction that had not ended"),
    ],
)
def test_a_group_that_had_committed_nothing_at_a_time_is_said_to(
    group: str, when: str, pending: str, layout: list[str]
) -> None:
    """An empty file of a reset looks like a failure."""
    run = run_kdump(["groups", ".", "--group", group, "--group", "grp-classic", "--at", when, *layout], NODE)
    at_end = f"at the end of the log: kdump groups . --group {group}"
    assert run.stderr.decode() == f"kdump: no commits of group {group} here at {when}{pending}; {at_end}\n"
    assert run.exit == (10 if layout == ["--reset-csv"] else 0), "the file lacks a group that was asked for"
    assert run_kdump(["groups", ".", "--group", group, *layout], NODE).stderr == b""
    for args in ([], ["--group", group, "--redact"]):
        assert b"no commits" not in run_kdump(["groups", ".", "--at", when, *args], NODE).stderr


def test_damage_of_a_later_time_is_nothing_to_a_group_that_was_not_there_before_it(tmp_path: Path) -> None:
    damaged = bytearray(at(1, T + 50, commit("g", 1, 7)))
    damaged[-1] ^= 1
    write(tmp_path, {f"__consumer_offsets-4/{file_name(0)}": at(0, T, commit("g", 0, 5)) + bytes(damaged)})
    run = run_kdump(["groups", ".", "--group", "nope", "--at", str(T + 49)], tmp_path).stderr.decode()
    assert "group nope belongs to __consumer_offsets-4 (of 50 partitions, Kafka's default), which was read" in run
    assert "not searched" not in run
    run = run_kdump(["groups", ".", "--group", "nope", "--at", str(T + 50)], tmp_path).stderr.decode()
    assert "which is damaged: not all that was there could be read" in run
    assert "not searched: ./__consumer_offsets-4/" in run


def test_what_is_damaged_was_not_searched_and_an_answer_needs_no_word(tmp_path: Path) -> None:
    batches = [at(n, T, commit("g", 0, n)) for n in range(3)]
    batches[1] = batches[1][:-1] + bytes([batches[1][-1] ^ 1])
    write(tmp_path, {f"__consumer_offsets-0/{file_name(0)}": b"".join(batches)})
    seen = run_in_terminal(["groups", ".", "--group", "h"], tmp_path).raw
    assert "kdump: no group h here; list them: kdump groups .\r\n" in seen
    assert "not searched: ./__consumer_offsets-0/00000000000000000000.log: bytes" in seen
    assert ", offsets 1..1 (B01 crc-mismatch)" in seen
    assert "kdump: no " not in run_in_terminal(["groups", "."], tmp_path).raw


_LACKS = "kdump: the answer may lack what was written there"
_OTHERS = "name the log.dirs of other brokers too: a copy may have it"


@pytest.mark.parametrize("layout", [[], ["--format", "json"], ["--reset-csv"], ["--group", "h"]])
def test_an_answer_that_may_lack_rows_says_where_they_may_be(layout: list[str], tmp_path: Path) -> None:
    damaged = bytearray(at(1, T, commit("g", 1, 7)))
    damaged[-1] ^= 1
    log = at(0, T, commit("g", 0, 5)) + bytes(damaged)
    write(tmp_path / "a", {f"__consumer_offsets-0/{file_name(0)}": log})
    run = run_kdump(["groups", "a", *layout], tmp_path)
    *_, place, lacks = run.stderr.decode().splitlines()
    assert place.startswith("kdump: not searched: a/__consumer_offsets-0/00000000000000000000.log: bytes ")
    assert place.endswith("offsets 1..1 (B01 crc-mismatch)")
    assert (run.exit, lacks) == (6 if layout == ["--group", "h"] else 3, f"{_LACKS}; {_OTHERS}")
    run = run_kdump(["groups", "a", *layout, "--at", str(T)], tmp_path)
    assert run.stderr.decode().splitlines()[-1] == f"{_LACKS} until then; {_OTHERS}"


def test_a_group_whose_commits_are_exact_lacks_nothing_whatever_else_is_damaged(tmp_path: Path) -> None:
    damaged = bytearray(at(0, T, commit("other", 0, 5)) + at(1, T, commit("other", 1, 7)))
    damaged[-1] ^= 1
    logs = {0: at(0, T, commit("g", 0, 5)), 1: bytes(damaged)}
    write(tmp_path, {f"__consumer_offsets-{n}/{file_name(0)}": log for n, log in logs.items()})
    assert _LACKS not in run_kdump(["groups", ".", "--group", "g"], tmp_path).stderr.decode()
    for groups in (["g", "other"], ["g", "unknown"], []):
        options = [word for one in groups for word in ("--group", one)]
        assert _LACKS in run_kdump(["groups", ".", *options], tmp_path).stderr.decode()


def test_where_a_copy_was_chosen_salvage_joins_what_all_of_them_have(tmp_path: Path) -> None:
    """The damaged copy goes further than the sound one."""
    damaged = bytearray(at(1, T, commit("g", 1, 7)))
    damaged[-1] ^= 1
    first = at(0, T, commit("g", 0, 5))
    more = bytes(damaged) + at(2, T, commit("g", 2, 7))
    write(tmp_path / "a", {f"__consumer_offsets-0/{file_name(0)}": first + more})
    write(tmp_path / "b", {f"__consumer_offsets-0/{file_name(0)}": first})
    run = run_kdump(["groups", "a", "b"], tmp_path)
    assert run.stderr.decode().splitlines()[-1] == f"{_LACKS}; kdump salvage joins what the copies have: ask its result"


def test_gaps_have_a_line_each_up_to_four() -> None:
    gap = Finding(Code.L09, "t-0/x.log", 10, 5, offset=3, last_offset=4, gap=True)
    empty, question = EmptyAnswer(), Question("groups", command_line("groups", "t-0"))
    for item in (PartitionChecked("t-0", 1, 0, 9, 100), gap):
        empty.see(item)
    told = "not searched: t-0/x.log: bytes 10..14, offsets 3..4 (L09 foreign-bytes)"
    lacks = f"{_LACKS}; {_OTHERS}".removeprefix("kdump: ")
    assert list(empty.lines(question)) == ["no groups here", told, lacks]
    assert list(EmptyAnswer().lines(question)) == [], "why no log was read is told before"
    places = NotSearched()
    for _ in range(7):
        places.see(gap)
    assert list(places.lines()) == [told] * 4 + ["not searched: 3 more places"]


# --- how a question ends --------------------------------------------------------------------------------------------
def asked(where: Path, *args: str) -> int:
    """The status of `kdump groups`."""
    return run_kdump(["groups", ".", *args], where).exit


@pytest.mark.parametrize("layout", [[], ["--format", "json"], ["--reset-csv"], ["--lag"], ["--redact"]])
def test_a_group_is_found_or_not_or_its_partition_is_not_here(layout: list[str], tmp_path: Path) -> None:
    """Of 50 partitions `nope` belongs to the fourth, `it's` to the fifth."""
    parts = {4: at(0, T, commit("g", 0, 5)), 37: at(0, T, commit("h", 0, 5))}
    write(tmp_path, {f"__consumer_offsets-{n}/{file_name(0)}": log for n, log in parts.items()})
    assert [asked(tmp_path, "--group", one, *layout) for one in ("g", "nope", "it's")] == [0, 10, 5]
    assert asked(tmp_path, "--group", "g", "--group", "nope", *layout) == 10
    assert asked(tmp_path, "--group", "g", "--group", "it's", *layout) == 5
    assert asked(tmp_path, *layout) == 0
    log = tmp_path / "__consumer_offsets-37" / file_name(0)
    log.write_bytes(log.read_bytes()[:-1] + b"\xff")
    assert [asked(tmp_path, "--group", one, *layout) for one in ("g", "nope", "it's")] == [3, 6, 6]
    assert [asked(tmp_path, "--group", one, "--fail-on", "never", *layout) for one in ("g", "nope", "it's")] == [
        0,
        5,
        5,
    ]


def test_the_status_that_json_ends_with_is_that_of_the_run(tmp_path: Path) -> None:
    write(tmp_path, {f"__consumer_offsets-4/{file_name(0)}": at(0, T, commit("g", 0, 5))})
    for group, status in (("g", 0), ("nope", 10), ("it's", 5)):
        run = run_kdump(["groups", ".", "--group", group, "--format", "json"], tmp_path)
        assert (run.exit, json.loads(run.stdout.splitlines()[-1])["exit"]) == (status, status)


def test_what_is_redacted_says_that_the_partition_is_not_here_and_not_of_whom(tmp_path: Path) -> None:
    write(tmp_path, {f"__consumer_offsets-4/{file_name(0)}": at(0, T, commit("g", 0, 5))})
    run = run_kdump(["groups", ".", "--group", "it's", "--redact"], tmp_path)
    assert run.exit == 5
    assert b"not here is the partition of __consumer_offsets that must have the answer" in run.stderr
    assert b"it's" not in run.stderr


def test_a_log_dir_without_groups_does_not_answer_a_question_about_one(tmp_path: Path) -> None:
    write(tmp_path, {f"t-0/{file_name(0)}": at(0, T, Record())})
    run = run_kdump(["groups", ".", "--group", "it's"], tmp_path)
    assert run.exit == 5
    assert b"group it's belongs to __consumer_offsets-5 (of 50 partitions" in run.stderr
    assert asked(tmp_path) == 5
    assert run_kdump(["groups", "nowhere", "--group", "g"], tmp_path).exit == 10


def test_more_partitions_than_the_default_tell_their_number_where_none_is_missing(tmp_path: Path) -> None:
    write(tmp_path, {f"__consumer_offsets-{n}/{file_name(0)}": b"" for n in range(60)})
    assert asked(tmp_path, "--group", "it's") == 10


def test_transactions_are_found_or_not_or_their_topic_is_not_here(tmp_path: Path) -> None:
    write(tmp_path, {f"t-0/{file_name(0)}": at(0, T, Record())})
    for args, status in (([], 5), (["--hanging"], 5)):
        assert run_kdump(["transactions", ".", *args], tmp_path).exit == status
    assert run_kdump(["transactions", "t-0"], tmp_path).exit == 10, "nothing is open in it"
    write(tmp_path, {f"__transaction_state-0/{file_name(0)}": b""})
    for args, status in (([], 10), (["--hanging"], 0)):
        assert run_kdump(["transactions", ".", *args], tmp_path).exit == status
    log = tmp_path / "t-0" / file_name(0)
    log.write_bytes(log.read_bytes()[:-1] + b"\xff")
    for args, status in (([], 6), (["--hanging"], 6)):
        assert run_kdump(["transactions", ".", *args], tmp_path).exit == status
