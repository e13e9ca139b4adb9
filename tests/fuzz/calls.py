"""What a case can call besides kdump: the walk and the reader of records themselves, and what needs a look before."""

from __future__ import annotations

import json
import random
from copy import deepcopy
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.fork_server import run

if TYPE_CHECKING:
    from collections.abc import Callable


def walk(main: Callable[[], Any], path: str, base: str, stop: str) -> int:
    """The law of byte conservation, in one go and in windows of another size; prints all that came out."""
    from tests.support.scan_windows import check_law, walked, windows_of

    data = Path(path).read_bytes()
    with windows_of(None, 7):
        found = walked(data, int(base))
    check_law(found)
    with windows_of(200, 3):
        assert walked(data, int(base), stops=[int(stop)]).told == found.told, "windows decide what is found"
    print(found.rows, found.told)
    return 0


def records(main: Callable[[], Any], path: str) -> int:
    """All records, as kdump reads them and as Kafka does; prints every column that is filled."""
    from kdump.compat.kafka_reader import KafkaRecordReader
    from kdump.format.batch import layout
    from kdump.format.batch.walk import CheckedWalk
    from kdump.format.record.reader import RecordReader
    from kdump.format.source import BytesSource
    from tests.support.scan_windows import windows_of

    source = BytesSource(Path(path).read_bytes(), "log")
    for reader in (RecordReader(1 << 20), RecordReader(1 << 20, cut=5), KafkaRecordReader(1 << 20)):
        with windows_of(None):
            checked = CheckedWalk(source, lambda _: None, next_base=None, max_batch_bytes=1 << 20)
            for window in checked.windows():
                for chunk in reader.chunks(window):
                    size = chunk.filled * layout.RECORD_WIDTH
                    print(chunk.first, chunk.last, chunk.begun, chunk.done, chunk.problem, chunk.rows[:size])
    return 0


def _journals(folder: str) -> list[str]:
    return sorted(map(str, Path(folder).rglob("journal.json")))


def undo(main: Callable[[], Any], folder: str) -> int:
    """Undo what is in a quarantine."""
    return max((run(main, ["undo", path, "--apply"]) for path in _journals(folder)), default=0)


def resume(main: Callable[[], Any], folder: str) -> int:
    """Resume what is in a quarantine."""
    return max((run(main, ["resume", path]) for path in _journals(folder)), default=0)


VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    2**63,
    10**30,
    1.5,
    "",
    "x",
    "../x",
    "a/b",
    ".",
    "..",
    "\0",
    "\ud800",
    "0",
    "abc",
    [],
    {},
]
VALUES += ["00" * 40, "AAA", "A" * 5000, [None], {"": 1}, 0o6777, 2**31, "armed", "done", "planned", "undoing"]


def tamper(main: Callable[[], Any], folder: str, seed: str) -> int:
    """Change some values of a journal, or its bytes."""
    chance = random.Random(int(seed))
    for path in map(Path, _journals(folder)):
        fields = json.loads(path.read_text())
        for _ in range(chance.randrange(1, 4)):
            place = fields
            while True:
                keys = list(place) if isinstance(place, dict) else list(range(len(place)))
                if not keys:
                    break
                key = chance.choice(keys)
                if isinstance(place[key], dict | list) and place[key] and chance.random() < 0.8:
                    place = place[key]
                    continue
                if chance.random() < 0.15:
                    del place[key]
                else:
                    place[key] = deepcopy(chance.choice(VALUES))  # the next change may go into it
                break
        data = json.dumps(fields).encode()
        if chance.random() < 0.15:
            data = data[: chance.randrange(len(data))] + chance.randbytes(chance.randrange(3))
        path.write_bytes(data)
    return 0


def salvaged(main: Callable[[], Any], folder: str) -> int:
    """What salvage has written: every offset once in its rows, no error in its files, and a broker repairs nothing."""
    from kdump.api.verdict import verify
    from kdump.finding import Code, Severity

    # Nobody can tell which epoch is wrong where what lay between two stays out; an entry of time 0 is all zeros; what a
    # source had twice is kept twice; no snapshot of a metadata log is made up where the result has none at all.
    not_known = [Code.E01, Code.E03, Code.F15, Code.O08, Code.T02]
    if not any(Path(folder).glob("*/*.checkpoint")):
        not_known.append(Code.L18)

    rows = [json.loads(line) for path in Path(folder).glob("*.jsonl") for line in path.read_text().splitlines()]
    spans = [(row["offset"], row["lastOffset"]) for row in rows if row["type"] in {"kept", "loss"}]
    assert all(-1 < first <= last < 2**63 for first, last in spans), f"rows of no offsets: {spans}"
    start = next((row["logStartOffset"] for row in rows if row["type"] == "salvage"), 0)
    spans = [span for span in spans if span[1] >= start]  # nobody misses what lies below
    reached = accumulate((last for _, last in spans), max)  # a batch may overlap those before it (O03)
    assert all(first <= end + 1 for end, (first, _) in zip(reached, spans[1:], strict=False)), (
        f"rows with a gap: {spans}"
    )
    here, lost = (
        [(row["offset"], row["lastOffset"]) for row in rows if row["type"] == kind] for kind in ("kept", "loss")
    )
    twice = [one for one in lost for other in here if one[0] <= other[1] and other[0] <= one[1]]
    assert not twice, f"kept, and lost: {twice}"
    if any(Path(folder).glob("*/*.log")):
        found = verify(folder, start="all")
        wrong = [one for one in found.findings if one.severity is Severity.ERROR and one.code not in not_known]
        errors = [f"{one.code.name} {one.file} {one.message}" for one in wrong]
        assert not errors, f"wrong in what was salvaged: {errors}"
        kept = ("keep", "rebuild-index")  # the interval is guessed from few entries, that of the source from others
        repaired = [
            one
            for told in found.predictions
            for one in ([told] if not told.loads else [one for one in told.segments if one.action not in kept])
        ]
        assert not repaired, f"a broker repairs it: {repaired}"
    return 0


def options(main: Callable[[], Any], path: str) -> int:
    """The options of the data source, from the texts of a file: values, or one line that says what is wrong."""
    from kdump.export.origin import ManifestError
    from kdump.export.tables import UnknownNameError
    from kdump.spark.source_options import OptionError, SourceOptions

    said = ""
    try:
        found = SourceOptions(json.loads(Path(path).read_text("utf-8")))
        found.demand_selected()
        print(found.table, found.columns, found.verify, found.split_size, found.tasks, found.roots, found.is_permissive)
    except (OptionError, UnknownNameError, ManifestError) as error:
        said = str(error)
    assert len(said.splitlines()) <= 1, f"not one line: {said}"
    return 2 if said else 0


CALLS: dict[str, Callable[..., int]] = {
    "@walk": walk,
    "@records": records,
    "@undo": undo,
    "@resume": resume,
    "@tamper": tamper,
    "@salvaged": salvaged,
    "@options": options,
}
