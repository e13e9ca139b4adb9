"""What was at each offset of a case, and what of it is left on the disks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from tests.support.rescue_truth.batches import Entry, Read, entries, read_aborted, read_log
from tests.support.rescue_truth.cluster import Ident, ident
from tests.support.rescue_truth.damage import placed
from tests.support.rescue_truth.disks import EPOCHS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.support.hole_logs import Batch
    from tests.support.rescue_truth.cases import Case

Content = tuple["bytes | None", "bytes | None", "int | None"]


class Placed(NamedTuple):
    """A batch of a copy, as it was before the damage, and what of it is still so.

    Args:
        copy: number of the copy.
        path: of its log, the name.
        ident: what it is known by.
        was: it, before.
        header: base offset and leader epoch as they lie there now.
        is_intact: all of it is as it was, but for these two.
        is_vouched_for: its CRC and what that covers are as they were.
    """

    copy: int
    path: str
    ident: Ident
    was: Read
    header: tuple[int, int]
    is_intact: bool
    is_vouched_for: bool

    @property
    def has_base(self) -> bool:
        """Whether its base offset, as it is stored, is as it was."""
        return self.header[0] == self.stored_base

    @property
    def has_epoch(self) -> bool:
        """Whether its leader epoch is as it was."""
        return self.header[1] == self.was.epoch

    @property
    def stored_base(self) -> int:
        """Its first offset; of a message with messages inside the last one."""
        return self.was.base if self.was.magic == 2 else self.was.last


@dataclass
class Truth:
    """What is true of a case.

    Args:
        case: with its copies.
        runs: what carve has found, where only that was read: no file of a broker lies beside it; None for the copies.
    """

    case: Case
    runs: bytes | None = None

    # --- content --------------------------------------------------------------------------------------------
    @cached_property
    def by_entry(self) -> dict[Entry, Ident]:
        """The batch of each record that there ever was."""
        return {entry: key for key, one in self.case.cluster.originals.items() for entry in entries(one)}

    @cached_property
    def contents(self) -> set[Content]:
        """The same without offsets."""
        return {entry[1:] for entry in self.by_entry}

    def ident_of(self, read: Read) -> Ident | None:
        """The batch that a batch is, or what a cleaner left of it; None where there was none such at its offsets."""
        found = {self.by_entry.get(entry) for entry in read.entries} or {(read.time, read.base)}
        one = found.pop()
        return None if found or one not in self.case.cluster.originals else one

    def original(self, key: Ident) -> Batch:
        """A batch as its leader wrote it."""
        return self.case.cluster.originals[key]

    # --- branches -------------------------------------------------------------------------------------------
    def chain(self, key: Ident | None) -> frozenset[Ident]:
        """A batch and all before it in the log that it was appended to."""
        return frozenset(self.case.cluster.chain(key))

    @cached_property
    def line(self) -> frozenset[Ident]:
        """The batches of the leader that led last."""
        return frozenset(self.case.cluster.line)

    def branch_of(self, keys: Iterable[Ident]) -> frozenset[Ident] | None:
        """The one branch that batches are of, up to the last of them; None where they are of several."""
        some = frozenset(keys)
        longest: frozenset[Ident] = frozenset()
        for key in some:
            if key not in longest:
                chain = self.chain(key)
                longest = chain if len(chain) > len(longest) else longest
        return longest if some <= longest else None

    @cached_property
    def chains(self) -> list[frozenset[Ident]]:
        """The branch of each copy, as it was before the damage."""
        appended = [copy.replica.appended for copy in self.case.copies]
        return [self.chain(ident(some[-1]) if some else None) for some in appended]

    def ordered(self, branch: Iterable[Ident]) -> list[Batch]:
        """The batches of a branch as their leaders wrote them, in order."""
        return [self.original(key) for key in sorted(branch)]

    def epochs(self, branch: Iterable[Ident]) -> list[tuple[int, int]]:
        """Where each leader epoch of a branch begins, by its batches."""
        found: list[tuple[int, int]] = []
        for one in self.ordered(branch):
            if not found or found[-1][0] != one.epoch:
                found.append((one.epoch, one.base))
        return found

    # --- transactions ---------------------------------------------------------------------------------------
    def fates(self, branch: Iterable[Ident]) -> dict[Ident, str]:
        """The fate of each batch of a transaction of a branch."""
        found: dict[Ident, str] = {}
        running: dict[int, list[Ident]] = {}
        for one in self.ordered(branch):
            who = one.producer[0]
            if one.commits is not None:
                fate = "committed" if one.commits else "aborted"
                found.update(dict.fromkeys(running.pop(who, ()), fate))
            elif one.is_transactional:
                running.setdefault(who, []).append(ident(one))
        return found | {key: "open" for some in running.values() for key in some}

    # --- what is left ---------------------------------------------------------------------------------------
    @cached_property
    def placed(self) -> list[Placed]:
        """The batches of all copies that are still there whole, damaged or not, in file order."""
        return [one for number in range(len(self.case.copies)) for one in self._placed(number)]

    def _placed(self, number: int) -> Iterator[Placed]:
        for path, log in sorted(self.case.copies[number].logs.items()):
            for at, size in placed(log):
                if at + size > len(log.true):
                    continue
                was, now = bytes(log.true[at : at + size]), bytes(log.data[at : at + size])
                (read,) = read_log(was)
                key = self.ident_of(read)
                assert key is not None, read
                magic_2 = read.magic == 2
                same = now[8:12] == was[8:12] and now[16 if magic_2 else 8 :] == was[16 if magic_2 else 8 :]
                epoch = int.from_bytes(now[12:16], "big", signed=True) if magic_2 else -1
                header = int.from_bytes(now[:8], "big", signed=True), epoch
                vouched = now[17 if magic_2 else 12 :] == was[17 if magic_2 else 12 :]
                yield Placed(number, path, key, replace(read, position=at), header, same, vouched)

    @cached_property
    def intact(self) -> list[Placed]:
        """Those that are intact; of an image those that carve finds: a message of magic 0 or 1 alone is none."""
        found = [one for one in self.placed if one.is_intact]
        return found if self.runs is None else [one for one in found if self._now(one) in self.runs]

    def _now(self, one: Placed) -> bytes:
        at = one.was.position
        return bytes(self.case.copies[one.copy].logs[one.path].data[at : at + one.was.size])

    @cached_property
    def given(self) -> set[Entry]:
        """The records that some copy still has intact."""
        return {entry for one in self.intact for entry in one.was.entries}

    def end_evidence(self, number: int) -> int:
        """An offset up to which the log of a copy reached, as other files know."""
        return self.case.copies[number].end_evidence if self.runs is None else 0

    def aborted_entries(self) -> Iterator[tuple[int, int, int]]:
        """Yield the entries of all transaction indexes that are there: producer, first and last offset."""
        for copy in self.case.copies if self.runs is None else ():
            for path, data in copy.small.items():
                if path.endswith(".txnindex"):
                    yield from read_aborted(data)

    def files_of_epochs(self) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """Yield the entries of each leader-epoch-checkpoint, older ones too, with the number of its copy."""
        for number, copy in enumerate(self.case.copies if self.runs is None else ()):
            if EPOCHS in copy.small:
                lines = copy.small[EPOCHS].decode().splitlines()[2:]
                yield number, [(int(epoch), int(start)) for epoch, start in (line.split() for line in lines)]
