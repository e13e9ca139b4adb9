"""Two releases of Kafka's own tool show all files of the fixtures: which runs differ, and how?

    python -m tests.support.compare_tools --old '/jars/4.3.1/*' --new '/jars/4.4.0/*' [--show 3] [--every N] [PATH...]

The first thing to do with a new release: what differs is what `--compat` needs. Files are run in copies, as the tool
may change them, each by itself with the options that fit its kind and its topic. Runs that differ are grouped by the
first line that does, numbers left out. The jars, and Java 17, are not part of the project; both tools must be in
Java (4.3 or later).
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.runs import FIXTURES, copy_tree
from tests.support.tool_fuzz import DECODERS, SHOWN, Tool

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGEST = 4 << 20  # bytes of a file; preallocated indexes of many MB are zeros
_NUMBER = re.compile(rb"-?\d+")


def runs_of(file: Path) -> Iterator[list[str]]:
    """Yield the options of each run of a file."""
    yield []
    if file.suffix in (".log", ".checkpoint"):
        yield ["--deep-iteration"]
        yield ["--print-data-log"]
        topic = file.parent.name.rpartition("-")[0]
        if topic in DECODERS:
            yield [DECODERS[topic]]
            yield [DECODERS[topic], "--skip-record-metadata"]
    elif file.suffix in (".index", ".timeindex"):
        yield ["--verify-index-only"]
        yield ["--index-sanity-check"]


def first_difference(old: tuple[bytes, bytes, bytes], new: tuple[bytes, bytes, bytes]) -> tuple[bytes, bytes] | None:
    """Return the first line in which two runs differ, of each; None where they do not."""
    for one, other in zip(old, new, strict=True):
        ours, theirs = one.split(b"\n"), other.split(b"\n")
        for at in range(max(len(ours), len(theirs))):
            a, b = ours[at : at + 1] or [b"<end>"], theirs[at : at + 1] or [b"<end>"]
            if a != b:
                return a[0], b[0]
    return None


def main() -> int:
    """Compare; the status is 1 where anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", required=True, help="class path of the release before")
    parser.add_argument("--new", required=True, help="class path of the new one")
    parser.add_argument("--show", type=int, default=3, help="runs that are shown of each kind of difference")
    parser.add_argument("--every", type=int, default=1, help="only every Nth file")
    parser.add_argument("paths", type=Path, nargs="*", default=[FIXTURES])
    given = parser.parse_args()
    old, new, runs = Tool(given.old), Tool(given.new), 0
    kinds: dict[bytes, list[str]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="kdump-tools-") as scratch:
        for number, path in enumerate(given.paths):
            tree = Path(scratch) / str(number)
            copy_tree(path, tree)
            files = sorted(one for one in tree.rglob("*") if one.is_file() and one.suffix in SHOWN)
            for file in (one for one in files[:: given.every] if one.stat().st_size <= LARGEST):
                for options in runs_of(file):
                    runs += 1
                    args = ["--files", str(file), *options]
                    pair = first_difference(old.run(args), new.run(args))
                    if pair is not None:
                        shown = f"{file.relative_to(tree)} {' '.join(options)}\n   old {pair[0]!r}\n   new {pair[1]!r}"
                        kinds[_NUMBER.sub(b"N", pair[1])[:80]].append(shown)
    old.close()
    new.close()
    for found in sorted(kinds.values(), key=len, reverse=True):
        print(len(found), "runs differ, as", *found[: given.show], sep="\n")
    print(f"{runs} runs, {sum(map(len, kinds.values()))} differ in {len(kinds)} ways")
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())
