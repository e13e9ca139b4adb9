"""The results of retention and compaction for people: a table for each partition, sentences below it.

On a screen only the first and the last of many segments in a row that stay are shown, and the rest is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.retention_results import Compacted, Retained
from kdump.dispatch import takes
from kdump.render.report.columns import NARROWEST, TableColumn, texts, write_finding, write_sentence, write_table
from kdump.render.report.sink import TableSink
from kdump.render.report.styled import Text
from kdump.render.text.retention import (
    assumed,
    choice,
    first,
    limits,
    outcome,
    policy_words,
    remote_sentence,
    rolling_sentence,
    timestamp,
    verdict,
    waits,
)
from kdump.words.numbers import counted, offset_span, size

if TYPE_CHECKING:
    from collections.abc import Callable

    from kdump.finding import Finding
    from kdump.render.report.styled import Paper

_SHOWN = 12  # segments that stay, and a line each
_SEGMENTS = (
    TableColumn("segment", right=True),
    TableColumn("size", right=True, drop=3),
    TableColumn("largest timestamp", drop=1),
    TableColumn("from", drop=4),
    TableColumn("data says", drop=2),
    TableColumn("goes"),
)
_CLEANED = (
    TableColumn("segment after", right=True),
    TableColumn("size", right=True, drop=1),
    TableColumn("batches", right=True, drop=3),
    TableColumn("records", right=True, drop=2),
    TableColumn("waiting", shrink=True),
)


class RetentionTable(TableSink):
    """Writes tables.

    Args:
        paper: what they are written on.
        error: takes one line for stderr.
        raw: write names as they are.
        notes: list notes; else they are counted.
    """

    def __init__(self, paper: Paper, error: Callable[[str], None], *, raw: bool, notes: bool = False) -> None:
        super().__init__(paper, error, raw=raw, notes=notes)
        self._partitions = self._segments = self._gone = self._bytes = self._unknown = 0
        self._release = ""

    def _show_finding(self, finding: Finding) -> None:
        """Write a finding above the partition that it is about: what goes, and why, hangs on it."""
        write_finding(self._paper, finding)

    def end(self, _status: int) -> None:
        """Write the last line."""
        what = f"{counted(self._partitions, 'partition')}, {counted(self._segments, 'segment')}"
        gone = f"{counted(self._gone, 'segment')} would go now, {size(self._bytes)}" if self._gone else "none goes now"
        if self._unknown:
            of = "" if self._unknown == self._partitions else f" of {counted(self._unknown, 'partition')}"
            gone = f"not known{of} what goes" if of == "" else f"{gone}; not known{of}"
        self._conclude()
        if self._release:
            write_sentence(self._paper, Text(f"taken: {self._release}", "bright_black"))
        gone = gone if self._partitions else "nothing was judged"
        write_sentence(self._paper, Text(f"{what}: {gone}"))

    @takes(Retained)
    def _retained(self, row: Retained) -> None:
        log, count = row.log, len(row.gone)
        gone = sum(segment.size for segment in row.gone)
        self._unknown += row.deletion is None
        self._release = row.release
        self._partitions += 1
        self._segments += len(log.segments)
        self._gone += count
        self._bytes += gone
        total = size(sum(segment.size for segment in log.segments))
        head = Text(self._safe(row.partition), "bold")
        head.append(f"   {counted(len(log.segments), 'segment')}   {offset_span(log.start_offset, log.end_offset)}")
        head.append(f"   {total}   ", "not bold")
        goes = f"{count} would go" if count else "none goes now"
        if row.deletion is None:
            head.append("not known what goes", "bold yellow")
        else:
            head.append(goes, "bold yellow" if count else "green")
        write_sentence(self._paper, head)
        note = f"  cleanup.policy={policy_words(row)}  {limits(row)}"
        write_sentence(
            self._paper, Text(note + (f"  ({self._safe(assumed(row))})" if row.assumed else ""), "bright_black")
        )
        self._segments_of(row)
        deletion = row.deletion
        if row.remote is not None:
            write_sentence(self._paper, Text(f"  {remote_sentence(row)}"))
        if deletion is not None and deletion.rolled_to is not None:
            write_sentence(self._paper, Text(f"  a new, empty segment begins at offset {deletion.rolled_to}"))
        if deletion is not None and deletion.start_offset != log.start_offset:
            write_sentence(self._paper, Text(f"  the log then starts at offset {deletion.start_offset}"))
        elif deletion is not None and deletion.local_start_offset != log.local_start_offset:
            local = deletion.local_start_offset
            write_sentence(self._paper, Text(f"  on this disk the log then starts at offset {local}"))
        write_sentence(self._paper, Text(f"  {rolling_sentence(row)}"))

    def _segments_of(self, row: Retained) -> None:
        segments, count = row.log.segments, len(row.gone)
        is_folded = self._paper.is_screen and len(segments) - count > _SHOWN + 1
        hidden = range(count + _SHOWN // 2, len(segments) - _SHOWN // 2) if is_folded else range(0)
        rows: list[list[Text]] = []
        narrow = self._paper.width < NARROWEST
        for number, segment in enumerate(segments):
            if number in hidden:
                if number == hidden[0]:
                    rows.append(texts(("...", "", f"{len(hidden):,} more stay", "", "", "")))
                continue
            says = "unread" if segment.max_in_data is None else timestamp(segment.max_in_data)
            is_wrong = segment.max_in_data not in (-1, None, segment.largest)
            when = Text(first(row, number), "bold yellow" if number < count else "")
            data = Text(says if is_wrong or says == "none" else "the same", "yellow" if is_wrong else "")
            first_cells = str(segment.base_offset), size(segment.size), timestamp(segment.largest), segment.source
            rows.append([*texts(first_cells), data, when])
        if narrow:  # nothing may be lost: a line each
            for number, segment in enumerate(segments):
                if number not in hidden:
                    write_sentence(self._paper, Text(f"  {segment.base_offset}: {verdict(row, number)}"))
            return
        write_table(self._paper, _SEGMENTS, rows)
        for number in range(count):
            write_sentence(self._paper, Text(f"  {segments[number].base_offset}: {verdict(row, number)}"))
        if count < len(segments):
            write_sentence(self._paper, Text(f"  {segments[count].base_offset}: {verdict(row, count)}"))

    @takes(Compacted)
    def _compacted(self, row: Compacted) -> None:
        part = row.part
        ratio = "nothing" if part.dirty_ratio is None else f"{100 * part.dirty_ratio:.1f} %"
        until = f"{part.first_dirty_offset} to {part.clean_until_offset}"
        write_sentence(
            self._paper,
            Text(
                f"  compaction: dirty from offset {until} ({'; '.join(part.why)}), {size(part.cleanable_bytes)} of "
                f"{size(part.total_bytes)}, {ratio}"
            ),
        )
        write_sentence(self._paper, Text(f"  {choice(row)}", "bold" if part.chosen else ""))
        if part.reset:
            write_sentence(self._paper, Text(f"  the entry in cleaner-offset-checkpoint does not count: {part.reset}"))
        if row.cleaned is None:
            return
        rows = []
        for segment in row.cleaned:
            numbers = str(segment.base_offset), size(segment.size), f"{segment.batches:,}", f"{segment.records:,}"
            rows.append(texts((*numbers, "; ".join(waits(segment)))))
        if row.cleaned:
            write_table(self._paper, _CLEANED, rows)
        write_sentence(
            self._paper, Text(f"  the pass {outcome(row)}" if row.failure or not part.chosen else f"  {outcome(row)}")
        )
