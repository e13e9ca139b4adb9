"""Rows are declared once: JSON, tables, redaction and the manual follow from that."""

from __future__ import annotations

import io
import json

import pytest

from kdump.export import tables
from kdump.redact import Redactor
from kdump.row import Column, Kind, Row, camel, column, computed
from kdump.rows.json_lines import row_json
from kdump.rows.verdict import Certainty, Loss
from tests.support import json_manual

LOST = Loss("data/orders-0", "orders-0", None, None, None, 5, 6, 2, Certainty.LOST, ("L04",))


class Lag(Row, name="lag"):
    """How far a group is behind."""

    group: str = column(Kind.NAME, "the group")
    path: str
    last_offset: int | None = column(Kind.OFFSET, "the last one that was read", default=None)
    parts: tuple[int, ...] = column(Kind.NUMBER, "of it", default=())

    @computed(Kind.SIZE, "of the name", key="bytes")
    def size(self) -> int:
        """Bytes of the name."""
        return len(self.group)


def test_a_column_has_the_name_of_its_attribute_and_the_order_of_the_body() -> None:
    assert [one.key for one in Lag.columns] == ["group", "lastOffset", "parts", "bytes"]
    assert [one.is_optional for one in Lag.columns] == [False, True, False, False]
    assert [one.is_list for one in Lag.columns] == [False, False, True, False]
    assert camel("first_log_end_offset_") == "firstLogEndOffset"


def test_a_field_with_a_column_is_a_field_like_others() -> None:
    row = Lag("g", "p")
    assert (row.last_offset, row.parts, row.size) == (None, (), 1)
    assert row == Lag("g", path="p", last_offset=None)
    assert row.replace(last_offset=3).last_offset == 3
    assert row_json(row) == '{"type":"lag","group":"g","lastOffset":null,"parts":[],"bytes":1}'
    with pytest.raises(TypeError):
        Lag("g", "p", 1, (), 1)  # type: ignore[call-arg]


@pytest.fixture
def more(monkeypatch: pytest.MonkeyPatch) -> Column:
    """A column more of `loss`: the path of the partition directory, which no user is shown otherwise."""
    made = Column(Kind.PATH, "the partition directory", None, (), "directory", None)
    made.named("path", "str")
    monkeypatch.setattr(Loss, "columns", (*Loss.columns, made))
    monkeypatch.setattr("kdump.rows.json_lines._ENCODERS", {})
    monkeypatch.setitem(tables.TABLES, "losses", tables.PLACE + tables._columns(Loss))
    return made


@pytest.mark.usefixtures("more")
def test_a_column_that_is_declared_is_in_json_and_in_the_manual() -> None:
    assert json.loads(row_json(LOST))["directory"] == "data/orders-0"
    page = json_manual.with_schemas(json_manual.PAGE.read_text("ascii"))
    assert '  "directory": {"$ref": "bytes"}\n' in page


@pytest.mark.usefixtures("more")
def test_a_column_that_is_declared_is_in_every_table_and_redacted_by_what_it_holds() -> None:
    pa = pytest.importorskip("pyarrow")
    from kdump.export.arrow import from_rows, schema_of
    from kdump.export.redact import redacted
    from kdump.export.verdicts import placed
    from kdump.export.write import _csv

    columns = tables.columns_of("losses")
    assert columns[-1].name == "directory"
    place: dict[str, object] = dict.fromkeys([one.name for one in tables.PLACE])
    batch = from_rows([placed(LOST, place)], columns)
    assert schema_of(columns).field("directory").type == pa.string()
    assert batch.column("directory").to_pylist() == ["data/orders-0"]
    redactor = Redactor(b"key")
    shown = redacted(batch, "losses", columns, redactor).column("directory").to_pylist()
    assert shown == [f"data/{redactor.token('orders')}-0"]
    file = io.BytesIO()
    _csv(file, "losses", columns, False).write(batch)
    assert file.getvalue().splitlines()[0].endswith(b",directory")


@pytest.mark.usefixtures("more")
def test_a_column_that_is_declared_is_in_the_schema_of_spark() -> None:
    pytest.importorskip("pyspark")
    from kdump.spark.source import spark_schema

    assert spark_schema(tables.columns_of("losses"))["directory"].dataType.simpleString() == "string"


def test_the_manual_has_the_schemas_of_the_rows() -> None:
    page = json_manual.PAGE.read_text("ascii")
    assert json_manual.with_schemas(page) == page, "python -m tests.support.json_manual"
    assert set(json_manual.BY_HAND) < json_manual.row_types().keys()


def test_every_column_has_a_doc_that_is_a_phrase() -> None:
    for name, of in json_manual.row_types().items():
        for one in of.columns:
            assert one.doc, (name, one)
            assert not one.doc.endswith("."), (name, one)
            assert one.doc[0].islower() or one.doc.startswith(("Kafka", "-1", "UNREAD")), (name, one)
