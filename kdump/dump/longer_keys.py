"""What a search for a key says that finds nothing: how many records have a longer key that begins with it.

Kafka Streams puts a window or a session behind the key in the records of its stores, and people search for the key.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from kdump.decode.layouts import SESSION_SUFFIX, WINDOW_SUFFIX
from kdump.dump.input_file import InputFile, identify, input_files, size_of
from kdump.dump.selected import SelectedDump
from kdump.format.batch import layout
from kdump.format.record.chunk import Chunk
from kdump.format.record.reader import key_and_value
from kdump.format.record.selection import compiled
from kdump.value import pattern
from kdump.words.command import ShellCommand
from kdump.words.numbers import counted, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kdump.compat.dump_log_segments_options import DumpOptions
    from kdump.format.record.selection import Selection

MOST_READ = 512 << 20
"""Bytes of logs that are read once more for the hint."""

_SPECIAL = pattern(r"[\\^$.|?*+()\[\]{}]")  # of what `re.escape` escapes, the characters that mean something
_MOST_KEYS = 8
_MOST_KINDS = 3  # lengths that are told
_BEHIND = {
    WINDOW_SUFFIX: "a window of Kafka Streams: --decoder windowed",
    SESSION_SUFFIX: "a session of Kafka Streams: --decoder session",
}


def longer_keys(paths: list[str], options: DumpOptions, selection: Selection) -> Iterator[str]:
    """Yield what to say, a line for each key that was searched for and of which others are the beginning.

    Args:
        paths: files and directories that were searched.
        options: what was asked for.
        selection: that found nothing.
    """
    if selection.patterns or len(selection.keys) > _MOST_KEYS:  # a pattern found nothing either
        return
    logs: list[str] = []
    is_part, read = False, 0
    for one in input_files(paths):
        if isinstance(one, InputFile):
            known = identify(one, options)
            if isinstance(known, InputFile) and known.is_log:
                read += size_of(one.path)
                is_part = read > MOST_READ
                if is_part:
                    break
                logs.append(one.path)
    found = _behind(logs, options, selection)
    for key, lengths in found.items():
        if lengths:
            yield _sentence(key.decode(errors="replace"), lengths, size(MOST_READ) if is_part else "")


def _behind(logs: list[str], options: DumpOptions, selection: Selection) -> dict[bytes, Counter[int]]:
    """How many records have so many bytes behind each key, by these."""
    found: dict[bytes, Counter[int]] = {}
    for key in selection.keys:
        with suppress(UnicodeDecodeError):
            key.decode()
            found[key] = Counter()
    beginnings = tuple(compiled(_beginning(key.decode())) for key in found)
    if not (beginnings and logs):
        return found
    wanted = selection.replace(keys=(), patterns=beginnings, limit=None, tail=None)
    width = layout.RECORD_WIDTH
    for item in SelectedDump(options.replace(deep=True, contents=True), wanted).files(logs):
        if isinstance(item, Chunk):
            for at in range(0, item.filled * width, width):
                longer, _ = key_and_value(item.view, item.rows[at : at + width])
                for key, lengths in found.items():
                    if longer is not None and longer.startswith(key):
                        lengths[len(longer) - len(key)] += 1
    return found


def _beginning(key: str) -> str:
    return "^" + _SPECIAL.sub(r"\\\g<0>", key)


def _sentence(key: str, found: Counter[int], read: str) -> str:
    ways = []
    for more, count in found.most_common(_MOST_KINDS):
        what = f" ({_BEHIND[more]})" if more in _BEHIND else ""
        ways.append(f"{count} with {counted(more, 'byte')} more{what}")
    others = len(found) - _MOST_KINDS
    ways += [f"others with {counted(others, 'other length')}"] if others > 0 else []
    of = f" in the first {read}" if read else ""
    shows = ShellCommand(*("--key-regex", _beginning(key)))  # options of a dump, as the user gave --key
    has = "has" if found.total() == 1 else "have"
    head = f"{counted(found.total(), 'record')}{of} {has} a longer key that begins with {key}"
    return f"{head}: {', '.join(ways)}; {shows} shows them"
