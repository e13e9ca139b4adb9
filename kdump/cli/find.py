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
from kdump.cli.options.inputs import all_directories
from kdump.cli.options.partitions import partition_options, selected
from kdump.cli.options.terminal import bar_of, color_option
from kdump.cli.so_far import SoFar, tell_so_far
from kdump.exit_status import RunStatus
from kdump.find.finder import Finder, open_partition
from kdump.find.query import offset_query, time_query
from kdump.finding import Finding
from kdump.render.commentary import fail_to_write, say
from kdump.rows.lookup import LookupAnswer, NoAnswer
from kdump.storage.evidence import evidence_of
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import parse_partition
from kdump.storage.paths import base_name, is_dir, parent
from kdump.storage.segment import UnreadableError
from kdump.words.escape import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.find.query import Query
    from kdump.format.record.chunk import Chunk
    from kdump.render.progress import Bar

STDIN = "-"
_READ = 65536  # bytes of stdin


_find_options = options(
    partition_options,
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
    usual=("--topic", "--print", "--context", "--scan", "--format"),
    add_help_option=False,
    examples=(
        "kdump find-offset /data/orders-0 182441 --print",
        "kdump find-offset /data latest --topic orders",
    ),
)
@click.argument("path", metavar="PATH")
@click.argument("offset", metavar="OFFSET")
@_find_options
def find_offset(path: str, offset: str, **given: Any) -> None:  # noqa: ANN401 (click hands over what the options say)
    """Show where an offset is, as a broker finds it.

    PATH is a partition directory, one log, or a log.dir with --topic or --topic-partition: each partition answers, on a
    line that begins with its name. OFFSET is a number, earliest or latest, or - for one question on each line of stdin.
    The answer is the batch that a broker sends to a consumer who asks for this offset, and the first record in it at or
    after the offset.
    """
    _run("find-offset", path, offset, offset_query, given, times=False)


@click.command(
    "find-time",
    cls=Command,
    usual=("--topic", "--print", "--context", "--scan", "--reset-csv", "--format"),
    add_help_option=False,
    examples=(
        "kdump find-time /data/orders-0 '2026-11-21 14:03' --print",
        "kdump find-time /data 'yesterday 10:00' --topic orders",
        "kdump find-time /data now-2h --topic orders --reset-csv",
    ),
)
@click.argument("path", metavar="PATH")
@click.argument("time", metavar="TIME")
@option(
    "--reset-csv",
    group="What is shown",
    is_flag=True,
    help="Write the file of kafka-consumer-groups.sh --reset-offsets.",
)
@_find_options
def find_time(path: str, time: str, **given: Any) -> None:  # noqa: ANN401 (click hands over what the options say)
    """Show the first offset at or after a time, as a broker answers it.

    PATH is a partition directory, one log, or a log.dir with --topic or --topic-partition: each partition answers, on a
    line that begins with its name. TIME is ms since the epoch, 2026-11-21, 2026-11-21T14:03:00Z, 10:00, yesterday (all
    UTC unless a zone is written), now-2h, max, earliest or latest, or - for one question on each line of stdin.
    """
    if given["reset_csv"]:
        _demand_reset(time, given)
    _run("find-time", path, time, time_query, given, times=True)


def _demand_reset(time: str, given: dict[str, Any]) -> None:
    """Refuse what has no place in the file of a reset."""
    others = {"--print": given["show"], "--context": given["context"] is not None, "--raw": given["raw"]}
    also = next((name for name, is_given in others.items() if is_given), None)
    if given["layout"] != "text":
        also = "--format"
    if time == STDIN:
        also = "questions from stdin"
    if also is not None:
        raise click.UsageError(
            f"--reset-csv has a layout of its own, one line a partition: it does not go with {also}."
        )


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
    paths = selected(given, all_directories(path))
    many = asked == STDIN
    sink = _sink(path, given, many=many, of_many=_is_many(given))
    bar = bar_of(verb, quiet=given["quiet"])
    try:
        queries = _from_stdin(read, sink.flush) if many else iter([read(asked)])
    except ValueError as error:
        swapped = os.path.lexists(asked) and not os.path.lexists(path)
        hint = "; the path comes first" if swapped else ""
        raise click.UsageError(escape(f"{error}{hint}")) from None
    run = _Run(sink, outcome, given, bar, many=many, times=times)
    try:
        partitions = [one for one in map(run.opened, paths) if one is not None]
        for query in queries if partitions else ():
            run.answer(partitions, query)
    except UnreadableError as error:  # of the questions
        run.failed(error)
    try:
        sink.end()
    except OSError as error:
        fail_to_write(error)
    sys.exit(outcome.exit)


def _is_many(given: dict[str, Any]) -> bool:
    """Whether several partitions may answer."""
    return bool(given["topics"]) or len(given["topic_partitions"]) > 1


class _Run:
    """Questions to partitions.

    Args:
        sink: takes the answers.
        outcome: of the run.
        given: the values of the options.
        bar: shows how far it is; None where nobody looks at it.
        many: the questions come from stdin.
        times: the questions may be about time.
    """

    def __init__(
        self,
        sink: FindSink,
        outcome: RunStatus,
        given: dict[str, Any],
        bar: Bar | None,
        *,
        many: bool,
        times: bool,
    ) -> None:
        self._sink = sink
        self._outcome = outcome
        self._given = given
        self._bar = bar
        self._times = times
        from kdump.cli.options.broker import given_config  # it loads the model, which --help has no need of

        self._config = given_config(given)
        self._assumed = tuple(filter(None, (self._config.assumed_release,)))
        self._so_far = SoFar()
        tell_so_far(bar, self._so_far.words)
        self._separators = given["layout"] == "text" and (sys.stdout if many else sys.stderr).isatty()

    def opened(self, path: str) -> tuple[str | None, Finder] | None:
        """Open a partition, and say what is wrong with what lies around it.

        Returns:
            Its name, and what answers; None where it cannot be read.
        """
        findings: list[Finding] = []
        try:
            partition = open_partition(path, findings.append)
        except (UnreadableError, OSError) as error:
            self.failed(error)
            return None
        for finding in findings:
            self._report(finding)
        unread = evidence_of(partition).rows_unread
        if unread is not None:
            self._outcome.see(unread)
            say(f"kdump: {unread.sentence}")
        finder = Finder(
            partition,
            limits_of(self._given),
            scan=self._given["scan"],
            times=self._times,
            separators=self._separators,
            jobs=self._given["jobs"],
            told=None if self._bar is None else self._bar.show,
            report=self._report,
            config=self._config,
        )
        name = parse_partition(base_name(path if is_dir(path) else parent(path)))
        return (None if name is None else name.topic_partition), finder

    def failed(self, error: UnreadableError | OSError) -> None:
        """Say what could not be read; end where it is stdout that takes no more."""
        if self._bar is not None:
            self._bar.hide()
        if isinstance(error, UnreadableError):
            self._outcome.see(error.problem)
            say(f"kdump: {error.problem.sentence}")
            return
        if error.filename is None:  # not of a file that is read: this is where the text goes
            fail_to_write(error)
        self._outcome.unreadable()
        say(f"kdump: {error.filename}: cannot be read: {error.strerror}")

    def answer(self, partitions: list[tuple[str | None, Finder]], query: Query | Bad) -> None:
        """Let each partition answer a question; there is nothing where none has an answer."""
        if isinstance(query, Bad):
            self._outcome.nothing()
            self._sink.location(LookupAnswer(query.text, error=query.error, assumed=self._assumed))
            return
        if query.assumed and not self._given["quiet"]:
            say(f"kdump: {query.assumed}")
        answered = [self._asked(name, finder, query) for name, finder in list(partitions)]
        if not any(answered):
            self._outcome.nothing()

    def _asked(self, name: str | None, finder: Finder, query: Query) -> bool:
        """Show what a partition answers; return whether it has an answer, or could not be asked."""
        has_answer = False
        try:
            for item in finder.answers([query]):
                if self._bar is not None:
                    self._bar.hide()
                if isinstance(item, LookupAnswer):
                    takes_end = bool(self._given.get("reset_csv")) and item.no_answer is NoAnswer.NO_TIME
                    offset = _log_end(finder) if takes_end else item.offset  # a reset to a time goes there
                    has_answer |= item.error is None or offset is not None
                    self._so_far.add("answer")
                    self._show(finder, item.replace(partition=name, assumed=self._assumed, offset=offset))
                    continue
                self._outcome.see(item)
                self._so_far.see(item)
                if isinstance(item, Finding):  # a problem is the error of the location too
                    self._sink.finding(item)
        except (UnreadableError, OSError) as error:
            self.failed(error)
            return True
        return has_answer

    def _report(self, finding: Finding) -> None:
        if self._bar is not None:
            self._bar.hide()
        self._outcome.see(finding)
        self._sink.finding(finding)

    def _show(self, finder: Finder, location: LookupAnswer) -> None:
        """Show an answer, and what is asked for with it."""
        self._sink.location(location)
        if location.file is None:
            return
        try:
            if self._given["context"] is not None:
                for chunk in finder.context(self._given["context"]):
                    self._sink.chunk(location.file, chunk)
            record = finder.record(location) if self._given["show"] else None
            if record is not None:
                self._sink.chunk(location.file, record)
        except OSError as error:
            if error.filename is None:
                raise
            self.failed(error)


def _log_end(finder: Finder) -> int | None:
    """The log end offset of a partition; None where it has none."""
    answers = (one for one in finder.answers([time_query("latest")]) if isinstance(one, LookupAnswer))
    return next(answers).offset


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


def _sink(path: str, given: dict[str, Any], *, many: bool, of_many: bool) -> FindSink:
    if given.get("reset_csv"):
        from kdump.render.text.reset_file import FindReset

        return FindReset(path, notes=given["notes"])
    if given["layout"] != "text":
        from kdump.render.find_rows import FindRows
        from kdump.rows.layout import LAYOUTS

        return FindRows(LAYOUTS[given["layout"]])
    from kdump.cli.options.terminal import fitter_of_stdout
    from kdump.render.text.find import FindText

    fit = None if many and not sys.stdout.isatty() else fitter_of_stdout()  # a program may wait for its one line
    return FindText(path, many=many, of_many=of_many, raw=given["raw"], notes=given["notes"], fit=fit)
