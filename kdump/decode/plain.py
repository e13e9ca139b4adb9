"""The decoder classes of Kafka for keys and values: --key-decoder-class and --value-decoder-class.

Source: org.apache.kafka.tools.DumpLogSegments.DecoderMessageParser, org.apache.kafka.tools.api.StringDecoder,
IntegerDecoder, LongDecoder, DefaultDecoder
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kdump.decode.decoded import Decoded
from kdump.decode.java_text import java_utf8
from kdump.decode.table import table
from kdump.decode.wire import RUNTIME, UNDERFLOW
from kdump.value import pattern

if TYPE_CHECKING:
    from kdump.decode.decoded import Decoder

API = "org.apache.kafka.tools.api."
SERIALIZER = "kafka.serializer."
NAMES = ("StringDecoder", "DefaultDecoder", "IntegerDecoder", "LongDecoder")

_TYPES = "Boolean|ByteArray|ByteBuffer|Bytes|Double|Float|Integer|List|Long|Short|String|UUID|Void"
_OTHERS = {
    "class": pattern(
        rf"org\.apache\.kafka\.common\.serialization\.(?:Serdes|(?:{_TYPES})(?:Deserializer|Serializer))"
        r"|java\.lang\.(?:Boolean|Byte|Character|Class|Double|Exception|Float|Integer|Long|Math|Number|Object|Short|String|"
        r"StringBuffer|StringBuilder|System|Thread|Void)"
        r"|java\.util\.(?:ArrayList|Date|HashMap|HashSet|LinkedList|Properties|TreeMap|UUID)"
    ),
    "interface": pattern(
        r"org\.apache\.kafka\.common\.serialization\.(?:Deserializer|Serde|Serializer)"
        r"|java\.lang\.(?:CharSequence|Comparable|Iterable|Runnable)|java\.util\.(?:Collection|List|Map|Set)"
    ),
}
"""Classes of Java and Kafka that are no decoders, and that somebody may give for one."""

Show = Callable[[bytes], "bytes | None"]


def decoder(key_class: str, value_class: str, release: str) -> Decoder | str:
    """Return the decoder of two classes, or what is wrong with one of them."""
    unknown = [name for name in (value_class, key_class) if _short_name(name, release) is None]
    if unknown:
        known = f"{API}{{{','.join(NAMES)}}}"
        return f"kdump has no decoder class '{unknown[0]}'; it has {known}"
    of_key, of_value = _show(key_class), _show(value_class)

    def decode(_offset: int, key: bytes | None, value: bytes | None) -> Decoded:
        shown_key = None if key is None else of_key(key)
        shown_value = None if value is None else of_value(value)
        if (shown_key is None and key is not None) or (shown_value is None and value is not None):
            return Decoded(None, None, UNDERFLOW)
        return Decoded(shown_key, shown_value)

    return decode


def notices(key_class: str, value_class: str, release: str) -> list[str]:
    """Return the lines that 3.9 prints to stdout about old class names, once a log file, after "Dumping ...".

    Source: kafka.tools.DumpLogSegments.DumpLogSegmentsOptions.convertDeprecatedDecoderClass (3.9)
    """
    lines = []
    for name in (value_class, key_class):
        short = _short_name(name, release)
        if short is None:
            break
        if name.startswith(SERIALIZER):
            lines.append(f"{name} is deprecated. Please use {API}{short} instead")
    return lines


def java_failure(key_class: str, value_class: str, release: str) -> str | None:
    """Return how Java's run ends over a class name: the text after 'Exception in thread "main" '.

    That is right for a name that no class has, and for the classes of Java and Kafka that are known here; for another
    class Java has other words.

    Source: org.apache.kafka.tools.DumpLogSegments.DumpLogSegmentsOptions.newDecoder,
    org.apache.kafka.common.utils.Utils.loadClass, kafka.utils.CoreUtils.createObject (3.9)
    """
    for name in (value_class, key_class):
        if _short_name(name, release) is None:
            kind = next((kind for kind, names in _OTHERS.items() if names.fullmatch(name)), None)
            if kind is not None and table(release).fact("wantsProperties"):
                return f"java.lang.NoSuchMethodException: {name}.<init>(kafka.utils.VerifiableProperties)"
            if kind is not None:
                return f"java.lang.ClassCastException: {kind} {name}"
            cause = f"java.lang.ClassNotFoundException: {name}"
            wrapped = table(release).fact("wrapsClassFailure")
            return f"{RUNTIME}: Failed to load decoder class\nCaused by: {cause}" if wrapped else cause
    return None


def _short_name(name: str, release: str) -> str | None:
    """Return a class name without its package, None when the release does not know it."""
    packages = (API, SERIALIZER) if table(release).fact("serializerClasses") else (API,)
    for package in packages:
        if name.startswith(package) and name.removeprefix(package) in NAMES:
            return name.removeprefix(package)
    return None


def _show(name: str) -> Show:
    """Return the function from bytes to text of a class; it returns None where Java runs out of bytes."""
    short = name.rpartition(".")[2]
    if short == "StringDecoder":
        return java_utf8
    if short == "DefaultDecoder":
        return lambda data: data.hex().encode()
    return _number(4 if short == "IntegerDecoder" else 8)


def _number(size: int) -> Show:
    def show(data: bytes) -> bytes | None:
        return None if len(data) < size else b"%d" % int.from_bytes(data[:size], signed=True)

    return show
