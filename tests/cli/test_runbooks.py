"""Each runbook of the manual, run as it is printed, on the broken state that it is for."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.support import consoles
from tests.support.runbook_scenes import SCENES

if TYPE_CHECKING:
    from pathlib import Path

PAGE = "kdump-runbooks.7"
_ON_SPARK = "CHECKING A FLEET EVERY NIGHT"  # tests/spark/test_jobs.py runs it
_FRAME = {"NAME", "DESCRIPTION", "SEE ALSO"}
_PARTS = ["Symptom", "Lost", "Stop"]


def test_every_runbook_has_a_scene() -> None:
    assert set(consoles.sections(PAGE)) == {*SCENES, *_FRAME}


@pytest.mark.parametrize("title", SCENES)
def test_a_runbook_says_symptom_loss_and_when_to_stop(title: str) -> None:
    text = consoles.sections(PAGE)[title]
    assert [part for part in _PARTS if f".TP\n.B {part}\n" not in text] == []


@pytest.mark.parametrize("title", [title for title in SCENES if title != _ON_SPARK])
def test_a_runbook_does_what_it_says(title: str, tmp_path: Path) -> None:
    consoles.run_section(PAGE, title, tmp_path, SCENES[title])


def test_a_scene_that_is_sound_fails_its_runbook(tmp_path: Path) -> None:
    """The page is compared with what is there, so a runbook that shows anything at all would be of no use."""

    def sound(folder: Path) -> None:
        SCENES["MOVING A LOG.DIR"](folder)
        shutil.move(folder / "kafka", folder / "kafka2")

    with pytest.raises(AssertionError):
        consoles.run_section(PAGE, "A CORRUPT INDEX", tmp_path, sound)
