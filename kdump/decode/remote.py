"""Records of __remote_log_metadata, as toString of Kafka's classes: names are printed raw, not escaped.

Source: org.apache.kafka.tools.DumpLogSegments.RemoteMetadataLogMessageParser,
org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde
"""

from __future__ import annotations

from binascii import a2b_base64
from typing import TYPE_CHECKING

from kdump.decode.decoded import Decoded
from kdump.decode.metadata import Framed, Frames, UnframedError
from kdump.decode.wire import Value

if TYPE_CHECKING:
    from kdump.decode.decoded import Decoder
    from kdump.decode.table import Table

Data = dict[str, Value]


def decoder(known: Table) -> Decoder:
    """Return the decoder of remote storage records; keys are not looked at.

    Args:
        known: the table of the release.
    """
    frames = Frames(known, "remote")
    texts = _Texts(known)

    def decode(offset: int, _key: bytes | None, value: bytes | None) -> Decoded:
        try:
            record = frames.read(_there(known, value))
            text = texts.of(str(record.name), record.data)
        except UnframedError as problem:
            return Decoded(None, f"Error at offset {offset}, skipping. {problem}".encode())
        return Decoded(None, text.encode(), payload_object=record.object)

    return decode


def _there(known: Table, value: bytes | None) -> bytes:
    """Return a value.

    Raises:
        UnframedError: there is none.
    """
    if value is None:
        call = 'Cannot invoke "java.nio.ByteBuffer.remaining()"'
        raise UnframedError(f'{call} because the return value of "{known.fact("recordClass")}.value()" is null')
    return value


def open_decoder(known: Table) -> Decoder:
    """Return the decoder of remote storage records for JSON: see `kdump.decode.open_decoder`.

    Args:
        known: an open table.
    """
    frames = Frames(known, "remote")
    texts = _Texts(known)

    def decode(offset: int, _key: bytes | None, value: bytes | None) -> Decoded:
        try:
            record = frames.read(_there(known, value))
        except UnframedError as problem:
            text = None if problem.is_limit else f"Error at offset {offset}, skipping. {problem}".encode()
            return Decoded(None, text, warning=str(problem))
        return Decoded(None, None, payload_object=record.object, note=record.strange, warning=texts.refusal(record))

    return decode


class _Texts:
    """The records as Java objects: what their constructors refuse, and their toString.

    Source: RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate, RemotePartitionDeleteMetadata in
    org.apache.kafka.server.log.remote.storage, and RemoteLogSegmentMetadataSnapshot
    """

    def __init__(self, known: Table) -> None:
        fields = known.message("RemoteLogSegmentMetadataRecord").fields
        self._has_index_flag = any(field.name == "txnIndexEmpty" for field in fields)
        self._segment_states = known.states("remoteLogSegment")
        self._delete_states = known.states("remotePartitionDelete")
        self._by_name = {
            "REMOTE_LOG_SEGMENT_METADATA_RECORD": self._segment,
            "REMOTE_LOG_SEGMENT_METADATA_UPDATE_RECORD": self._update,
            "REMOTE_PARTITION_DELETE_METADATA_RECORD": self._deletion,
            "REMOTE_LOG_SEGMENT_METADATA_SNAPSHOT_RECORD": self._snapshot,
        }

    def of(self, name: str, data: Data) -> str:
        """Return the text of a record.

        Raises:
            UnframedError: Java refuses its values.
        """
        return self._by_name[name](data)

    def refusal(self, record: Framed) -> str | None:
        """Return why Java refuses the values of a record, None where it does not, or does not know the type."""
        if record.name not in self._by_name:
            return None
        try:
            self.of(str(record.name), record.data)
        except UnframedError as problem:
            return str(problem)
        return None

    def _segment(self, data: Data) -> str:
        start, end = data["startOffset"], data["endOffset"]
        if start < 0:
            text = "StartOffset for a remote segment cannot be negative"
            raise UnframedError(f"Unexpected start offset = {start}. {text}")
        if end < start:
            text = f"EndOffset for a remote segment cannot be less than startOffset = {start}"
            raise UnframedError(f"Unexpected end offset = {end}. {text}")
        return (
            f"RemoteLogSegmentMetadata{{remoteLogSegmentId={_segment_id(data)}, "
            f"startOffset={start}, endOffset={end}, brokerId={data['brokerId']}, "
            f"maxTimestampMs={data['maxTimestampMs']}, eventTimestampMs={data['eventTimestampMs']}, "
            f"segmentLeaderEpochs={_epochs(data)}, segmentSizeInBytes={data['segmentSizeInBytes']}, "
            f"customMetadata={_custom(data)}, state={self._state(data)}{self._index_flag(data)}}}"
        )

    def _update(self, data: Data) -> str:
        return (
            f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={_segment_id(data)}, "
            f"customMetadata={_custom(data)}, state={self._state(data)}, "
            f"eventTimestampMs={data['eventTimestampMs']}, brokerId={data['brokerId']}}}"
        )

    def _deletion(self, data: Data) -> str:
        number = data["remotePartitionDeleteState"]
        if not 0 <= number < len(self._delete_states):
            raise UnframedError("null")
        return (
            f"RemotePartitionDeleteMetadata{{topicPartition={_partition(data['topicIdPartition'])}, "
            f"state={self._delete_states[number]}, "
            f"eventTimestampMs={data['eventTimestampMs']}, brokerId={data['brokerId']}}}"
        )

    def _snapshot(self, data: Data) -> str:
        state = self._state(data)
        return (
            f"RemoteLogSegmentMetadataSnapshot{{segmentId={data['segmentId']}, "
            f"startOffset={data['startOffset']}, endOffset={data['endOffset']}, "
            f"maxTimestampMs={data['maxTimestampMs']}, segmentLeaderEpochs={_epochs(data)}, "
            f"segmentSizeInBytes={data['segmentSizeInBytes']}, customMetadata={_custom(data)}, "
            f"state={state}{self._index_flag(data)}}}"
        )

    def _state(self, data: Data) -> str:
        number = data["remoteLogSegmentState"]
        if not 0 <= number < len(self._segment_states):
            raise UnframedError("state can not be null")
        return self._segment_states[number]

    def _index_flag(self, data: Data) -> str:
        if not self._has_index_flag:
            return ""
        return f", txnIdxEmpty={'true' if data.get('txnIndexEmpty') else 'false'}"


def _epochs(data: Data) -> str:
    """Return the leader epochs as a Java sorted map; the last offset of an epoch counts."""
    epochs = {entry["leaderEpoch"]: entry["offset"] for entry in data["segmentLeaderEpochs"]}
    if not epochs:
        raise UnframedError("segmentLeaderEpochs can not be null or empty")
    return "{" + ", ".join(f"{epoch}={offset}" for epoch, offset in sorted(epochs.items())) + "}"


def _custom(data: Data) -> str:
    metadata = data["customMetadata"]
    if metadata is None:
        return "Optional.empty"
    return f"Optional[CustomMetadata{{{len(a2b_base64(metadata))} bytes}}]"


def _partition(entry: Data) -> str:
    return f"{entry['id']}:{entry['name']}-{entry['partition']}"


def _segment_id(data: Data) -> str:
    entry = data["remoteLogSegmentId"]
    return f"RemoteLogSegmentId{{topicIdPartition={_partition(entry['topicIdPartition'])}, id={entry['id']}}}"
