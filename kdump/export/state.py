"""The plan and the notes of an export on the disk: they say what is written, and removed, by the next run.

They lie in `_kdump` of the directory of the export. All of it must be the user's own (`storage/own_files.py`), every
value is held to a table, and names that are read lead nowhere but into that directory.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kdump.format.java_values import MAX_INT, MAX_LONG, MIN_LONG
from kdump.storage.directory import expanded
from kdump.storage.json_rules import (
    BadValueError,
    anything,
    each_of,
    fields,
    items,
    maybe,
    members,
    number,
    of_form,
    parsed,
    text,
)
from kdump.storage.own_files import read_own
from kdump.storage.own_tree import ROWS_FOLDER, STATE, TEMPORARY, folder_in, top_of, write_json
from kdump.storage.paths import absolute, exists, is_remote
from kdump.value import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_PLAN, _NOTE = "plan.json", ".done"
_MOST_PLAN = 256 * 1024 * 1024  # bytes: some hundred thousand parts
_MOST_NOTE = 16 * 1024 * 1024
_PART = r"-?[0-9]{1,20}-[0-9]{10,20}-[0-9a-f]{16}"
_FILE = r"[0-9a-f]{16}"  # of a table of verdicts
_LEFT = pattern(rf"\..+\.[0-9a-f]{{4,8}}{re.escape(TEMPORARY)}")  # of rows, by a killed run
_LEFT_STATE = pattern(rf"({_PLAN}|({_PART}|{_FILE}){_NOTE})\.[0-9a-f]{{8}}{re.escape(TEMPORARY)}")


class NotThisExportError(ValueError):
    """The directory has something else in it; the message is one line for the user."""


# --- what may stand there -------------------------------------------------------------------------------------
def _place(value: object, path: str) -> None:
    (text if isinstance(value, str) else maybe(number(0, MAX_INT)))(value, path)


_NUMBER = number(MIN_LONG, MAX_LONG)
_COUNT = number(0, MAX_LONG)
_ORIGIN = (maybe(text), maybe(number(0, MAX_INT)), maybe(text), maybe(text), maybe(text), _place)
_PLAN_RULE = fields(
    {
        "asked": members(text, anything),
        "parts": items(
            each_of(
                of_form(_PART),
                of_form(ROWS_FOLDER),
                each_of(text, _COUNT, maybe(_NUMBER), maybe(_NUMBER), *_ORIGIN),
                each_of(_COUNT, _NUMBER, _NUMBER, _NUMBER, _COUNT),
            )
        ),
        "problems": items(each_of(maybe(text), text, text)),
    }
)
_NOTE_RULE = fields(
    {
        "name": of_form(f"{_PART}|{_FILE}"),
        "rows": _COUNT,
        "errors": _COUNT,
        "path": text,
        "problems": items(text),
    },
    {"codes": items(each_of(of_form("[A-Z][0-9]{2}"), _COUNT)), "undecoded": _COUNT},
)


# --- the plan -------------------------------------------------------------------------------------------------
def read_plan(directory: str) -> dict[str, Any] | None:
    """Return the plan of an export, each value of which is one that kdump may have written; None where there is none.

    Args:
        directory: of the export.

    Raises:
        NotThisExportError: it is none, or something else lies in the directory.
        RefusedError: somebody else may have written it.
    """
    try:
        with folder_in(directory, STATE) as state:
            data = read_own(state, _PLAN, os.path.join(directory, STATE, _PLAN), "a plan of kdump", _MOST_PLAN)
        plan: Any = parsed(data)
        _PLAN_RULE(plan, "")
        names = [part[0] for part in plan["parts"]]
        if len(set(names)) != len(names):
            raise BadValueError("parts", "have one name twice")
    except FileNotFoundError:
        if os.path.isdir(directory) and any(name != STATE for name in os.listdir(directory)):
            raise NotThisExportError(f"{directory}: is not empty, and not an export that can be resumed") from None
        return None
    except NotADirectoryError:
        raise NotThisExportError(f"{directory}: is not a directory") from None
    except BadValueError as error:
        state_path = os.path.join(directory, STATE)
        raise NotThisExportError(
            f"{state_path}: the plan in it cannot be read ({error}); name another directory"
        ) from None
    return dict(plan)


def write_plan(directory: str, plan: dict[str, Any]) -> None:
    """Write the plan of an export.

    Args:
        directory: of the export; made where it is not there.
        plan: in JSON's types.

    Raises:
        RefusedError: somebody else may write there.
        OSError: it cannot be written.
    """
    with folder_in(directory, STATE, makes=True) as state:
        write_json(state, _PLAN, plan)


def demand_asked_for(directory: str, logs: Iterable[str], paths: Sequence[str]) -> None:
    """Refuse a plan that names logs which the user did not.

    Args:
        directory: of the export.
        logs: paths that the plan names.
        paths: what the user named.

    Raises:
        NotThisExportError: it names others.
    """
    roots = {absolute(one) for one, _ in expanded(paths)}
    inside = tuple(f"{one.rstrip('/')}/" for one in roots)
    for log in logs:
        where = absolute(log)
        is_asked = where in roots or (where.startswith(inside) and ".." not in where.split("/"))
        if not is_asked and (is_remote(where) or exists(where, follow=False)):
            why = f"the plan in it names a log that is none of those asked for ({log})"
            raise NotThisExportError(f"{os.path.join(directory, STATE)}: {why}; name another directory")


# --- the notes ------------------------------------------------------------------------------------------------
def read_notes(directory: str) -> Iterator[dict[str, Any]]:
    """Yield what the notes of an export say, one for each part that is written.

    Args:
        directory: of the export.

    Raises:
        NotThisExportError: a note cannot be read.
        RefusedError: somebody else may have written it.
    """
    with folder_in(directory, STATE) as state:
        for name in sorted(os.listdir(state)):
            if not name.endswith(_NOTE):
                continue
            path = os.path.join(directory, STATE, name)
            try:
                note: Any = parsed(read_own(state, name, path, "a note of kdump", _MOST_NOTE))
                _NOTE_RULE(note, "")
                if f"{note['name']}{_NOTE}" != name:
                    raise BadValueError("name", "is that of another note")
            except BadValueError as error:
                why = f"this note cannot be read ({error}); name another directory"
                raise NotThisExportError(f"{path}: {why}") from None
            yield note


def write_note(directory: str, note: dict[str, Any]) -> None:
    """Write a note.

    Args:
        directory: of the export.
        note: in JSON's types; it has a name.

    Raises:
        RefusedError: somebody else may write there.
        OSError: it cannot be written.
    """
    with folder_in(directory, STATE) as state:
        write_json(state, f"{note['name']}{_NOTE}", note)


def remove_rows(directory: str, note: dict[str, Any], kind: str) -> None:
    """Remove the file of rows that a note tells of, and then the note.

    Args:
        directory: of the export.
        note: of a table of verdicts.
        kind: what the name of the file ends in.

    Raises:
        NotThisExportError: it tells of no file that kdump has written there.
        RefusedError: somebody else may write there, or a link leads away.
    """
    name = note["name"]
    if re.fullmatch(f"{ROWS_FOLDER}/{re.escape(f'{name}.{kind}')}", note["path"]) is None:
        path = os.path.join(directory, STATE, f"{name}{_NOTE}")
        raise NotThisExportError(
            f"{path}: this note cannot be read (path is no name that kdump gives); name another directory"
        )
    folder, _, file = note["path"].rpartition("/")
    with suppress(FileNotFoundError), folder_in(directory, folder) as rows:
        os.unlink(file, dir_fd=rows)
    with folder_in(directory, STATE) as state:
        os.unlink(f"{name}{_NOTE}", dir_fd=state)


# --- the end --------------------------------------------------------------------------------------------------
def remove_temporaries(directory: str) -> None:
    """Remove what a killed run has left of files of rows and of its state: names that kdump gives, and no others.

    Args:
        directory: of the export.

    Raises:
        RefusedError: somebody else may write there.
    """
    with top_of(directory) as outer:
        for path, _, names, folder in os.fwalk(dir_fd=outer):
            form = _LEFT_STATE if os.path.basename(path) == STATE else _LEFT
            for name in filter(form.fullmatch, names):
                os.unlink(name, dir_fd=folder)


def remove_state(directory: str) -> None:
    """Remove plan and notes: another export may have the directory.

    Args:
        directory: of the export.

    Raises:
        RefusedError: somebody else may write there.
        OSError: something else lies there too.
    """
    with top_of(directory) as outer:
        with folder_in(directory, STATE) as state:
            for name in os.listdir(state):
                if name == _PLAN or name.endswith((_NOTE, TEMPORARY)):
                    os.unlink(name, dir_fd=state)
        os.rmdir(STATE, dir_fd=outer)


def remove_attempt(directory: str, folder: str, name: str) -> None:
    """Remove what an attempt at a part has left that did not come to its end.

    Args:
        directory: of the export.
        folder, name: of the part.

    Raises:
        RefusedError: somebody else may write there, or a link leads away.
    """
    for inside, begin in ((folder, f".{name}."), (STATE, f"{name}{_NOTE}.")):
        with suppress(FileNotFoundError), folder_in(directory, inside) as place:
            for one in os.listdir(place):
                if one.startswith(begin) and one.endswith(TEMPORARY):
                    os.unlink(one, dir_fd=place)
