"""A case as lines for a person: what happened, what lies where, what is wrong with it.

Of a batch: first and last offset, leader epoch, `!` damaged, `@` the base offset and `e` the leader epoch that its
header has instead, `*` not of the line that counts, `c` some of its records are cleaned away; of the line `t` a
transaction's producer, `C` and `A` its markers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.rescue_truth.batches import read_log
from tests.support.rescue_truth.cluster import ident
from tests.support.rescue_truth.disks import EPOCHS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.hole_logs import Batch
    from tests.support.rescue_truth.truth import Placed, Truth


def told(truth: Truth) -> Iterator[str]:
    """Yield the lines of a case."""
    case = truth.case
    yield case.told
    yield f"line, led by broker {case.cluster.leader}: {' '.join(map(_appended, truth.ordered(truth.line)))}"
    for number, copy in enumerate(case.copies):
        log = copy.replica
        yield f"b{number}, of broker {log.number}: offsets {log.first}..{log.end - 1}"
        for path, data in sorted(copy.beside.items()):
            if path.endswith("checkpoint"):
                yield f"  {path}: {', '.join(data.decode().splitlines()[2:])}"
        if EPOCHS in copy.small:
            yield f"  {EPOCHS}: {', '.join(copy.small[EPOCHS].decode().splitlines()[2:])}"
        others = (f"{path}({len(data)})" for path, data in sorted(copy.small.items()) if path != EPOCHS)
        yield f"  other files, and their bytes: {' '.join(others)}"
        here = [one for one in truth.placed if one.copy == number]
        for path in sorted(copy.logs):
            yield f"  {path}: {' '.join(_placed(one, truth) for one in here if one.path == path)}"
        gone = [one for one in log.batches if ident(one) not in {one.ident for one in here}]
        if gone:
            yield f"  gone: {' '.join(map(_appended, gone))}"


def made(out: Path) -> Iterator[str]:
    """Yield the lines of the results below a directory."""
    for rows in sorted(out.glob("*.salvage.jsonl")):
        yield from rows.read_text().splitlines()
    for log in sorted(out.glob("*/*.log")):
        batches = " ".join(f"{one.base}..{one.last}/{one.epoch}" for one in read_log(log.read_bytes()))
        yield f"{log.parent.name}/{log.name}: {batches}"


def _appended(one: Batch) -> str:
    kind = f"t{one.producer[0]}" if one.is_transactional else ""
    if one.commits is not None:
        kind = f"{'C' if one.commits else 'A'}{one.producer[0]}"
    return f"{one.base}..{one.last}/{one.epoch}{kind}"


def _placed(one: Placed, truth: Truth) -> str:
    marks = "!" * (not one.is_intact) + f"@{one.header[0]}" * (not one.has_base)
    marks += f"e{one.header[1]}" * (not one.has_epoch) + "*" * (one.ident not in truth.line)
    marks += "c" * (len(one.was.entries) <= one.was.last - one.was.base)
    return f"{one.was.base}..{one.was.last}/{one.was.epoch}{marks}"
