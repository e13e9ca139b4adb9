"""The options that hide names, keys and values."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING, Any

import click

from kdump.cli.options.help import option, options
from kdump.exit_status import Exit
from kdump.render.commentary import hide_in_messages, say
from kdump.storage.file_source import OpenFailure, first_line
from kdump.storage.open_files import open_source
from kdump.words.command import ShellCommand, named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kdump.redact import Redactor

redact_options = options(
    option(
        "--redact",
        group="What is shown",
        is_flag=True,
        help="Show tokens in place of keys, values, header values, ids, hosts, and names of topics and groups.",
    ),
    option(
        "--redact-key",
        group="What is shown",
        metavar="FILE",
        help="--redact with the key in FILE (mode 0600): equal values have equal tokens in every run with it.",
    ),
)
_OTHERS = 0o077
_MOST = 4096  # bytes of a key


def redactor_of(given: dict[str, Any], paths: Sequence[str]) -> Redactor | None:
    """Return what hides names, keys and values, and let no message have them; None where nothing is to be hidden.

    Args:
        given: the values of the options.
        paths: that are read.

    Raises:
        click.UsageError: another option shows what would be hidden, or there is no such key.
    """
    if not given["redact"] and given["redact_key"] is None:
        return None
    for name, shows in (("compat", "--compat"), ("raw", "--raw"), ("decoder_command", "--decoder-command")):
        if given.get(name):
            raise click.UsageError(f"--redact hides what {shows} shows: they exclude each other.")
    from kdump.redact import Redactor

    path = given["redact_key"]
    redactor = Redactor(os.urandom(32) if path is None else _key(path))
    redactor.learn(paths)
    hide_in_messages(redactor.text)
    return redactor


def _key(path: str) -> bytes:
    """The key in a file; ends with one line where others can read it."""
    source = open_source(path)
    if isinstance(source, OpenFailure):
        raise click.UsageError(f"--redact-key: {source.sentence}.")
    with source:
        mode = source.status.st_mode
        if mode & _OTHERS:
            closing = ShellCommand("chmod", "600", named(path))
            say(f"kdump: {path}: others may read this key (mode {stat.S_IMODE(mode):04o}): make another, or {closing}")
            sys.exit(Exit.REFUSED)
        try:
            key = source.read_at(0, _MOST)
        except OSError as error:
            raise click.UsageError(f"--redact-key: {path}: cannot be read: {first_line(error)}.") from None
    if not key:
        raise click.UsageError(f"--redact-key {path}: the file is empty: head -c 32 /dev/urandom makes a key.")
    return key
