"""Rows, blocks of findings and a last line: aligned where there is room, wrapped by word, none cut."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kdump.render.report.columns import COLOURS, folded_lines
from kdump.render.report.styled import Text
from kdump.render.text.findings import remedy_text
from kdump.value import Value
from kdump.verdict import DAMAGED, LOST, SOUND, UNREAD, WARNING
from kdump.words.escape import escape
from kdump.words.numbers import byte_span, counted, span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kdump.finding import Finding, Severity
    from kdump.render.fold import Folded
    from kdump.render.report.styled import Paper

_NARROW = 80  # columns, below which nothing is aligned
_BELOW = 6  # lines of a screen that are left for what is not folded
_ROWS = 8  # of what is not sound, that a screen shows above the next steps; the others stand below them
_WARNINGS = 4  # of these rows, that warnings may take: an error behind many of them is seen
_MOST_POINTERS = 3  # next steps that are named once more where they are out of sight
_GAP = "   "
_CELL_GAP = "  "  # between the columns of a row
_VERDICT = 7  # columns of the verdict, which stands first
_SHORT = 24  # columns that a name may want before others go
_FIRST_TO_GO = (1, 3, 2)  # columns that are left out where there is no room: segments, size, offsets
_HEAD = 30  # columns of severity, code and name
_LINE = 100  # columns after which nothing is set to the right
_BEHIND = 10  # columns of a few notes, so that rows with and without them stand below each other
_WIDTHS = (22, 10, 14, 8)  # of the columns of a partition; they grow
_WIDEST = 40  # columns that one name may take from all others
_LEFT = (0, 2)  # columns that are set to the left
_STYLES = {SOUND: "green", WARNING: "bold yellow", DAMAGED: "bold red", UNREAD: "bold red", LOST: "bold red"}


class ShownOption(Value):
    """What a person may do: steps in their order."""

    heading: str  # when the option is right, not yet safe to show; empty where nothing need be told
    steps: tuple[tuple[str | None, str], ...]  # a command, which is not wrapped, and a sentence


class ShownBlock(Value):
    """Options for one partition, or for several alike."""

    about: str  # safe to show
    options: tuple[ShownOption, ...]


class Page:
    """Writes the report of verify.

    Args:
        paper: what it is written on.
        before: called before something is written.
        fold: count what is sound where something is not, and what is more than a screen takes.
    """

    def __init__(self, paper: Paper, before: Callable[[], None], *, fold: bool) -> None:
        self._paper = paper
        self._before = before
        self._fold = fold
        self._is_wide = paper.width >= _NARROW
        self._bar = "|" if paper.ascii_only else "┃"
        self._widths = list(_WIDTHS)
        self._sound: list[Text] = []  # rows of a screen that waits for something that is not sound
        self._sound_rows = 0  # of what is sound, that a screen has room for
        # rows for which there was no room above the next steps, and what is lost there
        self._late: list[tuple[Text, list[str]]] = []
        self._bad = 0  # rows of what is not sound
        self._warnings = 0  # of these, rows of what only a warning is about
        self._folded: Counter[str] = Counter()
        self._is_in_block = False
        self._lines = 0  # that were written
        self._last_name = ""  # of the row above; empty where something else stands there
        self._late_name = ""  # of the last row that was kept; empty where another came behind it
        self.is_empty = True  # nothing is written so far

    def row(self, noun: str, name: str, cells: Sequence[str], word: str, reasons: str) -> None:
        """Write the row of a partition or a file.

        Args:
            name: safe to show.
            cells: what is known of it.
            word: the verdict.
            reasons: what the verdict rests on; may be empty.
        """
        verdict = Text(word.ljust(_VERDICT), _STYLES[word])
        columns = [Text(name, "bold"), *map(Text, cells)]
        if self._is_wide:
            self._fit(columns, len(_CELL_GAP) + len(reasons) if reasons else 0, is_aligned=noun == "partition")
        columns = [verdict, *(column for column in columns if column.cell_len)]
        line = Text(_CELL_GAP).joined([*columns, *([Text(reasons)] if reasons else ())])
        self._last_name = self._late_name = ""
        if self._fold and word == SOUND:
            self._fold_sound(noun, line)
            return
        self._bad += 1
        self._warnings += word == WARNING
        shown = self._bad - len(self._late)
        if self._fold and (shown > _ROWS or (word == WARNING and self._warnings > _WARNINGS)):
            self._late.append((line, []))
            self._late_name = name
        else:
            self._row(line)
            self._last_name = name

    def _fold_sound(self, noun: str, line: Text) -> None:
        """Write the row of a file that was named; keep that of a partition until it is known whether all are sound.

        It is counted where there is no room.
        """
        if self._sound_rows >= self._paper.height - _BELOW or (noun == "partition" and self._bad):
            self._folded[noun] += 1
            return
        self._sound_rows += 1
        if noun == "partition":
            self._sound.append(line)
        else:
            self._row(line)

    def _row(self, line: Text) -> None:
        self._separate(is_block=False)
        self._write(line, rest=Text("    "))

    def end_rows(self, *, has_steps: bool = False) -> None:
        """Write the rows of a screen on which all is sound, or count them, and count what stands below.

        Args:
            has_steps: something is to be done all the same: it stands on the first screen.
        """
        is_counted = self._bad > 0 or (has_steps and len(self._sound) > _ROWS)
        for line in self._sound:
            if is_counted:
                self._folded["partition"] += 1
            else:
                self._row(line)
        self._sound.clear()
        if self._late:
            self.note(f"{len(self._late):,} more that {'is' if len(self._late) == 1 else 'are'} not sound: below")
        more = "more " if self._bad or not self.is_empty else ""
        for noun, count in self._folded.items():
            self.note(f"{count:,} {more}{noun}{'' if count == 1 else 's'}: sound (--no-fold lists them)")

    def late_rows(self) -> None:
        """Write the rows for which there was no room above."""
        for line, sentences in self._late:
            self._row(line)
            for sentence in sentences:
                self._lost(sentence)
        self._late.clear()

    def _fit(self, columns: list[Text], behind: int, *, is_aligned: bool) -> None:
        """Align columns, and let them fit: those that are needed least are left out. A name is always whole.

        Args:
            columns: name, and what is known of it; changed.
            behind: columns of the paper that are needed behind them.
            is_aligned: the columns stand below those of other rows.
        """
        room = self._paper.width - _VERDICT - len(_CELL_GAP) - max(behind, _BEHIND if is_aligned else 0)
        widths = [column.cell_len for column in columns]
        if is_aligned:
            for at, width in enumerate(widths):
                self._widths[at] = max(self._widths[at], min(width, _WIDEST))
            widths = [max(width, least) for width, least in zip(widths, self._widths, strict=True)]
        others = sum(width + len(_CELL_GAP) for width in widths[1:] if width)
        for at in _FIRST_TO_GO:
            if at < len(columns) and min(columns[0].cell_len, _SHORT) + others > room:
                others -= widths[at] + len(_CELL_GAP)
                columns[at] = Text()
                widths[at] = 0
        widths[0] = max(columns[0].cell_len, min(widths[0], room - others))
        for at, column in enumerate(columns):
            if is_aligned:
                blanks = max(0, widths[at] - column.cell_len)
                columns[at] = column.padded(blanks, left=at not in _LEFT)

    def block(self, heading: str | None, findings: Sequence[Finding], folded: Iterable[Folded]) -> None:
        """Write findings of one file; nothing when there are none.

        Args:
            heading: its name, safe to show; None where it stands above already.
            findings: to be written.
            folded: what is only counted.
        """
        blocks = list(_told(findings, is_wide=self._is_wide))
        for one in folded:
            head = _severity(one.severity).append(f" {one.first.code.name} {one.first.code.slug}")
            blocks.append((one.severity, [Text(_GAP).joined((head, *_span(one))), Text(escape(one.sentence))]))
        if not blocks:
            return
        self._separate(is_block=True)
        if heading is not None:
            self._write(Text(heading, "bold"), Text("  "), Text("    "))
        for severity, texts in blocks:
            bar = Text.of(("  ", Text(self._bar, COLOURS[severity]), " "))
            behind = Text.of((bar, "    "))
            self._write(texts[0], bar, behind)
            for text in texts[1:]:
                self._write(text, Text.of((bar, "  ")), behind)

    def forecast(self, heading: str, rows: Sequence[tuple[str, Sequence[str], bool]]) -> None:
        """Write what is going to happen to something.

        Args:
            heading: what it is, safe to show.
            rows: each with a word for the case, sentences, and whether the last one is bad news.
        """
        self._separate(is_block=True)
        self._write(Text(heading, "bold"), Text("  "), Text("    "))
        width = max(len(word) for word, _, _ in rows) + len(_GAP)
        for word, sentences, is_bad in rows:
            first = Text(f"    {word}".ljust(width + 4))
            for sentence in sentences:
                style = "bold red" if is_bad and sentence is sentences[-1] else ""
                self._write(Text(sentence, style), first, Text(" " * (width + 4)))
                first = Text(" " * (width + 4))

    def lost(self, name: str, sentence: str) -> None:
        """Write what a partition has lost: below its row, where that is the line above.

        Args:
            name: of the partition, safe to show.
            sentence: what is lost, safe to show.
        """
        if name == self._late_name:
            self._late[-1][1].append(sentence)
            return
        if name != self._last_name:
            self._separate(is_block=True)
            self._write(Text(name, "bold"), Text("  "), Text("    "))
        self._lost(sentence)

    def _lost(self, sentence: str) -> None:
        self._write(Text(sentence, "bold red"), Text("    "), Text("      "))

    def steps(self, heading: str, blocks: Sequence[ShownBlock]) -> None:
        """Write what to do next; nothing when there is nothing to do.

        Args:
            heading: of all of it.
            blocks: what each is about, and its options.
        """
        if not blocks:
            return
        self.section()
        commands = [one or "" for block in blocks for option in block.options for one, _ in option.steps]
        words = [one.partition(" ")[2].partition(" ")[0] for one in commands]
        said = ["salvage writes a new directory at once"] if "salvage" in words else []
        if any(word not in {"", "salvage", "verify"} for word in words):
            others = "the others show" if said else "each command shows"
            said.append(f"{others} only a plan until --apply --quarantine DIR is added")
        self._write(Text(heading, "bold").append(f" ({'; '.join(said)})" if said else ""), Text(""), Text("  "))
        for block in blocks:
            self._write(Text(block.about), Text("  "), Text("    "))
            for option in block.options:
                margin = "    "
                if option.heading:
                    self._write(Text(escape(option.heading), "bold"), Text(margin), Text("      "))
                    margin = "      "
                for number, (command, why) in enumerate(option.steps, 1):
                    first = Text(f"{margin}{number}  " if len(option.steps) > 1 else margin)
                    rest = Text(" " * first.cell_len)
                    if command is not None:
                        self._line(Text.of((first, Text(command, "bold"))))
                        first = rest
                    self._write(Text(escape(why)), first, rest)

    def pointers(self, blocks: Sequence[ShownBlock]) -> None:
        """Tell the steps of blocks once more, up to the first command, where they have left the screen.

        Args:
            blocks: as they were written above.
        """
        if not self._fold or self._lines < self._paper.height - _BELOW:
            return
        self._separate(is_block=False)
        for block in blocks[:_MOST_POINTERS]:
            said = []
            for command, why in block.options[0].steps:
                said.append(command or escape(why.partition(": it ")[0]))
                if command is not None:
                    break
            self._write(Text.of((Text("recommended: ", "bold"), Text("; then ".join(said)))), rest=Text("  "))
        if len(blocks) > _MOST_POINTERS:
            self.note(f"{counted(len(blocks) - _MOST_POINTERS, 'more recommended step')}: above")

    def heading(self, text: str) -> None:
        """Write the heading of what follows, with an empty line before it."""
        self.section()
        self._write(Text(text, "bold"))

    def section(self) -> None:
        """Begin with something else, below an empty line."""
        if not self.is_empty:
            self._write(Text())
        self._last_name = ""
        self._is_in_block = True

    def note(self, text: str) -> None:
        """Write a line that stands for what was left out."""
        self._separate(is_block=False)
        self._write(Text(text))

    def last(self, parts: Sequence[str], right: str) -> None:
        """Write the last line; one that is too long ends between two parts.

        Args:
            parts: what there was, and the verdict, each with the mark behind it.
            right: what stands at the right end; may be empty.
        """
        self._separate(is_block=False)
        width = self._paper.width
        lines: list[str] = []
        for part in parts:
            if lines and len(lines[-1]) + 1 + len(part) <= width:
                lines[-1] += f" {part}"
            else:
                lines.append(part)
        gap = max(min(width, _LINE) - len(lines[-1]) - len(right), len(_GAP)) if right else 0
        if len(lines[-1]) + gap + len(right) <= width:
            lines[-1] += f"{' ' * gap}{right}"
        else:
            lines.append(right)
        for line in lines:
            self._write(Text(line, "bold"))

    def _separate(self, *, is_block: bool) -> None:
        """An empty line between rows and blocks."""
        self._last_name = ""
        if is_block != self._is_in_block and not self.is_empty:
            self._write(Text())
        self._is_in_block = is_block

    def _write(self, text: Text, first: Text | None = None, rest: Text | None = None) -> None:
        """Write a text, wrapped by word; a command in it stands on a line by itself, with all behind it.

        Args:
            text: without line ends.
            first, rest: what stands before its first line, and before the others.
        """
        for line in folded_lines(text, self._paper.width, first, rest):
            self._line(line)

    def _line(self, line: Text) -> None:
        self._before()
        self.is_empty = False
        self._lines += 1
        self._paper.line(line)


def _told(findings: Sequence[Finding], *, is_wide: bool) -> Iterator[tuple[Severity, list[Text]]]:
    """Yield what each finding says: code and place, the sentence, the remedy; what several say alike is said once."""
    before = ""
    for at, finding in enumerate(findings):
        texts = [_head(finding, is_wide=is_wide)]
        if finding.message != before:
            texts.append(Text(escape(finding.message)))
        if at + 1 == len(findings) or remedy_text(findings[at + 1]) != remedy_text(finding):
            texts.append(Text(f"-> {remedy_text(finding)}"))
        before = finding.message
        yield finding.severity, texts


def _head(finding: Finding, *, is_wide: bool) -> Text:
    head = _severity(finding.severity).append(f" {finding.code.name} {finding.code.slug}")
    places = []
    if finding.position is not None:
        places.append(byte_span(finding.position, finding.length or 0))
    if finding.offset is not None:
        last = finding.offset if finding.last_offset is None else finding.last_offset
        places.append(span(finding.offset, last, "offset"))
    if finding.field not in (None, "crc"):  # two CRCs are in the sentence
        places.append(_field(finding))
    if places and is_wide:
        head = head.padded(_HEAD - head.cell_len)
    return Text(_GAP).joined([head, *map(Text, places)])


def _span(folded: Folded) -> Iterator[Text]:
    """From where to where the first and the last of what is counted lie."""
    ends = [
        (one.position, one.position + max(1, one.length or 0))
        for one in (folded.first, folded.last)
        if one.position is not None
    ]
    if len(ends) == 2:
        first, end = min(ends)[0], max(end for _, end in ends)
        yield Text(byte_span(first, end - first))


def _severity(severity: Severity) -> Text:
    return Text.of((Text(severity.value, COLOURS[severity]),))


def _field(finding: Finding) -> str:
    """Return the name of the wrong field, with what it has and should have."""
    said = escape(finding.field or "")
    for name in ("found", "expected"):
        value = getattr(finding, name)
        if value is not None:
            said += f" {name} {value}" if isinstance(value, int) else f" {name} {escape(value)}"
    return said
