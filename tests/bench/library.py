#!/usr/bin/env python3
"""Time the library, and kafka-python's reader in turn with it, over the same 256 MB of 200-byte records.

    python -m tests.bench.library [FOLDER] [--runs N]

All in one process, medians of CPU time. kafka-python parses a file that is in memory, without computing CRCs; kdump
reads the file and judges what it reads. Ends with 1 when a bar is missed. Needs kafka-python.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import kdump
from kdump.api import _rows
from kdump.compat.dump_log_segments_options import DumpOptions
from kdump.dump.checked import CheckedDump
from kdump.format.record.chunk import Chunk
from tests.bench import dump

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TIMES, COLUMNS_OVER_SCAN = 8.0, 1.5  # the bars


def theirs(path: Path) -> Iterator[object]:
    """Yield the records of a log as kafka-python reads them."""
    from kafka.record.memory_records import MemoryRecords

    reader = MemoryRecords(path.read_bytes())
    batch = reader.next_batch()
    while batch is not None:
        yield from batch
        batch = reader.next_batch()


def counted(records: Iterator[object]) -> int:
    """Return how many records there are."""
    return sum(1 for _ in records)


def looked_at(records: Iterator[kdump.Record]) -> int:
    """Return how many records there are, and look at what is in each."""
    count = 0
    for record in records:
        count += len((record.offset, record.timestamp, record.key, record.value, record.headers)) > 0
    return count


def by_columns(path: Path) -> int:
    """Return how many records there are, by columns."""
    return sum(len(columns) for columns in kdump.records(path).columns())


def scanned(path: Path) -> int:
    """Return how many records dump's own scan sees."""
    items = CheckedDump(DumpOptions(deep=True)).files([str(path)])
    return sum(item.filled for item in items if isinstance(item, Chunk))


WAYS: dict[str, Callable[[Path], int]] = {
    "kafka-python": lambda path: counted(theirs(path)),
    "kdump.records": lambda path: counted(iter(kdump.records(path))),
    "kafka-python, fields": lambda path: looked_at(theirs(path)),  # type: ignore[arg-type]
    "kdump.records, fields": lambda path: looked_at(iter(kdump.records(path))),
    "scan of dump": scanned,
    "columns()": by_columns,
}


def main() -> int:
    """Make the data, time everything, print a table; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="library.py", description=__doc__, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    default = Path(tempfile.gettempdir(), "kdump-bench")
    parser.add_argument("folder", nargs="?", type=Path, default=default, metavar="FOLDER")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="of which the median is taken")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    dump.make("none", options.folder)
    (path,) = (options.folder / "none").glob("*.log")
    spent: dict[str, list[float]] = {name: [] for name in WAYS}
    counts = set()
    for _ in range(options.runs):
        for name, way in WAYS.items():
            started = time.process_time()
            counts.add(way(path))
            spent[name].append(time.process_time() - started)
    (count,) = counts
    cpu = {name: statistics.median(times) for name, times in spent.items()}
    print(f"{count} records, kernels {'compiled' if _rows.is_compiled() else 'interpreted'}")
    for name, seconds in cpu.items():
        print(f"{name:24}{seconds:6.2f} s of CPU {count / seconds:12,.0f} records/s")
    good = True
    for name in ("kdump.records", "kdump.records, fields"):
        times = cpu[name.replace("kdump.records", "kafka-python")] / cpu[name]
        good &= times >= TIMES
        print(f"{name}: {times:.1f}x; bar {TIMES:.0f}x{dump.missed(times < TIMES)}")
    share = cpu["columns()"] / cpu["scan of dump"]
    print(f"columns(): {share:.2f} of the scan; bar {COLUMNS_OVER_SCAN}{dump.missed(share > COLUMNS_OVER_SCAN)}")
    return 0 if good and share <= COLUMNS_OVER_SCAN else 1


if __name__ == "__main__":
    sys.exit(main())
