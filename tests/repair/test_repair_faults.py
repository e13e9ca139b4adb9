"""A repair that is ended, fails or loses its power at any call: nothing is lost, resume ends it, undo takes it back."""

from __future__ import annotations

import errno
import json
import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from kdump.repair.errors import FailedError, RefusedError
from kdump.repair.resume_undo import resume, undo
from tests.support.faults import fails, killed_at
from tests.support.partitions import name
from tests.support.repair_trees import (
    PARTITION,
    SCENARIOS,
    Counting,
    Disk,
    Faulty,
    Recording,
    Scenario,
    Seen,
    Tree,
    contents,
    is_clean,
    journals,
    means,
    put,
    seen,
    state_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kdump.repair.plan import Plan


class Stage:
    """A scenario that can be built again and again, and how it begins and ends.

    Attributes:
        before: the partition at first.
        after: its bytes when all is done.
        calls: the names of all calls.
        first_visible: number of the first call that changes what a broker sees.
    """

    def __init__(self, scenario: Scenario, root: Path) -> None:
        self.scenario = scenario
        self.root = root
        self.before = self.build()
        counting = Counting()
        scenario.run(root, counting)
        self.calls = counting.names
        self.after = contents(self.partition)
        assert is_clean(self.partition)
        assert self.after != {one: file.data for one, file in self.before.items()}
        self.first_visible = self._first_visible()

    @property
    def partition(self) -> Path:
        """What the scenario changes: a partition, or all of its log directory."""
        return self.root / "logs" / self.scenario.place

    def build(self) -> dict[str, Seen]:
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir()
        self.scenario.build(self.root / "logs")
        return seen(self.partition)

    def _first_visible(self) -> int:
        self.build()
        start = self.visible()
        found: list[int] = []

        class Watching(Counting):
            def call(inner, *args: Any, **named: Any) -> Any:  # noqa: N805
                result = super().call(*args, **named)
                if not found and self.visible() != start:
                    found.append(len(inner.names) - 1)
                return result

        self.scenario.run(self.root, Watching())
        return found[0]

    def visible(self) -> dict[str, bytes]:
        """What a broker looks at."""
        return {one: data for one, data in contents(self.partition).items() if not one.endswith(".tmp")}

    def lock_is_left(self) -> bool:
        return (self.root / "logs" / ".lock").exists()

    def journal(self) -> Path | None:
        found = journals(self.root / "q")
        assert len(found) < 2
        return found[0] if found else None

    # --- what must hold, whatever happens -------------------------------------------------------------------
    def violations(self) -> Iterator[str]:
        """Yield what is lost, torn or in the wrong order now."""
        journal = self.journal()
        fields = None
        if journal is not None:
            try:
                fields = json.loads(journal.read_text("utf-8"))
            except ValueError:
                yield "the journal is torn"
        if self.lock_is_left() and (fields is None or not fields["lock"]["creates"]):
            yield "a lock file is left, and no journal says whose it is"
        now, saved = self.visible(), self._saved()
        for one, before in self.before.items():
            if now.get(one) != before.data:
                if fields is None:
                    yield f"{one} was changed, and no journal says so"
                yield from self._kept(one, before.data, now.get(one), saved)
        for one, data in now.items():
            if one not in self.before and data != self.after.get(one):
                yield f"{one} is new, and not what it was to become"
        yield from self._indexes(now)
        if fields is not None and fields["events"][-1]["state"] == "done" and now != self.after:
            yield "the journal says done, and it is not"

    def _saved(self) -> list[bytes]:
        return [path.read_bytes() for path in (self.root / "q").glob("*/*") if path.suffix in (".bin", ".records")]

    def _kept(self, one: str, before: bytes, now: bytes | None, saved: list[bytes]) -> Iterator[str]:
        after = self.after.get(one)
        if one.endswith(".log") and after is not None and len(after) == len(before):  # patched: bytes of both
            if now is None or any(byte not in pair for byte, *pair in zip(now, before, after, strict=True)):
                yield f"{one} is neither old nor new"
            return
        if now != after:
            yield f"{one} is neither old nor new"
        if before not in saved and (now is None or now + b"".join(self._tails()) != before):
            yield f"bytes of {one} are lost"

    def _tails(self) -> list[bytes]:
        return [path.read_bytes() for path in (self.root / "q").glob("*/cut*.records")]

    @staticmethod
    def _indexes(now: dict[str, bytes]) -> Iterator[str]:
        """A broker that starts now must not find an index that is longer than its log."""
        for base in (0, 10):
            index, log = now.get(name(base, "index")), now.get(name(base))
            if index and log is not None and len(index) % 8 == 0:
                last = max(int.from_bytes(index[at + 4 : at + 8], "big") for at in range(0, len(index), 8))
                if last >= len(log):
                    yield f"the index of {base} goes on after the end of its log"

    def check_there_and_back(self, again: Callable[[], None]) -> None:
        """From where it is now resume ends it; from there again undo takes it back."""
        assert list(self.violations()) == []
        journal = self.journal()
        if journal is None:
            assert seen(self.partition) == self.before
            assert not self.lock_is_left()
            return
        resume(str(journal), means())
        self.check_done()
        again()
        undo(str(self.journal()), means())
        self.check_undone()

    def check_done(self) -> None:
        journal = self.journal()
        assert journal is not None
        assert state_of(journal) == "done"
        assert contents(self.partition) == self.after
        for one, file in seen(self.partition).items():
            like = self.before.get(one) or self.before[name(0)]  # each file of a log directory was there
            assert file._replace(data=b"", modified=0) == like._replace(data=b"", modified=0), one
        assert not self.lock_is_left()

    # --- after a crash --------------------------------------------------------------------------------------
    def build_like(self, tree: Tree) -> None:
        """Make the disk what a crash has left of it; owners and rights of files made anew are not looked at."""
        put(tree, self.root, {str(self.partition / one): file.modified for one, file in self.before.items()})

    def faults(self, tree: Tree) -> Iterator[str]:
        """Yield what is wrong after a crash, and what resume and undo do not put right."""
        self.build_like(tree)
        yield from self.violations()
        journal, before = self.journal(), {one: file.data for one, file in self.before.items()}
        if journal is None:
            if contents(self.partition) != before:
                yield "something has changed, and there is no journal"
            return
        for act, wanted in ((resume, self.after), (undo, before)):
            self.build_like(tree)
            try:
                act(str(journal), means())
            except (FailedError, RefusedError) as error:
                yield f"{act.__name__}: {error}"
            else:
                if contents(self.partition) != wanted:
                    yield f"{act.__name__} leaves something else"

    def check_undone(self) -> None:
        assert seen(self.partition) == self.before
        assert not self.lock_is_left()


@pytest.fixture(params=SCENARIOS)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    return Stage(SCENARIOS[request.param], tmp_path / "stage")


# --- ended ----------------------------------------------------------------------------------------------------
def killed(stage: Stage, number: int, *, after: bool) -> None:
    """Run in a child that is killed at one call."""
    stage.build()
    killed_at(number, lambda ops: stage.scenario.run(stage.root, ops), after=after)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_repair_that_is_killed_at_any_call_can_be_ended_and_taken_back(stage: Stage, after: bool) -> None:
    for number in range(len(stage.calls)):
        killed(stage, number, after=after)
        stage.check_there_and_back(lambda number=number: killed(stage, number, after=after))  # type: ignore[misc]


class StoppedError(BaseException):
    """Nothing in a repair waits for this: as if the process had ended."""


def test_a_resume_and_an_undo_that_are_killed_can_be_run_again(stage: Stage) -> None:
    half = (stage.first_visible + len(stage.calls)) // 2
    for act in (resume, undo):
        killed(stage, half, after=False)
        journal, counting = stage.journal(), Counting()
        act(str(journal), means(counting))
        for number in range(len(counting.names)):
            killed(stage, half, after=False)
            journal = stage.journal()

            def stop(function: Callable[..., Any], *args: Any, **named: Any) -> None:
                function(*args, **named)
                raise StoppedError

            with suppress(StoppedError):
                act(str(journal), means(Faulty(number, stop)))
            act(str(journal), means())
            (stage.check_done if act is resume else stage.check_undone)()


# --- failing --------------------------------------------------------------------------------------------------
ERRORS = [errno.EIO, errno.ENOSPC, errno.EACCES, errno.EINTR]


def short(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    if function is os.pwrite:
        return function(args[0], args[1][: max(1, len(args[1]) // 3)], args[2])
    return function(*args, **named)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "fault", [*map(fails, ERRORS), short], ids=[*(errno.errorcode[one] for one in ERRORS), "short"]
)
def test_a_call_that_fails_leaves_all_as_it_was_or_a_journal(stage: Stage, fault: Callable[..., Any]) -> None:
    def run(number: int) -> FailedError | RefusedError | None:
        stage.build()
        try:
            stage.scenario.run(stage.root, Faulty(number, fault))
        except (FailedError, RefusedError) as error:
            return error
        return None

    for number in range(len(stage.calls)):
        error = run(number)
        assert list(stage.violations()) == []
        if error is None:
            assert contents(stage.partition) == stage.after
            assert number >= stage.first_visible or fault is short or stage.calls[number] in RETRIED
        elif isinstance(error, FailedError) and error.journal is not None:
            assert number >= stage.first_visible - 1
            assert error.journal in error.sentence
            resume(error.journal, means())
            stage.check_done()
            run(number)
            undo(str(stage.journal()), means())
            stage.check_undone()
        else:
            assert number <= stage.first_visible
            assert seen(stage.partition) == stage.before
            assert stage.journal() is None
            assert not stage.lock_is_left()


RETRIED = {"pwrite", "fsync", "fchown", "fchmod", "fsetxattr", "ftruncate", "utimensat"}


def test_a_full_disk_before_anything_is_seen_is_said_to_have_changed_nothing(stage: Stage) -> None:
    for number in range(stage.first_visible - 1):
        stage.build()
        with pytest.raises(FailedError, match="nothing was changed") as raised:
            stage.scenario.run(stage.root, Faulty(number, fails(errno.ENOSPC)))
        assert raised.value.journal is None
        assert seen(stage.partition) == stage.before


TARGETS = {
    "reindex": name(0, "timeindex"),
    "truncate": name(0),
    "patch-header": name(0),
    "repair": f"{PARTITION}/{name(0, 'timeindex')}",
}


@pytest.mark.parametrize("command", TARGETS)
def test_a_file_that_is_swapped_for_a_link_at_any_call_never_leads_outside(command: str, tmp_path: Path) -> None:
    stage = Stage(SCENARIOS[command], tmp_path / "stage")
    outside = tmp_path / "outside"
    ends: set[type[BaseException]] = set()
    for number in range(len(stage.calls)):
        stage.build()
        outside.write_bytes(stage.before[TARGETS[command]].data)
        before = outside.stat()

        def swap(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
            target = stage.partition / TARGETS[command]
            target.unlink(missing_ok=True)
            target.symlink_to(outside)
            return function(*args, **named)

        try:
            stage.scenario.run(stage.root, Faulty(number, swap))
        except (FailedError, RefusedError) as error:
            ends.add(type(error))
        now = outside.stat()
        assert (now.st_size, now.st_mtime_ns, now.st_mode) == (before.st_size, before.st_mtime_ns, before.st_mode)
        assert outside.read_bytes() == stage.before[TARGETS[command]].data
    assert ends == {FailedError, RefusedError}


# --- power loss -----------------------------------------------------------------------------------------------
def crashes(stage: Stage, forgets: Callable[[str], bool] = lambda _path: False) -> tuple[list[Tree], list[str]]:
    """Every state in which a disk can be after a crash in the middle of a run, and what was waited for."""
    stage.build()
    disk = Disk(stage.root)
    found: dict[int, Tree] = {}

    def after() -> None:
        for tree in disk.states():
            found.setdefault(hash(tuple(sorted(tree.items(), key=lambda one: one[0]))), tree)

    recording = Recording(disk, after, forgets)
    stage.scenario.run(stage.root, recording)
    return list(found.values()), recording.synced


def test_a_crash_that_loses_or_tears_what_was_not_waited_for_loses_nothing(stage: Stage) -> None:
    trees, _ = crashes(stage)
    assert len(trees) > 40
    for tree in trees:
        assert list(stage.faults(tree)) == []


def label(stage: Stage, path: str) -> str:
    """What a descriptor that is waited for is."""
    folder, one = os.path.split(path)
    if path in (str(stage.partition), str(stage.root / "logs" / PARTITION)):
        return "partition"
    if path in (str(stage.root), str(stage.root / "q")):
        return "root"
    if folder == str(stage.root / "q"):
        return "quarantine"
    return "log" if one.endswith(".log") else one.split(".")[0].split("-")[0]


WAITS = {
    "reindex": {"root", "quarantine", "journal", "new", "old", "kdump", "partition"},
    "truncate": {"root", "quarantine", "journal", "new", "old", "cut", "kdump", "partition", "log"},
    "patch-header": {"root", "quarantine", "journal", "log"},
    "repair": {"root", "quarantine", "journal", "new", "old", "cut", "kdump", "partition", "log"},
}


@pytest.mark.parametrize(("command", "what"), [(one, what) for one in WAITS for what in sorted(WAITS[one])])
def test_without_waiting_for_the_disk_a_crash_does_harm(command: str, what: str, tmp_path: Path) -> None:
    """Each kind of wait is needed: without it the test above would fail."""
    stage = Stage(SCENARIOS[command], tmp_path / "stage")
    trees, synced = crashes(stage, lambda path: label(stage, path) == what)
    assert {label(stage, path) for path in synced} == WAITS[command]
    assert any(fault for tree in reversed(trees) for fault in stage.faults(tree))


def test_a_log_that_is_cut_before_its_index_would_leave_an_index_beyond_its_end(tmp_path: Path) -> None:
    right = SCENARIOS["truncate"]

    def swapped(partition: Path) -> Plan:
        plan = right.plan(partition)
        return plan.replace(changes=tuple(sorted(plan.changes, key=lambda one: one.name != name(0))))

    stage = Stage(right, tmp_path / "stage")
    stage.scenario = right._replace(plan=swapped)
    trees, _ = crashes(stage)
    wanted = "the index of 0 goes on after the end of its log"
    assert any(fault == wanted for tree in reversed(trees) for fault in stage.faults(tree))
