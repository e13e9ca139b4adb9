"""What a user of verify asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdump.broker.clusters import TopicPolicies, policies_beside
from kdump.broker.releases import rules_of
from kdump.format.read_limits import MAX_BATCH_BYTES, MAX_UNCOMPRESSED_BYTES, ReadLimits
from kdump.value import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kdump.broker.config import Config
    from kdump.broker.load.facts import Start
    from kdump.broker.load.log_manager import LoadSettings
    from kdump.broker.releases import Rules
    from kdump.storage.partition_dir import PartitionDir
    from kdump.storage.server_properties import NodeSettings


class VerifyOptions(Value):
    """What is looked at, and how."""

    deep: bool = True  # read the records
    resync: bool = True  # search for intact batches after damage; without it the rest of a damaged log is one gap
    contiguous: bool = False  # offsets that are missing are warnings
    jobs: int = 1  # processes; 0 for one on each core
    progress: bool = False  # hand out `Progress` items
    max_batch_bytes: int = MAX_BATCH_BYTES  # a batch over this is not held in memory: its records are not read
    max_uncompressed_bytes: int = MAX_UNCOMPRESSED_BYTES  # records of one batch over this are not read
    starts: tuple[Start, ...] = ()  # of a broker, that are predicted
    is_auto: bool = False  # predict the start that is coming, as the log directory shows it, and not `starts`
    has_steps: bool = (
        True  # what can be done is told; for that the start that is coming is tried, which reads logs again
    )
    only_starts: bool = False  # read no more than these starts do: nothing is checked, the starts are predicted
    # what the predictions hang on besides the files; given where a start is predicted
    settings: LoadSettings | None = None
    # settings of the node that the paths are all the directories of; None where they may be of several
    node: NodeSettings | None = None
    of_hosts: bool = False  # a manifest names the paths with their hosts
    # paths of logs that are another partition's: of no replica in a comparison
    foreign_logs: frozenset[str] = frozenset()
    # what is known of topics; None for what the metadata logs say that are at hand
    policies: TopicPolicies | None = None

    @property
    def predicts(self) -> bool:
        """Whether a start is predicted."""
        return self.is_auto or bool(self.starts)

    @property
    def rules(self) -> Rules:
        """The rules of the release of the broker, the newest known where nobody names one."""
        return rules_of() if self.settings is None else self.settings.config.rules

    @property
    def limits(self) -> ReadLimits:
        """What is read at most."""
        return ReadLimits(self.max_batch_bytes, self.max_uncompressed_bytes)

    def at(self, paths: Sequence[str]) -> VerifyOptions:
        """Return the options of a run over some paths: any metadata log among these tells of topics."""
        known = self.policies
        return self if known is not None else self.replace(policies=TopicPolicies(paths, self.limits, self._config))

    @property
    def _config(self) -> Config | None:
        return None if self.settings is None else self.settings.config

    def policies_for(self, partition: PartitionDir) -> TopicPolicies:
        """Return what is known of the topic of a partition."""
        return self.policies or policies_beside(partition, self.limits)
