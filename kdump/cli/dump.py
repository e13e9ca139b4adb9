"""`kdump dump`."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kdump.cli.options.common import (
    fail_on_option,
    help_option,
    jobs_option,
    max_batch_bytes_option,
    max_uncompressed_bytes_option,
    notes_option,
    quiet_option,
    raw_option,
)
from kdump.cli.options.formats import check_formats, command_of, file_decoder, format_options, key_reader, record_format
from kdump.cli.options.guest import duration
from kdump.cli.options.help import option
from kdump.cli.options.kafka import JavaInt, KafkaCommand, MissingFilesError, late_failures
from kdump.cli.options.partitions import partition_options, selected
from kdump.cli.options.redact import redact_options, redactor_of
from kdump.cli.options.schemas import schema_decoder, schema_options
from kdump.cli.options.selection import everything, records_asked_for, selection_of, selection_options
from kdump.cli.options.terminal import bar_of, color_option, paper_of
from kdump.cli.so_far import SoFar, tell_so_far
from kdump.compat.dialect import DEFAULT, DIALECTS
from kdump.compat.dump_log_segments_options import MAX_MESSAGE_SIZE, STRING, DumpOptions
from kdump.exit_status import Exit, RunStatus
from kdump.finding import Finding, Severity
from kdump.format.batch import layout
from kdump.format.record.chunk import Chunk
from kdump.item import CaughtUp, FileStart, FileTurn
from kdump.render.commentary import fail_to_write, say, write
from kdump.render.text.dump import error_line, error_to, text_sink, wrapping
from kdump.storage.names import FileKind, parse_name, parse_partition
from kdump.words.escape import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import NoReturn, Protocol

    from kdump.compat.dialect import Dialect
    from kdump.decode.command import PayloadCommand
    from kdump.decode.file_decoder import FileDecoder
    from kdump.dump.fates import FateOptions
    from kdump.dump.ranges import DumpRanges
    from kdump.dump.searched import Searched
    from kdump.dump.selected_ranges import SelectedRanges
    from kdump.dump.stats import StatsSink
    from kdump.format.record.selection import Selection
    from kdump.item import Item
    from kdump.output import Output
    from kdump.redact import Redactor
    from kdump.render.progress import Bar
    from kdump.render.text.dump import RecordFormat
    from kdump.render.text.stats import StatsLines

    class Sink(Protocol):
        """Writes items."""

        def __call__(self, item: Item) -> str | None:
            """Write one item; return why Kafka's tool ends in the middle of it."""

        def died(self, exception: str) -> None:
            """Write how Kafka's tool ends when it dies."""

        def end(self, *, dead: bool) -> None:
            """Write what is held back."""


_KINDS = (
    "log",
    "index",
    "timeindex",
    "txnindex",
    "snapshot",
    "checkpoint",
    "leader-epoch-checkpoint",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "partition.metadata",
    "meta.properties",
    "quorum-state",
)


@click.command(
    "dump",
    cls=KafkaCommand,
    usual=(
        "--print-data-log",
        "--from-offset",
        "--to-offset",
        "--from-time",
        "--key",
        "--tail",
        "--format",
        "--fate",
        "--follow",
    ),
    add_help_option=False,
    examples=(
        "kdump dump /data/orders-0 --print-data-log --tail 10",
        "kdump dump /data/orders-0 --key user-42 --print-data-log",
        "kdump dump --compat 4.4 --files 00000000000000000000.log --deep-iteration",
    ),
)
@click.argument("paths", nargs=-1, metavar="FILE|DIR...")
@option(
    "--files",
    group="Input",
    multiple=True,
    metavar="A,B,...",
    help="The files, separated by commas, as Kafka's tool takes them.",
)
@option(
    "--base-offset",
    group="Input",
    type=click.IntRange(min=0),
    metavar="N",
    help="For files whose name tells no base offset.",
)
@option(
    "--type",
    "kind",
    group="Input",
    type=click.Choice(_KINDS),
    metavar="KIND",
    help=f"For files whose name does not tell what they are: {', '.join(_KINDS)}.",
)
@option("--deep-iteration", group="What is shown", is_flag=True, help="Show the records inside the batches.")
@option(
    "--print-data-log", group="What is shown", is_flag=True, help="Show keys and payloads; implies --deep-iteration."
)
@option(
    "--skip-record-metadata", group="What is shown", is_flag=True, help="With --print-data-log: only keys and payloads."
)
@option(
    "--compat",
    group="Kafka's options",
    is_eager=True,
    type=click.Choice(list(DIALECTS)),
    help="Print what this release of Kafka's tool prints, its mistakes and the place where it stops included.",
)
@option(
    "--max-message-size",
    group="Kafka's options",
    type=JavaInt(only_compat=True),
    metavar="N",
    default=MAX_MESSAGE_SIZE,
    help="Largest batch that the index check of --compat expects, bytes.",
)
@option("--verify-index-only", group="Kafka's options", is_flag=True, help="Check indexes, do not show their entries.")
@option(
    "--index-sanity-check",
    group="Kafka's options",
    is_flag=True,
    help="Only the sanity check that brokers make of an index.",
)
@option(
    "--key-decoder-class",
    group="Kafka's options",
    metavar="CLASS",
    is_flag=False,
    flag_value=STRING,
    help="String-, Integer-, Long- or DefaultDecoder of org.apache.kafka.tools.api.",
)
@option(
    "--value-decoder-class",
    group="Kafka's options",
    metavar="CLASS",
    is_flag=False,
    flag_value=STRING,
    help="The same for values.",
)
@option("--offsets-decoder", group="Kafka's options", is_flag=True, help="Read records as those of __consumer_offsets.")
@option(
    "--transaction-log-decoder",
    group="Kafka's options",
    is_flag=True,
    help="Read records as those of __transaction_state.",
)
@option(
    "--cluster-metadata-decoder",
    group="Kafka's options",
    is_flag=True,
    help="Read records as those of __cluster_metadata.",
)
@option(
    "--remote-log-metadata-decoder",
    group="Kafka's options",
    is_flag=True,
    help="Read records as those of __remote_log_metadata.",
)
@option(
    "--share-group-state-decoder",
    group="Kafka's options",
    is_flag=True,
    help="Read records as those of __share_group_state.",
)
@partition_options
@selection_options
@option(
    "--max-bytes",
    group="Input",
    type=JavaInt(),
    metavar="N",
    default=layout.MAX_INT,
    help="Read only the first N bytes of each log.",
)
@option(
    "--stats", group="What is shown", is_flag=True, help="Show totals for each directory in the place of its records."
)
@option(
    "--fate",
    group="What is shown",
    is_flag=True,
    help="Show what became of each record: its transaction, newer ones, retention.",
)
@option(
    "--config", group="The broker", metavar="FILE", help="Topic and broker settings for --fate, as Java properties."
)
@option("--set", "settings", group="The broker", multiple=True, metavar="NAME=VALUE", help="One setting for --fate.")
@format_options
@schema_options
@option(
    "--follow",
    group="Input",
    is_flag=True,
    help="Show what is appended to partition directories, until they are gone or Ctrl-C.",
)
@option(
    "--idle-timeout",
    group="Input",
    callback=duration,
    metavar="DURATION",
    help="With --follow: end when nothing was appended for this long: 90s, 5m, 2h.",
)
@notes_option
@quiet_option
@color_option
@jobs_option
@option(
    "--format",
    "layout",
    group="What is shown",
    type=click.Choice(["text", "table", "json"]),
    default="text",
    show_default=True,
    help="Kafka's layout, a table of a row a record, or JSON. kdump explain KEY tells of its keys.",
)
@raw_option
@redact_options
@max_batch_bytes_option
@max_uncompressed_bytes_option
@fail_on_option
@help_option
def command(**given: Any) -> None:  # noqa: ANN401 (click hands over what the options above say)
    """Show what is in files of a broker, in the layout of Kafka's own tool.

    FILE is a log, an index, a producer or KRaft snapshot, a checkpoint or any other file of a broker; DIR means its
    files in order. Nothing is ever created, changed or locked. Findings go to stderr; kdump explain CODE tells what a
    code means.
    """
    compat = given["compat"]
    paths = selected(given, _paths(given["files"], given["paths"], compat))
    check_formats(click.get_current_context())
    selection = selection_of(given, key_reader(given["key_format"]))
    is_table = given["layout"] == "table"
    given["print_data_log"] |= is_table
    for name, other in (("stats", "--stats"), ("skip_record_metadata", "--skip-record-metadata")):
        if is_table and given[name]:
            raise click.UsageError(f"{other} has a layout of its own: it does not go with --format table.")
    mine = {
        f"--format {given['layout']}": given["layout"] != "text",
        "--stats": given["stats"],
        "--decoder auto": given["decoder"] == "auto",
    }
    if compat and any(mine.values()):
        other = next(option for option, is_given in mine.items() if is_given)
        raise click.UsageError(f"--compat mirrors the text of Kafka's tool: it does not go with {other}.")
    _check_follow(given, paths)
    fate = _fate(given)
    asks = selection is not None
    selection = selection or (None if fate is None else everything())
    redactor = redactor_of(given, paths)
    shown = record_format(given, terminal=sys.stdout.isatty())
    by_record = given["stats"] or given["fate"] or (selection is not None and selection.by_record)
    options = DumpOptions(
        deep=shown.deep or by_record,
        contents=shown.contents,
        skip_metadata=shown.skip_metadata,
        verify_index_only=given["verify_index_only"],
        index_sanity_check=given["index_sanity_check"],
        max_bytes=given["max_bytes"],
        max_message_size=given["max_message_size"],
        base_offset=given["base_offset"],
        kind=given["kind"],
        max_batch_bytes=given["max_batch_bytes"],
        max_uncompressed_bytes=given["max_uncompressed_bytes"],
    )
    seen = _Seen(RunStatus(given["fail_on"], compat=compat is not None))
    outcome = seen.status
    dialect = DEFAULT if compat is None else DIALECTS[compat]
    arguments = command_of(given["decoder_command"])
    command = _payload_command(arguments, given["key_format"])
    plain = None if command is None else command.decode
    decodes = file_decoder(shown, dialect, plain, redactor, schema_decoder(given, seen.status))
    if (selection is not None or options.deep) and not compat:
        from kdump.dump.searched import Searched

        asked = "" if redactor is not None else records_asked_for(given)
        seen.searched = Searched(selection, asked)
        seen.is_quiet = given["quiet"]
        seen.must_find = asks and not given["follow"]
        if selection is not None and selection.keys and seen.must_find and redactor is None:
            seen.keys_asked_for = paths, options, selection
    if fate is None and not (compat or arguments or given["follow"]):
        bar = None if sys.stdout.isatty() else bar_of("dump", quiet=given["quiet"])
        ranges = _ranges(paths, options, selection) if given["jobs"] != 1 or bar is not None else None
        if ranges is not None:
            make = partial(_sink, given, shown, decodes, outcome, redactor, deep=options.deep)
            _run_in_turn(ranges, given["jobs"], seen, decodes, make, bar)
    sink: Sink = _sink(given, shown, decodes, outcome, redactor, deep=options.deep, dialect=dialect)
    items = _items(paths, options, given, selection, fate)
    tell_so_far(None, seen.so_far.words)
    try:
        with command or nullcontext():
            _run(items, sink, seen, decodes, command, to_the_end=compat is None)
        seen.say_what_was_searched()
    except OSError as error:  # what is read has its own findings: this is where the text goes
        fail_to_write(error)
    sys.exit(outcome.exit)


def _items(
    paths: list[str],
    options: DumpOptions,
    given: dict[str, Any],
    selection: Selection | None,
    fate: FateOptions | None,
) -> Iterator[Item]:
    """What is shown."""
    items: Iterator[Item]
    if given["compat"]:
        from kdump.compat.dump_log_segments import KafkaDump

        items = KafkaDump(DIALECTS[given["compat"]], options, late_failures(given)).files(paths)
    elif given["follow"]:
        from kdump.dump.follow import Follow

        items = Follow(options, selection, given["idle_timeout"]).files(paths)
    elif selection is not None:
        from kdump.dump.selected import SelectedDump

        items = SelectedDump(options, selection, fate).files(paths)
    else:
        from kdump.dump.checked import CheckedDump

        items = CheckedDump(options).files(paths)
    return items


def _fate(given: dict[str, Any]) -> FateOptions | None:
    """Parse --fate, --config and --set; None without --fate."""
    if not given["fate"]:
        for field in ("config", "settings"):
            if given[field]:
                name = "set" if field == "settings" else field
                raise click.UsageError(f"--{name} has a meaning with --fate only.")
        return None
    for field in ("stats", "skip_record_metadata"):
        if given[field]:
            raise click.UsageError(f"--fate is said of each record: it does not go with --{field.replace('_', '-')}.")
    from kdump.cli.options.broker import configured, say_defaults
    from kdump.cli.options.times import clock_of
    from kdump.dump.fates import FateOptions

    config = configured(given)
    if not given["quiet"]:
        say_defaults(config, "dump --fate", always=True)
    return FateOptions(config, clock_of("--now", None))


def _listed(given: dict[str, Any], outcome: RunStatus) -> Callable[[object], bool]:
    """What of the commentary is said."""
    if given["quiet"]:
        return outcome.matters
    if given["notes"]:
        return lambda _item: True
    return lambda item: not (isinstance(item, Finding) and item.severity is Severity.NOTE)


class _Seen:
    """What a run comes to: its exit status, and what could not be searched or read; goes from process to process.

    Args:
        status: of the run.
    """

    def __init__(self, status: RunStatus) -> None:
        self.status = status
        self.searched: Searched | None = None
        self.is_quiet = self.must_find = False
        self.so_far = SoFar()
        self.keys_asked_for: tuple[list[str], DumpOptions, Selection] | None = None  # and where, to look once more

    def conclude(self) -> None:
        """Take into account that nothing was found of what was asked for."""
        if self.must_find and self.searched is not None and self.searched.found_nothing:
            self.status.nothing()

    def see(self, item: Item) -> None:
        """Take one item into account."""
        self.status.see(item)
        self.so_far.see(item)
        if isinstance(item, Chunk):
            self.so_far.add("batch", item.last - item.first - item.begun)
            self.so_far.add("record", item.filled)
        if self.searched is not None:
            self.searched.see(item)

    def join(self, other: _Seen) -> None:
        """Take what another process has seen into account."""
        self.status.join(other.status)
        self.searched = other.searched

    def say_what_was_searched(self) -> None:
        """Say what was not found, and what could not be searched or read."""
        if self.searched is not None and not self.is_quiet:
            for line in self.searched.lines():
                say(f"kdump: {line}")
            if self.keys_asked_for is not None and self.searched.found_nothing:
                from kdump.dump.longer_keys import longer_keys  # few searches find nothing

                for line in longer_keys(*self.keys_asked_for):
                    say(f"kdump: {line}")


def _ranges(paths: list[str], options: DumpOptions, selection: Selection | None) -> DumpRanges | SelectedRanges | None:
    """What several processes read; None where one reads all."""
    if selection is None:
        from kdump.dump.ranges import DumpRanges

        return DumpRanges(paths, options)
    from kdump.dump.selected_ranges import SelectedRanges, can_share

    return SelectedRanges(paths, options, selection) if can_share(selection) else None


def _run_in_turn(
    ranges: DumpRanges | SelectedRanges,
    jobs: int,
    seen: _Seen,
    decodes: FileDecoder | None,
    make: Callable[[Output | None], StatsSink],
    bar: Bar | None,
) -> NoReturn:
    """Show files range by range, by several processes or while a bar says how far it is, and end."""
    from kdump.render.turns import ShowInTurn
    from kdump.workers import in_turn

    def show(unit: Any) -> None:  # noqa: ANN401 (of the ranges)
        assert bar is not None
        bar.show(ranges.how_far(unit))

    sink, shown = make(None), ShowInTurn(ranges, make, decodes)
    first = ranges.first_state, sink.state, seen
    try:
        last: Any = in_turn(ranges.units(), shown, jobs, first, told=None if bar is None else show)
        if bar is not None:
            bar.hide()
        seen.join(last[2])
        sink.resume(last[1])
        seen.conclude()
        sink.end(dead=False)
        seen.say_what_was_searched()
        sys.stdout.flush()
    except OSError as error:  # what is read has its own findings: this is where the text goes
        if bar is not None:
            bar.hide()
        fail_to_write(error)
    sys.exit(seen.status.exit)


def _sink(
    given: dict[str, Any],
    shown: RecordFormat,
    decodes: FileDecoder | None,
    outcome: RunStatus,
    redactor: Redactor | None,
    output: Output | None = None,
    *,
    deep: bool,
    dialect: Dialect = DEFAULT,
) -> Any:  # noqa: ANN401 (a `Sink`; without --compat a `StatsSink` too)
    """Where the items go: to stdout and stderr, or to what takes their place in one of several processes."""
    sink: Any
    stats = given["stats"]
    if given["layout"] == "table":
        sink = _table(given, shown, decodes, outcome, redactor, output)
    elif given["layout"] == "json":
        from kdump.render.json.dump import json_sink

        sink = json_sink(
            shown, decodes, outcome, output, deep=deep, stats=stats, quiet=given["quiet"], redactor=redactor
        )
    elif stats:
        sink = _stats_lines(shown, output, _listed(given, outcome))
    else:
        sink = text_sink(shown, dialect, decodes, output, redactor, listed=_listed(given, outcome))
    if redactor is not None:
        sink = redactor.before(sink)
    if stats:
        from kdump.dump.stats import FiguresSink

        sink = FiguresSink(sink)
    return sink


def _table(
    given: dict[str, Any],
    shown: RecordFormat,
    decodes: FileDecoder | None,
    outcome: RunStatus,
    redactor: Redactor | None,
    output: Output | None,
) -> Any:  # noqa: ANN401 (a `Sink`)
    """The sink for tables, to stdout and stderr or to what takes their place."""
    from kdump.render.dump_table import DumpTable, RecordRows
    from kdump.render.json.dump import json_writer

    def hand_over(text: str) -> None:
        assert output is not None
        output.write(text.encode("utf-8", "surrogateescape"))

    rows = RecordRows(paper_of(given, None if output is None else hand_over), raw=given["raw"])
    writer = json_writer(
        contents=shown.contents, write=rows.write, redactor=redactor, key=shown.key, payload=shown.payload
    )
    return DumpTable(
        writer,
        (lambda: None) if decodes is None else decodes.json,
        wrapping(error_to(output)),
        listed=_listed(given, outcome),
        quiet=given["quiet"],
    )


def _stats_lines(shown: RecordFormat, output: Output | None, listed: Callable[[object], bool]) -> StatsLines:
    """The sink for figures as text, to stdout and stderr or to what takes their place."""
    from kdump.render.text.stats import StatsLines

    if output is None:
        return StatsLines(write, wrapping(error_line), careful=shown.careful, listed=listed)

    def hand_over(text: str) -> None:
        output.write(text.encode("utf-8", "surrogateescape"))

    return StatsLines(hand_over, wrapping(error_to(output)), careful=shown.careful, listed=listed)


def _run(
    items: Iterator[Item],
    sink: Sink,
    seen: _Seen,
    decodes: FileDecoder | None,
    command: PayloadCommand | None,
    *,
    to_the_end: bool,
) -> None:
    """Hand every item to the sink; a line in which Kafka's tool dies ends the run that mirrors it."""
    for item in items:
        seen.see(item)
        if command is not None:
            command.sees(item)
        if decodes is not None and isinstance(item, FileStart | FileTurn):
            decodes.begin(item if isinstance(item, FileStart) else item.file)
        if decodes is not None and isinstance(item, Chunk):
            decodes.take(item)
        stop = sink(item)
        if isinstance(item, CaughtUp):
            sys.stdout.flush()
        for finding in command.findings() if command is not None else ():
            seen.see(finding)
            sink(finding)
        if stop is not None and not to_the_end:
            seen.status.died(stop)
            sink.died(stop)
            break
        if decodes is not None and isinstance(item, Chunk):
            for finding in decodes.findings(item):
                seen.see(finding)
                sink(finding)
    seen.conclude()
    sink.end(dead=seen.status.dead)
    sys.stdout.flush()


def _check_follow(given: dict[str, Any], paths: list[str]) -> None:
    """Refuse what cannot be followed.

    Raises:
        click.UsageError: a path is no partition directory, or another option needs to know the end.
    """
    if not given["follow"]:
        if given["idle_timeout"] is not None:
            raise click.UsageError("--idle-timeout has a meaning with --follow only.")
        return
    for name, other in (
        ("compat", "--compat"),
        ("stats", "--stats"),
        ("fate", "--fate"),
        ("kind", "--type"),
        ("base_offset", "--base-offset"),
    ):
        if given[name] not in (None, False):
            raise click.UsageError(f"--follow and {other} exclude each other.")
    for name in ("committed", "aborted"):
        if given[name]:
            raise click.UsageError(
                f"--follow shows batches as they come, and --{name} needs to know how transactions end."
            )
    for path in paths:
        if not os.path.lexists(path):
            say(f"kdump: no such file: {path}")
            sys.exit(Exit.NOT_FOUND)
        is_named = parse_partition(os.path.basename(os.path.abspath(path))) is not None
        if not os.path.isdir(path) or not (is_named or any(map(_is_log, os.listdir(path)))):
            raise click.UsageError(f"--follow wants partition directories (TOPIC-N), and {escape(path)} is not one.")


def _is_log(name: str) -> bool:
    parsed = parse_name(name)
    return parsed.kind is FileKind.LOG and parsed.is_live


def _payload_command(arguments: list[str] | None, key_form: str | None) -> PayloadCommand | None:
    if arguments is None:
        return None
    from kdump.decode.command import PayloadCommand

    return PayloadCommand(arguments, key_form)


def _paths(files: tuple[str, ...], positional: tuple[str, ...], compat: str | None) -> list[str]:
    """The files that are meant; Kafka's tool takes `--files` only, and passes over what else stands there."""
    if len(files) > 1:
        raise click.UsageError("Option '--files' is given more than once: put all files into one.")
    named = [name for one in files for name in _java_split(one)]
    if compat:
        if not files:
            raise MissingFilesError("with --compat, files are given with --files, as Kafka's tool takes them.")
        return named
    if not named and not positional:
        raise click.UsageError("Missing argument 'FILE|DIR...'.")
    return [os.fspath(path) for path in (*named, *positional)]


def _java_split(files: str) -> list[str]:
    """Source: String.split(","): empty names at the end do not count, others do."""
    names = files.split(",")
    while len(names) > 1 and not names[-1]:
        names.pop()
    return names
