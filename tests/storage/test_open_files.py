"""The files of a run that are open: who reads one reads it to its end, whoever closes it meanwhile."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

from kdump.broker.awaiting_deletion import logs_awaiting_deletion
from kdump.storage.file_source import FileSource
from kdump.storage.log_dir import LogDir
from kdump.storage.open_files import CachedFile, OpenFileCache
from kdump.storage.partition_dir import PartitionDir
from tests.support.runs import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def test_a_file_that_is_closed_in_the_middle_of_a_read_is_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(range(200)))
    fill = FileSource._fill

    def closed_meanwhile(self: FileSource, position: int, target: memoryview, wanted: int) -> int:
        cache.close_file(str(path))
        return fill(self, position, target, wanted)

    before = descriptors()
    with OpenFileCache() as cache:
        source = cache.open(str(path))
        assert isinstance(source, CachedFile)
        monkeypatch.setattr(FileSource, "_fill", closed_meanwhile)
        target = bytearray(200)
        assert source.read_into(0, memoryview(target)) == 200
        assert target == path.read_bytes()
        assert descriptors() == before  # it was closed behind the read


def test_what_is_nowhere_else_does_not_hang_on_when_garbage_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk that nobody goes on with is ended by the collector, and closes the log that another walk reads."""
    fill = FileSource._fill

    def collected(self: FileSource, position: int, target: memoryview, wanted: int) -> int:
        gc.collect()
        return fill(self, position, target, wanted)

    monkeypatch.setattr(FileSource, "_fill", collected)
    directory = PartitionDir(str(NODE / "tombstone-0"), LogDir(str(NODE)))
    assert list(logs_awaiting_deletion(directory, 1 << 20)) == []
