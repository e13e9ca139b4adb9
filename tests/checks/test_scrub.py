"""verify --scrub: what changed in a closed segment is told with its place, and what a broker does is no alarm."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from kdump.checks import scrub as scrubbing
from kdump.checks.ledger import Known, Ledger, LedgerError, Listed
from kdump.checks.scrub import ScrubOptions, scrub
from kdump.checks.scrub_segment import BlockSums, scrub_segment
from kdump.finding import Finding
from kdump.format.checksum import crc32c
from kdump.format.source import BytesSource
from kdump.item import Checked
from kdump.storage.file_source import FileSource
from tests.support.bad_sectors import unreadable
from tests.support.partitions import checkpoint, name, segment, write
from tests.support.runs import flat, run_kdump
from tests.support.scrubs import BLOCK, closed, left, log_dir, parts_of, read, rot, rotten, run
from tests.support.segments import Record, batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ALL = [f"{topic}-0/{name(base)}" for topic in "ab" for base in (0, 5, 10)]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return log_dir(tmp_path / "logs")


@pytest.fixture
def ledger(tmp_path: Path, logs: Path) -> Path:
    """A ledger that has the logs."""
    path = tmp_path / "ledger"
    assert read(run(path, logs)) == ALL
    return path


def copy(path: Path) -> None:
    """Put a copy in the place of a file, as compaction does."""
    shutil.copyfile(path, path.with_suffix(".cleaned"))
    path.with_suffix(".cleaned").rename(path)


# --- what changed -------------------------------------------------------------------------------------------
def test_a_second_run_finds_nothing_in_what_nobody_touched(logs: Path, ledger: Path) -> None:
    items = run(ledger, logs)
    assert read(items) == ALL
    assert not [one for one in items if isinstance(one, Finding)]


@pytest.mark.parametrize("mend", [False, True])
def test_a_flipped_bit_is_told_with_its_place_though_the_crc_was_made_right(
    logs: Path, ledger: Path, mend: bool
) -> None:
    path = closed(logs)[1]
    position, size = rot(path, 2, mend=mend)
    items = run(ledger, logs)
    (found,) = rotten(items)
    assert found.file == str(path)
    if mend:
        assert (found.position, found.length) == (0, path.stat().st_size)
        assert (found.offset, found.last_offset) == (5, 9)
    else:
        assert (found.position, found.length) == (position, size)
        assert (found.offset, found.last_offset) == (7, 7)
    others = [one for one in items if isinstance(one, Finding) and one is not found]
    assert [(one.code.name, one.because) for one in others] == ([] if mend else [("B01", found.code)])


def test_it_is_told_by_every_run_until_the_segment_is_replaced(logs: Path, ledger: Path) -> None:
    path = closed(logs)[0]
    rot(path, mend=True)
    for _ in range(3):
        assert [one.file for one in rotten(run(ledger, logs))] == [str(path)]
    copy(path)
    assert rotten(run(ledger, logs)) == []


def test_it_is_no_longer_told_when_the_bytes_are_what_they_were(logs: Path, ledger: Path) -> None:
    path = closed(logs)[0]
    before = path.read_bytes()
    rot(path, mend=True)
    assert rotten(run(ledger, logs))
    with path.open("r+b") as file:
        file.write(before)
    assert rotten(run(ledger, logs)) == []


def test_blocks_that_adjoin_are_one_row_and_others_are_rows_of_their_own(tmp_path: Path) -> None:
    root = log_dir(tmp_path / "logs", "a", value=9000, batches=60)
    path, ledger = closed(root)[0], tmp_path / "ledger"
    run(ledger, root)
    parts = parts_of(path)

    def of_block(block: int) -> int:
        """A batch that lies in one block."""
        return next(at for at, (start, size) in enumerate(parts) if start // BLOCK == block == (start + size) // BLOCK)

    for block in (1, 2, 5):
        rot(path, of_block(block), mend=True)
    found = rotten(run(ledger, root))
    assert [(one.position, one.length) for one in found] == [(BLOCK, 2 * BLOCK), (5 * BLOCK, BLOCK)]
    in_blocks = [at for at, (start, size) in enumerate(parts) if start < 3 * BLOCK and start + size > BLOCK]
    assert (found[0].offset, found[0].last_offset) == (in_blocks[0], in_blocks[-1])
    assert "blocks 1..2 of" in found[0].message
    rot(path, of_block(2) + 1)  # its CRC is wrong: the run ends with its batch, and begins as before
    at, size = parts[of_block(2) + 1]
    assert at // BLOCK == 2
    first = rotten(run(ledger, root))[0]
    assert (first.position, first.length) == (BLOCK, at + size - BLOCK)


def test_zeros_where_a_batch_was_are_narrowed_to_their_gap(logs: Path, ledger: Path) -> None:
    path = closed(logs)[1]
    at, size = parts_of(path)[1]
    with path.open("r+b", buffering=0) as file:
        file.seek(at)
        file.write(bytes(size))
    (found,) = rotten(run(ledger, logs))
    assert (found.position, found.length) == (at, size)


def test_damage_that_was_there_from_the_start_is_told_as_damage(tmp_path: Path, logs: Path) -> None:
    rot(closed(logs)[0])
    for _ in range(2):
        found = [one for one in run(tmp_path / "ledger", logs) if isinstance(one, Finding)]
        assert [one.code.name for one in found] == ["B01"]


def test_what_a_disk_cannot_read_is_told_and_does_not_replace_what_is_known(tmp_path: Path) -> None:
    root = log_dir(tmp_path / "logs", "a", value=9000, batches=60)
    path, ledger = closed(root)[0], tmp_path / "ledger"
    run(ledger, root)
    rot(path, 50, mend=True)
    with unreadable(path, range(BLOCK, BLOCK + 4096)):
        items = run(ledger, root)
    found = [(one.code.name, one.position) for one in items if isinstance(one, Finding) and one.because is None]
    assert ("V05", parts_of(path)[50][0] // BLOCK * BLOCK) in found
    assert ("F06", BLOCK) in found
    assert [one.position for one in rotten(run(ledger, root))] == [parts_of(path)[50][0] // BLOCK * BLOCK]


def test_the_same_for_any_number_of_processes(tmp_path: Path, logs: Path) -> None:
    for path in closed(logs)[::2]:
        rot(path)
    said = set()
    for jobs in ("1", "2", "3"):
        done = run_kdump(["verify", "--scrub", f"ledger{jobs}", "logs", "-j", jobs], tmp_path)
        assert done.exit == 3
        said.add((done.stdout, done.stderr))
    assert len(said) == 1


# --- what a broker does ---------------------------------------------------------------------------------------
def test_a_segment_of_another_size_or_inode_is_new(logs: Path, ledger: Path) -> None:
    first, second = closed(logs)[:2]
    parts = parts_of(first)
    os.truncate(first, parts[-1][0])
    rot(second, mend=True)
    copy(second)
    assert rotten(run(ledger, logs)) == []
    rot(first, mend=True)
    assert [one.file for one in rotten(run(ledger, logs))] == [str(first)]


@pytest.mark.parametrize(("offset", "is_touched", "alarm"), [(4, True, True), (5, True, False), (5, False, True)])
def test_the_cleaner_may_reuse_an_inode_only_below_its_offset_and_with_a_new_ctime(
    logs: Path, ledger: Path, offset: int, is_touched: bool, alarm: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (logs / "cleaner-offset-checkpoint").write_bytes(checkpoint(("a", 0, offset)))
    path = closed(logs)[0]
    rot(path, mend=True)
    if not is_touched:  # a disk that rots changes no time
        db = sqlite3.connect(ledger)
        with db:
            db.execute("UPDATE segments SET ctime = ? WHERE path = ?", (path.stat().st_ctime_ns, os.fsencode(path)))
        db.close()
    assert [one.file for one in rotten(run(ledger, logs))] == [str(path)] * alarm


def test_what_went_while_it_was_its_turn_is_no_alarm(
    tmp_path: Path, logs: Path, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = closed(logs)[2]
    reading = scrub_segment

    def going(unit: Any, *more: Any) -> Any:
        if unit.path == str(path):
            path.unlink()
        return reading(unit, *more)

    monkeypatch.setattr("kdump.checks.scrub.scrub_segment", going)
    items = run(ledger, logs)
    assert not [one for one in items if isinstance(one, Finding)]
    assert left(items) == [str(path)]


def test_what_is_cut_while_it_is_read_is_no_alarm(logs: Path, ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = closed(logs)[2]
    opening = FileSource.__init__

    def cut(self: FileSource, file: str, *args: Any, **named: Any) -> None:
        opening(self, file, *args, **named)
        if file == str(path):
            os.truncate(path, 100)

    monkeypatch.setattr(FileSource, "__init__", cut)
    items = run(ledger, logs)
    assert not [one for one in items if isinstance(one, Finding)]
    assert left(items) == [str(path)]


def test_a_closed_segment_that_is_the_last_again_is_not_forgotten(logs: Path, ledger: Path) -> None:
    path = closed(logs)[2]
    after = logs / "a-0" / name(15)
    held = after.read_bytes()
    after.unlink()
    rot(path, mend=True)
    assert rotten(run(ledger, logs)) == []  # it is not closed now
    after.write_bytes(held)
    assert [one.file for one in rotten(run(ledger, logs))] == [str(path)]


def test_what_is_gone_is_forgotten_and_a_directory_that_is_not_there_is_not(logs: Path, ledger: Path) -> None:
    def known() -> int:
        db = sqlite3.connect(ledger)
        try:
            return int(db.execute("SELECT count(*) FROM sums JOIN segments USING (id)").fetchone()[0])
        finally:
            db.close()

    closed(logs)[0].unlink()
    run(ledger, logs)
    assert known() == 5
    for path in closed(logs):
        rot(path, mend=True)
    logs.rename(logs.with_name("away"))
    logs.mkdir()  # as a mount point without its disk
    run(ledger, logs)
    assert known() == 5
    logs.rmdir()
    logs.with_name("away").rename(logs)
    assert len(rotten(run(ledger, logs))) == 5
    shutil.rmtree(logs / "a-0")
    run(ledger, logs)
    assert known() == 3


# --- whose turn it is -----------------------------------------------------------------------------------------
def timed(monkeypatch: pytest.MonkeyPatch, segments: int) -> None:
    """Let the time of --for pass with so many segments."""
    passed = [0]
    reading = scrub_segment

    def slowly(*args: Any) -> Any:
        yield from reading(*args)
        passed[0] += 1

    monkeypatch.setattr("kdump.checks.scrub.scrub_segment", slowly)
    began = iter((0.0,))
    monkeypatch.setattr(
        "kdump.checks.scrub.time.monotonic", lambda: next(began, 1000.0 if passed[0] >= segments else 0.0)
    )


def test_a_run_that_was_ended_by_the_time_is_gone_on_with(
    tmp_path: Path, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger"
    with monkeypatch.context() as patch:
        timed(patch, 2)
        items = run(path, logs, seconds=9.0)
        assert read(items) == ALL[:2]
        assert left(items) == [str(logs / one) for one in ALL[2:]]
    shutil.copytree(logs / "a-0", logs / "A-0")  # what is new comes after the rest of the round
    new = [f"A-0/{name(base)}" for base in (0, 5, 10)]
    with monkeypatch.context() as patch:
        timed(patch, 5)
        assert read(run(path, logs, seconds=9.0)) == [*ALL[2:], new[0]]
    assert read(run(path, logs)) == [*new[1:], *ALL, new[0]]
    assert read(run(path, logs)) == [*new[1:], *ALL, new[0]]


def test_one_segment_is_read_however_little_time_there_is(
    tmp_path: Path, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger"
    seen = []
    for _ in range(len(ALL)):
        with monkeypatch.context() as patch:
            timed(patch, 0)
            seen += read(run(path, logs, seconds=1.0))
    assert seen == ALL


def test_disks_take_turns(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path / "ledger"))
    paths = [(dev, f"/{disk}/t-0/{name(base)}") for dev, disk in ((7, "a"), (3, "b")) for base in range(3)]
    ledger.enter([Listed(os.fsencode(path), path, 0, 9, dev, at, 10) for at, (dev, path) in enumerate(paths)])
    turns = [turn.path for turn in ledger.begin()]
    ledger.close()
    assert turns == [path for pair in zip(paths[:3], paths[3:], strict=True) for _, path in pair]


# --- accepting ------------------------------------------------------------------------------------------------
def test_accepted_bytes_are_the_reference_from_then_on(tmp_path: Path, logs: Path, ledger: Path) -> None:
    path = closed(logs)[1]
    rot(path, mend=True)
    done = run_kdump(["verify", "--scrub", "ledger", "--accept", str(path)], tmp_path)
    assert done.exit == 0
    assert rotten(run(ledger, logs)) == []
    rot(path, 3, mend=True)
    items = run(ledger, logs, accept=(str(path),))
    assert rotten(items) == []
    assert sorted(read(items)) == ALL  # and it is read once


def test_what_verify_finds_damaged_is_not_accepted(tmp_path: Path, logs: Path, ledger: Path) -> None:
    path = closed(logs)[1]
    rot(path)
    done = run_kdump(["verify", "--scrub", "ledger", "--accept", str(path), "logs", "--format", "json"], tmp_path)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.exit == 3
    assert [row["code"] for row in rows if row["type"] == "finding"] == ["B01", "V05", "B01"]


def test_a_patch_names_the_command_that_accepts_it_and_its_undo_advises_to_accept_no_damage(tmp_path: Path) -> None:
    logs = log_dir(tmp_path / "logs", "a", batches=9)
    path, ledger = closed(logs)[1], tmp_path / "ledger"
    with path.open("r+b", buffering=0) as file:  # a leader epoch, which no CRC covers
        file.seek(parts_of(path)[4][0] + 15)
        file.write(b"\x05")
    run(ledger, logs)
    done = run_kdump(["patch-header", str(path), "--apply", "--quarantine", "aside"], tmp_path)
    assert done.exit == 0, done.stderr
    command = flat(done.stdout).rpartition("keeps a ledger: ")[2].replace("LEDGER", "ledger").split()
    assert command == ["kdump", "verify", "--scrub", "ledger", "--accept", str(path)]
    assert len(rotten(run(ledger, logs))) == 1
    assert run_kdump(command[1:], tmp_path).exit == 0
    assert rotten(run(ledger, logs)) == []
    done = run_kdump(["undo", *map(str, (tmp_path / "aside").glob("*")), "--apply"], tmp_path)
    assert (done.exit, done.stdout.decode()) == (0, f"undone: {path.parent} is restored\n")
    assert len(rotten(run(ledger, logs))) == 1


# --- refusals -------------------------------------------------------------------------------------------------
def test_a_second_run_on_one_ledger_is_locked_out(tmp_path: Path, logs: Path, ledger: Path) -> None:
    first = Ledger(str(ledger))
    done = run_kdump(["verify", "--scrub", "ledger", "logs"], tmp_path)
    first.close()
    assert done.exit == 11
    assert done.stderr.count(b"\n") == 1
    assert run_kdump(["verify", "--scrub", "ledger", "logs"], tmp_path).exit == 0


@pytest.mark.parametrize("place", ["logs/ledger", "logs/a-0/ledger", "logs/new/ledger"])
def test_no_ledger_lies_in_a_log_directory(tmp_path: Path, logs: Path, place: str) -> None:
    (logs / "new").mkdir()
    for path in ("logs", "logs/b-0"):
        done = run_kdump(["verify", "--scrub", place, path], tmp_path)
        assert done.exit == 12
    assert not (tmp_path / place).exists()


@pytest.mark.parametrize("content", [b"not a database, but a text that is long enough to be seen as such" * 9, None])
def test_another_file_is_not_taken_for_a_ledger(tmp_path: Path, logs: Path, content: bytes | None) -> None:
    path = tmp_path / "other"
    if content is None:
        db = sqlite3.connect(path)
        db.execute("CREATE TABLE mine (x)")
        db.close()
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    done = run_kdump(["verify", "--scrub", "other", "logs"], tmp_path)
    assert done.exit == 12
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("args", "status"),
    [
        (["--accept", "logs/a-0/" + name(0), "logs"], 2),
        (["--for", "2h", "logs"], 2),
        (["--scrub", "ledger"], 2),
        (["--scrub", "ledger", "--for", "2 hours", "logs"], 2),
        (["--scrub", "ledger", "--max-rate", "0", "logs"], 2),
        (["--scrub", "ledger", "--start", "all", "logs"], 2),
        (["--scrub", "ledger", "--accept", "logs/a-0/" + name(15)], 12),
        (["--scrub", "ledger", "--accept", "logs/a-0"], 12),
        (["--scrub", "ledger", "--accept", "logs/a-0/" + name(99)], 10),
        (["--scrub", "ledger", "nothing"], 10),
        (["--scrub", "nowhere/ledger", "logs"], 13),
        (["--scrub", "ledger", "--for", "1.5m", "--max-rate", "1.5M", "logs"], 0),
    ],
)
def test_exit_statuses(tmp_path: Path, logs: Path, args: list[str], status: int) -> None:
    assert run_kdump(["verify", *args], tmp_path).exit == status


def test_open_segments_and_other_files_are_listed_as_unchecked(tmp_path: Path, logs: Path) -> None:
    paths = ["logs/a-0/" + name(15), "logs/a-0/" + name(0, "index"), "logs/a-0/" + name(5)]
    done = run_kdump(["verify", "--scrub", "ledger", "--format", "json", *paths], tmp_path)
    summary = json.loads(done.stdout.splitlines()[-1])
    assert (done.exit, summary["files"]) == (0, 1)
    assert [one["file"] for one in summary["unchecked"]] == paths[:2]


def test_active_segments_are_counted_in_one_line_for_they_are_not_read(tmp_path: Path, logs: Path) -> None:
    done = run_kdump(["verify", "--scrub", "ledger", "logs"], tmp_path)
    active = len([path for path in logs.iterdir() if any(path.glob("*.log"))])
    said = [line for line in done.stderr.decode().splitlines() if " active segment" in line]
    what, how = "a broker still writes to them", "kdump verify without --scrub reads them too"
    assert said == [f"kdump: {active} active segments were not read: {what}; {how}"]
    assert run_kdump(["verify", "--scrub", "ledger", "--quiet", "logs"], tmp_path).stderr == b""


def test_a_directory_that_waits_for_its_deletion_is_left_alone(logs: Path, tmp_path: Path) -> None:
    (logs / "a-0").rename(logs / f"a-0.{'0' * 32}-delete")
    assert read(run(tmp_path / "ledger", logs)) == ALL[3:]


# --- the ledger -------------------------------------------------------------------------------------------------
def test_sums_are_those_of_each_block_however_it_is_read() -> None:
    data = bytes(range(256)) * 1000
    expected = b"".join(crc32c(data[at : at + BLOCK]).to_bytes(4, "little") for at in range(0, len(data), BLOCK))
    whole = BlockSums(BytesSource(data))
    assert whole.sums() == expected
    pieces = BlockSums(BytesSource(data))
    for at, length in ((0, 10), (5, 70_000), (200_000, 100), (60_000, 100_000), (0, 5)):
        pieces.read_at(at, length)
    assert pieces.sums() == expected
    assert BlockSums(BytesSource(b"")).sums() == b""


def test_numbers_of_inodes_have_all_their_bits(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path / "ledger"))
    known = Known(1, 2**64 - 5, 3, 4, 5, b"1234", 6)
    number = ledger.number_of(b"/x")
    ledger.keep(number, known)
    assert ledger.known(number) == known
    ledger.close()


class Killing(sqlite3.Connection):
    """A connection whose process is killed at a call."""

    left = -1

    def execute(self, *args: Any) -> sqlite3.Cursor:
        kill()
        return super().execute(*args)

    def executemany(self, *args: Any) -> sqlite3.Cursor:
        kill()
        return super().executemany(*args)


def kill() -> None:
    Killing.left -= 1
    if not Killing.left:
        os.kill(os.getpid(), signal.SIGKILL)


def killed_at(call: int, ledger: Path, logs: Path) -> tuple[bool, list[str]]:
    """Kill a run at a call of SQLite or a reading; return whether it was, and what it had told."""
    out, into = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            connect = sqlite3.connect
            filling = FileSource.read_into

            def fill(self: FileSource, *args: Any) -> int:
                kill()
                return filling(self, *args)

            patch = pytest.MonkeyPatch()
            patch.setattr(sqlite3, "connect", lambda *args, **named: connect(*args, **named, factory=Killing))
            patch.setattr(FileSource, "read_into", fill)
            patch.setattr(scrubbing, "_OFTEN", 0.0 if call % 2 else 1000.0)  # after each segment, or after all
            patch.setattr(scrubbing, "_TOGETHER", 2)
            Killing.left = call
            for item in scrub([str(logs)], ScrubOptions(str(ledger))):
                if isinstance(item, Checked):
                    os.write(into, f"{item.files[0].path}\n".encode())
            os._exit(0)
        finally:
            os._exit(1)
    os.close(into)
    with os.fdopen(out) as told:
        lines = told.read().splitlines()
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status), lines


def each_call(check: Callable[[int], bool]) -> int:
    call = 1
    while check(call):
        call += 1
    return call


def test_killed_at_any_call_nothing_that_was_told_is_forgotten(tmp_path: Path, logs: Path) -> None:
    ledger, before = tmp_path / "ledger", {path: path.read_bytes() for path in closed(logs)}

    def check(call: int) -> bool:
        for path in tmp_path.glob("ledger*"):
            path.unlink()
        for path, data in before.items():
            with path.open("r+b", buffering=0) as file:
                file.write(data)
        is_killed, told = killed_at(call, ledger, logs)
        for one in told:
            rot(tmp_path / one, mend=True)
        found = rotten(run(ledger, logs))
        assert sorted(one.file for one in found) == sorted(told), call
        return is_killed

    assert each_call(check) > 30


def test_killed_at_any_call_nothing_false_is_told(tmp_path: Path, logs: Path, ledger: Path) -> None:
    bad = closed(logs)[3]
    rot(bad, mend=True)
    kept = ledger.read_bytes()
    os.truncate(closed(logs)[0], parts_of(closed(logs)[0])[-1][0])

    def check(call: int) -> bool:
        for path in tmp_path.glob("ledger-*"):
            path.unlink()
        ledger.write_bytes(kept)
        is_killed, _ = killed_at(call, ledger, logs)
        assert [one.file for one in rotten(run(ledger, logs))] == [str(bad)], call
        return is_killed

    assert each_call(check) > 30


def test_opening_a_ledger_reads_none_of_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger = Ledger(str(path))
    rows = 20_000
    known = Known(1, 2, 3, 4, 5, bytes(400), 6)
    for at in range(rows):
        ledger.keep(ledger.number_of(b"/l/t-0/%020d.log" % at), known)
    ledger.commit()
    ledger.close()
    steps = 0

    class Counting(sqlite3.Connection):
        def __init__(self, *args: Any, **named: Any) -> None:
            super().__init__(*args, **named)
            self.set_progress_handler(count, 1)

    def count() -> None:
        nonlocal steps
        steps += 1

    connect = sqlite3.connect
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", lambda *args, **named: connect(*args, **named, factory=Counting))
        Ledger(str(path)).close()
    assert 0 < steps < rows / 100


def test_a_damaged_ledger_is_said_in_one_line(tmp_path: Path, logs: Path, ledger: Path) -> None:
    with ledger.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 8000)
    with pytest.raises(LedgerError):
        run(ledger, logs)
    done = run_kdump(["verify", "--scrub", "ledger", "logs"], tmp_path)
    assert done.exit == 13
    assert done.stderr.count(b"\n") == 1


def test_names_that_are_no_text_are_kept_as_they_are(tmp_path: Path) -> None:
    root = tmp_path / "logs"
    folder = root / "\udcff-0"
    folder.mkdir(parents=True)
    made = write(tmp_path / "made", {**segment(0, [batch(0, [Record()])]), **segment(1, [batch(1, [Record()])])})
    for path in made.iterdir():
        shutil.copyfile(path, folder / path.name)
    for _ in range(2):
        assert len(read(run(tmp_path / "ledger", root))) == 1


def test_a_partition_without_a_log_has_nothing_to_scrub(logs: Path, ledger: Path) -> None:
    (logs / "empty-0").mkdir()
    (logs / "fifo-0").mkdir()
    os.mkfifo(logs / "fifo-0" / name(0))
    found = run_kdump(["verify", "--scrub", str(ledger), str(logs)], logs.parent)
    assert (found.exit, found.stderr.count(b"\n"), b" active segments were not read" in found.stderr) == (0, 1, True)
