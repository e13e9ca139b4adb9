"""A cluster as resources of Strimzi, for `kubectl apply`: KafkaTopic and KafkaUser, as YAML.

A resource has a name that Kubernetes takes; where the topic's own is none, `spec.topicName` has that. What no resource
can say is a comment.

Source: Strimzi's reference of KafkaTopic and KafkaUser; Kubernetes' names of DNS subdomains.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from kdump.render.emit.cluster import NO_CLUSTER_ID, EmittedCluster, operation_word
from kdump.render.text.cluster import ACL_PATTERNS, ACL_PERMISSIONS, ACL_RESOURCES, release_of
from kdump.rows.coordinators import DEFAULT, entity_name, mechanism_name
from kdump.state.metadata_image import METADATA_VERSION, TOPIC_CONFIG, config_name
from kdump.value import pattern
from kdump.words.yaml_text import document

if TYPE_CHECKING:
    from collections.abc import Container

    from kdump.render.emit.cluster import AclRule, TopicAgain
    from kdump.rows.coordinators import ClusterOrigin
    from kdump.words.yaml_text import Node

_VERSION = "kafka.strimzi.io/v1"
_CLUSTER = "MY-CLUSTER"  # the name of the Kafka resource, which nothing on a disk has
_LEGAL = pattern(r"(?=.{1,253}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_NOT_LEGAL = pattern(r"[^a-z0-9]+")
_MOST_OF_NAME = 200  # characters of a name that was made legal, before its hash
_DIGITS = 10  # of the hash
_SHA_512 = 2
_RESOURCES = {"topic": "topic", "group": "group", "cluster": "cluster", "transactional-id": "transactionalId"}
_PATTERNS = {"literal": "literal", "prefixed": "prefix"}
_OPERATIONS = frozenset(
    (
        *("Read", "Write", "Create", "Delete", "Alter", "Describe", "ClusterAction", "AlterConfigs"),
        *("DescribeConfigs", "IdempotentWrite", "All"),
    )
)
_QUOTAS = {
    "producer_byte_rate": "producerByteRate",
    "consumer_byte_rate": "consumerByteRate",
    "request_percentage": "requestPercentage",
    "controller_mutation_rate": "controllerMutationRate",
}
_PRINCIPAL = "User:"
_CERTIFICATE = "CN="


class EmittedResources(EmittedCluster):
    """Writes resources and comments."""

    def _head(self, origin: ClusterOrigin) -> list[str]:
        return [
            "Resources of Strimzi that make the topics and users of a lost cluster again.",
            self._state(origin),
            *self._second_way("are made of these", "new volumes"),
            f"Write the name of your Kafka resource for {_CLUSTER}. Strimzi before 0.49 wants v1beta2 for v1.",
            "Brokers are chosen anew; Kafka's own topics are made by brokers. Nothing here is a secret.",
        ]

    def _cluster(self, origin: ClusterOrigin) -> None:
        settings = self._settings()
        topics, _ = self._topics(settings, TOPIC_CONFIG)
        if not self._topics_only:
            self._of_kafka(origin)
        taken: set[str] = {one.name for one in topics if _LEGAL.fullmatch(one.name)}
        for topic in topics:
            self._topic(topic, taken)
        if not self._topics_only:
            self._users()

    # --- the Kafka resource -----------------------------------------------------------------------------------
    def _of_kafka(self, origin: ClusterOrigin) -> None:
        """Say what belongs into the Kafka resource."""
        self._title("for the Kafka resource")
        self._comments(*self._other_clusters(origin))
        cluster = self._cluster_id(origin)
        self._comments(f"status.clusterId was {cluster}" if cluster else f"status.clusterId: {NO_CLUSTER_ID}")
        for name, level in self._levels().items():
            release = release_of({"name": name, "featureLevel": level})
            self._comments(
                f"spec.kafka.metadataVersion: {release}" if release else f"feature {name} was at level {level}"
            )
        if METADATA_VERSION not in self._levels():
            self._comments("spec.kafka.metadataVersion: its level is not known")
        for one in self._rows.get("config", []):
            if one["resourceType"] != TOPIC_CONFIG:
                value = "a secret, which is not shown here" if one["value"] is None else one["value"]
                self._comments(f"configuration: {config_name(one)}={value}")
        self._comments(*self._tokens())

    # --- topics -----------------------------------------------------------------------------------------------
    def _topic(self, topic: TopicAgain, taken: set[str]) -> None:
        if not topic.factor:
            self._comments(f"topic {topic.name}: its partitions are not known")
            return
        if topic.lacks:
            self._comments(f"topic {topic.name}: nothing is known of partition {', '.join(map(str, topic.lacks))}")
        for number, replicas in sorted(topic.odd.items()):
            self._comments(
                f"topic {topic.name}: partition {number} had {len(replicas)} replicas, others {topic.factor}"
            )
        name = topic.name if _LEGAL.fullmatch(topic.name) else _legal(topic.name, taken)
        taken.add(name)
        spec: dict[str, Node] = {} if name == topic.name else {"topicName": topic.name}
        spec.update(partitions=topic.partitions, replicas=topic.factor)
        spec["config"] = {key: value for key, value in topic.settings if value is not None}
        for key in [key for key, value in topic.settings if value is None]:
            self._comments(f"topic {topic.name}: {key} is a secret, which is not shown here: fill it in")
        self._resource("KafkaTopic", name, spec)

    def _resource(self, kind: str, name: str, spec: dict[str, Node]) -> None:
        labels: dict[str, Node] = {"strimzi.io/cluster": _CLUSTER}
        metadata: dict[str, Node] = {"name": name, "labels": labels}
        self._write(document({"apiVersion": _VERSION, "kind": kind, "metadata": metadata, "spec": spec}))

    # --- users ------------------------------------------------------------------------------------------------
    def _users(self) -> None:
        """Write users with their ACLs and quotas; say which are none of a KafkaUser."""
        users: dict[str, dict[str, Any]] = {}
        unsaid: list[str] = []
        for one in self._rows.get("scram", []):
            if one["mechanism"] == _SHA_512 and _LEGAL.fullmatch(one["name"]):
                users[one["name"]] = {"authentication": {"type": "scram-sha-512"}}
            else:
                unsaid.append(f"user {one['name']} with {mechanism_name(one['mechanism'])}")
        for rule in self._rules():
            user, acl = _user_of(rule.principal), _acl(rule)
            if user is None or acl is None:
                what = f"{rule.resource} {rule.name}"
                does = ", ".join(map(operation_word, rule.operations))
                permission = ACL_PERMISSIONS.get(rule.permission, str(rule.permission))
                unsaid.append(f"ACL: {permission} {rule.principal} from {rule.host} {does} on resource {what}")
                continue
            spec = _spec(users, user)
            spec.setdefault("authorization", {"type": "simple", "acls": []})["acls"].append(acl)
        for entity, keys in self._quotas():
            kind, its_name = entity[0] if len(entity) == 1 else ("", None)
            user = _user_of(f"{_PRINCIPAL}{its_name}") if kind == "user" and its_name is not None else None
            for key, value in keys.items():
                field = _QUOTAS.get(key)
                if user is None or field is None or not value.isdigit():
                    whose = entity_name([{"entityType": kind, "entityName": name} for kind, name in entity])
                    unsaid.append(f"quota of {whose or DEFAULT}: {key}={value}")
                else:
                    _spec(users, user).setdefault("quotas", {})[field] = int(value)
        if unsaid:
            self._title("users that no KafkaUser can say: kdump cluster --emit commands has the commands")
            self._comments(*unsaid)
        for name in sorted(users):
            self._resource("KafkaUser", name, users[name])


def _spec(users: dict[str, dict[str, Any]], user: tuple[str, bool]) -> dict[str, Any]:
    """The spec of a user, a new one where there is none."""
    name, has_certificate = user
    return users.setdefault(name, {"authentication": {"type": "tls-external"}} if has_certificate else {})


def _user_of(principal: str) -> tuple[str, bool] | None:
    """The name of a KafkaUser, and whether a certificate says who it is; None where there can be none."""
    name = principal.removeprefix(_PRINCIPAL)
    has_certificate = name.startswith(_CERTIFICATE)
    name = name.removeprefix(_CERTIFICATE)
    return (name, has_certificate) if principal.startswith(_PRINCIPAL) and _LEGAL.fullmatch(name) else None


def _acl(rule: AclRule) -> dict[str, Node] | None:
    """An ACL of a KafkaUser; None where it has no such one."""
    kind = _RESOURCES.get(ACL_RESOURCES.get(rule.resource, ""))
    how = _PATTERNS.get(ACL_PATTERNS.get(rule.pattern, ""))
    permission = ACL_PERMISSIONS.get(rule.permission)
    operations: list[Node] = [*map(operation_word, rule.operations)]
    if kind is None or how is None or permission is None or not _OPERATIONS.issuperset(map(str, operations)):
        return None
    resource: dict[str, Node] = {"type": kind}
    if kind != "cluster":
        resource.update(name=rule.name, patternType=how)
    return {"type": permission, "resource": resource, "host": rule.host, "operations": operations}


def _legal(name: str, taken: Container[str]) -> str:
    """A name that Kubernetes takes, with a hash of what it stands for."""
    words = _NOT_LEGAL.sub("-", name.lower())[:_MOST_OF_NAME].strip("-") or "topic"
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return next(made for size in range(_DIGITS, len(digest) + 1) if (made := f"{words}-{digest[:size]}") not in taken)
