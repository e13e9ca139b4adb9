"""What reading records gives: chunks of columns, and why the records of a batch end early."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.value import Value

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterator, Sequence

    from kdump.format.batch.window import Window
    from kdump.format.codec.base import CodecProblem

    Event = tuple[int, memoryview | None, int]

OVER_LIMIT = -1  # status of a batch that is too large to be held
LARGE = 8 * 1024 * 1024  # bytes of a record that is not held, unless a reader wants it whole
KEPT = 1024 * 1024  # bytes of its key, of its value and of its headers that its row tells of
STREAM_SIZE = 256 * 1024  # bytes of decompressed records held at once, more only for one larger record
MOST_WHOLE = 16 * 1024 * 1024  # bytes of key and value of such a record that a decoder is given
NOT_A_WRAPPER = -2  # status: a compressed message of magic 0 or 1 breaks a rule of its own


class RecordProblem(Value):
    """Why the records of a batch end early, or what is odd about their end.

    Args:
        batch: row of the batch.
        status: layout.R_LENGTH_VARINT ... R_NO_MESSAGE, or OVER_LIMIT.
        number: of the record (from 0) that could not be read, or how many there are.
        at: place of that record in the bytes of the records (decompressed), from 0; None when not known.
        found: a length that is wrong.
        rest: bytes that are left after the last record that was read.
        codec: what the decompressor says, when that is the reason.
        why: a sentence about legacy wrappers.
        java: where records are read as Kafka reads them: the exception that ends the batch, class and message.
    """

    batch: int
    status: int
    number: int
    at: int | None = None
    found: int | None = None
    rest: int | None = None
    codec: CodecProblem | None = None
    why: str | None = None
    java: str = ""


class CutRecord(Value):
    """What a record has whose row tells of less.

    Args:
        size: of the whole record, bytes, its length included.
        key_size, value_size: bytes; below 0 for null.
        headers: how many.
        texts: of each field that comes in pieces, in order: whether it is UTF-8.
        again: reads it again. Yields what comes (layout.AT_KEY, AT_VALUE, AT_HEADER_KEY, AT_HEADER_VALUE: a piece of
            that field; cut_record.HEADERS: whole headers), the bytes (None for null; valid until the next are asked
            for), and how many bytes of the field follow, or how many headers these are.
    """

    size: int
    key_size: int
    value_size: int
    headers: int
    texts: tuple[bool, ...]
    again: Callable[[], Iterator[Event]]


class Fate(Value):
    """What became of a record.

    Args:
        transaction: committed, aborted or open; None where it is in none, or in doubt.
        below_log_start: no consumer gets it any more.
        superseded_by: offset of the next record of its key that readers get; None where there is none.
        deleted_at: when retention deletes its segment, ms; None for never, or where nobody can tell.
        is_sound: the CRC of its batch is true; else no consumer gets it.
        no_key: compaction removes it because it has no key.
        is_judged: it is known whether its topic is deleted or compacted; else nobody can tell that it is kept.
        doubt: where the end of its transaction may be, "offset 33", though it cannot be read there; empty where no
            offset is known; None where it is not in doubt.
    """

    transaction: str | None
    below_log_start: bool
    superseded_by: int | None
    deleted_at: int | None
    is_sound: bool = True
    no_key: bool = False
    is_judged: bool = True
    doubt: str | None = None


class Chunk(Value):
    """Batches [first, last) of a window and the record rows that were read of them.

    Args:
        window: where the batches are.
        view: the buffer that the record rows point into.
        first, last: rows of batches, half-open.
        begun: an earlier chunk has had batch `first` already.
        rows: record rows.
        filled: how many of them.
        problem: what is wrong with batch `last - 1`; the next chunk begins after it.
        done: the records of batch `last - 1` end here.
        cut: the one row is of a record whose key, value or headers are larger than the row tells.
        fates: what became of each record; None where that was not asked for.
    """

    window: Window
    view: memoryview
    first: int
    last: int
    begun: bool
    rows: array[int]
    filled: int
    problem: RecordProblem | None = None
    done: bool = True
    cut: CutRecord | None = None
    fates: Sequence[Fate] | None = None


def shifted(buffer: memoryview, at: int, held: int, size: int) -> memoryview:
    """Move what is not read yet, [at, held), to the front of a buffer of a size; return it.

    A buffer of just that size is used again: what was made for one large record is let go with it.
    """
    target = buffer if size == len(buffer) else memoryview(bytearray(size))
    target[: held - at] = bytes(buffer[at:held])
    return target
