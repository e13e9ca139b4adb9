"""Options for schemas: where they are, and what is decoded by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.cli.options.help import option, options

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from kdump.decode.payload.records import SchemaDecoder, Schemas
    from kdump.exit_status import RunStatus

SCHEMA_OPTIONS = ("schemas", "key_schema", "value_schema")

schema_options = options(
    option(
        "--schemas",
        group="Keys and values",
        metavar="PATH",
        help="Decode Avro, Protobuf and JSON Schema by the schemas of PATH: a log.dir or a partition with _schemas, a "
        "directory of files, or a file.",
    ),
    option("--key-schema", group="Keys and values", metavar="FILE", help="Decode keys by this schema, framed or not."),
    option("--value-schema", group="Keys and values", metavar="FILE", help="The same for payloads."),
)


def schemas_of(given: Mapping[str, Any], status: RunStatus) -> Schemas | None:
    """Return what is decoded by, None where no option says so; one line tells what is missing for it.

    Args:
        given: the values of the options.
        status: of the run: sees what cannot be read.
    """
    if all(given[name] is None for name in SCHEMA_OPTIONS):
        return None
    from kdump.cli.options.common import limits_of
    from kdump.render.commentary import say
    from kdump.render.text.findings import FindingLines
    from kdump.state.schemas import loaded
    from kdump.storage.file_source import OpenFailure

    lines = FindingLines(say)

    def report(item: Any) -> None:  # noqa: ANN401 (a finding, or a failure)
        status.see(item)
        if isinstance(item, OpenFailure):
            say(f"kdump: {item.sentence}")
        else:
            lines(item)

    schemas = loaded([given[name] for name in SCHEMA_OPTIONS], limits_of(given), report)
    lines.end_of_file()
    if schemas.missing_library is not None:
        from kdump.words.install import to_install

        name = schemas.missing_library
        say(f"kdump: {name} is not installed, so what needs it is not decoded; to install it: {to_install(name)}")
    return schemas


def schema_decoder(given: Mapping[str, Any], status: RunStatus) -> SchemaDecoder | None:
    """Return what decodes by schemas, None where no option says so; arguments as `schemas_of`."""
    schemas = schemas_of(given, status)
    if schemas is None:
        return None
    from kdump.decode.payload.records import SchemaDecoder

    return SchemaDecoder(schemas)
