"""`kdump find-offset` and `kdump find-time`: their options, questions from stdin, and the two sinks."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Protocol

import click

from kdump.cli.options.common import (
    broker_option,
    config_option,
    fail_on_option,
    format_option,
    help_option,
    jobs_option,
    limits_of,
    max_batch_bytes_option,
    max_uncompressed_bytes_option,
    notes_option,
    quiet_option,
    raw_option,
    settings_option,
)
from kdump.cli.options.help import Command, option, options
from kdump.cli.options.partitions import topic_partition_one
from kdump.cli.options.terminal import bar_of, color_option
from kdump.exit_status import RunStatus
from kdump.find.finder import Finder, open_partition
from kdump.find.query import offset_query, time_query
from kdump.finding import Finding
from kdump.render.commentary import fail_to_write, say
from kdump.rows.lookup import LookupAnswer
from kdump.storage.evidence import evidence_of
from kdump.storage.file_source import OpenFailure
from kdump.storage.segment import UnreadableError
from kdump.words.escape import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.find.query import Query
    from kdump.format.record.chunk import Chunk
    from kdump.render.terminal.progress import Bar

STDIN = "-"
_READ = 65536  # bytes of stdin


_find_options = options(
    topic_partition_one,
    option(
        "--scan",
        group="What is checked",
        is_flag=True,
        help="Answer from the data: read the log itself, and go by no index.",
    ),
    option(
        "--context",
        group="What is shown",
        type=click.IntRange(min=0),
        metavar="N",
        help="Show the N batches before and after, in dump's layout.",
    ),
    option("--print", "show", group="What is shown", is_flag=True, help="Show the record, in dump's layout."),
    broker_option,
    config_option,
    settings_option,
    notes_option,
    format_option,
    jobs_option,
    quiet_option,
    color_option,
    raw_option,
    max_batch_bytes_option,
    max_uncompressed_bytes_option,
    fail_on_option,
    help_option,
)


@click.command(
    "find-offset",
    cls=Command,
    add_help_option=False,
    examples=(
        "kdump find-offset /data/orders-0 182441 --print",
        "kdump find-offset /data latest --topic-partition orders-0",
    ),
)
@click.argument("path", metavar="PATH")
@click.argument("offset", metavar="OFFSET")
@_find_options
def find_offset(path: str, offset: str, **given: Any) -> None:  # noqa: ANN401 (click hands over what the options say)
    """Tell where an offset is, as a broker finds it.

    PATH is a partition directory, one log, or a log.dir with --topic-partition. OFFSET is a number, earliest or latest,
    or - for one question on each line of stdin. The answer is the batch that a broker sends to a consumer who asks for
    this offset, and the first record in it at or after the offset. Exit status: 0 found, 10 nothing there, 3 damage or
    an unsound index met on the way, 5 something could not be read, or a log.dir without --topic-partition, 2 wrong use.
    """
    _run("find-offset", path, offset, offset_query, given, times=False)


@click.command(
    "find-time",
    cls=Command,
    add_help_option=False,
    examples=(
        "kdump find-time /data/orders-0 now-2h",
        "kdump find-time /data/orders-0 '2026-11-21 14:03' --print",
    ),
)
@click.argument("path", metavar="PATH")
@click.argument("time", metavar="TIME")
@_find_options
def find_time(path: str, time: str, **given: Any) -> None:  # noqa: ANN401 (click hands over what the options say)
    """Tell the first offset at or after a time, as a broker answers it.

    PATH is a partition directory, one log, or a log.dir with --topic-partition. TIME is ms since the epoch, 2026-11-21,
    2026-11-21T14:03:00Z, 10:00, yesterday (all UTC unless a zone is written), now-2h, max, earliest or latest, or - for
    one question on each line of stdin. Exit status: 0 found, 10 nothing there, 3 damage or an unsound index met on the
    way, 5 something could not be read, or a log.dir without --topic-partition, 2 wrong use.
    """
    _run("find-time", path, time, time_query, given, times=True)


class FindSink(Protocol):
    """Writes answers."""

    def location(self, location: LookupAnswer) -> None:
        """Write an answer."""

    def finding(self, finding: Finding) -> None:
        """Write a finding."""

    def chunk(self, file: str, chunk: Chunk) -> None:
        """Write a batch or a record."""

    def flush(self) -> None:
        """Write out what is held."""

    def end(self) -> None:
        """Write out what is held, and how much was left out."""


class Bad:
    """A line of stdin that is not a question; `error` says why."""

    def __init__(self, text: str, error: str) -> None:
        self.text = text
        self.error = error


def _run(verb: str, path: str, asked: str, read: Callable[[str], Query], given: dict[str, Any], *, times: bool) -> None:
    """Answer the questions and end with the exit status.

    Args:
        verb: the command.
        path: partition directory, log, or log.dir.
        asked: the question, or "-" for one on each line of stdin.
        read: reads a question; ValueError when it is none.
        given: the values of the options.
        times: the questions may be about time.
    """
    outcome = RunStatus(given["fail_on"], compat=False)
    if given["topic_partition"]:
        path = os.path.join(path, given["topic_partition"])
    many = asked == STDIN
    sink = _sink(path, given, many=many)
    separators = given["layout"] == "text" and (sys.stdout if many else sys.stderr).isatty()
    bar = bar_of(verb, quiet=given["quiet"])
    try:
        queries = _from_stdin(read, sink.flush) if many else iter([read(asked)])
    except ValueError as error:
        swapped = os.path.lexists(asked) and not os.path.lexists(path)
        hint = "; the path comes first" if swapped else ""
        raise click.UsageError(escape(f"{error}{hint}")) from None
    try:
        finder = _finder(path, sink, outcome, given, bar, times=times, separators=separators)
        for query in queries:
            _answer(finder, query, sink, outcome, given, bar)
    except UnreadableError as error:
        if bar is not None:
            bar.hide()
        outcome.see(error.problem)
        say(f"kdump: {error.problem.sentence}")
    except OSError as error:
        if bar is not None:
            bar.hide()
        if error.filename is None:  # not of a file that is read: this is where the text goes
            fail_to_write(error)
        outcome.unreadable()
        say(f"kdump: {error.filename}: cannot be read: {error.strerror}")
    try:
        sink.end()
    except OSError as error:
        fail_to_write(error)
    sys.exit(outcome.exit)


def _finder(
    path: str,
    sink: FindSink,
    outcome: RunStatus,
    given: dict[str, Any],
    bar: Bar | None,
    *,
    times: bool,
    separators: bool,
) -> Finder:
    """Open the partition, and say what is wrong with what lies around it."""
    findings: list[Finding] = []
    partition = open_partition(path, findings.append)
    for finding in findings:
        outcome.see(finding)
        sink.finding(finding)
    unread = evidence_of(partition).rows_unread
    if unread is not None:
        outcome.see(unread)
        say(f"kdump: {unread.sentence}")
    limits = limits_of(given)
    told = None if bar is None else bar.show
    scan, jobs = given["scan"], given["jobs"]

    def report(finding: Finding) -> None:
        if bar is not None:
            bar.hide()
        outcome.see(finding)
        sink.finding(finding)

    from kdump.cli.options.broker import given_config

    return Finder(
        partition,
        limits,
        scan=scan,
        times=times,
        separators=separators,
        jobs=jobs,
        told=told,
        report=report,
        config=given_config(given),
    )


def _answer(
    finder: Finder, query: Query | Bad, sink: FindSink, outcome: RunStatus, given: dict[str, Any], bar: Bar | None
) -> None:
    if isinstance(query, Bad):
        outcome.nothing()
        sink.location(LookupAnswer(query.text, error=query.error))
        return
    if query.assumed and not given["quiet"]:
        say(f"kdump: {query.assumed}")
    for item in finder.answers([query]):
        if bar is not None:
            bar.hide()
        if isinstance(item, LookupAnswer):
            _show(finder, item, sink, outcome, given)
            continue
        outcome.see(item)
        if isinstance(item, Finding):  # a problem is the error of the location too
            sink.finding(item)


def _show(finder: Finder, location: LookupAnswer, sink: FindSink, outcome: RunStatus, given: dict[str, Any]) -> None:
    """Show an answer, and what is asked for with it."""
    if location.error is not None:
        outcome.nothing()
    sink.location(location)
    if location.file is None:
        return
    try:
        if given["context"] is not None:
            for chunk in finder.context(given["context"]):
                sink.chunk(location.file, chunk)
        record = finder.record(location) if given["show"] else None
        if record is not None:
            sink.chunk(location.file, record)
    except OSError as error:
        if error.filename is None:
            raise
        outcome.unreadable()
        say(f"kdump: {error.filename}: cannot be read: {error.strerror}")


def _from_stdin(read: Callable[[str], Query], before_wait: Callable[[], None]) -> Iterator[Query | Bad]:
    """Yield the questions of stdin, one a line; a line that is none gets an answer that says so.

    Args:
        read: reads a question.
        before_wait: called before more is read: who asks may wait for an answer before the next question.
    """
    rest = b""
    while data := _read_stdin():
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield _question(line, read)
        before_wait()
    if rest:
        yield _question(rest, read)


def _read_stdin() -> bytes:
    """Return what stdin has, empty at its end; wait for it whatever kind of stdin it is.

    Raises:
        UnreadableError: it cannot be read.
    """
    if sys.stdin is None:
        raise UnreadableError(OpenFailure(STDIN, "other", "standard input is closed: no questions can be read"))
    while True:
        try:
            return os.read(sys.stdin.fileno(), _READ)
        except BlockingIOError:
            from select import select

            select([sys.stdin], [], [])
        except OSError as error:
            sentence = f"standard input cannot be read: {error.strerror}"
            raise UnreadableError(OpenFailure(STDIN, "other", sentence)) from None


def _question(line: bytes, read: Callable[[str], Query]) -> Query | Bad:
    text = line.decode("utf-8", "surrogateescape").removesuffix("\r")
    try:
        return read(text)
    except ValueError as error:
        return Bad(text, str(error))


def _sink(path: str, given: dict[str, Any], *, many: bool) -> FindSink:
    if given["layout"] != "text":
        from kdump.render.find_rows import FindRows
        from kdump.rows.layout import LAYOUTS

        return FindRows(LAYOUTS[given["layout"]])
    from kdump.cli.options.terminal import fitter_of_stdout
    from kdump.render.text.find import FindText

    fit = None if many and not sys.stdout.isatty() else fitter_of_stdout()  # a program may wait for its one line
    return FindText(path, many=many, raw=given["raw"], notes=given["notes"], fit=fit)
