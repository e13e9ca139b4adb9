"""What is known of a topic's cleanup.policy: a value; `kdump.broker.config` finds it out."""

from __future__ import annotations

from kdump.value import Value


class CleanupPolicy(Value):
    """What is known of a topic's cleanup.policy."""

    now: frozenset[str] | None  # delete, compact, both or nothing; None where it is not known
    ever_compact: bool = False  # something here says that the topic is, or was, compacted
    # something here says that it never was: the metadata log since its creation, the user of this topic, or brokers,
    # who make it so
    never_compact: bool = False
    # as `now`, where the metadata log knows the topic, the user has named its policy, or brokers make it: a default of
    # brokers in a file says nothing of one topic
    of_topic: frozenset[str] | None = None
