"""`kdump resume`."""

from __future__ import annotations

import sys
from typing import Any

import click

from kdump.cli.options.common import fail_on_option, help_option
from kdump.cli.repairing import Repair, gracefully
from kdump.render.escape import escape


@click.command("resume", add_help_option=False, short_help="Go on with a repair that was ended in the middle.")
@click.argument("journal", metavar="JOURNAL")
@fail_on_option
@help_option
def command(**given: Any) -> None:  # noqa: ANN401 (click hands over what the arguments above say)
    """Go on with a reindex, truncate or patch-header that was ended in the middle, and check the result.

    JOURNAL is the journal.json of its quarantine. Exit status: 0 done, 3 errors are left, 10 no such journal, 11 in
    use, 12 refused, 13 failed and nothing was changed, 14 failed again, 2 wrong use.
    """
    from kdump.repair.resume_undo import resume

    repair = Repair({**given, "layout": "text"})
    with repair.guarded():
        with gracefully():
            done = resume(given["journal"])
        click.echo(escape(f"done: {done.directory}"))
        repair.say_unseen(done.unseen)
        repair.check(done.checked)
    sys.exit(repair.end())
