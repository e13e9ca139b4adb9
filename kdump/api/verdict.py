"""`verify`: the findings, losses and predictions of files, partition directories and log directories."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from kdump.api.errors import raise_first
from kdump.api.select import time_of, whole
from kdump.checks.options import VerifyOptions
from kdump.finding import Finding
from kdump.format.read_limits import MAX_BATCH_BYTES, MAX_UNCOMPRESSED_BYTES
from kdump.rows.steps import Step
from kdump.rows.verdict import Duplicate, Loss, Prediction
from kdump.storage.file_source import OpenFailure
from kdump.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from kdump.item import Item


class Verdict:
    """The result of verify. It reads while it is iterated, and its other attributes read to the end.

    Iterating it gives the findings as they are made; a second time, those that were made.

    Attributes:
        paths: as they were given.
    """

    def __init__(self, paths: list[str], options: VerifyOptions) -> None:
        self.paths = paths
        self._options = options
        self._items: Iterator[Item] | None = None
        self._findings: list[Finding] = []
        self._predictions: list[Prediction] = []
        self._losses: list[Loss] = []
        self._duplicates: list[Duplicate] = []
        self._steps: list[Step] = []
        self._tally = Tally(shallow=not options.deep)

    def __iter__(self) -> Iterator[Finding]:
        at = 0
        while at < len(self._findings) or self._read_one():
            while at < len(self._findings):
                yield self._findings[at]
                at += 1

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All of them."""
        self._read_all()
        return tuple(self._findings)

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Offsets that readers do not get, by partition."""
        self._read_all()
        return tuple(self._losses)

    @property
    def duplicates(self) -> tuple[Duplicate, ...]:
        """Offsets that logs have twice, by partition: nothing of them is lost."""
        self._read_all()
        return tuple(self._duplicates)

    @property
    def predictions(self) -> tuple[Prediction, ...]:
        """The next start of a broker, for each partition; empty without `start`."""
        self._read_all()
        return tuple(self._predictions)

    @property
    def steps(self) -> tuple[Step, ...]:
        """What to do about it, in an order that works."""
        self._read_all()
        return tuple(self._steps)

    @property
    def summary(self) -> dict[str, Any]:
        """The totals by the names of JSON's `summary`, and `unchecked`: path and reason of what was not read."""
        self._read_all()
        row = self._tally.summary(0)
        found = {one.key: getattr(row, one.attribute) for one in row.columns if one.attribute != "exit"}
        return {**found, "unchecked": [{"file": one.file, "reason": one.reason} for one in row.unchecked]}

    def _read_all(self) -> None:
        while self._read_one():
            pass

    def _read_one(self) -> bool:
        """Take the next item; False at the end."""
        if self._items is None:
            from kdump.checks.run import verify as judged

            self._items = judged(self.paths, self._options)
        item = next(self._items, None)
        if item is None:
            return False
        self._tally.see(item)
        if isinstance(item, Finding):
            self._findings.append(item)
        elif isinstance(item, Prediction):
            self._predictions.append(item)
        elif isinstance(item, Loss):
            self._losses.append(item)
        elif isinstance(item, Duplicate):
            self._duplicates.append(item)
        elif isinstance(item, Step):
            self._steps.append(item)
        elif isinstance(item, OpenFailure) and item.missing:
            raise_first([item])
        return True


def verify(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    shallow: bool = False,
    resync: bool = True,
    contiguous: bool = False,
    start: str | None = None,
    config: Mapping[str, str] | None = None,
    now: int | str | datetime | None = None,
    jobs: int = 1,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    max_uncompressed_bytes: int = MAX_UNCOMPRESSED_BYTES,
) -> Verdict:
    """Return what is wrong with files, partition directories and log directories.

    Args:
        paths: one or several of them; a pattern where nothing has that name is expanded.
        shallow: do not read the records.
        resync: after damage, search for the next intact batch.
        contiguous: missing offsets are warnings.
        start: clean, unclean, full, all or auto (the one that is coming): predict what a broker does at its next start.
        config: settings of the broker and its topics for `start`, by name.
        now: the broker's clock for `start`: ms, a datetime or text; None for this machine's.
        jobs: processes to use; 0 for one on each core.
        max_batch_bytes: the records of a larger batch are not read.
        max_uncompressed_bytes: the records of one batch are read up to this size.

    Raises:
        Error: while it reads: there is no such path. What else cannot be read is in `summary["unchecked"]`.
        TypeError, ValueError: a keyword makes no sense.
    """
    several = [paths] if isinstance(paths, str | os.PathLike) else paths
    options = VerifyOptions(
        deep=not shallow,
        resync=resync,
        contiguous=contiguous,
        jobs=whole(0)("jobs", jobs),
        max_batch_bytes=whole(1)("max_batch_bytes", max_batch_bytes),
        max_uncompressed_bytes=whole(1)("max_uncompressed_bytes", max_uncompressed_bytes),
    )
    if start is not None:
        from kdump.broker.clusters import cluster_settings
        from kdump.broker.config import Config
        from kdump.broker.load.facts import Start
        from kdump.broker.load.log_manager import LoadSettings
        from kdump.format.read_limits import ReadLimits

        by_name = {"all": tuple(Start), "auto": ()}
        starts = by_name[start] if start in by_name else (Start(start),)
        clock = time.time_ns() // 1_000_000 if now is None else time_of("now", now)
        clusters = cluster_settings(
            [os.fspath(path) for path in several], ReadLimits(max_batch_bytes, max_uncompressed_bytes)
        )
        known = Config(dict(config or {}), clusters=clusters, has_file=config is not None)
        options = options.replace(starts=starts, is_auto=start == "auto", settings=LoadSettings(clock, known))
    return Verdict([os.fspath(path) for path in several], options)
