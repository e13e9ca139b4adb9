"""Hands the kernels buffers that end where what they may read ends, so that a sanitizer sees the first byte too much.

kdump reads into large buffers that it uses again: a kernel that reads on finds old bytes there, and nobody notices.
With this directory on PYTHONPATH each function of a compiled kernel is called with copies instead: of what it reads
up to the end that its arguments say, and of what it writes in its true size. A function that takes bytes and has no
rule here cannot be imported. Only the sanitizer leg of `.ci/run` does this; nothing of kdump knows of it.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import sys
from array import array
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ExtensionFileLoader, PathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    Rule = Callable[[dict[str, Any]], int]

HEADER = 61  # bytes that a header of magic 2 has: what a guess at a header may read
LEGACY_HEADER = 26  # up to the timestamp of magic 1


def end_of_batches(batches: array[int], first: int, last: int, origin: int) -> int:
    """Where in the window the last byte of the batches [first, last) ends."""
    from kdump.format.batch import layout

    rows = (batches[k * layout.BATCH_WIDTH : (k + 1) * layout.BATCH_WIDTH] for k in range(first, last))
    return max((row[layout.POSITION] - origin + row[layout.SIZE] for row in rows), default=0)


def end_of_records(rows: array[int], first: int, last: int) -> int:
    """Where in the buffer the last byte of the record rows [first, last) ends."""
    from kdump.format.batch import layout

    return max((rows[i * layout.RECORD_WIDTH + layout.R_END] for i in range(first, last)), default=0)


def of_rows(given: dict[str, Any]) -> int:
    return end_of_records(given["rows"], given.get("first", 0), given["n"])


def of_records(given: dict[str, Any]) -> int:
    return end_of_records(given["records"], given.get("r", 0), given["n"])


def of_rewritten(given: dict[str, Any]) -> int:
    window = end_of_batches(given["batches"], given["first"], given["last"], given["origin"])
    return max(window, end_of_records(given["rows"], given["start"], given["n"]))


# Where what a function may read of `view` ends, by its name and its arguments.
RULES: dict[str, Rule] = {
    "scan": lambda given: given["length"],
    "header_row": lambda given: given["at"] + (HEADER if given["magic"] >= 2 else LEGACY_HEADER),
    "plausible": lambda given: given["at"] + HEADER,
    "candidate": lambda given: max(given["start"], given["stop"] - 1) + HEADER if given["stop"] > given["start"] else 0,
    "candidates": lambda given: given["n"],
    "zeros_until": lambda given: given["stop"],
    "fill_crcs": lambda given: end_of_batches(given["rows"], 0, given["n"], given["origin"]),
    "read_plain": lambda given: end_of_batches(given["batches"], given["first"], given["last"], given["origin"]),
    "read_stream": lambda given: given["stop"],
    "read_messages": lambda given: given["stop"],
    "read_pieces": lambda given: given["stop"],
    "whole_headers": lambda given: given["stop"],
    "upsert": lambda given: end_of_records(given["rows"], given["first"], given["filled"]),
    "by_name": lambda given: end_of_records(given["rows"], given["start"], given["n"]),
    "put": of_rows,
    "judge": of_rows,
    "encode": of_rows,
    "rewrite": of_rewritten,
    "with_keys": of_records,
    "with_pattern": of_records,
    "with_headers": of_records,
    "headers": lambda given: given["stop"],
    "header_keys": lambda given: given["stop"],
    "text_is_plain": lambda given: given["start"] + given["n"],
    "render": of_records,
    "records": of_rows,
    "copy_field": of_rows,
    "header_room": of_rows,
    "copy_headers": of_rows,
}
WHOLE = frozenset({"data", "wanted", "keep", "other_names"})  # what is read in its full size


def exact(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The same function, called with buffers of exact size; itself where it takes no bytes."""
    signature = inspect.signature(function)
    kinds = {parameter.name: str(parameter.annotation) for parameter in signature.parameters.values()}
    read = [name for name, kind in kinds.items() if "const[" in kind and "uchar" in kind]
    written = [name for name, kind in kinds.items() if "uchar" in kind and "const[" not in kind]
    if not read and not written:
        return function
    if "view" in read and name not in RULES:
        raise ImportError(f"{name} takes a view: say in RULES where what it may read ends")
    if unknown := set(read) - WHOLE - {"view"}:
        raise ImportError(f"{name} reads {unknown}: say in WHOLE that it may read all of it")

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        given = bound.arguments
        for part in read:
            size = len(given[part])
            if size:
                given[part] = copy(given[part], min(size, RULES[name](given) if part == "view" else size))
        originals = {part: given[part] for part in written if len(given[part])}
        for part, original in originals.items():
            given[part] = copy(original, len(original))
        try:
            return function(*bound.args, **bound.kwargs)
        finally:
            for part, original in originals.items():
                memoryview(original)[:] = given[part]

    return called


def copy(data: Any, end: int) -> array[int]:
    """Bytes in an allocation of their size; one at least, as a kernel asks for the address of the first.

    An array that is made from bytes has room to grow, a repeated one has not.
    """
    size = max(1, end)
    made = array("B", b"\0") * size
    part = memoryview(data)[:size]
    memoryview(made)[: len(part)] = part
    return made


class ExactLoader(Loader):
    """Loads a compiled kernel and puts the wrappers into it."""

    def __init__(self, loader: ExtensionFileLoader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        for name, value in list(vars(module).items()):
            is_own = not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
            if is_own and callable(value) and not isinstance(value, type):
                setattr(module, name, exact(value, name))


class Finder(MetaPathFinder):
    """Finds the compiled modules of kdump as the import system does."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith("kdump."):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or not isinstance(spec.loader, ExtensionFileLoader):
            return None
        return importlib.util.spec_from_file_location(name, spec.origin, loader=ExactLoader(spec.loader))


sys.meta_path.insert(0, Finder())
