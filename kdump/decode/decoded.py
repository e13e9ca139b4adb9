"""A decoded record, and the types of decoders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

DELETED = b"<DELETE>"
"""The payload of a tombstone."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """A record as a decoder shows it.

    The objects are shared between records with the same key: they are not to be changed.
    """

    key: bytes | None  # UTF-8 text after " key: ", None where it is not printed
    payload: bytes | None  # UTF-8 text after " payload: ", None where it is not printed
    # Java ended the run here: the text after 'Exception in thread "main" '; key and payload hold what was printed
    # before it (nothing: Java prints when it has read both)
    stop: str | None = None
    key_object: object | None = None  # JSON-able {"type": ..., "data": ...} of the key; None where there is only text
    # JSON-able {"version": ..., "data": ...} of the value, with "type" where the key has none; None where there is only
    # text
    payload_object: object | None = None
    # what Kafka passes over in silence: "N bytes after the key record"; of an open decoder also what could not be read,
    # and why
    warning: str | None = None
    note: str | None = None  # what an open decoder does not know, and left as it found it

    @property
    def shown_key(self) -> object:
        """The key as JSON has it: the object, or the text where there is none."""
        return _shown(self.key_object, self.key)

    @property
    def shown_payload(self) -> object:
        """The payload as JSON has it: the object, or the text where there is none."""
        return _shown(self.payload_object, self.payload)


NULL = object()
"""The object of a key or payload whose JSON is null: there is one, as there is none for text alone."""


def _shown(made: object | None, text: bytes | None) -> object:
    if made is None:
        return None if text is None else text.decode()
    return None if made is NULL else made


Value = Any
Decoder = Callable[[int, bytes | None, bytes | None], Decoded]
Texts = tuple[bytes | None, bytes]
Usual = Callable[[bytes | None, bytes | None], Texts | None]


def in_bytes(data: bytes) -> dict[str, Value]:
    """Return bytes that no schema covers as JSON has them."""
    from base64 import b64encode

    return {"base64": b64encode(data).decode("ascii")}
