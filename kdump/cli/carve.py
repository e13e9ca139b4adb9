"""`kdump carve`."""

from __future__ import annotations

import os
import sys
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from kdump.cli.options.common import (
    fail_on_option,
    format_option,
    help_option,
    jobs_option,
    max_uncompressed_bytes_option,
    quiet_option,
)
from kdump.cli.options.help import Command, option
from kdump.cli.options.terminal import bar_of, color_option, fitter_of_stdout
from kdump.cli.show import show
from kdump.exit_status import Exit, RunStatus
from kdump.render.commentary import say, write
from kdump.storage.file_source import OpenFailure
from kdump.storage.paths import did_you_mean
from kdump.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.cli.show import Sink


@click.command(
    "carve",
    cls=Command,
    usual=("--to", "--like", "--min-batches", "--format", "-j"),
    add_help_option=False,
    examples=(
        "kdump carve /dev/sdb1 --to runs",
        "kdump carve disk.img --to runs --like /data --min-batches 2",
    ),
)
@click.argument("images", nargs=-1, required=True, metavar="IMAGE...")
@option("--to", group="What is done", required=True, metavar="DIR", help="A new directory for the runs; in no log.dir.")
@option(
    "--like",
    group="Input",
    multiple=True,
    metavar="LOGDIR",
    help="The partition of this log.dir that a run belongs to; repeatable.",
)
@option(
    "--min-batches",
    group="Input",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Leave out runs with fewer batches.",
)
@format_option
@quiet_option
@color_option
@jobs_option
@max_uncompressed_bytes_option
@fail_on_option
@help_option
def command(**given: Any) -> None:  # noqa: ANN401 (click hands over what the options above say)
    """Find all whole batches in images of disks, block devices, cores, or files of any kind.

    Each run of batches that follow each other becomes a file run-NNNNN-OFFSET.log in DIR, and DIR/carve.jsonl says what
    they are; `kdump salvage DIR --to ...` makes a partition from these. An IMAGE is only read.
    """
    from kdump.rescue.carve import CarveOptions, carve
    from kdump.rows.carved import CarvedRun
    from kdump.rows.json_lines import row_json
    from kdump.storage.refusal import RefusedError

    outcome = RunStatus(given["fail_on"], compat=False)
    bar = bar_of("carve", quiet=given["quiet"])
    to = os.fspath(given["to"])
    options = CarveOptions(
        to, tuple(given["like"]), given["min_batches"], given["max_uncompressed_bytes"], bar is not None, given["jobs"]
    )
    standing = [f"nothing is left in {to} but whole runs"]
    missing = [
        OpenFailure(path, "missing", f"no such file: {path}{did_you_mean(path)}")
        for path in given["like"]
        if not os.path.lexists(path)
    ]
    carved = carve(list(given["images"]), options, lambda one: f"{row_json(one)}\n")
    runs = _carved(chain(missing, carved), to, standing)
    try:
        show(runs, _sink(given["layout"], to), outcome, bar, standing=standing, counts=CarvedRun)
    except RefusedError as error:
        say(f"kdump: {error}")
        sys.exit(Exit.REFUSED)
    except _CarveError as error:
        say(f"kdump: {error}")
        sys.exit(Exit.FAILED)
    sys.exit(outcome.exit)


class _CarveError(Exception):
    """Runs cannot be written."""


def _carved(items: Iterator[Any], to: str, standing: list[str]) -> Iterator[Any]:
    """Yield items; an error of theirs is known from one of stdout by that.

    Args:
        items: of carve.
        to: the directory of the runs.
        standing: what is there now; replaced once all runs are there.

    Raises:
        _CarveError: a run cannot be written.
    """
    try:
        yield from items
    except OSError as error:
        raise _CarveError(f"{error.filename or to}: {error.strerror}; {standing[0]}") from error
    standing[:] = [f"all runs are in {to}, and whole"]


def _sink(layout: str, to: str) -> Sink:
    tally = Tally()
    if layout != "text":
        from kdump.render.row_lines import RowLines
        from kdump.rows.layout import LAYOUTS

        return RowLines(write, say, tally, layout=LAYOUTS[layout])
    from kdump.render.text.carve import CarveText

    fit = fitter_of_stdout()
    is_seen = sys.stderr is not None and sys.stderr.isatty()
    return CarveText(lambda text: write(fit(text)), say, tally, to, is_seen=is_seen)
