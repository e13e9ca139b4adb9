"""What `kdump groups` and `kdump transactions` share: times, options, and the sinks."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

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
from kdump.cli.options.help import option, options
from kdump.cli.options.redact import redact_options, redactor_of
from kdump.cli.options.terminal import color_option, paper_of
from kdump.cli.options.times import clock_of, time_of
from kdump.cli.show import show
from kdump.dispatch import takes
from kdump.exit_status import Exit, RunStatus
from kdump.render.commentary import say, write
from kdump.rows.coordinators import OpenRow
from kdump.state.empty_answer import EmptyAnswer, Question
from kdump.state.spill import SpillError
from kdump.storage.names import METADATA_TOPIC
from kdump.words.command import ShellCommand, with_paths
from kdump.words.escape import escape
from kdump.words.times import iso

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.cli.show import Sink
    from kdump.render.progress import Bar

END = "end"  # of the log, as a time

at_option = option(
    "--at",
    group="Selection",
    metavar="WHEN",
    default=END,
    show_default=True,
    help="The state at a time: 2026-11-21, 10:00, now-2h, end.",
)


state_options = options(
    jobs_option,
    notes_option,
    quiet_option,
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
    sink: Sink | None = None,
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
    outcome = _AnswerStatus(given["fail_on"], question, EmptyAnswer(partitions))
    redactor = redactor_of(given, [os.fspath(path) for path in (*given["paths"], *given.get("checks", ()))])
    sink = sink or _sink(given)
    try:
        show(items, sink, outcome, bar, redactor)
    except SpillError as error:
        say(f"kdump: {error}; free some space there, or name another directory by TMPDIR, and run it again")
        sys.exit(Exit.FAILED)
    for line in outcome.empty.lines(question if redactor is None else question.without_names()):
        say(f"kdump: {line}")
    if redactor is not None and question.topic != METADATA_TOPIC and outcome.is_away:
        say(f"kdump: not here is the partition of {question.topic} that must have the answer")
    sys.exit(Exit.REFUSED if getattr(sink, "refused", False) else outcome.exit)


class _AnswerStatus(RunStatus):
    """The exit status of the answer to a question.

    Args:
        fail_on: error, warning or never.
        question: that is asked.
        empty: says what is not there.
    """

    def __init__(self, fail_on: str, question: Question, empty: EmptyAnswer) -> None:
        super().__init__(fail_on, compat=False)
        self._question = question
        self.empty = empty  # says what is not there

    def see(self, item: object) -> None:
        """Take one item into account."""
        super().see(item)
        self.empty.see(item)

    @takes(OpenRow)
    def _open(self, row: OpenRow) -> None:
        if self._question.is_alarm:
            (self.damaged if row.hanging else self.unreadable)()

    @property
    def is_found(self) -> bool:
        """Whether the question has an answer."""
        may_be_empty = self._question.may_be_empty and self.empty.is_empty and self.has_errors
        return self.empty.is_answered(self._question) and not may_be_empty

    @property
    def is_away(self) -> bool:
        """Whether the partition that must have the answer is not among the inputs."""
        return not (self.is_found or self.empty.has_place(self._question))

    @property
    def exit(self) -> Exit:
        """The exit status, once all items were seen."""
        is_found, is_away = self.is_found, self.is_away
        if is_away or self._question.topic != METADATA_TOPIC:
            self.answered(found=is_found, has_place=not is_away)
        elif not is_found:
            self.nothing()
        return super().exit


def _sink(given: dict[str, Any]) -> Sink:
    if given["layout"] != "text":
        from kdump.render.coordinator_rows import CoordinatorRows
        from kdump.rows.layout import LAYOUTS
        from kdump.tally import Tally

        return CoordinatorRows(write, say, Tally(), layout=LAYOUTS[given["layout"]])
    from kdump.render.report.coordinators import CoordinatorTable

    return CoordinatorTable(paper_of(given), say, raw=given["raw"], notes=given["notes"])
