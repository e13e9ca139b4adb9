"""Transactions as the coordinator has them after loading a partition of `__transaction_state`.

Source: TransactionStateManager.loadTransactionMetadata, TransactionLog.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.format.batch import layout
from kdump.rows.coordinators import TransactionRow
from kdump.state.group_coordinator import CommitPlace
from kdump.state.messages import Unreadable, fields_of, kind_of, known, pack, read_key, read_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.format.record.chunk import Chunk


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
        self._states = known().states("transaction")

    def add(self, path: str, chunk: Chunk) -> None:
        """Take records into account.

        Args:
            path: of the log.
            chunk: batches with the right CRC.
        """
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

    def rows(self, *, exact: bool) -> Iterator[TransactionRow]:
        """Yield the transactions by transactional id.

        Args:
            exact: no newer values can have been erased or lost.
        """
        found = []
        for key, (place, value) in self._values.items():
            name, read = read_key("TransactionLogKey", key), read_value("TransactionLogValue", value)
            for one in (name, read):
                if isinstance(one, Unreadable):
                    self._doubt(place, one.why)
            if isinstance(name, Unreadable) or isinstance(read, Unreadable):
                continue
            listed, started = read["transactionPartitions"] or (), read["transactionStartTimestampMs"]
            partitions = sorted((topic["topic"], number) for topic in listed for number in topic["partitionIds"])
            found.append(
                TransactionRow(
                    name["transactionalId"],
                    read["producerId"],
                    read["producerEpoch"],
                    state=self._state(read["transactionStatus"]),
                    timeout_ms=read["transactionTimeoutMs"],
                    start_timestamp=started if started >= 0 else None,
                    last_update_timestamp=read["transactionLastUpdateTimestampMs"],
                    partitions=tuple(f"{topic}-{number}" for topic, number in partitions),
                    exact=exact,
                    partition=self._partition,
                )
            )
        yield from sorted(found, key=lambda row: row.transactional_id)

    def _state(self, number: int) -> str:
        return self._states[number] if 0 <= number < len(self._states) else str(number)
