"""How a node reads bootstrap.checkpoint at each start: its whole batches, whatever their CRC says.

Source: BootstrapDirectory.read, BatchFileReader, BootstrapMetadata.fromRecords, FileLogInputStream; Kafka 4.3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.load.release_refusal import METADATA_VERSION
from kdump.compat.kafka_walk import KafkaWalk
from kdump.decode.metadata import Frames, UnframedError
from kdump.decode.table import table
from kdump.format.batch import layout
from kdump.format.java_values import RUNTIME
from kdump.format.record.reader import RecordReader, key_and_value

if TYPE_CHECKING:
    from kdump.broker.releases import Rules
    from kdump.format.read_limits import ReadLimits
    from kdump.format.source import Source

_FEATURE = "FEATURE_LEVEL_RECORD"


def bootstrap_failure(source: Source, rules: Rules, limits: ReadLimits) -> str | None:
    """Return what a node throws that reads the file, class and message; None where it finds metadata.version in it.

    Args:
        source: the file.
        rules: of its release.
        limits: a batch over them is passed over.

    Raises:
        OSError: it cannot be read.
    """
    frames, reader = Frames(table(rules.release), "metadata"), RecordReader.within(limits)
    is_found, width = False, layout.RECORD_WIDTH
    walk = KafkaWalk(source, source.name, 0, source.size, limits.max_batch_bytes)
    for window in walk.windows():
        for chunk in reader.chunks(window):
            for r in range(0, chunk.filled * width, width):
                row = chunk.rows[r : r + width]
                if window.cell(row[layout.R_BATCH], layout.ATTRIBUTES) & layout.CONTROL_FLAG:
                    continue
                try:
                    record = frames.read(key_and_value(chunk.view, row)[1] or b"")
                except UnframedError:
                    return f"{RUNTIME}: unable to deserialize record at offset {row[layout.R_OFFSET]}"
                is_found = is_found or (record.name == _FEATURE and record.data["name"] == METADATA_VERSION)
    if walk.failure is not None:
        return walk.failure
    if is_found:
        return None
    what = f"No FeatureLevelRecord for {METADATA_VERSION} was found in the bootstrap metadata"
    return f"{RUNTIME}: {what} from the binary bootstrap metadata file: {source.name}"
