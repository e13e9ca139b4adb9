"""Transactions as the coordinator has them after loading a partition of `__transaction_state`.

Source: TransactionStateManager.loadTransactionMetadata, TransactionLog.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.batch import layout
from kdump.rows.coordinators import TransactionRow
from kdump.state.group_coordinator import CommitPlace
from kdump.state.messages import Unreadable, fields_of, kind_of, known, pack, read_key, read_value
from kdump.state.spill import Spill
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.format.record.chunk import Chunk
    from kdump.state.spill import Change

_LEAST_PACKED = 256  # bytes of a value that is packed where values do not fit into memory


class TransactionCoordinator:
    """Loads one partition.

    Args:
        doubt: takes a record that cannot be read, and why.
        partition: TOPIC-N.
    """

    def __init__(self, doubt: Callable[[CommitPlace, str], None], partition: str) -> None:
        self._doubt = doubt
        self._partition = partition
        self._values: dict[bytes, tuple[CommitPlace, bytes]] = {}  # the newest of each key, as it lies on disk
        self._spill = Spill()

    def add(self, path: str, chunk: Chunk) -> None:
        """Take records into account.

        Args:
            path: of the log.
            chunk: batches with the right CRC.

        Raises:
            SpillError: the values do not fit into memory, nor into a temporary file.
        """
        self._add(path, chunk)
        self._spill.took(len(chunk.view), self._held, self._change)

    def _held(self) -> Iterator[bytes]:
        """All values that are held."""
        return (value for _, value in self._values.values())

    def _change(self, change: Change) -> None:
        """Put what a function makes of each value that is held in its place."""
        self._values = {key: (place, change(value)) for key, (place, value) in self._values.items()}

    def _add(self, path: str, chunk: Chunk) -> None:
        batches, width, read = chunk.window.rows, layout.RECORD_WIDTH, fields_of(chunk)
        for r in range(chunk.filled):
            row = chunk.rows[r * width : (r + 1) * width]
            at = row[layout.R_BATCH] * layout.BATCH_WIDTH
            if batches[at + layout.MAGIC] >= layout.MAGIC_V2 and batches[at + layout.ATTRIBUTES] & layout.CONTROL_FLAG:
                continue
            where = batches[at + layout.POSITION], batches[at + layout.SIZE]
            place = CommitPlace(path, *where, row[layout.R_OFFSET], row[layout.R_TIMESTAMP])
            key, value = read(chunk.view, row)
            if key is None or kind_of(key) is None:
                self._doubt(place, "the key says no type of a record")
            elif kind_of(key) != 0:
                continue  # of a newer release: a coordinator passes over it
            elif value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = place, pack(value)

    def known(self) -> dict[int, KnownProducer]:
        """Look at each value once, and return what the coordinator knows of each producer that it has one of.

        What cannot be read is doubted now. `rows` then reads a value again when its row is wanted: the partitions of
        all transactions can take thousands of times what they take in the log.
        """
        found: dict[int, KnownProducer] = {}
        ids: dict[bytes, str] = {}
        for key, (place, held) in self._values.items():
            value = self._spill.get(held)
            name, read = read_key("TransactionLogKey", key), read_value("TransactionLogValue", value)
            for one in (name, read):
                if isinstance(one, Unreadable):
                    self._doubt(place, one.why)
            if isinstance(name, Unreadable) or isinstance(read, Unreadable):
                continue
            ids[key] = name["transactionalId"]
            producer, epoch = read["producerId"], read["producerEpoch"]
            other = found.get(producer)
            if other is None or other.producer_epoch < epoch:
                kept = pack(value, _LEAST_PACKED) if held is not value else value
                found[producer] = KnownProducer(epoch, ids[key], self._partition, kept)
        self._values = {key: self._values[key] for key in sorted(ids, key=ids.__getitem__)}
        return found

    def rows(self, *, exact: bool) -> Iterator[TransactionRow]:
        """Yield the transactions by transactional id, once `known` has looked at them.

        Args:
            exact: no newer values can have been erased or lost.
        """
        for key, (_, value) in self._values.items():
            name = read_key("TransactionLogKey", key)
            assert not isinstance(name, Unreadable)
            yield transaction_row(name["transactionalId"], self._spill.get(value), self._partition, exact=exact)


class KnownProducer(Value):
    """The newest that a coordinator has of a producer."""

    producer_epoch: int
    transactional_id: str
    partition: str  # TOPIC-N of the log
    value: bytes  # as it is held

    def row(self, *, exact: bool) -> TransactionRow:
        """Return all of it.

        Args:
            exact: no newer values can have been erased or lost.
        """
        return transaction_row(self.transactional_id, self.value, self.partition, exact=exact)


def transaction_row(transactional_id: str, value: bytes, partition: str, *, exact: bool) -> TransactionRow:
    """Return the row of a value that can be read.

    Args:
        transactional_id: whose it is.
        value: as it is held.
        partition: TOPIC-N of the log.
        exact: no newer values can have been erased or lost.
    """
    read = read_value("TransactionLogValue", value)
    assert not isinstance(read, Unreadable)
    listed, started = read["transactionPartitions"] or (), read["transactionStartTimestampMs"]
    partitions = sorted((topic["topic"], number) for topic in listed for number in topic["partitionIds"])
    return TransactionRow(
        transactional_id,
        read["producerId"],
        read["producerEpoch"],
        state=_state(read["transactionStatus"]),
        timeout_ms=read["transactionTimeoutMs"],
        start_timestamp=started if started >= 0 else None,
        last_update_timestamp=read["transactionLastUpdateTimestampMs"],
        partitions=tuple(f"{topic}-{number}" for topic, number in partitions),
        exact=exact,
        partition=partition,
    )


def _state(number: int) -> str:
    states = known().states("transaction")
    return states[number] if 0 <= number < len(states) else str(number)
