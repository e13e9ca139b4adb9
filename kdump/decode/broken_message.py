"""DumpLogSegments' handling of a message of magic 0 or 1 whose key or value cannot be read.

Source: DumpLogSegments.DecoderMessageParser, CoordinatorRecordMessageParser, ClusterMetadataLogMessageParser,
RemoteMetadataLogMessageParser
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.compat.kafka_stream import JavaError
from kdump.decode.decoded import Decoded

if TYPE_CHECKING:
    from kdump.compat.kafka_legacy import LegacyMessage
    from kdump.decode.decoded import Decoder

_VALUE_ALONE = ("metadata", "remote")


def broken_message(name: str | None, decoder: Decoder | None, offset: int, message: LegacyMessage) -> Decoded:
    """Return what is shown of the message, or what ends the run.

    Args:
        name: of a decoder of an internal topic; None for keys and values that are one value each.
        decoder: the decoder; None for UTF-8.
        offset: of the message.
        message: at least one of its fields throws.
    """
    caught = name in _VALUE_ALONE
    try:
        if not caught:
            if message.key_size >= 0:
                caught = name is not None
                key = message.key()
                decoded = None if name or not decoder else decoder(offset, key, None)
            else:
                decoded = decoder(offset, None, None) if name and decoder else None
            if decoded is not None and decoded.stop is not None:
                return decoded
        message.value()
    except JavaError as error:
        if not caught:
            return Decoded(None, None, error.text)
        why = error.text.partition(": ")[2] or "null"
        place = f"Error at {offset}" if name == "metadata" else f"Error at offset {offset}"
        text = f"{place}, skipping. {why}".encode()
        return Decoded(None, text) if name in _VALUE_ALONE else Decoded(text, None)
    raise AssertionError("one of the fields throws")
