"""A batch that a new leader began below the end of the one before: it is in all copies, cleaned or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.rescue.test_rescue_cases import rescued
from tests.support.partitions import Files, write
from tests.support.rescue_cases import PARTITION, Part, part, parts, replica
from tests.support.segments import TIME, Record, batch
from tests.support.whole_lines import run_kdump

if TYPE_CHECKING:
    from pathlib import Path

OLD, NEW = part(8, 3, 0), part(10, 3, 3, "new")
BEFORE, BEHIND = parts(0, 8), parts(13, 17, 3, "new")
LINE = [(0, 1, 0), (2, 3, 0), (4, 5, 0), (6, 7, 0), (8, 10, 0), (10, 12, 3), (13, 14, 3), (15, 16, 3)]
EPOCHS = [(0, 0), (3, 10)]


def cleaned(whole: Part, *kept: int) -> Part:
    """What a cleaner has left of a batch of three records."""
    value = "new" if whole.epoch else "v"
    records = [Record(f"{value}{whole.first + at}".encode(), f"k{whole.first + at}".encode(), delta=at) for at in kept]
    data = batch(whole.first, records, last_delta=2, base_timestamp=TIME + whole.first, epoch=whole.epoch)
    return whole._replace(data=data)


WHOLE = replica([(0, [*BEFORE, OLD, NEW, *BEHIND])], epochs=EPOCHS, end=17)


def lay(root: Path, *copies: Files) -> None:
    for number, files in enumerate(copies):
        write(root / f"b{number}" / PARTITION, files)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    "some",
    [
        [part(0, 2), cleaned(OLD, 0, 2), NEW, *BEHIND],
        [part(0, 2), cleaned(OLD, 1), cleaned(NEW, 1, 2), *BEHIND],
        [part(0, 2), NEW, *BEHIND],
        [cleaned(NEW, 2), *BEHIND],
        [part(0, 2), OLD.broken(), NEW, *BEHIND],
    ],
    ids=["old", "both", "gone", "first", "broken"],
)
def test_a_cleaned_copy_has_the_overlap_too(some: list[Part], order: int, tmp_path: Path) -> None:
    copies = [WHOLE, replica([(0, some)], epochs=EPOCHS, end=17)]
    lay(tmp_path, *copies[::order])
    made = rescued(tmp_path)
    assert made.batches == LINE
    assert made.epochs == EPOCHS
    assert made.of("divergent") == made.of("lost") == made.of("doubtful") == []
    assert made.exit == 0


def test_a_roll_between_the_two_changes_nothing(tmp_path: Path) -> None:
    """The next log has the name of the end before it. Source: LocalLog.roll."""
    rolled = replica([(0, [part(0, 2), cleaned(OLD, 0, 1)]), (11, [NEW, *BEHIND])], epochs=EPOCHS, end=17)
    lay(tmp_path, WHOLE, rolled, replica([(0, [part(4, 2), NEW, *BEHIND])], epochs=EPOCHS, end=17))
    made = rescued(tmp_path)
    assert made.batches == LINE
    assert made.exit == 0


def test_an_old_leader_s_batch_that_reaches_over_the_new_epoch_is_of_another_branch(tmp_path: Path) -> None:
    """The line has lost what it had there: the batch of the copy that parted does not fill it."""
    led = replica([(0, [*BEFORE, NEW, *BEHIND])], epochs=EPOCHS, end=17)
    lay(tmp_path, led, replica([(0, [*BEFORE, OLD])], epochs=[(0, 0)], end=11))
    made = rescued(tmp_path, "--set", "cleanup.policy=delete")
    assert made.batches == [one for one in LINE if one != (8, 10, 0)]
    assert made.of("lost") == [(8, 9)]
    assert made.of("divergent") == [(8, 10)]


@pytest.mark.parametrize("at", [1, 5])
def test_several_batches_of_the_newest_epoch_are_no_single_wrong_bit(at: int, tmp_path: Path) -> None:
    """Carved runs tell no epochs beside: the last log of the newest epoch has one batch, and is not alone."""
    line = [*parts(0, 8, 2), *parts(8, 12, 3), part(12, 2, 3)]
    for number, logs in enumerate(([line[:at], line[at:6], line[6:]], [line[:4]])):
        image = bytes(512).join(b"".join(one.data for one in some) for some in logs)
        (tmp_path / f"image{number}").write_bytes(image + bytes(4096))
        run_kdump(["carve", f"image{number}", "--to", f"runs{number}"], tmp_path)
    made = rescued(tmp_path, "--name", PARTITION, sources=["runs0", "runs1"])
    assert made.offsets == list(range(14))
