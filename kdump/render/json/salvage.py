"""What salvage has kept and what not, as JSON lines: in the file beside a partition, and on stdout."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kdump.rows.json_lines import line, name

if TYPE_CHECKING:
    from collections.abc import Iterable


def former_json(text: str, changed: Iterable[str]) -> str:
    """Return the line of what a partition came to in a former run, and that it was one.

    Args:
        text: the line, as it was written then.
        changed: the logs and directories of the sources that changed since.
    """
    row = {**json.loads(text), "keptFromFormerRun": True, "changedSince": [name(one) for one in changed]}
    return line(str(row.pop("type")), row)
