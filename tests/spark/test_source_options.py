"""The options of the data source: each is read by one table, and what cannot be meant is one line."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from kdump.export.tables import SPLIT_TABLES, TABLES
from kdump.spark.source_options import OPTIONS, OptionError, SourceOptions
from tests.support.fleet import NODE
from tests.support.runs import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path


def options(**given: str) -> SourceOptions:
    return SourceOptions({"path": str(NODE), **given})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"table": "records", "decoder": "nonsense"}, "option decoder: 'nonsense': is none: there are auto, none,"),
        ({"table": "findings", "shallow": "yes"}, "option shallow: 'yes': is none: there are true, false"),
        ({"fromTime": "1m"}, "option fromTime: '1m': "),
        ({"toTime": "soon"}, "option toTime: 'soon': "),
        ({"fromOffset": "1k"}, "option fromOffset: '1k': is not an offset"),
        ({"fromOffset": "9" * 5000}, "is not an offset"),
        ({"splitSize": "many"}, "option splitSize: 'many': is not a number of bytes"),
        ({"splitSize": f"{2**62}g"}, "is not a number of bytes"),
        ({"minPartitions": "-1"}, "option minPartitions: '-1': is not a number"),
        ({"timestamps": "1"}, "option timestamps: '1': is none: there are true, false"),
        ({"mode": "lenient"}, "option mode: 'lenient': is none: there are failfast, permissive"),
        ({"table": "findings", "fromOffset": "3"}, "option fromOffset: is for batches, records, and not for findings"),
        ({"table": "batches", "shallow": "true"}, "option shallow: is for findings, segments"),
        ({"table": "batches", "decoder": "auto"}, "option decoder: is for records, and not for batches"),
        ({"colums": "offset"}, "no option 'colums': there are path, paths, table"),
        ({"paths": '{"a": 1}'}, "is no list of paths"),
        ({"paths": "["}, "option paths: "),
        ({"table": "rows"}, "no table 'rows': there are batches, records"),
        ({"owner": "me"}, "CREATE TEMPORARY VIEW"),
    ],
)
def test_what_an_option_cannot_mean_is_a_line(given: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        options(**given)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1700000000000", 1700000000000), ("2023-11-14T22:13:20Z", 1700000000000), ("2023-11-14", 1699920000000)],
)
def test_times_are_those_of_the_command_line(text: str, expected: int) -> None:
    assert options(fromTime=text, toTime=text).wanted.times == (expected, expected)


def test_a_relative_time_is_read_once() -> None:
    """The tasks get what the planner took it for."""
    made = options(fromTime="now-2h")
    assert made.wanted.times == made.wanted.times


def test_names_are_read_without_regard_to_case_and_sparks_own_pass() -> None:
    made = options(FROMOFFSET="3", **{"spark.sql.x": "y", "__hidden": "z"})
    assert made.wanted.offsets == (3, None)


@pytest.mark.parametrize("table", TABLES)
def test_every_option_says_for_which_tables_it_is(table: str) -> None:
    texts = {"table": table, "paths": "[]", "columns": "topic", "mode": "permissive", "decoder": "none"}
    texts["onLoss"] = "skip"
    texts |= dict.fromkeys(("schemas", "keySchema", "valueSchema"), str(FIXTURES / "schemas" / "payloads.json"))
    for one in OPTIONS:
        text = texts.get(one.name, "true" if "flag" in one.read.__name__ else "3")
        if table in one.tables:
            options(**{"table": table, one.name: text})
        else:
            assert table not in SPLIT_TABLES or one.name in (
                "decoder",
                "schemas",
                "keySchema",
                "valueSchema",
                "key",
                "keyRegex",
                "shallow",
                "contiguous",
                "noResync",
            )
            with pytest.raises(OptionError, match=f"option {one.name}: is for"):
                options(**{"table": table, one.name: text})


def test_the_manual_names_every_option() -> None:
    """Those of a stream are on the page of streams."""
    page, streams = ((FIXTURES.parent / "man" / one).read_text("ascii") for one in ("kdump-export.1", "kdump-spark.7"))
    section = page[page.index(".SH THE DATA SOURCE") : page.index(".SH OPTIONS")]
    known = {False: section, True: streams[streams.index(".SH OPTIONS") :]}
    assert [one.name for one in OPTIONS if one.name not in known[one.is_of_streams] and one.name != "paths"] == []


@pytest.mark.parametrize("table", ["batches", "findings", "usage", "unread"])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"topics": "plain,nope"}, "option topics: nothing is 'nope'; here are"),
        ({"topics": "pl?n"}, "option topics: nothing is 'pl?n'; here are"),
        ({"partitions": "plain-7"}, "option partitions: nothing is 'plain-7'; here are"),
    ],
)
def test_a_topic_that_is_not_there_is_no_empty_table(table: str, given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as raised:
        options(table=table, **given).demand_selected()
    assert said in str(raised.value)


def test_patterns_of_topics_and_partitions_are_taken() -> None:
    made = options(topics="pl*,z[rst]td", partitions="*-0")
    made.demand_selected()
    names = [("plain", 0), ("zstd", 0), ("txn", 0), ("plain", 1), (None, None)]
    found = [made.wanted.has_row({"topic": topic, "partition": number}) for topic, number in names]
    assert found == [True, True, False, False, False]


def test_a_directory_of_log_directories_stands_for_these(tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(NODE / "plain-0", tmp_path / "disks" / name / "plain-0")
    made = SourceOptions({"path": str(tmp_path / "disks")})
    assert [root.path for root in made.roots] == [str(tmp_path / "disks" / name) for name in ("a", "b")]
    (tmp_path / "m.json").write_text('[{"host": "h", "log.dir": "/data", "path": "disks"}]')
    made = SourceOptions({"path": str(tmp_path / "m.json")})
    assert [(root.host, root.log_dir) for root in made.roots] == [("h", "/data/a"), ("h", "/data/b")]
    alone = SourceOptions({"path": str(tmp_path / "disks" / "a")})
    assert [root.path for root in alone.roots] == [str(tmp_path / "disks" / "a")]


@pytest.mark.parametrize("text", ["[" * 100_000, "[1]", "{}", "no JSON", '["a"'])
def test_several_paths_are_a_list_of_texts_or_one_line_says_so(text: str) -> None:
    with pytest.raises(OptionError, match="option paths: ") as raised:
        SourceOptions({"paths": text})
    assert len(str(raised.value).splitlines()) == 1
    assert len(str(raised.value)) < 400
