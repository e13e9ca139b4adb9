"""`kdump schemas`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from kdump.cli.options.common import (
    fail_on_option,
    format_option,
    help_option,
    limits_of,
    max_batch_bytes_option,
    max_uncompressed_bytes_option,
    notes_option,
    quiet_option,
    raw_option,
)
from kdump.cli.options.help import Command, option
from kdump.cli.options.terminal import color_option, paper_of
from kdump.cli.show import show
from kdump.dispatch import takes
from kdump.exit_status import RunStatus
from kdump.render.commentary import say, write
from kdump.rows.schemas import SchemaRow
from kdump.tally import Tally

if TYPE_CHECKING:
    from kdump.cli.show import Sink


@click.command(
    "schemas",
    cls=Command,
    usual=("--subject", "--format"),
    add_help_option=False,
    examples=(
        "kdump schemas /data",
        "kdump schemas /data/_schemas-0 --subject orders-value --format json",
    ),
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@option(
    "--subject",
    "subjects",
    group="Selection",
    multiple=True,
    metavar="NAME",
    help="Only this subject; may be given again.",
)
@format_option
@notes_option
@quiet_option
@color_option
@raw_option
@max_batch_bytes_option
@max_uncompressed_bytes_option
@fail_on_option
@help_option
def command(**given: Any) -> None:  # noqa: ANN401 (click hands over what the options above say)
    """Show which schemas a registry has: subjects, versions, ids, references, settings, and what was deleted.

    PATH is a log.dir with _schemas, the partition directory of a registry's log, a directory of schema files, or one
    file. The log is read as the registry loads it; deleted schemas stay. Nothing is fetched from a network.
    """
    from kdump.state.schemas import schemas

    paths = [os.fspath(path) for path in given["paths"]]
    outcome = _SchemasStatus(given["fail_on"], compat=False)
    wanted = frozenset(given["subjects"])
    items = schemas(paths, limits_of(given))
    if wanted:
        items = (one for one in items if getattr(one, "subject", None) in wanted or not hasattr(one, "subject"))
    show(items, _sink(given), outcome, None)
    if not outcome.is_found:
        what = f"no schema of {', '.join(sorted(wanted))}" if wanted else "no schema"
        say(f"kdump: {what} was found")
    sys.exit(outcome.exit)


class _SchemasStatus(RunStatus):
    """The exit status: a registry without a schema has no answer."""

    is_found = False

    @takes(SchemaRow)
    def _schema(self, _row: SchemaRow) -> None:
        self.is_found = True

    @property
    def exit(self) -> Any:  # noqa: ANN401 (as of any run)
        """The exit status, once all items were seen."""
        if not self.is_found:
            self.nothing()
        return super().exit


def _sink(given: dict[str, Any]) -> Sink:
    if given["layout"] != "text":
        from kdump.render.schema_rows import SchemaRows
        from kdump.rows.layout import LAYOUTS

        return SchemaRows(write, say, Tally(), layout=LAYOUTS[given["layout"]])
    from kdump.render.report.schemas import SchemasTable

    return SchemasTable(paper_of(given), say, raw=given["raw"], notes=given["notes"])
