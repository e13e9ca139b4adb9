"""What a broker would load through a link is not read, and said: it may be all that there is of a partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.partitions import below, name, segment, write
from tests.support.segments import batch
from tests.support.whole_lines import run_kdump

if TYPE_CHECKING:
    from pathlib import Path

LOGS = segment(0, [batch(0, [b"a"])]) | segment(1, [batch(1, [b"b"])])


@pytest.mark.parametrize("what", ["t-0", f"u-0/{name(1)}"])
@pytest.mark.parametrize("source", ["data", "data/u-0"])
def test_a_link_in_a_source_of_salvage_is_named_and_counts(what: str, source: str, tmp_path: Path) -> None:
    write(tmp_path, below("data/u-0", LOGS) | below("data/t-0", LOGS))
    (tmp_path / "data" / what).rename(tmp_path / "elsewhere")
    (tmp_path / "data" / what).symlink_to(tmp_path / "elsewhere")
    run = run_kdump(["salvage", source, "--to", "out"], tmp_path)
    is_met = source == "data" or what.startswith("u-0")
    said = f"kdump: data/{what}: not read: a symbolic link" in run.stderr.decode()
    assert said is is_met
    assert (run.exit in (5, 6)) is is_met
    assert (tmp_path / "out" / "u-0").is_dir()
