"""The row of carve."""

from __future__ import annotations

from kdump.row import Kind, Row, column, computed


class CarvedRun(Row, name="run"):
    """Batches that carve found following each other in an image, and the file that has them."""

    file: str = column(Kind.PATH, "where they are now, below the directory as the user wrote it")
    image: str = column(Kind.PATH, "where they were found, as the user wrote it")

    @computed(Kind.POSITION, "in the image")
    def position(self) -> int:
        """Where the first stretch begins."""
        return self.extents[0][0]

    @computed(Kind.SIZE, "of all stretches")
    def length(self) -> int:
        """Bytes of all stretches."""
        return sum(length for _, length in self.extents)

    batches: int = column(Kind.COUNT, "batches")
    records: int = column(Kind.COUNT, "records")
    offset: int = column(Kind.OFFSET, "of the first record")
    last_offset: int = column(Kind.OFFSET, "of the last record")
    epochs: tuple[int, ...] = column(Kind.NUMBER, "of its batches, rising")
    producer_ids: tuple[int, ...] = column(Kind.NUMBER, "of its batches, rising")
    first_timestamp: int | None = column(Kind.TIME, "the lowest; null where batches have none")
    max_timestamp: int | None = column(Kind.TIME, "the highest; null where batches have none")
    extents: tuple[tuple[int, int], ...] = column(
        Kind.SIZE, "position and length of each stretch, more than one where a file lay in fragments"
    )
    kind: str = column(
        Kind.WORD, "snapshot for the content of a .checkpoint file of the metadata log", words=("log", "snapshot")
    )

    @computed(Kind.PARTITION, "null where nothing tells")
    def topic_partition(self) -> str | None:
        """The partition that it belongs to."""
        return None if self.partition is None else f"{self.partition[0]}-{self.partition[1]}"

    evidence: tuple[str, ...] = column(Kind.TEXT, "why it is what it is, or what speaks against")
    partition: tuple[str, int] | None = None  # topic and number that it belongs to; None where nothing tells
