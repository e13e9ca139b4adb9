"""What Kafka's own tool does with damaged logs, and what kdump does with the same: counts for kdump-proof(7).

    python -m tests.support.beside_kafka [--tool 4.3.1]

The runs of DumpLogSegments over the damaged logs of `fixtures/damage` were recorded; `kdump dump` runs with the same
options in a copy. Counted are how they end, and the records that each shows: those of batches with a wrong CRC, too.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections import Counter
from pathlib import Path

from tests.support.damage_cases import damage_cases
from tests.support.runs import FIXTURES, run_kdump

_RECORD = re.compile(rb"^\| offset: ", re.MULTILINE)


def main() -> None:
    """Count, and print the counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tool", default="4.3.1", help="release whose runs were recorded")
    tool = parser.parse_args().tool
    ends, shown, more = Counter[str](), Counter[str](), Counter[str]()
    for case in damage_cases(FIXTURES / "damage"):
        dumps = [dump for dump in case.dumps() if dump.tool == tool and "--deep-iteration" in dump.args]
        if not dumps:
            continue
        with tempfile.TemporaryDirectory() as folder:
            tree = case.build(Path(folder) / "logdir")
            for dump in dumps:
                run = run_kdump(["dump", *dump.args], tree)
                theirs, ours = (len(_RECORD.findall(text)) for text in (dump.stdout, run.stdout))
                ends["runs"] += 1
                ends["the tool ends with an exception"] += dump.exit != 0
                ends["the tool ends with 0, kdump with another status"] += dump.exit == 0 and run.exit != 0
                ends["kdump ends with a traceback"] += b"Traceback" in run.stderr
                shown["the tool"] += theirs
                shown["kdump"] += ours
                more["kdump shows more"] += ours > theirs
                more["the tool shows more"] += theirs > ours
    for title, counts in (("", ends), ("records shown by ", shown), ("runs in which ", more)):
        for name, count in counts.items():
            print(f"{title}{name}: {count}")


if __name__ == "__main__":
    main()
