"""One fact, one home: what is written once in kdump, and asked for everywhere else."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import kdump

HOME = Path(kdump.__file__).resolve().parent


@cache
def sources() -> dict[str, str]:
    """The text of each module, by its path in the package. Kernels are not among them: C has constants of its own."""
    files = {str(file.relative_to(HOME)): file for file in sorted(HOME.rglob("*.py"))}
    kernels = re.compile(r"format/kernels/.*|.*/_[a-z]\w*\.py")
    return {name: file.read_text() for name, file in files.items() if not kernels.fullmatch(name)}


def homes(pattern: str) -> set[str]:
    """The modules in which a line matches a regular expression."""
    return {name for name, text in sources().items() if re.search(pattern, text, re.MULTILINE)}


def test_the_ends_of_a_long_and_of_an_int_are_written_once() -> None:
    longs = r"\b2 ?\*\* ?63\b|\b1 << 6[34]\b|9_?223_?372_?036_?854_?775_?80[678]|0x7f{15}\b|0x80{15}\b"
    assert homes(f"(?i){longs}") <= {"format/java_values.py"}
    assert homes(r"(?i)\b2 ?\*\* ?31 ?- ?1\b|= 2_?147_?483_?647\b|0x7f{7}\b") <= {"format/java_values.py"}


def test_the_names_of_codecs_are_written_once() -> None:
    assert homes(r"\b(SNAPPY|LZ4) = ") == {"format/codec/base.py"}
    packages = {"cli/bug.py", "words/install.py"}  # of Python, which have names like those
    assert homes('"(snappy|lz4)"') <= packages


def test_the_colours_of_severities_are_written_once() -> None:
    assert homes(r"Severity\.\w+: \"[a-z ]*(red|yellow|cyan)\"") == {"render/terminal/columns.py"}
