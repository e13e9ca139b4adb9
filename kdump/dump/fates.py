"""What became of records, for `dump --fate`: their transaction, the log start, newer records of their key, retention.

Strategy: the selection is run once to learn the keys of what it finds; then the logs are walked once for the offsets
that readers get of these keys. A record is superseded by the next one of its key that readers get: not by one of an
aborted or open transaction, of a marker, or of a batch with a wrong CRC. What retention does, and where the log starts,
are the broker's own rules.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING

from kdump.broker.cleaner.cleaner_manager import reason
from kdump.broker.cleaner.tombstones import UNTIL, has_horizon, legacy_horizon, tombstone_of
from kdump.broker.producer.transaction_fates import ABORTED, COMMITTED, IN_DOUBT
from kdump.broker.wrong_unit import unit_sentence
from kdump.dump.checked import open_walk
from kdump.dump.last_stable import last_stable, log_reader
from kdump.dump.transaction_outcomes import NOBODY_KNOWS, OPEN, Outcomes, say_doubts
from kdump.finding import Code, Finding, Trait
from kdump.format.batch import layout
from kdump.format.batch.base_offset.right import unplaced
from kdump.format.batch.walk import settled_windows
from kdump.format.java_values import MAX_LONG, as_long
from kdump.format.read_limits import HELD_KEY_BYTES
from kdump.format.record.chunk import KEPT, Chunk, Fate
from kdump.format.record.reader import RecordReader
from kdump.storage.file_source import OpenFailure
from kdump.storage.segment import UnreadableError
from kdump.value import TupleValue, Value
from kdump.words.numbers import span
from kdump.words.time_units import unit_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from kdump.broker.cleaner.cleaner_manager import Cleanable
    from kdump.broker.config import Config, TopicConfig
    from kdump.broker.log_facts import LogReader
    from kdump.compat.dump_log_segments_options import DumpOptions
    from kdump.dump.input_file import InputFile
    from kdump.format.batch.window import Window

_MOST_KEYS = 500_000
_MOST_OFFSETS = 8_000_000  # of records of these keys
_POSITION_BITS = 48  # of a byte in a log
_MOST_PLACES = 4  # that a sentence names


class FateOptions(Value):
    """What decides over the fate of records besides the files."""

    config: Config  # of the broker and its topics
    now: int  # the clock, ms


class _Sought:
    """A key that a selection finds.

    Attributes:
        first, last: the places at which it was found first and last.
        offsets: of the records that readers get which the fate of one between these places can need, in order: those
            from the first place on, up to one behind the last.
    """

    __slots__ = ("first", "is_done", "last", "offsets")

    def __init__(self, place: int) -> None:
        self.first = self.last = place
        self.offsets = array("q")
        self.is_done = False  # there it is


class KeysFound:
    """The keys of what a selection finds, up to a limit.

    Attributes:
        full_at: from which offset on nothing was learnt, as there are too many records; None where they are all there.
    """

    def __init__(self) -> None:
        self.keys: dict[bytes, _Sought] = {}  # they, with the offsets of their records
        self.is_full = False  # there are more
        self.full_at: int | None = None
        self._bytes = 0
        self._offsets = 0

    def see(self, chunk: Chunk, log: int) -> None:
        """Learn the keys of a chunk, and where they were found.

        Args:
            chunk: of what is selected.
            log: its number, in order.
        """
        for number, key in enumerate(_keys_of(chunk)):
            if key is None:
                continue
            place = _place(chunk, number, log)
            if key in self.keys:
                self.keys[key].last = place
            elif not self.is_full:
                self._bytes += len(key)
                self.is_full = len(self.keys) >= _MOST_KEYS or self._bytes > HELD_KEY_BYTES
                if not self.is_full:
                    self.keys[key] = _Sought(place)

    def learn(self, key: bytes, place: int, offset: int) -> None:
        """Keep the offset of a record that readers get, if the fate of one that was found can need it.

        Args:
            key: of the record, one of these.
            place: it lies there; they come in order.
            offset: of the record.
        """
        sought = self.keys[key]
        if sought.is_done or place < sought.first or self.full_at is not None:
            return
        if self._offsets == _MOST_OFFSETS:
            self.full_at = offset
            return
        self._offsets += 1
        sought.offsets.append(offset)
        sought.is_done = place > sought.last


class _NotRead(TupleValue):
    """A place in which a newer record may be."""

    path: str  # of the log, or of the directory
    # first, last: its offsets, inclusive
    first: int = 0
    last: int = -1
    what: str = ""  # a place without known offsets, in words; empty for others

    @property
    def place(self) -> str:
        """The place in words."""
        return self.what or span(self.first, self.last, "offset")

    def overlaps(self, other: _NotRead) -> bool:
        """Tell whether both have an offset."""
        is_known = not (self.what or other.what)
        return is_known and self.first <= other.last and other.first <= self.last

    def before(self, path: str, offset: int) -> _NotRead:
        """Return what of it lies before an offset of a log; itself where that begins before it, or elsewhere."""
        is_over = not self.what and self.path == path and self.first < offset <= self.last
        return self._replace(last=offset - 1) if is_over else self

    def joined(self, other: _NotRead) -> _NotRead:
        """Return one place for both."""
        path = min(self.path, other.path, key=len)  # the directory, where one is only known to be in that
        return _NotRead(path, min(self.first, other.first), max(self.last, other.last))


class RecordFates:
    """Knows what became of the records in the logs of one directory.

    Args:
        logs: in order.
        options: limits.
        wanted: what decides besides the files.
        found: the keys that are asked for.

    Reports: L12 where there are too many keys, or records of them.
    """

    def __init__(self, logs: Sequence[InputFile], options: DumpOptions, wanted: FateOptions, found: KeysFound) -> None:
        self._options = options
        self._outcomes = Outcomes(logs, options)
        self._found = found
        self._path = logs[0].path
        self._doubts: dict[str, int] = {}
        self._not_read: list[_NotRead] = []
        self._more_not_read = 0
        self._odd_time: tuple[int, int] | None = None  # offset and timestamp of the first batch in a wrong unit
        reader = log_reader(logs[0], options.max_batch_bytes)
        self._cleaning = Cleaning(logs[0], reader, wanted)
        self._policy = self._cleaning.policy
        self._start, self._deleted = _retention(logs[0], reader, wanted, self._policy)
        self._waits = last_stable(logs[0], reader)
        if found.keys:
            for number, log in enumerate(self._outcomes.logs):
                self._learn(number, log)

    def limits(self) -> Iterator[Finding]:
        """Yield what was not looked at."""
        if self._found.is_full:
            why = (
                f"there are more than {len(self._found.keys)} keys: what supersedes records of the others is not known"
            )
            yield Finding(Code.L12, self._path, values={"why": why})
        if self._found.full_at is not None:
            why = f"there are more than {_MOST_OFFSETS} records of these keys: what supersedes a record is known"
            why += f" up to offset {self._found.full_at - 1} only; select fewer records"
            yield Finding(Code.L12, self._path, values={"why": why})

    def doubts(self) -> Iterator[OpenFailure]:
        """Yield one line on the records that were asked for and are in doubt."""
        yield from say_doubts(self._path, self._doubts, "whether it was committed or aborted is not known")
        if self._not_read and self._found.keys:
            more = f" and {self._more_not_read} more places" if self._more_not_read else ""
            places = ", ".join(one.place for one in self._not_read)
            what = f"{places}{more} cannot be read: a newer record of a key may be there"
            where = self._not_read[0].path if len(self._not_read) == 1 else os.path.dirname(self._path) or self._path
            yield OpenFailure(where, "skipped", f"{where}: {what}")
        yield from self._cleaning.when()
        if self._odd_time is not None:
            yield OpenFailure(self._path, "skipped", f"{self._path}: {unit_sentence(*self._odd_time)}")

    def of(self, log: InputFile, chunk: Chunk) -> list[Fate]:
        """Return what became of each record of a chunk.

        Args:
            log: that it is of.
            chunk: of selected records.
        """
        rows, window = chunk.rows, chunk.window
        known: dict[int, tuple[str | None, int]] = {}  # by batch: its transaction, and what is added to its offsets
        fates, is_compacted = [], self._cleaning.is_done
        for number, key in enumerate(_keys_of(chunk)):
            at = number * layout.RECORD_WIDTH
            k = rows[at + layout.R_BATCH]
            if k not in known:
                if self._odd_time is None and unit_of(window.cell(k, layout.MAX_TIMESTAMP)) is not None:
                    self._odd_time = window.cell(k, layout.BASE_OFFSET), window.cell(k, layout.MAX_TIMESTAMP)
                known[k] = self._outcomes.of(log.path, window, k), self._outcomes.shift(log.path, window, k)
            transaction, shift = known[k]
            offset = as_long(rows[at + layout.R_OFFSET] + shift)
            is_control = _has(window, k, layout.CONTROL_FLAG)
            sought = self._found.keys.get(key) if key is not None and not is_control else None
            after = None if sought is None else sought.offsets
            place = 0 if after is None else bisect_right(after, offset)
            superseded = after[place] if after is not None and place < len(after) else None
            doubt = None
            if transaction in NOBODY_KNOWS:
                transaction = None if transaction == IN_DOUBT else transaction
                doubt = self._outcomes.hole_behind(log.path, window, k)
                self._doubts[doubt] = self._doubts.get(doubt, 0) + 1
            fate = Fate(
                transaction,
                offset < self._start,
                superseded,
                deleted_at=None if log.log_base is None else self._deleted.get(log.log_base),
                is_sound=window.cell(k, layout.CRC) == window.cell(k, layout.COMPUTED_CRC),
                is_judged=self._policy is not None,
                doubt=doubt,
                waits_for=None if self._waits is None or offset < self._waits.first_offset else self._waits,
            )
            has_key, has_value = rows[at + layout.R_KEY_SIZE] >= 0, rows[at + layout.R_VALUE_SIZE] >= 0
            if is_compacted and (is_control or not (has_key and has_value)):  # most records are none of these
                fate = self._cleaning.of(
                    log, window, k, fate, is_control=is_control, has_key=has_key, has_value=has_value
                )
            fates.append(fate)
        return fates

    def _learn(self, number: int, log: InputFile) -> None:
        """Take the offsets of the wanted keys that readers get of a log."""
        source = log.open()
        if isinstance(source, OpenFailure):
            return  # it is said when the log is shown
        options = self._options
        reader = RecordReader.within(options)
        try:
            findings: list[Finding] = []
            walk = open_walk(log, source, options, findings)
            walk.checks.follow_producers = False
            for window in settled_windows(walk, findings):
                self._outcomes.see_misplaced(log.path, window, findings)
                lost = {window.cell(k, layout.POSITION) for k in unplaced(window, findings)}
                self._pass_over(findings, log.path, window, lost)
                for chunk in reader.chunks(_sound(self._outcomes.window(log.path, window, COMMITTED), lost)):
                    for at, key in enumerate(_keys_of(chunk)):
                        if key is not None and key in self._found.keys:
                            row = at * layout.RECORD_WIDTH
                            shift = self._outcomes.shift(log.path, chunk.window, chunk.rows[row + layout.R_BATCH])
                            offset = as_long(chunk.rows[row + layout.R_OFFSET] + shift)
                            self._found.learn(key, _place(chunk, at, number), offset)
            self._pass_over(findings, log.path)
            behind = self._outcomes.lost_behind(log, walk.checks.offsets.last, source.size)
            if behind is not None:
                self._cannot_read(_NotRead(os.path.dirname(log.path) or log.path, *behind))
        except OSError:
            self._cannot_read(_NotRead(log.path, what=log.path))

    def _pass_over(
        self, findings: list[Finding], path: str, window: Window | None = None, lost: AbstractSet[int] = frozenset()
    ) -> None:
        """Remember where nothing is learnt of keys; what damage says of its end does not reach over a true batch.

        Args:
            findings: about a log, since the last window.
            path: of the log.
            window: the batches that they are about; None behind the last.
            lost: positions of those whose offsets nobody knows.
        """
        true = self._true(path, window, lost) if window is not None and (findings or self._not_read) else []
        if true and self._not_read:
            self._not_read[-1] = self._not_read[-1].before(path, true[0][1])
        for one in findings:
            if not (one.gap or one.is_unplaced or Trait.BAD_CRC in one.code.traits):
                continue
            if one.code is Code.V03:
                continue  # a broker appends there: what is not whole yet no reader has
            if one.offset is None or one.is_unplaced:
                place = _NotRead(one.file, what=f"byte {one.position} on of {one.file}")
            else:
                place = _NotRead(one.file, one.offset, one.offset if one.last_offset is None else one.last_offset)
                behind = next((offset for position, offset in true if position > (one.position or 0)), None)
                place = place if behind is None else place.before(path, behind)
            self._cannot_read(place)
        findings.clear()

    def _true(self, path: str, window: Window, lost: AbstractSet[int]) -> list[tuple[int, int]]:
        """The position and the first offset of each batch of a window that is right."""
        sound = _sound(window, set(lost))
        return [
            (sound.cell(k, layout.POSITION), sound.cell(k, layout.BASE_OFFSET) + self._outcomes.shift(path, sound, k))
            for k in range(sound.count)
        ]

    def _cannot_read(self, place: _NotRead) -> None:
        """Remember a place in which a newer record may be; damage of several kinds may be about the same offsets."""
        if self._not_read and self._not_read[-1].overlaps(place):
            self._not_read[-1] = self._not_read[-1].joined(place)
        elif len(self._not_read) < _MOST_PLACES:
            self._not_read.append(place)
        else:
            self._more_not_read += 1


def _place(chunk: Chunk, number: int, log: int) -> int:
    """Where a record of a chunk lies, in the order of the logs; those of one batch are at one place."""
    k = chunk.rows[number * layout.RECORD_WIDTH + layout.R_BATCH]
    return log << _POSITION_BITS | chunk.window.cell(k, layout.POSITION)


def _keys_of(chunk: Chunk) -> Iterable[bytes | None]:
    """The keys of the records of a chunk; of one that is cut, its first bytes stand for it, None in truth."""
    if chunk.cut is not None and chunk.cut.key_size > KEPT:
        return [None] * chunk.filled
    view, rows, width = chunk.view, chunk.rows, layout.RECORD_WIDTH
    places = rows[layout.R_KEY_AT : chunk.filled * width : width]
    sizes = rows[layout.R_KEY_SIZE : chunk.filled * width : width]
    return [None if size < 0 else bytes(view[at : at + size]) for at, size in zip(places, sizes, strict=True)]


def _has(window: Window, k: int, flag: int) -> bool:
    return window.cell(k, layout.MAGIC) >= layout.MAGIC_V2 and bool(window.cell(k, layout.ATTRIBUTES) & flag)


def _sound(window: Window, unplaced: set[int]) -> Window:
    """The batches with a true CRC, without those at positions whose offsets nobody knows."""
    stored, computed = window.column(layout.CRC), window.column(layout.COMPUTED_CRC)
    if stored[: window.count] == computed[: window.count] and not unplaced:
        return window
    rows, width = array("q"), layout.BATCH_WIDTH
    for k in range(window.count):
        if stored[k] == computed[k] and window.cell(k, layout.POSITION) not in unplaced:
            rows.extend(window.rows[k * width : (k + 1) * width])
    return window.some(rows, len(rows) // width)


class Cleaning:
    """Knows what compaction makes of the records of a partition, besides those that newer ones supersede.

    Args:
        log: one of its logs.
        reader: of all of them; None where they cannot be read.
        wanted: what decides besides the files.

    Attributes:
        policy: the cleanup.policy of the topic, None where nobody knows it.
        is_done: the topic is compacted.
    """

    def __init__(self, log: InputFile, reader: LogReader | None, wanted: FateOptions) -> None:
        directory = log.directory
        topic = None if directory.parsed is None else directory.parsed.topic
        self.policy = wanted.config.policy(topic, directory.log_dir, directory.topic_id).now
        self.is_done = self.policy is not None and "compact" in self.policy
        self._directory, self._reader, self._wanted = directory, reader, wanted
        self._has_tombstones = False  # records were asked for that wait for a pass

    def of(
        self, log: InputFile, window: Window, k: int, fate: Fate, *, is_control: bool, has_key: bool, has_value: bool
    ) -> Fate:
        """Return a fate with what compaction makes of the record.

        Args:
            log, window, k: the batch of the record.
            fate: what is known without compaction.
            is_control: it is a marker, or another control record.
            has_key, has_value: they are not null.
        """
        magic, flags = window.cell(k, layout.MAGIC), window.cell(k, layout.ATTRIBUTES)
        if is_control:
            if not has_horizon(magic, flags):
                return fate.replace(is_marker=True)
        elif not has_key:
            return fate.replace(no_key=True)
        elif has_value or fate.superseded_by is not None or fate.transaction in (ABORTED, OPEN):
            return fate
        self._has_tombstones = True
        horizon, is_old = window.cell(k, layout.BASE_TIMESTAMP), False
        if magic < layout.MAGIC_V2 and log.log_base is not None:
            is_old = self._modified.get(log.log_base, MAX_LONG) <= self._legacy_horizon
        what = tombstone_of(magic, flags, horizon, self._wanted.now, drop_legacy=is_old)
        return fate.replace(tombstone=what, tombstone_until=horizon if what == UNTIL else None)

    def when(self) -> Iterator[OpenFailure]:
        """Yield whether a pass is due, for tombstones that were asked for."""
        if self._has_tombstones and self._facts is not None:
            part, config = self._facts[2:]
            path = self._directory.path
            yield OpenFailure(
                path, "skipped", f"{path}: tombstones go in passes of the cleaner: {reason(part, config)}"
            )

    @cached_property
    def _facts(self) -> tuple[dict[int, int], int, Cleanable, TopicConfig] | None:
        """Times of the logs, the horizon of magic 0 and 1, what may be cleaned, settings; None where nothing tells."""
        from kdump.broker.log_facts import cleanable_part, producers_at

        reader = self._reader
        if reader is None or reader.files.topic is None:
            return None
        files = reader.files
        try:
            config = self._wanted.config.on(reader.files.topic, self._directory.log_dir).of_topic(reader.files.topic)
            facts = reader.facts(None, None, {})
            known = producers_at(files, facts.end_offset)
            part = cleanable_part(files, facts, known, config, self._wanted.now)
            times = [reader.modified(number) for number in range(len(files.bases))]
        except (UnreadableError, OSError):
            return None
        horizon = legacy_horizon(files.bases, times, part.first_dirty_offset, config.delete_retention_ms)
        return dict(zip(files.bases, times, strict=True)), horizon, part, config

    @property
    def _modified(self) -> dict[int, int]:
        return {} if self._facts is None else self._facts[0]

    @property
    def _legacy_horizon(self) -> int:
        return 0 if self._facts is None else self._facts[1]


def _retention(
    log: InputFile, reader: LogReader | None, wanted: FateOptions, policy: frozenset[str] | None
) -> tuple[int, dict[int, int | None]]:
    """The log start offset, and by base offset when retention deletes a segment; nothing where files cannot be read."""
    from kdump.broker.remote_copy import tiered_facts
    from kdump.broker.retention import first_deleted

    directory = log.directory
    name = directory.parsed
    if reader is None or reader.files.topic is None or (name is not None and name.state):
        return 0, {}
    try:
        settings = wanted.config.on(reader.files.topic, directory.log_dir)
        config = settings.of_topic(reader.files.topic)
        facts = reader.facts(None, None, {}, is_tiered=config.is_tiered)
        if policy is None:
            return facts.start_offset, {}
        facts, _ = tiered_facts(reader, facts, config, settings.rules, wanted.now)
        at = first_deleted(facts, config, wanted.now)
        return facts.start_offset, dict(zip(reader.files.bases, at, strict=True))
    except (UnreadableError, OSError):
        return 0, {}
