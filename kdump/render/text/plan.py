"""Plans of repairs: as lines for people and scripts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kdump.words.command import command_line, named
from kdump.words.escape import escape
from kdump.words.numbers import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kdump.rows.plan import Operation, Planned
    from kdump.rows.steps import Step

_WORDS = {
    "rebuild-index": ("rebuild", "rebuilt"),
    "create": ("create", "created"),
    "replace": ("rewrite", "rewritten"),
    "truncate": ("cut", "cut"),
    "empty": ("empty", "emptied"),
    "delete": ("remove", "removed"),
    "patch": ("patch", "patched"),
}


def plan_lines(plan: Planned, *, quarantine: str | None = None) -> Iterator[str]:
    """Yield the lines of a plan.

    Args:
        plan: what would be done, or was done.
        quarantine: path that was named for what is replaced; None when none was.
    """
    done = plan.journal is not None
    for one in plan.operations:
        yield _operation(plan, one, done=done)
    if plan.bytes_lost:
        yield f"  {'lost' if done else 'loses'} {plan.bytes_lost:,} bytes; {_ends(plan, done=done)}"
    if plan.kept and plan.operations:
        yield f"{'left' if done else 'leaves'} {counted(plan.kept, 'file')} of {escape(plan.partition)} alone"
    for announced in plan.announces:
        yield f"note: {escape(announced)}"
    if plan.is_refused:
        yield f"nothing is changed in {escape(plan.directory)}, with --apply or without"
        if plan.partial_arguments:
            yield f"to go on: {command_line(plan.command, *plan.partial_arguments)}"
    elif not plan.operations and plan.unread:
        what = f"{counted(plan.unread, 'file')} could not be read"
        yield f"not judged: {what} in {escape(plan.directory)}; run as the owner of the files"
    elif not plan.operations:
        yield f"nothing to do in {escape(plan.directory)}"
    elif done:
        yield f"journal: {escape(plan.journal or '')}"
        yield taken_back(plan.journal or "")
    else:
        yield f"nothing was changed; plan {plan.plan_id}"
        how = "--apply", "--plan-id", plan.plan_id, "--quarantine", named(quarantine) if quarantine else "DIR"
        yield f"to do it: {command_line(plan.command, *plan.arguments, *how)}"


def left_lines(steps: Sequence[Step]) -> Iterator[str]:
    """Yield the lines of what a plan leaves alone.

    Args:
        steps: what to do about each.
    """
    if steps:
        yield "left alone:"
    for number, one in enumerate(steps, 1):
        yield f"  {number}. {escape(one.why)}"
        if one.command is not None:
            yield f"     {one.command}"


def taken_back(journal: str) -> str:
    """Return the line that says how a repair is taken back.

    Args:
        journal: path of its journal.
    """
    return f"to take it back: {command_line('undo', named(os.path.dirname(journal)), '--apply')}"


def _ends(plan: Planned, *, done: bool) -> str:
    """Say where the log ends, and what lies between that and where it ended: once it is cut, in the quarantine only."""
    before, after = plan.log_end_offset_before, plan.log_end_offset
    if before is None or after is None or before <= after:
        end = "each log ends where it did" if after is None else f"ends at {after} as before"
        readable = f", {counted(plan.records_lost, 'readable record')} with them" if plan.records_lost else ""
        readable += ", in the quarantine only" if done and plan.records_lost else ""
        return f"{end}{readable}"
    records = "no record" if not plan.records_lost else counted(plan.records_lost, "record")
    return (
        f"ends at {after} instead of {before}: {counted(plan.offsets_lost, 'offset')}, {records} still readable"
        f"{', in the quarantine only' if done and plan.records_lost else ''}"
    )


def _operation(plan: Planned, one: Operation, *, done: bool) -> str:
    would = "refused:" if plan.is_refused else "would"
    word = _WORDS[one.action][1] if done else f"{would} {_WORDS[one.action][0]}"
    sizes = " -> ".join(_size(size) for size in (one.before, one.after))
    more = "".join(f" ({escape(part)})" for part in (one.detail, one.why) if part)
    return f"{word} {escape(plan.partition)}/{escape(one.file)} {sizes} bytes{more}"


def _size(size: int | None) -> str:
    return "none" if size is None else f"{size:,}"
