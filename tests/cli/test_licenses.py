"""`kdump --licenses`: the terms of all that a user gets."""

from __future__ import annotations

from importlib.metadata import requires
from typing import TYPE_CHECKING

from tests.support.runs import run_kdump

if TYPE_CHECKING:
    from pathlib import Path


def test_each_package_that_kdump_needs_is_named_with_its_terms_and_their_text(tmp_path: Path) -> None:
    done = run_kdump(["--licenses"], tmp_path)
    assert done.exit == 0
    table, *texts = done.stdout.decode().split("\n--- ")
    told = {line.split()[0].lower(): line for line in table.splitlines() if line and not line.startswith("kdump,")}
    needed = [one.split(">")[0].lower() for one in requires("kafka-kdump") or [] if "extra" not in one]
    assert {"kafka-kdump", "click", "crc32c", "zstandard"} <= set(needed) | {"kafka-kdump"} <= set(told)
    assert "LGPL" in told["crc32c"]
    assert "https://" in told["crc32c"]
    with_text = {one.split()[0].lower() for one in texts}
    assert set(needed) <= with_text
    assert any("GNU LESSER GENERAL PUBLIC LICENSE" in one for one in texts)


def test_what_only_tests_need_is_not_named(tmp_path: Path) -> None:
    assert "pytest" not in run_kdump(["--licenses"], tmp_path).stdout.decode()
