"""Damaged log directories: how each is made from an intact one, and what Kafka's tool printed for it."""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.support.runs import COMPAT, copy_tree, differs, run_kdump, unfair_exit

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Damage:
    """One damaged log directory.

    Args:
        folder: its folder below `cases`.
        name: what it is called.
        base: name of the intact directory that it is made from.
        codes: what is wrong, by the codes of the findings; "-": nothing.
        file: the file that is looked at, below the log directory.
        edits: how it is made.
        after: the files that now differ from the intact directory, with size and hash.
    """

    folder: Path
    name: str
    base: str
    codes: tuple[str, ...]
    file: str
    edits: tuple[dict[str, Any], ...]
    after: tuple[dict[str, Any], ...]

    def build(self, target: Path) -> Path:
        """Make the damaged directory at `target`, and check that it is the one that Kafka saw."""
        copy_tree(self.folder.parent.parent / "intact" / self.base / "logdir", target)
        for edit in self.edits:
            apply_edit(target, edit)
        for file in self.after:
            data = (target / file["name"]).read_bytes()
            if (len(data), hashlib.sha256(data).hexdigest()) != (file["size"], file["sha256"]):
                raise AssertionError(f"{self.name}: {file['name']} is not the file that Kafka saw")
        return target

    def dumps(self) -> list[Dump]:
        """The recorded runs of Kafka's tool."""
        path = self.folder / "dump.json"
        runs: list[dict[str, Any]] = json.loads(path.read_text("utf-8")) if path.exists() else []
        return [_dump(self, run, tool) for run in runs for tool in COMPAT if tool in run]


@dataclass(frozen=True, slots=True)
class Dump:
    """One recorded run of Kafka's tool on a damaged log directory, stderr without Java stack lines."""

    case: Damage
    tool: str
    args: tuple[str, ...]
    exit: int
    stdout: bytes
    stderr: bytes

    def __str__(self) -> str:
        return f"{self.tool} {self.case.name}: {shlex.join(self.args)}"

    @property
    def mirrored(self) -> bool:
        """Whether kdump mirrors the run: how far Java's heap reached says nothing about the file."""
        return b"OutOfMemoryError" not in self.stderr


def _dump(case: Damage, run: dict[str, Any], tool: str) -> Dump:
    came = run[tool]
    stdout, stderr = ((case.folder / came[name]).read_bytes() for name in ("stdout", "stderr"))
    return Dump(case, tool, tuple(run["args"]), came["exit"], stdout, stderr)


def damage_cases(corpus: Path) -> list[Damage]:
    """Read the cases of a damage corpus, in the order of its index."""
    names = [entry["name"] for entry in json.loads((corpus / "index.json").read_text("utf-8"))]
    return [_damage(corpus / "cases" / name) for name in names]


def _damage(folder: Path) -> Damage:
    case = json.loads((folder / "case.json").read_text("utf-8"))
    return Damage(
        folder=folder,
        name=case["name"],
        base=case["from"],
        codes=tuple(case["codes"]),
        file=case["file"],
        edits=tuple(case["edits"]),
        after=tuple(case["files_after_edits"]),
    )


def run_dump(dump: Dump, tree: Path) -> str | None:
    """Run kdump like the recorded run, in the damaged directory; say how it differs, None if it does not."""
    run = run_kdump(["dump", "--compat", COMPAT[dump.tool], *dump.args], tree)
    here = str(tree).encode()
    problem = differs("stdout", dump.stdout, run.stdout.replace(here, b"{CWD}"))
    if problem is None and dump.exit == 0:
        problem = differs("stderr", dump.stderr, run.stderr.replace(here, b"{CWD}"))
    return problem or unfair_exit(run)


def apply_edit(tree: Path, edit: dict[str, Any]) -> None:
    """Apply one edit of a case to a directory."""
    path = tree / edit["file"]
    match edit["op"]:
        case "mkdir":
            path.mkdir()
        case "delete":
            path.unlink()
        case "rename":
            path.rename(tree / edit["to"])
        case "copy":
            shutil.copyfile(path, tree / edit["to"])
        case "write":
            path.write_bytes(edit["text"].encode() if "text" in edit else bytes.fromhex(edit["bytes"]))
        case _:
            path.write_bytes(edited(path.read_bytes(), edit))


def edited(data: bytes, edit: dict[str, Any]) -> bytes:
    """Return `data` after one edit of those that change bytes."""
    at, count, new = edit.get("position", 0), edit.get("count", 0), bytes.fromhex(edit.get("bytes", ""))
    match edit["op"]:
        case "set":
            return data[:at] + new + data[at + len(new) :]
        case "insert":
            return data[:at] + new + data[at:]
        case "cut":
            return data[:at] + data[at + count :]
        case "zero":
            return data[:at] + bytes(count) + data[at + count :]
        case "truncate":
            return data[: edit["size"]].ljust(edit["size"], b"\0")
        case "append":
            return data + new
        case "append_zeros":
            return data + bytes(count)
    raise ValueError(f"unknown edit: {edit['op']}")
