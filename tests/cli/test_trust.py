"""Files and names that nobody trusts, and which once ended a command by a traceback: fixtures/hostile."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kdump
from kdump.__main__ import main
from kdump.cli.bug import bug_lines, report_bug
from tests.support.runs import FIXTURES, run_kdump
from tests.support.unprivileged import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Callable

HOSTILE = FIXTURES / "hostile"


def run(*args: object) -> tuple[int, str, str]:
    """Run kdump; exit status 1 is a bug, whatever it was run on."""
    done = run_kdump([str(one) for one in args], FIXTURES)
    out, said = done.stdout.decode("utf-8", "surrogateescape"), done.stderr.decode("utf-8", "surrogateescape")
    assert done.exit != 1, said
    assert "Traceback" not in said
    return done.exit, out, said


def case(name: str, root: Path) -> Path:
    """A copy of a case."""
    return Path(shutil.copytree(HOSTILE / name, root / name))


def test_damage_that_can_and_damage_that_cannot_be_patched_in_one_segment_is_cut_at_the_first(tmp_path: Path) -> None:
    logs = case("01-truncate-typeerror", tmp_path)
    status, out, _ = run("truncate", logs / "plain-0", "--at-damage", "--with-later-segments")
    assert status == 7
    assert "to do it: kdump truncate" in " ".join(out.split())


def a_pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def a_link(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("x.snapshot", Path.touch),
        ("x.log", Path.touch),
        ("00000000000000000240.log", a_pipe),
        ("00000000000000000119.index", a_pipe),
        ("00000000000000000400.log", a_link),
        ("00000000000000000119.snapshot", Path.mkdir),
    ],
)
def test_a_file_that_keeps_a_broker_from_loading_is_named_before_a_cut(
    name: str, make: Callable[[Path], None], tmp_path: Path
) -> None:
    partition = case("02-truncate-odd-names", tmp_path) / "a-0"
    (partition / "x.snapshot").unlink()
    if make is Path.mkdir:
        (partition / name).unlink()
    make(partition / name)
    for where in (["--to-offset", 100], ["--at-damage"], ["--to-position", 0]):
        status, _, said = run("truncate", partition, *where, "--with-later-segments")
        if where != ["--at-damage"]:
            assert status == 12
            assert f"{partition / name}: " in said
            assert "move it away" in said


@pytest.mark.parametrize("question", ["find-offset 0", "find-offset latest", "find-time 0", "find-time max"])
def test_the_data_answers_from_a_batch_whose_length_only_the_crc_tells(question: str) -> None:
    command, what = question.split()
    status, out, _ = run(command, "--scan", HOSTILE / "03c-find-scan-indexerror" / "plain-0", what)
    assert status == 3
    assert out.startswith("offset: 1" if what == "latest" else "offset: 0 timestamp: 1700000000000 ")


def test_a_broker_reads_no_more_of_a_message_in_a_wrapper_than_its_offset_when_it_starts() -> None:
    """What UnifiedLog of Kafka 4.3.1 says: it loads, from 0 to 40, and leaves the log as it is."""
    _, out, _ = run("verify", "--start", "clean", "--format", "lines", HOSTILE / "predict-mixed")
    (prediction,) = [line for line in out.splitlines() if line.startswith("prediction ")]
    assert " loads=true logStartOffset=0 logEndOffset=40 bytesLost=0 recordsLost=0 " in prediction
    (segment,) = [line for line in out.splitlines() if line.startswith("prediction.segments ")]
    assert " baseOffset=0 " in segment
    assert segment.endswith(" size=2043")


# --- nothing raw on a terminal --------------------------------------------------------------------------------
RED = "\x1b[31mred\nline\u202e\x9b"


@pytest.mark.parametrize(
    "args",
    [
        [RED],
        ["dump", f"--{RED}"],
        ["dump", "--limit", RED, "x"],
        ["dump", "--format", RED, "x"],
        ["dump", RED],
        ["verify", RED],
        ["verify", "--now", RED, "--start", "clean", "x"],
        ["find-offset", RED, "0"],
        ["find-offset", "x", RED],
        ["find-time", "x", RED],
        ["truncate", RED, "--to-offset", "1"],
        ["truncate", "x", "--to-offset", RED],
        ["reindex", "--config", RED, "x"],
        ["patch-header", RED],
        ["undo", RED],
        ["resume", RED],
        ["retention", "--set", RED, "x"],
        ["export", "--table", RED, "x"],
        ["partition-for", RED, "--partitions", RED],
        ["groups", "--at", RED, "x"],
        ["groups", RED],
        ["transactions", "--at", RED, "x"],
        ["cluster", "--diff", RED, "end", "x"],
        ["cluster", RED],
    ],
    ids=lambda args: args[0] if args[0] != RED else "command",
)
def test_no_argument_reaches_the_terminal_raw(args: list[str]) -> None:
    _, out, said = run(*args)
    for text in (out, said):
        assert not {"\x1b", "\u202e", "\x9b"} & set(text)
        assert "red\nline" not in text
    assert "red" in said


def test_a_bug_is_told_with_its_place_and_nothing_raw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody waits for is status 1, with lines that can be shown and reported."""

    def fail(path: str) -> None:
        raise TypeError(f"'<' not supported in {path}" + "x" * 10_000)

    monkeypatch.setattr("kdump.__main__.signal.signal", lambda *_: None)  # those of the tests stay
    monkeypatch.setattr("kdump.cli.main.kdump", lambda *_, **__: fail(RED))
    with pytest.raises(SystemExit) as ended, contextlib.redirect_stderr(io.StringIO()) as stderr:
        main()
    *lines, last = stderr.getvalue().splitlines()
    assert ended.value.code == 1
    assert lines[0].startswith("kdump: a bug, in kdump ")
    assert re.search(r"test_trust\.py:\d+ in fail$", lines[-2])
    assert last.startswith(r"kdump: TypeError: '<' not supported in \x1b[31mred\x0aline\u{202e}\x9bxxx")
    assert last.endswith("...: a bug in kdump, not in your files; please report it with the lines above")
    assert all(line.isascii() and line.isprintable() for line in (*lines, last))


@pytest.mark.parametrize(
    ("module", "package"), [("click", "click"), ("rich.cells", "rich"), ("snappy", "python-snappy")]
)
def test_a_package_that_is_not_installed_is_one_line_with_how_to_install_it(module: str, package: str) -> None:
    """It is no bug: `python -m kdump` in a clone where nothing was installed."""
    lines = [
        "import sys",
        f"sys.modules[{module.partition('.')[0]!r}] = None",
        "from kdump.cli.bug import report_bug",
        f"sys.exit(report_bug(ModuleNotFoundError('No module named x', name={module!r})))",
    ]
    done = subprocess.run(
        [sys.executable, "-S", "-c", "\n".join(lines)], capture_output=True, text=True, check=False, env=ENVIRONMENT
    )
    assert (done.returncode, done.stdout) == (2, "")
    told = f"kdump: the Python package {package} is not installed; to install it: .* -m pip install .*\n"
    assert re.fullmatch(told, done.stderr)


def test_a_module_of_kdump_that_is_not_there_is_a_bug(capsys: pytest.CaptureFixture[str]) -> None:
    assert report_bug(ModuleNotFoundError("No module named 'kdump.gone'", name="kdump.gone")) == 1
    assert "a bug in kdump" in capsys.readouterr().err


def test_without_any_package_kdump_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "kdump").symlink_to(Path(kdump.__file__).parent)  # and nothing that is installed beside it
    done = subprocess.run(
        [sys.executable, "-S", "-m", "kdump", "--version"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**ENVIRONMENT, "PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 2
    assert done.stderr.startswith("kdump: the Python package click is not installed; to install it: ")


def test_the_cause_of_a_bug_is_told_too_and_an_endless_recursion_is_not_told_whole() -> None:
    def deep() -> None:
        deep()

    try:
        try:
            deep()
        except RecursionError as error:
            raise KeyError(b"\xff\x1b") from error
    except KeyError as error:
        lines = bug_lines(error)
    assert len(lines) < 60
    assert any("RecursionError" in line for line in lines)
    assert "KeyError" in lines[-1]
