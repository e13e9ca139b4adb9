"""Text from files and arguments made safe: it cannot control a terminal or break a line."""

from __future__ import annotations

from functools import lru_cache

_UNSAFE_CATEGORIES = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))


def escape(text: str) -> str:
    r"""Return the text with control characters, bidi marks and the like written as escapes.

    Args:
        text: any text; bytes of a file name that were not UTF-8 are there as surrogates, as the os module has them.

    Returns:
        The same text where it is harmless; `\xNN` for C0, C1 and raw bytes, `\u{N}` for the rest. A backslash stays
        single: this is for people, not for reading back.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_safe, text))


@lru_cache(4096)
def _safe(char: str) -> str:
    value = ord(char)
    if 0xDC80 <= value <= 0xDCFF:
        return f"\\x{value - 0xDC00:02x}"
    if value < 0x20 or 0x7F <= value < 0xA0:
        return f"\\x{value:02x}"
    from unicodedata import category  # a library of its own, for what is not ASCII

    if category(char) in _UNSAFE_CATEGORIES:
        return f"\\u{{{value:x}}}"
    return char


def escape_bytes(data: bytes) -> bytes:
    """Return the bytes of a key, value or name as UTF-8 text that is safe on a terminal."""
    return escape(data.decode("utf-8", "surrogateescape")).encode("utf-8")
