"""`kdump repair` over random damages of small files: what it promises, held by brute force.

    python -m tests.support.small_damages --runs 1000 --seed 0 --jobs 2
    python -m tests.support.small_damages --runs 1000 --seed 0 --corpus /a/log.dir --corpus /another

    python -m tests.support.small_damages --runs 60 --jars '/where/the/jars/of/4.3.1/are/*'

Each run has a number, from `--seed` on; it decides everything. It copies an intact log directory, damages one to four
of its small files (zeros, empty, cut, of another partition, a flipped byte, gone, a line gone, a line of garbage), and
has it repaired. Held are:

- what the plan claims to mend verify does not find afterwards, and a second plan has nothing to do;
- where nothing is left alone every partition loads;
- every batch with a right CRC that a reader gets today, or would get after the coming start without the repair, is
  readable after the repair and that start: read by a reader of its own, without indexes;
- undo gives every file its bytes, its owner, its mode and its time back, and leaves none behind.

With `--jars` (not part of the project, nor is Java 17) Kafka's own classes start each directory intact, damaged and
repaired, with the ids given: repaired, a node must go on, no directory goes offline, no partition is a stray that was
none, and each log begins and ends where it did; but where a log start offset is lost, which nothing else tells.

What does not hold is printed with the number; `--runs 1 --seed N --keep DIR` leaves the damaged directory in DIR. Exit
status 1 when something does not hold.
"""

from __future__ import annotations

import argparse
import os
import shutil
import stat
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from kdump.broker.config import Config
from kdump.broker.load.coming_start import coming_starts
from kdump.broker.load.log_loader import load
from kdump.broker.load.log_manager import LoadSettings, LogManager
from kdump.checks.options import VerifyOptions
from kdump.checks.run import verify
from kdump.cli.repair import cluster_facts
from kdump.finding import Finding, Severity
from kdump.format.checksum import crc32c
from kdump.format.kinds import FileKind
from kdump.item import PartitionChecked
from kdump.repair.apply import apply
from kdump.repair.mending import LogDirFindings, RepairOptions, plan_repair
from kdump.repair.resume_undo import undo
from kdump.rows.verdict import Prediction
from kdump.storage.log_dir import LogDir, introduce
from kdump.storage.names import parse_partition
from kdump.storage.partition_dir import PartitionDir
from tests.support.node_starts import LISTENERS, SETTINGS_OF_NODES, Kafka, Node, Started
from tests.support.repair_trees import means
from tests.support.runs import FIXTURES, copy_tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kdump.format.source import Source
    from kdump.repair.plan import Plan

CORPORA = [FIXTURES / "kafka-4.3.1" / "clean" / "node1", FIXTURES / "state" / "kafka-4.4.0" / "node1"]
SETTINGS_OF_NODE = SETTINGS_OF_NODES.replace("node.id=1\n", "") + LISTENERS
SETTINGS = LoadSettings(1_800_000_000_000, Config({}))
ROOT_FILES = (
    "meta.properties",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
PARTITION_FILES = ("leader-epoch-checkpoint", "partition.metadata")
SUFFIXES = (".snapshot", ".index", ".timeindex", ".txnindex")
_OVERHEAD, _SMALLEST, _MAGIC_AT, _CRC_AT = 12, 49, 16, 17
_MEMORY = Path("/dev/shm")
_TOGETHER = 25


# --- damages ------------------------------------------------------------------------------------------------------
Damage = "Callable[[Path, Random, Sequence[Path]], None]"


def zeros(path: Path, _random: Random, _others: Sequence[Path]) -> None:
    path.write_bytes(bytes(path.stat().st_size or 16))


def empty(path: Path, _random: Random, _others: Sequence[Path]) -> None:
    path.write_bytes(b"")


def cut(path: Path, random: Random, _others: Sequence[Path]) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: random.randrange(len(data) + 1)])


def foreign(path: Path, random: Random, others: Sequence[Path]) -> None:
    same = [one for one in others if one != path and one.suffix == path.suffix and _kind(one) == _kind(path)]
    if same:
        path.write_bytes(random.choice(same).read_bytes())


def flipped(path: Path, random: Random, _others: Sequence[Path]) -> None:
    data = bytearray(path.read_bytes())
    if data:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        path.write_bytes(data)


def gone(path: Path, _random: Random, _others: Sequence[Path]) -> None:
    path.unlink()


def without_a_line(path: Path, random: Random, _others: Sequence[Path]) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    if lines:
        del lines[random.randrange(len(lines))]
        path.write_bytes(b"".join(lines))


def with_garbage(path: Path, random: Random, _others: Sequence[Path]) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    lines.insert(random.randrange(len(lines) + 1), random.choice([b"\0\0\0\0\n", b"x\n", b"a b c\n", b"plain 0 -7\n"]))
    path.write_bytes(b"".join(lines))


DAMAGES = (zeros, empty, cut, foreign, flipped, gone, without_a_line, with_garbage)


def _kind(path: Path) -> str:
    return path.suffix if path.suffix in SUFFIXES else path.name


def damaged(log_dir: Path, random: Random) -> list[str]:
    """Damage some small files, and say which."""
    files = [path for path in sorted(log_dir.rglob("*")) if path.is_file() and _is_small(path)]
    kinds = sorted({_kind(path) for path in files})
    told = []
    if random.random() < 0.5 and (log_dir / ".kafka_cleanshutdown").exists():
        (log_dir / ".kafka_cleanshutdown").unlink()
        told.append("no marker")
    for _ in range(random.randint(1, 4)):
        kind = random.choice(kinds)  # there are many more indexes than files of a log directory
        path = random.choice([one for one in files if _kind(one) == kind])
        if path.exists():
            damage = random.choice(DAMAGES)
            damage(path, random, [one for one in files if one.exists()])
            told.append(f"{damage.__name__} {path.relative_to(log_dir)}")
    return told


def _is_small(path: Path) -> bool:
    name = parse_partition(path.parent.name)
    if name is not None and name.state:
        return False
    return path.name in (*ROOT_FILES, *PARTITION_FILES) or path.suffix in SUFFIXES


# --- what can be read ---------------------------------------------------------------------------------------------
class Batch(NamedTuple):
    """A batch with a right CRC."""

    offset: int
    last: int
    crc: int


def batches(source: Source) -> Iterator[Batch]:
    """Walk a log of magic 2 from its first byte on, as far as lengths lead; older batches count by their bytes."""
    at = 0
    data = source.read_at(0, source.size)
    while at + _OVERHEAD + _SMALLEST <= len(data):
        offset = int.from_bytes(data[at : at + 8], "big", signed=True)
        size = int.from_bytes(data[at + 8 : at + 12], "big", signed=True) + _OVERHEAD
        if size < _OVERHEAD + _SMALLEST or at + size > len(data):
            return
        body = data[at : at + size]
        if body[_MAGIC_AT] != 2:
            yield Batch(offset, offset, hash(body))
        elif crc32c(body[_CRC_AT + 4 :]) == int.from_bytes(body[_CRC_AT : _CRC_AT + 4], "big"):
            last = offset + int.from_bytes(body[23:27], "big", signed=True)
            yield Batch(offset, last, int.from_bytes(body[_CRC_AT : _CRC_AT + 4], "big"))
        at += size


def readable(files: Mapping[str, Source], log_start: int) -> set[Batch]:
    """The batches of a partition that a reader gets."""
    logs = [source for name, source in files.items() if len(name) == 24 and name.endswith(".log")]
    return {one for log in logs for one in batches(log) if one.last >= log_start}


class Served(NamedTuple):
    """What readers get of each partition, by its directory."""

    today: dict[str, set[Batch]]
    afterwards: dict[str, set[Batch] | None]  # the coming start; None where the partition does not load


def served(path: Path) -> Served:
    """Read a log directory, as it is and after the start that is coming."""
    log_dir = LogDir(str(path))
    manager = LogManager(log_dir)
    found = Served({}, {})
    for one in log_dir.listing.partitions():
        directory = PartitionDir(one, log_dir)
        if directory.parsed is None or directory.parsed.state:
            continue
        facts, _ = manager.partition(directory, SETTINGS)
        found.today[directory.name] = readable(facts.files, 0)
        for start in coming_starts(log_dir):
            outcome = load(facts, start, wants_contents=True)
            if outcome.stops is not None:
                found.afterwards[directory.name] = None
                continue
            files = {name: source for name in outcome.disk.names() if (source := outcome.disk.get(name)) is not None}
            found.afterwards[directory.name] = readable(files, outcome.log_start_offset or 0)
    return found


# --- a run --------------------------------------------------------------------------------------------------------
class Seen(NamedTuple):
    """A file as everybody sees it."""

    data: bytes
    owner: tuple[int, int]
    mode: int
    modified: int


def seen(log_dir: Path) -> dict[str, Seen]:
    """All files."""
    found = {}
    for path in log_dir.rglob("*"):
        if path.is_file():
            status = path.stat()
            owner = status.st_uid, status.st_gid
            found[str(path.relative_to(log_dir))] = Seen(
                path.read_bytes(), owner, stat.S_IMODE(status.st_mode), status.st_mtime_ns
            )
    return found


def planned(log_dir: Path, *others: Path, given: Mapping[str, str] | None = None) -> tuple[Plan, list[Finding]]:
    """The plan of a repair, and what verify has found before."""
    found, findings = LogDirFindings(), []
    for item in verify([str(log_dir)], VerifyOptions(deep=False)):
        if isinstance(item, Finding):
            found.see(item)
            findings.append(item)
        elif isinstance(item, PartitionChecked):
            found.checked(item)
    directories = [LogDir(str(one)) for one in (log_dir, *others)]
    introduce(directories)
    cluster = cluster_facts([one.path for one in directories])
    options = RepairOptions(SETTINGS, cluster=cluster, given=given or {}, others=directories[1:])
    return plan_repair(directories[0], found, options, is_named=True), findings


def not_loading(log_dir: Path) -> list[str]:
    """The partitions that the coming start does not load."""
    options = VerifyOptions(deep=False, is_auto=True, settings=SETTINGS)
    rows = [one for one in verify([str(log_dir)], options) if isinstance(one, Prediction)]
    return [f"{one.partition}: {one.reason}" for one in rows if not one.loads]


def violations(
    log_dir: Path,
    quarantine: Path,
    given: Mapping[str, str],
    counts: Counter[str],
    starts: Mapping[str, int] | None = None,
) -> Iterator[str]:
    """Repair a directory, and yield what does not hold.

    Args:
        log_dir: it.
        quarantine: a directory that is not there.
        given: ids that the user names.
        counts: what happened, to add to.
        starts: the log start offsets of partitions before anything was damaged: what lies below was deleted.
    """
    before, tree = served(log_dir), seen(log_dir)
    plan, findings = planned(log_dir, given=given)
    counts.update(f"kind {one.kind}" for one in plan.changes)
    counts["left alone"] += bool(plan.left)
    counts["nothing to do"] += not plan.changes
    if not plan.changes:
        if not_loading(log_dir) and not plan.left:
            yield f"it does not load, and nothing is said: {not_loading(log_dir)}"
        return
    apply(plan, str(quarantine), [], means())
    (journal,) = quarantine.glob("*/journal.json")
    yield from _unmended(log_dir, plan, findings, planned(log_dir, given=given), counts)
    yield from _lost(
        before, served(log_dir), starts or {}, is_patched=any(one.kind == "header" for one in plan.changes)
    )
    undo(str(journal), means())
    if seen(log_dir) != tree:
        other = {name for name in {*tree, *seen(log_dir)} if tree.get(name) != seen(log_dir).get(name)}
        yield f"undo leaves something else: {sorted(other)}"


def _unmended(
    log_dir: Path, plan: Plan, before: list[Finding], again: tuple[Plan, list[Finding]], counts: Counter[str]
) -> Iterator[str]:
    """What a plan has claimed to mend and verify finds still, and partitions that do not load."""
    second, now = again
    if second.changes:
        yield f"a second plan has changes: {[(one.name, one.why) for one in second.changes]}"
    claimed = {(one.file, one.code) for one in before if plan.mends(one)}
    for one in now:
        if one.severity is not Severity.NOTE and (one.file, one.code) in claimed:
            yield f"{one.file}: {one.message}: is still there"
    failing = not_loading(log_dir)
    counts["loads"] += not failing
    if failing and not second.left:
        yield f"nothing is left alone, and it does not load: {failing}"


def _lost(before: Served, after: Served, starts: Mapping[str, int], *, is_patched: bool) -> Iterator[str]:
    """Batches that could be read, and cannot be read any more."""
    for partition, today in before.today.items():
        start = starts.get(partition, 0)
        had = {one for one in today if one.last >= start}
        then, has = before.afterwards[partition], after.afterwards[partition]
        if is_patched:  # a batch has its right offset now
            if {one.crc for one in had} - {one.crc for one in after.today[partition]}:
                yield f"{partition}: a batch is gone"
            continue
        if had - after.today[partition]:
            yield f"{partition}: {sorted(had - after.today[partition])[:3]} cannot be read any more"
        kept = had if then is None else had & then
        if kept and (then is not None or has is not None) and kept - (has or set()):
            yield f"{partition}: the start would keep {sorted(kept - (has or set()))[:3]} without the repair"


def one_run(number: int, corpora: Sequence[Path], keep: Path | None) -> tuple[list[str], Counter[str]]:
    """Make one case of a number, and judge it."""
    random = Random(number)
    source = random.choice(corpora)
    counts: Counter[str] = Counter()
    place = _MEMORY if _MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=place) as folder:
        log_dir = copy_tree(source, Path(folder) / "data")
        text = (log_dir / "meta.properties").read_text("latin-1")
        known = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
        for path in log_dir.rglob("*"):
            if os.geteuid() == 0:
                os.chown(path, 1234, 1235)
            if path.is_file():
                path.chmod(0o640)
        starts = {
            f"{topic}-{n}": at for (topic, n), at in LogDir(str(log_dir)).file(FileKind.LOG_START).offsets.items()
        }
        told = damaged(log_dir, random)
        given = {}
        if random.random() < 0.5 and "cluster.id" in known:
            given = {"cluster.id": known["cluster.id"], "node.id": known.get("node.id", known.get("broker.id", "1"))}
        if keep is not None:
            shutil.copytree(log_dir, keep, dirs_exist_ok=True)
        try:
            wrong = list(violations(log_dir, Path(folder) / "q", given, counts, starts))
        except Exception as error:
            wrong = [f"{type(error).__name__}: {error}"]
    return [f"{number} ({source.parent.name}/{source.name}; {', '.join(told)}): {one}" for one in wrong], counts


def some_runs(numbers: range, corpora: Sequence[Path], keep: Path | None) -> tuple[list[str], Counter[str]]:
    """Make several."""
    wrong: list[str] = []
    counts: Counter[str] = Counter()
    for number in numbers:
        found, one = one_run(number, corpora, keep)
        wrong += found
        counts += one
    return wrong, counts


def starts_differ(number: int, kafka: Kafka, source: Path, counts: Counter[str]) -> Iterator[str]:
    """Start a case of a number intact, damaged and repaired, and yield where the last start is not as the first."""
    random = Random(number)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        log_dir = copy_tree(source, Path(folder) / "data")
        text = (log_dir / "meta.properties").read_text("latin-1")
        known = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
        intact = _start(kafka, log_dir, known["node.id"])
        told = damaged(log_dir, random)
        broken = _start(kafka, log_dir, known["node.id"])
        plan, _ = planned(log_dir, given={name: known[name] for name in ("cluster.id", "node.id")})
        if plan.changes:
            apply(plan, str(Path(folder) / "q"), [], means())
        mended = _start(kafka, log_dir, known["node.id"])
    counts["differ when damaged"] += broken != intact
    counts["as intact when repaired"] += mended == intact
    has_starts = not any("log-start-offset-checkpoint" in one for one in told)
    for name, offsets in intact.logs.items():
        now = mended.logs.get(name)
        if now != offsets and (has_starts or now is None or now[1] != offsets[1] or now[0] > offsets[0]):
            yield f"{number} ({', '.join(told)}): {name} {offsets} is {now}: {[one.why for one in plan.left]}"
    if mended.ends or mended.offline or mended.strays != intact.strays:
        yield f"{number} ({', '.join(told)}): {mended.ends} {mended.offline} {mended.strays}"


def _start(kafka: Kafka, log_dir: Path, node: str) -> Started:
    """Start a copy of a log directory: a start changes it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        copy = copy_tree(log_dir, Path(folder) / "data")
        config = Path(folder) / "server.properties"
        config.write_text(f"{SETTINGS_OF_NODE}node.id={node}\nlog.dirs={copy}\n")
        return kafka.start(Node(config, [copy]))


def by_kafka(jars: str, numbers: range, source: Path) -> int:
    """Start all cases, and print what does not hold; return how many lines that were."""
    kafka, counts, failed = Kafka(jars), Counter[str](), 0
    try:
        for number in numbers:
            for line in starts_differ(number, kafka, source, counts):
                failed += 1
                print(line, flush=True)
    finally:
        kafka.close()
    print(f"{len(numbers)} starts by Kafka, {failed} lines that do not hold; {dict(sorted(counts.items()))}")
    return failed


def main() -> int:
    """Run, and print what does not hold."""
    parser = argparse.ArgumentParser(description="kdump repair over random damages of small files")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--corpus", type=Path, action="append")
    parser.add_argument("--jars")
    given = parser.parse_args()
    corpora = given.corpus or CORPORA
    end = given.seed + given.runs
    if given.jars:
        return 1 if by_kafka(given.jars, range(given.seed, end), corpora[0]) else 0
    parts = [range(at, min(at + _TOGETHER, end)) for at in range(given.seed, end, _TOGETHER)]
    counts: Counter[str] = Counter()
    failed = 0
    with ProcessPoolExecutor(given.jobs) as pool:
        for wrong, one in pool.map(some_runs, parts, [corpora] * len(parts), [given.keep] * len(parts)):
            counts += one
            failed += len(wrong)
            for line in wrong:
                print(line, flush=True)
    print(f"{given.runs} runs, {failed} that do not hold; {dict(sorted(counts.items()))}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
