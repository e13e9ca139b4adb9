"""`kdump verify`."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any, NoReturn

import click

from kdump import __version__
from kdump.checks.options import VerifyOptions
from kdump.cli.options.common import (
    broker_option,
    config_option,
    help_option,
    jobs_option,
    max_batch_bytes_option,
    max_uncompressed_bytes_option,
    notes_option,
    raw_option,
    settings_option,
)
from kdump.cli.options.engine import demand_arrow, demand_outside, engine_options, fail, refuse, session
from kdump.cli.options.guest import duration, guest_options, throttle_reads
from kdump.cli.options.help import Command, option
from kdump.cli.options.inputs import only_node
from kdump.cli.options.metrics import figures_of, metrics_option, write_figures
from kdump.cli.options.nights import (
    below_host,
    demand_update,
    host_option,
    nights_options,
    open_night,
    say_night,
    without_host,
)
from kdump.cli.options.partitions import partition_options, selected_roots
from kdump.cli.options.redact import redact_options, redactor_of
from kdump.cli.options.store import into_store
from kdump.cli.options.terminal import bar_of, color_option, paper_of
from kdump.cli.show import show
from kdump.exit_status import Exit, RunStatus
from kdump.format.java_values import MAX_INT
from kdump.format.read_limits import MAX_BATCH_BYTES, MAX_UNCOMPRESSED_BYTES
from kdump.item import PartitionChecked, Scrubbed
from kdump.render.commentary import say, write
from kdump.rows.steps import Step
from kdump.spark.errors import SparkFailedError
from kdump.storage.file_source import CannotKeepCacheError
from kdump.storage.paths import absolute, base_name, is_remote
from kdump.storage.refusal import RefusedError
from kdump.tally import Tally
from kdump.verdict_status import LOSS, VerdictStatus, status_of
from kdump.words.command import command_line, with_paths
from kdump.words.command import named as as_argument
from kdump.words.escape import escape
from kdump.words.numbers import counted, size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from kdump.checks.kept_segments import KeptSegments
    from kdump.checks.known import KnownLosses
    from kdump.checks.replicas import LocalReplicas
    from kdump.checks.scrub import LocalScrub
    from kdump.cli.show import Sink
    from kdump.export.nights import Night
    from kdump.export.origin import Root
    from kdump.export.tables import TableField
    from kdump.export.verdict_files import LogDirRow, Summary
    from kdump.item import Item
    from kdump.metrics import RunFigures
    from kdump.redact import Redactor
    from kdump.render.html.sections import ReportOrigin
    from kdump.render.progress import Bar

_TABLES = ("findings", "segments", "losses")


@click.command(
    "verify",
    cls=Command,
    usual=("--topic", "--start", "--replicas", "--known", "--fail-on", "--format", "--notes"),
    add_help_option=False,
    examples=(
        "kdump verify /data",
        "kdump verify /data/orders-0 --start all",
        "kdump verify /data --format json --fail-on warning -j 0",
    ),
)
@click.argument("paths", nargs=-1, metavar="PATH...")
@option(
    "--shallow",
    group="What is checked",
    is_flag=True,
    help="Do not read the records: batches, their CRCs and the indexes only.",
)
@option(
    "--no-resync", group="What is checked", is_flag=True, help="After damage, do not search for the next intact batch."
)
@option(
    "--contiguous",
    group="What is checked",
    is_flag=True,
    help="Missing offsets are warnings: no compaction explains them here.",
)
@option(
    "--start",
    group="What is checked",
    type=click.Choice(["auto", "clean", "unclean", "full", "all"]),
    help="Show what a broker will do at its next start; auto: after the shutdown that there was.",
)
@partition_options
@option("--replicas", group="Input", is_flag=True, help="The paths are replicas of each other: compare them as well.")
@option(
    "--known",
    group="Input",
    metavar="FILE",
    multiple=True,
    help="Rows of an earlier run, or of salvage (.jsonl): what they call lost is listed, and does not count.",
)
@option(
    "--scrub",
    group="What is checked",
    metavar="FILE",
    help="Read the logs of closed segments, those longest unread first, and compare their bytes with "
    "the ledger in FILE.",
)
@option(
    "--accept",
    group="Input",
    metavar="PATH",
    multiple=True,
    help="With --scrub: the bytes of this segment are right as they are, if verify finds it clean.",
)
@option(
    "--for",
    "seconds",
    group="What is checked",
    callback=duration,
    metavar="DURATION",
    help="With --scrub: end after this time (90s, 5m, 2h); the next run goes on there.",
)
@guest_options
@option(
    "--index-interval-bytes",
    group="What is checked",
    type=click.IntRange(0, MAX_INT),
    metavar="N",
    help="index.interval.bytes of the topics, for --start.  [default: what the indexes tell]",
)
@broker_option
@config_option
@settings_option
@option(
    "--now",
    group="The broker",
    metavar="TIME",
    help="The clock, for --start and the report: 2026-11-21, now+2d.  [default: now]",
)
@jobs_option
@engine_options
@option(
    "--to",
    group="What is done",
    old=("--out",),
    metavar="DIR",
    help="Also write findings, segments and a summary as Parquet.",
)
@nights_options
@host_option
@metrics_option
@notes_option
@option("--no-fold", group="What is shown", is_flag=True, help="Show all findings, however many are alike.")
@option(
    "--quiet", group="What is shown", is_flag=True, help="Show errors only, and nothing at all when there are none."
)
@option(
    "--format",
    "layout",
    group="What is shown",
    type=click.Choice(["text", "lines", "json", "html"]),
    default="text",
    show_default=True,
    help="Text, lines of one fact each, JSON, or an HTML report.",
)
@color_option
@raw_option
@option("--with-host", group="What is shown", is_flag=True, help="With --format html: say on which host it was made.")
@redact_options
@max_batch_bytes_option
@max_uncompressed_bytes_option
@option(
    "--fail-on",
    group="What is shown",
    type=click.Choice(["error", "warning", "loss", "never"]),
    default="error",
    show_default=True,
    help="What makes the exit status 3 or 4; loss: only what the next start would discard or hide.",
)
@help_option
def command(**given: Any) -> None:  # noqa: ANN401 (click hands over what the options above say)
    """Check files of a broker for damage: what is wrong, where, since which offset, and what to do.

    PATH is a partition directory, a log.dir, a file, or a broker's server.properties. Nothing is ever created, changed
    or locked, and a broker may run meanwhile. The verdicts go to stdout; kdump explain CODE tells of a code.
    """
    if not given["paths"] and not given["accept"]:
        _say_what_is_here()
    named = [os.fspath(path) for path in given["paths"]]
    if given["with_host"] and given["layout"] != "html":
        raise click.UsageError("--with-host has a meaning with --format html only.")
    demand_update(given)
    if given["update"] and given["to"] is None:
        raise click.UsageError("--update has a meaning with --to only.")
    if given["scrub"] is not None:
        _demand_scrub(given, named)
    elif given["accept"] or given["seconds"] is not None:
        raise click.UsageError(f"--{'accept' if given['accept'] else 'for'} has a meaning with --scrub only.")
    try:
        throttle_reads(given, always=given["scrub"] is not None)
        outcome = _scrub(given, named) if given["scrub"] is not None else _verify(given, named)
    except (CannotKeepCacheError, RefusedError) as error:
        say(f"kdump: {error}")
        sys.exit(Exit.REFUSED)
    except OSError as error:
        if not given["update"] or error.filename is None:
            raise
        fail(f"{error.filename}: {error.strerror}")
    sys.exit(outcome.exit)


def _say_what_is_here() -> NoReturn:
    """End as after wrong use, with what of a broker is on this host, and the command to type."""
    from kdump.storage.this_host import brokers_here

    found = brokers_here()
    if not found:
        hint = "no broker runs on this host, and none has anything in the usual places"
        raise click.UsageError(
            f"Missing argument 'PATH...': a log directory, or the server.properties of a broker; {hint}"
        )
    say("kdump: verify needs a PATH; on this host there are:")
    for one in found:
        of = f" of process {one.process}" if one.process is not None else ""
        what = "a log directory" if not one.directories else f"the configuration{of}: {', '.join(one.directories)}"
        say(f"  {escape(one.path)}: {escape(what)}")
    say(f"kdump: {with_paths('verify', [found[0].path])}")
    sys.exit(Exit.USAGE)


def _verify(given: dict[str, Any], named: Sequence[str]) -> RunStatus:
    if given["fail_on"] == LOSS:
        _demand_gate(given)
    predictions = _predictions(given)
    known = _known(given["known"])
    named, roots = selected_roots(given, named)
    given["to"] = below_host(given, given["to"], roots)
    with into_store(given, "to"):
        return _verified(given, named, roots, predictions, known)


def _verified(
    given: dict[str, Any],
    named: Sequence[str],
    roots: Sequence[Root] | None,
    predictions: dict[str, Any],
    known: KnownLosses | None,
) -> RunStatus:
    """Verify; `named`, `roots`: the paths as the user wrote them, and what they stand for."""
    began = time.monotonic()
    paths = named if roots is None else [root.path for root in roots]
    redactor = redactor_of(given, paths)
    origin = _origin(named, given, predictions, redactor) if given["layout"] == "html" else None
    is_gate = given["fail_on"] == LOSS  # it reads too little for many machines to share
    spark = None if is_gate else session(given, paths)
    outcome = status_of(given["fail_on"])
    figures = figures_of(given, paths, "verify", replicas=given["replicas"])
    bar = bar_of("verify", quiet=given["quiet"])
    from kdump.cli.options.broker import topic_policies

    options = VerifyOptions(
        deep=not given["shallow"],
        resync=not given["no_resync"],
        contiguous=given["contiguous"],
        jobs=given["jobs"],
        progress=bar is not None,
        max_batch_bytes=given["max_batch_bytes"],
        max_uncompressed_bytes=given["max_uncompressed_bytes"],
        policies=topic_policies(given, paths),
        of_hosts=roots is not None and any(root.host is not None for root in roots),
        only_starts=is_gate,
        node=None if given["topics"] or given["topic_partitions"] else only_node(),
        **predictions,
    )
    disks: list[LogDirRow] = []
    night = _night(given, paths) if given["update"] else None
    kept = None if night is None else _kept(night, options)
    items = _items(paths, options, spark, replicas=given["replicas"], kept=kept)
    if spark is not None or given["to"] is not None:
        demand_arrow()
        from kdump.export.tables import SUMMARY_TABLE, columns_of

        out = None if night is not None else given["to"]
        columns = {table: without_host(columns_of(table), given) for table in (*_TABLES, SUMMARY_TABLE)}
        items = _with_tables(items, named, roots, out, columns, disks=disks, redactor=redactor, night=night)
    if known is not None:
        items = known.through(items)
    if figures is not None:
        items = figures.through(items)
    copies = _Copies()
    sink = _sink(_as_shown(paths, redactor), given, outcome, bar, origin, _hosts_of(roots, redactor))
    try:
        show(copies.through(items), sink, outcome, bar, redactor, hides_bar=False)
    except SparkFailedError as error:
        fail(str(error))
    if night is not None and kept is not None:
        _end_night(night, kept, figures, outcome.exit)
    write_figures(figures, given, outcome.exit)
    hint = "" if given["replicas"] or redactor is not None else copies.hint(paths)
    if hint and not given["quiet"] and given["layout"] == "text":
        say(f"kdump: {hint}")
    if spark is not None and not given["quiet"] and given["layout"] == "text":
        for disk in disks:
            say(f"kdump: {disk.sentence}")
        _say_fleet(disks, time.monotonic() - began)
    elif bar is not None and sys.stdout.isatty():
        _say_pace(copies.size, time.monotonic() - began)
    return outcome


def _night(given: dict[str, Any], paths: Sequence[str]) -> Night:
    """Return the store of --to, held by this run."""
    demand_arrow()
    demand_outside(given["to"], paths, "--to")
    names = ("shallow", "no_resync", "contiguous", "replicas", "max_batch_bytes", "max_uncompressed_bytes")
    asked: dict[str, object] = {"verb": "verify", "paths": [absolute(path) for path in paths]}
    return open_night(given["to"], {**asked, **{name: given[name] for name in names}}, given)


def _kept(night: Night, options: VerifyOptions) -> KeptSegments:
    """Return what segments showed in the nights before."""
    from kdump.checks.kept_segments import KeptSegments

    return KeptSegments(night.store, options)


def _end_night(night: Night, kept: KeptSegments, figures: RunFigures | None, code: int) -> None:
    """Let what was written be the present state."""
    night.files, night.size = kept.files, kept.size
    night.end(code)
    say_night(night)
    if figures is not None:
        figures.read = night.size


def _demand_gate(given: dict[str, Any]) -> None:
    """Complete what is asked of a gate; end with a usage error where that is more than a start reads."""
    if given["start"] is None:
        given["start"] = "auto"
    if given["layout"] == "html":
        raise click.UsageError("--fail-on loss checks nothing that a report could show: it has text, lines or json.")
    for field in ("replicas", "to", "contiguous"):
        if given[field]:
            what = "--fail-on loss reads no more than the start that is coming"
            raise click.UsageError(f"{what}: --{field} takes a run of its own.")


def _known(paths: Sequence[str]) -> KnownLosses | None:
    """Return what is known of losses; None where nobody says."""
    if not paths:
        return None
    from kdump.checks.known import KnownError, KnownLosses

    try:
        return KnownLosses(paths)
    except KnownError as error:
        raise click.UsageError(f"--known {escape(str(error))}.") from None


class _Copies:
    """Watches for a damaged partition that several of the paths have: what one has lost another may have."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}  # in how many directories a partition is
        self._damaged: set[str] = set()
        self.size = 0  # bytes of all logs

    def through(self, items: Iterator[Item]) -> Iterator[Item]:
        """Yield items."""
        for item in items:
            if isinstance(item, PartitionChecked):
                name = base_name(item.path)
                self.size += item.size
                self._places[name] = self._places.get(name, 0) + 1
            elif isinstance(item, Step):
                self._damaged.update(map(base_name, item.partitions))
            yield item

    def hint(self, paths: Sequence[str]) -> str:
        """Return what to ask next; empty where no damaged partition has several copies."""
        names = sorted(name for name in self._damaged if self._places.get(name, 0) > 1)
        if not names:
            return ""
        command = with_paths("verify", paths, "--replicas")
        which = f"{escape(names[0])} is" if len(names) == 1 else f"{len(names)} damaged partitions are"
        return f"{which} in several of these directories: {command} tells which copy has what another has lost"


def _say_fleet(disks: Sequence[LogDirRow], seconds: float) -> None:
    """Say what was read, and how long the whole run took, the start of Spark included."""
    hosts = len({disk.host for disk in disks if disk.host})
    of = f" of {counted(hosts, 'host')}" if hosts else ""
    where = f"{counted(len(disks), 'log directory', 'log directories')}{of}"
    say(f"kdump: verify on Spark took {seconds:.1f} s: {where}")


def _say_pace(done: int, seconds: float) -> None:
    """Say to who looked on how long it took, and how fast it was: the answer is the same for every run."""
    if done and seconds >= 0.5:  # below, it says nothing
        say(f"kdump: it took {seconds:.1f} s ({size(int(done / seconds))}/s)")


_NOT_OF_SCRUB = (
    "known",
    "shallow",
    "contiguous",
    "start",
    "index_interval_bytes",
    "config",
    "settings",
    "now",
    "replicas",
    "to",
    "host",
    "topics",
    "topic_partitions",
)


def _demand_scrub(given: dict[str, Any], paths: list[str]) -> None:
    """End with a usage error where something is asked for that a scrub does not do."""
    for field in _NOT_OF_SCRUB:
        if given[field] and (field, given["layout"]) != ("now", "html"):
            name = {"settings": "set", "topics": "topic", "topic_partitions": "topic-partition"}.get(field, field)
            name = name.replace("_", "-")
            raise click.UsageError(f"--{name} is not for --scrub, which reads the logs of closed segments only.")
    if given["fail_on"] == LOSS:
        raise click.UsageError("--fail-on loss is not for --scrub, which predicts no start.")
    for path in (given["scrub"], *paths, *given["accept"]):
        if is_remote(path):
            raise click.UsageError(f"--scrub is for files of this machine: {path}")
    if not given["scrub"]:
        raise click.BadParameter("is empty: name a file", param_hint="--scrub")


def _scrub(given: dict[str, Any], paths: list[str]) -> RunStatus:
    from kdump.checks.ledger import LedgerError
    from kdump.checks.scrub import ScrubOptions, scrub

    outcome = VerdictStatus(given["fail_on"], compat=False)
    bar = bar_of("verify", quiet=given["quiet"])
    options = ScrubOptions(
        given["scrub"],
        tuple(given["accept"]),
        given["seconds"],
        given["jobs"],
        progress=bar is not None,
        resync=not given["no_resync"],
        max_batch_bytes=given["max_batch_bytes"],
    )
    told: list[Scrubbed] = []
    redactor = redactor_of(given, [*paths, *options.accept])
    spark = session(given, paths)
    more: tuple[LocalScrub, ...] = ()
    if spark is not None:
        from kdump.spark.jobs import ScrubEngine

        more = (ScrubEngine(spark),)
    origin = _origin(paths, given, {}, redactor) if given["layout"] == "html" else None
    figures = figures_of(given, [*paths, *options.accept], "scrub")
    items = scrub(paths, options, *more)
    if figures is not None:
        items = figures.through(items)
    sink = _sink(_as_shown(paths, redactor), given, outcome, bar, origin)
    try:
        show(_noting(items, told), sink, outcome, bar, redactor, hides_bar=False)
    except SparkFailedError as error:
        fail(str(error))
    except LedgerError as error:
        say(f"kdump: {error}")
        sys.exit(Exit.LOCKED if error.is_locked else Exit.REFUSED if error.is_refused else Exit.FAILED)
    write_figures(figures, given, outcome.exit)
    if told and told[0].left and not given["quiet"]:
        left = counted(told[0].left, "segment")
        say(f"kdump: {left} not reached in the time of --for: the next run begins there")
    if told and told[0].active and not given["quiet"]:
        one = told[0].active == 1
        what = f"{counted(told[0].active, 'active segment')} {'was' if one else 'were'} not read"
        whose = "it" if one else "them"
        say(f"kdump: {what}: a broker still writes to {whose}; kdump verify without --scrub reads {whose} too")
    return outcome


def _noting(items: Iterator[Item], told: list[Scrubbed]) -> Iterator[Item]:
    """Yield items, and keep what the scrub comes to."""
    for item in items:
        if isinstance(item, Scrubbed):
            told.append(item)
        yield item


def _predictions(given: dict[str, Any]) -> dict[str, Any]:
    """The options about the next start of a broker, as fields; one without --start is a usage error."""
    if given["start"] is None:
        for field in ("index_interval_bytes", "now"):
            if given[field] is not None and (field, given["layout"]) != ("now", "html"):
                raise click.UsageError(f"--{field.replace('_', '-')} has a meaning with --start only.")
        return {}
    from kdump.broker.load.facts import Start
    from kdump.cli.options.broker import configured, settings

    several: dict[str, tuple[Start, ...]] = {"all": tuple(Start), "auto": ()}
    starts = several[given["start"]] if given["start"] in several else (Start(given["start"]),)
    is_auto = given["start"] == "auto"
    return {"starts": starts, "is_auto": is_auto, "settings": settings(given, configured(given))}


def _items(
    paths: Sequence[str],
    options: VerifyOptions,
    spark: SparkSession | None,
    *,
    replicas: bool,
    kept: KeptSegments | None,
) -> Iterator[Item]:
    engines: tuple[LocalReplicas, ...] = ()
    if spark is not None:
        from kdump.spark.jobs import VerifyEngine

        engines = (VerifyEngine(spark, kept),)
    elif kept is not None:
        from kdump.checks.replicas import LocalReplicas

        engines = (LocalReplicas(kept),)
    if replicas:
        from kdump.checks.replicas import compare

        return compare(paths, options, *engines)
    from kdump.checks.run import verify

    return verify(paths, options, *engines)


def _hosts_of(roots: Sequence[Root] | None, redactor: Redactor | None) -> Callable[[str], str]:
    """Return what tells the host of a path as it is shown, where a manifest names several; empty elsewhere."""
    named = {root.path: root.host for root in roots or () if root.host}
    if len(set(named.values())) < 2:
        return lambda _path: ""
    if redactor is not None:
        named = {redactor.path(path): redactor.name(host) for path, host in named.items()}
    by_length = sorted(named, key=len, reverse=True)

    def host(path: str) -> str:
        above = (root for root in by_length if path == root or path.startswith(os.path.join(root, "")))
        return named.get(next(above, ""), "")

    return host


def _as_shown(paths: Sequence[str], redactor: Redactor | None) -> list[str]:
    return list(paths) if redactor is None else [redactor.path(path) for path in paths]


def _sink(
    paths: list[str],
    given: dict[str, Any],
    outcome: RunStatus,
    bar: Bar | None,
    origin: ReportOrigin | None,
    hosts: Callable[[str], str] = lambda _path: "",
) -> Sink:
    tally = Tally(shallow=given["shallow"], replicas=given["replicas"])
    wanted = outcome.matters if given["quiet"] else None
    out, error = _over(bar, write), _over(bar, say)
    if given["layout"] == "json":
        from kdump.render.row_lines import RowLines

        return RowLines(out, error, tally, wanted)
    if given["layout"] == "lines":
        from kdump.render.status_lines import StatusLines

        return StatusLines(out, error, tally, wanted)
    if origin is not None:
        from kdump.render.html.verify import VerifyHtml

        fold, replicas = not given["no_fold"], given["replicas"]
        return VerifyHtml(out, error, tally, paths, origin, fold=fold, wanted=wanted, replicas=replicas)
    from kdump.render.report.verify import VerifyTable

    paper = paper_of(given)
    return VerifyTable(
        paper,
        error,
        tally,
        paths,
        fold=paper.is_screen and not given["no_fold"],
        wanted=wanted,
        notes=given["notes"],
        raw=given["raw"],
        before=bar.hide if bar is not None else lambda: None,
        hosts=hosts,
        only_starts=given["fail_on"] == LOSS,
    )


def _origin(
    named: Sequence[str], given: dict[str, Any], predictions: dict[str, Any], redactor: Redactor | None
) -> ReportOrigin:
    """Return how the run came about: the command without what does not change the answer, as engines and processes."""
    import socket

    from kdump.cli.options.broker import settings
    from kdump.render.html.sections import ReportOrigin

    flags = ("shallow", "no_resync", "contiguous", "replicas", "no_fold", "quiet", "redact")
    parts = [f"--{name.replace('_', '-')}" for name in flags if given[name]]
    usual = {"max_batch_bytes": MAX_BATCH_BYTES, "max_uncompressed_bytes": MAX_UNCOMPRESSED_BYTES}
    for name in ("scrub", "start", "index_interval_bytes", "config", "now", *usual, "redact_key"):
        if given[name] != usual.get(name):
            parts += [f"--{name.replace('_', '-')}", str(given[name])]
    if given["seconds"] is not None:
        parts += ["--for", f"{given['seconds']:g}"]
    parts += [f"--set={text}" for text in given["settings"]]
    parts += [f"--accept={path}" for path in given["accept"]]
    host = socket.gethostname() if given["with_host"] else None
    if redactor is not None:
        parts = [redactor.text(part) for part in parts]
        named = [redactor.path(path) for path in named]
        host = None if host is None else redactor.name(host)
    command = command_line("verify", "--format", "html", *parts, *map(as_argument, named))
    now = (predictions.get("settings") or settings(given)).now
    return ReportOrigin(command, __version__, now, host, given["start"] is not None)


def _over(bar: Bar | None, to: Callable[[str], None]) -> Callable[[str], None]:
    """Let what is written take the bar away first."""

    def over(text: str) -> None:
        if bar is not None:
            bar.hide()
        to(text)

    return over


def _with_tables(
    items: Iterator[Item],
    named: Sequence[str],
    roots: Sequence[Root] | None,
    out: str | None,
    columns: dict[str, tuple[TableField, ...]],
    *,
    disks: list[LogDirRow],
    redactor: Redactor | None,
    night: Night | None,
) -> Iterator[Item]:
    """Return items that are counted as they go by, and written as tables.

    Args:
        items: of verify.
        named: the paths as the user wrote them.
        roots: what they stand for; None where no manifest is among them.
        out: directory of the tables; None for no tables.
        columns: of each table.
        disks: takes what each log directory comes to, at the end.
        redactor: hides what the tables have; None where all may be seen.
        night: keeps the tables; None where all are written.
    """
    demand_arrow()
    from kdump.export.job import ExportTarget
    from kdump.export.origin import Origins, read_roots
    from kdump.export.state import NotThisExportError
    from kdump.export.verdict_files import Summary, VerdictFiles
    from kdump.storage.own_files import own_place

    roots = read_roots(named) if roots is None else roots
    origins = Origins(roots)
    summary = Summary(origins, redactor)
    items = summary.through(items)
    if night is not None:
        from kdump.export.nights import NightTables

        directory = night.store.directory
        places = {**{table: table for table in _TABLES}, "partitionSummary": "summary"}
        targets = [
            ExportTarget(os.path.join(directory, place), "parquet", table, columns[table])
            for table, place in places.items()
        ]
        items = NightTables(night, targets, origins).through(items)
    if out is not None:
        for place in (out, *(os.path.join(out, table) for table in (*_TABLES, "summary"))):
            demand_outside(place, [root.path for root in roots], "--to")
        from kdump.nights.present import NotThisStoreError, read_present

        try:
            if read_present(out) is not None:
                refuse(f"{out}: holds tables that are kept by --update; name another directory, or give --update")
            own_place(out, sticky=False)
            for table in _TABLES:
                target = ExportTarget(os.path.join(out, table), "parquet", table, columns[table], redactor)
                items = VerdictFiles(target, origins, {"verify": table}).through(items)
        except (NotThisExportError, NotThisStoreError) as error:
            refuse(str(error))
        except OSError as error:
            fail(f"{error.filename}: {error.strerror}")
    return _summed(items, summary, out, columns, disks)


def _summed(
    items: Iterator[Item],
    summary: Summary,
    out: str | None,
    columns: dict[str, tuple[TableField, ...]],
    disks: list[LogDirRow],
) -> Iterator[Item]:
    yield from items
    disks.extend(summary.disks())
    if out is not None:
        summary.write(os.path.join(out, "summary"), columns["partitionSummary"])
