"""The options of the data source `kafka-segments`: one table of what there is, for which tables, and how it is read."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kdump.checks.options import VerifyOptions
from kdump.decode import INTERNAL, LAYOUTS
from kdump.export.origin import Origins, read_roots
from kdump.export.read import ReadOptions
from kdump.export.split import SPLIT_SIZE, WantedLogs, is_one_of
from kdump.export.tables import SPLIT_TABLES, STATE_TABLES, TABLES, columns_of
from kdump.find.query import moment_query
from kdump.format.java_values import MAX_LONG, quote
from kdump.format.read_limits import ReadLimits
from kdump.format.record.selection import compiled, contradiction
from kdump.storage.directory import expanded, log_dirs_below
from kdump.storage.file_source import OpenFailure
from kdump.storage.json_rules import parsed
from kdump.storage.names import parse_partition
from kdump.storage.partition_dir import InputDirectory
from kdump.storage.paths import absolute, base_name, is_dir, is_remote, parent
from kdump.value import Value
from kdump.words.install import to_install
from kdump.words.numbers import some_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kdump.decode.payload.records import Schemas
    from kdump.export.origin import Root
    from kdump.finding import Finding
    from kdump.storage.names import PartitionName

_UNITS: dict[str, int] = {letter: 1024**power for power, letter in enumerate(("", "k", "m", "g"))}
_WHOLE_TABLES = tuple(name for name in TABLES if name not in (*SPLIT_TABLES, *STATE_TABLES, "usage", "unread"))
_OF_CATALOG = "owner"  # what Spark hands over where a table is to be made
_NO_TABLE = (
    "Spark does not hand the options of a table of its catalog to those who read it: "
    "CREATE TEMPORARY VIEW ... USING `kafka-segments` OPTIONS (...) does what is meant"
)
SLOTS = "KDUMP_SPARK_SLOTS"
"""The variable in the environment of planners that says how many tasks can run at a time."""
_MODES = ("failfast", "permissive")
_MOST_NAMED = 5  # topics or partitions in a message


class OptionError(ValueError):
    """An option of the data source cannot be used; the message is one line for the user."""


def _in_camel(name: str) -> str:
    """A name of Python as options are written: fromOffset."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


# --- how a value is read ------------------------------------------------------------------------------------
def _text(text: str) -> str:
    return text


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _paths(text: str) -> list[str]:
    """Several paths, which Spark hands over as JSON."""
    found = parsed(text.encode("utf-8", "surrogateescape"))
    if not (isinstance(found, list) and all(isinstance(one, str) for one in found)):
        raise ValueError("is no list of paths")
    return found


def _size(text: str) -> int:
    digits = text.strip().lower().removesuffix("b")
    unit = digits[-1:] if digits[-1:] in ("k", "m", "g") else ""
    number = digits.removesuffix(unit)
    if not _is_number(number) or int(number) * _UNITS[unit] > MAX_LONG:
        raise ValueError("is not a number of bytes, as 512m")
    return int(number) * _UNITS[unit]


def _count(text: str) -> int:
    if not _is_number(text.strip()):
        raise ValueError("is not a number")
    return int(text)


def _offset(text: str) -> int:
    if not _is_number(text.strip()) or int(text) > MAX_LONG:
        raise ValueError("is not an offset")
    return int(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(MAX_LONG))


def _time(text: str) -> int:
    return moment_query(text).number


def _flag(text: str) -> bool:
    return _one_of("true", "false")(text) == "true"


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        word = text.strip().lower()
        if word not in words:
            raise ValueError(f"is none: there are {', '.join(words)}")
        return word

    return read


class SourceOption(Value):
    """One option of the data source."""

    name: str
    read: Callable[[str], Any]  # makes the value of the text; a ValueError says what is wrong with it
    tables: tuple[str, ...] = tuple(TABLES)  # in which it has a meaning
    is_of_streams: bool = False  # it has a meaning in a stream only


OPTIONS = (
    SourceOption("path", _text),
    SourceOption("paths", _paths),
    SourceOption("table", _text),
    SourceOption("columns", _words),
    SourceOption("timestamps", _flag),
    SourceOption("mode", _one_of(*_MODES)),
    SourceOption("topics", _words),
    SourceOption("partitions", _words),
    SourceOption("fromOffset", _offset, SPLIT_TABLES),
    SourceOption("toOffset", _offset, SPLIT_TABLES),
    SourceOption("fromTime", _time, SPLIT_TABLES),
    SourceOption("toTime", _time, SPLIT_TABLES),
    SourceOption("key", str.encode, ("records",)),
    SourceOption("keyRegex", compiled, ("records",)),
    SourceOption("seek", _flag, SPLIT_TABLES),
    SourceOption("decoder", _one_of("auto", "none", *sorted((*INTERNAL, *LAYOUTS))), ("records",)),
    SourceOption("schemas", _text, ("records",)),
    SourceOption("keySchema", _text, ("records",)),
    SourceOption("valueSchema", _text, ("records",)),
    SourceOption("shallow", _flag, _WHOLE_TABLES),
    SourceOption("contiguous", _flag, _WHOLE_TABLES),
    SourceOption("noResync", _flag, _WHOLE_TABLES),
    SourceOption("splitSize", _size),
    SourceOption("minPartitions", _count),
    SourceOption("maxBatchBytes", _size),
    SourceOption("maxUncompressedBytes", _size),
    SourceOption("maxBytesPerTrigger", _size, SPLIT_TABLES, is_of_streams=True),
    SourceOption("maxFilesPerTrigger", _count, SPLIT_TABLES, is_of_streams=True),
    SourceOption("onLoss", _one_of("fail", "skip"), SPLIT_TABLES, is_of_streams=True),
)
"""What `option(...)` takes; names that Spark gives to any source pass (`_is_of_spark`)."""
_NAMED = {one.name.lower(): one for one in OPTIONS}


def _is_of_spark(name: str) -> bool:
    """Whether a name is none of ours on purpose: spark.sql.something, or what Spark hands on to itself."""
    return name.startswith("__") or "." in name


class SourceOptions:
    """The options of a relation, as values: they are read once, where it is planned.

    Args:
        given: by name, as Spark hands them over.

    Attributes:
        table: its name.
        columns: that are asked for.
        is_permissive: what cannot be opened is left out, and does not end the work.
        wanted: the rows that are asked for.
        decoder: auto, none, or the name of a decoder.
        schemas: what keys and payloads are decoded by; None for nothing.
    """

    def __init__(self, given: dict[str, str]) -> None:
        texts = {name.lower(): text for name, text in given.items()}
        if _OF_CATALOG in texts:
            raise OptionError(_NO_TABLE)
        self.table = texts.get("table", "batches")
        if self.table not in TABLES:
            columns_of(self.table)  # it says which there are
        self._values = {name: self._read(name, text) for name, text in texts.items() if not _is_of_spark(name)}
        self.columns = columns_of(self.table, self._of("columns"), has_timestamps=self._of("timestamps", False))
        self.is_permissive = self._of("mode") == "permissive"
        self.decoder: str = self._of("decoder", "auto")
        self.schemas = self._schemas()
        self.wanted = WantedLogs(
            self._of("topics"),
            self._of("partitions"),
            (self._of("fromOffset"), self._of("toOffset")),
            (self._of("fromTime"), self._of("toTime")),
            keys=(self._of("key"),) if "key" in self._values else (),
            patterns=(self._of("keyRegex"),) if "keyregex" in self._values else (),
        )
        asked = self.wanted.selection
        fields = {one: getattr(asked, one) for one in ("from_offset", "to_offset", "from_time", "to_time")}
        why = contradiction(fields, lambda name: f"option {_in_camel(name)}")
        if why is not None:
            raise OptionError(why)

    def _read(self, name: str, text: str) -> Any:  # noqa: ANN401 (by the table)
        option = _NAMED.get(name)
        if option is None:
            raise OptionError(f"no option '{name}': there are {', '.join(one.name for one in OPTIONS)}")
        if self.table not in option.tables:
            raise OptionError(f"option {option.name}: is for {', '.join(option.tables)}, and not for {self.table}")
        try:
            return option.read(text)
        except ValueError as error:
            raise OptionError(f"option {option.name}: '{quote(text)}': {error}") from None

    def _schemas(self) -> Schemas | None:
        """What keys and payloads are decoded by: it goes to the tasks as it is found where the work is planned."""
        paths: list[str | None] = [self._of(name) for name in ("schemas", "keySchema", "valueSchema")]
        if paths == [None, None, None]:
            return None
        from kdump.state.schemas import loaded

        problems: list[str] = []

        def report(found: Finding | OpenFailure) -> None:
            if isinstance(found, OpenFailure):
                problems.append(found.sentence)

        schemas = loaded(paths, ReadLimits().replace(**self.limits), report)
        if problems:
            raise OptionError(problems[0])
        name = schemas.missing_library
        if name is not None:
            raise OptionError(f"{name} is not installed, and the schemas need it; to install it: {to_install(name)}")
        return schemas

    def _of(self, name: str, default: object = None) -> Any:  # noqa: ANN401 (by the table)
        return self._values.get(name.lower(), default)

    @cached_property
    def roots(self) -> list[Root]:
        """The paths of the user: `load(path)`, or `load([path, ...])`; a directory of log directories stands for these.

        They are asked for where the work is planned, and go to the tasks as they are found there.
        """
        paths: list[str] = [*([self._of("path")] if "path" in self._values else []), *self._of("paths", [])]
        if not paths:
            raise OptionError("no path is given: load(path) wants a log directory, a partition directory or a log")
        roots = [root.replace(path=absolute(root.path)) for root in read_roots(paths)]
        return [one for root in roots for one in _with_those_below(root)]

    @cached_property
    def origins(self) -> Origins:
        """Tells where files are from."""
        return Origins(self.roots)

    @property
    def reading(self) -> ReadOptions:
        """What is read of a split."""
        seeks = self._of("seek", True)
        options = ReadOptions(self.table, self.columns, self.wanted, self.decoder, schemas=self.schemas, seeks=seeks)
        return options.replace(**self.limits)

    @property
    def split_size(self) -> int:
        """Bytes that a task should have."""
        return max(1, self._of("splitSize") or SPLIT_SIZE[self.table])

    @property
    def tasks(self) -> int:
        """The least number of tasks: as many as can run at a time, as far as that is known."""
        slots = os.environ.get(SLOTS, "")
        return self._of("minPartitions") or (int(slots) if slots.isdigit() else 0) or os.cpu_count() or 1

    @property
    def limits(self) -> dict[str, int]:
        """The limits that are given."""
        found = {"max_batch_bytes": "maxBatchBytes", "max_uncompressed_bytes": "maxUncompressedBytes"}
        return {name: value for name, option in found.items() if (value := self._of(option)) is not None}

    @property
    def verify(self) -> VerifyOptions:
        """The options of verify for findings and segments."""
        deep, resync = not self._of("shallow", False), not self._of("noResync", False)
        return VerifyOptions(deep, resync, self._of("contiguous", False), has_steps=False).replace(**self.limits)

    @property
    def most_of_a_batch(self) -> tuple[int | None, int | None]:
        """Bytes and files of a micro-batch of a stream; None for as many as there are."""
        return self._of("maxBytesPerTrigger"), self._of("maxFilesPerTrigger")

    @property
    def skips_losses(self) -> bool:
        """Whether a stream goes on where offsets are gone."""
        return bool(self._of("onLoss") == "skip")

    def demand_no_stream(self) -> None:
        """Demand that no option is given that has a meaning in a stream only.

        Raises:
            OptionError: one is.
        """
        for one in OPTIONS:
            if one.is_of_streams and one.name.lower() in self._values:
                raise OptionError(f"option {one.name}: is for readStream, and not for read")

    def demand_stream(self) -> None:
        """Demand that the options can be those of a stream.

        Raises:
            OptionError: they cannot.
        """
        if self.table not in SPLIT_TABLES:
            raise OptionError(f"a stream has the tables {', '.join(SPLIT_TABLES)}, and not {self.table}")
        for name, most in zip(("maxBytesPerTrigger", "maxFilesPerTrigger"), self.most_of_a_batch, strict=True):
            if most == 0:
                raise OptionError(f"option {name}: '0': a stream that reads nothing never ends")

    def demand_selected(self) -> None:
        """Demand that each topic and partition that is asked for is there; patterns that meet none are a mistake too.

        Raises:
            OptionError: it is not; the message has those that are.
        """
        if self.wanted.is_all or self.table in STATE_TABLES:  # their topics are those of commits and transactions
            return
        there: list[PartitionName] = []
        for path, is_directory in expanded([root.path for root in self.roots]):
            directory = InputDirectory(path) if is_directory else None
            if directory is not None and directory.failure is not None:
                return  # nobody knows what is there
            places = [parent(path)] if directory is None else [one.path for one in directory.partitions]
            there += filter(None, (parse_partition(base_name(one)) for one in places))
        for option, asked, found in (
            ("topics", self.wanted.topics, {one.topic for one in there}),
            ("partitions", self.wanted.partitions, {one.topic_partition for one in there}),
        ):
            for one in asked or ():
                if not any(is_one_of(name, (one,)) for name in found):
                    here = some_of(sorted(found, key=lambda name: (name.startswith("__"), name)), _MOST_NAMED)
                    raise OptionError(f"option {option}: nothing is '{one}'; here are {here or 'no partitions'}")


def _with_those_below(root: Root) -> Iterator[Root]:
    """A path of the user; the log directories below it where it is a directory of them."""
    if is_remote(root.path) or not is_dir(root.path):
        yield root
        return
    directory = InputDirectory(root.path)
    has_files = bool(directory.partitions or directory.contents.files or directory.failure)
    below: Sequence[str] = () if has_files else log_dirs_below(root.path)
    for path in below:
        own = os.path.relpath(path, root.path)
        yield root.replace(path=path, log_dir=None if root.log_dir is None else os.path.join(root.log_dir, own))
    if not below:
        yield root
