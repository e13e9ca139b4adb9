"""Where readers of committed data stand: at the first transaction that is open at the end of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import ignore
from kdump.storage.segment import UnreadableError

if TYPE_CHECKING:
    from kdump.broker.log_facts import FirstOpen, LogReader
    from kdump.dump.input_file import InputFile


def log_reader(log: InputFile, max_batch_bytes: int) -> LogReader | None:
    """Return what reads the partition of a log as a broker does; None where it cannot be read, or has no segment.

    Args:
        log: one of its logs.
        max_batch_bytes: a larger batch is not held in memory.
    """
    from kdump.broker.log_facts import LogFiles, LogReader

    try:
        files = LogFiles(log.directory, ignore, max_batch_bytes)
    except (UnreadableError, OSError):
        return None  # what cannot be read is said where it is shown
    return LogReader(files) if files.bases else None


def last_stable(log: InputFile, reader: LogReader | None) -> FirstOpen | None:
    """Return the transaction at whose first offset readers of committed data stand; None for none, or not known.

    Args:
        log: one of the partition.
        reader: of that.
    """
    from kdump.broker.log_facts import waits_for

    if reader is None or log.log_base not in reader.files.bases or not log.name.is_live:
        return None
    try:
        return waits_for(reader)
    except (UnreadableError, OSError):
        return None
