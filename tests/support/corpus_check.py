#!/usr/bin/env python3
"""Run kdump over whole folders of recorded runs of Kafka's own tool, and print where it differs.

    tests/support/corpus_check.py PATH...

A PATH is a folder with `golden.jsonl`, or with `index.json`, `cases` and `intact`, or a parent of such. It is
never written to: each case runs in a copy, and a run that changes any file there is a failure.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

# `tests` is wanted from here, kdump from where it is installed: the source tree has no compiled kernels.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.support.damage_cases import Damage, Dump, damage_cases, run_dump
from tests.support.golden import Golden, default_layout, golden_cases, run_golden
from tests.support.runs import changed, copy_tree, fingerprint, scratch

sys.path.append(sys.path.pop(0))

if TYPE_CHECKING:
    from collections.abc import Iterator

Problem = tuple[str, str]  # the case, and how it differs


def corpora(path: Path) -> Iterator[Path]:
    """Yield the folders of recorded runs at or below a path."""
    if (path / "golden.jsonl").is_file() or is_damage(path):
        yield path
    else:
        for child in sorted(path.iterdir()):
            if child.is_dir():
                yield from corpora(child)


def is_damage(path: Path) -> bool:
    """Whether a folder holds damaged directories."""
    return (path / "index.json").is_file() and (path / "cases").is_dir() and (path / "intact").is_dir()


class Check:
    """What was asked for on the command line, and the counts so far."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.passed = self.failed = self.skipped = 0

    def run(self, corpus: Path) -> None:
        """Check one folder."""
        (self._damage if is_damage(corpus) else self._golden)(corpus)

    def _golden(self, corpus: Path) -> None:
        cases = default_layout(golden_cases(corpus)) if self.options.default_mode else golden_cases(corpus)
        cases = [case for case in cases if self._wanted(case.tool, str(case))]
        chosen = [case for case in cases if self._runs(case)]
        self.skipped += len(cases) - len(chosen)
        if not chosen:
            return
        with scratch() as tree, self._pool() as pool:
            copy_tree(corpus, tree)
            before = fingerprint(tree)
            jobs = [(case, tree, not self.options.default_mode) for case in chosen]
            self._count(pool.imap(_check_golden, jobs, chunksize=8))
            self._whole(corpus, changed(before, fingerprint(tree)))

    def _runs(self, case: Golden) -> bool:
        return case.mirrored and (self.options.decoders or not case.decodes)

    def _damage(self, corpus: Path) -> None:
        if self.options.default_mode:
            return
        jobs: list[tuple[Damage, list[Dump]]] = []
        for case in damage_cases(corpus):
            dumps = [dump for dump in case.dumps() if self._wanted(dump.tool, str(dump))]
            chosen = [dump for dump in dumps if dump.mirrored]
            self.skipped += len(dumps) - len(chosen)
            jobs.append((case, chosen))
        with self._pool() as pool:
            for results in pool.imap(_check_damage, jobs, chunksize=4):
                self._count(iter(results))

    def _wanted(self, tool: str, case: str) -> bool:
        return tool in (self.options.tool or tool) and self.options.filter in case

    def _pool(self) -> multiprocessing.pool.Pool:
        return multiprocessing.get_context("fork").Pool(self.options.jobs)

    def _count(self, results: Iterator[Problem | None]) -> None:
        for problem in results:
            if problem is None:
                self.passed += 1
            else:
                self.failed += 1
                print(f"{problem[0]}\n  {problem[1]}", flush=True)

    def _whole(self, corpus: Path, problem: str | None) -> None:
        if problem is not None:
            self._count(iter([(str(corpus), problem)]))


def _check_golden(job: tuple[Golden, Path, bool]) -> Problem | None:
    case, tree, compat = job
    return _named(case, run_golden(case, tree, compat=compat))


def _check_damage(job: tuple[Damage, list[Dump]]) -> list[Problem | None]:
    case, dumps = job
    results: list[Problem | None] = []
    with scratch() as folder:
        try:
            tree = case.build(folder / "logdir")
        except AssertionError as wrong:
            return [(case.name, str(wrong))]
        before = fingerprint(tree)
        for dump in dumps:
            results.append(_named(dump, run_dump(dump, tree) or changed(before, fingerprint(tree))))
    return results


def _named(case: Golden | Dump, problem: str | None) -> Problem | None:
    return None if problem is None else (str(case), problem)


def _parse(args: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="corpus_check.py", description=__doc__, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    parser.add_argument("--decoders", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--tool", action="append", metavar="RELEASE", help="only runs of this release")
    parser.add_argument("--filter", default="", metavar="TEXT", help="only runs that have this text in them")
    parser.add_argument("-j", dest="jobs", type=int, default=2, metavar="N", help="processes")
    parser.add_argument("--default-mode", action="store_true", help="run without --compat; compare stdout")
    parser.add_argument("--pure", action="store_true", help="run uncompiled")
    return parser.parse_args(args)


def main() -> int:
    """Check all folders, print the failures and the counts."""
    options = _parse(sys.argv[1:])
    if options.pure:
        os.environ["KDUMP_INTERPRETED"] = "1"
    check = Check(options)
    found = [corpus.resolve() for path in options.paths for corpus in corpora(path)]
    if not found:
        print(f"no recorded runs below {shlex.join(map(str, options.paths))}", file=sys.stderr)
        return 2
    for corpus in found:
        check.run(corpus)
    print(f"{check.passed} passed, {check.failed} failed, {check.skipped} skipped")
    return 1 if check.failed or not check.passed else 0


if __name__ == "__main__":
    sys.exit(main())
