"""Kafka's names of compression types."""

from __future__ import annotations

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""By their numbers. Source: CompressionType."""


def codec_name(number: int) -> str:
    """Return Kafka's name of a compression type.

    Args:
        number: in the attributes of a batch.
    """
    return CODECS[number] if number < len(CODECS) else f"unknown:{number}"
