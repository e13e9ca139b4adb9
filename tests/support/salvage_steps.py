"""What salvage says to do with its result, done: a broker that loads it has every record, and keeps it.

PATH is a directory with partitions, a case of damage, or a directory with a script that makes some:
python -m tests.support.salvage_steps [--jobs N] PATH...
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.damage_cases import damage_cases
from tests.support.partitions import write
from tests.support.whole_lines import run_kdump

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NEW_ID = "version: 0\ntopic_id: NNNNNNNNNNNNNNNNNNNNNA"
LOG_START = "log-start-offset-checkpoint"
ENDS = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint")
FOREVER = ("--set", "cleanup.policy=delete", "--set", "retention.ms=-1", "--set", "retention.bytes=-1")
NO_FILES = re.compile(".* was deleted: create it again|.* was created again:|create ")
"""Steps at the cluster, which change no file here."""
NOTHING_TO_DO = re.compile(
    "|".join(
        (
            "stop (every|the) broker",
            "copy .* before a broker starts",
            "start them",
            "move its damaged directory out",
            ".* is sound and has all of this",
            "instead of all that follows",
            "once they run: `kdump transactions",
            "the other controllers: only one log",
            "(no source has a sound|copy to each node its own) quorum-state",
            "no source has a sound snapshot",
            "went on without",
            "before all that follows, see that no other replica of .* is sound",
            "where none is sound, salvage all replicas together",
        )
    )
)
LEFT = ("E01", "E03", "O04", "O07")  # nobody can tell which of two epochs is right; and the holes that salvage names
NOT_IN_PLACE = re.compile("do not put .* in place")


class Broker:
    """The log.dir of a broker, in which a person does what the steps say.

    Args:
        path: of it, with all that lay there.
        result: the partition that salvage has made.
    """

    def __init__(self, path: Path, result: Path) -> None:
        self.path = path
        self.result = result
        self.partition = result.name
        self.not_done: list[str] = []
        if (path / self.partition).exists():
            shutil.rmtree(path / self.partition)

    def do(self, step: str) -> None:
        """Do one step, or keep that nobody can."""
        if found := re.search(f"{LOG_START} says `(.*) ([0-9]+) ([0-9]+)`", step):
            self._set(LOG_START, f"{found[1]} {found[2]}", int(found[3]))
        elif found := re.search(r"lower the number behind `(.*) ([0-9]+)` to ([0-9]+) where it is above", step):
            for name in ENDS:
                self._set(name, f"{found[1]} {found[2]}", int(found[3]), only_lower=True)
        elif found := re.search(r": (kdump salvage .* --for \S+ --to DIR.*)$", step):
            self._make_again(found[1])
        elif re.search("write .*/partition.metadata, two lines", step):
            (self.result / "partition.metadata").write_text(NEW_ID)
        elif found := re.search(": (cp -p .*)$", step):
            subprocess.run(shlex.split(found[1]), check=True)
        elif re.match("copy .* into (the log.dir of each,|its log.dir)", step):
            return  # put in place at the end: the steps around say what goes into it
        elif NO_FILES.match(step) or NOTHING_TO_DO.match(step):
            return
        else:
            self.not_done.append(f"a step that nobody can do: {step}")

    def _make_again(self, command: str) -> None:
        """Make the result for a cluster that has the topic again."""
        root = self.result.parent
        write(root / "there" / self.partition, {"partition.metadata": NEW_ID.encode()})
        words = shlex.split(command)[1:]
        words[words.index("--for") + 1], words[words.index("DIR")] = "there", "again"
        run = run_kdump(words, root)
        if run.exit not in (0, 3):
            self.not_done.append(f"a command that fails: {command}")
        for line in run.stdout.decode("utf-8", "surrogateescape").splitlines():
            if LOG_START in line:
                self.do(line)
        self.result = root / "again" / self.partition

    def _set(self, file: str, key: str, value: int, *, only_lower: bool = False) -> None:
        """Give a checkpoint an entry."""
        path = self.path / file
        lines = path.read_text("latin-1").split("\n") if path.exists() else []
        is_sound = len(lines) >= 2 and lines[0] == "0"
        entries = dict(line.rpartition(" ")[::2] for line in lines[2:] if line) if is_sound else {}
        if only_lower and int(entries.get(key, -1)) <= value:
            return
        entries[key] = str(value)
        path.write_text("\n".join(["0", str(len(entries)), *(" ".join(one) for one in entries.items())]) + "\n")

    def faults(self, end: int, first: int) -> Iterator[str]:
        """Put the result in place, and yield what a broker does to its records, at its start and afterwards."""
        yield from self.not_done
        shutil.copytree(self.result, self.path / self.partition)
        where = os.path.relpath(self.path, self.path.parent)
        for start in ("clean", "unclean"):
            args = ["verify", where, "--start", start, "--format", "json"]
            for row in self._rows(args, "prediction"):
                cause = (row["cause"] or {}).get("file") or ""
                if not row["loads"] and f"/{self.partition}/" not in cause:
                    continue  # a file of the log.dir is damaged, and verify says so
                told = (row["logStartOffset"], row["logEndOffset"], row["recordsLost"], row["hiddenRecords"])
                if told != (first, end, 0, 0):
                    yield f"a {start} start makes {told} of ({first}, {end}, 0, 0): {row['reason']}"
        for row in self._rows(["retention", where, *FOREVER, "--format", "json"], "retention"):
            gone = [one["baseOffset"] for one in row["segments"] if one["deleted"]]
            if gone or (row["logStartOffsetAfter"] or 0) > first:
                yield f"a retention check deletes {gone}, and the log starts at {row['logStartOffsetAfter']}"
        for row in self._rows(["verify", where, "--format", "json"], "finding"):
            is_own = f"{where}/{self.partition}/" in row["file"] or row["message"].startswith(f"{self.partition}:")
            if is_own and row["severity"] == "error" and row["code"] not in LEFT:
                yield f"verify says {row['code']} of {row['file']}: {row['message']}"

    def _rows(self, args: Sequence[str], kind: str) -> Iterator[dict[str, Any]]:
        """The rows of one kind that a command writes about the partition; or about no partition."""
        for line in run_kdump(args, self.path.parent).stdout.splitlines():
            row = json.loads(line)
            if row["type"] == kind and row.get("partition", self.partition) == self.partition:
                yield row


def steps_done(sources: Sequence[Path], root: Path, *options: str) -> tuple[int, list[str]]:
    """Salvage, do the steps of each partition on a copy of each log.dir, and load it.

    Args:
        sources: log directories.
        root: an empty directory.
        options: further ones of salvage.

    Returns:
        How many results were put in place, and what is wrong.
    """
    run = run_kdump(["salvage", *map(str, sources), "--to", "out", *options], root)
    placed, faults = 0, []
    for partition, lines in _partitions(run.stdout.decode("utf-8", "surrogateescape")):
        steps = [line.partition(": ")[2] for line in lines if line.startswith("  next ")]
        steps += [line for line in lines if line.startswith("  note: wherever you copy it to")]
        result = root / "out" / partition
        rows = [json.loads(line) for line in (root / "out" / f"{partition}.salvage.jsonl").read_text().splitlines()]
        if not steps or not result.is_dir() or any(map(NOT_IN_PLACE.match, steps)):
            continue
        for source in sources:
            where = root / "broker"
            shutil.rmtree(where, ignore_errors=True)
            shutil.copytree(source, where, symlinks=True)
            work = shutil.copytree(result, root / "work" / partition)
            broker = Broker(where, work)
            for step in steps:
                broker.do(step.replace(f"out/{partition}", str(work)))
            placed += 1
            faults += [
                f"{partition}: {one}" for one in broker.faults(rows[-1]["logEndOffset"], rows[-1]["logStartOffset"])
            ]
            shutil.rmtree(root / "work")
    return placed, faults


def _partitions(text: str) -> Iterator[tuple[str, list[str]]]:
    """The lines of each partition that salvage has made."""
    name, lines = "", list[str]()
    for line in text.splitlines():
        if found := re.match(r"(?:salvaged|part of|not complete:?) (\S+) -> ", line):
            yield from [(name, lines)] if name else []
            name, lines = found[1], []
        lines.append(line)
    if name:
        yield name, lines


def log_dirs_of(path: Path, scratch: Path) -> list[list[Path]]:
    """The log directories of a path, each alone: those below it, or those of a case of damage; of a script also all."""
    if (path / "case.json").exists():
        (case,) = (one for one in damage_cases(path.parent.parent) if one.name == path.name)
        case.build(scratch / "logdir")
        return [[scratch / "logdir"]]
    if (path / "make.py").exists():
        subprocess.run([sys.executable, path / "make.py"], cwd=scratch, check=True, capture_output=True)
        made = sorted(one for one in scratch.iterdir() if one.is_dir())
        return [[one] for one in made] + ([made] if len(made) > 1 else [])
    found = {one.parent.parent for one in path.rglob("*.log")}
    return [[one] for one in sorted(found) if one.name != "out"]


def of_path(path: Path) -> tuple[int, list[str]]:
    """Do the steps for all log directories below a path, as they are and with what lies below the log start."""
    placed, faults = 0, []
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch, "made")
        made.mkdir()
        for number, sources in enumerate(log_dirs_of(path, made)):
            for options in ((), ("--below-log-start",)):
                root = Path(scratch, f"{number}{len(options)}")
                root.mkdir()
                count, wrong = steps_done([one.resolve() for one in sources], root, *options)
                placed += count
                faults += [f"{' '.join(map(str, sources))} {' '.join(options)}: {one}" for one in wrong]
                shutil.rmtree(root)
    return placed, faults


def main(paths: Sequence[str]) -> int:
    """Say what is wrong, and how many results were loaded."""
    jobs = 1
    if paths[:1] == ["--jobs"]:
        jobs, paths = int(paths[1]), paths[2:]
    with ProcessPoolExecutor(jobs) as pool:
        done = list(pool.map(of_path, map(Path, paths)))
    for _, faults in done:
        for one in faults:
            print(one)
    print(f"{sum(count for count, _ in done)} results were put in place, {sum(len(one) for _, one in done)} faults")
    return int(any(faults for _, faults in done))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
