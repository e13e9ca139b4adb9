"""Keys and values in the forms of --key-format and --value-format.

What has not the form is still shown, and never looks as if it had: numbers of another size as 0x and hexadecimal
digits, what is not JSON as text.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import TYPE_CHECKING

from kdump.decode.decoded import NULL, Decoded
from kdump.decode.java_text import java_utf8
from kdump.value import pattern

if TYPE_CHECKING:
    from kdump.decode.decoded import Decoder

_SIZES = {"int": 4, "long": 8}
_TOKEN = pattern(r'"(?:[^"\\]|\\.)*"|[^\s"]+')


class Form:
    """One form: bytes to text, and to a JSON value.

    Args:
        name: utf8, hex, base64, int, long or json.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def text(self, data: bytes) -> bytes:
        """Return bytes as UTF-8 text; the text of json is one line."""
        if self._name == "utf8":
            return java_utf8(data)
        if self._name == "json":
            made = one_line(data)
            return java_utf8(data) if made is None else made
        value = self._value(data)
        return b"0x" + data.hex().encode() if value is None else str(value).encode()

    def object(self, data: bytes) -> object:
        """Return bytes as a JSON value, NULL for null; what has not the form as an object with Base64."""
        value: object
        if self._name == "json":
            value = _exact(data)
            value = NULL if value is None else value
        elif self._name == "utf8":
            value = _utf8(data)
        else:
            value = self._value(data)
            value = _NO_JSON if value is None else value
        return {"base64": base64.b64encode(data).decode("ascii")} if value is _NO_JSON else value

    def _value(self, data: bytes) -> int | str | None:
        if self._name == "hex":
            return data.hex()
        if self._name == "base64":
            return base64.b64encode(data).decode("ascii")
        return int.from_bytes(data, "big", signed=True) if len(data) == _SIZES[self._name] else None


_NO_JSON = object()


def decoder(key_form: str, value_form: str) -> Decoder:
    """Return the decoder of two forms.

    Args:
        key_form, value_form: utf8, hex, base64, int, long or json.
    """
    of_key, of_value = Form(key_form), Form(value_form)

    def decode(_offset: int, key: bytes | None, value: bytes | None) -> Decoded:
        return Decoded(
            None if key is None else of_key.text(key),
            None if value is None else of_value.text(value),
            key_object=None if key is None else of_key.object(key),
            payload_object=None if value is None else of_value.object(value),
        )

    return decode


def parse(form: str, text: str) -> bytes:
    """Return the bytes that a form shows as a text.

    Args:
        form: hex, base64, int or long.
        text: as the user wrote it.

    Raises:
        ValueError: it is not in the form.
    """
    if form == "hex":
        if not re.fullmatch(r"(0x)?([0-9a-fA-F]{2})*", text):
            raise ValueError(f"'{text}' is not hexadecimal: two digits a byte")
        return bytes.fromhex(text.removeprefix("0x"))
    if form == "base64":
        try:
            return base64.b64decode(text.encode(), validate=True)
        except (binascii.Error, UnicodeEncodeError):
            raise ValueError(f"'{text}' is not Base64") from None
    size = _SIZES[form]
    if (
        not re.fullmatch(r"[+-]?[0-9]{1,19}", text, re.ASCII)
        or not -(1 << 8 * size - 1) <= int(text) < 1 << 8 * size - 1
    ):
        raise ValueError(f"'{text}' is not an integer of {size} bytes")
    return int(text).to_bytes(size, "big", signed=True)


def one_line(data: bytes) -> bytes | None:
    """Return JSON without the white space between its tokens, numbers and names as they stand; None for no JSON."""
    try:
        text = data.decode("utf-8")
        _loaded(data)
    except (ValueError, RecursionError):
        return None
    return "".join(_TOKEN.findall(text)).encode()


def _loaded(data: bytes) -> object:
    return json.loads(data.decode("utf-8"), parse_constant=_refuse)


def _exact(data: bytes) -> object:
    """JSON as a value that can be written as JSON again: a number beyond all floats cannot."""
    if one_line(data) is None:
        return _NO_JSON
    value = _loaded(data)
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return _NO_JSON
    return value


def _refuse(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _utf8(data: bytes) -> object:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _NO_JSON
