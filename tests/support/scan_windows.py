"""What a walk makes of bytes, and real segments to walk over: shared by the tests of the parser."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pytest import MonkeyPatch  # noqa: PT013

from kdump.api import _rows
from kdump.broker.cleaner import _cleaning
from kdump.decode import _fast
from kdump.decode.payload import _avro
from kdump.export import _columns
from kdump.finding import Code, Finding, Severity
from kdump.format.batch import _scan, layout, walk, window
from kdump.format.batch.walk import CheckedWalk
from kdump.format.record import _records, _select
from kdump.format.source import BytesSource
from kdump.render.json import _json
from kdump.render.text import _text
from kdump.state import _fold
from tests.support.runs import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from kdump.finding import Report
    from kdump.format.source import Source

# Kernels run compiled at full speed, so that many examples cost little: under sanitizers they do not.
KERNELS = (_scan, _records, _select, _cleaning, _text, _json, _fast, _columns, _rows, _fold, _avro)
COMPILED = all(kernel.is_compiled() for kernel in KERNELS) and "KDUMP_TEST_SANITIZED" not in os.environ
MAX_BATCH = 64 * 1024 * 1024
FEW_ROWS = 64  # rows for a small segment: room for thousands costs more than the walk


class Real(NamedTuple):
    """A segment that a broker wrote."""

    base: int
    data: bytes

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """Position and size of each batch, by its lengths."""
        found, at = [], 0
        while at < len(self.data):
            size = layout.LOG_OVERHEAD + int.from_bytes(self.data[at + 8 : at + 12], "big")
            found.append((at, size))
            at += size
        return found


def real(path: str | Path) -> Real:
    """Read a segment of the fixtures."""
    file = FIXTURES / path
    return Real(int(file.name.partition(".")[0]), file.read_bytes())


ZERO = "00000000000000000000.log"
FLIPS = {
    "v2": real("damage/flips/v2/00000000000000001000.log"),
    "v1": real("damage/flips/v1/00000000000000000050.log"),
}
# Small segments of every magic and codec, with gaps, transactions, epochs, null keys and odd flags among them.
SEGMENTS = {
    **FLIPS,
    "v0 all codecs": real(f"releases/0.11.0.3/logs/m0-0/{ZERO}"),
    "v1 all codecs": real(f"releases/0.11.0.3/logs/m1-0/{ZERO}"),
    "v1 log append time": real(f"releases/2.8.2/logs/m1lt-0/{ZERO}"),
    "v2 all codecs": real(f"releases/2.8.2/logs/mixed-0/{ZERO}"),
    "v0 v1 v2": real(f"releases/2.8.2/logs/upg-0/{ZERO}"),
    "transactions": real("releases/3.9.2/logs/txn-0/00000000000000000009.log"),
    "hand-made": real(f"kafka-4.3.1/clean/node1/raw-0/{ZERO}"),
    "compacted, transactions": real(f"kafka-4.3.1/clean/node1/compacttxn-0/{ZERO}"),
    "compacted": real("damage/intact/compacted/logdir/compacted-0/00000000000000000758.log"),
    "epochs": real("damage/intact/epochs/logdir/epochs-0/00000000000000000237.log"),
    "idempotent": real("damage/intact/txn/logdir/payments-0/00000000000000000224.log"),
}


class Extent(NamedTuple):
    """A range of a log: a batch with the right CRC, one with a wrong CRC, or a gap."""

    position: int
    size: int
    kind: str

    @property
    def place(self) -> tuple[int, int]:
        """Position and size."""
        return self.position, self.size


@dataclass(frozen=True, slots=True)
class Walked:
    """What came out of a walk.

    Args:
        size: of the log, bytes.
        rows: the columns of each batch, as far as they say nothing about its neighbours.
        findings: in the order in which they were reported.
    """

    size: int
    rows: list[tuple[int, ...]]
    findings: list[Finding]

    @property
    def extents(self) -> list[Extent]:
        """Batches and gaps by position."""
        found = [Extent(row[layout.POSITION], row[layout.SIZE], _kind(row)) for row in self.rows]
        found += [Extent(one.position or 0, one.length or 0, "gap") for one in self.findings if one.gap]
        return sorted(found)

    @property
    def trusted(self) -> list[tuple[int, int]]:
        """Position and size of each batch with the right CRC."""
        return [extent.place for extent in self.extents if extent.kind == "batch"]

    @property
    def told(self) -> list[str]:
        """All findings as texts, sorted: how far a window reaches decides which of two comes first."""
        return sorted(map(repr, self.findings))

    @property
    def codes(self) -> list[str]:
        """The code of each finding, in order."""
        return [one.code.name for one in self.findings]

    def above_notes(self) -> list[str]:
        """The findings that are more than notes, in short."""
        return [short(one) for one in self.findings if one.severity is not Severity.NOTE]


def _kind(row: tuple[int, ...]) -> str:
    return "batch" if row[layout.CRC] == row[layout.COMPUTED_CRC] else "doubt"


def short(one: Finding) -> str:
    """A finding in one line, for messages of tests."""
    return f"{one.code.name} {one.position}+{one.length} {one.field or ''}"


def walked(
    data: bytes | Source,
    segment: int = layout.UNKNOWN,
    *,
    hints: Sequence[int] = (),
    stops: Iterable[int] = (),
    max_batch_bytes: int = MAX_BATCH,
) -> Walked:
    """Take the checked walk over a log.

    Args:
        data: the log.
        segment: its base offset.
        hints: positions that the offset index has.
        stops: positions up to which is walked first.
        max_batch_bytes: larger batches are not held.
    """
    source = BytesSource(data, "log") if isinstance(data, bytes) else data
    findings: list[Finding] = []
    checked = CheckedWalk(
        source, findings.append, segment=segment, hints=lambda: hints, next_base=None, max_batch_bytes=max_batch_bytes
    )
    rows: list[tuple[int, ...]] = []
    for stop in (*stops, None):
        rows += rows_of(checked, stop)
    return Walked(source.size, rows, findings)


def rows_of(checked: CheckedWalk, stop: int | None = None) -> Iterator[tuple[int, ...]]:
    """Yield the rows of a walk up to a position, without what they say about their neighbours."""
    for found in checked.windows(stop):
        for start in range(0, found.count * layout.BATCH_WIDTH, layout.BATCH_WIDTH):
            yield tuple(found.rows[start : start + layout.SUSPICION])


def follow(first: CheckedWalk, data: bytes, segment: int, report: Report) -> CheckedWalk:
    """A new walk that goes on where another one has got to."""
    then = CheckedWalk(
        BytesSource(data, "log"),
        report,
        segment=segment,
        next_base=None,
        max_batch_bytes=MAX_BATCH,
        border=first.border,
    )
    then.checks = first.checks
    return then


@contextmanager
def windows_of(size: int | None = None, rows: int = FEW_ROWS) -> Iterator[None]:
    """Let windows have this many bytes and rows, as if the log were larger than it is."""
    with MonkeyPatch.context() as patch:
        patch.setattr(window, "ROWS", rows)
        for module in (window, walk) if size is not None else ():
            patch.setattr(module, "WINDOW_SIZE", size)
        yield


def check_law(found: Walked) -> None:
    """Assert the law of byte conservation.

    Batches and gaps partition the log, each gap has one finding, every other finding is about a range inside a batch or
    has no length, and all of them can be said. Damage of several kinds side by side is several gaps.
    """
    end = 0
    for extent in found.extents:
        assert extent.position == end, f"bytes {end} to {extent.position} are in no extent, or in two: {found.extents}"
        assert extent.size > 0
        end = extent.position + extent.size
    assert end == found.size
    batches = [extent for extent in found.extents if extent.kind != "gap"]
    for one in found.findings:
        check_place(one, batches, found.size)
        check_words(one)


def check_place(one: Finding, batches: Sequence[Extent], size: int) -> None:
    """Assert that a finding is about a gap, a range inside a batch, or a place."""
    assert one.position is not None
    assert one.length is not None
    end = one.position + one.length
    assert 0 <= one.position <= end <= size
    if not one.gap and one.length:
        inside = any(batch.position <= one.position and end <= batch.position + batch.size for batch in batches)
        assert inside, f"{short(one)} is not inside a batch: {batches}"


def check_words(one: Finding) -> None:
    """Assert that a finding can be said: sentence and remedy have all they name."""
    for text in (one.message, one.remedy):
        assert text
        assert "None" not in text, f"{one.code.name}: {text}"
        assert "{" not in text


def only(found: Walked, code: Code) -> Finding:
    """The one finding with a code."""
    (one,) = [finding for finding in found.findings if finding.code is code]
    return one
