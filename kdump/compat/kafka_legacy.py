"""Messages of magic 0 and 1 as Kafka reads them: each field by itself, when it is needed.

Source: org.apache.kafka.common.record.internal.LegacyRecord, AbstractLegacyRecordBatch.DeepRecordsIterator,
org.apache.kafka.common.utils.Utils.sizeDelimited
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from kdump.compat.kafka_record import ARGUMENT, OUT_OF_BOUNDS
from kdump.compat.kafka_stream import JavaError, Thrown, read_messages
from kdump.format.batch import layout
from kdump.format.checksum import crc32
from kdump.format.codec.base import CompressionType
from kdump.format.java_values import INVALID, as_long
from kdump.format.kernels import wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.compat.kafka_stream import ArrayRoom, JavaStream

    OpenStream = Callable[[CompressionType, memoryview, int], JavaStream]

_SIZE = 4  # bytes of the size of a key or a value


class LegacyMessage:
    """One message.

    Args:
        data: its bytes, those of offset and size included; at least 26.
    """

    def __init__(self, data: memoryview) -> None:
        self._data = data
        is_v0 = data[layout.MAGIC_AT] == 0
        self._key_at = layout.LEGACY_TIMESTAMP_AT + (0 if is_v0 else 8)
        self.magic = data[layout.MAGIC_AT]
        self.attributes = data[layout.LEGACY_ATTRIBUTES_AT]
        self.offset = wire.i64(data, layout.OFFSET_AT)
        time = data[layout.LEGACY_TIMESTAMP_AT : self._key_at]
        self.timestamp = -1 if is_v0 else int.from_bytes(time, "big", signed=True)

    def _int(self, at: int) -> int:
        if at + _SIZE > len(self._data):
            raise JavaError(OUT_OF_BOUNDS, io=False)
        return int.from_bytes(self._data[at : at + _SIZE], "big", signed=True)

    @property
    def key_size(self) -> int:
        """Bytes, negative for null; raises JavaError as the others do."""
        return self._int(self._key_at)

    @property
    def _value_at(self) -> int:
        return self._key_at + _SIZE + max(0, self.key_size)

    @property
    def value_size(self) -> int:
        """Bytes, negative for null."""
        return self._int(self._value_at)

    def key(self) -> bytes | None:
        """Return the key, None for null; raises JavaError as the others do."""
        return self._bytes(self.key_place())

    def value(self) -> bytes | None:
        """Return the value, None for null."""
        return self._bytes(self.value_place())

    def key_place(self) -> tuple[int, int]:
        """Return where in the bytes of the message the key begins, and its size, negative for null."""
        return self._place(self._key_at)

    def value_place(self) -> tuple[int, int]:
        """Return the same of the value."""
        return self._place(self._value_at)

    def _place(self, at: int) -> tuple[int, int]:
        size = self._int(at)
        rest = len(self._data) - at - _SIZE
        if size > rest:
            raise JavaError(f"{ARGUMENT}: newLimit > capacity: ({size} > {rest})", io=False)
        return at + _SIZE, size

    def _bytes(self, place: tuple[int, int]) -> bytes | None:
        at, size = place
        return None if size < 0 else bytes(self._data[at : at + size])

    def fill(self, row: array[int]) -> str | None:
        """Fill those columns of a record row that come of the message alone.

        Args:
            row: RECORD_WIDTH values, R_AT among them. Where key or value cannot be read VALUE_OVERRUNS is set, and
                what cannot be read is null.

        Returns:
            What Java throws when it is asked for the sizes.
        """
        at = row[layout.R_AT]
        stored = wire.u32(self._data, layout.LEGACY_CRC_AT)
        row[layout.R_OFFSET] = row[layout.R_DELTA] = self.offset
        row[layout.R_TIMESTAMP] = self.timestamp
        row[layout.R_SEQUENCE] = -1
        row[layout.R_ATTRIBUTES] = self.attributes
        row[layout.R_CRC] = stored
        row[layout.R_FLAGS] = layout.CRC_HOLDS if crc32(self._data[layout.MAGIC_AT :]) == stored else 0
        row[layout.R_HEADER_COUNT] = 0
        row[layout.R_KEY_SIZE] = row[layout.R_VALUE_SIZE] = row[layout.R_CLAIMED_SIZE] = -1
        end = at + len(self._data)
        row[layout.R_KEY_AT] = row[layout.R_VALUE_AT] = row[layout.R_HEADERS_AT] = row[layout.R_END] = end
        try:
            key_size, value_size = self.key_size, self.value_size
        except JavaError as error:
            row[layout.R_FLAGS] |= layout.VALUE_OVERRUNS
            return error.text
        row[layout.R_KEY_AT], row[layout.R_KEY_SIZE] = at + self.key_place()[0], key_size
        try:
            row[layout.R_VALUE_AT], row[layout.R_VALUE_SIZE] = at + self.value_place()[0], value_size
        except JavaError:  # comes out when the contents are wanted
            row[layout.R_FLAGS] |= layout.VALUE_OVERRUNS
            row[layout.R_CLAIMED_SIZE] = value_size
        return None


class DeepMessages:
    """The messages inside a compressed one, where anything about them is odd.

    Args:
        wrapper: the compressed message with its 12 bytes of offset and size.
        batch: number for R_BATCH.
        open_stream: makes the decompressing stream, of codec, section and place of the section in the batch.
        limit: bytes to decode at most.
        room: what Java may take for a message.
        metadata: the sizes of keys and values are wanted.
    """

    def __init__(
        self, wrapper: memoryview, batch: int, open_stream: OpenStream, limit: int, room: ArrayRoom, *, metadata: bool
    ) -> None:
        self._wrapper = LegacyMessage(wrapper)
        self._data = wrapper
        self._batch = batch
        self._open = open_stream
        self._limits = limit, room
        self._metadata = metadata
        self.view = memoryview(b"")  # the bytes of the messages that can be handed out
        self.rows = array("q")  # record rows that point into it
        self.thrown = self._read()  # what Java throws after the last of them; None at a clean end

    def _read(self) -> Thrown | None:
        magic, codec = self._wrapper.magic, self._wrapper.attributes & layout.CODEC_MASK
        if codec > CompressionType.ZSTD:
            return Thrown(unknown_codec(codec))
        if codec == CompressionType.ZSTD:
            return Thrown(f"{INVALID}: Invalid wrapper compressionType found in legacy deep record iterator {magic}")
        try:
            at, size = self._wrapper.value_place()
        except JavaError as error:
            return Thrown(error.text)
        if size < 0:
            return Thrown(f"{INVALID}: Found invalid compressed record set with null value (magic = {magic})")
        section = self._data[at : at + size]
        messages: list[bytes] = []
        reader = read_messages(lambda: self._open(CompressionType(codec), section, at), *self._limits)
        while True:
            try:
                messages.append(next(reader))
            except StopIteration as stop:
                return stop.value or self._rows(messages)

    def _rows(self, messages: list[bytes]) -> Thrown | None:
        if not messages:
            return Thrown(f"{INVALID}: Found invalid compressed record set with no inner records")
        magic, base, offset = self._wrapper.magic, 0, self._wrapper.offset
        if magic == 1 and offset != 0:
            last = LegacyMessage(memoryview(messages[-1])).offset
            if offset < last:
                what = f"{INVALID}: Found invalid wrapper offset in compressed v1 message set"
                why = f"wrapper offset '{offset}' is less than the last inner message offset '{last}'"
                return Thrown(f"{what}, {why} and it is not zero.")
            base = offset - last
        self.view = memoryview(b"".join(messages))
        at = 0
        for data in messages:
            java = self._row(LegacyMessage(self.view[at : at + len(data)]), at, base)
            if java is not None:
                return Thrown(java)
            at += len(data)
        return None

    def _row(self, message: LegacyMessage, at: int, base: int) -> str | None:
        codec = message.attributes & layout.CODEC_MASK
        if codec > CompressionType.ZSTD:
            return unknown_codec(codec)
        if codec:
            return f"{INVALID}: Inner messages must not be compressed"
        row = array("q", bytes(8 * layout.RECORD_WIDTH))
        row[layout.R_BATCH], row[layout.R_AT] = self._batch, at
        why = message.fill(row)
        if why is not None and self._metadata:
            return why
        row[layout.R_OFFSET] = as_long(base + message.offset)
        stamped = self._wrapper.magic == 1 and self._wrapper.attributes & layout.TIMESTAMP_TYPE_FLAG
        if stamped and message.magic == 1:
            row[layout.R_TIMESTAMP] = self._wrapper.timestamp
        self.rows.extend(row)
        return None


def unknown_codec(codec: int) -> str:
    """Return what Java throws at a codec that there is not. Source: CompressionType.forId."""
    return f"{ARGUMENT}: Unknown compression type id: {codec}"
