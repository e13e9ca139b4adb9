"""Rows and tables that are read back are held to what kdump declares, a line at a time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from kdump.export.origin import ManifestError, read_roots
from kdump.rows.carved import CarvedRun
from kdump.rows.json_lines import row_json
from kdump.rows.read_back import rule_of
from kdump.rows.salvaged import Kept, OpenedTransaction, Salvaged
from kdump.rows.verdict import Certainty, Loss
from kdump.storage.json_rows import lines_in, name_of, rows_in
from kdump.storage.json_rules import BadValueError, array_in
from tests.support.measured import cost
from tests.support.partitions import name, segment, write
from tests.support.segments import Record, batch
from tests.support.state_files import KINDS, place_of, problem

if TYPE_CHECKING:
    from pathlib import Path

    from kdump.row import Row

ROWS: list[Row] = [
    Kept("t-0", 0, 9, records=10, source="a", sources=1),
    Loss("p", "t-0", "f", 0, 61, 3, 4, None, Certainty.LOST, ("B01",), ("x",)),
    Salvaged("t-0", ("a\udcff",), 1, 1, 61, 1, 0, 1, 0, 0, (OpenedTransaction(1, 2, 3),)),
    CarvedRun("r", "i", 1, 1, 0, 0, (0,), (-1,), None, 5, ((0, 61), (100, 61)), "log", ("like",), ("t", 0)),
]


def read(data: bytes, *types: type[Row], is_all: bool = False) -> list[dict[str, Any]]:
    rules = {one.row_name: rule_of(one) for one in types}
    return [row for _, row in rows_in(lambda at, size: data[at : at + size], rules, is_all=is_all)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.row_name)
def test_what_kdump_writes_it_reads_back(row: Row) -> None:
    text = row_json(row)
    assert read(f"{text}\n\n{text}".encode(), type(row)) == [json.loads(text)] * 2


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.row_name)
@pytest.mark.parametrize("value", [None, True, -(2**63) - 1, 2**63, 1.5, {}, [], [[]], {"base64": 1}, "\0", "\ud800"])
def test_no_column_takes_what_it_does_not_hold(value: object, row: Row) -> None:
    good = json.loads(row_json(row))
    for key in good:
        if key == "type" or value == good[key]:
            continue
        data = json.dumps({**good, key: value}).encode()
        if value is None and key in ("file", "position", "length", "firstTimestamp", "maxTimestamp", "topicPartition"):
            continue
        if value == [] and isinstance(good[key], list):
            continue  # no source, no reason, no stretch
        with pytest.raises(BadValueError, match=f"line 1: {key}"):
            read(data, type(row))


def test_a_name_that_is_no_text_is_its_bytes() -> None:
    (row,) = read(row_json(ROWS[2]).encode(), Salvaged)
    assert [name_of(one) for one in row["sources"]] == ["a\udcff"]


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 1 << 18])
def test_lines_are_the_same_whatever_is_read_at_once(piece: int) -> None:
    data = b"one\n\ntwo\n" + b"x" * 100 + b"\n\n\nlast"
    found = list(lines_in(lambda at, size: data[at : at + min(size, piece)]))
    assert found == [(1, b"one"), (3, b"two"), (4, b"x" * 100), (7, b"last")]


@pytest.mark.parametrize("data", [b"x" * (9 << 20), b'{"type":"kept",' + b'"a":[' + b"1," * 800_000 + b"1]}"])
def test_a_line_longer_than_kdump_writes_is_refused_before_it_is_read(data: bytes) -> None:
    with pytest.raises(BadValueError, match="has more than"):
        read(data, Kept)


def test_rows_of_other_types_are_passed_over_and_what_is_no_row_is_not_where_all_count() -> None:
    data = b'{"type":"more"}\nno row\n'
    assert read(data, Kept) == []
    with pytest.raises(BadValueError, match="line 2: all of it is no JSON"):
        read(data, Kept, is_all=True)


@pytest.mark.parametrize("data", [b"[]", b" [ ] ", b'[{"a":[1,2]}]', b'\n[{"a":1} ,\t{"b":"]"}]\r\n'])
def test_an_array_is_read_an_object_at_a_time(data: bytes) -> None:
    assert list(array_in(data)) == json.loads(data)


@pytest.mark.parametrize(
    "data", [b"[", b"[,]", b"[1]", b"[{}", b"[{},]", b"[{}{}]", b"[{}]x", b"[{}]]", b"[[]]", b"[{" * 90_000, b"[\xff]"]
)
def test_what_is_no_array_of_objects_is_refused(data: bytes) -> None:
    with pytest.raises(BadValueError):
        list(array_in(data))


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("m.json", '[{"path":["a"]}]', "row 1: path is an array, not text"),
        ("m.json", '{"path":"a","host":{}}\n{"path":"b","host":{"a":1}}', "row 1: host is an object, not text"),
        ("m.json", '{"path":"' + "a" * 5000 + '"}', "row 1: path has more than 4096 bytes"),
        ("m.json", '{"path":"a\\u0000"}', "row 1: path has a NUL"),
        ("m.json", '[{"path":"a","host":1e400}]', "row 1: host is a number, not text"),
        ("m.csv", "path\n" + "a\n" * 250_001, "has more than 250000 rows"),
        ("m.csv", 'path\n"' + "a" * 200_000, "field larger than field limit"),
        ("m.csv", "host\nh\n", "row 1 has no path"),
    ],
)
def test_a_manifest_has_rows_of_text_and_no_more_than_can_be_held(
    file: str, text: str, why: str, tmp_path: Path
) -> None:
    (tmp_path / file).write_text(text)
    with pytest.raises(ManifestError, match=why):
        read_roots([str(tmp_path / file)])


@pytest.mark.parametrize("row", ['{"path":"a"},', '{"path":"a","x":[[],[],[],[],[],[],[],[],[],[]]},'])
def test_a_manifest_of_megabytes_is_read_in_the_bounds(row: str, tmp_path: Path) -> None:
    """8 MB once took 1.16 GB."""
    (tmp_path / "m.json").write_text("[" + row * (8_000_000 // len(row)) + '{"path":"a"}]')
    done = cost("verify", "m.json", cwd=tmp_path, seconds=60)
    assert done.status == 2
    assert b": no manifest: " in done.err
    assert done.memory < 300


def test_a_list_of_runs_of_70_mb_is_read_a_line_at_a_time(tmp_path: Path) -> None:
    """It was held whole: 503 MB."""
    row = row_json(
        CarvedRun(f"run-1-{name(0)}", "i", 1, 1, 0, 0, (0,), (-1,), None, 5, ((0, 61),), "log", ("like",), ("t", 0))
    )
    place = write(tmp_path / "place", {})
    write(place / "runs", segment(0, [batch(0, [Record()])]))
    (place / "runs" / name(0)).rename(place / "runs" / f"run-1-{name(0)}")
    (place / "runs" / "carve.jsonl").write_text(f"{row}\n" * (70_000_000 // len(row)))
    done = cost("salvage", "runs", "--to", "out", cwd=place, seconds=120)
    assert done.status == 0
    assert (place / "out" / "t-0").is_dir(), "what the list says counts"
    assert done.memory < 120


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_state_file_leads_nowhere(kind: str, tmp_path: Path) -> None:
    ready = place_of(kind, tmp_path / "ready")
    for seed in range(4):
        (tmp_path / str(seed)).mkdir()
        assert problem(kind, seed, tmp_path / str(seed), ready) is None
