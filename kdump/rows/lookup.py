"""The row of find-offset and find-time."""

from __future__ import annotations

from enum import Enum, auto

from kdump.row import Kind, Row, column, computed


class NoAnswer(Enum):
    """Why a lookup found nothing, where more is said of it than that."""

    PAST_END = auto()  # the offset is the end of the log, or beyond
    NO_TIME = auto()  # no record is late enough, or none has a timestamp


class OffsetContent(Enum):
    """What stands at an offset."""

    RECORD = "record"
    COMPACTED = "compacted"
    ABORTED = "aborted"
    CONTROL = "control"


class LookupAnswer(Row, name="location"):
    """Where something is, or why it is nowhere."""

    asked: str  # the question, as the user wrote it

    @computed(Kind.WORD, "the question as it was asked")
    def query(self) -> str:
        """The question without the blanks around it."""
        return self.asked.strip()

    offset: int | None = column(
        Kind.OFFSET, "of the record, or the end of the log that was asked for; null for no answer", default=None
    )
    timestamp: int | None = column(
        Kind.TIME, "of the record; -1 for an end of the log, as brokers answer", default=None
    )
    leader_epoch: int | None = column(Kind.NUMBER, "of the record; null where there is none", default=None)
    file: str | None = column(
        Kind.PATH, "the log, as the user wrote its path, or below the directory that the user wrote", default=None
    )
    position: int | None = column(Kind.POSITION, "of the batch; null for an end of the log", default=None)
    base_offset: int | None = column(Kind.OFFSET, "of the batch; null for an end of the log", default=None)
    last_offset: int | None = column(Kind.OFFSET, "of the batch; null for an end of the log", default=None)
    what: OffsetContent | None = column(
        Kind.WORD,
        "what stands at the offset that was asked for, or that answers a time: a record, one of an aborted "
        "transaction, a control record, or none any more, as compaction took it; null where that is not known",
        words=tuple(one.value for one in OffsetContent),
        default=None,
    )
    next: int | None = column(
        Kind.OFFSET,
        "of the next record at or behind that offset, control records left out; null for none, or not known",
        default=None,
    )
    next_committed: int | None = column(
        Kind.OFFSET,
        "of the next one that a read_committed consumer gets: behind an open transaction none; null for none, or not "
        "known",
        default=None,
    )
    error: str | None = column(Kind.TEXT, "why there is no answer; null where there is one", default=None)
    partition: str | None = column(
        Kind.PARTITION, "whose answer it is, TOPIC-N; null for a log in a directory of another name", default=None
    )
    assumed: tuple[str, ...] = column(Kind.TEXT, "what the answer depends on and was not given", default=())
    no_answer: NoAnswer | None = None  # which kind of no answer it is; None for others, and where there is one

    @property
    def answer(self) -> str:
        """The answer in a few words, for sentences that compare two."""
        if self.error is not None:
            return "nothing"
        if self.position is None:
            return f"offset {self.offset}"
        at = f"the batch {self.base_offset}..{self.last_offset} at byte {self.position} of {self.file}"
        return at if self.offset is None else f"offset {self.offset} in {at}"
