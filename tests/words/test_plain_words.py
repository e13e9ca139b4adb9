"""Plain words: what no message, no help text and no page may say, and how long the pages may be."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from tests.support.sources import trees

if TYPE_CHECKING:
    from collections.abc import Iterator

NEVER = (
    r"\bnobody\b",
    r"\bknowingly\b",
    r"\bof them\b",
    r"\bwhat is there\b",
    r"\bwitness(es)?\b",
    r"\bout again\b",
    r"\bno room for\b",
    r"\bwill do for\b",
    r"\bnothing else is to be done\b",
    r"\b(does|do|can) not mend\b",
    r"\bhas been here up to\b",
    r"\bTake back\b",
    r"\brecords? known, those\b",
    r"\bwithout time index\b",
    r"\bhas no name of its own\b",
    r"\bnone -> \d",
    r"(^|\n)(    )?(Say|Tell)s? (what|which|how|too|on|where|whether)\b",
)
"""What people stumbled over; beside each stands nothing, for a plain sentence fits each place anew."""

_IDENTIFIER = re.compile(r"[\w.:+-]*")


def _shown(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and text of each string of a module that may be shown: all but docstrings of what is no command."""
    docs = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        is_command = isinstance(node, ast.FunctionDef) and "click.command" in "".join(
            map(ast.unparse, node.decorator_list)
        )
        if isinstance(body, list) and not is_command:
            docs |= {id(one.value) for one in body if isinstance(one, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.lineno, node.value


def test_no_message_and_no_help_says_it() -> None:
    never = re.compile("|".join(NEVER))
    found = [
        f"{name}:{line}: {text}"
        for name, tree in trees().items()
        for line, text in _shown(tree)
        if never.search(text) and not _IDENTIFIER.fullmatch(text)
    ]
    assert found == []
