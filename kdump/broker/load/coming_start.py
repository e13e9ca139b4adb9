"""The start that is coming: clean or not, as the log directory shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.load.facts import Start
from kdump.storage.log_dir import is_log_dir

if TYPE_CHECKING:
    from kdump.storage.log_dir import LogDir

HELD = "a broker has the log directory open: the start that is told is the one after it died now"
"""What is assumed of a log directory whose lock is held."""


def coming_starts(log_dir: LogDir) -> tuple[Start, ...]:
    """Return the start that is coming; both, where a directory is no log directory and so nobody knows.

    A broker removes the marker of a clean shutdown when it starts, so one that runs, and dies, leaves none.

    Args:
        log_dir: the directory that partitions lie in.

    Source: LogManager.loadLogs, CleanShutdownFileHandler.
    """
    if log_dir.is_held:
        return (Start.UNCLEAN,)
    if log_dir.is_clean:
        return (Start.CLEAN,)
    return (Start.UNCLEAN,) if is_log_dir(log_dir.path) else (Start.CLEAN, Start.UNCLEAN)
