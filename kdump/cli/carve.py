"""`kdump carve`."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any, ParamSpec

import click

from kdump.cli.options.common import (
    fail_on_option,
    format_option,
    help_option,
    jobs_option,
    max_uncompressed_bytes_option,
)
from kdump.cli.options.help import Command, option
from kdump.cli.options.terminal import bar_of, fitter_of_stdout
from kdump.exit_status import Exit, RunStatus
from kdump.item import Progress
from kdump.render.commentary import fail_to_write, say
from kdump.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.render.json.carve import CarveJson
    from kdump.render.text.carve import CarveText

P = ParamSpec("P")


@click.command(
    "carve",
    cls=Command,
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
    help="Say which partition of this log.dir a run belongs to; repeatable.",
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
@jobs_option
@max_uncompressed_bytes_option
@fail_on_option
@help_option
def command(**given: Any) -> None:  # noqa: ANN401 (click hands over what the options above say)
    """Find all whole batches in images of disks, block devices, cores, or files of any kind.

    Each run of batches that follow each other becomes a file run-NNNNN-OFFSET.log in DIR, and DIR/carve.jsonl says what
    they are; `kdump salvage DIR --to ...` makes a partition of them. An IMAGE is only read. Exit status: 0 done, found
    or not, 5 something could not be read, 10 no such image, 12 DIR refused, 13 writing failed, 2 wrong use.
    """
    from kdump.rescue.carve import CarveOptions, carve
    from kdump.rows.json_lines import row_json
    from kdump.storage.refusal import RefusedError

    tally = Tally()
    outcome = RunStatus(given["fail_on"], compat=False)
    bar = bar_of("carve")
    to = os.fspath(given["to"])
    options = CarveOptions(
        to, tuple(given["like"]), given["min_batches"], given["max_uncompressed_bytes"], bar is not None, given["jobs"]
    )
    sink = _sink(given["layout"], tally, to)
    left = f"nothing is left in {to} but whole runs"
    try:
        with closing(carve(list(given["images"]), options, lambda one: f"{row_json(one)}\n")) as items:
            for item in items:
                if isinstance(item, Progress):
                    if bar is not None:
                        bar.show(item)
                    continue
                if bar is not None:
                    bar.hide()
                outcome.see(item)
                sink(item)
        left = f"all runs are in {to}, and whole"
        if bar is not None:
            bar.hide()
        sink.end(outcome.exit)
        _told(sys.stdout.flush)()
    except RefusedError as error:
        say(f"kdump: {error}")
        sys.exit(Exit.REFUSED)
    except _UntoldError as error:
        fail_to_write(error.why, left)
    except OSError as error:
        say(f"kdump: {error.filename or to}: {error.strerror}; {left}")
        sys.exit(Exit.FAILED)
    sys.exit(outcome.exit)


def _sink(layout: str, tally: Tally, to: str) -> CarveJson | CarveText:
    if layout == "json":
        from kdump.render.json.carve import CarveJson

        return CarveJson(_told(sys.stdout.write), _told(say), tally)
    from kdump.render.text.carve import CarveText

    fit = fitter_of_stdout()
    return CarveText(
        _told(lambda text: sys.stdout.write(fit(text))),
        _told(say),
        tally,
        to,
        is_seen=sys.stderr is not None and sys.stderr.isatty(),
    )


class _UntoldError(Exception):
    """What was found cannot be told; `why` is the error of the write."""

    def __init__(self, why: OSError) -> None:
        super().__init__(why)
        self.why = why


def _told(tell: Callable[P, object]) -> Callable[P, None]:
    """Let the errors of stdout be known from those of the runs."""

    def telling(*args: P.args, **named: P.kwargs) -> None:
        try:
            tell(*args, **named)
        except OSError as error:
            raise _UntoldError(error) from error

    return telling
