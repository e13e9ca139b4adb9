"""`kdump verify`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from kdump.checks.options import VerifyOptions
from kdump.cli.options.common import (
    fail_on_option,
    help_option,
    jobs_option,
    max_batch_bytes_option,
    max_uncompressed_bytes_option,
    notes_option,
    raw_option,
)
from kdump.cli.options.engine import demand_arrow, demand_outside, engine_options, fail, refuse, roots_of, session
from kdump.cli.options.help import Command
from kdump.cli.options.redact import redact_options, redactor_of
from kdump.cli.options.terminal import bar_of, color_option, console_of
from kdump.exit_status import RunStatus
from kdump.item import Checked, Progress
from kdump.render.commentary import fail_to_write, say
from kdump.render.tally import Tally
from kdump.spark.errors import SparkFailedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Protocol

    from pyspark.sql import SparkSession

    from kdump.checks.replicas import LocalReplicas
    from kdump.export.verdict_files import LogDirRow
    from kdump.item import Item
    from kdump.render.redact import Redactor
    from kdump.render.terminal.progress import Bar

    class Sink(Protocol):
        """Writes items."""

        def __call__(self, item: Item) -> None:
            """Write one item."""

        def end(self, code: int, /) -> None:
            """Write what the exit status and the totals are."""

    from collections.abc import Sequence

    from kdump.export.origin import Root
    from kdump.export.verdict_files import Summary

_TABLES = ("findings", "segments", "losses")


@click.command(
    "verify",
    cls=Command,
    add_help_option=False,
    examples=(
        "kdump verify /data",
        "kdump verify /data/orders-0 --start all",
        "kdump verify /data --format json --fail-on warning -j 0",
    ),
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--shallow", is_flag=True, help="Do not read the records: batches, their CRCs and the indexes only.")
@click.option("--no-resync", is_flag=True, help="After damage, do not search for the next intact batch.")
@click.option("--contiguous", is_flag=True, help="Missing offsets are warnings: no compaction explains them here.")
@click.option(
    "--start",
    type=click.Choice(["clean", "unclean", "full", "all"]),
    help="Say what a broker will do at its next start, after a clean or an unclean shutdown.",
)
@click.option(
    "--index-interval-bytes",
    type=click.IntRange(0, 2**31 - 1),
    metavar="N",
    help="index.interval.bytes of the topics, for --start.  [default: what the indexes tell]",
)
@click.option("--config", metavar="FILE", help="Configuration of the broker or a topic, for --start: Java properties.")
@click.option("--now", metavar="TIME", help="The broker's clock, for --start: 2026-11-21, now+2d.  [default: now]")
@jobs_option
@click.option("--replicas", is_flag=True, help="The paths are replicas of each other: compare them as well.")
@click.option(
    "--format", "layout", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Layout."
)
@engine_options
@click.option("--out", metavar="DIR", help="Also write findings, segments and a summary as Parquet.")
@click.option("--no-fold", is_flag=True, help="Show all findings, however many are alike.")
@click.option("--quiet", is_flag=True, help="Show errors only, and nothing at all when there are none.")
@notes_option
@color_option
@redact_options
@raw_option
@max_batch_bytes_option
@max_uncompressed_bytes_option
@fail_on_option
@help_option
def command(**given: Any) -> None:  # noqa: ANN401 (click hands over what the options above say)
    """Check files of a broker for damage: what is wrong, where, since which offset, and what to do.

    PATH is a partition directory, a log.dir or a file. Nothing is ever created, changed or locked, and a broker may run
    meanwhile. The verdicts go to stdout; see man kdump-findings for the codes. Exit status: 0 no error found, 3 errors
    found, 5 something could not be read, 6 both, 10 no such file, 2 wrong use.
    """
    named = [os.fspath(path) for path in given["paths"]]
    roots = roots_of(named)
    paths = named if roots is None else [root.path for root in roots]
    redactor = redactor_of(given, paths)
    spark = session(given, paths)
    outcome = RunStatus(given["fail_on"], compat=False)
    bar = bar_of("verify", quiet=given["quiet"])
    options = VerifyOptions(
        deep=not given["shallow"],
        resync=not given["no_resync"],
        contiguous=given["contiguous"],
        jobs=given["jobs"],
        progress=bar is not None,
        max_batch_bytes=given["max_batch_bytes"],
        max_uncompressed_bytes=given["max_uncompressed_bytes"],
        **_predictions(given),
    )
    items = _items(paths, options, spark, replicas=given["replicas"])
    disks: list[LogDirRow] = []
    if spark is not None or given["out"] is not None:
        items = _with_tables(items, named, roots, given["out"], disks, redactor)
    sink = _sink(paths if redactor is None else [redactor.path(path) for path in paths], given, outcome, bar)
    if redactor is not None:
        sink = redactor.before(sink)
    try:
        _run(items, sink, outcome, bar)
    except OSError as error:  # what is read has its own findings: this is where the text goes
        fail_to_write(error)
    except SparkFailedError as error:
        if bar is not None:
            bar.hide()
        fail(str(error))
    if spark is not None and not given["quiet"] and given["layout"] == "text":
        for disk in disks:
            say(f"kdump: {disk.sentence}")
    sys.exit(outcome.exit)


def _predictions(given: dict[str, Any]) -> dict[str, Any]:
    """The options about the next start of a broker, as fields; one without --start is a usage error."""
    if given["start"] is None:
        for option in ("index_interval_bytes", "config", "now"):
            if given[option] is not None:
                raise click.UsageError(f"--{option.replace('_', '-')} has a meaning with --start only.")
        return {}
    from kdump.broker.load.facts import Start
    from kdump.cli.options.broker import settings

    starts = tuple(Start) if given["start"] == "all" else (Start(given["start"]),)
    return {"starts": starts, "settings": settings(given)}


def _run(items: Iterator[Item], sink: Sink, outcome: RunStatus, bar: Bar | None) -> None:
    """Hand every item to where it is shown."""
    for item in items:
        if isinstance(item, Progress):
            if bar is not None:
                bar.show(item)
            continue
        outcome.see(item)
        sink(item)
        if isinstance(item, Checked):
            sys.stdout.flush()  # who waits sees how far it is; and a process forked now would write it once more
    if bar is not None:
        bar.hide()
    sink.end(outcome.exit)
    sys.stdout.flush()


def _items(paths: list[str], options: VerifyOptions, spark: SparkSession | None, *, replicas: bool) -> Iterator[Item]:
    more: tuple[LocalReplicas, ...] = ()
    if spark is not None:
        from kdump.spark.jobs import VerifyEngine

        more = (VerifyEngine(spark),)
    if replicas:
        from kdump.checks.replicas import compare

        return compare(paths, options, *more)
    from kdump.checks.run import verify

    return verify(paths, options, *more)


def _sink(paths: list[str], given: dict[str, Any], outcome: RunStatus, bar: Bar | None) -> Sink:
    tally = Tally(shallow=given["shallow"])
    wanted = outcome.matters if given["quiet"] else None
    error = _error(bar)
    if given["layout"] == "json":
        from kdump.render.json.verify import VerifyJson

        return VerifyJson(_write, error, tally, wanted=wanted)
    console = console_of(given)
    if console is None:
        from kdump.render.text.verify import VerifyText

        notes = given["notes"] is not False
        return VerifyText(_write, error, tally, fold=not given["no_fold"], wanted=wanted, notes=notes)
    from kdump.render.terminal.verify import VerifyTable

    return VerifyTable(
        console,
        error,
        tally,
        paths,
        fold=not given["no_fold"],
        wanted=wanted,
        notes=given["no_fold"] if given["notes"] is None else given["notes"],
        raw=given["raw"],
        before=bar.hide if bar is not None else lambda: None,
    )


def _write(text: str) -> None:
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))


def _error(bar: Bar | None) -> Callable[[str], None]:
    def error(line: str) -> None:
        if bar is not None:
            bar.hide()
        say(line)

    return error


def _with_tables(
    items: Iterator[Item],
    named: Sequence[str],
    roots: Sequence[Root] | None,
    out: str | None,
    disks: list[LogDirRow],
    redactor: Redactor | None,
) -> Iterator[Item]:
    """Return items that are counted as they go by, and written as tables.

    Args:
        items: of verify.
        named: the paths as the user wrote them.
        roots: what they stand for; None where no manifest is among them.
        out: directory of the tables; None for no tables.
        disks: takes what each log directory comes to, at the end.
        redactor: hides what the tables have; None where all may be seen.
    """
    demand_arrow()
    from kdump.export.job import ExportTarget, NotThisExportError
    from kdump.export.origin import Origins, read_roots
    from kdump.export.tables import columns_of
    from kdump.export.verdict_files import Summary, VerdictFiles

    roots = read_roots(named) if roots is None else roots
    origins = Origins(roots)
    summary = Summary(origins, redactor)
    items = summary.through(items)
    if out is not None:
        demand_outside(out, [root.path for root in roots], "--out")
        try:
            for table in _TABLES:
                target = ExportTarget(os.path.join(out, table), "parquet", table, columns_of(table), redactor)
                items = VerdictFiles(target, origins, {"verify": table}).through(items)
        except NotThisExportError as error:
            refuse(str(error))
        except OSError as error:
            fail(f"{error.filename}: {error.strerror}")
    return _summed(items, summary, out, disks)


def _summed(items: Iterator[Item], summary: Summary, out: str | None, disks: list[LogDirRow]) -> Iterator[Item]:
    yield from items
    disks.extend(summary.disks())
    if out is not None:
        summary.write(os.path.join(out, "summary"))
