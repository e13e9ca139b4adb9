"""What kdump reads back as its own (ledgers, plans, notes, rows, leavings): only what nobody else may have written."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kdump as kdump_package
from tests.support.hot_journal import give_away, hot_journal
from tests.support.partitions import name, segment, write
from tests.support.runs import Run, run_kdump
from tests.support.scrubs import log_dir
from tests.support.segments import Record, batch

if TYPE_CHECKING:
    from collections.abc import Callable

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Logs, a directory for all users, and a file that is nobody's business."""
    log_dir(tmp_path / "logs", "a")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    (tmp_path / "precious").write_text("mine")
    return tmp_path


def kdump(place: Path, *args: object) -> Run:
    """A run that ends in order, and leaves what is nobody's business."""
    done = run_kdump([str(one) for one in args], place)
    assert done.exit != 1, done.stderr
    assert b"Traceback" not in done.stderr
    assert (place / "precious").read_text() == "mine"
    return done


def refused(place: Path, *args: object, says: str, exit_: int = 12) -> None:
    done = kdump(place, *args)
    assert (done.exit, done.stderr.count(b"\n")) == (exit_, 1), done.stderr
    assert says in done.stderr.decode()


# --- ledgers ------------------------------------------------------------------------------------------------
SCRUB = ("verify", "logs", "--quiet", "--scrub")


def scrubbed(place: Path, ledger: str = "shared/ledger") -> Path:
    assert kdump(place, *SCRUB, ledger).exit == 0
    return place / ledger


def of_others(path: Path) -> None:
    """Given away by root; else writable by all, which any user can do."""
    if os.geteuid() == 0:
        give_away(path)
    else:
        path.chmod(0o666 if path.is_file() else 0o777)


@pytest.mark.parametrize("end", ["", "-journal", "-wal", "-shm"])
def test_no_journal_of_others_is_played_back_and_no_ledger_of_theirs_is_read(end: str, place: Path) -> None:
    ledger = scrubbed(place)
    beside = place / "shared" / f"ledger{end or '-journal'}"
    beside.write_bytes(hot_journal(ledger, place / "precious"))
    of_others(place / "shared" / f"ledger{end}")
    before = ledger.read_bytes(), beside.read_bytes()
    refused(place, *SCRUB, "shared/ledger", says=f"ledger{end}: ")
    assert (ledger.read_bytes(), beside.read_bytes()) == before


@pytest.mark.parametrize("right", [0o020, 0o002])
@pytest.mark.parametrize("what", ["ledger", "ledger-journal", "."])
def test_a_ledger_that_others_may_write_is_refused(what: str, right: int, place: Path) -> None:
    (place / "own").mkdir()
    ledger = scrubbed(place, "own/ledger")
    (place / "own" / "ledger-journal").write_bytes(b"")
    at = place / "own" / what
    at.chmod(at.stat().st_mode & 0o777 | right)
    refused(place, *SCRUB, ledger, says="others may write it")
    at.chmod(at.stat().st_mode & 0o755)
    assert kdump(place, *SCRUB, ledger).exit == 0


def test_a_directory_further_up_in_which_all_may_rename_others_is_refused(place: Path) -> None:
    (place / "open" / "own").mkdir(parents=True)
    (place / "open").chmod(0o777)
    refused(place, *SCRUB, "open/own/ledger", says="take that right away first: chmod o-w")
    (place / "open").chmod(0o1777)
    assert kdump(place, *SCRUB, "open/own/ledger").exit == 0


@AS_ROOT
@pytest.mark.parametrize("whose", ["shared", "shared/own"])
def test_a_ledger_in_a_directory_of_others_is_refused(whose: str, place: Path) -> None:
    (place / "shared" / "own").mkdir()
    scrubbed(place, "shared/own/ledger")
    os.chown(place / whose, 65534, 65534)
    refused(place, *SCRUB, "shared/own/ledger", says="belongs to user 65534")


def test_a_journal_that_this_user_has_left_is_played_back(place: Path) -> None:
    """As after a kill in the middle of a commit: that is what it is for."""
    ledger = scrubbed(place)
    rows = sqlite3.connect(ledger).execute("SELECT * FROM segments ORDER BY id").fetchall()
    half = sqlite3.connect(ledger, isolation_level=None)
    half.execute("PRAGMA cache_size = 1")
    half.execute("BEGIN")
    half.execute("UPDATE segments SET turn = 99, path = path || zeroblob(4000)")
    copies = {path.name: path.read_bytes() for path in (place / "shared").iterdir()}
    half.execute("ROLLBACK")
    half.close()
    (place / "own").mkdir()
    for one, data in copies.items():
        (place / "own" / one).write_bytes(data)
    assert "ledger-journal" in copies
    assert kdump(place, *SCRUB, "own/ledger").exit == 0
    after = sqlite3.connect(place / "own" / "ledger").execute("SELECT id, path FROM segments ORDER BY id").fetchall()
    assert after == [row[:2] for row in rows]


def test_nothing_is_left_beside_a_ledger_in_a_directory_of_all(place: Path) -> None:
    for _ in range(2):
        scrubbed(place)
        assert os.listdir(place / "shared") == ["ledger"]
    (place / "shared" / "notes").write_text("no ledger")
    refused(place, *SCRUB, "shared/notes", says="is not a ledger of kdump")
    assert sorted(os.listdir(place / "shared")) == ["ledger", "notes"]


def test_a_ledger_is_a_file_whatever_its_name_is_to_sqlite(place: Path) -> None:
    assert (place / scrubbed(place, ":memory:")).stat().st_size


@pytest.mark.parametrize("to", ["precious", "nowhere"])
def test_no_link_is_followed_to_a_ledger(to: str, place: Path) -> None:
    (place / "ledger").symlink_to(place / to)
    refused(place, *SCRUB, "ledger", says="is a symbolic link, not a ledger of kdump")
    assert not (place / "nowhere").exists()


@AS_ROOT
def test_no_link_of_others_is_followed_to_the_directory_of_a_ledger(place: Path) -> None:
    (place / "own").mkdir()
    (place / "shared" / "way").symlink_to(place / "own")
    assert kdump(place, *SCRUB, "shared/way/ledger").exit == 0
    give_away(place / "shared" / "way")
    refused(place, *SCRUB, "shared/way/ledger", says="shared/way: belongs to user 65534")


def a_pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def a_second_name(path: Path) -> None:
    path.with_name("other").hardlink_to(path)


@pytest.mark.parametrize(("make", "says"), [(a_pipe, "is a pipe, not a ledger"), (a_second_name, "has 2 names")])
def test_what_is_no_ledger_of_its_own_is_one_line(make: Callable[[Path], None], says: str, place: Path) -> None:
    make(scrubbed(place))
    refused(place, *SCRUB, "shared/ledger", says=says)


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TRIGGER t BEFORE UPDATE ON segments BEGIN SELECT RAISE(IGNORE); END",
        "CREATE VIEW v AS SELECT * FROM segments",
        "ALTER TABLE segments ADD COLUMN g GENERATED ALWAYS AS (1)",
        "DELETE FROM state",
        "INSERT INTO state VALUES (0, 0)",
        "UPDATE state SET turn = 'now'",
        "UPDATE state SET turn = 9223372036854775807",
        "UPDATE state SET round = x'00'",
        "UPDATE sums SET crcs = 'text'",
        "UPDATE sums SET crcs = x'00'",
        "UPDATE sums SET crcs = zeroblob(100000000)",
        "UPDATE segments SET size = 'many'",
        "UPDATE segments SET inode = 1.5",
    ],
)
def test_a_ledger_with_other_tables_or_values_is_one_line(sql: str, place: Path) -> None:
    ledger = scrubbed(place)
    with sqlite3.connect(ledger) as db:
        db.execute(sql)
    db.close()
    refused(place, *SCRUB, ledger, says="is damaged", exit_=13)


# --- exports ------------------------------------------------------------------------------------------------
def exported(place: Path, table: str, to: str) -> list[str]:
    args = ["export", "logs", "--table", table, "--file-format", "json", "--to", to]
    assert kdump(place, *args).exit == 0
    return args


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    found = json.loads(path.read_text())
    changed = change(found)
    path.write_text(json.dumps(found if changed is None else changed))


@pytest.mark.parametrize("table", ["records", "findings"])
@pytest.mark.parametrize("what", [".", "_kdump", "_kdump/plan.json", "note"])
def test_plan_and_notes_that_others_may_have_written_are_refused(what: str, table: str, place: Path) -> None:
    args = exported(place, table, "shared/out")
    out = place / "shared" / "out"
    at = next((out / "_kdump").glob("*.done")) if what == "note" else out / what
    if os.geteuid() == 0:
        os.chown(at, 65534, 65534)
        refused(place, *args, says="belongs to user 65534")
        os.chown(at, 0, 0)
    mode = at.stat().st_mode & 0o777
    at.chmod(mode | 0o020)
    refused(place, *args, says="others may write it")
    at.chmod(mode)
    assert kdump(place, *args).exit == 0


def test_a_link_in_the_place_of_the_state_is_not_followed(place: Path) -> None:
    args = exported(place, "findings", "out")
    shutil.move(place / "out" / "_kdump", place / "elsewhere")
    (place / "elsewhere" / "x.done").write_text("keep")
    (place / "out" / "_kdump").symlink_to(place / "elsewhere")
    refused(place, *args, says="_kdump: is a symbolic link")
    assert (place / "elsewhere" / "x.done").read_text() == "keep"


@AS_ROOT
@pytest.mark.parametrize("verb", ["export", "verify"])
def test_nothing_is_written_where_others_could_lay_links(verb: str, place: Path) -> None:
    out = place / "shared" / "out"
    out.mkdir()
    give_away(out)
    args = ("export", "logs", "--to", out) if verb == "export" else ("verify", "logs", "--quiet", "--out", out)
    refused(place, *args, says="belongs to user 65534")
    assert not list(out.iterdir())


@pytest.mark.parametrize("table", ["findings", "segments"])
@pytest.mark.parametrize(
    "path",
    ["{place}/precious", "../precious", "topic=../partition=../../precious", "topic=a/partition=0/../../../precious"],
)
def test_a_note_removes_no_file_outside_of_its_export(path: str, table: str, place: Path) -> None:
    args = exported(place, table, "out")
    note = sorted((place / "out" / "_kdump").glob("*.done"))[0]
    edit(note, lambda found: found.update(path=path.format(place=place)))
    refused(place, *args, says="this note cannot be read", exit_=2)


def test_rows_are_not_removed_by_way_of_a_link(place: Path) -> None:
    args = exported(place, "segments", "out")
    (topic,) = (place / "out").glob("topic=*")
    shutil.move(topic, place / "moved")
    topic.symlink_to(place / "moved")
    before = sorted(place.glob("moved/*/*"))
    refused(place, *args, says="is a symbolic link")
    assert sorted(place.glob("moved/*/*")) == before


def other(at: int, *where: int, value: object) -> Callable[[Any], None]:
    """Change a value in a part of a plan."""

    def change(plan: Any) -> None:
        found = plan["parts"][at]
        for key in where[:-1]:
            found = found[key]
        found[where[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        other(0, 0, value="../../precious"),
        other(0, 0, value="x/y"),
        other(0, 1, value="/tmp"),
        other(0, 1, value="topic=a/../.."),
        other(0, 1, value="topic=a/partition=0\0"),
        other(0, 2, 0, value="/etc/passwd"),
        other(0, 2, 0, value="logs/../precious"),
        other(0, 2, 1, value=-1),
        other(0, 2, 1, value=True),
        other(0, 3, 0, value=10**30),
        other(0, 3, 4, value=None),
        lambda plan: plan["parts"].append(plan["parts"][0]),
        lambda plan: plan.update(parts={}),
        lambda plan: plan.update(problems=[["a"]]),
        lambda plan: plan.update(more=1),
    ],
)
def test_a_plan_leads_nowhere_but_into_its_export(change: Callable[[Any], None], place: Path) -> None:
    args = exported(place, "records", "out")
    for note in (place / "out" / "_kdump").glob("*.done"):
        note.unlink()
    edit(place / "out" / "_kdump" / "plan.json", change)
    before = sorted(place.rglob("*"))
    refused(place, *args, says="the plan in it", exit_=2)
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize("what", ["plan.json", "note"])
@pytest.mark.parametrize("data", [b"", b"[" * 200_000, b"\xff", b'{"asked":{}}', b"1" * 5000, None])
def test_state_of_an_export_that_is_none_is_one_line(data: bytes | None, what: str, place: Path) -> None:
    args = exported(place, "records", "out")
    state = place / "out" / "_kdump"
    at = next(state.glob("*.done")) if what == "note" else state / what
    if data is None:
        a_pipe(at)
        refused(place, *args, says="is a pipe, not a")
    else:
        at.write_bytes(data)
        refused(place, *args, says="cannot be read", exit_=2)


@pytest.mark.parametrize("row", ['{"path": "\\u0000"}', '{"path": "\\ud800"}', "[" * 100_000])
@pytest.mark.parametrize("option", ["--redact", "--notes"])
def test_a_manifest_that_is_none_is_one_line(row: str, option: str, place: Path) -> None:
    (place / "m.json").write_text(row)
    refused(place, "verify", "m.json", option, says="m.json: ", exit_=2)


def test_what_is_known_of_another_export_is_said_whatever_it_is(place: Path) -> None:
    args = exported(place, "records", "out")
    edit(place / "out" / "_kdump" / "plan.json", lambda plan: plan["asked"].update(paths=3, table=[[]]))
    refused(place, *args, says="holds an export of something else", exit_=2)


def test_the_tables_of_verify_take_the_place_of_those_of_an_earlier_run(place: Path) -> None:
    """A second run once ended with `the plan in it cannot be read`."""

    def topics() -> set[str]:
        return {path.parts[-3] for path in (place / "out").rglob("partition=*/*.parquet")}

    log_dir(place / "more", "b")
    for root, seen in (("logs", {"topic=a"}), ("logs", {"topic=a"}), ("more", {"topic=b"})):
        assert kdump(place, "verify", root, "--quiet", "--out", "out").exit == 0
        assert topics() == seen
    refused(
        place, *exported(place, "findings", "else")[:-1], "out/findings", says="holds an export of something", exit_=2
    )


@pytest.mark.parametrize("table", ["records", "findings"])
def test_what_a_killed_run_has_left_goes_and_what_is_only_called_like_it_stays(table: str, place: Path) -> None:
    args = exported(place, table, "out")
    state, rows = place / "out" / "_kdump", next((place / "out").glob("topic=*/partition=*"))
    note = next(state.glob("*.done")).name
    part = note.removesuffix(".done")
    for path in (rows / f".{part}.0123abcd.tmp", state / f"{note}.0123abcd.tmp", state / "plan.json.0123abcd.tmp"):
        path.write_text("half")
    kept = [place / "out" / ".notes.tmp", rows / ".kdump.tmp", rows / f".{part}.tmp", state / "mine.tmp"]
    for path in kept:
        path.write_text("mine")
    (state / note).unlink()
    assert kdump(place, *args).exit == 0
    assert sorted(path for path in (place / "out").rglob("*.tmp")) == sorted(kept)


def test_a_killed_verify_is_no_reason_to_name_another_directory(place: Path) -> None:
    """The same command once more replaces what the first wrote, wherever that was killed; here at every write."""
    log_dir(place / "logs", "ab")
    args = ["verify", "logs", "--quiet", "--to", "out"]
    assert kdump(place, *args).exit == 0
    whole = sorted(path.relative_to(place) for path in (place / "out").rglob("*"))
    for number in range(0, 60, 6):
        killed_at(number, args, place)
        assert kdump(place, *args).exit == 0
        assert sorted(path.relative_to(place) for path in (place / "out").rglob("*")) == whole


def killed_at(number: int, args: list[str], place: Path) -> None:
    """Run until so many files were made, renamed or removed; then end as by SIGKILL."""
    child = os.fork()
    if child == 0:
        try:
            os.chdir(place)
            left = [number]
            for name_of_call in ("replace", "rename", "unlink", "mkdir", "rmdir"):
                setattr(os, name_of_call, counted(getattr(os, name_of_call), left))
            sys.argv = ["kdump", *args]
            from kdump.__main__ import run

            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            run()
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def counted(call: Callable[..., Any], left: list[int]) -> Callable[..., Any]:
    def counts(*some: object, **named: object) -> object:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*some, **named)

    return counts


def test_the_directories_of_an_export_are_closed_to_others_whatever_the_umask(place: Path) -> None:
    before = os.umask(0)
    try:
        args = exported(place, "records", "deep/out")
        assert kdump(place, *args).exit == 0
    finally:
        os.umask(before)
    assert not [path for path in (place / "deep").rglob("*") if path.is_dir() and path.stat().st_mode & 0o022]


# --- rescue -------------------------------------------------------------------------------------------------
def test_a_topic_with_the_name_of_a_leaving_keeps_its_result(place: Path) -> None:
    for topic in (".kdump-salvage-x-0", ".kdump-salvage-a-0", "a-0"):
        write(place / topic, segment(0, [batch(0, [Record()])]))
        assert kdump(place, "salvage", topic, "--to", "out").exit == 0
    found = [path.name for path in (place / "out").iterdir() if path.is_dir()]
    assert sorted(found) == [".kdump-salvage-a-0", ".kdump-salvage-x-0", "a-0"]


@AS_ROOT
@pytest.mark.parametrize("what", [".", ".kdump-salvage~a-0", "a-0.salvage.jsonl"])
def test_what_others_have_left_in_a_target_of_salvage_is_refused(what: str, place: Path) -> None:
    args = ("salvage", "logs/a-0", "--to", "out")
    if what == "a-0.salvage.jsonl":
        assert kdump(place, *args).exit == 0
    else:
        (place / "out" / ".kdump-salvage~a-0").mkdir(parents=True)
    os.chown(place / "out" / what, 65534, 65534)
    before = sorted(place.rglob("*"))
    refused(place, *args, says="belongs to user 65534")
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize("data", ["", "[" * 100_000, "{}", '{"type":"salvage","sources":["logs/a-0"]}', None])
def test_rows_in_a_target_that_are_none_are_one_line(data: str | None, place: Path) -> None:
    args = ("salvage", "logs/a-0", "--to", "out")
    assert kdump(place, *args).exit == 0
    rows = place / "out" / "a-0.salvage.jsonl"
    a_pipe(rows) if data is None else rows.write_text(data)
    done = kdump(place, *args)
    assert (done.exit, done.stderr.count(b"\n")) == (12, 1), done.stderr


def test_a_name_that_begins_as_those_of_carve_is_somebodys_where_none_was_killed(place: Path) -> None:
    shutil.copyfile(place / "logs" / "a-0" / name(0), place / "image")
    (place / "out").mkdir()
    (place / "out" / ".kdump-notes").write_text("mine")
    refused(place, "carve", "image", "--to", "out", says="out: holds .kdump-notes; name a new directory")


@AS_ROOT
def test_runs_of_others_are_not_removed_as_those_of_a_killed_carve(place: Path) -> None:
    shutil.copyfile(place / "logs" / "a-0" / name(0), place / "image")
    args = ("carve", "image", "--to", "out")
    assert kdump(place, *args).exit == 0
    (place / "out" / ".kdump-carving").touch()
    give_away(place / "out" / ".kdump-carving")
    before = sorted(place.rglob("*"))
    refused(place, *args, says="belongs to user 65534")
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize("how", ["owner", "right", "link", "pipe"])
def test_a_list_of_runs_is_followed_where_it_is_as_trusted_as_the_runs(how: str, place: Path) -> None:
    shutil.copyfile(place / "logs" / "a-0" / name(0), place / "image")
    assert kdump(place, "carve", "image", "--to", "runs", "--like", "logs").exit == 0
    args = ("salvage", "runs", "--to", "out")
    rows = place / "runs" / "carve.jsonl"
    if how == "owner":
        if os.geteuid() != 0:
            pytest.skip("only root can give files away")
        give_away(place / "runs")
        assert kdump(place, *args).exit == 0
        shutil.rmtree(place / "out")
        os.chown(rows, 65533, 65533)
    elif how == "right":
        rows.chmod(0o666)
    elif how == "link":
        rows.rename(place / "list")
        rows.symlink_to(place / "list")
    else:
        a_pipe(rows)
    refused(place, *args, says="carve.jsonl: ")
    assert not (place / "out").exists()


@pytest.mark.parametrize("how", ["owner", "right", "pipe"])
def test_a_verb_that_only_reads_says_that_rows_do_not_count_and_goes_on(how: str, place: Path) -> None:
    write(place / "__consumer_offsets-0", segment(0, [batch(0, [Record()])]))
    rows = place / "__consumer_offsets-0.salvage.jsonl"
    rows.write_text('{"type":"loss","certainty":"lost","offset":1,"lastOffset":2}\n')
    assert kdump(place, "groups", "__consumer_offsets-0").exit != 5
    if how == "owner":
        if os.geteuid() != 0:
            pytest.skip("only root can give files away")
        os.chown(rows, 65533, 65533)
    elif how == "right":
        rows.chmod(0o666)
    else:
        a_pipe(rows)
    done = kdump(place, "groups", "__consumer_offsets-0")
    assert done.exit in (5, 6), done.stderr
    assert done.stderr.startswith(f"kdump: {rows.name}: ".encode())


# --- what the system refuses --------------------------------------------------------------------------------
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
@pytest.mark.parametrize(
    ("args", "exit_"),
    [
        (("verify", "logs", "--quiet", "--to", "full/out"), 5),
        (("export", "logs", "--to", "full/out"), 5),
        (("verify", "logs", "--quiet", "--scrub", "full/ledger"), 13),
    ],
)
def test_a_full_disk_is_one_line_that_names_the_file(args: tuple[str, ...], exit_: int, place: Path) -> None:
    """It once said `kdump: None: No space left on device`."""
    (place / "full").mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=755", "tmpfs", str(place / "full")]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        (place / "full" / "fill").write_bytes(bytes(56 << 10))
        done = kdump(place, *args)
    finally:
        subprocess.run(["umount", str(place / "full")], check=True)
    assert done.exit == exit_
    assert done.stderr.decode().splitlines()[-1].startswith("kdump: full/")


def test_too_many_open_files_is_the_error_of_what_could_not_be_opened(place: Path) -> None:
    log_dir(place / "many", "abcdefghijklmnop")
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16)); sys.argv[0] = 'kdump';"
        "from kdump.__main__ import run; run()"
    )
    words = ["dump", "--follow", "--idle-timeout", "1s", *(f"many/{one}-0" for one in "abcdefghijklmnop")]
    env = {**os.environ, "PYTHONPATH": str(Path(kdump_package.__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=place, env=env, capture_output=True, check=False)
    assert done.returncode == 5, done.stderr
    assert done.stderr.endswith(b" cannot be opened (ulimit -n allows more): Too many open files\n")
    assert done.stderr.count(b"\n") == 1
