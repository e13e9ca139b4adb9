"""A new release of Kafka's tool is a row, and what it does not change it takes from the release before."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kdump.compat.dialect import DEFAULT, DIALECTS
from tests.support.runs import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
METADATA = FIXTURES / "kafka-4.4.0" / "clean" / "node1" / "__cluster_metadata-0"
NEXT = """
import sys
from kdump.compat import dialect
dialect.DIALECTS["4.4"] = dialect.DIALECTS["4.3"].replace(release="4.4")
from kdump.cli.main import kdump
kdump(sys.argv[1:], prog_name="kdump")
"""
SEGMENT = "00000000000000000000.log"


def test_a_release_is_not_claimed_before_its_tool_can_be_compared() -> None:
    assert list(DIALECTS) == ["4.4", "4.3", "4.2", "3.9"]
    assert DEFAULT.release == "4.4"


@pytest.mark.parametrize(
    ("path", "options"),
    [
        (NODE / "plain-0" / SEGMENT, ["--print-data-log"]),
        (NODE / "plain-0" / "00000000000000000000.timeindex", []),
        (METADATA / SEGMENT, ["--cluster-metadata-decoder"]),
        (METADATA / "00000000000000000000-0000000000.checkpoint", ["--cluster-metadata-decoder"]),
        (METADATA / "00000000000000000531.snapshot", []),
        (NODE / "meta.properties", []),
    ],
    ids=lambda one: one.name if hasattr(one, "name") else "",
)
def test_a_new_row_prints_what_the_release_before_prints(path: Path, options: list[str]) -> None:
    runs = [
        subprocess.run(
            [sys.executable, "-c", NEXT, "dump", "--compat", release, *options, "--files", str(path)],
            capture_output=True,
            check=True,
            cwd=FIXTURES.parent,
        )
        for release in ("4.3", "4.4")
    ]
    assert runs[0].stdout == runs[1].stdout != b""
    assert runs[0].stderr == runs[1].stderr
