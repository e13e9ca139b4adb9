"""Each verb once, in this process: that the rooms fit together, before anything slower is asked.

`pytest -m quick` runs this and the other files that bear the mark; none of them starts a process.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kdump.cli.main import kdump
from tests.support.runs import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.quick

NODE = str(FIXTURES / "kafka-4.3.1/clean/node1")
PLAIN = f"{NODE}/plain-0"
SOUND = str(FIXTURES / "damage/intact/none/logdir")
DAMAGED = str(FIXTURES / "batch-b01-crc-mismatch")


def run(*args: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of a command."""
    done = CliRunner().invoke(kdump, args)
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("args", "status", "shown"),
    [
        (("verify", SOUND), 0, "1 partition, 3 segments, 21.3 kB, 115 batches: SOUND"),
        (("verify", DAMAGED), 3, "error B01 crc-mismatch "),
        (
            ("verify", "--start", "full", SOUND, "--format", "lines"),
            0,
            'start=full broker="4.4" loads=true logStartOffset=0 logEndOffset=297 ',
        ),
        (("dump", f"{PLAIN}/00000000000000000000.log"), 0, "baseOffset: 0 lastOffset: 6 count: 7 "),
        (("dump", "--compat", "4.3", "--files", f"{PLAIN}/00000000000000000000.log"), 0, "Log starting offset: 0\n"),
        (("dump", "--fate", "--key", "hk", PLAIN), 0, "fate: [superseded at offset 57, "),
        (("find-offset", PLAIN, "57", "--format", "json"), 0, '"position":1653,"baseOffset":56,"lastOffset":62'),
        (("find-time", PLAIN, "2023-11-14T22:13:20.100Z"), 0, "offset: 26 timestamp: 1700000000100 "),
        (("groups", NODE, "--group", "grp-new"), 0, "grp-new"),
        (("transactions", NODE), 0, "txn-0   open   producer 3004 "),
        (("cluster", NODE), 0, "alice       SCRAM-SHA-256 "),
        (("du", SOUND, "--format", "lines"), 0, "usage by=topic name=plain bytes=21063 logBytes=20326 "),
        (("retention", NODE), 0, "36 partitions, 63 segments: "),
        (("reindex", DAMAGED), 3, "nothing to do in "),
        (("truncate", "--at-damage", PLAIN), 0, "nothing to do in "),
        (("patch-header", SOUND), 0, ""),
        (("explain", "B01"), 0, "B01 crc-mismatch (error)"),
    ],
    ids=lambda one: "-".join(str(word).rpartition("/")[2] for word in one) if isinstance(one, tuple) else None,
)
def test_each_verb_that_only_reads(args: tuple[str, ...], status: int, shown: str) -> None:
    code, out, err = run(*args)
    assert (code, "Traceback" in err) == (status, False)
    assert shown in out


def test_salvage_carve_and_export_write_what_they_count(tmp_path: Path) -> None:
    _, out, _ = run("salvage", f"{SOUND}/plain-0", "--to", f"{tmp_path}/salvaged", "--format", "json")
    (total,) = [row for row in map(json.loads, out.splitlines()) if row["type"] == "summary"]
    assert (total["records"], total["recordsLost"]) == (297, 0)
    assert sum(file.stat().st_size for file in tmp_path.glob("salvaged/plain-0/*.log")) == 20326
    code, out, _ = run("carve", f"{PLAIN}/00000000000000000000.log", "--to", f"{tmp_path}/carved")
    assert (code, "found 1 run, 21 batches, 123 records " in out) == (0, True)
    code, out, _ = run("export", "--table", "findings", "--to", f"{tmp_path}/exported", DAMAGED)
    assert (code, '"rows":1,' in out) == (3, True)
