"""The same targets with atheris, which chooses by the Python code that a case has reached. In this process alone.

What it lets end the process (an exception, a signal) it keeps itself: the bytes that a case was made of.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.fuzz.chance import Chance

if TYPE_CHECKING:
    from typing import NoReturn


class Bytes(Chance):
    """Chance that is taken from bytes, so that a change of one byte changes one choice; then from their hash."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._data = data
        self._at = 0

    def random(self) -> float:
        """A number from the next two bytes."""
        if self._at + 2 > len(self._data):
            return super().random()
        self._at += 2
        return int.from_bytes(self._data[self._at - 2 : self._at], "big") / 65536


def guided(target: str, seconds: float, seed: int, finds: Path) -> NoReturn:
    """Run one target until something is found or the time is over; atheris ends the process."""
    import atheris

    with atheris.instrument_imports(include=["kdump"]):
        from tests.fuzz.judge import outcome_here
        from tests.fuzz.targets import make
    folder = Path(tempfile.mkdtemp(prefix="kdump-fuzz-"))

    def one(data: bytes) -> None:
        problem = outcome_here(make(target, Bytes(data)), folder)
        if problem is not None:
            raise AssertionError(problem)

    finds.mkdir(parents=True, exist_ok=True)
    options = [f"-max_total_time={int(seconds)}", f"-seed={seed % 2**31}", f"-artifact_prefix={finds}/{target}-"]
    atheris.Setup([sys.argv[0], *options, "-max_len=512"], one)
    atheris.Fuzz()
    raise SystemExit(0)
