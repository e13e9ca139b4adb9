"""What retention frees of a partition, and why compaction waits, from what the walk over its logs has seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.log_facts import LogFiles, LogReader, cleanable_part, producers_at
from kdump.broker.remote_copy import tiered_facts
from kdump.broker.retention import delete, first_deleted
from kdump.finding import ignore
from kdump.format.batch.window import Buffer
from kdump.format.source import BytesSource
from kdump.rows.usage import Freeable
from kdump.storage.segment import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kdump.broker.segment_reading import Outline
    from kdump.storage.partition_dir import PartitionDir
    from kdump.usage.options import UsageOptions

    Retains = tuple[Freeable | None, tuple[str, ...], tuple[str, ...]]
    """What retention frees (None: not known), why compaction waits, what was assumed."""


def freeable(partition: PartitionDir, seen: Mapping[int, Outline], options: UsageOptions) -> Retains | None:
    """Return what retention frees, why compaction waits, and what was assumed; None where it cannot be read.

    Args:
        partition: its directory.
        seen: by base offset what the headers of each log say.
        options: configuration and clock.
    """
    try:
        files = LogFiles(partition, ignore, options.max_batch_bytes)
        if not files.bases or files.topic is None:
            return None
        reader = LogReader(files, Buffer(BytesSource(b""), 1 << 18))
        for number, base in enumerate(files.bases):
            if base in seen:
                reader.know(number, seen[base])
        policy = options.config.policy(files.topic, partition.log_dir, partition.topic_id)
        settings = options.config.on(files.topic, partition.log_dir)
        config = settings.of_topic(files.topic)
        log = reader.facts(None, None, {}, is_tiered=config.is_tiered)
        log, of_remote = tiered_facts(reader, log, config, settings.rules, options.now)
        said = settings.assumed_release, settings.assumed(files.topic, policy), of_remote
        assumed = tuple(filter(None, said))
        if policy.now is None:
            return None, (), assumed
        gone = delete(log, config, options.now)
        sizes = [segment.size for segment in log.segments]
        count = len(gone.reasons)
        later = [
            (at, size)
            for at, size in zip(first_deleted(log, config, options.now), sizes, strict=True)
            if at is not None and at > options.now
        ]
        next_at = min((at for at, _ in later), default=None)
        free = Freeable(
            size=sum(sizes[:count]),
            segments=count,
            next_at=next_at,
            next_bytes=sum(size for at, size in later if at == next_at),
            why=gone.reasons[0] if gone.reasons else None,
        )
        waits: tuple[str, ...] = ()
        if config.compact:
            part = cleanable_part(files, log, producers_at(files, log.end_offset), config, options.now)
            if not part.chosen:
                waits = (*part.why, _ratio(part.dirty_ratio, config.min_cleanable_dirty_ratio))
        return free, waits, assumed
    except (UnreadableError, OSError):
        return None


def _ratio(found: float | None, wanted: float) -> str:
    return f"dirty ratio {found or 0:.2f} of {wanted:.2f}"


def together(
    parts: list[Retains],
) -> Retains:
    """Add up what is said of several partitions; what is not known of one is not known of all."""
    assumed = tuple(dict.fromkeys(what for _, _, some in parts for what in some))
    free = [one for one, _, _ in parts if one is not None]
    if not parts or len(free) < len(parts):
        return None, (), assumed
    next_at = min((one.next_at for one in free if one.next_at is not None), default=None)
    reasons = dict.fromkeys(one.why for one in free if one.why is not None)
    merged = Freeable(
        size=sum(one.size for one in free),
        segments=sum(one.segments for one in free),
        next_at=next_at,
        next_bytes=sum(one.next_bytes for one in free if one.next_at == next_at and next_at is not None),
        why="; ".join(reasons) or None,
    )
    waits = tuple(dict.fromkeys(why for _, some, _ in parts for why in some))
    return merged, waits, assumed
