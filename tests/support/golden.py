"""Recorded runs of Kafka's DumpLogSegments on undamaged files: `golden.jsonl`, one run a line."""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.support.runs import COMPAT, differs, run_kdump, sorted_blocks, unfair_exit

if TYPE_CHECKING:
    from pathlib import Path

_TOPICS = ("offsets", "transaction-log", "cluster-metadata", "remote-log-metadata", "share-group-state")
_DECODERS = frozenset(f"--{topic}-decoder" for topic in _TOPICS)
# What Kafka writes where its options were wrong, or help was wanted.
_USAGE = (b"joptsimple.", b"Missing required argument", b"\nOption  ")
_SHOWN = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint")


@dataclass(frozen=True, slots=True)
class Golden:
    """One recorded run.

    Args:
        corpus: the folder with golden.jsonl.
        tool: the release of DumpLogSegments.
        cwd: where it ran, below the corpus.
        args: its arguments.
        exit: its exit code.
        stdout: what it wrote; None where that was too long to keep.
        sha256: hash of what it wrote, where that was too long to keep.
        head: the first lines of it, long ones cut.
        stderr: what it wrote without Java stack lines.
        unordered: the order of the blocks of stderr depends on where the tree lies.
        ran_in: where the tree lay, if that is known.
        masked: something in stdout was replaced: it is different in every run.
    """

    corpus: Path
    tool: str
    cwd: str
    args: tuple[str, ...]
    exit: int
    stdout: bytes | None
    sha256: str | None
    head: bytes
    stderr: bytes
    unordered: bool
    ran_in: str | None
    masked: bool

    def __str__(self) -> str:
        return f"{self.tool} {self.corpus.name}/{self.cwd}: {shlex.join(self.args)}"

    @property
    def mirrored(self) -> bool:
        """Whether kdump mirrors the run: not usage, help and version, nor what differs in every run."""
        usage = self.exit != 0 and any(text in self.stderr for text in _USAGE)
        return not (self.masked or usage or {"--help", "--version"} & set(self.args))

    @property
    def decodes(self) -> bool:
        """Whether the decoder of an internal topic was asked for."""
        return bool(_DECODERS & set(self.args))

    @property
    def shown(self) -> bool:
        """Whether the run went through, and all of its files are there and of kinds that Kafka shows."""
        there = [(self.corpus / self.cwd / name).is_file() for name in self.files if name.endswith(_SHOWN)]
        return self.exit == 0 and bool(there) and all(there) and len(there) == len(self.files)

    @property
    def files(self) -> tuple[str, ...]:
        """The files that were asked for, as written."""
        for at, arg in enumerate(self.args):
            option, assigned, value = arg.partition("=")
            if option.lstrip("-") == "files":
                return tuple((value if assigned else "".join(self.args[at + 1 : at + 2])).split(","))
        return ()


def golden_cases(corpus: Path) -> list[Golden]:
    """Read the recorded runs of a corpus folder."""
    with (corpus / "golden.jsonl").open(encoding="utf-8") as lines:
        return [_golden(corpus, json.loads(line)) for line in lines]


def default_layout(cases: list[Golden]) -> list[Golden]:
    """Return the runs that the default layout must equal: those of 4.4.0, and of 4.3.1 what was not run again with it.

    4.4 has names for the states of transactions.
    """
    newest = {(case.corpus, case.cwd, case.args) for case in cases if case.tool == "4.4.0"}

    def chosen(case: Golden) -> bool:
        if case.tool == "4.3.1":
            return "--transaction-log-decoder" not in case.args and (case.corpus, case.cwd, case.args) not in newest
        return case.tool == "4.4.0"

    return [case for case in cases if case.shown and chosen(case)]


def _golden(corpus: Path, case: dict[str, Any]) -> Golden:
    stdout: bytes | None = None
    if "stdoutB64" in case:
        stdout = base64.b64decode(case["stdoutB64"])
    elif "stdout" in case:
        stdout = case["stdout"].encode()
    return Golden(
        corpus=corpus,
        tool=case["tool"],
        cwd=case["cwd"],
        args=tuple(case["args"]),
        exit=case["exit"],
        stdout=stdout,
        sha256=case.get("stdoutSha256"),
        head=case.get("stdoutHead", "").encode(),
        stderr=case["stderr"].encode(),
        unordered="stderr_order" in case or "stderr_blocks" in case,
        ran_in=case.get("ran_in"),
        masked="masked" in case,
    )


def run_golden(case: Golden, tree: Path, *, compat: bool = True) -> str | None:
    """Run kdump like the recorded run; say how it differs, None if it does not.

    Args:
        case: the recorded run.
        tree: a copy of its corpus.
        compat: mirror the release; else the default mode, of which only stdout is compared.
    """
    cwd = tree / case.cwd
    run = run_kdump(["dump", *(("--compat", COMPAT[case.tool]) if compat else ()), *case.args], cwd)
    problem = _compare_stdout(case, without_cwd(run.stdout, cwd))
    if problem is None and compat and case.exit == 0:
        expected, stderr = case.stderr, without_cwd(run.stderr, cwd)
        if case.unordered:
            expected, stderr = sorted_blocks(expected), sorted_blocks(stderr)
        problem = differs("stderr", expected, stderr)
    return problem or unfair_exit(run)


def without_cwd(text: bytes, cwd: Path) -> bytes:
    """Write the absolute path of the working directory as the recorded runs do."""
    return text.replace(str(cwd).encode(), b"{CWD}")


def _compare_stdout(case: Golden, stdout: bytes) -> str | None:
    if case.stdout is not None:
        return differs("stdout", case.stdout, stdout)
    if hashlib.sha256(stdout).hexdigest() == case.sha256:
        return None
    head = case.head.rstrip(b"\n").split(b"\n")
    cut = [line[: len(kept)] for line, kept in zip(stdout.split(b"\n"), head, strict=False)]
    problem = differs("stdout", b"\n".join(head), b"\n".join(cut))
    return problem or f"stdout: {len(head)} lines are right, the sha256 of all {len(stdout)} bytes is not"
