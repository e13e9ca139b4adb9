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
    """Why the records of a batch end early, or what is odd about their end."""

    batch: int  # row of the batch
    status: int  # layout.R_LENGTH_VARINT ... R_NO_MESSAGE, or OVER_LIMIT.
    number: int  # of the record (from 0) that could not be read, or how many there are
    # place of that record in the bytes of the records (decompressed), from 0; None when not known
    at: int | None = None
    found: int | None = None  # a length that is wrong
    rest: int | None = None  # bytes that are left after the last record that was read
    codec: CodecProblem | None = None  # what the decompressor says, when that is the reason
    why: str | None = None  # a sentence about legacy wrappers
    java: str = ""  # where records are read as Kafka reads them: the exception that ends the batch, class and message


class CutRecord(Value):
    """What a record has whose row tells of less."""

    size: int  # of the whole record, bytes, its length included
    # key_size, value_size: bytes; below 0 for null
    key_size: int
    value_size: int
    headers: int  # how many
    texts: tuple[bool, ...]  # of each field that comes in pieces, in order: whether it is UTF-8
    # reads it again. Yields what comes (layout.AT_KEY, AT_VALUE, AT_HEADER_KEY, AT_HEADER_VALUE: a piece of that field;
    # cut_record.HEADERS: whole headers), the bytes (None for null; valid until the next are asked for), and how many
    # bytes of the field follow, or how many headers these are.
    again: Callable[[], Iterator[Event]]


class Fate(Value):
    """What became of a record."""

    # committed, aborted, open, or unknown where it has ended and nobody can tell how; None where it is in none, or in
    # doubt
    transaction: str | None
    below_log_start: bool  # no consumer gets it any more
    superseded_by: int | None  # offset of the next record of its key that readers get; None where there is none
    deleted_at: int | None  # when retention deletes its segment, ms; None for never, or where nobody can tell
    is_sound: bool = True  # the CRC of its batch is true; else no consumer gets it
    no_key: bool = False  # compaction removes it because it has no key
    # producer id and first offset of the transaction that no read_committed consumer gets past; None where the record
    # lies before it
    waits_for: tuple[int, int] | None = None
    tombstone: str | None = None  # removed, until or unmarked: what compaction makes of it; None where it is none
    tombstone_until: int | None = None  # its delete horizon, ms
    is_marker: bool = False  # of a compacted topic: it is kept as long as its transaction has records
    # it is known whether its topic is deleted or compacted; else nobody can tell that it is kept
    is_judged: bool = True
    # where the end of its transaction may be, "offset 33", though it cannot be read there; empty where no offset is
    # known; None where it is not in doubt
    doubt: str | None = None


class Chunk(Value):
    """Batches [first, last) of a window and the record rows that were read of them."""

    window: Window  # where the batches are
    view: memoryview  # the buffer that the record rows point into
    # first, last: rows of batches, half-open
    first: int
    last: int
    begun: bool  # an earlier chunk has had batch `first` already
    rows: array[int]  # record rows
    filled: int  # how many of them
    problem: RecordProblem | None = None  # what is wrong with batch `last - 1`; the next chunk begins after it
    done: bool = True  # the records of batch `last - 1` end here
    cut: CutRecord | None = None  # the one row is of a record whose key, value or headers are larger than the row tells
    fates: Sequence[Fate] | None = None  # what became of each record; None where that was not asked for


def shifted(buffer: memoryview, at: int, held: int, size: int) -> memoryview:
    """Move what is not read yet, [at, held), to the front of a buffer of a size; return it.

    A buffer of just that size is used again: what was made for one large record is let go with it.
    """
    target = buffer if size == len(buffer) else memoryview(bytearray(size))
    target[: held - at] = bytes(buffer[at:held])
    return target
