"""Requests that would change something: each is answered, and refused, in the words of Kafka's authorizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

if TYPE_CHECKING:
    from kdump.serve.protocol import Fields

REFUSED = (
    "produce", "init_producer_id", "add_partitions_to_txn", "add_offsets_to_txn", "end_txn", "txn_offset_commit",
    "write_txn_markers", "create_topics", "delete_topics", "create_partitions", "delete_records", "alter_configs",
    "incremental_alter_configs", "delete_groups", "offset_delete", "create_acls", "delete_acls", "elect_leaders",
    "alter_partition_reassignments", "alter_client_quotas", "alter_user_scram_credentials", "update_features",
)  # fmt: skip
"""Kinds of requests, by kio's names. By the version of Produce librdkafka knows which format of batches there is."""

_ERROR = ErrorCode.cluster_authorization_failed
_WHY = "kdump serves files, and never writes"
_NOTHING = {"base_offset": -1, "log_append_time": None, "log_start_offset": -1, "low_watermark": -1}
_ANSWERED_AS = {
    "topic_data": ("responses",),
    "partition_data": ("partition_responses",),
    "topics": ("topics", "responses", "results", "topic_results"),
    "topic_names": ("responses",),
    "groups_names": ("results",),
    "resources": ("responses",),
    "partitions": ("partitions", "results_by_partition", "partition_result"),
    "partition_indexes": ("partitions",),
    "creations": ("results",),
    "filters": ("filter_results",),
    "transactions": ("results_by_transaction",),
    "v3_and_below_topics": ("results_by_topic_v3_and_below",),
    "topic_partitions": ("replica_election_results",),
    "deletions": ("results",),
    "upsertions": ("results",),
    "feature_updates": ("results",),
    "entries": ("entries",),
    "entity": ("entity",),
    "markers": ("markers",),
}
"""Arrays of requests, and those of responses that have an element for each of theirs."""
_KEYS = ("name", "topic", "topic_id", "index", "partition_index", "resource_type", "resource_name", "transactional_id",
         "entity_type", "entity_name", "feature", "producer_id")  # fmt: skip
"""Fields by which an element says what it is about; a response has them under the same names."""


def refusal(request: Fields) -> Fields:
    """Return the fields of the response that refuses a request: every part of it has the error.

    Args:
        request: its fields.
    """
    answer: Fields = {"error_code": _ERROR, "partition_error_code": _ERROR, "error_message": _WHY, **_NOTHING}
    answer.update((name, request[name]) for name in _KEYS if name in request)
    answer["user"] = request.get("name")
    for name, values in request.items():
        for its in _ANSWERED_AS.get(name, ()) if isinstance(values, list) else ():
            answer[its] = [*answer.get(its, ()), *map(_element, values)]
    return answer


def _element(value: Any) -> Fields:  # noqa: ANN401 (of the protocol)
    if isinstance(value, dict):
        return refusal(value)
    what = {"name": value, "group_id": value, "partition_index": value, "partition_id": value}
    return {"error_code": _ERROR, "partition_error_code": _ERROR, "error_message": _WHY, **what}
