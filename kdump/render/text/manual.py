"""Entries of the manual as text: what a finding means, and what a key of JSON is.

The man pages are the only source. A built package has them as data beside its
modules, so that nothing needs `man`; a checkout has them in its directory `man`.
"""

from __future__ import annotations

import json
import re
import textwrap
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kdump.finding import Code
from kdump.value import TupleValue, pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from importlib.resources.abc import Traversable

_FINDINGS, _JSON, _RUNBOOKS, _OVERVIEW = "kdump-findings.7", "kdump-json.5", "kdump-runbooks.7", "kdump.1"
TOPICS: Mapping[str, str] = MappingProxyType(
    {
        "statuses": "EXIT STATUS",
        "limits": "LIMITS",
        "times": "TIMES",
        "layouts": "LAYOUTS",
        "redaction": "REDACTION",
    }
)
"""What all commands have in common, by the names that `kdump help` takes, and the sections of kdump.1."""
RUNBOOKS: Mapping[str, str] = MappingProxyType({
    "bad-sectors": "A DISK WITH BAD SECTORS",
    "replicas-damaged": "ALL REPLICAS DAMAGED",
    "logdir-deleted": "A LOG.DIR DELETED BY MISTAKE",
    "controllers-lost": "A CLUSTER WHOSE CONTROLLERS ARE LOST",
    "topic-deleted": "A TOPIC DELETED BY MISTAKE",
    "not-starting": "A BROKER THAT DOES NOT START AFTER A CRASH",
    "refused-checkpoints": "A BROKER THAT REFUSES ITS CHECKPOINTS",
    "corrupt-index": "A CORRUPT INDEX",
    "consumers-stuck": "OFFSETS THAT CONSUMERS CANNOT PASS",
    "retention-deletes": "A RETENTION THAT DELETES TOO MUCH",
    "delete-records": "ACCIDENTAL DELETERECORDS",
    "blocked-readers": "A TRANSACTION THAT BLOCKS READERS",
    "offsets-reset": "OFFSETS RESET BY MISTAKE",
    "disk-full": "A FULL DISK",
    "moving": "MOVING A LOG.DIR",
    "colleague": "WHAT TO SEND TO A COLLEAGUE",
    "dead-broker": "A DEAD BROKER WHOSE DATA IS NEEDED",
    "every-night": "CHECKING A FLEET EVERY NIGHT",
})  # fmt: skip
"""The runbooks by the names that `kdump explain` takes, and their headings."""
OTHER_WORDS: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "checkpoint-refused": ("refused-checkpoints",),
    "wrong-volume": ("clusters-differ", "brokers-differ", "wrong-broker"),
    "wrong-disk": ("clusters-differ", "brokers-differ", "wrong-broker"),
    "hot-copy": ("end-cut", "unfinished", "moving"),
    "power-loss": ("not-starting", "refused-checkpoints"),
    "full-disk": ("disk-full",),
})  # fmt: skip
"""What people type, and the names of the manual for it."""
_COMMON = "Keys of several types"
_SHORT = len("b1")
_UNWRAPPED = 1_000_000  # columns
_EXAMPLE = "An example, with other files than yours:"
_HEADING = pattern(r"([A-Z]\d\d) ([a-z0-9-]+) \((?:error|warning|note)\)")
_WORD = pattern(r"([\w-]+) \(a word of text\)")
_SHORT_CODE = pattern(r"([a-z])([0-9])")
_JOINED = ("BR", "RB", "BI", "IB", "IR", "RI")  # macros that set their words without blanks
_ESCAPES = (
    (r"\-", "-"),
    (r"\&", ""),
    (r"\(dq", '"'),
    (r"\(aq", "'"),
    (r"\(bu", "*"),
    (r"\~", " "),
    (r"\(ha", "^"),
    (r"\(ga", "`"),
    (r"\e", "\\"),
)
_NAMED = "\1"  # stands before a word that is set off, while sentences are cut
_STANDS_FOR = {"bytes": 'text, or {"base64": ...} where it is not UTF-8'}


class _Line(TupleValue):
    """One line of a page: its macro, "" for text, and what the reader sees of the rest; marked: the words set off."""

    macro: str
    text: str
    marked: str


def known_names() -> list[str]:
    """Return what `entries` and `runbook` know: codes, names of findings, types and keys of JSON, and runbooks.

    They are as the manual writes them.
    """
    found: dict[str, None] = {}
    for heading in _chapters(_FINDINGS):
        match = _HEADING.fullmatch(heading) or _WORD.fullmatch(heading)
        found.update(dict.fromkeys(match.groups() if match else ()))
    for type_, schema in _schemas().items():
        found[type_] = None
        found.update(dict.fromkeys(key for key, _ in _keys(schema)))
    return [*found, *RUNBOOKS]


def headings() -> list[str]:
    """Return a line for each finding, with its code, its name and how grave it may be, then one for each runbook."""
    findings = [_severities(heading) for heading in _chapters(_FINDINGS) if _HEADING.fullmatch(heading)]
    return [*findings, "", *(f"{name} (a runbook)" for name in RUNBOOKS)]


def _severities(heading: str) -> str:
    """The heading of a finding, with each severity that it may have: the page has that of the table alone."""
    found = _HEADING.fullmatch(heading)
    if found is None:
        return heading
    usual, *others = (one.value for one in Code[found[1]].severities)
    also = f", or {' or '.join(others)}" if others else ""
    return f"{found[1]} {found[2]} ({usual}{also})"


def entries(name: str, width: int = 80) -> list[str]:
    """Return all entries about a code, the name of a finding, a key or type of JSON, or a word of text.

    Args:
        name: in any case; a code may lack its zero, and a key be one of text: lost_records is recordsLost in JSON.
        width: columns; longer lines are wrapped, but for examples.

    Returns:
        The text of each; nothing for a name that is not in the manual.
    """
    wanted = _SHORT_CODE.sub(r"\g<1>0\2", name.casefold()) if len(name) == _SHORT else name.casefold()
    chapters = _chapters(_FINDINGS)
    blocks = []
    for heading, lines in chapters.items():
        match = _HEADING.fullmatch(heading) or _WORD.fullmatch(heading)
        if match and wanted in map(str.casefold, match.groups()):
            blocks.append([_severities(heading), *_told(lines, width)])
    if not blocks and "_" in wanted:
        words = wanted.split("_")
        wanted = next((one for one in map("".join, (words, words[::-1])) if one in _folded_keys()), wanted)
    pages = _chapters(_JSON)
    for type_, schema in _schemas().items():
        if wanted == type_.casefold():
            keys = f"Keys: {', '.join(schema.get('properties', {}))}."
            prose = _told(_prose(pages[type_]), width)
            blocks.append([f"{type_} (a type of JSON)", *prose, "", *wrapped(keys, "  ", width)])
            continue
        for key in dict.fromkeys(key for key, _ in _keys(schema) if key.casefold() == wanted):
            blocks.append([f"{key} (a key of {type_} in JSON)", *_about(key, schema, pages[type_], width)])
    return ["\n".join(block) for block in blocks]


def _folded_keys() -> set[str]:
    return {key.casefold() for schema in _schemas().values() for key, _ in _keys(schema)}


def told(code: str) -> list[tuple[str, bool]]:
    """Return what the manual says of a code: its paragraphs, and lines of examples.

    Args:
        code: such as X02.

    Returns:
        Each with whether it is an example; nothing for a code that is not in the manual.
    """
    for heading, lines in _chapters(_FINDINGS).items():
        if heading.startswith(f"{code} "):
            found = (line for line in _told(lines, _UNWRAPPED) if line)
            return [(line.strip(), line.startswith("    ")) for line in found]
    return []


def runbook(name: str, width: int = 80) -> list[str]:
    """Return a runbook.

    Args:
        name: of RUNBOOKS, in any case, with blanks or hyphens.
        width: columns; longer lines are wrapped, but for examples.

    Returns:
        Its text; nothing for a name that is none.
    """
    heading = RUNBOOKS.get("-".join(name.casefold().split()))
    if heading is None:
        return []
    lines = (line.replace(_EXAMPLE, "For example:") for line in _told(_chapters(_RUNBOOKS, "SH")[heading], width))
    return ["\n".join((heading, *lines))]


def topic(name: str, width: int = 80) -> str:
    """Return what all commands have in common about something.

    Args:
        name: of TOPICS.
        width: columns; longer lines are wrapped, but for examples.
    """
    heading = TOPICS[name]
    return "\n".join((heading, *_told(_chapters(_OVERVIEW, "SH")[heading], width)))


# --- pages --------------------------------------------------------------------------------------------------
def _page(name: str) -> Traversable:
    package = files("kdump")
    built = package / "man" / name
    return built if built.is_file() else package / ".." / "man" / name


@cache
def _chapters(name: str, level: str = "SS") -> dict[str, list[_Line]]:
    """The lines below each heading of a level."""
    found: dict[str, list[_Line]] = {}
    lines: list[_Line] = []
    for raw in _page(name).read_text("ascii").splitlines():
        line = _parsed(raw)
        if line.macro in ("SH", "SS"):
            lines = []
            if line.macro == level:
                found[line.text] = lines
        elif not raw.startswith('.\\"'):
            lines.append(line)
    return found


def _parsed(line: str) -> _Line:
    if not line.startswith("."):
        return _Line("", _plain(line), _plain(line))
    macro, _, rest = line[1:].partition(" ")
    words = [_plain(quoted or word) for quoted, word in re.findall(r'"([^"]*)"|(\S+)', rest)]
    if macro in _JOINED:  # its fonts take turns, R is that of text
        marked = [word if macro[at % 2] == "R" else _NAMED + word for at, word in enumerate(words)]
        return _Line(macro, "".join(words), "".join(marked))
    text = " ".join(words)
    return _Line(macro, text, _NAMED + text if macro in ("B", "I") else text)


def _plain(text: str) -> str:
    for escape, shown in _ESCAPES:
        text = text.replace(escape, shown)
    return text


def _prose(lines: list[_Line]) -> list[_Line]:
    """What stands before the schema of a type."""
    ends = (at for at, line in enumerate(lines) if line.macro == "EX" and lines[at + 1].text.startswith('{"$id"'))
    return lines[: next(ends, len(lines))]


# --- findings, and types of JSON ----------------------------------------------------------------------------
def _told(lines: Iterable[_Line], width: int) -> Iterator[str]:
    """Yield paragraphs, indented; tags begin theirs, examples stay as they are."""
    words: list[str] = []
    is_tag = is_example = False
    for line in (*lines, _Line("PP", "", "")):
        if line.macro in ("PP", "TP", "TQ", "IP", "EX", "EE"):
            if words:
                yield ""
                yield from wrapped(" ".join(words), "  ", width)
                words = []
            if line.macro == "EX":
                yield from ("", f"  {_EXAMPLE}")
            is_example = line.macro == "EX"
            is_tag = line.macro in ("TP", "TQ")
        elif is_example:
            yield f"    {line.text}"
        elif line.macro not in ("RS", "RE", "br"):
            words.append(line.text)
            if is_tag and not line.text.endswith(":"):
                words[-1] += ":"
            is_tag = False


def wrapped(text: str, indent: str, width: int) -> list[str]:
    """Return text as lines.

    Args:
        text: of one paragraph.
        indent: before each line.
        width: columns.
    """
    wrap = textwrap.TextWrapper(
        width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return wrap.wrap(text)


# --- keys of JSON -------------------------------------------------------------------------------------------
def _schemas() -> dict[str, dict[str, Any]]:
    """The schema of each type, by its name."""
    found = {}
    for heading, lines in _chapters(_JSON).items():
        inside: list[str] | None = None
        for line in lines:
            if line.macro == "EX":
                inside = []
            elif line.macro == "EE" and inside and inside[0].startswith('{"$id"'):
                found[heading] = json.loads("\n".join(inside))
                inside = None
            elif inside is not None:
                inside.append(line.text)
    return found


def _keys(schema: object) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each key that a schema knows with what it may be, at any depth."""
    if isinstance(schema, list):
        for one in schema:
            yield from _keys(one)
    elif isinstance(schema, dict):
        properties = schema.get("properties", {})
        for key, what in properties.items():
            yield key, what
            yield from _keys(what)
        for word, what in schema.items():
            if word != "properties":
                yield from _keys(what)


def _about(key: str, schema: dict[str, Any], lines: list[_Line], width: int) -> Iterator[str]:
    """Yield what a key may be, and the sentences that name it: of its type, else of the keys of several types."""
    kinds = dict.fromkeys(_kind(what) for name, what in _keys(schema) if name == key)
    yield from wrapped("; ".join(kinds), "  ", width)
    said = _prose(lines)
    found = [*_sentences(said, key)] or [*_sentences(_chapters(_JSON)[_COMMON], key)]
    for sentence in found or [" ".join(line.text for line in said)]:
        yield from wrapped(sentence, "  ", width)


def _kind(what: dict[str, Any]) -> str:
    """Return in words what a value may be."""
    if "const" in what:
        return json.dumps(what["const"])
    if "enum" in what:
        return " | ".join(json.dumps(one) for one in what["enum"])
    for word in ("anyOf", "oneOf"):
        if word in what:
            return " | ".join(_kind(one) for one in what[word])
    if "$ref" in what:
        return _STANDS_FOR.get(what["$ref"], str(what["$ref"]))
    kinds = what.get("type", "anything")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    named = [f"array of {_kind(what['items'])}" if one == "array" and "items" in what else one for one in kinds]
    return " | ".join(named)


def _sentences(lines: Iterable[_Line], key: str) -> Iterator[str]:
    """Yield the sentences of prose that set a key off, each with what follows on it."""
    text = " ".join(line.marked for line in lines)
    is_about = False
    for sentence in re.split(r"(?<=[.:]) +(?=[A-Z\1`])", text):
        names = re.findall(rf"{_NAMED}(\w+)", sentence)
        is_about = key in names or (is_about and not names)
        if is_about:
            yield sentence.replace(_NAMED, "").strip()
