"""The choice of a decoder for each file, and the findings of decoding."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from kdump.decode.decoded import DELETED
from kdump.decode.formats import decoder as forms
from kdump.finding import Code, Finding, Severity
from kdump.format.batch import layout
from kdump.format.kinds import FileKind
from kdump.format.record.chunk import MOST_WHOLE
from kdump.storage.names import parse_partition

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from kdump.compat.dialect import Dialect
    from kdump.decode.decoded import Decoded, Decoder, Usual
    from kdump.decode.payload.process import SchemaText
    from kdump.decode.payload.records import Part, SchemaDecoder
    from kdump.format.record.chunk import Chunk
    from kdump.item import FileStart

AUTO = "auto"  # a decoder for each file, by its directory
_METADATA = "metadata"


if TYPE_CHECKING:
    # What makes, of offset, key and value, the text of a record (with why Kafka's tool ends in it), or its JSON.
    Texts = Callable[[int, bytes | None, bytes | None], bytes | tuple[bytes, str]]
    Objects = Callable[[int, bytes | None, bytes | None], bytes]

    class Hides(Protocol):
        """Makes of what may not be seen what may."""

        def token(self, value: bytes) -> str:
            """Return what stands for a value."""

        def decoded(self, made: Any) -> Any:  # noqa: ANN401 (JSON)
            """Return what may be seen of a decoded key or value."""

        def payload(self, made: Any, names: frozenset[str]) -> Any:  # noqa: ANN401 (JSON)
            """Return what may be seen of a key or value that was decoded by a schema, which gives these names."""

        def subject(self, name: str) -> str:
            """Return what may be seen of a subject."""


class FileDecoder:
    """The decoder for the records of the file in hand.

    Args:
        named: name of a decoder, "auto" to go by the directory of each file, None for none.
        dialect: the release whose words are wanted.
        plain: what reads keys and values that are one value each, in the place of a decoder; None for UTF-8.
        compat: a record at which Kafka's tool dies ends the text there; else it is a finding.
        hides: makes what may be seen of keys and values, and of what a decoder made of them; None where all may.
        schemas: decodes keys and values of topics that are not internal; None where no schemas are given.

    Raises:
        ValueError: the release has no such decoder.
    """

    def __init__(
        self,
        named: str | None,
        dialect: Dialect,
        plain: Decoder | None = None,
        *,
        compat: bool,
        hides: Hides | None = None,
        schemas: SchemaDecoder | None = None,
    ) -> None:
        self._hides = hides
        self._schemas = schemas
        self._names: dict[SchemaText, frozenset[str]] = {}
        self._named = named
        self._dialect = dialect
        self._plain = plain
        self._compat = compat
        self._decoders: dict[str, tuple[Decoder, Usual]] = {}
        self._open: dict[str, tuple[Decoder, Usual]] = {}
        self._odd: dict[int, tuple[str, Severity]] = {}  # by offset: a line that found no room is made again
        self._path = self._topic = ""
        self._name: str | None = None
        if named is not None and named != AUTO:
            self._choose(named)
            if compat:
                self._of_text()

    def begin(self, file: FileStart) -> None:
        """Take the next file in hand."""
        self._path = file.path
        if self._named == AUTO:
            self._choose(self._by_place(file))
        if self._schemas is not None:
            directory = parse_partition(os.path.basename(os.path.dirname(os.path.abspath(file.path))))
            self._schemas.begin(file.path, "" if directory is None else directory.topic)

    def take(self, chunk: Chunk) -> None:
        """Decode the records of a chunk that is about to be shown, where that is done for many together."""
        if self._schemas is not None and self._name is None and chunk.filled:
            self._schemas.take(chunk)

    def text(self, first: bytes, escape: Callable[[bytes], bytes] | None) -> Texts | None:
        """Return what makes the text of keys and payloads; None for plain UTF-8.

        Args:
            first: what stands before the first of them.
            escape: makes the text safe on a terminal; None where it goes out as it is.
        """
        if self._schemas is not None and self._name is None:
            return self._schema_text(first, escape, self._schemas)
        if self._hides is not None:
            return self._hidden_text(first, self._hides)
        made = self._of_text()
        if made is None:
            return None
        decode, usual = made
        compat = self._compat
        later = b" " if self._dialect.bare_payload else first

        def contents(offset: int, key: bytes | None, value: bytes | None) -> bytes | tuple[bytes, str]:
            texts = usual(key, value)
            if texts is not None:
                shown_key, payload = texts
                if shown_key is None:
                    return b"%bpayload: %b" % (later, payload)
                return b"%bkey: %b payload: %b" % (first, shown_key, payload)
            decoded = decode(offset, key, value)
            if not compat:
                judged = self._of_json()  # the words are those of a release, but not what is odd
                self._note(offset, decoded if judged is None else judged[0](offset, key, value))
                decoded = _going_on(offset, decoded)
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
        if self._schemas is not None and self._name is None:
            return self._schema_json(self._schemas)
        if self._hides is not None:
            return self._hidden_json(self._hides)
        made = self._of_json()
        if made is None:
            return None
        decode, usual = made

        def contents(offset: int, key: bytes | None, value: bytes | None) -> bytes:
            texts = usual(key, value)
            if texts is not None:
                shown_key, payload = texts
                payload = b'"%b"' % DELETED if payload is DELETED else payload
                return b',"decodedKey":%b,"decodedPayload":%b' % (shown_key or b"null", payload)
            decoded = decode(offset, key, value)
            self._note(offset, decoded)
            decoded = _going_on(offset, decoded)
            shown_key, payload = _json(decoded.shown_key), _json(decoded.shown_payload)
            return b',"decodedKey":%b,"decodedPayload":%b' % (shown_key, payload)

        return contents

    def _schema_text(self, first: bytes, escape: Callable[[bytes], bytes] | None, schemas: SchemaDecoder) -> Texts:
        """What makes text of keys and payloads by schemas: JSON, or what is shown without one."""
        plain = self._plain or forms("utf8", "utf8")

        def contents(offset: int, key: bytes | None, value: bytes | None) -> bytes:
            both = schemas.of(offset, key, value)
            decoded = plain(offset, key, value)
            text, prefix = b"", first
            for name, part, data, shown in (
                (b"key", both.key, key, decoded.key),
                (b"payload", both.value, value, decoded.payload),
            ):
                text_of = shown
                if part is not None:
                    text_of = self._part(part)
                elif self._hides is not None and data is not None:
                    text_of = self._hides.token(data).encode()
                if text_of is not None:
                    text, prefix = b"%b%b%b: %b" % (text, prefix, name, text_of), b" "
            return text if escape is None else escape(text)

        return contents

    def _schema_json(self, schemas: SchemaDecoder) -> Objects:
        """What makes JSON of keys and payloads by schemas; null where there is none."""
        plain = self._plain

        def contents(offset: int, key: bytes | None, value: bytes | None) -> bytes:
            both = schemas.of(offset, key, value)
            made: list[bytes] = []
            decoded = None if plain is None else plain(offset, key, value)
            for part, data, shown in (
                (both.key, key, decoded and decoded.shown_key),
                (both.value, value, decoded and decoded.shown_payload),
            ):
                if part is not None:
                    made.append(self._part(part))
                elif self._hides is not None and plain is not None and data is not None:
                    made.append(_json(self._hides.token(data)))
                else:
                    made.append(_json(shown))
            used = [b"null" if part is None else self._used(part) for part in (both.key, both.value)]
            return b',"decodedKey":%b,"decodedPayload":%b,"keySchema":%b,"schema":%b' % (*made, *used)

        return contents

    def _part(self, part: Part) -> bytes:
        """The JSON of a key or a payload, as far as it may be seen."""
        if self._hides is None:
            return part.made
        if part.text not in self._names:
            from kdump.decode.payload.registry import names_in

            self._names[part.text] = names_in(part.text)
        return _json(self._hides.payload(json.loads(part.made), self._names[part.text]))

    def _used(self, part: Part) -> bytes:
        """The schema of a key or a payload, as far as it may be seen."""
        return part.used if self._hides is None else part.used_as(self._hides.subject(part.row.subject))

    def _hidden_text(self, first: bytes, hides: Hides) -> Texts:
        """What makes text of keys and payloads of which not all may be seen."""
        made = self._hidden(hides)

        def contents(offset: int, key: bytes | None, value: bytes | None) -> bytes:
            text, prefix = b"", first
            for name, one in zip((b"key", b"payload"), made(offset, key, value), strict=True):
                if one is not None:
                    shown = one.encode() if isinstance(one, str) else _json(one)
                    text, prefix = b"%b%b%b: %b" % (text, prefix, name, shown), b" "
            return text

        return contents

    def _hidden_json(self, hides: Hides) -> Objects | None:
        """What makes JSON of keys and payloads of which not all may be seen; None where nothing decodes them."""
        if self._name is None and self._plain is None:
            return None
        made = self._hidden(hides)

        def contents(offset: int, key: bytes | None, value: bytes | None) -> bytes:
            return b',"decodedKey":%b,"decodedPayload":%b' % tuple(map(_json, made(offset, key, value)))

        return contents

    def _hidden(self, hides: Hides) -> Callable[[int, bytes | None, bytes | None], tuple[object, object]]:
        """What makes of key and payload what may be seen; None for one that is not shown."""
        known = None if self._name is None else self._of_json()

        def made(offset: int, key: bytes | None, value: bytes | None) -> tuple[object, object]:
            if known is None:  # one value each, in whatever form
                if self._plain is not None:
                    self._note(offset, self._plain(offset, key, value))
                return None if key is None else hides.token(key), None if value is None else hides.token(value)
            decoded = known[0](offset, key, value)
            self._note(offset, decoded)
            decoded = _going_on(offset, decoded)
            return hides.decoded(decoded.shown_key), hides.decoded(decoded.shown_payload)

        return made

    def findings(self, chunk: Chunk) -> list[Finding]:
        """Return what was odd in the records of a chunk that has been shown."""
        cut = chunk.cut
        if cut is not None and max(0, cut.key_size) + max(0, cut.value_size) > MOST_WHOLE and self._of_json():
            place = chunk.window.cell(chunk.first, layout.POSITION), chunk.window.cell(chunk.first, layout.SIZE)
            why = (
                f"a record of {cut.size} bytes is shown as it is, not decoded: more than {MOST_WHOLE} in key and value"
            )
            return [Finding(Code.L12, self._path, *place, offset=chunk.rows[layout.R_OFFSET], values={"why": why})]
        if self._schemas is not None:
            return self._schemas.findings()
        if not self._odd:
            return []
        found, self._odd = self._odd, {}
        width = layout.RECORD_WIDTH
        batch_of = {chunk.rows[at + layout.R_OFFSET]: chunk.rows[at] for at in range(0, chunk.filled * width, width)}
        findings = []
        for offset, (why, severity) in found.items():
            k = batch_of[offset]
            place = chunk.window.cell(k, layout.POSITION), chunk.window.cell(k, layout.SIZE)
            values = {"topic": self._topic, "why": why}
            told = Finding(Code.R07, self._path, *place, offset=offset, values=values, severity_override=severity)
            findings.append(told)
        return findings

    def _note(self, offset: int, decoded: Decoded) -> None:
        """Keep what is odd about a record."""
        if decoded.stop is not None:
            self._odd[offset] = _why(decoded.stop), Severity.WARNING
        elif decoded.warning is not None:
            why = decoded.warning if decoded.note is None else f"{decoded.warning}; {decoded.note}"
            self._odd[offset] = why, Severity.WARNING
        elif decoded.note is not None:
            self._odd[offset] = decoded.note, Severity.NOTE

    def _of_text(self) -> tuple[Decoder, Usual] | None:
        """The decoder for text: in the words of the release."""
        if self._name is None:
            return None if self._plain is None else (self._plain, _nothing_usual)
        if self._name not in self._decoders:
            from kdump.decode import decoder, usual

            release = self._dialect.release
            decode = decoder(self._name, release, bounded=not self._compat, plain=self._plain)
            self._decoders[self._name] = decode, usual(self._name, release) or _nothing_usual
        return self._decoders[self._name]

    def _of_json(self) -> tuple[Decoder, Usual] | None:
        """The decoder for JSON: by the newest schemas."""
        if self._name is None:
            return None if self._plain is None else (self._plain, _nothing_usual)
        if self._name not in self._open:
            from kdump.decode import open_decoder, open_usual

            plain = self._plain if self._hides is None else None  # a number would be seen
            decode = open_decoder(self._name, plain, is_sure=self._named != AUTO)
            self._open[self._name] = decode, open_usual(self._name) or _nothing_usual
        return self._open[self._name]

    def _choose(self, name: str | None) -> None:
        """Take a decoder by its name; None for none."""
        self._name = name
        if name is not None:
            from kdump.decode import records_of

            self._topic = records_of(name)

    def _by_place(self, file: FileStart) -> str | None:
        """The decoder for the records of a file: by the topic of its directory; a KRaft snapshot has one anyway."""
        if file.kind is FileKind.CHECKPOINT:
            return _METADATA
        directory = parse_partition(os.path.basename(os.path.dirname(os.path.abspath(file.path))))
        if file.kind is not FileKind.LOG or directory is None:
            return None
        from kdump.decode import topic_decoder

        return topic_decoder(directory.topic)


def _why(stop: str) -> str:
    return stop.partition(": ")[2] or stop


def _going_on(offset: int, decoded: Decoded) -> Decoded:
    """The text of a record at which Java's run would have ended."""
    if decoded.stop is None:
        return decoded
    from dataclasses import replace

    return replace(decoded, key=f"Error at offset {offset}, skipping. {_why(decoded.stop)}".encode())


def _nothing_usual(_key: bytes | None, _value: bytes | None) -> None:
    """Leave every record to the decoder."""


def _json(shown: object) -> bytes:
    return json.dumps(shown, separators=(",", ":")).encode()
