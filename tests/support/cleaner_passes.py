"""Kafka's own cleaner and `retention --pass` clean the recorded partitions with other high watermarks: who differs?

    python -m tests.support.cleaner_passes --release 4.4 --jars '/where/the/jars/are/*'

The jars of a release (4.2 or later), and Java 17, are not part of the project. Each case of `fixtures/cleanup` makes
its first pass with the high watermark at the base of the active segment, at the end, and between. Compared are the
batches that are left, with their counts and delete horizons, and the offsets of their records.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdump.broker.config import Config
from kdump.broker.load.facts import Start
from kdump.broker.load.log_manager import LoadSettings, LogManager
from kdump.broker.releases import RELEASES
from kdump.compat.kafka_reader import KafkaRecordReader
from kdump.compat.kafka_walk import KafkaWalk
from kdump.format.batch import layout
from kdump.storage.file_source import FileSource
from kdump.storage.log_dir import LogDir
from kdump.storage.partition_dir import PartitionDir
from tests.support.broker_loads import Kafka
from tests.support.cleaner_cases import base_of, cases, compacted, recorded, run, set_up
from tests.support.partitions import checkpoint

if TYPE_CHECKING:
    from kdump.broker.cleaner.cleaned_segment import CleanedSegment

CHECKPOINT = "cleaner-offset-checkpoint"
MAP = 1 << 20
Left = dict[int, tuple[list[list[int | None]], list[int]]]  # batches and offsets of records by base offset


def left_by_kafka(partition: Path) -> Left:
    """Read what is in the logs of a partition but the active one."""
    found: Left = {}
    reader = KafkaRecordReader(1 << 26)
    for path in sorted(partition.glob("*.log"))[:-1]:
        batches: list[list[int | None]] = []
        offsets: list[int] = []
        with FileSource(str(path)) as source:
            walk = KafkaWalk(source, str(path), 0, source.size, 1 << 26)
            for window in walk.windows():
                for k in range(window.count):
                    flag = window.cell(k, layout.ATTRIBUTES) & layout.DELETE_HORIZON_FLAG
                    is_new = window.cell(k, layout.MAGIC) >= layout.MAGIC_V2
                    horizon = window.cell(k, layout.BASE_TIMESTAMP) if flag and is_new else None
                    last = window.cell(k, layout.LAST_OFFSET)
                    batches.append([last, horizon])
                for chunk in reader.chunks(window):
                    rows, stop = chunk.rows, chunk.filled * layout.RECORD_WIDTH
                    offsets += rows[layout.R_OFFSET : stop : layout.RECORD_WIDTH]
        if batches:
            found[int(path.stem)] = batches, offsets
    return found


def left_by_model(segments: list[CleanedSegment]) -> Left:
    """Return the same of what the model leaves."""
    found: Left = {}
    for one in segments:
        batches: list[list[int | None]] = [
            [last, None if horizon < 0 else horizon] for _, last, _, horizon in one.batch_rows
        ]
        if batches:
            found[one.base_offset] = batches, [offset for first, last in one.runs for offset in range(first, last + 1)]
    return found


def watermarks(place: Path, partition: str, config: dict[str, str]) -> list[int]:
    """Return the base of the active segment, the end, and an offset between."""
    found = run(place, config, 0)
    log = next(one.log for one in found if hasattr(one, "log"))
    base, end = log.segments[-1].base_offset, log.end_offset
    del partition
    return sorted({max(base, log.start_offset), (base + end) // 2, end})


def main() -> int:
    """Compare; the status is 1 where anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release", choices=RELEASES[1:], required=True)
    parser.add_argument("--jars", required=True)
    given = parser.parse_args()
    kafka, passes, found = Kafka(given.jars), 0, 0
    for file in recorded("compaction"):
        for case in cases("compaction", file):
            for number in range(3):
                with tempfile.TemporaryDirectory(prefix="kdump-cleaner-") as scratch:
                    place, config = set_up(case, Path(scratch) / "d")
                    told = _one(case, place, config, number, kafka, given.release)
                passes += told is not None
                if told:
                    found += 1
                    print(f"{case['id']} watermark {number}: {told}", flush=True)
    kafka.close()
    print(f"{given.release}: {passes} passes, {found} differ")
    return 1 if found else 0


def _one(
    case: dict[str, Any], place: Path, config: dict[str, str], number: int, kafka: Kafka, release: str
) -> str | None:
    """Make a pass; None for none, else how the two differ, empty where they do not."""
    partition = base_of(case["from"])["partition"]
    asked = case["passes"][0]
    config = {**config, "min.cleanable.dirty.ratio": "0", "log.cleaner.dedupe.buffer.size": str(MAP)}
    if asked.get("checkpoint") is not None:
        topic, _, one = partition.rpartition("-")
        (place / CHECKPOINT).write_bytes(checkpoint((topic, one, asked["checkpoint"])))
    marks = watermarks(place, partition, config)
    if number >= len(marks):
        return None
    mark = marks[number]
    model = compacted(
        run(place, config, asked["now"], release=release, compaction=True, clean=True, high_watermark=mark)
    )
    if not model.cleaned:
        return None
    log_dir = LogDir(str(place))
    directory = PartitionDir(str(place / partition), log_dir)
    settings = LoadSettings(asked["now"], Config(config, release=release))
    facts = LogManager(log_dir).partition(directory, settings)[0]
    of_topic = [f"{name}={text}" for name, text in config.items() if not name.startswith("log.")]
    last = -1 if asked.get("checkpoint") is None else asked["checkpoint"]
    answer = kafka.load(place / partition, facts, Start.CLEAN, [*of_topic, f"pass={mark},{last},{MAP}"])
    if answer[0] != "loaded":
        return f"Kafka: {answer[1:]}; model: {model.failure or 'cleans'}" if not model.failure else ""
    theirs, ours = left_by_kafka(place / partition), left_by_model(model.cleaned)
    if theirs == ours:
        return ""
    base = next(one for one in sorted({*theirs, *ours}) if theirs.get(one) != ours.get(one))
    return f"segment {base}: Kafka {str(theirs.get(base))[:300]}; model {str(ours.get(base))[:300]}"


if __name__ == "__main__":
    sys.exit(main())
