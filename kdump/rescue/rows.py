"""The rows beside a partition that was salvaged, read again."""

from __future__ import annotations

import base64
import json
import os
from typing import TYPE_CHECKING

from kdump.rows.verdict import Certainty, Loss

if TYPE_CHECKING:
    from collections.abc import Iterator


def losses_of(path: str) -> Iterator[Loss]:
    """Yield the losses of a file of rows, in order."""
    for text in lines_of(path):
        if not text.startswith('{"type":"loss"'):
            continue
        row = json.loads(text)
        yield Loss(
            os.path.dirname(path),
            str(name_of(row["partition"])),
            file=name_of(row["file"]),
            position=row["position"],
            length=row["length"],
            offset=row["offset"],
            last_offset=row["lastOffset"],
            records=row["records"],
            certainty=Certainty(row["certainty"]),
            because=tuple(row["because"]),
            replicas=tuple(str(name_of(one)) for one in row["elsewhere"]),
        )


def name_of(value: object) -> str | None:
    """Return a name as a row has it."""
    if isinstance(value, dict):
        return os.fsdecode(base64.b64decode(value["base64"]))
    return None if value is None else str(value)


def lines_of(path: str) -> Iterator[str]:
    """Yield the lines of a file of rows."""
    with open(path, encoding="ascii") as file:  # noqa: PTH123 (what the user wrote stays as it is)
        for line in file:
            yield line.rstrip("\n")
