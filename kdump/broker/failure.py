"""Exceptions of the broker: as a value, and as the signal that ends a step of its model."""

from __future__ import annotations

from kdump.format.java_values import INVALID
from kdump.value import Value

CORRUPT = "org.apache.kafka.common.errors.CorruptRecordException"
INVALID_OFFSET = "org.apache.kafka.common.errors.InvalidOffsetException"


class Failure(Value):
    """The exception that ended the recovery of a segment."""

    # what the broker was at: open, framing, ensureValid, offset, offset index, time index, epochs, producers,
    # transaction index
    stage: str
    # class and message as Java prints them; where a broker only logs that a record of a control batch is broken, the
    # message can be a more general one
    exception: str
    position: int  # of the batch in the log

    @property
    def java_class(self) -> str:
        """The class of the exception, with its package."""
        return self.exception.partition(":")[0]

    @property
    def escapes(self) -> bool:
        """Whether the exception leaves `LogSegment.recover`; if not the log is cut there, and all is well."""
        return self.java_class not in (CORRUPT, INVALID)


class BrokerError(Exception):
    """A broker throws; never leaves `kdump.broker`.

    Args:
        row: of the batch in its window.
        stage, exception: as in `Failure`.
    """

    def __init__(self, row: int, stage: str, exception: str) -> None:
        super().__init__(exception)
        self.row = row
        self.stage = stage
        self.exception = exception
