"""The rows of the metadata log in words: one fact a line, or the cells of tables. Kafka's numbers have their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kdump.decode.table import newest, table
from kdump.rows.coordinators import DEFAULT, config_type, entity_name, mechanism_name
from kdump.words.escape import escape
from kdump.words.times import iso

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kdump.rows.coordinators import ClusterRow

    Fields = dict[str, Any]

HIDDEN = "hidden"  # a secret
_SPECIAL = ' "='
_PROTOCOLS = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}
_ACL_RESOURCES = {2: "topic", 3: "group", 4: "cluster", 5: "transactional-id", 6: "delegation-token", 7: "user"}
_PATTERNS = {1: "any", 2: "match", 3: "literal", 4: "prefixed"}
_PERMISSIONS = {2: "deny", 3: "allow"}
_OPERATIONS = [
    "unknown",
    "any",
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster-action",
    "describe-configs",
    "alter-configs",
    "idempotent-write",
    "create-tokens",
    "describe-tokens",
    "two-phase-commit",
]
_IDS = {"A" * 22: "migrating", "A" * 21 + "Q": "unassigned", "A" * 21 + "g": "lost"}


def shown(text: str) -> str:
    """Return a name as one word: in double quotes where it is empty, or has blanks or quotes."""
    if text and not any(char in text for char in _SPECIAL):
        return escape(text)
    inner = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escape(inner)}"'


def cluster_line(row: ClusterRow) -> str:
    """Return the line of a row."""
    return f"{row.kind} {_LINES[row.kind](row.fields)}"


def cluster_tables(rows: Iterable[ClusterRow]) -> Iterator[tuple[tuple[str, ...], list[tuple[str, ...]]]]:
    """Yield tables: names of columns, and cells; a kind of rows has one table."""
    by_kind: dict[str, list[Fields]] = {}
    for row in rows:
        by_kind.setdefault(row.kind, []).append(row.fields)
    for kind, fields in by_kind.items():
        names, cells = _TABLES[kind]
        yield names, [cells(one) for one in fields]


def _named(names: dict[int, str], number: int) -> str:
    return names.get(number, str(number))


def _operation(number: int) -> str:
    return _OPERATIONS[number] if 0 <= number < len(_OPERATIONS) else str(number)


def _numbers(values: Iterable[int] | None) -> str:
    return ",".join(map(str, values or ())) or "none"


def _directories(values: Iterable[str] | None) -> str:
    return ",".join(_IDS.get(one, one) for one in values or ()) or "none"


def _end_points(fields: Fields) -> str:
    points = fields["endPoints"]
    return (
        ",".join(
            f"{one['name']}={_named(_PROTOCOLS, one['securityProtocol'])}://{one['host']}:{one['port']}"
            for one in points
        )
        or "none"
    )


def _features(fields: Fields) -> str:
    found = (f"{one['name']}={one['minSupportedVersion']}..{one['maxSupportedVersion']}" for one in fields["features"])
    return ",".join(found) or "none"


def _word(value: bool) -> str:
    return str(value).lower()


def _level(fields: Fields) -> str:
    """The release that a level of metadata.version is of."""
    if fields["name"] != "metadata.version":
        return ""
    levels: dict[str, str] = table(newest()).feature("metadata.version")
    return levels.get(str(fields["featureLevel"]), "")


def _value(fields: Fields) -> str:
    return HIDDEN if fields["value"] is None else str(fields["value"])


def _number(value: float | str) -> str:
    """A double as people write it: whole ones without a fraction."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() and abs(value) < 1e18 else str(value)


def _state(fields: Fields) -> str:
    """What a broker does, for people."""
    if fields["inControlledShutdown"]:
        return "shutting down"
    return "fenced" if fields["fenced"] else "active"


def _notes(fields: Fields) -> str:
    """What is unusual about a partition."""
    found = []
    if fields["leader"] < 0:
        found.append("no leader")
    elif fields["replicas"] and fields["leader"] != fields["replicas"][0]:
        found.append("not the preferred leader")
    lacking = [one for one in fields["replicas"] if one not in fields["isr"]]
    if lacking:
        found.append(f"out of sync: {_numbers(lacking)}")
    for name, what in (
        ("addingReplicas", "adding"),
        ("removingReplicas", "removing"),
        ("eligibleLeaderReplicas", "ELR"),
        ("lastKnownElr", "last known ELR"),
    ):
        if fields.get(name):
            found.append(f"{what}: {_numbers(fields[name])}")
    if fields.get("leaderRecoveryState"):
        found.append("recovers after an unclean election")
    return ", ".join(found)


# --- lines ----------------------------------------------------------------------------------------------------
def _broker(fields: Fields) -> str:
    rack = "none" if fields["rack"] is None else shown(fields["rack"])
    cordoned = fields.get("cordonedLogDirs")
    end = "" if cordoned is None else f" cordonedLogDirs={_directories(cordoned)}"
    return (
        f"{fields['brokerId']} fenced={_word(fields['fenced'])} "
        f"inControlledShutdown={_word(fields['inControlledShutdown'])} epoch={fields['brokerEpoch']} rack={rack} "
        f"logDirs={_directories(fields.get('logDirs'))} endPoints={escape(_end_points(fields))} "
        f"incarnationId={fields['incarnationId']} features={escape(_features(fields))}{end}"
    )


def _controller(fields: Fields) -> str:
    return (
        f"{fields['controllerId']} endPoints={escape(_end_points(fields))} incarnationId={fields['incarnationId']} "
        f"features={escape(_features(fields))}"
    )


def _partition(fields: Fields) -> str:
    more = [
        f" {name}={_numbers(fields[name])}"
        for name in ("addingReplicas", "removingReplicas", "eligibleLeaderReplicas", "lastKnownElr")
        if fields.get(name)
    ]
    if fields.get("leaderRecoveryState"):
        more.append(f" leaderRecoveryState={fields['leaderRecoveryState']}")
    return (
        f"{shown(fields['topic'])}-{fields['partitionId']} leader={fields['leader']} "
        f"leaderEpoch={fields['leaderEpoch']} replicas={_numbers(fields['replicas'])} isr={_numbers(fields['isr'])}"
        f"{''.join(more)} partitionEpoch={fields['partitionEpoch']} "
        f"directories={_directories(fields.get('directories'))}"
    )


def _config(fields: Fields) -> str:
    resource = fields["resourceName"]
    whose = "default" if not resource else shown(resource)
    value = HIDDEN if fields["value"] is None else shown(fields["value"])
    return f"{config_type(fields['resourceType'])} {whose} {escape(fields['name'])}={value}"


def _feature(fields: Fields) -> str:
    level = _level(fields)
    return f"{escape(fields['name'])}={fields['featureLevel']}" + (f" ({level})" if level else "")


def _acl(fields: Fields) -> str:
    return (
        f"{_named(_PERMISSIONS, fields['permissionType'])} {shown(fields['principal'])} "
        f"operation={_operation(fields['operation'])} "
        f"{_named(_ACL_RESOURCES, fields['resourceType'])}={shown(fields['resourceName'])} "
        f"pattern={_named(_PATTERNS, fields['patternType'])} host={shown(fields['host'])} id={fields['id']}"
    )


def _quota(fields: Fields) -> str:
    return f"{escape(entity_name(fields['entity']))} {escape(fields['key'])}={_number(fields['value'])}"


def _scram(fields: Fields) -> str:
    mechanism = mechanism_name(fields["mechanism"])
    return f"{shown(fields['name'])} mechanism={mechanism} iterations={fields['iterations']}"


def _token(fields: Fields) -> str:
    return (
        f"{shown(fields['tokenId'])} owner={shown(fields['owner'])} requester={shown(fields['requester'])} "
        f"renewers={','.join(map(shown, fields['renewers'])) or 'none'} issued={iso(fields['issueTimestamp'])} "
        f"max={iso(fields['maxTimestamp'])} expires={iso(fields['expirationTimestamp'])}"
    )


_LINES: dict[str, Callable[[Fields], str]] = {
    "broker": _broker,
    "controller": _controller,
    "topic": lambda fields: f"{shown(fields['name'])} topicId={fields['topicId']}",
    "partition": _partition,
    "config": _config,
    "feature": _feature,
    "quota": lambda fields: (
        f"{escape(entity_name(fields['entity']))} {escape(fields['key'])}={_number(fields['value'])}"
    ),
    "acl": _acl,
    "scram": _scram,
    "token": _token,
    "producerIds": lambda fields: f"next={fields['nextProducerId']}",
}

# --- tables ---------------------------------------------------------------------------------------------------
_TABLES: dict[str, tuple[tuple[str, ...], Callable[[Fields], tuple[str, ...]]]] = {
    "broker": (
        ("broker", "state", "rack", "listeners", "log directories"),
        lambda one: (
            str(one["brokerId"]),
            _state(one),
            one["rack"] or "",
            _end_points(one).replace(",", "\n"),
            _directories(one.get("logDirs")).replace(",", "\n"),
        ),
    ),
    "controller": (
        ("controller", "listeners", "incarnation"),
        lambda one: (str(one["controllerId"]), _end_points(one).replace(",", "\n"), one["incarnationId"]),
    ),
    "topic": (("topic", "id"), lambda one: (one["name"], one["topicId"])),
    "partition": (
        ("partition", "leader", "epoch", "replicas", "in sync", ""),
        lambda one: (
            f"{one['topic']}-{one['partitionId']}",
            _numbers([one["leader"]] if one["leader"] >= 0 else None),
            str(one["leaderEpoch"]),
            _numbers(one["replicas"]),
            _numbers(one["isr"]),
            _notes(one),
        ),
    ),
    "config": (
        ("config of", "name", "value"),
        lambda one: (
            f"{config_type(one['resourceType'])} {one['resourceName'] or DEFAULT}",
            one["name"],
            _value(one),
        ),
    ),
    "feature": (("feature", "level", ""), lambda one: (one["name"], str(one["featureLevel"]), _level(one))),
    "quota": (
        ("quota of", "name", "value"),
        lambda one: (entity_name(one["entity"]), one["key"], _number(one["value"])),
    ),
    "acl": (
        ("acl", "principal", "operation", "resource", "pattern", "host"),
        lambda one: (
            _named(_PERMISSIONS, one["permissionType"]),
            one["principal"],
            _operation(one["operation"]),
            f"{_named(_ACL_RESOURCES, one['resourceType'])} {one['resourceName']}",
            _named(_PATTERNS, one["patternType"]),
            one["host"],
        ),
    ),
    "scram": (
        ("scram user", "mechanism", "iterations"),
        lambda one: (one["name"], mechanism_name(one["mechanism"]), f"{one['iterations']:,}"),
    ),
    "token": (
        ("token", "owner", "requester", "expires", "at most until"),
        lambda one: (
            one["tokenId"],
            one["owner"],
            one["requester"],
            iso(one["expirationTimestamp"]),
            iso(one["maxTimestamp"]),
        ),
    ),
    "producerIds": (("next producer id",), lambda one: (str(one["nextProducerId"]),)),
}
