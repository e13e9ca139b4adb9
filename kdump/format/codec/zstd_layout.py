"""zstd: where frames and their blocks are, by their headers alone."""

from __future__ import annotations

from kdump.value import Value

MAGIC = b"\x28\xb5\x2f\xfd"
SKIPPABLE = b"\x2a\x4d\x18"
WORD = 4
BLOCK_HEADER = 3
LARGEST_BLOCK = 1 << 17
RAW, RLE = 0, 1
SINGLE_SEGMENT, CHECKSUM = 0x20, 4


class Frame(Value):
    """Where a frame is and what its header declares.

    Args:
        start: position of its magic number.
        blocks: position of its first block header.
        window: bytes of history that its decoder must keep.
        content_size: bytes that it declares, None when it does not.
        checksum: whether a content checksum follows the last block.
    """

    start: int
    blocks: int
    window: int
    content_size: int | None
    checksum: bool

    @property
    def largest_block(self) -> int:
        """Bytes that a block has at most; libzstd refuses a header that claims more."""
        return min(self.window, LARGEST_BLOCK)


def parse_frame(data: memoryview, start: int) -> Frame | None:
    """Return the frame that begins at `start`, None when its header is cut.

    Source: facebook/zstd, doc/zstd_compression_format.md
    """
    position = start + WORD + 1
    if position > len(data):
        return None
    descriptor = data[start + WORD]
    single = bool(descriptor & SINGLE_SEGMENT)
    exponent = 0 if single or position >= len(data) else data[position]
    window = (1 << 10 + (exponent >> 3)) // 8 * (8 + (exponent & 7))
    position += (not single) + (0, 1, 2, 4)[descriptor & 3]
    width = (int(single), 2, 4, 8)[descriptor >> 6]
    if position + width > len(data):
        return None
    content = int.from_bytes(data[position : position + width], "little") + (256 if width == 2 else 0)
    declared = content if width else None
    checksum = bool(descriptor & CHECKSUM)
    return Frame(start, position + width, content if single else window, declared, checksum)


class Block(Value):
    """Where a block is.

    Args:
        start: position of its header.
        end: position after it, which may be past the end of the data.
        raw: it holds its bytes as they are.
        last: it is the last one of its frame.
    """

    start: int
    end: int
    raw: bool
    last: bool

    @property
    def claim(self) -> int:
        """Bytes that follow the header, as it says."""
        return self.end - self.start - BLOCK_HEADER


def block_at(data: memoryview, start: int) -> Block | None:
    """Return the block that begins at `start`, None when its header is cut."""
    body = start + BLOCK_HEADER
    if body > len(data):
        return None
    header = int.from_bytes(data[start:body], "little")
    kind = header >> 1 & 3
    return Block(start, body + (1 if kind == RLE else header >> 3), kind == RAW, bool(header & 1))


def last_block(data: memoryview, frame: Frame) -> Block | None:
    """Return the last block of a frame; of one that is cut, the last block whose header is there."""
    found, block = None, block_at(data, frame.blocks)
    while block:
        found = block
        if block.last:
            break
        block = block_at(data, block.end)
    return found


def frame_end(data: memoryview, frame: Frame) -> int:
    """Return the position after a frame; more than the length of `data` when it is cut."""
    position = frame.blocks
    while position + BLOCK_HEADER <= len(data):
        header = int.from_bytes(data[position : position + BLOCK_HEADER], "little")
        position += BLOCK_HEADER + (1 if header >> 1 & 3 == RLE else header >> 3)
        if header & 1:
            return position + WORD * frame.checksum
    return len(data) + 1


def skippable_end(data: memoryview, start: int) -> int:
    """Return the position after the skippable frame at `start`, 0 when there is none."""
    if data[start + 1 : start + WORD] != SKIPPABLE or data[start] & 0xF0 != 0x50:
        return 0
    size = data[start + WORD : start + 2 * WORD]
    return start + 2 * WORD + int.from_bytes(size, "little") if len(size) == WORD else len(data) + 1


def outline(data: memoryview) -> tuple[int, Frame | None, bool]:
    """Find the frames by their headers, without decoding them.

    Args:
        data: the whole section.

    Returns:
        The position after the last whole frame, the frame that begins there and is cut if its header is
        whole, and whether anything is cut there.
    """
    position, size = 0, len(data)
    while position < size:
        frame, end = None, 0
        if data[position : position + WORD] == MAGIC:
            frame = parse_frame(data, position)
            end = frame_end(data, frame) if frame else size + 1
        else:
            end = skippable_end(data, position)
        if end == 0:
            break
        if end > size:
            return position, frame, True
        position = end
    return position, None, False


def never_last(data: memoryview, block: Block) -> bytes:
    """Return a block that is not the last of its frame.

    At the last one libzstd checks the size that the frame declares, and returns nothing where that is wrong.
    """
    return bytes([data[block.start] & ~1]) + data[block.start + 1 : block.end]


def shortened(data: memoryview, block: Block) -> bytes:
    """Return the data with the length of its last block, a raw one that is cut, made that of its bytes."""
    body = block.start + BLOCK_HEADER
    header = (len(data) - body << 3).to_bytes(BLOCK_HEADER, "little")
    return b"".join((data[: block.start], header, data[body:]))
