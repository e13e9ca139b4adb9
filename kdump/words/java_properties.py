"""Lines of a properties file, as Java reads them: any name and any value, in printable ASCII.

Source: Properties.load.
"""

from __future__ import annotations

_PLAIN = frozenset(map(chr, range(0x21, 0x7F))) - {"\\"}
_IN_NAME = _PLAIN - set(":=#!")


def property_line(name: str, value: str) -> str:
    """Return the line of a property.

    Args:
        name: of it.
        value: every blank and control character counts.
    """
    begin = len(value) - len(value.lstrip(" "))
    inner = value[begin:].split(" ")
    return _written(name, _IN_NAME) + "=" + "\\u0020" * begin + " ".join([_written(one, _PLAIN) for one in inner])


def _written(text: str, plain: frozenset[str]) -> str:
    return "".join([one if one in plain else _escaped(one) for one in text])


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join([f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2)])
