"""What runs elsewhere is what runs here: the workflows call `.ci/run` and `.ci/release`, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

HOME = Path(__file__).resolve().parents[1]
WORKFLOWS = sorted((HOME / ".github" / "workflows").glob("*.yml"))
CLASSIFIER = re.compile(r'"Programming Language :: Python :: (3\.\d+)"')


def test_workflows_call_the_scripts_and_nothing_else() -> None:
    called = {
        file.name: re.findall(r"^ *(?:- )?run: *(\S.*)$", file.read_text("utf-8"), re.MULTILINE) for file in WORKFLOWS
    }
    assert called == {"ci.yml": [".ci/run"], "release.yml": [".ci/release"]}


def test_each_python_that_is_named_is_tested() -> None:
    named = set(CLASSIFIER.findall((HOME / "pyproject.toml").read_text("utf-8")))
    for file in WORKFLOWS:
        assert named == set(re.findall(r"\b3\.1\d\b", file.read_text("utf-8"))), file.name
    release = (HOME / ".ci" / "release").read_text("utf-8")
    assert named == set(re.findall(r"^pythons=\((.*)\)", release, re.MULTILINE)[0].split())


@pytest.mark.parametrize("form", ["wrong-answer.yml", "missing.yml"])
def test_forms_ask_for_a_redacted_verdict(form: str) -> None:
    text = (HOME / ".github" / "ISSUE_TEMPLATE" / form).read_text("utf-8")
    assert "label: kdump verify --redact --format json PATH" in text
