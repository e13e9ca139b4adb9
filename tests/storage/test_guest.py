"""A guest reads no faster than it may, and leaves the page cache as it was."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from kdump.storage import guest
from kdump.storage.file_source import CannotKeepCacheError, FileSource
from tests.support.page_cache import PAGE, cached, drop, touch
from tests.support.runs import run_kdump
from tests.support.scrubs import closed, log_dir

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MB = 1000 * 1000
SIZE = 700 * PAGE + 123


@pytest.fixture(autouse=True)
def _polite() -> Iterator[None]:
    yield
    FileSource.policy = None


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of which some pages are in the page cache; where pages cannot leave it there is nothing to test."""
    path = tmp_path / "file"
    path.write_bytes(os.urandom(SIZE))
    drop(path)
    if cached(path):
        pytest.skip("here all pages stay")
    touch(path, 10, 20)
    touch(path, 300, 301)
    return path


def read_all(path: Path) -> bytes:
    with FileSource(str(path)) as source:
        half = bytearray(SIZE // 2)
        source.read_into(0, memoryview(half))
        return bytes(half) + source.read_at(SIZE // 2, SIZE)


@pytest.mark.parametrize("tells", ["mincore", "cachestat"])
def test_what_was_cached_stays_and_nothing_else_does(file: Path, tells: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = cached(file)
    assert before == {*range(10, 20), 300}
    guest.be(keeps_cache=True)
    if tells == "cachestat":
        monkeypatch.setattr(guest, "_may_ask", lambda _: False)
        try:
            read_all(file)
        except CannotKeepCacheError:
            pytest.skip("this system has no cachestat")
    data = read_all(file)
    assert cached(file) == before
    assert data == file.read_bytes()


def test_without_it_pages_stay(file: Path) -> None:
    read_all(file)
    assert len(cached(file)) == 701


def test_where_nobody_tells_it_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guest.be(keeps_cache=True)
    monkeypatch.setattr(guest, "_may_ask", lambda _: False)
    monkeypatch.setattr(guest, "_CACHESTAT", 100_000)
    with pytest.raises(CannotKeepCacheError, match="run as their owner"):
        read_all(file)


def test_a_cachestat_that_looks_elsewhere_is_not_believed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guest.be(keeps_cache=True)
    monkeypatch.setattr(guest, "_may_ask", lambda _: False)
    monkeypatch.setattr(guest._PageCache, "_count", lambda *_: 0)
    with pytest.raises(CannotKeepCacheError):
        read_all(file)


class Clock:
    """Time that passes only in sleep."""

    def __init__(self) -> None:
        self.now = 5_000_000_000_000

    def sleep(self, seconds: float) -> None:
        self.now += round(seconds * 1e9)

    def nanoseconds(self) -> int:
        return self.now


@pytest.mark.parametrize("rate", [3000, 50_000, 20 * MB, 900 * MB])
def test_no_more_than_the_rate_is_read_whatever_is_asked_for_at_once(
    tmp_path: Path, rate: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr("kdump.storage.guest.time.sleep", clock.sleep)
    monkeypatch.setattr("kdump.storage.guest.time.monotonic_ns", clock.nanoseconds)
    path = tmp_path / "file"
    path.write_bytes(bytes(3 * MB))
    guest.be(rate=rate)
    began, read = clock.now, 0
    with FileSource(str(path)) as source:
        for length in (10, 2 * MB, 1, 999_989):
            read += len(source.read_at(read, length))
    seconds = (clock.now - began) / 1e9
    assert read == 3 * MB
    assert 0 <= read / rate - seconds <= max(0.06, 4096 / rate, 1024 * 1024 / rate * (rate > 20 * MB))


def test_processes_share_the_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process waits behind what the others have taken."""
    path = tmp_path / "file"
    path.write_bytes(bytes(MB))
    guest.be(rate=MB // 1000)
    waits: list[float] = []
    monkeypatch.setattr("kdump.storage.guest.time.sleep", waits.append)
    pid = os.fork()
    if not pid:
        try:
            with FileSource(str(path)) as source:
                source.read_at(0, MB)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    with FileSource(str(path)) as source:
        source.read_at(0, 1)
    assert 500 < max(waits) <= 1000  # of the 1000 seconds that the other has taken, and not waited for


def test_a_scrub_leaves_the_page_cache_as_it_was(tmp_path: Path) -> None:
    logs = log_dir(tmp_path / "logs", value=9000, batches=100)
    paths = closed(logs)
    for path in paths:
        drop(path)
    if any(map(cached, paths)):
        pytest.skip("here all pages stay")

    def is_left(*args: str) -> bool:
        """The system itself takes pages away where memory is short: what kdump does is the same each time."""
        touch(paths[0], 3, 9)
        touch(paths[1], 0, len(paths[1].read_bytes()) // PAGE)
        before = [cached(path) for path in paths]
        assert run_kdump(["verify", "--drop-cache", *args, "logs"], tmp_path).exit == 0
        return [cached(path) for path in paths] == before

    for args in (["--scrub", "ledger"], [], ["-j", "2", "--max-rate", "900M"]):
        assert any(is_left(*args) for _ in range(3))


def test_times_of_access_stay(tmp_path: Path) -> None:
    logs = log_dir(tmp_path / "logs")
    before = [path.stat().st_atime_ns for path in closed(logs)]
    assert run_kdump(["verify", "--scrub", "ledger", "logs"], tmp_path).exit == 0
    assert [path.stat().st_atime_ns for path in closed(logs)] == before


def test_it_reads_when_nobody_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, ...]] = []

    class Library:
        def __init__(self, _: None) -> None:
            self.syscall = lambda *args: calls.append(args)

    monkeypatch.setattr("kdump.storage.guest.ctypes.CDLL", Library)
    guest.be(idle=True)
    assert [call[1:] for call in calls] == [(1, 0, 3 << 13)]
    assert FileSource.policy is None


def test_a_process_that_is_killed_does_not_keep_the_others_waiting(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(100))
    guest.be(rate=MB)
    out, into = os.pipe()
    pid = os.fork()
    if not pid:
        lockf, take, _ = FileSource.policy._pace._lock  # type: ignore[union-attr]
        lockf(FileSource.policy._pace._file, take)  # type: ignore[union-attr]
        os.write(into, b"x")
        time.sleep(60)
        os._exit(0)
    os.read(out, 1)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    with FileSource(str(path)) as source:
        assert source.read_at(0, 100) == bytes(100)
