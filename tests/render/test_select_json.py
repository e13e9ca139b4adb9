"""A selection in JSON is what a filter leaves of the JSON of everything."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.runs import FIXTURES, run_kdump

if TYPE_CHECKING:
    from collections.abc import Callable

RELEASES = FIXTURES / "releases"
FOLDERS = [
    RELEASES / "3.9.2" / "logs" / "txn-0",
    RELEASES / "0.10.2.2" / "logs" / "gzip-0",
    RELEASES / "0.11.0.3" / "logs" / "m1-0",
    FIXTURES / "kafka-4.3.1" / "clean" / "node1" / "plain-0",
    FIXTURES / "kafka-4.3.1" / "clean" / "node1" / "zstd-0",
    FIXTURES / "kafka-4.3.1" / "clean" / "node1" / "compact-0",
]
Object = dict[str, Any]


def dumped(*args: str) -> list[Object]:
    run = run_kdump(["dump", "--format", "json", "--print-data-log", *args], FIXTURES)
    assert run.exit in (0, 10)  # 10: nothing of the selection is there
    return [json.loads(line) for line in run.stdout.splitlines()]


def records(objects: list[Object]) -> list[Object]:
    return [one for one in objects if one["type"] == "record"]


def middle(objects: list[Object], field: str) -> Any:
    values = sorted(one[field] for one in records(objects) if one[field] is not None and one[field] != -1)
    return values[len(values) // 2] if values else 0


def key_of(objects: list[Object]) -> str:
    keys = [one["key"] for one in records(objects) if isinstance(one["key"], str) and one["control"] is None]
    return keys[len(keys) // 2] if keys else "none"


WAYS: dict[str, Callable[[list[Object]], tuple[list[str], Callable[[Object], bool]]]] = {
    "offset": lambda full: (
        ["--from-offset", str(middle(full, "offset")), "--to-offset", str(middle(full, "offset") + 7)],
        lambda one: middle(full, "offset") <= one["offset"] < middle(full, "offset") + 7,
    ),
    "time": lambda full: (
        ["--from-time", str(middle(full, "timestamp"))],
        lambda one: one["timestamp"] != -1 and one["timestamp"] >= middle(full, "timestamp"),
    ),
    "key": lambda full: (["--key", key_of(full)], lambda one: one["key"] == key_of(full)),
    "tombstones": lambda _: (["--tombstones"], lambda one: one["payload"] is None),
    "header": lambda _: (
        ["--header", "trace"],
        lambda one: any(header["key"] == "trace" for header in one["headers"] or ()),
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: "/".join(path.parts[-3:]))
def test_a_selection_is_a_filter(folder: Any, way: str) -> None:
    full = dumped(str(folder))
    args, wanted = WAYS[way](full)
    chosen = dumped(*args, str(folder))
    left = [one for one in records(full) if wanted(one)]
    assert records(chosen) == left
    batches = [(one["file"], one["position"]) for one in chosen if one["type"] == "batch"]
    if way in ("key", "tombstones", "header"):
        assert batches == list(dict.fromkeys((one["file"], one["batchPosition"]) for one in left))
    assert [one["file"] for one in chosen if one["type"] == "file"] == list(dict.fromkeys(file for file, _ in batches))
    assert chosen[-1]["records"] == len(left)


@pytest.mark.parametrize("count", [1, 10, 100_000])
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: "/".join(path.parts[-3:]))
def test_the_first_and_the_last_records(folder: Any, count: int) -> None:
    full = records(dumped(str(folder)))
    assert records(dumped("--limit", str(count), str(folder))) == full[:count]
    assert records(dumped("--tail", str(count), str(folder))) == full[-count:]


def test_forms_are_decoded_values() -> None:
    folder = str(FIXTURES / "kafka-4.3.1" / "clean" / "node1" / "plain-0")
    (one,) = records(dumped("--limit", "1", "--key-format", "hex", "--value-format", "base64", folder))
    assert (one["key"], one["decodedKey"], one["payload"], one["decodedPayload"]) == ("k0", "6b30", "", "")


def test_times_stay_numbers() -> None:
    run = run_kdump(["dump", "--format", "json", "--timestamps", "iso", "x.log"], FIXTURES)
    assert (run.exit, run.stderr.splitlines()[-1]) == (2, b"Error: --timestamps iso is for text: times are ms in JSON.")


def test_findings_are_in_line() -> None:
    folder = str(RELEASES / "3.9.2" / "logs" / "txn-0")
    objects = dumped("--committed", "--transactional", folder)
    assert [one["code"] for one in objects if one["type"] == "finding"] == ["P04"]
