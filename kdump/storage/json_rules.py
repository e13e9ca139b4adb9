"""What JSON that kdump has written may have: rules for types, ranges and names.

What leads the hand that writes is not taken on trust: each value is looked at before anything is opened by it. An error
names the path of the first bad value.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

Rule = Callable[[object, str], None]
"""Takes a value and its path, and raises BadValueError."""

_MOST_TEXT = 64 * 1024  # characters
_MOST_ITEMS = 1_000_000
_MOST_NAME = 255  # bytes
_MOST_PATH = 4096
_SPACES = (" ", "\t", "\n", "\r")
_MOST_SHOWN = 200  # characters of a path in a message: keys are data too
_MOST_VALUES = 750_000  # in one piece of JSON, as far as commas tell: what they take in memory


class BadValueError(ValueError):
    """A value is not what it must be.

    Args:
        path: of the value, as in `changes[0].before.mode`.
        why: ends the sentence that begins with the path.
    """

    def __init__(self, path: str, why: str) -> None:
        shown = path if len(path) <= _MOST_SHOWN else f"{path[:_MOST_SHOWN]}..."
        super().__init__(f"{shown} {why}")


def number(low: int, high: int) -> Rule:
    """An integer in [low, high]."""

    def rule(value: object, path: str) -> None:
        if not isinstance(value, int) or isinstance(value, bool):
            raise BadValueError(path, f"is {_kind(value)}, not an integer")
        if not low <= value <= high:
            raise BadValueError(path, f"is not from {low} to {high}")

    return rule


def one_of(*allowed: object) -> Rule:
    """One of some values, of the same type."""

    def rule(value: object, path: str) -> None:
        if not any(type(value) is type(one) and value == one for one in allowed):
            raise BadValueError(path, f"is none of {', '.join(map(str, allowed))}")

    return rule


def text(value: object, path: str, most: int = _MOST_TEXT) -> None:
    """Characters that a file name may have: raw bytes as surrogates of the os module, no NUL."""
    if not isinstance(value, str):
        raise BadValueError(path, f"is {_kind(value)}, not text")
    try:
        size = len(os.fsencode(value))
    except UnicodeEncodeError:
        raise BadValueError(path, "has characters that no file name can have") from None
    if "\0" in value or size > most:
        raise BadValueError(path, "has a NUL" if "\0" in value else f"has more than {most} bytes")


def of_form(form: str) -> Rule:
    """A name that kdump gives itself.

    Args:
        form: the regular expression that all of it fits.
    """

    def rule(value: object, path: str) -> None:
        text(value, path)
        if re.fullmatch(form, str(value)) is None:
            raise BadValueError(path, "is no name that kdump gives")

    return rule


def anything(_value: object, _path: str) -> None:
    """Any value: it is compared as a whole."""


def name(value: object, path: str) -> None:
    """A name that stays in its directory."""
    text(value, path, _MOST_NAME)
    if value in ("", ".", "..") or "/" in str(value):
        raise BadValueError(path, "is not the name of a file")


def directory(value: object, path: str) -> None:
    """An absolute path without detours."""
    text(value, path, _MOST_PATH)
    if not str(value).startswith("/") or os.path.normpath(str(value)) != value:
        raise BadValueError(path, "is not an absolute path without detours")


def hexes(digits: int | None = None) -> Rule:
    """Bytes in small hexadecimal digits: so many digits, or an even number and at least two."""

    def rule(value: object, path: str) -> None:
        text(value, path)
        found = str(value)
        if not found or len(found) % 2 or (digits is not None and len(found) != digits):
            raise BadValueError(path, f"does not have {digits or 'an even number of'} hexadecimal digits")
        if set(found) - set("0123456789abcdef"):
            raise BadValueError(path, "has characters that are not hexadecimal digits")

    return rule


def encoded(value: object, path: str) -> None:
    """Bytes in Base64."""
    text(value, path, 2 * _MOST_TEXT)
    in_base64(value, path)


def in_base64(value: object, path: str) -> None:
    """Bytes in Base64, of any number."""
    try:
        base64.b64decode(str(value), validate=True)
    except (binascii.Error, ValueError):
        raise BadValueError(path, "is not Base64") from None


def maybe(inner: Rule) -> Rule:
    """A rule that also allows null."""

    def rule(value: object, path: str) -> None:
        if value is not None:
            inner(value, path)

    return rule


def items(inner: Rule, least: int = 0) -> Rule:
    """An array."""

    def rule(value: object, path: str) -> None:
        if not isinstance(value, list) or not least <= len(value) <= _MOST_ITEMS:
            raise BadValueError(path, f"is {_kind(value)}, not an array of {least} to {_MOST_ITEMS} values")
        for at, one in enumerate(value):
            inner(one, f"{path}[{at}]")

    return rule


def each_of(*rules: Rule) -> Rule:
    """An array with just so many values, each with its own rule."""

    def rule(value: object, path: str) -> None:
        if not isinstance(value, list) or len(value) != len(rules):
            raise BadValueError(path, f"is {_kind(value)}, not an array of {len(rules)} values")
        for at, (one, inner) in enumerate(zip(value, rules, strict=True)):
            inner(one, f"{path}[{at}]")

    return rule


def members(key: Rule, inner: Rule) -> Rule:
    """An object whose keys are data."""

    def rule(value: object, path: str) -> None:
        for one, content in an_object(value, path).items():
            key(one, f"{path}: a key")
            inner(content, f"{path}.{one}")

    return rule


def fields(rules: dict[str, Rule], others: dict[str, Rule] | None = None, *, more: bool = False) -> Rule:
    """An object with just these keys.

    Args:
        rules: of its values, by key.
        others: of those that may be there or not.
        more: any others may be there too, and count for nothing.
    """

    def rule(value: object, path: str) -> None:
        found, before = an_object(value, path), f"{path}." if path else ""
        for key, inner in rules.items():
            if key not in found:
                raise BadValueError(f"{before}{key}", "is missing")
            inner(found[key], f"{before}{key}")
        for key, content in found.items():
            if others is not None and key in others:
                others[key](content, f"{before}{key}")
            elif not more and key not in rules:
                raise BadValueError(f"{before}{key}", "is not known")

    return rule


def bounded(data: bytes) -> bytes:
    """Return JSON that can be read in a bounded memory.

    Raises:
        BadValueError: it has too many values.
    """
    if data.count(b",") > _MOST_VALUES:
        raise BadValueError("all of it", f"has more than {_MOST_VALUES} values")
    return data


def parsed(data: bytes) -> object:
    """Return what JSON says.

    Raises:
        BadValueError: it is none, or nested too deep.
    """
    try:
        return json.loads(data.decode("utf-8"))
    except RecursionError:
        raise BadValueError("all of it", "is nested too deep") from None
    except ValueError as error:
        raise BadValueError("all of it", f"is no JSON: {error}") from None


def array_in(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the objects of an array, one after the other: they are not all held.

    Raises:
        BadValueError: it is no array of objects, or nested too deep.
    """
    try:
        whole = data.decode("utf-8")
    except ValueError as error:
        raise BadValueError("all of it", f"is no JSON: {error}") from None
    decoder, count = json.JSONDecoder(), 0
    at = _behind_space(whole, _behind_space(whole, 0) + 1)  # the first is the bracket
    is_end = whole[at : at + 1] == "]"
    while not is_end:
        try:
            value, at = decoder.raw_decode(whole, at)
        except RecursionError:
            raise BadValueError(f"[{count}]", "is nested too deep") from None
        except ValueError as error:
            raise BadValueError("all of it", f"is no JSON: {error}") from None
        yield an_object(value, f"[{count}]")
        count += 1
        at = _behind_space(whole, at)
        is_end = whole[at : at + 1] == "]"
        if not is_end and whole[at : at + 1] != ",":
            raise BadValueError("all of it", f"is no JSON: a comma or the end is missing at character {at}")
        at = at if is_end else _behind_space(whole, at + 1)
    if whole[at + 1 :].strip():
        raise BadValueError("all of it", f"is no JSON: there is more behind its end, at character {at + 1}")


def _behind_space(whole: str, at: int) -> int:
    while whole[at : at + 1] in _SPACES:
        at += 1
    return at


def an_object(value: object, path: str) -> dict[str, Any]:
    """Return a value that must be an object."""
    if not isinstance(value, dict):
        raise BadValueError(path or "all of it", f"is {_kind(value)}, not an object")
    return value


def _kind(value: object) -> str:
    kinds = {bool: "true or false", int: "a number", float: "a number", str: "a text", list: "an array"}
    return "null" if value is None else kinds.get(type(value), "an object")
