"""The first sentences of the report: what is damaged, what readers lose, and what happens next; for whoever decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.finding import Severity
from kdump.verdict import DAMAGED, LOST, SOUND, WARNING
from kdump.words.numbers import counted, size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.render.html.collected import PartitionFound
    from kdump.rows.verdict import Prediction
    from kdump.tally import Tally

_BOTH = 2
_AFTER = {"clean": "a clean shutdown", "unclean": "an unclean shutdown", "full": "the loss of its checkpoints"}


def headline(found: Sequence[PartitionFound], tally: Tally, *, is_quiet: bool) -> tuple[str, str, list[str]]:
    """Return the verdict in a word, in a sentence, and what follows from it.

    Args:
        found: everything that has a row.
        tally: the totals.
        is_quiet: losses and predictions were not asked for.
    """
    word, lead = _verdict(found, tally)
    more = []
    if not is_quiet:
        if tally.severities[Severity.ERROR] or tally.offsets_lost:
            more.append(_lost(found, tally))
        more += _starts(found)
    unread = sum(path is not None for path, _ in tally.unchecked)
    if unread:
        more.append(
            f"{counted(unread, 'file was', 'files were')} not read, or not to the end: see what was not checked."
        )
    return word, lead, [sentence for sentence in more if sentence]


def _verdict(found: Sequence[PartitionFound], tally: Tally) -> tuple[str, str]:
    partitions = [one for one in found if one.checked is not None]
    files = [one for one in found if one.size is not None]
    whole = partitions or files or list(found)
    noun = "partition" if tally.replicated is None else "replica"
    noun = noun if partitions or (tally.partitions and not files) else "file" if files else "directory"
    count = len(whole) if partitions or files else max(len(found), tally.partitions)  # a scrub tells of damage only
    bad = [one for one in whole if one.word == DAMAGED]
    if bad:
        return DAMAGED, f"{_of(bad, count, noun)} damaged."
    if tally.damages:
        return DAMAGED, f"No {noun} is damaged, but other files of the broker are."
    if not tally.files and not partitions:
        return "NOTHING", "Nothing was checked."
    if any(path is not None for path, _ in tally.unchecked):
        return "INCOMPLETE", "No damage was found, but not everything could be read."
    lacking = [one for one in whole if one.word == LOST]
    if lacking:
        lost = counted(tally.offsets_lost, "offset is", "offsets are")
        return LOST, f"No damage in what is here, but {lost} missing: {_of(lacking, count, noun)} not whole."
    if tally.severities[Severity.WARNING]:
        suspect = [one for one in whole if one.word == WARNING]
        if suspect:
            return WARNING, f"No damage; {_of(suspect, count, noun)} not quite as it should be."
        return WARNING, "No damage; there are warnings about other files of the broker."
    if count == 1:
        return SOUND, f"No damage: {whole[0].name if whole else f'the {noun}'} is sound."
    return SOUND, f"No damage: all {_many(count, noun)} are sound." if count else "No damage."


def _of(some: Sequence[PartitionFound], count: int, noun: str) -> str:
    if count == 1:
        return f"{some[0].name} is"
    if len(some) == count:
        return f"{'Both' if count == _BOTH else f'All {count:,}'} {_many(count, noun).partition(' ')[2]} are"
    return f"{len(some):,} of {_many(count, noun)} {'is' if len(some) == 1 else 'are'}"


def _many(count: int, noun: str) -> str:
    return counted(count, noun, "directories" if noun == "directory" else None)


def _lost(found: Sequence[PartitionFound], tally: Tally) -> str:
    if not tally.offsets_lost:
        return "No records are known to be lost." if tally.partitions else ""
    offsets = counted(tally.offsets_lost, "offset")
    if tally.records_unknown:
        known = f", {counted(tally.records_lost, 'known record')} among them" if tally.records_lost else ""
        first = f"Readers do not get {offsets}{known}; the number of records in the rest is unknown."
    else:
        first = f"Readers do not get {counted(tally.records_lost, 'record')} ({offsets})."
    compared = [loss for one in found for loss in one.lost.losses if loss.replicas is not None]
    if not compared:
        return first
    nowhere = sum(loss.offsets for loss in compared if not loss.elsewhere)
    if nowhere:
        return f"{first} Of these, {counted(nowhere, 'offset is', 'offsets are')} intact in no replica that was given."
    return f"{first} All are intact in another replica."


def _starts(found: Sequence[PartitionFound]) -> Iterator[str]:
    """Yield a sentence for each kind of start that changes something."""
    starts: dict[str, list[Prediction]] = {}
    for one in found:
        for row in one.predictions:
            starts.setdefault(row.as_ or row.start, []).append(row)
    said: dict[str, list[str]] = {}
    for start, rows in starts.items():
        said.setdefault(_start(rows), []).append(_AFTER[start])
    for sentence, kinds in said.items():
        if len(kinds) == len(_AFTER):
            yield f"At the next start, however it was shut down, {sentence}."
        else:
            yield f"At the next start after {' or '.join(kinds)} {sentence}."


def _start(rows: Sequence[Prediction]) -> str:
    refused = [row for row in rows if not row.loads]
    if any(row.stops == "broker" for row in refused):
        return "the broker does not come up"
    if refused:
        return f"the log directory goes offline, with {counted(len(refused), 'partition')}"
    lost = sum(row.bytes_lost for row in rows)
    records = sum(row.records_lost for row in rows)
    hidden = sum(row.hidden_records for row in rows)
    parts = []
    if lost:
        parts.append(f"cuts away {size(lost)} with {counted(records, 'readable record')}")
    if hidden:
        parts.append(f"hides {counted(hidden, 'record')}")
    if any(row.reused_offsets is not None for row in rows):
        parts.append("gives out offsets a second time")
    if parts:
        return f"a broker {', and '.join(parts)}"
    return "a broker loads everything as it is"
