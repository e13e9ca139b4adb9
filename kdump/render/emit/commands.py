"""A cluster as the commands of Kafka's own tools that make it again, in the order to run.

What stands in a command is a word of it, whatever it holds; values that a tool would take apart go in as lines of a
properties file. What no command can say is a comment.

Source: StorageTool, TopicCommand, ConfigCommand.parseConfigsToBeAdded, AclCommand, ReassignPartitionsCommand.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kdump.render.emit.cluster import NO_CLUSTER_ID, NO_ID, EmittedCluster, operation_word
from kdump.render.text.cluster import ACL_PATTERNS, ACL_PERMISSIONS, ACL_RESOURCES, end_points, release_of
from kdump.rows.coordinators import DEFAULT, config_type, mechanism_name
from kdump.state.metadata_image import BROKER_CONFIG, KRAFT_VERSION, METADATA_VERSION, TOPIC_CONFIG
from kdump.storage.names import OFFSETS_TOPIC, REMOTE_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC
from kdump.value import pattern
from kdump.words.command import ShellCommand, ShellVariable, fed
from kdump.words.java_properties import property_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kdump.render.emit.cluster import AclRule, Fields, Settings, TopicAgain
    from kdump.rows.coordinators import ClusterOrigin

_BOOTSTRAP, _CLIENT = ShellVariable("BOOTSTRAP"), ShellVariable("COMMAND_CONFIG")
_ENTITIES = {"topic": "topics", "broker": "brokers", "client-metrics": "client-metrics", "group": "groups"}
_QUOTA_ENTITIES = {"user": "users", "client-id": "clients", "ip": "ips"}
_ACL_PLACES = {
    "topic": "--topic",
    "group": "--group",
    "transactional-id": "--transactional-id",
    "delegation-token": "--delegation-token",
    "user": "--user-principal",
}
_CLUSTER_RESOURCE = "kafka-cluster"
_OWN = {
    OFFSETS_TOPIC: "offsets.topic.",
    TRANSACTIONS_TOPIC: "transaction.state.log.",
    SHARE_TOPIC: "share.coordinator.state.topic.",
    REMOTE_TOPIC: "rlmm.config.remote.log.metadata.topic.",
}
"""What begins the broker configurations that say how Kafka's own topics are made."""
_FEATURES_SINCE = 22  # metadata.version 4.0-IV0: other features than those two have levels of their own
_MOST_IN_WORD = 100_000  # bytes: Linux passes no word over 128 KiB to a program
_IN_LIST = pattern(r"[^\s,=\[\]\0](?:[^,=\[\]\0]*[^\s,=\[\]\0])?|")  # what --add-config leaves as it is
_IN_PAIR = pattern(r"[^\s=\0](?:[^=\0]*[^\s=\0])?")  # what --config leaves as it is
_SETTING = pattern(r"[\w.-]+")
_TRIMMED = "".join(map(chr, range(0x21)))  # String.trim


class EmittedCommands(EmittedCluster):
    """Writes commands and comments."""

    def _head(self, origin: ClusterOrigin) -> list[str]:
        return [
            "Commands of Kafka's own tools that make a new cluster like one that is lost, in the order to run.",
            self._state(origin),
            *self._second_way("these commands make", "empty log.dirs"),
            "Nothing here is a secret: passwords are lines to fill in. What is not known, or cannot be said to a",
            "tool, is a comment.",
        ]

    def _cluster(self, origin: ClusterOrigin) -> None:
        settings = self._settings()
        topics, own = self._topics(settings, TOPIC_CONFIG)
        if not self._topics_only:
            self._title(
                "1. On the host of each node, with empty log.dirs; node-N.properties is the configuration of node N"
            )
            self._format(origin, own)
        self._title("2. With all nodes started, from one host: BOOTSTRAP=HOST:PORT bash FILE, without part 1")
        self._comments(
            "COMMAND_CONFIG is a file with the properties of a client, where brokers ask for TLS or a password."
        )
        self._write("set -eu\nBOOTSTRAP=${BOOTSTRAP:-HOST:PORT}\nCOMMAND_CONFIG=${COMMAND_CONFIG:-/dev/null}\n")
        self._of_kind(settings, BROKER_CONFIG)
        if topics:
            self._title("topics")
        for one in topics:
            self._topic(one)
        if own:
            self._own_topics(own)
        for kind in sorted({resource for resource, _ in settings}):
            self._of_kind(settings, kind)
        if not self._topics_only:
            self._users()
            self._access()
            self._not_again()

    # --- lines ------------------------------------------------------------------------------------------------
    def _run(self, command: str, *, why_not: str = "") -> None:
        """Write a command, as a comment where it cannot be run as it is, with the reason before it."""
        if why_not:
            self._comments(why_not)
            self._write(f"# {command}\n")
        else:
            self._write(f"{command}\n")

    def _tool(self, program: str, *words: str) -> ShellCommand | None:
        """Return a command that asks a broker; None, with a comment, for a word that no program can be given."""
        all_words = (program, "--bootstrap-server", _BOOTSTRAP, "--command-config", _CLIENT, *words)
        if any("\0" in one for one in words):
            self._comments(f"cannot be said to {program}, for a zero byte: {' '.join(words)}")
            return None
        return ShellCommand(*all_words)

    def _alter(self, entity: tuple[str, ...], settings: Settings) -> None:
        """Write the commands that set configurations.

        Args:
            entity: words that say of what.
            settings: names and values.
        """
        known = [(name, value) for name, value in settings if value is not None]
        command = self._tool("kafka-configs.sh", "--alter", *entity)
        if command is None:
            return
        listed = ",".join([f"{name}={value}" for name, value in known])
        is_plain = all(_SETTING.fullmatch(name) and _IN_LIST.fullmatch(value) for name, value in known)
        if known and is_plain and len(listed) < _MOST_IN_WORD:
            self._run(command.plus("--add-config", listed))
        elif known:
            lines = [property_line(name, value) for name, value in known]
            self._run(fed(command.plus("--add-config-file", "/dev/stdin"), lines))
        for name in [name for name, value in settings if value is None]:
            why = "a secret, which is not shown here: fill it in"
            if "\0" in name:
                self._comments(f"{why}: {name}")
            else:
                self._run(command.plus("--add-config", f"{name}=SECRET"), why_not=why)

    # --- nodes ------------------------------------------------------------------------------------------------
    def _format(self, origin: ClusterOrigin, own: list[TopicAgain]) -> None:
        """Write the commands that format the log directories of each node."""
        cluster = self._cluster_id(origin)
        self._comments(*self._other_clusters(origin))
        brokers = {one["brokerId"]: one for one in self._rows.get("broker", [])}
        controllers = {one["controllerId"]: one for one in self._rows.get("controller", [])}
        voters = {one["voterId"]: one for one in origin.voters}
        here: dict[int, list[str]] = {}
        for one in origin.directories:
            if one.node is not None and one.cluster in (None, cluster):
                here.setdefault(one.node, []).append(f"{one.directory or 'no directory.id'} ({one.path})")
        self._comments(*_own_counts(own))
        quorum = _quorum(voters)
        if not voters:
            self._comments(
                "Voters are not in this metadata log: the configurations have controller.quorum.voters; where they",
                "do not, controllers need --standalone or --initial-controllers, and others --no-initial-controllers.",
            )
        elif quorum is None:
            self._comments("Add --initial-controllers: the address or directory.id of a voter is not known.")
        self._comments(
            "directory.id: format keeps those of --initial-controllers; all others are new, and nothing needs the old."
        )
        levels = list(self._feature_words(brokers, controllers))
        nodes = sorted({*brokers, *controllers, *voters, *here})
        if not nodes:
            self._comments("No node is known: no broker and no controller is registered.")
        for node in nodes:
            broker, controller = brokers.get(node), controllers.get(node)
            is_controller = controller is not None or node in voters
            self._comments("", *_node(node, broker, controller, is_controller=is_controller))
            registered = (broker or {}).get("logDirs") or []
            others = [one for one in registered if not any(one in known for known in here.get(node, []))]
            if here.get(node) or others:
                self._comments(f"  directory.id of its log.dirs: {', '.join([*here.get(node, []), *others])}")
            words = ["format", "--config", f"node-{node}.properties", "--cluster-id", cluster or "CLUSTER_ID", *levels]
            if quorum is not None:
                words += ["--initial-controllers", quorum] if node in voters else ["--no-initial-controllers"]
            why = "" if cluster else f"{NO_CLUSTER_ID}: name one too, or take a new one of kafka-storage.sh random-uuid"
            self._run(ShellCommand("kafka-storage.sh", *words), why_not=why)

    def _feature_words(self, *nodes: dict[int, Fields]) -> Iterator[str]:
        """Yield the options that set the levels of features; say which no option sets."""
        levels = self._levels()
        level = levels.pop(METADATA_VERSION, None)
        if level is None:
            self._comments("The level of metadata.version is not known: format takes that of its own release.")
        else:
            release = release_of({"name": METADATA_VERSION, "featureLevel": level})
            if release:
                yield from ("--release-version", release)
            else:
                self._comments(f"metadata.version is {level}, whose name is not known: add --release-version.")
        supported = {one["name"] for some in nodes for node in some.values() for one in node.get("features") or ()}
        if level is not None and level >= _FEATURES_SINCE:
            levels = {**dict.fromkeys(supported - {METADATA_VERSION}, 0), **levels}
        levels.pop(KRAFT_VERSION, None)  # follows from the voters
        for name in sorted(levels):
            if "\0" in name:
                self._comments(f"no option can name the feature {name}, which was at level {levels[name]}")
            else:
                yield from ("--feature", f"{name}={levels[name]}")

    # --- topics -----------------------------------------------------------------------------------------------
    def _topic(self, topic: TopicAgain) -> None:
        """Write the commands that make a topic with its configurations."""
        if not topic.factor:
            self._comments(f"topic {topic.name}: its partitions are not known")
            return
        assignment = ",".join(
            [":".join(map(str, topic.replicas.get(number, ()))) for number in range(topic.partitions)]
        )
        if topic.lacks:
            lost = ", ".join(map(str, topic.lacks))
            self._comments(f"topic {topic.name}: the replicas of partition {lost} are not known: brokers choose all")
        if topic.lacks or len(assignment) > _MOST_IN_WORD:
            how = ["--partitions", str(topic.partitions), "--replication-factor", str(topic.factor)]
        elif topic.odd:  # one command gives all partitions the same number
            least = min(map(len, topic.replicas.values()))
            first = [":".join(map(str, topic.replicas[number][:least])) for number in range(topic.partitions)]
            how = ["--replica-assignment", ",".join(first)]
        else:
            how = ["--replica-assignment", assignment]
        plain = [
            (name, value)
            for name, value in topic.settings
            if value is not None and _SETTING.fullmatch(name) and _IN_PAIR.fullmatch(value)
        ]
        for name, value in plain:
            how += ["--config", f"{name}={value}"]
        command = self._tool("kafka-topics.sh", "--create", "--if-not-exists", "--topic", topic.name, *how)
        if command is None:
            return
        self._run(command)
        is_moved = not topic.lacks and (topic.odd or len(assignment) > _MOST_IN_WORD)
        if is_moved:
            move = self._tool("kafka-reassign-partitions.sh", "--execute", "--reassignment-json-file", "/dev/stdin")
            if move is not None:
                self._run(fed(move, [_reassignment(topic)]))
        rest = [one for one in topic.settings if one not in plain]
        if rest:
            self._alter(("--entity-type", "topics", "--entity-name", topic.name), rest)

    def _own_topics(self, own: list[TopicAgain]) -> None:
        """Say what Kafka's own topics had."""
        self._title("Kafka's own topics: brokers make them when they are first needed; part 1 says how")
        for topic in own:
            if topic.settings:
                self._comments(f"{topic.name}: once it is there, for what was set:")
                command = self._tool(
                    "kafka-configs.sh", "--alter", "--entity-type", "topics", "--entity-name", topic.name
                )
                assert command is not None
                lines = [property_line(name, value) for name, value in topic.settings if value is not None]
                for line in fed(command.plus("--add-config-file", "/dev/stdin"), lines).split("\n"):
                    self._write(f"# {line}\n")

    # --- configurations ---------------------------------------------------------------------------------------
    def _of_kind(self, settings: dict[tuple[int, str], Settings], kind: int) -> None:
        """Write the configurations of one type of resources; they are taken out of all."""
        keys = [key for key in settings if key[0] == kind]
        entity = _ENTITIES.get(config_type(kind))
        if keys:
            self._title(f"configurations: {config_type(kind)}")
        if keys and kind == BROKER_CONFIG:
            self._comments("Each broker takes its own: it has to run.")
        for key in keys:
            resource, its = key[1], settings.pop(key)
            if entity is None or kind == TOPIC_CONFIG:
                why = "there is no such topic" if kind == TOPIC_CONFIG else "no option names such a resource"
                for name, value in its:
                    self._comments(
                        f"{why}: {config_type(kind)} {resource}: {name}={'SECRET' if value is None else value}"
                    )
            else:
                whose = ("--entity-name", resource) if resource else ("--entity-default",)
                self._alter(("--entity-type", entity, *whose), its)

    # --- users ------------------------------------------------------------------------------------------------
    def _users(self) -> None:
        """Write quotas, and users as lines to fill in."""
        users = self._rows.get("scram", [])
        if users:
            self._title("users: fill in the passwords")
        for one in users:
            given = f"{mechanism_name(one['mechanism'])}=[iterations={one['iterations']},password=PASSWORD]"
            entity = "--entity-type", "users", "--entity-name", one["name"]
            command = self._tool("kafka-configs.sh", "--alter", *entity, "--add-config", given)
            if command is not None:
                self._run(command, why_not="its password is a secret, which is not shown here")
        quotas = self._quotas()
        if quotas:
            self._title("quotas")
        for parts, keys in quotas:
            unknown = [kind for kind, _ in parts if kind not in _QUOTA_ENTITIES]
            words: list[str] = []
            for kind, name in parts:
                words += ["--entity-type", _QUOTA_ENTITIES.get(kind, kind)]
                words += ["--entity-default"] if name is None else ["--entity-name", name]
            if unknown:
                told = ", ".join([f"{kind} {DEFAULT if name is None else name}" for kind, name in parts])
                self._comments(
                    *[f"no option names this: quota of {told}: {key}={value}" for key, value in keys.items()]
                )
            else:
                self._alter(tuple(words), [*keys.items()])

    def _access(self) -> None:
        """Write the ACLs."""
        rules = self._rules()
        if rules:
            self._title("ACLs: brokers need an authorizer.class.name")
        for rule in rules:
            words = _acl_words(rule)
            if words is None:
                what = f"{rule.resource} {rule.name} for {rule.principal} from {rule.host}"
                self._comments(f"cannot be said to kafka-acls.sh: an ACL of resource {what}")
                continue
            command = self._tool("kafka-acls.sh", "--add", *words)
            if command is not None:
                self._run(command)

    def _not_again(self) -> None:
        """Say what cannot be made again."""
        told = self._tokens()
        told += [
            f"producer ids begin with 0 again; the next one was {one['nextProducerId']}"
            for one in self._rows.get("producerIds", [])
        ]
        if told:
            self._title("what no command makes again")
        self._comments(*told)


def _node(node: int, broker: Fields | None, controller: Fields | None, *, is_controller: bool) -> Iterator[str]:
    """Yield what its configuration has to have."""
    roles = [name for name, has in (("broker", broker is not None), ("controller", is_controller)) if has]
    known = f"process.roles={','.join(roles)}" if roles else "in no role that is known"
    yield f"node {node}: node.id={node}, {known}"
    for one in (broker, controller):
        if one is not None and one["endPoints"]:
            yield f"  its listeners were {end_points(one).replace(',', ', ')}"
    if broker is not None and broker.get("rack"):
        yield f"  broker.rack={broker['rack']}"


def _quorum(voters: dict[int, Fields]) -> str | None:
    """The value of --initial-controllers; None where something of a voter is not known."""
    found = []
    for node in sorted(voters):
        voter = voters[node]
        if not voter["endpoints"] or voter["voterDirectoryId"] == NO_ID:
            return None
        host, port = voter["endpoints"][0]["host"], voter["endpoints"][0]["port"]
        found.append(f"{node}@{f'[{host}]' if ':' in host else host}:{port}:{voter['voterDirectoryId']}")
    listed = ",".join(found)
    return listed if listed and "\0" not in listed else None


def _own_counts(own: Iterable[TopicAgain]) -> Iterator[str]:
    """Yield the broker configurations by which Kafka's own topics are made as they were."""
    told = [(_OWN[topic.name], topic) for topic in own if topic.name in _OWN and topic.factor]
    if told:
        yield "Brokers make Kafka's own topics; for as many partitions as they had, each broker's configuration needs:"
    for begin, topic in told:
        yield f"  {begin}num.partitions={topic.partitions}"
        yield f"  {begin}replication.factor={topic.factor}"


def _reassignment(topic: TopicAgain) -> str:
    """The replicas of all partitions as kafka-reassign-partitions.sh reads them."""
    moved = [
        {"topic": topic.name, "partition": number, "replicas": list(replicas)}
        for number, replicas in sorted(topic.replicas.items())
    ]
    return json.dumps({"version": 1, "partitions": moved})


def _acl_words(rule: AclRule) -> list[str] | None:
    """The options for ACLs; None where there are none, or the tool would change a name."""
    kind, pattern_type = ACL_RESOURCES.get(rule.resource), ACL_PATTERNS.get(rule.pattern)
    permission = ACL_PERMISSIONS.get(rule.permission)
    names = (rule.principal, rule.host, rule.name)
    if kind is None or permission is None or pattern_type not in ("literal", "prefixed"):
        return None
    if any(name.strip(_TRIMMED) != name or not name for name in names):
        return None
    if kind == "cluster":
        if (rule.name, pattern_type) != (_CLUSTER_RESOURCE, "literal"):
            return None
        place = ["--cluster"]
    else:
        place = [_ACL_PLACES[kind], rule.name]
    words = [f"--{permission}-principal", rule.principal, f"--{permission}-host", rule.host]
    for number in rule.operations:
        word = operation_word(number)
        if word.isdigit():
            return None
        words += ["--operation", word]
    return [*words, *place, *(["--resource-pattern-type", pattern_type] if pattern_type == "prefixed" else [])]
