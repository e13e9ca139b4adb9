"""The cluster that a result of salvage is for: what the log directory of --for, and the metadata log in it, say."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from kdump.rescue.destination import KEPT_BY, ClusterMetadata, Destination
from kdump.state.cluster import sound_image
from kdump.state.metadata_image import TOPIC_CONFIG
from kdump.storage.directory import DirectoryListing
from kdump.storage.log_dir import is_log_dir
from kdump.storage.names import METADATA_LOG
from kdump.storage.paths import base_name
from kdump.words.escape import escape

if TYPE_CHECKING:
    from kdump.state.metadata_image import MetadataImage


def destination_of(path: str) -> Destination:
    """Return the cluster of a log directory, or of a metadata log.

    Args:
        path: as the user wrote it.

    Raises:
        click.UsageError: it is neither.
    """
    given = path.rstrip(os.sep) or path
    is_metadata_log = base_name(given) == METADATA_LOG
    listing = DirectoryListing(given)
    if listing.failure is not None:
        raise click.UsageError(f"--for {listing.failure.sentence}")
    if not is_metadata_log and not (is_log_dir(given) or listing.partitions()):
        raise click.UsageError(f"--for {escape(path)}: no log.dir, and no {METADATA_LOG}: name one of a broker there")
    metadata_log = given if is_metadata_log else os.path.join(given, METADATA_LOG)
    if not os.path.isdir(metadata_log):
        return Destination(given, None)
    image = sound_image([metadata_log])
    if image is None and is_metadata_log:
        raise click.UsageError(f"--for {escape(path)}: is damaged: name a log.dir, or the metadata log of another node")
    return Destination(given, None if image is None else _metadata(image), is_damaged=image is None)


def _metadata(image: MetadataImage) -> ClusterMetadata:
    partitions = [(topic, number, fields) for topic, number, fields in image.partitions()]
    retention: dict[str, dict[str, str]] = {}
    for kind, resource, name, value in image.configs():
        if kind == TOPIC_CONFIG and name in KEPT_BY:
            retention.setdefault(resource, {})[name] = value
    return ClusterMetadata(
        image.topic_ids(),
        {(topic, number): int(fields["leaderEpoch"]) for topic, number, fields in partitions},
        {(topic, number): tuple(fields["replicas"]) for topic, number, fields in partitions},
        {number: host for number, fields in image.brokers().items() if (host := _host(fields)) is not None},
        retention,
    )


def _host(broker: dict[str, object]) -> str | None:
    """The host of the first listener that a broker has registered."""
    points = broker.get("endPoints")
    hosts = [one.get("host") for one in points if isinstance(one, dict)] if isinstance(points, list) else []
    return str(hosts[0]) if hosts and hosts[0] else None
