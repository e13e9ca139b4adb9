"""What was seen of a directory, looked for again: the same, gone since, or another machine's."""

from __future__ import annotations

import os
import shutil
import socket
from typing import TYPE_CHECKING

import pytest

from kdump.storage.sighting import LogDirs, missed, sighted, unread_in
from tests.support.fleet import NODE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOG = f"{0:020}.log"


def _empty(node: Path) -> None:
    shutil.rmtree(node)
    node.mkdir()


def _another(node: Path) -> None:
    (node / "meta.properties").write_text("directory.id=other\n")


def _without_logs(node: Path) -> None:
    (node / "meta.properties").unlink(missing_ok=True)
    for log in node.glob("*-*/*.log"):
        log.unlink()


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A log directory, with one log in plain-0."""
    found = shutil.copytree(NODE, tmp_path / "node")
    for log in (found / "plain-0").glob("*.log"):
        if log.name != LOG:
            log.unlink()
    return found


def test_what_is_still_there_is_not_missed(node: Path) -> None:
    seen = sighted(str(node / "plain-0"), LogDirs())
    assert seen.logs == ((LOG, (node / "plain-0" / LOG).stat().st_size),)
    assert seen.log_dir == str(node)
    assert f"node.id={seen.broker}" in (node / "meta.properties").read_text()
    assert f"cluster.id={seen.cluster}" in (node / "meta.properties").read_text()
    assert missed(seen, LogDirs()) == list(unread_in(seen, LogDirs())) == []


@pytest.mark.parametrize("has_properties", [True, False])
@pytest.mark.parametrize("change", [shutil.rmtree, _empty, _another, _without_logs])
def test_another_directory_in_its_place_is_no_removal(
    change: Callable[[Path], None], has_properties: bool, node: Path
) -> None:
    if not has_properties:
        (node / "meta.properties").unlink()
    seen = sighted(str(node / "plain-0"), LogDirs())
    change(node)
    if not has_properties and change is _another:
        assert missed(seen, LogDirs()) == []  # nothing told it apart before
        return
    (one,) = missed(seen, LogDirs())
    assert (one.failure.path, one.size, one.is_gone) == (str(node / "plain-0" / LOG), seen.logs[0][1], False)
    assert one.failure.is_of_opening


@pytest.mark.parametrize("has_properties", [True, False])
def test_a_log_that_goes_while_its_directory_stays_was_removed(has_properties: bool, node: Path) -> None:
    if not has_properties:
        (node / "meta.properties").unlink()
    shutil.copy(node / "plain-0" / LOG, node / "plain-0" / f"{10**6:020}.log")
    seen = sighted(str(node / "plain-0"), LogDirs())
    (node / "plain-0" / LOG).unlink()
    (one,) = missed(seen, LogDirs())
    assert (one.is_gone, one.failure.path) == (True, str(node / "plain-0" / LOG))


def test_a_topic_that_goes_while_the_log_directory_stays_was_removed(node: Path) -> None:
    seen = sighted(str(node / "plain-0"), LogDirs())
    shutil.rmtree(node / "plain-0")
    assert [one.is_gone for one in missed(seen, LogDirs())] == [True]


def _without_id(node: Path) -> None:
    """As a broker with ZooKeeper leaves them, and one before Kafka 3.7: all disks of a broker say the same."""
    lines = (node / "meta.properties").read_text().splitlines()
    (node / "meta.properties").write_text("\n".join(one for one in lines if not one.startswith("directory.id")))


def _nothing(node: Path) -> None:
    (node / "meta.properties").unlink()


def _with_two_logs(node: Path) -> None:
    shutil.copy(node / "plain-0" / LOG, node / "plain-0" / f"{10**6:020}.log")


@pytest.mark.parametrize("change", [_without_id, _nothing])
@pytest.mark.parametrize("leaves", ["plain-0", "plain-1"])
def test_another_disk_of_a_broker_without_ids_is_not_the_same(
    leaves: str, change: Callable[[Path], None], node: Path
) -> None:
    """The hash of meta.properties said that it was, and no row stood for a log that nobody had looked at."""
    _with_two_logs(node)
    change(node)
    seen = sighted(str(node / "plain-0"), LogDirs())
    other = shutil.copytree(node, node.parent / "other")
    node.rename(node.parent / "away")
    other.rename(node)
    (node / "plain-0" / LOG).unlink()
    if leaves == "plain-1":
        (node / "plain-0").rename(node / "plain-1")
    found = missed(seen, LogDirs())
    assert {one.failure.path for one in found} >= {str(node / "plain-0" / LOG)}
    assert not any(one.is_gone for one in found)
    assert not any(one.is_gone for one in unread_in(seen, LogDirs()))


@pytest.mark.parametrize("change", [_without_id, _nothing])
def test_a_log_that_another_machine_lacks_is_no_removal(
    change: Callable[[Path], None], node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bare partition directory that lacks one of two logs there once gave no error."""
    _with_two_logs(node)
    change(node)
    seen = sighted(str(node / "plain-0"), LogDirs())
    monkeypatch.setattr(socket, "gethostname", lambda: "another")
    assert missed(seen, LogDirs()) == [], "what is there is read"
    (node / "plain-0" / LOG).unlink()
    (one,) = missed(seen, LogDirs())
    assert (one.is_gone, one.failure.is_of_opening) == (False, True)
    assert "on another: it was seen where the work was planned, and no directory.id" in one.failure.sentence


def test_an_id_is_the_same_on_another_machine(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _with_two_logs(node)
    seen = sighted(str(node / "plain-0"), LogDirs())
    monkeypatch.setattr(socket, "gethostname", lambda: "another")
    (node / "plain-0" / LOG).unlink()
    assert [one.is_gone for one in missed(seen, LogDirs())] == [True]


@pytest.mark.parametrize("line", ["cluster.id", "node.id"])
def test_a_disk_of_another_broker_is_told_apart_without_ids(line: str, node: Path) -> None:
    _without_id(node)
    seen = sighted(str(node / "plain-0"), LogDirs())
    properties = node / "meta.properties"
    properties.write_text(
        "\n".join(f"{line}=7" if one.startswith(line) else one for one in properties.read_text().splitlines())
    )
    (one,) = missed(seen, LogDirs())
    assert (one.is_gone, "is another log directory" in one.failure.sentence) == (False, True)


@pytest.mark.parametrize(("make", "kind"), [(os.mkfifo, "special"), (os.mkdir, "directory")])
def test_what_is_no_file_in_place_of_a_log_is_no_removal(make: Callable[[Path], None], kind: str, node: Path) -> None:
    seen = sighted(str(node / "plain-0"), LogDirs())
    (node / "plain-0" / LOG).unlink()
    make(node / "plain-0" / LOG)
    (one,) = missed(seen, LogDirs())
    assert (one.failure.kind, one.is_gone) == (kind, False)
    assert [each.failure.path for each in unread_in(seen, LogDirs())] == [str(node / "plain-0" / LOG)]
