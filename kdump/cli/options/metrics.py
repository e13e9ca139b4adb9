"""The option of commands that leave figures for monitoring."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kdump.cli.options.engine import demand_outside, fail, refuse
from kdump.cli.options.help import option
from kdump.storage.paths import is_remote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kdump.metrics import RunFigures

metrics_option = option(
    "--metrics",
    group="What is done",
    metavar="FILE",
    help="At the end write figures for Prometheus to FILE, whole or not at all.",
)


def figures_of(
    given: dict[str, Any], paths: Sequence[str], verb: str, table: str | None = None, *, replicas: bool = False
) -> RunFigures | None:
    """Return what counts for --metrics; None without it. Ends with one line where the file could not be written.

    Args:
        given: the values of the options.
        paths: that are read.
        verb: verify, scrub or export.
        table: of an export.
        replicas: the paths are replicas of each other.
    """
    path = given["metrics"]
    if path is None:
        return None
    if is_remote(path) or os.path.isdir(path) or not os.path.isdir(os.path.dirname(path) or os.curdir):
        refuse(f"--metrics {path}: name a file in a directory that is there")
    demand_outside(path, paths, "--metrics")
    from kdump.metrics import RunFigures  # few runs are watched

    return RunFigures(verb, table, replicas=replicas)


def write_figures(figures: RunFigures | None, given: dict[str, Any], exit_status: int) -> None:
    """Write the file of --metrics; ends with one line where that fails.

    Args:
        figures: of the run; None where none are asked for.
        given: the values of the options.
        exit_status: of the run.
    """
    if figures is None:
        return
    from kdump.metrics import write_whole

    try:
        write_whole(given["metrics"], figures.text(exit_status))
    except OSError as error:
        fail(f"{given['metrics']}: cannot be written: {error.strerror}")
