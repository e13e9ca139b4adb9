"""The modules of kdump as text and as trees: for tests that hold how the code is written."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import kdump

HOME = Path(kdump.__file__).resolve().parent
_KERNEL = re.compile(r"(.*/)?_[a-z]\w*\.py")


@cache
def texts() -> dict[str, str]:
    """The text of each module, by its path in the package."""
    return {str(file.relative_to(HOME)): file.read_text("utf-8") for file in sorted(HOME.rglob("*.py"))}


@cache
def trees() -> dict[str, ast.Module]:
    """The tree of each module, by its path in the package."""
    return {name: ast.parse(text) for name, text in texts().items()}


def is_kernel(name: str) -> bool:
    """Tell whether a module is a kernel: C written in Python, with constants of its own, and calls without names."""
    return _KERNEL.fullmatch(name) is not None
