"""What can be wrong with a file of a broker: codes, severities, findings.

A finding is a value. Parsers report it through a required `Report` and go on; nothing raises because of bad
bytes. The codes are one table: the sentence of each stands here, and a check gives what is filled in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cached_property
from types import MappingProxyType

from kdump.row import Kind, Row, column, computed

TYPE_CHECKING = False  # `typing` costs more than this module
if TYPE_CHECKING:
    from kdump.words.command import ShellCommand


class Severity(Enum):
    """How much a finding matters: to a reader's data, to its trust, or not at all."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Trait(Enum):
    """What several codes have in common. Their rows in the table have it, and whoever needs to know asks the row.

    `Trait.HOLE in finding.code.traits` tells whether a code has it. What a finding adds to its code, as its severity
    or its values, is a property of `Finding`.
    """

    # How grave it is: as the table says, or, with what else is known where it is found, also this.
    ALSO_ERROR = "may be an error"
    ALSO_WARNING = "may be a warning"
    ALSO_NOTE = "may be a note"

    # What can be done.
    PATCH_HEADER = "kdump patch-header mends it, where the field can have one value only"
    REINDEX = "kdump reindex mends it, where the log says what the file has to be"
    TRUNCATE = "kdump truncate takes it away, with all that is behind it"
    URGENT = "waiting costs more: a step about it comes before all others, whatever its severity"
    RESTORED = "a step that restores or salvages the partition brings back what is missing, so none is about it alone"

    # What is not read, and what a reader of the log gets.
    NOT_ALL_READ = "a part of a file was not read or not searched: whoever asked has no full answer"
    BAD_CRC = "the CRC does not match: nothing in the batch is to be trusted"
    UNREADABLE = "as an error: a consumer does not get over this batch, though its CRC is right"
    RECORDS_SKIPPED = "the header keeps readers from the records, and no finding about these says so"

    UNDECODED = "a key or a payload stays bytes, though it says by which schema it was written"

    # Batches.
    MISPLACED = "the base offset is wrong; no CRC covers it"
    OUTSIDE_SEGMENT = "the batch has offsets that no batch of its log can have"
    BATCH_LENGTH = "the batch length is wrong"
    BREAKS_CHAIN = "bytes may have been put in or taken out before this batch, or the next one"
    UNFINISHED = "a broker that appends leaves the end of a log like this: while the log grows it is V03"
    ZEROS = "there are zero bytes, and nothing else"
    COPIED_AS_TEXT = "a copy in text mode does this to a log: where it has, F13 explains it"

    # Offsets that no batch has.
    HOLE = "other batches follow these offsets, in the log or in the next one"
    OR_COMPACTION = "compaction does this too: a note in a log with holes"
    KNOWN_BATCHES = "it shows that there were batches behind the end of a log: their offsets are lost"
    KNOWN_OFFSETS = "a file of no segment shows that a log went on: a truncation leaves such a file too"
    LOST_AS_ERROR = "as an error it tells of a log that is gone, or of the end of one"
    TELLS_LOSS = "as a warning it tells of offsets that are lost: what is known to be lost needs no telling"
    ONLY_LOST = "as an error it says that offsets are lost, and nothing against the bytes that are here"

    # Causes and effects.
    CAUSE = "explains what else is wrong with its segment, and no command mends it"
    WITNESSED = "the indexes show it: who builds them again gives that up"
    KEEPS_INDEXES = "reindex leaves the indexes of its segment as they are, unless it is forced"
    INDEX_ENTRY = "about an offset index or a time index: an effect of X09, or of F15"
    ODD_ENTRIES = "no broker writes such entries, for no segment: X09 does not explain them"
    PRODUCER_STATE = "contradicts the producers that the log has shown: an effect of F15 here, or in the segment before"
    NEIGHBOURS = "contradicts the segments around it, or their epochs: an effect of F15"
    BEYOND_END = "may be about offsets behind the end of its log: an effect of F14; nothing where no one knows that end"
    ABOVE_END = "a file of no segment names offsets above the end of the log: an effect of what has cut that"

    # Files.
    EPOCH_OF_BATCH = (
        "the leader epochs of batches contradict each other: they do not tell what their checkpoint must say"
    )
    WRONG_ENTRY = "an entry of a checkpoint of offsets that a broker must not follow: it is right where it is gone"
    UNSOUND_SNAPSHOT = "the snapshot is damaged, or not what the log says"
    ODD_NAME = "no broker gives a file this name"
    STOPS_PARTITION = "a small file of a partition, because of which a broker may not load it, or set it aside"
    OTHER_REPLICA = "another replica has something else"

    __hash__ = object.__hash__  # members are what they are by identity; the hash of an Enum is slow

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(code.name for code in Code if self in code.traits)

    def is_among(self, names: Iterable[str]) -> bool:
        """Tell whether one of some codes has it.

        Args:
            names: of the codes.
        """
        return not self._names.isdisjoint(names)


_ALSO = MappingProxyType({
    Trait.ALSO_ERROR: Severity.ERROR,
    Trait.ALSO_WARNING: Severity.WARNING,
    Trait.ALSO_NOTE: Severity.NOTE,
    Trait.OR_COMPACTION: Severity.NOTE,
})  # fmt: skip

REPAIR_COMMANDS: Mapping[Trait, str] = MappingProxyType({
    Trait.PATCH_HEADER: "patch-header",
    Trait.REINDEX: "reindex",
    Trait.TRUNCATE: "truncate",
})  # fmt: skip
"""The commands that mend, in the order in which they are tried. A code without one is mended by a person, or not."""


class _Number(int):
    """A number in a sentence: `{count:record}` is "1 record" or "2 records", `{count:is}` is "is" or "are"."""

    def __format__(self, spec: str) -> str:
        if spec == "is":
            return "is" if self == 1 else "are"
        if not spec.isalpha() or len(spec) == 1:
            return super().__format__(spec)
        return f"{int(self)} {spec if self == 1 else _MANY.get(spec, f'{spec}s')}"


_MANY = {"entry": "entries"}


class Code(Enum):
    """The table of findings: one row a code. Codes are only ever added; scripts match them.

    A row has the name, the severity, the sentence, the remedy, and in a line of their own the traits. A sentence may
    name the fields of its finding (`{found}`, `{expected}`, `{offset}` ...) and the keys of its `values`, and
    `{missing}` where those have `missing_first` and `missing_last`: "offsets 3..5 are".
    """

    slug: str
    severity: Severity
    sentence: str
    remedy: str
    traits: frozenset[Trait]

    def __new__(cls, slug: str, severity: Severity, sentence: str, remedy: str, *traits: Trait) -> Code:
        """Make a row; its traits are no part of its value, which goes from process to process."""
        code = object.__new__(cls)
        code._value_ = slug, severity, sentence, remedy
        code.slug, code.severity, code.sentence, code.remedy = code._value_
        code.traits = frozenset(traits)
        return code

    # fmt: off
    F01 = ("odd-name", Severity.ERROR, "{why}", "move the file out of the directory",
           Trait.ODD_NAME)
    F02 = ("empty-log", Severity.NOTE, "the log is empty", "none")
    F03 = ("too-large", Severity.ERROR, "the file has {found} bytes; no broker makes one over {expected}",
           "see what lies behind that size, often a hole; restore the replica, or rebuild the index",
           Trait.REINDEX, Trait.TRUNCATE)
    F04 = ("not-regular", Severity.WARNING, "{why}: nothing here is followed or read", "replace it by the file itself, or move it out of the directory",
           Trait.ALSO_ERROR)
    F06 = ("read-error", Severity.ERROR, "the disk cannot read these {length} bytes: {why}", "copy the disk with a tool that reads around errors (ddrescue), and look at the copy; restore the replica",
           Trait.URGENT, Trait.NOT_ALL_READ)
    F08 = ("leftover", Severity.NOTE, "{why}", "start the broker, or remove the file, if you are sure",
           Trait.KNOWN_BATCHES, Trait.LOST_AS_ERROR, Trait.ONLY_LOST, Trait.ALSO_ERROR, Trait.ALSO_WARNING)
    F09 = ("index-missing", Severity.WARNING, "the file is missing: without an offset index a segment is recovered, without a time index its mtime is used", "rebuild the index before a broker starts",
           Trait.REINDEX, Trait.ALSO_ERROR, Trait.ALSO_NOTE)
    F10 = ("not-a-log", Severity.ERROR, "this is not a Kafka log{looks}", "restore the file from another replica",
           Trait.TRUNCATE, Trait.COPIED_AS_TEXT)

    F11 = ("odd-directory", Severity.ERROR, "this is not a partition directory: a broker does not start while it is here", "move it out of the log directory")
    F12 = ("duplicate", Severity.ERROR, "the partition lies in {other} too: a broker does not start with both{ends}", "move one copy out of its log directory")
    F13 = ("text-mode", Severity.ERROR, "{why}: it was copied as text, and each batch with such bytes is damaged", "copy the file again in binary mode, or restore it from another replica",
           Trait.CAUSE)
    F14 = ("stale-copy", Severity.ERROR, "the log ends at offset {found}, and {what} shows that it went on to {expected}: an older copy, or cut at a batch boundary", "look for the newer copy, or restore the replica, before the indexes are rebuilt: they are the only evidence of the old end",
           Trait.CAUSE, Trait.WITNESSED, Trait.KEEPS_INDEXES, Trait.ONLY_LOST)
    F15 = ("segment-foreign", Severity.ERROR, "this is {what}: {why}", "look for the partition that it belongs to before anything is rebuilt, or restore the replica",
           Trait.CAUSE, Trait.KEEPS_INDEXES)
    F16 = ("awaiting-deletion", Severity.NOTE, "{records} that no other file has: a broker removes {what}", "copy it before a broker starts; to make a partition of it: {rescue}",
           Trait.URGENT)
    F17 = ("compressed-copy", Severity.NOTE, "a {codec} copy of {what}: no broker reads it, and kdump does not look into it", "unpack it into a directory of its own (gunzip, unzstd ..), and look at that")
    F18 = ("other-format", Severity.NOTE, "this looks like a segment of Redpanda: its format is another one, and nothing here reads it", "read it with Redpanda's own tools")
    F19 = ("harmful-swap", Severity.ERROR, "{why}", "move it out of the log directory before a broker starts")

    L01 = ("short-tail", Severity.ERROR, "{length:byte} at the end {length:is} too few for a batch header",
           "truncate at the end of the last batch",
           Trait.TRUNCATE, Trait.UNFINISHED, Trait.COPIED_AS_TEXT)
    L02 = ("torn-batch", Severity.ERROR, "the batch runs {missing:byte} past {where}",
           "restore from another replica, or truncate at the start of this batch",
           Trait.TRUNCATE, Trait.UNFINISHED, Trait.COPIED_AS_TEXT)
    L03 = ("zero-tail", Severity.ERROR, "only zero bytes up to the end of the file", "truncate at the start of the zeros",
           Trait.TRUNCATE, Trait.UNFINISHED, Trait.ZEROS)
    L04 = ("zero-hole", Severity.ERROR, "zero bytes where a batch should be", "restore from another replica",
           Trait.TRUNCATE, Trait.ZEROS, Trait.COPIED_AS_TEXT)
    L05 = ("bad-length", Severity.ERROR, "the batch length {found} is below the smallest possible one",
           "restore from another replica, or restore the length field",
           Trait.PATCH_HEADER, Trait.TRUNCATE, Trait.BATCH_LENGTH, Trait.BREAKS_CHAIN, Trait.COPIED_AS_TEXT)
    L06 = ("short-length", Severity.ERROR, "the batch length {found} is too small for a header of magic 2",
           "restore from another replica, or restore the length field",
           Trait.PATCH_HEADER, Trait.TRUNCATE, Trait.BATCH_LENGTH, Trait.BREAKS_CHAIN, Trait.COPIED_AS_TEXT)
    L07 = ("wrong-length", Severity.ERROR, "the batch length {found} is wrong",
           "restore from another replica, or restore the length field",
           Trait.PATCH_HEADER, Trait.TRUNCATE, Trait.BATCH_LENGTH, Trait.BREAKS_CHAIN, Trait.COPIED_AS_TEXT)
    L08 = ("huge-length", Severity.ERROR, "the batch length {found} reaches past the end of the file",
           "restore from another replica, or restore the length field",
           Trait.PATCH_HEADER, Trait.TRUNCATE, Trait.BATCH_LENGTH, Trait.BREAKS_CHAIN, Trait.COPIED_AS_TEXT)
    L09 = ("foreign-bytes", Severity.ERROR, "these bytes are not a batch", "restore from another replica",
           Trait.TRUNCATE, Trait.COPIED_AS_TEXT)
    L12 = ("limit", Severity.WARNING, "not everything was looked at: {why}", "raise the option that the message names, if it names one",
           Trait.NOT_ALL_READ)

    L13 = ("other-answer", Severity.ERROR, "asked for {query}, a broker {broker}; the data has {data}",
           "a consumer gets the broker's answer; --scan tells what can be read",
           Trait.ALSO_WARNING)

    L14 = ("start-moved", Severity.NOTE, "{missing} not served: the log start offset is {start}, inside the log; records below it were deleted (DeleteRecords)", "none: a broker removes their segments later")
    L15 = ("start-expired", Severity.NOTE, "the log begins with offset {first}: what was below it has expired, or was deleted; {why}", "none if retention is as it should be")
    L16 = ("compacted", Severity.NOTE, "compacted up to offset {last_offset}: what is missing below it was superseded or deleted (cleaner-offset-checkpoint)", "none")

    L17 = ("hole-unexplained", Severity.NOTE, "{missing} not here{others}: nothing here tells whether compaction took {them}, or {they} lost",
           "where the topic was never compacted, say so with --set cleanup.policy=delete; else see whether another replica has {them}: kdump verify --replicas DIR OTHER")
    L18 = ("snapshot-missing", Severity.ERROR, "the metadata log begins at offset {start}, and no snapshot here reaches that: a node does not start, with IllegalStateException, Inconsistent snapshot state", "while the node is stopped, copy a .checkpoint that ends at offset {start} or above, the newest, from another controller or broker of this cluster into the directory")
    L20 = ("snapshot-unusable", Severity.ERROR, "{what}: {does}", "while the node is stopped, copy the file of this name from another controller of this cluster")
    L21 = ("record-refused", Severity.ERROR, "the record at offset {record} cannot be applied, a node that loads it ends: {exception}",
           "while the node is stopped, put the metadata log of another controller of this cluster in its place; where this is the only one, keep it: kdump explain controllers-lost has the steps")
    L19 = ("hole-alone", Severity.WARNING, "{missing} not here, and nothing else shows that compaction was at work in this log: {they} lost, unless the topic is, or was, compacted",
           "name the metadata log among the paths, or say what the topic has with --set cleanup.policy=delete; else see whether another replica has {them}: kdump verify --replicas DIR OTHER",
           Trait.TELLS_LOSS)

    B01 = ("crc-mismatch", Severity.ERROR, "stored crc {found:#010x}, computed {expected:#010x}; {records} cannot be trusted",
           "restore from another replica; a consumer can skip to the next batch",
           Trait.TRUNCATE, Trait.BAD_CRC, Trait.COPIED_AS_TEXT)
    B02 = ("crc-mismatch-legacy", Severity.ERROR, "the CRC does not match the message: {why}",
           "restore from another replica",
           Trait.PATCH_HEADER, Trait.TRUNCATE, Trait.BAD_CRC, Trait.COPIED_AS_TEXT)
    B03 = ("magic-unknown", Severity.ERROR, "magic {found}, but the CRC is right for magic 2: consumers fail here, the broker does not notice",
           "restore the magic byte to {expected} (the CRC stays right)",
           Trait.PATCH_HEADER, Trait.TRUNCATE)
    B04 = ("magic-wrong", Severity.ERROR, "magic {found}, but the CRC is right for magic {expected}",
           "restore the magic byte to {expected} (the CRC stays right)",
           Trait.PATCH_HEADER, Trait.TRUNCATE, Trait.BREAKS_CHAIN, Trait.COPIED_AS_TEXT)
    B05 = ("codec-unknown", Severity.ERROR, "compression type {found} does not exist", "restore from another replica",
           Trait.TRUNCATE, Trait.UNREADABLE, Trait.RECORDS_SKIPPED)
    B06 = ("attributes-reserved", Severity.WARNING, "reserved attribute bits are set ({found:#06x})", "use a newer kdump if Kafka has given them a meaning")
    B07 = ("last-offset-delta", Severity.ERROR, "lastOffsetDelta {found} cannot be right", "restore from another replica",
           Trait.TRUNCATE, Trait.UNREADABLE)
    B08 = ("record-count", Severity.ERROR, "record count {found} cannot be right", "restore from another replica",
           Trait.TRUNCATE, Trait.UNREADABLE)
    B09 = ("count-zero", Severity.ERROR, "record count 0, but {found:byte} of records follow: consumers lose them silently",
           "restore from another replica",
           Trait.TRUNCATE, Trait.UNREADABLE, Trait.RECORDS_SKIPPED)
    B10 = ("timestamp", Severity.WARNING, "{field} {found} does not agree with the records ({expected})", "none needed for reading; retention and time lookup use it")
    B12 = ("time-unit", Severity.NOTE, "{what}", "let the owner of the producer mend it: retention and lookups by time take these timestamps for milliseconds")
    B11 = ("flags", Severity.ERROR, "{why}", "restore from another replica",
           Trait.TRUNCATE, Trait.UNREADABLE, Trait.ALSO_WARNING)

    O01 = ("offset-below-name", Severity.ERROR, "base offset {found} {why}", "restore the name of the file, or restore the base offset",
           Trait.PATCH_HEADER, Trait.TRUNCATE, Trait.MISPLACED, Trait.OUTSIDE_SEGMENT, Trait.NEIGHBOURS)
    O02 = ("offset-overflow", Severity.ERROR, "base offset {found} {why}", "restore the base offset of the batch",
           Trait.PATCH_HEADER, Trait.TRUNCATE, Trait.MISPLACED, Trait.OUTSIDE_SEGMENT, Trait.NEIGHBOURS)
    O03 = ("offset-order", Severity.ERROR, "base offset {found} {why}", "restore from another replica, or restore the base offset",
           Trait.PATCH_HEADER, Trait.TRUNCATE, Trait.MISPLACED, Trait.BREAKS_CHAIN)
    O04 = ("offset-gap", Severity.NOTE, "{missing} missing before this batch", "none if the topic is compacted; otherwise compare with another replica",
           Trait.RESTORED, Trait.HOLE, Trait.ONLY_LOST, Trait.ALSO_ERROR, Trait.ALSO_WARNING)
    O06 = ("offset-overlap", Severity.ERROR, "last offset {found} reaches into the next segment, which begins at {next_base}", "compare with another replica",
           Trait.NEIGHBOURS)
    O07 = ("segment-gap", Severity.NOTE, "{missing} missing at the end: {why}", "none if the topic is compacted; otherwise compare with another replica",
           Trait.RESTORED, Trait.HOLE, Trait.LOST_AS_ERROR, Trait.ONLY_LOST, Trait.NEIGHBOURS, Trait.BEYOND_END, Trait.ALSO_ERROR, Trait.ALSO_WARNING)

    O08 = ("offsets-twice", Severity.ERROR, "{both} there twice, {records}: a consumer that comes from below may get them twice, or the first ones alone; one that starts inside gets the last ones", "none: no offset is lost, and every record is readable")
    O09 = ("segment-overflow", Severity.NOTE, "from offset {found} on the segment goes more than 2^31-1 above its base offset {segment}, further than its indexes can say", "none: no offset is lost, and a broker splits the segment when it recovers it")

    E01 = ("epoch-order", Severity.ERROR, "leader epoch {found} between batches of epoch {before} and {after}", "restore the leader epoch field",
           Trait.PATCH_HEADER, Trait.TRUNCATE, Trait.EPOCH_OF_BATCH)
    E02 = ("epoch-invalid", Severity.ERROR, "leader epoch {found} does not exist", "restore the leader epoch field",
           Trait.PATCH_HEADER, Trait.TRUNCATE, Trait.EPOCH_OF_BATCH)

    E03 = ("epoch-checkpoint", Severity.ERROR, "leader epoch {found}; the leader-epoch-checkpoint has {expected} for this offset", "see what another replica has, kdump verify --replicas DIR OTHER: restore the replica if the batch is wrong, and the checkpoint if that is",
           Trait.PATCH_HEADER, Trait.NEIGHBOURS)

    D01 = ("replica-differs", Severity.ERROR, "{why}; the other replica is {other}", "compare with a third replica; the leader's is the one that consumers see",
           Trait.OTHER_REPLICA)
    D02 = ("replica-lacks", Severity.WARNING, "{missing} not here; {other} has them", "copy the data from the other replica, unless the topic is compacted",
           Trait.OTHER_REPLICA, Trait.ALSO_NOTE)
    D03 = ("replica-short", Severity.NOTE, "the log ends at offset {found}, and {other} at {end}: this replica has fallen behind, or lost its end{inside}", "none if the broker was not in sync when it stopped",
           Trait.OTHER_REPLICA)

    R01 = ("varint", Severity.ERROR, "record {index}: a number has too many bytes or does not end", "dump the records before it; restore from another replica",
           Trait.TRUNCATE, Trait.UNREADABLE)
    R02 = ("record-length", Severity.ERROR, "record {index}: length {found} is negative or reaches past the end", "dump the records before it; restore from another replica",
           Trait.TRUNCATE, Trait.UNREADABLE)
    R03 = ("record-body", Severity.ERROR, "record {index}: {why}", "dump the records before it; restore from another replica",
           Trait.TRUNCATE, Trait.UNREADABLE)
    R04 = ("field-length", Severity.ERROR, "record {index}: {why}", "dump the records before it; restore from another replica",
           Trait.TRUNCATE, Trait.UNREADABLE)
    R05 = ("header-text", Severity.NOTE, "record {index}: {why}", "none: readers cope with it")
    R06 = ("offset-delta", Severity.ERROR, "record {index}: offset delta {found} is not above {previous} and at most {limit}", "restore from another replica",
           Trait.TRUNCATE, Trait.UNREADABLE)

    R07 = ("decoder", Severity.WARNING, "read as a record of {topic}: {why}", "none if it is something else; otherwise see whether it was written by a newer Kafka",
           Trait.ALSO_NOTE)
    R08 = ("schema-unknown", Severity.WARNING, "{what}: {why}", "name a _schemas log that has it with --schemas, or its file with --value-schema",
           Trait.UNDECODED)
    R09 = ("payload-unfit", Severity.WARNING, "{what} does not fit it: {why}", "none if it is something else; otherwise see which producer wrote it",
           Trait.UNDECODED)
    R10 = ("schema-unreadable", Severity.WARNING, "{what}: the schema cannot be used: {why}", "name a _schemas log, or files, with all that it needs",
           Trait.UNDECODED)

    C01 = ("codec-data", Severity.ERROR, "the {codec} data is damaged although the CRC is right: {why}", "restore from another replica",
           Trait.TRUNCATE, Trait.UNREADABLE)
    C02 = ("codec-ends", Severity.ERROR, "{why}", "restore from another replica",
           Trait.TRUNCATE, Trait.UNREADABLE)
    C03 = ("codec-limit", Severity.WARNING, "the records were not all read: {why}", "raise --max-uncompressed-bytes",
           Trait.NOT_ALL_READ)
    C04 = ("codec-lies", Severity.ERROR, "the {codec} data declares a size that it cannot have: {why}", "restore from another replica",
           Trait.TRUNCATE, Trait.UNREADABLE)
    C05 = ("codec-other", Severity.ERROR, "marked {codec}, but the bytes look like {looks}", "restore the codec bits if every neighbour agrees",
           Trait.TRUNCATE, Trait.UNREADABLE)
    C06 = ("codec-checksum", Severity.WARNING, "the content checksum of the lz4 frame is wrong; Kafka does not look at it", "compare with another replica")
    C07 = ("codec-nesting", Severity.ERROR, "{why}", "restore from another replica",
           Trait.TRUNCATE, Trait.UNREADABLE)

    P01 = ("sequence", Severity.WARNING, "producer {producer}: sequence {found} follows {previous}: {means}", "none for reading; compare with another replica",
           Trait.OR_COMPACTION, Trait.PRODUCER_STATE)
    P02 = ("producer-epoch", Severity.WARNING, "producer {producer}: epoch {found} follows {previous}", "none for reading; compare with another replica",
           Trait.OR_COMPACTION, Trait.PRODUCER_STATE)
    P03 = ("control-record", Severity.ERROR, "{why}: recovery of an unclean start fails here", "restore from another replica",
           Trait.TRUNCATE, Trait.UNREADABLE)
    P04 = ("open-transaction", Severity.NOTE, "the transaction of producer {producer} is open at the end of {end}", "none while its producer is at work")
    P05 = ("hanging-transaction", Severity.WARNING, "the transaction of producer {producer} hangs, and readers of committed data stop before it: {why}", "make sure that its producer is gone, then abort it with kafka-transactions.sh: kdump transactions has the command")

    X01 = ("index-size", Severity.ERROR, "{found:byte} {found:is} no whole number of entries", "rebuild the index",
           Trait.REINDEX, Trait.INDEX_ENTRY, Trait.ODD_ENTRIES)
    X02 = ("index-zeros", Severity.WARNING, "{count:entry} at the end {count:is} zero: lookups fall back to the start of the log", "rebuild the index",
           Trait.REINDEX, Trait.INDEX_ENTRY, Trait.ALSO_NOTE)
    X03 = ("index-order", Severity.ERROR, "offset {offset} at byte {found} is out of order with offset {other} at byte {position} {side} it: a search goes wrong here", "rebuild the index",
           Trait.REINDEX, Trait.INDEX_ENTRY, Trait.ODD_ENTRIES)
    X04 = ("index-position", Severity.ERROR, "offset {offset} points to byte {found}, where no batch begins", "rebuild the index",
           Trait.REINDEX, Trait.INDEX_ENTRY)
    X05 = ("index-unsound", Severity.ERROR, "offset {offset} points to byte {found}, where the batch begins with offset {base}: a fetch leaves records out", "rebuild the index",
           Trait.REINDEX, Trait.INDEX_ENTRY)
    X06 = ("index-entry", Severity.NOTE, "offset {offset} is not an end of the batch at byte {found}, which ends with {last}; lookups are right", "none",
           Trait.INDEX_ENTRY)
    X07 = ("index-too-long", Severity.ERROR, "the index has offset {found}, and the log ends before offset {end}: a broker believes the index", "rebuild the index before a broker starts",
           Trait.REINDEX, Trait.KNOWN_BATCHES, Trait.INDEX_ENTRY, Trait.BEYOND_END)

    X08 = ("index-short", Severity.NOTE, "the index ends for byte {found} of the log, whose last batch begins at byte {last}: lookups are slow", "rebuild the index if lookups matter",
           Trait.INDEX_ENTRY)
    X09 = ("index-foreign", Severity.ERROR, "all {count} entries of the indexes contradict the log: they are another segment's, or the log is", "look for the log that they belong to before they are rebuilt",
           Trait.CAUSE, Trait.WITNESSED, Trait.KEEPS_INDEXES)

    T01 = ("time-index-size", Severity.ERROR, "{found:byte} {found:is} no whole number of entries", "rebuild the index",
           Trait.REINDEX, Trait.INDEX_ENTRY, Trait.ODD_ENTRIES)
    T02 = ("time-index-zeros", Severity.ERROR, "the last entry is zero: a broker takes the segment for older than it is", "rebuild the index",
           Trait.REINDEX, Trait.INDEX_ENTRY, Trait.ALSO_NOTE)
    T03 = ("time-index-order", Severity.ERROR, "timestamp {found} for offset {offset} is out of order with {other} for offset {other_offset} {side} it", "rebuild the index",
           Trait.REINDEX, Trait.INDEX_ENTRY, Trait.ODD_ENTRIES)
    T04 = ("time-index-entry", Severity.ERROR, "offset {offset} has timestamp {found}; the batch there has {largest}", "rebuild the index",
           Trait.REINDEX, Trait.INDEX_ENTRY, Trait.BEYOND_END)
    T05 = ("time-index-short", Severity.WARNING, "the last timestamp {found} is below {largest} in the log after it", "rebuild the index",
           Trait.REINDEX, Trait.INDEX_ENTRY, Trait.ALSO_NOTE)

    A01 = ("aborted-size", Severity.ERROR, "{found:byte} {found:is} no whole number of entries", "rebuild the index",
           Trait.REINDEX)
    A02 = ("aborted-version", Severity.ERROR, "the version of the entry is {found}; a broker looks at its first byte only, and fails if that is above 0", "rebuild the index",
           Trait.REINDEX)
    A03 = ("aborted-entry", Severity.ERROR, "{why}", "rebuild the index",
           Trait.REINDEX, Trait.PRODUCER_STATE, Trait.BEYOND_END)
    A04 = ("aborted-missing", Severity.ERROR, "producer {producer} aborted this transaction, and no entry says so: readers of committed data see it", "rebuild the index",
           Trait.REINDEX, Trait.PRODUCER_STATE)
    A05 = ("aborted-extra", Severity.ERROR, "the log has no such aborted transaction of producer {producer}: readers of committed data do not see its records", "rebuild the index",
           Trait.REINDEX, Trait.PRODUCER_STATE, Trait.BEYOND_END)
    A06 = ("aborted-differs", Severity.ERROR, "aborted transaction of producer {producer}: {field} {found} must be {expected}", "rebuild the index",
           Trait.REINDEX, Trait.PRODUCER_STATE)

    A07 = ("marker-missing", Severity.ERROR, "producer {producer} aborted a transaction by a marker at offset {last}, where no batch is: it is lost, and readers of committed data see this transaction as open, or committed, once this index is rebuilt",
           "do not rebuild this index: it is the only evidence; see what another replica has: kdump verify --replicas DIR OTHER",
           Trait.RESTORED)

    A08 = ("end-missing", Severity.ERROR, "producer {producer} began this transaction at offset {begun}, so the one before it, from offset {offset} on, had ended: that marker is lost, at {ends}; whether it was a COMMIT or an ABORT is unknown, and once this index is rebuilt that transaction is aborted",
           "do not rebuild this index: it is the only evidence; see what another replica has: kdump verify --replicas DIR OTHER",
           Trait.RESTORED)

    S01 = ("snapshot", Severity.WARNING, "{why}: a broker {does}", "none needed: a broker builds it again from an older one and the log; its next start takes longer",
           Trait.REINDEX, Trait.UNSOUND_SNAPSHOT)
    S02 = ("snapshot-ahead", Severity.WARNING, "the snapshot is for offset {found}, and the log ends at {end}: a broker {does}", "none: the broker removes it",
           Trait.KNOWN_OFFSETS, Trait.ABOVE_END)
    S03 = ("snapshot-state", Severity.WARNING, "the log says something else about producers ({why}), {count} in all: a broker may refuse what they write", "while the broker is stopped, make the file empty: a broker throws it away, and builds it again from the log",
           Trait.REINDEX, Trait.PRODUCER_STATE, Trait.UNSOUND_SNAPSHOT)
    S04 = ("snapshot-name", Severity.ERROR, "the name is not an offset: a broker fails to load the partition", "move the file out of the directory",
           Trait.ODD_NAME)
    K01 = ("checkpoint-ahead", Severity.WARNING, "{partition}: {field} {found} is above the end of the log, {end}: its last {missing:offset} {missing:is} gone", "compare with another replica; a broker lowers the value",
           Trait.KNOWN_OFFSETS, Trait.ABOVE_END, Trait.TELLS_LOSS)
    K02 = ("start-ahead", Severity.ERROR, "{partition}: the log start offset {found} is above the end of the log, {end}: a broker deletes all segments", "restore the checkpoint before a broker starts",
           Trait.WRONG_ENTRY)
    K03 = ("checkpoint", Severity.ERROR, "{why}", "restore this very file from a backup, that of another log directory does not fit; or repair the log directory: the lines that can be read stay, and kdump explain K03 has the price of the others")
    K04 = ("epoch-file", Severity.ERROR, "{why}", "while the broker is stopped, copy the file of another replica of the partition over this one; without such a replica take the one that kdump salvage makes from the batches, or move this file away: a broker makes it again from batches that it recovers, after a clean stop from none",
           Trait.ABOVE_END, Trait.STOPS_PARTITION, Trait.ALSO_WARNING, Trait.ALSO_NOTE)
    K05 = ("partition-metadata", Severity.ERROR, "{why}", "restore the file from another replica: a broker takes the log directory offline",
           Trait.STOPS_PARTITION, Trait.ALSO_WARNING, Trait.ALSO_NOTE)

    K07 = ("recovery-point", Severity.WARNING, "{partition}: the recovery point {found} is negative", "remove the entry from the file while the broker is stopped: an unclean start then recovers every segment",
           Trait.WRONG_ENTRY)

    K08 = ("end-cut", Severity.NOTE, "{what} above the end of the log, {end}, and no index or snapshot is: as after a truncation to the leader of a new epoch; the newest here, {epoch}, began at {start}", "compare with the leader of that epoch: {committed}")
    K09 = ("topic-id-differs", Severity.WARNING, "the topic id is {found}; {others}: these are partitions of two topics of one name", "find out which is of the topic that the cluster has, by kdump cluster; a KRaft broker sets the other one aside as -stray when it starts")
    K10 = ("clusters-differ", Severity.WARNING, "cluster.id is {found} here, and {expected} in {other}: log directories of several clusters are named together{compared}", "name the log directories of one cluster; where they should be of one, see whose volume this is before a broker starts",
           Trait.ALSO_ERROR, Trait.ALSO_NOTE)

    K11 = ("brokers-differ", Severity.NOTE, "{field} is {found} here, and {expected} in {other}: {together}", "none where that is meant; one broker does not start with both",
           Trait.ALSO_ERROR)
    K12 = ("owner-differs", Severity.NOTE, "{why}{more_files}", "{do}",
           Trait.ALSO_ERROR)

    M01 = ("stray", Severity.ERROR, "the cluster does not have this partition here: {why}", "find out why it is here before a broker starts, for that sets it aside as TOPIC-N.ID-stray; then move it away")
    M02 = ("partition-missing", Severity.ERROR, "the partition is missing: {why}", "look for it on other volumes; a broker that starts makes an empty one, and what only this replica had is lost to readers if it leads")
    M03 = ("topic-id", Severity.ERROR, "the topic id is {found}; the cluster has {expected} for {topic}: this is a topic of the same name that was deleted, or another cluster's", "find out which it is before a broker starts, for that sets it aside as a stray; the cluster's own replica is elsewhere, or missing")
    M04 = ("directory-id", Severity.ERROR, "the directory is another one: {why}", "mount the volume that the cluster knows, or move what is here to where it belongs, before the broker starts")
    M05 = ("wrong-broker", Severity.ERROR, "this is the volume of another broker: {why}", "mount it where it belongs; never change meta.properties so that it fits")

    V01 = ("changed", Severity.WARNING, "the file changed while it was read", "copy the directory and look at the copy",
           Trait.NOT_ALL_READ)
    V02 = ("vanished", Severity.WARNING, "the file was there and is gone: retention or compaction at work", "look again, or at a copy",
           Trait.NOT_ALL_READ)
    V03 = ("unfinished", Severity.NOTE, "the last batch is not finished: a broker is writing", "none")
    V04 = ("decoder-command", Severity.WARNING, "a payload is shown as it is, the decoder command did not decode it: {why}", "run the command by hand on such a payload",
           Trait.NOT_ALL_READ)
    V05 = ("bit-rot", Severity.ERROR, "{blocks} of 64 KiB changed since {seen}, and nothing writes to a closed segment{crc}",
           "compare with another replica, and restore the segment from it; if these bytes are right: {accept}")
    # fmt: on

    @property
    def severities(self) -> tuple[Severity, ...]:
        """How grave its findings may be, that of the table first. What the user knows makes a note of any loss."""
        also = (one for trait, one in _ALSO.items() if trait in self.traits)
        return tuple(dict.fromkeys((self.severity, *also)))

    @property
    def repairs(self) -> tuple[str, ...]:
        """The commands that can mend it, in the order in which they are tried; none where a person acts."""
        return tuple(command for trait, command in REPAIR_COMMANDS.items() if trait in self.traits)


OVERLAP = "twice"
"""Among the values of a finding about a batch that overlaps the one before it: the last offset that both have."""
REPEATED = "repeated"
"""Among those of a P01: the offsets of records that are there again, FIRST..LAST@POSITION of the batch that has them."""

_OWN = ("length", "offset", "last_offset", "field", "expected", "found", "count")  # fields that sentences may name
_NOTHING: Mapping[str, int | str | None] = MappingProxyType({})


class Finding(Row, name="finding"):
    """One thing that is wrong, at one place."""

    code: Code = column(Kind.CODE, "the row of the table: see kdump-findings(7)")

    @computed(Kind.WORD, "of the code")
    def name(self) -> str:
        """The name of the code."""
        return self.code.slug

    @computed(Kind.WORD, "how grave it is", words=tuple(one.value for one in Severity))
    def severity(self) -> Severity:
        """The severity of this finding: its own, or that of its code."""
        return self.severity_override or self.code.severity

    file: str = column(Kind.PATH, "as the user wrote it")
    position: int | None = column(
        Kind.POSITION, "first byte concerned; null where the whole file is meant", default=None
    )
    length: int | None = column(Kind.SIZE, "concerned, exact; null where the whole file is meant", default=None)
    gap: bool = column(
        Kind.FLAG, "these bytes belong to no batch: each gap has exactly one such finding", default=False
    )
    offset: int | None = column(
        Kind.OFFSET, "first one concerned, as stored or by the neighbours; null where unknown", default=None
    )
    last_offset: int | None = column(Kind.OFFSET, "last one concerned, likewise", default=None)

    @computed(
        Kind.WORD,
        "whether the offsets stand in the bytes, or are those that the neighbours leave free; null without offsets",
        words=("bytes", "neighbours"),
    )
    def offsets_from(self) -> str | None:
        """Where the offsets are from: the bytes themselves, or the neighbours; None where there are none."""
        if self.offset is None and self.last_offset is None:
            return None
        return "neighbours" if self.by_neighbours else "bytes"

    field: str | None = column(Kind.WORD, "Kafka's name of the field, where one field is wrong", default=None)
    expected: int | str | None = column(
        Kind.VALUE, "its right value where the neighbours or the data determine it", default=None
    )
    found: int | str | None = column(Kind.VALUE, "its value in the file", default=None)

    @computed(Kind.TEXT, "the finding as a sentence")
    def message(self) -> str:
        """The sentence of the code with the numbers of this finding."""
        also = self.values.get("also")
        return self._fill(self.code.sentence) + (f", {also}" if also else "")

    @computed(Kind.TEXT, "what a person can do")
    def remedy(self) -> str:
        """What the operator can do about it."""
        once, own = self.values.get("once"), self.values.get("remedy")
        return (str(own) if own else self._fill(self.code.remedy)) + (f", {once}" if once else "")

    repair: ShellCommand | None = column(
        Kind.COMMAND,
        "that mends it, as a dry run and as a shell reads it; null where none does, or where it would cost what is "
        "intact",
        default=None,
    )
    count: int | None = column(Kind.COUNT, "records, entries or folded findings concerned", default=None)
    because: Code | None = column(
        Kind.CODE, "the cause of which this is an effect, told before it; null where it stands for itself", default=None
    )
    more: int | None = column(
        Kind.COUNT,
        "how many of this code in the same batch or index file are left out; null for none",
        default=None,
    )
    severity_override: Severity | None = None  # None for the severity of the table
    values: Mapping[str, int | str | None] = _NOTHING  # further ones for the sentence; `also` has words that follow it,
    # `once` those that follow the remedy, and `remedy` stands in place of the code's
    by_neighbours: bool = False  # the offsets are those that the batches, segments or files around leave free

    @property
    def is_difference(self) -> bool:
        """Whether it says that two replicas are not the same."""
        return Trait.OTHER_REPLICA in self.code.traits

    @property
    def is_unsound(self) -> bool:
        """Whether its file cannot be called sound: it is an error, or a part was not read."""
        return self.severity is Severity.ERROR or Trait.NOT_ALL_READ in self.code.traits

    @property
    def is_loss(self) -> bool:
        """Whether it is an error that says only that offsets are lost: what is here is as it should be."""
        return self.severity is Severity.ERROR and Trait.ONLY_LOST in self.code.traits

    @property
    def is_log_damage(self) -> bool:
        """Whether it is an error in the bytes of a log, so that a cut before its position takes it away."""
        is_error = self.severity is Severity.ERROR and self.position is not None
        return is_error and Trait.TRUNCATE in self.code.traits and not self.is_overlap

    @property
    def is_not_read(self) -> bool:
        """Whether bytes or offsets were not read that others may have had: an answer without them is not whole."""
        traits = self.code.traits
        is_lost = Trait.LOST_AS_ERROR in traits and self.severity is Severity.ERROR
        is_gap = self.gap and self.code is not Code.V03  # a broker is writing there
        return is_gap or is_lost or (Trait.NOT_ALL_READ in traits and self.code is not Code.V04)  # shown as it is

    @property
    def is_misplaced(self) -> bool:
        """Whether the base offset of a batch is wrong: it is outside of the CRC."""
        return Trait.MISPLACED in self.code.traits and not self.is_overlap

    @property
    def is_overlap(self) -> bool:
        """Whether a batch begins below the last offset before it, and lies where a broker wrote it all the same."""
        return self.code is Code.O03 and OVERLAP in self.values

    @property
    def is_unplaced(self) -> bool:
        """Whether the base offset of a batch is wrong, and nobody knows the right one."""
        return self.is_misplaced and not isinstance(self.expected, int)

    @property
    def true_offset(self) -> int | None:
        """The first offset that a batch out of place belongs to; None where nobody knows it.

        The field of a legacy wrapper has its last offset, and what is expected of it too.
        """
        if not isinstance(self.expected, int):
            return None
        if self.offset is None or not isinstance(self.found, int):
            return self.expected
        return self.expected - self.found + self.offset

    @property
    def is_among_holes(self) -> bool:
        """Whether bytes are missing in one of several holes, nobody knows in which."""
        return self.code is Code.O04 and self.severity is Severity.ERROR and "among" in self.values

    @property
    def is_torn_batch(self) -> bool:
        """Whether it is a torn batch whose header still stands: its offsets were given out."""
        return self.code is Code.L02 and self.offsets_from == "bytes" and self.last_offset is not None

    def _fill(self, sentence: str) -> str:
        values = {**{name: getattr(self, name) for name in _OWN}, **self.values}
        if "missing_first" in values:
            first, last = values["missing_first"], values["missing_last"]
            values["missing"] = f"offset {first} is" if first == last else f"offsets {first}..{last} are"
        values.setdefault("records", "its records" if self.count is None else f"{_Number(self.count):record}")
        return sentence.format(**{name: _Number(one) if type(one) is int else one for name, one in values.items()})


Report = Callable[[Finding], None]


def ignore(_finding: object) -> None:
    """Take a finding, and tell nobody: for who reads what somebody else judges."""


PER_PLACE = 100  # findings of one code that one batch, or one index file, may have


class Capped:
    """A report for one place: a hundred findings of each code go through, the last of them says how many more.

    What is wrong with a place is told by the first hundred; millions would cost time and memory that the bytes do not.

    Args:
        report: takes the findings.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._counts: dict[Code, int] = {}
        self._held: dict[Code, Finding] = {}  # the hundredth of each: it waits for the number of those after it

    def __call__(self, finding: Finding) -> None:
        """Take a finding."""
        code = finding.code
        count = self._counts[code] = self._counts.get(code, 0) + 1
        if count < PER_PLACE:
            self._report(finding)
        elif count == PER_PLACE:
            self._held[code] = finding

    def is_full(self, code: Code) -> bool:
        """Tell whether further findings of a code are only counted."""
        return code in self._held

    def counts(self) -> dict[Code, int]:
        """Return how many findings of each code there are so far."""
        return dict(self._counts)

    def add(self, code: Code, count: int) -> None:
        """Count findings of a code that is full."""
        self._counts[code] += count

    def close(self) -> None:
        """Report what was held back, and begin again for another place."""
        for code, finding in self._held.items():
            more = self._counts[code] - PER_PLACE
            self._report(finding.replace(more=more) if more else finding)
        self._counts.clear()
        self._held.clear()
