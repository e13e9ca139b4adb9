"""The steps that salvage tells: what causes one, and its sentence, in the order in which they are told."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from kdump.format.kinds import FileKind
from kdump.rows.steps import UNKNOWN, Amount, Rank, Step
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.rows.salvaged import Salvaged
    from kdump.words.command import ShellCommand

_METADATA = FileKind.PARTITION_METADATA.value
_FIND_ID = "kdump cluster tells it of __cluster_metadata-0 (topic {topic} topicId=ID)"
_FOR_IT = (
    "in place of {old}, and leader epochs that fit, else a KRaft broker renames it to -stray, or cuts it: make it "
    "again for that topic{how}, and do what stands there"
)
_ANY_LOG_DIR = _FOR_IT.replace("{how}", " (LOGDIR: one of a broker there, with the metadata log)")


class SalvageStepKind(Enum):
    """A sentence for each step; above each what causes that step."""

    # --- before all else: the result may lack what a source has
    # segments beside those that were named were not read
    PART = "do not put {path} in place, brokers would lose the rest: it is made from only {parts}; salvage them all"
    # all sources are runs of carve
    RUNS = (
        "do not put {path} in place before you know that no replica and no backup of {partition} has more than offsets "
        "{first}..{last}: runs of carve tell neither where its log began nor where it ended. Where one has more, name "
        "it beside the runs"
    )
    # a source could not be read, or not all of it
    WITHOUT = (
        "went on without {what}: if {they} can be had, run salvage again with {them}, and another --to, before you use "
        "this"
    )
    # --- what is cheaper than all that follows
    # a copy is sound and has all of the result
    BESIDE = "{copy} is sound and has all of this: {how}, and you are done; go on here only if it cannot lead"
    # one replica is damaged, or several lack something together, and another one may be sound
    OTHERS = (
        "before all that follows, see that no other replica of {partition} is sound; where one is, and lacks nothing "
        "that {copies} had, {how}, and you are done"
    )
    # the same; and one that was deleted, and lacks something
    TOGETHER = (
        "where none is sound, salvage all replicas together, as one may have what another has lost, and go on with "
        "that result; where there is no other, go on here"
    )
    # a copy has logs under the names of other segments
    NAMES = (
        "instead of all that follows, stop the broker of {path} and give its logs their names: {moves}; where {check} "
        "finds nothing wrong then, it has all that it had"
    )
    # a directory of a deleted topic is a source
    DELETED = (
        "copy {path} before a broker starts on its log.dir: a broker removes it a minute after its start "
        "(file.delete.delay.ms); name the copy in the commands below then"
    )
    # the topic was deleted, and there is one of its name again
    CREATED_AGAIN = (
        "{topic} was created again: {live} is a partition of the new topic. What follows puts {path} in its place, and "
        "what was written there since is lost then. To keep both, make a partition of another topic instead, and "
        "create that topic"
    )
    # the same, and brokers may run KRaft
    FOR_LIVE = f"{{path}} needs the topic id of {{live}}, {{id}}, {_FOR_IT.replace('{how}', '')}"
    # the same, and the partition of the new topic does not tell its id
    FOR_TOPIC_OF_LIVE = f"{{path}} needs the topic id of {{live}} {_ANY_LOG_DIR}"
    # the topic was deleted
    CREATE = "{create} where {path} goes{many}"
    # the topic was deleted, and brokers may run KRaft
    CREATE_WITH_ID = f"{{create}} where {{path}} goes{{many}}; that needs its new topic id {_ANY_LOG_DIR}"
    # --- the metadata log
    # a result of the metadata log
    STOP_NODE = "stop the broker that is to have {partition}"
    # the newest sound snapshot of a metadata log is such that a node empties the log because of it
    SNAPSHOT_AHEAD = (
        "the snapshot, which is sound, is not in the result: without it the state that offsets below {offset} had made "
        "is gone where they are lost; the log ends at {end}, and the snapshot is ahead of it: a node of Kafka 4.3 then "
        "empties the log and goes on from the snapshot, at offset {offset}"
    )
    # no source has such a snapshot, and the metadata log does not begin at 0
    NO_SNAPSHOT = (
        "no source has a sound snapshot that reaches offset {start}, where the log begins: copy one, <20 digits>-<10 "
        "digits>.checkpoint, from another controller or broker into {path}; without it no node starts (L18), and the "
        "state that the offsets below had made is gone"
    )
    # a source has a sound quorum-state
    QUORUM = "the quorum-state is not in the result: {vote}"
    # several sources have one
    QUORUMS = "copy to each node its own quorum-state, into its {partition}: {files}: {vote}"
    # no source has one
    NO_QUORUM = "no source has a sound quorum-state: {vote}; ask before you start it"
    # a result of the metadata log
    MOVE_OUT = "move its damaged directory out of the log.dir, and keep it"
    # a result of the metadata log
    COPY_TO_NODE = "copy {path} into its log.dir, owned by the user that the broker runs as"
    # a result of the metadata log
    LOWER_ON_NODE = "{lower}"
    # a result of the metadata log
    CONTROLLERS = (
        "the other controllers: only one log may go on, and one of theirs may have more: before you start any, compare "
        "them with kdump verify --replicas"
    )
    # --- every other partition
    # a replica that is left empty may be elected, as long as the controller has it in the ISR: all others then cut
    # what was put in place (KafkaController knows of no directory that was moved away)
    # a result
    STOP_ALL = (
        "stop every broker that has a replica of {partition}; on each move its directory out of the log.dir, damaged "
        "or not: there a broker looks at every directory, whatever its name"
    )
    # no source has partition.metadata, and brokers may run KRaft
    TOPIC_ID = (
        "{where}no source has the topic id, and a KRaft broker renames a directory without it to -stray: write {path}/"
        f"{_METADATA}, two lines, `version: 0` and `topic_id: ID`, the ID as {_FIND_ID}"
    )
    # a result
    COPY = (
        "copy {path}{rows} into the log.dir of each, owned by the user that the broker runs as: into all, as a "
        "leader without these records would make the others cut them{why}"
    )
    # the log start offset is not that of the first segment
    LOG_START = "on each see that {entry}"
    # a result
    LOWER = "on each, {lower}"
    # a result
    START = "{start}"
    # --- a result for the cluster of another log.dir (--for)
    # that cluster has the very topic that the sources are of, and its partition is no source
    SAME_TOPIC = (
        "{live} is of the same topic ({id}): it may have what the sources lack, or go another way: name it, and the "
        "other replicas, as sources too, and go on with that result"
    )
    # that cluster has another topic of the name, with records in the partition
    LIVE = (
        "{live} has records of the topic that is there now: what follows puts {path} in its place, and they are lost "
        "then. To keep both, create another topic, and make a partition of that one instead"
    )
    # a result for another topic: its records may be older than that keeps them
    KEEP_RECORDS = (
        "let {topic} keep its records, while its brokers still run: retention goes by the times of the records, and "
        "would delete old ones as soon as they are in place"
    )
    # the metadata log names the brokers of the partition
    STOP_BROKER = (
        "stop broker {broker}, with this or with what runs it; all that have a replica of {partition} ({all}) before "
        "what follows: one that runs leads, and makes the others cut what it does not have"
    )
    # no metadata log names them
    STOP_BROKERS = (
        "stop every broker that has a replica of {partition} before what follows: one that runs leads, and makes the "
        "others cut what it does not have"
    )
    # the log.dir has a directory of the partition
    SET_ASIDE = "{where}move the directory that is there now out of the log.dir, and keep it"
    # the same
    PUT = "{where}put the result in its place, owned as the log.dir is{why}"
    # a broker whose log.dir was not named, and that has a replica
    PUT_THERE = (
        "{where}move its {partition} out of the log.dir that has it (LOGDIR), and put a copy of {path}{rows} in its "
        "place: all replicas must be equal"
    )
    # the log.dir has a directory of the partition
    CHECK_PLACED = "before you start a broker, see that it is sound"
    # a result for another cluster
    START_BROKERS = "start all of these brokers, each with its own configuration"
    # the same
    KEEP_AS_BEFORE = (
        "once what you need of it is read or copied: let {topic} delete again what its retention no longer keeps"
    )
    # the same, but for Kafka's own topics
    COMMITS = (
        "no group has committed to this topic: this lists what groups had committed in the cluster that it is from "
        "(LOGDIR: all of its log.dirs; WHEN: before the deletion, or end), for kafka-consumer-groups.sh "
        "--reset-offsets --from-file"
    )
    # transactions are open at the end of the result
    HANGING = (
        "once they run: `kdump transactions --hanging LOGDIR...` (those of all brokers) shows the transactions "
        "that no coordinator ends, and the command that aborts them: before you abort one, look at what it wrote"
    )

    def step(self, command: ShellCommand | None = None, /, **words: object) -> ToldStep:
        """Return a step with its sentence.

        Args:
            command: None where a person acts.
            words: of the sentence.
        """
        return ToldStep(self, command, self.value.format_map(words))


_PUTS = (SalvageStepKind.COPY, SalvageStepKind.COPY_TO_NODE, SalvageStepKind.PUT, SalvageStepKind.PUT_THERE)


class ToldStep(Value):
    """A step that has no place yet."""

    kind: SalvageStepKind
    command: ShellCommand | None  # None where a person acts
    why: str


class SalvageOption(Value):
    """One option of what a person does with a result: when it is right, and its steps."""

    steps: tuple[ToldStep, ...]
    condition: str | None = None  # None for the recommended one


def placed(options: Iterable[SalvageOption], result: Salvaged, path: str, left_out: int) -> Iterator[Step]:
    """Yield the steps of the options that have some: the first of these is recommended.

    Args:
        options: in the order of their ranks.
        result: what the partition comes to.
        path: where it is.
        left_out: intact records of the sources that are not in it.
    """
    found = [one for one in options if one.steps]
    for number, option in enumerate(found, 1):
        rank = Rank.RECOMMENDED if number == 1 else Rank.IF
        for n, one in enumerate(option.steps, 1):
            keeps, loses, size = UNKNOWN, UNKNOWN, None
            if one.kind in _PUTS:
                keeps, loses, size = Amount(None, result.records), Amount(None, left_out), result.size
            where = number, n, (path,), rank, option.condition
            yield Step(*where, command=one.command, why=one.why, keeps=keeps, loses=loses, size=size)
