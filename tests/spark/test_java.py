"""Which Java runs Spark, and what is said where none does. Nothing of Spark is needed for that."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from kdump.spark import java
from kdump.spark.errors import SparkMissingError
from kdump.spark.java import find_java

if TYPE_CHECKING:
    from pathlib import Path


def fake(home: Path, version: str) -> Path:
    """A program that says that it is a Java."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    program.chmod(0o755)
    return home


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No Java anywhere."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    monkeypatch.setattr(java, "_of_wheel", lambda: None)
    return monkeypatch


@pytest.mark.parametrize("version", ["17.0.15", "17", "21.0.8", "25.0.3", "26-ea"])
def test_a_java_that_is_named_is_taken(version: str, tmp_path: Path, nowhere: pytest.MonkeyPatch) -> None:
    home = fake(tmp_path, version)
    assert find_java(str(home)).path == str(home / "bin" / "java")
    nowhere.setenv("JAVA_HOME", str(home))
    assert find_java().version[0] == int(version.split(".", maxsplit=1)[0].split("-", maxsplit=1)[0])


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("1.8.0_402", "it is Java 1.8.0, and Spark needs 17 or later"),
        ("11.0.2", "it is Java 11.0.2, and Spark needs 17 or later"),
        ("25.0.0", "can damage compressed data"),
        ("25.0.2", "can damage compressed data"),
        ("", "does not say which Java it is"),
    ],
)
def test_a_wrong_java_is_one_sentence_with_the_command_that_helps(
    version: str, said: str, tmp_path: Path, nowhere: pytest.MonkeyPatch
) -> None:
    home = str(fake(tmp_path, version))
    nowhere.setenv("JAVA_HOME", home)
    for java_home in (home, None):
        with pytest.raises(SparkMissingError) as caught:
            find_java(java_home)
        assert said in str(caught.value)
        assert "pip install 'kafka-kdump[spark]'" in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_wrong_java_is_passed_over_where_another_one_is(tmp_path: Path, nowhere: pytest.MonkeyPatch) -> None:
    nowhere.setenv("JAVA_HOME", str(fake(tmp_path / "old", "11.0.2")))
    good = fake(tmp_path / "good", "21.0.8") / "bin" / "java"
    nowhere.setattr(java, "_of_wheel", lambda: str(good))
    assert find_java().path == str(good)


def test_a_directory_without_java_is_said_to_be_one(tmp_path: Path) -> None:
    with pytest.raises(SparkMissingError, match=f"--java-home {tmp_path}: no Java is there"):
        find_java(str(tmp_path))


@pytest.mark.usefixtures("nowhere")
def test_without_any_java_the_command_that_helps_is_named() -> None:
    with pytest.raises(SparkMissingError, match=r"no Java that Spark runs on: pip install 'kafka-kdump\[spark\]'"):
        find_java()
