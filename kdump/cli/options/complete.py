"""Values that a shell offers on Tab: partitions and topics of the directories in the line, codes and keys."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import click

_PATHS = ("path", "paths", "sources")


def partitions(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of partition directories (orders-0) in the log directories that the line has so far."""
    return sorted({f"{topic}-{number}" for topic, number in _found(ctx) if f"{topic}-{number}".startswith(incomplete)})


def topics(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the topics that have a partition directory there."""
    return sorted({topic for topic, _ in _found(ctx) if topic.startswith(incomplete)})


def manual_names(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the codes and names of findings and the JSON keys that the manual explains."""
    from kdump.render.text.manual import known_names

    start = incomplete.casefold()
    return [name for name in known_names() if name.casefold().startswith(start)]


def _found(ctx: click.Context) -> Iterator[tuple[str, int]]:
    """Yield topic and number of each partition directory below the paths; what cannot be listed has none."""
    from kdump.storage.names import parse_partition

    # Behind an option whose value is being typed click has left the arguments as they are.
    given = next((ctx.params[name] for name in _PATHS if ctx.params.get(name)), tuple(ctx.args))
    for path in (given,) if isinstance(given, str) else given:
        try:
            with os.scandir(path) as entries:
                names = [entry.name for entry in entries if entry.is_dir()]
        except OSError:
            continue
        for name in names:
            found = parse_partition(name)
            if found is not None and not found.state:
                yield found.topic, found.partition
