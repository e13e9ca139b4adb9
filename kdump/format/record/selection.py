"""The selection of batches and records, and the filter that applies it.

Strategy: a batch whose header rules it out is dropped from its window before its records are read; records are marked
in a mask by the kernel, and what is marked moves together in its columns. So no object is made for a record, and what
comes out is a window or a chunk like any other.
"""

from __future__ import annotations

import os
import re
from array import array
from typing import TYPE_CHECKING

from kdump.format.batch import layout
from kdump.format.java_values import MAX_LONG, MIN_LONG
from kdump.format.record import _select
from kdump.format.record.chunk import Chunk
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from kdump.format.batch.window import Window


def contradiction(fields: Mapping[str, Any], spelled: Callable[[str], str]) -> str | None:
    """Return why two fields of a selection exclude each other, a sentence without its full stop; None where none do.

    Args:
        fields: those that are given, by their names in `Selection`.
        spelled: makes of such a name what the user has written.
    """
    if "limit" in fields and "tail" in fields:
        return f"{spelled('limit')} and {spelled('tail')} exclude each other"
    for what in ("offset", "time"):
        start, end = fields.get(f"from_{what}"), fields.get(f"to_{what}")
        if start is not None and end is not None and start > end:
            return f"{spelled(f'from_{what}')} {start} is after {spelled(f'to_{what}')} {end}"
    return None


def compiled(text: str) -> re.Pattern[str]:
    """Return a pattern for keys or values.

    Args:
        text: a regular expression.

    Raises:
        ValueError: it is none; the message is one line for the user.
    """
    import warnings  # few look for a pattern

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what a later Python may read otherwise
            return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"'{text}' is not a valid regular expression: {error}") from None


class Selection(Value):
    """A selection: every condition must hold; where one has several values, any of them will do."""

    # from_offset, to_offset: absolute offsets, half-open; None for no bound
    from_offset: int | None = None
    to_offset: int | None = None
    # from_time, to_time: ms since the epoch, half-open; None for no bound
    from_time: int | None = None
    to_time: int | None = None
    from_position: int | None = None  # batches that begin at or after this byte of their log
    # producers, epochs: producer ids and leader epochs of batches; none for any
    producers: tuple[int, ...] = ()
    epochs: tuple[int, ...] = ()
    # control, transactional: only batches with this attribute
    control: bool = False
    transactional: bool = False
    outcome: str | None = None  # "committed" or "aborted": only records with this fate; None for any
    tombstones: bool = False  # only records whose value is null
    keys: tuple[bytes, ...] = ()  # the keys of records, as bytes
    # patterns, value_patterns: are searched for in the keys of records, or in their values, as text
    patterns: tuple[re.Pattern[str], ...] = ()
    value_patterns: tuple[re.Pattern[str], ...] = ()
    # name and value of a header that records must have; None for any value
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    # min_size, max_size: bytes of key and value together, both inclusive; None for no bound
    min_size: int | None = None
    max_size: int | None = None
    limit: int | None = None  # records that are shown in all
    tail: int | None = None  # records that are shown of each partition, the last ones

    @property
    def by_record(self) -> bool:
        """Whether single records are chosen by what they are, or counted: then records are shown."""
        return self._by_content or self.limit is not None or self.tail is not None

    @property
    def is_search(self) -> bool:
        """Whether records are chosen by what they are or what their batches say, not only by place, time and number."""
        of_batch = self.producers or self.epochs or self.control or self.transactional
        return self._by_content or bool(of_batch) or self.outcome is not None

    @property
    def _by_content(self) -> bool:
        by_size = self.min_size is not None or self.max_size is not None
        return by_size or bool(self.keys or self.patterns or self.value_patterns or self.headers or self.tombstones)


_NONE = -1  # producer id and leader epoch of what has none
_ANY = array("q", [0])


class Filter:
    """Leaves what is wanted of the windows and chunks of one run.

    Args:
        selection: what is wanted.
        deep: records are read; without that a batch is wanted that its header does not rule out.

    Attributes:
        looks_inside: what is wanted may stand anywhere in a value or in headers.
    """

    def __init__(self, selection: Selection, *, deep: bool) -> None:
        one = selection
        flags = layout.CONTROL_FLAG * one.control | layout.TRANSACTIONAL_FLAG * one.transactional
        by_time = one.from_time is not None or one.to_time is not None
        ranges = (
            _or(one.from_offset, MIN_LONG),
            _or(one.to_offset, MAX_LONG),
            _or(one.from_time, MIN_LONG),
            _or(one.to_time, MAX_LONG),
        )
        self._bounds = array("q", [*ranges, by_time, one.from_position or 0, flags, one.tombstones, deep])
        self._producers = array("q", [len(one.producers), *one.producers])
        self._epochs = array("q", [len(one.epochs), *one.epochs])
        asked = [of for of in (one.producers, one.epochs) if of]
        self._wants_none = bool(asked) and all(_NONE in of for of in asked)
        self._keys, self._key_places = _packed([(key,) for key in one.keys])
        self._headers, self._header_places = _packed(one.headers)
        is_sized = one.min_size is not None or one.max_size is not None
        self._sizes = (_or(one.min_size, 0), _or(one.max_size, MAX_LONG)) if is_sized else None
        self._patterns = [_searching(one.patterns, of_value=False), _searching(one.value_patterns, of_value=True)]
        by_offset = one.from_offset is not None or one.to_offset is not None
        self._by_range = bool(by_offset or by_time or one.tombstones)
        self._by_header = bool(by_offset or by_time or one.from_position or flags or one.producers or one.epochs)
        self._bare = not one.by_record
        self._has_limit = one.limit is not None
        self.skip = 0  # wanted records that are still to be left out
        self.left = MAX_LONG if one.limit is None else one.limit  # records that may still be shown
        self.looks_inside = bool(one.patterns or one.value_patterns or one.headers)
        self._kept = array("q")
        self._shown = array("q")
        self._mask = bytearray()
        self._is_shown = self._has_records = False  # the batch that the next chunk may continue

    def begin(self, left: int) -> None:
        """Begin with a range of which nothing was read.

        Args:
            left: records that may still be shown.
        """
        self.left, self._is_shown, self._has_records = left, False, False

    @property
    def is_full(self) -> bool:
        """Whether all that may be shown is shown. Of the last records all is read up to the end of the log."""
        return self.left == 0 and self._has_limit

    def window(self, window: Window) -> Window:
        """Return the batches of a window that can have what is wanted; valid as long as the window is."""
        if not self._by_header:
            return window
        self._kept = _room(self._kept, window.count)
        if self._wants_none and window.count and min(window.column(layout.MAGIC)) < layout.MAGIC_V2:
            return self._with_old(window)
        count = _select.batches(window.rows, window.count, self._bounds, self._producers, self._epochs, self._kept)
        return window.some(self._kept, count)

    def _with_old(self, window: Window) -> Window:
        """The batches that can have what is wanted, where -1 is what formats without a producer or an epoch have."""
        some = _room(array("q"), window.count)
        width, kept = layout.BATCH_WIDTH, array("q")
        count = _select.batches(window.rows, window.count, self._bounds, _ANY, _ANY, some)
        new = _select.batches(window.rows, window.count, self._bounds, self._producers, self._epochs, self._kept)
        wanted = {self._kept[row + layout.POSITION] for row in range(0, new * width, width)}
        for row in range(0, count * width, width):
            if some[row + layout.MAGIC] < layout.MAGIC_V2 or some[row + layout.POSITION] in wanted:
                kept.extend(some[row : row + width])
        return window.some(kept, len(kept) // width)

    def count(self, chunk: Chunk) -> int:
        """Return how many records of a chunk are wanted."""
        self._mark(chunk)
        return self._mask.count(1, 0, chunk.filled)

    def chunk(self, chunk: Chunk) -> Chunk | None:
        """Return the wanted records of a chunk with their batches, None for nothing; its rows are overwritten.

        A batch without any record is wanted too where records are neither counted nor chosen by what they are.
        """
        self._mark(chunk)
        seen, marked = _select.cut(self._mask, chunk.filled, self.skip, self.left)
        self.skip = max(0, self.skip - seen)
        self.left -= marked
        width = layout.RECORD_WIDTH
        if not chunk.begun:
            self._is_shown = self._has_records = False
        size, first_is_shown = chunk.last - chunk.first, self._is_shown
        first_is_bare = not self._has_records
        rows_of_last = chunk.filled and chunk.rows[(chunk.filled - 1) * width + layout.R_BATCH] == chunk.last - 1
        bare = (2 * first_is_bare + chunk.done) * self._bare
        if size == 1 and bare != 3:  # the one batch is the first and the last
            bare = 0
        self._shown = _room(self._shown, size)
        rows = chunk.window.rows
        batches, records = _select.gather(
            chunk.rows,
            chunk.filled,
            self._mask,
            rows=rows,
            first=chunk.first,
            last=chunk.last,
            bare=bare,
            kept=self._shown,
        )
        first_at = rows[chunk.first * layout.BATCH_WIDTH + layout.POSITION]
        last_at = rows[(chunk.last - 1) * layout.BATCH_WIDTH + layout.POSITION]
        begun = bool(batches and first_is_shown and self._shown[layout.POSITION] == first_at)
        last_is_shown = batches and self._shown[(batches - 1) * layout.BATCH_WIDTH + layout.POSITION] == last_at
        goes_on = size == 1  # the batch of the chunk before is the last of this one too
        self._is_shown = bool(last_is_shown) or (goes_on and first_is_shown)
        self._has_records = bool(rows_of_last) or (goes_on and not first_is_bare)
        if not batches:
            return None
        window = chunk.window.some(self._shown, batches)
        cut = chunk.cut if records else None
        return Chunk(
            window,
            chunk.view,
            0,
            last=batches,
            begun=begun,
            rows=chunk.rows,
            filled=records,
            problem=None,
            done=chunk.done,
            cut=cut,
        )

    def _mark(self, chunk: Chunk) -> None:
        """Put 1 into the mask for each record of a chunk that is wanted, 0 for the others."""
        n, mask = chunk.filled, self._mask
        if len(mask) < max(n, 1):
            mask = self._mask = bytearray(max(n, 1))
        if self._by_range:
            _select.in_ranges(chunk.rows, n, self._bounds, mask)
        else:
            mask[:n] = b"\1" * n
        if self._sizes is not None:
            self._mark_sizes(chunk, *self._sizes)
        if self._key_places:
            _select.with_keys(chunk.view, chunk.rows, n, self._keys, self._key_places, mask)
        if self._header_places:
            _select.with_headers(chunk.view, chunk.rows, n, self._headers, self._header_places, mask)
        for searches, literal, of_value in self._patterns:
            if searches:
                _select.with_pattern(
                    chunk.view, chunk.rows, n, searches=searches, literal=literal, mask=mask, of_value=of_value
                )

    def _mark_sizes(self, chunk: Chunk, least: int, most: int) -> None:
        """Unmark the records of other sizes."""
        cut = chunk.cut
        if cut is None:
            _select.in_sizes(chunk.rows, chunk.filled, least, most, self._mask)
        elif not least <= max(cut.key_size, 0) + max(cut.value_size, 0) <= most:
            self._mask[0] = 0


def _searching(
    patterns: tuple[re.Pattern[str], ...], *, of_value: bool
) -> tuple[list[Callable[[str], object]], bytes, bool]:
    """What the kernel searches with, bytes that all that is found has, and where to look."""
    return [one.search for one in patterns], literal_of(patterns[0].pattern) if len(patterns) == 1 else b"", of_value


def literal_of(pattern: str) -> bytes:
    r"""Return bytes that are in every text in which a regular expression is found; empty where none are known.

    Only plain characters and escaped signs outside groups count: `^user-[0-9]+\.eu$` has `user-`.
    """
    if "|" in pattern or "(" in pattern or re.search(r"\\[^dws.:/_-]", pattern):
        return b""
    without_optional = re.sub(r"(\\?.)([*?]|\{[^}]*\})", ".", pattern)
    runs = re.split(r"\\[dws]|\[\^?\]?[^\]]*\]|[.^$+]", without_optional)
    plain = [run for run in runs if re.fullmatch(r"[\w\- :;,/@=]*", run)]
    return os.fsencode(max(plain, key=len, default=""))


def _or(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def _room(rows: array[int], count: int) -> array[int]:
    """The same array, or one with room for `count` rows of batches."""
    size = max(count, 1) * layout.BATCH_WIDTH
    return rows if len(rows) >= size else array("q", bytes(8 * size))


def _packed(many: list[tuple[bytes]] | tuple[tuple[bytes, bytes | None], ...]) -> tuple[bytes, array[int]]:
    """Put byte strings into one buffer, and the start and size of each into one array; size -1 for None."""
    data, places = bytearray(), array("q")
    for one in many:
        for part in one:
            places.extend((len(data), -1 if part is None else len(part)))
            data += part or b""
    return bytes(data) + b"\0", places
