"""Plain words: what no message, no help text and no page may say, and how long the pages may be."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from tests.support.consoles import MAN
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


SPARE = ("Who produced the batch that nobody can read?",)
"""Text of others in pages: a comment in an example."""


def test_no_page_says_it() -> None:
    never = re.compile("|".join(NEVER))
    found = [
        f"{page.name}:{number}: {line}"
        for page in sorted(MAN.glob("*.[1357]"))
        for number, line in enumerate(page.read_text("ascii").splitlines(), 1)
        if never.search(line) and not any(one in line for one in SPARE)
    ]
    assert found == []


MOST_WORDS = {
    "kdump-carve.1": 891,
    "kdump-cluster.1": 1697,
    "kdump-completion.1": 258,
    "kdump-du.1": 999,
    "kdump-dump.1": 3989,
    "kdump-explain.1": 522,
    "kdump-export.1": 2460,
    "kdump-find-offset.1": 1353,
    "kdump-find-time.1": 1563,
    "kdump-findings.7": 13413,
    "kdump-fleet.7": 838,
    "kdump-groups.1": 1571,
    "kdump-json.5": 11565,
    "kdump-partition-for.1": 292,
    "kdump-patch-header.1": 1231,
    "kdump-proof.7": 1230,
    "kdump-python.3": 1769,
    "kdump-reindex.1": 1403,
    "kdump-repair.1": 1414,
    "kdump-resume.1": 425,
    "kdump-retention.1": 2010,
    "kdump-runbooks.7": 6744,
    "kdump-salvage.1": 3143,
    "kdump-schemas.1": 948,
    "kdump-serve.1": 981,
    "kdump-spark.7": 990,
    "kdump-transactions.1": 923,
    "kdump-truncate.1": 1278,
    "kdump-tutorial.7": 3207,
    "kdump-undo.1": 654,
    "kdump-verify.1": 3986,
    "kdump.1": 3576,
}
"""Words a page, macros and examples included: the present number, lowered whenever a page is shortened."""


def words_of_pages() -> dict[str, int]:
    return {page.name: len(page.read_text("ascii").split()) for page in sorted(MAN.glob("*.[1357]"))}


def test_no_page_grows() -> None:
    """The goal of all pages together is 45,000 words."""
    words = words_of_pages()
    assert {name for name, count in words.items() if count > MOST_WORDS[name]} == set()
    assert sum(words.values()) <= sum(MOST_WORDS.values())
