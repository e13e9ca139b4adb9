"""Where an answer is empty: a terminal has which logs were read, and what was not searched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kdump.finding import Code, Finding
from kdump.item import PartitionChecked
from kdump.render.not_searched import NotSearched
from kdump.state.read_logs import ReadLogs
from tests.support.coordinator_records import at, commit
from tests.support.partitions import name as file_name
from tests.support.partitions import write
from tests.support.runs import FIXTURES, run_kdump
from tests.support.terminal import run_in_terminal

if TYPE_CHECKING:
    from pathlib import Path

NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
T = 1_700_000_000_000


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (
            ["groups", ".", "--group", "nobody"],
            "nothing found for --group nobody; read: ./__consumer_offsets-0 (",
        ),
        (["groups", ".", "--at", "1"], "nothing found for --at 1; read: ./__consumer_offsets-0 (offsets"),
        (["groups", ".", "--group", "nobody", "--reset-csv"], "nothing found for --group nobody; read: "),
        (["cluster", ".", "--topic", "none"], "nothing found for --topic none; read: ./__cluster_metadata-0 (offsets"),
        (["cluster", ".", "--diff", "end", "end"], "nothing found for --diff end end; read: ./__cluster_metadata-0"),
        (["transactions", "plain-0"], "nothing found; read: plain-0"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_an_empty_answer_says_on_a_terminal_which_logs_were_read(args: list[str], said: str) -> None:
    assert f"kdump: {said}" in run_in_terminal(args, NODE).raw
    assert b"nothing found" not in run_kdump(args, NODE).stderr


def test_what_is_damaged_was_not_searched_and_an_answer_needs_no_word(tmp_path: Path) -> None:
    batches = [at(n, T, commit("g", 0, n)) for n in range(3)]
    batches[1] = batches[1][:-1] + bytes([batches[1][-1] ^ 1])
    write(tmp_path, {f"__consumer_offsets-0/{file_name(0)}": b"".join(batches)})
    seen = run_in_terminal(["groups", ".", "--group", "h"], tmp_path).raw
    assert "nothing found for --group h; read: ./__consumer_offsets-0 (offsets 0..2)" in seen
    assert "not searched: ./__consumer_offsets-0/00000000000000000000.log: bytes " in seen
    assert ", offsets 1..1 (B01 crc-mismatch)" in seen
    assert "nothing found" not in run_in_terminal(["groups", "."], tmp_path).raw


def test_gaps_have_a_line_each_up_to_four() -> None:
    gap = Finding(Code.L09, "t-0/x.log", 10, 5, offset=3, last_offset=4, gap=True)
    read = ReadLogs()
    for item in (PartitionChecked("t-0", 1, 0, 9, 100), gap):
        read.see(item)
    told = "not searched: t-0/x.log: bytes 10..14, offsets 3..4 (L09 foreign-bytes)"
    assert list(read.lines("")) == ["nothing found; read: t-0 (offsets 0..8)", told]
    assert list(ReadLogs().lines("")) == [], "why no log was read is told before"
    places = NotSearched()
    for _ in range(7):
        places.see(gap)
    assert list(places.lines()) == [told] * 4 + ["not searched: 3 more places"]
