"""What verify says to do next: a row for each kind of step, with what causes it; which of them, the table decides."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from kdump.finding import Finding, Severity, Trait
from kdump.rows.steps import UNKNOWN
from kdump.value import Value
from kdump.words.command import command_line, named
from kdump.words.numbers import counted, size, some_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kdump.checks.mendable import FileRepair
    from kdump.finding import Code
    from kdump.rows.steps import Amount
    from kdump.words.command import ShellCommand

MOST_NAMED = 3
"""Files that a sentence names."""

_MOST_FILES = 100  # of one code in one partition that are held

DELETED_TOO = ("--deleted", "too")
"""The options of a salvage that brings back what a broker is to remove."""

FROM_ANOTHER = "from another replica, if one is sound"
"""What a step says where no other replica was looked at."""


class StepKind(Enum):
    """The kinds of steps: what causes one, and its sentence."""

    URGENT = "codes with Trait.URGENT, and no command", "{files}: {code}: {remedy}"
    RESCUE = (
        "F16: records that a broker is to remove, of a directory, or beside logs that have others at their offsets",
        (
            "{unless}copy {files} before a broker starts, which removes {it} ({code}): this makes a partition of "
            "{it}{alone}"
        ),
    )
    RESCUE_TOO = (
        "F16: records that a broker is to remove, beside the logs of a partition",
        (
            "{unless}copy {files} before a broker starts, which removes {it} ({code}){has}: this writes all that is "
            "intact, with {it}, to a new directory"
        ),
    )
    SWAP = (
        "files that wait as .swap and lack what goes for them",
        "before a broker starts: keeps what waits out of its way, in no log directory; then {again} judges the rest",
    )
    SWAP_OUT = (
        "the same, where each has what the other lacks",
        "before a broker starts: writes what is intact in what waits, and in what goes for it, to a new directory{but}",
    )
    RENAME = (
        "logs under the names of other segments, and nothing else",
        "stop the broker, and give the logs their names, which loses nothing: {moves}",
    )
    RENAME_FIRST = (
        "logs under the names of other segments; what else is wrong waits for the names",
        (
            "stop the broker, and give the logs their names, which loses nothing: {moves}"
            "; then {again} names the options for what else is wrong"
        ),
    )
    HOLD = (
        "the start that is coming takes away, hides or reuses what is intact, or was",
        "do not start the broker: it {what}",
    )
    MEND = "K04, K05 that keep the partition from loading", "{files}: {code}: {remedy}"
    START = (
        "what the start that is coming cuts was never whole, and what it builds again is told by the logs",
        "start the broker{last}{after}: {what}",
    )
    START_ALL_THE_SAME = "HOLD, as a last resort", "start the broker all the same: it {what}"
    COMPARE = (
        "offsets that are lost, doubtful or missing, and replicas that were not looked at",
        "{missing}: shows whether another replica{where} has {them}, and how to restore {it}",
    )
    RESTORE = (
        "the same, where another replica may have all",
        "restore {path} {source} ({cause}): {how}",
    )
    SALVAGE = "the same, where none has", "{what} to a new directory{but}"
    JOIN = (
        "the same in several replicas that were compared",
        ("writes all that is intact in any of these replicas to one new directory, and says how to put it in place"),
    )
    STOP_WRITERS = "D01", "stop those who write to {path}: its replicas contradict each other"
    PREFER = (
        "D01",
        "makes one partition by the records of the replica named for SOURCE, and says what of the others stays out",
    )
    NOTHING = "missing offsets that no replica has", "nothing to do: a broker serves the rest"
    GIVE_UP = (
        "the same, where the start reuses them for new records",
        (
            "nothing to do but to look for what is lost, in backups and on other volumes; where it is nowhere, start "
            "the broker all the same: it serves the rest"
        ),
    )
    READABLE = "codes without a remedy, and nothing lost", "nothing to do: every record is readable ({code} in {files})"
    PERSON = "codes of which no other step is", "{files}: {code}: {remedy}"
    CHECKPOINT = "the same, of files of the log directory: they stay when the partition is replaced", PERSON[1]
    REPAIR = (
        "what `kdump repair` mends in a partition: codes of the three below, K04, K05",
        "mends {what}{harmless}",
    )
    PATCH = (
        "codes with Trait.PATCH_HEADER, where one value is possible",
        "restores header fields that no CRC covers and that can have one value only{harmless}",
    )
    LOOSE_END = (
        "damage behind the last batch, for which the next log leaves no offset",
        "cuts what is no batch at the end of this log, and touches no other log{harmless}",
    )
    REINDEX = (
        "codes with Trait.REINDEX",
        "builds the indexes that are missing or unsound again, from their logs{harmless}",
    )
    BESIDE = (
        "an index that was named alone, of a damaged log",
        "names the options for {log}, which is damaged too; its indexes are mended with it",
    )
    SNAPSHOT = (
        "codes with Trait.UNSOUND_SNAPSHOT",
        "builds wrong producer snapshots again, from the logs{harmless}",
    )
    WITNESS = (
        "codes with Trait.WITNESSED",
        (
            "when the log that they belong to is in no backup and on no other volume, builds the indexes again: what "
            "they tell of that log is given up"
        ),
    )
    CUT = "damage that no patch mends: the last resort", "cuts the log at {where}: {cost}"

    def __init__(self, cause: str, sentence: str) -> None:
        self.cause = cause
        self.sentence = sentence


class Move(Value):
    """Something that can be done about one partition, or about several alike."""

    kind: StepKind
    verb: str | None = None  # of kdump; None where a person acts, or where `command` says it
    paths: tuple[str, ...] = ()  # that the command names
    flags: tuple[str, ...] = ()  # behind them
    command: ShellCommand | None = None  # one of another make
    words: tuple[tuple[str, object], ...] = ()  # of its sentence; lists of names, and numbers, add up
    keeps: Amount = UNKNOWN  # intact records that readers get, and get afterwards
    loses: Amount = UNKNOWN  # those that they do not get any more
    size: int | None = None  # bytes to copy or to read; None where that is not known

    @property
    def line(self) -> ShellCommand | None:
        """The command as a shell reads it; None where a person acts."""
        return self.command if self.verb is None else command_line(self.verb, *map(named, self.paths), *self.flags)

    @property
    def why(self) -> str:
        """Its sentence."""
        words = {"last": "", **{name: _told(value) for name, value in self.words}}
        return self.kind.sentence.format_map(words)

    @property
    def alike(self) -> tuple[object, ...]:
        """What several that are done at once have in common."""
        same = tuple((name, one) for name, one in self.words if not isinstance(one, tuple | Sum | Harm))
        return self.kind, self.verb, self.flags, self.command, same

    def __add__(self, other: Move) -> Move:
        """Do the same for another partition at once, or for another replica."""
        if self.kind is StepKind.JOIN:
            return self
        words = tuple((name, _added(one, more)) for (name, one), (_, more) in zip(self.words, other.words, strict=True))
        both = None if self.size is None or other.size is None else self.size + other.size
        paths = tuple(dict.fromkeys((*self.paths, *other.paths)))  # of several partitions the log directory is one
        keeps, loses = self.keeps + other.keeps, self.loses + other.loses
        return self.replace(paths=paths, words=words, keeps=keeps, loses=loses, size=both)


def _added(one: object, more: object) -> object:
    """Two of one word: names of both, each once, and numbers added up."""
    if isinstance(one, tuple):
        return tuple(dict.fromkeys((*one, *more)))  # type: ignore[misc]
    return one + more if isinstance(one, Sum | Harm) else one  # type: ignore[operator]


class Sum(Value):
    """What a start does to some partitions, added up."""

    cut: int = 0  # bytes
    read: int = 0  # bytes of logs
    indexes: int = 0  # segments of which indexes are built again

    def __add__(self, other: Sum) -> Sum:
        """Add those of another partition."""
        return Sum(self.cut + other.cut, self.read + other.read, self.indexes + other.indexes)

    def __str__(self) -> str:
        """All of it in one sentence."""
        done = [f"cuts {size(self.cut)} that were never whole"] if self.cut else []
        done += [f"builds the indexes of {counted(self.indexes, 'segment')} again"] if self.indexes else []
        read = f"; it reads {size(self.read)} of logs" if self.read else ""
        return f"it {' and '.join(done) or 'changes no log'}, and loses nothing that is intact{read}"


class Harm(Value):
    """What a start does to what is intact, or was, in some partitions, added up."""

    strays: int = 0  # directories that are renamed to -stray
    discarded: int = 0  # records that can be read today
    hidden: int = 0  # such records
    again: tuple[str, ...] = ()  # ranges of offsets that are given out again
    witnesses: tuple[str, ...] = ()  # files that alone tell of lost logs
    refused: int = 0  # directories that stay, and of which the broker serves nothing

    def __add__(self, other: Harm) -> Harm:
        """Add that of another partition."""
        again = tuple(dict.fromkeys((*self.again, *other.again)))
        witnesses = (*self.witnesses, *other.witnesses)
        strays, refused = self.strays + other.strays, self.refused + other.refused
        return Harm(strays, self.discarded + other.discarded, self.hidden + other.hidden, again, witnesses, refused)

    def __bool__(self) -> bool:
        """Whether it does any."""
        return self != Harm()

    def __str__(self) -> str:
        """All of it: verbs behind "it"."""
        strays, refused = ("the directory" if n == 1 else f"{n} directories" for n in (self.strays, self.refused))
        done = [f"renames {strays} to -stray, and serves nothing of it"] if self.strays else []
        done += [f"does not serve {refused}, whose topic id is of another topic"] if self.refused else []
        done += [f"discards {counted(self.discarded, 'record')} that can be read today"] if self.discarded else []
        done += [f"hides {counted(self.hidden, 'record')} that can be read today"] if self.hidden else []
        done += [f"reuses {_told(self.again)} for new records"] if self.again else []
        done += [f"takes away what alone tells of lost logs ({_told(self.witnesses)})"] if self.witnesses else []
        return " and ".join(done)


def _told(value: object) -> object:
    return some_of(value, MOST_NAMED) if isinstance(value, tuple) else value


def move(kind: StepKind, command: ShellCommand | None = None, /, **words: object) -> Move:
    """Return what a person does, or a command does that concerns one partition only.

    Args:
        kind: of it.
        command: None where a person acts.
        words: of its sentence.
    """
    return Move(kind, command=command, words=tuple(words.items()))


class PersonSteps:
    """What is wrong and no command mends: a sentence a code."""

    def __init__(self, kind: StepKind = StepKind.PERSON) -> None:
        self._kind = kind  # of what is neither urgent nor a file that keeps the partition from loading
        self._found: dict[Code, tuple[Finding, dict[str, None]]] = {}

    @property
    def has_some(self) -> bool:
        """Whether there is anything to do."""
        return bool(self._found)

    def see(self, finding: Finding) -> None:
        """Take one finding; notes, effects of a cause, and what a loss says, leave nothing to do."""
        is_to_do = finding.severity is not Severity.NOTE or Trait.URGENT in finding.code.traits
        if is_to_do and finding.because is None and Trait.TELLS_LOSS not in finding.code.traits:
            _, files = self._found.setdefault(finding.code, (finding, {}))
            if len(files) < _MOST_FILES:
                files[finding.file] = None

    def moves(
        self,
        *,
        without: Trait | None = None,
        mends: Sequence[str] = (),
        repairing: Callable[[Finding, str], FileRepair | None] = lambda _finding, _file: None,
    ) -> Iterator[Move]:
        """Yield what a person does about them, or that nothing is to be done.

        Args:
            without: codes with this trait are left out, unless they are urgent; None for none.
            mends: codes of what keeps the partition from loading.
            repairing: tells how `kdump repair` mends a file that a finding is about; None where it does not.
        """
        readable: dict[str, tuple[str, ...]] = {}  # by what is wrong, the files
        for code, (finding, files) in self._found.items():
            kind = self._kind
            if Trait.URGENT in code.traits:
                kind = StepKind.URGENT
            elif code.name in mends:
                kind = StepKind.MEND
            elif without in code.traits:
                continue
            elif finding.remedy.startswith("none"):
                readable[f"{code.name} {code.slug}"] = tuple(files)
                continue
            by_hand = []
            for file in files:
                how = repairing(finding, file)
                if how is None:
                    by_hand.append(file)
                    continue
                words = (("files", (file,)), ("code", f"{code.name} {code.slug}"), ("remedy", how.remedy))
                yield Move(kind, "repair", how.paths, how.flags, words=words)
            if by_hand:
                yield move(kind, files=tuple(by_hand), code=f"{code.name} {code.slug}", remedy=finding.remedy)
        if readable:
            some = tuple(dict.fromkeys(file for files in readable.values() for file in files))
            yield move(StepKind.READABLE, code=", ".join(readable), files=some)
