"""What both ways to make a cluster again share: rows held until the end, put together, and comments."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kdump.dispatch import takes
from kdump.finding import Finding, Severity
from kdump.render.coordinators import CoordinatorSink
from kdump.render.text.cluster import acl_operation, number_text
from kdump.render.text.lines import TextLines
from kdump.rows.coordinators import ClusterOrigin, ClusterRow, Remark
from kdump.storage.file_source import OpenFailure
from kdump.storage.names import OWN_TOPICS
from kdump.value import Value
from kdump.words.escape import escape
from kdump.words.numbers import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kdump.rows.coordinators import CopyChosen

    Fields = dict[str, Any]
    Settings = list[tuple[str, str | None]]  # names and values of configurations, None for a secret

NO_ID = "A" * 22  # Uuid.ZERO_UUID
NO_CLUSTER_ID = "cluster.id is in meta.properties of each log.dir, and none was named that has it"


class TopicAgain(Value):
    """A topic as it is to be made."""

    name: str
    replicas: dict[int, tuple[int, ...]]  # of each partition, the preferred leader first, once a reassignment has ended
    settings: Settings

    @property
    def partitions(self) -> int:
        """How many it needs to have, for the last one that is known."""
        return max(self.replicas, default=-1) + 1

    @property
    def lacks(self) -> list[int]:
        """Partitions before the last one of which nothing is known."""
        return [number for number in range(self.partitions) if not self.replicas.get(number)]

    @property
    def factor(self) -> int:
        """The number of replicas that most partitions have, the larger of two."""
        counts = Counter(len(one) for one in self.replicas.values() if one)
        return max(counts, key=lambda size: (counts[size], size), default=0)

    @property
    def odd(self) -> dict[int, tuple[int, ...]]:
        """Partitions with another number of replicas."""
        return {number: one for number, one in self.replicas.items() if one and len(one) != self.factor}


class AclRule(Value):
    """ACLs that differ only in what they allow or deny."""

    principal: str
    host: str
    resource: int  # ResourceType
    name: str  # of the resource
    pattern: int  # PatternType
    permission: int  # AclPermissionType
    operations: list[int]  # AclOperation, ascending


class EmittedCluster(CoordinatorSink, TextLines):
    """Holds a cluster until its end, and then writes it.

    Args:
        write: takes text for stdout.
        error: takes one line for stderr.
        when: words for the time that was asked for, empty for the end.
        topics_only: some topics were asked for by name: nothing else is written.
    """

    def __init__(
        self, write: Callable[[str], Any], error: Callable[[str], Any], *, when: str, topics_only: bool
    ) -> None:
        super().__init__(write, error)
        self._when = when
        self._topics_only = topics_only
        self._origin: ClusterOrigin | None = None
        self._rows: dict[str, list[Fields]] = {}
        self._errors = 0
        self._told: list[str] = []  # why not all is there

    @takes(ClusterOrigin)
    def _begin(self, origin: ClusterOrigin) -> None:
        self._origin = origin

    @takes(ClusterRow)
    def _row(self, row: ClusterRow) -> None:
        self._rows.setdefault(row.kind, []).append(row.fields)

    @takes(Finding)
    def _finding(self, finding: Finding) -> None:
        super()._finding(finding)
        self._errors += finding.severity is Severity.ERROR

    @takes(OpenFailure)
    def _problem(self, problem: OpenFailure) -> None:
        super()._problem(problem)
        self._told.append(problem.sentence)

    def _remark(self, remark: CopyChosen | Remark) -> None:
        super()._remark(remark)
        if isinstance(remark, Remark):
            self._told.append(remark.sentence)

    def end(self, status: int) -> None:
        """Write the cluster; nothing where there is no metadata log.

        Args:
            status: the exit status.
        """
        super().end(status)
        if self._origin is not None:
            self._comments(*self._head(self._origin), *self._lacks())
            self._cluster(self._origin)

    def _head(self, origin: ClusterOrigin) -> list[str]:
        """Return what it is for, as lines."""
        raise NotImplementedError

    @staticmethod
    def _second_way(made_by: str, begin_with: str) -> list[str]:
        """Return what speaks for another way first, as lines.

        Args:
            made_by: what makes the topics.
            begin_with: what the new cluster has to begin with.
        """
        return [
            "",
            "This is the second way. If any broker or controller still has its __cluster_metadata-0, give that to",
            "the controllers instead: topic ids, leader epochs and secrets come with it.",
            f"Topics that {made_by} have new ids. Brokers that find the old partition directories take them",
            "for strays: they rename them to TOPIC-N.ID-stray and serve none of their records. So begin with",
            f"{begin_with}, keep the old ones apart, and bring the records back: kdump salvage --for LOGDIR.",
        ]

    def _tokens(self) -> list[str]:
        """Return what cannot be made again of delegation tokens, as lines."""
        return [
            f"delegation token {one['tokenId']} of {one['owner']}: its owner has to ask for a new one"
            for one in self._rows.get("token", [])
        ]

    def _cluster(self, origin: ClusterOrigin) -> None:
        """Write the cluster."""
        raise NotImplementedError

    # --- comments ---------------------------------------------------------------------------------------------
    def _comments(self, *lines: str) -> None:
        self._write("".join([f"# {escape(one)}\n" if one else "#\n" for one in lines]))

    def _title(self, title: str) -> None:
        self._write(f"\n# --- {title}\n")

    def _state(self, origin: ClusterOrigin) -> str:
        return f"Cluster {self._cluster_id(origin) or '(cluster.id is not known)'}{self._when}, before offset \
{origin.offset} of {origin.path}."

    def _lacks(self) -> Iterator[str]:
        """Say why something may not be there."""
        if self._errors:
            yield f"NOT COMPLETE: {counted(self._errors, 'error')} in the metadata log; standard error has them."
        for one in self._told:
            yield f"NOT COMPLETE: {one}"

    def _cluster_id(self, origin: ClusterOrigin) -> str | None:
        """Return cluster.id: that beside the metadata log, else the only one of the directories."""
        if origin.cluster is not None:
            return origin.cluster
        known = {one.cluster for one in origin.directories if one.cluster is not None}
        return known.pop() if len(known) == 1 else None

    def _other_clusters(self, origin: ClusterOrigin) -> Iterator[str]:
        """Say which directories are of another cluster."""
        its = self._cluster_id(origin)
        for one in origin.directories:
            if one.cluster is not None and one.cluster != its:
                yield f"{one.path}: cluster.id is {one.cluster}: another cluster's, or its metadata log is"

    # --- what there is ----------------------------------------------------------------------------------------
    def _settings(self) -> dict[tuple[int, str], Settings]:
        """Configurations by type and name of what they are of."""
        found: dict[tuple[int, str], Settings] = {}
        for one in self._rows.get("config", []):
            found.setdefault((one["resourceType"], one["resourceName"]), []).append((one["name"], one["value"]))
        return found

    def _topics(self, settings: dict[tuple[int, str], Settings], resource: int) -> tuple[list[TopicAgain], ...]:
        """Return the topics of users and Kafka's own, by name; their configurations are taken out of all.

        Args:
            settings: all configurations.
            resource: the type of those of topics.
        """
        replicas: dict[str, dict[int, tuple[int, ...]]] = {}
        for one in self._rows.get("partition", []):
            leaving = set(one.get("removingReplicas") or ())
            staying = tuple(number for number in one["replicas"] if number not in leaving)
            replicas.setdefault(one["topic"], {})[one["partitionId"]] = staying or tuple(one["replicas"])
        made = [
            TopicAgain(one["name"], replicas.get(one["name"], {}), settings.pop((resource, one["name"]), []))
            for one in self._rows.get("topic", [])
        ]
        return [one for one in made if one.name not in OWN_TOPICS], [one for one in made if one.name in OWN_TOPICS]

    def _levels(self) -> dict[str, int]:
        """Levels of features by name."""
        return {one["name"]: one["featureLevel"] for one in self._rows.get("feature", [])}

    def _quotas(self) -> list[tuple[list[tuple[str, str | None]], dict[str, str]]]:
        """Entities, each with its quotas by key."""
        found: dict[tuple[tuple[str, str | None], ...], dict[str, str]] = {}
        for one in self._rows.get("quota", []):
            entity = tuple((part["entityType"], part["entityName"]) for part in one["entity"])
            found.setdefault(entity, {})[one["key"]] = number_text(one["value"])
        return [(list(entity), keys) for entity, keys in found.items()]

    def _rules(self) -> list[AclRule]:
        """ACLs by what they are for."""
        found: dict[tuple[str, str, int, str, int, int], set[int]] = {}
        for one in self._rows.get("acl", []):
            resource = one["resourceType"], one["resourceName"], one["patternType"]
            key = one["principal"], one["host"], *resource, one["permissionType"]
            found.setdefault(key, set()).add(one["operation"])
        return [
            AclRule(principal, host, kind, name, how, permission=permission, operations=sorted(found[key]))
            for key in sorted(found)
            for principal, host, kind, name, how, permission in [key]
        ]


def operation_word(number: int) -> str:
    """Return what an ACL allows or denies, as Kafka's tools and Strimzi write it: "DescribeConfigs".

    Args:
        number: AclOperation.
    """
    return "".join([part.capitalize() for part in acl_operation(number).split("-")])
