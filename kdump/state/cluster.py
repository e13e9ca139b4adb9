"""The verb cluster: brokers, topics, configurations and users at a time, and what lies where it should not.

Strategy: the metadata log is walked once over its headers; then a fold begins at the newest snapshot that is not behind
the place in question. Memory grows with the state. A difference is one fold from the earlier place to the later one, so
that each change has its record.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kdump.finding import Severity
from kdump.format.java_values import ABOVE_ALL
from kdump.format.read_limits import ReadLimits
from kdump.item import Progress
from kdump.rows.coordinators import ChangeRow, ClusterOrigin, ClusterRow, NodeDirectory, Remark
from kdump.state.cluster_check import check
from kdump.state.copies import Copies, told_once
from kdump.state.metadata_image import TOPIC_CONFIG, Secret, SetBy, same
from kdump.state.metadata_log import MetadataLog, Until
from kdump.state.partition_log import result_of, up_to
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import METADATA_TOPIC
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.finding import Finding
    from kdump.item import Checked, PartitionChecked
    from kdump.rows.coordinators import CopyChosen, Horizon
    from kdump.state.metadata_image import MetadataImage
    from kdump.state.metadata_log import Begun
    from kdump.state.partition_log import Cut, Steps
    from kdump.storage.log_dir import LogDir
    from kdump.storage.partition_dir import PartitionDir

    ClusterItem = (
        ClusterRow
        | ClusterOrigin
        | ChangeRow
        | Horizon
        | CopyChosen
        | Remark
        | Checked
        | PartitionChecked
        | Progress
        | Finding
        | OpenFailure
    )
    Named = dict[tuple[str, str], tuple[dict[str, Any], dict[str, SetBy]]]

KEY = (METADATA_TOPIC, 0)
_NOT_HERE = (
    f"no {METADATA_TOPIC}-0 here; each node has it in one of its log.dirs: its metadata.log.dir, else the first of "
    "log.dirs"
)
_PASSES = 2  # over the log: for its end and its times, and for what is in it
_OF_TOPICS = ("topic", "partition", "config")


class ClusterOptions(Value):
    """What was asked for."""

    at: int | None  # ms; None for the end
    at_offset: int | None  # the last record that counts; None for a time
    diff: tuple[int | None, int | None] | None  # two times, each ms or None for the end; None for no difference
    topics: frozenset[str]  # only these; none for all
    checks: tuple[str, ...]  # log directories that are compared with the state
    limits: ReadLimits  # what is read at most
    progress: bool = False  # yield how far it is
    origin: bool = False  # yield what else the cluster can be made again of

    @property
    def untils(self) -> tuple[Until, ...]:
        """What of the log counts: once, or for each side of a difference."""
        if self.diff is not None:
            return tuple(Until(when) for when in self.diff)
        return (Until(self.at, self.at_offset),)


def sound_image(paths: list[str]) -> MetadataImage | None:
    """Return the state at the end of a metadata log, None where it has damage, or where older records are missing.

    Args:
        paths: directories of the metadata log, as the user wrote them; the copy that a leader would have counts.
    """
    held: list[Finding | OpenFailure] = []
    copies = Copies(paths, held.append)
    if KEY not in copies.partitions:
        return None
    limits = ReadLimits()
    directory, _ = copies.choose(KEY, limits.max_batch_bytes)
    log = MetadataLog(directory, limits, held.append)
    begun = result_of(_at_end(log))
    directory.close()
    # what is wrong with the checkpoints of the log directory says nothing of the metadata log
    own = [one for one in held if isinstance(one, OpenFailure) or _is_below(directory.path, one.file)]
    is_damaged = any(isinstance(one, OpenFailure) or one.severity is Severity.ERROR for one in own)
    return begun.image if begun.image.is_whole and not is_damaged else None


def _is_below(directory: str, file: str) -> bool:
    return os.path.dirname(os.path.abspath(file)) == os.path.abspath(directory)


def _at_end(log: MetadataLog) -> Steps[Begun]:
    (end,) = yield from log.cuts([Until()])
    return (yield from log.fold((yield from log.begin(end, keep_origins=False)), end))


def cluster(paths: list[str], options: ClusterOptions) -> Iterator[ClusterItem]:
    """Yield the state of a cluster, after what is wrong with its metadata log.

    Args:
        paths: log directories, or directories of the metadata log, as the user wrote them.
        options: what was asked for.

    Yields:
        what was chosen and found, the Horizon, with `origin` the ClusterOrigin, ClusterRows kind by kind; with `diff`
        ChangeRows by offset in the place of the rows; then what is wrong with the log directories that are checked. In
        between, with `progress`, how far it is.

    Reports: R07, M01 to M05; what is wrong with a damaged log or snapshot.
    """
    return told_once(_cluster(paths, options))


def _cluster(paths: list[str], options: ClusterOptions) -> Iterator[ClusterItem]:
    held: list[Finding | OpenFailure] = []
    copies = Copies(paths, held.append)
    if KEY not in copies.partitions:
        is_clean = not any(isinstance(one, OpenFailure) and one.kind != "skipped" for one in held)
        yield from held
        for path in paths if is_clean else ():
            yield OpenFailure(path, "skipped", f"{path}: {_NOT_HERE}")
        for path in options.checks:
            yield OpenFailure(path, "other", f"{path}: cannot be checked: {_NOT_HERE}")
        return
    total = _PASSES * copies.size(KEY) if options.progress else 0
    directory, chosen = copies.choose(KEY, options.limits.max_batch_bytes)
    for item in up_to(total, directory.path, _state(directory, chosen, options, held, copies.log_dirs.values())):
        if not isinstance(item, Progress):
            yield item
        elif options.progress:
            yield item.replace(total=total)


def _state(
    directory: PartitionDir,
    chosen: CopyChosen | None,
    options: ClusterOptions,
    held: list[Finding | OpenFailure],
    log_dirs: Iterable[LogDir],
) -> Iterator[ClusterItem]:
    if chosen is not None:
        yield chosen
    log = MetadataLog(directory, options.limits, held.append)
    cuts = yield from log.cuts(options.untils)
    rows: list[ClusterRow | ChangeRow]
    if options.diff is not None:
        begun, rows = yield from _changes(log, cuts[0], cuts[1], options)
    else:
        begun = yield from log.fold((yield from log.begin(cuts[0], keep_origins=False)), cuts[0])
        rows = [ClusterRow(kind, fields) for kind, fields in begun.image.rows() if _wants(options, kind, fields)]
    directory.close()
    yield from held
    yield from _remarks(log, begun, cuts, options)
    yield log.horizon(begun)
    if options.origin:
        yield _origin(directory, begun, cuts[0], log_dirs)
    yield from rows
    yield from log.checked()
    if options.checks:
        yield from check(begun.image, directory.log_dir.property_text("cluster.id"), options.checks)


def _remarks(log: MetadataLog, begun: Begun, cuts: list[Cut], options: ClusterOptions) -> Iterator[Remark]:
    """Say why the state is not the one that was asked for."""
    name, asked = log.log.name, min(cut.offset for cut in cuts)
    if begun.begin > asked:
        yield Remark(f"{name}: older records are gone: the state is that of the snapshot at offset {begun.begin}")
    elif not begun.image.is_whole:
        yield Remark(
            f"{name}: the log begins at offset {begun.begin}, and no snapshot before it is here: much is missing"
        )
    if options.at_offset is not None and options.at_offset >= log.end_offset:
        yield Remark(f"{name}: offset {options.at_offset} is past the end: the log ends at {log.end_offset}")


def _origin(directory: PartitionDir, begun: Begun, cut: Cut, log_dirs: Iterable[LogDir]) -> ClusterOrigin:
    """Tell what else the cluster can be made again of."""
    known = tuple(
        NodeDirectory(one.path, one.property_text("cluster.id"), one.node, one.property_text("directory.id"))
        for one in log_dirs
    )
    cluster = directory.log_dir.property_text("cluster.id")
    offset = max(begun.begin, cut.offset)
    return ClusterOrigin(directory.path, offset, cluster, known, begun.image.voters, begun.image.is_whole)


def _wants(options: ClusterOptions, kind: str, fields: dict[str, Any]) -> bool:
    """Whether a row is asked for."""
    if not options.topics:
        return True
    if kind == "config":
        return fields["resourceType"] == TOPIC_CONFIG and fields["resourceName"] in options.topics
    return kind in _OF_TOPICS and fields["name" if kind == "topic" else "topic"] in options.topics


# --- differences ----------------------------------------------------------------------------------------------
def _changes(
    log: MetadataLog, before: Cut, after: Cut, options: ClusterOptions
) -> Steps[tuple[Begun, list[ClusterRow | ChangeRow]]]:
    """Return the fold, and what is not the same, by the offset of the record that made it so."""
    is_backwards = after[:2] < before[:2]
    early, late = (after, before) if is_backwards else (before, after)
    begun = yield from log.fold((yield from log.begin(early, keep_origins=True)), early)
    first = _copied(begun.image)
    gone: dict[tuple[str, str], SetBy] = {}
    if early[:2] < late[:2]:
        begun.image.gone.clear()
        if not log.log.is_whole(early, late):  # a snapshot behind the damage knows better
            begun = yield from log.begin(late, keep_origins=True)
        begun = yield from log.fold(begun, late)
        gone = begun.image.gone
    second = _copied(begun.image)
    old, new = (second, first) if is_backwards else (first, second)
    topics = _topics_of(options, old, new)
    rows: list[tuple[int, ChangeRow]] = []
    for identity in old.keys() | new.keys():
        if topics is None or identity in topics:
            rows.extend(_differences(identity, old, new, {} if is_backwards else gone, log.log.name))
    rows.sort(key=lambda one: (ABOVE_ALL if one[1].offset is None else one[1].offset, one[1].what, one[1].name, one[0]))
    return begun, [row for _, row in rows]


def _copied(image: MetadataImage) -> Named:
    return {name: (fields, dict(origins)) for name, (fields, origins) in image.named().items()}


def _topics_of(options: ClusterOptions, *sides: Named) -> set[tuple[str, str]] | None:
    """The kinds and names that are asked for, None for all."""
    if not options.topics:
        return None
    found = set()
    for kind, name in {one for side in sides for one in side}:
        topic = (
            name.rpartition("-")[0] if kind == "partition" else name.rpartition(" ")[0] if kind == "config" else name
        )
        if kind in _OF_TOPICS and topic in options.topics:
            found.add((kind, name))
    return found


def _differences(
    identity: tuple[str, str], old: Named, new: Named, gone: dict[tuple[str, str], SetBy], partition: str
) -> Iterator[tuple[int, ChangeRow]]:
    """Yield the number of each field of a row that is not the same, and the change."""
    kind, name = identity
    was, _ = old.get(identity, ({}, {}))
    now, origins = new.get(identity, ({}, {}))
    nobody = SetBy(None, None)
    for number, field in enumerate({**was, **now}):
        before, after = was.get(field), now.get(field)
        if same(field, before, after):
            continue
        by = origins.get(field, nobody) if identity in new else gone.get(identity, nobody)
        before, after = (None if isinstance(one, Secret) else one for one in (before, after))
        yield (
            number,
            ChangeRow(
                kind, name, partition, field=field, before=before, after=after, timestamp=by.timestamp, offset=by.offset
            ),
        )
