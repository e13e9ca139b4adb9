"""Results for another cluster, of the cases of `rescue_truth`: they differ from plain ones in leader epochs alone.

`tests/rescue/test_destination.py` takes some; `python -m tests.support.rescue_loads --for` has Kafka load them too.
"""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

from kdump.rescue.destination import ClusterMetadata, Destination
from kdump.rescue.salvage import Wanted, salvage
from kdump.rows.salvaged import SalvageDone
from tests.support.healing import OPTIONS, Quick
from tests.support.partitions import checkpoint
from tests.support.rescue_truth.cases import case_of
from tests.support.rescue_truth.disks import EPOCHS, METADATA, PARTITION
from tests.support.rescue_truth.truth import Truth

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NEW_ID = "NNNNNNNNNNNNNNNNNNNNNA"
_PRESENT = (0, 0, 1, 2, 3, 5, 1000)


def fitted(root: Path, seed: int) -> tuple[Path, Path, int] | None:
    """Salvage a case as it is, and for another cluster.

    Args:
        root: an empty directory.
        seed: of the case.

    Returns:
        the directories of both results, and the present leader epoch there; None where nothing was written.
    """
    case = case_of(seed)
    sources = [str(path) for path in case.lay(root)]
    topic, _, number = PARTITION.rpartition("-")
    key, present = (topic, int(number)), random.Random(f"present {seed}").choice(_PRESENT)
    (root / "there").mkdir()
    known = ClusterMetadata({topic: NEW_ID}, {key: present}, {key: (1,)}, {}, {})
    named = PARTITION if Truth(case).runs is not None else None
    made = []
    for to, destination in (("plain", None), ("fitted", Destination(str(root / "there"), known))):
        options = OPTIONS.replace(below_log_start=case.below_log_start, destination=destination)
        if case.prefer is not None:
            options = options.replace(prefer=sources[case.prefer])
        (root / to).mkdir()
        items = salvage(sources, Wanted(str(root / to / "out"), named, ()), options, Quick())
        made += [root / to / "out" / PARTITION for item in items if isinstance(item, SalvageDone)]
    if len(made) == 1:
        raise AssertionError(f"case {seed}: {made[0]} was made alone")
    return (made[0], made[1], present) if made else None


def batches_of(log: bytes) -> Iterator[tuple[int, int | None, bytes]]:
    """Yield of each batch of a log its base offset, its leader epoch, None where it has none, and all other bytes."""
    at = 0
    while at < len(log):
        offset, size, epoch, magic = struct.unpack_from(">qiib", log, at)
        whole = log[at : at + 12 + size]
        if magic < 2:
            yield offset, None, whole
        else:
            yield offset, None if epoch == -1 else epoch, whole[:12] + whole[16:]
        at += 12 + size


def unfit(plain: Path, made: Path, present: int, start: int) -> Iterator[str]:
    """Yield what is not as it has to be in a result for another cluster.

    Args:
        plain: the result without that.
        made: the result.
        present: leader epoch there.
        start: log start offset.
    """
    names = sorted(one.name for one in plain.glob("*.log"))
    if names != sorted(one.name for one in made.glob("*.log")):
        yield "other segments"
        return
    latest, begins = -1, dict[int, int]()
    for name in names:
        pairs = zip(batches_of((plain / name).read_bytes()), batches_of((made / name).read_bytes()), strict=True)
        for (offset, before, rest), (_, after, other_rest) in pairs:
            if rest != other_rest:
                yield f"offset {offset}: other bytes"
            wanted = None if before is None else max(latest, min(before, present))
            if after != wanted:
                yield f"offset {offset}: epoch {before} is {after}, and not {wanted}"
            if wanted is not None and wanted > latest:
                latest = wanted
                begins[wanted] = offset
    at_start = max((epoch for epoch, offset in begins.items() if offset <= start), default=None)
    known = [(epoch, start if epoch == at_start else offset) for epoch, offset in begins.items()]
    known = [one for one in known if at_start is None or one[0] >= at_start]
    if (made / EPOCHS).read_bytes() != checkpoint(*known):
        yield f"{EPOCHS} is not {known}"
    if (made / METADATA).read_text() != f"version: 0\ntopic_id: {NEW_ID}":
        yield "another topic id"
