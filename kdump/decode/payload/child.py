"""The process that compiles schemas and decodes payloads by them; `kdump.decode.payload.process` starts it.

It reads questions from stdin and writes answers to stdout. A question is a head (kind, number of the schema, bytes)
and a body. `SCHEMA` brings a schema as JSON; its answer says why it cannot be read. `PAYLOADS` brings payloads for it;
answers to them come in parts. What goes wrong with one payload is its answer. What ends the process, the other side
sees: memory and CPU are limited here, by the system.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import struct
from array import array
from itertools import accumulate
from json.encoder import encode_basestring_ascii
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdump.decode.payload.unfit import SchemaError, UnfitError
from kdump.rows.json_lines import text_or_bytes
from kdump.rows.schemas import AVRO, PROTOBUF
from kdump.value import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    # from bytes, the places of payloads in them, and the indexes of a message: values, or errors
    Decoders = Callable[[bytearray, array[int], tuple[int, ...]], Iterator[object]]

HEAD = struct.Struct("<cIQ")  # kind, number, bytes of the body
SCHEMA, PAYLOADS = b"S", b"P"
MADE, UNFIT, LIMIT, MISSING = b"M", b"U", b"L", b"I"  # of each answer: JSON; why there is none; a limit; a library
MOST_MEMORY = 512 * 1024 * 1024  # bytes beyond what the process has when it begins
MOST_SECONDS = 10  # of CPU, for a schema or the payloads of one question
MOST_TEXT = 64 * 1024 * 1024  # characters of one answer
_MADE = MADE[0]
_TOO_MUCH = b"it takes too much memory, or is nested too deep"
_PART = 64 * 1024  # bytes of answers that are collected: the other side takes them while the next are made


def run() -> None:
    """Answer questions until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other side ends this process
    source, target = os.fdopen(0, "rb", closefd=False), os.fdopen(1, "wb", closefd=False)
    _limit_memory()
    gc.disable()  # values are trees: there are no circles to look for, and each record would be looked at
    schemas: dict[int, Decoders] = {}
    while len(head := source.read(HEAD.size)) == HEAD.size:
        kind, number, size = HEAD.unpack(head)
        body = bytearray(size)
        source.readinto(body)
        _limit_cpu()
        if kind == SCHEMA:
            how, why = _known(schemas, number, body)
            target.write(how + struct.pack("<I", len(why)) + why)
        else:
            _answer(schemas[number], body, target.write)
        target.flush()


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        now = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    except OSError:  # not Linux
        return
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = now + MOST_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _limit_cpu() -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    most = int(used.ru_utime + used.ru_stime) + MOST_SECONDS + 1
    resource.setrlimit(resource.RLIMIT_CPU, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _known(schemas: dict[int, Decoders], number: int, body: bytearray) -> tuple[bytes, bytes]:
    """Take a schema; the answer."""
    try:
        schemas[number] = _decoders(json.loads(body))
    except SchemaError as error:
        return UNFIT, str(error).encode("utf-8", "replace")
    except ModuleNotFoundError as error:
        return MISSING, str(error.name).encode()
    except MemoryError:
        return LIMIT, b"it takes too much memory"
    return MADE, b""


def _decoders(schema: dict[str, Any]) -> Decoders:
    if schema["type"] == AVRO:
        from kdump.decode.payload.avro import AvroSchema

        avro = AvroSchema(schema["text"], [text for _, text in schema["references"]])
        return lambda body, places, _indexes: avro.decoded(body, places)
    if schema["type"] == PROTOBUF:
        from kdump.decode.payload.protobuf import ProtobufSchema

        protobuf = ProtobufSchema(schema["text"], schema["references"])
        return lambda body, places, indexes: _each(body, places, lambda data: protobuf.decode(data, indexes))
    return lambda body, places, _indexes: _each(body, places, _json)


def _each(body: bytearray, places: array[int], decode: Callable[[bytes], object]) -> Iterator[object]:
    """What each payload comes to, or the error that says why not."""
    for number in range(len(places) - 1):
        try:
            yield decode(bytes(body[places[number] : places[number + 1]]))
        except Exception as error:
            yield error


_NOT_ASCII = pattern(r"[^\x00-\x7f]+")


def _json(data: bytes) -> object:
    from kdump.decode.formats import one_line

    made = one_line(data)
    if made is None:
        raise UnfitError("it is not JSON")
    # characters that are not ASCII are in strings only; numbers and members stay as they were written
    if not made.isascii():
        made = _NOT_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], made.decode("utf-8")).encode("ascii")
    return _Json(made)


def _answer(decoders: Decoders, body: bytearray, write: Callable[[bytes], object]) -> None:
    """Decode the payloads of one question."""
    many, depth = struct.unpack_from("<II", body)
    at = 8 + 4 * (many + depth)
    numbers = array("I", bytes(body[8:at]))
    places = array("q", accumulate(numbers[depth:], initial=at))
    hows, held = bytearray(), 0
    parts: list[bytes] = []
    encode = _encode
    for value in decoders(body, places, tuple(numbers[:depth])):
        try:
            made = encode(value).encode("ascii")
            how = _MADE
        except (TypeError, ValueError, MemoryError, RecursionError):
            how, made = _slowly(value)
        held += len(made)
        if len(made) > MOST_TEXT:
            how, made = LIMIT[0], b"its text has %d bytes" % len(made)
        hows.append(how)
        parts.append(made)
        if held >= _PART:
            _write(hows, parts, write)
            hows, parts, held = bytearray(), [], 0
    if parts:
        _write(hows, parts, write)


def _slowly(value: object) -> tuple[int, bytes]:
    """What is no plain value: an error, JSON that is made already, or numbers that JSON does not have."""
    try:
        if isinstance(value, _Json):
            return _MADE, value.text
        if isinstance(value, MemoryError | RecursionError):
            return LIMIT[0], _TOO_MUCH
        if isinstance(value, UnfitError):
            return UNFIT[0], str(value).encode()
        if isinstance(value, Exception):  # its words may have those of the payload
            return UNFIT[0], f"its decoder says {type(value).__name__}".encode()
        return _MADE, _encode(_finite(value)).encode("ascii")
    except (MemoryError, RecursionError):
        return LIMIT[0], _TOO_MUCH
    except (TypeError, ValueError) as error:
        return UNFIT[0], f"its decoder says {type(error).__name__}".encode()


def _write(hows: bytearray, parts: list[bytes], write: Callable[[bytes], object]) -> None:
    write(struct.pack("<I", len(parts)) + hows + array("I", map(len, parts)).tobytes())
    for part in parts:
        write(part)


class _Json:
    """JSON that is as it is to be shown."""

    def __init__(self, text: bytes) -> None:
        self.text = text


# --- JSON -----------------------------------------------------------------------------------------------------
def _shown(value: object) -> object:
    """What JSON has no form for: bytes."""
    if isinstance(value, bytes):
        return text_or_bytes(value)
    raise TypeError(type(value).__name__)


def _encoder() -> Callable[[object], str]:
    try:
        from json.encoder import c_make_encoder as make  # type: ignore[attr-defined]
    except ImportError:
        make = None
    if make is None:
        whole = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=_shown)
        return whole.encode
    arguments = None, _shown, encode_basestring_ascii, None, ":", ",", False, False, False
    parts = make(*arguments)
    return lambda value: "".join(parts(value, 0))


_encode = _encoder()


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value
