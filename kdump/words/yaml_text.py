"""YAML that every reader takes for the same: keys and texts in double quotes, in printable ASCII.

Unquoted, `no`, `1e3`, `0x10` and `2026-11-21` are no texts, and which ones are depends on the reader. Escapes are those
that YAML 1.1 and 1.2 have in common.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.value import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Node = str | int | list["Node"] | Mapping[str, "Node"]

_PLAIN_KEY = pattern(r"[A-Za-z][A-Za-z0-9./]*")
_NO_TEXT = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
_MOST_IN_KEY = 1000  # characters: a longer key has to be announced
_SAME = frozenset(map(chr, range(0x20, 0x7F))) - set('"\\')


def quoted(text: str) -> str:
    """Return a text as YAML."""
    return '"' + "".join([one if one in _SAME else _escaped(one) for one in text]) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    number = ord(char)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def document(made: Mapping[str, Node]) -> str:
    """Return a document, with the line that begins it.

    Args:
        made: by key; maps and lists without anything in them are written so.
    """
    return "\n".join(["---", *_lines(made, "")]) + "\n"


def _lines(node: Mapping[str, Node] | list[Node], indent: str) -> Iterator[str]:
    """The lines of a map or a list that is not empty."""
    if isinstance(node, list):
        for one in node:
            yield from _entry(f"{indent}-", one, indent + "  ")
        return
    for name, one in node.items():
        key = name if _PLAIN_KEY.fullmatch(name) and name.lower() not in _NO_TEXT else quoted(name)
        if len(key) > _MOST_IN_KEY:
            yield f"{indent}? {key}"
            key = ""
        yield from _entry(f"{indent}{key}:", one, indent + "  ")


def _entry(begin: str, node: Node, indent: str) -> Iterator[str]:
    if isinstance(node, str):
        yield f"{begin} {quoted(node)}"
    elif isinstance(node, int):
        yield f"{begin} {node}"
    elif not node:
        yield f"{begin} {'[]' if isinstance(node, list) else '{}'}"
    elif begin.endswith("-"):
        first, *others = _lines(node, indent)
        yield f"{begin} {first[len(indent) :]}"
        yield from others
    else:
        yield begin
        yield from _lines(node, indent)
