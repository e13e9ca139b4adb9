"""Lines of a properties file: what each character becomes. The script `emit_on_a_broker` lets Java read them."""

from __future__ import annotations

import pytest

from kdump.words.java_properties import property_line


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("retention.ms", "-1", "retention.ms=-1"),
        ("a b", "a b", "a\\u0020b=a b"),
        ("#a", "#a", "\\u0023a=#a"),
        ("a=b:c!", "a=b:c!", "a\\u003db\\u003ac\\u0021=a=b:c!"),
        ("", "", "="),
        ("x", "  a  b ", "x=\\u0020\\u0020a  b "),
        ("x", "\\n\n", "x=\\u005cn\\u000a"),
        ("x", "\U0001f600", "x=\\ud83d\\ude00"),
    ],
)
def test_only_what_java_takes_for_itself_is_escaped(name: str, value: str, line: str) -> None:
    assert property_line(name, value) == line
