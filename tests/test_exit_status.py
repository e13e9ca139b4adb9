"""How the exit status of a run comes about from those of its processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kdump.exit_status import RunStatus

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.quick

SEEN: dict[str, Callable[[RunStatus], None]] = {
    "errors": RunStatus.damaged,
    "unreadable": RunStatus.unreadable,
    "nothing": RunStatus.nothing,
    "not answered": lambda status: status.answered(found=False, has_place=True),
    "died": lambda status: status.died("java.nio.file.NoSuchFileException: x"),
}


@pytest.mark.parametrize("other", SEEN)
@pytest.mark.parametrize("own", SEEN)
def test_two_processes_come_to_the_same_status_as_one(own: str, other: str) -> None:
    """In doubt, and dead: both were once forgotten."""
    alone, here, there = (RunStatus("error", compat=False) for _ in range(3))
    for status in (alone, here):
        SEEN[own](status)
    for status in (alone, there):
        SEEN[other](status)
    here.join(there)
    assert (here.exit, here.dead) == (alone.exit, alone.dead)


def test_the_settings_of_another_process_are_not_taken_over() -> None:
    here = RunStatus("error", compat=False)
    here.join(RunStatus("error", compat=True))
    assert vars(here) == vars(RunStatus("error", compat=False))
