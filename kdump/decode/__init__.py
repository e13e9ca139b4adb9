"""What the records of Kafka's internal topics say, in the words of DumpLogSegments: decoders by name.

A decoder is a function from offset, key and value to a `Decoded`. It never raises, whatever the bytes are:
what Java could not read either is said in the text, or in `stop` where Java's run ended. Nothing is loaded
before a decoder is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

DELETED = b"<DELETE>"
"""The payload of a tombstone."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """A record as a decoder shows it.

    Attributes:
        key: UTF-8 text after " key: ", None where it is not printed.
        payload: UTF-8 text after " payload: ", None where it is not printed.
        stop: Java ended the run here: the text after 'Exception in thread "main" '; key and payload hold what
            was printed before it (nothing: Java prints when it has read both).
        key_object: JSON-able {"type": ..., "data": ...} of the key; None where there is only text.
        payload_object: JSON-able {"version": ..., "data": ...} of the value, with "type" where the key has
            none; None where there is only text.
        warning: what Kafka passes over in silence: "N bytes after the key record"; of an open decoder also what could
            not be read, and why.
        note: what an open decoder does not know, and left as it found it.

    The objects are shared between records with the same key: they are not to be changed.
    """

    key: bytes | None
    payload: bytes | None
    stop: str | None = None
    key_object: object | None = None
    payload_object: object | None = None
    warning: str | None = None
    note: str | None = None

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


STRING = "org.apache.kafka.tools.api.StringDecoder"  # of keys and values where no class is named

Value = Any
Decoder = Callable[[int, bytes | None, bytes | None], Decoded]
Texts = tuple[bytes | None, bytes]
Usual = Callable[[bytes | None, bytes | None], Texts | None]


def in_bytes(data: bytes) -> dict[str, Value]:
    """Return bytes that no schema covers as JSON has them."""
    from base64 import b64encode

    return {"base64": b64encode(data).decode("ascii")}


def decoder(name: str, release: str, *, bounded: bool = False) -> Decoder:
    """Return the decoder behind one of DumpLogSegments' decoder options.

    Args:
        name: offsets, transaction, metadata, remote or share.
        release: of DumpLogSegments: 4.3, 4.2 or 3.9.
        bounded: arrays and tag sections are read up to the limits of Kafka 4.4, which those releases do not have.

    Raises:
        ValueError: the release is not known, or has no such decoder.

    Source: org.apache.kafka.tools.DumpLogSegments.DumpLogSegmentsOptions.messageParser
    """
    from kdump.decode.schema import Reading
    from kdump.decode.table import table

    known = table(release, Reading.BOUNDED if bounded else Reading.EXACT)
    if not known.records(name):
        raise ValueError(f"DumpLogSegments {release} has no decoder {name}")
    if name == "metadata":
        from kdump.decode import metadata

        return metadata.decoder(known)
    if name == "remote":
        from kdump.decode import remote

        return remote.decoder(known)
    if name == "transaction" and known.fact("transactionAsText"):
        from kdump.decode import transaction_text

        return transaction_text.decoder(known)
    from kdump.decode import coordinator

    return coordinator.decoder(name, known)


def open_decoder(name: str) -> Decoder:
    """Return the decoder for JSON: by the newest schemas, and what they do not cover stays visible.

    An unknown type or version is there with its bytes; unknown tagged fields stand in their struct; a newer version of
    a metadata record is read as the newest known. `note` says so. `warning` says why the rest cannot be read; there is
    text for it in the words of 4.3, and nothing where it is over a limit that Kafka has from 4.4 on.

    Args:
        name: offsets, transaction, metadata, remote or share.
    """
    from kdump.decode.schema import Reading
    from kdump.decode.table import newest, table

    known = table(newest(), Reading.OPEN)
    if name == "metadata":
        from kdump.decode import metadata

        return metadata.open_decoder(known)
    if name == "remote":
        from kdump.decode import remote

        return remote.open_decoder(known)
    from kdump.decode import coordinator

    return coordinator.open_decoder(name, known)


def open_usual(name: str) -> Usual | None:
    """Return the quick way beside an open decoder, None where there is none."""
    from kdump.decode.table import newest

    return usual(name, newest())


def usual(name: str, release: str) -> Usual | None:
    """Return the quick way beside a decoder, None where there is none.

    It takes key and value, and returns what `Decoded` has as key and payload: ASCII text, JSON but for `DELETED`; or
    None for a record that is not usual, which is then the decoder's.

    Args:
        name: of a decoder.
        release: whose schemas count.
    """
    from kdump.decode.table import table

    known = table(release)
    if name == "metadata":
        from kdump.decode import metadata

        return metadata.usual(known)
    if name == "remote" or (name == "transaction" and known.fact("transactionAsText")):
        return None
    from kdump.decode import coordinator

    return coordinator.usual(name, known)


def classes(key_class: str, value_class: str, release: str) -> Decoder | str:
    """Return the decoder of --key-decoder-class and --value-decoder-class, or what is wrong with a name.

    What 3.9 prints about old names is `plain.notices`; what Java says of a bad name `plain.java_failure`.

    Args:
        key_class: Java class name.
        value_class: Java class name.
        release: 4.3, 4.2 or 3.9.

    Source: org.apache.kafka.tools.DumpLogSegments.DecoderMessageParser
    """
    from kdump.decode import plain

    return plain.decoder(key_class, value_class, release)


def topic_decoder(topic: str) -> str | None:
    """Return the name of the decoder for an internal topic, None for other topics."""
    from kdump.decode.table import topics

    return topics().get(topic)


def decoder_topic(name: str) -> str:
    """Return the internal topic that a decoder reads."""
    from kdump.decode.table import topics

    return next(topic for topic, decoder in topics().items() if decoder == name)
