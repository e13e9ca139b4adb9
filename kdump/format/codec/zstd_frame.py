"""zstd: where frames and their blocks are, and both sound and damaged ones read with the zstandard package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Code
from kdump.format.codec.base import CodecProblem, StreamDamage
from kdump.value import Value

if TYPE_CHECKING:
    from zstandard import ZstdDecompressor

    from kdump.format.codec.base import Pieces

MAGIC = b"\x28\xb5\x2f\xfd"
SKIPPABLE = b"\x2a\x4d\x18"
WORD = 4
BLOCK_HEADER = 3
LARGEST_BLOCK = 1 << 17
RAW, RLE = 0, 1
SINGLE_SEGMENT, CHECKSUM = 0x20, 4
MAX_WINDOW = (1 << 27) + 1
# A context keeps the window of its largest frame: only small ones are kept for the next section.
KEPT_WINDOW = 1 << 23
KEPT_CONTEXTS = 8
SCRATCH = 1 << 16


class Frame(Value):
    """The position of a frame, and the fields of its header."""

    start: int  # position of its magic number
    blocks: int  # position of its first block header
    window: int  # bytes of history that its decoder must keep
    content_size: int | None  # bytes that it declares, None when it does not
    checksum: bool  # whether a content checksum follows the last block

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
    """The position of a block."""

    start: int  # position of its header
    end: int  # position after it, which may be past the end of the data
    raw: bool  # it holds its bytes as they are
    last: bool  # it is the last one of its frame

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


# What zstd-jni takes, and so what a consumer can read: 2^27 and the one byte that libzstd adds.


contexts: list[ZstdDecompressor] = []


class ZstdReader:
    """Reads sound frames straight into the target.

    Args:
        data: the whole section.
    """

    __slots__ = ("_context", "_ended", "_kept", "_reader", "problem")

    def __init__(self, data: memoryview) -> None:
        self.problem: CodecProblem | None = None
        self._ended = False
        frame = parse_frame(data, 0) if data[:WORD] == MAGIC else None
        end = frame_end(data, frame) if frame else 0
        self._kept = frame is not None and end == len(data) and frame.window <= KEPT_WINDOW
        if end == 0 or end != len(data):
            end, _, cut = outline(data)
            if cut or end == 0:
                raise StreamDamage
            if end < len(data):
                self.problem = bytes_after(len(data) - end)
                data = data[:end]
        self._context = take_context()
        self._reader = self._context.stream_reader(data, read_across_frames=True)

    def read_into(self, target: memoryview) -> int:
        """Fill `target`; see FastReader."""
        if self._ended:
            return 0
        try:
            count = self._reader.readinto(target)
        except failure():
            raise StreamDamage from None
        if count < len(target):
            self._ended = True
            if self._kept:
                give_back(self._context)
        return count


def take_context() -> ZstdDecompressor:
    """Return a context that nobody else uses; making one costs as much as decoding a small batch."""
    try:
        return contexts.pop()
    except IndexError:
        return new_context()


def new_context() -> ZstdDecompressor:
    """Return a context that was never used.

    Which error libzstd names can depend on the buffers that a context kept: damage is judged with a new one.
    """
    from zstandard import ZstdDecompressor

    return ZstdDecompressor(max_window_size=MAX_WINDOW)


def failure() -> type[Exception]:
    """Return what the library raises; looked up only when something was raised."""
    from zstandard import ZstdError

    return ZstdError


def give_back(context: ZstdDecompressor) -> None:
    """Keep a context for the next section."""
    if len(contexts) < KEPT_CONTEXTS:
        contexts.append(context)


def ends_early(data: memoryview) -> CodecProblem:
    """Return the problem of a section that lacks its end."""
    why = "the zstd data ends early" if data else "there is no zstd data at all"
    return CodecProblem(Code.C02, why, fatal=True)


def bytes_after(count: int) -> CodecProblem:
    """Return the problem of a section with `count` bytes after the last frame."""
    return CodecProblem(Code.C02, f"{count} bytes follow the end of the zstd data", fatal=False)


def read_carefully(data: memoryview) -> Pieces:
    """Decode damaged frames up to the first block that cannot be decoded.

    Args:
        data: the whole section.

    Yields:
        Decoded bytes, from the first one on.

    Returns:
        What is wrong.
    """
    position = 0
    while position < len(data):
        magic = data[position : position + WORD]
        if magic != MAGIC:
            end = skippable_end(data, position)
            if end == 0 and position:
                return bytes_after(len(data) - position)
            if end == 0 and not MAGIC.startswith(bytes(magic)):
                return CodecProblem(Code.C01, "there is no zstd frame", fatal=True)
            if end == 0 or end > len(data):
                return ends_early(data)
            position = end
            continue
        frame = parse_frame(data, position)
        problem = (yield from read_frame(data, frame)) if frame else ends_early(data)
        if problem or frame is None:
            return problem
        position = frame_end(data, frame)
    return None if data else ends_early(data)


def read_frame(data: memoryview, frame: Frame) -> Pieces:
    """Decode one frame block by block, so that a bad block costs nothing of those before it.

    Args:
        data: the whole section.
        frame: the one to read.

    Yields:
        Decoded bytes, at most 128 KB at a time.

    Returns:
        What is wrong.
    """
    decoder = new_context().decompressobj()
    total, block = 0, block_at(data, frame.blocks)
    try:
        decoder.decompress(data[frame.start : frame.blocks])
        while block and block.end <= len(data):
            piece = decoder.decompress(never_last(data, block))
            total += len(piece)
            yield piece
            if block.last:
                return judge_end(data, frame, block.end, total)
            block = block_at(data, block.end)
    except failure() as error:
        return judge(frame, error)
    if block and block.claim > frame.largest_block:
        why = f"a block claims {block.claim} bytes, where {frame.largest_block} is the largest"
        return CodecProblem(Code.C01, why, fatal=True)
    if block and block.raw:
        yield data[block.start + BLOCK_HEADER :]
    return ends_early(data)


def judge(frame: Frame, error: Exception) -> CodecProblem:
    """Return the problem that a message of libzstd stands for."""
    if frame.window > MAX_WINDOW:
        why = f"it needs a window of {frame.window} bytes, where {MAX_WINDOW - 1} are allowed"
        return CodecProblem(Code.C04, why, fatal=True)
    return CodecProblem(Code.C01, libzstd_message(error), fatal=True)


def libzstd_message(error: Exception) -> str:
    """Return libzstd's own words, without those that zstandard puts before them."""
    return str(error).rpartition(": ")[2]


def judge_end(data: memoryview, frame: Frame, position: int, total: int) -> CodecProblem | None:
    """Return what is wrong after the last block of a frame; never fatal, for all bytes were delivered.

    Args:
        data: the whole section.
        frame: the one that was read.
        position: after its last block.
        total: bytes that were decoded.
    """
    if frame.content_size not in (None, total):
        return CodecProblem(Code.C04, f"{frame.content_size} bytes, where there are {total}", fatal=False)
    if not frame.checksum:
        return None
    if position + WORD > len(data):
        return CodecProblem(Code.C02, "the content checksum of the zstd frame is missing", fatal=False)
    if not checksum_holds(data[frame.start : position + WORD]):
        return CodecProblem(Code.C01, "the content checksum is wrong", fatal=False)
    return None


def checksum_holds(data: memoryview) -> bool:
    """Return whether libzstd accepts a frame whose blocks are all sound."""
    reader = new_context().stream_reader(data)
    scratch = bytearray(SCRATCH)
    try:
        while reader.readinto(scratch):
            pass
    except failure():
        return False
    return True
