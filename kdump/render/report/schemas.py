"""What a schema registry has, for people: a table of schemas, then what changed its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.dispatch import takes
from kdump.render.coordinators import CoordinatorSink
from kdump.render.report.columns import TableColumn, texts, write_sentence, write_table
from kdump.render.report.sink import TableSink
from kdump.render.report.styled import Text
from kdump.rows.schemas import SchemaRow, SettingRow
from kdump.words.times import moment

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.render.report.styled import Paper

_SCHEMAS = (
    TableColumn("subject", shrink=True),
    TableColumn("version", right=True),
    TableColumn("id", right=True),
    TableColumn("type"),
    TableColumn("compatibility", drop=2),
    TableColumn("registered", drop=1),
    TableColumn("at", right=True),
    TableColumn("notes", shrink=True),
)
_SETTINGS = (
    TableColumn("at", right=True),
    TableColumn("when"),
    TableColumn("subject", shrink=True),
    TableColumn("setting"),
    TableColumn("value"),
)
_ALL = "all subjects"


class SchemasTable(CoordinatorSink, TableSink):
    """Writes the tables.

    Args:
        paper: what they are written on.
        error: takes one line for stderr.
        raw: write names as they are.
        notes: list notes; else they are counted.
    """

    def __init__(self, paper: Paper, error: Callable[[str], None], *, raw: bool, notes: bool = False) -> None:
        super().__init__(paper, error, raw=raw, notes=notes)
        self._schemas: list[SchemaRow] = []
        self._settings: list[SettingRow] = []

    @takes(SchemaRow)
    def _schema(self, row: SchemaRow) -> None:
        self._schemas.append(row)

    @takes(SettingRow)
    def _setting(self, row: SettingRow) -> None:
        self._settings.append(row)

    def end(self, status: int) -> None:
        """Write the tables, and what was not listed."""
        if self._schemas:
            write_table(self._paper, _SCHEMAS, [texts(self._cells(row)) for row in self._schemas])
        if self._settings:
            if self._schemas:
                self._paper.line(Text(""))
            write_sentence(self._paper, Text("settings, as they were changed"))
            write_table(self._paper, _SETTINGS, [texts(self._change(row)) for row in self._settings])
        self._conclude()

    def _cells(self, row: SchemaRow) -> list[str]:
        notes = [f"needs {one.subject} version {one.version}" for one in row.references]
        if row.deleted:
            notes.insert(0, "deleted" if row.deleted_offset is None else f"deleted at {row.deleted_offset}")
        cells = (
            row.subject,
            _number(row.version),
            _number(row.id),
            row.schema_type,
            row.compatibility or "",
            "" if row.timestamp is None else moment(row.timestamp) or "",
            _number(row.offset),
            ", ".join(notes),
        )
        return [self._safe(cell) for cell in cells]

    def _change(self, row: SettingRow) -> list[str]:
        when = moment(row.timestamp) or ""
        cells = (str(row.offset), when, row.subject or _ALL, row.setting, row.value or "removed")
        return [self._safe(cell) for cell in cells]


def _number(number: int | None) -> str:
    return "" if number is None else str(number)
