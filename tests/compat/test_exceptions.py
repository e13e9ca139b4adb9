"""Records changed behind a right CRC: under --compat 4.3 the text, and the exception that ends it, are Kafka's."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.runs import FIXTURES, run_kdump, unfair_exit

if TYPE_CHECKING:
    from pathlib import Path

with gzip.open(FIXTURES / "exceptions" / "dumps.jsonl.gz", "rt", encoding="utf-8") as _file:
    DUMPS: list[dict[str, Any]] = [json.loads(line) for line in _file]
PARTS = 16


def how_it_differs(dump: dict[str, Any], folder: Path) -> str | None:
    """Compare one run with the recorded one: the text, then class and message of the exception."""
    (folder / dump["name"]).write_bytes(base64.b64decode(dump["log"]))
    run = run_kdump(["dump", "--compat", "4.3", "--files", dump["name"], *dump["args"]], folder)
    if hashlib.sha256(run.stdout).hexdigest() != dump["stdout"]:
        got = run.stdout.decode("utf-8", "replace").rstrip("\n").rpartition("\n")[2][-160:]
        return f"the text is another one; last line\n  expected {dump['last']}\n  got      {got}"
    found = run.stderr.decode().partition('Exception in thread "main" ')[2].rstrip("\n")
    if found != dump["exception"]:
        return f"expected {dump['exception'] or 'a quiet end'}\n  got      {found or 'a quiet end'}"
    return unfair_exit(run)


@pytest.mark.parametrize("part", range(PARTS))
def test_text_and_exception_are_those_of_the_tool(part: int, tmp_path: Path) -> None:
    problems = [
        f"{dump['name']} {dump['args']}: {problem}"
        for dump in DUMPS[part::PARTS]
        if (problem := how_it_differs(dump, tmp_path)) is not None
    ]
    assert not problems, "\n".join(problems)


def test_the_sample_has_every_kind_of_end() -> None:
    ends = {dump["exception"].partition(": ")[0] for dump in DUMPS}
    assert len(DUMPS) > 600
    assert {"", "org.apache.kafka.common.KafkaException", "org.apache.kafka.common.InvalidRecordException"} < ends
