"""`du`: its rows add up to what lies on the disk, and each equals a count over the text of Kafka's own layout."""

from __future__ import annotations

import errno
import json
import os
import re
from collections import Counter
from datetime import UTC, datetime
from functools import cache
from shutil import copytree
from typing import TYPE_CHECKING, Any

import pytest
from rich.cells import cell_len

from kdump.broker.config import DEFAULTS, Config
from kdump.finding import Finding
from kdump.item import Checked
from kdump.render.report.styled import Paper
from kdump.render.report.usage import UsageText
from kdump.rows.usage import Usage
from kdump.storage.file_source import FileSource, OpenFailure
from kdump.storage.open_files import open_source
from kdump.usage import _sums as sums
from kdump.usage import files, fold
from kdump.usage.key_sums import KeySums
from kdump.usage.options import UsageOptions
from kdump.usage.rows import Names
from kdump.usage.run import usage
from kdump.words import numbers
from kdump.words.times import iso
from tests.support.damage_cases import damage_cases
from tests.support.partitions import name as file_name
from tests.support.partitions import write
from tests.support.runs import FIXTURES, run_kdump
from tests.support.segments import GZIP, batch, varint
from tests.support.terminal import run_in_terminal
from tests.support.unprivileged import unprivileged

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NODE = FIXTURES / "kafka-4.3.1" / "clean" / "node1"
DIRS = sorted({path.parent for path in FIXTURES.glob("**/meta.properties")})
BY = ("topic", "partition", "kind", "codec", "producer", "day", "group", "key")
BATCH = re.compile(r"baseOffset: .* producerId: (-?\d+) .* \w+: (-?\d+) size: (\d+) .*compresscodec: (\w+)")


def du(*args: str | Path, cwd: Path = FIXTURES, status: int = 0) -> list[dict[str, Any]]:
    run = run_kdump(["du", "--format", "json", *map(str, args)], cwd)
    assert run.exit == status, run.stderr
    found = [json.loads(line) for line in run.stdout.splitlines()]
    assert found[-1]["type"] == "summary"
    return found[:-1]


def named(found: list[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    return {
        json.dumps(row["name"]) if isinstance(row["name"], dict) else row["name"]: row
        for row in found
        if row["type"] == "usage"
    }


def on_disk(path: Path) -> tuple[int, int]:
    files = [os.lstat(os.path.join(folder, name)) for folder, _, names in os.walk(path) for name in names]
    return sum(one.st_size for one in files), len(files)


@cache
def dumped() -> list[tuple[str, int, int, int, str]]:
    """Partition, producer, time, bytes and codec of each batch, from the text of Kafka 4.3."""
    found: list[tuple[str, int, int, int, str]] = []
    for folder in sorted(NODE.iterdir()):
        if not folder.is_dir() or folder.name.endswith("-delete"):
            continue
        for path in sorted(folder.glob("*.log")):
            text = run_kdump(["dump", "--compat", "4.3", "--files", str(path)], FIXTURES).stdout.decode()
            for line in text.splitlines():
                if one := BATCH.match(line):
                    producer, time, size, codec = one.groups()
                    found.append((folder.name, int(producer), int(time), int(size), codec))
    return found


# --- sums -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("folder", DIRS, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_rows_add_up_to_the_sizes_of_all_files(folder: Path) -> None:
    for by in BY[:: 1 if folder == NODE else 3]:
        found = [
            json.loads(line)
            for line in run_kdump(["du", "--format", "json", "--by", by, str(folder)], folder).stdout.splitlines()
        ]
        usage = [row for row in found if row["type"] == "usage"]
        size, files = on_disk(folder)
        assert sum(row["bytes"] for row in usage) == size, by
        assert sum(row["files"] for row in usage) == files, by
        assert usage[-1]["name"] is None
        assert all(
            row["bytes"] == sum(row[f"{part}Bytes"] for part in ("log", "index", "other", "leftover")) for row in usage
        )
        if by != "key":
            of = "allocatedBytes" if by in ("topic", "partition", "kind") else "bytes"
            sizes = [row[of] for row in usage[:-1]]
            assert sizes == sorted(sizes, reverse=True)


def test_what_top_leaves_out_is_in_the_last_row() -> None:
    for by in BY:
        whole, few = (named(du("--by", by, "--top", n, NODE)).values() for n in ("100000", "2"))
        assert len(few) <= 3
        for key in ("bytes", "logBytes", "files", "segments", "batches", "records"):
            assert sum(row[key] for row in whole) == sum(row[key] for row in few), (by, key)


def test_partitions_and_topics_have_the_files_of_their_directories() -> None:
    found = named(du("--by", "partition", NODE))
    for folder in NODE.iterdir():
        if folder.is_dir() and not folder.name.endswith("-delete"):
            assert (found[folder.name]["bytes"], found[folder.name]["files"]) == on_disk(folder)
    topics = named(du(NODE))
    assert topics["__consumer_offsets"]["bytes"] == sum(on_disk(NODE / f"__consumer_offsets-{n}")[0] for n in range(3))
    assert topics["deleted"]["leftoverBytes"] == topics["deleted"]["bytes"] > 0
    assert topics["deleted"]["batches"] == 0


# --- what the batches say -----------------------------------------------------------------------------------------
def counted(of: int) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for one in dumped():
        found[one[of]] += one[3]
    return found


def test_codecs_are_those_of_the_text_of_kafka() -> None:
    found = {name: row["bytes"] for name, row in named(du("--by", "codec", NODE)).items() if name is not None}
    assert found == counted(4)


def test_producers_are_those_of_the_text_of_kafka() -> None:
    wanted = {str(name): size for name, size in counted(1).items() if name >= 0}
    found = {name: row["bytes"] for name, row in named(du("--by", "producer", NODE)).items() if name is not None}
    assert found == wanted


def test_days_are_those_of_the_text_of_kafka() -> None:
    wanted: Counter[str] = Counter()
    for _, _, time, size, _ in dumped():
        if time >= 0:
            try:
                wanted[datetime.fromtimestamp(time / 1000, UTC).date().isoformat()] += size
            except (ValueError, OverflowError):
                continue
    found = {name: row["bytes"] for name, row in named(du("--by", "day", NODE)).items() if name is not None}
    assert found == wanted


def records(folder: Path, depth: str = "--print-data-log") -> Iterator[dict[str, Any]]:
    for line in run_kdump(["dump", depth, "--format", "json", str(folder)], FIXTURES).stdout.splitlines():
        row = json.loads(line)
        if row["type"] == "record" and row["control"] is None:
            yield row


def test_groups_are_those_of_the_decoded_keys() -> None:
    wanted: Counter[str] = Counter()
    for number in range(3):
        run = run_kdump(
            ["dump", "--offsets-decoder", "--format", "json", str(NODE / f"__consumer_offsets-{number}")], FIXTURES
        )
        for line in run.stdout.splitlines():
            row = json.loads(line)
            if row["type"] == "record" and row.get("decodedKey"):
                data = row["decodedKey"]["data"]
                group = data.get("group", data.get("groupId"))
                if group is not None:
                    wanted[group] += 1
    found = {name: row["records"] for name, row in named(du("--by", "group", NODE)).items() if name is not None}
    assert found == wanted


def named_key(key: object) -> str | None:
    return json.dumps(key) if isinstance(key, dict) else key  # type: ignore[return-value]


@pytest.mark.parametrize("topic", ["compact-0", "plain-0", "tombstone-0", "idem-0", "zstd-0"])
def test_keys_and_superseded_records_equal_a_brute_force(topic: str) -> None:
    last: dict[str | None, int] = {}
    seen = [
        (named_key(row["key"]), row["offset"], row["keySize"], max(row["valueSize"], 0))
        for row in records(NODE / topic)
    ]
    keyed = [one for one in seen if one[0] is not None]
    for key, offset, _, _ in keyed:
        last[key] = offset
    found = named(du("--by", "key", "--top", "100000", "--superseded", NODE / topic))
    for name in last:
        mine = [one for one in keyed if one[0] == name]
        row = found[name]
        assert row["records"] == len(mine)
        assert (row["keyBytes"], row["valueBytes"]) == (sum(one[2] for one in mine), sum(one[3] for one in mine))
        assert row["supersededRecords"] == sum(one[1] < last[name] for one in mine)
        assert row["exact"]
        assert row["errorBytes"] == 0
    total = sum(row["supersededRecords"] for row in found.values())
    assert total == sum(offset < last[key] for key, offset, _, _ in keyed)
    by_topic = named(du("--superseded", NODE / topic)).values()
    assert sum(row["supersededRecords"] for row in by_topic) == total
    order = [row["keyBytes"] + row["valueBytes"] for name, row in found.items() if name is not None]
    assert order == sorted(order, reverse=True)


def test_compressed_bytes_belong_to_no_key(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(batch(0, [b"v" * 50] * 3, codec=GZIP) + batch(3, [b"v" * 9]))
    found = named(du("--by", "key", "t-0", cwd=tmp_path))
    assert found["key"]["records"] == 4
    assert found["key"]["valueBytes"] == 159
    assert 0 < found["key"]["bytes"] < 30


# --- the sketch ---------------------------------------------------------------------------------------------------
def test_a_full_sketch_is_wrong_by_at_most_what_it_says() -> None:
    names, truth = Names(room=50), Counter[int]()
    for n in range(20_000):
        key = n % 7 if n % 3 else n % 3001
        truth[key] += 1 + n % 5
        names.of(str(key))[sums.WEIGHT] += 1 + n % 5
    assert 0 < names.error < sum(truth.values()) / 40
    for key, weight in truth.items():
        found = names.sums.get(str(key))
        assert weight - names.error <= (found[sums.WEIGHT] if found else 0) <= weight


def test_the_largest_of_too_many_keys_are_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "KeySums", lambda mode: KeySums(mode, room=40))
    from tests.support.segments import Record

    parts = []
    for n in range(300):
        few = Record(b"x" * 400, b"big%d" % (n % 3))
        parts.append(batch(2 * n, [few, Record(b"x", b"k%d" % n)]))
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(b"".join(parts))
    options = UsageOptions("key", 3, False, None, 0, Config({}), 1 << 30, 1 << 30)
    found = [one for one in usage([str(tmp_path / "t-0")], options) if isinstance(one, Usage)]
    assert [(one.name, one.records, one.exact) for one in found[:3]] == [(b"big%d" % n, 100, True) for n in range(3)]
    assert sum(one.size for one in found) == len(b"".join(parts))
    alone, several = (list(usage([str(tmp_path)] * 2, options.replace(jobs=jobs))) for jobs in (1, 3))
    assert alone == several


def test_of_a_million_keys_that_are_all_the_same_the_stated_error_holds(tmp_path: Path) -> None:
    count, in_batch = 1_000_000, 4000
    heads = [b"\0\0" + varint(delta) + b"\x0e" for delta in range(in_batch)]
    heads = [varint(len(head) + 13) + head for head in heads]
    (tmp_path / "t-0").mkdir()
    with (tmp_path / "t-0" / f"{0:020}.log").open("wb") as log:
        for start in range(0, count, in_batch):
            body = b"".join(b"%b%07d\x08abcd\0" % (head, start + n) for n, head in enumerate(heads))
            log.write(batch(start, body=body, count=in_batch, last_delta=in_batch - 1))
    found = named(du("--by", "key", "--top", "30", "t-0", cwd=tmp_path))
    rest = found.pop(None)
    assert len(found) == 30
    assert all(row["records"] == 1 and row["keyBytes"] + row["valueBytes"] == 11 for row in found.values())
    for row in found.values():
        assert not row["exact"]
        assert 11 <= row["errorBytes"] <= count * 11 // 10_000
    assert rest["records"] == count - 30


# --- damage, growth, retention -----------------------------------------------------------------------------------
def test_damage_is_counted_and_told_and_never_an_end(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    good = batch(0) + batch(1)
    bad = bytearray(batch(2))
    bad[70] ^= 1
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(good + bytes(bad) + batch(3) + b"\0" * 100)
    found = du("--by", "codec", "t-0", cwd=tmp_path, status=3)
    assert {row["code"] for row in found if row["type"] == "finding"} >= {"B01"}
    usage = named(found)
    assert usage["none"]["bytes"] == len(good) + len(batch(3))
    assert sum(row["bytes"] for row in usage.values()) == len(good) + len(bad) + len(batch(3)) + 100


def test_growth_sets_odd_timestamps_aside(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    day, path = 86_400_000, tmp_path / "t-0" / f"{0:020}.log"
    start = 1_700_000_000_000
    parts = [batch(n, base_timestamp=start + n * day) for n in range(11)] + [batch(11, base_timestamp=5)]
    path.write_bytes(b"".join(parts))
    os.utime(path, (start / 1000 + 864_000, start / 1000 + 864_000))
    size = len(b"".join(parts))
    found = du("--full-at", str(size * 3), "--now", str(start), "t-0", cwd=tmp_path)
    growth = {row["name"]: row for row in found if row["type"] == "growth"}
    assert set(growth) == {"t", None}
    row = growth["t"]
    assert row["setAsideBatches"] == 1
    assert (row["fromTimestamp"], row["toTimestamp"]) == (start, start + 10 * day)
    assert row["bytesPerDay"] == len(parts[0]) * 11 // 10
    assert row["fullAt"] == pytest.approx(start + row["daysLeft"] * day, rel=1e-3)
    by_codec = du("--by", "codec", "--full-at", str(size * 3), "--now", str(start), "t-0", cwd=tmp_path)
    alone = next(row for row in by_codec if row["type"] == "growth" and row["name"] is None)
    assert alone == growth[None]  # what has a name counts too
    full = [row for row in du("--full-at", "1K", "--now", "0", NODE) if row["type"] == "growth" and row["name"] is None]
    assert full[0]["daysLeft"] == 0


def growths(*args: str | Path, cwd: Path) -> dict[str | None, dict[str, Any]]:
    return {row["name"]: row for row in du(*args, cwd=cwd) if row["type"] == "growth"}


def test_growth_of_all_is_what_comes_in_now(tmp_path: Path) -> None:
    """A topic that rests since long does not hide how fast another grows."""
    day, now = 86_400_000, 1_700_000_000_000
    for name, times in (("rests-0", (0, 1)), ("grows-0", (2990, 2995, 3000))):
        (tmp_path / name).mkdir()
        path = tmp_path / name / f"{0:020}.log"
        path.write_bytes(b"".join(batch(n, base_timestamp=now + (at - 3000) * day) for n, at in enumerate(times)))
        os.utime(path, (now / 1000, now / 1000))
    found = growths("--full-at", "10K", "--now", str(now), ".", cwd=tmp_path)
    assert found["grows"]["bytesPerDay"] == len(batch(0)) * 3 // 10
    assert found[None]["bytesPerDay"] == found["grows"]["bytesPerDay"]
    assert found[None]["daysLeft"] < 10240 / found["grows"]["bytesPerDay"]
    only = growths("--full-at", "10K", "--now", str(now), "--top", "1", ".", cwd=tmp_path)
    assert only == {name: found[name] for name in ("grows", None)}


def test_a_burst_is_no_rate_of_a_day_and_a_far_end_is_none(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    now, path = 1_700_000_000_000, tmp_path / "t-0" / f"{0:020}.log"
    path.write_bytes(batch(0, base_timestamp=now) + batch(1, base_timestamp=now + 1))
    os.utime(path, (now / 1000, now / 1000))
    args = "--full-at", "1000T", "--now", str(now), "t-0"
    row = growths(*args, cwd=tmp_path)["t"]
    assert row["bytesPerDay"] == 24 * path.stat().st_size
    assert (row["fullAt"], row["daysLeft"]) == (None, None)
    text = run_kdump(["du", *args], tmp_path).stdout.decode()
    assert " ".join(text.split()).count("; not full in 100 years") == 2


def test_a_chart_adds_up_what_it_is_sorted_by() -> None:
    def chart(*rows: Usage) -> list[str]:
        found: list[str] = []
        text = UsageText(Paper(found.append, 80), found.append)
        for row in rows:
            text(row)
        text.end(0)
        return found

    blank: dict[str, Any] = dict.fromkeys(Usage.__match_args__, 0)
    row = Usage(**{**blank, "by": "key", "exact": True, "freeable": None, "compaction_waits": (), "assumed": ()})
    assert chart(row.replace(by="topic", name=None))[-1].split(None, 2) == [
        "0",
        "B",
        "in no file: nothing was counted\n",
    ]
    lines = chart(row.replace(name=b"a", key_bytes=1, value_bytes=99), row.replace(name=None, log_bytes=40, files=1))
    assert lines[0].startswith("    100 B  100%")
    assert lines[-1].split(None, 2)[2] == "of keys and values, uncompressed; 40 B in 1 file\n"


def test_a_directory_without_permission_is_said_to_be_unreadable(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir(mode=0)
    run = unprivileged("du", "t-0", cwd=tmp_path)
    assert run.exit == 5
    assert b"t-0: cannot be listed: permission denied; you own it: chmod u+rwX" in run.stderr
    (tmp_path / "data").mkdir(mode=0)
    run = unprivileged("du", "data", cwd=tmp_path)
    assert (run.exit, run.stderr) == (
        5,
        b"kdump: data: cannot be listed: permission denied; you own it: chmod u+rwX gives you the right\n",
    )


def test_freeable_is_what_retention_deletes() -> None:
    args = ["--set", "retention.bytes=3000", "--set", "retention.ms=999999999999", "--now", "1795219700000"]
    rows = [
        json.loads(line)
        for line in run_kdump(["retention", *args, "--format", "json", str(NODE)], FIXTURES).stdout.splitlines()
    ]
    found = named(du("--by", "partition", *args, NODE))
    some = 0
    for row in rows:
        if row["type"] == "retention":
            gone = [one for one in row["segments"] if one["deleted"]]
            free = found[row["partition"]]["freeable"]
            assert (free["bytes"], free["segments"]) == (sum(one["size"] for one in gone), len(gone)), row["partition"]
            later = [
                one["firstDeletedAt"]
                for one in row["segments"]
                if not one["deleted"] and one["firstDeletedAt"] is not None
            ]
            assert free["nextAt"] == min(later, default=None)
            some += len(gone)
    assert some > 3


def test_a_terminal_shows_within_80_columns_what_retention_frees_as_json_has_it() -> None:
    rows = [row for row in du(".", "--now", "1800000000000", cwd=NODE) if row["type"] == "usage"]
    seen = run_in_terminal(["du", ".", "--now", "1800000000000"], NODE).lines
    now = [row for row in rows if row["freeable"] and row["freeable"]["bytes"]]
    assert now
    for row in now:
        freed = f"frees {numbers.size(row['freeable']['bytes'])} now"
        assert any(row["name"] in line and line.endswith(freed) for line in seen) or len(row["name"]) > 20
    assert f"retention frees {numbers.size(sum(row['freeable']['bytes'] for row in now))} now" in "\n".join(seen)
    assert DEFAULTS not in "\n".join(seen), "the metadata log is among the paths"
    assert max(cell_len(line) for line in seen if "%" in line) <= 80


NEWEST = "a broker of Kafka 4.4, the newest known; --broker names another"


def test_one_partition_alone_has_the_settings_of_the_metadata_log_beside_it() -> None:
    row = next(row for row in du("plain-0", cwd=NODE) if row["type"] == "usage")
    assert row["freeable"] is not None
    assert row["assumed"] == [NEWEST, "settings of topic and brokers from __cluster_metadata-0 up to offset 556"]


def test_without_a_policy_nobody_says_what_is_freed(tmp_path: Path) -> None:
    copytree(NODE / "plain-0", tmp_path / "plain-0")
    row = next(row for row in du("plain-0", cwd=tmp_path) if row["type"] == "usage")
    assert (row["freeable"], row["assumed"]) == (None, [NEWEST, DEFAULTS])
    run = run_kdump(["du", "plain-0"], tmp_path)
    assert (run.exit, DEFAULTS in run.stderr.decode()) == (0, True)
    seen = " ".join(run_in_terminal(["du", "plain-0"], tmp_path).raw.split())
    assert DEFAULTS in seen
    assert "frees" not in seen
    given = next(row for row in du("plain-0", "--set", "retention.ms=5", cwd=tmp_path))
    assert (given["freeable"]["segments"] > 0, given["assumed"]) == (True, [NEWEST])


# --- what a file takes, however long it is ------------------------------------------------------------------------
def ranked(path: Path, *args: str) -> list[str | None]:
    """The names of the rows, in their order."""
    return [row["name"] for row in du(*args, cwd=path) if row["type"] == "usage"]


def busy_and_idle(root: Path) -> None:
    """A topic with 100 kB of records, and one with a batch."""
    for topic, parts in (("busy", [batch(n, [b"v" * 1000]) for n in range(100)]), ("idle", [batch(0)])):
        write(root, {f"{topic}-0/{file_name(0)}": b"".join(parts)})


def test_preallocated_indexes_take_what_they_take(tmp_path: Path) -> None:
    busy_and_idle(tmp_path)
    for suffix in ("index", "timeindex"):
        with (tmp_path / "idle-0" / file_name(0, suffix)).open("wb") as file:
            file.truncate(10 << 20)
    assert ranked(tmp_path, ".") == ["busy", "idle", None]
    assert ranked(tmp_path, ".", "--top", "1") == ["busy", None]
    assert ranked(tmp_path, ".", "--by", "kind")[0] == "log"
    lines = run_in_terminal(["du", "."], tmp_path).lines
    idle = next(line for line in lines if "idle" in line)
    assert "21.0 MB long" in idle
    assert "100%" not in idle
    growth = {row["name"]: row for row in du(".", "--full-at", "1M", cwd=tmp_path) if row["type"] == "growth"}
    assert growth[None]["daysLeft"] != 0, "the disk has room: lengths take none"


def test_a_preallocated_log_and_one_with_a_hole_take_what_they_take(tmp_path: Path) -> None:
    busy_and_idle(tmp_path)
    with (tmp_path / "idle-0" / file_name(0)).open("r+b") as file:
        file.truncate(1 << 30)
    run = run_kdump(["du", ".", "--format", "json", "--by", "partition"], tmp_path)
    rows = [one for one in map(json.loads, run.stdout.splitlines()) if one["type"] == "usage"]
    assert [one["name"] for one in rows] == ["busy-0", "idle-0", None]
    row = rows[1]
    assert row["bytes"] >= 1 << 30
    assert row["allocatedBytes"] < 1 << 20


def test_where_a_file_system_tells_no_blocks_lengths_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    busy_and_idle(tmp_path)
    monkeypatch.setattr(files, "_BLOCK", 0)
    options = UsageOptions("topic", None, False, None, 0, Config({}), 1 << 20, 1 << 20)
    rows = [one for one in usage([str(tmp_path)], options) if isinstance(one, Usage)]
    assert [one.name for one in rows] == ["busy", "idle", None]
    assert all(one.allocated_bytes == one.size == one.weight for one in rows)


def test_what_batches_say_is_ranked_by_their_bytes(tmp_path: Path) -> None:
    busy_and_idle(tmp_path)
    write(tmp_path, {f"more-0/{file_name(0)}": batch(0, [b"v" * 5000], codec=GZIP)})
    rows = [row for row in du(".", "--by", "codec", cwd=tmp_path) if row["type"] == "usage"]
    assert [row["name"] for row in rows] == ["none", "gzip", None]
    assert [row["allocatedBytes"] for row in rows[:2]] == [0, 0]


def test_growth_says_over_which_span_it_extrapolates(tmp_path: Path) -> None:
    text = run_kdump(["du", "plain-0", "--full-at", "1G"], NODE).stdout.decode()
    growth = next(row for row in du("plain-0", "--full-at", "1G", cwd=NODE) if row["type"] == "growth")
    span = f"from {iso(growth['fromTimestamp'])} to {iso(growth['toTimestamp'])}"
    assert f"growth plain: {growth['bytesPerDay']} bytes a day {span}; " in text


def test_wrong_uses_are_said(tmp_path: Path) -> None:
    assert run_kdump(["du", "--full-at", "much", "."], tmp_path).exit == 2
    assert run_kdump(["du", "nothing"], tmp_path).exit == 10
    run = run_kdump(["du", "."], tmp_path)
    assert (run.exit, run.stderr) == (10, b"kdump: .: no Kafka files here\n")


# --- what is damaged, alive or out of reach -----------------------------------------------------------------------
def options_of(by: str, **more: Any) -> UsageOptions:
    return UsageOptions(by, None, False, None, 0, Config({}), 1 << 26, 1 << 26).replace(**more)


@pytest.mark.parametrize("by", ["partition", "codec", "key"])
def test_every_damaged_log_is_counted_whole_and_told_as_verify_does(by: str, tmp_path: Path) -> None:
    told = 0
    for number, case in enumerate(damage_cases(FIXTURES / "damage")[::9]):
        tree = case.build(tmp_path / f"d{number}")
        run = run_kdump(["du", "--by", by, "--superseded", "--format", "json", str(tree)], tmp_path)
        assert run.exit in (0, 3, 5, 6), (case.name, run.stderr)
        found = [json.loads(line) for line in run.stdout.splitlines()]
        rows = [row for row in found if row["type"] == "usage"]
        assert (sum(row["bytes"] for row in rows), sum(row["files"] for row in rows)) == on_disk(tree), case.name
        codes = {row["code"] for row in found if row["type"] == "finding" and row["severity"] == "error"}
        assert run.exit in ((3, 6) if codes else (0, 5)), case.name
        told += bool(codes)
    assert told > 5


def test_a_log_that_grows_while_it_is_read_counts_as_it_was_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t-0").mkdir()
    log = tmp_path / "t-0" / f"{0:020}.log"
    whole = batch(0) + batch(1)
    torn = batch(2)
    log.write_bytes(whole + torn[:70])
    once = open_source

    def grown(path: str, **given: Any) -> Any:
        with log.open("ab") as file:
            file.write(torn[70:] if log.stat().st_size == len(whole) + 70 else batch(3))
        return once(path, **given)

    monkeypatch.setattr(fold, "open_source", grown)
    for by in ("partition", "key"):
        found = list(usage([str(tmp_path)], options_of(by, superseded=True)))
        assert not [one for one in found if isinstance(one, Finding)]
        assert next(one.batches for one in found if isinstance(one, Checked)) >= 2
        log.write_bytes(whole + torn[:70])


def test_a_torn_end_that_nobody_mends_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(batch(0) + batch(1)[:70])
    assert [row["code"] for row in du("t-0", cwd=tmp_path, status=3) if row["type"] == "finding"]


@pytest.mark.parametrize("by", ["topic", "group", "key"])
def test_what_vanishes_or_shrinks_meanwhile_is_neither_damage_nor_unchecked(
    by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (0, 5, 9):
        (tmp_path / "t-0").mkdir(exist_ok=True)
        (tmp_path / "t-0" / f"{number:020}.log").write_bytes(batch(number) * 3000)
    once = open_source

    def gone(path: str, **given: Any) -> Any:
        source = once(path, **given)
        if path.endswith("5.log"):
            (tmp_path / "t-0" / f"{9:020}.log").unlink(missing_ok=True)
            os.truncate(path, 100)
        return source

    monkeypatch.setattr(fold, "open_source", gone)
    found = list(usage([str(tmp_path)], options_of(by)))
    assert not [one for one in found if isinstance(one, OpenFailure)]
    assert sum(one.files for one in found if isinstance(one, Usage)) == 3


def test_what_cannot_be_read_is_said_and_the_rest_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("t-0", "u-0", "v-0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{0:020}.log").write_bytes(batch(0))
    os.mkfifo(tmp_path / "t-0" / "pipe")
    once, read = open_source, FileSource.read_into

    def refused(path: str, **given: Any) -> Any:
        if path.endswith(f"u-0/{0:020}.log"):
            return OpenFailure(path, "permission", f"{path}: Permission denied")
        return once(path, **given)

    def failing(self: FileSource, position: int, target: memoryview) -> int:
        if "v-0" in self.name:
            raise OSError(errno.EIO, "Input/output error", self.name)
        return read(self, position, target)

    monkeypatch.setattr(fold, "open_source", refused)
    monkeypatch.setattr(FileSource, "read_into", failing)
    for by in ("partition", "key"):
        found = list(usage([str(tmp_path)], options_of(by, superseded=True)))
        said = sorted(one.path.removeprefix(f"{tmp_path}/") for one in found if isinstance(one, OpenFailure))
        assert said == ["t-0/pipe", f"u-0/{0:020}.log", f"v-0/{0:020}.log"]
        assert sum(one.size for one in found if isinstance(one, Usage)) == 3 * len(batch(0))


def test_a_directory_that_cannot_be_listed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("t-0", "u-0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{0:020}.log").write_bytes(batch(0))
    once = os.scandir

    def closed(path: str) -> Any:
        if str(path).endswith("u-0"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return once(path)

    monkeypatch.setattr("os.scandir", closed)
    found = list(usage([str(tmp_path)], options_of("partition")))
    assert [one.path for one in found if isinstance(one, OpenFailure)] == [str(tmp_path / "u-0")]
    assert sum(one.size for one in found if isinstance(one, Usage)) == len(batch(0))


def test_a_path_inside_another_one_counts_once(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    log = tmp_path / "t-0" / f"{0:020}.log"
    log.write_bytes(batch(0))
    for paths in ((".", "t-0", log), ("t-0", ".", log), (log, ".")):
        assert sum(row["bytes"] for row in du(*paths, cwd=tmp_path) if row["type"] == "usage") == len(batch(0))


def test_notes_are_counted_or_listed() -> None:
    place = FIXTURES / "log-o04-offset-gap"
    rows = run_kdump(["du", "--format", "json", "."], place).stdout.decode()
    notes = rows.count('"severity":"note"')
    assert notes > 0
    counted = run_kdump(["du", "."], place)
    assert counted.stdout.decode().splitlines()[-1] == f"{notes} note{'s'[: notes > 1]} (--notes lists them)"
    assert counted.stderr == b""
    listed = run_kdump(["du", "--notes", "."], place)
    assert "--notes" not in listed.stdout.decode()
    assert listed.stderr.decode().count("note O04 ") == notes
