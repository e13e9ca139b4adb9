"""What brokers of one release do otherwise than those of another: each rule once, with its releases and its source.

Whoever imitates or predicts a broker asks the rules of its release. What is not here is the same in all of them, as far
as it is known: Kafka's own classes of each release load the same damaged directories (tests/support/broker_loads.py).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from kdump.format.java_values import MAX_DECOMPRESSED
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

RELEASES = ("3.9", "4.2", "4.3", "4.4")
"""The releases whose brokers are known, oldest first."""
NEWEST = RELEASES[-1]


class Rules(Value):
    """What brokers of one release do."""

    release: str  # as `--broker` names it
    # --- load
    aborted_version_bytes: int  # of the version of an aborted transaction, that must not be above 0
    searches_base_offsets: bool  # for an offset by base offsets, those inside of legacy wrappers too; else by last ones
    loads_first_snapshot: bool  # the metadata of the snapshot of offset 0, with which newer tools format, too
    explains_old_levels: bool  # of metadata.version that it does not know, with the advice to raise it
    # --- read
    bounds_records: bool  # max.decompressed.message.bytes holds for records of compressed batches
    streams_time_search: bool  # a search by time reads records one by one; else all of a batch before the first counts
    # --- delete
    delays_copies: bool  # to remote storage, by remote.copy.lag.ms and remote.copy.lag.bytes
    counts_last_copied: bool  # a segment that begins at the highest remote offset counts as one that is only local
    # --- clean
    keeps_empty_at_high_watermark: bool  # an empty batch is kept that ends there; else one that ends the cleaned part

    def max_record(self, limit: int = MAX_DECOMPRESSED) -> int | None:
        """Return how many bytes a record of a compressed batch may claim; None where nothing bounds it.

        Args:
            limit: max.decompressed.message.bytes of the topic.
        """
        return limit if self.bounds_records else None


class Rule(Value):
    """One rule that differs."""

    values: Mapping[str, object]  # by the release from which on each holds
    source: str  # Kafka's, where it stands


TABLE: Mapping[str, Rule] = {
    "aborted_version_bytes": Rule({"3.9": 1, "4.4": 2}, "TransactionIndex.iterable, AbortedTxn"),
    "searches_base_offsets": Rule({"3.9": False, "4.2": True}, "FileRecords.searchForOffsetFromPosition"),
    "loads_first_snapshot": Rule({"3.9": True, "4.3": False}, "MetadataLoader.handleLoadSnapshot, KIP-1170"),
    "explains_old_levels": Rule({"3.9": False, "4.2": True}, "FeaturesDelta.replay"),
    "bounds_records": Rule(
        {"3.9": False, "4.4": True}, "LogConfig.maxDecompressedMessageBytes, DefaultRecord.readFrom"
    ),
    "streams_time_search": Rule({"3.9": False, "4.4": True}, "FileRecords.searchForTimestamp"),
    "delays_copies": Rule({"3.9": False, "4.4": True}, "RemoteLogManager.RLMCopyTask.isEligibleForUpload, KIP-1241"),
    "counts_last_copied": Rule({"3.9": True, "4.4": False}, "UnifiedLog.onlyLocalLogSegmentsSize"),
    "keeps_empty_at_high_watermark": Rule({"3.9": False, "4.4": True}, "Cleaner.cleanInto, checkBatchRetention"),
}


@cache
def rules_of(release: str = NEWEST) -> Rules:
    """Return the rules of a release.

    Args:
        release: one of `RELEASES`.
    """
    known = RELEASES[: RELEASES.index(release) + 1]
    now: dict[str, Any] = {
        name: [rule.values[one] for one in known if one in rule.values][-1] for name, rule in TABLE.items()
    }
    return Rules(release, **now)
