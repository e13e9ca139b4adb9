"""Journals: which are followed, and that nothing is done by one that is not what kdump has written itself."""

from __future__ import annotations

import copy
import json
import os
import random
import resource
import stat
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kdump.repair import journal
from kdump.repair.apply import apply
from kdump.repair.errors import FailedError, RefusedError
from kdump.repair.resume_undo import resume, undo
from kdump.repair.schema import BadValueError, check_journal
from tests.support.partitions import name
from tests.support.repair_trees import (
    PARTITION,
    SCENARIOS,
    Faulty,
    contents,
    intact,
    journals,
    means,
    plan_of_truncate,
    seen,
    state_of,
)
from tests.support.runs import FIXTURES, run_kdump

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root acts for others")


def run(*args: object) -> tuple[int, str]:
    """Exit status and stderr of kdump."""
    done = run_kdump([str(one) for one in args], FIXTURES)
    return done.exit, done.stderr.decode()


def killed(_function: Callable[..., Any], *_args: Any, **_named: Any) -> None:
    """In a child: it ends here, and cleans up nothing."""
    os._exit(0)


def made(root: Path, command: str = "truncate", *, at: int | None = None) -> Path:
    """The journal of a repair that was done, or ended at one call."""
    SCENARIOS[command].build(root / "logs")
    if at is None:
        SCENARIOS[command].run(root)
    else:
        end_at(command, root, at)
    (journal,) = journals(root / "q")
    return journal


def end_at(command: str, root: Path, at: int) -> None:
    """Run in a child that ends at one call, or when all is done."""
    pid = os.fork()
    if not pid:
        try:
            SCENARIOS[command].run(root, Faulty(at, killed))
        finally:
            os._exit(1)
    os.waitpid(pid, 0)


def refused(journal: Path, match: str) -> None:
    """Both commands refuse, and the partition is as it was."""
    with pytest.raises(RefusedError, match=match):
        undo(str(journal), means())
    with pytest.raises(RefusedError, match=match):
        resume(str(journal), means())


# --- what is opened -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("what", ["pipe", "socket", "zeros", "link", "directory", "sparse", "many", "other-name"])
def test_what_is_no_journal_is_refused_at_once_and_in_little_memory(what: str, tmp_path: Path) -> None:
    journal = tmp_path / "q" / "journal.json"
    journal.parent.mkdir(mode=0o700)
    if what == "pipe":
        os.mkfifo(journal)
    elif what == "socket":
        os.mknod(journal, stat.S_IFSOCK | 0o600)
    elif what == "zeros":
        journal = Path("/dev/zero")
    elif what == "link":
        journal.symlink_to(made(tmp_path / "real"))
    elif what == "directory":
        journal.mkdir()
        journal = journal.parent
    elif what == "sparse":
        journal.touch()
        os.truncate(journal, 100 * 1024**3)
    elif what == "many":
        journal.write_text("[" + "{}," * 2_000_000 + "{}]")
    else:
        journal = made(tmp_path / "real").rename(journal.parent / "copy.json")
    for command in ("undo", "resume"):
        pid = os.fork()
        if not pid:
            status = 1
            try:
                used = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
                resource.setrlimit(resource.RLIMIT_AS, (used + 100 * 1024**2,) * 2)
                resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
                {"undo": undo, "resume": resume}[command](str(journal))
            except RefusedError:
                status = 12
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 12
    status, said = run("undo", journal)
    assert status == 12
    assert "not a journal" in said


@pytest.mark.parametrize("where", ["journal.json", "", ".."])
@pytest.mark.parametrize("right", [0o020, 0o002])
def test_a_journal_that_others_can_write_or_replace_is_refused(where: str, right: int, tmp_path: Path) -> None:
    journal = made(tmp_path)
    place = Path(os.path.normpath(journal.parent / where))
    before, mode = seen(tmp_path / "logs" / PARTITION), stat.S_IMODE(place.stat().st_mode)
    place.chmod(mode | right)
    refused(journal, "others may write it .* chmod go-w")
    assert seen(tmp_path / "logs" / PARTITION) == before
    if where == "..":
        place.chmod(mode | right | stat.S_ISVTX)
        undo(str(journal), means())
    place.chmod(mode)
    undo(str(journal), means())
    assert state_of(journal) == "undone"


def test_a_quarantine_that_others_can_write_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    partition = intact(tmp_path / "logs")
    before = seen(partition)
    (tmp_path / "q").mkdir()
    (tmp_path / "q").chmod(0o777)
    with pytest.raises(RefusedError, match=r"q: others may write it \(mode 0777\)"):
        apply(plan_of_truncate(partition), str(tmp_path / "q"), [], means())
    assert seen(partition) == before
    assert not list((tmp_path / "q").iterdir())
    assert not (tmp_path / "logs" / ".lock").exists()


@AS_ROOT
def test_root_goes_to_a_quarantine_by_no_link_of_another_user(tmp_path: Path) -> None:
    journal = made(tmp_path)
    before = seen(tmp_path / "logs" / PARTITION)
    link = tmp_path / "link"
    for place in (journal.parent, journal.parent.parent, tmp_path):
        link.symlink_to(place)
        os.lchown(link, 4321, 4321)
        refused(link / journal.relative_to(place), "link: belongs to user 4321")
        link.unlink()
    link.symlink_to(journal.parent.parent)
    os.lchown(link, 4321, 4321)
    with pytest.raises(RefusedError, match="link: belongs to user 4321"):
        apply(plan_of_truncate(intact(tmp_path / "more")), str(link), [], means())
    assert seen(tmp_path / "logs" / PARTITION) == before
    link.unlink()
    link.symlink_to(journal.parent)  # of root
    undo(str(link / journal.name), means())


@AS_ROOT
def test_root_does_not_follow_a_journal_that_another_user_has_written_about_files_of_others(tmp_path: Path) -> None:
    journal = made(tmp_path, at=30)
    before = seen(tmp_path / "logs" / PARTITION)
    for path in (journal, journal.parent, journal.parent.parent):
        os.chown(path, 4321, 4321)
    refused(journal, "belongs to user 1234, and the journal to user 4321")
    assert seen(tmp_path / "logs" / PARTITION) == before
    os.chown(journal.parent, 99, 99)
    refused(journal, "belongs to user 99")


@AS_ROOT
def test_root_follows_the_journal_of_the_owner_of_the_files_with_no_more_rights_than_that_user(tmp_path: Path) -> None:
    """Calls are made with the owner's user id: what it may not do, root does not do for it."""
    above = takewhile(
        lambda path: not path.stat().st_mode & stat.S_ISVTX, tmp_path.parents[:4]
    )  # up to the one of all users
    for path in (tmp_path, *above):
        path.chmod(0o755)
    journal = made(tmp_path, at=40)
    logs = tmp_path / "logs"
    for path in (logs, logs / PARTITION, tmp_path / "q", *(tmp_path / "q").rglob("*"), *logs.rglob("*")):
        os.chown(path, 1234, 1235)
    ids: set[int] = set()

    class Watching(Faulty):
        def call(self, name: str, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
            if name != "unlink" or ".lock" not in args:
                ids.add(os.geteuid())
            return super().call(name, function, *args, **named)

    resume(str(journal), means(Watching(-1, killed)))
    assert ids == {1234}
    assert os.geteuid() == 0
    assert state_of(journal) == "done"
    undo(str(journal), means(Watching(-1, killed)))
    assert ids == {1234}
    assert contents(logs / PARTITION) == contents(intact(tmp_path / "other"))


def test_a_directory_that_is_another_one_by_now_is_refused(tmp_path: Path) -> None:
    journal = made(tmp_path, at=30)
    partition = tmp_path / "logs" / PARTITION
    kept = partition.rename(tmp_path / "kept")
    partition.symlink_to(kept)
    refused(journal, "cannot be opened|by a link")
    partition.unlink()
    partition.mkdir()
    refused(journal, "is not a partition directory")
    (partition / name(0)).mkdir()
    refused(journal, "is a directory; only regular files")
    assert os.listdir(partition) == [name(0)]


def test_a_file_gets_no_rights_that_it_has_not(tmp_path: Path) -> None:
    journal = made(tmp_path, "reindex")
    partition = tmp_path / "logs" / PARTITION
    (partition / name(0, "timeindex")).chmod(0o600)
    before = seen(partition)
    with pytest.raises(RefusedError, match=r"has mode 0600, and the journal would give it 0640; nothing was done"):
        undo(str(journal), means())
    assert seen(partition) == before


@AS_ROOT
def test_a_file_gets_no_other_owner(tmp_path: Path) -> None:
    journal = made(tmp_path, "reindex")
    partition = tmp_path / "logs" / PARTITION
    os.chown(partition / name(0, "timeindex"), 7, 7)
    before = seen(partition)
    with pytest.raises(RefusedError, match=r"belongs to 7:7 here, and the journal would give it to 1234:1235"):
        undo(str(journal), means())
    assert seen(partition) == before


@pytest.mark.parametrize("command", ["truncate", "patch-header"])
def test_a_log_with_two_names_is_said_to_have_them(command: str, tmp_path: Path) -> None:
    journal = made(tmp_path, command)
    os.link(tmp_path / "logs" / PARTITION / name(0), tmp_path / "other")
    with pytest.raises(RefusedError, match="has 2 names by now, and would change under all; remove the others"):
        undo(str(journal), means())
    (tmp_path / "other").unlink()
    undo(str(journal), means())


def test_a_file_with_rights_that_no_file_of_a_broker_has_is_not_repaired(tmp_path: Path) -> None:
    partition = intact(tmp_path / "logs")
    (partition / name(10)).chmod(0o4755)
    before = seen(partition)
    with pytest.raises(RefusedError, match=r"a journal may not say this: changes\[\d\].before.mode is not from 0 to"):
        apply(plan_of_truncate(partition), str(tmp_path / "q"), [], means())
    assert seen(partition) == before
    assert not journals(tmp_path / "q")


def test_a_journal_that_could_not_be_read_again_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = intact(tmp_path / "logs")
    monkeypatch.setattr(journal, "LIMIT", 1000)
    with pytest.raises(RefusedError, match="too many for one journal"):
        apply(plan_of_truncate(partition), str(tmp_path / "q"), [], means())
    assert not (tmp_path / "q").exists()


# --- what it says ---------------------------------------------------------------------------------------------
BAD: list[tuple[str, tuple[Any, ...], object]] = [
    ("version", ("version",), True),
    ("command", ("command",), "salvage"),
    ("directory", ("directory",), "/etc/../etc"),
    ("directory", ("directory",), "logs"),
    ("directory", ("directory",), "/a\0b"),
    ("directory", ("directory",), "/\ud800"),
    ("planId", ("planId",), "xyz"),
    ("lock.creates", ("lock", "creates"), 1),
    ("user.uid", ("user", "uid"), 10**30),
    ("events", ("events",), []),
    ("events[0].state", ("events", 0, "state"), "begun"),
    ("inputs", ("inputs",), []),
    ("more", ("more",), 1),
    ("changes[0].name", ("changes", 0, "name"), "../" + name(0)),
    ("changes[0].name", ("changes", 0, "name"), "meta.properties"),
    ("changes[0].name", ("changes", 0, "name"), name(0) + "\0"),
    ("changes[0].action", ("changes", 0, "action"), "chown"),
    ("changes[0].before.mode", ("changes", 0, "before", "mode"), 0o4755),
    ("changes[0].before.uid", ("changes", 0, "before", "uid"), 2**32 - 1),
    ("changes[0].before.uid", ("changes", 0, "before", "uid"), -1),
    ("changes[0].before.modified", ("changes", 0, "before", "modified"), 10**30),
    ("changes[0].before.size", ("changes", 0, "before", "size"), 2**64),
    ("changes[0].before.size", ("changes", 0, "before", "size"), 1.5),
    ("changes[0].before.attributes.user.kdump", ("changes", 0, "before", "attributes"), {"user.kdump": "*"}),
    ("changes[0].before.attributes: a key", ("changes", 0, "before", "attributes"), {"security.capability": ""}),
    ("changes[0].before.sha256", ("changes", 0, "before", "sha256"), "abc"),
    ("changes[0].like", ("changes", 0, "like"), None),
    ("changes[0].saved", ("changes", 0, "saved"), "old." + name(99) + ".bin"),
    ("changes[0].back", ("changes", 0, "back"), name(0)),
    ("changes[0].patches[0][0]", ("changes", 0, "patches"), [[2**64, "00", "01"]]),
    ("changes[0].patches[0][1]", ("changes", 0, "patches"), [[0, "0", "1"]]),
    ("changes[0].patches[0]", ("changes", 0, "patches"), [[0, "00", "0101"]]),
    ("changes[0].cut", ("changes", 0, "cut"), {"prefix": "0" * 64, "tail": "0" * 64}),
]


def changed(fields: Any, path: tuple[Any, ...], value: object) -> Any:
    """A copy with another value at a path."""
    found = copy.deepcopy(fields)
    at = found
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return found


def test_a_bad_value_is_named_by_its_field(tmp_path: Path) -> None:
    journal = made(tmp_path, at=30)
    fields = json.loads(journal.read_text("ascii"))
    assert check_journal(fields) is fields
    for field, path, value in BAD:
        journal.write_text(json.dumps(changed(fields, path, value)))
        refused(journal, rf"is not a journal of this version of kdump: {field.replace('[', '.').replace(']', '.')} ")
    status, said = run("resume", journal)
    assert status == 12
    assert "journal.json: is not a journal of this version of kdump: changes[0].cut does not go with delete" in said


def test_an_end_that_no_rule_knows_raises_only_what_is_waited_for() -> None:
    """Any JSON at all is judged, and deep or odd values end as all others do."""
    values: list[object] = [None, 7, "x", [], {}, {"version": 1}, [[[[]]]], {"\ud800": {"a": [1e999]}}]
    for value in values:
        with pytest.raises(BadValueError):
            check_journal(value)


ODD: list[object] = [None, True, -1, 0, 1, 2**31, 2**63, 2**64, 10**30, 1.5, float("nan")]
ODD += [
    "",
    "0",
    "x/../y",
    "..",
    "\0",
    "\ud800",
    "\udcff",
    "a" * 300,
    "/",
    "/etc",
    "*",
    "kdump-x.tmp",
    "done",
    "planned",
]
ODD += [name(0), name(99), [], [[]], {}, {"a": 1}, [2**64, "0", "0"]]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each member."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield (*path, key)
        yield from places(inner, (*path, key))


def mutated(fields: Any, chance: random.Random) -> Any:
    """One to three members are others, gone, or stand twice; some are small steps from what they were."""
    found = copy.deepcopy(fields)
    for _ in range(chance.randint(1, 3)):
        path = chance.choice(list(places(found)))
        at = found
        for key in path[:-1]:
            at = at[key]
        old, how = at[path[-1]], chance.random()
        if how < 0.1:
            del at[path[-1]]
        elif how < 0.2 and isinstance(at, list):
            at.append(copy.deepcopy(old))
        elif how < 0.5 and isinstance(old, int):
            at[path[-1]] = old + chance.choice([-1, 1, 2**32, -(2**63)])
        elif how < 0.5 and isinstance(old, str) and old:
            at[path[-1]] = old[:-1] + chance.choice(["", "0", "/", "\0", "z"])
        elif how < 0.6:
            other = found
            for key in chance.choice(list(places(found))):
                other = other[key]
            at[path[-1]] = copy.deepcopy(other)
        else:
            at[path[-1]] = chance.choice(ODD)
    return found


@pytest.mark.parametrize("command", SCENARIOS)
def test_whatever_stands_in_a_journal_a_partition_is_before_or_after_and_nothing_else_is_touched(
    command: str, tmp_path: Path
) -> None:
    """Ended at several calls; each mutated journal is followed, or refused, in both directions."""
    chance, done = random.Random(command), 0
    sound = made(tmp_path / "sound", command)
    before = contents(SCENARIOS[command].build(tmp_path / "before" / "logs"))
    after = contents(tmp_path / "sound" / "logs" / PARTITION)
    assert state_of(sound) == "done"
    for number in (12, 20, 40, 10_000):
        for turn in range(20):
            root = tmp_path / f"{number}-{turn}"
            SCENARIOS[command].build(root / "logs")
            end_at(command, root, number)
            found = journals(root / "q")
            if not found:
                continue
            (journal,) = found
            fields = json.loads(journal.read_text("ascii"))
            (root / "outside").write_bytes(b"outside")
            for act in chance.sample([resume, undo], 2):
                journal.write_text(json.dumps(mutated(fields, chance)))
                try:
                    act(str(journal), means())
                    done += 1
                except (RefusedError, FailedError):
                    pass
            assert (root / "outside").read_bytes() == b"outside"
            assert sorted(os.listdir(root)) == ["logs", "outside", "q"]
            for one, data in contents(root / "logs" / PARTITION).items():
                if not one.endswith(".tmp"):
                    assert data in (before.get(one), after.get(one)), (one, number, turn)
    assert done


# --- a lock file of its own -----------------------------------------------------------------------------------
@pytest.mark.parametrize("command", SCENARIOS)
def test_the_journal_says_whose_the_lock_file_is_before_it_is_made(command: str, tmp_path: Path) -> None:
    """What is left after a kill at each call is a matter of test_repair_faults.py."""
    SCENARIOS[command].build(tmp_path / "logs")
    calls: list[tuple[str, object]] = []

    class Watching(Faulty):
        def call(self, name: str, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
            makes = name == "open" and args[1] & os.O_CREAT
            calls.append(("make" if makes else name, args[-1] if name == "rename" else args[0] if args else None))
            return super().call(name, function, *args, **named)

    SCENARIOS[command].run(tmp_path, Watching(-1, killed))
    assert calls.index(("rename", "journal.json")) < calls.index(("make", ".lock")) < calls.index(("unlink", ".lock"))
    (journal,) = journals(tmp_path / "q")
    assert json.loads(journal.read_text("ascii"))["lock"]["creates"] is True
    assert not (tmp_path / "logs" / ".lock").exists()


def test_a_lock_file_that_is_there_stays_and_is_not_said_to_be_ours(tmp_path: Path) -> None:
    lock = SCENARIOS["truncate"].build(tmp_path / "logs").parent / ".lock"
    lock.touch()
    SCENARIOS["truncate"].run(tmp_path)
    (journal,) = journals(tmp_path / "q")
    assert json.loads(journal.read_text("ascii"))["lock"]["creates"] is False
    lock.unlink()  # a broker that ends removes it
    undo(str(journal), means())
    assert json.loads(journal.read_text("ascii"))["lock"]["creates"] is True
    assert not lock.exists()
