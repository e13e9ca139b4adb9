"""The names of a broker's files and directories, parsed by pure functions.

A name is read in two ways: by `parse_name` as kdump does, strictly, and with what Kafka's tool ignores; by
`java_name` and `kafka_dispatch` as DumpLogSegments does, with what it throws.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kdump.format.java_values import MAX_INT, MAX_LONG
from kdump.format.kinds import TEXT_KINDS, FileKind
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "TEMPORARY",
    "TEXT_KINDS",
    "Dispatch",
    "FileKind",
    "FileName",
    "JavaName",
    "PartitionName",
    "has_meaning",
    "java_file",
    "java_name",
    "kafka_dispatch",
    "log_bases",
    "parse_name",
    "parse_partition",
]

LOCK = ".lock"
"""The file of a log.dir that a running broker holds; always empty. Source: kafka.utils.FileLock."""
REMOTE_CACHE = "remote-log-index-cache"
"""The directory of a log.dir with copies of indexes whose logs are in remote storage. Source: RemoteIndexCache."""
OFFSETS_TOPIC = "__consumer_offsets"
"""Of group coordinators. They write there in the name of producers: these batches' sequences mean nothing."""
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_TOPIC = "__share_group_state"
METADATA_TOPIC = "__cluster_metadata"
METADATA_LOG = f"{METADATA_TOPIC}-0"
METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
"""Its id in every cluster. Source: Uuid.METADATA_TOPIC_ID."""
REMOTE_TOPIC = "__remote_log_metadata"
OWN_TOPICS = frozenset((OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_TOPIC, METADATA_TOPIC, REMOTE_TOPIC))
"""Kafka's own."""
COORDINATED = frozenset((OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_TOPIC))
"""Compacted ones that a coordinator loads: of each key the newest value counts."""
BOOTSTRAP = "bootstrap.checkpoint"
SALVAGE_ROWS = ".salvage.jsonl"
"""Behind the name of a partition that salvage has written: the file that says what became of its offsets."""
TEMPORARY = frozenset(("deleted", "swap", "cleaned", "tmp", "part"))
"""Suffixes that Kafka itself puts behind the normal one."""

SWAP = "compaction or a split was about to finish: a broker puts it in the place of what it covers"
"""What a `.swap` file means for the next start of a broker."""
STRAY_WITHOUT_ID = "the file is missing: a KRaft broker renames the directory to -stray when it starts"
"""What a missing partition.metadata means for the next start of a broker."""
SWAP_REMEDY = "leave it where it is: a broker puts it in place when it starts, and kdump salvage reads it so"

_BY_SUFFIX = {
    kind.value: kind
    for kind in (
        FileKind.LOG,
        FileKind.INDEX,
        FileKind.TIMEINDEX,
        FileKind.TXNINDEX,
        FileKind.SNAPSHOT,
        FileKind.CHECKPOINT,
    )
}
_TEXT_NAMES = [(kind.value, kind) for kind in TEXT_KINDS]
_TEXT_STARTS = tuple(name for name, _ in _TEXT_NAMES)
_WITH_MEANING = frozenset(_BY_SUFFIX) | TEMPORARY
_TIERED_KINDS = (FileKind.INDEX, FileKind.TIMEINDEX, FileKind.TXNINDEX)
# Patterns are compiled when a name needs them, not at each start.
_SEGMENT = r"[0-9]{20}"
_RUN = r"run-[0-9]+-([0-9]{20})\.log"
_TIERED = r"([0-9]{1,20})_([A-Za-z0-9_-]{22})"  # the id may begin with - or _
_FETCHED = r"([0-9]{20})-([A-Za-z0-9_-]{22})"  # of a segment in remote storage, by its usual plugins
_REDPANDA = r"[0-9]+-[0-9]+-v[0-9]+\.(?:log|base_index|compaction_index)"
_KRAFT = r"([0-9]{20})-([0-9]{10})(-[0-9]+)?"  # a .part has a random number too
_PARTITION = r"((?s:.+))-([0-9]+)"
_SET_ASIDE = r"(?a:(\S+)-([0-9]+)\.[^\s.]+-(delete|future|stray))"
_SEGMENT_TEMPORARY = ((), ("deleted",), ("swap",), ("cleaned",))
_SCALA = ("3.9", "4.2")  # releases whose tool is written in Scala
_LOG_NAME = len("00000000000000000000.log")


class FileName(Value):
    """The parts of a file name."""

    kind: FileKind  # what the file is; also for copies, whose names have something before or behind
    # the number of the name: base offset of a segment, exclusive end offset of a producer snapshot or of a KRaft
    # snapshot; None where the name tells none
    base_offset: int | None = None
    suffixes: tuple[str, ...] = ()  # what follows the normal suffix: ("deleted",), ("bak",) ..
    epoch: int | None = None  # the leader epoch of a KRaft snapshot
    uuid: str | None = None  # the remote segment of a tiered index, 22 characters of base64url
    is_exact: bool = False  # Kafka writes such a name, temporary suffixes included

    @property
    def is_live(self) -> bool:
        """Whether a broker loads the file under this name."""
        return self.is_exact and not self.suffixes


class PartitionName(Value):
    """The parts of a partition directory's name; `state` is "", "delete", "future" or "stray"."""

    topic: str
    partition: int
    state: str

    @property
    def topic_partition(self) -> str:
        """The name TOPIC-N, without the state."""
        return f"{self.topic}-{self.partition}"

    @property
    def is_raft_log(self) -> bool:
        """Whether it is the metadata log, which the Raft layer always loads as after an unclean shutdown.

        No marker counts: all its segments are recovered from the first on, and the indexes of the active one keep their
        preallocated size when a broker of 4.4 closes it. Source: KafkaRaftLog.createLog (3.3 to 4.4).
        """
        return self.topic == METADATA_TOPIC and not self.state


class JavaName(Value):
    """The kind that DumpLogSegments 4.3 takes a name for; errors are `class: message` of what it throws."""

    name: str  # the last component of the path
    stem: str  # up to the first dot
    suffix: str  # from the last dot on, "" without a dot: then 4.3 ignores the file, and others throw `no_dot`
    base_offset: int | None  # the stem as a long; None with an `error`
    error: str | None  # what it throws where it needs the base offset
    end_offset: int | None = None  # of a KRaft snapshot; None for bootstrap.checkpoint and all other names
    epoch: int | None = None  # of a KRaft snapshot
    snapshot_error: str | None = None  # what it throws for a .checkpoint with another name
    no_dot: str | None = None  # what releases before 4.3 throw for a name without a dot


class Dispatch(Value):
    """The treatment of a name by one release of DumpLogSegments."""

    kind: FileKind | None  # how it reads the file; None when it ignores it, or throws before it looks
    base_offset: int | None = None  # the base offset that it believes in, or the end offset of a KRaft snapshot
    epoch: int | None = None  # the epoch of a KRaft snapshot
    error: str | None = None  # `class: message` of what it throws because of the name


def parse_name(name: str) -> FileName:
    """Return what a file name tells.

    Args:
        name: the last component of a path.
    """
    for text_name, kind in _TEXT_NAMES:
        if name == text_name or name.startswith(f"{text_name}."):
            suffixes = tuple(name[len(text_name) + 1 :].split(".")) if name != text_name else ()
            return FileName(kind, suffixes=suffixes, is_exact=suffixes in ((), ("tmp",)))
    parts = name.split(".")
    at = next((i for i in range(len(parts) - 1, 0, -1) if parts[i] in _BY_SUFFIX), 0)
    if not at:
        return FileName(FileKind.UNKNOWN)
    kind, suffixes = _BY_SUFFIX[parts[at]], tuple(parts[at + 1 :])
    stem = parts[0]
    is_plain = at == 1  # nothing between the stem and the normal suffix
    if kind is FileKind.CHECKPOINT:
        return _parse_kraft(stem, suffixes, is_plain=is_plain)
    tiered = re.fullmatch(_TIERED, stem) if kind in _TIERED_KINDS else None
    if tiered and int(tiered[1]) <= MAX_LONG:
        is_exact = is_plain and suffixes in ((), ("deleted",), ("tmp",))
        is_exact = is_exact and tiered[1] == str(int(tiered[1]))  # RemoteIndexCache does not pad
        return FileName(kind, int(tiered[1]), suffixes, uuid=tiered[2], is_exact=is_exact)
    if re.fullmatch(_SEGMENT, stem) and int(stem) <= MAX_LONG:
        return FileName(kind, int(stem), suffixes, is_exact=is_plain and suffixes in _SEGMENT_TEMPORARY)
    fetched = re.fullmatch(_FETCHED, stem)
    if fetched and int(fetched[1]) <= MAX_LONG:
        return FileName(kind, int(fetched[1]), suffixes, uuid=fetched[2])
    return FileName(kind, suffixes=suffixes)


def is_of_redpanda(name: str) -> bool:
    """Tell whether a file name is one that Redpanda gives to a segment: BASE-TERM-VERSION.log, in TOPIC/N_REVISION."""
    return re.fullmatch(_REDPANDA, name) is not None


def run_base(name: str) -> int | None:
    """Return the first offset of a run, by the name that `kdump carve` gave its file; None for another name."""
    found = re.fullmatch(_RUN, name)
    return None if found is None else int(found[1])


def base_by_name(name: FileName, path: str) -> int | None:
    """Return a base offset by the name of a file as brokers or carve write it, or as Kafka's tool takes it.

    Args:
        name: of the file.
        path: as the user wrote it.
    """
    if name.base_offset is not None:
        return name.base_offset
    run = run_base(path.rpartition("/")[2])
    return java_name(path).base_offset if run is None else run


def has_meaning(name: str) -> bool:
    """Tell whether a file name has a part that means something to a broker: few of a million others have.

    Args:
        name: the last component of a path.
    """
    return not _WITH_MEANING.isdisjoint(name.split(".")) or name.startswith(_TEXT_STARTS)


def log_bases(names: Iterable[str]) -> list[int]:
    """Return the base offsets of the logs among some names that a broker loads, ascending.

    As `parse_name` tells them, but without what it costs: a directory may have tens of thousands.

    Args:
        names: file names.
    """
    stems = [name[:-4] for name in names if len(name) == _LOG_NAME and name.endswith(".log")]
    bases = [int(stem) for stem in stems if stem.isascii() and stem.isdigit()]
    return sorted(base for base in bases if base <= MAX_LONG)


def _parse_kraft(stem: str, suffixes: tuple[str, ...], *, is_plain: bool) -> FileName:
    found = re.fullmatch(_KRAFT, stem)
    if not found or int(found[1]) > MAX_LONG or int(found[2]) > MAX_INT:
        is_bootstrap = is_plain and f"{stem}.checkpoint" == BOOTSTRAP
        return FileName(FileKind.CHECKPOINT, suffixes=suffixes, is_exact=is_bootstrap and suffixes in ((), ("tmp",)))
    allowed = (("part",),) if found[3] else ((), ("deleted",), ("part",))
    return FileName(
        FileKind.CHECKPOINT, int(found[1]), suffixes, int(found[2]), is_exact=is_plain and suffixes in allowed
    )


def parse_partition(name: str) -> PartitionName | None:
    """Return what the name of a partition directory tells, None for another directory.

    The topic is what comes before the last "-": topics may have dashes and dots themselves.

    Args:
        name: the last component of a path.

    Source: LocalLog.parseTopicPartitionName.
    """
    found = re.fullmatch(_SET_ASIDE, name) or re.fullmatch(_PARTITION, name)
    if not found or len(found[2]) > 10 or int(found[2]) > MAX_INT:
        return None
    return PartitionName(found[1], int(found[2]), found[3] if found.re.groups > 2 else "")


def java_file(path: str) -> str:
    """Return a path as java.io.File shows it: single slashes, none at the end."""
    path = re.sub("/+", "/", path)
    return path.rstrip("/") if len(path) > 1 else path


def java_name(path: str) -> JavaName:
    """Return what DumpLogSegments makes of the name of a file.

    Args:
        path: as the user wrote it.

    Source: DumpLogSegments.main, LogFileUtils.offsetFromFileName, Snapshots.parse.
    """
    name = java_file(path).rpartition("/")[2]
    stem, suffix = name.partition(".")[0], name[name.rindex(".") :] if "." in name else ""
    base, error = _number(stem, 64)
    java = JavaName(name, stem, suffix, base, error)
    if not suffix:
        return java.replace(no_dot=_out_of_bounds(-1, _utf16_length(name), _utf16_length(name)))
    if suffix != ".checkpoint" or name == BOOTSTRAP:
        return java
    offset, error = _substring_number(name, 0, 20, 64)
    epoch, later = _substring_number(name, 21, 31, 32)
    return java.replace(end_offset=offset, epoch=epoch, snapshot_error=error or later)


def kafka_dispatch(name: str, release: str = "4.3") -> Dispatch:
    """Return what one release of DumpLogSegments does with a file of this name.

    Args:
        name: a file name, or a path with one.
        release: 3.9, 4.2 or a later one; they differ only in names without a dot.
    """
    java = java_name(name)
    kind = _BY_SUFFIX.get(java.suffix[1:])
    if kind is None:
        return Dispatch(None, error=java.no_dot if release in _SCALA else None)
    if kind is FileKind.CHECKPOINT:
        return Dispatch(kind, java.end_offset, java.epoch, java.snapshot_error)
    if kind is FileKind.SNAPSHOT:  # its name is not looked at
        return Dispatch(kind, java.base_offset)
    return Dispatch(kind, java.base_offset, error=java.error)


def _number(text: str, bits: int) -> tuple[int | None, str | None]:
    from kdump.format.java_values import parse_number  # only the tool's reading of a name needs it

    number = parse_number(text, bits)
    if isinstance(number, int):
        return number, None
    return None, f'{number.exception}: For input string: "{text}"'


def _substring_number(name: str, begin: int, end: int, bits: int) -> tuple[int | None, str | None]:
    units = name.encode("utf-16-be", "surrogatepass")  # Java counts UTF-16 units
    if len(units) < 2 * end:
        return None, _out_of_bounds(begin, end, len(units) // 2)
    return _number(units[2 * begin : 2 * end].decode("utf-16-be", "surrogatepass"), bits)


def _utf16_length(text: str) -> int:
    return len(text.encode("utf-16-be", "surrogatepass")) // 2


def _out_of_bounds(begin: int, end: int, length: int) -> str:
    return f"java.lang.StringIndexOutOfBoundsException: begin {begin}, end {end}, length {length}"
