"""Figures for monitoring: those of the run, and a file that is whole or as it was."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kdump.cli.main import kdump
from tests.support.nights import CHANGES, damage, node, rest

if TYPE_CHECKING:
    from pathlib import Path

SAMPLE = re.compile(r'([a-z_]+)\{([a-z]+="[^"]*"(?:,[a-z]+="[^"]*")*)\} (-?[0-9.]+)')


def run(*args: object) -> Any:
    """Run kdump; none of its runs may end with a traceback."""
    done = CliRunner().invoke(kdump, list(map(str, args)))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    return done


def read(path: Path) -> dict[str, float]:
    """The samples of a file, each line of which is one, or tells of one."""
    found, names = {}, set()
    for line in path.read_text("ascii").splitlines():
        if line.startswith("# "):
            names.add(line.split(" ")[2])
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample is not None, line
        assert sample[1] in names, "its type is told before"
        found[f"{sample[1]}{{{sample[2]}}}"] = float(sample[3])
    return found


def test_verify_leaves_what_it_has_found(tmp_path: Path) -> None:
    data = node(tmp_path / "data")
    damage(data)
    done = run("verify", data, "--metrics", tmp_path / "kdump.prom")
    found = read(tmp_path / "kdump.prom")
    assert found['kdump_findings{verb="verify",severity="error",code="B01"}'] == 1
    assert found['kdump_exit_status{verb="verify"}'] == done.exit_code == 3
    assert found['kdump_lost_offsets{verb="verify"}'] == 1
    assert found['kdump_unread_files{verb="verify"}'] == 0
    assert found['kdump_partitions{verb="verify"}'] == 3
    assert found['kdump_bytes{verb="verify"}'] == found['kdump_read_bytes{verb="verify"}'] > 0
    assert abs(found['kdump_last_run_timestamp_seconds{verb="verify"}'] - time.time()) < 60


def test_a_scrub_and_an_export_leave_theirs(tmp_path: Path) -> None:
    data = node(tmp_path / "data")
    damage(data)
    file = tmp_path / "kdump.prom"
    run("verify", data, "--scrub", tmp_path / "ledger", "--metrics", file)
    assert read(file)['kdump_findings{verb="scrub",severity="error",code="B01"}'] == 1
    for table in ("records", "findings", "usage", "unread"):
        run("export", data, "--table", table, "--to", tmp_path / table, "--metrics", file)
        found = read(file)
        assert found[f'kdump_unread_files{{verb="export",table="{table}"}}'] == 0
        if table in ("records", "findings"):
            assert found[f'kdump_findings{{verb="export",table="{table}",severity="error",code="B01"}}'] == 1
            assert found[f'kdump_rows{{verb="export",table="{table}"}}'] > 0


@pytest.mark.parametrize("verb", [("verify",), ("export",)])
def test_a_night_tells_what_it_has_read_and_what_is_still_wrong(tmp_path: Path, verb: tuple[str, ...]) -> None:
    data, file = node(tmp_path / "data"), tmp_path / "kdump.prom"
    damage(data)
    rest()
    words = [*verb, data, "--to", tmp_path / "store", "--update", "--metrics", file]
    run(*words)
    first = read(file)
    run(*words)
    second = read(file)
    wrong = [name for name in first if 'code="B01"' in name]
    assert wrong
    assert [first[name] for name in wrong] == [second[name] for name in wrong]
    name = next(name for name in second if name.startswith("kdump_read_bytes"))
    assert second[name] == 0 < first[name]
    CHANGES["append"](data)
    rest()
    run(*words)
    assert 0 < read(file)[name] < first[name]


def test_a_file_that_cannot_be_written_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, file = node(tmp_path / "data", "a"), tmp_path / "kdump.prom"
    file.write_text("before")
    monkeypatch.setattr(
        "kdump.metrics.os.fsync", lambda _fd: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    )
    done = run("verify", data, "--metrics", file)
    assert done.exit_code == 5
    assert "No space left" in done.stderr
    assert file.read_text() == "before"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["data", "kdump.prom"]


def test_a_link_is_replaced_and_nothing_is_written_into_what_is_read(tmp_path: Path) -> None:
    data, file = node(tmp_path / "data", "a"), tmp_path / "kdump.prom"
    (tmp_path / "other").write_text("other")
    file.symlink_to(tmp_path / "other")
    run("verify", data, "--metrics", file)
    assert (tmp_path / "other").read_text() == "other"
    assert not file.is_symlink()
    assert run("verify", data, "--metrics", data / "kdump.prom").exit_code == 12
    assert run("verify", data, "--metrics", tmp_path / "nowhere" / "kdump.prom").exit_code == 2
    assert not (data / "kdump.prom").exists()
