"""Records of __transaction_state as 3.9 prints them: text, and an end of the run where they are damaged.

Source: kafka.coordinator.transaction.TransactionLog.formatRecordKeyAndValue (3.9)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.decode.decoded import DELETED, Decoded
from kdump.decode.wire import UNDERFLOW, MalformedError, Value, int32
from kdump.format.java_values import string_hash

if TYPE_CHECKING:
    from kdump.decode.decoded import Decoder
    from kdump.decode.schema import Schema
    from kdump.decode.table import Table

_ILLEGAL_STATE = "java.lang.IllegalStateException"
_NULL = "java.lang.NullPointerException"
_NULL_KEY = 'Cannot invoke "java.nio.ByteBuffer.getShort()" because "buffer" is null'
_NULL_PARTITIONS = (
    'Cannot invoke "java.util.List.forEach(java.util.function.Consumer)" because the return value of '
    '"org.apache.kafka.coordinator.transaction.generated.TransactionLogValue.transactionPartitions()" is null'
)
_SMALL_SET = 4


def decoder(known: Table) -> Decoder:
    """Return the decoder of transaction records as text.

    Args:
        known: the table of the release.
    """
    of_key, of_value = known.schema("TransactionLogKey"), known.schema("TransactionLogValue")
    states = known.states("transaction")

    def decode(_offset: int, key: bytes | None, value: bytes | None) -> Decoded:
        try:
            if key is None:
                raise MalformedError(_NULL, _NULL_KEY)
            kind = _short(key)
            if not of_key.low <= kind <= of_key.high:
                return Decoded(f"unknown::version={kind}".encode(), None)
            data = of_key.read(key, 2, kind)[0]
            text = f"transaction_metadata::transactionalId={data['transactionalId']}".encode()
            key_object = {"type": str(kind), "data": data}
            if value is None:
                return Decoded(text, DELETED, None, key_object)
            version, data = _value(value, of_value)
            payload = _payload(data, states).encode()
        except MalformedError as problem:
            return Decoded(None, None, str(problem))
        return Decoded(text, payload, None, key_object, {"version": str(version), "data": data})

    return decode


def _short(data: bytes) -> int:
    if len(data) < 2:
        raise MalformedError(UNDERFLOW)
    return int.from_bytes(data[:2], signed=True)


def _value(value: bytes, schema: Schema) -> tuple[int, dict[str, Value]]:
    version = _short(value)
    if not schema.low <= version <= schema.high:
        raise MalformedError(_ILLEGAL_STATE, f"Unknown version {version} from the transaction log message value")
    return version, schema.read(value, 2, version)[0]


def _payload(data: dict[str, Value], states: list[str]) -> str:
    number = data["transactionStatus"]
    if not 0 <= number < len(states):
        source = "from the transaction status message"
        raise MalformedError(_ILLEGAL_STATE, f"Unknown transaction state id {number} {source}")
    batches = data["transactionPartitions"] if number else []
    if batches is None:
        raise MalformedError(_NULL, _NULL_PARTITIONS)
    return (
        f"producerId:{data['producerId']},producerEpoch:{data['producerEpoch']},state={states[number]},"
        f"partitions=[{','.join(_hash_order(batches))}],"
        f"txnLastUpdateTimestamp={data['transactionLastUpdateTimestampMs']},txnTimeoutMs={data['transactionTimeoutMs']}"
    )


def _hash_order(batches: list[dict[str, Value]]) -> list[str]:
    """Return "topic-partition" names in the order of Scala's mutable.HashSet, filled topic by topic.

    The table of 16 slots grows when a set of partitions would alone fill it to more than three quarters. Up
    to four partitions are added one by one, and only then what is in the table already counts too. Slots are
    in order of the low bits of the mixed hash, elements within a slot in order of the hash.

    Source: scala.collection.mutable.HashSet.addAll, scala.collection.immutable.Set (2.13)
    """
    slots = 16
    hashes: dict[tuple[str, int], int] = {}
    for batch in batches:
        topic = batch["topic"]
        partitions = dict.fromkeys(batch["partitionIds"])
        while slots * 3 // 4 < len(partitions) + 1:
            slots *= 2
        start = string_hash(topic)
        for partition in partitions:
            if len(partitions) <= _SMALL_SET and len(hashes) + 1 >= slots * 3 // 4:
                slots *= 2
            value = (31 * int32(31 + partition) + start) & 0xFFFFFFFF
            hashes.setdefault((topic, partition), int32(value ^ value >> 16))
    order = sorted(hashes, key=lambda name: (hashes[name] & (slots - 1), hashes[name]))
    return [f"{topic}-{partition}" for topic, partition in order]
