"""One fact, one home: what is written once in kdump, and asked for everywhere else."""

from __future__ import annotations

import ast
import re
from collections import Counter

import pytest

from tests.support.sources import is_kernel, texts, trees

pytestmark = pytest.mark.quick


def sources() -> dict[str, str]:
    """The text of each module, by its path in the package. Kernels are not among them: C has constants of its own."""
    return {name: text for name, text in texts().items() if not (is_kernel(name) or name.startswith("format/kernels/"))}


def homes(pattern: str) -> set[str]:
    """The modules in which a line matches a regular expression."""
    return {name for name, text in sources().items() if re.search(pattern, text, re.MULTILINE)}


def test_the_ends_of_a_long_and_of_an_int_are_written_once() -> None:
    longs = r"\b2 ?\*\* ?63\b|\b1 << 6[34]\b|9_?223_?372_?036_?854_?775_?80[678]|0x7f{15}\b|0x80{15}\b"
    assert homes(f"(?i){longs}") <= {"format/java_values.py"}
    assert homes(r"(?i)\b2 ?\*\* ?31 ?- ?1\b|= 2_?147_?483_?647\b|0x7f{7}\b") <= {"format/java_values.py"}


def test_how_many_bits_of_a_field_are_wrong_is_asked_of_one_judge() -> None:
    assert homes(r"\.bit_count\(\)") == {"format/batch/header_judge.py"}


def test_the_names_of_codecs_are_written_once() -> None:
    assert homes(r"\b(SNAPPY|LZ4) = ") == {"format/codec/base.py"}
    packages = {"cli/bug.py", "words/install.py"}  # of Python, which have names like those
    assert homes('"(snappy|lz4)"') <= packages


def test_the_colours_of_severities_are_written_once() -> None:
    assert homes(r"Severity\.\w+: \"[a-z ]*(red|yellow|cyan)\"") == {"render/report/columns.py"}


def limits() -> list[tuple[str, str, int, str]]:
    """The larger numbers that modules name: module, name without underscore, number, what is said of it."""
    found = []
    for name, text in sources().items():
        lines = text.splitlines()
        for node in trees()[name].body:
            if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
                continue
            number = constant(node.value)
            if number is not None and number >= 1024:
                said = lines[node.lineno - 1].partition("  # ")[2]
                found.append((name, node.targets[0].id.lstrip("_"), number, said))
    return found


def constant(node: ast.expr) -> int | None:
    """The number that an expression of numbers is; None for another one."""
    if any(not isinstance(one, ast.BinOp | ast.Constant | ast.operator) for one in ast.walk(node)):
        return None
    value = eval(ast.unparse(node))  # numbers and operators only
    return value if isinstance(value, int) else None


def test_no_limit_of_which_the_same_is_said_is_written_twice() -> None:
    said = Counter((number, words) for _, _, number, words in limits() if words)
    assert [one for one, count in said.items() if count > 1] == []
    named = Counter((name, number) for _, name, number, _ in limits() if re.match(r"(MAX|MOST|LARGEST|LONGEST)_", name))
    assert [one for one, count in named.items() if count > 1] == []


def test_sizes_of_kafka_and_limits_of_batches_are_written_once() -> None:
    assert homes(r"\b10 \* 1024 \* 1024\b|\b10 << 20\b|10_?485_?760") == {"format/index/offset_and_time.py"}
    assert homes(r"= 1024 \* 1024 \* 1024\b|\b1 << 30\b|1_?073_?741_?824") == {"storage/segment.py"}
    assert homes(r"\b5 \* 1024 \* 1024\b") == {"compat/dump_log_segments_options.py"}
    assert homes(r"104_?857_?600|\b100 \* 1024 \* 1024") == {"broker/config.py"}
    assert homes(r"max_(batch|uncompressed)_bytes(: int)? ?= ?[0-9]") == set()
    assert homes(r"ReadLimits\(\w+\[") == {"cli/options/common.py"}


def test_findings_are_ignored_by_one_function() -> None:
    assert homes(r"^def _?ignore\(") == {"finding.py"}
    assert homes(r"lambda _(finding|one|problem)?: None") == set()
