"""A stream that is killed at random moments while logs grow under it: `python -m tests.support.streams_killed`.

A log grows in the middle of a batch, rolls and is compacted all the while, some steps each second; driver, JVM and
workers are killed, and the next query goes on from the checkpoint. At the end the rows of the sink are those of the
local engine: of the topic `merged`, whose compaction leaves all records, the same, each once; of `dropped`, whose
compaction removes batches, all that are there, each once, and nothing that was never written. 20 kills take some ten
minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.support.growing_logs import GrowingLog, log_dir, value

TOPICS = ("merged", "dropped")


class Broker(threading.Thread):
    """Steps of a broker, some each second, until it is told to stop.

    Args:
        disk: its log directory.
        seed: of its steps.
    """

    def __init__(self, disk: Path, seed: int) -> None:
        super().__init__(daemon=True)
        self.logs = {topic: GrowingLog(disk / f"{topic}-0") for topic in TOPICS}
        self.steps = dict.fromkeys(("append", "part", "roll", "compact"), 0)
        self._chance = random.Random(seed)
        self._stop = threading.Event()

    def run(self) -> None:
        """Do as a broker does."""
        while not self._stop.wait(self._chance.random() * 0.6):
            for log in self.logs.values():
                self._step(log)
        for log in self.logs.values():
            log.append(1)

    def _step(self, log: GrowingLog) -> None:
        chance = self._chance.random()
        name = "append" if chance < 0.4 else "part" if chance < 0.8 else "roll" if chance < 0.93 else "compact"
        self.steps[name] += 1
        if name == "append":
            log.append(1 + int(self._chance.random() * 5))
        elif name == "part":
            log.append_part(self._chance.random())
        elif name == "roll":
            log.roll()
        else:
            keeps_all = log is self.logs["merged"]
            log.compact(lambda base: keeps_all or base % 5 != 0)

    def end(self) -> None:
        """Let it write the rest of a batch, and stop."""
        self._stop.set()
        self.join()


def query(place: Path, *, ends: bool) -> None:
    """Run the stream; to the end of the logs, and tell what the sink has, or until it is killed."""
    import kdump.spark

    spark = kdump.spark.session("local[2]", conf={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"})
    frame = spark.readStream.format("kafka-segments").options(
        table="records", maxBytesPerTrigger="200k", splitSize="40k"
    )
    writer = frame.load(str(place / "disk")).writeStream.format("parquet").option("path", str(place / "sink"))
    writer = writer.option("checkpointLocation", str(place / "checkpoint"))
    if not ends:
        writer.trigger(processingTime="0 seconds").start().awaitTermination()
        return
    writer.trigger(availableNow=True).start().awaitTermination()
    rows = spark.read.parquet(str(place / "sink")).select("topic", "offset", "payload").collect()
    told = [(row.topic, row.offset, bytes(row.payload).decode()) for row in rows]
    (place / "rows.json").write_text(json.dumps(told), encoding="utf-8")


def batches(place: Path) -> int:
    """How many micro-batches are committed."""
    folder = place / "checkpoint" / "commits"
    return sum(one.name.isdigit() for one in folder.iterdir()) if folder.is_dir() else 0


def check(place: Path, kills: int, seed: int) -> None:
    """Kill so many times, and compare."""
    chance = random.Random(seed)
    broker = Broker(log_dir(place / "disk"), seed)
    broker.start()
    words = [sys.executable, "-P", "-m", "tests.support.streams_killed", "--query", str(place)]
    for number in range(kills):
        before, began = batches(place), time.monotonic()
        with subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        ) as run:
            while batches(place) == before and run.poll() is None and time.monotonic() - began < 600:
                time.sleep(0.1)  # a kill before the first micro-batch shows nothing
            time.sleep(chance.random() * 3)
            died = run.poll()
            if died is None:
                os.killpg(run.pid, signal.SIGKILL)
        assert died is None, f"the query has ended by itself: {died}"
        print(f"kill {number + 1}: {batches(place) - before} micro-batches", flush=True)
    broker.end()
    done = subprocess.run([*words, "--ends"], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    compare(place, broker)


def compare(place: Path, broker: Broker) -> None:
    """Compare the rows of the sink with those of the local engine, and with what was written."""
    from tests.support.tables import split_table

    found = json.loads((place / "rows.json").read_text(encoding="utf-8"))
    local = split_table([str(place / "disk")], "records", columns=["topic", "offset", "payload"]).to_pylist()
    for topic in TOPICS:
        ours = sorted((offset, payload) for name, offset, payload in found if name == topic)
        theirs = sorted((row["offset"], row["payload"].decode()) for row in local if row["topic"] == topic)
        assert len({offset for offset, _ in ours}) == len(ours), f"{topic}: rows are there twice"
        assert all(payload == value(offset).decode() for offset, payload in ours), f"{topic}: never written"
        assert set(theirs) <= set(ours), f"{topic}: rows are missing"
        assert topic != "merged" or ours == theirs == [(at, value(at).decode()) for at in range(broker.logs[topic].end)]
        print(f"{topic}: {len(ours)} rows, each once; the local engine has {len(theirs)}, all of them among these")
    print(f"{batches(place)} micro-batches; steps of the broker: {broker.steps}")


def main() -> None:
    """Kill, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--query", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--ends", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.query is not None:
        query(given.query, ends=given.ends)
        return
    with tempfile.TemporaryDirectory() as place:
        check(Path(place), given.kills, given.seed)


if __name__ == "__main__":
    main()
