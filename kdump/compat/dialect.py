"""How the releases of Kafka's tool differ in what they print: one frozen value for each.

A new release is a row here, what `kdump/decode/records.json` says of it, and its recorded runs (tests/RELEASES.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.java_values import MAX_DECOMPRESSED
from kdump.value import Value

if TYPE_CHECKING:
    from kdump.format.checkpoint.producer_snapshot import Release


class Dialect(Value):
    """One release of DumpLogSegments."""

    release: Release  # as `--compat` names it
    legacy_brace: bool  # a "}" follows the crc of a legacy message
    bare_payload: bool  # `--skip-record-metadata` begins a line without key with a blank instead of "|"
    snapshot_blank: bool  # a snapshot line without batch metadata ends with a blank
    starts_at_minus_one: bool  # the first offset of a deep iteration is compared with -1
    newest_first: bool  # index mismatches and non-consecutive offsets come newest first, and one by one
    names_time_index: bool  # "not found" complaints name their file
    scala_map: bool  # files come in the order of a Scala map, otherwise of a Java one
    walks_on: bool  # the time index check reads the log to its end for each entry
    version_bytes: int = 1  # of the version of an aborted transaction, which are looked at
    max_record: int | None = None  # bytes that a record of a compressed batch may claim; None: the array is asked for


_SCALA = (True, True, True, False, True, False, True, False)
_JAVA = Dialect(
    "4.3",
    False,
    False,
    snapshot_blank=False,
    starts_at_minus_one=True,
    newest_first=False,
    names_time_index=True,
    scala_map=False,
    walks_on=True,
)
DIALECTS = {
    "4.4": _JAVA.replace(release="4.4", version_bytes=2, max_record=MAX_DECOMPRESSED),
    "4.3": _JAVA,
    "4.2": Dialect("4.2", *_SCALA),
    "3.9": Dialect("3.9", *_SCALA),
}
DEFAULT = DIALECTS["4.4"]
