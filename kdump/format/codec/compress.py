"""Compression as Kafka's writers do it, to predict the size of rewritten batches.

The bytes are Kafka's wherever its library makes the same of them; another version of a library may make a few bytes
more or less, and of lz4 and snappy Java has implementations of its own. Levels are Kafka's defaults.

Source: org.apache.kafka.common.compress (GzipCompression, SnappyCompression, Lz4Compression, ZstdCompression).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.codec.base import CompressionType

if TYPE_CHECKING:
    from collections.abc import Callable

_SNAPPY_BLOCK = 32 * 1024
_LZ4_BLOCK = 64 * 1024
_GZIP_SYSTEM_AT = 9
_SNAPPY_HEADER = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
_LZ4_HEADER = bytes.fromhex("04224d18604082")  # version 1, independent blocks of 64 KB, no checksums
_LZ4_STORED = 1 << 31
_ZSTD_LEVEL = 3


class Compressor:
    """Compresses one records section.

    Args:
        codec: the codec bits, 1 to 4.
    """

    def __init__(self, codec: int) -> None:
        self._head = b""  # comes before all
        self._pack: Callable[[bytes], bytes]
        self._finish: Callable[[], bytes]
        if codec == CompressionType.GZIP:
            import zlib

            packer = zlib.compressobj(-1, zlib.DEFLATED, 31)
            self._pack, self._finish = packer.compress, packer.flush
            self._head = packer.compress(b"")[:_GZIP_SYSTEM_AT] + b"\xff"  # Java does not tell the system
        elif codec == CompressionType.ZSTD:
            import zstandard

            stream = zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compressobj()
            self._pack = stream.compress
            # Java flushes a stream before it closes it: the frame gets an empty last block
            self._finish = lambda: stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) + stream.flush()
        elif codec == CompressionType.SNAPPY:
            self._head = _SNAPPY_HEADER
            self._in_blocks(_SNAPPY_BLOCK, _snappy_block, b"")
        else:
            self._head = _LZ4_HEADER
            self._in_blocks(_LZ4_BLOCK, _lz4_block, bytes(4))

    def _in_blocks(self, size: int, pack: Callable[[bytes], bytes], end: bytes) -> None:
        """Set up a codec whose blocks are compressed one by one."""
        held = bytearray()

        def add(data: bytes) -> bytes:
            nonlocal held
            held += data
            whole = len(held) - len(held) % size
            packed = b"".join(pack(bytes(held[at : at + size])) for at in range(0, whole, size))
            held = held[whole:]
            return packed

        self._pack, self._finish = add, lambda: (pack(bytes(held)) if held else b"") + end

    def add(self, data: bytes) -> bytes:
        """Take the next bytes of the records; return what is compressed so far and was not returned yet."""
        head, self._head = self._head, b""
        return head + self._pack(data)

    def finish(self) -> bytes:
        """Return the rest."""
        return self._head + self._finish()


def _snappy_block(data: bytes) -> bytes:
    import snappy

    packed: bytes = snappy.compress(data)
    return len(packed).to_bytes(4, "big") + packed


def _lz4_block(data: bytes) -> bytes:
    import lz4.block

    packed: bytes = lz4.block.compress(data, store_size=False)
    if len(packed) >= len(data):
        return (len(data) | _LZ4_STORED).to_bytes(4, "little") + data
    return len(packed).to_bytes(4, "little") + packed
