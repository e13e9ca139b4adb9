"""Paths that people have: the configuration of a broker, stdin and other streams, and none at all."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kdump
from kdump.storage import streams
from kdump.storage.file_source import OpenFailure
from kdump.storage.open_files import STREAMS, open_source
from kdump.storage.server_properties import NodeSettings, node_settings
from kdump.storage.this_host import FoundBroker, brokers_here
from tests.support.partitions import below, meta, name, segment, write
from tests.support.runs import Run, run_kdump
from tests.support.segments import batch

if TYPE_CHECKING:
    from collections.abc import Iterator

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(kdump.__file__).parent.parent)}
LOG = b"".join(batch(offset, [b"value"]) for offset in range(40, 50))


def log_dir(root: Path, topic: str = "t") -> Path:
    files = {".kafka_cleanshutdown": b"", "meta.properties": meta(1)}
    return write(root, files | below(f"{topic}-0", segment(0, [batch(0), batch(1)])))


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A host with a broker of two log directories, and its metadata log in a third."""
    for one in ("a", "b", "meta"):
        log_dir(tmp_path / one, one)
    config = f"# of a broker\nprocess.roles = broker\nlog.dirs={tmp_path}/a , {tmp_path}/b\n"
    more = f"metadata.log.dir={tmp_path}/meta\nlog.dir=/nowhere\nlog.retention.hours=3\n"
    write(tmp_path / "etc", {"server.properties": (config + more).encode()})
    return tmp_path


def rows(run: Run) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run.stdout.splitlines()]


def stream(args: list[str], data: bytes, cwd: Path, **more: Any) -> Run:
    command = [sys.executable, "-P", "-m", "kdump", *args]
    done = subprocess.run(command, input=data, cwd=cwd, env=ENVIRONMENT | more, capture_output=True, check=False)
    return Run(done.returncode, done.stdout, done.stderr)


# --- a configuration ------------------------------------------------------------------------------------------
def test_a_configuration_stands_for_all_directories_of_its_broker(host: Path) -> None:
    run = run_kdump(["verify", "etc/server.properties", "--format", "lines"], host)
    assert run.exit == 0, run.stderr
    for one in ("a", "b", "meta"):
        assert f"SOUND\t{host}/{one}/{one}-0/{name(0)}" in run.stdout.decode()


def test_it_is_known_by_its_content_and_not_by_its_name(host: Path) -> None:
    (host / "etc" / "server.properties").rename(host / "anything")
    assert b"a-0" in run_kdump(["verify", "anything"], host).stdout
    for text in ("", "log.dirs=\n", "log.dirs.x=/a", "#log.dirs=/a\n", "version=1\n", "log.dir\\u00zz=1\nlog.dir=/a"):
        (host / "anything").write_text(text)
        assert node_settings(str(host / "anything")) is None


def test_its_settings_count(host: Path) -> None:
    run = run_kdump(["retention", "etc/server.properties", "--format", "json", "--now", "now"], host)
    named = [row for row in rows(run) if row["type"] == "retention"]
    assert [row["partition"] for row in named] == ["a-0", "b-0", "meta-0"]
    assert {str(row["policy"]) for row in named} == {"['delete']"}


@pytest.mark.parametrize("verb", ["du", "retention", "verify", "export"])
def test_every_verb_of_paths_takes_it(verb: str, host: Path) -> None:
    more = {"export": ["--to", str(host / "out"), "--format", "json"], "du": ["--by", "partition"]}.get(verb, [])
    run = run_kdump([verb, "etc/server.properties", *more], host)
    assert run.exit in (0, 3), run.stderr
    shown = run.stdout.decode() + " ".join(map(str, (host / "out").rglob("*")))
    assert all(topic in shown for topic in ("a-0", "b-0")) or "topic=a" in shown


@pytest.mark.parametrize("name", ["a-0", "b-0"])
@pytest.mark.parametrize(("verb", "asked"), [("find-offset", "0"), ("find-time", "latest")])
def test_a_lookup_is_answered_by_all_directories_of_a_node(verb: str, asked: str, name: str, host: Path) -> None:
    run = run_kdump([verb, "etc/server.properties", asked, "--topic-partition", name], host)
    assert run.exit == 0, run.stderr
    run = run_kdump([verb, "etc/server.properties", asked], host)
    assert run.exit == 5
    assert b"--topic-partition" in run.stderr


def test_a_verb_of_one_path_says_which_there_are(host: Path) -> None:
    run = run_kdump(["truncate", "etc/server.properties", "--at-damage"], host)
    assert run.exit == 2


def test_a_directory_that_it_names_and_that_is_not_there_is_10(host: Path) -> None:
    (host / "etc" / "server.properties").write_text(f"log.dirs={host}/a,{host}/gone\n")
    run = run_kdump(["verify", "etc/server.properties"], host)
    assert run.exit == 10
    assert b"gone" in run.stderr


def test_relative_directories_begin_here_or_above_the_configuration(tmp_path: Path) -> None:
    log_dir(tmp_path / "kafka" / "data")
    config = tmp_path / "kafka" / "config" / "server.properties"
    config.parent.mkdir()
    settings = NodeSettings(str(config), {"log.dirs": "data,none"})
    assert settings.directories == [str(tmp_path / "kafka" / "data"), "none"]
    assert settings.metadata_dir == str(tmp_path / "kafka" / "data")


# --- no path --------------------------------------------------------------------------------------------------
def test_without_a_path_verify_says_what_runs_here_and_what_to_type(host: Path) -> None:
    args = [sys.executable, "-c", "input()", "kafka.Kafka", "etc/server.properties", "--override", "x=y"]
    with subprocess.Popen(args, cwd=host, stdin=subprocess.PIPE) as broker:
        run = run_kdump(["verify"], host)
        broker.communicate(b"\n")
    assert run.exit == 2
    assert run.stdout == b""
    shown = run.stderr.decode()
    assert f"{host}/etc/server.properties" in shown
    assert f"process {broker.pid}" in shown
    assert f"{host}/a, {host}/b, {host}/meta" in shown
    assert f"kdump verify {host}/etc/server.properties" in shown


def test_the_usual_places_are_looked_at_too(host: Path) -> None:
    root = host / "root"
    config = f"log.dirs={root}/var/lib/kafka/data\n".encode()
    write(
        root, {"opt/kafka_2.13/config/server.properties": config, "opt/kafka_2.13/config/producer.properties": b"a=b"}
    )
    log_dir(root / "var/lib/kafka/data")
    log_dir(root / "tmp/kraft-combined-logs")
    found = brokers_here(proc=str(host / "no-proc"), root=str(root))
    config_path = f"{root}/opt/kafka_2.13/config/server.properties"
    assert found == [
        FoundBroker(config_path, None, (f"{root}/var/lib/kafka/data",)),
        FoundBroker(f"{root}/tmp/kraft-combined-logs"),
    ]


def test_a_configuration_in_a_container_is_reached_by_its_process(host: Path) -> None:
    proc = host / "proc"
    write(proc / "7", {"cmdline": b"java\0-Xmx1g\0kafka.Kafka\0/inside/server.properties\0"})
    write(proc / "7" / "root" / "inside", {"server.properties": b"log.dirs=/data\n"})
    write(proc / "8", {"cmdline": b"bash\0-c\0echo kafka.Kafka\0"})
    found = brokers_here(proc=str(proc), root=str(host / "no-root"))
    assert found == [FoundBroker(f"{proc}/7/root/inside/server.properties", 7, ("/data",))]


# --- streams --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", ["-", "/dev/stdin"])
def test_a_log_comes_from_a_pipe(path: str, tmp_path: Path) -> None:
    write(tmp_path, {name(40): LOG})
    wanted = run_kdump(["dump", "--format", "json", "--print-data-log", name(40)], tmp_path)
    for jobs in ("1", "2"):
        run = stream(["dump", "--format", "json", "--print-data-log", "-j", jobs, path], LOG, tmp_path)
        assert (run.exit, run.stderr) == (0, b"")
        assert run.stdout == wanted.stdout.replace(name(40).encode(), path.encode())


def test_a_file_on_stdin_is_read_where_it_lies(tmp_path: Path) -> None:
    write(tmp_path, {"log": LOG})
    command = [sys.executable, "-P", "-m", "kdump", "dump", "-"]
    with (tmp_path / "log").open("rb") as file:
        nowhere = ENVIRONMENT | {"TMPDIR": str(tmp_path / "no-such-place")}
        done = subprocess.run(command, stdin=file, env=nowhere, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0
    assert done.stdout.count(b"\nbaseOffset: ") == 10


def test_a_fifo_and_a_process_substitution_are_read(tmp_path: Path) -> None:
    write(tmp_path, {"log": LOG})
    os.mkfifo(tmp_path / "fifo")
    with subprocess.Popen(["bash", "-c", "sleep 0.2; cat log > fifo"], cwd=tmp_path):
        assert run_kdump(["dump", "fifo"], tmp_path).stdout.count(b"\nbaseOffset: ") == 10
    kdump_dump = f"exec {sys.executable} -P -m kdump dump <(cat log)"
    done = subprocess.run(
        ["bash", "-c", kdump_dump], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, timeout=120, check=False
    )
    assert done.stdout.count(b"\nbaseOffset: ") == 10, done.stderr


def test_verify_judges_a_stream_as_a_log_of_which_nothing_else_is_known(tmp_path: Path) -> None:
    assert stream(["verify", "-"], LOG, tmp_path).exit == 0
    bad = bytearray(LOG)
    bad[200] ^= 1
    run = stream(["verify", "-", "--format", "json"], bytes(bad), tmp_path)
    assert run.exit == 3
    assert [row["code"] for row in rows(run) if row["type"] == "finding"] == ["B01"]


def test_a_fifo_in_a_directory_is_never_opened(tmp_path: Path) -> None:
    logs = log_dir(tmp_path / "logs")
    os.mkfifo(logs / "t-0" / name(2))
    run = run_kdump(["verify", "logs"], tmp_path)
    assert run.exit == 5
    assert b"not a regular file" in run.stderr


@pytest.fixture
def no_streams(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(streams, "_WAIT", 0.05)
    before = dict(STREAMS)
    yield
    for opens in STREAMS.values():
        for held in getattr(opens, "args", ())[1:]:
            held.close()
    STREAMS.clear()
    STREAMS.update(before)


@pytest.mark.usefixtures("no_streams")
def test_nobody_waits_for_ever_for_who_writes_to_a_fifo(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    path = str(tmp_path / "fifo")
    streams.take_stream(path)
    found = open_source(path)
    assert isinstance(found, OpenFailure)
    assert "no writer came" in found.sentence


@pytest.mark.usefixtures("no_streams")
def test_what_is_spooled_is_ours_alone_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, write_end = os.pipe()
    os.write(write_end, LOG)
    os.close(write_end)
    path = f"/dev/fd/{read}"
    streams.take_stream(path)
    source = open_source(path)
    assert not isinstance(source, OpenFailure)
    status = source.status
    assert (stat.S_IMODE(status.st_mode), status.st_nlink, source.size) == (0o600, 0, len(LOG))
    assert source.read_at(0, source.size) == LOG
    monkeypatch.setattr(streams, "MOST", 100)
    read, write_end = os.pipe()
    os.write(write_end, LOG)
    os.close(write_end)
    streams.take_stream(f"/dev/fd/{read}")
    found = open_source(f"/dev/fd/{read}")
    assert isinstance(found, OpenFailure)
    assert found.kind == "limit"


def test_nothing_is_spooled_into_a_log_directory(tmp_path: Path) -> None:
    logs = log_dir(tmp_path / "logs")
    run = stream(["dump", "-"], LOG, tmp_path, TMPDIR=str(logs / "t-0"))
    assert run.exit == 5
    assert b"set TMPDIR" in run.stderr
