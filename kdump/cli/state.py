"""What `kdump groups` and `kdump transactions` share: times, options, and the sinks."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Protocol

from kdump.cli.options.common import (
    fail_on_option,
    help_option,
    jobs_option,
    max_batch_bytes_option,
    max_uncompressed_bytes_option,
    raw_option,
)
from kdump.cli.options.help import option, options
from kdump.cli.options.redact import redact_options, redactor_of
from kdump.cli.options.terminal import color_option, console_of
from kdump.cli.options.times import clock_of, time_of
from kdump.exit_status import Exit, RunStatus
from kdump.item import Progress
from kdump.render.commentary import fail_to_write, hidden, say
from kdump.rows.coordinators import OpenRow
from kdump.state.empty_answer import EmptyAnswer, Question
from kdump.storage.names import METADATA_TOPIC
from kdump.words.command import ShellCommand, with_paths
from kdump.words.escape import escape
from kdump.words.times import iso

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.render.terminal.progress import Bar

END = "end"  # of the log, as a time

at_option = option(
    "--at",
    group="Selection",
    metavar="WHEN",
    default=END,
    show_default=True,
    help="The state at a time: 2026-11-21, 10:00, now-2h, end.",
)


class StateSink(Protocol):
    """Writes items."""

    def __call__(self, item: Any, /) -> None:  # noqa: ANN401 (rows of each verb)
        """Write one item."""

    def end(self, status: int, /) -> None:
        """Write what all comes to."""


state_options = options(
    jobs_option,
    color_option,
    raw_option,
    redact_options,
    max_batch_bytes_option,
    max_uncompressed_bytes_option,
    fail_on_option,
    help_option,
)


def when(option: str, text: str) -> int | None:
    """Read a time: ms since the epoch, None for the end.

    Args:
        option: that it was given to.
        text: as the user wrote it.
    """
    if text.strip() == END:
        return None
    moment = time_of(option, text, other="; the end is 'end'")
    if moment > clock_of(option, None):
        say(f"kdump: {option}: {escape(text)} is in the future: the answer is what was written until now")
    return moment


def time_words(first: int | None, *last: int | None) -> str:
    """Return the words for a time, or for two of them; empty for the end alone.

    Args:
        first, last: ms; None for the end.
    """
    words = ["the end" if one is None else iso(one) for one in (first, *last)]
    if last:
        return f" between {' and '.join(words)}"
    return "" if first is None else f" at {words[0]}"


def to_list(verb: str, given: dict[str, Any]) -> ShellCommand:
    """Return the command that lists all that is there at the end."""
    return with_paths(verb, [os.fspath(path) for path in given["paths"]])


def run(
    items: Iterator[Any],
    given: dict[str, Any],
    bar: Bar | None,
    question: Question,
    sink: StateSink | None = None,
    partitions: Callable[[], int | None] = lambda: None,
) -> None:
    """Write all items and end with the exit status.

    Args:
        items: of the verb.
        given: the values of the options.
        bar: shows how far it is; None where nobody looks at it.
        question: that they answer.
        sink: what writes them; None for the layout that was asked for.
        partitions: see `EmptyAnswer`.
    """
    outcome = RunStatus(given["fail_on"], compat=False)
    redactor = redactor_of(given, [os.fspath(path) for path in (*given["paths"], *given.get("checks", ()))])
    sink, shown = sink or _sink(given), question
    if redactor is not None:
        sink = redactor.before(sink)
        shown = question.without_names()
    empty = EmptyAnswer(partitions)
    try:
        for item in items:
            if isinstance(item, Progress):
                if bar is not None and item.total:
                    bar.show(item.replace(path=hidden(item.path)))
                continue
            if bar is not None:
                bar.hide()
            outcome.see(item)
            if question.is_alarm and isinstance(item, OpenRow):
                (outcome.damaged if item.hanging else outcome.unreadable)()
            empty.see(item)
            sink(item)
        if bar is not None:
            bar.hide()
        is_away = _conclude(outcome, empty, question)
        sink.end(outcome.exit)
        sys.stdout.flush()
        for line in empty.lines(shown):
            say(f"kdump: {line}")
        if is_away and redactor is not None:
            say(f"kdump: not here is the partition of {question.topic} that must have the answer")
    except OSError as error:  # what is read has its own problems: this is where the text goes
        fail_to_write(error)
    sys.exit(Exit.REFUSED if getattr(sink, "refused", False) else outcome.exit)


def _conclude(outcome: RunStatus, empty: EmptyAnswer, question: Question) -> bool:
    """Take the answer into account; return whether the partition that must have it is not among the inputs."""
    found = empty.is_answered(question) and not (question.may_be_empty and empty.is_empty and outcome.has_errors)
    is_away = not found and not empty.has_place(question)
    if question.topic != METADATA_TOPIC:
        outcome.answered(found=found, has_place=not is_away)
        return is_away
    if not found and not is_away:
        outcome.nothing()
    return False


def write(text: str) -> None:
    """Write text to stdout as UTF-8."""
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))


def _sink(given: dict[str, Any]) -> StateSink:
    if given["layout"] == "json":
        from kdump.render.json.coordinators import CoordinatorJson
        from kdump.tally import Tally

        return CoordinatorJson(write, say, Tally())
    console = console_of(given)
    if console is None:
        from kdump.render.text.coordinators import CoordinatorText

        return CoordinatorText(write, say)
    from kdump.render.terminal.coordinators import CoordinatorTable

    return CoordinatorTable(console, say, raw=given["raw"])
