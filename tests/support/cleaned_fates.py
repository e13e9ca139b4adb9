"""The fates of `dump --fate` beside what Kafka does: its cleaner, and a fetch of committed data. Which records differ?

    python -m tests.support.cleaned_fates --jars '/where/the/jars/of/4.4/are/*' --runs 1000 --seed 0

The jars, and Java 17, are not part of the project. Each log is random: compacted, with transactions that were
committed, aborted or never ended, tombstones and records without a key. Kafka's `UnifiedLog` gives a read_committed
consumer its records; a record of the data is one of these exactly where its fate is committed or none, and nothing
waits. `Cleaner` makes passes at three times; what a pass removes has a fate that says so, and the reverse. `--only N`
makes one again, `--keep DIR` keeps it.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kdump.broker.config import Config
from kdump.compat.dump_log_segments_options import DumpOptions
from kdump.dump.fates import FateOptions
from kdump.dump.selected import SelectedDump
from kdump.format.batch import layout
from kdump.format.record.chunk import Chunk
from kdump.format.record.selection import Selection
from tests.support.broker_loads import NOW, Kafka
from tests.support.cleaner_passes import left_by_kafka
from tests.support.partitions import write
from tests.support.random_logs import random_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.format.record.chunk import Fate
    from tests.support.random_logs import MadeLog

HOUR = 3_600_000
MAP = 1 << 20  # bytes of the offset map
SETTINGS = ("cleanup.policy=compact", f"delete.retention.ms={HOUR}", "min.cleanable.dirty.ratio=0")
CLOCKS = (NOW, NOW + HOUR // 2, NOW + 2 * HOUR)  # of the passes: marked, not over yet, over
NAME = "t-0"


def fates(partition: Path, now: int) -> dict[int, tuple[Fate, bool]]:
    """The fate of each record by offset, and whether it is a marker."""
    wanted = FateOptions(Config(dict(one.split("=") for one in SETTINGS)), now)
    dump = SelectedDump(DumpOptions(deep=True, contents=True), Selection(), wanted)
    found = {}
    for item in dump.files([str(partition / one) for one in sorted(os.listdir(partition)) if one.endswith(".log")]):
        if not isinstance(item, Chunk):
            continue
        assert item.fates is not None
        for number, fate in enumerate(item.fates):
            row = number * layout.RECORD_WIDTH
            flags = item.window.cell(item.rows[row + layout.R_BATCH], layout.ATTRIBUTES)
            found[item.rows[row + layout.R_OFFSET]] = fate, bool(flags & layout.CONTROL_FLAG)
    return found


def is_read(fate: Fate, is_marker: bool) -> bool:
    """Whether a read_committed consumer gets a record, by its fate."""
    return not is_marker and fate.waits_for is None and fate.transaction in (None, "committed")


def is_removed(fate: Fate, is_marker: bool, end: int) -> bool | None:
    """Whether a pass removes a record, by its fate; None where the fate says nothing of the next pass.

    Args:
        fate: of it.
        is_marker: it ends a transaction: it stays as long as there are records of that.
        end: up to where the pass knows the newest records of keys.
    """
    if is_marker:
        return None if fate.tombstone == "removed" else False
    if fate.transaction == "open":
        return False
    if fate.transaction == "aborted" or fate.no_key:
        return True
    if fate.superseded_by is not None:
        return True if fate.superseded_by < end else None
    return fate.tombstone == "removed"


def differences(made: MadeLog, place: Path, kafka: Kafka) -> Iterator[str]:
    """Yield what differs of one log.

    Args:
        made: the log.
        place: an empty directory.
        kafka: its classes.
    """
    write(place / NAME, made.files)
    for number, now in enumerate(CLOCKS):
        bases = sorted(int(one.stem) for one in (place / NAME).glob("*.log"))
        end = max(one for one in bases if one <= min(made.active, made.open_from))  # LogToClean goes by whole segments
        own = fates(place / NAME, now)
        work = place / f"kafka{number}" / NAME
        shutil.copytree(place / NAME, work)
        asked = [*SETTINGS, "committed=yes", *([f"pass={made.end},-1,{MAP}"] if end else [])]
        answer = kafka.ask(work, now, is_clean=False, log_start=0, recovery_point=0, more=asked)
        if answer[0] != "loaded":
            yield f"pass {number}: Kafka: {answer[1:]}"
            return
        got = {int(one) for one in answer[-1].split(",") if one}
        for offset, (fate, is_marker) in own.items():
            if is_read(fate, is_marker) != (offset in got):
                yield f"pass {number}: offset {offset}: read {offset in got} by Kafka, fate {fate}"
        if not end:
            return
        left = {one for _, offsets in left_by_kafka(work).values() for one in offsets}
        for offset, (fate, is_marker) in own.items():
            told = is_removed(fate, is_marker, end)
            if offset < end and told is not None and told != (offset not in left):
                yield f"pass {number}: offset {offset}: removed {offset not in left} by Kafka, fate {fate}"
        shutil.rmtree(place / NAME)
        shutil.move(work, place / NAME)
        for file in (place / NAME).iterdir():
            if file.suffix != ".log" and file.name != "leader-epoch-checkpoint":
                file.unlink()


def main() -> int:
    """Compare; the status is 1 where anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jars", required=True)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    kafka, differ, records = Kafka(given.jars), 0, 0
    for number in range(given.runs) if given.only is None else [given.only]:
        made = random_log(random.Random(f"{given.seed}/{number}"), NOW - 10 * HOUR)
        records += made.end
        with tempfile.TemporaryDirectory(prefix="kdump-fates-") as scratch:
            found = list(differences(made, Path(scratch), kafka))
        if given.keep is not None:
            write(given.keep / NAME, made.files)
        differ += bool(found)
        for one in found[:3]:
            print(f"{number}: {one}", flush=True)
    kafka.close()
    print(f"{given.runs if given.only is None else 1} logs, {records} offsets: {differ} differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
