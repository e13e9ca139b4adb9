"""Files of names and values: meta.properties, in the format of Java's Properties, and partition.metadata."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kdump.format.checkpoint.text_lines import Property, lines, split, text_of
from kdump.format.java_values import ARGUMENT, IO, RUNTIME, JavaComplaint, parse_number, quote, uuid_complaint
from kdump.value import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kdump.format.checkpoint.text_lines import Properties, TextDamage

_COLON = pattern(r":\s+", re.ASCII)
_TRIMMED = "".join(map(chr, range(33)))  # String.trim
_KEY = pattern(r"((?:\\.|[^\\=: \t\f])*+)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
_ESCAPE = pattern(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_READ_AHEAD = 8192  # bytes that Java decodes before it hands out a line. Source: StreamDecoder
_ZERO_UUID = pattern(r"A{21}[A-P]")


def read_partition_metadata(data: bytes, damage: TextDamage) -> Properties:
    """Read the first two lines, whatever their names are. Source: PartitionMetadataReadBuffer.read."""
    version: int | None = None
    entries: list[Property] = []
    complaints: list[tuple[int, int, JavaComplaint | None]] = []
    number = -1
    for number, (position, line) in enumerate(lines(data)):
        text = text_of(line)
        found: int | JavaComplaint | None = text if isinstance(text, JavaComplaint) else None
        if isinstance(text, str) and number < 2:  # later lines are not looked at, but decoded all the same
            parts = split(_COLON, text)
            if len(parts) == 2:
                entries.append(Property(*parts))
            found = _metadata_value(number == 0, text, parts, damage.name)
        version = found if isinstance(found, int) else version
        if isinstance(text, JavaComplaint) and number > 1 and _is_cut(line, data):  # it is never asked for
            found = JavaComplaint(text.why)
        complaints.append((position, len(line), found if isinstance(found, JavaComplaint) else None))
    if any(not _is_text(line) for position, line in lines(data) if position < _READ_AHEAD):
        complaints.sort(key=lambda one: _is_text(data[one[0] : one[0] + one[1]]))  # it reads on before it judges a line
    for complaint in complaints:
        damage.add(*complaint)
    if number < 1:
        what = "the file is empty" if number < 0 else "the line of the topic id is missing"
        damage.add(len(data), 0, JavaComplaint(what, "java.lang.NullPointerException"))
    return version, entries


def _is_text(line: bytes) -> bool:
    return not isinstance(text_of(line), JavaComplaint)


def _is_cut(line: bytes, data: bytes) -> bool:
    """Whether a file ends within a character, and has nothing else against it."""
    from codecs import getincrementaldecoder  # few files have such an end

    try:
        getincrementaldecoder("utf-8")().decode(line)
    except UnicodeDecodeError:
        return False
    return data.endswith(line)


def _metadata_value(is_version: bool, text: str, parts: list[str], name: str) -> int | JavaComplaint | None:
    malformed = JavaComplaint(f"Malformed line in partition metadata file [{name}]: {quote(text)}", IO)
    if len(parts) != 2:
        return malformed
    if not is_version:
        why = uuid_complaint(parts[1])
        if why is None and _ZERO_UUID.match(parts[1]):
            return JavaComplaint(f"Invalid topic ID in partition metadata file ({name})", IO)
        return None if why is None else JavaComplaint(why, ARGUMENT)
    version = parse_number(parts[1], 32)
    if isinstance(version, JavaComplaint):
        return malformed
    if version < 0:
        return JavaComplaint(f"Unrecognized version of partition metadata file ({name}): {version}", IO)
    return version


def read_meta_properties(data: bytes, damage: TextDamage) -> Properties:
    """Read a file of Java properties, ISO 8859-1.

    What the builder throws is caught, and the log directory goes offline; one without the id of a node ends the broker.

    Source: Properties.load, MetaProperties.Builder, MetaPropertiesEnsemble.Loader; KafkaRaftServer.initializeLogDirs.
    """
    entries: list[Property] = []
    values: dict[str, str] = {}
    places: dict[str, tuple[int, int]] = {}
    zeros: list[tuple[int, int]] = []
    for position, length, line in _logical_lines(data):
        name, value = _property(line)
        if "\0" in line:
            zeros.append((position, length))
        if name is None or value is None:
            damage.add(position, length, JavaComplaint(r"Malformed \uxxxx encoding.", ARGUMENT, True))
        else:
            entries.append(Property(name, value))
            values[name], places[name] = value, (position, length)
    version, complaints = _judge_properties(values, is_empty=not data)
    for place in zeros:  # Java takes them for text: what a broker says is what is missing because of them
        what = "zero bytes where text should be"
        if complaints:
            what, meant = f"{what}, and {complaints[0][1].why}", complaints[0][1]
            damage.add(*place, meant.replace(why=what))
        else:
            damage.add(*place, JavaComplaint(what))
    if not damage.count:  # else what is missing may be in the damaged lines
        for name, complaint in complaints:
            damage.add(*places.get(name, (0, len(data))), complaint)
    return version, entries


def read_properties(data: bytes) -> dict[str, str]:
    """Read a file of Java properties, ISO 8859-1; of a name that is there twice the last value counts.

    Args:
        data: the whole file.

    Raises:
        ValueError: an escape in it is malformed; the message says where.

    Source: Properties.load.
    """
    values: dict[str, str] = {}
    for position, _, line in _logical_lines(data):
        name, value = _property(line)
        if name is None or value is None:
            raise ValueError(rf"byte {position}: Malformed \uxxxx encoding.")
        values[name] = value
    return values


def encode_partition_metadata(topic_id: str) -> bytes:
    """Return a partition.metadata. Source: PartitionMetadata.encode."""
    return f"version: 0\ntopic_id: {topic_id}".encode("ascii")


def encode_properties(values: Mapping[str, str]) -> bytes:
    """Return a file of Java properties; the values need no escape.

    Args:
        values: by name, in the order in which they are written.

    Source: PropertiesUtils.writePropertiesFile.
    """
    return "".join(f"{name}={value}\n" for name, value in values.items()).encode("ascii")


def _judge_properties(
    values: Mapping[str, str], *, is_empty: bool
) -> tuple[int | None, list[tuple[str, JavaComplaint]]]:
    """Return the version, and for each name that a broker does not accept what it says.

    Args:
        values: by name.
        is_empty: the file has no byte.
    """
    stored = values.get("version", "0")
    version = parse_number(stored.strip(_TRIMMED), 32)
    if isinstance(version, JavaComplaint):
        return None, [("version", _caught(f"Invalid meta.properties version string '{quote(stored)}'"))]
    if version not in (0, 1):
        return version, [("version", _caught(f"Unknown meta.properties version number {version}"))]
    found: list[tuple[str, JavaComplaint]] = []
    node = "node.id" if version else "broker.id"
    if node in values and isinstance(parse_number(values[node], 32), JavaComplaint):
        found.append((node, _caught(f"Unable to read {node} as a base-10 number.")))
    elif version and node not in values:
        found.append((node, _caught(f"Failed to find {node}")))
    why = uuid_complaint(values["directory.id"]) if "directory.id" in values else None
    if why is not None:
        found.append(("directory.id", _caught(f"Unable to read directory.id as a Uuid: {why}")))
    if version and "cluster.id" not in values:
        found.append(("cluster.id", _caught("cluster.id was not found.")))
    if not version and node not in values:
        lacks = "the file is empty" if is_empty else "neither version=1 and node.id nor broker.id is in the file"
        found.append((node, JavaComplaint(f"node ID not found: {lacks}", RUNTIME)))
    return version, found


def _caught(why: str) -> JavaComplaint:
    return JavaComplaint(why, RUNTIME, True)


def _logical_lines(data: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield position, length and text of each property: no comments, continued lines joined.

    Source: java.util.Properties.LineReader.
    """
    start, parts = 0, list[bytes]()
    end = 0
    for position, line in lines(data):
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
    value_at = found.end() if found else 0
    return _unescape(found[1] if found else ""), _unescape(line[value_at:])


def _unescape(text: str) -> str | None:
    plain = _ESCAPE.sub(_escaped, text)
    if any(found[1] == "u" for found in _ESCAPE.finditer(text)):
        return None
    # what Java writes as two escapes is one character
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _escaped(found: re.Match[str]) -> str:
    code = found[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _CONTROLS.get(code, code)
