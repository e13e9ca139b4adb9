"""The options of `dump`, as one value."""

from __future__ import annotations

from kdump.format.batch import layout
from kdump.format.read_limits import MAX_BATCH_BYTES, MAX_UNCOMPRESSED_BYTES, ReadLimits
from kdump.value import Value

MAX_MESSAGE_SIZE = 5 * 1024 * 1024
"""--max-message-size by default. Source: DumpLogSegmentsOptions."""
STRING = "org.apache.kafka.tools.api.StringDecoder"  # of keys and values where no class is named


class DumpOptions(Value):
    """The options that decide what is read; how it is shown is the renderer's."""

    deep: bool = False  # read the records inside the batches
    contents: bool = False  # show keys and payloads
    skip_metadata: bool = False  # show nothing else of a record
    max_bytes: int = layout.MAX_INT  # read only this many bytes of each log
    max_message_size: int = MAX_MESSAGE_SIZE  # how far Kafka's index check looks for a batch, bytes
    verify_index_only: bool = False  # check an index, do not show its entries
    index_sanity_check: bool = False  # only the check that brokers had for an index
    base_offset: int | None = None  # for files whose name tells none
    kind: str | None = None  # for files whose name does not tell what they are; None to go by the name
    max_batch_bytes: int = MAX_BATCH_BYTES  # a larger batch is not held in memory, its records are not read
    # the records of one batch may have this many bytes when decompressed
    max_uncompressed_bytes: int = MAX_UNCOMPRESSED_BYTES

    @property
    def limits(self) -> ReadLimits:
        """What is read at most."""
        return ReadLimits(self.max_batch_bytes, self.max_uncompressed_bytes)
