"""What a shell offers on Tab: the scripts in the shells that are installed, and what kdump answers them."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kdump
from kdump.cli.completion import SCRIPTS
from kdump.cli.main import _COMMANDS

FOLDER = Path(kdump.__file__).parent / "cli" / "completions"
COMMAND = shlex.split(os.environ.get("KDUMP_COMMAND", "")) or [sys.executable, "-P", "-m", "kdump"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(kdump.__file__).parent.parent)}

# How each shell is asked, without a terminal, what it would offer for the words of a line; one answer a line.
ASK = {
    "bash": """
        source "$1"; shift
        compopt() { local IFS=' '; echo "compopt $*"; }  # it works under Tab only
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _kdump "$1"
        printf '%s\\n' "${COMPREPLY[@]}"
    """,
    "zsh": """
        compdef() { }
        compadd() { shift 2; print -rl -- ${(P)2} }
        _files() { print files }
        _path_files() { print dirs }
        _describe() { print -rl -- ${${(P)3}%%:*} }
        source $1; shift
        words=("$@"); CURRENT=$#; _kdump
    """,
    "fish": """
        function __fish_complete_path; echo $argv[1]-files; end
        function __fish_complete_directories; echo $argv[1]-dirs; end
        source $argv[1]
        complete --do-complete (string join ' ' -- $argv[2..])
    """,
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a PATH whose kdump is the one that is tested."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "kdump").write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n', "utf-8")
    (folder / "kdump").chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def offered(shell: str, programs: str, *words: str, cwd: Path) -> list[str]:
    """Return what a shell offers for the last word of a line."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    ask = [program, "-c", ASK[shell], "-", str(FOLDER / SCRIPTS[shell]), *words]
    if shell == "fish":
        ask.remove("-")
    home = {"HOME": str(cwd), "XDG_CONFIG_HOME": str(cwd), "PATH": programs}
    done = subprocess.run(ask, env={**ENVIRONMENT, **home}, cwd=cwd, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return [line.partition("\t")[0] for line in done.stdout.splitlines() if line]


def answer(*words: str) -> str:
    """Return what kdump answers a shell."""
    asked = {"_KDUMP_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    run = subprocess.run(COMMAND, env={**ENVIRONMENT, **asked}, capture_output=True, text=True, check=True)
    return run.stdout


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_script_is_printed_byte_for_byte(shell: str) -> None:
    done = subprocess.run([*COMMAND, "completion", shell], env=ENVIRONMENT, capture_output=True, check=True)
    assert done.stdout == (FOLDER / SCRIPTS[shell]).read_bytes()


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_shell_offers_commands(shell: str, programs: str, tmp_path: Path) -> None:
    assert offered(shell, programs, "kdump", "find-", cwd=tmp_path) == ["find-offset", "find-time"]


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_shell_offers_options(shell: str, programs: str, tmp_path: Path) -> None:
    assert set(offered(shell, programs, "kdump", "dump", "--from-o", cwd=tmp_path)) == {"--from-offset"}


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_shell_offers_the_values_of_an_option(shell: str, programs: str, tmp_path: Path) -> None:
    assert set(offered(shell, programs, "kdump", "dump", "--format", "j", cwd=tmp_path)) == {"json"}


@pytest.mark.parametrize(("shell", "expected"), [("bash", []), ("zsh", ["files"]), ("fish", ["0-files"])])
def test_a_shell_offers_files_where_kdump_has_nothing(
    shell: str, expected: list[str], programs: str, tmp_path: Path
) -> None:
    # bash offers files by itself, -o default, where it gets nothing
    assert offered(shell, programs, "kdump", "dump", "0", cwd=tmp_path) == expected


@pytest.mark.parametrize(
    ("shell", "expected"),
    [("bash", ["compopt +o default -o dirnames"]), ("zsh", ["dirs"]), ("fish", ["f-dirs"])],
)
def test_a_shell_offers_directories_for_an_option_that_takes_one(
    shell: str, expected: list[str], programs: str, tmp_path: Path
) -> None:
    assert offered(shell, programs, "kdump", "reindex", "--output", "f", cwd=tmp_path) == expected


def test_every_command_is_offered() -> None:
    assert answer("kdump", "").split() == [f"plain,{name}" for name in (*_COMMANDS, "help")]
    assert answer("kdump", "help", "").split() == [f"plain,{name}" for name in (*_COMMANDS, "help")]


def test_partitions_and_topics_of_the_directories_in_the_line_are_offered(tmp_path: Path) -> None:
    for name in ("orders-0", "orders-1", "old-orders-2", "orders-0.0123456789abcdef0123456789abcdef-delete", "x"):
        (tmp_path / name).mkdir()
    (tmp_path / "orders-7").write_bytes(b"")
    asked = answer("kdump", "find-offset", str(tmp_path), "latest", "--topic-partition", "or")
    assert asked.split() == ["plain,orders-0", "plain,orders-1"]
    asked = answer("kdump", "salvage", str(tmp_path), "--topic-partition", "")
    assert asked.split() == ["plain,old-orders-2", "plain,orders-0", "plain,orders-1"]
    assert answer("kdump", "groups", str(tmp_path), "--topic", "").split() == ["plain,old-orders", "plain,orders"]
    assert answer("kdump", "groups", str(tmp_path / "nowhere"), "--topic", "").split() == []


def test_codes_names_and_keys_are_offered_to_explain() -> None:
    assert answer("kdump", "explain", "b0").split()[:2] == ["plain,B01", "plain,B02"]
    assert "plain,hiddenRecords" in answer("kdump", "explain", "hidden").split()
    assert "plain,crc-mismatch" in answer("kdump", "explain", "crc").split()


def test_commands_are_offered_without_loading_one() -> None:
    asked = {"_KDUMP_COMPLETE": "bash_complete", "COMP_WORDS": "kdump ", "COMP_CWORD": "1"}
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        "from kdump.__main__ import main; main()"
    )
    run = [sys.executable, "-P", "-c", code]
    done = subprocess.run(run, env={**ENVIRONMENT, **asked}, capture_output=True, text=True, check=True)
    assert "dump" in done.stdout
    assert set(done.stderr.split()) & set(_COMMANDS.values()) == set()
