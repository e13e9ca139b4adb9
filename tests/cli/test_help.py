"""Help: the same ways to it everywhere, options in groups, examples that can be typed, lines that fit a terminal."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click
import pytest

from kdump.cli.main import TASKS, kdump
from kdump.cli.options.help import GROUPS, Command, Option
from kdump.cli.options.help import option as grouped
from kdump.cli.options.help import options as several
from kdump.render.text.manual import TOPICS
from tests.support.runs import run_kdump
from tests.support.terminal import run_in_terminal

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS: dict[str, click.Command] = {
    name: command
    for name in kdump.list_commands(click.Context(kdump))
    if (command := kdump.get_command(click.Context(kdump), name))
}


def help_of(name: str, columns: int) -> str:
    """Return the help of a command as a terminal of a width shows it; "" for that of kdump."""
    context = click.Context(kdump, info_name="kdump", max_content_width=100, terminal_width=min(columns, 100) - 2)
    if name:
        context = click.Context(COMMANDS[name], info_name=name, parent=context)
    return context.get_help()


def options(command: click.Command) -> list[click.Option]:
    return [one for one in command.params if isinstance(one, click.Option)]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_one_that_groups_its_options(name: str) -> None:
    assert isinstance(COMMANDS[name], Command)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_its_group(name: str) -> None:
    for option in options(COMMANDS[name]):
        assert isinstance(option, Option), option.opts


OF_THEIR_OWN = (("truncate", "--to-offset"), ("verify", "--for"))  # it says where to cut there, and how long to read
"""Options that mean something else than their namesakes."""


def test_an_option_of_several_commands_is_in_one_group_in_all_of_them() -> None:
    groups: dict[str, set[str]] = {}
    for name, command in COMMANDS.items():
        for option in options(command):
            assert isinstance(option, Option)
            if (name, option.opts[0]) not in OF_THEIR_OWN:
                groups.setdefault(option.opts[-1], set()).add(option.group)
    assert {name: found for name, found in groups.items() if len(found) > 1} == {}


def test_an_option_of_no_group_is_shown_in_the_last_one() -> None:
    unknown = Command("other", params=[click.Option(["--never-heard-of"], help="New.")])
    text = unknown.get_help(click.Context(unknown, info_name="other"))
    assert "--never-heard-of" in text.partition(f"{GROUPS[-1]}:")[2]


def test_options_are_shown_group_by_group_in_the_order_of_the_command() -> None:
    @click.command("other", cls=Command, add_help_option=False)
    @several(
        grouped("--first", group="What is shown", help="1."),
        grouped("--second", group="Input", help="2."),
        grouped("--third", group="What is shown", help="3."),
    )
    def command() -> None:
        """None."""

    text = command.get_help(click.Context(command, info_name="other"))
    assert [word for word in text.split() if word.startswith("--")] == ["--second", "--first", "--third"]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_has_every_option_once(name: str) -> None:
    said = [line.split() for line in help_of(name, 100).splitlines()]
    words = [word.rstrip(",") for line in said for word in line[:2]]
    for option in options(COMMANDS[name]):
        old = option.old if isinstance(option, Option) else ()
        shown = [name for name in option.opts if name not in old]
        assert words.count(max(shown, key=len)) == 1, option.opts
        assert not {*words} & {*old}, "an old name is hidden"


@pytest.mark.parametrize("columns", [80, 100])
@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_fits_the_terminal(name: str, columns: int) -> None:
    for line in help_of(name, columns).splitlines():
        assert len(line) <= columns, line


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_ends_with_examples_that_can_be_typed(name: str) -> None:
    command = COMMANDS[name]
    assert isinstance(command, Command)
    assert len(command.examples) in (2, 3)
    shown = [line.strip() for line in help_of(name, 80).partition("Examples:\n")[2].splitlines()]
    assert shown == list(command.examples)
    for example in command.examples:
        words = shlex.split(example.partition(" > ")[0])
        assert words[:2] == ["kdump", name]
        with command.make_context(name, words[2:]):
            pass


@pytest.mark.parametrize("name", COMMANDS)
def test_the_first_help_fits_a_screen(name: str, tmp_path: Path) -> None:
    seen = run_in_terminal([name, "-h"], tmp_path, 80)
    lines = "\n".join(seen.lines).rstrip().split("\n")
    assert len(lines) <= 24
    assert all(len(line) <= 80 for line in lines)
    command = COMMANDS[name]
    assert isinstance(command, Command)
    assert len(command.usual) <= 10
    assert {*command.usual} <= {one for option in options(command) for one in option.opts}
    for example in command.examples:
        assert f"  {example}" in lines
    if command.usual:
        assert any(f"kdump help {name}" in line for line in lines)
        whole = run_kdump([name, "--help"], tmp_path).stdout
        assert whole == run_kdump(["help", name], tmp_path).stdout
        assert len(whole.splitlines()) > len(lines)


def test_the_overview_has_every_command_by_its_task() -> None:
    lines = help_of("", 80).splitlines()
    for task, names in TASKS.items():
        at = lines.index(f"{task}:")
        block = lines[at + 1 : lines.index("", at)]
        assert [line.split()[0] for line in block] == [name for name in names if name in (*COMMANDS, "help")]
    assert {name for names in TASKS.values() for name in names} >= {*COMMANDS, "help"}


@pytest.mark.parametrize("args", [["-h"], ["--help"], ["help"]], ids=" ".join)
def test_there_are_three_ways_to_the_overview(args: list[str], tmp_path: Path) -> None:
    run = run_kdump(args, tmp_path)
    assert (run.exit, run.stdout, run.stderr) == (0, run_kdump(["--help"], tmp_path).stdout, b"")


@pytest.mark.parametrize("name", ["dump", "verify", "undo"])
def test_there_are_two_ways_to_the_whole_help_of_a_command(name: str, tmp_path: Path) -> None:
    asked = [run_kdump(args, tmp_path) for args in ([name, "--help"], ["help", name])]
    assert {(run.exit, run.stdout, run.stderr) for run in asked} == {(0, asked[0].stdout, b"")}
    assert asked[0].stdout.startswith(f"Usage: kdump {name} [OPTIONS] ".encode())


@pytest.mark.parametrize("topic", TOPICS)
def test_what_all_commands_have_in_common_is_a_topic_of_help(topic: str, tmp_path: Path) -> None:
    run = run_kdump(["help", topic], tmp_path)
    assert (run.exit, run.stderr) == (0, b"")
    assert run.stdout.decode().splitlines()[0] == TOPICS[topic]
    assert max(map(len, run.stdout.decode().splitlines())) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_repeats_no_statuses_and_no_limits(name: str) -> None:
    said = " ".join(help_of(name, 80).split())
    assert "Exit status:" not in said
    if COMMANDS[name].usual:  # type: ignore[attr-defined]
        assert "Exit statuses: kdump help statuses. Limits: kdump help limits" in said


def test_help_of_what_is_no_command_names_the_nearest_one(tmp_path: Path) -> None:
    run = run_kdump(["help", "verfy"], tmp_path)
    assert run.exit == 2
    assert run.stderr.endswith(b"Error: no command 'verfy'; did you mean 'verify'?\n")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["fix", "x"], "'fix': kdump repair PATH mends what is safe; kdump verify PATH says what fits the rest"),
        (["cat", "x"], "'cat': kdump dump PATH --print-data-log"),
        (["find-time", "x", "-2h"], "'-2h' is no option; did you mean now-2h?"),
        (["groups", "x", "--at", "2h"], "did you mean now-2h?"),
        (["find-time", "now-2h", "here"], "max; the path comes first"),
        (["find-offset", "3", "here"], "latest; the path comes first"),
        (["find-time", "x", "10:00 CET"], "a zone is written as its hours, right behind the time: 10:00+01:00"),
        (["find-time", "x", "10:00 UTC"], "for UTC write Z right behind the time: 10:00Z"),
        (["export", "x"], "Missing option '--to DIR': Where the files go."),
        (["verify", "-j", "x", "y"], "'x': a whole number, 0 for all cores"),
        (["verify", "-rf-0"], "no option '-rf-0'; the path that has this name is ./-rf-0"),
        (["groups", "x", "--diff", "yesterday"], "requires 2 arguments, for example: --diff yesterday now"),
    ],
)
def test_what_was_meant_is_named(args: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "-rf-0").mkdir()
    run = run_kdump(args, tmp_path)
    assert (run.exit, run.stdout) == (2, b"")
    assert said in run.stderr.decode()


@pytest.mark.parametrize(
    "args", [["find-time", "x", "--deeep", "-2h"], ["find-offset", "x", "-2h"], ["find-time", "x", "-2x", "-2h"]]
)
def test_a_time_is_only_meant_where_the_mistake_is_that_word_and_the_verb_takes_one(
    args: list[str], tmp_path: Path
) -> None:
    run = run_kdump(args, tmp_path)
    assert (run.exit, run.stdout) == (2, b"")
    assert b"now-2h" not in run.stderr


def test_seconds_are_told_from_ms(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").touch()
    assert b"; seconds? write 1700000000000\n" in run_kdump(["find-time", "t-0", "1700000000"], tmp_path).stderr
    assert b"seconds" not in run_kdump(["find-time", "t-0", "1700000000000"], tmp_path).stderr


def test_both_options_show_the_version(tmp_path: Path) -> None:
    assert run_kdump(["-V"], tmp_path) == run_kdump(["--version"], tmp_path)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["dump", "--nothing", "x"], "Try 'kdump dump -h' for help."),
        (["verify"], "Try 'kdump verify -h' for help."),
        (["truncate", "x"], "Try 'kdump truncate -h' for help."),
        (["nothing"], "Try 'kdump -h' for help."),
    ],
)
def test_a_mistake_in_the_use_says_where_the_help_is(args: list[str], said: str, tmp_path: Path) -> None:
    run = run_kdump(args, tmp_path)
    lines = run.stderr.decode().splitlines()
    assert (run.exit, lines[1]) == (2, said)
    assert lines[0].startswith("Usage: kdump")
    assert lines[3].startswith("Error: ")


@pytest.mark.parametrize("name", ["dump", "verify"])
def test_help_names_no_page_that_an_installed_package_has_not_on_the_path_of_man(name: str, tmp_path: Path) -> None:
    shown = run_kdump([name, "-h"], tmp_path).stdout.decode()
    assert "man kdump" not in shown
    assert "kdump explain CODE" in " ".join(shown.split())
