"""How what one segment shows is kept for the next night, and what may stand in such a file."""

from __future__ import annotations

from types import MappingProxyType

from kdump.broker.foreign import LogShape
from kdump.broker.missing.ranges import MissingRange, Proof
from kdump.broker.producer.replay import Abort, SegmentProducers
from kdump.checks.duplicates import Overlap
from kdump.checks.job import IndexVerdict, MissingInLog, OriginFacts, SegmentSummary
from kdump.finding import Code, Finding, Severity
from kdump.format.checkpoint.producer_snapshot import ProducerStateEntry
from kdump.format.kinds import FileKind
from kdump.rows.verdict import Certainty
from kdump.storage.value_forms import (
    FLAG,
    NUMBER,
    NUMBERS,
    TEXT,
    WORD,
    CannotKeepError,
    KeptForm,
    many,
    maybe,
    member,
    one_of,
    pairs,
    record,
)

_CODE, _KIND = member(Code), member(FileKind)
_VALUES = pairs(TEXT, WORD)


def _none(value: object) -> None:
    if value is not None:  # what mends a file is for the partition to say, each time anew
        raise CannotKeepError


_NO_COMMAND = KeptForm(_none, lambda _found, _path: None)
_FINDING = record(
    Finding,
    _CODE,
    TEXT,  # file
    maybe(NUMBER),  # position
    maybe(NUMBER),  # length
    FLAG,  # gap
    maybe(NUMBER),  # offset
    maybe(NUMBER),  # last_offset
    maybe(TEXT),  # field
    WORD,  # expected
    WORD,  # found
    _NO_COMMAND,  # repair
    maybe(NUMBER),  # count
    maybe(_CODE),  # because
    maybe(NUMBER),  # more
    maybe(member(Severity)),
    KeptForm(_VALUES.write, lambda found, path: MappingProxyType(_VALUES.read(found, path))),
    FLAG,  # by_neighbours
)
_RANGE = record(
    MissingRange,
    NUMBER,  # first
    NUMBER,  # last
    many(TEXT),  # because
    TEXT,  # file
    NUMBER,  # position
    NUMBER,  # length
    maybe(NUMBER),  # records
    maybe(member(Certainty)),
    maybe(member(Proof)),
    maybe(NUMBER),  # missing_bytes
    FLAG,  # is_vouched
)
_ENTRY = record(ProducerStateEntry, *[NUMBER] * 8)
_PRODUCERS = record(
    SegmentProducers,
    TEXT,  # file
    pairs(NUMBER, _ENTRY),
    pairs(NUMBER, NUMBER),  # ends
    many(record(Abort, *[NUMBER] * 5), list),
    pairs(NUMBER, NUMBERS),  # strays
    FLAG,  # complete
)
_SHAPE = record(LogShape, maybe(NUMBER), FLAG, FLAG, FLAG, maybe(many(NUMBER)), FLAG, FLAG)
_FACTS = record(
    OriginFacts,
    pairs(_KIND, record(IndexVerdict, NUMBER, NUMBER, NUMBER, NUMBER, maybe(NUMBER))),
    _SHAPE,
    maybe(_CODE),
)
_SUMMARY = record(
    SegmentSummary,
    NUMBER,  # batches
    NUMBER,  # records
    NUMBER,  # end_offset
    FLAG,  # is_read
    FLAG,  # has_epochs
    FLAG,  # has_holes
    FLAG,  # damaged
    maybe(_PRODUCERS),
    pairs(_KIND, NUMBER),  # sizes
    maybe(NUMBER),  # first_timestamp
    maybe(NUMBER),  # max_timestamp
    maybe(_FACTS),
    maybe(NUMBER),  # dense_from
    many(many(NUMBER)),  # marker_holes
    many(record(Overlap, NUMBER, NUMBER, NUMBER, maybe(NUMBER))),
    FLAG,  # is_asked_around
    maybe(NUMBER),  # read_at
)
RESULTS = many(
    one_of(
        finding=(Finding, _FINDING),
        missing=(MissingInLog, record(MissingInLog, many(_RANGE), NUMBER)),
        summary=(SegmentSummary, _SUMMARY),
    ),
    list,
)
"""What `check_segment` yields, but for progress and failures: what could not be read is read again each night."""
