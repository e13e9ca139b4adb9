"""No module but `words/command.py` makes a command of text: the sources are read for one that has a value in it."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kdump
from kdump.cli.main import TASKS
from kdump.words.command import PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(kdump.__file__).resolve().parent
HOME = PACKAGE / "words" / "command.py"
VALUE = "\0"
VERBS = "|".join(verb for verbs in TASKS.values() for verb in verbs)
COMMANDS = re.compile(
    rf"(?<![\w./-])(?:kdump (?:{VERBS}|{VALUE})|kafka-[a-z-]+\.sh|(?:pip|pipx|uv) install|chmod|chown|chgrp|mv|cp|rm"
    r"|ln|mkdir|dd|ddrescue|gunzip|tar|systemctl \w+|sudo|kill|touch|sed|rsync|mount|umount)(?=[\s{]|$)"
)
PROSE = re.compile(r"(?!abort$)[a-z]+")  # a word that only a sentence has, not a command behind its first two words


NO_VERBS = ("cli/main.py", "cli/bug.py", "spark/jobs.py")
"""Here a value behind `kdump` is its version, or the name of a job."""


def shapes(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Texts that are made with values: the line, and the text with VALUE for each of these."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(_shape(one) for one in node.values)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            if isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
                yield node.lineno, re.sub(r"%[-\w.]*[sdr]", VALUE, node.left.value)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            yield node.lineno, _shape(node.left) + _shape(node.right)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            whose = node.func.value
            if isinstance(whose, ast.Constant) and isinstance(whose.value, str):
                if node.func.attr in ("format", "format_map"):
                    yield node.lineno, re.sub(r"\{[^}]*\}", VALUE, whose.value)
                elif node.func.attr == "join" and node.args:
                    parts = node.args[0].elts if isinstance(node.args[0], ast.List | ast.Tuple) else []
                    yield node.lineno, whose.value.join(_shape(one) for one in parts)


def _shape(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_shape(one) for one in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _shape(node.left) + _shape(node.right)
    return VALUE


def commands_with_values(shape: str) -> list[str]:
    """The commands in a text that have a value among their words, before the sentence goes on."""
    found = []
    for begin in COMMANDS.finditer(shape):
        rest = re.split(r"[;,()`\n]|:(?=\s|$)| - ", shape[begin.end() :], maxsplit=1)[0]
        words = rest.split()
        told = next((at for at, word in enumerate(words) if at and PROSE.fullmatch(word)), len(words))
        if begin[0].startswith(("kdump", "pip")) and words and PROSE.fullmatch(words[0]):
            told = 0  # "kdump verify tells ..."
        if VALUE in begin[0] or any(VALUE in word for word in words[:told]):
            found.append(begin[0])
    return found


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_module_makes_a_command_of_text(path: Path) -> None:
    if path == HOME:
        return
    tree = ast.parse(path.read_text("utf-8"))
    found = [(line, one) for line, shape in shapes(tree) for one in commands_with_values(shape)]
    if str(path.relative_to(PACKAGE)) in NO_VERBS:
        found = [(line, one) for line, one in found if one != f"kdump {VALUE}"]
    assert found == []


def test_no_module_quotes_for_a_shell_by_itself() -> None:
    quoting = re.compile(r"shlex\.(?:quote|join)|from shlex|command import .*_quoted")
    assert [str(path) for path in PACKAGE.rglob("*.py") if quoting.search(path.read_text("utf-8"))] == []


@pytest.mark.parametrize(
    "source",
    [
        'f"{path}: everybody may write here; take that right away first: chmod o-w {path}"',
        'f"finish it with kdump {verb} {path}"',
        'f"kdump salvage {a}/RUN... --to DIR"',
        '"mkdir -p " + path',
        '"pip install %s" % name',
        '"kdump verify {}".format(path)',
        '" ".join(["mv", "-n", one, to])',
        'f"`kdump groups LOGDIR... --topic {topic}` lists them"',
        'f"kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic {topic}"',
        'f"cp -p {file} {path}/"',
    ],
)
def test_what_must_not_be_is_found(source: str) -> None:
    assert [found for _, text in shapes(ast.parse(source)) for found in commands_with_values(text)] != []


@pytest.mark.parametrize(
    "source",
    [
        'f"{path}: see kdump verify, and cut {how}"',
        'f"a broker still writes to {whose}; kdump verify without --scrub reads {whose} too"',
        'f"this kdump writes {version}"',
        'f"kdump cluster tells it of __cluster_metadata-0 (topic {topic} topicId=ID)"',
    ],
)
def test_sentences_are_none(source: str) -> None:
    assert [found for _, text in shapes(ast.parse(source)) for found in commands_with_values(text)] == []


def called(name: str) -> Iterator[tuple[Path, ast.Call]]:
    """The calls of a function or class, with where they stand."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                yield path, node


def test_each_program_is_one_of_the_table() -> None:
    """What keeps commands whole on a terminal knows them by that."""
    seen = {"kdump"}
    for path, call in called("ShellCommand"):
        first = call.args[0] if call.args else None
        if isinstance(first, ast.Constant) and path != HOME:
            seen.add(str(first.value))
    assert seen - set(PROGRAMS) == set()
