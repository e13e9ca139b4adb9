"""What nobody can know from what is left: each kind with its reason, and never looser than that.

| kind | reason |
|-|-|
| a base offset | no other copy has the batch; where it seems to belong its neighbours leave room, and the known end |
| the last base offset behind a hole | one bit explains that, or a loss does, which is told; no end is known |
| the last base offset | nothing knows the end, or files that are older than the batch: one segment's room is free |
| a base offset in an image | the same for the batches right beside it; of others only that they stand elsewhere |
| a leader epoch | no other copy and no file of epochs knows it, and it falls neither from the batch before nor behind |
| the last leader epoch | of the very last batch alone, one bit away: a wrong bit, and an older file, look the same |
| the last leader epochs | all from somewhere on are wrong and ascend above the file, which an older one explains too |
| one behind few elections | of the very last batch alone, several bits away: a file lost in a crash looks the same |
| the line | of epochs newer than the branch that was taken one batch is left, and no file: a wrong bit looks the same |
| a mix | no file begins a newer epoch at or before the foreign batch; none is left at its offsets, or newer before it |
| a fate | a cleaned log lost the marker without a byte of it, and no transaction index knows of it or of a later one |
| a loss | a cleaner has taken the record in one of the copies |
| a loss of a compacted topic | a batch gone without a byte or a file of it, below where a cleaner was in any copy |
| a loss at the ends | it lay below the log start of a copy, or where no file tells that there was a log |
| a loss that is none | it lies below where one of the copies begins: retention looks the same |
| what is told | a batch out of place that a cleaner of one copy wrote anew is told, though its records are written |
| what stays out | a cleaner has taken it in another copy; or no later batch of its copy is written |
| a batch out of place | alone in its log, and in no other copy, it fills the room of its wrong name |
| a refusal | the only log bears a name above its batches: of another partition; the chosen copy ends below the start |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.partitions import name
from tests.support.rescue_truth.batches import entries
from tests.support.rescue_truth.cluster import ident
from tests.support.rescue_truth.disks import EPOCHS, segment_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

    from tests.support.rescue_truth.batches import Read
    from tests.support.rescue_truth.cluster import Ident
    from tests.support.rescue_truth.truth import Placed, Truth

FEW = 16
"""So many elections may leave nothing but one batch."""
SEVERAL = 2
"""So many batches agree on an epoch by no single wrong bit."""
MOST_IN_A_SEGMENT = 2**31
"""Offsets that one segment can hold."""


# --- header fields ------------------------------------------------------------------------------------------
def base_offset(truth: Truth, read: Read) -> bool:
    """Whether nothing tells that the base offset of a batch, as it was written, is wrong."""
    times = {entry[1:] for entry in read.entries}
    same = [one for one in truth.placed if {entry[1:] for entry in one.was.entries} == times]
    stored = read.base if read.magic == 2 else read.last
    wrong = [one for one in same if one.is_vouched_for and one.header[0] == stored]
    right = (one for one in same if one.has_base)  # carve finds no batch with a wrong CRC
    if not wrong or any(truth.runs is None or one.is_vouched_for for one in right):
        return False
    fits = _fits if truth.runs is None else _fits_in_an_image
    return all(fits(truth, one, read) for one in wrong)


def _fits_in_an_image(truth: Truth, one: Placed, read: Read) -> bool:
    """Whether nothing in an image speaks against a batch: there a log has no name, and a hole may be a cleaner's.

    What lies beside it in its file leaves room for it, no other batch stands there, and it is not farther from the rest
    than a segment reaches. One that is alone in its file is betrayed by a hole that it fills, one bit away.
    """
    sound = [other for other in truth.intact if other.has_base and other is not one]
    begin, end = one.was.position, one.was.position + one.was.size
    file: list[Placed] = []
    for other in (*reversed(sound), *sound):  # those that lie one behind the other, as they are placed
        at, size = other.was.position, other.was.size
        if (other.copy, other.path) == (one.copy, one.path) and (at + size == begin or at == end):
            file.append(other)
            begin, end = min(begin, at), max(end, at + size)
    before = [other.was.last for other in file if other.was.position < one.was.position]
    behind = [other.was.base for other in file if other.was.position > one.was.position]
    if any(not 0 < read.base - last < MOST_IN_A_SEGMENT for last in before):
        return False
    if any(not 0 < base - read.last < MOST_IN_A_SEGMENT for base in behind):
        return False
    if any(_is_in_its_place(truth, one, read, other) for other in sound if other not in file):
        return False
    if file or not sound:
        return True
    beside = [other for other in sound if not _is_stale(truth, one, other)]
    is_filling = any(other.was.last + 1 == one.was.base for other in beside)
    is_filling &= any(one.was.last + 1 == other.was.base for other in beside)
    is_one_bit = (one.header[0] ^ one.stored_base).bit_count() == 1
    if is_filling and is_one_bit and not truth.case.cluster.style.is_compacted:
        return False
    return read.base - max(other.was.last for other in sound) < MOST_IN_A_SEGMENT


def _fits(truth: Truth, one: Placed, read: Read) -> bool:
    """Whether the neighbours that are left, and what tells the end of the log, leave room for a batch."""
    copy, end = truth.case.copies[one.copy], truth.end_evidence(one.copy)
    mine = [other for other in truth.placed if other.copy == one.copy and other.is_intact and other.has_base]
    here = (one.path, one.was.position)
    before = [other for other in mine if (other.path, other.was.position) < here]
    behind = [other for other in mine if (other.path, other.was.position) > here]
    last_before = max((other.was.last for other in before), default=-1)
    first_behind = min((other.was.base for other in behind), default=None)
    if read.base <= last_before or (first_behind is not None and read.last >= first_behind):
        return False
    known = end if end > one.was.base else 0
    if not behind and read.last >= (known or last_before + MOST_IN_A_SEGMENT):
        return False
    is_named = truth.runs is None and ("renamed log", one.path) not in copy.damages
    if is_named and read.base < segment_of(one.path):
        return False
    adjoins = any(one.was.last + 1 == other.was.base for other in behind)
    # the bit alone may be wrong, or a loss be before it: where nothing is behind it the known end decides
    adjoins |= any(other.was.last + 1 == one.was.base for other in before) and (bool(behind) or known > 0)
    if adjoins and not truth.case.cluster.style.is_compacted:
        return False
    # elsewhere the same offsets are another batch's
    others = [other for other in truth.intact if other.copy != one.copy and other.has_base]
    return not any(_is_in_its_place(truth, one, read, other) for other in others)


def _is_in_its_place(truth: Truth, one: Placed, read: Read, other: Placed) -> bool:
    """Whether another batch has the offsets that a batch tells."""
    is_over = other.was.base <= read.last and read.base <= other.was.last
    return is_over and not _is_stale(truth, one, other)


def _is_stale(truth: Truth, one: Placed, other: Placed) -> bool:
    """Whether another batch is of an older branch that ended: that tells nothing of the offsets of a newer one."""
    return other.was.epoch < one.was.epoch and other.ident not in truth.line


def epoch(truth: Truth, key: Ident, told: int) -> bool:
    """Whether nothing tells that the leader epoch of a batch, as it was written, is wrong."""
    same = [one for one in truth.placed if one.ident == key]
    wrong = [one for one in same if one.is_intact and one.header[1] == told]
    if not wrong:
        return all(looks_flipped(truth, one, told) for one in same)
    if any(one.has_epoch for one in same):
        return False
    if all(_after_few_elections(truth, one, told) or _as_behind_an_older_file(truth, one) for one in wrong):
        return True
    was = truth.original(key)
    for number, known in truth.files_of_epochs():
        if key in truth.chains[number] and _ends_behind(truth, number, known, was.base):
            return False
    return all(_ascends(truth, one, told) for one in wrong)


def looks_flipped(truth: Truth, one: Placed, told: int) -> bool:
    """Tell whether the last batch of a copy alone has an epoch, one bit from the newest of an older file of epochs."""
    behind = [other for other in truth.placed if other.copy == one.copy and other.was.base > one.was.base]
    known = next((known for number, known in truth.files_of_epochs() if number == one.copy), [])
    is_older = EPOCHS in truth.case.copies[one.copy].touched and bool(known) and known[-1][0] == told
    return not behind and is_older and (told ^ one.was.epoch).bit_count() == 1


def _after_few_elections(truth: Truth, one: Placed, told: int) -> bool:
    """Whether several bits of the last batch of a copy make an epoch little above all that its file has."""
    behind = [other for other in truth.placed if other.copy == one.copy and other.was.base > one.was.base]
    known = next((known for number, known in truth.files_of_epochs() if number == one.copy), [])
    is_several = (told ^ one.was.epoch).bit_count() > 1
    return not behind and bool(known) and is_several and 0 < told - known[-1][0] <= FEW


def _as_behind_an_older_file(truth: Truth, one: Placed) -> bool:
    """Whether the last batches of a copy, this one and others, all have wrong epochs as an older file would lack."""
    known = next((known for number, known in truth.files_of_epochs() if number == one.copy), [])
    mine = [other for other in truth.placed if other.copy == one.copy and other.is_intact]
    last = sorted(mine, key=lambda other: (other.was.base, other.was.position))[-SEVERAL:]
    epochs = [known[-1][0] if known else 0, *(other.header[1] for other in last)]
    return one in last and not any(other.has_epoch for other in last) and epochs == sorted(set(epochs))


def _ends_behind(truth: Truth, number: int, known: list[tuple[int, int]], base: int) -> bool:
    """Whether a file of epochs knows of an offset: it is not an older copy, or has an entry at or behind it."""
    if not known or known[0][1] > base:
        return False
    return EPOCHS not in truth.case.copies[number].touched or known[-1][1] >= base


def _ascends(truth: Truth, one: Placed, told: int) -> bool:
    mine = [other for other in truth.placed if other.copy == one.copy and other.is_intact and other.has_epoch]
    here = (one.was.base, one.was.position)
    before = [other.was.epoch for other in mine if (other.was.base, other.was.position) < here]
    behind = [other.was.epoch for other in mine if (other.was.base, other.was.position) > here]
    return max(before, default=-1) <= told <= min(behind, default=told)


# --- branches -----------------------------------------------------------------------------------------------
def tells_of_the_line(truth: Truth, off: Set[Ident]) -> bool:
    """Whether the disks tell that the line goes on in epochs above those of some batches that are not of it."""
    newest = max(truth.original(key).epoch for key in off)
    batches = {one.ident for one in truth.intact if one.ident in truth.line and one.has_epoch and one.has_base}
    newer = [key for key in batches if truth.original(key).epoch > newest]
    if len(newer) >= SEVERAL:
        return True
    known = {epoch for epoch, _ in truth.epochs(truth.line)} | {truth.case.cluster.epoch}
    files = [
        number
        for number, entries in truth.files_of_epochs()
        if truth.chains[number] <= truth.line and any(epoch > newest and epoch in known for epoch, _ in entries)
    ]
    return bool(files)


def mixed(truth: Truth, found: Set[Ident]) -> bool:
    """Whether nothing tells that batches of two branches are of two."""
    longest = max((truth.chain(key) for key in found), key=len)
    for main in (truth.line, longest):
        foreign = [truth.original(key) for key in found - main]
        if foreign and not any(_is_betrayed(truth, one.base, one.last, one.epoch, main) for one in foreign):
            return True
    return False


def _is_betrayed(truth: Truth, base: int, last: int, epoch: int, main: Set[Ident]) -> bool:
    """Whether anything that is left tells that a batch is not of a branch."""
    for number, known in truth.files_of_epochs():
        if truth.chains[number] <= main and any(newer > epoch and start <= base for newer, start in known):
            return True
    left = [one for one in truth.intact if one.ident in main and one.has_base and one.has_epoch]
    return any(
        (one.was.base <= last and base <= one.was.last) or (one.was.epoch > epoch and one.was.base < base)
        for one in left
    )


# --- transactions -------------------------------------------------------------------------------------------
def fate(truth: Truth, key: Ident, branch: Set[Ident]) -> bool:
    """Whether nothing tells that the marker of a transaction is missing behind one of its batches."""
    if not truth.case.cluster.style.is_compacted:
        return False
    one = truth.original(key)
    who = one.producer[0]
    line = truth.ordered(branch)
    end = next((o for o in line if o.commits is not None and o.producer[0] == who and o.base > one.base), None)
    dropped = any(kind == "dropped batches" for copy in truth.case.copies for kind, _ in copy.damages)
    if end is None or not dropped or any(other.ident == ident(end) for other in truth.placed):
        return False
    return not any(pid == who and last > one.base for pid, _, last in truth.aborted_entries())


# --- losses -------------------------------------------------------------------------------------------------
def lost_offsets(truth: Truth, branch: Set[Ident], written: Set[int]) -> list[int]:
    """The offsets of a branch that damage has taken from every copy, and that something on the disks tells of."""
    case = truth.case
    start = max(copy.replica.first for copy in case.copies)
    first, end = _known(truth, branch, written)
    if case.prefer is not None:  # what others have behind the end of the chosen copy may be of another branch
        end = min(end, max(case.copies[case.prefer].replica.end, max(written, default=-1) + 1))
    held = [
        ({entry for one in copy.replica.batches for entry in entries(one)}, copy.replica, truth.chains[number])
        for number, copy in enumerate(case.copies)
    ]
    found = set()
    for key in branch:
        for entry in entries(truth.original(key)):
            at = entry[0]
            if at in written or not max(start, first) <= at < end or entry in truth.given:
                continue
            covering = [entry in some for some, log, chain in held if log.first <= at < log.end and key in chain]
            if covering and all(covering):
                found.add(at)
    return sorted(found)


def is_cleaned(truth: Truth, one: Placed) -> bool:
    """Whether a cleaner has taken records of a batch in another copy: to follow that one is right too."""
    for number, copy in enumerate(truth.case.copies):
        log = copy.replica
        if one.ident in truth.chains[number] and log.first <= one.was.base and one.was.last < log.end:
            there = {entry for batch in log.batches for entry in entries(batch)}
            if not there.issuperset(one.was.entries):
                return True
    return False


def is_anew(truth: Truth, one: Placed) -> bool:
    """Whether a batch out of place has other bytes than every copy has where it belongs: a cleaner was at one of them.

    Kdump knows it by its bytes, and these are nowhere else.
    """
    same = [other.was.entries for other in truth.intact if other.ident == one.ident and other.has_base]
    is_cleaned = truth.case.cluster.style.is_compacted and bool(same)
    return is_cleaned and not one.has_base and one.was.entries not in same


def fills_its_wrong_name(truth: Truth, one: Placed) -> bool:
    """Whether a batch, the only one that is left of its log, fits exactly where the wrong name of that has it.

    No other copy has it where it belongs: that would decide.
    """
    if any(other.ident == one.ident and other.has_base and other.copy != one.copy for other in truth.intact):
        return False
    names = sorted(segment_of(path) for path in truth.case.copies[one.copy].logs)
    name = segment_of(one.path)
    alone = [other for other in truth.placed if (other.copy, other.path) == (one.copy, one.path) and other.is_intact]
    behind = next((base for base in names if base > name), None)
    return alone == [one] and name != one.was.base and behind == name + one.was.last - one.was.base + 1


def traced_offsets(truth: Truth) -> set[int]:
    """The offsets of which bytes are left, damaged, or the other files of their log."""
    found = {at for one in truth.placed if not one.is_intact for at in range(one.was.base, one.was.last + 1)}
    for copy in truth.case.copies:
        gone = {segment_of(path) for kind, path in copy.damages if kind == "dropped log"}
        segments = (one for one in copy.replica.segments if one.base in gone)
        found |= {at for one in segments for batch in one.batches for at in range(batch.base, batch.last + 1)}
    return found - _vanished(truth)


def _vanished(truth: Truth) -> set[int]:
    """The offsets of batches that a copy has lost without a byte or a file of them, where a cleaner may have been.

    That is below what some copy shows of one: the entry of its checkpoint, or a batch that lacks records.
    """
    there = {(one.copy, one.was.base) for one in truth.placed}
    passed = [copy.replica.dirty or 0 for copy in truth.case.copies]
    passed += [one.was.last + 1 for one in truth.intact if len(one.was.entries) <= one.was.last - one.was.base]
    return {
        at
        for number, copy in enumerate(truth.case.copies)
        for segment in copy.replica.segments
        if ("dropped batches", name(segment.base)) in copy.damages
        if ("dropped log", name(segment.base)) not in copy.damages
        for batch in segment.batches
        if (number, batch.base) not in there and batch.last < max(passed)
        for at in range(batch.base, batch.last + 1)
    }


def _known(truth: Truth, branch: Set[Ident], written: Set[int]) -> tuple[int, int]:
    """From where, and up to where, the disks tell that there was a log."""
    firsts, ends = [min(written, default=0)], [max(written, default=-1) + 1]
    for number, copy in enumerate(truth.case.copies):
        if not truth.chains[number] <= branch:
            continue
        ends.append(truth.end_evidence(number))
        names = [path for path in (*copy.logs, *copy.small) if path[:20].isdigit() and not path.endswith(".snapshot")]
        firsts += [segment_of(path) for path in names if path not in copy.touched and not _is_renamed(copy.damages)]
    for one in truth.intact:
        if one.ident in branch and one.has_base:
            firsts.append(one.was.base)
            ends.append(one.was.last + 1)
    return min(firsts), max(ends)


def is_under_a_wrong_name(truth: Truth, one: Placed) -> bool:
    """Whether all logs of a copy have names that its batches lie below: of another partition they may look the same.

    No log of it bears a name between the two: that would tell that this one comes before.
    """
    mine = [other for other in truth.placed if other.copy == one.copy]
    names = [segment_of(path) for path in truth.case.copies[one.copy].logs]
    is_below = all(other.was.base < segment_of(other.path) for other in mine)
    return truth.runs is None and is_below and not any(one.was.base < base < segment_of(one.path) for base in names)


def is_chosen_below_the_start(truth: Truth) -> bool:
    """Whether the copy that was chosen by hand lies wholly below the log start, and what lies there is not wanted."""
    case = truth.case
    if case.prefer is None or case.below_log_start:
        return False
    start = max(copy.replica.first for copy in case.copies)
    return case.copies[case.prefer].replica.end <= start


def _is_renamed(damages: Iterable[tuple[str, str]]) -> bool:
    return any(kind == "renamed log" for kind, _ in damages)
