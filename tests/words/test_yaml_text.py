"""YAML as every reader takes it; tests/render/emit/test_strimzi.py reads whole documents back."""

from __future__ import annotations

from kdump.words.yaml_text import document, quoted


def test_texts_are_ascii_in_double_quotes() -> None:
    assert quoted('a"b\\\n\x85\u2028\U0001f600') == '"a\\"b\\\\\\x0a\\x85\\u2028\\U0001f600"'


def test_only_keys_that_no_reader_takes_for_something_else_are_bare() -> None:
    made = document({"a.b/c": {"no": 1, "x y": []}, "list": [{"a": "b", "c": {}}, "d"]})
    assert made == '---\na.b/c:\n  "no": 1\n  "x y": []\nlist:\n  - a: "b"\n    c: {}\n  - "d"\n'
