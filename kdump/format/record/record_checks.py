"""What reading the records of a batch with the right CRC can show: findings of the families R, C, B10 and P03."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kdump.finding import Capped, Code, Finding, Trait
from kdump.format.batch import layout
from kdump.format.batch.base_offset.header import offsets_at
from kdump.format.codec.base import CompressionType
from kdump.format.codec.signatures import looks_like
from kdump.format.record import _records
from kdump.format.record.chunk import NOT_A_WRAPPER, OVER_LIMIT, Chunk, RecordProblem
from kdump.format.record.reader import key_and_value

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator

    from kdump.format.batch.window import Window

_CODES = {
    layout.R_LENGTH_VARINT: (Code.R01, ""),
    layout.R_FIELD_VARINT: (Code.R01, ""),
    layout.R_LENGTH_NEGATIVE: (Code.R02, ""),
    layout.R_BODY: (Code.R03, "its fields do not fill its length"),
    layout.R_LEFT_OVER: (Code.R03, "bytes follow the last record"),
    layout.R_KEY_LENGTH: (Code.R04, "the key reaches past the end"),
    layout.R_VALUE_LENGTH: (Code.R04, "the value reaches past the end"),
    layout.R_NO_MESSAGE: (Code.R04, "the key reaches past the end"),
    layout.R_HEADER_COUNT_BAD: (Code.R04, "the number of headers cannot be right"),
    layout.R_HEADER_KEY: (Code.R04, "a header has no key, or its key reaches past the end"),
    layout.R_HEADER_VALUE: (Code.R04, "a header value reaches past the end"),
}


class RecordChecks:
    """Judges the records of one file, a chunk at a time; of one code in one batch a hundred findings stand.

    Batches whose CRC is wrong are passed over: their finding says all.

    Args:
        file: the path as the user wrote it.

    Reports: R01-R06, C01-C07, B08, B10, L12, P03.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        self._found: list[Finding] = []
        self._capped = Capped(self._found.append)
        self._number = 0  # records of the batch in hand that were judged
        self._previous: int | None = None  # offset delta of the last of them

    def check(self, chunk: Chunk) -> list[Finding]:
        """Return what is wrong with the records of a chunk's batches, as far as they were read."""
        rows, last = chunk.window.rows, chunk.last - 1
        if chunk.problem is not None:
            self._found.extend(_problem(self._file, chunk, chunk.problem))
        k = _records.next_odd(rows, chunk.first, chunk.last)
        while k < last or (k == last and chunk.done):
            self._judge(chunk, k)
            self._capped.close()
            self._found.extend(_timestamps(self._file, chunk, k))
            k = _records.next_odd(rows, k + 1, chunk.last)
        if chunk.done:
            self._capped.close()
        else:
            self._judge(chunk, last)
        found = self._found[:]
        self._found.clear()
        return found

    def _judge(self, chunk: Chunk, k: int) -> None:
        """Look at the records of one batch; the first ones may have been in the chunk before."""
        at, rows = k * layout.BATCH_WIDTH, chunk.window.rows
        if k != chunk.first or not chunk.begun:
            self._capped.close()
            self._number, self._previous = 0, None
        if rows[at + layout.CRC] != rows[at + layout.COMPUTED_CRC]:
            return
        if rows[at + layout.SUSPICION] & (layout.ODD_ORDER | layout.ODD_FIELDS) or not chunk.done:
            self._odd_records(chunk, k)
        if rows[at + layout.ATTRIBUTES] & layout.CONTROL_FLAG and rows[at + layout.MAGIC] >= layout.MAGIC_V2:
            for finding in _controls(self._file, chunk, k):
                self._capped(finding)

    def _odd_records(self, chunk: Chunk, k: int) -> None:
        """Look at the rows of a marked batch that break a rule; those beyond a hundred of a code are counted."""
        rows, width, capped = chunk.rows, layout.RECORD_WIDTH, self._capped
        limit = chunk.window.cell(k, layout.LAST_OFFSET_DELTA)
        i = 0
        while i < chunk.filled:
            start, wanted = i, sum(flag for flag, code in _FAULTS if not capped.is_full(code))
            i = _records.next_flagged(rows, start, chunk.filled, k, wanted) if wanted else chunk.filled
            if i > start:
                self._number += _records.count_flagged(rows, start, i, k, 0)
                for flag, code in _FAULTS if wanted != _ALL_FAULTS else ():
                    if not flag & wanted:
                        capped.add(code, _records.count_flagged(rows, start, i, k, flag))
            if i < chunk.filled:
                self._odd_record(chunk, k, rows[i * width : (i + 1) * width], self._before(chunk, k, i), limit)
                self._number += 1
                i += 1
        self._previous = self._before(chunk, k, chunk.filled)

    def _before(self, chunk: Chunk, k: int, i: int) -> int | None:
        """The offset delta of the record before row i, None where that is the first of its batch."""
        at = (i - 1) * layout.RECORD_WIDTH
        if i and chunk.rows[at + layout.R_BATCH] == k:
            return chunk.rows[at + layout.R_DELTA]
        return self._previous

    def _odd_record(self, chunk: Chunk, k: int, row: array[int], previous: int | None, limit: int) -> None:
        """Say which rules one record breaks."""
        delta = row[layout.R_DELTA]
        index: dict[str, int | str | None] = {"index": self._number}

        def say(code: Code, **more: Any) -> None:  # noqa: ANN401 (fields of a Finding)
            self._capped(_finding(self._file, chunk, k, code, **more))

        if row[layout.R_FLAGS] & layout.DISORDERED:
            values = {**index, "previous": -1 if previous is None else previous, "limit": limit}
            say(Code.R06, field="offsetDelta", found=delta, values=values)
        if row[layout.R_FLAGS] & layout.ODD_LENGTH:
            name = "key" if row[layout.R_KEY_SIZE] < -1 else "value"
            size = row[layout.R_KEY_SIZE] if name == "key" else row[layout.R_VALUE_SIZE]
            why = f"the length of the {name} is {size}; readers take it for null"
            say(Code.R04, found=size, values={**index, "why": why})
        attributes = row[layout.R_ATTRIBUTES]
        if attributes:
            why = f"its attributes are {attributes}, no release has given them a meaning"
            say(Code.R05, found=attributes, values={**index, "why": why})
        if row[layout.R_FLAGS] & layout.ODD_HEADER_KEY:
            say(Code.R05, values={**index, "why": "a header key is not UTF-8"})


_FAULTS = (
    (layout.DISORDERED, Code.R06),
    (layout.ODD_LENGTH, Code.R04),
    (layout.HAS_ATTRIBUTES, Code.R05),
    (layout.ODD_HEADER_KEY, Code.R05),
)
_ALL_FAULTS = sum(flag for flag, _ in _FAULTS)
_MOST_CONTROLS = 1000  # records of a control batch that are looked at: a broker writes one


def _finding(file: str, chunk: Chunk, k: int, code: Code, **more: Any) -> Finding:  # noqa: ANN401 (fields of a Finding)
    window = chunk.window
    first, last, is_after = offsets_at(window, k)
    place = window.cell(k, layout.POSITION), window.cell(k, layout.SIZE)
    return Finding(code, file, *place, offset=first, last_offset=last, by_neighbours=is_after, **more)


def _problem(file: str, chunk: Chunk, problem: RecordProblem) -> Iterator[Finding]:
    k = problem.batch
    if problem.status == OVER_LIMIT:
        size = chunk.window.cell(k, layout.SIZE)
        why = f"the batch has {size} bytes, its records were not read (--max-batch-bytes)"
        yield _finding(file, chunk, k, Code.L12, values={"why": why})
        return
    if chunk.window.cell(k, layout.CRC) != chunk.window.cell(k, layout.COMPUTED_CRC):
        return
    codec = (
        CompressionType(chunk.window.cell(k, layout.ATTRIBUTES) & layout.CODEC_MASK).label if _known(chunk, k) else "?"
    )
    looks = _other_codec(chunk, problem)
    if looks is not None:
        yield _finding(file, chunk, k, Code.C05, values={"codec": codec, "looks": looks})
    elif problem.codec is not None:
        values = {
            "codec": codec,
            "why": problem.codec.why,
            "looks": problem.codec.why,
        }
        yield _finding(file, chunk, k, problem.codec.code, values=values)
    elif problem.status == NOT_A_WRAPPER:
        yield _finding(file, chunk, k, Code.C07, values={"why": problem.why})
    elif problem.status == layout.R_MORE:
        if problem.rest or not chunk.window.cell(k, layout.SUSPICION) & layout.ODD_COUNT:
            yield _ends_early(file, chunk, problem)
    elif problem.status in _CODES:
        code, why = _CODES[problem.status]
        found = problem.found if problem.found is not None else -1
        yield _finding(file, chunk, k, code, found=found, values={"index": problem.number, "why": why})


def not_read(file: str, chunk: Chunk) -> Iterator[Finding]:
    """Yield the place of each batch of a chunk whose records cannot be read to their end.

    A right CRC with a codec that does not exist (B05) or a count of 0 (B09) is the matter of the header checks.

    Args:
        file: the path as the user wrote it.
        chunk: of its records.

    Yields:
        Findings with the code of what is wrong with the batch: where its CRC is wrong, of that.
    """
    window, problem = chunk.window, chunk.problem
    for k in _wrong_crcs(chunk):
        own = problem if problem is not None and problem.batch == k else None
        if _is_passed_over(window, k) if own is None else _ends_in_records(own):
            yield _finding(file, chunk, k, Code.B02 if window.cell(k, layout.MAGIC) < layout.MAGIC_V2 else Code.B01)
    if problem is not None and _ends_in_records(problem):
        for one in _problem(file, chunk, problem):  # of a right CRC
            if Trait.NOT_ALL_READ not in one.code.traits:
                yield one


def _wrong_crcs(chunk: Chunk) -> list[int]:
    """The batches of a chunk with a wrong CRC."""
    first, last, width = chunk.first, chunk.last, layout.BATCH_WIDTH
    stored = chunk.window.rows[first * width + layout.CRC : last * width : width]
    computed = chunk.window.rows[first * width + layout.COMPUTED_CRC : last * width : width]
    return [] if stored == computed else [k for k in range(first, last) if stored[k - first] != computed[k - first]]


def _ends_in_records(problem: RecordProblem) -> bool:
    """Whether records follow that cannot be read: else all are, and the count or the end of the stream is wrong."""
    counts_more = problem.status == layout.R_MORE and problem.rest == 0 and problem.codec is None
    return problem.status not in (OVER_LIMIT, layout.R_DONE) and not counts_more


def _is_passed_over(window: Window, k: int) -> bool:
    """Whether a batch has records that nobody looks for: it counts none, or its codec does not exist."""
    if window.cell(k, layout.MAGIC) < layout.MAGIC_V2 or window.cell(k, layout.SIZE) <= layout.RECORDS_AT:
        return False
    return (
        window.cell(k, layout.COUNT) == 0 or window.cell(k, layout.ATTRIBUTES) & layout.CODEC_MASK > layout.CODEC_ZSTD
    )


def _other_codec(chunk: Chunk, problem: RecordProblem) -> str | None:
    """What the records of a batch without compression look like, when not one of them can be read."""
    k = problem.batch
    if problem.number or chunk.window.cell(k, layout.ATTRIBUTES) & layout.CODEC_MASK:
        return None
    start = chunk.window.cell(k, layout.POSITION) - chunk.window.origin
    data = chunk.window.view[start + layout.RECORDS_AT : start + chunk.window.cell(k, layout.SIZE)]
    looks = looks_like(data, layout.MAGIC_V2)
    return looks if looks in {codec.label for codec in CompressionType} else None


def _known(chunk: Chunk, k: int) -> bool:
    return chunk.window.cell(k, layout.ATTRIBUTES) & layout.CODEC_MASK <= layout.CODEC_ZSTD


def _ends_early(file: str, chunk: Chunk, problem: RecordProblem) -> Finding:
    """The bytes end before the records that the header counts do."""
    k = problem.batch
    count = chunk.window.cell(k, layout.COUNT)
    if problem.rest == 0:  # they end between two records: the count is wrong
        return _finding(file, chunk, k, Code.B08, field="count", found=count, expected=problem.number)
    code = Code.R01 if problem.rest is not None and problem.rest < layout.LONGEST_VARINT else Code.R02
    return _finding(file, chunk, k, code, found=problem.found, values={"index": problem.number})


def _controls(file: str, chunk: Chunk, k: int) -> Iterator[Finding]:
    """Control records that Kafka cannot read: recovery of an unclean start fails on them."""
    if chunk.window.cell(k, layout.PRODUCER_ID) < 0:
        return  # of the Raft layer, or no control record at all: the header check says so
    if k == chunk.first and chunk.begun:
        return
    for i in range(min(chunk.filled, _MOST_CONTROLS)):
        row = chunk.rows[i * layout.RECORD_WIDTH : (i + 1) * layout.RECORD_WIDTH]
        if row[layout.R_BATCH] != k:
            continue
        why = control_problem(*key_and_value(chunk.view, row))
        if why is not None:
            yield _finding(file, chunk, k, Code.P03, values={"why": why})


def control_problem(key: bytes | None, value: bytes | None) -> str | None:
    """Say why a broker cannot replay a control record of a producer; None where it can.

    Args:
        key, value: of the record.

    Source: ControlRecordType.parse, EndTransactionMarker.deserialize.
    """
    key = key or b""
    if len(key) < layout.CONTROL_KEY_SIZE:
        return f"the key of a control record has {len(key)} bytes"
    if key[0] & 0x80:
        return "the version of a control record is negative"
    kind = int.from_bytes(key[2:4], "big", signed=True)
    if kind not in (0, 1):
        return f"the type of a control record is {kind}, no transaction marker"
    if value is None or len(value) < layout.MARKER_SIZE:
        return f"the value of a transaction marker has {-1 if value is None else len(value)} bytes"
    return "the version of a transaction marker is negative" if value[0] & 0x80 else None


def _timestamps(file: str, chunk: Chunk, k: int) -> Iterator[Finding]:
    """Compare maxTimestamp with the records, once all of them are read."""
    window = chunk.window
    done = k < chunk.last - 1 or (chunk.done and chunk.problem is None)
    if window.cell(k, layout.SEEN_MAX_TIMESTAMP) == layout.UNKNOWN:
        return
    if not done or window.cell(k, layout.MAGIC) < layout.MAGIC_V2 or window.cell(k, layout.COUNT) <= 0:
        return
    seen, stored = window.cell(k, layout.SEEN_MAX_TIMESTAMP), window.cell(k, layout.MAX_TIMESTAMP)
    append_time = window.cell(k, layout.ATTRIBUTES) & layout.TIMESTAMP_TYPE_FLAG
    if append_time:
        if seen == stored and window.cell(k, layout.SUSPICION) & layout.TIMES_VARY and _is_alone(window, k):
            yield _finding(
                file, chunk, k, Code.B10, field="timestampType", found="LogAppendTime", expected="CreateTime"
            )
    elif seen != stored:
        yield _finding(file, chunk, k, Code.B10, field="maxTimestamp", found=stored, expected=seen)


def _is_alone(window: Window, k: int) -> bool:
    """Whether the batches beside one have CreateTime, and some are known.

    A broker on its producer's host appends in the millisecond of the newest record, so that the batch by itself tells
    nothing; in a topic with LogAppendTime those beside it have append time too.
    """
    beside = [one for one in (k - 1, k + 1) if 0 <= one < window.count and window.cell(one, layout.MAGIC) > 0]
    return bool(beside) and not any(window.cell(one, layout.ATTRIBUTES) & layout.TIMESTAMP_TYPE_FLAG for one in beside)
