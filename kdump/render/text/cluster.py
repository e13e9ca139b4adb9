"""The rows of the metadata log as the cells of tables. Kafka's numbers have their names."""

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
ACL_RESOURCES = {2: "topic", 3: "group", 4: "cluster", 5: "transactional-id", 6: "delegation-token", 7: "user"}
ACL_PATTERNS = {1: "any", 2: "match", 3: "literal", 4: "prefixed"}
ACL_PERMISSIONS = {2: "deny", 3: "allow"}
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


LEAST_NEEDED = ("rack", "pattern", "incarnation", "requester", "at most until", "epoch", "log directories", "host")
"""Columns that are left out where there is no room, in this order; the others say what the row is about."""


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


def acl_operation(number: int) -> str:
    """Return the name of what an ACL allows or denies, by its number. Source: AclOperation."""
    return _OPERATIONS[number] if 0 <= number < len(_OPERATIONS) else str(number)


def _numbers(values: Iterable[int] | None) -> str:
    return ",".join(map(str, values or ())) or "none"


def _directories(values: Iterable[str] | None) -> str:
    return ",".join(_IDS.get(one, one) for one in values or ()) or "none"


def end_points(fields: Fields) -> str:
    """Return the listeners of a broker or a controller."""
    points = fields["endPoints"]
    return (
        ",".join(
            f"{one['name']}={_named(_PROTOCOLS, one['securityProtocol'])}://{one['host']}:{one['port']}"
            for one in points
        )
        or "none"
    )


def release_of(fields: Fields) -> str:
    """Return the release that a level of metadata.version is of; empty for one that is not known, or no such level."""
    if fields["name"] != "metadata.version":
        return ""
    levels: dict[str, str] = table(newest()).feature("metadata.version")
    return levels.get(str(fields["featureLevel"]), "")


def _readers(fields: Fields) -> str:
    """The release of a level, and which can read the metadata log with it."""
    release, oldest = release_of(fields), fields.get("oldestRelease")
    return f"{release}: nodes older than Kafka {oldest} end when they load it" if oldest else release


def _value(fields: Fields) -> str:
    return HIDDEN if fields["value"] is None else str(fields["value"])


def number_text(value: float | str) -> str:
    """Return a double as people write it: whole ones without a fraction."""
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


# --- tables ---------------------------------------------------------------------------------------------------
_TABLES: dict[str, tuple[tuple[str, ...], Callable[[Fields], tuple[str, ...]]]] = {
    "broker": (
        ("broker", "state", "rack", "listeners", "log directories"),
        lambda one: (
            str(one["brokerId"]),
            _state(one),
            one["rack"] or "",
            end_points(one).replace(",", ", "),
            _directories(one.get("logDirs")).replace(",", ", "),
        ),
    ),
    "controller": (
        ("controller", "listeners", "incarnation"),
        lambda one: (str(one["controllerId"]), end_points(one).replace(",", ", "), one["incarnationId"]),
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
    "feature": (("feature", "level", ""), lambda one: (one["name"], str(one["featureLevel"]), _readers(one))),
    "quota": (
        ("quota of", "name", "value"),
        lambda one: (entity_name(one["entity"]), one["key"], number_text(one["value"])),
    ),
    "acl": (
        ("acl", "principal", "operation", "resource", "pattern", "host"),
        lambda one: (
            _named(ACL_PERMISSIONS, one["permissionType"]),
            one["principal"],
            acl_operation(one["operation"]),
            f"{_named(ACL_RESOURCES, one['resourceType'])} {one['resourceName']}",
            _named(ACL_PATTERNS, one["patternType"]),
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
