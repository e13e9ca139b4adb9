"""How fast a ledger of a million segments opens, how well a rate is kept, and what a scrub leaves in the page cache.

    python -m tests.bench.scrub [--segments N] [--size MB] [--rate MB]

Figures, not a test: see tests/checks/test_scrub.py and tests/storage/test_guest.py for what must hold.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kdump.checks.ledger import Known, Ledger, Listed
from tests.support.page_cache import PAGE, cached, drop, touch
from tests.support.partitions import name, write
from tests.support.segments import Record, batch

_MB = 1000 * 1000


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--segments", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=200, help="MB of closed segments")
    parser.add_argument("--rate", type=int, default=20, help="MB a second")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        _ledger(Path(scratch), given.segments)
        logs = _logs(Path(scratch, "logs"), given.size)
        _rate(Path(scratch), logs, given.rate)
        _cache(Path(scratch), logs)


def _ledger(scratch: Path, segments: int) -> None:
    path = str(scratch / "million")
    rows = [(b"/data/t-%d/%020d.log" % (at // 1000, at % 1000), at) for at in range(segments)]
    ledger, began = Ledger(path), time.perf_counter()
    for one, at in rows:
        ledger.keep(ledger.number_of(one), Known(1, at, 65536, 1, 1, b"12345678", 1))
    ledger.commit()
    ledger.close()
    print(f"ledger: {segments} segments, {Path(path).stat().st_size / _MB:.0f} MB, made in {_since(began):.1f} s")
    for _ in range(3):
        began = time.perf_counter()
        ledger = Ledger(path)
        opened = _since(began)
        ledger.enter(Listed(one, os.fsdecode(one), at, at + 1, 1, at, 65536) for one, at in rows)
        listed = _since(began)
        turn = next(ledger.begin())
        known = ledger.known(turn.number)
        assert known is not None
        print(f"  opened in {opened * 1000:.1f} ms, listed by {listed:.2f} s, first segment by {_since(began):.2f} s")
        ledger.close()


def _logs(root: Path, size: int) -> list[Path]:
    part = batch(0, [Record(os.urandom(900))] * 1000)
    count = size * _MB // 10 // len(part)
    for number in range(10):
        base = number * count * 1000
        parts = b"".join((base + at * 1000).to_bytes(8, "big") + part[8:] for at in range(count))
        write(root / "t-0", {name(base): parts})
    write(root / "t-0", {name(10 * count * 1000): b""})
    return sorted((root / "t-0").glob("*.log"))[:-1]


def _rate(scratch: Path, logs: list[Path], rate: int) -> None:
    total = sum(path.stat().st_size for path in logs)
    for jobs in ("1", "2", "4"):
        ledger = scratch / f"ledger{jobs}"
        _verify(scratch, "--scrub", str(ledger), "-j", jobs)  # what it takes to start and to read at any rate
        began = time.perf_counter()
        _verify(scratch, "--scrub", str(ledger), "-j", jobs)
        free = _since(began)
        began = time.perf_counter()
        _verify(scratch, "--scrub", str(ledger), "-j", jobs, "--max-rate", f"{rate}M")
        seconds = _since(began)
        print(f"rate, -j {jobs}: {total / seconds / _MB:.2f} MB/s of {rate} ({free:.2f} s without a rate)")


def _cache(scratch: Path, logs: list[Path]) -> None:
    for path in logs:
        drop(path)
    for path in logs[::3]:
        pages = path.stat().st_size // PAGE
        touch(path, pages // 4, pages // 2)
    before = [cached(path) for path in logs]
    began = time.perf_counter()
    _verify(scratch, "--scrub", str(scratch / "ledger1"), "--drop-cache")
    seconds = _since(began)
    after = [cached(path) for path in logs]
    pages = sum(map(len, before))
    changed = sum(len(one ^ other) for one, other in zip(before, after, strict=True))
    print(f"page cache: {pages} pages before, {sum(map(len, after))} after, {changed} differ; {seconds:.2f} s")
    _verify(scratch, "--scrub", str(scratch / "ledger1"))
    print(f"  without --drop-cache: {sum(len(cached(path)) for path in logs)} pages after")


def _verify(scratch: Path, *args: str) -> None:
    command = [sys.executable, "-m", "kdump", "verify", *args, "--quiet", str(scratch / "logs")]
    subprocess.run(command, check=True)


def _since(began: float) -> float:
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
