"""The results of retention and compaction in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.cleaner.cleaner_manager import reason
from kdump.broker.config import DEFAULTS
from kdump.broker.retention import SIZE, START, TIME
from kdump.words.escape import escape
from kdump.words.numbers import counted
from kdump.words.numbers import size as bytes_words
from kdump.words.time_units import in_its_unit, unit_of
from kdump.words.times import age, duration, iso

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.broker.cleaner.cleaned_segment import CleanedSegment
    from kdump.broker.retention_results import Compacted, Retained

_NEVER = "never"


def policy_words(row: Retained) -> str:
    """Return the cleanup.policy, "unknown" where it is."""
    return "unknown" if row.policy is None else ",".join(sorted(row.policy)) or "none"


def assumed(row: Retained) -> str:
    """Return what was assumed of the configuration, beside what decides of it."""
    return "; ".join(one.replace(DEFAULTS, "else Kafka's defaults") for one in row.assumed)


def limits(row: Retained) -> str:
    """Return what decides over the segments of a log: its limits, and those of this disk and of copies."""
    config = row.config
    shown = [f"retention.ms={config.retention_ms}", f"retention.bytes={config.retention_bytes}"]
    if row.remote is not None:
        ms, size = row.remote.lag
        shown += [f"local.retention.ms={config.kept_ms}", f"local.retention.bytes={config.kept_bytes}"]
        shown += [f"remote.copy.lag.ms={ms}", f"remote.copy.lag.bytes={size}"] if row.remote.lag != (0, 0) else []
    return "  ".join(shown)


def remote_sentence(row: Retained) -> str:
    """Return what remote storage has of a tiered log; empty where nothing is copied there."""
    remote, segments = row.remote, row.log.segments
    if remote is None:
        return ""
    has = f"remote storage has offsets up to {remote.highest}" if remote.highest >= 0 else "remote storage has nothing"
    only = f"{counted(remote.local_segments, 'segment')}, {bytes_words(remote.local_bytes)}, only on this disk"
    waits = ""
    if remote.ready < segments[-1].base_offset:
        waits = f"; from offset {remote.ready} on nothing may be copied yet"
    return f"{has}; {only}{waits}"


def timestamp(value: int) -> str:
    """Return a timestamp of a record, "none" where there is none."""
    unit = unit_of(value)
    return (iso(value) if value >= 0 else "none") + (f" ({unit}?)" if unit else "")


def first(row: Retained, number: int) -> str:
    """Return from when on a segment goes."""
    if row.deletion is None:
        return "unknown"
    if number < len(row.gone):
        return "now"
    clock = row.first_deleted[number]
    return _NEVER if clock is None else iso(clock)


def verdict(row: Retained, number: int) -> str:
    """Return the sentence about one segment: why it goes, or why it stays."""
    if row.deletion is None:
        return "not known whether it goes: nothing here says whether its topic is deleted or compacted"
    if number < len(row.gone):
        return f"goes now: {_why_gone(row, row.deletion.reasons[number], number)}"
    return f"stays: {_why_stays(row, number)}"


def _why_gone(row: Retained, reason: str, number: int) -> str:
    segment, config = row.log.segments[number], row.config
    if reason == START:
        return f"{reason} {row.log.start_offset}: the next segment begins at {row.log.upper_bound(number)}"
    if reason == SIZE:
        left = sum(one.size for one in row.log.segments[number:])
        return f"{reason}: with it the log has {left} bytes, without it still {config.kept_bytes} or more"
    old = f"{age(row.now - segment.largest)} old, {_limit(row)} is {duration(config.kept_ms)}"
    hint = ""
    if segment.source == "mtime" and segment.size:
        hint = "; its time index has no timestamp"
    elif segment.max_in_data is not None and segment.max_in_data not in (-1, segment.largest):
        hint = f"; its data says {iso(segment.max_in_data)}"
    looks = in_its_unit(segment.largest)
    return f"{reason}: {iso(segment.largest)} is {old}{hint}{f'; it {looks}' if looks else ''}"


def _why_stays(row: Retained, number: int) -> str:
    log, config = row.log, row.config
    segment = log.segments[number]
    is_active = number == len(log.segments) - 1
    if is_active and not segment.size:
        return "the active segment has no batch"
    if log.high_watermark < log.upper_bound(number):
        return f"its end, {log.upper_bound(number)}, is above the high watermark {log.high_watermark}"
    if not config.delete:
        return "its topic is not deleted by size or time"
    if row.remote is not None and not log.is_copied(number):
        return "the active segment is never copied" if is_active else "remote storage does not have it"
    clock = row.first_deleted[number]
    if clock is None:
        if config.kept_bytes >= 0 and number == len(row.gone):
            return _until_size(row, number)
        if config.kept_ms < 0:
            return f"{_limit(row)} is -1"
        return "a segment before it stays"
    if clock <= row.now or segment.largest + config.kept_ms < row.now:
        return "an older segment stays, and protects it"
    if segment.largest > row.now:
        looks = in_its_unit(segment.largest)
        said = f", it {looks}" if looks else ""
        return f"its timestamp {iso(segment.largest)} is in the future{said}{_by_size(row, number)}"
    if clock > segment.largest + config.kept_ms + 1:
        return f"until {iso(clock)}, as long as an older segment"
    until = f"until {iso(clock)}, {duration(config.kept_ms)} after {iso(segment.largest)} ({TIME[segment.source]})"
    return f"{until}{_by_size(row, number)}"


def _by_size(row: Retained, number: int) -> str:
    """What size says of the first segment that stays; empty where no limit of size is given."""
    return f"; by size: {_until_size(row, number)}" if row.config.kept_bytes >= 0 and number == len(row.gone) else ""


def _until_size(row: Retained, number: int) -> str:
    """How much a log must grow until its first segment goes by size."""
    left = sum(one.size for one in row.log.segments[number:])
    grow = row.config.kept_bytes + row.log.segments[number].size - left
    limit = "retention.bytes" if row.remote is None else "local.retention.bytes"
    above = f", {left - row.config.kept_bytes} above {limit}," if left > row.config.kept_bytes else ""
    goes = f"a segment goes when it has {max(grow, 0)} more"
    return f"the log has {left} bytes{above} and {goes} ({limit}={row.config.kept_bytes})"


def _limit(row: Retained) -> str:
    """The name of the limit of age that holds for segments on this disk."""
    return "retention.ms" if row.remote is None else "local.retention.ms"


def rolling_sentence(row: Retained) -> str:
    """Return whether an append of one small record, with the clock as timestamp, rolls the active segment."""
    found, config = row.rolling, row.config
    reasons = []
    if found.size:
        reasons.append(f"segment.bytes is {config.segment_bytes}")
    if found.time:
        reasons.append(f"it is older than {duration(config.max_segment_ms)}")
    if found.index_full:
        reasons.append("its offset index is full")
    if found.timeindex_full:
        reasons.append("its time index is full")
    if found.offset_overflow:
        reasons.append("its offsets reach 2^31 above its base")
    if reasons:
        return f"an append now rolls it: {', '.join(reasons)}"
    if found.time is None:
        return (
            "not known whether an append now rolls it: its age counts from when the broker opened it, or has a random "
            "part"
        )
    return f"an append now does not roll it, unless it has more than {_room(row)} bytes"


def _room(row: Retained) -> int:
    return max(0, row.config.segment_bytes - row.log.segments[-1].size)


def choice(row: Compacted) -> str:
    """Return why the cleaner takes a log or not."""
    if row.policy is None:
        return "not known: nothing here says whether its topic is compacted"
    return reason(row.part, row.config) if row.config.compact else "its topic is not compacted"


def waits(segment: CleanedSegment) -> Iterator[str]:
    """Yield what of a segment waits for its time to go: tombstones, end markers."""
    if segment.tombstones:
        yield f"tombstones={segment.tombstones}{_span(segment.horizons)}"
    if segment.markers:
        yield f"markers={segment.markers}{_span(segment.marker_horizons)}"


def _span(horizons: tuple[int, int] | None) -> str:
    if horizons is None:
        return ""
    first_at, last_at = map(iso, horizons)
    return f" goFrom={first_at}" if first_at == last_at else f" goFrom={first_at}..{last_at}"


def outcome(row: Compacted) -> str:
    """Return what a pass comes to."""
    assert row.cleaned is not None
    if row.failure:
        return f"fails: {escape(row.failure)}; the broker marks the partition as uncleanable, and says so in its log"
    if row.policy is None:
        return "is not simulated: nothing here says whether the topic is compacted"
    if not row.part.chosen:
        return "does not take place: the log is not chosen"
    after = sum(segment.size for segment in row.cleaned)
    records = sum(segment.records for segment in row.cleaned)
    end = "" if row.end_offset == row.part.clean_until_offset else ", where the offset map is full"
    return f"endOffset={row.end_offset}{end} before={row.before} after={after} records={records}"
