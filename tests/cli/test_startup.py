"""What a small dump loads: the start of kdump must not pay for what it does not use.

No clock is asked: the set of loaded modules is held instead. `import click` is the measure.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import kdump
from tests.support.runs import FIXTURES

# The children find the kdump that is tested, wherever they are started.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(kdump.__file__).parent.parent)}
NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
SMALL = str(NODE / "tombstone-0" / "00000000000000000611.log")

ALLOWED = {"click", "crc32c", "kdump", "_kdump_memoryview"}  # the last is that of the kernels
LIBRARIES = {"lz4", "zstandard", "snappy", "cramjam", "rich", "pygments", "markdown_it", "pyspark", "py4j", "pyarrow"}

# Modules of the standard library that cost milliseconds, and that a dump of a small log has no use for.
HEAVY = {
    "argparse", "asyncio", "bz2", "concurrent", "csv", "ctypes", "curses", "decimal", "difflib", "doctest", "email",
    "ftplib", "http", "importlib.metadata", "importlib.resources", "json", "logging", "lzma", "multiprocessing",
    "optparse", "pdb", "pickle", "pkgutil", "pydoc", "queue", "random", "selectors", "smtplib", "socket",
    "socketserver", "sqlite3", "ssl", "subprocess", "tarfile", "tempfile", "tkinter", "tomllib", "unittest",
    "urllib.request", "wsgiref", "xml", "zipfile", "zoneinfo",
}  # fmt: skip
# What the decoders of internal topics need, and what only `--compat`, JSON and `--stats` do.
LATER = {
    "kdump.decode._fast", "kdump.decode.coordinator", "kdump.decode.metadata", "kdump.decode.plain",
    "kdump.decode.fast_compile", "kdump.decode.remote", "kdump.decode.schema", "kdump.decode.table",
    "kdump.decode.transaction_text", "kdump.decode.wire", "kdump.compat.dump_log_segments", "kdump.compat.index_dump",
    "kdump.dump.stats", "kdump.compat.java_streams", "kdump.compat.kafka_stream",
    "kdump.render.json._json", "kdump.render.json.dump",
}  # fmt: skip

# What judges damage, and what only a question about it, or about a broker, needs: a sound file has no use for it.
OF_DAMAGE = {
    "kdump.format.batch.framing", "kdump.format.batch.gap", "kdump.format.batch.text_mode",
    "kdump.format.record.cut_record", "kdump.compat.kafka_walk", "kdump.compat.kafka_stream",
    "kdump.storage.own_files", "kdump.checks.odd_directory", "kdump.broker.failure",
    "kdump.broker.producer.lost_ends", "kdump.broker.producer.transaction_fates",
}  # fmt: skip
OF_BROKERS = {"kdump.broker.config", "kdump.broker.load.log_manager", "kdump.broker.load.recover"}

SCRIPT = """
import sys
before = set(sys.modules)
code, *sys.argv = sys.argv[1:]
try:
    exec(code)
except SystemExit as ended:
    assert not ended.code, ended.code
loaded = sorted(set(sys.modules) - before)
import json
sys.stderr.write(json.dumps(loaded))
"""
RUN = "from kdump.__main__ import main; main()"


@cache
def loaded(code: str, *args: str) -> frozenset[str]:
    """Return the modules that a new interpreter has loaded after `code`, and had not before."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT, code, "kdump", *args],
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return frozenset(json.loads(done.stderr.splitlines()[-1]))


def roots(modules: frozenset[str]) -> set[str]:
    """Return the top-level packages that are not of the standard library, nor made by a compiled kernel."""
    names = {module.partition(".")[0] for module in modules}
    return {name for name in names - sys.stdlib_module_names if "cython" not in name}


@pytest.mark.parametrize(
    "options", [[], ["--deep-iteration"], ["--print-data-log"], ["--format", "json"], ["--stats"]], ids=" ".join
)
def test_a_dump_loads_three_packages_at_most(options: list[str]) -> None:
    assert roots(loaded(RUN, "dump", *options, SMALL)) <= ALLOWED


def test_a_dump_under_compat_loads_three_packages_at_most() -> None:
    assert roots(loaded(RUN, "dump", "--compat", "4.3", "--print-data-log", "--files", SMALL)) <= ALLOWED


@pytest.mark.parametrize("args", [["--help"], ["dump", "--help"], ["verify", "--help"], ["--version"]], ids=" ".join)
def test_help_loads_no_library(args: list[str]) -> None:
    assert roots(loaded(RUN, *args)) <= ALLOWED


@pytest.mark.parametrize("options", [[], ["--format", "json"], ["--quiet"]], ids=" ".join)
def test_a_verify_in_a_pipe_loads_no_library(options: list[str]) -> None:
    assert roots(loaded(RUN, "verify", *options, SMALL)) & LIBRARIES == set()


def test_a_dump_of_batches_loads_no_reader_of_records_and_no_second_process() -> None:
    found = loaded(RUN, "dump", SMALL)
    assert {"kdump.format.record.reader", "kdump.format.record._records", "kdump.workers", *OF_DAMAGE} & found == set()
    assert {"kdump.workers", *OF_DAMAGE} & loaded(RUN, "dump", "--print-data-log", SMALL) == set()


def test_a_verify_of_a_sound_partition_loads_no_damage_and_no_broker() -> None:
    found = loaded(RUN, "verify", str(NODE / "plain-0"))
    of_other_paths = {"kdump.checks.loose", "kdump.checks.raft_log", "glob"}
    assert {*OF_DAMAGE, *OF_BROKERS, *of_other_paths, "difflib", "json", "random"} & found == set()
    assert {name for name in found if name.startswith("kdump.spark")} <= {"kdump.spark", "kdump.spark.errors"}


def test_a_verify_in_one_process_does_not_prepare_for_more() -> None:
    assert "multiprocessing" not in loaded(RUN, "verify", SMALL)


def test_the_overview_loads_no_command() -> None:
    assert {name for name in loaded(RUN, "--help") if name.startswith("kdump.cli.")} == {
        "kdump.cli.main", "kdump.cli.options", "kdump.cli.options.common", "kdump.cli.options.help",
    }  # fmt: skip


def test_help_of_verify_does_not_load_the_verb() -> None:
    assert {"kdump.checks.run", "json", "multiprocessing"} & loaded(RUN, "verify", "--help") == set()


@pytest.mark.parametrize("options", [[], ["--print-data-log"]], ids=" ".join)
def test_a_dump_loads_nothing_heavy(options: list[str]) -> None:
    extra = loaded(RUN, "dump", *options, SMALL) - loaded("import click")
    assert {name for name in HEAVY if name in extra} == set()


@pytest.mark.parametrize("options", [[], ["--print-data-log"]], ids=" ".join)
def test_a_dump_loads_no_decoder_and_no_java(options: list[str]) -> None:
    assert loaded(RUN, "dump", *options, SMALL) & LATER == set()


@pytest.mark.parametrize(
    ("topic", "libraries"),
    [("gzip", set()), ("snappy", {"snappy", "cramjam"}), ("lz4", {"lz4", "cramjam"}), ("zstd", {"zstandard"})],
)
def test_a_codec_is_loaded_for_its_own_batches_only(topic: str, libraries: set[str]) -> None:
    log = str(sorted((NODE / f"{topic}-0").glob("*.log"))[0])
    assert roots(loaded(RUN, "dump", log)) & LIBRARIES == set()
    found = roots(loaded(RUN, "dump", "--deep-iteration", log)) - ALLOWED
    assert found <= libraries
    assert bool(found) == bool(libraries)


def test_a_decoder_is_loaded_when_it_is_asked_for() -> None:
    log = str(sorted((NODE / "__transaction_state-0").glob("*.log"))[0])
    assert "kdump.decode.table" in loaded(RUN, "dump", "--transaction-log-decoder", log)


def test_values_are_defined_cheaply() -> None:
    """`typing.NamedTuple` compiles text for each class: `TupleValue` is the same for a twentieth of the time."""
    home = Path(kdump.__file__).parent
    makers = [str(file.relative_to(home)) for file in home.rglob("*.py") if "(NamedTuple" in file.read_text()]
    assert makers == []


def test_the_version_loads_no_kernel_and_no_findings() -> None:
    found = loaded(RUN, "--version")
    assert {name for name in found if name.startswith("kdump.") and name.rpartition(".")[2].startswith("_")} == {
        "kdump.__main__"
    }
    assert {"kdump.finding", "kdump.item", "kdump.storage"} & found == set()


def test_regular_expressions_are_compiled_when_they_are_used() -> None:
    """What `pattern` is for: `re.compile` costs up to half a millisecond, in each start that never uses it."""
    home = Path(kdump.__file__).parent
    eager = [
        f"{file.relative_to(home)}: {line}"
        for file in home.rglob("*.py")
        for line in file.read_text().splitlines()
        if "re.compile(" in line and re.match(r"_?[A-Z]| {0,4}(re\.|_\w+ = re)", line)
    ]
    assert eager == []
