"""Decoders for the records of Kafka's internal topics, in the words of DumpLogSegments, by name.

A decoder is a function from offset, key and value to a `Decoded`. It never raises, whatever the bytes are:
what Java could not read either is said in the text, or in `stop` where Java's run ended. Nothing is loaded
before a decoder is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kdump.decode.decoded import Decoder, Usual

INTERNAL = "offsets", "transaction", "metadata", "remote", "share"
"""The decoders of Kafka's internal topics, by name."""

LAYOUTS = "windowed", "windowed-timestamped", "session", "timestamped", "offset-syncs", "checkpoints", "heartbeats"
"""The decoders of clients' topics whose layout is fixed, by name: those of kdump.decode.layouts."""


def decoder(name: str, release: str, *, bounded: bool = False, plain: Decoder | None = None) -> Decoder:
    """Return the decoder behind one of DumpLogSegments' decoder options, or of a layout.

    Args:
        name: one of `INTERNAL` or `LAYOUTS`.
        release: of DumpLogSegments: 4.4, 4.3, 4.2 or 3.9.
        bounded: a record may take so much memory and no more, which is no limit of Kafka.
        plain: reads the key and the value inside a layout; None for UTF-8.

    Raises:
        ValueError: the release is not known, or has no such decoder.

    Source: org.apache.kafka.tools.DumpLogSegments.DumpLogSegmentsOptions.messageParser
    """
    if name in LAYOUTS:
        return _of_layout(name, plain, is_sure=True)
    from kdump.decode.schema import ReadMode
    from kdump.decode.table import table

    known = table(release, ReadMode.BOUNDED if bounded else ReadMode.EXACT)
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


def open_decoder(name: str, plain: Decoder | None = None, *, is_sure: bool = True) -> Decoder:
    """Return the decoder for JSON: by the newest schemas, and what they do not cover stays visible.

    An unknown type or version is there with its bytes; unknown tagged fields stand in their struct; a newer version of
    a metadata record is read as the newest known. `note` says so. `warning` says why the rest cannot be read; there is
    text for it in the words of 4.4, and nothing where it is over a limit.

    Args:
        name: one of `INTERNAL` or `LAYOUTS`.
        plain: reads the key and the value inside a layout; None for UTF-8.
        is_sure: the user named it; else what does not have a layout is no fault.
    """
    if name in LAYOUTS:
        return _of_layout(name, plain, is_sure=is_sure)
    from kdump.decode.schema import ReadMode
    from kdump.decode.table import newest, table

    known = table(newest(), ReadMode.OPEN)
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

    return usual(name, newest(), as_json=True)


def usual(name: str, release: str, *, as_json: bool = False) -> Usual | None:
    """Return the quick way beside a decoder, None where there is none.

    It takes key and value, and returns what `Decoded` has as key and payload: ASCII text, JSON but for `DELETED`; or
    None for a record that is not usual, which is then the decoder's.

    Args:
        name: of a decoder.
        release: whose schemas count.
        as_json: numbers stay numbers, whatever names the text of the release has for them.
    """
    if name in LAYOUTS:
        return None
    from kdump.decode.table import table

    known = table(release)
    if name == "metadata":
        from kdump.decode import metadata

        return metadata.usual(known)
    if name == "remote" or (name == "transaction" and known.fact("transactionAsText")):
        return None
    from kdump.decode import coordinator

    return coordinator.usual(name, known, as_json=as_json)


def classes(key_class: str, value_class: str, release: str) -> Decoder | str:
    """Return the decoder of --key-decoder-class and --value-decoder-class, or what is wrong with a name.

    What 3.9 prints about old names is `plain.notices`; what Java says of a bad name `plain.java_failure`.

    Args:
        key_class: Java class name.
        value_class: Java class name.
        release: 4.4, 4.3, 4.2 or 3.9.

    Source: org.apache.kafka.tools.DumpLogSegments.DecoderMessageParser
    """
    from kdump.decode import plain

    return plain.decoder(key_class, value_class, release)


def topic_decoder(topic: str) -> str | None:
    """Return the name of the decoder for an internal topic, or one whose layout is fixed; None for other topics."""
    from kdump.decode.layouts import layout_of
    from kdump.decode.table import topics

    return topics().get(topic) or layout_of(topic)


def records_of(name: str) -> str:
    """Return whose records a decoder reads: an internal topic, or what has a layout."""
    if name in LAYOUTS:
        from kdump.decode.layouts import what_of

        return what_of(name)
    from kdump.decode.table import topics

    return next(topic for topic, decoder in topics().items() if decoder == name)


def _of_layout(name: str, plain: Decoder | None, *, is_sure: bool) -> Decoder:
    from kdump.decode import layouts

    return layouts.decoder(name, plain, is_sure=is_sure)
