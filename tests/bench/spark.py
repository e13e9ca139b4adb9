#!/usr/bin/env python3
"""Time `--engine spark` and the data source against the local engine with two processes.

    python -m tests.bench.spark [FOLDER] [--runs N] [--java-home DIR]

The data is made once, from a fixed seed, and kept in FOLDER: six partitions of two segments of 256 MB (3 GB), 80
records of 200 bytes to a batch, and 3,000 segments of 100 KB in 100 partitions; all with indexes. One session with two
cores is started and used once for each query before anything is timed. The local engine runs in this process and its
two children, in turn with Spark. Medians of wall time, and of CPU time: of this process and its children, or of the JVM
and all Python below it. Peak memory is that of the largest Python worker while all of it ran. Ends with 1 when a bar is
missed.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kdump.finding import Finding, Severity
from tests.bench.dump import MB, Recipe, make
from tests.bench.verify import make_indexes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PARTITIONS, SMALL = 6, 100
LARGE_RECIPE, SMALL_RECIPE = Recipe(80, 256 * MB, segments=2), Recipe(80, 100_000, segments=30)
TICK = os.sysconf("SC_CLK_TCK")
BARS = {"verify": 0.8, "batches": 0.35}
SMALL_BAR = 4.0  # seconds
MEMORY_BAR = 512  # MB


def make_all(folder: Path) -> tuple[Path, Path]:
    """Make both log directories."""
    made = []
    for name, recipe, copies in (("large", LARGE_RECIPE, PARTITIONS), ("small", SMALL_RECIPE, SMALL)):
        target = folder / name
        target.mkdir(exist_ok=True)
        first = target / "orders-0"
        make("orders-0", target, recipe)
        for log in sorted(first.glob("*.log")):
            if not log.with_suffix(".index").exists():
                make_indexes(log)
        for number in range(1, copies):
            if not (target / f"orders-{number}").exists():
                shutil.copytree(first, target / f"orders-{number}")
        (target / ".kafka_cleanshutdown").touch()
        made.append(target)
    return made[0], made[1]


class Processes:
    """CPU time and peak memory of the processes below one, the ones that have ended included."""

    def __init__(self, root: int) -> None:
        self._root = root
        self.peak = 0  # MB of one Python process
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def below(self) -> list[int]:
        """The process and all below it."""
        parents = {int(path.name): parent for path in Path("/proc").glob("[0-9]*") if (parent := _parent(path))}
        found = {self._root}
        while more := {pid for pid, parent in parents.items() if parent in found} - found:
            found |= more
        return sorted(found)

    def cpu(self) -> float:
        """Seconds so far."""
        return sum(_cpu(pid) for pid in self.below())

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            for pid in self.below():
                if pid != self._root:
                    self.peak = max(self.peak, _peak(pid))

    def stop(self) -> None:
        """Watch no longer."""
        self._over.set()
        self._thread.join()


def _fields(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _parent(path: Path) -> int:
    try:
        return int(_fields(int(path.name))[1])
    except OSError:
        return 0


def _cpu(pid: int) -> float:
    try:
        return sum(map(int, _fields(pid)[11:15])) / TICK
    except OSError:
        return 0.0


def _peak(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    lines = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(lines[0].split()[1]) // 1024 if lines else 0


def own_cpu() -> float:
    """Seconds of this process and its ended children."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in spent)


def loud(items: Iterable[object]) -> list[Finding]:
    """The findings that are more than notes."""
    return [item for item in items if isinstance(item, Finding) and item.severity is not Severity.NOTE]


def timed(action: Callable[[], object], cpu: Callable[[], float]) -> tuple[float, float]:
    """Wall and CPU seconds of an action."""
    cpu_before, before = cpu(), time.perf_counter()
    action()
    wall = time.perf_counter() - before
    return wall, cpu() - cpu_before


def main() -> int:
    """Make the data, run everything, print the table."""
    parser = argparse.ArgumentParser(description="Time kdump on Spark.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(tempfile.gettempdir()) / "kdump-bench-spark")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--java-home")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    large, small = make_all(given.folder)

    import kdump.spark
    from kdump.checks.options import VerifyOptions
    from kdump.checks.run import verify
    from kdump.spark import gateway
    from kdump.spark.jobs import VerifyEngine

    spark = kdump.spark.session("local[2]", given.java_home)
    jvm = Processes(gateway.started()[0])
    source = spark.read.format("kafka-segments")

    def local() -> None:
        assert not loud(verify([str(large)], VerifyOptions(jobs=2)))

    def on_spark() -> None:
        assert not loud(verify([str(large)], VerifyOptions(), VerifyEngine(spark)))

    def batches() -> None:
        frame = source.option("table", "batches").option("splitSize", "512m").load(str(large))
        frame.selectExpr("count(*)", "sum(size)", "max(lastOffset)", "count_if(isvalid)", "max(maxTimestamp)").collect()

    def many() -> None:
        source.option("table", "batches").load(str(small)).selectExpr("count(*)", "sum(count)").collect()

    actions: dict[str, Callable[[], None]] = {
        "local": local,
        "verify": on_spark,
        "batches": batches,
        "small": many,
    }
    costs: dict[str, list[tuple[float, float]]] = {name: [] for name in actions}
    for name, action in actions.items():
        if name != "small":  # of it the second query counts, which is the first one timed
            action()
    many()
    for _ in range(given.runs):
        for name, action in actions.items():
            costs[name].append(timed(action, own_cpu if name == "local" else jvm.cpu))
            wall, cpu = costs[name][-1]
            print(f"{name:8} wall {wall:6.2f} s  CPU {cpu:6.2f} s", file=sys.stderr, flush=True)
    jvm.stop()
    spark.stop()
    return report(costs, jvm.peak)


def report(costs: dict[str, list[tuple[float, float]]], peak: int) -> int:
    """Print the table; 1 when a bar is missed."""
    wall = {name: statistics.median(one[0] for one in found) for name, found in costs.items()}
    cpu = {name: statistics.median(one[1] for one in found) for name, found in costs.items()}
    missed = peak >= MEMORY_BAR or wall["small"] > SMALL_BAR
    for name in costs:
        line = f"{name:8} wall {wall[name]:6.2f} s  CPU {cpu[name]:6.2f} s"
        if name in BARS:
            ratio = wall["local"] / wall[name]
            line += f"  {ratio:4.2f} of local (CPU {cpu['local'] / cpu[name]:4.2f})"
            line += f"; bar {BARS[name]}"
            missed |= ratio < BARS[name]
        elif name == "small":
            line += f"  3,000 segments; bar {SMALL_BAR} s"
        print(line)
    print(f"largest Python worker {peak} MB; bar {MEMORY_BAR} MB")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
