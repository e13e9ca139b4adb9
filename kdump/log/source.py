"""PLACEHOLDER by the lead, for tests until the owner's file lands: overwrite it."""
from __future__ import annotations
import os
from typing import NamedTuple
class DoorProblem(NamedTuple):
    path: str
    kind: str
    sentence: str
    @property
    def missing(self) -> bool: return self.kind == "missing"
class FileSource:
    def __init__(self, path: str, name: str | None = None) -> None:
        self.name = name or path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._fd).st_size
    def read_at(self, position: int, length: int) -> bytes: return os.pread(self._fd, max(0,min(length, self.size-position)), position)
    def read_into(self, position: int, target: memoryview) -> int:
        return os.preadv(self._fd, [target[:max(0,self.size-position)]], position)
    def next_data(self, position: int) -> int: return position
    def close(self) -> None: os.close(self._fd)
    def __enter__(self): return self
    def __exit__(self, *a): self.close()
def open_source(path: str):
    try: return FileSource(path)
    except FileNotFoundError: return DoorProblem(path, "missing", f"no such file: {path}")
