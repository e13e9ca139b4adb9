"""The page of fleets: its commands are run for two brokers, and its questions answer what it shows."""

from __future__ import annotations

import re
import shlex
import shutil
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kdump.cli.main import kdump as command
from tests.support.consoles import plain, sections
from tests.support.fleet import NODE

if TYPE_CHECKING:
    from pathlib import Path

PAGE = "kdump-fleet.7"
TOPICS = ("plain-0", "zstd-0", "gzip-0", "txn-0", "txnspan-0", "__transaction_state-*")


def broker(place: Path, number: int) -> None:
    """The disk of a broker."""
    place.mkdir(parents=True)
    for pattern in TOPICS:
        for one in NODE.glob(pattern):
            shutil.copytree(one, place / one.name)
    properties = (NODE / "meta.properties").read_text()
    properties = re.sub(r"node\.id=\d+", f"node.id={number}", properties)
    (place / "meta.properties").write_text(re.sub(r"directory\.id=.*", f"directory.id={'A' * 21}{number}", properties))


@pytest.mark.usefixtures("spark")
def test_the_page_of_fleets_does_what_it_says(tmp_path: Path) -> None:
    blocks = {
        title: list(map(plain, re.findall(r"(?ms)^\.EX\n(.*?)^\.EE$", text))) for title, text in sections(PAGE).items()
    }
    service, timer, cron = blocks["EACH BROKER"]
    commands = re.findall(r"(?m)^ExecStart=/usr/bin/kdump (.*)$", service)
    assert len(commands) == 3
    assert "OnCalendar=" in timer
    by_cron = cron.partition("kdump ")[2].replace('"$(hostname)"', "%H")
    for number in (1, 2):
        disk = tmp_path / "snapshots" / f"kafka{number}"
        broker(disk, number)
        if number == 1:  # one byte of a batch
            with (disk / "txn-0" / "00000000000000000000.log").open("r+b") as log:
                log.seek(500)
                log.write(b"X")
        for line in [*commands, by_cron]:
            words = shlex.split(line.replace("%H", f"kafka{number}").replace("/var/lib/kafka/data", str(disk)))
            words = [one.replace("/mnt/", f"{tmp_path}/").replace("/var/lib/metrics", str(tmp_path)) for one in words]
            run = CliRunner().invoke(command, words)
            assert run.exit_code in (0, 3), run.output
    assert "kdump_" in (tmp_path / "kdump.prom").read_text()
    code, expected = blocks["QUESTIONS"]
    code = code.replace('"/mnt/', f'"{tmp_path}/').replace('f"/mnt/', f'f"{tmp_path}/')
    code = code.replace("/snapshots", f"{tmp_path}/snapshots")
    printed: list[str] = []
    exec(code, {"print": lambda *words: printed.append(" ".join(map(str, words)))})
    assert printed == expected.rstrip("\n").split("\n")
