"""Protobuf by google's library; `.proto` text is compiled by google's own compiler. Runs in the child only.

The compiler is protoc itself, as grpcio-tools has it: it is released with protobuf, knows its editions and brings the
well-known types; the compilers in other languages know fewer. It reads files only: they are in a directory of their
own that is gone when it is done.

Fields have the names of the schema. Numbers stay numbers, 64 bits too, enums have their names. A field without
presence is there with its default, as nobody can tell whether it was written. What the schema does not know stays
visible: "@unknown", which no field can be called.
"""

from __future__ import annotations

import base64
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from kdump.decode.payload.unfit import SchemaError, UnfitError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from google.protobuf.descriptor import Descriptor, FileDescriptor
    from google.protobuf.message import Message

_OWN = "schema.proto"  # what the schema itself is called
_UNKNOWN = "@unknown"
_MOST_SAID = 300  # characters of what the compiler says
_GROUP = 3  # wire type
# What registries know without a reference. Source: io.confluent.kafka.schemaregistry.protobuf.ProtobufSchema.
_BUILT_IN = {
    "confluent/meta.proto": """syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
""",
    "confluent/type/decimal.proto": """syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
""",
    "google/type/date.proto": """syntax = "proto3";
package google.type;
message Date { int32 year = 1; int32 month = 2; int32 day = 3; }
""",
    "google/type/timeofday.proto": """syntax = "proto3";
package google.type;
message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }
""",
}


class ProtobufSchema:
    """Decodes payloads of the messages of one schema.

    Args:
        text: `.proto` text, or a FileDescriptorProto as Base64.
        references: import name and text of those that it needs.

    Raises:
        SchemaError: it cannot be read.
    """

    def __init__(self, text: str, references: Sequence[tuple[str, str]]) -> None:
        try:
            self._file = _file(text, references)
        except SchemaError:
            raise
        except Exception as error:
            raise SchemaError(f"{type(error).__name__}: {error}") from None
        self._classes: dict[tuple[int, ...], tuple[type[Message], ...]] = {}

    def decode(self, data: bytes, indexes: tuple[int, ...]) -> object:
        """Return a value that JSON can have, but for bytes.

        Args:
            data: the payload.
            indexes: of the message in the file, and in each message around it.

        Raises:
            UnfitError: the bytes are no such message, or there is none.
        """
        if indexes not in self._classes:
            found = self._descriptors(indexes)
            self._classes[indexes] = tuple(message_factory.GetMessageClass(one) for one in found)
        classes = self._classes[indexes]
        if len(classes) == 1:
            return _object(_parsed(classes[0], data))
        made = []
        for one in classes:
            with suppress(UnfitError):
                made.append(_object(_parsed(one, data)))
        made = [one for one in made if _UNKNOWN not in one]
        if len(made) != 1:
            raise UnfitError("serializers number messages differently behind a map, and it may be either of two")
        return made[0]

    def _descriptors(self, indexes: tuple[int, ...]) -> list[Descriptor]:
        """The messages that numbers may mean: some serializers count the entries of maps as messages, Java's do not."""
        found: list[Descriptor] = []
        for counts in (False, True):
            there: Any = self._file.message_types_by_name.values()
            one: Any = None
            for index in indexes:
                messages = [each for each in there if counts or not each.GetOptions().map_entry]
                one = messages[index] if 0 <= index < len(messages) else None
                if one is None:
                    break
                there = one.nested_types
            if one is not None and one not in found and not one.GetOptions().map_entry:
                found.append(one)
        if not found:
            raise UnfitError(f"the schema has no message {'.'.join(map(str, indexes))}")
        return found


def _parsed(of: type[Message], data: bytes) -> Message:
    message = of()
    try:
        message.ParseFromString(data)
    except DecodeError:
        raise UnfitError("it is no message, or is nested too deep") from None
    return message


def _file(text: str, references: Sequence[tuple[str, str]]) -> FileDescriptor:
    texts = (text, *(more for _, more in references))
    files = {name: one for name, one in _BUILT_IN.items() if any(name in more for more in texts)}
    files.update(references)
    files[_OWN] = text
    binary = {name: made for name, one in files.items() for made in (_serialized(one),) if made is not None}
    pool = descriptor_pool.DescriptorPool()
    if _OWN in binary:
        _add_all(pool, binary, files)
        return pool.FindFileByName(binary[_OWN].name or _OWN)
    compiled = descriptor_pb2.FileDescriptorSet.FromString(_compiled(files))
    for one in compiled.file:
        pool.Add(one)
    return pool.FindFileByName(_OWN)


def _serialized(text: str) -> descriptor_pb2.FileDescriptorProto | None:
    """A schema that is registered as a descriptor, as clients that have no text do; None for text."""
    try:
        found = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (ValueError, DecodeError):
        return None
    return found if found.message_type or found.enum_type or found.dependency else None


def _add_all(
    pool: descriptor_pool.DescriptorPool,
    binary: dict[str, descriptor_pb2.FileDescriptorProto],
    files: dict[str, str],
) -> None:
    """Add descriptors, each after what it imports."""
    named = {one.name or name: one for name, one in binary.items()}
    named.update({name: one for name, one in binary.items() if name != _OWN})
    added: set[str] = set()

    def add(name: str) -> None:
        if name in added:
            return
        added.add(name)
        one = named.get(name)
        if one is None:
            texts = {other: text for other, text in (*_BUILT_IN.items(), *files.items()) if other not in binary}
            for made in descriptor_pb2.FileDescriptorSet.FromString(_compiled(texts, name)).file:
                if made.name not in added or made.name == name:
                    added.add(made.name)
                    pool.Add(made)
            return
        for other in one.dependency:
            add(other)
        pool.Add(one)

    add(binary[_OWN].name or _OWN)


def _compiled(files: dict[str, str], wanted: str = _OWN) -> bytes:
    """The descriptors that the compiler makes of texts, serialized, each after what it imports.

    Raises:
        SchemaError: it makes none; the message is its own.
    """
    from importlib.resources import files as resources

    from grpc_tools import _protoc_compiler

    known = str(resources("grpc_tools") / "_proto")
    with tempfile.TemporaryDirectory(prefix="kdump-") as directory:
        for name, text in files.items():
            parts = name.split("/")
            if any(part in ("", ".", "..") for part in parts) or "\0" in name:
                raise SchemaError(f"an import is called '{name}'")
            path = os.path.join(directory, *parts)
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(text, encoding="utf-8")
        target, said = os.path.join(directory, ":set"), os.path.join(directory, ":said")
        words = (
            "protoc",
            f"-I{directory}",
            f"-I{known}",
            "--include_imports",
            f"--descriptor_set_out={target}",
            wanted,
        )
        status = _with_stderr(said, lambda: _protoc_compiler.run_main([word.encode() for word in words]))
        if status:
            why = Path(said).read_text(encoding="utf-8", errors="replace").replace(f"{directory}/", "")
            raise SchemaError(" ".join(why[:_MOST_SAID].split()) or "protoc does not compile it")
        return Path(target).read_bytes()


def _with_stderr(path: str, run: Callable[[], int]) -> int:
    """Run something while what it says on stderr goes to a file."""
    kept = os.dup(2)
    target = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.dup2(target, 2)
        return run()
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(target)


def _object(message: Message) -> dict[str, object]:
    made: dict[str, object] = {}
    present = dict(message.ListFields())
    for field in message.DESCRIPTOR.fields:
        if field in present:
            made[field.name] = _field(field, present.pop(field))
        elif not field.has_presence:
            made[field.name] = _field(field, getattr(message, field.name))
    for field, value in present.items():  # extensions
        made[f"[{field.full_name}]"] = _field(field, value)
    unknown = UnknownFieldSet(message)
    if len(unknown):
        made[_UNKNOWN] = _unknown(unknown)
    return made


def _field(field: FieldDescriptor, value: Any) -> object:  # noqa: ANN401 (any type of Protobuf)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        of = field.message_type.fields_by_name["value"]
        return {_key(key): _one(of, one) for key, one in value.items()}
    return [_one(field, one) for one in value] if field.is_repeated else _one(field, value)


def _key(key: object) -> str:
    return key if isinstance(key, str) else str(key).lower() if isinstance(key, bool) else str(key)


def _one(field: FieldDescriptor, value: Any) -> object:  # noqa: ANN401
    if field.message_type is not None:
        return _object(value)
    if field.type == FieldDescriptor.TYPE_ENUM:
        symbol = field.enum_type.values_by_number.get(value)
        return value if symbol is None else symbol.name
    return value


def _unknown(unknown: UnknownFieldSet) -> list[dict[str, object]]:
    """What the schema does not know: number of the field, wire type, and what is there."""
    return [
        {
            "number": one.field_number,
            "wireType": one.wire_type,
            "value": _unknown(one.data) if one.wire_type == _GROUP else one.data,
        }
        for one in unknown
    ]
