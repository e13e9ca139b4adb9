"""What may not be seen, replaced before it is shown: names, keys and values become tokens of a keyed hash.

One stage in front of every sink, so that no verb knows of it: `Redactor.item` takes an item and returns the same one
with tokens in it. Records are not items: what writes keys, values and headers asks for a token of each.
"""

from __future__ import annotations

import hmac
import json
import os
import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from kdump.finding import Code, Finding
from kdump.format.checkpoint.checkpoint_file import Checkpoint, Property, TopicPartitionOffset
from kdump.row import Kind, Row
from kdump.storage.file_source import OpenFailure
from kdump.storage.log_dir import is_log_dir
from kdump.storage.names import OWN_TOPICS, parse_name, parse_partition
from kdump.storage.paths import AS_OWNER, DID_YOU_MEAN
from kdump.value import Value, pattern
from kdump.words.command import ShellCommand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_TOKEN = pattern(r"tok-[0-9a-f]{20}")
_SIZE = 20  # hexadecimal digits of a token: 80 bits of the hash
_MOST_KNOWN = 65_536  # paths that are kept with what became of them

# Strings of decoded records that are no names: ids that Kafka makes at random, and words of its own.
_PLAIN = frozenset(
    (
        *("id", "topicId", "voterDirectoryId", "votedDirectoryId", "incarnationId", "segmentId", "clusterId"),
        *("logDirs", "cordonedLogDirs", "directories", "entityType"),
    )
)
# Fields that say of a `name` beside them that it is a setting or a feature of Kafka.
_NAMED_BY_KAFKA = ("resourceName", "featureLevel", "minSupportedVersion")
_PROTOCOLS = frozenset(("", "consumer", "connect", "share", "streams"))
_PROPERTIES = frozenset(
    ("version", "cluster.id", "broker.id", "node.id", "directory.id", "topic_id", "data_version", "clusterId")
)

# Sentences that have a name in them which could be anything; what stands before and behind it stays.
_NAMES_IN = (
    pattern(r"(Malformed line in [a-z ]+ file \[[^\]]*\]: )(.+)()", re.DOTALL),
    pattern(r"(Input string (?:with prefix )?`)([^`]*)(`)"),
    pattern(r"(Invalid meta\.properties version string ')(.*)(')", re.DOTALL),
    pattern(r"(For input string: \")([^\"]*[^-+0-9\"][^\"]*)(\")", re.DOTALL),
    pattern(r"(Deserialized node )(.+)( (?:does not have|is not an object))", re.DOTALL),
    pattern(r"(\btransactional id )(.+)( \(producer -?\d+, epoch )", re.DOTALL),
    pattern(r"(\bgroup )(.+)( is a \w+ group: a coordinator does not load this)", re.DOTALL),
    pattern(r"(\bgroup )(.+)(: its name has a newline)", re.DOTALL),
    pattern(r"(\bcommit of )(.+)(: (?:the value|version) )", re.DOTALL),
)
_FORMED = pattern(r"-?[0-9]{1,20}|[A-Za-z0-9_-]{22}")  # numbers and ids as Kafka writes them
_TOPIC_WORD = "--topic"
_TOPIC_OPTION = pattern(r"(--topic )('[^']*'|\S+)")
_PLAIN_TOPIC = pattern(r"[\w.-]+", re.ASCII)
_WORD = pattern(r"[^\s\"'()\[\]{},;=<>|]+")
_PARTITION = pattern(r"([\w.-]*[A-Za-z_][\w.-]*)-(\d{1,10})(\.[^\s./]+-(?:delete|future|stray))?", re.ASCII)
_COPY = pattern(r"(.*[^0-9-].*)-([0-9]+)((?:[._-](?![0-9])|\.[0-9a-f]{32}-).*)", re.DOTALL)
_BETWEEN = pattern(r"([^A-Za-z0-9]+)")
_NO_TOPICS = frozenset(("UTF", "KIP", "CRC", "ISO", "JDK", "KAFKA", "RFC", "INT", "now"))


class Redactor:
    """Replaces what may not be seen by tokens: `tok-` and 20 hexadecimal digits of the HMAC-SHA-256 of the bytes.

    Equal bytes have equal tokens, whatever they are: a topic in a path, in a key and in a message is the same one.

    Args:
        key: of the hash.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._topics: set[str] = set()
        self._odd: dict[str, str] = {}  # topics that are no word of a sentence, by how they stand in one
        self._directories: set[str] = set()  # in log directories, with names that are none of a partition
        self._paths: dict[str, str] = {}
        self.fields: frozenset[str] | None = None  # names that schemas give; None where nothing is decoded by schemas
        self._by = ""  # what the rows of usage are by

    # --- values ---------------------------------------------------------------------------------------------
    def token(self, value: bytes | memoryview | str) -> str:
        """Return the token of a value; text stands for its UTF-8."""
        data = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)
        return f"tok-{hmac.digest(self._key, data, 'sha256').hex()[:_SIZE]}"

    def pieces(self) -> Pieces:
        """Return what makes the token of a value that comes in pieces."""
        return Pieces(self._key)

    def json_token(self, value: bytes) -> bytes:
        """Return the token of a value as JSON."""
        return f'"{self.token(value)}"'.encode()

    def name(self, name: str) -> str:
        """Return the token of a name; none stays none, and Kafka's own topics what they are."""
        return name if not name or name in OWN_TOPICS else self.token(name)

    def topic(self, topic: str) -> str:
        """Return the token of a topic, and remember it: messages may name it."""
        if topic in OWN_TOPICS or not topic or _TOKEN.fullmatch(topic):
            return topic
        if topic not in self._topics:
            self._topics.add(topic)
            if not _PLAIN_TOPIC.fullmatch(topic):
                self._odd.update(dict.fromkeys(_written(topic), topic))
            self._paths.clear()  # one of them may have it
        return self.token(topic)

    def partition(self, name: str) -> str:
        """Return TOPIC-N with the token of the topic; a name of another form as a whole."""
        parsed = parse_partition(name)
        if parsed is None:
            return self.name(name)
        return f"{self.topic(parsed.topic)}{name[len(parsed.topic) :]}"

    def decoded(self, made: Any) -> Any:  # noqa: ANN401 (JSON)
        """Return a decoded key or value field by field: its text as tokens, its numbers as they are."""
        if isinstance(made, dict) and "data" in made:
            return {**made, "data": self._tree(made["data"], "", {})}
        if isinstance(made, str) and not made.startswith(("Error at ", "<DELETE>")):
            return self.token(made)
        return self._tree(made, "", {}) if isinstance(made, dict | list) else made

    def payload(self, made: Any, names: frozenset[str]) -> Any:  # noqa: ANN401 (JSON)
        """Return a value that was decoded by a schema: a token for all that is no null, and no name of a field.

        Args:
            made: the value.
            names: that the schema gives fields; another one is the key of a map, which is a value too.
        """
        if isinstance(made, dict):
            return {name if name in names else self.name(name): self.payload(one, names) for name, one in made.items()}
        if isinstance(made, list):
            return [self.payload(one, names) for one in made]
        return None if made is None else self.name(made if isinstance(made, str) else json.dumps(made))

    def subject(self, name: str) -> str:
        """Return a subject of a schema registry: one that is named after a topic has its token in it."""
        topic, mark, side = name.rpartition("-")
        return f"{self.topic(topic)}-{side}" if mark and side in ("key", "value") else self.name(name)

    def _tree(self, made: Any, field: str, beside: dict[str, Any]) -> Any:  # noqa: ANN401
        if isinstance(made, dict):
            return {name: self._tree(one, name, made) for name, one in made.items()}
        if isinstance(made, list):
            return [self._tree(one, field, beside) for one in made]
        if not isinstance(made, str) or field in _PLAIN:
            return made
        is_kafkas = field == "name" and any(one in beside for one in _NAMED_BY_KAFKA)
        return made if is_kafkas or (field == "protocolType" and made in _PROTOCOLS) else self.name(made)

    # --- text -----------------------------------------------------------------------------------------------
    def learn(self, paths: Iterable[str]) -> None:
        """Learn the topics that paths of the user have, and the directories in them and around them."""
        places: dict[str, None] = {}
        for path in paths:
            self.path(path)
            whole = os.path.abspath(path)
            above = os.path.dirname(whole)
            places.update(dict.fromkeys((whole, above, os.path.dirname(above))))
        for place in places:
            try:
                names = os.listdir(place)
            except OSError:
                continue
            has_partitions = is_log_dir(place)
            for name in names:
                parsed = parse_partition(name)
                if parsed is not None:
                    self.topic(parsed.topic)
                elif has_partitions and os.path.isdir(os.path.join(place, name)):
                    self._directories.add(name)

    def path(self, path: str) -> str:
        """Return a path with the tokens of the topics in it."""
        if path not in self._paths:
            if len(self._paths) >= _MOST_KNOWN:
                self._paths.clear()
            self._paths[path] = self._path(path)
        return self._paths[path]

    def _path(self, path: str) -> str:
        parts = path.split("/")
        last = max((at for at, part in enumerate(parts) if part), default=0)
        is_partition = parse_partition(parts[last]) is not None
        own = last if is_partition else last - 1
        shown = parts.copy()
        for at in {own, last}:
            if at >= 0 and (at == own or not _is_kafkas(parts[at])):
                shown[at] = self._directory(parts[at])
        shown = [self.token(one) if one in self._directories else one for one in shown]
        if self._topics:  # what these two tell is known by now
            shown = [self._within(new) if new == old else new for old, new in zip(parts, shown, strict=True)]
        return "/".join(shown)

    def _directory(self, name: str) -> str:
        """The name of a partition directory, or of a copy of one."""
        parsed = parse_partition(name)
        if parsed is not None:
            return self.partition(name)
        found = _COPY.fullmatch(name)
        return name if found is None else f"{self.topic(found[1])}-{found[2]}{found[3]}"

    def _within(self, name: str) -> str:
        """A name with the tokens of the topics that are known in it."""
        words = _BETWEEN.split(name)
        made, at = "", 0
        while at < len(words):
            found = next(
                (end for end in range(len(words), at, -2) if "".join(words[at:end]) in self._topics and not at % 2),
                None,
            )
            made += words[at] if found is None else self.token("".join(words[at:found]))
            at = at + 1 if found is None else found
        return made

    def command(self, command: ShellCommand) -> ShellCommand:
        """Return a command with tokens for the names in its words, whatever characters these have."""
        return command.with_words(self._words)

    def _words(self, words: Sequence[str]) -> list[str]:
        own = 2 if words[0] == "kdump" else 1  # program and verb
        shown, before = list(words[:own]), ""
        for word in words[own:]:
            if before == _TOPIC_WORD:
                shown.append(self.topic(word))
            elif word.startswith("-"):
                option, sign, value = word.partition("=")
                shown.append(f"{option}{sign}{self._argument(value)}")
            else:
                shown.append(word if word in _vocabulary() else self._argument(word))
            before = word
        return shown

    def _argument(self, word: str) -> str:
        """A path, the name of a partition or of a topic that is known; any other word as it is."""
        is_name = "/" in word or word in self._topics or parse_partition(word) or _COPY.fullmatch(word)
        return self.path(word) if is_name else word

    def text(self, text: str) -> str:
        """Return a sentence or a command with tokens for the names in it."""
        if isinstance(text, ShellCommand):
            return self.command(text)
        for shown, topic in self._odd.items():
            text = re.sub(rf"{re.escape(shown)}(?=-\d)", self.token(topic), text)
        for around in _NAMES_IN:
            text = around.sub(lambda found: f"{found[1]}{self._once(found[2])}{found[3]}", text)
        text = _TOPIC_OPTION.sub(lambda found: f"{found[1]}{self.topic(found[2].strip(chr(39)))}", text)
        return _WORD.sub(self._word, text)

    def _once(self, name: str) -> str:
        return name if _TOKEN.fullmatch(name) else self.token(name)

    def _word(self, found: re.Match[str]) -> str:
        whole = found[0]
        word = whole.rstrip(".:")
        rest = whole[len(word) :]
        if "/" in word:
            return self.path(word) + rest
        if word in self._topics and word not in _vocabulary():
            return self.token(word) + rest
        copy = _COPY.fullmatch(word)
        if copy is not None and copy[1] in self._topics:
            return self._directory(word) + rest
        partition = _PARTITION.fullmatch(word)
        if partition is None or partition[1] in _NO_TOPICS or word.startswith("-"):
            return whole
        return f"{self.topic(partition[1])}-{partition[2]}{partition[3] or ''}{rest}"

    # --- items ----------------------------------------------------------------------------------------------
    def before(self, sink: Any) -> Any:  # noqa: ANN401 (each verb has its own)
        """Return a sink that hands what may be seen to another one."""
        return _Redacted(sink, self)

    def item(self, item: Any) -> Any:  # noqa: ANN401 (of any verb)
        """Return an item of any verb as it may be seen."""
        kind = type(item).__name__
        if kind == "Chunk" or not isinstance(item, Value):
            return self._tree(item, "", {}) if isinstance(item, dict) else item
        if isinstance(item, Finding):
            return self._finding(item)
        if isinstance(item, OpenFailure):  # a name that the user has not named is not known here
            sentence = item.sentence
            for more in (DID_YOU_MEAN, *AS_OWNER):
                sentence = sentence.partition(more)[0]
            item = item.replace(sentence=sentence)
        if isinstance(item, Checkpoint):
            return item.replace(entries=_Entries(item.entries, self))
        rules = _rules(type(item))
        changes: dict[str, Any] = {}
        for name in item.__match_args__:
            value = getattr(item, name)
            changed = self._field(rules[name], value, item)
            if changed is not value:
                changes[name] = changed
        return item.replace(**changes) if changes else item

    def _field(self, make: Callable[[Redactor, Any, Any], Any], value: Any, item: Any) -> Any:  # noqa: ANN401
        if isinstance(value, tuple) and make is not _whole:
            changed = tuple([self._field(make, one, item) for one in value])
            return changed if changed != value else value
        if isinstance(value, str | bytes):
            return make(self, value, item)
        if isinstance(value, list | dict):  # of a record of the metadata log
            return self._tree(value, getattr(item, "field", ""), {})
        return self.item(value) if isinstance(value, Value) else value

    def _finding(self, finding: Finding) -> Finding:
        values = {name: self._value(name, one) for name, one in finding.values.items()}
        return finding.replace(
            file=self.path(finding.file),
            values=values,
            expected=self._value("", finding.expected),
            found=self._value("", finding.found),
            repair=self._value("", finding.repair),
        )

    def _value(self, name: str, value: Any) -> Any:  # noqa: ANN401
        if not isinstance(value, str):
            return value
        return _OF_VALUES.get(name, Redactor.text)(self, value)

    # --- tables ---------------------------------------------------------------------------------------------
    def cell(self, holds: Kind, value: Any) -> Any:  # noqa: ANN401 (of any table)
        """Return what may be seen of a text cell of a table.

        Args:
            holds: what its column holds.
            value: None, a text or texts.
        """
        if isinstance(value, list):
            return [self.cell(holds, one) for one in value]
        return value if not isinstance(value, str) else _OF_KIND.get(holds, _TEXT)(self, value, None)


class Pieces:
    """Makes the token of a value that comes in pieces.

    Args:
        key: of the hash.
    """

    def __init__(self, key: bytes) -> None:
        self._hash = hmac.new(key, digestmod="sha256")

    def add(self, data: memoryview) -> None:
        """Take a piece."""
        self._hash.update(data)

    @property
    def token(self) -> str:
        """The token of all pieces."""
        return f"tok-{self._hash.hexdigest()[:_SIZE]}"


class _Entries(Sequence[Any]):
    """Entries of a checkpoint file as they may be seen, made when they are asked for.

    Args:
        entries: the true ones.
        redactor: makes the tokens.
    """

    def __init__(self, entries: Sequence[Any], redactor: Redactor) -> None:
        self._entries = entries
        self._redactor = redactor

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401
        """Return one entry, or some."""
        if isinstance(index, slice):
            return _Entries(self._entries[index], self._redactor)
        entry = self._entries[index]
        if isinstance(entry, TopicPartitionOffset):
            return entry._replace(topic=self._redactor.topic(entry.topic))
        if isinstance(entry, Property) and isinstance(entry.value, str):
            is_shown = entry.name in _PROPERTIES and _FORMED.fullmatch(entry.value)
            return entry if is_shown else entry._replace(value=self._redactor.name(entry.value))
        return entry


class _Redacted:
    """A sink that gets what may be seen.

    Args:
        sink: the other one; all but what is told to it goes to it as it is.
        redactor: makes the tokens.
    """

    def __init__(self, sink: Any, redactor: Redactor) -> None:  # noqa: ANN401
        self._sink = sink
        self._redactor = redactor

    def __call__(self, item: Any) -> Any:  # noqa: ANN401
        return self._sink(self._redactor.item(item))

    def go_on(self, file: Any) -> None:  # noqa: ANN401
        """Take in hand a file that another sink has begun to show."""
        self._sink.go_on(self._redactor.item(file))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._sink, name)


def _written(topic: str) -> tuple[str, ...]:
    """How a name stands in a sentence, and in a command in one, without the quotes around it."""
    quoted = str(ShellCommand(topic))
    return topic, quoted.removeprefix("$")[1:-1] if quoted.endswith("'") else quoted


def _is_kafkas(name: str) -> bool:
    """Whether a file name is one that Kafka writes."""
    parsed = parse_name(name)
    return parsed is not None and parsed.is_exact


@cache
def _vocabulary() -> frozenset[str]:
    """The words of kdump's own sentences: there a topic of that name is not known from the word."""
    words = (word for code in Code for word in re.findall("[a-z]+", f"{code.sentence} {code.remedy}"))
    return frozenset(words)


def _of_usage(redactor: Redactor, name: str | bytes, item: Any) -> str | bytes:  # noqa: ANN401
    """The name of a row of usage, or of a growth, which comes behind its rows."""
    redactor._by = getattr(item, "by", redactor._by)
    if isinstance(name, bytes) or redactor._by in ("key", "group"):
        return redactor.token(name)
    make = {"topic": redactor.topic, "partition": redactor.partition}.get(redactor._by)
    return name if make is None else make(name)


def _of_change(redactor: Redactor, name: str, item: Any) -> str:  # noqa: ANN401
    """The name of what has changed: `GROUP TOPIC-N`, or a name."""
    if item.what == "commit":
        group, _, partition = name.rpartition(" ")
        return f"{redactor.name(group)} {redactor.partition(partition)}"
    if item.what in ("partition", "topic"):
        return redactor.partition(name) if item.what == "partition" else redactor.topic(name)
    if item.what == "config":  # `TOPIC NAME`, or what kind of resource, which one, and the name
        resource, _, setting = name.rpartition(" ")
        kind, _, which = resource.rpartition(" ")
        return f"{kind} {redactor.name(which)} {setting}".lstrip()
    return name if item.what in ("feature", "acl", "producerIds") or name.isdigit() else redactor.name(name)


def _of_changed(redactor: Redactor, value: str, item: Any) -> str:  # noqa: ANN401
    """A value of a field that has changed."""
    return value if item.field in _OPEN_FIELDS or item.field in _PLAIN else redactor.name(value)


_OPEN_FIELDS = frozenset(("state", "groupType", "pending", "protocol", "partition"))

if TYPE_CHECKING:
    _Make = Callable[[Redactor, Any, Any], Any]


def _whole(_redactor: Redactor, value: Any, _item: Any) -> Any:  # noqa: ANN401
    return value


def _of_protocol(redactor: Redactor, value: str, _item: Any) -> str:  # noqa: ANN401
    return value if value in _PROTOCOLS else redactor.name(value)


def _make(of: Callable[[Redactor, Any], Any]) -> _Make:
    return lambda redactor, value, _item: of(redactor, value)


_TEXT, _PATH, _TOPIC, _NAME = (_make(of) for of in (Redactor.text, Redactor.path, Redactor.topic, Redactor.name))
_PARTITION_NAME = _make(Redactor.partition)

_OF_KIND: dict[Kind, _Make] = {
    Kind.PATH: _PATH,
    Kind.TOPIC: _TOPIC,
    Kind.PARTITION: _PARTITION_NAME,
    Kind.NAME: _NAME,
    Kind.WORD: _whole,
    Kind.CODE: _whole,
}
"""Columns by what they hold; the others are text."""

_UNSHOWN: dict[str, _Make] = {
    "path": _PATH,
    "file": _PATH,
    "directory": _PATH,
    "replicas": _PATH,
    "others": _PATH,
    "damaged": _PATH,
    "partition": _PARTITION_NAME,
    "asked": _whole,
    "group_type": _whole,
    "kind": _whole,
}
"""Fields that are no columns, by their name, where they are the same in all; the others are text."""

_ODD: dict[tuple[str, str], _Make] = {
    ("GroupRow", "protocol"): _of_protocol,
    ("ChangeRow", "name"): _of_change,
    ("ChangeRow", "before"): _of_changed,
    ("ChangeRow", "after"): _of_changed,
    ("Usage", "name"): _of_usage,
    ("Growth", "name"): _of_usage,
}
"""Fields by class and name, where what a column holds is not enough."""


_KNOWN_RULES: dict[type, dict[str, _Make]] = {}


def _rules(of: type[Value]) -> dict[str, _Make]:
    """What becomes of each field of a class of items."""
    if of in _KNOWN_RULES:
        return _KNOWN_RULES[of]
    holds = {one.attribute: one.kind for one in of.columns} if issubclass(of, Row) else {}
    found = _KNOWN_RULES[of] = {}
    for name in of.__match_args__:
        rule = _OF_KIND.get(holds[name], _TEXT) if name in holds else _UNSHOWN.get(name, _TEXT)
        found[name] = _ODD.get((of.__name__, name), rule)
    return found


_OF_VALUES: dict[str, Callable[[Redactor, str], str]] = {
    "topic": Redactor.topic,
    "partition": Redactor.partition,
    "other": Redactor.path,
    "file": Redactor.path,
    "path": Redactor.path,
}
