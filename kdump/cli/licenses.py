"""`kdump --licenses`: under which terms kdump and each package that runs with it may be used, as installed here.

Source: the metadata of each installed package (importlib.metadata): in a wheel, in kdump.pyz and from a distribution.
"""

from __future__ import annotations

import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import TYPE_CHECKING

from kdump.exit_status import Exit
from kdump.render.commentary import answer, say
from kdump.value import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

_OWN = "kafka-kdump"
_EXTRAS = ("export", "schemas", "serve", "spark")  # those that change what a user runs
_NAME = pattern(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_EXTRA = pattern(r"""extra\s*==\s*["']([^"']+)["']""")
_TEXT = pattern(r"(?i)(?:licen[cs]e|copying|notice|authors)")
_FOLDER = "licenses"  # of the metadata, in which texts lie
_CLASSIFIER = "License :: "
_MOST_TERMS = 60  # characters of a licence field: some packages have the whole text in it


def show_licenses() -> int:
    """Print the licences, and return the exit status."""
    try:
        answer("\n".join(lines()))
    except PackageNotFoundError:
        say("kdump: this kdump was not installed: what it runs with is not known, and its own terms are in LICENSE")
        return Exit.NOT_FOUND
    return Exit.OK


def lines() -> Iterator[str]:
    """Yield what `kdump --licenses` prints: a line for each package, then the text of each licence.

    Raises:
        PackageNotFoundError: kdump runs from a tree that was not installed.
    """
    packages = _running_with(distribution(_OWN))
    width = max(len(_title(one)) for one in packages)
    yield "kdump, and the packages that run with it here:"
    yield ""
    for one in packages:
        yield f"{_title(one):{width}}  {_terms(one)}{_home(one)}"
    for one in packages:
        for file in sorted(one.files or [], key=str):
            if _TEXT.match(file.name) and _is_of_metadata(file.parts):
                yield ""
                yield f"--- {_title(one)}: {'/'.join(one for one in file.parts[1:] if one != _FOLDER) or file.name}"
                yield ""
                yield file.read_binary().decode("utf-8", "replace").rstrip()


def _running_with(own: Distribution) -> list[Distribution]:
    """Return a package and all that it needs and finds, itself first, the others by name."""
    found: dict[str, Distribution] = {}
    waiting = list(_needed(own.requires or [], _EXTRAS))
    while waiting:
        name = waiting.pop()
        key = _normal(name)
        if key in found or key == _OWN:
            continue
        try:
            found[key] = distribution(name)
        except PackageNotFoundError:  # of an extra that is not installed, or for another system
            continue
        waiting += _needed(found[key].requires or [], ())
    return [own, *(found[key] for key in sorted(found))]


def _needed(requirements: list[str], extras: tuple[str, ...]) -> Iterator[str]:
    for one in requirements:
        name, of_extra = _NAME.match(one), _EXTRA.search(one)
        if name is not None and (of_extra is None or of_extra[1] in extras):
            yield name[0]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _title(package: Distribution) -> str:
    return f"{package.metadata['Name']} {package.version}"


def _terms(package: Distribution) -> str:
    """Return the name of a licence: the expression, else the field where it is short, else the classifiers."""
    fields = package.metadata
    for key in ("License-Expression", "License"):
        value = str((fields.get_all(key) or [""])[0]).strip()
        if value and "\n" not in value and len(value) <= _MOST_TERMS:
            return value
    named = [one for one in fields.get_all("Classifier") or [] if one.startswith(_CLASSIFIER)]
    return ", ".join(one.rpartition(" :: ")[2] for one in named) or "see its text below"


def _home(package: Distribution) -> str:
    """Return where the source is: terms such as those of the LGPL ask for it."""
    pages = dict(one.split(", ", 1) for one in package.metadata.get_all("Project-URL") or [] if ", " in one)
    named = {key.lower(): url for key, url in pages.items()}
    found = next((named[key] for key in ("source", "source code", "repository", "homepage") if key in named), None)
    home = found or next(iter(package.metadata.get_all("Home-page") or []), None) or next(iter(named.values()), None)
    return f"  {home}" if home else ""


def _is_of_metadata(parts: tuple[str, ...]) -> bool:
    return parts[0].endswith((".dist-info", ".egg-info")) or len(parts) == 1
