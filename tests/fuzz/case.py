"""A case of the fuzzer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.partitions import Files


@dataclass(slots=True)
class Case:
    """What is run.

    Args:
        files: content by path, below the directory that the commands run in.
        commands: each a list of words: `kdump` and its arguments, or `@NAME` and those of a function of `calls`.
        writes: the commands may change the files.
        restores: they may, but the last one puts all back.
        usage: an argument may be one that kdump refuses.
    """

    files: Files
    commands: list[list[str]]
    writes: bool = False
    restores: bool = False
    usage: bool = False
