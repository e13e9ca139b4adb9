"""Runs of kdump on directories with hostile names, and the commands that they print.

Each scene makes a directory of its own, runs one verb, and yields what was printed as a command and the words that must
be in it. All scenes with all names, minutes: python -m tests.support.hostile_runs
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdump.repair.apply import part_way
from kdump.repair.errors import FailedError
from tests.support.coordinator_records import at, commit, transaction
from tests.support.partitions import meta, write
from tests.support.partitions import name as file_name
from tests.support.runs import FIXTURES, run_kdump
from tests.support.segments import Record, batch
from tests.support.shells import HOSTILE, words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INTACT = FIXTURES / "damage" / "intact" / "none" / "logdir" / "plain-0"
FIRST, SECOND, LAST = (f"{base:020}" for base in (0, 119, 240))
T = 1_700_000_000_000

Printed = tuple[str, tuple[str, ...]]
Scene = "Callable[[Path, str], Iterator[Printed]]"


def scene(root: Path, name: str, *changes: tuple[str, int, bytes | None]) -> str:
    """A sound partition `NAME-0` in `root`, with these bytes changed; None cuts a file there. Returns its name."""
    directory = f"{name}-0"
    shutil.copytree(INTACT, root / directory)
    for file, position, data in changes:
        path = root / directory / file
        if data is None:
            os.truncate(path, path.stat().st_size + position)
            continue
        with path.open("r+b") as opened:
            opened.seek(position)
            opened.write(data)
    return directory


def said(run: Any) -> str:
    """All that a run wrote, as text; a command stands in the line of the sentence that it ends."""
    return re.sub(
        r"(?<=[:a-z])(?<!-reindex)\n +(?=(?:kdump|mv|chmod|chown|cp) )", " ", os.fsdecode(run.stdout + run.stderr)
    )


def behind(text: str, *marks: str) -> Iterator[str]:
    """What stands behind a mark, to the end of its line; there must be one."""
    found = [line.partition(mark)[2] for line in text.split("\n") for mark in marks if mark in line]
    assert found, (marks, text)
    yield from found


def verified(root: Path, directory: str) -> Iterator[str]:
    """The commands of verify: of the steps and findings of JSON, and of the text."""
    run = run_kdump(["verify", "--format", "json", "--", directory], root)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    commands = [row[key] for row in rows for key in ("command", "repair") if row.get(key)]
    assert commands, said(run)
    yield from commands
    text = said(run_kdump(["verify", "--", directory], root))
    for line in text.split("\n"):
        if re.match(r" +\d+  kdump ", line):
            yield line.partition("kdump ")[1] + line.partition("kdump ")[2]


def _verify_of(*changes: tuple[str, int, bytes | None]) -> Callable[[Path, str], Iterator[Printed]]:
    def make(root: Path, name: str) -> Iterator[Printed]:
        directory = scene(root, name, *changes)
        for command in verified(root, directory):
            yield command, (directory,)

    return make


def _removed(root: Path, name: str) -> Iterator[Printed]:
    directory = scene(root, name)
    for ending in ("log", "index", "timeindex"):
        path = root / directory / f"{SECOND}.{ending}"
        path.rename(f"{path}.deleted")
    for command in verified(root, directory):
        yield command, (directory,)


def _misplaced(root: Path, name: str) -> Iterator[Printed]:
    directory = scene(root, name)
    for ending in ("log", "index", "timeindex"):
        (root / directory / f"{SECOND}.{ending}").rename(root / directory / f"{119 + 7:020}.{ending}")
    run = run_kdump(["verify", "--format", "json", "--", directory], root)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    whys = [row["why"] for row in rows if "mv -n " in (row.get("why") or "")]
    assert whys, said(run)
    for why in whys:
        yield why[why.index("mv -n ") :].partition("; then ")[0], (directory,)


def _writable(root: Path, name: str) -> Iterator[Printed]:
    directory = scene(root, name)
    (root / directory).chmod(0o777)
    run = run_kdump(["truncate", "--to-offset", "0", "--", directory], root)
    for command in behind(said(run), "take that right away first: "):
        yield command, (directory,)


def _planned(root: Path, name: str) -> Iterator[Printed]:
    directory = scene(root, name, (f"{SECOND}.index", 15, b"\0"))
    for quarantine in ((), ("--quarantine", f"{name}q")):
        run = run_kdump(["reindex", *quarantine, "--", directory], root)
        for command in behind(said(run), "to do it: "):
            yield command, (directory, *([f"{name}q"] if quarantine else []))


def _mended(root: Path, name: str) -> Iterator[Printed]:
    log_dir = root / f"{name}d"
    log_dir.mkdir()
    directory = scene(log_dir, name, (f"{SECOND}.index", 15, b"\0"), (f"{LAST}.log", 300, b"X"))
    (log_dir / "recovery-point-offset-checkpoint").write_bytes(b"0\n1\n\0\n")
    rows = run_kdump(["verify", "--format", "json", "--", log_dir.name], root).stdout.splitlines()
    steps = [command for row in map(json.loads, rows) if "kdump repair " in (command := row.get("command") or "")]
    assert steps
    for command in steps:
        yield command, (log_dir.name,)
    for path in (log_dir.name, f"{log_dir.name}/{directory}"):
        run = run_kdump(["repair", "--quarantine", f"{name}q", "--", path], root)
        for command in behind(said(run), "to do it: "):
            yield command, (path, f"{name}q")
    run = run_kdump(["repair", "--apply", "--quarantine", f"{name}q", "--", log_dir.name], root)
    for command in behind(said(run), "to take it back: "):
        yield command, (f"{name}q",)


def _taken_back(root: Path, name: str) -> Iterator[Printed]:
    directory = scene(root, name, (f"{SECOND}.index", 15, b"\0"))
    aside = f"{name}q"
    run = run_kdump(["reindex", "--apply", "--quarantine", aside, "--", directory], root)
    for command in behind(said(run), "to take it back: "):
        yield command, (aside,)
    (folder,) = (root / aside).iterdir()
    (root / directory / f"{FIRST}.index").write_bytes(b"\0")
    run_kdump(["reindex", "--apply", "--quarantine", aside, "--", directory], root)
    for command in behind(said(run_kdump(["undo", "--", aside], root)), "  kdump undo "):
        yield f"kdump undo {command}", (aside,)
    os.chmod(folder / "journal.json", 0o666)  # noqa: PTH101
    relative = os.path.join(aside, folder.name)
    for command in behind(said(run_kdump(["undo", "--", relative], root)), "it is unchanged: "):
        yield command, (aside,)


def _salvaged(root: Path, name: str) -> Iterator[Printed]:
    one = scene(root, name, (f"{SECOND}.log", 300, b"X"))
    (root / "other").mkdir()
    scene(root / "other", name, (f"{SECOND}.log", 300, b"X"))
    run = run_kdump(["salvage", "--name", "t-0", "--to", f"./{name}-out/x", "--", one, f"other/{one}"], root)
    for command in behind(said(run), "make it first: "):
        yield command, (f"{name}-out",)
    run = run_kdump(["salvage", "--name", "t-0", "--to", f"./{name}-out", "--", f"./{one}/{SECOND}.log"], root)
    for command in behind(said(run), "salvage them all: "):
        yield command, (one,)
    write(root / f"{name}-hurt" / "t-0", {file_name(0): batch(0, [b"v"]) + b"X"})
    run = run_kdump(["salvage", "--to", "asked", "--", f"./{name}-hurt/t-0"], root)
    for command in behind(said(run), "you are done: ", "where there is no other, go on here: "):
        yield command, (f"./{name}-hurt/t-0", "OTHER")
    going = f"[ab]*{name}-0"
    (root / going).mkdir()
    for base in range(6):
        write(root / going, {f"{file_name(base)}.deleted": batch(base, [b"v"])})
    run = run_kdump(["salvage", "--to", "out", "--", f"./{going}"], root)
    for command in behind(said(run), "to make a partition of it: "):
        yield command, (f"./{going}",)
    sides = f"{name}-1", f"{name}-2"
    for side in sides:
        write(root / side / "t-0", {file_name(0): batch(0, [side.encode("utf-8", "surrogateescape")])})
    paths = [f"./{side}" for side in sides]
    for command in behind(
        said(run_kdump(["salvage", "--to", "out", "--", *paths], root)), "Name the one that counts: "
    ):
        yield f"kdump salvage {command}", (*paths,)
    run = run_kdump(["salvage", "--to", "out", "--prefer", f"{paths[0]}/t-0", "--", *paths], root)
    for command in behind(said(run), "it lies in one: "):
        yield f"kdump salvage {command}", (paths[0],)


def _brought(root: Path, name: str) -> Iterator[Printed]:
    write(root / f"{name}-old" / "t-0", {file_name(0): batch(0, [b"v"])})
    there, out = f"{name}-there", f"{name}-out"
    live = {"t-0/partition.metadata": b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", "t-0/x": b"", "x": b""}
    write(root / there, live | {f"t-0/{file_name(0)}": batch(0, [b"new"]), "meta.properties": meta(1)})
    to = "--for", f"./{there}", "--to", f"./{out}", "--format", "json"
    run = run_kdump(["salvage", *to, "--", f"./{name}-old/t-0"], root)
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    commands = [row["command"] for row in rows if row.get("command")]
    of = {"mkdir": (f"{out}.replaced", there), "cp": (out, there), "kdump verify": (there,), "kdump salvage": (there,)}
    for begin, meant in of.items():
        (command,) = (one for one in commands if one.startswith(f"{begin} ") and "REPLACED" not in one)
        yield command, meant


def _carved(root: Path, name: str) -> Iterator[Printed]:
    (root / "image").write_bytes(b"\1" * 512 + (INTACT / f"{FIRST}.log").read_bytes())
    target = f"{name}-runs"
    run = run_kdump(["carve", "--to", target, "--", "image"], root)
    for command in behind(said(run), "for the runs of one partition: "):
        yield command, (target,)


def _aborted(root: Path, name: str) -> Iterator[Printed]:
    coordinator = [at(0, T + 500, transaction("me", 7, "Empty", epoch=2))]
    data = [at(0, T, Record(), producer=(7, 2))]
    files = {"__transaction_state-0": coordinator, f"{name}-0": data}
    write(root, {f"{one}/{file_name(0)}": b"".join(batches) for one, batches in files.items()})
    run = run_kdump(["transactions", "--format", "json", "."], root)
    rows = [row for row in map(json.loads, run.stdout.splitlines()) if row["type"] == "open"]
    assert rows, said(run)
    for row in rows:
        yield row["abortCommand"], (name,)
        yield row["abortCommandBefore30"], (name,)
    text = said(run_kdump(["transactions", "."], root))
    for command in behind(text, "kafka-transactions.sh --bootstrap-server "):
        yield f"kafka-transactions.sh --bootstrap-server {command}", (name,)


def _asked_for(root: Path, name: str) -> Iterator[Printed]:
    logs = {f"__consumer_offsets-0/{file_name(0)}": at(0, T, commit("there", 0, 5))}
    write(root / f"{name}-dir", logs)
    run = run_kdump(["groups", "--group", name, "--", f"{name}-dir"], root)
    for command in behind(said(run), "has another number of partitions: "):
        yield command, (name,)
    for command in behind(said(run), "list them: "):
        yield command, (f"{name}-dir",)


def _as_page(root: Path, name: str) -> Iterator[Printed]:
    directory = scene(root, name, (f"{SECOND}.log", 300, b"X"), (f"{FIRST}.index", 15, b"\0"))
    page = said(run_kdump(["verify", "--format", "html", "--", directory], root))
    commands = re.findall('<code class="command">(.*?)</code>', page, re.DOTALL)
    assert len(commands) > 3
    for command in commands:
        yield html.unescape(command), (directory,)


def _in_several(root: Path, name: str) -> Iterator[Printed]:
    for disk in ("a", f"{name}-disk"):
        (root / disk).mkdir()
        scene(root / disk, "t", (f"{SECOND}.log", 300, b"X"))
    run = run_kdump(["verify", "--", "a", f"{name}-disk"], root)
    for command in behind(said(run), "several of these directories: "):
        yield command.partition(" tells which copy")[0], (f"{name}-disk",)


def _scrubbed(root: Path, name: str) -> Iterator[Printed]:
    directory = scene(root, name)
    for place in (300, 301):  # read twice, with other bytes
        scrub = ["verify", "--scrub", f"./{name}-ledger", "--format", "json", "--", directory]
        run = run_kdump(scrub, root)
        path = root / directory / f"{FIRST}.log"
        times = path.stat()
        with path.open("r+b") as opened:
            opened.seek(place)
            opened.write(b"X")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    for row in rows:
        if row["type"] == "finding" and row["code"] == "V05":
            yield row["remedy"][row["remedy"].index("kdump verify --scrub") :], (f"{name}-ledger", directory)


def _patched(root: Path, name: str) -> Iterator[Printed]:
    directory = scene(root, name, (f"{SECOND}.log", 12, b"\0\0\1\0"))
    run = run_kdump(["patch-header", "--apply", "--quarantine", "aside", "--", directory], root)
    for command in behind(said(run), "keeps a ledger: "):
        yield command, (directory,)


def _unfinished(root: Path, name: str) -> Iterator[Printed]:
    directory = scene(root, name, (f"{SECOND}.index", 15, b"\0"))
    (root / directory / f"{LAST}.log.swap").write_bytes(b"")
    run = run_kdump(["reindex", "--", directory], root)
    for command in behind(said(run), "what to do: "):
        yield command, (directory,)


def _part_way(root: Path, name: str) -> Iterator[Printed]:
    for verb in ("resume", "undo"):
        try:
            with part_way(name, verb):
                raise OSError(5, "no", None)
        except FailedError as error:
            for told in re.split(", or take it back with |finish it with ", error.sentence)[1:]:
                yield told, (name,)


def _of_others(root: Path, name: str) -> Iterator[Printed]:
    directory = scene(root, name, (f"{SECOND}.index", 15, b"\0"))
    if os.geteuid() != 0:
        return
    os.chown(root / directory / f"{SECOND}.index", 4321, 4321)
    run = run_kdump(["reindex", "--", directory], root)
    for command in behind(said(run), "give them to one: "):
        yield command, (directory,)


SCENES = {
    "verify, wrong byte": _verify_of((f"{SECOND}.log", 300, b"X")),
    "verify, wrong index": _verify_of((f"{SECOND}.index", 15, b"\0")),
    "verify, cut": _verify_of((f"{LAST}.log", -30, None)),
    "verify, wrong snapshot": _verify_of((f"{LAST}.snapshot", 3, b"XX")),
    "verify, wrong header": _verify_of((f"{SECOND}.log", 12, b"\0\0\1\0")),
    "verify, wrong name": _misplaced,
    "verify, to be removed": _removed,
    "writable by all": _writable,
    "reindex": _planned,
    "repair": _mended,
    "undo": _taken_back,
    "salvage": _salvaged,
    "salvage for a cluster": _brought,
    "carve": _carved,
    "transactions": _aborted,
    "groups": _asked_for,
    "HTML": _as_page,
    "several directories": _in_several,
    "scrub": _scrubbed,
    "patch-header": _patched,
    "unfinished": _unfinished,
    "part-way": _part_way,
    "other owners": _of_others,
}


def check(which: str, name: str, root: Path) -> int:
    """Let a shell read all commands of a scene; return how many there were.

    Args:
        which: the scene.
        name: hostile.
        root: an empty directory.
    """
    made, empty = root / "scene", root / "empty"
    made.mkdir()
    empty.mkdir()
    count = 0
    for command, meant in SCENES[which](made, name):
        assert command.isprintable(), command
        words = words_of(command, empty)
        for one in meant:
            its = [word for word in words if one in word]
            assert its, (command, words, one)
            if which != "transactions" and one != name:  # a path: as it is below the scene, and never an option
                assert not any(re.match("-(?!-reference=)", word) for word in its), command
        if meant == (name,) and which == "groups" and name.startswith("-"):
            assert words[-2] == "--", command
        assert "touch" not in words, command
        assert os.listdir(empty) == []
        count += 1
    assert not list(root.rglob("PWN"))
    return count


def main() -> int:
    """Run all scenes with all names."""
    for which in SCENES:
        count = 0
        for name in HOSTILE:
            with tempfile.TemporaryDirectory() as root:
                count += check(which, name, Path(root))
        print(f"{which}: {count} commands of {len(HOSTILE)} names")
    return 0


if __name__ == "__main__":
    sys.exit(main())
