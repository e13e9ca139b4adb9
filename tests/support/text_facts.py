"""Reads the facts of text for people back, and says which of them the rows of JSON have otherwise, or not at all.

Nothing here asks the code that writes the text: numbers, sizes and times are read as a person reads them.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Row = dict[str, Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {"B": 0, "kB": 1, "MB": 2, "GB": 3, "TB": 4}
_RIGHT = ("offset", "log end", "lag", "producer", "epoch", "segment", "size", "segment after", "batches", "records")
_SIZE = r"[\d.]+ (?:[kMGT]?B)"
_TOKEN = re.compile(r"\S+(?: \S+)*")
_OPERATION = re.compile(
    r"(?:would|refused:) (?:rebuild|rewrite|create|cut|empty|remove|patch) (.*) ([\d,]+|none) -> ([\d,]+|none) bytes"
)
_SHARE = re.compile(rf" *({_SIZE}) +(\d+)%(?: [█▏▎▍▌▋▊▉]+)? +(.*)")
_FACT = re.compile(r"\b(offset|timestamp|leaderEpoch|file|position|baseOffset|lastOffset): (\S+)")
_ANSWER = re.compile(r"(\S+  )?(nothing: |offset: |timestamp: |leaderEpoch: |file: )")


def is_size(text: str, count: int) -> bool:
    """Whether a rounded size stands for a number of bytes."""
    number, unit = text.split()
    digits = len(number.partition(".")[2])
    return bool(abs(float(number) - count / 1000 ** _UNITS[unit]) <= 0.5 * 10**-digits + 1e-9)


def iso(timestamp: int | None) -> str:
    """Return a time as text has it."""
    if timestamp is None or timestamp < 0:
        return "none"
    try:
        return f"{(_EPOCH + timedelta(milliseconds=timestamp)).isoformat(timespec='milliseconds')[:-6]}Z"
    except OverflowError:
        return str(timestamp)


def offsets(start: int, end: int) -> str:
    """Return the offsets from one to before another as text has them."""
    return "no records" if start >= end else f"offset {start}" if end - start == 1 else f"offsets {start}..{end - 1}"


def counted(count: int, noun: str, many: str | None = None) -> str:
    """Return a number with its noun."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


class Told:
    """Text for people.

    Args:
        lines: of it, as a person sees them.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self._squeezed = squeezed(" ".join(lines))

    def lacks(self, *parts: str) -> list[str]:
        """Return which parts are not told: where lines end, and how wide columns are, does not matter."""
        return [f"not told: {part}" for part in parts if squeezed(part) not in self._squeezed]

    def sentences(self, starts: Callable[[str], object]) -> list[str]:
        """Return sentences: a line that starts none belongs to the one before it."""
        found: list[str] = []
        for line in self.lines:
            if starts(line) or not found:
                found.append(line)
            else:
                found[-1] += f" {line.strip()}"
        return found

    def table(self, headings: Sequence[str], anchor: str) -> Iterator[dict[str, str]]:
        """Yield the rows of tables: cells by their heading, without blanks, as a cell may take several lines.

        Args:
            headings: all that such a table can have; what stands behind the last one has none.
            anchor: one that every row has a cell of, in its first line.
        """
        places: list[tuple[str, int, int]] = []
        row: dict[str, str] = {}
        for line in self.lines:
            tokens = [(one[0], one.start(), one.end()) for one in _TOKEN.finditer(line)]
            if len(tokens) > 1 and all(text in headings for text, _, _ in tokens):
                if row:
                    yield row
                places, row = tokens, {}
                continue
            cells = {_heading(token, places): token[0] for token in tokens}
            if not tokens or not places or None in cells:
                if row:
                    yield row
                row, places = {}, []
                continue
            if anchor in cells:
                if row:
                    yield row
                row = {name: "" for name, _, _ in places}
            for name, text in cells.items():
                if name in row:
                    row[str(name)] += squeezed(text)
        if row:
            yield row


def squeezed(text: str) -> str:
    """Return a text without its blanks."""
    return "".join(text.split())


def _heading(token: tuple[str, int, int], places: Sequence[tuple[str, int, int]]) -> str | None:
    _, start, end = token
    if places and start > places[-1][2]:
        return ""
    starts = [at for _, at, _ in places[1:]] + [sys.maxsize]
    for (name, at, till), behind in zip(places, starts, strict=False):
        if (end == till) if name in _RIGHT else (start == at and end < behind):
            return name
    return None


def _same(told: Iterable[dict[str, str]], rows: list[Row], names: Sequence[str], *, whole: bool = True) -> list[str]:
    """Compare what a table tells with the rows, in the columns that it has of those that are named."""
    shown = [{key: one for key, one in row.items() if key in names} for row in told]
    wrong = [] if len(shown) == len(rows) or not whole else [f"{len(shown)} rows are told of {len(rows)}"]
    for keys in {tuple(sorted(row)) for row in shown}:
        left = Counter(tuple(sorted(row.items())) for row in shown if tuple(sorted(row)) == keys)
        right = Counter(tuple((key, squeezed(str(row[key]))) for key in keys) for row in rows)
        wrong += [f"no row of JSON is {one}" for one in left - right]
    return wrong


# --- the verbs ----------------------------------------------------------------------------------------------
def groups(told: Told, rows: list[Row]) -> list[str]:
    """Compare groups and their commits."""
    wrong = told.lacks(
        *(
            f"{row['group']} {row['groupType']} {row['state']} epoch {row['epoch']} {row['protocol'] or ''}"
            f"{counted(row['members'], 'member')}"
            for row in rows
            if row["type"] == "group"
        )
    )
    commits = [
        {
            "partition": f"{row['topic']}-{row['partition']}",
            "offset": row["offset"],
            "log end": "" if row["logEndOffset"] is None else row["logEndOffset"],
            "lag": "" if row["lag"] is None else f"{row['lag']:,}",
            "committed": iso(row["commitTimestamp"]),
        }
        for row in rows
        if row["type"] == "commit"
    ]
    headings = ("partition", "offset", "log end", "lag", "committed", "notes")
    return wrong + _same(told.table(headings, "offset"), commits, headings[:-1])


def transactions(told: Told, rows: list[Row]) -> list[str]:
    """Compare the coordinator's transactions, and those that are open."""
    headings = ("state", "transactional id", "producer", "epoch", "last update", "partitions")
    known = [
        {
            "state": row["state"],
            "transactional id": row["transactionalId"] or '""',
            "producer": row["producerId"],
            "epoch": row["producerEpoch"],
            "last update": iso(row["lastUpdateTimestamp"]),
        }
        for row in rows
        if row["type"] == "transaction"
    ]
    wrong = _same(told.table(headings, "state"), known, headings[:-1])
    opened = [row for row in rows if row["type"] == "open"]
    for row in opened:
        name = "" if row["transactionalId"] is None else f"({row['transactionalId']})"
        wrong += told.lacks(
            f"{row['topic']}-{row['partition']} {'HANGING' if row['hanging'] else 'open'}",
            f"producer {row['producerId']} epoch {row['producerEpoch']} {name} since {iso(row['sinceTimestamp'])}",
            f"{offsets(row['firstOffset'], row['logEndOffset'])}: blocks {counted(row['blockedRecords'], 'record')},",
            row["why"],
        )
    blocked = re.findall(rf"blocks [\d,]+ records?, ({_SIZE})", " ".join(line.strip() for line in told.lines))
    if len(blocked) != len(opened) or not all(map(is_size, blocked, (row["blockedBytes"] for row in opened))):
        wrong.append(f"blocked bytes are told as {blocked}")
    return wrong


def usage(told: Told, rows: list[Row]) -> list[str]:
    """Compare what uses the space, by topic; at 80 columns and more."""
    used = [row for row in rows if row["type"] == "usage"]
    has_blocks = any(row["allocatedBytes"] for row in used)
    weights = [row["allocatedBytes" if has_blocks else "bytes"] for row in used]
    lines = [
        found for line in told.sentences(lambda one: re.match(rf" *{_SIZE} ", one)) if (found := _SHARE.fullmatch(line))
    ]
    if len(lines) != len(used):
        return [f"{len(lines)} names are told of {len(used)}"]
    wrong = []
    for line, row, weight in zip(lines, used, weights, strict=True):
        free = row["freeable"]
        frees = re.search(rf"frees ({_SIZE})", line[3])
        count = None if free is None else free["bytes"] or (free["nextBytes"] if free["nextAt"] is not None else None)
        name = "(other)" if row["name"] is None else row["name"]
        if not (
            is_size(line[1], weight)
            and abs(int(line[2]) - 100 * weight / max(1, *weights, sum(weights))) <= 0.5
            and (not isinstance(name, str) or squeezed(line[3]).startswith(squeezed(name)))
            and (frees is None) == (count is None)
            and (frees is None or count is None or is_size(frees[1], count))
        ):
            wrong.append(f"{line[0]} is told of {row}")
    notes = sum(1 + (row["more"] or 0) for row in rows if row["type"] == "finding" and row["severity"] == "note")
    return wrong + told.lacks(*[f"{counted(notes, 'note')} (--notes"][: notes > 0])


def retention(told: Told, rows: list[Row]) -> list[str]:
    """Compare partitions and their segments; a screen may fold segments that stay."""
    wrong: list[str] = []
    segments: list[Row] = []
    for row in (one for one in rows if one["type"] == "retention"):
        wrong += told.lacks(
            f"{row['partition']} {counted(len(row['segments']), 'segment')} "
            f"{offsets(row['logStartOffset'], row['logEndOffset'])}"
        )
        segments += [
            {"segment": one["baseOffset"], "largest timestamp": iso(one["largestTimestamp"]), "from": one["from"]}
            for one in row["segments"]
        ]
    headings = ("segment", "size", "largest timestamp", "from", "data says", "goes")
    shown = [row for row in told.table(headings, "segment") if row["segment"] != "..."]
    for row in shown:  # a time that is plausible in another unit is told with that
        row["largest timestamp"] = re.sub(r"\((seconds|micros|nanos)\?\)$", "", row["largest timestamp"])
    folded = any("more stay" in line for line in told.lines)
    return wrong + _same(shown, segments, ("segment", "largest timestamp", "from"), whole=not folded)


def plans(told: Told, rows: list[Row]) -> list[str]:
    """Compare the operations of plans, and what is left to do."""

    def number(text: str) -> int | None:
        return None if text == "none" else int(text.replace(",", ""))

    sentences = told.sentences(lambda line: not line.startswith("  ") or line.startswith("  lose"))
    shown = Counter(
        (found[1], number(found[2]), number(found[3])) for one in sentences if (found := _OPERATION.match(one))
    )
    plan_rows = [row for row in rows if row["type"] == "plan"]
    known = Counter(
        (f"{row['partition']}/{one['file']}", one["from"], one["to"]) for row in plan_rows for one in row["operations"]
    )
    wrong = [f"{one} is told, and not in JSON" for one in shown - known]
    wrong += [f"{one} is not told" for one in known - shown]
    for row in plan_rows:
        lost = [f"loses {row['bytesLost']:,} bytes"] if row["bytesLost"] else []
        wrong += told.lacks(*(f"note: {one}" for one in row["announces"]), *lost)
    return wrong


def lookups(told: Told, rows: list[Row]) -> list[str]:
    """Compare the answers of find."""
    names = ("offset", "timestamp", "leaderEpoch", "file", "position", "baseOffset", "lastOffset")
    answers = [row for row in rows if row["type"] == "location"]
    shown = [
        dict(_FACT.findall(one))
        for one in told.sentences(_ANSWER.match)
        if (found := _ANSWER.match(one)) and found[2] != "nothing: "
    ]
    known = [
        {
            name: str(row[name])
            for name in names
            if row[name] is not None and not (name == "timestamp" and row[name] < 0)
        }
        for row in answers
        if row["error"] is None
    ]
    wrong = [] if shown == known else [f"{shown} is told, {known} in JSON"]
    return wrong + told.lacks(*(row["error"] for row in answers if row["error"]))


def salvaged(told: Told, rows: list[Row]) -> list[str]:
    """Compare what salvage has kept and lost."""

    def amounts(row: Row, size: str) -> str:
        return (
            f"{counted(row['batches'], 'batch', 'batches')}, {counted(row['records'], 'record')}, "
            f"{counted(row[size], 'byte')}"
        )

    end = rows[-1]
    if end["exit"] == 10:
        return told.lacks("nothing was salvaged")
    of = f", and those of {counted(end['recordsUnknown'], 'range')} unknown" if end["recordsUnknown"] else ""
    lost = f"{counted(end['offsetsLost'], 'offset')}, {counted(end['recordsLost'], 'record')}{of}"
    return told.lacks(
        *(
            f"offsets {row['logStartOffset']}..{row['logEndOffset'] - 1}, {counted(row['segments'], 'segment')}, "
            f"{amounts(row, 'bytes')}"
            for row in rows
            if row["type"] == "salvage"
        ),
        f"{amounts(end, 'bytes')}; lost: {lost if end['offsetsLost'] else 'nothing'}",
    )


def carved(told: Told, rows: list[Row]) -> list[str]:
    """Compare the runs of carve."""
    runs = [row for row in rows if row["type"] == "run"]
    return told.lacks(
        *(
            f"{row['image']}:{row['position']}+{row['length']}, offsets {row['offset']}..{row['lastOffset']}, "
            f"{counted(row['batches'], 'batch', 'batches')}, {counted(row['records'], 'record')}, "
            f"{'epoch' if len(row['epochs']) == 1 else 'epochs'} {' '.join(map(str, row['epochs'])) or 'unknown'}, "
            + (f"{row['kind']} of {row['topicPartition']}" if row["topicPartition"] else row["kind"])
            for row in runs
        ),
        f"found {counted(len(runs), 'run')}, {counted(rows[-1]['batches'], 'batch', 'batches')}, "
        f"{counted(sum(row['records'] for row in runs), 'record')}",
    )


def cluster(told: Told, rows: list[Row]) -> list[str]:
    """Compare the table of partitions, and find every topic, broker and setting."""
    headings = ("partition", "leader", "epoch", "replicas", "in sync")
    known = [
        {
            "partition": f"{row['topic']}-{row['partitionId']}",
            "leader": "none" if row["leader"] < 0 else row["leader"],
            "epoch": row["leaderEpoch"],
            "replicas": ",".join(map(str, row["replicas"])),
            "in sync": ",".join(map(str, row["isr"])) or "none",
        }
        for row in rows
        if row["type"] == "partition"
    ]
    topics = [row["name"] for row in rows if row["type"] == "topic"]
    settings = [
        {"name": row["name"], "value": "hidden" if row["value"] is None else row["value"]}
        for row in rows
        if row["type"] == "config"
    ]
    of = "config of", "name", "value"
    return [
        *told.lacks(*topics),
        *_same(told.table(headings, "leader"), known, headings),
        *_same(told.table(of, "value"), settings, of[1:]),
    ]
