"""What lies in a directory under a name that a broker does not load, or cannot."""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import TYPE_CHECKING

from kdump.finding import Code, Finding, Severity
from kdump.storage.directory import IN_A_PARTITION, NOT_A_PARTITION, Skipped
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import BOOTSTRAP, SWAP, FileKind, is_of_redpanda, java_name, parse_name, parse_partition
from kdump.storage.other_formats import packer_of
from kdump.storage.paths import base_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from kdump.storage.directory import Contents

_LOADED = (FileKind.LOG, FileKind.INDEX, FileKind.TIMEINDEX, FileKind.TXNINDEX)
_LOADED_SUFFIXES = frozenset(f".{kind.value}" for kind in _LOADED)
_UNFINISHED = (".cleaned", ".swap")
_NONE: Mapping[str, Finding] = MappingProxyType({})


def check_names(found: Contents, said: Mapping[str, Finding] = _NONE) -> Iterator[Finding | OpenFailure]:
    """Yield what the names in one directory mean for the next start of a broker.

    Args:
        found: what lies there.
        said: what is said of files of which more than the name is known, by path.

    Reports: F01, F04, F08, F11, F16-F18, S04.
    """
    for path in (*found.leftovers, *found.ignored):
        finding = said.get(path) or check_name(path)
        if said and finding is not None and finding.code is Code.F08:
            of_log = said.get(_log_beside(path))
            if of_log is not None and of_log.code is Code.F16:
                finding = finding.replace(values={**finding.values, "remedy": "none but to keep it with its log (F16)"})
        if finding is not None:
            yield finding
    for skipped in found.skipped:
        yield _check_skipped(skipped)
        if skipped.is_missed:
            yield OpenFailure(skipped.path, "symlink", skipped.sentence)


def _log_beside(path: str) -> str:
    """The log with the same suffix: X.log.cleaned of X.index.cleaned."""
    java = java_name(path)
    return path.removesuffix(os.path.basename(path)) + f"{java.stem}.{FileKind.LOG.value}{java.suffix}"


def check_strays(found: Contents, own: Collection[FileKind]) -> Iterator[Finding]:
    """Yield what lies in a log directory itself, and belongs into that of a partition: nobody has judged it.

    Args:
        found: what lies there.
        own: the kinds of files that a log directory has.

    Reports: F08; files beside a log are told with it.
    """
    strays = [one for one in found.files if one.name.kind not in own and os.path.basename(one.path) != BOOTSTRAP]
    logs = {one.name.base_offset for one in strays if one.name.kind is FileKind.LOG}
    for one in strays:
        is_log = one.name.kind is FileKind.LOG
        if is_log or one.name.base_offset not in logs:
            severity = Severity.WARNING if is_log else Severity.NOTE
            remedy = "find out of which partition it is; kdump verify judges it where it is named alone"
            yield _leftover(one.path, _STRAY, severity, remedy=remedy)


_STRAY = "a file of a partition, in the log directory itself: no broker reads it, and it was not judged"


def check_name(path: str) -> Finding | None:
    """Return what the name of a file means that no broker loads, None where it means nothing.

    Args:
        path: of the file.

    Reports: F01, F08, F17, F18, S04.
    """
    name = os.path.basename(path)
    java = java_name(path)
    if java.suffix == ".deleted":
        why = "a deleted file that was not removed: a broker removes it"
        return _leftover(path, why, Severity.NOTE, remedy="none")
    if java.suffix in _UNFINISHED:
        if java.base_offset is None:
            why = f"the name has no offset ({java.error}): a broker fails to load the partition"
            return _leftover(path, why, Severity.ERROR)
        why = "compaction or a split did not finish: a broker throws it away"
        if java.suffix == ".swap":
            why = SWAP
        return _leftover(path, why, Severity.WARNING)
    if java.suffix == ".snapshot":
        return Finding(Code.S04, path)
    is_in_partition = parse_partition(base_name(os.path.dirname(os.path.abspath(path)))) is not None
    if not is_in_partition and is_of_redpanda(name):
        return Finding(Code.F18, path)
    parsed = parse_name(name)
    if not is_in_partition and parsed.uuid is not None and not parsed.is_exact and not parsed.suffixes:
        why = (
            f"a segment of remote storage, base offset {parsed.base_offset}: no broker loads it; named alone it is read"
        )
        return _leftover(path, why, Severity.NOTE, remedy="none")
    packer = packer_of(name)
    if packer is not None:
        return Finding(Code.F17, path, values={"codec": packer, "what": name.rpartition(".")[0]})
    if java.suffix in _LOADED_SUFFIXES:
        if java.base_offset is None:
            return _odd(path, f"the name has no offset ({java.error}): a broker fails to load the partition")
        return _odd(path, f"a broker does not write such a name, and takes it for base offset {java.base_offset}")
    if parsed.kind is FileKind.UNKNOWN:
        return None
    return _leftover(path, "a copy, or what a write left behind: no broker reads it", Severity.NOTE)


def _check_skipped(skipped: Skipped) -> Finding | OpenFailure:
    if skipped.reason == NOT_A_PARTITION:
        return Finding(Code.F11, skipped.path)
    if skipped.reason == IN_A_PARTITION:
        return _leftover(skipped.path, "a directory: no broker looks into it", Severity.NOTE)
    if skipped.is_out_of_reach:
        return OpenFailure(skipped.path, "permission", skipped.sentence)
    return Finding(Code.F04, skipped.path, values={"why": skipped.reason})


def _odd(path: str, why: str) -> Finding:
    return Finding(Code.F01, path, values={"why": why})


def _leftover(path: str, why: str, severity: Severity, **remedy: str) -> Finding:
    return Finding(Code.F08, path, values={"why": why, **remedy}, severity_override=severity)
