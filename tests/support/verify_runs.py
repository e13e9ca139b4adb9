"""What the tests of verify share: judging a directory in this process, and what no committed file can show."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pytest import MonkeyPatch  # noqa: PT013

from kdump.checks.options import VerifyOptions
from kdump.checks.replicas import compare
from kdump.checks.run import verify
from kdump.finding import Code, Finding, Severity
from kdump.render.text.findings import finding_line
from kdump.storage import file_source as source
from kdump.storage.file_source import OpenFailure
from tests.support import scrubs
from tests.support.bad_sectors import unreadable
from tests.support.make_fixtures import EXPECT, INDEX, INTACT, LOG
from tests.support.partitions import write
from tests.support.runs import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kdump.item import Item

FOLDERS = sorted(path.parent for path in FIXTURES.glob(f"*/{EXPECT}"))
"""The directories of the fixtures that show one code each."""


def items_of(*paths: Path | str, replicas: bool = False, **options: Any) -> list[Item]:
    """All items of some paths."""
    judge = compare if replicas else verify
    return list(judge([str(path) for path in paths], VerifyOptions(**options)))


def findings_of(*paths: Path | str, **options: Any) -> list[Finding]:
    """What is found; there is nothing that could not be opened."""
    items = items_of(*paths, **options)
    assert [item for item in items if isinstance(item, OpenFailure)] == []
    return [item for item in items if isinstance(item, Finding)]


def loud(found: list[Finding]) -> list[str]:
    """The lines of those that are errors or warnings."""
    return [finding_line(one) for one in found if one.severity is not Severity.NOTE]


def below(folder: Path | str, found: list[Finding]) -> list[Finding]:
    """The same, with files relative to a folder."""
    return [one.replace(file=os.path.relpath(one.file, folder)) for one in found]


def codes(found: list[Finding]) -> set[str]:
    """The codes of some findings."""
    return {one.code.name for one in found}


def shown_by(folder: Path) -> tuple[list[Finding], dict[str, Any]]:
    """What is found in one of the directories that `make_fixtures.py` makes, and what is expected there."""
    expect = json.loads((folder / EXPECT).read_text("utf-8"))
    paths = [folder / path for path in expect["paths"]]
    return findings_of(*paths, replicas=expect["replicas"], **expect["options"]), expect


# --- what no committed file can show ------------------------------------------------------------------------
_HOLD = """
import fcntl, sys
lock = open(sys.argv[1], "w")
fcntl.lockf(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(log_dir: Path) -> Iterator[None]:
    """Hold the lock of a log directory in another process, as a running broker does."""
    command = [sys.executable, "-c", _HOLD, str(log_dir / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline() == b"held\n"
        try:
            yield
        finally:
            broker.communicate()


@contextmanager
def meanwhile(path: Path, act: Callable[[Path], None], *, after: bool = False, from_time: int = 1) -> Iterator[None]:
    """Do something to a file at the moment when it is opened, the first time or a later one: just before or after."""
    opening = source.FileSource.__init__
    times = 0

    def opened(self: source.FileSource, *args: Any, **named: Any) -> None:
        nonlocal times
        times += os.path.basename(args[0]) == path.name
        if times < from_time:
            opening(self, *args, **named)
            return
        if os.path.basename(args[0]) == path.name and not after and path.exists():
            act(path)
        opening(self, *args, **named)
        if os.path.basename(args[0]) == path.name and after:
            act(path)

    with MonkeyPatch.context() as patch:
        patch.setattr(source.FileSource, "__init__", opened)
        yield


def _shorter(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def _too_large(folder: Path) -> list[Finding]:
    os.truncate(write(folder, INTACT) / LOG, 2**31 + 4096)  # a hole: takes no room
    return findings_of(folder)


def _link(folder: Path) -> list[Finding]:
    (write(folder, INTACT) / "link.log").symlink_to(LOG)
    return findings_of(folder)


def _changed(folder: Path) -> list[Finding]:
    with meanwhile(write(folder, INTACT) / LOG, _shorter, after=True):
        return findings_of(folder)


def _vanished(folder: Path) -> list[Finding]:
    with meanwhile(write(folder, INTACT) / LOG, os.unlink):
        return findings_of(folder)


def _unreadable(folder: Path) -> list[Finding]:
    """The second block of the log cannot be read."""
    path = write(folder, {**INTACT, LOG: INTACT[LOG] * 40}) / LOG
    with unreadable(path, range(4096, 8192)):
        return findings_of(folder)


def _unfinished(folder: Path) -> list[Finding]:
    write(folder, {**INTACT, LOG: INTACT[LOG][:-10]})
    with held(folder.parent):
        return findings_of(folder)


def _rotten(folder: Path) -> list[Finding]:
    """A bit of a closed segment flips between two scrubs."""
    after = f"{int(LOG.split('.')[0]) + 2:020}.log"
    path = write(folder, {LOG: INTACT[LOG], after: b""}) / LOG
    ledger = folder.parent / "ledger"
    scrubs.run(ledger, folder)
    scrubs.rot(path, 0)
    return scrubs.rotten(scrubs.run(ledger, folder))


def _other_mode(folder: Path) -> list[Finding]:
    """One file of a partition has another mode than the others."""
    (write(folder, INTACT) / INDEX).chmod(0o640)
    write(folder.parent, {"meta.properties": b"version=0\n"})
    return findings_of(folder)


STAGED: dict[Code, tuple[str, Callable[[Path], list[Finding]]]] = {
    Code.F03: ("the log has 2 GiB", _too_large),
    Code.F04: ("git fixtures have no links", _link),
    Code.F06: ("the disk fails", _unreadable),
    Code.K12: ("git keeps neither owners nor modes", _other_mode),
    Code.V01: ("the file changes while it is read", _changed),
    Code.V02: ("the file vanishes before it is opened", _vanished),
    Code.V03: ("a broker holds the lock", _unfinished),
    Code.V05: ("it takes two scrubs", _rotten),
}
"""Codes that take more than files that lie there: why, and how to see them in a new directory `topic-0`."""

NOT_OF_VERIFY = {
    Code.L13: "the answer of a lookup: find-offset and find-time ask for one",
    Code.P05: "the coordinator's log decides: kdump transactions reads it",
    **dict.fromkeys(
        (Code.M01, Code.M02, Code.M03, Code.M04, Code.M05), "the metadata log decides: kdump cluster reads it"
    ),
    Code.V04: "a program of the user: dump runs one",
    Code.R07: "what a decoder makes of a record: dump and find ask for one",
    **dict.fromkeys((Code.R08, Code.R09, Code.R10), "what schemas make of a record: tests/decode/payload"),
}


# --- what verify says otherwise, or cannot say ----------------------------------------------------------------
_DECODES = "one bit of the compressed data has flipped before the CRC was computed, and the data decodes, to other text"
_REBUILT = "a broker removes old snapshots itself and makes new ones from the log"
_MISNAMED = "all batches of the log are in order: only its name is that of another segment"
NOT_AS_NAMED: dict[str, tuple[str, str]] = {
    "l10-drop-last": ("L19 O07 T04", "the last batch of a segment is missing: that is a hole before the next segment"),
    "c01-lz4-stream-bit": ("", _DECODES),
    "c01-zstd-stream-bit": ("R05", _DECODES),
    "c01-snappy-stream-bit": ("", _DECODES),
    "o01-renamed-up": ("F15", _MISNAMED),
    "o01-renamed-down": ("F15", _MISNAMED),
    "p05-nontxn-in-txn": (
        "P03",
        "its sequence is right: that it is outside of its transaction is what a broker fails on",
    ),
    "s01-last-missing": ("", _REBUILT),
    "s01-mid-missing": ("", _REBUILT),
    "x-empty-last": ("", "the segment is so small that an index of the usual interval has no entry"),
    "k01-rp-in-mid-segment": ("", "a recovery point below the end of the log is normal"),
    "k02-logstart-checkpoint-lost": ("", "an empty checkpoint is legal"),
    "k03-rp-crlf": ("", "a broker accepts these line ends"),
    "k05-partition-metadata-other-id": ("", "nothing else in the log directory has the id of the topic"),
    "k06-clean-marker-garbage": ("", "a broker looks only whether the file is there"),
}
"""Damaged directories of the fixtures without a finding of the code they are named for: codes told, and why."""
