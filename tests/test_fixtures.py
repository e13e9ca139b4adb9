"""The fixtures are whole, as the brokers wrote them, show every kind of file, and stay small."""

from __future__ import annotations

import csv
import gzip
import json
import struct
from typing import TYPE_CHECKING

import pytest

from tests.support.damage_cases import Damage, damage_cases
from tests.support.golden import golden_cases
from tests.support.runs import COMPAT, FIXTURES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAX_BYTES = 19_000_000
RELEASES = ["0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3", "1.1.1", "2.0.1", "2.8.2", "3.3.2", "3.9.2"]
CORPORA = [
    *(FIXTURES / "releases" / release for release in RELEASES),
    FIXTURES / "kafka-4.3.1",
    FIXTURES / "kafka-4.4.0",
]
DAMAGE = damage_cases(FIXTURES / "damage")
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)


def test_the_fixtures_stay_below_their_limit() -> None:
    assert sum(path.stat().st_size for path in FIXTURES.rglob("*") if path.is_file()) < MAX_BYTES


def test_git_keeps_all_of_it() -> None:
    """Git knows no empty directory, and of a file's mode only whether it can be run."""
    for path in FIXTURES.rglob("*"):
        assert not path.is_symlink(), path
        if path.is_dir():
            assert any(path.iterdir()), f"{path} is empty"
        else:
            assert path.stat().st_mode & 0o111 == 0, f"{path} can be run"


@pytest.mark.parametrize("corpus", CORPORA, ids=lambda corpus: corpus.name)
def test_each_recorded_run_has_its_output_and_its_directory(corpus: Path) -> None:
    """Each run has its output, and the directory it ran in."""
    cases = golden_cases(corpus)
    assert any(case.shown for case in cases)
    for case in cases:
        assert case.tool in COMPAT
        assert (corpus / case.cwd).is_dir()
        assert case.stdout is not None or (case.sha256 and case.head)


def test_every_release_of_the_tool_was_recorded() -> None:
    assert {case.tool for corpus in CORPORA for case in golden_cases(corpus)} == set(COMPAT)


@pytest.mark.parametrize(
    "pattern",
    [
        "*.log",
        "*.index",
        "*.timeindex",
        "*.txnindex",
        "*.snapshot",
        "*.checkpoint",
        "*.deleted",
        "*-delete",
        ".lock",
        ".kafka_cleanshutdown",
        "leader-epoch-checkpoint",
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
        "cleaner-offset-checkpoint",
        "partition.metadata",
        "meta.properties",
        "quorum-state",
    ],
)
def test_every_kind_of_file_is_there(pattern: str) -> None:
    assert any(FIXTURES.rglob(pattern))


def test_every_format_and_codec_is_there() -> None:
    logs = [path for corpus in CORPORA for path in corpus.rglob("*.log")]
    found = {kind for path in logs for kind in formats(path.read_bytes())}
    legacy = {(magic, codec) for magic in (0, 1) for codec in (NONE, GZIP, SNAPPY, LZ4)}
    assert found == legacy | {(2, codec) for codec in (NONE, GZIP, SNAPPY, LZ4, ZSTD)}


def formats(log: bytes) -> Iterator[tuple[int, int]]:
    """Yield magic and codec of each batch of an undamaged log."""
    at = 0
    while at < len(log):
        (size,) = struct.unpack_from(">i", log, at + 8)
        magic = log[at + 16]
        yield magic, log[at + (22 if magic == 2 else 17)] & 7
        at += 12 + size


def test_preallocated_indexes_are_there() -> None:
    """An active index of a running broker ends in zero bytes."""
    live = (FIXTURES / "kafka-4.3.1" / "live").rglob("*.index")
    assert any(path.stat().st_size > 8 and path.read_bytes().endswith(bytes(8)) for path in live)


@pytest.mark.parametrize("case", DAMAGE, ids=lambda case: case.name)
def test_damage_can_be_made(case: Damage, tmp_path: Path) -> None:
    """Each edit list gives the files that Kafka saw, and the files that hold what it printed are there."""
    case.build(tmp_path / "logdir")
    for dump in case.dumps():
        assert dump.stdout
        assert dump.exit == 0 or dump.stderr


def test_damage_is_complete() -> None:
    folders = {path.name for path in (FIXTURES / "damage" / "cases").iterdir()}
    assert folders == {case.name for case in DAMAGE}
    assert {case.base for case in DAMAGE} <= {path.name for path in (FIXTURES / "damage" / "intact").iterdir()}


@pytest.mark.parametrize("base", sorted((FIXTURES / "damage" / "intact").iterdir()), ids=lambda base: base.name)
def test_intact_directories_are_complete(base: Path) -> None:
    """Each segment has its log, and each index that recovery makes of it."""
    about = json.loads((base / "base.json").read_text("utf-8"))
    for segment in about["segments"]:
        log = base / "logdir" / about["partition"] / f"{segment['base']:020}.log"
        assert log.stat().st_size == segment["size"]
    assert {path.name for path in (base / "recovered").iterdir()} == {"0", "512", "4096"}


@pytest.mark.parametrize(("flips", "size"), [("v2", 1292), ("v1", 721)])
def test_flips_are_complete(flips: str, size: int) -> None:
    """The tables have a row for every bit or length of the log, and one for the intact file."""
    folder = FIXTURES / "damage" / "flips" / flips
    (log,) = folder.glob("*.log")
    assert log.stat().st_size == size
    rows = {name: len(table(folder / f"log-{name}.csv.gz")) for name in ("flips", "truncations", "zero-from")}
    assert rows == {"flips": 8 * size + 1, "truncations": size + 1, "zero-from": size}


def table(path: Path) -> list[dict[str, str]]:
    """Read a table of what Kafka did with each way to damage a file."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))
