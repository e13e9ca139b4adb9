"""Files and directories: only read, never waited for, told in one line where they are not read."""

from __future__ import annotations

import errno
import os
import socket
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from kdump.dump.input_file import InputFile, input_files
from kdump.storage.directory import Contents, Skipped
from kdump.storage.file_source import FileShrankError, FileSource, NotRegularError, OpenFailure
from kdump.storage.open_files import open_source
from kdump.storage.partition_dir import InputDirectory
from kdump.storage.paths import why_not

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.quick

DENIED = "permission denied; you own it: chmod u+rwX gives you the right"
ZERO = "0" * 20
TEN = "0" * 18 + "10"


def problem(path: Path | str, *, follow: bool = True) -> OpenFailure:
    found = open_source(str(path), follow=follow)
    assert isinstance(found, OpenFailure)
    assert "\n" not in found.sentence
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / f"{ZERO}.log"
    path.write_bytes(bytes(range(256)))
    return path


def test_reads_are_cut_at_the_end_and_nowhere_else(file: Path) -> None:
    with FileSource(str(file)) as source:
        assert (source.name, source.size) == (str(file), 256)
        assert source.read_at(3, 4) == bytes((3, 4, 5, 6))
        assert source.read_at(250, 100) == bytes(range(250, 256))
        assert source.read_at(256, 1) == source.read_at(9999, 1) == b""
        target = bytearray(10)
        assert source.read_into(250, memoryview(target)) == 6
        assert target == bytes(range(250, 256)) + bytes(4)


def test_the_size_is_that_at_open(file: Path) -> None:
    with FileSource(str(file)) as source:
        with file.open("ab") as more:
            more.write(b"more")
        assert source.size == 256
        assert source.read_at(250, 100) == bytes(range(250, 256))
        assert source.read_into(256, memoryview(bytearray(4))) == 0


def test_a_file_that_shrinks_is_an_error_and_not_an_end(file: Path) -> None:
    with FileSource(str(file)) as source:
        os.truncate(file, 100)
        assert source.read_at(90, 10) == bytes(range(90, 100))
        with pytest.raises(FileShrankError) as caught:
            source.read_at(90, 20)
        assert (caught.value.position, caught.value.errno) == (100, errno.ESTALE)
        with pytest.raises(FileShrankError):
            source.read_into(100, memoryview(bytearray(1)))
        assert source.next_data(120) == 120


def test_a_read_error_comes_through(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    with FileSource(str(file)) as source:
        monkeypatch.setattr(os, "pread", fail)
        with pytest.raises(OSError, match="Input/output error"):
            source.read_at(0, 1)


def test_a_short_read_is_gone_on_with(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, whole_v = os.pread, os.preadv
    monkeypatch.setattr(os, "pread", lambda fd, length, at: whole(fd, min(length, 3), at))
    monkeypatch.setattr(os, "preadv", lambda fd, parts, at: whole_v(fd, [parts[0][:3]], at))
    with FileSource(str(file)) as source:
        assert source.read_at(0, 256) == bytes(range(256))


def test_holes_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as sparse:
        sparse.truncate(1 << 30)
        sparse.seek(1 << 24)
        sparse.write(b"x")
    with FileSource(str(path)) as source:
        assert source.next_data(0) in (0, 1 << 24)  # 0 where the file system tells no holes
        assert source.next_data(1 << 24) == 1 << 24
        assert source.next_data((1 << 24) + (1 << 20)) in ((1 << 24) + (1 << 20), 1 << 30)
        assert source.next_data(1 << 30) == source.next_data(1 << 40) == 1 << 30


def test_a_file_system_that_tells_no_holes_has_none(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EINVAL, "Invalid argument")

    with FileSource(str(file)) as source:
        monkeypatch.setattr(os, "lseek", fail)
        assert source.next_data(7) == 7


def test_a_file_is_closed_once(file: Path) -> None:
    source = FileSource(str(file))
    source.close()
    source.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        source.read_at(0, 1)


def test_reading_leaves_the_file_as_it_was(file: Path) -> None:
    file.chmod(0o400)
    before = file.stat()
    with FileSource(str(file)) as source:
        source.read_at(0, 256)
        source.next_data(0)
    after = file.stat()
    assert (before.st_mode, before.st_size, before.st_mtime_ns, before.st_ino) == (
        after.st_mode,
        after.st_size,
        after.st_mtime_ns,
        after.st_ino,
    )


def test_no_time_of_access_is_tried_and_done_without(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags: list[int] = []
    whole = os.open

    def refuse(path: str, wanted: int) -> int:
        flags.append(wanted)
        if len(flags) == 1:
            raise PermissionError(errno.EPERM, "Operation not permitted")
        return whole(path, wanted)

    monkeypatch.setattr(os, "open", refuse)
    with FileSource(str(file)) as source:
        assert source.size == 256
    assert flags[1] == flags[0] & ~getattr(os, "O_NOATIME", 0)
    assert not flags[0] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)


def test_a_missing_file_is_told_in_one_line(tmp_path: Path) -> None:
    assert problem("000.log") == OpenFailure("000.log", "missing", "no such file: 000.log")
    assert problem("000.log").missing
    assert problem("").missing
    assert problem("a\0b").missing
    (tmp_path / "file").touch()
    assert problem(f"{tmp_path}/file/x").missing


def test_a_directory_is_not_read_as_a_file(tmp_path: Path) -> None:
    found = problem(tmp_path)
    assert (found.kind, found.sentence) == (
        "directory",
        f"{tmp_path}: is a directory, and a file is meant here",
    )
    assert not found.missing


def test_a_fifo_is_told_and_never_waited_for(tmp_path: Path) -> None:
    path = tmp_path / f"{ZERO}.log"
    os.mkfifo(path)
    assert problem(path) == OpenFailure(str(path), "special", f"{path}: is a FIFO; only regular files are read")


def test_devices_and_sockets_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert problem("/dev/null").sentence == "/dev/null: is a character device; only regular files are read"
    monkeypatch.chdir(tmp_path)  # the path of a socket has a limit
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s.log")
        assert problem("s.log").sentence == "s.log: is a socket; only regular files are read"


def test_what_changes_between_look_and_open_is_not_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.open
    monkeypatch.setattr(os, "open", lambda path, flags: whole("/dev/null", flags & ~getattr(os, "O_NOATIME", 0)))
    with pytest.raises(NotRegularError):
        FileSource(str(file))


def test_who_may_not_read_is_told_as_whom_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    denied = PermissionError(errno.EACCES, "Permission denied")
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    assert why_not("/", denied) == "permission denied; run as root, who owns it"
    assert why_not("/nowhere/below", denied) == "permission denied; run as root, who owns /", "that above tells"
    monkeypatch.setattr(os, "access", lambda path, *_, **__: path != "/usr")
    assert why_not("/usr/bin", denied) == "permission denied; run as root, who owns /usr", "which is shut"
    monkeypatch.setattr(os, "stat", lambda _: SimpleNamespace(st_uid=987_654_321))
    assert why_not("/", denied) == "permission denied; run as user 987654321, who owns it"
    assert why_not("s3://bucket/t-0", denied) == "permission denied by the store"
    assert why_not("/", OSError(errno.EIO, "I/O error")) == "I/O error"


def test_an_unreadable_file_is_told_with_what_to_do(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    found = problem(file)
    assert (found.kind, found.sentence) == (
        "permission",
        f"{file}: {DENIED}",
    )


def test_any_other_trouble_is_one_line_too(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "open", fail)
    assert problem(file).sentence == f"{file}: cannot be opened: Too many open files"


def test_a_link_of_the_user_is_followed_and_one_in_a_walk_is_not(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(file)
    found = open_source(str(link))
    assert isinstance(found, FileSource)
    assert (found.name, found.size) == (str(link), 256)
    found.close()
    assert problem(link, follow=False).kind == "symlink"
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "nothing")
    assert problem(dangling).sentence == f"{dangling}: is a symbolic link to a file that is not there"


def touch(directory: Path, *names: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).touch()


def expand(path: str) -> Contents:
    """What a directory stands for, all together."""
    found = Contents([], [], [], [])
    for one in (directory.contents for directory in InputDirectory(path).listed()):
        found.files.extend(one.files)
        found.leftovers.extend(one.leftovers)
        found.ignored.extend(one.ignored)
        found.skipped.extend(one.skipped)
    return found


def shown(found: Contents, directory: Path) -> list[str]:
    return [os.path.relpath(file.path, directory) for file in found.files]


def test_a_partition_is_shown_segment_by_segment(tmp_path: Path) -> None:
    expected = [
        *[f"{ZERO}.{suffix}" for suffix in ("log", "index", "timeindex", "txnindex", "snapshot")],
        *[f"{TEN}.{suffix}" for suffix in ("log", "index", "timeindex")],
        f"{ZERO[:-2]}11.snapshot",
        f"{ZERO}-0000000000.checkpoint",
        f"{TEN}-0000000001.checkpoint",
        f"{TEN}-0000000002.checkpoint",
        *["leader-epoch-checkpoint", "partition.metadata", "quorum-state"],
    ]
    touch(tmp_path, *sorted(expected, reverse=True))
    assert shown(expand(str(tmp_path)), tmp_path) == expected


def test_what_no_broker_reads_is_listed_apart(tmp_path: Path) -> None:
    touch(tmp_path, f"{ZERO}.log", f"{TEN}.log.deleted", "x.log", f"{ZERO}.log.bak", "notes.txt", ".lock")
    found = expand(str(tmp_path))
    assert shown(found, tmp_path) == [f"{ZERO}.log"]
    assert [os.path.basename(path) for path in found.leftovers] == [
        f"{ZERO}.log.bak",
        f"{TEN}.log.deleted",
        "x.log",
    ]
    assert found.ignored == []  # a name without a part that means something is passed over: there may be a million
    assert found.skipped == []


def test_a_log_dir_is_its_own_files_and_then_its_partitions_by_number(tmp_path: Path) -> None:
    touch(
        tmp_path,
        "cleaner-offset-checkpoint",
        "meta.properties",
        "bootstrap.checkpoint",
        ".kafka_cleanshutdown",
        ".lock",
    )
    for name in ("t-10", "t-9", "a-b-0", "t-9.2a5214c456a442bd97c20a732af24d67-delete"):
        touch(tmp_path / name, f"{ZERO}.log")
    touch(tmp_path / "remote-log-index-cache", "1_AAAAAAAAAAAAAAAAAAAAAA.index")
    touch(tmp_path / "lost+found", "x")
    found = expand(str(tmp_path))
    assert shown(found, tmp_path) == [
        *["bootstrap.checkpoint", "meta.properties", "cleaner-offset-checkpoint", ".kafka_cleanshutdown"],
        f"a-b-0/{ZERO}.log",
        f"t-9/{ZERO}.log",
        f"t-9.2a5214c456a442bd97c20a732af24d67-delete/{ZERO}.log",
        f"t-10/{ZERO}.log",
    ]
    assert found.ignored == [f"{tmp_path}/remote-log-index-cache"]
    assert found.skipped == [Skipped(f"{tmp_path}/lost+found", "not a partition directory")]


def test_a_stray_file_in_a_log_dir_does_not_hide_its_partitions(tmp_path: Path) -> None:
    touch(tmp_path, "x.log", f"{ZERO}.log.bak")
    touch(tmp_path / "t-0", f"{ZERO}.log")
    assert shown(expand(str(tmp_path)), tmp_path) == [f"t-0/{ZERO}.log"]


def test_a_walk_follows_no_link_and_opens_nothing_special(tmp_path: Path) -> None:
    touch(tmp_path / "t-0", f"{ZERO}.log")
    (tmp_path / "t-1").symlink_to(tmp_path)
    (tmp_path / "t-0" / f"{TEN}.log").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "t-0" / f"{ZERO}.index")
    touch(tmp_path / "t-0" / "t-2", f"{ZERO}.log")
    found = expand(str(tmp_path))
    assert shown(found, tmp_path) == [f"t-0/{ZERO}.log"]
    assert found.skipped == [
        Skipped(f"{tmp_path}/t-1", "a symbolic link"),
        Skipped(f"{tmp_path}/t-0/{ZERO}.index", "not a regular file"),
        Skipped(f"{tmp_path}/t-0/{TEN}.log", "a symbolic link"),
        Skipped(f"{tmp_path}/t-0/t-2", "a directory inside a partition directory"),
    ]


def test_paths_are_joined_onto_what_the_user_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path / "d", f"{ZERO}.log")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("d")
    assert [file.path for file in expand("./d//").files] == [f"./d//{ZERO}.log"]
    assert [file.path for file in expand("link").files] == [f"link/{ZERO}.log"]


@pytest.mark.parametrize("path", ["", "nothing.log", "/dev/null", "a\0b"])
def test_what_is_no_directory_stands_for_itself(path: str) -> None:
    assert [file.path for file in input_files([path]) if isinstance(file, InputFile)] == [path]


def test_a_directory_that_cannot_be_listed_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "scandir", refuse)
    found = expand(str(tmp_path))
    assert (found.files, found.skipped) == (
        [],
        [Skipped(str(tmp_path), f"cannot be listed: {DENIED}")],
    )
