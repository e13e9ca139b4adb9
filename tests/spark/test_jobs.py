"""`--engine spark` on real Spark: text, exit status and files are those of the local engine."""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING

import duckdb
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kdump.checks.options import VerifyOptions
from kdump.checks.run import verify
from kdump.cli.main import kdump
from kdump.export.job import ExportTarget, plan_of
from kdump.export.origin import Origins
from kdump.export.read import ReadOptions
from kdump.export.split import WantedLogs, logs_of
from kdump.export.tables import columns_of
from kdump.item import Progress
from kdump.spark import jobs as spark_jobs
from kdump.spark.errors import SparkFailedError
from tests.support.consoles import plain, run_section, sections
from tests.support.fleet import NODE
from tests.support.runbook_scenes import SCENES
from tests.support.runs import FIXTURES
from tests.support.tables import sorted_rows, split_table

if TYPE_CHECKING:
    from pathlib import Path

    import click.testing
    from pyspark.sql import SparkSession

    from kdump.export import job

pytestmark = pytest.mark.usefixtures("spark")


def run(*args: str | Path) -> click.testing.Result:
    """Run kdump in this process, where the session is; none of its runs may end with a traceback."""
    result = CliRunner().invoke(kdump, list(map(str, args)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return result


@pytest.mark.parametrize("layout", ["text", "json", "html"])
def test_verify_says_what_the_local_engine_says(layout: str, tree: list[str]) -> None:
    options = ("--format", layout, "--start", "clean", "--now", "1795000000000")
    local = run("verify", *options, *tree)
    there = run("verify", "--engine", "spark", *options, *tree)
    assert there.stdout == local.stdout
    assert there.exit_code == local.exit_code == 6


def test_replicas_are_compared_in_tasks() -> None:
    folders = sorted(path for path in FIXTURES.glob("replica-*") if path.is_dir())
    assert len(folders) == 3
    for folder in folders:
        paths = [folder / path for path in json.loads((folder / "expect.json").read_text())["paths"]]
        local = run("verify", "--replicas", "--notes", *paths)
        assert "D0" in local.stdout
        assert run("verify", "--replicas", "--notes", "--engine", "spark", *paths).stdout == local.stdout


def test_the_bad_disk_is_named(tree: list[str], tmp_path: Path) -> None:
    rows = [{"host": f"broker-{k % 3}", "log.dir": f"/data/{k}", "path": path} for k, path in enumerate(tree)]
    manifest = tmp_path / "fleet.json"
    manifest.write_text(json.dumps(rows))
    done = run("verify", "--engine", "spark", "--out", tmp_path / "out", manifest)
    assert done.exit_code == 6
    summary = pq.read_table(tmp_path / "out" / "summary").to_pylist()
    worst = max(summary, key=lambda row: row["errors"])
    assert (worst["host"], worst["logDir"]) in {(row["host"], row["log.dir"]) for row in rows}
    said = [line for line in done.stderr.splitlines() if re.fullmatch(r"kdump: broker-\d:/data/\d+: \d+ of .*", line)]
    assert len(said) == len(tree)
    bad = [int(re.search(r": (\d+) of", line)[1]) for line in said]  # type: ignore[index]
    assert bad == sorted(bad, reverse=True)
    assert bad[0] > bad[-1] == 0
    findings = pq.read_table(tmp_path / "out" / "findings").to_pylist()
    assert sum(row["severity"] == "error" for row in findings) == sum(row["errors"] for row in summary)


@pytest.mark.parametrize("table", ["records", "batches", "findings", "segments", "usage"])
def test_both_engines_export_the_same_files(table: str, tree: list[str], tmp_path: Path) -> None:
    local = run("export", "--engine", "local", "--table", table, "--to", tmp_path / "local", *tree)
    there = run("export", "--engine", "spark", "--table", table, "--to", tmp_path / "spark", *tree)
    assert (there.exit_code, there.stdout) == (local.exit_code, local.stdout)
    assert _files(tmp_path / "spark") == _files(tmp_path / "local")
    assert _files(tmp_path / "spark")


def _files(target: Path) -> dict[str, bytes]:
    paths = [path for path in target.rglob("*") if path.is_file() and "_kdump" not in path.parts]
    return {str(path.relative_to(target)): path.read_bytes() for path in paths}


def test_an_export_goes_on_with_the_other_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kdump.export import job as jobs

    writing, calls = jobs.write_part, []

    def killed(part: job.ExportPart, target: job.ExportTarget, options: ReadOptions) -> job.Result:
        calls.append(part.name)
        if len(calls) == 9:
            raise KeyboardInterrupt
        return writing(part, target, options)

    with monkeypatch.context() as patch:
        patch.setattr(jobs, "write_part", killed)
        CliRunner().invoke(kdump, ["export", "--to", str(tmp_path / "out"), str(NODE)])
    before = _files(tmp_path / "out")
    assert len(calls) == 9
    assert len(before) == 8
    assert run("export", "--engine", "spark", "--to", tmp_path / "out", NODE).exit_code == 0
    assert run("export", "--to", tmp_path / "whole", NODE).exit_code == 0
    after = _files(tmp_path / "out")
    assert after == _files(tmp_path / "whole")
    assert before.items() <= after.items()


def test_an_export_has_the_sums_of_the_log_in_other_readers(spark: SparkSession, tmp_path: Path) -> None:
    target = tmp_path / "out"
    assert run("export", "--engine", "spark", "--to", target, NODE).exit_code == 0
    local = split_table([str(NODE)], "records", columns=["topic", "offset", "valueSize", "timestamp"])
    expected: dict[str, list[int]] = {}
    for row in local.to_pylist():
        sums = expected.setdefault(row["topic"], [0, 0, 0])
        sums[0] += 1
        sums[1] += row["offset"]
        sums[2] += max(0, row["valueSize"])
    query = 'SELECT topic, count(*), sum("offset"), sum(greatest(0, valueSize)) FROM {} GROUP BY topic'
    with duckdb.connect() as duck:
        files = f"read_parquet('{target}/topic=*/*/*.parquet', hive_partitioning = true)"
        by_duck = {row[0]: list(map(int, row[1:])) for row in duck.sql(query.format(files)).fetchall()}
    assert by_duck == expected
    by_arrow = pq.read_table(target).group_by("topic").aggregate([("offset", "sum"), ("offset", "count")]).to_pylist()
    assert {row["topic"]: [row["offset_count"], row["offset_sum"]] for row in by_arrow} == {
        topic: sums[:2] for topic, sums in expected.items()
    }
    spark.read.parquet(str(target)).createOrReplaceTempView("exported")
    by_spark = spark.sql(query.format("exported").replace('"', "`")).collect()
    assert {row[0]: list(row[1:]) for row in by_spark} == expected


def test_the_numbers_are_those_of_kdump_dump(tmp_path: Path) -> None:
    """Each record line that dump prints is a row."""
    log = NODE / "plain-0" / "00000000000000000000.log"
    printed = run("dump", "--deep-iteration", log).stdout.count("| offset:")
    done = run("export", "--engine", "spark", "--to", tmp_path / "out", log)
    assert json.loads(done.stdout)["rows"] == printed


def test_the_stages_are_told_while_they_run(spark: SparkSession, large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_jobs, "_OFTEN", 0.005)
    items = list(verify([str(large)], VerifyOptions(progress=True), spark_jobs.VerifyEngine(spark)))
    told = [item for item in items if isinstance(item, Progress)]
    assert told
    assert all(re.match(r"stage \d+: \d+ of 1 tasks", one.path) for one in told)
    assert [item for item in items if not isinstance(item, Progress)] == list(verify([str(large)], VerifyOptions()))


def test_a_job_that_fails_says_so_in_a_line(spark: SparkSession, tmp_path: Path) -> None:
    """NoAnswer to write: that is no fault of the files, so it is not passed over."""
    columns = columns_of("records", ["offset"])
    plan = plan_of(logs_of([str(NODE / "plain-0")], Origins([]), WantedLogs()), 1 << 30)
    (tmp_path / "file").write_text("in the way")
    target = ExportTarget(str(tmp_path / "file"), "parquet", "records", columns)
    with pytest.raises(SparkFailedError) as caught:
        list(spark_jobs.ExportEngine(spark).write(plan.parts, target, ReadOptions("records", columns)))
    assert str(caught.value).startswith("the Spark job 'export' failed: ")
    assert "\n" not in str(caught.value)


# --- a store ------------------------------------------------------------------------------------------------
def test_a_bucket_has_the_rows_of_the_same_files_here(spark: SparkSession, store: str, tmp_path: Path) -> None:
    """Against a real S3 server: tables, and verify, which runs on Spark by itself where paths are not local."""
    import boto3

    client = boto3.client("s3", endpoint_url=store)
    client.create_bucket(Bucket="dumps")
    here = tmp_path / "logdir"
    for topic in ("plain-0", "txn-0"):
        for path in (NODE / topic).iterdir():
            data = path.read_bytes()
            if path.name == "00000000000000000123.log":
                data = data[:500] + random.Random(2).randbytes(50) + data[550:]
            (here / topic).mkdir(parents=True, exist_ok=True)
            (here / topic / path.name).write_bytes(data)
            client.put_object(Bucket="dumps", Key=f"logdir/{topic}/{path.name}", Body=data)
    _compare(spark, str(here), "s3://dumps/logdir")


def _compare(spark: SparkSession, here: str, url: str) -> None:
    for table in ("batches", "segments"):
        frame = spark.read.format("kafka-segments").option("table", table)
        there = [row.replace(url, here) for row in sorted_rows(frame.load(url).toArrow())]
        assert there == sorted_rows(frame.load(here).toArrow())
        assert there
    local = run("verify", "--format", "lines", here)  # each fact of any length in one line
    assert "B01" in local.stdout
    there_said = run("verify", "--format", "lines", url)
    assert there_said.stdout.replace(url, here) == local.stdout
    assert there_said.exit_code == local.exit_code == 3
    assert run("verify", "s3://dumps/nothing").exit_code == 10


# --- what the manual answers --------------------------------------------------------------------------------
def test_the_answers_of_the_manual(tmp_path: Path) -> None:
    """Its paths are made absolute: relative ones begin where the session was started."""
    text = sections("kdump-export.1")["THE DATA SOURCE"]
    code, expected = (plain(block) for block in re.findall(r"(?ms)^\.EX\n(.*?)^\.EE$", text))
    code = code.replace('"disk', f'"{tmp_path}/disk').replace('"fixtures', f'"{FIXTURES}')
    printed: list[str] = []
    exec(code, {"print": lambda *words: printed.append(" ".join(map(str, words)))})
    assert "\n".join(printed).replace(f"{tmp_path}/", "").split("\n") == expected.rstrip("\n").split("\n")


def test_the_runbook_of_a_fleet_does_what_it_says(tmp_path: Path) -> None:
    title = "CHECKING A FLEET EVERY NIGHT"
    run_section("kdump-runbooks.7", title, tmp_path, SCENES[title])
