"""`kdump export`."""

from __future__ import annotations

import os
import sys
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from kdump.cli.options.common import (
    fail_on_option,
    help_option,
    jobs_option,
    limits_of,
    max_batch_bytes_option,
    max_uncompressed_bytes_option,
    quiet_option,
)
from kdump.cli.options.engine import demand_arrow, demand_outside, engine_options, fail, refuse, session
from kdump.cli.options.help import Command, option
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
from kdump.cli.options.schemas import SCHEMA_OPTIONS, schema_options, schemas_of
from kdump.cli.options.store import into_store
from kdump.cli.options.terminal import bar_of, color_option
from kdump.cli.so_far import tell_so_far
from kdump.decode import INTERNAL, LAYOUTS
from kdump.exit_status import Exit
from kdump.finding import Severity
from kdump.item import Progress
from kdump.render.commentary import answer, fail_to_write, say
from kdump.storage.file_source import OpenFailure
from kdump.storage.paths import absolute
from kdump.storage.refusal import RefusedError
from kdump.verdict_status import VerdictStatus
from kdump.words.numbers import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from kdump.checks.kept_segments import KeptSegments
    from kdump.export.job import ExportTarget, Result
    from kdump.export.nights import Night, NightTables
    from kdump.export.origin import Origins
    from kdump.export.verdict_files import VerdictFiles

_TABLES = [
    "records",
    "batches",
    "findings",
    "segments",
    "losses",
    "duplicates",
    "usage",
    "groups",
    "commits",
    "transactions",
    "open",
    "partitionSummary",
    "unread",
    "replicaDiffs",
]


@click.command(
    "export",
    cls=Command,
    usual=("--table", "--to", "--format", "--topic", "-j"),
    add_help_option=False,
    examples=(
        "kdump export /data --to tables",
        "kdump export /data --table findings --to findings --format csv",
        "kdump export /data --to tables --columns topic,partition,offset,timestamp -j 0",
    ),
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@option(
    "--table",
    group="Selection",
    type=click.Choice(_TABLES),
    default="records",
    show_default=True,
    metavar="TABLE",
    help="What has a row: records, batches, findings, segments, losses, duplicates, usage, groups, commits,"
    " transactions, open, partitionSummary, unread or replicaDiffs.",
)
@partition_options
@option(
    "--to",
    "directory",
    group="What is done",
    old=("--out",),
    required=True,
    metavar="DIR",
    help="Where the files go.",
)
@option(
    "--format",
    "kind",
    group="What is done",
    old=("--file-format",),
    type=click.Choice(["parquet", "json", "csv"]),
    default="parquet",
    show_default=True,
    help="Format of the files.",
)
@nights_options
@host_option
@metrics_option
@option("--columns", group="Selection", metavar="NAMES", help="Only these columns, with commas between them.")
@option(
    "--decoder",
    group="Keys and values",
    type=click.Choice(["auto", "none", *INTERNAL, *LAYOUTS]),
    metavar="NAME",
    default="auto",
    show_default=True,
    help="Decode the records of all topics as kdump dump --decoder NAME does; none: do not; auto: by their names.",
)
@schema_options
@quiet_option
@color_option
@jobs_option
@engine_options
@redact_options
@max_batch_bytes_option
@max_uncompressed_bytes_option
@fail_on_option
@help_option
def command(**given: Any) -> None:  # noqa: ANN401 (click hands over what the options above say)
    """Write batches, records, findings, commits and more as Parquet, JSON or CSV, by topic and partition.

    PATH is a log.dir, a partition directory, a log, or a manifest (*.csv, *.json) of such paths. An export that was
    interrupted resumes when the same command is run again.
    """
    demand_update(given)
    named, roots = selected_roots(given, [os.fspath(path) for path in given["paths"]])
    demand_arrow()
    from kdump.export.origin import Origins, read_roots

    roots = read_roots(named) if roots is None else roots
    paths = [root.path for root in roots]
    given["directory"] = below_host(given, given["directory"], roots)
    try:
        demand_outside(given["directory"], paths, "--to")
        with into_store(given, "directory"):
            export = _Export(given, paths, Origins(roots))
            export.run(session(given, paths))
    except RefusedError as error:
        say(f"kdump: {error}")
        sys.exit(Exit.REFUSED)
    except OSError as error:
        if error.filename is None:
            fail_to_write(error)
        fail(f"{error.filename}: {error.strerror}")


class _Export:
    """One run.

    Args:
        given: the values of the options.
        paths: what is read.
        origins: tells where files are from.
    """

    def __init__(self, given: dict[str, Any], paths: Sequence[str], origins: Origins) -> None:
        from kdump.export.job import ExportTarget
        from kdump.export.tables import FOLDERS, UnknownNameError, columns_of

        names = given["columns"]
        try:
            columns = columns_of(given["table"], None if names is None else [name.strip() for name in names.split(",")])
        except UnknownNameError as error:
            raise click.BadParameter(str(error), param_hint="--columns") from None
        columns = without_host(columns, given)
        if given["kind"] == "parquet" and not any(column.name not in FOLDERS for column in columns):
            raise click.BadParameter(
                "topic and partition are in the names of directories, and no file of Parquet has them: name one more",
                param_hint="--columns",
            )
        self._given = given
        self._paths = paths
        self._origins = origins
        redactor = redactor_of(given, paths)
        self._redactor = redactor
        self._target: ExportTarget = ExportTarget(given["directory"], given["kind"], given["table"], columns, redactor)
        self._asked: dict[str, object] = {
            "paths": [absolute(path) if redactor is None else redactor.path(absolute(path)) for path in paths],
            **{name: given[name] for name in ("table", "kind", "decoder", "max_batch_bytes", "max_uncompressed_bytes")},
            "columns": [column.name for column in columns],
            **{name: absolute(given[name]) for name in SCHEMA_OPTIONS if given[name] is not None},
        }
        if redactor is not None:
            self._asked["redacted"] = redactor.token(b"")  # another key makes another export
        self._outcome = VerdictStatus(given["fail_on"], compat=False)
        self._bar = bar_of("export", quiet=given["quiet"])
        self._unchecked: list[tuple[str | None, str]] = []
        self._errors: Counter[str] = Counter()
        self._rows = self._files = self._undecoded = 0
        self._verdict_files: VerdictFiles | NightTables | None = None
        self._figures = figures_of(given, paths, "export", given["table"])
        self._night: Night | None = None
        if given["update"]:
            self._target = self._target.replace(is_noted=False)
            self._night = open_night(given["directory"], self._asked, given)
        tell_so_far(self._bar, self._so_far)
        self._was_there = os.path.lexists(given["directory"])

    def run(self, spark: SparkSession | None) -> None:
        """Write the table, say what became of it, and end the process."""
        from kdump.export.state import NotThisExportError
        from kdump.export.tables import SPLIT_TABLES, UNREAD_TABLE
        from kdump.spark.errors import SparkFailedError

        try:
            if self._target.table in SPLIT_TABLES:
                self._split_table(spark)
            else:
                self._verdicts(spark)
        except NotThisExportError as error:
            self._hide()
            refuse(str(error))
        except SparkFailedError as error:
            self._hide()
            fail(str(error))
        self._hide()
        if self._night is not None:
            self._night.end(self._outcome.exit)
            say_night(self._night)
        elif self._unchecked and not self._files:
            self._leave_nothing()
        if self._figures is not None:
            self._figures.rows = self._rows
            self._figures.read = None if self._night is None else self._night.size
            if self._target.table in SPLIT_TABLES or self._target.table == UNREAD_TABLE:
                self._figures.unchecked = self._unchecked
        write_figures(self._figures, self._given, self._outcome.exit)
        if self._undecoded:
            words = counted(self._undecoded, "key or payload was", "keys or payloads were")
            say(f"kdump: {words} not decoded by a schema; kdump dump with the same --schemas tells which, and why")
        for path, count in self._errors.items():
            say(f"kdump: {path}: {counted(count, 'error')}; kdump verify tells them")
        self._end()

    def _leave_nothing(self) -> None:
        """Nothing was there to be exported: the directory is as it was before."""
        from kdump.export.job import forget

        forget(self._target)
        if not self._was_there:
            os.rmdir(self._target.directory)  # noqa: PTH106

    def _split_table(self, spark: SparkSession | None) -> None:
        from kdump.export.job import LocalExport, begin, begun, distinct, done, newer_than, plan_of
        from kdump.export.read import ReadOptions
        from kdump.export.split import SPLIT_SIZE, WantedLogs, logs_of

        target, given = self._target, self._given
        options = ReadOptions(
            target.table,
            target.columns,
            WantedLogs(),
            given["decoder"],
            given["max_batch_bytes"],
            given["max_uncompressed_bytes"],
            schemas=schemas_of(given, self._outcome),
        )
        if options.schemas is not None and self._redactor is not None:
            self._redactor.fields = options.schemas.names
        logs = list(logs_of(self._paths, self._origins, WantedLogs()))
        if self._figures is not None:
            self._figures.bytes = sum(log.size for log in distinct(logs))
        engine = LocalExport(given["jobs"])
        if spark is not None:
            from kdump.spark.jobs import ExportEngine

            engine = ExportEngine(spark)
        if self._night is not None:
            from kdump.export.nights import split_night

            for one in logs:
                if isinstance(one, OpenFailure):
                    self._problem(one)
            self._written(split_night(self._night, target, logs, self._origins, engine, options))
            return
        plan = begun(target, self._asked, logs, self._paths)
        if plan is None or not plan.parts:  # without parts nothing is written, and what was missing may be there by now
            plan = plan_of(logs, SPLIT_SIZE[target.table], target.redactor)
            begin(target, self._asked, plan)
        else:
            self._tell_newer(*newer_than(plan, logs))
        for problem in plan.problems:
            self._problem(problem)
        written = done(target)
        rest = [part for part in plan.parts if part.name not in written]
        self._written(chain(written.values(), engine.write(rest, target, options)))

    def _written(self, results: Iterable[Result | Progress]) -> None:
        """Take what becomes of pieces."""
        for one in results:
            if isinstance(one, Progress):
                self._show(one)
                continue
            self._rows += one.rows
            self._files += one.rows > 0
            if self._figures is not None:
                for code, count in one.codes:
                    self._figures.found(Severity.ERROR, code, count)
            if one.errors:
                self._outcome.damaged()
                self._errors[one.path] += one.errors
                self._undecoded += one.undecoded
            for line in one.problems:
                self._problem(OpenFailure(one.path, "read", line))

    def _tell_newer(self, new: list[str], longer: list[str]) -> None:
        """An export goes on by its plan: say what there is by now that the plan does not have."""
        if not (new or longer):
            return
        count, directory = len(new) + len(longer), self._target.directory
        are = "log is" if count == 1 else "logs are"
        said = f"{count} {are} newer than the plan in {directory} ({len(new)} new, {len(longer)} longer)"
        first = (new or longer)[0]
        why = f"{said}, the first {first}: what is new there is not exported; export to another directory"
        self._problem(OpenFailure(first, "newer", why))

    def _verdicts(self, spark: SparkSession | None) -> None:
        from kdump.checks.options import VerifyOptions
        from kdump.checks.replicas import LocalReplicas
        from kdump.checks.table_items import table_items
        from kdump.export.tables import STATE_TABLES, UNREAD_TABLE

        if self._target.table in STATE_TABLES:
            self._state(spark)
            return
        if self._target.table == "usage":
            self._usage(spark)
            return
        if self._target.table == UNREAD_TABLE:
            self._unread(spark)
            return
        options = VerifyOptions(
            jobs=self._given["jobs"],
            progress=self._bar is not None,
            max_batch_bytes=self._given["max_batch_bytes"],
            max_uncompressed_bytes=self._given["max_uncompressed_bytes"],
            of_hosts=self._origins.names_hosts,
        )
        kept: KeptSegments | None = None
        if self._night is not None:
            from kdump.checks.kept_segments import KeptSegments

            kept = KeptSegments(self._night.store, options)
        engine = LocalReplicas(kept)
        if spark is not None:
            from kdump.spark.jobs import VerifyEngine

            engine = VerifyEngine(spark, kept)
        self._through(table_items(self._target.table, self._paths, options, engine))
        if kept is not None and self._night is not None:
            self._night.files, self._night.size = kept.files, kept.size

    def _state(self, spark: SparkSession | None) -> None:
        """What internal topics come to."""
        from kdump.state.groups import GroupOptions, groups
        from kdump.state.transactions import TransactionOptions, transactions

        limits = limits_of(self._given)
        if spark is not None:
            from kdump.spark.jobs import folded

            self._through(folded(spark, self._target.table, self._paths, limits))
            return
        if self._target.table in ("groups", "commits"):
            wanted = GroupOptions(
                None, None, frozenset(), frozenset(), lag=False, limits=limits, jobs=self._given["jobs"]
            )
            self._through(groups(list(self._paths), wanted))
        else:
            self._through(transactions(list(self._paths), TransactionOptions(None, False, limits, self._given["jobs"])))

    def _unread(self, spark: SparkSession | None) -> None:
        """What cannot be opened."""
        if spark is not None:
            from kdump.spark.jobs import unread

            self._through(unread(spark, self._paths, self._origins))
            return
        from kdump.export.verdicts import unread_rows

        self._through(unread_rows(self._paths, self._origins))

    def _usage(self, spark: SparkSession | None) -> None:
        """What uses the space, by partition."""
        from kdump.broker.clusters import cluster_settings
        from kdump.format.read_limits import ReadLimits
        from kdump.usage.options import by_partition
        from kdump.usage.run import placed_usage

        limits = self._given["max_batch_bytes"], self._given["max_uncompressed_bytes"]
        clusters = cluster_settings(self._paths, ReadLimits(*limits))
        options = by_partition(*limits, clusters).replace(jobs=self._given["jobs"], progress=self._bar is not None)
        if spark is not None:
            from kdump.spark.jobs import placed

            self._through(placed(spark, self._paths, options))
            return
        self._through(placed_usage(self._paths, options))

    def _through(self, items: Iterator[Any]) -> None:
        """Write the rows of items, and see how they went."""
        from kdump.export.verdict_files import VerdictFiles
        from kdump.export.verdicts import UnreadFound

        files: VerdictFiles | NightTables
        if self._night is None:
            files = VerdictFiles(self._target, self._origins, self._asked)
        else:
            from kdump.export.nights import NightTables

            files = NightTables(self._night, [self._target], self._origins)
        self._verdict_files = files
        if self._figures is not None:
            items = self._figures.through(items)
        for item in files.through(items):
            if isinstance(item, Progress):
                self._show(item)
            elif isinstance(item, OpenFailure | UnreadFound):
                self._problem(item if isinstance(item, OpenFailure) else item.failure)
            else:
                self._outcome.see(item)
        self._rows, self._files = files.rows, files.files

    def _so_far(self) -> str:
        """What is written so far, as the end of a sentence."""
        held = self._verdict_files
        rows, files = (self._rows, self._files) if held is None else (held.rows, held.files)
        return f"; so far: {counted(rows, 'row')} in {counted(files, 'file')}"

    def _show(self, progress: Progress) -> None:
        if self._bar is not None:
            self._bar.show(progress)

    def _hide(self) -> None:
        if self._bar is not None:
            self._bar.hide()

    def _problem(self, problem: OpenFailure) -> None:
        self._hide()
        self._outcome.see(problem)
        if self._redactor is not None:
            problem = self._redactor.item(problem)
        self._unchecked.append((problem.path, problem.sentence))
        say(f"kdump: {problem.sentence}")

    def _end(self) -> None:
        """Write the summary on stdout, and the same in words on stderr."""
        from kdump.rows.json_lines import fields_of
        from kdump.rows.json_lines import line as line_of
        from kdump.rows.summary import unread_rows

        totals = {"files": self._files, "rows": self._rows, "errors": sum(self._errors.values())}
        code = self._outcome.exit
        if not self._given["quiet"]:
            said = f"{counted(self._rows, 'row')} in {counted(self._files, 'file')}"
            left = f", {len(self._unchecked):,} not read" if self._unchecked else ""
            say(f"kdump: {self._target.table}: {said} of {self._target.directory}{left}")
        unchecked = [fields_of(one) for one in unread_rows(self._unchecked)]
        answer(line_of("summary", {**totals, "unchecked": unchecked, "exit": code}))
        sys.exit(code)
