"""Which steps are told, and in which rank: for each partition the first row of one table that applies.

A row has options in the order of their ranks, an option the kinds of its steps in their order. What a partition has no
move for is left out. Partitions with one row, and the same moves, are one block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.checks.step_sentences import Harm, Move, StepKind, move
from kdump.item import StepFacts
from kdump.rows.steps import NONE, UNKNOWN, Amount, Rank, Step
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_NO_OTHER = "there is no other replica"
_NONE_SOUND = "no other replica is sound"
_ONE_SOUND = "another replica is sound, and has all of it"


class PartitionState(StepFacts):
    """What verify knows of a partition when it has judged it, for the table of steps."""

    path: str  # of its directory, as the user wrote it or below that
    moves: tuple[Move, ...] = ()  # what can be done
    has_read_error: bool = False  # the disk cannot read a part of it
    fails_by_file: bool = False  # it does not load, or is set aside, because of a small file of its own
    mends_start: bool = False  # `kdump repair` mends that file
    waits: bool = False  # its logs have wrong names, or others are about to take their places
    starts_well: bool = False  # the coming start cuts what was never whole, builds indexes again, and mends all
    is_mendable: bool = False  # commands that lose nothing mend every error and warning
    has_losses: bool = False  # offsets are lost or doubtful, and nobody has told of them before
    has_alone: bool = False  # offsets are missing, and may be lost (L19)
    is_damaged: bool = False  # bytes of its logs are damaged, so that they can be salvaged or cut
    others: bool | None = None  # whether there are other replicas; None where nobody tells
    sound: str | None = None  # the replica among the inputs that has all that this one has, and has lost
    together: tuple[str, ...] = ()  # the replicas among the inputs, where there are several
    contradicted: bool = False  # by another replica among the inputs, and nothing of it is damaged
    has_removed: bool = False  # a broker is about to delete what no other file has (F16)
    removed_has_all: bool = False  # that has all that is lost here
    harm: Harm = Harm()  # what the coming start does to what is intact, or was
    keeps: Amount = UNKNOWN  # intact records that readers get today
    harm_loses: Amount = UNKNOWN  # those of them that the coming start takes

    @property
    def takes_intact(self) -> bool:
        """Whether the coming start takes something that is intact, as far as is known."""
        return bool(self.harm) and self.harm_loses.records != 0

    @property
    def lacks(self) -> bool:
        """Whether offsets are lost or doubtful."""
        return self.has_losses

    def of(self, kinds: Iterable[StepKind]) -> list[Move]:
        """The moves of some kinds, in their order."""
        return [one for kind in kinds for one in self.moves if one.kind is kind]


class RunState(StepFacts):
    """What verify knows when it has judged all, where replicas are still to be compared."""

    partitions: tuple[PartitionState, ...]
    moves: tuple[Move, ...]  # what is to be done about what lies in no partition


class StepOption(Value):
    """One option of a row of the table: when it is right, and the kinds of its steps."""

    rank: Rank
    kinds: tuple[StepKind, ...]
    condition: str | None = None


class TableRow(Value):
    """A row of the table: when it applies, and the options then, the recommended one first."""

    applies: Callable[[PartitionState], bool]
    options: tuple[StepOption, ...]


def _recommended(*kinds: StepKind) -> StepOption:
    return StepOption(Rank.RECOMMENDED, kinds)


def _if(condition: str, *kinds: StepKind) -> StepOption:
    return StepOption(Rank.IF, kinds, condition)


def _last(*kinds: StepKind) -> StepOption:
    return StepOption(Rank.LAST_RESORT, kinds)


MENDS = StepKind.REPAIR, StepKind.PATCH, StepKind.LOOSE_END, StepKind.REINDEX, StepKind.SNAPSHOT
"""What mends a partition in place and loses nothing."""

_NOTHING_ELSE = StepKind.PERSON, StepKind.CHECKPOINT, StepKind.BESIDE, *MENDS, StepKind.READABLE


def _of_missing(applies: Callable[[PartitionState], bool], *kinds: StepKind) -> tuple[TableRow, TableRow]:
    """The rows of offsets that are lost where no byte is damaged: of the only replica, and where there may be others.

    Args:
        applies: what must hold besides.
        kinds: what is right where there is no other replica.
    """
    last = () if StepKind.WITNESS in kinds else (_last(StepKind.WITNESS),)
    return (
        TableRow(
            lambda one: one.lacks and one.others is False and applies(one),
            (_recommended(*kinds, StepKind.PERSON, StepKind.CHECKPOINT), *last),
        ),
        TableRow(
            lambda one: one.lacks and applies(one),
            (
                _recommended(StepKind.COMPARE, StepKind.PERSON, StepKind.CHECKPOINT),
                _if(_NO_OTHER, *kinds),
                _if(_ONE_SOUND, StepKind.RESTORE),
                *last,
            ),
        ),
    )


TABLE = (
    # the disk cannot read a range
    TableRow(lambda one: one.has_read_error, (_recommended(StepKind.URGENT),)),
    # logs under the names of others, or about to be put in the place of others: what else is wrong waits for that
    TableRow(
        lambda one: one.waits,
        (
            _recommended(
                StepKind.RENAME,
                StepKind.RENAME_FIRST,
                StepKind.SWAP,
                StepKind.SWAP_OUT,
                StepKind.PERSON,
                StepKind.CHECKPOINT,
            ),
            _if("the files are not to be moved", StepKind.SALVAGE),
        ),
    ),
    TableRow(lambda one: one.starts_well, (_recommended(StepKind.START),)),
    TableRow(lambda one: one.is_mendable, (_recommended(*MENDS),)),
    # what a broker is about to delete has all that is lost: what comes first is all
    TableRow(lambda one: (one.lacks or one.has_alone) and one.removed_has_all, (_recommended(),)),
    # something is lost or doubtful: a replica among the inputs has it all
    TableRow(
        lambda one: (one.lacks or one.has_alone) and one.sound is not None,
        (_recommended(StepKind.RESTORE, StepKind.CHECKPOINT), _last(StepKind.SALVAGE)),
    ),
    # several are among the inputs, none has all
    TableRow(
        lambda one: one.lacks and bool(one.together),
        (
            _recommended(StepKind.JOIN, StepKind.CHECKPOINT),
            _if("a further replica is sound", StepKind.RESTORE),
            _last(*MENDS, StepKind.CUT),
        ),
    ),
    # there are others
    TableRow(
        lambda one: one.lacks and one.is_damaged and one.others is True,
        (
            _recommended(StepKind.COMPARE, StepKind.RESTORE, StepKind.CHECKPOINT),
            _if(_NONE_SOUND, StepKind.SALVAGE),
            _last(*MENDS, StepKind.CUT, StepKind.WITNESS),
        ),
    ),
    # there is no other
    TableRow(
        lambda one: one.lacks and one.is_damaged and one.others is False,
        (_recommended(StepKind.SALVAGE, StepKind.CHECKPOINT), _last(*MENDS, StepKind.CUT, StepKind.WITNESS)),
    ),
    # nobody tells
    TableRow(
        lambda one: one.lacks and one.is_damaged,
        (
            _recommended(StepKind.COMPARE, StepKind.CHECKPOINT),
            _if(_NO_OTHER, StepKind.SALVAGE),
            _if(_ONE_SOUND, StepKind.RESTORE),
            _last(*MENDS, StepKind.CUT, StepKind.WITNESS),
        ),
    ),
    # offsets are gone, and no byte is damaged; indexes that know of them would have a start hide what is left
    *_of_missing(lambda one: one.takes_intact and bool(one.of([StepKind.WITNESS])), *MENDS, StepKind.WITNESS),
    *_of_missing(lambda one: one.takes_intact and not one.of([StepKind.CHECKPOINT]), StepKind.SALVAGE),
    *_of_missing(lambda _: True, *MENDS, StepKind.NOTHING),
    TableRow(lambda one: one.has_removed, (_recommended(),)),  # what comes first is all
    TableRow(
        lambda one: one.has_alone,
        (
            _recommended(StepKind.COMPARE, StepKind.PERSON, StepKind.CHECKPOINT),
            _if(_NO_OTHER, *MENDS, StepKind.NOTHING),
        ),
    ),
    TableRow(lambda one: one.contradicted, (_recommended(StepKind.STOP_WRITERS, StepKind.PREFER),)),
    # any other error or warning
    TableRow(lambda one: bool(one.of(_NOTHING_ELSE)), (_recommended(*_NOTHING_ELSE),)),
)
"""The first row that applies to a partition decides what is told of it."""

_FIRST = StepKind.URGENT, StepKind.RESCUE, StepKind.RESCUE_TOO
"""What the recommended option begins with, whatever row applies."""


_LOSES, _MENDED, _REMOVED, _STARTS = range(4)  # what a block is about, in the order of blocks
_WAITS = " when all that is recommended above is done"
_OF_LOSS = (
    *(StepKind.URGENT, StepKind.HOLD, StepKind.COMPARE, StepKind.RESTORE, StepKind.SALVAGE, StepKind.JOIN),
    *(StepKind.RENAME, StepKind.RENAME_FIRST, StepKind.SWAP, StepKind.SWAP_OUT, StepKind.STOP_WRITERS),
)


def steps_for(states: Sequence[PartitionState], of_run: Iterable[Move] = ()) -> Iterator[Step]:
    """Yield what to do, block by block.

    Args:
        states: of the partitions in which there is something to do.
        of_run: what is to be done about what lies in no partition.
    """
    first = list(of_run)
    if first:
        block = StepBlock()
        block.add("", [(_recommended(), first)])
        yield from _numbered((), block.options)
    blocks: dict[object, StepBlock] = {}
    for one in states:
        options = _options(one)
        if not options:
            continue
        blocks.setdefault(_block_of(one, options), StepBlock()).add(one.path, options)
    ordered = sorted(blocks.values(), key=_urgency)
    is_last = bool(first) or len(ordered) > 1
    for block in ordered:
        waits = is_last and _urgency(block) == _STARTS
        yield from _numbered(tuple(block.paths), _after_all(block.options) if waits else block.options)


def _urgency(block: StepBlock) -> int:
    """What a block is about: a broker is one process, so it starts when all else is done."""
    kinds = {one.kind for option, moves in block.options if option.rank is Rank.RECOMMENDED for one in moves}
    if kinds <= {StepKind.START}:
        return _STARTS
    if kinds <= {StepKind.RESCUE, StepKind.RESCUE_TOO}:
        return _REMOVED
    return _MENDED if kinds.isdisjoint(_OF_LOSS) else _LOSES


def _after_all(options: Iterable[tuple[StepOption, list[Move]]]) -> Iterator[tuple[StepOption, list[Move]]]:
    """The options of a start that must wait."""
    for option, moves in options:
        yield option, [one.replace(words=(*one.words, ("last", _WAITS))) for one in moves]


def block_of(state: PartitionState) -> object:
    """Return what the partitions of one block have in common; None where nothing is to be done."""
    options = _options(state)
    return _block_of(state, options) if options else None


def _block_of(state: PartitionState, options: Iterable[tuple[StepOption, list[Move]]]) -> object:
    found = list(options)
    is_joined = any(step.kind is StepKind.JOIN for _, some in found[:1] for step in some)
    return state.together if is_joined else tuple((option, *(step.alike for step in some)) for option, some in found)


class StepBlock:
    """The options of one partition, or of several alike.

    Attributes:
        paths: of their directories.
    """

    def __init__(self) -> None:
        self.paths: dict[str, None] = {}
        self._options: dict[StepOption, dict[object, Move]] = {}

    def add(self, path: str, options: Iterable[tuple[StepOption, list[Move]]]) -> None:
        """Take one more partition: steps that are alike are one for all of them."""
        self.paths[path] = None
        for option, moves in options:
            known = self._options.setdefault(option, {})
            for one in moves:
                before = known.get(one.alike)
                known[one.alike] = one if before is None else before + one

    @property
    def options(self) -> Iterator[tuple[StepOption, list[Move]]]:
        """The options in the order of their ranks, and the steps of each."""
        for option in sorted(self._options, key=lambda option: _RANKS.index(option.rank)):
            yield option, sorted(self._options[option].values(), key=lambda one: one.kind is not StepKind.HOLD)


_RANKS = tuple(Rank)


def _options(one: PartitionState) -> list[tuple[StepOption, list[Move]]]:
    """The options of one partition; none where there is nothing to do."""
    row = next((row for row in TABLE if row.applies(one)), None)
    found = [(option, one.of(option.kinds)) for option in row.options] if row is not None else []
    before = one.of(_FIRST) + (one.of([StepKind.MEND]) if one.fails_by_file else [])
    before += one.of([StepKind.REPAIR]) if one.mends_start and one.fails_by_file else []
    if not found and before:
        found = [(_recommended(), [])]
    if not found:
        return []
    option, steps = found[0]
    told = [*before, *(step for step in steps if step not in before)]
    if not told:
        return []
    if one.harm:  # "nothing to do" would be the contrary of what comes before it
        found = [(option, [_given_up(step) for step in steps]) for option, steps in found]
        told = sorted(map(_given_up, told), key=lambda step: step.kind is StepKind.GIVE_UP)
    held = [move(StepKind.HOLD, what=one.harm).replace(keeps=one.keeps, loses=NONE)] if one.harm else []
    found = [(option, [*held, *told]), *((option, some) for option, some in found[1:] if some)]
    if one.harm:
        keeps = one.keeps.without(one.harm_loses)
        again = move(StepKind.START_ALL_THE_SAME, what=one.harm).replace(keeps=keeps, loses=one.harm_loses)
        found.append((_last(), [again]))
    return found


def _given_up(step: Move) -> Move:
    return step.replace(kind=StepKind.GIVE_UP) if step.kind is StepKind.NOTHING else step


def _numbered(paths: tuple[str, ...], options: Iterable[tuple[StepOption, list[Move]]]) -> Iterator[Step]:
    for number, (option, moves) in enumerate(options, 1):
        for n, one in enumerate(moves, 1):
            what = one.line, one.why, one.keeps, one.loses, one.size
            yield Step(number, n, paths, option.rank, option.condition, *what)
