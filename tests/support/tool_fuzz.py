"""Kafka's own DumpLogSegments and `dump --compat` show the same mutated files: where do they differ?

    python -m tests.support.tool_fuzz --release 4.4 --jars '/where/the/jars/are/*' --runs 10000 --seed 0
    python -m tests.support.tool_fuzz --release 4.4 --jars ... --directories --runs 1000

The jars of a release, and Java 17, are not part of the project. Each run is one file of the fixtures, or with
`--directories` all files of a partition, damaged at random. Compared are stdout, stderr where the tool ended well, and
class and message of the exception where it did not. `--only N` makes one again, `--keep DIR` keeps its files.
"""

from __future__ import annotations

import argparse
import base64
import random
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from kdump.compat.dialect import DIALECTS
from tests.support.broker_loads import FIXTURES, damage, intact
from tests.support.golden import without_cwd
from tests.support.runs import run_kdump

JAVA = Path(__file__).with_name("kafka_classes") / "DumpLogs.java"
SHOWN = ".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint"
DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
    "__remote_log_metadata": "--remote-log-metadata-decoder",
    "__share_group_state": "--share-group-state-decoder",
}
_IDENTITY = re.compile(rb"@[0-9a-f]{5,8}\b")


class Tool:
    """A JVM with the tool of a release."""

    def __init__(self, jars: str) -> None:
        self._jars = jars
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            ["java", "-Xmx256m", "-Dfile.encoding=UTF-8", "-cp", self._jars, str(JAVA)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def run(self, args: list[str]) -> tuple[bytes, bytes, bytes]:
        """Run it; return stdout, stderr and the exception."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(args).encode() + b"\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().rstrip(b"\n").split(b"\t")
        if len(answer) < 3:  # it has ended the JVM
            self.close()
            self._start()
            return b"", b"", f"the JVM ended with {self._process.returncode}".encode()
        text, complaints, ended = answer
        said = b"".join(
            line for line in base64.b64decode(complaints).splitlines(keepends=True) if not line.startswith(b"SLF4J:")
        )
        return base64.b64decode(text), said, base64.b64decode(ended)

    def close(self) -> None:
        """End the JVM."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def options_of(directory: Path, chance: random.Random) -> list[str]:
    """Return options of the tool that fit a partition."""
    decoder = next((option for topic, option in DECODERS.items() if directory.name.startswith(topic)), None)
    some = [["--deep-iteration"], ["--print-data-log"], [], ["--print-data-log", "--skip-record-metadata"]]
    chosen = list(chance.choice(some))
    if decoder is not None and chance.random() < 0.7:
        chosen.append(decoder)
    if chance.random() < 0.2:
        chosen.append(chance.choice(("--verify-index-only", "--index-sanity-check")))
    return chosen


def differs(release: str, tool: Tool, args: list[str], cwd: Path) -> str | None:
    """Say how kdump differs from the tool; None where it does not."""
    run = run_kdump(["dump", "--compat", release, *args], cwd)
    text, complaints, ended = tool.run(args)
    if b"OutOfMemoryError" in ended:
        return None  # what else its heap held is not reckoned
    if text != run.stdout:
        ours, theirs = run.stdout.split(b"\n"), text.split(b"\n")
        pairs = enumerate(zip(ours, theirs, strict=False))
        at = next((i for i, (a, b) in pairs if a != b), min(len(ours), len(theirs)))
        return f"stdout, line {at}: {theirs[at : at + 1]!r} {ours[at : at + 1]!r} {ended!r} {run.stderr[-300:]!r}"
    if not ended:
        complaints, run = without_cwd(complaints, cwd), replace(run, stderr=without_cwd(run.stderr, cwd))
        if complaints != run.stderr:
            return f"stderr: {_apart(complaints, run.stderr)}"
        return None
    said = b"\n".join(line for line in run.stderr.split(b"\n") if line.startswith(b"Exception in thread"))
    mine = said.partition(b'"main" ')[2]
    if _IDENTITY.sub(b"@x", mine) != _IDENTITY.sub(b"@x", ended.split(b"\n")[0]):
        return f"exception: {ended[:400]!r} {mine[:400]!r}"
    return None


def _apart(theirs: bytes, ours: bytes) -> str:
    """The first line that differs."""
    pairs = zip(theirs.split(b"\n"), ours.split(b"\n"), strict=False)
    return next((f"Kafka {a!r}; kdump {b!r}" for a, b in pairs if a != b), f"lengths {len(theirs)} and {len(ours)}")


def main() -> int:
    """Compare; the status is 1 where anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release", choices=list(DIALECTS), required=True)
    parser.add_argument("--jars", required=True)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--directories", action="store_true")
    given = parser.parse_args()
    sources, tool, found = intact(), Tool(given.jars), 0
    runs = range(given.runs) if given.only is None else [given.only]
    for run in runs:
        chance = random.Random(f"tool {given.seed} {run}")
        source = chance.choice(sources)
        with tempfile.TemporaryDirectory(prefix="kdump-tool-") as scratch:
            top = Path(given.keep or scratch)
            directory = top / source.name
            shutil.rmtree(directory, ignore_errors=True)
            shutil.copytree(source, directory)
            damage(directory, chance)
            names = sorted(one.name for one in directory.iterdir() if one.is_file() and one.name.endswith(SHOWN))
            if not names:
                continue
            for name in names:  # Kafka's tool fails where an index has none, and makes one
                if name.endswith((".index", ".timeindex")):
                    stem = name.partition(".")[0]
                    for suffix in (".log", ".index", ".timeindex"):
                        (directory / f"{stem}{suffix}").touch()
            chosen = names if given.directories else [chance.choice(names)]
            args = ["--files", ",".join(f"{source.name}/{name}" for name in chosen), *options_of(directory, chance)]
            absolute = [args[0], ",".join(str(top / one) for one in args[1].split(",")), *args[2:]]
            told = differs(given.release, tool, absolute, top)
            if told is not None:
                found += 1
                print(f"run {run} {source.relative_to(FIXTURES)} {' '.join(args)}\n   {told}", flush=True)
    tool.close()
    print(f"{given.release}: {len(runs)} runs, {found} differ")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
