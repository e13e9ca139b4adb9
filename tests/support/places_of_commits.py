"""The places of commits in `groups --lag` beside what Kafka answers: fetches, and the end of a leader epoch.

    python -m tests.support.places_of_commits --jars '/where/the/jars/of/4.4/are/*' --runs 1000 --seed 0

The jars, and Java 17, are not part of the project. Each log is random, with transactions, several leader epochs, and a
log start that may lie inside; 12 groups have committed offsets below, in and above it, most with a leader epoch.
`UnifiedLog` of Kafka says whether a fetch is in range, which record it gives first, where a read_committed consumer
stops, and where the epoch of the commit ended; from that follow `place` and `cutFrom`. `--only N` makes one again.
"""

from __future__ import annotations

import argparse
import random
import struct
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kdump.format.read_limits import MAX_BATCH_BYTES, MAX_UNCOMPRESSED_BYTES, ReadLimits
from kdump.rows.coordinators import CommitRow
from kdump.state.groups import GroupOptions, groups
from tests.support.broker_loads import NOW, Kafka
from tests.support.coordinator_records import at, text
from tests.support.field_cases import log_dir
from tests.support.partitions import checkpoint, name, write
from tests.support.random_logs import random_log
from tests.support.segments import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.random_logs import MadeLog

HOUR = 3_600_000
COMMITS = 12
NAME = "t-0"
OPTIONS = GroupOptions(None, None, frozenset(), frozenset(), True, ReadLimits(MAX_BATCH_BYTES, MAX_UNCOMPRESSED_BYTES))


class Commit(NamedTuple):
    """What a group has committed."""

    offset: int
    epoch: int  # -1 for none


def commits_of(dice: random.Random, made: MadeLog) -> list[Commit]:
    """Return random commits; one has the leader epoch of the record before it, an earlier one, or none."""
    found = []
    for _ in range(COMMITS):
        offset = dice.choice((dice.randrange(made.end + 1), dice.randrange(made.end + 1), made.end, made.end + 3))
        found.append(Commit(offset, dice.choice((-1, *range(made.epochs[-1][0] + 1)))))
    return found


def by_kafka(kafka: Kafka, work: Path, made: MadeLog, start: int, commits: Sequence[Commit]) -> list[tuple[str, int]]:
    """The place of each commit, and where it was cut, -1 for nowhere, by what Kafka answers.

    Args:
        kafka: its classes.
        work: the partition, which is changed.
        made: what it has.
        start: the log start offset.
        commits: what was committed.
    """
    asked = "places=" + ",".join(f"{one.offset}:{one.epoch}" for one in commits)
    answer = kafka.ask(work, NOW, is_clean=False, log_start=start, recovery_point=0, more=[asked])
    assert answer[0] == "loaded", answer
    start, end, stable = int(answer[1]), int(answer[2]), int(answer[3])
    assert end == made.end
    found = []
    for commit, said in zip(commits, answer[4].split(","), strict=True):
        fetch, data, ended = said.split(":")
        is_in, first, last = fetch == "in", int(data), int(ended)
        is_older = 0 <= commit.epoch < made.epochs[-1][0]  # the newest one ends with the log, and so is out of range
        cut = last if is_older and 0 <= last < commit.offset else -1
        if commit.offset < start:
            place = "belowStart"
        elif cut >= 0:
            place = "cut"
        elif not is_in:
            place = "aboveEnd"
        elif commit.offset == end:
            place = "sound"
        elif first < 0:
            place = "markersOnly"
        else:
            place = "waits" if stable <= commit.offset else "sound"
        assert is_in == (start <= commit.offset <= end), said
        found.append((place, cut))
    return found


def by_kdump(root: Path) -> list[tuple[str, int]]:
    """The same by `groups --lag`, in the order of the groups."""
    rows = [row for row in groups([str(root)], OPTIONS) if isinstance(row, CommitRow)]
    rows.sort(key=lambda row: row.group)
    return [(str(row.place), -1 if row.cut_from is None else row.cut_from) for row in rows]


def offsets_log(commits: Sequence[Commit]) -> dict[str, bytes]:
    """A partition of __consumer_offsets with a commit of each group."""
    parts = []
    for number, one in enumerate(commits):
        key = struct.pack(">h", 1) + text(f"g{number:02}") + text("t") + struct.pack(">i", 0)
        value = struct.pack(">hqi", 3, *one) + text("") + struct.pack(">q", NOW)
        parts.append(at(number, NOW, Record(value, key)))
    return {name(0): b"".join(parts), "leader-epoch-checkpoint": checkpoint((0, 0))}


def main() -> int:
    """Compare; the status is 1 where anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jars", required=True)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    given = parser.parse_args()
    kafka, differ, seen = Kafka(given.jars), 0, dict[str, int]()
    numbers = range(given.runs) if given.only is None else [given.only]
    for number in numbers:
        dice = random.Random(f"{given.seed}/{number}")
        made = random_log(dice, NOW - 10 * HOUR, epochs=True)
        commits, start = commits_of(dice, made), dice.choice((0, 0, dice.randrange(made.end)))
        with tempfile.TemporaryDirectory(prefix="kdump-commits-") as scratch:
            root = Path(scratch) / "logdir"
            parts = {NAME: made.files, "__consumer_offsets-3": offsets_log(commits)}
            write(root, log_dir(parts, start=("t", 0, start)) if start else log_dir(parts))
            work = Path(scratch) / "kafka" / NAME
            write(work, made.files)
            ours, theirs = by_kdump(root), by_kafka(kafka, work, made, start, commits)
        wrong = [(*both, one) for *both, one in zip(theirs, ours, commits, strict=True) if both[0] != both[1]]
        differ += bool(wrong)
        for place, _ in theirs:
            seen[place] = seen.get(place, 0) + 1
        for kafkas, kdumps, commit in wrong[:3]:
            print(f"{number}: {commit}: Kafka {kafkas}, kdump {kdumps}", flush=True)
    kafka.close()
    told = ", ".join(f"{count} {place}" for place, count in sorted(seen.items()))
    print(f"{len(numbers)} logs ({told}): {differ} differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
