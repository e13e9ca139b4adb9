"""`kdump resume` and `kdump undo`."""

from __future__ import annotations

import sys
from typing import Any

import click

from kdump.cli.options.common import fail_on_option, help_option
from kdump.cli.options.help import Command
from kdump.cli.repairing import Repair, gracefully
from kdump.render.commentary import answer, say
from kdump.words.escape import escape


@click.command(
    "resume",
    cls=Command,
    add_help_option=False,
    examples=(
        "kdump resume /backup/20261123T031500Z-orders-0-reindex",
        "kdump resume /backup/*-reindex",
    ),
)
@click.argument("journals", metavar="JOURNAL...", nargs=-1, required=True)
@fail_on_option
@help_option
def resume_command(**given: Any) -> None:  # noqa: ANN401 (click hands over what the arguments above say)
    """Resume a reindex, truncate or patch-header that was interrupted, and check the result.

    JOURNAL is the journal.json of its quarantine, or the directory that holds it. Several are resumed one by one, the
    oldest first. Exit status: 0 done, 3 errors are left, 10 no such journal, 11 in use, 12 refused, 13 failed and
    nothing was changed, 14 failed again, 2 wrong use.
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
    add_help_option=False,
    examples=(
        "kdump undo /backup/20261123T031500Z-orders-0-reindex",
        "kdump undo /backup",
        "kdump undo /backup/*-reindex",
    ),
)
@click.argument("journals", metavar="JOURNAL...", nargs=-1, required=True)
@help_option
def undo_command(**given: Any) -> None:  # noqa: ANN401 (click hands over what the arguments above say)
    """Take back what reindex, truncate or patch-header has done, however far it got.

    JOURNAL is the journal.json of its quarantine, or the directory that holds it; a repair prints the command. A
    quarantine stands for the one repair in it; of several it lists the commands. Several JOURNALs are taken back one by
    one, the newest first. Every file gets back its bytes, its owner, its permissions and its times. Refused when
    somebody else has changed the files since. Exit status: 0 done, 10 no such journal, 11 in use, 12 refused, 13 failed
    and nothing was changed, 14 failed: undo again, 2 wrong use.
    """
    from kdump.repair.apply import Means
    from kdump.repair.journal import newest_first
    from kdump.repair.resume_undo import undo

    repair = Repair({"fail_on": "error", "layout": "text"})
    ordered: list[str] = []
    with repair.interruptible(), repair.guarded():
        ordered += newest_first(given["journals"])
        for number, path in enumerate(ordered, 1):
            with gracefully():
                done = undo(path, Means(finished=repair.finish))
            if done.was_done:
                answer(escape(f"{done.directory}: was undone already; nothing to do"))
            else:
                told = f"undone: {done.directory} is restored"
                answer(escape(told), told, *(f"not undone: {one}" for one in ordered[number:]))
                repair.say_unseen(done.unseen)
    if not ordered and len(given["journals"]) > 1:
        say("kdump: nothing was undone")
    sys.exit(repair.end())
