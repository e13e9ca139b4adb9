"""The shape of the code: what a reader can hold in mind at once.

How complex a function may be, ruff says for all but kernels: 12, in pyproject.toml, where the kernels that go beyond 25
are named.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache

import pytest

from tests.support.sources import is_kernel, trees

pytestmark = pytest.mark.quick

MOST_ATTRIBUTES = 15
MOST_BY_PLACE = 6


def assigned(function: ast.FunctionDef) -> set[str]:
    """The attributes of self that a method assigns."""
    found = set()
    for node in ast.walk(function):
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        for target in targets:
            for each in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(each, ast.Attribute) and ast.unparse(each.value) == "self":
                    found.add(each.attr)
    return found


def test_no_class_changes_more_attributes_than_one_can_follow() -> None:
    over = {}
    for name, tree in trees().items():
        for one in ast.walk(tree):
            if isinstance(one, ast.ClassDef):
                methods = [node for node in one.body if isinstance(node, ast.FunctionDef) and node.name != "__init__"]
                later = set[str]().union(*map(assigned, methods))
                if len(later) > MOST_ATTRIBUTES:
                    over[f"{name} {one.name}"] = sorted(later)
    assert over == {}


@cache
def takers() -> dict[str, bool]:
    """The names of functions and classes of kdump; whether one of that name takes any number of arguments."""
    found = defaultdict[str, bool](bool)
    for tree in trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name] |= False
            elif isinstance(node, ast.FunctionDef):
                found[node.name] |= node.args.vararg is not None
    return found


def test_no_call_gives_more_arguments_by_place_than_one_can_count() -> None:
    over = []
    for name, tree in trees().items():
        for node in ast.walk(tree) if not is_kernel(name) else ():
            if isinstance(node, ast.Call) and len(node.args) > MOST_BY_PLACE:
                called = ast.unparse(node.func).rpartition(".")[2]
                if takers().get(called) is False:
                    over.append(f"{name}:{node.lineno} {called} {len(node.args)}")
    assert over == []
