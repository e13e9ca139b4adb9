"""Which decoder the records of a file get, and what it finds odd in them."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from kdump.decode import DELETED
from kdump.finding import Code, Finding
from kdump.format.batch import layout
from kdump.format.kinds import FileKind
from kdump.storage.names import parse_partition

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.compat.dialect import Dialect
    from kdump.decode import Decoded, Decoder, Usual
    from kdump.format.record.chunk import Chunk
    from kdump.item import FileStart

AUTO = "auto"  # a decoder for each file, by its directory
_METADATA = "metadata"


if TYPE_CHECKING:
    # What makes, of offset, key and value, the text of a record (with why Kafka's tool ends in it), or its JSON.
    Texts = Callable[[int, bytes | None, bytes | None], bytes | tuple[bytes, str]]
    Objects = Callable[[int, bytes | None, bytes | None], bytes]


class FileDecoder:
    """The decoder for the records of the file in hand.

    Args:
        named: name of a decoder, "auto" to go by the directory of each file, None for none.
        dialect: the release whose words are wanted.
        plain: what reads keys and values that are one value each, in the place of a decoder; None for UTF-8.
        compat: a record at which Kafka's tool dies ends the text there; else it is a finding.
    """

    def __init__(self, named: str | None, dialect: Dialect, plain: Decoder | None = None, *, compat: bool) -> None:
        self._named = named
        self._dialect = dialect
        self._plain = plain
        self._compat = compat
        self._decoders: dict[str, tuple[Decoder, Usual]] = {}
        self._odd: dict[int, str] = {}  # by offset: a line that found no room is made again
        self._path = self._topic = ""
        self._decode = plain
        self._usual: Usual = _nothing_usual
        if named is not None and named != AUTO:
            self._choose(named)

    def begin(self, file: FileStart) -> None:
        """Take the next file in hand."""
        self._path = file.path
        if self._named == AUTO:
            self._choose(self._by_place(file))

    def text(self, first: bytes, escape: Callable[[bytes], bytes] | None) -> Texts | None:
        """Return what makes the text of keys and payloads; None for plain UTF-8.

        Args:
            first: what stands before the first of them.
            escape: makes the text safe on a terminal; None where it goes out as it is.
        """
        decode, usual, compat = self._decode, self._usual, self._compat
        later = b" " if self._dialect.bare_payload else first
        if decode is None:
            return None

        def contents(offset: int, key: bytes | None, value: bytes | None) -> bytes | tuple[bytes, str]:
            texts = usual(key, value)
            if texts is not None:
                shown_key, payload = texts
                if shown_key is None:
                    return b"%bpayload: %b" % (later, payload)
                return b"%bkey: %b payload: %b" % (first, shown_key, payload)
            decoded = decode(offset, key, value)
            if decoded.warning is not None or decoded.stop is not None:
                decoded = self._blame(offset, decoded)
            text, prefix = b"", first
            if decoded.key is not None:
                text, prefix = b"%bkey: %b" % (prefix, decoded.key), b" "
            if decoded.payload is not None:
                text += b"%bpayload: %b" % (later if prefix is first else prefix, decoded.payload)
            if escape is not None:
                text = escape(text)
            return text if decoded.stop is None or not compat else (text, decoded.stop)

        return contents

    def json(self) -> Objects | None:
        """Return what makes the JSON of keys and payloads; None where nothing decodes them."""
        decode, usual = self._decode, self._usual
        if decode is None:
            return None

        def contents(offset: int, key: bytes | None, value: bytes | None) -> bytes:
            texts = usual(key, value)
            if texts is not None:
                shown_key, payload = texts
                payload = b'"%b"' % DELETED if payload is DELETED else payload
                return b',"decodedKey":%b,"decodedPayload":%b' % (shown_key or b"null", payload)
            decoded = decode(offset, key, value)
            if decoded.warning is not None or decoded.stop is not None:
                decoded = self._blame(offset, decoded)
            shown_key, payload = _json(decoded.shown_key), _json(decoded.shown_payload)
            return b',"decodedKey":%b,"decodedPayload":%b' % (shown_key, payload)

        return contents

    def findings(self, chunk: Chunk) -> list[Finding]:
        """Return what was odd in the records of a chunk that has been shown."""
        if not self._odd:
            return []
        found, self._odd = self._odd, {}
        width = layout.RECORD_WIDTH
        batch_of = {chunk.rows[at + layout.R_OFFSET]: chunk.rows[at] for at in range(0, chunk.filled * width, width)}
        findings = []
        for offset, why in found.items():
            k = batch_of[offset]
            place = chunk.window.cell(k, layout.POSITION), chunk.window.cell(k, layout.SIZE)
            values = {"topic": self._topic, "why": why}
            findings.append(Finding(Code.R07, self._path, *place, offset=offset, values=values))
        return findings

    def _blame(self, offset: int, decoded: Decoded) -> Decoded:
        """Note what is odd about a record."""
        from dataclasses import replace

        if self._compat:
            return decoded
        if decoded.stop is None:
            self._odd[offset] = decoded.warning or ""
            return decoded
        why = decoded.stop.partition(": ")[2] or decoded.stop
        self._odd[offset] = why
        return replace(decoded, key=f"Error at offset {offset}, skipping. {why}".encode())

    def _choose(self, name: str | None) -> None:
        """Take a decoder by its name; None for none."""
        if name is None:
            self._decode, self._usual = None, _nothing_usual
            return
        from kdump.decode import decoder, decoder_topic, usual

        release = self._dialect.release
        if name not in self._decoders:
            self._decoders[name] = decoder(name, release), usual(name, release) or _nothing_usual
        self._decode, self._usual = self._decoders[name]
        self._topic = decoder_topic(name)

    def _by_place(self, file: FileStart) -> str | None:
        """The decoder for the records of a file: by the topic of its directory; a KRaft snapshot has one anyway."""
        if file.kind is FileKind.CHECKPOINT:
            return _METADATA
        directory = parse_partition(os.path.basename(os.path.dirname(os.path.abspath(file.path))))
        if file.kind is not FileKind.LOG or directory is None:
            return None
        from kdump.decode import topic_decoder

        return topic_decoder(directory.topic)


def _nothing_usual(_key: bytes | None, _value: bytes | None) -> None:
    """Leave every record to the decoder."""


def _json(shown: object) -> bytes:
    return json.dumps(shown, separators=(",", ":")).encode()
