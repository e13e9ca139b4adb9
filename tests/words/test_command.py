"""Commands to paste: a shell takes each apart into the words that were meant, whatever these are."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kdump.words.command import ShellCommand, command_line, named, operand, renaming, with_paths
from kdump.words.escape import escape
from tests.support.shells import HOSTILE, bash, words_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.quick

NAMES = st.one_of(
    st.sampled_from(HOSTILE),
    st.lists(st.sampled_from([*"ab;$`'\"!\\\n\x1b-~*= \t", "\udcff", "\udc80", "\u00e4", "\U0001f600"])).map("".join),
)
needs_bash = pytest.mark.skipif(bash() is None, reason="no shell here reads $'...'")


@needs_bash
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(NAMES, max_size=5))
def test_a_shell_reads_the_words_that_were_meant(tmp_path: Path, words: list[str]) -> None:
    command = ShellCommand("chmod", *words)
    assert words_of(command, tmp_path) == ["chmod", *words]
    assert escape(command) == command
    assert "\n" not in command


@pytest.mark.parametrize("word", HOSTILE)
def test_each_hostile_name_is_one_word(word: str, tmp_path: Path) -> None:
    if bash() is None and not word.isprintable():
        pytest.skip("no shell here reads $'...'")
    assert words_of(ShellCommand("cp", word), tmp_path) == ["cp", word]
    path = named(word)
    assert not path.startswith("-")
    assert words_of(ShellCommand("cp", path), tmp_path) == ["cp", path]


def test_plain_words_and_placeholders_stay_as_they_are() -> None:
    command = command_line("verify", "--replicas", "/data/orders-0", "OTHER", "s3://b/x", "a=b", "HOST:PORT", "PATH...")
    assert command == "kdump verify --replicas /data/orders-0 OTHER s3://b/x a=b HOST:PORT PATH..."


def test_an_empty_word_is_one() -> None:
    assert ShellCommand("x", "") == "x ''"


def test_what_cannot_be_shown_is_octal_in_the_quotes_of_bash() -> None:
    assert ShellCommand("x", "a\x1b!'\\\u202e") == r"x $'a\033\041\047\134\342\200\256'"
    assert ShellCommand("x", "\udcff") == r"x $'\377'"
    assert ShellCommand("x", "\ud800") == r"x $'\355\240\200'", "of a record, not of a name on a disk"


def test_a_name_that_is_no_path_is_no_option_either() -> None:
    assert command_line("partition-for", *operand("-g", "--partitions", "N")) == (
        "kdump partition-for --partitions N -- -g"
    )
    assert operand("g", "--partitions", "N") == ("g", "--partitions", "N")


def test_commands_behind_each_other_are_one_of_their_words() -> None:
    one, two = ShellCommand("mkdir", "a b"), ShellCommand("cp", "c;d", "a b/")
    both = one.then(two)
    assert both == "mkdir 'a b' && cp 'c;d' 'a b/'"
    assert both.parts == (("mkdir", "a b"), ("cp", "c;d", "a b/"))
    changed = both.with_words(lambda words: [word.replace("a b", "$x") for word in words])
    assert changed == "mkdir '$x' && cp 'c;d' '$x/'"


def test_a_command_comes_whole_through_a_pipe_between_processes() -> None:
    command = ShellCommand("mv", "a;b", "\udcff").then(ShellCommand("ls"))
    again = pickle.loads(pickle.dumps(command))
    assert (again, again.parts, type(again)) == (command, command.parts, ShellCommand)


def test_many_paths_are_a_placeholder() -> None:
    assert with_paths("verify", ["-a", "b c"], "--replicas") == "kdump verify --replicas ./-a 'b c'"
    assert with_paths("verify", list("abcde"), "--replicas") == "kdump verify --replicas PATH..."


def test_files_are_renamed_by_one_line_and_many_are_counted() -> None:
    assert renaming([("-a", "b;c")]) == "mv -n ./-a 'b;c'"
    assert renaming([("a", "b"), ("c", "d")]) == "mv -n a b && mv -n c d"
    assert renaming([("a", "b")] * 14).endswith("mv -n a b, and so on with 2 more")
