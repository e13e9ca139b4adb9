"""The sections of the report, in their order: what each shows, and the shorter forms of it for a large run.

A form is a template with what it shows. Of each section the first form has everything, the later ones fold more; `page`
takes the first that fits. Ids are numbers of this page, never names, so nothing of a file gets into a link.
"""

from __future__ import annotations

from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

from kdump.finding import Severity, Trait
from kdump.render.html.headline import headline
from kdump.render.html.map_marks import percent
from kdump.render.html.page import FINDINGS, SectionForm
from kdump.render.html.segment_map import segment_map, small_segment_map
from kdump.render.text.losses import LossSum
from kdump.render.text.manual import told
from kdump.render.text.verify import amounts_of, prediction_sentences, rank_of
from kdump.rows.steps import blocks_of
from kdump.tally import NO_RECORDS
from kdump.value import Value
from kdump.verdict import SOUND
from kdump.words.numbers import byte_span, counted, size
from kdump.words.times import iso

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kdump.finding import Finding
    from kdump.render.fold import Folded
    from kdump.render.html.collected import Collected, PartitionFound, SegmentFound
    from kdump.rows.steps import Step
    from kdump.rows.verdict import Prediction
    from kdump.tally import Tally

_ROWS = 100  # sound partitions that have a row of their own
_FEW = 500  # of a section that is cut at last


class ReportOrigin(Value):
    """How a report came about."""

    command: str  # as a shell reads it
    version: str  # of kdump
    now: int  # ms since the epoch
    host: str | None  # its name; None where nobody asked for it
    has_starts: bool  # predictions were asked for


class Report:
    """All that the page shows.

    Args:
        found: what verify found.
        tally: its totals.
        origin: how it came about.
        code: the exit status.
        replicas: the paths are replicas of each other.
        is_quiet: little was to be shown.
    """

    def __init__(
        self, found: Collected, tally: Tally, origin: ReportOrigin, code: int, *, replicas: bool, is_quiet: bool
    ) -> None:
        self._found = found
        self._tally = tally
        self._origin = origin
        self._code = code
        self._replicas = replicas
        self._is_quiet = is_quiet
        self._all = found.ordered()
        self._number = {id(one): at for at, one in enumerate(self._all, 1)}
        files = (file for one in self._all for file in one.files.values())
        self._file_number = {file.path: at for at, file in enumerate(files, 1)}

    # --- head -----------------------------------------------------------------------------------------------
    @cached_property
    def head(self) -> dict[str, Any]:
        """What stands above all sections."""
        word, lead, more = headline(self._all, self._tally, is_quiet=self._is_quiet)
        tally = self._tally
        lost = tally.offsets_lost and not self._is_quiet
        tiles = [
            ("partitions" if tally.partitions != 1 else "partition", f"{tally.partitions:,}", "checked"),
        ]
        for severity in Severity:
            count = tally.severities[severity]
            is_bad = severity is Severity.ERROR and count
            tiles.append((severity.value + ("" if count == 1 else "s"), f"{count:,}", "bad" if is_bad else ""))
        if lost:
            tiles += [("offsets lost", f"{tally.offsets_lost:,}", "bad")]
            known = f"{tally.records_lost:,}" if tally.records_lost or not tally.records_unknown else "unknown"
            tiles += [("records lost", known + ("+" if tally.records_unknown and tally.records_lost else ""), "bad")]
        tiles += [("bytes read", size(tally.bytes), ""), ("not checked", f"{len(tally.unchecked):,}", "")]
        menu = [(form[0].values["id"], form[0].values["title"]) for form in self.sections]
        return {
            "word": word,
            "lead": lead,
            "more": more,
            "tiles": tiles,
            "menu": menu,
            "when": iso(self._origin.now),
            "version": self._origin.version,
        }

    # --- sections -------------------------------------------------------------------------------------------
    @cached_property
    def sections(self) -> list[list[SectionForm]]:
        """The forms of each section."""
        found = [
            self._steps(),
            self._partitions(),
            self._maps(),
            self._losses(),
            self._side_by_side(),
            self._predictions(),
            self._findings(),
            self._codes(),
            self._unchecked(),
            self._run(),
        ]
        return [forms for forms in found if forms]

    def _steps(self) -> list[SectionForm]:
        steps = self._found.steps
        if not steps:
            return []
        base: dict[str, Any] = {"id": "steps", "title": "What to do next", "count": len(steps)}
        return [
            SectionForm("steps.html", {**base, "blocks": list(map(_block, blocks_of(steps)))}),
            SectionForm("steps_grouped.html", {**base, "groups": list(_alike(steps)), "is_cut": False}),
            SectionForm("steps_grouped.html", {**base, "groups": list(_alike(steps)), "is_cut": True}),
        ]

    def _partitions(self) -> list[SectionForm]:
        loud = [one for one in self._all if not one.is_sound]
        sound = [one for one in self._all if one.is_sound]
        noun = "Partitions" if any(one.checked for one in self._all) else "Files"
        base: dict[str, Any] = {"id": "partitions", "title": noun, "folded": [], "cut": 0, "names": True}
        few = sound if len(sound) <= _ROWS else []
        forms = [{"rows": self._rows([*loud, *few]), "folded": [] if few else self._names(sound)}]
        forms.append({"rows": self._rows(loud), "folded": self._names(sound)})
        forms.append({"rows": self._rows(loud), "folded": self._names(sound), "names": False})
        shown = loud[:_FEW]
        forms.append({**forms[-1], "rows": self._rows(shown), "cut": len(loud) - len(shown)})
        return [SectionForm("partitions.html", {**base, **form}) for form in forms]

    def _rows(self, partitions: Iterable[PartitionFound]) -> list[dict[str, Any]]:
        return [self._row(one) for one in partitions]

    def _row(self, one: PartitionFound) -> dict[str, Any]:
        checked = one.checked
        offsets = ""
        if checked is not None and checked.start_offset is not None and checked.end_offset is not None:
            last = checked.end_offset - 1
            offsets = "none" if last < checked.start_offset else f"{checked.start_offset}..{last}"
        counts = one.counts
        told_of = [counted(counts[it], it.value) for it in Severity if counts.get(it)]
        if one.unread:
            told_of.append(f"{counted(one.unread, 'file')} not read")
        return {
            "path": one.title,
            "n": self._number[id(one)] if one.files else None,
            "word": one.word,
            "segments": "" if checked is None else checked.segments,
            "offsets": offsets,
            "size": "" if one.size is None else size(one.size),
            "found": ", ".join(told_of),
        }

    def _names(self, partitions: Iterable[PartitionFound]) -> list[tuple[str, list[str], int]]:
        """Names of partitions by the directory that they lie in."""
        found: dict[str, list[str]] = {}
        for one in partitions:
            folder, _, name = one.path.rstrip("/").rpartition("/")
            found.setdefault(folder or ".", []).append(name)
        return [(folder, names, len(names)) for folder, names in found.items()]

    # --- maps -----------------------------------------------------------------------------------------------
    def _maps(self) -> list[SectionForm]:
        segments = [(one, segment) for one in self._all for segment in one.segments]
        segments = [(one, segment) for one, segment in segments if any(segment.sizes.values())]
        if not segments:
            return []
        base = {"id": "maps", "title": "Damage maps", "count": len(segments), "cut": 0}
        shown = segments[:_FEW]
        return [
            SectionForm("maps.html", {**base, "maps": Reiterable(lambda: map(self._map, segments))}),
            SectionForm("maps_small.html", {**base, "maps": Reiterable(lambda: map(self._small_map, segments))}),
            SectionForm(
                "maps_small.html",
                {**base, "maps": Reiterable(lambda: map(self._small_map, shown)), "cut": len(segments) - len(shown)},
            ),
        ]

    def _map(self, of: tuple[PartitionFound, SegmentFound]) -> dict[str, Any]:
        return segment_map(*of, self._file_number)

    def _small_map(self, of: tuple[PartitionFound, SegmentFound]) -> dict[str, Any]:
        return small_segment_map(*of)

    # --- losses ---------------------------------------------------------------------------------------------
    def _losses(self) -> list[SectionForm]:
        some = [one for one in self._all if one.lost.losses or one.lost.unexplained]
        if not some:
            return []
        base = {"id": "losses", "title": "What readers lose", "cut": 0}
        few = some[:_FEW]

        def form(name: str, told_of: Any, shown: Sequence[PartitionFound], **more: Any) -> SectionForm:  # noqa: ANN401
            return SectionForm(name, {**base, "partitions": Reiterable(lambda: map(told_of, shown)), **more})

        return [
            form("losses.html", self._lost, some),
            form("losses_short.html", _lost_ranges, some, is_sum=False),
            form("losses_short.html", _lost_sum, some, is_sum=True),
            form("losses_short.html", _lost_sum, few, is_sum=True, cut=len(some) - len(few)),
        ]

    def _lost(self, one: PartitionFound) -> dict[str, Any]:
        lost, found = LossSum(one.path), []
        for loss in one.lost.losses:
            lost.add(loss)
            elsewhere = loss.replicas
            found.append(
                {
                    "offsets": _range(loss.offset, loss.last_offset),
                    "records": "unknown" if loss.records is None else loss.records,
                    "certainty": loss.certainty.value,
                    "because": loss.because,
                    "file": loss.file or "",
                    "bytes": "" if loss.position is None else _place(loss.position, loss.length or 0),
                    "elsewhere": None if elsewhere is None else list(elsewhere),
                }
            )
        return {
            "path": one.title,
            "sentence": lost.sentence(),
            "rows": found,
            "compared": any(row["elsewhere"] is not None for row in found),
            **_unexplained(one),
        }

    # --- replicas -------------------------------------------------------------------------------------------
    def _side_by_side(self) -> list[SectionForm]:
        if not self._replicas:
            return []
        groups: dict[str, list[PartitionFound]] = {}
        for one in self._all:
            if one.checked is not None and one.checked.end_offset is not None:
                groups.setdefault(one.name, []).append(one)
        several = [(name, found) for name, found in sorted(groups.items()) if len(found) > 1]
        if not several:
            return []
        base = {"id": "replicas", "title": "Replicas side by side"}
        differing = [(name, found) for name, found in several if any(_differs(one) for one in found)]
        few = differing[:_FEW]

        def form(shown: Sequence[tuple[str, Sequence[PartitionFound]]]) -> SectionForm:
            groups = Reiterable(lambda: (_compared(*one) for one in shown))
            return SectionForm("replicas.html", {**base, "groups": groups, "same": len(several) - len(shown)})

        return [form(several), form(differing), form(few)]

    # --- predictions ----------------------------------------------------------------------------------------
    def _predictions(self) -> list[SectionForm]:
        some = [one for one in self._all if one.predictions]
        if not some:
            return []
        loud = [one for one in some if not all(row.changes_nothing for row in one.predictions)]
        calm = [one for one in some if all(row.changes_nothing for row in one.predictions)]
        base = {"id": "predictions", "title": "The next start of a broker", "cut": 0, "names": True}
        few = loud[:_FEW]
        return [
            SectionForm(
                "predictions.html",
                {**base, "loud": Reiterable(lambda: map(_predicted, loud)), "calm": list(map(_unchanged, calm))},
            ),
            SectionForm("predictions_short.html", {**base, "groups": list(_outcomes(some))}),
            SectionForm(
                "predictions_short.html", {**base, "groups": list(_outcomes(few)), "cut": len(some) - len(few)}
            ),
        ]

    # --- findings -------------------------------------------------------------------------------------------
    def _findings(self) -> list[SectionForm]:
        some = [one for one in self._all if one.files]
        if not some:
            return []
        base: dict[str, Any] = {"id": FINDINGS, "title": "Findings", "cut": 0}
        base |= {"count": sum(self._found.codes.values()), "is_folded": self._found.is_folded}
        few = some[:_FEW]
        return [
            SectionForm("findings.html", {**base, "groups": Reiterable(lambda: map(self._group, some))}),
            SectionForm("findings_short.html", {**base, "groups": Reiterable(lambda: map(self._by_code, some))}),
            SectionForm("findings_short.html", {**base, "groups": Reiterable(lambda: map(self._of_partition, some))}),
            SectionForm(
                "findings_short.html",
                {**base, "groups": Reiterable(lambda: map(self._of_partition, few)), "cut": len(some) - len(few)},
            ),
        ]

    def _group(self, one: PartitionFound) -> dict[str, Any]:
        files = [
            {
                "n": self._file_number[file.path],
                "path": file.path,
                "word": file.word,
                "rows": [_finding(finding) for finding in file.shown],
                "folded": [_folded(folded) for folded in file.folded()],
            }
            for file in one.files.values()
        ]
        notes = counted(one.counts.get(Severity.NOTE, 0), "note")
        return {"n": self._number[id(one)], "path": one.title, "word": one.word, "files": files, "notes": notes}

    def _by_code(self, one: PartitionFound) -> dict[str, Any]:
        rows = [
            {
                "n": self._file_number[file.path],
                "name": file.path.removeprefix(f"{one.path.rstrip('/')}/"),
                "codes": [(code.name, severity.value, count) for (code, severity), count in file.codes.items()],
            }
            for file in one.files.values()
        ]
        return {"n": self._number[id(one)], "path": one.path, "word": one.word, "files": rows}

    def _of_partition(self, one: PartitionFound) -> dict[str, Any]:
        codes: dict[tuple[str, str], int] = {}
        for file in one.files.values():
            for (code, severity), count in file.codes.items():
                kind = code.name, severity.value
                codes[kind] = codes.get(kind, 0) + count
        rows = [{"n": None, "name": counted(len(one.files), "file"), "codes": [(*it, codes[it]) for it in codes]}]
        return {"n": self._number[id(one)], "path": one.path, "word": one.word, "files": rows}

    # --- codes, and the end ---------------------------------------------------------------------------------
    def _codes(self) -> list[SectionForm]:
        codes = sorted(self._found.codes.items(), key=lambda one: one[0].name)
        if not codes:
            return []
        rows = [
            {
                "name": code.name,
                "slug": code.slug,
                "severity": code.severity.value,
                "count": counted(count, "finding"),
                "told": told(code.name),
            }
            for code, count in codes
        ]
        base = {"id": "codes", "title": "What the codes mean"}
        return [SectionForm("codes.html", {**base, "rows": rows})]

    def _unchecked(self) -> list[SectionForm]:
        rows = [("" if path is None else path, why) for path, why in self._tally.unchecked]
        base: dict[str, Any] = {"id": "unchecked", "title": "What was not checked", "no_records": NO_RECORDS}
        base |= {"starts": self._origin.has_starts, "replicas": self._replicas, "is_quiet": self._is_quiet}
        return [
            SectionForm("unchecked.html", {**base, "rows": rows, "cut": 0}),
            SectionForm("unchecked.html", {**base, "rows": rows[:_FEW], "cut": max(0, len(rows) - _FEW)}),
        ]

    def _run(self) -> list[SectionForm]:
        tally, origin = self._tally, self._origin
        facts = [
            ("command", origin.command, True),
            ("kdump", origin.version, False),
            ("time", iso(origin.now), False),
        ]
        if origin.host is not None:
            facts.append(("host", origin.host, False))
        names = "partitions", "files", "bytes", "batches", "records"
        facts += [(name, str(getattr(tally, name)), False) for name in names]
        facts.append(("exit status", str(self._code), False))
        return [SectionForm("run.html", {"id": "run", "title": "How it was run", "facts": facts})]


class Reiterable:
    """What a template goes through: made when it is asked for, and as often as it is.

    Args:
        make: yields the values.
    """

    def __init__(self, make: Any) -> None:  # noqa: ANN401
        self._make = make

    def __iter__(self) -> Iterator[Any]:
        """Yield them."""
        return iter(self._make())


# --- words --------------------------------------------------------------------------------------------------
def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}..{last}"


def _offsets(first: int, last: int) -> str:
    return f"offset {first}" if first == last else f"offsets {first}..{last}"


def _place(position: int, length: int) -> str:
    return byte_span(position, length) if length else f"at byte {position}"


def _unexplained(one: PartitionFound) -> dict[str, Any]:
    pairs = zip(one.lost.unexplained[::2], one.lost.unexplained[1::2], strict=True)
    ranges = [_range(first, last) for first, last in pairs]
    return {
        "unexplained": ", ".join(ranges),
        "unexplained_count": len(ranges),
        "unexplained_because": ", ".join(one.lost.because),
    }


def _lost_ranges(one: PartitionFound) -> dict[str, Any]:
    rows = []
    for (certainty, because), losses in groupby(one.lost.losses, lambda loss: (loss.certainty.value, loss.because)):
        ranges = ", ".join(_range(loss.offset, loss.last_offset) for loss in losses)
        rows.append(f"{certainty} {ranges} ({', '.join(because)})")
    if one.lost.unexplained:
        rows.append(f"unexplained {_unexplained(one)['unexplained']}")
    return {"path": one.title, "text": "; ".join(rows)}


def _lost_sum(one: PartitionFound) -> dict[str, Any]:
    lost = LossSum(one.path)
    for loss in one.lost.losses:
        lost.add(loss)
    return {"path": one.title, "text": lost.sentence() or f"{len(one.lost.unexplained) // 2} ranges are unexplained"}


def _finding(finding: Finding) -> dict[str, Any]:
    offset, last = finding.offset, finding.last_offset
    values = []
    for name in ("found", "expected"):
        value = getattr(finding, name)
        if value is not None:
            values.append((name, f"{value:#010x}" if finding.field == "crc" and type(value) is int else value))
    return {
        "severity": finding.severity.value,
        "code": finding.code.name,
        "slug": finding.code.slug,
        "bytes": "" if finding.position is None else _place(finding.position, finding.length or 0),
        "offsets": "" if offset is None else _offsets(offset, offset if last is None else last),
        "guessed": finding.by_neighbours and offset is not None,
        "message": finding.message,
        "remedy": finding.remedy,
        "repair": finding.repair,
        "field": finding.field,
        "values": values,
        "records": finding.count,
        "because": None if finding.because is None else finding.because.name,
    }


def _folded(folded: Folded) -> dict[str, Any]:
    first, last = folded.first, folded.last
    where = ""
    if first.position is not None and last.position is not None:
        low = min(first.position, last.position)
        high = max(first.position + (first.length or 0), last.position + (last.length or 0))
        where = byte_span(low, high - low)
    return {
        "severity": folded.severity.value,
        "code": first.code.name,
        "slug": first.code.slug,
        "bytes": where,
        "sentence": folded.sentence,
        "remedy": folded.remedy,
    }


def _block(options: Sequence[Sequence[Step]]) -> dict[str, Any]:
    """The options of one partition, or of several alike."""
    told = [
        {
            "heading": rank_of(steps[0]),
            "rank": steps[0].rank.value,
            "rows": [{"command": one.command, "why": one.why, "amounts": amounts_of(one)} for one in steps],
        }
        for steps in options
    ]
    return {"paths": options[0][0].partitions, "options": told}


def _alike(steps: Sequence[Step]) -> Iterator[dict[str, Any]]:
    """Steps that do the same, together; what they say alike is said once."""
    groups: dict[tuple[str, str], list[Step]] = {}
    whys: dict[str, int] = {}
    for one in steps:
        whys[one.why] = whys.get(one.why, 0) + 1
    for one in steps:
        word = "by hand" if one.command is None else " ".join(one.command.parts[0][:2])
        groups.setdefault((word, one.why if one.command is not None and whys[one.why] > 1 else ""), []).append(one)
    for (word, why), found in groups.items():
        rows = [{"rank": rank_of(one), "text": one.command or one.why} for one in found]
        yield {
            "word": word,
            "why": why or (found[0].why if found[0].command is not None else ""),
            "is_first": not why and found[0].command is not None and len(found) > 1,
            "is_command": found[0].command is not None,
            "rows": rows,
            "count": len(rows),
        }


# --- predictions --------------------------------------------------------------------------------------------
def _told(one: PartitionFound) -> list[tuple[list[str], Prediction]]:
    """The outcomes of a partition, each with the starts that lead to it, the least harm first."""
    found: list[tuple[list[str], Prediction]] = []
    for row in sorted(one.predictions, key=lambda row: row.harm):
        plain = row.replace(start="")
        known = next((starts for starts, other in found if other.replace(start="") == plain), None)
        if known is None:
            found.append(([row.start], row))
        else:
            known.append(row.start)
    return found


def _end(one: PartitionFound) -> int | None:
    return None if one.checked is None else one.checked.end_offset


def _predicted(one: PartitionFound) -> dict[str, Any]:
    checked, outcomes = one.checked, _told(one)
    ends = [row.log_end_offset for _, row in outcomes if row.log_end_offset is not None]
    begins = [row.log_start_offset for _, row in outcomes if row.log_start_offset is not None]
    if checked is not None and checked.start_offset is not None and checked.end_offset is not None:
        begins.append(checked.start_offset)
        ends.append(checked.end_offset)
    ends += [row.reused_offsets[1] + 1 for _, row in outcomes if row.reused_offsets is not None]
    low, high = min(begins, default=0), max(ends, default=0)
    rows: list[dict[str, Any]] = []
    if checked is not None and checked.start_offset is not None and checked.end_offset is not None:
        rows.append(
            {
                "start": "now",
                "offsets": _span_of(checked.start_offset, checked.end_offset),
                "bars": _bars(low, high, [("kept", checked.start_offset, checked.end_offset)]),
                "sentences": [],
                "exact": "",
                "assumed": [],
                "cause": None,
            }
        )
    for starts, row in outcomes:
        bars: list[tuple[str, int | None, int | None]] = []
        if row.loads and row.log_start_offset is not None and row.log_end_offset is not None:
            bars = [("lost", low, high)] if checked is None else [("lost", checked.start_offset, checked.end_offset)]
            bars.append(("clear", row.log_start_offset, row.log_end_offset))
            bars.append(("kept", row.log_start_offset, row.log_end_offset))
            if row.reused_offsets is not None:
                first, last = row.reused_offsets
                bars += [("reused", first, last + 1)]
        else:
            bars = [("stops", low, high)]
        rows.append(
            {
                "start": ", ".join(starts),
                "offsets": _span_of(row.log_start_offset, row.log_end_offset) if row.loads else "does not load",
                "bars": _bars(low, high, bars),
                "sentences": prediction_sentences(row, _end(one)),
                "exact": f"lost bytes: {row.bytes_lost}, records: {row.records_lost}" if row.bytes_lost else "",
                "assumed": list(row.assumed),
                "cause": None if row.cause is None else f"{row.cause.code} in {row.cause.file}",
                "java": row.reason_class,
            }
        )
    return {"path": one.title, "name": one.predictions[0].partition, "rows": rows, "low": low, "high": high}


def _span_of(first: int | None, end: int | None) -> str:
    if first is None or end is None:
        return ""
    return f"offsets {first}..{end - 1}, end {end}" if end > first else f"no records, end {end}"


def _bars(low: int, high: int, parts: Iterable[tuple[str, int | None, int | None]]) -> list[dict[str, str]]:
    length = max(1, high - low)
    return [
        {"what": what, "x": percent(first - low, length), "width": percent(end - first, length)}
        for what, first, end in parts
        if first is not None and end is not None and end > first
    ]


def _unchanged(one: PartitionFound) -> dict[str, Any]:
    rows = [f"{', '.join(starts)}: {_span_of(row.log_start_offset, row.log_end_offset)}" for starts, row in _told(one)]
    return {"name": one.predictions[0].partition, "path": one.title, "text": "; ".join(rows)}


def _outcomes(partitions: Iterable[PartitionFound]) -> Iterator[dict[str, Any]]:
    """Partitions with the same outcome, together."""
    groups: dict[tuple[str, str], list[str]] = {}
    for one in partitions:
        for starts, row in _told(one):
            where = [_span_of(row.log_start_offset, row.log_end_offset)] if row.loads else []
            text = "; ".join([*where, *prediction_sentences(row, _end(one))])
            groups.setdefault((", ".join(starts), text), []).append(one.predictions[0].partition)
    for (kinds, text), names in groups.items():
        yield {"starts": kinds, "text": text, "names": names, "count": len(names)}


# --- replicas -----------------------------------------------------------------------------------------------
def _differs(one: PartitionFound) -> bool:
    return one.word != SOUND or bool(one.lost.losses)


def _compared(name: str, replicas: Sequence[PartitionFound]) -> dict[str, Any]:
    spans = [(one.checked.start_offset, one.checked.end_offset) for one in replicas if one.checked is not None]
    low = min((start for start, _ in spans if start is not None), default=0)
    high = max((end for _, end in spans if end is not None), default=0)
    rows = []
    for one in replicas:
        assert one.checked is not None
        start, end = one.checked.start_offset, one.checked.end_offset
        bars: list[tuple[str, int | None, int | None]] = [("kept", start, end)]
        lost = one.lost.losses
        for loss in lost[:_FEW]:
            bars += [("clear", loss.offset, loss.last_offset + 1), ("lost", loss.offset, loss.last_offset + 1)]
        lacks = LossSum(one.path)
        for loss in lost:
            lacks.add(loss)
        other = sorted(
            {code.name for file in one.files.values() for code in file.whole if Trait.OTHER_REPLICA in code.traits}
        )
        other += sorted(
            {code.name for file in one.files.values() for code, _ in file.codes if Trait.OTHER_REPLICA in code.traits}
        )
        rows.append(
            {
                "path": one.title,
                "word": one.word,
                "offsets": _span_of(start, end),
                "bars": _bars(low, high, bars),
                "lost": lacks.sentence() or "nothing",
                "differs": ", ".join(dict.fromkeys(other)),
            }
        )
    return {"name": name, "rows": rows, "low": low, "high": high}
