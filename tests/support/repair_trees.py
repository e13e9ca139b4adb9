"""What the tests of the writers share: small partitions, what one looks like from outside, and a disk that crashes."""

from __future__ import annotations

import json
import os
import stat
import struct
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kdump.broker.config import Config
from kdump.broker.load.log_manager import LoadSettings
from kdump.checks.options import VerifyOptions
from kdump.checks.run import verify
from kdump.finding import Finding
from kdump.item import PartitionChecked
from kdump.repair.apply import Applied, Means, apply
from kdump.repair.lock import Users
from kdump.repair.mending import LogDirFindings, RepairOptions, plan_repair
from kdump.repair.patch_header import plan_patches
from kdump.repair.reasons import Reasons
from kdump.repair.reindex import ReindexOptions, plan_reindex
from kdump.repair.truncate import CutTarget, LogDamage, plan_truncate
from kdump.storage.fsops import FileOps
from kdump.storage.log_dir import LogDir
from tests.support.partitions import name, segment, snapshot, write
from tests.support.segments import TIME, batch
from tests.support.verify_runs import findings_of, loud

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.repair.plan import Plan

PARTITION = "topic-0"
OLD_TIME = 1_600_000_000_123_456_789  # ns
SETTINGS = LoadSettings(TIME, Config({}), 0)
NOBODY = Users([], ())
_OWNER = 1234
_READS, _READS_AND_WRITES, _NO_ID = 4, 6, 0xFFFFFFFF
_ACL = struct.pack(
    "<I" + 5 * "HHI",
    2,
    1,
    _READS_AND_WRITES,
    _NO_ID,
    2,
    _READS,
    77,
    4,
    _READS,
    _NO_ID,
    16,
    _READS,
    _NO_ID,
    32,
    0,
    _NO_ID,
)  # its owner, user 77, its group, the mask, others
_ATTRIBUTES = {"user.kdump": b"\0kept", "system.posix_acl_access": _ACL}


def no_users(_files: dict[tuple[int, int], str]) -> Users:
    """Nobody has files open; looking through /proc takes its time."""
    return NOBODY


class Quick(FileOps):
    """Does not wait for the disk: no test here turns the power off."""

    def call(self, name: str, function: Callable[..., Any], *args: object, **named: object) -> Any:
        return None if name == "fsync" else function(*args, **named)


def means(ops: FileOps | None = None) -> Means:
    """What a repair works with in a test."""
    return Means(ops or Quick(), no_users)


# --- a small log directory ----------------------------------------------------------------------------------
BATCHES = [batch(at, [b"x" * 40] * 2, epoch=0 if at < 8 else 7, base_timestamp=TIME + at) for at in range(0, 16, 2)]


def intact(log_dir: Path) -> Path:
    """A log directory with one partition of two segments, closed by its broker; owners and dates are odd."""
    files = {
        **segment(0, BATCHES[:5], interval=0),
        **segment(10, BATCHES[5:], interval=0),
        name(10, "snapshot"): snapshot(),
        name(16, "snapshot"): snapshot(),
        "leader-epoch-checkpoint": b"0\n2\n0 0\n7 8\n",
        "partition.metadata": b"version: 0\ntopic_id: CCCCCCCCCCCCCCCCCCCCCA\n",
    }
    write(log_dir / PARTITION, files)
    (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    (log_dir / "meta.properties").write_text(
        "version=1\ncluster.id=c\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n"
    )
    dress(log_dir / PARTITION)
    return log_dir / PARTITION


def dress(directory: Path) -> None:
    """Give all files in a directory an owner, rights, dates and attributes of their own, as far as this user may."""
    for path in (path for path in directory.iterdir() if path.is_file()):
        path.chmod(0o640)
        if os.geteuid() == 0:
            os.chown(path, _OWNER, _OWNER + 1)
        for key, value in _ATTRIBUTES.items():
            with suppress(OSError):
                os.setxattr(path, key, value)
        os.utime(path, ns=(OLD_TIME, OLD_TIME))


class Seen(NamedTuple):
    """A file as everybody sees it."""

    data: bytes
    owner: tuple[int, int]
    mode: int
    modified: int
    attributes: dict[str, bytes]


def _files(directory: Path) -> list[Path]:
    """All files below a directory but the lock."""
    return [path for path in directory.rglob("*") if path.name != ".lock" and not path.is_dir()]


def seen(directory: Path) -> dict[str, Seen]:
    """All files below a directory."""
    found = {}
    for path in _files(directory):
        status = path.stat()
        attributes = {key: os.getxattr(path, key) for key in os.listxattr(path)}
        owner = status.st_uid, status.st_gid
        found[str(path.relative_to(directory))] = Seen(
            path.read_bytes(), owner, stat.S_IMODE(status.st_mode), status.st_mtime_ns, attributes
        )
    return found


def contents(directory: Path) -> dict[str, bytes]:
    """Only the bytes."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in _files(directory)}


def journals(quarantine: Path) -> list[Path]:
    """The journals of a quarantine."""
    return sorted(quarantine.glob("*/journal.json"))


def state_of(journal: Path) -> str:
    """How far a repair has got."""
    fields: dict[str, Any] = json.loads(journal.read_text("utf-8"))
    return str(fields["events"][-1]["state"])


# --- the three commands -------------------------------------------------------------------------------------
def broken_indexes(log_dir: Path) -> Path:
    """One index is gone, one is zero, one has bytes too many."""
    partition = intact(log_dir)
    (partition / name(0, "index")).unlink()
    (partition / name(0, "timeindex")).write_bytes(bytes(48))
    with (partition / name(10, "index")).open("ab") as file:
        file.write(b"abc")
    dress(log_dir / PARTITION)
    return partition


def broken_headers(log_dir: Path) -> Path:
    """A base offset, a leader epoch and a magic are wrong."""
    partition = intact(log_dir)
    size = len(BATCHES[0])
    data = bytearray((partition / name(0)).read_bytes())
    data[size + 3] ^= 2
    data[2 * size + 16] = 3
    data[3 * size + 12] ^= 1
    (partition / name(0)).write_bytes(data)
    dress(log_dir / PARTITION)
    return partition


def plan_of_reindex(partition: Path) -> Plan:
    """The indexes that verify finds wrong."""
    reasons = Reasons(str(partition), findings_of(partition))
    return plan_reindex(str(partition), reasons, ReindexOptions(interval=0))


def plan_of_truncate(partition: Path) -> Plan:
    """A cut in the first segment: the second one goes."""
    target = CutTarget(offset=7, with_later=True)
    return plan_truncate(str(partition), target, LogDamage(str(partition)), SETTINGS)


def plan_of_patches(partition: Path) -> Plan:
    """The headers of the first segment."""
    log = partition / name(0)
    return plan_patches(str(log), findings_of(log))


def broken_all(log_dir: Path) -> Path:
    """An index, a header, and small files of the partition and of its log directory are wrong; zeros end a log."""
    partition = intact(log_dir)
    data = bytearray((partition / name(10)).read_bytes())
    data[len(BATCHES[5]) + 3] ^= 2
    (partition / name(10)).write_bytes(data)
    with (partition / name(0)).open("ab") as file:
        file.write(bytes(100))
    (partition / name(0, "timeindex")).write_bytes(bytes(48))
    (partition / "leader-epoch-checkpoint").write_bytes(bytes(15))
    write(log_dir, {"recovery-point-offset-checkpoint": b"0\n2\ntopic 0 16\n\0\0\n"})
    (log_dir / "meta.properties").write_bytes(b"version=1\ncluster.id=c\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n\0\0=\n")
    dress(partition)
    dress(log_dir)
    return partition


def plan_of_repair(partition: Path) -> Plan:
    """All that can be mended in the log directory of a partition."""
    log_dir = partition.parent
    found = LogDirFindings()
    for item in verify([str(log_dir)], VerifyOptions(deep=False)):
        if isinstance(item, Finding):
            found.see(item)
        elif isinstance(item, PartitionChecked):
            found.checked(item)
    options = RepairOptions(SETTINGS, given={"node.id": "1"})
    return plan_repair(LogDir(str(log_dir)), found, options, is_named=True)


class Scenario(NamedTuple):
    """A command on a partition."""

    build: Callable[[Path], Path]
    plan: Callable[[Path], Plan]
    place: str = PARTITION  # what it changes, below the directory of the logs

    def run(self, root: Path, ops: FileOps | None = None) -> Applied:
        """Plan and apply in `root/logs`; the quarantine is `root/q`."""
        return apply(self.plan(root / "logs" / PARTITION), str(root / "q"), [], means(ops))


SCENARIOS = {
    "reindex": Scenario(broken_indexes, plan_of_reindex),
    "truncate": Scenario(intact, plan_of_truncate),
    "patch-header": Scenario(broken_headers, plan_of_patches),
    "repair": Scenario(broken_all, plan_of_repair, "."),
}


def is_clean(partition: Path) -> bool:
    """Whether verify finds no error and no warning but what a cut announces."""
    return loud([one for one in findings_of(partition) if one.code.name != "K01"]) == []


# --- faults -------------------------------------------------------------------------------------------------
class Counting(Quick):
    """Notes the name of each call."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def call(self, name: str, function: Callable[..., Any], *args: object, **named: object) -> Any:
        self.names.append(name)
        return super().call(name, function, *args, **named)


class Faulty(Counting):
    """Does something else at one call, once.

    Args:
        number: of the call, from 0.
        fault: makes the call, or not.
    """

    def __init__(self, number: int, fault: Callable[..., Any]) -> None:
        super().__init__()
        self._number = number
        self._fault = fault

    def call(self, name: str, function: Callable[..., Any], *args: object, **named: object) -> Any:
        self.names.append(name)
        if len(self.names) - 1 == self._number:
            return self._fault(function, *args, **named)
        return Quick.call(self, name, function, *args, **named)


# --- a disk that loses what it was not told to keep ---------------------------------------------------------
Tree = dict[str, "bytes | None"]
"""What is on a disk: content by path, None for a directory."""


class Disk:
    """Files as a crash can leave them: what was not waited for may be there, in part, or not.

    Args:
        root: everything below it is on the disk at first.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files: dict[int, bytes] = {}  # what is safe
        self.writes: dict[int, list[tuple[str, int, bytes]]] = {}
        self.names: dict[str, dict[str, int]] = {}  # of directories: what is safe
        self.moves: dict[str, list[tuple[tuple[str, int | None], ...]]] = {}
        self.now: dict[str, dict[str, int]] = {}
        self.directories: dict[int, str] = {}
        for folder, inner, files in os.walk(root):
            self._add(folder)
            for one in files:
                path = Path(folder, one)
                self.files[path.stat().st_ino] = path.read_bytes()
                self.names[folder][one] = path.stat().st_ino
            for one in inner:
                self.names[folder][one] = Path(folder, one).stat().st_ino
                self.directories[Path(folder, one).stat().st_ino] = str(Path(folder, one))
            self.now[folder] = dict(self.names[folder])

    def _add(self, folder: str) -> None:
        self.names[folder], self.moves[folder], self.now[folder] = {}, [], {}

    def _move(self, folder: str, *entries: tuple[str, int | None]) -> None:
        self.moves[folder].append(entries)
        _enter(self.now[folder], entries)

    def happened(self, call: str, args: tuple[Any, ...], named: dict[str, Any], result: object) -> None:
        """Take a call that was made."""
        if call == "open" and args[1] & os.O_CREAT:
            assert isinstance(result, int)
            inode = os.fstat(result).st_ino
            self.files[inode], self.writes[inode] = b"", []
            self._move(_folder(named["dir_fd"]), (args[0], inode))
        elif call == "mkdir":
            folder = _folder(named["dir_fd"])
            path = os.path.join(folder, args[0])
            inode = os.stat(path).st_ino
            self.directories[inode] = path
            self._add(path)
            self._move(folder, (args[0], inode))
        elif call == "rename":
            folder = _folder(named["src_dir_fd"])
            self._move(folder, (args[1], self.now[folder][args[0]]), (args[0], None))
        elif call == "unlink":
            self._move(_folder(named["dir_fd"]), (args[0], None))
        elif call == "pwrite":
            assert isinstance(result, int)
            self.writes.setdefault(os.fstat(args[0]).st_ino, []).append(("write", args[2], bytes(args[1][:result])))
        elif call == "ftruncate":
            self.writes.setdefault(os.fstat(args[0]).st_ino, []).append(("cut", args[1], b""))
        elif call == "fsync":
            self._synced(args[0])

    def _synced(self, fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            folder = _folder(fd)
            for entries in self.moves[folder]:
                _enter(self.names[folder], entries)
            self.moves[folder] = []
            return
        inode = os.fstat(fd).st_ino
        self.files[inode] = _written(self.files[inode], self.writes.get(inode, []))
        self.writes[inode] = []

    def states(self) -> Iterator[Tree]:
        """Yield what a crash can leave now: data lost, torn or there; names lost, there, or only some of them."""
        for data in ("lost", "kept", "torn", "zeros"):
            if data in ("torn", "zeros") and not any(self.writes.values()):
                continue
            files = {inode: self._file(inode, data) for inode in self.files}
            for names in self._subsets():
                tree: Tree = {}
                self._tree(str(self.root), names, files, tree)
                yield tree

    def _subsets(self) -> Iterator[dict[str, list[bool]]]:
        """Which of the moves that were not waited for have happened: none, all, one, all but one, and up to each."""
        places = [(folder, at) for folder, moves in self.moves.items() for at in range(len(moves))]
        count = len(places)
        choices = {(True,) * count, (False,) * count}
        for one in range(count):
            choices.add(tuple(at == one for at in range(count)))
            choices.add(tuple(at != one for at in range(count)))
            choices.add(tuple(at <= one for at in range(count)))
        for choice in sorted(choices):
            found: dict[str, list[bool]] = {folder: [] for folder in self.moves}
            for (folder, _), kept in zip(places, choice, strict=True):
                found[folder].append(kept)
            yield found

    def _file(self, inode: int, data: str) -> bytes:
        writes = self.writes.get(inode, [])
        if data == "lost" or not writes:
            return self.files[inode]
        if data == "kept":
            return _written(self.files[inode], writes)
        *before, (kind, at, last) = writes
        half = len(last) // 2
        rest = bytes(len(last) - half) if data == "zeros" and at >= len(self.files[inode]) else b""
        return _written(self.files[inode], [*before, (kind, at, last[:half] + rest)] if kind == "write" else before)

    def _tree(self, folder: str, chosen: dict[str, list[bool]], files: dict[int, bytes], tree: Tree) -> None:
        entries = dict(self.names[folder])
        for moves, kept in zip(self.moves[folder], chosen[folder], strict=True):
            if kept:
                _enter(entries, moves)
        for one, inode in entries.items():
            path = os.path.join(folder, one)
            if inode in self.directories:
                tree[path] = None
                self._tree(self.directories[inode], chosen, files, tree)
            else:
                tree[path] = files[inode]


class Recording(Quick):
    """Makes each call, and tells a disk of it.

    Args:
        disk: the disk.
        after: called after each call that leaves other crashes possible.
        forgets: of a descriptor that is to be waited for: whether that is left out.
    """

    def __init__(
        self, disk: Disk, after: Callable[[], None], forgets: Callable[[str], bool] = lambda _path: False
    ) -> None:
        self._disk = disk
        self._after = after
        self._forgets = forgets
        self.synced: list[str] = []

    def call(self, name: str, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
        if name == "fsync":
            path = _folder(args[0])
            self.synced.append(path)
            if self._forgets(path):
                return None
        result = super().call(name, function, *args, **named)
        if ".lock" not in args:
            self._disk.happened(name, args, named, result)
            self._after()
        return result


def put(tree: Tree, root: Path, dates: dict[str, int]) -> None:
    """Make what is below a directory what a crash has left; a file that is there already keeps its inode.

    Args:
        tree: what is to be there.
        root: the directory.
        dates: of the files that nobody has touched, ns.

    Files of the quarantine are made as kdump makes them, those of the partition with owner and rights of `dress`: a new
    file has both before it gets its name.
    """
    for folder, inner, files in os.walk(root, topdown=False):
        for one in files:
            if os.path.join(folder, one) not in tree:
                Path(folder, one).unlink()
        for one in inner:
            if os.path.join(folder, one) not in tree:
                Path(folder, one).rmdir()
    for path, data in tree.items():
        if data is None:
            Path(path).mkdir(parents=True, exist_ok=True)
        elif not os.path.exists(path) or Path(path).read_bytes() != data:
            with Path(path).open("r+b" if os.path.exists(path) else "wb") as file:
                file.truncate(0)
                file.write(data)
        is_private = "/q/" in path or path.endswith("/q")
        Path(path).chmod(0o700 if data is None else 0o600 if is_private else 0o640)
        if data is not None and not is_private and os.geteuid() == 0:
            os.chown(path, _OWNER, _OWNER + 1)
        if path in dates and data is not None:
            os.utime(path, ns=(dates[path], dates[path]))


def _enter(entries: dict[str, int], moves: tuple[tuple[str, int | None], ...]) -> None:
    for name_, inode in moves:
        if inode is None:
            entries.pop(name_, None)
        else:
            entries[name_] = inode


def _written(data: bytes, writes: list[tuple[str, int, bytes]]) -> bytes:
    found = bytearray(data)
    for kind, at, more in writes:
        if kind == "cut":
            del found[at:]
        else:
            found.extend(bytes(max(0, at - len(found))))
            found[at : at + len(more)] = more
    return bytes(found)


def _folder(fd: int) -> str:
    return str(Path(f"/proc/self/fd/{fd}").readlink())
