"""What verify says to do next: a row for each kind of step, with what causes it, and the order of the steps."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from kdump.finding import Finding, Severity, Trait
from kdump.rows.verdict import Step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.finding import Code
    from kdump.words.command import ShellCommand

MOST_NAMED = 3
"""Files that a sentence names."""

DELETED_TOO = ("--deleted", "too")
"""The options of a salvage that brings back what a broker is to remove."""

FROM_ANOTHER = "from another replica, if one is sound"
"""What a step says where no other replica was looked at."""


class StepKind(Enum):
    """The kinds of steps in the order in which they are told: what causes one, and its sentence."""

    URGENT = "codes with Trait.URGENT, and no command", "{sentence}"
    RESCUE = (
        "F16: records that a broker is to remove, of a directory, or beside logs that have others at their offsets",
        "copy {files} before a broker starts, which removes {it} ({code}): this makes a partition of {it}{alone}",
    )
    RESCUE_TOO = (
        "F16: records that a broker is to remove, beside the logs of a partition",
        (
            "copy {files} before a broker starts, which removes {it} ({code}){has}: this writes all that is intact, "
            "with {it}, to a new directory"
        ),
    )
    RESCUE_ALL = "the same, where they have all that is missing", RESCUE_TOO[1]
    SWAP = (
        "files that wait as .swap and lack what goes for them",
        "before a broker starts: keeps what waits out of its way, in no log directory; then {again} judges the rest",
    )
    RENAME = (
        "logs under the names of other segments, and nothing else",
        "stop the broker, and give the logs their names, which loses nothing: {moves}",
    )
    RENAME_FIRST = (
        "logs under the names of other segments; what else is wrong waits for the names",
        (
            "stop the broker, and give the logs their names, which loses nothing: {moves}"
            "; then {again} names the steps for what else is wrong"
        ),
    )
    RESTORE = (
        "damage that no patch mends, a log that is lost, codes with Trait.CAUSE",
        "restore {path} {source} ({cause}): {how}",
    )
    SALVAGE = (
        "the same, where a cut takes intact records along, or no replica may have more",
        "{what} to a new directory{but}",
    )
    COMPARE = (
        "missing offsets that no other step brings back",
        "{missing}: shows whether another replica has {them}, and how to restore {them}",
    )
    PERSON = "codes of which no other step is", "{sentence}"
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
        "names the steps for {log}, which is damaged too; its indexes are mended with it",
    )
    SNAPSHOT = (
        "codes with Trait.UNSOUND_SNAPSHOT",
        "builds wrong producer snapshots again, from the logs{harmless}",
    )
    WITNESS = (
        "codes with Trait.WITNESSED",
        "builds indexes again from a log that they no longer belong to: what they tell of it is given up",
    )
    CUT = "damage that no patch mends: the last resort", "cuts the log at {where}: {cost}"

    def __init__(self, cause: str, sentence: str) -> None:
        self.cause = cause
        self.sentence = sentence
        self.rank = len(type(self).__members__)

    @property
    def mends_in_place(self) -> bool:
        """Whether it changes files of the partition, or names the steps that do."""
        return self.rank >= StepKind.PATCH.rank

    @property
    def is_of_all(self) -> bool:
        """Whether it restores or salvages the partition as a whole."""
        return self in (StepKind.RESTORE, StepKind.SALVAGE)

    def supersedes(self, later: StepKind) -> bool:
        """Tell whether a step of this kind makes another one behind it needless."""
        if self in (StepKind.SALVAGE, StepKind.RESCUE_TOO):
            return later.mends_in_place or later is StepKind.SALVAGE
        if self is StepKind.RESCUE_ALL:
            return later.mends_in_place or later in (StepKind.SALVAGE, StepKind.RESTORE, StepKind.COMPARE)
        keeps_all = self in (StepKind.RENAME, StepKind.RENAME_FIRST, StepKind.SWAP)
        return self is StepKind.RESTORE or (keeps_all and later is StepKind.SALVAGE)


class StepList:
    """The steps about one partition; in which order they are added matters within a kind only.

    Args:
        partition: path of what a restore and salvage name.
        reads_deleted: a salvage of it is to bring back what a broker is to remove beside its logs.
    """

    def __init__(self, partition: str, *, reads_deleted: bool = False) -> None:
        self._partition = partition
        self._reads_deleted = reads_deleted
        self._steps: list[tuple[StepKind, ShellCommand | None, str, str]] = []

    def add(self, kind: StepKind, command: ShellCommand | None = None, /, **words: object) -> None:
        """Add a step.

        Args:
            kind: of it.
            command: None where a person acts.
            words: of its sentence; `why_once_compared` of one that asks other replicas: what to do where they were.
        """
        why_once_compared = str(words.get("why_once_compared", ""))
        self._steps.append((kind, command, kind.sentence.format_map(words), why_once_compared))

    def numbered(self) -> Iterator[Step]:
        """Yield them in order, from 1 on."""
        steps = sorted(self._steps, key=lambda step: step[0].rank)
        for at, (kind, command, why, why_once_compared) in enumerate(steps, 1):
            instead = tuple(n for n, later in enumerate(steps[at:], at + 1) if kind.supersedes(later[0]))
            damaged = self._partition if kind.is_of_all else None
            yield Step(
                at,
                command,
                why,
                instead,
                damaged=damaged,
                partition=self._partition,
                why_once_compared=why_once_compared,
                reads_deleted=self._reads_deleted,
            )


class PersonSteps:
    """What is wrong and no command mends: one sentence a code."""

    def __init__(self) -> None:
        self._found: dict[Code, tuple[Finding, list[str]]] = {}

    @property
    def has_some(self) -> bool:
        """Whether there is anything to do."""
        return bool(self._found)

    def see(self, finding: Finding) -> None:
        """Take one finding; notes, warnings, effects of a cause and what has no remedy leave nothing to do."""
        is_to_do = finding.severity is Severity.ERROR or Trait.URGENT in finding.code.traits
        if is_to_do and finding.because is None and not finding.remedy.startswith("none"):
            _, files = self._found.setdefault(finding.code, (finding, []))
            if finding.file not in files and len(files) <= MOST_NAMED:
                files.append(finding.file)

    def sentences(self, *, urgent: bool | None = None, without: Trait | None = None) -> Iterator[str]:
        """Yield what a person does about them.

        Args:
            urgent: those only that come before all other steps, or all but those; None for all.
            without: codes with this trait are left out; None for none.
        """
        for code, (finding, files) in self._found.items():
            if without in code.traits:
                continue
            if urgent is not None and urgent is not (Trait.URGENT in code.traits):
                continue
            more = ", and others" if len(files) > MOST_NAMED else ""
            what = f"{', '.join(files[:MOST_NAMED])}{more}: {code.name} {code.slug}"
            yield f"{what}: {finding.remedy}"

    def add_to(self, steps: StepList, *, without: Trait | None = None) -> None:
        """Add them to the steps of a partition; codes with a trait are left out, unless they are urgent."""
        for sentence in self.sentences(urgent=True):
            steps.add(StepKind.URGENT, sentence=sentence)
        for sentence in self.sentences(urgent=False, without=without):
            steps.add(StepKind.PERSON, sentence=sentence)
