"""Numbers and UUIDs as Java has them, and parses them from text with the messages of its exceptions."""

from __future__ import annotations

from kdump.value import Value, pattern

IO = "java.io.IOException"
NOT_UTF8 = "java.nio.charset.MalformedInputException"
IO_CLASSES = IO, NOT_UTF8  # the second one is a kind of the first
END_OF_FILE = "java.io.EOFException"
NOT_JSON = "com.fasterxml.jackson.core.JsonParseException"
NUMBER = "java.lang.NumberFormatException"
ARGUMENT = "java.lang.IllegalArgumentException"
RUNTIME = "java.lang.RuntimeException"
INVALID = "org.apache.kafka.common.InvalidRecordException"

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1
MIN_LONG = -(2**63)
ABOVE_ALL = MAX_LONG + 1
"""Above every offset and every end of a log: no long is."""

MAX_DECOMPRESSED = MAX_INT - 8
"""max.decompressed.message.bytes by default; bytes of one record in a compressed batch. Source: Kafka 4.4."""

MAX_QUOTE = 200  # characters of a bad text that a message quotes
_MAX_REPEATED = 8  # of a text that has nothing but one control character
_REPEATED = pattern(r"([\x00-\x1f])\1*+\Z")

_UUID_DIGITS = pattern(r"[A-Za-z0-9_-]*+")


class JavaComplaint(Value):
    """The reason why a value cannot be read, and the Java exception that a broker meets there, if any.

    `is_caught`: whatever its class, the broker goes on without the log directory, if it can.
    """

    why: str
    exception: str | None = None
    is_caught: bool = False


def as_long(value: int) -> int:
    """Return what a Java long holds of a number: sums of offsets go on at the other end of it.

    Args:
        value: any integer.
    """
    return (value - MIN_LONG) % 2**64 + MIN_LONG


def parse_number(text: str, bits: int) -> int | JavaComplaint:
    """Return what Java's parseInt (32 bits) or parseLong (64 bits) makes of a text.

    Java takes a sign and digits of any script, and neither blanks nor underscores.
    """
    if text.isdigit() and text.isascii() and len(text) < (10 if bits == 32 else 19):
        return int(text)  # nearly all of them
    digits = text[1:] if text[:1] in ("+", "-") else text
    if digits.isdecimal() and max(digits) <= "\uffff":
        value = int(digits[-19:]) * (-1 if text[0] == "-" else 1)
        is_long = any(map(int, digits[:-19]))  # zeros in front do not count
        if not is_long and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            return value
    return JavaComplaint(f'For input string: "{quote(text)}"', NUMBER)


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


def uuid_text(text: str) -> str:
    """Return a UUID in base64url as Uuid.toString writes it: several texts are the same one; any other text as it is.

    Args:
        text: of which the last character has four bits that say nothing.
    """
    if uuid_complaint(text) is not None:
        return text
    from base64 import urlsafe_b64decode, urlsafe_b64encode  # few texts are a UUID

    return urlsafe_b64encode(urlsafe_b64decode(f"{text.rstrip('=')}==")).decode().rstrip("=")


def quote(text: str) -> str:
    """Return a text as a message quotes it: a long one in part, and of NULs and the like that repeat a few."""
    blank = _REPEATED.match(text)
    shown = MAX_QUOTE if blank is None else _MAX_REPEATED
    return text if len(text) <= shown else f"{text[:shown]}... ({len(text)} characters)"


def string_hash(text: str) -> int:
    """Return java.lang.String.hashCode: an int32 over UTF-16 units. Source: StringUTF16.hashCode."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


DEFAULT_PARTITIONS = 50
"""Of an internal topic: offsets.topic.num.partitions, transaction.state.log.num.partitions."""


def coordinator_partition(id_: str, partitions: int) -> int:
    """Return the partition that has an id.

    Args:
        id_: of a group, or transactional.
        partitions: how many there are.

    Source: GroupCoordinatorService.partitionFor, TransactionStateManager.partitionFor, Utils.abs.
    """
    number = string_hash(id_)
    return (0 if number == -(2**31) else abs(number)) % partitions
