"""Text as Java makes it: decoding of damaged UTF-8, JSON as Jackson prints it, floating point numbers."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from kdump.value import pattern

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

_REPLACEMENT = "\ufffd".encode()
_SURROGATE = pattern(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_ESCAPE = pattern(r"\\(?:u00[01][0-9a-f]|.)")


def java_text(data: bytes) -> str:
    """Decode UTF-8 as Java's String does.

    What is malformed becomes U+FFFD, one for each maximal part of a sequence, as in Python; but an encoded
    surrogate (ED, then A0..BF, then perhaps a continuation byte) gives one for the whole group.

    Source: java.lang.String(byte[], Charset)
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(_REPLACEMENT, data).decode(errors="replace")


def java_utf8(data: bytes) -> bytes:
    """Return what Java prints, on a UTF-8 console, of a string that it decoded from `data`.

    Args:
        data: bytes that should be UTF-8.

    Returns:
        `data` itself when it is valid.
    """
    try:
        data.decode()
    except UnicodeDecodeError:
        return java_text(data).encode()
    return data


def java_json(value: object, floats: bool = True) -> bytes:
    """Return JSON as Jackson's JsonNode.toString prints it, in UTF-8.

    Args:
        value: dict, list, str, int, float, bool or None, nested.
        floats: whether `value` may hold a float; False is faster.

    Source: com.fasterxml.jackson.databind.JsonNode.toString
    """
    text = _with_floats(value) if floats else _encoder()(value)
    if "\\u00" in text:
        text = _ESCAPE.sub(_upper_hex, text)
    return text.encode()


@cache
def _encoder() -> Callable[[object], str]:
    from json import JSONEncoder

    return JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


def _upper_hex(match: re.Match[str]) -> str:
    found = match.group()
    return "\\u" + found[2:].upper() if found[1] == "u" else found


def _with_floats(value: object) -> str:
    if isinstance(value, dict):
        pairs = [f"{_encoder()(str(name))}:{_with_floats(item)}" for name, item in value.items()]
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join([_with_floats(item) for item in value]) + "]"
    if isinstance(value, float):
        text = java_double(value)
        return text if value - value == 0 else f'"{text}"'
    return _encoder()(value)


def java_double(value: float) -> str:
    """Return a double as Java 19 and later print it: the shortest digits that give it back, at least two.

    Java 17 prints one digit more than needed for about 3 in 1000 random bit patterns; that is not mirrored.

    Source: java.lang.Double.toString
    """
    if value - value != 0:
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    sign, digits, point = _digits(value)
    if digits == "0":
        return sign + "0.0"
    if len(digits) == 1:
        closer = f"{abs(value):.1e}"
        if float(closer) == abs(value):
            sign, digits, point = _digits_of(sign, closer)
    if -3 < point <= 7:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        whole = digits[:point].ljust(point, "0")
        return f"{sign}{whole}.{digits[point:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def _digits(value: float) -> tuple[str, str, int]:
    sign = "-" if str(value).startswith("-") else ""
    return _digits_of(sign, repr(abs(value)))


def _digits_of(sign: str, text: str) -> tuple[str, str, int]:
    """Return the sign, the significant digits and the place of the point: 0.digits times 10 to that power."""
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    point = len(whole) + int(exponent or 0)
    digits = whole + fraction
    stripped = digits.lstrip("0")
    point -= len(digits) - len(stripped)
    return sign, stripped.rstrip("0") or "0", point
