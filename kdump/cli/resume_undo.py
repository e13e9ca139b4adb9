"""`kdump resume` and `kdump undo`."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from kdump.cli.options.common import fail_on_option, help_option, jobs_option
from kdump.cli.options.help import Command
from kdump.cli.options.repair import apply_option
from kdump.cli.options.terminal import fitter_of_stdout
from kdump.cli.repairing import Repair, gracefully
from kdump.render.commentary import answer, say, write
from kdump.words.command import command_line, named
from kdump.words.escape import escape


@click.command(
    "resume",
    cls=Command,
    usual=("-j", "--fail-on"),
    add_help_option=False,
    examples=(
        "kdump resume /backup/20261123T031500Z-orders-0-reindex",
        "kdump resume /backup/*-reindex",
    ),
)
@click.argument("journals", metavar="JOURNAL...", nargs=-1, required=True)
@jobs_option
@fail_on_option
@help_option
def resume_command(**given: Any) -> None:  # noqa: ANN401 (click hands over what the arguments above say)
    """Resume a repair, reindex, truncate or patch-header that was interrupted, and check the result.

    JOURNAL is the journal.json of its quarantine, or the directory that holds it. Several are resumed one by one,
    the oldest first.
    """
    from kdump.repair.journal import newest_first

    repair = Repair({**given, "layout": "text"})
    ordered: list[str] = []
    with repair.interruptible():
        with repair.guarded():
            ordered += reversed(newest_first(given["journals"]))
        for path in ordered:
            _resume(repair, path)
            if repair.has_failed:
                break
    sys.exit(repair.end())


def _resume(repair: Repair, path: str) -> None:
    from kdump.repair.apply import Means
    from kdump.repair.resume_undo import resume

    with repair.guarded():
        with gracefully():
            done = resume(path, Means(finished=repair.finish))
        if done.was_done:
            answer(escape(f"{done.directory}: was done already; nothing to do"))
        else:
            answer(escape(f"done: {done.directory}"), f"the repair of {done.directory} is done")
            repair.say_unseen(done.unseen)
            repair.wrote(done.patched)
        repair.check(done.checked)


@click.command(
    "undo",
    cls=Command,
    usual=("--apply",),
    add_help_option=False,
    examples=(
        "kdump undo /backup/20261123T031500Z-orders-0-reindex",
        "kdump undo /backup/20261123T031500Z-orders-0-reindex --apply",
        "kdump undo /backup/*-reindex --apply",
    ),
)
@click.argument("journals", metavar="JOURNAL...", nargs=-1, required=True)
@apply_option
@help_option
def undo_command(**given: Any) -> None:  # noqa: ANN401 (click hands over what the arguments above say)
    """Undo what repair, reindex, truncate or patch-header has done, however far it got.

    JOURNAL is the journal.json of its quarantine, or the directory that holds it; a repair prints the command. Without
    --apply nothing is changed, and what would be restored is shown. A quarantine stands for the one repair in it; of
    several it lists the commands. Several JOURNALs are taken back one by one, the newest first. Every file gets back
    its bytes, its owner, its permissions and its times. Refused when somebody else has changed the files since.
    """
    from kdump.repair.journal import newest_first

    repair = Repair({**given, "fail_on": "error", "layout": "text"})
    ordered: list[str] = []
    with repair.interruptible(), repair.guarded():
        ordered += newest_first(given["journals"])
        (_undo if given["wants_apply"] else _foresee)(repair, ordered)
    if not ordered and len(given["journals"]) > 1:
        say("kdump: nothing was undone")
    sys.exit(repair.end())


def _undo(repair: Repair, ordered: list[str]) -> None:
    from kdump.repair.apply import Means
    from kdump.repair.resume_undo import undo

    for number, path in enumerate(ordered, 1):
        with gracefully():
            done = undo(path, Means(finished=repair.finish))
        if done.was_done:
            answer(escape(f"{done.directory}: was undone already; nothing to do"))
        else:
            told = f"undone: {done.directory} is restored"
            answer(escape(told), told, *(f"not undone: {one}" for one in ordered[number:]))
            repair.say_unseen(done.unseen)


def _foresee(repair: Repair, ordered: list[str]) -> None:
    """Show what would be restored; a repair before another one of its directory is told as its journal has it."""
    from kdump.repair.resume_undo import foreseen, recorded

    fit = fitter_of_stdout()
    met: set[str] = set()  # directories
    pending: list[str] = []
    for path in ordered:
        directory, names = recorded(path)
        if directory not in met:
            done, names = foreseen(path)
            if done.was_done:
                answer(escape(f"{directory}: was undone already; nothing to do"))
                continue
            repair.say_unseen(done.unseen)
        met.add(directory)
        pending.append(path)
        for name in names:
            write(fit(f"would restore {escape(os.path.join(directory, name))}\n"))
    if pending:
        repair.outcome.pending = True
        answer(f"nothing was changed; to do it: {command_line('undo', *map(named, pending), '--apply')}")
