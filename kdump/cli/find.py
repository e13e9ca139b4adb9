"""What `kdump find-offset` and `kdump find-time` share: options, questions from stdin, and the two sinks."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Protocol

import click

from kdump.cli.commonoptions import (
    fail_on_option,
    help_option,
    max_batch_bytes_option,
    max_uncompressed_bytes_option,
    raw_option,
)
from kdump.cli.exits import Exit
from kdump.cli.outcome import Outcome
from kdump.cli.say import say
from kdump.find.finder import Finder, Limits
from kdump.finding import Finding
from kdump.item import Location
from kdump.log.partition import Partition, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.find.query import Query
    from kdump.format.chunk import Chunk

STDIN = "-"
_READ = 65536  # bytes of stdin


def find_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that both have."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS = (
    click.option(
        "--topic-partition", metavar="NAME", help="With a log.dir: the partition, as its directory is named (orders-0)."
    ),
    click.option("--scan", is_flag=True, help="Answer from the data, read from the start, not by the indexes."),
    click.option(
        "--context",
        type=click.IntRange(min=0),
        metavar="N",
        help="Show the N batches before and after, in dump's layout.",
    ),
    click.option("--print", "show", is_flag=True, help="Show the record, in dump's layout."),
    click.option(
        "--format", "layout", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Layout."
    ),
    raw_option,
    max_batch_bytes_option,
    max_uncompressed_bytes_option,
    fail_on_option,
    help_option,
)


class Sink(Protocol):
    """Writes answers."""

    def location(self, location: Location) -> None:
        """Write an answer."""

    def finding(self, finding: Finding) -> None:
        """Write a finding."""

    def chunk(self, file: str, chunk: Chunk) -> None:
        """Write a batch or a record."""

    def end(self) -> None:
        """Write out what is held."""


class Bad:
    """A line of stdin that is no question; `error` says why."""

    def __init__(self, text: str, error: str) -> None:
        self.text = text
        self.error = error


def run(path: str, asked: str, read: Callable[[str], Query], given: dict[str, Any], *, times: bool) -> None:
    """Answer the questions and end with the exit status.

    Args:
        path: partition directory, log, or log.dir.
        asked: the question, or "-" for one on each line of stdin.
        read: reads a question; ValueError when it is none.
        given: the values of the options.
        times: the questions may be about time.
    """
    outcome = Outcome(given["fail_on"], compat=False)
    sink = _sink(given, many=asked == STDIN)
    try:
        queries = _from_stdin(read, sink.end) if asked == STDIN else iter([read(asked)])
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if given["topic_partition"]:
        path = os.path.join(path, given["topic_partition"])
    findings: list[Finding] = []
    try:
        partition = Partition(path, findings.append)
        limits = Limits(given["max_batch_bytes"], given["max_uncompressed_bytes"])
        finder = Finder(partition, limits, scan=given["scan"], times=times)
        for finding in findings:
            outcome.see(finding)
            sink.finding(finding)
        for query in queries:
            _answer(finder, query, sink, outcome, given)
        sink.end()
    except UnreadableError as error:
        outcome.see(error.problem)
        sink.end()
        say(f"kdump: {error.problem.sentence}")
    except OSError as error:
        if error.filename is None:  # not of a file that is read: this is where the text goes
            say(f"kdump: cannot write the output: {error.strerror}")
            os._exit(Exit.INCOMPLETE)
        outcome.unreadable()
        say(f"kdump: {error.filename}: cannot be read: {error.strerror}")
    sys.exit(outcome.exit)


def _answer(finder: Finder, query: Query | Bad, sink: Sink, outcome: Outcome, given: dict[str, Any]) -> None:
    if isinstance(query, Bad):
        outcome.nothing()
        sink.location(Location(query.text, error=query.error))
        return
    if query.assumed:
        say(f"kdump: {query.assumed}")
    for item in finder.answers([query]):
        if isinstance(item, Finding):
            outcome.see(item)
            sink.finding(item)
            continue
        if item.error is not None:
            outcome.nothing()
        sink.location(item)
        if item.file is None:
            continue
        if given["context"] is not None:
            for chunk in finder.context(given["context"]):
                sink.chunk(item.file, chunk)
        record = finder.record(item) if given["show"] else None
        if record is not None:
            sink.chunk(item.file, record)


def _from_stdin(read: Callable[[str], Query], before_wait: Callable[[], None]) -> Iterator[Query | Bad]:
    """Yield the questions of stdin, one a line; a line that is none gets an answer that says so.

    Args:
        read: reads a question.
        before_wait: called before more is read: who asks may wait for an answer before the next question.
    """
    rest, stdin = b"", sys.stdin.fileno()
    while data := os.read(stdin, _READ):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield _question(line, read)
        before_wait()
    if rest:
        yield _question(rest, read)


def _question(line: bytes, read: Callable[[str], Query]) -> Query | Bad:
    text = line.decode("utf-8", "surrogateescape").removesuffix("\r")
    try:
        return read(text)
    except ValueError as error:
        return Bad(text, str(error))


def _sink(given: dict[str, Any], *, many: bool) -> Sink:
    if given["layout"] == "json":
        from kdump.cli.findjson import JsonSink

        return JsonSink()
    from kdump.cli.findtext import FindText

    return FindText(many=many, careful=sys.stdout.isatty() and not given["raw"])
