"""Recognise the codec of a section by its first bytes."""

from __future__ import annotations

from kdump.format.checksum import crc32

SIGNATURES = (
    ("gzip", b"\x1f\x8b\x08"),
    ("snappy", b"\x82SNAPPY\x00"),
    ("lz4", b"\x04\x22\x4d\x18"),
    ("zstd", b"\x28\xb5\x2f\xfd"),
)
NOT_COMPRESSED = "records that are not compressed"
VARINT_BYTES = 5
VARLONG_BYTES = 10
MESSAGE_OVERHEAD = 12
CRC_SIZE = 4
SMALLEST_MESSAGE = 14


def looks_like(data: memoryview, magic: int) -> str | None:
    """Return the codec whose signature a section bears, or that it holds plain records.

    Args:
        data: the section.
        magic: of the batch, for the layout of plain records.

    Returns:
        The label of a codec, NOT_COMPRESSED, or None.
    """
    for label, signature in SIGNATURES:
        if data[: len(signature)] == signature:
            return label
    plain = starts_with_record(data) if magic >= 2 else starts_with_message(data)
    return NOT_COMPRESSED if plain else None


def starts_with_record(data: memoryview) -> bool:
    """Return whether a whole record of magic 2 begins the section: lengths that meet exactly at its end."""
    length, position = varint(data, 0, VARINT_BYTES)
    end = position + length
    if length <= 0 or end > len(data) or data[position] != 0:
        return False
    _, position = varint(data, position + 1, VARLONG_BYTES)
    delta, position = varint(data, position, VARINT_BYTES)
    for _ in ("key", "value"):
        length, position = varint(data, position, VARINT_BYTES)
        position += max(length, 0)
    headers, position = varint(data, position, VARINT_BYTES)
    return delta >= 0 and headers >= 0 and (position == end if headers == 0 else position < end)


def starts_with_message(data: memoryview) -> bool:
    """Return whether a message of magic 0 or 1 with the right CRC begins the section."""
    size = int.from_bytes(data[8:MESSAGE_OVERHEAD], "big")
    end = MESSAGE_OVERHEAD + size
    if size < SMALLEST_MESSAGE or end > len(data):
        return False
    body = MESSAGE_OVERHEAD + CRC_SIZE
    return crc32(data[body:end]) == int.from_bytes(data[MESSAGE_OVERHEAD:body], "big")


def varint(data: memoryview, position: int, most: int) -> tuple[int, int]:
    """Return a zigzag number and the position after it; -1 and the end of the data where there is none."""
    value = 0
    for index, byte in enumerate(data[position : position + most]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position + index + 1
    return -1, len(data) + 1
