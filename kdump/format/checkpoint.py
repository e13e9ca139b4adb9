"""The small text files of a broker, which Kafka's own tool cannot show.

Strategy: what can be read is returned; what cannot is a finding with the exact bytes, in Kafka's words where
a broker has some. A finding's values are `why` and `exception`, the Java class that a broker meets there: an
IOException takes the log directory offline; another one ends the load, or (recovery point, log start) is
logged and the file counts as empty.
"""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kdump.finding import Code, Finding
from kdump.format.kinds import TEXT_KINDS, FileKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kdump.finding import Report
    from kdump.format.source import Source

MAX_BYTES = 1 << 24  # larger files are not read: a broker's own have a few megabytes at most
MAX_JSON_BYTES = 1 << 20  # JSON in memory is many times as large as its text
MAX_FINDINGS = 100  # of one file; one more stands for all the rest
MAX_QUOTE = 200  # characters of a bad line that a message quotes

IO = "java.io.IOException"
NUMBER = "java.lang.NumberFormatException"
ARGUMENT = "java.lang.IllegalArgumentException"
RUNTIME = "java.lang.RuntimeException"

_LINE_END = re.compile(rb"\r\n|\n|\r")  # BufferedReader.readLine
_BLANKS = "[ \t\n\x0b\f\r]+"  # what \s+ is to Java
_TRIMMED = "".join(map(chr, range(33)))  # String.trim
_KEY = re.compile(r"((?:\\.|[^\\=: \t\f])*+)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_UUID_DIGITS = re.compile(r"[A-Za-z0-9_-]*+")
_ZERO_UUID = re.compile(r"A{21}[A-P]")
_QUORUM_FIELDS = {  # QuorumStateData.json
    0: ("clusterId", "leaderId", "leaderEpoch", "votedId", "appliedOffset", "currentVoters"),
    1: ("leaderId", "leaderEpoch", "votedId", "votedDirectoryId"),
}
_QUORUM_NUMBERS = frozenset(("leaderId", "leaderEpoch", "votedId", "appliedOffset"))


class EpochEntry(NamedTuple):
    """The leader epoch that begins at `start_offset`."""

    epoch: int
    start_offset: int


class TopicPartitionOffset(NamedTuple):
    """One offset of one partition: recovery point, log start, high watermark or first dirty offset."""

    topic: str
    partition: int
    offset: int


class Property(NamedTuple):
    """One named value: text, or what JSON had there (nested JSON as compact text)."""

    name: str
    value: str | int | None


Entry: TypeAlias = EpochEntry | TopicPartitionOffset | Property
_Content: TypeAlias = tuple[int | None, list[Entry]]  # version and entries


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What could be read of one file: its version where it tells one, its entries in file order."""

    kind: FileKind
    version: int | None
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Complaint:
    """Why something cannot be read, and the Java exception that a broker meets there, if any."""

    why: str
    exception: str | None = None


def read_checkpoint(kind: FileKind, source: Source, report: Report) -> Checkpoint:
    """Read a small file of a broker.

    Args:
        kind: which file it is, one of `TEXT_KINDS`.
        source: the file; one above `MAX_BYTES` (JSON: `MAX_JSON_BYTES`) is not read.
        report: called once for each damaged place.

    Returns:
        everything readable, damage or not.

    Reports:
        K05 for partition.metadata, K03 for all others.

    Raises:
        OSError: the source cannot be read. Never for bad data.
        ValueError: the kind is not a text file.

    Source: CheckpointFile, PartitionMetadataReadBuffer, MetaProperties, FileQuorumStateStore.
    """
    if kind not in TEXT_KINDS:
        raise ValueError(kind)
    damage = _Damage(kind, source.name, report)
    is_json = kind in (FileKind.QUORUM_STATE, FileKind.CLEAN_SHUTDOWN)
    limit = MAX_JSON_BYTES if is_json else MAX_BYTES
    if source.size > limit:
        why = f"the file has {source.size} bytes and was not read: the limit is {limit}"
        damage.add(0, source.size, Complaint(why))
        return Checkpoint(kind, None, ())
    data = source.read_at(0, source.size)
    if kind is FileKind.PARTITION_METADATA:
        version, entries = _read_partition_metadata(data, damage)
    elif kind is FileKind.META_PROPERTIES:
        version, entries = _read_meta_properties(data, damage)
    elif is_json:
        version, entries = _read_json(kind, data, damage)
    else:
        version, entries = _read_lines(kind, data, damage)
    damage.finish()
    return Checkpoint(kind, version, tuple(entries))


def parse_number(text: str, bits: int) -> int | Complaint:
    """Return what Java's parseInt (32 bits) or parseLong (64 bits) makes of a text.

    Java takes a sign and digits of any script, and neither blanks nor underscores.
    """
    digits = text[1:] if text[:1] in ("+", "-") else text
    if digits.isdecimal() and max(digits) <= "\uffff":
        value = int(digits[-19:]) * (-1 if text[0] == "-" else 1)
        is_long = any(map(unicodedata.decimal, digits[:-19]))  # zeros in front do not count
        if not is_long and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            return value
    return Complaint(f'For input string: "{_quote(text)}"', NUMBER)


def uuid_complaint(text: str) -> str | None:
    """Return what Uuid.fromString says of a text that is not a UUID in base64url; None when it is one."""
    if len(text) > 24:
        return f"Input string with prefix `{text[:24]}` is too long to be decoded as a base64 UUID"
    if len(text) == 1:
        return "Input byte[] should at least have 2 bytes for base64 bytes"
    rest = _UUID_DIGITS.sub("", text, count=1)
    digits = len(text) - len(rest)
    if rest and rest[0] != "=":
        byte = rest[0].encode("latin-1", "replace")[0]
        return f"Illegal base64 character {byte - 256 if byte > 127 else byte:x}"  # a byte of Java has a sign
    if rest and (digits % 4 == 0 or (digits % 4 == 2 and rest[1:2] != "=")):
        return "Input byte array has wrong 4-byte ending unit"
    if digits % 4 == 1:
        return "Last unit does not have enough valid bits"
    if rest and len(rest) > 4 - digits % 4:
        return f"Input byte array has incorrect ending byte at {digits + 4 - digits % 4}"
    if digits * 3 // 4 == 16:
        return None
    what = f"Input string `{text}` decoded as {digits * 3 // 4} bytes"
    return f"{what}, which is not equal to the expected 16 bytes of a base64-encoded UUID"


class _Damage:
    """Reports the damaged places of one file, and all beyond the first hundred as one."""

    def __init__(self, kind: FileKind, name: str, report: Report) -> None:
        self.name = name
        self.count = 0
        self._code = Code.K05 if kind is FileKind.PARTITION_METADATA else Code.K03
        self._report = report
        self._rest = (0, 0)

    def add(self, position: int, length: int, complaint: Complaint | None) -> None:
        if complaint is None:
            return
        self.count += 1
        if self.count > MAX_FINDINGS:
            first = position if self.count == MAX_FINDINGS + 1 else self._rest[0]
            self._rest = (first, position + length)
            return
        values = {"why": complaint.why, "exception": complaint.exception}
        self._report(Finding(self._code, self.name, position, length, values=values))

    def finish(self) -> None:
        more = self.count - MAX_FINDINGS
        if more > 0:
            first, end = self._rest
            values = {"why": f"{more} more places like these", "exception": None}
            self._report(Finding(self._code, self.name, first, end - first, count=more, values=values))

    def malformed(self, text: str) -> Complaint:
        return Complaint(f"Malformed line in checkpoint file [{self.name}]: {_quote(text)}", IO)


def _read_lines(kind: FileKind, data: bytes, damage: _Damage) -> _Content:
    """Read a version, a count, then one entry a line. Source: CheckpointFile.CheckpointReadBuffer.read."""
    header: list[int | None] = []
    entries: list[Entry] = []
    count_at = (0, 0)
    for position, line in _lines(data):
        place, text, is_header = (position, len(line)), _text(line), len(header) < 2
        if is_header:
            number = text if isinstance(text, Complaint) else parse_number(text, 32)
            header.append(number if isinstance(number, int) else None)
            if isinstance(number, int):
                count_at = place
                damage.add(*place, _header_complaint(header, damage.name))
                continue
        found = text if isinstance(text, Complaint) else _entry(kind, text, damage)
        if not isinstance(found, Complaint):
            entries.append(found)  # also where the header should be: the header may be what is missing
        if is_header and isinstance(text, str):
            damage.add(*place, damage.malformed(text))
        elif isinstance(found, Complaint):
            damage.add(*place, found)
    version, count = (*header, None, None)[:2]
    if count is not None and count != len(entries) and not damage.count:
        why = f"Expected [{count}] entries in checkpoint file [{damage.name}], but found only [{len(entries)}]"
        damage.add(*count_at, Complaint(why, IO))
    return version, entries


def _header_complaint(header: list[int | None], name: str) -> Complaint | None:
    number = header[-1] or 0
    if len(header) == 1 and number:
        why = f"Unrecognised version:{number}, expected version: 0 in checkpoint file at: {name}"
        return Complaint(why, IO)
    return Complaint(f"Illegal Capacity: {number}", ARGUMENT) if number < 0 else None


def _entry(kind: FileKind, text: str, damage: _Damage) -> Entry | Complaint:
    """Read one line. Source: OffsetCheckpointFile.Formatter, LeaderEpochCheckpointFile.Formatter."""
    parts = _split(_BLANKS, text)
    if len(parts) != (2 if kind is FileKind.EPOCHS else 3):
        return damage.malformed(text)
    first, second = parse_number(parts[-2], 32), parse_number(parts[-1], 64)
    if isinstance(first, Complaint):
        return first
    if isinstance(second, Complaint):
        return second
    if kind is FileKind.EPOCHS:
        return EpochEntry(first, second)
    return TopicPartitionOffset(parts[0], first, second)


def _read_partition_metadata(data: bytes, damage: _Damage) -> _Content:
    """Read the first two lines, whatever their names are. Source: PartitionMetadataReadBuffer.read."""
    version: int | None = None
    entries: list[Entry] = []
    number = -1
    for number, (position, line) in enumerate(_lines(data)):
        text = _text(line)
        found: int | Complaint | None = text if isinstance(text, Complaint) else None
        if isinstance(text, str) and number < 2:  # later lines are not looked at, but decoded all the same
            parts = _split(":" + _BLANKS, text)
            if len(parts) == 2:
                entries.append(Property(*parts))
            found = _metadata_value(number == 0, text, parts, damage.name)
        version = found if isinstance(found, int) else version
        damage.add(position, len(line), found if isinstance(found, Complaint) else None)
    if number < 1:
        what = "the file is empty" if number < 0 else "the line of the topic id is missing"
        damage.add(len(data), 0, Complaint(what, "java.lang.NullPointerException"))
    return version, entries


def _metadata_value(is_version: bool, text: str, parts: list[str], name: str) -> int | Complaint | None:
    malformed = Complaint(f"Malformed line in partition metadata file [{name}]: {_quote(text)}", IO)
    if len(parts) != 2:
        return malformed
    if not is_version:
        why = uuid_complaint(parts[1])
        if why is None and _ZERO_UUID.match(parts[1]):
            return Complaint(f"Invalid topic ID in partition metadata file ({name})", IO)
        return None if why is None else Complaint(why, ARGUMENT)
    version = parse_number(parts[1], 32)
    if isinstance(version, Complaint):
        return malformed
    if version < 0:
        return Complaint(f"Unrecognized version of partition metadata file ({name}): {version}", IO)
    return version


def _read_meta_properties(data: bytes, damage: _Damage) -> _Content:
    """Read a file of Java properties, ISO 8859-1. Source: Properties.load, MetaProperties.Builder."""
    entries: list[Entry] = []
    values: dict[str, str] = {}
    places: dict[str, tuple[int, int]] = {}
    for position, length, line in _logical_lines(data):
        name, value = _property(line)
        if "\0" in line:
            damage.add(position, length, Complaint("zero bytes where text should be"))
        elif name is None or value is None:
            damage.add(position, length, Complaint(r"Malformed \uxxxx encoding.", ARGUMENT))
        else:
            entries.append(Property(name, value))
            values[name], places[name] = value, (position, length)
    version, complaints = _judge_properties(values)
    if not damage.count:  # else what is missing may be in the damaged lines
        for name, why in complaints:
            damage.add(*places.get(name, (0, len(data))), Complaint(why, RUNTIME))
    return version, entries


def _judge_properties(values: Mapping[str, str]) -> tuple[int | None, list[tuple[str, str]]]:
    """Return the version, and for each name that a broker does not accept what it says."""
    stored = values.get("version", "0")
    version = parse_number(stored.strip(_TRIMMED), 32)
    if isinstance(version, Complaint):
        return None, [("version", f"Invalid meta.properties version string '{_quote(stored)}'")]
    if version not in (0, 1):
        return version, [("version", f"Unknown meta.properties version number {version}")]
    found: list[tuple[str, str]] = []
    node = "node.id" if version else "broker.id"
    if node in values and isinstance(parse_number(values[node], 32), Complaint):
        found.append((node, f"Unable to read {node} as a base-10 number."))
    elif version and node not in values:
        found.append((node, f"Failed to find {node}"))
    why = uuid_complaint(values["directory.id"]) if "directory.id" in values else None
    if why is not None:
        found.append(("directory.id", f"Unable to read directory.id as a Uuid: {why}"))
    if version and "cluster.id" not in values:
        found.append(("cluster.id", "cluster.id was not found."))
    return version, found


def _read_json(kind: FileKind, data: bytes, damage: _Damage) -> _Content:
    """Read one JSON object. Source: FileQuorumStateStore.readStateFromFile, CleanShutdownFileHandler.read."""
    is_quorum = kind is FileKind.QUORUM_STATE
    if not data and is_quorum:
        damage.add(0, 0, Complaint("File ended prematurely.", "java.io.EOFException"))
    if not data:
        return None, []
    line = next(_lines(data))[1] if is_quorum else data
    text = _text(line)
    node = text if isinstance(text, Complaint) else _json_object(text)
    if isinstance(node, Complaint):
        damage.add(0, len(line), node if is_quorum else None)  # a clean shutdown is clean whatever the file says
        return None, []
    values = dict(node)
    version = values.get("data_version" if is_quorum else "version")
    number = version if isinstance(version, int) else None
    if is_quorum:
        damage.add(0, len(line), _judge_quorum(str(text), values, number or 0))
    return number, [Property(name, value) for name, value in node]


def _judge_quorum(text: str, values: Mapping[str, str | int | None], version: int) -> Complaint | None:
    if "data_version" not in values:
        return Complaint(f"Deserialized node {_quote(text.strip())} does not have data_version field", IO)
    fields = _QUORUM_FIELDS.get(version)  # version 0 where it is not a number, as in Kafka
    if fields is None:
        what = f"data_version ({version}) is not within the min (0) and max (1) supported version"
        return Complaint(what, "java.lang.IllegalStateException")
    for name in fields:
        if name not in values:
            what = f"QuorumStateData: unable to locate field '{name}', which is mandatory in version {version}"
            return Complaint(what, RUNTIME)
        if name in _QUORUM_NUMBERS and not isinstance(values[name], int):
            return Complaint(f"QuorumStateData: {name} is not a number", NUMBER)
    return None


def _json_object(text: str) -> list[tuple[str, str | int | None]] | Complaint:
    if not text.strip():
        return Complaint("Deserialized node  is not an object node", IO)
    try:
        node, _ = _DECODER.raw_decode(text.lstrip())
        if not isinstance(node, dict):
            return Complaint(f"Deserialized node {_quote(_compact(node))} is not an object node", IO)
        return [(name, _plain(value)) for name, value in node.items()]
    except (ValueError, RecursionError) as error:
        return Complaint(f"not JSON: {error}", "com.fasterxml.jackson.core.JsonParseException")


def _plain(value: object) -> str | int | None:
    if value is None or isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    return _compact(value)


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield position and bytes of each line without its end."""
    start = 0
    for end in _LINE_END.finditer(data):
        yield start, data[start : end.start()]
        start = end.end()
    if start < len(data):
        yield start, data[start:]


def _text(line: bytes) -> str | Complaint:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return Complaint("the line is not UTF-8", "java.nio.charset.MalformedInputException")


def _split(pattern: str, text: str) -> list[str]:
    """Split as Java does: empty parts at the end do not count, but a text without a match is one part."""
    parts = re.split(pattern, text)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts if len(parts) > 1 or parts[0] or not text else []


def _quote(text: str) -> str:
    return text if len(text) <= MAX_QUOTE else f"{text[:MAX_QUOTE]}... ({len(text)} characters)"


def _logical_lines(data: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield position, length and text of each property: no comments, continued lines joined.

    Source: java.util.Properties.LineReader.
    """
    start, parts = 0, list[bytes]()
    end = 0
    for position, line in _lines(data):
        part = line.lstrip(b" \t\f")
        if not any(parts):
            parts, start = [], position
            if not part or part[:1] in (b"#", b"!"):
                continue
        end = position + len(line)
        is_continued = (len(part) - len(part.rstrip(b"\\"))) % 2 == 1
        parts.append(part[:-1] if is_continued else part)
        if not is_continued:
            yield start, end - start, b"".join(parts).decode("latin-1")
            parts = []
    if any(parts):  # the last line asks to be continued
        yield start, end - start, b"".join(parts).decode("latin-1")


def _property(line: str) -> tuple[str | None, str | None]:
    """Return name and value, None for one with a broken escape. Source: java.util.Properties.loadConvert."""
    found = _KEY.match(line)
    split = found.end() if found else 0
    return _unescape(found[1] if found else ""), _unescape(line[split:])


def _unescape(text: str) -> str | None:
    plain = _ESCAPE.sub(_escaped, text)
    if any(found[1] == "u" for found in _ESCAPE.finditer(text)):
        return None
    # what Java writes as two escapes is one character
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _escaped(found: re.Match[str]) -> str:
    code = found[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _CONTROLS.get(code, code)
