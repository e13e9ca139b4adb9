"""The verb transactions: what coordinators have, which transactions are open, and which of these hang."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding
from kdump.item import Progress
from kdump.rows.coordinators import OpenRow, TransactionRow
from kdump.state.copies import Copies
from kdump.state.doubt import Doubt
from kdump.state.open_transactions import open_transactions
from kdump.state.partition_log import START, PartitionLog, up_to
from kdump.state.transaction_coordinator import KnownProducer, TransactionCoordinator
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import TRANSACTIONS_TOPIC
from kdump.storage.paths import real
from kdump.value import Value
from kdump.words.command import ShellCommand
from kdump.words.times import iso
from kdump.workers import in_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.format.read_limits import ReadLimits
    from kdump.item import Checked, PartitionChecked
    from kdump.rows.coordinators import CopyChosen, Horizon
    from kdump.state.open_transactions import OpenTransaction
    from kdump.storage.partition_dir import PartitionDir

    TransactionItem = (
        TransactionRow | OpenRow | Horizon | CopyChosen | Checked | PartitionChecked | Progress | Finding | OpenFailure
    )

_WAITING = ("Ongoing", "PrepareCommit", "PrepareAbort")
_TOOL = "kafka-transactions.sh", "--bootstrap-server", "HOST:PORT", "abort"
_NOT_HERE = (
    f"no partition of {TRANSACTIONS_TOPIC} here; each transactional id is in one, kdump partition-for ID tells in "
    "which: name the log.dirs of all brokers"
)


class TransactionOptions(Value):
    """What was asked for."""

    at: int | None  # ms; None for the end
    hanging: bool  # only transactions that hang, or of which nobody can tell
    limits: ReadLimits  # what is read at most
    jobs: int = 1  # processes; 0 for every core
    progress: bool = False  # yield how far it is
    topics: frozenset[str] = frozenset()  # only transactions that write to these
    partitions: frozenset[str] = frozenset()  # or to these, TOPIC-N; all where neither names any

    def wants(self, name: str) -> bool:
        """Tell whether a partition was asked for.

        Args:
            name: of it, TOPIC-N.
        """
        is_asked = name in self.partitions or name.rpartition("-")[0] in self.topics
        return is_asked or not (self.topics or self.partitions)

    @property
    def passes(self) -> int:
        """How often a log is read: for its times, and for what is in it."""
        return 1 + (self.at is not None)


def transactions(paths: list[str], options: TransactionOptions) -> Iterator[TransactionItem]:
    """Yield the transactions of coordinators, then those that are open in partitions, each after what is wrong.

    Args:
        paths: partition directories and log directories, as the user wrote them.
        options: what was asked for.

    Yields:
        for each partition of `__transaction_state` what was chosen and found, its Horizon and TransactionRows by id;
        then for each partition OpenRows by first offset. In between, with `progress`, how far it is.

    Reports: P05, R07; what is wrong with a damaged log.
    """
    held: list[Finding | OpenFailure] = []
    copies = Copies(paths, held.append)
    is_clean = not any(isinstance(one, OpenFailure) and one.kind != "skipped" for one in held)
    yield from _drained(held)
    numbers = copies.of_topic(TRANSACTIONS_TOPIC)
    if not numbers and is_clean:
        named = {real(one.path) for some in copies.partitions.values() for one in some}
        for path in paths:
            if options.hanging or real(path) not in named:  # who names a partition asks for what is open in it
                yield OpenFailure(path, "skipped", f"{path}: {_NOT_HERE}")
    others = [key for key in copies.partitions if key[0] != TRANSACTIONS_TOPIC]
    keys = [key for key in others if options.wants(f"{key[0]}-{key[1]}")]
    before = sum(_size(copies, options, (TRANSACTIONS_TOPIC, number)) for number in numbers)
    total = before + sum(_size(copies, options, key) for key in keys) if options.progress else None
    coordinator = Coordinators(numbers)
    with in_order(numbers, partial(_coordinator, copies, options, held), options.jobs, total=total) as loaded:
        for item in chain.from_iterable(loaded):
            if isinstance(item, _Loaded):
                coordinator.add(item)
            else:
                yield item
    judge = partial(_partition, copies, options, held, coordinator)
    with in_order(keys, judge, options.jobs, total=total) as judged:
        for item in chain.from_iterable(judged):
            yield item.replace(done=before + item.done) if isinstance(item, Progress) else item


class _Loaded(Value):
    """A partition of `__transaction_state`."""

    producers: dict[int, KnownProducer]  # the newest of each
    partition: str  # TOPIC-N
    last_time: int  # the largest timestamp of its log, ms
    exact: bool  # no newer values can have been erased or lost


def _size(copies: Copies, options: TransactionOptions, key: tuple[str, int]) -> int:
    """The bytes that are read of a partition, as often as they may be; 0 where nobody wants to know."""
    return copies.size(key) * options.passes if options.progress else 0


def _drained(held: list[Finding | OpenFailure]) -> Iterator[Finding | OpenFailure]:
    yield from held
    held.clear()


def _coordinator(
    copies: Copies, options: TransactionOptions, held: list[Finding | OpenFailure], number: int
) -> Iterator[TransactionItem | _Loaded]:
    """Yield what a partition of `__transaction_state` comes to."""
    key = TRANSACTIONS_TOPIC, number
    directory, chosen = copies.choose(key, options.limits.max_batch_bytes)
    yield from up_to(_size(copies, options, key), directory.path, _loaded(directory, chosen, options, held))


def _loaded(
    directory: PartitionDir, chosen: CopyChosen | None, options: TransactionOptions, held: list[Finding | OpenFailure]
) -> Iterator[TransactionItem | _Loaded]:
    if chosen is not None:
        yield chosen
    log = PartitionLog(directory, options.limits, held.append)
    fold = TransactionCoordinator(Doubt(log, held.append, TRANSACTIONS_TOPIC), log.name)
    (cut,) = yield from log.cuts([options.at])
    for path, chunk in log.chunks(START, cut):
        fold.add(path, chunk)
        yield log.how_far
    producers = fold.known()  # a value that cannot be read is met only now: then nothing is exact
    directory.close()
    yield _Loaded(producers, log.name, log.last_time, log.is_exact(cut))
    yield from _drained(held)
    yield log.horizon
    if not options.hanging:
        yield from (
            row
            for row in fold.rows(exact=log.is_exact(cut))
            if any(map(options.wants, row.partitions)) or options.wants("")
        )
    yield from log.checked()


def _partition(
    copies: Copies,
    options: TransactionOptions,
    held: list[Finding | OpenFailure],
    coordinator: Coordinators,
    key: tuple[str, int],
) -> Iterator[TransactionItem]:
    """Yield what is open in a partition."""
    directory, chosen = copies.choose(key, options.limits.max_batch_bytes)
    judged = _judged(directory, chosen, options, held, coordinator, key)
    yield from up_to(_size(copies, options, key), directory.path, judged)


def _judged(
    directory: PartitionDir,
    chosen: CopyChosen | None,
    options: TransactionOptions,
    held: list[Finding | OpenFailure],
    coordinator: Coordinators,
    key: tuple[str, int],
) -> Iterator[TransactionItem]:
    log = PartitionLog(directory, options.limits, held.append)
    if not log.bases:
        yield from _drained(held)
        return
    (cut,) = yield from log.cuts([options.at])
    found = yield from open_transactions(log, cut, options.limits)
    rows = [coordinator.judge(*key, one) for one in found]
    directory.close()
    if chosen is not None and rows:
        yield chosen
    yield from _drained(held)
    for row in rows:
        if row.hanging:
            values: dict[str, int | str | None] = {"producer": row.producer_id, "why": row.why}
            place = row.position, row.length
            yield Finding(Code.P05, row.file, *place, offset=row.first_offset, values=values)
        if row.hanging is not False or not options.hanging:
            yield row
    yield from log.checked()


class Coordinators:
    """What all coordinators know together: judges open transactions as Kafka's find-hanging does.

    Args:
        numbers: of the partitions of `__transaction_state` that are here, ascending.

    Source: TransactionsCommand.FindHangingTransactionsCommand.filterHangingTransactions.
    """

    def __init__(self, numbers: list[int]) -> None:
        self._numbers = numbers
        self._by_producer: dict[int, tuple[KnownProducer, bool]] = {}  # and whether it is exact
        self._last_times: dict[str, int] = {}
        self._is_exact = True

    def add(self, loaded: _Loaded) -> None:
        """Take a partition into account."""
        self._is_exact = self._is_exact and loaded.exact
        for producer, one in loaded.producers.items():
            other = self._by_producer.get(producer)
            if other is None or other[0].producer_epoch < one.producer_epoch:
                self._by_producer[producer] = one, loaded.exact
        self._last_times[loaded.partition] = loaded.last_time
        self._last_times[""] = max(self._last_times.get("", -1), loaded.last_time)

    def judge(self, topic: str, partition: int, one: OpenTransaction) -> OpenRow:
        """Return an open transaction with what the coordinator has to do with it.

        Args:
            topic, partition: where it is open.
            one: the transaction.
        """
        entry = one.entry
        known, exact = self._by_producer.get(entry.producer_id, (None, False))
        row = None if known is None else known.row(exact=exact)
        hanging, why = self._verdict(f"{topic}-{partition}", one, row)
        epoch = entry.coordinator_epoch if entry.coordinator_epoch >= 0 else None
        where = *_TOOL, "--topic", topic, "--partition", str(partition)
        ids = "--producer-id", str(entry.producer_id), "--producer-epoch", str(entry.producer_epoch)
        return OpenRow(
            topic,
            partition,
            entry.producer_id,
            producer_epoch=entry.producer_epoch,
            transactional_id=None if row is None else row.transactional_id,
            first_offset=entry.current_txn_first_offset,
            log_end_offset=one.end_offset,
            blocked_records=one.blocked_records,
            blocked_bytes=one.blocked_bytes,
            since_timestamp=one.since,
            coordinator_state=None if row is None else row.state,
            coordinator_epoch=epoch,
            hanging=hanging,
            why="; ".join(why),
            abort_command=ShellCommand(*where, "--start-offset", str(entry.current_txn_first_offset)),
            abort_command_before30=ShellCommand(*where, *ids, "--coordinator-epoch", str(epoch or 0)),
            file=one.file,
            position=one.position,
            length=one.length,
        )

    def _verdict(self, name: str, one: OpenTransaction, row: TransactionRow | None) -> tuple[bool | None, list[str]]:
        """Whether it hangs, and the evidence."""
        entry = one.entry
        if not self._numbers:
            return None, ["no partition of __transaction_state is among the inputs: its end is unknown"]
        if row is None:
            hanging, why = self._nobody(entry.producer_id)
        else:
            its = f"transactional id {row.transactional_id} (producer {row.producer_id}, epoch {row.producer_epoch})"
            since = iso(row.last_update_timestamp)
            if row.state not in _WAITING:
                hanging, why = True, [f"{its} is in {row.state} since {since}: no marker will come"]
            elif name not in row.partitions:
                hanging, why = True, [f"{its} is in {row.state} without this partition: no marker will come here"]
            elif row.producer_epoch < entry.producer_epoch:
                why = [f"{its} is below epoch {entry.producer_epoch} of the producer here: its marker would be fenced"]
                hanging = True
            else:
                hanging, why = False, [f"{its} is in {row.state} with this partition: a marker will come"]
            if hanging and not row.exact:
                left = f"{its} is in {row.state} since {since} by what is left of its log"
                hanging, why = None, [f"{left}: whether a marker will come is unknown"]
        return hanging, [*why, *self._clocks(one, row)]

    def _nobody(self, producer: int) -> tuple[bool | None, list[str]]:
        """No coordinator that is here knows the producer."""
        missing = sorted(set(range(self._numbers[-1])) - set(self._numbers))
        if not self._is_exact or self._last_times[""] < 0:
            what = "is damaged" if not self._is_exact else "is empty"
            return None, [f"no transaction of producer {producer} is here, but the log of a coordinator {what}"]
        if not missing:
            return True, [f"the coordinator has no transaction of producer {producer}: no marker will come"]
        count = f"{len(missing)} partitions" if len(missing) > 1 else f"partition {missing[0]}"
        why = f"no transaction of producer {producer} is here, but one of {count} of __transaction_state may have it"
        return None, [f"{why}: those below {self._numbers[-1]} are not all among the inputs"]

    def _clocks(self, one: OpenTransaction, row: TransactionRow | None) -> Iterator[str]:
        """What times say beside that."""
        entry = one.entry
        last = self._last_times.get(row.partition if row is not None else "", -1)
        if row is not None and row.state == "Ongoing" and row.start_timestamp is not None:
            ends = row.start_timestamp + row.timeout_ms
            if ends < max(last, one.last_timestamp):
                yield f"its timeout of {row.timeout_ms} ms passed at {iso(ends)}"
        if last < entry.timestamp:
            until = "is empty" if last < 0 else f"ends at {iso(last)}"
            yield (
                f"the log of the coordinator {until}, before the transaction's last batch at "
                f"{iso(entry.timestamp)}: it may not have all of it"
            )
        if row is not None and row.state not in _WAITING and row.last_update_timestamp > one.last_timestamp:
            yield "the coordinator's record is newer than this log: its marker may have come since"
        if not self._is_exact:
            yield "the log of a coordinator is damaged, or its older values are erased: look there first"
